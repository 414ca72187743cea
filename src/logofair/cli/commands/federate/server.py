"""``logofair federate server``: make a plan of options and run it with sites that connect, or resume it."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.commands.federate import Screen, quiet_option
from logofair.cli.commands.federate.setup import KEYS_OF_SITES
from logofair.cli.options import (
    POOLING,
    SectionedCommand,
    examples,
    json_option,
    name_option,
    notion_arguments,
    number_option,
    path_option,
    requirement_options,
    seed_option,
    such_that,
    together,
    verbose_option,
)
from logofair.engines.events import Event
from logofair.engines.flower import require_flower
from logofair.errors import InputError, RunError
from logofair.files.writing import locked

if TYPE_CHECKING:
    from logofair.columns.checks import Label
    from logofair.engines.flower.processes import ServerCredentials
    from logofair.engines.folder import RunOptions
    from logofair.federation import Plan
    from logofair.files.values import CostsText

PLAN, STATE, RESULT = "plan.json", "state.json", "result.json"

_DELTA = 1e-6
_INTEGER = re.compile("0|-?[1-9][0-9]*")


def _listed(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Read names separated by commas, each once; a name with a comma, such as an intersection, stands in quotes."""
    if value is None:
        return ()
    names = tuple(name.strip() for name in next(csv.reader([value], skipinitialspace=True), ()))
    if not all(names) or len(set(names)) != len(names):
        raise click.BadParameter(f"got {value!r}; separate names by commas, each once.", ctx, param)
    return names


# What is not given is None, empty or False: a run that goes on is then asked nothing about it.
plan_options = together(
    click.option("--groups", metavar="A,B", callback=_listed, help="The groups compared, separated by commas."),
    requirement_options("site"),
    click.option(
        "--calibration",
        metavar="NAME",
        help="How scores become chances: beta, platt, temperature or none.  [default: beta; none with --epsilon]",
    ),
    name_option(
        "--pooling",
        POOLING,
        "What a small group at a site borrows from the same group at other sites: auto (what held-out rows support), "
        "full (all sites of a group count as one) or none; auto and full send histograms of scores.  [default: auto; "
        "none with --epsilon or --secure]",
    ),
    click.option(
        "--optimality-gap", type=float, help="Stop once no rule can be better by more than this.  [default: 1e-05]"
    ),
    name_option(
        "--solver",
        ("exact", "algorithm1"),
        "exact, or algorithm1 (the paper's, which may exceed its limits).  [default: exact]",
    ),
    click.option(
        "--secure", is_flag=True, help="Secure sums: the server sees sums over 3 sites or more; nothing is pooled."
    ),
    click.option("--epsilon", type=float, help="Differential privacy of every row: the budget epsilon, such as 1."),
    click.option("--delta", type=float, help=f"Chance that this privacy fails.  [default: {_DELTA:g}]"),
    click.option(
        "--smallest-cell",
        type=int,
        help="A group with fewer rows than this at a site is left out of all that the site sends, and gets the rule "
        "of all sites taken as one; 1 leaves out none.  [default: 5; 1 with --epsilon]",
    ),
    click.option("--quorum", type=int, help="Fail with fewer sites than this.  [default: 2; 3 with --secure]"),
    seed_option(
        "The same seed and files give the same rules; coins depend on the run's name.  [default: 0]",
        "random_state",
        default=None,
    ),
    click.option("--run", metavar="NAME", help="Name of the run: letters, digits, - and _.  [default: random]"),
)

# A stored plan is compared with a new command line by what each option says about it: the field of its name, or this.
_IN_PLAN: dict[str, Callable[[Plan], Any]] = {
    "notion": lambda plan: (plan.looked_at, {item.rates for item in plan.require}),
    "local_tolerance": lambda plan: set(plan.inside.required),
    "global_tolerance": lambda plan: set(plan.require) - set(plan.inside.required),
    "require": lambda plan: set(plan.require),
    "costs": lambda plan: (plan.costs, plan.site_costs),
    "epsilon": lambda plan: plan.privacy and plan.privacy.epsilon,
    "delta": lambda plan: plan.privacy and plan.privacy.delta,
}
_OPTIONS = {"local_tolerance": "--local", "global_tolerance": "--global", "random_state": "--seed"}


