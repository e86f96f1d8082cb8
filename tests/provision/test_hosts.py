"""Hosts over SSH: a real sshd on loopback. Pinned keys, logins, and facts in one round."""

from __future__ import annotations

import getpass
import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rift import cli
from rift.errors import Blocked, Failed
from rift_provision import inventory, ssh
from rift_provision.gather import _tree, gather
from rift_provision.ssh import Output

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
HOST = inventory.Host("h1", "192.0.2.1", 22, "root", None, "ssh-ed25519 AAAA")


@dataclass
class Server:
    """An sshd: where, and the key file that it lets in."""

    port: int
    key: Path
    host_key: Path
    process: subprocess.Popen[bytes]


def keygen(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def serve(directory: Path, port: int) -> Server:
    host_key, key = keygen(directory / "host_key"), keygen(directory / "id")
    (directory / "authorized_keys").write_text((directory / "id.pub").read_text())
    (directory / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {host_key}\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {directory}/authorized_keys\nStrictModes no\n"
        "PermitRootLogin yes\nPasswordAuthentication no\n"
    )
    process = subprocess.Popen(
        [SSHD, "-D", "-f", str(directory / "sshd_config")], stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return Server(port, key, host_key, process)
        except OSError:
            assert process.poll() is None, "sshd ended"
            assert time.monotonic() < end, "sshd does not listen"
            time.sleep(0.05)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    if not Path(SSHD).exists():
        pytest.skip("no sshd here: apt-get install openssh-server")
    Path("/run/sshd").mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    made = serve(tmp_path, port)
    yield made
    made.process.terminate()
    made.process.wait()


def rift(*argv: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        cli.main(list(argv))
    return int(stopped.value.code or 0)


def add(server: Server, *more: str) -> int:
    where = ("127.0.0.1", "--port", str(server.port), "--key", str(server.key))
    return rift("host", "add", "h1", *where, "--user", getpass.getuser(), *more)


def test_a_host_is_added_looked_at_listed_and_forgotten(
    server: Server, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(server) == 0
    shown = subprocess.run(
        ["ssh-keygen", "-lf", f"{server.host_key}.pub"], capture_output=True, text=True, check=True
    ).stdout.split()[1]
    assert shown in capsys.readouterr().err

    assert rift("host", "facts", "h1", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["machine"]["hostname"] == socket.gethostname()
    assert facts["boot"] == json.loads(json.dumps(facts["boot"]))
    assert gather("h1").pci == gather("local").pci

    assert rift("host", "list", "--json") == 0
    assert [host["name"] for host in json.loads(capsys.readouterr().out)] == ["h1"]
    assert rift("host", "remove", "h1") == 0
    assert rift("host", "facts", "h1") == 2


def test_another_host_key_is_refused_before_anything_is_sent(server: Server, home: Path) -> None:
    assert add(server) == 0
    server.process.terminate()
    server.process.wait()
    for name in ("host_key", "host_key.pub", "id", "id.pub"):
        (server.host_key.parent / name).unlink()
    again = serve(server.host_key.parent, server.port)

    with pytest.raises(Blocked, match="another key"):
        gather("h1")

    again.process.terminate()
    again.process.wait()


def test_a_host_that_shows_another_fingerprint_is_not_added(
    server: Server, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(server, "--fingerprint", "SHA256:somethingelse") == 4
    assert inventory.listed() == []
    assert "expected SHA256:somethingelse" in capsys.readouterr().err


def test_a_key_that_is_not_let_in(server: Server, home: Path, tmp_path: Path) -> None:
    assert add(server) == 0
    other = keygen(tmp_path / "other")
    host = replace(inventory.get("h1"), key_path=str(other))

    with pytest.raises(Failed, match="refuses the login"), ssh.connect(host):
        pass


def test_nobody_listens(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        port = str(taken.getsockname()[1])
        assert rift("host", "add", "h1", "127.0.0.1", "--port", port) == 1
    assert f"no SSH at 127.0.0.1 port {port}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["", "local", "a b", "-x", "a/b", "x" * 64])
def test_names_that_cannot_be(name: str, home: Path) -> None:
    with pytest.raises(Exception, match="cannot name a host"):
        inventory.add(replace(HOST, name=name))


def test_a_name_is_taken_once(home: Path) -> None:
    inventory.add(HOST)

    with pytest.raises(Exception, match="already"):
        inventory.add(HOST)

    assert inventory.listed() == [HOST]


@pytest.mark.parametrize(
    ("output", "error", "said"),
    [
        (Output(1, b"", "sudo: a password is required\n"), Blocked, "sudo asks or refuses"),
        (Output(1, b"", "sudo: python3: command not found\n"), Blocked, "no python3"),
        (Output(127, b"", "sh: 1: exec: python3: not found\n"), Blocked, "no python3"),
        (Output(127, b"", "sh: 1: sudo: not found\n"), Blocked, "root"),
        (Output(3, b"", "boom\n"), Failed, "exit code 3: boom"),
        (Output(0, b"Welcome!\n", ""), Failed, "not a whole"),
    ],
)
def test_what_came_instead_of_facts(output: Output, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        _tree("host h1", output)
