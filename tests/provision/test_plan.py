"""Plans: what is changed, what is left alone, and that a host that is as wanted needs none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rift import cli
from rift_provision import plan_store
from rift_provision.check import check
from rift_provision.facts import Facts, to_json
from rift_provision.plan import Plan, make_plan
from rift_provision.requirements.part import Request

FactsOf = Callable[[str], Facts]
GOLDENS = Path(__file__).parent / "goldens"


def plan_for(facts: Facts, request: Request | None = None) -> Plan:
    return make_plan(check(facts, request or Request()), "h1")


def rift(*argv: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        cli.main(list(argv))
    return int(stopped.value.code or 0)


def saved(facts: Facts, directory: Path) -> str:
    path = directory / "facts.json"
    path.write_text(json.dumps(to_json(facts)))
    return str(path)


def test_check_and_plan_from_recorded_facts(
    facts_of: FactsOf, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = saved(facts_of("epyc-4090"), tmp_path)

    assert rift("provision", "host", "--facts", recorded, "--check") == 3
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines())

    assert rift("provision", "host", "--facts", recorded, "--check", "--json") == 3
    (report,) = json.loads(capsys.readouterr().out)
    assert {one["verdict"] for one in report["findings"]} == {"ok", "note", "will fix"}

    assert rift("provision", "host", "--facts", recorded, "--plan", "--json") == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert plan_store.document(plan_store.load(plan["id"])) == plan
    assert rift("provision", "show", plan["id"]) == 0
    assert "+++ /etc/default/grub" in capsys.readouterr().out


def test_a_plan_that_is_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rift("provision", "show", "../../etc/passwd") == 2
    assert "no plan" in capsys.readouterr().err
