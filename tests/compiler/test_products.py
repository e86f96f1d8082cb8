"""Products on a CPU: packed operands, tiles in registers and caches, ragged edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import rift_compiler
from rift.errors import Failed
from rift_compiler import interpret_tile, loop_ir
from rift_compiler.api import Compiled

# Rows, folded, columns: below, at and beyond the tiles of 6 x 16, 96 x 128 and 320.
SIZES = [(16, 8, 16), (17, 40, 33), (97, 33, 129), (50, 700, 130), (200, 640, 250)]


def _randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def _close(got: torch.Tensor, want: torch.Tensor, folded: int) -> None:
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6 * folded)


def packs(c: Compiled) -> int:
    return sum("_pack" in k.name for k in c.stages.loop.kernels)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_matrix_products(m: int, k: int, n: int, transposed: bool) -> None:
    x, w = _randn(m, k), _randn(n, k) if transposed else _randn(k, n)
    function: Callable[..., Any] = F.linear if transposed else torch.matmul
    c = rift_compiler.compile(function, (x, w))

    assert packs(c) == (transposed or m > 64 or n % 16 > 0)  # few rows read what lies as it lies
    _close(c(x, w), function(x.double(), w.double()), k)


def test_batches_and_what_comes_after() -> None:
    x, w, b = _randn(3, 20, 70), _randn(3, 70, 40), _randn(40)
    c = rift_compiler.compile(lambda x, w, b: F.gelu(x @ w + b), (x, w, b))

    assert packs(c) == 1
    _close(c(x, w, b), F.gelu(x.double() @ w.double() + b.double()), 70)


def test_two_products_that_share_rows() -> None:
    x, g, u = _randn(30, 64), _randn(80, 64), _randn(80, 64)

    def swiglu(x: torch.Tensor, g: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        return F.silu(x @ g.T) * (x @ u.T)

    c = rift_compiler.compile(swiglu, (x, g, u))

    _close(c(x, g, u), swiglu(x.double(), g.double(), u.double()), 640)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_small_types_are_summed_in_float32(dtype: torch.dtype) -> None:
    x, w = _randn(40, 300).to(dtype), _randn(50, 300).to(dtype)
    c = rift_compiler.compile(F.linear, (x, w))

    got = c(x, w)

    assert got.dtype is dtype
    torch.testing.assert_close(got, F.linear(x.float(), w.float()).to(dtype))


def test_rows_known_only_at_run_time() -> None:
    w = _randn(50, 33)
    linear = lambda x, w: x @ w.T  # noqa: E731
    c = rift_compiler.compile(linear, (_randn(20, 33), w), dynamic={"x": {0: "rows"}})

    for rows in (2, 7, 20, 101):
        x = _randn(rows, 33)
        _close(c(x, w), x.double() @ w.double().T, 33)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8, 12])
@pytest.mark.parametrize(("k", "n"), [(64, 40), (100, 13), (33, 7)])
def test_a_few_rows(rows: int, k: int, n: int) -> None:
    x, w = _randn(rows, k), _randn(n, k)
    c = rift_compiler.compile(F.linear, (x, w))

    assert packs(c) == (rows > 8 and n >= 16)  # what is packed is x, of few rows
    _close(c(x, w), x.double() @ w.double().T, k)


def test_the_packed_form_is_the_same_program() -> None:
    x, w = _randn(18, 9), _randn(20, 9)
    c = rift_compiler.compile(F.linear, (x, w))
    given = {n: t.numpy() for n, t in zip(c.lowered.user_inputs, (x, w), strict=True) if n}
    held = dict(given)
    for tile in c.stages.tiles:
        held |= interpret_tile.run(tile, held, {})
    (by_loop,) = loop_ir.run(c.stages.loop, given, {})

    _close(torch.as_tensor(by_loop), x.double() @ w.double().T, 9)
    _close(torch.as_tensor(held[c.stages.loop.outputs[0]]), x.double() @ w.double().T, 9)


def test_frozen_weights_are_packed_once_and_again_when_they_change() -> None:
    layer = torch.nn.Linear(40, 48)
    x = _randn(20, 40)
    c = rift_compiler.compile(layer, (x,), frozen=True)
    first = c(x)

    assert c.stages.prepared
    assert torch.equal(c(x), first)
    with torch.no_grad():
        layer.weight.mul_(2.0)
        torch.testing.assert_close(c(x), layer(x), rtol=1e-5, atol=1e-5)
        layer.weight.copy_(_randn(48, 40))
        torch.testing.assert_close(c(x), layer(x), rtol=1e-5, atol=1e-5)
        assert not torch.equal(c(x), first)


def test_errors_in_constants_are_told_at_every_call() -> None:
    class Look(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("at", torch.tensor([1, 9]))
            self.register_buffer("table", torch.randn(4, 3))

        def forward(self, x: torch.Tensor) -> Any:
            rows = self.get_buffer("table")[self.get_buffer("at")].exp()
            return x @ rows.T + rows.sum()

    c = rift_compiler.compile(Look().eval(), (torch.randn(20, 3),), frozen=True)
    for _ in range(2):
        with pytest.raises(Failed, match="index is out of range"):
            c(torch.randn(20, 3))


def test_writes_that_torch_does_not_count_are_seen_by_default() -> None:
    layer = torch.nn.Linear(40, 48)
    x = _randn(20, 40)
    c = rift_compiler.compile(layer, (x,))
    first = c(x)
    layer.weight.data.mul_(2.0)

    assert not c.stages.prepared
    assert not torch.equal(c(x), first)
    torch.testing.assert_close(c(x), layer(x), rtol=1e-5, atol=1e-5)


def test_frozen_weights_with_gaps_are_seen_to_change() -> None:
    wide = _randn(48, 80)
    layer = torch.nn.Linear(40, 48)
    layer.weight = torch.nn.Parameter(wide[:, ::2])
    x = _randn(20, 40)
    c = rift_compiler.compile(layer, (x,), frozen=True)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(c(x), layer(x), rtol=1e-5, atol=1e-5)
            layer.weight.mul_(2.0)
            torch.testing.assert_close(c(x), layer(x), rtol=1e-5, atol=1e-5)
