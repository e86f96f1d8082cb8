"""PyTorch to Torch IR: torch.export of a module or function, decomposed to the ops we lower."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.exc import UserError
from torch.export import ExportedProgram
from torch.fx.traceback import annotate_fn
from torch.utils import _pytree as pytree

from rift_compiler.errors import Unsupported
from rift_compiler.frontend.composites import few_overrides, table
from rift_compiler.frontend.refusal import model_line, not_one, quiet, refusal
from rift_compiler.frontend.sizes import (
    Dynamic,
    Spec,
    any_size,
    limits,
    no_new_conditions,
    specs,
    symbol_of,
)


@dataclass(frozen=True)
class TorchProgram:
    """An exported program and the names that its sizes have."""

    exported: ExportedProgram
    dims: Mapping[str, tuple[int, int | None]]  # dim name -> range
    symbols: Mapping[Any, str]  # torch's symbol -> dim name

    def __str__(self) -> str:
        lines = []
        for node in self.exported.graph.nodes:
            value = node.meta.get("val")
            typed = f": {describe(value)}" if value is not None else ""
            if node.op == "placeholder":
                lines.append(f"input {node.name}{typed}")
            elif node.op == "call_function":
                args = ", ".join(
                    [*map(str, node.args), *(f"{k}={v}" for k, v in node.kwargs.items())]
                )
                lines.append(f"{node.name}{typed} = {node.target}({args})    # {source_of(node)}")
            elif node.op == "output":
                lines.append(f"return {', '.join(map(str, node.args[0]))}")
        return "\n".join(lines) + "\n"


def describe(value: Any) -> str:
    """A fake tensor's type, as in float32[2, s0]."""
    if isinstance(value, torch.Tensor):
        sizes = ", ".join(map(str, value.shape))
        return f"{str(value.dtype).removeprefix('torch.')}[{sizes}]"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(describe, value))})"
    return str(value)


class Expression(torch.nn.Module):
    """A plain function as a module, since torch.export takes only modules."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        run = annotate_fn({})(function)  # else torch records no lines of it

        def forward(*args: Any) -> Any:
            return run(*args)

        self.named = _names_inputs(function)
        self.forward = functools.wraps(function)(forward) if self.named else forward


def _names_inputs(function: Callable[..., Any]) -> bool:
    """Whether each positional input has one name in the function's signature."""
    if not inspect.isfunction(function):
        return False
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    return all(kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for kind in kinds)


def trace(
    target: Callable[..., Any], inputs: Sequence[Any], dynamic: Dynamic = None
) -> TorchProgram:
    """Export a module or function for inputs of these shapes.

    dynamic names sizes that may change: {"x": {1: "seq"}}. Raises Unsupported for what torch.export
    cannot follow: data-dependent control flow, graph breaks, inputs that are no tensors or numbers.
    """
    from rift_compiler.frontend import ops  # noqa: F401  fills LOWERINGS

    module = target if isinstance(target, torch.nn.Module) else Expression(target)
    try:
        with torch.no_grad(), quiet(), few_overrides(), any_size(), warnings.catch_warnings():
            # torch's own: export copies its treespecs with deepcopy, which asks isinstance
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
            exported, sizes = _export(module, tuple(inputs), dynamic)
            with no_new_conditions(exported):
                exported = exported.run_decompositions(table())
    except Unsupported:
        raise
    except Exception as error:
        failure = _own_failure(target, inputs)
        if failure is not None:
            raise failure from None
        raise refusal(error) from error
    return _named(exported, sizes)


def _export(module: Any, inputs: tuple[Any, ...], dynamic: Dynamic) -> Any:
    """The exported program, and its inputs' dynamic sizes."""
    above_one: frozenset[str] = frozenset()
    while True:
        sizes = specs(module.forward, inputs, dynamic, above_one)
        nested = isinstance(module, Expression) and not module.named
        shapes = (sizes,) if nested and sizes is not None else sizes
        try:
            return torch.export.export(module, inputs, dynamic_shapes=shapes), sizes
        except UserError as error:
            names = not_one(str(error)) - above_one
            if not names:
                raise
            above_one |= names


def _named(exported: ExportedProgram, sizes: Sequence[Spec] | None) -> TorchProgram:
    """Give torch's size symbols the names of the dims they come from."""
    symbols: dict[Any, str] = {}
    dims: dict[str, tuple[int, int | None]] = {}
    users = exported.graph_signature.user_inputs
    by_name = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
    for name, spec in zip(users, sizes or (), strict=False):
        value = by_name[str(name)].meta["val"] if str(name) in by_name else None
        for position, d in spec.items():
            size = value.shape[position] if value is not None else 0
            symbol = symbol_of(size)
            if symbol is None:
                raise Unsupported(f"dynamic size {d.__name__}: the model fixes it to {size}")
            if symbol not in symbols:  # else the model makes two sizes equal: the first names both
                symbols[symbol] = d.__name__
                dims[d.__name__] = limits(exported, symbol)
    return TorchProgram(exported, dims, symbols)


def source_of(node: torch.fx.Node) -> str:
    """The model's own line that made a node: file:line, outside of torch where there is one."""
    return model_line(node.meta.get("stack_trace") or "") or "?"


def _own_failure(target: Callable[..., Any], inputs: Sequence[Any]) -> Exception | None:
    """The error of the model itself on these inputs, if it has one: then that is the answer."""
    copies = pytree.tree_map_only(torch.Tensor, torch.clone, tuple(inputs))
    try:
        with torch.no_grad():
            target(*copies)
    except Exception as error:
        return error
    return None
