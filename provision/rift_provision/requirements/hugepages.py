"""Huge pages for VMs, per NUMA node, reserved before anything can fragment the memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rift.errors import WrongUsage
from rift_provision import kernel_options
from rift_provision.facts import Facts
from rift_provision.facts.cpu import Node
from rift_provision.facts.files import File
from rift_provision.requirements.part import Case, Finding, Part, Request, Verdict

KIB_PER_GIB = 1 << 20
SIZES_KIB = {1 << 20: "1G", 2 << 10: "2M"}
UNITS = {"M": 1 << 10, "G": KIB_PER_GIB, "T": KIB_PER_GIB << 10}
# Ubicloud's rule (rhizome/host, setup_hugepages): of the total, 42/43 less 5 GiB, and at least
# 4 GiB of what is available stay with the host; with less than 2 GiB left a host counts as failed.
SHARE = 42 / 43
HOST_GIB = 5
SPARE_GIB = 4
LEAST_GIB = 2
# What is there is kept down to this part of the rule's amount: free memory is never the same.
KEPT = 7 / 8
NODE_SPARE_KIB = KIB_PER_GIB // 2
# hugepages=NODE:COUNT,... came with Linux 5.16 (b5389086ad7b).
PER_NODE = (5, 16)
UNIT = "/etc/systemd/system/rift-hugepages.service"
WHY = "one reservation at boot: later the memory is in pieces, and the kernel stops short silently"


def hugepages(case: Case) -> Part:
    """Whether each node has the pages that are asked for. Raises WrongUsage."""
    page = page_kib(case.facts, case.request)
    wanted = wanted_pages(case.facts, case.request, page)
    if not wanted:
        return Part(tuple(_none(case)))
    if reasons := list(_too_much(case.facts, wanted, page)):
        do = "ask for less with --hugepages"
        return Part(tuple(_finding("", reason, Verdict.BLOCKS, do) for reason in reasons))
    words, files, units = _mechanism(case, wanted, page)
    old = _old_words(case, page)
    lasting = old == list(words) and all(case.facts.files.get(p) == f for p, f in files.items())
    short = lasting and bool(words) and set(words) <= set(case.running)
    nodes = case.facts.cpus.backing_nodes
    findings = tuple(_node(n, wanted.get(n.id, 0), page, lasting, short) for n in nodes)
    return Part(
        findings,
        options=words,
        without=tuple(old) if old != list(words) else (),
        files=dict(files),
        units=units if not _enabled(case, units) else (),
        at_boot=True,
        pending=any(finding.verdict is not Verdict.OK for finding in findings),
    )


def page_kib(facts: Facts, request: Request) -> int:
    """The size of one page: what is asked for, else the largest that the CPU has."""
    if request.page_kib is not None and request.page_kib not in SIZES_KIB:
        raise WrongUsage(f"--page-size: {request.page_kib} KiB; possible are 1G and 2M")
    has_large = "pdpe1gb" in facts.cpus.flags
    if request.page_kib == KIB_PER_GIB and not has_large:
        raise WrongUsage("--page-size 1G: this host's CPU has no pages of 1 GiB; use 2M")
    return request.page_kib or (KIB_PER_GIB if has_large else 2 << 10)


def wanted_pages(facts: Facts, request: Request, page: int) -> dict[int, int]:
    """Node id to number of pages; empty for none. Raises WrongUsage."""
    nodes = facts.cpus.backing_nodes
    if request.hugepages == "none" or not nodes:
        return {}
    if request.hugepages == "auto":
        return _automatic(facts, nodes, page)
    if "=" in request.hugepages:
        pairs = dict(part.split("=", 1) for part in request.hugepages.split(",") if "=" in part)
        unknown = set(pairs) - {str(node.id) for node in nodes}
        if unknown or len(pairs) != request.hugepages.count(",") + 1:
            ids = ", ".join(str(node.id) for node in nodes)
            raise WrongUsage(
                f"--hugepages {request.hugepages}: expected NODE=SIZE,... of nodes {ids}"
            )
        return {int(node): _pages(size, page) for node, size in pairs.items()}
    return _spread(_pages(request.hugepages, page), nodes)


def _automatic(facts: Facts, nodes: tuple[Node, ...], page: int) -> dict[int, int]:
    memory = facts.memory
    whole = sum(node.memory_kib for node in nodes)
    total = min(memory.total_kib, whole) / KIB_PER_GIB * SHARE - HOST_GIB
    available = (memory.available_kib + memory.hugetlb_kib) / KIB_PER_GIB - SPARE_GIB
    pages = max(0.0, min(total, available)) * KIB_PER_GIB / page
    rule = {node.id: int(pages * node.memory_kib / whole) for node in nodes}
    there = {node.id: count for node in nodes if (count := _there(node, page))}
    enough = sum(there.values()) >= sum(rule.values()) * KEPT
    if there and enough and memory.available_kib >= LEAST_GIB * KIB_PER_GIB:
        return there
    return {node: count for node, count in rule.items() if count}


def _pages(size: str, page: int) -> int:
    match = re.fullmatch(r"(\d+)([MGT])", size)
    kib = int(match[1]) * UNITS[match[2]] if match else 0
    if not match or kib % page:
        raise WrongUsage(
            f"--hugepages: {size!r} is no number of pages of {SIZES_KIB[page]}; expected auto, "
            "none, a size such as 64G, or NODE=SIZE,..."
        )
    return kib // page


def _spread(pages: int, nodes: tuple[Node, ...]) -> dict[int, int]:
    """Evenly, the remainder to the first nodes."""
    each, more = divmod(pages, len(nodes))
    counts = {node.id: each + (index < more) for index, node in enumerate(nodes)}
    return {node: count for node, count in counts.items() if count}


def _too_much(facts: Facts, wanted: dict[int, int], page: int) -> Iterator[str]:
    for node in facts.cpus.nodes:
        need = wanted.get(node.id, 0) * page
        if need and need > node.memory_kib - NODE_SPARE_KIB:
            yield f"node {node.id} has {_gib(node.memory_kib)}, {_gib(need)} are asked for"
    memory = facts.memory
    left = memory.available_kib + memory.hugetlb_kib - sum(wanted.values()) * page
    if left < LEAST_GIB * KIB_PER_GIB:
        yield f"{_gib(max(left, 0))} would be left for the host, {LEAST_GIB} GiB are the least"


def _mechanism(
    case: Case, wanted: dict[int, int], page: int
) -> tuple[tuple[str, ...], dict[str, File], tuple[str, ...]]:
    """The command line where it can say which node, else a unit that writes to sysfs early."""
    size = SIZES_KIB[page]
    numbers = re.findall(r"\d+", case.facts.machine.kernel)
    if len(case.facts.cpus.nodes) == 1:
        return (f"hugepagesz={size}", f"hugepages={sum(wanted.values())}"), {}, ()
    if tuple(map(int, numbers[:2])) >= PER_NODE:
        counts = ",".join(f"{node}:{count}" for node, count in sorted(wanted.items()))
        return (f"hugepagesz={size}", f"hugepages={counts}"), {}, ()
    return (), {UNIT: File(_unit(wanted, page), "0644", 0, 0)}, ("rift-hugepages.service",)


def _unit(wanted: dict[int, int], page: int) -> str:
    path = "/sys/devices/system/node/node{}/hugepages/hugepages-" + f"{page}kB/nr_hugepages"
    steps = [
        line
        for node, count in sorted(wanted.items())
        for line in (
            f"ExecStart=/bin/sh -c 'echo {count} > {path.format(node)}'",
            f"ExecStart=/bin/sh -c 'test \"$$(cat {path.format(node)})\" = {count}'",
        )
    ]
    return (
        "# Written by rift provision; rift provision undo takes it away again.\n"
        "[Unit]\nDescription=Huge pages for VMs, per NUMA node\nDefaultDependencies=no\n"
        "After=systemd-modules-load.service\n"
        "Before=sysinit.target libvirtd.service virtqemud.service\n\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\n" + "\n".join(steps) + "\n\n"
        "[Install]\nWantedBy=sysinit.target\n"
    )


def _enabled(case: Case, units: tuple[str, ...]) -> bool:
    known = case.facts.software.units
    return all(name in known and known[name].enabled == "enabled" for name in units)


def _old_words(case: Case, page: int) -> list[str]:
    """The words that reserve pages of this size now, in whatever way it is written."""
    found = kernel_options.hugepages(case.command_line)
    size = SIZES_KIB[page]
    default = kernel_options.last(case.command_line, "default_hugepagesz") or "2M"
    names = [size, "1024M"] if size == "1G" else [size, "2048K", "2048k"]
    if default in names:
        names.append("default")
    return [word for name in names for word in found.get(name, ())]


def _there(node: Node, page: int) -> int:
    return sum(pages.total for pages in node.hugepages if pages.size_kib == page)


def _node(node: Node, wanted: int, page: int, lasting: bool, short: bool) -> Finding:
    there, size = _there(node, page), SIZES_KIB[page]
    found = f"{there} of {wanted} pages of {size}"
    subject = f"node {node.id}"
    if there == wanted and lasting:
        return _finding(subject, found, Verdict.OK)
    if short:
        do = "the kernel found no more at boot: ask for less with --hugepages"
        return _finding(subject, found, Verdict.BLOCKS, do)
    return _finding(subject, found, Verdict.WILL_FIX, f"reserve {wanted} at boot")


def _none(case: Case) -> Iterator[Finding]:
    if case.request.hugepages == "auto":
        found = f"{_gib(case.facts.memory.total_kib)} of memory: none are set aside"
        yield Finding("huge pages", "", found, Verdict.NOTE, "the host would have too little left")


def _finding(subject: str, found: str, verdict: Verdict, do: str = "") -> Finding:
    return Finding("huge pages", subject, found, verdict, WHY, do)


def _gib(kib: float) -> str:
    return f"{kib / KIB_PER_GIB:.1f} GiB"
