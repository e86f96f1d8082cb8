"""The report page and the terminal table: nothing from outside runs, leaks or breaks the layout."""

from __future__ import annotations

import io
import re
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from rift import cli
from rift_benchmarks import plots, report, run_directory
from rift_benchmarks.result import Cost, Distribution, Level, Price, Result, Throughput
from rift_benchmarks.run_directory import Run

CHROMIUM = Path("/usr/bin/chromium")
EVIL = """<script>alert(1)</script>&"'"""
EVIL_FAILURE = "</div><img src=http://evil.example onerror=alert(2)>"
PRICE = Price(12345.67, "USD", EVIL, "2026-01-01", "<b>S</b>")
NOTHING = Distribution(0, None, None, None, None, None, None)


@dataclass
class Page(HTMLParser):
    """What a browser would make of a page: its tags, its links, its text."""

    tags: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    text: str = ""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        linking = [value or "" for name, value in attrs if name.split(":")[-1] in ("src", "href")]
        self.links += linking
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    return page


@pytest.fixture(scope="module")
def run(mock_engine: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two concurrencies against a server whose model has an evil name."""
    url = mock_engine("--name", EVIL, "--ttft-ms", "20", "--gap-ms", "4", "--fail-every", "9")
    size = ["--input-tokens", "16", "--output-tokens", "12", "--concurrency", "1,4"]
    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIFT_HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("RIFT_API_KEY", raising=False)
        with pytest.raises(SystemExit):
            cli.main(["bench", "--endpoint", url, "--profile", "smoke", *size])
        (found,) = run_directory.listed()
    signal.signal(signal.SIGTERM, before)
    return found


@pytest.fixture
def result(run: Run) -> Result:
    found = run.read_result()
    assert found is not None
    assert found.status == "complete"
    return found


def with_level(result: Result, **change: object) -> Result:
    """The result with its last level changed."""
    last = replace(result.levels[-1], **change)  # type: ignore[arg-type]
    return replace(result, levels=[*result.levels[:-1], last])


def unmeasured(level: Level) -> Level:
    """The level as it is when every request of it has failed."""
    return replace(
        level,
        completed=0,
        failed=level.requests,
        failures={"http 500": level.requests},
        first_failure="HTTP 500: gone",
        steady=None,
        whole=None,
        little_bound_output_tokens_per_s=None,
        ttft_s=NOTHING,
        ttft_from_schedule_s=NOTHING,
        tpot_s=NOTHING,
        gap_s=NOTHING,
        e2e_s=NOTHING,
        cost=None,
    )


def test_nothing_from_outside_becomes_markup(run: Run, result: Result) -> None:
    bad = with_level(
        replace(result, price=PRICE, notes=[EVIL_FAILURE]),
        failures={EVIL: 2},
        first_failure=EVIL_FAILURE,
    )

    html = report.page(run, bad)

    page = parsed(html)
    assert "<script" not in html
    assert "<img" not in html
    assert not {"script", "img", "b", "iframe", "link", "object"} & set(page.tags)
    assert page.text.count(EVIL_FAILURE) == 2
    assert EVIL in page.text
    assert "<b>S</b>" in page.text


def test_the_page_needs_nothing_from_elsewhere(run: Run, result: Result) -> None:
    html = report.page(run, result)

    page = parsed(html)
    assert all(link.startswith("#") for link in page.links)
    assert not re.search(r"url\((?!#)|@import", html)
    assert "default-src 'none'" in html


def test_there_is_one_picture_a_plot(run: Run, result: Result) -> None:
    page = parsed(report.page(run, result))

    assert page.tags.count("svg") == page.tags.count("figure") == 2 + len(result.levels)
    for words in ("output tokens/s", "time to first token, s", "in flight", "c=4"):
        assert words in page.text


def test_the_page_says_what_the_document_says(run: Run, result: Result) -> None:
    text = parsed(report.page(run, result)).text

    assert result.levels[1].steady is not None
    assert f"{result.levels[1].steady.output_tokens_per_s:,.1f}" in text
    for level in result.levels:
        assert f"{level.failed} of {level.requests}" in text
    assert "No price given: add --price-per-hour 0.50, or --price ENTRY" in text


def test_the_written_page_is_that_of_the_result(run: Run, result: Result) -> None:
    assert run.report.read_text(encoding="utf-8") == report.page(run, result)


def test_a_level_without_a_good_request_is_a_row_of_dashes(run: Run, result: Result) -> None:
    first, second = result.levels

    some = parsed(report.page(run, replace(result, levels=[first, unmeasured(second)])))
    none = parsed(report.page(run, replace(result, levels=[unmeasured(first)])))

    assert some.tags.count("svg") == 3
    assert none.tags.count("svg") == 0
    assert "HTTP 500: gone" in none.text
    assert none.text.count(report.DASH) >= 6


def test_an_interrupted_run_says_so(run: Run, result: Result) -> None:
    text = parsed(report.page(run, replace(result, status="interrupted", levels=[]))).text

    assert "This run was interrupted" in text


def test_failed_requests_are_in_flight_and_deliver_nothing(run: Run, result: Result) -> None:
    records = [r for r in run.read_records() if r.phase == "measure" and r.concurrency == 4]
    good = [r for r in records if r.error is None]
    bad = [replace(r, output_tokens=12) for r in records if r.error is not None]

    with_chunks = plots.timeline([*good, *bad], 4)
    without = plots.timeline([*good, *(replace(r, chunks_s=()) for r in bad)], 4)

    assert bad
    assert with_chunks == without != plots.timeline(good, 4)
    assert plots.timeline(records, 4) in report.page(run, result)


def published(level: Level, n: int, out: float, total: float, *latencies: float) -> Level:
    """The level with figures of a published run: median and p99 of TTFT and TPOT in seconds."""
    ttft, ttft_p99, tpot, tpot_p99 = latencies
    return replace(
        level,
        concurrency=n,
        requests=1200,
        failed=191,
        steady=Throughput(99.0, out, total),
        ttft_s=replace(NOTHING, median=ttft, p99=ttft_p99),
        tpot_s=replace(NOTHING, median=tpot, p99=tpot_p99),
        cost=Cost(3.44, 1.72),
    )


@pytest.mark.parametrize("price", [None, PRICE], ids=["no price", "priced"])
def test_the_table_fits_80_columns(price: Price | None, result: Result) -> None:
    """Deplodock's largest rates (8x H200, GLM-4.5-Air) and its longest waits (Llama-3.3-70B)."""
    one, two = result.levels
    fast = published(one, 2048, 14570.99, 29123.82, 14.38, 97.75, 0.07775, 0.08857)
    slow = published(two, 400, 516.09, 1030.78, 541.79, 632.34, 0.179, 0.3184)
    console = Console(width=80, record=True, file=io.StringIO())

    report.print_table(replace(result, price=price, levels=[fast, slow]), console)

    text = console.export_text()
    rows = [line.split() for line in text.splitlines()]
    cost = ["3.44", "1.72"] if price else []
    assert max(map(cell_len, text.splitlines())) <= 80
    for figures in (
        ["2048", "14,571.0", "29,123.8", "14,380", "97,750", "77.8", "88.6"],
        ["400", "516.1", "1,030.8", "541,790", "632,340", "179", "318"],
    ):
        assert [*figures, "191/1200", *cost] in rows


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.00123, "0.00123"), (0.26, "0.260"), (1.314, "1.31"), (44.0, "44.0"), (1234.5, "1,234")],
)
def test_money_keeps_three_digits(value: float, shown: str) -> None:
    assert report.money(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0042, "4.2"), (0.0863, "86.3"), (1.29, "1,290"), (541.79, "541,790")]
)
def test_milliseconds_of_what_a_token_takes_keep_a_decimal(seconds: float, shown: str) -> None:
    assert report.millis(seconds) == shown


