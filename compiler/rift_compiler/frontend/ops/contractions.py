"""Matrix products: multiply, then sum. f16 and bf16 accumulate in f32 and round once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rift_compiler.dtypes import DType, bool_
from rift_compiler.expr import Node, cast
from rift_compiler.frontend.builder import Builder, Scalar, Tensor
from rift_compiler.frontend.ops.views import ONE
from rift_compiler.frontend.registry import lowers


def contract(
    b: Builder,
    bound: Sequence[Node],
    x: Tensor,
    at: Callable[..., Node],
    y: Tensor,
    to: Callable[..., Node],
    wide: DType | None = None,
) -> Tensor:
    """The sum of x * y over sizes `bound`, for each element of the op's result, in the type that
    accumulates. `at` and `to` give their elements at (*result axes, *bound axes)."""
    if x.dtype is bool_:
        raise b.refuse(f"{b.source.split()[0]} of bool: torch has no such product")
    wide = wide or x.dtype.opmath
    shape = (*b.shape(), *bound)
    products = b.define(wide, shape, lambda *axes: cast(at(*axes), wide) * cast(to(*axes), wide))
    return b.reduce("sum", products, range(len(shape) - len(bound), len(shape)))


def plus(b: Builder, total: Tensor, x: Tensor | None, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * total, rounded once; x, broadcast, is not read where beta is 0."""
    wide = total.dtype
    if (x is None or beta == 0) and alpha == 1 and wide is b.dtype():
        return total

    def value(*axes: Node) -> Node:
        out = total.at(*axes)
        if alpha != 1:
            out = b.scalar(alpha, wide) * out
        if x is not None and beta != 0:
            term = cast(x.broadcast(axes), wide)
            out = (term if beta == 1 else b.scalar(beta, wide) * term) + out
        return cast(out, b.dtype())

    return b.result(value)


def product(b: Builder, x: Tensor, y: Tensor, wide: DType | None = None) -> Tensor:
    """x @ y as torch.matmul has it: vectors on either side, batches broadcast."""

    def left(*axes: Node) -> Node:
        *batch, k = axes if y.rank == 1 else (*axes[:-2], axes[-1])
        return x.broadcast((*batch, k))

    def right(*axes: Node) -> Node:
        *rest, k = axes
        column = [rest.pop()] if y.rank > 1 else []
        batch = rest[:-1] if x.rank > 1 else rest
        return y.broadcast((*batch, k, *column))

    return contract(b, [x.shape[-1]], x, left, y, right, wide)


@lowers(*(f"aten.{op}.default" for op in ("matmul", "mm", "bmm", "mv", "dot")))
def matmul(b: Builder, x: Tensor, **other: Tensor) -> Tensor:
    (y,) = other.values()  # each op has a name of its own for it
    return plus(b, product(b, x, y), None)


@lowers("aten._int_mm.default")
def int_mm(b: Builder, x: Tensor, mat2: Tensor) -> Tensor:
    return product(b, x, mat2, b.dtype())


@lowers(*(f"aten.{op}.default" for op in ("addmm", "baddbmm", "addmv")))
def addmm(b: Builder, x: Tensor, beta: Scalar, alpha: Scalar, **factors: Tensor) -> Tensor:
    one, two = factors.values()  # mat1 and mat2, batch1 and batch2, mat and vec
    return plus(b, product(b, one, two), x, beta, alpha)


@lowers("aten.addbmm.default")
def addbmm(
    b: Builder, x: Tensor, batch1: Tensor, batch2: Tensor, beta: Scalar, alpha: Scalar
) -> Tensor:
    batch, _, inner = batch1.shape
    total = contract(
        b,
        [batch, inner],
        batch1,
        lambda i, j, n, k: batch1.at(n, i, k),
        batch2,
        lambda i, j, n, k: batch2.at(n, k, j),
    )
    return plus(b, total, x, beta, alpha)


@lowers("aten.linear.default")
def linear(b: Builder, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    rows = weight.rank - 1  # a weight without rows is one row, and its dimension goes
    total = contract(
        b,
        [weight.shape[-1]],
        input,
        lambda *axes: input.at(*axes[: input.rank - 1], axes[-1]),
        weight,
        lambda *axes: weight.at(*axes[len(axes) - 1 - rows :]),
    )
    return plus(b, total, bias)


@lowers("aten._trilinear.default")
def trilinear(
    b: Builder,
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int,
) -> Tensor:
    """The product of three tensors, each with sizes of 1 put in, summed over some dimensions."""
    del unroll_dim  # in which order torch computes
    if i1.dtype is bool_:
        raise b.refuse("aten._trilinear of bool")
    wide, rank = i1.dtype.opmath, i1.rank + len(expand1)
    parts = ((i1, expand1), (i2, expand2), (i3, expand3))
    shape = [ONE] * rank
    for t, gone in parts:
        for n, s in zip((n for n in range(rank) if n not in gone), t.shape, strict=True):
            shape[n] = s if shape[n] is ONE else shape[n]

    def value(*axes: Node) -> Node:
        p, q, r = (
            cast(t.broadcast([a for n, a in enumerate(axes) if n not in gone]), wide)
            for t, gone in parts
        )
        return p * q * r

    total = b.reduce("sum", b.define(wide, shape, value), sumdim)
    return plus(b, total, None)
