"""What a PTX file says, as plain data. Names are the file's own; nothing is resolved here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Name:
    """A register, variable, label, function or special register (`%tid.x`)."""

    text: str


@dataclass(frozen=True)
class Number:
    """A literal. `kind` is int, f32 or f64; `bits` is its value as an unsigned 64-bit pattern."""

    kind: str
    bits: int


@dataclass(frozen=True)
class Not:
    """`!p`, a negated predicate operand."""

    name: Name


@dataclass(frozen=True)
class Pair:
    """`a|b`, two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Vector:
    """`{a, b, c, d}`."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Group:
    """`(a, b)`, of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Address:
    """`[base+offset]`, or `[base, {coordinates}]` of a tensor copy."""

    base: Name | Number
    offset: int
    coordinates: Operand | None = None


Operand = Name | Number | Not | Pair | Vector | Group | Address


@dataclass(frozen=True)
class Instruction:
    """One instruction. `source` is (file number, line) of the last `.loc`, or None."""

    line: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Name | Not | None = None
    source: tuple[int, int] | None = None


@dataclass(frozen=True)
class Label:
    line: int
    name: str


@dataclass(frozen=True)
class Registers:
    """`.reg .type %name<count>`: count registers %name0.., or one register when count is None."""

    line: int
    type: str
    name: str
    count: int | None


@dataclass(frozen=True)
class Variable:
    """A variable of a state space, or a parameter.

    `size_bytes` is 0 for an extern array of unknown size. `initial` is its first bytes;
    `pointers` are (byte offset, name, addend) of addresses among them.
    """

    line: int
    space: str
    name: str
    type: str
    align_bytes: int
    size_bytes: int
    initial: bytes = b""
    pointers: tuple[tuple[int, str, int], ...] = ()
    extern: bool = False


@dataclass(frozen=True)
class Targets:
    """`name: .branchtargets a, b;`"""

    line: int
    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Open:
    """`{` inside a function: names declared up to its Close are its own."""

    line: int


@dataclass(frozen=True)
class Close:
    line: int


Statement = Instruction | Label | Registers | Variable | Targets | Open | Close


@dataclass(frozen=True)
class Function:
    """`body` is None for a declaration."""

    line: int
    name: str
    entry: bool
    returns: tuple[Variable, ...]
    params: tuple[Variable, ...]
    body: tuple[Statement, ...] | None
    max_threads: int | None = None


@dataclass(frozen=True)
class Module:
    """A PTX file. `files` are the names of `.file`; `text` is all of it, for messages."""

    version: tuple[int, int]
    target: str
    variables: tuple[Variable, ...]
    functions: Mapping[str, Function]
    files: Mapping[int, str]
    text: str

    def excerpt(self, line: int) -> str:
        """The text of one line, counted from 1; what moves a cursor is replaced."""
        lines = self.text.split("\n")
        return printable(lines[line - 1].strip()) if 1 <= line <= len(lines) else ""


def printable(text: str) -> str:
    """Text of a file from anywhere, for one line of a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)