def test_a_figure_too_wide_for_the_table_is_folded_and_not_cut(result: Result) -> None:
    huge = with_level(
        replace(result, price=PRICE),
        steady=Throughput(99.0, 123456789.0, 987654321.0),
        cost=Cost(11111111.0, 22222222.0),
    )
    console = Console(width=80, record=True, file=io.StringIO())

    report.print_table(huge, console)

    text = console.export_text()
    assert max(map(cell_len, text.splitlines())) <= 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert text.count("1") >= 8
    assert text.count("2") >= 8


def test_the_table_moves_no_cursor_and_reads_no_markup(result: Result) -> None:
    bad = with_level(
        replace(result, model="a\x1b[2J\x9b2Jb[red]c", notes=["\x1b]0;title\x07[bold]n"]),
        failed=1,
        first_failure="\r\x1b[1A[/]gone",
    )
    console = Console(width=80, force_terminal=True, color_system=None, file=io.StringIO())

    report.print_table(bad, console)

    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    for words in ("[2J", "b[red]c", "[bold]n", "[/]gone"):
        assert words in text


@pytest.mark.parametrize(
    ("value", "digits", "scale", "text"),
    [
        (None, 2, 1.0, report.DASH),
        (0.0, 1, 1.0, "0.0"),
        (1234.567, 1, 1.0, "1,234.6"),
        (0.0123, 1, 1e3, "12.3"),
    ],
)
def test_an_unknown_figure_is_a_dash_and_not_zero(
    value: float | None, digits: int, scale: float, text: str
) -> None:
    assert report.number(value, digits, scale) == text


@pytest.mark.chromium
@pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}")
def test_a_browser_shows_the_plots(run: Run, tmp_path: Path) -> None:
    picture = tmp_path / "report.png"
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--hide-scrollbars --window-size=1100,2600"
    )

    subprocess.run(
        [
            str(CHROMIUM),
            *flags.split(),
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--screenshot={picture}",
            run.report.as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )

    pixels = matplotlib.image.imread(picture)[..., :3]
    wanted = np.array([int(plots.COLOURS[0][i : i + 2], 16) / 255 for i in (1, 3, 5)])
    like = np.abs(pixels - wanted).max(axis=-1) < 0.1
    assert pixels.shape[:2] == (2600, 1100)
    assert like.sum() > 500
