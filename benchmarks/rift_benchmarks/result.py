"""The result document of the llm suite: plain data, one schema version, no NaN.

Every time is in seconds, every rate in tokens per second. A figure that cannot be known is null,
never 0. docs/metrics.md defines each in words.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter

SCHEMA = "rift.bench.llm/1"


@dataclass(frozen=True)
class Distribution:
    """What n samples look like. p90 is null under 10 samples, p99 under 100, all under one."""

    n: int
    mean: float | None
    median: float | None
    p90: float | None
    p99: float | None
    min: float | None
    max: float | None


@dataclass(frozen=True)
class Throughput:
    """Tokens per second over a stretch of time: the answers', and prompts + answers."""

    seconds: float
    output_tokens_per_s: float
    total_tokens_per_s: float


@dataclass(frozen=True)
class Cost:
    """Price of a million tokens at a level's steady throughput."""

    output_per_million: float
    total_per_million: float


@dataclass(frozen=True)
class Level:
    """One concurrency: its requests, rates and latencies. Warm-up requests are not in it."""

    concurrency: int
    requests: int
    completed: int
    failed: int
    failures: dict[str, int]
    first_failure: str | None
    waves: float
    too_short: bool
    steady: Throughput | None
    whole: Throughput | None
    little_bound_output_tokens_per_s: float | None
    ttft_s: Distribution
    ttft_from_schedule_s: Distribution
    tpot_s: Distribution
    gap_s: Distribution
    tokens_per_chunk: float | None
    e2e_s: Distribution
    cost: Cost | None = None
    prefix_cache_hit_tokens: int | None = None
    preemptions: int | None = None
    client_cpu_share: float | None = None
    client_loop_lag_s: float | None = None


@dataclass(frozen=True)
class Price:
    """What the machine costs and who says so."""

    per_hour: float
    currency: str
    provider: str
    date: str
    source: str


@dataclass(frozen=True)
class Result:
    """One run of the llm suite."""

    schema: Literal["rift.bench.llm/1"]
    run: str
    status: Literal["complete", "interrupted"]
    profile: str
    input_tokens: int
    output_tokens: int
    model: str
    endpoint: str
    deployment: str | None
    created: str
    price: Price | None
    notes: list[str]
    levels: list[Level]

    @property
    def failed(self) -> int:
        """Failed requests over all levels."""
        return sum(level.failed for level in self.levels)


_ADAPTER = TypeAdapter(Result)


def to_json(result: Result) -> str:
    """The document; raises ValueError rather than write NaN or Infinity."""
    return json.dumps(_ADAPTER.dump_python(result, mode="json"), indent=2, allow_nan=False) + "\n"


def from_json(text: str) -> Result:
    """Read a document of this schema version; raises pydantic.ValidationError for any other."""
    return _ADAPTER.validate_json(text)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the document (docs/llm-result.schema.json)."""
    return {**_ADAPTER.json_schema(), "$id": SCHEMA, "title": "rift llm benchmark result"}
