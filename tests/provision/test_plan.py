"""Plans: what is changed, what is left alone, and that a host that is as wanted needs none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rift import cli
from rift_provision import plan_store, report_text
from rift_provision.check import READY, check
from rift_provision.facts import Facts, parse, to_json
from rift_provision.facts.files import File
from rift_provision.facts.tree import Entry, Tree
from rift_provision.plan import FileChange, Plan, make_plan
from rift_provision.requirements.part import Mode, Request
from rift_provision.vfio_files import DEVICES, MODPROBE, PATHS, RULES

FactsOf = Callable[[str], Facts]
Recorded = Callable[[str], Tree]
After = Callable[[Tree, Plan], Tree]
GOLDENS = Path(__file__).parent / "goldens"
HOSTS = (
    *("epyc-4090", "xeon-h100", "rocky9", "proxmox", "t2linux-671", "iommu-off", "small"),
    *("ubuntu-2204", "debian-13", "nps4"),
)


def plan_for(facts: Facts, **asked: object) -> Plan:
    request = replace(Request(), **asked)  # type: ignore[arg-type]
    return make_plan(check(facts, request), "h1")


def changes(plan: Plan) -> dict[str, FileChange]:
    return {change.path: change for change in plan.files}


def after_text(plan: Plan, path: str) -> str:
    change = changes(plan)[path].after
    return change.text or "" if change else ""


def rift(*argv: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        cli.main(list(argv))
    return int(stopped.value.code or 0)


@pytest.mark.parametrize("host", HOSTS)
def test_plans_are_as_reviewed(
    host: str, facts_of: FactsOf, request: pytest.FixtureRequest
) -> None:
    """Golden: tests/provision/goldens/HOST.plan; RIFT_UPDATE_GOLDENS=1 writes them anew."""
    import os

    shown = "\n".join(report_text.text(plan_for(facts_of(host)))) + "\n"

    golden = GOLDENS / f"{host}.plan"
    if os.environ.get("RIFT_UPDATE_GOLDENS"):
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("host", HOSTS)
def test_nothing_is_left_to_do_once_a_plan_was_applied(
    host: str, recorded: Recorded, after: After
) -> None:
    tree = recorded(host)
    plan = plan_for(parse(tree))

    booted = parse(after(tree, plan))

    report = check(booted, Request())
    left = [one for one in report.findings if one.verdict not in ("ok", "note")]
    assert (left, report.exit_code) == ([], READY)
    assert make_plan(report).is_empty


@pytest.mark.parametrize("available_gib", [3, 8, 30])
def test_pages_that_are_there_are_kept_while_free_memory_comes_and_goes(
    available_gib: int, recorded: Recorded, after: After
) -> None:
    tree = recorded("epyc-4090")
    booted = parse(after(tree, plan_for(parse(tree))))
    memory = replace(booted.memory, available_kib=available_gib << 20, hugetlb_kib=485 << 20)

    report = check(replace(booted, memory=memory), Request())

    assert make_plan(report).is_empty


def test_a_plan_that_was_interrupted_is_taken_up_again(recorded: Recorded) -> None:
    """Files are written, the initramfs is not: the next plan has no file and all commands."""
    tree = recorded("epyc-4090")
    first = plan_for(parse(tree))
    files = {change.path: change.after for change in first.files if change.after}
    facts = parse(tree)
    written = replace(facts, files={**facts.files, **files})

    second = plan_for(written)

    assert second.files == ()
    assert ("update-initramfs", "-u", "-k", "all") in [one.argv for one in second.commands]
    assert ("update-grub",) in [one.argv for one in second.commands]
    assert second.reboot


def test_an_initramfs_without_the_list_is_made_anew(recorded: Recorded, after: After) -> None:
    """A kernel was installed, and its image made, while the files were away."""
    tree = recorded("epyc-4090")
    bound = after(tree, plan_for(parse(tree)))
    stale = Tree({**bound.files, "/commands/lsinitramfs": Entry(b"init\n")}, bound.links)

    plan = plan_for(parse(stale))

    assert plan.files == ()
    assert [one.argv[0] for one in plan.commands] == ["update-initramfs"]


def test_container_mode_takes_the_binding_back(recorded: Recorded, after: After) -> None:
    tree = recorded("xeon-h100")
    bound = after(tree, plan_for(parse(tree)))

    plan = plan_for(parse(bound), mode=Mode.CONTAINER)

    gone = {change.path for change in plan.files if change.after is None}
    assert gone == {path for path in PATHS if parse(bound).files.get(path)}
    assert plan.reboot


def test_container_mode_leaves_the_cards_that_were_not_named(
    recorded: Recorded, after: After
) -> None:
    tree = recorded("xeon-h100")
    bound = after(tree, plan_for(parse(tree)))

    plan = plan_for(parse(bound), mode=Mode.CONTAINER, gpus=("18:00.0",))

    assert after_text(plan, DEVICES).splitlines()[1:] == ["0000:98:00.0 10de:2330"]
    assert "0000:18" not in after_text(plan, RULES)
    assert changes(plan)[MODPROBE].after is None  # it only kept nouveau off, which may come now


def test_a_card_that_is_no_longer_chosen_takes_a_reboot(recorded: Recorded, after: After) -> None:
    tree = recorded("epyc-4090")
    bound = after(tree, plan_for(parse(tree)))
    assert check(parse(bound), Request()).exit_code == READY

    plan = plan_for(parse(bound), gpus=("01:00.0",))

    assert after_text(plan, DEVICES).splitlines()[1:] == [
        "0000:01:00.0 10de:2684",
        "0000:01:00.1 10de:22ba",
    ]
    assert plan.reboot_why == ("binding",)


def test_entries_that_grub_is_told_not_to_read(facts_of: FactsOf) -> None:
    facts = facts_of("rocky9")
    text = (facts.files["/etc/default/grub"].text or "").replace("BLSCFG=true", "BLSCFG=false")
    grub = replace(facts.files["/etc/default/grub"], text=text)

    plan = plan_for(replace(facts, files={**facts.files, "/etc/default/grub": grub}))

    assert "/etc/default/grub" in changes(plan)
    assert not [path for path in changes(plan) if "entries" in path]
    assert ("grub2-mkconfig", "-o", "/boot/grub2/grub.cfg") in [one.argv for one in plan.commands]


def test_one_of_two_identical_cards(facts_of: FactsOf) -> None:
    """harvester#3609, truenas#11397, andre-richter/vfio-pci-bind#6: by address, every function."""
    plan = plan_for(facts_of("truenas-11397"), gpus=("65:00.0",))

    assert after_text(plan, DEVICES).splitlines()[1:] == [
        "0000:65:00.0 10de:1fb2",
        "0000:65:00.1 10de:10fa",
    ]
    assert "0000:17" not in after_text(plan, RULES)
    assert "nouveau" not in after_text(plan, MODPROBE)  # the other card needs it
    assert "10de:1fb2" not in " ".join(" ".join(one.argv) for one in plan.commands)

    four = plan_for(facts_of("vfio-pci-bind-6"))
    assert [line.split()[0][-1] for line in after_text(four, DEVICES).splitlines()[1:]] == [*"0123"]
    assert "0000:4c:00.0" in after_text(four, RULES)  # the bridge above it stays awake


