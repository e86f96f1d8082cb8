"""Each rule alone: the text before and after, and the same values; and what refuses to change."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import sympy

from rift_compiler import interpret, loop_ir
from rift_compiler.algebra import action, laws
from rift_compiler.algebra.laws import Broken
from rift_compiler.dtypes import bf16
from rift_compiler.loop_ir import LoopProgram, Store
from rift_compiler.rules import RULES
from rift_compiler.rules.factor_out import FACTOR_OUT
from rift_compiler.rules.mean_of_sum import MEAN_OF_SUM
from rift_compiler.rules.rule import Rule
from rift_compiler.rules.twist import TWIST

HEAD = "input x: f32[3, 50]\ninput c: f32[3]\n\ndef k0(c: f32[3], x: f32[3, 50], y: out[f32[3]]):\n"
AXES = "    i0: axis[3]\n    k1: axis[50]\n"

# rule, value before, value after
CASES = [
    (FACTOR_OUT, "sum[k1](c[i0] * x[i0, k1])", "sum[k1](x[i0, k1]) * c[i0]"),
    (FACTOR_OUT, "sum[k1](x[i0, k1] / c[i0])", "sum[k1](x[i0, k1]) / c[i0]"),
    (
        FACTOR_OUT,
        "sum[k1](x[i0, k1] / c[i0] * (c[i0] * x[i0, k1]))",
        "sum[k1](x[i0, k1] * x[i0, k1]) * c[i0] / c[i0]",
    ),
    (FACTOR_OUT, "max[k1](c[i0] * x[i0, k1])", None),
    (FACTOR_OUT, "sum[k1](c[i0] + x[i0, k1])", None),
    (MEAN_OF_SUM, "sum[k1](x[i0, k1]) / 50.0", "mean[k1](x[i0, k1])"),
    (MEAN_OF_SUM, "sum[k1](x[i0, k1]) / 49.0", None),
    (MEAN_OF_SUM, "max[k1](x[i0, k1]) / 50.0", None),
]


def program(value: str) -> LoopProgram:
    return loop_ir.verify(loop_ir.parse(f"{HEAD}{AXES}    y[i0] = {value}\n\nreturn y\n"))


def changed(p: LoopProgram, rule: Rule) -> LoopProgram:
    (k,) = p.kernels
    (s,) = k.stores
    known = {b.name: b for b in k.reads}
    new = loop_ir.kernel(k.name, k.axes, (Store(s.buffer, rule.change(s.value)),), known)
    return loop_ir.verify(dataclasses.replace(p, kernels=(new,)))


def inputs(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((3, 50)).astype(np.float32),
        "c": rng.uniform(0.5, 2.0, 3).astype(np.float32),
    }


def same(a: LoopProgram, b: LoopProgram, given: dict[str, np.ndarray] | None = None) -> None:
    given = given or inputs()
    (want,), (got,) = loop_ir.run(a, given, {}), loop_ir.run(b, given, {})
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("rule", "before", "after"), CASES)
def test_rule_changes_the_text_and_keeps_the_value(
    rule: Rule, before: str, after: str | None
) -> None:
    p = program(before)
    new = changed(p, rule)

    assert new == (p if after is None else program(after))
    same(p, new)


ONLINE = "sum[k1](exp(x[i0, k1] - max[k1](x[i0, k1])))"


def test_twist_makes_the_online_softmax() -> None:
    p = program(ONLINE)
    new = changed(p, TWIST)

    assert "by=" in str(new)
    assert "act=acc * exp(old - finite(new))" in str(new)
    assert "finite(" in str(new)
    same(p, new)


def test_twist_keeps_rows_that_begin_with_minus_infinity() -> None:
    given = inputs()
    given["x"][0, :40] = -np.inf
    given["x"][1] = -np.inf
    given["x"][2, 7] = np.inf
    p = program(ONLINE)

    with np.errstate(all="ignore"):
        same(p, changed(p, TWIST), given)


def test_twist_follows_a_minimum() -> None:
    p = program("sum[k1](exp(min[k1](x[i0, k1]) - x[i0, k1]))")
    new = changed(p, TWIST)
    given = inputs()
    given["x"][0, :40] = np.inf
    given["x"][1] = np.inf

    assert "act=acc * exp(finite(new) - old)" in str(new)
    with np.errstate(all="ignore"):
        same(p, new, given)


def test_twist_leaves_what_an_empty_part_would_break() -> None:
    # The action is acc * exp(old - new): before the first term, 0 * exp(inf).
    p = program("sum[k1](exp(x[i0, k1] - min[k1](x[i0, k1])))")

    assert changed(p, TWIST) == p


def test_mean_then_twist_makes_welford() -> None:
    p = program(
        "sum[k1]((x[i0, k1] - sum[k1](x[i0, k1]) / 50.0) * (x[i0, k1] - sum[k1](x[i0, k1]) / 50.0))"
    )
    new = changed(changed(p, MEAN_OF_SUM), TWIST)

    assert "act=acc + count * ((new - old) * (new - old))" in str(new)
    shifted = inputs()
    shifted["x"] += 1000.0  # where the sum of squares would lose every digit
    same(p, new, shifted)


@pytest.mark.parametrize(
    "value",
    [
        "sum[k1](abs(x[i0, k1] - max[k1](x[i0, k1])))",
        "sum[k1](log(max[k1](x[i0, k1]) - x[i0, k1] + 1.0))",
        "sum[k1](x[i0, k1] * c[i0])",
        "prod[k1](x[i0, k1] - max[k1](x[i0, k1]))",
    ],
)
def test_twist_leaves_what_has_no_action(value: str) -> None:
    p = program(value)

    assert changed(p, TWIST) == p


def test_a_wrong_action_is_caught_by_the_interpreter() -> None:
    """The twisted fold is run in pieces, so that an action that is wrong changes the value."""
    good = str(changed(program(ONLINE), TWIST))
    bad = loop_ir.parse(good.replace("acc * exp(old - finite(new))", "acc * exp(new - old)"))

    with pytest.raises(AssertionError):
        same(program(ONLINE), bad)


def test_every_rule_says_why_it_is_right() -> None:
    assert len({r.name for r in RULES}) == len(RULES)
    for r in RULES:
        assert all((r.law, r.pays, r.source))


def test_recorded_proofs_are_proved_again() -> None:
    """Each line of proved.txt: derive it, prove it anew, and get the same line."""
    x, y, a = sympy.symbols("x y A", real=True)
    questions = [
        (sympy.exp(x - a), "max", "sum", None),
        (sympy.exp(x - a) * y, "max", "sum", None),
        ((x - a) ** 2, "mean", "sum", x),
    ]
    seen = []
    for lift, base, monoid, element in questions:
        asked = action._renamed(action.Lift(lift, a, element))
        found = action.movement(asked, monoid)
        assert not isinstance(found, action.Refusal)
        joint = action._joint(asked, found[0], base, monoid)
        for law in (
            laws.associativity(joint),
            action._two_passes(joint, asked, base, monoid),
        ):
            assert not isinstance(laws.prove(law), Broken)
        seen.append(action.record(asked, found[0], base, monoid))
    assert set(seen) == set(action.recorded())


def test_interpreters_agree_on_plain_folds() -> None:
    values = interpret.reduce("mean", np.array([[1.0, 2.0, 6.0]], np.float32), bf16)
    assert values.tolist() == [3.0]
