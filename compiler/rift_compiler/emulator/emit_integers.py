"""Integer, bit and shift instructions, as a table (PTX ISA 9.0, 9.7.1, 9.7.2, 9.7.8)."""

from __future__ import annotations

from dataclasses import dataclass

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.types import TYPES

INTS = ("u16", "u32", "u64", "s16", "s32", "s64")
SIGNED = ("s16", "s32", "s64")
WORDS = ("u32", "s32")
LONGS = ("u32", "u64", "s32", "s64")
BITS = ("b16", "b32", "b64")
BITS32_64 = ("b32", "b64")
PACKED = ("u16x2", "s16x2")


@dataclass(frozen=True)
class Row:
    """`types` it may have; `result` and `operands` are PTX types, T the instruction's own.

    `code` is C++ over {0}, {1}, .. and {T}.
    """

    types: tuple[str, ...]
    result: str
    operands: tuple[str, ...]
    code: str


def _row(types: tuple[str, ...], result: str, operands: str, code: str) -> Row:
    return Row(types, result, tuple(operands.split()), code)


def _each(name: str) -> str:
    return f"each({{0}}, {{1}}, [](auto a, auto b) {{{{ return {name}(a, b); }}}})"


TABLE: dict[str, tuple[Row, ...]] = {
    "add": (
        _row(INTS, "T", "T T", "i_add<{T}>({0}, {1})"),
        _row(PACKED, "T", "T T", _each("i_add")),
    ),
    "add.sat": (_row(("s32",), "T", "T T", "clamp_s32((s64){0} + {1})"),),
    "sub": (_row(INTS, "T", "T T", "i_sub<{T}>({0}, {1})"),),
    "sub.sat": (_row(("s32",), "T", "T T", "clamp_s32((s64){0} - {1})"),),
    "mul.lo": (_row(INTS, "T", "T T", "mul_lo<{T}>({0}, {1})"),),
    "mul.hi": (_row(INTS, "T", "T T", "mul_hi<{T}>({0}, {1})"),),
    "mul.wide": (_row(("u16", "u32", "s16", "s32"), "W", "T T", "mul_wide<{T}>({0}, {1})"),),
    "mad.lo": (_row(INTS, "T", "T T T", "i_add<{T}>(mul_lo<{T}>({0}, {1}), {2})"),),
    "mad.hi": (_row(INTS, "T", "T T T", "i_add<{T}>(mul_hi<{T}>({0}, {1}), {2})"),),
    "mad.hi.sat": (
        _row(("s32",), "T", "T T T", "clamp_s32((s64)mul_hi<s32>({0}, {1}) + {2})"),
    ),
    "mad.wide": (
        _row(
            ("u16", "u32", "s16", "s32"), "W", "T T W",
            "(wide<{T}>)(mul_wide<{T}>({0}, {1}) + {2})",
        ),
    ),
    "mul24.lo": (_row(WORDS, "T", "T T", "mul24_lo<{T}>({0}, {1})"),),
    "mad24.lo": (_row(WORDS, "T", "T T T", "i_add<{T}>(mul24_lo<{T}>({0}, {1}), {2})"),),
    "sad": (_row(INTS, "T", "T T T", "i_sad<{T}>({0}, {1}, {2})"),),
    "div": (_row(INTS, "T", "T T", "i_div<{T}>({0}, {1})"),),
    "rem": (_row(INTS, "T", "T T", "i_rem<{T}>({0}, {1})"),),
    "abs": (_row(SIGNED, "T", "T", "i_abs<{T}>({0})"),),
    "neg": (_row(SIGNED, "T", "T", "({T})(0 - {0})"),),
    "min": (
        _row(INTS, "T", "T T", "i_min<{T}>({0}, {1})"),
        _row(PACKED, "T", "T T", _each("i_min")),
    ),
    "max": (
        _row(INTS, "T", "T T", "i_max<{T}>({0}, {1})"),
        _row(PACKED, "T", "T T", _each("i_max")),
    ),
    "min.relu": (_row(("s32",), "T", "T T", "i_max<s32>(i_min<s32>({0}, {1}), 0)"),),
    "max.relu": (_row(("s32",), "T", "T T", "i_max<s32>(i_max<s32>({0}, {1}), 0)"),),
    "popc": (_row(BITS32_64, "u32", "T", "popc({0})"),),
    "clz": (
        _row(("b32",), "u32", "T", "clz32({0})"),
        _row(("b64",), "u32", "T", "clz64({0})"),
    ),
    "bfind": (_row(LONGS, "u32", "T", "bfind<{T}>({0}, false)"),),
    "bfind.shiftamt": (_row(LONGS, "u32", "T", "bfind<{T}>({0}, true)"),),
    "brev": (_row(BITS32_64, "T", "T", "brev<{T}>({0})"),),
    "bfe": (_row(LONGS, "T", "T u32 u32", "bfe<{T}>({0}, {1}, {2})"),),
    "bfi": (_row(BITS32_64, "T", "T T u32 u32", "bfi<{T}>({0}, {1}, {2}, {3})"),),
    "and": (
        _row((*BITS,), "T", "T T", "({T})({0} & {1})"),
        _row(("pred",), "T", "T T", "({0} & {1})"),
    ),
    "or": (
        _row((*BITS,), "T", "T T", "({T})({0} | {1})"),
        _row(("pred",), "T", "T T", "({0} | {1})"),
    ),
    "xor": (
        _row((*BITS,), "T", "T T", "({T})({0} ^ {1})"),
        _row(("pred",), "T", "T T", "({0} ^ {1})"),
    ),
    "not": (
        _row((*BITS,), "T", "T", "({T})~{0}"),
        _row(("pred",), "T", "T", "(!{0})"),
    ),
    "cnot": (_row(BITS, "T", "T", "({T})({0} == 0)"),),
    "shl": (_row(BITS, "T", "T u32", "shift_left<{T}>({0}, {1})"),),
    "shr": (_row((*BITS, *INTS), "T", "T u32", "shift_right<{T}>({0}, {1})"),),
    "lop3": (_row(("b32",), "T", "T T T u32", "lop3({0}, {1}, {2}, {3})"),),
    "shf.l.clamp": (_row(("b32",), "T", "T T u32", "shf_l({0}, {1}, {2}, false)"),),
    "shf.l.wrap": (_row(("b32",), "T", "T T u32", "shf_l({0}, {1}, {2}, true)"),),
    "shf.r.clamp": (_row(("b32",), "T", "T T u32", "shf_r({0}, {1}, {2}, false)"),),
    "shf.r.wrap": (_row(("b32",), "T", "T T u32", "shf_r({0}, {1}, {2}, true)"),),
    "prmt": (_row(("b32",), "T", "T T T", "prmt({0}, {1}, {2})"),),
    "bmsk.clamp": (_row(("b32",), "T", "T T", "bmsk({0}, {1}, false)"),),
    "bmsk.wrap": (_row(("b32",), "T", "T T", "bmsk({0}, {1}, true)"),),
    "szext.clamp": (_row(WORDS, "T", "T u32", "szext<{T}>({0}, {1}, false)"),),
    "szext.wrap": (_row(WORDS, "T", "T u32", "szext<{T}>({0}, {1}, true)"),),
    "dp4a.u32": (
        _row(("u32",), "u32", "u32 u32 u32", "dp4a<u8, u8>({0}, {1}, {2})"),
        _row(("s32",), "u32", "u32 u32 u32", "dp4a<u8, s8>({0}, {1}, {2})"),
    ),
    "dp4a.s32": (
        _row(("u32",), "u32", "u32 u32 u32", "dp4a<s8, u8>({0}, {1}, {2})"),
        _row(("s32",), "u32", "u32 u32 u32", "dp4a<s8, s8>({0}, {1}, {2})"),
    ),
}  # fmt: skip
for _first, _n in (("lo", 0), ("hi", 2)):
    for _a in WORDS:
        TABLE[f"dp2a.{_first}.{_a}"] = tuple(
            _row((b,), "u32", "u32 u32 u32",
                 f"dp2a<{_a[0]}16, {b[0]}8>({{0}}, {{1}}, {{2}}, {_n})")
            for b in WORDS
        )  # fmt: skip
for _mode, _name in enumerate(("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")):
    TABLE[f"prmt.b32.{_name}"] = (
        _row((_name,), "b32", "b32 b32 b32", f"prmt_mode({{0}}, {{1}}, {{2}}, {_mode})"),
    )

_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def find_row(code: Code) -> tuple[Row, str] | None:
    """The table's row for the instruction, and its type; None when it has no such row."""
    ins = code.ins
    if not ins.modifiers:
        return None
    key = ".".join((ins.opcode, *ins.modifiers[:-1]))
    type_ = ins.modifiers[-1]
    for row in TABLE.get(key, ()):
        if type_ in row.types:
            return row, type_
    return None


def emit_row(code: Code, row: Row, type_: str) -> None:
    operands = code.operands(len(row.operands) + 1)

    def named(name: str) -> str:
        return {"T": type_, "W": _WIDE.get(type_, type_)}.get(name, name)

    values = [
        code.value(each, named(kind)) for each, kind in zip(operands[1:], row.operands, strict=True)
    ]
    c = TYPES[type_].c if type_ in TYPES else ""
    result = TYPES[named(row.result)]
    code.assign(operands[0], row.code.format(*values, T=c), bits=result.bits)
