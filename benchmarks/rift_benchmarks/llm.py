"""The llm suite: load an endpoint at each concurrency, write a run, return its result."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rift.errors import Failed
from rift_benchmarks import cost, endpoint, load, metrics, report, run_directory
from rift_benchmarks import result as result_document
from rift_benchmarks.endpoint import Endpoint
from rift_benchmarks.load import Phases, Progress
from rift_benchmarks.profiles import Profile
from rift_benchmarks.requests_log import Record
from rift_benchmarks.result import Level, Price, Result
from rift_benchmarks.run_directory import Run
from rift_serving.mock_engine import VERSION as MOCK_VERSION

WARMUP_TOKENS = 16  # enough to have run every kernel of a decode step


@dataclass(frozen=True)
class Plan:
    """What a run will do."""

    profile: Profile
    price: Price | None
    timeout_s: float


def run(
    target: Endpoint, plan: Plan, say: Callable[[str], None], show: Callable[[Progress], None]
) -> tuple[Run, Result]:
    """Measure every concurrency of the plan; the run is on disk whatever happens after.

    An interruption is raised again once what was measured has been written.
    """
    endpoint.check_fits(target, plan.profile)
    run = run_directory.create("llm", plan.profile.name)
    nonce = run.id.rpartition("-")[2] + run.created
    manifest = {
        "run": run.id,
        "suite": "llm",
        "status": "running",
        "profile": asdict(plan.profile),
        "price": asdict(plan.price) if plan.price else None,
        "nonce": nonce,
        "timeout_s": plan.timeout_s,
        "notes": _notes(target, plan),
        "endpoint": _describe(target),
        **run_directory.describe(),
    }
    run_directory.write_json(run.manifest, manifest)
    levels: list[Level] = []
    try:
        for concurrency in plan.profile.concurrencies:
            levels.append(_level(run, target, plan, concurrency, nonce, say, show))
    except BaseException as error:
        stopped = f"stopped at concurrency {concurrency}: {str(error) or 'interrupted'}"
        with contextlib.suppress(OSError):  # a full disk is not to hide what came first
            _finish(run, manifest, target, plan, levels, "interrupted", [stopped])
            say(f"{stopped}\nwhat had ended is kept: {run.report if levels else run.requests}")
        raise
    return run, _finish(run, manifest, target, plan, levels, "complete", [])


def _level(
    run: Run,
    target: Endpoint,
    plan: Plan,
    concurrency: int,
    nonce: str,
    say: Callable[[str], None],
    show: Callable[[Progress], None],
) -> Level:
    profile = plan.profile
    n_in, n_out = profile.input_tokens, profile.output_tokens
    with run.requests.open("a", encoding="utf-8") as file:

        def keep(record: Record) -> None:
            print(json.dumps(asdict(record), allow_nan=False), file=file, flush=True)

        say(f"concurrency {concurrency}: warming up")
        few = min(WARMUP_TOKENS, n_out)
        warm = Phases("warmup", concurrency, concurrency, n_in, few, nonce)
        warmed = load.run(target, warm, plan.timeout_s, keep, show).records
        if all(record.error for record in warmed):
            raise Failed(f"{target.url}: every warm-up request failed: {warmed[0].error}")
        say(f"concurrency {concurrency}: measuring, {profile.requests_at(concurrency)} in all")
        before = endpoint.counters(target)
        work = Phases("measure", concurrency, profile.requests_at(concurrency), n_in, n_out, nonce)
        done = load.run(target, work, plan.timeout_s, keep, show)
        after = endpoint.counters(target)
    return _summary(done, concurrency, plan.price, before, after)


def _summary(
    done: load.Done,
    concurrency: int,
    price: Price | None,
    before: dict[str, float],
    after: dict[str, float],
) -> Level:
    level = metrics.level(done.records, concurrency)
    counted = {key: int(after[key] - before[key]) for key in after if key in before}
    return replace(
        level,
        cost=cost.per_million(price, level.steady),
        prefix_cache_hit_tokens=counted.get("prefix_cache_hit_tokens"),
        preemptions=counted.get("preemptions"),
        client_cpu_share=done.cpu_share,
        client_loop_lag_s=done.loop_lag_s,
    )


def _finish(
    run: Run,
    manifest: dict[str, Any],
    target: Endpoint,
    plan: Plan,
    levels: list[Level],
    status: Literal["complete", "interrupted"],
    notes: list[str],
) -> Result:
    result = Result(
        schema="rift.bench.llm/1",
        run=run.id,
        status=status,
        profile=plan.profile.name,
        input_tokens=plan.profile.input_tokens,
        output_tokens=plan.profile.output_tokens,
        model=target.model,
        endpoint=target.url,
        deployment=target.deployment.name if target.deployment else None,
        created=run.created,
        price=plan.price,
        notes=[*manifest["notes"], *notes, *_findings(levels)],
        levels=levels,
    )
    run_directory.write_text(run.result, result_document.to_json(result))
    run_directory.write_json(run.manifest, {**manifest, "status": status})
    run_directory.write_text(run.report, report.page(run, result))
    if target.deployment is not None:
        run_directory.keep_log(run, Path(target.deployment.log))
    return result


def _notes(target: Endpoint, plan: Plan) -> list[str]:
    """What a reader has to know before the figures."""
    notes = []
    if target.engine_version == MOCK_VERSION:
        notes.append("the endpoint is the mock engine: these are no figures of a model")
    deployed = target.deployment
    if deployed is None:
        return notes
    notes += deployed.notes
    each = plan.profile.input_tokens + plan.profile.output_tokens
    capacity = deployed.kv_cache_tokens
    for concurrency in plan.profile.concurrencies:
        if capacity is not None and capacity < concurrency * each:
            notes.append(
                f"concurrency {concurrency}: the KV cache holds {capacity} tokens, that is "
                f"{capacity // each} such requests; the others wait"
            )
    return notes


def _findings(levels: list[Level]) -> list[str]:
    """What the figures themselves warn of."""
    notes = []
    for level in levels:
        at = f"concurrency {level.concurrency}"
        if level.too_short:
            notes.append(f"{at}: too short ({level.waves:g} waves of requests, 4 or more are due)")
        if level.prefix_cache_hit_tokens:
            notes.append(f"{at}: {level.prefix_cache_hit_tokens} prompt tokens came from a cache")
        if level.preemptions:
            notes.append(f"{at}: the engine preempted {level.preemptions} requests")
    return notes


def _describe(target: Endpoint) -> dict[str, Any]:
    """The endpoint as the manifest keeps it: without its key."""
    deployment = asdict(target.deployment) if target.deployment else None
    return {
        "url": target.url,
        "model": target.model,
        "context_length": target.context_length,
        "engine_version": target.engine_version,
        "token_pool": len(target.pool),
        "deployment": deployment,
    }
