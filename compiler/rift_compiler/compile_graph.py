"""A captured graph to a callable of ours that takes what the graph takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rift.errors import RiftError
from rift_compiler.api import Compiled, compile
from rift_compiler.errors import Unsupported
from rift_compiler.frontend.graph_run import GraphRun
from rift_compiler.torch_graph import Graph

Callee = Callable[..., Any]


@dataclass(frozen=True)
class Refused:
    """Why there is no kernel of ours; lasting: the same would be refused again."""

    reason: str
    lasting: bool


def compile_graph(graph: Graph, inputs: Sequence[Any], any_size: bool = True) -> Callee | Refused:
    """Compile and build a graph. Sizes that Dynamo let vary may vary, if any_size.

    A failure of the compiler is an answer too: the graph can always run as it was.
    """
    given = [inputs[n].detach() for n in graph.tensors]
    dynamic = {f"t{n}": dims for n, dims in graph.dynamic.items()} if any_size else {}
    fixed = {n: inputs[n] for n in graph.numbers if not (any_size and n in graph.derived)}
    module = GraphRun(graph.stock, graph.tensors, fixed, graph.derived)
    try:
        made = compile(module, given, target="cpu", dynamic=dynamic or None).build()
    except Unsupported as error:
        return Refused(str(error), lasting=True)
    except (RiftError, OSError) as error:  # no C++ compiler, or a cache that cannot be written
        return Refused(str(error), lasting=False)
    except Exception as error:
        what = f"a defect of the compiler, please report it: {type(error).__name__}: {error}"
        return Refused(what, lasting=False)
    return _callee(made, graph)


def _callee(made: Compiled, graph: Graph) -> Callee:
    tensors, orders = graph.tensors, graph.orders
    all_tensors = not graph.numbers
    in_order = not any(orders)

    def run(*inputs: Any) -> Any:
        out = made(*inputs) if all_tensors else made(*[inputs[n] for n in tensors])
        return out if in_order else [_ordered(t, o) for t, o in zip(out, orders, strict=True)]

    return run


def _ordered(t: Any, order: tuple[int, ...] | None) -> Any:
    """The tensor with its dimensions in memory in this order, outermost first."""
    if order is None:
        return t
    back = [order.index(d) for d in range(len(order))]
    moved: torch.Tensor = t.permute(order).contiguous().permute(back)
    return moved
