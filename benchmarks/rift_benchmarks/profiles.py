"""Named load shapes of the llm suite: tokens in, tokens out, the concurrencies of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rift.errors import WrongUsage

# Fewer waves of requests than this mostly measure ramp-up and drain: over 230 published runs
# requests / concurrency of 4 reports 0.96 of the steady throughput, 2 as little as 0.65.
WAVES = 4


@dataclass(frozen=True)
class Profile:
    """Exactly this many tokens in and out per request; `requests` at each concurrency, or WAVES."""

    name: str
    input_tokens: int
    output_tokens: int
    concurrencies: tuple[int, ...]
    requests: int | None = None

    def requests_at(self, concurrency: int) -> int:
        """How many requests are measured at this concurrency."""
        return self.requests or WAVES * concurrency


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("smoke", 512, 128, (1, 4)),
        Profile("1k1k", 1024, 1024, (1, 8, 32)),
        Profile("4k4k", 4096, 4096, (1, 8, 32)),
        Profile("8k8k", 8192, 8192, (1, 8, 32)),
    )
}
STANDARD = "8k8k"


def choose(
    name: str,
    input_tokens: int | None,
    output_tokens: int | None,
    concurrency: str | None,
    requests: int | None,
) -> Profile:
    """The named profile with what the user set otherwise; then its name says `custom`.

    Raises WrongUsage for an unknown name or a number that cannot be.
    """
    if name not in PROFILES:
        raise WrongUsage(f"unknown profile {name!r}: expected one of {', '.join(PROFILES)}")
    profile = PROFILES[name]
    if input_tokens is not None or output_tokens is not None:
        profile = replace(
            profile,
            name="custom",
            input_tokens=profile.input_tokens if input_tokens is None else input_tokens,
            output_tokens=profile.output_tokens if output_tokens is None else output_tokens,
        )
    if concurrency is not None:
        profile = replace(profile, concurrencies=_numbers(concurrency))
    profile = replace(profile, requests=requests)
    _check(profile)
    return profile


def _numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError as error:
        raise WrongUsage(f"--concurrency {text!r}: expected numbers such as 1,2,4") from error
    if len(set(numbers)) != len(numbers):
        raise WrongUsage(f"--concurrency {text!r}: a number stands there twice")
    return numbers


def _check(profile: Profile) -> None:
    if profile.input_tokens < 1:
        raise WrongUsage(f"--input-tokens {profile.input_tokens}: expected at least 1")
    if profile.output_tokens < 2:
        raise WrongUsage(
            f"--output-tokens {profile.output_tokens}: expected at least 2 "
            "(one token has no time per output token)"
        )
    for concurrency in profile.concurrencies:
        if concurrency < 1:
            raise WrongUsage(f"--concurrency {concurrency}: expected at least 1")
        if profile.requests is not None and profile.requests < concurrency:
            raise WrongUsage(
                f"--requests {profile.requests}: with concurrency {concurrency} that many requests "
                f"never are in flight; give at least {concurrency}, better {WAVES * concurrency}"
            )
