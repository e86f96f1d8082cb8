"""Every instruction by opcode, and how it is written as C++."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rift_compiler.emulator.code import Code
from rift_compiler.emulator.emit_async import emit_cp, emit_mbarrier
from rift_compiler.emulator.emit_carry import emit_carry, has_carry
from rift_compiler.emulator.emit_compare import emit_selp, emit_set, emit_setp, emit_slct
from rift_compiler.emulator.emit_control import (
    emit_bar,
    emit_barrier,
    emit_bra,
    emit_brx,
    emit_call,
    emit_exit,
    emit_fence,
    emit_nanosleep,
    emit_nothing,
    emit_ret,
    emit_trap,
)
from rift_compiler.emulator.emit_convert import emit_cvt, emit_cvt_pack
from rift_compiler.emulator.emit_floats import (
    emit_approximate,
    emit_arithmetic,
    emit_copysign,
    emit_minmax,
    emit_sign,
    emit_testp,
    is_float,
)
from rift_compiler.emulator.emit_integers import emit_row, find_row
from rift_compiler.emulator.emit_matrix import (
    emit_ldmatrix,
    emit_mma,
    emit_movmatrix,
    emit_stmatrix,
)
from rift_compiler.emulator.emit_memory import (
    emit_atom,
    emit_createpolicy,
    emit_ld,
    emit_prefetch,
    emit_st,
)
from rift_compiler.emulator.emit_move import (
    emit_cvta,
    emit_getctarank,
    emit_isspacep,
    emit_mapa,
    emit_mov,
)
from rift_compiler.emulator.emit_tensormap import emit_tensormap
from rift_compiler.emulator.emit_warp import (
    emit_activemask,
    emit_elect,
    emit_match,
    emit_redux,
    emit_shfl,
    emit_vote,
)
from rift_compiler.emulator.emit_wgmma import emit_wgmma
from rift_compiler.emulator.names import Register
from rift_compiler.emulator.ptx import (
    Address,
    Group,
    Instruction,
    Name,
    Not,
    Operand,
    Pair,
    Vector,
)

Emit = Callable[[Code], None]

_ANY: dict[str, Emit] = {
    "mov": emit_mov,
    "cvta": emit_cvta,
    "isspacep": emit_isspacep,
    "mapa": emit_mapa,
    "getctarank": emit_getctarank,
    "ld": emit_ld,
    "ldu": emit_ld,
    "st": emit_st,
    "atom": emit_atom,
    "red": emit_atom,
    "prefetch": emit_prefetch,
    "prefetchu": emit_prefetch,
    "applypriority": emit_prefetch,
    "createpolicy": emit_createpolicy,
    "setp": emit_setp,
    "set": emit_set,
    "selp": emit_selp,
    "slct": emit_slct,
    "cvt": lambda code: (emit_cvt_pack if "pack" in code.ins.modifiers else emit_cvt)(code),
    "bra": emit_bra,
    "brx": emit_brx,
    "call": emit_call,
    "ret": emit_ret,
    "exit": emit_exit,
    "trap": emit_trap,
    "brkpt": emit_trap,
    "nanosleep": emit_nanosleep,
    "bar": emit_bar,
    "barrier": emit_barrier,
    "membar": emit_fence,
    "fence": emit_fence,
    "setmaxnreg": emit_nothing,
    "griddepcontrol": emit_nothing,
    "pmevent": emit_nothing,
    "shfl": emit_shfl,
    "vote": emit_vote,
    "activemask": emit_activemask,
    "match": emit_match,
    "redux": emit_redux,
    "elect": emit_elect,
    "copysign": emit_copysign,
    "testp": emit_testp,
    "ex2": emit_approximate,
    "lg2": emit_approximate,
    "rcp": emit_approximate,
    "rsqrt": emit_approximate,
    "sin": emit_approximate,
    "cos": emit_approximate,
    "tanh": emit_approximate,
    "fma": emit_arithmetic,
    "cp": emit_cp,
    "mbarrier": emit_mbarrier,
    "mma": emit_mma,
    "wgmma": emit_wgmma,
    "tensormap": emit_tensormap,
    "ldmatrix": emit_ldmatrix,
    "stmatrix": emit_stmatrix,
    "movmatrix": emit_movmatrix,
}
_FLOATING: dict[str, Emit] = {
    "add": emit_arithmetic,
    "sub": emit_arithmetic,
    "mul": emit_arithmetic,
    "mad": emit_arithmetic,
    "div": emit_arithmetic,
    "sqrt": emit_approximate,
    "neg": emit_sign,
    "abs": emit_sign,
    "min": emit_minmax,
    "max": emit_minmax,
}


_BATCHED = ("mma", "ldmatrix")
# What only moves bits between registers: it may go before matrix instructions that wait.
_PURE = ("mov", "cvt", "add", "sub", "shl", "shr", "and", "or", "xor", "selp", "setp", "bfe",
         "lop3", "mul", "mad")  # fmt: skip


def batched(ins: Instruction) -> bool:
    """Whether the instruction may wait for others of its kind."""
    return ins.opcode in _BATCHED


def may_pass(code: Code) -> bool:
    """Whether the instruction can be done before those that wait: it touches none of theirs."""
    batch = code.batch
    if batch is None or code.ins.opcode not in _PURE or "cc" in code.ins.modifiers:
        return False
    touched = set(registers(code, code.ins.operands))
    return not touched & (batch.reads | batch.writes)


def registers(code: Code, operands: Iterable[Operand]) -> Iterator[str]:
    """The C++ names of all registers among operands."""
    for each in operands:
        if isinstance(each, Name):
            found = code.scope.find(each.text)
            if isinstance(found, Register):
                yield found.c
        elif isinstance(each, (Vector, Group)):
            yield from registers(code, each.items)
        elif isinstance(each, Pair):
            yield from registers(code, (each.first, each.second))
        elif isinstance(each, Not):
            yield from registers(code, (each.name,))
        elif isinstance(each, Address):
            yield from registers(code, (each.base,))


def _check_accumulators(code: Code) -> None:
    """A result of wgmma may be copied, and added to by another, but not used before it is there."""
    if not code.accumulators or code.ins.opcode in ("mov", "wgmma"):
        return
    for name in sorted(code.accumulators & set(registers(code, code.ins.operands))):
        code.line(f"if (CHECKED && {name} >> 20 == 0xffau) token_used(t, {code.here});")


def emit(code: Code) -> None:
    """Writes the C++ of the instruction at hand; raises WrongUsage when it is not known."""
    opcode = code.ins.opcode
    _check_accumulators(code)
    if has_carry(code):
        return emit_carry(code)
    row = find_row(code)
    if row is not None:
        return emit_row(code, *row)
    if opcode in _FLOATING and is_float(code):
        return _FLOATING[opcode](code)
    if opcode in _ANY:
        return _ANY[opcode](code)
    known = opcode in _FLOATING or find_opcode(opcode)
    raise code.error("these modifiers are not supported" if known else "unknown instruction")


def find_opcode(opcode: str) -> bool:
    from rift_compiler.emulator.emit_integers import TABLE

    return any(key.partition(".")[0] == opcode for key in TABLE)
