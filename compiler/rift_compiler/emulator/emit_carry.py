"""Arithmetic with a carry: add.cc, addc, sub.cc, subc, mad.cc, madc (PTX ISA 9.0, 9.7.2)."""

from __future__ import annotations

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.types import TYPES


def has_carry(code: Code) -> bool:
    return code.ins.opcode in ("addc", "subc", "madc") or "cc" in code.ins.modifiers


def emit_carry(code: Code) -> None:
    m = code.modifiers()
    opcode = code.ins.opcode
    sets, reads = m.flag("cc"), opcode.endswith("c")
    type_ = m.last("u32", "s32", "u64", "s64")
    half = m.need("lo", "hi") if opcode.startswith("mad") else None
    m.done()
    unsigned = "u" + type_[1:]
    operands = code.operands(4 if half else 3)
    if half:
        signed = type_ if half == "hi" else unsigned
        a = f"({unsigned})mul_{half}<{signed}>"
        a += f"({code.value(operands[1], signed)}, {code.value(operands[2], signed)})"
    else:
        a = code.value(operands[1], unsigned)
    b = code.value(operands[-1], unsigned)
    function = "sub_borrow" if opcode.startswith("sub") else "add_carry"
    code.line(f"{{ bool out; auto v = {function}<{unsigned}>({a}, {b}, "
              f"{'cc' if reads else 'false'}, out);")  # fmt: skip
    code.assign(operands[0], "v", bits=TYPES[type_].bits)
    code.line("cc = out; }" if sets else "}")
