"""Writing at places that come from data, turned round: each element asks who writes to it.

That is a fold over all writers: slow, but exact, and in no order that could differ between runs.
Of several writers to one element the last one wins, which is one of the results torch allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rift_compiler.dtypes import bool_, i64
from rift_compiler.expr import TRUE, Node, all_of, apply, cast, const, where
from rift_compiler.folds import combine
from rift_compiler.frontend.builder import Builder, Scalar, Tensor
from rift_compiler.frontend.ops.indexing import at_least_1d, checked, indexed, wrapped
from rift_compiler.frontend.ops.views import ONE, flatten, place, reshape, unflatten
from rift_compiler.frontend.registry import lowers

Axes = Sequence[Node]
Hit = Callable[[Axes, Axes], Node]  # does the writer at the second index write to the first?
Source = Callable[..., Node]  # (element, writer, guard=) -> what it writes


def _replace(b: Builder, x: Tensor, writers: Axes, hit: Hit, source: Source) -> Tensor:
    """x, with what the last writer to an element writes."""
    n = x.rank

    def number(*axes: Node) -> Node:
        return where(hit(axes[:n], axes[n:]), flatten(axes[n:], writers), const(-1))

    numbers = b.define(i64, (*x.shape, *writers), number)
    last = b.reduce("max", numbers, range(n, n + len(writers)))

    def value(*axes: Node) -> Node:
        written = last.at(*axes) >= 0
        new = source(axes, unflatten(last.at(*axes), writers), guard=written)
        return where(written, new, x.at(*axes))

    return _result(b, x, value)


def _increase(b: Builder, x: Tensor, writers: Axes, hit: Hit, source: Source) -> Tensor:
    """x plus what all writers to an element write."""
    n, wide = x.rank, x.dtype.opmath
    monoid = "any" if x.dtype is bool_ else "sum"  # a sum of bools, as a bool

    def part(*axes: Node) -> Node:
        new = cast(source(axes[:n], axes[n:], guard=TRUE), wide)
        return where(hit(axes[:n], axes[n:]), new, const(0, wide))

    parts = b.define(wide, (*x.shape, *writers), part)
    total = b.reduce(monoid, parts, range(n, n + len(writers)))

    def value(*axes: Node) -> Node:
        return cast(combine(monoid, cast(x.at(*axes), wide), total.at(*axes)), x.dtype)

    return _result(b, x, value)


def _result(b: Builder, x: Tensor, value: Callable[..., Node]) -> Tensor:
    """The op's result, of x's shape; 0-d where x was made 1-d."""
    new = b.define(x.dtype, x.shape, value)
    return new if b.shape() else reshape(b, new, (), b.results[0])


def _aligned(t: Tensor, axes: Axes, guard: Node) -> Node:
    """The element of t, broadcast, at indices that need not be axes."""
    mine = axes[len(axes) - t.rank :]
    index = (const(0) if s is ONE else a for s, a in zip(t.shape, mine, strict=True))
    return t.at(*index, guard=guard)


@lowers("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(
    b: Builder, x: Tensor, indices: list[Tensor | None], values: Tensor, accumulate: bool
) -> Tensor:
    masks = [n for n, t in enumerate(indices) if t is not None and t.dtype is bool_]
    if len(masks) == 1 and len([t for t in indices if t is not None]) == 1 and not accumulate:
        return _fill_mask(b, x, indices[masks[0]], masks[0], values)
    at, first, _ = indexed(b, indices)
    return _put(b, x, at, first, values, wrapped, accumulate)


def _fill_mask(b: Builder, x: Tensor, mask: Any, first: int, values: Tensor) -> Tensor:
    if any(s is not ONE for s in values.shape):
        raise b.refuse("aten.index_put of several values at a mask: which goes where is data")

    def value(*axes: Node) -> Node:
        new = values.at(*([0] * values.rank))
        return where(mask.at(*axes[first : first + mask.rank]), new, x.at(*axes))

    return b.result(value)


def _put(
    b: Builder,
    x: Tensor,
    at: dict[int, Tensor],
    first: int,
    values: Tensor,
    read: Callable[[Node, Node], Node],
    accumulate: bool,
) -> Tensor:
    """values[..., writer, ...] to the elements of x at indices; writers stand at `first`."""
    rank = max(t.rank for t in at.values())
    shapes = [(ONE,) * (rank - t.rank) + t.shape for t in at.values()]
    writers = [next((s for s in sizes if s is not ONE), ONE) for sizes in zip(*shapes, strict=True)]

    def hit(i: Axes, w: Axes) -> Node:
        places = ((n, read(_aligned(t, w, TRUE), x.shape[n])) for n, t in at.items())
        return all_of(*(i[n].eq(p) for n, p in places))

    def source(i: Axes, w: Axes, guard: Node) -> Node:
        rest = [a for n, a in enumerate(i) if n not in at]
        return _aligned(values, [*rest[:first], *w, *rest[first:]], guard)

    return (_increase if accumulate else _replace)(b, x, writers, hit, source)


@lowers("aten.index_copy.default")
def index_copy(b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    return _along(b, x, dim, index, source, accumulate=False)


@lowers("aten.index_fill.int_Scalar", "aten.index_fill.int_Tensor")
def index_fill(b: Builder, x: Tensor, dim: int, index: Tensor, value: Scalar | Tensor) -> Tensor:
    if not isinstance(value, Tensor):
        number = b.fill(value, x.dtype)
        value = b.define(x.dtype, (), lambda: number)
    d, new = place(dim, x.rank), b.cast(value, x.dtype)
    x, index = at_least_1d(b, x), at_least_1d(b, index)
    return _put(b, x, {d: index}, d, new, wrapped, accumulate=False)


@lowers("aten.index_add.default")
def index_add(
    b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Scalar
) -> Tensor:
    wide = x.dtype.opmath
    if alpha != 1:
        times, scale, given = "and_" if x.dtype is bool_ else "mul", b.scalar(alpha, wide), source
        source = b.define(
            wide, given.shape, lambda *axes: apply(times, cast(given.at(*axes), wide), scale)
        )
    return _along(b, x, dim, index, source, accumulate=True)


def _along(
    b: Builder, x: Tensor, dim: int, index: Tensor, source: Tensor, accumulate: bool
) -> Tensor:
    d = place(dim, x.rank)
    x, index, source = (at_least_1d(b, t) for t in (x, index, source))
    if source.rank != x.rank:
        raise b.refuse(f"{b.source.split()[0]} source of {source.rank} dimensions, not {x.rank}")
    return _put(b, x, {d: index}, d, source, checked, accumulate)


def _scatter(b: Builder, x: Tensor, dim: int, index: Tensor, write: Any, source: Source) -> Tensor:
    """To x[.., index[.., w, ..], ..], for each w along dim."""
    d = place(dim, x.rank)
    x, index = at_least_1d(b, x), at_least_1d(b, index)

    def writer(i: Axes, w: Axes) -> tuple[list[Node], Node]:
        """The writer's own index, and whether there is one: index may be smaller than x."""
        spot = [*i[:d], *w, *i[d + 1 :]]
        others = [n for n in range(x.rank) if n != d]
        return spot, all_of(*(spot[n] < index.shape[n] for n in others))

    def hit(i: Axes, w: Axes) -> Node:
        spot, here = writer(i, w)
        return all_of(here, checked(index.at(*spot, guard=here), x.shape[d]).eq(i[d]))

    def limited(i: Axes, w: Axes, guard: Node) -> Node:
        spot, here = writer(i, w)
        return source(spot, all_of(guard, here))

    return write(b, x, [index.shape[d]], hit, limited)  # type: ignore[no-any-return]


@lowers("aten.scatter.src")
def scatter(b: Builder, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    src = at_least_1d(b, src)
    return _scatter(b, x, dim, index, _replace, lambda spot, guard: src.at(*spot, guard=guard))


@lowers("aten.scatter.value")
def scatter_value(b: Builder, x: Tensor, dim: int, index: Tensor, value: Scalar) -> Tensor:
    new = b.fill(value, x.dtype)
    return _scatter(b, x, dim, index, _replace, lambda spot, guard: new)


@lowers("aten.scatter_add.default")
def scatter_add(b: Builder, x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    src = at_least_1d(b, src)
    return _scatter(b, x, dim, index, _increase, lambda spot, guard: src.at(*spot, guard=guard))
