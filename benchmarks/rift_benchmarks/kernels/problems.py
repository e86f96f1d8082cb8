"""The problems of the suite: a function, its inputs' shapes, and what it must at least do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from rift.errors import WrongUsage
from rift_benchmarks.kernels import layers
from rift_benchmarks.kernels.shapes import QWEN3, SHAPES, SMOLLM2, Shape

Dims = tuple[int, ...]
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
SEED = 4


@dataclass(frozen=True)
class Problem:
    """One problem. operations: multiplications and additions it needs (2 for each pair of them).

    rotated: its operands come from memory in real use, so that they are many here: copies of all
    inputs and outputs, in turn, of more than a cache holds.
    """

    group: str
    detail: str
    dtype: str
    function: Callable[..., Any]
    shapes: tuple[Dims, ...]
    operations: float
    rotated: bool
    quick: bool = False

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.group} {self.dtype} {self.detail}"

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """Inputs drawn at random, the same in every run; each row of a matrix of unit length."""
        generator = torch.Generator().manual_seed(SEED)
        return tuple(_input(s, TYPES[self.dtype], generator) for s in self.shapes)


def _input(shape: Dims, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    scale = shape[-1] ** -0.5 if len(shape) == 2 else 1.0
    return (torch.randn(shape, generator=generator) * scale).to(dtype)


def every() -> list[Problem]:
    """All problems, in the order of the tables."""
    makers = (
        _matmul, _decode_gemm, _rows, _swiglu, _rotary, _residual_norm, _attention,
        _attention_decode, _mlp, _layer,
    )  # fmt: skip
    return [p for make in makers for p in make()]


def groups() -> list[str]:
    """The kinds of problems."""
    return list(dict.fromkeys(p.group for p in every()))


def chosen(only: str | None, quick: bool) -> list[Problem]:
    """The problems of some groups (matmul,softmax), or all; quick: a few of each group.

    Raises WrongUsage for a group that does not exist.
    """
    known = groups()
    asked = known if only is None else only.split(",")
    unknown = [g for g in asked if g not in known]
    if unknown:
        raise WrongUsage(
            f"--only: no problems called {', '.join(map(repr, unknown))}: "
            f"expected some of {','.join(known)}"
        )
    return [p for p in every() if p.group in asked and (p.quick or not quick)]


def _matmul() -> Iterator[Problem]:
    for dtype in TYPES:
        for n in (256, 512, 1024, 2048):
            yield Problem(
                "matmul", str(n), dtype, torch.matmul, ((n, n), (n, n)), 2.0 * n**3,
                rotated=False, quick=(n, dtype) in ((256, "f32"), (1024, "f32")),
            )  # fmt: skip


def _decode_gemm() -> Iterator[Problem]:
    for shape in SHAPES:
        for name, (n, k) in shape.gemms.items():
            for dtype in TYPES:
                for m in (1, 4, 8, 16, 32):
                    quick = shape is SMOLLM2 and name == "up" and m in (1, 8) and dtype == "f32"
                    yield Problem(
                        "decode-gemm", f"{shape.name} {name} M={m}", dtype, F.linear,
                        ((m, k), (n, k)), 2.0 * m * n * k, rotated=True, quick=quick,
                    )  # fmt: skip


def _rows() -> Iterator[Problem]:
    """Ops on rows, which read and write each element once."""
    ops: dict[str, tuple[Callable[..., Any], int, float]] = {
        "rmsnorm": (lambda x, w: F.rms_norm(x, w.shape, w, 1e-6), 1, 4.0),
        "layernorm": (lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5), 2, 7.0),
        "softmax": (lambda x: torch.softmax(x, -1), 0, 4.0),
    }
    for group, (function, vectors, operations) in ops.items():
        for dtype in TYPES:
            for rows, width in ((4096, 2048), (512, 1024)):
                yield Problem(
                    group, f"{rows}x{width}", dtype, function,
                    ((rows, width), *[(width,)] * vectors), operations * rows * width,
                    rotated=True, quick=dtype == "f32" and rows == 4096,
                )  # fmt: skip


def _swiglu() -> Iterator[Problem]:
    for dtype in TYPES:
        shape = (4096, 2816)
        yield Problem(
            "swiglu", "4096x2816", dtype, layers.swiglu, (shape, shape), 5.0 * math.prod(shape),
            rotated=True, quick=dtype == "f32",
        )  # fmt: skip


def _rotary() -> Iterator[Problem]:
    for dtype in TYPES:
        for head in (64, 128):
            x, table = (1, 16, 2048, head), (2048, head)
            yield Problem(
                "rotary", f"1x16x2048x{head}", dtype, layers.rotary, (x, table, table),
                3.0 * math.prod(x), rotated=True, quick=dtype == "f32" and head == 64,
            )  # fmt: skip


def _residual_norm() -> Iterator[Problem]:
    for dtype in TYPES:
        shape = (4096, 2048)
        yield Problem(
            "residual-rmsnorm", "4096x2048", dtype, layers.residual_norm,
            (shape, shape, shape[1:]), 5.0 * math.prod(shape), rotated=True, quick=dtype == "f32",
        )  # fmt: skip


def _attention() -> Iterator[Problem]:
    for dtype in TYPES:
        for head in (64, 128):
            for n in (512, 1024, 2048):
                one = (1, 8, n, head)
                pairs = 8 * n * (n + 1) / 2  # of a query and a key that it sees
                yield Problem(
                    "attention", f"1x8x{n}x{head} causal", dtype, layers.causal, (one,) * 3,
                    4.0 * pairs * head, rotated=False,
                    quick=(n, head, dtype) == (512, 64, "f32"),
                )  # fmt: skip


def _attention_decode() -> Iterator[Problem]:
    for dtype in TYPES:
        for keys in (512, 2048, 8192):
            for queries in (1, 8, 32):
                q, kv = (1, 16, queries, 128), (1, 8, keys, 128)
                yield Problem(
                    "attention-decode", f"{queries} over {keys}, 16/8x128", dtype, layers.decode,
                    (q, kv, kv), 4.0 * math.prod(q) * keys, rotated=True,
                    quick=(keys, queries, dtype) == (2048, 1, "f32"),
                )  # fmt: skip


def _mlp() -> Iterator[Problem]:
    for shape in (SMOLLM2, QWEN3):
        for dtype in TYPES:
            for m in (1, 512):
                hidden, inner = shape.hidden, shape.inner
                sizes = ((m, hidden), (inner, hidden), (inner, hidden), (hidden, inner))
                yield Problem(
                    "mlp", f"{shape.name} M={m}", dtype, layers.mlp, sizes,
                    6.0 * m * hidden * inner, rotated=m == 1,
                    quick=shape is SMOLLM2 and dtype == "f32",
                )  # fmt: skip


def _layer() -> Iterator[Problem]:
    for shape in (SMOLLM2, QWEN3):
        for dtype in TYPES:
            quick = shape is SMOLLM2 and dtype == "f32"
            yield _one_layer(shape, dtype, 128, 0, quick)
            yield _one_layer(shape, dtype, 1, 512, quick)


def _one_layer(shape: Shape, dtype: str, new: int, past: int, quick: bool) -> Problem:
    """A layer over a prompt of `new` tokens, or one token after `past`."""
    sizes: list[Dims] = [(1, new, shape.hidden), (new, shape.head), (new, shape.head)]
    if past:
        sizes += [(1, shape.kv_heads, past, shape.head)] * 2
    matrices = sum(math.prod(w) for w in layers.weights(shape) if len(w) == 2)
    pairs = past + 1 if past else new * (new + 1) / 2
    operations = 2.0 * new * matrices + 4.0 * pairs * shape.heads * shape.head
    detail = f"{shape.name} 1 after {past}" if past else f"{shape.name} prompt {new}"
    return Problem(
        "layer", detail, dtype, layers.layer(shape, prefill=not past),
        _dims(sizes, layers.weights(shape)), operations, rotated=bool(past), quick=quick,
    )  # fmt: skip


def _dims(*parts: Sequence[Dims]) -> tuple[Dims, ...]:
    return tuple(d for part in parts for d in part)
