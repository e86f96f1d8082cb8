"""Linear recurrences over a semiring, s' = M(x) s + v(x): what M's product needs to remember."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import sympy

from rift_compiler.algebra.symbols import Expr

Row = tuple[list[Expr], Expr]  # the coefficients of the states, and the rest


@dataclass(frozen=True, slots=True)
class Semiring:
    """add and mul with their identities; read splits an expression that is linear in states."""

    name: str
    zero: Expr
    one: Expr
    add: Callable[..., Expr]
    mul: Callable[[Expr, Expr], Expr]
    read: Callable[[Expr, Sequence[Expr]], Row | None]

    def product(self, left: list[list[Expr]], right: list[list[Expr]]) -> list[list[Expr]]:
        """Return the product of two matrices; a zero entry leaves no term."""
        size = range(len(left))
        return [[self.dot(left[r], [right[k][c] for k in size]) for c in size] for r in size]

    def dot(self, row: Sequence[Expr], column: Sequence[Expr]) -> Expr:
        """Return the sum of the products of what is not zero."""
        pairs = [(p, q) for p, q in zip(row, column, strict=True) if self.zero not in (p, q)]
        return self.add(*(self.mul(p, q) for p, q in pairs)) if pairs else self.zero

    def unit(self, size: int) -> list[list[Expr]]:
        """Return the matrix that changes nothing."""
        return [[self.one if r == c else self.zero for c in range(size)] for r in range(size)]


def _read_linear(after: Expr, states: Sequence[Expr]) -> Row | None:
    slopes = [sympy.expand(sympy.diff(after, s)) for s in states]
    if any(slope.has(*states) for slope in slopes):
        return None
    return slopes, sympy.expand(after.subs(dict.fromkeys(states, 0)))


def _read_extreme(kind: Callable[..., Expr], after: Expr, states: Sequence[Expr]) -> Row | None:
    zero = kind()
    row, rest = [zero for _ in states], zero
    for term in _spread(kind, after):
        inside = [i for i, s in enumerate(states) if term.has(s)]
        if not inside:
            rest = kind(rest, term)
            continue
        slope = sympy.expand(term - states[inside[0]])
        if slope.has(*states):
            return None
        row[inside[0]] = kind(row[inside[0]], slope)
    return row, rest


def _spread(kind: Callable[..., Expr], expr: Expr) -> Iterator[Expr]:
    """The terms of max(p, q) + r = max(p + r, q + r)."""
    inner = next((t for t in sympy.Add.make_args(expr) if t.func == kind), None)
    if inner is None:
        yield expr
    else:
        for part in inner.args:
            yield from _spread(kind, expr - inner + part)


SEMIRINGS = (
    Semiring("+, *", sympy.S.Zero, sympy.S.One, sympy.Add, sympy.Mul, _read_linear),
    *(
        Semiring(name, kind(), sympy.S.Zero, kind, sympy.Add, partial(_read_extreme, kind))
        for name, kind in (("max, +", sympy.Max), ("min, +", sympy.Min))
    ),
)


def remembered(ring: Semiring, matrix: list[list[Expr]]) -> list[tuple[int, int]]:
    """Return the entries of products of such matrices that are not always zero, or always one."""
    varies = sympy.Dummy("varies")
    plain = {ring.zero, ring.one}
    pattern = [[e if e in plain else varies for e in row] for row in matrix]
    while True:
        again = [
            [e if e in plain else varies for e in row] for row in ring.product(pattern, pattern)
        ]
        joined = [
            [e if e == f == g else varies for e, f, g in zip(*rows, strict=True)]
            for rows in zip(pattern, again, ring.unit(len(matrix)), strict=True)
        ]
        if joined == pattern:
            return [
                (r, c) for r, row in enumerate(pattern) for c, e in enumerate(row) if e == varies
            ]
        pattern = joined
