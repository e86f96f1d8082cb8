"""The emulated server, from its PCI tree to a shell on it."""

from __future__ import annotations

import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rig.qemu import Qemu, command

MEMORY_MIB = 2048  # of each of the two NUMA nodes
USER = "admin"

# Two sockets, a NUMA node and a PCI root complex each. `max` is an AMD CPU with SVM, which software
# emulation has, beside an Intel IOMMU, the only emulated one whose state can be saved.
MACHINE = f"""
-machine q35,kernel-irqchip=off -accel tcg,thread=multi,tb-size=512
-cpu max -smp 4,sockets=2,cores=2,threads=1 -m {2 * MEMORY_MIB}
-object memory-backend-ram,id=memory0,size={MEMORY_MIB}M
-object memory-backend-ram,id=memory1,size={MEMORY_MIB}M
-numa node,nodeid=0,cpus=0-1,memdev=memory0 -numa node,nodeid=1,cpus=2-3,memdev=memory1
-numa dist,src=0,dst=1,val=21
-nodefaults -no-user-config -display none -boot order=c,menu=off
-device intel-iommu,intremap=on,caching-mode=on
-device VGA,id=console,bus=pcie.0
-device pxb-pcie,id=complex0,bus=pcie.0,bus_nr=0x40,numa_node=0
-device pxb-pcie,id=complex1,bus=pcie.0,bus_nr=0x80,numa_node=1
-device pcie-root-port,id=port0,bus=complex0,chassis=1,slot=1
-device pcie-root-port,id=port1,bus=complex1,chassis=2,slot=2
-device pcie-root-port,id=port2,bus=complex1,chassis=3,slot=3
-audiodev none,id=silence
-device bochs-display,id=gpu0,bus=port0,addr=0.0,multifunction=on
-device ich9-intel-hda,id=sound0,bus=port0,addr=0.1
-device hda-output,bus=sound0.0,audiodev=silence
-device virtio-gpu-pci,id=gpu1,bus=port1,aer=on,iommu_platform=on
-netdev hubport,id=fabric,hubid=0 -device igb,id=nic0,bus=port2,netdev=fabric
-device virtio-blk-pci,bus=pcie.0,drive=disk -device virtio-rng-pci,bus=pcie.0
-device virtio-net-pci,bus=pcie.0,netdev=management,romfile=
"""

# Enough to finish the installation: boots in half the time.
SMALL = """
-machine q35 -accel tcg,thread=multi -cpu max -smp 2 -m 1024
-nodefaults -no-user-config -display none -no-shutdown
-device virtio-blk-pci,drive=disk -device virtio-rng-pci
-device virtio-net-pci,netdev=management,romfile=
"""


class RigError(Exception):
    """The rig could not be made to do something."""


@dataclass(frozen=True)
class Ssh:
    """How to log in: as a user with passwordless sudo, to a host whose key is known."""

    port: int
    key: Path
    known_hosts: Path
    host: str = "127.0.0.1"
    user: str = USER

    def command(self, *words: str) -> list[str]:
        """An ssh command that asks nothing and trusts no other host key."""
        options = (
            "BatchMode=yes", "StrictHostKeyChecking=yes", f"UserKnownHostsFile={self.known_hosts}",
            "GlobalKnownHostsFile=none", "IdentitiesOnly=yes", "ConnectTimeout=10",
            "LogLevel=ERROR",
        )  # fmt: skip
        return [
            "ssh", "-F", "none", "-i", str(self.key), "-p", str(self.port),
            *(word for option in options for word in ("-o", option)),
            f"{self.user}@{self.host}", *words,
        ]  # fmt: skip


@dataclass(frozen=True)
class Built:
    """What a rig is made of: all of it in the cache, none of it ever written to.

    disk: an image in qcow2 format; memory: the state of the host that booted from it, at its login
    prompt, if one was saved; host_key: what the host's SSH server shows.
    """

    tools: Path
    disk: Path
    memory: Path | None
    key: Path
    host_key: str


