"""A check and a plan for people: tables and diffs that fit 80 columns."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.markup import escape
from rich.table import Table

from rift.terminal import listing, printable
from rift_provision.check import Report
from rift_provision.plan import Plan
from rift_provision.requirements.part import Finding, Verdict


def table(report: Report) -> Table:
    """A line a finding, with the reason below whatever is not simply well, once if it repeats."""
    made = listing("REQUIREMENT", "VERDICT", "FOUND")
    said: set[tuple[str, str, str]] = set()
    for finding in report.findings:
        what = f"{finding.requirement} {finding.subject}".strip()
        reason = (finding.requirement, finding.why, finding.do)
        cells = (what, finding.verdict.value, _found(finding, reason not in said))
        said.add(reason)
        made.add_row(*(escape(cell) for cell in cells))
    return made


def summary(report: Report) -> str:
    """What the check comes to, in a line."""
    counts = {
        verdict: sum(finding.verdict is verdict for finding in report.findings)
        for verdict in (Verdict.BLOCKS, Verdict.NEEDS_FIRMWARE, Verdict.WILL_FIX)
    }
    parts = [f"{count} {verdict.value}" for verdict, count in counts.items() if count]
    return ", ".join(parts) or "ready"


def text(plan: Plan) -> Iterator[str]:
    """The plan: diffs, packages, units, commands, reboot, each with its reason."""
    for file in plan.files:
        yield f"# {file.why}"
        yield from map(printable, file.diff.rstrip("\n").split("\n"))
        yield ""
    if plan.packages:
        yield f"install with {plan.package_manager}: {' '.join(plan.packages)}"
    for unit in plan.units:
        verb = "enable and start" if unit.start else "enable"
        yield f"{verb}: {unit.name} (is {unit.enabled}, {unit.active})"
    for command in plan.commands:
        yield f"run: {shlex.join(command.argv)}  # {command.why}"
    if plan.reboot:
        yield f"reboot, for: {', '.join(plan.reboot_why)}"
    if plan.is_empty:
        yield "nothing to do"


def _found(finding: Finding, with_reason: bool) -> str:
    lines = [finding.found]
    if finding.verdict is not Verdict.OK and with_reason:
        lines += [finding.why, f"-> {finding.do}" if finding.do else ""]
    return "\n".join(printable(line) for line in lines if line)
