"""``logofair federate client``: take part as one site, and stay until its policy is written."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.data import column_options, read_client_file
from logofair.cli.options import examples, such_that
from logofair.files.inputs import ColumnNames

if TYPE_CHECKING:
    from logofair.policy.policy import Policy

__all__ = ["Credentials", "FolderWatcher", "client", "finished_policy"]


_LINGER, _IDLE = 5.0, 180.0  # seconds


@dataclass(frozen=True)
class Credentials:
    """A site's files: the authority's certificate, its own key, and the folder of its peers' public keys."""

    authority: Path | None
    key: Path | None
    peers: Path | None

    @classmethod
    def named(
        cls, site: str, keys: Path | None, authority: Path | None, key: Path | None, peers: Path | None, insecure: bool
    ) -> Credentials:
        """The files a command line names, checked to be there."""
        from logofair.cli.commands.federate.keys import SITES
        from logofair.errors import InputError

        if insecure and (keys or authority):
            raise InputError("--insecure: given beside --keys or --authority; choose one of the two.")
        if keys is not None:
            authority, key, peers = authority or keys / "ca.crt", key or keys / SITES / site, peers or keys / SITES
        if not insecure and (authority is None or key is None):
            raise InputError(
                "--keys: missing; pass the folder with ca.crt and sites/NAME (or --authority and --key), or ask for "
                "--insecure on a machine of your own."
            )
        for file, what in ((authority, "the server's ca.crt"), (key, "the key of this site")):
            if file is not None and not file.is_file():
                raise InputError(f"--keys: there is no {file}, {what}; see logofair federate keys --help.")
        if peers is not None and not peers.is_dir():
            raise InputError(f"--peers: there is no folder {peers}; put the other sites' NAME.pub there.")
        return cls(authority, key, peers)


class FolderWatcher:
    """Watches a site's folder: prints its new problems, and is true some seconds after a run has ended there.

    Without these ``linger`` seconds the last reply, which is sent after the policy is written, would be cut off.
    """

    def __init__(self, folder: Path, linger: float = _LINGER) -> None:
        self.folder = folder
        self.linger = linger
        self.ended: float | None = None
        self.changed = (self._latest(), time.monotonic())
        self.problems = folder / "problems.txt"
        self.read = self.problems.stat().st_size if self.problems.exists() else 0
        self.before = self._ends()

    def __call__(self) -> bool:
        """Look again."""
        if self.problems.exists() and self.problems.stat().st_size > self.read:
            with self.problems.open("rb") as file:
                file.seek(self.read)
                new = file.read()
            self.read += len(new)
            for line in new.decode(errors="replace").splitlines():
                click.echo(f"Problem: {line}", err=True)
        self._say_if_idle()
        if self.ended is None and self._ends() != self.before:
            self.ended = time.monotonic()
        return self.ended is not None and time.monotonic() >= self.ended + self.linger

    def _say_if_idle(self) -> None:
        """Say once that no request comes any more: the server does not tell a site that it was excluded."""
        latest, since = self.changed
        if self._latest() != latest:
            self.changed = (self._latest(), time.monotonic())
        elif time.monotonic() >= since + _IDLE:
            click.echo(
                f"No request has come from the server for {_IDLE / 60:g} minutes. If its people say that the run goes "
                "on without this site, stop here (Ctrl-C) and make its policy with logofair federate join.",
                err=True,
            )
            self.changed = (latest, float("inf"))

    def _latest(self) -> int:
        return max((file.stat().st_mtime_ns for file in self.folder.glob("*.client.json")), default=0)

    def _ends(self) -> dict[str, int]:
        return {file.name: file.stat().st_mtime_ns for file in self.folder.glob("*.done.json")}


