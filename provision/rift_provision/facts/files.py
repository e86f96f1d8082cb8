"""Configuration files as they are, to the byte: what a plan edits, and what undo goes back to."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass

from rift_provision.facts.tree import Tree

# What a plan may edit or has to take into account. Other files are none of its business.
KEPT = (
    *("/etc/default/grub", "/etc/default/grub.d/*.cfg", "/etc/kernel/cmdline"),
    *("/etc/kernel/proxmox-boot-uuids", "/etc/kernel/install.conf"),
    *("/boot/loader/entries/*.conf", "/boot/efi/loader/entries/*.conf"),
    *("/efi/loader/entries/*.conf", "/etc/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf"),
    *("/etc/modules", "/etc/modules-load.d/*.conf", "/etc/initramfs-tools/*"),
    *("/etc/dracut.conf.d/*.conf", "/usr/lib/dracut/modules.d/*rift*/*"),
    *("/etc/udev/rules.d/*rift*", "/etc/rift/*", "/usr/lib/rift/*", "/etc/systemd/system/*rift*"),
)


@dataclass(frozen=True)
class File:
    """A file's text, or None if it is no UTF-8; mode in octal as chmod takes it; owner's ids."""

    text: str | None
    mode: str
    uid: int
    gid: int


def parse_files(tree: Tree) -> dict[str, File]:
    """The configuration files in a tree, by path."""
    found = {}
    for path, entry in sorted(tree.files.items()):
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in KEPT):
            found[path] = File(_text(entry.content), f"{entry.mode:04o}", entry.uid, entry.gid)
    return found


def _text(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
