"""Floating-point instructions and conversions against NumPy and exact fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

LANES = 256


def head(count: int) -> list[str]:
    names = ", ".join(f"%v{i}" for i in range(count))
    return [
        f".reg .b32 {names}, %d, %i, %e; .reg .b16 %h, %k; .reg .b64 %in, %o, %w, %x;",
        ".reg .pred %p, %q;",
        "ld.param.u64 %in, [in]; ld.param.u64 %o, [out]; mov.u32 %i, %tid.x;",
        "mad.wide.u32 %in, %i, 4, %in; mad.wide.u32 %o, %i, 4, %o;",
        *(f"ld.global.b32 %v{i}, [%in+{4 * LANES * i}];" for i in range(count)),
    ]


def run_rows(run_ptx: Any, texts: Any, values: Any) -> Any:
    """Each text computes %d of %v0.. : its results, one row a text, as 32-bit words."""
    body = head(len(values))
    body += [f"{text}; st.global.b32 [%o+{4 * LANES * i}], %d;" for i, text in enumerate(texts)]
    got = np.zeros((len(texts), LANES), np.uint32)
    result = run_ptx("\n".join(body), [values, got], [".u64 in", ".u64 out"], block=LANES)
    assert result.findings == ()
    return got


def singles(seed: int, rows: int) -> Any:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**32, (rows, LANES), np.uint32)
    bits[:, :8] = [0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 1, 0x80000001, 0x3F800000]
    bits[:, 100:] = (rng.standard_normal((rows, LANES - 100)).astype(np.float32)).view(np.uint32)
    return bits


def same(got: Any, want: Any) -> bool:
    """Equal bits, but for NaNs, which need only be NaNs."""
    a, b = got.view(np.float32), want.astype(np.float32)
    return bool(np.all((np.isnan(a) & np.isnan(b)) | (got == b.view(np.uint32))))


def test_arithmetic(run_ptx: Any) -> None:
    bits = singles(0, 3)
    a, b, _ = bits.view(np.float32)
    with np.errstate(all="ignore"):
        wide = a.astype(np.float64), b.astype(np.float64)
        tiny = np.where(np.abs(a) < 2.0**-126, np.copysign(np.float32(0), a), a)
        tiny_b = np.where(np.abs(b) < 2.0**-126, np.copysign(np.float32(0), b), b)
        product = tiny * tiny_b
        rows: dict[str, Any] = {
            "add.f32 %d, %v0, %v1": a + b,
            "sub.rn.f32 %d, %v0, %v1": a - b,
            "mul.f32 %d, %v0, %v1": a * b,
            "mul.ftz.f32 %d, %v0, %v1": np.where(
                np.abs(product) < 2.0**-126, np.copysign(np.float32(0), product), product
            ),
            "add.sat.f32 %d, %v0, %v1": np.where(np.isnan(a + b), 0, np.clip(a + b, 0, 1)) + 0.0,
            "div.rn.f32 %d, %v0, %v1": a / b,
            "sqrt.rn.f32 %d, %v0": np.sqrt(a),
            "rcp.rn.f32 %d, %v0": np.float32(1) / a,
            "neg.f32 %d, %v0": -a,
            "abs.f32 %d, %v0": np.abs(a),
            "min.f32 %d, %v0, %v1": np.fmin(a, b),
            "max.NaN.f32 %d, %v0, %v1": np.maximum(a, b),
            "copysign.f32 %d, %v0, %v1": np.copysign(b, a),
            "ex2.approx.f32 %d, 0f40490FDB": np.full(LANES, np.exp2(np.float32(np.pi))),
            "setp.ltu.f32 %p, %v0, %v1; selp.f32 %d, %v0, %v1, %p": np.where(~(a >= b), a, b),
            "setp.gt.f32 %p, %v0, %v1; selp.f32 %d, %v0, %v1, %p": np.where(a > b, a, b),
            "set.num.f32.f32 %d, %v0, %v1": ~(np.isnan(a) | np.isnan(b)),
            "cvt.f64.f32 %w, %v0; cvt.rn.f32.f64 %d, %w": a,
            "cvt.f64.f32 %w, %v0; cvt.f64.f32 %x, %v1; fma.rn.f64 %w, %w, %x, %x;"
            "cvt.rn.f32.f64 %d, %w": (wide[0] * wide[1] + wide[1]).astype(np.float32),
            "cvt.rmi.f32.f32 %d, %v0": np.floor(a),
            "cvt.rni.f32.f32 %d, %v0": np.rint(a),
            "testp.subnormal.f32 %p, %v0; selp.f32 %d, 0f3F800000, 0f00000000, %p": (
                (np.abs(a) < 2.0**-126) & (a != 0)
            ),
        }
    got = run_rows(run_ptx, list(rows), bits)
    for (text, want), row in zip(rows.items(), got, strict=True):
        if "fma.rn.f64" in text:  # NumPy rounds twice
            np.testing.assert_allclose(row.view(np.float32)[100:], want[100:], rtol=1e-6)
        elif "min.f32" in text:  # of zeros, NumPy's sign is not told
            assert np.array_equal(row.view(np.float32), want, equal_nan=True), text
        elif "ex2" in text:
            np.testing.assert_allclose(row.view(np.float32), want, rtol=2e-7)
        else:
            assert same(row, np.asarray(want)), text


def exact(op: str, a: float, b: float, c: float) -> Fraction:
    x, y, z = Fraction(a), Fraction(b), Fraction(c)
    return {"add": x + y, "mul": x * y, "fma": x * y + z}[op]


@pytest.mark.parametrize("op", ["add", "mul", "fma"])
def test_directed_rounding(run_ptx: Any, op: str) -> None:
    bits = np.random.default_rng(5).standard_normal((3, LANES)).astype(np.float32).view(np.uint32)
    operands = "%v0, %v1, %v2" if op == "fma" else "%v0, %v1"
    texts = [f"{op}.{mode}.f32 %d, {operands}" for mode in ("rm", "rp", "rz", "rn")]

    low, high, zero, near = run_rows(run_ptx, texts, bits).view(np.float32)

    for i, (a, b, c) in enumerate(bits.view(np.float32).T.tolist()):
        want = exact(op, a, b, c)
        assert Fraction(float(low[i])) <= want <= Fraction(float(high[i]))
        assert high[i] == low[i] or high[i] == np.nextafter(low[i], np.float32(np.inf))
        assert zero[i] == (low[i] if want > 0 else high[i])
        gaps = abs(Fraction(float(low[i])) - want), abs(Fraction(float(high[i])) - want)
        if gaps[0] != gaps[1]:
            assert near[i] == (low[i] if gaps[0] < gaps[1] else high[i])


def test_conversions(run_ptx: Any) -> None:
    bits = singles(3, 2)
    a, b = bits.view(np.float32)
    ints = bits[0].view(np.int32)
    with np.errstate(all="ignore"):
        clean = np.where(np.isnan(a), 0, a).astype(np.float64)
        half, brain = a.astype(np.float16), a.astype(ml_dtypes.bfloat16)
        rows: dict[str, Any] = {
            "cvt.rn.f32.s32 %d, %v0": ints.astype(np.float32).view(np.uint32),
            "cvt.rz.f32.u32 %d, %v0": np.array(
                [_cut(int(x), 24) for x in bits[0]], np.float32
            ).view(np.uint32),
            "cvt.rzi.s32.f32 %d, %v0": np.clip(np.trunc(clean), -(2**31), 2**31 - 1),
            "cvt.rni.u32.f32 %d, %v0": np.clip(np.rint(clean), 0, 2**32 - 1),
            "cvt.rpi.s32.f32 %d, %v0": np.clip(np.ceil(clean), -(2**31), 2**31 - 1),
            "cvt.rn.f16.f32 %h, %v0; cvt.u32.u16 %d, %h": half.view(np.uint16),
            "cvt.rn.bf16.f32 %h, %v0; cvt.u32.u16 %d, %h": brain.view(np.uint16),
            "cvt.rn.f16x2.f32 %d, %v0, %v1": (
                half.view(np.uint16).astype(np.uint32) << 16 | b.astype(np.float16).view(np.uint16)
            ),
            "cvt.rna.tf32.f32 %d, %v0": None,
        }
    got = run_rows(run_ptx, list(rows), bits)
    nans = np.isnan(a) | np.isnan(b)
    for (text, want), row in zip(rows.items(), got, strict=True):
        if want is None:
            finite = np.isfinite(a) & (np.abs(a) < 2.0**127) & (np.abs(a) > 2.0**-126)
            wanted = (bits[0] + 0x1000) & 0xFFFFE000
            assert np.array_equal(row[finite], wanted[finite]), text
        else:
            wanted = np.asarray(want).astype(np.int64).astype(np.uint32)
            keep = ~nans if "16" in text else slice(None)
            assert np.array_equal(row[keep], wanted[keep]), text


def _cut(x: int, digits: int) -> float:
    drop = max(0, x.bit_length() - digits)
    return float(x >> drop << drop)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("e4m3x2", ml_dtypes.float8_e4m3fn), ("e5m2x2", ml_dtypes.float8_e5m2)],
)
def test_8_bit_floats(run_ptx: Any, name: str, dtype: type) -> None:
    rng = np.random.default_rng(6)
    values = rng.standard_normal((2, LANES)) * 2.0 ** rng.integers(-12, 9, (2, LANES))
    values = values.astype(np.float32)
    most = {"e4m3x2": 448.0, "e5m2x2": 57344.0}[name]
    texts = [
        f"cvt.rn.satfinite.{name}.f32 %h, %v0, %v1; cvt.u32.u16 %d, %h",
        f"cvt.u16.u32 %h, %i; cvt.rn.f16x2.{name} %d, %h",
    ]

    made, read = run_rows(run_ptx, texts, values.view(np.uint32))

    high, low = (np.clip(v, -most, most).astype(dtype).view(np.uint8) for v in values)
    assert np.array_equal(made, high.astype(np.uint32) << 8 | low)
    codes = np.arange(LANES, dtype=np.uint8).view(dtype).astype(np.float16)
    assert np.array_equal((read & 0xFFFF).astype(np.uint16).view(np.float16), codes, equal_nan=True)


def test_packed_halves_round_once(run_ptx: Any) -> None:
    rng = np.random.default_rng(7)
    h = rng.standard_normal((3, LANES, 2)).astype(np.float16)
    h[2] *= np.float16(1e-3)
    bits = h.reshape(3, -1).view(np.uint32)
    texts = ["fma.rn.f16x2 %d, %v0, %v1, %v2", "add.f16x2 %d, %v0, %v1", "max.f16x2 %d, %v0, %v1",
             "fma.rn.relu.f16x2 %d, %v0, %v1, %v2", "neg.f16x2 %d, %v0"]  # fmt: skip

    got = run_rows(run_ptx, texts, bits).view(np.float16).reshape(len(texts), LANES, 2)

    wide = h.astype(np.longdouble)  # 64 digits hold these sums exactly
    fused = (wide[0] * wide[1] + wide[2]).astype(np.float16)
    assert np.array_equal(got[0], fused)
    assert np.array_equal(got[1], h[0] + h[1])
    assert np.array_equal(got[2], np.maximum(h[0], h[1]))
    assert np.array_equal(got[3], np.maximum(fused, 0))
    assert np.array_equal(got[4], -h[0])


def test_approximations(run_ptx: Any) -> None:
    x = np.random.default_rng(8).uniform(0.1, 3, (1, LANES)).astype(np.float32)
    rows: dict[str, Any] = {
        "ex2": np.exp2, "lg2": np.log2, "rcp": lambda v: 1 / v, "rsqrt": lambda v: v**-0.5,
            "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh}  # fmt: skip
    texts = [f"{n}.approx.{'ftz.' * (n not in ('tanh',))}f32 %d, %v0" for n in rows]
    got = run_rows(run_ptx, texts, x.view(np.uint32)).view(np.float32)
    for (name, f), row in zip(rows.items(), got, strict=True):
        want = f(x[0].astype(np.float64))
        np.testing.assert_allclose(row, want, rtol=2e-7, atol=1e-7, err_msg=name)
