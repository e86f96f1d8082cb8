"""Kernel modules that matter here: loaded, built in or absent, and their parameters."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass

from rift_provision.facts.tree import Tree

# Drivers that would take a card, and those that pass it on.
WATCHED = (
    *("vfio_pci", "vfio_iommu_type1", "vfio", "kvm", "kvm_intel", "kvm_amd"),
    *("nouveau", "nvidia", "nvidia_drm", "nvidiafb", "nova_core", "amdgpu", "radeon", "i915", "xe"),
    *("snd_hda_intel", "irdma"),
)
PREFIX = "alias vfio_pci:"


@dataclass(frozen=True)
class Modules:
    """Module names are written with underscores.

    builtin: part of the kernel itself, so that modprobe.d does not concern them.
    vfio_pci: "builtin", "module" or None if the kernel has none.
    disable_idle_d3: the parameter as vfio-pci runs with it, None while it is not there.
    variants: the lines of modules.alias about VFIO drivers for one kind of device.
    initramfs: the paths in the initramfs that have to do with any of this; None if unknown.
    bound_early: what the initramfs said it bound at this boot, line by line.
    """

    loaded: tuple[str, ...]
    builtin: tuple[str, ...]
    vfio_pci: str | None
    disable_idle_d3: bool | None
    variants: tuple[str, ...]
    initramfs: tuple[str, ...] | None
    bound_early: tuple[str, ...]


def parse_modules(tree: Tree, kernel: str) -> Modules:
    """The modules of the running kernel in a tree."""
    at = f"/lib/modules/{kernel}"
    loaded = {line.split()[0] for line in tree.lines("/proc/modules") if line.strip()}
    builtin = {_module(line) for line in tree.lines(f"{at}/modules.builtin")}
    on_disk = {_module(name) for name in tree.names(f"{at}/kernel/drivers/vfio/pci")}
    on_disk |= {"vfio_pci"} & loaded
    d3 = tree.value("/sys/module/vfio_pci/parameters/disable_idle_d3")
    vfio = "builtin" if "vfio_pci" in builtin else "module" if "vfio_pci" in on_disk else None
    return Modules(
        loaded=tuple(name for name in WATCHED if name in loaded),
        builtin=tuple(name for name in WATCHED if name in builtin),
        vfio_pci=vfio,
        disable_idle_d3=None if d3 is None else d3 == "Y",
        variants=tuple(ln for ln in tree.lines(f"{at}/modules.alias") if ln.startswith(PREFIX)),
        initramfs=_initramfs(tree),
        bound_early=tuple(tree.lines("/run/rift/bound")),
    )


def _module(path: str) -> str:
    """The module's name of kernel/drivers/vfio/pci/vfio-pci.ko.zst."""
    return re.sub(r"\.ko(\.\w+)?$", "", posixpath.basename(path.strip())).replace("-", "_")


def _initramfs(tree: Tree) -> tuple[str, ...] | None:
    """Listed by lsinitramfs as paths, by lsinitrd as ls -l does."""
    for command in ("lsinitramfs", "lsinitrd"):
        if tree.entry(f"/commands/{command}") is not None:
            lines = tree.lines(f"/commands/{command}")
            return tuple(line.split(" -> ")[0].split()[-1] for line in lines if line.strip())
    return None
