"""Can each chosen card be taken from the host without taking anything else."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rift_provision.facts.pci import NETWORK, STORAGE, PciFunction
from rift_provision.gpu_selection import gpus_of
from rift_provision.requirements.part import Case, Finding, Part, Verdict

# Programs that hold a card open only to manage it; they let go when the driver does.
MANAGERS = (
    "nvidia-persiste",
    "nv-hostengine",
    "nv-fabricmanage",
    "dcgm-exporter",
    "systemd-logind",
)
LOST = re.compile(r"giving up|inaccessible|[Uu]nknown header type 7f|containment event")
VFIO = re.compile(r"vfio", re.IGNORECASE)
# vfio-pci takes a card from the firmware's frame buffer by itself since Linux 6.0 (d17378062079).
TAKES_FRAME_BUFFER = (6, 0)


def gpus(case: Case) -> Part:
    """Every reason against taking a card, and the cards that are left alone."""
    findings: list[Finding] = []
    for one in case.functions:
        if one.is_gpu:
            findings.append(Finding("gpu", one.address, one.title, Verdict.OK, _describe(one)))
        findings += [*_in_use(one), *_display(case, one), *_lost(case, one), *_direct(case, one)]
    findings += _groups(case)
    findings += _left_alone(case)
    return Part(tuple(findings))


def _describe(one: PciFunction) -> str:
    node = "unknown" if one.numa_node is None else str(one.numa_node)
    return f"driver {one.driver or 'none'}, NUMA node {node}, below {one.root}"


def _in_use(one: PciFunction) -> Iterator[Finding]:
    users = [user for user in one.users if not _only_managed(user)]
    if users:
        in_vm = bool(one.driver and VFIO.search(one.driver))
        yield Finding(
            "in use",
            one.address,
            "; ".join(users),
            Verdict.NOTE if in_vm else Verdict.BLOCKS,
            "a VM has it; a reboot would end the VM" if in_vm else "it would lose its device",
            "" if in_vm else "end what uses it, or choose other cards with --gpus",
        )


def _only_managed(user: str) -> bool:
    named = re.findall(r"(\S+) \(pid \d+\)", user)
    return bool(named) and all(name.startswith(MANAGERS) for name in named)


def _display(case: Case, one: PciFunction) -> Iterator[Finding]:
    if not one.boot_vga or case.facts.modules.vfio_pci is None:
        return
    numbers = re.findall(r"\d+", case.facts.machine.kernel)
    new = tuple(map(int, numbers[:2])) >= TAKES_FRAME_BUFFER
    yield Finding(
        "display",
        one.address,
        "the firmware shows the host's console on it",
        Verdict.NOTE if new else Verdict.BLOCKS,
        "its console goes dark: only SSH, serial or BMC remain"
        if new
        else "before Linux 6.0 the frame buffer keeps the card's memory reserved",
        "" if new else "choose another card for the console in the firmware, or a newer kernel",
    )


def _lost(case: Case, one: PciFunction) -> Iterator[Finding]:
    complaints = [line for line in case.facts.log if one.address in line and LOST.search(line)]
    if complaints:
        yield Finding(
            "answers",
            one.address,
            complaints[-1],
            Verdict.BLOCKS,
            "a card lost after a reset can hang the host when it is touched",
            "power the host off for 30 s, not only a reboot",
        )


def _direct(case: Case, one: PciFunction) -> Iterator[Finding]:
    regions = [
        region
        for group in case.facts.iommu.groups
        if group.id == one.iommu_group
        for region in group.direct
    ]
    if regions and one.is_gpu:
        yield Finding(
            "1:1 mapping",
            one.address,
            f"the firmware wants {', '.join(regions)} mapped one to one",
            Verdict.NEEDS_FIRMWARE,
            "the kernel refuses to pass such a device on",
            "turn off pre-boot DMA protection, or update the firmware",
        )


def _groups(case: Case) -> Iterator[Finding]:
    """Whether each group holds only chosen functions, bridges, and what no driver has."""
    ours = {one.address for one in case.functions}
    groups = sorted({one.iommu_group for one in case.functions if one.iommu_group is not None})
    if not groups and case.functions:
        yield Finding(
            "group",
            "",
            "there are no IOMMU groups yet",
            Verdict.NOTE,
            "what a card shares one with shows after the reboot",
        )
    for group in groups:
        members = case.facts.group(group)
        chosen = next(one.address for one in members if one.address in ours)
        for other in members:
            if other.address not in ours and not other.is_bridge and other.driver:
                yield _shared(group, other, chosen)


def _shared(group: int, other: PciFunction, chosen: str) -> Finding:
    uses = f" ({'; '.join(other.users)})" if other.users else ""
    why = "VFIO gives out a whole group or nothing"
    if other.is_gpu:
        do = f"pass {other.address} through as well: add it to --gpus"
    elif other.class_code.startswith((STORAGE, NETWORK)):
        do = "put the card into another slot; that device stays with the host"
    else:
        do = "put the card into another slot, or turn on ACS in the firmware's setup"
    return Finding(
        "group",
        chosen,
        f"group {group} also has {other.address} {other.title}, driver {other.driver}{uses}",
        Verdict.BLOCKS,
        why,
        do,
    )


def _left_alone(case: Case) -> Iterator[Finding]:
    ours = {one.address for one in case.functions}
    for gpu in gpus_of(case.facts):
        if gpu.address not in ours:
            has_display = ", has the host's display" if gpu.boot_vga else ""
            found = f"{gpu.title}{has_display}"
            yield Finding(
                "gpu", gpu.address, found, Verdict.NOTE, "not chosen: stays with the host"
            )
