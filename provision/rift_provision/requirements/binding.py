"""Cards given to vfio-pci by address, before any other driver can have them, and kept awake."""

from __future__ import annotations

from rift_provision import vfio_files
from rift_provision.facts import Facts
from rift_provision.facts.files import File
from rift_provision.facts.pci import PciFunction
from rift_provision.requirements.part import Case, Finding, Part, Verdict

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
    written = all(case.facts.files.get(path) == file for path, file in files.items())
    lasting = written and _in_initramfs(case.facts)
    findings = (
        *(_bound(one, lasting) for one in case.functions),
        *(_given_back(one) for one in case.facts.pci if _no_longer(case, one)),
    )
    pending = any(finding.verdict is Verdict.WILL_FIX for finding in findings)
    return Part(findings, files=files, initramfs=True, pending=pending)


def _in_initramfs(facts: Facts) -> bool:
    """Whether the image that the next boot uses has the list of cards, as far as is known."""
    image = facts.modules.initramfs
    return image is None or vfio_files.DEVICES.lstrip("/") in image


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


def _no_longer(case: Case, one: PciFunction) -> bool:
    """Whether the initramfs bound it at this boot, and it is not chosen any more."""
    bound = f"{one.address} driver {vfio_files.DRIVER}" in case.facts.modules.bound_early
    return bound and one.driver == vfio_files.DRIVER and one not in case.functions


def _given_back(one: PciFunction) -> Finding:
    found, why = f"driver {one.driver}", "no longer among the chosen cards"
    do = "leave it to the host's driver from the next boot on"
    return Finding("binding", one.address, found, Verdict.WILL_FIX, why, do)


def idle_power(case: Case) -> Part:
    """Whether cards stay awake: some never come back from D3cold."""
    builtin = case.facts.modules.vfio_pci == "builtin"
    active = case.facts.modules.disable_idle_d3 is True and not _may_sleep(case)
    files: dict[str, File | None] = dict(
        vfio_files.modprobe(_without_nouveau(case.facts, case.functions), options=not builtin)
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
    others = _others(case.facts, case.functions)
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


def _others(facts: Facts, functions: tuple[PciFunction, ...]) -> list[PciFunction]:
    """NVIDIA's cards that stay with the host."""
    ours = {one.address for one in functions}
    gpus = [one for one in facts.pci if one.is_gpu and one.vendor == NVIDIA]
    return [one for one in gpus if one.address not in ours]


def _without_nouveau(facts: Facts, functions: tuple[PciFunction, ...]) -> bool:
    return any(one.vendor == NVIDIA for one in functions) and not _others(facts, functions)


def released(case: Case) -> Part:
    """Container mode: whether the host's driver has the cards, and nothing of ours keeps it off.

    Cards that are bound and were not named stay bound.
    """
    ours = [path for path in vfio_files.PATHS if path in case.facts.files]
    listed = _listed(case.facts)
    kept = tuple(
        one for one in case.facts.pci if one.address in listed and one not in case.functions
    )
    files: dict[str, File | None] = dict.fromkeys(ours)
    if kept and (tool := case.facts.software.initramfs_tool):
        files |= vfio_files.binding(kept, case.facts, tool)
        module = case.facts.modules.vfio_pci == "module"
        files |= vfio_files.modprobe(_without_nouveau(case.facts, kept), options=module)
    findings = tuple(_driven(one, bool(ours)) for one in case.functions if one.is_gpu)
    pending = any(finding.verdict is Verdict.WILL_FIX for finding in findings)
    return Part(findings, files=files, initramfs=True, pending=pending)


def _listed(facts: Facts) -> set[str]:
    """The addresses that are bound at boot now."""
    file = facts.files.get(vfio_files.DEVICES)
    lines = (file.text or "").splitlines() if file else []
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


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
