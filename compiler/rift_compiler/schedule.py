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
    fold_tile: positions of a fold that are taken together (0: all).
    block: positions taken together by folds that follow one another (0: each alone).
    shared: bytes of one operand of a fold's tile that may be staged in shared memory.
    clamp: whether what is read beyond an output's end is its last element (else 0): not used.
    fragments: elements of operands that a lane may hold in registers.
    vector: whether runs of consecutive elements are moved at once.
    """

    outputs: tuple[tuple[Part, ...], ...] = ()
    threads: int = 0
    fold_tile: int = 0
    block: int = 0
    shared: int = 0
    clamp: bool = False
    fragments: int = 0
    vector: bool = False

    def __str__(self) -> str:
        axes = " ".join("*".join(map(str, parts)) or "seq" for parts in self.outputs)
        knobs = [f"outputs[{axes}]"]
        knobs += [f"threads={self.threads}"] if self.threads else []
        knobs += [f"fold_tile={self.fold_tile}"] if self.fold_tile else []
        knobs += [f"block={self.block}"] if self.block else []
        knobs += [f"shared={self.shared}"] if self.shared else []
        knobs += [f"fragments={self.fragments}"] if self.fragments else []
        knobs += [name for name in ("clamp", "vector") if getattr(self, name)]
        return " ".join(knobs)


PLAIN = Schedule()
