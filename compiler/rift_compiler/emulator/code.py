"""The C++ of one function while it is written: operands to expressions, results to registers."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from rift.errors import WrongUsage
from rift_compiler.emulator.modifiers import Modifiers, unsupported
from rift_compiler.emulator.names import Place, Register, Scope, Symbol
from rift_compiler.emulator.ptx import (
    Address,
    Instruction,
    Module,
    Name,
    Not,
    Number,
    Operand,
    Vector,
)
from rift_compiler.emulator.special import special_register
from rift_compiler.emulator.types import TYPES, register_c


class Batch(Protocol):
    """Instructions that wait to be written as one; see emit_matrix."""

    reads: set[str]
    writes: set[str]
    inputs: list[list[str]]
    outputs: list[list[tuple[int, str]]]

    def takes(self, key: str, reads: Iterable[str], writes: Iterable[str]) -> bool: ...

    def text(self) -> list[str]: ...


@dataclass
class Code:
    """`lines` is the C++ so far; `ins` the instruction at hand; `at` its position."""

    module: Module
    entry: bool
    scope: Scope = field(default_factory=Scope)
    lines: list[str] = field(default_factory=list)
    ins: Instruction = field(default_factory=lambda: Instruction(0, "", (), ()))
    at: int = 0
    batch: Batch | None = None
    accumulators: frozenset[str] = frozenset()

    def line(self, text: str) -> None:
        self.lines.append(text)

    def flush(self) -> None:
        """Writes the matrix instructions that were put together."""
        if self.batch is not None:
            held, self.batch = self.batch, None
            self.lines += held.text()

    @property
    def here(self) -> str:
        """The PTX line, as the runtime is told it."""
        return str(self.ins.line)

    def modifiers(self) -> Modifiers:
        return Modifiers(self.module, self.ins)

    def error(self, why: str) -> WrongUsage:
        return unsupported(self.module, self.ins, why)

    def operands(self, least: int, most: int | None = None) -> tuple[Operand, ...]:
        """The instruction's operands; raises WrongUsage when their number is wrong."""
        got = len(self.ins.operands)
        if not least <= got <= (least if most is None else most):
            wanted = str(least) if most is None else f"{least} to {most}"
            raise self.error(f"expected {wanted} operands, got {got}")
        return self.ins.operands

    def symbol(self, name: str) -> Symbol:
        found = self.scope.find(name)
        if found is None:
            raise self.error(f"unknown name {name}")
        return found

    def register(self, operand: Operand) -> Register:
        if not isinstance(operand, Name):
            raise self.error("expected a register")
        found = self.symbol(operand.text)
        if not isinstance(found, Register):
            raise self.error(f"{operand.text} is not a register")
        return found

    def value(self, operand: Operand, type_: str, wider: bool = False) -> str:
        """A C++ expression of the C++ type of `type_`.

        A register must have the type's width; with `wider` it may have more.
        """
        if isinstance(operand, Number):
            return self._number(operand, type_)
        if isinstance(operand, Not):
            return f"(!{self.value(operand.name, 'pred')})"
        if not isinstance(operand, Name):
            raise self.error("expected a register or a number")
        found = self.scope.find(operand.text)
        if isinstance(found, Register):
            self._width(found, type_, wider, operand.text)
            if type_ == "pred":
                return found.c
            return f"as<{TYPES[type_].c}>({found.c})"
        if isinstance(found, Place):
            return f"({TYPES[type_].c})({self.address_of(found)})"
        special = special_register(operand.text)
        if special is None:
            raise self.error(f"unknown name {operand.text}")
        return f"as<{TYPES[type_].c}>({special})"

    def _width(self, found: Register, type_: str, wider: bool, name: str) -> None:
        bits = TYPES[type_].bits
        if found.bits == bits or (wider and found.bits > bits > 1):
            return
        raise self.error(f"{name} has {found.bits} bits, .{type_} has {bits}")

    def address_of(self, place: Place) -> str:
        if place.space == "buffer":
            raise self.error("the address of a call's parameter is not supported")
        return place.c

    def _number(self, number: Number, type_: str) -> str:
        kind = TYPES[type_]
        if type_ == "pred":
            return "true" if number.bits else "false"
        bits = self._literal(number, type_)
        if kind.bits == 128:
            return f"(u128){bits}ull"
        return f"as<{kind.c}>(({register_c(kind.bits)}){bits}ull)"

    def _literal(self, number: Number, type_: str) -> int:
        """The bits of a literal read as `type_` (PTX ISA 9.0, 4.5.2 and 4.5.5)."""
        if number.kind == "int" or type_ not in ("f32", "f64", "tf32"):
            return number.bits & (1 << TYPES[type_].bits) - 1
        if number.kind == "f32":
            if type_ != "f64":
                return number.bits
            value = struct.unpack("<f", struct.pack("<I", number.bits))[0]
            return int.from_bytes(struct.pack("<d", value), "little")
        if type_ == "f64":
            return number.bits
        value = struct.unpack("<d", struct.pack("<Q", number.bits))[0]
        return int.from_bytes(struct.pack("<f", value), "little")

    def assign(self, operand: Operand, expression: str, wider: bool = False, bits: int = 0) -> None:
        """Puts a C++ value into a register; `bits` is the width it must have, when given."""
        if isinstance(operand, Name) and operand.text == "_":
            self.line(f"(void)({expression});")
            return
        found = self.register(operand)
        if bits and found.bits != bits and not (wider and found.bits > bits):
            raise self.error(f"the result has {bits} bits, its register has {found.bits}")
        if found.bits == 1:
            self.line(f"{found.c} = {expression};")
        else:
            self.line(f"{found.c} = reg<{register_c(found.bits)}>({expression});")

    def items(self, operand: Operand) -> tuple[Operand, ...]:
        """The parts of a vector, or the operand alone."""
        return operand.items if isinstance(operand, Vector) else (operand,)

    def address(self, operand: Operand) -> str:
        """The 64-bit address of an address operand, as a C++ expression."""
        if not isinstance(operand, Address):
            raise self.error("expected an address in brackets")
        base, offset = operand.base, operand.offset
        if isinstance(base, Number):
            return f"{(base.bits + offset) & (1 << 64) - 1}ull"
        found = self.symbol(base.text)
        if isinstance(found, Place):
            return f"((u64)({self.address_of(found)}) + {offset}ll)"
        register = self.register(base)
        if register.bits == 32:
            return f"(u64)(u32)({register.c} + {offset})" if offset else f"(u64){register.c}"
        if register.bits != 64:
            raise self.error(f"{base.text} has {register.bits} bits, an address has 32 or 64")
        return f"({register.c} + (u64){offset}ll)" if offset else register.c

    def place(self, operand: Operand) -> tuple[Place, int] | None:
        """(variable, offset) where an address operand names a variable directly."""
        if isinstance(operand, Address) and isinstance(operand.base, Name):
            found = self.scope.find(operand.base.text)
            if isinstance(found, Place):
                return found, operand.offset
        return None
