"""An engine as a process group: started detached, recognised later, ended whole."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

STOP_S = 10.0  # vLLM 0.32 ends its workers within a few seconds of SIGTERM
KILL_S = 5.0


@dataclass(frozen=True)
class Process:
    """A process by boot, pid and start: not mistaken for another of the same pid, ever.

    ticks: its start in clock ticks since boot (field 22 of /proc/PID/stat, proc(5)), which no
    change of the clock moves.
    """

    boot: str
    pid: int
    ticks: int

    @property
    def is_alive(self) -> bool:
        """Whether this very process runs (a zombie does not)."""
        found = _stat(self.pid)
        return self.boot == _boot() and found is not None and found == (self.ticks, False)


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _stat(pid: int) -> tuple[int, bool] | None:
    """(start in ticks, whether it is a zombie), or None without such a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *rest = text.rpartition(")")[2].split()  # the name before may hold anything
    return int(rest[18]), state == "Z"


def process(pid: int) -> Process:
    """The process that has this pid now. Raises ProcessLookupError without one."""
    found = _stat(pid)
    if found is None:
        raise ProcessLookupError(pid)
    return Process(_boot(), pid, found[0])


def start(argv: tuple[str, ...], environment: Mapping[str, str], log: Path) -> Process:
    """Start argv as the leader of its own session, so that the terminal's Ctrl-C spares it.

    environment is all of its environment; its output goes to log, which only its owner can read.
    Raises OSError.
    """
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        pid = os.posix_spawn(
            argv[0],
            argv,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(output)
    return process(pid)


INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Put off Ctrl-C, SIGTERM and SIGHUP until the block is done, so that clean-up is done whole.

    By handler, not by mask: a mask holds for one thread, and any other would take the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs handlers in the main thread only
        return
    came: list[int] = []
    before = {sign: signal.signal(sign, lambda sign, _: came.append(sign)) for sign in INTERRUPTS}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
    if came:
        raise KeyboardInterrupt


def exit_code(child: Process) -> int | None:
    """The exit code of a child of this process (negative: its signal), None while it runs."""
    pid, status = os.waitpid(child.pid, os.WNOHANG)
    return None if pid == 0 else os.waitstatus_to_exitcode(status)


def members(leader: Process) -> list[psutil.Process]:
    """Every living process of the leader's session, also after the leader itself has gone.

    While a session has members, the kernel gives its number to no new process (alloc_pid): another
    process that has it now means that ours are gone.
    """
    now = _stat(leader.pid)
    if leader.boot != _boot() or (now is not None and now[0] != leader.ticks):
        return []
    found = []
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getsid(one.pid) == leader.pid and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found


def stop(leader: Process) -> None:
    """End the whole session: SIGTERM, then SIGKILL to what is left. Idempotent."""
    for sign, patience_s in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, KILL_S)):
        for one in members(leader):
            with contextlib.suppress(psutil.Error):
                one.send_signal(sign)
        deadline = time.monotonic() + patience_s
        while members(leader) and time.monotonic() < deadline:
            time.sleep(0.1)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(leader.pid, os.WNOHANG)  # if it was ours, leave no zombie
