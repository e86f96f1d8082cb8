"""mov, cvta, isspacep, mapa and their like (PTX ISA 9.0, 9.7.9)."""

from __future__ import annotations

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.names import Place
from rift_compiler.emulator.ptx import Address, Name, Operand, Vector
from rift_compiler.emulator.types import TYPES

_MOVED = (
    "pred", "b16", "b32", "b64", "b128", "u16", "u32", "u64", "s16", "s32", "s64", "f16", "f32",
    "f64", "f16x2", "bf16", "bf16x2",
)  # fmt: skip
# What is added to an address of a space to make it generic: global and constant
# addresses are generic already; those of parameters count from the first.
WINDOWS = {
    "shared": "SHARED_WINDOW",
    "shared::cta": "SHARED_WINDOW",
    "shared::cluster": "SHARED_WINDOW",
    "local": "LOCAL_WINDOW",
    "global": "0ull",
    "const": "0ull",
    "param": "M.params",
    "param::entry": "M.params",
}


def emit_mov(code: Code) -> None:
    m = code.modifiers()
    type_ = m.last(*_MOVED)
    m.done()
    to, source = code.operands(2)
    bits = TYPES[type_].bits
    if isinstance(source, Vector):
        return code.assign(to, pack(code, source, bits), bits=bits)
    if isinstance(to, Vector):
        return unpack(code, to, code.value(source, f"b{bits}"), bits)
    kind = TYPES[type_].kind
    raw = type_ if kind != "packed" else f"b{bits}"
    code.assign(to, code.value(source, raw), bits=bits)


def pack(code: Code, vector: Vector, bits: int) -> str:
    """The parts of a vector as one word, the first lowest."""
    each = bits // len(vector.items)
    if each * len(vector.items) != bits or each not in (8, 16, 32, 64):
        raise code.error(f"{len(vector.items)} parts do not make {bits} bits")
    word = TYPES[f"b{bits}"].c
    parts = [
        f"({word}){code.value(item, f'b{each}', wider=each == 8)} << {i * each}"
        for i, item in enumerate(vector.items)
    ]
    return "(" + " | ".join(parts) + ")"


def unpack(code: Code, vector: Vector, value: str, bits: int) -> None:
    each = bits // len(vector.items)
    if each * len(vector.items) != bits or each not in (8, 16, 32, 64):
        raise code.error(f"{bits} bits are not {len(vector.items)} parts")
    code.line(f"{{ const {TYPES[f'b{bits}'].c} whole = {value};")
    for i, item in enumerate(vector.items):
        code.assign(item, f"(u{each})(whole >> {i * each})", wider=each == 8, bits=each)
    code.line("}")


def emit_cvta(code: Code) -> None:
    m = code.modifiers()
    back = m.flag("to")
    window = WINDOWS[m.need(*WINDOWS)]
    m.last("u64")
    m.done()
    to, source = code.operands(2)
    value = _source(code, source)
    code.assign(to, f"({value}) {'-' if back else '+'} {window}", bits=64)


def _source(code: Code, source: Operand) -> str:
    if isinstance(source, Address):
        return code.address(source)
    if isinstance(source, Name) and source.text.partition("+")[0] != source.text:
        raise code.error("expected a register or a variable")
    found = code.scope.find(source.text) if isinstance(source, Name) else None
    if isinstance(found, Place):
        return f"(u64)({code.address_of(found)})"
    return code.value(source, "u64")


def emit_isspacep(code: Code) -> None:
    m = code.modifiers()
    space = m.need(*WINDOWS)
    m.done()
    to, source = code.operands(2)
    value = code.value(source, "u64")
    window = WINDOWS[space]
    if space.startswith("param"):
        text = f"({value} - M.params < 4096)"
    elif window != "0ull":
        text = f"({value} - {window} < WINDOW_BYTES)"
    elif space == "global":
        text = f"({value} - M.arena_base < M.arena_bytes)"
    else:
        raise m.error(f".{space} is not supported here")
    code.assign(to, text, bits=1)


def emit_mapa(code: Code) -> None:
    """The same address: a cluster is one block, of rank 0."""
    m = code.modifiers()
    m.take("shared::cluster")
    type_ = m.last("u32", "u64")
    m.done()
    to, source, _ = code.operands(3)
    code.assign(to, code.value(source, type_), bits=TYPES[type_].bits)


def emit_getctarank(code: Code) -> None:
    m = code.modifiers()
    m.take("shared::cluster")
    m.last("u32", "u64")
    m.done()
    code.assign(code.operands(2)[0], "0u", bits=32)
