"""What nvcc makes of kernels over CUDA's own libraries. Skipped where there is no nvcc."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rift_compiler.emulator import Output, Result, launch

SOURCE = Path(__file__).with_name("corpus") / "libraries.cu"
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
pytestmark = pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")


@pytest.fixture(scope="module")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = tmp_path_factory.mktemp("nvcc") / "libraries.ptx"
    command = [str(NVCC), "-ptx", "-std=c++17", "-arch=sm_80", "-lineinfo", str(SOURCE), "-o"]
    subprocess.run([*command, str(made)], check=True, capture_output=True)
    return made.read_text()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def run(ptx: str, entry: str, args: Any) -> Result:
    result = launch(ptx, entry, 1, 128, args, limit_s=60)
    assert result.findings == ()
    return result


def test_cooperative_groups(ptx: str, rng: np.random.Generator) -> None:
    x, out = rng.random(1000, np.float32), np.zeros(1, np.float32)
    run(ptx, "reduce", [x, out, 1000])
    np.testing.assert_allclose(out[0], x.sum(dtype=np.float64), rtol=1e-5)


def test_halves(ptx: str, rng: np.random.Generator) -> None:
    a, b = (rng.standard_normal(200).astype(np.float16) for _ in range(2))
    c, d = np.zeros(200, np.float16), np.zeros(200, np.uint16)
    run(ptx, "halves", [a, b, Output(c), Output(d), 100])
    x = a.astype(np.float64) * b + 0.5
    np.testing.assert_allclose(c, np.exp(np.maximum(x, -1)), rtol=4e-3)
    brain = (d.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(brain, 2 * x, rtol=2e-2, atol=1e-3)


def test_a_barrier_that_is_polled(ptx: str, rng: np.random.Generator) -> None:
    """Its threads never stand still, and the copies they poll for must land."""
    x, out = rng.random(128, np.float32), np.zeros(128, np.float32)
    run(ptx, "staged", [x, Output(out)])
    assert np.array_equal(out, x[::-1])


def test_block_scan(ptx: str, rng: np.random.Generator) -> None:
    v, out = rng.integers(0, 100, 128).astype(np.int32), np.zeros(129, np.int32)
    run(ptx, "scan", [v, Output(out)])
    assert np.array_equal(out[:128], v.cumsum())
    assert out[128] == out[127]
