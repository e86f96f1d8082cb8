"""Tensor IR: a list of tensors, each defined by one primitive over those before it.

    dim seq = 2..4096
    input x: f32[1, seq, 2048]
    t0: f32[1, seq] = sum[k1 < 2048](x[i0, i1, k1])    # aten.sum.dim_IntList model.py:7
    return t0

The axes i0, i1, ... of a tensor are its dimensions. A primitive is an elementwise expression of
whole elements, a fold or scan of one load, or an index map: a load at any indices, perhaps of
other tensors (a gather), or a choice among loads and constants (a pad, a cat). The verifier is the
table CHECKS.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rift_compiler.dtypes import DTYPES, DType, i64
from rift_compiler.expr import IrError, Node, axis, walk
from rift_compiler.text import Scope, expression


@dataclass(frozen=True, slots=True)
class Dim:
    """A size known at run time: its name and range, both ends included."""

    name: str
    low: int
    high: int | None

    def __str__(self) -> str:
        return f"dim {self.name} = {self.low}..{'' if self.high is None else self.high}"


@dataclass(frozen=True, slots=True)
class Buffer:
    """A tensor in memory, row-major without gaps."""

    name: str
    dtype: DType
    shape: tuple[Node, ...]

    def __str__(self) -> str:
        return f"{self.name}: {type_text(self)}"


def type_text(b: Buffer) -> str:
    """A buffer's type, as in f32[2, seq]."""
    return f"{b.dtype}[{', '.join(expression(s) for s in b.shape)}]"


@dataclass(frozen=True, slots=True)
class Def:
    """A tensor and the primitive that defines it; source says which op, from which line."""

    buffer: Buffer
    axes: tuple[Node, ...]
    value: Node
    source: str = ""

    def __str__(self) -> str:
        note = f"    # {self.source}" if self.source else ""
        return f"{self.buffer} = {expression(self.value)}{note}"


