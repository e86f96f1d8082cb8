"""Scalar operations as data: type rule, NumPy reference, C++ and CUDA spelling, cost.

The interpreters, the verifier and both renderers read this one table, so an operation cannot mean
one thing in one of them and another elsewhere. f16 and bf16 never compute: the front end casts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # a NumPy array or scalar of the operation's type


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """One operation.

    rule: `same` (all arguments and the result have one type), `compare` (result bool) or `where`.
    kinds: DType kinds that the arguments may have. infix: its sign in IR text, if any.
    cpp: the C++ expression; {0}, {1}, ... are the arguments. Names with `rift_` are in the prelude.
    cost: relative to one add; transcendental figures are of the order of a libm call.
    """

    name: str
    arity: int
    numpy: Callable[..., Array]
    cpp: str
    kinds: str = "biuf"
    rule: str = "same"
    infix: str = ""
    cost: float = 1.0


def _each(fn: Callable[..., float]) -> Callable[..., Array]:
    """A math function of floats over arrays, NaN where it is undefined."""

    def safe(*args: float) -> float:
        try:
            return fn(*args)
        except (ValueError, OverflowError):
            return math.nan

    def over(*arrays: Array) -> Array:
        dtype = np.asarray(arrays[0]).dtype
        out = np.vectorize(safe, otypes=[np.float64])(*(np.asarray(a, np.float64) for a in arrays))
        return out.astype(dtype)

    return over


def _lgamma(x: float) -> float:
    return math.inf if math.isinf(x) or (x <= 0 and x == math.floor(x)) else math.lgamma(x)


def _int_pow(a: Array, b: Array) -> Array:
    """a**b as torch has it for integers: a negative exponent gives 0, but for bases 1 and -1."""
    a, b = np.broadcast_arrays(a, b)
    whole = np.power(a, np.maximum(b, 0))
    unit = np.where(a == 1, 1, np.where(a == -1, np.where(b % 2 == 0, 1, -1), 0))
    return np.where(b < 0, unit, whole).astype(a.dtype)


def _pow(a: Array, b: Array) -> Array:
    return np.power(a, b) if np.asarray(a).dtype.kind == "f" else _int_pow(a, b)


def _trunc_div(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind == "f":
        return np.trunc(a / b)
    q = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -q, q).astype(np.asarray(a).dtype)


def _shift(left: bool) -> Callable[[Array, Array], Array]:
    def run(a: Array, b: Array) -> Array:
        bits = np.asarray(a).dtype.itemsize * 8
        inside = (b >= 0) & (b < bits)
        by = np.where(inside, b, 0).astype(np.asarray(a).dtype)
        if left:
            return np.where(inside, np.left_shift(a, by), 0).astype(np.asarray(a).dtype)
        sign = np.where(a < 0, -1, 0).astype(np.asarray(a).dtype)
        return np.where(inside, np.right_shift(a, by), sign).astype(np.asarray(a).dtype)

    return run


def _checked(index: Array, size: Array) -> Array:
    if np.any((index < 0) | (index >= size)):
        raise IndexError("index out of range")
    return index


F, I, N = "f", "iu", "iuf"  # noqa: E741  kinds: floats, integers, numbers

_TABLE = (
    ScalarOp("add", 2, np.add, "({0} + {1})", N, infix="+"),
    ScalarOp("sub", 2, np.subtract, "({0} - {1})", N, infix="-"),
    ScalarOp("mul", 2, np.multiply, "({0} * {1})", N, infix="*"),
    ScalarOp("div", 2, np.divide, "({0} / {1})", F, infix="/", cost=4),
    ScalarOp("floordiv", 2, np.floor_divide, "rift_floordiv({0}, {1})", N, infix="//", cost=8),
    ScalarOp("mod", 2, np.remainder, "rift_mod({0}, {1})", N, infix="%", cost=8),
    ScalarOp("truncdiv", 2, _trunc_div, "rift_truncdiv({0}, {1})", N, cost=8),
    ScalarOp("fmod", 2, np.fmod, "rift_fmod({0}, {1})", N, cost=8),
    ScalarOp("neg", 1, np.negative, "(-({0}))", N),
    ScalarOp("abs", 1, np.abs, "rift_abs({0})", N),
    ScalarOp("max", 2, np.maximum, "rift_max({0}, {1})"),
    ScalarOp("min", 2, np.minimum, "rift_min({0}, {1})"),
    ScalarOp("fmax", 2, np.fmax, "fmax({0}, {1})", F),
    ScalarOp("fmin", 2, np.fmin, "fmin({0}, {1})", F),
    ScalarOp("exp", 1, np.exp, "exp({0})", F, cost=10),
    ScalarOp("exp2", 1, np.exp2, "exp2({0})", F, cost=10),
    ScalarOp("expm1", 1, np.expm1, "expm1({0})", F, cost=15),
    ScalarOp("log", 1, np.log, "log({0})", F, cost=10),
    ScalarOp("log2", 1, np.log2, "log2({0})", F, cost=10),
    ScalarOp("log10", 1, np.log10, "log10({0})", F, cost=10),
    ScalarOp("log1p", 1, np.log1p, "log1p({0})", F, cost=15),
    ScalarOp("sqrt", 1, np.sqrt, "sqrt({0})", F, cost=5),
    ScalarOp("rsqrt", 1, lambda x: (1 / np.sqrt(x)).astype(x.dtype), "rift_rsqrt({0})", F, cost=8),
    ScalarOp("sin", 1, np.sin, "sin({0})", F, cost=15),
    ScalarOp("cos", 1, np.cos, "cos({0})", F, cost=15),
    ScalarOp("tan", 1, np.tan, "tan({0})", F, cost=20),
    ScalarOp("asin", 1, np.arcsin, "asin({0})", F, cost=20),
    ScalarOp("acos", 1, np.arccos, "acos({0})", F, cost=20),
    ScalarOp("atan", 1, np.arctan, "atan({0})", F, cost=20),
    ScalarOp("atan2", 2, np.arctan2, "atan2({0}, {1})", F, cost=25),
    ScalarOp("sinh", 1, np.sinh, "sinh({0})", F, cost=20),
    ScalarOp("cosh", 1, np.cosh, "cosh({0})", F, cost=20),
    ScalarOp("tanh", 1, np.tanh, "tanh({0})", F, cost=15),
    ScalarOp("asinh", 1, np.arcsinh, "asinh({0})", F, cost=25),
    ScalarOp("acosh", 1, np.arccosh, "acosh({0})", F, cost=25),
    ScalarOp("atanh", 1, np.arctanh, "atanh({0})", F, cost=25),
    ScalarOp("erf", 1, _each(math.erf), "erf({0})", F, cost=20),
    ScalarOp("erfc", 1, _each(math.erfc), "erfc({0})", F, cost=25),
    ScalarOp("lgamma", 1, _each(_lgamma), "lgamma({0})", F, cost=40),
    ScalarOp("pow", 2, _pow, "rift_pow({0}, {1})", N, cost=30),
    ScalarOp("hypot", 2, np.hypot, "hypot({0}, {1})", F, cost=15),
    ScalarOp("copysign", 2, np.copysign, "copysign({0}, {1})", F),
    ScalarOp("nextafter", 2, np.nextafter, "nextafter({0}, {1})", F),
    ScalarOp("floor", 1, np.floor, "floor({0})", F),
    ScalarOp("ceil", 1, np.ceil, "ceil({0})", F),
    ScalarOp("trunc", 1, np.trunc, "trunc({0})", F),
    ScalarOp("round", 1, np.rint, "rint({0})", F),
    ScalarOp(  # what is not finite becomes 0: the centre of a fold whose maximum so far is -inf
        "finite", 1, lambda x: np.where(np.isfinite(x), x, x.dtype.type(0)), "rift_finite({0})", F
    ),
    ScalarOp("eq", 2, np.equal, "({0} == {1})", rule="compare", infix="=="),
    ScalarOp("ne", 2, np.not_equal, "({0} != {1})", rule="compare", infix="!="),
    ScalarOp("lt", 2, np.less, "({0} < {1})", rule="compare", infix="<"),
    ScalarOp("le", 2, np.less_equal, "({0} <= {1})", rule="compare", infix="<="),
    ScalarOp("gt", 2, np.greater, "({0} > {1})", rule="compare", infix=">"),
    ScalarOp("ge", 2, np.greater_equal, "({0} >= {1})", rule="compare", infix=">="),
    ScalarOp("and_", 2, np.bitwise_and, "({0} & {1})", "biu", infix="&"),
    ScalarOp("or_", 2, np.bitwise_or, "({0} | {1})", "biu", infix="|"),
    ScalarOp("xor", 2, np.bitwise_xor, "({0} ^ {1})", "biu", infix="^"),
    ScalarOp("not_", 1, np.invert, "rift_not({0})", "biu"),
    ScalarOp("shl", 2, _shift(True), "rift_shl({0}, {1})", I, infix="<<"),
    ScalarOp("shr", 2, _shift(False), "rift_shr({0}, {1})", I, infix=">>"),
    ScalarOp("checked", 2, _checked, "rift_checked({0}, {1})", I),
    ScalarOp("where", 3, np.where, "({0} ? {1} : {2})", rule="where"),
)
SCALAR_OPS = {op.name: op for op in _TABLE}
INFIX = {op.infix: op.name for op in _TABLE if op.infix}
