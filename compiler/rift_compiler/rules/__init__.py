"""Rewrite rules of Loop IR, one a file. Each offers another form of a kernel; cost chooses."""

from __future__ import annotations

from rift_compiler.rules.factor_out import FACTOR_OUT
from rift_compiler.rules.mean_of_sum import MEAN_OF_SUM
from rift_compiler.rules.rule import Rule
from rift_compiler.rules.twist import TWIST

# In the order they are tried; see passes.improve.
RULES: tuple[Rule, ...] = (FACTOR_OUT, MEAN_OF_SUM, TWIST)

__all__ = ["RULES", "Rule"]
