"""Monoids, joint folds and hidden combines, against NumPy, torch and Python's own eval."""

from __future__ import annotations

import json
import math
import random
import re
import statistics
from collections.abc import Callable
from fractions import Fraction
from functools import cache, reduce
from typing import Any

import numpy as np
import pytest
import sympy
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rift.errors import WrongUsage
from rift_compiler.algebra import action, laws
from rift_compiler.algebra.action import ACC, COUNT, NEW, OLD, Action, Refusal, derive
from rift_compiler.algebra.arithmetic import PYTHON
from rift_compiler.algebra.associative import Answer, No, Unknown, Yes, is_associative
from rift_compiler.algebra.lambdas import parse
from rift_compiler.algebra.monoids import MONOIDS, Monoid
from rift_compiler.algebra.symbols import state_text

FRACTIONS = st.fractions(min_value=-50, max_value=50, max_denominator=20)
s, m, v, k, x, mu = sympy.symbols("s m v k x mu", real=True)
scale = sympy.Symbol("scale", positive=True)


def reference(source: str) -> Callable[..., Any]:
    """Python's own reading of a lambda of these tests, in floats."""
    names = {name: getattr(math, name) for name in ("exp", "log", "sqrt", "inf")}
    made: Callable[..., Any] = eval(source, {"where": lambda c, a, b: a if c else b, **names})
    return made


def numbers(count: int, width: int, seed: int) -> list[Any]:
    rng = random.Random(seed)
    rows = [tuple(rng.uniform(0.1, 3) for _ in range(width or 1)) for _ in range(count)]
    return rows if width else [row[0] for row in rows]


def as_tuple(state: Any) -> tuple[Any, ...]:
    return state if isinstance(state, tuple) else (state,)


# Monoids


@pytest.mark.parametrize("name", MONOIDS)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_each_monoid_is_associative_with_its_identity(name: str, data: st.DataObject) -> None:
    monoid = MONOIDS[name]
    lift, empty = reference(monoid.lift), reference(f"lambda: {monoid.identity}")()
    element = st.tuples(FRACTIONS, st.integers(0, 5)) if name.startswith("arg") else FRACTIONS
    a, b, c = (lift(data.draw(element)) for _ in range(3))

    assert monoid.join(monoid.join(a, b), c) == monoid.join(a, monoid.join(b, c))
    assert monoid.join(empty, a) == a == monoid.join(a, empty)
    assert monoid.join(empty, empty) == empty


@pytest.mark.parametrize("name", MONOIDS)
def test_each_monoid_is_proved(name: str) -> None:
    proof = laws.prove(laws.associativity(MONOIDS[name]))

    assert isinstance(proof, laws.Proof)
    assert proof.method == "symbolic"
    assert isinstance(laws.prove(laws.identity(MONOIDS[name])), laws.Proof)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize(
    "values",
    [
        [1.0, 3.0, 3.0, 2.0],
        [2.0, math.nan, 5.0, math.nan],
        [-math.inf, -math.inf],
        [math.inf, math.nan, -math.inf],
    ],
)
def test_argmax_does_as_torch_with_ties_and_nan(name: str, values: list[float]) -> None:
    monoid = MONOIDS[name]
    value, index = reduce(monoid.join, [(v, i) for i, v in enumerate(values)])
    best, where = getattr(torch, name[3:])(torch.tensor(values), dim=0)

    assert index == where.item()
    np.testing.assert_equal(value, best.item())


@given(st.lists(FRACTIONS, min_size=1, max_size=8))
@settings(max_examples=30, deadline=None)
def test_mean_is_the_mean(values: list[Fraction]) -> None:
    count, mean = reduce(MONOIDS["mean"].join, [(Fraction(1), value) for value in values])

    assert count == len(values)
    assert mean == statistics.mean(values)


def test_a_twisted_monoid_is_the_plain_one_through_psi() -> None:
    monoid = MONOIDS["mean"]
    assert monoid.twist is not None
    psi, back = reference(monoid.twist.psi), reference(monoid.twist.psi_inverse)
    a, b = (Fraction(2), Fraction(7, 3)), (Fraction(3), Fraction(-1, 2))

    plain = [
        MONOIDS[name].join(p, q)
        for name, p, q in zip(monoid.twist.plain, back(a), back(b), strict=True)
    ]

    assert psi(plain) == monoid.join(a, b)


def test_a_combine_takes_symbols_too() -> None:
    a, b = sympy.symbols("a b", real=True)

    assert MONOIDS["max"].join(a, b) == sympy.Max(a, b)


