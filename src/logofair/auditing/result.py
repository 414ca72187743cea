"""What an audit found: the table of outcomes, and the rates and gaps behind it, over all sites and at each."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from logofair.auditing.gaps import Gap, Side
from logofair.auditing.measure import Measured, Tally, value_of
from logofair.columns.checks import Label
from logofair.columns.labels import plain
from logofair.costs import Costs
from logofair.notions import Rate
from logofair.outcomes import FEW_ROWS, Outcomes
from logofair.reportable import Reportable


@dataclass(frozen=True)
class SiteAudit:
    """One site: its rows, accuracy, cost, rates, gaps, and a sentence for every rate that is undefined.

    ``gap`` is the largest of the ``gaps`` of all rates, ``large_gap`` the largest between rates that rest on 30 rows or
    more.

    Examples
    --------
    >>> from logofair.auditing import audit
    >>> audit([1, 0, 0], [1, 0, 1], sensitive_features=["M", "F", "F"], sites=["a", "a", "b"]).by_site[1].undefined
    ("selection rate of group 'M' at site 'b' is undefined: no rows",)
    """

    site: Label
    rows: int
    accuracy: Measured | None
    gap: Measured | None
    large_gap: float | None
    rates: dict[str, dict[Label, Measured | None]]
    gaps: tuple[Gap, ...]
    undefined: tuple[str, ...]
    cost: Measured | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Reportable):
    """What :func:`audit` measured; arrays are in the order of ``sites`` and ``groups``.

    Accuracy, rates and gaps are :class:`Measured`: numbers that carry their interval, the rows they rest on and, for
    gaps, the noise floor. Without ``sites=`` there is one site, ``"all"``. The ``headline_`` gaps are those that pages
    show first: between rates on 30 rows or more where there are such, so that the noise of a few people does not cover
    the gaps of many. ``score_auc`` is the chance that a row with label 1 scores above one with label 0, ties counting
    half; None where undefined. ``fitted_rows`` says that the decisions were chosen on these very rows: intervals are
    then too narrow for new ones. ``local`` and ``global_`` hold the same figures as arrays, ``costs`` what errors cost
    where that was given, ``outcomes`` whether the requirements are met on these rows. It prints as its summary.

    Examples
    --------
    >>> from logofair.auditing import audit
    >>> audit([1, 0, 0], [1, 0, 1], sensitive_features=["M", "F", "F"])
    These decisions: 3 people, F and M.
    <BLANKLINE>
    gap in points    everyone   could be   between
    selection rate      100.0   0 to 100   M over F
    <BLANKLINE>
    Gap        No gap detected: up to 100 points could hide
    Accuracy   66.7 %; could be 9 to 99
    Accepted   33 %: F 0 %, M 100 %
    <BLANKLINE>
    """

    groups: tuple[Label, ...]
    sites: tuple[Label, ...]
    local: Side
    global_: Side
    score_auc: float | None = None
    fitted_rows: bool = False
    costs: Costs | None = None
    outcomes: Outcomes = field(default_factory=Outcomes)
    _missing: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        tally: Tally,
        groups: tuple[Label, ...],
        sites: tuple[Label | None, ...],
        local: tuple[Rate, ...],
        global_: tuple[Rate, ...] | None = None,
        like: Audit | None = None,
        comparisons: tuple[int, int] | None = None,
        **others: Any,
    ) -> Audit:
        """Measure counted rows: rates of ``local`` inside sites, those of ``global_`` (by default the same) over all.

        ``sites`` is ``(None,)`` where rows have no sites. ``like`` is the audit of another rule on the same rows: its
        noise floors are taken over. ``comparisons`` are how many statements inside sites, and over all, intervals are
        corrected for; by default for the gaps measured here.
        """
        inside, over_all = comparisons or (None, None)
        rates = local if global_ is None else global_
        side = Side.of(local, groups, sites, tally, comparisons=inside, like=None if like is None else like.local)
        merged = side
        if sites != (None,) or rates != local or inside != over_all:
            floors = None if like is None else like.global_
            merged = Side.of(rates, groups, (None,), tally.merged(), comparisons=over_all, like=floors)
        return cls(groups, ("all",) if sites == (None,) else sites, side, merged, **others)

    @cached_property
    def accuracy(self) -> Measured | None:
        """Expected share of right decisions; None where undefined."""
        return self.global_.tally.measured_accuracy()

    @cached_property
    def cost(self) -> Measured | None:
        """Expected cost of a row; None where undefined, or where costs were not given."""
        return None if self.costs is None else self.local.tally.measured_cost(self.costs)

    @property
    def accepted(self) -> Measured | None:
        """Expected share of the rows that is accepted."""
        return self.global_.tally.measured_accepted()

    @property
    def rates(self) -> dict[str, dict[Label, Measured | None]]:
        """Every rate of every group over all sites together; None where undefined."""
        return self.global_.measured_rates(0)

    @cached_property
    def headline_global(self) -> Gap:
        """The largest gap of any rate over all sites together, between large groups (``Side.headline``)."""
        return self.global_.headline.worst()

    @cached_property
    def headline_local(self) -> Gap:
        """The largest gap of any rate at any site, between large groups (``Side.headline``)."""
        return self.headline_global if self.local is self.global_ else self.local.headline.worst()

    @property
    def global_gap(self) -> Measured | None:
        """The largest gap over all sites; None where all are undefined."""
        return self.headline_global.value

    @property
    def local_gap(self) -> Measured | None:
        """The largest gap at any site; None where no site has any defined gap."""
        return self.headline_local.value

    @property
    def global_gaps(self) -> tuple[Gap, ...]:
        """The gap of every rate over all sites together, all groups counted."""
        return self.global_.largest()

    @property
    def local_gaps(self) -> tuple[Gap, ...]:
        """The gap of every rate at the site where it is largest, all groups counted."""
        return self.local.largest()

    @cached_property
    def site_gaps(self) -> tuple[Gap, ...]:
        """The largest gap of any rate at every site."""
        return self.local.by_site()

    @cached_property
    def by_site(self) -> tuple[SiteAudit, ...]:
        """What was measured at every site."""
        side, costs, found = self.local, self.costs, []
        large_gaps = np.fmax.reduce(side.large.gaps, axis=0)
        for place, site in enumerate(self.sites):
            tally = side.tally.only(place)
            found.append(
                SiteAudit(
                    site=site,
                    rows=int(tally.rows.sum()),
                    accuracy=tally.measured_accuracy(),
                    cost=None if costs is None else tally.measured_cost(costs.only(place)),
                    gap=self.site_gaps[place].value,
                    large_gap=value_of(large_gaps[place]),
                    rates=side.measured_rates(place),
                    gaps=tuple(side.gap(rate, place) for rate in range(len(side.rates))),
                    undefined=tuple(side.undefined(place)),
                )
            )
        return tuple(found)

    @property
    def small_sites(self) -> int:
        """Number of sites where some group's rate rests on fewer than 30 rows."""
        return int((self.local.rows < FEW_ROWS).any(axis=(0, 2)).sum())

    @property
    def undefined_sites(self) -> int:
        """Number of sites where the gap of at least one rate is undefined."""
        return int(np.isnan(self.local.gaps).any(0).sum())

    @property
    def undefined(self) -> tuple[str, ...]:
        """A sentence for everything that could not be measured, with its reason."""
        found = [*self._missing, *self.global_.undefined(0)]
        if self.local is not self.global_:
            for place in np.flatnonzero(np.isnan(self.local.values).any((0, 2))).tolist():
                found += self.local.undefined(place)
        return tuple(dict.fromkeys(found))

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; what is undefined is None."""
        names = ("groups", "sites", "accuracy", "cost", "accepted", "score_auc", "fitted_rows", "undefined_sites")
        more = ("rates", "global_gap", "local_gap", "global_gaps", "local_gaps", "undefined")
        rows = self.local.tally.rows
        return {
            **{name: plain_figures(getattr(self, name)) for name in (*names, *more)},
            "counts": {"rows": rows.sum(2).tolist()}
            | ({"positives": rows[..., 1].tolist()} if self.local.tally.labelled else {}),
            "costs": None if self.costs is None else self.costs.as_dict(),
            "outcomes": self.outcomes.as_dict(),
            "headline": self.largest_as_dict(),
            "small": self.small_as_dict(),
            "by_site": plain_figures([vars(each) for each in self.by_site]),
        }

    def largest_as_dict(self) -> dict[str, Any]:
        """Return the largest gap over all and at any site as plain values."""
        return {"global": self.headline_global.as_dict(), "local": self.headline_local.as_dict()}

    def small_as_dict(self) -> dict[str, Any]:
        """Return how many sites and cells rest on few rows, and the rate that rests on the fewest, as plain values."""
        rows = self.local.rows
        rate, site, group = np.unravel_index(rows.argmin(), rows.shape)
        return {
            "fewer_than": FEW_ROWS,
            "sites": self.small_sites,
            "cells": int((rows < FEW_ROWS).any(axis=0).sum()),
            "smallest": {
                "rate": self.local.rates[rate].name,
                "site": plain(self.sites[site]),
                "group": plain(self.groups[group]),
                "rows": int(rows[rate, site, group]),
            },
        }

    def __repr__(self) -> str:
        return self.summary()


def measured_values(audit: Audit) -> dict[str, Any]:
    """Return an audit's rates, accuracy and headline gaps as plain values."""
    cost = {} if audit.cost is None else {"cost": audit.cost}
    gaps = {"local_gap": audit.headline_local, "global_gap": audit.headline_global}
    found: dict[str, Any] = plain_figures({"rates": audit.rates, "accuracy": audit.accuracy, **cost, **gaps})
    return found


def plain_figures(value: Any) -> Any:
    """Return nested figures as JSON has them: labels of other types as text, NaN as None."""
    if isinstance(value, Gap | Measured):
        value = value.as_dict()
    if isinstance(value, list | tuple):
        return [plain_figures(part) for part in value]
    if isinstance(value, dict):
        return {str(name): plain_figures(part) for name, part in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | int) else str(value)
