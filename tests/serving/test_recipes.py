"""Recipes: the shipped ones, and what is wrong with bad ones, field by field."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from rift import machine
from rift.errors import WrongUsage
from rift_serving import engine_env, launch, recipes, select_recipe
from rift_serving.models import Model
from rift_serving.recipes import load, parse, shipped

GOOD = """schema: rift.recipe/1
name: mine
model: smollm2-135m
hardware: {device: cpu}
"""


@pytest.mark.parametrize("name", list(shipped()))
def test_shipped_recipes_load_and_are_safe(name: str) -> None:
    recipe = load(name).recipe

    parallel = recipe.parallel
    assert recipe.name == name
    assert not recipe.trust_remote_code
    assert recipe.engine == "mock" or recipe.source
    assert parallel.tensor * parallel.pipeline * parallel.data == recipe.hardware.gpu_count


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (GOOD + "contxt_length: 5\n", "contxt_length", "unknown field; known: schema, name, desc"),
        (GOOD + "mock: {tttf: 1}\n", "mock.tttf", "known: ttft_ms, gap_ms"),
        (GOOD + "context_length: 0\n", "context_length", "greater than or equal to 1"),
        (GOOD + "parallel: {tensor: two}\n", "parallel.tensor", "valid integer"),
        (GOOD + "kv_cache_memory: 2GB\n", "kv_cache_memory", "match pattern"),
        (GOOD + "extra_args: [--port=1]\n", "extra_args", "rift deploy model --port"),
        (GOOD + "extra_args: [--max-model-len, '5']\n", "extra_args", "context_length"),
        (GOOD + "extra_args: [--max_model_len=5]\n", "extra_args", "context_length"),
        (GOOD + "extra_args: [--api_key=x]\n", "extra_args", "--api-key-file"),
        (GOOD + "extra_args: [--trust-remote]\n", "extra_args", "trust_remote_code"),
        (GOOD + "extra_args: [--hf-token, x]\n", "extra_args", "HF_TOKEN"),
        (GOOD.replace("cpu", "cuda") + "parallel: {tensor: 2}\n", "recipe", "2 GPUs used"),
        (GOOD + "environment: {'A=B': x}\n", "environment", "cannot stand in an environment"),
        (GOOD + "mock: {ttft_ms: .inf}\n", "mock.ttft_ms", "less than or equal"),
        (GOOD + "dtype: auto\ndtype: float32\n", "recipe.yaml", "'dtype' stands there twice"),
        (GOOD + "mock: {ttft_ms: 1}\n", "recipe", "need 'engine: mock'"),
        (GOOD + "engine: mock\nextra_args: [--x]\n", "recipe", "engine mock takes none"),
        (GOOD + "environment: {HF_TOKEN: x}\n", "environment", "HF_TOKEN looks like a secret"),
        (GOOD.replace("recipe/1", "recipe/2"), "schema", "rift.recipe/1"),
        (GOOD.replace("cpu", "tpu"), "hardware.device", "'cpu' or 'cuda'"),
        (GOOD.replace("name: mine", "name: Mine!"), "name", "match pattern"),
        ("[1, 2]", "recipe.yaml", "expected a mapping"),
        ("{", "recipe.yaml", "not YAML"),
        ("", "recipe.yaml", "expected a mapping"),
    ],
)
def test_bad_recipes_are_told_where(text: str, path: str, message: str) -> None:
    with pytest.raises(WrongUsage) as error:
        parse(text, "recipe.yaml")

    assert path in str(error.value)
    assert message in str(error.value)


def test_all_problems_come_together() -> None:
    with pytest.raises(WrongUsage) as error:
        parse(GOOD + "dtype: int3\nmax_concurrent_requests: -1\n", "recipe.yaml")

    assert "dtype" in str(error.value)
    assert "max_concurrent_requests" in str(error.value)


def test_an_unknown_recipe_lists_the_shipped(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="smollm2-135m-cpu"):
        load(str(tmp_path / "none.yaml"))


def test_the_default_model_has_its_recipe_and_others_get_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rift.machine.has_cuda", lambda: False)

    ours = select_recipe.select("smollm2-135m", None)
    plain = select_recipe.select("Qwen/Qwen3-0.6B", None)

    assert ours.recipe.name == "smollm2-135m-cpu"
    assert (plain.path, plain.recipe.name, plain.recipe.eager) == (None, "qwen3-0.6b", True)


@pytest.mark.parametrize(
    ("short", "full", "same"),
    [
        ("RTX 5090", "NVIDIA GeForce RTX 5090", True),
        ("RTX 5090", "NVIDIA GeForce RTX 5090 D", True),
        ("H200", "NVIDIA H200", True),
        ("H200", "NVIDIA GH200 480GB", False),
        ("RTX PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Server Edition", True),
        ("RTX PRO 6000 Max-Q", "NVIDIA RTX PRO 6000 Blackwell Server Edition", False),
    ],
)
def test_gpu_names(short: str, full: str, same: bool) -> None:
    assert select_recipe._same(short, full) is same


@pytest.mark.parametrize(("text", "size"), [("2GiB", 2**31), ("1.5KiB", 1536), ("512MiB", 2**29)])
def test_sizes(text: str, size: int) -> None:
    assert recipes.size_bytes(text) == size


@pytest.mark.engine
def test_the_engines_own_parser_takes_every_shipped_recipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """vLLM's argument parser reads each recipe's arguments back to the recipe's values."""
    environment = engine_env.find(engine_env.CPU)
    monkeypatch.setattr("rift.machine.nvidia_gpus", lambda: (machine.PciGpu("x", "nvidia"),) * 8)
    monkeypatch.setattr("rift_serving.engine_env.find", lambda _: environment)
    sources = [load(name).recipe for name in shipped()]
    launches = {
        recipe.name: launch.plan("x", recipe, Model("m", recipe.model, False), "127.0.0.1", 1)
        for recipe in sources
        if recipe.engine == "vllm"
    }
    program = (
        "import json, sys\n"
        "from vllm.entrypoints.launchers.cli_args import make_arg_parser\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
        "parser = make_arg_parser(FlexibleArgumentParser())\n"
        "keys = ('max_model_len', 'max_num_seqs', 'kv_cache_dtype', 'tensor_parallel_size',\n"
        "        'pipeline_parallel_size', 'enable_expert_parallel', 'trust_remote_code')\n"
        "read = {n: vars(parser.parse_args(a)) for n, a in json.load(sys.stdin).items()}\n"
        "print(json.dumps({n: {k: v[k] for k in keys} for n, v in read.items()}))\n"
    )

    done = subprocess.run(
        [environment.prefix / "bin" / "python", "-c", program],
        input=json.dumps({name: one.argv[2:] for name, one in launches.items()}),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    for recipe in (one for one in sources if one.engine == "vllm"):
        values = seen[recipe.name]
        assert values["max_model_len"] == recipe.context_length
        assert values["max_num_seqs"] == recipe.max_concurrent_requests
        assert values["kv_cache_dtype"] == (recipe.kv_cache_dtype or "auto")
        assert values["tensor_parallel_size"] == recipe.parallel.tensor
        assert values["pipeline_parallel_size"] == recipe.parallel.pipeline
        assert values["enable_expert_parallel"] == recipe.parallel.expert
        assert values["trust_remote_code"] is False
