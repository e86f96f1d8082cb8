"""Deployments on this machine: start an engine, find it again, stop it.

The store holds what was asked for; whether it runs is asked of the process and its /health.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import psutil

from rift import paths
from rift.errors import Blocked, Failed, WrongUsage
from rift.store import transaction
from rift_serving import api_key, failures, health, process_group
from rift_serving.launch import KEY_VARIABLE, Launch
from rift_serving.process_group import Process

State = Literal["starting", "ready", "not answering", "abandoned", "exited"]
Say = Callable[[str], None]

POLL_S = 0.5
LOG_TAIL_LINES = 10
LOG = "engine.log"
# vLLM 0.32, v1/core/kv_cache_utils.py: "GPU KV cache size: 46,592 tokens" (or "CPU ...").
KV_CAPACITY = re.compile(r"KV cache size: ([0-9,]+) tokens")


@dataclass(frozen=True)
class Deployment:
    """One row of the store: what was deployed, and the processes behind it."""

    name: str
    model: str
    recipe: dict[str, Any]
    url: str
    bind: str
    log: str
    created: str
    command: tuple[str, ...]
    environment: dict[str, str]
    key_source: str | None
    notes: tuple[str, ...]
    launcher: Process
    lives_with_launcher: bool = False
    engine: Process | None = None
    ready_seconds: float | None = None
    context_length: int | None = None
    kv_cache_tokens: int | None = None

    def state(self) -> State:
        """What is true now. Abandoned: the rift that it was for, or that started it, was killed."""
        launched = self.launcher.is_alive
        if self.engine is None:
            return "starting" if launched else "exited"
        if not self.engine.is_alive:
            return "exited"
        if not launched and (self.lives_with_launcher or self.ready_seconds is None):
            return "abandoned"
        if self.ready_seconds is None:
            return "starting"
        return "ready" if health.responds(self.url) else "not answering"


def check_bind(bind: str, key: str | None) -> None:
    """Raise WrongUsage for an address that others reach without a key."""
    try:
        infos = socket.getaddrinfo(bind, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise WrongUsage(f"--bind {bind}: not an address of this machine: {error}") from error
    local = all(str(info[4][0]).startswith("127.") or info[4][0] == "::1" for info in infos)
    if not local and key is None:
        raise WrongUsage(
            f"--bind {bind} lets other machines in: give --api-key-file FILE or set "
            f"{api_key.VARIABLE}, or leave --bind out (127.0.0.1)"
        )


def choose_port(bind: str, port: int | None) -> int:
    """The port asked for, or a free one. Raises Blocked when it is taken, naming by whom."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((bind, port or 0))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise WrongUsage(f"--bind {bind}: not an address of this machine") from error
            raise Blocked(
                f"port {port} on {bind}: {error.strerror}{_owner(port)}; "
                "choose another --port or leave it out for a free one"
            ) from error
        return int(probe.getsockname()[1])


def _owner(port: int | None) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            here = connection.laddr and connection.laddr.port == port
            if here and connection.status == psutil.CONN_LISTEN and connection.pid:
                return f" (by {psutil.Process(connection.pid).name()}, pid {connection.pid})"
    except psutil.Error:
        pass  # not ours to see
    return ""


def check_free(name: str) -> None:
    """Raise Blocked when a deployment of this name lives. A dead one makes way."""
    found = find(name)
    if found is not None and (found.state() != "exited" or _is_running(found)):
        raise Blocked(
            f"a deployment named {name} exists ({found.state()}, {found.url}); stop it with: "
            f"rift deploy stop {name}; or give this one another --name"
        )


