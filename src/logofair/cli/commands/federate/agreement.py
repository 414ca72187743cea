"""What a site's people agree to on the command line: limits, other sites' keys, and the plan that is shown to them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logofair.cli.commands.federate.setup import fingerprints
from logofair.cli.options import CostsText, constrained
from logofair.engines.events import Event, Tell
from logofair.errors import InputError

if TYPE_CHECKING:
    from logofair.engines.shown_plans import ShownPlan
    from logofair.federation.limits import SiteLimits
    from logofair.requirements import Tolerance

__all__ = ["PlanViewer", "limits_of", "own_costs", "own_tolerance", "trusted_keys"]


def own_tolerance(typed: Tolerance) -> float | None:
    """The tolerance that a site holds itself to; a ratio is the plan's alone."""
    own = constrained(typed)
    if own is not None and not isinstance(own, float | int):
        raise InputError("--local: a site's own stands beside the plan's ratio; pass a tolerance, such as 0.02.")
    return own


def own_costs(typed: CostsText | None) -> tuple[float, float] | None:
    """What errors cost at a site by its own word."""
    if isinstance(typed, dict):
        raise InputError("--costs: names sites; a site sets its own alone, such as 1,3.")
    return typed


def limits_of(
    accept_plan: str | None, site_policy: Path | None, local_tolerance: Tolerance, costs: CostsText | None = None
) -> tuple[SiteLimits, bool]:
    """What the options agree to, and whether a person is asked at this terminal, which must then be one."""
    from logofair.federation.limits import SiteLimits, read_fingerprint

    asks = accept_plan is None and site_policy is None
    if asks and not sys.stdin.isatty():
        raise InputError(
            "--accept-plan: missing, and there is no terminal to ask at; pass the digest that the server prints, "
            "or limits with --site-policy."
        )
    limits = SiteLimits() if site_policy is None else SiteLimits.read(site_policy)
    if local_tolerance is not None:
        limits = replace(limits, local_tolerance=own_tolerance(local_tolerance))
    if costs is not None:
        limits = replace(limits, costs=own_costs(costs))
    if accept_plan is None:
        return limits, asks
    try:
        return replace(limits, plan=read_fingerprint(accept_plan)), asks
    except InputError as error:
        raise InputError(f"--accept-{error}") from None


def trusted_keys(named: Sequence[str], peers: Path | None) -> dict[str, str]:
    """The fingerprints of other sites' keys by name, as their people read them out.

    Each is ``NAME=FINGERPRINT``, or a name alone, whose fingerprint is then shown and asked about. What a key's
    fingerprint should be is never said: it is for the site's people to say.
    """
    here = fingerprints(peers) if named and peers is not None else {}
    trusted = {}
    for name, _, said in (each.partition("=") for each in named):
        if name not in here:
            raise InputError(f"--trust: there is no key {name}.pub in {peers}; pass NAME=FINGERPRINT of a site's key.")
        if not (said == here[name] if said else _confirmed(name, here[name])):
            raise InputError(
                f"--trust: the key {name}.pub in {peers} is not the one whose fingerprint you were told; have the "
                f"people of {name} read it to you again (logofair federate keys show), or send you their key."
            )
        trusted[name] = here[name]
    return trusted


def _confirmed(name: str, fingerprint: str) -> bool:
    """Whether the people at this terminal say that a fingerprint is the one they were told."""
    if not sys.stdin.isatty():
        raise InputError(
            f"--trust: got {name!r} alone, and there is no terminal to ask at; pass {name}=FINGERPRINT, as its people "
            "read it to you."
        )
    click.echo(f"The key of {name} here has the fingerprint {fingerprint}", err=True)
    return click.confirm(f"Have the people of {name} read you this one, not over the server?", err=True)


class PlanViewer:
    """Shows the plans that come to a site, each once for its sites; a person's answer is stored for the site."""

    def __init__(self, folder: Path, show: Tell, *, asks: bool) -> None:
        self.folder, self.show, self.asks = folder, show, asks
        self.refused: str | None = None  # the run whose plan was answered with no
        self.seen = {shown for shown in self._shown() if not self._awaits(shown)}

    def look(self) -> None:
        """Look for new plans."""
        for shown in self._shown():
            if shown not in self.seen:
                self.seen.add(shown)
                self._show(shown)

    def _shown(self) -> list[ShownPlan]:
        from logofair.engines.shown_plans import shown_plans

        return shown_plans(self.folder)

    def _awaits(self, shown: ShownPlan) -> bool:
        """Whether a person is still to be asked."""
        from logofair.engines.shown_plans import answer_to

        return self.asks and answer_to(self.folder, shown.run, shown.fingerprint) is None

    def _show(self, shown: ShownPlan) -> None:
        from logofair.engines.shown_plans import answer_plan

        for label, sentence in shown.sentences:
            self.show(Event("plan", f"{label}: {sentence}", {"run": shown.run, "part": label}))
        if self._awaits(shown):
            agreed = click.confirm("Answer with this plan?", err=True)
            answer_plan(self.folder, shown, agreed)
            self.refused = None if agreed else shown.run
