"""Entries of the Boot Loader Specification, files with a bare command line, and which is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rift.errors import Blocked
from rift_provision import kernel_options
from rift_provision.boot_loader import KERNEL_CMDLINE, _edited, configured, edit, loader_of
from rift_provision.facts import Facts
from rift_provision.facts.files import File
from rift_provision.kernel_options import Change

FactsOf = Callable[[str], Facts]
ENTRY = "/boot/loader/entries/a-6.1.conf"
WORD = st.from_regex(r"[a-z_.-]{1,8}(=[a-z0-9,:/$-]{1,6})?", fullmatch=True) | st.just('d="a b"')
BLANK = st.sampled_from([" ", "  ", "\t"])


@st.composite
def line(draw: st.DrawFn) -> str:
    words = draw(st.lists(WORD, min_size=1, max_size=6))
    return "".join(word + draw(BLANK) for word in words).rstrip()


@given(line(), line(), st.data())
def test_an_entry_keeps_everything_but_the_words(
    options: str, title: str, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(kernel_options.words(options)))
    change = Change(remove=(gone,), add=("iommu=pt", "hugepagesz=1G"))
    text = f"title {title}\nlinux /vmlinuz\noptions {options}\ngrub_class x\n"

    edited = _edited(ENTRY, text, change)

    before, after = text.splitlines(), edited.splitlines()
    assert (before[:2], before[3:]) == (after[:2], after[3:])
    assert kernel_options.words(after[2])[1:] == kernel_options.apply(options, change)


@given(line(), st.sampled_from(["", "\n"]), st.data())
def test_a_file_with_nothing_but_a_command_line(
    options: str, end: str, data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(kernel_options.words(options)))

    edited = _edited(KERNEL_CMDLINE, options + end, Change(remove=(gone,), add=("iommu=pt",)))

    wanted = kernel_options.apply(options, Change((gone,), ("iommu=pt",)))
    assert kernel_options.words(edited) == wanted
    assert edited.endswith("iommu=pt" + end)


@given(line())
def test_no_change_changes_no_byte(options: str) -> None:
    text = f"options   {options} \n"

    assert _edited(ENTRY, text, Change()) == text


def test_words_taken_out_are_whole_words() -> None:
    text = "options xiommu=off iommu=off iommu=offx iommu=off\n"

    assert _edited(ENTRY, text, Change(("iommu=off",))) == "options xiommu=off iommu=offx\n"


def test_an_entry_without_options_is_refused() -> None:
    with pytest.raises(Blocked, match="no line of options"):
        _edited(ENTRY, "title a\nlinux /vmlinuz\n", Change(add=("a",)))


@pytest.mark.parametrize(
    ("host", "kind", "line", "refresh"),
    [
        ("epyc-4090", "grub", "console=tty0 console=ttyS0,115200 quiet", "update-grub"),
        ("xeon-h100", "grub", "console=tty1 console=ttyS0 crashkernel", "update-grub"),
        ("rocky9", "entries", "root=/dev/mapper/rl-root ro crashkernel", None),
        ("t2linux-671", "entries", "root=UUID=aa ro rootflags", None),
        ("proxmox", "proxmox", "root=ZFS=rpool", "proxmox-boot-tool"),
        ("i915-sriov-172-grub", "grub", "console=tty0", "proxmox-boot-tool"),
    ],
)
def test_which_loader_and_what_it_is_told(
    host: str, kind: str, line: str, refresh: str | None, facts_of: FactsOf
) -> None:
    facts = facts_of(host)

    loader = loader_of(facts)

    assert loader.kind == kind
    assert line in configured(facts, loader)
    assert (loader.refresh[0] if loader.refresh else None) == refresh


def systemd_boot(facts: Facts, **changes: object) -> Facts:
    """The facts with a systemd-boot that is not Proxmox's."""
    named = {"loader_info": "systemd-boot 257.7", "proxmox_boot_tool": False}
    return replace(facts, boot=replace(facts.boot, **{**named, **changes}))  # type: ignore[arg-type]


def test_systemd_boot_with_entries(facts_of: FactsOf) -> None:
    facts = systemd_boot(facts_of("t2linux-671"))

    edited = edit(facts, loader_of(facts), Change(add=("iommu=pt",)))

    assert sorted(edited) == [
        "/boot/loader/entries/9c-6.17.8-300.fc43.x86_64.conf",
        KERNEL_CMDLINE,
    ]


def test_a_unified_image_is_refused(facts_of: FactsOf) -> None:
    facts = systemd_boot(facts_of("proxmox"), unified=True)

    with pytest.raises(Blocked, match="unified kernel image"):
        loader_of(facts)


def test_a_file_that_is_no_text_is_refused(facts_of: FactsOf) -> None:
    facts = facts_of("epyc-4090")
    files = {**facts.files, "/etc/default/grub": File(None, "0644", 0, 0)}
    facts = replace(facts, files=files)

    with pytest.raises(Blocked, match="not UTF-8"):
        configured(facts, loader_of(facts))


def test_mode_and_owner_stay(facts_of: FactsOf) -> None:
    facts = facts_of("epyc-4090")
    old = replace(facts.files["/etc/default/grub"], mode="0640", uid=3, gid=4)
    facts = replace(facts, files={**facts.files, "/etc/default/grub": old})

    (made,) = edit(facts, loader_of(facts), Change(add=("a",))).values()

    assert (made.mode, made.uid, made.gid) == ("0640", 3, 4)
