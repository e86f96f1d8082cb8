"""Part of nest.py: folds that follow another, a block of positions at a time.

Position by position, a fold that follows a running maximum is moved at every one. Here the fold it
follows takes in a whole block first; then each follower is moved once, and takes in the block with
the centre fixed. Terms that do not vary with a follower's own columns are computed once for all of
them, lanes along the positions, and kept in a small array; the sum over columns is then a product.
Blocks where a condition makes every term the identity are not visited: a causal mask halves the
loop, a sliding window bounds it at both ends.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from rift_compiler.dtypes import i64
from rift_compiler.expr import (
    TRUE,
    Node,
    axis,
    const,
    fresh_axis,
    make,
    replaced,
    rewrite,
    substitute,
    walk,
    where,
)
from rift_compiler.folds import combine, identity
from rift_compiler.index import Poly, from_poly, largest, simplest, smallest, to_poly
from rift_compiler.interpret import Evaluator
from rift_compiler.nest_folds import DEAR, Folds
from rift_compiler.nest_states import Accumulator
from rift_compiler.nest_values import Context
from rift_compiler.scalar_ops import SCALAR_OPS
from rift_compiler.tile_ir import AllReduce, Assign, For, If, Local, Stmt, Sync


@dataclass
class Block:
    """The block being folded: where it begins, its positions by symbol, and what is kept of it."""

    symbol: Node  # the folded position, in expressions
    start: Node
    size: int
    extent: Node
    kept: dict[Node, tuple[str, tuple[Node, ...]]] = field(default_factory=dict)

    def at(self, n: Node, inside: Node, scope: frozenset[Node]) -> Node:
        """An expression at a position inside the block, with what is kept read from there."""
        known = {
            x: make("var", (*rows, inside), (name, scope), x.dtype)
            for x, (name, rows) in self.kept.items()
        }
        there = replaced(n, known)
        place = self.start + inside
        return rewrite(substitute(there, {self.symbol: place}), simplest)

    def fits(self, inside: Node) -> Node:
        """Whether a position inside the block is one of the fold's."""
        return self.start + inside < self.extent


