"""What a kernel costs: operations done and bytes moved, counted on its statements.

Bytes count each element of a buffer once for every pass over it: caches are taken to be perfect
within a pass, and to keep what a later pass reads again if it is small (CACHE_BYTES). The one
figure that choices compare is predicted: bytes + operations / BALANCE + LAUNCH_BYTES, and, where
lanes are counted (split.py), what idle lanes could have moved meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rift_compiler.expr import Node, walk
from rift_compiler.lanes import lane_of, varying_names
from rift_compiler.scalar_ops import SCALAR_OPS
from rift_compiler.tile_ir import (
    For,
    If,
    Stmt,
    StoreTo,
    TileKernel,
    Vector,
    expressions,
    statements,
)

# Operations that a machine does while it moves one byte: 10 on a server core (183 GFLOP/s of
# float32, 18 GB/s), 20 on an H100 without tensor cores (67 TFLOP/s, 3.35 TB/s; NVIDIA H100
# datasheet). A choice that needs it exactly is one to be measured.
BALANCE = 16.0
LAUNCH_BYTES = 4_096  # starting a kernel, in the bytes it could have moved
CACHE_BYTES = 262_144  # what is read again soon and is smaller costs AGAIN of a first read
AGAIN = 0.125
STRIDED = 8.0  # a load in an array loop whose elements do not follow each other in memory
VECTOR = 8  # lanes that one instruction does: what all lanes share takes an instruction, too
HINT = 512  # a size known only at run time


@dataclass(frozen=True, slots=True)
class Cost:
    """Operations and bytes of one kernel or several."""

    operations: float = 0.0
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    kernels: int = 0
    idle: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.operations + other.operations,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            self.kernels + other.kernels,
            self.idle + other.idle,
        )

    @property
    def bytes_moved(self) -> float:
        return self.bytes_read + self.bytes_written

    @property
    def predicted_work(self) -> float:
        """Predicted time at work, were every lane busy, in bytes that could have been moved."""
        return self.bytes_moved + self.operations / BALANCE

    @property
    def predicted(self) -> float:
        """Predicted time, in bytes that could have been moved meanwhile."""
        return self.predicted_work + LAUNCH_BYTES * self.kernels + self.idle


@dataclass
class _Counter:
    sizes: Mapping[str, int]
    operations: float = 0.0
    written: float = 0.0
    reads: dict[str, list[tuple[float, float, tuple[Node, ...]]]] = field(default_factory=dict)
    shapes: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    lane: Node | None = None
    varying: frozenset[str] = frozenset()  # what differs from lane to lane; the rest is done once

    def number(self, n: Node) -> float:
        """A size, dims at their hints."""
        if n.op == "const":
            return float(n.value)
        if n.op == "dim":
            return float(self.sizes.get(n.name, HINT))
        if n.op == "axis":  # where a size varies with it: about the middle
            return (self.number(n.extent) - 1) / 2
        args = [self.number(a) for a in n.args]
        if n.op in ("add", "sub", "mul"):
            return {"add": args[0] + args[1], "sub": args[0] - args[1], "mul": args[0] * args[1]}[
                n.op
            ]
        if n.op in ("floordiv", "mod") and args[1]:
            return args[0] // args[1] if n.op == "floordiv" else args[0] % args[1]
        if n.op in ("min", "max"):
            return min(args) if n.op == "min" else max(args)
        return float(HINT)

    def block(self, body: Sequence[Stmt], loops: tuple[Node, ...], times: float) -> None:
        for s in body:
            for e in expressions(s):
                if not isinstance(s, For):
                    self.expression(e, loops, times)
            if isinstance(s, StoreTo):
                self.written += s.value.dtype.bytes * times
            if isinstance(s, Vector):
                raise AssertionError("costs are counted on plain schedules")
            if isinstance(s, For):
                extent = self.number(s.axis.extent)
                self.block(s.body, (*loops, s.axis), times * extent)
            elif isinstance(s, If):
                self.block(s.body, loops, times)

    def expression(self, root: Node, loops: tuple[Node, ...], times: float) -> None:
        differs: set[Node] = set()
        inside = self.lane is not None and self.lane in loops
        once = times * VECTOR / self.number(self.lane.extent) if self.lane and inside else times
        for n in walk(root):
            if (
                n is self.lane
                or (n.op == "var" and n.name in self.varying)
                or any(a in differs for a in n.args)
            ):
                differs.add(n)
            row = SCALAR_OPS.get(n.op)
            here = times if n in differs else once
            if row is not None and n.dtype.name != "i64":
                self.operations += row.cost * here
            elif n.op == "load":
                strided = self.lane is None and _strides(n, loops)
                self.operations += here * (STRIDED if strided else 1.0)
                self.load(n, loops)

    def load(self, n: Node, loops: tuple[Node, ...]) -> None:
        varies = [a for a in loops if a in n.free]
        elements, most = 1.0, 1.0
        for a in varies:
            elements *= self.number(a.extent)
        for size in self.shapes[n.name]:
            most *= self.number(size)
        elements = min(elements, most)  # loops may run over a buffer's end
        rows = self.number(loops[0].extent) if loops and loops[0] in varies else 1.0
        again = elements / max(rows, 1.0)
        sites = self.reads.setdefault(n.name, [])
        sites.append((elements * n.dtype.bytes, again * n.dtype.bytes, n.index))

    def read(self) -> float:
        """Bytes read: the first pass over a buffer in full, later ones by what caches keep."""
        total = 0.0
        for sites in self.reads.values():
            first, *later = sorted(sites, key=lambda s: -s[0])
            total += first[0]
            total += sum(b * (AGAIN if near <= CACHE_BYTES else 1.0) for b, near, _ in later)
        return total


def _strides(n: Node, loops: tuple[Node, ...]) -> bool:
    """Whether a load in an array loop steps over elements."""
    if not loops or loops[-1].bind != "array" or loops[-1] not in n.free:
        return False
    return any(loops[-1] in i.free for i in n.index[:-1])


def cost(k: TileKernel, sizes: Mapping[str, int]) -> Cost:
    """The cost of a kernel; sizes are the values dims are expected to have."""
    lane = lane_of(k)
    names = varying_names(k, lane) if lane else frozenset()
    shapes = {b.name: b.shape for b in k.reads}
    counter = _Counter(sizes, shapes=shapes, lane=lane, varying=names)
    counter.block(k.body, (), 1.0)
    return Cost(counter.operations, counter.read(), counter.written, 1)


def lanes(k: TileKernel, sizes: Mapping[str, int]) -> float:
    """How many lanes a scheduled kernel keeps busy: the product of its grid and thread loops."""
    counter, busy = _Counter(sizes), 1.0
    for s in statements(k.body):
        if isinstance(s, For) and s.axis.bind in ("grid", "thread"):
            busy *= counter.number(s.axis.extent)
    return busy
