"""Tensors made of nothing but their shape, a number or their own indices."""

from __future__ import annotations

import math
from typing import Any

import torch

from rift_compiler.expr import cast
from rift_compiler.folds import identity
from rift_compiler.frontend.builder import Builder, Scalar, Tensor
from rift_compiler.frontend.registry import lowers


@lowers("aten.full.default", "aten.full_like.default")
def full(b: Builder, fill_value: Scalar, layout: object, **given: object) -> Tensor:
    """The op's result, full of one number."""
    del given  # size and type are in torch's result; the rest is about where in memory it lies
    if layout not in (None, torch.strided):
        raise b.refuse(f"{b.source.split()[0]} layout={layout}")
    number = b.fill(fill_value, b.dtype())
    return b.result(lambda *axes: number)


@lowers("aten.scalar_tensor.default")
def scalar_tensor(b: Builder, s: Scalar, layout: object, **given: object) -> Tensor:
    return full(b, s, layout, **given)


@lowers("aten.empty.memory_format", "aten.empty_permuted.default")
def empty(b: Builder, layout: object, **given: object) -> Tensor:
    return full(b, _poison(b), layout, **given)


def _poison(b: Builder) -> Scalar:
    """What stands in memory that nobody wrote. torch promises nothing, so that a model may only
    overwrite it; one that reads it shall see that it does."""
    return math.nan if b.dtype().is_float else identity("max", b.dtype()).value


@lowers("prims.iota.default")
def iota(b: Builder, start: Any, step: Any, **given: object) -> Tensor:
    del given  # length and type are in torch's result; where it lies; no gradients here
    first, by = b.size(start), b.size(step)
    return b.result(lambda i: cast(first + i * by, b.dtype()))
