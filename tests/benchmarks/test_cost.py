"""Prices per token against published ones, and which prices are refused."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from rift.errors import WrongUsage
from rift_benchmarks import cost
from rift_benchmarks.cost import Asked
from rift_benchmarks.result import Price, Throughput

ENTRY = """[a]
gpu = "X"
gpus = 1
price_per_hour = 1.5
currency = "USD"
provider = "P"
date = "2026-01-01"
source = "S"
"""
# machine $/h, output and total tok/s, published $ per million tokens. Rates: deplodock's result
# files of 2025-10, 2025-11 and 2026-01; prices and cells: its articles' tables and xlsx reports.
PUBLISHED = {
    "1x 4090, Qwen3-Coder-30B": (0.39, 1131.16, 2259.13, 0.048),
    "4x 4090, Qwen3-Coder-30B": (4 * 0.39, 4457.53, 8902.50, 0.049),
    "1x 5090, Qwen3-Coder-30B": (0.65, 2288.09, 4569.74, 0.040),
    "2x 5090, Qwen3-Coder-30B": (2 * 0.65, 4211.51, 8411.16, 0.043),
    "4x 5090, Qwen3-Coder-30B": (4 * 0.65, 6380.98, 12743.99, 0.057),
    "1x PRO 6000, Qwen3-Coder-30B": (1.29, 4218.26, 8424.65, 0.043),
    "2x 4090, Llama-3.3-70B": (2 * 0.39, 233.95, 467.26, 0.464),
    "2x 5090, Llama-3.3-70B": (2 * 0.65, 615.91, 1230.14, 0.294),
    "1x PRO 6000, Llama-3.3-70B": (1.29, 516.09, 1030.78, 0.348),
    "4x 4090, GLM-4.5-Air": (4 * 0.39, 866.39, 1731.44, 0.250),
    "1x PRO 6000, GLM-4.5-Air": (1.29, 1585.63, 3168.82, 0.113),
    "1x H100, GLM-4.5-Air": (2.69, 1493.63, 2987.27, 0.250),
    "1x H200, GLM-4.5-Air": (3.39, 2796.75, 5589.55, 0.168),
    "8x PRO 6000, GLM-4.5-Air, 8k8k": (8 * 0.93, 1145.35, 2290.69, 0.902),
    "8x H100, GLM-4.5-Air, 8k8k": (8 * 1.91, 1278.01, 2556.03, 1.661),
    "8x B200, GLM-4.5-Air, 8k8k": (8 * 2.68, 4837.62, 9675.24, 0.616),
}


def per_hour(amount: float) -> Price:
    return Price(amount, "USD", "P", "2026-01-01", "S")


def price_file(folder: Path, text: str) -> Path:
    path = folder / "prices.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("usd", "out", "total", "cell"), PUBLISHED.values(), ids=list(PUBLISHED))
def test_published_prices_per_token(usd: float, out: float, total: float, cell: float) -> None:
    got = cost.per_million(per_hour(usd), Throughput(1.0, out, total))

    assert got is not None
    assert round(got.total_per_million, 3) == cell
    assert got.output_per_million == pytest.approx(got.total_per_million * total / out)


def test_no_price_or_no_rate_is_no_cost() -> None:
    assert cost.per_million(None, Throughput(1.0, 2.0, 3.0)) is None
    assert cost.per_million(per_hour(1.0), None) is None
    assert cost.per_million(per_hour(1.0), Throughput(1.0, 0.0, 0.0)) is None


def test_the_shipped_prices_are_dated_and_sourced() -> None:
    entries = cost.entries(None)

    assert entries["rtx-pro-6000-cloudrift-2025-10-08"].price_per_hour == 1.29
    for name, entry in entries.items():
        assert re.fullmatch(r"20\d\d-\d\d(-\d\d)?", entry.date), name
        assert name.endswith(entry.date), name
        assert entry.source, name


def test_an_entry_of_the_users_own_file(tmp_path: Path) -> None:
    got = cost.price(Asked(entry="a", file=price_file(tmp_path, ENTRY)))

    assert got == per_hour(1.5)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("gpus = 1", "gpus = 1\nper_month = 9", "a.per_month: Extra inputs are not permitted"),
        ("1.5", "-1.5", "a.price_per_hour: Input should be greater than 0"),
        ("1.5", "0", "a.price_per_hour: Input should be greater than 0"),
        ("1.5", "nan", "a.price_per_hour: Input should be"),
        ("1.5", "inf", "a.price_per_hour: Input should be less than or equal to"),
        ("gpus = 1", "gpus = 0", "a.gpus: Input should be greater than or equal to 1"),
        ('"USD"', '"dollars"', "a.currency: String should match pattern"),
        ('provider = "P"\n', "", "a.provider: Field required"),
        ("[a]", "[a", "Expected ']'"),
        (ENTRY, "a = 1.5", "a: Input should be a valid dictionary or instance of Entry"),
    ],
)
def test_bad_price_files_are_refused_with_path_and_place(
    old: str, new: str, problem: str, tmp_path: Path
) -> None:
    path = price_file(tmp_path, ENTRY.replace(old, new, 1))

    with pytest.raises(WrongUsage) as refused:
        cost.price(Asked(entry="a", file=path))

    assert str(refused.value).startswith(f"price file {path}:")
    assert problem in str(refused.value)


def test_every_problem_of_a_price_file_is_told_at_once(tmp_path: Path) -> None:
    text = ENTRY.replace("1.5", "-1.5").replace('"P"', "7") + ENTRY.replace("[a]", "[b]").replace(
        "gpus = 1\n", ""
    )

    with pytest.raises(WrongUsage) as refused:
        cost.entries(price_file(tmp_path, text))

    for place in ("a.price_per_hour", "a.provider", "b.gpus"):
        assert place in str(refused.value)


def test_a_price_file_that_cannot_be_read(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")

    for path in (binary, tmp_path, tmp_path / "none.toml"):
        with pytest.raises(WrongUsage, match=re.escape(f"price file {path}: ")):
            cost.entries(path)


@pytest.mark.parametrize("currency", ["usd", "EUR"])
def test_a_price_of_the_users_own(currency: str) -> None:
    got = cost.price(Asked(per_hour=0.5, currency=currency))

    assert got is not None
    assert (got.per_hour, got.currency) == (0.5, currency.upper())


def test_no_price_is_none() -> None:
    assert cost.price(Asked()) is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Asked(per_hour=1.0, entry="a"), "--price-per-hour and --price: give one of them"),
        (Asked(entry="moon"), "--price 'moon': no such entry in prices.toml; there are: rtx-4090-"),
        (Asked(per_hour=0.0), "--price-per-hour 0.0: expected above 0"),
        (Asked(per_hour=-1.0), "--price-per-hour -1.0: expected above 0"),
        (Asked(per_hour=math.inf), "--price-per-hour inf: expected above 0"),
        (Asked(per_hour=math.nan), "--price-per-hour nan: expected above 0"),
        (Asked(per_hour=1.0, currency="$"), "--currency '$': expected a code such as USD or EUR"),
        (Asked(per_hour=1.0, currency="[b]"), "--currency '[b]': expected a code"),
    ],
)
def test_prices_that_cannot_be(asked: Asked, message: str) -> None:
    with pytest.raises(WrongUsage, match=re.escape(message)):
        cost.price(asked)
