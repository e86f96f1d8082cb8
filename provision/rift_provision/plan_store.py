"""Plans that were made, one JSON file each under $RIFT_HOME/plans."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rift import paths
from rift.errors import WrongUsage
from rift_provision.plan import Plan

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
ID = re.compile(r"[A-Za-z0-9._-]+")


def directory() -> Path:
    """Where plans are."""
    return paths.home() / "plans"


def save(plan: Plan) -> Plan:
    """The plan with its id and date, once it is written: by then nobody else has that id."""
    now = datetime.now(UTC)
    text = json.dumps(asdict(plan), sort_keys=True)
    digest = hashlib.sha256(f"{now.isoformat()}{text}".encode()).hexdigest()[:6]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", plan.host) or "host"
    made = replace(
        plan, id=f"{now:%Y%m%d-%H%M%S}-{name}-{digest}", created=now.isoformat(timespec="seconds")
    )
    directory().mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path_of(made.id), CREATE, 0o600), "w", encoding="utf-8") as file:
        json.dump(document(made), file, indent=2)
    return made


def load(plan_id: str) -> Plan:
    """The plan with that id. Raises WrongUsage."""
    if not ID.fullmatch(plan_id) or not (path := path_of(plan_id)).is_file():
        known = ", ".join(listed()[-3:]) or "none"
        raise WrongUsage(f"no plan {plan_id!r} in {directory()}; the latest: {known}")
    try:
        return TypeAdapter(Plan).validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        raise WrongUsage(f"{path}: {where}: {first['msg']}") from None


def listed() -> list[str]:
    """Ids of all plans, the oldest first."""
    return sorted(path.stem for path in directory().glob("*.json"))


def path_of(plan_id: str) -> Path:
    """The file of a plan."""
    return directory() / f"{plan_id}.json"


def document(plan: Plan) -> dict[str, Any]:
    """The plan as JSON can hold it."""
    made: dict[str, Any] = json.loads(json.dumps(asdict(plan)))
    return made
