"""Kernels that Triton compiled: correct against NumPy in double precision, and no finding."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rift.cli import main
from rift_compiler.emulator import Output, TensorMap, launch
from rift_compiler.emulator.triton_source import compile_triton

pytest.importorskip("triton")
TARGETS = ("sm_80", "sm_90a", "sm_120a")
KERNELS = Path(__file__).with_name("triton_kernels.py")


@pytest.fixture(scope="module")
def kernels() -> Any:
    spec = importlib.util.spec_from_file_location("triton_kernels", KERNELS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def run(
    function: Any, args: Any, constants: dict[str, Any], grid: Any, target: str,
    seeds: tuple[int, ...] = (0,), **options: Any,
) -> Any:  # fmt: skip
    """Compiles and launches; no finding under any seed. Returns the last result."""
    kernel = compile_triton(function, args, constants, target, blocks=int(np.prod(grid)))
    for seed in seeds:
        result = launch(
            kernel.ptx, kernel.entry, grid, kernel.block, kernel.args, kernel.smem_bytes,
            seed=seed, **options,
        )  # fmt: skip
        assert result.findings == ()
    return result


def halves(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("target", TARGETS)
def test_matmul(kernels: Any, rng: np.random.Generator, target: str) -> None:
    """cp.async in three stages; mma.sync, or wgmma with a transposed B."""
    m, n, k = 200, 128, 160
    a, b = halves(rng, m, k), halves(rng, k, n)
    c = np.zeros((m, n), np.float32)
    constants = {"BM": 128, "BN": 128, "BK": 32}

    args = [a, b, Output(c), m, n, k, k, n, n]
    result = run(kernels.matmul, args, constants, (2, 1), target, seeds=(0, 1))

    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, want, rtol=0, atol=1e-4)
    opcode = "wgmma" if target == "sm_90a" else "mma"
    assert result.counts.executed[opcode] > 0
    lines = result.counts.lines
    assert all(x.wavefronts == x.ideal for x in lines if "ldmatrix" in x.text)


@pytest.mark.parametrize("target", TARGETS[1:])
def test_matmul_by_tensor_maps(kernels: Any, rng: np.random.Generator, target: str) -> None:
    a, b = halves(rng, 100, 136), halves(rng, 136, 64)
    c = np.zeros((100, 64), np.float16)
    maps = [TensorMap(x, (64, 64), 128) for x in (a, b, c)]
    constants = {"BM": 64, "BN": 64, "BK": 64}

    run(kernels.matmul_tma, [*maps, 136], constants, (2, 1), target, seeds=(0, 1, 2))

    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS[1:])
def test_tensor_maps_made_by_the_kernel(
    kernels: Any, rng: np.random.Generator, target: str
) -> None:
    a = halves(rng, 70, 64)
    c = np.zeros_like(a)

    args = [a, Output(c), 70, 64]
    run(kernels.double_rows, args, {"BM": 32, "BN": 64}, (3,), target, seeds=(0, 1))

    assert np.array_equal(c, a * 2)


@pytest.mark.parametrize("target", TARGETS)
def test_softmax(kernels: Any, rng: np.random.Generator, target: str) -> None:
    x = rng.standard_normal((5, 1000)).astype(np.float32)
    out = np.zeros_like(x)

    run(kernels.softmax, [Output(out), x, 1000, 1000], {"BLOCK": 1024}, 5, target)

    e = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out, e / e.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_layer_norm(kernels: Any, rng: np.random.Generator, target: str) -> None:
    x = halves(rng, 3, 1000)
    w, b = rng.standard_normal((2, 1000)).astype(np.float32)
    y, mean, rstd = np.zeros_like(x), np.zeros(3, np.float32), np.zeros(3, np.float32)
    args = [x, Output(y), w, b, Output(mean), Output(rstd), 1000, 1000, 1e-5]

    run(kernels.layer_norm, args, {"BLOCK": 512}, 3, target)

    wide = x.astype(np.float64)
    scaled = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(mean, wide.mean(1), atol=1e-6)
    np.testing.assert_allclose(y, scaled * w + b, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(kernels: Any, rng: np.random.Generator, target: str, causal: bool) -> None:
    h, s, d = 2, 128, 64
    q, k, v = (halves(rng, h, s, d) for _ in range(3))
    o = np.zeros_like(q)
    constants = {"D": d, "BM": 64, "BN": 64, "CAUSAL": causal}

    run(kernels.attention, [q, k, v, Output(o), 0.125, s], constants, (2, h), target)

    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * 0.125
    if causal:
        scores = np.where(np.tri(s, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    want = p / p.sum(-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(o, want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_int8_matmul(kernels: Any, rng: np.random.Generator, target: str) -> None:
    a, b = (rng.integers(-128, 128, (64, 128)).astype(np.int8) for _ in range(2))
    c = np.zeros((64, 64), np.int32)
    constants = {"BM": 64, "BN": 64, "BK": 64, "INT": True}

    run(kernels.matmul_8_bits, [a, b, Output(c), 64, 128], constants, (1, 1), target)

    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32).T)


@pytest.mark.parametrize("target", ["sm_89", "sm_90a", "sm_120a"])
@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_fp8_matmul(kernels: Any, rng: np.random.Generator, target: str, dtype: Any) -> None:
    a, b = (rng.standard_normal((64, 128)).astype(dtype) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    constants = {"BM": 64, "BN": 64, "BK": 64, "INT": False}

    run(kernels.matmul_8_bits, [a, b, Output(c), 64, 128], constants, (1, 1), target)

    want = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-5)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(x, np.ones((2, 32), np.float32))
    given = ["emulate", f"{KERNELS}:softmax", "--grid", "2", "--constant", "BLOCK=32"]
    given += ["--arg", f"out:{y}:float32:2,32", "--arg", f"in:{x}", "--arg", "i32:32"]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(SystemExit) as end:
            main([*given, "--arg", "i32:32", "--target", "sm_90a"])

    assert end.value.code == 0, capsys.readouterr().err
    np.testing.assert_allclose(np.load(y), 1 / 32)
