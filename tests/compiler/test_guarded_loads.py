"""A guarded load is 0 where its guard is false, also once what it loads is computed in place."""

from __future__ import annotations

from rift_compiler.dtypes import f32
from rift_compiler.expr import apply, axis, const, load, where
from rift_compiler.fuse import inline
from rift_compiler.index import simplest

ROW, COL = axis("i0", 4), axis("i1", 8)
LOW, HIGH = COL < 3, COL >= 3
EXP = {"t0": ((ROW, COL), apply("exp", load("x", [ROW, COL], f32)))}


def test_a_value_computed_in_place_is_0_outside() -> None:
    got = inline(load("t0", [ROW, COL], f32, LOW), EXP)
    assert str(got) == "where(i1 < 3, exp(load(x[i0, i1], where=i1 < 3)), 0.0)"


def test_a_view_needs_no_choice() -> None:
    view = {"t0": ((ROW, COL), load("x", [COL, ROW], f32))}
    assert str(inline(load("t0", [ROW, COL], f32, LOW), view)) == "load(x[i1, i0], where=i1 < 3)"


def test_a_pad_and_a_cat_choose_once() -> None:
    inside = load("t0", [ROW, COL], f32, LOW)
    pad = inline(where(LOW, inside, const(7.0, f32)), EXP)
    assert str(pad) == "where(i1 < 3, exp(load(x[i0, i1], where=i1 < 3)), 7.0)"
    cat = inline(where(LOW, inside, load("t0", [ROW, COL - 3], f32, HIGH)), EXP)
    assert str(cat).count("where(") == 1
    assert simplest(cat) is cat
