"""Why the host needs a PCI function: mounted disks, its network, who has a device open."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from rift_provision.facts.tree import Tree

ADDRESS = re.compile(r"/([0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?=/|$)")
DEFAULT_ROUTE = "00000000"
SHOWN = 4  # of the processes that have one device open


def parse_users(tree: Tree) -> dict[str, list[str]]:
    """Address to reasons, for every PCI function that something on the host is using."""
    found: dict[str, list[str]] = {}
    for use in (_disks(tree), _network(tree), _open_devices(tree)):
        for address, reason in use:
            reasons = found.setdefault(address, [])
            if reason not in reasons:
                reasons.append(reason)
    return found


def function_of(tree: Tree, path: str) -> str | None:
    """The PCI function that a link in /sys/class leads through, the nearest one."""
    found: list[str] = ADDRESS.findall(tree.resolve(path))
    return found[-1] if found else None


def _disks(tree: Tree) -> Iterator[tuple[str, str]]:
    mounts = _columns(tree, "/proc/self/mounts", 2)
    swaps = [[row[0], "swap"] for row in _columns(tree, "/proc/swaps", 2)[1:]]
    for device, where, *_ in [*mounts, *swaps]:
        if device.startswith("/dev/"):
            for name in _underlying(tree, posixpath.basename(device)):
                if address := function_of(tree, f"/sys/class/block/{name}"):
                    use = "swap" if where == "swap" else f"mounted at {where}"
                    yield address, f"disk {name}: {use}"


def _columns(tree: Tree, path: str, least: int) -> list[list[str]]:
    """The words of each line that has at least so many."""
    rows = (line.split() for line in tree.lines(path))
    return [row for row in rows if len(row) >= least]


def _underlying(tree: Tree, name: str) -> list[str]:
    """The disks below a device: of device-mapper and RAID, their members'."""
    name = _mapped(tree, name)
    slaves = tree.names(f"/sys/class/block/{name}/slaves")
    return [disk for slave in slaves for disk in _underlying(tree, slave)] or [name]


def _mapped(tree: Tree, name: str) -> str:
    """dm-N of a name below /dev/mapper; other names as they are."""
    for device in tree.names("/sys/class/block"):
        if device.startswith("dm-") and tree.value(f"/sys/class/block/{device}/dm/name") == name:
            return device
    return name


def _network(tree: Tree) -> Iterator[tuple[str, str]]:
    routes = _columns(tree, "/proc/net/route", 8)[1:]
    via = {route[0] for route in routes if route[1] == route[7] == DEFAULT_ROUTE}
    six = _columns(tree, "/proc/net/ipv6_route", 10)
    via |= {route[-1] for route in six if route[:2] == ["0" * 32, "00"]} - {"lo"}
    for interface in sorted(via):
        for port in _ports(tree, interface):
            if address := function_of(tree, f"/sys/class/net/{port}"):
                yield address, f"network interface {port}: default route"


def _ports(tree: Tree, interface: str) -> list[str]:
    """The interfaces below one: a bridge's and a bond's members, else itself."""
    lower = [
        name.removeprefix("lower_")
        for name in tree.names(f"/sys/class/net/{interface}")
        if name.startswith("lower_")
    ]
    return [port for name in lower for port in _ports(tree, name)] or [interface]


def _open_devices(tree: Tree) -> Iterator[tuple[str, str]]:
    users: dict[tuple[str, str], list[str]] = {}
    rows = (line.split("\t") for line in tree.lines("/commands/device-users"))
    for pid, name, path in (row for row in rows if len(row) == 3):
        for address in _functions_behind(tree, path):
            users.setdefault((address, path), []).append(f"{name} (pid {pid})")
    for (address, path), who in users.items():
        more = f" and {len(who) - SHOWN} more" if len(who) > SHOWN else ""
        yield address, f"{path} open in {', '.join(who[:SHOWN])}{more}"


def _functions_behind(tree: Tree, path: str) -> list[str]:
    name = posixpath.basename(path)
    if path.startswith("/dev/dri/"):
        found = [function_of(tree, f"/sys/class/drm/{name}")]
    elif path.startswith("/dev/snd/"):
        card = re.search(r"C(\d+)", name)
        found = [function_of(tree, f"/sys/class/sound/card{card[1]}")] if card else []
    elif match := re.fullmatch(r"/dev/nvidia(\d+)", path):
        found = [_nvidia(tree, match[1])]
    elif match := re.fullmatch(r"/dev/vfio/(\d+)", path):
        found = list(_group(tree, match[1]))
    else:
        found = []
    return [address for address in found if address]


def _nvidia(tree: Tree, minor: str) -> str | None:
    at = "/proc/driver/nvidia/gpus"
    for address in tree.names(at):
        lines = tree.lines(f"{at}/{address}/information")
        if any(re.fullmatch(rf"Device Minor:\s*{minor}", line.strip()) for line in lines):
            return address
    return None


def _group(tree: Tree, group: str) -> Iterator[str]:
    at = "/sys/bus/pci/devices"
    for address in tree.names(at):
        if tree.target(f"{at}/{address}/iommu_group") == group:
            yield address
