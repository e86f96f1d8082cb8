"""What would be started, for machines that are not here."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from rift import machine
from rift.errors import Blocked, WrongUsage
from rift_serving import engine_env, launch
from rift_serving.models import Model
from rift_serving.recipes import Recipe, load, parse

SMOLLM = Model("smollm2-135m", "/models/smollm2-135m", True, 269_060_552, "bfloat16", 8192)
AVX2 = machine.Cpu("Zen 3", "x86_64", frozenset({"avx2"}), (0, 1))
AVX512_BF16 = machine.Cpu("Zen 4", "x86_64", AVX2.flags | {"avx512f", "avx512_bf16"}, (0, 1))


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that looks like an engine: only paths are read here."""
    prefix = tmp_path / "engine"
    monkeypatch.setattr(
        "rift_serving.engine_env.find", lambda _: engine_env.Environment(prefix, "0.32.0")
    )
    return prefix


def on(monkeypatch: pytest.MonkeyPatch, cpu: machine.Cpu, gib: float = 16) -> None:
    monkeypatch.setattr("rift.machine.cpu", lambda: cpu)
    monkeypatch.setattr("rift.machine.available_memory_bytes", lambda: int(gib * 2**30))


def planned(recipe: Recipe, model: Model = SMOLLM) -> launch.Launch:
    return launch.plan("mine", recipe, model, "127.0.0.1", 8000)


def value(argv: tuple[str, ...], option: str) -> str:
    return argv[argv.index(option) + 1]


@pytest.mark.parametrize(("cpu", "dtype"), [(AVX2, ["float32"]), (AVX512_BF16, [])])
def test_auto_dtype_is_float32_where_bfloat16_has_no_instructions(
    monkeypatch: pytest.MonkeyPatch, cpu: machine.Cpu, dtype: list[str]
) -> None:
    on(monkeypatch, cpu)

    argv = planned(load("smollm2-135m-cpu").recipe).argv

    assert [b for a, b in pairwise(argv) if a == "--dtype"] == dtype


def test_a_dtype_that_was_asked_for_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, AVX2)
    recipe = load("smollm2-135m-cpu").recipe.model_copy(update={"dtype": "bfloat16"})

    assert value(planned(recipe).argv, "--dtype") == "bfloat16"


def test_few_cores_are_all_bound_and_many_are_left_to_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = load("smollm2-135m-cpu").recipe

    on(monkeypatch, AVX2)
    few = planned(recipe).environment
    on(monkeypatch, machine.Cpu("big", "x86_64", AVX2.flags, tuple(range(16))))
    many = planned(recipe).environment

    assert few["VLLM_CPU_OMP_THREADS_BIND"] == "0,1"
    assert "VLLM_CPU_OMP_THREADS_BIND" not in many


def test_a_longer_context_than_trained_has_to_be_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, AVX2)
    longer = load("smollm2-135m-cpu").recipe.model_copy(update={"context_length": 16384})

    with pytest.raises(WrongUsage, match="trained for 8192"):
        planned(longer)
    meant = planned(longer.model_copy(update={"extend_context": True}))

    assert json.loads(value(meant.argv, "--hf-overrides")) == {"max_position_embeddings": 16384}
    assert any("means nothing" in note for note in meant.notes)


def test_a_cpu_recipe_without_a_context_takes_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, AVX2)
    recipe = load("smollm2-135m-cpu").recipe.model_copy(update={"context_length": None})

    assert value(planned(recipe).argv, "--max-model-len") == "auto"


def test_too_little_memory_is_refused_with_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, AVX2, gib=4)

    with pytest.raises(Blocked, match=r"about 5\.5 GiB needed .* 4\.0 GiB available"):
        planned(load("smollm2-135m-cpu").recipe)


def test_an_old_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, machine.Cpu("Ivy Bridge", "x86_64", frozenset({"avx"}), (0, 1)))

    with pytest.raises(Blocked, match="has no AVX2"):
        planned(load("smollm2-135m-cpu").recipe)


def test_a_gpu_recipe_without_the_gpus_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rift.machine.nvidia_gpus", lambda: (machine.PciGpu("x", "vfio-pci"),) * 8)

    with pytest.raises(Blocked, match=r"needs 8 x H200 .* this machine has 0"):
        planned(load("glm-4.6-fp8-h200x8").recipe)


def test_a_gpu_recipe_becomes_the_published_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rift.machine.nvidia_gpus", lambda: (machine.PciGpu("x", "nvidia"),) * 8)

    one = planned(load("glm-4.6-fp8-h200x8").recipe, Model("glm", "zai-org/GLM-4.6-FP8", False))

    assert value(one.argv, "--tensor-parallel-size") == "8"
    assert value(one.argv, "--kv-cache-dtype") == "fp8"
    assert "--trust-remote-code" not in one.argv
    assert "HF_HUB_OFFLINE" not in one.environment
    assert "LD_PRELOAD" not in one.environment


def test_the_shell_form_hides_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    on(monkeypatch, AVX2)

    shown = planned(load("smollm2-135m-cpu").recipe).shell(has_key=True)

    assert "VLLM_API_KEY=<the API key>" in shown


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("::1", "http://[::1]:8000"),
    ],
)
def test_a_wildcard_address_is_reached_over_loopback(bind: str, url: str) -> None:
    recipe = parse(
        "{schema: rift.recipe/1, name: m, model: m, engine: mock, hardware: {device: cpu}}", "x"
    )

    assert launch.plan("m", recipe, Model("m", "", True), bind, 8000).url == url
