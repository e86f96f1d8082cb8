"""What the compiler did and why: each rule offered, its cost without and with it, and the code."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from rift_compiler import render_cpp, render_cuda, schedule_cpu, schedule_cuda
from rift_compiler.cost import BALANCE, Cost
from rift_compiler.fuse import plain_schedule
from rift_compiler.loop_ir import Kernel
from rift_compiler.nest import nest
from rift_compiler.pipeline import Stages
from rift_compiler.rules import RULES, split_fold
from rift_compiler.targets import target


def explain(stages: Stages) -> Iterator[str]:
    """Lines of text. Costs are predicted, and say so."""
    yield f"costs are predicted: bytes + operations / {BALANCE:g}, per kernel, caches perfect"
    laws = {r.name: r.law for r in RULES} | {"split-fold": split_fold.LAW}
    for number, step in enumerate(stages.steps, start=1):
        yield ""
        yield f"{number}. {step.rule}: {step.subject}: {'taken' if step.taken else 'not taken'}"
        for name in step.rule.split(" + "):
            if name in laws:
                yield f"   {name}: {laws[name]}"
        yield from (f"   {line}" for line in _costs(step.before, step.after))
        if step.taken and step.kernels_before:
            before, after = (code(k, stages) for k in (step.kernels_before, step.kernels_after))
            yield from (f"   {line}" for line in _diff(before, after))


def code(kernels: Sequence[Kernel], stages: Stages) -> list[str]:
    """The generated text of kernels for the program's target."""
    dims, lines = stages.tensor.dims, list[str]()
    for k in kernels:
        goal = target(stages.target)
        if goal.cuda:
            text = render_cuda.render(nest(k, schedule_cuda.schedule(k)), dims).text
        else:
            chosen = schedule_cpu.schedule(k, plain_schedule(k), goal.vectors)
            text = render_cpp.render(nest(k, chosen), dims)
        lines += text.splitlines()
    return lines


def _costs(before: Cost, after: Cost) -> Iterator[str]:
    factor = after.operations / before.operations if before.operations else 1.0
    yield (
        f"predicted {before.predicted:,.0f} -> {after.predicted:,.0f}; "
        f"kernels {before.kernels} -> {after.kernels}"
    )
    yield (
        f"bytes moved {before.bytes_moved:,.0f} -> {after.bytes_moved:,.0f}; "
        f"operations {before.operations:,.0f} -> {after.operations:,.0f} (x{factor:.2f})"
    )


def _diff(before: list[str], after: list[str]) -> Iterator[str]:
    lines = difflib.unified_diff(before, after, "before", "after", n=1, lineterm="")
    yield from lines
