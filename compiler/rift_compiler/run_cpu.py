"""Runs a program's C++: torch tensors in, torch tensors out, no copies but of strided inputs."""

from __future__ import annotations

import ctypes
import functools
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from rift.errors import Blocked
from rift_compiler import build_cpp
from rift_compiler.interpret import Evaluator
from rift_compiler.loop_ir import Kernel
from rift_compiler.memory import Layout, layout
from rift_compiler.pipeline import Stages
from rift_compiler.targets import AVX2, NEON, SSE, target
from rift_compiler.tensor_ir import Buffer

log = logging.getLogger("rift")


@dataclass(frozen=True)
class Prepared:
    """What was made of constants: of which state of which memory, and the errors it left."""

    state: tuple[object, ...]
    seen: tuple[torch.Tensor, ...]
    made: dict[str, torch.Tensor]
    error: int


@dataclass
class Program:
    """A loaded library, the memory between its kernels (one block for each calling thread, kept
    from call to call), and what was made of constants alone."""

    stages: Stages
    library: Any
    names: tuple[str, ...]
    dtypes: Mapping[str, torch.dtype]
    pointers: Any
    layouts: dict[tuple[int, ...], Layout] = field(default_factory=dict)
    local: threading.local = field(default_factory=threading.local)
    sources: tuple[str, ...] = ()  # what prepared tensors are made of
    prepared: Prepared | None = None

    def run(
        self, tensors: Mapping[str, torch.Tensor], dims: Mapping[str, int]
    ) -> tuple[dict[str, torch.Tensor], int]:
        """What comes out, by name, and the error bits that kernels left."""
        sizes = tuple(dims[d.name] for d in self.stages.tensor.dims)
        plan = self.layouts.get(sizes)
        if plan is None:
            plan = self.layouts[sizes] = layout(self.stages.loop, dims, self.stages.prepared)
        held = {n: _plain(t) for n, t in tensors.items()}
        made_once, failed = self._prepare(tensors, held, dims)
        held |= made_once
        made = {n: torch.empty(s, dtype=self.dtypes[n]) for n, s in plan.outputs.items()}
        addresses = {n: t.data_ptr() for part in (held, made) for n, t in part.items()}
        if plan.total_bytes:
            base = self._block(plan.total_bytes).data_ptr()
            addresses |= {n: base + place for n, place in plan.places.items()}
        pointers = self.pointers(*[addresses[n] for n in self.names])
        error = self.library.rift_run(pointers, (ctypes.c_int64 * len(sizes))(*sizes))
        return {**held, **made}, error | failed

    def _prepare(
        self,
        tensors: Mapping[str, torch.Tensor],
        held: Mapping[str, torch.Tensor],
        dims: Mapping[str, int],
    ) -> tuple[dict[str, torch.Tensor], int]:
        """What is made of constants, and the errors it left: made again where PyTorch counted a
        write to one of them, or it has other memory. The memory seen is kept, so that its address
        cannot come back with other values."""
        if not self.sources:
            return {}, 0
        sizes = [dims[d.name] for d in self.stages.tensor.dims]
        state = *sizes, *((tensors[n].data_ptr(), _version(tensors[n])) for n in self.sources)
        if self.prepared is not None and self.prepared.state == state:
            return self.prepared.made, self.prepared.error
        buffers = {b.name: b for b in self.stages.buffers}
        made = {n: empty(buffers[n], dims, "cpu") for n in self.stages.prepared}
        known = {**held, **made}
        addresses = [known[n].data_ptr() if n in known else None for n in self.names]
        dimensions = (ctypes.c_int64 * len(sizes))(*sizes)
        error = self.library.rift_prepare(self.pointers(*addresses), dimensions)
        seen = tuple(tensors[n].detach() for n in self.sources)
        self.prepared = Prepared(state, seen, made, error)
        return made, error

    def _block(self, size: int) -> torch.Tensor:
        block: torch.Tensor | None = getattr(self.local, "block", None)
        if block is None or block.numel() < size:
            block = self.local.block = torch.empty(size, dtype=torch.uint8)
        return block


def _plain(t: torch.Tensor) -> torch.Tensor:
    """A tensor as kernels read it: on the CPU, row-major, no sign left to be applied."""
    if t.is_cpu and t.is_contiguous() and not t.is_neg():
        return t
    return t.detach().cpu().resolve_neg().contiguous()


def _version(t: torch.Tensor) -> object:
    """How often a tensor was written to; never the same twice where torch does not count."""
    return object() if t.is_inference() else t._version


@functools.cache
def _tell_vectors() -> None:
    """Say, once, what the fastest kernels here lack."""
    names = {AVX2: "AVX2", SSE: "plain C++ with SSE2", NEON: "Advanced SIMD"}
    own = target("cpu").vectors
    if own in names:
        log.info("no AVX-512 on this processor: kernels use %s", names[own])


def load(stages: Stages) -> Program:
    """The program, built and loaded. Raises Blocked if this processor cannot run it."""
    chosen = target(stages.target)
    if chosen.march == "native":
        _tell_vectors()
    if chosen.vectors.bytes > target("cpu").vectors.bytes:
        raise Blocked(
            f"code for {chosen.name} needs vectors of {chosen.vectors.bytes} bytes; this "
            f"processor's have {target('cpu').vectors.bytes}; use the target cpu"
        )
    library = build_cpp.load(build_cpp.build(stages.source, build_cpp.flags(chosen.march)))
    names = tuple(b.name for b in stages.buffers)
    dtypes = {b.name: getattr(torch, b.dtype.torch) for b in stages.buffers}
    reads = [b.name for k in stages.loop.kernels for b in k.reads if _makes(k, stages)]
    sources = tuple(dict.fromkeys(n for n in reads if n not in stages.prepared))
    pointers = ctypes.c_void_p * len(names)
    return Program(stages, library, names, dtypes, pointers, sources=sources)


def _makes(k: Kernel, stages: Stages) -> bool:
    return k.stores[0].buffer.name in stages.prepared


def run(
    program: Program, stages: Stages, tensors: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[dict[str, torch.Tensor], int]:
    """As Program.run, for a caller that knows cpu and cuda."""
    return program.run(tensors, dims)


def run_all(
    program: Program, stages: Stages, tensors: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> dict[str, torch.Tensor]:
    """Everything that the kernels store, by name, each in memory of its own."""
    held = {name: _plain(t) for name, t in tensors.items()}
    for b in stages.buffers:
        if b.name not in held:
            held[b.name] = empty(b, dims, "cpu")
    pointers = program.pointers(*[held[n].data_ptr() for n in program.names])
    sizes = [dims[d.name] for d in stages.tensor.dims]
    for entry in (program.library.rift_prepare, program.library.rift_run):
        entry(pointers, (ctypes.c_int64 * len(sizes))(*sizes))
    return held


def empty(b: Buffer, dims: Mapping[str, int], device: Any) -> torch.Tensor:
    """Memory for a buffer."""
    at = Evaluator({}, dims)
    shape = [at.number(s) for s in b.shape]
    return torch.empty(shape, dtype=getattr(torch, b.dtype.torch), device=device)
