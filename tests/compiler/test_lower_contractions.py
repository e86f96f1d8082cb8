"""Products, convolutions, pooling and attention, lowered, against torch eager."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rift_compiler.errors import Unsupported
from rift_compiler.frontend.lower import lower
from rift_compiler.frontend.trace import trace

Check = Callable[..., Any]
HALF, BRAIN, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64
INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(1)


def rand(*shape: int, dtype: torch.dtype = SINGLE) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def ints(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(low, high, shape).to(dtype)


def products(c: torch.Tensor, x: torch.Tensor, y: torch.Tensor, v: torch.Tensor) -> Any:
    """c: (3, 5), x: (2, 3, 7), y: (2, 7, 5), v: (7,)"""
    m, n = x[0], y[0]
    return (
        *(
            m @ n,
            torch.mm(m, n),
            x @ y,
            torch.bmm(x, y),
            m @ v,
            v @ n,
            v @ v,
            x @ v,
            v @ y,
            x @ n,
            m @ y,
        ),
        *(x[:, None] @ y, torch.mv(m, v), torch.dot(v, v), torch.vdot(v, v), torch.inner(m, m)),
        *(
            torch.addmm(c, m, n),
            torch.addmm(c[0], m, n, beta=2, alpha=3),
            torch.addmm(c[:, :1], m, n),
        ),
        *(
            torch.addmm(c, m, n, beta=0),
            torch.addmm(c, m, n, alpha=-1),
            torch.addmm(c[1, 1], m, n, beta=-2),
        ),
        *(torch.addmv(c[:, 0], m, v, beta=3, alpha=2), torch.baddbmm(c, x, y, beta=2, alpha=3)),
        *(
            torch.baddbmm(c[:1], x, y),
            torch.addbmm(c, x, y, beta=3, alpha=2),
            torch.addbmm(c[0], x, y),
        ),
        *(torch.addr(c, m[:, 0], n[0], beta=2, alpha=3), torch.outer(v, v), torch.kron(m, n[:2])),
        *(
            torch.tensordot(x, y, ([2], [1])),
            torch.tensordot(m, m, 2),
            torch.linalg.multi_dot((m, n, n.T)),
        ),
        *(
            F.linear(x, n.T),
            F.linear(x, n.T, c[0]),
            F.linear(v, n.T, c[0]),
            F.linear(m, v),
            F.linear(v, v),
        ),
        *(
            torch.einsum("bij,bjk->bki", x, y),
            torch.einsum("ij,ij->", m, m),
            torch.einsum("bij->jb", x),
        ),
        *(
            torch.einsum("ij,jk,kl->li", m, n, n.T),
            torch.einsum("bij,j->bi", x, v),
            torch.einsum("i,j", v, v),
        ),
        *(torch.einsum("...i,i->...", x, v), torch.einsum("ii->i", c[:, :3])),
        *(F.bilinear(m, m[:, :5], y[:, :, :]), F.bilinear(x, x[..., :5], y, v[:2])),
        *(x[:, :0] @ y, x[..., :0] @ y[:, :0], torch.addmm(c, m[:, :0], n[:0], beta=2)),
    )


def test_products(check_lowering: Check) -> None:
    shapes = ((3, 5), (2, 3, 7), (2, 7, 5), (7,))
    check_lowering(products, *(rand(*s) for s in shapes))


@pytest.mark.parametrize("dtype", [HALF, BRAIN, DOUBLE, torch.int64, torch.int8, torch.uint8])
def test_products_of_small_and_whole_numbers(dtype: torch.dtype, check_lowering: Check) -> None:
    """Small whole numbers: each sum is exact in every type, so that nothing hides in tolerances."""

    def f(c: torch.Tensor, x: torch.Tensor, y: torch.Tensor, v: torch.Tensor) -> Any:
        m, n = x[0], y[0]
        return (
            *(
                m @ n,
                x @ y,
                m @ v,
                v @ v,
                F.linear(x, n.T, c[0]),
                torch.addmm(c, m, n, beta=2, alpha=3),
            ),
            *(
                torch.baddbmm(c, x, y, beta=3),
                torch.addmv(c[:, 0], m, v),
                torch.einsum("ij,jk", m, n),
            ),
        )

    shapes = ((3, 5), (2, 3, 7), (2, 7, 5), (7,))
    check_lowering(f, *(ints(0, 4, *s, dtype=dtype) for s in shapes))


def test_sums_are_rounded_once(check_lowering: Check) -> None:
    """In float16, 2048 + 1 is 2048: a sum of ones that is rounded at each step sticks there."""

    def f(x: torch.Tensor, c: torch.Tensor) -> Any:
        return x @ x.T, F.linear(x, x, c), torch.addmm(c, x, x.T, beta=0.5, alpha=0.25)

    check_lowering(f, torch.ones(2, 4001, dtype=HALF), torch.full((2,), 1.5, dtype=HALF))


def test_whole_numbers_wrap(check_lowering: Check) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return (
            x @ x.T,
            torch.addmm(x[:, :3], x, x.T, alpha=3, beta=-5),
            torch._int_mm(y, y.T[:, :8]),
        )

    x = ints(-128, 128, 3, 40, dtype=torch.int8)
    check_lowering(f, x, ints(-128, 128, 24, 16, dtype=torch.int8))


def test_beta_0_does_not_read(check_lowering: Check) -> None:
    def f(c: torch.Tensor, x: torch.Tensor) -> Any:
        one = (torch.addmm(c, x, x, beta=0), torch.addmv(c[0], x, x[0], beta=0))
        return (
            *one,
            torch.baddbmm(c, x[None], x[None], beta=0),
            torch.addbmm(c, x[None], x[None], beta=0),
        )

    check_lowering(f, torch.full((3, 3), NAN), rand(3, 3))


def convolutions(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor, b: torch.Tensor) -> Any:
    """x: (2, 4, 9, 8), w: (6, 4, 3, 2), v: (8, 1, 3, 3), b: (6,)"""
    return (
        *(F.conv2d(x, w), F.conv2d(x, w, b, 2, 1), F.conv2d(x, w, b, (1, 3), (2, 0), (2, 1))),
        *(F.conv2d(x, w, padding="same"), F.conv2d(x, w, b, padding="valid", dilation=(2, 3))),
        *(F.conv2d(x, v, groups=4), F.conv2d(x, v.view(4, 2, 3, 3), b[:4], groups=2, padding=1)),
        *(
            F.conv2d(x[0], w, b),
            F.conv1d(x[:, :, 0], w[..., 0], b, 2, 1),
            F.conv1d(x[0, :, 0], w[..., 0]),
        ),
        *(F.conv3d(x[:, None, :, :, :], w[:, :1, None], b, padding=(0, 1, 1)), F.conv2d(x[:0], w)),
        *(
            F.conv_transpose2d(x, w.transpose(0, 1)),
            F.conv_transpose1d(x[:, :, 0], w[:4, :, :, 0], b[:4], 2, 1, 1),
        ),
        F.conv_transpose2d(
            x, w[:4], b[:4], stride=(2, 3), padding=1, output_padding=(1, 0), dilation=(1, 2)
        ),
        F.conv_transpose2d(x, w[:4, :2], b[:4], groups=2, stride=2),
    )


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize("dtype", [SINGLE, torch.int64, BRAIN])
def test_convolutions(dtype: torch.dtype, check_lowering: Check) -> None:
    shapes = ((2, 4, 9, 8), (6, 4, 3, 2), (8, 1, 3, 3), (6,))
    check_lowering(convolutions, *(ints(-3, 4, *s, dtype=dtype) for s in shapes))


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_padding_modes(mode: Any, check_lowering: Check) -> None:
    module = nn.Conv2d(4, 2, 3, padding=(2, 1), padding_mode=mode)
    check_lowering(module, rand(1, 4, 5, 6))


def pools(x: torch.Tensor) -> Any:
    """x: (2, 3, 9, 8)"""
    line, cube = x[:, :, 0], x[:, None]
    return (
        *(
            F.max_pool2d(x, 3),
            F.max_pool2d(x, (2, 3), (1, 2), (1, 0), 2, True),
            F.max_pool2d(x[0], 2),
        ),
        *(
            F.max_pool1d(line, 3, 2, 1),
            F.max_pool3d(cube, 2, 1, 1),
            F.max_pool1d(line[0], 2, 3, ceil_mode=True),
        ),
        *(
            F.avg_pool2d(x, 3, 2, 1),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.avg_pool2d(x, 3, 2, 1, True, False),
        ),
        *(
            F.avg_pool2d(x, (2, 3), divisor_override=5),
            F.avg_pool1d(line, 4, 3, 2, True),
            F.avg_pool3d(cube, 2),
        ),
        *(
            F.adaptive_avg_pool2d(x, (4, 3)),
            F.adaptive_avg_pool2d(x, (3, None)),
            F.adaptive_avg_pool1d(line, 5),
        ),
        *(
            F.adaptive_avg_pool2d(x, 1),
            F.adaptive_avg_pool3d(cube, (2, 4, 3)),
            F.adaptive_max_pool1d(line, 5),
        ),
        *(F.adaptive_max_pool2d(x, (4, 3)), F.lp_pool2d(x.abs(), 2, 3), F.unfold(x, 2, padding=1)),
        F.fold(F.unfold(x, 2, stride=2), (9, 8), 2, stride=2),
    )


def test_pooling(check_lowering: Check) -> None:
    check_lowering(pools, rand(2, 3, 9, 8) - 2)


@pytest.mark.parametrize("dtype", [HALF, DOUBLE, torch.int64])
def test_pooling_of_other_types(dtype: torch.dtype, check_lowering: Check) -> None:
    def f(x: torch.Tensor) -> Any:
        whole = () if dtype is torch.int64 else (F.adaptive_avg_pool2d(x, (4, 3)),)
        return *whole, F.avg_pool2d(x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1, return_indices=True)

    check_lowering(f, ints(-99, 99, 2, 3, 9, 8, dtype=dtype))


def test_where_the_maximum_is(check_lowering: Check) -> None:
    """Of equal elements the first, of NaNs the last, and never in the padding: as torch."""

    def f(x: torch.Tensor) -> Any:
        flat = (
            F.max_pool2d(x, 3, 2, 1, return_indices=True),
            F.max_pool1d(x[0], 2, return_indices=True),
        )
        return *flat, F.adaptive_max_pool2d(x, 3, return_indices=True)

    low = torch.full((1, 2, 6, 5), -INF)
    nan = rand(1, 2, 6, 5).where(rand(1, 2, 6, 5) > 0.3, NAN)
    check_lowering(f, rand(1, 2, 6, 5), also=((low,), (nan,), (low.floor().where(nan > 0, 1.0),)))


def test_resizing(check_lowering: Check) -> None:
    def f(x: torch.Tensor) -> Any:
        sizes = [F.interpolate(x, scale_factor=1.7), F.interpolate(x, (7, 4), mode="nearest-exact")]
        for corners in (True, False):
            sizes.append(F.interpolate(x, (7, 4), mode="bilinear", align_corners=corners))
            sizes.append(F.interpolate(x[:, 0], 9, mode="linear", align_corners=corners))
        return *sizes, F.interpolate(x, (3, 7), mode="area"), F.interpolate(x[0], scale_factor=2)

    check_lowering(f, rand(1, 2, 5, 3))


Attention = Callable[..., torch.Tensor]
attend: Attention = F.scaled_dot_product_attention


def attentions(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, on: torch.Tensor, add: torch.Tensor
) -> Any:
    """q: (2, 4, 5, 8), k: (2, 4, 7, 8), v: (2, 4, 7, 6), on and add: (5, 7), row 2 wholly masked"""
    few, one = k[:, :2], v[:, :1]
    return (
        *(attend(q, k, v), attend(q, k, v, scale=0.3), attend(q, k, v, is_causal=True)),
        *(attend(k, q, q, is_causal=True, scale=1.5), attend(q, k, v, on), attend(q, k, v, add)),
        *(attend(q, k, v, on[2:3]), attend(q, k, v, on[:1])),
        *(attend(q, k, v, add[:1].expand(2, 1, 1, 7)), attend(q, few, v[:, :2], enable_gqa=True)),
        *(attend(q, few, one, enable_gqa=True, is_causal=True), attend(q[0], k[0], v[0], on)),
        *(
            attend(q[0, 0], k[0, 0], v[0, 0]),
            attend(q, k[:1], v[:1, :1]),
            attend(q, k, k, on, is_causal=False),
        ),
    )


def attention_inputs() -> Any:
    on, add = torch.rand(5, 7) > 0.4, rand(5, 7)
    on[2], add[2], add[0, 3] = False, -INF, -INF
    return rand(2, 4, 5, 8), rand(2, 4, 7, 8), rand(2, 4, 7, 6), on, add


def test_attention(check_lowering: Check) -> None:
    check_lowering(attentions, *attention_inputs())


@pytest.mark.parametrize("dtype", [HALF, BRAIN, DOUBLE])
def test_attention_of_other_types(dtype: torch.dtype, check_lowering: Check) -> None:
    def f(q: Any, k: Any, v: Any, on: Any, add: Any) -> Any:
        grouped = attend(q, k[:, :2], v[:, :1], enable_gqa=True, is_causal=True)
        return attend(q, k, v, on), attend(q, k, v, add, scale=0.3), grouped

    q, k, v, on, add = attention_inputs()
    # torch's kernels round weights to 16 bits before the second product; we do not
    close: dict[str, float] = {}
    if dtype is not DOUBLE:
        close = {"atol": 2 * torch.finfo(dtype).eps, "rtol": 2 * torch.finfo(dtype).eps}
    check_lowering(f, *(t.to(dtype) for t in (q, k, v)), on, add.to(dtype), **close)


def test_attention_with_a_mask_and_causal(check_lowering: Check) -> None:
    """torch's CPU kernel takes both where the sizes suit it; its other ones refuse."""
    q = rand(1, 2, 5, 8)
    on = torch.rand(5, 5) > 0.3
    on[0] = False
    check_lowering(lambda q, m: attend(q, q, q, m, is_causal=True), q, on)


