"""Floating-point arithmetic (PTX ISA 9.0, 9.7.3 to 9.7.5)."""

from __future__ import annotations

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.modifiers import Modifiers
from rift_compiler.emulator.types import TYPES

FLOATS = ("f16", "bf16", "f32", "f64")
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}
ROUNDINGS = {"rn": "RN", "rz": "RZ", "rm": "RM", "rp": "RP"}
# Roundings of an integer result or of a float to a whole number.
WHOLE = {"rni": "RN", "rzi": "RZ", "rmi": "RM", "rpi": "RP"}

_OPS = {"add": ("F_ADD", 2), "sub": ("F_SUB", 2), "mul": ("F_MUL", 2), "fma": ("F_FMA", 3),
        "mad": ("F_FMA", 3), "div": ("F_DIV", 2), "sqrt": ("F_SQRT", 1)}  # fmt: skip

_APPROXIMATE = ("ex2", "lg2", "rcp", "sqrt", "rsqrt", "sin", "cos", "tanh")


def is_float(code: Code) -> bool:
    """Whether the instruction's type is a float's."""
    last = code.ins.modifiers[-1:] or ("",)
    return last[0] in FLOATS or last[0] in PACKED


def flag(on: bool) -> str:
    return "true" if on else "false"


def emit_arithmetic(code: Code) -> None:
    """add sub mul fma mad div sqrt, exactly rounded; div.approx and .full are the same."""
    m = code.modifiers()
    operation, count = _OPS[code.ins.opcode]
    if code.ins.modifiers[-1] in ("f16", "bf16") and "f32" in code.ins.modifiers[:-1]:
        return _mixed(code, m, operation)
    type_ = m.last(*FLOATS, *PACKED)
    if m.take("approx", "full"):
        if code.ins.opcode not in ("div", "sqrt") or type_ != "f32":
            raise m.error(".approx is not supported here")
        rounding = "RN"
    else:
        rounding = ROUNDINGS[m.take(*ROUNDINGS) or "rn"]
    ftz, sat, relu = m.flag("ftz"), m.flag("sat"), m.flag("relu")
    if type_ in ("f16", "bf16", *PACKED) and rounding != "RN" and type_ != "f32x2":
        raise m.error("16-bit floats are rounded to nearest only")
    m.done()
    scalar = PACKED.get(type_, type_)
    options = f"{TYPES[scalar].c}, {operation}, {rounding}, {flag(ftz)}, {flag(sat)}, {flag(relu)}"
    operands = code.operands(count + 1)
    values = [code.value(each, type_) for each in operands[1:]]
    _call(code, type_, f"f_op<{options}>", values, pad=3)


def _mixed(code: Code, m: Modifiers, operation: str) -> None:
    """add, sub and fma in single precision; all but the last operand have 16 bits (sm_100 on)."""
    source = m.last("f16", "bf16")
    m.last("f32")
    rounding, sat = ROUNDINGS[m.take(*ROUNDINGS) or "rn"], flag(m.flag("sat"))
    m.done()
    if code.ins.opcode not in ("add", "sub", "fma"):
        raise m.error(f".f32.{source} is not supported here")
    operands = code.operands(4 if operation == "F_FMA" else 3)
    values = [f"up({code.value(each, source)})" for each in operands[1:-1]]
    values.append(code.value(operands[-1], "f32"))
    values += values[-1:] * (3 - len(values))
    options = f"f32, {operation}, {rounding}, false, {sat}, false"
    code.assign(operands[0], f"f_op<{options}>({', '.join(values)})", bits=32)


def _call(code: Code, type_: str, function: str, values: list[str], pad: int = 0) -> None:
    """function(values), or of each half of packed values."""
    names = ["a", "b", "c"][: len(values)]
    if type_ in PACKED:
        inner = names + [f"{names[0]}"] * (pad - len(names))
        parameters = ", ".join(f"auto {n}" for n in names)
        body = f"[&]({parameters}) {{ return {function}({', '.join(inner)}); }}"
        text = f"each({', '.join(values)}, {body})"
    else:
        filled = values + [values[0]] * (pad - len(values))
        text = f"{function}({', '.join(filled)})"
    code.assign(code.ins.operands[0], text, bits=TYPES[type_].bits)


