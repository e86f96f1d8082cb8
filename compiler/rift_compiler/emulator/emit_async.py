"""cp.async, mbarrier, bulk and tensor copies (PTX ISA 9.0, 9.7.9.25 and 9.7.13.15)."""

from __future__ import annotations

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.emit_memory import CACHE_PREFIXES
from rift_compiler.emulator.modifiers import Modifiers
from rift_compiler.emulator.ptx import Address, Name, Operand, Vector

_SHARED = ("shared", "shared::cta", "shared::cluster")


def emit_cp(code: Code) -> None:
    """cp.async and everything that begins so."""
    words = code.ins.modifiers
    if "bulk" in words:
        return _bulk(code)
    if "mbarrier" in words:
        return _copy_arrive(code)
    m = code.modifiers()
    if words[0] == "reduce":
        raise m.error("expected .bulk")
    m.need("async")
    if m.flag("commit_group"):
        m.done()
        return code.line("copy_commit(t);")
    if m.flag("wait_all"):
        m.done()
        return code.line("copy_wait_all(t);")
    if m.flag("wait_group"):
        m.done()
        return code.line(f"copy_wait(t, {code.value(code.operands(1)[0], 'u32')});")
    _copy(code, m)


def _copy(code: Code, m: Modifiers) -> None:
    m.need("ca", "cg")
    m.need("shared", "shared::cta")
    m.need("global")
    hint = m.flag("L2::cache_hint")
    m.drop_prefixed(*CACHE_PREFIXES)
    m.done()
    operands = list(code.operands(3, 5))
    if hint:
        operands.pop()
    size = code.value(operands[2], "u32")
    read = size
    if len(operands) == 4:
        last = operands[3]
        predicate = isinstance(last, Name) and code.register(last).bits == 1
        # A source size, or a predicate that says to ignore the source.
        read = (
            f"({code.value(last, 'pred')} ? 0u : {size})" if predicate else code.value(last, "u32")
        )
    to, source = code.address(operands[0]), code.address(operands[1])
    code.line(f"copy_async(t, {code.here}, {to}, {source}, {size}, {read});")


def _copy_arrive(code: Code) -> None:
    m = code.modifiers()
    m.need("async")
    m.need("mbarrier")
    m.need("arrive")
    counted = "false" if m.flag("noinc") else "true"
    m.take(*_SHARED)
    m.last("b64")
    m.done()
    code.line(f"copy_arrive(t, {code.here}, {code.address(code.operands(1)[0])}, {counted});")


# As enum Reduction and ReducedType of runtime/bulk.cpp.
_REDUCTIONS = {"add": 1, "min": 2, "max": 3, "and": 4, "or": 5, "xor": 6, "inc": 7, "dec": 8}
_REDUCED = {"u32": 0, "s32": 1, "u64": 2, "s64": 3, "f16": 4, "bf16": 5, "f32": 6, "f64": 7,
            "b32": 0, "b64": 2}  # fmt: skip


def _bulk(code: Code) -> None:
    m = code.modifiers()
    reduces = m.flag("reduce")
    m.need("async")
    m.need("bulk")
    if m.flag("commit_group"):
        m.done()
        return code.line("bulk_commit(t);")
    if m.flag("wait_group"):
        m.flag("read")
        m.done()
        return code.line(f"bulk_wait(t, {code.value(code.operands(1)[0], 'u32')});")
    if m.flag("prefetch"):
        return _prefetch(code, m)
    hint = m.flag("L2::cache_hint")
    many = m.flag("multicast::cluster")
    axes = m.take("1d", "2d", "3d", "4d", "5d") if m.flag("tensor") else None
    if axes:
        m.take("tile")
    spaces = [w for w in code.ins.modifiers if w in (*_SHARED, "global")]
    m.drop(*_SHARED, "global")
    # Masks of a multicast and cache policies come last; a cluster has one block.
    operands = code.ins.operands[: len(code.ins.operands) - hint - many]
    if reduces or m.flag("bulk_group"):
        if reduces:
            m.take("bulk_group")
        if spaces[0] != "global":
            raise m.error("a bulk copy between shared memories is not supported")
        return _store(code, m, operands, axes, reduces)
    if spaces[-1] != "global":
        raise m.error("a bulk copy between shared memories is not supported")
    m.need("mbarrier::complete_tx::bytes")
    m.done()
    _load(code, operands, axes)


def _prefetch(code: Code, m: Modifiers) -> None:
    m.drop("tensor", "1d", "2d", "3d", "4d", "5d", "L2", "global", "tile", "L2::cache_hint")
    m.done()


