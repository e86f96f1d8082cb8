"""`rift host`: the servers that Rift knows, and what they are."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from rift.errors import Blocked
from rift.terminal import listing, out, print_json, printable, say
from rift_provision import inventory, ssh
from rift_provision.gather import gather
from rift_provision.inventory import Host

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Servers that Rift knows, and what they are."
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
Name = Annotated[str, typer.Argument(help="What to call it; see rift host list.")]


@app.command()
def add(
    name: Name,
    address: Annotated[str, typer.Argument(help="Host name or IP address.")],
    port: Annotated[int, typer.Option(min=1, max=65535)] = inventory.SSH_PORT,
    user: Annotated[
        str | None, typer.Option(help="Whom to log in as: root, or who may sudo (default: you).")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="Private key file (default: SSH agent, ~/.ssh/id_*).")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(help="Refuse a host whose key is another: SHA256:...")
    ] = None,
    as_json: Json = False,
) -> None:
    """Remember a server and pin the SSH key that it shows now."""
    host_key = ssh.read_host_key(address, port)
    shown = ssh.fingerprint(host_key)
    if fingerprint not in (None, shown):
        raise Blocked(f"{address} port {port} shows the key {shown}, expected {fingerprint}")
    path = str(key.expanduser().absolute()) if key else None
    host = Host(name, address, port, user or getpass.getuser(), path, host_key)
    inventory.add(host)
    if as_json:
        return print_json(asdict(host))
    say(f"{name}: pinned the key {shown} ({host_key.split()[0]})")
    if fingerprint is None:
        say("compare it with what the server's own console shows:")
        say("  for k in /etc/ssh/ssh_host_*_key.pub; do ssh-keygen -lf $k; done")


@app.command(name="list")
def list_(as_json: Json = False) -> None:
    """Every server."""
    hosts = inventory.listed()
    if as_json:
        return print_json([asdict(host) for host in hosts])
    if not hosts:
        return say("no hosts; add one with: rift host add NAME ADDRESS")
    table = listing("NAME", "ADDRESS", "PORT", "USER", "KEY")
    for host in hosts:
        cells = (host.name, host.address, str(host.port), host.user, host.key_path or "agent")
        table.add_row(*(escape(printable(cell)) for cell in cells))
    out.print(table)


@app.command()
def remove(name: Name) -> None:
    """Forget a server. The machine itself is left as it is."""
    inventory.remove(name)
    say(f"{name} forgotten")


@app.command()
def facts(
    where: Annotated[
        str,
        typer.Argument(metavar="HOST", help="A server, local, or a recorded tree (folder, tar)."),
    ],
    as_json: Json = False,
) -> None:
    """What a server is: PCI, CPUs, memory, boot loader, software. Changes nothing there."""
    from rift_provision.facts import to_json
    from rift_provision.overview import overview

    found = gather(where)
    if as_json:
        return print_json(to_json(found))
    for key, value in overview(found):
        out.print(f"{key:14} {printable(value)}", markup=False)
