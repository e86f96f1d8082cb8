"""Elementwise ops: lowered, run by the interpreter, and compared with torch eager."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from rift_compiler.errors import Unsupported
from rift_compiler.frontend.lower import lower
from rift_compiler.frontend.trace import trace
from rift_compiler.tensor_ir import TensorProgram

Check = Callable[..., TensorProgram]
Function = Callable[..., Any]
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
COMPUTED = (torch.float32, torch.bfloat16, torch.int32, torch.uint8)  # the rest: test_all_types
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
EDGES = (0.0, -0.0, 0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.0, 19.5, -60.0, 1e-3, math.nan, math.inf)


def each(functions: Sequence[Function]) -> Function:
    """All of them on the same inputs: one export for many."""
    return lambda *inputs: [f(*inputs) for f in functions]


# A step of f16 more than torch's tolerance: its own kernels round x*x*x twice, and we once.
STEP = {"rtol": 2e-3, "atol": 1e-5}


def floats(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Random numbers, in whose first places stand EDGES."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 3
    edges = torch.tensor([*EDGES, -math.inf], dtype=torch.float64)[: x.numel()]
    x.view(-1)[: len(edges)] = edges.roll(seed)
    return x.to(dtype)


def integers(*shape: int, dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    low, high = (0, 9) if dtype is torch.uint8 else (-9, 9)
    return torch.randint(
        low, high, shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)
    )


def gelu(x: torch.Tensor) -> torch.Tensor:
    """Of no infinity: on AVX-512 eager's is NaN then, if there are four elements or more."""
    return F.gelu(x.clamp(-60, 60))


MATH: list[Function] = [
    *(torch.exp, torch.exp2, torch.expm1, torch.log, torch.log2, torch.log10, torch.log1p),
    *(torch.sqrt, torch.rsqrt, torch.sin, torch.cos, torch.tan, torch.asin, torch.acos, torch.atan),
    *(torch.sinh, torch.cosh, torch.tanh, torch.asinh, torch.acosh, torch.atanh, torch.erf),
    *(torch.erfc, torch.reciprocal, torch.sigmoid, torch.sinc, torch.deg2rad, torch.rad2deg),
    *(torch.logit, partial(torch.logit, eps=0.1), torch.special.entr, torch.special.ndtr),
    lambda x: torch.special.xlog1py(x, 2),
    lambda x: torch.xlogy(x, 0.5),
]
SHAPING: list[Function] = [
    *(torch.abs, torch.neg, torch.sign, torch.sgn, torch.signbit, torch.square, torch.positive),
    *(torch.floor, torch.ceil, torch.trunc, torch.round, torch.frac, torch.isnan, torch.isinf),
    *(torch.isfinite, torch.isposinf, torch.isneginf, torch.nan_to_num, torch.logical_not),
    partial(torch.nan_to_num, nan=1.0, posinf=2.0, neginf=-3.0),
    partial(torch.nan_to_num, posinf=2.0),
    partial(torch.clamp, min=-1.5),
    partial(torch.clamp, max=0.25),
    partial(torch.clamp, min=-1, max=2),
    partial(torch.clamp, min=2, max=-1),
    lambda x: torch.pow(x, 2),
    *(partial(torch.pow, exponent=e) for e in (0, 1, 3, 0.5, -0.5, -1, -2, 1.7, 4)),
    *(lambda x, base=base: torch.pow(base, x) for base in (2, 0.5, 1, 0)),
    partial(torch.float_power, exponent=2),
    lambda x: torch.heaviside(x, x + 0.5),
    lambda x: torch.where(x > 0, x, 0.1),
    lambda x: torch.where(x > 0, 2, x),
    lambda x: torch.where(x > 0, 1.5, 2.5),
    lambda x: x.masked_fill(x.isnan(), -7.5),
]
ACTIVATIONS: list[Function] = [
    *(F.relu, F.relu6, F.silu, F.mish, F.selu, F.elu, F.celu, gelu, F.softplus, F.softsign),
    *(F.hardsigmoid, F.hardswish, F.hardtanh, F.hardshrink, F.softshrink, F.tanhshrink),
    *(F.logsigmoid, F.leaky_relu, F.rrelu, partial(F.dropout, training=False)),
    partial(F.gelu, approximate="tanh"),
    partial(F.elu, alpha=0.3),
    partial(F.celu, alpha=0.7),
    lambda x: torch.ops.aten.elu(x, 0.5, 1.5, 2.0),
    partial(F.softplus, beta=2, threshold=3),
    partial(F.hardtanh, min_val=-0.3, max_val=1.2),
    partial(F.threshold, threshold=0.4, value=-2.0),
    partial(F.leaky_relu, negative_slope=0.3),
    partial(F.softshrink, lambd=0.3),
    partial(F.hardshrink, lambd=1.1),
    partial(F.glu, dim=-1),
    partial(F.glu, dim=0),
    lambda x: F.prelu(x, torch.tensor([0.25], dtype=x.dtype)),
]


