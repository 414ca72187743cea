"""What a site's people agree to on the command line: limits, other sites' keys, and the plan that is shown to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logofair.cli.commands.federate.screen import Screen
from logofair.cli.commands.federate.setup import fingerprints
from logofair.cli.options import constrained, examples
from logofair.engines.events import Event
from logofair.errors import InputError

if TYPE_CHECKING:
    from logofair.federation.limits import SiteLimits
    from logofair.files.values import CostsText


def own_costs(typed: CostsText | None) -> tuple[float, float] | None:
    """What errors cost at a site by its own word."""
    if isinstance(typed, dict):
        raise InputError("--costs: names sites; a site sets its own alone, such as 1,3.")
    return typed


def limits_of(
    accept_plan: str | None, site_policy: Path | None, local_tolerance: float | None, costs: CostsText | None = None
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
        limits = replace(limits, costs=own_costs(costs))
    if accept_plan is None:
        return limits
    try:
        return replace(limits, plan=read_fingerprint(accept_plan))
    except InputError as error:
        raise InputError(f"--accept-{error}") from None


def trusted_keys(named: Sequence[str], peers: Path | None) -> dict[str, str]:
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


@click.command("plan", epilog=examples("logofair federate plan state/plan.json"))
@click.argument("file", metavar="PLAN", type=click.Path(path_type=Path))
def show_plan(file: Path) -> None:
    """Show a plan and its digest, before agreeing to it.

    PLAN is the plan.json in the server's folder, which its people send to every site.
    Sites agree to this very plan with federate client --accept-plan DIGEST.
    """
    from logofair.engines.folder import read_plan

    plan, _ = read_plan(file)
    screen = Screen(err=False)
    for label, sentence in plan.sentences():
        screen(Event("plan", f"{label}: {sentence}"))
