"""What small cells may borrow from their group at the other sites: five steps, the choice on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from logofair.calibration.crossfit import STRENGTH
from logofair.calibration.federated import GroupMaps, least_loss, strength_losses
from logofair.columns.checks import Floats
from logofair.errors import RefusedError
from logofair.federation.batch import ClientBatch
from logofair.federation.exchange import (
    MOST_ROWS,
    OF_CHANCES,
    OF_ROWS,
    OF_SHARES,
    OF_SHIFTS,
    ROUNDING,
    SLACK,
    Context,
    Exchange,
    GroupCounts,
    Refusal,
    Request,
    Sums,
    disclosed,
)
from logofair.federation.exchanges.rounds import TotalsExchange
from logofair.federation.plan import Plan
from logofair.fitting import pooling
from logofair.fitting.pooling import STRENGTHS, Choice, GroupPriors, Reference, ShiftRule, may_borrow

# Log-odds of scores kept within [1e-6, 1 - 1e-6].
_LARGEST_FEATURE = 14.0
# A shift, and a score moved by it, lies within a few times that.
_LARGEST_SHIFT = 100.0
# A row's log loss is at most that of a chance of 1e-12.
_LARGEST_LOSS = 28.0


class PoolingRequest(Request):
    """A step of the pooling: what each site answers from its own rows, and what the server does with the sums."""

    step: ClassVar[int]  # in the order of the five

    @property
    def shifts(self) -> ShiftRule | None:
        """What the shifts of cells follow from; None: there are none yet."""
        return None

    def of_site(self, rows: pooling.ScoredRows) -> Sums:
        """What a site answers."""
        raise NotImplementedError

    def followed(self, total: Any, after: TotalsExchange, plan: Plan, sites: int) -> Exchange:
        """What the server does next; ``after`` comes once the pooling is over."""
        raise NotImplementedError

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, Sums]:
        """Answer each step once in a roster, since a second answer would tell more than one."""
        state, shifts = batch.state, self.shifts
        first = {"auto": 1, "full": PriorRequest.step}.get(state.plan.pooling)
        if first is None or not max(first, state.pooling_steps + 1) <= self.step:
            raise RefusedError(Refusal.OUT_OF_TURN)
        if shifts is not None and not shifts.plausible:  # no rows have such moments
            raise RefusedError(Refusal.BAD_REQUEST)
        rows = batch.preparation.pooled_rows(in_folds=self.step < PriorRequest.step)
        return batch.updated(pooling_steps=self.step), self.reply.stacked([self.of_site(each) for each in rows])


@dataclass(frozen=True, eq=False)
class PoolingExchange(Exchange):
    """A step of the pooling, and the exchange that comes after the last one."""

    request: PoolingRequest
    after: TotalsExchange
    reference: Reference | None = None  # None: nothing was learnt of any site's scores yet
    name = "pooling"

    def take(self, total: Sums, plan: Plan, sites: int) -> Exchange:
        """As the step says."""
        return self.request.followed(total, self.after, plan, sites)


@dataclass(frozen=True, eq=False)
class ScoreMoments(Sums, pooling.ScoreMoments):
    """The first step of pooling; fits as in calibration, with folds of their own."""

    impossible = "sent moments of scores that no rows can have"
    mass: Floats = disclosed("weight of the rows of each group", "fits groups", OF_ROWS)
    counts: Floats = disclosed("how many rows of equal weight that is worth", "fits groups", OF_ROWS, 0)
    odds: Floats = disclosed("sum of the scores' log-odds in each group", "fits groups", OF_ROWS)
    squares: Floats = disclosed(
        "squared distances of these from the site's mean of the group", "fits groups", OF_ROWS, 0
    )
    freedom: Floats = disclosed("weight of each group less that of one row", "fits groups", OF_ROWS, 0)
    small_cells: Floats = disclosed("how many of its groups have fewer than 20,000 rows", "1", OF_ROWS, 0)
    histogram: Floats = disclosed(
        "weight of the rows, all groups together, in bins of 1/32 in log-odds", "all-bins", OF_ROWS, 0
    )
    losses: Floats = disclosed(
        "log loss of held-out labels for each strength of calibration", "strengths folds", OF_ROWS
    )
    rows: Floats = disclosed("number of rows", "1", OF_ROWS)

    @property
    def row_counts(self) -> GroupCounts:
        """The rows of the last fit, which leaves none out."""
        return GroupCounts(self.mass[-1], np.zeros_like(self.mass[-1]))

    def wrong(self, context: Context) -> str | None:
        """Moments that rows with log-odds in [-14, 14] can have; folds that add up."""
        counts, mass, slack = context.counts, self.mass, SLACK * (1.0 + 1e-3 * self.mass[-1].sum())
        if mass.min() < 0 or mass.max() > MOST_ROWS or not 0 <= self.rows[0] <= MOST_ROWS:
            return "sent an impossible number of rows"
        known = counts is not None and counts.mass.shape == mass[-1].shape
        if counts is not None and known and np.any(np.abs(mass[-1] - counts.mass) > slack):
            return "claims another number of rows than before"
        if np.any(np.abs((mass[-1] - mass[:-1]).sum(axis=0) - mass[-1]) > slack):
            return "sent folds that do not make up its rows"
        limits = ((self.freedom, 1.0), (self.squares, 4 * _LARGEST_FEATURE**2))
        fits = all(bool(np.all(each <= limit * mass + slack)) for each, limit in limits)
        fits &= bool(np.all(self.counts <= self.rows[0] * (1 + ROUNDING) + SLACK))
        fits &= bool(np.all(np.abs(self.odds) <= _LARGEST_FEATURE * mass + slack))
        fits &= bool(abs(self.histogram.sum() - mass[-1].sum()) <= slack)
        fits &= bool(self.small_cells[0] <= (MOST_ROWS if counts is None else counts.sites * mass.shape[1]))
        if not fits:
            return self.impossible
        losses = self.losses.sum(axis=1)
        wrong = self.losses.min(initial=0.0) < 0 or losses.max(initial=0.0) > _LARGEST_LOSS * mass[-1].sum() + slack
        return "sent log losses that no rows can have" if wrong else None


@dataclass(frozen=True, eq=False)
class ScoreMomentsRequest(PoolingRequest):
    """Moments of raw scores, and what each strength of these calibrators loses."""

    reply = ScoreMoments
    step = 1
    maps: GroupMaps | None = None

    def of_site(self, rows: pooling.ScoredRows) -> ScoreMoments:
        """Moments of a site's scores."""
        losses, number = np.zeros((0, rows.folds)), np.array([float(rows.odds.size)])
        return ScoreMoments(**vars(pooling.score_moments(rows)), losses=losses, rows=number)

    def followed(self, total: ScoreMoments, after: TotalsExchange, plan: Plan, sites: int) -> Exchange:
        """Choose how firmly cells hold to their group's map, and go on where there is anything to borrow."""
        if not may_borrow(plan.pooling, sites, round(float(total.small_cells[0]))):
            return after
        if after.request.maps is not None:
            rows = round(float(total.rows[0]))
            after = after.with_strength(least_loss(total.losses, STRENGTHS["auto"], rows))
        reference = Reference.of(total, sites)
        return PoolingExchange(ShiftMomentsRequest(reference), after, reference)

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, Sums]:
        """Moments of each site; losses of all of them at once."""
        after, moments = super().answer(batch)
        if batch.state.plan.calibration == "none":
            return after, moments
        if self.maps is None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        losses = [strength_losses(rows, self.maps, STRENGTHS["auto"]) for rows in batch.preparation.folded]
        return after, replace(moments, losses=np.concatenate(losses))


