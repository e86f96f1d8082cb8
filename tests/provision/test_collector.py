"""What is safe to ask a host, and what is not sent: the collector's own functions."""

from __future__ import annotations

import fnmatch
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rift_provision.facts import collector
from rift_provision.facts.tree import from_tar


def device(root: Path, address: str, state: str) -> None:
    at = root / address
    at.mkdir(parents=True)
    (at / "power_state").write_text(state + "\n")
    for name in collector.LINK_STATE:
        (at / name).write_text("16\n")


def asked(text: bytes) -> set[str]:
    return {line.split("/")[-2] for line in text.decode().splitlines()}


def test_only_cards_that_are_awake_and_above_suspicion_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device(tmp_path, "0000:01:00.0", "D0")
    device(tmp_path, "0000:21:00.0", "D3cold")
    device(tmp_path, "0000:41:00.0", "D0")
    device(tmp_path, "0000:61:00.0", "unknown")
    monkeypatch.setattr(collector, "PCI", f"{tmp_path}/*/")
    log = "[ 1.0] vfio-pci 0000:41:00.0: not ready 65535ms after FLR; giving up\n"

    text = collector.pci_links(log)

    assert asked(text) == {"0000:01:00.0"}


def test_a_card_that_hangs_its_reader_does_not_hang_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FIFO that nobody writes to blocks its reader for good, as a lost card can."""
    device(tmp_path, "0000:01:00.0", "D0")
    device(tmp_path, "0000:21:00.0", "D0")
    (tmp_path / "0000:21:00.0/max_link_speed").unlink()
    os.mkfifo(tmp_path / "0000:21:00.0/max_link_speed")
    script = (
        "import sys; from rift_provision.facts import collector\n"
        f"collector.PCI, collector.LINK_LIMIT_S = '{tmp_path}/*/', 0.5\n"
        "sys.stdout.buffer.write(collector.pci_links(''))\n"
    )
    start = time.monotonic()

    text = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, timeout=20, check=True
    ).stdout

    assert time.monotonic() - start < 10
    assert text.endswith(b"hung\n")
    assert "0000:01:00.0" in asked(text.removesuffix(b"hung\n"))
    with (tmp_path / "0000:21:00.0/max_link_speed").open("w"):
        pass  # lets the child go


def test_passwords_of_qemu_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "qemu.conf"
    conf.write_text('vnc_password = "XYZ12345"\n#user = "qemu"\n user = "root"\ngroup = "root"\n')
    monkeypatch.setattr(collector, "QEMU_CONF", str(conf))

    lines = collector.qemu_user().decode().splitlines()
    assert [line.strip() for line in lines] == ['user = "root"', 'group = "root"']


def test_a_command_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "COMMAND_LIMIT_S", 0.2)

    assert collector.command("sleep", ["sleep", "60"]) is None
    assert collector.command("missing", ["/no/such/command"]) is None


def test_nothing_secret_is_on_the_list() -> None:
    asked_for = " ".join([*collector.FILES, *(path for path, _ in collector.GREP)])

    for secret in ("shadow", "ssh", "qemu.conf", "/root", "secret", "passw", "machine-id"):
        assert secret not in asked_for


def test_no_path_is_on_two_lists() -> None:
    """The archive takes a path once: the second list would find it empty or whole."""
    lists = (
        [path for path, _ in collector.GREP],
        collector.FILES,
        collector.LINKS,
        collector.NAMES,
    )
    patterns = [pattern for one in lists for pattern in one]

    assert sorted(patterns) == sorted(set(patterns))
    for path in lists[0]:
        others = [pattern for one in lists[1:] for pattern in one]
        assert not any(fnmatch.fnmatchcase(path, pattern) for pattern in others)


def test_what_is_collected_is_what_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GRUB's own script says whether it reads grub.d: its line has to arrive."""
    script = tmp_path / "grub-mkconfig"
    script.write_text("#!/bin/sh\nfor x in ${sysconfdir}/default/grub.d/*.cfg ; do\n")
    monkeypatch.setattr(collector, "GREP", [(str(script), "default/grub.d")])
    data = io.BytesIO()
    archive = collector.Archive(data)

    collector.files(archive)

    archive.close()
    tree = from_tar(io.BytesIO(data.getvalue()))
    assert tree.lines(str(script)) == ["for x in ${sysconfdir}/default/grub.d/*.cfg ; do"]
    assert tree.entry(str(script)) is not None
