"""What comes before a run: ``logofair federate keys``, and ``federate example``, files of four sites to try it with."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logofair.cli.group import LazyGroup
from logofair.cli.options import SectionedCommand, examples, force_option, path_option, seed_option
from logofair.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from logofair.columns.checks import Floats
    from logofair.datasets import Dataset

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


SITES = ("north", "south", "east", "west")
_TOGETHER, _OTHERS, _NEW = "together", "others", "new-north"

# Columns of the files, and what undoes the scaling of logofair.datasets: smallest value and range.
_COLUMNS = {
    "age": ("age", 17, 73),
    "education-num": ("education_years", 1, 15),
    "hours-per-week": ("hours_per_week", 1, 98),
    "capital-gain": ("capital_gain", 0, 99_999),
    "capital-loss": ("capital_loss", 0, 4_356),
}
_PARTS = {"train": 0.3, "sites": 0.5, "new": 0.2}
_ALPHA = 5.0


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
    from logofair.datasets import load_adult

    files = [out / f"{name}.csv" for name in (*SITES, _TOGETHER, _OTHERS, _NEW)]
    for file in files:
        if file.exists() and not force:
            raise InputError(f"--out: {file} exists; choose another folder, or pass --force.")
    texts = _texts(load_adult(), seed)
    out.mkdir(parents=True, exist_ok=True)
    for file in files:
        file.write_text(texts[file.stem], encoding="utf-8")
        click.echo(f"{file}: {texts[file.stem].count(chr(10)) - 1:,} rows")


def _texts(data: Dataset, seed: int) -> dict[str, str]:
    """The files by name."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from logofair.datasets import dirichlet_sites, split

    dealing, splitting = np.random.default_rng(seed).spawn(2)
    site = dirichlet_sites(data.sensitive, n_sites=len(SITES), alpha=_ALPHA, rng=dealing)
    parts = split(len(data), _PARTS, rng=splitting)
    model = LogisticRegression(solver="newton-cholesky").fit(data.features[parts["train"]], data.labels[parts["train"]])
    scores: Floats = model.predict_proba(data.features)[:, 1]
    lines, new = (
        {
            name: _lines(data, scores, np.sort(parts[part][site[parts[part]] == number]))
            for number, name in enumerate(SITES)
        }
        for part in ("sites", "new")
    )
    lines |= {_TOGETHER: _together(lines), _OTHERS: _together(new), _NEW: new[SITES[0]]}
    return {name: "\n".join(each) + "\n" for name, each in lines.items()}


def _together(lines: dict[str, list[str]]) -> list[str]:
    """The lines of the first three sites, each with its site."""
    return [f"site,{lines[SITES[0]][0]}", *(f"{name},{line}" for name in SITES[:3] for line in lines[name][1:])]


def _lines(data: Dataset, scores: Floats, rows: npt.NDArray[np.intp]) -> list[str]:
    """Some rows as lines of CSV, after their header."""
    columns = {"id": rows}
    for name, (shown, smallest, width) in _COLUMNS.items():
        scaled = data.features[rows, data.feature_names.index(name)]
        columns[shown] = (smallest + width * scaled).round().astype(int)
    lines = [",".join([*columns, "sex", "race", "score", "label"])]
    fields = (*columns.values(), data.sensitive[rows], _race(data)[rows], scores[rows], data.labels[rows].astype(int))
    for *plain, score, label in zip(*(field.tolist() for field in fields), strict=True):
        lines.append(",".join([*map(str, plain), f"{score:.6f}", str(label)]))
    return lines


def _race(data: Dataset) -> npt.NDArray[np.str_]:
    """The race of every row, from its features."""
    import numpy as np

    places = [place for place, name in enumerate(data.feature_names) if name.startswith("race=")]
    names = np.array([data.feature_names[place].removeprefix("race=") for place in places])
    return np.asarray(names[data.features[:, places].argmax(axis=1)])
