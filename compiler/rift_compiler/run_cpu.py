"""Runs a program's C++: torch tensors in, torch tensors out, no copies but of strided inputs."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import torch

from rift_compiler import build_cpp
from rift_compiler.interpret import Evaluator
from rift_compiler.pipeline import Stages
from rift_compiler.tensor_ir import Buffer


def load(stages: Stages) -> ctypes.CDLL:
    """The program's library."""
    return build_cpp.load(build_cpp.build(stages.source))


def run(
    library: Any, stages: Stages, tensors: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[dict[str, torch.Tensor], int]:
    """Everything that the kernels store, by name, and the error bits they left."""
    held = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    for b in stages.buffers:
        if b.name not in held:
            held[b.name] = empty(b, dims, "cpu")
    pointers = [held[b.name].data_ptr() for b in stages.buffers]
    sizes = [dims[d.name] for d in stages.tensor.dims]
    error = library.rift_run(
        (ctypes.c_void_p * len(pointers))(*pointers), (ctypes.c_int64 * len(sizes))(*sizes)
    )
    return held, error


def empty(b: Buffer, dims: Mapping[str, int], device: Any) -> torch.Tensor:
    """Memory for a buffer."""
    at = Evaluator({}, dims)
    shape = [at.number(s) for s in b.shape]
    return torch.empty(shape, dtype=getattr(torch, b.dtype.torch), device=device)
