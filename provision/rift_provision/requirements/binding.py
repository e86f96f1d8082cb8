"""Cards given to vfio-pci by address, before any other driver can have them, and kept awake."""

from __future__ import annotations

from rift_provision import vfio_files
from rift_provision.facts.files import File
from rift_provision.facts.pci import PciFunction
from rift_provision.requirements.part import Case, Finding, Mode, Part, Verdict

NVIDIA = "10de"


def vfio_module(case: Case) -> Part:
    """Whether the kernel has vfio-pci."""
    kind = case.facts.modules.vfio_pci
    finding = Finding(
        "vfio-pci",
        "",
        {"builtin": "built into the kernel", "module": "a module"}.get(kind or "", "missing"),
        Verdict.OK if kind else Verdict.BLOCKS,
        "the driver that hands a card to a VM",
        "" if kind else "install a kernel with CONFIG_VFIO_PCI; on Ubuntu linux-modules-extra",
    )
    return Part((finding,))


def binding(case: Case) -> Part:
    """Whether each function is vfio-pci's now and at the next boot."""
    tool = case.facts.software.initramfs_tool
    wanted = vfio_files.binding(case.functions, case.facts, tool) if tool else {}
    files: dict[str, File | None] = dict(wanted)
    lasting = all(case.facts.files.get(path) == file for path, file in files.items())
    findings = tuple(_bound(one, lasting) for one in case.functions)
    pending = any(finding.verdict is Verdict.WILL_FIX for finding in findings)
    return Part(findings, files=files, initramfs=True, pending=pending)


def _bound(one: PciFunction, lasting: bool) -> Finding:
    now = one.driver == vfio_files.DRIVER
    how = f"driver {one.driver or 'none'}"
    return Finding(
        "binding",
        one.address,
        how if lasting or not now else f"{how}, but not bound at boot by Rift",
        Verdict.OK if now and lasting else Verdict.WILL_FIX,
        "a driver of the host must never have had the card",
        "" if now and lasting else "bind to vfio-pci by address in the initramfs",
    )


def idle_power(case: Case) -> Part:
    """Whether cards stay awake: some never come back from D3cold."""
    builtin = case.facts.modules.vfio_pci == "builtin"
    active = case.facts.modules.disable_idle_d3 is True and not _may_sleep(case)
    files: dict[str, File | None] = dict(
        vfio_files.modprobe(_blacklists_nouveau(case), options=not builtin)
    )
    lasting = all(case.facts.files.get(path) == file for path, file in files.items())
    words = (vfio_files.BUILTIN_D3,) if builtin else ()
    done = active and lasting and all(word in case.configured for word in words)
    place = "on the command line: vfio-pci is built in" if builtin else "in modprobe.d"
    finding = Finding(
        "idle power",
        "",
        "cards stay awake" if active else "idle cards may sleep",
        Verdict.OK if done else Verdict.WILL_FIX,
        "cards have been lost on the way back from D3cold",
        "" if done else f"set disable_idle_d3=1 {place}",
    )
    return Part((finding,), options=words, files=files, initramfs=True, pending=not active)


def _may_sleep(case: Case) -> list[str]:
    """The chosen functions and the bridges above them that may go to D3cold."""
    above = {bridge for one in case.functions for bridge in one.bridges}
    bridges = [one for one in case.facts.pci if one.address in above]
    return [one.address for one in (*case.functions, *bridges) if one.power.d3cold_allowed]


def nouveau(case: Case) -> Part:
    """Whether nouveau is kept off, where no NVIDIA card is left for it."""
    loaded = [name for name in ("nouveau", "nvidia") if name in case.facts.modules.loaded]
    others = _others(case)
    if not any(one.vendor == NVIDIA for one in case.functions):
        return Part(())
    if others:
        found = f"left to the host: {', '.join(one.address for one in others)}"
        why = "a driver for it may be loaded, and is kept off the chosen cards by their addresses"
        return Part((Finding("nouveau", "", found, Verdict.OK, why),))
    held = [one.address for one in case.functions if one.driver in loaded]
    finding = Finding(
        "nouveau",
        "",
        f"{' and '.join(loaded)} loaded" if loaded else "not loaded",
        Verdict.WILL_FIX if held else Verdict.OK,
        "a card that nouveau had when it was reset has been lost",
        "blacklist nouveau" if held else "",
    )
    return Part((finding,))


def _others(case: Case) -> list[PciFunction]:
    ours = {one.address for one in case.functions}
    return [
        one
        for one in case.facts.pci
        if one.is_gpu and one.vendor == NVIDIA and one.address not in ours
    ]


def _blacklists_nouveau(case: Case) -> bool:
    has = any(one.vendor == NVIDIA for one in case.functions)
    return case.request.mode is Mode.VFIO and has and not _others(case)


def released(case: Case) -> Part:
    """Container mode: whether the host's driver has the cards, and nothing of ours keeps it off."""
    ours = [path for path in vfio_files.PATHS if path in case.facts.files]
    files: dict[str, File | None] = dict.fromkeys(ours)
    findings = tuple(_driven(one, bool(ours)) for one in case.functions if one.is_gpu)
    pending = any(finding.verdict is Verdict.WILL_FIX for finding in findings)
    return Part(findings, files=files, initramfs=True, pending=pending)


def _driven(one: PciFunction, bound_by_us: bool) -> Finding:
    wanted = {NVIDIA: "nvidia", "1002": "amdgpu", "8086": "xe"}.get(one.vendor)
    why = "containers use the card through the host's driver"
    found = f"driver {one.driver or 'none'}"
    if one.driver == wanted or wanted is None:
        return Finding("driver", one.address, found, Verdict.OK, why)
    if bound_by_us and one.driver == vfio_files.DRIVER:
        do = "no longer bind it to vfio-pci"
        return Finding("driver", one.address, found, Verdict.WILL_FIX, why, do)
    do = f"install the driver {wanted} of the card's maker; Rift does not"
    return Finding("driver", one.address, found, Verdict.BLOCKS, why, do)
