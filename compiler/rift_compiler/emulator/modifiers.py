"""The modifiers of one instruction, each of which somebody must ask for."""

from __future__ import annotations

from rift.errors import WrongUsage
from rift_compiler.emulator.ptx import Instruction, Module


def unsupported(module: Module, ins: Instruction, why: str) -> WrongUsage:
    """The error for an instruction that is not understood: line, text, reason."""
    return WrongUsage(f"PTX line {ins.line}: {why}: {module.excerpt(ins.line)}")


class Modifiers:
    """Takes modifiers away as they are understood; `done` refuses what is left."""

    def __init__(self, module: Module, ins: Instruction) -> None:
        self._module = module
        self._ins = ins
        self._left = list(ins.modifiers)

    def take(self, *names: str) -> str | None:
        """The first of `names` that is there, wherever it stands."""
        for word in self._left:
            if word in names:
                self._left.remove(word)
                return word
        return None

    def flag(self, name: str) -> bool:
        return self.take(name) is not None

    def drop(self, *names: str) -> None:
        """Takes away every one of `names`: they do not change what is computed."""
        self._left = [word for word in self._left if word not in names]

    def drop_prefixed(self, *prefixes: str) -> None:
        self._left = [word for word in self._left if not word.startswith(prefixes)]

    def need(self, *names: str) -> str:
        found = self.take(*names)
        if found is None:
            raise self.error(f"expected one of .{', .'.join(names)}")
        return found

    def last(self, *names: str) -> str:
        """The last modifier, usually the type; it must be one of `names`."""
        if not self._left or self._left[-1] not in names:
            got = f".{self._left[-1]}" if self._left else "nothing"
            raise self.error(f"{got} is not supported here (expected .{', .'.join(names)})")
        return self._left.pop()

    def peek_last(self) -> str:
        return self._left[-1] if self._left else ""

    def done(self) -> None:
        if self._left:
            raise self.error(f".{self._left[0]} is not supported here")

    def error(self, why: str) -> WrongUsage:
        return unsupported(self._module, self._ins, why)
