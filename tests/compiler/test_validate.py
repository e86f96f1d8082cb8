"""Translation validation finds a rule that is wrong, and says which."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F

import rift_compiler
from rift.cli import main
from rift_compiler import fuse
from rift_compiler.expr import Node, fold, open_fold, rewrite
from rift_compiler.rules import RULES, Rule
from rift_compiler.validate import validate


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def _drop_a_factor(n: Node) -> Node | None:
    """Wrong: a sum of products is taken for the sum of their first factors."""
    if n.op != "fold" or n.monoid != "sum" or n.body.op != "mul":
        return None
    axes, (body, *_) = open_fold(n)
    return fold("sum", axes, body.args[0])


WRONG = Rule("drop-factor", lambda v: rewrite(v, _drop_a_factor), "none", "never", "this test")


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_every_step_of_attention_is_right(target: str) -> None:
    inputs = tuple(torch.randn(1, 2, n, 8) for n in (1, 600, 600))
    made = rift_compiler.compile(_attention, inputs, target=target)

    rows = list(validate(made, _attention, inputs))

    stages = {r.stage.split(",")[0] for r in rows}
    assert all(r.right for r in rows)
    assert {"tensor", "inline", "loop", "cpp" if target == "cpu" else "tile"} <= stages
    assert ("split-fold" in stages) == (target != "cpu")


def test_a_wrong_rule_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.randn(5, 40), torch.randn(40)
    monkeypatch.setattr(fuse, "RULES", (*RULES, WRONG))
    made = rift_compiler.compile(torch.mv, inputs)

    rows = list(validate(made, torch.mv, inputs))

    first = next(r for r in rows if not r.right)
    assert first.stage == "drop-factor, after"
    assert first.difference > 0.01


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["compile", "-c", "nn.Softmax(-1)(torch.randn(3, 40))", "--verify", "--json"])
    rows = json.loads(capsys.readouterr().out)

    assert not end.value.code
    assert rows[0]["stage"] == "tensor"
    assert rows[-1]["stage"] == "cpp"
    assert all(r["right"] for r in rows)
