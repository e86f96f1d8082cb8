"""What a fold's monoid is in a given element type: its identity and its combine, as expressions."""

from __future__ import annotations

import math

import numpy as np

from rift_compiler.dtypes import DType, bool_
from rift_compiler.expr import Node, apply, const

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or_", "all": "and_"}


def identity(monoid: str, dtype: DType) -> Node:
    """The element that changes nothing: what a fold over an empty axis is."""
    if monoid in ("max", "argmax"):
        return _least(dtype)
    if monoid in ("min", "argmin"):
        return _greatest(dtype)
    return const(monoid in ("prod", "all"), dtype)


def combine(monoid: str, a: Node, b: Node) -> Node:
    """a ⊕ b for the monoids whose state is one value (not mean, argmax and argmin)."""
    return apply(COMBINE[monoid], a, b)


def _least(dtype: DType) -> Node:
    if dtype is bool_:
        return const(False, bool_)
    return const(-math.inf if dtype.is_float else int(np.iinfo(dtype.numpy).min), dtype)


def _greatest(dtype: DType) -> Node:
    if dtype is bool_:
        return const(True, bool_)
    return const(math.inf if dtype.is_float else int(np.iinfo(dtype.numpy).max), dtype)
