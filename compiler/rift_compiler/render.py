"""Tile IR as C++ and CUDA text: what both dialects share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from rift_compiler.dtypes import DType, bf16, bool_, f16, f32, i64
from rift_compiler.expr import TRUE, IrError, Node, const
from rift_compiler.index import fits_int
from rift_compiler.scalar_ops import SCALAR_OPS
from rift_compiler.tensor_ir import Buffer
from rift_compiler.tile_ir import (
    AllReduce,
    Assign,
    For,
    If,
    Let,
    Local,
    Prefetch,
    Stmt,
    StoreTo,
    Sync,
    TileKernel,
    Vector,
)


def prelude(name: str) -> str:
    """The text of a file in prelude/."""
    return (files("rift_compiler") / "prelude" / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Dialect:
    """Where C++ and CUDA differ."""

    name: str
    index_type: str
    infinity: str
    nan: str
    loop: Callable[[Render, For, str], list[str]]
    barrier: Callable[[Render, Stmt, str], list[str]]


@dataclass(frozen=True)
class Render:
    """Renders the statements of one kernel."""

    dialect: Dialect
    buffers: Mapping[str, Buffer]
    locals: Mapping[str, Local]

    def block(self, body: tuple[Stmt, ...], pad: str) -> list[str]:
        return [line for s in body for line in self.statement(s, pad)]

    def statement(self, s: Stmt, pad: str) -> list[str]:
        if isinstance(s, For):
            return self.dialect.loop(self, s, pad)
        if isinstance(s, If):
            return [
                f"{pad}if ({self.text(s.condition)}) {{",
                *self.block(s.body, pad + "  "),
                f"{pad}}}",
            ]
        if isinstance(s, Let):
            return [f"{pad}const {s.value.dtype.cpp} {s.name} = {self.text(s.value)};"]
        if isinstance(s, Local) and not s.shared:
            return self._local(s, pad)
        if isinstance(s, Assign):
            return [f"{pad}{self._element(s.name, s.index)} = {self.text(s.value)};"]
        if isinstance(s, StoreTo):
            return [f"{pad}{s.buffer}[{self.flat(s.buffer, s.index)}] = {self.text(s.value)};"]
        assert isinstance(s, Sync | AllReduce | Vector | Local | Prefetch)
        return self.dialect.barrier(self, s, pad)

    def _local(self, s: Local, pad: str) -> list[str]:
        sizes = "".join(f"[{n}]" for n in s.sizes)
        if s.init is None or not s.sizes:
            start = "" if s.init is None else f" = {self.text(s.init)}"
            return [f"{pad}{s.dtype.cpp} {s.name}{sizes}{start};"]
        total = 1
        for n in s.sizes:
            total *= n
        flat = f"(&{s.name}{'[0]' * len(s.sizes)})[rift_i]"
        fill = f"for (int rift_i = 0; rift_i < {total}; rift_i++) {flat} = {self.text(s.init)};"
        return [f"{pad}{s.dtype.cpp} {s.name}{sizes};", pad + fill]

    def _element(self, name: str, index: tuple[Node, ...]) -> str:
        return name + "".join(f"[{self.index(i)}]" for i in index)

    def flat(self, buffer: str, index: tuple[Node, ...]) -> str:
        """The text of the row-major place of an element."""
        return self.index(self.place(buffer, index))

    def place(self, buffer: str, index: tuple[Node, ...]) -> Node:
        """The row-major place of an element."""
        place: Node = const(0)
        for i, size in zip(index, self.buffers[buffer].shape, strict=True):
            place = place * size + i
        return place

    def index(self, n: Node) -> str:
        """An index, in the dialect's index type."""
        return self.text(n, index=True)

    def text(self, n: Node, index: bool = False) -> str:
        """An expression. Axes are of the index type; as values they are int64."""
        if n.op == "const":
            return self._const(n)
        if n.op == "axis":
            return n.name if index or self.dialect.index_type == "int64_t" else f"(int64_t){n.name}"
        if n.op == "dim":
            return n.name
        if n.op == "var":
            return self._element(n.name, n.args)
        if n.op == "load":
            return self._load(n)
        if n.op == "cast":
            return self._cast(n)
        return self._apply(n, index)

    def _apply(self, n: Node, index: bool) -> str:
        row = SCALAR_OPS.get(n.op)
        if row is None:
            raise IrError(f"no {self.dialect.name} for {n.op}")
        same = (index and n.dtype is i64) or (
            row.rule == "compare" and n.args[0].dtype is i64 and all(map(fits_int, n.args))
        )
        args = [self.text(a, index=same) for a in n.args]
        if same and n.op in ("floordiv", "mod") and n.args[1].op in ("const", "dim"):
            sign = "/" if n.op == "floordiv" else "%"
            if _nonnegative(n.args[0]):
                return f"({args[0]} {sign} {args[1]})"
        text = row.cpp.format(*args)
        if n.dtype.is_int and n.dtype.bytes < 4 and not row.cpp.startswith("rift_"):
            return f"({n.dtype.cpp}){text}"  # C computes in int, torch in the type
        if row.cpp.startswith("rift_") and row.rule == "same":
            text = text.replace("(", f"<{n.dtype.cpp}>(", 1)
        return text

    def _load(self, n: Node) -> str:
        read = f"{n.name}[{self.flat(n.name, n.index)}]"
        if n.guard is TRUE:
            return read
        zero = f"{n.dtype.cpp}{{}}" if n.dtype in (f16, bf16) else self._const(const(0, n.dtype))
        return f"({self.text(n.guard)} ? {read} : {zero})"

    def _const(self, n: Node) -> str:
        if n.dtype is bool_:
            return "true" if n.value else "false"
        if n.dtype.is_float:
            return self._float(n.value, n.dtype)
        if n.value == -(2**63):
            return "(-9223372036854775807LL - 1)"
        if n.dtype is i64:
            return str(n.value) if abs(n.value) < 2**31 else f"{n.value}LL"
        return f"({n.dtype.cpp}){n.value}"

    def _float(self, value: float, dtype: DType) -> str:
        if dtype in (f16, bf16):
            return f"rift_f32_to_{dtype}({self._float(value, f32)})"
        cast = f"({dtype.cpp})"
        if value != value:
            return cast + self.dialect.nan
        if value in (float("inf"), float("-inf")):
            return f"{'-' if value < 0 else ''}{cast}{self.dialect.infinity}"
        return f"{value!r}f" if dtype is f32 else repr(value)

    def _cast(self, n: Node) -> str:
        (x,) = n.args
        text = self.text(x)
        if x.dtype in (f16, bf16):
            text = f"rift_{x.dtype}_to_f32({text})"
        if n.dtype is bool_:
            return f"({text} != 0)"
        if n.dtype in (f16, bf16):
            return f"rift_f32_to_{n.dtype}((float){text})" if x.dtype is not f32 else (
                f"rift_f32_to_{n.dtype}({text})")  # fmt: skip
        if n.dtype is f32 and x.dtype in (f16, bf16):
            return text
        return f"({n.dtype.cpp}){text}"


def _nonnegative(n: Node) -> bool:
    from rift_compiler.index import bounds, nonnegative, to_poly

    low = bounds(to_poly(n))[0]
    return low is not None and nonnegative(low)


def locals_of(k: TileKernel) -> dict[str, Local]:
    """The local arrays of a kernel by name."""
    from rift_compiler.tile_ir import statements

    return {s.name: s for s in statements(k.body) if isinstance(s, Local)}
