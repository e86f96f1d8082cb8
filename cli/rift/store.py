"""The SQLite store: intent and an index, shared by every `rift` process of one user.

Libvirt and the engines stay the truth about what is running; rows are reconciled with them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rift import paths
from rift.errors import Failed

# One entry a version, never edited once released; PRAGMA user_version counts those applied.
MIGRATIONS = (
    """
    CREATE TABLE deployments (
        name TEXT PRIMARY KEY,
        document TEXT NOT NULL CHECK (json_valid(document))
    ) STRICT;
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        created TEXT NOT NULL,
        suite TEXT NOT NULL,
        directory TEXT NOT NULL
    ) STRICT;
    """,
    """
    CREATE TABLE trials (
        problem TEXT NOT NULL,
        shapes TEXT NOT NULL,
        threads INTEGER NOT NULL,
        device TEXT NOT NULL,
        allocator TEXT NOT NULL,
        compiler TEXT NOT NULL,
        stock TEXT NOT NULL,
        measured TEXT NOT NULL,
        document TEXT NOT NULL CHECK (json_valid(document)),
        PRIMARY KEY (problem, shapes, threads, device, allocator, compiler, stock)
    ) STRICT;
    """,
    """
    CREATE TABLE hosts (
        name TEXT PRIMARY KEY,
        document TEXT NOT NULL CHECK (json_valid(document))
    ) STRICT;
    """,
)


@contextmanager
def transaction(path: Path | None = None) -> Iterator[sqlite3.Connection]:
    """Yield a connection inside BEGIN IMMEDIATE: one writer at a time, all or nothing.

    Raises Failed when the store cannot be opened or is of a newer version than this program.
    """
    path = path or paths.database()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(path, timeout=30, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise Failed(f"cannot open the store {path}: {error}; set RIFT_HOME elsewhere") from error
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        _migrate(db, path)
        yield db
        db.execute("COMMIT")
    except BaseException as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if isinstance(error, sqlite3.DatabaseError):
            raise Failed(f"the store {path}: {error}") from error
        raise
    finally:
        db.close()


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise Failed(
            f"the store {path} is of version {version}, this rift knows up to {len(MIGRATIONS)}; "
            "update rift-toolkit or set RIFT_HOME elsewhere"
        )
    for script in MIGRATIONS[version:]:
        for statement in filter(str.strip, script.split(";")):
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
