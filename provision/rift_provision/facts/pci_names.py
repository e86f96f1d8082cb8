"""Names of PCI devices: pci.ids of the host or, failing that, of this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from rift_provision.facts.tree import Tree

HERE = (Path("/usr/share/misc/pci.ids"), Path("/usr/share/hwdata/pci.ids"))
VENDOR = re.compile(r"([0-9a-f]{4})  (.+)")
DEVICE = re.compile(r"\t([0-9a-f]{4})  (.+)")


@dataclass(frozen=True)
class PciNames:
    """Vendors by id, devices by (vendor, device)."""

    vendors: dict[str, str] = field(default_factory=dict)
    devices: dict[tuple[str, str], str] = field(default_factory=dict)

    def of(self, vendor: str, device: str) -> str | None:
        """e.g. "NVIDIA Corporation GH100 [H200 SXM 141GB]", or None if the vendor is unknown."""
        if vendor not in self.vendors:
            return None
        return f"{self.vendors[vendor]} {self.devices.get((vendor, device), device)}"


def parse_pci_ids(text: str) -> PciNames:
    """The names in a pci.ids file or in a part of it."""
    names = PciNames()
    vendor = ""
    for line in text.splitlines():
        if match := VENDOR.fullmatch(line):
            vendor = match[1]
            names.vendors[vendor] = match[2]
        elif match := DEVICE.fullmatch(line):
            names.devices[vendor, match[1]] = match[2]
    return names


def names_for(tree: Tree) -> PciNames:
    """The names that the host's own pci.ids gives, else this machine's, else none."""
    if text := tree.text("/commands/pci-names"):
        return parse_pci_ids(text)
    here = next((path for path in HERE if path.exists()), None)
    return parse_pci_ids(here.read_text(encoding="utf-8", errors="replace")) if here else PciNames()
