"""A cache of directories that take long to make, each named after what it is made from."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import platformdirs

KEPT = 2  # of each stage: this checkout's, and one of another branch


def default_cache() -> Path:
    """$RIFT_HOME/cache/rig, or the user's cache directory."""
    home = os.environ.get("RIFT_HOME")
    root = Path(home).expanduser() / "cache" if home else platformdirs.user_cache_path("rift")
    return root.absolute() / "rig"


def stage(cache: Path, name: str, recipe: str, make: Callable[[Path], None]) -> Path:
    """The directory that `make` fills, made only if none of this name and recipe is there.

    It is filled under another name and moved when complete: whoever is interrupted, even by a power
    cut, leaves nothing that looks complete. Who comes second waits for the first.
    """
    done = cache / f"{name}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if done.is_dir():
        os.utime(done)
        return done
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{name}.lock"):
        if done.is_dir():
            return done
        for left in cache.glob(f".{name}-*"):  # by one who was killed: no other can be at work now
            shutil.rmtree(left)
        making = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache))
        try:
            make(making)
            making.rename(done)
        finally:
            shutil.rmtree(making, ignore_errors=True)
        old = sorted(cache.glob(f"{name}-*"), key=lambda path: path.stat().st_mtime)
        for path in old[:-KEPT]:
            shutil.rmtree(path, ignore_errors=True)
    return done


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
