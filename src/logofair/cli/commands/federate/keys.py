"""``logofair federate keys``: the certificate of a server, and the key of a site."""

from __future__ import annotations

from pathlib import Path

import click

from logofair.cli.group import LazyGroup
from logofair.cli.options import examples

__all__ = ["keys", "server_keys", "site_keys"]


SITES = "sites"

_OUT = click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("keys"),
    show_default=True,
    help="Folder of the keys; nothing in it is overwritten.",
)


@click.group(
    cls=LazyGroup,
    lazy={
        "server": (
            "logofair.cli.commands.federate.keys:server_keys",
            "Make an authority and the server's certificate.",
        ),
        "site": ("logofair.cli.commands.federate.keys:site_keys", "Make the key of one site."),
    },
    epilog=examples("logofair federate keys server --out keys", "logofair federate keys site north --out keys"),
    invoke_without_command=True,
)
@click.pass_context
def keys(ctx: click.Context) -> None:
    """Make the certificate of a server, or the key of a site."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@click.command(
    "server",
    epilog=examples(
        "logofair federate keys server --out keys", "logofair federate keys server --out keys --host fair.example.org"
    ),
)
@_OUT
@click.option(
    "--host",
    "hosts",
    metavar="NAME",
    multiple=True,
    help="Name or address under which sites reach the server; repeat for several. This machine's own is always one.",
)
def server_keys(out: Path, hosts: tuple[str, ...]) -> None:
    """Make an authority and the server's certificate.

    Writes ca.crt (for everybody), ca.key (keep it off the server), server.crt and
    server.key.
    """
    _require_cryptography()
    from logofair.engines.flower.deployment.keys import make_authority

    authority, secret, certificate, key = make_authority(out, hosts)
    click.echo(f"{authority}: give it to every site; it tells your server from any other.")
    click.echo(f"{secret}: secret, and needed only to sign another certificate; keep it off the server.")
    click.echo(f"{certificate}, {key}: the server's certificate and its secret key.")


@click.command("site", epilog=examples("logofair federate keys site north --out keys"))
@click.argument("name")
@_OUT
def site_keys(name: str, out: Path) -> None:
    """Make the key of one site, NAME.

    Writes OUT/sites/NAME, which never leaves the site, and OUT/sites/NAME.pub, which
    goes to the server and, for secure sums, to the other sites.
    """
    _require_cryptography()
    from logofair.engines.flower.deployment.keys import make_site_key

    private, public = make_site_key(out / SITES, name)
    click.echo(f"{private}: secret; keep it at the site.")
    click.echo(f"{public}: give it to the server and, for secure sums, to the other sites.")


def _require_cryptography() -> None:
    from importlib.util import find_spec

    if find_spec("cryptography") is None:
        raise click.UsageError("keys need the package cryptography; pip install 'logofair[flower]'")
