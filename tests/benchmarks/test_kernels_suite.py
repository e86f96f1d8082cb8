"""The kernels suite: its maths, its buffers, its gate, its documents; nothing here is timed."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from jsonschema import Draft202012Validator
from rich.cells import cell_len
from rich.console import Console

from rift.cli import main
from rift.errors import Blocked, Failed, WrongUsage
from rift_benchmarks import run_directory
from rift_benchmarks.kernels import (
    allocators,
    measuring,
    problems,
    report,
    suite,
    tables,
    worker,
)
from rift_benchmarks.kernels import result as documents
from rift_benchmarks.kernels import ways as ways_
from rift_benchmarks.kernels.limits import Limits
from rift_benchmarks.kernels.measuring import Setting, ring
from rift_benchmarks.kernels.problems import Problem
from rift_benchmarks.kernels.result import Machine, Result, Row
from rift_benchmarks.kernels.ways import Ways
from rift_compiler import trials
from rift_compiler.dispatch import Dispatcher
from rift_compiler.measure import Timing
from rift_compiler.torch_graph import graph_of

pytestmark = pytest.mark.usefixtures("home")
COMMITTED = Path(__file__).parents[2] / "docs/kernels-result.schema.json"
GENERATE = (
    "python -c 'import json; from rift_benchmarks.kernels.result import json_schema; "
    "print(json.dumps(json_schema(), indent=2))' > docs/kernels-result.schema.json"
)
RATES = {"read": 10.0, "write": 5.0, "copy": 8.0, "triad": 9.0}
LIMITS = Limits(1, {"f32": 100.0, "f64": 50.0}, {"L2": RATES, "RAM": RATES}, {"L2": 1, "RAM": 2})
CACHES = {"L2": 1000, "L3": 10_000}
EVIL = "<script>alert(1)</script>\x1b[2J[red]"


def tiny(function: Callable[..., Any] = torch.matmul, rotated: bool = False) -> Problem:
    return Problem("matmul", "8", "f32", function, ((8, 8), (8, 8)), 1024.0, rotated)


def at(median_s: float, spread_s: float = 0.0) -> Timing:
    return Timing(median_s, median_s - spread_s / 2, median_s + spread_s / 2, 9, 1)


def row(**change: Any) -> Row:
    base = Row(
        problem="softmax f32 4096x2048", group="softmax", dtype="f32", allocator="default",
        threads=1, level="RAM", working_set_bytes=10**9, rotations=17, operations=3e7,
        bytes_read=2**25, bytes_written=2**25, bound="bytes", limit_s=0.008,
        times_s={"eager": at(0.02), "inductor": at(0.016, 0.004), "ours": at(0.01)},
        faults={"eager": 8193.0, "inductor": 0.0, "ours": 0.0}, reasons={}, difference=1e-7,
        allowed=5e-5, compile_s={"ours": 1.0, "inductor": 3.0}, runs="ours",
    )  # fmt: skip
    return replace(base, **change)


def result(*rows: Row, **change: Any) -> Result:
    machine = Machine("default", (LIMITS,), CACHES)
    base = Result(
        "rift.bench.kernels/1", "r1", "complete", "2026-01-01T00:00:00+00:00", "a CPU (avx2)",
        False, (), (), (machine,), rows or (row(),),
    )  # fmt: skip
    return replace(base, **change)


def test_rotated_buffers_are_many_and_a_call_frees_the_old_result_first() -> None:
    inputs = (torch.zeros(10), torch.zeros(10))
    made = ring(inputs, [torch.zeros(20)], total_bytes=500)  # 160 bytes each
    assert len(made.inputs) == 4
    assert len({t.data_ptr() for s in made.inputs for t in s}) == 8

    seen: list[tuple[int, bool]] = []

    def run(x: torch.Tensor, _: torch.Tensor) -> int:
        n = next(n for n, s in enumerate(made.inputs) if s[0] is x)
        seen.append((n, made.outputs[n] is None))
        return n

    call = made.call(run)
    for n in range(9):
        call(n)
    assert seen == [(n % 4, True) for n in range(9)]
    assert made.outputs == [0, 1, 2, 3]
    assert len(ring(inputs, [], None).inputs) == 1


def measured(problem: Problem, monkeypatch: pytest.MonkeyPatch, rotated_bytes: int = 2000) -> Row:
    """A row of a problem whose times are given: ours 1 s, eager 2 s."""
    given = {"ours": at(1.0), "eager": at(2.0), "inductor": at(3.0)}
    monkeypatch.setattr(
        measuring, "interleave", lambda calls, *_: {name: given[name] for name in calls}
    )
    setting = Setting(0.0, 1, inductor=False, rotated_bytes=rotated_bytes)
    threads = torch.get_num_threads()
    try:
        (found,) = measuring.rows(problem, {1: LIMITS}, CACHES, setting, lambda _: None)
    finally:
        torch.set_num_threads(threads)
    return found


def test_a_problem_becomes_a_row_and_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(tiny(), monkeypatch)

    assert (found.problem, found.level, found.rotations) == ("matmul f32 8", "L2", 1)
    assert (found.bytes_read, found.bytes_written) == (512, 256)
    assert set(found.times_s) == {"ours", "eager"}
    assert found.reasons == {"inductor": "not asked for"}
    assert found.runs == "ours"
    assert found.ratio == 2.0
    (trial,) = trials.every()
    assert (trial.choice, trial.what, trial.of.threads) == ("ours", "matmul", 1)
    assert trial.of.shapes == "f32[8,8] f32[8,8]"


def test_torch_compile_uses_the_record_of_the_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    measured(tiny(), monkeypatch)
    made: list[Dispatcher] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Dispatcher:
        made.append(Dispatcher(graph_of(module)))
        return made[-1]

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            x = torch.randn(8, 8)
            torch._dynamo.reset()
            out = torch.compile(lambda left, right: torch.matmul(left, right), backend=backend)
            torch.testing.assert_close(out(x, x + 1), x @ (x + 1))
    finally:
        torch.set_num_threads(threads)
    assert made[0].kernels  # ours runs
    assert made[0].taken == []  # and nothing was measured


def test_rotation_decides_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(tiny(rotated=True), monkeypatch, rotated_bytes=20_000)

    assert found.rotations == 27
    assert found.working_set_bytes > 20_000
    assert found.level == "RAM"


def test_a_refused_problem_has_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(tiny(lambda a, b: torch.sort(a @ b)[0]), monkeypatch)

    assert "aten.sort" in found.reasons["ours"]
    assert found.runs == "eager"
    assert found.ratio is None


def test_a_wrong_kernel_is_reported_and_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(_: Any, inputs: Sequence[torch.Tensor], into: Ways) -> None:
        into.run["ours"] = lambda a, b: a @ b + 1e-2

    monkeypatch.setattr(ways_, "ours", wrong)
    found = measured(tiny(), monkeypatch)

    assert found.reasons["ours"].startswith("wrong: output 0")
    assert "ours" not in found.times_s
    assert found.difference is not None
    assert found.difference > 1e-3


def test_inputs_keep_their_places_whatever_order_the_graph_has() -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(b, a)

    inputs = (torch.randn(3, 4), torch.randn(2, 4))
    made = Ways()
    with torch.no_grad():
        captured = ways_.capture(function, inputs)
        ways_.ours(captured, inputs, made)
        torch.testing.assert_close(made.run["ours"](*inputs)[0], function(*inputs))
    assert sorted(captured.order) == [0, 1]


def test_a_worker_tells_everything_and_one_failure_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> list[Row]:
        raise MemoryError("no more")

    told: list[tuple[str, Any]] = []
    monkeypatch.setattr(worker, "measure", lambda n, *_: replace(LIMITS, threads=n))
    monkeypatch.setattr(problems, "chosen", lambda *_: [tiny(), tiny()])
    calls = iter((fails, lambda *_: [row()]))
    monkeypatch.setattr(measuring, "rows", lambda *given: next(calls)(*given))
    worker.work(worker.Task(None, True, (1,)), lambda kind, value: told.append((kind, value)))

    state = suite.Told()
    for kind, value in told:
        suite.take("default", kind, json.loads(json.dumps(value)), state, lambda _: None)
    assert state.rows == [row()]
    assert state.limits == {"default": {1: LIMITS}}
    assert state.failures == ["default: matmul f32 8: MemoryError: no more"]


def test_rows_are_held_to_the_best_limits_of_the_run() -> None:
    found = suite.bounded(row(limit_s=99.0), LIMITS)
    assert found.limit_s == pytest.approx(2**26 / 9e9)


def test_a_worker_that_dies_is_a_failure_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suite, "WORKER", "rift_benchmarks.kernels.no_such_module")
    monkeypatch.setattr(suite, "NEEDED_BYTES", 0)
    run, found = suite.execute(worker.Task(None, True, (1,)), ["default"], print, print)

    assert "the worker ended with 1" in found.failures[0]
    assert "no_such_module" in (run.directory / "worker-default.log").read_text()
    assert documents.read(run.result) == found


def test_an_interrupted_run_keeps_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(*given: Any) -> None:
        told: suite.Told = given[4]
        told.limits["default"] = {1: LIMITS}
        told.rows.append(row())
        raise KeyboardInterrupt

    monkeypatch.setattr(suite, "_work", work)
    monkeypatch.setattr(suite, "NEEDED_BYTES", 0)
    with pytest.raises(KeyboardInterrupt):
        suite.execute(worker.Task(None, True, (1,)), ["default"], print, print)

    (run,) = run_directory.listed()
    found = documents.read(run.result)
    assert found.status == "interrupted"
    assert [r.problem for r in found.rows] == ["softmax f32 4096x2048"]
    assert "interrupted: run" in capsys.readouterr().out
    assert "This run was interrupted" in run.report.read_text()


def test_too_little_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "NEEDED_BYTES", 10**18)
    with pytest.raises(Blocked, match="rotates buffers of more than 1 GB"):
        suite.execute(worker.Task(None, True, (1,)), ["default"], print, print)


def test_the_document_reads_back_and_fits_its_schema(tmp_path: Path) -> None:
    text = documents.to_json(result())
    path = tmp_path / "result.json"
    path.write_text(text)

    assert documents.read(path) == result()
    Draft202012Validator(documents.json_schema()).validate(json.loads(text))
    path.write_text(text.replace("kernels/1", "kernels/2"))
    with pytest.raises(Failed, match=r"not a document of rift\.bench\.kernels/1"):
        documents.read(path)
    with pytest.raises(ValueError, match="JSON"):
        documents.to_json(result(row(limit_s=math.inf)))


def test_the_schema_in_docs_is_this_one() -> None:
    assert json.loads(COMMITTED.read_text()) == documents.json_schema(), GENERATE


def test_ratio_share_and_spread() -> None:
    r = row()
    assert r.ratio == pytest.approx(1.6)  # against Inductor, the better one
    assert r.of_limit("ours") == pytest.approx(0.8)
    assert r.spread == pytest.approx(0.25)
    alone = row(times_s={"eager": at(0.02)})
    assert alone.ratio is None
    assert alone.of_limit("ours") is None


def test_the_table_fits_80_columns_and_moves_no_cursor() -> None:
    refused = row(
        problem="attention-decode bf16 32 over 8192, 16/8x128", times_s={"eager": at(123.456)},
        reasons={"ours": EVIL}, runs="eager",
    )  # fmt: skip
    console = Console(width=80, record=True, file=io.StringIO(), force_terminal=True)
    tables.print_result(result(row(), refused, notes=("busy",), failures=(EVIL,)), console)

    text = console.export_text()
    assert max(map(cell_len, text.splitlines())) <= 80
    assert "\x1b[2J" not in text
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert "1.60" in text
    assert "80 %" in text
    assert "1 of 2" in text


def test_the_page_escapes_what_came_from_outside() -> None:
    run = run_directory.create("kernels", "full")
    made = result(row(), row(threads=2), failures=(EVIL,), device=EVIL)
    run_directory.write_json(run.manifest, suite._manifest(worker.Task(None, False, (1,))))
    page = report.page(run, made)

    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert page.count("<svg") == 4
    assert "default allocator, 2 threads" in page


def test_environments_of_allocators() -> None:
    outside = {"PATH": "p", "LD_PRELOAD": "x", "MALLOC_ARENA_MAX": "1"}

    assert allocators.environment("default", outside) == {"PATH": "p"}
    assert allocators.environment("kept", outside)["MALLOC_MMAP_MAX_"] == "0"
    assert allocators.parse("kept,default,kept") == ("kept", "default")
    with pytest.raises(WrongUsage, match="--allocators: no 'hoard'"):
        allocators.parse("hoard")


def run_cli(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["bench", *args])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


def test_a_dry_run_says_what_would_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["--suite", "kernels", "--only", "matmul", "--threads", "1", "--dry-run", "--json"]
    code, out, _ = run_cli(capsys, *args)

    assert code == 0
    plan = json.loads(out)
    assert plan["allocators"] == ["default", "kept"]
    assert plan["threads"] == [1]
    assert {"name": "matmul f32 256", "rotated": False} in plan["problems"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--only", "frob"], "no problems called 'frob'"),
        (["--only", ""], "no problems called ''"),
        (["--threads", "0"], "--threads: expected numbers such as 1,2"),
        (["--threads", "9999"], "this process may use"),
        (["--allocators", "hoard"], "expected some of default,kept,tcmalloc"),
        (["--device", "cuda"], "--device cuda: the kernels suite runs on cpu"),
        (["--endpoint", "x"], "--endpoint: for --suite llm, got --suite kernels"),
        (["--price", "list"], "--price: for --suite llm"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], args: list[str], message: str) -> None:
    code, _, err = run_cli(capsys, "--suite", "kernels", *args)

    assert (code, message in err) == (2, True), err


def test_the_llm_suite_takes_no_options_of_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_cli(capsys, "--only", "matmul", "--endpoint", "x")

    assert code == 2
    assert "--only: for --suite kernels, got --suite llm" in err


def test_runs_of_both_suites_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run = run_directory.create("kernels", "full")
    run_directory.write_text(run.result, documents.to_json(result()))
    for args, expected in (
        (["runs", "list"], run.id),
        (["runs", "show", "latest"], "softmax f32 4096x2048"),
        (["runs", "show", "latest", "--json"], json.dumps(asdict(row())["problem"])),
    ):
        with pytest.raises(SystemExit) as end:
            main(args)
        assert not end.value.code
        assert expected in capsys.readouterr().out
