"""The rule split_fold and the pass that offers it: parts of folds, combined, are the fold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import rift_compiler
from rift_compiler import interpret_tile, loop_ir
from rift_compiler.api import Compiled
from rift_compiler.build_cuda import compile_cuda
from rift_compiler.fuse import fuse
from rift_compiler.loop_ir import LoopProgram
from rift_compiler.rules.split_fold import split_fold

Inputs = tuple[torch.Tensor, ...]


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[-2] > 1)


CUT: dict[str, tuple[Callable[..., Any], Inputs]] = {
    "split-KV": (_sdpa, (_randn(1, 2, 1, 8), _randn(1, 2, 50, 8), _randn(1, 2, 50, 8))),
    "causal": (_sdpa, (_randn(1, 2, 50, 8), _randn(1, 2, 50, 8), _randn(1, 2, 50, 8))),
    "split-K": (torch.matmul, (_randn(5, 50), _randn(50, 7))),
    "two axes": (lambda x: x.prod(), (_randn(3, 61),)),
    "max": (lambda x: x.amax(1), (_randn(3, 61),)),
}
KEPT: dict[str, tuple[Callable[..., Any], Inputs]] = {
    "argmax": (lambda x: x.argmax(1), (_randn(3, 61),)),
    "two passes": (lambda x: x.softmax(-1), (_randn(3, 60),)),
    "no fold": (lambda x: x * 2, (_randn(3, 60),)),
}


def arrays(c: Compiled, inputs: Inputs) -> dict[str, Any]:
    given = dict(c.lowered.bound)
    given |= {n: t for n, t in zip(c.lowered.user_inputs, inputs, strict=True) if n}
    return {n: t.numpy() for n, t in given.items()}


def fused(c: Compiled) -> LoopProgram:
    """As for a GPU, before it is split."""
    return fuse(c.lowered.program, {})[0]


def cut(p: LoopProgram, parts: int) -> LoopProgram:
    (k,) = p.kernels
    made = split_fold(k, parts)
    assert made is not None
    return loop_ir.verify(dataclasses.replace(p, kernels=made))


@pytest.mark.parametrize("parts", [2, 3, 7])  # 3 and 7 leave a ragged or an empty part
@pytest.mark.parametrize("name", CUT)
def test_parts_combined_are_the_fold(name: str, parts: int) -> None:
    function, inputs = CUT[name]
    c = rift_compiler.compile(function, inputs)
    p = cut(fused(c), parts)

    (got,) = loop_ir.run(p, arrays(c, inputs), {})

    assert loop_ir.parse(str(p)) == p
    np.testing.assert_allclose(got, function(*inputs).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", KEPT)
def test_what_cannot_be_cut_is_left(name: str) -> None:
    (k,) = rift_compiler.compile(*KEPT[name]).stages.loop.kernels

    assert split_fold(k, 2) is None


def test_a_mean_is_cut_only_evenly() -> None:
    text = (
        "input x: f32[3, 50]\n\ndef k0(x: f32[3, 50], y: out[f32[3]]):\n    i0: axis[3]\n"
        "    k1: axis[50]\n    y[i0] = mean[k1](x[i0, k1])\n\nreturn y\n"
    )
    p = loop_ir.parse(text)
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)

    (got,) = loop_ir.run(cut(p, 5), {"x": x}, {})

    np.testing.assert_allclose(got, x.mean(1), rtol=1e-5)
    assert split_fold(p.kernels[0], 4) is None


def test_rows_without_a_key_stay_nan_as_in_torch() -> None:
    q, k, v = CUT["split-KV"][1]
    mask = torch.ones(1, 2, 1, 50, dtype=torch.bool)
    mask[0, 1] = False
    mask[0, 0, 0, :30] = False  # whole parts without a key
    inputs = (q, k, v, torch.where(mask, 0.0, -torch.inf))

    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, m: torch.Tensor) -> Any:
        return torch.softmax(q @ k.transpose(-1, -2) + m, -1) @ v

    c = rift_compiler.compile(attention, inputs)
    (got,) = loop_ir.run(cut(fused(c), 7), arrays(c, inputs), {})

    np.testing.assert_allclose(got, attention(*inputs).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_a_decode_step_is_cut_for_a_gpu(target: str) -> None:
    inputs = _randn(1, 2, 1, 8), _randn(1, 2, 600, 8), _randn(1, 2, 600, 8)
    c = rift_compiler.compile(_sdpa, inputs, target=target)
    steps = [s for s in c.stages.steps if s.rule == "split-fold"]
    known = arrays(c, inputs)
    for tile in c.stages.tiles:
        known |= interpret_tile.run(tile, known, {})

    assert [s.taken for s in steps] == [True]
    assert len(c.stages.tiles) == 2
    got = known[c.stages.loop.outputs[0]]
    np.testing.assert_allclose(got, _sdpa(*inputs).numpy(), rtol=1e-4, atol=1e-5)
    assert compile_cuda(c.stages.source, target).cubin


def test_a_kernel_that_fills_the_gpu_is_left_whole() -> None:
    c = rift_compiler.compile(torch.matmul, (_randn(4096, 64), _randn(64, 4096)), target="sm_90a")

    assert not [s for s in c.stages.steps if s.rule == "split-fold"]


def test_tensors_without_elements_compile_for_a_gpu() -> None:
    for shape in ((0, 8), (3, 0)):
        c = rift_compiler.compile(lambda x: (x * 2).sum(-1), (torch.ones(shape),), target="sm_90a")

        assert not [s for s in c.stages.steps if s.rule == "split-fold"]
