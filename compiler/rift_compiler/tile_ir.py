"""Tile IR: a kernel with its schedule, as statements. Loops say what runs them.

  def k0(x: f32[32, 2048], y: out[f32[32]]):
      for i0 in grid(32):
          for t in thread(128):
              a0: f32 = 0.0
              for k0 in seq(16):
                  a0 = a0 + x[i0, k0 * 128 + t]
              a0 = allreduce.sum[t](a0)
              y[i0] = a0

grid    blocks, in any order              seq     one after the other
thread  lanes of a block, in lockstep     tile    one after the other, over parts of a local array
array   unrolled, over a local array's elements
shared  arrays seen by a whole block; sync() orders them
vector  a whole local array read from or written to consecutive elements at once
prefetch  what will be read soon is brought near; it changes no value
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rift_compiler.dtypes import DTYPES, DType
from rift_compiler.expr import NO_AXES, IrError, Node, axis, make, walk
from rift_compiler.loop_ir import read_head
from rift_compiler.tensor_ir import Buffer, type_text
from rift_compiler.text import Scope, expression

BINDS = ("grid", "thread", "seq", "tile", "array")


@dataclass(frozen=True, slots=True)
class For:
    """A loop over an axis, whose bind says what runs it."""

    axis: Node
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class If:
    """Statements under a condition."""

    condition: Node
    body: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Let:
    """A name for a value that does not change."""

    name: str
    value: Node


@dataclass(frozen=True, slots=True)
class Local:
    """A variable or array that changes; init fills it. Shared ones have no init."""

    name: str
    dtype: DType
    sizes: tuple[int, ...]
    init: Node | None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Assign:
    """A new value of a local or shared variable, or of one element."""

    name: str
    index: tuple[Node, ...]
    value: Node


@dataclass(frozen=True, slots=True)
class StoreTo:
    """An element of an output."""

    buffer: str
    index: tuple[Node, ...]
    value: Node


@dataclass(frozen=True, slots=True)
class Vector:
    """A whole local array read from (or, with store, written to) consecutive elements."""

    name: str
    buffer: str
    index: tuple[Node, ...]
    store: bool


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Fold one local value over the lanes of thread axes; every lane gets the result."""

    name: str
    index: tuple[Node, ...]
    monoid: str
    axes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Sync:
    """Wait for the whole block."""


@dataclass(frozen=True, slots=True)
class Prefetch:
    """An element that will be read soon; it may lie outside the buffer."""

    buffer: str
    index: tuple[Node, ...]


Stmt = For | If | Let | Local | Assign | StoreTo | Vector | AllReduce | Sync | Prefetch


@dataclass(frozen=True, slots=True)
class TileKernel:
    """A scheduled kernel."""

    name: str
    reads: tuple[Buffer, ...]
    outs: tuple[Buffer, ...]
    body: tuple[Stmt, ...]

    def __str__(self) -> str:
        params = [*map(str, self.reads), *(f"{b.name}: out[{type_text(b)}]" for b in self.outs)]
        lines = [f"def {self.name}({', '.join(params)}):"]
        for s in self.body:
            lines += _lines(s, 1)
        return "\n".join(lines) + "\n"


def variable(name: str, dtype: DType, index: tuple[Node, ...] = ()) -> Node:
    """A use of a local variable, or of an array's element."""
    return make("var", index, (name, NO_AXES), dtype)


def _place(name: str, index: tuple[Node, ...]) -> str:
    return f"{name}[{', '.join(expression(i) for i in index) or '()'}]"


def _lines(s: Stmt, depth: int) -> list[str]:
    pad = "    " * depth
    if isinstance(s, For | If):
        head = (
            f"for {s.axis.name} in {s.axis.bind}({expression(s.axis.extent)}):"
            if isinstance(s, For)
            else f"if {expression(s.condition)}:"
        )
        return [pad + head, *(line for inner in s.body for line in _lines(inner, depth + 1))]
    return [pad + _line(s)]


