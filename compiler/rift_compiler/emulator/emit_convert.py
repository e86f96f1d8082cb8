"""cvt and cvt.pack (PTX ISA 9.0, 9.7.9.21)."""

from __future__ import annotations

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.emit_floats import FLOATS, ROUNDINGS, WHOLE, flag
from rift_compiler.emulator.modifiers import Modifiers
from rift_compiler.emulator.types import TYPES

_INTS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
_SMALL = {"e4m3x2": ("to_e4m3", "from_e4m3"), "e5m2x2": ("to_e5m2", "from_e5m2")}
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}


def emit_cvt(code: Code) -> None:
    m = code.modifiers()
    source = m.last(*_INTS, *FLOATS, *_SMALL, *_PAIRS)
    result = m.last(*_INTS, *FLOATS, "tf32", *_SMALL, *_PAIRS)
    if result in _SMALL:
        _to_small(code, m, result, source)
    elif source in _SMALL:
        _from_small(code, m, result, source)
    elif result in _PAIRS:
        _to_pair(code, m, result, source)
    elif result == "tf32":
        _to_tf32(code, m, source)
    elif source in _PAIRS:
        raise m.error(f".{source} to .{result} is not supported")
    else:
        _scalar(code, m, result, source)


def _scalar(code: Code, m: Modifiers, result: str, source: str) -> None:
    rounding, whole = m.take(*ROUNDINGS), m.take(*WHOLE)
    ftz, sat, relu = (flag(m.flag(name)) for name in ("ftz", "sat", "relu"))
    m.done()
    operands = code.operands(2)
    value = code.value(operands[1], source, wider=True)
    d, s = TYPES[result].c, TYPES[source].c
    to_float, of_float = result in FLOATS, source in FLOATS
    if to_float and of_float and whole:
        if result != source:
            raise m.error("a rounding to whole numbers keeps the type")
        text = f"to_whole<{d}, {WHOLE[whole]}, {ftz}, {sat}>({value})"
    elif to_float and of_float:
        mode = ROUNDINGS[rounding or "rn"]
        text = f"float_to_float<{d}, {s}, {mode}, {ftz}, {sat}, {relu}>({value})"
    elif to_float:
        text = f"saturate<{sat}>(int_to<{d}, {s}, {ROUNDINGS[rounding or 'rn']}>({value}))"
    elif of_float:
        if whole is None:
            raise m.error("expected .rni, .rzi, .rmi or .rpi")
        text = f"float_to_int<{d}, {s}, {WHOLE[whole]}, {ftz}, {sat}>({value})"
    else:
        text = f"int_to_int<{d}, {s}, {sat}>({value})"
    code.assign(operands[0], text, wider=True, bits=max(TYPES[result].bits, 16))


def _to_tf32(code: Code, m: Modifiers, source: str) -> None:
    mode = {"rn": "RN", "rz": "RZ", "rna": "RNA"}[m.need("rn", "rz", "rna")]
    relu, sat = flag(m.flag("relu")), flag(m.flag("satfinite"))
    m.done()
    if source != "f32":
        raise m.error("tf32 is made of .f32")
    operands = code.operands(2)
    value = code.value(operands[1], "f32")
    code.assign(operands[0], f"to_tf32<{mode}>({value}, {sat}, {relu})", bits=32)


def _to_pair(code: Code, m: Modifiers, result: str, source: str) -> None:
    """d = {a as upper, b as lower half}."""
    mode = ROUNDINGS[m.need("rn", "rz")]
    relu, sat = flag(m.flag("relu")), m.flag("satfinite")
    m.done()
    if source != "f32" or sat:
        raise m.error(f".{source} to .{result} is not supported here")
    operands = code.operands(3)
    d = TYPES[_PAIRS[result]].c
    high, low = (
        f"float_to_float<{d}, f32, {mode}, false, false, {relu}>({code.value(each, 'f32')})"
        for each in operands[1:]
    )
    code.assign(operands[0], f"two<{d}>{{{low}, {high}}}", bits=32)


def _to_small(code: Code, m: Modifiers, result: str, source: str) -> None:
    """Two 8-bit floats; of two f32 the first becomes the upper byte."""
    m.need("rn")
    m.need("satfinite")
    relu = flag(m.flag("relu"))
    m.done()
    name = _SMALL[result][0]
    operands = code.operands(3 if source == "f32" else 2)
    if source == "f32":
        high, low = (code.value(each, "f32") for each in operands[1:])
        code.line(f"{{ f32 high = {high}, low = {low};")
    elif source in _PAIRS:
        value = code.value(operands[1], source)
        code.line(f"{{ auto both = {value}; f32 high = up(both.hi), low = up(both.lo);")
    else:
        raise m.error(f".{source} to .{result} is not supported")
    code.assign(operands[0], f"(u16)({name}(high, {relu}) << 8 | {name}(low, {relu}))", bits=16)
    code.line("}")


def _from_small(code: Code, m: Modifiers, result: str, source: str) -> None:
    m.need("rn")
    relu = flag(m.flag("relu"))
    m.done()
    if result not in _PAIRS:
        raise m.error(f".{source} to .{result} is not supported")
    d, name = TYPES[_PAIRS[result]].c, _SMALL[source][1]
    operands = code.operands(2)
    code.line(f"{{ u16 both = {code.value(operands[1], 'b16')};")
    low, high = (f"relu<{relu}>(down<{d}>({name}((u8)({x}))))" for x in ("both", "both >> 8"))
    code.assign(operands[0], f"two<{d}>{{{low}, {high}}}", bits=32)
    code.line("}")


def emit_cvt_pack(code: Code) -> None:
    """cvt.pack.sat.{u16,s16}.s32 and .{u8,s8}.s32.b32."""
    m = code.modifiers()
    m.need("pack")
    m.need("sat")
    with_third = m.peek_last() == "b32"
    if with_third:
        m.last("b32")
    m.last("s32")
    result = m.last("u16", "s16", "u8", "s8")
    m.done()
    bits, c = TYPES[result].bits, TYPES[result].c
    operands = code.operands(4 if with_third else 3)
    a, b = (
        f"(u{bits})int_to_int<{c}, s32, true>({code.value(each, 's32')})" for each in operands[1:3]
    )
    third = f" | {code.value(operands[3], 'b32')} << {2 * bits}" if with_third and bits == 8 else ""
    code.assign(operands[0], f"(u32){b} | (u32){a} << {bits}{third}", bits=32)