def test_a_slot_shared_with_the_hosts_own_usb(facts_of: FactsOf) -> None:
    plan = plan_for(facts_of("apu"), gpus=("0e:00.0",))

    assert after_text(plan, DEVICES).splitlines()[1:] == [
        "0000:0e:00.0 1002:1681",
        "0000:0e:00.1 1002:1640",
    ]


def test_a_driver_that_is_built_in_is_told_on_the_command_line(facts_of: FactsOf) -> None:
    """ilayna/Single-GPU-passthrough-amd-nvidia#28: modprobe.d is never read for it."""
    plan = plan_for(facts_of("xeon-h100"))

    cloud = after_text(plan, "/etc/default/grub.d/50-cloudimg-settings.cfg")
    assert "vfio-pci.disable_idle_d3=1" in cloud
    assert "disable_idle_d3" not in after_text(plan, MODPROBE)
    assert "/etc/default/grub" not in changes(plan)  # the cloud image's file overrides it
    assert "/etc/default/grub.d/kdump-tools.cfg" not in changes(plan)


def test_the_loader_that_boots_is_the_one_that_is_set(facts_of: FactsOf) -> None:
    """strongtz/i915-sriov-dkms#172, both ways."""
    by_systemd = plan_for(facts_of("i915-sriov-172"))
    assert "/etc/kernel/cmdline" in changes(by_systemd)
    assert "/etc/default/grub" not in changes(by_systemd)
    assert ("proxmox-boot-tool", "refresh") in [one.argv for one in by_systemd.commands]

    by_grub = plan_for(facts_of("i915-sriov-172-grub"))
    assert "/etc/default/grub" in changes(by_grub)
    assert "/etc/kernel/cmdline" not in changes(by_grub)


