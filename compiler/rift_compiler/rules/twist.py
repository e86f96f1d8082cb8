"""Rule: a fold that waits for another fold's result follows it instead, in the same pass.

The second fold's terms use the first's result A. Where changing A from old to new changes every
term by one and the same action, and that action passes through the second monoid, the partial
result can be carried along whenever A moves. Which action, and whether there is one, is derived by
the algebra (algebra.action) from the terms alone; nothing here knows what the program computes.
"""

from __future__ import annotations

import functools

import sympy

from rift_compiler.algebra.action import Action, derive
from rift_compiler.expr import (
    Node,
    apply,
    arg,
    const,
    fold,
    open_fold,
    rewrite,
    substitute,
    walk,
)
from rift_compiler.folds import identity
from rift_compiler.interpret import Evaluator
from rift_compiler.rules.rule import Rule


def twist(value: Node) -> Node:
    """Give every fold that depends on another over the same axes its action, where it has one."""
    return rewrite(value, _one)


def _one(n: Node) -> Node | None:
    if n.op != "fold" or n.by is not None or not n.dtype.is_float:
        return None
    axes, (body,) = open_fold(n)
    for base in (x for x in walk(body) if x.op == "fold" and x.by is None):
        if not _same_axes(base, n) or not base.free.isdisjoint(axes) or base.dtype is not n.dtype:
            continue
        action = _action(n, base, body, frozenset(axes))
        if action is not None:
            return _twisted(n, base, body, axes, action)
    return None


def _same_axes(f: Node, g: Node) -> bool:
    return [a.extent for a in f.axes] == [a.extent for a in g.axes]


def _action(n: Node, base: Node, body: Node, bound: frozenset[Node]) -> Node | None:
    """The action as an expression of acc, old, new and count; None where there is none."""
    symbols = _Symbols(base)
    lift = symbols.of(body)
    if lift is None or symbols.centre not in lift.free_symbols:
        return None
    element = symbols.element(base) if base.monoid == "mean" else None
    if base.monoid == "mean" and element is None:
        return None
    found = _derived(lift, symbols.centre, base.monoid, n.monoid, element)
    return _expression(found.expr, n.dtype, base) if isinstance(found, Action) else None


_derived = functools.lru_cache(maxsize=1024)(derive)


class _Symbols:
    """Expressions as sympy: what does not contain the base fold is one opaque symbol.

    Symbols are numbered as they are met, so that like terms are the same question to the algebra.
    """

    def __init__(self, base: Node) -> None:
        self.base = base
        self.centre = sympy.Symbol("A", real=True)
        self.opaque: dict[Node, sympy.Symbol] = {}

    def of(self, root: Node) -> sympy.Expr | None:
        """root, or None where the base passes through an operation that is not smooth algebra."""
        known: dict[Node, sympy.Expr | None] = {self.base: self.centre}
        for n in walk(root):
            if n is not self.base and any(a in known for a in n.args):
                known[n] = self._apply(n, known)
        return known.get(root)

    def element(self, base: Node) -> sympy.Symbol | None:
        """The symbol of the base's own term, if the terms that use it have it."""
        matches = [s for n, s in self.opaque.items() if _alike(n, base)]
        return matches[0] if matches else None

    def _symbol(self, n: Node) -> sympy.Expr:
        if (
            n.op == "const"
            and n.dtype.is_float
            and n.value == n.value
            and abs(n.value) != float("inf")
        ):
            return sympy.Integer(int(n.value)) if n.value.is_integer() else sympy.Float(n.value)
        return self.opaque.setdefault(n, sympy.Symbol(f"x{len(self.opaque)}", real=True))

    def _apply(self, n: Node, known: dict[Node, sympy.Expr | None]) -> sympy.Expr | None:
        args = [known[a] if a in known else self._symbol(a) for a in n.args]
        make = _SYMPY.get(n.op)
        if make is None or any(a is None for a in args):
            return None
        return make(*args)


_SYMPY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "exp": sympy.exp,
    "pow": lambda a, b: a**b,
}


def _alike(n: Node, base: Node) -> bool:
    """Whether n, over open axes, is the base's term over its own."""
    axes = [a for a in n.free if a not in base.free]
    if len(axes) != len(base.axes):
        return False
    return fold(base.monoid, sorted(axes, key=lambda a: a.name), n) is base


def _expression(e: sympy.Expr, dtype: object, base: Node) -> Node | None:
    """A derived action as one of our expressions."""
    from rift_compiler.dtypes import DType

    assert isinstance(dtype, DType)
    if e.is_Symbol:
        return arg(str(e), dtype)
    if e.is_Number:
        return const(float(e), dtype)
    args = [_expression(a, dtype, base) for a in e.args]
    if any(a is None for a in args):
        return None
    parts = [a for a in args if a is not None]
    name = type(e).__name__
    if name == "exp":
        return apply("exp", parts[0])
    if name in ("Add", "Mul"):
        negative = [a for a in e.args if name == "Add" and a.could_extract_minus_sign()]
        if negative and len(e.args) == 2 and len(negative) == 1:
            plus = next(p for a, p in zip(e.args, parts, strict=True) if a is not negative[0])
            minus = _expression(-negative[0], dtype, base)
            return None if minus is None else apply("sub", plus, minus)
        out = parts[0]
        for p in parts[1:]:
            out = apply("add" if name == "Add" else "mul", out, p)
        return out
    if name == "Pow" and e.args[1] == 2:
        return apply("mul", parts[0], parts[0])
    return None


def _twisted(n: Node, base: Node, body: Node, axes: list[Node], act: Node) -> Node:
    """The twisted fold; n where its action would not keep an empty part empty.

    A running maximum may be -inf so far: terms then use 0 as the centre, and what follows from a
    maximum that stays so is put back as the difference of it with itself (0, or NaN where the
    maximum is infinite). So too for a minimum.
    """
    if base.monoid not in ("max", "min"):
        return fold(n.monoid, axes, body, base, act)
    new = arg("new", base.dtype)
    safe = substitute(act, {new: apply("finite", new)})
    if not _keeps_empty(safe, n, base):
        return n
    lift = substitute(body, {base: apply("finite", base)})
    return fold(n.monoid, axes, lift, base, safe) + (base - base)


def _keeps_empty(act: Node, n: Node, base: Node) -> bool:
    """Whether the action takes the state before the first term to itself, whatever comes first."""
    start, empty = identity(base.monoid, base.dtype), identity(n.monoid, n.dtype)
    args = {arg("acc", n.dtype): empty, arg("old", base.dtype): start}
    for first in (-3.5, 0.0, 2.0):
        moved = substitute(act, {**args, arg("new", base.dtype): const(first, base.dtype)})
        if float(Evaluator({}, {})(moved)) != empty.value:
            return False
    return True


TWIST = Rule(
    "twist",
    twist,
    law="an action that passes through the monoid: the joint fold is a twisted monoid",
    pays="one pass over the operands instead of one for each fold",
    source="derived, see algebra.action; Milakov and Gimelshein 2018 is the case of max and exp",
)
