"""A captured graph as a module that torch.export follows, node by node."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.traceback import preserve_node_meta


class GraphRun(torch.nn.Module):
    """Tensors in; the graph's numbers are given, or read from a tensor's shape.

    derived: a number's position among the graph's inputs: the tensor's position, the dimension.
    Runs node by node, so that each keeps the line of the model that it came from.
    """

    def __init__(
        self,
        graph: fx.GraphModule,
        tensors: Sequence[int],
        numbers: Mapping[int, int],
        derived: Mapping[int, tuple[int, int]],
    ) -> None:
        super().__init__()
        self.graph, self.tensors, self.numbers, self.derived = graph, tensors, numbers, derived
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = [f"t{n}" for n in tensors]

        def forward(*given: torch.Tensor) -> Any:
            with preserve_node_meta():
                return fx.Interpreter(graph).run(*self._inputs(given))

        forward.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, kind) for name in names]
        )
        self.forward = forward

    def _inputs(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        given: dict[int, Any] = dict(zip(self.tensors, tensors, strict=True))
        given |= {n: given[place].shape[dim] for n, (place, dim) in self.derived.items()}
        given |= self.numbers
        return [given[n] for n in range(len(given))]
