"""Is this loop secretly associative? The combine of a step function, or why there is none.

A yes was checked: on random lists the loop over xs ++ ys is the combine of the loops over xs and
over ys, and the combine is associative with the identity given. A no comes with four short lists
that anyone can check by hand.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import sympy

from rift.errors import WrongUsage
from rift_compiler.algebra import laws
from rift_compiler.algebra.arithmetic import EXACT, HIGH
from rift_compiler.algebra.combines import Candidate, Loop, candidates, run_on_symbols
from rift_compiler.algebra.counterexample import Counterexample, moves, search
from rift_compiler.algebra.lambdas import Lambda, parse
from rift_compiler.algebra.monoids import constant
from rift_compiler.algebra.symbols import CANNOT, state_text

COLUMNS = 80
INFERRED = " (inferred)"
WAYS = (
    "sums, products, maxima, any, all, values kept beside a maximum, sums that move with another "
    "component, plain sums in disguise, linear recurrences, and the step as its own combine"
)


@dataclass(frozen=True, slots=True)
class Yes:
    """Partial results combine. combine, identity and lift are text that `parse` reads.

    extra says what each component is that had to be added to the loop's own; alone then shows why
    it had to, where that was found. guard: two empty parts have no combine (-inf - -inf, 0/0).
    """

    combine: str
    identity: str
    lift: str
    inferred: bool  # the init was not given
    extra: tuple[str, ...]
    alone: Counterexample | None
    how: str
    proofs: tuple[laws.Proof, ...]
    guard: bool

    def text(self) -> str:
        """Return lines of at most 80 columns."""
        fields = [
            ("combine", self.combine),
            ("identity", self.identity + INFERRED * self.inferred),
            ("lift", self.lift),
            *(("added", what) for what in self.extra),
            ("how", self.how),
            *(("law", f"{p.law}: {p.method}, {p.detail}") for p in self.proofs),
            *[("note", "two empty parts have no combine: skip what is empty")] * self.guard,
        ]
        lines = [] if self.alone is None else ["this state alone:", *self.alone.lines()]
        return _page(self._head(), fields, lines)

    def _head(self) -> str:
        if not self.extra:
            return "yes: the loop can run in parts, whose results combine in any grouping"
        more = f"yes with {len(self.extra)} more component{'s' * (len(self.extra) > 1)}"
        return more if self.alone is None else f"not on this state alone; {more}"

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        lines = None if self.alone is None else self.alone.lines()
        return {
            "answer": "extended" if self.extra else "yes",
            **asdict(self),
            "alone": lines,
        }


@dataclass(frozen=True, slots=True)
class No:
    """No function of two states of this loop gives the state of the whole."""

    init: str
    inferred: bool
    counterexample: Counterexample

    def text(self) -> str:
        """Return lines of at most 80 columns."""
        head = "no: two partial results of this state do not determine the whole"
        init = self.init + INFERRED * self.inferred
        return _page(head, [("init", init)], self.counterexample.lines())

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        return {"answer": "no", **asdict(self), "counterexample": self.counterexample.lines()}


@dataclass(frozen=True, slots=True)
class Unknown:
    """Neither a combine nor a counterexample was found; reason says what was tried."""

    reason: str

    def text(self) -> str:
        """Return lines of at most 80 columns."""
        return _page("unknown", [("tried", self.reason)], [])

    def to_json(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        return {"answer": "unknown", **asdict(self)}


Answer = Yes | No | Unknown


def _page(head: str, fields: list[tuple[str, str]], lines: list[str]) -> str:
    labelled = [(f"  {name:<9}", value) for name, value in fields]
    page = [head]
    for label, value in [*labelled, *(("  ", line) for line in lines)]:
        page += textwrap.wrap(
            value,
            COLUMNS,
            initial_indent=label,
            subsequent_indent=" " * max(4, len(label)),
            break_on_hyphens=False,
        )
    return "\n".join(page)


def is_associative(source: str, init: str | None = None) -> Answer:
    """Return whether the loop `for x in xs: s = step(s, x)` can run in parts, and how.

    source is a lambda of the state and an element, numbers or tuples of numbers, in the language
    of `lambdas`; init is the state before any element, a number or a tuple. Without it, it is what
    changes nothing, as far as that is recognised, or else zeros, ones, 2 or an infinity: the first
    from which the loop moves. Raises WrongUsage for text that cannot be read.
    """
    step = _step(source)
    starts = [init] if init is not None else _inits(step)
    for start in starts:
        _check_init(step, start)
    broken: dict[str, None] = {}  # a set that keeps its order
    for start in starts:
        for candidate in _candidates(step, start):
            proofs = _checked(step, start, candidate, broken)
            if proofs is not None:
                return _yes(step, start, candidate, proofs, init is None)
    looked = 0
    for start in starts[:2]:
        found, lists = search(step, start)
        if found is not None:
            return No(start, init is None, found)
        looked = max(looked, lists)
    tried = "".join(f" {reason}." for reason in list(broken)[:2])
    return Unknown(
        f"{WAYS}.{tried} No counterexample in {looked} lists from {' or '.join(starts[:2])}."
    )


def _yes(
    step: Lambda, start: str, candidate: Candidate, proofs: tuple[laws.Proof, ...], inferred: bool
) -> Yes:
    monoid = candidate.monoid
    return Yes(
        monoid.combine,
        monoid.identity,
        monoid.lift,
        inferred,
        candidate.extra,
        search(step, start)[0] if candidate.extra else None,
        candidate.how,
        proofs,
        guard=not laws.joins_empty(monoid),
    )


def _step(source: str) -> Lambda:
    step = parse(source, 2)
    name, used, size = step.parameters[0], step.widths[0], len(step.body)
    whole = name in step.reads and not used
    if step.scalar and used:
        raise WrongUsage(f"lambda: {name}[{used - 1}] is read, but the result is a number")
    if not step.scalar and (whole or used > size):
        read = name if whole else f"{name}[{used - 1}]"
        raise WrongUsage(f"lambda: {read} is read, but the result is a tuple of {size} components")
    return step


def _check_init(step: Lambda, init: str) -> None:
    state = constant(init, "init")
    arithmetic = EXACT if state.rational else HIGH
    try:
        state(arithmetic)
    except ArithmeticError as error:
        raise WrongUsage(f"init {init!r} has no value: {error}") from error
    if state.scalar != step.scalar or len(state.body) != len(step.body):
        wanted = "a number" if step.scalar else f"a tuple of {len(step.body)} numbers"
        raise WrongUsage(f"init {init!r}: expected {wanted}, as the lambda returns")


def _inits(step: Lambda) -> list[str]:
    """Inits to try, of those from which the loop reaches several states."""
    width = len(step.body)
    zeros = (0,) * width
    inits = [zeros, (1, *zeros[1:])]
    with suppress(*CANNOT):
        loop = run_on_symbols(step, state_text(zeros, step.scalar))
        inits.insert(0, tuple(_neutral(loop, i) for i in range(width)))
    inits += [(v,) for v in (-sympy.oo, sympy.oo, 2) if step.scalar]
    texts = dict.fromkeys(state_text(i, step.scalar) for i in inits)
    return [t for t in texts if moves(step, t)] or list(texts)[:1]


def _neutral(loop: Loop, i: int) -> sympy.Expr:
    s, after = loop.s[i], loop.after[i]
    if isinstance(after, (sympy.Or, sympy.And)):
        return isinstance(after, sympy.And)
    inside = [f.func for f in after.atoms(sympy.Max, sympy.Min) if s in f.args]
    if inside and len(set(inside)) == 1:
        return inside[0]()
    by_factor = not sympy.expand(after / s).has(*loop.s) and after.has(s)
    return sympy.Integer(1 if by_factor else 0)


def _candidates(step: Lambda, init: str) -> Iterator[Candidate]:
    try:
        yield from candidates(run_on_symbols(step, init))
    except (*CANNOT, WrongUsage):
        return


def _checked(
    step: Lambda, init: str, candidate: Candidate, broken: dict[str, None]
) -> tuple[laws.Proof, ...] | None:
    """The proofs of every law, or None, with what broke added to broken."""
    monoid = candidate.monoid
    proofs = []
    for law, check in (
        (laws.homomorphism(step, init, monoid), laws.sample),
        (laws.one_more(step, monoid), laws.prove),
        (laws.associativity(monoid), laws.prove),
        (laws.identity(monoid), laws.prove),
    ):
        proof = check(law)
        if isinstance(proof, laws.Broken):
            broken[f"{monoid.combine} breaks {proof.law}: {proof.detail}"] = None
            return None
        proofs.append(proof)
    return tuple(proofs)
