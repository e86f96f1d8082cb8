"""`rift compile` with good, bad and no input."""

# ruff: noqa: E501  tables of texts
from __future__ import annotations

import json
from pathlib import Path

import pytest

from rift.cli import main

NORM = "nn.RMSNorm(64)(torch.randn(2, 64))"
MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return torch.sort(x)[0]

def make():
    return nn.Linear(16, 4)

def pair():
    return nn.Linear(16, 4), (torch.zeros(2, 16),)

def scaled(x, y):
    return x * y

def sorts(x):
    y = x + 1
    return torch.sort(y)[0]

net = Net()
"""


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["compile", *args])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


@pytest.mark.usefixtures("home")
def test_report_says_what_was_made_and_how_far_it_is_from_eager(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = run(capsys, "-c", NORM)

    assert code == 0
    assert "k0" in out
    assert "predicted" in err
    assert "largest difference from eager PyTorch" in err
    code, out, _ = run(capsys, "-c", NORM, "--json")
    record = json.loads(out)
    assert record["error"]["absolute"] < 1e-5
    assert [k["folds"] for k in record["kernels"]] == [1]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("ir", "target", "found"),
    [
        ("torch", "cpu", "aten.mul.Tensor"),
        ("tensor", "cpu", "sum[k1 < 64]"),
        ("loop", "cpu", "def k0("),
        ("tile", "sm_90a", "allreduce.sum[t]"),
        ("cpp", "cpu", "rift_run"),
        ("cuda", "sm_80", "__global__"),
        ("ptx", "sm_120a", ".target sm_120a"),
        ("sass", "sm_89", "EXIT"),
    ],
)
def test_every_stage_is_printed(
    capsys: pytest.CaptureFixture[str], ir: str, target: str, found: str
) -> None:
    code, out, _ = run(capsys, "-c", NORM, "--ir", ir, "--target", target)

    assert code == 0
    assert found in out


@pytest.mark.usefixtures("home")
def test_gpu_target_reports_registers(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "-c", NORM, "--target", "sm_90a")

    assert code == 0
    assert "REGISTERS" in out
    assert "nvrtc" in err


@pytest.mark.usefixtures("home")
def test_explain_shows_rules_costs_and_code(capsys: pytest.CaptureFixture[str]) -> None:
    text = "torch.softmax(torch.randn(2,64,32) @ torch.randn(2,32,64), -1) @ torch.randn(2,64,32)"
    code, out, _ = run(capsys, "-c", text, "--explain")

    assert code == 0
    assert "costs are predicted" in out
    assert "factor-out + twist" in out
    assert "+++ after" in out
    assert "operations" in out


@pytest.mark.usefixtures("home")
def test_files(capsys: pytest.CaptureFixture[str], model: str) -> None:
    for args in (
        [f"{model}:make", "--shape", "input=2,16"],
        [f"{model}:pair"],
        [f"{model}:scaled", "--shape", "x=2,seq", "--shape", "y=1", "--size", "seq=5"],
    ):
        code, _, err = run(capsys, *args)
        assert code == 0, err


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 2, "expected one of FILE.py:NAME and -c EXPRESSION"),
        (["-c", "torch.randn(3"], 2, "'(' was never closed"),
        (["-c", "torch.randn(3).foo()"], 1, "AttributeError: 'Tensor' object has no attribute 'foo'"),
        (["-c", "torch.randn(3) / nope"], 1, "NameError: name 'nope' is not defined"),
        (["-c", "torch.sort(torch.randn(3))"], 1, "unsupported: aten.sort"),
        (["-c", NORM, "--target", "sm_42"], 2, "no target is called 'sm_42'"),
        (["-c", NORM, "--ir", "wasm"], 2, "--ir: expected one of torch, tensor"),
        (["-c", NORM, "--ir", "ptx", "--target", "cpu"], 2, "--ir ptx needs a CUDA target"),
        (["-c", NORM, "--shape", "x=1"], 2, "--shape and --size go with FILE.py:NAME"),
        (["-c", "1 + 1"], 2, "makes no tensor to be its input"),
        (["nowhere.py:f"], 2, "no such file: nowhere.py"),
        (["--is-associative", "lambda s, x: __import__('os')"], 2, "__import__"),
        (["frob", "--check-ops"], 2, "no differential case is called 'frob'"),
    ],
)  # fmt: skip
def test_bad_input(
    capsys: pytest.CaptureFixture[str], args: list[str], code: int, message: str
) -> None:
    got, _, err = run(capsys, *args)

    assert message in err
    assert got == code
    assert "Traceback" not in err


@pytest.mark.usefixtures("home")
def test_refusals_name_the_models_line(capsys: pytest.CaptureFixture[str], model: str) -> None:
    code, _, err = run(capsys, f"{model}:sorts", "--shape", "x=4")
    assert code == 1
    assert "aten.sort" in err
    assert "model.py:22" in err

    code, _, err = run(capsys, f"{model}:net", "--shape", "x=4")
    assert code == 1
    assert "unsupported" in err
    assert "model.py:7" in err

    code, _, err = run(capsys, f"{model}:scaled", "--shape", "z=4")
    assert code == 2
    assert "inputs are x, y; unknown: z" in err


@pytest.mark.usefixtures("home")
def test_check_ops_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "probe/add_alpha", "--check-ops")

    assert code == 0
    assert "right refused wrong" in out


def test_is_associative(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--is-associative", "lambda s, x: max(s, x)")
    assert code == 0
    assert out.startswith("yes")

    code, out, _ = run(capsys, "--is-associative", "lambda s, x: s*s + x", "--json")
    assert code == 0
    assert json.loads(out)["answer"] == "no"
