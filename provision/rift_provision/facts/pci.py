"""The PCI tree: every function, what it is, where it hangs, who drives it, what it was seen to do.

Only what sysfs has in memory is read: nothing here asked a device, so vendor and device are what
the kernel saw at boot, and say nothing about whether the card still answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rift_provision.facts.pci_names import PciNames
from rift_provision.facts.tree import Tree

DEVICES = "/sys/bus/pci/devices"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
IDS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
BRIDGES = ("0600", "0601", "0604", "0680")
# PCI Code and ID Assignment specification 1.16, section 1: base and sub-classes.
DISPLAY = "03"
ACCELERATOR = "1200"
STORAGE = "01"
NETWORK = "02"
# linux/ioport.h: what the flags of a line of `resource` mean.
IORESOURCE_IO = 0x100
IORESOURCE_MEM = 0x200
IORESOURCE_PREFETCH = 0x2000
IORESOURCE_MEM_64 = 0x100000
BAR_COUNT = 6


@dataclass(frozen=True)
class Bar:
    """A base address register: which, how many bytes, what kind."""

    index: int
    size_bytes: int
    is_io: bool
    is_64bit: bool
    prefetchable: bool


@dataclass(frozen=True)
class Link:
    """A PCI Express link as it is and as both ends could have it, e.g. "16.0 GT/s PCIe", 16."""

    speed: str
    width: int
    max_speed: str
    max_width: int


@dataclass(frozen=True)
class Power:
    """state: D0 to D3cold as the kernel last knew; control: "on" keeps it awake, "auto" not."""

    state: str | None
    runtime_status: str | None
    control: str | None
    d3cold_allowed: bool | None


@dataclass(frozen=True)
class Errors:
    """Advanced Error Reporting: counters that are not zero, by the kernel's name of the error."""

    correctable: dict[str, int] = field(default_factory=dict)
    nonfatal: dict[str, int] = field(default_factory=dict)
    fatal: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PciFunction:
    """One function of a PCI device.

    vendor, device, subsystem_*: four hex digits; class_code: six.
    root: its host bridge, e.g. pci0000:40; bridges: those between it and the root, topmost first.
    numa_node: its own or, where it has none, the nearest bridge's; None is unknown, never node 0.
    reset_methods: in the kernel's order, empty if it has none, None if the kernel does not say.
    errors: None without Advanced Error Reporting. users: why the host needs it, in words.
    """

    address: str
    vendor: str
    device: str
    subsystem_vendor: str
    subsystem_device: str
    class_code: str
    revision: str
    name: str | None
    root: str
    bridges: tuple[str, ...]
    numa_node: int | None
    iommu_group: int | None
    driver: str | None
    driver_override: str | None
    bars: tuple[Bar, ...]
    reset_methods: tuple[str, ...] | None
    link: Link | None
    power: Power
    boot_vga: bool | None
    sriov_total_vfs: int | None
    sriov_vfs: int | None
    physical_function: str | None
    errors: Errors | None
    users: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what would otherwise be written into files on a host."""
        if not ADDRESS.fullmatch(self.address) or not IDS.fullmatch(self.ids):
            raise ValueError(f"{self.address!r} {self.ids!r} is no PCI address with its ids")

    @property
    def slot(self) -> str:
        """The address without the function: 0000:41:00."""
        return self.address.rpartition(".")[0]

    @property
    def ids(self) -> str:
        """vendor:device, as lspci -n writes it."""
        return f"{self.vendor}:{self.device}"

    @property
    def is_bridge(self) -> bool:
        """Whether it is part of the bus, which a VFIO group may hold without being taken over."""
        return self.class_code.startswith(BRIDGES)

    @property
    def is_gpu(self) -> bool:
        """Whether it is a display controller or a processing accelerator."""
        return self.class_code.startswith((DISPLAY, ACCELERATOR))

    @property
    def title(self) -> str:
        """Its name, or its numbers where pci.ids does not know it."""
        return self.name or self.ids


def parse_pci(tree: Tree, names: PciNames, users: dict[str, list[str]]) -> tuple[PciFunction, ...]:
    """Every function in a tree, by address. `users` is what `users.parse_users` found."""
    links = _links(tree)
    return tuple(
        _function(tree, address, names, links, tuple(users.get(address, ())))
        for address in tree.names(DEVICES)
    )


def _function(
    tree: Tree, address: str, names: PciNames, links: dict[str, str], users: tuple[str, ...]
) -> PciFunction:
    at = f"{DEVICES}/{address}"
    numbers = {
        key: (tree.value(f"{at}/{key}") or "0x").removeprefix("0x")
        for key in ("vendor", "device", "subsystem_vendor", "subsystem_device", "revision", "class")
    }
    root, bridges = _place(tree, at)
    methods = tree.text(f"{at}/reset_method")
    override = tree.value(f"{at}/driver_override")
    group = tree.target(f"{at}/iommu_group")
    return PciFunction(
        address=address,
        vendor=numbers["vendor"],
        device=numbers["device"],
        subsystem_vendor=numbers["subsystem_vendor"],
        subsystem_device=numbers["subsystem_device"],
        class_code=numbers["class"],
        revision=numbers["revision"],
        name=names.of(numbers["vendor"], numbers["device"]),
        root=root,
        bridges=bridges,
        numa_node=_numa_node(tree, (address, *reversed(bridges))),
        iommu_group=int(group) if group else None,
        driver=tree.target(f"{at}/driver"),
        driver_override=None if override == "(null)" else override,
        bars=_bars(tree.lines(f"{at}/resource")),
        reset_methods=None if methods is None else tuple(methods.split()),
        link=_link(tree, at, links),
        power=_power(tree, at),
        boot_vga=_flag(tree, f"{at}/boot_vga"),
        sriov_total_vfs=tree.number(f"{at}/sriov_totalvfs"),
        sriov_vfs=tree.number(f"{at}/sriov_numvfs"),
        physical_function=tree.target(f"{at}/physfn"),
        errors=_errors(tree, at),
        users=users,
    )


def _place(tree: Tree, at: str) -> tuple[str, tuple[str, ...]]:
    """The host bridge and the bridges on the way, from where the device's directory really is."""
    path = tree.resolve(at).split("/")[:-1]
    roots = [part for part in path if re.fullmatch(r"pci[0-9a-f]{4,}:[0-9a-f]{2}", part)]
    return roots[0] if roots else "", tuple(part for part in path if ADDRESS.fullmatch(part))


