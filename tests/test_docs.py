"""The documentation says what is so: links lead somewhere, commands and options exist."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
import typer.main

from rift.cli import COMMANDS
from rift_benchmarks.result import Level

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """(page, command) of every `rift ...` in a code block or in backticks."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line for block in FENCE.findall(text) for line in block.splitlines()]
        lines += re.findall(r"`(rift [a-z][^`]*)`", FENCE.sub("", text))
        for line in lines:
            command = line.removeprefix("$ ").removeprefix(".venv/bin/").partition(" # ")[0].strip()
            if command.startswith("rift "):
                found.append((page.name, command.replace("...", "")))
    return found


@pytest.mark.parametrize(("page", "command"), commands())
def test_commands_and_options_exist(page: str, command: str) -> None:
    words = shlex.split(command.replace("[", " ").replace("]", " ").replace("|", " "))[1:]
    if words[0].startswith("-"):
        return
    assert words[0] in COMMANDS, f"{page}: no command {words[0]}"

    group = typer.main.get_command(import_module(COMMANDS[words[0]][0]).app)
    subcommands = getattr(group, "commands", None)
    if subcommands is not None:
        named = [w.strip(",") for w in words[1:2] if not w.startswith("-")]
        assert not named or named[0] in subcommands, f"{page}: no {command!r}"
        known = [subcommands[named[0]]] if named else []
    else:
        known = [group]
    options = {option for one in known for parameter in one.params for option in parameter.opts}
    asked = {word.partition("=")[0] for word in words if word.startswith("--")}
    assert asked <= options | {"--help"}, f"{page}: {command!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", text)

    assert [t for t in targets if not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_placeholder_is_left(page: Path) -> None:
    assert re.findall(r"@[A-Z0-9]+@|TODO|TBD", page.read_text(encoding="utf-8")) == []


def test_every_figure_is_defined() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")

    undefined = {field.name for field in fields(Level) if f"`{field.name}`" not in text}

    assert undefined <= {"concurrency", "requests", "first_failure", "cost"}
