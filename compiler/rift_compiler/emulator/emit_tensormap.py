"""tensormap.replace and tensormap.cp_fenceproxy (PTX ISA 9.0, 9.7.9.28 and 9.7.13.16)."""

from __future__ import annotations

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.modifiers import Modifiers
from rift_compiler.emulator.ptx import Number

# As enum MapField of runtime/tensor_maps.cpp: number, and whether an index comes before the value.
_FIELDS = {
    "global_address": (0, False), "rank": (1, False), "box_dim": (2, True),
    "global_dim": (3, True), "global_stride": (4, True), "element_stride": (5, True),
    "elemtype": (6, False), "swizzle_mode": (7, False), "fill_mode": (8, False),
}  # fmt: skip
_LIMITS = {"rank": 4, "elemtype": 12, "swizzle_mode": 3, "fill_mode": 1}


def emit_tensormap(code: Code) -> None:
    m = code.modifiers()
    if m.flag("cp_fenceproxy"):
        return _copy(code, m)
    m.need("replace")
    m.need("tile")
    name = m.need(*_FIELDS, "interleave_layout")
    shared = m.take("shared::cta", "global") == "shared::cta"
    m.need("b1024")
    type_ = m.last("b32", "b64")
    m.done()
    if name == "interleave_layout":
        return _no_interleave(code)
    field, indexed = _FIELDS[name]
    operands = code.operands(3 if indexed else 2)
    index = operands[1] if indexed else Number("int", 0)
    value = operands[-1]
    if not isinstance(index, Number) or index.bits > 4:
        raise code.error("expected an axis from 0 to 4")
    if name in _LIMITS and not (isinstance(value, Number) and value.bits <= _LIMITS[name]):
        raise code.error(f"expected a number from 0 to {_LIMITS[name]} for {name}")
    code.line(
        f"tensormap_replace(t, {code.here}, {code.address(operands[0])}, "
        f"{'true' if shared else 'false'}, {field}, {index.bits}, "
        f"(u64){code.value(value, type_)});"
    )


def _no_interleave(code: Code) -> None:
    value = code.operands(2)[1]
    if not isinstance(value, Number) or value.bits:
        raise code.error("interleaved layouts are not supported")


def _copy(code: Code, m: Modifiers) -> None:
    for name in ("global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"):
        m.need(name)
    m.take("cta", "cluster", "gpu", "sys")
    m.done()
    to, source, size = code.operands(3)
    if not isinstance(size, Number) or size.bits != 128:
        raise code.error("expected a size of 128")
    code.line(f"tensormap_copy(t, {code.here}, {code.address(to)}, {code.address(source)});")
