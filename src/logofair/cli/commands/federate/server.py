"""``logofair federate server``: run a plan with sites that connect, or go on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logofair.cli.commands.federate.plan import PLAN, RESULT, STATE, listed, plan_options, prepare
from logofair.cli.commands.federate.screen import Screen, quiet_option
from logofair.cli.commands.federate.setup import KEYS_OF_SITES
from logofair.cli.options import (
    SectionedCommand,
    examples,
    json_option,
    number_option,
    path_option,
    such_that,
    verbose_option,
)
from logofair.engines.events import Event
from logofair.engines.flower import require_flower
from logofair.errors import InputError, RunError
from logofair.files.writing import locked

if TYPE_CHECKING:
    from logofair.engines.flower.processes import ServerCredentials
    from logofair.engines.folder import RunOptions
    from logofair.federation import Plan

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
@click.option("--sites", metavar="NAMES", callback=listed, help="Sites to wait for, separated by commas.")
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
        raise RunError(f"run {result.plan.run}: a requirement is missed by {result.violation:.1e}; do not use it.")
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
