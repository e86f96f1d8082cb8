"""PyTorch to Torch IR: torch.export of a module or function, decomposed to the ops we lower."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim, ExportedProgram
from torch.fx.traceback import annotate_fn
from torch.utils import _pytree as pytree

from rift_compiler.errors import Unsupported
from rift_compiler.frontend.composites import few_overrides, table
from rift_compiler.frontend.refusal import model_line, quiet, refusal

Dynamic = Mapping[str, Mapping[int, str]] | None  # input name -> {dimension: dim name}


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
                args = ", ".join([*map(str, node.args), *(f"{k}={v}" for k, v in node.kwargs.items())])
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
        self.function = annotate_fn({})(function)  # else torch records no lines of it

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def trace(
    target: Callable[..., Any], inputs: Sequence[Any], dynamic: Dynamic = None
) -> TorchProgram:
    """Export a module or function for inputs of these shapes.

    dynamic names sizes that may change: {"x": {1: "seq"}}. Raises Unsupported for what torch.export
    cannot follow: data-dependent control flow, graph breaks, inputs that are no tensors or numbers.
    """
    from rift_compiler.frontend import ops  # noqa: F401  fills LOWERINGS

    module = target if isinstance(target, torch.nn.Module) else Expression(target)
    shapes = _dynamic_shapes(target, inputs, dynamic)
    try:
        with torch.no_grad(), quiet(), few_overrides(), warnings.catch_warnings():
            # torch's own: export copies its treespecs with deepcopy, which asks isinstance
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)`", FutureWarning)
            exported = torch.export.export(module, tuple(inputs), dynamic_shapes=shapes)
            exported = exported.run_decompositions(table())
    except Unsupported:
        raise
    except Exception as error:
        failure = _own_failure(target, inputs)
        if failure is not None:
            raise failure from None
        raise refusal(error) from error
    return _named(exported, shapes)


def _dynamic_shapes(target: Any, inputs: Sequence[Any], dynamic: Dynamic) -> Any:
    if not dynamic:
        return None
    forward = target.forward if isinstance(target, torch.nn.Module) else target
    names = list(forward.__code__.co_varnames[: forward.__code__.co_argcount])
    names = names[1:] if names[:1] == ["self"] else names
    unknown = sorted(set(dynamic) - set(names[: len(inputs)]))
    if unknown:
        raise Unsupported(f"dynamic sizes of {', '.join(unknown)}: inputs are {', '.join(names)}")
    dims = {d: Dim(d, min=1) for sizes in dynamic.values() for d in sizes.values()}
    specs = tuple({n: dims[d] for n, d in dynamic.get(name, {}).items()} for name in names[: len(inputs)])
    return specs if isinstance(target, torch.nn.Module) else (specs,)


def _named(exported: ExportedProgram, shapes: Any) -> TorchProgram:
    """Give torch's size symbols the names of the dims they come from."""
    symbols: dict[Any, str] = {}
    dims: dict[str, tuple[int, int | None]] = {}
    flat = [s for s in (shapes or ())]
    flat = list(flat[0]) if len(flat) == 1 and isinstance(flat[0], tuple) else flat
    users = exported.graph_signature.user_inputs
    by_name = {n.name: n for n in exported.graph.nodes if n.op == "placeholder"}
    for name, spec in zip(users, flat, strict=False):
        value = by_name[str(name)].meta["val"] if str(name) in by_name else None
        for position, d in (spec or {}).items():
            size = value.shape[position] if value is not None else 0
            symbol = getattr(getattr(size, "node", None), "expr", None)
            if symbol is None or not symbol.is_Symbol:
                raise Unsupported(f"dynamic size {d.__name__}: the model fixes it to {size}")
            symbols[symbol] = d.__name__
            low, high = _range(exported, symbol)
            dims[d.__name__] = (low, high)
    return TorchProgram(exported, dims, symbols)


def _range(exported: ExportedProgram, symbol: Any) -> tuple[int, int | None]:
    limits = exported.range_constraints[symbol]
    high = int(limits.upper) if limits.upper.is_Integer and int(limits.upper) < 2**31 else None
    return max(int(limits.lower), 1), high


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
