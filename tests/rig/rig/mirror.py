"""Where this machine gets Debian from."""

from __future__ import annotations

import platform
import subprocess

SUITE = "bookworm"
DEFAULT = "http://deb.debian.org/debian"
DEFAULT_SECURITY = "http://deb.debian.org/debian-security"


def sources() -> list[str]:
    """apt source lines for Debian 12 and its backports, from the mirrors that this machine uses.

    On a machine that is no Debian, or whose apt names no mirror: Debian's own.
    """
    used = _used()
    release = _codename()
    main = used.get(release, DEFAULT)
    security = used.get(f"{release}-security", DEFAULT_SECURITY)
    suites = (SUITE, f"{SUITE}-updates", f"{SUITE}-backports")
    return [f"deb {main} {name} main" for name in suites] + [
        f"deb {security} {SUITE}-security main"
    ]


def _codename() -> str:
    release = platform.freedesktop_os_release()
    return release.get("VERSION_CODENAME", "") if release.get("ID") == "debian" else ""


def _used() -> dict[str, str]:
    """Suite to mirror, of what apt is set up with."""
    command = [
        "apt-get",
        "indextargets",
        "--format",
        "$(RELEASE) $(REPO_URI)",
        "Created-By: Packages",
    ]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pairs = [line.split(" ", 1) for line in shown.splitlines()]
    return {release: uri.rstrip("/") for release, uri in reversed(pairs)}
