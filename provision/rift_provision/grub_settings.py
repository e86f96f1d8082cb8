"""Edits the kernel command line in GRUB's settings: /etc/default/grub and what comes after it.

The variable's words are changed where they stand. Everything else - order, comments, other
variables, quoting - stays as it is to the byte. The result is read again before it is believed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rift.errors import Blocked
from rift_provision import kernel_options
from rift_provision.kernel_options import Change
from rift_provision.shell_assignments import UNKNOWN, Assignment, Char, Settings, evaluate
from rift_provision.shell_words import Unreadable

MAIN = "/etc/default/grub"
# What grub-mkconfig puts behind GRUB_CMDLINE_LINUX, except in recovery entries: those stay as they
# are, and with them a way to boot without what was added.
ADD_TO = "GRUB_CMDLINE_LINUX_DEFAULT"
VARIABLES = ("GRUB_CMDLINE_LINUX", ADD_TO)
SIMPLE = re.compile(r"[\w=,.:/@+-]*")


@dataclass(frozen=True)
class GrubFile:
    """One file of settings."""

    path: str
    text: str


def command_line(files: Sequence[GrubFile], shell: str) -> str:
    """What the settings add to the command line, UNKNOWN where only running them would tell."""
    settings = _evaluate(files, shell)
    return " ".join(filter(None, (settings.value(name) for name in VARIABLES)))


def setting(files: Sequence[GrubFile], name: str, shell: str) -> str:
    """What the settings give one variable."""
    return _evaluate(files, shell).value(name)


def edit(files: Sequence[GrubFile], change: Change, shell: str) -> list[GrubFile]:
    """The files after a change. Raises Blocked if they cannot be changed so that it holds."""
    settings = _evaluate(files, shell)
    texts = [file.text for file in files]
    cuts = [cut for name in VARIABLES for cut in _cuts(settings.values.get(name, []), change)]
    for file, start, end in sorted(set(cuts), reverse=True):
        texts[file] = texts[file][:start] + texts[file][end:]
    if change.add:
        _add(texts, change.add, shell, files)
    edited = [GrubFile(file.path, text) for file, text in zip(files, texts, strict=True)]
    _confirm(files, edited, change, shell)
    return edited


def _evaluate(files: Sequence[GrubFile], shell: str) -> Settings:
    try:
        return evaluate([file.text for file in files], shell)
    except Unreadable as error:
        names = ", ".join(file.path for file in files)
        raise Blocked(f"{names}: {error}; the settings of GRUB cannot be edited safely") from error


def _cuts(value: list[Char], change: Change) -> list[tuple[int, int, int]]:
    """The places to cut out: each removed word's, with a blank at one of its sides."""
    line = "".join(char.char for char in value)
    cuts = []
    for match in kernel_options.WORD.finditer(line):
        if match[0] in change.remove:
            start, end = match.span()
            if line[start - 1 : start].isspace():
                start -= 1
            elif line[end : end + 1].isspace():
                end += 1
            cuts += [(char.file, char.start, char.end) for char in value[start:end]]
    return cuts


def _add(texts: list[str], words: Sequence[str], shell: str, files: Sequence[GrubFile]) -> None:
    """Put words behind those that the variable has, in its own quotes, or in a line of their own.

    Where: the assignment that the final value begins with, which later files may have added to.
    """
    assignments = [a for a in evaluate(texts, shell).assignments if a.name == ADD_TO]
    while assignments and assignments[-1].continues and not assignments[-1].conditional:
        assignments.pop()
    place = assignments[-1] if assignments else None
    line = " ".join(words)
    edited = _inside(texts[place.file], place, line) if place and not place.conditional else None
    if place and edited is not None:
        texts[place.file] = edited
        return
    file = 0 if not assignments else len(files) - 1
    newline = "" if texts[file].endswith("\n") or not texts[file] else "\n"
    old = f"${ADD_TO} " if assignments or _continued(texts, shell) else ""
    texts[file] += f'{newline}{ADD_TO}="{old}{_double_quotable(line)}"\n'


def _continued(texts: list[str], shell: str) -> bool:
    return bool(evaluate(texts, shell).values.get(ADD_TO))


def _inside(text: str, place: Assignment, line: str) -> str | None:
    """The text with the line added to one value, or None if its form does not allow that."""
    old = text[place.value_start : place.value_end]
    if place.quote and not (place.quote == "'" and "'" in line):
        inner = old[:-1]
        blank = "" if inner in ("'", '"') or inner.endswith(" ") else " "
        new = f"{inner}{blank}{_quotable(line, place.quote)}{place.quote}"
    elif SIMPLE.fullmatch(old):
        new = f'"{" ".join(filter(None, (old, _double_quotable(line))))}"'
    else:
        return None
    return text[: place.value_start] + new + text[place.value_end :]


def _quotable(line: str, quote: str) -> str:
    return line if quote == "'" else _double_quotable(line)


def _double_quotable(line: str) -> str:
    return re.sub(r'([$`"\\])', r"\\\1", line)


def _confirm(
    before: Sequence[GrubFile], after: Sequence[GrubFile], change: Change, shell: str
) -> None:
    """Read the edited files again: the words, and that nothing but them changed."""
    old, new = _evaluate(before, shell), _evaluate(after, shell)
    line = " ".join(old.value(name) for name in VARIABLES)
    wanted = sorted(kernel_options.apply(line, change))
    got = kernel_options.words(" ".join(new.value(name) for name in VARIABLES))
    others = {*old.values, *new.values} - set(VARIABLES)
    if sorted(got) != wanted or any(old.value(name) != new.value(name) for name in others):
        named = ", ".join((*change.remove, *change.add))
        unknown = " (a command or a condition decides about it)" if UNKNOWN in line else ""
        raise Blocked(
            f"{', '.join(file.path for file in before)}: cannot be edited so that the kernel "
            f"command line changes by just: {named}{unknown}; edit by hand"
        )
