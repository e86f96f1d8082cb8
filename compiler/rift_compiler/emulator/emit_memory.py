"""ld, st, atom, red, prefetch (PTX ISA 9.0, 9.7.9 and 9.7.13)."""

from __future__ import annotations

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.modifiers import Modifiers
from rift_compiler.emulator.ptx import Operand, Vector
from rift_compiler.emulator.types import TYPES, register_c

SPACES = {
    "global": "at_global",
    "const": "at_global",
    "param": "at_param",
    "param::entry": "at_param",
    "shared": "at_shared",
    "shared::cta": "at_shared",
    "shared::cluster": "at_shared",
    "local": "at_local",
    "param::func": "at_param",
}
_STATE = tuple(SPACES)
# Where data is kept and for how long: no effect on what is computed.
CACHE_PREFIXES = ("L1::evict", "L1::no_allocate", "L2::evict", "L2::64B", "L2::128B", "L2::256B")
_CACHE = ("ca", "cg", "cs", "lu", "cv", "nc", "wb", "wt", "unified")
_SCOPES = ("cta", "cluster", "gpu", "sys")
_TYPES = (
    "b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64",
    "f16", "bf16", "f32", "f64",
)  # fmt: skip


def space_of(m: Modifiers) -> tuple[str, str]:
    """(state space, or "generic"; the C++ function that checks an access to it)."""
    space = m.take(*_STATE) or "generic"
    return space, SPACES.get(space, "at_generic")


def drop_cache(m: Modifiers) -> bool:
    """Takes away cache hints; whether the instruction has a cache-policy operand."""
    m.drop_prefixed(*CACHE_PREFIXES)
    m.drop(*_CACHE)
    return m.flag("L2::cache_hint") or m.flag("level::cache_hint")


def _strength(code: Code, m: Modifiers, load: bool) -> str | None:
    """The C++ arguments (acquire, release) of a strong access; None for a weak one."""
    m.take("weak")
    sem = m.take("volatile", "relaxed", "acquire", "release", "mmio")
    scope = m.take(*_SCOPES)
    if sem is None:
        if scope:
            raise m.error(f".{scope} needs .relaxed, .acquire or .release")
        return None
    if sem == ("release" if load else "acquire"):
        raise m.error(f".{sem} is not supported here")
    return f"{str(sem == 'acquire').lower()}, {str(sem == 'release').lower()}"


def _synchronise(code: Code, at: str, address: str, reads: bool, writes: bool, how: str) -> None:
    window = "SHARED_WINDOW + " if at == "at_shared" else ""
    flags = f"{str(reads).lower()}, {str(writes).lower()}"
    code.line(f"if (CHECKED) synchronise(t, {window}{address}, {flags}, {how});")


