"""The same programs with the vectors of every processor that this one can stand for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import rift_compiler
from rift.errors import Blocked
from rift_compiler import run_cpu, targets, tile_ir
from rift_compiler.ahead import ahead
from rift_compiler.targets import SSE, TARGETS, Target
from rift_compiler.tile_ir import Prefetch, statements

OWN = TARGETS["cpu"].vectors
Function = Callable[..., Any]


def _randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).mul(shape[-1] ** -0.25).to(dtype)


def _swiglu(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> Any:
    return F.silu(F.linear(x, gate)) * F.linear(x, up)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def _heads(queries: int, keys: int, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    kv = (1, 2, keys, 64)
    return tuple(_randn(*s, dtype=dtype) for s in ((1, 4, queries, 64), kv, kv))


BF16 = torch.bfloat16
CASES: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "product": (torch.matmul, (_randn(70, 130), _randn(130, 150))),
    "three vectors side by side": (torch.matmul, (_randn(40, 64), _randn(64, 144))),
    "product, both along memory": (F.linear, (_randn(70, 130), _randn(150, 130))),
    "product, few rows": (F.linear, (_randn(21, 130), _randn(150, 130))),
    "product, wide rows": (F.linear, (_randn(200, 60), _randn(30, 60))),
    "two products": (_swiglu, (_randn(33, 96), _randn(80, 96), _randn(80, 96))),
    "product bf16": (torch.matmul, (_randn(70, 130, dtype=BF16), _randn(130, 144, dtype=BF16))),
    "attention of a prompt": (_attention, _heads(100, 130)),
    "attention of a prompt bf16": (_attention, _heads(100, 130, BF16)),
    "softmax": (lambda x: torch.softmax(x, -1), (_randn(9, 515),)),
    "norm": (lambda x: F.rms_norm(x, (515,)), (_randn(9, 515, dtype=BF16),)),
}
CASES |= {
    f"dot products, {rows} rows {dtype}".replace("torch.", ""): (
        F.linear,
        (_randn(rows, 96, dtype=dtype), _randn(80, 96, dtype=dtype)),
    )
    for rows in (1, 3, 8, 12, 33, 64)
    for dtype in (torch.float32, BF16)
}
CASES |= {
    f"attention of {queries} queries": (_attention, _heads(queries, 200))
    for queries in (1, 3, 8, 32, 64)
}


def _here(t: Target) -> bool:
    return not t.cuda and t.name != "cpu" and t.vectors.bytes <= OWN.bytes


@pytest.mark.parametrize("target", [t.name for t in TARGETS.values() if _here(t)])
@pytest.mark.parametrize("name", CASES)
def test_results_are_right_with_any_vectors(name: str, target: str) -> None:
    function, inputs = CASES[name]
    c = rift_compiler.compile(function, inputs, target=target)
    want = function(*(x.double() for x in inputs))
    got = c(*inputs)

    assert got.dtype is inputs[0].dtype
    tolerance = 1e-2 if got.dtype is BF16 else 2e-5
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=tolerance)


def test_code_for_wider_vectors_is_refused_where_it_cannot_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stages = rift_compiler.compile(torch.exp, (_randn(40),), target="x86-64-v4").stages
    monkeypatch.setitem(targets.TARGETS, "cpu", Target("cpu", cuda=False, vectors=SSE))

    with pytest.raises(Blocked, match=r"x86-64-v4 needs vectors of 64 bytes; .* have 16"):
        run_cpu.load(stages)


def test_what_a_processor_lacks_is_said_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stages = rift_compiler.compile(torch.exp, (_randn(40),)).stages
    monkeypatch.setitem(targets.TARGETS, "cpu", Target("cpu", cuda=False, vectors=SSE))
    run_cpu._tell_vectors.cache_clear()
    said: list[str] = []
    monkeypatch.setattr(run_cpu.log, "info", lambda text, *args: said.append(text % args))
    run_cpu.load(stages)
    run_cpu.load(stages)

    assert said == ["no AVX-512 on this processor: kernels use plain C++ with SSE2"]


def test_weights_of_a_few_rows_have_a_kernel_of_their_own() -> None:
    loop = rift_compiler.compile(*CASES["attention of 3 queries"]).stages.loop

    assert [k.name for k in loop.kernels] == ["k0", "k1_part0", "k1_part1", "k1"]


ROWS = """
def k(x: f32[8, 96], y: out[f32[8, 96]]):
    for i in grid(8):
        for t in thread(32):
            a: f32 = 0.0
            for j in seq(3):
                a = a + x[i, j * 32 + t]
            a = allreduce.sum[t](a)
            for s in seq(3):
                y[i, s * 32 + t] = x[i, s * 32 + t] / a
"""


def test_the_next_row_is_fetched_while_the_last_is_done() -> None:
    k = ahead(tile_ir.parse(ROWS.strip()))
    fetched = [s for s in statements(k.body) if isinstance(s, Prefetch)]

    assert [str(i) for i in fetched[0].index] == ["i + 1", "s * 32 + t"]
    assert len(fetched) == 1
    assert tile_ir.parse(str(tile_ir.verify(k))) == k


def test_nothing_is_fetched_that_would_need_another_loop() -> None:
    x = _randn(6, 5, 64)
    c = rift_compiler.compile(lambda x: F.layer_norm(x, (5, 64)), (x,))

    torch.testing.assert_close(c(x), F.layer_norm(x, (5, 64)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lanes", [48, 96])
@pytest.mark.parametrize("dtype", [BF16, torch.int8, torch.float64])
def test_lanes_that_are_no_power_of_two(lanes: int, dtype: torch.dtype) -> None:
    x = (_randn(16, lanes) * 10).to(dtype)
    y = (_randn(lanes, lanes) * 10).to(dtype)
    c = rift_compiler.compile(lambda x, y: x.float() @ y.float(), (x, y))

    torch.testing.assert_close(c(x, y), x.float() @ y.float(), rtol=1e-3, atol=1e-3)
