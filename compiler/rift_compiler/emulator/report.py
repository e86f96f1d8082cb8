"""The runtime's findings and counts, with the lines they belong to."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from rift_compiler.emulator.findings import KINDS, Counts, Finding, LineCount
from rift_compiler.emulator.ptx import Instruction, Module, printable

Sources = Mapping[int, tuple[int, int] | None]


class _Finding(ctypes.Structure):
    """struct Finding of runtime/machine.h."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("line", ctypes.c_uint32),
        ("other", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("text", ctypes.c_char * 512),
    )


def findings_of(library: ctypes.CDLL, module: Module, sources: Sources) -> tuple[Finding, ...]:
    """The findings of the library's last launch."""
    held = ctypes.POINTER(_Finding)()
    count = library.rift_findings(ctypes.byref(held))
    return tuple(_finding(held[i], module, sources) for i in range(count))


def _finding(raw: _Finding, module: Module, sources: Sources) -> Finding:
    return Finding(
        kind=KINDS[raw.kind][0],
        line=raw.line,
        message=raw.text.decode(errors="replace"),
        text=module.excerpt(raw.line),
        source=_place(module, sources.get(raw.line)),
        other_line=raw.other or None,
        other_source=_place(module, sources.get(raw.other)),
        count=raw.count,
    )


def _place(module: Module, source: tuple[int, int] | None) -> str | None:
    if source is None or source[0] not in module.files or source[1] == 0:
        return None
    return f"{printable(module.files[source[0]])}:{source[1]}"


def counts_of(
    module: Module, sources: Sources, blocks: Sequence[tuple[Instruction, ...]],
    counts: NDArray[Any], line_counts: NDArray[Any],
) -> Counts:  # fmt: skip
    """How often each class of instruction ran, and what each line did to memory."""
    executed: Counter[str] = Counter()
    for block, times in zip(blocks, counts.tolist(), strict=False):
        for ins in block if times else ():
            executed[_class(ins)] += times
    lines = tuple(
        LineCount(line, _place(module, sources.get(line)), module.excerpt(line), *map(int, row))
        for line, row in enumerate(line_counts.tolist())
        if row[0]
    )
    return Counts(dict(executed), lines)


def _class(ins: Instruction) -> str:
    """The opcode, with the state space of a memory access."""
    spaces = [m for m in ins.modifiers if m.partition("::")[0] in ("global", "shared", "local")]
    return ".".join(
        [ins.opcode, *(spaces[:1] if ins.opcode in ("ld", "st", "atom", "red") else ())]
    )
