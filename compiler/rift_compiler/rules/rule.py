"""What a rule is: a named change of one expression, with the reason that it is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rift_compiler.expr import Node


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite of Loop IR expressions.

    change gets a kernel's whole value, and returns it rewritten wherever the rule applies (the
    same object where it applies nowhere). law: why both sides are equal, in
    real arithmetic: rounding may differ. pays: when it is worth it.
    """

    name: str
    change: Callable[[Node], Node]
    law: str
    pays: str
    source: str
