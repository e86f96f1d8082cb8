"""Elementwise ops. ROWS holds those that are one expression of their arguments; what torch itself
decomposes into these (gelu, softplus, logit, ...) has no row."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind

from rift_compiler.dtypes import bool_
from rift_compiler.expr import FALSE, Node, apply, cast, const, where
from rift_compiler.frontend.builder import Builder, Tensor
from rift_compiler.frontend.registry import lowers
from rift_compiler.scalar_ops import SCALAR_OPS

Value = Any  # a Tensor, a number, or a size that is known at run time
Expression = Callable[..., Node]
PROMOTED = ("x", "other", "exponent", "min", "max")  # scalars that take part in type promotion
FACTORS = ("alpha", "value", "weight")  # scalars of the type that the others are computed in
EXACT = ("pow", "remainder", "fmod", "xlogy", "special_xlog1py")  # torch rounds their scalars


def _sign(x: Node) -> Node:
    if x.dtype is bool_:
        return x
    one, zero = const(1, x.dtype), const(0, x.dtype)
    minus = const(-1, x.dtype) if x.dtype.kind != "u" else zero
    return where(x > 0, one, where(x < 0, minus, zero))


def _signbit(x: Node) -> Node:
    if x.dtype.is_float:  # also of -0.0 and NaN
        return apply("copysign", const(1, x.dtype), x) < 0
    return FALSE if x.dtype.kind in "bu" else x < 0


def _whole(op: str) -> Expression:
    """floor and its kin, which change no integer."""
    return lambda x: apply(op, x) if x.dtype.is_float else x


def _round_decimals(x: Node, decimals: int) -> Node:
    if not decimals or not x.dtype.is_float:
        return _whole("round")(x)
    scale = 10.0 ** abs(decimals)
    return apply("round", x * scale) / scale if decimals > 0 else apply("round", x / scale) * scale


def _add(x: Node, other: Node, alpha: Node) -> Node:
    if x.dtype is bool_:
        return x | other if alpha.value else x
    return x + _scaled(other, alpha)


def _scaled(x: Node, by: Node) -> Node:
    return x if by.op == "const" and by.value == 1 else x * by


def _mul(x: Node, other: Node) -> Node:
    return x & other if x.dtype is bool_ else x * other


_POWERS: dict[float, Expression] = {
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    0.5: lambda x: apply("sqrt", x),
    -0.5: lambda x: apply("rsqrt", x),
    -1.0: lambda x: 1 / x,
    -2.0: lambda x: 1 / (x * x),
}


def _pow(x: Node, exponent: Node) -> Node:
    """The cheap powers as torch itself has them (aten/src/ATen/native/cpu/PowKernel.cpp)."""
    cheap = _POWERS.get(exponent.value) if exponent.op == "const" else None
    if cheap and (x.dtype.is_float or exponent.value > 0):
        return cheap(x)
    return apply("pow", x, exponent)


def _xlogy(log: str) -> Expression:
    """x * log(other), where 0 * anything is 0."""

    def value(x: Node, other: Node) -> Node:
        product = where(x.eq(0), const(0, x.dtype), x * apply(log, other))
        return where(other.ne(other), other, product)

    return value


def _clamp(x: Node, min: Node | None, max: Node | None) -> Node:
    x = x if min is None else apply("max", x, min)
    return x if max is None else apply("min", x, max)


def _lerp(x: Node, end: Node, weight: Node) -> Node:
    """From the nearer end, as torch does (aten/src/ATen/native/Lerp.h)."""
    far = end - (end - x) * (1 - weight)
    return where(apply("abs", weight) < 0.5, x + weight * (end - x), far)


def _extreme(op: str) -> Expression:
    """fmax and fmin, which differ from max and min only in what they make of NaN."""
    return lambda x, other: apply(op if x.dtype.is_float else op[1:], x, other)


def _truth(op: str) -> Expression:
    return lambda x, other: apply(op, cast(x, bool_), cast(other, bool_))


def _is_nan(x: Node) -> Node:
    return x.ne(x) if x.dtype.is_float else FALSE


def _is_inf(x: Node) -> Node:
    return apply("abs", x).eq(math.inf) if x.dtype.is_float else FALSE


_FLOATING = """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh
    tanh asinh acosh atanh erf erfc lgamma atan2 div copysign"""

# aten name -> its expression (or the scalar operation's name), and how torch promotes its types
ROWS: tuple[tuple[str, str | Expression, Kind], ...] = (
    *((name, name, Kind.INT_TO_FLOAT) for name in _FLOATING.split()),
    *((name, name, Kind.ALWAYS_BOOL) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
    *((name, _whole(name), Kind.DEFAULT) for name in ("floor", "ceil", "trunc", "round")),
    ("abs", lambda x: x if x.dtype is bool_ else apply("abs", x), Kind.DEFAULT),
    ("neg", "neg", Kind.DEFAULT),
    ("reciprocal", lambda x: 1 / x, Kind.INT_TO_FLOAT),
    ("sigmoid", lambda x: 1 / (1 + apply("exp", -x)), Kind.INT_TO_FLOAT),
    ("relu", lambda x: apply("max", x, const(0, x.dtype)), Kind.DEFAULT),
    ("sign", _sign, Kind.DEFAULT),
    ("sgn", _sign, Kind.DEFAULT),
    ("signbit", _signbit, Kind.ALWAYS_BOOL),
    ("round", _round_decimals, Kind.DEFAULT),
    ("isnan", _is_nan, Kind.ALWAYS_BOOL),
    ("isinf", _is_inf, Kind.ALWAYS_BOOL),
    ("bitwise_not", "not_", Kind.DEFAULT),
    ("logical_not", lambda x: apply("not_", cast(x, bool_)), Kind.ALWAYS_BOOL),
    ("add", _add, Kind.DEFAULT),
    ("sub", lambda x, other, alpha: x - _scaled(other, alpha), Kind.DEFAULT),
    ("rsub", lambda x, other, alpha: other - _scaled(x, alpha), Kind.DEFAULT),
    ("mul", _mul, Kind.DEFAULT),
    ("floor_divide", "floordiv", Kind.DEFAULT),
    ("remainder", "mod", Kind.DEFAULT),
    ("fmod", "fmod", Kind.DEFAULT),
    ("pow", _pow, Kind.BOOL_TO_LONG),
    ("maximum", "max", Kind.DEFAULT),
    ("minimum", "min", Kind.DEFAULT),
    ("fmax", _extreme("fmax"), Kind.DEFAULT),
    ("fmin", _extreme("fmin"), Kind.DEFAULT),
    ("hypot", "hypot", Kind.DEFAULT),
    ("xlogy", _xlogy("log"), Kind.INT_TO_FLOAT),
    ("special_xlog1py", _xlogy("log1p"), Kind.INT_TO_FLOAT),
    ("logical_and", _truth("and_"), Kind.ALWAYS_BOOL),
    ("logical_or", _truth("or_"), Kind.ALWAYS_BOOL),
    ("logical_xor", _truth("xor"), Kind.ALWAYS_BOOL),
    ("bitwise_and", "and_", Kind.DEFAULT),
    ("bitwise_or", "or_", Kind.DEFAULT),
    ("bitwise_xor", "xor", Kind.DEFAULT),
    *((name, "shl", Kind.DEFAULT) for name in ("bitwise_left_shift", "__lshift__")),
    *((name, "shr", Kind.DEFAULT) for name in ("bitwise_right_shift", "__rshift__")),
    ("clamp", _clamp, Kind.DEFAULT),
    ("clamp_min", lambda x, min: apply("max", x, min), Kind.DEFAULT),
    ("clamp_max", lambda x, max: apply("min", x, max), Kind.DEFAULT),
    ("lerp", _lerp, Kind.DEFAULT),
    ("addcmul", lambda x, p, q, value: x + _scaled(p, value) * q, Kind.DEFAULT),
    ("addcdiv", lambda x, p, q, value: x + _scaled(p, value) / q, Kind.DEFAULT),
)


def _lowering(fn: Expression, kind: Kind, exact: bool) -> Callable[..., Tensor]:
    """Tensors and PROMOTED scalars are broadcast and promoted; other arguments stay as they are."""

    @functools.wraps(fn)  # tests look at what fn takes
    def lowering(b: Builder, **given: Value) -> Tensor:
        typed = {
            n: v
            for n, v in given.items()
            if isinstance(v, Tensor) or (n in PROMOTED and v is not None)
        }
        raw = given.keys() - typed.keys()
        for name in raw:
            if name not in FACTORS and isinstance(given[name], torch.SymInt | torch.SymFloat):
                raise b.refuse(f"{name}={given[name]}, which changes with sizes")

        def value(*nodes: Node) -> Node:
            known = dict(zip(typed, nodes, strict=True))
            known |= {n: b.scalar(given[n], nodes[0].dtype) for n in FACTORS if n in raw}
            return fn(*(known.get(n, v) for n, v in given.items()))

        return b.pointwise(value, *typed.values(), kind=kind, exact=exact)

    return lowering


def _register(name: str, row: str | Expression, kind: Kind) -> None:
    """Register each overload of an aten op that has as many arguments as the expression takes."""
    packet = getattr(torch.ops.aten, name)
    if isinstance(row, str):
        arity, fn = SCALAR_OPS[row].arity, _scalar(row)
    else:
        arity, fn = len(inspect.signature(row).parameters), row
    for overload in packet.overloads():
        try:
            schema = getattr(packet, overload)._schema
        except RuntimeError:  # TorchScript's arithmetic of Python numbers
            continue
        types = [str(a.type) for a in schema.arguments]
        if "Tensor" in types and len(types) == arity and "out" not in overload:
            lowers(f"aten.{name}.{overload}")(_lowering(fn, kind, name in EXACT))


def _scalar(op: str) -> Expression:
    return lambda *args: apply(op, *args)


for _row in ROWS:
    _register(*_row)


_ROUNDED = {None: "div", "trunc": "truncdiv", "floor": "floordiv"}


@lowers("aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div(b: Builder, x: Tensor, other: Value, rounding_mode: str | None) -> Tensor:
    kind = Kind.DEFAULT if rounding_mode else Kind.INT_TO_FLOAT
    return b.pointwise(_scalar(_ROUNDED[rounding_mode]), x, other, kind=kind)


@lowers("aten.nextafter.default")
def nextafter(b: Builder, x: Tensor, other: Tensor) -> Tensor:
    if not b.dtype().computes:  # the next float32 is not the next bfloat16
        raise b.refuse(f"aten.nextafter self of type {b.dtype()}")
    return b.pointwise(_scalar("nextafter"), x, other)


@lowers("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where_(b: Builder, condition: Tensor, x: Value, other: Value) -> Tensor:
    def value(*axes: Node) -> Node:
        def side(v: Value) -> Node:
            number = not isinstance(v, Tensor)
            return b.fill(v, b.dtype()) if number else cast(v.broadcast(axes), b.dtype())

        return where(cast(condition.broadcast(axes), bool_), side(x), side(other))

    return b.result(value)


@lowers("aten.rrelu_with_noise_functional.default")
def rrelu(
    b: Builder,
    x: Tensor,
    noise: Tensor,
    lower: float,
    upper: float,
    training: bool,
    generator: object,
) -> tuple[Tensor, Tensor]:
    if training:
        raise b.refuse("aten.rrelu training=True: random numbers")
    del generator  # nothing is drawn
    slope = (lower + upper) / 2
    return b.pointwise(lambda p: where(p > 0, p, p * slope), x), noise


@lowers("prims.convert_element_type.default")
def convert(b: Builder, a: Tensor, dtype: object) -> Tensor:
    del dtype  # torch's result has it
    return b.result(lambda *i: cast(a.at(*i), b.dtype()))


@lowers("aten._to_copy.default")
def to_copy(
    b: Builder,
    x: Tensor,
    dtype: object,
    layout: torch.layout | None,
    device: object,
    pin_memory: bool | None,
    non_blocking: bool,
    memory_format: torch.memory_format | None,
) -> Tensor:
    del dtype  # torch's result has it
    del device, non_blocking  # a program runs on one device, in order
    if layout not in (None, torch.strided):
        raise b.refuse(f"aten._to_copy layout={layout}")
    if pin_memory:
        raise b.refuse(f"aten._to_copy pin_memory={pin_memory}")
    _row_major(b, "aten._to_copy", memory_format)
    return b.result(lambda *i: cast(x.at(*i), b.dtype()))


@lowers("aten.clone.default")
def clone(b: Builder, x: Tensor, memory_format: torch.memory_format | None) -> Tensor:
    _row_major(b, "aten.clone", memory_format)
    return b.result(lambda *i: x.at(*i))


@lowers("aten.alias.default", "aten.detach.default", "aten.lift_fresh_copy.default")
def alias(b: Builder, x: Tensor) -> Tensor:
    return b.result(lambda *i: x.at(*i))


def _row_major(b: Builder, op: str, memory_format: torch.memory_format | None) -> None:
    if memory_format not in (None, torch.preserve_format, torch.contiguous_format):
        raise b.refuse(f"{op} memory_format={memory_format}")


@lowers("aten._assert_tensor_metadata.default")
def assert_tensor_metadata(b: Builder, **expected: object) -> None:
    """Nothing: torch checked it while it traced, and a program's types never change."""
    del b, expected  # see above
