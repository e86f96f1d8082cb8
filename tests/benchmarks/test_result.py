"""The result document: round trip, its committed JSON Schema, and no NaN."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter, ValidationError

from rift_benchmarks import result
from rift_benchmarks.result import Price, Result

COMMITTED = Path(__file__).parents[2] / "docs/llm-result.schema.json"
REGENERATE = (
    "the schema changed; if that is a new version, raise result.SCHEMA. Then run: python -c "
    "'import json; from rift_benchmarks.result import json_schema; "
    "print(json.dumps(json_schema(), indent=2))' > docs/llm-result.schema.json"
)
STEADY = settings(
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
PRICE = Price(0.5, "USD", "P", "2026-01-01", "S")
MINIMAL = Result(
    "rift.bench.llm/1", "r", "complete", "smoke", 512, 128, "m", "u", None, "t", PRICE, [], []
)


def finite(value: Any) -> Any:
    """The same data with 0 for every NaN and infinity."""
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [finite(one) for one in value]
    return 0.0 if isinstance(value, float) and not math.isfinite(value) else value


RESULTS = st.from_type(Result).map(
    lambda found: TypeAdapter(Result).validate_python(finite(asdict(found)))
)


def changed(**fields: Any) -> str:
    return json.dumps({**json.loads(result.to_json(MINIMAL)), **fields})


def test_the_committed_schema_is_the_documents() -> None:
    text = json.dumps(result.json_schema(), indent=2) + "\n"

    assert COMMITTED.read_text(encoding="utf-8") == text, REGENERATE


def test_the_committed_schema_is_a_json_schema_of_this_version() -> None:
    schema = json.loads(COMMITTED.read_text(encoding="utf-8"))

    Draft202012Validator.check_schema(schema)
    assert schema["$id"] == result.SCHEMA


@STEADY
@given(RESULTS)
def test_every_document_comes_back_and_is_of_the_schema(found: Result) -> None:
    text = result.to_json(found)

    assert result.from_json(text) == found
    Draft202012Validator(result.json_schema()).validate(json.loads(text))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_never_written(value: float) -> None:
    found = replace(MINIMAL, price=replace(PRICE, per_hour=value))

    with pytest.raises(ValueError, match="not JSON compliant"):
        result.to_json(found)


@pytest.mark.parametrize(
    "text",
    [
        changed(schema="rift.bench.llm/2"),
        changed(status="running"),
        changed(price={"per_hour": 1}),
        changed(levels=[{}]),
        "{}",
        "{",
    ],
)
def test_other_documents_are_not_read(text: str) -> None:
    with pytest.raises(ValidationError):
        result.from_json(text)
