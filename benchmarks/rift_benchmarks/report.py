"""A run as one self-contained HTML page, and as a table in the terminal."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import jinja2
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rift.terminal import printable
from rift_benchmarks import cost, plots
from rift_benchmarks.result import Level, Result
from rift_benchmarks.run_directory import Run

DASH = "–"  # noqa: RUF001 - an en dash, as printed where a figure cannot be known


def number(value: float | None, digits: int, scale: float = 1.0) -> str:
    """A figure for people; a dash where it is not known."""
    return DASH if value is None else f"{value * scale:,.{digits}f}"


def millis(seconds: float | None) -> str:
    """Seconds as milliseconds: one decimal under 100 ms."""
    return number(seconds, 1 if seconds is not None and seconds < 0.1 else 0, 1e3)


def money(value: float | None) -> str:
    """A price to three significant digits, so that a small one is not 0.00."""
    if value is None or value >= 100:
        return number(value, 0)
    return f"{value:#.3g}"


def page(run: Run, result: Result) -> str:
    """The report. Everything that came from outside is escaped; plots hold only numbers."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {"num": number, "ms": millis, "money": money}
    manifest: dict[str, Any] = json.loads(run.manifest.read_text(encoding="utf-8"))
    deployment = manifest["endpoint"]["deployment"]
    return environment.get_template("report.html.j2").render(
        result=result,
        manifest=manifest,
        command=shlex.join(manifest["command"]),
        engine_command=_engine_command(deployment) if deployment else None,
        plots=_plots(run, result),
        how_to_price=cost.HOW_TO[0].upper() + cost.HOW_TO[1:],
    )


def _engine_command(deployment: dict[str, Any]) -> str:
    pairs = [f"{key}={shlex.quote(value)}" for key, value in deployment["environment"].items()]
    return " ".join([*pairs, shlex.join(deployment["command"])])


def _plots(run: Run, result: Result) -> dict[str, Any] | None:
    """The plots of the levels that have something to show."""
    measured = (
        [r for r in run.read_records() if r.phase == "measure"] if run.requests.exists() else []
    )
    good = [r for r in measured if r.error is None]
    shown = [level for level in result.levels if level.completed]
    if not shown:
        return None
    concurrencies = [level.concurrency for level in shown]
    return {
        "pareto": plots.pareto(shown),
        "latencies": plots.latencies(good, concurrencies),
        "timelines": [
            (c, plots.timeline([r for r in measured if r.concurrency == c], c))
            for c in concurrencies
        ],
    }


def print_table(result: Result, console: Console) -> None:
    """The end of a run, to fit 80 columns."""
    table = Table(
        title=Text(printable(_title(result))), title_justify="left", pad_edge=False, box=None
    )
    columns = ["Conc", "out\ntok/s", "total\ntok/s", "TTFT\nms", "p99", "TPOT\nms", "p99", "failed"]
    if result.price:
        columns += [f"{result.price.currency}/M\nout", f"{result.price.currency}/M\ntotal"]
    for column in columns:
        table.add_column(column, justify="right", overflow="fold")  # no digit is ever cut off
    for level in result.levels:
        table.add_row(*_row(level, priced=result.price is not None))
    console.print(table)
    for note in [*_failures(result), *result.notes]:
        console.print(f"  ! {printable(note)}", markup=False, highlight=False)
    if result.price is None:
        console.print(f"  {cost.HOW_TO}", markup=False, highlight=False)


def _title(result: Result) -> str:
    shape = f"{result.input_tokens} in + {result.output_tokens} out"
    state = "" if result.status == "complete" else " - INTERRUPTED"
    return f"{result.model}: {shape} tokens a request{state}"


def _row(level: Level, priced: bool) -> list[str]:
    steady = level.steady
    row = [
        str(level.concurrency),
        number(steady.output_tokens_per_s if steady else None, 1),
        number(steady.total_tokens_per_s if steady else None, 1),
        millis(level.ttft_s.median),
        millis(level.ttft_s.p99),
        millis(level.tpot_s.median),
        millis(level.tpot_s.p99),
        f"{level.failed}/{level.requests}",
    ]
    if priced:
        row.append(money(level.cost.output_per_million if level.cost else None))
        row.append(money(level.cost.total_per_million if level.cost else None))
    return row


def _failures(result: Result) -> list[str]:
    return [
        f"concurrency {level.concurrency}: {level.failed} of {level.requests} requests failed; "
        f"first: {level.first_failure}"
        for level in result.levels
        if level.failed
    ]
