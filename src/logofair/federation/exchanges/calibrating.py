"""Before there are chances: who contributes to what, rows of the groups, and the Newton steps of the calibrators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from logofair.calibration.federated import Levels, Points, calibration_counts, calibration_sums, placed
from logofair.calibration.fits import LEAST_ROWS, PARTS, clipped_counts, summed_as
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans
from logofair.errors import RunError
from logofair.federation.batch import ClientBatch
from logofair.federation.exchange import (
    MOST_ROWS,
    OF_ROWS,
    ROUNDING,
    SLACK,
    Context,
    Exchange,
    GroupCounts,
    Request,
    Sums,
    disclosed,
)
from logofair.federation.exchanges.pooling import after_calibration
from logofair.federation.exchanges.rounds import TotalsExchange, TotalsRequest
from logofair.federation.plan import Plan
from logofair.notions import Rate

# Under secure sums no number is the sum of fewer sites than this: with one ally it would be that of a single site.
_FEWEST_CONTRIBUTORS = 3
# Under secure sums calibration ends after so many rounds: a site that lies about its own sums chooses where those of
# the others are taken next. Of 1,369 federations with scores and labels of all kinds 16 took more, most 4 to 6.
MOST_ROUNDS = 10
# Under secure sums a site's rows are counted as the largest of these that it has: exact counts clipped at 250 would, of
# two large sites and a small one, tell the small one's (507 is 250, 250 and 7). Three sites of 167 have 500 together.
_ROW_LEVELS = np.array([0.0, 1.0, 10.0, 50.0, 125.0, 167.0, 250.0])
# Features of a calibration are logarithms of scores kept within [1e-6, 1 - 1e-6].
_LARGEST_FEATURE = 14.0


def first_exchange(plan: Plan, sites: Sequence[str], enough_sites: Booleans | None = None) -> Exchange:
    """Where a roster of these sites begins.

    ``enough_sites``, under secure sums, says which groups enough sites contribute to, once that was counted.
    """
    if plan.secure and enough_sites is None:
        return ContributorsExchange(ContributorsRequest(tuple(sites)))
    if plan.calibration == "none":
        return after_calibration(plan, TotalsExchange(TotalsRequest()))
    if enough_sites is None:
        enough_sites = np.ones(len(plan.groups), dtype=bool)
    return GroupRowsExchange(GroupRowsRequest(), enough_sites)


@dataclass(frozen=True, eq=False)
class Contributors(Sums):
    """The first of secure sums: which site contributes to what is summed later.

    Every site has a row of its own, so that each sees that nobody has said anything in its name: an ally of the server
    that added to a mere number of contributors could let a total of two sites, or of one, through.
    """

    impossible = "claimed to contribute more than a site can"
    groups: Floats = disclosed(
        "in its own row 1 where it counts rows of the group that weigh as much as a person, else 0",
        "sites groups",
        OF_ROWS,
        0,
        1,
    )
    rates: Floats = disclosed(
        "in its own row 1 where it has somebody, or expects one person, among those of whom a global rate is a "
        "share, else 0",
        "sites groups counted",
        OF_ROWS,
        0,
        1,
    )
    folds: Floats = disclosed(
        "with calibration, in its own row 1 where each fold of the group holds both labels and the group has 125 "
        "rows or more, 50 or more, 10 or more, else 0",
        "sites groups parts",
        OF_ROWS,
        0,
        1,
    )

    def wrong(self, context: Context) -> str | None:
        """Ones and zeros, and nobody of a group that is not counted."""
        marks = np.concatenate([self.groups[:, :, None], self.rates, self.folds], axis=2)
        wrong = not np.isin(marks, (0.0, 1.0)).all() or np.any(marks > self.groups[:, :, None])
        return self.impossible if wrong else None


@dataclass(frozen=True, eq=False)
class ContributorsRequest(Request):
    """The first of secure sums: to which of the numbers to come the site contributes."""

    reply = Contributors
    sites: tuple[str, ...]  # of the roster, in the order in which replies have them

    @property
    def lengths(self) -> dict[str, int]:
        """A row for each site."""
        return {"sites": len(self.sites)}

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, Contributors]:
        """Groups, and those people of them of whom a global rate is a share."""
        prepared, plan, noised = batch.preparation, batch.state.plan, batch.state.plan.privacy is not None
        releases, shape = prepared.releases(batch.state.releases), prepared.shape
        rows = prepared.noised(releases) if noised else prepared.rows
        cells = rows.cells
        # A row of little weight is less than a person: with such rows alone a site would hide nobody's numbers.
        counted = np.ones(cells.size) if rows.weights is None else rows.weights if noised else rows.weights.clip(max=1)
        chances = rows.scores if rows.labels is None or plan.calibration == "none" else rows.labels
        people, positives = (
            np.bincount(cells, each, shape[0] * shape[1]).reshape(shape).astype(np.float64)
            for each in (counted, counted * chances)
        )
        expected = [rate.denominator(people, positives) for rate in plan.over_all.counted]
        full = np.zeros((*shape, len(PARTS)))
        if plan.calibration != "none":  # each fold of a group holds both labels, and the group has its part of rows
            every = np.arange(len(plan.groups))
            mass = np.concatenate([calibration_counts(rows, every)[:, :, -1] for rows in prepared.folded])
            both = np.all(mass[:, :, -1:] > mass[:, :, :-1], axis=(1, 2))
            full = both[:, :, None] & (people[:, :, None] * np.array(PARTS) >= LEAST_ROWS)
        own = np.array([[float(site == name) for name in self.sites] for site in prepared.sites])
        marks = (people >= 1.0, np.stack(expected, axis=2) >= 1.0 if expected else np.zeros((*shape, 0)), full)
        rows_of_all = (np.array(list(map(np.multiply.outer, own, each))) for each in marks)
        after = replace(batch, state=replace(batch.state, releases=releases))
        return after, Contributors(*rows_of_all)


@dataclass(frozen=True, eq=False)
class ContributorsExchange(Exchange):
    """Secure sums: how many sites contribute to each number to come, since a sum of few is next to one site's."""

    request: ContributorsRequest
    name = "contributors"

    def take(self, total: Contributors, plan: Plan, sites: int) -> Exchange:
        """Go on where every group, and everybody of whom a rate is a share, is at enough sites.

        Raises
        ------
        RunError
            Where some total would be that of one site, or of two.
        """
        groups, folds, over_all = total.groups.sum(axis=0), total.folds.sum(axis=0), plan.over_all
        of_groups = [(str(group), number) for group, number in zip(plan.groups, groups, strict=True)]
        whose: list[tuple[Rate, int | None]] = [(r, a) for r in over_all.group_rates for a in range(len(plan.groups))]
        terms = (term for each in over_all.combinations for term in each.terms)
        whose += [(rate, None if some is None else some[0]) for _, rate, some in terms]
        of_rates = []
        for rate, group in whose:
            who, marks = "everyone", total.rates[:, :, over_all.counted.index(rate)]
            if group is not None:
                who, marks = str(plan.groups[group]), marks[:, group : group + 1]
            of_rates.append((f"{who}, as far as the {rate.name} counts them", marks.max(axis=1).sum()))
        few = next(((who, number) for who, number in (*of_groups, *of_rates) if number < _FEWEST_CONTRIBUTORS), None)
        if few is not None:
            raise RunError(
                f"run {plan.run}: {few[0]}: NOT MEASURED, since {round(few[1])} of {sites} sites have enough such "
                f"people, and a total of fewer than {_FEWEST_CONTRIBUTORS} could be one site's; drop the group's rows "
                "and agree on a plan without it, or run without secure sums."
            )
        return first_exchange(plan, self.request.sites, (folds > PARTS).any(axis=1))


