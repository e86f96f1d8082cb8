"""`rift runs`: look at what was measured."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.table import Table

from rift.errors import Failed
from rift.terminal import out, print_json, printable, say
from rift_benchmarks import run_directory

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Look at benchmark runs.")
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


@app.command(name="list")
def list_(as_json: Json = False) -> None:
    """Every run, newest first."""
    runs = [(run, run.read_result()) for run in run_directory.listed()]
    if as_json:
        return print_json(
            [
                {
                    "id": run.id,
                    "created": run.created,
                    "suite": run.suite,
                    "directory": str(run.directory),
                    "status": result.status if result else "unfinished",
                    "model": result.model if result else None,
                }
                for run, result in runs
            ]
        )
    if not runs:
        return say("no runs; make one with: rift bench --suite llm --deploy smollm2-135m")
    table = Table(box=None, pad_edge=False)
    for column in ("RUN", "MODEL", "BEST OUT TOK/S", "STATUS"):
        table.add_column(column, overflow="fold")
    for run, result in runs:
        rates = (
            [lv.steady.output_tokens_per_s for lv in result.levels if lv.steady] if result else []
        )
        status: str = result.status if result else "unfinished"
        if result and result.failed:
            status += f", {result.failed} failed"
        best = f"{max(rates):,.1f}" if rates else ""
        table.add_row(run.id, printable(result.model if result else ""), best, status)
    out.print(table, markup=False)


@app.command()
def show(
    run: Annotated[str, typer.Argument(help="A run's id, the beginning of one, or `latest`.")],
    as_json: Json = False,
) -> None:
    """One run's figures and where its files are."""
    found = run_directory.get(run)
    result = found.read_result()
    if result is None:
        raise Failed(f"run {found.id} ended before it had a result; its records: {found.requests}")
    if as_json:
        print(json.dumps(json.loads(found.result.read_text(encoding="utf-8")), indent=2))
        return
    from rift_benchmarks.report import print_table

    print_table(result, out)
    say(f"run {found.id}; report: {found.report}")
