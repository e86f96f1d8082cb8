"""`rift bench --suite emulator`: how fast the PTX emulator is on this machine."""

from __future__ import annotations

from dataclasses import asdict

import typer

from rift.errors import WrongUsage
from rift.terminal import Status, listing, out, print_json

SIZE, DEPTH, REPEATS = 512, 1024, 3
OPTIONS = ("suite", "dry_run", "as_json")


def run(context: typer.Context, dry_run: bool, as_json: bool) -> None:
    """Measure, and print the table or JSON. Raises WrongUsage for options of other suites."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = [n for n, s in sources.items() if s is not None and s.name == "COMMANDLINE"]
    if wrong := [f"--{n.replace('_', '-')}" for n in given if n not in OPTIONS]:
        raise WrongUsage(f"{', '.join(wrong)}: not an option of --suite emulator")
    if dry_run:
        return print(f"a matmul of {SIZE} x {SIZE} x {DEPTH} halves, best of {REPEATS}")
    from rift_benchmarks.emulator import measure

    with Status() as status:
        speed = measure(SIZE, DEPTH, REPEATS, status.show)
    if as_json:
        return print_json(asdict(speed))
    table = listing("MATMUL", "PLAIN", "CHECKED", "EXACT", "BUILD")
    table.add_row(
        f"{speed.size} x {speed.size} x {speed.depth}",
        f"{speed.plain_gflops:.2f} GFLOP/s",
        f"{speed.checked_gflops:.2f} GFLOP/s",
        f"{speed.exact_gflops:.2f} GFLOP/s",
        f"{speed.plain_build_s:.1f} s, checked {speed.checked_build_s:.1f} s",
    )
    out.print(table)
    print("of one core, by processor time")
