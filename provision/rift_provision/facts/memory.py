"""Memory of the whole host. What each node has of it is in `cpu`."""

from __future__ import annotations

from dataclasses import dataclass

from rift_provision.facts.cpu import meminfo
from rift_provision.facts.tree import Tree


@dataclass(frozen=True)
class Memory:
    """total_kib: what the kernel manages; available_kib: what programs could still get;
    hugetlb_kib: what is set aside as huge pages, of any size, used or not."""

    total_kib: int
    available_kib: int
    hugetlb_kib: int


def parse_memory(tree: Tree) -> Memory:
    """The memory in a tree."""
    found = meminfo(tree.lines("/proc/meminfo"))
    available = found.get("MemAvailable", found.get("MemFree", 0))
    return Memory(found.get("MemTotal", 0), available, found.get("Hugetlb", 0))
