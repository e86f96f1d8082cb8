"""Layer shapes of the models that the suite takes its problems from (their config.json files)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A decoder layer: widths, heads and keys' heads; head_norm: q and k are normalised."""

    name: str
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head: int
    eps: float
    head_norm: bool = False

    @property
    def gemms(self) -> dict[str, tuple[int, int]]:
        """The layer's matrices: (outputs, inputs)."""
        return {
            "q": (self.heads * self.head, self.hidden),
            "o": (self.hidden, self.heads * self.head),
            "up": (self.inner, self.hidden),
            "down": (self.hidden, self.inner),
        }


SMOLLM2 = Shape("smollm2-135m", 576, 1536, 9, 3, 64, 1e-5)
QWEN3 = Shape("qwen3-0.6b", 1024, 3072, 16, 8, 128, 1e-6, head_norm=True)
GEMMA3 = Shape("gemma3-1b", 1152, 6912, 4, 1, 256, 1e-6, head_norm=True)
SHAPES = (SMOLLM2, QWEN3, GEMMA3)
