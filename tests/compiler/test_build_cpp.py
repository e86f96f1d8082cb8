"""Compiling C++: what is missing, what fails, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import rift_compiler
from rift.errors import Blocked, Failed
from rift_compiler import build_cpp


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("RIFT_HOME", str(tmp_path))
    build_cpp.compiler.cache_clear()
    yield tmp_path
    build_cpp.compiler.cache_clear()


def _call() -> torch.Tensor:
    made: torch.Tensor = rift_compiler.compile(lambda x: x + 1, (torch.zeros(3),))(torch.ones(3))
    return made


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)

    with pytest.raises(Blocked, match=r"no C\+\+ compiler: expected g\+\+ or clang\+\+"):
        _call()


def test_a_compiler_that_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = home / "broken"
    broken.write_text("#!/bin/sh\necho out of cheese >&2\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))

    with pytest.raises(Failed, match="did not compile the generated C\\+\\+:\nout of cheese"):
        _call()


def test_a_cache_that_cannot_be_written(home: Path) -> None:
    (home / "cache").touch()

    with pytest.raises(Failed, match=r"cannot keep compiled code in .*set RIFT_HOME"):
        _call()


def test_the_same_source_is_compiled_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _call()
    monkeypatch.setattr(build_cpp, "_compile", lambda *_: pytest.fail("compiled again"))

    assert torch.equal(_call(), first)
    assert len(list((home / "cache" / "cpp").glob("*.so"))) == 1
