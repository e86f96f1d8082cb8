"""QEMU, libvirt and UEFI firmware for VMs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rift_provision.requirements.part import Case, Finding, Part, Verdict

# Per package manager: what brings KVM VMs with UEFI, and what has to run.
PACKAGES = {
    "apt": (
        *("qemu-system-x86", "qemu-utils", "libvirt-daemon-system", "libvirt-daemon-driver-qemu"),
        *("libvirt-clients", "ovmf"),
    ),
    "dnf": ("qemu-kvm", "qemu-img", "libvirt-daemon-kvm", "libvirt-client", "edk2-ovmf"),
}
UNITS = {
    "apt": ("libvirtd.service",),
    "dnf": ("virtqemud.socket", "virtnodedevd.socket", "virtnetworkd.socket"),
}
PROXMOX = "pve-manager"
ENABLED = ("enabled", "enabled-runtime", "static", "indirect")
QEMU_CONF = "/etc/libvirt/qemu.conf"
# Firmware that virt-aa-helper kept from a VM (void-linux/void-packages#32562).
REFUSED = "/usr/share/qemu/"
DENIED = re.compile(r'apparmor="DENIED".*(?:libvirt|virt-aa-helper|qemu)')


def software(case: Case) -> Part:
    """What is installed and runs. On Proxmox, which has its own, nothing is added."""
    if PROXMOX in case.facts.software.packages:
        why = "Proxmox brings its own QEMU and manages its VMs"
        return Part((Finding("packages", "", "Proxmox VE", Verdict.OK, why),))
    manager = case.facts.software.package_manager or ""
    packages = tuple(
        name for name in PACKAGES.get(manager, ()) if name not in case.facts.software.packages
    )
    units = tuple(name for name in UNITS.get(manager, ()) if not _runs(case, name))
    findings = (
        Finding(
            "packages",
            "",
            f"missing: {', '.join(packages)}" if packages else _versions(case),
            Verdict.WILL_FIX if packages else Verdict.OK,
            "they run the VMs",
            f"install with {manager}" if packages else "",
        ),
        Finding(
            "services",
            "",
            f"not running: {', '.join(units)}" if units else "libvirt runs",
            Verdict.WILL_FIX if units else Verdict.OK,
            "VMs are managed through it",
            "enable and start" if units else "",
        ),
    )
    return Part((*findings, *_confinement(case)), packages=packages, units=units)


def _runs(case: Case, name: str) -> bool:
    """libvirtd may sleep behind its socket, which starts it when it is asked."""
    names = (name, name.replace(".service", ".socket"))
    found = [unit for key, unit in case.facts.software.units.items() if key in names]
    return any(unit.active == "active" for unit in found) and any(
        unit.enabled in ENABLED for unit in found
    )


def _versions(case: Case) -> str:
    software = case.facts.software
    return f"QEMU {software.qemu or 'unknown'}, libvirt {software.libvirt or 'unknown'}"


def _confinement(case: Case) -> Iterator[Finding]:
    if case.facts.software.qemu_as_root:
        yield Finding(
            "confinement",
            "",
            f"{QEMU_CONF} has QEMU run as root",
            Verdict.NOTE,
            "who breaks out of a VM is root on the host; VFIO needs no root",
            'take the lines user = "root" and group = "root" out',
        )
    firmware = case.facts.software.firmware
    refused = bool(firmware) and all(path.startswith(REFUSED) for path in firmware)
    if "apparmor" in case.facts.software.lsm and refused:
        yield Finding(
            "confinement",
            "",
            f"UEFI firmware is in {', '.join(firmware)}",
            Verdict.NOTE,
            "AppArmor's profile of a VM may not let QEMU read it there",
            "install the distribution's own ovmf",
        )
    denied = [line for line in case.facts.log if DENIED.search(line)]
    if denied:
        why = "AppArmor kept QEMU or libvirt from something"
        yield Finding("confinement", "", denied[-1], Verdict.NOTE, why)
