"""Reductions, scans, losses and norms: lowered, interpreted, and compared with torch eager."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from rift_compiler.errors import Unsupported
from rift_compiler.frontend.lower import lower
from rift_compiler.frontend.trace import trace
from rift_compiler.tensor_ir import TensorProgram

# Of eager's var, and of its kl_div: what they say is no news, and the values are compared.
pytestmark = [
    pytest.mark.filterwarnings("ignore:(var|std)(_mean)?.*degrees of freedom is <= 0"),
    pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total loss"),
]
Check = Callable[..., TensorProgram]
Function = Callable[..., Any]
INTEGERS = (torch.uint8, torch.int32)


def each(functions: Sequence[Function]) -> Function:
    """All of them on the same inputs: one export for many."""
    return lambda *inputs: [f(*inputs) for f in functions]


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def over(function: Function, *dims: Any, **keywords: Any) -> list[Function]:
    """A reduction over each of dims, without and with keepdim."""
    plain = [partial(function, dim=d, **keywords) for d in dims]
    return [*plain, *(partial(f, keepdim=True) for f in plain[:2])]


SUMS: list[Function] = [
    *(torch.sum, torch.mean, torch.prod, torch.nansum, torch.nanmean, torch.amax, torch.amin),
    *(torch.max, torch.min, torch.argmax, torch.argmin, torch.count_nonzero, torch.aminmax),
    *over(torch.sum, -1, (0, 2), (), [0, 1, 2]),
    *over(torch.mean, 1, (0, -1)),
    *over(torch.prod, 1, 0),
    *over(torch.amax, (0, 1), -1, ()),
    *over(torch.amin, -1, (1, 2)),
    *over(torch.max, 1, -1),
    *over(torch.min, 0, 2),
    *over(torch.argmax, 1, -1),
    *over(torch.argmin, 0, 2),
    *over(torch.aminmax, 1),
    *over(torch.nansum, (0, 1)),
    partial(torch.count_nonzero, dim=(0, 1)),
    partial(torch.sum, dtype=torch.float64),
    partial(torch.sum, dim=1, dtype=torch.float16),
    partial(torch.mean, dim=(1, 2), dtype=torch.float32),
    partial(torch.prod, dim=1, dtype=torch.float64),
    lambda x: (x.argmax(keepdim=True), x.any(), x.all(), x.any(1), x.all((0, 2), keepdim=True)),
    lambda x: (x.cumsum(0), x.cumsum(-1, dtype=torch.float32), x.cumprod(1), x[:0].sum(0)),
    lambda x: (x.cummax(1), x.cummin(0), x.trace() if x.dim() == 2 else x.diff(dim=1)),
]
SPREADS: list[Function] = [
    *over(torch.var, 1, (0, 2), (), None),
    *over(torch.std, -1, (0, 1), correction=0),
    *over(torch.var_mean, -1, 0, correction=2),
    *over(torch.std_mean, (0, 1)),
    partial(torch.var, unbiased=False),
    partial(torch.std, dim=1, unbiased=True),
    partial(torch.var, dim=1, correction=0.5),
    partial(torch.var, dim=0, correction=9),
    *(partial(torch.norm, p=p) for p in (2, 1, 0, math.inf, -math.inf, 3, 0.5, "fro")),
    *(partial(torch.norm, p=p, dim=(0, 2), keepdim=True) for p in (2, 1, math.inf, 1.5)),
    *(partial(torch.linalg.vector_norm, ord=p, dim=-1) for p in (2, 0, 1, -1, math.inf, -math.inf)),
    partial(torch.linalg.vector_norm, dtype=torch.float64),
    partial(torch.linalg.matrix_norm, ord="fro"),
    *(partial(torch.linalg.matrix_norm, ord=o) for o in (1, math.inf)),
    *(partial(torch.logsumexp, dim=d) for d in (1, (0, 2), -1)),
    partial(torch.logsumexp, dim=0, keepdim=True),
    *(partial(f, dim=d) for f in (torch.softmax, torch.log_softmax, F.softmin) for d in (1, -1)),
    partial(torch.softmax, dim=0, dtype=torch.float64),
    partial(torch.log_softmax, dim=2, dtype=torch.float32),
    partial(F.normalize, dim=1),
    partial(F.normalize, p=1, dim=0, eps=0.1),
    lambda x: (F.cosine_similarity(x, x.flip(1), dim=1), F.pairwise_distance(x, x.flip(0))),
    lambda x: (x.renorm(2, 0, 1.0), torch.dist(x, x.flip(0), 3)),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("functions", [SUMS, SPREADS], ids=["sums", "spreads"])
def test_of_floats(check_lowering: Check, functions: list[Function], dtype: Any) -> None:
    # Near 0, torch's own logsumexp of bf16 is that far off: it rounds each of its steps.
    tolerance = {"rtol": 1.6e-2, "atol": 4e-3} if dtype is torch.bfloat16 else {}
    check_lowering(each(functions), normal(3, 5, 7, dtype=dtype), **tolerance)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_of_other_floats(check_lowering: Check, dtype: Any) -> None:
    some = [*SUMS[:13:2], *SUMS[-1:], *SPREADS[:12:3], *SPREADS[-12:]]
    tolerance = {"rtol": 2e-3, "atol": 1e-5} if dtype is torch.float16 else {}  # one step more
    check_lowering(each(some), normal(3, 5, 7, dtype=dtype), **tolerance)


def test_half_precision_accumulates_in_single(check_lowering: Check) -> None:
    """Added up in f16, 4096 ones are 2048; their squares overflow."""
    x = torch.full((2, 4096), 300.0, dtype=torch.float16)
    x[1] = 1
    check_lowering(lambda x: (x.sum(1), x.mean(1), x.var(1), x.logsumexp(1), x.norm(dim=1)), x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_of_integers(check_lowering: Check, dtype: Any) -> None:
    x = torch.randint(0, 9, (3, 5, 2), generator=torch.Generator().manual_seed(0)).to(dtype)
    some: list[Function] = [
        *(torch.sum, torch.prod, torch.amax, torch.max, torch.argmin, torch.any, torch.all),
        *(partial(torch.sum, dim=d) for d in (0, (1, 2))),
        *(partial(f, dim=1) for f in (torch.max, torch.min, torch.argmax, torch.any, torch.all)),
        lambda x: (x.sum(1, dtype=torch.int32), x.mean(1, dtype=torch.float32), x.prod(0)),
        lambda x: (x.cumsum(1), x.cumprod(0), x.cummax(1), x.cumsum(1, dtype=torch.float32)),
        lambda x: (x.logsumexp(1), x.count_nonzero(0), x.sum(dtype=torch.bool)),
    ]
    check_lowering(each(some), x)


def test_of_booleans(check_lowering: Check) -> None:
    x = torch.tensor([[True, False, True], [False, False, False]])
    some: list[Function] = [
        lambda x: (x.sum(), x.sum(0), x.any(), x.all(), x.any(1), x.all(0), x.any(()), x.all(())),
        lambda x: (x.prod(), x.amax(1), x.max(1), x.cumsum(1), x.count_nonzero(), x.min()),
        lambda x: (x.float().mean(), x.cumprod(0), x.any((0, 1)), x.all((0, 1), keepdim=True)),
    ]
    check_lowering(each(some), x)


def test_nan_infinity_and_ties(check_lowering: Check) -> None:
    inf, nan = math.inf, math.nan
    x = torch.tensor(
        [[1.0, nan, 3.0, nan], [inf, -inf, 2.0, inf], [-inf, -inf, -inf, -inf], [5.0, 2, 5, 2]]
    )
    some: list[Function] = [
        *(partial(f, dim=1) for f in (torch.max, torch.min, torch.argmax, torch.argmin)),
        *(partial(f, dim=1) for f in (torch.cummax, torch.cummin, torch.logsumexp, torch.softmax)),
        *(partial(f, dim=1) for f in (torch.sum, torch.nansum, torch.nanmean, torch.amax)),
        *(torch.argmax, torch.max, torch.aminmax, torch.any, torch.count_nonzero),
        lambda x: (x[3].argmax(), x[3].argmin(), x[:, :1].logsumexp(1), x.log_softmax(0)),
        lambda x: (x.cumsum(1), torch.ops.aten._safe_softmax(x, 1), x.std(0), x.var(1)),
        lambda x: (torch.ops.aten._safe_softmax(x, 0, dtype=torch.float64), x.norm(dim=1)),
    ]
    check_lowering(each(some), x)


def test_numbers_have_one_dimension(check_lowering: Check) -> None:
    x = torch.tensor(2.5)
    some: list[Function] = [
        *(
            partial(f, dim=d)
            for f in (torch.sum, torch.mean, torch.max, torch.argmax)
            for d in (0, -1)
        ),
        *(partial(f, dim=0) for f in (torch.cumsum, torch.cumprod, torch.cummax, torch.softmax)),
        *(partial(f, dim=0) for f in (torch.logsumexp, torch.any, torch.prod, torch.amin)),
        lambda x: (x.sum(), x.argmin(), x.var(correction=0), x.norm(), x.aminmax(), x.all()),
    ]
    check_lowering(each(some), x)


def test_empty(check_lowering: Check) -> None:
    x = torch.ones(3, 0, 2)
    some: list[Function] = [
        lambda x: (x.sum(1), x.prod(1), x.mean(1), x.var(1), x.any(1), x.all(1), x.logsumexp(1)),
        lambda x: (x.amax(0), x.max(2), x.argmax(0), x.cumsum(1), x.softmax(1), x.log_softmax(2)),
        lambda x: (x.sum(), x.norm(dim=1), x.count_nonzero(1), x.cummax(1), x[:, :, 0].sum()),
    ]
    check_lowering(each(some), x)


def test_torch_s_own_error_for_the_maximum_of_nothing() -> None:
    with pytest.raises((IndexError, RuntimeError), match="max"):
        trace(lambda x: x.amax(1), (torch.ones(3, 0),))


def test_sizes_known_at_run_time(check_lowering: Check) -> None:
    def model(x: torch.Tensor) -> Any:
        shares = (x.softmax(0), x.log_softmax(1), x.logsumexp(0), F.layer_norm(x.T, (x.shape[0],)))
        return shares, x.mean(0), x.var(0), x.std(), x.argmax(), x.cumsum(0), x.amax((0, 1))

    others = [(normal(n, 3, seed=n),) for n in (2, 11)]
    check_lowering(model, normal(7, 3), dynamic={"x": {0: "n"}}, also=others)


TARGETS = torch.tensor([1, 0, -100, 3])
WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 0.25])
REDUCTIONS = ("none", "mean", "sum")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cross_entropy(check_lowering: Check, dtype: Any) -> None:
    def losses(x: torch.Tensor, t: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
        wide = torch.stack([x, x * 2, x - 1], dim=2)
        far = t[:, None].expand(4, 3)
        options: list[dict[str, Any]] = [{}, {"weight": w}, {"label_smoothing": 0.1}]
        options += [{"ignore_index": 3}, {"weight": w, "label_smoothing": 0.2}]
        out = [F.cross_entropy(x, t.clamp(min=0), reduction=r) for r in REDUCTIONS]
        out += [F.cross_entropy(x, t, **o) for o in options if "ignore_index" not in o]
        out += [F.cross_entropy(x, t.clamp(min=0), **o) for o in options]
        out += [F.cross_entropy(wide, far, reduction=r, weight=w) for r in REDUCTIONS]
        out += [F.cross_entropy(x, x.softmax(1), label_smoothing=0.1), F.cross_entropy(x[0], t[0])]
        return out + [F.nll_loss(x, t, weight=w, reduction=r) for r in REDUCTIONS]

    check_lowering(losses, normal(4, 4, dtype=dtype), TARGETS, WEIGHTS.to(dtype))


def test_a_class_that_does_not_exist() -> None:
    """The target of a loss is checked when the program runs: it is an index made of data."""
    program = lower(trace(F.cross_entropy, (normal(4, 4), TARGETS.clamp(min=0)))).program
    assert "checked(" in str(program)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_losses(check_lowering: Check, dtype: Any) -> None:
    def losses(x: torch.Tensor, y: torch.Tensor) -> list[Any]:
        p, q = x.sigmoid(), y.sigmoid()
        out: list[Any] = []
        for r in REDUCTIONS:
            out += [f(x, y, reduction=r) for f in (F.mse_loss, F.l1_loss, F.smooth_l1_loss)]
            out += [F.smooth_l1_loss(x, y, reduction=r, beta=0.3)]
            out += [F.huber_loss(x, y, reduction=r), F.huber_loss(x, y, reduction=r, delta=0.4)]
            out += [F.binary_cross_entropy(p, q, reduction=r), F.kl_div(p.log(), q, reduction=r)]
            out += [F.binary_cross_entropy_with_logits(x, q, pos_weight=q + 1, reduction=r)]
            out += [F.soft_margin_loss(x, y.sign(), reduction=r)]
        out += [F.binary_cross_entropy(p, q, weight=q), F.kl_div(x, y, log_target=True)]
        out += [F.margin_ranking_loss(x, y, y.sign()), F.hinge_embedding_loss(x, y.sign())]
        out += [
            F.poisson_nll_loss(x, q),
            F.triplet_margin_loss(x, y, p),
        ]
        return [*out, F.cosine_embedding_loss(x, y, y[:, 0].sign())]

    x, y = normal(4, 5, dtype=dtype), normal(4, 5, dtype=dtype, seed=1)
    tolerance = {"rtol": 4e-3, "atol": 5e-4} if dtype is torch.float16 else {}
    check_lowering(losses, x, y, **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_norms(check_lowering: Check, dtype: Any) -> None:
    def norms(x: torch.Tensor, w: torch.Tensor) -> list[Any]:
        last, both = (6,), (4, 6)
        big = torch.stack([w] * 4)
        mean, var = w[:4], w[:4].abs() + 0.5
        return [
            *(F.layer_norm(x, last), F.layer_norm(x, last, w, w, 0.1), F.layer_norm(x, both, big)),
            *(F.rms_norm(x, last), F.rms_norm(x * 1e-4, last, w), F.rms_norm(x, both, big, 0.1)),
            *(F.group_norm(x, 2), F.group_norm(x, 4, mean, var), F.group_norm(x, 1, None, mean)),
            *(F.batch_norm(x, mean, var), F.batch_norm(x, mean, var, mean, var, eps=0.1)),
            F.instance_norm(x, mean, var, use_input_stats=False),
            *torch.ops.aten.native_layer_norm(x, list(last), w, None, 1e-5),
            *torch.ops.aten.native_group_norm(x, None, None, 3, 4, 6, 2, 1e-5),
            F.local_response_norm(x, 2),
        ]

    check_lowering(norms, normal(3, 4, 6, dtype=dtype) + 10, normal(6, dtype=dtype, seed=1))


def test_norms_as_modules(check_lowering: Check) -> None:
    """Also where the mean is large against the deviation, which one pass would cancel away."""
    modules = [nn.LayerNorm(8), nn.RMSNorm(8), nn.GroupNorm(2, 4), nn.BatchNorm1d(4)]
    modules += [
        nn.InstanceNorm1d(4, affine=True),
        nn.InstanceNorm1d(4),
        nn.BatchNorm1d(4, track_running_stats=False),
    ]
    model = nn.ModuleList(modules).eval()

    def all_of(x: torch.Tensor) -> list[torch.Tensor]:
        return [m(x) for m in model]

    check_lowering(all_of, normal(3, 4, 8) + 1000, rtol=1e-3, atol=1e-3)


def test_softmax_keeps_the_structure_that_fusion_knows() -> None:
    """max, exp of the difference, sum: what becomes one pass. See rules/twist.py."""
    for function in (partial(torch.softmax, dim=1), partial(torch.logsumexp, dim=1)):
        text = str(lower(trace(lambda x, f=function: f(x), (normal(3, 5),))).program)
        assert "= max[k1 < 5](x[i0, k1])" in text
        assert "exp(" in text
        assert "= sum[k1 < 5](" in text


REFUSED: list[tuple[str, Function, torch.Tensor]] = [
    ("aten.median.dim", partial(torch.median, dim=1), normal(3, 5)),
    ("aten.mode.default", torch.mode, normal(3, 5)),
    ("aten.kthvalue.default", partial(torch.kthvalue, k=2), normal(3, 5)),
    ("aten.logcumsumexp.default", partial(torch.logcumsumexp, dim=0), normal(3, 5)),
]


@pytest.mark.parametrize(("words", "function", "x"), REFUSED, ids=[r[0] for r in REFUSED])
def test_refusals(words: str, function: Function, x: torch.Tensor) -> None:
    with pytest.raises(Unsupported, match=words):
        lower(trace(lambda x: function(x), (x,)))


def test_training_statistics_are_refused() -> None:
    with pytest.raises(Unsupported, match="BUFFER_MUTATION"):
        lower(trace(nn.BatchNorm1d(5).train(), (normal(3, 5),)))
