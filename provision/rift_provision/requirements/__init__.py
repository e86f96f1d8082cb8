"""What a host has to be, as tables of pure functions: a case in, findings and wanted state out."""

from rift_provision.requirements.binding import (
    binding,
    idle_power,
    nouveau,
    released,
    vfio_module,
)
from rift_provision.requirements.boot import boot
from rift_provision.requirements.gpus import gpus
from rift_provision.requirements.hugepages import hugepages
from rift_provision.requirements.iommu import iommu, passthrough, virtualisation
from rift_provision.requirements.known_bad import known_bad
from rift_provision.requirements.numa import numa
from rift_provision.requirements.part import Mode
from rift_provision.requirements.software import software
from rift_provision.requirements.system import system

REQUIREMENTS = {
    Mode.VFIO: (
        *(system, virtualisation, iommu, passthrough, boot, gpus, numa),
        *(vfio_module, binding, nouveau, idle_power, hugepages, software, known_bad),
    ),
    Mode.CONTAINER: (system, boot, gpus, numa, released, known_bad),
}

__all__ = ["REQUIREMENTS"]
