"""What `rift compile` is given: an expression, or a Python file, as a function and its inputs."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from rift.errors import Failed, WrongUsage

# Calls of these in an expression make its inputs.
CREATORS = frozenset(
    [
        "arange",
        "as_tensor",
        "empty",
        "eye",
        "full",
        "linspace",
        "ones",
        "rand",
        "randint",
        "randn",
        "randperm",
        "tensor",
        "zeros",
    ]
)
NAMES = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math}


class UserError(Failed):
    """The user's own code raised: its error, in Python's words."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Source:
    """Something to compile: a function or module, example inputs, and sizes that may change."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


def from_expression(text: str) -> Source:
    """A one-line expression: tensors it creates are inputs, nn modules it creates are fixed.

    Raises WrongUsage for text that is no expression, and UserError for what its own code raises.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise WrongUsage(f"-c: column {error.offset}: {error.msg}: {text.strip()}") from None
    split = _Split()
    body = split.visit(tree.body)
    if not split.inputs:
        raise WrongUsage("-c: the expression makes no tensor to be its input: torch.randn(2, 3)")
    names = [f"x{n}" for n in range(len(split.inputs))]
    head = ast.parse(f"lambda {', '.join(names)}: 0", mode="eval")
    assert isinstance(head.body, ast.Lambda)
    head.body.body = body
    code = compile(ast.fix_missing_locations(head), "<expression>", "eval")
    try:
        with torch.no_grad():
            scope = dict(NAMES)
            scope |= {f"m{n}": _eval(e, NAMES) for n, e in enumerate(split.modules)}
            inputs = tuple(_eval(e, NAMES) for e in split.inputs)
            function = eval(code, scope)
            function(*inputs)
    except Exception as error:
        raise UserError(error) from error
    for name in (n for n in scope if re.fullmatch(r"m\d+", n)):
        if isinstance(scope[name], torch.nn.Module):
            scope[name].eval()
    module = _Holder(function, [m for m in scope.values() if isinstance(m, torch.nn.Module)])
    return Source(module if len(module.held) else function, inputs)


class _Holder(torch.nn.Module):
    """An expression with the modules it uses, whose parameters become inputs of the program."""

    def __init__(self, function: Callable[..., Any], held: Sequence[torch.nn.Module]) -> None:
        super().__init__()
        self.held = torch.nn.ModuleList(held)
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


class _Split(ast.NodeTransformer):
    """Takes tensor creations and nn modules out of an expression."""

    def __init__(self) -> None:
        self.inputs: list[ast.expr] = []
        self.modules: list[ast.expr] = []

    def visit_Call(self, node: ast.Call) -> ast.AST:
        path = _dotted(node.func)
        if path[:-1] == ["torch"] and path[-1] in CREATORS:
            self.inputs.append(node)
            return ast.Name(f"x{len(self.inputs) - 1}", ast.Load())
        if path[:-1] in (["nn"], ["torch", "nn"]) and path[-1][0].isupper():
            self.modules.append(node)
            return ast.Name(f"m{len(self.modules) - 1}", ast.Load())
        return self.generic_visit(node)


def _dotted(e: ast.expr) -> list[str]:
    """torch.nn.Linear as its names; [] for anything else that can be called."""
    if isinstance(e, ast.Name):
        return [e.id]
    inner = _dotted(e.value) if isinstance(e, ast.Attribute) else []
    return [*inner, e.attr] if isinstance(e, ast.Attribute) and inner else []


def _eval(e: ast.expr, names: Mapping[str, Any]) -> Any:
    code = compile(ast.fix_missing_locations(ast.Expression(e)), "<expression>", "eval")
    return eval(code, dict(names))


def from_file(place: str, shapes: Sequence[str], sizes: Sequence[str]) -> Source:
    """model.py:NAME, with inputs from --shape, or from NAME() when it returns (model, inputs)."""
    path, _, name = place.rpartition(":")
    if not path or not name:
        raise WrongUsage(f"expected FILE.py:NAME, got {place!r}")
    made = _named(Path(path), name)
    needs_none = callable(made) and not isinstance(made, torch.nn.Module) and not _required(made)
    try:
        model = made() if needs_none else made
    except Exception as error:
        raise UserError(error) from error
    if isinstance(model, tuple) and len(model) == 2 and not shapes:
        return Source(_evaluated(model[0]), tuple(model[1]))
    if isinstance(model, tuple):
        model = model[0]
    if not callable(model):
        raise WrongUsage(f"{place} is no module or function: {type(model).__name__}")
    return _shaped(_evaluated(model), shapes, sizes)


def _named(path: Path, name: str) -> Any:
    if not path.is_file():
        raise WrongUsage(f"no such file: {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UserError(error) from error
    if not hasattr(module, name):
        raise WrongUsage(f"{path} has no {name}")
    return getattr(module, name)


def _evaluated(model: Any) -> Any:
    return model.eval() if isinstance(model, torch.nn.Module) else model


def _required(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        p.name
        for p in inspect.signature(function).parameters.values()
        if p.kind in kinds and p.default is p.empty
    ]


def _shaped(model: Any, shapes: Sequence[str], sizes: Sequence[str]) -> Source:
    forward = model.forward if isinstance(model, torch.nn.Module) else model
    given = dict(_shape(s) for s in shapes)
    hints = dict(_size(s) for s in sizes)
    names = list(inspect.signature(forward).parameters)
    unknown = sorted(set(given) - set(names))
    missing = [n for n in _required(forward) if n not in given]
    if unknown or missing:
        raise WrongUsage(
            f"inputs are {', '.join(names)}; "
            + (f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}")
            + " (--shape NAME=1,seq,2048[:dtype])"
        )
    inputs: list[Any] = []
    dynamic: dict[str, dict[int, str]] = {}
    for name in (n for n in names if n in given):
        dims, dtype = given[name]
        dynamic[name] = {n: d for n, d in enumerate(dims) if not d.isdigit()}
        inputs.append(_example([int(d) if d.isdigit() else hints.get(d, 128) for d in dims], dtype))
    return Source(model, tuple(inputs), {n: d for n, d in dynamic.items() if d})


def _shape(text: str) -> tuple[str, tuple[list[str], torch.dtype]]:
    found = re.fullmatch(r"(\w+)=([\w,]*)(?::(\w+))?", text)
    dtype = getattr(torch, found[3] or "float32", None) if found else None
    if not found or not isinstance(dtype, torch.dtype):
        raise WrongUsage(f"--shape: expected NAME=1,seq,2048[:float16], got {text!r}")
    return found[1], ([d for d in found[2].split(",") if d], dtype)


def _size(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not name or not value.isdigit():
        raise WrongUsage(f"--size: expected seq=128, got {text!r}")
    return name, int(value)


def _example(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=dtype)
    if dtype is torch.bool:
        return torch.rand(shape) < 0.5
    return torch.zeros(shape, dtype=dtype)  # a valid index of anything
