"""What the last lines of an engine's log mean, where we know it."""

from __future__ import annotations

import re
import signal

# Searched in order, the specific before the general. (vLLM 0.32, torch 2.13, huggingface_hub 2)
KNOWN = (
    (
        r"max_model_len .*(is greater|larger) than|greater than the derived max_model_len",
        "the context is longer than the model was trained for; lower context_length (--context)",
    ),
    (
        r"KV cache is needed, which is larger than|larger than the maximum number of tokens that "
        r"can be stored in KV cache|No available memory for the cache blocks",
        "the context does not fit the KV cache; lower context_length or raise kv_cache_memory",
    ),
    (
        r"[Aa]ddress already in use",
        "the port was taken meanwhile; leave out --port for a free one",
    ),
    (
        r"No space left on device",
        "the disk is full; free space or set RIFT_HOME and HF_HOME elsewhere",
    ),
    (
        r"OutOfMemoryError|CUDA out of memory|Cannot allocate memory|std::bad_alloc|MemoryError"
        r"|can't allocate memory|not enough memory",
        "out of memory; lower kv_cache_memory, gpu_memory_utilization or context_length",
    ),
    (
        r"trust_remote_code|trust-remote-code",
        "the model brings its own code; read it, then set 'trust_remote_code: true' in a recipe",
    ),
    (
        r"Cannot find any model weights|no file named .*safetensors|No such file .*\.safetensors",
        "the weights are missing; expected *.safetensors beside config.json",
    ),
    (
        r"[Rr]epository.{0,3}[Nn]ot.{0,3}[Ff]ound|not a valid model identifier|401 Client Error",
        "the hub knows no such public model; check the id, or log in for a gated one (HF_TOKEN)",
    ),
    (
        r"LocalEntryNotFound|OfflineModeIsEnabled|[Cc]ouldn't connect to|MaxRetryError"
        r"|ConnectError|Name or service not known|can't load the configuration",
        "the model hub cannot be reached; give a local directory instead of a hub id",
    ),
    (
        r"unrecognized arguments|error: argument",
        "the engine does not know an argument; check extra_args in the recipe",
    ),
)

SIGNALS = {
    signal.SIGKILL: "it was killed, most likely by the kernel for memory; lower kv_cache_memory",
    signal.SIGILL: "the CPU lacks an instruction that the engine was built for; see rift doctor",
}


def explain(log: str, exit_code: int | None) -> str | None:
    """What to do about a start-up failure, or None where the log has to speak for itself."""
    if exit_code is not None and exit_code < 0 and -exit_code in SIGNALS:
        return SIGNALS[signal.Signals(-exit_code)]
    return next((text for pattern, text in KNOWN if re.search(pattern, log)), None)