def _coordinates(code: Code, operand: Operand, axes: str) -> tuple[str, str, int]:
    """(address of the map, C++ list of coordinates, how many)."""
    rank = int(axes[0])
    if not isinstance(operand, Address) or operand.coordinates is None:
        raise code.error("expected [map, {coordinates}]")
    where = operand.coordinates
    items = where.items if isinstance(where, Vector) else (where,)
    if len(items) != rank:
        raise code.error(f"expected {rank} coordinates, got {len(items)}")
    listed = ", ".join(code.value(each, "s32") for each in items)
    return code.address(Address(operand.base, operand.offset)), listed, rank


def _load(code: Code, operands: tuple[Operand, ...], axes: str | None) -> None:
    if len(operands) != (3 if axes else 4):
        raise code.error("im2col and other forms of this copy are not supported")
    to, mbarrier = code.address(operands[0]), code.address(operands[-1])
    if axes:
        address, where, rank = _coordinates(code, operands[1], axes)
        return code.line(
            f"{{ const s32 at[] = {{{where}}}; "
            f"tensor_load(t, {code.here}, {to}, {address}, at, {rank}, {mbarrier}); }}"
        )
    size = code.value(operands[2], "u32")
    code.line(f"bulk_load(t, {code.here}, {to}, {code.address(operands[1])}, {size}, {mbarrier});")


def _store(
    code: Code, m: Modifiers, operands: tuple[Operand, ...], axes: str | None, reduces: bool
) -> None:
    operation = _REDUCTIONS[m.need(*_REDUCTIONS)] if reduces else 0
    if axes:
        if reduces:
            raise m.error("a reducing tensor copy is not supported")
        m.done()
        if len(operands) != 2:
            raise code.error(f"expected 2 operands, got {len(operands)}")
        address, where, rank = _coordinates(code, operands[0], axes)
        source = code.address(operands[1])
        return code.line(
            f"{{ const s32 at[] = {{{where}}}; "
            f"tensor_store(t, {code.here}, {address}, at, {rank}, {source}, 0); }}"
        )
    m.take("noftz")
    type_ = _REDUCED[m.last(*_REDUCED)] if reduces else 0
    m.done()
    if len(operands) != 3:
        raise code.error(f"expected 3 operands, got {len(operands)}")
    to, source = code.address(operands[0]), code.address(operands[1])
    size = code.value(operands[2], "u32")
    code.line(f"bulk_store(t, {code.here}, {to}, {source}, {size}, {operation}, {type_});")


def emit_mbarrier(code: Code) -> None:
    m = code.modifiers()
    what = m.need("init", "inval", "expect_tx", "complete_tx", "arrive", "arrive_drop",
                  "test_wait", "try_wait", "pending_count")  # fmt: skip
    if what == "pending_count":
        m.last("b64")
        m.done()
        to, state = code.operands(2)
        return code.assign(to, f"(u32){code.value(state, 'u64')}", bits=32)
    m.take(*_SHARED)
    m.last("b64")
    relaxed = "true" if m.flag("relaxed") else "false"
    m.take("acquire", "release")
    m.take("cta", "cluster")
    if what in ("test_wait", "try_wait"):
        return _wait(code, m, what, relaxed)
    if what in ("arrive", "arrive_drop"):
        return _arrive(code, m, what, relaxed)
    m.done()
    operands = code.operands(1 if what == "inval" else 2)
    address = code.address(operands[0])
    if what == "inval":
        code.line(f"mbarrier_inval(t, {code.here}, {address});")
    elif what == "init":
        code.line(f"mbarrier_init(t, {code.here}, {address}, {code.value(operands[1], 'u32')});")
    else:
        sign = "-" if what == "complete_tx" else ""
        count = code.value(operands[1], "u32")
        code.line(f"mbarrier_expect(t, {code.here}, {address}, {sign}(s64){count});")


def _arrive(code: Code, m: Modifiers, what: str, relaxed: str) -> None:
    expects = m.flag("expect_tx")
    m.take("noComplete")
    m.done()
    operands = list(code.operands(1, 3))
    to = None if isinstance(operands[0], Address) else operands.pop(0)
    address = code.address(operands[0])
    number = code.value(operands[1], "u32") if len(operands) > 1 else "1u"
    count, size = ("1u", number) if expects else (number, "0")
    drop = "true" if what == "arrive_drop" else "false"
    call = f"mbarrier_arrive(t, {code.here}, {address}, {count}, (s64){size}, {drop}, {relaxed})"
    if to is None or (isinstance(to, Name) and to.text == "_"):
        code.line(f"{call};")
    else:
        code.assign(to, call, bits=64)


def _wait(code: Code, m: Modifiers, what: str, relaxed: str) -> None:
    parity = m.flag("parity")
    m.done()
    operands = code.operands(3, 4)
    state = code.value(operands[2], "u32" if parity else "u64")
    flags = f"{'false' if parity else 'true'}, {'true' if what == 'try_wait' else 'false'}"
    call = (
        f"mbarrier_wait(t, {code.here}, {code.address(operands[1])}, {state}, {flags}, {relaxed})"
    )
    code.assign(operands[0], call, bits=1)
