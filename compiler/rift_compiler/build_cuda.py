"""CUDA C++ text to PTX and machine code, on a machine that needs neither a GPU nor a driver.

Two compilers: NVRTC (the default; a library from pip, in this process) and nvcc (needs a CUDA
toolkit and a host compiler). What was compiled once is kept under $RIFT_HOME/cache/cuda.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rift import paths
from rift.errors import Failed, WrongUsage
from rift_compiler.targets import TARGETS

ARCHITECTURES = tuple(t.name for t in TARGETS.values() if t.cuda)
# Each compiler's options besides the target. A real architecture gives NVRTC's PTX and cubin in one
# compilation; --keep leaves nvcc's PTX beside the cubin.
OPTIONS = {
    "nvrtc": ("--std=c++17", "--generate-line-info", "--ptxas-options=-v"),
    "nvcc": ("--std=c++17", "-lineinfo", "--ptxas-options=-v", "-cubin", "--keep", "--keep-dir=."),
}

_INSTALL = "pip install 'rift-toolkit[compiler]'"
_SOURCE_NAME = "kernel.cu"
_CACHE_FORMAT = 1  # raise it when the shape of a cache entry changes
_CONTEXT_LINES = 2

# One kernel's lines of `ptxas -v`: the entry, its own properties, what it uses. Non-inlined device
# functions have properties too, after their kernel's.
_ENTRY = re.compile(
    r"Compiling entry function '(?P<kernel>[^']+)'"
    r".*?Function properties for (?P=kernel)\n\D*(?P<stack>\d+) bytes stack frame, "
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
    r".*?Used (?P<registers>\d+) registers(?P<used>[^\n]*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Resources:
    """What one kernel takes, as `ptxas -v` says it.

    `kernel` is the linker's name. `registers` are per thread. `shared_bytes` is the static part,
    without the 1 KiB per block that sm_90 and later reserve. Spills and stack are the kernel's
    own, without those of functions that were not inlined. `constant_bytes` is None where ptxas
    does not say it (sm_90 and later).
    """

    kernel: str
    registers: int
    spill_stores_bytes: int
    spill_loads_bytes: int
    stack_bytes: int
    shared_bytes: int
    constant_bytes: int | None


@dataclass(frozen=True)
class CudaBinary:
    """One source compiled for one target.

    `compiler` is its name and version; `seconds` is what the compilation took, also when this
    came from the cache.
    """

    target: str
    ptx: str
    cubin: bytes
    resources: tuple[Resources, ...]
    compiler: str
    seconds: float
    cached: bool


def compile_cuda(source: str, target: str, *, compiler: str = "nvrtc") -> CudaBinary:
    """`source` compiled for `target`, from the cache when this very text was compiled before.

    The source is one file without includes. NVRTC reports no patch level, so a patch of the same
    minor version reads the other's cache entries.

    Raises WrongUsage for an unknown target or compiler, Failed when the compiler is not there,
    rejects the source (its log, with the lines of source), or the source holds no kernel.
    """
    _require("target", target, ARCHITECTURES)
    _require("compiler", compiler, OPTIONS)
    options = (*OPTIONS[compiler], f"-arch={target}")
    version = _nvrtc_version() if compiler == "nvrtc" else _nvcc_version(_tool("nvcc"))
    path = _cache_path(source, target, version, options)
    found = _load(path)
    if found is not None:
        return found
    started = time.perf_counter()
    run = _run_nvrtc if compiler == "nvrtc" else _run_nvcc
    log, ptx, cubin = run(source, options)
    seconds = time.perf_counter() - started
    if not cubin:
        raise Failed(f"{version} rejects this source for {target}:\n{_explain(source, log)}")
    resources = parse_resources(log)
    if not resources:
        raise Failed(f"{version} found no __global__ function in the source for {target}")
    binary = CudaBinary(target, ptx, cubin, resources, version, seconds, cached=False)
    _store(path, binary)
    return binary


def sass(cubin: bytes) -> str:
    """The machine instructions of a cubin, as nvdisasm prints them.

    Raises Failed when there is no nvdisasm, or when it cannot read this cubin.
    """
    tool = _tool("nvdisasm")
    with tempfile.TemporaryDirectory(prefix="rift-") as scratch:
        file = Path(scratch, "kernel.cubin")
        file.write_bytes(cubin)
        done = subprocess.run([tool, "--print-code", str(file)], capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{tool} cannot read the cubin: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def parse_resources(log: str) -> tuple[Resources, ...]:
    """One entry for each kernel in the text of `ptxas -v`, in its order.

    Raises Failed when the text names a kernel whose figures cannot be read.
    """
    found = tuple(_resources(match) for match in _ENTRY.finditer(log))
    if len(found) != log.count("Compiling entry function"):
        raise Failed(f"cannot read the figures of every kernel in what ptxas says:\n{log}")
    return found


def _resources(match: re.Match[str]) -> Resources:
    shared = re.search(r"(\d+) bytes smem", match["used"])
    constant = re.findall(r"(\d+) bytes cmem\[\d+\]", match["used"])
    return Resources(
        kernel=match["kernel"],
        registers=int(match["registers"]),
        spill_stores_bytes=int(match["stores"]),
        spill_loads_bytes=int(match["loads"]),
        stack_bytes=int(match["stack"]),
        shared_bytes=int(shared[1]) if shared else 0,
        constant_bytes=sum(map(int, constant)) if constant else None,
    )


def _require(what: str, given: str, accepted: Iterable[str]) -> None:
    if given not in accepted:
        raise WrongUsage(f"unknown {what} {given!r}; expected one of {', '.join(accepted)}")


def _explain(source: str, log: str) -> str:
    """The compiler's log, then the source around the first error that names a line."""
    error = re.search(rf"{re.escape(_SOURCE_NAME)}\((\d+)\): [a-z ]*error", log)
    if error is None:
        return log
    lines, at = source.splitlines(), int(error[1])
    shown = range(max(1, at - _CONTEXT_LINES), min(len(lines), at + _CONTEXT_LINES) + 1)
    text = "\n".join(f"{'>' if n == at else ' '}{n:5} | {lines[n - 1]}" for n in shown)
    return f"{log}\n{text}"


