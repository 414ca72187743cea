"""What all exchanges know that come before the totals of their roster, and after them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logofair.calibration.federated import GroupMaps
from logofair.columns.checks import Floats
from logofair.federation.exchange import ROUNDING, Exchange, GroupCounts, combination_limits, share_limits
from logofair.federation.global_side import GlobalRequirements
from logofair.federation.plan import Plan
from logofair.fitting.pooling import GroupPriors


@dataclass(frozen=True, eq=False)
class RosterTotals:
    """The totals of a roster, and what its sites counted with."""

    mass: Floats
    positives: Floats
    sites: int
    today: Floats  # what is accepted where nothing is required, (groups, rates of today)
    maps: GroupMaps | None = None
    priors: GroupPriors | None = None  # where small cells borrow

    @property
    def counts(self) -> GroupCounts:
        """The rows of the roster."""
        return GroupCounts(self.mass, self.positives, self.sites)

    def required(self, plan: Plan) -> GlobalRequirements:
        """What is required over all sites."""
        return GlobalRequirements(plan, self.mass, self.positives, self.today)


class BeforeTotals(Exchange):
    """An exchange up to the totals of its roster; it keeps prices worth sending then, from a roster before this one."""

    prices: Floats | None

    def telling(self, plan: Plan) -> Floats | None:
        """The same prices."""
        return self.prices


class AfterTotals(Exchange):
    """An exchange that knows the totals of its roster: the answers of sites are void without one of them."""

    totals: RosterTotals


def beyond_rows(
    gain: Floats, shares: Floats, combinations: Floats, plan: Plan, counts: GroupCounts, roster: GroupCounts
) -> str | None:
    """What so many rows cannot reach: gains, parts of combinations of rates, and shares of groups' rates."""
    own = counts.mass.sum() / roster.mass.sum() + ROUNDING
    if np.abs(gain).max(initial=0.0) > own:
        return "claims more accuracy than its rows allow"
    least, most = combination_limits(plan.combinations, counts, roster)
    if np.any(combinations < least) or np.any(combinations > most):
        return "claims a part of a limited rate that its rows do not allow"
    low, high = share_limits(plan.group_rates, counts, roster)
    if np.any(shares < low) or np.any(shares > high):
        return "claims a larger share of a group's rate than its rows allow"
    return None
