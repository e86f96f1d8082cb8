"""Step functions as text: Python lambdas of arithmetic, parsed into functions of any number system.

lambda s, x: (max(s[0], x), s[1] + 1)     a state of two components, a plain element
lambda s, x: (lambda m: m + log(x))(s*s)  a lambda called on the spot names a value
"""

from __future__ import annotations

import ast
import copy
import warnings
from dataclasses import dataclass
from functools import lru_cache

from rift.errors import WrongUsage
from rift_compiler.algebra.arithmetic import Arithmetic, State
from rift_compiler.algebra.terms import Term, build, check, refused

LONGEST = 4000  # characters
MOST_NODES = 4000
DEEPEST = 60  # levels of nesting: the reader, its functions and sympy all recurse over them
LARGEST_POWER = 64


@dataclass(frozen=True, slots=True)
class Lambda:
    """A parsed lambda. A width is 0 for a plain number, else what the indices used imply."""

    source: str
    parameters: tuple[str, ...]
    widths: tuple[int, ...]
    reads: frozenset[str]  # the parameters that occur
    body: tuple[Term, ...]  # a number's one expression, or a tuple's
    scalar: bool  # returns a number, not a tuple
    rational: bool  # fractions go to fractions: no exp, log or sqrt, whole literal powers only

    def __call__(self, arithmetic: Arithmetic, *arguments: State) -> State:
        """Return the components; a number comes and goes as a tuple of one.

        Raises ArithmeticError (Undefined, ZeroDivisionError) where there is no value.
        """
        scope = {
            name: state if width else state[0]
            for name, width, state in zip(self.parameters, self.widths, arguments, strict=True)
        }
        return tuple(arithmetic.result(term(scope, arithmetic)) for term in self.body)


@lru_cache(maxsize=512)
def parse(source: str, parameters: int, what: str = "lambda", before: int = 0) -> Lambda:
    """Read a lambda of so many parameters. Raises WrongUsage with the column, from 1.

    before: characters that the user did not write, and that are not counted.
    """
    tree = _tree(source, what, before)
    names = tuple(a.arg for a in tree.args.args)
    if len(set(names)) != parameters or ast.unparse(tree.args) != ", ".join(names):
        raise WrongUsage(f"{what}: expected {parameters} plain parameters, got {source.strip()!r}")
    body = _Inline(what).visit(tree.body)
    parts = _components(body, what)
    for part in parts or (body,):
        check(part, frozenset(names), what)
    widths = tuple(_width(body, name, what) for name in names)
    reads = frozenset(name for name in names if any(_is(n, name) for n in ast.walk(body)))
    terms = tuple(map(build, parts or (body,)))
    return Lambda(source, names, widths, reads, terms, not parts, _rational(body))


def _tree(source: str, what: str, before: int) -> ast.Lambda:
    text = source.translate(dict.fromkeys(map(ord, "\n\r\t"), " "))
    indent = len(text) - len(text.lstrip())
    if len(text) > LONGEST:
        raise WrongUsage(f"{what}: {len(text)} characters; expected at most {LONGEST}")
    try:
        with warnings.catch_warnings(action="ignore"):  # of odd literals: they are refused later
            body = ast.parse(text[indent:], mode="eval").body
    except SyntaxError as error:
        inside = error.lineno == 1 and error.offset
        column = indent - before + (inside or len(text) - indent + 1)
        raise WrongUsage(f"{what}, column {column}: {error.msg}") from error
    except (RecursionError, MemoryError, ValueError) as error:
        raise WrongUsage(f"{what}: cannot be read: {type(error).__name__}, {error}") from error
    level: list[ast.AST] = [body]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise WrongUsage(f"{what}: nested deeper than {DEEPEST} levels; give a smaller lambda")
    for node in ast.walk(body):
        if hasattr(node, "col_offset"):
            node.col_offset += indent - before
    if not isinstance(body, ast.Lambda):
        raise WrongUsage(f'{what}: expected "lambda s, x: ...", got {source.strip()[:60]!r}')
    return body


class _Inline(ast.NodeTransformer):
    """Writes out lambdas called on the spot: (lambda m, d: m + d)(*s) becomes s[0] + s[1]."""

    def __init__(self, what: str) -> None:
        self.what = what

    def visit_Call(self, call: ast.Call) -> ast.AST:
        self.generic_visit(call)
        if not isinstance(call.func, ast.Lambda):
            return call
        names = [a.arg for a in call.func.args.args]
        values = call.args
        if len(values) == 1 and isinstance(values[0], ast.Starred):
            values = [_item(values[0].value, i) for i in range(len(names))]
        if len(values) != len(names) or call.keywords:
            raise refused(call, f"a call of {len(names)} with {len(values)} values", self.what)
        body: ast.expr = _Replace(dict(zip(names, values, strict=True))).visit(call.func.body)
        if sum(1 for _ in ast.walk(body)) > MOST_NODES:
            raise WrongUsage(f"{self.what}: more than {MOST_NODES} terms when written out")
        return body


class _Replace(ast.NodeTransformer):
    """Puts copies of expressions where names stand."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.values.get(node.id, node))


def _item(whole: ast.expr, index: int) -> ast.expr:
    return ast.copy_location(ast.Subscript(whole, ast.Constant(index), ast.Load()), whole)


def _components(node: ast.expr, what: str) -> tuple[ast.expr, ...]:
    """The expressions of a tuple, or of a choice between tuples; none for a number."""
    if isinstance(node, ast.Tuple):
        if not node.elts:
            raise refused(node, "an empty tuple", what)
        return tuple(node.elts)
    if not isinstance(node, ast.IfExp):
        return ()
    then, other = _components(node.body, what), _components(node.orelse, what)
    if len(then) != len(other):
        raise refused(node, "a choice between results of two sizes", what)
    pairs = zip(then, other, strict=True)
    return tuple(ast.copy_location(ast.IfExp(node.test, a, b), node) for a, b in pairs)


def _width(body: ast.expr, name: str, what: str) -> int:
    """0 where name stands for a number, else one more than the largest index."""
    items = [n for n in ast.walk(body) if isinstance(n, ast.Subscript) and _is(n.value, name)]
    inside = {id(item.value) for item in items}
    for node in ast.walk(body) if items else ():
        if _is(node, name) and id(node) not in inside:
            raise refused(node, f"{name} both as a number and as a tuple", what)
    indices = [n.slice.value for n in items if isinstance(n.slice, ast.Constant)]
    return 1 + max((i for i in indices if isinstance(i, int)), default=-1)


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _rational(body: ast.expr) -> bool:
    nodes = list(ast.walk(body))
    powers = [n.right for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)]
    return all(map(_small_integer, powers)) and not any(
        _is(n, name) for n in nodes for name in ("exp", "log", "sqrt")
    )


def _small_integer(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    value = node.value if isinstance(node, ast.Constant) else None
    return type(value) is int and value <= LARGEST_POWER
