"""The wheel, installed alone into a fresh environment: what a user gets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.network, pytest.mark.timeout(600)]
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]
    subprocess.run([*command, str(target), str(ROOT)], check=True)
    (built,) = target.glob("rift_toolkit-*.whl")
    return built


def test_it_holds_every_part_and_its_data(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    for wanted in (
        "rift/cli.py",
        "rift_provision/__init__.py",
        "rift_provision/ansible/apply.yml",
        "rift_provision/ansible/roles/host_plan/library/host_plan.py",
        "rift_compiler/__init__.py",
        "rift_serving/recipes/smollm2-135m-cpu.yaml",
        "rift_benchmarks/prices.toml",
        "rift_benchmarks/report.html.j2",
    ):
        assert wanted in names
    assert not [name for name in names if "test" in name.split("/")[0]]


def test_it_installs_and_runs_without_extras(wheel: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", str(wheel)], check=True)

    def rift(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [venv / "bin" / "rift", *argv],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "RIFT_HOME": str(tmp_path / "home")},
        )

    assert rift("--help").returncode == 0
    assert len(json.loads(rift("deploy", "recipes", "--json").stdout)) > 10
    assert rift("deploy", "model", "mock").returncode == 0
    assert rift("deploy", "stop", "mock").returncode == 0
    bench = rift("bench", "--endpoint", "http://127.0.0.1:9", "--profile", "smoke")
    assert bench.returncode == 1
    assert "pip install 'rift-toolkit[bench]'" in bench.stderr
    engine = rift("deploy", "model", "smollm2-135m", "--dry-run")
    assert engine.returncode == 4
    assert "rift deploy engine" in engine.stderr
