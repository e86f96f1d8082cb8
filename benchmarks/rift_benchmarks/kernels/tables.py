"""The suite's figures as text in 80 columns."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.table import Table

from rift.terminal import printable
from rift_benchmarks.kernels.limits import PATTERNS, Limits
from rift_benchmarks.kernels.result import WAYS, Machine, Result, Row

DASH = "-"


def millis(seconds: float | None) -> str:
    """Milliseconds to three digits."""
    if seconds is None:
        return DASH
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def percent(share: float | None) -> str:
    """A share of one."""
    return DASH if share is None else f"{share * 100:.0f} %"


def ratio(value: float | None) -> str:
    """How many times as fast."""
    return DASH if value is None else f"{value:.2f}"


def time_of(row: Row, way: str) -> str:
    """A way's median, in ms."""
    return millis(row.times_s[way].median_s if way in row.times_s else None)


def print_result(result: Result, console: Console) -> None:
    """Limits, then a table for each allocator and number of threads, then what did not work."""
    console.print(printable(result.device), markup=False)
    for m in result.machines:
        for limits in m.limits:
            console.print(_limits(m, limits), markup=False)
    for (allocator, threads), rows in groups(result):
        console.print()
        console.print(_table(f"{allocator} allocator, {threads} threads", rows))
    for line in [*refusals(result), *result.notes, *result.failures]:
        console.print(f"  ! {printable(line)}", markup=False)
    console.print(f"  {summary(result)}", markup=False)


def groups(result: Result) -> list[tuple[tuple[str, int], list[Row]]]:
    """Rows by allocator and number of threads."""
    ordered = sorted(result.rows, key=lambda r: (r.allocator, r.threads))
    return [(k, list(rows)) for k, rows in groupby(ordered, lambda r: (r.allocator, r.threads))]


def _limits(m: Machine, limits: Limits) -> str:
    peaks = ", ".join(f"{t} {v:,.0f}" for t, v in limits.gflops.items())
    lines = [f"{m.allocator} allocator, {limits.threads} threads: FMA {peaks} GFLOP/s"]
    for level, rates in limits.gb_per_s.items():
        each = ", ".join(f"{p} {rates[p]:,.1f}" for p in PATTERNS)
        lines.append(f"  {level} ({limits.level_bytes[level] / 1e6:,.1f} MB): {each} GB/s")
    return "\n".join(lines)


def _table(title: str, rows: list[Row]) -> Table:
    table = Table(title=f"{title}; ms", title_justify="left", box=None, pad_edge=False)
    table.add_column("PROBLEM", overflow="fold")
    for column in ("LEVEL", "EAGER", "INDUCTOR", "OURS", "SPREAD", "RATIO", "LIMIT"):
        table.add_column(column, justify="right", no_wrap=True)
    for r in rows:
        table.add_row(
            r.problem, r.level, *[time_of(r, way) for way in WAYS], percent(r.spread),
            ratio(r.ratio), percent(r.of_limit("ours")),
        )  # fmt: skip
    return table


def refusals(result: Result) -> list[str]:
    """Each way that could not be measured, once."""
    found = {
        f"{r.problem}: {way}: {reason}"
        for r in result.rows
        for way, reason in r.reasons.items()
    }  # fmt: skip
    return sorted(found)


def summary(result: Result) -> str:
    """How often ours is what measured dispatch runs."""
    won = sum(r.runs == "ours" for r in result.rows)
    return (
        f"ours is the fastest, and runs, at {won} of {len(result.rows)}; "
        "RATIO: the better of eager and Inductor over ours"
    )
