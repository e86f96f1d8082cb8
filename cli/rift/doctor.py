"""What this machine can do, and how to get what is missing."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rift import machine, paths
from rift.errors import RiftError
from rift_serving import engine_env
from rift_serving.launch import TCMALLOC

EXTRAS = {"serve-cpu": "gguf", "bench": "httptools", "dev": "pytest"}
FREE_DISK_BYTES = 5 * 2**30  # the engine (2.5 GB), the default model, and room for runs


@dataclass(frozen=True)
class Finding:
    """One thing looked at: ok, missing (a local deployment needs it), or optional and not there."""

    what: str
    state: Literal["ok", "missing", "optional"]
    found: str
    do: str = ""


def examine() -> list[Finding]:
    """Look at everything; changes nothing."""
    return [
        _python(),
        _cpu(),
        _memory(),
        _disk(),
        *_extras(),
        _engine(),
        _allocator(),
        _gpu(),
        _tool("libvirt", "virsh", "--version", "apt-get install libvirt-daemon-system"),
        _tool("QEMU", "qemu-system-x86_64", "--version", "apt-get install qemu-system-x86"),
        _kvm(),
        _tool("C++ compiler", "g++", "-dumpfullversion", "apt-get install g++"),
        _tool("CUDA compiler", "nvcc", "--version", "install NVIDIA's CUDA toolkit"),
    ]


def _python() -> Finding:
    return Finding("Python", "ok", platform.python_version())


def _cpu() -> Finding:
    cpu = machine.cpu()
    wanted = ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "bf16")
    found = f"{cpu.model}, {len(cpu.cores)} cores, {' '.join(f for f in wanted if f in cpu.flags)}"
    try:
        engine_env.check_cpu(cpu)
    except RiftError as error:
        return Finding("CPU", "missing", found, str(error))
    note = "" if cpu.native_bfloat16 else "no bfloat16 instructions: models are served in float32"
    return Finding("CPU", "ok", found, note)


def _memory() -> Finding:
    gib = machine.available_memory_bytes() / 2**30
    enough = gib >= 6  # the default model, its KV cache and the engine take about 5.5
    return Finding(
        "memory",
        "ok" if enough else "missing",
        f"{gib:.1f} GiB available",
        "" if enough else "the default model takes 6 GiB",
    )


def _disk() -> Finding:
    home = paths.home()
    there = next(p for p in (home, *home.parents) if p.exists())
    free = shutil.disk_usage(there).free
    writable = there.is_dir() and os.access(there, os.W_OK)
    fine = writable and free >= FREE_DISK_BYTES
    found = f"{free / 2**30:.1f} GiB free for {home}" + ("" if writable else ", not writable")
    return Finding("disk", "ok" if fine else "missing", found, "" if fine else "set RIFT_HOME")


def _extras() -> list[Finding]:
    findings = []
    for extra, module in EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        state: Literal["ok", "missing", "optional"] = "ok" if there else "missing"
        if not there and extra == "dev":
            state = "optional"
        do = "" if there else f"pip install 'rift-toolkit[{extra}]'"
        findings.append(Finding(f"extra [{extra}]", state, "installed" if there else "no", do))
    return findings


def _engine() -> Finding:
    build = engine_env.build_for(None)
    try:
        environment = engine_env.find(build)
        if build.device == "cpu":
            engine_env.check_libraries()
    except RiftError as error:
        return Finding("engine", "missing", "none", str(error))
    return Finding("engine", "ok", f"vLLM {environment.version} in {environment.prefix}")


def _allocator() -> Finding:
    there = TCMALLOC.exists()
    do = "" if there else "faster serving on a CPU: apt-get install libtcmalloc-minimal4"
    return Finding("tcmalloc", "ok" if there else "optional", str(TCMALLOC) if there else "no", do)


def _gpu() -> Finding:
    gpus = machine.nvidia_gpus()
    if not gpus:
        return Finding("GPU", "optional", "no NVIDIA GPU on the PCI bus", "serving uses the CPU")
    found = ", ".join(f"{gpu.address} ({gpu.driver or 'no driver'})" for gpu in gpus)
    usable = machine.has_cuda()
    do = "" if usable else "no GPU is bound to NVIDIA's driver: install it to serve on them"
    return Finding("GPU", "ok" if usable else "optional", found, do)


def _kvm() -> Finding:
    kvm = Path("/dev/kvm")
    usable = os.access(kvm, os.R_OK | os.W_OK)
    found = "usable" if usable else ("no permission" if kvm.exists() else "no /dev/kvm")
    do = "" if usable else "VMs run in slow emulation; enable virtualisation, join group kvm"
    return Finding("KVM", "ok" if usable else "optional", found, do)


def _tool(what: str, command: str, option: str, do: str) -> Finding:
    path = shutil.which(command)
    if path is None:
        return Finding(what, "optional", f"no {command}", do)
    done = subprocess.run([path, option], capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines() or [""]
    named: Callable[[str], bool] = lambda line: any(c.isdigit() for c in line)  # noqa: E731
    versions = [line for line in lines if named(line)]
    return Finding(
        what, "ok", f"{path} {versions[-1] if command == 'nvcc' and versions else lines[0]}"
    )
