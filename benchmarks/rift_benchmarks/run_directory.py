"""A run's directory: manifest.json, requests.jsonl, result.json, report.html; and the index."""

from __future__ import annotations

import json
import os
import platform
import secrets
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import rift
from rift import machine, paths
from rift.errors import Failed, WrongUsage
from rift.store import transaction
from rift_benchmarks import result as result_document
from rift_benchmarks.requests_log import Record
from rift_benchmarks.result import Result

LOG_BYTES = 200_000
PACKAGES = ("httptools", "numpy", "uvloop")


@dataclass(frozen=True)
class Run:
    """One run on disk."""

    id: str
    created: str
    suite: str
    directory: Path

    @property
    def manifest(self) -> Path:
        """Everything needed to repeat the run."""
        return self.directory / "manifest.json"

    @property
    def requests(self) -> Path:
        """One JSON line for each finished request, warm-up included."""
        return self.directory / "requests.jsonl"

    @property
    def result(self) -> Path:
        """The figures."""
        return self.directory / "result.json"

    @property
    def report(self) -> Path:
        """The figures as a page."""
        return self.directory / "report.html"

    def read_result(self) -> Result | None:
        """The result, or None for a run that ended before it had one.

        Raises Failed for a document of another schema version.
        """
        try:
            return result_document.from_json(self.result.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise Failed(
                f"{self.result}: not a document of {result_document.SCHEMA}; "
                "read it with the version of rift that wrote it (manifest.json says which)"
            ) from error

    def read_records(self) -> list[Record]:
        """The records on disk."""
        with self.requests.open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        return [Record(**{**row, "chunks_s": tuple(row["chunks_s"])}) for row in rows]


def create(suite: str, profile: str) -> Run:
    """A new, empty run directory, entered in the index."""
    now = datetime.now(UTC)
    name = f"{now:%Y%m%d-%H%M%S}-{suite}-{profile}-{secrets.token_hex(2)}"
    run = Run(name, now.isoformat(timespec="seconds"), suite, paths.runs() / name)
    try:
        run.directory.mkdir(parents=True)
    except OSError as error:
        raise Failed(f"cannot make {run.directory}: {error}; set RIFT_HOME elsewhere") from error
    with transaction() as db:
        row = (run.id, run.created, run.suite, str(run.directory))
        db.execute("INSERT INTO runs VALUES (?, ?, ?, ?)", row)
    return run


def listed() -> list[Run]:
    """Every run in the index whose directory still is there, newest first."""
    with transaction() as db:
        rows = db.execute("SELECT * FROM runs ORDER BY id DESC").fetchall()
    runs = (Run(r["id"], r["created"], r["suite"], Path(r["directory"])) for r in rows)
    return [run for run in runs if run.directory.is_dir()]


def get(name: str) -> Run:
    """The run of this id, of a unique beginning of it, or `latest`. Raises WrongUsage."""
    runs = listed()
    if not runs:
        raise WrongUsage("there are no runs; make one with: rift bench --suite llm --deploy MODEL")
    if name == "latest":
        return runs[0]
    found = [run for run in runs if run.id.startswith(name)]
    exact = [run for run in found if run.id == name]
    if len(found) == 1 or exact:
        return (exact or found)[0]
    what = f"{len(found)} runs begin with" if found else "no run is or begins with"
    raise WrongUsage(f"{what} {name!r}; rift runs list shows them ({len(runs)})")


def describe(argv: list[str] | None = None) -> dict[str, Any]:
    """What of this machine and program belongs into a manifest. Holds no secret."""
    cpu = machine.cpu()
    return {
        "command": ["rift", *(sys.argv[1:] if argv is None else argv)],
        "rift": rift.__version__,
        "git": _git(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "machine": {
            "system": platform.platform(),
            "cpu": cpu.model,
            "cpu_flags": sorted(f for f in cpu.flags if f.startswith(("avx", "amx"))),
            "cores": len(cpu.cores),
            "available_memory_bytes": machine.available_memory_bytes(),
            "nvidia_gpus": [asdict(gpu) for gpu in machine.nvidia_gpus()],
            "load_average": os.getloadavg(),
        },
    }


def write_json(path: Path, value: Any) -> None:
    """Write whole or not at all: to a temporary name, then renamed."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False, default=str) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write whole or not at all: to a temporary name, then renamed."""
    scratch = path.with_name(f".{path.name}.new")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)


def keep_log(run: Run, log: Path) -> None:
    """Copy the end of an engine's log into the run: the engine's own is gone when it is stopped."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_BYTES))
            (run.directory / "engine.log").write_bytes(file.read())
    except FileNotFoundError:
        pass  # the deployment was stopped meanwhile


def _git() -> str | None:
    """Commit of the checkout this runs from, with -dirty where files differ; None elsewhere."""
    here = Path(rift.__file__).parent
    top = _run_git(here, "rev-parse", "--show-toplevel")
    if top is None or Path(top) / "cli" / "rift" != here:
        return None  # installed inside somebody's own repository
    return _run_git(here, "describe", "--always", "--dirty", "--abbrev=12")


def _run_git(folder: Path, *words: str) -> str | None:
    try:
        command = ["git", "-C", str(folder), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None