@dataclass(frozen=True, slots=True)
class TensorProgram:
    """Inputs (in order), tensors in the order they are made, and which of them come out."""

    dims: tuple[Dim, ...]
    inputs: tuple[Buffer, ...]
    defs: tuple[Def, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        lines = [*map(str, self.dims), *(f"input {b}" for b in self.inputs), *map(str, self.defs)]
        return "\n".join([*lines, f"return {', '.join(self.outputs)}".rstrip()]) + "\n"


def axes_of(shape: tuple[Node, ...]) -> tuple[Node, ...]:
    """The axes i0, i1, ... over a shape."""
    return tuple(axis(f"i{n}", extent) for n, extent in enumerate(shape))


def parse(text: str) -> TensorProgram:
    """Read a program: parse(str(p)) == p. Raises IrError with the line and what was expected."""
    reader = _Reader([], [], [], None)
    for number, raw in enumerate(text.splitlines(), start=1):
        if raw.strip() and not raw.lstrip().startswith("#"):
            reader.line(number, raw)
    if reader.outputs is None:
        raise IrError("expected a line `return NAME, ...`, got the end")
    return TensorProgram(
        tuple(reader.dims), tuple(reader.inputs), tuple(reader.defs), reader.outputs
    )


@dataclass
class _Reader:
    dims: list[Dim]
    inputs: list[Buffer]
    defs: list[Def]
    outputs: tuple[str, ...] | None

    def line(self, number: int, raw: str) -> None:
        body, _, note = raw.partition("    # ")
        scope = Scope(self._buffers(), dims=[d.name for d in self.dims], line=number)
        if self.outputs is not None:
            raise scope.fail(None, "the end after return", repr(body))
        if body.startswith("dim "):
            self.dims.append(read_dim(body, scope))
        elif body.startswith("input "):
            self.inputs.append(read_buffer(body.removeprefix("input "), scope))
        elif body.startswith("return"):
            names = [n.strip() for n in body.removeprefix("return").split(",")]
            self.outputs = tuple(n for n in names if n)
        else:
            head, equals, value = body.partition(" = ")
            if not equals:
                raise scope.fail(None, "dim, input, return or NAME: TYPE = EXPRESSION", repr(body))
            buffer = read_buffer(head, scope)
            axes = axes_of(buffer.shape)
            scope.names.update({a.name: a for a in axes})
            self.defs.append(Def(buffer, axes, scope.read(value), note.strip()))

    def _buffers(self) -> dict[str, tuple[DType, int]]:
        known = [*self.inputs, *(d.buffer for d in self.defs)]
        return {b.name: (b.dtype, len(b.shape)) for b in known}


def read_dim(text: str, scope: Scope) -> Dim:
    """A line `dim NAME = LOW..HIGH`."""
    found = re.fullmatch(r"dim ([A-Za-z_]\w*) = (\d+)\.\.(\d*)", text.strip())
    if not found:
        raise scope.fail(None, "dim NAME = LOW..HIGH", repr(text))
    return Dim(found[1], int(found[2]), int(found[3]) if found[3] else None)


def read_buffer(text: str, scope: Scope) -> Buffer:
    """A buffer `NAME: TYPE[SIZE, ...]`."""
    found = re.fullmatch(r"\s*([A-Za-z_]\w*): (\w+)\[(.*)\]\s*", text)
    if not found or found[2] not in DTYPES:
        raise scope.fail(None, f"NAME: TYPE[SIZE, ...] of {', '.join(DTYPES)}", repr(text))
    try:
        sizes = ast.parse(f"[{found[3]}]", mode="eval").body
    except SyntaxError:
        raise scope.fail(None, "sizes", repr(found[3])) from None
    assert isinstance(sizes, ast.List)
    return Buffer(found[1], DTYPES[found[2]], tuple(scope.node(e) for e in sizes.elts))


def loads(root: Node) -> Iterator[Node]:
    """Every load in an expression."""
    return (n for n in walk(root) if n.op == "load")


def _is_elementwise(d: Def) -> bool:
    return all(
        n.op not in ("fold", "scan")
        and (n.op != "load" or all(a.op in ("axis", "const") for a in n.index))
        for n in walk(d.value)
    )


def _is_fold(d: Def) -> bool:
    return d.value.op in ("fold", "scan") and d.value.body.op == "load"


def _is_index_map(d: Def) -> bool:
    """A load at any indices, or a choice (where) among such loads and constants."""
    if any(n.op in ("fold", "scan") for n in walk(d.value)):
        return False
    leaves = [d.value]
    while leaves:
        n = leaves.pop()
        if n.op == "where":
            leaves += n.args[1:]
        elif n.op not in ("load", "const"):
            return False
    return True


def _loads_known(p: TensorProgram) -> str | None:
    known = {b.name: b for b in p.inputs}
    for d in p.defs:
        for n in loads(d.value):
            if n.name not in known or known[n.name].dtype is not n.dtype:
                return f"{d.buffer.name} reads {n.name}, which is no {n.dtype} tensor before it"
        known[d.buffer.name] = d.buffer
    missing = [o for o in p.outputs if o not in known]
    return f"returns unknown {', '.join(missing)}" if missing else None


def _names_once(p: TensorProgram) -> str | None:
    names = [b.name for b in (*p.inputs, *(d.buffer for d in p.defs))]
    twice = sorted({n for n in names if names.count(n) > 1})
    return f"{', '.join(twice)} defined twice" if twice else None


def _types_fit(p: TensorProgram) -> str | None:
    for d in p.defs:
        if d.value.dtype is not d.buffer.dtype:
            return f"{d.buffer.name} is {d.buffer.dtype}, its value {d.value.dtype}"
    return None


def _axes_fit(p: TensorProgram) -> str | None:
    for d in p.defs:
        stray = [a.name for a in d.value.free if a not in d.axes]
        if stray or d.axes != axes_of(d.buffer.shape):
            return f"{d.buffer.name} speaks of axes that are not its own: {', '.join(stray)}"
    return None


def _primitive(p: TensorProgram) -> str | None:
    for d in p.defs:
        if not (_is_elementwise(d) or _is_fold(d) or _is_index_map(d)):
            return f"{d.buffer.name} is no primitive: {expression(d.value)}"
    return None


def _indices_are_integers(p: TensorProgram) -> str | None:
    for d in p.defs:
        for n in loads(d.value):
            if any(i.dtype is not i64 for i in n.index):
                return f"{d.buffer.name} reads {n.name} at an index that is no i64"
    return None


CHECKS: tuple[Callable[[TensorProgram], str | None], ...] = (
    _names_once,
    _loads_known,
    _types_fit,
    _axes_fit,
    _indices_are_integers,
    _primitive,
)


def verify(p: TensorProgram) -> TensorProgram:
    """p, or IrError with the first check of CHECKS that it fails."""
    for check in CHECKS:
        problem = check(p)
        if problem:
            raise IrError(f"tensor IR: {problem}")
    return p
