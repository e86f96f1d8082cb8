"""Whether a card is healthy, suspect or lost, from signs that do not touch it first. Pure.

A card that was lost after a failed reset can hang the CPU that reads its configuration, so the
order matters: what sysfs has in memory and what the kernel said come first; only a card that is
awake and that nobody complains about is asked for its header, by `gpu_probe`, and only then can it
be called healthy. vendor and device in sysfs prove nothing: the kernel keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from rift_provision.facts import Facts
from rift_provision.facts.pci import PciFunction

HEADER_BYTES = 64  # of configuration space: the header, PCI Local Bus 3.0, section 6.1
VENDOR, HEADER_TYPE = 0x00, 0x0E  # offsets in it, of two bytes and of one
GONE = ("ffff", "0001")  # what a card that is gone answers as its vendor; the second was reported
HUNG = "hung"


class State(StrEnum):
    """From good to bad. Unknown: it was not asked, and nothing speaks against it."""

    HEALTHY = "healthy"
    UNKNOWN = "unknown"
    SUSPECT = "suspect"
    LOST = "lost"


@dataclass(frozen=True)
class Sign:
    """Something that speaks against a card, or for it, and where it was seen."""

    state: State
    text: str


@dataclass(frozen=True)
class Health:
    """The worst of a card's signs, and all of them."""

    address: str
    state: State
    signs: tuple[Sign, ...]


# What the kernel and NVIDIA's driver say: public reports in docs/lost-card.md.
MESSAGES = (
    (State.LOST, re.compile(r"after FLR; giving up")),
    (State.LOST, re.compile(r"Unable to change power state from D3cold to D0")),
    (State.LOST, re.compile(r"[Uu]nknown header type 7f")),
    (State.LOST, re.compile(r"NVRM: Xid \([^)]*\): 79\b|fallen off the bus")),
    (State.SUSPECT, re.compile(r"timed out waiting for pending transaction")),
    (State.SUSPECT, re.compile(r"not ready \d+ms after (FLR|bus reset|resume)")),
    (State.SUSPECT, re.compile(r"NVRM: Xid \([^)]*\): (119|154)\b")),
    (State.SUSPECT, re.compile(r"AER.*(Fatal|Uncorrect)")),
    (State.SUSPECT, re.compile(r"DPC: containment event")),
)


def may_be_probed(facts: Facts, function: PciFunction) -> bool:
    """Whether reading a card's header is safe: it is awake, and nothing speaks against it."""
    awake = function.power.state == "D0" and function.power.runtime_status in ("active", None)
    return awake and not any(s.state in BAD for s in quiet_signs(facts, function))


BAD = (State.SUSPECT, State.LOST)


def health(facts: Facts, function: PciFunction, header: str | None = None) -> Health:
    """A card's health. header: its first bytes in hex, or HUNG; None if it was not asked."""
    signs = [*quiet_signs(facts, function), *_header_signs(function, header)]
    order = list(State)
    worst = max((sign.state for sign in signs), key=order.index, default=State.UNKNOWN)
    if worst is State.HEALTHY and header is None:
        worst = State.UNKNOWN
    return Health(function.address, worst, tuple(signs))


def quiet_signs(facts: Facts, function: PciFunction) -> Iterator[Sign]:
    """Signs that are there without asking the card."""
    above = (*function.bridges, *(one.address for one in facts.slot(function.address)))
    for line in facts.log:
        if any(address in line for address in above):
            found = [state for state, message in MESSAGES if message.search(line)]
            if found:
                yield Sign(max(found, key=list(State).index), f"kernel log: {line}")
    yield from _power_signs(function)
    yield from _error_signs(function)
    yield from _link_signs(function)


def _power_signs(function: PciFunction) -> Iterator[Sign]:
    state = function.power.state
    if state in ("D3cold", "unknown", "error") or function.power.runtime_status == "error":
        yield Sign(State.SUSPECT, f"power state {state}, {function.power.runtime_status}")


def _error_signs(function: PciFunction) -> Iterator[Sign]:
    if function.errors is None:
        return
    for kind in ("fatal", "nonfatal"):
        for name, count in getattr(function.errors, kind).items():
            yield Sign(State.SUSPECT, f"{count} {kind} errors on the link since boot: {name}")
    for name, count in function.errors.correctable.items():
        yield Sign(State.HEALTHY, f"{count} corrected errors on the link since boot: {name}")


def _link_signs(function: PciFunction) -> Iterator[Sign]:
    """A link narrower than both ends allow. Speed alone is none: drivers lower it when idle."""
    link = function.link
    if link is None:
        return
    now, could = f"x{link.width} at {link.speed}", f"x{link.max_width} at {link.max_speed}"
    if link.width < link.max_width:
        yield Sign(State.SUSPECT, f"the link is {now}; both ends could {could}")
    elif link.speed != link.max_speed and function.driver == "vfio-pci":
        yield Sign(State.SUSPECT, f"the link is {now} with no driver to slow it; it could {could}")


def _header_signs(function: PciFunction, header: str | None) -> Iterator[Sign]:
    if header is None:
        return
    if header == HUNG:
        yield Sign(State.LOST, "whoever reads its configuration hangs; do not try again")
        return
    data = bytes.fromhex(header)
    if len(data) < HEADER_BYTES:
        yield Sign(State.SUSPECT, f"only {len(data)} bytes of its configuration can be read")
        return
    vendor = int.from_bytes(data[VENDOR : VENDOR + 2], "little")
    if f"{vendor:04x}" in GONE or data[HEADER_TYPE] & 0x7F == 0x7F:
        text = f"its configuration reads vendor {vendor:04x}, header type {data[HEADER_TYPE]:02x}"
        yield Sign(State.LOST, text)
    elif f"{vendor:04x}" != function.vendor:
        yield Sign(State.LOST, f"it answers as vendor {vendor:04x}, and was {function.vendor}")
    else:
        yield Sign(State.HEALTHY, f"answers as {vendor:04x}")
