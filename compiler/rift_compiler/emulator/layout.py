"""Where a kernel's variables lie: global memory's first bytes, shared memory, parameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rift.errors import WrongUsage
from rift_compiler.emulator.ptx import Function, Instruction, Module, Name, Variable

ARENA_BASE = 0x2_0000_0000  # the address of global memory's first byte
SHARED_BASE = 1024  # sm_90 and later keep the first KiB; runtime/base.h says the same
GUARD_BYTES = 1 << 16  # between any two things in global memory, so that overruns are seen
MOST_SHARED_BYTES = 227 * 1024  # the most a block may have on any target (CUDA guide, 17: sm_90)


@dataclass(frozen=True)
class Held:
    """A range of global memory, offsets from ARENA_BASE, with its first content."""

    begin: int
    size_bytes: int
    writable: bool
    content: bytes = b""


@dataclass(frozen=True)
class Layout:
    """Addresses by name. `params` are (offset, size) in the parameter block."""

    globals: dict[str, int]
    shared: dict[tuple[str, str], int]
    params: dict[str, tuple[int, int]]
    static_shared_bytes: int
    params_bytes: int
    image: tuple[Held, ...]
    image_bytes: int


def align(at: int, to: int) -> int:
    return -(-at // to) * to


def reachable(module: Module, entry: Function) -> tuple[Function, ...]:
    """The entry and every function it may call, callees first. Raises WrongUsage on recursion."""
    found: list[Function] = []
    open_: list[str] = []

    def visit(function: Function) -> None:
        if function.name in open_:
            raise WrongUsage(
                f"PTX line {function.line}: {function.name} calls itself, which is not supported"
            )
        if function in found:
            return
        open_.append(function.name)
        for name in _called(module, function):
            visit(module.functions[name])
        open_.pop()
        found.append(function)

    visit(entry)
    return tuple(found)


def _called(module: Module, function: Function) -> Iterable[str]:
    for each in function.body or ():
        if isinstance(each, Instruction) and each.opcode == "call":
            for item in each.operands:
                if isinstance(item, Name) and item.text in module.functions:
                    yield item.text


def lay_out(module: Module, entry: Function, functions: tuple[Function, ...]) -> Layout:
    """Addresses of all variables of a kernel.

    Raises WrongUsage for an initial value that names an unknown variable.
    """
    globals_, image, image_bytes = _globals(module)
    shared, static = _shared(module, functions)
    params, params_bytes = params_of(entry)
    return Layout(globals_, shared, params, static, params_bytes, image, image_bytes)


def params_of(entry: Function) -> tuple[dict[str, tuple[int, int]], int]:
    """(offset, size) of each parameter by name, and the size of all."""
    found: dict[str, tuple[int, int]] = {}
    at = 0
    for param in entry.params:
        at = align(at, param.align_bytes)
        found[param.name] = (at, param.size_bytes)
        at += param.size_bytes
    return found, at


def _globals(module: Module) -> tuple[dict[str, int], tuple[Held, ...], int]:
    addresses: dict[str, int] = {}
    at = GUARD_BYTES
    placed = []
    for v in module.variables:
        if v.space == "shared":
            continue
        at = align(at, max(256, v.align_bytes))
        addresses[v.name] = ARENA_BASE + at
        placed.append((v, at))
        at += v.size_bytes + GUARD_BYTES
    image = tuple(
        Held(begin, v.size_bytes, v.space == "global", _content(v, addresses))
        for v, begin in placed
    )
    return addresses, image, align(at, 256)


def _content(v: Variable, addresses: dict[str, int]) -> bytes:
    data = bytearray(v.initial.ljust(v.size_bytes, b"\0"))
    for offset, name, addend in v.pointers:
        if name not in addresses:
            raise WrongUsage(f"PTX line {v.line}: {v.name} holds the address of unknown {name}")
        data[offset : offset + 8] = (addresses[name] + addend).to_bytes(8, "little")
    return bytes(data)


def _shared(
    module: Module, functions: tuple[Function, ...]
) -> tuple[dict[tuple[str, str], int], int]:
    """Addresses by (function or "", variable); dynamic shared memory comes after all others."""
    held = [("", v) for v in module.variables if v.space == "shared"]
    for f in functions:
        own = [x for x in f.body or () if isinstance(x, Variable) and x.space == "shared"]
        held += [(f.name, v) for v in own]
    at, found = 0, {}
    for owner, v in held:
        if not _dynamic(v):
            at = align(at, v.align_bytes)
            found[owner, v.name] = SHARED_BASE + at
            at += v.size_bytes
    dynamic = [(owner, v) for owner, v in held if _dynamic(v)]
    if dynamic:
        at = align(at, max(16, *(v.align_bytes for _, v in dynamic)))
    for owner, v in dynamic:
        found[owner, v.name] = SHARED_BASE + at
    return found, at


def _dynamic(v: Variable) -> bool:
    return v.size_bytes == 0
