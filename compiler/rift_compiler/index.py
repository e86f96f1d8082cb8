"""Exact simplification of index arithmetic: polynomials over axes and sizes, with their ranges.

It is what turns chains of reshapes into plain indices: (32*b + h)//32 is b where 0 <= h < 32.
Only laws of integers are used, so the rules hold for int64 data too (sums wrap around alike).
"""

from __future__ import annotations

from collections.abc import Callable

from rift_compiler.dtypes import i64
from rift_compiler.expr import FALSE, TRUE, Node, apply, const, where

Monomial = tuple[Node, ...]  # atoms, in a fixed order; () is 1
Poly = dict[Monomial, int]


def simplify(op: str, x: Node, y: Node) -> Node:
    """apply(op, x, y) for i64, in its simplest known form."""
    if op in ("add", "sub", "mul"):
        return from_poly(_ARITHMETIC[op](to_poly(x), to_poly(y)))
    if op in ("floordiv", "mod"):
        return _divide(op, x, y)
    if op in ("lt", "le", "gt", "ge"):
        return _compare(op, x, y)
    return apply(op, x, y)


def simplest(n: Node) -> Node | None:
    """For expr.rewrite: an i64 node in its simplest form."""
    if n.op in ("add", "sub", "mul", "floordiv", "mod") and n.dtype is i64:
        return simplify(n.op, *n.args)
    if n.op in ("lt", "le", "gt", "ge") and n.args[0].dtype is i64:
        return simplify(n.op, *n.args)
    if n.op == "where":
        return _choice(*n.args)
    if n.op == "and_" and TRUE in n.args:
        return n.args[0] if n.args[1] is TRUE else n.args[1]
    if n.op == "and_" and FALSE in n.args:
        return FALSE
    return None


def _choice(condition: Node, then: Node, other: Node) -> Node:
    """where, without asking inside what is already known."""
    if then.op == "where" and then.args[0] is condition:
        then = then.args[1]
    if other.op == "where" and _opposite(other.args[0], condition):
        other = other.args[1]
    return where(condition, then, other)


def _opposite(p: Node, q: Node) -> bool:
    """Whether one of two comparisons of integers is plainly not the other."""
    whole = p.op in ("lt", "le") and p.args[0].dtype.is_int
    return whole and {p.op, q.op} == {"lt", "le"} and p.args == q.args[::-1]


def to_poly(n: Node) -> Poly:
    """n as a polynomial; what is no sum or product is an atom."""
    if n.op == "const":
        return {(): n.value} if n.value else {}
    if n.op in ("add", "sub", "mul"):
        return _ARITHMETIC[n.op](to_poly(n.args[0]), to_poly(n.args[1]))
    return {(n,): 1}


def from_poly(p: Poly) -> Node:
    """The expression of a polynomial, terms in order, the constant last."""
    total: Node | None = None
    for term, k in [*((t, k) for t, k in p.items() if t), *((t, k) for t, k in p.items() if not t)]:
        node: Node | None = None
        for atom in term:
            node = atom if node is None else apply("mul", node, atom)
        size = const(abs(k) if total is not None else k)
        part = size if node is None else node if size.value == 1 else apply("mul", node, size)
        total = part if total is None else apply("add" if k > 0 else "sub", total, part)
    return const(0) if total is None else total


def _add(a: Poly, b: Poly, sign: int = 1) -> Poly:
    out = dict(a)
    for t, k in b.items():
        out[t] = out.get(t, 0) + sign * k
    return {t: k for t, k in out.items() if k}


def _mul(a: Poly, b: Poly) -> Poly:
    out: Poly = {}
    for t, k in a.items():
        for u, j in b.items():
            term = tuple(sorted((*t, *u), key=lambda n: (n.op != "axis", str(n.data))))
            out[term] = out.get(term, 0) + k * j
    return {t: k for t, k in out.items() if k}


_ARITHMETIC: dict[str, Callable[[Poly, Poly], Poly]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, b, -1),
    "mul": _mul,
}


def bounds(p: Poly) -> tuple[Poly | None, Poly | None]:
    """The least and greatest value of p as polynomials over sizes; None where unknown."""
    low: Poly | None = {}
    high: Poly | None = {}
    for term, k in p.items():
        lo, hi = _term_bounds(term)
        if k < 0:
            lo, hi = hi, lo
        low = None if low is None or lo is None else _add(low, _mul({(): k}, lo))
        high = None if high is None or hi is None else _add(high, _mul({(): k}, hi))
    return low, high


def _term_bounds(term: Monomial) -> tuple[Poly | None, Poly | None]:
    low: Poly | None = {(): 1}
    high: Poly | None = {(): 1}
    for atom in term:
        lo, hi = _atom_bounds(atom)
        if lo is None or not nonnegative(lo):
            return (lo, hi) if len(term) == 1 else (None, None)
        low = None if low is None else _mul(low, lo)
        high = None if high is None or hi is None else _mul(high, hi)
    return low, high


