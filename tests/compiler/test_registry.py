"""Every lowering takes all arguments of its op's schema, by name, and uses each."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import pytest
import torch

from rift_compiler.frontend import ops  # noqa: F401  fills LOWERINGS
from rift_compiler.frontend.registry import LOWERINGS

FUNCTIONS = {op: inspect.unwrap(function) for op, function in LOWERINGS.items()}
READS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "STORE_FAST_LOAD_FAST")


def schema(op: str) -> list[str]:
    """The names of an op's arguments as lowerings have them. Fails where torch has no such op."""
    library, name, overload = op.split(".")
    found = getattr(getattr(getattr(torch.ops, library), name), overload)
    return ["x" if a.name == "self" else a.name for a in found._schema.arguments]


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize("op", FUNCTIONS)
def test_takes_what_the_schema_has(op: str) -> None:
    taken, names = parameters(FUNCTIONS[op]), schema(op)
    if any(p.kind is p.VAR_POSITIONAL for p in taken):  # an elementwise row, registered by arity
        return
    if FUNCTIONS[op] is not LOWERINGS[op]:  # an elementwise row: by position
        assert len(taken) == len(names)
        return
    builder, *rest = taken
    assert builder.name == "b"
    if all(p.kind is not p.VAR_KEYWORD for p in rest):
        assert {p.name for p in rest} >= set(names)
    assert {p.name for p in rest if p.default is p.empty and p.kind is not p.VAR_KEYWORD} <= {
        *names
    }


@pytest.mark.parametrize("op", FUNCTIONS)
def test_uses_what_it_takes(op: str) -> None:
    assert unused(FUNCTIONS[op]) == []


def unused(function: Callable[..., Any]) -> list[str]:
    """The parameters that are never read, other than those whose `del` has a comment."""
    reads: set[str] = set()
    for code in codes(function.__code__):
        for i in dis.get_instructions(code):
            if i.opname.startswith(READS):
                reads |= {*i.argval} if isinstance(i.argval, tuple) else {i.argval}
    missing = [p.name for p in parameters(function) if p.name not in reads | {"b"}]
    return [n for n in missing if n not in commented(function)]


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from codes(inner)


def commented(function: Callable[..., Any]) -> set[str]:
    """What a function deletes in lines that say why."""
    lines = [li.strip() for li in inspect.getsource(function).splitlines()]
    deletions = [li.removeprefix("del ").split("  # ") for li in lines if li.startswith("del ")]
    return {n.strip() for names, *why in deletions if why for n in names.split(",")}


def test_the_check_itself() -> None:
    def ignores(b: Any, x: Any, alpha: Any) -> Any:
        return x

    def silent(b: Any, x: Any, alpha: Any) -> Any:
        del alpha
        return lambda: x

    def excused(b: Any, x: Any, alpha: Any) -> Any:
        del alpha  # torch's result has it
        return lambda: x

    assert [unused(f) for f in (ignores, silent, excused)] == [["alpha"], ["alpha"], []]
