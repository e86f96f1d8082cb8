"""Expressions and IR text: round trips over random expressions, index laws, and bad text."""

# ruff: noqa: E501  tables of texts
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift_compiler import loop_ir, tensor_ir, tile_ir
from rift_compiler.dtypes import bf16, f32, i64
from rift_compiler.expr import (
    IrError,
    Node,
    apply,
    axis,
    cast,
    const,
    fold,
    fresh_axis,
    load,
    rewrite,
)
from rift_compiler.index import simplest, simplify
from rift_compiler.interpret import Evaluator
from rift_compiler.text import Scope, expression

AXES = [axis(f"i{n}", size) for n, size in enumerate((3, 4, 5))]
INDEX = st.recursive(
    st.one_of(st.sampled_from(AXES), st.integers(-3, 9).map(const)),
    lambda kids: st.one_of(
        st.builds(lambda a, b: a + b, kids, kids),
        st.builds(lambda a, b: a - b, kids, kids),
        st.builds(lambda a, k: a * k, kids, st.integers(1, 6)),
        st.builds(lambda a, k: a // k, kids, st.integers(1, 6)),
        st.builds(lambda a, k: a % k, kids, st.integers(1, 6)),
    ),
    max_leaves=8,
)
RAW = st.recursive(
    st.one_of(st.sampled_from(AXES), st.integers(-3, 9).map(const)),
    lambda kids: st.builds(
        lambda op, a, b: apply(op, a, b), st.sampled_from(["add", "sub", "mul"]), kids, kids
    ),
    max_leaves=8,
)
FLOATS = st.recursive(
    st.one_of(
        st.floats(width=32).map(lambda v: const(v, f32)),
        st.builds(lambda i: load("x", (i,), f32), INDEX),
        st.builds(lambda i: load("x", (i,), f32, i < 2), INDEX),
    ),
    lambda kids: st.one_of(
        st.builds(
            lambda op, a, b: apply(op, a, b),
            st.sampled_from(["add", "sub", "mul", "div", "max"]),
            kids,
            kids,
        ),
        st.builds(lambda a: apply("exp", a), kids),
        st.builds(lambda a: cast(cast(a, bf16), f32), kids),
        st.builds(lambda a, b, c: apply("where", a < b, c, a), kids, kids, kids),
        kids.map(lambda a: _folded(a)),
    ),
    max_leaves=10,
)


def _folded(a: Node) -> Node:
    k = fresh_axis(5)
    return fold("sum", [k], rewrite(a, lambda n: k if n is AXES[2] else None))


def _equal(a: Any, b: Any) -> bool:
    import numpy as np

    x, y = np.broadcast_arrays(a, b)
    return bool(np.array_equal(x, y))


def scope(**buffers: int) -> Scope:
    known = {name: (f32, rank) for name, rank in buffers.items()}
    return Scope(known, {a.name: a for a in AXES})


@given(FLOATS)
def test_expressions_round_trip_to_the_same_object(n: Node) -> None:
    assert scope(x=1).read(expression(n)) is n


@given(RAW)
def test_simplified_indices_have_the_same_values(n: Node) -> None:
    import numpy as np

    at = Evaluator({}, {}, tuple(AXES), {a: np.arange(a.extent.value) for a in AXES})
    simple = rewrite(n, simplest)

    assert _equal(at(n), at(simple))


@pytest.mark.parametrize("op", ["floordiv", "mod", "lt", "le", "gt", "ge"])
@given(x=INDEX, k=st.integers(1, 12))
def test_division_and_comparison_have_the_same_values(op: str, x: Node, k: int) -> None:
    import numpy as np

    at = Evaluator({}, {}, tuple(AXES), {a: np.arange(a.extent.value) for a in AXES})

    raw, simple = apply(op, x, const(k)), simplify(op, x, const(k))
    assert _equal(at(raw), at(simple))


def test_reshape_and_back_is_a_plain_index() -> None:
    a, b = axis("i0", 32), axis("i1", 48)
    flat = a * 48 + b

    assert flat // 48 is a
    assert flat % 48 is b
    assert (flat // 4) // 12 is a


def test_equal_folds_are_one_object_whatever_their_axes_were_called() -> None:
    def total(k: Node) -> Node:
        return fold("sum", [k], load("x", (k,), f32))

    assert total(axis("a", 5)) is total(axis("b", 5))
    assert total(axis("a", 5)) is not total(axis("a", 6))


def test_deep_chains_do_not_exhaust_the_stack() -> None:
    n = load("x", (const(0),), f32)
    for _ in range(5000):
        n = apply("exp", n)

    assert rewrite(n, lambda _: None) is n


GOOD = "input x: f32[2, 3]\nt0: f32[2] = sum[k1 < 3](x[i0, k1])\nreturn t0\n"


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (tensor_ir.parse, GOOD.replace("sum[", "som["), "line 2, column 1: expected a monoid"),
        (tensor_ir.parse, GOOD.replace("k1])", "k2])"), "line 2, column 19: expected a name that was declared, got k2"),
        (tensor_ir.parse, GOOD.replace("x[i0, k1]", "x[i0]"), "expected 2 indices of type i64 for x"),
        (tensor_ir.parse, GOOD.replace("f32[2, 3]", "f31[2, 3]"), "line 1, column 1: expected NAME: TYPE[SIZE, ...]"),
        (tensor_ir.parse, GOOD.replace("return t0", ""), "expected a line `return NAME, ...`, got the end"),
        (tensor_ir.parse, GOOD + "t1: f32[2] = t0[i0]\n", "line 4, column 1: expected the end after return"),
        (tensor_ir.parse, GOOD.replace("(x[", "((x["), "line 2, column 1: expected an expression"),
        (tensor_ir.parse, GOOD.replace("sum[k1 < 3](x[i0, k1])", "1 + 2.0"), "add of different types: i64, f32"),
        (loop_ir.parse, "def k0(x: f32[2]:\n    y = 1\nreturn y\n", "expected def NAME(BUFFER: TYPE, ...):"),
        (loop_ir.parse, "def k0(x: f32[2], y: out[f32[2]]):\n    foo\nreturn y\n", "line 2, column 1: expected NAME: axis[SIZE]"),
        (tile_ir.parse, "def k0(y: out[f32[2]]):\n    for i in range(2):\n        y[i] = 1.0\n", "expected for NAME in grid|thread|seq|tile|array(SIZE):"),
        (tile_ir.parse, "def k0(y: out[f32[2]]):\n    while 1:\n        sync()\n", "expected for, if, a declaration"),
        (tile_ir.parse, "", "got the end"),
    ],
)  # fmt: skip
def test_bad_text_is_told_where_and_what_was_expected(
    parse: Callable[[str], Any], text: str, message: str
) -> None:
    with pytest.raises(IrError, match=re.escape(message)):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("t0: f32[2]", "t0: f16[2]"), "t0 is f16, its value f32"),
        (GOOD.replace("sum[k1 < 3](x[i0, k1])", "exp(sum[k1 < 3](x[i0, k1]))"), "t0 is no primitive"),
        (GOOD.replace("return t0", "return t9"), "returns unknown t9"),
        (GOOD.replace("t0: f32[2] ", "x: f32[2] ").replace("t0", "x"), "x defined twice"),
    ],
)  # fmt: skip
def test_the_verifier_of_tensor_ir(text: str, message: str) -> None:
    with pytest.raises(IrError, match=re.escape(message)):
        tensor_ir.verify(tensor_ir.parse(text))


