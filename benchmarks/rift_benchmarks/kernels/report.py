"""A run of the kernels suite as one self-contained HTML page."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import jinja2

from rift_benchmarks.kernels import plots, tables
from rift_benchmarks.kernels.limits import PATTERNS
from rift_benchmarks.kernels.result import WAYS, Result
from rift_benchmarks.run_directory import Run


def page(run: Run, result: Result) -> str:
    """The report. Everything that came from outside is escaped; plots hold names of ours only."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"ms": tables.millis, "percent": tables.percent, "ratio": tables.ratio}
    manifest: dict[str, Any] = json.loads(run.manifest.read_text(encoding="utf-8"))
    return environment.get_template("report.html.j2").render(
        result=result,
        manifest=manifest,
        command=shlex.join(manifest["command"]),
        ways=WAYS,
        patterns=PATTERNS,
        groups=[
            {
                "allocator": allocator,
                "threads": threads,
                "rows": rows,
                "ratios": plots.ratios(rows) if any(r.ratio for r in rows) else None,
                "shares": plots.shares(rows),
            }
            for (allocator, threads), rows in tables.groups(result)
        ],
        refusals=tables.refusals(result),
        summary=tables.summary(result),
    )
