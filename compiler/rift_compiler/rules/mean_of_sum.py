"""Rule: a sum over an axis, divided by the axis's size, is a mean, which can be taken running."""

from __future__ import annotations

from rift_compiler.expr import Node, cast, const, fold, open_fold, rewrite, walk
from rift_compiler.index import positive
from rift_compiler.rules.rule import Rule


def mean_of_sum(value: Node) -> Node:
    """sum(f) / N is mean(f) where N is the size of the folded axes."""
    return rewrite(value, _one)


def _one(n: Node) -> Node | None:
    if n.op != "div" or n.args[0].op != "fold" or n.args[0].monoid != "sum":
        return None
    total, count = n.args
    size: Node = const(1)
    for a in total.axes:
        size = size * a.extent
    if total.by is not None or not positive(size) or count is not cast(size, n.dtype):
        return None
    axes, (body,) = open_fold(total)
    if any(x.op == "fold" for x in walk(body)):
        return None  # it is what follows a mean, not one to be followed
    return fold("mean", axes, body)


MEAN_OF_SUM = Rule(
    "mean-of-sum",
    mean_of_sum,
    law="the mean is the sum carried through (n, S) -> (n, S/n), a bijection for n > 0",
    pays="only with the twist after it: a variance that follows a running mean is one pass",
    source="Welford 1962; Chan, Golub and LeVeque 1983",
)
