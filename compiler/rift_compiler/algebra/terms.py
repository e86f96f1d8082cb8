"""One expression of a step function: what may stand in it, and its value. Nothing is `eval`ed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache, reduce
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
    """Raise WrongUsage for the construct nearest to root that `evaluate` does not know."""
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


def evaluate(node: ast.AST, scope: Mapping[str, Value], n: Arithmetic) -> Value:
    """The value of a checked node in a number system."""
    if isinstance(node, ast.Name):
        return scope.get(node.id, n.infinity)
    return _EVALUATORS[type(node)](node, lambda inner: evaluate(inner, scope, n), n)


Of = Callable[[ast.AST], Value]


def _constant(node: ast.Constant, of: Of, n: Arithmetic) -> Value:
    value: Any = node.value
    return value if isinstance(value, bool) else n.number(_exact(str(value)))


@lru_cache(maxsize=512)
def _exact(text: str) -> Fraction:
    return Fraction(text)  # 0.1 is a tenth


def _item(node: ast.Subscript, of: Of, n: Arithmetic) -> Value:
    return of(node.value)[node.slice.value]  # type: ignore[attr-defined]


def _binary(node: ast.BinOp, of: Of, n: Arithmetic) -> Value:
    operate = BINARY.get(type(node.op), n.power)
    return operate(n.operand(of(node.left)), n.operand(of(node.right)))


def _unary(node: ast.UnaryOp, of: Of, n: Arithmetic) -> Value:
    if isinstance(node.op, ast.Not):
        return n.choose(of(node.operand), lambda: False, lambda: True)
    value = n.operand(of(node.operand))
    return -value if isinstance(node.op, ast.USub) else value


def _comparison(node: ast.Compare, of: Of, n: Arithmetic) -> Value:
    values = [n.operand(of(v)) for v in (node.left, *node.comparators)]
    tests = map(n.compare, (RELATIONS[type(op)] for op in node.ops), values, values[1:])
    return reduce(lambda so_far, test: n.both(so_far, lambda: test), tests)


def _choice(nodes: list[ast.expr], of: Of, n: Arithmetic) -> Value:
    return n.choose(of(nodes[0]), lambda: of(nodes[1]), lambda: of(nodes[2]))


def _connective(node: ast.BoolOp, of: Of, n: Arithmetic) -> Value:
    join = n.either if isinstance(node.op, ast.Or) else n.both
    first, *rest = node.values
    return reduce(lambda so_far, v: join(so_far, lambda: of(v)), rest, of(first))


def _call(node: ast.Call, of: Of, n: Arithmetic) -> Value:
    name = node.func.id  # type: ignore[attr-defined]
    if name == "where":
        return _choice(node.args, of, n)
    values = [n.operand(of(argument)) for argument in node.args]
    return getattr(n, name)(*values) if name in ONE else reduce(getattr(n, name), values)


_EVALUATORS: dict[type, Callable[[Any, Of, Arithmetic], Value]] = {
    ast.Constant: _constant,
    ast.Subscript: _item,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _comparison,
    ast.BoolOp: _connective,
    ast.IfExp: lambda node, of, n: _choice([node.test, node.body, node.orelse], of, n),
    ast.Call: _call,
}