def planned(options: Mapping[str, Any], groups: Sequence[Label] = ()) -> Plan:
    """Make the plan a command line asks for; ``groups`` where it names none."""
    from logofair.federation import Privacy, make_plan

    given = {name: value for name, value in options.items() if _is_given(value)}
    if given.get("solver") == "algorithm1" and "secure" in given:
        raise InputError(
            "--solver: algorithm1 takes its step from the largest constant of any site, which is no sum; leave out "
            "--secure, or use exact."
        )
    epsilon, delta = (given.pop(name, None) for name in ("epsilon", "delta"))
    if delta is not None and epsilon is None:
        raise InputError("--delta: means nothing without --epsilon; name the budget, such as --epsilon 1.")
    if epsilon is not None:
        given = {"calibration": "none", "privacy": Privacy(epsilon, _DELTA if delta is None else delta), **given}
    names = list(given.pop("groups", groups))
    if options.get("groups") and all(map(_INTEGER.fullmatch, names)):  # as a file's column would be read
        names = [int(name) for name in names]
    costs: CostsText | None = given.pop("costs", None)
    single = dict(costs) if isinstance(costs, dict) else {} if costs is None else {"": costs}
    usual = single.pop("", None)  # of sites that are not named
    return make_plan(groups=names, costs=usual, site_costs=single, **notion_arguments(given), **given)


def _check_same(options: Mapping[str, Any], plan: Plan, where: object) -> None:
    """Raise unless what a command line says of the plan is what a stored plan says."""
    new = planned(options, plan.groups)
    for name in (name for name, value in options.items() if _is_given(value)):
        said_in = _IN_PLAN.get(name, attrgetter(name))
        if said_in(new) != said_in(plan):
            option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
            raise InputError(
                f"{option}: differs from the plan of run {plan.run} in {where}; leave it out to go on with that run, "
                "or use another --folder."
            )


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != ()  # 0 is a value


def prepare(
    folder: Path, options: Mapping[str, Any], roster: Mapping[str, Any], without: Sequence[str] = ()
) -> tuple[Plan, RunOptions]:
    """Return the plan to run and its options: those stored in a folder, or new ones; nothing is written.

    ``roster`` says whom the server waits for and how long, None and empty where the command line says nothing.
    """
    from logofair.engines.folder import RunOptions, read_plan

    given = {name: value for name, value in roster.items() if _is_given(value)}
    if "count" in given:
        given["sites"] = ()
    if (folder / PLAN).exists():
        plan, stored = read_plan(folder / PLAN)
        _check_same(options, plan, folder)
        run_options = replace(stored, **given)
        _check_roster(folder, plan, stored, run_options, without)
        return plan, run_options
    for there in (folder / STATE, folder / RESULT):
        if there.exists():
            raise InputError(f"{there}: is there without its {PLAN}; restore it, or use another --folder.")
    if without:
        raise InputError(f"--without: there is no stopped run in {folder}; leave it out to start one.")
    if not options.get("groups"):
        raise InputError("--groups: missing; name the groups the sites compare, such as --groups Female,Male.")
    if not given.keys() & {"sites", "count"}:
        raise InputError("--sites: missing; name the sites to wait for, or pass their number with --expect.")
    plan, run_options = planned(options), replace(RunOptions(), **given)
    _check_enough(plan, run_options)
    return plan, run_options


def _check_enough(plan: Plan, run_options: RunOptions) -> None:
    coming = len(run_options.sites) or run_options.count
    if coming < plan.quorum:
        raise InputError(f"--sites: {coming} are expected, but the run needs {plan.quorum} (--quorum); name more.")
    if run_options.sites:
        try:
            plan.check_sites(run_options.sites)
        except InputError as error:
            raise InputError(f"--{error}") from None


