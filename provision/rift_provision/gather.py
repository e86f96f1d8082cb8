"""Brings a host's files and parses them: one round of commands, wherever the host is."""

from __future__ import annotations

import io
import os
import shlex
import subprocess
import sys
from pathlib import Path

from rift.errors import Blocked, Failed, WrongUsage
from rift_provision import inventory, ssh
from rift_provision.facts import Facts, parse
from rift_provision.facts.tree import Tree, from_directory, from_tar
from rift_provision.inventory import Host

COLLECTOR = Path(__file__).parent / "facts" / "collector.py"
LIMIT_S = 120.0  # of all of it; an emulated host took 20 s
GZIP = b"\x1f\x8b\x08"
# As root: some of /proc, /boot and the kernel log is nobody else's.
AS_ROOT = 'if [ "$(id -u)" = 0 ]; then exec python3 -; else exec sudo -n python3 -; fi'
REMOTE = f"exec sh -c {shlex.quote(AS_ROOT)}"  # the login shell may be any


def gather(where: str) -> Facts:
    """The facts of `local`, of a host of the inventory, or of a recorded tree at a path.

    Raises WrongUsage for something else, Failed or Blocked if the host cannot be looked at.
    """
    return parse(collect(where))


def collect(where: str) -> Tree:
    """The files of a host, as `gather` finds it."""
    if where == "local":
        return _local()
    if host := inventory.find(where):
        return _remote(host)
    path = Path(where)
    if path.is_dir():
        return from_directory(path)
    if path.is_file():
        return from_tar(io.BytesIO(path.read_bytes()))
    raise WrongUsage(
        f"{where!r}: no host of that name, no directory and no file; "
        "see rift host list, or say local for this machine"
    )


def _local() -> Tree:
    argv = [sys.executable, str(COLLECTOR)]
    if os.geteuid() != 0 and _may_sudo():
        argv = ["sudo", "-n", *argv]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        raise Failed(f"this machine: facts were not there after {LIMIT_S:g} s") from None
    stderr = done.stderr.decode("utf-8", "replace")
    return _tree("this machine", ssh.Output(done.returncode, done.stdout, stderr))


def _may_sudo() -> bool:
    try:
        return subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0
    except OSError:
        return False


def _remote(host: Host) -> Tree:
    with ssh.connect(host) as connection:
        output = ssh.run(connection, REMOTE, COLLECTOR.read_bytes(), LIMIT_S)
    return _tree(f"host {host.name}", output)


def _tree(name: str, output: ssh.Output) -> Tree:
    """The tree in what came, or why none came."""
    said = output.stderr.strip().splitlines()[-1:] or ["it says nothing"]
    if output.code == 0:
        start = max(output.stdout.find(GZIP), 0)  # a login script may have talked before
        return from_tar(io.BytesIO(output.stdout[start:]))
    if "python3" in output.stderr and "not found" in output.stderr:
        raise Blocked(f"{name}: there is no python3, which looks at the host: install it there")
    if "sudo:" in output.stderr:
        raise Blocked(
            f"{name}: facts need root, and sudo asks or refuses: {said[0]}. Log in as root, or let "
            "the user run sudo without a password"
        )
    raise Failed(f"{name}: looking at it failed with exit code {output.code}: {said[0]}")