def emit_sign(code: Code) -> None:
    """neg and abs."""
    m = code.modifiers()
    type_ = m.last(*FLOATS, *PACKED)
    ftz = flag(m.flag("ftz"))
    m.done()
    c = TYPES[PACKED.get(type_, type_)].c
    value = code.value(code.operands(2)[1], type_)
    name = "f_neg" if code.ins.opcode == "neg" else "f_abs"
    if type_ in PACKED:
        text = f"each({value}, [](auto a) {{ return {name}<{c}>(ftz<{ftz}>(a)); }})"
    else:
        text = f"{name}<{c}>(ftz<{ftz}>({value}))"
    code.assign(code.ins.operands[0], text, bits=TYPES[type_].bits)


def emit_minmax(code: Code) -> None:
    """min and max of two, or of three on sm_100 and later."""
    m = code.modifiers()
    type_ = m.last(*FLOATS, *PACKED)
    ftz, nan, xorsign = m.flag("ftz"), m.flag("NaN"), m.flag("xorsign")
    if xorsign:
        m.need("abs")
    m.done()
    c = TYPES[PACKED.get(type_, type_)].c
    less = flag(code.ins.opcode == "min")
    name = f"f_minmax<{c}, {less}, {flag(ftz)}, {flag(nan)}, {flag(xorsign)}>"
    operands = code.operands(3, 4)
    values = [code.value(each, type_) for each in operands[1:]]
    if len(values) == 3:
        if xorsign or type_ in PACKED:
            raise m.error("three operands are not supported here")
        values = [f"{name}({values[0]}, {values[1]})", values[2]]
    _call(code, type_, name, values)


def emit_approximate(code: Code) -> None:
    """ex2 lg2 rcp sqrt rsqrt sin cos tanh, approximate or rounded."""
    m = code.modifiers()
    opcode = code.ins.opcode
    type_ = m.last(*FLOATS, *PACKED)
    approximate = m.flag("approx")
    ftz = flag(m.flag("ftz"))
    if opcode in ("rcp", "sqrt") and not approximate:
        return _exact(code, m, type_, ftz)
    if not approximate:
        raise m.error("expected .approx")
    m.done()
    value = code.value(code.operands(2)[1], type_)
    c = TYPES[PACKED.get(type_, type_)].c
    if type_ == "f32":
        text = f"{opcode}_approx<{ftz}>({value})"
    elif type_ in PACKED:
        text = f"each({value}, [](auto a) {{ return {_single(c, ftz, opcode, 'a')}; }})"
    elif type_ == "f64":
        text = _double(m, opcode, value)
    else:
        text = _single(c, ftz, opcode, value)
    code.assign(code.ins.operands[0], text, bits=TYPES[type_].bits)


def _single(c: str, ftz: str, opcode: str, value: str) -> str:
    return f"in_single<{c}, {ftz}>({value}, [](f32 x) {{ return {opcode}_approx<false>(x); }})"


def _double(m: Modifiers, opcode: str, value: str) -> str:
    """rcp.approx.ftz.f64 and rsqrt.approx.f64 keep the upper half of the result."""
    if opcode == "rcp":
        full = f"1.0 / {value}"
    elif opcode == "rsqrt":
        full = f"1.0 / __builtin_sqrt({value})"
    else:
        raise m.error(".f64 is not supported here")
    return f"as<f64>(raw<f64>({full}) & 0xffffffff00000000ull)"


def _exact(code: Code, m: Modifiers, type_: str, ftz: str) -> None:
    rounding = ROUNDINGS[m.need(*ROUNDINGS)]
    m.done()
    if type_ not in ("f32", "f64"):
        raise m.error(f".{type_} is not supported here")
    c = TYPES[type_].c
    value = code.value(code.operands(2)[1], type_)
    if code.ins.opcode == "rcp":
        text = f"f_op<{c}, F_DIV, {rounding}, {ftz}, false, false>(({c})1, {value}, ({c})0)"
    else:
        text = f"f_op<{c}, F_SQRT, {rounding}, {ftz}, false, false>({value}, {value}, {value})"
    code.assign(code.ins.operands[0], text, bits=TYPES[type_].bits)


def emit_copysign(code: Code) -> None:
    m = code.modifiers()
    type_ = m.last("f32", "f64")
    m.done()
    operands = code.operands(3)
    values = ", ".join(code.value(each, type_) for each in operands[1:])
    code.assign(operands[0], f"copysign_any({values})", bits=TYPES[type_].bits)


_CLASSES = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")


def emit_testp(code: Code) -> None:
    m = code.modifiers()
    type_ = m.last("f32", "f64")
    what = _CLASSES.index(m.need(*_CLASSES))
    m.done()
    operands = code.operands(2)
    code.assign(operands[0], f"testp({what}, {code.value(operands[1], type_)})", bits=1)
