"""A kernel's arguments: NumPy arrays and numbers to bytes of its parameter block."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rift.errors import WrongUsage
from rift_compiler.emulator.memory import Arena
from rift_compiler.emulator.ptx import Function, Variable
from rift_compiler.emulator.tensor_map import TensorMap
from rift_compiler.emulator.types import TYPES

Array = NDArray[Any]


@dataclass(frozen=True)
class Output:
    """An array that the kernel writes: reading an element of it before that is a finding."""

    array: Array


Argument = Array | Output | TensorMap | bytes | int | float | np.generic | None


def pack(
    entry: Function, places: dict[str, tuple[int, int]], size: int, args: Sequence[Argument],
    arena: Arena,
) -> bytes:  # fmt: skip
    """The parameter block. Arrays get a place in the arena; the same array one place.

    Raises WrongUsage when the number, size or type of an argument is not the parameter's.
    """
    if len(args) != len(entry.params):
        wanted = ", ".join(f".{p.type}" + f"[{p.size_bytes}]" * _is_block(p) for p in entry.params)
        raise WrongUsage(
            f"{entry.name} takes {len(entry.params)} arguments ({wanted}), got {len(args)}"
        )
    block = bytearray(size)
    for number, (param, value) in enumerate(zip(entry.params, args, strict=True)):
        offset, size_bytes = places[param.name]
        try:
            data = _bytes(param, value, arena)
        except (struct.error, OverflowError) as error:
            raise _wrong(number, param, value) from error
        if data is None or len(data) != size_bytes:
            raise _wrong(number, param, value)
        block[offset : offset + size_bytes] = data
    return bytes(block)


def _is_block(param: Variable) -> bool:
    return param.size_bytes * 8 != TYPES[param.type].bits


def _wrong(number: int, param: Variable, value: Argument) -> WrongUsage:
    got = type(value).__name__ + (f" {value}" if isinstance(value, (int, float)) else "")
    if isinstance(value, np.generic):
        got = f"{value.dtype} {value}"
    elif isinstance(value, bytes):
        got = f"{len(value)} bytes"
    return WrongUsage(
        f"argument {number}: the parameter is .{param.type} of {param.size_bytes} bytes, got {got}"
    )


def _bytes(param: Variable, value: Argument, arena: Arena) -> bytes | None:
    """None when the value does not go with the parameter."""
    if value is None:
        return bytes(8)
    if isinstance(value, (np.ndarray, Output)):
        array = value.array if isinstance(value, Output) else value
        return arena.place(array, tracked=isinstance(value, Output)).to_bytes(8, "little")
    if isinstance(value, TensorMap):
        address = arena.place(value.array, tracked=False)
        data = value.encode(address)
        # By value (__grid_constant__), or a pointer to it in global memory.
        return data if param.size_bytes != 8 else arena.hold(data).to_bytes(8, "little")
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.generic):
        return value.tobytes()
    return _number(param, value)


def _number(param: Variable, value: int | float) -> bytes | None:
    """A Python number as the parameter's own type; bits become what the number is."""
    kind = TYPES[param.type].kind
    if _is_block(param):
        return None
    if isinstance(value, float) or kind == "float":
        code = {2: "<e", 4: "<f", 8: "<d"}.get(param.size_bytes)
        if code is None or kind in ("signed", "unsigned") or param.type == "bf16":
            return None
        return struct.pack(code, value)
    return int(value).to_bytes(param.size_bytes, "little", signed=value < 0)
