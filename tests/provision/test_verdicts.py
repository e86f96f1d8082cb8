"""Every public report about a host, and every kind of bad input: the tree, and the verdict on it.

A row: the tree below hosts/ (which names its report), what was asked, the exit code, and findings
that must be there as (requirement, subject, verdict, words in it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rift.errors import WrongUsage
from rift_provision.check import check
from rift_provision.facts import Facts
from rift_provision.plan import make_plan
from rift_provision.requirements.part import Mode, Request

FactsOf = Callable[[str], Facts]
Row = tuple[str, dict[str, object], int, list[tuple[str, str, str, str]]]
FIXED, NOTE, OK, BLOCKS, FIRMWARE = "will fix", "note", "ok", "blocks", "needs firmware"
TWO_MIB = {"hugepages": "16G", "page_kib": 2048}

ROWS: list[Row] = [
    # the hosts that the others are made from
    ("epyc-4090", {}, 3, [("binding", "0000:01:00.0", FIXED, "nouveau"), ("iommu", "", OK, "on")]),
    (
        "xeon-h100",
        {},
        3,
        [("iommu", "", FIXED, "add intel_iommu=on"), ("vfio-pci", "", OK, "built into")],
    ),
    ("rocky9", {}, 3, [("initramfs", "", OK, "dracut"), ("boot loader", "", OK, "entries")]),
    ("proxmox", {}, 3, [("packages", "", OK, "Proxmox"), ("boot loader", "", OK, "proxmox-boot")]),
    ("ubuntu-2204", {}, 3, [("huge pages", "node 1", FIXED, "0 of 243")]),
    ("debian-13", {}, 3, [("initramfs", "", OK, "dracut")]),
    (
        "nps4",
        {},
        3,
        [("numa", "0000:a1:00.0", NOTE, "node unknown"), ("huge pages", "node 7", FIXED, "0 of")],
    ),
    # section D of the research: reports about hosts
    (
        "kubevirt-17493",
        {},
        4,
        [
            ("architecture", "", BLOCKS, "aarch64"),
            ("numa", "node 2", NOTE, "no CPUs"),
            ("numa", "0000:81:00.0", NOTE, "node 2"),
        ],
    ),
    (
        "kubevirt-19103",
        {"mode": Mode.CONTAINER},
        0,
        [
            ("gpu", "0000:27:00.0", OK, "below pci0000:26"),
            ("gpu", "0000:49:00.0", OK, "below pci0000:48"),
        ],
    ),
    (
        "kubevirt-6718",
        {"gpus": ("0000:01:00.0",)},
        3,
        [("binding", "0000:01:00.1", FIXED, "snd_hda_intel")],
    ),
    (
        "dra-driver-1191",
        {"gpus": ("0000:86:00",)},
        3,
        [("binding", "0000:86:00.1", FIXED, "snd_hda_intel")],
    ),
    (
        "incus-3422",
        {},
        4,
        [
            (
                "group",
                "0000:01:00.0",
                BLOCKS,
                "0000:c2:00.0 8086:1563, driver ixgbe (network inter",
            ),
            ("group", "0000:01:00.0", BLOCKS, "0000:c2:00.1"),
        ],
    ),
    ("vga-passthrough-15", {}, 3, [("binding", "0000:01:00.0", FIXED, "")]),
    (
        "harvester-8182",
        {},
        3,
        [
            ("numa", "node 1", NOTE, "no memory"),
            ("numa", "0000:81:00.0", NOTE, "node 3"),
            ("huge pages", "node 0", FIXED, "0 of 59"),
        ],
    ),
    (
        "harvester-3609",
        {"gpus": ("01:00.0",)},
        3,
        [("gpu", "0000:21:00.0", NOTE, "stays with the host")],
    ),
    (
        "truenas-11397",
        {"gpus": ("65:00.0",)},
        3,
        [
            ("nouveau", "", OK, "host: 0000:17:00.0"),
            ("gpu", "0000:17:00.0", NOTE, "host's display"),
        ],
    ),
    (
        "vfio-pci-bind-6",
        {},
        3,
        [("binding", f"0000:4e:00.{function}", FIXED, "driver") for function in range(4)],
    ),
    (
        "desktop",
        {},
        3,
        [("gpu", "0000:01:00.0", NOTE, "stays"), ("binding", "0000:21:00.0", FIXED, "")],
    ),
    (
        "desktop",
        {"gpus": ("01:00.0",)},
        4,
        [
            ("in use", "0000:01:00.0", BLOCKS, "Xorg (pid 2101), gnome-shell (pid 2330)"),
            ("in use", "0000:01:00.1", BLOCKS, "pipewire"),
            ("display", "0000:01:00.0", NOTE, "goes dark"),
        ],
    ),
    ("apu", {}, 4, [("gpu", "", BLOCKS, "has the host's display")]),
    (
        "apu",
        {"gpus": ("0e:00.0",)},
        3,
        [("display", "0000:0e:00.0", NOTE, ""), ("binding", "0000:0e:00.1", FIXED, "")],
    ),
    (
        "apu-kernel-5",
        {"gpus": ("0e:00.0",)},
        4,
        [("display", "0000:0e:00.0", BLOCKS, "before Linux 6.0")],
    ),
    ("passthrough-manager-50", {}, 3, [("iommu=pt", "", FIXED, "add")]),
    ("i915-sriov-172", {}, 3, [("iommu=pt", "", FIXED, ""), ("boot loader", "", OK, "systemd")]),
    ("i915-sriov-172-grub", {}, 3, [("iommu=pt", "", FIXED, ""), ("boot loader", "", OK, "GRUB")]),
    (
        "role-proxmox-247",
        {},
        3,
        [("command line", "", NOTE, "amd_iommu=on"), ("iommu", "", OK, "on")],
    ),
    ("t2linux-671", {}, 3, [("boot loader", "", OK, "loader/entries/9c-6.17.8")]),
    (
        "gpu-passthrough-tutorial-11",
        TWO_MIB,
        3,
        [("huge pages", "node 1", FIXED, "481 of 4096 pages of 2M")],
    ),
    (
        "gpu-passthrough-tutorial-11-at-boot",
        TWO_MIB,
        4,
        [("huge pages", "node 0", OK, ""), ("huge pages", "node 1", BLOCKS, "2385 of 4096")],
    ),
    (
        "void-packages-32562",
        {},
        3,
        [("confinement", "", NOTE, "edk2-x86_64-code.fd"), ("confinement", "", NOTE, "DENIED")],
    ),
    ("tp-libvirt-3815", {}, 3, [("numa", "", NOTE, "CPUs 127 are offline")]),
    ("talos-9121", {}, 3, [("huge pages", "node 0", FIXED, "of 486")]),
    ("irdma", {}, 3, [("kernel", "", NOTE, "irdma")]),
    (
        "rig",
        {},
        3,
        [("binding", "0000:41:00.1", FIXED, "snd_hda_intel"), ("gpu", "0000:00:01.0", NOTE, "dis")],
    ),
    ("zen-kernel-380", {}, 3, [("kernel", "", NOTE, "6.14.1 was fine")]),
    ("one-to-one", {}, 4, [("1:1 mapping", "0000:01:00.0", FIRMWARE, "9f800000")]),
    ("open-gpu-853", {}, 4, [("answers", "0000:81:00.0", BLOCKS, "giving up")]),
    ("proxmox-forum-168424", {}, 4, [("answers", "0000:81:00.0", BLOCKS, "D3cold to D0")]),
    ("ucore-350", {}, 4, [("answers", "0000:81:00.0", BLOCKS, "header type 7f")]),
    ("proxmox-forum-178461", {}, 3, [("kernel", "", NOTE, "integrity")]),
    # what rift-utils did wrong
    ("small", {}, 3, [("huge pages", "node 0", FIXED, "0 of 55")]),
    ("substring", {}, 3, [("iommu=pt", "", FIXED, "")]),
    ("by-ids", {"gpus": ("01:00.0",)}, 3, [("binding by id", "", NOTE, "takes 0000:21:00.0, 0")]),
    (
        "rift-utils",
        {},
        3,
        [
            ("modules", "", NOTE, "loads nouveau"),
            ("modules", "", NOTE, "loads vfio_virqfd"),
            ("binding by id", "", NOTE, "/etc/modprobe.d/vfio.conf: ids=10de:2684"),
        ],
    ),
    ("qemu-as-root", {}, 3, [("confinement", "", NOTE, "run as root")]),
    ("domain", {}, 3, [("binding", "10001:01:00.1", FIXED, "snd_hda_intel")]),
    # bad input: a verdict before anything is touched
    ("in-a-container", {}, 4, [("system", "", BLOCKS, "lxc")]),
    ("darwin", {}, 4, [("system", "", BLOCKS, "Darwin")]),
    ("not-root", {}, 4, [("root", "", BLOCKS, "not root")]),
    ("no-iommu", {}, 4, [("iommu", "", FIRMWARE, "none")]),
    ("svm-off", {}, 4, [("virtualisation", "", FIRMWARE, "turn on SVM Mode")]),
    ("iommu-off", {}, 3, [("iommu", "", FIXED, "remove amd_iommu=off")]),
    ("disk-in-group", {}, 4, [("group", "0000:01:00.0", BLOCKS, "mounted at /")]),
    ("lilo", {}, 4, [("boot loader", "", BLOCKS, "unknown boot loader")]),
    ("ostree", {}, 4, [("boot loader", "", BLOCKS, "rpm-ostree")]),
    ("kernelopts", {}, 4, [("boot loader", "", BLOCKS, "grubenv")]),
    ("boot-read-only", {}, 4, [("writable", "/boot", BLOCKS, "remount,rw /boot")]),
    ("tiny", {}, 3, [("huge pages", "", NOTE, "none are set aside")]),
    ("tiny", {"hugepages": "3G"}, 4, [("huge pages", "", BLOCKS, "would be left for the host")]),
    ("tiny", {"hugepages": "0=4G"}, 4, [("huge pages", "", BLOCKS, "node 0 has 4.0 GiB")]),
    # the other mode
    (
        "epyc-4090",
        {"mode": Mode.CONTAINER},
        4,
        [("driver", "0000:01:00.0", BLOCKS, "install the driver nvidia")],
    ),
    ("xeon-h100", {"mode": Mode.CONTAINER}, 0, [("driver", "0000:18:00.0", OK, "driver nvidia")]),
]


@pytest.mark.parametrize(
    ("host", "asked", "code", "expected"), ROWS, ids=[f"{row[0]} {row[1]}" for row in ROWS]
)
def test_verdicts(
    host: str,
    asked: dict[str, object],
    code: int,
    expected: list[tuple[str, str, str, str]],
    facts_of: FactsOf,
) -> None:
    request = replace(Request(), **asked)  # type: ignore[arg-type]

    report = check(facts_of(host), request)

    found = [
        (one.requirement, one.subject, one.verdict.value, f"{one.found} {one.why} {one.do}")
        for one in report.findings
    ]
    for requirement, subject, verdict, words in expected:
        assert [f for f in found if f[:3] == (requirement, subject, verdict) and words in f[3]], (
            f"no {requirement} {subject} {verdict} {words!r} in\n" + "\n".join(map(str, found))
        )
    assert report.exit_code == code, found


@pytest.mark.parametrize(
    ("host", "absent"),
    [
        ("vga-passthrough-15", "group"),  # a bridge in the group is no obstacle
        ("vfio-pci-bind-6", "nouveau"),  # no NVIDIA card, no word about its drivers
        ("proxmox", "services"),
        ("passthrough-manager-50", "command line"),  # `splash` and others have an effect
    ],
)
def test_what_is_not_said(host: str, absent: str, facts_of: FactsOf) -> None:
    report = check(facts_of(host), Request())

    assert absent not in {one.requirement for one in report.findings}


def test_every_recorded_host_is_in_a_test(facts_of: FactsOf) -> None:
    from pathlib import Path

    here = Path(__file__).parent
    tests = "".join(path.read_text() for path in here.glob("test_*.py"))
    bases = {
        line.split()[1]
        for path in (here / "hosts").glob("*.host")
        for line in path.read_text().splitlines()
        if line.startswith("base:")
    }

    unused = [p.stem for p in (here / "hosts").glob("*.host") if f'"{p.stem}"' not in tests]

    assert [name for name in unused if name not in bases] == []


@pytest.mark.parametrize(
    ("host", "asked", "said"),
    [
        ("epyc-4090", {"gpus": ("05:00.0",)}, "nothing there; cards of this host: 0000:01:00.0"),
        ("epyc-4090", {"gpus": ("c1:00.0",)}, "no graphics card"),
        ("epyc-4090", {"gpus": ("",)}, "nothing there"),
        ("epyc-4090", {"hugepages": "lots"}, "expected auto"),
        ("epyc-4090", {"hugepages": "1500M"}, "no number of pages of 1G"),
        ("epyc-4090", {"hugepages": "7=1G"}, "nodes 0, 1"),
        ("epyc-4090", {"hugepages": "0=1G,x"}, "NODE=SIZE"),
    ],
)
def test_requests_that_make_no_sense(
    host: str, asked: dict[str, object], said: str, facts_of: FactsOf
) -> None:
    with pytest.raises(WrongUsage, match=said):
        check(facts_of(host), replace(Request(), **asked))  # type: ignore[arg-type]


def test_a_host_that_is_blocked_gets_no_plan(facts_of: FactsOf) -> None:
    with pytest.raises(Exception, match=r"cannot be prepared: .*0000:c1:00\.0"):
        make_plan(check(facts_of("disk-in-group"), Request()))


def test_root_complexes_tell_near_from_far(facts_of: FactsOf) -> None:
    """kubevirt/kubevirt#19103: one NUMA node, three root complexes."""
    roots = {one.address: (one.root, one.numa_node) for one in facts_of("kubevirt-19103").pci}

    assert roots == {
        "0000:27:00.0": ("pci0000:26", 0),
        "0000:49:00.0": ("pci0000:48", 0),
        "0000:5a:00.0": ("pci0000:59", 0),
    }


def test_siblings_as_a_range_and_far_apart(facts_of: FactsOf) -> None:
    """OpenNebula/one#3972 and open-mpi/hwloc#712."""
    assert facts_of("one-3972").cpus.cpus[0].siblings == (0, 1)
    assert facts_of("hwloc-712").cpus.cpus[0].siblings == (0, 64)


def test_an_offline_cpu_stays_known(facts_of: FactsOf) -> None:
    """autotest/tp-libvirt#3815: it belongs to no node while it is offline."""
    last = facts_of("tp-libvirt-3815").cpus.cpus[127]

    assert (last.online, last.node) == (False, None)
