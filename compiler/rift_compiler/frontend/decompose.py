"""Composite ops in terms of simpler ones, where torch has no decomposition or a lossy one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rift_compiler.errors import Unsupported

aten = torch.ops.aten


def attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """scaled_dot_product_attention as its documentation defines it; rows with nothing to attend
    to give 0, as torch's fused kernels do."""
    if dropout_p:
        raise Unsupported(f"aten.scaled_dot_product_attention dropout_p={dropout_p}")
    if not query.is_floating_point():
        raise Unsupported(f"aten.scaled_dot_product_attention of {query.dtype}: torch has none")
    if enable_gqa:
        key, value = (t.repeat_interleave(query.size(-3) // t.size(-3), -3) for t in (key, value))
    wide = torch.float32 if query.dtype in (torch.float16, torch.bfloat16) else query.dtype
    factor = query.size(-1) ** -0.5 if scale is None else scale
    scores = torch.matmul(query.to(wide), key.to(wide).transpose(-2, -1)) * factor
    if is_causal:
        rows = torch.arange(query.size(-2), device=query.device).unsqueeze(-1)
        columns = torch.arange(key.size(-2), device=query.device)
        scores = torch.where(columns <= rows, scores, float("-inf"))
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask, scores, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask.to(wide)
    top = scores.amax(-1, keepdim=True)
    weights = torch.exp(scores - top)
    total = weights.sum(-1, keepdim=True)
    out = torch.matmul(weights, value.to(wide)) / total
    if attn_mask is not None:  # under is_causal alone every row has something to attend to
        out = torch.where(top == float("-inf"), 0.0, out)
    return out.to(query.dtype)


def group_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    batch: int,
    channels: int,
    inner: int,
    groups: int,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """native_group_norm as its documentation defines it; torch's own one speaks of strides."""
    grouped = _widened(x).reshape(batch, groups, channels // groups * inner)
    var, mean = torch.var_mean(grouped, 2, correction=0, keepdim=True)
    rstd = torch.rsqrt(var + eps)
    out = ((grouped - mean) * rstd).reshape(x.shape)
    along = [channels, *[1] * (x.dim() - 2)]
    out = out if weight is None else out * weight.reshape(along)
    out = out if bias is None else out + bias.reshape(along)
    mean, rstd = (t.reshape(batch, groups).to(x.dtype) for t in (mean, rstd))
    return out.to(x.dtype), mean, rstd


def _widened(x: torch.Tensor) -> torch.Tensor:
    """x in the type that torch accumulates in."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _not_of_bytes(op: Any) -> Callable[..., Any]:
    """torch's own decomposition of an interpolation, but of uint8: eager computes that in fixed
    point, with roundings of its own."""
    stock = torch._decomp.decomposition_table[op]

    def run(x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dtype == torch.uint8:
            raise Unsupported(f"{op} of uint8: convert to a floating-point type first")
        return stock(x, *args, **kwargs)

    return run


INTERPOLATIONS = (
    aten.upsample_bilinear2d.vec,
    aten.upsample_bilinear2d.default,
    aten.upsample_bicubic2d.vec,
    aten.upsample_bicubic2d.default,
)
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten.native_group_norm.default: group_norm,
    aten.scaled_dot_product_attention.default: attention,
    **{op: _not_of_bytes(op) for op in INTERPOLATIONS},
}
