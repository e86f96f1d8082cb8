"""From a step function to the combine it hides: candidates, which `associative` then checks.

A way looks at components of the state and says what they are after a part a and then a part b.
Some ways see one component, and what it depends on; others a block of components that depend on
each other, which may need further components.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from random import Random

import sympy
from sympy.polys.matrices import DomainMatrix

from rift_compiler.algebra.action import ACC, COUNT, NEW, OLD, Lift, Refusal, movement
from rift_compiler.algebra.arithmetic import EXACT, State
from rift_compiler.algebra.lambdas import Lambda, parse
from rift_compiler.algebra.monoids import Monoid, constant
from rift_compiler.algebra.semirings import SEMIRINGS, Semiring, remembered
from rift_compiler.algebra.symbols import KEEP, Expr, components, state_text, text, vanishes

MOST_MONOMIALS = 80
MOST_KEPT = 16  # further components


@dataclass(frozen=True, slots=True)
class Loop:
    """A step on symbols: after[i] is component i once x is in; start is the state before any."""

    step: Lambda
    s: State
    x: State
    after: State
    start: State

    def reads(self, i: int) -> set[int]:
        """The other components that component i is made of."""
        return {j for j, s in enumerate(self.s) if j != i and self.after[i].has(s)}


@dataclass(frozen=True, slots=True)
class Extra:
    """A component that the state lacks."""

    what: str
    empty: Expr
    lift: Expr
    combined: Expr


@dataclass(frozen=True, slots=True)
class Found:
    """Components of the combined state, over A and B; how is told to the user."""

    parts: dict[int, Expr]
    how: tuple[str, ...]
    extra: tuple[Extra, ...] = ()

    def beside(self, other: Found) -> Found:
        """Both together; other's components win."""
        parts = {**self.parts, **other.parts}
        return Found(parts, self.how + other.how, self.extra + other.extra)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A monoid that may be the loop's, with what each component beyond the state's is."""

    monoid: Monoid
    how: str
    extra: tuple[str, ...]


A, B = components("a", 64), components("b", 64)


def run_on_symbols(step: Lambda, init: str) -> Loop:
    """Return the loop's expressions. Raises one of symbols.CANNOT where sympy has none."""
    s = components("s", len(step.body))
    x = components("x", max(1, step.widths[1]), scalar=not step.widths[1])
    after = tuple(map(sympy.sympify, step(KEEP, s, x)))
    return Loop(step, s, x, after, tuple(map(sympy.sympify, constant(init, "init")(KEEP))))


def candidates(loop: Loop) -> Iterator[Candidate]:
    """Yield what to check, the simplest first.

    Raises WrongUsage or one of symbols.CANNOT where sympy's expression is none of our language.
    """
    alone = _alone(loop)
    if len(alone.parts) == len(loop.s):
        yield _candidate(loop, alone)
    if len(loop.s) == len(loop.x):
        put = dict(zip((*loop.s, *loop.x), (*A[: len(loop.s)], *B[: len(loop.s)]), strict=True))
        parts = {i: e.subs(put, simultaneous=True) for i, e in enumerate(loop.after)}
        yield _candidate(loop, Found(parts, ("the step is its own combine",)))
    blocks = _in_blocks(loop, alone)
    if blocks is not None:
        yield _candidate(loop, blocks)


def _candidate(loop: Loop, found: Found) -> Candidate:
    scalar = loop.step.scalar and not found.extra
    parts = [found.parts[i] for i in range(len(loop.s))] + [e.combined for e in found.extra]
    if scalar:
        parts = [parts[0].subs({A[0]: sympy.Symbol("a"), B[0]: sympy.Symbol("b")})]
    lifted = (*loop.step(KEEP, loop.start, loop.x), *(e.lift for e in found.extra))
    empty = (*loop.start, *(e.empty for e in found.extra))
    monoid = Monoid(
        "of the loop",
        tuple(f"[{i}]" for i in range(len(parts))),
        state_text(empty, scalar),
        f"lambda x: {state_text(lifted, scalar)}",
        f"lambda a, b: {state_text(tuple(parts), scalar)}",
    )
    parse(monoid.lift, 1), parse(monoid.combine, 2)  # sympy may have put in what cannot be read
    return Candidate(monoid, "; ".join(found.how), tuple(e.what for e in found.extra))


def _alone(loop: Loop) -> Found:
    """The components that can be told one by one, each after those it reads."""
    found = Found({}, ())
    waiting = set(range(len(loop.s)))
    while True:
        ready = [i for i in sorted(waiting) if loop.reads(i) <= found.parts.keys()]
        parts = [
            (i, way(loop, i, found.parts)) for i in ready for way in (_plain, _twisted, _chosen)
        ]
        new = {i: part for i, part in reversed(parts) if part is not None}
        if not new:
            return found
        for i in sorted(new):
            expr, how = new[i]
            found = found.beside(Found({i: expr}, (f"{_name(loop, i)} is {how}",)))
        waiting -= new.keys()


