"""`rift doctor` on the machine that runs the tests."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from rift import cli, doctor, machine


def test_json_tells_what_is_here(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--json"])

    findings = {one["what"]: one for one in json.loads(capsys.readouterr().out)}
    assert (findings["QEMU"]["state"] == "ok") == bool(shutil.which("qemu-system-x86_64"))
    assert (findings["GPU"]["state"] == "ok") == machine.has_cuda()
    assert all(one["do"] for one in findings.values() if one["state"] == "missing")


def test_what_serving_needs_and_lacks_is_exit_3(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old = machine.Cpu("Old Xeon", "x86_64", frozenset({"sse4_2", "avx"}), (0,))
    monkeypatch.setattr("rift.machine.cpu", lambda: old)

    with pytest.raises(SystemExit) as stopped:
        cli.main(["doctor"])

    assert stopped.value.code == 3
    assert "missing here: CPU" in capsys.readouterr().err


def test_a_full_disk_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "FREE_DISK_BYTES", 2**60)

    assert {one.what: one.state for one in doctor.examine()}["disk"] == "missing"
