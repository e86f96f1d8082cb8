"""The statements of a function."""

from __future__ import annotations

from dataclasses import replace

from rift_compiler.emulator import lex
from rift_compiler.emulator.parse_operands import operand
from rift_compiler.emulator.parse_variables import read_variables
from rift_compiler.emulator.ptx import (
    Close,
    Instruction,
    Label,
    Name,
    Not,
    Open,
    Registers,
    Statement,
    Targets,
)
from rift_compiler.emulator.reader import Reader
from rift_compiler.emulator.types import TYPES


def read_body(read: Reader) -> tuple[Statement, ...]:
    found: list[Statement] = []
    source: tuple[int, int] | None = None
    depth = 1
    while True:
        token = read.next_or_fail("a closing brace")
        if token.text == "{":
            depth += 1
            found.append(Open(token.line))
        elif token.text == "}":
            depth -= 1
            if depth == 0:
                return tuple(found)
            found.append(Close(token.line))
        elif token.kind == "dotted":
            read.back()
            if token.text == ".loc":
                source = _loc(read)
            else:
                found += _directive(read)
        elif token.kind == "word" and read.peek().text == ":":
            read.next()
            found.append(_label(read, token))
        elif token.text != ";":
            read.back()
            found.append(replace(_instruction(read), source=source))


def _loc(read: Reader) -> tuple[int, int]:
    read.next()
    file, line, _ = read.integer(), read.integer(), read.integer()
    while read.take(","):
        if read.next().text == "function_name":
            read.next()
            if read.take("+"):
                read.integer()
        else:  # inlined_at
            for _ in range(3):
                read.integer()
    return file, line


def _label(read: Reader, token: lex.Token) -> Label | Targets:
    if read.peek().text != ".branchtargets":
        return Label(token.line, token.text)
    read.next()
    names = [read.word("a label")]
    while read.take(","):
        names.append(read.word("a label"))
    read.expect(";")
    return Targets(token.line, token.text, tuple(names))


def _directive(read: Reader) -> list[Statement]:
    token = read.peek()
    if token.text == ".reg":
        read.next()
        return _registers(read)
    if token.text in (".local", ".shared", ".param", ".global", ".const"):
        return list(read_variables(read))
    if token.text == ".pragma":
        read.next()
        read.next()
        read.expect(";")
        return []
    raise read.error("a directive of a function's body", token.text)


def _registers(read: Reader) -> list[Statement]:
    kind = read.next().text[1:]
    if kind not in TYPES:
        raise read.error("a register type", kind)
    found: list[Statement] = []
    while True:
        line, name, count = read.peek().line, read.word("a register"), None
        if read.take("<"):
            count = read.integer()
            read.expect(">")
        found.append(Registers(line, kind, name, count))
        if not read.take(","):
            break
    read.expect(";")
    return found


def _instruction(read: Reader) -> Instruction:
    guard: Name | Not | None = None
    if read.take("@"):
        negated = read.take("!")
        name = Name(read.word("a predicate"))
        guard = Not(name) if negated else name
    token = read.next()
    if token.kind != "word":
        raise read.error("an instruction", token.text)
    modifiers = []
    while read.peek().kind == "dotted":
        modifiers.append(read.next().text[1:])
    operands = []
    while not read.take(";"):
        operands.append(operand(read))
        if not read.take(",") and read.peek().text not in (";", "("):
            raise read.error("a comma or a semicolon", read.peek().text)
    return Instruction(token.line, token.text, tuple(modifiers), tuple(operands), guard)
