"""Attention on a CPU: folds taken a block at a time, and blocks that need no visit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import rift_compiler
from rift_compiler import interpret_tile
from rift_compiler.api import Compiled

Inputs = tuple[torch.Tensor, ...]


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _heads(heads: int, queries: int, keys: int, width: int, groups: int = 1) -> Inputs:
    kv = (1, heads // groups, keys, width)
    return _randn(1, heads, queries, width), _randn(*kv) + 0.1, _randn(*kv) - 0.1


def _plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def _causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _gqa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def _sliding(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])
    seen = (columns <= rows) & (rows - columns < 40)
    scores = torch.where(seen, q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -torch.inf)
    return torch.softmax(scores, -1) @ v


def _capped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.tanh(q @ k.transpose(-1, -2) / 20.0) * 20.0
    return torch.softmax(scores, -1) @ v


def _biased(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) + b, -1) @ v


CASES: dict[str, tuple[Callable[..., Any], Inputs]] = {
    "even": (_plain, _heads(2, 96, 128, 64)),
    "ragged": (_plain, _heads(2, 97, 101, 32)),
    "fewer keys than a block": (_plain, _heads(2, 70, 50, 64)),
    "wide heads": (_plain, _heads(2, 100, 130, 128)),
    "causal": (_causal, _heads(2, 150, 150, 64)),
    "causal, more keys": (_causal, _heads(2, 70, 150, 32)),
    "grouped queries": (_gqa, _heads(4, 75, 75, 32, 2)),
    "sliding window": (_sliding, _heads(2, 200, 200, 32)),
    "soft cap": (_capped, _heads(2, 130, 130, 64)),
    "bias": (_biased, (*_heads(2, 133, 180, 64), _randn(133, 180))),
}


def compiled(name: str) -> Compiled:
    return rift_compiler.compile(*CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_blocks_are_equal_to_float64(name: str) -> None:
    function, inputs = CASES[name]
    c = compiled(name)

    assert any(s.block for s in c.stages.schedules)
    want = function(*(t.double() for t in inputs))
    torch.testing.assert_close(c(*inputs).double(), want, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("queries", [33, 97])  # without blocks, and with
def test_rows_without_a_key_stay_nan_as_in_torch(queries: int) -> None:
    q, k, v = _heads(2, queries, 130, 32)
    bias = torch.zeros(queries, 130)
    bias[5] = -torch.inf
    bias[7, :100] = -torch.inf  # a whole block without a key
    inputs = q, k, v, bias

    c = rift_compiler.compile(_biased, inputs)
    want = _biased(*inputs)

    assert want[:, :, 5].isnan().all()
    torch.testing.assert_close(c(*inputs), want, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize(
    ("name", "loop"),
    [
        ("even", "seq(2)"),
        ("causal", "seq((i2g * 12 + 11) // 32 + 1)"),
        ("sliding window", "(i2g * 12 + 11) // 32 - max(0, (i2g * 12 - 39) // 32) + 1"),
    ],
)
def test_blocks_that_a_mask_empties_are_not_visited(name: str, loop: str) -> None:
    stages = rift_compiler.compile(*CASES[name], target="x86-64-v3").stages
    text = "\n".join(map(str, stages.tiles))

    assert loop in text


MASKS: dict[str, Callable[..., Any]] = {
    # The maximum is over keys that are seen, the sums over all: no block may be left out.
    "only the maximum": lambda s, seen: torch.exp(
        s - torch.where(seen, s, -torch.inf).amax(-1, True)
    ),
    # A false condition gives 0, which is not the least score there is.
    "not the identity": lambda s, seen: torch.softmax(torch.where(seen, s, 0.0), -1),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks_that_leave_nothing_out(name: str) -> None:
    def function(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
        seen = torch.arange(k.shape[-2]) <= torch.arange(q.shape[-2])[:, None]
        return MASKS[name](q @ k.transpose(-1, -2) / 8, seen) @ v

    inputs = _heads(2, 150, 150, 64)
    c = rift_compiler.compile(function, inputs)

    assert any(s.block for s in c.stages.schedules)
    assert "seq(5)" in str(c.stages.tiles[-1])  # every block of 32
    torch.testing.assert_close(c(*inputs), function(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["fewer keys than a block", "causal, more keys"])
def test_the_interpreter_agrees(name: str) -> None:
    function, inputs = CASES[name]
    c = compiled(name)
    held = {n: t.numpy() for n, t in zip(c.lowered.user_inputs, inputs, strict=True) if n}
    for tile in c.stages.tiles:
        held |= interpret_tile.run(tile, held, {})

    got = torch.as_tensor(held[c.stages.loop.outputs[0]])
    torch.testing.assert_close(got, function(*inputs), rtol=1e-4, atol=1e-5)


def test_lengths_known_only_at_run_time() -> None:
    q, k, v = _heads(2, 40, 40, 32)
    dynamic = {n: {2: "seq"} for n in ("q", "k", "v")}
    c = rift_compiler.compile(_causal, (q, k, v), dynamic=dynamic)

    for seq in (2, 17, 40, 133):
        inputs = _heads(2, seq, seq, 32)
        torch.testing.assert_close(c(*inputs), _causal(*inputs), rtol=1e-5, atol=1e-5)
