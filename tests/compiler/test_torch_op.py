"""A compiled program inside other graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rift_compiler
from rift.errors import WrongUsage
from rift_compiler.torch_op import as_op

pytestmark = pytest.mark.usefixtures("home")


def test_an_op_is_one_node_of_a_graph_that_torch_compiles() -> None:
    x = torch.randn(3, 8)
    made = rift_compiler.compile(lambda x: (torch.softmax(x, -1), x.sum(0)), (x,))
    op = as_op(made, "test_softmax")

    soft, total = op(x)
    torch.testing.assert_close(soft, torch.softmax(x, -1))
    torch.testing.assert_close(total, x.sum(0))
    check: Any = torch.library.opcheck
    check(op, (x,), test_utils=("test_schema", "test_faketensor"))

    run = torch.compile(lambda x: op(x * 2)[0] + 1, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(run(x), torch.softmax(x * 2, -1) + 1)
    exported = torch.export.export(_Uses(op), (x,))
    assert sum(n.target is op for n in exported.graph.nodes) == 1


class _Uses(torch.nn.Module):
    def __init__(self, op: object) -> None:
        super().__init__()
        self.op = op

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.op(x)[0]  # type: ignore[operator]
        return out


def test_what_an_op_cannot_be_is_refused() -> None:
    x = torch.randn(3, 8)
    fixed = rift_compiler.compile(lambda x: x + 1, (x,))
    grows = rift_compiler.compile(lambda x: x + 1, (x,), dynamic={"x": {0: "n"}})
    number = rift_compiler.compile(lambda x, n: x + n, (x, 3))

    as_op(fixed, "test_taken")
    for made, name, message in (
        (fixed, "test_taken", "the name is taken"),
        (fixed, "no name", "is no name"),
        (grows, "test_grows", "its sizes may change"),
        (number, "test_number", "numbers among its inputs"),
    ):
        with pytest.raises(WrongUsage, match=message):
            as_op(made, name)
    with pytest.raises(WrongUsage, match=r"input 0: expected the shape \(3, 8\)"):
        torch.ops.rift.test_taken(torch.empty(2, 8, device="meta"))