def _numa_node(tree: Tree, upwards: tuple[str, ...]) -> int | None:
    for address in upwards:
        node = tree.number(f"{DEVICES}/{address}/numa_node")
        if node is not None and node >= 0:
            return node
    return None


def _bars(lines: list[str]) -> tuple[Bar, ...]:
    """From lines of start, end and flags in hex; a register that is not there is all zeros."""
    found = []
    for index, line in enumerate(lines[:BAR_COUNT]):
        start, end, flags = (int(word, 16) for word in line.split())
        if flags & (IORESOURCE_IO | IORESOURCE_MEM):
            kind = (IORESOURCE_IO, IORESOURCE_MEM_64, IORESOURCE_PREFETCH)
            found.append(Bar(index, end - start + 1, *(bool(flags & bit) for bit in kind)))
    return tuple(found)


def _links(tree: Tree) -> dict[str, str]:
    """What the collector read of links: path to value."""
    pairs = (line.partition("\t") for line in tree.lines("/commands/pci-links"))
    return {path: value for path, _, value in pairs}


def _link(tree: Tree, at: str, links: dict[str, str]) -> Link | None:
    speed, width, max_speed, max_width = (
        links.get(f"{at}/{name}") or tree.value(f"{at}/{name}") or ""
        for name in ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    )
    if not (width.isdigit() and max_width.isdigit()) or int(max_width) == 0:
        return None  # no PCI Express, or nobody dared to look
    return Link(speed, int(width), max_speed, int(max_width))


def _power(tree: Tree, at: str) -> Power:
    return Power(
        state=tree.value(f"{at}/power_state"),
        runtime_status=tree.value(f"{at}/power/runtime_status"),
        control=tree.value(f"{at}/power/control"),
        d3cold_allowed=_flag(tree, f"{at}/d3cold_allowed"),
    )


def _errors(tree: Tree, at: str) -> Errors | None:
    if not tree.has(f"{at}/aer_dev_fatal"):
        return None
    return Errors(*(_counts(tree, at, kind) for kind in ("correctable", "nonfatal", "fatal")))


def _counts(tree: Tree, at: str, kind: str) -> dict[str, int]:
    pairs = (line.rsplit(maxsplit=1) for line in tree.lines(f"{at}/aer_dev_{kind}"))
    counts = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    return {name: n for name, n in counts.items() if n and not name.startswith("TOTAL_")}


def _flag(tree: Tree, path: str) -> bool | None:
    number = tree.number(path)
    return None if number is None else bool(number)
