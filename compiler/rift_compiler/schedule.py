"""How a kernel is run: typed choices that nest.py turns into loops. Data only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Part:
    """One loop of an axis that is split, outer to inner: what runs it, and its size.

    size None is as many as it takes; only the outermost part of an axis may have it.
    """

    bind: str
    size: int | None = None

    def __str__(self) -> str:
        return f"{self.bind}{'' if self.size is None else f'({self.size})'}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A kernel's schedule.

    outputs: the parts of each of the kernel's axes; an axis beyond them is one sequential loop.
    threads: lanes of a block that share each fold which no lane runs for itself (0: none do).
    fold_tile: positions of a fold whose operands are staged in shared memory at once (0: none).
    fragments: elements of operands that a lane may hold in registers.
    vector: whether runs of consecutive elements are moved at once.
    """

    outputs: tuple[tuple[Part, ...], ...] = ()
    threads: int = 0
    fold_tile: int = 0
    fragments: int = 0
    vector: bool = False

    def __str__(self) -> str:
        axes = " ".join("*".join(map(str, parts)) or "seq" for parts in self.outputs)
        knobs = [f"outputs[{axes}]"]
        knobs += [f"threads={self.threads}"] if self.threads else []
        knobs += [f"fold_tile={self.fold_tile}"] if self.fold_tile else []
        knobs += [f"fragments={self.fragments}"] if self.fragments else []
        return " ".join([*knobs, *(["vector"] if self.vector else [])])


PLAIN = Schedule()
