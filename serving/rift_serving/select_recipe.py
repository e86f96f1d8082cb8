"""Which recipe serves a model on this machine, when none or only a name is given."""

from __future__ import annotations

import re
import subprocess

from rift import machine
from rift.errors import WrongUsage
from rift_serving.recipes import SCHEMA, Recipe, Source, load, shipped


def select(model: str, given: str | None) -> Source:
    """The given recipe, else the shipped one for this model and hardware, else plain defaults.

    Raises WrongUsage when several shipped recipes fit: the user has to choose.
    """
    if given is not None:
        return load(given)
    device = "cuda" if machine.has_cuda() else "cpu"
    gpus = _gpu_names() if device == "cuda" else []
    fitting = [
        source
        for source in map(load, shipped())
        if source.recipe.model == model and _fits(source.recipe, device, gpus)
    ]
    if len(fitting) > 1:
        names = ", ".join(source.recipe.name for source in fitting)
        raise WrongUsage(f"several recipes serve {model} here: {names}; choose with --recipe")
    return fitting[0] if fitting else Source(_plain(model, device), None)


def _fits(recipe: Recipe, device: str, gpus: list[str]) -> bool:
    if recipe.engine == "mock":
        return True
    hardware = recipe.hardware
    if hardware.device != device:
        return False
    matching = [name for name in gpus if hardware.gpu is None or _same(hardware.gpu, name)]
    return device == "cpu" or len(matching) == hardware.gpu_count


def _same(short: str, full: str) -> bool:
    """Whether a recipe's GPU ("RTX PRO 6000") is nvidia-smi's product name, word by word."""
    words = full.lower().split()
    return all(word in words for word in short.lower().split())


def _gpu_names() -> list[str]:
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return []  # no nvidia-smi: no recipe fits by name, the defaults do
    return done.stdout.splitlines() if done.returncode == 0 else []


def _plain(model: str, device: str) -> Recipe:
    """The engine's defaults. On a CPU also eager, since compiling takes minutes at every start, and
    with a KV cache of a stated size, since vLLM's default there is nearly all of the memory.
    """
    name = re.sub(r"[^a-z0-9._-]+", "-", model.lower().rstrip("/").rpartition("/")[2]).strip("-._")
    return Recipe.model_validate(
        {
            "schema": SCHEMA,
            "name": name[:60] or "model",
            "model": model,
            "hardware": {"device": device},
            **({"eager": True, "kv_cache_memory": "4GiB"} if device == "cpu" else {}),
        }
    )