def _check_roster(
    folder: Path, plan: Plan, stored: RunOptions, run_options: RunOptions, without: Sequence[str]
) -> None:
    """A run that has begun keeps its sites; one that has not can still wait for others."""
    from logofair.engines.folder import read_state

    if (folder / RESULT).exists():
        if without:
            raise InputError(f"--without: run {plan.run} in {folder} has ended; start another run without that site.")
        return
    if not (folder / STATE).exists():
        if without:
            raise InputError(f"--without: run {plan.run} has not begun; name those to wait for with --sites.")
        _check_enough(plan, run_options)
        return
    if (run_options.sites, run_options.count) != (stored.sites, stored.count):
        raise InputError(
            f"--sites: run {plan.run} in {folder} has begun with its own; leave it out, or take one out with --without."
        )
    known = read_state(folder / STATE).server
    unknown = [site for site in without if site not in (*known.sites, *(each.site for each in known.excluded))]
    if unknown:
        raise InputError(f"--without: {unknown[0]!r} is not in the run; it has {', '.join(known.sites)}.")


_seconds = such_that(lambda seconds: 0 < seconds < 1e7, "pass seconds, such as 600")


@click.command(
    cls=SectionedCommand,
    epilog=examples(
        "logofair federate server --folder state --keys keys --sites north,south,east --groups Female,Male",
        "logofair federate server --folder state --keys keys    # the same run again, where it stopped",
        "logofair federate server --folder state --keys keys --without east",
    ),
)
@path_option("--folder", "Folder of the run: plan, state and result.", folder=True, required=True)
@click.option("--sites", metavar="NAMES", callback=_listed, help="Sites to wait for, separated by commas.")
@number_option(
    "--expect",
    int,
    such_that(lambda count: count >= 1, "use at least 1"),
    "How many sites to wait for, whoever they are.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at; 0.0.0.0 for all.")
