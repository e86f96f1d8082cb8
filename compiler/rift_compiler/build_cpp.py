"""C++ text to a loaded library: g++ or clang++, cached by content, called through ctypes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rift import paths
from rift.errors import Blocked, Failed

FLAGS = (
    "-std=c++17", "-O3", "-march=native", "-fopenmp", "-fPIC", "-shared", "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math", "-w",
)  # fmt: skip


def flags(march: str) -> tuple[str, ...]:
    """FLAGS for another instruction set than this machine's."""
    return tuple(f"-march={march}" if f == "-march=native" else f for f in FLAGS)


@functools.cache
def compiler() -> tuple[str, str]:
    """The C++ compiler's path and version: $CXX, g++ or clang++, whichever is found first."""
    for name in (os.environ.get("CXX"), "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            out = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
            return found, out.stdout.splitlines()[0] if out.stdout else name or ""
    raise Blocked("no C++ compiler: expected g++ or clang++ (or $CXX); try: apt-get install g++")


@functools.cache
def _machine() -> str:
    """What -march=native depends on: the processor's flags."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8", errors="replace") if info.exists() else ""
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return platform.machine() + flags


def build(source: str, flags: Sequence[str] = FLAGS, objects: Sequence[Path] = ()) -> Path:
    """The file made of a C++ source; compiled only when its content is new.

    A shared library, linked with `objects`; or an object file when the flags say `-c`. An
    object's own path is part of the key, and names its content.
    """
    path, version = compiler()
    given = [source, path, version, _machine(), *flags, *map(str, objects)]
    key = hashlib.sha256("\0".join(given).encode())
    suffix = "o" if "-c" in flags else "so"
    target = paths.home() / "cache" / "cpp" / f"{key.hexdigest()}.{suffix}"
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as work:
            os.replace(_compile(source, [path, *flags], objects, Path(work)), target)
    except OSError as error:
        raise Failed(
            f"cannot keep compiled code in {target.parent}: {error.strerror}; "
            "set RIFT_HOME to a folder that can be written to"
        ) from error
    return target


def _compile(source: str, command: Sequence[str], objects: Sequence[Path], work: Path) -> Path:
    text, made = work / "kernels.cpp", work / "kernels.so"
    text.write_text(source, encoding="utf-8")
    run = subprocess.run(
        [*command, "-o", str(made), str(text), *map(str, objects), "-lm"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if run.returncode:
        raise Failed(f"{command[0]} did not compile the generated C++:\n{run.stderr.strip()}")
    return made


@functools.lru_cache(maxsize=256)
def load(library: Path) -> ctypes.CDLL:
    """The library in this process, with the types of its entries declared."""
    loaded = ctypes.CDLL(str(library))
    for entry in (loaded.rift_prepare, loaded.rift_run):
        entry.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int64)]
        entry.restype = ctypes.c_int
    return loaded
