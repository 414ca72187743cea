"""Rows and expected positives of the roster: what all answers are shares of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from logofair.calibration.federated import GroupMaps
from logofair.cells.cells import Cells
from logofair.columns.checks import Floats
from logofair.errors import InfeasibleError, RefusedError
from logofair.federation.batch import ClientBatch, ClientState, inside
from logofair.federation.exchange import (
    MOST_ROWS,
    OF_CHANCES,
    OF_ROWS,
    OF_SHARES,
    ROUNDING,
    Context,
    Disclosure,
    Exchange,
    GroupCounts,
    Refusal,
    Request,
    RosterTotals,
    Sums,
)
from logofair.federation.exchanges.algorithm1 import SmoothnessExchange, SmoothnessRequest, StepsExchange
from logofair.federation.exchanges.answers import PricingExchange
from logofair.federation.plan import Plan
from logofair.fitting.pooling import GroupPriors
from logofair.solvers.joint import least_slack
from logofair.solvers.local import solve_local
from logofair.solvers.problem import make_problem, unconstrained

# Requirements that give way by less inside all sites together are met but for rounding.
_SLACK = 1e-8


@dataclass(frozen=True, eq=False)
class TotalsRequest(Request):
    """Rows of each group, and the positives expected among them; ``priors`` where small cells borrow."""

    maps: GroupMaps | None = None
    priors: GroupPriors | None = None


@dataclass(frozen=True, eq=False)
class Totals(Sums):
    """Once per roster: from these the server knows the groups' shares and base rates."""

    impossible = "sent a number of rows that cannot be"
    mass: Annotated[Floats, Disclosure("weight of the rows of each group", "groups", OF_ROWS, 0, MOST_ROWS)]
    positives: Annotated[Floats, Disclosure("sum of eta over the rows of each group", "groups", OF_CHANCES)]
    today: Annotated[
        Floats,
        Disclosure(
            "where a rate over all has to be what it is without any requirement: what the rows that are then accepted "
            "count in it",
            "groups today",
            OF_CHANCES,
        ),
    ]
    slack: Annotated[
        Floats,
        Disclosure(
            "where floors, ceilings or capacities hold inside sites: the least sum by which requirements there would "
            "have to give way, 0 where some rule meets them",
            "inside",
            OF_SHARES,
        ),
    ]

    @property
    def row_counts(self) -> GroupCounts:
        """Rows and positives."""
        return GroupCounts(self.mass, self.positives)

    def wrong(self, context: Context) -> str | None:
        """The rows of before, no more positives than rows, no more accepted than there are."""
        counts, plan, slack = context.counts, context.plan, ROUNDING * (1.0 + self.mass)
        known = counts is not None and (plan.calibration != "none" or plan.pooling == "auto")
        if counts is not None and known and np.any(np.abs(self.mass - counts.mass) > slack):
            return "claims another number of rows than before"
        if np.any(self.positives < -slack) or np.any(self.positives > self.mass + slack):
            return "sent more expected positives than rows, or fewer than none"
        for rate, accepted in zip(plan.over_all.today, self.today.T, strict=True):
            if np.any(accepted < -slack) or np.any(accepted > rate.denominator(self.mass, self.positives) + slack):
                return "claims that more is accepted today than there is"
        return "sent a slack below 0" if self.slack.min(initial=0.0) < 0 else None


@dataclass(frozen=True, eq=False)
class TotalsExchange(Exchange, request=TotalsRequest, reply=Totals):
    """Rows and expected positives of the roster; ``prices`` were sent to a roster before this one."""

    request: TotalsRequest
    prices: Floats | None = None
    name = "totals"

    def with_strength(self, strength: float) -> TotalsExchange:
        """The same with calibrators that hold cells to their groups by so many rows."""
        maps = self.request.maps
        if maps is None:
            return self
        return replace(self, request=replace(self.request, maps=replace(maps, strength=strength)))

    @staticmethod
    def answer(batch: ClientBatch, request: TotalsRequest) -> tuple[ClientBatch, Totals]:
        """Calibrate, borrow, and count."""
        if request.priors is not None and batch.state.plan.pooling == "none":
            raise RefusedError(Refusal.OUT_OF_TURN)
        state = replace(batch.state, maps=request.maps)
        state = replace(state, releases=batch.preparation.releases(state.releases))
        opened = replace(state.opened(state.roster), priors=request.priors, pooling_steps=state.pooling_steps)
        after = replace(batch, state=opened, derived=None)
        after = replace(after, derived=after.derive())
        cells, shape = after.derive().cells, (len(state.sites), len(state.plan.groups))
        rates, mass, today = state.plan.over_all.today, cells.mass.reshape(shape), np.zeros((*shape, 0))
        if rates:  # what the rows accepted without any requirement count in them
            u, v = unconstrained(cells, make_problem(inside(opened.requirements, cells), cells).row_worth)
            today = np.stack([rate.numerator(mass * u, mass * v) for rate in rates], axis=2)
        totals = Totals(
            mass=mass,
            positives=cells.positives.reshape(shape),
            today=today,
            slack=_least_slack(cells, opened),
        )
        return after, totals

    def take(self, total: Totals, plan: Plan, sites: int) -> Exchange:
        """Begin with prices, or with Algorithm 1.

        Raises
        ------
        InfeasibleError
            Where what is required inside sites cannot be met at some of them.
        """
        slack, where = float(total.slack.sum()), "what is required inside sites"
        if slack > _SLACK:  # at how many sites, and which, is not known from a sum
            raise InfeasibleError(
                {where: slack},
                f"requirements: no rule meets all of them: {where} cannot be met at some site; in all sites together "
                f"its rates would have to give way by {slack:.4g} at least, and each site can see its own part by "
                "fitting its own rows.",
            )
        maps, priors = self.request.maps, self.request.priors
        totals = RosterTotals(total.mass, total.positives, sites, today=total.today, maps=maps, priors=priors)
        if plan.solver is None:
            return PricingExchange.start(totals, plan, self.prices)
        if plan.solver.step is None:
            return SmoothnessExchange(SmoothnessRequest(total.mass, total.positives), totals)
        return StepsExchange.start(totals, plan, float(plan.solver.step))

    def survives_dropout(self, plan: Plan) -> bool:
        """Totals of those who remain, unless calibrators or priors hold the excluded rows too."""
        return self.request.maps is None and self.request.priors is None and not plan.secure


def _least_slack(cells: Cells, state: ClientState) -> Floats:
    """By how much the sites' own requirements would have to give way, (sites, 1); none where they can be met.

    Only floors, ceilings and capacities can fail: all else allows to reject everybody.
    """
    sites = len(state.sites)
    if not state.plan.inside.limited:
        return np.zeros((sites, 0))
    found = np.zeros((sites, 1))
    for number, site in enumerate(state.sites):
        own = cells.of_sites(np.array([number]))
        one = make_problem(inside(replace(state, sites=(site,)).requirements, own), own).tied()
        if not solve_local(one, *one.gain).sound:
            found[number] = least_slack(one)
    return found
