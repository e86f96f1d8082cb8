"""Pass: Tensor IR to Loop IR. Reads tensors one by one, writes kernels; fusion is by cost.

From the last tensor to the first: should its consumers compute it where they use it, or should a
kernel store it? Views and constants are always read through. For the rest both forms are built,
improved by the rules, and counted (cost.py): recomputation against bytes moved. Going backwards
makes chains meet at their end: when the scores of an attention are asked about, the two folds and
the product that read them are one kernel already, so inlining them costs no second computation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rift_compiler.cost import BALANCE, VECTOR, Cost, cost
from rift_compiler.expr import Node, const, guarded, rewrite, substitute, walk, where
from rift_compiler.index import simplest
from rift_compiler.loop_ir import Kernel, LoopProgram, Store, kernel
from rift_compiler.nest import nest
from rift_compiler.products import blocks
from rift_compiler.rules import RULES, Rule
from rift_compiler.schedule import Part, Schedule
from rift_compiler.schedule_cpu import block_schedule
from rift_compiler.targets import AVX2, Vectors
from rift_compiler.tensor_ir import Buffer, Def, TensorProgram, loads

LARGEST_KERNEL = 400  # operations in one kernel: more pays no one, and takes long to compile
LARGEST_ARRAY = 512  # elements that a loop may keep of an output axis (a head of attention)


@dataclass(frozen=True, slots=True)
class Step:
    """One decision: what was offered, the cost without and with it, and whether it was taken."""

    rule: str
    subject: str
    before: Cost
    after: Cost
    taken: bool
    kernels_before: tuple[Kernel, ...] = ()
    kernels_after: tuple[Kernel, ...] = ()


@dataclass(frozen=True)
class Improved:
    """A kernel as cheap as the rules make it, and its cost."""

    kernel: Kernel
    cost: Cost


@dataclass
class Fuser:
    """The state of one fusion: tensors that are stored, each with the kernel that makes it."""

    program: TensorProgram
    sizes: Mapping[str, int]
    vectors: Vectors | None
    steps: list[Step] = field(default_factory=list)
    defs: dict[str, Def] = field(default_factory=dict)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    _known: dict[tuple[Buffer, Node], Improved] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.defs = {d.buffer.name: d for d in self.program.defs}
        self.buffers = {b.name: b for b in self.program.inputs}
        self.buffers |= {d.buffer.name: d.buffer for d in self.program.defs}

    def run(self) -> LoopProgram:
        """The kernels."""
        values = {name: _plain(d) for name, d in self.defs.items()}
        outputs = set(self.program.outputs)
        for d in reversed(self.program.defs):
            self.place(d.buffer.name, values, outputs)
        made = [
            self.improve(self.defs[name], value, f"k{n}", note=True)
            for n, (name, value) in enumerate(values.items())
        ]
        p, kernels = self.program, tuple(i.kernel for i in made)
        return LoopProgram(p.dims, p.inputs, kernels, p.outputs)

    def place(self, name: str, values: dict[str, Node], outputs: set[str]) -> None:
        """Inline a tensor into its consumers, or leave it stored."""
        users = [
            u for u, v in values.items() if u != name and any(n.name == name for n in loads(v))
        ]
        if not users:
            if name not in outputs:
                del values[name]
            return
        value = values[name]
        if any(n.op == "scan" for n in walk(value)):
            return
        inlined = {u: inline(values[u], {name: (self.defs[name].axes, value)}) for u in users}
        if any(_nodes(v) > max(LARGEST_KERNEL, _nodes(values[u])) for u, v in inlined.items()):
            return
        if not _free_to_read(value):
            before = sum((self.cost(u, values[u]) for u in users), self.cost(name, value))
            start = self.cost(name, value) if name in outputs else Cost()
            after = sum((self.cost(u, v) for u, v in inlined.items()), start)
            taken = after.predicted <= before.predicted
            old, new = (
                tuple(self.kernel(self.defs[u], v[u], u) for u in users) for v in (values, inlined)
            )
            subject = f"{name} into {', '.join(users)}"
            self.steps.append(Step("inline", subject, before, after, taken, old, new))
            if not taken:
                return
        values.update(inlined)
        if name not in outputs:
            del values[name]

    def kernel(self, d: Def, value: Node, name: str) -> Kernel:
        """A kernel as it is before rules improve it."""
        return kernel(name, d.axes, (Store(d.buffer, value),), self.buffers)

    def cost(self, name: str, value: Node) -> Cost:
        return self.improved(name, value).cost

    def improved(self, name: str, value: Node) -> Improved:
        return self.improve(self.defs[name], value, name)

    def improve(self, d: Def, value: Node, name: str, note: bool = False) -> Improved:
        """The cheapest form of a kernel that the rules offer."""
        key = (d.buffer, value)
        if not note and key in self._known:
            return self._known[key]
        best = plain = self.counted(d, value, name)
        for rules, changed in offers(value):
            offer = self.counted(d, changed, name)
            taken = offer.cost.predicted <= best.cost.predicted
            if note:
                names = " + ".join(r.name for r in rules)
                before, after = (plain.kernel,), (offer.kernel,)
                step = Step(names, d.buffer.name, best.cost, offer.cost, taken, before, after)
                self.steps.append(step)
            best = offer if taken else best
        self._known[key] = best
        return best

    def counted(self, d: Def, value: Node, name: str) -> Improved:
        """A kernel and its cost, under the plain schedule that costs least."""
        k = self.kernel(d, value, name)
        costs = [cost(nest(k, s), self.sizes) for s in _plain_schedules(k)]
        least = min(costs, key=lambda c: c.predicted)
        if self.vectors and _one_at_a_time(k, self.vectors):
            least = replace(least, idle=least.operations / BALANCE * (VECTOR - 1))
        return Improved(k, least)


def plain_schedule(k: Kernel) -> Schedule:
    """The plain schedule that costs least, sizes taken at their hints."""
    return min(_plain_schedules(k), key=lambda s: cost(nest(k, s), {}).predicted)


def _plain_schedules(k: Kernel) -> list[Schedule]:
    """All loops in order; or the last axis inside the folds, each of which keeps an array."""
    folds = any(n.op == "fold" for s in k.stores for n in walk(s.value))
    found = blocks(k, AVX2) if folds else None
    if found:
        return [block_schedule(k, found)]
    if not k.axes or not folds or not _may_keep(k.axes[-1]):
        return [Schedule()]
    size = _array_size(k.axes[-1].extent.value)
    last = (Part("array", size),) if size == k.axes[-1].extent.value else (
        Part("seq"), Part("array", size))  # fmt: skip
    return [Schedule(), Schedule((*((Part("seq"),) for _ in k.axes[:-1]), last))]


def offers(value: Node) -> list[tuple[tuple[Rule, ...], Node]]:
    """The forms that the rules offer for a value: those that only simplify are kept on the way,
    and each that opens the way for others is tried with and without."""
    forms: list[tuple[tuple[Rule, ...], Node]] = [((), value)]
    for rule in RULES:
        for rules, form in list(forms):
            changed = rule.change(form)
            if changed is not form:
                forms.append(((*rules, rule), changed))
    return forms[1:]


def _nodes(value: Node) -> int:
    return sum(1 for _ in walk(value))


def _array_size(extent: int) -> int:
    """How many elements of an axis to keep: all, or a divisor that fits."""
    if extent <= LARGEST_ARRAY:
        return extent
    return next(n for n in range(128, 0, -1) if extent % n == 0)


def _may_keep(a: Node) -> bool:
    return (a.extent.op == "const" and a.extent.value > 1 and _array_size(a.extent.value) >= 8) or (
        a.extent.op == "const" and 1 < a.extent.value <= LARGEST_ARRAY
    )


def _plain(d: Def) -> Node:
    """A definition's value, axes of size one read at 0."""
    if not any(n.op == "axis" and n.extent is const(1) for n in walk(d.value)):
        return d.value
    ones = {a: const(0) for a in d.axes if a.extent is const(1)}
    return rewrite(substitute(d.value, ones), _without_ones)


