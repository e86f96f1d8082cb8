"""What a name means inside a function. The generated C++ never holds a name from the PTX."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Register:
    """`c` is the C++ variable; it holds `bits` bits."""

    c: str
    bits: int


@dataclass(frozen=True)
class Place:
    """A variable: its state space and its address as a C++ expression.

    For the space `buffer`, a parameter of a device function or call, `c` is a C++ array.
    """

    space: str
    c: str
    size_bytes: int


@dataclass(frozen=True)
class Spot:
    """A label: its C++ name, and its position among the function's statements."""

    c: str
    position: int


@dataclass(frozen=True)
class Choices:
    """The labels of a `.branchtargets`."""

    labels: tuple[str, ...]


Symbol = Register | Place | Spot | Choices


class Scope:
    """Names, and those of the scope around."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self._own: dict[str, Symbol] = {}
        self._ranges: dict[str, tuple[int, int, str, int]] = {}

    def add(self, name: str, symbol: Symbol) -> None:
        self._own[name] = symbol

    def add_range(self, name: str, count: int, first: int, bits: int) -> None:
        """Registers name0 .. name(count-1), which become r(first).. in C++."""
        self._ranges[name] = (count, first, name, bits)

    def find(self, name: str) -> Symbol | None:
        for scope in self._chain():
            found = scope._own.get(name) or scope._in_range(name)
            if found:
                return found
        return None

    def _chain(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def _in_range(self, name: str) -> Register | None:
        stem = name.rstrip("0123456789")
        digits = name[len(stem) :]
        # %r12 may be the twelfth of %r<20>, or a stem may itself end in digits: try every split.
        for cut in range(len(stem), len(name)):
            held = self._ranges.get(name[:cut])
            if held and digits and int(name[cut:]) < held[0] and str(int(name[cut:])) == name[cut:]:
                return Register(f"r{held[1] + int(name[cut:])}", held[3])
        return None
