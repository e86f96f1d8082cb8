"""Prompts of exactly n tokens that no prefix cache can help with.

A prompt is a list of token ids drawn at random from ordinary ids of the served model's own
vocabulary, so its length is exact by construction and no text is tokenised twice. The draw starts
from a nonce that is new in every run: no two prompts, in this run or any other, share a prefix.
"""

from __future__ import annotations

import json
import random
import string
from typing import Any

import httpx2

from rift.errors import Failed

# Every pair of letters: most vocabularies have nearly each of them as a token of its own.
SAMPLE = " ".join(a + b for a in string.ascii_lowercase for b in string.ascii_lowercase)
MIN_POOL = 16  # 16 different ids make a first block of 16 tokens one of 16**16


def token_pool(http: httpx2.Client, model: str) -> tuple[int, ...]:
    """Ordinary token ids of the served model, from its own /tokenize.

    Raises Failed when the server has no /tokenize: then no prompt's length would be exact.
    """
    body = {"model": model, "prompt": SAMPLE, "add_special_tokens": False}
    response = http.post("/tokenize", json=body)
    if response.status_code != httpx2.codes.OK:
        raise Failed(
            f"{http.base_url}: /tokenize answered {response.status_code}; exact prompts need the "
            "server's own tokenizer (vLLM and rift's engines have it)"
        )
    try:
        pool = tuple(sorted(set(response.json()["tokens"])))
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{http.base_url}: /tokenize: not vLLM's answer: {error!r}") from error
    if len(pool) < MIN_POOL:
        raise Failed(
            f"{http.base_url}: /tokenize gave {len(pool)} ids, expected {MIN_POOL} or more"
        )
    return pool


def body(model: str, pool: tuple[int, ...], nonce: str, n_in: int, n_out: int) -> bytes:
    """The JSON of one completion request: n_in prompt tokens, n_out answer tokens, streamed."""
    request: dict[str, Any] = {
        "model": model,
        "prompt": random.Random(nonce).choices(pool, k=n_in),
        "max_tokens": n_out,
        "min_tokens": n_out,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(request, separators=(",", ":")).encode()
