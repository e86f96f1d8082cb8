"""`make rig`: a GPU host to try things on, until Ctrl-C. What happens on it is forgotten."""

from __future__ import annotations

import contextlib
import os
import shlex
import time

from rig import Rig, build


def main() -> None:
    """Start the rig, say how to log in, and wait."""
    with Rig(build()) as rig:
        rig.wait_for_ssh()
        ssh = rig.ssh
        print(f"rig: log in with: {shlex.join(ssh.command())}")
        print(
            f"rig: or: rift host add rig {ssh.host} --port {ssh.port} --user {ssh.user} "
            f"--key {shlex.quote(os.fspath(ssh.key))}"
        )
        print("rig: Ctrl-C stops it, and forgets what happened on it", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while rig.qemu.process.poll() is None:
                time.sleep(1)


if __name__ == "__main__":
    main()
