"""The result document of the kernels suite: plain data, one schema version, no NaN.

Times are seconds a call. A figure that cannot be known is null, never 0. docs/kernels.md says what
each means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from rift.errors import Failed
from rift_benchmarks.kernels.limits import Limits
from rift_compiler.measure import Timing

SCHEMA = "rift.bench.kernels/1"
WAYS = ("eager", "inductor", "ours")


@dataclass(frozen=True)
class Row:
    """One problem with one allocator and number of threads.

    level: where the working set lives. bound: what limits it, operations or bytes; limit_s is the
    time that this limit leaves. faults: page faults a call. reasons: why a way has no time.
    runs: the fastest way, which is what measured dispatch runs.
    """

    problem: str
    group: str
    dtype: str
    allocator: str
    threads: int
    level: str
    working_set_bytes: int
    rotations: int
    operations: float
    bytes_read: int
    bytes_written: int
    bound: Literal["operations", "bytes"]
    limit_s: float
    times_s: Mapping[str, Timing]
    faults: Mapping[str, float]
    reasons: Mapping[str, str]
    difference: float | None
    allowed: float | None
    compile_s: Mapping[str, float]
    runs: str

    @property
    def ratio(self) -> float | None:
        """The better of eager and Inductor, over ours: above 1 ours is faster."""
        stock = [t.median_s for way, t in self.times_s.items() if way != "ours"]
        if "ours" not in self.times_s or not stock:
            return None
        return min(stock) / self.times_s["ours"].median_s

    def of_limit(self, way: str) -> float | None:
        """The share of the machine's limit that a way reaches."""
        return self.limit_s / self.times_s[way].median_s if way in self.times_s else None

    @property
    def spread(self) -> float:
        """The largest distance of the quartiles from each other, relative to the median."""
        return max((t.spread for t in self.times_s.values()), default=0.0)


@dataclass(frozen=True)
class Machine:
    """An allocator's process: its limits for each number of threads, and its caches."""

    allocator: str
    limits: tuple[Limits, ...]
    caches_bytes: Mapping[str, int]


@dataclass(frozen=True)
class Result:
    """One run of the kernels suite."""

    schema: Literal["rift.bench.kernels/1"]
    run: str
    status: Literal["complete", "interrupted"]
    created: str
    device: str
    quick: bool
    notes: tuple[str, ...]
    failures: tuple[str, ...]
    machines: tuple[Machine, ...]
    rows: tuple[Row, ...]


_ADAPTER = TypeAdapter(Result)


def to_json(result: Result) -> str:
    """The document; raises ValueError rather than write NaN or Infinity."""
    return json.dumps(_ADAPTER.dump_python(result, mode="json"), indent=2, allow_nan=False) + "\n"


def read(path: Path) -> Result:
    """The document in a file. Raises Failed where there is none, or one of another version."""
    try:
        return _ADAPTER.validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Failed(f"{path}: the run ended before it had a result") from None
    except ValidationError as error:
        raise Failed(
            f"{path}: not a document of {SCHEMA}; "
            "read it with the version of rift that wrote it (manifest.json says which)"
        ) from error


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the document (docs/kernels-result.schema.json)."""
    return {**_ADAPTER.json_schema(), "$id": SCHEMA, "title": "rift kernels benchmark result"}
