"""From Debian packages to a GPU host at its login prompt. Needs neither root nor loop devices."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

from rig import machine, mirror, qemu
from rig.machine import Built, Rig
from rig.stages import default_cache, stage

GUEST = Path(__file__).with_name("guest")
PACKAGES = (
    "linux-image-amd64", "initramfs-tools", "zstd", "grub-pc", "systemd-sysv", "dbus", "udev",
    "openssh-server", "sudo", "python3", "pciutils", "iproute2", "kmod", "procps", "less",
)  # fmt: skip
# What provisioning may ask for; apt adds what they need.
OFFLINE_PACKAGES = (
    "libvirt-daemon-system", "libvirt-daemon-driver-qemu", "libvirt-clients", "qemu-system-x86",
    "qemu-utils", "ovmf", "python3-apt", "python3-libvirt", "numactl", "genisoimage",
)  # fmt: skip
DISK_MIB = 8192
SECTOR = 512
FIRST_SECTOR = 2048  # 1 MiB: room for the boot loader, as every partitioner leaves it


def build(cache: Path | None = None, say: Callable[[str], None] = print) -> Built:
    """The rig's parts, made where they are missing: minutes the first time, then at once."""
    cache = cache or default_cache()
    recipe = Path(qemu.__file__).read_text()
    tools = stage(cache, "qemu", recipe, lambda to: _tools(to, say))
    guest = [path.read_text() for path in sorted(GUEST.iterdir())]
    recipe = "\n".join([tools.name, machine.SMALL, Path(__file__).read_text(), *guest])
    disk = stage(cache, "disk", recipe, lambda to: _disk(tools, to, say))
    recipe = f"{disk.name} {machine.MACHINE}"
    state = stage(cache, "state", recipe, lambda to: _state(tools, disk, to, say))
    return Built(tools, state / "disk.qcow2", state / "memory", disk / "id", _host_key(disk))


def _host_key(disk: Path) -> str:
    return (disk / "host_key.pub").read_text().rsplit(" ", 1)[0]


def _tools(to: Path, say: Callable[[str], None]) -> None:
    say("rig: QEMU 10 (a minute)")
    qemu.unpack(mirror.sources(), to)


def _disk(tools: Path, to: Path, say: Callable[[str], None]) -> None:
    """Fill `to` with disk.qcow2, which boots by itself, and the keys: id, host_key.pub."""
    say("rig: Debian packages (two minutes)")
    key = to / "id"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rig", "-f", key], check=True
    )
    public = key.with_suffix(".pub").read_text().strip()
    customize = f"{GUEST}/customize.sh \"$1\" '{public}' '{' '.join(OFFLINE_PACKAGES)}'"
    subprocess.run(
        [
            "mmdebstrap", "--quiet", "--variant=minbase", "--format=tar",
            f"--include={','.join(PACKAGES)}", f"--customize-hook={customize}",
            mirror.SUITE, to / "tree.tar", "-",
        ],
        input="\n".join(mirror.sources()), text=True, check=True,
    )  # fmt: skip
    say("rig: disk")
    raw = to / "disk.raw"
    with raw.open("wb") as file:
        file.truncate(DISK_MIB << 20)
        file.write(_partition_table(DISK_MIB * (1 << 20) // SECTOR))
    as_root = [] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--map-auto"]
    subprocess.run([*as_root, GUEST / "pack.sh", to, str(FIRST_SECTOR * SECTOR)], check=True)
    subprocess.run(
        qemu.command(tools, "qemu-img", "convert", "-O", "qcow2", str(raw), str(to / "bare.qcow2")),
        check=True,
    )
    raw.unlink()
    say("rig: boot loader (a minute)")
    kernel = (
        "-kernel", str(to / "vmlinuz"), "-initrd", str(to / "initrd.img"),
        "-append", "root=LABEL=root console=ttyS0",
    )  # fmt: skip
    bare = Built(tools, to / "bare.qcow2", None, key, _host_key(to))
    with Rig(bare, machine.SMALL, kernel) as rig:
        rig.wait_for_ssh()
        rig.sh((GUEST / "finish.sh").read_text(), root=True, timeout_s=600)
        rig.run("systemctl", "poweroff", root=True, check=False)
        rig.qemu.wait_until("shutdown", 120)
        rig.qemu.qmp("quit")
        rig.qemu.process.wait()
        subprocess.run(
            qemu.command(
                tools,
                "qemu-img",
                "convert",
                "-O",
                "qcow2",
                str(rig.overlay),
                str(to / "disk.qcow2"),
            ),
            check=True,
        )
    for left in ("bare.qcow2", "vmlinuz", "initrd.img"):
        (to / left).unlink()


def _partition_table(sectors: int) -> bytes:
    """The first sector of a disk with one Linux partition, in the PC's own format.

    16 bytes an entry from offset 446: flag, three bytes of an address that nobody reads, type,
    three more, first sector, number of sectors (UEFI specification 2.10, table 5.1).
    """
    entry = struct.pack("<B3sB3sII", 0x80, b"", 0x83, b"", FIRST_SECTOR, sectors - FIRST_SECTOR)
    return entry.rjust(446 + len(entry), b"\0").ljust(510, b"\0") + b"\x55\xaa"


def _state(tools: Path, disk: Path, to: Path, say: Callable[[str], None]) -> None:
    """Boot the host for the first time and save it at its login prompt."""
    say("rig: first boot (one to three minutes)")
    built = Built(tools, disk / "disk.qcow2", None, disk / "id", _host_key(disk))
    with Rig(built) as rig:
        rig.wait_for_ssh()
        rig.run("systemctl", "is-system-running", "--wait", check=False, timeout_s=600)
        rig.sh("sync", root=True)
        rig.save(to / "disk.qcow2", to / "memory")
