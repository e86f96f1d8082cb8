"""Part of nest.py: what a fold keeps, how it takes in a position, and how lanes combine theirs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rift_compiler.dtypes import DType, bool_, i64
from rift_compiler.expr import (
    IrError,
    Node,
    apply,
    arg,
    const,
    make,
    replaced,
    where,
)
from rift_compiler.folds import combine, identity
from rift_compiler.nest_operands import Operands
from rift_compiler.nest_values import Context
from rift_compiler.tile_ir import AllReduce, Assign, Let, Local, Stmt

LARGEST_INDEX = 2**63 - 1


@dataclass(frozen=True)
class Accumulator:
    """A fold being computed: its state, the array axes it keeps, and its update as expressions."""

    fold: Node
    name: str
    arrays: tuple[Node, ...]
    body: Node
    position: Node  # in the folded axes, row-major, for argmax

    def var(self, scope: frozenset[Node], suffix: str = "", dtype: DType | None = None) -> Node:
        """The state, as it is anywhere in scope."""
        free = scope | frozenset(self.arrays)
        return make("var", self.arrays, (self.name + suffix, free), dtype or self.fold.body.dtype)


class States(Operands):
    """The states of folds that are being computed."""

    def declare(self, acc: Accumulator) -> list[Stmt]:
        """The state of a fold, at its identity."""
        f, dtype = acc.fold, acc.fold.body.dtype
        sizes = tuple(a.extent.value for a in acc.arrays)
        out: list[Stmt] = [Local(acc.name, dtype, sizes, identity(f.monoid, dtype))]
        if f.monoid.startswith("arg"):
            out.append(Local(f"{acc.name}.i", i64, sizes, const(0)))
        if f.monoid == "mean":
            out.append(Local(f"{acc.name}.n", dtype, sizes, const(0, dtype)))
        return [replace(s, name=s.name.replace(".", "_")) for s in out if isinstance(s, Local)]

    def updated(
        self, acc: Accumulator, by_fold: dict[Node, Accumulator], scope: frozenset[Node]
    ) -> Node:
        """A fold's next result, in terms of its state and, by their folds, of those it follows."""
        f, state = acc.fold, acc.var(scope)
        if f.monoid.startswith("arg"):
            return acc.body
        if f.monoid == "mean":
            return state + (acc.body - state) / (acc.var(scope, ".n") + 1.0)
        if f.by in by_fold and f.by is not None:
            state = self.moved(acc, by_fold[f.by], f.by, scope)
        return combine(f.monoid, state, acc.body)

    def moved(
        self, acc: Accumulator, base: Accumulator, new: Node, scope: frozenset[Node],
        old: Node | None = None, count: str = ".n",
    ) -> Node:  # fmt: skip
        """A fold's result so far, carried from where the fold it follows was to where it is."""
        state = acc.var(scope)
        mean = base.fold.monoid == "mean"
        values = {
            arg("acc", state.dtype): state,
            arg("old", new.dtype): old or base.var(scope),
            arg("new", new.dtype): new,
            arg("count", state.dtype): base.var(scope, count) if mean else const(0, state.dtype),
        }
        return replaced(acc.fold.act, values)

    def step(
        self, acc: Accumulator, new: Node, later: list[Node], followed: bool, c: Context,
        scope: frozenset[Node],
    ) -> list[Stmt]:  # fmt: skip
        """Take one position into one fold. What others still need of the old state comes last."""
        f = acc.fold
        if f.monoid.startswith("arg"):
            return self.step_arg(acc, c, scope)
        self.lets([new], c, later)
        value = self.value(new, c)
        c.blocked -= {f}
        late: list[Stmt] = []
        if f.monoid == "mean":
            count = acc.var(scope, ".n")
            late.append(Assign(count.name, acc.arrays, count + 1.0))
        if not followed and not late:
            c.out.append(Assign(acc.name, acc.arrays, value))
            return []
        name = self.name("v")
        c.out.append(Let(name, value))
        c.known[f] = make("var", (), (name, c.scope), value.dtype)
        return [Assign(acc.name, acc.arrays, c.known[f]), *late]

    def step_arg(self, acc: Accumulator, c: Context, scope: frozenset[Node]) -> list[Stmt]:
        """Keep the first greatest (least) element and where it was; NaN beats all."""
        best, where_ = acc.var(scope), acc.var(scope, ".i", i64)
        c.blocked -= {acc.fold}
        self.let(acc.body, c)
        x = self.value(acc.body, c)
        better = _better(acc.fold.monoid, x, best)
        name = self.name("v")
        c.out.append(Let(name, better))
        wins = make("var", (), (name, c.scope), bool_)
        c.out.append(Assign(acc.name, acc.arrays, where(wins, x, best)))
        at = self.value(acc.position, c)
        c.out.append(Assign(f"{acc.name}.i", acc.arrays, where(wins, at, where_)))
        return []

    def reduce_lanes(self, accs: list[Accumulator], coop: Node, c: Context) -> None:
        """Combine what the lanes of a block have each folded, in the order of the group."""
        by_fold = {a.fold: a for a in accs}
        old: dict[Node, Node] = {}
        for acc in accs:
            f = acc.fold
            if acc.arrays and (
                len(accs) > 1 or f.by or f.monoid == "mean" or f.monoid[:3] == "arg"
            ):
                raise IrError(
                    f"lanes cannot share a fold that keeps arrays and is no plain one: {f}"
                )
            if any(a.fold.by is f for a in accs):
                name = self.name("v")
                c.out.append(Let(name, acc.var(c.scope)))
                old[f] = make("var", (), (name, c.scope), f.body.dtype)
            if f.by in by_fold and f.by is not None:
                base = by_fold[f.by]
                moved = self.moved(acc, base, base.var(c.scope), c.scope, old[f.by], ".m")
                c.out.append(Assign(acc.name, (), moved))
            c.out += self.reduce_one(acc, coop, c)

    def reduce_one(self, acc: Accumulator, coop: Node, c: Context) -> list[Stmt]:
        f, scope = acc.fold, c.scope
        state = acc.var(scope)
        if f.monoid == "mean":
            return self.reduce_mean(acc, coop, c)
        if not f.monoid.startswith("arg"):
            return self.each(acc.arrays, AllReduce(acc.name, acc.arrays, f.monoid, (coop,)))
        best, at = self.name("a"), acc.var(scope, ".i", i64)
        top = make("var", (), (best, scope), state.dtype)
        mine = top.eq(state)
        if state.dtype.is_float:
            mine = mine | (top.ne(top) & state.ne(state))
        return [
            Local(best, state.dtype, (), state),
            AllReduce(best, (), f.monoid.removeprefix("arg"), (coop,)),
            Assign(f"{acc.name}.i", (), where(mine, at, const(LARGEST_INDEX))),
            AllReduce(f"{acc.name}.i", (), "min", (coop,)),
        ]

    def reduce_mean(self, acc: Accumulator, coop: Node, c: Context) -> list[Stmt]:
        """The barycentre of the lanes' means; each lane's own count stays, under .m."""
        dtype = acc.fold.body.dtype
        state, count = acc.var(c.scope), acc.var(c.scope, ".n")
        mine = f"{acc.name}.m"
        return [
            Let(mine.replace(".", "_"), count),
            AllReduce(f"{acc.name}.n", (), "sum", (coop,)),
            Assign(acc.name, (), state * (make("var", (), (mine, c.scope), dtype) / count)),
            AllReduce(acc.name, (), "sum", (coop,)),
        ]


def _better(monoid: str, x: Node, best: Node) -> Node:
    wins = x > best if monoid == "argmax" else x < best
    if x.dtype is bool_:
        wins = apply("and_", x, apply("not_", best))
        wins = wins if monoid == "argmax" else apply("and_", apply("not_", x), best)
    return wins | (x.ne(x) & best.eq(best)) if x.dtype.is_float else wins
