"""Running reductions: a scan along one axis, in the type that torch accumulates in."""

from __future__ import annotations

from rift_compiler.dtypes import bool_, i64
from rift_compiler.expr import Node, apply, const, scan, where
from rift_compiler.frontend.builder import Builder, Tensor
from rift_compiler.frontend.registry import lowers


def _scan(b: Builder, monoid: str, x: Tensor, dim: int) -> Tensor:
    """The running fold of x along dim, of x's type. A number has dimension 0 too."""
    if not x.rank:
        return x
    return b.define(x.dtype, x.shape, lambda *i: scan(monoid, i[dim % x.rank], x.at(*i)))


@lowers("aten.cumsum.default")
def cumsum(b: Builder, x: Tensor, dim: int, dtype: object) -> Tensor:
    del dtype  # torch's result has it
    return _running(b, "sum", x, dim)


@lowers("aten.cumprod.default")
def cumprod(b: Builder, x: Tensor, dim: int, dtype: object) -> Tensor:
    del dtype  # torch's result has it
    return _running(b, "prod", x, dim)


def _running(b: Builder, monoid: str, x: Tensor, dim: int) -> Tensor:
    if b.dtype() is bool_:  # sums and products of bools, when dtype= asks for those
        monoid = {"sum": "any", "prod": "all"}[monoid]
    wide = b.cast(b.cast(x, b.dtype()), b.dtype().opmath)
    return b.cast(_scan(b, monoid, wide, dim), b.dtype())


@lowers("aten.cummax.default")
def cummax(b: Builder, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _extreme(b, "max", x, dim)


@lowers("aten.cummin.default")
def cummin(b: Builder, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return _extreme(b, "min", x, dim)


def _extreme(b: Builder, monoid: str, x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The running extreme and where it was last met: the greatest index so far of an element that
    equals the extreme up to it, as torch counts equals and NaNs."""
    wide = b.cast(x, x.dtype.opmath)
    best = _scan(b, monoid, wide, dim)
    if not x.rank:
        return b.cast(best, x.dtype), b.define(i64, (), lambda: const(0))

    def met(*i: Node) -> Node:
        here, so_far = wide.at(*i), best.at(*i)
        new = here.eq(so_far)
        if x.dtype.is_float:
            new = apply("or_", new, here.ne(here))
        return where(new, i[dim % x.rank], const(0))

    index = _scan(b, "max", b.define(i64, x.shape, met), dim)
    return b.cast(best, x.dtype), index
