"""compile: a PyTorch module or function to a callable made of our kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from rift.errors import Failed, WrongUsage
from rift_compiler import run_cpu, run_cuda
from rift_compiler.expr import Node
from rift_compiler.frontend.lower import Lowered, lower
from rift_compiler.frontend.sizes import Dynamic
from rift_compiler.frontend.trace import TorchProgram, trace
from rift_compiler.pipeline import Stages, lower_all
from rift_compiler.tensor_ir import Buffer

ERRORS = {1: "an index is out of range of the dimension it indexes", 2: "integer division by zero"}


@dataclass(frozen=True)
class Compiled:
    """A compiled program: called like the original, and readable at every stage."""

    traced: TorchProgram
    lowered: Lowered
    stages: Stages

    def __call__(self, *inputs: Any) -> Any:
        """Run on inputs of the compiled shapes and element types.

        Raises WrongUsage when an input does not fit, and Failed when data are out of range: an
        index outside its dimension, or an integer divided by zero.
        """
        tensors, dims = self._bound_fast(inputs) or self.bind(pytree.tree_flatten((inputs, {}))[0])
        run = run_cuda.run if self.stages.launches else run_cpu.run
        made, error = run(self._library, self.stages, tensors, dims)
        if error:
            raise Failed("; ".join(text for bit, text in ERRORS.items() if error & bit))
        outputs = [made[o.name] if isinstance(o, Buffer) else o for o in self.lowered.outputs]
        if self._one_output:
            return outputs[0]
        outputs = [size_of(o, dims) if isinstance(o, Node) else o for o in outputs]
        return pytree.tree_unflatten(outputs, self._out_spec)

    @functools.cached_property
    def _out_spec(self) -> pytree.TreeSpec:
        # Each access of call_spec makes a new class: 0.1 ms.
        spec: pytree.TreeSpec = self.traced.exported.call_spec.out_spec
        return spec

    @functools.cached_property
    def _one_output(self) -> bool:
        return self._out_spec.is_leaf() and isinstance(self.lowered.outputs[0], Buffer)

    @functools.cached_property
    def _expected(self) -> tuple[tuple[str, torch.dtype, tuple[int, ...]], ...] | None:
        """Name, type and shape of each input, if all are tensors of fixed shape."""
        buffers = {b.name: b for b in self.stages.tensor.inputs}
        if self.stages.tensor.dims or None in self.lowered.user_inputs:
            return None
        wanted = [buffers[n] for n in self.lowered.user_inputs if n is not None]
        return tuple(
            (b.name, getattr(torch, b.dtype.torch), tuple(size_of(s, {}) for s in b.shape))
            for b in wanted
        )

    def _bound_fast(
        self, inputs: Sequence[Any]
    ) -> tuple[dict[str, torch.Tensor], dict[str, int]] | None:
        """As bind, for plain tensors that all fit; None where anything needs a second look."""
        expected = self._expected
        if expected is None or len(inputs) != len(expected):
            return None
        tensors = dict(self.lowered.bound)
        for given, (name, dtype, shape) in zip(inputs, expected, strict=True):
            if not isinstance(given, torch.Tensor):
                return None
            if given.dtype is not dtype or given.shape != shape:
                return None
            tensors[name] = given
        return tensors, {}

    @functools.cached_property
    def _library(self) -> Any:
        return (run_cuda if self.stages.launches else run_cpu).load(self.stages)

    def build(self) -> Compiled:
        """Compile the generated text now, not at the first call."""
        _ = self._library
        return self

    def bind(self, flat: Sequence[Any]) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
        """Input tensors by name and the sizes of dims; all inputs checked."""
        users = self.lowered.user_inputs
        if len(flat) != len(users):
            raise WrongUsage(f"expected {len(users)} inputs, got {len(flat)}")
        buffers = {b.name: b for b in self.stages.tensor.inputs}
        tensors = dict(self.lowered.bound)
        dims: dict[str, int] = {}
        for n, (name, given, fixed) in enumerate(zip(users, flat, self.lowered.fixed, strict=True)):
            if name is None:
                if given != fixed:
                    raise WrongUsage(f"input {n}: compiled for the value {fixed!r}, got {given!r}")
                continue
            _check(n, buffers[name], given, dims)
            tensors[name] = given
        for d in self.stages.tensor.dims:
            size = dims[d.name]
            if size < d.low or (d.high is not None and size > d.high):
                raise WrongUsage(f"size {d.name}: expected {d.low}..{d.high or ''}, got {size}")
        for n, name in enumerate(users):
            if name is not None:
                _check_sizes(n, buffers[name], tensors[name], dims)
        return tensors, dims


def _check(n: int, want: Buffer, given: Any, dims: dict[str, int]) -> None:
    """Raise unless given has want's type and rank; note the sizes it gives to dims."""
    if not isinstance(given, torch.Tensor):
        raise WrongUsage(f"input {n}: expected a tensor, got {type(given).__name__}")
    if str(given.dtype) != f"torch.{want.dtype.torch}" or given.dim() != len(want.shape):
        raise WrongUsage(
            f"input {n}: expected {want.dtype.torch} of {len(want.shape)} dimensions, "
            f"got {given.dtype} of {given.dim()}"
        )
    for size, node in zip(given.shape, want.shape, strict=True):
        if node.op == "dim":
            dims.setdefault(node.name, int(size))


