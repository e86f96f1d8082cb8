"""The user page's example does what the page says."""

from __future__ import annotations

import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest

from rift.cli import main

PAGE = (Path(__file__).parents[3] / "docs" / "emulate.md").read_text(encoding="utf-8")
pytest.importorskip("triton")


def test_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kernel = re.search(r"```python\n(import triton.*?)```", PAGE, re.DOTALL)
    command = re.search(r"^\$ rift (emulate normalize.py.*)$", PAGE, re.MULTILINE)
    assert kernel
    assert command
    monkeypatch.chdir(tmp_path)
    Path("normalize.py").write_text(kernel[1])
    x = np.linspace(-4, 3, 1000, dtype=np.float32)
    np.save("x.npy", x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(SystemExit) as end:
            main(shlex.split(command[1]))

    assert end.value.code == 1
    assert np.array_equal(np.load("y.npy"), x / 4)
    said = capsys.readouterr().out
    assert said.count("race: ") == 1
    assert "normalize.py:18 " in said
    assert "is " in said
    assert "normalize.py:14 " in said
