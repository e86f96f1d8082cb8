"""Two dependent folds into one: how the second's partial result moves when the first's moves.

A = (+)_j a(j) and B = (x)_j b(j, A): b uses the final A, so a loop that keeps A and B together must
carry B from an old A to a new one. It can when the dependence on A is an action: a T(old, new),
an endomorphism of (x), with b(j, new) = T(old, new)(b(j, old)) for every j.

Over sums, the b for which finitely many further sums suffice are the exponential polynomials,
exp(rate*A)*polynomial(A): they span the finite-dimensional translation-invariant function spaces
(P. Anselone and J. Korevaar, "Translation invariant subspaces of finite dimension", Proc. AMS 15,
1964; L. Szekelyhidi, "Convolution Type Functional Equations on Topological Abelian Groups", 1991).
Then, with D = d/dA - rate,

    b(j, A + d) = exp(rate*d) * sum over r of d**r/r! * (D**r b)(j, A).

Degree 0 is softmax. Above it, each sum over j of D**r b is a companion that the loop must know.
About the mean of x it knows two: the sum of x - mean is 0, and the sum of 1 is the count. So
(x - mean)**2 moves by count*(old - new)**2 (T. Chan, G. Golub, R. LeVeque, "Updating formulae and
a pairwise algorithm for computing sample variances", 1979).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from importlib.resources import files

import sympy

from rift.errors import WrongUsage
from rift_compiler.algebra import laws
from rift_compiler.algebra.arithmetic import Arithmetic, State
from rift_compiler.algebra.lambdas import parse
from rift_compiler.algebra.monoids import MONOIDS, Monoid
from rift_compiler.algebra.symbols import KEEP, Expr, components, state_text, text

ACC, OLD, NEW = sympy.symbols("acc old new", real=True)
COUNT = sympy.Symbol("count", positive=True)


@dataclass(frozen=True, slots=True)
class Action:
    """acc, folded with the centre at old, as it is with the centre at new.

    expr is over ACC, OLD, NEW and COUNT (the elements in acc). joint keeps the two folds in one
    state: (count,) centre, acc. guard: for two empty parts joint has no value (-inf - -inf, 0/0),
    so that generated code must leave acc alone where the other side is empty.
    """

    expr: Expr
    how: str
    proof: laws.Proof
    joint: Monoid
    guard: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """No such action, or none that is safe to compute. companions: lifts whose sums would help."""

    reason: str
    companions: tuple[Expr, ...] = ()


Found = tuple[Expr, str] | Refusal


@dataclass(frozen=True, slots=True)
class Lift:
    """b(j, centre); element is what the centre is the mean of, or None."""

    expr: Expr
    centre: sympy.Symbol
    element: sympy.Symbol | None

    @property
    def varying(self) -> list[sympy.Symbol]:
        """The symbols that vary with j, but for element."""
        return sorted(self.expr.free_symbols - {self.centre, self.element}, key=str)

    def at(self, x: State, centre: Expr) -> Expr:
        """b of the element x, which is what the base folds and then the varying symbols."""
        put = dict(zip((self.element or self.centre, *self.varying), x, strict=True))
        return self.expr.subs({**put, self.centre: centre}, simultaneous=True)


def derive(
    lift: Expr,
    centre: sympy.Symbol,
    base: str,
    monoid: str,
    element: sympy.Symbol | None = None,
) -> Action | Refusal:
    """Return how a fold of lift over monoid moves with centre, the result of a fold over base.

    Every symbol of lift but centre varies with j. Where base is "mean", element is the symbol that
    centre is the mean of. A centre that is never 0 can say so: Symbol("A", positive=True).
    """
    if base not in ("sum", "prod", "max", "min", "mean"):
        return Refusal(f"the fold over {base} does not give one number to be the centre")
    if base != "mean":
        element = None
    # Whatever does not contain the centre is one symbol: what it is made of does not matter here.
    c = centre if centre.is_real else sympy.Symbol(centre.name, real=True)
    parts: dict[Expr, sympy.Symbol] = {}
    asked = Lift(_opaque(sympy.sympify(lift).subs(centre, c), c, element, parts), c, element)
    found = movement(asked, monoid)
    if isinstance(found, Refusal):
        back = {symbol: part for part, symbol in parts.items()}
        return Refusal(found.reason, tuple(e.subs({**back, c: centre}) for e in found.companions))
    expr, how = found
    try:
        joint, proof = _proved(_renamed(asked), expr, base, monoid)
    except WrongUsage as error:  # a function that `lambdas` does not have
        return Refusal(f"{text(expr)} was found, but cannot be checked: {error}")
    if isinstance(proof, laws.Broken):
        return Refusal(f"{text(expr)} was found, but breaks {proof.law}: {proof.detail}")
    return Action(expr, how, proof, joint, guard=not laws.joins_empty(joint))


def _opaque(
    expr: Expr, centre: sympy.Symbol, element: sympy.Symbol | None, parts: dict[Expr, sympy.Symbol]
) -> Expr:
    if expr.is_Symbol or expr.is_number:
        return expr
    if expr.free_symbols == {element} and sympy.diff(expr, element).is_number:
        return expr
    if not expr.has(centre):
        return parts.setdefault(expr, sympy.Symbol(f"<{text(expr)}>", real=True))
    return expr.func(*(_opaque(a, centre, element, parts) for a in expr.args))


def _renamed(lift: Lift) -> Lift:
    """The same lift with names that do not depend on the caller's, so that its proof is kept."""
    names = {v: sympy.Symbol(f"v{i}", real=True) for i, v in enumerate(lift.varying)}
    names[lift.centre] = c = sympy.Symbol("c", real=True, positive=lift.centre.is_positive)
    if lift.element is not None:
        names[lift.element] = sympy.Symbol("x", real=True)
    return Lift(lift.expr.subs(names, simultaneous=True), c, names.get(lift.element))


