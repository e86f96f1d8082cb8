"""Where Rift keeps its state: everything lies under one directory, $RIFT_HOME."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def home() -> Path:
    """$RIFT_HOME, or the platform's user data directory (on Linux ~/.local/share/rift)."""
    given = os.environ.get("RIFT_HOME")
    return Path(given).expanduser().absolute() if given else platformdirs.user_data_path("rift")


def database() -> Path:
    """The SQLite store."""
    return home() / "rift.db"


def models() -> Path:
    """Models that Rift made or unpacked, one directory each."""
    return home() / "models"


def deployment(name: str) -> Path:
    """What one deployment keeps: its engine's log."""
    return home() / "deployments" / name


def runs() -> Path:
    """Benchmark runs, one directory each."""
    return home() / "runs"
