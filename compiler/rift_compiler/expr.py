"""Scalar expressions over index axes: the one language that Tensor, Loop and Tile IR are made of.

A node is frozen and interned: equal expressions are one object, so `is` compares whole graphs.

  const 2.0          dim seq            a size known only at run time
  axis i0 < 32       an index; free until a fold binds it or a kernel loops over it
  load x[i0, k1]     an element of a buffer; a guard makes it 0 where the guard is false
  add mul exp ...    one row of scalar_ops.SCALAR_OPS each
  cast               to the node's own type
  fold sum[k1](..)   over bound axes, by a monoid; with `by` and `act` it is twisted (see fold)
  scan sum[i1](..)   the running fold up to and including the current position of a free axis
  arg acc, var v1    what an action speaks of; a local variable of Tile IR
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from rift_compiler.dtypes import DType, bool_, i64
from rift_compiler.scalar_ops import SCALAR_OPS

NO_AXES: frozenset[Node] = frozenset()


class IrError(Exception):
    """An IR that breaks its own rules, or text that is no IR, with the place."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """One operation. `free` are the axes it varies with; `height` the depth of folds in it."""

    op: str
    args: tuple[Node, ...]
    data: Any
    dtype: DType
    free: frozenset[Node] = field(repr=False)
    height: int = field(repr=False)

    def __add__(self, other: Number) -> Node:
        return _binary("add", self, other)

    def __radd__(self, other: Number) -> Node:
        return _binary("add", other, self)

    def __sub__(self, other: Number) -> Node:
        return _binary("sub", self, other)

    def __rsub__(self, other: Number) -> Node:
        return _binary("sub", other, self)

    def __mul__(self, other: Number) -> Node:
        return _binary("mul", self, other)

    def __rmul__(self, other: Number) -> Node:
        return _binary("mul", other, self)

    def __truediv__(self, other: Number) -> Node:
        return _binary("div", self, other)

    def __rtruediv__(self, other: Number) -> Node:
        return _binary("div", other, self)

    def __floordiv__(self, other: Number) -> Node:
        return _binary("floordiv", self, other)

    def __mod__(self, other: Number) -> Node:
        return _binary("mod", self, other)

    def __neg__(self) -> Node:
        return apply("neg", self)

    def __lt__(self, other: Number) -> Node:
        return _binary("lt", self, other)

    def __le__(self, other: Number) -> Node:
        return _binary("le", self, other)

    def __gt__(self, other: Number) -> Node:
        return _binary("gt", self, other)

    def __ge__(self, other: Number) -> Node:
        return _binary("ge", self, other)

    def __and__(self, other: Number) -> Node:
        return _binary("and_", self, other)

    def __or__(self, other: Number) -> Node:
        return _binary("or_", self, other)

    def eq(self, other: Number) -> Node:
        """self == other, elementwise; `==` itself is identity."""
        return _binary("eq", self, other)

    def ne(self, other: Number) -> Node:
        """self != other, elementwise."""
        return _binary("ne", self, other)

    @property
    def value(self) -> Any:
        """The Python number of a const."""
        assert self.op == "const"
        if self.dtype is bool_:
            return self.data == "True"
        return float(self.data) if self.dtype.is_float else int(self.data)

    @property
    def extent(self) -> Node:
        """The size of an axis."""
        assert self.op == "axis"
        return self.args[0]

    @property
    def bind(self) -> str:
        """What runs an axis: seq, grid, thread or array (see tile_ir)."""
        assert self.op == "axis"
        return str(self.data[1])

    @property
    def name(self) -> str:
        """An axis's, buffer's, variable's, dim's or argument's name."""
        return str(self.data[0] if isinstance(self.data, tuple) else self.data)

    # Of a fold or a scan.
    @property
    def monoid(self) -> str:
        """A fold's or scan's monoid: a name in algebra.monoids.MONOIDS."""
        return str(self.data[0])

    @property
    def axes(self) -> tuple[Node, ...]:
        """The axes that a fold binds, or the one a scan runs along."""
        return self.args[: self.data[1]]

    @property
    def body(self) -> Node:
        """What a fold or a scan lifts at each position."""
        node: Node = self.args[self.data[1]]
        return node

    @property
    def by(self) -> Node | None:
        """The fold that a twisted fold follows."""
        return self.args[self.data[1] + 1] if len(self.args) > self.data[1] + 1 else None

    @property
    def act(self) -> Node:
        """How a twisted fold's partial result changes when `by` moves from old to new."""
        node: Node = self.args[self.data[1] + 2]
        return node

    # Of a load.
    @property
    def index(self) -> tuple[Node, ...]:
        """Where a load reads."""
        return self.args[:-1]

    @property
    def guard(self) -> Node:
        """When a load reads at all; elsewhere it is 0."""
        return self.args[-1]

    def __str__(self) -> str:
        from rift_compiler.text import expression

        return expression(self)


