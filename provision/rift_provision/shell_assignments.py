"""Reads the assignments in a shell file, such as GRUB's settings, down to each character's place.

What a command would print is not known without running it, and neither is what an `if` decides:
such values are marked, never guessed. Every character of a value knows which characters of which
file it came from, also through variables, so that a word can be taken out where it stands.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rift_provision.shell_words import Atom, Unreadable, Word, commands

UNKNOWN = "\0"  # in a value: text that only running the file would tell; no shell value has NUL
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
OPENING = frozenset({"if", "for", "while", "until", "case", "{", "select"})
CLOSING = frozenset({"fi", "done", "esac", "}"})
BETWEEN = frozenset({"then", "else", "elif", "do", "!", "function", "export", "readonly"})
# After these anything may be set.
DECIDES = frozenset({".", "source", "eval", "read"})
# Assignments before a special built-in last, except in bash (IEEE 1003.1-2017, section 2.14).
SPECIAL = frozenset({":", "break", "continue", "exec", "exit", "return", "set", "shift", "trap"})
APPENDING_SHELLS = frozenset({"bash", "zsh", "ksh", "mksh", "ksh93"})


@dataclass(frozen=True)
class Char:
    """One character of a value and the place that it came from: text[start:end] of a file."""

    char: str
    file: int
    start: int
    end: int


@dataclass(frozen=True)
class Assignment:
    """A place that sets a variable. value_start: where its value begins, value_end: where it ends.

    conditional: whether it is for the shell to say if it takes place.
    continues: whether the value is the variable's own old value and words after it.
    """

    name: str
    file: int
    value_start: int
    value_end: int
    quote: str
    conditional: bool
    continues: bool


@dataclass
class Settings:
    """What files, read one after the other, set."""

    values: dict[str, list[Char]] = field(default_factory=dict)
    assignments: list[Assignment] = field(default_factory=list)

    def value(self, name: str) -> str:
        """A variable's value, with UNKNOWN for what is not known; empty if it is not set."""
        return "".join(char.char for char in self.values.get(name, ()))


def evaluate(texts: Sequence[str], shell: str) -> Settings:
    """What the files set, one after the other, in that shell. Raises Unreadable."""
    settings = Settings()
    for file, text in enumerate(texts):
        for words, conditional in _statements(text):
            _take(settings, file, words, conditional, shell)
    return settings


def _take(settings: Settings, file: int, words: list[Word], conditional: bool, shell: str) -> None:
    if words and _plain(words[0]) == "unset":
        for word in words[1:]:
            settings.values.pop(_plain(word), None)
        return
    found = [(word, _assignment(word, shell)) for word in words]
    command = next((word for word, match in found if not match), None)
    if command and _plain(command) in DECIDES:
        for value in settings.values.values():
            value.append(Char(UNKNOWN, file, command.start, command.start))
    if command and _plain(command) not in SPECIAL | DECIDES:
        return  # what stands before a command is for its own environment
    for word, match in itertools.takewhile(lambda pair: pair[1], found):
        assert match
        _set(settings, file, word, match, conditional or command is not None)


def _assignment(word: Word, shell: str) -> re.Match[str] | None:
    """The beginning of a word that is an assignment. In a plain POSIX shell `A+=b` is a command."""
    match = ASSIGNMENT.match(_unquoted_beginning(word))
    return match if match and (not match[2] or shell in APPENDING_SHELLS) else None


def _set(
    settings: Settings, file: int, word: Word, match: re.Match[str], conditional: bool
) -> None:
    name, atoms = match[1], word.atoms[match.end() :]
    value: list[Char] = []
    for atom in atoms:
        value += _characters(settings, file, atom)
    if atoms and atoms[0].text == "~" and not atoms[0].quoted:
        value = [Char(UNKNOWN, file, atoms[0].start, atoms[0].end)]
    itself = bool(atoms) and atoms[0].kind == "variable" and atoms[0].text == name
    added = atoms[1:] if itself else atoms
    apart = not added or added[0].text.isspace()
    if match[2]:
        value = settings.values.get(name, []) + value
    if conditional:
        value = [*settings.values.get(name, []), Char(UNKNOWN, file, word.end, word.end)]
    settings.values[name] = value
    settings.assignments.append(
        Assignment(
            name=name,
            file=file,
            value_start=word.atoms[match.end() - 1].end,
            value_end=word.end,
            quote=word.quote,
            conditional=conditional,
            continues=apart and (itself or bool(match[2])),
        )
    )


def _characters(settings: Settings, file: int, atom: Atom) -> list[Char]:
    if atom.kind == "char":
        return [Char(atom.text, file, atom.start, atom.end)]
    if atom.kind == "variable":
        if atom.text in settings.values:
            return settings.values[atom.text]
        if atom.text.startswith("GRUB_"):
            return []  # nobody else sets these
    return [Char(UNKNOWN, file, atom.start, atom.end)]


def _unquoted_beginning(word: Word) -> str:
    text = ""
    for atom in word.atoms:
        if atom.quoted or atom.kind != "char":
            break
        text += atom.text
    return text


def _plain(word: Word) -> str:
    """The word if nothing in it is quoted or expanded, else nothing."""
    text = _unquoted_beginning(word)
    return text if len(text) == len(word.atoms) else ""


def _statements(text: str) -> Iterator[tuple[list[Word], bool]]:
    """Commands as words, and whether it is open if and where they are run."""
    depth, subshells, after = 0, 0, ""
    for words, separator in commands(text):
        rest = list(words)
        while rest and (word := _plain(rest[0])) in OPENING | CLOSING | BETWEEN:
            depth += (word in OPENING) - (word in CLOSING)
            rest.pop(0)
        inside = depth > 0 or subshells > 0
        yield rest, inside or after in ("&&", "||", "|") or separator in ("|", "&")
        subshells += (separator == "(") - (separator == ")" and subshells > 0)
        after = separator if words or separator != "\n" else after
    if depth > 0 or subshells > 0:
        raise Unreadable("an if, for, case or { without its end")