def test_entries_of_every_kernel_but_the_rescue_one(facts_of: FactsOf) -> None:
    plan = plan_for(facts_of("rocky9"))

    entries = [path for path in changes(plan) if "/loader/entries/" in path]
    assert len(entries) == 2
    for path in entries:
        assert "rd.lvm.lv=rl/root $tuned_params iommu=pt\n" in after_text(plan, path)
    fedora = plan_for(facts_of("t2linux-671"))
    assert after_text(fedora, "/etc/kernel/cmdline").startswith(
        "root=UUID=aa ro rootflags=subvol=root iommu=pt hugepagesz=1G"
    )


@pytest.mark.parametrize(
    ("host", "line"),
    [
        # rift-utils: `iommu=pt` was taken for present in `intel_iommu=on`
        ("substring", 'DEFAULT="pci=realloc intel_iommu=on pcie_aspm=off iommu=pt hugepagesz=1G'),
        # uwzis/GPU-Passthrough-Manager#50: single quotes stay
        ("passthrough-manager-50", "DEFAULT='quiet splash iommu=pt hugepagesz=1G hugepages=0:242"),
        # rift-utils: less memory made a Python list of it
        ("small", 'DEFAULT="quiet iommu=pt hugepagesz=1G hugepages=55"\n'),
        # role-proxmox#247: nothing for AMD that only Intel has, or that does nothing
        ("role-proxmox-247", 'DEFAULT="quiet intel_iommu=on amd_iommu=on iommu=pt hugepagesz=1G'),
        ("iommu-off", 'DEFAULT="quiet iommu=pt hugepagesz=1G'),
        # rift-utils: sorted options; here the order and what stands there stay
        ("order", 'LINUX="console=ttyS0 console=tty0 hugepagesz=2M hugepages=64 zswap.enabled=0'),
    ],
)
def test_the_command_line_keeps_what_it_had(host: str, line: str, facts_of: FactsOf) -> None:
    text = after_text(plan_for(facts_of(host)), "/etc/default/grub")

    assert line in text
    assert "['" not in text


def test_old_reservations_of_the_same_size_are_replaced(facts_of: FactsOf) -> None:
    plan = plan_for(facts_of("order"), hugepages="16G", page_kib=2048)

    text = after_text(plan, "/etc/default/grub")
    assert 'LINUX="console=ttyS0 console=tty0 zswap.enabled=0 apparmor=1"' in text
    assert 'DEFAULT="iommu=pt hugepagesz=2M hugepages=0:4096,1:4096"' in text


def test_an_old_kernel_reserves_pages_with_a_unit(facts_of: FactsOf) -> None:
    """Linux before 5.16 cannot say on the command line which node."""
    plan = plan_for(facts_of("rocky9"))

    unit = after_text(plan, "/etc/systemd/system/rift-hugepages.service")
    assert "echo 242 > /sys/devices/system/node/node0/hugepages/hugepages-1048576kB/" in unit
    assert "= 242'" in unit  # read back: late reservations stop short silently
    assert "rift-hugepages.service" in [one.name for one in plan.units]
    assert not any(
        "hugepages=" in after_text(plan, path) for path in changes(plan) if "entries" in path
    )


