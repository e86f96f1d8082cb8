"""`rift bench`: measure throughput, latency and cost per token; or kernels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rift.errors import WrongUsage
from rift.terminal import Status, listing, out, print_json, say
from rift_benchmarks import cost, profiles
from rift_benchmarks.profiles import Profile

app = typer.Typer(add_completion=False)
SUITES = ("llm", "kernels", "emulator")
KERNELS_ONLY = ("device", "threads", "only", "quick", "allocators")
BOTH = ("suite", "as_json", "dry_run")


@app.command(no_args_is_help=True)
def bench(
    context: typer.Context,
    suite: Annotated[
        str,
        typer.Option(help="What to measure: llm (a server), kernels (the compiler's), emulator."),
    ] = "llm",
    endpoint: Annotated[
        str | None, typer.Option(help="URL of an OpenAI-compatible server, or a deployment's name.")
    ] = None,
    deploy: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Deploy this model, measure it, stop it.")
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="With --deploy: the recipe.")] = None,
    profile: Annotated[
        str, typer.Option(help=f"Load shape: {', '.join(profiles.PROFILES)}.")
    ] = profiles.STANDARD,
    input_tokens: Annotated[
        int | None, typer.Option(help="Tokens in per request, instead of the profile's.")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option(help="Tokens out per request, instead of the profile's.")
    ] = None,
    concurrency: Annotated[
        str | None, typer.Option(help="Requests in flight, such as 1,2,4.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option(help="Requests at each concurrency (default: 4 waves).", min=1)
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model name, where the server has several.")
    ] = None,
    price_per_hour: Annotated[
        float | None, typer.Option(help="What the machine costs an hour.")
    ] = None,
    currency: Annotated[
        str | None, typer.Option(help="Of --price-per-hour (default: USD).")
    ] = None,
    price: Annotated[
        str | None, typer.Option(help="An entry of the price file; `list` shows them.")
    ] = None,
    price_file: Annotated[
        Path | None, typer.Option(help="TOML like the shipped one (default: shipped).")
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the API key (default: $RIFT_API_KEY if set).")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds one request may take.", min=0.1)] = 3600.0,
    device: Annotated[str, typer.Option(help="kernels: where they run; cpu.")] = "cpu",
    threads: Annotated[
        str | None, typer.Option(help="kernels: numbers of threads, 1,2 (default: 1 and all).")
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="kernels: some groups of problems, matmul,softmax.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="kernels: few problems, short samples.")
    ] = False,
    allocators: Annotated[
        str, typer.Option(help="kernels: some of default,kept,tcmalloc.")
    ] = "default,kept",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be sent or measured; do nothing.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result document on stdout.")
    ] = False,
) -> None:
    """Load a server: tokens per second, latency and cost at each concurrency. Or measure kernels.

    Every request has exactly the profile's tokens in and out.

    No prompt shares a prefix with another. Exit code 1 when a request failed.

    --suite kernels: the compiler's kernels against torch's and Inductor's, on this machine.
    """
    if suite not in SUITES:
        raise WrongUsage(f"unknown suite {suite!r}: expected one of {', '.join(SUITES)}")
    if suite == "emulator":
        from rift.commands import bench_emulator

        return bench_emulator.run(context, dry_run, as_json)
    _refuse_others(context, suite)
    if suite == "kernels":
        from rift.commands import bench_kernels

        asked = bench_kernels.Asked(device, threads, only, quick, allocators)
        return bench_kernels.run(asked, dry_run, as_json)
    if price == "list":
        return _print_prices(cost.entries(price_file), as_json)
    if (endpoint is None) == (deploy is None):
        raise WrongUsage("give either --endpoint URL|NAME or --deploy MODEL")
    if recipe is not None and deploy is None:
        raise WrongUsage("--recipe goes with --deploy; a running server has its recipe already")
    shape = profiles.choose(profile, input_tokens, output_tokens, concurrency, requests)
    priced = cost.price(cost.Asked(price_per_hour, currency, price, price_file))

    from rift_benchmarks import bench_llm  # imports matplotlib: only when it is certain to be used

    job = bench_llm.Job(endpoint, deploy, recipe, model, shape, priced, api_key_file, timeout)
    if dry_run:
        return _print_plan(job.profile, endpoint or f"a deployment of {deploy}", as_json)
    with Status() as status:
        run, result = bench_llm.execute(job, say, status.show)
    if as_json:
        print(run.result.read_text(encoding="utf-8"), end="")
    else:
        from rift_benchmarks.report import print_table

        print_table(result, out)
    say(f"run {run.id}; report: {run.report}")
    if result.failed:
        say(f"rift: {result.failed} requests failed; see {run.requests}")
        raise typer.Exit(1)


def _refuse_others(context: typer.Context, suite: str) -> None:
    """Raise WrongUsage for an option that was given and that only another suite has."""
    given = [n for n in context.params if _was_given(context, n)]
    wrong = [n for n in given if n not in BOTH and (n in KERNELS_ONLY) != (suite == "kernels")]
    if wrong:
        options = ", ".join(f"--{n.replace('_', '-')}" for n in wrong)
        other = next(s for s in SUITES if s != suite)
        raise WrongUsage(f"{options}: for --suite {other}, got --suite {suite}")


def _was_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _print_plan(profile: Profile, where: str, as_json: bool) -> None:
    if as_json:
        return print_json({"endpoint": where, **asdict(profile)})
    shape = f"{profile.input_tokens} in + {profile.output_tokens} out tokens"
    out.print(f"to {where}: requests of {shape} each", markup=False)
    for concurrency in profile.concurrencies:
        number = profile.requests_at(concurrency)
        out.print(f"  concurrency {concurrency}: {concurrency} to warm up, {number} measured")


def _print_prices(entries: dict[str, cost.Entry], as_json: bool) -> None:
    if as_json:
        return print_json({name: entry.model_dump() for name, entry in entries.items()})
    table = listing("ENTRY", "GPUS", "PER HOUR", "PROVIDER")
    for name, entry in entries.items():
        cells = (f"{entry.gpus} x {entry.gpu}", f"{entry.price_per_hour} {entry.currency}")
        table.add_row(name, *cells, entry.provider)
    out.print(table)
