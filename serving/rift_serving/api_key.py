"""API keys: read from a file or the environment, never from arguments, never stored."""

from __future__ import annotations

import os
from pathlib import Path

from rift.errors import WrongUsage

VARIABLE = "RIFT_API_KEY"


def read(file: Path | None) -> tuple[str | None, str | None]:
    """(key, where it came from) from the file, else $RIFT_API_KEY; (None, None) without one.

    Raises WrongUsage when the file cannot be read, others than its owner can read it, or the key
    is not one ASCII word.
    """
    if file is None:
        key = os.environ.get(VARIABLE, "").strip()
        if key and not _is_word(key):
            raise WrongUsage(f"${VARIABLE}: expected one ASCII word")
        return (key, f"${VARIABLE}") if key else (None, None)
    try:
        if not file.is_file():
            raise WrongUsage(f"API key file {file}: not a file")
        if file.stat().st_mode & 0o077:
            raise WrongUsage(f"{file}: others can read this key; run: chmod 600 {file}")
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUsage(f"API key file {file}: {error}") from error
    if not _is_word(key):
        raise WrongUsage(f"API key file {file}: expected one line with one ASCII word")
    return key, str(file.absolute())


def read_again(source: str | None) -> str | None:
    """The key of a deployment from where it came from when it was deployed."""
    if source is None:
        return None
    if source.startswith("$"):
        return os.environ.get(source[1:], "").strip() or None
    return read(Path(source))[0]


def _is_word(key: str) -> bool:
    """Whether the key can stand in a header: RFC 6750 wants ASCII without blanks."""
    return key.isascii() and len(key.split()) == 1