def movement(lift: Lift, monoid: str) -> Found:
    """What moves acc, and how it was found; not proved. Several reasons are told together."""
    if not lift.expr.has(lift.centre):
        return ACC, "the lift does not depend on the centre"
    ways = {
        "sum": (_exponential_polynomial, _scaled),
        "max": (_shifted, _scaled_in_order),
        "min": (_shifted, _scaled_in_order),
    }
    refusals = []
    for way in ways.get(monoid, ()):
        found = way(lift)
        if isinstance(found, tuple):
            return found
        refusals += [found] if found else []
    if not refusals:
        return Refusal(f"no way is known to move {lift.expr} over {monoid} with {lift.centre}")
    reason = "; ".join(refusal.reason for refusal in refusals)
    return Refusal(reason, tuple(c for refusal in refusals for c in refusal.companions))


def _exponential_polynomial(lift: Lift) -> Found:
    b, centre = lift.expr, lift.centre
    terms = [_rate(term, centre) for term in sympy.Add.make_args(sympy.expand(b))]
    rates: set[Expr] = {rate for rate, _ in terms}
    if len(rates) > 1 or None in rates:
        return Refusal(
            f"{b} is no exponential polynomial in {centre}, exp(rate*{centre})*polynomial: "
            "only those are moved by finitely many sums (Anselone and Korevaar, 1964)"
        )
    rate = rates.pop()
    if rate.free_symbols:
        return Refusal(
            f"{b}: its rate {rate} in {centre} varies with j, so no one factor moves all"
        )
    degree = int(sympy.degree(sum(rest for _, rest in terms), centre))
    moved, missing = ACC, []
    derivative = b
    for r in range(1, degree + 1):
        derivative = sympy.expand(sympy.diff(derivative, centre) - rate * derivative)
        companion = _known_sum(derivative, lift)
        if companion is None:
            missing.append(sympy.factor(derivative))
        else:
            moved += (NEW - OLD) ** r / sympy.factorial(r) * companion
    if missing:
        sums = ", ".join(f"the sum over j of {m}" for m in missing)
        return Refusal(f"{b} moves with {centre} only beside {sums}", tuple(missing))
    number, log = rate.as_independent(sympy.log)
    base = log.args[0] if log.func == sympy.log else sympy.E  # 2**x has the rate log(2)
    factor = base ** ((number if log.func == sympy.log else rate) * (NEW - OLD))
    kind = "exponential" if rate else "polynomial"
    return sympy.factor_terms(moved * factor), f"{kind} in the centre, of degree {degree}"


def _rate(term: Expr, centre: sympy.Symbol) -> tuple[Expr | None, Expr]:
    """term = exp(rate*centre)*rest with rest a polynomial in centre; rate is None where not."""
    rate, rest = sympy.Integer(0), sympy.Integer(1)
    for factor in sympy.Mul.make_args(term):
        base, exponent = factor.as_base_exp()
        slope = sympy.diff(exponent, centre)
        if exponent.has(centre) and not base.has(centre) and not slope.has(centre):
            rate += slope * sympy.log(base)
            factor = base ** sympy.expand(exponent - slope * centre)
        rest *= factor
    return (sympy.expand(rate) if rest.is_polynomial(centre) else None), rest


def _known_sum(companion: Expr, lift: Lift) -> Expr | None:
    """The sum of companion over the elements in acc, at OLD: of 1 it is COUNT, of x - mean 0."""
    varying = companion.free_symbols - {lift.centre}
    x = lift.element
    if x is not None and varying == {x} and sympy.diff(companion, x, 2) == 0:
        companion = sympy.expand(companion.subs(x, lift.centre))
    elif varying:
        return None
    return companion.subs(lift.centre, OLD) * COUNT