def emit_ld(code: Code) -> None:
    m = code.modifiers()
    hint = drop_cache(m)
    strong = _strength(code, m, load=True)
    space, at = space_of(m)
    count = int((m.take("v2", "v4", "v8") or "v1")[1:])
    type_ = m.last(*_TYPES)
    m.done()
    operands = code.operands(3 if hint else 2)
    c = _memory_type(type_)
    plain = _plain(code, operands[1], space, TYPES[type_].bits // 8 * count)
    if plain is not None:
        code.line(f"{{ auto v = load_plain<{c}, {count}>({plain});")
    else:
        address = code.address(operands[1])
        kind = ", READ | STRONG" if strong else ""
        code.line(f"{{ auto v = load<{at}, {c}, {count}{kind}>(t, {code.here}, {address});")
        if strong:
            _synchronise(code, at, address, True, False, strong)
    for i, each in enumerate(_items(code, operands[0], count)):
        code.assign(each, f"v.at[{i}]", wider=True, bits=max(TYPES[type_].bits, 16))
    code.line("}")


def _memory_type(type_: str) -> str:
    """How bytes are read: signed integers as such (they are extended), all else as bits."""
    return type_ if type_[0] == "s" else register_c(TYPES[type_].bits)


def _items(code: Code, operand: Operand, count: int) -> tuple[Operand, ...]:
    found = code.items(operand)
    if len(found) != count or (count > 1 and not isinstance(operand, Vector)):
        raise code.error(f"expected {count} registers, got {len(found)}")
    return found


def _plain(code: Code, operand: Operand, space: str, size_bytes: int) -> str | None:
    """The C++ address of a parameter named directly, at a constant offset within it."""
    found = code.place(operand)
    if found is None or not space.startswith("param"):
        return None
    place, offset = found
    if place.space not in ("buffer", "param"):
        return None
    if not 0 <= offset <= place.size_bytes - size_bytes:
        raise code.error(f"offset {offset} is outside of the parameter")
    if place.space == "buffer":
        return f"{place.c} + {offset}"
    return f"M.arena + (M.params - M.arena_base) + {place.c} + {offset}"


def emit_st(code: Code) -> None:
    m = code.modifiers()
    hint = drop_cache(m)
    strong = _strength(code, m, load=False)
    space, at = space_of(m)
    count = int((m.take("v2", "v4", "v8") or "v1")[1:])
    type_ = m.last(*_TYPES)
    m.done()
    operands = code.operands(3 if hint else 2)
    bits = TYPES[type_].bits
    c = register_c(bits)
    parts = ", ".join(
        f"({c}){raw_value(code, each, type_)}" for each in _items(code, operands[1], count)
    )
    value = f"pack<{c}, {count}>{{{{{parts}}}}}"
    plain = _plain(code, operands[0], space, bits // 8 * count)
    if plain is not None:
        return code.line(f"store_plain<{c}, {count}>({plain}, {value});")
    address = code.address(operands[0])
    kind = ", WRITE | STRONG" if strong else ""
    if strong:
        _synchronise(code, at, address, False, True, strong)
    code.line(f"store<{at}, {c}, {count}{kind}>(t, {code.here}, {address}, {value});")


def raw_value(code: Code, operand: Operand, type_: str) -> str:
    """An operand's bits; float literals as their type has them."""
    kind = TYPES[type_]
    if type_ in ("f32", "f64"):
        return f"raw<{kind.c}>({code.value(operand, type_)})"
    return code.value(operand, f"b{kind.bits}", wider=True)


_ATOMIC = {
    "add": "i_add<{T}>(old, b)",
    "min": "i_min<{T}>(old, b)",
    "max": "i_max<{T}>(old, b)",
    "and": "({T})(old & b)",
    "or": "({T})(old | b)",
    "xor": "({T})(old ^ b)",
    "exch": "b",
    "cas": "(old == b ? c : old)",
    "inc": "(old >= b ? ({T})0 : ({T})(old + 1))",
    "dec": "(old == 0 || old > b ? b : ({T})(old - 1))",
}
_ATOMIC_TYPES = {
    "add": ("u32", "s32", "u64", "s64"),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64", "b128"),
    "cas": ("b16", "b32", "b64", "b128"),
    "inc": ("u32",),
    "dec": ("u32",),
}
_FLOAT_TYPES = ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")


def emit_atom(code: Code) -> None:
    """atom and red: on this machine, an access that nothing comes between."""
    m = code.modifiers()
    hint = drop_cache(m)
    sem = m.take("relaxed", "acquire", "release", "acq_rel") or "relaxed"
    m.take(*_SCOPES)
    space, at = space_of(m)
    noftz = m.flag("noftz")
    count = int((m.take("v2", "v4", "v8") or "v1")[1:])
    operation = m.need(*_ATOMIC)
    type_ = m.peek_last()
    floating = operation in ("add", "min", "max") and type_ in _FLOAT_TYPES
    m.last(*(_FLOAT_TYPES if floating else _ATOMIC_TYPES[operation]))
    m.done()
    if noftz != (floating and "16" in type_):
        raise m.error(".noftz goes with 16-bit floats, and they need it")
    if space not in ("generic", "global", "shared", "shared::cta", "shared::cluster"):
        raise m.error(f".{space} has no atomics")
    returns = code.ins.opcode == "atom"
    wanted = 1 + returns + 1 + (operation == "cas") + hint
    operands = code.operands(wanted)
    address = code.address(operands[1 if returns else 0])
    acquire, release = sem in ("acquire", "acq_rel"), sem in ("release", "acq_rel")
    how = f"{str(acquire).lower()}, {str(release).lower()}"
    _synchronise(code, at, address, True, True, how)
    text = _float_atomic(operation, type_) if floating else _ATOMIC[operation]
    c = TYPES[type_].c
    values = operands[1 + returns :]
    items = _items(code, values[0], count)
    results = _items(code, operands[0], count) if returns else items
    compared = values[1] if operation == "cas" else None
    step = TYPES[type_].bits // 8
    for i, each in enumerate(items):
        made = text.replace("{T}", c)
        third = f", c = {code.value(compared, type_)}" if compared is not None else ""
        code.line(f"{{ const {c} b = {code.value(each, type_)}{third};")
        call = f"atomic<{at}, {c}>(t, {code.here}, {address} + {i * step}, "
        code.line(f"const auto got = {call}[&]({c} old) -> {c} {{ return {made}; }});")
        if returns:
            code.assign(results[i], "got", bits=TYPES[type_].bits)
        code.line("}")


def _float_atomic(operation: str, type_: str) -> str:
    scalar = type_.removesuffix("x2")
    c = TYPES[scalar].c
    if operation == "add":
        call = f"f_op<{c}, F_ADD, RN, false, false, false>"
        text = f"{call}(x, y, y)"
    else:
        less = "true" if operation == "min" else "false"
        text = f"f_minmax<{c}, {less}, false, false, false>(x, y)"
    if type_.endswith("x2"):
        return f"each(old, b, [](auto x, auto y) {{ return {text}; }})"
    return f"[]({c} x, {c} y) {{ return {text}; }}(old, b)"


def emit_prefetch(code: Code) -> None:
    """prefetch, prefetchu, applypriority, discard: no effect on results; addresses are not read."""
    m = code.modifiers()
    m.take(*_STATE)
    m.drop("L1", "L2", "tensormap", "L1::evict_normal", "L2::evict_last", "L2::evict_normal")
    m.drop("L2::128B", "b")
    m.done()
    code.address(code.operands(1, 2)[0])


def emit_createpolicy(code: Code) -> None:
    """A cache policy: any 64-bit value will do, for nothing reads it."""
    code.assign(code.operands(1, 4)[0], "(u64)0", bits=64)
