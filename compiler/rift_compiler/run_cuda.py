"""Runs a program's CUDA kernels through the driver, on torch's current stream."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from rift.errors import WrongUsage
from rift_compiler.build_cuda import compile_cuda
from rift_compiler.interpret import Evaluator
from rift_compiler.launch_cuda import Argument, Module
from rift_compiler.pipeline import Stages
from rift_compiler.run_cpu import empty


def load(stages: Stages) -> Module:
    """The program's kernels on the current GPU. Raises Blocked where there is no driver."""
    device = torch.cuda.current_device() if torch.cuda.is_available() else 0
    return Module(compile_cuda(stages.source, stages.target).cubin, device)


def run(
    module: Module, stages: Stages, tensors: Mapping[str, torch.Tensor], dims: Mapping[str, int]
) -> tuple[dict[str, torch.Tensor], int]:
    """Everything that the kernels store, by name; errors in data trap, and show at a later call."""
    device = torch.device("cuda", torch.cuda.current_device())
    held = {name: t.detach().to(device).resolve_neg().contiguous() for name, t in tensors.items()}
    for b in stages.buffers:
        if b.name not in held:
            held[b.name] = empty(b, dims, device)
    at = Evaluator({}, dims)
    sizes = [Argument("i64", dims[d.name]) for d in stages.tensor.dims]
    stream = torch.cuda.current_stream().cuda_stream
    for k in stages.launches:
        blocks = at.number(k.blocks)
        if blocks >= 2**31:
            raise WrongUsage(f"{k.name}: a grid of {blocks} blocks, at most {2**31 - 1} can run")
        if blocks:
            args = [Argument("pointer", held[name].data_ptr()) for name in k.params]
            module.launch(k.name, (blocks, 1, 1), (k.lanes, 1, 1), [*args, *sizes], 0, stream)
    return held, 0