def _line(s: Stmt) -> str:
    if isinstance(s, Let):
        return f"{s.name} = {expression(s.value)}"
    if isinstance(s, Local):
        sizes = f"[{', '.join(map(str, s.sizes))}]" if s.sizes else ""
        kind = f"shared[{s.dtype}{sizes}]" if s.shared else f"{s.dtype}{sizes}"
        return f"{s.name}: {kind}" + (f" = {expression(s.init)}" if s.init is not None else "")
    if isinstance(s, Assign):
        return f"{_place(s.name, s.index) if s.index else s.name} = {expression(s.value)}"
    if isinstance(s, StoreTo):
        return f"{_place(s.buffer, s.index)} = {expression(s.value)}"
    if isinstance(s, Vector):
        place = _place(s.buffer, s.index)
        return f"vector({place}, {s.name})" if s.store else f"vector({s.name}, {place})"
    if isinstance(s, AllReduce):
        place = _place(s.name, s.index) if s.index else s.name
        return f"{place} = allreduce.{s.monoid}[{', '.join(a.name for a in s.axes)}]({place})"
    if isinstance(s, Prefetch):
        return f"prefetch({_place(s.buffer, s.index)})"
    return "sync()"


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer before inner."""
    for s in body:
        yield s
        if isinstance(s, For | If):
            yield from statements(s.body)


def expressions(s: Stmt) -> tuple[Node, ...]:
    """The expressions of one statement, inner statements aside."""
    if isinstance(s, For):
        return (s.axis.extent,)
    if isinstance(s, If):
        return (s.condition,)
    if isinstance(s, Let):
        return (s.value,)
    if isinstance(s, Local):
        return () if s.init is None else (s.init,)
    if isinstance(s, Assign | StoreTo):
        return (*s.index, s.value)
    return s.index if isinstance(s, Vector | AllReduce | Prefetch) else ()


def parse(text: str, dims: tuple[str, ...] = ()) -> TileKernel:
    """Read one kernel: parse(str(k)) == k. Raises IrError with the line and what was expected."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    scope = Scope({}, dims=dims, line=start + 1)
    if start == len(lines):
        raise IrError("expected def NAME(BUFFER: TYPE, ...):, got the end")
    name, reads, outs = read_head(lines[start], scope)
    scope.buffers = {b.name: (b.dtype, len(b.shape)) for b in (*reads, *outs)}
    try:
        tree = ast.parse("\n".join(["if 1:", *lines[start + 1 :]]))
    except SyntaxError as e:
        at = start + (e.lineno or 1)
        raise IrError(f"line {at}: expected a statement, got {e.text or ''!r} ({e.msg})") from None
    block = tree.body[0]
    assert isinstance(block, ast.If)
    reader = _Reader(scope, {b.name for b in outs})
    return TileKernel(name, tuple(reads), tuple(outs), reader.block(block.body))


@dataclass
class _Reader:
    scope: Scope
    outs: set[str]
    locals: dict[str, DType] = field(default_factory=dict)

    def block(self, body: list[ast.stmt]) -> tuple[Stmt, ...]:
        return tuple(self.statement(s) for s in body)

    def statement(self, s: ast.stmt) -> Stmt:
        if isinstance(s, ast.For):
            return self._for(s)
        if isinstance(s, ast.If):
            return If(self.scope.node(s.test), self.block(s.body))
        if isinstance(s, ast.AnnAssign):
            return self._local(s)
        if isinstance(s, ast.Assign) and len(s.targets) == 1:
            return self._assign(s, s.targets[0])
        if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call):
            return self._call(s.value)
        raise self.scope.fail(s, "for, if, a declaration, an assignment or sync()", ast.unparse(s))

    def _for(self, s: ast.For) -> For:
        call = s.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id in BINDS
            and len(call.args) == 1
            and isinstance(s.target, ast.Name)
        ):
            raise self.scope.fail(s, f"for NAME in {'|'.join(BINDS)}(SIZE):", ast.unparse(s))
        a = axis(s.target.id, self.scope.node(call.args[0]), call.func.id)
        self.scope.names[a.name] = a
        return For(a, self.block(s.body))

    def _local(self, s: ast.AnnAssign) -> Local:
        kind, shared = s.annotation, False
        if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "shared":
            kind, shared = kind.slice, True
        sizes: tuple[int, ...] = ()
        if isinstance(kind, ast.Subscript):
            parts = kind.slice.elts if isinstance(kind.slice, ast.Tuple) else [kind.slice]
            sizes = tuple(int(ast.unparse(p)) for p in parts)
            kind = kind.value
        name = ast.unparse(kind)
        if name not in DTYPES or not isinstance(s.target, ast.Name):
            raise self.scope.fail(s, "NAME: TYPE[SIZE, ...]", ast.unparse(s))
        dtype = DTYPES[name]
        init = None if s.value is None else self.scope.node(s.value)
        self.locals[s.target.id] = dtype
        self.scope.names[s.target.id] = variable(s.target.id, dtype)
        return Local(s.target.id, dtype, sizes, init, shared)

    def _assign(self, s: ast.Assign, target: ast.expr) -> Stmt:
        name = target.value if isinstance(target, ast.Subscript) else target
        if not isinstance(name, ast.Name):
            raise self.scope.fail(s, "a name on the left", ast.unparse(target))
        index: tuple[Node, ...] = ()
        if isinstance(target, ast.Subscript):
            index = self._index(target)
        reduced = self._allreduce(s.value, name.id, index)
        if reduced:
            return reduced
        value = self.scope.node(s.value)
        if name.id in self.outs:
            return StoreTo(name.id, index, value)
        if name.id in self.locals:
            return Assign(name.id, index, value)
        self.scope.names[name.id] = variable(name.id, value.dtype)
        return Let(name.id, value)

    def _allreduce(self, e: ast.expr, name: str, index: tuple[Node, ...]) -> AllReduce | None:
        if not (isinstance(e, ast.Call) and isinstance(e.func, ast.Subscript)):
            return None
        head = ast.unparse(e.func.value)
        if not head.startswith("allreduce."):
            return None
        parts = e.func.slice.elts if isinstance(e.func.slice, ast.Tuple) else [e.func.slice]
        axes = tuple(self.scope.node(p) for p in parts)
        return AllReduce(name, index, head.removeprefix("allreduce."), axes)

    def _call(self, e: ast.Call) -> Stmt:
        name = ast.unparse(e.func)
        if name == "sync" and not e.args:
            return Sync()
        if name == "vector" and len(e.args) == 2:
            store = isinstance(e.args[0], ast.Subscript)
            place, local = e.args if store else reversed(e.args)
            if isinstance(place, ast.Subscript) and isinstance(local, ast.Name):
                return Vector(local.id, ast.unparse(place.value), self._index(place), store)
        if name == "prefetch" and len(e.args) == 1 and isinstance(e.args[0], ast.Subscript):
            return Prefetch(ast.unparse(e.args[0].value), self._index(e.args[0]))
        expected = "sync(), vector(LOCAL, BUFFER[...]) or prefetch(BUFFER[...])"
        raise self.scope.fail(e, expected, ast.unparse(e))

    def _index(self, e: ast.Subscript) -> tuple[Node, ...]:
        parts = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        return tuple(self.scope.node(p) for p in parts)


