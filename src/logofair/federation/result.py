"""The result of a run: what was required, whether it holds, and all that a site needs to make its own policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from logofair import __version__
from logofair.calibration.federated import GroupMaps
from logofair.columns.checks import Floats
from logofair.federation.exchange import OF_CHANCES, OF_SHARES, RosterTotals
from logofair.federation.exchanges.final import FinalExchange, FinalFigures
from logofair.federation.global_side import GlobalRequirements
from logofair.federation.plan import Members, Plan
from logofair.fitting.pooling import GroupPriors
from logofair.policy.info import FederationInfo, OwnRowsInfo, PoolingInfo, PublishedInfo
from logofair.records import plain
from logofair.reportable import Reportable
from logofair.solvers.certificate import LARGEST_VIOLATION, Certificate, TolerancePrices

# By how much policies may seem to beat their bound: rounding of sums and of stored rules.
_BEATEN = 1e-7


@dataclass(frozen=True)
class ExcludedSite:
    """A site that was excluded: why, and in which exchange.

    Examples
    --------
    >>> from logofair.federation import Server, make_plan
    >>> server = Server.start(make_plan(groups=["F", "M"]), ["north", "south"], absent=["east"])
    >>> server.excluded[0].site, server.excluded[0].reason
    ('east', 'did not come')
    """

    site: str
    reason: str
    number: int
    purpose: str
    # Whether it was lost when its rows had been counted: calibrators, and what small cells borrow, still know them.
    known: bool = False


@dataclass(frozen=True, eq=False)
class RunResult(Reportable):
    """What a run has found; publish it, and keep it for sites that join later.

    All is derived from what the sites measured last: ``figures`` are their sums, ``final`` is what they answered then,
    with the totals of the roster, the mixture of answers, and the bound.

    Examples
    --------
    >>> from logofair.engines.inprocess import run
    >>> from logofair.federation import SiteColumns, make_plan
    >>> rows = SiteColumns(sensitive_features=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1])
    >>> plan = make_plan(groups=["F", "M"], calibration="none", smallest_cell=1, run="demo")
    >>> run(plan, {"north": rows, "south": rows}).result.holds
    True
    """

    plan: Plan
    members: Members  # whose rows the requirements over all sites are about
    excluded: tuple[ExcludedSite, ...]  # on the way
    exchanges: Mapping[str, int]  # by purpose
    final: FinalExchange
    figures: FinalFigures

    @property
    def sites(self) -> tuple[str, ...]:
        """The members by name, as the server knows them."""
        return self.members.names

    @property
    def published_members(self) -> Members:
        """The roster as sites are told of it: a number and a fingerprint, names only with secure sums."""
        return self.members if self.plan.secure else replace(self.members, names=())

    @property
    def totals(self) -> RosterTotals:
        """Rows and positives of the roster per group, and what the sites counted with."""
        return self.final.totals

    @property
    def rounds(self) -> int:
        """Rounds of answers or of Algorithm 1."""
        return self.final.rounds

    @cached_property
    def required(self) -> GlobalRequirements:
        """What was required over all sites, in numbers."""
        return self.totals.required(self.plan)

    @property
    def accuracy(self) -> float:
        """Expected accuracy of the stored policies on the sites' calibration rows, or with costs the cost per row."""
        return self.required.reported(float(self.figures.gain[0]))

    @property
    def bound(self) -> float:
        """No rule of score, group and site within the requirements has more accuracy there, or costs less."""
        return self.required.reported(self.final.bound)

    @property
    def rates(self) -> Floats:
        """The global rates of the stored policies, (groups, rates), in the order of ``plan.over_all.rates``."""
        return self.required.columns(self.figures.shares, self.figures.combinations)

    @property
    def global_gaps(self) -> Floats:
        """The global gaps, one per rate that is compared, in the user's units."""
        return self.required.gaps(self.rates)

    @property
    def violation(self) -> float:
        """Largest excess over a global requirement."""
        return self.required.excess(self.rates)

    @property
    def exceeding(self) -> int:
        """How many sites' stored policies miss a local requirement."""
        return round(float(self.figures.exceeding[0]))

    @property
    def pooling(self) -> PoolingInfo:
        """What small cells borrow; how much of a cell at most is known to its site alone."""
        return published_pooling(self.totals.maps, self.totals.priors)

    @property
    def own_rows(self) -> OwnRowsInfo:
        """What holds on the sites' own rows alone: expected accuracy or cost, and the global gaps.

        A cost is that of the plan's pair, whatever sites have set themselves; None where the plan has several, since
        which rows are whose is not known from totals.
        """
        names = [requirement.rate.name for requirement in self.plan.over_all.compared]
        if not self.figures.own.size:
            return OwnRowsInfo(self.accuracy, dict(zip(names, self.global_gaps.tolist(), strict=True)))
        accepted, positives, of_all = self.figures.own.T
        required = replace(self.required, positives=of_all)
        reached, gaps = None, self.global_gaps
        if not self.plan.site_costs:
            constant, slope = self.plan.cost_scale.row_gain
            all_accepted, all_positives, _ = self.figures.own.sum(axis=0)
            gain = float((slope * all_positives + constant * all_accepted) / self.totals.mass.sum())
            reached = required.reported(gain)
        if names:
            rates = self.plan.over_all.group_rates[: len(names)]
            base = [rate.denominator(self.totals.mass, of_all) for rate in rates]
            above = [rate.numerator(accepted, positives) for rate in rates]
            shares = np.divide(above, base, out=np.zeros((len(rates), len(of_all))), where=np.array(base) > 0).T
            gaps = required.gaps(shares)
        return OwnRowsInfo(reached, dict(zip(names, gaps.tolist(), strict=True)))

    @property
    def certificate(self) -> Certificate:
        """Accuracy, bound, gap and violation; local prices stay with the sites.

        By how much a site exceeds a local tolerance stays there too: the violation is infinite where one does.
        """
        objective = self.plan.objective
        return Certificate(
            primal=self.accuracy,
            dual=self.bound,
            optimality_gap=self.bound - self.accuracy if objective == "accuracy" else self.accuracy - self.bound,
            violation=math.inf if self.exceeding else self.violation,
            prices=TolerancePrices(
                np.array(list(self.prices_by_name.values())), np.zeros((0, len(self.plan.inside.rates)))
            ),
            basis="eta",
            precision=LARGEST_VIOLATION / float(min([1.0, *self.plan.over_all.units.tolist()])),
            largest_optimality_gap=self.plan.optimality_gap * self.plan.cost_scale.unit,
            pooling=self.pooling.prior,
            objective=objective,
            cost_unit=self.plan.cost_scale.unit,
        )

    @property
    def prices_by_name(self) -> dict[str, float]:
        """What a unit less of each global requirement wins at most, as it is typed."""
        return {str(item): price for item, price in self.required.prices(self.final.bound_prices).items()}

    @property
    def holds(self) -> bool:
        """Whether the certificate holds: every requirement is met, and the optimality gap is the one agreed on."""
        return bool(self.certificate.holds)

    @property
    def objection(self) -> str | None:
        """Why the result of an exact run cannot be published; None where it can."""
        certificate, unit = self.certificate, self.plan.cost_scale.unit
        if self.plan.solver is not None:
            return None
        if certificate.optimality_gap is not None and certificate.optimality_gap < -_BEATEN * unit:
            return f"the policies beat their own bound (optimality gap {certificate.optimality_gap:.1e})"
        if not certificate.meets_requirements:
            return f"the stored policies miss a requirement by {self.violation:.1e} ({self.exceeding} sites locally)"
        return None

    @property
    def rounding(self) -> float:
        """How far rates may be off because the totals of secure sums are rounded; 0 without them."""
        if not self.plan.secure:
            return 0.0
        step, shares = (0.5 * len(self.sites) * each for each in (OF_CHANCES, OF_SHARES))
        off = [2.0 * shares]
        for rate in self.plan.over_all.group_rates:
            base = rate.denominator(self.totals.mass, self.totals.positives)
            slope = abs(float(rate.denominator(np.zeros(1), np.ones(1))[0]))
            off += (2.0 * slope * step / base[base > 0]).tolist()
        return float(max(off))

    def in_json(self) -> dict[str, Any]:
        """Return what was required of whom, and what holds."""
        published: dict[str, Any] = plain(self.published())
        run: dict[str, Any] = published.pop("run")
        return published | run | {"sites": self.sites}

    def published(self) -> PublishedInfo:
        """What sites and their policies say of it."""
        who, certificate = self.published_members, self.certificate
        names = [r.rate.name for r in self.plan.over_all.compared]
        return PublishedInfo(
            logofair=__version__,
            run=FederationInfo(
                run=self.plan.run,
                sites=who.number,
                roster=who.digest,
                names=who.names,
                excluded=tuple({"site": e.site, "reason": e.reason, "during": e.purpose} for e in self.excluded),
                exchanges=dict(self.exchanges),
                rounds=self.rounds,
                global_gaps=dict(zip(names, self.global_gaps.tolist(), strict=True)),
                prices=self.prices_by_name,
                groups=dict(zip(map(str, self.plan.groups), self.totals.mass.tolist(), strict=True)),
                secure_sums=self.plan.secure,
                global_rates=self.required.by_name(self.rates),
                today=self.required.today_by_name,
            ),
            requirements=self.plan.published_requirements().info,
            certificate=replace(certificate.info, violation=self.violation, rounding=self.rounding),
            pooling=self.pooling,
            own_rows=self.own_rows,
        )


def published_pooling(maps: GroupMaps | None, priors: GroupPriors | None) -> PoolingInfo:
    """What small cells borrow; how much of a cell at most is known to its site alone."""
    about = PoolingInfo(strength=None if maps is None else maps.strength)
    if priors is None:
        return about
    largest = 1.0 if priors.kappa is None else None
    return replace(about, prior=priors.kind, kappa=priors.kappa, cells=priors.cells, largest_share=largest)
