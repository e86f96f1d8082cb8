"""Checks of laws: on symbols where that succeeds, and always on random numbers.

A law is an equation of two states in any states or elements. On symbols, every order of the
values it compares is a case of its own. On numbers, fractions are exact; where exp, log or sqrt
occur, mpmath counts 50 digits, and 3000 before an equation is called broken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Literal

import mpmath
import sympy

from rift_compiler.algebra.arithmetic import (
    DIGITS,
    EXACT,
    HIGH,
    MANY_DIGITS,
    Arithmetic,
    State,
    same,
)
from rift_compiler.algebra.lambdas import Lambda, parse
from rift_compiler.algebra.monoids import Monoid, constant
from rift_compiler.algebra.symbols import CANNOT, Decide, Split, components, orders, vanishes

Sides = Callable[..., tuple[State, State]]  # (arithmetic, *variables) -> left, right
Elements = list[State]  # of Fractions

SAMPLES = 200
MOST_TRIES = 4000  # to find SAMPLES where both sides have a value
MOST_CASES = 150  # argmax takes 79; a proof that needs more takes too long
# Ties are likely among the first; the last are large for exp, and small enough to stay finite.
POOL = [Fraction(n) for n in (0, 0, 1, 1, -1, 2, 3, -2)]
POOL += [Fraction(1, 2), Fraction(-1, 3), Fraction(7, 4), Fraction(1000), Fraction(-1000)]
POSITIVE = [n for n in map(abs, POOL) if n]  # for roots, logarithms and weights


@dataclass(frozen=True, slots=True)
class Proof:
    """A law that holds: shown on symbols, or (method "sampled") seen on random numbers only."""

    law: str
    method: Literal["symbolic", "sampled", "recorded"]
    detail: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A law that fails on an input (seen), or that has no value on enough inputs to be checked."""

    law: str
    detail: str
    seen: bool = True


@dataclass(frozen=True, slots=True)
class Variable:
    """A state or element of a law: symbols for it, and how it is made of random elements."""

    symbols: State
    build: Callable[[Arithmetic, Elements], State]
    width: int  # of an element; 0: a plain number
    least: int = 0  # elements
    most: int = 3


@dataclass(frozen=True, slots=True)
class Law:
    """sides(arithmetic, *states) gives the two states that must be equal."""

    name: str
    variables: tuple[Variable, ...]
    sides: Sides
    rational: bool  # fractions stay fractions


def prove(law: Law) -> Proof | Broken:
    """Check on random inputs, then try to show it on symbols."""
    sampled = sample(law)
    cases = 0 if isinstance(sampled, Broken) else _cases(law)
    if not cases or isinstance(sampled, Broken):
        return sampled
    how = f"in each of {cases} orders of the values" if cases > 1 else "for all values"
    return Proof(law.name, "symbolic", f"{how}; {sampled.detail}")


def sample(law: Law) -> Proof | Broken:
    """Check on SAMPLES random inputs where both sides have a value."""
    rng = Random(law.name)
    arithmetic, digits = (EXACT, "exactly") if law.rational else (HIGH, f"with {DIGITS} digits")
    done = 0
    for _ in range(MOST_TRIES):
        pool = rng.choice((POOL, POSITIVE))
        inputs = [_elements(variable, pool, rng) for variable in law.variables]
        holds = _holds(law, arithmetic, inputs, DIGITS)
        if holds is False and not law.rational:
            holds = _holds(law, arithmetic, inputs, MANY_DIGITS)
        if holds is False:
            return Broken(law.name, f"not for {' and '.join(map(_shown, inputs))}")
        done += holds is True
        if done == SAMPLES:
            return Proof(law.name, "sampled", f"on {done} random inputs {digits}")
    detail = f"not checked: only {done} of {MOST_TRIES} random inputs have a value"
    return Broken(law.name, detail, seen=False)


def _holds(law: Law, arithmetic: Arithmetic, inputs: list[Elements], digits: int) -> bool | None:
    """None where a side has no value."""
    with mpmath.workdps(digits):
        try:
            states = [
                variable.build(arithmetic, [tuple(map(arithmetic.number, e)) for e in elements])
                for variable, elements in zip(law.variables, inputs, strict=True)
            ]
            return same(*law.sides(arithmetic, *states))
        except ArithmeticError:
            return None


def _elements(variable: Variable, pool: list[Fraction], rng: Random) -> Elements:
    count = rng.randint(variable.least, variable.most)
    return [tuple(rng.choices(pool, k=max(1, variable.width))) for _ in range(count)]


def _shown(elements: Elements) -> str:
    shown = [str(e[0]) if len(e) == 1 else f"({', '.join(map(str, e))})" for e in elements]
    return f"[{', '.join(shown)}]"


