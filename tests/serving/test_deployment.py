"""A deployment's life, with the mock engine: start, find, stop, and every way out."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from rift import cli
from rift_serving import deployment, health, process_group

RIFT = [sys.executable, "-c", "from rift.cli import main; main()"]
SLOW_RECIPE = """schema: rift.recipe/1
name: slow
model: mock
engine: mock
hardware: {device: cpu}
mock: {ttft_ms: 60000}
"""
Run = Callable[..., int]


@pytest.fixture
def rift(home: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run a command here and return its exit code; what it deployed ends with the test."""

    def run(*argv: str) -> int:
        with pytest.raises(SystemExit) as stopped:
            cli.main(list(argv))
        return int(stopped.value.code or 0)

    yield run
    for row in deployment.listed():
        deployment.stop(row.name)
    assert not mocks(home)


@pytest.fixture(autouse=True)
def end_what_a_failed_test_left(home: Path) -> Iterator[None]:
    """End its engines; a `rift` that waits for one then ends by itself."""
    yield
    for process in mocks(home):
        process.kill()


def mocks(home: Path) -> list[psutil.Process]:
    """Mock engines that run with this home."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("RIFT_HOME") == str(home)
            if ours and "rift_serving.mock_engine" in process.cmdline():
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_deploy_list_show_logs_stop(rift: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert rift("deploy", "model", "mock", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert rift("deploy", "list", "--json") == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert rift("deploy", "show", "mock") == 0
    assert rift("deploy", "logs", "mock") == 0

    assert health.check(made["url"], "mock", None).context_length == 32768
    assert (listed["name"], listed["state"]) == ("mock", "ready")
    assert "mock engine on 127.0.0.1" in capsys.readouterr().out
    assert rift("deploy", "stop", "mock") == 0
    assert deployment.listed() == []


def test_a_second_of_the_same_name_is_refused(
    rift: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    rift("deploy", "model", "mock")

    assert rift("deploy", "model", "mock") == 4
    assert "rift deploy stop mock" in capsys.readouterr().err
    assert rift("deploy", "model", "mock", "--name", "other") == 0


def test_a_dead_engine_is_seen_and_makes_way(rift: Run, capsys: pytest.CaptureFixture[str]) -> None:
    rift("deploy", "model", "mock")
    row = deployment.get("mock")
    assert row.engine is not None
    os.kill(row.engine.pid, signal.SIGKILL)
    os.waitpid(row.engine.pid, 0)

    assert row.state() == "exited"
    assert rift("deploy", "model", "mock") == 0
    assert deployment.get("mock").state() == "ready"


def test_a_reused_pid_is_not_taken_for_the_engine(rift: Run) -> None:
    rift("deploy", "model", "mock")
    engine = deployment.get("mock").engine
    assert engine is not None

    others = [replace(engine, ticks=engine.ticks - 1), replace(engine, boot="an earlier boot")]

    assert engine.is_alive
    assert process_group.members(engine)
    for other in others:
        assert not other.is_alive
        assert process_group.members(other) == []


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_waits_whatever_threads_run(tmp_path: Path, sign: signal.Signals) -> None:
    program = (
        "import os, threading, time\n"
        "from rift_serving.process_group import uninterrupted\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "try:\n"
        "    with uninterrupted():\n"
        f"        os.kill(os.getpid(), {int(sign)})\n"
        "        time.sleep(0.2)\n"
        "        print('cleaned up', flush=True)\n"
        "except KeyboardInterrupt:\n"
        "    print('then interrupted', flush=True)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.stdout.splitlines() == ["cleaned up", "then interrupted"]


def test_stop_ends_workers_whose_leader_died(rift: Run, home: Path, tmp_path: Path) -> None:
    program = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True)"
    log = tmp_path / "log"
    leader = process_group.start((sys.executable, "-c", program), os.environ, log)
    os.waitpid(leader.pid, 0)
    worker = psutil.Process(int(log.read_text()))
    assert worker.is_running()

    process_group.stop(leader)

    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE


def test_a_taken_port_names_its_owner(rift: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        code = rift("deploy", "model", "mock", "--port", str(port))

    assert code == 4
    assert f"port {port} on 127.0.0.1: Address already in use" in capsys.readouterr().err
    assert deployment.listed() == []


def test_an_asked_for_port_is_used(rift: Run) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    rift("deploy", "model", "mock", "--port", str(port))

    assert deployment.get("mock").url == f"http://127.0.0.1:{port}"


def test_other_machines_are_let_in_with_a_key_only(
    rift: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rift("deploy", "model", "mock", "--bind", "0.0.0.0") == 2
    assert "--api-key-file" in capsys.readouterr().err
    assert deployment.listed() == []


def test_a_key_is_asked_for_and_stands_nowhere(rift: Run, home: Path, tmp_path: Path) -> None:
    secret = "sk-not-to-be-seen-4711"
    file = tmp_path / "key"
    file.write_text(secret + "\n")
    file.chmod(0o600)

    assert rift("deploy", "model", "mock", "--bind", "0.0.0.0", "--api-key-file", str(file)) == 0

    row = deployment.get("mock")
    assert row.engine is not None
    assert health.check(row.url, "mock", secret)
    with pytest.raises(health.NotReady, match="401"):
        health.check(row.url, "mock", None)
    assert secret not in " ".join(psutil.Process(row.engine.pid).cmdline())
    for path in home.rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        ("", 0o600, "expected one line"),
        ("two words", 0o600, "expected one line"),
        ("k", 0o644, "chmod 600"),
    ],
)
def test_bad_key_files_are_refused(
    rift: Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: str,
    mode: int,
    message: str,
) -> None:
    file = tmp_path / "key"
    file.write_text(content)
    file.chmod(mode)

    assert rift("deploy", "model", "mock", "--api-key-file", str(file)) == 2
    assert message in capsys.readouterr().err


def test_a_key_that_lay_about_is_not_the_engines(
    rift: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIFT_MOCK_API_KEY", "somebody else's")

    assert rift("deploy", "model", "mock") == 0


def test_ipv6_loopback(rift: Run) -> None:
    assert rift("deploy", "model", "mock", "--bind", "::1") == 0

    assert deployment.get("mock").url.startswith("http://[::1]:")


def test_dry_run_prints_and_starts_nothing(
    rift: Run, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rift("deploy", "model", "mock", "--dry-run") == 0

    assert "-m rift_serving.mock_engine --name mock" in capsys.readouterr().out
    assert not (home / "deployments").exists()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([""], "name is empty"),
        (["no-such-model"], "expected one of smollm2-135m, an existing directory"),
        (["mock", "--recipe", "no-such"], "nor one of the shipped"),
        (["mock", "--name", "Über"], "expected lower-case letters"),
        (["mock", "--bind", "no.such.address.invalid"], "not an address"),
        (["mock", "--bind", "127.1.1.1.1"], "not an address"),
        (["mock", "--port", "70000"], "65535"),
    ],
)
def test_wrong_requests_are_exit_2(
    rift: Run, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert rift("deploy", "model", *argv) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert deployment.listed() == []


@pytest.mark.parametrize("command", ["show", "logs", "stop"])
def test_unknown_names_list_the_known(
    rift: Run, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert rift("deploy", command, "nothing") == 2
    assert "no deployment named 'nothing'" in capsys.readouterr().err


def as_in_a_terminal() -> None:
    """Heed Ctrl-C and hanging up, also where the tests run in the background or under nohup."""
    for sign in (signal.SIGINT, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)


def slow_deploy(home: Path, tmp_path: Path) -> subprocess.Popen[str]:
    """A `rift deploy model` in its own process whose engine never gives its first token."""
    recipe = tmp_path / "slow.yaml"
    recipe.write_text(SLOW_RECIPE)
    command = [*RIFT, "deploy", "model", "mock", "--recipe", str(recipe), "--timeout", "600"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=as_in_a_terminal,
    )
    deadline = time.monotonic() + 30
    while not mocks(home) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert mocks(home)
    return process


@pytest.mark.parametrize(
    ("sign", "times"),
    [(signal.SIGINT, 1), (signal.SIGINT, 3), (signal.SIGTERM, 1), (signal.SIGHUP, 1)],
)
def test_ctrl_c_leaves_nothing_behind(
    home: Path, tmp_path: Path, sign: signal.Signals, times: int
) -> None:
    process = slow_deploy(home, tmp_path)

    for _ in range(times):
        process.send_signal(sign)
        time.sleep(0.05)
    process.communicate(timeout=60)

    assert process.returncode == 130
    assert mocks(home) == []
    assert deployment.listed() == []
    assert list((home / "deployments").iterdir()) == []


def test_a_deployment_stopped_while_it_starts_is_gone(
    rift: Run, home: Path, tmp_path: Path
) -> None:
    process = slow_deploy(home, tmp_path)

    assert rift("deploy", "stop", "mock") == 0
    _, talk = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "stopped by another rift" in talk
    assert mocks(home) == []
    assert deployment.listed() == []


def test_a_killed_launcher_leaves_an_engine_that_stop_finds(
    rift: Run, home: Path, tmp_path: Path
) -> None:
    process = slow_deploy(home, tmp_path)
    process.kill()
    process.communicate()

    assert deployment.get("mock").state() == "abandoned"
    assert rift("deploy", "stop", "mock") == 0
    assert mocks(home) == []


def test_a_start_that_takes_too_long_ends_and_says_why(
    rift: Run, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "slow.yaml"
    recipe.write_text(SLOW_RECIPE)

    assert rift("deploy", "model", "mock", "--recipe", str(recipe), "--timeout", "2") == 1

    assert "was not ready after 2 s" in capsys.readouterr().err
    assert mocks(home) == []
    assert deployment.listed() == []


def test_a_crash_at_start_shows_the_engines_last_lines(
    rift: Run,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("rift_serving.deployment.choose_port", lambda *_: -1)

    assert rift("deploy", "model", "mock") == 1

    talk = capsys.readouterr().err
    assert "exited with code 1" in talk
    assert "OverflowError" in talk
    assert str(home / "deployments/mock/engine.log") in talk
    assert deployment.listed() == []


def may_mount() -> bool:
    command = ["unshare", "--mount", "true"]
    return bool(shutil.which("unshare")) and subprocess.run(command, check=False).returncode == 0


@pytest.mark.skipif(not may_mount(), reason="mounts a small file system in a namespace")
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    script = (
        f"mount -t tmpfs -o size=150m tmpfs {small} && RIFT_HOME={small}/home "
        f'"$@" deploy model smollm2-135m; code=$?; find {small} -type f; exit $code'
    )

    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *RIFT],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    left = [Path(line).name for line in done.stdout.splitlines()]
    assert sorted(left) in ([], ["smollm2-135m.lock"], ["rift.db", "smollm2-135m.lock"])


def test_what_was_for_a_killed_benchmark_is_abandoned(
    rift: Run, home: Path, tmp_path: Path
) -> None:
    command = [*RIFT, "bench", "--deploy", "mock", "--profile", "4k4k", "--concurrency", "1"]
    bench = subprocess.Popen(command, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not any(row.ready_seconds for row in deployment.listed()):
        assert time.monotonic() < deadline
        time.sleep(0.1)

    bench.kill()
    bench.communicate()

    (row,) = deployment.listed()
    assert row.state() == "abandoned"
    assert rift("deploy", "stop", row.name) == 0
    assert mocks(home) == []


def test_the_log_of_a_failed_start_can_be_read_and_cleared(
    rift: Run, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "slow.yaml"
    recipe.write_text(SLOW_RECIPE)
    rift("deploy", "model", "mock", "--recipe", str(recipe), "--timeout", "1")

    assert rift("deploy", "logs", "mock") == 0
    assert "mock engine on" in capsys.readouterr().out
    assert rift("deploy", "stop", "mock") == 0
    assert list((home / "deployments").iterdir()) == []
    assert rift("deploy", "logs", "mock") == 2
