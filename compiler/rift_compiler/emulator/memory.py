"""Global memory of a launch: one arena with guards between the things in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rift.errors import Blocked, WrongUsage
from rift_compiler.emulator.layout import ARENA_BASE, GUARD_BYTES, Held, align

GRANULE_BYTES = 256  # as runtime/base.h: a granule belongs to one thing
_REGION = np.dtype([("begin", "<u8"), ("end", "<u8"), ("writable", "<u4"), ("tracked", "<u4")])


@dataclass(frozen=True)
class _Placed:
    array: NDArray[Any]
    held: Held
    tracked: bool


class Arena:
    """Collects what global memory holds, then makes it; afterwards arrays are read back."""

    def __init__(self, image: tuple[Held, ...], image_bytes: int) -> None:
        self._fixed = list(image)
        self._at = max(image_bytes, GUARD_BYTES)
        self._placed: list[_Placed] = []

    def place(self, array: NDArray[Any], tracked: bool) -> int:
        """The address of an array. Raises WrongUsage when its elements are not contiguous."""
        for each in self._placed:
            if each.array is array:
                return ARENA_BASE + each.held.begin
        if not array.flags.c_contiguous:
            raise WrongUsage(f"an array of shape {array.shape} is not contiguous: copy it first")
        held = self._take(array.nbytes, array.flags.writeable)
        self._placed.append(_Placed(array, held, tracked))
        return ARENA_BASE + held.begin

    def hold(self, data: bytes, writable: bool = False) -> int:
        """The address of bytes of the launch's own."""
        held = self._take(len(data), writable)
        self._fixed.append(Held(held.begin, held.size_bytes, writable, data))
        return ARENA_BASE + held.begin

    def _take(self, size_bytes: int, writable: bool) -> Held:
        begin = self._at
        self._at = align(begin + size_bytes + GUARD_BYTES, GRANULE_BYTES)
        return Held(begin, size_bytes, writable)

    def make(self) -> None:
        """Allocates and fills. Raises Blocked when this machine has too little memory."""
        total = align(self._at, GRANULE_BYTES)
        try:
            self.bytes = np.zeros(total, np.uint8)
            self.written = np.zeros(total, np.uint8)
            self.granules = np.zeros(total // GRANULE_BYTES, np.uint16)
        except MemoryError as error:
            raise Blocked(f"the kernel's arrays need {total} bytes of memory, twice") from error
        everything = [(h, False) for h in self._fixed]
        everything += [(p.held, p.tracked) for p in self._placed]
        if len(everything) >= 1 << 16:
            raise WrongUsage(f"{len(everything)} arrays and variables are too many")
        self.regions = np.zeros(len(everything) + 1, _REGION)
        for number, (held, tracked) in enumerate(everything, 1):
            end = held.begin + held.size_bytes
            self.regions[number] = (held.begin, end, held.writable, tracked)
            last = align(end, GRANULE_BYTES) // GRANULE_BYTES
            self.granules[held.begin // GRANULE_BYTES : last] = number
        for h in self._fixed:
            self.bytes[h.begin : h.begin + len(h.content)] = np.frombuffer(h.content, np.uint8)
        for p in self._placed:
            self._slice(p)[:] = p.array.reshape(-1).view(np.uint8)

    def _slice(self, p: _Placed) -> NDArray[np.uint8]:
        return self.bytes[p.held.begin : p.held.begin + p.held.size_bytes]

    def read_back(self) -> None:
        """Arrays that may be written get what the kernel left."""
        for p in self._placed:
            if p.held.writable:
                p.array.reshape(-1).view(np.uint8)[:] = self._slice(p)