Number = Node | float | int | bool
_interned: WeakValueDictionary[tuple[Any, ...], Node] = WeakValueDictionary()
_fresh = itertools.count()


def make(op: str, args: Sequence[Node], data: Any, dtype: DType) -> Node:
    """The one node of this op, args, data and type. For rules; others use the functions below."""
    args = tuple(args)
    key = (op, args, data, dtype)
    found = _interned.get(key)
    if found is not None:
        return found
    free = NO_AXES.union(*(a.free for a in args)) if args else NO_AXES
    height = max((a.height for a in args), default=0)
    if op == "fold":
        free -= frozenset(args[: data[1]])
        height += data[1]
    elif op == "var":
        free |= data[1]
    node = Node(op, args, data, dtype, free, height)
    if op == "axis":
        object.__setattr__(node, "free", free | {node})
    return _interned.setdefault(key, node)


def const(value: float | bool, dtype: DType = i64) -> Node:
    """A constant. Its data is Python's own spelling: it keeps nan, inf, -0.0 and True apart."""
    if dtype is bool_:
        return make("const", (), str(bool(value)), dtype)
    return make("const", (), repr(float(value)) if dtype.is_float else str(int(value)), dtype)


TRUE = const(True, bool_)
FALSE = const(False, bool_)


def dim(name: str) -> Node:
    """A size known at run time, at least 1."""
    return make("dim", (), name, i64)


def axis(name: str, extent: Node | int, bind: str = "seq") -> Node:
    """An index from 0 up to extent."""
    return make("axis", (_node(extent, i64),), (name, bind), i64)


def fresh_axis(extent: Node | int, bind: str = "seq") -> Node:
    """An axis that no expression has yet; fold() gives it its lasting name."""
    return axis(f"_{next(_fresh)}", extent, bind)


def load(buffer: str, index: Sequence[Node], dtype: DType, guard: Node = TRUE) -> Node:
    """buffer[index] where guard holds, else 0."""
    return make("load", (*index, guard), buffer, dtype)


def arg(name: str, dtype: DType) -> Node:
    """acc, old, new or count: what the action of a twisted fold speaks of."""
    return make("arg", (), name, dtype)


def apply(op: str, *args: Node) -> Node:
    """A scalar operation. Raises IrError when the types do not fit its row in SCALAR_OPS."""
    row = SCALAR_OPS.get(op)
    if row is None:
        raise IrError(f"no scalar operation is called {op!r}")
    if len(args) != row.arity:
        raise IrError(f"{op} takes {row.arity} arguments, got {len(args)}")
    same = args[1:] if row.rule == "where" else args
    kinds = {a.dtype for a in same}
    if len(kinds) != 1:
        raise IrError(f"{op} of different types: {', '.join(str(a.dtype) for a in same)}")
    dtype = same[0].dtype
    if row.rule == "where" and args[0].dtype is not bool_:
        raise IrError(f"where asks a bool first, got {args[0].dtype}")
    if row.rule != "where" and (dtype.kind not in row.kinds or not dtype.computes):
        raise IrError(f"{op} does not compute in {dtype}")
    return make(op, args, None, bool_ if row.rule == "compare" else dtype)


def where(condition: Node, then: Node, other: Node) -> Node:
    """then where condition holds, else other; a constant condition chooses at once."""
    if condition.op == "const":
        return then if condition.value else other
    return then if then is other else apply("where", condition, then, other)


def cast(x: Node, dtype: DType) -> Node:
    """x as dtype, as C converts: towards zero to integers, to bool whether it is not 0."""
    if x.dtype is dtype:
        return x
    if x.op == "const" and dtype.computes and not (dtype.is_int and x.dtype.is_float):
        return const(x.value, dtype)
    return make("cast", (x,), None, dtype)


def all_of(*conditions: Node) -> Node:
    """The conjunction, without what is plainly true."""
    out = TRUE
    for c in conditions:
        out = c if out is TRUE else out if c is TRUE or c is out else apply("and_", out, c)
    return out