class Rig:
    """A running GPU host. Use it as a context: what happens on it is forgotten when that ends.

    It goes on from the saved state, or boots if there is none. `extra` are more arguments of QEMU.
    """

    def __init__(self, built: Built, machine: str = MACHINE, extra: tuple[str, ...] = ()) -> None:
        self.built, self._machine, self._extra = built, machine, extra
        self.directory = Path(tempfile.mkdtemp(prefix="rift-rig-", dir="/var/tmp"))
        self.serial = self.directory / "serial.log"
        self.overlay = self.directory / "disk.qcow2"
        self.ssh = Ssh(_free_port(), built.key, self.directory / "known_hosts")
        address = f"[{self.ssh.host}]:{self.ssh.port}"
        self.ssh.known_hosts.write_text(f"{address} {built.host_key}\n")
        try:
            self.qemu = self._start()
        except BaseException:
            shutil.rmtree(self.directory)
            raise

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self.qemu.stop()
        shutil.rmtree(self.directory)

    def reset(self) -> None:
        """Back to the state it started from: disk, memory, devices. Seconds, if that was saved."""
        self.qemu.stop()
        self.qemu = self._start()

    def run(
        self, *words: str, root: bool = False, check: bool = True, timeout_s: float = 120
    ) -> str:
        """What a command on the host prints. Raises RigError if it fails, unless `check` is off."""
        line = shlex.join(("sudo", *words) if root else words)
        done = subprocess.run(
            self.ssh.command(line), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=timeout_s,
        )  # fmt: skip
        if check and done.returncode:
            raise RigError(f"{line}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def sh(self, script: str, *, root: bool = False, timeout_s: float = 120) -> str:
        """What a shell script on the host prints."""
        return self.run("sh", "-ec", script, root=root, timeout_s=timeout_s)

    def boot_id(self) -> str | None:
        """Which boot of the host answers to SSH, or None if none does."""
        try:
            return self.run("cat", "/proc/sys/kernel/random/boot_id", timeout_s=60).strip()
        except (RigError, subprocess.TimeoutExpired):
            return None

    def wait_for_ssh(self, timeout_s: float = 600, *, other_than: str | None = None) -> str:
        """The boot that answers, once one does. `other_than`: not that one."""
        end = time.monotonic() + timeout_s
        while (boot := self.boot_id()) in (None, other_than):
            if time.monotonic() > end:
                said = self.serial.read_text(errors="replace")[-3000:]
                raise RigError(f"no SSH after {timeout_s} s; the console's last words:\n{said}")
            self.qemu.qmp("query-status")  # says so at once if QEMU is gone
            time.sleep(1)
        assert boot is not None
        return boot

    def reboot(self, timeout_s: float = 600) -> None:
        """Reboot, through firmware and boot loader, and wait until it is there again."""
        before = self.boot_id()
        self.run("systemctl", "reboot", root=True, check=False)
        self.wait_for_ssh(timeout_s, other_than=before)

    def save(self, disk: Path, memory: Path) -> None:
        """Freeze the running host into two files and stop it."""
        self.qemu.qmp("stop")
        self.qemu.qmp("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        self.qemu.qmp("migrate", uri=f"file:{memory}")
        self.qemu.wait_until("postmigrate", 300)
        self.qemu.stop()
        shutil.move(self.overlay, disk)

    def _start(self) -> Qemu:
        self.overlay.unlink(missing_ok=True)
        image = ("create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", str(self.built.disk))
        subprocess.run(command(self.built.tools, "qemu-img", *image, str(self.overlay)), check=True)
        forward = f"hostfwd=tcp:{self.ssh.host}:{self.ssh.port}-:22"
        arguments = [
            *self._machine.split(), *self._extra,
            "-blockdev", f"qcow2,node-name=disk,cache.no-flush=on,file.driver=file,"
            f"file.filename={self.overlay}",
            "-netdev", f"user,id=management,restrict=on,{forward}",
            "-serial", f"file:{self.serial}",
        ]  # fmt: skip
        if self.built.memory:
            arguments += ["-incoming", f"file:{self.built.memory}"]
        qemu = Qemu(self.built.tools, arguments, self.directory / "qemu.log")
        if self.built.memory:
            try:
                qemu.wait_until("paused", 120)  # as it was saved
                qemu.qmp("cont")
            except BaseException:
                qemu.stop()
                raise
        return qemu


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
