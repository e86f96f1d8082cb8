"""Measure ahead of time what torch.compile(backend="rift") will be asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from rift.errors import Failed
from rift_compiler import torch_backend
from rift_compiler.dispatch import Dispatcher
from rift_compiler.sources import Source, UserError
from rift_compiler.trials import Trial


def tune(
    source: Source,
    threads: Sequence[int],
    inductor: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Trial]:
    """Run a source once for each number of threads, every graph of it measured and recorded.

    Raises Failed where Dynamo captures no graph, and UserError for what the source itself raises.
    """
    found: list[Dispatcher] = []

    def backend(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        run = torch_backend.rift(
            module, inputs, options={"dispatch": "again", "inductor": inductor}
        )
        found.extend([run] if isinstance(run, Dispatcher) else [])
        return run

    _mark_dynamic(source)
    torch._dynamo.reset()
    compiled = torch.compile(source.function, backend=backend)
    for count in threads:
        progress(f"measuring with {count} threads")
        with torch.no_grad(), _threads(count):
            try:
                compiled(*source.inputs)
            except Exception as error:
                raise UserError(error) from error
    if not found:
        raise Failed("nothing to measure: Dynamo captured no graph of it")
    return [trial for run in found for trial in run.taken]


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _mark_dynamic(source: Source) -> None:
    """Tell Dynamo which sizes may change."""
    function = source.function
    forward = function.forward if isinstance(function, torch.nn.Module) else function
    names = list(inspect.signature(forward).parameters) if source.dynamic else []
    for name, dims in source.dynamic.items():
        for dim in dims:
            torch._dynamo.mark_dynamic(source.inputs[names.index(name)], dim)
