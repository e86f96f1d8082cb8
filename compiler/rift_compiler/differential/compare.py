"""One comparison: a compiled function against torch eager, on the same inputs.

Exact: the structure of the output, devices, dtypes, shapes, integers, booleans, where NaN and
infinities stand, and what became of the inputs. Not compared: strides, the sign of zero.

Floating-point values have a tolerance. Let (rtol, atol) be torch.testing's defaults for the dtype,
n the number of input elements for each output element (the length of a sum over everything),
`wide` eager's result with inputs and weights in float64, and for an output element i

    unit_i    = rtol |wide_i| + atol sqrt(n)
    allowed_i = max(unit_i, 2 min(E, R unit_i))
                with E = max |eager - wide|, R = max |eager - wide| / unit, over all elements

and |got_i - wide_i| may be at most allowed_i. In words: the default tolerance, or twice the worst
that eager itself does, where that is more.
- sqrt(n): rounding errors of a sum of n terms of either sign grow as a random walk of n steps
  (Higham, Accuracy and Stability of Numerical Algorithms, 2.8), while the sum may cancel to 0.
- Eager's own error knows what the shapes don't: inner lengths, cancellation, float16 steps. Both
  measures of it bind, so that neither one large nor one tiny element loosens the rest.
- float64 replaces eager only where it shows rounding and nothing else: where |eager - wide| is at
  most 16 epsilon of the largest element. A function whose meaning depends on the dtype (a default
  eps) or that jumps (floor of a product) fails that; then eager itself stands for `wide`.
  So it does for float64, and for a function that names its output's dtype.
- An infinity that float64 gives, too, is right where eager gives NaN: on AVX-512 eager's gelu of
  infinity is NaN in float32, if there are four elements or more.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

Function = Callable[..., Any]
Outcome = Literal["right", "refused", "wrong", "skipped"]
Kind = Literal["", "crash", "structure", "dtype", "device", "shape", "value", "inputs", "memory"]

# (rtol, atol): https://docs.pytorch.org/docs/stable/testing.html#torch.testing.assert_close
TOLERANCES = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
}
EAGER_FACTOR = 2.0
TRUSTED_EPSILONS = 16.0


@dataclass(frozen=True)
class Case:
    """A function or module, and inputs to run it on. The label says how to find it again."""

    label: str
    function: Function
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Difference:
    """The worst element of a wrong output: the one furthest over what is allowed."""

    max_abs: float
    max_rel: float
    index: tuple[int, ...]
    expected: float
    got: float
    allowed: float
    count: int
    of: int

    def __str__(self) -> str:
        return (
            f"{self.count} of {self.of} elements, max error {self.max_abs:.3g} abs "
            f"{self.max_rel:.3g} rel, worst at {list(self.index)}: expected {self.expected:.9g}, "
            f"got {self.got:.9g}, allowed {self.allowed:.3g}"
        )


@dataclass(frozen=True)
class Verdict:
    """`detail` is the refusal's reason, what is wrong, or why eager could not run the case."""

    outcome: Outcome
    detail: str = ""
    kind: Kind = ""
    difference: Difference | None = None


RIGHT = Verdict("right")


def judge(
    compiled: Function, eager: Function, args: tuple[Any, ...], refusal: type[BaseException]
) -> Verdict:
    """Whether `compiled` does what `eager` does. Neither sees `args`, only copies of them.

    `compiled` is called twice: its second result must be right too (workspaces are reset), and
    must not share memory with the first. It is refused when a call raises `refusal`; any other
    exception is a crash. A warning is no verdict: all are silenced.
    """
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = _observe(eager, args)
        except Exception as error:
            return Verdict("skipped", _first_line(error))
        try:
            first, second = _observe(compiled, args), _observe(compiled, args)
        except refusal as error:
            return Verdict("refused", _first_line(error, named=False))
        except Exception as error:
            return Verdict("wrong", _first_line(error), "crash")
        wide = _widened(eager, args)
        sizes = [leaf.numel() for leaf in pytree.tree_leaves(args) if isinstance(leaf, Tensor)]
        for observed in (first, second):
            verdict = _compare(observed, expected, wide, max(sizes, default=1))
            if verdict.outcome != "right":
                return verdict
        return _share_memory(first, second)


