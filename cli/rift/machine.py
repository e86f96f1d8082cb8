"""What the machine that runs this program has: CPU features, memory, GPUs. Reads, never changes."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

NVIDIA = "0x10de"  # PCI vendor id, pci.ids
DISPLAY = "0x03"  # PCI base class 03h: display controller (PCI Code and ID Assignment spec)


@dataclass(frozen=True)
class Cpu:
    """The CPU as the kernel tells it. `cores` are the logical CPUs this process may use."""

    model: str
    architecture: str
    flags: frozenset[str]
    cores: tuple[int, ...]

    @property
    def native_bfloat16(self) -> bool:
        """Whether matrix products in bfloat16 have instructions of their own."""
        return bool(self.flags & {"avx512_bf16", "amx_bf16", "bf16"})


def cpu(root: Path = Path("/")) -> Cpu:
    """Read /proc/cpuinfo under root; flags are `flags` on x86 and `Features` on Arm."""
    fields: dict[str, str] = {}
    try:
        for line in (root / "proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            fields.setdefault(key.strip().lower(), value.strip())
    except OSError:
        pass  # no /proc: the fields stay empty and every check says what it misses
    return Cpu(
        model=fields.get("model name", "unknown"),
        architecture=platform.machine(),
        flags=frozenset((fields.get("flags") or fields.get("features") or "").split()),
        cores=tuple(sorted(os.sched_getaffinity(0))),
    )


def available_memory_bytes(root: Path = Path("/")) -> int:
    """Memory a new process can get: the system's, or what its cgroup has left if that is less."""
    available = int(psutil.virtual_memory().available)
    cgroup = root / "sys/fs/cgroup"
    try:
        limit = (cgroup / "memory.max").read_text(encoding="ascii").strip()
        used = int((cgroup / "memory.current").read_text(encoding="ascii"))
        lines = (cgroup / "memory.stat").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return available
    if limit == "max":
        return available
    # The page cache is counted as used and given back on demand (cgroup v2, memory.stat).
    cache = (line.split() for line in lines)
    used -= sum(int(n) for name, n in cache if name in ("inactive_file", "active_file"))
    return min(available, int(limit) - used)


@dataclass(frozen=True)
class PciGpu:
    """An NVIDIA display controller on the PCI bus; `driver` is what is bound to it now."""

    address: str
    driver: str | None


def nvidia_gpus(root: Path = Path("/")) -> tuple[PciGpu, ...]:
    """NVIDIA GPUs by PCI address, from sysfs, whether or not a driver is loaded."""
    found = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            vendor = (device / "vendor").read_text(encoding="ascii").strip()
            kind = (device / "class").read_text(encoding="ascii").strip()
        except OSError:
            continue  # the device went away while we looked
        if vendor == NVIDIA and kind.startswith(DISPLAY):
            link = device / "driver"
            found.append(PciGpu(device.name, link.resolve().name if link.exists() else None))
    return tuple(found)


def has_cuda(root: Path = Path("/")) -> bool:
    """Whether a GPU is usable with CUDA here: bound to NVIDIA's driver, whose device is there.

    A container sees the host's PCI bus, but has the device only if the GPUs were given to it.
    """
    bound = any(gpu.driver == "nvidia" for gpu in nvidia_gpus(root))
    return bound and (root / "dev/nvidiactl").exists()
