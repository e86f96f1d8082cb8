"""Reference interpreter of Tile IR: all lanes of all blocks in lockstep, as NumPy arrays.

A value is one array over the lanes, blocks outermost. Reads outside a buffer are an error, and
memory that nothing was written to holds NaN or a strange number, so that a wrong schedule shows.
What lockstep cannot show is a missing sync: that is for the emulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from rift_compiler.dtypes import DType
from rift_compiler.expr import IrError, Node, walk
from rift_compiler.interpret import _UFUNC, convert
from rift_compiler.scalar_ops import SCALAR_OPS
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

Array = npt.NDArray[Any]
POISON = 77


def run(k: TileKernel, buffers: Mapping[str, Array], dims: Mapping[str, int]) -> dict[str, Array]:
    """What a kernel stores, by name; buffers are what it reads."""
    outs = {}
    plain = _Lanes({}, {}, dict(dims), 1, 1)
    for b in k.outs:
        shape = [int(plain.value(s, np.ones(1, bool))[0]) for s in b.shape]
        outs[b.name] = _poison(tuple(shape), b.dtype)
    loops: list[For] = []
    body = k.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].axis.bind in ("grid", "thread"):
        loops.append(body[0])
        body = body[0].body
    sizes = [int(plain.value(f.axis.extent, np.ones(1, bool))[0]) for f in loops]
    lanes = int(np.prod([s for f, s in zip(loops, sizes, strict=True) if f.axis.bind == "thread"]))
    blocks = int(np.prod([s for f, s in zip(loops, sizes, strict=True) if f.axis.bind == "grid"]))
    machine = _Lanes(dict(buffers), outs, dict(dims), blocks, lanes)
    where = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), int)
    for f, at in zip(loops, where, strict=True):
        machine.env[f.axis.name] = at.astype(np.int64)
    machine.block(body, np.ones(blocks * lanes, bool))
    return outs


def _poison(shape: tuple[int, ...], dtype: DType) -> Array:
    return np.full(shape, np.nan if dtype.is_float else POISON % 2 or 1, dtype.numpy)


@dataclass
class _Lanes:
    buffers: dict[str, Array]
    outs: dict[str, Array]
    dims: dict[str, int]
    blocks: int
    lanes: int
    env: dict[str, Array] = field(default_factory=dict)
    arrays: dict[str, tuple[Array, bool]] = field(default_factory=dict)  # memory, shared

    @property
    def count(self) -> int:
        return self.blocks * self.lanes

    def block(self, body: tuple[Stmt, ...], mask: Array) -> None:
        for s in body:
            self.statement(s, mask)

    def statement(self, s: Stmt, mask: Array) -> None:
        if isinstance(s, For):
            self._for(s, mask)
        elif isinstance(s, If):
            inner = mask & self.value(s.condition, mask)
            if inner.any():
                self.block(s.body, inner)
        elif isinstance(s, Let):
            self.env[s.name] = self.value(s.value, mask)
        elif isinstance(s, Local):
            self._local(s, mask)
        elif isinstance(s, Assign):
            memory, shared = self.arrays[s.name]
            self._write(memory, self._own(shared), s.index, self.value(s.value, mask), mask)
        elif isinstance(s, StoreTo):
            self._write(self.outs[s.buffer], None, s.index, self.value(s.value, mask), mask)
        elif isinstance(s, Vector):
            self._vector(s, mask)
        elif isinstance(s, AllReduce):
            self._allreduce(s, mask)
        else:
            assert isinstance(s, Sync | Prefetch)

    def _for(self, s: For, mask: Array) -> None:
        if s.axis.bind in ("grid", "thread"):
            raise IrError(f"{s.axis.name}: {s.axis.bind} loops stand outermost, one in another")
        extents = self.value(s.axis.extent, mask)
        for i in range(int(extents.max(initial=0))):
            self.env[s.axis.name] = np.full(self.count, i, np.int64)
            self.block(s.body, mask & (i < extents))

    def _local(self, s: Local, mask: Array) -> None:
        rows = self.blocks if s.shared else self.count
        memory = _poison((rows, *s.sizes), s.dtype)
        if s.init is not None:
            start = self.value(s.init, mask).reshape(-1, *(1 for _ in s.sizes))
            memory = np.broadcast_to(start, memory.shape).astype(memory.dtype)
        self.arrays[s.name] = (memory, s.shared)

    def _own(self, shared: bool) -> Array:
        """Which row of an array each lane sees."""
        lane = np.arange(self.count)
        return lane // self.lanes if shared else lane

    def _write(
        self, memory: Array, own: Array | None, index: tuple[Node, ...], value: Array, mask: Array
    ) -> None:
        place = [self.value(i, mask) for i in index]
        sizes = memory.shape if own is None else memory.shape[1:]
        for at, size in zip(place, sizes, strict=True):
            if np.any(mask & ((at < 0) | (at >= size))):
                raise IrError(f"a write outside 0..{size}: {', '.join(map(str, index))}")
        if own is None and not place:
            memory[...] = value[mask][-1]
            return
        rows = [] if own is None else [own]
        memory[tuple(p[mask] for p in (*rows, *place))] = value[mask]

    def _vector(self, s: Vector, mask: Array) -> None:
        memory, _ = self.arrays[s.name]
        *outer, last = s.index
        from rift_compiler.expr import apply, const

        for n in range(memory.shape[1]):
            index = (*outer, apply("add", last, const(n)))
            if s.store:
                self._write(self.outs[s.buffer], None, index, memory[:, n], mask)
            else:
                read = self._read(self.buffers[s.buffer], None, index, mask)
                memory[mask, n] = read[mask]

    def _allreduce(self, s: AllReduce, mask: Array) -> None:
        here = mask.reshape(self.blocks, self.lanes)
        if np.any(here.any(axis=1) != here.all(axis=1)):
            raise IrError(f"allreduce of {s.name} where some lanes of a block are not")
        memory, _ = self.arrays[s.name]
        place = (np.arange(self.count), *(self.value(i, mask) for i in s.index))
        values = memory[place].reshape(self.blocks, self.lanes)
        with np.errstate(all="ignore"):
            total = _UFUNC[s.monoid].reduce(values, axis=1, dtype=values.dtype)
        memory[place] = np.where(mask, np.repeat(total, self.lanes), memory[place])

    def _read(
        self, memory: Array, own: Array | None, index: tuple[Node, ...], active: Array
    ) -> Array:
        place = [self.value(i, active) for i in index]
        sizes = memory.shape if own is None else memory.shape[1:]
        inside = []
        for at, size in zip(place, sizes, strict=True):
            if np.any(active & ((at < 0) | (at >= size))):
                raise IrError(f"a read outside 0..{size}: {', '.join(map(str, index))}")
            inside.append(np.clip(at, 0, max(size - 1, 0)))
        if memory.size == 0:
            return np.zeros(self.count, memory.dtype)
        rows = [] if own is None else [own]
        return np.broadcast_to(memory[tuple((*rows, *inside))], (self.count,))

    def value(self, root: Node, mask: Array) -> Array:
        """An expression at every lane; lanes outside mask may hold anything."""
        done: dict[Node, Array] = {}
        for n in walk(root):
            done[n] = self._node(n, done, mask)
        return np.broadcast_to(done[root], (self.count,))

    def _node(self, n: Node, done: Mapping[Node, Array], mask: Array) -> Array:
        if n.op == "const":
            return np.asarray(n.value, n.dtype.numpy).reshape(1)
        if n.op == "dim":
            return np.asarray([self.dims[n.name]], np.int64)
        if n.op == "axis":
            return self.env[n.name]
        if n.op == "var":
            return self._variable(n, mask)
        if n.op == "load":
            guard = np.broadcast_to(done[n.guard], (self.count,)) & mask
            read = self._read(self.buffers[n.name], None, n.index, guard)
            return np.where(guard, read, 0).astype(read.dtype)
        args = [done[a] for a in n.args]
        if n.op == "cast":
            return convert(args[0], n.args[0].dtype, n.dtype)
        if n.op == "checked":  # only lanes that are there may fail
            args[0] = np.where(mask, args[0], 0)
        with np.errstate(all="ignore"):
            out = SCALAR_OPS[n.op].numpy(*args)
        return np.asarray(out).astype(n.dtype.numpy, copy=False)

    def _variable(self, n: Node, mask: Array) -> Array:
        if n.name not in self.arrays:
            return self.env[n.name]
        memory, shared = self.arrays[n.name]
        return self._read(memory, self._own(shared), n.args, mask)