def rearranged(value: Any) -> Any:
    """A valid stand-in for an input: the same strides and set of values, in reverse order.

    To compile with: a compiler that bakes its example's values into the code is then wrong. A
    single number is halved and a single boolean inverted; a single integer, maybe an index, stays.
    """
    return _copied(value, reverse=True) if isinstance(value, Tensor) else value


@dataclass(frozen=True)
class _Observed:
    outputs: Any
    inputs_after: tuple[Any, ...]


def _observe(function: Function, args: tuple[Any, ...]) -> _Observed:
    copies = pytree.tree_map_only(Tensor, _copied, args)
    return _Observed(function(*copies), copies)


def _copied(tensor: Tensor, reverse: bool = False) -> Tensor:
    """A copy with the same strides, expanded ones included, and the same offset.

    What lies between the elements is NaN or 1, so that who reads it shows.
    """
    once = tensor[tuple(slice(0, 1) if not stride else slice(None) for stride in tensor.stride())]
    reach = sum((size - 1) * step for size, step in zip(once.shape, once.stride(), strict=True))
    gap = math.nan if tensor.is_floating_point() or tensor.is_complex() else 1
    memory = torch.full(
        (tensor.storage_offset() + max(reach, 0) + 1,),
        gap,
        dtype=tensor.dtype,
        device=tensor.device,
    )
    values = _reversed(once) if reverse else once
    place = memory.as_strided(once.shape, once.stride(), tensor.storage_offset())
    return place.copy_(values).expand(tensor.shape)


def _reversed(tensor: Tensor) -> Tensor:
    if tensor.numel() != 1:
        return tensor.flip(tuple(range(tensor.dim())))
    if tensor.dtype is torch.bool:
        return ~tensor
    return tensor / 2 if tensor.is_floating_point() or tensor.is_complex() else tensor


def _widened(eager: Function, args: tuple[Any, ...]) -> list[Any] | None:
    """The leaves of eager's output in float64, or None where it can't compute in float64."""
    try:
        function = copy.deepcopy(eager).double() if isinstance(eager, nn.Module) else eager
        wide = pytree.tree_map_only(Tensor, lambda t: _wide(_copied(t)), args)
        return list(pytree.tree_leaves(function(*wide)))
    except Exception:
        return None


