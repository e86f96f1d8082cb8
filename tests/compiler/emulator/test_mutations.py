"""Seeded bugs: each is found by the kind of check that should find it; without it, no finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rift_compiler.build_cuda import compile_cuda
from rift_compiler.emulator import Output, Result, TensorMap, launch

WRONG = "numbers"  # what a bug is found by when only the results tell


def pipeline(source: str, seed: int = 0) -> tuple[Result, bool]:
    rng = np.random.default_rng(0)
    m, n, k = 40, 24, 256
    a, b = (rng.standard_normal((s, k)).astype(np.float16) for s in (m, n))
    c = np.zeros((m, n), np.float32)
    ptx = compile_cuda(source, "sm_80").ptx
    result = launch(ptx, "matmul", (2, 2), 64, [a, b, Output(c), m, n, k], 3 * 6144, seed=seed)
    return result, bool(np.allclose(c, a.astype(float) @ b.astype(float).T, atol=1e-4))


def specialised(source: str, seed: int = 0) -> tuple[Result, bool]:
    rng = np.random.default_rng(0)
    m, k = 100, 256
    a, b = (rng.standard_normal((s, k)).astype(np.float16) for s in (m, 32))
    c = np.zeros((m, 32), np.float16)
    maps = [TensorMap(a, (64, 64), 128), TensorMap(b, (32, 64), 128), TensorMap(c, (64, 32))]
    ptx = compile_cuda(source, "sm_90a").ptx
    result = launch(ptx, "matmul", 2, 160, [*maps, k], 2 * 12288, seed=seed, limit_s=20)
    return result, bool(np.allclose(c, a.astype(float) @ b.astype(float).T, rtol=2e-3, atol=2e-2))


def ring(source: str, seed: int = 0) -> tuple[Result, bool]:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((5, s, 16)).astype(np.float16) for s in (16, 8))
    c = np.zeros((16, 8), np.float32)
    ptx = compile_cuda(source, "sm_90a").ptx
    result = launch(ptx, "matmul", 1, 64, [a, b, Output(c), 5], seed=seed, limit_s=20)
    want = np.einsum("sik,sjk->ij", a.astype(float), b.astype(float))
    return result, bool(np.allclose(c, want, atol=1e-4))


def transpose(source: str, seed: int = 0) -> tuple[Result, bool]:
    x = np.random.default_rng(0).random((40, 40), np.float32)
    out = np.zeros_like(x)
    ptx = compile_cuda(source, "sm_80").ptx
    result = launch(ptx, "transpose", (2, 2), (32, 8), [x, Output(out), 40], seed=seed)
    return result, np.array_equal(out, x.T)


def row_sums(source: str, seed: int = 0) -> tuple[Result, bool]:
    x = np.random.default_rng(0).random((13, 100), np.float32)
    sums, total = np.zeros(13, np.float32), np.zeros(1, np.float32)
    ptx = compile_cuda(source, "sm_80").ptx
    result = launch(ptx, "row_sums", 2, 256, [x, Output(sums), total, 13, 100], seed=seed)
    return result, bool(
        np.allclose(sums, x.sum(1), rtol=1e-5) and np.allclose(total, x.sum(), rtol=1e-5)
    )


@dataclass(frozen=True)
class Kernel:
    source: str
    run: Callable[..., tuple[Result, bool]]


CORPUS = Path(__file__).with_name("corpus")
TOOLS = (CORPUS / "tools.cuh").read_text()
RUNS = (pipeline, specialised, ring, transpose, row_sums)
KERNELS = {
    run.__name__: Kernel(TOOLS + (CORPUS / f"{run.__name__}.cu").read_text(), run) for run in RUNS
}

# (kernel, what is wrong, text, its replacement, the kind of finding that must be there)
MUTATIONS = [
    ("pipeline", "no barrier", "__syncthreads();", "", "race"),
    ("pipeline", "wait one group less", "wait_group 1", "wait_group 2", "in-flight"),
    ("pipeline", "barrier before the wait",
     'asm volatile("cp.async.wait_group 1;" ::: "memory");\n    __syncthreads();',
     '__syncthreads(); asm volatile("cp.async.wait_group 1;" ::: "memory");', "race"),
    ("pipeline", "fetch before the barrier",
     "    __syncthreads();\n    if (step + 2 < steps) fetch(step + 2);",
     "    if (step + 2 < steps) fetch(step + 2);\n    __syncthreads();", "race"),
    ("pipeline", "a ring of two stages for three", "step % 3 * 6144", "step % 2 * 6144", "race"),
    ("pipeline", "commit only in the first round", "    asm volatile(\"cp.async.commit_group;\");\n"
     "    unsigned tile", "    unsigned tile", "in-flight"),
    ("pipeline", "no swizzle of the writes", "(piece ^ (row & 7))", "piece", WRONG),
    ("pipeline", "no swizzle at all: bank conflicts", "& 7)", "& 0)", "conflicts"),
    ("pipeline", "fragments swapped", "product(acc[1], x, y[2], y[3]);",
     "product(acc[1], x, y[3], y[2]);", WRONG),
    ("pipeline", "rows of A swapped", "a[0]), \"r\"(a[1])", "a[1]), \"r\"(a[0])", WRONG),
    ("pipeline", "reads past the edge", "bool inside = grow < (from_a ? m : n);",
     "bool inside = true;", "bounds"),
    ("pipeline", "writes past the edge", "if (row < m && col + 1 < n)", "if (col + 1 < n)",
     "bounds"),
    ("pipeline", "columns past the edge", "if (row < m && col + 1 < n)", "if (row < m)", "race"),
    ("pipeline", "misaligned ldmatrix", "load4(x, tile + ra", "load4(x, tile + 8 + ra",
     "alignment"),
    ("pipeline", "misaligned vector", "*(float2*)(c + row * n + col)",
     "*(float2*)(c + row * n + col + 1)", "alignment"),
    ("pipeline", "misaligned copy", "* 64 + piece * 8;", "* 64 + piece * 8 + 4;", "alignment"),
    ("specialised", "no proxy fence",
     'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");', "", "proxy-fence"),
    ("specialised", "expects too few bytes", "8192 + 4096)", "8192)", "in-flight"),
    ("specialised", "expects too many bytes", "8192 + 4096)", "8192 + 8192)", "deadlock"),
    ("specialised", "consumer's phase is wrong", "wait(full + 8 * s, round & 1);",
     "wait(full + 8 * s, (round & 1) ^ 1);", "in-flight"),
    ("specialised", "producer's phase is wrong", "wait(empty + 8 * s, (round & 1) ^ 1);",
     "wait(empty + 8 * s, round & 1);", "deadlock"),
    ("specialised", "no wait for a free slot", "wait(empty + 8 * s, (round & 1) ^ 1);", "",
     "barrier"),
    ("specialised", "slot released before wgmma ends",
     'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");',
     'asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");', "race"),
    ("specialised", "slot never released", "if (t % 32 == 0) arrive(empty + 8 * s);", "",
     "deadlock"),
    ("specialised", "every thread releases the slot", "if (t % 32 == 0) arrive", "arrive",
     "deadlock"),
    ("specialised", "barriers used before all know they exist",
     "  __syncthreads();\n  if (t >= 128)", "  if (t >= 128)", "race"),
    ("specialised", "store not waited for",
     'asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");', "", "async-wait"),
    ("specialised", "no barrier before the store",
     '  asm volatile("bar.sync 1, 128;" ::: "memory");\n  if (t == 0)', "  if (t == 0)", "race"),
    ("specialised", "results used before they are there",
     '    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");\n', "", "async-wait"),
    ("specialised", "tile not aligned for the swizzle", "base = shared_address(smem)",
     "base = shared_address(smem) + 512", WRONG),
    ("specialised", "tile not aligned at all", "base = shared_address(smem)",
     "base = shared_address(smem) + 64", "alignment"),
    ("ring", "no __syncwarp before the release", "__syncwarp();", "", "race"),
    ("ring", "slot released before it is read",
     "    load4(x, tile + lane % 16 * 32 + lane / 16 * 16);\n"
     "    load4(y, tile + 512 + lane % 8 * 32 + lane / 8 % 2 * 16);\n"
     "    __syncwarp();\n    if (lane == 0) arrive(empty + 8 * s);",
     "    __syncwarp();\n    if (lane == 0) arrive(empty + 8 * s);\n"
     "    load4(x, tile + lane % 16 * 32 + lane / 16 * 16);\n"
     "    load4(y, tile + 512 + lane % 8 * 32 + lane / 8 % 2 * 16);", "race"),
    ("ring", "no wait for the data", "    wait(full + 8 * s, step / 2 & 1);\n", "", "in-flight"),
    ("ring", "the other barrier waited for", "wait(full + 8 * s, step / 2 & 1);",
     "wait(full + 8 * (s ^ 1), step / 2 & 1);", "race"),
    ("ring", "copy reaches past the array", "\"l\"(b + step * 128), \"r\"(256)",
     "\"l\"(b + step * 128 + 64), \"r\"(256)", "bounds"),
    ("transpose", "no barrier", "__syncthreads();", "", "race"),
    ("transpose", "no padding: bank conflicts", "tile[32][33]", "tile[32][32]", "conflicts"),
    ("transpose", "tile too small", "tile[32][33]", "tile[31][33]", "bounds"),
    ("transpose", "edge not guarded", "if (x < n && y0 + i < n)", "if (y0 + i < n)", "bounds"),
    ("transpose", "reads what nobody wrote", "if (y < n && x0 + i < n)",
     "if (y < n && x0 + i < n && tile[threadIdx.x + 1][i + 1] < 2)", "uninitialised"),
    ("row_sums", "barrier in a branch", "  __syncthreads();\n  float s",
     "  if (lane < 16) __syncthreads();\n  float s", "deadlock"),
    ("row_sums", "no atomic", "atomicAdd(total, all);", "*total += all;", "race"),
    ("row_sums", "last barrier missing", "  __syncthreads();\n  if (threadIdx.x == 0)",
     "  if (threadIdx.x == 0)", "race"),
    ("row_sums", "shuffle under a condition that differs",
     "for (int step = 16; step > 0; step /= 2) s",
     "for (int step = 16; step > 0; step /= 2) if (lane < 20) s", "deadlock"),
    ("row_sums", "partial sums not set", "if (lane == 0) part[warp] = s;", "", WRONG),
    ("row_sums", "rows not guarded", "if (lane == 0 && row < rows)", "if (lane == 0)", "bounds"),
    ("row_sums", "not a whole vector", "(in + row * n))[i]", "(in + row * n + 2))[i]", "alignment"),
]  # fmt: skip


@pytest.mark.parametrize("name", list(KERNELS))
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_correct_kernels_give_no_finding(name: str, seed: int) -> None:
    kernel = KERNELS[name]
    result, right = kernel.run(kernel.source, seed)
    assert result.findings == ()
    assert right


def conflicts(result: Result) -> int:
    assert result.counts is not None
    return sum(line.wavefronts - line.ideal for line in result.counts.lines)


@pytest.mark.parametrize(
    ("name", "old", "new", "kind"),
    [pytest.param(n, o, w, k, id=f"{n}: {why}") for n, why, o, w, k in MUTATIONS],
)
def test_bugs_are_found(name: str, old: str, new: str, kind: str) -> None:
    kernel = KERNELS[name]
    assert old in kernel.source
    result, right = kernel.run(kernel.source.replace(old, new))
    kinds: Any = {f.kind for f in result.findings}
    if kind == WRONG:
        assert not right
    elif kind == "conflicts":
        assert kinds == set()
        assert conflicts(result) > 0
        assert conflicts(kernel.run(kernel.source)[0]) == 0
    else:
        assert kind in kinds, result.findings


def test_some_bugs_give_right_numbers() -> None:
    """What no comparison of results would have found."""
    silent = []
    for name, why, old, new, kind in MUTATIONS:
        if kind in ("race", "proxy-fence", "async-wait", "bounds"):
            kernel = KERNELS[name]
            if kernel.run(kernel.source.replace(old, new))[1]:
                silent.append(why)
    assert len(silent) >= 5, silent
