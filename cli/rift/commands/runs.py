"""`rift runs`: look at what was measured."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from rift.errors import Failed
from rift.terminal import listing, out, print_json, printable, say
from rift_benchmarks import run_directory
from rift_benchmarks.overview import overviews
from rift_benchmarks.run_directory import Run

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Look at benchmark runs.")
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


@app.command(name="list")
def list_(as_json: Json = False) -> None:
    """Every run, newest first."""
    runs = overviews()
    if as_json:
        return print_json([asdict(run) for run in runs])
    if not runs:
        return say("no runs; make one with: rift bench --suite llm --deploy smollm2-135m")
    table = listing("RUN", "MODEL", "BEST OUT TOK/S", "STATUS")
    for run in runs:
        best = run.best_output_tokens_per_s
        status = f"{run.status}, {run.failed} failed" if run.failed else run.status
        rate = "" if best is None else f"{best:,.1f}"
        table.add_row(run.id, escape(printable(run.model or "")), rate, status)
    out.print(table)


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="A run's id, the beginning of one, or `latest`.")],
    as_json: Json = False,
) -> None:
    """One run's figures and where its files are."""
    found = run_directory.get(run)
    if found.suite == "kernels":
        return _show_kernels(found, as_json)
    result = found.read_result()
    if result is None:
        raise Failed(f"run {found.id} ended before it had a result; its records: {found.requests}")
    if as_json:
        print(json.dumps(json.loads(found.result.read_text(encoding="utf-8")), indent=2))
        return
    from rift_benchmarks.report import print_table

    print_table(result, out)
    say(f"run {found.id}; report: {found.report}")


def _show_kernels(found: Run, as_json: bool) -> None:
    from rift_benchmarks.kernels import tables
    from rift_benchmarks.kernels.result import read

    result = read(found.result)
    if as_json:
        print(found.result.read_text(encoding="utf-8"), end="")
        return
    tables.print_result(result, out)
    say(f"run {found.id}; report: {found.report}")
