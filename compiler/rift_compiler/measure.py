"""Time of several ways to do one thing: warm, interleaved, medians with their spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Clock = Callable[[], float]
Run = Callable[[int], object]  # called with the number of the call: the buffers to use, if many

PASS_S = 2e-3  # a sample lasts at least this: the clock's own noise is some 1e-7 s
LONG_S = 1.0  # a call that takes this long is warm after one, and needs no many samples
ROUNDS = 5
FEWEST_ROUNDS = 3
MOST_ROUNDS = 101
BUDGET_S = 0.3


@dataclass(frozen=True)
class Timing:
    """Seconds a call: the median of the samples, and their quartiles."""

    median_s: float
    low_s: float
    high_s: float
    samples: int
    calls: int  # in each sample

    @property
    def spread(self) -> float:
        """The distance of the quartiles, relative to the median."""
        return (self.high_s - self.low_s) / self.median_s if self.median_s else 0.0


def timing(samples: Sequence[float], calls: int) -> Timing:
    """What samples (seconds a call) look like."""
    if len(samples) == 1:
        return Timing(samples[0], samples[0], samples[0], 1, calls)
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Timing(median, low, high, len(samples), calls)


def interleave(
    ways: Mapping[str, Run],
    budget_s: float = BUDGET_S,
    rounds: int = ROUNDS,
    clock: Clock = time.perf_counter,
) -> dict[str, Timing]:
    """Time each way: rounds in which each takes one sample, in turn, the first one changing.

    Stops after `rounds` rounds or when budget_s for each way is spent, whichever is later; after
    MOST_ROUNDS in any case, and after FEWEST_ROUNDS if calls are long. Calls are numbered on
    through all ways, so that one that uses buffer number % n finds none that the way before it has
    just used.
    """
    counter = _Counter()
    calls = {name: _calls(run, counter, clock) for name, run in ways.items()}
    samples: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    rounds = min(rounds, FEWEST_ROUNDS) if any(c.long for c in calls.values()) else rounds
    started = clock()
    for n in range(MOST_ROUNDS):
        for name in names[n % len(names) :] + names[: n % len(names)]:
            samples[name].append(_sample(ways[name], calls[name].number, counter, clock))
        if n + 1 >= rounds and clock() - started >= budget_s * len(names):
            break
    return {name: timing(samples[name], calls[name].number) for name in names}


@dataclass
class _Counter:
    """The number of the next call."""

    value: int = 0

    def next(self) -> int:
        self.value += 1
        return self.value - 1


@dataclass(frozen=True)
class _Calls:
    """How many calls make a sample, and whether one alone takes long."""

    number: int
    long: bool


def _calls(run: Run, counter: _Counter, clock: Clock) -> _Calls:
    """Call until it is warm."""
    taken = _sample(run, 1, counter, clock)
    if taken >= LONG_S:
        return _Calls(1, long=True)
    taken = min(taken, _sample(run, 1, counter, clock))
    return _Calls(max(1, min(10_000, round(PASS_S / max(taken, 1e-7)))), long=False)


def _sample(run: Run, calls: int, counter: _Counter, clock: Clock) -> float:
    numbers = [counter.next() for _ in range(calls)]
    before = clock()
    for n in numbers:
        run(n)
    return (clock() - before) / calls
