"""Views, indices, scatters and creation, lowered, against torch eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from rift_compiler.errors import Unsupported
from rift_compiler.frontend.lower import lower
from rift_compiler.frontend.trace import trace

Check = Callable[..., Any]
Case = tuple[Callable[..., Any], tuple[Any, ...]]
INF = float("inf")


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Different numbers, so that no element can stand for another."""
    return torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape).to(dtype)


def ints(*values: Any) -> torch.Tensor:
    return torch.tensor(values)


def reshapes(x: Any, s: torch.Tensor, e: torch.Tensor) -> Any:
    return (
        *(x.view(4, 15), x.reshape(-1), x.reshape(5, 3, 4), x.view(2, 1, 2, 15), x.flatten(1)),
        *(x.unflatten(2, (5, 1)), x.unsqueeze(0), x.unsqueeze(-1), x[:, None, 1:2].squeeze()),
        *(x[:, None, 1:2].squeeze(1), x[:, None, 1:2].squeeze(0), x[:, None, 1:2].squeeze((1, 2))),
        *(x.permute(2, 0, 1).reshape(10, 6), x.mT, x.movedim(0, -1)),
        *(
            x.permute(-1, 0, -2),
            x.transpose(0, 2),
            x[0].t(),
            x.swapaxes(0, 1),
            x.expand(2, 3, 4, 5),
        ),
        *(s.view(1, 1), s.expand(2, 3), s.squeeze(), s.permute(()), s.reshape(()), s.flatten()),
        *(e.view(5, 0), e.reshape(0, 7), e.permute(1, 0), e.unsqueeze(0), e.flatten()),
        *(x[:, :1].expand(-1, 6, -1), x.broadcast_to(2, 3, 4, 5), x.contiguous(), x.clone()),
    )


def slices(x: Any, m: torch.Tensor) -> Any:
    return (
        *(x[:, ::2], x[1:, -3:-1], x[..., 1:100:3], x[2:1], x[-100:2], x[:, 3:], x[:, :-1:2]),
        *(x[1], x[-1], x[:, -2], x[..., 0], x[1, 2, 3], x.narrow(1, 1, 2), x.narrow(-1, -3, 2)),
        *(*x.split(2, 1), *x.split([1, 3, 1], 2), *x.chunk(3, -1), *x.unbind(1), *x.chunk(2)),
        *(
            torch.cat((x, x[:, :1], x * 2), 1),
            torch.cat((m, x), 0),
            torch.cat((x[:0], x)),
            x.select(1, 2),
        ),
        *(
            torch.stack((x, x + 1), -1),
            torch.stack((x, x)),
            torch.hstack((x, x)),
            torch.vstack((x, x)),
        ),
        *(
            torch.dstack((x, x)),
            torch.column_stack((x[0, 0], x[0, 1])),
            *torch.tensor_split(x, 3, 1),
        ),
        torch.cat([x[:, n : n + 1] for n in (3, 1, 2, 0, 1)], 1),
        torch.cat((torch.ones(0), x[0, 0])),
        torch.cat((x[:0], x[:0])),
    )


def moves(x: torch.Tensor, s: torch.Tensor, e: torch.Tensor) -> Any:
    return (
        *(x.flip(0), x.flip(-1, 0), s.flip(()), x.roll(1, 0), x.roll((1, -7), (0, 2)), x.roll(13)),
        *(x.roll((1, 1), (1, 1)), s.roll(1), e.roll(2, 1), x.rot90(1, (0, 1)), x.rot90(3, (2, 0))),
        *(
            x.rot90(2),
            x.repeat(2, 1, 3),
            x.repeat(2, 1, 1, 1),
            s.repeat(2, 2),
            x.tile(2),
            e.repeat(2, 2),
        ),
        *(x.repeat_interleave(3, 1), x.repeat_interleave(2), x.unfold(1, 2, 1), x.unfold(-1, 3, 2)),
        *(
            s.unfold(0, 1, 1),
            x.fliplr(),
            x.flipud(),
            torch.meshgrid(x[0, 0], x[0, 1], indexing="xy"),
        ),
        *(F.pixel_shuffle(x.view(4, 3, 5), 2), F.pixel_unshuffle(x[:, :, :4], 2)),
        *(F.channel_shuffle(x.view(1, 4, 3, 5), 2), x.diff(), x.diff(n=2, dim=0)),
    )


blocks: Any = torch.block_diag


