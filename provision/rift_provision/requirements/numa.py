"""Where the cards are: nodes that can back a VM, and cards that nobody knows the place of."""

from __future__ import annotations

from collections.abc import Iterator

from rift_provision.requirements.part import Case, Finding, Part, Verdict


def numa(case: Case) -> Part:
    """What a planner of VMs will have to live with; nothing here is for a plan to change."""
    return Part((*_nodes(case), *_cards(case)))


def _nodes(case: Case) -> Iterator[Finding]:
    for node in case.facts.cpus.nodes:
        lacks = "CPUs" if not node.cpus else "memory" if not node.memory_kib else ""
        if lacks:
            why = "no VM is placed there"
            yield Finding("numa", f"node {node.id}", f"has no {lacks}", Verdict.NOTE, why)
    offline = [str(cpu.id) for cpu in case.facts.cpus.cpus if not cpu.online]
    if offline:
        found = f"CPUs {', '.join(offline)} are offline"
        yield Finding("numa", "", found, Verdict.NOTE, "no VM is given them")


def _cards(case: Case) -> Iterator[Finding]:
    backing = {node.id for node in case.facts.cpus.backing_nodes}
    several = len(case.facts.cpus.nodes) > 1
    for one in case.functions:
        if not one.is_gpu:
            continue
        if one.numa_node is None and several:
            why = "VMs that ask for local memory cannot have it"
            do = "a firmware update may tell (_PXM of its root bridge)"
            yield Finding("numa", one.address, "node unknown", Verdict.NOTE, why, do)
        elif one.numa_node is not None and one.numa_node not in backing:
            found = f"on node {one.numa_node}, which has no CPUs or no memory"
            why = "a VM's CPUs come from another node"
            yield Finding("numa", one.address, found, Verdict.NOTE, why)
