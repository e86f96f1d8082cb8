"""What lowerings build with: tensors of the program so far, and ways to define the next one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as Kind
from torch._prims_common import elementwise_dtypes

from rift_compiler.dtypes import BY_TORCH, DType, f64
from rift_compiler.errors import Unsupported
from rift_compiler.expr import TRUE, Node, apply, cast, const, dim, fold, fresh_axis, load
from rift_compiler.index import largest, smallest
from rift_compiler.tensor_ir import Buffer, Def, axes_of

Scalar = int | float | bool
# sympy's name for an operation on real numbers -> ours
_REAL = {"Add": "add", "Mul": "mul", "FloatTrueDiv": "div", "IntTrueDiv": "div", "FloatPow": "pow"}
_REAL |= {"Pow": "pow", "OpaqueUnaryFn_sqrt": "sqrt", "OpaqueUnaryFn_exp": "exp"}
_REAL |= {"OpaqueUnaryFn_log": "log", "Max": "max", "Min": "min"}


def dtype_of(t: torch.dtype) -> DType:
    """Our name of a torch type. Raises Unsupported for complex, quantised and 8-bit floats."""
    found = BY_TORCH.get(str(t).removeprefix("torch."))
    if found is None:
        raise Unsupported(f"element type {t}")
    return found


@dataclass(frozen=True)
class Tensor:
    """A tensor of the program. `fake` is torch's own idea of it: type promotion asks that."""

    buffer: Buffer
    fake: torch.Tensor

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[Node, ...]:
        return self.buffer.shape

    @property
    def rank(self) -> int:
        return len(self.shape)

    def at(self, *index: Node | int, guard: Node = TRUE) -> Node:
        """The element at an index; 0 where guard is false."""
        nodes = [i if isinstance(i, Node) else const(i) for i in index]
        assert len(nodes) == self.rank, f"{len(nodes)} indices of {self.rank}"
        return load(self.buffer.name, nodes, self.dtype, guard)

    def broadcast(self, axes: Sequence[Node]) -> Node:
        """The element at axes, aligned at the right as torch broadcasts."""
        mine = axes[len(axes) - self.rank :]
        one = const(1)
        index = [
            const(0) if s is one and a.extent is not one else a
            for s, a in zip(self.shape, mine, strict=True)
        ]
        return self.at(*index)


