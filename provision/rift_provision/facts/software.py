"""The system and what is installed on it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass

from rift_provision.facts.tree import Tree

INSTALLED = "ii"  # dpkg's state of a package that is wanted and whole
AS_ROOT = re.compile(r'\s*(?:user|group)\s*=\s*"(?:root|\+?0)"')
CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")


@dataclass(frozen=True)
class Unit:
    """A systemd unit: active or not, enabled or not, as systemctl words it."""

    active: str
    enabled: str


@dataclass(frozen=True)
class Software:
    """distribution, like, version: of os-release. container: which kind, None on a real host.

    initramfs_tool: initramfs-tools, dracut or mkinitcpio. packages: version by name.
    units: by name, only those that exist. qemu_as_root: whether libvirt is told to start QEMU so.
    firmware: UEFI images that QEMU's descriptors name.
    lsm: security modules in use, e.g. apparmor, selinux.
    """

    distribution: str
    like: tuple[str, ...]
    version: str
    title: str
    container: str | None
    initramfs_tool: str | None
    package_manager: str | None
    packages: dict[str, str]
    units: dict[str, Unit]
    qemu: str | None
    libvirt: str | None
    qemu_as_root: bool
    firmware: tuple[str, ...]
    lsm: tuple[str, ...]


def parse_software(tree: Tree) -> Software:
    """The software in a tree."""
    release = _os_release(tree)
    return Software(
        distribution=release.get("ID", ""),
        like=tuple(release.get("ID_LIKE", "").split()),
        version=release.get("VERSION_ID", ""),
        title=release.get("PRETTY_NAME", ""),
        container=_container(tree),
        initramfs_tool=_initramfs_tool(tree),
        package_manager=_first(tree, ("apt", "/usr/bin/apt-get"), ("dnf", "/usr/bin/dnf")),
        packages=_packages(tree),
        units=_units(tree),
        qemu=_version(tree, "qemu"),
        libvirt=_version(tree, "libvirt"),
        qemu_as_root=any(AS_ROOT.match(line) for line in tree.lines("/commands/qemu-user")),
        firmware=_firmware(tree),
        lsm=tuple(filter(None, (tree.value("/sys/kernel/security/lsm") or "").split(","))),
    )


def _os_release(tree: Tree) -> dict[str, str]:
    """os-release(5): assignments as a shell would read them, nothing else."""
    found = {}
    for line in tree.lines("/etc/os-release"):
        name, equals, value = line.partition("=")
        if equals and not line.lstrip().startswith("#"):
            found[name.strip()] = "".join(_unquoted(value))
    return found


def _unquoted(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError:  # half a quotation
        return [value]


def _container(tree: Tree) -> str | None:
    named = tree.value("/commands/container")
    if named and named != "none":
        return named
    return "container" if any(tree.has(path) for path in CONTAINER_FILES) else None


def _first(tree: Tree, *choices: tuple[str, str]) -> str | None:
    return next((name for name, path in choices if tree.has(path)), None)


def _initramfs_tool(tree: Tree) -> str | None:
    """By what makes the image: dracut comes with an update-initramfs of its own on Debian."""
    if tree.has("/usr/sbin/update-initramfs") and tree.has("/usr/sbin/mkinitramfs"):
        return "initramfs-tools"
    return _first(
        tree,
        ("dracut", "/usr/bin/dracut"),
        ("dracut", "/usr/sbin/dracut"),
        ("mkinitcpio", "/usr/bin/mkinitcpio"),
    )


def _packages(tree: Tree) -> dict[str, str]:
    rows = [
        line.split("\t")
        for manager in ("dpkg", "rpm")
        for line in tree.lines(f"/commands/{manager}")
    ]
    return {row[0]: row[1] for row in rows if len(row) == 3 and row[2].strip() == INSTALLED}


def _units(tree: Tree) -> dict[str, Unit]:
    found = {}
    for block in "\n".join(tree.lines("/commands/units")).split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if unit.get("LoadState") not in (None, "not-found"):
            found[unit["Id"]] = Unit(unit["ActiveState"], unit.get("UnitFileState", ""))
    return found


def _version(tree: Tree, command: str) -> str | None:
    match = re.search(r"\d+\.\d+\.\d+", tree.text(f"/commands/{command}") or "")
    return match[0] if match else None


def _firmware(tree: Tree) -> tuple[str, ...]:
    """QEMU's firmware descriptors (docs/interop/firmware.json): UEFI images for x86-64."""
    found = set()
    for name in tree.names("/usr/share/qemu/firmware"):
        try:
            described = json.loads(tree.text(f"/usr/share/qemu/firmware/{name}") or "")
            machines = {target["architecture"] for target in described["targets"]}
            if "uefi" in described["interface-types"] and "x86_64" in machines:
                mapping = described["mapping"]
                found.add(mapping.get("executable", mapping)["filename"])
        except (ValueError, KeyError, TypeError):
            continue  # not a descriptor: QEMU and libvirt pass over it too
    return tuple(sorted(found))
