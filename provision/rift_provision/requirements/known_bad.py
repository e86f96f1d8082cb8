"""Kernels and settings with which others lost cards or hours."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rift_provision import kernel_options
from rift_provision.requirements.part import Case, Finding, Part, Verdict

# zen-kernel/zen-kernel#380: a card's reset that worked in the version before.
RESET_REGRESSIONS = {"6.14.2": "6.14.1", "6.12.23": "6.12.22"}
BY_ID = "vfio_pci.ids"


def known_bad(case: Case) -> Part:
    """Notes: what was reported elsewhere and fits this host."""
    return Part((*_kernel(case), *_by_id(case), *_lockdown(case), *_irdma(case)))


def _kernel(case: Case) -> Iterator[Finding]:
    match = re.match(r"\d+\.\d+\.\d+", case.facts.machine.kernel)
    before = RESET_REGRESSIONS.get(match[0]) if match else None
    if match and before:
        found = f"Linux {match[0]}: resetting a card was reported broken, {before} was fine"
        yield Finding("kernel", "", found, Verdict.NOTE, "zen-kernel issue 380", "use another")


def _by_id(case: Case) -> Iterator[Finding]:
    """vfio-pci.ids= takes every card of a kind, the host's own too."""
    for word in case.configured:
        if kernel_options.key(word) != BY_ID:
            continue
        ids = [":".join(one.split(":")[:2]) for one in word.partition("=")[2].split(",")]
        ours = {one.address for one in case.functions}
        others = [one for one in case.facts.pci if one.ids in ids and one.address not in ours]
        found = word if not others else f"{word} also takes {', '.join(o.address for o in others)}"
        why = "it binds by kind of device, not by address; Rift needs it no longer"
        yield Finding("command line", "", found, Verdict.NOTE, why, "take it out by hand")


def _irdma(case: Case) -> Iterator[Finding]:
    """RDMA of E810 and X710 takes gigabytes at its start (Ubicloud, commit b50b9f278)."""
    if "irdma" in case.facts.modules.loaded:
        why = "it takes gigabytes that then lack for huge pages"
        do = "if no RDMA is used: blacklist irdma"
        yield Finding("kernel", "", "irdma is loaded", Verdict.NOTE, why, do)


def _lockdown(case: Case) -> Iterator[Finding]:
    if case.facts.boot.lockdown not in (None, "none"):
        found = f"lockdown: {case.facts.boot.lockdown}"
        why = "Secure Boot's lockdown keeps setpci and writes to PCI configuration out"
        yield Finding("kernel", "", found, Verdict.NOTE, why)
