"""Reading at places that come from data. Each is checked: out of range is an error."""

from __future__ import annotations

import math

from rift_compiler.dtypes import bool_, i64, u8
from rift_compiler.expr import Node, apply, cast, const, where
from rift_compiler.frontend.builder import Builder, Tensor
from rift_compiler.frontend.ops.views import ONE, place, reshape, unflatten
from rift_compiler.frontend.registry import lowers


def checked(i: Node, size: Node) -> Node:
    """An index from data, which must be in 0..size-1."""
    return apply("checked", cast(i, i64), size)


def wrapped(i: Node, size: Node) -> Node:
    """An index from data, in -size..size-1; negative ones count from the end."""
    i = cast(i, i64)
    return checked(where(i < 0, i + size, i), size)


def indexed(b: Builder, indices: list[Tensor | None]) -> tuple[dict[int, Tensor], int, int]:
    """Advanced indexing: dimension -> index, and where and how many the dimensions of the indices
    (broadcast together) are in the result: in place of the first, or ahead of all if apart."""
    at = {n: t for n, t in enumerate(indices) if t is not None}
    if any(t.dtype in (bool_, u8) for t in at.values()):
        raise b.refuse("an index that is a mask: the size of the result depends on the data")
    together = max(at) - min(at) == len(at) - 1
    return at, min(at) if together else 0, max(t.rank for t in at.values())


@lowers("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(b: Builder, x: Tensor, indices: list[Tensor | None]) -> Tensor:
    at, first, rank = indexed(b, indices)

    def value(*axes: Node) -> Node:
        inner = axes[first : first + rank]
        rest = iter((*axes[:first], *axes[first + rank :]))
        return x.at(
            *(
                wrapped(at[n].broadcast(inner), x.shape[n]) if n in at else next(rest)
                for n in range(x.rank)
            )
        )

    return b.result(value)


@lowers("aten.index_select.default")
def index_select(b: Builder, x: Tensor, dim: int, index: Tensor) -> Tensor:
    d = place(dim, x.rank)
    x, index = at_least_1d(b, x), at_least_1d(b, index)

    def value(*axes: Node) -> Node:
        axes = axes or (const(0),)
        return x.at(*axes[:d], checked(index.at(axes[d]), x.shape[d]), *axes[d + 1 :])

    return b.result(value)


@lowers("aten.gather.default")
def gather(b: Builder, x: Tensor, dim: int, index: Tensor, sparse_grad: bool) -> Tensor:
    del sparse_grad  # how the gradient is stored
    d = place(dim, x.rank)
    x = at_least_1d(b, x)
    if max(index.rank, 1) != x.rank:  # torch lets an index without elements have any shape
        return b.result(lambda *axes: b.fill(0, x.dtype))

    def value(*axes: Node) -> Node:
        at = checked(index.at(*axes), x.shape[d])
        return x.at(*axes[:d], at, *axes[d + 1 :])

    return b.result(value)


@lowers("aten.take.default")
def take(b: Builder, x: Tensor, index: Tensor) -> Tensor:
    count = math.prod(x.shape, start=ONE)
    return b.result(lambda *axes: x.at(*unflatten(wrapped(index.at(*axes), count), x.shape)))


def at_least_1d(b: Builder, x: Tensor) -> Tensor:
    """x; a 0-d one as one element."""
    return x if x.rank else reshape(b, x, (ONE,))


@lowers("aten.embedding.default")
def embedding(
    b: Builder,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int,
    scale_grad_by_freq: bool,
    sparse: bool,
) -> Tensor:
    del padding_idx, scale_grad_by_freq, sparse  # all three change the gradient only
    rows = weight.shape[0]
    return b.result(
        lambda *axes: weight.at(
            checked(indices.at(*axes[: indices.rank]), rows), *axes[indices.rank :]
        )
    )


@lowers("aten.one_hot.default")
def one_hot(b: Builder, x: Tensor, num_classes: int) -> Tensor:
    if num_classes < 0:
        raise b.refuse(f"aten.one_hot num_classes={num_classes}: the size depends on the data")
    size = b.shape()[-1]
    return b.result(lambda *axes: cast(checked(x.at(*axes[:-1]), size).eq(axes[-1]), i64))
