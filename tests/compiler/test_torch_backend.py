"""torch.compile(backend="rift"): right whatever the graph is, and what was decided is recorded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import rift_compiler
from rift.errors import WrongUsage
from rift_compiler import dispatch, trials
from rift_compiler.compile_graph import Refused
from rift_compiler.dispatch import Dispatcher, Options
from rift_compiler.measure import Timing
from rift_compiler.torch_backend import read_options
from rift_compiler.torch_graph import graph_of

pytestmark = pytest.mark.usefixtures("home")


class Messages(logging.Handler):
    """What the logger `rift` said."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@pytest.fixture(autouse=True)
def said() -> Iterator[list[str]]:
    torch._dynamo.reset()
    handler = Messages()
    logger = logging.getLogger("rift")
    logger.addHandler(handler)
    logger.propagate = False
    yield handler.texts
    logger.propagate = True
    logger.removeHandler(handler)


def times(**seconds: float) -> Callable[[Mapping[str, Any]], dict[str, Timing]]:
    """A measurement whose outcome is given."""
    return lambda ways: {w: Timing(seconds[w], seconds[w], seconds[w], 1, 1) for w in ways}


def compiled(
    function: Callable[..., Any], options: Options, ours_s: float = 1.0, eager_s: float = 2.0
) -> tuple[Callable[..., Any], list[Dispatcher]]:
    """A function under the backend with a given outcome of measurements; and its graphs."""
    made: list[Dispatcher] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Dispatcher:
        measured = times(ours=ours_s, eager=eager_s, inductor=3.0)
        made.append(Dispatcher(graph_of(module), options, measured))
        return made[-1]

    run = torch.compile(function, backend=backend)

    def call(*inputs: Any) -> Any:
        with torch.no_grad():
            return run(*inputs)

    return call, made


def test_the_entry_point_runs_a_model_of_any_batch() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.RMSNorm(16), nn.Linear(16, 4)).eval()
    fast = torch.compile(model, backend="rift", options={"dispatch": "ours"})

    with torch.no_grad():
        for batch in (3, 5, 7, 1):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(fast(x), model(x))


def test_inference_mode() -> None:
    model = nn.Linear(8, 4).eval()
    with torch.inference_mode():
        fast = torch.compile(model, backend="rift", options={"dispatch": "ours"})
        for batch in (2, 3):
            x = torch.randn(batch, 8)
            torch.testing.assert_close(fast(x), model(x))


def test_training_runs_stock_and_says_so(said: list[str]) -> None:
    model = nn.Linear(4, 2)
    fast = torch.compile(model, backend="rift")
    fast(torch.randn(3, 4)).sum().backward()

    assert model.weight.grad is not None
    assert "gradients are recorded" in said[0]


def test_a_graph_that_is_refused_runs_stock_says_so_once_and_is_recorded(said: list[str]) -> None:
    call, made = compiled(lambda x: torch.sort(x + 1)[0], Options())
    x = torch.randn(5)
    torch.testing.assert_close(call(x), torch.sort(x + 1)[0])
    call(x)

    (message,) = said
    assert "aten.sort" in message
    assert "test_torch_backend.py" in message
    (trial,) = trials.every()
    assert (trial.choice, trial.times_s) == ("eager", {})
    assert made[0].taken == [trial]


def test_the_faster_way_is_used_and_remembered() -> None:
    slow, _ = compiled(lambda x: torch.softmax(x, -1), Options(), ours_s=2.0, eager_s=1.0)
    slow(torch.randn(2, 8))
    fast, _ = compiled(lambda y: torch.softmax(y, -1), Options(), ours_s=1.0, eager_s=2.0)
    fast(torch.randn(2, 9))

    kept = {t.of.shapes: t for t in trials.every()}
    assert kept["f32[2,8]"].choice == "eager"
    assert kept["f32[2,9]"].choice == "ours"
    assert kept["f32[2,8]"].of.problem == kept["f32[2,9]"].of.problem

    torch._dynamo.reset()
    again, made = compiled(lambda z: torch.softmax(z, -1), Options(), ours_s=1.0, eager_s=2.0)
    again(torch.randn(2, 8))
    assert made[0].taken == []  # the record answered
    assert made[0].kernels == {}  # and nothing was compiled


