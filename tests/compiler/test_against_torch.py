"""The differential suite over our own compiler: nothing wrong, and what must be right is right.

`rift compile --check-ops` runs all of it; this is the part that fits in a test run.
"""

# ruff: noqa: E501  tables of texts
from __future__ import annotations

import pytest
import torch

import rift_compiler
from rift_compiler.differential import suite
from rift_compiler.differential.probes import PROBES

# What may be refused; anything else must be right.
REFUSED = {"topk", "topk_smallest", "sort", "sort_stable", "fft", "writes_input"}
REFUSED |= {"interpolate_of_bytes"}
# One sample of each in two types: enough that every lowering and every scalar op runs as C++.
OPS = ["add", "sub", "mul", "div/trunc_rounding", "div/floor_rounding", "true_divide", "floor_divide", "remainder", "fmod", "pow", "exp", "log", "sin", "sqrt", "tanh", "erf", "abs", "sign", "floor", "round", "clamp", "maximum", "fmax", "where", "masked_fill", "lerp", "addcmul", "nn.functional.gelu", "nn.functional.silu", "nn.functional.softplus", "softmax", "log_softmax", "nn.functional.cross_entropy", "nn.functional.mse_loss", "nn.functional.layer_norm", "nn.functional.rms_norm", "nn.functional.linear", "nn.functional.conv2d", "nn.functional.scaled_dot_product_attention", "nn.functional.embedding", "sum", "mean", "prod", "amax", "argmax", "any", "all", "var", "std", "norm", "logsumexp", "cumsum", "matmul", "bmm", "addmm", "baddbmm", "einsum", "permute", "expand", "squeeze", "select", "index_select", "gather", "split", "cat", "stack", "flip", "roll", "repeat", "tril", "diagonal", "unfold", "bitwise_and", "bitwise_left_shift", "logical_not", "isnan", "nan_to_num"]  # fmt: skip


def judged(name: str, **kwargs: object) -> suite.Row:
    rows = suite.run(
        [name],
        "cpu",
        1,
        rift_compiler.compile,
        rift_compiler.Unsupported,
        **kwargs,  # type: ignore[arg-type]
    )
    (row,) = rows
    return row


@pytest.mark.parametrize("name", [p.name for p in PROBES])
def test_probe(name: str) -> None:
    row = judged(f"probe/{name}")

    assert not row.wrong, row.first_wrong
    assert row.right or name in REFUSED, row.first_refused


@pytest.mark.parametrize("name", OPS)
def test_op(name: str) -> None:
    row = judged(name, dtypes=(torch.float32, torch.bfloat16, torch.int64))

    assert not row.wrong, row.first_wrong
    assert row.right, row.first_refused
