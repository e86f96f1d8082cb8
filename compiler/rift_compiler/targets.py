"""What kernels are compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from rift.errors import WrongUsage


@dataclass(frozen=True, slots=True)
class Target:
    """One target. Figures of GPUs: CUDA C++ Programming Guide, table of compute capabilities."""

    name: str
    cuda: bool
    gpus: str = ""  # examples
    shared_bytes: int = 0  # of a block, without asking for more


TARGETS = {
    t.name: t
    for t in (
        Target("cpu", cuda=False),
        Target("sm_80", True, "A100", 48 * 1024),
        Target("sm_89", True, "RTX 4090, L40S", 48 * 1024),
        Target("sm_90a", True, "H100, H200", 48 * 1024),
        Target("sm_120a", True, "RTX 5090, RTX PRO 6000", 48 * 1024),
    )
}


def target(name: str) -> Target:
    """The target of this name. Raises WrongUsage with the names there are."""
    if name not in TARGETS:
        raise WrongUsage(f"no target is called {name!r}; there are: {', '.join(TARGETS)}")
    return TARGETS[name]