TILE = """def k0(x: f32[64], y: out[f32[1]]):
    for t in thread(32):
        a: f32 = x[t]
        a = allreduce.sum[t](a)
        y[0] = a
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TILE.replace("y[0] = a", "y[0] = b").replace("a: f32", "b = 1.0\n        a: f32").replace("b = 1.0", "if x[0] < 1.0:\n            b = 1.0"), "b is used before it is declared"),
        (TILE.replace("thread(32)", "seq(2)").replace("y[0] = a", "for g in grid(2):\n            y[0] = a"), "g runs by grid inside a loop that cannot hold it"),
        (TILE.replace("        a = allreduce", "        if x[t] < 0.0:\n            a = allreduce"), "a barrier under a condition"),
    ],
)  # fmt: skip
def test_the_verifier_of_tile_ir(text: str, message: str) -> None:
    tile_ir.verify(tile_ir.parse(TILE))

    with pytest.raises(IrError, match=re.escape(message)):
        tile_ir.verify(tile_ir.parse(text))


def test_a_float_index_is_refused() -> None:
    with pytest.raises(IrError, match="floordiv does not compute in bf16"):
        apply("floordiv", cast(const(1.0, f32), bf16), cast(const(1.0, f32), bf16))
    with pytest.raises(IrError, match="no scalar operation is called"):
        apply("frobnicate", const(1, i64))