class SelfAttention(nn.Module):
    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, **given)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
        return *self.attention(x, x, x, attn_mask=mask), self.attention(
            x, x, x, need_weights=False
        )[0]


@pytest.mark.parametrize("first", [False, True])
def test_multihead_attention(first: bool, check_lowering: Check) -> None:
    module = SelfAttention(batch_first=first, add_bias_kv=not first, bias=first).eval()
    check_lowering(module, rand(5, 5, 16), torch.rand(5, 5) > 1.5)


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer(norm_first: bool, check_lowering: Check) -> None:
    """In eval mode torch would leave for one fused op, which is no part of a model's meaning."""
    given: dict[str, Any] = {"batch_first": True, "norm_first": norm_first}
    check_lowering(nn.TransformerEncoderLayer(16, 4, 32, **given).eval(), rand(2, 5, 16))


def dynamic(x: torch.Tensor, w: torch.Tensor, m: torch.Tensor) -> Any:
    """x: (b, s, 8), m: (s, s)"""
    b, s, _ = x.shape
    q = F.linear(x, w).view(b, s, 2, 4).transpose(1, 2)
    out = (attend(q, q, q, is_causal=True), attend(q, q, q, m), torch.einsum("bsd,btd->bst", x, x))
    image = (
        F.conv1d(x.mT, w[:, :, None], padding=1),
        F.avg_pool1d(x.mT, 2, 1),
        F.max_pool2d(x, 2, 1),
    )
    return (
        *out,
        *image,
        out[0].transpose(1, 2).reshape(b, s, 8) @ w,
        torch.baddbmm(x[:, :1], x, x.mT @ x),
    )


