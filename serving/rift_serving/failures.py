"""Why an engine did not start: the errors in its log, and what they mean where we know it."""

from __future__ import annotations

import re
import signal

# vLLM 0.32 puts "(EngineCore pid=71) " and "INFO 11-30 20:57:16 [core.py:133] " before its lines.
PREFIX = re.compile(r"^(\(\S+ pid=\d+\) ?)?([A-Z]+ \d\d-\d\d \S+ \[\S+\] ?)?")
# The line that ends a traceback, pydantic's line below it, and argparse's.
ERROR = re.compile(r"^((\w+\.)*\w*(Error|Exception|Exit): |  Value error, |vllm.*: error: )")
# What every process above the one that failed adds.
HEARSAY = re.compile(r"initialization failed|validation errors? for ")
SHOWN = 4

# Searched in order in those errors, the specific before the general.
KNOWN = (
    (
        r"max_model_len .* is greater than the derived",
        "the context is longer than the model was trained for; lower context_length (--context)",
    ),
    (
        r"KV cache is needed, which is larger than|No available memory for the cache blocks",
        "the context does not fit the KV cache; lower context_length or raise kv_cache_memory",
    ),
    (
        r"Available memory on node .* less than|OutOfMemoryError|CUDA out of memory|bad_alloc"
        r"|Cannot allocate memory|can't allocate memory|MemoryError|Free memory on device",
        "not enough memory; lower kv_cache_memory, gpu_memory_utilization or context_length",
    ),
    (
        r"Address already in use",
        "the port was taken meanwhile; leave out --port for a free one",
    ),
    (
        r"No space left on device",
        "the disk is full; free space or set RIFT_HOME and HF_HOME elsewhere",
    ),
    (
        r"contains custom code which must be executed|trust_remote_code=True",
        "the model brings its own code; read it, then set 'trust_remote_code: true' in a recipe",
    ),
    (
        r"Cannot find any model weights",
        "the weights are missing; expected *.safetensors beside config.json",
    ),
    (
        r"RepositoryNotFound|not a valid model identifier|401 Client Error|GatedRepo",
        "the hub knows no such public model; check the id, or log in for a gated one (HF_TOKEN)",
    ),
    (
        r"LocalEntryNotFound|OfflineModeIsEnabled|[Cc]ouldn't connect to|MaxRetryError",
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


def plain(line: str) -> str:
    """A line of the engine's log without vLLM's prefix."""
    return PREFIX.sub("", line.rstrip())


def errors(log: str) -> list[str]:
    """The errors in a log, each once, first cause first, without those that only pass it on."""
    lines = (plain(line) for line in log.splitlines())
    found = dict.fromkeys(line.strip() for line in lines if ERROR.match(line))
    return [line for line in found if not HEARSAY.search(line)][:SHOWN]


def explain(log: str, exit_code: int | None) -> str | None:
    """What to do about a failed start, or None where its errors have to speak for themselves."""
    if exit_code is not None and exit_code < 0 and -exit_code in SIGNALS:
        return SIGNALS[signal.Signals(-exit_code)]
    said = "\n".join(errors(log))
    return next((text for pattern, text in KNOWN if re.search(pattern, said)), None)