@pytest.mark.parametrize(
    "word", ["vfio_virqfd", "amd_iommu=on", "la57", "pci=noaer", "vfio-pci.ids"]
)
def test_words_of_the_guides_that_are_never_added(word: str, facts_of: FactsOf) -> None:
    for host in HOSTS:
        assert not any(
            word in after_text(plan, p)
            for plan in [plan_for(facts_of(host))]
            for p in changes(plan)
        )


def test_the_initramfs_is_made_after_every_file_that_it_holds(facts_of: FactsOf) -> None:
    """rift-utils made it first, so the D3 setting was not in it."""
    for host in HOSTS:
        plan = plan_for(facts_of(host))
        made = [one for one in plan.commands if one.argv[0] in ("update-initramfs", "dracut")]
        assert [one.when for one in made] == ["files"]


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (None, File("a\n", "0755", 0, 0), "+a"),
        (File("a\n", "0644", 0, 0), None, "-a"),
        (File("a", "0644", 0, 0), File("a\n", "0644", 0, 0), "\\ No newline at end of file"),
        (File("a\n", "0644", 0, 0), File("a\n", "0755", 0, 0), "mode 0644 -> 0755"),
    ],
)
def test_diffs(before: File | None, after: File | None, shown: str) -> None:
    assert shown in FileChange("/etc/x", before, after, "").diff


def test_a_plan_is_made_in_a_second(facts_of: FactsOf) -> None:
    facts = facts_of("epyc-4090")
    start = time.perf_counter()

    plan_for(facts)

    assert time.perf_counter() - start < 1.0


def test_check_and_plan_from_recorded_facts(
    facts_of: FactsOf, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(to_json(facts_of("epyc-4090"))))
    command = ("provision", "host", "--facts", str(path))

    assert rift(*command, "--check") == 3
    shown = capsys.readouterr().out
    assert all(len(line) <= 80 for line in shown.splitlines())

    assert rift(*command, "--check", "--json") == 3
    (report,) = json.loads(capsys.readouterr().out)
    assert {one["verdict"] for one in report["findings"]} == {"ok", "note", "will fix"}

    assert rift(*command, "--plan", "--json") == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert plan_store.document(plan_store.load(plan["id"])) == plan
    assert rift("provision", "show", plan["id"]) == 0
    assert "+++ /etc/default/grub" in capsys.readouterr().out


def test_one_of_several_hosts_that_cannot_be_looked_at(
    facts_of: FactsOf, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(to_json(facts_of("disk-in-group"))))

    assert rift("provision", "host", "nowhere", "--facts", str(path), "--check") == 4

    shown = capsys.readouterr()
    assert "nowhere: " in shown.err
    assert "group 13 also has" in shown.out


@pytest.mark.parametrize(
    "argv",
    [
        ("--check",),
        ("--facts", "/nowhere.json"),
        ("local", "--check", "--mode", "mig"),
        ("local", "--check", "--page-size", "3M"),
        ("--facts", "/nowhere.json", "--check"),
    ],
)
def test_wrong_usage(argv: tuple[str, ...], home: Path) -> None:
    assert rift("provision", "host", *argv) == 2


def test_a_plan_that_is_not_there(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rift("provision", "show", "../../etc/passwd") == 2
    assert "no plan" in capsys.readouterr().err


def test_the_table_in_the_documentation_is_what_is_printed(
    facts_of: FactsOf, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(to_json(facts_of("epyc-4090"))))
    page = Path(__file__).parents[2] / "docs/prepare-a-host.md"

    rift("provision", "host", "--facts", str(path), "--check", "--gpus", "01:00.0,21:00.0")

    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert f"```\n{printed}\n```" in page.read_text(encoding="utf-8")