def _check_sizes(n: int, want: Buffer, given: torch.Tensor, dims: Mapping[str, int]) -> None:
    expected = tuple(size_of(s, dims) for s in want.shape)
    if tuple(given.shape) != expected:
        raise WrongUsage(f"input {n}: expected the shape {expected}, got {tuple(given.shape)}")


def size_of(n: Node, dims: Mapping[str, int]) -> int:
    """The value of a size."""
    from rift_compiler.interpret import Evaluator

    return n.value if n.op == "const" else Evaluator({}, dims).number(n)


def compile(
    fn_or_module: Callable[..., Any],
    example_inputs: Sequence[Any],
    target: str = "cpu",
    dynamic: Dynamic = None,
    frozen: bool = False,
) -> Compiled:
    """Compile a function or nn.Module for inputs like example_inputs.

    example_inputs: the positional inputs, tensors of any shape and of types bool, uint8, int8,
    int16, int32, int64, float16, bfloat16, float32, float64; numbers among them are fixed at the
    values given. The result takes the same inputs, contiguous or not, and returns the same
    structure of outputs, of the same shapes and types; it computes what eval-mode eager PyTorch
    computes under no_grad. target: cpu, or sm_80, sm_89, sm_90a, sm_120a. dynamic: sizes that may
    change from call to call, by input name and dimension: {"x": {1: "seq"}}. frozen: parameters
    will not change any more: on the CPU, what depends on them alone (weights in the order of the
    lanes) is computed once. Writes that PyTorch counts are seen even so; `weight.data.mul_(2)` is
    not counted.

    Raises Unsupported for whatever is not supported: the op, the argument, the source line. A
    model that fails on example_inputs raises its own error.
    """
    traced = trace(fn_or_module, example_inputs, dynamic)
    lowered = lower(traced)
    hints = _hints(traced, lowered, example_inputs)
    constants = tuple(lowered.bound) if frozen else ()
    return Compiled(traced, lowered, lower_all(lowered.program, target, hints, constants))


def _hints(traced: TorchProgram, lowered: Lowered, inputs: Sequence[Any]) -> dict[str, int]:
    """What dims are in the example inputs: costs are counted at these sizes."""
    flat, _ = pytree.tree_flatten((tuple(inputs), {}))
    buffers = {b.name: b for b in lowered.program.inputs}
    hints: dict[str, int] = {}
    for name, given in zip(lowered.user_inputs, flat, strict=True):
        if name is not None:
            _check_dims(buffers[name], given, hints)
    return hints


def _check_dims(want: Buffer, given: torch.Tensor, hints: dict[str, int]) -> None:
    for size, node in zip(given.shape, want.shape, strict=True):
        if node.op == "dim":
            hints.setdefault(node.name, int(size))
