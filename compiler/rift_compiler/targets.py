"""What kernels are compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from rift import machine
from rift.errors import WrongUsage


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vector registers of a processor: bytes of one, and how many there are.

    x86-64-v4 (AVX-512), v3 (AVX2) and the baseline (SSE2): System V ABI, AMD64 supplement, table
    3.1; Arm's Advanced SIMD: Arm Architecture Reference Manual, section B1.2.
    """

    bytes: int
    registers: int

    @property
    def floats(self) -> int:
        """Float32 lanes of one register."""
        return self.bytes // 4


AVX512, AVX2, SSE, NEON = Vectors(64, 32), Vectors(32, 16), Vectors(16, 16), Vectors(16, 32)


@dataclass(frozen=True, slots=True)
class Target:
    """One target; gpus are examples of what it runs on (NVIDIA, CUDA GPU compute capability).

    lanes: threads that keep the first of gpus busy: BUSY of those it can hold, which are its
    multiprocessors x threads a multiprocessor (NVIDIA's architecture white papers of the A100,
    RTX 4090, H100 SXM and RTX 5090; CUDA programming guide, technical specifications).
    vectors: of a processor; march: the level that g++ and clang know it by. launch_bytes: what its
    memory moves in the LAUNCH_US that one more kernel takes (bandwidths: the data sheets of the
    A100 80 GB, RTX 4090, H100 SXM, RTX 5090).
    """

    name: str
    cuda: bool
    gpus: str = ""
    lanes: int = 1
    launch_bytes: int = 0
    vectors: Vectors = AVX2
    march: str = "native"


# Of the threads a multiprocessor can hold: with four 4-byte loads each in flight, a quarter of them
# cover the latency of an H100's memory (3.35 TB/s x 0.6 us = 2 MB). A prediction, not measured.
BUSY = 0.25

LAUNCH_US = 2  # from one kernel's end to the next one's start; an estimate, not measured


def _own() -> Vectors:
    """This machine's."""
    cpu = machine.cpu()
    if cpu.architecture not in ("x86_64", "AMD64"):
        return NEON
    if cpu.flags >= {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}:
        return AVX512
    return AVX2 if "avx2" in cpu.flags else SSE


TARGETS = {
    t.name: t
    for t in (
        Target("cpu", cuda=False, vectors=_own()),
        Target("x86-64-v4", cuda=False, vectors=AVX512, march="x86-64-v4"),
        Target("x86-64-v3", cuda=False, vectors=AVX2, march="x86-64-v3"),
        Target("x86-64", cuda=False, vectors=SSE, march="x86-64"),
        Target("sm_80", True, "A100", int(BUSY * 108 * 2_048), 2039_000 * LAUNCH_US),
        Target("sm_89", True, "RTX 4090, L40S", int(BUSY * 128 * 1_536), 1008_000 * LAUNCH_US),
        Target("sm_90a", True, "H100, H200", int(BUSY * 132 * 2_048), 3350_000 * LAUNCH_US),
        Target(
            "sm_120a", True, "RTX 5090, RTX PRO 6000", int(BUSY * 170 * 1_536), 1792_000 * LAUNCH_US
        ),
    )
}


def target(name: str) -> Target:
    """The target of this name. Raises WrongUsage with the names there are."""
    if name not in TARGETS:
        known = ", ".join(f"{t.name} ({t.gpus})" if t.gpus else t.name for t in TARGETS.values())
        raise WrongUsage(f"no target is called {name!r}; there are: {known}")
    return TARGETS[name]
