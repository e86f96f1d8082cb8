"""One expression of a step function: what may stand in it, and its value. No `eval`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any

from rift.errors import WrongUsage
from rift_compiler.algebra.arithmetic import Arithmetic, Value

ALLOWED = (
    "allowed are numbers, inf, s[0], + - * / **, comparisons, `a if c else b`, and/or/not, "
    "max, min, exp, log, sqrt, abs, where(c, a, b), a tuple as the result, "
    "and a lambda called on the spot"
)
LARGEST = 1e300  # of the numbers written out
LARGEST_INDEX = 64
ONE = {"exp", "log", "sqrt", "abs"}  # functions of one argument; max and min take more
BINARY: dict[type, Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
RELATIONS: dict[type, Callable[[Value, Value], Value]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def refused(node: ast.AST, construct: str, what: str) -> WrongUsage:
    """The error for a construct that is not in the language, with its column from 1."""
    column = getattr(node, "col_offset", 0) + 1
    return WrongUsage(f"{what}, column {column}: {construct} is not allowed; {ALLOWED}")


def check(root: ast.expr, names: frozenset[str], what: str) -> None:
    """Raise WrongUsage for the construct nearest to root that `build` does not know."""
    pending: list[ast.AST] = [root]
    for node in pending:
        if not _known(node, names):
            shown = f"{_KINDS.get(type(node), type(node).__name__)} {ast.unparse(node)[:40]}"
            raise refused(node, shown, what)
        inside = node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
        if not isinstance(node, ast.Subscript):
            pending += [n for n in inside if isinstance(n, ast.expr)]


_KINDS: dict[type, str] = {
    ast.Attribute: "attribute access",
    ast.BinOp: "the operator in",
    ast.Call: "the call",
    ast.Constant: "the constant",
    ast.Name: "the name",
    ast.Subscript: "the item",
    ast.Tuple: "inside an expression a tuple",
}


def _known(node: ast.AST, names: frozenset[str]) -> bool:
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return abs(value) < LARGEST
        case ast.Name(id=name):
            return name in names or name == "inf"
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=index)):
            return name in names and type(index) is int and index <= LARGEST_INDEX
        case ast.BinOp(op=op):
            return type(op) in {*BINARY, ast.Pow}
        case ast.UnaryOp(op=op):
            return not isinstance(op, ast.Invert)
        case ast.Compare(ops=ops):
            return {*map(type, ops)} <= RELATIONS.keys()
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            more = len(args) > 1 and name in ("max", "min")
            return more or len(args) == (3 if name == "where" else name in ONE)
    return isinstance(node, (ast.IfExp, ast.BoolOp))


Scope = Mapping[str, Value]
Term = Callable[[Scope, Arithmetic], Value]  # the value of an expression in a number system


def build(node: ast.expr) -> Term:
    """Return a checked node as a function."""
    return _BUILDERS[type(node)](node)


def _constant(node: ast.Constant) -> Term:
    value: Any = node.value
    if isinstance(value, bool):
        return lambda scope, n: value
    exact = Fraction(str(value))  # 0.1 is a tenth
    return lambda scope, n: n.number(exact)


def _name(node: ast.Name) -> Term:
    name = node.id
    return lambda scope, n: scope.get(name, n.infinity)


def _item(node: ast.Subscript) -> Term:
    name, index = node.value.id, node.slice.value  # type: ignore[attr-defined]
    return lambda scope, n: scope[name][index]


def _binary(node: ast.BinOp) -> Term:
    a, b = build(node.left), build(node.right)
    if isinstance(node.op, ast.Pow):
        return lambda scope, n: n.power(n.operand(a(scope, n)), n.operand(b(scope, n)))
    operate = BINARY[type(node.op)]
    return lambda scope, n: operate(n.operand(a(scope, n)), n.operand(b(scope, n)))


def _unary(node: ast.UnaryOp) -> Term:
    a = build(node.operand)
    if isinstance(node.op, ast.Not):
        return lambda scope, n: n.choose(a(scope, n), lambda: False, lambda: True)
    if isinstance(node.op, ast.USub):
        return lambda scope, n: -n.operand(a(scope, n))
    return lambda scope, n: n.operand(a(scope, n))


def _comparison(node: ast.Compare) -> Term:
    terms = [build(part) for part in (node.left, *node.comparators)]
    relations = [RELATIONS[type(op)] for op in node.ops]

    def compare(scope: Scope, n: Arithmetic) -> Value:
        values = [n.operand(term(scope, n)) for term in terms]
        tests = map(n.compare, relations, values, values[1:])
        return reduce(lambda so_far, test: n.both(so_far, lambda: test), tests)

    return compare


def _choice(test: ast.expr, then: ast.expr, other: ast.expr) -> Term:
    c, a, b = build(test), build(then), build(other)
    return lambda scope, n: n.choose(c(scope, n), lambda: a(scope, n), lambda: b(scope, n))


def _connective(node: ast.BoolOp) -> Term:
    name = "either" if isinstance(node.op, ast.Or) else "both"

    def pair(a: Term, b: Term) -> Term:
        return lambda scope, n: getattr(n, name)(a(scope, n), lambda: b(scope, n))

    return reduce(pair, map(build, node.values))


def _call(node: ast.Call) -> Term:
    name = node.func.id  # type: ignore[attr-defined]
    if name == "where":
        return _choice(*node.args)
    first, *rest = map(build, node.args)
    if not rest:
        return lambda scope, n: getattr(n, name)(n.operand(first(scope, n)))

    def extreme(scope: Scope, n: Arithmetic) -> Value:
        values = (n.operand(term(scope, n)) for term in rest)
        return reduce(getattr(n, name), values, n.operand(first(scope, n)))

    return extreme


_BUILDERS: dict[type, Callable[[Any], Term]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Subscript: _item,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _comparison,
    ast.BoolOp: _connective,
    ast.IfExp: lambda node: _choice(node.test, node.body, node.orelse),
    ast.Call: _call,
}
