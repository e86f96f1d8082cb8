"""Pass: Loop IR to Loop IR: copy an operand of a product into the order in which lanes read it.

    w[j, k]  ->  w_packed[j // L, k, j % L]

Lanes along j then read whole vectors, one after the other in memory, whichever way the operand was
stored; the copy is one more kernel, paid once for all rows of the product. What is converted to
float32 for every product is converted when it is copied; so is the other operand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rift_compiler.expr import (
    Node,
    all_of,
    axis,
    canonical,
    const,
    load,
    open_fold,
    replaced,
    rewrite,
    substitute,
    walk,
)
from rift_compiler.expr import fold as make_fold
from rift_compiler.index import simplest
from rift_compiler.loop_ir import Kernel, LoopProgram, Store, kernel
from rift_compiler.products import Product, blocks, dots, narrow, product
from rift_compiler.targets import Vectors
from rift_compiler.tensor_ir import Buffer


def pack(p: LoopProgram, vectors: Vectors, constants: frozenset[str] = frozenset()) -> LoopProgram:
    """p with the operands of its products packed. constants: what is packed once for all calls."""
    kernels: list[Kernel] = []
    taken = set(p.buffers)
    for k in p.kernels:
        found = product(k, vectors, constants) or blocks(k, vectors) or dots(k, vectors)
        kernels += _packed(k, found, p.buffers, taken) if found else [k]
    return replace(p, kernels=tuple(kernels))


@dataclass
class _Packer:
    kernel: Kernel
    product: Product
    taken: set[str]
    copies: list[Kernel]
    known: dict[str, Buffer]
    made: dict[Node, Buffer] = field(default_factory=dict)

    def fold(self, f: Node, columns: Node) -> Node:
        """A product, reading packed operands."""
        axes, (body,) = open_fold(f)
        new = {
            n: self.copy(n, axes, columns)
            for n in operands(body)
            if self.product.packs and columns in n.free and self.product.rows not in n.free
        }
        if not self.product.inner:
            other = [n for n in operands(body) if narrow(n) and self.product.rows in n.free]
            new |= {n: self.convert(n, axes) for n in other}
        return make_fold(f.monoid, axes, replaced(body, new))

    def convert(self, n: Node, axes: Sequence[Node]) -> Node:
        """The converted element that is n, in the order of the axes."""
        order = [a for a in (*self.kernel.axes, *axes) if a in n.free]
        names = {a: axis(f"f{at}", a.extent) for at, a in enumerate(order)}
        same = substitute(n, names)
        if same not in self.made:
            new = tuple(axis(f"i{at}", a.extent) for at, a in enumerate(order))
            value = rewrite(substitute(n, dict(zip(order, new, strict=True))), simplest)
            self.made[same] = self.store(n, new, value, "wide")
        return load(self.made[same].name, order, n.dtype)

    def block(self, f: Node, done: dict[Node, Node]) -> Node:
        """A fold taken in blocks, whose terms are products: their columns are its positions."""
        axes, (body, *tail) = open_fold(f)
        dots = [n for n in walk(body) if n.op == "fold" and axes[0] in n.free]
        new = {n: self.fold(n, axes[0]) for n in dots}
        if f.by is None:
            return make_fold(f.monoid, axes, replaced(body, new))
        return make_fold(
            f.monoid, axes, replaced(body, {**new, f.by: done[f.by]}), done[f.by], tail[1]
        )

    def copy(self, n: Node, axes: list[Node], columns: Node) -> Node:
        """The packed element that is n; the same operand is packed once."""
        lanes = self.product.lanes
        batch = [a for a in self.kernel.axes if a in n.free and a is not columns]
        folded = [a for a in axes if a in n.free]
        names = {a: axis(f"f{at}", a.extent) for at, a in enumerate((columns, *folded))}
        same = substitute(n, names)
        if same not in self.made:
            self.made[same] = self.packed(n, batch, folded, columns)
        index = [*batch, columns // lanes, *folded, columns % lanes]
        return load(self.made[same].name, index, n.dtype)

    def packed(self, n: Node, batch: list[Node], folded: list[Node], columns: Node) -> Buffer:
        """The packed operand, and the kernel that packs it."""
        lanes = self.product.lanes
        tile = lanes * self.product.groups
        groups = (columns.extent + (tile - 1)) // tile * self.product.groups
        sizes = [*(a.extent for a in batch), groups, *(a.extent for a in folded), const(lanes)]
        new = tuple(axis(f"i{at}", size) for at, size in enumerate(sizes))
        column = new[len(batch)] * lanes + new[-1]
        names = dict(
            zip([*batch, *folded], [*new[: len(batch)], *new[len(batch) + 1 : -1]], strict=True)
        )
        inside = column < columns.extent
        value = rewrite(substitute(n, {**names, columns: column}), simplest)
        read = _read(value)
        guarded = load(read.name, read.index, read.dtype, all_of(inside, read.guard))
        return self.store(n, new, replaced(value, {read: guarded}), "packed")

    def store(self, n: Node, axes: tuple[Node, ...], value: Node, suffix: str) -> Buffer:
        """A new buffer of values over axes, and the kernel that fills it."""
        sizes = tuple(a.extent for a in axes)
        buffer = Buffer(self.name(_read(n).name, suffix), n.dtype, sizes)
        name = f"{self.kernel.name}_pack{len(self.copies)}"
        self.copies.append(kernel(name, axes, (Store(buffer, value),), self.known))
        self.known[buffer.name] = buffer
        return buffer

    def name(self, of: str, suffix: str) -> str:
        name = f"{of}_{suffix}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name


def _packed(
    k: Kernel, found: Product, known: Mapping[str, Buffer], taken: set[str]
) -> list[Kernel]:
    packer = _Packer(k, found, taken, [], dict(known))
    new: dict[Node, Node] = {}
    for f in _own_folds(k):
        if found.inner:
            new[f] = packer.block(f, new)
        elif f in found.folds:
            new[f] = packer.fold(f, found.columns)
    stores = tuple(Store(s.buffer, canonical(replaced(s.value, new))) for s in k.stores)
    return [*packer.copies, kernel(k.name, k.axes, stores, packer.known)]


def operands(body: Node) -> list[Node]:
    """What a product reads: loads, or what they are converted to."""
    converted = [n for n in walk(body) if narrow(n)]
    inside = {n.args[0] for n in converted}
    return converted + [n for n in walk(body) if n.op == "load" and n not in inside]


def _read(n: Node) -> Node:
    """The load that an operand is."""
    return n.args[0] if n.op == "cast" else n


def _own_folds(k: Kernel) -> list[Node]:
    """The folds of a kernel that are in no other, each after what it follows."""
    mine = frozenset(k.axes)
    return [n for n in walk(*(s.value for s in k.stores)) if n.op == "fold" and n.free <= mine]
