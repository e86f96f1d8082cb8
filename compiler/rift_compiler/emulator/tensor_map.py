"""A tensor map: what a bulk tensor copy needs to know of an array (cuTensorMapEncodeTiled)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from rift.errors import WrongUsage

MAGIC = 0x5249_4654_4D41_5031  # marks the 128 bytes as ours; NVIDIA's own form is not published
_SWIZZLES = (0, 32, 64, 128)


@dataclass(frozen=True)
class TensorMap:
    """An array and the box of it that one copy moves.

    `box` has one size an axis, outermost first, as the array's shape. `swizzle` is 0, 32, 64 or
    128 bytes. `shape` and `strides_bytes` stand for the array's own where given (outermost
    first). Elements outside of the array are read as 0, or NaN with `nan_fill`.
    Rules: CUDA driver API, cuTensorMapEncodeTiled.
    """

    array: NDArray[Any]
    box: tuple[int, ...]
    swizzle: int = 0
    shape: tuple[int, ...] | None = None
    strides_bytes: tuple[int, ...] | None = None
    element_strides: tuple[int, ...] | None = None
    nan_fill: bool = False

    def encode(self, address: int) -> bytes:
        """The 128 bytes a kernel gets. Raises WrongUsage for what a GPU would refuse."""
        shape = tuple(self.shape or self.array.shape)
        strides = tuple(self.strides_bytes or self.array.strides)
        steps = tuple(self.element_strides or (1,) * len(shape))
        element = self.array.dtype.itemsize
        self._check(address, shape, strides, steps, element)
        inner_first = [tuple(reversed(x)) for x in (shape, strides, self.box, steps)]
        pad = [x + (1,) * (5 - len(x)) for x in inner_first]
        header = struct.pack(
            "<QQBBBBI", MAGIC, address, len(shape), element, self.swizzle // 32,
            int(self.nan_fill), 0,
        )  # fmt: skip
        body = struct.pack("<5I", *pad[0]) + struct.pack("<5Q", *(s % 2**64 for s in pad[1]))
        body += struct.pack("<5H", *pad[2]) + struct.pack("<5B", *pad[3])
        return (header + body).ljust(128, b"\0")

    def _check(
        self, address: int, shape: tuple[int, ...], strides: tuple[int, ...],
        steps: tuple[int, ...], element: int,
    ) -> None:  # fmt: skip
        if not 1 <= len(shape) <= 5 or len(shape) != len(self.box) or len(strides) != len(shape):
            raise WrongUsage(
                f"a tensor map has 1 to 5 axes and as many box sizes: got shape {shape}, "
                f"box {self.box}, strides {strides}"
            )
        if self.swizzle not in _SWIZZLES:
            raise WrongUsage(f"swizzle is one of {_SWIZZLES} bytes, got {self.swizzle}")
        if any(not 1 <= b <= 256 for b in self.box) or any(not 1 <= s <= 8 for s in steps):
            raise WrongUsage(f"box sizes are 1 to 256, got {self.box}; element strides 1 to 8")
        inner = self.box[-1] * element
        if inner % 16 or (self.swizzle and inner > self.swizzle):
            raise WrongUsage(
                f"the box's inner side is {inner} bytes: expected a multiple of 16, "
                f"at most the swizzle's {self.swizzle or 'any'}"
            )
        if strides[-1] != element or any(s % 16 or not 0 < s < 2**40 for s in strides[:-1]):
            raise WrongUsage(
                f"strides are multiples of 16 bytes below 2**40, the innermost {element}: "
                f"got {strides}"
            )
        if address % 16 or element not in (1, 2, 4, 8):
            raise WrongUsage(f"elements of {element} bytes at 0x{address:x} make no tensor map")
