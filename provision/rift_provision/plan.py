"""A plan: what exactly will be changed on a host, why, and what undoes it. Pure.

The document (`rift.host-plan/1`), for whatever applies it - `ansible/` here, or by hand:

    id, host, created     which plan, of which host (its name in the inventory), when made
    request               mode, gpus, hugepages, page_kib, as asked
    boot_id               the boot during which the facts were read
    packages              to install with package_manager (apt or dnf); never removed by undo
    files                 [{path, before, after, why}]; before and after are null (no such file) or
                          {text, mode, uid, gid}
    units                 [{name, start, enabled, active, why}]: enable each, and start it now if
                          `start` (else the reboot does); enabled and active are what it was before,
                          and what undo goes back to
    commands              [{argv, when, why}]: when is "files" (after the files are written) or
                          "units" (after the units are enabled), in this order, as root
    undo_commands         [{argv, why}]: after undo has put back the files
    reboot                whether it takes effect with a reboot only, and `reboot_why`
    findings              the check that it was made from

To apply it:
1. For every file, compare what is there with `before` (or with `after`, if it was applied already).
   If it is neither, stop before touching anything: the plan is of another state.
2. Install the packages.
3. Write the files whose content, mode or owner differs: to a temporary name in the same directory,
   then rename; make missing directories 0755. Remove those whose `after` is null.
4. Run the commands for "files" if a file was written or the plan is repeated after an interruption;
   all of them may be repeated.
5. Enable the units and start those to be started, then run the commands for "units".
6. Reboot if `reboot`, and wait until `boot_id` is another one.
7. Verify: read the facts again and check the same request; nothing may be left to fix.

To undo it: put the units back to what they were, then the files with `before` and `after`
exchanged, then run `undo_commands`, and reboot if `reboot`. Packages stay.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from rift.errors import Blocked, Failed
from rift_provision import vfio_files
from rift_provision.boot_loader import Loader, edit
from rift_provision.check import BLOCKED, Report
from rift_provision.facts.files import File
from rift_provision.kernel_options import Change
from rift_provision.requirements.hugepages import UNIT as HUGEPAGES_UNIT
from rift_provision.requirements.part import Finding, Request, Verdict

SCHEMA: Literal["rift.host-plan/1"] = "rift.host-plan/1"
INITRAMFS = {
    "initramfs-tools": ("update-initramfs", "-u", "-k", "all"),
    "dracut": ("dracut", "--force", "--regenerate-all"),
}


@dataclass(frozen=True)
class FileChange:
    """A file before and after; None is no file."""

    path: str
    before: File | None
    after: File | None
    why: str

    @property
    def diff(self) -> str:
        """The change as a unified diff, with the mode where that changes."""
        old, new = (_lines(side) for side in (self.before, self.after))
        names = [self.path if side else "/dev/null" for side in (self.before, self.after)]
        text = "".join(difflib.unified_diff(old, new, names[0], names[1]))
        if self.before and self.after and self.before.mode != self.after.mode:
            text = f"mode {self.before.mode} -> {self.after.mode}\n{text}"
        return text


@dataclass(frozen=True)
class UnitChange:
    """A systemd unit to be enabled and, if `start`, started at once; and what it was."""

    name: str
    start: bool
    enabled: str
    active: str
    why: str


@dataclass(frozen=True)
class Command:
    """A command to run as root: after the files are written, or after the units are enabled."""

    argv: tuple[str, ...]
    when: Literal["files", "units"]
    why: str


@dataclass(frozen=True)
class Plan:
    """What is to be done to a host. See the module for the document and how it is applied."""

    schema: Literal["rift.host-plan/1"]
    id: str
    host: str
    created: str
    request: Request
    boot_id: str
    package_manager: str | None
    packages: tuple[str, ...]
    files: tuple[FileChange, ...]
    units: tuple[UnitChange, ...]
    commands: tuple[Command, ...]
    undo_commands: tuple[Command, ...]
    reboot: bool
    reboot_why: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.packages or self.files or self.units or self.commands or self.reboot)


def make_plan(report: Report, host: str = "") -> Plan:
    """The plan for what a report wants, without id and date. Raises Blocked if it must not be."""
    if report.exit_code == BLOCKED:
        reasons = [
            f"{' '.join(filter(None, (one.requirement, one.subject)))}: {one.found}"
            for one in report.findings
            if one.verdict in (Verdict.BLOCKS, Verdict.NEEDS_FIRMWARE)
        ]
        raise Blocked(f"{host or 'this host'} cannot be prepared: " + "; ".join(reasons))
    case = report.case
    assert case.loader
    change = _options(report)
    files = (*_loader_files(report, case.loader, change), *_part_files(report))
    commands = tuple(_commands(report, case.loader, change, files))
    reboot_why = tuple(_reboot(report))
    return Plan(
        schema=SCHEMA,
        id="",
        host=host,
        created="",
        request=case.request,
        boot_id=case.facts.boot.id,
        package_manager=case.facts.software.package_manager,
        packages=tuple(dict.fromkeys(name for part in report.parts for name in part.packages)),
        files=files,
        units=tuple(_units(report)),
        commands=commands,
        undo_commands=tuple(replace(one, why="put back what it was") for one in commands),
        reboot=bool(reboot_why),
        reboot_why=reboot_why,
        findings=report.findings,
    )


def _options(report: Report) -> Change:
    """The words to add and to remove, of all parts together."""
    configured = report.case.configured
    gone = {word for part in report.parts for word in part.without}
    wanted = [word for part in report.parts for word in part.options]
    return Change(
        remove=tuple(dict.fromkeys(word for word in configured if word in gone)),
        add=tuple(word for word in wanted if word in gone or word not in configured),
    )


def _loader_files(report: Report, loader: Loader, change: Change) -> Iterator[FileChange]:
    facts = report.case.facts
    words = [f"+{word}" for word in change.add] + [f"-{word}" for word in change.remove]
    for path, after in edit(facts, loader, change).items():
        yield FileChange(path, facts.files.get(path), after, f"command line: {' '.join(words)}")


def _part_files(report: Report) -> Iterator[FileChange]:
    for part in report.parts:
        why = ", ".join(dict.fromkeys(finding.requirement for finding in part.findings))
        for path, after in part.files.items():
            before = report.case.facts.files.get(path)
            if before is not None and before.text is None:
                raise Failed(f"{path} is not UTF-8 text; it cannot be put back: move it away first")
            if before != after:
                yield FileChange(path, before, after, why)


def _commands(
    report: Report, loader: Loader, change: Change, files: tuple[FileChange, ...]
) -> Iterator[Command]:
    """What carries the files to where they are read: repeated while the system is not as wanted."""
    changed = {file.path for file in files}
    in_it = [part for part in report.parts if part.initramfs]
    early = [part for part in in_it if part.pending or any(path in changed for path in part.files)]
    tool = report.case.facts.software.initramfs_tool
    if early and tool:
        yield Command(INITRAMFS[tool], "files", "the initramfs binds cards and sets vfio-pci up")
    words = [part for part in report.parts if (part.options or part.without) and part.pending]
    if loader.refresh and (change or words or (early and report.case.facts.boot.proxmox_boot_tool)):
        yield Command(loader.refresh, "files", "the boot loader reads its own copy")
    if vfio_files.RULES in changed:
        yield Command(("udevadm", "control", "--reload"), "files", "udev reads its rules again")
    if HUGEPAGES_UNIT in changed:
        yield Command(("systemctl", "daemon-reload"), "files", "systemd reads its units again")


def _units(report: Report) -> Iterator[UnitChange]:
    known = report.case.facts.software.units
    for part in report.parts:
        for name in part.units:
            unit = known.get(name)
            enabled, active = (unit.enabled, unit.active) if unit else ("", "inactive")
            why = ", ".join(dict.fromkeys(finding.requirement for finding in part.findings))
            yield UnitChange(name, not part.at_boot, enabled or "disabled", active, why)


def _reboot(report: Report) -> Iterator[str]:
    """What is not so in the running system and cannot be made so while it runs."""
    for part in report.parts:
        if part.pending and (part.options or part.without or part.initramfs or part.at_boot):
            names = dict.fromkeys(
                finding.requirement
                for finding in part.findings
                if finding.verdict is Verdict.WILL_FIX
            )
            yield from names


def _lines(side: File | None) -> list[str]:
    """Lines for a diff; a last one without its newline is said to be so, as diff does."""
    text = side.text or "" if side else ""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file\n"
    return lines
