"""The differential suite itself: it must call right what is right, and must be able to fail.

The compilers here are eager with one thing wrong. Some of those are what a public compiler
really got wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.testing._comparison import default_tolerances
from torch.utils import _pytree as pytree

from rift.errors import WrongUsage
from rift_compiler.differential import opinfo, probes, suite
from rift_compiler.differential.compare import TOLERANCES, Case, Verdict, judge

FLOAT32 = (torch.float32,)
Function = Callable[..., Any]
Rewrite = Callable[[Function, tuple[Any, ...], dict[str, Any]], Any]


class Refusal(Exception):
    """What these compilers raise for what they won't do."""


def eager(function: Function, args: tuple[Any, ...], target: str) -> Function:
    return lambda *args: function(*args)


def compiler(change: Callable[[Any], Any]) -> suite.Compiler:
    """Eager whose outputs are changed: each tensor goes through `change`."""

    def compile(function: Function, args: tuple[Any, ...], target: str) -> Function:
        return lambda *args: pytree.tree_map_only(Tensor, change, function(*args))

    return compile


def rows(compile: suite.Compiler, *names: str, samples: int = 1, **given: Any) -> list[suite.Row]:
    return list(suite.run(names, "cpu", samples, compile, Refusal, **given))


def verdict(got: Any, function: Function, *args: Any) -> Verdict:
    """Of a compiled function that always returns `got`."""
    return judge(lambda *_: pytree.tree_map_only(Tensor, torch.clone, got), function, args, Refusal)


def test_every_operator_is_in_pytorchs_table() -> None:
    assert opinfo.unknown() == []
    assert opinfo.unknown(["add", "nonsense"]) == ["nonsense"]
    assert len(set(opinfo.OPS)) == len(opinfo.OPS)
    exceptions = {*opinfo.DIRECT, *opinfo.LEFT_OUT, *opinfo.TIES}
    assert exceptions <= set(opinfo.OPS)


def test_probes_cover_what_went_wrong_elsewhere() -> None:
    names = [probe.name for probe in probes.PROBES]
    assert len(set(names)) == len(names) >= 83
    kinds = {probe.kind for probe in probes.PROBES}
    assert {*probes.MISCOMPILED, *probes.REFUSED} <= kinds


def test_tolerances_are_pytorchs() -> None:
    for dtype, tolerance in TOLERANCES.items():
        assert default_tolerances(dtype) == tolerance


def test_eager_is_right_on_every_probe() -> None:
    for row in rows(eager, "probes"):
        assert (row.right, row.refused, row.wrong, row.skipped) == (1, 0, 0, 0), row


@pytest.mark.parametrize(
    "name",
    ["add", "sum", "cat", "__getitem__", "to", "arange", "nn.functional.conv2d", "topk", "einsum"],
)
def test_eager_is_right_on_operators(name: str) -> None:
    (row,) = rows(eager, name, samples=2)
    assert row.right > 0
    assert (row.refused, row.wrong, row.skipped) == (0, 0, 0), row


def _off_by_a_little(tensor: Tensor) -> Tensor:
    return tensor + 1e-3 if tensor.is_floating_point() else tensor


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        (_off_by_a_little, "value", "max error 0.001 abs"),
        (lambda t: t.double(), "dtype", "expected dtype torch.float32, got torch.float64"),
        (lambda t: t.unsqueeze(0), "shape", "expected shape (3, 5), got (1, 3, 5)"),
        (lambda t: (t, t), "structure", "expected"),
        (lambda t: t[9], "crash", "IndexError: index 9 is out of bounds"),
    ],
)
def test_a_wrong_output_is_wrong(change: Callable[[Any], Any], kind: str, says: str) -> None:
    (row,) = rows(compiler(change), "probe/add_alpha")
    assert (row.right, row.refused, row.wrong) == (0, 0, 1)
    assert row.first_wrong.startswith(f"{kind}: ")
    assert says in row.first_wrong


