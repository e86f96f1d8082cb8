"""`rift gpu`: the graphics cards of a server, and whether they are healthy."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape

from rift.errors import WrongUsage
from rift.terminal import listing, out, print_json, printable, say
from rift_provision.facts import Facts
from rift_provision.gpu_health import Health, State
from rift_provision.gpu_look import look, worst

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Cards of a server, and their health."
)
Where = Annotated[
    str, typer.Argument(metavar="HOST", help="A server, local, or a recorded tree (folder, tar).")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
CODES = {State.HEALTHY: 0, State.UNKNOWN: 0, State.SUSPECT: 3, State.LOST: 4}


@app.command(name="list")
def list_(where: Where, as_json: Json = False) -> None:
    """Every card: address, name, driver, NUMA node, state. No card is asked anything."""
    facts, healths = look(where, ask=False)
    cards = [one for one in facts.pci if one.is_gpu]
    states = {one.address: one.state for one in healths}
    if as_json:
        return print_json(
            [
                {"address": c.address, "name": c.name, "ids": c.ids, "driver": c.driver,
                 "numa_node": c.numa_node, "iommu_group": c.iommu_group, "state": states[c.address]}
                for c in cards
            ]
        )  # fmt: skip
    if not cards:
        return say(f"{where}: no graphics card and no accelerator")
    table = listing("ADDRESS", "NAME", "DRIVER", "NODE", "GROUP", "STATE")
    for c in cards:
        cells = (
            c.title, c.driver or "none", _number(c.numa_node), _number(c.iommu_group),
            states[c.address],
        )  # fmt: skip
        table.add_row(c.address, *(escape(printable(cell)) for cell in cells))
    out.print(table)


@app.command()
def show(
    where: Where,
    address: Annotated[str, typer.Argument(help="PCI address, such as 41:00.0.")],
    as_json: Json = False,
) -> None:
    """Everything that is known of one card: all its functions, power, link, errors, health."""
    facts, healths = look(where)
    functions = facts.slot(_full(facts, address))
    mine = [one for one in healths if one.address in {f.address for f in functions}]
    if as_json:
        return print_json(
            {"functions": [asdict(f) for f in functions], "health": [asdict(h) for h in mine]}
        )
    for f in functions:
        out.print(f"{f.address}  {printable(f.title)}", markup=False)
        link = f.link and f"x{f.link.width} at {f.link.speed}"
        for key, value in (
            ("driver", f.driver), ("NUMA node", f.numa_node), ("IOMMU group", f.iommu_group),
            ("bridges", " ".join(f.bridges)), ("link", link), ("power", f.power.state),
            ("resets", " ".join(f.reset_methods or ())), ("used by", "; ".join(f.users)),
        ):  # fmt: skip
            if value not in (None, ""):
                out.print(f"  {key:12} {printable(str(value))}", markup=False)
    _print(mine)


@app.command()
def health(where: Where, as_json: Json = False) -> None:
    """Healthy, suspect or lost, with the evidence. Exit code 0, 3 or 4: the worst of all."""
    _, healths = look(where)
    if as_json:
        print_json([asdict(one) for one in healths])
    else:
        _print(healths)
    raise SystemExit(CODES[worst(healths)])


def _print(healths: list[Health] | tuple[Health, ...]) -> None:
    for one in healths:
        out.print(f"{one.address}  {one.state}", markup=False)
        for sign in one.signs:
            out.print(f"  {printable(sign.text)}", markup=False)


def _full(facts: Facts, address: str) -> str:
    cards = [one.address for one in facts.pci if one.is_gpu]
    found = [one for one in cards if one in (address, f"0000:{address}")]
    if not found:
        known = ", ".join(cards) or "it has none"
        raise WrongUsage(f"no card at {address!r}; the host's: {known}")
    return found[0]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)
