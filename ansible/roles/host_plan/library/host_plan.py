"""Ansible module: carries out the files of a rift host plan, or takes them back, and remembers how
far it came. Runs on the host, with Python 3.8 or newer and nothing else."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = """
module: host_plan
short_description: Files of a rift host plan
description:
  - Step C(begin) compares every file with the plan and stops if one is neither as it was nor as it
    is to be; it keeps the plan, which is its own inverse, on the host.
  - Step C(write) writes the files that differ. Step C(finish) says that all is done.
options:
  plan: {description: The plan, type: dict[str, Any], required: true}
  step: {description: What to do, type: str, choices: [begin, write, finish], required: true}
  direction: {description: Apply it or take it back, type: str, choices: [apply, undo],
    default: apply}
  directory: {description: Where the host keeps plans, type: path, default: /var/lib/rift/plans}
"""

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DOING = {"apply": "applying", "undo": "undoing"}
DONE = {"apply": "applied", "undo": "undone"}


def main() -> None:
    """What Ansible calls."""
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict", "required": True},
            "step": {"choices": ["begin", "write", "finish"], "required": True},
            "direction": {"choices": ["apply", "undo"], "default": "apply"},
            "directory": {"type": "path", "default": "/var/lib/rift/plans"},
        },
        supports_check_mode=True,
    )
    given = module.params
    plan, direction = given["plan"], given["direction"]
    record = Path(given["directory"], f"{plan['id']}.json")
    steps = {"begin": begin, "write": write, "finish": finish}
    try:
        result = steps[given["step"]](plan, direction, record, module.check_mode)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{given['step']}: {error}")
    module.exit_json(**result)


def begin(plan: dict[str, Any], direction: str, record: Path, dry: bool) -> dict[str, Any]:
    """Whether it is done already, goes on from an interruption, and in which boot it began."""
    problems = [p for p in (problem(f) for f in plan["files"]) if p]
    if problems:
        raise ValueError("not as the plan knows it, nothing was touched: " + "; ".join(problems))
    known = read_state(record)
    now = BOOT_ID.read_text().strip()
    left = any(look(f["path"]) != f[wanted(direction)] for f in plan["files"])
    resumed = known["phase"] == DOING[direction]
    done = known["phase"] == DONE[direction] and not left
    if direction == "undo" and known["phase"] == "" and not left:
        done = True  # it was never applied
    if not done and not dry:
        boot = known["boot_id"] if resumed else now
        write_state(record, plan, DOING[direction], boot)
    began = known["boot_id"] if resumed else now
    return {"changed": False, "done": done, "resumed": resumed, "same_boot": began == now}


def write(plan: dict[str, Any], direction: str, record: Path, dry: bool) -> dict[str, Any]:
    """Make every file what it is to be; tells which it changed, and how."""
    diffs, paths = [], []
    for one in plan["files"]:
        now, then = look(one["path"]), one[wanted(direction)]
        if now == then:
            continue
        paths.append(one["path"])
        diffs.append(
            {
                "before_header": one["path"],
                "after_header": one["path"],
                "before": now["text"] if now else "",
                "after": then["text"] if then else "",
            }
        )
        if not dry:
            put(one["path"], then)
    return {"changed": bool(paths), "paths": paths, "diff": diffs}


def finish(plan: dict[str, Any], direction: str, record: Path, dry: bool) -> dict[str, Any]:
    """Remember that everything is done."""
    if not dry:
        write_state(record, plan, DONE[direction], BOOT_ID.read_text().strip())
    return {"changed": False}


def wanted(direction: str) -> str:
    return "after" if direction == "apply" else "before"


def look(path: str) -> dict[str, Any] | None:
    """A file as plans describe files, or None."""
    try:
        with open(path, "rb") as file:
            content, info = file.read(), os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    return {
        "text": content.decode("utf-8", "surrogateescape"),
        "mode": f"{stat.S_IMODE(info.st_mode):04o}",
        "uid": info.st_uid,
        "gid": info.st_gid,
    }


def problem(one: dict[str, Any]) -> str:
    """Why a file must not be touched, or nothing."""
    path = one["path"]
    if os.path.islink(path) and look(path) != one["before"]:
        return f"{path} is a link"
    now = look(path)
    if now in (one["before"], one["after"]):
        return ""
    if now is None:
        return f"{path} is gone"
    return f"{path} was changed by somebody else" if one["before"] else f"{path} is there already"


def put(path: str, file: dict[str, Any] | None) -> None:
    """Write a file whole, or remove it: nobody ever sees a part of it."""
    real = os.path.realpath(path)
    if file is None:
        os.unlink(path)
        sync(os.path.dirname(real))
        return
    folder = os.path.dirname(real)
    os.makedirs(folder, mode=0o755, exist_ok=True)
    made, name = tempfile.mkstemp(prefix=".rift-", dir=folder)
    try:
        with os.fdopen(made, "wb") as out:
            out.write(file["text"].encode("utf-8", "surrogateescape"))
            os.fchown(out.fileno(), file["uid"], file["gid"])
            os.fchmod(out.fileno(), int(file["mode"], 8))
            out.flush()
            os.fsync(out.fileno())
        os.replace(name, real)
    except BaseException:
        os.unlink(name)
        raise
    sync(folder)


def sync(folder: str) -> None:
    """Make a change of a directory survive a power cut."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def read_state(record: Path) -> dict[str, Any]:
    """How far a plan came here: phase and the boot in which that phase began."""
    try:
        state: dict[str, Any] = json.loads(record.read_text())
    except FileNotFoundError:
        return {"phase": "", "boot_id": ""}
    return state


def write_state(record: Path, plan: dict[str, Any], phase: str, boot_id: str) -> None:
    """Keep the plan, with what undoes it, before anything is changed."""
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps({"phase": phase, "boot_id": boot_id, "plan": plan}, indent=2)
    file = {"text": text, "mode": "0600", "uid": os.geteuid(), "gid": os.getegid()}
    put(str(record), file)


if __name__ == "__main__":
    main()
