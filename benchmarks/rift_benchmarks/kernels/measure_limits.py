"""Measures the machine's limits, now and here: the C++ beside this file, on given threads."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from rift_benchmarks.kernels.limits import PATTERNS, RAM_BYTES, Limits, sizes
from rift_compiler import build_cpp

FLAGS = (*build_cpp.FLAGS, "-ffp-contract=fast")
TYPES = ("f32", "f64", "bf16", "f16")
SAMPLE_S = 0.02  # of one sample; the best of SAMPLES counts: a limit is what is possible
SAMPLES = 5


def measure(threads: int, known: Mapping[str, int], ram_bytes: int = RAM_BYTES) -> Limits:
    """Measure this machine now, on this many threads."""
    code = (Path(__file__).parent / "limits.cpp").read_text(encoding="utf-8")
    library = ctypes.CDLL(os.fspath(build_cpp.build(code, FLAGS)))
    for name in (*(f"fma_{t}" for t in TYPES), *(f"memory_{p}" for p in PATTERNS)):
        getattr(library, name).restype = ctypes.c_double
    gflops = {t: _peak(getattr(library, f"fma_{t}"), threads) for t in TYPES}
    taken = sizes(known, threads, ram_bytes)
    rates = {level: _rates(library, n, threads) for level, n in taken.items()}
    return Limits(threads, {t: v for t, v in gflops.items() if v}, rates, taken)


def _peak(run: Any, threads: int) -> float:
    sink = ctypes.c_double()
    return _best_rate(lambda n: float(run(ctypes.c_int64(n * 10_000), threads, ctypes.byref(sink))))


def _rates(library: Any, total_bytes: int, threads: int) -> dict[str, float]:
    """Each pattern's rate over arrays of total_bytes in all; the better of two kinds of stores."""
    arrays = {"read": 1, "write": 1, "copy": 2, "triad": 3}
    memory = torch.zeros(total_bytes // 4 + 64)
    start = -(-memory.data_ptr() // 64) * 64
    found: dict[str, float] = {}
    sink = ctypes.c_double()
    for pattern, number in arrays.items():
        count = total_bytes // 4 // number // (128 * threads) * 128 * threads
        places = [ctypes.c_void_p(start + 4 * count * n) for n in range(number)]
        run = getattr(library, f"memory_{pattern}")
        given = (*places, ctypes.c_int64(count))
        ends = [ctypes.byref(sink)] if pattern == "read" else [0, 1]
        found[pattern] = max(_best_rate(_passes(run, given, threads, end)) for end in ends)
    return found


def _passes(run: Any, given: tuple[Any, ...], threads: int, end: Any) -> Callable[[int], float]:
    return lambda passes: float(run(*given, passes, threads, end))


def _best_rate(run: Callable[[int], float]) -> float:
    """1e9 units a second, the best of some samples; run(n) does n repetitions, and says of what."""
    repeat = 1
    while True:
        units, seconds = _timed(run, repeat)
        if units == 0:
            return 0.0
        if seconds >= SAMPLE_S or repeat >= 1 << 20:
            break
        repeat = max(2 * repeat, min(100 * repeat, int(repeat * SAMPLE_S / max(seconds, 1e-9))))
    rates = [units / seconds]
    for _ in range(SAMPLES - 1):
        units, seconds = _timed(run, repeat)
        rates.append(units / seconds)
    return max(rates) / 1e9


def _timed(run: Callable[[int], float], repeat: int) -> tuple[float, float]:
    before = time.perf_counter()
    units = run(repeat)
    return units, time.perf_counter() - before