Part = tuple[Expr, str] | None


def _name(loop: Loop, i: int) -> str:
    return "s" if loop.step.scalar else f"s[{i}]"


def _plain(loop: Loop, i: int, found: dict[int, Expr]) -> Part:
    """s + g(x), s*g(x), max(s, g(x)), ...: the init counts once, not twice."""
    s, after, start, a, b = loop.s[i], loop.after[i], loop.start[i], A[i], B[i]
    names = {sympy.Max: "a maximum", sympy.Min: "a minimum", sympy.Or: "any", sympy.And: "all"}
    if after.func in names and s in after.args:
        rest = after.func(*(arg for arg in after.args if arg != s))
        return None if rest.has(*loop.s) else (after.func(a, b), names[after.func])
    if not isinstance(after, sympy.Expr) or start.is_infinite:
        return None
    if not sympy.expand(after - s).has(*loop.s):
        return a + b - start, "a sum"
    if not sympy.expand(after / s).has(*loop.s):
        return (a * b / start if start != 0 else a * b), "a product"
    return None


def _twisted(loop: Loop, i: int, found: dict[int, Expr]) -> Part:
    """A sum whose terms depend on one other component, and that moves as that one moves."""
    reads = sorted(loop.reads(i))
    if len(reads) != 1:
        return None
    c = reads[0]
    new, s = sympy.Symbol("new of the other", real=True), loop.s[i]
    after = loop.after[i].subs(loop.after[c], new)
    lift = after.subs(s, 0)
    if lift.has(*loop.s) or not (lift.has(new) and after.has(s)):
        return None
    moved = movement(Lift(lift, new, None), "sum")
    if isinstance(moved, Refusal) or moved[0].has(COUNT):
        return None
    expr = moved[0]
    step = expr.subs({ACC: s, OLD: loop.s[c], NEW: new}, simultaneous=True)
    if not vanishes(step + lift - after):
        return None
    a, b = (
        expr.subs({ACC: side[i], OLD: side[c], NEW: found[c]}, simultaneous=True) for side in (A, B)
    )
    return a + b, f"a sum that moves as {text(expr)} when {_name(loop, c)} goes from old to new"


def _chosen(loop: Loop, i: int, found: dict[int, Expr]) -> Part:
    """A value kept beside a maximum or minimum; it may be a position, counted by a third one."""
    after, s = loop.after[i], loop.s[i]
    if not isinstance(after, sympy.Piecewise) or len(after.args) != 2:
        return None
    (first, test), (second, _) = after.args
    values = [v for v in (first, second) if v != s]
    beside = [j for j in loop.reads(i) if {*test.args} == {*loop.after[j].args}]
    if (
        len(values) != 1
        or len(beside) != 1
        or loop.after[beside[0]].func not in (sympy.Max, sympy.Min)
    ):
        return None
    c = beside[0]
    moved = B[i]
    for j in loop.reads(i) - {c}:
        slope = sympy.diff(values[0], loop.s[j])
        if not slope.is_number or sympy.expand(loop.after[j] - loop.s[j]).has(*loop.s):
            return None
        moved += slope * (A[j] - loop.start[j])
    of_x = next(arg for arg in test.args if arg != loop.s[c])
    test = test.subs({loop.s[c]: A[c], of_x: B[c]}, simultaneous=True)
    both = (A[i], moved) if first == s else (moved, A[i])
    return sympy.Piecewise((both[0], test), (both[1], True)), f"kept beside {_name(loop, c)}"


def _in_blocks(loop: Loop, alone: Found) -> Found | None:
    """Components that need each other, and those they are tied to, together."""
    found, done = alone, set(alone.parts)
    while len(done) < len(loop.s):
        block = _tied(loop, min(set(range(len(loop.s))) - done))
        if not all(isinstance(loop.after[i], sympy.Expr) for i in block):
            return None
        first = len(loop.s) + len(found.extra)
        tries = (way(loop, block, first) for way in _BLOCK_WAYS)
        new = next((one for one in tries if one is not None), None)
        if new is None:
            return None
        found, done = found.beside(new), done | set(block)
    return found


def _tied(loop: Loop, i: int) -> list[int]:
    block, more = set(), {i}
    while more:
        block |= more
        more = {j for j in range(len(loop.s)) if loop.reads(j) & block} - block
        more |= set().union(*(loop.reads(j) for j in block)) - block
    return sorted(block)


