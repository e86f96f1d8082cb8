"""What a requirement says: what was found, the verdict, and what a plan is to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from rift_provision import kernel_options
from rift_provision.boot_loader import Loader
from rift_provision.facts import Facts
from rift_provision.facts.files import File
from rift_provision.facts.pci import PciFunction


class Verdict(StrEnum):
    """From good to bad. A note changes nothing: it is there to be known."""

    OK = "ok"
    NOTE = "note"
    WILL_FIX = "will fix"
    NEEDS_FIRMWARE = "needs firmware"
    BLOCKS = "blocks"


class Mode(StrEnum):
    """What the cards are for: passed through to VMs whole, or used by the host's containers."""

    VFIO = "vfio"
    CONTAINER = "container"


@dataclass(frozen=True)
class Finding:
    """One line of a check. subject: a PCI address, a node, or nothing for the host itself.

    why: why it matters. do: what the plan does or, where it cannot, what a person has to do.
    """

    requirement: str
    subject: str
    found: str
    verdict: Verdict
    why: str
    do: str = ""


@dataclass(frozen=True)
class Request:
    """What is asked of a host. gpus: PCI addresses, with or without function, or ("all",).

    hugepages: auto, none, a size such as 64G over all nodes, or 0=32G,1=32G. page_kib: the size of
    one, None for 1 GiB where the CPU can, else 2 MiB.
    """

    mode: Mode = Mode.VFIO
    gpus: tuple[str, ...] = ("all",)
    hugepages: str = "auto"
    page_kib: int | None = None


@dataclass(frozen=True)
class Case:
    """A host and what is asked of it. loader: None if it is unknown, which a finding says.

    functions: the PCI functions to be passed through or used, all that belong to the chosen cards.
    """

    facts: Facts
    request: Request
    loader: Loader | None
    command_line: str
    functions: tuple[PciFunction, ...]

    @property
    def configured(self) -> list[str]:
        """The words that the next boot's kernel gets as far as the files say."""
        return kernel_options.words(self.command_line)

    @property
    def running(self) -> list[str]:
        """The words that the running kernel got."""
        return kernel_options.words(self.facts.boot.command_line)


@dataclass(frozen=True)
class Part:
    """What one requirement found, and the state it wants.

    options, without: words that the kernel command line is to have, and not to have.
    files: path to the file as it is to be, or None if it is not to be. packages: to be installed.
    units: systemd units to be enabled and started.
    initramfs: whether any of it takes effect through the initramfs.
    at_boot: whether its units do their work at boot and not later.
    pending: whether the running system is not as wanted, though files may say so already.
    """

    findings: tuple[Finding, ...]
    options: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    files: dict[str, File | None] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    units: tuple[str, ...] = ()
    initramfs: bool = False
    at_boot: bool = False
    pending: bool = False