def diagonals(x: torch.Tensor, v: torch.Tensor) -> Any:
    return (
        *(x.diagonal(), x.diagonal(1), x.diagonal(-2, 1, 2), x.diagonal(2, -1, 0), x.diagonal(9)),
        *(x.tril(), x.tril(1), x.triu(-1), x.triu(2), x.bool().tril(), v.diag(), v.diag(-2)),
        *(x[0].diag(), x[0].diag(1), v.diag_embed(), v.diag_embed(1), v.diag_embed(-2)),
        *(x.diag_embed(0, 1, 0), x[0].trace(), v.diagflat(), blocks(x[0], x[1, :2])),
        x.diagonal_scatter(numbers(3, 3), -1, 1, 2),
        x.diagonal_scatter(numbers(5, 2), 2, 0, 1),
    )


def pads(x: torch.Tensor, i: torch.Tensor) -> Any:
    return (
        *(F.pad(x, (1, 2)), F.pad(x, (1, -2, -1, 1)), F.pad(x, (0, 1, 2, 0), value=-INF)),
        *(F.pad(i, (1, 0), value=7), F.pad(i.bool(), (1, 1), value=True), F.pad(x, (-1, -1))),
        *(F.pad(x.bfloat16(), (1, 0), value=0.1), F.pad(x, (2, 1), value=-0.0)),
        *(
            F.pad(x, (2, 4), "reflect"),
            F.pad(x[None], (2, 1, 3, 2), "reflect"),
            F.pad(x, (-1, 2), "reflect"),
        ),
        *(F.pad(x, (3, 9), "replicate"), F.pad(x[None], (2, 1, -1, 4), "replicate")),
        *(F.pad(x, (5, 2), "circular"), F.pad(x[None], (2, 1, 3, 0), "circular")),
        *(F.pad(x[None], (-1, 1, -2, 1), "circular"), F.pad(x[None], (2, -3, 0, -1), "circular")),
        F.pad(x[None, None], (1, 1, 2, 1, 1, 0), "reflect"),
        F.pad(x[None, None], (1, 1, 2, 1, 1, 0), "replicate"),
        F.pad(x[None, None], (1, 1, 2, 1, 1, 0), "circular"),
    )


def reads(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor, g: torch.Tensor) -> Any:
    """i: (4,) in -3..2; j: (2, 1) in 0..2; g: (3, 2, 5) in 0..3."""
    return (
        *(x[i], x[:, j], x[i, :, j.view(2, 1) * 0 + i], x[:, i, j], x[j, i], x[..., i], x[0, i, 1]),
        *(x[i.int()], x[i, None, 1:3], x[i[0:1]], x[i[:0]], x.index_select(1, j.flatten())),
        *(x.gather(1, g), x.gather(-2, g[:, :1]), x.take(i), x.take(g), x.take(i[0])),
        *(x.take_along_dim(g, 1), x.take_along_dim(-g[:1], 1), F.embedding(j, x[0])),
        *(F.embedding(g, x[1], padding_idx=1), F.one_hot(j, 4), F.one_hot(j[0, 0], 3)),
        *(x[:, :, :].index_select(2, i.abs()[:1].squeeze(0)), x.sum().take(i[:0])),
        x.sum().gather(0, j[0, 0] * 0),
        x.sum().index_select(0, j[:1, 0] * 0),
    )


def writes(x: torch.Tensor, i: torch.Tensor, g: torch.Tensor, y: torch.Tensor) -> Any:
    """i: (2,) in -3..2 without repeats; g: (3, 2, 5) in 0..3; y: (3, 2, 5)."""
    same = x.clone()
    same[:, 1:3] = y
    same[..., -1] = 7
    same[::2, 0, 1:4:2] += 1
    same[same > 30] = 0.5
    same[i, 1] = y[0, :, :]
    up = (i + 3) % 3
    return (
        *(
            same,
            x.slice_scatter(y, 1, 0, 4, 2),
            x.slice_scatter(y, 1, -2),
            x.select_scatter(y[:, 0], 1, -1),
        ),
        *(
            x.scatter(1, g, y),
            x.scatter(1, g[:2, :, :3], y),
            x.scatter(1, g, 2.5),
            x.masked_fill(x > 9, 1),
        ),
        *(
            x.scatter_add(1, g, y),
            x.scatter_add(0, g[:, :, :2].clamp(max=2), y),
            x.bool().scatter_add(1, g, y > 20),
        ),
        *(x.index_put((i,), y[0, 0]), x.index_put((i, up), y[0], accumulate=True)),
        *(
            x.index_put((i[:, None], up), y[0, 0, 0]),
            torch.ops.aten.index_put(x, [None, up], y[0, :2], True),
        ),
        *(x.index_add(1, up, y, alpha=2), x.index_add(1, up * 0, y), x.index_copy(1, up, y)),
        *(
            x.index_fill(0, i, 3),
            x.sum().index_add(0, up[:1] * 0, y[0, 0, 0]),
            x.new_empty(3).fill_(2),
        ),
        x.index_put((x > 20,), torch.tensor(-1.0)),
    )