def _atom_bounds(n: Node) -> tuple[Poly | None, Poly | None]:
    if n.op == "axis":
        return {}, bounds(_add(to_poly(n.extent), {(): -1}))[1]
    if n.op == "dim":
        return {(n,): 1}, {(n,): 1}
    if n.op == "mod" and positive(n.args[1]):
        return {}, _add(to_poly(n.args[1]), {(): -1})
    if n.op == "checked":
        return {}, _add(to_poly(n.args[1]), {(): -1})
    if n.op in ("min", "max"):
        return _extreme_bounds(n)
    if n.op == "floordiv" and n.args[1].op == "const" and n.args[1].value > 0:
        low, high = bounds(to_poly(n.args[0]))
        least, most = _scaled(low, n.args[1].value), _scaled(high, n.args[1].value)
        if low is None or not nonnegative(low):
            return least, most
        return least or {}, high if most is None else most  # 0 <= x // c <= x where x >= 0
    return None, None


def _extreme_bounds(n: Node) -> tuple[Poly | None, Poly | None]:
    (al, ah), (bl, bh) = (bounds(to_poly(a)) for a in n.args)
    if n.op == "min":
        low = al if al == bl else {} if al is not None and bl is not None and all(
            nonnegative(x) for x in (al, bl)) else None  # fmt: skip
        return low, ah if ah is not None else bh
    return al if al is not None else bl, ah if ah == bh else None


def _scaled(p: Poly | None, by: int) -> Poly | None:
    """p // by where p is a number."""
    return None if p is None or any(p) else {(): p.get((), 0) // by}


def fits_int(n: Node) -> bool:
    """Whether n, and all that it is made of, is surely a 32-bit integer."""
    if n.op not in ("axis", "const", "add", "sub", "mul", "floordiv", "mod", "min", "max"):
        return False
    low, high = bounds(to_poly(n))
    if low is None or high is None or any(low) or any(high):
        return False
    inside = low.get((), 0) >= -(2**31) and high.get((), 0) < 2**31
    return inside and (n.op == "axis" or all(fits_int(a) for a in n.args))


def nonnegative(p: Poly) -> bool:
    """Whether p, over sizes that are at least 1, is surely at least 0."""
    return all(k >= 0 for t, k in p.items() if t) and sum(p.values()) >= 0


def positive(n: Node) -> bool:
    """Whether n is surely at least 1."""
    low = bounds(to_poly(n))[0]
    return low is not None and nonnegative(_add(low, {(): -1}))


def _compare(op: str, x: Node, y: Node) -> Node:
    """Decide x < y and its kin where ranges allow."""
    if op in ("gt", "ge"):
        x, y, op = y, x, {"gt": "lt", "ge": "le"}[op]
    gap = _add(to_poly(y), to_poly(x), -1)
    if op == "lt":
        gap = _add(gap, {(): -1})  # x < y means y - x - 1 >= 0
    low, high = bounds(gap)
    if low is not None and nonnegative(low):
        return TRUE
    if high is not None and nonnegative(_add({(): -1}, high, -1)):
        return FALSE
    return apply(op, x, y)


def largest(x: Node, y: Node) -> Node:
    """max(x, y), decided where ranges allow."""
    return x if (x >= y) is TRUE else y if (x <= y) is TRUE else apply("max", x, y)


def smallest(x: Node, y: Node) -> Node:
    """min(x, y), decided where ranges allow."""
    return x if (x <= y) is TRUE else y if (x >= y) is TRUE else apply("min", x, y)


def _divide(op: str, x: Node, y: Node) -> Node:
    """(q*y + r) // y is q + r//y, and (q*y + r) % y is r % y; both end where 0 <= r < y."""
    divisor = to_poly(y)
    if len(divisor) != 1 or not positive(y):
        return apply(op, x, y)
    ((term, size),) = divisor.items()
    quotient: Poly = {}
    rest: Poly = {}
    for t, k in to_poly(x).items():
        left = _without(t, term)
        if left is None or k % size:
            rest[t] = k
        else:
            quotient[left] = k // size
    remainder = from_poly(rest)
    if remainder.op == "const" and y.op == "const":
        whole, part = divmod(remainder.value, y.value)
        return from_poly(_add(quotient, {(): whole})) if op == "floordiv" else const(part)
    small = within(rest, divisor)
    if op == "mod":
        return remainder if small else apply("mod", remainder, y)
    if small:
        return from_poly(quotient)
    if remainder.op == "floordiv" and all(a.op == "const" for a in (remainder.args[1], y)):
        inner = simplify("floordiv", remainder.args[0], const(remainder.args[1].value * y.value))
    else:
        inner = apply("floordiv", remainder, y)
    return from_poly(_add(quotient, {(inner,): 1}))


def within(p: Poly, size: Poly) -> bool:
    """Whether 0 <= p < size, surely."""
    low, high = bounds(p)
    if low is None or high is None or not nonnegative(low):
        return False
    return nonnegative(_add(_add(size, high, -1), {(): -1}))


def _without(term: Monomial, factors: Monomial) -> Monomial | None:
    """term with factors taken out, None where they are not all in it."""
    left = list(term)
    for f in factors:
        if f not in left:
            return None
        left.remove(f)
    return tuple(left)
