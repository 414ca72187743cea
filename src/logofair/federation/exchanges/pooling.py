"""What small cells may borrow from their group at the other sites: five steps, the choice on held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

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
    Disclosure,
    Exchange,
    GroupCounts,
    Refusal,
    Request,
    Sums,
)
from logofair.federation.exchanges.totals import TotalsExchange
from logofair.federation.plan import Plan
from logofair.fitting import pooling
from logofair.fitting.pooling import STRENGTHS, Choice, GroupPriors, Reference, ShiftRule, may_borrow

# Log-odds of scores kept within [1e-6, 1 - 1e-6].
_LARGEST_FEATURE = 14.0
# A shift, and a score moved by it, lies within a few times that.
_LARGEST_SHIFT = 100.0
# A row's log loss is at most that of a chance of 1e-12.
_LARGEST_LOSS = 28.0


class PoolingExchange(Exchange):
    """A step of the pooling, and the exchange that comes after the last one."""

    after: TotalsExchange
    name = "pooling"
    step: ClassVar[int]  # in the order of the five

    def warm_start(self, plan: Plan) -> Floats | None:
        """What was told to the totals."""
        return self.after.prices

    @classmethod
    def stepped(cls, batch: ClientBatch, rule: ShiftRule | None = None) -> ClientBatch:
        """The sites' state with this step answered: each once in a roster, since a second would tell more than one.

        ``rule`` is what shifts follow from, which some rows must be able to have.
        """
        first = {"auto": 1, "full": PriorExchange.step}.get(batch.state.plan.pooling)
        if first is None or not max(first, batch.state.pooling_steps + 1) <= cls.step:
            raise RefusedError(Refusal.OUT_OF_TURN)
        if rule is not None and not rule.plausible:
            raise RefusedError(Refusal.BAD_REQUEST)
        return replace(batch, state=replace(batch.state, pooling_steps=cls.step))


@dataclass(frozen=True, eq=False)
class ScoreMomentsRequest(Request):
    """Moments of raw scores, and what each strength of these calibrators loses."""

    maps: GroupMaps | None = None


@dataclass(frozen=True, eq=False)
class ScoreMoments(Sums, pooling.ScoreMoments):
    """The first step of pooling; fits as in calibration, with folds of their own."""

    impossible = "sent moments of scores that no rows can have"
    mass: Annotated[Floats, Disclosure("weight of the rows of each group", "fits groups", OF_ROWS)]
    counts: Annotated[Floats, Disclosure("how many rows of equal weight that is worth", "fits groups", OF_ROWS, 0)]
    odds: Annotated[Floats, Disclosure("sum of the scores' log-odds in each group", "fits groups", OF_ROWS)]
    squares: Annotated[
        Floats, Disclosure("squared distances of these from the client's mean of the group", "fits groups", OF_ROWS, 0)
    ]
    freedom: Annotated[Floats, Disclosure("weight of each group less that of one row", "fits groups", OF_ROWS, 0)]
    small_cells: Annotated[Floats, Disclosure("how many of its groups have fewer than 20,000 rows", "1", OF_ROWS, 0)]
    histogram: Annotated[
        Floats,
        Disclosure("weight of the rows, all groups together, in bins of 1/32 in log-odds", "all-bins", OF_ROWS, 0),
    ]
    losses: Annotated[
        Floats, Disclosure("log loss of held-out labels for each strength of calibration", "strengths folds", OF_ROWS)
    ]
    rows: Annotated[Floats, Disclosure("number of rows", "1", OF_ROWS)]

    @property
    def row_counts(self) -> GroupCounts:
        """The rows of the last fit, which leaves none out."""
        return GroupCounts(self.mass[-1], np.zeros_like(self.mass[-1]))

    def wrong(self, context: Context) -> str | None:
        """Moments that rows with log-odds in [-14, 14] can have; folds that add up."""
        counts, mass, slack = context.counts, self.mass, SLACK * (1.0 + 1e-3 * self.mass[-1].sum())
        if mass.min() < 0 or mass.max() > MOST_ROWS or not 0 <= self.rows[0] <= MOST_ROWS:
            return "sent a number of rows that cannot be"
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
class ScoreMomentsExchange(PoolingExchange, request=ScoreMomentsRequest, reply=ScoreMoments):
    """Pooling: where groups lie and how far their scores vary; and how firmly cells hold to their group's map."""

    request: ScoreMomentsRequest
    after: TotalsExchange
    step = 1

    @staticmethod
    def answer(batch: ClientBatch, request: ScoreMomentsRequest) -> tuple[ClientBatch, ScoreMoments]:
        """Moments of each site; losses of all of them at once."""
        after, prepared, plan = ScoreMomentsExchange.stepped(batch), batch.preparation, batch.state.plan
        losses, maps = np.zeros((len(prepared.rows), 0, plan.folds)), request.maps
        if plan.calibration != "none":
            if maps is None:
                raise RefusedError(Refusal.OUT_OF_TURN)
            losses = np.concatenate([strength_losses(rows, maps, STRENGTHS["auto"]) for rows in prepared.folded])
        moments = [
            ScoreMoments(**vars(pooling.score_moments(rows)), losses=own, rows=np.array([float(rows.odds.size)]))
            for rows, own in zip(prepared.pooled_rows(in_folds=True), losses, strict=True)
        ]
        return after, ScoreMoments.stacked(moments)

    def take(self, total: ScoreMoments, plan: Plan, sites: int) -> Exchange:
        """Choose the strength, and go on where there is anything to borrow."""
        after = self.after
        if not may_borrow(plan.pooling, sites, round(float(total.small_cells[0]))):
            return after
        if after.request.maps is not None:
            rows = round(float(total.rows[0]))
            after = after.with_strength(least_loss(total.losses, STRENGTHS["auto"], rows))
        return ShiftMomentsExchange(ShiftMomentsRequest(Reference.of(total, sites)), after)

    def survives_dropout(self, plan: Plan) -> bool:
        """Sums of those who remain; where calibrators hold the excluded rows too, these are fitted again first."""
        return self.after.request.maps is None


