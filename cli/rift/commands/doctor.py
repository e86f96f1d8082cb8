"""`rift doctor`: what this machine can do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from rift import doctor
from rift.errors import ChangesNeeded
from rift.terminal import out, print_json

app = typer.Typer(add_completion=False)
MARKS = {"ok": "ok", "missing": "MISSING", "optional": "-"}


@app.command()
def examine(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Say what this machine can do and how to get what is missing.

    Exit code 3 when something is missing that serving and measuring on this machine need.
    """
    findings = doctor.examine()
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        table = Table(box=None, pad_edge=False, show_header=False)
        for _ in range(3):
            table.add_column(overflow="fold")
        for one in findings:
            text = escape(one.found + (f"\n{one.do}" if one.do else ""))
            table.add_row(MARKS[one.state], escape(one.what), text)
        out.print(table)
    missing = [finding.what for finding in findings if finding.state == "missing"]
    if missing:
        raise ChangesNeeded(
            f"missing here: {', '.join(missing)}; the lines above say how to get it"
        )