def test_symbolic_sizes(check_lowering: Check) -> None:
    def inputs(b: int, s: int) -> Any:
        return rand(b, s, 8), rand(8, 8), rand(s, s)

    sizes = {"x": {0: "batch", 1: "seq"}, "m": {0: "seq", 1: "seq"}}
    check_lowering(dynamic, *inputs(3, 6), dynamic=sizes, also=[inputs(2, 5), inputs(5, 2)])


REFUSALS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "bool": (torch.mm, (torch.ones(2, 2).bool(),) * 2, "aten.mm.default of bool"),
    "dropout": (lambda q: attend(q, q, q, dropout_p=0.5), (rand(1, 1, 2, 4),), "dropout_p=0.5"),
    "out_dtype": (
        lambda x: torch.mm(x, x, out_dtype=SINGLE),
        (rand(2, 2, dtype=BRAIN),),
        "aten.mm.dtype",
    ),
    "topk": (lambda x: x.topk(2), (rand(3, 3),), "aten.topk.default"),
    "part": (
        lambda x: torch.addmm(x, x, x, alpha=2.5),
        (ints(0, 2, 2, 2),),
        "2.5, which is no i64",
    ),
    "complex": (lambda x: x @ x, (rand(2, 2) + 1j,), "complex64"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses(name: str) -> None:
    fn, inputs, message = REFUSALS[name]
    with pytest.raises((Unsupported, RuntimeError), match=message) as raised:
        lower(trace(fn, inputs))
    try:
        fn(*inputs)
    except RuntimeError:
        return  # torch cannot do it either
    assert raised.type is Unsupported


def test_convolutions_are_plain_reads() -> None:
    """Without padding a patch's element is one load with no guard; groups share by division."""

    def text(fn: Any, *inputs: Any) -> str:
        return str(lower(trace(fn, inputs)).program)

    plain = text(lambda x, w: F.conv2d(x, w, stride=2), rand(1, 4, 9, 9), rand(6, 4, 3, 3))
    assert "= x[i0, i3, i1 * 2 + i4, i2 * 2 + i5]" in plain
    grouped = text(lambda x, w: F.conv1d(x, w, groups=2), rand(1, 4, 9), rand(6, 2, 3))
    assert "x[i0, i1 // 3 * 2 + i3, i2 + i4]" in grouped


def test_every_pair_of_ranks(check_lowering: Check) -> None:
    shapes = [(3,), (3, 3), (2, 3, 3), (4, 1, 3, 3)]
    pairs = list(itertools.product(range(4), repeat=2))
    check_lowering(lambda *t: [t[p] @ t[q] for p, q in pairs], *(rand(*s) for s in shapes))
