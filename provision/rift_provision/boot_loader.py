"""Which boot loader the host uses, and where that keeps the kernel command line.

Guessing here makes a host that does not boot, or a change that never takes effect: what the loader
said of itself in UEFI wins, then what it left on the kernel command line; anything else is refused.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rift.errors import Blocked
from rift_provision import grub_settings
from rift_provision.facts import Facts
from rift_provision.facts.files import File
from rift_provision.grub_settings import GrubFile
from rift_provision.kernel_options import Change

RESCUE = "-0-rescue"
KERNEL_CMDLINE = "/etc/kernel/cmdline"
PROXMOX_REFRESH = ("proxmox-boot-tool", "refresh")
OPTIONS = re.compile(r"^(\s*options[ \t]+)(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Loader:
    """How the command line is kept and made to take effect.

    kind: grub, entries (files of the Boot Loader Specification) or proxmox (systemd-boot that
    proxmox-boot-tool sets up). files: where the command line stands, in the order they are read.
    refresh: the command that carries a change to where the loader reads it, None if it reads the
    files themselves.
    """

    kind: str
    title: str
    files: tuple[str, ...]
    refresh: tuple[str, ...] | None


def loader_of(facts: Facts) -> Loader:
    """The host's boot loader. Raises Blocked if it is none that Rift can set, saying which."""
    boot = facts.boot
    if boot.ostree:
        raise Blocked(
            "this system is an image (ostree): its kernel command line is changed with "
            "rpm-ostree kargs, which Rift does not do"
        )
    if (boot.loader_info or "").startswith("systemd-boot"):
        return _systemd_boot(facts)
    if boot.grub and _started_by_grub(facts):
        return _grub(facts)
    raise Blocked(
        f"unknown boot loader: it calls itself {boot.loader_info or 'nothing'}, firmware is "
        f"{boot.firmware}, GRUB is {'installed' if boot.grub else 'not installed'}; known are GRUB "
        "and systemd-boot. Set the kernel command line by hand"
    )


def configured(facts: Facts, loader: Loader) -> str:
    """The command line that the next boot gets as far as the files say; of entries, the one that
    is like the running kernel's, else the last."""
    if loader.kind == "grub":
        return grub_settings.command_line(_grub_files(facts, loader), facts.boot.shell)
    texts = {path: _text(facts.files, path) for path in loader.files}
    if loader.kind == "proxmox":
        return texts[KERNEL_CMDLINE].strip()
    entries = {path: text for path, text in texts.items() if path != KERNEL_CMDLINE}
    running = [text for path, text in entries.items() if facts.machine.kernel in path + text]
    match = OPTIONS.search((running or list(entries.values()))[-1])
    return match[2].strip() if match else ""


def edit(facts: Facts, loader: Loader, change: Change) -> dict[str, File]:
    """The files that a change of the command line changes, as they are then. Raises Blocked."""
    if not change:
        return {}
    if loader.kind == "grub":
        edited = {
            file.path: file.text
            for file in grub_settings.edit(_grub_files(facts, loader), change, facts.boot.shell)
        }
    else:
        edited = {path: _edited(path, _text(facts.files, path), change) for path in loader.files}
    return {
        path: replace(facts.files.get(path, File(None, "0644", 0, 0)), text=text)
        for path, text in edited.items()
        if path not in facts.files or facts.files[path].text != text
    }


def _started_by_grub(facts: Facts) -> bool:
    """GRUB puts BOOT_IMAGE= first; newer ones also name themselves to UEFI."""
    named = (facts.boot.loader_info or "").startswith("GRUB")
    return named or facts.boot.command_line.startswith("BOOT_IMAGE=")


def _systemd_boot(facts: Facts) -> Loader:
    boot, title = facts.boot, facts.boot.loader_info or ""
    if boot.proxmox_boot_tool:
        _text(facts.files, KERNEL_CMDLINE)
        title += ", proxmox-boot-tool"
        return Loader("proxmox", title, (KERNEL_CMDLINE,), PROXMOX_REFRESH)
    if boot.unified or not boot.entries:
        raise Blocked(
            f"{title} starts a unified kernel image, which has its command line built in; "
            "Rift can change entries below loader/entries only"
        )
    return Loader("entries", title, _entries(facts), None)


def _grub(facts: Facts) -> Loader:
    title = facts.boot.loader_info or "GRUB"
    if facts.boot.entries and facts.software.package_manager == "dnf" and _reads_entries(facts):
        return Loader("entries", f"{title}, Boot Loader Specification", _entries(facts), None)
    files = [path for path in facts.files if posixpath.dirname(path) == "/etc/default/grub.d"]
    if not facts.boot.grub_directory:
        files = []
    return Loader("grub", title, (grub_settings.MAIN, *sorted(files)), _grub_refresh(facts))


def _reads_entries(facts: Facts) -> bool:
    main = GrubFile(grub_settings.MAIN, _text(facts.files, grub_settings.MAIN, ""))
    return grub_settings.setting([main], "GRUB_ENABLE_BLSCFG", facts.boot.shell) != "false"


def _grub_refresh(facts: Facts) -> tuple[str, ...]:
    if facts.boot.proxmox_boot_tool:  # GRUB reads a copy on the EFI partitions
        return PROXMOX_REFRESH
    if facts.software.package_manager == "apt":
        return ("update-grub",)
    return ("grub2-mkconfig", "-o", "/boot/grub2/grub.cfg")


def _entries(facts: Facts) -> tuple[str, ...]:
    """The entries, and what kernels that are installed later get theirs from.

    Not the rescue entry: it stays a way to boot without what was added.
    """
    entries = tuple(path for path in facts.boot.entries if RESCUE not in path)
    for path in entries:
        match = OPTIONS.search(_text(facts.files, path))
        if match and "$kernelopts" in match[2]:
            raise Blocked(
                f"{path} takes its options from grubenv ($kernelopts); make them literal first: "
                "grub2-mkconfig -o /boot/grub2/grub.cfg --update-bls-cmdline"
            )
    later = (KERNEL_CMDLINE,) if KERNEL_CMDLINE in facts.files else ()
    return (*entries, *later)


def _edited(path: str, text: str, change: Change) -> str:
    """One entry, or the file with nothing but a command line, with words changed in place."""
    if path == KERNEL_CMDLINE:
        start, end = 0, len(text.rstrip("\n"))
    else:
        match = list(OPTIONS.finditer(text))[-1:]
        if not match:
            raise Blocked(f"{path} has no line of options")
        start, end = match[0].span(2)
    return text[:start] + _changed(text[start:end], change) + text[end:]


def _changed(line: str, change: Change) -> str:
    """The line with words taken out and others put at its end, blanks between as they were."""
    for word in change.remove:
        line = re.sub(rf"(?:^|(?<=\s)){re.escape(word)}(?:\s|$)", "", line)
    old = line.rstrip() if change.add or change.remove else line
    return " ".join(filter(None, (old, *change.add)))


def _grub_files(facts: Facts, loader: Loader) -> list[GrubFile]:
    return [GrubFile(path, _text(facts.files, path, "")) for path in loader.files]


def _text(files: Mapping[str, File], path: str, default: str | None = None) -> str:
    if path not in files and default is not None:
        return default
    if path not in files:
        raise Blocked(f"{path} is not there, though this boot loader is set with it")
    text = files[path].text
    if text is None:
        raise Blocked(f"{path} is not UTF-8 text: edit it by hand")
    return text