def fold(
    monoid: str,
    axes: Sequence[Node],
    body: Node,
    by: Node | None = None,
    act: Node | None = None,
) -> Node:
    """Fold body over axes, which it binds (and renames: equal folds are one object).

    With by and act the fold is twisted: body speaks of `by`, another fold over the same axes, and
    both run in one pass. Whenever `by` moves from old to new, the result so far, acc, becomes
    act(acc, old, new, count). Then it takes in body with `by` as it is now.
    """
    tail = () if by is None or act is None else (by, act)
    height = max(a.height for a in (body, *tail, *axes))
    names = {
        a: axis(f"k{height + n}", a.extent, a.bind) for n, a in enumerate(reversed(axes), start=1)
    }
    bound = [names[a] for a in axes]
    inside = [substitute(n, names) for n in (body, *tail)]
    dtype = i64 if monoid.startswith("arg") else body.dtype
    return make("fold", (*bound, *inside), (monoid, len(axes)), dtype)


def scan(monoid: str, along: Node, body: Node) -> Node:
    """The fold of body over positions 0..along, for a free axis."""
    return make("scan", (along, body), (monoid, 1), body.dtype)


def open_fold(node: Node) -> tuple[list[Node], list[Node]]:
    """A fold's axes under fresh names, and its [body] or [body, by, act] in terms of them."""
    fresh = {a: fresh_axis(a.extent, a.bind) for a in node.axes}
    inside = [substitute(n, fresh) for n in node.args[len(fresh) :]]
    return list(fresh.values()), inside


def rebuild(node: Node, args: Sequence[Node]) -> Node:
    """node with other args of the same types."""
    if all(a is b for a, b in zip(node.args, args, strict=True)):
        return node
    if node.op == "fold":
        n = node.data[1]
        return fold(node.monoid, args[:n], *args[n:])
    if node.op == "where":
        return where(*args)
    return make(node.op, args, node.data, node.dtype)


def walk(*roots: Node, skip: frozenset[Node] = NO_AXES) -> Iterator[Node]:
    """Every node once, arguments first, without what is inside nodes of skip. Depth-safe."""
    seen: set[Node] = set()
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node not in skip:
                stack.extend((a, False) for a in reversed(node.args) if a not in seen)


def rewrite(root: Node, change: Callable[[Node], Node | None]) -> Node:
    """root with change applied to every node, arguments first; None keeps the node.

    Bound axes have fresh names meanwhile, so that nothing is captured when folds grow deeper.
    """
    bound = {a for n in walk(root) if n.op == "fold" for a in n.axes}
    done: dict[Node, Node] = {}
    for node in walk(root):
        args = [done[a] for a in node.args]
        new = fresh_axis(args[0], node.bind) if node in bound else rebuild(node, args)
        done[node] = new if node in bound else change(new) or new
    return done[root]


def substitute(root: Node, names: Mapping[Node, Node]) -> Node:
    """root with nodes replaced by nodes of the same types."""
    if not names or not (frozenset(names) & root.free or any(n.op != "axis" for n in names)):
        return root
    if not all(n.op == "axis" for n in (*names, *names.values())):
        return rewrite(root, names.get)
    done: dict[Node, Node] = {}
    for node in walk(root):
        if node in names:
            done[node] = names[node]
        elif node.free.isdisjoint(names):
            done[node] = node
        else:
            done[node] = rebuild(node, [done[a] for a in node.args])
    return done[root]


def replaced(root: Node, names: dict[Node, Node]) -> Node:
    """root with nodes replaced, bound axes and all: names speak of them on purpose."""
    if not names:
        return root
    done: dict[Node, Node] = {}
    for n in walk(root):
        new = names.get(n)
        done[n] = new if new is not None else make(n.op, [done[a] for a in n.args], n.data, n.dtype)
    return done[root]


def canonical(root: Node) -> Node:
    """root with bound axes under the names that fold() gives them."""
    return rewrite(root, lambda n: None)


def guarded(root: Node, guard: Node) -> Node:
    """root, reading nothing where guard is false (its value there does not matter)."""
    if guard is TRUE:
        return root

    def change(n: Node) -> Node | None:
        if n.op == "load":
            return load(n.name, n.index, n.dtype, all_of(guard, n.guard))
        if n.op == "checked":
            return apply("checked", where(guard, n.args[0], const(0)), n.args[1])
        return None

    return rewrite(root, change)


def _node(x: Number, dtype: DType) -> Node:
    return x if isinstance(x, Node) else const(x, dtype)


def _binary(op: str, a: Number, b: Number) -> Node:
    dtype = a.dtype if isinstance(a, Node) else b.dtype if isinstance(b, Node) else i64
    x, y = _node(a, dtype), _node(b, dtype)
    if dtype is i64:
        from rift_compiler.index import simplify

        return simplify(op, x, y)
    return apply(op, x, y)
