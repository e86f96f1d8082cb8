"""A place in a row of tokens, and the errors that name it."""

from __future__ import annotations

from rift.errors import WrongUsage
from rift_compiler.emulator import lex


class Reader:
    """Reads tokens one after another; every error says the line, what was expected and found."""

    def __init__(self, tokens: tuple[lex.Token, ...]) -> None:
        self._tokens = tokens
        self._at = 0

    def peek(self) -> lex.Token:
        return self._tokens[self._at]

    def next(self) -> lex.Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def back(self) -> None:
        self._at -= 1

    def next_or_fail(self, wanted: str) -> lex.Token:
        if self.peek().kind == "end":
            raise self.error(wanted, "the end of the file")
        return self.next()

    def take(self, mark: str) -> bool:
        """Whether the next token is `mark`; if so it is read."""
        if self.peek().text == mark and self.peek().kind == "mark":
            self._at += 1
            return True
        return False

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise self.error(repr(mark), self.peek().text)

    def word(self, what: str) -> str:
        token = self.next()
        if token.kind != "word":
            raise self.error(what, token.text)
        return token.text

    def integer(self) -> int:
        sign = -1 if self.take("-") else 1
        token = self.next()
        kind, bits = lex.number(token) if token.kind == "number" else ("", 0)
        if kind != "int":
            raise self.error("a whole number", token.text)
        return sign * bits

    def skip_group(self, opening: str, closing: str) -> None:
        self.expect(opening)
        while not self.take(closing):
            self.next_or_fail(repr(closing))

    def initialiser(self, kind: str, element: int) -> tuple[bytes, list[tuple[int, str, int]]]:
        """`{1, 0f3F800000, name+4, ...}` or one value: bytes, and where addresses go."""
        data = bytearray()
        pointers: list[tuple[int, str, int]] = []
        depth = 0
        while True:
            if self.take("{"):
                depth += 1
            elif self.take("}"):
                depth -= 1
            elif not self.take(","):
                self._element(data, pointers, kind, element)
            if depth == 0 and self.peek().text in (";", ","):
                return bytes(data), pointers

    def _element(
        self, data: bytearray, pointers: list[tuple[int, str, int]], kind: str, element: int
    ) -> None:
        token = self.peek()
        if token.kind == "word":
            self.next()
            name = token.text
            if name == "generic":
                self.expect("(")
                name = self.word("a variable")
                self.expect(")")
            addend = self.integer() if self.take("+") else 0
            if element != 8:
                raise self.error("a 64-bit element for an address", kind)
            pointers.append((len(data), name, addend))
            data += bytes(8)
            return
        negative = self.take("-")
        token = self.next_or_fail("a value")
        if token.kind != "number":
            raise self.error("a value", token.text)
        _, bits = lex.number(token)
        bits = -bits if negative else bits
        data += (bits & ((1 << 8 * element) - 1)).to_bytes(element, "little")

    def error(self, wanted: str, got: str) -> WrongUsage:
        line = self._tokens[max(0, self._at - 1)].line
        return WrongUsage(f"PTX line {line}: expected {wanted}, got {got or 'nothing'!r}")
