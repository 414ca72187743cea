"""A site's commands: ``federate plan`` shows what it is to agree to, ``client`` takes part, ``join`` comes later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.commands.federate import Screen, quiet_option
from logofair.cli.commands.federate.setup import KEYS_OF_SITES, fingerprints
from logofair.cli.options import (
    SectionedCommand,
    column_options,
    constrained,
    examples,
    force_option,
    json_option,
    path_option,
    read_client_file,
    read_costs,
    together,
    tolerance_option,
)
from logofair.engines.events import Event
from logofair.engines.flower import require_flower
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames, check_not_read
from logofair.files.writing import POLICY, check_output, locked

if TYPE_CHECKING:
    from logofair.engines.site import SiteSettings
    from logofair.federation.limits import SiteLimits
    from logofair.policy.policy import Policy


def _own_costs(ctx: click.Context, param: click.Parameter, texts: Sequence[str]) -> tuple[float, float] | None:
    """Read what errors cost at a site by its own word."""
    costs = read_costs("site", ctx, param, texts)
    if isinstance(costs, dict):
        raise InputError("--costs: names sites; a site sets its own alone, such as 1,3.")
    return costs


_own_settings = together(
    tolerance_option("local", "inside this site alone, smaller than the plan's"),
    click.option(
        "--costs",
        metavar="A,R",
        multiple=True,
        callback=_own_costs,
        help="Costs of a wrongly accepted and of a wrongly rejected row at this site alone, such as 1,3; neither may "
        "be more than in the plan.",
    ),
)


@click.command("plan", epilog=examples("logofair federate plan state/plan.json"))
@click.argument("file", metavar="PLAN", type=click.Path(path_type=Path))
def show_plan(file: Path) -> None:
    """Show a plan and its digest, before agreeing to it.

    PLAN is the plan.json in the server's folder, which its people send to every site.
    Sites agree to this very plan with federate client --accept-plan DIGEST.
    """
    from logofair.engines.folder import read_plan
    from logofair.words.federated import plan_sentences

    plan, _ = read_plan(file)
    screen = Screen(err=False)
    for label, sentence in plan_sentences(plan):
        screen(Event("plan", f"{label}: {sentence}"))


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair federate client --name north --data data/north.csv --group sex --score score --label label "
        "--server 127.0.0.1:9300 --keys keys --accept-plan DIGEST --folder north --out north.json",
    ),
)
@click.option("--name", metavar="NAME", required=True, help="The name of this site, as its key is named.")
@path_option("--data", "Its file: CSV, Parquet or Arrow.", required=True)
@column_options
@click.option("--server", metavar="HOST:PORT", required=True, help="Where the server listens.")
@path_option("--keys", "Folder with ca.crt, sites/NAME and sites/*.pub.")
@path_option("--authority", "In place of KEYS/ca.crt.")
@path_option("--key", "In place of KEYS/sites/NAME.")
@path_option("--peers", "In place of KEYS/sites.")
@click.option("--insecure", is_flag=True, help="No encryption, no proof of who the server is: for trials.")
@path_option("--folder", "Folder of the site's private state.", folder=True, required=True)
@path_option("--out", "Where its policy is written.", required=True)
@force_option("Replace a policy that is there already.")
@click.option(
    "--trust",
    "trusted",
    metavar="NAME=FINGERPRINT",
    multiple=True,
    help="With secure sums: trust the key of another site, by the fingerprint that its people read to you from "
    "federate keys show.",
)
@click.option(
    "--agree-without",
    "agreed_without",
    metavar="NAME",
    multiple=True,
    help="With secure sums: agree to go on without a site, once its people said that it is gone.",
)
@click.option(
    "--again",
    metavar="RUN",
    help="Agree to one run, by its name, on rows that took part in another. It is asked for where either run "
    "has secure sums, or where that one had differential privacy and this one has none.",
)
@click.option(
    "--accept-plan",
    metavar="DIGEST",
    help="Agree to this plan and no other, by the digest that federate plan shows.",
)
@path_option("--site-policy", "Agree to plans within the limits of this TOML file, such as most_epsilon = 1.")
@_own_settings
@json_option("Print the policy's rules as JSON in place of the page, and the log as one JSON object a line.")
@quiet_option
def client(
    name: str,
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
    columns: ColumnNames,
    accept_plan: str | None,
    site_policy: Path | None,
    local_tolerance: float | None,
    costs: tuple[float, float] | None,
    as_json: bool,
    quiet: bool,
    **agreement: Any,
) -> None:
    """Take part as one site, with its own file and key.

    Checks the server's certificate, name and clock and this site's key, then runs Flower's
    node and answers the server's requests with sums over the site's rows until the site's
    policy is written. A plan is answered that was agreed to, by its digest (--accept-plan)
    or by limits that it keeps within (--site-policy). The rows never leave. Killed or
    disconnected, the same command goes on where it stopped.
    """
    authority, key, peers = _credentials(name, keys, authority, key, peers, insecure)
    limits = _limits_of(accept_plan, site_policy, local_tolerance, costs)
    from logofair.cli.console import showing_progress

    with showing_progress(quiet=quiet or as_json) as progress:
        read_client_file(data, columns, progress)
    host, _, port = server.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(f"--server: got {server!r}; pass HOST:PORT, such as 127.0.0.1:9300.")
    agreement["trusted"] = _trusted_keys(agreement["trusted"], peers)
    earlier, screen = None if force else _finished_policy(out, folder), Screen(quiet=quiet, as_json=as_json)
    if earlier is not None:
        screen(Event("site", f"Run {_run_of(earlier)} has ended, and its policy is there; --force joins another run."))
        return _show(earlier, out, as_json)
    check_output(out, force=True, endings=POLICY)
    check_not_read([out], [data])
    from logofair.engines.site import SiteSettings
    from logofair.policy.policy import Policy

    settings = SiteSettings(
        site=name,
        data=str(data.resolve()),
        columns=columns,
        folder=str(folder.resolve()),
        policy=str(out.resolve()),
        key=None if key is None else str(key.resolve()),
        peers=None if peers is None else str(peers.resolve()),
        limits=limits,
        **agreement,
    )
    _take_part(settings, server, authority, insecure, screen)
    return _show(Policy.load(out), out, as_json)


def _limits_of(
    accept_plan: str | None,
    site_policy: Path | None,
    local_tolerance: float | None,
    costs: tuple[float, float] | None = None,
) -> SiteLimits:
    """What the options agree to: one plan by its digest, or those within limits; nobody is asked later."""
    from logofair.federation.limits import SiteLimits, read_fingerprint

    if accept_plan is None and site_policy is None:
        raise InputError(
            "--accept-plan: missing; have the server's people send you plan.json, read it with logofair federate plan "
            "plan.json, and pass the digest shown there, or your limits with --site-policy."
        )
    limits = SiteLimits() if site_policy is None else SiteLimits.read(site_policy)
    if local_tolerance is not None:
        limits = replace(limits, local_tolerance=constrained(local_tolerance))
    if costs is not None:
        limits = replace(limits, costs=costs)
    if accept_plan is None:
        return limits
    try:
        return replace(limits, plan=read_fingerprint(accept_plan))
    except InputError as error:
        raise InputError(f"--accept-{error}") from None


def _trusted_keys(named: Sequence[str], peers: Path | None) -> dict[str, str]:
    """The fingerprints of other sites' keys by name, as their people read them out, each ``NAME=FINGERPRINT``.

    What a key's fingerprint should be is never said: it is for the site's people to say.
    """
    here = fingerprints(peers) if named and peers is not None else {}
    trusted = {}
    for name, _, said in (each.partition("=") for each in named):
        if name not in here:
            raise InputError(f"--trust: there is no key {name}.pub in {peers}; pass NAME=FINGERPRINT of a site's key.")
        if not said:
            raise InputError(f"--trust: got {name!r} alone; pass {name}=FINGERPRINT, as its people read it to you.")
        if said != here[name]:
            raise InputError(
                f"--trust: the key {name}.pub in {peers} is not the one whose fingerprint you were told; have the "
                f"people of {name} read it to you again (logofair federate keys show), or send you their key."
            )
        trusted[name] = here[name]
    return trusted


def _credentials(
    site: str, keys: Path | None, authority: Path | None, key: Path | None, peers: Path | None, insecure: bool
) -> tuple[Path | None, Path | None, Path | None]:
    """The authority's certificate, the site's key and the folder of its peers' public keys, checked to be there."""
    if insecure and (keys or authority):
        raise InputError("--insecure: given beside --keys or --authority; choose one of the two.")
    if keys is not None:
        sites = keys / KEYS_OF_SITES
        authority, key, peers = authority or keys / "ca.crt", key or sites / site, peers or sites
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
    return authority, key, peers


