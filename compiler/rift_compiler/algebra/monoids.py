"""Monoids as data: how partial results of a fold are made, combined, and what an empty one is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce

import mpmath
import sympy

from rift_compiler.algebra.arithmetic import EXACT, HIGH, PYTHON, Arithmetic, State, Value
from rift_compiler.algebra.lambdas import Lambda, parse
from rift_compiler.algebra.symbols import KEEP


@dataclass(frozen=True, slots=True)
class Twist:
    """The bijection psi that a twisted monoid is a plain one seen through, so that
    a (+) b = psi(psi_inverse(a) . psi_inverse(b)) inherits associativity. Lambdas of one state."""

    plain: tuple[str, ...]  # the monoid of each component underneath
    psi: str
    psi_inverse: str


@dataclass(frozen=True, slots=True)
class Monoid:
    """One monoid. lift, combine and identity are text in the language of `lambdas`."""

    name: str
    state: tuple[str, ...]  # a component named count is positive once an element is in
    identity: str
    lift: str  # the state of one element
    combine: str  # of the state of what comes first, and of what comes next
    twist: Twist | None = None

    def empty(self, arithmetic: Arithmetic) -> State:
        """The identity, in a number system."""
        return constant(self.identity)(arithmetic)

    def fold(self, arithmetic: Arithmetic, elements: Iterable[State]) -> State:
        """The elements' states combined from the left; the identity where there are none."""
        lift, combine = parse(self.lift, 1), parse(self.combine, 2)
        states = [lift(arithmetic, element) for element in elements]
        if not states:
            return self.empty(arithmetic)
        return reduce(lambda a, b: combine(arithmetic, a, b), states)

    def join(self, a: Value, b: Value) -> Value:
        """Combine two states of Python, mpmath or sympy numbers (a number, or a tuple)."""
        combine = parse(self.combine, 2)
        states = [s if isinstance(s, tuple) else (s,) for s in (a, b)]
        joined = combine(_arithmetic((*states[0], *states[1])), *states)
        return joined[0] if combine.scalar else joined


def constant(text: str, what: str = "identity") -> Lambda:
    """Read a number or a tuple of numbers as a lambda of nothing."""
    return parse(f"lambda:{text}", 0, what, before=len("lambda:"))


def _arithmetic(values: State) -> Arithmetic:
    if any(isinstance(v, sympy.Basic) for v in values):
        return KEEP
    if any(isinstance(v, mpmath.mpf) for v in values):
        return HIGH
    return EXACT if any(isinstance(v, Fraction) for v in values) else PYTHON


# Of argmax and argmin: nan is beyond every number, and of equals the first index wins, as in torch;
# told by the index and not by the order of the operands, so that both monoids commute.
_TAKES_B = (
    "b[0] {} a[0] or (b[0] != b[0] and a[0] == a[0]) or "
    "(b[1] < a[1] and (b[0] == a[0] or (b[0] != b[0] and a[0] != a[0])))"
)
_SELECT = "lambda a, b: (b[0], b[1]) if {} else (a[0], a[1])"
_MEAN = (
    "lambda a, b: (a[0] + b[0],"
    " a[1] + (b[1] - a[1])*b[0]/(a[0] + b[0]) if a[0] + b[0] != 0 else a[1])"
)
_NUMBER = "lambda x: x"

MONOIDS = {
    m.name: m
    for m in (
        Monoid("sum", ("sum",), "0", _NUMBER, "lambda a, b: a + b"),
        Monoid("prod", ("product",), "1", _NUMBER, "lambda a, b: a*b"),
        Monoid("max", ("max",), "-inf", _NUMBER, "lambda a, b: max(a, b)"),
        Monoid("min", ("min",), "inf", _NUMBER, "lambda a, b: min(a, b)"),
        Monoid("any", ("any",), "False", "lambda x: x != 0", "lambda a, b: a or b"),
        Monoid("all", ("all",), "True", "lambda x: x != 0", "lambda a, b: a and b"),
        Monoid(
            "argmax",
            ("max", "index"),
            "(-inf, inf)",
            "lambda x: (x[0], x[1])",
            _SELECT.format(_TAKES_B.format(">")),
        ),
        Monoid(
            "argmin",
            ("min", "index"),
            "(inf, inf)",
            "lambda x: (x[0], x[1])",
            _SELECT.format(_TAKES_B.format("<")),
        ),
        Monoid(
            "mean",
            ("count", "mean"),
            "(0, 0)",
            "lambda x: (1, x)",
            _MEAN,
            Twist(
                ("sum", "sum"),
                "lambda p: (p[0], p[1]/p[0])",
                "lambda s: (s[0], s[0]*s[1])",
            ),
        ),
    )
}
