"""What an audit found, as figures, tables for people and plain values for JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.judging import CountedRules, judge, looked_at
from logofair.auditing.measure import Gap, Measured, Side, Tally, side_of, text, value_of
from logofair.columns.checks import Floats, Label
from logofair.columns.labels import plain
from logofair.columns.segments import Booleans, Indices
from logofair.costs import Costs
from logofair.notions import Notion, Rate
from logofair.outcomes import FEW_ROWS, TEST_ROWS, Outcomes
from logofair.reportable import Reportable
from logofair.requirement import Requirement

FITTED_ROWS = "measured on the rows that chose the rule: these intervals are too narrow for new rows"
_LISTED = 20  # lines of a list for people


@dataclass(frozen=True)
class SiteAudit:
    """One site: its rows, accuracy, cost, rates, largest gap, the gap of every rate, and undefined rates in words.

    ``large_gap`` is the largest gap between rates that rest on 30 rows or more.

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
class SiteTable:
    """The sites of an audit, in order; a row is built when asked for, and printing shows the first 20.

    Examples
    --------
    >>> from logofair.auditing import audit
    >>> audit([1, 0, 0], [1, 0, 1], sensitive_features=["M", "F", "F"], sites=["a", "a", "b"]).by_site
    site  rows  accuracy  gap
    a     2     1.0000    1.0000
    b     1     0.0000    undefined
    """

    sites: tuple[Label, ...]
    _side: Side
    _costs: Costs | None = None

    def __len__(self) -> int:
        return len(self.sites)

    def __getitem__(self, index: int) -> SiteAudit:
        place = range(len(self))[index]
        gaps = tuple(self._side.gap(rate, place) for rate in range(len(self._side.rates)))
        tally, costs = self._side.tally.only(place), self._costs
        return SiteAudit(
            site=self.sites[place],
            rows=int(self._side.tally.rows[place].sum()),
            accuracy=tally.measured_accuracy(),
            cost=None if costs is None else tally.measured_cost(costs.only(place)),
            gap=self._worst[place].value,
            large_gap=value_of(_largest(self._side.large.gaps[:, place])),
            rates=self._side.measured_rates(place),
            gaps=gaps,
            undefined=tuple(self._side.undefined(place)),
        )

    @cached_property
    def _worst(self) -> tuple[Gap, ...]:
        return self._side.by_site()

    def __iter__(self) -> Iterator[SiteAudit]:
        return (self[place] for place in range(len(self)))

    def __repr__(self) -> str:
        rates = self._side.rates if len(self._side.rates) > 1 else ()
        cost = [] if self._costs is None else ["cost"]
        lines = [["site", "rows", "accuracy", *cost, "gap", *(f"gap of {rate.name}" for rate in rates)]]
        for row in islice(self, _LISTED):
            spent = [row.cost] if cost else []
            figures = (row.accuracy, *spent, row.gap, *(gap.value for gap in row.gaps[: len(rates)]))
            lines.append([str(row.site), str(row.rows), *map(text, figures)])
        return aligned(lines) + (f"\n... and {len(self) - _LISTED} more" if len(self) > _LISTED else "")

    def as_dicts(self) -> list[dict[str, Any]]:
        """Return every row as plain values, ready for JSON."""
        return [_plain(vars(row)) for row in self]


