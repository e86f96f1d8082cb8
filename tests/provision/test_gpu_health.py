"""Healthy, suspect or lost: signs that public reports tell of, on a recorded host."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rift import cli
from rift_provision import gpu_look, gpu_probe
from rift_provision.facts import Facts
from rift_provision.facts.pci import Errors, Link, PciFunction, Power
from rift_provision.facts.tree import Tree, to_tar
from rift_provision.gpu_health import HUNG, State, health, may_be_probed

CARD = "0000:81:00.0"
BRIDGE = "0000:80:01.1"
AWAKE = Power("D0", "active", "on", False)
GOOD = bytes.fromhex("de108426") + bytes(10) + b"\x80" + bytes(49)  # 10de:2684, type 0, functions
FULL = Link("16.0 GT/s PCIe", 16, "16.0 GT/s PCIe", 16)
HALF = Link("16.0 GT/s PCIe", 8, "16.0 GT/s PCIe", 16)
SLOW = Link("2.5 GT/s PCIe", 16, "16.0 GT/s PCIe", 16)


@pytest.fixture
def host(facts_of: Callable[[str], Facts]) -> Facts:
    return facts_of("epyc-4090")


def card(host: Facts) -> PciFunction:
    found = host.function(CARD)
    assert found is not None
    return replace(found, power=AWAKE, link=FULL, errors=Errors())


@pytest.mark.parametrize(
    ("line", "state"),
    [
        (f"vfio-pci {CARD}: not ready 65535ms after FLR; giving up", State.LOST),
        (
            f"vfio-pci {CARD}: Unable to change power state from D3cold to D0, device inaccessible",
            State.LOST,
        ),
        (f"vfio-pci {CARD}: Unknown header type 7f, ignoring device", State.LOST),
        (f"NVRM: Xid (PCI:{CARD}): 79, GPU has fallen off the bus.", State.LOST),
        (
            f"vfio-pci {CARD}: timed out waiting for pending transaction; performing function level"
            " reset anyway",
            State.SUSPECT,
        ),
        (f"vfio-pci {CARD}: not ready 1023ms after FLR; waiting", State.SUSPECT),
        (f"NVRM: Xid (PCI:{CARD}): 154, GPU recovery action changed", State.SUSPECT),
        (f"pcieport {BRIDGE}: AER: Uncorrectable (Fatal) error message received", State.SUSPECT),
        (f"pcieport {BRIDGE}: DPC: containment event, status:0x1f01", State.SUSPECT),
        # Only logging since Linux 6.13, and other cards' trouble.
        (f"vfio-pci {CARD}: resetting", State.HEALTHY),
        (f"vfio-pci {CARD}: reset done", State.HEALTHY),
        ("vfio-pci 0000:01:00.0: not ready 65535ms after FLR; giving up", State.HEALTHY),
    ],
)
def test_what_the_kernel_said(host: Facts, line: str, state: State) -> None:
    facts = replace(host, log=(line,))

    found = health(facts, card(host), GOOD.hex())

    assert found.state is state
    assert may_be_probed(facts, card(host)) == (state is State.HEALTHY)


@pytest.mark.parametrize(
    ("header", "state"),
    [
        (GOOD.hex(), State.HEALTHY),
        ("ff" * 64, State.LOST),
        ("0100" + GOOD.hex()[4:], State.LOST),
        (GOOD.hex()[:28] + "7f" + GOOD.hex()[30:], State.LOST),
        ("8680" + GOOD.hex()[4:], State.LOST),
        (GOOD.hex()[:20], State.SUSPECT),
        (HUNG, State.LOST),
        (None, State.UNKNOWN),
    ],
)
def test_what_the_card_answers(host: Facts, header: str | None, state: State) -> None:
    assert health(host, card(host), header).state is state


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"link": HALF}, State.SUSPECT),
        ({"link": SLOW, "driver": "vfio-pci"}, State.SUSPECT),
        ({"link": SLOW, "driver": "nvidia"}, State.HEALTHY),  # idle
        ({"link": None}, State.HEALTHY),
        ({"power": replace(AWAKE, state="D3cold")}, State.SUSPECT),
        ({"power": replace(AWAKE, runtime_status="error")}, State.SUSPECT),
        ({"errors": Errors(fatal={"DLP": 1})}, State.SUSPECT),
        ({"errors": Errors(nonfatal={"CmpltTO": 2})}, State.SUSPECT),
        ({"errors": Errors(correctable={"BadTLP": 7})}, State.HEALTHY),
        ({"errors": None}, State.HEALTHY),
    ],
)
def test_what_sysfs_has(host: Facts, change: dict[str, object], state: State) -> None:
    function = replace(card(host), **change)  # type: ignore[arg-type]

    assert health(host, function, GOOD.hex()).state is state


def test_a_card_that_somebody_complains_about_or_that_sleeps_is_not_asked(host: Facts) -> None:
    assert may_be_probed(host, card(host))
    assert not may_be_probed(host, replace(card(host), power=replace(AWAKE, state="D3hot")))
    assert not may_be_probed(host, replace(card(host), link=HALF))


def test_a_recorded_host_from_the_command_line(
    recorded: Callable[[str], Tree], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "lost.tar.gz"
    archive.write_bytes(to_tar(recorded("open-gpu-853")))

    with pytest.raises(SystemExit) as exit_:
        cli.main(["gpu", "health", str(archive)])

    said = capsys.readouterr().out
    assert exit_.value.code == 4
    assert "0000:81:00.0  lost" in said
    assert "giving up" in said
    with pytest.raises(SystemExit) as exit_:
        cli.main(["gpu", "show", str(archive), "99:00.0"])
    assert exit_.value.code == 2
    assert "the host's: 0000:01:00.0" in capsys.readouterr().err


def test_the_probe_reads_headers_and_gives_up_on_one_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    (tmp_path / "a/config").write_bytes(GOOD + bytes(192))
    os.mkfifo(tmp_path / "b/config")  # nobody writes: opening it never ends
    monkeypatch.setattr(gpu_probe, "DEVICES", str(tmp_path))
    monkeypatch.setattr(gpu_probe, "LIMIT_S", 0.5)
    monkeypatch.setattr(sys, "argv", ["gpu_probe", "a", "b", "c"])

    gpu_probe.main()
    os.close(os.open(tmp_path / "b/config", os.O_WRONLY | os.O_NONBLOCK))  # lets its reader go

    assert capsys.readouterr().out.splitlines() == [f"a\t{GOOD.hex()}", "b\thung"]


def test_the_probe_runs_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-I", str(gpu_look.PROBE), "0000:ff:1f.7"], capture_output=True, text=True
    )

    assert done.stdout == "0000:ff:1f.7\t\n"
    assert done.returncode == 0
