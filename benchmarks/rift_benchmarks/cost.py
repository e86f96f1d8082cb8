"""The price of a machine and of a million tokens."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rift.errors import WrongUsage
from rift_benchmarks.result import Cost, Price, Throughput

SHIPPED = Path(__file__).with_name("prices.toml")
MOST_PER_HOUR = 1e9  # in any currency; more is a slip of the keyboard
HOW_TO = (
    "no price given: add --price-per-hour 0.50, or --price ENTRY of a price file "
    "(`--price list` shows the entries)"
)


class Entry(BaseModel):
    """One table of a price file: what `gpus` GPUs of a kind cost an hour, and who says so."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    gpu: str
    gpus: int = Field(ge=1)
    price_per_hour: float = Field(gt=0, le=MOST_PER_HOUR)
    currency: str = Field(pattern="^[A-Z]{3}$")
    provider: str
    date: str
    source: str


@dataclass(frozen=True)
class Asked:
    """What the user said of the price."""

    per_hour: float | None = None
    currency: str | None = None
    entry: str | None = None
    file: Path | None = None


def entries(file: Path | None) -> dict[str, Entry]:
    """Read a price file (TOML; default: the shipped one). Raises WrongUsage with every problem."""
    path = file or SHIPPED
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return TypeAdapter(dict[str, Entry]).validate_python(data)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise WrongUsage(f"price file {path}: {error}") from error
    except ValidationError as error:
        lines = [f"  {'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise WrongUsage(f"price file {path}:\n" + "\n".join(lines)) from error


def price(asked: Asked) -> Price | None:
    """The price to use, or None when the user gave none.

    Raises WrongUsage for a price that is not a positive number, or two prices at once.
    """
    if asked.per_hour is not None and asked.entry is not None:
        raise WrongUsage("--price-per-hour and --price: give one of them")
    if asked.currency is not None and asked.per_hour is None:
        raise WrongUsage("--currency goes with --price-per-hour; an entry has its own")
    if asked.file is not None and asked.entry is None:
        raise WrongUsage("--price-file goes with --price ENTRY")
    if asked.per_hour is not None:
        if not 0 < asked.per_hour <= MOST_PER_HOUR:
            raise WrongUsage(
                f"--price-per-hour {asked.per_hour}: expected above 0, up to {MOST_PER_HOUR:g}"
            )
        currency = (asked.currency or "USD").upper()
        if not re.fullmatch("[A-Z]{3}", currency):
            raise WrongUsage(f"--currency {asked.currency!r}: expected a code such as USD or EUR")
        today = datetime.now(UTC).date().isoformat()
        return Price(asked.per_hour, currency, "the user", today, "--price-per-hour")
    if asked.entry is None:
        return None
    known = entries(asked.file)
    if asked.entry not in known:
        raise WrongUsage(
            f"--price {asked.entry!r}: no such entry in {asked.file or SHIPPED.name}; "
            f"there are: {', '.join(known)}"
        )
    entry = known[asked.entry]
    return Price(entry.price_per_hour, entry.currency, entry.provider, entry.date, entry.source)


def per_million(price: Price | None, rate: Throughput | None) -> Cost | None:
    """Price of a million answer tokens, and of a million prompt + answer tokens.

    Each charges the whole machine to its tokens, so the two must not be added.
    """
    if price is None or rate is None or rate.output_tokens_per_s <= 0:
        return None
    per_second = price.per_hour / 3600
    return Cost(
        output_per_million=per_second / rate.output_tokens_per_s * 1e6,
        total_per_million=per_second / rate.total_tokens_per_s * 1e6,
    )