@dataclass(frozen=True)
class RateRows:
    """A rate of a group at a site, and how many rows count in it."""

    rate: str
    site: Label
    group: Label
    rows: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"rate": self.rate, "site": plain(self.site), "group": plain(self.group), "rows": self.rows}


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Reportable):
    """What :func:`audit` measured; arrays are in the order of ``sites`` and ``groups``.

    Accuracy, rates and gaps are :class:`Measured`: numbers that carry their interval, the rows they rest on and, for
    gaps, the noise floor. Without ``sites=`` there is one site, ``"all"``. ``headline_...`` gaps are what pages
    tell first: between rates on 30 rows or more where there are such, so that a few people hide nobody. ``score_auc``
    is the chance that a row with label 1 scores above one with label 0, ties counting half; None where undefined.
    ``fitted_rows`` says that the decisions were chosen on these very rows: intervals are then too narrow for new ones.
    ``local`` and ``global_`` hold the same figures as arrays, ``costs`` what errors cost where that was given,
    ``outcomes`` whether what was required is kept on these rows. It prints as its summary.

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
        together: tuple[int, int] | None = None,
        **others: Any,
    ) -> Audit:
        """Measure counted rows; ``sites`` is ``(None,)`` where there are none, ``global_`` None: as ``local``.

        ``like`` is the audit of another rule on the same rows, whose noise floors serve; ``together`` how many
        statements are judged together inside sites and over all, where these gaps are not all.
        """
        counts = (None, None) if together is None else together
        side = side_of(local, groups, sites, tally, None if like is None else like.local, counts[0])
        rates = local if global_ is None else global_
        same = sites == (None,) and rates == local and counts[0] == counts[1]
        likewise = None if like is None else like.global_
        merged = side if same else side_of(rates, groups, (None,), tally.merged(), likewise, counts[1])
        return cls(groups, ("all",) if sites == (None,) else sites, side, merged, **others)

    @cached_property
    def accuracy(self) -> Measured | None:
        """Expected share of right decisions; None where undefined."""
        return self.global_.tally.measured_accuracy()

    @cached_property
    def cost(self) -> Measured | None:
        """Expected cost of a row; None where undefined, or where nobody said what errors cost."""
        return None if self.costs is None else self.local.tally.measured_cost(self.costs)

    @property
    def accepted(self) -> Measured | None:
        """Expected share of the rows that is accepted."""
        return self.global_.tally.measured_accepted()

    @cached_property
    def by_site(self) -> SiteTable:
        """A table with a row per site."""
        return SiteTable(self.sites, self.local, self.costs)

    @cached_property
    def headline_global(self) -> Gap:
        """The largest gap of any rate over all sites together (``Side.headline``)."""
        return self.global_.headline.worst()

    @cached_property
    def headline_local(self) -> Gap:
        """The largest gap of any rate at any site (``Side.headline``)."""
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

    @property
    def rows_behind(self) -> dict[str, Indices]:
        """How many rows count in every rate of :attr:`local_rates`, as (sites, groups) arrays."""
        return {rate.name: rows.copy() for rate, rows in zip(self.local.rates, self.local.rows, strict=True)}

    @property
    def small_cells(self) -> Booleans:
        """Which cells have a rate that rests on fewer than 30 rows, or none, as a (sites, groups) array."""
        return np.asarray((self.local.rows < FEW_ROWS).any(axis=0))

    @property
    def small_sites(self) -> int:
        """Number of sites with such a cell."""
        return int(self.small_cells.any(axis=1).sum())

    @property
    def smallest(self) -> RateRows:
        """The rate, site and group that rest on the fewest rows."""
        rows = self.local.rows
        rate, site, group = np.unravel_index(rows.argmin(), rows.shape)
        name = self.local.rates[rate].name
        return RateRows(name, self.sites[site], self.groups[group], int(rows[rate, site, group]))

    @property
    def undefined_sites(self) -> int:
        """Number of sites where the gap of at least one rate is undefined."""
        return int(np.isnan(self.local.gaps).any(0).sum())

    @property
    def rates(self) -> dict[str, dict[Label, Measured | None]]:
        """Every rate of every group over all sites together; None where undefined."""
        return self.global_.measured_rates(0)

    @property
    def local_rates(self) -> dict[str, Floats]:
        """Every rate as a (sites, groups) array; NaN where undefined."""
        return {rate.name: values.copy() for rate, values in zip(self.local.rates, self.local.values, strict=True)}

    @property
    def counts(self) -> dict[str, npt.NDArray[np.intp]]:
        """Unweighted ``"rows"`` and, with labels, ``"positives"`` of every cell as (sites, groups) arrays."""
        tally = self.local.tally
        return {"rows": tally.rows.sum(2)} | ({"positives": tally.rows[..., 1].copy()} if tally.labelled else {})

    @property
    def undefined(self) -> tuple[str, ...]:
        """A sentence for everything that could not be measured, with its reason."""
        return tuple(dict.fromkeys(self._undefined()))

    def _undefined(self) -> Iterator[str]:
        yield from self._missing
        yield from self.global_.undefined(0)
        if self.local is not self.global_:
            for place in np.flatnonzero(np.isnan(self.local.values).any((0, 2))).tolist():
                yield from self.local.undefined(place)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON; what is undefined is None."""
        names = ("groups", "sites", "accuracy", "cost", "accepted", "score_auc", "fitted_rows", "undefined_sites")
        gaps = ("rates", "global_gap", "local_gap", "global_gaps", "local_gaps")
        found = {name: getattr(self, name) for name in (*names, *gaps, "counts", "undefined")}
        found["costs"] = None if self.costs is None else self.costs.as_dict()
        found["outcomes"] = self.outcomes.as_dict()
        found["headline"] = {"global": self.headline_global, "local": self.headline_local}
        return {**_plain(found), "small": self.small_as_dict(), "by_site": self.by_site.as_dicts()}

    def largest_as_dict(self) -> dict[str, Any]:
        """Return the largest gap over all and at any site as plain values."""
        return {"global": self.headline_global.as_dict(), "local": self.headline_local.as_dict()}

    def small_as_dict(self) -> dict[str, Any]:
        """Return how many sites and cells are small, and the smallest, as plain values."""
        return {
            "fewer_than": FEW_ROWS,
            "sites": self.small_sites,
            "cells": int(self.small_cells.sum()),
            "smallest": self.smallest.as_dict(),
        }

    def __repr__(self) -> str:
        return self.summary()