def _wide(tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor


def _compare(got: _Observed, expected: _Observed, wide: list[Any] | None, size: int) -> Verdict:
    leaves, spec = pytree.tree_flatten(expected.outputs)
    got_leaves, got_spec = pytree.tree_flatten(got.outputs)
    if spec != got_spec:
        return Verdict("wrong", f"expected {spec}, got {got_spec}", "structure")
    if wide is None or len(wide) != len(leaves):
        wide = [None] * len(leaves)
    for number, (one, other, reference) in enumerate(zip(got_leaves, leaves, wide, strict=True)):
        verdict = _compare_leaf(one, other, reference, size)
        if verdict.outcome != "right":
            where = f"output {number}: " if len(leaves) > 1 else ""
            return Verdict("wrong", where + verdict.detail, verdict.kind, verdict.difference)
    inputs = zip(
        pytree.tree_leaves(got.inputs_after), pytree.tree_leaves(expected.inputs_after), strict=True
    )
    for number, (one, other) in enumerate(inputs):
        verdict = _compare_leaf(one, other, None, 1)
        if verdict.outcome != "right":
            detail = f"input {number} after the call: {verdict.detail}"
            return Verdict("wrong", detail, "inputs", verdict.difference)
    return RIGHT


def _compare_leaf(got: Any, expected: Any, wide: Any, size: int) -> Verdict:
    if not (isinstance(got, Tensor) and isinstance(expected, Tensor)):
        same = type(got) is type(expected) and (got == expected or got != got)
        return (
            RIGHT if same else Verdict("wrong", f"expected {expected!r}, got {got!r}", "structure")
        )
    properties: tuple[tuple[Kind, object, object], ...] = (
        ("dtype", got.dtype, expected.dtype),
        ("device", got.device, expected.device),
        ("shape", tuple(got.shape), tuple(expected.shape)),
    )
    for kind, one, other in properties:
        if one != other:
            return Verdict("wrong", f"expected {kind} {other}, got {one}", kind)
    if expected.is_complex():
        got, expected = torch.view_as_real(got), torch.view_as_real(expected)
        wide = torch.view_as_real(wide) if isinstance(wide, Tensor) and wide.is_complex() else None
    difference = _difference(got, expected, wide, size / max(expected.numel(), 1))
    return Verdict("wrong", str(difference), "value", difference) if difference else RIGHT


def _difference(got: Tensor, expected: Tensor, wide: Any, fan_in: float) -> Difference | None:
    if expected.numel() == 0:
        return None
    if not expected.is_floating_point():
        # Compared as they are: float64 can't hold every int64.
        excess = (got != expected).double()
        return _worst(got, expected, excess, torch.zeros_like(excess)) if excess.any() else None
    rtol, atol = TOLERANCES[expected.dtype]
    atol *= math.sqrt(max(fan_in, 1.0))
    reference = _reference(expected, wide, atol)
    finite = expected.isfinite()
    unit = rtol * reference.abs() + atol
    eager_error = (expected.double() - reference).abs().where(finite, 0.0)
    bound = (eager_error / unit).where(finite, 0.0).max() * unit
    allowed = unit.maximum(EAGER_FACTOR * bound.clamp(max=eager_error.max()))
    error = (got.double() - reference).abs()
    wrong = torch.where(finite & got.isfinite(), error > allowed, ~_same(got, expected))
    if isinstance(wide, Tensor) and wide.shape == expected.shape:
        wrong &= ~(expected.isnan() & got.isinf() & (got == wide))
    if not wrong.any():
        return None
    allowed = allowed.where(finite, 0.0)
    return _worst(got, expected, (error / allowed).where(wrong, -1.0), allowed)


def _reference(expected: Tensor, wide: Any, atol: float) -> Tensor:
    """`wide`, where it can be believed (see the module), else what eager gave; in float64."""
    eager = expected.double()
    if not isinstance(wide, Tensor) or wide.dtype is not torch.float64:
        return eager
    if wide.shape != eager.shape or expected.dtype is torch.float64:
        return eager
    finite = eager.isfinite()
    error = (eager - wide).where(finite, 0.0).abs().max()
    largest = eager.where(finite, 0.0).abs().max()
    epsilon = torch.finfo(expected.dtype).eps
    # NaN, where only one of the two is infinite, compares false: not trusted.
    trusted = bool(error <= max(TRUSTED_EPSILONS * epsilon * float(largest), atol))
    return wide.where(finite, eager) if trusted else eager


def _worst(got: Tensor, expected: Tensor, excess: Tensor, allowed: Tensor) -> Difference:
    """`excess` ranks the wrong elements, and is negative or 0 elsewhere."""
    at = int(excess.nan_to_num(math.inf, math.inf).argmax())
    error = (got.double() - expected.double()).abs()
    finite = error.isfinite()
    relative = (error / expected.double().abs()).where(finite & (expected != 0), 0.0)
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(at), expected.shape))
    return Difference(
        max_abs=float(error.where(finite, 0.0).max()) if finite.all() else math.inf,
        max_rel=float(relative.max()),
        index=index,
        expected=expected[index].item(),
        got=got[index].item(),
        allowed=float(allowed[index]),
        count=int((~(excess <= 0)).sum()),
        of=expected.numel(),
    )


def _same(one: Tensor, other: Tensor) -> Tensor:
    return (one == other) | ((one != one) & (other != other))


def _share_memory(first: _Observed, second: _Observed) -> Verdict:
    """Wrong where writing into the second result changes the first: callers hold several."""
    outputs = [leaf for leaf in pytree.tree_leaves(first.outputs) if isinstance(leaf, Tensor)]
    before = [output.clone() for output in outputs]
    for leaf in pytree.tree_leaves(second.outputs):
        if isinstance(leaf, Tensor):
            memory = torch.empty(0, dtype=torch.uint8, device=leaf.device)
            memory.set_(leaf.untyped_storage()).zero_()
    for number, (output, kept) in enumerate(zip(outputs, before, strict=True)):
        if not _same(output, kept).all():
            detail = f"output {number} is overwritten through the next call's result"
            return Verdict("wrong", detail, "memory")
    return RIGHT


def _first_line(error: BaseException, named: bool = True) -> str:
    text = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {text}" if named else text