class Blocks(Folds):
    """Turns groups of folds that follow one another into loops over blocks."""

    def fold_group(
        self, group: list[Node], keeps: dict[Node, tuple[Node, ...]], c: Context
    ) -> None:
        if self.schedule.block and any(f.by is not None for f in group):
            self.fold_blocks(group, keeps, c)
        else:
            super().fold_group(group, keeps, c)

    def fold_blocks(
        self, group: list[Node], keeps: dict[Node, tuple[Node, ...]], c: Context
    ) -> None:
        """One loop over blocks that computes a group of folds."""
        size = self.schedule.block
        extent = self.value(group[0].axes[0].extent, c)
        symbol = fresh_axis(extent)
        bodies = {f: substitute(f.body, {f.axes[0]: symbol}) for f in group}
        accs = [Accumulator(f, self.name("a"), keeps[f], bodies[f], symbol) for f in group]
        for acc in accs:
            c.out += self.declare(acc)
        begin = bodies[group[0]]
        none = identity(group[0].monoid, begin.dtype)
        skips = all(_vanishes(bodies[f], begin, none, f) for f in group[1:])
        masked = begin if skips else none
        first, count = _bounds(masked, none, symbol, extent, size, c.scope)
        step = axis(f"{self.name('j')}o", self.value(count, c))
        block = Block(symbol, (step + self.value(first, c)) * size, size, extent)
        groups = tuple(a for a in accs[0].arrays if a.bind == "tile")  # of rows: one after another
        inner = c.inside([step, *groups], uniform=False)
        inner.blocked |= frozenset(group)
        news: dict[Node, Node] = {}
        late: list[Stmt] = []
        for acc in accs:
            old = {a.fold: a for a in accs}
            late += self.take(acc, old, news, block, inner)
        c.out.append(For(step, tuple(self.each(groups, *inner.out, *late))))
        for acc in accs:
            c.known[acc.fold] = acc.var(acc.fold.free - frozenset(acc.arrays))

    def take(
        self, acc: Accumulator, accs: dict[Node, Accumulator], news: dict[Node, Node],
        block: Block, c: Context,
    ) -> list[Stmt]:  # fmt: skip
        """Take a block into one fold; what has to wait until all have is returned."""
        f = acc.fold
        state = acc.var(c.scope)
        if f.by is not None:
            state = self.moved(acc, accs[f.by], news[f.by], c.scope)
            self.factors(state, c)
        if self.lanes[0] in f.free:
            columns = {self.lanes[0], *(a for a in acc.arrays if a.bind == "tile")} - c.scope
            self.keep(_rows_only(acc, block, columns | {self.lanes[0]}), block, c)
            self.multiply(acc, state, block, c)
            return []
        self.keep([acc.body], block, c, identity(f.monoid, f.dtype))
        new, part = self.name("n"), self.name("a")
        rows = tuple(a for a in acc.arrays if a not in c.scope)
        sizes = tuple(a.extent.value for a in rows)
        inner = c.inside(rows, uniform=False)
        step = axis(self.name("j"), block.size // self._count)
        there = block.at(acc.body, step * self._count + self.lanes[0], inner.scope)
        own = make("var", (), (part, inner.scope), f.dtype)
        body: list[Stmt] = [
            Local(part, f.dtype, (), identity(f.monoid, f.dtype)),
            For(step, (Assign(part, (), combine(f.monoid, own, there)),)),
            AllReduce(part, (), f.monoid, self.lanes),
            Assign(new, rows, combine(f.monoid, self.value(state, inner), own)),
        ]
        c.out += [Local(new, f.dtype, sizes, None), *self.each(rows, *body)]
        news[f] = make("var", rows, (new, c.scope | frozenset(rows)), f.dtype)
        c.known[f] = news[f]
        c.blocked -= {f}
        return self.each(rows, Assign(acc.name, acc.arrays, news[f]))

    def factors(self, state: Node, c: Context) -> None:
        """What moves a fold's result and is dear to compute: once for each row."""
        columns = {*self.lanes, *(a for n in walk(state) for a in n.free if a.bind == "tile")}
        for n in walk(state):
            row = SCALAR_OPS.get(n.op)
            if (
                row is None
                or row.cost < DEAR
                or n in c.known
                or not n.free.isdisjoint(columns - c.scope)
            ):
                continue
            rows = tuple(a for a in self.rows if a in n.free)
            name = self.name("f")
            c.out.append(Local(name, n.dtype, tuple(a.extent.value for a in rows), None))
            c.out += self.each(rows, Assign(name, rows, self.value(n, c)))
            c.known[n] = make("var", rows, (name, c.scope | frozenset(rows)), n.dtype)

    @property
    def _count(self) -> int:
        return int(self.lanes[0].extent.value)

    def keep(
        self, terms: Sequence[Node], block: Block, c: Context, empty: Node | None = None
    ) -> None:
        """Compute terms at every position of the block, lanes along them, into arrays; beyond the
        fold's end, if it may lie in a block, they are `empty`."""
        for n in terms:
            if n in block.kept:
                continue
            rows = tuple(a for a in self.rows if a in n.free)
            name = self.name("s")
            sizes = (*(a.extent.value for a in rows), block.size)
            step = axis(self.name("j"), block.size // self._count)
            inside = step * self._count + self.lanes[0]
            here = c.inside([step], uniform=False)
            fits = block.fits(inside)
            value = block.at(n, inside, here.scope)
            if fits is not TRUE:
                value = self.reading(value, {inside_: fits for inside_ in (step, self.lanes[0])})
                value = value if empty is None else where(fits, value, empty)
            self.prepare([value], here, rows, True)
            deep = here.inside(rows, uniform=False)
            self.lets([value], deep)
            deep.out.append(Assign(name, (*rows, inside), self.value(value, deep)))
            here.out += self.each(rows, *deep.out)
            c.out += [Local(name, n.dtype, sizes, None, shared=True)]
            c.out += [For(step, tuple(here.out)), Sync()]
            block.kept[n] = (name, rows)

    def multiply(self, acc: Accumulator, state: Node, block: Block, c: Context) -> None:
        """Move a fold that varies with the lanes to the new centre, then take in the block."""
        f = acc.fold
        tiles = tuple(a for a in acc.arrays if a.bind == "tile" and a not in c.scope)
        rows = tuple(a for a in acc.arrays if a.bind == "array")
        part = self.name("r")
        outer = c.inside(tiles, uniform=False)
        own = make("var", rows, (part, outer.scope | frozenset(rows)), f.dtype)
        outer.out.append(Local(part, f.dtype, tuple(a.extent.value for a in rows), None))
        outer.out += self.each(rows, Assign(part, rows, self.value(state, outer)))
        step = axis(self.name("j"), block.size)
        inner = outer.inside([step], uniform=False)
        term = block.at(acc.body, step, inner.scope)
        self.prepare([term], inner, rows, True)
        update = Assign(part, rows, combine(f.monoid, own, self.value(term, inner)))
        inner.out += self.each(rows, update)
        fits = block.fits(step)
        body = tuple(inner.out) if fits is TRUE else (If(fits, tuple(inner.out)),)
        outer.out.append(For(step, body))
        outer.out += self.each(rows, Assign(acc.name, acc.arrays, own))
        c.out += self.each(tiles, *outer.out)


def _rows_only(acc: Accumulator, block: Block, columns: Set[Node]) -> list[Node]:
    """The largest parts of a term that vary with the position, and not with the columns."""
    mine = {
        n for n in walk(acc.body)
        if block.symbol in n.free and n.free.isdisjoint(columns) and n.dtype.is_float
    }  # fmt: skip
    inside = {a for n in mine for a in n.args}
    used = {a for n in walk(acc.body) if n not in mine for a in n.args}
    roots = mine & (used | {acc.body}) if mine else set()
    return [n for n in roots if n.op != "load" or n not in inside]


def _vanishes(body: Node, begin: Node, none: Node, f: Node) -> bool:
    """Whether a follower's term is its identity wherever the first fold's term is that fold's:
    asked of the term itself, with all else that it reads at random."""
    gone = replaced(body, {begin: none})
    random = np.random.default_rng(0)
    for _ in range(3):
        known = {
            n: np.asarray(random.uniform(-3, 3)).astype(n.dtype.numpy)
            for n in walk(gone)
            if n.op in ("load", "fold", "axis", "dim", "var")
        }
        if float(Evaluator({}, {}, known=known)(gone)) != identity(f.monoid, f.dtype).value:
            return False
    return True


def _bounds(
    body: Node, none: Node, symbol: Node, extent: Node, size: int, scope: frozenset[Node]
) -> tuple[Node, Node]:
    """The first block that a fold has to visit, and how many: elsewhere its terms, `none` where a
    condition is false, are that at every position and for every row."""
    first: Node = const(0)
    end = (extent + (size - 1)) // size
    while body.op == "where" and body.args[2] is none:
        for c in _parts(body.args[0]):
            low, high = _visited(c, symbol, size, scope)
            first = first if low is None else largest(first, low)
            end = end if high is None else smallest(end, high)
        body = body.args[1]
    return first, largest(end - first, const(0))


def _parts(condition: Node) -> list[Node]:
    if condition.op == "and_":
        return [p for a in condition.args for p in _parts(a)]
    return [condition]


def _visited(
    c: Node, symbol: Node, size: int, scope: frozenset[Node]
) -> tuple[Node | None, Node | None]:
    """The first block, or the end of those, where a comparison may hold; None: it says none."""
    if c.op not in ("lt", "le") or c.args[0].dtype is not i64:
        return None, None
    step, inside = fresh_axis(const(2**31)), fresh_axis(size)
    gap = substitute(c.args[1] - c.args[0], {symbol: step * size + inside})
    terms = to_poly(rewrite(gap, simplest))
    rest: Poly = {(): -1 if c.op == "lt" else 0}
    slope = terms.pop((step,), 0)
    for term, k in terms.items():
        free = frozenset[Node]().union(*(a.free for a in term)) if term else frozenset()
        if free <= scope:
            rest[term] = rest.get(term, 0) + k
        elif len(term) == 1 and term[0].op == "axis" and term[0] is not step:
            if term[0].extent.op != "const":
                return None, None
            rest[()] = rest.get((), 0) + (max(k, 0) * (int(term[0].extent.value) - 1))
        else:
            return None, None
    most = from_poly({t: k for t, k in rest.items() if k})
    if slope < 0:  # slope * block + most >= 0
        return None, most // -slope + 1
    if slope > 0:
        return (most * -1 + (slope - 1)) // slope, None
    return None, None
