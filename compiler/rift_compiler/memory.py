"""Where the tensors between kernels live: one block of memory, parts of it used again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rift_compiler.interpret import Evaluator
from rift_compiler.loop_ir import LoopProgram
from rift_compiler.tensor_ir import Buffer

ALIGNED = 64  # bytes: a cache line, and the widest vector


@dataclass(frozen=True, slots=True)
class Layout:
    """For given sizes: the shapes of what comes out, and the places of what does not, in bytes."""

    outputs: Mapping[str, tuple[int, ...]]
    places: Mapping[str, int]
    total_bytes: int


def layout(p: LoopProgram, dims: Mapping[str, int], elsewhere: Collection[str] = ()) -> Layout:
    """Places for a program's tensors, but those that are elsewhere: two that are needed at one
    time never overlap."""
    at = Evaluator({}, dims)
    inputs = {b.name for b in p.inputs} | set(elsewhere)
    last = {b.name: n for n, k in enumerate(p.kernels) for b in k.reads}
    outputs: dict[str, tuple[int, ...]] = {}
    places: dict[str, int] = {}
    live: list[tuple[int, int, int]] = []  # begin, end, the last kernel that needs it
    total = 0
    for n, k in enumerate(p.kernels):
        live = [x for x in live if x[2] >= n]
        for b in (s.buffer for s in k.stores):
            shape = tuple(at.number(size) for size in b.shape)
            if b.name in p.outputs:
                outputs[b.name] = shape
            elif b.name not in inputs:
                size = _bytes(b, shape)
                begin = _gap(live, size)
                places[b.name] = begin
                live.append((begin, begin + size, last.get(b.name, n)))
                total = max(total, begin + size)
    return Layout(outputs, places, total)


def _bytes(b: Buffer, shape: tuple[int, ...]) -> int:
    size = b.dtype.bytes
    for n in shape:
        size *= n
    return -(-size // ALIGNED) * ALIGNED


def _gap(live: list[tuple[int, int, int]], size: int) -> int:
    """The first place where size bytes fit between what is live."""
    begin = 0
    for low, high, _ in sorted(live):
        if low - begin >= size:
            break
        begin = max(begin, high)
    return begin
