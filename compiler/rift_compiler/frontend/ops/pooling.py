"""Pooling: an index map to every element's window, then a fold over the window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rift_compiler.dtypes import i64
from rift_compiler.expr import Node, all_of, apply, cast, const, where
from rift_compiler.folds import identity
from rift_compiler.frontend.builder import Builder, Tensor
from rift_compiler.frontend.ops.convolution import each
from rift_compiler.frontend.ops.views import flatten
from rift_compiler.frontend.registry import lowers

Place = Callable[[Node], Node]


@dataclass(frozen=True)
class Span:
    """The windows along one dimension: where each begins and ends, perhaps outside the input, and
    the most elements it has."""

    begin: Place
    end: Place
    taps: Node
    step: int = 1


def _regular(kernel: int, stride: int, padding: int, dilation: int = 1) -> Span:
    reach = (kernel - 1) * dilation + 1
    return Span(
        lambda o: o * stride - padding,
        lambda o: o * stride - padding + reach,
        const(kernel),
        dilation,
    )


def _adaptive(size: Node, out: Node) -> Span:
    """Windows from floor(o*size/out) to ceil((o+1)*size/out)."""
    even = size % out
    if even.op == "const" and even.value == 0:
        return _regular((size // out).value, (size // out).value, 0)
    most = (size + out - 1) // out + 1
    return Span(lambda o: o * size // out, lambda o: ((o + 1) * size + out - 1) // out, most)


def _spans(kernel: list[int], stride: list[int], pad: list[int], dil: list[int]) -> list[Span]:
    return [_regular(*of) for of in zip(kernel, stride or kernel, pad, dil, strict=True)]


def _spot(x: Tensor, spans: Sequence[Span], axes: Sequence[Node]) -> tuple[list[Node], Node]:
    """The position in x of a window's element, and whether it is in the window and in x."""
    n = len(spans)
    lead = len(axes) - 2 * n
    spots, inside = [], []
    for d, span in enumerate(spans):
        o, k = axes[lead + d], axes[lead + n + d]
        at = span.begin(o) + k * span.step
        spots.append(at)
        inside += [at >= 0, at < x.shape[lead + d], at < span.end(o)]
    return spots, all_of(*inside)


def _windows(b: Builder, x: Tensor, spans: Sequence[Span], fill: Node | None) -> Tensor:
    """Every window of x, its elements in the last dimensions; fill, or 0, where it is outside."""
    lead = x.rank - len(spans)

    def value(*axes: Node) -> Node:
        spots, inside = _spot(x, spans, axes)
        read = x.at(*axes[:lead], *spots, guard=inside)
        return read if fill is None else where(inside, read, fill)

    cells = b.define(x.dtype, (*b.shape(), *(s.taps for s in spans)), value)
    return b.cast(cells, x.dtype.opmath)


def _max_pool(b: Builder, x: Tensor, spans: Sequence[Span]) -> tuple[Tensor, Tensor]:
    cells = _windows(b, x, spans, identity("max", x.dtype))
    inner = range(x.rank, x.rank + len(spans))
    top = b.reduce("max", cells, inner)
    values = b.result(lambda *axes: cast(top.at(*axes), x.dtype))

    def key(*axes: Node) -> Node:
        """Where the maximum is: the first place of equal ones, but the last one of a NaN."""
        spots, inside = _spot(x, spans, axes)
        most, cell = top.at(*axes[: x.rank]), cells.at(*axes)
        nan = most.ne(most)
        at = flatten(spots, x.shape[x.rank - len(spans) :])
        hit = all_of(inside, where(nan, cell.ne(cell), cell.eq(most)))
        return where(hit, where(nan, -at, at), const(np.iinfo(np.int64).max))

    keys = b.reduce("min", b.define(i64, cells.shape, key), inner)

    def place(*axes: Node) -> Node:
        nan = top.at(*axes).ne(top.at(*axes))
        return where(nan, -keys.at(*axes), keys.at(*axes))

    return values, b.result(place, 1)


@lowers("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool(
    b: Builder,
    x: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    ceil_mode: bool,
) -> tuple[Tensor, Tensor]:
    del ceil_mode  # torch's result has the number of windows; those that stick out are cut off
    n = 3 if "3d" in b.source.split()[0] else 2
    return _max_pool(b, x, _spans(*(each(v, n) for v in (kernel_size, stride, padding, dilation))))


@lowers("aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def adaptive_max_pool(
    b: Builder, x: Tensor, output_size: Sequence[object]
) -> tuple[Tensor, Tensor]:
    n = len(output_size)  # its numbers are in torch's result
    return _max_pool(b, x, [_adaptive(*s) for s in zip(x.shape[-n:], b.shape()[-n:], strict=True)])


@lowers("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool(b: Builder, x: Tensor, output_size: Sequence[object]) -> Tensor:
    n = len(output_size)  # its numbers are in torch's result
    spans = [_adaptive(*s) for s in zip(x.shape[-n:], b.shape()[-n:], strict=True)]
    return _average(b, x, spans, [lambda o, s=s: s.end(o) - s.begin(o) for s in spans])  # type: ignore[misc]


@lowers("aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(
    b: Builder,
    x: Tensor,
    kernel_size: list[int],
    stride: list[int],
    padding: list[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    del ceil_mode  # torch's result has the number of windows
    n = 3 if "3d" in b.source.split()[0] else 2
    pads = each(padding, n)
    spans = _spans(each(kernel_size, n), each(stride, n), pads, [1] * n)

    def count(span: Span, size: Node, pad: int) -> Place:
        def elements(o: Node) -> Node:
            begin, end = span.begin(o), least(span.end(o), size + pad)
            if count_include_pad:
                return end - begin
            return least(end, size) - where(begin < 0, const(0), begin)

        return elements

    counts = [count(*of) for of in zip(spans, x.shape[-n:], pads, strict=True)]
    if divisor_override is not None:
        counts = [lambda o: const(divisor_override)]
    return _average(b, x, spans, counts)


def least(p: Node, q: Node) -> Node:
    """min(p, q), decided where their ranges allow."""
    return where(p <= q, p, q)


def _average(b: Builder, x: Tensor, spans: Sequence[Span], counts: Sequence[Place]) -> Tensor:
    """The sum of each window, over the product of its counts (in the order of its dimensions)."""
    total = b.reduce("sum", _windows(b, x, spans, None), range(x.rank, x.rank + len(spans)))
    divide = "div" if x.dtype.is_float else "truncdiv"

    def value(*axes: Node) -> Node:
        parts: list[Any] = [c(o) for c, o in zip(counts, axes[x.rank - len(spans) :], strict=False)]
        size = cast(math.prod(parts, start=const(1)), total.dtype)
        return cast(apply(divide, total.at(*axes), size), x.dtype)

    return b.result(value)
