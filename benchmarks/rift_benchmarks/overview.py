"""One line about each run on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from rift.errors import Failed
from rift_benchmarks import run_directory
from rift_benchmarks.kernels import result as kernels
from rift_benchmarks.run_directory import Run


@dataclass(frozen=True)
class Overview:
    """What a list of runs shows. status: complete, interrupted, unfinished or unreadable."""

    id: str
    created: str
    suite: str
    directory: str
    status: str
    model: str | None = None
    failed: int = 0
    best_output_tokens_per_s: float | None = None


def overviews() -> list[Overview]:
    """Every run of the index, newest first; one that cannot be read says so and hides no other."""
    return [_overview(run) for run in run_directory.listed()]


def _kernels(run: Run, facts: tuple[str, str, str, str]) -> Overview:
    if not run.result.exists():
        return Overview(*facts, status="unfinished")
    try:
        found = kernels.read(run.result)
    except Failed:
        return Overview(*facts, status="unreadable")
    return Overview(*facts, found.status, f"kernels on {found.device}", len(found.failures))


def _overview(run: Run) -> Overview:
    facts = (run.id, run.created, run.suite, str(run.directory))
    if run.suite == "kernels":
        return _kernels(run, facts)
    try:
        result = run.read_result()
    except Failed:
        return Overview(*facts, status="unreadable")
    if result is None:
        return Overview(*facts, status="unfinished")
    rates = [level.steady.output_tokens_per_s for level in result.levels if level.steady]
    return Overview(*facts, result.status, result.model, result.failed, max(rates, default=None))