def made(x: torch.Tensor) -> Any:
    return (
        *(
            torch.arange(5),
            torch.arange(1, 9, 3),
            torch.arange(3, -4, -2),
            torch.arange(0, 2, 0.25),
        ),
        *(
            torch.zeros(2, 3),
            torch.ones(3, dtype=torch.int8),
            torch.full((2,), 7),
            torch.full((2,), 0.1),
        ),
        *(torch.full((), True), torch.zeros_like(x), torch.ones_like(x, dtype=torch.bool)),
        *(torch.full_like(x, 0.1), torch.full((2,), 0.1, dtype=torch.bfloat16), x.new_zeros(2)),
        *(x.new_ones(()), x.new_full((1, 2), 3), torch.linspace(-1, 1, 7), torch.linspace(3, 0, 1)),
        *(torch.eye(3), torch.eye(2, 4, dtype=torch.int64), torch.tril_indices(3, 4, 1)),
        *(
            torch.triu_indices(4, 3, -1),
            torch.scalar_tensor(2.5),
            torch.tensor([1.5, 2]),
            torch.zeros(0),
        ),
        *(x + torch.arange(5), torch.empty(2, 5).copy_(x[:, 0]), torch.empty_like(x).fill_(3)),
        *(
            torch.full((2,), -1, dtype=torch.uint8),
            torch.full((2,), INF),
            torch.tril(torch.ones(3, 3)),
        ),
    )


CASES: dict[str, Case] = {
    "reshapes": (reshapes, (numbers(3, 4, 5), torch.tensor(3.0), torch.zeros(0, 5))),
    "slices": (slices, (numbers(3, 4, 5), numbers(1, 4, 5, dtype=torch.int64))),
    "moves": (moves, (numbers(3, 4, 5), torch.tensor(3.0), torch.zeros(2, 0))),
    "diagonals": (diagonals, (numbers(3, 4, 5), numbers(4))),
    "pads": (pads, (numbers(3, 4, 5), numbers(2, 3, dtype=torch.int64))),
    "reads": (
        reads,
        (numbers(3, 4, 5), ints(-3, 2, 0, 0), ints([0], [2]), numbers(3, 2, 5).long() % 4),
    ),
    "writes": (
        writes,
        (numbers(3, 4, 5), ints(-2, 0), numbers(3, 2, 5).long() % 4, numbers(3, 2, 5) + 0.5),
    ),
    "made": (made, (numbers(2, 3, 5),)),
}


@pytest.mark.parametrize("name", CASES)
def test_as_torch(name: str, check_lowering: Check) -> None:
    fn, inputs = CASES[name]
    check_lowering(fn, *inputs)


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.uint8, torch.bool]
)
def test_types(dtype: torch.dtype, check_lowering: Check) -> None:
    def f(x: torch.Tensor, i: torch.Tensor) -> Any:
        return (
            *(x.reshape(6, 2), x[:, ::2], x.flip(1), torch.cat((x, x), 1), x.tril(), x[i], x.t()),
            *(
                x.gather(1, i.view(1, 2)),
                torch.cat((x, i.view(1, 2)[:, :1].expand(3, 4))),
                F.pad(x, (1, 1)),
            ),
            *(x.scatter(1, i.view(1, 2), x[:1]), x.index_put((i,), x[1]), torch.zeros_like(x)),
            x.index_add(0, i, x[1:]),
        )

    check_lowering(f, numbers(3, 4, dtype=dtype), ints(2, 0))


