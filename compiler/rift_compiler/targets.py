"""What kernels are compiled for."""

from __future__ import annotations

from dataclasses import dataclass

from rift.errors import WrongUsage


@dataclass(frozen=True, slots=True)
class Target:
    """One target; gpus are examples of what it runs on (NVIDIA, CUDA GPU compute capability)."""

    name: str
    cuda: bool
    gpus: str = ""


TARGETS = {
    t.name: t
    for t in (
        Target("cpu", cuda=False),
        Target("sm_80", True, "A100"),
        Target("sm_89", True, "RTX 4090, L40S"),
        Target("sm_90a", True, "H100, H200"),
        Target("sm_120a", True, "RTX 5090, RTX PRO 6000"),
    )
}


def target(name: str) -> Target:
    """The target of this name. Raises WrongUsage with the names there are."""
    if name not in TARGETS:
        known = ", ".join(f"{t.name} ({t.gpus})" if t.gpus else t.name for t in TARGETS.values())
        raise WrongUsage(f"no target is called {name!r}; there are: {known}")
    return TARGETS[name]
