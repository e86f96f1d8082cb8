"""The hosts that Rift knows: how to reach each, and the key it must show. No secret is kept."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import asdict, dataclass

from rift.errors import WrongUsage
from rift.store import transaction

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
RESERVED = ("local", "localhost")
SSH_PORT = 22


@dataclass(frozen=True)
class Host:
    """A server and its SSH. key_path: the private key's file, None for an agent or the usual ones.

    host_key: the public key that it showed when it was added, "ssh-ed25519 AAAA...".
    """

    name: str
    address: str
    port: int
    user: str
    key_path: str | None
    host_key: str


def add(host: Host) -> None:
    """Remember a host. Raises WrongUsage if the name cannot be one or is taken."""
    if not NAME.fullmatch(host.name) or host.name in RESERVED:
        raise WrongUsage(
            f"{host.name!r} cannot name a host: letters, digits, dots and dashes, at most 63, "
            f"and not {' or '.join(RESERVED)}"
        )
    with transaction() as db:
        row = (host.name, json.dumps(asdict(host)))
        if not db.execute("INSERT OR IGNORE INTO hosts VALUES (?, ?)", row).rowcount:
            raise _taken(host.name)


def remove(name: str) -> None:
    """Forget a host; the machine itself is left as it is. Raises WrongUsage."""
    with transaction() as db:
        if not db.execute("DELETE FROM hosts WHERE name = ?", (name,)).rowcount:
            raise _unknown(name)


def listed() -> list[Host]:
    """Every host, by name."""
    with transaction() as db:
        return [_host(row) for row in db.execute("SELECT document FROM hosts ORDER BY name")]


def find(name: str) -> Host | None:
    """The host of that name."""
    with transaction() as db:
        row = db.execute("SELECT document FROM hosts WHERE name = ?", (name,)).fetchone()
    return _host(row) if row else None


def get(name: str) -> Host:
    """The host of that name. Raises WrongUsage."""
    if (host := find(name)) is None:
        raise _unknown(name)
    return host


def _host(row: sqlite3.Row) -> Host:
    return Host(**json.loads(row["document"]))


def _unknown(name: str) -> WrongUsage:
    return WrongUsage(
        f"no host {name!r}; see rift host list, or add it: rift host add {name} ADDRESS"
    )


def _taken(name: str) -> WrongUsage:
    return WrongUsage(f"there is a host {name!r} already; rift host remove {name} forgets it")