def symbolic(x: torch.Tensor, i: torch.Tensor) -> Any:
    """x: (n, m, 4), i: (m,)"""
    n, m = x.shape[:2]
    return (
        *(x.view(n * m, 4), x.flatten(1), x.view(n, m, 2, 2), x.view(-1, 2), x.reshape(-1)),
        *(
            x.view(n * m, 4).view(n, m, 4),
            x.flatten(1).view(n, -1, 2),
            x.transpose(0, 1).reshape(m, -1),
        ),
        *(
            x[:, 1:],
            x[:, :-1],
            x[:, -1],
            x[:, -1:],
            x[:, ::2],
            x[1::2],
            x[:, m // 2 :],
            x[:, : m - 1],
        ),
        *(
            x.flip(1),
            x.roll(2, 1),
            x.roll((1, -1), (0, 1)),
            torch.cat((x, x), 1),
            torch.stack((x, x), 1),
        ),
        *(torch.cat((x[:, 1:], x[:, :1], x), 1), x.repeat(2, 1, 1), x.repeat_interleave(2, 1)),
        *(F.pad(x, (0, 0, 2, 1)), x.unsqueeze(1).expand(n, 3, m, 4), x.tril(), x[..., 0].triu(1)),
        *(
            x.unfold(1, 2, 1),
            x[..., 0].diagonal(),
            torch.arange(n),
            torch.zeros_like(x),
            torch.ones(m, n),
        ),
        *(x[:, i], x.index_select(1, i), x.gather(1, i[None, :, None].expand(n, m, 4)), x * n),
        *(
            x.slice_scatter(x[:, 1:], 1, 1),
            x.select_scatter(x[:, 0], 1, -1),
            F.pad(x, (1, 2), "reflect"),
        ),
        *(x.index_add(1, i, x), x.sum(1, keepdim=True).expand(n, m, 4), torch.full((m,), 3.5)),
    )


def test_symbolic_sizes(check_lowering: Check) -> None:
    """One program for several sizes, 2 and 3 among them, where parities and halves differ."""
    also = [(numbers(n, m, 4), torch.arange(m).flip(0) // 2) for n, m in ((3, 7), (4, 4), (2, 5))]
    dynamic = {"x": {0: "n", 1: "m"}, "i": {0: "m"}}
    check_lowering(symbolic, numbers(5, 6, 4), torch.arange(6), dynamic=dynamic, also=also)


def body(fn: Callable[..., Any], *inputs: Any, dynamic: Any = None) -> list[str]:
    """The definitions of the lowered program, as text without sources."""
    program = lower(trace(fn, inputs, dynamic)).program
    return [str(d).split("    #")[0].split(" = ", 1)[1] for d in program.defs]


def test_reshapes_stay_plain() -> None:
    """Dimensions of equal products are grouped, also where sizes are symbols."""

    def f(x: torch.Tensor) -> Any:
        n, s, _ = x.shape
        heads = x.view(n, s, 4, 8)
        return heads, heads.transpose(1, 2), x.view(n * s, 32), x.view(n * s, 32).view(n, s, 4, 8)

    text = body(f, torch.zeros(2, 3, 32), dynamic={"x": {0: "n", 1: "s"}})
    assert text == [
        "x[i0, i1, i2 * 8 + i3]",
        "t0[i0, i2, i1, i3]",
        "x[i0 // s, i0 % s, i1]",
        "x[i0 // s, i0 % s, i1]",
        "t3[i0 * s + i1, i2 * 8 + i3]",
    ]


def test_repeated_heads_are_an_index() -> None:
    text = body(lambda x: x.repeat_interleave(4, 1), torch.zeros(2, 3, 5, 8))
    assert text[-1].endswith("[i0, i1 // 4, i1 % 4, i2, i3]")
    assert not any("checked" in line for line in text)


def test_data_indices_are_checked() -> None:
    x = numbers(3, 5)
    assert body(lambda x, i: x[i], x, ints(0)) == [
        "x[checked(where(i[i0] < 0, i[i0] + 3, i[i0]), 3), i1]"
    ]
    assert body(lambda x, i: x.gather(0, i), x, ints([0])) == ["x[checked(i[i0, i1], 3), i1]"]


def on_mask(x: torch.Tensor) -> Any:
    return x[x > 0]


def item(x: torch.Tensor) -> Any:
    return x * x.sum().item()


def branch(x: torch.Tensor) -> Any:
    y = x + 1
    if y.sum() > 0:
        return y
    return -y


class Loop(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        while x.sum() < 30:
            x = x * 2
        return x


def strided(x: torch.Tensor) -> Any:
    return x.as_strided((2, 2), (1, 2))


def halved(x: torch.Tensor) -> Any:
    return x.view(x.shape[0] // 2, 2, -1)


REFUSALS: dict[str, tuple[Any, str]] = {
    "mask": (
        on_mask,
        r"mask: the size of the result depends on the data \(at aten.index.Tensor .*py:{1}",
    ),
    "item": (item, r"depends on the data .*\.item\(\).*py:{1}|a tensor's data .*py:{1}"),
    "branch": (branch, r"depends on the data \(a Python if, .*py:{2}"),
    "loop": (Loop(), r"depends on the data \(a Python if, while.*test_lower_views.py:\d+"),
    "as_strided": (strided, r"aten.as_strided.default \(at .*py:{1}"),
    "nonzero": (lambda x: x.nonzero(), "aten.nonzero.default: the size of its result depends"),
    "unique": (lambda x: x.unique(), "aten._unique2.default: the size of its result depends"),
    "random": (lambda x: torch.rand_like(x), "aten.rand_like.default: random numbers"),
    "bits": (lambda x: x.view(torch.int32), "aten.view.dtype"),
    "reduce": (lambda x: x.scatter(0, x.long() % 2, x, reduce="multiply"), "aten.scatter.reduce"),
    "several": (lambda x: x.index_put((x > 1,), x[0, :1].expand(5)), "several values at a mask"),
    "classes": (lambda x: F.one_hot(x.long()), "depends on the data"),
    "max_norm": (lambda x: F.embedding(x[0].long(), x, max_norm=1.0), "aten.embedding_renorm"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses(name: str) -> None:
    fn, message = REFUSALS[name]
    first = getattr(getattr(fn, "__code__", None), "co_firstlineno", 0)
    for offset in (1, 2):
        message = message.replace(f"{{{offset}}}", str(first + offset))
    with pytest.raises(Unsupported, match=message):
        lower(trace(fn, (numbers(3, 5),)))


def test_dynamic_size_that_must_be_even() -> None:
    with pytest.raises(Unsupported, match=r"dynamic sizes n: the model works only with n = 2\*_n"):
        trace(halved, (numbers(4, 6),), {"x": {0: "n"}})


def test_a_failing_model_raises_its_own_error_and_keeps_its_inputs() -> None:
    def f(x: torch.Tensor) -> Any:
        x.add_(1)
        return x.view(7)

    x = torch.zeros(3)
    with pytest.raises(RuntimeError, match="invalid for input of size 3"):
        trace(f, (x,))
    assert x.eq(0).all()


def test_lines_are_the_users() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        return y.t()

    first = f.__code__.co_firstlineno
    program = lower(trace(f, (numbers(2, 3),))).program
    assert [d.source for d in program.defs] == [
        f"aten.add.Tensor test_lower_views.py:{first + 1}",
        f"aten.permute.default test_lower_views.py:{first + 2}",
    ]


def test_unused_results_are_dropped() -> None:
    assert len(body(lambda x: x.split(1, 1)[2], numbers(2, 4))) == 1


def test_unwritten_memory_shows() -> None:
    """torch.empty may hold anything; here it holds what cannot be taken for a result."""
    assert body(lambda x: torch.empty(3), numbers(1)) == ["nan"]


def test_sizes_come_out_as_expressions() -> None:
    traced = trace(lambda x: (x[1:], x.shape[0] - 1, 7), (numbers(4, 3),), {"x": {0: "n"}})
    outputs = lower(traced).outputs
    assert [str(o) for o in outputs[1:]] == ["n - 1", "7"]


def test_sizes_the_model_treats_apart_are_not_in_the_range() -> None:
    """torch holds the range to each condition but those that only size 1 breaks."""

    def f(x: torch.Tensor) -> Any:
        return x + 1 if x.shape[0] > 1 else x

    assert trace(f, (numbers(4),), {"x": {0: "n"}}).dims == {"n": (2, None)}
    assert trace(lambda x: x + 1, (numbers(4),), {"x": {0: "n"}}).dims == {"n": (1, None)}


def test_names_that_mean_something_else() -> None:
    def f(t0: torch.Tensor, exp: torch.Tensor, n: torch.Tensor) -> Any:
        return t0 - exp * n

    program = lower(
        trace(f, (numbers(3), numbers(3), numbers(1)), {"t0": {0: "n"}, "exp": {0: "n"}})
    )
    assert [b.name for b in program.program.inputs] == ["t0_", "exp_", "n_"]
    with pytest.raises(Unsupported, match="dynamic sizes called i0: the name is taken"):
        trace(f, (numbers(3), numbers(3), numbers(1)), {"t0": {0: "i0"}})
    with pytest.raises(Unsupported, match="dynamic sizes of y: inputs are t0, exp, n"):
        trace(f, (numbers(3), numbers(3), numbers(1)), {"y": {0: "n"}})


def test_pads_that_torch_leaves_open_are_refused() -> None:
    with pytest.raises(Unsupported, match="_pad_circular"):
        lower(trace(lambda x: F.pad(x, (3, -3), "circular"), (numbers(1, 2, 4),)))
