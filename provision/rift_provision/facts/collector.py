"""Runs on the host, as root, with nothing but Python 3.8 or newer: a tar of what it is.

Sent through SSH to `python3 -`, it writes a gzipped tar archive to stdout: the files, links and
command outputs that `rift_provision.facts` reads (see `tree`). It changes nothing, and reads
nothing that could wake a sleeping PCI device: a graphics card lost after a failed reset can hang
the CPU that asks it for its configuration. Link speeds do ask the device, so they are read
last, from devices in D0 that the kernel log has no complaint about, in a process that may hang
alone.
"""

from __future__ import annotations

import glob
import gzip
import io
import os
import re
import select
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

FILE_LIMIT = 4 << 20
COMMAND_LIMIT_S = 15
LINK_LIMIT_S = 2
KERNEL = os.uname().release
PCI = "/sys/bus/pci/devices/*/"
CPU = "/sys/devices/system/cpu/"
NODE = "/sys/devices/system/node/"
MODULES = "/lib/modules/" + KERNEL

# Files whose content is taken.
FILES = [
    *("/proc/cmdline", "/proc/cpuinfo", "/proc/meminfo", "/proc/modules", "/proc/version"),
    *("/proc/self/mounts", "/proc/swaps", "/proc/net/route", "/proc/net/ipv6_route"),
    "/proc/sys/kernel/random/boot_id",
    *("/etc/os-release", "/etc/default/grub", "/etc/default/grub.d/*.cfg"),
    *("/etc/kernel/cmdline", "/etc/kernel/install.conf", "/etc/kernel/proxmox-boot-uuids"),
    *("/boot/loader/loader.conf", "/boot/loader/entries/*.conf", "/boot/grub2/grubenv"),
    *("/boot/efi/loader/entries/*.conf", "/efi/loader/entries/*.conf"),
    *("/etc/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf", "/run/modprobe.d/*.conf"),
    *("/etc/modules", "/etc/modules-load.d/*.conf", "/etc/initramfs-tools/*.conf"),
    *("/etc/initramfs-tools/modules", "/etc/initramfs-tools/*/*rift*"),
    *("/etc/initramfs-tools/scripts/*/*rift*", "/etc/dracut.conf.d/*.conf"),
    "/usr/lib/dracut/modules.d/*rift*/*",
    *("/etc/udev/rules.d/*.rules", "/etc/rift/*", "/run/rift/*", "/usr/lib/rift/*"),
    "/etc/systemd/system/*rift*",
    *("/usr/share/qemu/firmware/*.json", "/sys/fs/selinux/enforce"),
    *("/sys/kernel/security/lsm", "/sys/kernel/security/lockdown"),
    "/sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f",
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
    *("/sys/class/dmi/id/*_vendor", "/sys/class/dmi/id/*_name", "/sys/class/dmi/id/bios_*"),
    *(PCI + name for name in ("vendor", "device", "class", "revision", "subsystem_vendor")),
    *(PCI + name for name in ("subsystem_device", "numa_node", "resource", "reset_method")),
    *(PCI + name for name in ("boot_vga", "driver_override", "power_state", "d3cold_allowed")),
    *(PCI + name for name in ("power/control", "power/runtime_status", "aer_dev_*")),
    *(PCI + name for name in ("sriov_totalvfs", "sriov_numvfs")),
    *("/sys/kernel/iommu_groups/*/type", "/sys/kernel/iommu_groups/*/reserved_regions"),
    *(CPU + name for name in ("online", "present", "possible", "smt/control", "smt/active")),
    CPU + "cpu[0-9]*/topology/*_id",
    CPU + "cpu[0-9]*/topology/thread_siblings_list",
    CPU + "cpu[0-9]*/cache/index3/shared_cpu_list",
    *(NODE + name for name in ("online", "has_cpu", "has_memory")),
    *(NODE + "node[0-9]*/" + name for name in ("cpulist", "meminfo", "distance")),
    NODE + "node[0-9]*/hugepages/*/*_hugepages",
    "/sys/class/block/dm-*/dm/name",
    "/sys/module/*/parameters/disable_idle_d3",
    "/sys/module/apparmor/parameters/enabled",
    "/proc/driver/nvidia/gpus/*/information",
    MODULES + "/modules.builtin",
]
# Links that are taken as links; what they lead to is not read.
LINKS = [
    *("/bin/sh", PCI + "driver", PCI + "iommu_group", PCI + "physfn", PCI + "virtfn*"),
    *("/sys/class/block/*", "/sys/class/block/*/slaves/*", "/sys/class/net/*"),
    "/sys/class/net/*/lower_*",
    *("/sys/class/drm/card*", "/sys/class/drm/render*", "/sys/class/sound/card*"),
    "/sys/class/iommu/*",
]
# What is only noted to be there.
NAMES = [
    *("/sys/module/*", "/sys/bus/pci/drivers/*", "/sys/firmware/acpi/tables/*"),
    *("/sys/firmware/efi", "/run/ostree-booted", "/.dockerenv", "/run/.containerenv"),
    *("/boot/vmlinuz*", "/boot/initr*", "/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"),
    *("/boot/*.efi", "/boot/EFI/Linux/*.efi", "/boot/efi/EFI/Linux/*.efi"),
    *("/efi/EFI/Linux/*.efi", MODULES + "/kernel/drivers/vfio/pci/*"),
    *("/usr/sbin/update-grub", "/usr/sbin/grub2-mkconfig"),
    *("/usr/sbin/grubby", "/usr/bin/kernel-install", "/usr/sbin/proxmox-boot-tool"),
    *("/usr/sbin/update-initramfs", "/usr/sbin/mkinitramfs", "/usr/bin/dracut", "/usr/sbin/dracut"),
    *("/usr/bin/mkinitcpio", "/usr/share/OVMF/*", "/usr/bin/rpm-ostree"),
    *("/usr/bin/dnf", "/usr/bin/apt-get"),
]
# Of these, only lines that match.
GREP = [
    ("/usr/sbin/grub-mkconfig", "default/grub.d"),
    (MODULES + "/modules.alias", "^alias vfio_pci:"),
]
PCI_IDS = ["/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"]
LINK_STATE = ["current_link_speed", "current_link_width", "max_link_speed", "max_link_width"]
# Of QEMU's settings, which hold passwords, whom it runs as.
QEMU_CONF = "/etc/libvirt/qemu.conf"
QEMU_USER = re.compile(r"\s*(user|group)\s*=")
# What of the kernel log is kept.
LOG = re.compile(
    r"DMAR|AMD-Vi|iommu|vfio|AER|DPC|NVRM|nouveau|amdgpu|pciehp|D3cold|FLR|not ready"
    r"|header type|can't (reserve|assign)|BOOTFB|efifb|simple-?framebuffer|simpledrm"
    r"|huge(tlb|pages)|apparmor=\"DENIED\"|command line:|soft lockup|pending transaction"
    r"|lockdown|unknown kernel command line|kvm.*disabled",
    re.IGNORECASE,
)
TROUBLE = re.compile(
    r"giving up|inaccessible|header type 7f|not ready \d+ms|pending transaction|containment event"
)
PACKAGES = ["qemu*", "libvirt*", "ovmf", "edk2-ovmf", "pve-qemu-kvm", "pve-manager", "nvidia-*"]
UNITS = [
    *("libvirtd.service", "libvirtd.socket", "virtqemud.service", "virtqemud.socket"),
    *("display-manager.service", "nvidia-persistenced.service", "nvidia-fabricmanager.service"),
    *("rift-hugepages.service", "ksmtuned.service"),
]
DPKG_LINE = "${Package}\t${Version}\t${db:Status-Abbrev}\n"
RPM_LINE = "%{NAME}\t%{VERSION}-%{RELEASE}\tii\n"
INITRAMFS = re.compile(r"vfio|rift|nvidia|nouveau|modprobe\.d/")
COMMANDS = {
    "dmesg": ["dmesg"],
    "journal": ["journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short-monotonic"],
    "dpkg": ["dpkg-query", "-W", "-f", DPKG_LINE, *PACKAGES],
    "rpm": ["rpm", "-qa", "--qf", RPM_LINE, *PACKAGES],
    "units": ["systemctl", "show", "-p", "Id,LoadState,ActiveState,UnitFileState", *UNITS],
    "container": ["systemd-detect-virt", "--container"],
    "qemu": ["sh", "-c", "qemu-system-x86_64 --version || /usr/libexec/qemu-kvm --version"],
    "libvirt": ["sh", "-c", "libvirtd --version || virtqemud --version"],
    "lsinitramfs": ["lsinitramfs", "/boot/initrd.img-" + KERNEL],
    "lsinitrd": ["sh", "-c", "command -v lsinitramfs >/dev/null || lsinitrd"],
}
KEEP = {"dmesg": LOG, "journal": LOG, "lsinitramfs": INITRAMFS, "lsinitrd": INITRAMFS}


