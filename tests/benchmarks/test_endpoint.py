"""What servers say of themselves: models, tokens, counters; and answers that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from rift.errors import Failed, WrongUsage
from rift_benchmarks import endpoint

MODELS: dict[str, Any] = {"data": [{"id": "m", "max_model_len": 4096}]}
TOKENS: dict[str, Any] = {"tokens": [*range(50), 7, 7]}
# Printed by prometheus_client for counters of the names and labels of vLLM 0.32.
METRICS = """# HELP vllm:prefix_cache_hits_total Prefix cache hits, in cached tokens.
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 16.0
vllm:prefix_cache_hits_total{engine="1",model_name="m"} 2.097152e+06
# HELP vllm:prefix_cache_hits_created Prefix cache hits, in cached tokens.
# TYPE vllm:prefix_cache_hits_created gauge
vllm:prefix_cache_hits_created{engine="0",model_name="m"} 1.7960736275665467e+09
# TYPE vllm:external_prefix_cache_hits_total counter
vllm:external_prefix_cache_hits_total{engine="0",model_name="m"} 7.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 3.0
"""
Serve = Callable[[dict[str, Any]], None]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """serve({path: answer}): every client of the module talks to this; 404 for other paths."""

    def install(answers: dict[str, Any]) -> None:
        def handle(request: httpx2.Request) -> httpx2.Response:
            answer = answers.get(request.url.path, 404)
            if isinstance(answer, int):
                return httpx2.Response(answer)
            return httpx2.Response(
                200, **({"text": answer} if isinstance(answer, str) else {"json": answer})
            )

        def client(url: str, key: str | None) -> httpx2.Client:
            return httpx2.Client(base_url=url, transport=httpx2.MockTransport(handle))

        monkeypatch.setattr(endpoint, "client", client)

    return install


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_a_server_like_vllms_is_known_by_its_base_url(
    url: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIFT_API_KEY", "k3y")
    serve({"/v1/models": MODELS, "/tokenize": TOKENS, "/version": {"version": "0.32.0"}})

    found = endpoint.connect(url, None, None)

    assert (found.url, found.model, found.key) == ("http://h:1", "m", "k3y")
    assert (found.context_length, found.engine_version) == (4096, "0.32.0")
    assert found.pool == tuple(range(50))


def test_what_a_server_does_not_say_is_none(serve: Serve) -> None:
    serve({"/v1/models": {"data": [{"id": "m"}]}, "/tokenize": TOKENS, "/version": "<html>"})

    found = endpoint.connect("http://h:1", None, None)

    assert (found.context_length, found.engine_version) == (None, None)
    assert endpoint.counters(found) == {}


def test_one_of_several_models_has_to_be_named(serve: Serve) -> None:
    serve({"/v1/models": {"data": [{"id": "a"}, {"id": "b"}]}, "/tokenize": TOKENS})

    with pytest.raises(WrongUsage, match=r"--model \(not given\): the server has a, b"):
        endpoint.connect("http://h:1", None, None)
    with pytest.raises(WrongUsage, match="--model c: the server has a, b"):
        endpoint.connect("http://h:1", "c", None)
    assert endpoint.connect("http://h:1", "b", None).model == "b"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({}, "/v1/models: expected 200, got 404"),
        ({"/v1/models": 401}, "wants an API key: give --api-key-file FILE or set RIFT_API_KEY"),
        ({"/v1/models": "<html>"}, "/v1/models: not OpenAI's answer"),
        ({"/v1/models": {"data": [{}]}}, "/v1/models: not OpenAI's answer"),
        ({"/v1/models": MODELS}, "/tokenize answered 404; exact prompts need the server's own"),
        ({"/v1/models": MODELS, "/tokenize": "<html>"}, "/tokenize: not vLLM's answer"),
        ({"/v1/models": MODELS, "/tokenize": {}}, "/tokenize: not vLLM's answer: KeyError"),
        ({"/v1/models": MODELS, "/tokenize": {"tokens": [1] * 99}}, "/tokenize gave 1 ids"),
    ],
)
def test_servers_that_cannot_be_measured(
    answers: dict[str, Any], message: str, serve: Serve
) -> None:
    serve(answers)

    with pytest.raises(Failed) as refused:
        endpoint.connect("http://h:1", None, None)

    assert message in str(refused.value)
    assert "http://h:1" in str(refused.value)


def test_counters_are_summed_over_engines(serve: Serve) -> None:
    serve({"/v1/models": MODELS, "/tokenize": TOKENS, "/metrics": METRICS})

    found = endpoint.counters(endpoint.connect("http://h:1", None, None))

    assert found == {"prefix_cache_hit_tokens": 16 + 2_097_152, "preemptions": 3}
