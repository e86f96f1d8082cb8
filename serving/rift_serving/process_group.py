"""An engine as a process group: started detached, recognised later, ended whole."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

STOP_S = 10.0  # vLLM 0.32 ends its workers within a few seconds of SIGTERM
KILL_S = 5.0


@dataclass(frozen=True)
class Process:
    """A process by pid and start time (seconds since the epoch): safe against reused pids."""

    pid: int
    started: float

    @property
    def is_alive(self) -> bool:
        """Whether this very process runs (a zombie does not)."""
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.started) < 1.0
            return same and found.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


def this_process() -> Process:
    """The process that runs this code."""
    return Process(os.getpid(), psutil.Process().create_time())


def start(argv: tuple[str, ...], environment: Mapping[str, str], log: Path) -> Process:
    """Start argv as the leader of its own session, so that the terminal's Ctrl-C spares it.

    Its output goes to log, which only its owner can read. Raises OSError.
    """
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        pid = os.posix_spawn(
            argv[0],
            argv,
            {**os.environ, **environment},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=(),  # what `uninterrupted` blocks here is not blocked there
        )
    finally:
        os.close(output)
    return Process(pid, psutil.Process(pid).create_time())


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off Ctrl-C and SIGTERM until the block is done, so that cleaning up is done whole."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def exit_code(child: Process) -> int | None:
    """The exit code of a child of this process (negative: its signal), None while it runs."""
    pid, status = os.waitpid(child.pid, os.WNOHANG)
    return None if pid == 0 else os.waitstatus_to_exitcode(status)


def members(leader: Process) -> list[psutil.Process]:
    """Every living process of the leader's session, also after the leader itself has gone."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            ours = os.getsid(process.pid) == leader.pid
            old_enough = process.create_time() >= leader.started - 1.0
            if ours and old_enough and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def stop(leader: Process) -> None:
    """End the whole session: SIGTERM, then SIGKILL to what is left. Idempotent."""
    for sign, patience_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, KILL_S)):
        for process in members(leader):
            with contextlib.suppress(psutil.Error):
                process.send_signal(sign)
        deadline = time.monotonic() + patience_s
        while members(leader) and time.monotonic() < deadline:
            time.sleep(0.1)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(leader.pid, os.WNOHANG)  # if it was ours, leave no zombie
