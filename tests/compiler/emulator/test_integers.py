"""Integer and bit instructions against Python's own arithmetic, all in one kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

LANES = 64
M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def s32(x: int) -> int:
    return x - (1 << 32) if x >> 31 & 1 else x


def s64(x: int) -> int:
    return x - (1 << 64) if x >> 63 & 1 else x


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def clamp(x: int) -> int:
    return max(-(2**31), min(2**31 - 1, x))


def bfe(a: int, position: int, length: int, signed: bool) -> int:
    pos, n = position & 255, length & 255
    bits = [a >> (pos + i) & 1 if pos + i < 32 else None for i in range(min(n, 32))]
    top = a >> min(pos + n - 1, 31) & 1 if n and signed else 0
    value = sum((top if b is None else b) << i for i, b in enumerate(bits))
    return (value | (M32 << min(n, 32) if top else 0)) & M32


def bfi(a: int, b: int, position: int, length: int) -> int:
    pos, n = position & 255, length & 255
    mask = ((1 << n) - 1) << pos & M32
    return b & ~mask | a << pos & mask


def prmt(a: int, b: int, c: int) -> int:
    data = (b << 32 | a).to_bytes(8, "little")
    out = []
    for i in range(4):
        pick = c >> 4 * i & 15
        byte = data[pick & 7]
        out.append((255 if byte & 128 else 0) if pick & 8 else byte)
    return int.from_bytes(bytes(out), "little")


def lop3(a: int, b: int, c: int, table: int) -> int:
    return sum(
        (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32)
    )


def dp4a(a: int, b: int, c: int) -> int:
    x = np.array([a], np.uint32).view(np.int8).astype(int)
    y = np.array([b], np.uint32).view(np.uint8).astype(int)
    return int(x @ y) + c


# (instruction of %a, %b, %c (b32), result, of Python's numbers)
ROWS32: list[tuple[str, Callable[[int, int, int], int]]] = [
    ("add.s32 %d, %a, %b", lambda a, b, c: a + b),
    ("sub.u32 %d, %a, %b", lambda a, b, c: a - b),
    ("add.sat.s32 %d, %a, %b", lambda a, b, c: clamp(s32(a) + s32(b))),
    ("sub.sat.s32 %d, %a, %b", lambda a, b, c: clamp(s32(a) - s32(b))),
    ("mul.lo.s32 %d, %a, %b", lambda a, b, c: a * b),
    ("mul.hi.s32 %d, %a, %b", lambda a, b, c: s32(a) * s32(b) >> 32),
    ("mul.hi.u32 %d, %a, %b", lambda a, b, c: a * b >> 32),
    ("mad.lo.u32 %d, %a, %b, %c", lambda a, b, c: a * b + c),
    ("mad.hi.s32 %d, %a, %b, %c", lambda a, b, c: (s32(a) * s32(b) >> 32) + c),
    ("mul24.lo.u32 %d, %a, %b", lambda a, b, c: (a & 0xFFFFFF) * (b & 0xFFFFFF)),
    ("sad.u32 %d, %a, %b, %c", lambda a, b, c: abs(a - b) + c),
    ("sad.s32 %d, %a, %b, %c", lambda a, b, c: abs(s32(a) - s32(b)) + c),
    ("div.u32 %d, %a, %b", lambda a, b, c: a // b if b else M32),
    ("div.s32 %d, %a, %b", lambda a, b, c: quotient(s32(a), s32(b)) if b else M32),
    ("rem.u32 %d, %a, %b", lambda a, b, c: a % b if b else a),
    (
        "rem.s32 %d, %a, %b",
        lambda a, b, c: s32(a) - s32(b) * quotient(s32(a), s32(b)) if b else a,
    ),
    ("abs.s32 %d, %a", lambda a, b, c: abs(s32(a))),
    ("neg.s32 %d, %a", lambda a, b, c: -a),
    ("min.s32 %d, %a, %b", lambda a, b, c: min(s32(a), s32(b))),
    ("max.u32 %d, %a, %b", lambda a, b, c: max(a, b)),
    ("popc.b32 %d, %a", lambda a, b, c: a.bit_count()),
    ("clz.b32 %d, %a", lambda a, b, c: 32 - a.bit_length()),
    ("bfind.u32 %d, %a", lambda a, b, c: a.bit_length() - 1),
    ("bfind.s32 %d, %a", lambda a, b, c: (a if s32(a) >= 0 else ~a & M32).bit_length() - 1),
    ("bfind.shiftamt.u32 %d, %a", lambda a, b, c: 32 - a.bit_length() if a else M32),
    ("brev.b32 %d, %a", lambda a, b, c: int(f"{a:032b}"[::-1], 2)),
    ("bfe.u32 %d, %a, %b, %c", lambda a, b, c: bfe(a, b, c, False)),
    ("bfe.s32 %d, %a, 5, 11", lambda a, b, c: bfe(a, 5, 11, True)),
    ("bfe.s32 %d, %a, %b, %c", lambda a, b, c: bfe(a, b, c, True)),
    ("bfi.b32 %d, %a, %b, 7, 9", lambda a, b, c: bfi(a, b, 7, 9)),
    ("bfi.b32 %d, %a, %b, %c, %b", lambda a, b, c: bfi(a, b, c, b)),
    ("and.b32 %d, %a, %b", lambda a, b, c: a & b),
    ("or.b32 %d, %a, 0x0F", lambda a, b, c: a | 15),
    ("xor.b32 %d, %a, -1", lambda a, b, c: a ^ M32),
    ("not.b32 %d, %a", lambda a, b, c: ~a),
    ("cnot.b32 %d, %a", lambda a, b, c: a == 0),
    ("shl.b32 %d, %a, %c", lambda a, b, c: a << min(c, 32)),
    ("shr.u32 %d, %a, %c", lambda a, b, c: a >> min(c, 32)),
    ("shr.s32 %d, %a, %c", lambda a, b, c: s32(a) >> min(c, 32)),
    ("lop3.b32 %d, %a, %b, %c, 0xE8", lambda a, b, c: lop3(a, b, c, 0xE8)),
    ("lop3.b32 %d, %a, %b, %c, 0x1D", lambda a, b, c: lop3(a, b, c, 0x1D)),
    ("shf.l.wrap.b32 %d, %a, %b, %c", lambda a, b, c: (b << 32 | a) << (c & 31) >> 32),
    ("shf.l.clamp.b32 %d, %a, %b, %c", lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32),
    ("shf.r.wrap.b32 %d, %a, %b, %c", lambda a, b, c: (b << 32 | a) >> (c & 31)),
    ("shf.r.clamp.b32 %d, %a, %b, %c", lambda a, b, c: (b << 32 | a) >> min(c, 32)),
    ("prmt.b32 %d, %a, %b, %c", prmt),
    ("prmt.b32 %d, %a, %b, 0x5410", lambda a, b, c: a & 0xFFFF | (b & 0xFFFF) << 16),
    ("dp4a.s32.u32 %d, %a, %b, %c", dp4a),
    ("slct.u32.s32 %d, %a, %b, %c", lambda a, b, c: a if s32(c) >= 0 else b),
    ("bmsk.clamp.b32 %d, 4, 7", lambda a, b, c: 0x7F0),
    ("szext.wrap.s32 %d, %a, 9", lambda a, b, c: (a & 511) - (512 if a & 256 else 0)),
]
CC = """add.cc.u32 %d, %a, %b; addc.u32 %d, %c, 0;"""


@pytest.fixture
def values() -> Any:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2**32, (3, LANES), np.uint32)
    a[:, :6] = [[0, 1, M32, 2**31, 5, 2**31 - 1], [3, M32, M32, M32, 0, 1], [0, 31, 32, 33, 300, 7]]
    a[2, 6:40] = rng.integers(0, 40, 34)
    return a


def test_32_bits(run_ptx: Any, values: Any) -> None:
    body = [
        ".reg .b32 %a, %b, %c, %d, %t; .reg .b64 %p, %q, %o;",
        "ld.param.u64 %p, [in]; ld.param.u64 %o, [out]; mov.u32 %t, %tid.x;",
        "mad.wide.u32 %q, %t, 4, %p; mad.wide.u32 %o, %t, 4, %o;",
        f"ld.global.u32 %a, [%q]; ld.global.u32 %b, [%q+{4 * LANES}];",
        f"ld.global.u32 %c, [%q+{8 * LANES}];",
    ]
    rows = [*ROWS32, (CC.rstrip(";"), lambda a, b, c: c + (a + b > M32))]
    for i, (text, _) in enumerate(rows):
        body.append(f"{text}; st.global.u32 [%o+{4 * LANES * i}], %d;")
    got = np.zeros((len(rows), LANES), np.uint32)

    result = run_ptx("\n".join(body), [values, got], [".u64 in", ".u64 out"], block=LANES)

    assert result.findings == ()
    for (text, want), row in zip(rows, got, strict=True):
        wanted = [want(*map(int, abc)) & M32 for abc in values.T]
        assert row.tolist() == wanted, text


ROWS64: list[tuple[str, Callable[[int, int], int]]] = [
    ("add.s64 %d, %a, %b", lambda a, b: a + b),
    ("mul.lo.u64 %d, %a, %b", lambda a, b: a * b),
    ("mul.hi.u64 %d, %a, %b", lambda a, b: a * b >> 64),
    ("mul.hi.s64 %d, %a, %b", lambda a, b: s64(a) * s64(b) >> 64),
    ("div.s64 %d, %a, %b", lambda a, b: quotient(s64(a), s64(b)) if b else M64),
    ("min.s64 %d, %a, %b", lambda a, b: min(s64(a), s64(b))),
    ("brev.b64 %d, %a", lambda a, b: int(f"{a:064b}"[::-1], 2)),
    ("shr.s64 %d, %a, 13", lambda a, b: s64(a) >> 13),
    ("shl.b64 %d, %a, 65", lambda a, b: 0),
    ("bfe.u64 %d, %a, 20, 30", lambda a, b: a >> 20 & (1 << 30) - 1),
    ("bfi.b64 %d, %a, %b, 33, 17", lambda a, b: b & ~(0x1FFFF << 33) | (a & 0x1FFFF) << 33),
    ("popc.b64 %e, %a; cvt.u64.u32 %d, %e", lambda a, b: a.bit_count()),
    ("clz.b64 %e, %a; cvt.u64.u32 %d, %e", lambda a, b: 64 - a.bit_length()),
    ("cvt.u32.u64 %e, %a; cvt.s64.s32 %d, %e", lambda a, b: s32(a & M32)),
    ("cvt.u32.u64 %e, %a; mul.wide.s32 %d, %e, -3", lambda a, b: s32(a & M32) * -3),
    ("cvt.u32.u64 %e, %a; mad.wide.u32 %d, %e, 7, %b", lambda a, b: (a & M32) * 7 + b),
    ("cvt.sat.u8.s64 %e, %a; cvt.u64.u32 %d, %e", lambda a, b: max(0, min(255, s64(a)))),
    ("cvt.s8.s64 %e, %a; cvt.s64.s32 %d, %e", lambda a, b: (a & 255) - (a << 1 & 256)),
    ("mov.b64 {%e, %f}, %a; mov.b64 %d, {%f, %e}", lambda a, b: a >> 32 | a << 32),
    ("setp.lt.s64 %p, %a, %b; selp.u64 %d, %a, %b, %p", lambda a, b: min(s64(a), s64(b))),
    ("setp.lo.u64 %p|%q, %a, %b; selp.u64 %d, 1, 2, %q", lambda a, b: 2 if a < b else 1),
    ("setp.ne.and.u64 %p, %a, %b, %t; selp.u64 %d, 1, 0, %p", lambda a, b: a != b),
    ("set.eq.u32.u64 %e, %a, %b; cvt.s64.s32 %d, %e", lambda a, b: -1 if a == b else 0),
    ("add.cc.u64 %d, %a, %b; addc.u64 %d, 0, 0", lambda a, b: a + b > M64),
    ("sub.cc.u64 %d, %a, %b; subc.u64 %d, 0, 0", lambda a, b: -1 if a < b else 0),
]


def test_64_bits(run_ptx: Any) -> None:
    values = np.random.default_rng(2).integers(0, 2**64, (2, LANES), np.uint64)
    values[:, :5] = [[0, 1, M64, 2**63, 7], [0, M64, 2, M64, 7]]
    values[0, 5:30] = np.arange(-12, 13).astype(np.int64).view(np.uint64)
    body = [
        ".reg .b32 %e, %f, %i; .reg .b64 %a, %b, %d, %in, %o; .reg .pred %p, %q, %t;",
        "ld.param.u64 %in, [in]; ld.param.u64 %o, [out]; mov.u32 %i, %tid.x;",
        "mad.wide.u32 %in, %i, 8, %in; mad.wide.u32 %o, %i, 8, %o; setp.eq.u32 %t, %i, %i;",
        f"ld.global.u64 %a, [%in]; ld.global.u64 %b, [%in+{8 * LANES}];",
    ]
    for i, (text, _) in enumerate(ROWS64):
        body.append(f"{text}; st.global.u64 [%o+{8 * LANES * i}], %d;")
    got = np.zeros((len(ROWS64), LANES), np.uint64)

    result = run_ptx("\n".join(body), [values, got], [".u64 in", ".u64 out"], block=LANES)

    assert result.findings == ()
    for (text, want), row in zip(ROWS64, got, strict=True):
        wanted = [want(*map(int, ab)) & M64 for ab in values.T]
        assert row.tolist() == wanted, text
