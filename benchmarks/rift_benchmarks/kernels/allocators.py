"""Allocators to measure under: each is an environment of a process, set before it starts.

The C library's default gives large results back to the system after every call, and the next
call pays a page fault for each 4 KB of its result. Both ways of life are real: users run the
default, servers preload tcmalloc or keep memory.
"""

from __future__ import annotations

import ctypes.util
import os
from collections.abc import Mapping

from rift.errors import Blocked, WrongUsage

ALLOCATORS = ("default", "kept", "tcmalloc")
USUAL = ("default", "kept")
# mallopt(3): no mmap for large blocks, and nothing given back to the system.
_KEPT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


def parse(text: str) -> tuple[str, ...]:
    """default,kept as names. Raises WrongUsage for an unknown one."""
    names = tuple(dict.fromkeys(text.split(",")))
    unknown = [n for n in names if n not in ALLOCATORS]
    if unknown:
        raise WrongUsage(
            f"--allocators: no {', '.join(map(repr, unknown))}: "
            f"expected some of {','.join(ALLOCATORS)}"
        )
    return names


def environment(name: str, outside: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a process with this allocator. Raises Blocked where it is not there."""
    given = os.environ if outside is None else outside
    clean = {k: v for k, v in given.items() if not _touches_malloc(k)}
    if name == "kept":
        return clean | _KEPT
    if name == "tcmalloc":
        found = ctypes.util.find_library("tcmalloc_minimal")
        if found is None:
            raise Blocked("no tcmalloc here; try: apt-get install libtcmalloc-minimal4")
        return clean | {"LD_PRELOAD": found}
    return clean


def _touches_malloc(name: str) -> bool:
    return name.startswith("MALLOC_") or name in ("GLIBC_TUNABLES", "LD_PRELOAD")
