"""How fast the PTX emulator runs a tensor-core matmul, plain and with every check.

measure(size, depth, repeats) -> Speed
"""

from __future__ import annotations

from rift_benchmarks.emulator.measure import Speed, measure

__all__ = ["Speed", "measure"]
