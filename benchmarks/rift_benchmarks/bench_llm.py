"""One `rift bench --suite llm`: deploy if asked, load, write the run, stop what was deployed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rift_benchmarks import endpoint, llm
from rift_benchmarks.load import Progress
from rift_benchmarks.profiles import Profile
from rift_benchmarks.result import Price, Result
from rift_benchmarks.run_directory import Run
from rift_serving import deployment, local

Say = Callable[[str], None]
START_S = 1800.0  # how long an engine may take to come up: large weights load slowly


@dataclass(frozen=True)
class Job:
    """What to measure: a running endpoint, or a model to deploy for it."""

    endpoint: str | None
    deploy: str | None
    recipe: str | None
    model: str | None
    profile: Profile
    price: Price | None
    api_key_file: Path | None
    timeout_s: float


def execute(job: Job, say: Say, show: Callable[[str], None]) -> tuple[Run, Result]:
    """Measure and return the run; a deployment made for it is gone afterwards, whatever happens."""
    with _server(job, say, show) as where:
        target = endpoint.connect(where, job.model, job.api_key_file)
        plan = llm.Plan(job.profile, job.price, job.timeout_s)
        return llm.run(target, plan, say, lambda progress: show(_line(progress)))


@contextmanager
def _server(job: Job, say: Say, show: Callable[[str], None]) -> Iterator[str]:
    if job.deploy is None:
        assert job.endpoint is not None
        yield job.endpoint
        return
    name = f"bench-{os.getpid()}"
    needed = job.profile.input_tokens + job.profile.output_tokens
    request = local.Request(
        model=job.deploy,
        recipe=job.recipe,
        name=name,
        api_key_file=job.api_key_file,
        needed_context=needed,
    )
    launch = local.plan(request, say)
    say(f"starting {job.deploy}")
    for note in launch.notes:
        say(f"note: {note}")
    made = deployment.deploy(launch, job.api_key_file, START_S, show, lives_with_launcher=True)
    try:
        say(f"{job.deploy} serves at {made.url} after {made.ready_seconds} s")
        yield name
    finally:
        if deployment.find(name) is not None:  # else it was stopped from elsewhere
            deployment.stop(name)


def _line(progress: Progress) -> str:
    return (
        f"concurrency {progress.concurrency}, {progress.phase}: {progress.done} of "
        f"{progress.requests} requests, {progress.in_flight} in flight, {progress.tokens} tokens"
        + (f", {progress.failed} FAILED" if progress.failed else "")
    )