def _finished_policy(out: Path, folder: Path) -> Policy | None:
    """Return the policy at ``out`` if it is of a run whose state is in the folder; None where nothing is there.

    A policy is written at the very end of a run, so nothing follows it in that run.
    """
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


def _take_part(settings: SiteSettings, server: str, authority: Path | None, insecure: bool, screen: Screen) -> None:
    """Connect, and stay until the policy is written."""
    require_flower()
    from logofair.engines.flower.keys import check_site_key, checked_site_name
    from logofair.engines.flower.node import SiteCredentials, take_part
    from logofair.engines.site import forget_unfit_plan

    folder, path = Path(settings.folder), Path(settings.folder) / f"{checked_site_name(settings.site)}.site.json"
    key = None if settings.key is None else Path(settings.key)
    if key is not None:
        check_site_key(key)
    proof = None if insecure or authority is None or key is None else SiteCredentials(authority, key)
    with locked(folder / "command.lock", patience=0.0):
        forget_unfit_plan(folder)
        settings.write(path)
        bare = " WITHOUT ENCRYPTION" if insecure else ""
        screen(Event("site", f"Site {settings.site} connects to {server}{bare}.", {"site": settings.site}))
        take_part(path, site=settings.site, server=server, credentials=proof, home=folder / "flower", tell=screen)


