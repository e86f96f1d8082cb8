"""Reductions: a fold over some axes, in the type that torch accumulates in."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rift_compiler.dtypes import bool_, i64
from rift_compiler.expr import Node, apply, cast, const, where
from rift_compiler.frontend.builder import Builder, Tensor
from rift_compiler.frontend.registry import lowers

Dims = int | Sequence[int] | None  # of a reduction; None and () are all of them


def _dims(x: Tensor, dim: Dims) -> list[int]:
    """The dimensions, counted from the front. torch lets a number have dimension 0 too."""
    given = [dim] if isinstance(dim, int) else dim
    return [d % x.rank for d in given or range(x.rank)] if x.rank else []


def _wide(b: Builder, x: Tensor) -> Tensor:
    """x rounded to the result's type, as dtype= asks, then in the type that accumulates."""
    return b.cast(b.cast(x, b.dtype()), b.dtype().opmath)


def _fold(b: Builder, monoid: str, x: Tensor, dim: Dims, keep: bool) -> Tensor:
    """x, cast to the result's type, folded in the type that accumulates; the op's result."""
    if b.dtype() is bool_:  # sums and products of bools, when dtype= asks for those
        monoid = {"sum": "any", "prod": "all"}.get(monoid, monoid)
    return b.cast(b.reduce(monoid, _wide(b, x), _dims(x, dim), keep), b.dtype())


def _count(x: Tensor, dim: Dims) -> Node:
    """How many elements each result takes in."""
    count = const(1)
    for d in _dims(x, dim):
        count = count * x.shape[d]
    return count


@lowers("aten.sum.default", "aten.sum.dim_IntList")
def sum_(b: Builder, x: Tensor, dtype: object, dim: Dims = None, keepdim: bool = False) -> Tensor:
    del dtype  # torch's result has it
    return _fold(b, "sum", x, dim, keepdim)


@lowers("aten.prod.default", "aten.prod.dim_int")
def prod(b: Builder, x: Tensor, dtype: object, dim: Dims = None, keepdim: bool = False) -> Tensor:
    del dtype  # torch's result has it
    return _fold(b, "prod", x, dim, keepdim)


@lowers("aten.mean.default", "aten.mean.dim")
def mean(b: Builder, x: Tensor, dtype: object, dim: Dims = None, keepdim: bool = False) -> Tensor:
    del dtype  # torch's result has it
    return b.cast(_mean(b, _wide(b, x), dim, keepdim), b.dtype())


def _mean(b: Builder, x: Tensor, dim: Dims, keep: bool) -> Tensor:
    total = b.reduce("sum", x, _dims(x, dim), keep)
    count = cast(_count(x, dim), x.dtype)
    return b.define(x.dtype, total.shape, lambda *i: total.at(*i) / count)


@lowers("aten.amax.default", "aten.max.default")
def amax(b: Builder, x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return _fold(b, "max", x, dim, keepdim)


@lowers("aten.amin.default", "aten.min.default")
def amin(b: Builder, x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return _fold(b, "min", x, dim, keepdim)


@lowers("aten.aminmax.default")
def aminmax(b: Builder, x: Tensor, dim: Dims, keepdim: bool) -> tuple[Tensor, Tensor]:
    return amin(b, x, dim, keepdim), amax(b, x, dim, keepdim)


@lowers("aten.max.dim")
def max_(b: Builder, x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return amax(b, x, dim, keepdim), argmax(b, x, dim, keepdim)


@lowers("aten.min.dim")
def min_(b: Builder, x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    return amin(b, x, dim, keepdim), argmin(b, x, dim, keepdim)


@lowers("aten.argmax.default")
def argmax(b: Builder, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    return _position(b, "argmax", x, dim, keepdim)


@lowers("aten.argmin.default")
def argmin(b: Builder, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    return _position(b, "argmin", x, dim, keepdim)


def _position(b: Builder, monoid: str, x: Tensor, dim: Dims, keep: bool) -> Tensor:
    """The first index of the extreme; over all dimensions, the row-major index."""
    if not x.rank:
        return b.define(i64, (), lambda: const(0))
    return b.reduce(monoid, b.cast(x, x.dtype.opmath), _dims(x, dim), keep)


@lowers("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(b: Builder, x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return _truth(b, "any", x, dim, keepdim)


@lowers("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(b: Builder, x: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    return _truth(b, "all", x, dim, keepdim)


def _truth(b: Builder, monoid: str, x: Tensor, dim: Dims, keep: bool) -> Tensor:
    bits = b.cast(x, bool_)
    gone = [] if isinstance(dim, Sequence) and not dim else _dims(x, dim)  # here () is none of them
    return b.cast(b.reduce(monoid, bits, gone, keep), b.dtype())  # of uint8 torch makes a uint8


def _variance(b: Builder, x: Tensor, dim: Dims, correction: float | None, keep: bool) -> Tensor:
    """The sum of (x - mean)^2 over count - correction: two passes, as nothing else is stable."""
    centre = _mean(b, x, dim, True)

    def square(*i: Node) -> Node:
        delta = x.at(*i) - centre.broadcast(i)
        return delta * delta

    total = b.reduce("sum", b.define(x.dtype, x.shape, square), _dims(x, dim), keep)
    degrees = cast(_count(x, dim), x.dtype) - (1 if correction is None else correction)
    at_least_0 = apply("max", degrees, const(0, x.dtype))
    return b.define(x.dtype, total.shape, lambda *i: total.at(*i) / at_least_0)


def _root(b: Builder, x: Tensor) -> Tensor:
    return b.define(x.dtype, x.shape, lambda *i: apply("sqrt", x.at(*i)))


@lowers("aten.var.correction")
def var(b: Builder, x: Tensor, dim: Dims, correction: float | None, keepdim: bool) -> Tensor:
    return b.cast(_variance(b, _wide(b, x), dim, correction, keepdim), b.dtype())


@lowers("aten.std.correction")
def std(b: Builder, x: Tensor, dim: Dims, correction: float | None, keepdim: bool) -> Tensor:
    return b.cast(_root(b, _variance(b, _wide(b, x), dim, correction, keepdim)), b.dtype())


@lowers("aten.var_mean.correction")
def var_mean(
    b: Builder, x: Tensor, dim: Dims, correction: float | None, keepdim: bool
) -> tuple[Tensor, Tensor]:
    return var(b, x, dim, correction, keepdim), mean(b, x, None, dim, keepdim)


@lowers("aten.std_mean.correction")
def std_mean(
    b: Builder, x: Tensor, dim: Dims, correction: float | None, keepdim: bool
) -> tuple[Tensor, Tensor]:
    return std(b, x, dim, correction, keepdim), mean(b, x, None, dim, keepdim)


@lowers("aten.logsumexp.default")
def logsumexp(b: Builder, x: Tensor, dim: Dims, keepdim: bool) -> Tensor:
    """m + log(sum(exp(x - m))) where m is the maximum, and m itself where that is infinite."""
    wide, gone = _wide(b, x), _dims(x, dim)
    centre = b.reduce("max", wide, gone, True)
    powers = b.define(
        wide.dtype, x.shape, lambda *i: apply("exp", wide.at(*i) - centre.broadcast(i))
    )
    top, total = b.reduce("max", wide, gone, keepdim), b.reduce("sum", powers, gone, keepdim)

    def value(*i: Node) -> Node:
        m = top.at(*i)
        log = m + apply("log", total.at(*i))
        return cast(where(apply("abs", m).eq(math.inf), m, log), b.dtype())

    return b.result(value)