@dataclass
class Builder:
    """The program being built, and the op being lowered: its results as torch describes them."""

    symbols: dict[sympy.Symbol, str]  # torch's size symbols -> our dim names
    defs: list[Def] = field(default_factory=list)
    source: str = ""
    results: tuple[Any, ...] = ()

    def size(self, s: Any) -> Node:
        """A torch size as an expression."""
        if isinstance(s, int):
            return const(s)
        return self._sympy(s.node.expr if hasattr(s, "node") else s)

    def _sympy(self, e: Any) -> Node:
        if e.is_Integer:
            return const(int(e))
        if e.is_Symbol and e in self.symbols:
            return dim(self.symbols[e])
        args = [self._sympy(a) for a in e.args]
        name = type(e).__name__
        if name in ("Add", "Mul"):
            out = args[0]
            for a in args[1:]:
                out = out + a if name == "Add" else out * a
            return out
        if name in ("Max", "Min"):
            return functools.reduce(largest if name == "Max" else smallest, args)
        if name in ("FloorDiv", "CleanDiv", "PythonMod", "Mod"):
            return args[0] // args[1] if "Div" in name else args[0] % args[1]
        if name == "Pow" and args[1].op == "const":
            out = const(1)
            for _ in range(args[1].value):
                out = out * args[0]
            return out
        raise Unsupported(f"size {e}", self.source)

    def _real(self, e: Any) -> Node:
        """A number made of sizes as an f64 expression, such as 1/sqrt(n)."""
        if e.is_number:
            return const(float(e), f64)
        name = type(e).__name__
        if e.is_integer or name == "ToFloat":
            return cast(self._sympy(e.args[0] if name == "ToFloat" else e), f64)
        args = [self._real(a) for a in e.args]
        op = _REAL.get(name)
        if op is None:
            raise Unsupported(f"the number {e}, made of sizes by {name}", self.source)
        if len(args) == 1:
            return apply(op, *args)
        return functools.reduce(lambda x, y: apply(op, x, y), args)

    def shape(self, which: int = 0) -> tuple[Node, ...]:
        """The shape of the op's result."""
        return tuple(self.size(s) for s in self.results[which].shape)

    def dtype(self, which: int = 0) -> DType:
        """The element type of the op's result."""
        return dtype_of(self.results[which].dtype)

    def define(
        self, dtype: DType, shape: Sequence[Node], value: Callable[..., Node], fake: Any = None
    ) -> Tensor:
        """A new tensor: value(i0, i1, ...) at each index."""
        axes = axes_of(tuple(shape))
        buffer = Buffer(f"t{len(self.defs)}", dtype, tuple(shape))
        node = value(*axes)
        assert node.dtype is dtype, f"{self.source}: {node.dtype} is not {dtype}: {node}"
        self.defs.append(Def(buffer, axes, node, self.source))
        if fake is None:
            torch_dtype = getattr(torch, dtype.torch)
            fake = torch.empty((1,) * len(shape), dtype=torch_dtype, device="meta")
        return Tensor(buffer, fake)

    def result(self, value: Callable[..., Node], which: int = 0) -> Tensor:
        """The op's result: value(i0, ...), of the shape and type that torch says it has."""
        return self.define(self.dtype(which), self.shape(which), value, self.results[which])

    def cast(self, t: Tensor, dtype: DType) -> Tensor:
        """t as dtype."""
        if t.dtype is dtype:
            return t
        return self.define(dtype, t.shape, lambda *i: cast(t.at(*i), dtype))

    def pointwise(
        self,
        fn: Callable[..., Node],
        *args: Tensor | Scalar,
        kind: Kind = Kind.DEFAULT,
        exact: bool = False,
    ) -> Tensor:
        """fn of each element, broadcast and promoted as torch does; the op's result.

        exact: numbers are rounded to f16 or bf16 where the tensors are; comparisons always do so.
        """
        fakes = [a.fake if isinstance(a, Tensor) else a for a in args]
        compute, _ = elementwise_dtypes(*fakes, type_promotion_kind=kind)
        common, _ = elementwise_dtypes(*fakes, type_promotion_kind=Kind.NO_OPMATH)
        narrow, opmath = dtype_of(common), dtype_of(compute).opmath

        def operand(a: Tensor | Scalar, axes: Sequence[Node]) -> Node:
            rounds = exact or kind is Kind.ALWAYS_BOOL or (isinstance(a, Tensor) and a.rank > 0)
            first = narrow if rounds and not narrow.computes else opmath
            if isinstance(a, Tensor):
                return cast(cast(a.broadcast(axes), first), opmath)
            number = self.scalar(a, opmath) if first is opmath else self.fill(a, first)
            return cast(number, opmath)

        return self.result(lambda *axes: cast(fn(*(operand(a, axes) for a in args)), self.dtype()))

    def scalar(self, a: Any, dtype: DType) -> Node:
        """A number as a constant, or a size as a value, of a type that computes."""
        if isinstance(a, torch.SymInt):
            return cast(self.size(a), dtype)
        if isinstance(a, torch.SymFloat):
            return cast(self._real(a.node.expr), dtype)
        if not isinstance(a, Scalar):
            raise self.refuse(f"the number {a} of type {type(a).__name__}")
        if dtype.is_int:
            if a != int(a):
                raise self.refuse(f"the number {a}, which is no {dtype}")
            low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
            a = int(a) + high + 1 if dtype.kind == "u" and -high <= a < 0 else int(a)
            if not low <= a <= high:
                raise self.refuse(f"the number {a}, which is no {dtype}")
        return const(a, dtype)

    def fill(self, value: Any, dtype: DType) -> Node:
        """A number, or a size, as an element of any type, rounded to it.

        Raises Unsupported where it is out of the type's range: torch refuses that too.
        """
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return cast(self.scalar(value, dtype.opmath), dtype)
        try:
            exact = torch.full((), value, dtype=getattr(torch, dtype.torch)).item()
        except RuntimeError as error:
            raise self.refuse(f"{self.source.split()[0]} of {value}: {error}") from None
        return const(exact, dtype)

    def reduce(self, monoid: str, t: Tensor, dims: Sequence[int], keep: bool = False) -> Tensor:
        """t folded over dims. An empty dims folds nothing."""
        gone = sorted({d % max(t.rank, 1) for d in dims}) if t.rank else []
        shape = [
            const(1) if n in gone else s for n, s in enumerate(t.shape) if keep or n not in gone
        ]

        def value(*axes: Node) -> Node:
            rest = iter(axes)
            bound = {n: fresh_axis(t.shape[n]) for n in gone}
            index = []
            for n in range(t.rank):
                outer = next(rest) if keep or n not in bound else None
                index.append(bound.get(n, outer))
            body = t.at(*(i for i in index if i is not None))
            return fold(monoid, list(bound.values()), body) if bound else body

        from rift_compiler.dtypes import i64

        return self.define(i64 if monoid.startswith("arg") else t.dtype, shape, value)

    def refuse(self, what: str) -> Unsupported:
        """The refusal of an argument of the op being lowered."""
        return Unsupported(what, self.source)
