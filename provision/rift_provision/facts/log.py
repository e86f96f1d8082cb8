"""What the kernel said since boot about IOMMU, PCI and graphics, as it said it."""

from __future__ import annotations

import re

from rift_provision.facts.tree import Tree

STAMP = re.compile(r"^\s*\[\s*\d+\.\d+\]\s*")
LINES = 2000  # the last ones: a storm of errors repeats itself


def parse_log(tree: Tree) -> tuple[str, ...]:
    """The lines of the journal or, where there is none, of the ring buffer, without their times."""
    lines = tree.lines("/commands/journal") or tree.lines("/commands/dmesg")
    return tuple(_message(line) for line in lines[-LINES:] if line.strip())


def _message(line: str) -> str:
    """The kernel's own words: journalctl puts the time, the host's name and "kernel:" before."""
    rest = STAMP.sub("", line)
    return re.sub(r"^\S+ kernel: ", "", rest) if rest != line else rest
