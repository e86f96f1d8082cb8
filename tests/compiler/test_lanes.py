"""Kernels in vector lanes: mathematical functions, ragged ends, threads, other instruction sets."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rift_compiler
from rift_compiler.build_cpp import FLAGS, compiler

EDGES = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.0, -0.0, 1e-45, 3e38])
WIDE = torch.cat([torch.linspace(-110, 95, 100_003), torch.logspace(-44, 38, 9_999), EDGES])
NEAR_ONE = torch.cat([WIDE, 1 + torch.linspace(-1e-3, 1e-3, 9_999)])


@pytest.mark.parametrize(
    ("name", "limit_ulp"),
    [("exp", 1.1), ("tanh", 1.3), ("erf", 2.2), ("log", 1.4), ("sqrt", 0.51), ("sin", 1.0)],
)
def test_functions_are_accurate_everywhere(name: str, limit_ulp: float) -> None:
    function, x = getattr(torch, name), NEAR_ONE
    got = rift_compiler.compile(function, (x,))(x)
    want = function(x.double())
    rounded = want.float()
    both = rounded.isfinite() & got.isfinite()
    step = torch.nextafter(rounded.abs(), torch.tensor(torch.inf)) - rounded.abs()
    error = ((got.double() - want).abs() / step.double())[both]
    same = (got == rounded) | (got.isnan() & rounded.isnan()) | both

    assert same.all(), x[~same][:5]
    assert error.max() <= limit_ulp


KERNELS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "softmax": lambda x: x.softmax(-1),
    "gelu": lambda x: F.gelu(x),
    "max": lambda x: x.amax(-1),
    "argmax": lambda x: x.argmax(-1),
    "mean and variance": lambda x: F.layer_norm(x, x.shape[-1:]),
    "count": lambda x: (x > 0).sum(-1),
    "shifted": lambda x: F.pad(x, (1, 0))[..., :-1] * x,
    "every other": lambda x: x[..., ::2] + 1,
    "whole numbers": lambda x: (x * 10).to(torch.int64) // 3,
    "bytes": lambda x: (x * 10).to(torch.int8) * 2,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", KERNELS)
def test_sizes_that_lanes_do_not_divide(name: str, dtype: torch.dtype) -> None:
    for size in (13, 72):
        x = torch.randn(3, size, generator=torch.Generator().manual_seed(size)).to(dtype)
        got = rift_compiler.compile(KERNELS[name], (x,))(x)

        torch.testing.assert_close(got, KERNELS[name](x))


@pytest.mark.parametrize("size", [64, 100, 2048])
def test_a_row_of_dear_terms_is_computed_once(size: int) -> None:
    x = torch.randn(5, size)
    made = rift_compiler.compile(lambda x: x.softmax(-1), (x,))
    (tile,) = made.stages.tiles

    assert str(tile).count("exp(") == (2 if size % 8 else 1)  # ragged rows are not kept
    torch.testing.assert_close(made(x), x.softmax(-1))


def test_results_do_not_depend_on_threads_or_runs() -> None:
    x = torch.randn(64, 1000)
    made = rift_compiler.compile(nn.LayerNorm(1000), (x,))
    threads = torch.get_num_threads()
    try:
        results = []
        for n in (1, 2, 3, 2):
            torch.set_num_threads(n)
            results.append(made(x))
    finally:
        torch.set_num_threads(threads)

    assert "#pragma omp parallel for" in made.stages.source
    assert all(torch.equal(r, results[0]) for r in results)


def test_large_outputs_are_written_past_the_caches_and_are_right() -> None:
    x = torch.randn(3000, 3072)  # 36.9 MB: more than a quarter of most last caches
    made = rift_compiler.compile(lambda x: x * 2 + 1, (x,))

    assert "_stream" in made.stages.source
    assert torch.equal(made(x), torch.addcmul(torch.ones(()), x, torch.tensor(2.0)))


@pytest.mark.parametrize("march", ["x86-64", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("name", ["rms_norm", "gelu", "bytes"])
def test_the_same_text_compiles_for_other_instruction_sets(
    march: str, name: str, tmp_path: Path
) -> None:
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    source = rift_compiler.compile(KERNELS[name], (x,)).stages.source
    (tmp_path / "k.cpp").write_text(source, encoding="utf-8")
    flags = [f"-march={march}" if f == "-march=native" else f for f in FLAGS]

    subprocess.run(
        [compiler()[0], *flags, "-o", str(tmp_path / "k.so"), str(tmp_path / "k.cpp")], check=True
    )


def test_names_that_the_generated_code_uses_are_free_for_inputs() -> None:
    def function(a0_all: torch.Tensor, t4_stream: torch.Tensor, a0_0: torch.Tensor) -> torch.Tensor:
        return (a0_all * t4_stream + a0_0).softmax(-1) @ a0_0.T

    inputs = torch.randn(8, 64), torch.randn(8, 64), torch.randn(8, 64)
    made = rift_compiler.compile(function, inputs)

    torch.testing.assert_close(made(*inputs), function(*inputs), rtol=1e-4, atol=1e-4)
