"""PTX text to tokens (PTX ISA 9.0, chapter 4)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rift.errors import WrongUsage

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\f\v]+|//[^\n]*)
    |(?P<comment>/\*.*?\*/)
    |(?P<newline>\n)
    |(?P<string>"[^"\n]*")
    |(?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
       |\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+U?)
    |(?P<word>[%$_a-zA-Z][\w$]*)
    |(?P<dotted>\.[a-zA-Z_0-9]+(?:::[a-zA-Z_0-9]+)*)
    |(?P<mark>[{}()\[\],;:@!|+\-=<>])""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Token:
    """`kind`: string, number, word, dotted (`.f32`), mark, or end."""

    kind: str
    text: str
    line: int


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a PTX text, then one of kind `end`.

    Raises WrongUsage where the text is not PTX.
    """
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise WrongUsage(f"PTX line {line}: expected PTX, got {text[at : at + 20]!r}")
        kind = match.lastgroup or ""
        if kind == "newline":
            line += 1
        elif kind == "comment":
            line += match[0].count("\n")
        elif kind != "space":
            yield Token(kind, match[0], line)
        at = match.end()
    yield Token("end", "", line)


def number(token: Token) -> tuple[str, int]:
    """The kind (int, f32, f64) and the bits of a number token (PTX ISA 9.0, 4.5)."""
    text = token.text
    low = text.lower()
    if low.startswith("0f") and len(text) == 10:
        return "f32", int(text[2:], 16)
    if low.startswith("0d") and len(text) == 18:
        return "f64", int(text[2:], 16)
    if "." in text or ("e" in low and not low.startswith("0x")):
        import struct

        return "f64", struct.unpack("<Q", struct.pack("<d", float(text)))[0]
    low = low.removesuffix("u")
    if len(low) > 1 and low[0] == "0" and low[1].isdigit():
        if set(low) - set("01234567"):
            raise WrongUsage(f"PTX line {token.line}: {text} is no octal number")
        return "int", int(low, 8)
    return "int", int(low, 0)
