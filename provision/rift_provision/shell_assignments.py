"""Reads the assignments in a shell file, such as GRUB's settings, down to each character's place.

Enough of POSIX shell (IEEE 1003.1-2017, section 2) to say what a file of settings sets, without
running it: comments, the three ways of quoting, line continuation, variables, `+=` where the shell
has it. What a command would print is not known, and neither is what an `if` decides: such values
are marked, never guessed. Every character of a value knows which characters of which file it came
from, also through variables, so that a word of the value can be taken out of the file.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

UNKNOWN = "\0"  # in a value: text that only running the file would tell; no shell value has NUL
NAME = re.compile(r"[A-Za-z_]\w*")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
OPENING = frozenset({"if", "for", "while", "until", "case", "{", "select"})
CLOSING = frozenset({"fi", "done", "esac", "}"})
BETWEEN = frozenset({"then", "else", "elif", "do", "!", "function", "export", "readonly"})
# After these anything may be set.
DECIDES = frozenset({".", "source", "eval", "read"})
# Assignments before a special built-in last, except in bash (IEEE 1003.1-2017, section 2.14).
SPECIAL = frozenset({":", "break", "continue", "exec", "exit", "return", "set", "shift", "trap"})
APPENDING_SHELLS = frozenset({"bash", "zsh", "ksh", "mksh", "ksh93"})


class Unreadable(Exception):
    """The file is not shell that this reader understands: why, and in which line."""


@dataclass(frozen=True)
class Char:
    """One character of a value and the place that it came from: text[start:end] of a file."""

    char: str
    file: int
    start: int
    end: int


@dataclass(frozen=True)
class Atom:
    """A part of a word: a character, a variable's name, or something unknown."""

    kind: str  # char, variable, unknown
    text: str
    start: int
    end: int
    quoted: bool


@dataclass(frozen=True)
class Word:
    """A word of a command. quote: the quotation mark that it ends with, if it ends with one."""

    atoms: tuple[Atom, ...]
    start: int
    end: int
    quote: str


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
    for words, separator in _commands(text):
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


def _commands(text: str) -> Iterator[tuple[list[Word], str]]:
    """Words up to each separator: newline ; & | && || ( ) and the end of the text."""
    words: list[Word] = []
    at = 0
    while at < len(text):
        char = text[at]
        if char in " \t" or text.startswith("\\\n", at):
            at += 1 if char != "\\" else 2
        elif char == "#":
            at = (text + "\n").index("\n", at)
        elif char in "\n;&|()":
            separator = text[at : at + 2] if text[at : at + 2] in ("&&", "||", ";;") else char
            yield words, separator
            words, at = [], at + len(separator)
        elif char in "<>":
            at = _redirection(text, at)
        else:
            word = _word(text, at)
            words.append(word)
            at = word.end
    yield words, ""


def _redirection(text: str, at: int) -> int:
    if text.startswith("<<", at):
        raise Unreadable(f"line {_line(text, at)}: a here-document")
    return at + 1


def _word(text: str, start: int) -> Word:
    atoms: list[Atom] = []
    at, quote = start, ""
    while at < len(text) and text[at] not in " \t\n;&|()<>":
        quote = text[at] if text[at] in "'\"" else ""
        found, at = _piece(text, at)
        atoms += found
    return Word(tuple(atoms), start, at, quote)


def _piece(text: str, at: int) -> tuple[list[Atom], int]:
    """The next quoted string, expansion or character outside quotes."""
    if text[at] == "'":
        end = _find(text, "'", at + 1, at)
        return [Atom("char", text[i], i, i + 1, True) for i in range(at + 1, end)], end + 1
    if text[at] == '"':
        return _double_quoted(text, at)
    if text[at] in "$`":
        atom = _expansion(text, at, False)
        return [atom], atom.end
    if text[at] == "\\":
        return _escaped(text, at, True)
    return [Atom("char", text[at], at, at + 1, False)], at + 1


def _double_quoted(text: str, opening: int) -> tuple[list[Atom], int]:
    atoms: list[Atom] = []
    at = opening + 1
    while at < len(text) and text[at] != '"':
        if text[at] in "$`":
            atom = _expansion(text, at, True)
            found, at = [atom], atom.end
        elif text[at] == "\\":
            found, at = _escaped(text, at, False)
        else:
            found, at = [Atom("char", text[at], at, at + 1, True)], at + 1
        atoms += found
    if at >= len(text):
        raise Unreadable(f'line {_line(text, opening)}: a " without its end')
    return atoms, at + 1


def _escaped(text: str, at: int, everything: bool) -> tuple[list[Atom], int]:
    """What a backslash and the next character give, outside quotes or inside double ones."""
    following = text[at + 1 : at + 2]
    if following == "\n":
        return [], at + 2
    if following and (everything or following in '$`"\\'):
        return [Atom("char", following, at, at + 2, True)], at + 2
    return [Atom("char", "\\", at, at + 1, True)], at + 1


def _expansion(text: str, at: int, quoted: bool) -> Atom:
    """What begins with $ or a backquote. Without quotes its value would be split: unknown."""
    if text[at] == "`":
        end = _backquoted(text, at)
    elif match := NAME.match(text, at + 1):
        return Atom("variable", match[0], at, match.end(), quoted)
    elif match := re.compile(r"\{([A-Za-z_]\w*)\}").match(text, at + 1):
        return Atom("variable", match[1], at, match.end(), quoted)
    elif text[at + 1 : at + 2] == "(":
        end = _balanced(text, at + 1, "(", ")")
    elif text[at + 1 : at + 2] == "{":
        end = _balanced(text, at + 1, "{", "}")
    elif text[at + 1 : at + 2] == "'" and not quoted:  # bash's $'...', another thing in dash
        end = _find(text, "'", at + 2, at) + 1
    elif re.match(r"[0-9@*#?$!-]", text[at + 1 : at + 2]):
        end = at + 2
    else:
        return Atom("char", "$", at, at + 1, quoted)
    return Atom("unknown", "", at, end, quoted)


def _balanced(text: str, opening: int, left: str, right: str) -> int:
    """Behind the bracket that closes the one at `opening`, with regard to quotes between them."""
    depth, at = 0, opening
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "'":
            at = _find(text, "'", at + 1, opening)
        elif char == '"':
            at = _double_quoted(text, at)[1] - 1
        elif char == "`":
            at = _backquoted(text, at) - 1
        depth += (char == left) - (char == right)
        at += 1
        if depth == 0:
            return at
    raise Unreadable(f"line {_line(text, opening)}: a {left} without its end")


def _backquoted(text: str, opening: int) -> int:
    at = opening + 1
    while at < len(text) and text[at] != "`":
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        raise Unreadable(f"line {_line(text, opening)}: a ` without its end")
    return at + 1


def _find(text: str, what: str, at: int, opening: int) -> int:
    found = text.find(what, at)
    if found < 0:
        raise Unreadable(f"line {_line(text, opening)}: a {what} without its end")
    return found


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
