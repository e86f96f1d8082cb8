"""Which ops torch takes apart while it exports, and how: all that have no lowering of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._export.utils import _collect_all_valid_cia_ops
from torch.export import exported_program

from rift_compiler.frontend import ops  # noqa: F401  fills LOWERINGS
from rift_compiler.frontend.decompose import DECOMPOSITIONS
from rift_compiler.frontend.registry import LOWERINGS


@functools.cache
def _composites() -> frozenset[Any]:
    """The ops that are defined by others, CompositeImplicitAutograd in torch's words."""
    return frozenset(_collect_all_valid_cia_ops())


@functools.cache
def _overridden() -> frozenset[Any]:
    """The composite ops that torch shall leave to us; every other one it runs as eager does."""
    return frozenset(o for o in _composites() if str(o) in LOWERINGS or o in DECOMPOSITIONS)


@functools.cache
def table() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions for everything that has no lowering of its own; ours come first."""
    known = {op: fn for op, fn in decomposition_table.items() if hasattr(op, "_schema")}
    known |= torch.export.default_decompositions().items()  # type: ignore[no-untyped-call]
    ours = {op for op in known if str(op) in LOWERINGS}
    return {op: fn for op, fn in known.items() if op not in ours | _composites()} | DECOMPOSITIONS


@contextmanager
def few_overrides() -> Iterator[None]:
    """Within, torch overrides only the composite ops that it must.

    Otherwise each export looks for all of them twice and overrides all 525: a whole second.
    """
    names, name = vars(exported_program), "_collect_all_valid_cia_ops"
    before, names[name] = names[name], lambda: set(_overridden())
    try:
        yield
    finally:
        names[name] = before
