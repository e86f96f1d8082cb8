"""Part of nest.py: folds as loops, alone or several in one, over lanes and over array axes."""

from __future__ import annotations

from collections.abc import Sequence

from rift_compiler.dtypes import DType, i64
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
from rift_compiler.nest_states import Accumulator, States
from rift_compiler.nest_values import Context
from rift_compiler.scalar_ops import SCALAR_OPS
from rift_compiler.stage import stage
from rift_compiler.tile_ir import (
    Assign,
    For,
    If,
    Local,
    Stmt,
    Sync,
)

DEAR = 10  # of SCALAR_OPS' cost: worth an array


class Folds(States):
    """Turns folds into loops."""

    def prepare(
        self, roots: list[Node], c: Context, arrays: tuple[Node, ...], deeper: bool
    ) -> None:
        """Compute folds that can be here, then (if loops follow) all that need not be in them."""
        reach = c.scope | frozenset(arrays)
        folds = [
            n for n in self.visible(roots, c)
            if n.op == "fold" and n.free <= reach and not self.tainted(n, c)
        ]  # fmt: skip
        self.fold_groups(folds, c, arrays)
        if deeper:
            self.hoist(roots, c)

    def fold_groups(self, folds: list[Node], c: Context, arrays: tuple[Node, ...]) -> None:
        """Compute folds, those that can share a loop together."""
        pending = list(dict.fromkeys(folds))
        needs = {f: [d for d in walk(f) if d in set(pending) and d is not f] for f in pending}
        keeps = {f: tuple(a for a in arrays if a in f.free) for f in pending}
        while pending:
            first = next(f for f in pending if not any(d in pending for d in needs[f]))
            group = [first]
            for f in pending:
                if f is first or not _same_loop(f, first):
                    continue
                waits = [d for d in needs[f] if d in pending]
                if all(d in group and d is f.by and self.fits(keeps[d], keeps[f]) for d in waits):
                    group.append(f)
            self.fold_group(group, keeps, c)
            pending = [f for f in pending if f not in group]

    def fits(self, base: tuple[Node, ...], follower: tuple[Node, ...]) -> bool:
        """Whether folds that keep these arrays can be in one loop."""
        return base in ((), follower) or (self.schedule.block > 0 and set(base) <= set(follower))

    def fold_group(
        self, group: list[Node], keeps: dict[Node, tuple[Node, ...]], c: Context
    ) -> None:
        """One loop that computes a group of folds, each after those it follows."""
        shared = c.uniform and all(self.shares(f) for f in group)
        coop = (
            self.coop if shared and any(a.extent is not const(1) for a in group[0].axes) else None
        )
        loops, places, guard = self.fold_loops(group[0], coop, c)
        accs = []
        bodies = [substitute(f.body, dict(zip(f.axes, places, strict=True))) for f in group]
        own = frozenset(group)
        bodies = self.registers(bodies, loops, own, c)
        staged = None
        if self.tiles(c, coop) and loops and self.schedule.shared:
            shapes = {b.name: b.shape for b in self.kernel.reads}
            staged = stage(
                bodies, loops, c.scope, self.lanes, self.name, own, shapes, self.schedule.shared
            )
        if staged:
            bodies = staged.bodies
            c.out += staged.declarations
        position: Node = const(0)
        for place, a in zip(places, group[0].axes, strict=True):
            position = position * a.extent + place
        for f, body in zip(group, bodies, strict=True):
            acc = Accumulator(f, self.name("a"), keeps[f], body, position)
            accs.append(acc)
            c.out += self.declare(acc)
        c.blocked |= frozenset(group)
        again = self.read_again(group, c) if coop is not None else {}
        self.kept = [
            (substitute(n, {a: places[0]}), name, places[0]) for (n, a), (name, _) in again.items()
        ]
        self.open(loops, accs, guard, c, staged.copies if staged else ())
        self.kept = []
        c.blocked -= frozenset(group)
        c.known |= {out: self.element(name, out.dtype) for name, out in again.values()}
        if coop is not None:
            self.reduce_lanes(accs, coop, c)
        for acc in accs:
            suffix, dtype = (".i", i64) if acc.fold.monoid.startswith("arg") else ("", None)
            c.known[acc.fold] = acc.var(acc.fold.free - frozenset(acc.arrays), suffix, dtype)

    def read_again(
        self, group: list[Node], c: Context
    ) -> dict[tuple[Node, Node], tuple[str, Node]]:
        """What folds compute that is dear, and outputs at the same positions need again: arrays
        that keep it, and what it is there."""
        found: dict[tuple[Node, Node], tuple[str, Node]] = {}
        a, column = group[0].axes[0], self.column
        if column is None or len(group[0].axes) > 1 or a.extent is not self.kernel.axes[-1].extent:
            return found
        outputs = set(walk(*(value for _, _, value, _, _ in self.stores)))
        for f in group:
            (axis_of,) = f.axes
            for n in _dear(f.body, axis_of):
                out = rewrite(substitute(n, {axis_of: column}), simplest)
                size = axis_of.extent.value * n.dtype.bytes if axis_of.extent.op == "const" else 0
                if out in outputs and 0 < size <= self.schedule.shared and out not in c.known:
                    name = self.name("s")
                    sizes = (axis_of.extent.value,)
                    c.out.append(Local(name, n.dtype, sizes, None, shared=True))
                    found[n, axis_of] = name, out
        return found

    def element(self, name: str, dtype: DType) -> Node:
        """What is kept of the position that an output is at."""
        assert self.column is not None
        return make("var", (self.column,), (name, self.column.free), dtype)

    def shares(self, f: Node) -> bool:
        """Whether the lanes of a block would all compute the same fold."""
        return self.coop is not None and self.coop not in f.free

    def tiles(self, c: Context, coop: Node | None) -> bool:
        return bool(self.schedule.fold_tile) and coop is None and c.uniform

    def fold_loops(
        self, f: Node, coop: Node | None, c: Context
    ) -> tuple[list[Node], list[Node], Node]:
        """The loops of a fold's axes, the positions they stand for, and when those are inside."""
        wide = _widest(f.axes)
        loops: list[Node] = []
        places: list[Node] = []
        guard = TRUE
        for a in f.axes:
            extent = self.value(a.extent, c)
            if extent is const(1):
                places.append(const(0))
                continue
            a = axis(self.name("j"), extent)
            if coop is not None and len(places) == wide:
                outer = axis(
                    f"{a.name}o", (extent + (self.schedule.threads - 1)) // self.schedule.threads
                )
                loops.append(outer)
                places.append(outer * self.schedule.threads + coop)
            elif self.tiles(c, coop) and len(places) == wide:
                size = self.schedule.fold_tile
                outer = axis(f"{a.name}o", (extent + (size - 1)) // size)
                inner = axis(f"{a.name}i", size)
                loops += [outer, inner]
                places.append(outer * size + inner)
            else:
                loops.append(a)
                places.append(a)
            guard = all_of(guard, places[-1] < extent)
        if self.tiles(c, coop):  # the loop that copies stands outermost
            loops.sort(key=lambda a: not a.name.endswith("o"))
        return loops, places, guard

    def open(
        self, loops: list[Node], accs: list[Accumulator], guard: Node, c: Context,
        copies: tuple[Stmt, ...],
    ) -> None:  # fmt: skip
        """The loops of a fold, what need not be in each computed before it."""
        roots = [a.body for a in accs]
        if not loops:
            inner = Context(c.scope, dict(c.known), False, [], c.blocked)
            self.update(accs, inner)
            body = tuple(inner.out)
            c.out += body if guard is TRUE else [If(self.value(guard, c), body)]
            return
        tiles = tuple(a for a in accs[0].arrays if a.bind == "tile")
        if tiles and len(loops) == 1:
            return self.open_tiles(tiles, loops, accs, guard, c)
        self.prepare(roots, c, (), True)
        inner = c.inside([loops[0]], uniform=False)
        if copies:
            inner.out += [Sync(), *copies, Sync()]
        self.open(loops[1:], accs, guard, inner, ())
        c.out.append(For(loops[0], tuple(inner.out)))

    def open_tiles(
        self, tiles: tuple[Node, ...], loops: list[Node], accs: list[Accumulator], guard: Node,
        c: Context,
    ) -> None:  # fmt: skip
        """The last loop of a fold, once for each part of a large tile: with that part of the
        results in arrays of its own, which registers can hold."""
        inner = c.inside(tiles, uniform=False)
        own = []
        for acc in accs:
            arrays = tuple(a for a in acc.arrays if a not in tiles)
            part = Accumulator(acc.fold, self.name("r"), arrays, acc.body, acc.position)
            sizes = tuple(a.extent.value for a in arrays)
            inner.out.append(Local(part.name, acc.fold.body.dtype, sizes, None))
            inner.out += self.each(arrays, Assign(part.name, arrays, acc.var(inner.scope)))
            own.append(part)
        self.open(loops, own, guard, inner, ())
        for acc, part in zip(accs, own, strict=True):
            inner.out += self.each(part.arrays, Assign(acc.name, acc.arrays, part.var(inner.scope)))
        c.out += self.each(tiles, *inner.out)

    def update(self, accs: list[Accumulator], c: Context) -> None:
        """Take one position into every fold of a group."""
        for n, name, place in self.kept:
            self.let(n, c)
            c.out.append(Assign(name, (place,), self.value(n, c)))
        by_fold = {a.fold: a for a in accs}
        followed = {a.fold.by for a in accs if a.fold.by is not None}
        late: list[Stmt] = []
        order = sorted(accs, key=lambda a: len(a.arrays))
        news = {a.fold: self.updated(a, by_fold, c.scope) for a in order}
        for arrays in dict.fromkeys(a.arrays for a in order):
            bucket = [a for a in order if a.arrays == arrays]
            roots = [news[a.fold] for a in bucket]
            inner = c
            if arrays:
                self.prepare(roots, c, arrays, True)
                self.fragments(roots, c, arrays)
                inner = c.inside(arrays, uniform=False)
            done: list[Stmt] = []
            for acc in bucket:
                if not arrays:
                    self.prepare([news[acc.fold]], inner, (), False)
                later = [n for f, n in news.items() if f in inner.blocked and f is not acc.fold]
                done += self.step(acc, news[acc.fold], later, acc.fold in followed, inner, c.scope)
            if arrays:
                body: tuple[Stmt, ...] = (*inner.out, *done)
                for a in reversed(arrays):
                    body = (For(a, body),)
                c.out += body
                c.blocked = inner.blocked
            else:
                late += done
        c.out += late


def _dear(body: Node, along: Node) -> list[Node]:
    """The largest parts of a term that vary along an axis and are dear to compute."""
    dear = [
        n for n in walk(body)
        if along in n.free and n.op in SCALAR_OPS and SCALAR_OPS[n.op].cost >= DEAR
    ]  # fmt: skip
    inside = {x for n in dear for x in walk(n) if x is not n}
    return [n for n in dear if n not in inside]


def _same_loop(f: Node, g: Node) -> bool:
    return [a.extent for a in f.axes] == [a.extent for a in g.axes]


def _widest(axes: Sequence[Node]) -> int:
    """Which axis is split: the last one of unknown size, else the longest."""
    sizes = [2**62 if a.extent.op != "const" else a.extent.value for a in axes]
    return max(range(len(axes)), key=lambda n: (sizes[n], n))
