"""Pass: Loop IR to Loop IR: cut a kernel in two where its own outputs keep a GPU too idle.

A decode step has a few rows and thousands of keys: one lane or block a row leaves most of the GPU
without work. The rule split_fold makes parts; the cost with idle lanes counted says how many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rift_compiler import schedule_cuda
from rift_compiler.cost import Cost, cost, lanes
from rift_compiler.fuse import Step, offers, plain_schedule
from rift_compiler.loop_ir import Kernel, LoopProgram, Store
from rift_compiler.nest import nest
from rift_compiler.rules.split_fold import split_fold
from rift_compiler.targets import Target

SHORTEST = 128  # positions of a part: less is not worth a kernel
PARTS = tuple(2**n for n in range(1, 10))


def split(
    p: LoopProgram, target: Target, sizes: Mapping[str, int]
) -> tuple[LoopProgram, tuple[Step, ...]]:
    """The program with kernels cut where that is predicted to pay, and what was decided."""
    kernels: list[Kernel] = []
    steps: list[Step] = []
    for k in p.kernels:
        before = _cost(k, target, sizes)
        made = _cheapest(k, target, sizes) if before.idle > target.launch_bytes else None
        if made is None:
            kernels.append(k)
            continue
        after = _total(made, target, sizes)
        taken = after.predicted < before.predicted
        steps.append(Step("split-fold", k.name, before, after, taken, (k,), made))
        kernels += made if taken else (k,)
    return replace(p, kernels=tuple(kernels)), tuple(steps)


def _cheapest(k: Kernel, target: Target, sizes: Mapping[str, int]) -> tuple[Kernel, ...] | None:
    """k, or k as the rules make it, cut into as many parts as is cheapest."""
    forms = [k]
    if len(k.stores) == 1:
        (s,) = k.stores
        forms += [replace(k, stores=(Store(s.buffer, v),)) for _, v in offers(s.value)]
    cuts = [made for f in forms for n in PARTS if (made := split_fold(f, n, SHORTEST))]
    return min(cuts, key=lambda made: _total(made, target, sizes).predicted, default=None)


def _total(kernels: Sequence[Kernel], target: Target, sizes: Mapping[str, int]) -> Cost:
    return sum((_cost(k, target, sizes) for k in kernels), Cost())


def _cost(k: Kernel, target: Target, sizes: Mapping[str, int]) -> Cost:
    """A kernel's cost, with what the lanes that it leaves idle could have moved."""
    counted = cost(nest(k, plain_schedule(k)), sizes)
    used = lanes(nest(k, schedule_cuda.schedule(k)), sizes)
    busy = min(1.0, used / target.lanes) or 1.0  # nothing to do keeps nothing waiting
    return replace(counted, idle=counted.predicted_work * (1 / busy - 1) + target.launch_bytes)
