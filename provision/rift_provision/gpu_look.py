"""Looks at a host's cards: facts first, then the header of those that may be asked."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rift.errors import Failed
from rift_provision import inventory, ssh
from rift_provision.facts import Facts, parse
from rift_provision.facts.tree import Tree
from rift_provision.gather import collect
from rift_provision.gpu_health import HUNG, Health, State, health, may_be_probed

PROBE = Path(__file__).with_name("gpu_probe.py")
LIMIT_S = 60.0
RECORDED = "/commands/pci-config"  # of a recorded tree: lines of address, tab, hex


def look(where: str, ask: bool = True) -> tuple[Facts, tuple[Health, ...]]:
    """The facts of a host and the health of each function of its cards; `ask`: read headers of
    those that may be asked."""
    tree = collect(where)
    facts = parse(tree)
    slots = dict.fromkeys(one.slot for one in facts.pci if one.is_gpu)
    functions = [one for slot in slots for one in facts.slot(slot)]
    allowed = [one.address for one in functions if may_be_probed(facts, one)] if ask else []
    headers = _headers(where, tree, allowed)
    return facts, tuple(health(facts, one, headers.get(one.address)) for one in functions)


def worst(of: Sequence[Health]) -> State:
    """The worst state of several."""
    order = list(State)
    return max((one.state for one in of), key=order.index, default=State.UNKNOWN)


def _headers(where: str, tree: Tree, addresses: Sequence[str]) -> dict[str, str]:
    if not addresses:
        return {}
    if where == "local":
        return _parse(_local(addresses))
    if host := inventory.find(where):
        line = f"python3 - {shlex.join(addresses)}"
        as_root = f'if [ "$(id -u)" = 0 ]; then exec {line}; else exec sudo -n {line}; fi'
        with ssh.connect(host) as connection:
            output = ssh.run(
                connection, f"exec sh -c {shlex.quote(as_root)}", PROBE.read_bytes(), LIMIT_S
            )
        if output.code:
            raise Failed(f"host {where}: reading headers failed: {output.stderr.strip()}")
        return _parse(output.stdout.decode())
    recorded = _parse("\n".join(tree.lines(RECORDED)))
    return {address: recorded[address] for address in addresses if address in recorded}


def _local(addresses: Sequence[str]) -> str:
    argv = [sys.executable, str(PROBE), *addresses]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise Failed(f"this machine: reading headers failed: {done.stderr.strip()}")
    return done.stdout


def _parse(text: str) -> dict[str, str]:
    pairs = (line.split("\t") for line in text.splitlines() if "\t" in line)
    return {address: value for address, value in pairs if value or value == HUNG}
