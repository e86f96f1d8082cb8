"""Pass: Loop IR to Loop IR: what a sum of products weighs its terms with, in a kernel of its own.

    sum[k](exp(s[i, k] - m) * v[k, j])  ->  p[i, k] = exp(s[i, k] - m);  sum[k](p[i, k] * v[k, j])

Fusion brings weights in: few bytes move. But lanes go along j, and the weights are the same for all
of them: one at a time, where a kernel of their own has lanes along k. For few rows that is dearer
than the memory it saves (attention of a few queries).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rift_compiler.expr import (
    Node,
    axis,
    canonical,
    load,
    replaced,
    rewrite,
    substitute,
    walk,
)
from rift_compiler.index import simplest
from rift_compiler.loop_ir import Kernel, LoopProgram, Store, kernel
from rift_compiler.nest_folds import DEAR
from rift_compiler.products import blocks
from rift_compiler.scalar_ops import SCALAR_OPS
from rift_compiler.targets import Vectors
from rift_compiler.tensor_ir import Buffer


def apart(p: LoopProgram, vectors: Vectors) -> LoopProgram:
    """p with the weights of its sums of products computed by kernels of their own."""
    kernels: list[Kernel] = []
    known, taken = dict(p.buffers), set(p.buffers)
    for k in p.kernels:
        weighted = None if blocks(k, vectors) else _weighted(k)
        kernels += _Parts(k, known, taken).split(weighted) if weighted else [k]
    return replace(p, kernels=tuple(kernels))


def _weighted(k: Kernel) -> Node | None:
    """The only fold that varies with the last axis, if its weights are dear and others are not."""
    if len(k.stores) != 1 or not k.axes:
        return None
    columns, folds = k.axes[-1], _own_folds(k, k.stores[0].value)
    wide = [f for f in folds if columns in f.free]
    if len(wide) != 1 or wide[0].by is not None or wide[0].monoid != "sum":
        return None
    return wide[0] if any(map(_dear, _weights(wide[0], columns))) else None


def _weights(f: Node, columns: Node) -> list[Node]:
    """The largest parts of what f sums that vary with it, but not with columns; none where what
    varies with columns is not the product of elements alone."""
    along = frozenset(f.axes)
    found: list[Node] = []
    stack = [f.body]
    while stack:
        n = stack.pop()
        if columns in n.free and n.op == "fold":
            return []
        if columns in n.free:
            stack.extend(n.args)
        elif n.free & along and n.op not in ("axis", "load"):
            found.append(n)
    return found


def _dear(n: Node) -> bool:
    return any(x.op in SCALAR_OPS and SCALAR_OPS[x.op].cost >= DEAR for x in walk(n))


@dataclass
class _Parts:
    kernel: Kernel
    known: dict[str, Buffer]
    taken: set[str]
    made: list[Kernel] = field(default_factory=list)

    def split(self, weighted: Node) -> list[Kernel]:
        """The kernel's parts, in order."""
        (store,), columns = self.kernel.stores, self.kernel.axes[-1]
        weights = _weights(weighted, columns)
        value = replaced(store.value, {n: self.stored(n, weighted.axes) for n in weights})
        rows = [f for f in _own_folds(self.kernel, value) if f.free and columns not in f.free]
        value = replaced(value, {f: self.stored(f, ()) for f in rows})
        last = Store(store.buffer, canonical(value))
        return [*self.made, kernel(self.kernel.name, self.kernel.axes, (last,), self.known)]

    def stored(self, n: Node, along: Sequence[Node]) -> Node:
        """The element that is n, of a new buffer that a new kernel fills."""
        order = [a for a in (*self.kernel.axes, *along) if a in n.free]
        new = tuple(axis(f"i{at}", a.extent) for at, a in enumerate(order))
        name = f"{self.kernel.name}_part{len(self.made)}"
        buffer = Buffer(self.name(name), n.dtype, tuple(a.extent for a in order))
        value = rewrite(substitute(n, dict(zip(order, new, strict=True))), simplest)
        self.made.append(kernel(name, new, (Store(buffer, canonical(value)),), self.known))
        self.known[buffer.name] = buffer
        return load(buffer.name, order, n.dtype)

    def name(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _own_folds(k: Kernel, value: Node) -> list[Node]:
    """The folds of a kernel that are in no other."""
    mine = frozenset(k.axes)
    return [n for n in walk(value) if n.op == "fold" and n.free <= mine]
