"""`rift emulate`: run and check a CUDA kernel with no GPU."""

from __future__ import annotations

from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rift.errors import Failed, WrongUsage
from rift.terminal import listing, out, print_json, say

if TYPE_CHECKING:
    from rift_compiler.emulator import Counts, Result

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def emulate(
    source: Annotated[
        str, typer.Argument(help="FILE.ptx, FILE.cu, or FILE.py:NAME, a @triton.jit function.")
    ],
    entry: Annotated[str | None, typer.Option(help="The kernel, if the file has several.")] = None,
    grid: Annotated[str, typer.Option(help="Blocks: x, x,y or x,y,z.")] = "1",
    block: Annotated[
        str | None, typer.Option(help="Threads of a block: x, x,y or x,y,z. Not for Triton.")
    ] = None,
    smem: Annotated[int, typer.Option(help="Dynamic shared memory, bytes. Not for Triton.")] = 0,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            help="An argument, in order: in:A.npy, inout:A.npy, out:C.npy:float32:512,512, "
            "i32:512, f32:0.5, tensormap:in:A.npy:box=64,64:swizzle=128, null."
        ),
    ] = None,
    constant: Annotated[
        list[str] | None, typer.Option(help="A constexpr of a Triton kernel: BLOCK=128.")
    ] = None,
    target: Annotated[str, typer.Option(help="For FILE.cu and Triton: sm_80, sm_90a ..")] = "sm_80",
    compiler: Annotated[str, typer.Option(help="For FILE.cu: nvrtc or nvcc.")] = "nvrtc",
    warps: Annotated[int, typer.Option(help="Of a Triton kernel.")] = 4,
    stages: Annotated[int, typer.Option(help="Of a Triton kernel.")] = 3,
    checks: Annotated[
        str,
        typer.Option(
            help="all, none, or some of races, uninitialised, bounds, barriers, async, counters."
        ),
    ] = "all",
    seed: Annotated[int, typer.Option(help="Above 0: threads and copies in a random order.")] = 0,
    exact: Annotated[
        bool, typer.Option("--exact", help="Tensor-core products rounded as the target does.")
    ] = False,
    limit: Annotated[float, typer.Option(help="Stop the kernel after so many seconds.")] = 300.0,
    counts: Annotated[bool, typer.Option("--counts", help="Show the counters too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Run a kernel on this processor and report what is wrong with it; exit 1 on findings."""
    from rift_compiler.emulator import launch
    from rift_compiler.emulator.arrays import Arrays
    from rift_compiler.emulator.sources import kernel_of

    arrays = Arrays()
    args = [arrays.argument(text) for text in arg or []]
    blocks = sizes("grid", grid) or (1,)
    kernel = kernel_of(
        source, args, target=target, compiler=compiler, constants=constant or [], warps=warps,
        stages=stages, entry=entry, block=sizes("block", block), smem_bytes=smem,
        blocks=prod(blocks),
    )  # fmt: skip
    result = launch(
        kernel.ptx, kernel.entry, blocks, kernel.block, kernel.args,
        kernel.smem_bytes, checks, seed, exact=exact, limit_s=limit,
    )  # fmt: skip
    arrays.save()
    _print(result, counts, as_json)
    if result.findings:
        raise Failed(f"{len(result.findings)} findings in {Path(source).name}")


def sizes(what: str, text: str | None) -> tuple[int, ...] | None:
    """`4,4` as numbers. Raises WrongUsage for anything else."""
    if text is None:
        return None
    try:
        return tuple(int(n) for n in text.split(","))
    except ValueError as error:
        raise WrongUsage(f"--{what}: expected sizes such as 4,4, got {text!r}") from error


def _print(result: Result, counts: bool, as_json: bool) -> None:
    if as_json:
        return print_json(asdict(result))
    for finding in result.findings:
        print(finding)
    if counts and result.counts:
        _print_counts(result.counts)
    if not result.findings:
        say("no findings")
    say(f"built in {result.build_seconds:.2f} s, ran in {result.run_seconds:.2f} s")


def _print_counts(counts: Counts) -> None:
    table = listing("LINE", "SOURCE", "ACCESSES", "WAVEFRONTS", "IDEAL", "SECTORS", "PTX")
    for each in counts.lines:
        numbers = (each.accesses, each.wavefronts, each.ideal, each.sectors)
        table.add_row(
            str(each.line), Path(each.source or "-").name, *(f"{n:,}" for n in numbers), each.text
        )
    out.print(table)
    executed = sorted(counts.executed.items(), key=lambda item: -item[1])
    print("executed:", ", ".join(f"{name} {n:,}" for name, n in executed))
