"""`rift deploy`: serve models on this machine."""

from __future__ import annotations

import shlex
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rift.terminal import Status, listing, out, print_json, printable, say
from rift_serving import deployment as deployments
from rift_serving import engine_env, local
from rift_serving.recipes import load, shipped

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Serve models on this machine with vLLM."
)
SHOWN = (
    *("name", "state", "model", "url", "context_length", "kv_cache_tokens", "created"),
    *("ready_seconds", "key_source", "log"),
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Name = Annotated[str, typer.Argument(help="The deployment's name; see rift deploy list.")]


@app.command()
def model(
    model: Annotated[
        str, typer.Argument(help="smollm2-135m, a model directory, or a hub id ORG/NAME.")
    ],
    is_local: Annotated[
        bool, typer.Option("--local", help="On this machine (the only place so far).")
    ] = False,
    recipe: Annotated[
        str | None, typer.Option(help="A YAML file, or a name of rift deploy recipes.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The deployment's name (default: MODEL).")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="(default: a free one)", min=1, max=65535)
    ] = None,
    bind: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    context: Annotated[
        int | None, typer.Option(help="Context length in tokens, instead of the recipe's.", min=1)
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="File with the API key (default: $RIFT_API_KEY if set).")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until it serves.", min=1)] = 900.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command and environment; start nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start an engine in the background and return once it serves."""
    asked = local.Request(model, recipe, name, port, bind, context, api_key_file)
    launch = local.plan(asked, say, dry_run)
    for note in launch.notes:
        say(f"note: {note}")
    if dry_run:
        has_key = local.has_key(asked)
        if as_json:
            return print_json({"command": launch.argv, "environment": launch.environment})
        return out.print(launch.shell(has_key), markup=False, soft_wrap=True)
    with Status() as status:
        made = deployments.deploy(launch, api_key_file, timeout, status.show)
    if as_json:
        return print_json(asdict(made))
    say(f"{made.name} serves {made.model} at {made.url} after {made.ready_seconds} s")
    say(f"measure it with: rift bench --suite llm --endpoint {made.name} --profile smoke")


@app.command(name="engine")
def engine(
    device: Annotated[
        str | None, typer.Option(help="cpu or cuda (default: what this machine has).")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the first commands; install nothing.")
    ] = False,
) -> None:
    """Install the serving engine for this machine into an environment of its own."""
    build = engine_env.build_for(device)
    prefix = engine_env.default_prefix(build)
    if dry_run:
        for command in engine_env.commands(build, prefix):
            out.print(shlex.join(command), markup=False, soft_wrap=True)
        return
    engine_env.install(build, prefix, say)


@app.command(name="list")
def list_(as_json: Json = False) -> None:
    """Every deployment and what it is doing now."""
    rows = [(row, row.state()) for row in deployments.listed()]
    if as_json:
        return print_json([{**asdict(row), "state": state} for row, state in rows])
    if not rows:
        return say("no deployments; make one with: rift deploy model smollm2-135m")
    table = listing("NAME", "STATE", "MODEL", "URL", "CONTEXT", "SINCE")
    for row, state in rows:
        context = str(row.context_length or "")
        since = row.created[:16].replace("T", " ")
        cells = (row.name, state, row.model, row.url, context, since)
        table.add_row(*(escape(printable(cell)) for cell in cells))
    out.print(table)
    if any(state in ("exited", "abandoned") for _, state in rows):
        say("exited, abandoned: see rift deploy logs NAME; rift deploy stop NAME clears it away")


@app.command()
def show(name: Name, as_json: Json = False) -> None:
    """All that is known of one deployment."""
    row = deployments.get(name)
    facts = {**asdict(row), "state": row.state()}
    if as_json:
        return print_json(facts)
    lines = {key: facts[key] for key in SHOWN if facts[key] is not None}
    lines["recipe"] = row.recipe["name"]
    lines["pid"] = row.engine.pid if row.engine else "none"
    pairs = [f"{k}={shlex.quote(v)}" for k, v in row.environment.items()]
    lines["command"] = " ".join([*pairs, shlex.join(row.command)])
    for note in row.notes:
        say(f"note: {note}")
    for key, value in lines.items():
        out.print(f"{key:16} {printable(str(value))}", markup=False, soft_wrap=True)


@app.command()
def logs(
    name: Name,
    lines: Annotated[int, typer.Option("--lines", "-n", help="How many lines.", min=1)] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it grows.")] = False,
) -> None:
    """The engine's own log."""
    log, row = deployments.log_of(name), deployments.find(name)
    with log.open(encoding="utf-8", errors="replace") as file:
        for line in file.readlines()[-lines:]:
            print(line, end="")
        running = follow
        while running:
            running = bool(row and row.engine and row.engine.is_alive)
            print(file.read(), end="", flush=True)
            time.sleep(0.5 if running else 0)


@app.command()
def stop(name: Name) -> None:
    """End a deployment and forget it."""
    deployments.stop(name)
    say(f"{name} stopped")


@app.command()
def recipes(as_json: Json = False) -> None:
    """The recipes that ship with Rift."""
    found = [load(name).recipe for name in shipped()]
    if as_json:
        return print_json([recipe.model_dump(mode="json", by_alias=True) for recipe in found])
    table = listing("RECIPE", "MODEL", "HARDWARE")
    for recipe in found:
        hardware = recipe.hardware
        where = f"{hardware.gpu_count} x {hardware.gpu}" if hardware.gpu else hardware.device
        table.add_row(recipe.name, recipe.model, where)
    out.print(table)