def _cases(law: Law) -> int:
    """In how many orders of the compared values the law was shown, all there are; 0: not shown.

    Where an order can't be put into the symbols, its three signs are assumed in turn: the two
    sides must then be equal whether or not the assumption holds.
    """
    first: tuple[State, ...] = tuple(v.symbols for v in law.variables)
    pending: list[tuple[tuple[State, ...], dict[sympy.Expr, int]]] = [(first, {})]
    shown = 0
    while pending and shown + len(pending) <= MOST_CASES:
        states, assumed = pending.pop()
        try:
            left, right = law.sides(Decide(assumed), *states)
        except Split as split:
            value = split.difference
            new = [(_put(states, *put), assumed) for put in orders(value)]
            pending += new or [(states, {**assumed, value: sign}) for sign in (-1, 0, 1)]
            continue
        except CANNOT:
            return 0
        if len(left) != len(right) or not all(map(_equal, left, right)):
            return 0
        shown += 1
    return 0 if pending else shown


def _equal(a: sympy.Expr, b: sympy.Expr) -> bool:
    if bool in (type(a), type(b)):
        return bool(a == b)
    return bool(a == b) or vanishes(a - b)


def _put(states: tuple[State, ...], symbol: sympy.Symbol, value: sympy.Expr) -> tuple[State, ...]:
    return tuple(tuple(sympy.sympify(v).subs(symbol, value) for v in s) for s in states)


def _state(monoid: Monoid, name: str) -> Variable:
    """A state: on numbers the fold of random elements, so that it is one that can occur."""
    width = len(monoid.state)
    symbols = tuple(
        sympy.Symbol(f"{name}[{i}]", positive=True) if part == "count" else symbol
        for i, (part, symbol) in enumerate(zip(monoid.state, components(name, width), strict=True))
    )
    return Variable(symbols, monoid.fold, parse(monoid.lift, 1).widths[0])


def one_element(name: str, width: int) -> Variable:
    """An element, as a variable."""
    return Variable(components(name, max(1, width)), lambda _, elements: elements[0], width, 1, 1)


def _rational(*lambdas: Lambda) -> bool:
    return all(one.rational for one in lambdas)


def associativity(monoid: Monoid) -> Law:
    """(a b) c = a (b c)."""
    join = parse(monoid.combine, 2)
    return Law(
        "associativity",
        tuple(_state(monoid, name) for name in "abc"),
        lambda n, a, b, c: (join(n, join(n, a, b), c), join(n, a, join(n, b, c))),
        _rational(join, parse(monoid.lift, 1)),
    )


def identity(monoid: Monoid) -> Law:
    """e a = a = a e, where they have a value: for two empty parts see joins_empty."""
    join = parse(monoid.combine, 2)

    def sides(n: Arithmetic, a: State) -> tuple[State, State]:
        empty = monoid.empty(n)
        return (*join(n, empty, a), *join(n, a, empty)), (*a, *a)

    return Law("identity", (_state(monoid, "a"),), sides, _rational(join, parse(monoid.lift, 1)))


def joins_empty(monoid: Monoid) -> bool:
    """Whether e e = e can be computed: no, where -inf - -inf or 0/0 occurs."""
    join = parse(monoid.combine, 2)
    arithmetic = EXACT if join.rational else HIGH
    empty = monoid.empty(arithmetic)
    try:
        return join(arithmetic, empty, empty) == empty
    except ArithmeticError:
        return False


def one_more(step: Lambda, monoid: Monoid) -> Law:
    """step(s, x) = s + lift(x), in the components that step has.

    With associativity and identity it gives, by induction, fold(xs + ys) = fold(xs) + fold(ys).
    """
    join, lift = parse(monoid.combine, 2), parse(monoid.lift, 1)

    def sides(n: Arithmetic, s: State, x: State) -> tuple[State, State]:
        width = len(step.body)
        return step(n, s[:width], x), join(n, s, lift(n, x))[:width]

    variables = (_state(monoid, "s"), one_element("x", step.widths[1]))
    return Law("step", variables, sides, _rational(join, step))


def homomorphism(step: Lambda, init: str, monoid: Monoid) -> Law:
    """The loop over two lists, one after the other, equals the two states combined."""
    join, start, width = parse(monoid.combine, 2), constant(init), len(step.body)

    def loop(n: Arithmetic, elements: Elements) -> State:
        state = start(n)
        for element in elements:
            state = step(n, state, element)
        return state

    def sides(n: Arithmetic, xs: State, ys: State) -> tuple[State, State]:
        joined = join(n, monoid.fold(n, xs), monoid.fold(n, ys))
        return loop(n, [*xs, *ys]), joined[:width]

    lists = tuple(
        Variable((), lambda _, elements: tuple(elements), step.widths[1], 1) for _ in range(2)
    )
    return Law("homomorphism", lists, sides, _rational(join, step))
