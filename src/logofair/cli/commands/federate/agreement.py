"""What a site's people agree to on the command line: limits, and the plan that is shown to them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from logofair.cli.options import constrained
from logofair.engines.events import Event, Tell
from logofair.errors import InputError

if TYPE_CHECKING:
    from logofair.engines.shown_plans import ShownPlan
    from logofair.federation.limits import SiteLimits

__all__ = ["PlanViewer", "limits_of"]


def limits_of(
    accept_plan: str | None, site_policy: Path | None, local_tolerance: float | None
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
        limits = replace(limits, local_tolerance=constrained(local_tolerance))
    if accept_plan is None:
        return limits, asks
    try:
        return replace(limits, plan=read_fingerprint(accept_plan)), asks
    except InputError as error:
        raise InputError(f"--accept-{error}") from None


class PlanViewer:
    """Shows the plans that come to a site, each once; where its people are asked, the answer is stored for the site."""

    def __init__(self, folder: Path, show: Tell, *, asks: bool) -> None:
        self.folder, self.show, self.asks = folder, show, asks
        self.refused: str | None = None  # the run whose plan was answered with no
        self.seen = {shown.fingerprint for shown in self._shown()} if not asks else set()

    def look(self) -> None:
        """Look for new plans."""
        for shown in self._shown():
            if shown.fingerprint not in self.seen:
                self.seen.add(shown.fingerprint)
                self._show(shown)

    def _shown(self) -> list[ShownPlan]:
        from logofair.engines.shown_plans import shown_plans

        return shown_plans(self.folder)

    def _show(self, shown: ShownPlan) -> None:
        from logofair.engines.shown_plans import answer_plan, answer_to

        if self.asks and answer_to(self.folder, shown.run, shown.fingerprint) is not None:
            return
        for label, sentence in shown.sentences:
            self.show(Event("plan", f"{label}: {sentence}", {"run": shown.run, "part": label}))
        if self.asks:
            agreed = click.confirm("Answer with this plan?", err=True)
            answer_plan(self.folder, shown, agreed)
            self.refused = None if agreed else shown.run
