"""The figures against their definitions, the standard library's quantiles and published runs."""

from __future__ import annotations

import random
import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rift_benchmarks import metrics
from rift_benchmarks.metrics import level
from rift_benchmarks.requests_log import Record
from rift_benchmarks.result import Distribution, Level

STEADY = settings(deadline=None, derandomize=True)
SAMPLES = st.lists(st.floats(1e-6, 1e3), min_size=2, max_size=200)


def request(
    sent: float, ttft: float, gap: float, n_out: int, per_chunk: int = 1, **change: Any
) -> Record:
    """A good request: a chunk every `gap` from sent + ttft on, over with its last chunk."""
    chunks = tuple(sent + ttft + gap * i for i in range(-(-n_out // per_chunk)))
    one = Record("r", "measure", 1, sent, sent, chunks[-1], 10, n_out, chunks)
    return replace(one, **change)


def lasting(sent: float, done: float) -> Record:
    return Record("r", "measure", 1, sent, sent, done, 10, 2, (done, done))


def closed_loop(slots: int, waves: int, ttft: float, gap: float, n_out: int) -> list[Record]:
    """Slots in lock-step, each sending its next request when the last is over."""
    lasts = ttft + gap * (n_out - 1)
    return [request(wave * lasts, ttft, gap, n_out) for wave in range(waves) for _ in range(slots)]


@st.composite
def loads(draw: st.DrawFn) -> tuple[list[Record], int]:
    """A closed loop with requests of any duration, some of them failed, and its concurrency."""
    slots = draw(st.integers(1, 5))
    records = []
    for _ in range(slots):
        now = 0.0
        for _ in range(draw(st.integers(1, 4))):
            ttft, gap = draw(st.floats(0.01, 2.0)), draw(st.floats(0.001, 0.5))
            one = request(now, ttft, gap, draw(st.integers(2, 12)))
            failed = draw(st.booleans())
            records.append(replace(one, error="e", error_kind="k") if failed else one)
            now = one.done_s
    return records, slots


@STEADY
@given(SAMPLES)
def test_quantiles_are_those_of_the_standard_library(samples: list[float]) -> None:
    hundredths = statistics.quantiles(samples, n=100, method="inclusive")

    found = metrics.distribution(samples)

    assert found.n == len(samples)
    assert found.mean == pytest.approx(statistics.fmean(samples))
    assert found.median == pytest.approx(statistics.median(samples))
    assert found.p90 == (pytest.approx(hundredths[89]) if len(samples) >= 10 else None)
    assert found.p99 == (pytest.approx(hundredths[98]) if len(samples) >= 100 else None)
    assert (found.min, found.max) == (min(samples), max(samples))


def test_no_samples_are_nulls_and_never_zero() -> None:
    found = metrics.distribution([])

    assert found == Distribution(0, None, None, None, None, None, None)


@pytest.mark.parametrize(("n", "p99"), [(1, None), (99, None), (100, pytest.approx(98.01))])
def test_p99_takes_100_samples(n: int, p99: float | None) -> None:
    found = metrics.distribution(float(i) for i in range(n))

    assert found.p99 == p99
    assert found.median == (n - 1) / 2


@pytest.mark.parametrize(
    ("one", "seconds"),
    [
        (request(0, 0.3, 0.01, 20), 0.01),
        # research of 2026-11: true 10 ms, where vllm bench and guidellm say 8.6 and vllm-rs 9.0
        (request(0, 0.3, 0.04, 20, per_chunk=4), 0.01),
        # aiperf#1279: a first chunk of many tokens must not make the others look faster
        (Record("r", "measure", 1, 0, 0, 9, 1, 16, (1.0, 9.0)), 1.0),
        (request(5, 0.3, 2.0, 2), 2.0),
    ],
    ids=["one a chunk", "four a chunk", "eight a chunk", "two tokens"],
)
def test_tpot_is_the_time_after_the_first_chunk_over_the_tokens_after_it(
    one: Record, seconds: float
) -> None:
    assert metrics.tpot(one) == pytest.approx(seconds)


def test_latencies_of_one_request_by_hand() -> None:
    one = request(2.0, 0.5, 0.1, 11, scheduled_s=1.5, done_s=9.0)

    got = level([one], 1)

    assert got.ttft_s.median == pytest.approx(0.5)
    assert got.ttft_from_schedule_s.median == pytest.approx(1.0)
    assert got.tpot_s.median == pytest.approx(0.1)
    assert got.e2e_s.median == pytest.approx(1.5)
    assert got.gap_s.n == 10
    assert got.gap_s.mean == pytest.approx(0.1)
    assert got.whole is not None
    assert got.whole.seconds == pytest.approx(7.0)


def test_a_stall_shows_in_the_gaps_though_tpot_hides_it() -> None:
    chunks = (*(0.01 * i for i in range(10)), 1.09)
    got = level([Record("r", "measure", 1, 0, 0, 1.1, 1, 11, chunks)], 1)

    assert got.gap_s.max == pytest.approx(1.0)
    assert got.tpot_s.max == pytest.approx(0.109)


@pytest.mark.parametrize(
    ("records", "concurrency", "window"),
    [
        ([lasting(0, 10), lasting(0, 4), lasting(4, 8)], 2, (0, 8)),
        ([lasting(0, 9), lasting(2, 8), lasting(3, 7)], 3, (3, 7)),
        # a dip between two requests is part of the window: sending takes a moment
        ([lasting(0, 10), lasting(0, 4), lasting(4.5, 8)], 2, (0, 8)),
        # 19 of 20 in flight are 95 %
        ([lasting(0, 5), *(lasting(0, 10) for _ in range(19))], 20, (0, 10)),
        ([lasting(0, 5), lasting(0, 5), *(lasting(0, 10) for _ in range(18))], 20, (0, 5)),
        ([lasting(0, 1)], 2, None),
        ([lasting(0, 4), lasting(4, 8)], 2, None),
        ([], 1, None),
    ],
    ids=["drain", "ramp", "dip", "19 of 20", "18 of 20", "too few", "one by one", "empty"],
)
def test_the_steady_window_leaves_ramp_and_drain_out(
    records: list[Record], concurrency: int, window: tuple[float, float] | None
) -> None:
    assert metrics.steady_window(records, concurrency) == window


def test_throughput_counts_the_tokens_inside_the_window() -> None:
    one = request(0, 1.0, 1.0, 10, input_tokens=100)

    inside = metrics.throughput([one], (0.5, 5.5))
    after_the_first = metrics.throughput([one], (1.5, 6.5))

    assert inside is not None
    assert after_the_first is not None
    assert (inside.seconds, inside.output_tokens_per_s) == (5.0, 1.0)
    assert inside.total_tokens_per_s == pytest.approx((5 + 100) / 5)
    assert after_the_first.total_tokens_per_s == after_the_first.output_tokens_per_s == 1.0


def test_throughput_counts_tokens_and_not_chunks() -> None:
    rate = metrics.throughput([request(0, 1.0, 1.0, 40, per_chunk=4)], (0.0, 10.0))

    assert rate is not None
    assert rate.output_tokens_per_s == pytest.approx(4.0)


@pytest.mark.parametrize("window", [None, (1.0, 1.0), (2.0, 1.0)])
def test_no_window_is_no_throughput(window: tuple[float, float] | None) -> None:
    assert metrics.throughput([request(0, 1, 1, 4)], window) is None


@pytest.mark.parametrize(("slots", "waves"), [(1, 4), (4, 4), (8, 10)])
def test_a_lock_step_loop_delivers_littles_bound(slots: int, waves: int) -> None:
    got = level(closed_loop(slots, waves, ttft=0.5, gap=0.05, n_out=31), slots)

    assert got.little_bound_output_tokens_per_s == pytest.approx(slots * 31 / 2.0)
    assert got.steady is not None
    assert got.steady.output_tokens_per_s == pytest.approx(got.little_bound_output_tokens_per_s)


@pytest.mark.parametrize(
    ("reported", "concurrency", "ttft_ms", "tpot_ms", "share"),
    [
        (1278.01, 64, 98239.82, 23.22, 0.71),
        (1164.31, 64, 147152.58, 26.45, 0.82),
        (3219.21, 256, 37167.53, 61.46, 0.83),
        (4837.62, 256, 46626.59, 39.26, 0.85),
    ],
    ids=["H100 GLM-4.5-Air", "H100 Qwen3-Coder-480B", "B200 Qwen3-Coder-480B", "B200 GLM-4.5-Air"],
)
def test_published_runs_of_two_waves_stay_below_the_bound(
    reported: float, concurrency: int, ttft_ms: float, tpot_ms: float, share: float
) -> None:
    """Deplodock's pro6000_h100_h200_b200_01_2026, 8,000 tokens out; shares: research section B4."""
    mean = request(0, ttft_ms / 1e3, tpot_ms / 1e3, 8000)

    bound = level([mean], concurrency).little_bound_output_tokens_per_s

    assert bound is not None
    assert round(reported / bound, 2) == share


def test_failures_are_counted_by_kind_and_left_out_of_every_figure() -> None:
    good = closed_loop(2, 2, ttft=0.5, gap=0.1, n_out=6)
    bad = [
        request(0, 50.0, 9.0, 6, error="HTTP 429: slow down", error_kind="http 429"),
        request(0, 60.0, 9.0, 6, error="HTTP 429: again", error_kind="http 429"),
        request(0, 70.0, 9.0, 6, error="gone", error_kind="broken"),
    ]

    got = level([*bad, *good], 2)

    assert (got.completed, got.failed) == (4, 3)
    assert got.failures == {"http 429": 2, "broken": 1}
    assert got.first_failure == "HTTP 429: slow down"
    assert got.ttft_s.n == 4
    assert got.ttft_s.max == pytest.approx(0.5)
    assert got.little_bound_output_tokens_per_s == level(good, 2).little_bound_output_tokens_per_s


def test_nothing_but_failures_is_nulls() -> None:
    got = level([request(0, 1, 1, 4, error="gone", error_kind="broken")] * 4, 1)

    assert (got.completed, got.failed) == (0, 4)
    assert (got.steady, got.whole, got.little_bound_output_tokens_per_s) == (None, None, None)
    assert got.ttft_s == got.tpot_s == got.gap_s == got.e2e_s == metrics.distribution([])


@pytest.mark.parametrize(("waves", "too_short"), [(1, True), (3, True), (4, False), (10, False)])
def test_fewer_than_four_waves_are_too_short(waves: int, too_short: bool) -> None:
    got = level(closed_loop(4, waves, 0.1, 0.1, 4), 4)

    assert (got.waves, got.too_short) == (waves, too_short)


@STEADY
@given(loads())
def test_no_window_holds_more_tokens_than_came(load: tuple[list[Record], int]) -> None:
    records, slots = load
    good = [r for r in records if r.error is None]

    got = level(records, slots)

    came = sum(r.output_tokens or 0 for r in good)
    for rate in (got.steady, got.whole):
        if rate is not None:
            assert rate.output_tokens_per_s * rate.seconds <= came + 1e-6
            assert rate.total_tokens_per_s >= rate.output_tokens_per_s
    if got.steady and got.whole:
        assert got.steady.seconds <= got.whole.seconds
        assert got.whole.output_tokens_per_s * got.whole.seconds == pytest.approx(came)


@STEADY
@given(loads(), st.randoms(use_true_random=False))
def test_the_order_of_the_records_does_not_matter(
    load: tuple[list[Record], int], dice: random.Random
) -> None:
    records, slots = load
    shuffled = dice.sample(records, k=len(records))

    assert numbers(level(shuffled, slots)) == pytest.approx(numbers(level(records, slots)))


def numbers(got: Level) -> dict[str, float | None]:
    """Every number of the figures by its name."""
    found: dict[str, float | None] = {"failures": float(sum(got.failures.values()))}
    for name in ("ttft_s", "ttft_from_schedule_s", "tpot_s", "gap_s", "e2e_s", "steady", "whole"):
        part = getattr(got, name)
        found |= {f"{name}.{k}": v for k, v in (vars(part) if part else {}).items()}
    return found | {"waves": got.waves, "little_bound": got.little_bound_output_tokens_per_s}
