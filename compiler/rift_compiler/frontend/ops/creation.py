"""Tensors made of nothing but their shape, a number or their own indices."""

from __future__ import annotations

import math
from typing import Any

import torch

from rift_compiler.expr import cast
from rift_compiler.folds import identity
from rift_compiler.frontend.builder import Builder, Scalar, Tensor
from rift_compiler.frontend.registry import lowers


def filled(b: Builder, value: Any, layout: object) -> Tensor:
    """The op's result, full of one number. Its type and shape are in torch's result."""
    if layout not in (None, torch.strided):
        raise b.refuse(f"{b.source.split()[0]} layout={layout}")
    fill = b.fill(value, b.dtype())
    return b.result(lambda *axes: fill)


@lowers("aten.full.default")
def full(
    b: Builder,
    size: object,
    fill_value: Scalar,
    dtype: object,
    layout: object,
    device: object,
    pin_memory: object,
) -> Tensor:
    del size, dtype, device, pin_memory  # in torch's result, or about where it lies
    return filled(b, fill_value, layout)


@lowers("aten.full_like.default")
def full_like(
    b: Builder,
    x: Tensor,
    fill_value: Scalar,
    dtype: object,
    layout: object,
    device: object,
    pin_memory: object,
    memory_format: object,
) -> Tensor:
    del x, dtype, device, pin_memory, memory_format  # as in full
    return filled(b, fill_value, layout)


@lowers("aten.scalar_tensor.default")
def scalar_tensor(
    b: Builder, s: Scalar, dtype: object, layout: object, device: object, pin_memory: object
) -> Tensor:
    del dtype, device, pin_memory  # as in full
    return filled(b, s, layout)


@lowers("aten.empty.memory_format")
def empty(
    b: Builder,
    size: object,
    dtype: object,
    layout: object,
    device: object,
    pin_memory: object,
    memory_format: object,
) -> Tensor:
    del size, dtype, device, pin_memory, memory_format  # as in full
    return filled(b, _poison(b), layout)


@lowers("aten.empty_permuted.default")
def empty_permuted(
    b: Builder,
    size: object,
    physical_layout: object,
    dtype: object,
    layout: object,
    device: object,
    pin_memory: object,
) -> Tensor:
    del size, physical_layout, dtype, device, pin_memory  # as in full
    return filled(b, _poison(b), layout)


def _poison(b: Builder) -> Scalar:
    """What stands in memory that nobody wrote. torch promises nothing, so that a model may only
    overwrite it; one that reads it shall see that it does."""
    return math.nan if b.dtype().is_float else identity("max", b.dtype()).value  # type: ignore[no-any-return]


@lowers("prims.iota.default")
def iota(
    b: Builder,
    length: object,
    start: Any,
    step: Any,
    dtype: object,
    device: object,
    requires_grad: object,
) -> Tensor:
    del length, dtype, device, requires_grad  # in torch's result; no gradients here
    first, by = b.size(start), b.size(step)
    return b.result(lambda i: cast(first + i * by, b.dtype()))
