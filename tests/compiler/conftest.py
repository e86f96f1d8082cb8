"""Fixtures of the compiler's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

from rift_compiler.dtypes import bf16
from rift_compiler.expr import Node
from rift_compiler.frontend.lower import Lowered, lower
from rift_compiler.frontend.trace import trace
from rift_compiler.interpret import Evaluator, run_tensor
from rift_compiler.tensor_ir import Buffer, TensorProgram, parse

CheckLowering = Callable[..., TensorProgram]


@pytest.fixture
def check_lowering() -> CheckLowering:
    """check_lowering(fn, *args, dynamic=None, also=(), **tolerance): fn lowered; see _check."""
    return _check


def _check(
    fn: Callable[..., Any],
    *args: Any,
    dynamic: Mapping[str, Mapping[int, str]] | None = None,
    also: Sequence[Sequence[Any]] = (),
    **tolerance: Any,
) -> TensorProgram:
    """The Tensor IR of fn(*args), after comparing it with torch eager and with its own text.

    also: other inputs for the same program. tolerance: rtol and atol, else torch's for the type.
    Types, shapes and NaNs must be equal.
    """
    lowered = lower(trace(fn, args, dynamic))
    assert parse(str(lowered.program)) == lowered.program
    for inputs in (args, *also):
        with torch.no_grad():
            expected = tree_leaves(fn(*(a.clone() if _is_tensor(a) else a for a in inputs)))
        got = list(_run(lowered, inputs))
        assert len(got) == len(expected)
        for n, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
            torch.testing.assert_close(
                ours, theirs, equal_nan=True, **tolerance, msg=f"output {n}: {{}}".format
            )
    return lowered.program


def _run(lowered: Lowered, inputs: Sequence[Any]) -> Iterator[Any]:
    given = {n: t for n, t in zip(lowered.user_inputs, inputs, strict=True) if n is not None}
    arrays = {name: _to_numpy(t) for name, t in (given | dict(lowered.bound)).items()}
    dims: dict[str, int] = {}
    for buffer in lowered.program.inputs:
        for size, actual in zip(buffer.shape, arrays[buffer.name].shape, strict=True):
            if size.op == "dim":
                assert dims.setdefault(size.name, actual) == actual
    results = dict(
        zip(lowered.program.outputs, run_tensor(lowered.program, arrays, dims), strict=True)
    )
    for out in lowered.outputs:
        if isinstance(out, Node):  # a size
            yield Evaluator({}, dims).number(out)
        else:
            yield _to_torch(results[out.name], out) if isinstance(out, Buffer) else out


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def _to_numpy(t: torch.Tensor) -> np.ndarray[Any, Any]:
    return (t.float() if t.dtype is torch.bfloat16 else t).detach().contiguous().numpy()


def _to_torch(array: np.ndarray[Any, Any], buffer: Buffer) -> torch.Tensor:
    out = torch.from_numpy(np.array(array, order="C"))
    exact = out.to(getattr(torch, buffer.dtype.torch))
    if buffer.dtype is bf16:
        assert torch.equal(exact.float().nan_to_num(7.0), out.nan_to_num(7.0)), "not rounded"
    assert exact.dtype is out.dtype or buffer.dtype is bf16
    return exact
