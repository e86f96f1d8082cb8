"""`rift compile`: PyTorch to kernels, every stage readable."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rift.errors import Failed, WrongUsage
from rift.terminal import Status, listing, out, print_json, say

if TYPE_CHECKING:
    from rift_compiler.api import Compiled
    from rift_compiler.build_cuda import CudaBinary
    from rift_compiler.sources import Source

IRS = ("torch", "tensor", "loop", "tile", "cpp", "cuda", "ptx", "sass")
CUDA_IRS = ("cuda", "ptx", "sass")
DEFAULT_CUDA = "sm_90a"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def compile(
    source: Annotated[
        str | None, typer.Argument(help="FILE.py:NAME, a module or function.")
    ] = None,
    expression: Annotated[
        str | None, typer.Option("-c", help="A one-line PyTorch expression instead of a file.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="cpu (default), sm_80, sm_89, sm_90a or sm_120a.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(help="An input: x=1,seq,2048[:float16]. Names are sizes that may change."),
    ] = None,
    size: Annotated[list[str] | None, typer.Option(help="A size to expect: seq=128.")] = None,
    ir: Annotated[str | None, typer.Option(help=f"Print a stage: {', '.join(IRS)}.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what each rule did.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run the program before and after every rule; compare.")
    ] = False,
    compiler: Annotated[str, typer.Option(help="For CUDA: nvrtc or nvcc.")] = "nvrtc",
    is_associative: Annotated[
        str | None,
        typer.Option(help="Ask of a loop's step, 'lambda s, x: ...': is it a parallel fold?"),
    ] = None,
    init: Annotated[str | None, typer.Option(help="The state that the step starts from.")] = None,
    check_ops: Annotated[
        bool, typer.Option("--check-ops", help="Compare every op with PyTorch; SOURCE names some.")
    ] = False,
    samples: Annotated[int, typer.Option(help="Of --check-ops, per op and element type.")] = 2,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Compile PyTorch to fused kernels; print any stage, or check them against PyTorch."""
    if is_associative is not None:
        return _associative(is_associative, init, as_json)
    if check_ops:
        return _check_ops(source, target or "cpu", samples, as_json)
    if (source is None) == (expression is None):
        raise WrongUsage("expected one of FILE.py:NAME and -c EXPRESSION; see rift compile --help")
    if ir is not None and ir not in IRS:
        raise WrongUsage(f"--ir: expected one of {', '.join(IRS)}, got {ir!r}")
    found = read_source(source, expression, shape or [], size or [])
    chosen = _target(target, ir)
    from rift_compiler import compile as compile_

    started = time.perf_counter()
    with Status() as status:
        status.show("compiling")
        made = compile_(found.function, found.inputs, target=chosen, dynamic=found.dynamic or None)
    seconds = time.perf_counter() - started
    if ir is not None:
        return print(_stage(made, ir, compiler).rstrip())
    if explain:
        from rift_compiler.explain import explain as lines

        return print("\n".join(lines(made.stages)))
    if verify:
        return _verify(made, found, as_json)
    _report(made, found, seconds, compiler, as_json)


def read_source(
    place: str | None, expression: str | None, shapes: list[str], sizes: list[str]
) -> Source:
    """What a command was given to compile. Raises WrongUsage."""
    from rift_compiler.sources import from_expression, from_file

    if expression is not None:
        if shapes or sizes:
            raise WrongUsage("--shape and --size go with FILE.py:NAME; -c makes its own inputs")
        return from_expression(expression)
    return from_file(place or "", shapes, sizes)


def _target(target: str | None, ir: str | None) -> str:
    from rift_compiler.targets import target as named

    if target is None and ir in CUDA_IRS:
        say(f"no --target given: {DEFAULT_CUDA}")
        return DEFAULT_CUDA
    chosen = named(target or "cpu")
    if ir in CUDA_IRS and not chosen.cuda:
        raise WrongUsage(f"--ir {ir} needs a CUDA target, got {chosen.name}")
    if ir == "cpp" and chosen.cuda:
        raise WrongUsage(f"--ir cpp needs the target cpu, got {chosen.name}")
    return chosen.name


def _stage(made: Compiled, ir: str, compiler: str) -> str:
    stages = made.stages
    if ir in ("ptx", "sass"):
        from rift_compiler.build_cuda import sass

        binary = _binary(made, compiler)
        return binary.ptx if ir == "ptx" else sass(binary.cubin)
    texts: dict[str, Any] = {"torch": made.traced, "tensor": stages.tensor, "loop": stages.loop}
    if ir == "tile":
        heads = [f"# {s}" for s in stages.schedules]
        return "\n".join(f"{h}\n{k}" for h, k in zip(heads, stages.tiles, strict=True))
    return str(texts.get(ir, stages.source))