def _defined(k: TileKernel) -> str | None:
    """Every name is declared before it is used, in a scope that is still open."""

    def check(body: tuple[Stmt, ...], known: set[str]) -> str | None:
        known = set(known)
        for s in body:
            for e in expressions(s):
                for n in walk(e):
                    if n.op in ("axis", "var") and n.name not in known:
                        return f"{n.name} is used before it is declared, in: {_lines(s, 0)[0]}"
                    if n.op in ("fold", "scan"):
                        return f"a fold that was not scheduled: {expression(n)}"
            if isinstance(s, Let | Local):
                known.add(s.name)
            if isinstance(s, For | If):
                inner = known | ({s.axis.name} if isinstance(s, For) else set())
                problem = check(s.body, inner)
                if problem:
                    return problem
        return None

    return check(k.body, set())


def _binds_nest(k: TileKernel) -> str | None:
    """grid loops stand outside thread loops, which stand outside all others."""
    rank = {"grid": 0, "thread": 1, "seq": 2, "tile": 2, "array": 2}

    def check(body: tuple[Stmt, ...], level: int) -> str | None:
        for s in body:
            if isinstance(s, For):
                own = rank[s.axis.bind]
                if own < level:
                    return f"{s.axis.name} runs by {s.axis.bind} inside a loop that cannot hold it"
                problem = check(s.body, max(own, level))
            else:
                problem = check(s.body, 2) if isinstance(s, If) else None
            if problem:
                return problem
        return None

    return check(k.body, 0)


def _arrays_fixed(k: TileKernel) -> str | None:
    for s in statements(k.body):
        if (
            isinstance(s, For)
            and s.axis.bind in ("array", "tile", "thread")
            and s.axis.extent.op != "const"
        ):
            return f"{s.axis.name}: the size of a {s.axis.bind} loop must be a number"
    return None


def _barriers_uniform(k: TileKernel) -> str | None:
    """No sync or allreduce where lanes may differ: under a condition of lanes, or of variables."""
    for s in statements(k.body):
        if isinstance(s, If) and any(isinstance(i, Sync | AllReduce) for i in statements(s.body)):
            asked = walk(s.condition)
            if any(n.op == "var" or (n.op == "axis" and n.bind == "thread") for n in asked):
                return f"a barrier under a condition: {expression(s.condition)}"
    return None


CHECKS: tuple[Callable[[TileKernel], str | None], ...] = (
    _defined,
    _binds_nest,
    _arrays_fixed,
    _barriers_uniform,
)


def verify(k: TileKernel) -> TileKernel:
    """k, or IrError with the first check of CHECKS that it fails."""
    for check in CHECKS:
        problem = check(k)
        if problem:
            raise IrError(f"tile IR, {k.name}: {problem}")
    return k
