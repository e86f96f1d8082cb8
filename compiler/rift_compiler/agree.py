"""Whether two results are the same but for rounding: the gate before a kernel may be used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

# Largest difference allowed, relative to the tensor's largest value. Rounding errors of sums of
# 1e4 terms grow to some 1e2 units in the last place (Higham, Accuracy and Stability of Numerical
# Algorithms, 4.2); in the 16-bit types, where sums are float32, a few roundings of each op count.
ALLOWED = {
    torch.float64: 1e-12,
    torch.float32: 5e-5,
    torch.float16: 5e-3,
    torch.bfloat16: 4e-2,
}


@dataclass(frozen=True)
class Agreement:
    """How far two results are apart, and how far they may be; where says which output."""

    difference: float
    allowed: float
    where: str

    @property
    def right(self) -> bool:
        """Whether the results are the same but for rounding."""
        return self.difference <= self.allowed

    def __str__(self) -> str:
        return (
            f"{self.where}: a difference of {self.difference:.2g} of the largest value, "
            f"{self.allowed:.2g} is allowed"
        )


def agree(ours: Sequence[Any], theirs: Sequence[Any]) -> Agreement:
    """Compare outputs one by one; the worst is returned, by how much of what is allowed it uses."""
    if len(ours) != len(theirs):
        return Agreement(math.inf, 0.0, f"{len(ours)} outputs instead of {len(theirs)}")
    found = [_one(f"output {n}", a, b) for n, (a, b) in enumerate(zip(ours, theirs, strict=True))]
    return max(found, key=_used, default=Agreement(0.0, 0.0, "no output"))


def _used(a: Agreement) -> float:
    if a.difference == 0.0:
        return 0.0
    return a.difference / a.allowed if a.allowed else math.inf


def _one(where: str, ours: Any, theirs: Any) -> Agreement:
    if not isinstance(theirs, torch.Tensor):
        return Agreement(0.0 if ours == theirs else math.inf, 0.0, where)
    if ours.dtype is not theirs.dtype or ours.shape != theirs.shape:
        what = f"{where}: {ours.dtype} {tuple(ours.shape)}"
        return Agreement(math.inf, 0.0, f"{what} instead of {theirs.dtype} {tuple(theirs.shape)}")
    allowed = ALLOWED.get(theirs.dtype, 0.0)
    gap = difference(ours, theirs)
    return Agreement(gap, allowed, f"{where}: infinity or NaN" if gap == math.inf else where)


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest difference of two tensors of one shape, relative to the largest finite value of
    theirs; inf where only one of them is NaN, or an infinity is not the same in both."""
    a, b = ours.double(), theirs.double()
    finite = a.isfinite() & b.isfinite()
    if not ((a == b) | (a.isnan() & b.isnan()) | finite).all():
        return math.inf
    if torch.equal(ours, theirs) or not finite.any():
        return 0.0
    scale = b[finite].abs().max().item() or 1.0
    return float((a - b)[finite].abs().max().item() / scale)
