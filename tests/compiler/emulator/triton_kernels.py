"""Triton kernels, as the tutorials write them, for the emulator's tests."""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0)
    pn = tl.program_id(1)
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :]
    pb = b + rk[:, None] * sbk + rn[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(pa)
        y = tl.load(pb)
        acc = tl.dot(x, y, acc)
        pa += BK
        pb += BK * sbk
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    tl.store(c + rm[:, None] * scm + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def matmul_tma(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm = tl.program_id(0) * BM
    pn = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x = a.load([pm, k])
        y = b.load([k, pn])
        acc = tl.dot(x, y, acc)
    c.store([pm, pn], acc.to(tl.float16))


@triton.jit
def softmax(out, x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * stride + at, v / tl.sum(v, 0), mask=at < n)


@triton.jit
def layer_norm(x, y, w, b, mean, rstd, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    acc = tl.zeros([BLOCK], tl.float32)
    for off in range(0, n, BLOCK):
        at = off + tl.arange(0, BLOCK)
        acc += tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    mu = tl.sum(acc, 0) / n
    var = tl.zeros([BLOCK], tl.float32)
    for off in range(0, n, BLOCK):
        at = off + tl.arange(0, BLOCK)
        d = tl.where(at < n, tl.load(x + at, mask=at < n, other=0.0).to(tl.float32) - mu, 0.0)
        var += d * d
    r = 1 / tl.sqrt(tl.sum(var, 0) / n + eps)
    tl.store(mean + row, mu)
    tl.store(rstd + row, r)
    for off in range(0, n, BLOCK):
        at = off + tl.arange(0, BLOCK)
        m = at < n
        v = (tl.load(x + at, mask=m, other=0.0).to(tl.float32) - mu) * r
        tl.store(y + at, v * tl.load(w + at, mask=m) + tl.load(b + at, mask=m), mask=m)


@triton.jit
def attention(
    q, k, v, o, sm, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr
):
    pid = tl.program_id(0)
    h = tl.program_id(1)
    q += h * S * D
    k += h * S * D
    v += h * S * D
    o += h * S * D
    rm = pid * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    rn = tl.arange(0, BN)
    qq = tl.load(q + rm[:, None] * D + rd[None, :])
    m = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    hi = (pid + 1) * BM if CAUSAL else S
    for n in range(0, hi, BN):
        kk = tl.load(k + (n + rn)[None, :] * D + rd[:, None])
        s = tl.dot(qq, kk) * (sm * 1.44269504)
        if CAUSAL:
            s = tl.where(rm[:, None] >= (n + rn)[None, :], s, -1e30)
        mn = tl.maximum(m, tl.max(s, 1))
        p = tl.math.exp2(s - mn[:, None])
        a = tl.math.exp2(m - mn)
        total = total * a + tl.sum(p, 1)
        vv = tl.load(v + (n + rn)[:, None] * D + rd[None, :])
        acc = tl.dot(p.to(tl.float16), vv, acc * a[:, None])
        m = mn
    tl.store(o + rm[:, None] * D + rd[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def matmul_8_bits(
    a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, INT: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.int32 if INT else tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + rm[:, None] * K + (k + rk)[None, :])
        y = tl.load(b + (k + rk)[:, None] + rn[None, :] * K)
        acc = tl.dot(x, y, acc, out_dtype=tl.int32 if INT else tl.float32)
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def double_rows(a, c, M, N, BM: tl.constexpr, BN: tl.constexpr):
    """Tensor maps that the kernel makes itself."""
    d = tl.make_tensor_descriptor(a, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    e = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    x = d.load([tl.program_id(0) * BM, 0])
    e.store([tl.program_id(0) * BM, 0], x * 2)
