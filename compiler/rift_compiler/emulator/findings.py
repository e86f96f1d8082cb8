"""What a launch found and counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# As enum Kind of runtime/base.h: name, and the check it belongs to (None: always on).
KINDS: tuple[tuple[str, str | None], ...] = (
    ("race", "races"),
    ("uninitialised", "uninitialised"),
    ("in-flight", "uninitialised"),
    ("bounds", "bounds"),
    ("alignment", "bounds"),
    ("barrier", "barriers"),
    ("deadlock", None),
    ("proxy-fence", "async"),
    ("async-wait", "async"),
    ("trap", None),
    ("limit", None),
    ("unsupported", None),
    ("counters", "counters"),
)
CHECKS = ("races", "uninitialised", "bounds", "barriers", "async", "counters")
# Checks whose code is in the kernel's C++ itself.
IN_CODE = ("races", "uninitialised", "async", "counters")


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. `kind` is a name of KINDS; `line` counts the PTX's lines from 1.

    `source` is the CUDA or Python place (file:line) where the PTX says it; `text` the PTX.
    `other_line` is the other access of a race; `count` how often it was seen.
    """

    kind: str
    line: int
    message: str
    text: str
    source: str | None
    other_line: int | None
    other_source: str | None
    count: int

    def __str__(self) -> str:
        place = f"{self.source} (PTX line {self.line})" if self.source else f"PTX line {self.line}"
        times = f" [{self.count} times]" if self.count > 1 else ""
        other = f"; line {self.other_line} is {self.other_source}" if self.other_source else ""
        return f"{self.kind}: {place}: {self.message}{other}{times}\n    {self.text}"


@dataclass(frozen=True)
class LineCount:
    """What one PTX line did to memory, in accesses of whole warps.

    `wavefronts` are passes over the banks of shared memory, `ideal` those without conflicts;
    `sectors` are 32-byte pieces of global memory.
    """

    line: int
    source: str | None
    text: str
    accesses: int
    wavefronts: int
    ideal: int
    sectors: int


@dataclass(frozen=True)
class Counts:
    """`executed` by instruction class, in thread instructions; memory by PTX line."""

    executed: Mapping[str, int]
    lines: tuple[LineCount, ...]


@dataclass(frozen=True)
class Result:
    """Of a launch. Building is translating and compiling; `cpu_seconds` is of the run alone."""

    findings: tuple[Finding, ...]
    counts: Counts | None
    build_seconds: float
    run_seconds: float
    cpu_seconds: float
