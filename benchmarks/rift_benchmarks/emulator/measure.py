"""The emulator's speed on one core."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rift.errors import Failed
from rift_compiler.build_cuda import compile_cuda
from rift_compiler.emulator import Output, Result, launch

TARGET = "sm_80"
TILE, TILE_DEPTH = 128, 32
SHARED_BYTES = 3 * 16384
THREADS = 128


@dataclass(frozen=True)
class Speed:
    """Of one matmul of halves, size x size x depth, on one core.

    Rates are the best of `repeats`, by this process's processor time: another job on the machine
    does not slow them much. build_s is translating PTX to C++ and compiling that, for the first
    time.
    """

    size: int
    depth: int
    repeats: int
    plain_gflops: float
    checked_gflops: float
    exact_gflops: float
    plain_build_s: float
    checked_build_s: float


def measure(size: int, depth: int, repeats: int, show: Callable[[str], None] = print) -> Speed:
    """Runs the matmul plain, checked, and with the target's own rounding.

    size is a multiple of 128, depth of 32. Raises Failed when a result is wrong or anything is
    found.
    """
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, depth)).astype(np.float16) for _ in range(2))
    want = a.astype(np.float64) @ b.astype(np.float64).T
    source = Path(__file__).with_name("matmul.cu").read_text(encoding="utf-8")
    # A kernel that no cache has seen: a number in it that is never equal to an argument.
    source = source.replace("int steps = k / 32;", f"int steps = n == {-_now()} ? 0 : k / 32;")
    ptx = compile_cuda(source, TARGET).ptx

    def run(checks: str, exact: bool) -> Result:
        c = np.zeros((size, size), np.float32)
        grid = (size // TILE, size // TILE)
        result = launch(
            ptx,
            "matmul",
            grid,
            THREADS,
            [a, b, Output(c), size, depth],
            SHARED_BYTES,
            checks,
            exact=exact,
        )
        worst = float(np.abs(c - want).max() / np.abs(want).max())
        if result.findings or worst > 1e-4:
            raise Failed(f"the matmul is wrong: error {worst:.2g}, findings {result.findings}")
        return result

    def best(checks: str, exact: bool = False) -> tuple[float, float]:
        show(f"running {'exact' if exact else 'plain' if checks == 'none' else 'checked'}")
        first = run(checks, exact)
        spent = min(run(checks, exact).cpu_seconds for _ in range(repeats))
        return 2e-9 * size * size * depth / spent, first.build_seconds

    launch(_TINY, "k", 1, 1, [])  # the runtime itself is built once a machine
    plain, checked, exact = best("none"), best("all"), best("none", exact=True)
    return Speed(size, depth, repeats, plain[0], checked[0], exact[0], plain[1], checked[1])


_TINY = ".version 8.0\n.target sm_80\n.address_size 64\n.entry k()\n{\nret;\n}\n"


def _now() -> int:
    return time.time_ns() % 10**9 + 1
