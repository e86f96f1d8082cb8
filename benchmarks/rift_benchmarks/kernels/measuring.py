"""One problem under this process's allocator: ways interleaved, buffers rotated, results gated."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from rift_benchmarks.kernels import ways as ways_
from rift_benchmarks.kernels.limits import MAIN_MEMORY, Limits, level_of
from rift_benchmarks.kernels.problems import Problem
from rift_benchmarks.kernels.result import Row
from rift_benchmarks.kernels.ways import Captured, Ways
from rift_compiler import trials
from rift_compiler.agree import Agreement, agree
from rift_compiler.dispatch import faster, problem_of, what
from rift_compiler.measure import Timing, interleave
from rift_compiler.version import allocator

ROTATED_BYTES = 1_100_000_000  # all copies of a problem's inputs and outputs, where they rotate
FAULT_CALLS, LONG_S = 3, 0.5  # nobody counts page faults of a way that takes long


@dataclass(frozen=True)
class Setting:
    """How to measure: seconds for each way, at least so many samples, whether with Inductor."""

    budget_s: float
    rounds: int
    inductor: bool
    rotated_bytes: int = ROTATED_BYTES


@dataclass
class Ring:
    """Sets of inputs, and the outputs of the last call on each: a call frees the old ones first,
    so that an allocator can give their memory again, and only theirs."""

    inputs: list[tuple[torch.Tensor, ...]]
    outputs: list[Any] = field(default_factory=list)

    def call(self, run: Callable[..., Any]) -> Callable[[int], object]:
        """A way as interleave takes it: call number n uses set n, modulo their number."""
        inputs, size = self.inputs, len(self.inputs)
        self.outputs = self.outputs or [None] * size
        outputs = self.outputs

        def one(number: int) -> None:
            n = number % size
            outputs[n] = None
            outputs[n] = run(*inputs[n])

        return one


def ring(inputs: Sequence[torch.Tensor], outputs: Sequence[Any], total_bytes: int | None) -> Ring:
    """As many copies of the inputs as take total_bytes together with their outputs; else one."""
    one = _bytes(inputs) + _bytes(outputs)
    number = 1 if total_bytes is None else max(1, -(-total_bytes // one))
    copies = [tuple(t.clone() for t in inputs) for _ in range(number - 1)]
    return Ring([tuple(inputs), *copies])


def rows(
    problem: Problem,
    limits: Mapping[int, Limits],
    caches: Mapping[str, int],
    setting: Setting,
    progress: Callable[[str], None],
) -> list[Row]:
    """Measure a problem on each number of threads that limits has."""
    inputs = problem.inputs()
    ways = Ways()
    made: list[Row] = []
    with torch.no_grad():
        progress(f"{problem.name}: compiling")
        captured = ways_.capture(problem.function, inputs)
        ways_.ours(captured, inputs, ways)
        outputs = _flat(problem.function(*inputs))
        turned = ring(inputs, outputs, setting.rotated_bytes if problem.rotated else None)
        fill = turned.call(problem.function)
        for n in range(len(turned.inputs) if problem.rotated else 0):
            fill(n)
        for threads, known in limits.items():
            torch.set_num_threads(threads)
            progress(f"{problem.name}: {threads} threads, TorchInductor compiles")
            ways_.stock(problem, inputs, threads, setting.inductor, ways)
            progress(f"{problem.name}: {threads} threads, measuring")
            made.append(_row(problem, captured, ways, turned, outputs, known, caches, setting))
    return made


def _row(
    problem: Problem,
    captured: Captured,
    ways: Ways,
    turned: Ring,
    outputs: Sequence[Any],
    limits: Limits,
    caches: Mapping[str, int],
    setting: Setting,
) -> Row:
    inputs = turned.inputs[0]
    reasons = dict(ways.reasons)
    run = dict(ways.run)
    compared = _gate(run, reasons, inputs, outputs)
    calls = {name: turned.call(way) for name, way in run.items()}
    times = interleave(calls, setting.budget_s, setting.rounds)
    read, written = _bytes(inputs), _bytes(outputs)
    working = (read + written) * len(turned.inputs)
    level = level_of(working, limits.threads, caches)
    level = level if level in limits.gb_per_s else MAIN_MEMORY
    bound, limit_s = limits.bound(problem.dtype, problem.operations, level, read, written)
    row = Row(
        problem=problem.name, group=problem.group, dtype=problem.dtype, allocator=allocator(),
        threads=limits.threads, level=level, working_set_bytes=working,
        rotations=len(turned.inputs), operations=problem.operations, bytes_read=read,
        bytes_written=written, bound=bound, limit_s=limit_s, times_s=times,
        faults={n: _faults(c) for n, c in calls.items() if times[n].median_s < LONG_S},
        reasons=reasons,
        difference=compared.difference if compared and math.isfinite(compared.difference) else None,
        allowed=compared.allowed if compared else None,
        compile_s=dict(ways.compile_s), runs=faster(times),
    )  # fmt: skip
    _record(captured, inputs, row)
    return row


def _gate(
    run: dict[str, Callable[..., Any]],
    reasons: dict[str, str],
    inputs: Sequence[torch.Tensor],
    expected: Sequence[Any],
) -> Agreement | None:
    """Compare ours with eager; a wrong kernel is taken out, with the reason."""
    if "ours" not in run:
        return None
    compared = agree(_flat(run["ours"](*inputs)), expected)
    if not compared.right:
        del run["ours"]
        reasons["ours"] = f"wrong: {compared}"
    return compared


def _record(captured: Captured, inputs: Sequence[torch.Tensor], row: Row) -> None:
    """Enter what was measured as torch.compile(backend="rift") will look for it."""
    key = problem_of(captured.graph, captured.inputs(inputs))
    usual: dict[str, Timing] = {w: t for w, t in row.times_s.items() if w != "inductor"}
    trials.save(
        trials.Trial(
            key, what(captured.graph), faster(usual), row.reasons.get("ours", ""), row.times_s,
            row.difference, row.allowed,
        )
    )  # fmt: skip


def _faults(call: Callable[[int], object]) -> float:
    """Page faults a call, of the whole process."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for n in range(FAULT_CALLS):
        call(n)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / FAULT_CALLS


def _bytes(tensors: Sequence[Any]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor))


def _flat(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, list | tuple) else [outputs]
