"""Load shapes and what is refused of them."""

from __future__ import annotations

from typing import Any

import pytest

from rift.errors import WrongUsage
from rift_benchmarks.profiles import PROFILES, STANDARD, Profile, choose


def chosen(name: str = "smoke", **asked: Any) -> Profile:
    options = {"input_tokens": None, "output_tokens": None, "concurrency": None, "requests": None}
    return choose(name, **{**options, **asked})


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("smoke", (512, 128)), ("1k1k", (1024,) * 2), ("4k4k", (4096,) * 2), ("8k8k", (8192,) * 2)],
)
def test_a_profiles_name_says_its_tokens(name: str, tokens: tuple[int, int]) -> None:
    profile = chosen(name)

    assert profile == PROFILES[name]
    assert (profile.input_tokens, profile.output_tokens) == tokens


def test_the_standard_is_8k8k() -> None:
    assert STANDARD == "8k8k"


@pytest.mark.parametrize("concurrency", [1, 3, 32])
def test_four_waves_are_sent_unless_said_otherwise(concurrency: int) -> None:
    assert chosen().requests_at(concurrency) == 4 * concurrency
    assert chosen(requests=50, concurrency="1").requests_at(concurrency) == 50


@pytest.mark.parametrize(
    ("asked", "tokens"),
    [
        ({"input_tokens": 7}, (7, 128)),
        ({"output_tokens": 2}, (512, 2)),
        ({"input_tokens": 1, "output_tokens": 9}, (1, 9)),
    ],
)
def test_other_tokens_make_it_custom(asked: dict[str, Any], tokens: tuple[int, int]) -> None:
    profile = chosen(**asked)

    assert profile.name == "custom"
    assert (profile.input_tokens, profile.output_tokens) == tokens


def test_another_concurrency_leaves_the_name() -> None:
    profile = chosen(concurrency="2, 16,1")

    assert (profile.name, profile.concurrencies) == ("smoke", (2, 16, 1))


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"name": "8K8K"}, "unknown profile '8K8K': expected one of smoke, 1k1k, 4k4k, 8k8k"),
        ({"concurrency": "two"}, "--concurrency 'two': expected numbers such as 1,2,4"),
        ({"concurrency": ""}, "--concurrency '': expected numbers such as 1,2,4"),
        ({"concurrency": "1,,2"}, "--concurrency '1,,2': expected numbers such as 1,2,4"),
        ({"concurrency": "1.5"}, "--concurrency '1.5': expected numbers such as 1,2,4"),
        ({"concurrency": "1,4,1"}, "--concurrency '1,4,1': a number stands there twice"),
        ({"concurrency": "0"}, "--concurrency 0: expected at least 1"),
        ({"concurrency": "1,-4"}, "--concurrency -4: expected at least 1"),
        (
            {"concurrency": "1,8", "requests": 7},
            "--requests 7: with concurrency 8 that many requests never are in flight; "
            "give at least 8, better 32",
        ),
        ({"input_tokens": 0}, "--input-tokens 0: expected at least 1"),
        (
            {"output_tokens": 1},
            "--output-tokens 1: expected at least 2 (one token has no time per output token)",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongUsage) as refused:
        chosen(**asked)

    assert str(refused.value) == message