def _show(policy: Policy, where: Path, as_json: bool = False) -> None:
    """Print a site's rules, and what it should know of them."""
    from logofair.cli.console import print_json, show
    from logofair.words.explained import policy_page

    if as_json:
        about = {"run": _run_of(policy), "warnings": list(policy.info.warnings), "note": policy.info.note}
        return print_json({"policy": str(where), "rules": str(policy.rules).splitlines(), **about})
    return show(policy_page(policy, str(where)))


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair federate join state/result.json --name west --data data/west.csv --group sex --score score "
        "--label label --out west.json"
    ),
)
@click.argument("result", type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", required=True, help="The name of the site.")
@path_option("--data", "Its file: CSV, Parquet or Arrow.", required=True)
@column_options
@path_option("--folder", "The site's private state; needed under --epsilon.", folder=True)
@path_option("--out", "Where its policy is written.", required=True)
@_own_settings
@force_option("Replace a file that is there already.")
def join(
    result: Path,
    name: str,
    data: Path,
    folder: Path | None,
    out: Path,
    local_tolerance: float | None,
    costs: tuple[float, float] | None,
    force: bool,
    columns: ColumnNames,
) -> None:
    """Make the policy of a site that comes later, or that missed the end.

    RESULT is the server's result.json. The policy is made from it and the site's own
    rows, on the site's own machine; it is fair inside the site, and the requirements
    over all sites were met without it. A site that took part gets the policy it had.
    """
    from logofair.cli.console import showing_progress
    from logofair.engines.folder import read_result
    from logofair.engines.site import SiteSettings, read_site, stored_release, with_columns
    from logofair.federation import late_policy

    found = read_result(result)
    check_output(out, force=force, endings=POLICY)
    check_not_read([out], [result, data])
    if found.plan.privacy is not None and folder is None:
        raise InputError(
            "--folder: missing, but the run is differentially private: name the folder of the site's private state, "
            "where its one noised histogram is kept (or will be)."
        )
    with showing_progress() as progress:
        read_client_file(data, columns, progress)
    settings = SiteSettings(name, str(data), columns, folder="", policy=str(out))
    rows = read_site(settings, found.plan)
    release = None if folder is None or found.plan.privacy is None else stored_release(folder, rows, found.plan)
    own: dict[str, Any] = {"local_tolerance": constrained(local_tolerance), "costs": costs}
    policy = with_columns(late_policy(found, rows, name, release, **own), settings)
    policy.save(out)
    _show(policy, out)
