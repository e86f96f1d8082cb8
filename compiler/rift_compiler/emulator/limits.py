"""What a launch may ask for (CUDA Programming Guide, Compute Capabilities)."""

from __future__ import annotations

from rift.errors import WrongUsage
from rift_compiler.emulator.ptx import Function, Module

MOST_GRID = (2**31 - 1, 65535, 65535)
MOST_BLOCK = (1024, 1024, 64)
MOST_THREADS = 1024
# Shared memory that one block may have, by compute capability (opt-in limit).
SHARED_BYTES = {80: 163, 86: 99, 87: 163, 88: 99, 89: 99, 90: 227, 100: 227, 103: 227, 110: 227,
                120: 99, 121: 99}  # KiB  # fmt: skip


def shared_limit_bytes(target: str) -> int:
    """The most shared memory of a block; of an unknown target the most of any."""
    digits = "".join(c for c in target if c.isdigit())
    return SHARED_BYTES.get(int(digits or 0), 227) * 1024


def check_launch(
    module: Module, entry: Function, grid: tuple[int, ...], block: tuple[int, ...],
    static_bytes: int, dynamic_bytes: int, seed: int,
) -> None:  # fmt: skip
    """Raises WrongUsage for a launch that a GPU would refuse."""
    for what, given, most in (("grid", grid, MOST_GRID), ("block", block, MOST_BLOCK)):
        if any(n > limit for n, limit in zip(given, most, strict=True)):
            raise WrongUsage(f"{what}: expected at most {most}, got {given}")
    threads = block[0] * block[1] * block[2]
    limit = min(MOST_THREADS, entry.max_threads or MOST_THREADS)
    if threads > limit:
        raise WrongUsage(f"block: {threads} threads, but {entry.name} may have {limit}")
    shared = shared_limit_bytes(module.target)
    if dynamic_bytes < 0 or static_bytes + dynamic_bytes > shared:
        raise WrongUsage(
            f"shared memory: {static_bytes} bytes of the kernel's own and {dynamic_bytes} dynamic, "
            f"but a block of {module.target} may have {shared}"
        )
    if not 0 <= seed < 2**32:
        raise WrongUsage(f"seed: expected 0 to 2**32 - 1, got {seed}")
