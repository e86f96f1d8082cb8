"""What `rift provision` shows while it carries plans out or takes them back."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import typer

from rift.errors import RiftError, WrongUsage
from rift.terminal import Status, print_json, say
from rift_provision.ansible_run import Outcome, Progress
from rift_provision.apply import Direction, verify_all
from rift_provision.apply import carry_out as play
from rift_provision.plan import Plan


@dataclass(frozen=True)
class Wish:
    """How it was asked for."""

    yes: bool
    dry_run: bool
    reboot_timeout_s: float
    as_json: bool


def carry_out(direction: Direction, plans: Sequence[Plan], wish: Wish) -> int:
    """The exit code: 0 if every host is as planned, or back to what it was."""
    plans = [plan for plan in plans if not plan.is_empty]
    if not plans:
        say("nothing to change")
        return 0
    if not wish.dry_run and not wish.yes:
        _ask(direction, plans)
    with _Shown() as shown:
        outcomes = play(
            direction, plans, shown.tell, dry_run=wish.dry_run,
            reboot_timeout_s=wish.reboot_timeout_s,
        )  # fmt: skip
    reports: dict[str, object] = {}
    if direction == "apply" and not wish.dry_run:
        reports = dict(verify_all([plan for plan in plans if outcomes[plan.host].ok]))
    if wish.as_json:
        print_json([_document(plan, outcomes[plan.host], reports) for plan in plans])
    codes = [_conclude(direction, plan, outcomes[plan.host], reports, wish) for plan in plans]
    return max(codes)


def _ask(direction: Direction, plans: Sequence[Plan]) -> None:
    names = ", ".join(plan.host for plan in plans)
    reboots = [plan.host for plan in plans if plan.reboot]
    if not sys.stdin.isatty():
        raise WrongUsage(f"nobody is there to ask: add --yes to change {names}")
    what = "apply this" if direction == "apply" else "take this back"
    more = f" and reboot {', '.join(reboots)}" if reboots else ""
    typer.confirm(f"{what} on {names}{more}?", abort=True, err=True)


class _Shown:
    """Each host's tasks as they end, and what is running meanwhile."""

    def __init__(self) -> None:
        self._status = Status()
        self._running: dict[str, tuple[str, float]] = {}

    def __enter__(self) -> _Shown:
        self._status.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.__exit__()

    def tell(self, progress: Progress) -> None:
        """Show a step of one host."""
        host, task = progress.host, progress.task
        if progress.state == "begun":
            self._running[host] = task, time.monotonic()
        elif progress.state != "skipped":
            _, since = self._running.pop(host, ("", time.monotonic()))
            took = f"{time.monotonic() - since:.0f} s"
            say(f"{host}: {progress.detail or task}: {progress.state} ({took})")
        lines = [f"{name}: {task}" for name, (task, _) in self._running.items()]
        self._status.show("; ".join(lines))


def _conclude(
    direction: Direction, plan: Plan, outcome: Outcome, reports: dict[str, object], wish: Wish
) -> int:
    again = f"rift provision {direction} {plan.id}"
    if not outcome.ok:
        say(f"{plan.host}: not finished: {outcome.failed or outcome.lost}")
        say(f"  it may be repeated: {again}")
        return 1
    if wish.dry_run:
        would = ", ".join(outcome.changed) or "nothing"
        say(f"{plan.host}: would change: {would}")
        return 0
    if direction == "undo":
        say(f"{plan.host}: back to what it was before plan {plan.id}; packages stay")
        return 0
    report = reports[plan.host]
    if isinstance(report, RiftError):
        say(f"{plan.host}: {report}")
        return report.exit_code
    say(f"{plan.host}: ready; take it back with: rift provision undo {plan.id}")
    return 0


def _document(plan: Plan, outcome: Outcome, reports: dict[str, object]) -> dict[str, object]:
    report = reports.get(plan.host)
    wrong = str(report) if isinstance(report, RiftError) else ""
    return {"plan": plan.id, "host": plan.host, **asdict(outcome), "not_verified": wrong}
