"""What a report shows, from one source: the audits of a rule and of what it is compared with, and the tolerances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from logofair.auditing import Audit, Comparison, Gap, Measured
from logofair.auditing.measure import Tally, side_of
from logofair.auditing.measure import text as rounded
from logofair.auditing.result import RuleAudit
from logofair.columns.checks import Floats, Label
from logofair.fitting.evidence import required_tolerances
from logofair.fitting.prepare import CalibrationRows
from logofair.fitting.solution import Solution
from logofair.notions import Rate
from logofair.requirements import compared_rates

MOST_CARDS = 50  # sites with a card each; where there are more, lists of them are folded away


@dataclass(frozen=True)
class GapLine:
    """A gap that is told: ``before`` is None where the rule is compared with nothing, ``tolerance`` infinite if free.

    ``worst`` is the largest gap of all groups where groups of few rows make it differ from ``after``; ``change`` is
    the paired difference, None where groups of few rows make it another thing.
    """

    what: str
    local: bool
    before: Gap | None
    after: Gap
    worst: Gap | None
    tolerance: float
    change: Measured | None


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """One set of rows, called ``name``: the audit of the rule, and of score >= 1/2 before it where that is compared.

    ``notions`` are the audits whose gaps are told, one for each notion by name. Tolerances, (rates, sites) and
    (rates, 1), are infinite where nothing was required. ``in_chances`` says that chances counted in place of labels.
    """

    name: str
    after: Audit
    compared: Comparison | None
    local_tolerance: Floats
    global_tolerance: Floats
    notions: tuple[tuple[str, Audit, Audit | None], ...]
    in_chances: bool = False

    @property
    def before(self) -> Audit | None:
        """The audit of what the rule is compared with."""
        return None if self.compared is None else self.compared.first

    @property
    def size(self) -> int:
        """How many rows there are."""
        return int(self.after.local.tally.rows.sum())

    @property
    def has_sites(self) -> bool:
        """Whether there are sites to compare."""
        return len(self.after.sites) > 1

    @cached_property
    def ranked(self) -> list[int]:
        """Every site's place: those whose gap is shown to be largest first, then those with the most rows."""
        side = self.after.local
        low = side.limits[0]
        shown = np.where(np.isnan(low), 0.0, low).max(axis=0)
        return [int(place) for place in np.lexsort((-side.tally.rows.sum(axis=(1, 2)), -shown))]

    def site_gap(self, audit: Audit | None, rate: int, place: int) -> Gap | None:
        """The gap of a rate inside a site that is told: between groups of 30 rows or more where there are two."""
        if audit is None:
            return None
        side = audit.local
        return (side if np.isnan(side.large.gaps[rate, place]) else side.large).gap(rate, place)

    def hidden_gap(self, rate: int, place: int) -> Gap | None:
        """The gap of all groups inside a site where groups of few rows make it another."""
        gap, first = self.after.local.gap(rate, place), self.site_gap(self.after, rate, place)
        return None if first is None or _tells(first, gap) else gap

    @cached_property
    def unknown_sites(self) -> int:
        """Number of sites of whom nothing is required, though something is of others."""
        required = np.isfinite(self.local_tolerance).any(axis=0)
        return int((~required).sum()) if required.any() else 0

    @cached_property
    def _judged(self) -> tuple[list[bool], list[bool]] | None:
        """Per site whether its gaps are shown above tolerance, and within."""
        if self.after.fitted_rows or len(self.notions) > 1:
            return None
        side, tolerance = self.after.local, self.local_tolerance
        return side.above(tolerance).tolist(), side.within(tolerance).tolist()

    def state(self, place: int) -> str:
        """What is shown of a site's gaps: "within", "above" or "cannot be told".

        Empty where nothing is required of it, or where several notions or the rows that chose the rule leave it open.
        """
        if self._judged is None or not np.isfinite(self.local_tolerance[:, place]).any():
            return ""
        above, within = self._judged
        return "above" if above[place] else "within" if within[place] else "cannot be told"

    @cached_property
    def _cards(self) -> dict[Label | None, int]:
        return {self.after.sites[place]: place for place in self.ranked[:MOST_CARDS]}

    def link(self, site: Label | None) -> str | None:
        """The address of a site's card, if it has one."""
        return f"#site-{self._cards[site]}" if self.has_sites and site in self._cards else None

    @cached_property
    def rates(self) -> list[tuple[str, Label, Measured | None, Measured | None]]:
        """Every rate of every group over all sites: its name, the group, and what it was before and after."""
        rates = tuple(dict.fromkeys((*self.after.global_.rates, *self.after.local.rates)))
        after, before = (self._merged_rates(audit, rates) for audit in (self.after, self.before))
        return [
            (rate, group, before[rate][group] if before else None, found)
            for rate, row in after.items()
            for group, found in row.items()
        ]

    @staticmethod
    def _merged_rates(audit: Audit | None, rates: tuple[Rate, ...]) -> dict[str, dict[Label, Measured | None]]:
        if audit is None:
            return {}
        return side_of(rates, audit.groups, (None,), audit.global_.tally).measured_rates(0)

    @cached_property
    def gap_lines(self) -> tuple[GapLine, ...]:
        """The gaps that are told, over all sites first."""
        return tuple(line for notion in self.notions for line in self._lines(*notion))

    def _lines(self, notion: str, after: Audit, before: Audit | None) -> Iterator[GapLine]:
        named = f"{notion}: " if notion else ""
        one = "gap over all sites" if self.has_sites else "gap between groups"
        sides = [(one, "headline_global", "worst_global", False)]
        if self.has_sites:
            sides.append(("largest gap inside a site", "headline_local", "worst_local", True))
        for words, headline, worst, local in sides:
            gap, largest = getattr(after, headline), getattr(after, worst)
            first = None if before is None else getattr(before, headline)
            few, change = None if _tells(gap, largest) else largest, None
            if self.compared is not None and few is None and first and _alike(first, getattr(before, worst)):
                change = self.compared.local_gap if local else self.compared.global_gap
            yield GapLine(f"{named}{words}", local, first, gap, few, self._tolerance(gap, local), change)

    def _tolerance(self, gap: Gap, local: bool) -> float:
        """The tolerance of a gap that is told; of one site's alone, the smaller of both sides."""
        found = [np.inf]
        for side, tolerance in ((self.after.local, self.local_tolerance), (self.after.global_, self.global_tolerance)):
            inside = side is self.after.local
            line = next((k for k, rate in enumerate(side.rates) if rate.name == gap.rate), None)
            if line is not None and (inside == local or not self.has_sites):
                place = side.sites.index(gap.site) if gap.site in side.sites else None
                found.append(tolerance[line].min() if place is None else tolerance[line, place])
        return float(min(found))


