"""A compiled program as a torch op: one node in graphs of torch.compile and torch.export."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

from rift.errors import WrongUsage
from rift_compiler.api import Compiled, size_of
from rift_compiler.tensor_ir import Buffer

_torch_library: Any = torch.library  # whose types are not published in full
LIBRARY = _torch_library.Library("rift", "DEF")
_defined: dict[str, Compiled] = {}


def as_op(made: Compiled, name: str) -> Callable[..., Any]:
    """Register a program as torch.ops.rift.NAME and return that op: tensors in, a list of new
    tensors out. Nothing is copied but inputs that are not row-major.

    Raises WrongUsage for a name that is taken or no identifier, and for programs that an op cannot
    be: with sizes that may change, fixed numbers among the inputs, or outputs that are no tensors.
    """
    if not re.fullmatch(r"[a-z]\w*", name) or name in _defined:
        taken = "is taken" if name in _defined else "is no name: a-z, then letters, digits, _"
        raise WrongUsage(f"op rift::{name}: the name {taken}")
    why = _unfit(made)
    if why:
        raise WrongUsage(f"op rift::{name}: {why}")
    takes = ", ".join(f"Tensor x{n}" for n in range(len(made.lowered.user_inputs)))
    LIBRARY.define(f"{name}({takes}) -> Tensor[]")
    LIBRARY.impl(name, lambda *inputs: pytree.tree_leaves(made(*inputs)), "CPU")
    torch.library.register_fake(f"rift::{name}", _fake(made), lib=LIBRARY)
    _defined[name] = made
    op: Callable[..., Any] = getattr(torch.ops.rift, name).default
    return op


def _unfit(made: Compiled) -> str:
    if made.stages.launches:
        return f"compiled for {made.stages.target}, not for cpu"
    if made.stages.tensor.dims:
        return "its sizes may change; compile it for fixed sizes"
    if None in made.lowered.user_inputs:
        return "numbers among its inputs; only tensors can be"
    if not all(isinstance(o, Buffer) for o in made.lowered.outputs):
        return "outputs that are no tensors"
    return ""


def _fake(made: Compiled) -> Callable[..., list[torch.Tensor]]:
    """What the op makes of tensors without data: its outputs' shapes and types."""
    outputs = [
        (tuple(size_of(s, {}) for s in o.shape), getattr(torch, o.dtype.torch))
        for o in made.lowered.outputs
    ]
    buffers = {b.name: b for b in made.stages.tensor.inputs}
    wanted = [buffers[n] for n in made.lowered.user_inputs if n is not None]
    shapes = [tuple(size_of(s, {}) for s in b.shape) for b in wanted]

    def fake(*inputs: torch.Tensor) -> list[torch.Tensor]:
        for n, (given, shape) in enumerate(zip(inputs, shapes, strict=True)):
            if tuple(given.shape) != shape:
                raise WrongUsage(f"input {n}: expected the shape {shape}, got {tuple(given.shape)}")
        return [inputs[0].new_empty(shape, dtype=dtype) for shape, dtype in outputs]

    return fake
