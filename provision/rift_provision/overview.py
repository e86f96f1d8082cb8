"""A host in a dozen lines."""

from __future__ import annotations

from rift_provision.facts import Facts
from rift_provision.facts.pci import PciFunction

KIB_PER_GIB = 1 << 20


def overview(facts: Facts) -> list[tuple[str, str]]:
    """What a person wants to know of a host first, as (what, value)."""
    machine, cpus, boot, software = facts.machine, facts.cpus, facts.boot, facts.software
    board = " ".join(filter(None, (machine.vendor, machine.product)))
    online = sum(cpu.online for cpu in cpus.cpus)
    lines = [
        ("host", f"{machine.hostname} ({board or 'unknown machine'})"),
        ("system", f"{software.title or machine.system}, kernel {machine.kernel}"),
        ("cpu", f"{cpus.model}, {online} CPUs, SMT {cpus.smt or 'unknown'}"),
        ("memory", f"{facts.memory.total_kib / KIB_PER_GIB:.1f} GiB"),
        *(_node(facts, node) for node in range(len(cpus.nodes))),
        ("boot", f"{boot.firmware}, {boot.loader_info or 'loader unnamed'}"),
        ("command line", boot.command_line),
        ("iommu", _iommu(facts)),
        ("vfio-pci", facts.modules.vfio_pci or "not in this kernel"),
    ]
    return lines + [("gpu", line) for one in facts.pci if one.is_gpu for line in _gpu(one)]


def _node(facts: Facts, index: int) -> tuple[str, str]:
    node = facts.cpus.nodes[index]
    pages = [f"{p.total} x {p.size_kib} KiB pages" for p in node.hugepages if p.total]
    parts = [f"{node.memory_kib / KIB_PER_GIB:.1f} GiB", f"{len(node.cpus)} CPUs", *pages]
    return f"node {node.id}", ", ".join(parts)


def _iommu(facts: Facts) -> str:
    tables = ", ".join(facts.iommu.tables) or "no ACPI table"
    return f"{tables}; {len(facts.iommu.groups)} groups in use"


def _gpu(gpu: PciFunction) -> list[str]:
    node = "unknown" if gpu.numa_node is None else str(gpu.numa_node)
    group = "none" if gpu.iommu_group is None else str(gpu.iommu_group)
    return [
        f"{gpu.address} {gpu.title}",
        f"  driver {gpu.driver or 'none'}, group {group}, node {node}, root {gpu.root}",
    ]
