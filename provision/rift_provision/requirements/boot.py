"""Can a change of the kernel command line and of the initramfs be made to take effect."""

from __future__ import annotations

from collections.abc import Iterator

from rift_provision import kernel_options
from rift_provision.requirements.part import Case, Finding, Part, Verdict

TOOLS = ("initramfs-tools", "dracut")
# Words that do nothing, often copied from one guide to the next.
WITHOUT_EFFECT = {
    "amd_iommu=on": "amd_iommu knows no `on`; AMD's IOMMU is on unless told otherwise",
    "la57": "the kernel has no such option; five-level paging is on where the CPU has it",
}


def boot(case: Case) -> Part:
    """The boot loader, the places that it reads, and the initramfs. Why no loader: see `check`."""
    return Part((*_places(case), *_initramfs(case), *_idle_words(case)))


def _places(case: Case) -> Iterator[Finding]:
    if case.loader:
        yield Finding(
            "boot loader",
            "",
            f"{case.loader.title}; set in {', '.join(case.loader.files)}",
            Verdict.OK,
            "the kernel command line is set there",
        )
    for place in case.facts.boot.read_only:
        yield Finding(
            "writable",
            place,
            "mounted read-only",
            Verdict.BLOCKS,
            "files there have to be written",
            f"mount -o remount,rw {place}",
        )


def _initramfs(case: Case) -> Iterator[Finding]:
    tool = case.facts.software.initramfs_tool
    known = tool in TOOLS
    yield Finding(
        "initramfs",
        "",
        tool or "no tool that makes one",
        Verdict.OK if known else Verdict.BLOCKS,
        "cards are bound there, before any other driver is loaded",
        "" if known else f"known are {' and '.join(TOOLS)}",
    )


def _idle_words(case: Case) -> Iterator[Finding]:
    for word in dict.fromkeys(kernel_options.words(case.facts.boot.command_line)):
        if word in WITHOUT_EFFECT:
            yield Finding("command line", "", word, Verdict.NOTE, WITHOUT_EFFECT[word])
