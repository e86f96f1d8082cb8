"""PTX types and how the generated C++ holds them (PTX ISA 9.0, 5.2)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Type:
    """`c` names the C++ type; `kind` is bits, signed, unsigned, float, packed or predicate."""

    c: str
    bits: int
    kind: str


TYPES = {
    "pred": Type("bool", 1, "predicate"),
    "b8": Type("u8", 8, "bits"),
    "b16": Type("u16", 16, "bits"),
    "b32": Type("u32", 32, "bits"),
    "b64": Type("u64", 64, "bits"),
    "b128": Type("u128", 128, "bits"),
    "u8": Type("u8", 8, "unsigned"),
    "u16": Type("u16", 16, "unsigned"),
    "u32": Type("u32", 32, "unsigned"),
    "u64": Type("u64", 64, "unsigned"),
    "s8": Type("s8", 8, "signed"),
    "s16": Type("s16", 16, "signed"),
    "s32": Type("s32", 32, "signed"),
    "s64": Type("s64", 64, "signed"),
    "f16": Type("f16", 16, "float"),
    "bf16": Type("bf16", 16, "float"),
    "f32": Type("f32", 32, "float"),
    "f64": Type("f64", 64, "float"),
    "f16x2": Type("f16x2", 32, "packed"),
    "bf16x2": Type("bf16x2", 32, "packed"),
    "u16x2": Type("u16x2", 32, "packed"),
    "s16x2": Type("s16x2", 32, "packed"),
    "f32x2": Type("f32x2", 64, "packed"),
    "tf32": Type("f32", 32, "float"),
    "e4m3": Type("u8", 8, "float"),
    "e5m2": Type("u8", 8, "float"),
    "e4m3x2": Type("u16", 16, "packed"),
    "e5m2x2": Type("u16", 16, "packed"),
}


def register_c(bits: int) -> str:
    """The C++ type that holds a register of this width: its bits, whatever their PTX type."""
    return "bool" if bits == 1 else f"u{max(bits, 8)}"
