"""The result of a run: what was required, whether it holds, and all that a site needs to make its own policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from logofair import __version__
from logofair.columns.checks import Floats
from logofair.federation.exchange import OF_CHANCES, OF_SHARES, RosterTotals
from logofair.federation.global_side import GlobalRequirements
from logofair.federation.plan import Members, Plan
from logofair.federation.published import published_pooling
from logofair.policy.info import FederationInfo, OwnRowsInfo, PoolingInfo, PublishedInfo
from logofair.records import plain
from logofair.reportable import Reportable
from logofair.solvers.certificate import LARGEST_VIOLATION, Certificate, TolerancePrices


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

    Parameters
    ----------
    plan : Plan
        What was agreed on.
    sites : tuple of str
        Whose rows the global requirements are about.
    excluded : tuple of ExcludedSite
        Who was excluded on the way.
    exchanges : mapping of str to int
        Exchanges by purpose (calibration, pooling, totals, answers or steps, final).
    accuracy, bound : float
        Expected accuracy of the stored policies on the sites' calibration rows, measured by the sites; no rule of
        score, group and site within the requirements has more than ``bound`` there. With costs: the cost per row, and
        no rule has less.
    global_gaps : array
        Global gaps of the stored policies, one per constrained rate, in the user's units.
    violation : float
        Largest excess over a global requirement.
    exceeding : int
        Sites whose stored policy misses a local requirement (0).
    rounds : int
        Rounds of answers or of Algorithm 1.
    bound_prices : array
        The prices of the global rates that prove the bound, (groups, rates).
    prices, weights : arrays
        The mixture: which answers count, and how much.
    totals : RosterTotals
        Rows and positives of the roster per group, what is accepted where nothing is required, and, where there are
        any, the group-level calibrators and what small cells borrow from.
    own : array
        With pooling, on the sites' own rows alone and per group: weight accepted, positives expected among them, and in
        all, (groups, 3).
    rates : array
        The global rates of the stored policies, (groups, rates), in the order of ``plan.over_all.rates``.

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
    sites: tuple[str, ...]
    excluded: tuple[ExcludedSite, ...]
    exchanges: Mapping[str, int]
    accuracy: float
    bound: float
    global_gaps: Floats
    violation: float
    exceeding: int
    rounds: int
    bound_prices: Floats
    prices: Floats
    weights: Floats
    totals: RosterTotals
    own: Floats
    rates: Floats

    @property
    def required(self) -> GlobalRequirements:
        """What was required over all sites, in numbers."""
        return self.totals.required(self.plan)

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
        if not self.own.size:
            return OwnRowsInfo(self.accuracy, dict(zip(names, self.global_gaps.tolist(), strict=True)))
        accepted, positives, of_all = self.own.T
        required = replace(self.required, positives=of_all)
        reached, gaps = None, self.global_gaps
        if not self.plan.site_costs:
            constant, slope = self.plan.cost_scale.row_gain
            all_accepted, all_positives, _ = self.own.sum(axis=0)
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
        return {str(item): price for item, price in self.required.prices(self.bound_prices).items()}

    @property
    def holds(self) -> bool:
        """Whether the certificate holds: every requirement is met, and the optimality gap is the one agreed on."""
        return bool(self.certificate.holds)

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

    def as_dict(self) -> dict[str, Any]:
        """Plain values for files: what was required of whom, and what holds."""
        published: dict[str, Any] = plain(self.published())
        run: dict[str, Any] = published.pop("run")
        return published | run | {"sites": list(self.sites)}

    def published(self) -> PublishedInfo:
        """What the sites are sent of it: the roster as a number and a fingerprint, its names only with secure sums."""
        who, certificate = Members.of(self.sites, named=self.plan.secure), self.certificate
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
