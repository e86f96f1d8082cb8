"""Pass: Loop IR and a schedule to Tile IR. Reads one kernel, writes its statements.

Where something is computed follows from the axes it varies with: before a loop opens, what does
not vary with it is computed. Folds over the same axes run in one loop when none needs another's
final result, or needs it only through a twist. An axis bound to `array` is opened innermost, and
folds that vary with it keep an array of results: that is register tiling for a matrix product, and
for attention it is the output row that follows the running maximum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rift_compiler.dtypes import DType, bool_, i64
from rift_compiler.expr import (
    TRUE,
    IrError,
    Node,
    all_of,
    apply,
    arg,
    axis,
    const,
    guarded,
    make,
    rebuild,
    rewrite,
    substitute,
    walk,
    where,
)
from rift_compiler.folds import combine, identity
from rift_compiler.index import simplest, to_poly
from rift_compiler.loop_ir import Kernel
from rift_compiler.schedule import Part, Schedule
from rift_compiler.stage import stage
from rift_compiler.tile_ir import (
    AllReduce,
    Assign,
    For,
    If,
    Let,
    Local,
    Stmt,
    StoreTo,
    Sync,
    TileKernel,
    Vector,
)

LARGEST_INDEX = 2**63 - 1
ONE = const(1)


@dataclass
class Context:
    """Where statements are being put: open axes, what is computed already, and the statements."""

    scope: frozenset[Node]
    known: dict[Node, Node]
    uniform: bool  # all lanes are here, and no fold around is shared between them
    out: list[Stmt] = field(default_factory=list)
    blocked: frozenset[Node] = frozenset()  # folds being computed: unknown until their turn

    def inside(self, axes: Iterable[Node], uniform: bool) -> Context:
        """A context within loops over axes."""
        scope = self.scope | frozenset(axes)
        return Context(scope, dict(self.known), uniform and self.uniform, [], self.blocked)


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


def nest(kernel: Kernel, schedule: Schedule) -> TileKernel:
    """The statements of a kernel under a schedule."""
    return _Nest(kernel, schedule).build()


class _Nest:
    def __init__(self, kernel: Kernel, schedule: Schedule) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.serial: Counter[str] = Counter()
        self.taken = {a.name for a in kernel.axes} | {b.name for b in kernel.reads}
        self.taken |= {s.buffer.name for s in kernel.stores}
        self.lanes: tuple[Node, ...] = ()
        self.scans: dict[Node, Node] = {}

    def name(self, prefix: str) -> str:
        """A new name."""
        while True:
            out = f"{prefix}{self.serial[prefix]}"
            self.serial[prefix] += 1
            if out not in self.taken:
                return out

    # -- outputs ---------------------------------------------------------------------------

    def build(self) -> TileKernel:
        loops: list[Node] = []
        places: dict[Node, Node] = {}
        guards: dict[Node, Node] = {}
        for n, a in enumerate(self.kernel.axes):
            parts = self.schedule.outputs[n] if n < len(self.schedule.outputs) else ()
            own, place, guard = self.split(a, parts or (Part("seq"),))
            loops += own
            places[a] = place
            if guard is not TRUE:
                guards.update(dict.fromkeys(own, guard))
        self.coop = axis("t", self.schedule.threads, "thread") if self.schedule.threads else None
        if self.coop is not None and self.coop not in loops:
            loops.append(self.coop)
        rank = {"grid": 0, "thread": 1, "seq": 2, "array": 3}
        scanned = {n.axes[0] for s in self.kernel.stores for n in walk(s.value) if n.op == "scan"}
        loops.sort(key=lambda a: (rank[a.bind], a in scanned))
        self.lanes = tuple(a for a in loops if a.bind == "thread")
        self.stores = []
        for s in self.kernel.stores:
            mine = self.kernel.axes[: len(s.buffer.shape)]
            value = _guard_loads(substitute(s.value, places), guards)
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
        if a.extent is ONE:
            return [], const(0), TRUE
        inner = 1
        for p in parts[1:]:
            assert p.size is not None
            inner *= p.size
        sizes = [(a.extent + (inner - 1)) // inner if parts[0].size is None else const(parts[0].size)]
        sizes += [const(p.size or 1) for p in parts[1:]]
        if len(parts) == 1 and parts[0].bind == "seq":
            return [a], a, TRUE
        loops = []
        for p, size in zip(parts, sizes, strict=True):
            shared = p.bind == "thread" and p.size == self.schedule.threads
            name = "t" if shared else f"{a.name}{p.bind[0] if len(parts) > 1 else ''}"
            loops.append(axis(name, size, p.bind))
        place: Node = const(0)
        for loop, size in zip(loops, sizes, strict=True):
            place = place * size + loop
        return loops, place, place < a.extent

    def level(self, loops: list[Node], c: Context) -> None:
        """Statements at one depth of the output loops, then the loops within."""
        arrays = tuple(loops) if all(a.bind == "array" for a in loops) else ()
        roots = [v for _, _, v, _, _ in self.stores]
        if not loops or loops[0].bind in ("seq", "array"):
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
            at = tuple(_at_start(i, loops[-1]) for i in index)
            move = Vector(local, buffer, at, True)
            vectors.append(move if guard is TRUE else If(_at_start(guard, loops[-1]), (move,)))
        self.level([], inner)
        body: tuple[Stmt, ...] = tuple(inner.out)
        for a in reversed(loops):
            body = (For(a, body),)
        c.out += [*body, *vectors]

    def consecutive(self, index: tuple[Node, ...], arrays: Sequence[Node]) -> bool:
        """Whether an index steps by one along the only array axis, in whole vectors."""
        if not self.schedule.vector or len(arrays) != 1 or not index:
            return False
        return _steps_by_one(index, arrays[0])

    # -- what is computed where --------------------------------------------------------------

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

    def visible(self, roots: Iterable[Node], c: Context) -> Iterator[Node]:
        """Nodes not computed yet, arguments first."""
        seen: set[Node] = set()
        stack = [(r, False) for r in roots]
        while stack:
            n, ready = stack.pop()
            if ready:
                yield n
            elif n not in seen and n not in c.known and n not in c.blocked:
                seen.add(n)
                stack.append((n, True))
                inner = n.args[:-1] if n.op == "fold" and n.by is not None else n.args
                stack.extend((a, False) for a in reversed(inner))

    def tainted(self, n: Node, c: Context) -> bool:
        """Whether n needs a fold that is still being computed."""
        return bool(c.blocked) and any(x in c.blocked for x in walk(n))

    def hoist(self, roots: list[Node], c: Context) -> None:
        """Name every largest expression that does not vary with the loops to come."""
        stays: set[Node] = set()
        for n in self.visible(roots, c):
            if n.free <= c.scope and n.op != "scan" and not self.tainted(n, c):
                stays.add(n)
        used_deeper = {a for n in self.visible(roots, c) if n not in stays for a in n.args}
        for n in list(self.visible(roots, c)):
            if n in stays and (n in used_deeper or n in roots) and _worth(n):
                self.let(n, c)

    def let(self, n: Node, c: Context) -> None:
        """Name the value of n."""
        if n in c.known:
            return
        self.lets([n], c)
        value = self.value(n, c)
        if value.op == "var":
            return
        name = self.name("v")
        c.out.append(Let(name, value))
        c.known[n] = make("var", (), (name, n.free), n.dtype)

    def lets(self, roots: list[Node], c: Context, also: Sequence[Node] = ()) -> None:
        """Name what roots use more than once, or once and `also` too."""
        nodes = list(self.visible(roots, c))
        uses = Counter(a for n in self.visible([*roots, *also], c) for a in n.args)
        for n in nodes:
            if n.op == "scan":
                self.step_scan(n, c)
            elif uses[n] > 1 and _worth(n) and n not in roots and n.free <= c.scope:
                value = self.value(n, c)
                name = self.name("v")
                c.out.append(Let(name, value))
                c.known[n] = make("var", (), (name, n.free), n.dtype)

    def value(self, root: Node, c: Context) -> Node:
        """root in terms of what is computed already."""
        done: dict[Node, Node] = {}
        for n in self.visible([root], c):
            if n.op in ("fold", "scan"):
                raise IrError(f"{n} was not computed before its use")
            done[n] = rebuild(n, [done.get(a) or c.known[a] for a in n.args])
        return done.get(root) or c.known[root]

    # -- scans ---------------------------------------------------------------------------------

    def start_scans(self, roots: list[Node], along: Node, c: Context) -> None:
        """Before the loop of a scanned axis: its running results."""
        for n in self.visible(roots, c):
            if n.op == "scan" and n.axes[0] is along:
                name = self.name("a")
                c.out.append(Local(name, n.dtype, (), identity(n.monoid, n.dtype)))
                self.scans[n] = make("var", (), (name, n.free), n.dtype)

    def step_scan(self, n: Node, c: Context) -> None:
        """In the loop: take in this position."""
        if n in c.known:
            return
        state = self.scans[n]
        c.out.append(Assign(state.name, (), combine(n.monoid, state, self.value(n.body, c))))
        c.known[n] = state

    # -- folds -----------------------------------------------------------------------------------

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
                if all(d in group and d is f.by and keeps[d] in ((), keeps[f]) for d in waits):
                    group.append(f)
            self.fold_group(group, keeps, c)
            pending = [f for f in pending if f not in group]

    def fold_group(
        self, group: list[Node], keeps: dict[Node, tuple[Node, ...]], c: Context
    ) -> None:
        """One loop that computes a group of folds, each after those it follows."""
        coop = self.coop if c.uniform and all(self.shares(f) for f in group) else None
        loops, places, guard = self.fold_loops(group[0], coop, c)
        accs = []
        bodies = [substitute(f.body, dict(zip(f.axes, places, strict=True))) for f in group]
        own = frozenset(group)
        bodies = self.registers(bodies, loops, own, c)
        staged = None
        if self.tiles(c, coop) and loops:
            shapes = {b.name: b.shape for b in self.kernel.reads}
            staged = stage(bodies, loops, c.scope, self.lanes, self.name, own, shapes)
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
        self.open(loops, accs, guard, c, staged.copies if staged else ())
        c.blocked -= frozenset(group)
        if coop is not None:
            self.reduce_lanes(accs, coop, c)
        for acc in accs:
            suffix, dtype = (".i", i64) if acc.fold.monoid.startswith("arg") else ("", None)
            c.known[acc.fold] = acc.var(acc.fold.free - frozenset(acc.arrays), suffix, dtype)

    def shares(self, f: Node) -> bool:
        """Whether the lanes of a block would all compute the same fold."""
        return self.coop is not None and self.coop not in f.free

    def tiles(self, c: Context, coop: Node | None) -> bool:
        return bool(self.schedule.fold_tile) and coop is None and c.uniform

    def fold_loops(self, f: Node, coop: Node | None, c: Context) -> tuple[list[Node], list[Node], Node]:
        """The loops of a fold's axes, the positions they stand for, and when those are inside."""
        wide = _widest(f.axes)
        loops: list[Node] = []
        places: list[Node] = []
        guard = TRUE
        for a in f.axes:
            extent = self.value(a.extent, c)
            if extent is ONE:
                places.append(const(0))
                continue
            a = axis(self.name("j"), extent)
            if coop is not None and len(places) == wide:
                outer = axis(f"{a.name}o", (extent + (self.schedule.threads - 1)) // self.schedule.threads)
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
        self.prepare(roots, c, (), True)
        inner = c.inside([loops[0]], uniform=False)
        if copies:
            inner.out += [Sync(), *copies, Sync()]
        self.open(loops[1:], accs, guard, inner, ())
        c.out.append(For(loops[0], tuple(inner.out)))

    def update(self, accs: list[Accumulator], c: Context) -> None:
        """Take one position into every fold of a group."""
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
        return _replace(acc.fold.act, values)

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

    # -- lanes and registers -----------------------------------------------------------------------

    def reduce_lanes(self, accs: list[Accumulator], coop: Node, c: Context) -> None:
        """Combine what the lanes of a block have each folded, in the order of the group."""
        by_fold = {a.fold: a for a in accs}
        old: dict[Node, Node] = {}
        for acc in accs:
            f = acc.fold
            assert not acc.arrays, "a fold that lanes share keeps no array"
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
            return [AllReduce(acc.name, (), f.monoid, (coop,))]
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

    def registers(
        self, bodies: list[Node], loops: list[Node], own: frozenset[Node], c: Context
    ) -> list[Node]:
        """Operands of inner folds that this loop reads again and again, held by each lane."""
        if not self.schedule.fragments or not c.uniform:
            return bodies
        left = self.schedule.fragments
        held: dict[Node, Node] = {f: f for f in own}
        for n in (n for b in bodies for n in walk(b, skip=own) if n.op == "load"):
            inner = sorted(n.free - c.scope, key=lambda a: a.name)
            fixed = all(a.extent.op == "const" and a not in loops for a in inner)
            if n in held or not inner or not fixed or frozenset(self.lanes) - n.free:
                continue
            sizes = tuple(a.extent.value for a in inner)
            total = 1
            for s in sizes:
                total *= s
            if total > left or n.free & frozenset(loops) or any(a.bind == "array" for a in inner):
                continue
            left -= total
            name = self.name("r")
            own = [axis(self.name("j"), a.extent, "array") for a in inner]
            read = substitute(n, dict(zip(inner, own, strict=True)))
            body: tuple[Stmt, ...] = (Assign(name, tuple(own), self.value(read, c)),)
            for a in reversed(own):
                body = (For(a, body),)
            c.out += [Local(name, n.dtype, sizes, None), *body]
            held[n] = make("var", tuple(inner), (name, c.scope), n.dtype)
        return [_replace(b, held) for b in bodies]

    def fragments(self, roots: list[Node], c: Context, arrays: tuple[Node, ...]) -> None:
        """Read what varies with some of the array axes once, into arrays of its own."""
        if not self.schedule.fragments:
            return
        for n in list(self.visible(roots, c)):
            mine = tuple(a for a in arrays if a in n.free)
            staged = n.op == "var" and n.args
            if not (n.op == "load" or staged) or not mine or not n.free <= c.scope | set(arrays):
                continue
            wide = n.op == "load" and self.whole_vector(n, mine)
            if len(mine) == len(arrays) and not wide:
                continue
            name = self.name("r")
            c.out.append(Local(name, n.dtype, tuple(a.extent.value for a in mine), None))
            if wide:
                at = tuple(_at_start(self.value(i, c), mine[0]) for i in n.index)
                move: Stmt = Vector(name, n.name, at, False)
                guard = _at_start(self.value(n.guard, c), mine[0])
                c.out.append(move if guard is TRUE else If(guard, (move,)))
            else:
                body: tuple[Stmt, ...] = (Assign(name, mine, self.value(n, c)),)
                for a in reversed(mine):
                    body = (For(a, body),)
                c.out += body
            c.known[n] = make("var", mine, (name, n.free - set(mine)), n.dtype)

    def whole_vector(self, n: Node, mine: tuple[Node, ...]) -> bool:
        """Whether a load reads consecutive elements along one array axis, in whole vectors."""
        return self.schedule.vector and len(mine) == 1 and _steps_by_one(n.index, mine[0])


def _at_start(n: Node, along: Node) -> Node:
    """n at the first element of an array axis."""
    return rewrite(substitute(n, {along: const(0)}), simplest)


def _steps_by_one(index: Sequence[Node], along: Node) -> bool:
    """Whether only the last index varies with along, by one, and starts at whole vectors."""
    if any(along in i.free for i in index[:-1]):
        return False
    size = along.extent.value
    terms = dict(to_poly(index[-1]))
    if terms.pop((along,), 0) != 1 or any(along in a.free for t in terms for a in t):
        return False
    return all(k % size == 0 for k in terms.values())


def _guard_loads(value: Node, guards: dict[Node, Node]) -> Node:
    """Loads that vary with a loop which may run over its axis read nothing outside."""
    if not guards:
        return value
    done: dict[Node, Node] = {}
    for n in walk(value):
        new = make(n.op, [done[a] for a in n.args], n.data, n.dtype)
        if n.op in ("load", "checked"):
            own = all_of(*dict.fromkeys(g for p, g in guards.items() if p in n.free))
            new = guarded(new, own) if n.op == "load" or own is not TRUE else new
        done[n] = new
    return done[value]


def _replace(root: Node, names: dict[Node, Node]) -> Node:
    """root with nodes replaced, bound axes and all: names speak of them on purpose."""
    if not names:
        return root
    done: dict[Node, Node] = {}
    for n in walk(root):
        new = names.get(n)
        done[n] = new if new is not None else make(n.op, [done[a] for a in n.args], n.data, n.dtype)
    return done[root]


def _same_loop(f: Node, g: Node) -> bool:
    return [a.extent for a in f.axes] == [a.extent for a in g.axes]


def _widest(axes: Sequence[Node]) -> int:
    """Which axis is split: the last one of unknown size, else the longest."""
    sizes = [2**62 if a.extent.op != "const" else a.extent.value for a in axes]
    return max(range(len(axes)), key=lambda n: (sizes[n], n))


def _better(monoid: str, x: Node, best: Node) -> Node:
    wins = x > best if monoid == "argmax" else x < best
    if x.dtype is bool_:
        wins = apply("and_", x, apply("not_", best))
        wins = wins if monoid == "argmax" else apply("and_", apply("not_", x), best)
    return wins | (x.ne(x) & best.eq(best)) if x.dtype.is_float else wins


def _worth(n: Node) -> bool:
    """Whether n is worth a name: not index arithmetic, which compilers place themselves."""
    if n.op in ("const", "axis", "dim", "arg", "var"):
        return False
    return n.dtype not in (i64, bool_) or any(x.op in ("load", "fold", "checked") for x in walk(n))


def _strip(s: Stmt) -> Stmt:
    """A statement whose variables no longer say what they vary with."""

    def clean(root: Node) -> Node:
        done: dict[Node, Node] = {}
        for n in walk(root):
            args = [done[a] for a in n.args]
            data = (n.data[0].replace(".", "_"), frozenset[Node]()) if n.op == "var" else n.data
            done[n] = make(n.op, args, data, n.dtype)
        return done[root]

    if isinstance(s, For):
        return For(clean(s.axis), tuple(map(_strip, s.body)))
    if isinstance(s, If):
        return If(clean(s.condition), tuple(map(_strip, s.body)))
    if isinstance(s, Let):
        return Let(s.name, clean(s.value))
    if isinstance(s, Local):
        return replace(s, init=None if s.init is None else clean(s.init))
    if isinstance(s, Assign | StoreTo):
        index = tuple(map(clean, s.index))
        if isinstance(s, Assign):
            return Assign(s.name.replace(".", "_"), index, clean(s.value))
        return StoreTo(s.buffer, index, clean(s.value))
    if isinstance(s, Vector):
        return replace(s, index=tuple(map(clean, s.index)))
    if isinstance(s, AllReduce):
        return replace(s, name=s.name.replace(".", "_"))
    return s
