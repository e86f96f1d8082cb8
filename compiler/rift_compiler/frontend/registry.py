"""Which function lowers which aten op. A lowering names every argument of the op's schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
LOWERINGS: dict[str, Callable[..., Any]] = {}


def lowers(*ops: str) -> Callable[[F], F]:
    """Register a lowering for ops such as aten.add.Tensor.

    It is called with the builder and every argument of the schema by name, so that an argument
    can be missed only by a lowering that does not run; tests hold that each one is also used.
    """

    def register(function: F) -> F:
        for op in ops:
            assert op not in LOWERINGS, op
            LOWERINGS[op] = function
        return function

    return register
