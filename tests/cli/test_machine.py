"""Facts of this machine from recorded trees."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from rift import machine

X86 = """processor\t: 0
model name\t: AMD EPYC 9354 32-Core Processor
flags\t\t: fpu avx2 avx512f avx512_bf16
"""
ARM = """processor\t: 0
Features\t: fp asimd bf16 i8mm
CPU part\t: 0xd4f
"""


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("cpuinfo", "flag", "native"),
    [
        (X86, "avx512f", True),
        (ARM, "asimd", True),
        (X86.replace(" avx512_bf16", ""), "avx2", False),
        (X86.replace("avx512_bf16", "amx_bf16"), "amx_bf16", True),
    ],
)
def test_cpu(tmp_path: Path, cpuinfo: str, flag: str, native: bool) -> None:
    cpu = machine.cpu(tree(tmp_path, {"proc/cpuinfo": cpuinfo}))

    assert flag in cpu.flags
    assert cpu.native_bfloat16 is native


def test_a_machine_without_proc_has_no_flags(tmp_path: Path) -> None:
    assert machine.cpu(tmp_path).flags == frozenset()


def test_memory_is_what_the_cgroup_has_left(tmp_path: Path) -> None:
    cgroup = {
        "sys/fs/cgroup/memory.max": "1000000\n",
        "sys/fs/cgroup/memory.current": "900000\n",
        "sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 300000\nactive_file 200000\nslab 7\n",
    }

    assert machine.available_memory_bytes(tree(tmp_path, cgroup)) == 600_000


def test_memory_without_a_limit_is_the_systems(tmp_path: Path) -> None:
    cgroup = {
        "sys/fs/cgroup/memory.max": "max\n",
        "sys/fs/cgroup/memory.current": "1\n",
        "sys/fs/cgroup/memory.stat": "anon 1\n",
    }

    found = machine.available_memory_bytes(tree(tmp_path, cgroup))

    assert found == pytest.approx(psutil.virtual_memory().available, rel=0.2)


def test_gpus_are_nvidia_display_controllers(tmp_path: Path) -> None:
    devices = "sys/bus/pci/devices"
    root = tree(
        tmp_path,
        {
            f"{devices}/0000:01:00.0/vendor": "0x10de\n",
            f"{devices}/0000:01:00.0/class": "0x030000\n",
            f"{devices}/0000:01:00.1/vendor": "0x10de\n",  # its audio function
            f"{devices}/0000:01:00.1/class": "0x040300\n",
            f"{devices}/0000:02:00.0/vendor": "0x1002\n",
            f"{devices}/0000:02:00.0/class": "0x030000\n",
            f"{devices}/0000:41:00.0/vendor": "0x10de\n",
            f"{devices}/0000:41:00.0/class": "0x030200\n",  # 3D controller: a data centre card
            "sys/bus/pci/drivers/nvidia/bind": "",
        },
    )
    (root / devices / "0000:41:00.0/driver").symlink_to(root / "sys/bus/pci/drivers/nvidia")

    gpus = machine.nvidia_gpus(root)

    assert [(gpu.address, gpu.driver) for gpu in gpus] == [
        ("0000:01:00.0", None),
        ("0000:41:00.0", "nvidia"),
    ]
    assert not machine.has_cuda(root)  # as in a container that was given no GPU
    assert machine.has_cuda(tree(root, {"dev/nvidiactl": ""}))