def test_a_refusal_is_neither_right_nor_wrong() -> None:
    def refuse(function: Function, args: tuple[Any, ...], target: str) -> Function:
        raise Refusal(f"aten.add alpha= on {target}\nat model.py:3")

    (row,) = rows(refuse, "add", samples=2, dtypes=[torch.float32])
    assert (row.right, row.refused, row.wrong) == (0, 2, 0)
    assert row.first_refused.startswith("refused: aten.add alpha= on cpu (float32 #")


def test_a_compiler_that_breaks_down_is_wrong() -> None:
    def break_down(function: Function, args: tuple[Any, ...], target: str) -> Function:
        raise KeyError("aten.add")

    (row,) = rows(break_down, "probe/add_alpha")
    assert row.first_wrong == "crash: KeyError: 'aten.add' (alpha)"


class Rewritten(TorchFunctionMode):
    """Calls of the named functions go to `rewrite` instead."""

    def __init__(self, names: str, rewrite: Rewrite) -> None:
        super().__init__()
        self.names, self.rewrite = names.split(), rewrite

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if getattr(func, "__name__", "") in self.names:
            return self.rewrite(func, args, dict(kwargs or {}))
        return func(*args, **(kwargs or {}))


def without(*keywords: str) -> Rewrite:
    """The function, deaf to these keywords."""
    return lambda func, args, kwargs: func(
        *args, **{key: value for key, value in kwargs.items() if key not in keywords}
    )