def _without_ones(n: Node) -> Node | None:
    """A fold or scan over one position is what it folds there."""
    if n.op == "scan" and n.args[0].op == "const":
        return n.body
    if n.op == "fold" and all(a.extent is const(1) for a in n.axes):
        first = substitute(n.body, {a: const(0) for a in n.axes})
        return const(0) if n.monoid.startswith("arg") else first
    return simplest(n)


def _free_to_read(value: Node) -> bool:
    """Whether computing value again costs nothing: a view, a constant, an index."""
    return all(
        n.op in ("load", "const", "axis", "dim", "where", "cast", "checked")
        or n.dtype.name in ("i64", "bool")
        for n in walk(value)
    ) and not any(n.op == "fold" for n in walk(value))


def inline(value: Node, known: Mapping[str, tuple[tuple[Node, ...], Node]]) -> Node:
    """value, with loads of known tensors replaced by what those tensors are there."""

    def change(n: Node) -> Node | None:
        if n.op != "load" or n.name not in known:
            return None
        axes, inner = known[n.name]
        new = guarded(substitute(inner, dict(zip(axes, n.index, strict=True))), n.guard)
        return new if new.op == "load" else where(n.guard, new, const(0, n.dtype))

    return rewrite(rewrite(value, change), simplest)


def _one_at_a_time(k: Kernel, vectors: Vectors) -> bool:
    """Whether a processor's lanes would be idle: folds move at every position, but for blocks."""
    folds = [n for s in k.stores for n in walk(s.value) if n.op == "fold"]
    wide = bool(k.axes) and any(f.by is not None and k.axes[-1] in f.free for f in folds)
    return wide and not blocks(k, vectors)


def fuse(
    p: TensorProgram, sizes: Mapping[str, int], vectors: Vectors | None = None
) -> tuple[LoopProgram, tuple[Step, ...]]:
    """Kernels of a program, and the decisions that led to them. vectors: of a processor."""
    fuser = Fuser(p, sizes, vectors)
    return fuser.run(), tuple(fuser.steps)