def deploy(
    launch: Launch,
    key_file: Path | None,
    timeout_s: float,
    say: Say,
    lives_with_launcher: bool = False,
) -> Deployment:
    """Start the engine and return once it serves. On any failure nothing is left running.

    lives_with_launcher: it is for this process alone, and abandoned if this process dies.

    Raises Failed with the engine's last lines when it does not come up within timeout_s.
    """
    key, source = api_key.read(key_file)
    check_bind(launch.bind, key)
    folder = paths.deployment(launch.name)
    row = _new_row(launch, source, folder, lives_with_launcher)
    _claim(row)
    engine = None
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        environment = _environment(launch, key)
        with process_group.uninterrupted():
            engine = process_group.start(launch.argv, environment, Path(row.log))
            row = _save(dataclasses.replace(row, engine=engine))
        return _save(_wait(row, engine, launch.model.name, key, timeout_s, say))
    except BaseException as error:
        with process_group.uninterrupted():
            if engine is not None:
                process_group.stop(engine)
            _forget(row, None if isinstance(error, Failed) else folder)
        if isinstance(error, OSError):
            raise Failed(f"cannot run the engine of {launch.name}: {error}") from error
        raise


def _environment(launch: Launch, key: str | None) -> dict[str, str]:
    """This process's environment, the launch's, and the key: ours or none, none that lay about."""
    variable = KEY_VARIABLE[launch.recipe.engine]
    inherited = {name: value for name, value in os.environ.items() if name != variable}
    return inherited | launch.environment | ({variable: key} if key else {})


def _new_row(
    launch: Launch, key_source: str | None, folder: Path, lives_with_launcher: bool
) -> Deployment:
    return Deployment(
        name=launch.name,
        model=launch.model.name,
        recipe=launch.recipe.model_dump(mode="json", by_alias=True),
        url=launch.url,
        bind=launch.bind,
        log=str(folder / LOG),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=launch.argv,
        environment=launch.environment,
        key_source=key_source,
        notes=launch.notes,
        launcher=process_group.process(os.getpid()),
        lives_with_launcher=lives_with_launcher,
    )


def _wait(
    row: Deployment, engine: Process, model: str, key: str | None, timeout_s: float, say: Say
) -> Deployment:
    """Wait until row's engine passes every health check; return row with what it serves."""
    started = time.monotonic()
    reason = "it did not answer"
    while (elapsed := time.monotonic() - started) < timeout_s:
        code = process_group.exit_code(engine)
        if not _is_ours(row):
            raise Failed(f"{row.name} was stopped by another rift while it was starting")
        if code is not None:
            raise Failed(_post_mortem(row, f"exited with code {code}", code))
        say(f"starting {row.name}, {elapsed:.0f} s: {_last_line(row.log)}")
        try:
            served = health.check(row.url, model, key, timeout_s - elapsed)
        except health.NotReady as error:
            reason = str(error)
            time.sleep(POLL_S)
            continue
        seconds = round(time.monotonic() - started, 1)
        return _verified(dataclasses.replace(row, ready_seconds=seconds), served)
    raise Failed(_post_mortem(row, f"was not ready after {timeout_s:.0f} s ({reason})", None))


def _verified(row: Deployment, served: health.Served) -> Deployment:
    """Row with what the engine says it serves; raises Failed where that is not what was asked."""
    wanted = row.recipe["context_length"]
    if wanted is not None and served.context_length not in (None, wanted):
        raise Failed(
            f"{row.name}: asked for a context of {wanted} tokens, the engine serves "
            f"{served.context_length}; its log: {row.log}"
        )
    found = KV_CAPACITY.search(Path(row.log).read_text(encoding="utf-8", errors="replace"))
    capacity = int(found[1].replace(",", "")) if found else None
    return dataclasses.replace(row, context_length=served.context_length, kv_cache_tokens=capacity)


def _post_mortem(row: Deployment, what: str, code: int | None) -> str:
    text = Path(row.log).read_text(encoding="utf-8", errors="replace")
    parts = [f"the engine of {row.name} {what}"]
    meaning = failures.explain(text, code)
    if meaning:
        parts.append(meaning)
    errors = failures.errors(text)
    if errors:
        parts += ["its errors:", *(f"  {line[:400]}" for line in errors)]
    tail = text.splitlines()[-LOG_TAIL_LINES:]
    return "\n".join([*parts, f"last lines of {row.log}:", *(f"  {line[:200]}" for line in tail)])


