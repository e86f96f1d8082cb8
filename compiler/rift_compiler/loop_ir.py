"""Loop IR: kernels. One kernel stores one or more tensors over common axes; fusion happens here.

    def k0(x: f32[32, 2048], w: f32[2048], y: out[f32[32, 2048]]):
        i0: axis[32]
        i1: axis[2048]
        k1: axis[2048]
        v0 = sum[k1](x[i0, k1] * x[i0, k1])
        v1 = rsqrt(v0 / 2048.0 + 1e-06)
        y[i0, i1] = x[i0, i1] * v1 * w[i1]

Axes named i are the kernel's loops, outermost first; others are bound by folds. A line `v0 = ...`
names an expression that is used more than once; it stands for the same expression wherever it is
used, at the axes it speaks of. How deep something is computed follows from those axes: v1 above
varies with i0 alone, so it is computed once a row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from rift_compiler.dtypes import DType
from rift_compiler.expr import IrError, Node, axis, walk
from rift_compiler.interpret import value_of
from rift_compiler.tensor_ir import Buffer, Dim, loads, read_buffer, read_dim, type_text
from rift_compiler.text import Scope, expression


@dataclass(frozen=True, slots=True)
class Store:
    """A tensor that a kernel makes: its value at the kernel's first len(shape) axes."""

    buffer: Buffer
    value: Node


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel: loops over axes, outermost first, and what it stores."""

    name: str
    axes: tuple[Node, ...]
    stores: tuple[Store, ...]
    reads: tuple[Buffer, ...]

    def __str__(self) -> str:
        return "\n".join(_kernel_lines(self)) + "\n"


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """Kernels in the order they run."""

    dims: tuple[Dim, ...]
    inputs: tuple[Buffer, ...]
    kernels: tuple[Kernel, ...]
    outputs: tuple[str, ...]

    def __str__(self) -> str:
        head = [*map(str, self.dims), *(f"input {b}" for b in self.inputs)]
        kernels = [f"\n{k}" for k in self.kernels]
        return "\n".join([*head, *kernels, f"return {', '.join(self.outputs)}".rstrip()]) + "\n"

    @property
    def buffers(self) -> dict[str, Buffer]:
        """Every tensor by name: inputs, then what kernels store."""
        made = [s.buffer for k in self.kernels for s in k.stores]
        return {b.name: b for b in (*self.inputs, *made)}


def kernel(
    name: str, axes: tuple[Node, ...], stores: tuple[Store, ...], known: Mapping[str, Buffer]
) -> Kernel:
    """A kernel, with what it reads worked out."""
    made = {s.buffer.name for s in stores}
    names = dict.fromkeys(n.name for s in stores for n in loads(s.value))
    return Kernel(name, axes, stores, tuple(known[n] for n in names if n not in made))


def named(roots: list[Node], axes: tuple[Node, ...]) -> tuple[dict[Node, str], list[Node]]:
    """Names of the axes and of the expressions used more than once, and those in order."""
    names = {a: a.name for a in axes}
    nodes = list(walk(*roots))
    taken = Counter(a.name for a in axes)
    for n in nodes:
        if n.op == "axis" and n not in names:
            serial = taken[n.name]
            names[n] = n.name if not serial else f"{n.name}_{serial}"
            taken[n.name] += 1
    uses = Counter(a for n in nodes for a in n.args)
    action: set[Node] = set()  # parts of actions have a meaning only where they stand
    for n in nodes:
        if n.op == "arg" or (n.op != "fold" and any(a in action for a in n.args)):
            action.add(n)
    lets = [n for n in nodes if _worth_a_name(n) and (uses[n] > 1 or n.op == "fold")]
    lets = [n for n in lets if n not in action]
    lets = [n for n in lets if n not in roots or uses[n] > 0]
    names |= {n: f"v{i}" for i, n in enumerate(lets)}
    return names, lets


def _worth_a_name(n: Node) -> bool:
    return n.op not in ("const", "axis", "dim", "arg", "var") and not (
        n.dtype.name in ("i64", "bool") and not any(x.op in ("load", "fold") for x in walk(n))
    )


def _kernel_lines(k: Kernel) -> list[str]:
    params = [
        *(str(b) for b in k.reads),
        *(f"{s.buffer.name}: out[{type_text(s.buffer)}]" for s in k.stores),
    ]
    roots = [s.value for s in k.stores]
    names, lets = named(roots, k.axes)
    lines = [f"def {k.name}({', '.join(params)}):"]
    order = [n for n in names if n.op == "axis"]
    lines += [f"    {names[a]}: axis[{expression(a.extent)}]" for a in order]
    for n in lets:
        lines.append(f"    {names[n]} = {_without(n, names)}")
    for s in k.stores:
        index = ", ".join(names[a] for a in k.axes[: len(s.buffer.shape)]) or "()"
        lines.append(f"    {s.buffer.name}[{index}] = {expression(s.value, names, declared=True)}")
    return lines


def _without(n: Node, names: Mapping[Node, str]) -> str:
    """The expression of n itself, not its name."""
    rest = {k: v for k, v in names.items() if k is not n}
    return expression(n, rest, declared=True)


def parse(text: str) -> LoopProgram:
    """Read a program: parse(str(p)) == p. Raises IrError with the line and what was expected."""
    dims: list[Dim] = []
    inputs: list[Buffer] = []
    kernels: list[Kernel] = []
    outputs: tuple[str, ...] | None = None
    lines = [(i, raw) for i, raw in enumerate(text.splitlines(), start=1) if raw.strip()]
    while lines:
        number, raw = lines.pop(0)
        known = {b.name: b for b in (*inputs, *(s.buffer for k in kernels for s in k.stores))}
        scope = Scope(
            {n: (b.dtype, len(b.shape)) for n, b in known.items()},
            dims=[d.name for d in dims],
            line=number,
        )
        if raw.startswith("dim "):
            dims.append(read_dim(raw, scope))
        elif raw.startswith("input "):
            inputs.append(read_buffer(raw.removeprefix("input "), scope))
        elif raw.startswith("def "):
            body = []
            while lines and lines[0][1].startswith("    "):
                body.append(lines.pop(0))
            kernels.append(_read_kernel(raw, body, scope, known))
        elif raw.startswith("return"):
            outputs = tuple(n.strip() for n in raw.removeprefix("return").split(",") if n.strip())
        else:
            raise scope.fail(None, "dim, input, def or return", repr(raw))
    if outputs is None:
        raise IrError("expected a line `return NAME, ...`, got the end")
    return LoopProgram(tuple(dims), tuple(inputs), tuple(kernels), outputs)


def split_params(text: str) -> list[str]:
    """A parameter list at its commas, those in brackets aside."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c == "[") - (c == "]")
        if c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    return [p for p in (*parts, text[start:].strip()) if p]


