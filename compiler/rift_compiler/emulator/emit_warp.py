"""What the lanes of a warp do together (PTX ISA 9.0, 9.7.13 and shfl.sync)."""

from __future__ import annotations

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.ptx import Pair

_SHUFFLES = {"up": 0, "down": 1, "bfly": 2, "idx": 3}


def emit_shfl(code: Code) -> None:
    m = code.modifiers()
    m.need("sync")
    mode = m.need(*_SHUFFLES)
    m.last("b32")
    m.done()
    to, value, b, c, mask = code.operands(5)
    first, second = (to.first, to.second) if isinstance(to, Pair) else (to, None)
    args = [code.value(value, "b32")] + [code.value(x, "u32") for x in (b, c, mask)]
    code.line(f"{{ bool valid; const u32 got = shfl(t, {code.here}, {_SHUFFLES[mode]}, "
              f"{', '.join(args)}, valid);")  # fmt: skip
    code.assign(first, "got", bits=32)
    if second is not None:
        code.assign(second, "valid", bits=1)
    code.line("}")


_VOTES = {"all": 0, "any": 1, "uni": 2, "ballot": 3}


def emit_vote(code: Code) -> None:
    m = code.modifiers()
    m.need("sync")
    mode = m.need(*_VOTES)
    m.last("b32" if mode == "ballot" else "pred")
    m.done()
    to, predicate, mask = code.operands(3)
    call = (
        f"vote(t, {code.here}, {_VOTES[mode]}, {code.value(predicate, 'pred')}, "
        f"{code.value(mask, 'u32')})"
    )
    code.assign(
        to, call if mode == "ballot" else f"{call} != 0", bits=32 if mode == "ballot" else 1
    )


def emit_activemask(code: Code) -> None:
    """The lanes known to run together: this one alone, as threads are scheduled one by one."""
    m = code.modifiers()
    m.last("b32")
    m.done()
    code.assign(code.operands(1)[0], "(1u << t->lane)", bits=32)


def emit_match(code: Code) -> None:
    m = code.modifiers()
    everyone = m.need("any", "all") == "all"
    m.need("sync")
    bits = int(m.last("b32", "b64")[1:])
    m.done()
    to, value, mask = code.operands(3)
    first, second = (to.first, to.second) if isinstance(to, Pair) else (to, None)
    code.line(f"{{ bool same; const u32 got = match_lanes(t, {code.here}, "
              f"{'true' if everyone else 'false'}, {code.value(value, f'b{bits}')}, "
              f"{code.value(mask, 'u32')}, same);")  # fmt: skip
    code.assign(first, "got", bits=32)
    if second is not None:
        code.assign(second, "same", bits=1)
    code.line("}")


_REDUX = {"add": 0, "min": 1, "max": 2, "and": 3, "or": 4, "xor": 5}


def emit_redux(code: Code) -> None:
    m = code.modifiers()
    m.need("sync")
    operation = m.need(*_REDUX)
    type_ = m.peek_last()
    if type_ == "f32":
        m.last("f32")
        absolute, nan = m.flag("abs"), m.flag("NaN")
        if operation not in ("min", "max"):
            raise m.error(".f32 goes with .min and .max")
        kind = 4 + absolute + 2 * nan
    else:
        kind = {"u32": 0, "s32": 1, "b32": 0}[m.last("u32", "s32", "b32")]
        if (type_ == "b32") != (operation in ("and", "or", "xor")):
            raise m.error(f".{operation} does not go with .{type_}")
    m.done()
    to, value, mask = code.operands(3)
    call = (
        f"redux(t, {code.here}, {_REDUX[operation]}, {kind}, {code.value(value, 'b32')}, "
        f"{code.value(mask, 'u32')})"
    )
    code.assign(to, call, bits=32)


def emit_elect(code: Code) -> None:
    """The lowest lane of the mask leads (PTX leaves open which)."""
    m = code.modifiers()
    m.need("sync")
    m.done()
    to, mask = code.operands(2)
    if not isinstance(to, Pair):
        raise code.error("expected two results, d|p")
    code.line(f"{{ const u32 leader = elect(t, {code.here}, {code.value(mask, 'u32')});")
    code.assign(to.first, "leader", bits=32)
    code.assign(to.second, "leader == t->lane", bits=1)
    code.line("}")