class Archive:
    """The archive being written: every path once, links as links."""

    def __init__(self, stream: BinaryIO) -> None:
        self._gzip = gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=1, mtime=0)
        self._tar = tarfile.open(fileobj=self._gzip, mode="w|")  # noqa: SIM115 (see close)
        self._seen: set[str] = set()
        self._real: dict[str, str] = {"/": ""}

    def close(self) -> None:
        """Write the end of it."""
        self._tar.close()
        self._gzip.close()

    def real(self, path: str) -> str:
        """The path with the links on the way followed, each of them archived."""
        if path not in self._real:
            there = self.real(os.path.dirname(path)) + "/" + os.path.basename(path)
            target = self.link(there)
            if target is not None:
                there = self.real(os.path.normpath(os.path.join(os.path.dirname(there), target)))
            self._real[path] = there
        return self._real[path]

    def link(self, path: str) -> str | None:
        """Archive a link whose directory is real, and return where it leads."""
        if not os.path.islink(path):
            return None
        info = tarfile.TarInfo(path.lstrip("/"))
        info.type, info.linkname = tarfile.SYMTYPE, os.readlink(path)
        self._add(info, b"")
        return info.linkname

    def only_link(self, path: str) -> None:
        """Archive a link, and not what it leads to."""
        self.link(self.real(os.path.dirname(path)) + "/" + os.path.basename(path))

    def file(self, path: str, content: bytes | None = None) -> None:
        """Archive a file, with its own content or the given. Nothing if it cannot be read."""
        there = self.real(path)
        info = tarfile.TarInfo(there.lstrip("/"))
        try:
            if content is None:
                with open(there, "rb") as file:
                    content = file.read(FILE_LIMIT)
            seen = os.stat(there)
        except OSError:
            return
        info.mode, info.uid, info.gid = seen.st_mode & 0o7777, seen.st_uid, seen.st_gid
        self._add(info, content)

    def output(self, name: str, content: bytes) -> None:
        """Archive what a command printed."""
        info = tarfile.TarInfo("commands/" + name)
        info.mode = 0o644
        self._add(info, content)

    def _add(self, info: tarfile.TarInfo, content: bytes) -> None:
        if info.name not in self._seen:
            self._seen.add(info.name)
            info.size = len(content)
            self._tar.addfile(info, io.BytesIO(content))


