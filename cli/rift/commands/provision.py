"""`rift provision`: turn a server into a host for GPU VMs, or take that back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from rift.errors import RiftError, WrongUsage
from rift.terminal import Status, out, print_json, say
from rift_provision import plan_store, report_text
from rift_provision.check import Report, check
from rift_provision.facts import Facts, read_json
from rift_provision.gather import gather
from rift_provision.plan import Plan, make_plan
from rift_provision.requirements.part import Mode, Request

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Turn servers into hosts for GPU VMs."
)
AT_ONCE = 16  # hosts that are looked at together
PAGES = {"1G": 1 << 20, "2M": 2 << 10}
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Ids = Annotated[list[str], typer.Argument(metavar="PLAN...", help="Ids of saved plans.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Ask the hosts what would change; change nothing.")
]
RebootTimeout = Annotated[
    float, typer.Option(min=60, help="Seconds that a host may take to come back.")
]


@app.command()
def host(
    hosts: Annotated[
        list[str] | None,
        typer.Argument(metavar="HOST...", help="Servers, local, or recorded trees."),
    ] = None,
    only_check: Annotated[
        bool, typer.Option("--check", help="Say what is missing; read only. Exit code 0, 3 or 4.")
    ] = False,
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Show and save every change; change nothing.")
    ] = False,
    facts: Annotated[
        list[Path] | None,
        typer.Option("--facts", help="A host as rift host facts --json wrote it. Repeatable."),
    ] = None,
    mode: Annotated[
        Mode, typer.Option(help="vfio: cards for VMs; container: for the host.")
    ] = Mode.VFIO,
    gpus: Annotated[
        str, typer.Option(help="PCI addresses, with commas, or all but the host's display.")
    ] = "all",
    hugepages: Annotated[
        str, typer.Option(help="auto, none, a size such as 64G, or NODE=SIZE,NODE=SIZE.")
    ] = "auto",
    page_size: Annotated[
        str | None, typer.Option(help="1G or 2M (default: the largest that the CPU has).")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    reboot_timeout: RebootTimeout = 1800.0,
    as_json: Json = False,
) -> None:
    """Make servers hosts for GPU VMs: check, plan, ask, apply, reboot, verify."""
    if not (hosts or facts):
        raise WrongUsage("say which host: one of rift host list, or local")
    if facts and not (only_check or only_plan):
        raise WrongUsage("--facts is of a host that is not here: add --check or --plan")
    if page_size not in (None, *PAGES):
        raise WrongUsage(f"--page-size {page_size}: expected 1G or 2M")
    pages = PAGES[page_size] if page_size else None
    request = Request(mode, tuple(gpus.split(",")), hugepages, pages)
    looked_at, codes = _look(hosts or [], facts or [], request)
    if only_check:
        codes += _show_checks(looked_at, as_json)
        raise SystemExit(max(codes, default=0))
    plans, refused = _plans(looked_at)
    codes += refused
    if only_plan:
        _show_plans(plans, as_json)
        raise SystemExit(max(codes, default=0))
    from rift.commands.provision_apply import Wish, carry_out

    wish = Wish(yes, dry_run, reboot_timeout, as_json)
    for plan in plans:
        if not as_json:
            _print_plan(plan, False)
    codes += [carry_out("apply", plans, wish)] if plans else []
    raise SystemExit(max(codes, default=0))


@app.command()
def apply(
    plan_ids: Ids, yes: Yes = False, dry_run: DryRun = False,
    reboot_timeout: RebootTimeout = 1800.0, as_json: Json = False,
) -> None:  # fmt: skip
    """Carry out plans that were saved; what is done already is not done again."""
    _carry_out("apply", plan_ids, yes, dry_run, reboot_timeout, as_json)


@app.command()
def undo(
    plan_ids: Ids, yes: Yes = False, dry_run: DryRun = False,
    reboot_timeout: RebootTimeout = 1800.0, as_json: Json = False,
) -> None:  # fmt: skip
    """Take plans back: services, then every file to the byte, then a reboot. Packages stay."""
    _carry_out("undo", plan_ids, yes, dry_run, reboot_timeout, as_json)


def _carry_out(
    direction: Literal["apply", "undo"], plan_ids: list[str], yes: bool, dry_run: bool,
    reboot_timeout: float, as_json: bool,
) -> None:  # fmt: skip
    from rift.commands.provision_apply import Wish, carry_out

    plans = [plan_store.load(one) for one in plan_ids]
    if not as_json:
        for plan in plans:
            _print_plan(plan, False)
    wish = Wish(yes, dry_run, reboot_timeout, as_json)
    raise SystemExit(carry_out(direction, plans, wish))


@app.command()
def show(plan_id: Annotated[str, typer.Argument(metavar="PLAN")], as_json: Json = False) -> None:
    """A plan that was saved."""
    _print_plan(plan_store.load(plan_id), as_json)


def _look(
    hosts: list[str], files: list[Path], request: Request
) -> tuple[dict[str, Report], list[int]]:
    """A report of each host, and the exit codes of those that could not be looked at."""
    recorded = {str(path): read_json(path) for path in files}
    found: dict[str, Report] = {}
    codes = []
    with Status() as status, ThreadPoolExecutor(AT_ONCE) as pool:
        status.show(f"looking at {', '.join(hosts)}")
        running = {name: pool.submit(gather, name) for name in hosts}
        running |= {name: pool.submit(_known, one) for name, one in recorded.items()}
        for name, future in running.items():
            try:
                found[name] = check(future.result(), request)
            except RiftError as error:
                say(f"{name}: {error}")
                codes.append(error.exit_code)
    return found, codes


def _known(facts: Facts) -> Facts:
    return facts


def _show_checks(reports: dict[str, Report], as_json: bool) -> list[int]:
    if as_json:
        print_json([_as_json(name, report) for name, report in reports.items()])
        return [report.exit_code for report in reports.values()]
    for name, report in reports.items():
        if len(reports) > 1:
            out.print(f"== {name}", markup=False)
        out.print(report_text.table(report))
        say(f"{name}: {report_text.summary(report)}")
    return [report.exit_code for report in reports.values()]


def _as_json(name: str, report: Report) -> dict[str, object]:
    findings = [asdict(finding) for finding in report.findings]
    return {"host": name, "exit_code": report.exit_code, "findings": findings}


def _plans(reports: dict[str, Report]) -> tuple[list[Plan], list[int]]:
    """A saved plan for each host that can have one, and the exit codes of the others."""
    codes, plans = [], []
    for name, report in reports.items():
        try:
            plans.append(plan_store.save(make_plan(report, name)))
        except RiftError as error:
            say(str(error))
            codes.append(error.exit_code)
    return plans, codes


def _show_plans(plans: list[Plan], as_json: bool) -> None:
    if as_json:
        print_json([plan_store.document(plan) for plan in plans])
    else:
        for plan in plans:
            _print_plan(plan, False)
            say(f"plan {plan.id} saved; nothing was changed")


def _print_plan(plan: Plan, as_json: bool) -> None:
    if as_json:
        return print_json(plan_store.document(plan))
    for line in report_text.text(plan):
        out.print(line, markup=False, soft_wrap=True)
