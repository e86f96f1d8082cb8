"""What `rift compile` shows of a program: its kernels' predicted costs, and its error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from rift_compiler.api import Compiled
from rift_compiler.cost import cost
from rift_compiler.expr import walk
from rift_compiler.fuse import plain_schedule
from rift_compiler.nest import nest
from rift_compiler.pipeline import Stages
from rift_compiler.tensor_ir import type_text


@dataclass(frozen=True)
class KernelRow:
    """One kernel: what it makes, how many folds it does, and its predicted cost."""

    name: str
    makes: str
    folds: int
    operations: float
    bytes_read: float
    bytes_written: float


@dataclass(frozen=True)
class Error:
    """The largest absolute difference of an output from eager PyTorch's, and where."""

    absolute: float
    where: str


def kernel_rows(stages: Stages) -> list[KernelRow]:
    """A row for each kernel, costs counted on its plain schedule."""
    rows = []
    for k in stages.loop.kernels:
        counted = cost(nest(k, plain_schedule(k)), {})
        folds = {n for s in k.stores for n in walk(s.value) if n.op in ("fold", "scan")}
        makes = ", ".join(f"{s.buffer.name} {type_text(s.buffer)}" for s in k.stores)
        rows.append(
            KernelRow(
                k.name, makes, len(folds), counted.operations,
                counted.bytes_read, counted.bytes_written,
            )
        )  # fmt: skip
    return rows


def largest_error(made: Compiled, function: Callable[..., Any], inputs: Sequence[Any]) -> Error:
    """Run both on the example inputs. Raises nothing for a difference: the caller shows it."""
    with torch.no_grad():
        ours, _ = pytree.tree_flatten(made(*inputs))
        theirs, _ = pytree.tree_flatten(function(*inputs))
    worst = Error(0.0, "every output")
    for n, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(a, torch.Tensor) and a.numel():
            gap = (a.double() - b.double()).abs()
            gap = torch.where((a == b) | (a.isnan() & b.isnan()), 0.0, gap)
            if gap.max().item() > worst.absolute or gap.isnan().any():
                worst = Error(gap.max().item(), f"output {n}")
    return worst
