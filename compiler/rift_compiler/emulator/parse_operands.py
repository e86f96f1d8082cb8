"""Operands of PTX instructions."""

from __future__ import annotations

from rift_compiler.emulator import lex
from rift_compiler.emulator.ptx import Address, Group, Name, Not, Number, Operand, Pair, Vector
from rift_compiler.emulator.reader import Reader

_SIGN = {32: 1 << 31, 64: 1 << 63}


def operand(read: Reader) -> Operand:
    """The operand that begins at the next token."""
    if read.take("{"):
        return Vector(_items(read, "}"))
    if read.take("("):
        return Group(_items(read, ")"))
    if read.take("["):
        return _address(read)
    if read.take("!"):
        return Not(Name(read.word("a predicate")))
    value = _value(read)
    return Pair(value, _value(read)) if read.take("|") else value


def _items(read: Reader, closing: str) -> tuple[Operand, ...]:
    found: list[Operand] = []
    while not read.take(closing):
        found.append(operand(read))
        if not read.take(",") and read.peek().text != closing:
            raise read.error(repr(closing), read.peek().text)
    return tuple(found)


def _value(read: Reader) -> Name | Number:
    token = read.peek()
    if token.kind == "word":
        read.next()
        name = token.text
        # Parts of a special register (%tid.x) or of a vector register are dotted.
        while read.peek().kind == "dotted":
            name += read.next().text
        return Name(name)
    return _number(read)


def _number(read: Reader) -> Number:
    negative = read.take("-")
    token = read.next()
    if token.kind != "number":
        raise read.error("an operand", token.text)
    kind, bits = lex.number(token)
    if negative:
        bits = bits ^ _SIGN[int(kind[1:])] if kind != "int" else -bits
    return Number(kind, bits & (1 << 64) - 1)


def _address(read: Reader) -> Address:
    base = _value(read)
    offset = 0
    if read.take("+") or read.peek().text == "-":
        offset = read.integer()
    coordinates = operand(read) if read.take(",") else None
    read.expect("]")
    return Address(base, offset, coordinates)
