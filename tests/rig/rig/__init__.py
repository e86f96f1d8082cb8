"""A GPU host in QEMU: Debian 12, two NUMA nodes, an IOMMU, two cards and an SR-IOV NIC.

Everything is emulated in software, so it runs on any x86-64 machine with Debian's packages: no KVM,
no GPU, no root. `build` makes what is missing in the cache; `Rig` runs a copy that forgets
everything it was told when it stops.
"""

from rig.image import build
from rig.machine import Built, Rig

__all__ = ["Built", "Rig", "build"]