def read_head(raw: str, scope: Scope) -> tuple[str, list[Buffer], list[Buffer]]:
    """A line `def NAME(x: f32[2], y: out[f32[2]]):` as name, reads and outs."""
    found = re.fullmatch(r"def ([A-Za-z_]\w*)\((.*)\):\s*", raw)
    if not found:
        raise scope.fail(None, "def NAME(BUFFER: TYPE, ...):", repr(raw))
    reads, outs = [], []
    for part in split_params(found[2]):
        inner = re.fullmatch(r"(\w+): out\[(.*)\]", part)
        if inner:
            outs.append(read_buffer(f"{inner[1]}: {inner[2]}", scope))
        else:
            reads.append(read_buffer(part, scope))
    return found[1], reads, outs


def _read_kernel(
    raw: str, body: list[tuple[int, str]], scope: Scope, known: Mapping[str, Buffer]
) -> Kernel:
    name, reads, outs = read_head(raw, scope)
    scope.buffers = {b.name: (b.dtype, len(b.shape)) for b in reads}
    made = {b.name: b for b in outs}
    axes: list[Node] = []
    stores: list[Store] = []
    for number, line in body:
        scope.line = number
        text = line.strip()
        declared = re.fullmatch(r"(\w+): axis\[(.*)\]", text)
        left, equals, right = text.partition(" = ")
        target = left.partition("[")[0]
        if declared:
            new = axis(declared[1], scope.read(declared[2]))
            scope.names[declared[1]] = new
            if declared[1].startswith("i"):
                axes.append(new)
        elif equals and target in made:
            stores.append(Store(made[target], scope.read(right)))
        elif equals and re.fullmatch(r"[A-Za-z_]\w*", left):
            scope.names[left] = scope.read(right)
        else:
            raise scope.fail(None, "NAME: axis[SIZE], NAME = EXPRESSION or OUT[...] = ...", text)
    return kernel(name, tuple(axes), tuple(stores), {**known, **{b.name: b for b in reads}})


def _types_fit(k: Kernel) -> str | None:
    for s in k.stores:
        if s.value.dtype is not s.buffer.dtype:
            return f"{s.buffer.name} is {s.buffer.dtype}, its value {s.value.dtype}"
    return None


def _axes_fit(k: Kernel) -> str | None:
    for s in k.stores:
        mine = k.axes[: len(s.buffer.shape)]
        if tuple(a.extent for a in mine) != s.buffer.shape:
            return f"{s.buffer.name}'s shape is not that of the kernel's axes"
        stray = s.value.free - set(mine)
        if stray:
            return f"{s.buffer.name} varies with {', '.join(sorted(a.name for a in stray))}"
    return None


def _reads_known(k: Kernel) -> str | None:
    known: dict[str, DType] = {b.name: b.dtype for b in k.reads}
    for s in k.stores:
        for n in loads(s.value):
            if known.get(n.name) is not n.dtype:
                return f"reads {n.name}, which is no {n.dtype} parameter"
    return None


def _twists_follow(k: Kernel) -> str | None:
    for s in k.stores:
        for n in walk(s.value):
            if n.op == "fold" and n.by is not None and not _alongside(n, n.by):
                return f"a twisted fold must follow a fold over the same axes: {n}"
    return None


def _alongside(n: Node, by: Node) -> bool:
    return by.op == "fold" and [a.extent for a in by.axes] == [a.extent for a in n.axes]


CHECKS: tuple[Callable[[Kernel], str | None], ...] = (
    _types_fit,
    _axes_fit,
    _reads_known,
    _twists_follow,
)


def verify(p: LoopProgram) -> LoopProgram:
    """p, or IrError with the first check of CHECKS that a kernel fails."""
    for k in p.kernels:
        for check in CHECKS:
            problem = check(k)
            if problem:
                raise IrError(f"loop IR, {k.name}: {problem}")
    missing = [n for n in p.outputs if n not in p.buffers]
    if missing:
        raise IrError(f"loop IR: returns unknown {', '.join(missing)}")
    return p


def run(
    p: LoopProgram, inputs: Mapping[str, npt.NDArray[Any]], dims: Mapping[str, int]
) -> list[npt.NDArray[Any]]:
    """A Loop IR program's outputs, by the reference interpreter."""
    known = dict(inputs)
    for k in p.kernels:
        for s in k.stores:
            known[s.buffer.name] = value_of(k.axes[: len(s.buffer.shape)], s.value, known, dims)
    return [known[n] for n in p.outputs]
