"""A graph that Dynamo captured, as a problem: what it computes, in words that only that changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from rift_compiler.frontend.sizes import symbol_of


@dataclass(frozen=True)
class Graph:
    """A captured graph. Its inputs are tensors and sizes; a size that is the extent of a tensor
    is `derived`: our kernels read it there, and are compiled for any."""

    stock: fx.GraphModule
    tensors: tuple[int, ...]  # positions among the inputs
    numbers: tuple[int, ...]
    derived: Mapping[int, tuple[int, int]]  # number's position: tensor's position, dimension
    dynamic: Mapping[int, Mapping[int, str]]  # tensor's position: dimension: name
    orders: tuple[tuple[int, ...] | None, ...]  # each output's dimensions, outermost in memory
    aliases: str | None  # which output shares memory with what, if one does
    key: str


def graph_of(module: fx.GraphModule) -> Graph:
    """Read a captured graph."""
    places = [n for n in module.graph.nodes if n.op == "placeholder"]
    values = [n.meta.get("example_value") for n in places]
    tensors = tuple(n for n, v in enumerate(values) if isinstance(v, torch.Tensor))
    symbols, dynamic = _symbols(values)
    numbers = tuple(n for n in range(len(values)) if n not in tensors)
    derived = {n: symbols[s] for n in numbers if (s := symbol_of(values[n])) in symbols}
    outputs = _outputs(module)
    orders = tuple(_order(v) for v in outputs)
    aliases = _aliases([values[n] for n in tensors], outputs)
    key = hashlib.sha256(text(module).encode()).hexdigest()
    return Graph(module, tensors, numbers, derived, dynamic, orders, aliases, key)


def text(module: fx.GraphModule) -> str:
    """The graph with nodes numbered: no names, no files, so that one problem has one text."""
    names: dict[fx.Node, str] = {}
    lines = []
    for n, node in enumerate(module.graph.nodes):
        names[node] = f"%{n}"
        given = [_plain(node.args, names), _plain(node.kwargs, names)]
        lines.append(f"%{n} = {node.op} {_target(module, node)} {' '.join(given)}")
    return "\n".join(lines)


def _target(module: fx.GraphModule, node: fx.Node) -> str:
    if node.op in ("placeholder", "output"):
        return ""
    if node.op == "get_attr":
        held: Any = module
        for part in str(node.target).split("."):
            held = getattr(held, part)
        if isinstance(held, torch.Tensor):
            return f"{held.dtype} {tuple(held.shape)}"
        return text(held) if isinstance(held, fx.GraphModule) else type(held).__name__
    if isinstance(node.target, str):
        return node.target
    return f"{getattr(node.target, '__module__', '')}.{_name(node.target)}"


def _name(target: Any) -> str:
    return str(getattr(target, "__qualname__", None) or target)


def _plain(value: Any, names: Mapping[fx.Node, str]) -> str:
    if isinstance(value, fx.Node):
        return names[value]
    if isinstance(value, list | tuple):
        return f"({' '.join(_plain(v, names) for v in value)})"
    if isinstance(value, dict):
        return f"{{{' '.join(f'{k}={_plain(v, names)}' for k, v in value.items())}}}"
    if isinstance(value, slice):
        return f"slice{_plain((value.start, value.stop, value.step), names)}"
    return _name(value) if callable(value) else repr(value)


def _symbols(values: Sequence[Any]) -> tuple[dict[Any, tuple[int, int]], dict[int, dict[int, str]]]:
    """The first place of each size symbol among the tensors, and the names of all places."""
    first: dict[Any, tuple[int, int]] = {}
    names: dict[int, dict[int, str]] = {}
    for n, value in enumerate(values):
        for d, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            symbol = symbol_of(size)
            if symbol is not None:
                first.setdefault(symbol, (n, d))
                names.setdefault(n, {})[d] = f"size_{list(first).index(symbol)}"
    return first, names


def _outputs(module: fx.GraphModule) -> list[Any]:
    node = next(n for n in module.graph.nodes if n.op == "output")
    made = node.args[0]
    flat = made if isinstance(made, list | tuple) else [made]
    return [v.meta.get("example_value") if isinstance(v, fx.Node) else v for v in flat]


def _hint(size: Any) -> int:
    return size if isinstance(size, int) else int(size.node.hint)


def _order(value: Any) -> tuple[int, ...] | None:
    """The dimensions of a dense output from outermost to innermost; None if they are in order."""
    if not isinstance(value, torch.Tensor):
        return None
    shape, strides = [_hint(s) for s in value.shape], [_hint(s) for s in value.stride()]
    order = tuple(sorted(range(len(shape)), key=lambda d: (-strides[d], shape[d] == 1, d)))
    expected = 1
    for d in reversed(order):
        if shape[d] != 1 and strides[d] != expected:
            return None  # not dense: an expanded or cut tensor
        expected *= shape[d]
    wide = [d for d in order if shape[d] != 1]
    return None if wide == sorted(wide) else order


def _aliases(inputs: Sequence[torch.Tensor], outputs: Sequence[Any]) -> str | None:
    """Which output is, in eager PyTorch, a view of an input or of another output."""
    seen = {_storage(t): "an input" for t in inputs}
    for n, value in enumerate(outputs):
        if isinstance(value, torch.Tensor):
            if _storage(value) in seen:
                return f"output {n} shares its memory with {seen[_storage(value)]}"
            seen[_storage(value)] = f"output {n}"
    return None


def _storage(t: torch.Tensor) -> int:
    return int(t.untyped_storage()._cdata)
