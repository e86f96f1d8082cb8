"""Staging: operands that lanes share are copied to shared memory, one tile of a fold at a time.

The region a block reads of an operand while one tile is folded is a box, where each index is a sum
of a base, fixed meanwhile, and of terms that grow along the lanes, arrays and loops inside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rift_compiler.expr import TRUE, Node, all_of, axis, const, make, walk, where
from rift_compiler.index import Poly, from_poly, to_poly
from rift_compiler.tile_ir import Assign, For, If, Local, Stmt


@dataclass(frozen=True)
class Staged:
    """Bodies that read shared arrays, the arrays, and the statements that fill them."""

    bodies: list[Node]
    declarations: tuple[Stmt, ...]
    copies: tuple[Stmt, ...]


@dataclass(frozen=True)
class Box:
    """The region of one load: its base, and per dimension the size and the index inside."""

    base: tuple[Node, ...]
    local: tuple[Node, ...]
    sizes: tuple[int, ...]


def stage(
    bodies: list[Node],
    loops: Sequence[Node],
    scope: frozenset[Node],
    lanes: Sequence[Node],
    name: Callable[[str], str],
    skip: frozenset[Node],
    shapes: Mapping[str, tuple[Node, ...]],
    largest_bytes: int,
) -> Staged | None:
    """Stage what lanes share of the loads in bodies; loops[0] is the loop over tiles.

    skip: folds computed by the same loop, whose own bodies are staged as such.
    """
    fixed = (scope - frozenset(lanes)) | {loops[0]}
    shared: dict[Node, Node] = {f: f for f in skip}
    declarations: list[Stmt] = []
    copies: list[Stmt] = []
    for n in (n for b in bodies for n in walk(b, skip=skip) if n.op == "load"):
        if n in shared or frozenset(lanes) <= n.free or loops[0] not in n.free:
            continue
        box = _box(n, fixed)
        if box is None or _elements(box.sizes) * n.dtype.bytes > largest_bytes:
            continue
        own = name("s")
        declarations.append(Local(own, n.dtype, box.sizes, None, shared=True))
        copies += _copy(own, n, box, lanes, name, shapes[n.name])
        element = make("var", box.local, (own, fixed), n.dtype)
        shared[n] = where(_not_implied(n, shapes[n.name]), element, const(0, n.dtype))
    if not declarations:
        return None
    new = []
    for b in bodies:
        done: dict[Node, Node] = {}
        for n in walk(b, skip=skip):
            done[n] = shared.get(n) or make(n.op, [done[a] for a in n.args], n.data, n.dtype)
        new.append(done[b])
    return Staged(new, tuple(declarations), tuple(copies))


def _box(n: Node, fixed: frozenset[Node]) -> Box | None:
    base, local, sizes = [], [], []
    for index in n.index:
        still: Poly = {}
        moves: Poly = {}
        size = 1
        for term, k in to_poly(index).items():
            free = frozenset[Node]().union(*(a.free for a in term)) if term else frozenset()
            if free <= fixed:
                still[term] = k
            elif len(term) == 1 and term[0].op == "axis" and k > 0:
                if term[0].extent.op != "const":
                    return None
                size += k * (term[0].extent.value - 1)
                moves[term] = k
            else:
                return None
        base.append(from_poly(still))
        local.append(from_poly(moves))
        sizes.append(size)
    return Box(tuple(base), tuple(local), tuple(sizes))


def _elements(sizes: Sequence[int]) -> int:
    total = 1
    for s in sizes:
        total *= s
    return total


def _copy(
    own: str,
    n: Node,
    box: Box,
    lanes: Sequence[Node],
    name: Callable[[str], str],
    shape: tuple[Node, ...],
) -> list[Stmt]:
    """All lanes together fill a shared array; what lies outside the operand is 0."""
    lane: Node = const(0)
    count = 1
    for a in lanes:
        lane = lane * a.extent + a
        count *= a.extent.value
    total = _elements(box.sizes)
    step = axis(name("j"), -(-total // count))
    at = step * count + lane
    place: list[Node] = []
    rest = at
    for size in reversed(box.sizes):
        place.insert(0, rest % size)
        rest = rest // size
    index = [b + p for b, p in zip(box.base, place, strict=True)]
    inside = all_of(*(p for i, s in zip(index, shape, strict=True) for p in _within(i, s)))
    read = make("load", (*index, inside), n.data, n.dtype)
    fill: Stmt = Assign(own, tuple(place), read)
    return [For(step, (fill,) if total % count == 0 else (If(at < total, (fill,)),))]


def _not_implied(n: Node, shape: tuple[Node, ...]) -> Node:
    """What of a load's guard says more than that it reads inside its operand: there the copy
    has put 0 already."""
    inside = {c for i, s in zip(n.index, shape, strict=True) for c in _within(i, s)}
    left, rest = [n.guard], TRUE
    while left:
        c = left.pop()
        if c.op == "and_":
            left += c.args
        elif c not in inside:
            rest = all_of(rest, c)
    return rest


def _within(i: Node, size: Node) -> tuple[Node, Node]:
    return i >= 0, i < size
