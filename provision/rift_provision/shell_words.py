"""Cuts a shell file into commands and words, each character with its place.

POSIX shell (IEEE 1003.1-2017, section 2) without here-documents: comments, the three ways of
quoting, line continuation, expansions. What an expansion gives is not looked into.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

NAME = re.compile(r"[A-Za-z_]\w*")
BRACED = re.compile(r"\{([A-Za-z_]\w*)\}")


class Unreadable(Exception):
    """The file is not shell that this reader understands: why, and in which line."""


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


def commands(text: str) -> Iterator[tuple[list[Word], str]]:
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
    elif match := BRACED.match(text, at + 1):
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
