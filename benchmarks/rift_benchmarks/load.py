"""Closed loop: a fixed number of requests in flight, each sent when one has ended."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import uvloop

from rift_benchmarks import client, workload
from rift_benchmarks.client import Reply, Target, now
from rift_benchmarks.endpoint import Endpoint
from rift_benchmarks.requests_log import Phase, Record, record

TICK_S = 0.05
TICKS_A_SHOW = 10


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
    """A level's records, the share of one core that the client used, and its worst loop lag."""

    records: list[Record]
    cpu_share: float
    loop_lag_s: float


def run(
    endpoint: Endpoint,
    work: Phases,
    timeout_s: float,
    on_record: Callable[[Record], None],
    show: Callable[[Progress], None],
) -> Done:
    """Send work's requests and return their records, each given to on_record as it ends.

    on_record runs in a thread of its own, one call at a time; what it raises ends the level.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, _short_turns():
        cpu, wall = time.process_time(), time.perf_counter()
        level = _Level(endpoint, work, timeout_s, on_record, show)
        runner.run(level.run())
        used = (time.process_time() - cpu) / (time.perf_counter() - wall)
    return Done(level.records, round(used, 4), round(level.loop_lag_s, 4))


@contextmanager
def _short_turns() -> Iterator[None]:
    """Let threads take turns every half millisecond: parsing must not hold up a stamp."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class _Level:
    """One level under way: slots send requests, a thread turns replies into records."""

    def __init__(
        self,
        endpoint: Endpoint,
        work: Phases,
        timeout_s: float,
        on_record: Callable[[Record], None],
        show: Callable[[Progress], None],
    ) -> None:
        self.records: list[Record] = []
        self.loop_lag_s = 0.0
        self._work = work
        self._timeout_s = timeout_s
        self._on_record = on_record
        self._show = show
        self._target = Target.of(endpoint.url, endpoint.key)
        self._requests = _requests(endpoint, work, self._target)
        self._progress = Progress(work.phase, work.concurrency, work.requests, work.n_out)
        self._kept: list[asyncio.Future[None]] = []

    async def run(self) -> None:
        """Send everything; on return every record is kept. Raises what keeping one raised."""
        with ThreadPoolExecutor(1) as keeper:
            ticker = asyncio.create_task(self._tick())
            self._start = now()
            try:
                slots = (self._slot(keeper) for _ in range(self._work.concurrency))
                await asyncio.gather(*slots)
                for kept in self._kept:
                    await kept
            finally:
                ticker.cancel()
                self._show(self._progress)

    async def _slot(self, keeper: ThreadPoolExecutor) -> None:
        """Send the next request when the one before has ended, until none is left."""
        scheduled, loop = self._start, asyncio.get_running_loop()
        for request_id, request in self._requests:
            if any(kept.done() and kept.exception() for kept in self._kept):
                return  # records can no longer be kept: `run` raises why
            self._progress.in_flight += 1
            reply = await client.post(self._target, request, self._timeout_s, self._count)
            self._progress.in_flight -= 1
            self._kept.append(
                loop.run_in_executor(keeper, self._keep, request_id, scheduled, reply)
            )
            scheduled = reply.done

    def _keep(self, request_id: str, scheduled: float, reply: Reply) -> None:
        work = self._work
        tokens = (work.n_in, work.n_out)
        one = record(
            request_id, work.phase, work.concurrency, scheduled, reply, self._start, *tokens
        )
        self._on_record(one)
        self.records.append(one)
        self._progress.done += 1
        self._progress.failed += one.error is not None

    def _count(self, piece: bytes) -> None:
        self._progress.tokens += piece.count(b"data: {")

    async def _tick(self) -> None:
        """Show progress, and see how late the loop comes back to a sleeper: so late are stamps."""
        for tick in count():
            before = now()
            await asyncio.sleep(TICK_S)
            self.loop_lag_s = max(self.loop_lag_s, now() - before - TICK_S)
            if tick % TICKS_A_SHOW == 0:
                self._show(self._progress)


def _requests(endpoint: Endpoint, work: Phases, target: Target) -> Iterator[tuple[str, bytes]]:
    """The level's requests, shared by its slots: (id, bytes), built before any is sent."""
    built = []
    for number in range(work.requests):
        name = f"{work.nonce}-{work.phase}-c{work.concurrency}-{number}"
        body = workload.body(endpoint.model, endpoint.pool, name, work.n_in, work.n_out)
        built.append((name, target.request(name, body)))
    return iter(built)