def _binary(made: Compiled, compiler: str) -> CudaBinary:
    from rift_compiler.build_cuda import compile_cuda

    return compile_cuda(made.stages.source, made.stages.target, compiler=compiler)


def _report(made: Compiled, found: Source, seconds: float, compiler: str, as_json: bool) -> None:
    """Kernels with their predicted cost, then what was measured: registers, or the error."""
    from rift_compiler.report import kernel_rows, largest_error

    rows = kernel_rows(made.stages)
    record: dict[str, Any] = {
        "target": made.stages.target,
        "compile_s": round(seconds, 3),
        "kernels": [asdict(r) for r in rows],
    }
    started = time.perf_counter()
    if made.stages.launches:
        binary = _binary(made, compiler)
        record |= {"compiler": binary.compiler, "resources": [asdict(r) for r in binary.resources]}
    else:
        made.build()
        record["error"] = asdict(largest_error(made, found.function, found.inputs))
    record["build_s"] = round(time.perf_counter() - started, 3)
    if as_json:
        return print_json(record)
    _print(record)


def _print(record: dict[str, Any]) -> None:
    table = listing("KERNEL", "MAKES", "FOLDS", "OPERATIONS", "BYTES READ", "WRITTEN")
    for row in record["kernels"]:
        table.add_row(
            row["name"], row["makes"], str(row["folds"]), f"{row['operations']:,.0f}",
            f"{row['bytes_read']:,.0f}", f"{row['bytes_written']:,.0f}",
        )  # fmt: skip
    out.print(table)
    say("operations and bytes are predicted")
    if "resources" in record:
        used = listing("KERNEL", "REGISTERS", "SPILLED BYTES", "SHARED BYTES")
        for r in record["resources"]:
            spilled = r["spill_stores_bytes"] + r["spill_loads_bytes"]
            used.add_row(r["kernel"], str(r["registers"]), str(spilled), str(r["shared_bytes"]))
        out.print(used)
    else:
        error = record["error"]
        say(f"largest difference from eager PyTorch: {error['absolute']:.3g} ({error['where']})")
    tool = record.get("compiler", "C++ compiler")
    say(f"{record['target']}: compiled in {record['compile_s']} s, {tool} {record['build_s']} s")


def _verify(made: Compiled, found: Source, as_json: bool) -> None:
    from rift_compiler.validate import validate

    rows = []
    with Status() as status:
        for row in validate(made, found.function, found.inputs):
            status.show(f"{row.stage}: {row.subject}")
            rows.append(row)
    if as_json:
        print_json([{**asdict(r), "right": r.right} for r in rows])
    else:
        table = listing("STAGE", "MAKES", "DIFFERENCE", "ALLOWED")
        for r in rows:
            table.add_row(r.stage, r.subject, f"{r.difference:.2g}", f"{r.allowed:.2g}")
        out.print(table)
    wrong = [r for r in rows if not r.right]
    if wrong:
        raise Failed(
            f"{len(wrong)} of {len(rows)} comparisons differ; the first: {wrong[0].stage}, "
            f"{wrong[0].subject}: expected a difference of at most {wrong[0].allowed:.2g}, "
            f"got {wrong[0].difference:.2g}"
        )
    say(f"{len(rows)} comparisons agree; differences are relative to each tensor's largest value")


def _associative(step: str, init: str | None, as_json: bool) -> None:
    from rift_compiler.algebra.associative import is_associative

    answer = is_associative(step, init)
    if as_json:
        return print_json(answer.to_json())
    print(answer.text())


def _check_ops(names: str | None, target: str, samples: int, as_json: bool) -> None:
    from rift_compiler import Unsupported
    from rift_compiler import compile as compile_
    from rift_compiler.differential import suite

    asked = names.split(",") if names else None
    with Status() as status:
        rows = list(
            suite.run(
                asked, target, samples, compile_, Unsupported,
                progress=lambda name, done, of: status.show(f"{done}/{of} {name}"),
            )
        )  # fmt: skip
    if as_json:
        print_json(suite.as_json(rows, asked, target))
    else:
        print("\n".join(suite.table(rows)))
    wrong = suite.totals(rows).wrong
    if wrong:
        raise Failed(f"{wrong} cases differ from PyTorch")
