"""docs/compiler-walk.md is what the compiler prints."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "make_compiler_walk.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_compiler_walk", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    walk = load()
    page = walk.PAGE.read_text(encoding="utf-8")
    if f"with torch {walk.version()}:" not in page:
        pytest.skip("the page was made with another version of torch")

    assert walk.page() == page, "run: .venv/bin/python docs/make_compiler_walk.py"
