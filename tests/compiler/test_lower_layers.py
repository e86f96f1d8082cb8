"""Whole decoder layers of transformers, with random weights, lowered, against torch eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from transformers import Gemma3TextConfig, GPT2Config, LlamaConfig, MistralConfig, Qwen3Config
from transformers.models.gemma3.modeling_gemma3 import Gemma3DecoderLayer
from transformers.models.gemma4.configuration_gemma4 import Gemma4TextConfig
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextDecoderLayer
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
from transformers.models.llama.modeling_llama import LlamaDecoderLayer
from transformers.models.mistral.modeling_mistral import MistralDecoderLayer
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

Check = Callable[..., Any]
Make = Callable[[str], nn.Module]  # how attention is computed -> layer

WIDTH, WINDOW = 32, 4
SIZES: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_hidden_layers": 6,
}
SMOL = SIZES | {
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "hidden_size": 36,
    "head_dim": 4,
}
MIXED: dict[str, Any] = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"] * 3,
}
NEW: dict[str, Any] = {
    "global_head_dim": 8,
    "hidden_size_per_layer_input": 0,
    "num_kv_shared_layers": 0,
}


def layer(kind: Any, config: Any, index: int = 0, **given: Any) -> Make:
    return lambda how: kind(config(**SIZES | given, attn_implementation=how), index)


LAYERS: dict[str, Make] = {
    "llama": layer(LlamaDecoderLayer, LlamaConfig),
    "smollm2": layer(LlamaDecoderLayer, LlamaConfig, 1, **SMOL, rms_norm_eps=1e-5),
    "qwen3": layer(Qwen3DecoderLayer, Qwen3Config),
    "mistral": layer(MistralDecoderLayer, MistralConfig, sliding_window=WINDOW),
    "gemma3 sliding": layer(Gemma3DecoderLayer, Gemma3TextConfig, 0, **MIXED),
    "gemma3 full": layer(Gemma3DecoderLayer, Gemma3TextConfig, 1, **MIXED),
    "gemma4 sliding": layer(Gemma4TextDecoderLayer, Gemma4TextConfig, 0, **MIXED, **NEW),
    "gemma4 full": layer(Gemma4TextDecoderLayer, Gemma4TextConfig, 1, **MIXED, **NEW),
}


class Layer(nn.Module):
    """A decoder layer of plain tensors. No mask: the layer's own causal one."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer.eval()
        for parameter in layer.parameters():
            nn.init.normal_(parameter, std=0.2)

    def forward(
        self,
        hidden: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        mask: torch.Tensor | None = None,
    ) -> Any:
        shared: dict[str, Any] = (
            {"shared_kv_states": {}} if "Gemma4" in type(self.layer).__name__ else {}
        )
        given: dict[str, Any] = {"position_embeddings": (cos, sin), "attention_mask": mask}
        out = self.layer(hidden_states=hidden, **given, **shared)
        return out[0] if isinstance(out, tuple) else out


class Block(nn.Module):
    """A GPT-2 block, which has no rotary embeddings to be given."""

    def __init__(self, how: str) -> None:
        super().__init__()
        config: Any = GPT2Config
        block: Any = GPT2Block
        small = config(n_embd=WIDTH, n_head=4, n_inner=48, attn_implementation=how)
        self.layer = block(small, 0).eval()

    def forward(self, hidden: torch.Tensor) -> Any:
        out = self.layer(hidden)
        return out[0] if isinstance(out, tuple) else out


def inputs(length: int, masked: bool, sliding: bool, width: int = WIDTH, head: int = 8) -> Any:
    """hidden, cos, sin and perhaps a mask, as transformers makes them."""
    angles = torch.arange(length)[:, None] * torch.logspace(0, -3, head // 2)
    angles = torch.cat((angles, angles), -1)[None]
    far = torch.arange(length)[:, None] - torch.arange(length)
    on = (far >= 0) & (far < (WINDOW if sliding else length))
    mask = torch.where(on, 0.0, torch.finfo(torch.float32).min)[None, None]
    hidden = torch.randn(2, length, width)
    return (hidden, angles.cos(), angles.sin(), mask)[: 4 if masked else 3]


BY_HAND = [(name, "eager") for name in ("llama", "gemma3 sliding", "gemma4 full")]


@pytest.mark.parametrize(("name", "how"), [*((name, "sdpa") for name in LAYERS), *BY_HAND])
def test_layer(name: str, how: str, check_lowering: Check) -> None:
    torch.manual_seed(2)
    sizes = (SMOL["hidden_size"], SMOL["head_dim"]) if name == "smollm2" else (WIDTH, 8)
    given = inputs(6, True, "sliding" in name or name == "mistral", *sizes)
    check_lowering(Layer(LAYERS[name](how)), *given, rtol=1e-5, atol=2e-5)


SEQUENCE = {"hidden": {1: "seq"}, "cos": {1: "seq"}, "sin": {1: "seq"}}
MASKED = SEQUENCE | {"mask": {2: "seq", 3: "seq"}}


@pytest.mark.parametrize(
    ("name", "how", "masked"),
    [
        ("llama", "sdpa", False),
        ("qwen3", "eager", True),
        ("gemma3 sliding", "sdpa", True),
    ],
)
def test_layer_of_any_length(name: str, how: str, masked: bool, check_lowering: Check) -> None:
    torch.manual_seed(3)
    also: Sequence[Any] = [inputs(n, masked, "sliding" in name) for n in (9, 2)]
    given = inputs(6, masked, "sliding" in name)
    dynamic = MASKED if masked else SEQUENCE
    module = Layer(LAYERS[name](how))
    check_lowering(module, *given, dynamic=dynamic, also=also, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("how", ["sdpa", "eager"])
def test_gpt2_block(how: str, check_lowering: Check) -> None:
    torch.manual_seed(4)
    hidden, *also = (torch.randn(2, n, WIDTH) for n in (6, 9, 2))
    dynamic = {"hidden": {1: "seq"}} if how == "sdpa" else None
    more = [(h,) for h in also] if how == "sdpa" else []
    check_lowering(Block(how), hidden, dynamic=dynamic, also=more)


def test_layer_of_16_bit_numbers(check_lowering: Check) -> None:
    torch.manual_seed(5)
    given = tuple(t.bfloat16() for t in inputs(6, True, False))
    layer = Layer(LAYERS["llama"]("eager")).bfloat16()
    check_lowering(layer, *given, rtol=0.05, atol=0.1)
