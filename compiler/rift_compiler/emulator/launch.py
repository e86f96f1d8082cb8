"""A launch: PTX, grid, block and arguments in; arrays written, findings and counts out."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable, Sequence

import numpy as np

from rift.errors import Failed, WrongUsage
from rift_compiler.emulator.arguments import Argument, pack
from rift_compiler.emulator.build import build_kernel
from rift_compiler.emulator.findings import CHECKS, IN_CODE, KINDS, Result
from rift_compiler.emulator.layout import ARENA_BASE
from rift_compiler.emulator.limits import check_launch
from rift_compiler.emulator.memory import Arena
from rift_compiler.emulator.parse import parse
from rift_compiler.emulator.ptx import Instruction, Module
from rift_compiler.emulator.report import counts_of, findings_of
from rift_compiler.emulator.translate import entry_of, translate

Size = int | Sequence[int]


class _Launch(ctypes.Structure):
    """struct Launch of runtime/machine.h."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in (
            "arena", "arena_base", "arena_bytes", "regions", "granules", "written", "params",
            "counts", "lines", "line_counts", "stack_bytes", "proxies",
        )),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        *((name, ctypes.c_uint32) for name in (
            "static_shared", "dynamic_shared", "local_bytes", "checks", "seed", "exact", "arch",
            "random_landing",
        )),
        ("limit_s", ctypes.c_double),
    )  # fmt: skip


def launch(
    ptx: str,
    entry: str | None,
    grid: Size,
    block: Size,
    args: Sequence[Argument],
    smem_bytes: int = 0,
    checks: str | Iterable[str] = "all",
    seed: int = 0,
    *,
    exact: bool = False,
    limit_s: float = 300.0,
) -> Result:
    """Runs one kernel of a PTX text on this machine's processor.

    grid and block are one to three sizes, x first; args are NumPy arrays (written in place, unless
    read-only), `Output(array)` for one that holds nothing yet, `TensorMap`s, numbers, and bytes
    for a struct. smem_bytes is dynamic shared memory. checks is "all", "none" or names of CHECKS.
    seed 0 runs threads in order and lets asynchronous copies land as late as possible; another
    makes both random. exact computes tensor-core products with the target's own rounding instead
    of single precision. limit_s stops a kernel that does not end.

    Raises WrongUsage for PTX that is malformed or not understood, and for arguments that do not
    fit; Blocked where there is no C++ compiler, no x86-64 or too little memory.
    """
    started = time.perf_counter()
    module = parse(ptx)
    kernel = entry_of(module, entry)
    chosen = _checks(checks)
    shape = _three("grid", grid), _three("block", block)
    translated = translate(module, kernel)
    layout = translated.layout
    check_launch(module, kernel, *shape, layout.static_shared_bytes, smem_bytes, seed)
    library = ctypes.CDLL(str(build_kernel(translated.source, any(c in chosen for c in IN_CODE))))
    built = time.perf_counter()

    arena = Arena(layout.image, layout.image_bytes)
    packed = pack(kernel, layout.params, layout.params_bytes, args, arena)
    params = arena.hold(packed or b"\0")
    arena.make()
    lines = ptx.count("\n") + 2
    counts = np.zeros(max(1, len(translated.blocks)), np.uint64)
    line_counts = np.zeros((lines + 1, 4), np.uint64)
    given = _Launch(
        arena=arena.bytes.ctypes.data, arena_base=ARENA_BASE, arena_bytes=arena.bytes.size,
        regions=arena.regions.ctypes.data, granules=arena.granules.ctypes.data,
        written=arena.written.ctypes.data, params=params, counts=counts.ctypes.data,
        lines=lines, line_counts=line_counts.ctypes.data,
        grid=(ctypes.c_uint32 * 3)(*shape[0]), block=(ctypes.c_uint32 * 3)(*shape[1]),
        static_shared=layout.static_shared_bytes, dynamic_shared=smem_bytes,
        local_bytes=translated.local_bytes, checks=_mask(chosen), seed=seed, exact=exact,
        arch=_arch(module), random_landing=seed != 0, limit_s=limit_s,
        stack_bytes=translated.stack_bytes, proxies=translated.proxies,
    )  # fmt: skip
    cpu = time.process_time()
    if library.rift_launch(ctypes.byref(given)):
        raise Failed("no memory for the kernel's threads")
    cpu = time.process_time() - cpu
    arena.read_back()
    sources = _sources(translated.blocks)
    findings = findings_of(library, module, sources)
    if "counters" not in chosen:
        counted = None
    else:
        counted = counts_of(module, sources, translated.blocks, counts, line_counts)
    done = time.perf_counter()
    return Result(findings, counted, built - started, done - built, cpu)


def _three(what: str, size: Size) -> tuple[int, int, int]:
    given = (size,) if isinstance(size, int) else tuple(size)
    if not 1 <= len(given) <= 3 or any(n < 1 for n in given):
        raise WrongUsage(f"{what}: expected one to three sizes of at least 1, got {given}")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def _checks(checks: str | Iterable[str]) -> tuple[str, ...]:
    if checks == "all":
        return CHECKS
    names = checks.split(",") if isinstance(checks, str) else list(checks)
    names = [] if names == ["none"] else names
    for name in names:
        if name not in CHECKS:
            raise WrongUsage(f"checks: expected all, none or {', '.join(CHECKS)}, got {name!r}")
    return tuple(names)


def _mask(chosen: tuple[str, ...]) -> int:
    return sum(1 << i for i, (_, check) in enumerate(KINDS) if check is None or check in chosen)


def _arch(module: Module) -> int:
    digits = "".join(c for c in module.target if c.isdigit())
    return int(digits or 0)


def _sources(blocks: Iterable[tuple[Instruction, ...]]) -> dict[int, tuple[int, int] | None]:
    """Where each PTX line comes from."""
    return {ins.line: ins.source for block in blocks for ins in block}