@click.command(
    epilog=examples(
        "logofair federate client --site north --data north.csv --group sex --score score --label label "
        "--server 127.0.0.1:9300 --keys keys --folder north --out north.json",
    )
)
@click.option("--site", metavar="NAME", required=True, help="The name of this site, as its key is named.")
@click.option("--data", type=click.Path(path_type=Path), required=True, help="Its file: CSV, Parquet or Arrow.")
@column_options
@click.option("--server", metavar="HOST:PORT", required=True, help="Where the server listens.")
@click.option("--keys", type=click.Path(path_type=Path), help="Folder with ca.crt, sites/NAME and sites/*.pub.")
@click.option("--authority", type=click.Path(path_type=Path), help="In place of KEYS/ca.crt.")
@click.option("--key", type=click.Path(path_type=Path), help="In place of KEYS/sites/NAME.")
@click.option("--peers", type=click.Path(path_type=Path), help="In place of KEYS/sites.")
@click.option("--insecure", is_flag=True, help="No encryption, no proof of who the server is: for trials.")
@click.option("--folder", type=click.Path(path_type=Path), required=True, help="Folder of the site's private state.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where its policy is written.")
@click.option("--force", is_flag=True, help="Replace a policy that is there already.")
@click.option(
    "--agree-without",
    metavar="NAME",
    multiple=True,
    help="With secure sums: agree to go on without a site, once its people said that it is gone.",
)
@click.option("--again", is_flag=True, help="With secure sums: agree to a further run on the same rows.")
@click.option("--only-secure", is_flag=True, help="Refuse plans without secure sums: the plan is the server's word.")
@click.option(
    "--most-epsilon",
    type=float,
    callback=such_that(lambda epsilon: epsilon > 0, "pass a number above 0, such as 1"),
    help="Refuse plans without differential privacy, and those that spend more than this.",
)
def client(
    site: str,
    data: Path,
    server: str,
    keys: Path | None,
    authority: Path | None,
    key: Path | None,
    peers: Path | None,
    insecure: bool,
    folder: Path,
    out: Path,
    force: bool,
    agree_without: tuple[str, ...],
    again: bool,
    only_secure: bool,
    most_epsilon: float | None,
    columns: ColumnNames,
) -> None:
    """Take part as one site, with its own file and key.

    Connects to the server, answers its requests with sums over the site's rows, and
    stays until its policy is written. The rows never leave. Killed or disconnected,
    the same command goes on where it stopped.
    """
    credentials = Credentials.named(site, keys, authority, key, peers, insecure)
    read_client_file(data, columns)
    _check_address(server)
    earlier = None if force else finished_policy(out, folder)
    if earlier is not None:
        click.echo(f"Run {_run_of(earlier)} has ended, and its policy is there; --force joins another run.", err=True)
        return _show(out)
    from logofair.engines.site import SiteSettings

    settings = SiteSettings(
        site=site,
        data=str(data.resolve()),
        columns=columns,
        folder=str(folder.resolve()),
        policy=str(out.resolve()),
        key=None if credentials.key is None else str(credentials.key.resolve()),
        peers=None if credentials.peers is None else str(credentials.peers.resolve()),
        agreed_without=agree_without,
        again=again,
        only_secure=only_secure,
        most_epsilon=most_epsilon,
    )
    _take_part(settings, server, credentials, insecure)
    return _show(out)


def finished_policy(out: Path, folder: Path) -> Policy | None:
    """Return the policy at ``out`` if it is of a run whose state is in the folder; None where nothing is there.

    A policy is written at the very end of a run, so nothing follows it in that run.
    """
    from logofair.errors import InputError
    from logofair.policy.policy import Policy

    if not out.parent.is_dir():
        raise InputError(f"--out: there is no folder {out.parent}; make it first.")
    if not out.exists():
        return None
    try:
        policy = Policy.load(out)
    except InputError:
        policy = None
    if policy is None or not (folder / f"{_run_of(policy)}.client.json").is_file():
        raise InputError(f"--out: {out} exists and is not of a run in {folder}; choose another name, or pass --force.")
    return policy


def _run_of(policy: Policy) -> str | None:
    """The run a policy is of."""
    return None if policy.info.federation is None else policy.info.federation.run


def _take_part(settings: Any, server: str, credentials: Credentials, insecure: bool) -> None:
    """Connect, and stay until the policy is written."""
    from logofair.engines.flower import require_flower
    from logofair.errors import RunError
    from logofair.files.writing import locked

    require_flower()
    from logofair.engines.flower.deployment.commands import SiteCredentials
    from logofair.engines.flower.deployment.keys import checked_site_name
    from logofair.engines.flower.deployment.processes import join

    folder, path = Path(settings.folder), Path(settings.folder) / f"{checked_site_name(settings.site)}.site.json"
    proof = None
    if not insecure:
        assert credentials.authority is not None
        assert credentials.key is not None
        proof = SiteCredentials(credentials.authority, credentials.key)
    with locked(folder / "command.lock", wait=False):
        settings.write(path)
        click.echo(f"Site {settings.site} connects to {server}{' WITHOUT ENCRYPTION' if insecure else ''}.", err=True)
        ended = join(
            path,
            site=settings.site,
            server=server,
            credentials=proof,
            insecure=insecure,
            until=FolderWatcher(folder),
            home=folder / "flower",
        )
    if ended.status != "completed":
        raise RunError(f"{ended.sentence} The same command tries again.")


def _show(out: Path) -> None:
    from logofair.cli.pages.console import page
    from logofair.cli.pages.federate import show_policy
    from logofair.policy.policy import Policy

    show_policy(Policy.load(out), out, page())


def _check_address(server: str) -> None:
    from logofair.errors import InputError

    host, _, port = server.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(f"--server: got {server!r}; pass HOST:PORT, such as 127.0.0.1:9300.")
