"""Pass: choose a plain CUDA schedule for a kernel, from what its folds vary with.

no fold            one lane an element, four where elements are consecutive
fold of rows       one block a row; its lanes share the folds, then the row's elements
product            a tile of outputs a block, operands staged; a lane keeps 4 x 4 results
fold into arrays   one lane a row, which keeps the whole last axis (attention)
other folds        one block an output if it reads along memory, else one lane an output
"""

from __future__ import annotations

from rift_compiler.expr import Node, walk
from rift_compiler.loop_ir import Kernel
from rift_compiler.schedule import Part, Schedule

WARP = 32
LANES = 256  # of a block that maps elements or shares folds
TILE = Part("thread", 16), Part("array", 4)  # 64 x 64 outputs a block
KEPT = 128  # elements of an output axis that one lane may keep
SHARED = 16 * 1024  # of one operand; a block may have 48 KiB without asking (CUDA guide)
ROWS = 64  # lanes of a block where each has a row


def schedule(k: Kernel) -> Schedule:
    """A schedule that is right for any kernel; how fast it is, is for measurements to say."""
    nodes = list(walk(*(s.value for s in k.stores)))
    scanned = {n.axes[0] for n in nodes if n.op == "scan"}
    mine = frozenset(k.axes)
    folds = [n for n in nodes if n.op == "fold" and n.free <= mine]
    live = [a for a in k.axes if not _is_one(a)]
    if scanned or not live:
        return _lanes(k, scanned)
    if not folds:
        return _map(k)
    varies = frozenset[Node]().union(*(f.free for f in folds))
    if live[-1] not in varies:
        return _shared(k, varies)
    if any(live[-1] not in f.free for f in folds) and _size(live[-1]) <= KEPT and len(live) > 1:
        return _rows(k, live)
    if len(live) > 1 and _reused(folds, live) and all(_size(a) >= 16 for a in live[-2:]):
        return _product(k, live)
    if _along_memory(folds):
        return _shared(k, varies)
    return _lanes(k, scanned)


def _is_one(a: Node) -> bool:
    return a.extent.op == "const" and a.extent.value == 1


def _size(a: Node) -> int:
    return a.extent.value if a.extent.op == "const" else 2**31


def _map(k: Kernel) -> Schedule:
    """Lanes along the last axis, and along the one before it where the last is short."""
    wide = _size(k.axes[-1]) % 4 == 0
    last = _size(k.axes[-1]) // (4 if wide else 1)
    lanes = next(n for n in (256, 128, 64, 32, 16, 8, 4, 2, 1) if n <= max(last, 1))
    parts: list[tuple[Part, ...]] = [(Part("grid"),) for _ in k.axes[:-1]]
    if parts and lanes < LANES:
        rest = min(LANES // lanes, _power_of_two(_size(k.axes[-2])))
        parts[-1] = (Part("grid"), Part("thread", rest))
    tail = (Part("array", 4),) if wide else ()
    parts.append((Part("grid"), Part("thread", lanes), *tail))
    return Schedule(tuple(parts), vector=wide, fragments=64)


def _power_of_two(n: int) -> int:
    return 1 << max(min(n, LANES).bit_length() - 1, 0)


def _shared(k: Kernel, varies: frozenset[Node]) -> Schedule:
    """A block for each of what the folds vary with; its lanes share folds and other elements."""
    longest = max(
        (_size(a) for s in k.stores for n in walk(s.value) if n.op == "fold" for a in n.axes),
        default=WARP,
    )
    lanes = min(max(_power_of_two(longest // 4), WARP), LANES)
    rest = [a for a in k.axes if a not in varies and not _is_one(a)]
    parts: list[tuple[Part, ...]] = []
    for a in k.axes:
        if a in varies or _is_one(a):
            parts.append((Part("grid"),))
        elif a is rest[-1]:
            parts.append((Part("seq"), Part("thread", lanes)))
        else:
            parts.append((Part("seq"),))
    return Schedule(tuple(parts), threads=lanes)


def _rows(k: Kernel, live: list[Node]) -> Schedule:
    """A lane for each row; the last axis is an array, and operands are staged 16 at a time."""
    parts: list[tuple[Part, ...]] = []
    for a in k.axes:
        if a is live[-1]:
            parts.append((Part("array", _size(a)),))
        elif a is live[-2]:
            parts.append((Part("grid"), Part("thread", ROWS)))
        else:
            parts.append((Part("grid"),))
    return Schedule(tuple(parts), fold_tile=16, shared=SHARED, fragments=KEPT)


def _product(k: Kernel, live: list[Node]) -> Schedule:
    parts = [(Part("grid"), *TILE) if a in live[-2:] else (Part("grid"),) for a in k.axes]
    return Schedule(tuple(parts), fold_tile=16, shared=SHARED, fragments=64)


def _lanes(k: Kernel, scanned: set[Node]) -> Schedule:
    """One lane an output, in order along a scanned axis."""
    free = [a for a in k.axes if a not in scanned and not _is_one(a)]
    parts: list[tuple[Part, ...]] = []
    for a in k.axes:
        if a in scanned:
            parts.append((Part("seq"),))
        elif free and a is free[-1]:
            parts.append((Part("grid"), Part("thread", min(_power_of_two(_size(a)), 128))))
        else:
            parts.append((Part("grid"),))
    return Schedule(tuple(parts))


def _reused(folds: list[Node], live: list[Node]) -> bool:
    """Whether operands of a fold serve many outputs: loads that vary with some axes only."""
    return any(
        n.op == "load" and not frozenset(live[-2:]) <= n.free for f in folds for n in walk(f.body)
    )


def _along_memory(folds: list[Node]) -> bool:
    """Whether folds read consecutive elements."""
    return any(
        n.op == "load" and n.index and any(a in n.index[-1].free for a in f.axes)
        for f in folds
        for n in walk(f.body)
    )
