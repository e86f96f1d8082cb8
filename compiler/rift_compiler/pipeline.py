"""The pipeline: Tensor IR -> Loop IR -> Tile IR -> text, read top to bottom."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from rift_compiler import (
    loop_ir,
    render_cpp,
    render_cuda,
    schedule_cpu,
    schedule_cuda,
    tensor_ir,
    tile_ir,
)
from rift_compiler.ahead import ahead
from rift_compiler.apart import apart
from rift_compiler.fuse import Step, fuse, plain_schedule
from rift_compiler.loop_ir import LoopProgram
from rift_compiler.nest import nest
from rift_compiler.pack import pack
from rift_compiler.render_cuda import CudaKernel
from rift_compiler.schedule import Schedule
from rift_compiler.split import split
from rift_compiler.targets import target as target_named
from rift_compiler.tensor_ir import Buffer, TensorProgram
from rift_compiler.tile_ir import TileKernel


@dataclass(frozen=True)
class Stages:
    """A program at every stage. source is C++ or CUDA; launches are the CUDA kernels, if so.

    prepared: the tensors that depend on constants alone; they are made once, not at every call.
    """

    target: str
    tensor: TensorProgram
    loop: LoopProgram
    steps: tuple[Step, ...]
    schedules: tuple[Schedule, ...]
    tiles: tuple[TileKernel, ...]
    source: str
    launches: tuple[CudaKernel, ...] = ()
    prepared: frozenset[str] = frozenset()

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Every buffer: inputs, then what kernels store, in order."""
        return tuple(self.loop.buffers.values())


def lower_all(
    program: TensorProgram,
    target: str,
    sizes: Mapping[str, int],
    constants: Collection[str] = (),
) -> Stages:
    """Every stage of a Tensor IR program. sizes: what the dims are expected to be; constants: the
    inputs that are the same at every call, but for rare changes (parameters)."""
    tensor_ir.verify(program)
    chosen = target_named(target)
    cuda = chosen.cuda
    loop, steps = fuse(program, sizes, None if cuda else chosen.vectors)
    if cuda:
        loop, more = split(loop, chosen, sizes)
        steps += more
        schedules = tuple(map(schedule_cuda.schedule, loop.kernels))
    else:
        loop = pack(apart(loop, chosen.vectors), chosen.vectors, frozenset(constants))
        schedules = tuple(
            schedule_cpu.schedule(k, plain_schedule(k), chosen.vectors) for k in loop.kernels
        )
    loop_ir.verify(loop)
    tiles = tuple(tile_ir.verify(nest(k, s)) for k, s in zip(loop.kernels, schedules, strict=True))
    if not cuda:
        tiles = tuple(tile_ir.verify(ahead(t)) for t in tiles)
        prepared = _prepared(loop, constants)
        source = render_cpp.program(tiles, tuple(loop.buffers.values()), program.dims, prepared)
        return Stages(target, program, loop, steps, schedules, tiles, source, prepared=prepared)
    launches = tuple(render_cuda.render(t, program.dims) for t in tiles)
    source = render_cuda.program(launches)
    return Stages(target, program, loop, steps, schedules, tiles, source, launches)


def _prepared(p: LoopProgram, constants: Collection[str]) -> frozenset[str]:
    """What kernels make of constants alone, the program's outputs aside."""
    known, made = set(constants), set[str]()
    for k in p.kernels:
        stores = {s.buffer.name for s in k.stores}
        if all(b.name in known for b in k.reads) and stores.isdisjoint(p.outputs) and k.reads:
            known |= stores
            made |= stores
    return frozenset(made)
