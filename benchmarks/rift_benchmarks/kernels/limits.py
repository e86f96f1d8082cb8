"""The machine's limits, FMA peak by type and memory traffic by level, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PATTERNS = ("read", "write", "copy", "triad")
RAM_BYTES = 1_200_000_000  # all arrays together: beyond every cache that is not shared with others
MAIN_MEMORY = "RAM"


@dataclass(frozen=True)
class Limits:
    """Of some threads: 1e9 operations/s by type, and 1e9 bytes/s by level and pattern.

    A type without instructions of its own is missing. level_bytes: what the arrays took together.
    """

    threads: int
    gflops: Mapping[str, float]
    gb_per_s: Mapping[str, Mapping[str, float]]
    level_bytes: Mapping[str, int]

    def peak(self, dtype: str) -> float:
        """Operations a second at most: in the type's own instructions, or converted to f32."""
        return 1e9 * max(self.gflops.get(dtype, 0.0), self.gflops["f32"])

    def bandwidth(self, level: str, read: float, written: float) -> float:
        """Bytes a second at most at a level, for this mix of reads and writes."""
        rates = self.gb_per_s[level]
        mostly_read = written < 0.1 * (read + written)
        return 1e9 * (rates["read"] if mostly_read else max(rates["copy"], rates["triad"]))

    def bound(
        self, dtype: str, operations: float, level: str, read: float, written: float
    ) -> tuple[Literal["operations", "bytes"], float]:
        """What bounds a problem, and the seconds that it takes at that limit."""
        computing = operations / self.peak(dtype)
        moving = (read + written) / self.bandwidth(level, read, written)
        return ("operations", computing) if computing >= moving else ("bytes", moving)


def best(a: Limits, b: Limits) -> Limits:
    """The better of two measurements of the same threads, figure by figure."""
    rates = {
        level: {p: max(rate, b.gb_per_s[level][p]) for p, rate in a.gb_per_s[level].items()}
        for level in a.gb_per_s
    }
    gflops = {t: max(v, b.gflops[t]) for t, v in a.gflops.items()}
    return Limits(a.threads, gflops, rates, a.level_bytes)


def caches(root: Path = Path("/")) -> dict[str, int]:
    """Bytes of L2 (of one core) and L3, as Linux tells; a level it does not tell is missing."""
    found: dict[str, int] = {}
    for index in sorted((root / "sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_read(index / name) for name in ("level", "type", "size"))
        if level in ("2", "3") and kind != "Instruction" and size.endswith("K"):
            found[f"L{level}"] = int(size[:-1]) * 1024
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def level_of(working_set: float, threads: int, known: Mapping[str, int]) -> str:
    """The smallest level that holds this many bytes: each thread has an L2, all share an L3."""
    if working_set <= known.get("L2", 0) * threads:
        return "L2"
    return "L3" if working_set <= known.get("L3", 0) else MAIN_MEMORY


def sizes(known: Mapping[str, int], threads: int, ram_bytes: int = RAM_BYTES) -> dict[str, int]:
    """Bytes to measure each level with: half of a cache, well above the level below."""
    wanted = {"L2": known.get("L2", 0) * threads // 2, "L3": known.get("L3", 0) // 2}
    return {level: n for level, n in wanted.items() if n} | {MAIN_MEMORY: ram_bytes}
