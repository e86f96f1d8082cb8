"""The server under load: who it is, what it serves, what its counters say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from rift.errors import Blocked, Failed, WrongUsage
from rift_benchmarks.profiles import Profile
from rift_benchmarks.workload import token_pool
from rift_serving import Deployment, Served, api_key, client, find_deployment, list_deployments

URL = re.compile(r"https?://[^/\s@?#]+(/[^\s?#]*)?")
COUNTERS = {  # vLLM's /metrics, 0.32
    "prefix_cache_hit_tokens": r"^vllm:prefix_cache_hits_total(?:\{.*\})? (\S+)",
    "preemptions": r"^vllm:num_preemptions_total(?:\{.*\})? (\S+)",
}


@dataclass(frozen=True)
class Endpoint:
    """A server to load. `pool` are ordinary token ids of the model's vocabulary."""

    url: str
    model: str
    key: str | None
    deployment: Deployment | None
    context_length: int | None
    engine_version: str | None
    pool: tuple[int, ...]


def connect(where: str, model: str | None, key_file: Path | None) -> Endpoint:
    """Reach a URL or the deployment of that name and learn what is needed to load it.

    Raises WrongUsage for a name that is neither, Failed when the server does not answer.
    """
    deployment = None if "://" in where else _deployment(where)
    url = deployment.url if deployment else where.rstrip("/").removesuffix("/v1")
    if not URL.fullmatch(url) or not _has_port(url):
        raise WrongUsage(
            f"--endpoint {where!r}: expected http://HOST:PORT (no user, no query: the run keeps "
            "the URL) or a deployment's name"
        )
    if deployment is not None and key_file is None:
        key = api_key.read_again(deployment.key_source)  # not one that is meant for another server
    else:
        key, _ = api_key.read(key_file)
    try:
        with client(url, key) as http:
            served = _served(http, model)
            version = _json(http, "/version").get("version")
            pool = token_pool(http, served.name)
    except httpx2.InvalidURL as error:
        raise WrongUsage(f"--endpoint {where!r}: {error}") from error
    except httpx2.HTTPError as error:
        raise Failed(
            f"cannot load {url}: {error or type(error).__name__}; is the server up? "
            "rift deploy list shows those of this machine"
        ) from error
    return Endpoint(
        url=url,
        model=served.name,
        key=key,
        deployment=deployment,
        context_length=served.context_length,
        engine_version=version,
        pool=pool,
    )


def check_fits(endpoint: Endpoint, profile: Profile) -> None:
    """Raise Blocked when a request of the profile is longer than the served context."""
    needed = profile.input_tokens + profile.output_tokens
    if endpoint.context_length is not None and needed > endpoint.context_length:
        raise Blocked(
            f"profile {profile.name} needs a context of {needed} tokens, {endpoint.url} serves "
            f"{endpoint.context_length}; choose a smaller --profile, or let `rift bench --deploy "
            f"MODEL` raise it, or redeploy with --context {needed}"
        )


def counters(endpoint: Endpoint) -> dict[str, float]:
    """The server's counters now, as far as it has them."""
    try:
        with client(endpoint.url, endpoint.key) as http:
            text = http.get("/metrics").text
    except httpx2.HTTPError:
        return {}
    found = {}
    for name, pattern in COUNTERS.items():
        values = re.findall(pattern, text, re.MULTILINE)
        if values:
            found[name] = sum(float(value) for value in values)
    return found


def _has_port(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:  # not a number, or above 65535
        return False


def _deployment(name: str) -> Deployment:
    found = find_deployment(name)
    if found is None:
        known = (
            ", ".join(d.name for d in list_deployments())
            or "none yet: rift deploy model MODEL makes one"
        )
        raise WrongUsage(
            f"--endpoint {name!r}: neither a URL nor a deployment; deployments: {known}"
        )
    state = found.state()
    if state != "ready":
        raise Failed(f"deployment {name} is not ready but {state}; see: rift deploy logs {name}")
    return found


def _served(http: httpx2.Client, model: str | None) -> Served:
    response = http.get("/v1/models")
    if response.status_code in (401, 403):
        had = (
            "refused the API key it was given"
            if "Authorization" in http.headers
            else "wants an API key"
        )
        raise Failed(
            f"{http.base_url}: the server {had}: give --api-key-file FILE or set {api_key.VARIABLE}"
        )
    if response.status_code != httpx2.codes.OK:
        raise Failed(
            f"{http.base_url}/v1/models: expected 200, got {response.status_code}; "
            "is this an OpenAI-compatible server?"
        )
    try:
        data = response.json()["data"]
        models = {entry["id"]: Served(entry["id"], entry.get("max_model_len")) for entry in data}
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{http.base_url}/v1/models: not OpenAI's answer: {error!r}") from error
    if model is None and len(models) == 1:
        return next(iter(models.values()))
    if model is None or model not in models:
        raise WrongUsage(
            f"--model {model or '(not given)'}: the server has {', '.join(models) or 'no model'}"
        )
    return models[model]


def _json(http: httpx2.Client, path: str) -> dict[str, str]:
    try:
        response = http.get(path)
        data = response.json() if response.status_code == httpx2.codes.OK else {}
    except ValueError:
        data = {}
    return data if isinstance(data, dict) else {}
