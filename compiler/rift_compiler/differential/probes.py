"""Hand-written cases: what compilers of this kind have silently got wrong or could not do.

MISCOMPILED and REFUSED name what a public compiler (emmy-ml 0.3.12) was measured to get wrong
without an error, or to refuse, on 83 small probes. The other kinds are where the same mistake, an
argument or a rule of PyTorch's that is dropped, is easy to make.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rift_compiler.differential.compare import Case, Function
from rift_compiler.differential.opinfo import seeded

MISCOMPILED = (
    "permute",
    "slice step",
    "interleaved rotary",
    "alpha",
    "addmm scalars",
    "rounding mode",
    "boolean mask",
    "several axes",
    "norm over several axes",
    "default eps",
)
REFUSED = (
    *("Conv2d", "GroupNorm", "BatchNorm", "MaxPool2d", "MultiheadAttention"),
    *("TransformerEncoderLayer", "LSTM", "topk", "argmax", "sort", "cross entropy", "logsumexp"),
    *("log softmax", "var", "std", "prod", "scatter add", "Mish", "ELU", "interpolate", "fft"),
    *("baddbmm", "int8 matmul"),
)

Made = tuple[Function, tuple[Any, ...]]


@dataclass(frozen=True)
class Probe:
    """`make` returns a function or module and its inputs, drawn from torch's global generator."""

    name: str
    kind: str
    make: Callable[[], Made]

    def case(self, device: str = "cpu") -> Case:
        """The same in every run."""
        with seeded(self.name):
            function, args = self.make()
        if isinstance(function, nn.Module):
            function = function.to(device)
        return Case(self.kind, function, tuple(arg.to(device) for arg in args))


HALF, BRAIN, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64
BYTE, CHAR, INT, LONG = torch.uint8, torch.int8, torch.int32, torch.int64
INF, NAN = float("inf"), float("nan")
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, INF, -INF, NAN, 1e-30, -3e38)


def rand(*shape: int, dtype: torch.dtype = SINGLE) -> Tensor:
    """Normal numbers."""
    return torch.randn(shape).to(dtype)


def ints(low: int, high: int, *shape: int, dtype: torch.dtype = LONG) -> Tensor:
    """Whole numbers from low up to high, which is left out."""
    return torch.randint(low, high, shape).to(dtype)


def bools(*shape: int) -> Tensor:
    return torch.rand(shape) < 0.5


def values(*numbers: float, dtype: torch.dtype = SINGLE) -> Tensor:
    return torch.tensor(numbers, dtype=dtype)


def settled(module: nn.Module) -> nn.Module:
    """For inference; no weight or statistic is left all 0 or all 1: ignoring it would not show."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point() and (tensor == tensor.flatten()[0]).all():
            tensor.data.uniform_(0.5, 1.5)
    return module.eval()


def rotary_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x: (S, D), pairs side by side; cos and sin: (S, D/2)."""
    even, odd = x[..., ::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)


def rotary_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x: (S, D), pairs half a row apart; cos and sin: (S, D)."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def written(x: Tensor, y: Tensor) -> Tensor:
    x[:, 1:3] = y
    x.mul_(2)
    return x + 1


def qkv(heads: int = 4, dtype: torch.dtype = SINGLE) -> tuple[Tensor, Tensor, Tensor]:
    """4 heads of 6 queries, `heads` of 8 keys and values."""
    shape = (2, heads, 8, 16)
    return rand(2, 4, 6, 16, dtype=dtype), rand(*shape, dtype=dtype), rand(*shape, dtype=dtype)


def attend(**given: Any) -> Function:
    """Attention with these keywords; a mask is the function's fourth input."""

    def call(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **given)

    return call


class SelfAttention(nn.Module):
    """nn.MultiheadAttention of one input."""

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True, **given)

    def forward(self, x: Tensor) -> Any:
        return self.attention(x, x, x)


def same(function: Function) -> Callable[[], Made]:
    """Of the special values: zeros, infinities, NaN, halves."""
    return lambda: (function, (values(*SPECIAL),))


def pair(function: Function) -> Callable[[], Made]:
    """Of each special value with each."""
    return lambda: (function, (values(*SPECIAL).unsqueeze(1), values(*SPECIAL)))


