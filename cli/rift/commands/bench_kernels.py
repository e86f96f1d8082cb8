"""`rift bench --suite kernels`: our kernels against torch's and Inductor's, on this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from rift.commands.tune import thread_counts
from rift.errors import WrongUsage
from rift.terminal import Status, listing, out, print_json, say

if TYPE_CHECKING:
    from rift_benchmarks.kernels.problems import Problem

DEVICES = ("cpu",)


@dataclass(frozen=True)
class Asked:
    """The suite's options as they were given."""

    device: str
    threads: str | None
    only: str | None
    quick: bool
    allocators: str


def run(asked: Asked, dry_run: bool, as_json: bool) -> None:
    """Measure, and print the table or the result document."""
    if asked.device not in DEVICES:
        raise WrongUsage(
            f"--device {asked.device}: the kernels suite runs on {', '.join(DEVICES)} today"
        )
    from rift_benchmarks.kernels import allocators, problems

    names = allocators.parse(asked.allocators)
    chosen = problems.chosen(asked.only, asked.quick)
    counts = _threads(asked.threads)
    if dry_run:
        return _plan(chosen, names, counts, as_json)
    from rift_benchmarks.kernels import suite, tables
    from rift_benchmarks.kernels.worker import Task

    task = Task(asked.only, asked.quick, counts)
    with Status() as status:
        made, result = suite.execute(task, names, say, status.show)
    if as_json:
        print(made.result.read_text(encoding="utf-8"), end="")
    else:
        tables.print_result(result, out)
    say(f"run {made.id}; report: {made.report}")
    if result.failures:
        say("rift: something failed; see above, and the logs beside the report")
        raise typer.Exit(1)


def _threads(text: str | None) -> tuple[int, ...]:
    cores = len(os.sched_getaffinity(0))
    if text is None:
        return tuple(dict.fromkeys((1, cores)))
    counts = tuple(dict.fromkeys(thread_counts(text)))
    if max(counts) > cores:
        raise WrongUsage(f"--threads: this process may use {cores} cores, got {max(counts)}")
    return counts


def _plan(
    chosen: list[Problem], names: tuple[str, ...], counts: tuple[int, ...], as_json: bool
) -> None:
    if as_json:
        return print_json(
            {
                "allocators": names,
                "threads": counts,
                "problems": [{"name": p.name, "rotated": p.rotated} for p in chosen],
            }
        )
    table = listing("PROBLEM", "BUFFERS", "OPERATIONS")
    for p in chosen:
        table.add_row(p.name, "rotated" if p.rotated else "one set", f"{p.operations:,.0f}")
    out.print(table)
    say(f"{len(chosen)} problems, threads {counts}, allocators {', '.join(names)}")
