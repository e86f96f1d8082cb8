"""Arguments as the command line writes them: `in:A.npy`, `i32:5`, `tensormap:..`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rift.errors import WrongUsage
from rift_compiler.emulator.arguments import Argument, Output
from rift_compiler.emulator.tensor_map import TensorMap

_NUMBERS = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "f32": np.float32,
    "f64": np.float64,
}  # fmt: skip


class Arrays:
    """The arrays of one launch by file name, so that a file named twice is one array."""

    def __init__(self) -> None:
        self._held: dict[str, NDArray[Any]] = {}
        self._written: set[str] = set()

    def argument(self, text: str) -> Argument:
        """One --arg. Raises WrongUsage when it cannot be read."""
        kind, _, rest = text.partition(":")
        if text == "null":
            return None
        if kind in _NUMBERS:
            number: np.generic = self._number(kind, rest)
            return number
        if kind in ("in", "inout"):
            return self._file(kind, rest)
        if kind == "out":
            return self._output(text, rest)
        if kind == "tensormap":
            return self._tensor_map(text, rest)
        raise WrongUsage(
            f"--arg {text}: expected in:, inout:, out:, tensormap:, null or one of "
            f"{', '.join(_NUMBERS)}"
        )

    def _number(self, kind: str, text: str) -> Any:
        try:
            value = float(text) if kind[0] == "f" else int(text, 0)
            return np.array(value, _NUMBERS[kind])[()]
        except (ValueError, OverflowError) as error:
            raise WrongUsage(f"--arg {kind}:{text}: no number of this type") from error

    def _file(self, kind: str, name: str) -> NDArray[Any]:
        if name not in self._held:
            try:
                array = np.ascontiguousarray(np.load(name, allow_pickle=False))
            except (OSError, ValueError) as error:
                raise WrongUsage(f"--arg {kind}:{name}: cannot read it: {error}") from error
            array.flags.writeable = kind == "inout"
            self._held[name] = array
        if kind == "inout":
            self._written.add(name)
        return self._held[name]

    def _output(self, text: str, rest: str) -> Output:
        name, _, described = rest.partition(":")
        if name in self._held:
            return Output(self._held[name])
        type_, _, shape = described.partition(":")
        try:
            array = np.zeros(tuple(int(n) for n in shape.split(",")), np.dtype(type_))
        except (TypeError, ValueError) as error:
            raise WrongUsage(f"--arg {text}: expected out:C.npy:float32:512,512") from error
        self._held[name] = array
        self._written.add(name)
        return Output(array)

    def _tensor_map(self, text: str, rest: str) -> TensorMap:
        parts = rest.split(":")
        options = dict(p.split("=", 1) for p in parts if "=" in p)
        array = self.argument(":".join(p for p in parts if "=" not in p))
        if isinstance(array, Output):
            array = array.array
        unknown = set(options) - {"box", "swizzle"}
        if not isinstance(array, np.ndarray) or "box" not in options or unknown:
            raise WrongUsage(f"--arg {text}: expected tensormap:in:A.npy:box=64,64:swizzle=128")
        try:
            box = tuple(int(n) for n in options["box"].split(","))
            return TensorMap(array, box, int(options.get("swizzle", "0")))
        except ValueError as error:
            raise WrongUsage(f"--arg {text}: box and swizzle are whole numbers") from error

    def save(self) -> None:
        """Writes the files that the kernel may have written."""
        for name in sorted(self._written):
            with Path(name).open("wb") as file:
                np.save(file, self._held[name])
