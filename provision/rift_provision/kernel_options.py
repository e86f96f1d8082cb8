"""The kernel command line as a list of words, and how to change it."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Words end at blanks, except between double quotes (lib/cmdline.c, next_arg).
WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')


@dataclass(frozen=True)
class Change:
    """Words to take out wherever they stand, and words to put at the end, in this order."""

    remove: tuple[str, ...] = ()
    add: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.remove or self.add)


def words(line: str) -> list[str]:
    """The words of a command line, in order, repeated ones as often as they stand there."""
    return WORD.findall(line)


def key(word: str) -> str:
    """What a word sets: `console` of console=ttyS0. Dashes are underscores to the kernel."""
    return word.partition("=")[0].replace("-", "_")


def last(line: str, name: str) -> str | None:
    """The value that the last word with that name gives it, "" without a value; None if absent."""
    found = [word.partition("=")[2] for word in words(line) if key(word) == name]
    return found[-1] if found else None


def apply(line: str, change: Change) -> list[str]:
    """The words after a change."""
    return [word for word in words(line) if word not in change.remove] + list(change.add)


def hugepages(line: str) -> dict[str, list[str]]:
    """Size to the words that reserve pages of that size, with the hugepagesz= before each.

    `hugepages=` belongs to the hugepagesz= before it, to the default size if there is none, which
    here is "default" (Documentation/admin-guide/kernel-parameters.txt, hugepages=).
    """
    size, found = "default", dict[str, list[str]]()
    pending: list[str] = []
    for word in words(line):
        name, _, value = word.partition("=")
        if name == "hugepagesz":
            size, pending = value, [word]
        elif name == "hugepages":
            found.setdefault(size, []).extend([*pending, word])
            pending = []
    return found
