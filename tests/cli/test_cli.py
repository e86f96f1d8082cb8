"""The root command: its list, its exit codes, and what it does not import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rift import cli
from rift.errors import Blocked, ChangesNeeded, Failed, RiftError, WrongUsage


def exit_code(*argv: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        cli.main(list(argv))
    assert isinstance(stopped.value.code, int)
    return stopped.value.code


def test_help_imports_no_part_and_nothing_heavy() -> None:
    probe = (
        "import sys\n"
        "from rift.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted(m for m in sys.modules if '.' not in m), file=sys.stderr)\n"
    )

    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)

    loaded = set(eval(done.stderr))
    parts = {"rift_provision", "rift_compiler", "rift_serving", "rift_benchmarks"}
    assert not loaded & (parts | {"torch", "vllm", "numpy", "matplotlib", "rich", "httpx2"})
    assert "deploy" in done.stdout


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_listed_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = exit_code(name, "--help")

    assert code == 0
    assert f"rift {name}" in capsys.readouterr().out


def test_no_command_shows_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code() == 0
    assert "Commands" in capsys.readouterr().out


@pytest.mark.parametrize("argv", [["nonsense"], ["--nonsense"], ["deploy", "nonsense"], ["deploy"]])
def test_wrong_usage_is_exit_2(argv: list[str]) -> None:
    assert exit_code(*argv) == 2


def test_version() -> None:
    assert exit_code("--version") == 0


@pytest.mark.parametrize(
    ("error", "code"), [(Failed, 1), (WrongUsage, 2), (ChangesNeeded, 3), (Blocked, 4)]
)
def test_errors_become_exit_codes_and_one_message(
    error: type[RiftError],
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error("what, which, expected, got, do")

    monkeypatch.setattr("rift.commands.runs.app", fail)

    assert exit_code("runs", "list") == code
    assert capsys.readouterr().err == "rift: what, which, expected, got, do\n"


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'gguf'", name="gguf")

    monkeypatch.setattr("rift.commands.runs.app", fail)

    assert exit_code("runs", "list") == 1
    assert "pip install 'rift-toolkit[serve-cpu]'" in capsys.readouterr().err
