"""Convolutions: an index map to each element's patch of the input, times the weight, summed."""

from __future__ import annotations

from collections.abc import Sequence

from rift_compiler.dtypes import bool_
from rift_compiler.expr import Node, all_of, cast, const
from rift_compiler.frontend.builder import Builder, Tensor
from rift_compiler.frontend.ops.contractions import plus
from rift_compiler.frontend.registry import lowers

Axes = Sequence[Node]


def each(values: Sequence[int], n: int) -> list[int]:
    """One value for each of n dimensions; torch lets one stand for all."""
    return [*values] * n if len(values) == 1 else [*values]


@lowers("aten.convolution.default")
def convolution(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
) -> Tensor:
    del output_padding  # more positions of a transposed one; torch's result has them
    if input.dtype is bool_:
        raise b.refuse("aten.convolution of bool")
    n, wide = input.rank - 2, input.dtype.opmath
    batch, channels, *out = b.shape()
    per_group = channels // const(groups)
    inner, taps = input.shape[1] // const(groups), weight.shape[2:]
    steps = list(zip(each(stride, n), each(padding, n), each(dilation, n), strict=True))
    spot = _transposed if transposed else _forward

    def patch(*axes: Node) -> Node:
        place, c, ks = axes[-1 - 2 * n : -1 - n], axes[-1 - n], axes[len(axes) - n :]
        channel = c if groups == 1 else axes[1] // per_group * inner + c
        spots = [
            spot(p, k, s, *step)
            for p, k, s, step in zip(place, ks, input.shape[2:], steps, strict=True)
        ]
        guard = all_of(*(g for _, g in spots))
        return input.at(axes[0], channel, *(i for i, _ in spots), guard=guard)

    lead = (batch,) if groups == 1 else (batch, channels)  # without groups all channels share
    patches = b.define(input.dtype, (*lead, *out, inner, *taps), patch)
    if transposed:
        weight = _channels_first(b, weight, (channels, inner, *taps), per_group)

    def value(*axes: Node) -> Node:
        at = (axes[0], *axes[2:]) if groups == 1 else axes
        return cast(patches.at(*at), wide) * cast(weight.at(axes[1], *axes[2 + n :]), wide)

    products = b.define(wide, (batch, channels, *out, inner, *taps), value)
    total = b.reduce("sum", products, range(2 + n, 3 + 2 * n))
    if bias is None:
        return plus(b, total, None)
    return b.result(lambda *axes: cast(total.at(*axes) + cast(bias.at(axes[1]), wide), b.dtype()))


def _forward(at: Node, k: Node, size: Node, step: int, pad: int, dil: int) -> tuple[Node, Node]:
    """The input's position for an output position and a tap, and whether it is inside."""
    i = at * step - pad + k * dil
    return i, all_of(i >= 0, i < size)


def _transposed(at: Node, k: Node, size: Node, step: int, pad: int, dil: int) -> tuple[Node, Node]:
    """As _forward, where input positions were spread `step` apart."""
    far = at + pad - k * dil
    i = far // const(step)
    return i, all_of(far >= 0, i < size, *([(far % step).eq(0)] if step > 1 else []))


def _channels_first(b: Builder, weight: Tensor, shape: Axes, per_group: Node) -> Tensor:
    """A transposed convolution's weight (in, out of a group, ...) as (out, in of a group, ...)."""

    def value(o: Node, c: Node, *ks: Node) -> Node:
        return weight.at(o // per_group * shape[1] + c, o % per_group, *ks)

    return b.define(weight.dtype, shape, value)
