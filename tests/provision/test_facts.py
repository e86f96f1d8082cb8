"""Facts: recorded hosts, this machine, and documents that come back."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from rift.cli import main
from rift.errors import Failed, RiftError, WrongUsage
from rift_provision.check import check
from rift_provision.facts import Facts, json_schema, parse, to_json
from rift_provision.facts.cpu import id_list
from rift_provision.facts.host_facts import from_json
from rift_provision.facts.tree import Entry, Tree, from_directory, from_tar, to_tar
from rift_provision.gather import COLLECTOR, collect, gather
from rift_provision.plan import make_plan
from rift_provision.requirements.part import Request

FactsOf = Callable[[str], Facts]
Recorded = Callable[[str], Tree]
SCHEMA = Path(__file__).parents[2] / "docs/host-facts.schema.json"
REMAKE = (
    "python -c 'import json; from rift_provision.facts import json_schema; "
    "print(json.dumps(json_schema(), indent=2))' > docs/host-facts.schema.json"
)


def test_a_gpu_is_read_with_its_place_and_companions(facts_of: FactsOf) -> None:
    facts = facts_of("epyc-4090")

    gpu = facts.function("0000:81:00.0")

    assert gpu is not None
    assert gpu.title == "NVIDIA Corporation AD102 [GeForce RTX 4090]"
    assert (gpu.root, gpu.bridges, gpu.numa_node) == ("pci0000:80", ("0000:80:01.1",), 1)
    assert (gpu.driver, gpu.iommu_group, gpu.reset_methods) == ("nouveau", 53, ("bus",))
    assert [bar.size_bytes >> 20 for bar in gpu.bars] == [16, 32768, 32]
    assert [one.address for one in facts.slot(gpu.address)] == ["0000:81:00.0", "0000:81:00.1"]
    assert {one.address for one in facts.group(53)} == {"0000:81:00.0", "0000:81:00.1"}
    assert [one.address for one in facts.pci if one.boot_vga] == ["0000:c4:00.0"]


def test_what_the_host_lives_on_is_named(facts_of: FactsOf) -> None:
    facts = facts_of("epyc-4090")

    used = {one.address: one.users for one in facts.pci if one.users}

    assert used == {
        "0000:c1:00.0": (
            "disk nvme0n1p2: mounted at /",
            "disk nvme0n1p1: mounted at /boot/efi",
        ),
        "0000:c2:00.0": ("network interface eno1: default route",),
    }


def test_processors_and_nodes(facts_of: FactsOf) -> None:
    cpus = facts_of("epyc-4090").cpus

    assert (len(cpus.cpus), cpus.smt, cpus.flags) == (128, "on", ("pdpe1gb", "svm"))
    assert cpus.cpus[33].siblings == (33, 97)
    assert [(node.id, node.memory_kib >> 20) for node in cpus.nodes] == [(0, 251), (1, 252)]
    assert cpus.nodes[0].distances == {0: 10, 1: 32}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0,2-3\n", (0, 2, 3)), ("0-1", (0, 1)), ("", ()), ("5", (5,)), ("0,64", (0, 64))],
)
def test_both_ways_of_writing_cpu_lists(text: str, numbers: tuple[int, ...]) -> None:
    # OpenNebula/one#3972: a parser that split at commas only lost the sibling in "0-1".
    assert id_list(text) == numbers


def test_a_document_comes_back_equal_and_fits_the_schema(facts_of: FactsOf) -> None:
    facts = facts_of("epyc-4090")
    document = to_json(facts)

    jsonschema.validate(document, json_schema())

    assert from_json(json.dumps(document), "here") == facts


def test_the_committed_schema_is_the_one() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == json_schema(), REMAKE


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"schema": "rift.host-facts/9"}, "schema"),
        ({"pci": [{"address": "x"}]}, r"pci\.0"),
        ({"cpus": None}, "cpus"),
    ],
)
def test_a_document_that_does_not_fit_is_refused_by_path(
    change: dict[str, object], named: str, facts_of: FactsOf
) -> None:
    text = json.dumps(to_json(facts_of("epyc-4090")) | change)

    with pytest.raises(WrongUsage, match=named):
        from_json(text, "saved.json")


@pytest.mark.parametrize(
    ("key", "value"), [("address", '0000:01:00.0", RUN+="/bin/x'), ("vendor", "10de\nx")]
)
def test_a_document_cannot_smuggle_lines_into_a_hosts_files(
    key: str, value: str, facts_of: FactsOf
) -> None:
    document = to_json(facts_of("epyc-4090"))
    document["pci"][1][key] = value

    with pytest.raises(WrongUsage, match="no PCI address"):
        from_json(json.dumps(document), "sent.json")


def test_a_tree_survives_a_tar_and_a_directory(recorded: Recorded, tmp_path: Path) -> None:
    tree = recorded("epyc-4090")
    for path, entry in tree.files.items():
        if not any(other.startswith(path + "/") for other in tree.files):
            at = tmp_path / path.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_bytes(entry.content)
    for path, target in tree.links.items():
        at = tmp_path / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(target)

    assert from_tar(io.BytesIO(to_tar(tree))) == tree
    here = parse(from_directory(tmp_path))
    assert here.pci == parse(tree).pci
    assert here.cpus == parse(tree).cpus


def test_half_an_archive_is_refused(recorded: Recorded) -> None:
    whole = to_tar(recorded("epyc-4090"))

    with pytest.raises(Failed, match="not a whole"):
        from_tar(io.BytesIO(whole[: len(whole) // 2]))


def test_links_in_circles_end() -> None:
    tree = Tree({"/a/file": Entry(b"x")}, {"/b": "c", "/c": "b", "/d": "a"})

    assert tree.text("/b/file") is None
    assert tree.text("/d/file") == "x"


def test_this_machine() -> None:
    facts = gather("local")

    assert facts.machine.system == "Linux"
    assert facts.cpus.cpus
    assert facts.memory.total_kib > 0
    assert facts.boot.command_line == Path("/proc/cmdline").read_text().strip()
    assert len(facts.pci) == len(list(Path("/sys/bus/pci/devices").glob("*")))
    jsonschema.validate(to_json(facts), json_schema())


def test_the_collector_needs_only_an_old_python() -> None:
    """Python 3.8: older than what any supported host has. It also imports nothing of ours."""
    tree = ast.parse(COLLECTOR.read_text(encoding="utf-8"), feature_version=(3, 8))

    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert imported <= sys.stdlib_module_names | {"__future__"}


def test_the_collector_never_reads_configuration_space() -> None:
    """Reading it can wake a card that hangs the CPU; sysfs calls that file `config`."""
    found = (
        subprocess.run(
            ["strace", "-f", "-e", "trace=openat", sys.executable, str(COLLECTOR)],
            capture_output=True,
            text=True,
            errors="replace",
        )
        if Path("/usr/bin/strace").exists()
        else None
    )
    if found is None:
        pytest.skip("no strace")

    opened = [line for line in found.stderr.splitlines() if "/sys/devices/pci" in line]
    assert opened
    assert not [line for line in opened if '/config"' in line]


def test_something_that_is_no_host_is_refused(home: Path) -> None:
    with pytest.raises(WrongUsage, match="rift host list"):
        collect("nowhere")


REPEATED = re.compile(r"/cpu([2-9]|\d\d+)/|/pci0000:(?!00)|/0000:01:00.1/|:01.1/\w+$")


@pytest.mark.parametrize(
    "garbage", [b"", b"garbage \xff\0 ]\n\n", b"1 2\n-\n", b"99999999999999999999\n"]
)
def test_any_file_may_be_anything(garbage: bytes, recorded: Recorded) -> None:
    """Facts, or an error for people; a plan, or a reason. Never a traceback."""
    tree = recorded("epyc-4090")

    for path in tree.files:
        if not REPEATED.search(path):
            changed = Tree({**tree.files, path: Entry(garbage)}, tree.links)
            with contextlib.suppress(RiftError):
                make_plan(check(parse(changed), Request()))


def test_a_program_may_call_itself_anything(recorded: Recorded) -> None:
    tree = recorded("desktop")
    lines = b"12\tX\tY\t/dev/dri/card0\n\n13\n14\tXorg\t/dev/dri/card0\n"

    facts = parse(Tree({**tree.files, "/commands/device-users": Entry(lines)}, tree.links))

    card = facts.function("0000:01:00.0")
    assert card is not None
    assert card.users == ("/dev/dri/card0 open in Xorg (pid 14)",)


def test_a_recorded_host_is_shown(
    recorded: Recorded, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "epyc.tar.gz"
    archive.write_bytes(to_tar(recorded("epyc-4090")))

    with pytest.raises(SystemExit) as stopped:
        main(["host", "facts", str(archive)])

    assert not stopped.value.code
    shown = capsys.readouterr().out
    assert "node 1         252.0 GiB, 64 CPUs" in shown
    assert "gpu            0000:a1:00.0 NVIDIA Corporation AD102 [GeForce RTX 4090]" in shown
    assert "driver nouveau, group 73, node 1, root pci0000:a0" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())


def test_node_ids_with_gaps_and_places_told_by_bridges_only(facts_of: FactsOf) -> None:
    facts = facts_of("nps4")
    gpus = {one.address: one.numa_node for one in facts.pci if one.class_code == "030000"}

    assert [node.id for node in facts.cpus.nodes] == [0, 2, 3, 4, 6, 7]
    assert facts.cpus.nodes[2].distances == {0: 12, 2: 12, 3: 10, 4: 32, 6: 32, 7: 32}
    assert {cpu.package for cpu in facts.cpus.cpus if cpu.node in (4, 6, 7)} == {1}
    assert gpus["0000:01:00.0"] == 3
    assert gpus["0000:81:00.0"] == 6  # its bridge's
    assert gpus["0000:a1:00.0"] is None  # -1 everywhere: unknown, not node 0
