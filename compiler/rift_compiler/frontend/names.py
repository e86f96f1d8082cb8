"""Names of inputs and sizes: the model's own, but for those that an IR or C++ has uses for."""

from __future__ import annotations

import re
from collections.abc import Container

from rift_compiler.algebra.monoids import MONOIDS
from rift_compiler.dtypes import DTYPES
from rift_compiler.scalar_ops import SCALAR_OPS
from rift_compiler.text import ARGS

_CPP = """
alignas alignof and asm auto bool break case catch char class const constexpr continue decltype
default delete do double else enum explicit export extern false float for friend goto if inline int
int8_t int16_t int32_t int64_t uint8_t long main mutable namespace new noexcept not nullptr operator
or private protected public register return short signed sizeof static struct switch template this
throw true try typedef typename union unsigned using virtual void volatile wchar_t while xor
half blockIdx blockDim gridDim threadIdx warpSize INFINITY NAN
"""
_RESERVED = frozenset(
    [*_CPP.split(), *SCALAR_OPS, *DTYPES, *MONOIDS, *ARGS, "inf", "nan", "load", "dim", "input"]
)
# Tensors, axes, variables, their elements, parts and reductions; the prelude's functions.
_OURS = re.compile(r"[a-z]\d+((_\d+)*(_all)?|_part\d+)|\w*_stream|rift_\w*|Lanes|_*")


def reserved(name: str) -> bool:
    """Whether an input or a size cannot have this name."""
    return name in _RESERVED or _OURS.fullmatch(name) is not None or not name.isidentifier()


def free(name: str, taken: Container[str]) -> str:
    """name, or where that cannot be, name with underscores."""
    while reserved(name) or name in taken:
        name += "_"
    return name
