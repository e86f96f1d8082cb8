"""Rule: take factors that do not vary with the folded axis out of a sum."""

from __future__ import annotations

from rift_compiler.expr import Node, apply, fold, open_fold, rewrite
from rift_compiler.rules.rule import Rule


def factor_out(value: Node) -> Node:
    """sum(c * f) is c * sum(f), and sum(f / c) is sum(f) / c, for c that does not vary."""
    return rewrite(value, _one)


def _one(n: Node) -> Node | None:
    if n.op != "fold" or n.monoid != "sum" or n.by is not None or not n.dtype.is_float:
        return None
    axes, (body,) = open_fold(n)
    bound = frozenset(axes)
    over: list[tuple[str, Node]] = []
    rest = _strip(body, bound, over)
    if not over or rest is None:
        return None
    out = fold("sum", axes, rest)
    for op, factor in reversed(over):
        out = apply(op, out, factor)
    return out


def _strip(n: Node, bound: frozenset[Node], over: list[tuple[str, Node]]) -> Node | None:
    """n without the factors that do not vary with bound, which go into over; None if all are."""
    if n.free.isdisjoint(bound):
        return None
    if n.op == "div" and n.args[1].free.isdisjoint(bound):
        over.append(("div", n.args[1]))
        return _strip(n.args[0], bound, over)
    if n.op == "mul":
        for x, y in (n.args, n.args[::-1]):
            if y.free.isdisjoint(bound):
                over.append(("mul", y))
                return _strip(x, bound, over)
        left = [_strip(a, bound, over) for a in n.args]
        return apply("mul", left[0], left[1]) if left[0] is not None and left[1] is not None else n
    return n


FACTOR_OUT = Rule(
    "factor-out",
    factor_out,
    law="distributivity: a sum of c*f is c times the sum of f",
    pays="one multiplication a sum instead of one a term; sums no longer wait for c",
    source="e.g. Milakov and Gimelshein 2018, arXiv:1805.02867: softmax divides after summing",
)
