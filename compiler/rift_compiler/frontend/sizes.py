"""Sizes that may change: what torch.export is told of them, and what it found that they must be."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import sympy
from torch.export import Dim, ExportedProgram
from torch.fx.experimental import _config

from rift_compiler.errors import Unsupported
from rift_compiler.frontend.names import reserved

Dynamic = Mapping[str, Mapping[int, str]] | None  # input name -> {dimension: dim name}
Spec = Mapping[int, Any]  # dimension -> torch.export.Dim


def any_size() -> AbstractContextManager[object]:
    """Within, torch keeps sizes general: none is taken not to be 1, and no slice to fit."""
    config: Any = _config  # mypy does not see what torch installs in it
    patched: AbstractContextManager[object] = config.patch(backed_size_oblivious=True)
    return patched


def specs(
    forward: Any, inputs: Sequence[Any], dynamic: Dynamic, above_one: Iterable[str]
) -> tuple[Spec, ...] | None:
    """Each input's dynamic sizes; those in above_one are at least 2, the others at least 1."""
    if not dynamic:
        return None
    names = list(inspect.signature(forward).parameters)
    unknown = sorted(set(dynamic) - set(names[: len(inputs)]))
    if unknown:
        raise Unsupported(f"dynamic sizes of {', '.join(unknown)}: inputs are {', '.join(names)}")
    wanted = {d for sizes in dynamic.values() for d in sizes.values()}
    bad = sorted(d for d in wanted if reserved(d))
    if bad:
        raise Unsupported(f"dynamic sizes called {', '.join(bad)}: the name is taken")
    dims = {d: Dim(d, min=1 + (d in above_one)) for d in wanted}
    given = (dynamic.get(name, {}) for name in names[: len(inputs)])
    return tuple({n: dims[d] for n, d in sizes.items()} for sizes in given)


def limits(exported: ExportedProgram, symbol: Any) -> tuple[int, int | None]:
    """The range of a size, both ends included; no upper end where there is none."""
    found = exported.range_constraints[symbol]
    high = int(found.upper) if found.upper.is_Integer and int(found.upper) < 2**31 else None
    return max(int(found.lower), 1 + (symbol in _above_one(exported))), high


def _above_one(exported: ExportedProgram) -> set[Any]:
    """The size symbols for which the model would have done something else if they were 1.

    torch holds a size's range to every condition on it but this kind (0/1 specialization).
    """
    found: set[Any] = set()
    for condition, sizes in _conditions(exported):
        alone = [s for s in sizes if not _holds(condition, sizes, [s])]
        found |= set(alone) if alone or _holds(condition, sizes, sizes) else set(sizes)
    return found


def _conditions(exported: ExportedProgram) -> list[tuple[Any, dict[Any, Any]]]:
    """What the trace took to be true of sizes, each with the sizes it was true for."""
    fakes = [n.meta.get("val") for n in exported.graph.nodes if n.op == "placeholder"]
    modes = (getattr(f, "fake_mode", None) for f in fakes)
    env = next((m.shape_env for m in modes if m is not None and m.shape_env is not None), None)
    if env is None:
        return []
    found = [guard.expr.xreplace(env.replacements) for guard in env.guards]
    return [(c, {s: env.backed_var_to_val[s] for s in c.free_symbols}) for c in found]


def _holds(condition: Any, sizes: Mapping[Any, Any], ones: Iterable[Any]) -> bool:
    """Whether a condition on sizes would be true if some of them were 1."""
    return bool(condition.xreplace({**sizes, **dict.fromkeys(ones, sympy.Integer(1))}))


@contextmanager
def no_new_conditions(exported: ExportedProgram) -> Iterator[None]:
    """Within, a decision that may be wrong for some sizes of at least 2 raises Unsupported at the
    end: torch checks those that it made itself, not those made later."""
    before = len(_conditions(exported))
    yield
    new = [str(c) for c, sizes in _conditions(exported)[before:] if not _certain(c, sizes)]
    if new:
        raise Unsupported(f"sizes for which this may be false: {', '.join(new)}")


def _certain(condition: Any, sizes: Iterable[Any]) -> bool:
    """Whether a condition is true whenever all sizes are at least 2."""
    more = {s: 2 + sympy.Dummy(integer=True, nonnegative=True) for s in sizes}
    return bool(condition.xreplace(more) == sympy.true)


def symbol_of(size: Any) -> Any:
    """The symbol of a torch size, or None where the size is not one symbol."""
    expression = getattr(getattr(size, "node", None), "expr", None)
    return expression if isinstance(expression, sympy.Symbol) else None