def _scaled(lift: Lift, positive: bool = False) -> Found | None:
    """b = f(j)*g(A), None where not: by g(new)/g(old)."""
    centre = lift.centre
    _, g = sympy.factor(lift.expr).as_independent(centre, as_Add=False)
    if g.free_symbols != {centre}:
        return None
    if not (g.is_positive or (g.is_nonzero and not positive)):
        need = "above 0" if positive else "other than 0"
        return Refusal(f"the factor {g} is not known to be {need} ({centre} may be declared so)")
    ratio = sympy.powsimp(sympy.simplify(g.subs(centre, NEW) / g.subs(centre, OLD)))
    absolute = [e for e in ratio.atoms(sympy.exp) if not (e.has(OLD) and e.has(NEW))]
    if absolute:
        return Refusal(f"the factor {ratio} overflows in {absolute[0]}, which is not relative")
    return ACC * ratio, "a factor that depends on the centre alone"


def _scaled_in_order(lift: Lift) -> Found | None:
    """As _scaled; only a positive factor commutes with max and min."""
    return _scaled(lift, positive=True)


def _shifted(lift: Lift) -> Found | None:
    """b = f(j) + g(A), None where not, over max or min: by g(new) - g(old)."""
    centre = lift.centre
    _, g = sympy.expand(lift.expr).as_independent(centre, as_Add=True)
    if g.free_symbols != {centre}:
        return None
    moved = sympy.factor_terms(g.subs(centre, NEW) - g.subs(centre, OLD))
    return ACC + moved, "a term that depends on the centre alone"


def _joint(lift: Lift, expr: Expr, base: str, monoid: str) -> Monoid:
    """The monoid of both folds in one state: (count,) the base's components, acc.

    An element is what base folds, then a value for each further symbol of lift.
    """
    first, second = MONOIDS[base], MONOIDS[monoid]
    counted = base != "mean" and expr.has(COUNT)
    names = ("count",) * counted + first.state + (monoid,)
    a, b = (components(name, len(names)) for name in "ab")
    joined = parse(first.combine, 2)(KEEP, a[counted:-1], b[counted:-1])
    accs = [
        (expr.subs({ACC: s[-1], OLD: s[-2], NEW: joined[-1], COUNT: s[0]}, simultaneous=True),)
        for s in (a, b)
    ]
    count = (a[0] + b[0],) * counted
    combined = (*count, *joined, *parse(second.combine, 2)(KEEP, *accs))
    empty = (0,) * counted + first.empty(KEEP) + second.empty(KEEP)
    x = components("x", 1 + len(lift.varying))
    one = parse(first.lift, 1)(KEEP, x[:1])
    lifted = (*(1,) * counted, *one, lift.at(x, one[-1]))
    return Monoid(
        f"{monoid} beside {base}",
        names,
        state_text(empty),
        f"lambda x: {state_text(lifted)}",
        f"lambda a, b: {state_text(combined)}",
    )


def record(lift: Lift, expr: Expr, base: str, monoid: str) -> str:
    """One line of proved.txt: the question and its answer, names taken out."""
    return f"{base} | {monoid} | {text(lift.expr)} | {text(expr)}"


@lru_cache(maxsize=1)
def recorded() -> frozenset[str]:
    """Joint folds that were proved before, so that compiling need not wait for their proofs.

    A proof takes seconds; the tests prove each line again.
    """
    lines = (files("rift_compiler.algebra") / "proved.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


@lru_cache(maxsize=256)
def _proved(
    lift: Lift, expr: Expr, base: str, monoid: str
) -> tuple[Monoid, laws.Proof | laws.Broken]:
    """The joint fold, and whether it is a monoid and equals the two folds one after the other."""
    joint = _joint(lift, expr, base, monoid)
    if record(lift, expr, base, monoid) in recorded():
        return joint, laws.Proof("all laws", "recorded", "proved for proved.txt, and by the tests")
    parts = [
        laws.prove(laws.associativity(joint)),
        laws.prove(_two_passes(joint, lift, base, monoid)),
    ]
    identity = laws.prove(laws.identity(joint))
    if isinstance(identity, laws.Proof) or identity.seen:
        parts.append(identity)
    for part in parts:
        if isinstance(part, laws.Broken):
            return joint, part
    symbolic = all(isinstance(p, laws.Proof) and p.method == "symbolic" for p in parts)
    return joint, laws.Proof(
        ", ".join(p.law for p in parts),
        "symbolic" if symbolic else "sampled",
        "; ".join(f"{p.law}: {p.detail}" for p in parts),
    )


def _two_passes(joint: Monoid, lift: Lift, base: str, monoid: str) -> laws.Law:
    """Of three elements: the joint fold, and b folded with the final centre."""
    first, second = MONOIDS[base], MONOIDS[monoid]
    x, c = components("x", 1 + len(lift.varying)), components("c", 1, scalar=True)
    b = parse(f"lambda x, c: {state_text((lift.at(x, c[0]),))}", 2)
    join = parse(second.combine, 2)

    def sides(n: Arithmetic, *elements: State) -> tuple[State, State]:
        centre = first.fold(n, [e[:1] for e in elements])[-1:]
        terms = [b(n, e, centre) for e in elements]
        acc = reduce(lambda p, q: join(n, p, q), terms)
        return joint.fold(n, elements)[-2:], (*centre, *acc)

    three = tuple(laws.one_element(name, len(x)) for name in "xyz")
    return laws.Law("both folds one after the other", three, sides, b.rational)
