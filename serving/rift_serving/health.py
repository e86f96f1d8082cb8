"""Whether an engine really serves: /health, /v1/models, and one streamed token."""

from __future__ import annotations

import json
from dataclasses import dataclass

import httpx2

STEP_S = 5.0
TOKEN_S = 120.0  # a first token may have to compile kernels


class NotReady(Exception):
    """One of the three checks did not pass; the message says which and what came back."""


@dataclass(frozen=True)
class Served:
    """What /v1/models says of the model: its name and context length in tokens."""

    name: str
    context_length: int | None


def headers(key: str | None) -> dict[str, str]:
    """The authorization header of the OpenAI API."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def client(url: str, key: str | None) -> httpx2.Client:
    """A client for one engine; proxies of the environment are not used."""
    return httpx2.Client(base_url=url, headers=headers(key), timeout=STEP_S, trust_env=False)


def responds(url: str) -> bool:
    """Whether /health answers 200 now."""
    try:
        with client(url, None) as http:
            return http.get("/health").status_code == httpx2.codes.OK
    except httpx2.HTTPError:
        return False


def check(url: str, name: str, key: str | None, token_s: float = TOKEN_S) -> Served:
    """Return what is served under name; raises NotReady, after token_s without a token."""
    try:
        with client(url, key) as http:
            _expect_ok(http.get("/health"), "/health")
            served = _served(http.get("/v1/models"), name)
            _stream_one_token(http, name, min(token_s, TOKEN_S))
    except httpx2.HTTPError as error:
        raise NotReady(f"{url}: {error or type(error).__name__}") from error
    return served


def _expect_ok(response: httpx2.Response, what: str) -> None:
    if response.status_code != httpx2.codes.OK:
        raise NotReady(f"{what}: expected 200, got {response.status_code}: {response.text[:200]}")


def _served(response: httpx2.Response, name: str) -> Served:
    _expect_ok(response, "/v1/models")
    models = response.json()["data"]
    for model in models:
        if model["id"] == name:
            return Served(name, model.get("max_model_len"))
    raise NotReady(f"/v1/models: expected {name!r}, got {[m['id'] for m in models]}")


def _stream_one_token(http: httpx2.Client, name: str, patience_s: float) -> None:
    body = {"model": name, "prompt": "Hello", "max_tokens": 1, "stream": True}
    with http.stream("POST", "/v1/completions", json=body, timeout=patience_s) as response:
        if response.status_code != httpx2.codes.OK:
            response.read()
            _expect_ok(response, "/v1/completions")
        lines = [line for line in response.iter_lines() if line.startswith("data:")]
    events = [line.removeprefix("data:").strip() for line in lines]
    texts = [json.loads(event) for event in events if event != "[DONE]"]
    if "[DONE]" not in events or not any(event.get("choices") for event in texts):
        raise NotReady(f"/v1/completions: expected one streamed token, got {events[:3]}")