def _tool(name: str) -> str:
    """The path of a CUDA program: from a pip wheel, else $PATH, else /usr/local/cuda/bin."""
    spec = importlib.util.find_spec("nvidia")
    wheels = (spec.submodule_search_locations if spec else None) or []
    places = [os.path.join(root, "cu13", "bin") for root in wheels]
    places += [os.environ.get("PATH", os.defpath), "/usr/local/cuda/bin"]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        do = "install the CUDA toolkit, or use NVRTC" if name == "nvcc" else _INSTALL
        raise Failed(f"{name} is neither in a pip wheel, on PATH nor in /usr/local/cuda/bin: {do}")
    return found


# NVRTC. Its Python module is loaded by name: it is an optional extra and publishes no types.


def _nvrtc() -> Any:
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()  # loads the library
    except (ImportError, RuntimeError) as error:
        raise Failed(f"NVRTC is not installed ({error}): {_INSTALL}") from error
    return nvrtc


def _nvrtc_version() -> str:
    nvrtc = _nvrtc()
    major, minor = _checked(nvrtc, nvrtc.nvrtcVersion())
    return f"nvrtc {major}.{minor}"


def _checked(nvrtc: Any, result: tuple[Any, ...]) -> tuple[Any, ...]:
    status, *values = result
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise Failed(f"NVRTC failed: {status.name}")
    return tuple(values)


def _fetch(nvrtc: Any, program: Any, what: str) -> bytes:
    """What nvrtcGet`what` writes into a buffer of the size that nvrtcGet`what`Size says."""
    (size_bytes,) = _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program))
    buffer = bytearray(size_bytes)
    _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return bytes(buffer)


def _run_nvrtc(source: str, options: tuple[str, ...]) -> tuple[str, str, bytes]:
    """(log, PTX, cubin); of a rejected source the log alone."""
    nvrtc = _nvrtc()
    created = nvrtc.nvrtcCreateProgram(source.encode(), _SOURCE_NAME.encode(), 0, [], [])
    (program,) = _checked(nvrtc, created)
    try:
        given = [option.encode() for option in options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
        log = _fetch(nvrtc, program, "ProgramLog").decode(errors="replace").strip("\0 \n")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            return log or status.name, "", b""
        ptx = _fetch(nvrtc, program, "PTX").decode().rstrip("\0")
        return log, ptx, _fetch(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(program)


# nvcc.


@functools.cache
def _nvcc_version(tool: str) -> str:
    done = subprocess.run([tool, "--version"], capture_output=True, text=True)
    version = re.search(r"\bV(\d+\.\d+\.\d+)", done.stdout)
    if version is None:
        raise Failed(f"{tool} --version does not say its version: {done.stdout}{done.stderr}")
    return f"nvcc {version[1]}"


def _run_nvcc(source: str, options: tuple[str, ...]) -> tuple[str, str, bytes]:
    """(log, PTX, cubin); of a rejected source the log alone."""
    outside = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")  # options that the cache cannot see
    env = {name: value for name, value in os.environ.items() if name not in outside}
    with tempfile.TemporaryDirectory(prefix="rift-") as scratch:
        Path(scratch, _SOURCE_NAME).write_text(source)
        command = [_tool("nvcc"), *options, "-o", "kernel.cubin", _SOURCE_NAME]
        done = subprocess.run(command, cwd=scratch, env=env, capture_output=True, text=True)
        log = (done.stderr + done.stdout).strip()
        if done.returncode != 0:
            return log, "", b""
        ptx = Path(scratch, "kernel.ptx").read_text()
        return log, ptx, Path(scratch, "kernel.cubin").read_bytes()


# The cache. An entry is the SHA-256 of its JSON, then the JSON: a torn or altered one is a miss.


def _cache_path(source: str, target: str, compiler: str, options: tuple[str, ...]) -> Path:
    key = json.dumps([_CACHE_FORMAT, source, target, compiler, options])
    return paths.home() / "cache" / "cuda" / hashlib.sha256(key.encode()).hexdigest()


def _load(path: Path) -> CudaBinary | None:
    try:
        digest, _, body = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    if hashlib.sha256(body).hexdigest().encode() != digest:
        return None
    entry = json.loads(body)
    entry["cubin"] = base64.b64decode(entry["cubin"])
    entry["resources"] = tuple(Resources(**each) for each in entry["resources"])
    return replace(CudaBinary(**entry), cached=True)


def _store(path: Path, binary: CudaBinary) -> None:
    entry = asdict(binary) | {"cubin": base64.b64encode(binary.cubin).decode()}
    body = json.dumps(entry).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as file:
            file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        os.replace(file.name, path)
    except OSError as error:
        raise Failed(f"cannot keep the compiled kernel: {error}; set RIFT_HOME") from error