# Joint folds

MOVES = [
    (sympy.exp(s - m), m, "max", "sum", ACC * sympy.exp(OLD - NEW)),
    (sympy.exp(s - m) * v, m, "max", "sum", ACC * sympy.exp(OLD - NEW)),
    (sympy.exp(20 * sympy.tanh(s / 20) + k - m), m, "max", "sum", ACC * sympy.exp(OLD - NEW)),
    (sympy.exp(3 * (s - m)), m, "max", "sum", ACC * sympy.exp(3 * (OLD - NEW))),
    (2 ** (s - m), m, "max", "sum", ACC * 2 ** (OLD - NEW)),
    ((x - mu) ** 2, mu, "mean", "sum", ACC + COUNT * (OLD - NEW) ** 2),
    ((3 * (x - mu)) ** 2, mu, "mean", "sum", ACC + 9 * COUNT * (OLD - NEW) ** 2),
    (s - m, m, "max", "sum", ACC - COUNT * (NEW - OLD)),
    (x**2, mu, "mean", "sum", ACC),
    (s + m, m, "max", "max", ACC + NEW - OLD),
    (sympy.exp(s - m), m, "max", "min", ACC * sympy.exp(OLD - NEW)),
    (s / scale, scale, "sum", "sum", ACC * OLD / NEW),
]


@pytest.mark.parametrize(("lift", "centre", "base", "monoid", "wanted"), MOVES, ids=str)
def test_a_dependent_fold_moves(
    lift: Any, centre: Any, base: str, monoid: str, wanted: Any
) -> None:
    found = action.movement(action.Lift(lift, centre, x if base == "mean" else None), monoid)

    assert isinstance(found, tuple), found
    assert sympy.simplify(found[0] - wanted) == 0


