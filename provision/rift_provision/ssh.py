"""One SSH connection to a host of the inventory, which must show the key that was pinned."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import fabric
import paramiko

from rift.errors import Blocked, Failed, WrongUsage
from rift_provision.inventory import SSH_PORT, Host

CONNECT_LIMIT_S = 15
# Nothing is read from ~/.ssh/config: what the inventory says is what is done.
CONFIG = {"load_ssh_configs": False}


@dataclass(frozen=True)
class Output:
    """What a command did."""

    code: int
    stdout: bytes
    stderr: str


def read_host_key(address: str, port: int) -> str:
    """The public key that a server shows: "ssh-ed25519 AAAA...". Raises Failed."""
    try:
        with socket.create_connection((address, port), CONNECT_LIMIT_S) as connection:
            transport = paramiko.Transport(connection)
            try:
                transport.start_client(timeout=CONNECT_LIMIT_S)
                key = transport.get_remote_server_key()
            finally:
                transport.close()
    except (OSError, paramiko.SSHException) as error:
        raise Failed(f"no SSH at {address} port {port}: {error}") from error
    return f"{key.get_name()} {key.get_base64()}"


def fingerprint(host_key: str) -> str:
    """A key's fingerprint as ssh-keygen -l shows it: SHA256:..."""
    digest = hashlib.sha256(base64.b64decode(host_key.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


@contextlib.contextmanager
def connect(host: Host) -> Iterator[fabric.Connection]:
    """An open connection. Raises Failed if there is none, Blocked if it is not the same host."""
    with fabric.Connection(
        host.address,
        user=host.user,
        port=host.port,
        config=fabric.Config(overrides=CONFIG),
        connect_timeout=CONNECT_LIMIT_S,
        connect_kwargs=_keys(host),
    ) as connection:
        pin(connection.client, host)
        _open(connection, host)
        yield connection


def pin(client: paramiko.SSHClient, host: Host) -> None:
    """Make the client accept the host's pinned key and no other."""
    kind, data = host.host_key.split()
    key = paramiko.PKey.from_type_string(kind, base64.b64decode(data))
    known_as = host.address if host.port == SSH_PORT else f"[{host.address}]:{host.port}"
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    client.get_host_keys().add(known_as, kind, key)


def run(connection: fabric.Connection, line: str, stdin: bytes, limit_s: float) -> Output:
    """Run a shell line on the host, with bytes in and out. Raises Failed if it takes too long."""
    channels = connection.client.exec_command(line, timeout=limit_s)
    try:
        channels[0].write(stdin)
        channels[0].channel.shutdown_write()
        stdout, stderr = channels[1].read(), channels[2].read()
    except (OSError, paramiko.SSHException) as error:
        name = connection.host
        raise Failed(f"{name}: no answer within {limit_s:g} s ({error or 'timed out'})") from error
    code = channels[1].channel.recv_exit_status()
    return Output(code, stdout, stderr.decode("utf-8", "replace"))


def _keys(host: Host) -> dict[str, object]:
    if host.key_path is None:
        return {}
    path = Path(host.key_path).expanduser()
    if not path.is_file():
        raise WrongUsage(f"host {host.name}: its SSH key {path} is not there")
    return {"key_filename": str(path), "look_for_keys": False, "allow_agent": False}


def _open(connection: fabric.Connection, host: Host) -> None:
    where = f"host {host.name} ({host.user}@{host.address} port {host.port})"
    try:
        connection.open()
    except paramiko.BadHostKeyException as error:
        shown = fingerprint(f"{error.key.get_name()} {error.key.get_base64()}")
        raise Blocked(
            f"{where} shows another key than when it was added: expected "
            f"{fingerprint(host.host_key)}, got {shown}. If it was reinstalled: rift host remove "
            f"{host.name} and add it again; if not, somebody is in between"
        ) from error
    except paramiko.AuthenticationException as error:
        raise Failed(
            f"{where} refuses the login ({error}): add it again with the right --user and --key"
        ) from error
    except (OSError, paramiko.SSHException) as error:
        raise Failed(f"{where}: no SSH: {error}") from error