def _flat_copy(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, *axes = args
    return torch.reshape(x, [x.shape[axis] for axis in axes])


def _stepless(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, index = args
    right, last = func(x, index), index[-1]
    if not isinstance(last, slice):
        return right
    start = last.start or 0
    return x[..., start : start + right.shape[-1]]


def _first_axis(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, axes = args
    right, short = func(x, axes, **kwargs), func(x, axes[:1], **kwargs)
    return short.flatten()[: right.numel()].view(right.shape)


def _additive_mask(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    mask = kwargs.pop("attn_mask")
    return func(*args, attn_mask=mask if mask is None else mask.to(args[0].dtype), **kwargs)


def _last_axis(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    x, shape, *affine = args
    weight = kwargs.get("weight", affine[0] if affine else torch.ones(()))
    return F.normalize(x, dim=-1) * shape[-1] ** 0.5 * weight


def _fixed_eps(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func(*args, **{**kwargs, "eps": 1e-6 if kwargs["eps"] is None else kwargs["eps"]})


ELSEWHERE: dict[str, tuple[str, Rewrite, str]] = {
    "permute": ("permute", _flat_copy, "permute"),
    "slice step": ("__getitem__", _stepless, "slice_step"),
    "interleaved rotary": ("__getitem__", _stepless, "rotary_interleaved"),
    "alpha": ("add", without("alpha"), "add_alpha"),
    "addmm scalars": ("addmm", without("beta", "alpha"), "addmm_beta_alpha"),
    "rounding mode": ("div", without("rounding_mode"), "div_trunc"),
    "boolean mask": ("scaled_dot_product_attention", _additive_mask, "mask_boolean"),
    "several axes": ("sum", _first_axis, "sum_axes"),
    "norm over several axes": ("layer_norm rms_norm", _last_axis, "rms_norm_axes"),
    "default eps": ("rms_norm", _fixed_eps, "rms_norm_tiny"),
}


@pytest.mark.parametrize("kind", probes.MISCOMPILED)
def test_each_known_miscompilation_is_caught(kind: str) -> None:
    functions, rewrite, probe = ELSEWHERE[kind]

    def compile(function: Function, args: tuple[Any, ...], target: str) -> Function:
        def call(*args: Any) -> Any:
            with Rewritten(functions, rewrite):
                return function(*args)

        return call

    (row,) = rows(compile, f"probe/{probe}")
    assert row.wrong == 1
    assert row.first_wrong.startswith("value: "), row
    assert rows(compile, "probe/gelu_tanh")[0].right == 1


def test_values_baked_in_at_compile_time_are_caught() -> None:
    def bake(function: Function, args: tuple[Any, ...], target: str) -> Function:
        outputs = function(*args)
        return lambda *args: pytree.tree_map_only(Tensor, torch.clone, outputs)

    for row in rows(bake, "probe/add_alpha", "probe/zero_dimensions", "probe/gather"):
        assert row.wrong == 1, row


def test_a_reused_output_buffer_is_caught() -> None:
    def reuse(function: Function, args: tuple[Any, ...], target: str) -> Function:
        buffer = torch.empty(3, 5)
        return lambda *args: buffer.copy_(function(*args))

    (row,) = rows(reuse, "probe/add_alpha")
    assert row.first_wrong.startswith("memory: output 0 is overwritten")


def test_a_workspace_that_is_not_reset_is_caught() -> None:
    def accumulate(function: Function, args: tuple[Any, ...], target: str) -> Function:
        total = torch.zeros(3, 5)
        return lambda *args: total.add_(function(*args)).clone()

    (row,) = rows(accumulate, "probe/add_alpha")
    assert row.first_wrong.startswith("value: ")


def test_a_changed_input_is_caught() -> None:
    def in_place(function: Function, args: tuple[Any, ...], target: str) -> Function:
        return lambda x, y: x.add_(y, alpha=2.5)

    (row,) = rows(in_place, "probe/add_alpha")
    assert row.first_wrong.startswith("inputs: input 0 after the call: ")
    assert rows(eager, "probe/writes_input")[0].right == 1


def test_an_input_not_written_is_caught() -> None:
    def pure(function: Function, args: tuple[Any, ...], target: str) -> Function:
        return lambda *args: function(*map(torch.clone, args))

    (row,) = rows(pure, "probe/writes_input")
    assert row.first_wrong.startswith("inputs: input 0 after the call: ")


def test_gaps_between_strided_elements_show() -> None:
    def flat(function: Function, args: tuple[Any, ...], target: str) -> Function:
        return lambda x, y: function(x.as_strided(x.shape, (x.shape[1], 1)), y)

    (row,) = rows(flat, "probe/input_stepped")
    assert "got nan" in row.first_wrong


def test_what_eager_cannot_do_is_skipped() -> None:
    assert verdict(torch.ones(3), lambda x: x @ x, torch.ones(2, 3)).outcome == "skipped"


def test_where_nan_and_infinities_stand_is_exact() -> None:
    x = torch.tensor([1.0, float("nan"), float("inf"), 3e38])
    assert verdict(x.clone(), torch.clone, x).outcome == "right"
    for index, value in ((0, float("nan")), (1, 0.0), (2, -float("inf")), (3, float("inf"))):
        got = x.clone()
        got[index] = value
        result = verdict(got, torch.clone, x)
        assert result.kind == "value"
        assert result.difference is not None
        assert result.difference.index == (index,)
        assert result.difference.count == 1


def test_integers_are_exact_beyond_what_float64_holds() -> None:
    x = torch.tensor([0, 2**53 + 1])
    result = verdict(x - torch.tensor([0, 1]), torch.clone, x)
    assert result.difference is not None
    assert (result.difference.index, result.difference.got) == ((1,), 2**53)


def test_a_large_error_of_eagers_does_not_excuse_small_elements() -> None:
    """Rounding e^9 to float16 errs by up to 4: that says nothing on elements around 1."""
    x = torch.linspace(-9, 9, 33).half()
    assert verdict(x.float().exp().half(), torch.exp, x).outcome == "right"
    got = torch.exp(x)
    got[16] += 0.01
    assert verdict(got, torch.exp, x).kind == "value"


def test_a_sum_may_err_as_eager_does_or_as_a_random_walk_but_no_more() -> None:
    torch.manual_seed(1)
    x = torch.randn(4096)
    one_by_one = torch.cumsum(x, 0)[-1]  # in order, while eager's sum is pairwise
    assert verdict(one_by_one, torch.sum, x).outcome == "right"
    assert verdict(x.sum() + 0.01, torch.sum, x).kind == "value"
    a, b = torch.randn(3, 999).half(), torch.randn(999, 5).half()
    assert verdict((a.float() @ b.float()).half(), torch.matmul, a, b).outcome == "right"
    assert verdict((a @ b) * 1.01, torch.matmul, a, b).kind == "value"


def test_float64_stands_in_only_where_it_means_the_same() -> None:
    """Where the largest float32 below 1 rounds up is not where float64 does: eager decides."""
    x = torch.tensor([0.1, 0.7])

    def jumps(x: Tensor) -> Tensor:
        return torch.floor(x * 10)  # 0.7f * 10 is 7 in float32, 6.9999998... in float64

    assert verdict(torch.tensor([1.0, 7.0]), jumps, x).outcome == "right"
    assert verdict(torch.tensor([1.0, 6.0]), jumps, x).kind == "value"


def test_cases_are_the_same_in_every_run() -> None:
    def drawn(seed: int) -> Iterator[Case]:
        torch.manual_seed(seed)
        for name in ("nn.functional.cross_entropy", "add", "gather"):
            yield from opinfo.cases(name, 3)
        yield from (probe.case() for probe in probes.PROBES[:20])

    for one, other in zip(drawn(1), drawn(2), strict=True):
        assert one.label == other.label
        torch.testing.assert_close(one.args, other.args, rtol=0, atol=0, equal_nan=True)


def test_drawing_cases_leaves_the_generators_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    list(opinfo.cases("nn.functional.nll_loss", 2))
    probes.PROBES[0].case()
    assert torch.equal(torch.rand(3), expected)


def test_samples_differ_in_keywords_first() -> None:
    labels = [case.label for case in opinfo.cases("nn.functional.conv2d", 6, "cpu", FLOAT32)]
    assert len(labels) == 6
    for keyword in ("stride=", "padding=", "dilation=", "groups="):
        assert any(keyword in label for label in labels), labels
    assert len(list(opinfo.cases("nn.functional.conv2d", 1, "cpu", FLOAT32))) == 1


def test_progress_and_interruption() -> None:
    seen: list[tuple[str, int, int]] = []

    def progress(name: str, done: int, of: int) -> None:
        seen.append((name, done, of))
        if done == 2:
            raise KeyboardInterrupt

    names = ("probe/permute", "probe/mish", "probe/elu", "probe/fft")
    got = rows(eager, *names, progress=progress)
    assert [row.name for row in got] == ["probe/permute", "probe/mish"]
    assert seen[-1] == ("probe/elu", 2, 4)
    assert suite.as_json(got, names, "cpu")["complete"] is False


def test_an_unknown_name_is_refused_at_once() -> None:
    with pytest.raises(
        WrongUsage, match=r"no differential case is called 'probe/premute'.*permute"
    ):
        suite.selected(["add", "probe/premute"])
    assert suite.selected(["probes", "add", "probe/mish"])[-1] == "add"
    assert suite.selected(None) == suite.all_names()


ROWS = [
    suite.Row("add", right=12),
    suite.Row(
        "nn.functional.scaled_dot_product_attention", 3, 2, first_refused="refused: " + "x " * 40
    ),
    suite.Row("probe/add_alpha", wrong=1, skipped=2, first_wrong="value: off", first_refused="no"),
]


def test_table_fits_80_columns() -> None:
    lines = suite.table(ROWS)
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["op", "right", "refused", "wrong", "first", "reason"]
    assert lines[2].split() == ["add", "12", "0", "0"]
    assert lines[3].startswith("F.scaled_dot_product_attention     3       2     0  refused: x x")
    assert lines[4].split() == ["probe/add_alpha", "0", "0", "1", "value:", "off"]
    assert lines[6].split()[:4] == ["total", "15", "2", "1"]
    assert "2 skipped" in lines[6]


def test_json_has_the_rows_and_the_totals() -> None:
    names = [row.name for row in ROWS]
    data = json.loads(json.dumps(suite.as_json(ROWS, names, "cpu")))
    assert data["complete"] is True
    assert data["totals"] == {"right": 15, "refused": 2, "wrong": 1, "skipped": 2}
    assert data["rows"][2]["first_wrong"] == "value: off"
    assert suite.totals([]) == suite.Row("total")
