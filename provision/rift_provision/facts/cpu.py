"""CPUs and NUMA nodes, from sysfs: ids as they are, with gaps, offline CPUs, empty nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rift_provision.facts.tree import Tree

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
HUGEPAGES = re.compile(r"hugepages-(\d+)kB")
# Of the many flags, those that decide something: hardware virtualisation, 1 GiB pages, whether this
# is itself a virtual machine, five-level paging.
FLAGS = frozenset({"vmx", "svm", "pdpe1gb", "hypervisor", "la57"})


@dataclass(frozen=True)
class Cpu:
    """A logical CPU. What an offline one shares with others the kernel does not say.

    siblings: the CPUs of its core, itself among them; l3: those that share its last-level cache.
    """

    id: int
    online: bool
    node: int | None
    package: int | None
    die: int | None
    core: int | None
    siblings: tuple[int, ...]
    l3: tuple[int, ...]


@dataclass(frozen=True)
class HugePages:
    """Huge pages of one size in one node."""

    size_kib: int
    total: int
    free: int
    surplus: int


@dataclass(frozen=True)
class Node:
    """A NUMA node: its CPUs, its memory, and how far the other nodes are (by node id)."""

    id: int
    cpus: tuple[int, ...]
    memory_kib: int
    free_kib: int
    distances: dict[int, int]
    hugepages: tuple[HugePages, ...]


@dataclass(frozen=True)
class Cpus:
    """The processors of a host. smt is what the kernel says: on, off, forceoff, notsupported."""

    vendor: str
    model: str
    flags: tuple[str, ...]
    physical_bits: int | None
    smt: str | None
    cpus: tuple[Cpu, ...]
    nodes: tuple[Node, ...]

    @property
    def backing_nodes(self) -> tuple[Node, ...]:
        """The nodes that can hold a VM's CPUs and memory: those that have both."""
        return tuple(node for node in self.nodes if node.cpus and node.memory_kib)


def id_list(text: str) -> tuple[int, ...]:
    """The numbers in a list as the kernel writes it: "0,2-3" or "0-1". Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))


def parse_cpus(tree: Tree) -> Cpus:
    """The processors and nodes in a tree."""
    info = _first_processor(tree.lines("/proc/cpuinfo"))
    nodes = _nodes(tree)
    bits = re.match(r"(\d+) bits physical", info.get("address sizes", ""))
    return Cpus(
        vendor=info.get("vendor_id", ""),
        model=info.get("model name", ""),
        flags=tuple(sorted(FLAGS & set(info.get("flags", "").split()))),
        physical_bits=int(bits[1]) if bits else None,
        smt=tree.value(f"{CPU}/smt/control"),
        cpus=_cpus(tree, nodes),
        nodes=nodes,
    )


def _first_processor(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        key, colon, value = line.partition(":")
        if not colon and found:
            break
        found[key.strip()] = value.strip()
    return found


def _cpus(tree: Tree, nodes: tuple[Node, ...]) -> tuple[Cpu, ...]:
    online = id_list(tree.value(f"{CPU}/online") or "")
    present = id_list(tree.value(f"{CPU}/present") or "") or online
    node_of = {cpu: node.id for node in nodes for cpu in node.cpus}
    return tuple(_cpu(tree, cpu, cpu in online, node_of.get(cpu)) for cpu in present)


def _cpu(tree: Tree, cpu: int, online: bool, node: int | None) -> Cpu:
    at = f"{CPU}/cpu{cpu}"
    return Cpu(
        id=cpu,
        online=online,
        node=node,
        package=tree.number(f"{at}/topology/physical_package_id"),
        die=tree.number(f"{at}/topology/die_id"),
        core=tree.number(f"{at}/topology/core_id"),
        siblings=id_list(tree.value(f"{at}/topology/thread_siblings_list") or ""),
        l3=id_list(tree.value(f"{at}/cache/index3/shared_cpu_list") or ""),
    )


def _nodes(tree: Tree) -> tuple[Node, ...]:
    """Every online node. A kernel without NUMA has no such files: one node of all there is."""
    ids = id_list(tree.value(f"{NODE}/online") or "")
    if ids:
        return tuple(_node(tree, node, ids) for node in ids)
    memory = meminfo(tree.lines("/proc/meminfo"))
    cpus = id_list(tree.value(f"{CPU}/online") or "")
    pages = _hugepages(tree, "/sys/kernel/mm/hugepages")
    return (Node(0, cpus, memory.get("MemTotal", 0), memory.get("MemFree", 0), {0: 10}, pages),)


def _node(tree: Tree, node: int, ids: tuple[int, ...]) -> Node:
    at = f"{NODE}/node{node}"
    lines = [line.split(maxsplit=2)[-1] for line in tree.lines(f"{at}/meminfo") if line.strip()]
    memory = meminfo(lines)
    distances = (tree.value(f"{at}/distance") or "").split()
    return Node(
        id=node,
        cpus=id_list(tree.value(f"{at}/cpulist") or ""),
        memory_kib=memory.get("MemTotal", 0),
        free_kib=memory.get("MemFree", 0),
        distances=dict(zip(ids, map(int, distances), strict=False)),
        hugepages=_hugepages(tree, f"{at}/hugepages"),
    )


def _hugepages(tree: Tree, at: str) -> tuple[HugePages, ...]:
    sizes = sorted(int(match[1]) for name in tree.names(at) if (match := HUGEPAGES.match(name)))
    return tuple(
        HugePages(
            size,
            *(
                tree.number(f"{at}/hugepages-{size}kB/{kind}_hugepages") or 0
                for kind in ("nr", "free", "surplus")
            ),
        )
        for size in sizes
    )


def meminfo(lines: list[str]) -> dict[str, int]:
    """The fields of /proc/meminfo, or of a node's once "Node N" is cut off, in KiB."""
    found = {}
    for line in lines:
        key, _, value = line.partition(":")
        number = value.split()
        if number and number[0].isdigit():
            found[key.strip()] = int(number[0])
    return found
