"""The whole differential suite: probes and operators in, one row of counts for each out."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import torch

from rift.errors import WrongUsage
from rift_compiler.differential import opinfo
from rift_compiler.differential.compare import Case, Function, Verdict, judge, rearranged
from rift_compiler.differential.probes import PROBES

Compiler = Callable[..., Function]  # (function, example inputs, target=...) -> callable
Progress = Callable[[str, int, int], None]  # name of the row that begins, rows done, rows in all

PROBE = "probe/"
WIDTH = 80


@dataclass(frozen=True)
class Row:
    """What became of the cases of one operator or probe.

    A skipped case is one that eager itself can't run. The firsts are the first case's label and
    what it said; empty where there was none.
    """

    name: str
    right: int = 0
    refused: int = 0
    wrong: int = 0
    skipped: int = 0
    first_refused: str = ""
    first_wrong: str = ""

    @property
    def reason(self) -> str:
        return self.first_wrong or self.first_refused


def all_names() -> tuple[str, ...]:
    """Of every row: "probe/add_alpha", ..., "add", ..."""
    return (*(PROBE + probe.name for probe in PROBES), *opinfo.OPS)


def selected(names: Sequence[str] | None) -> tuple[str, ...]:
    """The rows meant: all where None; "probes" and "ops" stand for their halves.

    Raises WrongUsage for a name that is none of these.
    """
    if names is None:
        return all_names()
    groups = {"probes": tuple(PROBE + probe.name for probe in PROBES), "ops": opinfo.OPS}
    for name in names:
        if name not in groups and name not in all_names():
            near = difflib.get_close_matches(name, (*groups, *all_names()), 3, 0.5)
            hint = f"near it: {', '.join(near)}" if near else 'or "probes", "ops"'
            raise WrongUsage(f"no differential case is called {name!r}; {hint}")
    return tuple(dict.fromkeys(row for name in names for row in groups.get(name, (name,))))


def run(
    names: Sequence[str] | None,
    target: str,
    samples: int,
    compile: Compiler,
    refusal: type[BaseException],
    *,
    device: str = "cpu",
    dtypes: Sequence[torch.dtype] = opinfo.DTYPES,
    progress: Progress = lambda name, done, of: None,
) -> Iterator[Row]:
    """A row for each name, as it is done. `samples` is the most for each operator and dtype.

    `compile(function, example_inputs, target=target)` raises `refusal` for what it won't do. The
    inputs live on `device`. Ctrl-C ends the rows: those so far were given.
    """
    rows = selected(names)
    try:
        for done, name in enumerate(rows):
            progress(name, done, len(rows))
            yield _row(name, _cases(name, samples, device, dtypes), compile, target, refusal)
    except KeyboardInterrupt:
        return


def check(compile: Compiler, case: Case, target: str, refusal: type[BaseException]) -> Verdict:
    """One case. It is compiled for example inputs whose values are not those it is run on."""

    @cache
    def compiled() -> Function:
        return compile(case.function, tuple(map(rearranged, case.args)), target=target)

    return judge(lambda *args: compiled()(*args), case.function, case.args, refusal)


def totals(rows: Iterable[Row]) -> Row:
    """The sums, in a row called "total"; its firsts are empty."""
    counts = [(row.right, row.refused, row.wrong, row.skipped) for row in rows]
    return Row("total", *(sum(column) for column in zip(*counts, strict=True)))


def as_json(rows: Sequence[Row], names: Sequence[str] | None, target: str) -> dict[str, Any]:
    """For programs. `complete` is false where the run was interrupted."""
    total = asdict(totals(rows))
    return {
        "target": target,
        "torch": torch.__version__,
        "complete": len(rows) == len(selected(names)),
        "totals": {key: total[key] for key in ("right", "refused", "wrong", "skipped")},
        "rows": [asdict(row) for row in rows],
    }


def table(rows: Sequence[Row]) -> list[str]:
    """Lines of at most 80 columns; a wrong row's reason stands before a refused one's."""
    lines = [_line("op", "right", "refused", "wrong", "first reason"), "-" * WIDTH]
    lines += [_line(row.name, row.right, row.refused, row.wrong, row.reason) for row in rows]
    total = totals(rows)
    skipped = f"{total.skipped} skipped: eager can't run them" if total.skipped else ""
    lines += ["-" * WIDTH, _line("total", total.right, total.refused, total.wrong, skipped)]
    return lines


def _line(name: str, right: object, refused: object, wrong: object, reason: str) -> str:
    start = f"{_cut(name, 30):30} {right!s:>5} {refused!s:>7} {wrong!s:>5}  "
    return (start + _cut(reason, WIDTH - len(start))).rstrip()


def _cut(text: str, width: int) -> str:
    """Short names of long operators keep their end, which tells them apart."""
    text = text.replace("nn.functional.", "F.")
    return textwrap.shorten(text, width, placeholder="...") if " " in text else text[-width:]


def _cases(name: str, samples: int, device: str, dtypes: Sequence[torch.dtype]) -> Iterator[Case]:
    if not name.startswith(PROBE):
        return opinfo.cases(name, samples, device, dtypes)
    (probe,) = (probe for probe in PROBES if PROBE + probe.name == name)
    return iter((probe.case(device),))


def _row(
    name: str, cases: Iterator[Case], compile: Compiler, target: str, refusal: type[BaseException]
) -> Row:
    counts = {"right": 0, "refused": 0, "wrong": 0, "skipped": 0}
    first: dict[str, str] = {}
    for case in cases:
        verdict = check(compile, case, target, refusal)
        counts[verdict.outcome] += 1
        first.setdefault(verdict.outcome, _said(case, verdict))
    return Row(
        name, **counts, first_refused=first.get("refused", ""), first_wrong=first.get("wrong", "")
    )


def _said(case: Case, verdict: Verdict) -> str:
    return f"{verdict.kind or verdict.outcome}: {verdict.detail} ({case.label})"
