"""`rift tune`: measures, records, shows; refuses what makes no sense."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from rift.cli import main

pytestmark = pytest.mark.usefixtures("home")


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    torch._dynamo.reset()
    with pytest.raises(SystemExit) as end:
        main(["tune", *args])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_measures_records_and_shows(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--show")
    assert (code, out) == (0, "")
    assert "no records" in err

    code, out, err = run(capsys, "-c", "torch.exp(torch.randn(4, 8))", "--threads", "1,2")
    assert code == 0, err
    assert "exp" in out
    assert all(len(line) <= 80 for line in out.splitlines())

    code, out, _ = run(capsys, "--show", "--json")
    records = json.loads(out)
    assert sorted(r["of"]["threads"] for r in records) == [1, 2]  # the newest is first
    for record in records:
        assert record["choice"] == min(
            record["times_s"], key=lambda w: record["times_s"][w]["median_s"]
        )
        assert record["of"]["shapes"] == "f32[4,8]"


def test_a_file_with_sizes_that_change(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("def scaled(x, y):\n    return x * y\n", encoding="utf-8")
    shapes = ["--shape", "x=2,seq", "--shape", "y=1", "--size", "seq=5"]
    code, out, err = run(capsys, f"{path}:scaled", *shapes, "--json")

    assert code == 0, err
    (record,) = json.loads(out)
    assert record["of"]["shapes"] == "5 f32[2,5] f32[1]"


def test_a_refusal_is_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "-c", "torch.sort(torch.randn(3))", "--json")

    assert code == 0
    (record,) = json.loads(out)
    assert record["choice"] == "eager"
    assert "aten.sort" in record["reason"]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["--show", "--threads", "1"], 2, "--show prints records and measures nothing"),
        (["--all", "-c", "torch.randn(1)"], 2, "--all goes with --show"),
        (["--threads", "1"], 2, "expected one of FILE.py:NAME, -c EXPRESSION and --show"),
        (["-c", "torch.randn(1) + 1", "--threads", "0"], 2, "--threads: expected numbers"),
        (["-c", "torch.randn(1) + nope"], 1, "NameError"),
    ],
)
def test_bad_input(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, message: str
) -> None:
    got, _, err = run(capsys, *args)

    assert message in err
    assert got == code
    assert "Traceback" not in err
