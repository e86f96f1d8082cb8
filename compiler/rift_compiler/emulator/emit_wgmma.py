"""wgmma (PTX ISA 9.0, 9.7.15)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.emit_matrix import ELEMENTS
from rift_compiler.emulator.names import Register, Scope
from rift_compiler.emulator.ptx import Instruction, Name, Number, Operand, Vector

# The types of A: the k of a product, and the types its sums may have.
_TYPES = {
    "f16": (16, ("f32", "f16")), "bf16": (16, ("f32",)), "tf32": (8, ("f32",)),
    "e4m3": (32, ("f32", "f16")), "e5m2": (32, ("f32", "f16")),
    "s8": (32, ("s32",)), "u8": (32, ("s32",)),
}  # fmt: skip
_MIXED = ({"e4m3", "e5m2"}, {"s8", "u8"})
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")


def emit_wgmma(code: Code) -> None:
    m = code.modifiers()
    what = m.need("fence", "commit_group", "wait_group", "mma_async")
    if what == "mma_async":
        return _product(code)
    m.need("sync")
    m.need("aligned")
    m.done()
    if what == "commit_group":
        code.line(f"wgmma_commit(t, {code.here});")
    elif what == "wait_group":
        number = code.operands(1)[0]
        if not isinstance(number, Number):
            raise code.error("expected a number")
        code.line(f"wgmma_wait(t, {code.here}, {number.bits}u);")
        code.line("{ Resolved known = {0, 0};")
        for name in sorted(code.accumulators, key=lambda c: int(c[1:])):
            code.line(f"if ({name} >> 20 == 0xffau) {name} = resolve(t, known, {name});")
        code.line("wgmma_resolved(t); }")
    # wgmma.fence orders registers; sums are passed on in the order of the products anyway.


def _product(code: Code) -> None:
    m = code.modifiers()
    for name in ("mma_async", "sync", "aligned"):
        m.need(name)
    b, a, d = m.last(*_TYPES), m.last(*_TYPES), m.last("f32", "f16", "s32")
    saturates = m.flag("satfinite")
    shape = _SHAPE.fullmatch(m.peek_last())
    if shape is None:
        raise m.error("expected a shape such as m64n128k16")
    m.last(shape[0])
    m.done()
    n, k = int(shape[1]), int(shape[2])
    same = a == b or {a, b} in _MIXED
    integers = d == "s32"
    if not same or k != _TYPES[a][0] or d not in _TYPES[a][1] or n % 8 or not 8 <= n <= 256:
        raise m.error("this shape with these types is not supported")
    sums = _results(code, n // 4 if d == "f16" else n // 2)
    in_registers = isinstance(code.ins.operands[1], Vector)
    transposes = ELEMENTS[a][1] == 2
    wanted = 4 if integers else 6 + (0 if not transposes else 1 if in_registers else 2)
    operands = code.operands(wanted)
    flags = _flags(code, operands, in_registers, transposes)
    kind = ELEMENTS[a][0] | ELEMENTS[b][0] << 4 | n << 8 | (d == "f16") << 17 | flags
    kind |= saturates << 23
    _write(code, operands, kind, in_registers, sums)


def _results(code: Code, count: int) -> list[str]:
    items = code.items(code.ins.operands[0]) if code.ins.operands else ()
    if len(items) != count:
        raise code.error(f"expected {count} result registers, got {len(items)}")
    found = [code.register(each) for each in items]
    if any(r.bits != 32 for r in found):
        raise code.error("expected result registers of 32 bits")
    return [r.c for r in found]


def _flags(code: Code, operands: tuple[Operand, ...], in_registers: bool, transposes: bool) -> int:
    numbers = []
    for each in operands[4:]:
        if not isinstance(each, Number):
            raise code.error("expected numbers for scales and transposes")
        numbers.append(each.bits)
    minus = (1 << 64) - 1
    if not numbers:
        return in_registers << 18
    if any(n not in (1, minus) for n in numbers[:2]) or any(n > 1 for n in numbers[2:]):
        raise code.error("scales are 1 or -1, transposes 0 or 1")
    flags = in_registers << 18 | (numbers[0] == minus) << 21 | (numbers[1] == minus) << 22
    if transposes:
        flags |= numbers[-1] << 20
        flags |= 0 if in_registers else numbers[2] << 19
    return flags


def _write(
    code: Code, operands: tuple[Operand, ...], kind: int, in_registers: bool, sums: list[str]
) -> None:
    code.flush()
    a = [] if not in_registers else [code.value(x, "b32") for x in code.items(operands[1])]
    if in_registers and len(a) != 4:
        raise code.error("expected 4 registers of A")
    code.line(f"{{ const u64 a = {'0' if in_registers else code.value(operands[1], 'b64')}, "
              f"b = {code.value(operands[2], 'b64')};")  # fmt: skip
    scale = f"(u32)({code.value(operands[3], 'pred')})"
    head = [f"{kind}u", scale, "(u32)a", "(u32)(a >> 32)", "(u32)b", "(u32)(b >> 32)"]
    code.line(f"u32 q[] = {{{', '.join([*head, *a, *sums])}}};")
    code.line(f"wgmma(t, {code.here}, q);")
    first = len(head) + len(a)
    for i, name in enumerate(sums):
        code.line(f"{name} = q[{first + i}];")
    code.line("}")


def accumulators(instructions: Iterable[tuple[Scope, Instruction]]) -> frozenset[str]:
    """Registers that may hold a result before it is there: results, and copies of them."""
    found: set[str] = set()
    copies: list[tuple[str, str]] = []
    for scope, ins in instructions:
        if ins.opcode == "wgmma" and "mma_async" in ins.modifiers and ins.operands:
            to = ins.operands[0]
            found.update(_names(scope, to.items if isinstance(to, Vector) else (to,)))
        elif ins.opcode == "mov" and len(ins.operands) == 2:
            to, source = ins.operands
            pairs = zip(_names(scope, (to,)), _names(scope, (source,)), strict=False)
            copies += pairs
    grown = bool(found)
    while grown:
        more = {to for to, source in copies if source in found} - found
        found |= more
        grown = bool(more)
    return frozenset(found)


def _names(scope: Scope, operands: Iterable[Operand]) -> list[str]:
    symbols = [scope.find(x.text) for x in operands if isinstance(x, Name)]
    return [s.c for s in symbols if isinstance(s, Register) and s.bits == 32]
