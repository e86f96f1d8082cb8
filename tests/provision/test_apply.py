"""Plans carried out and taken back on this machine, by Ansible itself."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from rift import cli
from rift.errors import WrongUsage
from rift_provision import ansible_run, plan_store
from rift_provision.ansible_run import Outcome, Progress
from rift_provision.apply import carry_out
from rift_provision.facts.files import File
from rift_provision.plan import Command, FileChange, Plan
from rift_provision.requirements.part import Request

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="files of root's are changed: needs root"),
    pytest.mark.timeout(300),
]


def _file(text: str, mode: str = "0644") -> File:
    return File(text, mode, 0, 0)


def _plan(root: Path) -> Plan:
    """Changes one file, makes one in a new directory, removes one, and leaves a mark."""
    settings, made, gone = (str(root / name) for name in ("settings", "new/made", "gone"))
    files = (
        FileChange(settings, _file("a=1\n", "0600"), _file("a=1 b=2\n", "0600"), "b"),
        FileChange(made, None, _file("#!/bin/sh\n", "0755"), "new"),
        FileChange(gone, _file("old\n"), None, "old"),
    )
    mark = Command(("touch", str(root / "mark")), "files", "leaves a mark")
    late = Command(("touch", str(root / "late")), "units", "leaves another")
    back = Command(("rm", "-f", str(root / "mark")), "files", "takes it away")
    return Plan(
        "rift.host-plan/1", "20261201-120000-local-abc123", "local", "2026-12-01T12:00:00+00:00",
        Request(), "", None, (), files, (), (mark, late), (back,), False, (), (),
    )  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A directory as the plan found it."""
    settings, gone = tmp_path / "settings", tmp_path / "gone"
    settings.write_text("a=1\n")
    settings.chmod(0o600)
    gone.write_text("old\n")
    gone.chmod(0o644)
    return tmp_path


def _play(plan: Plan, direction: str, root: Path, dry_run: bool = False) -> Outcome:
    seen: list[Progress] = []
    document = plan_store.document(plan)
    settings = {"host_plan_directory": str(root / "state")}
    outcomes = ansible_run.play(
        direction, {"local": document}, {"local": None}, seen.append, dry_run, settings
    )
    assert any(p.task == "Compare the host with the plan" for p in seen)
    return outcomes["local"]


def _tree(root: Path) -> dict[str, Any]:
    return {
        str(p.relative_to(root)): (p.read_bytes(), p.stat().st_mode)
        for p in sorted(root.rglob("*"))
        if p.is_file() and "state" not in p.parts
    }


def test_a_plan_is_applied_once_and_undone_to_the_byte(machine: Path) -> None:
    plan, before = _plan(machine), _tree(machine)

    checked = _play(plan, "apply", machine, dry_run=True)
    assert checked.ok, checked
    assert checked.changed == ["Write files"]
    assert {d["after_header"] for d in checked.diffs} == {f.path for f in plan.files}
    assert _tree(machine) == before

    applied = _play(plan, "apply", machine)
    assert applied.ok, applied
    assert (machine / "settings").read_text() == "a=1 b=2\n"
    assert (machine / "settings").stat().st_mode & 0o777 == 0o600
    assert (machine / "new/made").stat().st_mode & 0o777 == 0o755
    assert not (machine / "gone").exists()
    assert (machine / "mark").exists()
    assert (machine / "late").exists()
    assert (machine / "state" / f"{plan.id}.json").stat().st_mode & 0o777 == 0o600

    again = _play(plan, "apply", machine)
    assert again.ok
    assert again.changed == []

    undone = _play(plan, "undo", machine)
    assert undone.ok, undone
    (machine / "late").unlink()
    assert _tree(machine) == before
    assert _play(plan, "undo", machine).changed == []


def test_a_host_that_is_not_as_planned_is_left_alone(machine: Path) -> None:
    (machine / "settings").write_text("a=3\n")
    (machine / "new").mkdir()
    (machine / "new/made").write_text("theirs\n")
    before = _tree(machine)

    outcome = _play(_plan(machine), "apply", machine)

    assert f"{machine}/settings was changed by somebody else" in outcome.failed
    assert f"{machine}/new/made is there already" in outcome.failed
    assert _tree(machine) == before
    assert not (machine / "state").exists()


def test_an_interrupted_plan_goes_on_where_it_was(machine: Path) -> None:
    plan = _plan(machine)
    failing = Command(("false",), "files", "fails")
    broken = dataclasses.replace(plan, commands=(failing, *plan.commands))
    stopped = _play(broken, "apply", machine)
    assert "Run what reads the files: false" in stopped.failed
    assert (machine / "settings").read_text() == "a=1 b=2\n"
    assert not (machine / "mark").exists()

    repeated = _play(plan, "apply", machine)

    assert repeated.ok, repeated
    assert (machine / "mark").exists()
    assert (machine / "late").exists()


def test_a_host_that_cannot_be_reached_is_lost_and_others_go_on(machine: Path) -> None:
    from rift_provision.inventory import Host

    away = Host("away", "127.0.0.1", 1, "root", None, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA==")
    document = plan_store.document(_plan(machine))
    seen: list[Progress] = []
    outcomes = ansible_run.play(
        "apply",
        {"local": document, "away": document},
        {"local": None, "away": away},
        seen.append,
        settings={"host_plan_directory": str(machine / "state")},
    )

    assert outcomes["local"].ok
    assert not outcomes["away"].ok
    assert "Connection refused" in outcomes["away"].lost


def test_nobody_is_changed_without_being_asked(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_store.save(dataclasses.replace(_plan(home), reboot=True))
    with pytest.raises(SystemExit) as exit_:
        cli.main(["provision", "apply", plan.id])

    assert exit_.value.code == 2
    assert "nobody is there to ask: add --yes to change local" in capsys.readouterr().err


def test_a_plan_of_a_recorded_host_cannot_be_carried_out(home: Path) -> None:
    recorded = dataclasses.replace(_plan(home), host="/somewhere/h1.tar.gz")

    with pytest.raises(WrongUsage, match="is no host of the inventory"):
        carry_out("apply", [recorded], lambda _: None)
    with pytest.raises(WrongUsage, match="of the same host"):
        carry_out("apply", [recorded, recorded], lambda _: None)