P = Probe
PROBES: tuple[Probe, ...] = (
    # Got wrong elsewhere.
    P("permute", "permute", lambda: (lambda x: x.permute(2, 0, 1), (rand(3, 5, 7),))),
    P("permute_sum", "permute", lambda: (lambda x: x.permute(1, 2, 0).sum(1), (rand(2, 3, 5),))),
    P(
        "permute_matmul",
        "permute",
        lambda: (lambda x, w: x.permute(2, 1, 0) @ w, (rand(3, 5, 7), rand(3, 4))),
    ),
    P("slice_step", "slice step", lambda: (lambda x: x[:, ::2] + 1, (rand(3, 7),))),
    P("slice_offset_step", "slice step", lambda: (lambda x: x[1::3, :-1:2], (rand(10, 9),))),
    P("slice_negative", "slice step", lambda: (lambda x: x[-4:-1, ..., -3], (rand(6, 2, 5),))),
    P("slice_past_end", "slice step", lambda: (lambda x: x[2:100, 5:2], (rand(5, 7),))),
    P("slice_step_fold", "slice step", lambda: (lambda x: x[..., 1::2].sum(-1), (rand(4, 33),))),
    P(
        "rotary_interleaved",
        "interleaved rotary",
        lambda: (rotary_interleaved, (rand(5, 8), rand(5, 4), rand(5, 4))),
    ),
    P(
        "rotary_interleaved_half",
        "interleaved rotary",
        lambda: (
            rotary_interleaved,
            (rand(3, 6, dtype=HALF), rand(3, 3, dtype=HALF), rand(3, 3, dtype=HALF)),
        ),
    ),
    P(
        "rotary_halves",
        "interleaved rotary",
        lambda: (rotary_halves, (rand(5, 8), rand(5, 8), rand(5, 8))),
    ),
    P(
        "add_alpha",
        "alpha",
        lambda: (lambda x, y: torch.add(x, y, alpha=2.5), (rand(3, 5), rand(5))),
    ),
    P(
        "sub_alpha",
        "alpha",
        lambda: (lambda x, y: torch.sub(x, y, alpha=-3), (rand(3, 5), rand(3, 1))),
    ),
    P("rsub_alpha", "alpha", lambda: (lambda x: torch.rsub(x, 2, alpha=3), (rand(7),))),
    P(
        "add_alpha_int",
        "alpha",
        lambda: (lambda x, y: torch.add(x, y, alpha=3), (ints(-9, 9, 7), ints(-9, 9, 7))),
    ),
    P(
        "addmm_beta_alpha",
        "addmm scalars",
        lambda: (
            lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2),
            (rand(5), rand(3, 7), rand(7, 5)),
        ),
    ),
    P(
        "addmm_beta_0",
        "addmm scalars",
        lambda: (
            lambda c, x, y: torch.addmm(c, x, y, beta=0),
            (torch.full((3, 5), NAN), rand(3, 7), rand(7, 5)),
        ),
    ),
    P(
        "addmv_beta_alpha",
        "addmm scalars",
        lambda: (
            lambda c, x, y: torch.addmv(c, x, y, beta=3, alpha=-1),
            (rand(3), rand(3, 7), rand(7)),
        ),
    ),
    P(
        "addcdiv_value",
        "addmm scalars",
        lambda: (
            lambda c, x, y: torch.addcdiv(c, x, y, value=0.3),
            (rand(5), rand(5), rand(5) + 3),
        ),
    ),
    P(
        "div_trunc",
        "rounding mode",
        lambda: (lambda x, y: torch.div(x, y, rounding_mode="trunc"), (rand(33) * 9, rand(33))),
    ),
    P(
        "div_floor",
        "rounding mode",
        lambda: (lambda x, y: torch.div(x, y, rounding_mode="floor"), (rand(33) * 9, rand(33))),
    ),
    P(
        "div_trunc_int",
        "rounding mode",
        lambda: (lambda x: torch.div(x, 4, rounding_mode="trunc"), (ints(-20, 20, 33),)),
    ),
    P(
        "div_floor_int",
        "rounding mode",
        lambda: (
            lambda x, y: torch.div(x, y, rounding_mode="floor"),
            (ints(-20, 20, 33), values(-3, dtype=LONG)),
        ),
    ),
    P(
        "remainder_int",
        "rounding mode",
        lambda: (
            lambda x: (x % 5, x % -5, torch.fmod(x, 5), x // -5),
            (ints(-20, 20, 33, dtype=INT),),
        ),
    ),
    P(
        "mask_boolean",
        "boolean mask",
        lambda: (attend(), (*qkv(), bools(6, 8) | torch.eye(6, 8, dtype=torch.bool))),
    ),
    P(
        "mask_boolean_empty_row",
        "boolean mask",
        lambda: (attend(), (*qkv(), torch.arange(6)[:, None] > torch.arange(8))),
    ),
    P("mask_float", "boolean mask", lambda: (attend(), (*qkv(), rand(2, 1, 6, 8)))),
    P(
        "mask_boolean_half",
        "boolean mask",
        lambda: (attend(), (*qkv(dtype=HALF), bools(6, 8) | torch.eye(6, 8, dtype=torch.bool))),
    ),
    P("sum_axes", "several axes", lambda: (lambda x: x.sum((0, 2)), (rand(3, 5, 7),))),
    P(
        "sum_axes_keepdim",
        "several axes",
        lambda: (lambda x: x.sum((-1, 0), keepdim=True), (rand(3, 5, 7),)),
    ),
    P("mean_axes", "several axes", lambda: (lambda x: x.mean((1, 2)) * 2, (rand(3, 5, 7),))),
    P("amax_axes", "several axes", lambda: (lambda x: x.amax((0, 1, 3)), (rand(2, 3, 5, 4),))),
    P("mean_all", "several axes", lambda: (lambda x: x.mean(), (rand(17, 33),))),
    P("sum_no_axes", "several axes", lambda: (lambda x: x.sum(()), (rand(3, 5),))),
    P(
        "layer_norm_axes",
        "norm over several axes",
        lambda: (settled(nn.LayerNorm((5, 7))), (rand(3, 5, 7),)),
    ),
    P(
        "layer_norm_affine",
        "norm over several axes",
        lambda: (
            lambda x, w, c: F.layer_norm(x, (3, 4), w, c, 0.1),
            (rand(2, 3, 4), rand(3, 4), rand(3, 4)),
        ),
    ),
    P(
        "rms_norm_axes",
        "norm over several axes",
        lambda: (lambda x, w: F.rms_norm(x, (5, 7), w, 1e-3), (rand(3, 5, 7), rand(5, 7))),
    ),
    P("rms_norm_tiny", "default eps", lambda: (settled(nn.RMSNorm(16)), (rand(3, 16) * 1e-4,))),
    P(
        "rms_norm_tiny_half",
        "default eps",
        lambda: (settled(nn.RMSNorm(16).half()), (rand(3, 16, dtype=HALF) * 1e-2,)),
    ),
    P(
        "rms_norm_tiny_double",
        "default eps",
        lambda: (settled(nn.RMSNorm(16).double()), (rand(3, 16, dtype=DOUBLE) * 1e-8,)),
    ),
    P("layer_norm_tiny", "default eps", lambda: (settled(nn.LayerNorm(16)), (rand(3, 16) * 1e-3,))),
    # Refused elsewhere.
    P("conv2d", "Conv2d", lambda: (nn.Conv2d(4, 6, 3, stride=2, padding=1), (rand(2, 4, 9, 7),))),
    P(
        "conv2d_uneven",
        "Conv2d",
        lambda: (nn.Conv2d(3, 2, (3, 2), (1, 2), (2, 0), (2, 1), bias=False), (rand(1, 3, 7, 8),)),
    ),
    P(
        "conv2d_groups",
        "Conv2d",
        lambda: (nn.Conv2d(4, 8, 3, groups=4, padding="same"), (rand(2, 4, 5, 5),)),
    ),
    P(
        "conv2d_reflect",
        "Conv2d",
        lambda: (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (rand(1, 2, 5, 6),)),
    ),
    P(
        "conv2d_circular",
        "Conv2d",
        lambda: (nn.Conv2d(2, 3, 3, padding=(1, 0), padding_mode="circular"), (rand(1, 2, 5, 6),)),
    ),
    P(
        "conv1d",
        "Conv2d",
        lambda: (nn.Conv1d(4, 6, 3, padding=2, dilation=2, groups=2), (rand(2, 4, 11),)),
    ),
    P(
        "conv1d_unbatched",
        "Conv2d",
        lambda: (nn.Conv1d(3, 2, 2, padding=1, padding_mode="replicate"), (rand(3, 7),)),
    ),
    P("group_norm", "GroupNorm", lambda: (settled(nn.GroupNorm(2, 6)), (rand(2, 6, 5, 3),))),
    P(
        "batch_norm_2d",
        "BatchNorm",
        lambda: (settled(nn.BatchNorm2d(4, eps=0.1)), (rand(2, 4, 3, 5),)),
    ),
    P(
        "batch_norm_1d",
        "BatchNorm",
        lambda: (settled(nn.BatchNorm1d(4, affine=False)), (rand(3, 4),)),
    ),
    P("max_pool2d", "MaxPool2d", lambda: (nn.MaxPool2d(3, 2, 1), (rand(2, 3, 8, 7) - 3,))),
    P(
        "max_pool2d_ceil",
        "MaxPool2d",
        lambda: (nn.MaxPool2d(2, ceil_mode=True), (rand(1, 2, 5, 7),)),
    ),
    P(
        "avg_pool2d",
        "MaxPool2d",
        lambda: (nn.AvgPool2d(3, 2, 1, count_include_pad=False), (rand(1, 2, 7, 7),)),
    ),
    P(
        "multihead_attention",
        "MultiheadAttention",
        lambda: (settled(SelfAttention()), (rand(2, 5, 16),)),
    ),
    P(
        "multihead_attention_bias_kv",
        "MultiheadAttention",
        lambda: (settled(SelfAttention(add_bias_kv=True)), (rand(2, 5, 16),)),
    ),
    P(
        "encoder_layer",
        "TransformerEncoderLayer",
        lambda: (
            settled(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)),
            (rand(2, 5, 16),),
        ),
    ),
    P(
        "encoder_layer_norm_first",
        "TransformerEncoderLayer",
        lambda: (
            settled(nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", norm_first=True)),
            (rand(5, 2, 16),),
        ),
    ),
    P("lstm", "LSTM", lambda: (nn.LSTM(6, 5, num_layers=2, batch_first=True), (rand(2, 3, 6),))),
    P("topk", "topk", lambda: (lambda x: x.topk(3, dim=0), (rand(9, 4),))),
    P(
        "topk_smallest",
        "topk",
        lambda: (lambda x: torch.topk(x, 2, largest=False).values, (rand(3, 17),)),
    ),
    P(
        "argmax",
        "argmax",
        lambda: (lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), (rand(5, 7),)),
    ),
    P(
        "argmax_ties",
        "argmax",
        lambda: (
            lambda x: (x.argmax(-1), x.argmin(-1), x.max(-1), x.min(-1)),
            (ints(0, 3, 5, 17).float(),),
        ),
    ),
    P(
        "argmax_nan",
        "argmax",
        lambda: (lambda x: (x.argmax(), x.max(0), x.argmin()), (values(1, NAN, 3, NAN),)),
    ),
    P("sort", "sort", lambda: (lambda x: x.sort(0, descending=True), (rand(7, 3),))),
    P("sort_stable", "sort", lambda: (lambda x: torch.sort(x, stable=True), (ints(0, 4, 3, 17),))),
    P("cross_entropy", "cross entropy", lambda: (F.cross_entropy, (rand(5, 7), ints(0, 7, 5)))),
    P(
        "cross_entropy_ignore",
        "cross entropy",
        lambda: (lambda x, t: F.cross_entropy(x, t, ignore_index=2), (rand(9, 4), ints(0, 4, 9))),
    ),
    P(
        "cross_entropy_smoothing",
        "cross entropy",
        lambda: (
            lambda x, t: F.cross_entropy(x, t, label_smoothing=0.2),
            (rand(5, 7), ints(0, 7, 5)),
        ),
    ),
    P(
        "cross_entropy_weight",
        "cross entropy",
        lambda: (
            lambda x, t, w: F.cross_entropy(x, t, w),
            (rand(9, 4), ints(0, 4, 9), rand(4).exp()),
        ),
    ),
    P(
        "cross_entropy_all",
        "cross entropy",
        lambda: (
            lambda x, t, w: F.cross_entropy(x, t, w, ignore_index=1, label_smoothing=0.1),
            (rand(9, 4), ints(0, 4, 9), rand(4).exp()),
        ),
    ),
    P(
        "cross_entropy_none",
        "cross entropy",
        lambda: (
            lambda x, t: F.cross_entropy(x, t, reduction="none"),
            (rand(2, 4, 3), ints(0, 4, 2, 3)),
        ),
    ),
    P(
        "cross_entropy_sum",
        "cross entropy",
        lambda: (
            lambda x, t: F.cross_entropy(x, t, reduction="sum"),
            (rand(5, 7), rand(5, 7).softmax(1)),
        ),
    ),
    P("logsumexp", "logsumexp", lambda: (lambda x: x.logsumexp((0, 2)), (rand(3, 5, 7) * 30,))),
    P(
        "logsumexp_infinite",
        "logsumexp",
        lambda: (
            lambda x: x.logsumexp(1, keepdim=True),
            (values(-INF, -INF, 0, -INF, INF, 0).view(3, 2),),
        ),
    ),
    P("log_softmax", "log softmax", lambda: (lambda x: x.log_softmax(0), (rand(17, 3) * 50,))),
    P(
        "log_softmax_dtype",
        "log softmax",
        lambda: (lambda x: x.log_softmax(-1, dtype=SINGLE), (rand(3, 17, dtype=HALF),)),
    ),
    P(
        "var",
        "var",
        lambda: (
            lambda x: (x.var(), x.var(1), x.var(0, correction=0, keepdim=True)),
            (rand(5, 7) + 100,),
        ),
    ),
    P(
        "var_mean",
        "var",
        lambda: (lambda x: torch.var_mean(x, (0, 2), correction=3), (rand(3, 5, 7),)),
    ),
    P(
        "std",
        "std",
        lambda: (lambda x: (x.std(), x.std(1, unbiased=False), x.std((0, 1))), (rand(5, 7),)),
    ),
    P("std_one_element", "std", lambda: (lambda x: x.std(1), (rand(3, 1),))),
    P("prod", "prod", lambda: (lambda x: (x.prod(), x.prod(1, keepdim=True)), (rand(5, 7),))),
    P(
        "prod_int",
        "prod",
        lambda: (lambda x: (x.prod(0), x.prod(0, dtype=SINGLE)), (ints(-9, 9, 5, 7, dtype=CHAR),)),
    ),
    P(
        "scatter_add",
        "scatter add",
        lambda: (
            lambda x, i, s: x.scatter_add(1, i, s),
            (rand(3, 5), ints(0, 5, 3, 9), rand(3, 9)),
        ),
    ),
    P("mish", "Mish", lambda: (nn.Mish(), (rand(33) * 30,))),
    P("elu", "ELU", lambda: (nn.ELU(0.7), (rand(33) * 5,))),
    P("celu_selu", "ELU", lambda: (lambda x: (F.celu(x, 0.7), F.selu(x)), (rand(33),))),
    P(
        "neg_of_bytes",
        "promotion",
        lambda: (lambda x: (-x).double(), (ints(0, 9, 33).to(BYTE),)),
    ),
    P(
        "interpolate_of_bytes",
        "interpolate",
        lambda: (
            lambda x: F.interpolate(x, (6, 4), mode="bilinear"),
            (ints(0, 256, 1, 2, 9, 8).to(BYTE),),
        ),
    ),
    P(
        "interpolate_nearest",
        "interpolate",
        lambda: (lambda x: F.interpolate(x, scale_factor=1.7), (rand(1, 2, 5, 3),)),
    ),
    P(
        "interpolate_bilinear",
        "interpolate",
        lambda: (
            lambda x: F.interpolate(x, (7, 4), mode="bilinear", align_corners=True),
            (rand(1, 2, 5, 3),),
        ),
    ),
    P("fft", "fft", lambda: (lambda x: torch.fft.rfft(x, n=12, norm="ortho"), (rand(2, 10),))),
    P(
        "baddbmm",
        "baddbmm",
        lambda: (
            lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=3),
            (rand(1, 5), rand(2, 3, 7), rand(2, 7, 5)),
        ),
    ),
    P(
        "addbmm",
        "baddbmm",
        lambda: (
            lambda c, x, y: torch.addbmm(c, x, y, beta=2, alpha=0.5),
            (rand(3, 5), rand(4, 3, 7), rand(4, 7, 5)),
        ),
    ),
    P(
        "int8_matmul",
        "int8 matmul",
        lambda: (torch.matmul, (ints(-9, 9, 3, 17, dtype=CHAR), ints(-9, 9, 17, 5, dtype=CHAR))),
    ),
    P(
        "int32_matmul",
        "int8 matmul",
        lambda: (
            lambda x, y: x.int() @ y.int(),
            (ints(-128, 128, 3, 33, dtype=CHAR), ints(-128, 128, 33, 5, dtype=CHAR)),
        ),
    ),
    # Attention, softmax, products.
    P("attention_causal", "attention", lambda: (attend(is_causal=True), qkv())),
    P("attention_scale", "attention", lambda: (attend(scale=0.7), qkv())),
    P("attention_gqa", "attention", lambda: (attend(enable_gqa=True), qkv(2))),
    P(
        "attention_gqa_causal",
        "attention",
        lambda: (attend(enable_gqa=True, is_causal=True, scale=0.1), qkv(1)),
    ),
    P("attention_bfloat16", "attention", lambda: (attend(is_causal=True), qkv(dtype=BRAIN))),
    P("softmax_dtype", "attention", lambda: (lambda x: x.softmax(0, dtype=DOUBLE), (rand(5, 7),))),
    P(
        "softmax_masked_rows",
        "attention",
        lambda: (
            lambda x, m: x.masked_fill(m, -INF).softmax(-1),
            (rand(4, 5), torch.arange(4)[:, None] <= torch.arange(5) * 0 + 1),
        ),
    ),
    P("softmax_large", "attention", lambda: (lambda x: x.softmax(1), (rand(3, 33) * 1e4,))),
    P(
        "swiglu",
        "product",
        lambda: (swiglu, (rand(3, 16), rand(24, 16), rand(24, 16), rand(16, 24))),
    ),
    P(
        "swiglu_bfloat16",
        "product",
        lambda: (
            swiglu,
            tuple(rand(*s, dtype=BRAIN) for s in ((3, 16), (24, 16), (24, 16), (16, 24))),
        ),
    ),
    P("linear_odd", "product", lambda: (nn.Linear(33, 17), (rand(1, 3, 33),))),
    P("linear_half", "product", lambda: (nn.Linear(33, 17).half(), (rand(5, 33, dtype=HALF),))),
    P("matmul_batched", "product", lambda: (torch.matmul, (rand(2, 1, 3, 5), rand(4, 5, 7)))),
    P(
        "matmul_vectors",
        "product",
        lambda: (lambda x, y, m: (x @ y, x @ m, m.mT @ y), (rand(7), rand(7), rand(7, 5))),
    ),
    P("matmul_long", "product", lambda: (torch.matmul, (rand(2, 4097), rand(4097, 3)))),
    P(
        "einsum_contract",
        "product",
        lambda: (lambda x, y: torch.einsum("bik,bjk->bij", x, y), (rand(2, 3, 5), rand(2, 4, 5))),
    ),
    P("einsum_diagonal", "product", lambda: (lambda x: torch.einsum("ii->i", x), (rand(5, 5),))),
    P(
        "einsum_three",
        "product",
        lambda: (
            lambda x, y, w: torch.einsum("ab,bc,cd->da", x, y, w),
            (rand(2, 3), rand(3, 5), rand(5, 4)),
        ),
    ),
    P(
        "einsum_ellipsis",
        "product",
        lambda: (lambda x, y: torch.einsum("...i,i->...", x, y), (rand(2, 3, 5), rand(5))),
    ),
    # Indices and layouts.
    P(
        "gather",
        "index",
        lambda: (lambda x, i: x.gather(-2, i), (rand(3, 5, 7), ints(0, 5, 3, 2, 7))),
    ),
    P(
        "index_negative",
        "index",
        lambda: (lambda x, i: x[i, :, -i], (rand(5, 3, 6), ints(-4, 4, 7))),
    ),
    P(
        "index_boolean_where",
        "index",
        lambda: (lambda x, m: torch.where(m, x, 0.5), (rand(3, 5), bools(5))),
    ),
    P(
        "embedding_padding",
        "index",
        lambda: (nn.Embedding(7, 5, padding_idx=2), (ints(0, 7, 3, 4),)),
    ),
    P(
        "flip_roll",
        "index",
        lambda: (lambda x: (x.flip(0, -1), x.roll((1, -2), (0, 1)), x.roll(3)), (rand(5, 7),)),
    ),
    P(
        "repeat_interleave",
        "index",
        lambda: (lambda x: x.repeat_interleave(3, dim=1) + 1, (rand(2, 3, 5),)),
    ),
    P(
        "cat_stack",
        "index",
        lambda: (
            lambda x, y: (torch.cat((x, y), -1), torch.stack((x, x), 1)),
            (rand(3, 5), rand(3, 2)),
        ),
    ),
    P(
        "cumsum",
        "index",
        lambda: (lambda x: (x.cumsum(0), x.cumsum(-1), x.cumprod(1)), (rand(5, 33),)),
    ),
    P(
        "diagonal_tril",
        "index",
        lambda: (lambda x: (x.diagonal(1, 0, 2), x.tril(-1), x.triu(1)), (rand(5, 4, 7),)),
    ),
    P(
        "pad_modes",
        "index",
        lambda: (
            lambda x: (F.pad(x, (1, -2), value=3), F.pad(x, (2, 1), "reflect")),
            (rand(2, 3, 7),),
        ),
    ),
    P("input_transposed", "strides", lambda: (lambda x: x.reshape(5, 6) + 1, (rand(6, 5).t(),))),
    P(
        "input_stepped",
        "strides",
        lambda: (lambda x, y: x @ y, (rand(3, 14)[:, ::2], rand(5, 14)[:, 1::2].t())),
    ),
    P(
        "input_expanded",
        "strides",
        lambda: (lambda x, y: x.sum(0) * y, (rand(1, 5).expand(4, 5), values(2).expand(5))),
    ),
    P("input_offset", "strides", lambda: (lambda x: x * 2 + x.sum(), (rand(40)[3:36],))),
    P(
        "input_channels_last",
        "strides",
        lambda: (nn.Conv2d(3, 4, 3), (rand(2, 3, 5, 6).to(memory_format=torch.channels_last),)),
    ),
    # Dtypes.
    P(
        "promote_int_float",
        "promotion",
        lambda: (lambda i, x: (i + x, i * 2.5, i / 2, x + 1), (ints(-9, 9, 5, dtype=INT), rand(5))),
    ),
    P(
        "promote_number_tensor",
        "promotion",
        lambda: (lambda h, s: (h * s, s + h), (rand(5, dtype=HALF), torch.tensor(1.0009765))),
    ),
    P(
        "promote_half_brain",
        "promotion",
        lambda: (lambda x, y: x * y, (rand(5, dtype=HALF), rand(5, dtype=BRAIN))),
    ),
    P(
        "promote_bool",
        "promotion",
        lambda: (
            lambda m, n: (m + n, m * n, m.sum(), m.sum(0), m & n, m + 1),
            (bools(3, 5), bools(3, 5)),
        ),
    ),
    P(
        "promote_bytes",
        "promotion",
        lambda: (
            lambda x, y: (x + y, x.sum(), x.cumsum(0), x - 200),
            (ints(0, 255, 9, dtype=BYTE), ints(-128, 127, 9, dtype=CHAR)),
        ),
    ),
    P(
        "int_true_division",
        "promotion",
        lambda: (lambda x, y: (x / y, x.true_divide(3), x // 2), (ints(-9, 9, 9), ints(1, 9, 9))),
    ),
    P(
        "int_beyond_double",
        "promotion",
        lambda: (
            lambda x: (x + 1, x * 3, x.sum(), x.amax(), x == x.flip(0)),
            (values(2**53 + 1, 2**62, -(2**62) - 1, dtype=LONG),),
        ),
    ),
    P(
        "int_wraps",
        "promotion",
        lambda: (
            lambda x: (x * x, x + 2**30, x << 3, x >> 2, -x, x.abs()),
            (values(2**31 - 1, -(2**31), 65537, -5, dtype=INT),),
        ),
    ),
    P("int_power", "promotion", lambda: (lambda x: (x**3, 2**x, x**2.0), (ints(0, 9, 9),))),
    P(
        "casts",
        "promotion",
        lambda: (
            lambda x: (x.int(), x.bool(), x.half(), x.bfloat16().float(), x.char()),
            (values(-2.7, 2.7, 0.1, -0.1, 0, 100.5),),
        ),
    ),
    P(
        "cast_rounding",
        "promotion",
        lambda: (lambda x: (x.half(), x.bfloat16()), (1 + torch.arange(64) / 2**12,)),
    ),
    P(
        "sum_dtype",
        "promotion",
        lambda: (
            lambda x: (x.sum(dtype=SINGLE), x.mean(1, dtype=DOUBLE)),
            (rand(5, 33, dtype=HALF),),
        ),
    ),
    P(
        "sum_half_long",
        "promotion",
        lambda: (lambda x: (x.sum(), x.mean(1)), (torch.rand(3, 4097).half(),)),
    ),
    P(
        "brain_chain",
        "promotion",
        lambda: (lambda x, y: (x * y + x) * y - x, (rand(5, 7, dtype=BRAIN), rand(7, dtype=BRAIN))),
    ),
    P(
        "creation",
        "promotion",
        lambda: (
            lambda x: (
                x + torch.arange(5),
                torch.ones_like(x, dtype=INT),
                x * torch.linspace(0, 1, 5),
            ),
            (rand(3, 5),),
        ),
    ),
    # Keywords.
    P(
        "gelu_tanh",
        "keyword",
        lambda: (lambda x: (F.gelu(x, approximate="tanh"), F.gelu(x)), (rand(33) * 3,)),
    ),
    P(
        "clamp_one_bound",
        "keyword",
        lambda: (lambda x: (x.clamp(min=-0.5), x.clamp(max=0.5), x.clamp(1, -1)), (rand(33),)),
    ),
    P(
        "clamp_tensor",
        "keyword",
        lambda: (lambda x, low: torch.clamp(x, min=low), (rand(3, 5), rand(5))),
    ),
    P(
        "softplus_beta",
        "keyword",
        lambda: (lambda x: F.softplus(x, beta=2, threshold=3), (rand(33) * 3,)),
    ),
    P(
        "leaky_relu_slope",
        "keyword",
        lambda: (lambda x: (F.leaky_relu(x, 0.3), F.hardtanh(x, -0.2, 0.7)), (rand(33),)),
    ),
    P(
        "round_decimals",
        "keyword",
        lambda: (
            lambda x: (x.round(), torch.round(x, decimals=2), torch.round(x, decimals=-1)),
            (torch.arange(-15, 15) / 2,),
        ),
    ),
    P(
        "norm_p",
        "keyword",
        lambda: (
            lambda x: (x.norm(), x.norm(3, 1), torch.linalg.vector_norm(x, INF, (0, 1))),
            (rand(5, 7),),
        ),
    ),
    P(
        "nan_to_num",
        "keyword",
        lambda: (lambda x: (x.nan_to_num(), x.nan_to_num(1, 2, -3)), (values(*SPECIAL),)),
    ),
    P(
        "any_all",
        "keyword",
        lambda: (lambda x: (x.any(), x.all(1), x.any(0, keepdim=True)), (ints(0, 2, 5, 3),)),
    ),
    # Special values.
    P(
        "special_relu",
        "special value",
        same(lambda x: (F.relu(x), F.relu6(x), x.clamp(-1, 1), x.sign(), x.sgn())),
    ),
    P(
        "special_round",
        "special value",
        same(lambda x: (x.round(), x.floor(), x.ceil(), x.trunc(), x.frac())),
    ),
    P(
        "special_exp",
        "special value",
        same(lambda x: (x.exp(), x.expm1(), x.log(), x.log1p(), x.sqrt(), x.rsqrt())),
    ),
    P(
        "special_sigmoid",
        "special value",
        same(lambda x: (x.sigmoid(), x.tanh(), x.erf(), F.silu(x), F.gelu(x), F.mish(x))),
    ),
    P(
        "special_fold",
        "special value",
        same(lambda x: (x.amax(), x.amin(), x.sum(), x.softmax(0), x.cumsum(0), x.argmax())),
    ),
    P(
        "special_max",
        "special value",
        pair(lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y))),
    ),
    P(
        "special_compare",
        "special value",
        pair(lambda x, y: (x == y, x != y, x < y, x >= y, ~(x > y))),
    ),
    P(
        "special_divide",
        "special value",
        pair(lambda x, y: (x / y, torch.remainder(x, y), torch.fmod(x, y))),
    ),
    P(
        "special_floor_divide",
        "special value",
        pair(lambda x, y: (x // y, torch.div(x, y, rounding_mode="trunc"))),
    ),
    P(
        "special_power",
        "special value",
        pair(lambda x, y: (x**y, torch.atan2(x, y), torch.copysign(x, y))),
    ),
    P(
        "special_logical",
        "special value",
        pair(lambda x, y: (x.logical_and(y), x.logical_xor(y), x.isfinite() | y.isnan())),
    ),
    P("where_guards_nan", "special value", same(lambda x: torch.where(x > 0, x.log(), x * 0))),
    P(
        "tiny_accuracy",
        "special value",
        lambda: (
            lambda x: torch.stack((x.expm1(), x.log1p(), x.tanh(), x.sin())) * 1e7,
            (rand(33) * 1e-7,),
        ),
    ),
    # Shapes.
    P(
        "empty",
        "shape",
        lambda: (
            lambda x: (x + 1, x.sum(0), x.sum(), x.mean(), x.softmax(-1), x.prod()),
            (rand(0, 5),),
        ),
    ),
    P(
        "empty_inner",
        "shape",
        lambda: (lambda x, y: (x @ y, torch.cat((x, y.t()))), (rand(3, 0), rand(0, 3))),
    ),
    P(
        "zero_dimensions",
        "shape",
        lambda: (
            lambda x, y: (x + y, x.sum(), y.softmax(0), x.view(1, 1)),
            (torch.tensor(2.5), torch.tensor(-1.0)),
        ),
    ),
    P(
        "broadcast_both",
        "shape",
        lambda: (lambda x, y: (x * y + y).sum(0), (rand(5, 1, 3), rand(1, 7, 1))),
    ),
    P(
        "size_one",
        "shape",
        lambda: (
            lambda x: (x.squeeze(), x.softmax(1), x.mean((0, 1)), x.expand(3, -1, 4)),
            (rand(1, 1, 1),),
        ),
    ),
    P(
        "odd_sizes",
        "shape",
        lambda: (
            lambda x: (x.softmax(0), x.softmax(1), x.t().sum(0), x - x.mean(1, True)),
            (rand(17, 33),),
        ),
    ),
    P(
        "long_axis",
        "shape",
        lambda: (lambda x: (x.softmax(-1), x.sum(-1), x.var(-1), x.amax(-1)), (rand(2, 1025),)),
    ),
    P(
        "long_outer_axis",
        "shape",
        lambda: (lambda x: (x.sum(0), x.softmax(0), x.mean(0)), (rand(1025, 3),)),
    ),
    # What a call returns and writes.
    P("writes_input", "interface", lambda: (written, (rand(3, 5), rand(2)))),
    P("returns_input", "interface", lambda: (lambda x, y: (x, y + 1, y), (rand(3), rand(3)))),
    P(
        "returns_twice",
        "interface",
        lambda: (lambda x: (lambda y: {"a": y, "b": [y, None, 3]})(x * 2), (rand(3),)),
    ),
    P("unused_input", "interface", lambda: (lambda x, y: x.exp(), (rand(3), rand(5)))),
    P("view_of_input", "interface", lambda: (lambda x: (x.t(), x[1], x.unbind(0)), (rand(3, 5),))),
)
