"""A problem's three ways: torch eager, TorchInductor, and the compiler's kernel."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from rift_benchmarks.kernels.problems import Problem
from rift_compiler.compile_graph import Callee, Refused, compile_graph
from rift_compiler.torch_graph import Graph, graph_of


@dataclass
class Ways:
    """What can be run, why the rest cannot, and how long each took to compile."""

    run: dict[str, Callee] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    compile_s: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Captured:
    """A function as one graph, and which of its inputs the graph takes, in what order."""

    graph: Graph
    order: tuple[int, ...]

    def inputs(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The graph's inputs."""
        return [given[n] for n in self.order]


def capture(function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> Captured:
    """The graph that torch.compile makes of a function, so that records fit what users run."""
    found: list[Captured] = []

    def backend(module: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        graph = graph_of(module)

        def run(*given: Any) -> Any:
            order = [next(n for n, x in enumerate(inputs) if x is g) for g in given]
            found.append(Captured(graph, tuple(order)))
            return module.forward(*given)

        return run

    torch._dynamo.reset()
    torch.compile(function, backend=backend, dynamic=False)(*inputs)
    assert len(found) == 1, "a problem of the suite is one graph"
    return found[0]


def ours(captured: Captured, inputs: Sequence[torch.Tensor], into: Ways) -> None:
    """The compiler's kernel, or why there is none."""
    started = time.perf_counter()
    made = compile_graph(captured.graph, captured.inputs(inputs))
    into.compile_s["ours"] = time.perf_counter() - started
    if isinstance(made, Refused):
        into.reasons["ours"] = made.reason
        return
    in_order = captured.order == tuple(range(len(inputs)))
    kernel, order = made, captured.order
    into.run["ours"] = kernel if in_order else lambda *given: kernel(*[given[n] for n in order])


def stock(
    problem: Problem, inputs: Sequence[torch.Tensor], threads: int, inductor: bool, into: Ways
) -> None:
    """Eager, and Inductor compiled for this number of threads, or why it is not there."""
    into.run["eager"] = problem.function
    into.run.pop("inductor", None)
    into.reasons.pop("inductor", None)
    if not inductor:
        into.reasons["inductor"] = "not asked for"
        return
    from torch._inductor import config

    started = time.perf_counter()
    torch._dynamo.reset()
    compiled = torch.compile(problem.function, backend="inductor", dynamic=False)
    try:
        with config.patch({"cpp.threads": threads}):  # a part of its cache's key
            compiled(*inputs)
    except Exception as error:
        into.reasons["inductor"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return
    into.run["inductor"] = compiled
    into.compile_s["inductor"] = time.perf_counter() - started
