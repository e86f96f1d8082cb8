"""The kernels suite: its problems, and the limits that they are held to; nothing is timed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from rift.errors import WrongUsage
from rift_benchmarks.kernels import limits, measure_limits, problems
from rift_benchmarks.kernels.limits import Limits

RATES = {"read": 10.0, "write": 5.0, "copy": 8.0, "triad": 9.0}
LIMITS = Limits(1, {"f32": 100.0, "f64": 50.0}, {"L2": RATES, "RAM": RATES}, {"L2": 1, "RAM": 2})
CACHES = {"L2": 1000, "L3": 10_000}


def test_problems_have_names_of_their_own_and_functions_that_take_their_shapes() -> None:
    found = problems.every()
    assert len({p.name for p in found}) == len(found)
    for p in found:
        assert p.operations > 0
        given = [torch.empty(s, dtype=problems.TYPES[p.dtype], device="meta") for s in p.shapes]
        made = p.function(*given)
        for out in made if isinstance(made, tuple) else (made,):
            assert out.dtype is problems.TYPES[p.dtype]


def test_the_issue_s_problems_are_there() -> None:
    names = {p.name for p in problems.every()}
    for expected in (
        "matmul bf16 2048",
        "decode-gemm f32 smollm2-135m up M=1",
        "decode-gemm bf16 gemma3-1b down M=32",
        "attention f32 1x8x2048x128 causal",
        "attention-decode f32 32 over 8192, 16/8x128",
        "layer f32 qwen3-0.6b 1 after 512",
        "residual-rmsnorm bf16 4096x2048",
    ):
        assert expected in names


def test_only_and_quick() -> None:
    assert {p.group for p in problems.chosen("matmul,softmax", False)} == {"matmul", "softmax"}
    assert {p.group for p in problems.chosen(None, True)} == set(problems.groups())
    with pytest.raises(WrongUsage, match="no problems called 'frob': expected some of matmul"):
        problems.chosen("matmul,frob", False)


@pytest.mark.parametrize(
    ("bytes_", "threads", "level"),
    [(1000, 1, "L2"), (1001, 1, "L3"), (2000, 2, "L2"), (10_000, 1, "L3"), (10_001, 2, "RAM")],
)
def test_a_working_set_lives_in_the_smallest_level_that_holds_it(
    bytes_: int, threads: int, level: str
) -> None:
    assert limits.level_of(bytes_, threads, CACHES) == level


def test_the_bound_is_what_takes_longer() -> None:
    bound, limit_s = LIMITS.bound("f32", 1e9, "RAM", 0, 0)
    assert (bound, round(limit_s, 9)) == ("operations", 0.01)
    assert LIMITS.bound("f64", 1e9, "RAM", 0, 0)[1] == pytest.approx(0.01)  # in f32 if faster
    bound, limit_s = LIMITS.bound("f32", 0, "RAM", 1e9, 0)
    assert (bound, round(limit_s, 9)) == ("bytes", 0.1)  # at the rate of reads
    assert LIMITS.bound("f32", 0, "RAM", 5e8, 5e8)[1] == pytest.approx(1 / 9)  # triad > copy


def test_caches_are_read_from_sysfs(tmp_path: Path) -> None:
    told = {"index0": ("1", "Data", "32K"), "index2": ("2", "Unified", "1024K")}
    for index, (level, kind, size) in told.items():
        folder = tmp_path / "sys/devices/system/cpu/cpu0/cache" / index
        folder.mkdir(parents=True)
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")

    assert limits.caches(tmp_path) == {"L2": 1 << 20}
    assert limits.caches(tmp_path / "nothing") == {}
    assert limits.sizes({}, 4) == {"RAM": limits.RAM_BYTES}
    assert limits.sizes(CACHES, 2, 7) == {"L2": 1000, "L3": 5000, "RAM": 7}


@pytest.mark.usefixtures("home")
def test_limits_of_this_machine_have_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure_limits, "SAMPLE_S", 1e-6)
    found = measure_limits.measure(1, {"L2": 65536}, ram_bytes=300_000)

    assert {"f32", "f64"} <= set(found.gflops) <= set(measure_limits.TYPES)
    assert list(found.gb_per_s) == ["L2", "RAM"]
    for rates in found.gb_per_s.values():
        assert set(rates) == set(limits.PATTERNS)
        assert min(rates.values()) > 0


def test_the_better_of_two_measurements_counts() -> None:
    faster = replace(LIMITS, gflops={"f32": 120.0, "f64": 40.0})
    assert limits.best(LIMITS, faster).gflops == {"f32": 120.0, "f64": 50.0}
