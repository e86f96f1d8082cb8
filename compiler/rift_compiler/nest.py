"""Pass: Loop IR and a schedule to Tile IR. Reads one kernel, writes its statements.

Where something is computed follows from the axes it varies with: before a loop opens, what does
not vary with it is computed. Folds over the same axes run in one loop when none needs another's
final result, or needs it only through a twist. An axis bound to `array` is opened innermost, and
folds that vary with it keep an array of results: that is register tiling for a matrix product, and
for attention it is the output row that follows the running maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from math import prod
from typing import Any

from rift_compiler.expr import (
    TRUE,
    Node,
    all_of,
    axis,
    const,
    make,
    rewrite,
    substitute,
    walk,
)
from rift_compiler.index import simplest
from rift_compiler.loop_ir import Kernel
from rift_compiler.nest_blocks import Blocks
from rift_compiler.nest_operands import at_start, steps_by_one
from rift_compiler.nest_values import Context
from rift_compiler.schedule import Part, Schedule
from rift_compiler.tile_ir import (
    Assign,
    For,
    If,
    Local,
    Stmt,
    StoreTo,
    TileKernel,
    Vector,
)


def nest(kernel: Kernel, schedule: Schedule) -> TileKernel:
    """The statements of a kernel under a schedule."""
    return _Nest(kernel, schedule).build()


class _Nest(Blocks):
    """The output loops of a kernel."""

    def build(self) -> TileKernel:
        loops: list[Node] = []
        places: dict[Node, Node] = {}
        guards: dict[Node, Node] = {}
        for n, a in enumerate(self.kernel.axes):
            parts = self.schedule.outputs[n] if n < len(self.schedule.outputs) else ()
            own, place, guard = self.split(a, parts or (Part("seq"),))
            loops += own
            places[a] = place
            if a is self.kernel.axes[-1] and [p.bind for p in parts] == ["seq", "thread"]:
                self.column = place
            if guard is not TRUE:
                self.tile_starts |= _starts(own, guard)
                if not _ends_with_turn(own, a.extent):
                    guards.update(dict.fromkeys(own, guard))
        self.coop = axis("t", self.schedule.threads, "thread") if self.schedule.threads else None
        if self.coop is not None and self.coop not in loops:
            loops.append(self.coop)
        rank = {"grid": 0, "thread": 1, "seq": 2, "tile": 3, "array": 4}
        scanned = {n.axes[0] for s in self.kernel.stores for n in walk(s.value) if n.op == "scan"}
        loops.sort(key=lambda a: (rank[a.bind], a in scanned))
        tiles = [n for n, a in enumerate(loops) if a.bind == "tile"]
        for n, a in zip(tiles, [loops[n] for n in reversed(tiles)], strict=True):
            loops[n] = a  # the last axis outermost: what it reads is packed, and stays near
        self.lanes = tuple(a for a in loops if a.bind == "thread")
        self.rows = tuple(a for a in loops if a.bind == "array")
        self.stores = []
        for s in self.kernel.stores:
            mine = self.kernel.axes[: len(s.buffer.shape)]
            value = self.reading(rewrite(substitute(s.value, places), simplest), guards)
            index = tuple(places[a] for a in mine)
            free = frozenset[Node]().union(*(i.free for i in index)) if index else frozenset()
            guard = all_of(*dict.fromkeys(g for p, g in guards.items() if p in free))
            once = [a.eq(0) for a in self.lanes if a not in free]
            self.stores.append((s.buffer.name, index, value, all_of(guard, *once), free))
        context = Context(frozenset(), {}, True)
        self.level(loops, context)
        outs = tuple(s.buffer for s in self.kernel.stores)
        body = tuple(_strip(s) for s in context.out)
        return TileKernel(self.kernel.name, self.kernel.reads, outs, body)

    def split(self, a: Node, parts: Sequence[Part]) -> tuple[list[Node], Node, Node]:
        """The loops of an axis, the index they stand for, and when it is inside the axis."""
        if a.extent is const(1):
            return [], const(0), TRUE
        inner = 1
        for p in parts[1:]:
            assert p.size is not None
            inner *= p.size
        sizes = [
            (a.extent + (inner - 1)) // inner if parts[0].size is None else const(parts[0].size)
        ]
        sizes += [const(p.size or 1) for p in parts[1:]]
        if len(parts) == 1 and parts[0].bind == "seq":
            return [a], a, TRUE
        loops = []
        for p, size in zip(parts, sizes, strict=True):
            shared = p.bind == "thread" and p.size == self.schedule.threads
            letter = {"tile": "b"}.get(p.bind, p.bind[0]) if len(parts) > 1 else ""
            name = "t" if shared else a.name + letter
            loops.append(axis(name, size, p.bind))
        place: Node = const(0)
        for loop, size in zip(loops, sizes, strict=True):
            place = place * size + loop
        return loops, place, place < a.extent

    def level(self, loops: list[Node], c: Context) -> None:
        """Statements at one depth of the output loops, then the loops within."""
        arrays = tuple(loops) if all(a.bind in ("tile", "array") for a in loops) else ()
        roots = [v for _, _, v, _, _ in self.stores]
        if not loops or loops[0].bind not in ("grid", "thread"):
            self.prepare(roots, c, arrays, bool(loops))
        self.finished(loops, c)
        if not loops:
            return
        if arrays:
            self.fragments(roots, c, arrays)
            self.output_arrays(loops, c)
            return
        first = loops[0]
        self.start_scans(roots, first, c)
        inner = c.inside([first], uniform=first.bind in ("grid", "thread"))
        self.level(loops[1:], inner)
        c.out.append(For(first, tuple(inner.out)))

    def finished(self, loops: list[Node], c: Context) -> None:
        """The stores whose index varies with no loop that is still to open."""
        left = frozenset(loops)
        for buffer, index, value, guard, free in list(self.stores):
            if (free | value.free) & left or (loops and loops[0].bind in ("grid", "thread")):
                continue
            self.stores = [s for s in self.stores if s[0] != buffer]
            self.prepare([value], c, (), False)
            self.lets([value], c)
            store = StoreTo(buffer, tuple(self.value(i, c) for i in index), self.value(value, c))
            c.out.append(store if guard is TRUE else If(self.value(guard, c), (store,)))

    def output_arrays(self, loops: list[Node], c: Context) -> None:
        """The innermost output loops, over the elements of local arrays."""
        inner = c.inside(loops, uniform=False)
        wide = [s for s in self.stores if self.consecutive(s[1], loops)]
        vectors = []
        for buffer, index, value, guard, _ in wide:
            self.stores = [s for s in self.stores if s[0] != buffer]
            local = self.name("o")
            c.out.append(Local(local, value.dtype, (loops[-1].extent.value,), None))
            self.lets([value], inner)
            inner.out.append(Assign(local, (loops[-1],), self.value(value, inner)))
            at = tuple(at_start(i, loops[-1]) for i in index)
            move = Vector(local, buffer, at, True)
            vectors.append(move if guard is TRUE else If(at_start(guard, loops[-1]), (move,)))
        self.level([], inner)
        c.out += [*self.each(loops, *inner.out), *vectors]

    def consecutive(self, index: tuple[Node, ...], arrays: Sequence[Node]) -> bool:
        """Whether an index steps by one along the only array axis, in whole vectors."""
        if not self.schedule.vector or len(arrays) != 1 or not index:
            return False
        return steps_by_one(index, arrays[0])


def _strip(s: Stmt) -> Stmt:
    """A statement whose variables no longer say what they vary with."""
    changes: dict[str, Any] = {}
    for f in fields(s):
        part = getattr(s, f.name)
        if isinstance(part, Node) and f.name != "monoid":
            changes[f.name] = _clean(part)
        elif f.name == "name":
            changes[f.name] = part.replace(".", "_")
        elif f.name == "body":
            changes[f.name] = tuple(map(_strip, part))
        elif f.name == "index":
            changes[f.name] = tuple(map(_clean, part))
    return replace(s, **changes)


def _clean(root: Node) -> Node:
    done: dict[Node, Node] = {}
    for n in walk(root):
        args = [done[a] for a in n.args]
        data = (n.data[0].replace(".", "_"), frozenset[Node]()) if n.op == "var" else n.data
        done[n] = make(n.op, args, data, n.dtype)
    return done[root]


def _ends_with_turn(loops: Sequence[Node], extent: Node) -> bool:
    """Whether what a tile loop's turn does is inside an axis if its beginning is."""
    tiles = [n for n, a in enumerate(loops) if a.bind == "tile"]
    if not tiles or extent.op != "const":
        return False
    inner = prod(int(a.extent.value) for a in loops[tiles[-1] + 1 :])
    return bool(extent.value % inner == 0)


def _starts(loops: Sequence[Node], guard: Node) -> dict[Node, Node]:
    """For each tile loop of an axis, whether its turn begins inside the axis."""
    found = {}
    for n, a in enumerate(loops):
        if a.bind == "tile":
            names = dict.fromkeys(loops[n + 1 :], const(0))
            starts = rewrite(substitute(guard, names), simplest)
            if starts is not TRUE:
                found[a] = starts
    return found
