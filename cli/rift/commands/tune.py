"""`rift tune`: measure our kernels against torch's, and show what was decided."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rift.commands.compile import read_source
from rift.errors import WrongUsage
from rift.terminal import Status, listing, out, print_json, printable, say

if TYPE_CHECKING:
    from rift_compiler.trials import Trial

SHOWN_INPUTS = 4
app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(no_args_is_help=True)
def tune(
    source: Annotated[
        str | None, typer.Argument(help="FILE.py:NAME, a module or function.")
    ] = None,
    expression: Annotated[
        str | None, typer.Option("-c", help="A one-line PyTorch expression instead of a file.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(help="An input: x=1,seq,2048[:float16]. Names are sizes that may change."),
    ] = None,
    size: Annotated[list[str] | None, typer.Option(help="A size to expect: seq=128.")] = None,
    threads: Annotated[
        str | None, typer.Option(help="Numbers of threads, 1,2 (default: torch's own).")
    ] = None,
    inductor: Annotated[
        bool, typer.Option("--inductor", help="Measure TorchInductor too; takes longer.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the records.")] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="With --show: of other versions and machines too.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Measure our kernels against torch's own; torch.compile(backend="rift") uses the faster."""
    if all_ and not show:
        raise WrongUsage("--all goes with --show")
    if show:
        if source or expression or shape or size or threads or inductor:
            raise WrongUsage("--show prints records and measures nothing: give it alone")
        return _show(all_, as_json)
    if (source is None) == (expression is None):
        raise WrongUsage("expected one of FILE.py:NAME, -c EXPRESSION and --show")
    counts = thread_counts(threads) if threads else None
    found = read_source(source, expression, shape or [], size or [])
    import torch

    from rift_compiler.tune import tune as tune_

    with Status() as status:
        status.show("compiling")
        trials = tune_(found, counts or [torch.get_num_threads()], inductor, status.show)
    _print(trials, as_json)


def thread_counts(text: str) -> list[int]:
    """1,2 as numbers. Raises WrongUsage."""
    if not re.fullmatch(r"[1-9]\d{0,3}(,[1-9]\d{0,3})*", text):
        raise WrongUsage(f"--threads: expected numbers such as 1,2, got {text!r}")
    return [int(n) for n in text.split(",")]


def _show(all_: bool, as_json: bool) -> None:
    from rift_compiler import trials
    from rift_compiler.version import compiler_version, device, stock_version

    every = trials.every()
    here = (device(), compiler_version(), stock_version())
    current = [t for t in every if (t.of.device, t.of.compiler, t.of.stock) == here]
    shown = every if all_ else current
    others = len(every) - len(shown)
    _print(shown, as_json)
    if others:
        say(f"{others} records of other versions of the compiler or torch, or machines: --all")


def _print(trials: list[Trial], as_json: bool) -> None:
    if as_json:
        return print_json([asdict(t) for t in trials])
    if not trials:
        return say('no records; measure with: rift tune -c EXPRESSION, or torch.compile "rift"')
    table = listing("RUNS", "THREADS", "OURS us", "EAGER us", "INDUCTOR us", "PROBLEM")
    for column in table.columns[1:5]:
        column.justify = "right"
    for t in trials:
        times = [_micros(t, way) for way in ("ours", "eager", "inductor")]
        table.add_row(t.choice, str(t.of.threads), *times, _problem(t))
    out.print(table)
    for device, allocator in sorted({(t.of.device, t.of.allocator) for t in trials}):
        say(f"medians, warm, on {device}; allocator: {allocator}")


def _micros(t: Trial, way: str) -> str:
    found: Any = t.times_s.get(way)
    return f"{found.median_s * 1e6:,.1f}" if found else "-"


def _problem(t: Trial) -> str:
    reason = f" ({t.reason})" if t.reason else ""
    inputs = t.of.shapes.split(" ")
    more = [f"... ({len(inputs)} inputs)"] if len(inputs) > SHOWN_INPUTS else []
    shapes = " ".join([*inputs[:SHOWN_INPUTS], *more])
    return printable(f"{t.what} {shapes}{reason}").replace("[", r"\[")
