"""What is put into the initramfs: run by real shells on a pretended sysfs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rift_provision.requirements.hugepages import _unit
from rift_provision.vfio_files import BIND, DRACUT_TEXT, HOOK_TEXT

SHELLS = [
    [path, *more]
    for name, *more in (["sh"], ["dash"], ["bash"], ["busybox", "sh"])
    if (path := shutil.which(name))
]


class FakeSys:
    """A sysfs of plain files: what is written stays to be read, and nothing else happens."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bus/pci").mkdir(parents=True)
        (root / "bus/pci/drivers_probe").write_text("")
        self.list = root / "vfio-devices"
        self.script = root / "bind"
        self.script.write_text(BIND)

    def device(self, address: str, ids: str, driver: str | None) -> Path:
        at = self.root / "bus/pci/devices" / address
        at.mkdir(parents=True)
        for name, digits in zip(("vendor", "device"), ids.split(":"), strict=True):
            (at / name).write_text(f"0x{digits}\n")
        (at / "driver_override").write_text("(null)\n")
        if driver:
            target = self.root / "bus/pci/drivers" / driver
            target.mkdir(parents=True, exist_ok=True)
            (at / "driver").symlink_to(target)
        return at

    def run(self, shell: list[str], *more: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": "/usr/bin:/bin",
            "RIFT_SYS": str(self.root),
            "RIFT_DEVICES": str(self.list),
            "RIFT_RUN": str(self.root / "run"),
        }
        command = [*shell, *(more or (str(self.script),))]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    def said(self) -> list[str]:
        return (self.root / "run/bound").read_text().splitlines()


@pytest.fixture
def sys(tmp_path: Path) -> FakeSys:
    return FakeSys(tmp_path / "sys")


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: " ".join(shell))
def test_a_card_is_taken_from_its_driver_and_probed(shell: list[str], sys: FakeSys) -> None:
    card = sys.device("0000:41:00.0", "10de:2684", "nouveau")
    free = sys.device("0000:41:00.1", "10de:22ba", None)
    host = sys.device("0000:61:00.0", "10de:2684", "nouveau")
    sys.list.write_text("# a comment\n0000:41:00.0 10de:2684\n0000:41:00.1 10de:22ba\n")

    sys.run(shell)

    assert (card / "driver_override").read_text() == "vfio-pci\n"
    assert (free / "driver_override").read_text() == "vfio-pci\n"
    assert (host / "driver_override").read_text() == "(null)\n"  # of the same kind, not ours
    assert (sys.root / "bus/pci/drivers/nouveau/unbind").read_text() == "0000:41:00.0\n"
    assert (sys.root / "bus/pci/drivers_probe").read_text() == "0000:41:00.1\n"  # the last one
    assert sys.said() == ["0000:41:00.0 driver nouveau", "0000:41:00.1 driver "]


def test_the_override_comes_before_the_unbinding_and_the_probe(sys: FakeSys) -> None:
    """ydb-platform/nbs#5296: unbound first, and then any driver may have it."""
    sys.device("0000:41:00.0", "10de:2684", "nvme")
    sys.list.write_text("0000:41:00.0 10de:2684\n")

    done = sys.run(["sh", "-x", str(sys.script)])

    # the trace of the loop goes where its messages go
    trace = [line for line in [*done.stderr.splitlines(), *sys.said()] if line.startswith("+")]
    written = [line for line in trace if line.startswith("+ echo")]
    assert [line.split()[2] for line in written[:3]] == ["vfio-pci", "0000:41:00.0", "0000:41:00.0"]


def test_one_that_vfio_has_already_is_left_with_it(sys: FakeSys) -> None:
    sys.device("0000:41:00.0", "10de:2684", "vfio-pci")
    sys.list.write_text("0000:41:00.0 10de:2684\n")

    sys.run(["sh"])

    assert not (sys.root / "bus/pci/drivers/vfio-pci/unbind").exists()
    assert (sys.root / "bus/pci/drivers_probe").read_text() == ""
    assert sys.said() == ["0000:41:00.0 driver vfio-pci"]


def test_another_device_at_that_address_is_left_alone(sys: FakeSys) -> None:
    """A card was put in, the numbers moved: here sits the system's disk now."""
    disk = sys.device("0000:41:00.0", "144d:a80a", "nvme")
    sys.list.write_text("0000:41:00.0 10de:2684\n0000:99:00.0 10de:2684\n")

    sys.run(["sh"])

    assert (disk / "driver_override").read_text() == "(null)\n"
    assert not (sys.root / "bus/pci/drivers/nvme/unbind").exists()
    assert sys.said() == [
        "0000:41:00.0 is 144d:a80a, not 10de:2684: left alone",
        "0000:99:00.0 is not there",
    ]


def test_without_a_list_nothing_is_done(sys: FakeSys) -> None:
    sys.run(["sh"])

    assert not (sys.root / "run").exists()


def test_initramfs_tools_asks_for_prerequisites(sys: FakeSys) -> None:
    assert sys.run(["sh", str(sys.script), "prereqs"]).stdout == "\n"


def test_dracut_reads_it_into_its_own_shell_and_goes_on(sys: FakeSys) -> None:
    sys.list.write_text("0000:99:00.0 10de:2684\n")

    done = sys.run(["sh"], "-c", f". {sys.script}; echo on ${{sys:-clean}}")

    assert done.stdout == "on clean\n"


@pytest.mark.parametrize("text", [BIND, HOOK_TEXT, DRACUT_TEXT])
def test_scripts_parse(text: str) -> None:
    shell = "bash" if text.startswith("#!/bin/bash") else "sh"
    subprocess.run([shell, "-n"], input=text, text=True, check=True)


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze")
    unit = tmp_path / "rift-hugepages.service"
    unit.write_text(_unit({0: 4, 1: 4}, 1 << 20))

    done = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True)

    assert [line for line in done.stderr.splitlines() if "rift-hugepages" in line] == []
