"""How the host boots: firmware, boot loader, what the kernel was told, what can be written."""

from __future__ import annotations

from dataclasses import dataclass

from rift_provision.facts.tree import Tree

EFIVARS = "/sys/firmware/efi/efivars"
# systemd Boot Loader Interface: the vendor GUID of LoaderInfo.
LOADER_INFO = f"{EFIVARS}/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
# UEFI specification 2.10, section 3.3: global variables.
SECURE_BOOT = f"{EFIVARS}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
ATTRIBUTES_BYTES = 4  # what efivarfs puts before a variable's value
ENTRIES = ("/boot/loader/entries", "/boot/efi/loader/entries", "/efi/loader/entries")
UNIFIED = ("/boot/EFI/Linux", "/boot/efi/EFI/Linux", "/efi/EFI/Linux")


@dataclass(frozen=True)
class Boot:
    """firmware: uefi or bios. command_line: what the running kernel was given.

    loader_info: what the boot loader called itself in a UEFI variable, e.g. "systemd-boot 257" or
    "GRUB 2.12"; None for older GRUBs and on BIOS.
    entries: Boot Loader Specification files that are there; unified: whether there are kernels with
    their command line built in.
    grub_directory: whether grub-mkconfig reads /etc/default/grub.d as well.
    shell: what /bin/sh is, which reads GRUB's settings.
    read_only: of the places that a plan writes to, those mounted read-only.
    """

    id: str
    firmware: str
    command_line: str
    loader_info: str | None
    secure_boot: bool | None
    lockdown: str | None
    entries: tuple[str, ...]
    unified: bool
    grub: bool
    grub_directory: bool
    proxmox_boot_tool: bool
    ostree: bool
    shell: str
    read_only: tuple[str, ...]


def parse_boot(tree: Tree) -> Boot:
    """How the host in a tree booted."""
    return Boot(
        id=tree.value("/proc/sys/kernel/random/boot_id") or "",
        firmware="uefi" if tree.has("/sys/firmware/efi") else "bios",
        command_line=tree.value("/proc/cmdline") or "",
        loader_info=_loader_info(tree),
        secure_boot=_secure_boot(tree),
        lockdown=_lockdown(tree),
        entries=tuple(
            f"{at}/{name}" for at in ENTRIES for name in tree.names(at) if name.endswith(".conf")
        ),
        unified=any(name.endswith(".efi") for at in UNIFIED for name in tree.names(at)),
        grub=any(
            tree.has(f"/boot/{grub}/grub.cfg") and tree.has(f"/usr/sbin/{grub}-mkconfig")
            for grub in ("grub", "grub2")
        ),
        grub_directory=any(
            "default/grub.d" in line for line in tree.lines("/usr/sbin/grub-mkconfig")
        ),
        proxmox_boot_tool=tree.has("/etc/kernel/proxmox-boot-uuids"),
        ostree=tree.has("/run/ostree-booted"),
        shell=tree.target("/bin/sh") or "sh",
        read_only=_read_only(tree),
    )


def _loader_info(tree: Tree) -> str | None:
    entry = tree.entry(LOADER_INFO)
    if entry is None:
        return None
    return entry.content[ATTRIBUTES_BYTES:].decode("utf-16-le", "replace").strip("\0") or None


def _secure_boot(tree: Tree) -> bool | None:
    entry = tree.entry(SECURE_BOOT)
    return None if entry is None else entry.content[ATTRIBUTES_BYTES:] == b"\1"


def _lockdown(tree: Tree) -> str | None:
    """The word in brackets of "none [integrity] confidentiality"."""
    text = tree.value("/sys/kernel/security/lockdown") or ""
    return text.partition("[")[2].partition("]")[0] or None


def _read_only(tree: Tree) -> tuple[str, ...]:
    mounts = [line.split() for line in tree.lines("/proc/self/mounts")]
    options = {mount[1]: mount[3].split(",") for mount in mounts if len(mount) > 3}
    places = ("/", "/boot", "/boot/efi", "/efi", "/etc", "/usr")
    return tuple(place for place in places if "ro" in options.get(place, ()))
