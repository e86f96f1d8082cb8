"""Part of nest.py: which expressions are computed where, and under which names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rift_compiler.dtypes import bool_, i64
from rift_compiler.expr import (
    TRUE,
    IrError,
    Node,
    all_of,
    guarded,
    load,
    make,
    rebuild,
    walk,
)
from rift_compiler.folds import combine, identity
from rift_compiler.index import smallest
from rift_compiler.loop_ir import Kernel
from rift_compiler.schedule import Schedule
from rift_compiler.tile_ir import (
    Assign,
    For,
    If,
    Let,
    Local,
    Stmt,
)

# What a kernel stores: buffer, index, value, guard, and the axes that the index varies with.
Output = tuple[str, tuple[Node, ...], Node, Node, frozenset[Node]]


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


class Values:
    """The kernel being nested, and ways to name and write what it computes."""

    def __init__(self, kernel: Kernel, schedule: Schedule) -> None:
        self.kernel = kernel
        self.schedule = schedule
        self.serial: Counter[str] = Counter()
        self.taken = {a.name for a in kernel.axes} | {b.name for b in kernel.reads}
        self.taken |= {s.buffer.name for s in kernel.stores}
        self.lanes: tuple[Node, ...] = ()
        self.rows: tuple[Node, ...] = ()  # the array axes of outputs
        self.stores: list[Output] = []  # what is still to be stored
        self.column: Node | None = None  # the place along the last axis, if lanes have it in turn
        self.kept: list[tuple[Node, str, Node]] = []  # terms of a fold, the arrays they are kept in
        self.tile_starts: dict[Node, Node] = {}  # when a turn of a tile loop begins inside
        self.scans: dict[Node, Node] = {}
        self.coop: Node | None = None  # the lanes that share folds

    def reading(self, value: Node, guards: dict[Node, Node]) -> Node:
        """value, reading nothing outside where loops may run over their axes: loads get a guard,
        or, as the schedule says, the last element instead."""
        if not guards:
            return value
        shapes = {b.name: b.shape for b in self.kernel.reads}
        done: dict[Node, Node] = {}
        for n in walk(value):
            new = make(n.op, [done[a] for a in n.args], n.data, n.dtype)
            own = all_of(*dict.fromkeys(g for p, g in guards.items() if p in n.free))
            if n.op == "load" and own is not TRUE and self.schedule.clamp:
                new = self.clamped(new, shapes[n.name], own)
            elif n.op in ("load", "checked") and own is not TRUE:
                new = guarded(new, own)
            done[n] = new
        return done[value]

    def clamped(self, n: Node, shape: tuple[Node, ...], guard: Node) -> Node:
        """A load that may be asked for what is beyond its buffer's end."""
        ends = [smallest(i, size - 1) for i, size in zip(n.index, shape, strict=True)]
        lanes = any(a in i.free for i in n.index for a in self.lanes)
        if lanes and any(e is not i for e, i in zip(ends, n.index, strict=True)):
            return guarded(n, guard)  # vectors are to stay whole
        return load(n.name, ends, n.dtype, n.guard)

    def name(self, prefix: str) -> str:
        """A new name."""
        while True:
            out = f"{prefix}{self.serial[prefix]}"
            self.serial[prefix] += 1
            if out not in self.taken:
                return out

    def each(self, axes: Sequence[Node], *body: Stmt) -> list[Stmt]:
        """Statements in loops over axes; turns of tile loops that are all outside are left out."""
        for a in reversed(axes):
            starts = self.tile_starts.get(a)
            body = (For(a, body if starts is None else (If(starts, body),)),)
        return list(body)

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


def _worth(n: Node) -> bool:
    """Whether n is worth a name: not index arithmetic, which compilers place themselves."""
    if n.op in ("const", "axis", "dim", "arg", "var"):
        return False
    return n.dtype not in (i64, bool_) or any(x.op in ("load", "fold", "checked") for x in walk(n))