@dataclass(frozen=True, eq=False)
class ShiftMomentsRequest(Request):
    """How far the client and its cells lie from this reference."""

    reference: Reference


@dataclass(frozen=True, eq=False)
class ShiftMoments(Sums):
    """The second step of pooling: how far the client lies from the others, and its groups from there."""

    impossible = "sent shifts that no rows can have"
    sums: Annotated[
        Floats,
        Disclosure(
            "precision of each shift in log-odds as a share of all sites', that times the shift, times its square, "
            "the share squared, and 1 where there is a shift",
            "5 fits 1+groups",
            OF_SHIFTS,
        ),
    ]

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
class ShiftMomentsExchange(PoolingExchange, request=ShiftMomentsRequest, reply=ShiftMoments):
    """Pooling: how far sites, and cells inside them, truly differ."""

    request: ShiftMomentsRequest
    after: TotalsExchange
    step = 2

    @staticmethod
    def answer(batch: ClientBatch, request: ShiftMomentsRequest) -> tuple[ClientBatch, ShiftMoments]:
        """Moments of each site's shifts."""
        after = ShiftMomentsExchange.stepped(batch, ShiftRule.of(request.reference, np.zeros(1)))
        rows = batch.preparation.pooled_rows(in_folds=True)
        return after, ShiftMoments(np.stack([pooling.shift_moments(each, request.reference) for each in rows]))

    def take(self, total: ShiftMoments, plan: Plan, sites: int) -> Exchange:
        """What is beyond chance."""
        reference = self.request.reference
        between = pooling.shift_variance(total.sums, reference)
        return FoldHistogramsExchange(FoldHistogramsRequest(reference, between), self.after)


