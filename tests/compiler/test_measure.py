"""Timing with a clock of the test's own, and the gate that compares results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

from rift_compiler.agree import agree
from rift_compiler.measure import MOST_ROUNDS, interleave, timing


@dataclass
class Machine:
    """A clock that only work moves, and a log of the work."""

    now: float = 0.0
    log: list[tuple[str, int]] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def way(self, name: str, takes_s: float) -> Callable[[int], object]:
        def run(n: int) -> None:
            self.now += takes_s
            self.log.append((name, n))

        return run


def test_medians_are_what_a_call_takes() -> None:
    m = Machine()
    times = interleave({"a": m.way("a", 1e-4), "b": m.way("b", 1e-2)}, clock=m.clock)

    assert times["a"].median_s == pytest.approx(1e-4)
    assert times["b"].median_s == pytest.approx(1e-2)
    assert times["a"].calls == 20  # fills a sample of 2 ms
    assert times["b"].calls == 1


def test_ways_take_turns_and_never_share_a_call_number() -> None:
    m = Machine()
    interleave({"a": m.way("a", 1e-2), "b": m.way("b", 1e-2)}, budget_s=0, rounds=4, clock=m.clock)

    order = "".join(name for name, _ in m.log[4:])  # after two warm calls each
    assert order == "abbaabba"
    assert [n for _, n in m.log] == list(range(len(m.log)))


def test_rounds_end_with_the_budget() -> None:
    m = Machine()
    times = interleave({"a": m.way("a", 0.1)}, budget_s=1.0, rounds=3, clock=m.clock)
    assert times["a"].samples == 10
    times = interleave({"a": m.way("a", 1e-9)}, budget_s=1e9, rounds=3, clock=m.clock)
    assert times["a"].samples == MOST_ROUNDS


def test_long_calls_are_few() -> None:
    m = Machine()
    times = interleave({"a": m.way("a", 2.0), "b": m.way("b", 1e-3)}, rounds=9, clock=m.clock)

    assert times["a"].samples == times["b"].samples == 3
    assert sum(name == "a" for name, _ in m.log) == 4


def test_quartiles() -> None:
    found = timing([5.0, 1.0, 2.0, 3.0, 4.0], 7)

    assert (found.low_s, found.median_s, found.high_s) == (2.0, 3.0, 4.0)
    assert found.spread == pytest.approx(2 / 3)
    assert timing([2.0], 1).spread == 0.0


def test_equal_but_for_rounding() -> None:
    x = torch.tensor([1.0, 1000.0, math.nan, math.inf])

    assert agree([x], [x.clone()]).right
    assert agree([x], [x + torch.tensor([1e-3, 0, 0, 0])]).right  # 1e-6 of the largest
    assert not agree([x], [x + torch.tensor([1.0, 0, 0, 0])]).right


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (torch.tensor([1, 2]), torch.tensor([1, 3])),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, math.nan])),
        (torch.tensor([1.0, math.inf]), torch.tensor([1.0, 2.0])),
        (torch.tensor([1.0, math.inf]), torch.tensor([1.0, -math.inf])),
        (torch.tensor([1.0]), torch.tensor([[1.0]])),
        (torch.tensor([1.0]), torch.tensor([1.0], dtype=torch.float64)),
        (torch.tensor([True]), torch.tensor([False])),
        (3, 4),
    ],
)
def test_different(ours: object, theirs: object) -> None:
    assert not agree([ours], [theirs]).right


def test_another_number_of_outputs_is_different() -> None:
    assert not agree([torch.ones(1)], []).right
    assert agree([], []).right
