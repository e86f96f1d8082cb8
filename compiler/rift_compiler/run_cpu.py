"""Runs a program's C++: torch tensors in, torch tensors out, no copies but of strided inputs."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from rift_compiler import build_cpp
from rift_compiler.interpret import Evaluator
from rift_compiler.memory import Layout, layout
from rift_compiler.pipeline import Stages
from rift_compiler.tensor_ir import Buffer


@dataclass
class Program:
    """A loaded library, and the memory between its kernels: one block for each calling thread,
    kept from call to call."""

    stages: Stages
    library: Any
    names: tuple[str, ...]
    dtypes: Mapping[str, torch.dtype]
    pointers: Any
    layouts: dict[tuple[int, ...], Layout] = field(default_factory=dict)
    local: threading.local = field(default_factory=threading.local)

    def run(
        self, tensors: Mapping[str, torch.Tensor], dims: Mapping[str, int]
    ) -> tuple[dict[str, torch.Tensor], int]:
        """What comes out, by name, and the error bits that kernels left."""
        sizes = tuple(dims[d.name] for d in self.stages.tensor.dims)
        plan = self.layouts.get(sizes)
        if plan is None:
            plan = self.layouts[sizes] = layout(self.stages.loop, dims)
        held = {n: _plain(t) for n, t in tensors.items()}
        made = {n: torch.empty(s, dtype=self.dtypes[n]) for n, s in plan.outputs.items()}
        addresses = {n: t.data_ptr() for part in (held, made) for n, t in part.items()}
        if plan.total_bytes:
            base = self._block(plan.total_bytes).data_ptr()
            addresses |= {n: base + place for n, place in plan.places.items()}
        pointers = self.pointers(*[addresses[n] for n in self.names])
        error = self.library.rift_run(pointers, (ctypes.c_int64 * len(sizes))(*sizes))
        return {**held, **made}, error

    def _block(self, size: int) -> torch.Tensor:
        block: torch.Tensor | None = getattr(self.local, "block", None)
        if block is None or block.numel() < size:
            block = self.local.block = torch.empty(size, dtype=torch.uint8)
        return block


def _plain(t: torch.Tensor) -> torch.Tensor:
    """A tensor as kernels read it: on the CPU, row-major."""
    if t.is_cpu and t.is_contiguous():
        return t
    return t.detach().cpu().contiguous()


def load(stages: Stages) -> Program:
    """The program, built and loaded."""
    library = build_cpp.load(build_cpp.build(stages.source))
    names = tuple(b.name for b in stages.buffers)
    dtypes = {b.name: getattr(torch, b.dtype.torch) for b in stages.buffers}
    return Program(stages, library, names, dtypes, ctypes.c_void_p * len(names))


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
    program.library.rift_run(pointers, (ctypes.c_int64 * len(sizes))(*sizes))
    return held


def empty(b: Buffer, dims: Mapping[str, int], device: Any) -> torch.Tensor:
    """Memory for a buffer."""
    at = Evaluator({}, dims)
    shape = [at.number(s) for s in b.shape]
    return torch.empty(shape, dtype=getattr(torch, b.dtype.torch), device=device)