def test_another_compiler_is_another_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("one", "two"):
        torch._dynamo.reset()
        monkeypatch.setattr(dispatch, "compiler_version", lambda v=version: v)
        compiled(lambda x: x * 2, Options())[0](torch.randn(3))

    assert {t.of.compiler for t in trials.every()} == {"one", "two"}


def test_a_wrong_kernel_is_never_used(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    monkeypatch.setattr(dispatch, "compile_graph", lambda *_: lambda x: [x * 2 + 1e-3])
    call, _ = compiled(lambda x: x * 2, Options(), ours_s=1.0, eager_s=2.0)
    x = torch.ones(4)

    assert torch.equal(call(x), x * 2)
    (trial,) = trials.every()
    assert trial.choice == "eager"
    assert trial.difference == pytest.approx(5e-4, rel=1e-2)
    assert "ours is wrong: output 0" in trial.reason
    assert said


def test_inductor_is_a_candidate_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_inductor", lambda graph, _: graph.stock.forward)
    compiled(lambda x: x * 3, Options())[0](torch.randn(3))
    (trial,) = trials.every()
    assert set(trial.times_s) == {"ours", "eager"}

    torch._dynamo.reset()
    compiled(lambda x: x * 3, Options(inductor=True))[0](torch.randn(3))
    (trial,) = trials.every()  # the record did not answer
    assert set(trial.times_s) == {"ours", "eager", "inductor"}


def test_a_view_of_an_input_stays_one(said: list[str]) -> None:
    call, _ = compiled(lambda x: (x + 1, x.t()), Options(dispatch="ours"))
    x = torch.randn(2, 3)

    assert call(x)[1].data_ptr() == x.data_ptr()
    assert "output 1 shares its memory with an input" in said[0]


def test_inputs_that_are_changed_are_changed(said: list[str]) -> None:
    call, _ = compiled(lambda x: x.add_(1), Options(dispatch="ours"))
    x = torch.zeros(3)
    call(x)

    assert torch.equal(x, torch.ones(3))
    assert said


def test_measuring_changes_no_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_all(ways: Mapping[str, Callable[[int], object]]) -> dict[str, Timing]:
        for n, run in enumerate([*ways.values()] * 2):
            run(n)
        return times(eager=1.0, inductor=2.0)(ways)

    monkeypatch.setattr(dispatch, "_inductor", lambda graph, _: graph.stock.forward)
    made: list[Dispatcher] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Dispatcher:
        made.append(Dispatcher(graph_of(module), Options(inductor=True), run_all))
        return made[-1]

    def grow(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    x = torch.zeros(3)
    with torch.no_grad():
        torch.compile(grow, backend=backend)(x)
    assert torch.equal(x, torch.ones(3))
    assert set(made[0].taken[0].times_s) == {"eager", "inductor"}


def test_outputs_keep_their_strides() -> None:
    call, _ = compiled(lambda x: (x * 2).permute(2, 0, 1), Options(dispatch="ours"))
    x = torch.randn(2, 3, 4)

    assert call(x).stride() == (x * 2).permute(2, 0, 1).stride()
    torch.testing.assert_close(call(x), (x * 2).permute(2, 0, 1))


def test_strided_inputs_and_numbers() -> None:
    call, made = compiled(lambda x, n: (x.t() @ x) * n, Options(dispatch="ours"))
    for n in (2, 3, 4):
        x = torch.randn(6, 4)[:, ::2]
        torch.testing.assert_close(call(x, n), (x.t() @ x) * n)
    assert all(not isinstance(k, Refused) for d in made for k in d.kernels.values())


def test_a_cache_that_grows_is_one_kernel() -> None:
    def step(q: torch.Tensor, k: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Any:
        keys, values = torch.cat((keys, k), 2), torch.cat((values, k * 2), 2)
        out = torch.nn.functional.scaled_dot_product_attention(q, keys, values)
        return out, keys, values

    call, made = compiled(step, Options(dispatch="ours"))
    q, k = torch.randn(1, 2, 1, 4), torch.randn(1, 2, 1, 4)
    keys, values = torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)
    for _ in range(4):
        got, expected = call(q, k, keys, values), step(q, k, keys, values)
        torch.testing.assert_close(got, expected)
        _, keys, values = expected
    assert len(made) == 2  # a fixed size, then any
    assert [t.choice for d in made for t in d.taken] == ["ours"] * 4


def test_two_names_of_one_size() -> None:
    attention = torch.nn.functional.scaled_dot_product_attention
    q, kv = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4)
    names = {"k": {2: "a"}, "v": {2: "b"}}
    made = rift_compiler.compile(lambda q, k, v: attention(q, k, v), (q, kv, kv), dynamic=names)

    longer = torch.randn(1, 2, 7, 4)
    torch.testing.assert_close(made(q, longer, longer), attention(q, longer, longer))
    with pytest.raises(WrongUsage, match="input 2: expected the shape"):
        made(q, longer, kv)


def test_a_kernel_that_fails_is_not_used(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    def fails(*_: Any) -> Any:
        raise KeyError("k")

    monkeypatch.setattr(dispatch, "compile_graph", lambda *_: fails)
    call, _ = compiled(lambda x: x * 2, Options(dispatch="ours"))
    assert torch.equal(call(torch.ones(2)), torch.full((2,), 2.0))
    assert "KeyError" in said[0]


def test_the_model_s_own_error_is_raised() -> None:
    call, _ = compiled(lambda table, n: table[n], Options())
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        call(torch.randn(4), torch.tensor([7]))


def test_many_sizes_end_in_stock(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    monkeypatch.setattr(dispatch, "MOST_SIZES", 2)
    call, _ = compiled(lambda x: x + 1, Options())
    for n in range(2, 8):
        x = torch.randn(n)
        assert torch.equal(call(x), x + 1)

    assert [t for t in said if "more than 2 sizes" in t]


def test_no_compiler_runs_stock(monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    from rift_compiler import build_cpp

    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CXX", "")
    build_cpp.compiler.cache_clear()
    call, _ = compiled(lambda x: x * 5, Options())
    try:
        assert torch.equal(call(torch.ones(3)), torch.full((3,), 5.0))
    finally:
        build_cpp.compiler.cache_clear()

    assert "no C++ compiler" in said[0]
    assert trials.every() == []  # another day there is one


def test_a_cache_that_cannot_be_written_runs_stock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RIFT_HOME", str(tmp_path / "file"))
    call, _ = compiled(lambda x: x * 7, Options())

    assert torch.equal(call(torch.ones(3)), torch.full((3,), 7.0))
    assert [t for t in said if str(tmp_path / "file") in t]


def test_autocast_runs_stock(said: list[str]) -> None:
    call, _ = compiled(lambda x: x @ x, Options(dispatch="ours"))
    with torch.autocast("cpu", torch.bfloat16):
        assert call(torch.randn(4, 4)).dtype is torch.bfloat16
    assert "autocast" in said[0]


@pytest.mark.parametrize(
    ("options", "mode", "message"),
    [
        ({"dispach": "ours"}, None, "unknown options dispach: expected dispatch, inductor"),
        ({"dispatch": "always"}, None, "expected one of measure, again, ours"),
        ({"inductor": "yes"}, None, "expected True or False"),
        ({}, "max-autotune", "mode='max-autotune' is Inductor's"),
    ],
)
def test_bad_options(options: dict[str, Any], mode: str | None, message: str) -> None:
    with pytest.raises(WrongUsage, match=message):
        read_options(options, mode)
