"""Whole programs through every IR: text that round-trips, interpreters that agree, C++ that is
equal to PyTorch, CUDA that compiles for every target."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import rift_compiler
from rift.errors import Failed, WrongUsage
from rift_compiler import interpret, interpret_tile, loop_ir, tensor_ir, tile_ir
from rift_compiler.api import Compiled
from rift_compiler.build_cuda import compile_cuda
from rift_compiler.cost import cost
from rift_compiler.fuse import fuse, plain_schedule
from rift_compiler.nest import nest
from rift_compiler.targets import TARGETS

Program = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def _sliding(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    at = torch.arange(q.shape[-2])
    seen = (at[None] <= at[:, None]) & (at[:, None] - at[None] < 7)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def _capped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.tanh(q @ k.transpose(-1, -2) / 20.0) * 20.0
    return torch.softmax(scores, -1) @ v


def _biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)


def _causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _gqa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def _folds(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum((0, 2)), x.argmax(), x.argmin(-1), x.amax(0), x.cumsum(1), x.logsumexp(-1)


def _folds_of_one(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.sum(-1), x.mean(-1), x.argmax(-1), x.softmax(-1), x.cumsum(-1)


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


# Small: Tile IR of a CPU kernel is interpreted one element at a time.
QKV = (_randn(2, 11, 8), _randn(2, 11, 8) + 0.1, _randn(2, 11, 8) - 0.1)
HEADS = tuple(t.reshape(1, 2, 11, 8) for t in QKV)
PROGRAMS: dict[str, Program] = {
    "rms_norm": (nn.RMSNorm(130), (_randn(3, 130),)),
    "layer_norm": (nn.LayerNorm(24), (_randn(3, 5, 24),)),
    "softmax": (lambda x: x.softmax(-1), (_randn(4, 70),)),
    "softmax_outer": (lambda x: x.softmax(0), (_randn(7, 33),)),
    "cross_entropy": (F.cross_entropy, (_randn(9, 50), torch.arange(9))),
    "matmul": (torch.matmul, (_randn(19, 20), _randn(20, 17))),
    "linear_gelu": (nn.Sequential(nn.Linear(32, 20), nn.GELU()), (_randn(6, 32),)),
    "swiglu": (
        lambda x, g, u: F.silu(x @ g) * (x @ u),
        (_randn(5, 16), _randn(16, 24), _randn(16, 24)),
    ),
    "attention": (_attention, QKV),
    "causal": (_causal, HEADS),
    "sliding": (_sliding, HEADS),
    "soft_cap": (_capped, QKV),
    "bias": (_biased, (*HEADS, _randn(11, 11))),
    "gqa": (_gqa, (_randn(1, 4, 9, 8), _randn(1, 2, 9, 8), _randn(1, 2, 9, 8))),
    "folds": (_folds, (_randn(3, 5, 7),)),
    "folds_of_one": (_folds_of_one, (_randn(3, 1),)),
    "conv2d": (nn.Conv2d(3, 8, 3, padding=1, stride=2), (_randn(2, 3, 9, 9),)),
    "vectors": (lambda x, y: x * 2 + y, (_randn(7, 16), _randn(16))),
    "bf16": (lambda x, y: (x @ y).relu(), (_randn(5, 24).bfloat16(), _randn(24, 9).bfloat16())),
    "half": (lambda x: x.softmax(-1), (_randn(5, 24).half(),)),
}


@functools.cache
def compiled(name: str, target: str) -> Compiled:
    function, inputs = PROGRAMS[name]
    with torch.no_grad():
        return rift_compiler.compile(function, inputs, target=target)


def eager(name: str) -> list[torch.Tensor]:
    function, inputs = PROGRAMS[name]
    with torch.no_grad():
        out = function(*inputs)
    return list(out) if isinstance(out, tuple) else [out]


def arrays(c: Compiled, inputs: tuple[torch.Tensor, ...]) -> dict[str, Any]:
    given = dict(c.lowered.bound)
    given |= {n: t for n, t in zip(c.lowered.user_inputs, inputs, strict=True) if n}
    return {
        n: t.float().numpy() if t.dtype is torch.bfloat16 else t.numpy() for n, t in given.items()
    }


def close(got: Any, want: torch.Tensor) -> None:
    loose = want.dtype in (torch.float16, torch.bfloat16)
    torch.testing.assert_close(
        torch.as_tensor(got).double(), want.double(), rtol=1e-2 if loose else 1e-4,
        atol=1e-2 if loose else 1e-5,
    )  # fmt: skip


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_ir_round_trips_and_means_the_same(name: str, target: str) -> None:
    c = compiled(name, target)
    stages, given = c.stages, arrays(c, PROGRAMS[name][1])

    assert tensor_ir.parse(str(stages.tensor)) == stages.tensor
    assert loop_ir.parse(str(stages.loop)) == stages.loop
    for k in stages.tiles:
        assert tile_ir.parse(str(k)) == k

    held = dict(given)
    for k in stages.tiles:
        held |= interpret_tile.run(k, held, {})
    by_tensor = interpret.run_tensor(stages.tensor, given, {})
    by_loop = loop_ir.run(stages.loop, given, {})
    for want, a, b, out in zip(eager(name), by_tensor, by_loop, stages.loop.outputs, strict=True):
        close(a, want)
        close(b, want)
        close(held[out], want)


@pytest.mark.parametrize("name", PROGRAMS)
def test_cpp_is_equal_to_torch(name: str) -> None:
    got = compiled(name, "cpu")(*PROGRAMS[name][1])

    for a, b in zip(got if isinstance(got, tuple) else [got], eager(name), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        close(a, b)


@pytest.mark.parametrize("target", [t.name for t in TARGETS.values() if t.cuda])
@pytest.mark.parametrize("name", ["rms_norm", "matmul", "causal", "folds", "bf16", "vectors"])
def test_cuda_compiles_for_every_target(name: str, target: str) -> None:
    stages = rift_compiler.pipeline.lower_all(compiled(name, "sm_90a").stages.tensor, target, {})

    binary = compile_cuda(stages.source, target)

    assert {r.kernel for r in binary.resources} == {k.name for k in stages.launches}
    assert all(r.spill_stores_bytes == 0 for r in binary.resources)


def test_attention_is_one_kernel_by_rules_that_know_nothing_of_it() -> None:
    """The rules that fired are about sums and dependent folds; one kernel does it all."""
    for name in ("attention", "soft_cap"):
        stages = compiled(name, "sm_90a").stages
        assert len(stages.loop.kernels) == 1
        taken = {r for s in stages.steps if s.taken for r in s.rule.split(" + ")}
        assert taken == {"inline", "factor-out", "twist"}

    import rift_compiler.rules as rules

    for rule in rules.RULES:
        text = f"{rule.name} {rule.law} {rule.pays}".lower()
        assert "attention" not in text
        assert "softmax" not in text


@pytest.mark.parametrize("name", ["causal", "sliding", "soft_cap", "bias", "attention"])
def test_fused_attention_reads_its_operands_once(name: str) -> None:
    (k,) = fuse(compiled(name, "sm_90a").lowered.program, {})[0].kernels
    moved = cost(nest(k, plain_schedule(k)), {}).bytes_read
    operands = sum(t.numel() * t.element_size() for t in PROGRAMS[name][1])
    assert moved <= operands * 1.2


def test_matmul_is_staged_and_rows_share_their_folds() -> None:
    product = str(compiled("matmul", "sm_90a").stages.tiles[0])
    rows = str(compiled("rms_norm", "sm_90a").stages.tiles[0])

    assert "shared[f32[64, 16]]" in product
    assert "sync()" in product
    assert "allreduce.sum[t]" in rows
    assert "vector(" in str(compiled("vectors", "sm_90a").stages.tiles[0])


def test_one_compilation_serves_a_range_of_sizes() -> None:
    norm = nn.RMSNorm(24)
    c = rift_compiler.compile(norm, (_randn(2, 5, 24),), dynamic={"x": {1: "seq"}})

    for size in (1, 5, 33):
        x = _randn(2, size, 24)
        close(c(x), norm(x).detach())
    assert "dim seq" in str(c.stages.tensor)


def test_inputs_that_do_not_fit_are_refused() -> None:
    c = compiled("matmul", "cpu")
    x, y = PROGRAMS["matmul"][1]

    for bad in ((x,), (x, 3), (x.double(), y), (x[:-1], y), (x[0], y)):
        with pytest.raises(WrongUsage, match=r"expected"):
            c(*bad)
    close(c(x.t().contiguous().t(), y), x @ y)  # strided inputs are taken


def test_indices_out_of_range_and_division_by_zero_are_errors() -> None:
    table = _randn(5, 3)
    look_up = rift_compiler.compile(F.embedding, (torch.tensor([1, 2]), table))
    close(look_up(torch.tensor([4, 0]), table), table[[4, 0]])
    with pytest.raises(Failed, match="index is out of range"):
        look_up(torch.tensor([5, 0]), table)

    whole = torch.tensor([7, -7])
    divide = rift_compiler.compile(torch.floor_divide, (whole, torch.tensor([2, 2])))
    assert divide(whole, torch.tensor([2, 2])).tolist() == [3, -4]
    with pytest.raises(Failed, match="division by zero"):
        divide(whole, torch.tensor([2, 0]))


def test_infinite_rows_end_as_in_torch() -> None:
    """A running maximum of -inf must not poison what follows, nor hide what torch shows."""
    q, k, v = (t[None] for t in QKV)
    dead = torch.zeros(11, 11)
    dead[:, :6] = -float("inf")
    dead[3] = -float("inf")
    c = rift_compiler.compile(_biased, (q, k, v, dead))

    got, want = c(q, k, v, dead), _biased(q, k, v, dead)

    torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-4, atol=1e-5)
    rows = torch.full((2, 6), -float("inf"))
    rows[1, 5] = 2.0
    soft = rift_compiler.compile(lambda x: (x.softmax(-1), x.logsumexp(-1)), (rows,))
    for a, b in zip(soft(rows), (rows.softmax(-1), rows.logsumexp(-1)), strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)
        assert np.isnan(a.numpy()).tolist() == np.isnan(b.numpy()).tolist()


def test_a_negated_constant_is_rendered() -> None:
    from rift_compiler.dtypes import f32
    from rift_compiler.expr import apply, const
    from rift_compiler.render import Render
    from rift_compiler.render_cpp import CPP

    assert Render(CPP, {}, {}).text(apply("neg", const(-2.0, f32))) == "(-(-2.0f))"


def test_a_sign_that_torch_has_put_off_is_applied() -> None:
    x = torch.randn(5, dtype=torch.complex64).conj().imag

    assert x.is_neg()
    assert torch.equal(rift_compiler.compile(lambda x: x * 2, (torch.ones(5),))(x), x * 2)
