"""Where a kernel comes from: a PTX file, CUDA C++, or a Triton function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rift.errors import WrongUsage
from rift_compiler.emulator.arguments import Argument


@dataclass(frozen=True)
class Kernel:
    """All of a launch but its grid."""

    ptx: str
    entry: str | None
    block: tuple[int, ...]
    smem_bytes: int
    args: tuple[Argument, ...]


def kernel_of(
    source: str, args: Sequence[Argument], *, target: str, compiler: str,
    constants: Sequence[str], warps: int, stages: int, entry: str | None,
    block: tuple[int, ...] | None, smem_bytes: int, blocks: int,
) -> Kernel:  # fmt: skip
    """The kernel that `source` names, compiled if need be.

    Raises WrongUsage for a file that is not there or of no known kind; what compilers raise.
    """
    file, _, name = source.partition(":")
    path = Path(file)
    if path.suffix not in (".ptx", ".cu", ".py"):
        raise WrongUsage(f"{source}: expected FILE.ptx, FILE.cu or FILE.py:NAME")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"cannot read {file}: {error}") from error
    if path.suffix == ".py":
        from rift_compiler.emulator.triton_source import compile_file

        if block is not None or smem_bytes:
            raise WrongUsage("--block and --smem: a Triton kernel says them itself")
        made = compile_file(path, name, args, constants, target, warps, stages, blocks)
        return Kernel(made.ptx, made.entry, made.block, made.smem_bytes, made.args)
    if block is None:
        raise WrongUsage("expected --block: the threads of a block, such as 256 or 16,16")
    if path.suffix == ".cu":
        from rift_compiler.build_cuda import compile_cuda

        text = compile_cuda(text, target, compiler=compiler).ptx
    return Kernel(text, entry, block, smem_bytes, tuple(args))