def _alike(one: Gap, other: Gap) -> bool:
    """Whether people read the same figure."""
    return rounded(one.value) == rounded(other.value)


def _tells(first: Gap, largest: Gap) -> bool:
    """Whether the gap told first tells all that the largest of all groups does: the same figure, and as much shown."""
    shown = [bool(gap.value is not None and gap.value.low) for gap in (first, largest)]
    return _alike(first, largest) and shown[0] >= shown[1]


def calibration_rows(solution: Solution) -> MeasuredRows:
    """Return the calibration rows: with labels, or with chances where there are none and a rate needs them."""
    found = solution.compared
    return _of_solution("calibration rows", solution, found or _in_chances(solution), in_chances=found is None)


def other_rows(solution: Solution) -> MeasuredRows | None:
    """Return the rows that took no part in the fit, where the solution was tested on some."""
    if solution.tested is None:
        return None
    return _of_solution("rows that took no part in the fit", solution, solution.tested, in_chances=False)


def audited_rows(audits: RuleAudit, comparison: Comparison | None, tolerance: float) -> MeasuredRows:
    """Return the rows of an audit of several notions; ``comparison`` is of another rule with this one."""
    first = next(iter(audits.by_notion.values()))
    names = (first.groups, first.local.sites)
    rates = tuple(dict.fromkeys(rate for audit in audits.by_notion.values() for rate in audit.local.rates))
    after, compared, other = Audit.of(audits.tally, *names, rates, costs=audits.costs), comparison, None
    if comparison is not None:
        other = comparison.first.local.tally
        before = Audit.of(other, *names, rates, costs=audits.costs)
        same = len(audits.by_notion) == 1 and set(rates) == set(comparison.second.local.rates)
        gaps = (comparison.global_gap, comparison.local_gap) if same else (None, None)
        compared = Comparison(before, after, comparison.accuracy, comparison.accepted, *gaps, comparison.cost)
    notions = tuple(
        (name.replace("_", " "), audit, None if other is None else Audit.of(other, *names, audit.local.rates))
        for name, audit in audits.by_notion.items()
    )
    local, global_ = (np.full(side.gaps.shape, tolerance) for side in (after.local, after.global_))
    return MeasuredRows("audited rows", after, compared, local, global_, notions)


def _of_solution(name: str, solution: Solution, found: Comparison, *, in_chances: bool) -> MeasuredRows:
    after = found.second
    tolerances = required_tolerances(solution.requirements, solution.policy.sites, after)
    return MeasuredRows(name, after, found, *tolerances, (("", after, found.first),), in_chances)


def _in_chances(solution: Solution) -> Comparison:
    """Both rules on the calibration rows, counted in chances."""
    rows, requirements = solution.rows, solution.requirements
    chance = solution.policy.chances(rows.calibrated, rows.cells)
    rates = [compared_rates(side) for side in (requirements.local, requirements.global_)]
    first, second = (
        Audit.of(_tally(each, rows), rows.groups.names, rows.sites.names, rates[0] or rates[1], rates[1] or rates[0])
        for each in ((rows.scores >= 0.5).astype(np.float64), chance)
    )
    return Comparison(first, replace(second, fitted_rows=True), None, None, None, None)


def _tally(chance: Floats, rows: CalibrationRows) -> Tally:
    """Count without labels: a row with chance p of label 1 counts p times there and 1 - p times under 0."""
    shape = (len(rows.sites.names), len(rows.groups.names))
    split, one = (1.0 - rows.eta, rows.eta), np.ones_like(chance)

    def sums(values: Floats) -> Floats:
        return np.bincount(rows.cells, values, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)

    weight = one if rows.weights is None else rows.weights
    mass, accepted = (np.stack([sums(weight * by * part) for part in split], -1) for by in (one, chance))
    return Tally.counted(np.stack([sums(part) for part in split], -1).round().astype(np.intp), mass, accepted)
