"""Kernels and settings with which others lost cards or hours."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rift_provision import kernel_options
from rift_provision.requirements.part import Case, Finding, Part, Verdict

# zen-kernel/zen-kernel#380: a card's reset that worked in the version before.
RESET_REGRESSIONS = {"6.14.2": "6.14.1", "6.12.23": "6.12.22"}
OPTIONS = re.compile(r"options\s+vfio[-_]pci\s")
# Lines of /etc/modules that guides and tools leave behind.
NOT_TO_LOAD = {
    "nouveau": "a card that nouveau had when it was reset has been lost",
    "vfio_virqfd": "there is none since Linux 6.2; a failure is reported at each boot",
}


def known_bad(case: Case) -> Part:
    """Notes: what was reported elsewhere and fits this host."""
    return Part((*_kernel(case), *_by_id(case), *_modules(case), *_lockdown(case), *_irdma(case)))


def _kernel(case: Case) -> Iterator[Finding]:
    match = re.match(r"\d+\.\d+\.\d+", case.facts.machine.kernel)
    before = RESET_REGRESSIONS.get(match[0]) if match else None
    if match and before:
        found = f"Linux {match[0]}: resetting a card was reported broken, {before} was fine"
        yield Finding("kernel", "", found, Verdict.NOTE, "zen-kernel issue 380", "use another")


def _by_id(case: Case) -> Iterator[Finding]:
    """Binding by kind of device takes every card of that kind, the host's own too."""
    words = [word for word in case.configured if kernel_options.key(word) == "vfio_pci.ids"]
    words += [
        f"{path}: {option}"
        for path, line in _lines(case, "/etc/modprobe.d/")
        if OPTIONS.match(line)
        for option in line.split()[2:]
        if option.startswith("ids=")
    ]
    for word in words:
        ids = {":".join(one.split(":")[:2]) for one in word.rpartition("=")[2].split(",")}
        ours = {one.address for one in case.functions}
        others = [o.address for o in case.facts.pci if o.ids in ids and o.address not in ours]
        found = f"{word} also takes {', '.join(others)}" if others else word
        why = "it binds by kind of device, not by address; Rift needs it no longer"
        yield Finding("binding by id", "", found, Verdict.NOTE, why, "take it out by hand")


def _modules(case: Case) -> Iterator[Finding]:
    for path, line in _lines(case, "/etc/modules"):
        if reason := NOT_TO_LOAD.get(line.replace("-", "_")):
            found = f"{path} loads {line} at boot"
            yield Finding("modules", "", found, Verdict.NOTE, reason, "take it out by hand")


def _lines(case: Case, beginning: str) -> Iterator[tuple[str, str]]:
    """Path and line of the files whose paths begin so, comments left out."""
    for path, file in case.facts.files.items():
        if path.startswith(beginning):
            for line in (file.text or "").splitlines():
                if text := line.partition("#")[0].strip():
                    yield path, text


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
