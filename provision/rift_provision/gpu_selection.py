"""Which cards are meant: by address, or all that the host can do without."""

from __future__ import annotations

from rift.errors import WrongUsage
from rift_provision.facts import Facts
from rift_provision.facts.pci import PciFunction

ALL = ("all",)
AUDIO = "0403"


def gpus_of(facts: Facts) -> tuple[PciFunction, ...]:
    """Every graphics card or accelerator, one function each; virtual functions are no cards."""
    return tuple(one for one in facts.pci if one.is_gpu and one.physical_function is None)


def select(facts: Facts, wanted: tuple[str, ...]) -> tuple[PciFunction, ...]:
    """The chosen cards, all functions of each. Raises WrongUsage.

    "all" leaves out the card with the host's own display; its address has to be said to have it.
    """
    gpus = gpus_of(facts)
    if wanted == ALL:
        chosen = [gpu for gpu in gpus if not gpu.boot_vga]
    else:
        chosen = [_named(facts, gpus, address) for address in wanted]
    if not chosen:
        shown = [f"{gpu.address} {gpu.title} has the host's display" for gpu in gpus]
        raise WrongUsage(
            "no card to prepare: "
            + ("; ".join(shown) or "the host has none")
            + (". Name it with --gpus to take it away from the host" if gpus else "")
        )
    found = {one.address: one for gpu in chosen for one in companions(facts, gpu)}
    return tuple(found[address] for address in sorted(found))


def companions(facts: Facts, gpu: PciFunction) -> tuple[PciFunction, ...]:
    """All functions of one card: those in its slot that are its maker's, its sound, its group's.

    Beside an integrated GPU there are others in the slot, such as USB controllers of the host's.
    """
    return tuple(one for one in facts.slot(gpu.address) if _belongs(one, gpu))


def _belongs(one: PciFunction, gpu: PciFunction) -> bool:
    if one.physical_function is not None:
        return False
    sound = one.address.endswith(".1") and one.class_code.startswith(AUDIO)
    together = one.iommu_group is not None and one.iommu_group == gpu.iommu_group
    return one.vendor == gpu.vendor or sound or together


def _named(facts: Facts, gpus: tuple[PciFunction, ...], address: str) -> PciFunction:
    full = address.lower() if address.count(":") == 2 else f"0000:{address.lower()}"
    found = [gpu for gpu in gpus if full in (gpu.address, gpu.slot)]
    if found:
        return found[0]
    there = facts.function(full) or next(iter(facts.slot(full + ".0")), None)
    what = f"{there.address} is {there.title}, no graphics card" if there else "nothing there"
    known = ", ".join(gpu.address for gpu in gpus) or "none"
    raise WrongUsage(f"--gpus {address}: {what}; cards of this host: {known}")