@dataclass(frozen=True, eq=False)
class ShiftMoments(Sums):
    """The second step of pooling: how far the site lies from the others, and its groups from there."""

    impossible = "sent shifts that no rows can have"
    sums: Floats = disclosed(
        "precision of each shift in log-odds as a share of all sites', that times the shift, times its square, "
        "the share squared, and 1 where there is a shift",
        "5 fits 1+groups",
        OF_SHIFTS,
    )

    def wrong(self, context: Context) -> str | None:
        """Shares of all precision, at most 1, and moments of shifts that they can have."""
        weight, first, second, square, number = self.sums
        sites = None if context.counts is None else context.counts.sites
        slack, most = ROUNDING * (sites or 1), sites or MOST_ROWS
        fits = min(weight.min(), second.min(), square.min(), number.min()) >= 0 and weight.max() <= 1.0 + slack
        fits &= bool(np.all(second <= _LARGEST_SHIFT**2 * weight + slack) and np.all(square <= weight + slack))
        fits &= bool(np.all(first**2 <= weight * second + slack) and number.max() <= most + ROUNDING)
        return None if fits else self.impossible


@dataclass(frozen=True, eq=False)
class ShiftMomentsRequest(PoolingRequest):
    """How far the site and its cells lie from this reference."""

    reply: ClassVar[type[Sums]] = ShiftMoments
    step = 2
    reference: Reference

    @property
    def shifts(self) -> ShiftRule:
        """That of no differences between sites."""
        return ShiftRule.of(self.reference, np.zeros(1))

    def of_site(self, rows: pooling.ScoredRows) -> Sums:
        """Moments of a site's shifts."""
        return ShiftMoments(pooling.shift_moments(rows, self.reference))

    def followed(self, total: Any, after: TotalsExchange, plan: Plan, sites: int) -> Exchange:
        """How far sites, and cells inside them, differ beyond chance."""
        between = pooling.shift_variance(total.sums, self.reference)
        return PoolingExchange(FoldHistogramsRequest(self.reference, between), after, self.reference)