def _conjugate(loop: Loop, block: list[int], first: int) -> Found | None:
    """Plain sums seen through a bijection: polynomials u of the block whose growth
    u(after) - u(before) depends on x alone, found as a null space over random exact states."""
    if not loop.step.rational or any(loop.start[i].is_infinite for i in block):
        return None
    for degree in (2, 3, 4):
        powers = [p for p in product(range(degree + 1), repeat=len(block)) if 0 < sum(p) <= degree]
        if len(powers) > MOST_MONOMIALS:
            break
        sums = _sums(loop, block, sorted(powers, key=lambda p: (-sum(p), p)))
        parts = _solved(loop, block, sums)
        if len(parts) == len(block):
            return Found(parts, (f"plain sums in disguise: {', '.join(map(str, sums))}",))
    return None


def _sums(loop: Loop, block: list[int], powers: list[tuple[int, ...]]) -> list[Expr]:
    rng = Random(0)

    def growth(state: list[Fraction], x: list[Fraction]) -> list[Fraction]:
        after = loop.step(EXACT, tuple(state), tuple(x))
        return [
            prod(after[i] ** k for i, k in zip(block, p, strict=True))
            - prod(state[i] ** k for i, k in zip(block, p, strict=True))
            for p in powers
        ]

    def numbers(count: int) -> list[Fraction]:
        return [Fraction(rng.randint(-12, 12), rng.randint(1, 3)) for _ in range(count)]

    rows: list[list[Expr]] = []
    for _ in range(4 * len(powers)):
        x, before = numbers(len(loop.x)), [numbers(len(loop.s)) for _ in range(2)]
        with suppress(ArithmeticError, ValueError):  # no value, or an infinity
            one, other = (growth(state, x) for state in before)
            rows.append(
                [sympy.QQ(*(p - q).as_integer_ratio()) for p, q in zip(one, other, strict=True)]
            )
        if len(rows) == len(powers) + 8:
            break
    basis = DomainMatrix(rows, (len(rows), len(powers)), sympy.QQ).nullspace().rref()[0]
    monomials = [
        sympy.prod([loop.s[i] ** k for i, k in zip(block, p, strict=True)]) for p in powers
    ]
    return [
        sum(c * m for c, m in zip(row, monomials, strict=True))
        for row in basis.to_Matrix().tolist()
    ]


def _solved(loop: Loop, block: list[int], sums: list[Expr]) -> dict[int, Expr]:
    """Each component from the sums of both parts, where one sum has it as its last unknown."""
    parts: dict[int, Expr] = {}
    for i, u in [(i, u) for _ in block for i in block for u in sums]:
        others = u.free_symbols - {loop.s[i]} - {loop.s[j] for j in parts}
        slope = sympy.diff(u, loop.s[i])
        if i in parts or others or slope == 0 or slope.has(loop.s[i]):
            continue
        at = [u.subs(dict(zip(loop.s, state, strict=False))) for state in (A, B, loop.start)]
        value = (at[0] + at[1] - at[2] - u.subs(loop.s[i], 0)) / slope
        value = value.subs({loop.s[j]: part for j, part in parts.items()})
        # the shortest form that adds to what is there: sums of squares cancel digits
        forms = [added + sympy.factor(value - added) for added in (A[i], A[i] + B[i])]
        parts[i] = min(forms, key=sympy.count_ops)
    return parts


def _recurrence(ring: Semiring, loop: Loop, block: list[int], first: int) -> Found | None:
    """after = M(x) s + v(x): the part b maps a's state by its product of M, which it must keep."""
    size = range(len(block))
    rows = [ring.read(loop.after[i], [loop.s[j] for j in block]) for i in block]
    matrix = [row[0] for row in rows if row is not None]
    if len(matrix) < len(block) or any(e.has(*loop.s) for row in matrix for e in row):
        return None
    kept = remembered(ring, matrix)
    if len(kept) > MOST_KEPT:
        return None
    at = {entry: first + k for k, entry in enumerate(kept)}
    of_a, of_b = (
        [[side[at[r, c]] if (r, c) in at else matrix[r][c] for c in size] for r in size]
        for side in (A, B)
    )
    plain = ring is SEMIRINGS[0]  # there the start can be taken off; a maximum counts it twice
    moving = [A[j] - loop.start[j] if plain else A[j] for j in block]
    parts = {i: ring.add(B[i], ring.dot(of_b[r], moving)) for r, i in enumerate(block)}
    both = ring.product(of_b, of_a)
    extra = tuple(
        Extra(
            f"entry ({r}, {c}) of the product of the steps' matrices over ({ring.name})"
            if len(block) > 1
            else f"what s is multiplied by over the part, in ({ring.name})",
            ring.unit(len(block))[r][c],
            matrix[r][c],
            both[r][c],
        )
        for r, c in kept
    )
    return Found(parts, (f"a linear recurrence over ({ring.name})",), extra)


_BLOCK_WAYS: tuple[Callable[[Loop, list[int], int], Found | None], ...] = (
    _conjugate,
    *(partial(_recurrence, ring) for ring in SEMIRINGS),
)
