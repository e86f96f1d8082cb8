"""The functions that are measured, as a PyTorch user writes them; weights are inputs like others,
so that they can be rotated: a decode step's weights come from memory, not from a cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from rift_benchmarks.kernels.shapes import Shape

Layer = Callable[..., tuple[Tensor, ...]]


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding, halves swapped, as Llama's and Qwen's."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """SiLU of the one, times the other."""
    return F.silu(gate) * up


def residual_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The sum, and its RMSNorm."""
    total = x + residual
    return total, F.rms_norm(total, weight.shape, weight, 1e-6)


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of a prompt."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def decode(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of a few queries over all keys, heads grouped."""
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def mlp(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """A whole gated MLP."""
    return F.linear(swiglu(F.linear(x, gate), F.linear(x, up)), down)


def layer(shape: Shape, prefill: bool) -> Layer:
    """A decoder layer: of a prompt (no cache), or of one token after a cache of keys and values.

    Inputs: x, cos, sin, (keys, values if not prefill), then weights in the order of weights().
    Returns the layer's output and the new keys and values.
    """

    def run(x: Tensor, cos: Tensor, sin: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        cache, weights = ((), rest) if prefill else (rest[:2], rest[2:])
        n1, wq, wk, wv, wo, n2, gate, up, down, *head_norms = weights
        h = F.rms_norm(x, (shape.hidden,), n1, shape.eps)
        q, k, v = (_heads(F.linear(h, w), shape.head) for w in (wq, wk, wv))
        if head_norms:
            q, k = (
                F.rms_norm(t, (shape.head,), w, shape.eps)
                for t, w in zip((q, k), head_norms, strict=True)
            )
        q, k = rotary(q, cos, sin), rotary(k, cos, sin)
        keys, values = (
            (torch.cat(p, 2) for p in zip(cache, (k, v), strict=True)) if cache else (k, v)
        )
        out = F.scaled_dot_product_attention(q, keys, values, is_causal=prefill, enable_gqa=True)
        x = x + F.linear(out.transpose(1, 2).flatten(2), wo)
        h = F.rms_norm(x, (shape.hidden,), n2, shape.eps)
        return x + mlp(h, gate, up, down), k, v

    return run


def _heads(x: Tensor, head: int) -> Tensor:
    return x.view(*x.shape[:-1], -1, head).transpose(1, 2)


def weights(shape: Shape) -> list[tuple[int, ...]]:
    """The shapes of a layer's weights, in order."""
    wide, narrow = shape.heads * shape.head, shape.kv_heads * shape.head
    hidden = shape.hidden
    attention = [(hidden,), (wide, hidden), (narrow, hidden), (narrow, hidden), (hidden, wide)]
    rest = [(hidden,), (shape.inner, hidden), (shape.inner, hidden), (hidden, shape.inner)]
    return [*attention, *rest, *([(shape.head,)] * 2 if shape.head_norm else [])]
