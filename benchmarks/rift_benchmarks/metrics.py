"""Figures of one level from its records. Pure: the same records give the same figures.

The definitions are docs/metrics.md, with the same words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from rift_benchmarks.profiles import WAVES
from rift_benchmarks.requests_log import Record
from rift_benchmarks.result import Distribution, Level, Throughput

P90_SAMPLES, P99_SAMPLES = 10, 100  # fewer make the quantile the worst of them or invent it
STEADY_SHARE = 0.95  # of the target concurrency (the rule of vLLM's own steady-state window)


def level(records: Sequence[Record], concurrency: int) -> Level:
    """All that records say of their level: its measured requests, warm-up left out.

    What they cannot say (cost, the server's counters, the client's own load) is None.
    """
    good = [r for r in records if r.error is None]
    bad = [r for r in records if r.error is not None]
    e2e = [r.chunks_s[-1] - r.sent_s for r in good]
    waves = len(records) / concurrency
    little = None
    if good:
        mean_out = float(np.mean([r.output_tokens or 0 for r in good]))
        little = concurrency * mean_out / float(np.mean(e2e))
    return Level(
        concurrency=concurrency,
        requests=len(records),
        completed=len(good),
        failed=len(bad),
        failures=dict(Counter(r.error_kind or "unknown" for r in bad)),
        first_failure=bad[0].error if bad else None,
        waves=waves,
        too_short=waves < WAVES,
        steady=throughput(good, steady_window(records, concurrency)),
        whole=throughput(good, whole_window(records)),
        little_bound_output_tokens_per_s=little,
        ttft_s=distribution(r.chunks_s[0] - r.sent_s for r in good),
        ttft_from_schedule_s=distribution(r.chunks_s[0] - r.scheduled_s for r in good),
        tpot_s=distribution(tpot(r) for r in good),
        gap_s=distribution(
            later - sooner
            for r in good
            for sooner, later in zip(r.chunks_s, r.chunks_s[1:], strict=False)
        ),
        tokens_per_chunk=float(np.mean([tokens_per_chunk(r) for r in good])) if good else None,
        e2e_s=distribution(e2e),
    )


def tpot(record: Record) -> float:
    """Seconds per output token after the first chunk: (last - first) / (n_out - n_first_chunk)."""
    n_out = record.output_tokens or 0
    return (record.chunks_s[-1] - record.chunks_s[0]) / (n_out - tokens_per_chunk(record))


def tokens_per_chunk(record: Record) -> float:
    """Tokens of the answer, spread evenly over its chunks: chunks are not tokens."""
    return (record.output_tokens or 0) / len(record.chunks_s)


def in_flight(records: Iterable[Record]) -> list[tuple[float, int]]:
    """(time, requests in flight from then on), sorted; ends before starts at equal times."""
    changes = sorted((at, step) for r in records for at, step in ((r.sent_s, 1), (r.done_s, -1)))
    steps, count = [], 0
    for at, step in changes:
        count += step
        steps.append((at, count))
    return steps


def steady_window(records: Sequence[Record], concurrency: int) -> tuple[float, float] | None:
    """From the first to the last moment with STEADY_SHARE of the target in flight.

    In a closed loop the gaps in between last only as long as sending the next request.
    """
    steps = in_flight(records)
    enough = [i for i, (_, count) in enumerate(steps) if count >= STEADY_SHARE * concurrency]
    if not enough:
        return None
    return steps[enough[0]][0], steps[enough[-1] + 1][0]


def whole_window(records: Sequence[Record]) -> tuple[float, float] | None:
    """From the first send to the last end."""
    if not records:
        return None
    return min(r.sent_s for r in records), max(r.done_s for r in records)


def throughput(good: Sequence[Record], window: tuple[float, float] | None) -> Throughput | None:
    """Tokens whose stamps fall into the window, over its length.

    A prompt's tokens count when its first answer token comes: then they have been processed.
    """
    if window is None or not good or window[1] <= window[0]:
        return None
    start, end = window
    out = sum(tokens_per_chunk(r) * sum(start <= at <= end for at in r.chunks_s) for r in good)
    prompts = sum(r.input_tokens or 0 for r in good if start <= r.chunks_s[0] <= end)
    seconds = end - start
    return Throughput(seconds, out / seconds, (out + prompts) / seconds)


def distribution(samples: Iterable[float]) -> Distribution:
    """Mean, quantiles (linear between samples) and range; null where there are too few."""
    values = np.fromiter(samples, dtype=np.float64)
    if values.size == 0:
        return Distribution(0, None, None, None, None, None, None)
    median, p90, p99 = (float(q) for q in np.quantile(values, (0.5, 0.9, 0.99)))
    return Distribution(
        n=int(values.size),
        mean=float(values.mean()),
        median=median,
        p90=p90 if values.size >= P90_SAMPLES else None,
        p99=p99 if values.size >= P99_SAMPLES else None,
        min=float(values.min()),
        max=float(values.max()),
    )
