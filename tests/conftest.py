"""What every part's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty RIFT_HOME of the test's own, and no API key from outside."""
    monkeypatch.setenv("RIFT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RIFT_API_KEY", raising=False)
    return tmp_path / "home"
