"""Closed loop: a fixed number of requests in flight, each sent when one has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import uvloop

from rift_benchmarks import client, workload
from rift_benchmarks.client import Target, now
from rift_benchmarks.endpoint import Endpoint
from rift_benchmarks.requests_log import Phase, Record, record


@dataclass
class Progress:
    """What is true of a level right now; the loop writes it, a display reads it."""

    phase: Phase
    concurrency: int
    requests: int
    output_tokens: int
    in_flight: int = 0
    done: int = 0
    failed: int = 0
    tokens: int = 0


@dataclass(frozen=True)
class Phases:
    """What to send at one concurrency: `requests` of n_in + n_out tokens, all with one nonce."""

    phase: Phase
    concurrency: int
    requests: int
    n_in: int
    n_out: int
    nonce: str


@dataclass(frozen=True)
class Done:
    """A level's records and how much of one core the client itself used."""

    records: list[Record]
    cpu_share: float


def run(
    endpoint: Endpoint,
    work: Phases,
    timeout_s: float,
    on_record: Callable[[Record], None],
    show: Callable[[Progress], None],
) -> Done:
    """Send work's requests and return their records, each given to on_record as it ends."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        cpu, wall = time.process_time(), time.perf_counter()
        records = runner.run(_level(endpoint, work, timeout_s, on_record, show))
        used = (time.process_time() - cpu) / (time.perf_counter() - wall)
    return Done(records, round(used, 4))


async def _level(
    endpoint: Endpoint,
    work: Phases,
    timeout_s: float,
    on_record: Callable[[Record], None],
    show: Callable[[Progress], None],
) -> list[Record]:
    target = Target.of(endpoint.url, endpoint.key)
    progress = Progress(work.phase, work.concurrency, work.requests, work.n_out)
    records: list[Record] = []
    requests = _requests(endpoint, work, target)
    start = now()

    def on_piece(data: bytes) -> None:
        progress.tokens += data.count(b"data: {")

    async def slot() -> None:
        scheduled = start
        for request_id, request in requests:
            progress.in_flight += 1
            reply = await client.post(target, request, timeout_s, on_piece)
            progress.in_flight -= 1
            one = record(
                request_id, work.phase, work.concurrency, scheduled, reply, start,
                work.n_in, work.n_out,
            )  # fmt: skip
            scheduled = reply.done
            progress.done += 1
            progress.failed += one.error is not None
            records.append(one)
            on_record(one)

    ticker = asyncio.create_task(_tick(progress, show))
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(work.concurrency):
                group.create_task(slot())
    finally:
        ticker.cancel()
        show(progress)
    return records


def _requests(endpoint: Endpoint, work: Phases, target: Target) -> Iterator[tuple[str, bytes]]:
    """The level's requests, shared by its slots: (id, bytes), built before any is sent."""
    built = []
    for number in range(work.requests):
        name = f"{work.nonce}-{work.phase}-c{work.concurrency}-{number}"
        body = workload.body(endpoint.model, endpoint.pool, name, work.n_in, work.n_out)
        built.append((name, target.request(name, body)))
    return iter(built)


async def _tick(progress: Progress, show: Callable[[Progress], None]) -> None:
    for _ in count():
        show(progress)
        await asyncio.sleep(0.5)