@pytest.mark.parametrize(
    ("lift", "centre", "base", "monoid"),
    [
        (sympy.exp(s - m) * v, m, "max", "sum"),
        (sympy.exp(20 * sympy.tanh(s / 20) + k - m), m, "max", "sum"),
        ((x - mu) ** 2, mu, "mean", "sum"),
        (s - m, m, "max", "sum"),
        (s / scale, scale, "sum", "sum"),
    ],
    ids=str,
)
def test_a_movement_is_proved_on_symbols(
    lift: Any, centre: Any, base: str, monoid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(action, "recorded", frozenset)  # prove it again
    monkeypatch.setattr(action, "_proved", action._proved.__wrapped__)

    found = derive(lift, centre, base, monoid, x)

    assert isinstance(found, Action), found
    assert found.proof.method == "symbolic"
    assert found.proof.law.startswith("associativity, both folds one after the other")


def test_a_proof_that_samples_says_so() -> None:
    found = derive(sympy.exp(s - m), m, "max", "min")

    assert isinstance(found, Action), found
    assert found.proof.method == "sampled"
    assert "on 200 random inputs with 50 digits" in found.proof.detail


@pytest.mark.parametrize(
    ("lift", "centre", "base", "monoid", "reason"),
    [
        (abs(x - mu), mu, "mean", "sum", "no exponential polynomial"),
        (sympy.log(s - m), m, "max", "sum", "no exponential polynomial"),
        (1 / (s - m), m, "max", "sum", "no exponential polynomial"),
        (sympy.exp(-((s - m) ** 2)), m, "max", "sum", "no exponential polynomial"),
        (sympy.exp(s - m) + sympy.exp(2 * m), m, "max", "sum", "no exponential polynomial"),
        (sympy.exp(k * (s - m)), m, "max", "sum", "varies with j"),
        ((x - mu) ** 3, mu, "mean", "sum", "the sum over j of -3*(-mu + x)**2"),
        ((k * (x - mu)) ** 2, mu, "mean", "sum", "the sum over j of"),
        (s / m, m, "sum", "sum", "not known to be other than 0"),
        (s * m, m, "max", "max", "not known to be above 0"),
        (s * (1 + sympy.exp(m)), m, "max", "sum", "overflows"),
        (s - m, m, "max", "prod", "no way is known"),
        (s - m, m, "argmax", "sum", "one number"),
        (s * sympy.cosh(m), m, "max", "sum", "cannot be checked"),
    ],
    ids=str,
)
def test_what_does_not_move_is_refused_with_the_reason(
    lift: Any, centre: Any, base: str, monoid: str, reason: str
) -> None:
    found = derive(lift, centre, base, monoid, x)

    assert isinstance(found, Refusal)
    assert reason in found.reason


def test_a_refusal_names_the_companion_that_is_missing() -> None:
    cubes = derive((x - mu) ** 3, mu, "mean", "sum", x)
    weighted = derive(k**2 * (x - mu), mu, "mean", "sum", x)

    assert isinstance(cubes, Refusal)
    assert [sympy.expand(c) for c in cubes.companions] == [sympy.expand(-3 * (x - mu) ** 2)]
    assert isinstance(weighted, Refusal)
    assert weighted.companions == (-(k**2),)


def in_parts(joint: Monoid, parts: list[list[Any]]) -> tuple[float, ...]:
    """The joint fold of each part, and the parts' states combined, in Python's floats."""
    lift = reference(joint.lift)
    states = [reduce(joint.join, map(lift, part)) for part in parts]
    return reduce(joint.join, states)


def test_softmax_and_attention_in_one_pass() -> None:
    rng = np.random.default_rng(0)
    scores, values = rng.normal(0, 30, 64), rng.normal(0, 1, 64)
    weights = np.exp(scores - scores.max())
    denominator = derive(sympy.exp(s - m), m, "max", "sum")
    numerator = derive(sympy.exp(s - m) * v, m, "max", "sum")
    assert isinstance(denominator, Action)
    assert isinstance(numerator, Action)
    assert denominator.guard  # -inf - -inf, of two parts that are masked out

    # of an element: what the maximum is of, then the further symbols by name: s, and s and v
    pairs = [(float(a), float(a)) for a in scores]
    triples = [(float(a), float(a), float(b)) for a, b in zip(scores, values, strict=True)]
    top, total = in_parts(denominator.joint, [pairs[:5], pairs[5:40], pairs[40:]])
    _, weighted = in_parts(numerator.joint, [triples[:33], triples[33:]])

    np.testing.assert_allclose((top, total), (scores.max(), weights.sum()), rtol=1e-14)
    np.testing.assert_allclose(weighted / total, weights @ values / weights.sum(), rtol=1e-12)


def test_the_variance_in_parts_keeps_its_digits() -> None:
    data = np.random.default_rng(1).normal(1e6, 1, 1000)
    found = derive((x - mu) ** 2, mu, "mean", "sum", x)
    assert isinstance(found, Action)

    parts = [[(float(a),) for a in part] for part in np.array_split(data, 7)]
    count, mean, squares = in_parts(found.joint, parts)

    assert count == 1000
    np.testing.assert_allclose((mean, squares / count), (data.mean(), data.var()), rtol=1e-9)


# Laws


def wrong(combine: str, state: tuple[str, ...], identity: str, lift: str) -> Monoid:
    return Monoid("wrong", state, identity, lift, combine)


@pytest.mark.parametrize(
    "combine",
    [
        "lambda a, b: (max(a[0], b[0]), a[1]*exp(max(a[0], b[0]) - a[0]) + b[1])",
        "lambda a, b: (max(a[0], b[0]), a[1] + b[1]*exp(a[0] - max(a[0], b[0])))",
    ],
)
def test_a_wrong_softmax_is_caught(combine: str) -> None:
    monoid = wrong(combine, ("max", "sum"), "(-inf, 0)", "lambda x: (x, 1)")
    step = "lambda s, x: (max(s[0], x), s[1]*exp(s[0] - max(s[0], x)) + exp(x - max(s[0], x)))"

    broken = laws.prove(laws.homomorphism(parse(step, 2), "(-inf, 0)", monoid))

    assert isinstance(broken, laws.Broken)
    assert broken.seen


@pytest.mark.parametrize(
    "factor", [ACC, ACC + COUNT * (OLD - NEW), ACC + 2 * COUNT * (OLD - NEW) ** 2]
)
def test_a_wrong_action_is_caught(factor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action, "movement", lambda *_: (factor, "a slip"))

    found = derive((x - mu) ** 2, mu, "mean", "sum", x)

    assert isinstance(found, Refusal)
    assert "breaks" in found.reason


def test_a_law_that_has_no_value_is_not_called_proved() -> None:
    monoid = wrong("lambda a, b: a/0 + b", ("sum",), "0", "lambda x: x")

    for law in (laws.associativity(monoid), laws.identity(monoid)):
        broken = laws.prove(law)
        assert isinstance(broken, laws.Broken)
        assert not broken.seen
        assert "not checked: only 0 of" in broken.detail


def test_subtraction_is_not_associative() -> None:
    broken = laws.prove(laws.associativity(wrong("lambda a, b: a - b", ("s",), "0", "lambda x: x")))

    assert isinstance(broken, laws.Broken)
    assert re.fullmatch(r"not for \[.*\] and \[.*\] and \[.*\]", broken.detail)


def test_an_equation_that_fails_in_one_order_only_is_not_proved() -> None:
    # right for a >= b, and so in half of the orders
    monoid = wrong("lambda a, b: a if a >= b else b + 1", ("s",), "-inf", "lambda x: x")

    assert isinstance(laws.prove(laws.associativity(monoid)), laws.Broken)


# Loops

SOFTMAX = "lambda s, x: (max(s[0], x), s[1]*exp(s[0]-max(s[0],x)) + exp(x-max(s[0],x)))"
ATTENTION = (
    "lambda s, x: (lambda m: (m, s[1]*exp(s[0]-m) + exp(x[0]-m), "
    "s[2]*exp(s[0]-m) + x[1]*exp(x[0]-m)))(max(s[0], x[0]))"
)
WELFORD = (
    "lambda s, x: (s[0]+1, s[1]+(x-s[1])/(s[0]+1), s[2]+(x-s[1])*(x-(s[1]+(x-s[1])/(s[0]+1))))"
)
LOOPS = {
    "lambda s, x: s + x": "yes",
    "lambda s, x: s + (x > 1)": "yes",
    "lambda s, x: s/x": "yes",
    "lambda s, x: x if x > s else s": "yes",
    "lambda s, x: s or x > 2": "yes",
    "lambda s, x: (s[0] + x, min(s[1], x*x))": "yes",
    SOFTMAX: "yes",
    ATTENTION: "yes",
    WELFORD: "yes",
    "lambda s, x: (s[0]+1, (s[0]*s[1] + x)/(s[0]+1))": "yes",
    "lambda s, x: (s[0], s[1]) if s[0] >= x[0] else (x[0], x[1])": "yes",
    "lambda s, x: (max(s[0], x), s[2] if x > s[0] else s[1], s[2] + 1)": "yes",
    "lambda s, x: max(s,x) + log(exp(s-max(s,x)) + exp(x-max(s,x)))": "yes",
    "lambda s, x: log(exp(s) + exp(x))": "yes",
    "lambda s, x: (s + x)/(1 + s*x)": "yes",
    "lambda s, x: (s[0]*x[0]-s[1]*x[1], s[0]*x[1]+s[1]*x[0])": "yes",
    "lambda s, x: 0.9*s + 0.1*x": "extended",
    "lambda s, x: (s + x)/2": "extended",
    "lambda s, x: x - s": "extended",
    "lambda s, x: x": "extended",
    "lambda s, x: x[0]*s + x[1]": "extended",
    "lambda s, x: where(x < 1, 0, s + x)": "extended",
    "lambda s, x: (s[0] + 1, s[1] + s[0]*x)": "extended",
    "lambda s, x: max(s + x - 2, 0)": "extended",
    "lambda s, x: (max(s[0], x), 0.5*s[1] + x)": "extended",
    "lambda s, x: s*s + x": "no",
    "lambda s, x: abs(s - x)": "no",
    "lambda s, x: x/(1 + s)": "no",
    "lambda s, x: max(s, x) - min(s, x)": "no",
    "lambda s, x: exp(s)*x": "no",
    "lambda s, x: s**x": "unknown",
}
answer = cache(is_associative)


@pytest.mark.parametrize(("source", "wanted"), LOOPS.items())
def test_a_loop_is_answered(source: str, wanted: str) -> None:
    found = answer(source)
    data = json.loads(json.dumps(found.to_json()))

    assert data["answer"] == wanted
    assert all(len(line) <= 80 for line in found.text().splitlines())
    if isinstance(found, Yes):
        check_in_parts(source, found)
    if isinstance(found, No):
        check_by_hand(source, found)


def check_in_parts(source: str, found: Yes) -> None:
    """Run the loop and its parts in floats, by Python alone."""
    step, combine, lift = map(reference, (source, found.combine, found.lift))
    start = reference(f"lambda: {found.identity}")()
    own = len(as_tuple(start)) - len(found.extra)
    elements = numbers(12, parse(source, 2).widths[1], seed=1)
    state = start if not found.extra else start[:own]
    state = state[0] if parse(source, 2).scalar and found.extra else state
    for element in elements:
        state = step(state, element)

    for first, second in [(1, 2), (3, 4), (5, 11)]:
        parts = [elements[:first], elements[first:second], elements[second:]]
        a, b, c = (reduce(combine, map(lift, part)) for part in parts)
        for whole in (combine(combine(a, b), c), combine(a, combine(b, c))):
            np.testing.assert_allclose(as_tuple(whole)[:own], as_tuple(state), rtol=1e-9)


def check_by_hand(source: str, found: No) -> None:
    """The four runs are what Python computes, and they show what they are said to show."""
    step = reference(source)
    example = found.counterexample
    ends = []
    for run in (*example.alone, *example.after):
        state = Fraction(found.init)
        for (element,) in run.elements:
            state = step(state, element)
        ends.append(state)

    assert ends[0] == ends[1]
    assert ends[2] != ends[3]
    prefix = len(example.after[0].elements) - len(example.alone[0].elements)
    for alone, after in zip(example.alone, example.after, strict=True):
        assert after.elements[prefix:] == alone.elements
        assert after.elements[:prefix] == example.after[0].elements[:prefix]


def test_the_softmax_combine_is_the_known_one() -> None:
    found = answer(SOFTMAX)

    assert isinstance(found, Yes)
    assert (found.identity, found.lift, found.inferred) == ("(-inf, 0)", "lambda x: (x, 1)", True)
    assert found.combine == (
        "lambda a, b: (max(a[0], b[0]), "
        "a[1]*exp(a[0] - max(a[0], b[0])) + b[1]*exp(b[0] - max(a[0], b[0])))"
    )
    assert {p.law: p.method for p in found.proofs} == {
        "homomorphism": "sampled",
        "step": "symbolic",
        "associativity": "symbolic",
        "identity": "symbolic",
    }


def test_the_welford_combine_is_chans() -> None:
    found = answer(WELFORD)

    assert isinstance(found, Yes)
    a, b = (1.5, 2.0, 3.0), (2.5, -4.0, 0.5)
    delta = b[1] - a[1]
    chan = (4.0, a[1] + delta * 2.5 / 4, 3.5 + delta**2 * 1.5 * 2.5 / 4)
    assert reference(found.combine)(a, b) == pytest.approx(chan, rel=1e-15)


def test_an_answer_reads_well() -> None:
    assert answer("lambda s, x: (s + x)/2").text().splitlines() == [
        "not on this state alone; yes with 1 more component",
        "  combine  lambda a, b: (a[0]*b[1] + b[0], a[1]*b[1])",
        "  identity (0, 1) (inferred)",
        "  lift     lambda x: (x/2, 1/2)",
        "  added    what s is multiplied by over the part, in (+, *)",
        "  how      a linear recurrence over (+, *)",
        "  law      homomorphism: sampled, on 200 random inputs exactly",
        "  law      step: symbolic, for all values; on 200 random inputs exactly",
        "  law      associativity: symbolic, for all values; on 200 random inputs exactly",
        "  law      identity: symbolic, for all values; on 200 random inputs exactly",
        "  this state alone:",
        "  [0]: 0 -> 0",
        "  [0, 0]: 0 -> 0 -> 0",
        "  end alike, but not after [1]:",
        "  [1, 0]: 0 -> 1/2 -> 1/4",
        "  [1, 0, 0]: 0 -> 1/2 -> 1/4 -> 1/8",
    ]
    assert answer("lambda s, x: abs(s - x)").text().splitlines() == [
        "no: two partial results of this state do not determine the whole",
        "  init     0 (inferred)",
        "  [1]: 0 -> 1",
        "  [-1]: 0 -> 1",
        "  end alike, but not after [1]:",
        "  [1, 1]: 0 -> 1 -> 0",
        "  [1, -1]: 0 -> 1 -> 2",
    ]


def test_a_given_init_counts_once() -> None:
    found = answer("lambda s, x: s + x", "5")

    assert isinstance(found, Yes)
    assert (found.combine, found.identity, found.inferred) == ("lambda a, b: a + b - 5", "5", False)


def test_a_choice_of_init_can_change_the_answer() -> None:
    product, swapped = "lambda s, x: s*x + s", "lambda s, x: (s[1], s[0] + s[1])"

    assert isinstance(answer(product), Yes)
    assert answer(swapped, "(0, 1)").to_json()["answer"] == "extended"


def test_a_division_by_zero_in_the_search_is_passed_over() -> None:
    found: Answer = answer("lambda s, x: 1/(s*s - x)", "0")

    assert isinstance(found, (No, Unknown))


@given(st.lists(FRACTIONS, max_size=6), st.lists(FRACTIONS, max_size=6))
@settings(max_examples=20, deadline=None)
def test_the_maximum_segment_sum_in_parts(xs: list[Fraction], ys: list[Fraction]) -> None:
    """J. Bentley, Programming Pearls, column 8: the scan of one pass hides a combine of four."""
    found = answer("lambda s, x: (max(s[0] + x, 0), max(s[1], s[0] + x))", "(0, 0)")
    assert isinstance(found, Yes)
    assert len(found.extra) == 2
    combine, lift = reference(found.combine), reference(found.lift)
    empty = reference(f"lambda: {found.identity}")()
    whole = [*xs, *ys]

    one, other = (reduce(combine, map(lift, part), empty) for part in (xs, ys))

    segments = [sum(whole[i:j]) for i in range(len(whole) + 1) for j in range(i, len(whole) + 1)]
    assert combine(one, other)[1] == max(segments)


# What is refused


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("lambda s, x: s +", "lambda, column 17: invalid syntax"),
        ("  lambda s, x: s $ x", "lambda, column 18: invalid syntax"),
        ("lambda s, x: __import__('os')", "lambda, column 14: the call __import__('os')"),
        ("lambda s, x: s.real + x", "lambda, column 14: attribute access s.real"),
        ("lambda s, x: s + y", "lambda, column 18: the name y"),
        ("lambda s, x: [s, x]", "lambda, column 14: List"),
        ("lambda s, x: s // x", "lambda, column 14: the operator in s // x"),
        ("lambda s, x: s + 'a'", "lambda, column 18: the constant 'a'"),
        ("lambda s, x: s[-1] + x", "lambda, column 14: the item s[-1]"),
        ("lambda s, x: s[x]", "lambda, column 14: the item s[x]"),
        ("lambda s, x: s is x", "lambda, column 14: Compare"),
        ("lambda s, x: max(s)", "lambda, column 14: the call max(s)"),
        ("lambda s, x: exp(s, base=x)", "lambda, column 14: the call"),
        ("lambda s, x: (y := s) + x", "lambda, column 15: NamedExpr"),
        ("lambda s, x: (s[0], (x, 1))", "lambda, column 21: inside an expression a tuple"),
        ("lambda s, x: ()", "lambda, column 14: an empty tuple"),
        ("lambda s, x: (s[0], x) if x > 0 else x", "lambda, column 14: a choice between results"),
        ("lambda s, x: s + s[0]", "lambda, column 14: s both as a number and as a tuple"),
        ("lambda s, x: (s[0] + x, s[2])", "s[2] is read, but the result is a tuple of 2"),
        ("lambda s, x: (s, x)", "s is read, but the result is a tuple of 2"),
        ("lambda s, x: s[0] + x", "s[0] is read, but the result is a number"),
        ("lambda s: s", "expected 2 plain parameters"),
        ("lambda s, *x: s", "expected 2 plain parameters"),
        ("s + x", 'expected "lambda s, x: ..."'),
        ("lambda s, x: s" + " + x" * 400, "nested deeper than 60 levels"),
        ("lambda s, x: " + "-" * 1000 + "s", "nested deeper than 60 levels"),
        ("lambda s, x: " + "(" * 1000 + "s" + ")" * 1000, "too many nested parentheses"),
        ("lambda s, x: s" + " " * 5000, "5014 characters; expected at most 4000"),
        ("lambda s, x: \0", "null bytes"),
        (
            "lambda s, x: " + "(lambda a: a + a)(" * 13 + "s" + ")" * 13,
            "more than 4000 terms when written out",
        ),
    ],
)
def test_a_bad_lambda_is_told_where(source: str, message: str) -> None:
    with pytest.raises(WrongUsage, match=re.escape(message)):
        is_associative(source)


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ("(0, 0)", "expected a number"),
        ("1/0", "has no value"),
        ("x", "init, column 1: the name x"),
        ("", "init, column 1"),
    ],
)
def test_a_bad_init_is_told(init: str, message: str) -> None:
    with pytest.raises(WrongUsage, match=re.escape(message)):
        is_associative("lambda s, x: s + x", init)


def test_a_lambda_called_on_the_spot_is_written_out() -> None:
    named = parse("lambda s, x: (lambda s, d: s*d + s)(*x) + (lambda m: m + s)(s)", 2)

    assert reference(named.source)(3, (5, 7)) == 46
    assert state_text(named(PYTHON, (3,), (5, 7)), scalar=True) == "46"
