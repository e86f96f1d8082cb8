"""GGUF of the Llama family -> Hugging Face directory: config, bf16 weights, tokenizer.

The inverse of llama.cpp's converter, for architecture "llama" with a byte-level BPE tokenizer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from gguf import GGUFReader, dequantize
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from rift.errors import Failed

# Tensor names: GGUF spec, "Standardized tensor names" -> transformers' LlamaForCausalLM.
TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL, USER_DEFINED = 3, 4  # tokenizer.ggml.token_type, GGUF spec
PRE_TOKENIZERS = ("smollm",)  # tokenizer.ggml.pre values whose splitting rule is built below


def convert(source: Path, target: Path) -> None:
    """Write source's model into the existing, empty directory target.

    Raises Failed for an architecture, tokenizer or tensor that this converter does not know.
    """
    reader = GGUFReader(source)
    fields = {name: field for name, field in reader.fields.items()}

    def get(name: str) -> Any:
        if name not in fields:
            raise Failed(f"{source.name}: no field {name}; expected a complete Llama GGUF")
        return fields[name].contents()

    if (arch := get("general.architecture")) != "llama":
        raise Failed(f"{source.name}: architecture {arch!r}; this converter reads 'llama' only")
    heads = get("llama.attention.head_count")
    kv_heads = get("llama.attention.head_count_kv")
    tensors = {t.name: t for t in reader.tensors}
    weights: dict[str, npt.NDArray[Any]] = {}
    for name, tensor in tensors.items():
        array = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        array = array.reshape(tuple(int(n) for n in reversed(tensor.shape)))
        if ".attn_q." in name or ".attn_k." in name:
            array = _unpermute(array, heads if ".attn_q." in name else kv_heads)
        weights[_name(name, source)] = array.astype(ml_dtypes.bfloat16)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})

    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": get("llama.embedding_length"),
        "intermediate_size": get("llama.feed_forward_length"),
        "num_hidden_layers": get("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": get("llama.embedding_length") // heads,
        "hidden_act": "silu",
        "max_position_embeddings": get("llama.context_length"),
        # GGUF keeps it as float32: the shortest decimal that gives that float is the original.
        "rms_norm_eps": float(str(np.float32(get("llama.attention.layer_norm_rms_epsilon")))),
        "rope_theta": get("llama.rope.freq_base"),
        "rope_parameters": {"rope_type": "default", "rope_theta": get("llama.rope.freq_base")},
        "tie_word_embeddings": "output.weight" not in tensors,
        "vocab_size": get("llama.vocab_size"),
        "bos_token_id": get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": get("tokenizer.ggml.eos_token_id"),
        "pad_token_id": get("tokenizer.ggml.padding_token_id"),
        "torch_dtype": "bfloat16",
    }
    _write_json(target / "config.json", config)
    _write_tokenizer(get, target, source)


def _name(name: str, source: Path) -> str:
    """The transformers name of a GGUF tensor."""
    if name in TOP:
        return TOP[name]
    parts = name.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in BLOCK:
        return f"model.layers.{parts[1]}.{BLOCK[parts[2]]}.{parts[3]}"
    raise Failed(f"{source.name}: unknown tensor {name!r}; this converter knows plain Llama only")


def _unpermute(array: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """Rows of Q or K from llama.cpp's interleaved rotary pairs back to the two halves of a head."""
    rows, cols = array.shape
    pairs = array.reshape(heads, rows // heads // 2, 2, cols)
    return pairs.swapaxes(1, 2).reshape(rows, cols)


def _write_tokenizer(get: Any, target: Path, source: Path) -> None:
    kind, pre = get("tokenizer.ggml.model"), get("tokenizer.ggml.pre")
    if kind != "gpt2" or pre not in PRE_TOKENIZERS:
        raise Failed(
            f"{source.name}: tokenizer {kind!r} with splitting {pre!r}; "
            f"expected 'gpt2' with one of {PRE_TOKENIZERS}"
        )
    tokens, types = get("tokenizer.ggml.tokens"), get("tokenizer.ggml.token_type")
    vocab = {token: i for i, token in enumerate(tokens)}
    merges = [tuple(m.split(" ", 1)) for m in get("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    # llama.cpp's "smollm" rule: every digit alone, then GPT-2's byte-level pattern.
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, types, strict=True)
            if kind in (CONTROL, USER_DEFINED)
        ]
    )
    tokenizer.save(str(target / "tokenizer.json"))
    bos, eos = (
        tokens[get("tokenizer.ggml.bos_token_id")],
        tokens[get("tokenizer.ggml.eos_token_id")],
    )
    _write_json(
        target / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "add_bos_token": get("tokenizer.ggml.add_bos_token"),
            "bos_token": bos,
            "eos_token": eos,
            "unk_token": tokens[get("tokenizer.ggml.unknown_token_id")],
            "pad_token": tokens[get("tokenizer.ggml.padding_token_id")],
            "chat_template": get("tokenizer.chat_template"),
            "model_max_length": get("llama.context_length"),
            "clean_up_tokenization_spaces": False,
        },
    )


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
