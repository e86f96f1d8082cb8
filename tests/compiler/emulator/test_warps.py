"""Warp collectives, barriers of a block, atomics, fences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

SHUFFLES = """
__global__ void k(const int* in, int* out) {
  int t = threadIdx.x, v = in[t];
  out += t;
  out[0] = __shfl_up_sync(~0u, v, 3);
  out[64] = __shfl_down_sync(~0u, v, 5);
  out[128] = __shfl_xor_sync(~0u, v, 9);
  out[192] = __shfl_sync(~0u, v, t * 7);
  out[256] = __shfl_sync(~0u, v, t, 8);
  out[320] = __shfl_down_sync(~0u, v, 3, 8);
  out[384] = __ballot_sync(~0u, v & 1);
  out[448] = __all_sync(~0u, v > 0) + 2 * __any_sync(~0u, v > 90);
  out[512] = __match_any_sync(~0u, v % 5);
  out[576] = __reduce_add_sync(~0u, v);
  out[640] = __reduce_min_sync(~0u, v);
  if (t & 1) out[704] = __reduce_xor_sync(0xaaaaaaaau, v);
  else out[704] = __reduce_max_sync(0x55555555u, v);
}
"""


def test_collectives(run_cuda: Any) -> None:
    v = np.random.default_rng(0).integers(1, 100, 64).astype(np.int32)
    got = np.zeros((12, 64), np.int32)

    result = run_cuda(SHUFFLES, 1, 64, [v, got])

    w = v.reshape(2, 32)
    lane = np.arange(32)
    rows = [
        w[:, np.where(lane >= 3, lane - 3, lane)],
        w[:, np.where(lane < 27, lane + 5, lane)],
        w[:, lane ^ 9],
        np.stack([w[i][(np.arange(32) + 32 * i) * 7 % 32] for i in range(2)]),
        w[:, lane // 8 * 8 + lane % 8],
        w[:, np.where(lane % 8 < 5, lane + 3, lane)],
        np.repeat([sum(int(x & 1) << i for i, x in enumerate(r)) for r in w], 32),
        np.repeat([bool((r > 0).all()) + 2 * bool((r > 90).any()) for r in w], 32),
        [[sum(1 << j for j in range(32) if r[j] % 5 == x % 5) for x in r] for r in w],
        np.repeat(w.sum(1), 32),
        np.repeat(w.min(1), 32),
        [[np.bitwise_xor.reduce(r[1::2]) if i % 2 else r[::2].max() for i in range(32)] for r in w],
    ]
    assert result.findings == ()
    for i, (row, want) in enumerate(zip(got, rows, strict=True)):
        wanted = np.asarray(want).reshape(-1).astype(np.int64).astype(np.uint32)
        assert np.array_equal(row.view(np.uint32), wanted), i


REDUCTION = """
__global__ void sum(const float* in, float* out, int n) {
  __shared__ float part[256];
  int t = threadIdx.x;
  float s = 0;
  for (int i = t; i < n; i += blockDim.x) s += in[i];
  part[t] = s;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (t < step) part[t] += part[t + step];
    %s
  }
  if (t == 0) out[blockIdx.x] = part[0];
}
"""


@pytest.mark.parametrize("seed", [0, 1])
def test_block_reduction(run_cuda: Any, seed: int) -> None:
    x = np.random.default_rng(1).random(5000, np.float32)
    out = np.zeros(1, np.float32)
    source = REDUCTION % "__syncthreads();"

    assert run_cuda(source, 1, 256, [x, out, 5000], seed=seed).findings == ()
    np.testing.assert_allclose(out[0], x.sum(dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_missing_barrier_is_a_race(run_cuda: Any, seed: int) -> None:
    x = np.random.default_rng(1).random(5000, np.float32)
    result = run_cuda(REDUCTION % "", 1, 256, [x, np.zeros(1, np.float32), 5000], seed=seed)
    assert {f.kind for f in result.findings} == {"race"}
    assert {f.source.rpartition("/")[2] for f in result.findings} == {"kernel.cu:11"}


ATOMICS = """
__global__ void k(const int* in, int* out, float* f, unsigned long long* wide) {
  __shared__ int s;
  int t = threadIdx.x, v = in[t];
  if (t == 0) s = 0;
  __syncthreads();
  atomicAdd(out, v); atomicMax(out + 1, v); atomicAnd(out + 2, v); atomicXor(out + 3, v);
  atomicInc((unsigned*)out + 4, 9); atomicExch(out + 5, 7); atomicAdd(&s, v);
  atomicAdd(f, 0.5f); atomicMin(wide, (unsigned long long)v);
  int old, seen = *(volatile int*)(out + 6);
  do { old = seen; seen = atomicCAS(out + 6, old, old + v); } while (seen != old);
  __syncthreads();
  if (t == 0) out[7] = s;
}
"""


@pytest.mark.parametrize("seed", [0, 3])
def test_atomics(run_cuda: Any, seed: int) -> None:
    v = np.random.default_rng(2).integers(1, 1000, 96).astype(np.int32)
    out = np.zeros(8, np.int32)
    out[2] = -1
    f, wide = np.zeros(1, np.float32), np.full(1, 2**63, np.uint64)

    result = run_cuda(ATOMICS, 1, 96, [v, out, f, wide], seed=seed)

    assert result.findings == ()
    assert out.tolist() == [
        v.sum(), v.max(), np.bitwise_and.reduce(v), np.bitwise_xor.reduce(v), 96 % 10, 7,
        v.sum(), v.sum(),
    ]  # fmt: skip
    assert (f[0], wide[0]) == (48, v.min())


LAST_BLOCK = """
__device__ unsigned arrived;
__global__ void k(const float* in, float* parts, float* out) {
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = in[blockIdx.x] * 2;
    %s
    unsigned before = atomicAdd(&arrived, 1);
    if (before == gridDim.x - 1) {
      %s
      float s = 0;
      for (int i = 0; i < gridDim.x; i++) s += parts[i];
      *out = s;
    }
  }
}
"""


def test_blocks_that_meet_at_a_counter(run_cuda: Any) -> None:
    x = np.arange(6, dtype=np.float32)
    for fences, kinds in ((("__threadfence();",) * 2, set()), (("", ""), {"race"})):
        out = np.zeros(1, np.float32)
        result = run_cuda(LAST_BLOCK % fences, 6, 32, [x, np.zeros(6, np.float32), out])
        assert {f.kind for f in result.findings} == kinds
        assert out[0] == 30


def test_named_barriers(run_cuda: Any) -> None:
    source = """
    __global__ void k(int* out) {
      __shared__ int s[64];
      int t = threadIdx.x;
      if (t < 64) { s[t] = t * t; asm volatile("bar.arrive 3, 128;" ::: "memory"); }
      else { asm volatile("bar.sync 3, 128;" ::: "memory"); out[t - 64] = s[127 - t]; }
      int all = __syncthreads_and(t < 100), any = __syncthreads_or(t == 5);
      int n = __syncthreads_count(t % 3 == 0);
      if (t == 0) out[64] = all * 1000 + any * 100 + n;
    }"""
    out = np.zeros(65, np.int32)
    assert run_cuda(source, 1, 128, [out]).findings == ()
    assert out[:64].tolist() == [(63 - i) ** 2 for i in range(64)]
    assert out[64] == 143


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("if (t < 32) __syncthreads();", "barrier", "threads exited without coming"),
        ("if (t < 40) __syncthreads();", "barrier", "threads exited"),
        ("if (t < 32) asm volatile(\"bar.sync 1, 64;\");", "deadlock", "barrier 1 (line"),
        ("asm volatile(\"bar.sync 1, %0;\" :: \"r\"(t / 64 + 40));", "barrier", "multiple of 32"),
        ("if (t == 3) __shfl_xor_sync(0xf0, t, 1);", "barrier", "leaves it out"),
        ("if (t < 16) __shfl_xor_sync(~0u, t, 1); else __syncwarp();", "deadlock", "lanes"),
        ("if (t < 8) __trap();", "trap", "thread 0"),
    ],
)  # fmt: skip
def test_misuse(run_cuda: Any, body: str, kind: str, words: str) -> None:
    result = run_cuda(f"__global__ void k() {{ int t = threadIdx.x; {body} }}", 1, 64, [])
    assert kind in {f.kind for f in result.findings}
    assert any(words in f.message for f in result.findings), result.findings


def test_calls_and_local_memory(run_cuda: Any) -> None:
    source = """
    __device__ __noinline__ float poly(const float* c, float x, int n) {
      float s = 0;
      for (int i = n - 1; i >= 0; i--) s = s * x + c[i];
      return s;
    }
    struct Pair { float a; double b; };
    __constant__ float table[4] = {1, 2, 3, 4};
    __global__ void k(float* out, Pair p, int n) {
      float c[8];
      for (int i = 0; i < n; i++) c[(i * 5) & 7] = table[i & 3] + p.a;
      out[threadIdx.x] = poly(c, threadIdx.x * 0.125f, 8) + (float)p.b;
    }"""
    out = np.zeros(32, np.float32)
    pair = np.array([(0.5, 100.0)], np.dtype([("a", "f4"), ("b", "f8")], align=True)).tobytes()
    assert run_cuda(source, 1, 32, [out, pair, 8]).findings == ()
    c = np.zeros(8)
    for i in range(8):
        c[i * 5 & 7] = i % 4 + 1.5
    want = [np.polynomial.polynomial.polyval(t * 0.125, c) + 100 for t in range(32)]
    np.testing.assert_allclose(out, want, rtol=1e-5)