@pytest.mark.parametrize("dtype", COMPUTED[:2])
@pytest.mark.parametrize("functions", [MATH, SHAPING, ACTIVATIONS], ids=["math", "shape", "act"])
def test_of_one_float(check_lowering: Check, functions: list[Function], dtype: Any) -> None:
    check_lowering(each(functions), floats(2, 3, 6, dtype=dtype))


@pytest.mark.parametrize("types", [FLOATS, INTEGERS], ids=["floats", "integers"])
def test_all_types(check_lowering: Check, types: Sequence[torch.dtype]) -> None:
    whole = types is INTEGERS
    some: list[Any] = [
        torch.abs,
        torch.sign,
        torch.exp,
        F.relu,
        lambda x: torch.where(x > 1, x, 2),
        torch.sqrt,
    ]
    some += [lambda x: x + x, lambda x: x * 2, lambda x: x / 3, lambda x: x // 2, lambda x: x % 3]
    some += [lambda x: x**3, lambda x: x.clamp(0, 2), torch.bitwise_not if whole else gelu]
    inputs = [integers(3, 5, dtype=t) if whole else floats(3, 5, dtype=t) for t in types]
    check_lowering(lambda *given: [f(x) for x in given for f in some], *inputs, **STEP)


@pytest.mark.parametrize("dtype", FLOATS[:2])
def test_rounding_to_decimals(check_lowering: Check, dtype: Any) -> None:
    decimals: list[Function] = [partial(torch.round, decimals=d) for d in (0, 1, 3, -1)]
    x = torch.tensor([[12.345, -0.05, 25.0, 35.0, 0.5], [math.inf, math.nan, -1.25, 1e9, 0.0]])
    check_lowering(each(decimals), x.to(dtype))


OF_INTEGERS: list[Function] = [
    *(torch.abs, torch.sign, torch.sgn, torch.signbit, torch.bitwise_not, torch.logical_not),
    *(torch.square, torch.floor, torch.ceil, torch.trunc, torch.round, torch.isnan, torch.isinf),
    *(torch.exp, torch.sqrt, torch.sigmoid, torch.reciprocal, torch.erf, torch.isfinite, F.relu),
    *(partial(torch.pow, exponent=e) for e in (0, 1, 2, 3, 5, 0.5)),
    *(partial(torch.clamp, min=low, max=high) for low, high in ((1, None), (None, 3), (2, 4))),
    lambda x: torch.clamp(x, 0.5),
    lambda x: torch.where(x > 2, x, 1),
    lambda x: torch.where(x > 2, 0.5, x),
    lambda x: x.masked_fill(x == 1, 7),
    lambda x: x + 0.5,
    lambda x: 2 * x - 1,
    lambda x: x / 2,
    lambda x: x // 2,
    lambda x: x % 3,
]


@pytest.mark.parametrize("dtype", COMPUTED[2:])
def test_of_one_integer(check_lowering: Check, dtype: Any) -> None:
    negated: list[Function] = (
        [] if dtype is torch.uint8 else [torch.neg, lambda x: x // -2, lambda x: x % -3]
    )
    check_lowering(each([*OF_INTEGERS, *negated]), integers(3, 7, dtype=dtype))


def test_of_booleans(check_lowering: Check) -> None:
    x, y = torch.tensor([True, False, True]), torch.tensor([[True], [False]])
    functions: list[Function] = [
        *(operator.and_, operator.or_, operator.xor, torch.add, torch.mul, torch.maximum),
        *(torch.minimum, torch.eq, torch.ne, torch.lt, torch.ge, torch.logical_xor, torch.div),
        partial(torch.add, alpha=True),
        lambda x, y: (~x, x.logical_not(), x + 1, x * 2.5, -x.int(), x.sign(), x.exp(), x**2),
        lambda x, y: (torch.where(x, y, 3), torch.where(y, 1.0, 2), x.to(torch.uint8) + y),
        lambda x, y: (x.signbit(), x == 1, x < 0.5, x & 1, x.logical_and(y.float())),
    ]
    check_lowering(each(functions), x, y)


OF_TWO: list[Function] = [
    *(torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum, torch.fmax),
    *(torch.fmin, torch.remainder, torch.fmod, torch.floor_divide, torch.atan2, torch.copysign),
    *(torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge, torch.logical_and),
    *(torch.logical_or, torch.logical_xor, torch.rsub, torch.xlogy),
    partial(torch.add, alpha=2),
    partial(torch.sub, alpha=3),
    partial(torch.rsub, alpha=2),
    *(partial(torch.div, rounding_mode=m) for m in (None, "trunc", "floor")),
    lambda x, y: torch.where(x > y, x, y),
    lambda x, y: x.clamp(min=y),
    lambda x, y: x.clamp(max=y),
    lambda x, y: x.clamp(y, y + 1),
    partial(torch.isclose, rtol=0.1),
    partial(torch.isclose, equal_nan=True),
]
OF_TWO_FLOATS: list[Function] = [
    *(torch.pow, torch.hypot, torch.logaddexp, torch.logaddexp2),
    partial(torch.add, alpha=0.25),
    partial(torch.lerp, weight=0.3),
    partial(torch.lerp, weight=0.8),
    lambda x, y: torch.lerp(x, y, x.abs()),
    lambda x, y: torch.addcmul(x, y, x),
    lambda x, y: torch.addcmul(x, y, x, value=0.3),
    lambda x, y: torch.addcdiv(x, y, x, value=-2),
]
OF_TWO_INTEGERS: list[Function] = [
    *(torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, operator.and_, operator.or_),
    lambda x, y: torch.addcmul(x, y, x, value=3),
    lambda x, y: torch.pow(x, y % 3),
    lambda x, y: torch.gt(x, y).to(x.dtype),
    lambda x, y: (x << (y % 4), x >> (y % 4), x << 2, x >> 1, 1 << (y % 4), x & 6, x | 3, x ^ 5),
]


@pytest.mark.parametrize("dtype", COMPUTED[:2])
def test_of_two_floats(check_lowering: Check, dtype: Any) -> None:
    x, y = floats(3, 1, 9, dtype=dtype), floats(4, 9, dtype=dtype, seed=5)
    y[y == 0] = 0.75  # torch's own kernels disagree about a // 0.0
    check_lowering(each([*OF_TWO, *OF_TWO_FLOATS]), x, y)


@pytest.mark.parametrize("dtype", COMPUTED[2:])
def test_of_two_integers(check_lowering: Check, dtype: Any) -> None:
    x, y = integers(3, 1, 9, dtype=dtype), integers(4, 9, dtype=dtype, seed=5)
    y[y == 0] = 4  # a division of integers by 0 has no meaning
    check_lowering(each([*OF_TWO, *OF_TWO_INTEGERS]), x, y)


def test_signs_and_zeros_of_division(check_lowering: Check) -> None:
    values = torch.tensor([-7.0, -1.0, -0.0, 0.0, 1.0, 7.0, 7.5, math.inf, -math.inf, math.nan])
    x, y = values[:, None], values[None, :]
    modes: list[Function] = [
        *(partial(torch.div, rounding_mode=m) for m in (None, "trunc", "floor")),
        *(torch.remainder, torch.fmod, torch.copysign, torch.atan2, torch.hypot, torch.pow),
        lambda x, y: 1 / torch.copysign(torch.zeros(()), x * y),
    ]
    check_lowering(each(modes), x, y)


def test_integers_shift_and_overflow(check_lowering: Check) -> None:
    x = torch.tensor([1, -1, 2**31 - 1, -(2**31)], dtype=torch.int32)
    by = torch.tensor([[0], [1], [31], [32], [-1]], dtype=torch.int32)
    check_lowering(lambda x, by: (x << by, x >> by, x + x, x * x, x - by, -x, x.abs()), x, by)


def test_powers_of_integers(check_lowering: Check) -> None:
    base, exponent = torch.arange(-3, 4)[:, None], torch.arange(-3, 4)[None, :]
    check_lowering(lambda a, b: (torch.pow(a, b), torch.pow(2, b), a.int() ** 3), base, exponent)


TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int64)


def test_types_are_promoted(check_lowering: Check) -> None:
    """Categories, 0-d tensors and Python numbers, as torch's table says."""
    values = {d: torch.tensor([[3, 1, 2]]).to(d) for d in TYPES}

    def every_pair(*given: torch.Tensor) -> list[Any]:
        rows = [(a, b) for n, a in enumerate(given) for b in given[:n]]
        return [(a + b[0, 0], a / b, a > b, torch.where(b > 1, a, b)) for a, b in rows]

    check_lowering(every_pair, *values.values())


def test_numbers_are_rounded_as_torch_rounds_them(check_lowering: Check) -> None:
    """0.1 is compared as the tensor's type has it, but added in f32; an integer tensor becomes
    f16 before it is multiplied."""
    x = torch.tensor([0.1, 0.2, 60000.0], dtype=torch.float16)
    counts = torch.tensor([70000, 3, 1])
    check_lowering(
        lambda x, n: (x == 0.1, x < 0.1, x + 0.1, x.bfloat16() >= 0.1, x * n, 0.5 * x - 1e-4),
        x,
        counts,
    )
    bytes_ = torch.tensor([1, 2, 255], dtype=torch.uint8)
    check_lowering(lambda x: (torch.add(x, x, alpha=-3), x + -1, x == -1), bytes_)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_conversions(check_lowering: Check, dtype: Any) -> None:
    x = torch.tensor([[0.0, 1.0, 2.7, 100.0, 3.141592653589793, 1.0000001]]).to(dtype)
    targets: list[Function] = [
        partial(torch.Tensor.to, dtype=d) for d in (*FLOATS, *INTEGERS, torch.bool)
    ]
    methods: list[Function] = [
        torch.Tensor.float,
        torch.Tensor.half,
        torch.Tensor.bool,
        torch.Tensor.long,
    ]
    others: list[Function] = [
        lambda x: x.to("cpu"),
        lambda x: x.to(torch.float16, copy=True, non_blocking=True),
        lambda x: x.type_as(torch.zeros(1)),
        lambda x: x.clone(memory_format=torch.contiguous_format),
        lambda x: x.contiguous().detach(),
    ]
    check_lowering(each([*targets, *methods, *others]), x)


@pytest.mark.parametrize("shape", [(), (3, 0), (5, 1, 3)])
def test_shapes(check_lowering: Check, shape: tuple[int, ...]) -> None:
    x, y = torch.ones(shape) * 0.3, torch.full(shape, 2)
    functions: list[Function] = [
        lambda x, y: (x + y, x.exp(), x > y, torch.where(x > y, x, y), x.half() * 3, y // 2),
        lambda x, y: (x.clamp(0, 1), F.gelu(x), x.to(torch.bool), x.lerp(x, 0.5), y**y),
    ]
    check_lowering(each(functions), x, y)


def test_sizes_as_numbers(check_lowering: Check) -> None:
    def scaled(x: torch.Tensor) -> Any:
        n = x.shape[0]
        return x * n, x / n, x * n**-0.5, x * (1 / n + 0.5), torch.add(x, x, alpha=n), x > n

    check_lowering(scaled, torch.randn(7, 3), dynamic={"x": {0: "n"}}, also=[(torch.ones(2, 3),)])


def test_in_place_ops_on_new_tensors(check_lowering: Check) -> None:
    def steps(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.add_(1).mul_(x).clamp_(min=0.5)
        y[0] = 7
        return y.relu_().sqrt_()

    check_lowering(steps, torch.randn(3, 5))


complex_ = torch.ones(2, dtype=torch.complex64)
REFUSED: list[tuple[str, Function, torch.Tensor]] = [
    (
        "aten.nextafter self of type bf16",
        lambda x: torch.nextafter(x, x),
        floats(3, dtype=torch.bfloat16),
    ),
    ("aten.erfinv.default", torch.erfinv, floats(3)),
    ("aten.digamma.default", torch.digamma, floats(3)),
    ("aten.native_dropout.default", partial(F.dropout, training=True), floats(3)),
    ("aten.rand_like.default: random", torch.rand_like, floats(3)),
    (
        "aten.randn.default (its prims.normal.default): random",
        lambda x: x + torch.randn(3),
        floats(3),
    ),
    ("aten.bernoulli", torch.bernoulli, torch.full((3,), 0.5)),
    ("rrelu", partial(F.rrelu, training=True), floats(3)),
    ("input x of type torch.complex64", torch.abs, complex_),
    ("torch.complex64", lambda x: (x + 1j).abs(), floats(2)),
    ("aten.special_log_ndtr.default (its prims.erfcx.default)", torch.special.log_ndtr, floats(3)),
    ("float8_e4m3fn", lambda x: x.to(torch.float8_e4m3fn).float(), floats(3)),
    (
        "aten.clone memory_format=torch.channels_last",
        lambda x: x.clone(memory_format=torch.channels_last),
        torch.ones(1, 2, 3, 4),
    ),
    (
        "aten._to_copy memory_format=torch.channels_last",
        lambda x: x.to(torch.float16, memory_format=torch.channels_last),
        torch.ones(1, 2, 3, 4),
    ),
    ("the number 300, which is no u8", lambda x: x + 300, integers(3, dtype=torch.uint8)),
    (
        "the number 0.5, which is no i64",
        lambda x: torch.addcmul(x, x, x, value=0.5),
        integers(3),
    ),
    ("changes x (USER_INPUT_MUTATION)", lambda x: x.add_(1), floats(3)),
]


@pytest.mark.parametrize(("words", "function", "x"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refusals_name_the_op_the_argument_and_the_line(
    words: str, function: Function, x: torch.Tensor
) -> None:
    def model(x: torch.Tensor) -> Any:
        return function(x)

    with pytest.raises(Unsupported) as caught:
        lower(trace(model, (x,)))
    assert words in str(caught.value)
    if not words.startswith(("changes x", "input x")):
        assert "test_lower_pointwise.py:" in str(caught.value)
