"""Is this a host that can be prepared: Linux, no container, seen as root, of a known family."""

from __future__ import annotations

from collections.abc import Iterator

from rift_provision.facts import Facts
from rift_provision.requirements.part import Case, Finding, Part, Verdict

SUPPORTED = ("debian", "ubuntu", "rhel", "almalinux", "rocky", "centos", "fedora")
ARCHITECTURE = "x86_64"


def not_a_host(facts: Facts) -> tuple[Finding, ...]:
    """Why nothing else is worth a look, if so."""
    name = facts.machine.system
    if name != "Linux":
        return (_blocks("system", name or "unknown", "KVM and VFIO are Linux's"),)
    if container := facts.software.container:
        why = "boot loader and drivers belong to the host outside"
        do = "give the host itself: its address, not the container's"
        return (_blocks("system", f"a container ({container})", why, do),)
    return ()


def system(case: Case) -> Part:
    """The system itself; nothing here is for a plan to change."""
    return Part(tuple(_findings(case)))


def _findings(case: Case) -> Iterator[Finding]:
    machine, software = case.facts.machine, case.facts.software
    if "hypervisor" in case.facts.cpus.flags:
        why = "a VM's GPUs can be passed on if it has an IOMMU of its own; expect less speed"
        yield Finding("system", "", "a virtual machine", Verdict.NOTE, why)
    if machine.architecture != ARCHITECTURE:
        yield _blocks("architecture", machine.architecture, f"Rift knows {ARCHITECTURE} only")
    if not machine.root:
        why = "much of /boot and of the kernel log was not seen"
        yield _blocks("root", "not root", why, "run as root, or allow sudo without a password")
    known = {software.distribution, *software.like} & set(SUPPORTED)
    title = f"{software.title}, kernel {machine.kernel}"
    if known and software.package_manager:
        yield Finding("system", "", title, Verdict.OK, "its boot files and packages are known")
    else:
        yield _blocks("system", title, f"its boot files are unknown; known: {', '.join(SUPPORTED)}")


def _blocks(requirement: str, found: str, why: str, do: str = "") -> Finding:
    return Finding(requirement, "", found, Verdict.BLOCKS, why, do)
