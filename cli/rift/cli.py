"""`rift`: a table of commands, each imported when it is used."""

from __future__ import annotations

import importlib
import io
import signal
import sys
from typing import NoReturn

import typer

from rift import __version__
from rift.errors import RiftError

# name: (module with a Typer `app`, help)
COMMANDS = {
    "host": ("rift.commands.host", "Servers that Rift knows: add, list, remove, facts."),
    "gpu": ("rift.commands.gpu", "Cards of a server: list, show, health."),
    "provision": (
        "rift.commands.provision",
        "Turn servers into hosts for GPU VMs: check, plan, apply, undo.",
    ),
    "deploy": (
        "rift.commands.deploy",
        "Serve models: model, list, show, logs, stop, recipes, engine.",
    ),
    "bench": ("rift.commands.bench", "Measure throughput, latency and cost per token."),
    "compile": (
        "rift.commands.compile",
        "Compile PyTorch to fused kernels, print any stage, check it.",
    ),
    "tune": (
        "rift.commands.tune",
        "Measure our kernels against torch's, and show which one runs where.",
    ),
    "emulate": (
        "rift.commands.emulate",
        "Run and check a CUDA kernel with no GPU: PTX, CUDA C++ or Triton.",
    ),
    "runs": ("rift.commands.runs", "Look at benchmark runs: list, show."),
    "doctor": ("rift.commands.doctor", "Say what this machine can do and what is missing."),
}
# What a part imports only with an extra: module -> extra.
EXTRA_OF = {
    **dict.fromkeys(("gguf", "ml_dtypes", "safetensors", "tokenizers"), "serve-cpu"),
    **dict.fromkeys(("torch", "sympy", "cuda"), "compiler"),
    "triton": "triton",
    **dict.fromkeys(("fabric", "paramiko", "ansible_runner"), "provision"),
    **dict.fromkeys(("httptools", "uvloop", "numpy", "matplotlib", "jinja2"), "bench"),
}
INTERRUPTED = 130  # 128 + SIGINT, as shells report it


def main(argv: list[str] | None = None) -> NoReturn:
    """Run one command and exit with its code."""
    args = sys.argv[1:] if argv is None else argv
    _prepare()
    try:
        if args and args[0] in COMMANDS:
            app = importlib.import_module(COMMANDS[args[0]][0]).app
            app(args=args[1:], prog_name=f"rift {args[0]}")
        else:
            _root()(args=args or ["--help"], prog_name="rift")
    except RiftError as error:
        print(f"rift: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        if error.name not in EXTRA_OF:
            raise
        extra = EXTRA_OF[error.name]
        print(
            f"rift: this needs the package {error.name}: pip install 'rift-toolkit[{extra}]'",
            file=sys.stderr,
        )
        sys.exit(1)
    except OSError as error:
        print(f"rift: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("rift: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
    sys.exit(0)


def _prepare() -> None:
    """Set up what every command relies on: its output and its end."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no failure
    for sign in (signal.SIGTERM, signal.SIGHUP):  # clean up as for Ctrl-C
        if signal.getsignal(sign) is not signal.SIG_IGN:  # as under nohup
            signal.signal(sign, _interrupt)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _root() -> typer.Typer:
    """The list of commands: answers --help, --version and unknown names, imports no part."""
    root = typer.Typer(
        add_completion=False, rich_markup_mode=None, help="GPU servers into priced tokens."
    )

    @root.callback(invoke_without_command=True)
    def options(version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
        if version:
            print(f"rift {__version__}")

    for name, (_, text) in COMMANDS.items():
        root.command(name, help=text)(lambda: None)
    return root
