"""Tensor-core products: bit for bit what mmasim says of each architecture.

mmasim (Microsoft, arXiv 2511.10909) reproduces what was measured on NVIDIA's GPUs.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from mmasim.nv_ptx.sim import MMA, WGMMA

ARCHITECTURES = {"sm_80": "Ampere", "sm_89": "Ada Lovelace", "sm_90a": "Hopper",
                 "sm_120a": "RTX Blackwell"}  # fmt: skip
DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "f32": np.float32,
}  # fmt: skip
MOST = {"f16": 65504.0, "bf16": 3.3e38, "tf32": 3.3e38, "f32": 3.3e38, "e4m3": 448.0,
        "e5m2": 57344.0}  # fmt: skip
ROUNDS = 8  # products in one kernel

CASES = [
    (target, shape)
    for target in ARCHITECTURES
    for shape in (
        "m16n8k8.f32.f16.f16.f32",
        "m16n8k16.f32.f16.f16.f32",
        "m16n8k16.f16.f16.f16.f16",
        "m16n8k16.f32.bf16.bf16.f32",
        "m16n8k8.f32.tf32.tf32.f32",
        "m16n8k4.f32.tf32.tf32.f32",
    )
] + [
    (target, shape)
    for target in ("sm_89", "sm_120a")
    for shape in (
        "m16n8k32.f32.e4m3.e5m2.f32",
        "m16n8k16.f32.e5m2.e5m2.f32",
        "m16n8k32.f16.e4m3.e4m3.f16",
    )
]


def numbers(rng: np.random.Generator, shape: tuple[int, ...], name: str, kind: int) -> Any:
    """Normal, of a wide range, mostly tiny and zero, or with infinities and NaNs."""
    x = rng.standard_normal(shape)
    if kind % 4 == 1:
        x *= 2.0 ** rng.integers(-12, 8, shape)
    elif kind % 4 == 2:
        x *= 2.0 ** rng.integers(-30, -8, shape) * (rng.random(shape) < 0.7)
    elif kind % 4 == 3:
        x = np.where(rng.random(shape) < 0.02, rng.choice([np.inf, -np.inf, np.nan], shape), x)
    with np.errstate(all="ignore"):
        limit = MOST[name]
        x = np.where(np.isfinite(x), np.clip(x, -limit, limit), x)
        return x.astype(DTYPES[name])


def tensor(x: Any) -> torch.Tensor:
    """A NumPy array as torch has it, of the same bits."""
    types = {"bfloat16": torch.bfloat16, "float8_e4m3fn": torch.float8_e4m3fn,
             "float8_e5m2": torch.float8_e5m2}  # fmt: skip
    if x.dtype.name in types:
        word = np.int16 if x.dtype.itemsize == 2 else np.uint8
        return torch.from_numpy(x.view(word).copy()).view(types[x.dtype.name])
    return torch.from_numpy(x.copy())


def fragments(x: Any, a: bool) -> Any:
    """A (16 x k) or the transpose of B (8 x k) as 32-bit registers: (32 lanes, registers).

    PTX ISA 9.0, 9.7.14.5: a lane's group is its row, its place in the group its columns.
    """
    per = 4 // x.dtype.itemsize
    k = x.shape[1]
    words = np.ascontiguousarray(x).view(np.uint32)  # (rows, k / per)
    lanes = np.arange(32)
    found = []
    for i in range(k // (4 * per)):
        for half in (0, 8) if a else (0,):
            found.append(words[lanes // 4 + half, 4 * i + lanes % 4])
    return np.stack(found, 1)


def sums(x: Any) -> Any:
    """C or D (16 x 8) as registers."""
    lanes = np.arange(32)
    pairs = [x[lanes // 4 + h, 2 * (lanes % 4) + i] for h in (0, 8) for i in (0, 1)]
    return np.ascontiguousarray(np.stack(pairs, 1)).view(np.uint32)


def program(shape: str, counts: tuple[int, ...]) -> str:
    """ROUNDS products; registers come and go through memory, (round, lane, register)."""
    names, at = [], 0
    for n in counts:
        names.append("{" + ", ".join(f"%r{at + i}" for i in range(n)) + "}")
        at += n
    mnk, d, a, b, c = shape.split(".")
    total = sum(counts)
    body = [
        f".reg .b32 %r<{total}>, %t; .reg .b64 %p;",
        f"ld.param.u64 %p, [p]; mov.u32 %t, %tid.x; mad.wide.u32 %p, %t, {4 * total}, %p;",
    ]
    for round_ in range(ROUNDS):
        base = round_ * 32 * total * 4
        body += [f"ld.global.b32 %r{i}, [%p+{base + 4 * i}];" for i in range(total)]
        body.append(
            f"mma.sync.aligned.{mnk}.row.col.{d}.{a}.{b}.{c} "
            f"{names[2]}, {names[0]}, {names[1]}, {names[2]};"
        )
        first = counts[0] + counts[1]
        body += [f"st.global.b32 [%p+{base + 4 * i}], %r{i};" for i in range(first, total)]
    return "\n".join(body)


def equal(got: Any, want: Any) -> bool:
    nan = np.isnan(got.astype(np.float32)) & np.isnan(want.astype(np.float32))
    word = np.uint16 if got.dtype.itemsize == 2 else np.uint32
    return bool(np.all(nan | (got.view(word) == want.view(word))))


@pytest.mark.parametrize(("target", "shape"), CASES)
def test_mma_is_exact(run_ptx: Any, target: str, shape: str) -> None:
    rng = np.random.default_rng(len(shape))
    mnk, d, a, b, _ = shape.split(".")
    k = int(mnk.partition("k")[2])
    inputs = [
        (numbers(rng, (16, k), a, i), numbers(rng, (8, k), b, i), numbers(rng, (16, 8), d, i))
        for i in range(ROUNDS)
    ]
    packed = np.stack(
        [np.concatenate([fragments(x, True), fragments(y, False), sums(z)], 1)
         for x, y, z in inputs]
    )  # fmt: skip
    x, y, z = inputs[0]
    counts = tuple(part.shape[1] for part in (fragments(x, True), fragments(y, False), sums(z)))
    plain = packed.copy()

    text = program(shape, counts)
    assert run_ptx(text, [packed], [".u64 p"], block=32, target=target, exact=True).findings == ()
    run_ptx(text, [plain], [".u64 p"], block=32, target=target)

    simulated = MMA(ARCHITECTURES[target], shape)
    for i, (x, y, z) in enumerate(inputs):
        want = simulated(tensor(x), tensor(y).T, tensor(z)).numpy()
        got = packed[i][:, counts[0] + counts[1] :]
        assert equal(np.ascontiguousarray(got).view(DTYPES[d]), sums(want).view(DTYPES[d])), i
        if i % 4 != 3 and a != "tf32":
            close = x.astype(np.float64) @ y.astype(np.float64).T + z.astype(np.float64)
            near = np.ascontiguousarray(plain[i][:, counts[0] + counts[1] :]).view(DTYPES[d])
            tolerance = 2.0**-10 if d == "f16" else 2.0**-20
            scale = np.abs(x.astype(float)) @ np.abs(y.astype(float)).T + np.abs(z.astype(float))
            error = np.abs(near.astype(float) - sums_of(close))
            assert np.all(error <= tolerance * sums_of(scale) + 2.0**-24)


def sums_of(x: Any) -> Any:
    lanes = np.arange(32)
    return np.stack([x[lanes // 4 + h, 2 * (lanes % 4) + i] for h in (0, 8) for i in (0, 1)], 1)


WGMMA_SHAPES = ["m64n16k16.f32.f16.f16", "m64n8k16.f16.f16.f16",
                "m64n24k16.f32.bf16.bf16", "m64n8k8.f32.tf32.tf32",
                "m64n16k32.f32.e4m3.e5m2", "m64n8k32.f16.e5m2.e4m3"]  # fmt: skip


def core_matrices(x: Any) -> Any:
    """Rows x k as 8-row, 16-byte core matrices: those of one row after another, along k first."""
    rows, k = x.shape
    per = 16 // x.dtype.itemsize
    return np.ascontiguousarray(x.reshape(rows // 8, 8, k // per, per).swapaxes(1, 2))


@pytest.mark.parametrize("shape", WGMMA_SHAPES)
@pytest.mark.parametrize("registers", [False, True])
def test_wgmma_is_exact(run_ptx: Any, shape: str, registers: bool) -> None:
    rng = np.random.default_rng(3)
    mnk, d, a, b = shape.split(".")
    n, k = (int(v) for v in mnk.removeprefix("m64n").split("k"))
    x, y = numbers(rng, (64, k), a, 1), numbers(rng, (n, k), b, 1)
    z = numbers(rng, (64, n), d, 1)
    image = np.concatenate([core_matrices(v).reshape(-1).view(np.uint32) for v in (x, y)])
    lanes = np.arange(128)
    row = lanes // 32 * 16 + lanes % 32 // 4
    where = [(row + 8 * h, 8 * j + 2 * (lanes % 4)) for j in range(n // 8) for h in (0, 1)]
    c = np.stack([z[r, q + i] for r, q in where for i in (0, 1)], 1)
    packed = np.ascontiguousarray(c).view(np.uint32)
    fragment = np.concatenate([fragments(x[16 * w : 16 * w + 16], True) for w in range(4)])
    regs = packed.shape[1]

    text = wgmma_program(shape, image.size, x.nbytes, regs, registers)
    result = run_ptx(
        text, [image, packed, np.ascontiguousarray(fragment)], [".u64 i", ".u64 c", ".u64 a"],
        block=128, exact=True, smem_bytes=image.nbytes,
        outside=".extern .shared .align 128 .b8 sm[];",
    )  # fmt: skip

    assert result.findings == ()
    want = WGMMA("Hopper", shape)(tensor(x), tensor(y).T, tensor(z)).numpy()
    wanted = np.ascontiguousarray(np.stack([want[r, q + i] for r, q in where for i in (0, 1)], 1))
    assert equal(packed.view(DTYPES[d]), wanted)


def wgmma_program(shape: str, words: int, a_bytes: int, regs: int, registers: bool) -> str:
    mnk, d, a, b = shape.split(".")
    sums_ = ", ".join(f"%r{i}" for i in range(regs))
    transposes = "" if a not in ("f16", "bf16") else ", 0" if registers else ", 0, 0"
    first = "{%x0, %x1, %x2, %x3}" if registers else "%da"
    # Two core matrices along k (128 bytes apart), then the next eight rows.
    bits = (128 >> 4) << 16 | (256 >> 4) << 32
    body = f"""
    .reg .b32 %r<{regs}>, %x<4>, %t, %s, %v, %e; .reg .b64 %p, %q, %da, %db; .reg .pred %go;
    ld.param.u64 %p, [i]; mov.u32 %t, %tid.x; mov.u32 %s, sm;
    mov.u32 %v, %t;
    AGAIN: setp.ge.u32 %go, %v, {words}; @%go bra FULL;
    mad.wide.u32 %q, %v, 4, %p; ld.global.b32 %e, [%q]; shl.b32 %e, %e, 0;
    mad.lo.u32 %x0, %v, 4, %s; st.shared.b32 [%x0], %e; add.u32 %v, %v, 128; bra AGAIN;
    FULL: fence.proxy.async; bar.sync 0;
    ld.param.u64 %p, [c]; mad.wide.u32 %p, %t, {4 * regs}, %p;
    ld.param.u64 %q, [a]; mad.wide.u32 %q, %t, 16, %q;
    ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%q];
    """
    body += "\n".join(f"ld.global.b32 %r{i}, [%p+{4 * i}];" for i in range(regs))
    return (
        body
        + f"""
    shr.u32 %v, %s, 4; cvt.u64.u32 %da, %v; or.b64 %da, %da, {bits};
    add.u32 %v, %s, {a_bytes}; shr.u32 %v, %v, 4; cvt.u64.u32 %db, %v; or.b64 %db, %db, {bits};
    setp.eq.u32 %go, %t, %t;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.{mnk}.{d}.{a}.{b} {{{sums_}}}, {first}, %db, %go, 1, 1{transposes};
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    """
        + "\n".join(f"st.global.b32 [%p+{4 * i}], %r{i};" for i in range(regs))
    )
