"""QEMU 10 from Debian's backports, unpacked rather than installed, and one process of it.

Debian 12's own QEMU 7.2 has no SR-IOV network card. Unpacked with every library it needs, it runs
on any distribution, changes nothing on the machine, and is the same QEMU for everybody, which the
saved state of a running host needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

PACKAGES = ("qemu-system-x86", "qemu-utils")
LIBRARIES = "usr/lib/x86_64-linux-gnu"


class QemuError(Exception):
    """QEMU refused a command, or is gone."""


def unpack(sources: list[str], to: Path) -> None:
    """Fill `to` with QEMU and what it needs, from Debian's packages."""
    subprocess.run(
        [
            "mmdebstrap", "--quiet", "--variant=extract", "--format=dir",
            '--aptopt=APT::Default-Release "bookworm-backports"',
            f"--include={','.join(PACKAGES)}", "bookworm", to / "root", "-",
        ],
        input="\n".join(sources), text=True, check=True,
    )  # fmt: skip


def command(tools: Path, program: str, *arguments: str) -> list[str]:
    """The command that runs one of the unpacked programs with the unpacked libraries."""
    root = tools / "root"
    libraries = f"{root / LIBRARIES}:{root / 'lib/x86_64-linux-gnu'}"
    loader = root / "lib64/ld-linux-x86-64.so.2"
    return [str(loader), "--library-path", libraries, str(root / "usr/bin" / program), *arguments]


class Qemu:
    """A running QEMU. It dies with this process, whatever that dies of."""

    def __init__(self, tools: Path, arguments: list[str], log: Path) -> None:
        root = tools / "root"
        self.log = log
        ours, theirs = socket.socketpair()
        firmware = [
            word
            for path in ("seabios", "qemu", "../lib/ipxe/qemu")
            for word in ("-L", str(root / "usr/share" / path))
        ]
        monitor = [
            "-chardev",
            f"socket,id=qmp,fd={theirs.fileno()}",
            "-mon",
            "chardev=qmp,mode=control",
        ]
        run = ["setpriv", "--pdeathsig", "KILL", *command(tools, "qemu-system-x86_64")]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [*run, *firmware, *monitor, *arguments],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"QEMU_MODULE_DIR": str(root / LIBRARIES / "qemu")},
                start_new_session=True,  # Ctrl-C is for Python, which stops it in order
            )  # fmt: skip
        theirs.close()
        self._socket = ours
        self._lines = ours.makefile("rb")
        self.events: list[dict[str, Any]] = []
        self._receive()
        self.qmp("qmp_capabilities")

    def qmp(self, execute: str, **arguments: Any) -> Any:
        """What a QMP command returns. Raises QemuError if it is refused or QEMU is gone."""
        message = {"execute": execute, "arguments": arguments}
        with contextlib.suppress(BrokenPipeError):
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        while True:
            answer = self._receive()
            if "event" in answer:
                self.events.append(answer)
            elif "error" in answer:
                raise QemuError(f"{execute} {arguments}: {answer['error']['desc']}")
            else:
                return answer["return"]

    def hmp(self, line: str) -> str:
        """What QEMU's human monitor answers to a line. It says there what went wrong, if so."""
        return str(self.qmp("human-monitor-command", **{"command-line": line}))

    def wait_until(self, status: str, timeout_s: float) -> None:
        """Wait until `query-status` says so."""
        end = time.monotonic() + timeout_s
        while (now := self.qmp("query-status")["status"]) != status:
            if time.monotonic() > end:
                raise QemuError(f"still {now!r} after {timeout_s} s: expected {status!r}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it at once. No guest is asked."""
        self.process.kill()
        self.process.wait()
        self._lines.close()
        self._socket.close()

    def _receive(self) -> dict[str, Any]:
        line = self._lines.readline()
        if not line:
            code = self.process.wait()
            said = self.log.read_text(errors="replace")[-2000:]
            raise QemuError(f"QEMU ended, exit code {code}; it said:\n{said}")
        message: dict[str, Any] = json.loads(line)
        return message
