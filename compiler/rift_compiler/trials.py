"""Records of measured dispatch in the store: which was faster at a problem, and by how much."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rift.store import transaction
from rift_compiler.measure import Timing


@dataclass(frozen=True)
class Problem:
    """The key: what is computed (a graph's hash), on what, by which versions, where."""

    problem: str
    shapes: str
    threads: int
    device: str
    allocator: str
    compiler: str
    stock: str


@dataclass(frozen=True)
class Trial:
    """One decision. times_s has the ways that were measured: ours, eager, inductor.

    choice is one of them. difference and allowed are of the numerics gate; null where ours was not
    run. reason says why ours was not measured, or not used.
    """

    of: Problem
    what: str
    choice: str
    reason: str
    times_s: Mapping[str, Timing]
    difference: float | None = None
    allowed: float | None = None
    measured: str = ""


_KEY = tuple(Problem.__dataclass_fields__)
_WHERE = " AND ".join(f"{name} = ?" for name in _KEY)


def find(problem: Problem) -> Trial | None:
    """The record of a problem, if there is one."""
    with transaction() as db:
        values = tuple(asdict(problem).values())
        row = db.execute(f"SELECT * FROM trials WHERE {_WHERE}", values).fetchone()
    return None if row is None else _trial(row)


def save(trial: Trial) -> Trial:
    """Enter a record in place of what the store holds of its problem; returned with its time."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    document = asdict(trial)
    key = document.pop("of")
    document.pop("measured")
    with transaction() as db:
        marks = ", ".join("?" * (len(key) + 2))
        row = (*key.values(), now, json.dumps(document, allow_nan=False))
        db.execute(f"INSERT OR REPLACE INTO trials VALUES ({marks})", row)
    return replace(trial, measured=now)


def every() -> list[Trial]:
    """Every record, newest first."""
    with transaction() as db:
        rows = db.execute("SELECT * FROM trials ORDER BY measured DESC, shapes, threads").fetchall()
    return [_trial(row) for row in rows]


def _trial(row: Any) -> Trial:
    document = json.loads(row["document"])
    times = {name: Timing(**t) for name, t in document.pop("times_s").items()}
    key = Problem(**{name: row[name] for name in _KEY})
    return Trial(of=key, times_s=times, measured=row["measured"], **document)
