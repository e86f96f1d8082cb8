"""The lowerings, by kind. Importing this package fills registry.LOWERINGS."""

from rift_compiler.frontend.ops import (
    contractions,
    convolution,
    creation,
    indexing,
    pointwise,
    pooling,
    reductions,
    scans,
    scatter,
    views,
)

__all__ = [
    "contractions",
    "convolution",
    "creation",
    "indexing",
    "pointwise",
    "pooling",
    "reductions",
    "scans",
    "scatter",
    "views",
]