@number_option(
    "--port",
    int,
    such_that(lambda port: 0 < port < 65536, "pass a port from 1 to 65535"),
    "Port to listen at.",
    default=9300,
)
@path_option("--keys", "Folder made by federate keys.")
@click.option("--insecure", is_flag=True, help="No encryption, anyone may connect: for trials on one machine.")
@number_option("--wait", float, _seconds, "Seconds to wait for the sites.  [default: 600]")
@number_option("--timeout", float, _seconds, "Seconds a site may take to answer.  [default: 600]")
@click.option("--without", metavar="NAME", multiple=True, help="Take a site out of a stopped run and go on.")
@json_option("Print the result as JSON in place of the page, and the log as one JSON object a line.")
@quiet_option
@verbose_option
@plan_options
def server(
    folder: Path,
    sites: tuple[str, ...],
    expect: int | None,
    host: str,
    port: int,
    keys: Path | None,
    insecure: bool,
    wait: float | None,
    timeout: float | None,
    without: tuple[str, ...],
    as_json: bool,
    verbose: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Run a plan with sites that connect, or resume it.

    Starts a server, waits for the sites, and runs the plan with them: rows stay where
    they are. The state is stored after every exchange. Started again on the same
    folder the run goes on where it stopped; options of the plan may then be left out.
    """
    if sites and expect is not None:
        raise InputError("--expect: given beside --sites; name the sites or their number.")
    credentials = _credentials(keys, insecure)
    plan, run_options = prepare(
        folder, options, {"sites": sites, "count": expect, "wait": wait, "timeout": timeout}, without
    )
    if credentials is not None:
        for site in run_options.sites:
            key = credentials.sites / f"{site}.pub"
            if not key.is_file():
                raise InputError(f"--sites: there is no {key}; put the public key of site {site!r} there.")
        if not any(credentials.sites.glob("*.pub")):
            raise InputError(f"--keys: {credentials.sites} holds no NAME.pub; put the public key of each site there.")
    if not (folder / RESULT).exists():
        screen = Screen(quiet=quiet, as_json=as_json)
        _serve(folder, plan, run_options, without, screen, host=host, port=port, credentials=credentials)
    report(folder, as_json, verbose=verbose)


def report(folder: Path, as_json: bool, *, verbose: bool = False) -> None:
    """Print the result in a folder; fail where it does not hold."""
    from logofair.cli.console import print_json, show
    from logofair.engines.folder import read_result
    from logofair.words.federated import run_page

    result = read_result(folder / RESULT)
    page = run_page(result, written=(str(folder / RESULT),))
    if as_json:
        print_json(page.values)
    else:
        show(page, verbose=verbose)
    if not result.certificate.meets_requirements and result.plan.solver is None:
        raise RunError(
            f"run {result.plan.run}: a limit is exceeded by {result.violation:.1e}; do not use its policies."
        )
    if not result.certificate.meets_requirements and as_json:
        click.echo(f"Warning: algorithm1 exceeds a tolerance by up to {result.violation:.5f}.", err=True)


def _serve(
    folder: Path,
    plan: Plan,
    run_options: RunOptions,
    without: Sequence[str],
    screen: Screen,
    *,
    host: str,
    port: int,
    credentials: ServerCredentials | None,
) -> None:
    """Store the plan once the server listens, run it, and leave the result in the folder."""
    require_flower()
    from logofair.engines.flower.processes import superlink
    from logofair.engines.folder import write_plan

    with locked(folder / "command.lock", patience=0.0):
        if without:
            from logofair.engines.folder import read_state, resume_without

            gone = {each.site for each in read_state(folder / STATE).server.excluded}  # before it stopped again
            if left := [site for site in without if site not in gone]:
                resume_without(folder, left)
        goes_on = (folder / STATE).exists()
        with superlink(folder / "flower", host, port, credentials) as flower:
            # Before the plan goes to the sites: one that is not registered yet would be refused.
            for key in sorted(credentials.sites.glob("*.pub")) if credentials is not None else ():
                flower.register(key)
            write_plan(folder / PLAN, plan, run_options)
            words = f"Run {plan.run} {'goes on' if goes_on else 'begins'} in {folder}."
            screen(Event("server", words, {"run": plan.run}))
            digest = f"Sites agree to {folder / PLAN} with --accept-plan {plan.fingerprint}"
            screen(Event("server", digest, {"digest": plan.fingerprint}))
            bare = " WITHOUT ENCRYPTION" if credentials is None else ""
            screen(Event("server", f"The server listens at {host}:{port}{bare}."))
            try:
                flower.run_plan(folder / PLAN, folder, tell=screen)
            except RunError as error:
                raise RunError(f"{error} The state is in {folder}: the same command goes on from there.") from None
    if not (folder / RESULT).exists():
        raise RunError(f"Run {plan.run} left no result; {folder / 'flower'} says why.")


def _credentials(keys: Path | None, insecure: bool) -> ServerCredentials | None:
    from logofair.engines.flower.processes import ServerCredentials

    if keys is None and not insecure:
        raise InputError(
            "--keys: missing; make keys with logofair federate keys, or ask for --insecure on a machine of your own."
        )
    if keys is None:
        return None
    if insecure:
        raise InputError("--insecure: given beside --keys; choose one of the two.")
    credentials = ServerCredentials(keys / "ca.crt", keys / "server.crt", keys / "server.key", keys / KEYS_OF_SITES)
    for file in (credentials.authority, credentials.certificate, credentials.key):
        if not file.is_file():
            raise InputError(f"--keys: there is no {file}; make it with logofair federate keys server --out {keys}.")
    require_flower()
    from logofair.engines.flower.keys import check_certificate, check_private

    check_private(credentials.key)
    for certificate in (credentials.authority, credentials.certificate):
        check_certificate(certificate)
    return credentials
