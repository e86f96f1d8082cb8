"""The number systems that a lambda runs in: Python's own numbers, exact ones, and 50 digits."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath

Value = Any  # a number of the system in use, or a bool
State = tuple[Value, ...]
Compare = Callable[[Value, Value], Value]  # one of operator.lt, le, gt, ge, eq, ne

MOST_BITS = 1 << 14  # of an exact number; beyond it a search would not end
LARGEST_EXPONENT = 100_000
DIGITS = 50
MANY_DIGITS = 3000  # more than exp(1000)*exp(-1000)*... needs to cancel


class Undefined(ArithmeticError):
    """There is no value: a nan, the root of a negative number, a number too long to go on with."""


class Arithmetic:
    """Python's numbers, nan included. The subclasses say where they differ."""

    infinity: Value = math.inf

    def number(self, value: Fraction) -> Value:
        return value.numerator if value.denominator == 1 else float(value)

    def operand(self, value: Value) -> Value:
        """What an operator gets where value stands: True counts as 1."""
        return value

    def result(self, value: Value) -> Value:
        """A component on its way out. Raises Undefined where nan means that a law has no case."""
        return value

    def exp(self, x: Value) -> Value:
        return math.exp(x)

    def log(self, x: Value) -> Value:
        return math.log(x) if x else -math.inf

    def sqrt(self, x: Value) -> Value:
        return math.sqrt(x)

    def abs(self, x: Value) -> Value:
        return self.max(x, -x)

    def power(self, x: Value, exponent: Value) -> Value:
        return x**exponent

    def compare(self, relation: Compare, a: Value, b: Value) -> Value:
        return relation(a, b)

    def truth(self, value: Value) -> bool:
        return bool(value)

    def max(self, a: Value, b: Value) -> Value:
        """The larger; nan wins, as in torch.max."""
        return self._first(operator.ge, a, b)

    def min(self, a: Value, b: Value) -> Value:
        return self._first(operator.le, a, b)

    def _first(self, relation: Compare, a: Value, b: Value) -> Value:
        if self.compare(relation, a, b) or self.compare(operator.ne, a, a):
            return a
        return b

    def choose(self, test: Value, then: Callable[[], Value], other: Callable[[], Value]) -> Value:
        return then() if self.truth(test) else other()

    def either(self, a: Value, b: Callable[[], Value]) -> Value:
        return a if self.truth(a) else b()

    def both(self, a: Value, b: Callable[[], Value]) -> Value:
        return b() if self.truth(a) else a


class Exact(Arithmetic):
    """Fractions, and float infinities. It has no exp, log or sqrt."""

    def number(self, value: Fraction) -> Value:
        return value

    def operand(self, value: Value) -> Value:
        # The one finite float there can be: a fraction over infinity.
        return Fraction(0) if isinstance(value, float) and value == 0 else value

    def result(self, value: Value) -> Value:
        value = self.operand(value)
        if value != value:
            raise Undefined("nan")
        if isinstance(value, Fraction) and value.numerator.bit_length() > MOST_BITS:
            raise Undefined("a number too long")
        return value

    def power(self, x: Value, exponent: Value) -> Value:
        bits = max(map(int.bit_length, x.as_integer_ratio())) if math.isfinite(x) else 1
        if exponent != int(exponent) or abs(exponent) * bits > MOST_BITS:
            raise Undefined("a power that is no fraction, or too long")
        return x ** int(exponent)

    def compare(self, relation: Compare, a: Value, b: Value) -> Value:
        return relation(self.result(a), self.result(b))


class High(Exact):
    """mpmath numbers, of as many digits as `mpmath.workdps` says around the call."""

    infinity = mpmath.inf
    operand = Arithmetic.operand

    def number(self, value: Fraction) -> Value:
        whole = mpmath.mpf(value.numerator)
        return whole if value.denominator == 1 else whole / value.denominator

    def exp(self, x: Value) -> Value:
        if mpmath.isfinite(x) and abs(x) > LARGEST_EXPONENT:
            raise Undefined("an exponent too large")
        return mpmath.exp(x)

    def log(self, x: Value) -> Value:
        return self._real(mpmath.log(x))

    def sqrt(self, x: Value) -> Value:
        return self._real(mpmath.sqrt(x))

    def power(self, x: Value, exponent: Value) -> Value:
        if abs(exponent) > LARGEST_EXPONENT:
            raise Undefined("an exponent too large")
        return self._real(mpmath.mpf(x) ** exponent)

    def _real(self, value: Value) -> Value:
        if isinstance(value, mpmath.mpc):
            raise Undefined("a root or logarithm of a negative number")
        return value


PYTHON, EXACT, HIGH = Arithmetic(), Exact(), High()


def same(left: State, right: State) -> bool:
    """Whether two states are equal: fractions exactly, mpmath numbers to half their digits."""
    return len(left) == len(right) and all(map(_close, left, right))


def _close(a: Value, b: Value) -> bool:
    if a == b:
        return True
    if not isinstance(a, mpmath.mpf) and not isinstance(b, mpmath.mpf):
        return False
    if not (mpmath.isfinite(a) and mpmath.isfinite(b)):
        return False
    digits = mpmath.mp.dps
    floor = mpmath.mpf(10) ** (-digits // 4)
    return bool(abs(a - b) <= mpmath.mpf(10) ** (-digits // 2) * max(abs(a), abs(b), floor))