def command(name: str, argv: list[str]) -> bytes | None:
    """What a command prints on stdout; None if that is nothing, it is missing, or too slow."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_LIMIT_S,
            env={**os.environ, "LC_ALL": "C", "PATH": path},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if name not in KEEP or not done.stdout:
        return done.stdout or None
    lines = done.stdout.decode("utf-8", "replace").splitlines(True)
    return "".join(filter(KEEP[name].search, lines)).encode()


def who() -> bytes:
    """What Python itself knows: root or not, the kernel, which Python."""
    system = os.uname()
    facts = {
        "uid": os.geteuid(),
        "system": system.sysname,
        "kernel": system.release,
        "machine": system.machine,
        "hostname": system.nodename,
        "python": ".".join(map(str, sys.version_info[:3])),
        "time": int(time.time()),
    }
    return "".join(f"{key}={value}\n" for key, value in facts.items()).encode()


def device_users() -> bytes:
    """Which processes have a graphics, sound or VFIO device open: pid, name, device."""
    found = []
    for directory in glob.glob("/proc/[0-9]*/fd"):
        process = os.path.dirname(directory)
        name = re.sub(r"\s", "?", read(process + "/comm"))  # a program may call itself anything
        for path in sorted(open_files(directory)):
            if re.match("/dev/(dri|nvidia|snd|vfio|kfd|fb)", path):
                found.append(f"{os.path.basename(process)}\t{name}\t{path}\n")
    return "".join(sorted(found)).encode()


def open_files(directory: str) -> set[str]:
    """Where the links in a process's fd directory lead; nothing once it has ended."""
    try:
        return {os.readlink(os.path.join(directory, fd)) for fd in os.listdir(directory)}
    except OSError:
        return set()


