"""Translation validation: every step of one compilation, run on its inputs and compared.

Tensor IR is run first, by its interpreter: that gives the value of every tensor, for which PyTorch
itself vouches where it comes out. Every rule that was taken names the kernels before and after it;
both must make the same tensors, and so must the final kernels, as Loop IR, as Tile IR (for a GPU;
by its interpreter) or as compiled C++ (for the CPU).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch
from torch.utils import _pytree as pytree

from rift_compiler import interpret_tile, run_cpu
from rift_compiler.agree import ALLOWED, difference
from rift_compiler.api import Compiled
from rift_compiler.interpret import value_of
from rift_compiler.loop_ir import Kernel
from rift_compiler.tensor_ir import Buffer

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Checked:
    """One comparison: what was run, which tensor, the largest difference, and what is allowed.

    Both are relative to the tensor's largest finite value; inf where NaN or inf disagree.
    """

    stage: str
    subject: str
    difference: float
    allowed: float

    @property
    def right(self) -> bool:
        return self.difference <= self.allowed


def validate(
    made: Compiled, function: Callable[..., Any], inputs: Sequence[Any]
) -> Iterator[Checked]:
    """Every stage of a compilation, on its inputs. Slow: interpreters hold whole index spaces."""
    flat, _ = pytree.tree_flatten((tuple(inputs), {}))
    tensors, dims = made.bind(flat)
    known = {name: to_numpy(t) for name, t in tensors.items()}
    for d in made.stages.tensor.defs:
        known[d.buffer.name] = value_of(d.axes, d.value, known, dims)
    with torch.no_grad():
        eager = function(*inputs)
    yield from _eager(made, eager, known)
    for step in made.stages.steps:
        if step.taken:
            for when, kernels in (
                ("before", step.kernels_before),
                ("after", step.kernels_after),
            ):
                yield from _loop(f"{step.rule}, {when}", kernels, known, dims)
    yield from _loop("loop", made.stages.loop.kernels, known, dims)
    yield from _generated(made, tensors, known, dims)


def _eager(made: Compiled, eager: Any, known: Mapping[str, Array]) -> Iterator[Checked]:
    """Tensor IR's outputs against eager PyTorch's."""
    want, _ = pytree.tree_flatten(eager)
    for out, w in zip(made.lowered.outputs, want, strict=True):
        if isinstance(out, Buffer):
            yield _compared("tensor", out, known[out.name], to_numpy(w))


def _loop(
    stage: str, kernels: Iterable[Kernel], known: Mapping[str, Array], dims: Mapping[str, int]
) -> Iterator[Checked]:
    """Kernels by the interpreter; parts of folds, which only they know, go from one to the next."""
    held = dict(known)
    for k in kernels:
        for s in k.stores:
            got = value_of(k.axes[: len(s.buffer.shape)], s.value, held, dims)
            if s.buffer.name in known:
                yield _compared(stage, s.buffer, got, known[s.buffer.name])
            else:
                held[s.buffer.name] = got


def _generated(
    made: Compiled,
    tensors: Mapping[str, torch.Tensor],
    known: Mapping[str, Array],
    dims: Mapping[str, int],
) -> Iterator[Checked]:
    """What the last stage makes: C++ that is run, or Tile IR for a GPU, interpreted."""
    stages = made.stages
    if stages.launches:
        stage, held = "tile", dict(known)
        for k in stages.tiles:
            held |= interpret_tile.run(k, held, dims)
    else:
        stage = "cpp"
        out = run_cpu.run_all(run_cpu.load(stages), stages, tensors, dims)
        held = {name: to_numpy(t) for name, t in out.items()}
    for k in stages.tiles:
        for b in k.outs:
            if b.name in known:
                yield _compared(stage, b, held[b.name], known[b.name])


def to_numpy(t: torch.Tensor) -> Array:
    """A tensor as the interpreters hold it: bf16 as float32."""
    t = t.detach().cpu()
    return t.float().numpy() if t.dtype is torch.bfloat16 else t.numpy()


def _compared(stage: str, b: Buffer, got: Array, want: Array) -> Checked:
    """Integers are to be equal; see agree.py for the rest."""
    allowed = ALLOWED.get(getattr(torch, b.dtype.torch), 0.0)
    ours, theirs = torch.as_tensor(got), torch.as_tensor(want).reshape(got.shape)
    return Checked(stage, b.name, difference(ours, theirs), allowed)
