"""The process of one allocator: measures every problem, and tells the suite, a JSON line each."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rift_benchmarks.kernels import limits, measuring, problems
from rift_benchmarks.kernels.measure_limits import measure
from rift_benchmarks.kernels.measuring import Setting

Tell = Callable[[str, Any], None]
QUICK = Setting(budget_s=0.1, rounds=5, inductor=True)
FULL = Setting(budget_s=0.4, rounds=9, inductor=True)


@dataclass(frozen=True)
class Task:
    """What a worker is to measure."""

    only: str | None
    quick: bool
    threads: tuple[int, ...]
    ram_bytes: int = limits.RAM_BYTES
    rotated_bytes: int = measuring.ROTATED_BYTES


def work(task: Task, tell: Tell) -> None:
    """Measure limits, all problems, and limits again: the machine may have been busy before."""
    known = limits.caches()
    usual = QUICK if task.quick else FULL
    setting = Setting(usual.budget_s, usual.rounds, usual.inductor, task.rotated_bytes)
    before = {}
    for n in task.threads:
        tell("progress", f"limits of {n} threads")
        before[n] = measure(n, known, task.ram_bytes)
    tell("limits", [asdict(m) for m in before.values()])
    tell("caches", known)
    asked = problems.chosen(task.only, task.quick)
    for done, problem in enumerate(asked):
        progress = _progress(tell, f"{done + 1}/{len(asked)}")
        try:
            for row in measuring.rows(problem, before, known, setting, progress):
                tell("row", asdict(row))
        except Exception as error:  # one problem's failure is a result of the run
            tell("failed", f"{problem.name}: {type(error).__name__}: {error}")
    for n in task.threads:
        tell("progress", f"limits of {n} threads, again")
        tell("limits", [asdict(measure(n, known, task.ram_bytes))])


def _progress(tell: Tell, head: str) -> Callable[[str], None]:
    return lambda text: tell("progress", f"{head} {text}")


def main() -> None:
    """Run the task given as JSON; standard output is for lines of ours alone."""
    given = json.loads(sys.argv[1])
    task = Task(**{**given, "threads": tuple(given["threads"])})
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(kind: str, value: Any) -> None:
        lines.write(json.dumps({"kind": kind, "value": value}, allow_nan=False) + "\n")
        lines.flush()

    work(task, tell)


if __name__ == "__main__":
    main()
