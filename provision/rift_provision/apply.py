"""Carries plans out on their hosts, sees that they took effect, and takes them back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from rift.errors import Failed, RiftError, WrongUsage
from rift_provision import ansible_run, inventory, plan_store
from rift_provision.ansible_run import Outcome, Progress
from rift_provision.check import Report, check
from rift_provision.gather import gather
from rift_provision.inventory import Host
from rift_provision.plan import Plan
from rift_provision.requirements.part import Verdict

Direction = Literal["apply", "undo"]
Tell = Callable[[Progress], None]
ATTEMPTS = 3  # of a host whose connection is lost: what is done already is not done again
PAUSE_S = 10.0  # before the next


def carry_out(
    direction: Direction,
    plans: Sequence[Plan],
    tell: Tell,
    *,
    dry_run: bool = False,
    reboot_timeout_s: float = 1800.0,
) -> dict[str, Outcome]:
    """What became of each plan's host. Hosts are worked on at one time; one that fails stops no
    other. Raises WrongUsage if two plans are of one host, or a host is not in the inventory."""
    by_host = {plan.host: plan for plan in plans}
    if len(by_host) < len(plans):
        raise WrongUsage("two of these plans are of the same host: one at a time")
    hosts = {name: _host(plan) for name, plan in by_host.items()}
    settings = {"host_plan_reboot_timeout_s": int(reboot_timeout_s)}
    outcomes: dict[str, Outcome] = {}
    left = dict(by_host)
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE_S)
        documents = {name: plan_store.document(plan) for name, plan in left.items()}
        outcomes |= ansible_run.play(direction, documents, hosts, tell, dry_run, settings)
        left = {name: plan for name, plan in left.items() if outcomes[name].lost}
        if not left:
            break
    return outcomes


def verify(plan: Plan) -> Report:
    """The check of a plan's request, after it was carried out: of what is, not of what files say.

    Raises Failed if anything is left to do.
    """
    report = check(gather(plan.host), plan.request)
    if report.exit_code:
        fine = (Verdict.OK, Verdict.NOTE)
        open_ = [f for f in report.findings if f.verdict not in fine]
        left = [f"{' '.join(filter(None, (f.requirement, f.subject)))}: {f.found}" for f in open_]
        raise Failed(f"{plan.host} is not as planned: " + "; ".join(left))
    return report


def verify_all(plans: Sequence[Plan]) -> dict[str, Report | RiftError]:
    """Each plan's report, or why it could not be verified."""
    with ThreadPoolExecutor(max(len(plans), 1)) as pool:
        return dict(pool.map(_verified, plans))


def _verified(plan: Plan) -> tuple[str, Report | RiftError]:
    try:
        return plan.host, verify(plan)
    except RiftError as error:
        return plan.host, error


def _host(plan: Plan) -> Host | None:
    """How to reach a plan's host; None is this machine."""
    if plan.host == "local":
        return None
    if found := inventory.find(plan.host):
        return found
    raise WrongUsage(
        f"plan {plan.id} is of {plan.host!r}, which is no host of the inventory: a plan of a "
        "recorded host cannot be carried out. See rift host list"
    )
