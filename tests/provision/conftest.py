"""Recorded hosts: small trees in one text file each, below hosts/.

A file starts with `base: NAME` (another file that it changes) and `source: ...` (where the case was
reported), and goes on with sections:

    -- /path --            a file, up to the next section; mode=0600 after the path
    -- /path -> target --  a link
    -- /path absent --     not there, though the base has it
    -- /path hex --        bytes; utf16: a string in a UEFI variable
    -- pci --              a line a function: ADDRESS id=10de:2684 class=030000 under=PARENT ...
    -- nodes --            a line a NUMA node: 0 cpus=0-7,16-23 memory=64G pages=1G:0,2M:0

`pci` and `nodes` only save typing: they become the files and links that sysfs has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rift_provision.boot_loader import configured, loader_of
from rift_provision.facts import Facts, parse
from rift_provision.facts.cpu import id_list
from rift_provision.facts.tree import Entry, Tree
from rift_provision.plan import Plan
from rift_provision.vfio_files import DRIVER

HOSTS = Path(__file__).parent / "hosts"
SECTION = re.compile(r"^-- (\S+)((?: \S+)*?)(?: -> (\S+))? --$", re.MULTILINE)
SIZES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
FILES_OF = {  # key of a pci line: file in sysfs
    "node": "numa_node", "reset": "reset_method", "boot_vga": "boot_vga", "class": "class",
    "override": "driver_override", "state": "power_state", "control": "power/control",
    "status": "power/runtime_status", "d3cold": "d3cold_allowed", "revision": "revision",
    "totalvfs": "sriov_totalvfs", "numvfs": "sriov_numvfs",
    "speed": "current_link_speed", "width": "current_link_width",
    "max_speed": "max_link_speed", "max_width": "max_link_width",
}  # fmt: skip


class Recording:
    """A host while it is put together."""

    def __init__(self) -> None:
        self.files: dict[str, Entry] = {}
        self.links: dict[str, str] = {}

    def put(self, path: str, text: str, mode: int = 0o644) -> None:
        self.links.pop(path, None)
        self.files[path] = Entry(text.encode("utf-8", "surrogateescape"), mode)

    def link(self, path: str, target: str) -> None:
        self.files.pop(path, None)
        self.links[path] = target

    def drop(self, path: str) -> None:
        for known in (self.files, self.links):
            for one in [p for p in known if p == path or p.startswith(path + "/")]:
                del known[one]

    def read(self, name: str) -> None:
        text = (HOSTS / f"{name}.host").read_text(encoding="utf-8", errors="surrogateescape")
        head, *parts = SECTION.split(text)
        if base := re.search(r"^base: (\S+)$", head, re.MULTILINE):
            self.read(base[1])
        for at in range(0, len(parts), 4):
            path, words, target, body = parts[at : at + 4]
            self.section(path, words.split(), target, body.removeprefix("\n"))

    def section(self, path: str, words: list[str], target: str | None, body: str) -> None:
        if path in ("pci", "nodes"):
            add = {"pci": self.pci, "nodes": self.node}[path]
            for line in filter(None, body.splitlines()):
                add(*line.split())
        elif target:
            self.link(path, target)
        elif words == ["absent"]:
            self.drop(path)
        elif words == ["hex"]:
            self.files[path] = Entry(bytes.fromhex(body))
        elif words == ["utf16"]:
            self.files[path] = Entry(b"\6\0\0\0" + body.strip().encode("utf-16-le") + b"\0\0")
        else:
            mode = dict(word.split("=") for word in words).get("mode", "0644")
            self.put(path, body, int(mode, 8))

    def pci(self, address: str, *words: str) -> None:
        given = dict(word.split("=", 1) for word in words)
        shortcut = f"/sys/bus/pci/devices/{address}"
        parent = given.pop("under", None)
        if parent is None:  # a change to a function of the base
            at = str(Path("/sys", self.links[shortcut].removeprefix("../../../")))
        else:
            above = self.links.get(f"/sys/bus/pci/devices/{parent}", f"../../../devices/{parent}")
            self.link(shortcut, f"{above}/{address}")
            at = f"/sys/{above.removeprefix('../../../')}/{address}"
        for key, value in given.items():
            self.attribute(at, key, value)

    def attribute(self, at: str, key: str, value: str) -> None:
        if key in ("id", "sub"):
            prefix = "subsystem_" if key == "sub" else ""
            for name, digits in zip(("vendor", "device"), value.split(":"), strict=True):
                self.put(f"{at}/{prefix}{name}", f"0x{digits}\n")
        elif key == "driver":
            self.drop(f"{at}/driver")
            if value != "none":
                self.link(f"{at}/driver", f"/sys/bus/pci/drivers/{value}")
        elif key == "group" and value == "none":
            self.drop(f"{at}/iommu_group")
        elif key == "group":
            self.link(f"{at}/iommu_group", f"/sys/kernel/iommu_groups/{value}")
            self.files.setdefault(f"/sys/kernel/iommu_groups/{value}/type", Entry(b"DMA-FQ\n"))
        elif key == "bars":
            self.put(f"{at}/resource", "".join(map(bar, value.split(","))))
        else:
            text = f"0x{value}" if key == "class" else value.replace(",", " ")
            self.put(f"{at}/{FILES_OF[key]}", text + "\n")

    def node(self, number: str, *words: str) -> None:
        given = dict(word.split("=", 1) for word in words)
        at = f"/sys/devices/system/node/node{number}"
        kib = size(given["memory"]) >> 10
        self.put(f"{at}/cpulist", given["cpus"] + "\n")
        self.put(f"{at}/meminfo", f"Node {number} MemTotal:       {kib} kB\n")
        self.put(f"{at}/distance", given["distance"].replace(",", " ") + "\n")
        for page in filter(None, given.get("pages", "").split(",")):
            kind, _, count = page.partition(":")
            pages = f"{at}/hugepages/hugepages-{size(kind) >> 10}kB"
            for name, value in (("nr", count), ("free", count), ("surplus", "0")):
                self.put(f"{pages}/{name}_hugepages", f"{value}\n")
        cpus = id_list(given["cpus"])
        cores = max(1, len(cpus) // int(given.get("threads", "2")))
        for index, cpu in enumerate(cpus):
            together = ",".join(str(c) for i, c in enumerate(cpus) if i % cores == index % cores)
            topology = f"/sys/devices/system/cpu/cpu{cpu}/topology"
            self.put(f"{topology}/thread_siblings_list", together + "\n")
            self.put(f"{topology}/core_id", f"{index % cores}\n")
            self.put(f"{topology}/physical_package_id", given.get("package", number) + "\n")


def size(text: str) -> int:
    """Bytes of 16M."""
    return int(text[:-1]) * SIZES[text[-1]] if text[-1] in SIZES else int(text)


def bar(text: str) -> str:
    """A line of `resource` for a 64-bit prefetchable BAR of a size; 0 is none."""
    if not size(text):
        return "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
    base = size(text)
    return f"0x{base:016x} 0x{2 * base - 1:016x} 0x000000000014220c\n"


def record(name: str) -> Tree:
    """The tree in hosts/NAME.host."""
    recording = Recording()
    recording.read(name)
    return Tree(recording.files, recording.links)


@pytest.fixture
def recorded() -> Callable[[str], Tree]:
    """The trees below hosts/, by name."""
    return record


@pytest.fixture
def after() -> Callable[[Tree, Plan], Tree]:
    """What a tree is once a plan was applied to it."""
    return booted_with


@pytest.fixture
def facts_of() -> Callable[[str], Facts]:
    """The facts of the hosts below hosts/, by name."""
    return lambda name: parse(record(name))


def booted_with(tree: Tree, plan: Plan) -> Tree:
    """The host after the plan was applied and it was rebooted, as far as a tree can show it."""
    host = Recording()
    host.files, host.links = dict(tree.files), dict(tree.links)
    for change in plan.files:
        if change.after is None:
            host.drop(change.path)
        else:
            host.put(change.path, change.after.text or "", int(change.after.mode, 8))
    facts = parse(Tree(host.files, host.links))
    if any(command.argv[0] == "update-initramfs" for command in plan.commands):
        image = [path.lstrip("/") for path in facts.files if path.startswith("/etc/rift/")]
        host.put("/commands/lsinitramfs", "".join(path + "\n" for path in ["init", *image]))
    line = configured(facts, loader_of(facts))
    host.put("/proc/cmdline", f"BOOT_IMAGE=/vmlinuz {line}\n")
    host.put("/sys/module/vfio_pci/parameters/disable_idle_d3", "Y\n")
    bound = host.files.get("/etc/rift/vfio-devices", Entry()).content.decode().splitlines()[1:]
    rules = host.files.get("/etc/udev/rules.d/10-rift-vfio.rules", Entry()).content.decode()
    early: list[str] = []
    for index, one in enumerate(facts.pci):
        words = [f"driver={DRIVER}"] if f"{one.address} {one.ids}" in bound else []
        early += [f"{one.address} driver {DRIVER}\n"] if words else []
        if one.power.d3cold_allowed and f'KERNEL=="{one.address}"' in rules:
            words.append("d3cold=0")
        host.pci(one.address, f"group={one.iommu_group or 100 + index}", *words)
    host.put("/run/rift/bound", "".join(early))
    for path in [p for p in host.files if re.fullmatch(r"/sys/kernel/iommu_groups/\d+/type", p)]:
        host.put(path, "identity\n")
    for node, count in _reserved(line, host.files):
        at = f"/sys/devices/system/node/node{node}/hugepages/hugepages-1048576kB"
        host.put(f"{at}/nr_hugepages", f"{count}\n")
    states = "\n\n".join(
        f"Id={unit.name}\nLoadState=loaded\nActiveState=active\nUnitFileState=enabled"
        for unit in plan.units
    )
    host.put("/commands/units", states + "\n")
    manager = "dpkg" if plan.package_manager == "apt" else "rpm"
    installed = host.files.get(f"/commands/{manager}", Entry()).content.decode()
    host.put(f"/commands/{manager}", installed + "".join(f"{p}\t1\tii \n" for p in plan.packages))
    return Tree(host.files, host.links)


def _reserved(line: str, files: dict[str, Entry]) -> list[tuple[str, str]]:
    """Node and number of 1 GiB pages, of the command line or of the unit."""
    if match := re.search(r"hugepagesz=1G hugepages=(\S+)", line):
        pairs = match[1].split(",")
        return [pair.split(":") for pair in pairs] if ":" in match[1] else [("0", match[1])]  # type: ignore[misc]
    unit = files.get("/etc/systemd/system/rift-hugepages.service", Entry()).content.decode()
    return [(node, count) for count, node in re.findall(r"echo (\d+) > \S+node(\d+)/", unit)]
