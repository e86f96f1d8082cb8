"""The report's plots as SVG text, drawn from records and levels alone (no name from outside)."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rift_benchmarks import metrics
from rift_benchmarks.requests_log import Record
from rift_benchmarks.result import Level

COLOURS = ("#3b6fb6", "#c8553d", "#4f8f4f", "#8a5a9e", "#b08900", "#417b84")
BINS = 60
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rift",
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
}


def svg(width: float, height: float, draw: Callable[[Figure], None]) -> str:
    """An inline SVG: text stays text, ids are the same in every run."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    text = out.getvalue()
    return text[text.index("<svg") :]


def pareto(levels: Sequence[Level]) -> str:
    """Throughput against time per output token, one point a concurrency."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        points = [
            (level.tpot_s.median * 1e3, level.steady.output_tokens_per_s, level.concurrency)
            for level in levels
            if level.steady and level.tpot_s.median
        ]
        axes.plot([p[0] for p in points], [p[1] for p in points], "o-", color=COLOURS[0])
        for x, y, concurrency in points:
            axes.annotate(f"c={concurrency}", (x, y), xytext=(6, 4), textcoords="offset points")
        axes.set(xlabel="median time per output token, ms", ylabel="output tokens/s")
        axes.margins(0.15)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)

    return svg(7.4, 3.1, draw)


def latencies(records: Sequence[Record], concurrencies: Sequence[int]) -> str:
    """Every request's time to first token and time per output token, by concurrency."""

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _strip(left, records, concurrencies, lambda r: r.chunks_s[0] - r.sent_s)
        left.set_ylabel("time to first token, s")
        _strip(right, records, concurrencies, lambda r: metrics.tpot(r) * 1e3)
        right.set_ylabel("time per output token, ms")

    return svg(7.4, 3.1, draw)


def _strip(
    axes: Axes,
    records: Sequence[Record],
    concurrencies: Sequence[int],
    value: Callable[[Record], float],
) -> None:
    """One dot a request, spread sideways by its order so that equal values stay visible."""
    for place, concurrency in enumerate(concurrencies):
        values = [value(r) for r in records if r.concurrency == concurrency]
        if values:
            spread = np.linspace(-0.2, 0.2, len(values)) if len(values) > 1 else np.zeros(1)
            colour = COLOURS[place % len(COLOURS)]
            axes.plot(place + spread, values, "o", ms=4, alpha=0.6, color=colour)
            axes.hlines(float(np.median(values)), place - 0.3, place + 0.3, color=colour)
    axes.set_xticks(range(len(concurrencies)), [f"c={c}" for c in concurrencies])
    axes.set_xlim(-0.6, len(concurrencies) - 0.4)
    axes.set_ylim(bottom=0)


def timeline(records: Sequence[Record], concurrency: int) -> str:
    """Requests in flight (also those that failed) and output tokens/s over one level's time."""
    good = [r for r in records if r.error is None]

    def draw(figure: Figure) -> None:
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=[1, 1.6])
        steps = metrics.in_flight(records)
        top.step([s[0] for s in steps], [s[1] for s in steps], where="post", color=COLOURS[1])
        top.set(ylabel="in flight")
        top.set_ylim(bottom=0)
        end = max(r.done_s for r in records)
        stamps = np.array([at for r in good for at in r.chunks_s])
        weights = np.array([metrics.tokens_per_chunk(r) for r in good for _ in r.chunks_s])
        counts, edges = np.histogram(stamps, bins=BINS, range=(0, end), weights=weights)
        bottom.stairs(counts / np.diff(edges), edges, fill=True, color=COLOURS[0], alpha=0.7)
        window = metrics.steady_window(records, concurrency)
        if window:
            for axes in (top, bottom):
                axes.axvspan(*window, color="#4f8f4f", alpha=0.08, lw=0)
        bottom.set(ylabel="output tokens/s", xlabel="seconds (green: steady window)")

    return svg(7.4, 3.0, draw)
