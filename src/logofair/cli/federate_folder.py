"""What a server's folder and its command line together say: a new run, the same run again, or a contradiction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logofair.cli.federate_plan import check_same, planned

if TYPE_CHECKING:
    from logofair.engines.folder import Terms
    from logofair.federation import Plan

__all__ = ["PLAN", "RESULT", "STATE", "Invitation", "prepare"]

PLAN, STATE, RESULT = "plan.json", "state.json", "result.json"


@dataclass(frozen=True)
class Invitation:
    """Whom a server waits for and how long; None and empty where the command line says nothing.

    Examples
    --------
    >>> Invitation(sites=("north", "south")).terms().sites
    ('north', 'south')
    """

    sites: tuple[str, ...] = ()
    count: int | None = None
    wait: float | None = None
    timeout: float | None = None

    def terms(self, stored: Terms | None = None) -> Terms:
        """The terms of the run: as stored, but for what the command line says."""
        from logofair.engines.folder import Terms

        said = {name: value for name, value in vars(self).items() if value not in (None, ())}
        if self.count is not None:
            said["sites"] = ()
        return replace(stored or Terms(), **said)


def prepare(
    folder: Path, wishes: Mapping[str, Any], invitation: Invitation, without: Sequence[str] = ()
) -> tuple[Plan, Terms]:
    """Return the plan and terms to run: those stored in a folder, or new ones; nothing is written.

    Examples
    --------
    >>> plan, terms = prepare(Path("no-such-folder"), {"groups": ("F", "M")}, Invitation(count=3))
    >>> plan.groups, terms.count
    (('F', 'M'), 3)
    """
    from logofair.engines.folder import read_plan
    from logofair.inputs import InputError

    if (folder / PLAN).exists():
        plan, stored = read_plan(folder / PLAN)
        check_same(wishes, plan, folder)
        terms = invitation.terms(stored)
        _check_roster(folder, plan, stored, terms, without)
        return plan, terms
    for there in (folder / STATE, folder / RESULT):
        if there.exists():
            raise InputError(f"{there}: is there without its {PLAN}; restore it, or use another --folder.")
    if without:
        raise InputError(f"--without: there is no stopped run in {folder}; leave it out to start one.")
    if not wishes.get("groups"):
        raise InputError("--groups: missing; name the groups the sites compare, such as --groups Female,Male.")
    if not invitation.sites and invitation.count is None:
        raise InputError("--sites: missing; name the sites to wait for, or pass their number with --expect.")
    plan, terms = planned(wishes), invitation.terms()
    _check_enough(plan, terms)
    return plan, terms


def _check_enough(plan: Plan, terms: Terms) -> None:
    from logofair.inputs import InputError

    coming = len(terms.sites) or terms.count
    if coming < plan.quorum:
        raise InputError(f"--sites: {coming} are expected, but the run needs {plan.quorum} (--quorum); name more.")
    strangers = [site for site, _ in plan.overrides if terms.sites and site not in terms.sites]
    if strangers:
        raise InputError(f"--local-for: names site {strangers[0]!r}, which is not among --sites; correct one of them.")


def _check_roster(folder: Path, plan: Plan, stored: Terms, terms: Terms, without: Sequence[str]) -> None:
    """A run that has begun keeps its sites; one that has not can still wait for others."""
    from logofair.engines.folder import read_state
    from logofair.inputs import InputError

    if (folder / RESULT).exists():
        if without:
            raise InputError(f"--without: run {plan.run} in {folder} has ended; start another run without that site.")
        return
    if not (folder / STATE).exists():
        if without:
            raise InputError(f"--without: run {plan.run} has not begun; name those to wait for with --sites.")
        _check_enough(plan, terms)
        return
    if (terms.sites, terms.count) != (stored.sites, stored.count):
        raise InputError(
            f"--sites: run {plan.run} in {folder} has begun with its own; leave it out, or take one out with --without."
        )
    known = read_state(folder / STATE).server
    unknown = [site for site in without if site not in (*known.sites, *(each.site for each in known.lost))]
    if unknown:
        raise InputError(f"--without: {unknown[0]!r} is not in the run; it has {', '.join(known.sites)}.")