@dataclass(frozen=True, eq=False)
class FoldHistogramsRequest(Request):
    """What the client gives to each candidate prior, its shifts drawn in by these variances."""

    reference: Reference
    between: Floats  # (fits, 1 + groups)

    @property
    def lengths(self) -> dict[str, int]:
        """The bins of the reference."""
        return {"bins": 1 + self.reference.edges.size}


@dataclass(frozen=True, eq=False)
class FoldHistograms(Sums):
    """The third step of pooling: what the client would give to each kind of prior without one fold."""

    impossible = "sent histograms that its rows cannot have"
    mass: Annotated[
        Floats,
        Disclosure(
            "weight of the scores of each group, unmoved or moved back by the client's shifts, in about 128 bins that "
            "hold about as many rows of all sites each",
            "kinds folds groups bins",
            OF_CHANCES,
            0,
        ),
    ]

    def wrong(self, context: Context) -> str | None:
        """No more than the rows there are, and as much for every kind of prior."""
        counts, given = context.counts, self.mass.sum(axis=-1)
        slack = SLACK * (1.0 + 1e-3 * given)
        fits = bool(np.all(np.abs(given - given[:1]) <= slack))
        fits &= counts is None or bool(np.all(given <= counts.mass + slack))
        return None if fits else self.impossible


@dataclass(frozen=True, eq=False)
class FoldHistogramsExchange(PoolingExchange, request=FoldHistogramsRequest, reply=FoldHistograms):
    """Pooling: the candidate priors, each without one fold."""

    request: FoldHistogramsRequest
    after: TotalsExchange
    step = 3

    @staticmethod
    def answer(batch: ClientBatch, request: FoldHistogramsRequest) -> tuple[ClientBatch, FoldHistograms]:
        """Histograms of each site."""
        known = request.reference, request.between
        after = FoldHistogramsExchange.stepped(batch, ShiftRule.of(*known))
        rows = batch.preparation.pooled_rows(in_folds=True)
        return after, FoldHistograms(np.stack([pooling.fold_histograms(each, *known) for each in rows]))

    def take(self, total: FoldHistograms, plan: Plan, sites: int) -> Exchange:
        """Hand all of them out."""
        asked = self.request
        return CandidateErrorsExchange(CandidateErrorsRequest(asked.reference, asked.between, total.mass), self.after)


@dataclass(frozen=True, eq=False)
class CandidateErrorsRequest(Request):
    """How badly these candidate priors foretell the client's held-out rates."""

    reference: Reference
    between: Floats
    priors: Floats  # (kinds, folds, groups, edges + 1)


@dataclass(frozen=True, eq=False)
class CandidateErrors(Sums, pooling.CandidateErrors):
    """The fourth step of pooling: how badly each candidate foretells the client's held-out rates."""

    impossible = "sent errors of held-out rates that no rows can have"
    excess: Annotated[
        Floats, Disclosure("squared error beyond the first candidate's, as a share of all", "kinds kappas", OF_SHARES)
    ]
    products: Annotated[
        Floats, Disclosure("products of these errors, summed over its groups", "kinds kappas kappas", OF_SHARES)
    ]

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
class CandidateErrorsExchange(PoolingExchange, request=CandidateErrorsRequest, reply=CandidateErrors):
    """Pooling: which prior, and how many rows of it, foretells held-out rates best."""

    request: CandidateErrorsRequest
    after: TotalsExchange
    step = 4

    @staticmethod
    def answer(batch: ClientBatch, request: CandidateErrorsRequest) -> tuple[ClientBatch, CandidateErrors]:
        """Errors of each site."""
        known = request.reference, request.between
        after = CandidateErrorsExchange.stepped(batch, ShiftRule.of(*known))
        rows = batch.preparation.pooled_rows(in_folds=True)
        errors = [CandidateErrors(**vars(pooling.candidate_errors(each, *known, request.priors))) for each in rows]
        return after, CandidateErrors.stacked(errors)

    def take(self, total: CandidateErrors, plan: Plan, sites: int) -> Exchange:
        """Choose."""
        choice = pooling.least_error(total, sites * len(plan.groups))
        if choice.kind == "none":
            return self.after
        rule = ShiftRule.of(self.request.reference, self.request.between).last
        request = PriorRequest(choice.kind, choice.finite_kappa, rule)
        return PriorExchange(request, self.after, self.request.reference)