@dataclass(frozen=True, eq=False)
class RuleAudit:
    """One decision rule on counted rows: accuracy, cost, the share accepted, and an audit for each of some notions."""

    tally: Tally
    by_notion: dict[str, Audit]
    costs: Costs | None = None
    outcomes: Outcomes = field(default_factory=Outcomes)

    @classmethod
    def of(
        cls,
        tally: Tally,
        groups: tuple[Label, ...],
        sites: tuple[Label | None, ...],
        notions: Iterable[Notion],
        costs: Costs | None = None,
        requirements: tuple[Requirement, ...] = (),
        shares: Mapping[Requirement, float] | None = None,
    ) -> RuleAudit:
        """Measure every notion, without labels those that need none, and judge requirements; all judged together."""
        measured = [notion for notion in notions if tally.labelled or not notion.needs_labels]
        rates = tuple(dict.fromkeys(rate for notion in measured for rate in notion.rates))
        rules = CountedRules(tally, groups, sites)
        together = looked_at(requirements, rules, rates, rates)
        audits = {
            notion.name: Audit.of(tally, groups, sites, notion.rates, together=together, costs=costs)
            for notion in measured
        }
        return cls(tally, audits, costs, judge(requirements, rules, TEST_ROWS, shares=shares, together=together))

    @property
    def accuracy(self) -> Measured | None:
        """Expected share of right decisions; None without labels."""
        return self.tally.measured_accuracy()

    @property
    def cost(self) -> Measured | None:
        """Expected cost of a row; None without labels, or where nobody said what errors cost."""
        return None if self.costs is None else self.tally.measured_cost(self.costs)

    @property
    def accepted(self) -> Measured | None:
        """Expected share of the rows that is accepted."""
        return self.tally.measured_accepted()

    @property
    def rates(self) -> dict[str, dict[Label, Measured | None]]:
        """Every rate of every group over all sites together; None where undefined."""
        return {name: row for audit in self.by_notion.values() for name, row in audit.rates.items()}

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        gaps = {name: audit.largest_as_dict() for name, audit in self.by_notion.items()}
        names = ("rates", "accuracy", "cost", "accepted")
        return {
            **_plain({name: getattr(self, name) for name in names}),
            "gaps": gaps,
            "outcomes": self.outcomes.as_dict(),
        }


def measured_values(audit: Audit) -> dict[str, Any]:
    """Return an audit's rates, accuracy and the gaps told first as plain values."""
    rates = {
        rate: {str(group): None if found is None else found.as_dict() for group, found in row.items()}
        for rate, row in audit.rates.items()
    }
    return {
        "rates": rates,
        "accuracy": None if audit.accuracy is None else audit.accuracy.as_dict(),
        **({} if audit.cost is None else {"cost": audit.cost.as_dict()}),
        "local_gap": audit.headline_local.as_dict(),
        "global_gap": audit.headline_global.as_dict(),
    }


def _largest(gaps: Floats) -> float:
    """The largest gap that is defined; NaN if none is."""
    return float(np.max(gaps, where=~np.isnan(gaps), initial=-1.0)) if not np.isnan(gaps).all() else np.nan


def aligned(lines: list[list[str]]) -> str:
    """Lines of a table with their columns below one another."""
    widths = [max(map(len, texts)) for texts in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _plain(value: Any) -> Any:
    """Nested values as JSON has them: labels of other types as text, NaN as None."""
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(part) for part in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if isinstance(value, Gap | Measured):
        value = value.as_dict()
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, str | int) else str(value)
