"""The rig for tests: built once a session, a fresh host for each test in seconds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rift_provision import inventory
from rift_provision.inventory import Host
from rig import Built, Rig, build

NEEDS = ("mmdebstrap", "mkfs.ext4", "ssh", "ssh-keygen", "setpriv")


@pytest.fixture(scope="session")
def built() -> Built:
    """The rig's parts; minutes the first time."""
    if missing := [name for name in NEEDS if shutil.which(name) is None]:
        pytest.skip(f"the rig is built with Debian's {', '.join(missing)}: not here")
    return build()


@pytest.fixture
def rig(built: Built, home: Path) -> Iterator[Rig]:
    """A running GPU host that remembers nothing of other tests, in the inventory as `rig`."""
    with Rig(built) as running:
        running.wait_for_ssh()
        ssh = running.ssh
        inventory.add(Host("rig", ssh.host, ssh.port, ssh.user, str(ssh.key), built.host_key))
        yield running
