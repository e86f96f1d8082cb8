"""Two lists that a loop can't tell apart, and what comes before them that tells them apart.

The third homomorphism theorem (J. Gibbons, "The third homomorphism theorem", Journal of Functional
Programming 6(4), 1996): partial results of a left fold h can be combined if and only if
h(ys) = h(ys') implies h(xs ++ ys) = h(xs ++ ys'). (After ys and ys', a left fold agrees anyway.)
So one pair ys, ys' and one xs refute every combine of these states.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product

import mpmath

from rift_compiler.algebra.arithmetic import DIGITS, EXACT, HIGH, MANY_DIGITS, State, Value, same
from rift_compiler.algebra.lambdas import Lambda
from rift_compiler.algebra.monoids import constant

MOST_LISTS = 400
MOST_PREFIXES = 7
NUMBERS = [Fraction(n) for n in (0, 1, 2, -1, 3)] + [Fraction(1, 2), Fraction(-2)]

List = tuple[State, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A list and the states that the loop goes through, the init first."""

    elements: List
    states: tuple[State, ...]

    def text(self) -> str:
        """Return `[2, 1]: 0 -> 2 -> 5`."""
        shown = [_shown(e, len(e) == 1) for e in self.elements]
        return f"[{', '.join(shown)}]: {' -> '.join(_shown(s, len(s) == 1) for s in self.states)}"


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Two runs that end alike, and not so when both lists come after the same prefix."""

    alone: tuple[Run, Run]
    after: tuple[Run, Run]  # the same prefix, then the lists of alone

    def lines(self) -> list[str]:
        """Return the four runs with a word between them."""
        one, other = (run.text() for run in self.alone)
        prefix = [_shown(e, len(e) == 1) for e in self.after[0].elements]
        prefix = prefix[: len(prefix) - len(self.alone[0].elements)]
        first, second = (run.text() for run in self.after)
        return [one, other, f"end alike, but not after [{', '.join(prefix)}]:", first, second]


def _shown(state: State, scalar: bool) -> str:
    parts = [mpmath.nstr(v, 8) if isinstance(v, mpmath.mpf) else str(v) for v in state]
    return parts[0] if scalar else f"({', '.join(parts)})"


def search(step: Lambda, init: str) -> tuple[Counterexample | None, int]:
    """Return a small counterexample, or None, and the number of lists that were looked at."""
    with mpmath.workdps(DIGITS):
        runs = sorted(_runs(step, init), key=lambda run: not run.elements)  # the empty list last
        alike = defaultdict(list)
        for run in runs:
            alike[tuple(map(_key, run.states[-1]))].append(run)
        pairs = [(group[0], other) for group in alike.values() for other in group[1:]]
        pairs.sort(key=lambda pair: len(pair[0].elements + (pair[1].elements or (None,) * 4)))
        for prefix in [run for run in runs if run.elements][:MOST_PREFIXES]:
            after = {run.elements: _run(step, run.elements, prefix) for run in runs}
            for pair in pairs:
                one, other = (after[run.elements] for run in pair)
                if one is None or other is None or same(one.states[-1], other.states[-1]):
                    continue
                if _alike(step, init, pair):
                    return Counterexample(pair, (one, other)), len(runs)
    return None, len(runs)


def _alike(step: Lambda, init: str, pair: tuple[Run, Run]) -> bool:
    """Not only to the digits that grouped them."""
    with mpmath.workdps(MANY_DIGITS):
        one, other = (_run(step, run.elements, _start(step, init)) for run in pair)
        return one is not None and other is not None and same(one.states[-1], other.states[-1])


def moves(step: Lambda, init: str) -> bool:
    """Whether the loop reaches several finite states from init (of truths, both)."""
    states = {tuple(map(_key, run.states[-1])) for run in _runs(step, init) if run.elements}
    values = [value for state in states for value in state]
    if any(str(value).lstrip("+-") == "inf" for value in values):
        return False
    return len(states) > (1 if all(isinstance(value, bool) for value in values) else 2)


def _key(value: Value) -> Value:
    return mpmath.nstr(value, DIGITS - 10) if isinstance(value, mpmath.mpf) else value


def _start(step: Lambda, init: str) -> Run:
    return Run((), (constant(init)(EXACT if step.rational else HIGH),))


def _runs(step: Lambda, init: str) -> Iterator[Run]:
    """The shortest lists where the loop has a value at every step."""
    width = max(1, step.widths[1])
    numbers = NUMBERS[: {1: 7, 2: 4}.get(width, 2)]
    elements = list(islice(product(numbers, repeat=width), MOST_LISTS))
    lists = (ls for length in range(4) for ls in product(elements, repeat=length))
    start = _start(step, init)
    for one in islice(lists, MOST_LISTS):
        run = _run(step, one, start)
        if run is not None:
            yield run


def _run(step: Lambda, elements: List, after: Run) -> Run | None:
    """The run of after that goes on with elements; None where it has no value."""
    arithmetic = EXACT if step.rational else HIGH
    states = list(after.states)
    try:
        for element in elements:
            states.append(step(arithmetic, states[-1], tuple(map(arithmetic.number, element))))
    except ArithmeticError:
        return None
    return Run(after.elements + elements, tuple(states))
