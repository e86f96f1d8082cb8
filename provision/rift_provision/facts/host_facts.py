"""All that is known of a host, as one value and as one JSON document."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from rift.errors import Failed, WrongUsage
from rift_provision.facts.boot import Boot, parse_boot
from rift_provision.facts.cpu import Cpus, parse_cpus
from rift_provision.facts.files import File, parse_files
from rift_provision.facts.iommu import Iommu, parse_iommu
from rift_provision.facts.log import parse_log
from rift_provision.facts.memory import Memory, parse_memory
from rift_provision.facts.modules import Modules, parse_modules
from rift_provision.facts.pci import PciFunction, parse_pci
from rift_provision.facts.pci_names import names_for
from rift_provision.facts.software import Software, parse_software
from rift_provision.facts.tree import Tree
from rift_provision.facts.users import parse_users

SCHEMA: Literal["rift.host-facts/1"] = "rift.host-facts/1"


@dataclass(frozen=True)
class Machine:
    """The machine and who looked at it. root: whether the collector could read everything."""

    hostname: str
    system: str
    kernel: str
    architecture: str
    vendor: str | None
    product: str | None
    board: str | None
    firmware_version: str | None
    python: str | None
    root: bool


@dataclass(frozen=True)
class Facts:
    """A host as it was when somebody looked."""

    schema: Literal["rift.host-facts/1"]
    machine: Machine
    cpus: Cpus
    memory: Memory
    iommu: Iommu
    pci: tuple[PciFunction, ...]
    boot: Boot
    modules: Modules
    software: Software
    files: dict[str, File]
    log: tuple[str, ...]

    def function(self, address: str) -> PciFunction | None:
        """The PCI function at an address."""
        return next((one for one in self.pci if one.address == address), None)

    def slot(self, address: str) -> tuple[PciFunction, ...]:
        """All functions of the device that an address, with or without a function, belongs to."""
        slot = address.rpartition(".")[0] or address
        return tuple(one for one in self.pci if one.slot == slot)

    def group(self, group: int | None) -> tuple[PciFunction, ...]:
        """The members of an IOMMU group."""
        return tuple(one for one in self.pci if group is not None and one.iommu_group == group)


def parse(tree: Tree) -> Facts:
    """The facts in a tree. Pure: the same tree gives the same facts, names of devices aside.

    Raises Failed if a file is not of the form that the kernel gives it.
    """
    try:
        return _parse(tree)
    except (ValueError, LookupError) as error:
        raise Failed(
            f"facts: a file is not as Linux writes it: {error}; please report it with the output "
            "of uname -r"
        ) from error


def _parse(tree: Tree) -> Facts:
    machine = _machine(tree)
    return Facts(
        schema=SCHEMA,
        machine=machine,
        cpus=parse_cpus(tree),
        memory=parse_memory(tree),
        iommu=parse_iommu(tree),
        pci=parse_pci(tree, names_for(tree), parse_users(tree)),
        boot=parse_boot(tree),
        modules=parse_modules(tree, machine.kernel),
        software=parse_software(tree),
        files=parse_files(tree),
        log=parse_log(tree),
    )


def _machine(tree: Tree) -> Machine:
    who = dict(line.split("=", 1) for line in tree.lines("/commands/who") if "=" in line)
    version = (tree.value("/proc/version") or "").split()
    kernel = version[2] if len(version) > 2 else ""
    dmi = {
        key: tree.value(f"/sys/class/dmi/id/{key}")
        for key in ("sys_vendor", "product_name", "board_name", "bios_version")
    }
    return Machine(
        hostname=who.get("hostname", ""),
        system=who.get("system", version[0] if version else ""),
        kernel=who.get("kernel", kernel),
        architecture=who.get("machine", ""),
        vendor=dmi["sys_vendor"],
        product=dmi["product_name"],
        board=dmi["board_name"],
        firmware_version=dmi["bios_version"],
        python=who.get("python"),
        root=who.get("uid") == "0",
    )


def to_json(facts: Facts) -> dict[str, Any]:
    """The document: what JSON can hold, keys as in the classes."""
    document: dict[str, Any] = json.loads(json.dumps(asdict(facts)))
    return document


def from_json(text: str, origin: str) -> Facts:
    """Facts that were written before. Raises WrongUsage, with the path of what does not fit."""
    try:
        return TypeAdapter(Facts).validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the document"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise WrongUsage(
            f"{origin}: {where}: {first['msg']}{more}; expected a file that "
            "rift host facts HOST --json wrote"
        ) from None


def read_json(path: Path) -> Facts:
    """Facts from a file. Raises WrongUsage."""
    try:
        return from_json(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"{path}: {error}") from error


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the document (docs/host-facts.schema.json)."""
    return TypeAdapter(Facts).json_schema()
