"""The suite's plots as SVG text: ratios and shares of the limit, problem by problem."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from rift_benchmarks.kernels.result import WAYS, Row
from rift_benchmarks.plots import COLOURS, svg

COLOUR = dict(zip(("ours", "eager", "inductor"), COLOURS, strict=False))
ROW_INCHES = 0.19
EDGES_INCHES = 0.9


def ratios(rows: Sequence[Row]) -> str:
    """The better of eager and Inductor over ours, on a scale where 2 and 1/2 are as far from 1."""
    shown = [r for r in rows if r.ratio is not None]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        places = range(len(shown))
        values = [r.ratio or 1.0 for r in shown]
        colours = [COLOURS[0] if v >= 1 else COLOURS[1] for v in values]
        axes.barh(places, [v - 1 for v in values], left=1, color=colours, height=0.7)
        axes.set_xscale("log")
        low, high = min([0.5, *values]), max([2.0, *values])
        axes.set_xlim(low / 1.15, high * 1.15)
        ticks = [
            t for t in (1 / 32, 1 / 16, 0.125, 0.25, 0.5, 1, 2, 4, 8, 16, 32) if low <= t <= high
        ]
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.set_xticks([], minor=True)
        axes.axvline(1, color="#333333", lw=0.8)
        axes.set_xlabel("times as fast as the better of eager and Inductor")
        axes.set_yticks(places, [r.problem for r in shown])
        axes.set_axisbelow(True)
        axes.set_ylim(len(shown) - 0.4, -0.6)

    return svg(7.8, EDGES_INCHES + ROW_INCHES * len(shown), draw)


def shares(rows: Sequence[Row]) -> str:
    """How much of the machine's limit each way reaches."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for way in WAYS:
            points = [(n, r.of_limit(way)) for n, r in enumerate(rows)]
            known = [(n, v * 100) for n, v in points if v is not None]
            marker = "o" if way == "ours" else "|"
            axes.plot(
                [v for _, v in known], [n for n, _ in known], marker, color=COLOUR[way],
                ms=5 if way == "ours" else 8, mew=1.6, label=way,
            )  # fmt: skip
        axes.axvline(100, color="#333333", lw=0.8)
        axes.set_xlim(left=0)
        axes.set_xlabel("% of the limit measured in this run")
        axes.set_yticks(range(len(rows)), [f"{r.problem} ({r.level})" for r in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        figure.legend(loc="outside upper right", ncols=3, frameon=False)

    return svg(7.8, EDGES_INCHES + 0.3 + ROW_INCHES * len(rows), draw)