@dataclass(frozen=True, eq=False)
class GroupRows(Sums):
    """Before calibration: which groups have rows enough that sums over a fold of them are far from a single row's."""

    impossible = "sent an impossible number of rows"
    rows: Floats = disclosed(
        "number of rows of each group, or 250 where it has more; under secure sums rounded down to 167, 125, 50, "
        "10 or 1",
        "groups",
        OF_ROWS,
        0,
        MOST_ROWS,
    )
    everybody: Floats = disclosed("number of rows of all groups, likewise", "1", OF_ROWS, 0, MOST_ROWS)
    mass: Floats = disclosed("weight of the rows of each group", "groups", OF_ROWS, 0, MOST_ROWS)

    @property
    def row_counts(self) -> GroupCounts:
        """Rows, whose positives are not known yet."""
        return GroupCounts(self.mass, np.zeros_like(self.mass))

    def wrong(self, context: Context) -> str | None:
        """No weight without rows."""
        return self.impossible if np.any((self.mass > 0) & (self.rows == 0)) else None


@dataclass(frozen=True, eq=False)
class GroupRowsRequest(Request):
    """Before calibration: how many rows each group has."""

    reply = GroupRows

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, GroupRows]:
        """Rows up to what is enough, and what they weigh."""
        rows, shape = batch.preparation.rows, batch.preparation.shape
        weights = np.ones(rows.scores.size) if rows.weights is None else rows.weights
        cells = rows.cells
        number, mass = (
            np.bincount(cells, each, shape[0] * shape[1]).reshape(shape).astype(np.float64)
            for each in (weights > 0, weights)
        )
        of_groups, of_all = clipped_counts(number)
        if batch.state.plan.secure:
            of_groups, of_all = (
                _ROW_LEVELS[np.searchsorted(_ROW_LEVELS, n, side="right") - 1] for n in (of_groups, of_all)
            )
        return batch, GroupRows(rows=of_groups, everybody=of_all[:, None], mass=mass)


