"""Variables of state spaces, and parameters."""

from __future__ import annotations

from rift_compiler.emulator.ptx import Variable
from rift_compiler.emulator.reader import Reader
from rift_compiler.emulator.types import TYPES


def read_variables(read: Reader, end: bool = True) -> list[Variable]:
    """`.space [.align n] .type name[n] [= {...}], ...;`"""
    space = read.next().text[1:]
    align, kind, width = 0, "", 1
    while read.peek().kind == "dotted":
        word = read.next().text[1:]
        if word == "align":
            align = read.integer()
        elif word in ("v2", "v4"):
            width = int(word[1])
        elif word == "attribute":
            read.skip_group("(", ")")
        elif word in TYPES:
            kind = word
        elif word not in ("ptr", "global", "const", "shared", "local", "param", "generic"):
            raise read.error("a type", f".{word}")
    if not kind:
        raise read.error("a type", read.peek().text)
    found = [_variable(read, space, kind, align, width)]
    while end and read.take(","):
        found.append(_variable(read, space, kind, align, width))
    if end:
        read.expect(";")
    return found


def _variable(read: Reader, space: str, kind: str, align: int, width: int) -> Variable:
    line, name = read.peek().line, read.word("a variable's name")
    element = max(1, TYPES[kind].bits // 8)
    count, unknown = width, False
    while read.take("["):
        if read.take("]"):
            unknown = True
            continue
        count *= read.integer()
        read.expect("]")
    initial, pointers = (b"", ()) if not read.take("=") else read.initialiser(kind, element)
    size = max(0 if unknown else count * element, len(initial))
    return Variable(
        line, space, name, kind, align or element * width, size, initial, tuple(pointers)
    )
