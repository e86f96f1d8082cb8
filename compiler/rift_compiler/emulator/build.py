"""The runtime and a kernel's C++ as one library, through the cache of compiled C++."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

from rift.errors import Blocked
from rift_compiler import build_cpp

_RUNTIME = Path(__file__).parent / "runtime"
# What a kernel's own source begins with.
_HEADERS = ("base.h", "memory.h", "arithmetic.h", "floats.h", "convert.h", "calls.h")
# The runtime is one source, in this order.
_RUNTIME_FILES = (
    *_HEADERS, "machine.h", "fibres.cpp", "findings.cpp", "clocks.cpp", "shadow.cpp",
    "global_shadow.cpp", "counters.cpp", "meetings.cpp", "warps.cpp", "products.cpp",
    "matrices.cpp", "barriers.cpp", "mbarriers.cpp", "copies.cpp", "tensor_maps.cpp",
    "reductions.cpp", "bulk.cpp", "wgmma.cpp", "launch.cpp",
)  # fmt: skip
_ROUNDING_FILES = ("base.h", "floats.h", "rounding.cpp")

_COMMON = (
    "-std=c++17", "-march=native", "-fPIC", "-w", "-fwrapv", "-ffp-contract=off",
    "-fno-strict-aliasing", "-fno-math-errno", "-fvisibility=hidden",
)  # fmt: skip
# Switching stacks pushes below the stack pointer: no red zone.
_OBJECT = (*_COMMON, "-O2", "-c", "-mno-red-zone", "-fno-exceptions", "-fno-rtti")
_KERNEL = (
    *_COMMON, "-O1", "-shared", "-fno-exceptions", "-fno-rtti", "-fno-asynchronous-unwind-tables",
)  # fmt: skip


def build_kernel(source: str, checked: bool) -> Path:
    """The library of a translated kernel. Raises Blocked where no x86-64 C++ can be run."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise Blocked(f"the emulator needs an x86-64 processor, this is {platform.machine()}")
    text = f"#define CHECKED {int(checked)}\n{_text(_HEADERS)}\n{source}"
    return build_cpp.build(text, _KERNEL, _objects())


@functools.cache
def _objects() -> tuple[Path, ...]:
    runtime = build_cpp.build(_text(_RUNTIME_FILES), _OBJECT)
    rounding = build_cpp.build(_text(_ROUNDING_FILES), (*_OBJECT, "-frounding-math"))
    return runtime, rounding


def _text(names: tuple[str, ...]) -> str:
    return "\n".join((_RUNTIME / name).read_text(encoding="utf-8") for name in names)
