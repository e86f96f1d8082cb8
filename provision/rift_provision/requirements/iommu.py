"""Virtualisation and the IOMMU: in the CPU, in the firmware, in the kernel."""

from __future__ import annotations

import re

from rift_provision.requirements.part import Case, Finding, Part, Verdict

# What turns an IOMMU off (Documentation/admin-guide/kernel-parameters.txt).
OFF = ("iommu=off", "intel_iommu=off", "amd_iommu=off")
PASSTHROUGH = ("iommu=pt", "iommu.passthrough=1", "iommu.passthrough=on")
# Before Linux 6.6 AMD's flag stays although the firmware turned SVM off; KVM says so.
DISABLED = re.compile(r"kvm.*disabled.*bios", re.IGNORECASE)
# The ACPI table of Intel's. AMD's, IVRS, needs no word: the kernel uses it by itself.
INTEL = "DMAR"


def virtualisation(case: Case) -> Part:
    """Whether the CPU can run VMs at all."""
    flags = case.facts.cpus.flags
    refused = any(DISABLED.search(line) for line in case.facts.log)
    on = ("svm" in flags or "vmx" in flags) and not refused
    finding = Finding(
        "virtualisation",
        "",
        f"{case.facts.cpus.model}: {'on' if on else 'off'}",
        Verdict.OK if on else Verdict.NEEDS_FIRMWARE,
        "KVM runs VMs with it",
        "" if on else "turn on SVM Mode (AMD) or VT-x (Intel) in the firmware's setup",
    )
    return Part((finding,))


def iommu(case: Case) -> Part:
    """Whether an IOMMU is there and in use, and the words that see to it."""
    facts = case.facts.iommu
    if facts.groups:
        return Part((_finding(f"on, {len(facts.groups)} groups", Verdict.OK),))
    if not facts.tables:
        do = "turn on IOMMU, AMD-Vi or VT-d in the firmware's setup"
        return Part((_finding("the firmware offers none", Verdict.NEEDS_FIRMWARE, do),))
    off = tuple(word for word in OFF if word in {*case.configured, *case.running})
    wanted = ("intel_iommu=on",) if INTEL in facts.tables else ()
    if not off and (not wanted or wanted[0] in case.running):
        do = "see what dmesg says about DMAR or AMD-Vi; the firmware may need an update"
        return Part((_finding("offered by the firmware, yet not in use", Verdict.BLOCKS, do),))
    steps = [f"remove {word}" for word in off] + [f"add {word}" for word in wanted]
    found = f"off in the kernel {' '.join(off)}".rstrip()
    finding = _finding(found, Verdict.WILL_FIX, ", ".join(steps))
    return Part((finding,), options=wanted, without=off, pending=True)


def passthrough(case: Case) -> Part:
    """Whether the host's own devices bypass translation, which costs them speed."""
    types = {group.type for group in case.facts.iommu.groups}
    active = "identity" in types or any(word in case.running for word in PASSTHROUGH)
    by_word = any(word in case.running for word in PASSTHROUGH)
    lasting = any(word in case.configured for word in PASSTHROUGH) or (active and not by_word)
    done = active and lasting
    finding = Finding(
        "iommu=pt",
        "",
        f"the host's own devices {'bypass' if active else 'go through'} the IOMMU",
        Verdict.OK if done else Verdict.WILL_FIX,
        "the host's disks and network cards are faster without translation",
        "" if done else "add iommu=pt",
    )
    return Part((finding,), options=() if lasting else ("iommu=pt",), pending=not active)


def _finding(found: str, verdict: Verdict, do: str = "") -> Finding:
    why = "it keeps a VM's card within the VM's memory; without it VFIO refuses"
    return Finding("iommu", "", found, verdict, why, do)
