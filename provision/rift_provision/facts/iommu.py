"""The IOMMU: whether the firmware offers one, whether the kernel uses it, and its groups."""

from __future__ import annotations

from dataclasses import dataclass

from rift_provision.facts.tree import Tree

GROUPS = "/sys/kernel/iommu_groups"
# The ACPI tables in which firmware describes it: Intel, AMD, ARM.
TABLES = ("DMAR", "IVRS", "IORT")


@dataclass(frozen=True)
class Group:
    """What the IOMMU can only isolate together.

    type: identity, DMA, DMA-FQ, or None where the kernel does not say.
    direct: memory that the firmware wants mapped one to one, first-last in hex; the kernel refuses
    to give a device with such a range to a VM unless it may be relaxed.
    """

    id: int
    type: str | None
    direct: tuple[str, ...]


@dataclass(frozen=True)
class Iommu:
    """tables: the ACPI tables that are there; units: the kernel's, e.g. dmar0 or ivhd0."""

    tables: tuple[str, ...]
    units: tuple[str, ...]
    groups: tuple[Group, ...]


def parse_iommu(tree: Tree) -> Iommu:
    """The IOMMU in a tree. Groups exist only where one is in use."""
    tables = tree.names("/sys/firmware/acpi/tables")
    at_devices = "/sys/bus/pci/devices"
    linked = {tree.target(f"{at_devices}/{a}/iommu_group") for a in tree.names(at_devices)}
    ids = {int(name) for name in {*linked, *tree.names(GROUPS)} if name and name.isdigit()}
    return Iommu(
        tables=tuple(table for table in TABLES if table in tables),
        units=tuple(tree.names("/sys/class/iommu")),
        groups=tuple(_group(tree, group) for group in sorted(ids)),
    )


def _group(tree: Tree, group: int) -> Group:
    lines = [line.split() for line in tree.lines(f"{GROUPS}/{group}/reserved_regions")]
    direct = tuple(f"{line[0]}-{line[1]}" for line in lines if line[2:] == ["direct"])
    return Group(group, tree.value(f"{GROUPS}/{group}/type"), direct)
