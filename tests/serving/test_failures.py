"""What a failed start means, on logs that vLLM 0.32 really wrote (traceback frames cut out)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from rift_serving import failures

LOGS = Path(__file__).parent / "engine_logs"


@pytest.mark.parametrize(
    ("log", "cause", "do"),
    [
        ("context-too-long", "greater than the derived max_model_len", "lower context_length"),
        ("kv-too-small", "KV cache is needed, which is larger", "raise kv_cache_memory"),
        ("kv-too-large", "less than requested memory for kv", "lower kv_cache_memory"),
        ("node-memory", "less than desired CPU memory utilization", "lower kv_cache_memory"),
        ("port-taken", "Address already in use", "leave out --port"),
        ("no-weights", "Cannot find any model weights", "weights are missing"),
        ("remote-code", "contains custom code", "trust_remote_code: true"),
        ("hub-unreachable", "Name or service not known", "hub cannot be reached"),
    ],
)
def test_the_cause_comes_first_and_says_what_to_do(log: str, cause: str, do: str) -> None:
    text = (LOGS / f"{log}.log").read_text(encoding="utf-8")

    errors = failures.errors(text)
    meaning = failures.explain(text, 1)

    assert cause in errors[0]
    assert meaning is not None
    assert do in meaning


def test_an_unknown_cause_speaks_for_itself() -> None:
    text = (LOGS / "tensor-parallel.log").read_text(encoding="utf-8")

    assert failures.explain(text, 1) is None
    assert "must be divisible by tensor parallel size" in failures.errors(text)[0]


@pytest.mark.parametrize(
    ("sign", "do"), [(signal.SIGKILL, "kernel for memory"), (signal.SIGILL, "instruction")]
)
def test_a_signal_is_explained(sign: signal.Signals, do: str) -> None:
    meaning = failures.explain("", -sign)

    assert meaning is not None
    assert do in meaning
