"""Rule: a long fold in two kernels: parts of it in parallel, then their results combined.

A plain fold of the parts' results is the fold of all (associativity). A twisted fold's parts each
have a centre of their own; its action carries every part to the common centre first. So split-K of
a matrix product and split-KV of attention are this one rule. Unlike the rules of RULES it makes a
second kernel, so it is offered where kernels are chosen: see split.py.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from rift_compiler.expr import (
    TRUE,
    Node,
    arg,
    axis,
    canonical,
    cast,
    const,
    fold,
    fresh_axis,
    guarded,
    load,
    open_fold,
    replaced,
    rewrite,
    substitute,
    walk,
    where,
)
from rift_compiler.folds import identity
from rift_compiler.index import simplest
from rift_compiler.loop_ir import Kernel, Store, kernel
from rift_compiler.tensor_ir import Buffer

LAW = "associativity: the fold of parts' folds; a twisted part is first carried by its action"
SOURCE = "split-K; Dao et al. 2023 (Flash-Decoding): https://pytorch.org/blog/flash-decoding"


def split_fold(k: Kernel, parts: int, shortest: int = 1) -> tuple[Kernel, Kernel] | None:
    """A kernel that folds `parts` parts, and one that combines them; None where it cannot be.

    It cannot where a fold needs another's final result, for argmax and argmin, for a mean over an
    axis that does not divide evenly, and where parts would have less than `shortest` positions.
    """
    group = _group(k)
    if not group or _length(group[0].axes[_widest(group[0])]) < parts * shortest:
        return None
    mine = frozenset(k.axes)
    sets = sorted({f.free & mine for f in group}, key=len)
    if any(not a <= b for a, b in itertools.pairwise(sets)):
        return None
    used = [a for a in k.axes if a in sets[-1]]
    order = tuple(sorted(used, key=lambda a: sum(a not in s for s in sets)))
    cut = _Cut(k.stores[0].buffer.name, parts, _widest(group[0]), order, fresh_axis(parts))
    for f in group:
        if not cut.add(f):
            return None
    finals = {f: cut.final(f) for f in group}
    stores = tuple(Store(s.buffer, canonical(replaced(s.value, finals))) for s in k.stores)
    known = {b.name: b for b in (*k.reads, *(s.buffer for s in cut.stores.values()))}
    first = kernel(f"{k.name}_parts", cut.axes, tuple(cut.stores.values()), known)
    return first, kernel(k.name, k.axes, stores, known)


def _group(k: Kernel) -> list[Node] | None:
    """The folds over the longest axes, if one loop could compute them; each after its base."""
    mine = frozenset(k.axes)
    folds = [n for n in walk(*(s.value for s in k.stores)) if n.op == "fold" and n.free <= mine]
    if not folds:
        return None
    longest = max(folds, key=lambda f: _length(f.axes[_widest(f)]))
    group = [f for f in folds if [a.extent for a in f.axes] == [a.extent for a in longest.axes]]
    for f in group:
        needs = [n for n in walk(f.body) if n in group and n is not f.by and n is not f]
        if any(n is not f.by and n not in _bases(f) for n in needs) or f.monoid.startswith("arg"):
            return None
    return group


def _bases(f: Node) -> list[Node]:
    """The chain of folds that f follows."""
    out = []
    while f.by is not None:
        f = f.by
        out.append(f)
    return out


def _length(a: Node) -> int:
    """The size of an axis; one known at run time is taken to be long."""
    return a.extent.value if a.extent.op == "const" else 2**31


def _widest(f: Node) -> int:
    return max(range(len(f.axes)), key=lambda n: _length(f.axes[n]))


@dataclass
class _Cut:
    """The first kernel as it grows: for each fold, what it stores."""

    name: str
    parts: int
    along: int  # which of a fold's axes is cut
    order: tuple[Node, ...]  # the axes that folds vary with; the part's number goes before them
    own: Node  # the part's number
    stores: dict[Node, Store] = field(default_factory=dict)
    values: dict[Node, Node] = field(default_factory=dict)

    @property
    def axes(self) -> tuple[Node, ...]:
        sizes = [const(self.parts), *(a.extent for a in self.order)]
        return tuple(axis(f"i{n}", size) for n, size in enumerate(sizes))

    def add(self, f: Node) -> bool:
        """Store f's parts; False where f cannot be cut."""
        value = self.part(f)
        if value is None:
            return False
        self.values[f] = value
        shape = tuple(a.extent for a in self.axes[: 1 + len(f.free & frozenset(self.order))])
        buffer = Buffer(f"{self.name}_part{len(self.stores)}", f.dtype, shape)
        names = dict(zip((self.own, *self.order), self.axes, strict=True))
        self.stores[f] = Store(buffer, substitute(value, names))
        return True

    def size(self, a: Node) -> Node:
        """How long a part of an axis is."""
        return (a.extent + (self.parts - 1)) // self.parts

    def part(self, f: Node) -> Node | None:
        """f over the positions of the part `own`."""
        axes, (body, *tail) = open_fold(f)
        whole = axes[self.along]
        inside = fresh_axis(self.size(whole))
        place = self.own * inside.extent + inside
        fits = place < whole.extent
        if fits is not TRUE and f.monoid == "mean":
            return None
        hole = arg("centre", f.dtype if f.by is None else f.by.dtype)
        if f.by is not None:
            body = replaced(body, {f.by: hole})
        body = rewrite(substitute(body, {whole: place}), simplest)
        body = where(fits, guarded(body, fits), identity(f.monoid, body.dtype))
        axes[self.along] = inside
        if f.by is None:
            return fold(f.monoid, axes, body)
        by = self.values[f.by]
        return fold(f.monoid, axes, substitute(body, {hole: by}), by, tail[1])

    def final(self, f: Node) -> Node:
        """The parts of f, combined."""
        own = fresh_axis(self.parts)
        if f.by is None:
            return fold(f.monoid, [own], self.read(f, own))
        size: Node = const(1)
        for n, a in enumerate(f.axes):
            size = size * (self.size(a) if n == self.along else a.extent)
        moves = {
            arg("acc", f.dtype): self.read(f, own),
            arg("old", f.by.dtype): self.read(f.by, own),
            arg("new", f.by.dtype): self.final(f.by),
            arg("count", f.dtype): cast(size, f.dtype),
        }
        return fold(f.monoid, [own], substitute(f.act, moves))

    def read(self, f: Node, own: Node) -> Node:
        """A stored part of f."""
        index = [own, *(a for a in self.order if a in f.free)]
        return load(self.stores[f].buffer.name, index, f.dtype)
