"""Runs a playbook of ours on several hosts at once, with what each is doing told as it happens."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rift_provision.inventory import SSH_PORT, Host

SSH_RETRIES = 3  # of one task, where SSH itself fails
AT_ONCE = 32  # hosts
SETTINGS = {
    "ANSIBLE_PIPELINING": "true",
    "ANSIBLE_HOST_KEY_CHECKING": "true",
    "ANSIBLE_SSH_RETRIES": str(SSH_RETRIES),
    "ANSIBLE_FORKS": str(AT_ONCE),
    "ANSIBLE_NOCOLOR": "true",
    "ANSIBLE_RETRY_FILES_ENABLED": "false",
    "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",
}
LOCAL = {"ansible_connection": "local"}


@dataclass(frozen=True)
class Progress:
    """A host begins a task, or ended it: state is begun, ok, changed, skipped, failed, lost."""

    host: str
    task: str
    state: str
    detail: str = ""


@dataclass
class Outcome:
    """What became of a host: what changed, and why it failed or was lost, if it did."""

    changed: list[str] = field(default_factory=list)
    diffs: list[dict[str, str]] = field(default_factory=list)
    failed: str = ""
    lost: str = ""

    @property
    def ok(self) -> bool:
        return not self.failed and not self.lost


def directory() -> Path:
    """Where playbooks and roles are: in the installed package, or in the source tree."""
    here = Path(__file__).parent
    packaged = here / "ansible"
    return packaged if packaged.is_dir() else here.parents[1] / "ansible"


def play(
    playbook: str,
    documents: Mapping[str, Mapping[str, Any]],
    hosts: Mapping[str, Host | None],
    tell: Callable[[Progress], None],
    dry_run: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Outcome]:
    """What became of each host. documents: the plan of each; hosts: how to reach it, None for this
    machine; settings: variables of the role."""
    import ansible_runner

    outcomes = {name: Outcome() for name in documents}
    with tempfile.TemporaryDirectory(prefix="rift-ansible-") as private:
        root = Path(private)
        _write_inventory(root, documents, hosts, settings or {})
        ansible_runner.run(
            private_data_dir=private,
            playbook=str(directory() / f"{playbook}.yml"),
            inventory=str(root / "inventory" / "hosts.json"),
            roles_path=str(directory() / "roles"),
            envvars=SETTINGS | {"PATH": _path()},
            cmdline="--check --diff" if dry_run else None,
            event_handler=lambda event: _hear(event, outcomes, tell),
            quiet=True,
            settings={"suppress_ansible_output": True},
        )
    for outcome in outcomes.values():
        outcome.diffs = [d for d in outcome.diffs if d]
    return outcomes


def _path() -> str:
    """PATH with this environment's programs first: ansible-playbook is one of them."""
    return f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"


def _write_inventory(
    root: Path,
    documents: Mapping[str, Mapping[str, Any]],
    hosts: Mapping[str, Host | None],
    settings: Mapping[str, Any],
) -> None:
    inventory = root / "inventory"
    (inventory / "plans").mkdir(parents=True)
    known = inventory / "known_hosts"
    lines = []
    variables: dict[str, dict[str, Any]] = {}
    for name, document in documents.items():
        (inventory / "plans" / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
        host = hosts[name]
        variables[name] = dict(LOCAL) if host is None else _connection(host, known)
        if host is not None:
            at = host.address if host.port == SSH_PORT else f"[{host.address}]:{host.port}"
            lines.append(f"{at} {host.host_key}\n")
    known.write_text("".join(lines), encoding="utf-8")
    every = {"all": {"hosts": variables, "vars": dict(settings)}}
    (inventory / "hosts.json").write_text(json.dumps(every), encoding="utf-8")


def _connection(host: Host, known: Path) -> dict[str, Any]:
    """How Ansible reaches a host: as ssh.py does, and with nothing of ~/.ssh/config."""
    options = (
        "-F none", f"-o UserKnownHostsFile={known}", "-o GlobalKnownHostsFile=none",
        "-o StrictHostKeyChecking=yes", "-o ServerAliveInterval=15", "-o ServerAliveCountMax=4",
        "-o ConnectTimeout=15",
    )  # fmt: skip
    found: dict[str, Any] = {
        "ansible_host": host.address,
        "ansible_port": host.port,
        "ansible_user": host.user,
        "ansible_ssh_common_args": " ".join(options),
        "ansible_become": host.user != "root",
    }
    if host.key_path:
        found["ansible_ssh_private_key_file"] = host.key_path
        found["ansible_ssh_common_args"] += " -o IdentitiesOnly=yes"
    return found


ENDS = {
    "runner_on_ok": "ok", "runner_on_failed": "failed", "runner_on_unreachable": "lost",
    "runner_on_skipped": "skipped",
}  # fmt: skip


def _hear(
    event: Mapping[str, Any],
    outcomes: dict[str, Outcome],
    tell: Callable[[Progress], None],
) -> bool:
    """Take in an event of ansible-runner; False: it need not keep it."""
    data = event.get("event_data", {})
    host, task = data.get("host"), data.get("task", "")
    if host not in outcomes:
        return False
    if event["event"] == "runner_on_start":
        tell(Progress(host, task, "begun"))
    state = ENDS.get(event["event"], "")
    if not state:
        return False
    result, outcome = data.get("res", {}) or {}, outcomes[host]
    detail = ""
    if state == "ok" and result.get("changed"):
        state = "changed"
        outcome.changed.append(task)
        diff = result.get("diff")
        outcome.diffs += diff if isinstance(diff, list) else []
    if state == "failed" and data.get("ignore_errors"):
        state = "skipped"
    if state in ("failed", "lost"):
        detail = f"{task}: {_why(result)}"
        setattr(outcome, state, detail)
    tell(Progress(host, task, state, detail))
    return False


def _why(result: Mapping[str, Any]) -> str:
    """The most telling part of a failed task's result."""
    for one in result.get("results", []):
        if one.get("failed"):
            label = one.get("_ansible_item_label", "")
            return f"{label}: {_why(one)}" if label else _why(one)
    for key in ("stderr", "module_stderr", "msg", "stdout"):
        if text := str(result.get(key) or "").strip():
            return text.splitlines()[-1] if key != "msg" else text
    return "it does not say why"
