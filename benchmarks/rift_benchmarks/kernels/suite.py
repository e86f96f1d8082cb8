"""One `rift bench --suite kernels`: a process for each allocator, then the run's files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from pydantic import TypeAdapter

from rift import machine
from rift.errors import Blocked
from rift_benchmarks import run_directory
from rift_benchmarks.kernels import allocators, report
from rift_benchmarks.kernels.limits import Limits, best
from rift_benchmarks.kernels.result import Machine, Result, Row, to_json
from rift_benchmarks.kernels.worker import Task
from rift_benchmarks.run_directory import Run
from rift_compiler import build_cpp
from rift_compiler.version import compiler_version, device, stock_version

WORKER = "rift_benchmarks.kernels.worker"
NEEDED_BYTES = 4_000_000_000  # a rotation of 1.1 GB, or arrays of 1.2 GB, and torch itself
_ROW, _LIMITS = TypeAdapter(Row), TypeAdapter(list[Limits])
Show = Callable[[str], None]


@dataclass
class Told:
    """What the workers have told so far."""

    rows: list[Row] = field(default_factory=list)
    limits: dict[str, dict[int, Limits]] = field(default_factory=dict)
    caches: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def execute(task: Task, names: Sequence[str], say: Show, show: Show) -> tuple[Run, Result]:
    """Measure, write the run, and return it; interrupted, it has what had been measured."""
    available = machine.available_memory_bytes()
    if available < NEEDED_BYTES:
        raise Blocked(
            f"the suite rotates buffers of more than 1 GB: it needs {NEEDED_BYTES / 1e9:.0f} GB of "
            f"memory, this machine has {available / 1e9:.1f} GB free"
        )
    build_cpp.compiler()  # raises Blocked where there is none
    environments = {name: allocators.environment(name) for name in names}
    run = run_directory.create("kernels", "quick" if task.quick else "full")
    told = Told(notes=_busy())
    try:
        for name, environment in environments.items():
            _work(run, name, environment, task, told, show)
    except KeyboardInterrupt:
        _write(run, task, told, "interrupted")
        say(f"interrupted: run {run.id} has what had been measured; report: {run.report}")
        raise
    return run, _write(run, task, told, "complete")


def _work(
    run: Run, name: str, environment: dict[str, str], task: Task, told: Told, show: Show
) -> None:
    """Run one worker to its end; its death is a note of the result."""
    command = [sys.executable, "-m", WORKER, json.dumps(asdict(task))]
    path = run.directory / f"worker-{name}.log"
    with (
        path.open("w", encoding="utf-8") as log,
        subprocess.Popen(
            command, env=environment, text=True, stdout=subprocess.PIPE, stderr=log
        ) as process,
    ):
        try:
            for line in _lines(process):
                take(name, line["kind"], line["value"], told, show)
            if process.wait():
                ended = f"the worker ended with {process.returncode}; see {path}"
                told.failures.append(f"{name}: {ended}")
        finally:
            process.kill()


def _lines(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield json.loads(line)


def take(allocator: str, kind: str, value: Any, told: Told, show: Show) -> None:
    """Note one thing that a worker told."""
    if kind == "progress":
        show(f"{allocator} allocator: {value}")
    elif kind == "row":
        told.rows.append(_ROW.validate_python(value))
    elif kind == "limits":
        held = told.limits.setdefault(allocator, {})
        for m in _LIMITS.validate_python(value):
            held[m.threads] = best(held[m.threads], m) if m.threads in held else m
    elif kind == "caches":
        told.caches[allocator] = value
    else:
        assert kind == "failed", kind
        told.failures.append(f"{allocator}: {value}")


def _write(run: Run, task: Task, told: Told, status: Literal["complete", "interrupted"]) -> Result:
    result = Result(
        "rift.bench.kernels/1", run.id, status, run.created, device(), task.quick,
        tuple(told.notes), tuple(told.failures),
        tuple(
            Machine(name, tuple(by_threads.values()), told.caches.get(name, {}))
            for name, by_threads in told.limits.items()
        ),
        tuple(bounded(row, told.limits[row.allocator][row.threads]) for row in told.rows),
    )  # fmt: skip
    run_directory.write_json(run.manifest, _manifest(task))
    run_directory.write_text(run.result, to_json(result))
    run_directory.write_text(run.report, report.page(run, result))
    return result


def bounded(row: Row, limits: Limits) -> Row:
    """The row against the best limits of the whole run."""
    bound, limit_s = limits.bound(
        row.dtype, row.operations, row.level, row.bytes_read, row.bytes_written
    )
    return replace(row, bound=bound, limit_s=limit_s)


def _busy() -> list[str]:
    """What there is to say of others' work on this machine before ours starts."""
    load, cores = os.getloadavg()[0], len(os.sched_getaffinity(0))
    if load < 0.25 * cores:
        return []
    return [
        f"the machine was busy before the run: load {load:.1f} on {cores} cores; figures suffer"
    ]


def _manifest(task: Task) -> dict[str, Any]:
    described = run_directory.describe()
    return {
        **described,
        "torch": stock_version(),
        "compiler": compiler_version(),
        "cxx": build_cpp.compiler(),
        "cxx_flags": build_cpp.FLAGS,
        "task": asdict(task),
    }
