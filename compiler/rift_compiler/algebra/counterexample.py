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

import mpmath  # type: ignore[import-untyped, unused-ignore]

from rift_compiler.algebra.arithmetic import DIGITS, EXACT, HIGH, MANY_DIGITS, State, Value, same
from rift_compiler.algebra.lambdas import Lambda
from rift_compiler.algebra.monoids import constant

MOST_LISTS = 400
MOST_PREFIXES = 20
MOST_TRIES = 3000
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
        prefixes = [run.elements for run in runs if 0 < len(run.elements) <= 2][:MOST_PREFIXES]
        for prefix, pair in islice(product(prefixes, pairs), MOST_TRIES):
            after = _apart(step, init, [prefix + run.elements for run in pair])
            if after is not None and _still_alike(step, init, pair):
                return Counterexample(pair, after), len(runs)
    return None, len(runs)


def _apart(step: Lambda, init: str, lists: list[List]) -> tuple[Run, Run] | None:
    one, other = (_run(step, init, elements) for elements in lists)
    if one is None or other is None or same(one.states[-1], other.states[-1]):
        return None
    return one, other


def _still_alike(step: Lambda, init: str, pair: tuple[Run, Run]) -> bool:
    """Not only to the digits that grouped them."""
    with mpmath.workdps(MANY_DIGITS):
        return _apart(step, init, [run.elements for run in pair]) is None


def moves(step: Lambda, init: str) -> bool:
    """Whether the loop reaches several states from init (of truths, both)."""
    states = {tuple(map(_key, run.states[-1])) for run in _runs(step, init)}
    truths = all(isinstance(value, bool) for state in states for value in state)
    return len(states) > (1 if truths else 2)


def _key(value: Value) -> Value:
    return mpmath.nstr(value, DIGITS - 10) if isinstance(value, mpmath.mpf) else value


def _runs(step: Lambda, init: str) -> Iterator[Run]:
    """The shortest lists where the loop has a value at every step."""
    width = max(1, step.widths[1])
    numbers = NUMBERS[: {1: 7, 2: 4}.get(width, 2)]
    elements = list(islice(product(numbers, repeat=width), MOST_LISTS))
    lists = (ls for length in range(4) for ls in product(elements, repeat=length))
    for one in islice(lists, MOST_LISTS):
        run = _run(step, init, one)
        if run is not None:
            yield run


def _run(step: Lambda, init: str, elements: List) -> Run | None:
    arithmetic = EXACT if step.rational else HIGH
    try:
        states = [constant(init)(arithmetic)]
        for element in elements:
            x = tuple(map(arithmetic.number, element))
            states.append(step(arithmetic, states[-1], x))
    except ArithmeticError:
        return None
    return Run(elements, tuple(states))
