"""The compiler's own CUDA programs, run by the emulator in place of a GPU, with every check on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils import _pytree as pytree

from rift.errors import Failed
from rift_compiler.build_cuda import compile_cuda
from rift_compiler.emulator.arguments import Argument, Output
from rift_compiler.emulator.findings import Finding
from rift_compiler.emulator.launch import launch
from rift_compiler.interpret import Evaluator
from rift_compiler.pipeline import Stages
from rift_compiler.run_cpu import empty
from rift_compiler.tensor_ir import Buffer

if TYPE_CHECKING:
    from rift_compiler.api import Compiled


def run(
    stages: Stages, tensors: Mapping[str, torch.Tensor], dims: Mapping[str, int], seed: int = 0
) -> tuple[dict[str, torch.Tensor], tuple[Finding, ...]]:
    """Everything that the kernels store, by name, and what was found.

    stages: for a CUDA target, with `launches`. Kernels see copies of the inputs.
    """
    ptx = compile_cuda(stages.source, stages.target).ptx
    held = {name: t.detach().contiguous().clone() for name, t in tensors.items()}
    fresh = {b.name for b in stages.buffers} - held.keys()
    held |= {b.name: empty(b, dims, "cpu") for b in stages.buffers if b.name in fresh}
    arrays = {name: _array(t) for name, t in held.items()}
    sizes: list[Argument] = [np.int64(dims[d.name]) for d in stages.tensor.dims]
    found: list[Finding] = []
    for kernel in stages.launches:
        blocks = Evaluator({}, dims).number(kernel.blocks)
        if not blocks:
            continue
        args: list[Argument] = [
            Output(arrays[name]) if name in fresh else arrays[name] for name in kernel.params
        ]
        fresh -= set(kernel.params)
        result = launch(ptx, kernel.name, blocks, kernel.lanes, [*args, *sizes], seed=seed)
        found += result.findings
    return held, tuple(found)


def _array(t: torch.Tensor) -> NDArray[Any]:
    """The tensor's memory as bytes: NumPy has no bfloat16."""
    return t.reshape(-1).view(torch.uint8).numpy()


def emulated(compiled: Compiled) -> Callable[..., Any]:
    """A function that does what a program compiled for a GPU does.

    Raises Failed with the findings when there are any.
    """

    def call(*inputs: Any) -> Any:
        tensors, dims = compiled.bind(pytree.tree_flatten((inputs, {}))[0])
        made, findings = run(compiled.stages, tensors, dims)
        if findings:
            raise Failed("\n".join(map(str, findings)))
        at = Evaluator({}, dims)
        outputs = [
            made[o.name] if isinstance(o, Buffer) else o if _is_plain(o) else at.number(o)
            for o in compiled.lowered.outputs
        ]
        return pytree.tree_unflatten(outputs, compiled.traced.exported.call_spec.out_spec)

    return call


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, torch.Tensor))
