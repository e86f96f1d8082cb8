"""How commands talk: data to stdout, talk to stderr, progress that suits a terminal or a log."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

LOG_EVERY_S = 15.0  # how often a long step shows a line where there is no terminal

out = Console(highlight=False, soft_wrap=False)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def printable(text: str) -> str:
    """One line of text from outside, control characters replaced: it moves no one's cursor."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def listing(key: str, *columns: str) -> Table:
    """An empty table of things; the first column holds their names, never broken over lines."""
    table = Table(box=None, pad_edge=False)
    table.add_column(key, no_wrap=True)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def say(text: str) -> None:
    """A line of talk, or several."""
    err.print(escape("\n".join(map(printable, text.split("\n")))))


def print_json(value: Any) -> None:
    """Data for programs: JSON alone on stdout."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    print()


class Status:
    """A line that changes in place on a terminal, and now and then a line elsewhere."""

    def __init__(self) -> None:
        self._status = err.status("") if err.is_terminal else None
        self._last = time.monotonic()

    def __enter__(self) -> Status:
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._status:
            self._status.update(escape(printable(text)[: err.width - 4]))
        elif time.monotonic() - self._last >= LOG_EVERY_S:
            self._last = time.monotonic()
            say(text)