@dataclass(frozen=True, eq=False)
class PriorRequest(Request):
    """What the client gives to the prior that was chosen."""

    kind: str
    kappa: float | None  # None: infinite
    rule: ShiftRule


@dataclass(frozen=True, eq=False)
class PriorSums(Sums, pooling.PriorSums):
    """The last step of pooling: what the client gives to the prior of each group."""

    impossible = "sent a prior that its rows cannot have"
    mass: Annotated[
        Floats,
        Disclosure(
            "share of the weight of its scores, moved back by its shift, in bins of 1/32 in log-odds; a bin with a "
            "single row tells that row's score",
            "groups all-bins",
            OF_CHANCES,
            0,
        ),
    ]
    odds: Annotated[Floats, Disclosure("sum of the log-odds in each of these bins", "groups all-bins", OF_CHANCES)]
    cells: Annotated[Floats, Disclosure("how many of its groups borrow", "1", OF_ROWS, 0)]

    def wrong(self, context: Context) -> str | None:
        """No more than the rows there are, with log-odds in range."""
        counts, given = context.counts, self.mass.sum(axis=1)
        slack = SLACK * (1.0 + 1e-3 * given)
        fits = bool(np.all(np.abs(self.odds) <= _LARGEST_SHIFT * self.mass + SLACK))
        fits &= bool(given.max() <= MOST_ROWS) if counts is None else bool(np.all(given <= counts.mass + slack))
        fits &= bool(self.cells[0] <= (MOST_ROWS if counts is None else counts.sites * len(given)) + ROUNDING)
        return None if fits else self.impossible


@dataclass(frozen=True, eq=False)
class PriorExchange(PoolingExchange, request=PriorRequest, reply=PriorSums):
    """Pooling: the prior that was chosen."""

    request: PriorRequest
    after: TotalsExchange
    reference: Reference | None = None  # None: nothing had to be chosen
    step = 5

    @staticmethod
    def answer(batch: ClientBatch, request: PriorRequest) -> tuple[ClientBatch, PriorSums]:
        """What each site gives."""
        after, choice = PriorExchange.stepped(batch, request.rule), Choice.of(request.kind, request.kappa)
        rows = batch.preparation.pooled_rows(in_folds=False)
        return after, PriorSums.stacked(
            [PriorSums(**vars(pooling.prior_sums(each, choice, request.rule))) for each in rows]
        )

    def take(self, total: PriorSums, plan: Plan, sites: int) -> Exchange:
        """Hand it out with the request for totals, unless nobody borrows from anybody."""
        if not may_borrow(plan.pooling, sites, 1):
            return self.after.with_strength(STRENGTH)
        asked = self.request
        priors = GroupPriors.of(Choice.of(asked.kind, asked.kappa), asked.rule, total)
        totals = replace(self.after.request, priors=priors)
        return replace(self.after, request=totals) if priors.cells else self.after

    def survives_dropout(self, plan: Plan) -> bool:
        """What was chosen, was so with the excluded rows; where nothing was, those who remain can answer."""
        return self.reference is None and self.after.request.maps is None


def after_calibration(plan: Plan, totals: TotalsExchange) -> Exchange:
    """Pooling where the plan has it, else the totals."""
    if plan.secure:  # no scores are lent, but cells keep to their group's map as far as they are small
        return totals.with_strength(STRENGTH)
    if plan.pooling == "auto":
        return ScoreMomentsExchange(ScoreMomentsRequest(totals.request.maps), totals)
    if plan.pooling == "full":
        fixed = totals.with_strength(STRENGTHS["full"][0])
        return PriorExchange(PriorRequest("group", None, ShiftRule.none(len(plan.groups))), fixed)
    return totals.with_strength(STRENGTHS["none"][0])
