"""The result of a run: what was promised, whether it holds, and all that a site needs to make its own policy."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair._version import __version__
from logofair.calibration.levels import GroupMaps
from logofair.columns.checks import Floats
from logofair.errors import InputError
from logofair.federation.expected import global_rates
from logofair.federation.messages import FinalFigures, Model, Totals
from logofair.federation.phases import Finished, global_bounds
from logofair.federation.plan import Plan
from logofair.federation.wire import carried, decode, encode
from logofair.solvers.certificate import LARGEST_VIOLATION, Certificate, TolerancePrices

__all__ = ["ExcludedSite", "RunResult"]


@carried
@dataclass(frozen=True)
class ExcludedSite:
    """A site that was excluded: why, and in which exchange."""

    site: str
    reason: str
    number: int
    purpose: str


@carried
@dataclass(frozen=True, eq=False)
class RunResult:
    """What a run has found; publish it, and keep it for sites that join later.

    Parameters
    ----------
    plan : Plan
        What was agreed on.
    sites : tuple of str
        Whose rows the global promise is about.
    lost : tuple of Lost
        Who was excluded on the way.
    exchanges : mapping of str to int
        Exchanges by purpose (training, calibration, totals, answers or steps, settlement).
    accuracy, bound : float
        Expected accuracy of the stored policies, measured by the sites; no rule within the tolerances has more than
        ``bound``.
    gaps : array
        Global gaps of the stored policies, one per constrained rate, in the user's units.
    violation : float
        Largest excess of a global gap over its tolerance.
    broken : int
        Sites that could not keep their local tolerances (0).
    rounds : int
        Rounds of answers or of Algorithm 1.
    duals : array
        The prices of the global rates that prove the bound, (groups, rates).
    prices, weights : arrays
        The mixture: which answers count, and how much.
    mass, positives : arrays
        Totals of the roster per group.
    maps, model
        Group-level calibrators and trained model, where there are any.
    """

    plan: Plan
    sites: tuple[str, ...]
    lost: tuple[ExcludedSite, ...]
    exchanges: Mapping[str, int]
    accuracy: float
    bound: float
    gaps: Floats
    violation: float
    broken: int
    rounds: int
    duals: Floats
    prices: Floats
    weights: Floats
    mass: Floats
    positives: Floats
    maps: GroupMaps | None
    model: Model | None

    @classmethod
    def of(
        cls,
        plan: Plan,
        sites: tuple[str, ...],
        lost: tuple[ExcludedSite, ...],
        exchanges: Mapping[str, int],
        end: Finished,
    ) -> RunResult:
        """Put the result of a finished run together."""
        settling, standing = end.settling, end.settling.standing
        return cls(
            plan=plan,
            sites=sites,
            lost=lost,
            exchanges=exchanges,
            accuracy=standing.baseline + float(end.settled.gain[0]),
            bound=standing.baseline + settling.bound,
            gaps=end.gaps,
            violation=end.violation,
            broken=round(float(end.settled.broken[0])),
            rounds=settling.rounds,
            duals=settling.duals,
            prices=settling.prices,
            weights=settling.weights,
            mass=standing.mass,
            positives=standing.positives,
            maps=standing.before.maps,
            model=standing.before.model,
        )

    @property
    def certificate(self) -> Certificate:
        """Accuracy, bound, gap and violation; local prices stay with the sites."""
        _, units = global_bounds(self.plan)
        prices = TolerancePrices(0.5 * np.abs(self.duals).sum(axis=0) * units, np.zeros((0, len(self.plan.local))))
        precision = LARGEST_VIOLATION / float(min([1.0, *units.tolist()]))
        gap = self.bound - self.accuracy
        return Certificate(self.accuracy, self.bound, gap, self.violation, prices, "eta", precision)

    @property
    def rounding(self) -> float:
        """How far rates may be off because the totals of secure sums are rounded; 0 without them."""
        if not self.plan.secure:
            return 0.0
        step = 0.5 * len(self.sites) * Totals.steps_of([(1,), (1,)])[1]  # of the expected positives
        shares = 0.5 * len(self.sites) * FinalFigures.steps_of([(1,), (1, 1), (1,)])[1]
        off = [2.0 * shares]
        for rate in global_rates(self.plan):
            base = rate.denominator(self.mass, self.positives)
            slope = abs(float(rate.denominator(np.zeros(1), np.ones(1))[0]))
            off += (2.0 * slope * step / base[base > 0]).tolist()
        return float(max(off))

    @property
    def holds(self) -> bool:
        """Whether every promise is kept, and the gap is the one that was agreed on."""
        certificate = self.certificate
        return certificate.optimality_gap <= self.plan.optimality_gap and self.meets_requirements

    @property
    def meets_requirements(self) -> bool:
        """Whether every local and global gap is within its tolerance."""
        return self.violation <= self.certificate.precision and self.broken == 0

    def summary(self) -> dict[str, Any]:
        """Plain values for people and files: what was promised to whom, and what holds."""
        certificate = self.certificate
        names = [r.rate.name for r in self.plan.global_ if r.tolerance is not None]
        return {
            "logofair": __version__,
            "run": self.plan.run,
            "requirements": self.plan.requirements(self.sites).as_dict(),
            "sites": list(self.sites),
            "lost": [{"site": each.site, "reason": each.reason, "during": each.purpose} for each in self.lost],
            "exchanges": dict(self.exchanges),
            "rounds": self.rounds,
            "certificate": {
                "primal": self.accuracy,
                "dual": self.bound,
                "optimality_gap": certificate.optimality_gap,
                "violation": self.violation,
                "rounding": self.rounding,
                "basis": certificate.basis,
                "holds": self.holds,
            },
            "global_gaps": dict(zip(names, self.gaps.tolist(), strict=True)),
            "prices": dict(zip(names, certificate.prices.global_.tolist(), strict=True)),
            "groups": dict(zip(map(str, self.plan.groups), self.mass.tolist(), strict=True)),
            "secure_sums": self.plan.secure,
        }

    def as_json(self) -> dict[str, Any]:
        """The summary, and all that a site needs to make its own policy later."""
        return {"summary": self.summary(), "outcome": base64.b64encode(encode(self)).decode()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunResult:
        """The inverse of :meth:`as_json`."""
        try:
            outcome = decode(base64.b64decode(data["outcome"], validate=True))
        except (LookupError, TypeError, ValueError):
            raise InputError("result: its contents are damaged; get the file again from the server.") from None
        if not isinstance(outcome, cls):
            raise InputError("result: holds something else than a result; get the file again from the server.")
        return outcome
