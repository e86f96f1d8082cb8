"""Element types, each with its names in torch, NumPy and C++: one table for every level."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DType:
    """One element type. `numpy` is how the interpreters hold it (bf16 as rounded float32)."""

    name: str
    torch: str
    numpy: str
    cpp: str
    bytes: int
    kind: str  # b: bool, i: signed, u: unsigned, f: floating point

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def is_int(self) -> bool:
        return self.kind in "iu"

    @property
    def computes(self) -> bool:
        """Whether scalar arithmetic exists in this type; f16 and bf16 are only stored and cast."""
        return self not in (f16, bf16)

    @property
    def opmath(self) -> DType:
        """The type torch computes in: f32 for f16 and bf16 (at::OpMathType)."""
        return self if self.computes else f32


bool_ = DType("bool", "bool", "bool", "bool", 1, "b")
u8 = DType("u8", "uint8", "uint8", "uint8_t", 1, "u")
i8 = DType("i8", "int8", "int8", "int8_t", 1, "i")
i16 = DType("i16", "int16", "int16", "int16_t", 2, "i")
i32 = DType("i32", "int32", "int32", "int32_t", 4, "i")
i64 = DType("i64", "int64", "int64", "int64_t", 8, "i")
f16 = DType("f16", "float16", "float16", "f16", 2, "f")
bf16 = DType("bf16", "bfloat16", "float32", "bf16", 2, "f")
f32 = DType("f32", "float32", "float32", "float", 4, "f")
f64 = DType("f64", "float64", "float64", "double", 8, "f")

DTYPES = {t.name: t for t in (bool_, u8, i8, i16, i32, i64, f16, bf16, f32, f64)}
BY_TORCH = {t.torch: t for t in DTYPES.values()}