def _last_line(log: str) -> str:
    """The engine's newest line that says something, without vLLM's process and logger prefix."""
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 4096))
        lines = file.read().decode("utf-8", "replace").splitlines()
    told = (failures.plain(line).strip() for line in reversed(lines))
    return next((line[:100] for line in told if line), "no output yet")


def listed() -> list[Deployment]:
    """Every deployment in the store, oldest first."""
    with transaction() as db:
        rows = db.execute("SELECT document FROM deployments").fetchall()
    return sorted((_read(row["document"]) for row in rows), key=lambda d: d.created)


def find(name: str) -> Deployment | None:
    """The deployment of this name, or None."""
    return next((d for d in listed() if d.name == name), None)


def get(name: str) -> Deployment:
    """The deployment of this name. Raises WrongUsage naming those that exist."""
    found = find(name)
    if found is None:
        known = ", ".join(d.name for d in listed()) or "none; rift deploy model MODEL makes one"
        raise WrongUsage(f"no deployment named {name!r}; there are: {known}")
    return found


def log_of(name: str) -> Path:
    """The engine's log of a deployment, or of a start that failed. Raises WrongUsage."""
    left = paths.deployment(name) / LOG
    log = left if find(name) is None and left.is_file() else Path(get(name).log)
    if not log.is_file():
        raise WrongUsage(f"{name} has no log yet ({log})")
    return log


def stop(name: str) -> None:
    """End the deployment's processes and forget it, with its log. Works on dead ones too."""
    folder = paths.deployment(name)
    if find(name) is None and (folder / LOG).is_file():
        shutil.rmtree(folder)  # what a failed start left to be read
        return
    row = get(name)
    with process_group.uninterrupted():
        if row.engine is not None:
            process_group.stop(row.engine)
        _forget(row, folder)


def _is_ours(row: Deployment) -> bool:
    """Whether the store's row of this name still is of this launch."""
    found = find(row.name)
    return found is not None and found.launcher == row.launcher and found.created == row.created


def _is_running(row: Deployment) -> bool:
    """Whether anything of it still runs, also workers whose leader died."""
    return row.engine is not None and bool(process_group.members(row.engine))


def _claim(row: Deployment) -> None:
    """Put a new row into the store; atomic, so that of two deploys of one name one is refused."""
    check_free(row.name)
    stale = find(row.name)
    with transaction() as db:
        if stale is not None:
            db.execute(
                "DELETE FROM deployments WHERE name = ? AND document = ?",
                (row.name, _document(stale)),
            )
        taken = db.execute("SELECT 1 FROM deployments WHERE name = ?", (row.name,)).fetchone()
        if taken:
            raise Blocked(f"another rift is deploying {row.name} right now; give another --name")
        db.execute("INSERT INTO deployments VALUES (?, ?)", (row.name, _document(row)))


def _save(row: Deployment) -> Deployment:
    if not _is_ours(row):
        raise Failed(f"{row.name} was stopped by another rift while it was starting")
    with transaction() as db:
        db.execute("UPDATE deployments SET document = ? WHERE name = ?", (_document(row), row.name))
    return row


def _forget(row: Deployment, folder: Path | None) -> None:
    """Take row out of the store, and its folder away, unless the name is another's by now."""
    if not _is_ours(row):
        return
    with transaction() as db:
        db.execute("DELETE FROM deployments WHERE name = ?", (row.name,))
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _document(row: Deployment) -> str:
    return json.dumps(dataclasses.asdict(row))


def _read(document: str) -> Deployment:
    data = json.loads(document)
    for name in ("launcher", "engine"):
        data[name] = Process(**data[name]) if data[name] else None
    for name in ("command", "notes"):
        data[name] = tuple(data[name])
    return Deployment(**data)
