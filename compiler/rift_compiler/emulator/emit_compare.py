"""setp, set, selp, slct (PTX ISA 9.0, 9.7.6 and 9.7.7)."""

from __future__ import annotations

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.emit_floats import FLOATS, PACKED, flag
from rift_compiler.emulator.modifiers import Modifiers
from rift_compiler.emulator.ptx import Operand, Pair
from rift_compiler.emulator.types import TYPES

_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_UNORDERED = {"equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">="}
_COMPARISONS = (*_SIGNS, *_UNSIGNED, *_UNORDERED, "num", "nan")
_BOOLEAN = {"and": "&", "or": "|", "xor": "^"}
_COMPARED = ("b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", *FLOATS)


def _unsigned(type_: str) -> str:
    return "u" + type_[1:] if type_[0] == "b" else type_


def comparison(m: Modifiers, name: str, type_: str, a: str, b: str) -> str:
    """A C++ condition; floats are compared ordered, but for the names that end in u."""
    if type_ in FLOATS or type_ in PACKED.values():
        x, y = f"up({a})", f"up({b})"
        nan = f"(is_nan({a}) || is_nan({b}))"
        if name in ("num", "nan"):
            return nan if name == "nan" else f"(!{nan})"
        if name in _UNORDERED:
            return f"({nan} || {x} {_UNORDERED[name]} {y})"
        if name in _SIGNS:
            return f"(!{nan} && {x} {_SIGNS[name]} {y})"
    elif name in _SIGNS:
        return f"({a} {_SIGNS[name]} {b})"
    elif name in _UNSIGNED and type_[0] == "u":
        return f"({a} {_UNSIGNED[name]} {b})"
    raise m.error(f".{name} does not go with .{type_}")


def _values(code: Code, a: Operand, b: Operand, type_: str, ftz: bool) -> tuple[str, str]:
    kind = _unsigned(type_)
    x, y = code.value(a, kind), code.value(b, kind)
    return (f"ftz<true>({x})", f"ftz<true>({y})") if ftz else (x, y)


def emit_setp(code: Code) -> None:
    m = code.modifiers()
    name, joined, ftz = m.need(*_COMPARISONS), m.take(*_BOOLEAN), m.flag("ftz")
    type_ = m.last(*_COMPARED, *PACKED)
    m.done()
    operands = code.operands(4 if joined else 3)
    if type_ in PACKED:
        return _packed_setp(code, m, name, joined, ftz, type_)
    a, b = _values(code, operands[1], operands[2], type_, ftz)
    yes = comparison(m, name, _unsigned(type_), a, b)
    # Both results are computed before either is stored: operands may be results.
    other = code.value(operands[3], "pred") if joined else ""
    sign = _BOOLEAN[joined] if joined else ""
    code.line(f"{{ const bool yes = {yes}{f', with = {other}' if joined else ''};")
    first, second = _two(operands[0])
    code.assign(first, f"yes {sign} with" if joined else "yes", bits=1)
    if second:
        code.assign(second, f"!yes {sign} with" if joined else "!yes", bits=1)
    code.line("}")


def _two(operand: Operand) -> tuple[Operand, Operand | None]:
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand, None)


def _packed_setp(
    code: Code, m: Modifiers, name: str, joined: str | None, ftz: bool, type_: str
) -> None:
    operands = code.ins.operands
    first, second = _two(operands[0])
    if second is None:
        raise m.error("expected two results, p|q")
    a, b = code.value(operands[1], type_), code.value(operands[2], type_)
    parts = []
    for half in ("lo", "hi"):
        x, y = (f"ftz<{flag(ftz)}>({v}.{half})" for v in ("a", "b"))
        parts.append(comparison(m, name, PACKED[type_], x, y))
    extra = f" {_BOOLEAN[joined]} {code.value(operands[3], 'pred')}" if joined else ""
    code.line(
        f"{{ auto a = {a}; auto b = {b}; bool lo = {parts[0]}{extra}, hi = {parts[1]}{extra};"
    )
    code.assign(first, "lo", bits=1)
    code.assign(second, "hi", bits=1)
    code.line("}")


def emit_set(code: Code) -> None:
    m = code.modifiers()
    name, joined, ftz = m.need(*_COMPARISONS), m.take(*_BOOLEAN), m.flag("ftz")
    source = m.last(*_COMPARED, *PACKED)
    result = m.last("u32", "s32", "f32", "u16", "s16", "f16", "bf16", "f16x2", "bf16x2")
    m.done()
    operands = code.operands(4 if joined else 3)
    extra = f" {_BOOLEAN[joined]} {code.value(operands[3], 'pred')}" if joined else ""
    if source in PACKED:
        a, b = code.value(operands[1], source), code.value(operands[2], source)
        yes = comparison(m, name, PACKED[source], f"ftz<{flag(ftz)}>(a)", f"ftz<{flag(ftz)}>(b)")
        half = TYPES[PACKED[source]].c
        one = f"down<{half}>(yes ? 1.0f : 0.0f)" if result in PACKED else "(u16)(yes ? 0xffff : 0)"
        made = f"each({a}, {b}, [&](auto a, auto b) {{ bool yes = {yes}{extra}; return {one}; }})"
        if result not in PACKED:
            raise m.error(f".{result} is not supported here")
        return code.assign(operands[0], made, bits=32)
    a, b = _values(code, operands[1], operands[2], source, ftz)
    yes = comparison(m, name, _unsigned(source), a, b) + extra
    if result in FLOATS:
        made = f"down<{TYPES[result].c}>(({yes}) ? 1.0f : 0.0f)"
    else:
        made = f"({TYPES[result].c})(({yes}) ? -1 : 0)"
    code.assign(operands[0], made, bits=TYPES[result].bits)


def emit_selp(code: Code) -> None:
    m = code.modifiers()
    type_ = m.last(*_COMPARED)
    m.done()
    operands = code.operands(4)
    kind = f"b{TYPES[type_].bits}"
    a, b = (_bits(code, each, type_) for each in operands[1:3])
    code.assign(operands[0], f"({code.value(operands[3], 'pred')} ? {a} : {b})", bits=int(kind[1:]))


def _bits(code: Code, operand: Operand, type_: str) -> str:
    """The operand as bits, so that floats keep theirs."""
    c = TYPES[type_]
    return (
        f"raw<{c.c}>({code.value(operand, type_)})"
        if c.kind == "float"
        else code.value(operand, f"b{c.bits}")
    )


def emit_slct(code: Code) -> None:
    m = code.modifiers()
    decider = m.last("s32", "f32")
    type_ = m.last(*_COMPARED)
    ftz = m.flag("ftz")
    m.done()
    operands = code.operands(4)
    a, b = (_bits(code, each, type_) for each in operands[1:3])
    value = code.value(operands[3], decider)
    value = f"ftz<true>({value})" if ftz else value
    code.assign(operands[0], f"({value} >= 0 ? {a} : {b})", bits=TYPES[type_].bits)
