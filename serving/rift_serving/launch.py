"""From recipe, model and machine to an engine's exact command and environment. Starts nothing."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rift import machine
from rift.errors import Blocked, WrongUsage
from rift_serving import engine_env
from rift_serving.models import Model
from rift_serving.recipes import Recipe, option, size_bytes

# Debian's path of the allocator that vLLM's CPU notes recommend (package libtcmalloc-minimal4).
TCMALLOC = Path("/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4")

# vLLM leaves one core to its API server and scheduler ("auto"). On fewer cores than this that
# costs more than it gives: on 2 cores, 598 against 338 prompt tokens/s (SmolLM2-135M, bf16, eager).
CORES_FOR_AUTO = 4

# Resident memory of the engine's processes without weights and KV cache, on a CPU: API server
# 0.8 GB, engine core 0.7 GB, worker 0.8 GB (vLLM 0.32, measured), and some room to start in.
BASE_MEMORY_BYTES = 3 * 2**30

KEY_VARIABLE = {"vllm": "VLLM_API_KEY", "mock": "RIFT_MOCK_API_KEY"}
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}


@dataclass(frozen=True)
class Launch:
    """An engine's command line and what is added to its environment. Holds no secret."""

    name: str
    recipe: Recipe
    model: Model
    argv: tuple[str, ...]
    environment: dict[str, str]
    bind: str
    port: int
    notes: tuple[str, ...] = field(default=())

    @property
    def url(self) -> str:
        """Where this machine reaches the engine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.bind, self.bind)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def shell(self, has_key: bool) -> str:
        """The command as a shell would take it; a key shows as a placeholder."""
        pairs = [f"{key}={shlex.quote(value)}" for key, value in self.environment.items()]
        if has_key:
            pairs.append(f"{KEY_VARIABLE[self.recipe.engine]}=<the API key>")
        return " \\\n  ".join([*pairs, shlex.join(self.argv)])


def plan(name: str, recipe: Recipe, model: Model, bind: str, port: int) -> Launch:
    """The launch of recipe's engine for model on this machine.

    Raises WrongUsage for settings that contradict each other, Blocked where this machine lacks
    what they need: before anything is started.
    """
    if recipe.engine == "mock":
        argv = [sys.executable, "-m", "rift_serving.mock_engine", "--name", model.name]
        argv += ["--bind", bind, "--port", str(port)]
        if recipe.context_length:
            argv += ["--context", str(recipe.context_length)]
        for option, value in recipe.mock.model_dump().items():
            argv += [f"--{option.replace('_', '-')}", str(value)]
        return Launch(name, recipe, model, tuple(argv), dict(recipe.environment), bind, port)
    _check_machine(recipe)
    on_cpu = recipe.hardware.device == "cpu"
    environment = engine_env.find(engine_env.CPU if on_cpu else engine_env.CUDA)
    cpu = machine.cpu()
    dtype = _dtype(recipe, cpu)
    notes = [f"dtype {dtype}: this CPU has no bfloat16 instructions"] if dtype == "float32" else []
    argv = [str(environment.vllm), "serve", model.location, "--served-model-name", model.name]
    argv += ["--host", bind, "--port", str(port)]
    argv += _context(recipe, model, notes) + _settings(recipe, dtype) + list(recipe.extra_args)
    variables = {"DO_NOT_TRACK": "1", "VLLM_NO_USAGE_STATS": "1"}
    if model.is_local:
        variables["HF_HUB_OFFLINE"] = "1"
    if on_cpu:
        _check_memory(recipe, model, dtype)
        variables |= _cpu_environment(cpu, environment)
    return Launch(
        name, recipe, model, tuple(argv), variables | recipe.environment, bind, port, tuple(notes)
    )


def _check_machine(recipe: Recipe) -> None:
    if recipe.hardware.device == "cpu":
        engine_env.check_cpu(machine.cpu())
        engine_env.check_libraries()
        return
    gpus = [gpu for gpu in machine.nvidia_gpus() if gpu.driver == "nvidia"]
    if len(gpus) < recipe.hardware.gpu_count:
        wanted = f"{recipe.hardware.gpu_count} x {recipe.hardware.gpu or 'GPU'}"
        raise Blocked(
            f"recipe {recipe.name} needs {wanted} with NVIDIA's driver, this machine has "
            f"{len(gpus)}; choose a recipe for this machine: rift deploy model MODEL --recipe NAME"
        )


def _dtype(recipe: Recipe, cpu: machine.Cpu) -> str:
    """`auto` on a CPU without bfloat16 instructions is float32.

    There oneDNN has no bfloat16 product and vLLM falls back to a slow one: 67 against 380 prompt
    tokens/s on 2 AVX2 cores, with equal decoding (SmolLM2-135M).
    """
    if recipe.dtype == "auto" and recipe.hardware.device == "cpu" and not cpu.native_bfloat16:
        return "float32"
    return recipe.dtype


def _context(recipe: Recipe, model: Model, notes: list[str]) -> list[str]:
    length, trained = recipe.context_length, model.trained_context
    if length is None:
        # Memory is short on a CPU: what fits the KV cache, up to the model's own. (vLLM: auto-fit)
        return ["--max-model-len", "auto"] if recipe.hardware.device == "cpu" else []
    arguments = ["--max-model-len", str(length)]
    if trained is not None and length > trained:
        if not recipe.extend_context:
            raise WrongUsage(
                f"context of {length} tokens: {model.name} was trained for {trained}; ask for at "
                f"most {trained}, or set 'extend_context: true' in the recipe for a speed test"
            )
        if "--hf-overrides" in map(option, recipe.extra_args):
            raise WrongUsage(
                f"recipe {recipe.name}: extend_context and --hf-overrides both change the model's "
                "configuration; keep one"
            )
        arguments += ["--hf-overrides", json.dumps({"max_position_embeddings": length})]
        notes.append(
            f"context raised from the trained {trained} to {length} tokens: "
            "right for speed, the text past it means nothing"
        )
    return arguments


def _settings(recipe: Recipe, dtype: str) -> list[str]:
    """vLLM's arguments for the recipe's fields (0.32 `vllm serve --help`)."""
    kv = size_bytes(recipe.kv_cache_memory) if recipe.kv_cache_memory else None
    values = {
        "--dtype": None if dtype == "auto" else dtype,
        "--revision": recipe.revision,
        "--quantization": recipe.quantization,
        "--max-num-seqs": recipe.max_concurrent_requests,
        "--max-num-batched-tokens": recipe.max_batched_tokens,
        "--kv-cache-dtype": recipe.kv_cache_dtype,
        "--kv-cache-memory-bytes": kv,
        "--gpu-memory-utilization": recipe.gpu_memory_utilization,
        "--tensor-parallel-size": recipe.parallel.tensor if recipe.parallel.tensor > 1 else None,
        "--pipeline-parallel-size": recipe.parallel.pipeline
        if recipe.parallel.pipeline > 1
        else None,
        "--data-parallel-size": recipe.parallel.data if recipe.parallel.data > 1 else None,
    }
    flags = {
        "--enable-expert-parallel": recipe.parallel.expert,
        "--enforce-eager": recipe.eager,
        "--enable-prefix-caching": recipe.prefix_caching is True,
        "--no-enable-prefix-caching": recipe.prefix_caching is False,
        "--trust-remote-code": recipe.trust_remote_code,
    }
    arguments = [
        part for key, value in values.items() if value is not None for part in (key, str(value))
    ]
    return arguments + [flag for flag, wanted in flags.items() if wanted]


def _cpu_environment(cpu: machine.Cpu, environment: engine_env.Environment) -> dict[str, str]:
    variables = {"VLLM_USE_AOT_COMPILE": "0"}  # its cache never loads on a CPU (vLLM 0.32)
    if len(cpu.cores) < CORES_FOR_AUTO:
        variables["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cpu.cores))
    preload = [str(p) for p in (TCMALLOC, environment.prefix / "lib" / "libiomp5.so") if p.exists()]
    if preload:
        variables["LD_PRELOAD"] = ":".join(preload)
    return variables


def _check_memory(recipe: Recipe, model: Model, dtype: str) -> None:
    """Refuse what cannot fit, before the kernel's out-of-memory killer chooses what to stop."""
    if model.weight_bytes is None:
        return
    stored = DTYPE_BYTES.get(model.weight_dtype or "", 2)
    weights = model.weight_bytes * DTYPE_BYTES.get(dtype, stored) // stored
    kv = size_bytes(recipe.kv_cache_memory) if recipe.kv_cache_memory else 0
    needed, available = weights + kv + BASE_MEMORY_BYTES, machine.available_memory_bytes()
    if needed > available:
        raise Blocked(
            f"not enough memory for {model.name}: about {needed / 2**30:.1f} GiB needed "
            f"(weights {weights / 2**30:.1f}, KV cache {kv / 2**30:.1f}, engine "
            f"{BASE_MEMORY_BYTES / 2**30:.1f}), {available / 2**30:.1f} GiB available; "
            "lower kv_cache_memory in the recipe or free memory"
        )
