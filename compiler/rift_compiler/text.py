"""Expressions as text, and back: Python's own expression syntax, so Python's parser reads it.

x[i0, k1]        a load; load(x[i0 - 1], where=i0 > 0) a guarded one
2.0  1  True     constants f32, i64, bool; f64(2.0), i32(1) others; inf and nan are names
sum[k1 < 64](e)  a fold; sum[k1](e) where k1 is declared; twisted: sum[k1](e, by=m, act=e2)
scan.sum[i1](e)  a scan along the kernel's axis i1
bf16(e)          a cast
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rift_compiler.dtypes import DTYPES, DType, bool_, f32, i64
from rift_compiler.expr import (
    TRUE,
    IrError,
    Node,
    apply,
    arg,
    axis,
    cast,
    const,
    dim,
    fold,
    load,
    make,
    scan,
)
from rift_compiler.scalar_ops import INFIX, SCALAR_OPS

ARGS = ("acc", "old", "new", "count")
_LEVEL = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5}
_LEVEL |= {"*": 6, "/": 6, "//": 6, "%": 6, "==": 0, "!=": 0, "<": 0, "<=": 0, ">": 0, ">=": 0}


def expression(root: Node, names: Mapping[Node, str] | None = None, declared: bool = False) -> str:
    """The text of an expression. names: nodes that have a name of their own (let, axis).

    Where axes are declared beforehand, folds name theirs without a size.
    """
    return _Printer(names or {}, declared).text(root, 0)


@dataclass(frozen=True)
class _Printer:
    names: Mapping[Node, str]
    declared: bool

    def text(self, n: Node, level: int) -> str:
        if n in self.names:
            return self.names[n]
        row = SCALAR_OPS.get(n.op)
        if row is not None and row.infix:
            own = _LEVEL[row.infix]
            a, b = self.text(n.args[0], own + (own == 0)), self.text(n.args[1], own + 1)
            return f"({a} {row.infix} {b})" if own < level or own == level == 0 else (
                f"{a} {row.infix} {b}")  # fmt: skip
        if n.op == "const":
            return _const(n)
        if n.op in ("axis", "dim", "arg"):
            return n.name
        return self._call(n)

    def _call(self, n: Node) -> str:
        if n.op in ("load", "var"):
            return self._load(n)
        if n.op in ("fold", "scan"):
            return self._fold(n)
        if n.op == "cast" and n.args[0].op == "const":  # bf16(f32(0.0)): bf16(0.0) is a constant
            return f"{n.dtype}({n.args[0].dtype}({n.args[0].data}))"
        name = n.dtype.name if n.op == "cast" else n.op
        return f"{name}({', '.join(self._top(a) for a in n.args)})"

    def _top(self, n: Node) -> str:
        text = self.text(n, 0)
        row = SCALAR_OPS.get(n.op)
        bare = row is not None and row.infix and _LEVEL[row.infix] == 0 and n not in self.names
        return text[1:-1] if bare else text

    def _load(self, n: Node) -> str:
        index = n.index if n.op == "load" else n.args
        place = n.name + (f"[{', '.join(self._top(a) for a in index)}]" if index else "")
        if n.op == "load" and n.guard is not TRUE:
            return f"load({place if index else n.name + '[()]'}, where={self._top(n.guard)})"
        return place if index or n.op == "var" else f"{n.name}[()]"

    def _fold(self, n: Node) -> str:
        axes = ", ".join(
            self.text(a, 0) if self.declared or n.op == "scan" else
            f"{self.text(a, 0)} < {self.text(a.extent, 1)}" for a in n.axes
        )  # fmt: skip
        name = f"scan.{n.monoid}" if n.op == "scan" else n.monoid
        by = f", by={self._top(n.by)}, act={self._top(n.act)}" if n.by is not None else ""
        return f"{name}[{axes}]({self._top(n.body)}{by})"


def _const(n: Node) -> str:
    if n.dtype in (i64, bool_) or n.dtype is f32:
        return str(n.data)
    return f"{n.dtype}({n.data})"


@dataclass
class Scope:
    """What names mean while text is read. Lines are counted from `line`."""

    buffers: Mapping[str, tuple[DType, int]]  # name -> type, rank
    names: dict[str, Node] = field(default_factory=dict)  # axes, lets, dims, variables
    dims: Sequence[str] = ()
    line: int = 1

    def fail(self, at: ast.AST | None, expected: str, got: str) -> IrError:
        row = self.line + getattr(at, "lineno", 1) - 1
        column = getattr(at, "col_offset", 0) + 1
        return IrError(f"line {row}, column {column}: expected {expected}, got {got}")

    def read(self, text: str) -> Node:
        """Parse one expression."""
        try:
            return self.node(ast.parse(text.strip(), mode="eval").body)
        except SyntaxError as e:
            raise self.fail(None, "an expression", f"{text.strip()!r} ({e.msg})") from None

    def node(self, e: ast.expr) -> Node:
        """The expression of a syntax tree."""
        if isinstance(e, ast.Constant):
            return self._constant(e)
        if isinstance(e, ast.Name):
            return self._name(e)
        if isinstance(e, ast.BinOp | ast.Compare):
            return self._infix(e)
        if isinstance(e, ast.UnaryOp):
            return self._unary(e)
        if isinstance(e, ast.Subscript):
            return self._load(e, TRUE)
        if isinstance(e, ast.Call):
            return self._call(e)
        raise self.fail(e, "an expression", ast.unparse(e))

    def _apply(self, at: ast.AST, op: str, *args: Node) -> Node:
        try:
            return apply(op, *args)
        except IrError as error:
            raise self.fail(at, "arguments that fit", str(error)) from None

    def _constant(self, e: ast.Constant) -> Node:
        if isinstance(e.value, bool):
            return const(e.value, bool_)
        if isinstance(e.value, int):
            return const(e.value, i64)
        if isinstance(e.value, float):
            return const(e.value, f32)
        raise self.fail(e, "a number", repr(e.value))

    def _name(self, e: ast.Name) -> Node:
        if e.id in self.names:
            return self.names[e.id]
        if e.id in self.dims:
            return dim(e.id)
        if e.id in ("inf", "nan"):
            return const(float(e.id), f32)
        raise self.fail(e, "a name that was declared", e.id)

    def _infix(self, e: ast.BinOp | ast.Compare) -> Node:
        if isinstance(e, ast.Compare):
            if len(e.ops) != 1:
                raise self.fail(e, "one comparison", ast.unparse(e))
            sign = _SIGN.get(type(e.ops[0]), "?")
            a, b = self.node(e.left), self.node(e.comparators[0])
        else:
            sign = _SIGN.get(type(e.op), "?")
            a, b = self.node(e.left), self.node(e.right)
        if sign not in INFIX:
            raise self.fail(e, f"one of {' '.join(INFIX)}", ast.unparse(e))
        return self._apply(e, INFIX[sign], a, b)

    def _unary(self, e: ast.UnaryOp) -> Node:
        inner = self.node(e.operand)
        if not isinstance(e.op, ast.USub) or inner.op != "const":
            raise self.fail(e, "a negative number (neg(x) negates)", ast.unparse(e))
        return make("const", (), f"-{inner.data}", inner.dtype)

    def _load(self, e: ast.Subscript, guard: Node) -> Node:
        if not isinstance(e.value, ast.Name):
            raise self.fail(e, "a buffer", ast.unparse(e.value))
        name = e.value.id
        known = self.names.get(name)
        parts = e.slice.elts if isinstance(e.slice, ast.Tuple) else [e.slice]
        index = [self.node(p) for p in parts]
        if known is not None and known.op == "var":
            return make("var", index, known.data, known.dtype)
        if name not in self.buffers:
            raise self.fail(e, f"a buffer ({', '.join(self.buffers)})", name)
        dtype, rank = self.buffers[name]
        if len(index) != rank or any(i.dtype is not i64 for i in index):
            raise self.fail(e, f"{rank} indices of type i64 for {name}", ast.unparse(e))
        return load(name, index, dtype, guard)

    def _call(self, e: ast.Call) -> Node:
        if isinstance(e.func, ast.Subscript):
            return self._fold(e, e.func)
        name = e.func.id if isinstance(e.func, ast.Name) else ast.unparse(e.func)
        if name == "load" and len(e.args) == 1 and isinstance(e.args[0], ast.Subscript):
            return self._load(e.args[0], self._keyword(e, "where"))
        if e.keywords:
            raise self.fail(e, "no keyword here", ast.unparse(e))
        if name in DTYPES:
            return self._cast(e, DTYPES[name])
        if name not in SCALAR_OPS:
            raise self.fail(e, "a scalar operation, type or monoid", name)
        return self._apply(e, name, *(self.node(a) for a in e.args))

    def _keyword(self, e: ast.Call, name: str) -> Node:
        for k in e.keywords:
            if k.arg == name:
                return self.node(k.value)
        raise self.fail(e, f"{name}=", ast.unparse(e))

    def _cast(self, e: ast.Call, dtype: DType) -> Node:
        if len(e.args) != 1:
            raise self.fail(e, f"one argument of {dtype}", str(len(e.args)))
        plain = re.fullmatch(r"\w+\((-?[\w.+-]+)\)", ast.unparse(e))
        if plain and dtype not in (f32, i64, bool_) and _is_number(plain[1]):
            return const(float(plain[1]) if dtype.is_float else int(plain[1]), dtype)
        x = self.node(e.args[0])
        return make("cast", (x,), None, dtype) if x.dtype is not dtype else cast(x, dtype)

    def _fold(self, e: ast.Call, head: ast.Subscript) -> Node:
        from rift_compiler.algebra.monoids import MONOIDS

        name = ast.unparse(head.value)
        monoid = name.removeprefix("scan.")
        if monoid not in MONOIDS or len(e.args) != 1:
            raise self.fail(e, f"a monoid ({', '.join(MONOIDS)}) of one body", ast.unparse(head))
        parts = head.slice.elts if isinstance(head.slice, ast.Tuple) else [head.slice]
        saved = dict(self.names)
        axes = [self._axis(p) for p in parts]
        body = self.node(e.args[0])
        if name.startswith("scan."):
            return scan(monoid, axes[0], body)
        by = act = None
        if e.keywords:
            by = self._keyword(e, "by")
            # acc has the fold's type; old and new that of the fold it follows
            types = (body.dtype, by.dtype, by.dtype, body.dtype)
            self.names.update({a: arg(a, t) for a, t in zip(ARGS, types, strict=True)})
            act = self._keyword(e, "act")
        self.names = saved
        return fold(monoid, axes, body, by, act)

    def _axis(self, e: ast.expr) -> Node:
        if isinstance(e, ast.Compare) and isinstance(e.left, ast.Name):
            new = axis(e.left.id, self.node(e.comparators[0]))
            self.names[e.left.id] = new
            return new
        if isinstance(e, ast.Name) and e.id in self.names and self.names[e.id].op == "axis":
            return self.names[e.id]
        raise self.fail(e, "an axis with its size, as in k1 < 64", ast.unparse(e))


_SIGN: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
