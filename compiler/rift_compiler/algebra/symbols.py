"""The two symbolic number systems, and the text of a symbolic expression.

KEEP builds what was written: maxima, choices and all. Decide takes one side of every comparison;
where it can't know which, it raises Split, and the caller goes on with each order in turn.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import TypeAlias

import sympy
from sympy.logic.boolalg import BooleanAtom, BooleanFunction
from sympy.printing.str import StrPrinter

from rift_compiler.algebra.arithmetic import Arithmetic, Compare, Undefined, Value

Expr: TypeAlias = sympy.Expr
LARGEST_TO_SIMPLIFY = 250  # operations; sympy has no time limit of its own
CANNOT = (ArithmeticError, TypeError, ValueError)  # raised where sympy has no expression
_TRUTHS = (bool, BooleanAtom, BooleanFunction, sympy.core.relational.Relational)
_RELATIONS = {
    operator.lt: sympy.Lt,
    operator.le: sympy.Le,
    operator.gt: sympy.Gt,
    operator.ge: sympy.Ge,
    operator.eq: sympy.Eq,
    operator.ne: sympy.Ne,
}


class Keep(Arithmetic):
    """Sympy expressions that keep max, min, conditions, `or` and `and` as they are."""

    infinity = sympy.oo
    exp, log, sqrt = staticmethod(sympy.exp), staticmethod(sympy.log), staticmethod(sympy.sqrt)
    abs = staticmethod(sympy.Abs)
    max, min = staticmethod(sympy.Max), staticmethod(sympy.Min)

    def number(self, value: Fraction) -> Value:
        return sympy.Rational(value.numerator, value.denominator)

    def operand(self, value: Value) -> Value:
        return sympy.Piecewise((1, value), (0, True)) if isinstance(value, _TRUTHS) else value

    def result(self, value: Value) -> Value:
        if sympy.sympify(value).has(sympy.nan, sympy.zoo, sympy.I):
            raise Undefined(str(value))
        return value

    def compare(self, relation: Compare, a: Value, b: Value) -> Value:
        return _RELATIONS[relation](a, b)

    def choose(self, test: Value, then: Callable[[], Value], other: Callable[[], Value]) -> Value:
        if not isinstance(test, _TRUTHS):
            test = sympy.Ne(test, 0)
        a, b = then(), other()
        if isinstance(test, (sympy.Gt, sympy.Ge, sympy.Lt, sympy.Le)) and {a, b} == set(test.args):
            return (sympy.Max if (test.gts == a) else sympy.Min)(a, b)
        return sympy.Piecewise((a, test), (b, True))

    def either(self, a: Value, b: Callable[[], Value]) -> Value:
        return sympy.Or(a, b())

    def both(self, a: Value, b: Callable[[], Value]) -> Value:
        return sympy.And(a, b())


class Split(Exception):
    """A comparison that depends on the sign of difference, which is unknown."""

    def __init__(self, difference: Expr) -> None:
        super().__init__(str(difference))
        self.difference = difference


class Decide(Keep):
    """Sympy expressions without choices. Raises Split where a sign is not known or assumed."""

    def __init__(self, assumed: Mapping[Expr, int]) -> None:
        self.assumed = assumed

    def operand(self, value: Value) -> Value:
        return int(value) if isinstance(value, bool) else value

    def compare(self, relation: Compare, a: Value, b: Value) -> Value:
        return relation(self._sign(a - b) if a != b else 0, 0)

    def truth(self, value: Value) -> bool:
        return value if isinstance(value, bool) else self._sign(value) != 0

    def _sign(self, value: Expr) -> int:
        value = sympy.expand(value)
        signs = (value.is_extended_negative, value.is_zero, value.is_extended_positive)
        if True in signs:
            return signs.index(True) - 1
        if value not in self.assumed:
            raise Split(value)
        return self.assumed[value]

    abs, choose = Arithmetic.abs, Arithmetic.choose
    max, min = Arithmetic.max, Arithmetic.min
    either, both = Arithmetic.either, Arithmetic.both


KEEP = Keep()


def orders(difference: Expr) -> Iterator[tuple[sympy.Symbol, Expr]]:
    """Yield what to put for a symbol so that difference is > 0, = 0 and < 0.

    Nothing is yielded where it is not linear in any symbol that can be solved for.
    """
    slopes = {v: difference.diff(v) for v in sorted(difference.free_symbols, key=str)}
    linear = {v: k for v, k in slopes.items() if k.is_number and k.is_nonzero}
    gap = sympy.Dummy("gap", positive=True)
    free = [v for v in linear if not v.is_positive]
    if free:
        rest = difference.subs(free[0], 0)
        for wanted in (gap, sympy.Integer(0), -gap):
            yield free[0], sympy.expand((wanted - rest) / linear[free[0]])
    elif len(linear) == 2 and sympy.expand(difference - sum(k * v for v, k in linear.items())) == 0:
        # k*p - l*q of positive p, q: the larger one is the other plus a gap
        (p, k), (q, negative) = sorted(linear.items(), key=lambda item: -item[1])
        yield p, (gap - negative * q) / k
        yield p, -negative * q / k
        yield q, (gap + k * p) / -negative


def vanishes(value: Expr) -> bool:
    """Whether value is 0 for all values of its symbols. False may mean: not known."""
    value = sympy.sympify(value)
    if value.has(sympy.oo, sympy.nan, sympy.zoo):
        return False
    if _numerator(value) == 0:
        return True
    if value.has(sympy.log):  # of real numbers, v = 0 where exp(v) = 1
        over, under = sympy.fraction(sympy.together(sympy.exp(sympy.expand(value))))
        if sympy.expand(over - under) == 0:
            return True
    return value.count_ops() <= LARGEST_TO_SIMPLIFY and bool(sympy.simplify(value) == 0)


def _numerator(value: Expr) -> Expr:
    if any(power.exp.is_negative for power in value.atoms(sympy.Pow)):
        value = sympy.fraction(sympy.together(value))[0]
    return sympy.expand(value)


class _Text(StrPrinter):  # type: ignore[misc]
    """Prints in the language of `lambdas`, so that what is printed can be read and run."""

    def _as_ordered_terms(self, expr: Expr, order: str | None = None) -> list[Expr]:
        terms = super()._as_ordered_terms(expr, order)
        return sorted(terms, key=lambda term: bool(term.could_extract_minus_sign()))

    def _call(self, name: str, expr: Expr) -> str:
        return f"{name}({', '.join(map(self._print, expr.args))})"

    def _print_Max(self, expr: Expr) -> str:
        return self._call("max", expr)

    def _print_Min(self, expr: Expr) -> str:
        return self._call("min", expr)

    def _print_Abs(self, expr: Expr) -> str:
        return self._call("abs", expr)

    def _print_Exp1(self, expr: Expr) -> str:
        return "exp(1)"

    def _print_Infinity(self, expr: Expr) -> str:
        return "inf"

    def _print_NegativeInfinity(self, expr: Expr) -> str:
        return "-inf"

    def _print_Relational(self, expr: Expr) -> str:
        return f"({self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)})"

    def _print_Piecewise(self, expr: Expr) -> str:
        *cases, (last, _) = expr.args
        other = self._print(last)
        for value, test in reversed(cases):
            other = f"({self._print(value)} if {self._print(test)} else {other})"
        return str(other)

    def _print_ITE(self, expr: Expr) -> str:
        test, then, other = map(self._print, expr.args)
        return f"({then} if {test} else {other})"

    def _infix(self, word: str, expr: Expr) -> str:
        return f"({f' {word} '.join(self._print(a) for a in expr.args)})"

    def _print_And(self, expr: Expr) -> str:
        return self._infix("and", expr)

    def _print_Or(self, expr: Expr) -> str:
        return self._infix("or", expr)

    def _print_Not(self, expr: Expr) -> str:
        return f"(not {self._print(expr.args[0])})"

    def _print_Function(self, expr: Expr) -> str:
        return self._call(expr.func.__name__, expr)


def text(expr: Value) -> str:
    """Return expr in the language of `lambdas`; a truth or number as Python writes it."""
    return str(_Text().doprint(expr))


def state_text(parts: tuple[Value, ...], scalar: bool = False) -> str:
    """Return `(a, b)`, `(a,)`, or of a scalar `a`."""
    inner = ", ".join(map(text, parts))
    return inner if scalar else f"({inner}{',' * (len(parts) == 1)})"


def components(name: str, width: int, scalar: bool = False) -> tuple[sympy.Symbol, ...]:
    """Real symbols that print as name[0], name[1], ..., or of a scalar as name."""
    names = [name] if scalar else [f"{name}[{i}]" for i in range(width)]
    return tuple(sympy.Symbol(n, real=True) for n in names)