@dataclass(frozen=True, eq=False)
class FoldHistograms(Sums):
    """The third step of pooling: what the site would give to each kind of prior without one fold."""

    impossible = "sent histograms that its rows cannot have"
    mass: Floats = disclosed(
        "weight of the scores of each group, unmoved or moved back by the site's shifts, in about 128 bins that "
        "hold about as many rows of all sites each",
        "kinds folds groups bins",
        OF_CHANCES,
        0,
    )

    def wrong(self, context: Context) -> str | None:
        """No more than the rows there are, and as much for every kind of prior."""
        counts, given = context.counts, self.mass.sum(axis=-1)
        slack = SLACK * (1.0 + 1e-3 * given)
        fits = bool(np.all(np.abs(given - given[:1]) <= slack))
        fits &= counts is None or bool(np.all(given <= counts.mass + slack))
        return None if fits else self.impossible


@dataclass(frozen=True, eq=False)
class FoldHistogramsRequest(ShiftMomentsRequest):
    """What the site gives to each candidate prior, its shifts drawn in by these variances."""

    reply: ClassVar[type[Sums]] = FoldHistograms
    step = 3
    between: Floats  # (fits, 1 + groups)

    @property
    def lengths(self) -> dict[str, int]:
        """The bins of the reference."""
        return {"bins": 1 + self.reference.edges.size}

    @property
    def shifts(self) -> ShiftRule:
        """That of these variances."""
        return ShiftRule.of(self.reference, self.between)

    def of_site(self, rows: pooling.ScoredRows) -> Sums:
        """Histograms of a site."""
        return FoldHistograms(pooling.fold_histograms(rows, self.reference, self.between))

    def followed(self, total: Any, after: TotalsExchange, plan: Plan, sites: int) -> Exchange:
        """Hand all candidates out, each without one fold."""
        request = CandidateErrorsRequest(self.reference, self.between, total.mass)
        return PoolingExchange(request, after, self.reference)


@dataclass(frozen=True, eq=False)
class CandidateErrors(Sums, pooling.CandidateErrors):
    """The fourth step of pooling: how badly each candidate foretells the site's held-out rates."""

    impossible = "sent errors of held-out rates that no rows can have"
    excess: Floats = disclosed(
        "squared error beyond the first candidate's, as a share of all", "kinds kappas", OF_SHARES
    )
    products: Floats = disclosed("products of these errors, summed over its groups", "kinds kappas kappas", OF_SHARES)

    def wrong(self, context: Context) -> str | None:
        """Errors of shares differ by at most 1, and products of differences are those of some cells."""
        counts, squares = context.counts, np.diagonal(self.products, axis1=1, axis2=2)
        fits = np.abs(self.excess).max() <= 1.0 + ROUNDING and np.abs(self.excess[0, 0]) <= ROUNDING
        fits &= bool(squares.min() >= -ROUNDING and squares.max() <= 1.0 + ROUNDING)
        fits &= bool(np.all(self.products**2 <= squares[:, :, None] * squares[:, None, :] + ROUNDING))
        fits &= bool(np.all(np.abs(self.products - self.products.swapaxes(1, 2)) <= ROUNDING))
        fits &= counts is None or bool(np.all(self.excess**2 <= counts.sites * counts.mass.size * squares + ROUNDING))
        return None if fits else self.impossible


