"""Reference interpreter of expressions, Tensor and Loop IR: NumPy, slow and obvious.

An expression is evaluated at every position of its axes at once: each axis is one array dimension.
A twisted fold is run in three pieces that are then combined by its action, so that comparing a
program with its twisted form tests the algebra and not only the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rift_compiler.dtypes import DType, bf16, bool_
from rift_compiler.expr import IrError, Node
from rift_compiler.folds import combine, identity
from rift_compiler.scalar_ops import SCALAR_OPS
from rift_compiler.tensor_ir import TensorProgram

Array = npt.NDArray[Any]


@dataclass
class Evaluator:
    """Evaluates expressions over `order`: one array dimension an axis, with its positions."""

    buffers: Mapping[str, Array]
    dims: Mapping[str, int]
    order: tuple[Node, ...] = ()
    positions: Mapping[Node, Array] = field(default_factory=dict)
    known: dict[Node, Array] = field(default_factory=dict)
    parent: Evaluator | None = None

    def __call__(self, n: Node) -> Array:
        if n not in self.known:
            if self.parent and n.free.isdisjoint(self.order[len(self.parent.order) :]):
                outer = self.parent(n)
                more = (1,) * (len(self.order) - len(self.parent.order))
                self.known[n] = outer.reshape(outer.shape + more)
            else:
                self.known[n] = self._evaluate(n)
        return self.known[n]

    def inner(self, axes: Iterable[Node], positions: Mapping[Node, Array]) -> Evaluator:
        """An evaluator with more axes, at these positions."""
        return Evaluator(
            self.buffers,
            self.dims,
            (*self.order, *axes),
            {**self.positions, **positions},
            {n: v.reshape(v.shape + (1,) * len(positions)) for n, v in self.known.items()},
            self,
        )

    def number(self, n: Node) -> int:
        """A size as a number."""
        return int(self(n).reshape(-1)[0])

    def _evaluate(self, n: Node) -> Array:
        rank = len(self.order)
        if n.op == "const":
            return np.asarray(n.value, n.dtype.numpy).reshape((1,) * rank)
        if n.op == "dim":
            return np.asarray(self.dims[n.name], np.int64).reshape((1,) * rank)
        if n.op == "axis":
            shape = [1] * rank
            shape[self.order.index(n)] = -1
            return self.positions[n].reshape(shape)
        if n.op == "load":
            return self._load(n)
        if n.op == "cast":
            return convert(self(n.args[0]), n.args[0].dtype, n.dtype)
        if n.op == "fold":
            return self._fold(n)
        if n.op == "scan":
            return self._scan(n)
        row = SCALAR_OPS[n.op]
        with np.errstate(all="ignore"):
            out = row.numpy(*(self(a) for a in n.args))
        return np.asarray(out).astype(n.dtype.numpy, copy=False)

    def _load(self, n: Node) -> Array:
        buffer = self.buffers[n.name]
        guard = self(n.guard)
        inside = all(len(p) for p in self.positions.values())  # else nothing is read
        index = []
        for i, size in zip(n.index, buffer.shape, strict=True):
            at = self(i)
            if inside and np.any(((at < 0) | (at >= size)) & guard):
                raise IrError(f"{n} reads outside 0..{size}")
            index.append(np.where(guard, np.clip(at, 0, max(size - 1, 0)), 0))
        if not index:
            return np.where(guard, buffer, 0).astype(buffer.dtype)
        if buffer.size == 0:
            shape = np.broadcast_shapes(guard.shape, *(i.shape for i in index))
            return np.zeros(shape, n.dtype.numpy)
        return np.where(guard, buffer[tuple(index)], 0).astype(buffer.dtype)

    def _fold(self, n: Node) -> Array:
        sizes = {a: self.number(a.extent) for a in n.axes}
        whole = {a: np.arange(size) for a, size in sizes.items()}
        return self._twisted(n, whole) if n.by is not None else self._plain(n, whole)

    def _plain(self, n: Node, positions: Mapping[Node, Array]) -> Array:
        inner = self.inner(n.axes, positions)
        body = inner(n.body)
        rank = len(self.order)
        full = body.shape[:rank] + tuple(len(positions[a]) for a in n.axes)
        body = np.broadcast_to(body, full).reshape(*full[:rank], int(np.prod(full[rank:])))
        return reduce(n.monoid, body, n.body.dtype)

    def _twisted(self, n: Node, whole: Mapping[Node, Array]) -> Array:
        """Fold three pieces, each with its own centre, then carry each to the common one."""
        assert n.by is not None
        first = n.axes[0]
        by = n.by
        pieces = []
        for part in np.array_split(whole[first], 3):
            if len(part):
                at = {**whole, first: part}
                centre = self._plain(by, dict(zip(by.axes, at.values(), strict=True)))
                here = Evaluator(self.buffers, self.dims, self.order, self.positions, {by: centre})
                pieces.append(
                    (centre, here._plain(n, at), int(np.prod([len(p) for p in at.values()])))
                )
        if not pieces:
            return self._plain(n, whole)
        new = self._plain(by, dict(zip(by.axes, whole.values(), strict=True)))
        total: Array | None = None
        for old, acc, count in pieces:
            moved = self._act(n, acc, old, new, count)
            both = Evaluator({"a": np.asarray(total), "b": moved}, {})
            total = moved if total is None else _combine(n.monoid, total, moved, n.dtype, both)
        assert total is not None
        return total

    def _act(self, n: Node, acc: Array, old: Array, new: Array, count: int) -> Array:
        named = {"acc": acc, "old": old, "new": new, "count": np.asarray(count, n.dtype.numpy)}
        here = Evaluator(self.buffers, self.dims, self.order, self.positions, dict(self.known))
        for node in _args(n.act):
            value = named[node.name]
            here.known[node] = np.asarray(value).reshape(value.shape or (1,) * len(self.order))
        return here(n.act)

    def _scan(self, n: Node) -> Array:
        along = self.order.index(n.axes[0])
        body = self(n.body)
        shape = list(body.shape)
        shape[along] = len(self.positions[n.axes[0]])
        body = np.broadcast_to(body, shape)
        run = _UFUNC[n.monoid]
        with np.errstate(all="ignore"):
            return run.accumulate(body, axis=along, dtype=body.dtype)


def _args(root: Node) -> list[Node]:
    from rift_compiler.expr import walk

    return [n for n in walk(root) if n.op == "arg"]


def _combine(monoid: str, a: Array, b: Array, dtype: DType, at: Evaluator) -> Array:
    from rift_compiler.expr import arg

    x, y = arg("old", dtype), arg("new", dtype)
    at.known.update({x: a, y: b})
    return at(combine(monoid, x, y))


_UFUNC: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
    "all": np.logical_and,
}


def reduce(monoid: str, body: Array, dtype: DType) -> Array:
    """Fold the last dimension of body."""
    with np.errstate(all="ignore"):
        if monoid in ("argmax", "argmin"):
            if body.shape[-1] == 0:
                return np.zeros(body.shape[:-1], np.int64)
            return np.asarray(getattr(np, monoid)(body, axis=-1), np.int64)
        if monoid == "mean":
            return np.asarray(body.mean(axis=-1, dtype=body.dtype))
        start = identity(monoid, dtype).value
        out = _UFUNC[monoid].reduce(body, axis=-1, dtype=body.dtype, initial=start)
        return np.asarray(out)


def convert(x: Array, source: DType, target: DType) -> Array:
    """x as target; bf16 is held as float32 rounded to nearest even."""
    with np.errstate(all="ignore"):
        if target is bool_:
            return np.asarray(x != 0)
        if target is bf16:
            return round_bf16(x.astype(np.float32))
        return x.astype(target.numpy)


def round_bf16(x: Array) -> Array:
    """float32 rounded to the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.astype(np.uint32).view(np.float32))


def value_of(
    axes: tuple[Node, ...], value: Node, buffers: Mapping[str, Array], dims: Mapping[str, int]
) -> Array:
    """The array of an expression over axes: shape = their extents."""
    sizes = [Evaluator(buffers, dims).number(a.extent) for a in axes]
    positions = {a: np.arange(s, dtype=np.int64) for a, s in zip(axes, sizes, strict=True)}
    out = Evaluator(buffers, dims, axes, positions)(value)
    return np.array(np.broadcast_to(out, sizes), order="C")


def run_tensor(
    p: TensorProgram, inputs: Mapping[str, Array], dims: Mapping[str, int]
) -> list[Array]:
    """A Tensor IR program's outputs."""
    known: dict[str, Array] = dict(inputs)
    for d in p.defs:
        known[d.buffer.name] = value_of(d.axes, d.value, known, dims)
    return [known[name] for name in p.outputs]