@dataclass(frozen=True, eq=False)
class GroupRowsExchange(Exchange):
    """Which groups have rows enough for sums of their own."""

    request: GroupRowsRequest
    enough_sites: Booleans  # whether enough sites contribute to every fold of each label, (groups,)
    name = "calibration"

    def take(self, total: GroupRows, plan: Plan, sites: int) -> Exchange:
        """Begin the fits of the groups that are large enough."""
        # Sums of limited precision cannot show progress below it.
        precision = {"slack": 1e-3, "least_gain": 1e-4} if plan.secure else {}
        most = MOST_ROUNDS if plan.secure else None
        places = np.arange(total.rows.size)
        if sites > 1:
            places = summed_as(total.rows, float(total.everybody[0]), self.enough_sites)
        levels = Levels.start(plan.calibration, places, folds=plan.folds, most_rounds=most, **precision)
        return CurvatureExchange(FoldCountsRequest(**vars(levels.request)), levels, total.mass)


@dataclass(frozen=True, eq=False)
class Curvature(Sums):
    """Every further step of the group-level calibrators."""

    impossible = "sent calibration sums that no rows can have"
    sums: Floats = disclosed("log loss, gradient and Hessian at the parameters sent", "entries fits 1+groups", OF_ROWS)

    def wrong(self, context: Context) -> str | None:
        """Losses and derivatives within what so many rows allow."""
        counts, points = context.counts, context.request
        return self.beyond(points, None if counts is None else placed(counts.mass, points.places))

    def beyond(self, points: Points, known: Floats | None) -> str | None:
        """What rows of this weight per group cannot have lost."""
        rows = MOST_ROWS if known is None else (1 + ROUNDING) * np.append(known.sum(), known)
        # Of a row: ln(1 + exp(sum |at| * 14)).
        loss = rows * (1.0 + _LARGEST_FEATURE * np.abs(points.at).sum(axis=0))
        others = rows * _LARGEST_FEATURE**2
        inside = np.all(self.sums[0] <= loss + SLACK) and np.all(np.abs(self.sums[1:]) <= others + SLACK)
        return None if inside and self.sums[0].min() >= 0 else self.impossible


@dataclass(frozen=True, eq=False)
class CurvatureRequest(Request, Points):
    """A further step of calibration: sums at these parameters."""

    reply = Curvature

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, Curvature]:
        """Sums over the rows in folds."""
        sums = [calibration_sums(rows, self) for rows in batch.preparation.folded]
        return batch, Curvature(np.concatenate(sums))


@dataclass(frozen=True, eq=False)
class FoldCounts(Curvature):
    """The first step of the group-level calibrators, which counts too; a fit leaves one fold out, the last one none.

    Groups of few rows are not among them, or are added up as one, here and in what follows.
    ``counts`` is for label 0, then for label 1; only for Platt's method the sum of logit(score) stands before the mass.
    """

    counts: Floats = disclosed("weight of the rows by label", "2 label-sums fits groups", OF_ROWS)

    def wrong(self, context: Context) -> str | None:
        """The rows of before, and losses that these allow."""
        *sums, mass = np.moveaxis(self.counts, 1, 0)
        if mass.min() < 0 or mass.max() > MOST_ROWS:
            return "sent an impossible number of rows"
        if any(np.any(np.abs(each) > _LARGEST_FEATURE * mass + SLACK) for each in sums):
            return self.impossible
        points, counts = context.request, context.counts
        own, known = mass[:, -1].sum(axis=0), None if counts is None else placed(counts.mass, points.places)
        if known is not None and np.any(np.abs(own - known) > ROUNDING * (1.0 + known)):
            return "claims another number of rows than before"
        return self.beyond(points, own)


@dataclass(frozen=True, eq=False)
class FoldCountsRequest(CurvatureRequest):
    """The first step of calibration: counts, and sums at these parameters."""

    reply = FoldCounts

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, FoldCounts]:
        """Counts by label and fold, and the sums."""
        counts = [calibration_counts(rows, self.places) for rows in batch.preparation.folded]
        return batch, FoldCounts(super().answer(batch)[1].sums, np.concatenate(counts))


@dataclass(frozen=True, eq=False)
class CurvatureExchange(Exchange):
    """The calibrators of all rows and of the groups, by Newton's method on additive sums."""

    request: Request  # for curvature, at first for fold counts too
    levels: Levels
    mass: Floats  # weight of the rows of each group
    name = "calibration"

    def take(self, total: Curvature, plan: Plan, sites: int) -> Exchange:
        """Keep the counts, if there are any, and take one Newton step."""
        levels = self.levels.count(total.counts) if isinstance(total, FoldCounts) else self.levels
        levels = levels.take(total.sums)
        if levels.done:
            return after_calibration(plan, TotalsExchange(TotalsRequest(levels.published)))
        return replace(self, request=CurvatureRequest(**vars(levels.request)), levels=levels)