@dataclass(frozen=True, eq=False)
class CandidateErrorsRequest(FoldHistogramsRequest):
    """How badly these candidate priors foretell the site's held-out rates."""

    reply = CandidateErrors
    step = 4
    priors: Floats  # (kinds, folds, groups, edges + 1)

    def of_site(self, rows: pooling.ScoredRows) -> Sums:
        """Errors of a site."""
        return CandidateErrors(**vars(pooling.candidate_errors(rows, self.reference, self.between, self.priors)))

    def followed(self, total: Any, after: TotalsExchange, plan: Plan, sites: int) -> Exchange:
        """Choose the prior, and how many rows of it, that foretells held-out rates best."""
        choice = pooling.least_error(total, sites * len(plan.groups))
        if choice.kind == "none":
            return after
        request = PriorRequest(choice.kind, choice.kappa, self.shifts.last)
        return PoolingExchange(request, after, self.reference)


@dataclass(frozen=True, eq=False)
class PriorSums(Sums, pooling.PriorSums):
    """The last step of pooling: what the site gives to the prior of each group."""

    impossible = "sent a prior that its rows cannot have"
    mass: Floats = disclosed(
        "share of the weight of its scores, moved back by its shift, in bins of 1/32 in log-odds; a bin with a "
        "single row tells that row's score",
        "groups all-bins",
        OF_CHANCES,
        0,
    )
    odds: Floats = disclosed("sum of the log-odds in each of these bins", "groups all-bins", OF_CHANCES)
    cells: Floats = disclosed("how many of its groups borrow", "1", OF_ROWS, 0)

    def wrong(self, context: Context) -> str | None:
        """No more than the rows there are, with log-odds in range."""
        counts, given = context.counts, self.mass.sum(axis=1)
        slack = SLACK * (1.0 + 1e-3 * given)
        fits = bool(np.all(np.abs(self.odds) <= _LARGEST_SHIFT * self.mass + SLACK))
        fits &= bool(given.max() <= MOST_ROWS) if counts is None else bool(np.all(given <= counts.mass + slack))
        fits &= bool(self.cells[0] <= (MOST_ROWS if counts is None else counts.sites * len(given)) + ROUNDING)
        return None if fits else self.impossible


@dataclass(frozen=True, eq=False)
class PriorRequest(PoolingRequest):
    """What the site gives to the prior that was chosen."""

    reply = PriorSums
    step = 5
    kind: str
    kappa: float | None  # None: infinite
    rule: ShiftRule

    @property
    def shifts(self) -> ShiftRule:
        """That of the fit of all rows."""
        return self.rule

    def of_site(self, rows: pooling.ScoredRows) -> Sums:
        """What a site gives."""
        return PriorSums(**vars(pooling.prior_sums(rows, Choice(self.kind, self.kappa), self.rule)))

    def followed(self, total: PriorSums, after: TotalsExchange, plan: Plan, sites: int) -> Exchange:
        """Hand it out with the request for totals, unless nobody borrows from anybody."""
        if not may_borrow(plan.pooling, sites, 1):
            return after.with_strength(STRENGTH)
        priors = GroupPriors.of(Choice(self.kind, self.kappa), self.rule, total)
        return replace(after, request=replace(after.request, priors=priors)) if priors.cells else after


def after_calibration(plan: Plan, totals: TotalsExchange) -> Exchange:
    """Pooling where the plan has it, else the totals."""
    if plan.secure:  # no scores are lent, but cells keep to their group's map as far as they are small
        return totals.with_strength(STRENGTH)
    if plan.pooling == "auto":
        return PoolingExchange(ScoreMomentsRequest(totals.request.maps), totals)
    if plan.pooling == "full":
        fixed = totals.with_strength(STRENGTHS["full"][0])
        return PoolingExchange(PriorRequest("group", None, ShiftRule.none(len(plan.groups))), fixed)
    return totals.with_strength(STRENGTHS["none"][0])
