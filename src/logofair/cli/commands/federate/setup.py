"""What comes before a run: ``logofair federate keys``, and ``federate example``, files of four sites to try it with."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from logofair.cli.group import LazyGroup
from logofair.cli.options import SectionedCommand, examples, force_option, path_option, seed_option
from logofair.errors import InputError

KEYS_OF_SITES = "sites"

_OUT = path_option(
    "--out", "Folder of the keys; nothing in it is overwritten.", default=Path("keys"), show_default=True
)


keys = LazyGroup(
    "keys",
    lazy={
        "server": (
            "logofair.cli.commands.federate.setup:server_keys",
            "Make an authority and the server's certificate.",
        ),
        "show": (
            "logofair.cli.commands.federate.setup:show_keys",
            "Show the fingerprints of the sites' keys, to be compared by people.",
        ),
        "site": ("logofair.cli.commands.federate.setup:site_keys", "Make the key of one site."),
    },
    help="Make the certificate of a server, or the key of a site; show fingerprints.",
    epilog=examples("logofair federate keys server --out keys", "logofair federate keys site north --out keys"),
)


@click.command(
    "server",
    cls=SectionedCommand,
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
    from logofair.engines.flower.keys import make_authority

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
    from logofair.engines.flower.keys import make_site_key

    private, public = make_site_key(out / KEYS_OF_SITES, name)
    click.echo(f"{private}: secret; keep it at the site.")
    click.echo(f"{public}: give it to the server and, for secure sums, to the other sites.")
    click.echo("For secure sums, read its fingerprint to their people: logofair federate keys show.")


@click.command("show", epilog=examples("logofair federate keys show --keys keys"))
@path_option("--keys", "Folder of the keys; those of the sites are in sites/.", default=Path("keys"), show_default=True)
def show_keys(keys: Path) -> None:
    """Show the fingerprint of every site's public key in a folder.

    Before a run with secure sums each site's people read theirs to the others, by
    telephone, say; what a folder or a server says alone proves nothing. A site then
    names those that were the same: federate client --trust NAME=FINGERPRINT.
    """
    _require_cryptography()
    found = fingerprints(keys / KEYS_OF_SITES)
    if not found:
        raise InputError(f"--keys: there is no public key of a site in {keys / KEYS_OF_SITES}; see federate keys site.")
    width = max(map(len, found))
    for name, shown in found.items():
        click.echo(f"{name:{width}}  {shown}")


def fingerprints(folder: Path) -> dict[str, str]:
    """The fingerprint of every public key in a folder, by site."""
    from logofair.federation.secure import key_fingerprint

    return {file.stem: key_fingerprint(file.read_bytes(), str(file)) for file in sorted(folder.glob("*.pub"))}


def _require_cryptography() -> None:
    if find_spec("cryptography") is None:
        raise click.UsageError("keys need the package cryptography; pip install 'logofair[flower]'")


@click.command(epilog=examples("logofair federate example --out data"))
@path_option("--out", "Folder of the files.", folder=True, default=Path("data"), show_default=True)
@seed_option("The same seed writes the same files.")
@force_option("Replace files that are there already.")
def example(out: Path, seed: int, force: bool) -> None:
    """Write the files of four sites, from the Adult data.

    north.csv, south.csv and east.csv are for a first run (together.csv holds all three,
    for a rehearsal), and west.csv for a site that comes later. others.csv has other rows
    of the first three sites to test on, new-north.csv those of north, to decide on
    afterwards. The scores are those of a logistic regression that was trained on yet
    other rows; a label of 1 means an income above 50,000 USD.
    """
    from logofair.datasets.adult import FILES, site_files

    files = [out / f"{name}.csv" for name in FILES]
    for file in files:
        if file.exists() and not force:
            raise InputError(f"--out: {file} exists; choose another folder, or pass --force.")
    texts = site_files(seed)
    out.mkdir(parents=True, exist_ok=True)
    for file in files:
        file.write_text(texts[file.stem], encoding="utf-8")
        click.echo(f"{file}: {texts[file.stem].count(chr(10)) - 1:,} rows")
