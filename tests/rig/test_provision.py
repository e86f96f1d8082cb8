"""`rift provision` on a real GPU host, emulated: boot loader, initramfs, vfio, reboots."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rift.cli import main
from rift_provision import plan_store
from rift_provision.ansible_run import Progress
from rift_provision.apply import carry_out
from rift_provision.facts.files import File
from rift_provision.gather import gather
from rift_provision.plan import Command, FileChange, Plan
from rift_provision.requirements.part import Request
from rig import Rig

pytestmark = pytest.mark.timeout(1800)

CARD = ("0000:41:00.0", "0000:41:00.1")  # with a sound function in its group
SECOND = "0000:81:00.0"
DISPLAY = "0000:00:01.0"
PAGES = ("--hugepages", "0=64M,1=64M", "--page-size", "2M")
CHANGED = ("/etc/default/grub", "/boot/grub/grub.cfg")


def run(*argv: str) -> int:
    """The exit code of a rift command."""
    with pytest.raises(SystemExit) as exit_:
        main(list(argv))
    return int(exit_.value.code or 0)


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    """The JSON of a rift command."""
    capsys.readouterr()
    run(*argv, "--json")
    return json.loads(capsys.readouterr().out)


def drivers(rig: Rig, addresses: Sequence[str]) -> dict[str, str]:
    """The driver of each PCI function, as the kernel has it."""
    line = 'for a in "$@"; do readlink -f /sys/bus/pci/devices/$a/driver; done'
    lines = rig.run("sh", "-c", line, "sh", *addresses).splitlines()
    return {a: path.rsplit("/", 1)[-1] for a, path in zip(addresses, lines, strict=True)}


def digest(rig: Rig) -> dict[str, str]:
    """Content, mode and owner of every configuration file that a plan may write or remove."""
    lines = rig.sh(
        "find /etc /boot/grub/grub.cfg -type f -printf '%p\\0' | sort -z | "
        'xargs -0 -I@ sh -c \'stat -c "%n %a %U %G" "@"; sha256sum < "@"\'',
        root=True,
        timeout_s=300,
    ).splitlines()
    return dict(zip(lines[::2], lines[1::2], strict=True))


def test_what_is_missing_is_found_and_nothing_is_touched(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    (document,) = printed(capsys, "provision", "host", "rig", "--check", *PAGES)

    verdicts = {(f["requirement"], f["verdict"]) for f in document["findings"]}
    assert document["exit_code"] == 3
    assert ("binding", "will fix") in verdicts
    assert not [f for f in document["findings"] if f["verdict"] == "blocks"]


def test_from_a_bare_host_to_a_ready_one_and_back(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    before, bound = digest(rig), drivers(rig, [*CARD, SECOND])
    assert "vfio-pci" not in bound.values()
    display = drivers(rig, [DISPLAY])

    assert run("provision", "host", "rig", "--yes", *PAGES) == 0

    assert drivers(rig, [*CARD, SECOND]) == dict.fromkeys([*CARD, SECOND], "vfio-pci")
    assert drivers(rig, [DISPLAY]) == display
    assert "iommu=pt" in rig.run("cat", "/proc/cmdline").split()
    pages = rig.sh("cat /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages")
    assert pages.split() == ["32", "32"]
    facts = gather("rig")
    card = facts.function(CARD[0])
    assert card is not None
    group = facts.group(card.iommu_group)
    assert [f.address for f in group] == list(CARD)
    assert {f.driver for f in group} == {"vfio-pci"}

    (plan_id,) = plan_store.listed()
    boot = rig.boot_id()
    (again,) = printed(capsys, "provision", "apply", plan_id, "--yes")
    assert again["changed"] == []
    assert rig.boot_id() == boot
    assert run("provision", "host", "rig", "--check", *PAGES) == 0

    assert run("provision", "undo", plan_id, "--yes") == 0

    assert drivers(rig, [*CARD, SECOND]) == bound
    after = digest(rig)
    packaged = {name for name in after if name not in before}
    assert not [name for name in packaged if "rift" in name]
    assert {n: h for n, h in before.items() if n.split()[0] in CHANGED} == {
        n: h for n, h in after.items() if n.split()[0] in CHANGED
    }
    assert rig.boot_id() != boot


def test_an_error_on_the_link_is_counted_in_the_facts(rig: Rig) -> None:
    before = gather("rig").function(SECOND)
    assert before is not None
    rig.qemu.hmp("pcie_aer_inject_error -c gpu1 0x40")  # bad TLP

    after = gather("rig").function(SECOND)

    assert after is not None
    assert after.errors != before.errors


def test_a_lost_connection_is_survived(rig: Rig) -> None:
    mark = "/root/mark"
    slow = Command(("sh", "-c", f"sleep 25; date >> {mark}"), "files", "takes a while")
    wanted = FileChange("/etc/rift-test", None, File("here\n", "0644", 0, 0), "a file")
    plan = Plan(
        "rift.host-plan/1", "20261201-120000-rig-abc123", "rig", "2026-12-01T12:00:00+00:00",
        Request(), "", None, (), (wanted,), (), (slow,), (), False, (), (),
    )  # fmt: skip
    began = threading.Event()

    def tell(progress: Progress) -> None:
        if progress.task == "Run what reads the files" and progress.state == "begun":
            began.set()

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(carry_out, "apply", [plan], tell)
        assert began.wait(300)
        time.sleep(5)
        rig.run("pkill", "-KILL", "-f", "sshd: admin", root=True, check=False)
        outcome = running.result(600)["rig"]

    assert outcome.ok, outcome
    assert rig.run("cat", "/etc/rift-test") == "here\n"
    assert rig.run("cat", mark, root=True)
