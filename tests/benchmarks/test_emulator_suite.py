"""The emulator suite runs, checks its own results, and refuses other suites' options."""

from __future__ import annotations

import pytest

from rift.cli import main
from rift_benchmarks.emulator import measure


def test_measure() -> None:
    speed = measure(128, 64, 1, show=lambda text: None)
    assert 0 < speed.exact_gflops < speed.plain_gflops
    assert 0 < speed.checked_gflops < speed.plain_gflops
    assert min(speed.plain_build_s, speed.checked_build_s) > 0


def test_other_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", "--suite", "emulator", "--concurrency", "4"])
    assert end.value.code == 2
    assert "--concurrency: not an option of --suite emulator" in capsys.readouterr().err
