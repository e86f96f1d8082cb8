"""The store: all or nothing, one writer at a time, no guessing about newer versions."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from rift.errors import Failed
from rift.store import MIGRATIONS, transaction


def count(path: Path) -> int:
    with transaction(path) as db:
        return int(db.execute("SELECT count(*) FROM runs").fetchone()[0])


def test_an_error_inside_undoes_everything(tmp_path: Path) -> None:
    path = tmp_path / "rift.db"

    def interrupted() -> None:
        with transaction(path) as db:
            db.execute("INSERT INTO runs VALUES ('a', 'now', 'llm', '/tmp')")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()

    assert count(path) == 0


WRITER = """
import sys
from pathlib import Path
from rift.store import transaction
for number in range(20):
    with transaction(Path(sys.argv[1])) as db:
        row = (f"{sys.argv[2]}-{number}", "now", "llm", "/tmp")
        db.execute("INSERT INTO runs VALUES (?, ?, ?, ?)", row)
"""


def test_processes_write_side_by_side(tmp_path: Path) -> None:
    path = tmp_path / "rift.db"
    command = [sys.executable, "-c", WRITER, str(path)]

    writers = [subprocess.Popen([*command, str(who)]) for who in range(4)]

    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    assert count(path) == 80


def test_a_newer_store_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "rift.db"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    db.close()

    with pytest.raises(Failed, match="update rift-toolkit"), transaction(path):
        pass


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(Failed, match="RIFT_HOME"), transaction(tmp_path / "file" / "rift.db"):
        pass


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rift.db"
    path.write_text("this is not a database, and long enough to be read as one" * 20)

    with pytest.raises(Failed, match=r"rift\.db"), transaction(path):
        pass
