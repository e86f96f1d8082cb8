"""What a measurement of generated code depends on besides the problem: compiler, torch, machine."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

import torch

from rift import machine
from rift.errors import Blocked
from rift_compiler import build_cpp

_NO_CODE = ("differential", "emulator")  # parts that generate nothing that runs


@functools.cache
def compiler_version() -> str:
    """A hash of the compiler's own files and of the C++ compiler with its flags."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(p for p in root.rglob("*") if p.suffix in (".py", ".h")):
        if path.relative_to(root).parts[0] not in _NO_CODE:
            digest.update(f"{path.relative_to(root)}\0".encode())
            digest.update(path.read_bytes())
    try:
        cxx = " ".join(build_cpp.compiler())
    except Blocked:
        cxx = "none"
    digest.update("\0".join([cxx, *build_cpp.FLAGS]).encode())
    return digest.hexdigest()[:16]


@functools.cache
def device() -> str:
    """The processor's model, and its widest vectors: a hypervisor may hide either."""
    cpu = machine.cpu()
    wide = [f for f in ("avx512_fp16", "avx512_bf16", "avx512f", "avx2") if f in cpu.flags]
    return f"{cpu.model} ({wide[0] if wide else cpu.architecture})"


@functools.cache
def stock_version() -> str:
    """The framework that ours is measured against."""
    return f"torch {torch.__version__}"


def allocator() -> str:
    """What gives memory to this process: page faults of large results depend on it.

    default: as the C library comes. kept: glibc, told not to give memory back to the system
    (mallopt(3): MALLOC_MMAP_MAX_ and MALLOC_TRIM_THRESHOLD_). Or the name of a preloaded one.
    """
    for name in ("tcmalloc", "jemalloc", "mimalloc"):
        if name in os.environ.get("LD_PRELOAD", ""):
            return name
    if os.environ.get("MALLOC_MMAP_MAX_") == "0" and "MALLOC_TRIM_THRESHOLD_" in os.environ:
        return "kept"
    changed = any(k.startswith("MALLOC_") or k == "GLIBC_TUNABLES" for k in os.environ)
    return "changed" if changed else "default"
