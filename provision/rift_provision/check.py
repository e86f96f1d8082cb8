"""Compares a host with what is asked of it. Pure: facts and a request in, a report out."""

from __future__ import annotations

from dataclasses import dataclass

from rift.errors import Blocked, WrongUsage
from rift_provision.boot_loader import Loader, configured, loader_of
from rift_provision.facts import Facts
from rift_provision.facts.pci import PciFunction
from rift_provision.gpu_selection import select
from rift_provision.requirements import REQUIREMENTS
from rift_provision.requirements.part import Case, Finding, Part, Request, Verdict
from rift_provision.requirements.system import not_a_host

# Exit codes of the command line: design of `rift`, and `rift.errors`.
READY, CHANGES_NEEDED, BLOCKED = 0, 3, 4


@dataclass(frozen=True)
class Report:
    """Everything that was found, and the wanted state that a plan is made from."""

    case: Case
    parts: tuple[Part, ...]
    obstacles: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All of it, in the order of the table."""
        return (*self.obstacles, *(one for part in self.parts for one in part.findings))

    @property
    def exit_code(self) -> int:
        """0 ready, 3 changes needed, 4 blocked: by the host's state or by its firmware."""
        verdicts = {finding.verdict for finding in self.findings}
        if verdicts & {Verdict.BLOCKS, Verdict.NEEDS_FIRMWARE}:
            return BLOCKED
        return CHANGES_NEEDED if Verdict.WILL_FIX in verdicts else READY


def check(facts: Facts, request: Request) -> Report:
    """The report on a host. Raises WrongUsage if the request makes no sense for it."""
    if reasons := not_a_host(facts):
        return Report(Case(facts, request, None, "", ()), (), reasons)
    obstacles: list[Finding] = []
    loader, line = _loader(facts, obstacles)
    functions = _functions(facts, request, obstacles)
    case = Case(facts, request, loader, line, functions)
    parts = tuple(requirement(case) for requirement in REQUIREMENTS[request.mode])
    return Report(case, parts, tuple(obstacles))


def _loader(facts: Facts, obstacles: list[Finding]) -> tuple[Loader | None, str]:
    """The boot loader and its command line, or a finding that says why there is none."""
    try:
        loader = loader_of(facts)
        return loader, configured(facts, loader)
    except Blocked as error:
        why = "a change of the kernel command line has to reach the next boot"
        obstacles.append(Finding("boot loader", "", str(error), Verdict.BLOCKS, why))
        return None, facts.boot.command_line


def _functions(facts: Facts, request: Request, obstacles: list[Finding]) -> tuple[PciFunction, ...]:
    try:
        return select(facts, request.gpus)
    except WrongUsage as error:
        if request.gpus != ("all",):
            raise
        obstacles.append(Finding("gpu", "", str(error), Verdict.BLOCKS, "there is nothing to do"))
        return ()