def pci_names() -> bytes:
    """The part of pci.ids about the vendors that this host has devices of."""
    vendors = {read(path)[2:] for path in glob.glob(PCI + "*vendor")}
    known = [path for path in PCI_IDS if os.path.exists(path)]
    if not known:
        return b""
    kept, keep = [], False
    with open(known[0], encoding="utf-8", errors="replace") as file:
        for line in file:
            if line[:1] not in "#\t\n":
                keep = line[:4] in vendors
            if keep and not line.startswith("\t\t"):
                kept.append(line)
    return "".join(kept).encode()


def qemu_user() -> bytes:
    """The lines that say whom QEMU runs as."""
    lines = read(QEMU_CONF).splitlines(True)
    return "".join(line for line in lines if QEMU_USER.match(line)).encode()


def pci_links(log: str) -> bytes:
    """Speed and width of the links of devices that are awake and above suspicion."""
    complaints = "\n".join(line for line in log.splitlines() if TROUBLE.search(line))
    asked = [
        path
        for path in sorted(glob.glob(PCI))
        if os.path.basename(path[:-1]) not in complaints and read(path + "power_state") == "D0"
    ]
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        for descriptor in (0, 1, 2):  # else SSH waits for this process as well
            os.close(descriptor)
        for path in (directory + name for directory in asked for name in LINK_STATE):
            os.write(writer, f"{path}\t{read(path)}\n".encode())
        os._exit(0)
    os.close(writer)
    return drain(reader, child)


def drain(reader: int, child: int) -> bytes:
    """What the child writes until it ends or its time is up. One that hangs is left alone."""
    text, end = b"", time.monotonic() + LINK_LIMIT_S
    while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
        more = os.read(reader, 1 << 16)
        if not more:
            os.waitpid(child, 0)
            return text
        text += more
    return text + b"hung\n"


def read(path: str) -> str:
    """A small file's text without the white space around it; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def matching(patterns: Iterable[str]) -> Iterator[str]:
    """Every path that one of the patterns matches."""
    for pattern in patterns:
        yield from sorted(glob.glob(pattern))


def files(archive: Archive) -> None:
    """Archive all that is read, linked to or there. Of a path on two lists the first counts."""
    for path, wanted in GREP:
        lines = read(path).splitlines(True)
        archive.file(path, "".join(line for line in lines if re.search(wanted, line)).encode())
    for path in matching(FILES):
        archive.file(path)
    for path in matching(LINKS):
        archive.only_link(path)
    for path in matching(NAMES):
        archive.file(path, b"")


def main() -> None:
    """Write the archive to stdout."""
    archive = Archive(sys.stdout.buffer)
    with ThreadPoolExecutor(len(COMMANDS)) as pool:  # they run while files are read
        running = {name: pool.submit(command, name, argv) for name, argv in COMMANDS.items()}
        archive.output("who", who())
        archive.output("device-users", device_users())
        archive.output("pci-names", pci_names())
        archive.output("qemu-user", qemu_user())
        files(archive)
        printed = {name: future.result() for name, future in running.items()}
    for name, text in printed.items():
        if text is not None:  # empty, if nothing of it was to be kept
            archive.output(name, text)
    log = (printed["dmesg"] or b"") + (printed["journal"] or b"")
    archive.output("pci-links", pci_links(log.decode("utf-8", "replace")))
    archive.close()


if __name__ == "__main__":
    main()
