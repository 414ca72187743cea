"""The server's side, phase by phase: each sends one request to all sites and takes the total of their replies.

In the order of a run: calibration, pooling, totals, then prices and answers (or the steps of Algorithm 1), the final
figures, publication. A phase is a frozen value that can be encoded
(:mod:`logofair.records`), so that a server can be stored after every exchange and resumed to the bit. ``take``
returns the next phase. When sites are excluded, ``without`` says how to go on: totals that do not depend on who else
takes part are simply taken from those who remain; the answers of a roster are void with it. Once the totals are known,
and each client's part of them, the others go on from what remains of them (``corrected``).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from logofair.calibration.calibrator import STRENGTH
from logofair.calibration.fits import PARTS, summed_at
from logofair.calibration.levels import GroupMaps, Levels, least_loss
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans
from logofair.errors import InfeasibleError, RunError
from logofair.federation import replies, requests
from logofair.federation.global_side import GlobalRequirements
from logofair.federation.plan import Plan
from logofair.federation.reply_checks import GroupCounts
from logofair.federation.requests import Request
from logofair.fitting import pooling
from logofair.fitting.pooling import STRENGTHS, Choice, GroupPriors, Reference, ShiftRule, may_borrow
from logofair.records import Family
from logofair.solvers.algorithm1 import signed
from logofair.solvers.decomposition import Decomposition, Incumbent, TriedPrices
from logofair.solvers.trials import trial_prices

# Bytes that a secure sum's message carries for each site beside the numbers.
_SEALED = 140
# Under secure sums no number is the sum of fewer sites than this: with one ally it would be that of a single site.
FEWEST_CONTRIBUTORS = 3
# Under secure sums calibration ends after so many rounds: a site that lies about its own sums chooses where those of
# the others are taken next. Of 1,369 federations with scores and labels of all kinds 16 took more, most 4 to 6.
MOST_ROUNDS = 10
# Requirements that give way by less inside all sites together are met but for rounding.
_SLACK = 1e-8


class Phase(Family):
    """One request to all sites, and what follows from the total of the replies."""

    name: ClassVar[str]  # what the exchange is counted as

    @property
    def request(self) -> Request:
        """What is sent to every client."""
        raise NotImplementedError

    def take(self, total: Any, plan: Plan, sites: int) -> Phase:
        """The next phase, given the total of the replies of so many sites."""
        raise NotImplementedError

    def without(self, plan: Plan) -> Phase | None:
        """Where to go on with fewer sites; None: the replies of those who remain can be taken as they are."""
        return None

    def following(self, request: Request) -> Phase:
        """The same phase with the numbers of a request that differs from its own by rounding alone."""
        sent = vars(request)
        return replace(self, **{f.name: sent[f.name] for f in fields(self) if sent.get(f.name) is not None})  # type: ignore


def first_phase(plan: Plan, prices: Floats | None = None) -> Phase:
    """Where a roster begins; ``prices`` are worth sending once totals are known."""
    if plan.secure:
        return ContributorsPhase(prices)
    return before_calibration(plan, prices, np.ones(len(plan.groups), dtype=bool))


def before_calibration(plan: Plan, prices: Floats | None, fed: Booleans) -> Phase:
    """Calibration where the plan has one, else what follows; ``fed``: which groups enough sites contribute to."""
    if plan.calibration == "none":
        return after_calibration(plan, TotalsPhase(None, prices))
    return GroupRowsPhase(fed, prices)


def after_calibration(plan: Plan, totals: TotalsPhase) -> Phase:
    """Pooling where the plan has it, else the totals."""
    if (
        plan.secure
    ):  # no scores are lent, but all know the groups' maps, and cells keep to them as far as they are small
        return totals.with_strength(STRENGTH)
    if plan.pooling == "auto":
        return ScoreMomentsPhase(totals)
    if plan.pooling == "full":
        fixed = totals.with_strength(STRENGTHS["full"][0])
        return PriorPhase(fixed, "group", None, ShiftRule.none(len(plan.groups)))
    return totals.with_strength(STRENGTHS["none"][0])


@dataclass(frozen=True, eq=False)
class ContributorsPhase(Phase):
    """Secure sums: how many sites contribute to each number to come, since a sum of few is next to one site's."""

    prices: Floats | None = None  # worth sending later, from a roster before this one
    sites: tuple[str, ...] = ()  # of the roster as it began
    name = "contributors"

    @property
    def request(self) -> Request:
        """Ask who contributes to what."""
        return requests.ContributorsRequest(self.sites)

    def take(self, total: replies.Contributors, plan: Plan, sites: int) -> Phase:
        """Go on where every group, and everybody of whom a rate is a share, is at enough sites.

        Raises
        ------
        RunError
            Where some total would be that of one site, or of two.
        """
        groups, rates, folds = (each.sum(axis=0) for each in (total.groups, total.rates, total.folds))
        of_groups = [(str(group), number) for group, number in zip(plan.groups, groups, strict=True)]
        of_rates = [
            (f"{group}, as far as the {rate.name} counts them", number)
            for rate, numbers in zip(plan.group_rates, rates.T, strict=True)
            for group, number in zip(plan.groups, numbers, strict=True)
        ]
        few = next(((who, number) for who, number in (*of_groups, *of_rates) if number < FEWEST_CONTRIBUTORS), None)
        if few is not None:
            raise RunError(
                f"run {plan.run}: {few[0]}: NOT MEASURED, since {round(few[1])} of {sites} sites have enough such "
                f"people, and a total of fewer than {FEWEST_CONTRIBUTORS} could be one site's; drop the group's rows "
                "and agree on a plan without it, or run without secure sums."
            )
        return before_calibration(plan, self.prices, (folds > PARTS).any(axis=1))


@dataclass(frozen=True, eq=False)
class GroupRowsPhase(Phase):
    """Which groups have rows enough for sums of their own."""

    fed: Booleans  # whether enough sites contribute to every fold of each label, (groups,)
    prices: Floats | None = None  # worth sending later, from a roster before this one
    name = "calibration"

    @property
    def request(self) -> Request:
        """Ask for the rows of each group."""
        return requests.GroupRowsRequest()

    def take(self, total: replies.GroupRows, plan: Plan, sites: int) -> Phase:
        """Begin the fits of the groups that are large enough."""
        # Sums of limited precision cannot show progress below it.
        precision = {"slack": 1e-3, "least_gain": 1e-4} if plan.secure else {}
        most = MOST_ROUNDS if plan.secure else None
        places = summed_at(total.rows, float(total.everybody[0]), self.fed) if sites > 1 else np.arange(total.rows.size)
        levels = Levels.start(plan.calibration, places, folds=plan.folds, most_rounds=most, **precision)
        return CalibrationPhase(levels, total.mass, self.prices)

    def without(self, plan: Plan) -> Phase | None:
        """The rows of those who remain; under secure sums it has to be counted again who contributes."""
        return first_phase(plan, self.prices) if plan.secure else None


@dataclass(frozen=True, eq=False)
class CalibrationPhase(Phase):
    """The calibrators of all rows and of the groups, by Newton's method on additive sums."""

    levels: Levels
    mass: Floats  # weight of the rows of each group
    prices: Floats | None = None  # worth sending later, from a roster before this one
    name = "calibration"

    @property
    def request(self) -> Request:
        """Ask for loss, gradient and Hessian, and in the first round for counts."""
        points = self.levels.request
        if self.levels.counts is None:
            return requests.FoldCountsRequest(points.at, points.places, points.live)
        return requests.CurvatureRequest(points.at, points.places, points.live)

    def take(self, total: replies.FoldCounts | replies.Curvature, plan: Plan, sites: int) -> Phase:
        """One Newton step."""
        levels = self.levels.count(total.counts) if isinstance(total, replies.FoldCounts) else self.levels
        levels = levels.take(total.sums)
        if levels.done:
            return after_calibration(plan, TotalsPhase(levels.published, self.prices))
        return replace(self, levels=levels)

    def without(self, plan: Plan) -> Phase | None:
        """The loss of other rows: begin again."""
        return first_phase(plan, self.prices)


@dataclass(frozen=True, eq=False)
class PoolingPhase(Phase):
    """A step of the pooling, and the request for totals that comes after the last one."""

    after: TotalsPhase
    name = "pooling"

    def without(self, plan: Plan) -> Phase | None:
        """The reference was that of other rows: begin again."""
        return first_phase(plan, self.after.prices)


@dataclass(frozen=True, eq=False)
class ScoreMomentsPhase(PoolingPhase):
    """Pooling: where groups lie and how far their scores vary; and how firmly cells hold to their group's map."""

    @property
    def request(self) -> Request:
        """Ask for moments of scores, and for the losses of calibrators."""
        return requests.ScoreMomentsRequest(self.after.maps)

    def take(self, total: replies.ScoreMoments, plan: Plan, sites: int) -> Phase:
        """Choose the strength, and go on where there is anything to borrow."""
        if not may_borrow(plan.pooling, sites, round(float(total.small_cells[0]))):
            return self.after
        after = self.after
        if after.maps is not None:
            rows = round(float(total.rows[0]))
            after = after.with_strength(least_loss(total.losses, STRENGTHS["auto"], rows))
        names = pooling.ScoreMoments.__match_args__
        sums = pooling.ScoreMoments(*(getattr(total, name) for name in names))
        return ShiftMomentsPhase(after, Reference.of(sums, sites))

    def without(self, plan: Plan) -> Phase | None:
        """Sums of those who remain; where calibrators hold the excluded rows too, these are fitted again first."""
        return None if self.after.maps is None else super().without(plan)


@dataclass(frozen=True, eq=False)
class ShiftMomentsPhase(PoolingPhase):
    """Pooling: how far sites, and cells inside them, truly differ."""

    reference: Reference

    @property
    def request(self) -> Request:
        """Ask for moments of shifts."""
        return requests.ShiftMomentsRequest(self.reference)

    def take(self, total: replies.ShiftMoments, plan: Plan, sites: int) -> Phase:
        """What is beyond chance."""
        between = pooling.shift_variance(total.sums, self.reference)
        return FoldHistogramsPhase(self.after, self.reference, between)


@dataclass(frozen=True, eq=False)
class FoldHistogramsPhase(PoolingPhase):
    """Pooling: the candidate priors, each without one fold."""

    reference: Reference
    between: Floats

    @property
    def request(self) -> Request:
        """Ask what cells give to each."""
        return requests.FoldHistogramsRequest(self.reference, self.between)

    def take(self, total: replies.FoldHistograms, plan: Plan, sites: int) -> Phase:
        """Hand all of them out."""
        return CandidateErrorsPhase(self.after, self.reference, self.between, total.mass)


@dataclass(frozen=True, eq=False)
class CandidateErrorsPhase(PoolingPhase):
    """Pooling: which prior, and how many rows of it, foretells held-out rates best."""

    reference: Reference
    between: Floats
    priors: Floats

    @property
    def request(self) -> Request:
        """Ask for the errors of every candidate."""
        return requests.CandidateErrorsRequest(self.reference, self.between, self.priors)

    def take(self, total: replies.CandidateErrors, plan: Plan, sites: int) -> Phase:
        """Choose."""
        sums = pooling.CandidateErrors(total.excess, total.products)
        choice = pooling.least_error(sums, sites * len(plan.groups))
        if choice.kind == "none":
            return self.after
        rule = ShiftRule.of(self.reference, self.between).last
        return PriorPhase(self.after, choice.kind, choice.finite_kappa, rule, self.reference)


@dataclass(frozen=True, eq=False)
class PriorPhase(PoolingPhase):
    """Pooling: the prior that was chosen."""

    kind: str
    kappa: float | None  # None: infinite
    rule: ShiftRule
    reference: Reference | None = None  # None: nothing had to be chosen

    @property
    def request(self) -> Request:
        """Ask what cells give to it."""
        return requests.PriorRequest(self.kind, self.kappa, self.rule)

    def take(self, total: replies.PriorSums, plan: Plan, sites: int) -> Phase:
        """Hand it out with the request for totals, unless nobody borrows from anybody."""
        if not may_borrow(plan.pooling, sites, 1):
            return self.after.with_strength(STRENGTH)
        sums = pooling.PriorSums(total.mass, total.odds, total.cells)
        priors = GroupPriors.of(Choice.of(self.kind, self.kappa), self.rule, sums)
        return replace(self.after, priors=priors) if priors.cells else self.after

    def without(self, plan: Plan) -> Phase | None:
        """What was chosen, was so with the excluded rows; where nothing was, those who remain can answer."""
        return None if self.reference is None and self.after.maps is None else super().without(plan)


@dataclass(frozen=True, eq=False)
class TotalsPhase(Phase):
    """Rows and expected positives of the roster; ``prices`` were sent to a roster before this one."""

    maps: GroupMaps | None
    prices: Floats | None = None
    priors: GroupPriors | None = None  # where small cells borrow
    name = "totals"

    def with_strength(self, strength: float) -> TotalsPhase:
        """The same with calibrators that hold cells to their groups by so many rows."""
        return self if self.maps is None else replace(self, maps=replace(self.maps, strength=strength))

    @property
    def request(self) -> Request:
        """Ask for rows and expected positives per group."""
        return requests.TotalsRequest(self.maps, self.priors)

    def take(self, total: replies.Totals, plan: Plan, sites: int) -> Phase:
        """Begin with prices, or with Algorithm 1.

        Raises
        ------
        InfeasibleError
            Where what is required inside sites cannot be met at some of them.
        """
        slack, inside = float(total.slack.sum()), "what is required inside sites"
        if slack > _SLACK:  # at how many sites, and which, is not known from a sum
            raise InfeasibleError(
                {inside: slack},
                f"requirements: no rule meets all of them: {inside} cannot be met at some site; in all sites together "
                f"its rates would have to give way by {slack:.4g} at least, and each site can see its own part by "
                "fitting its own rows.",
            )
        totals = RosterTotals(total.mass, total.positives, sites, self, total.today)
        if plan.solver is None:
            return PricingPhase.start(totals, plan)
        if plan.solver.step is None:
            return SmoothnessPhase(totals)
        return StepsPhase.start(totals, plan, float(plan.solver.step))

    def without(self, plan: Plan) -> Phase | None:
        """Totals of those who remain; where calibrators or priors hold the excluded rows too, these come first."""
        alone = self.maps is None and self.priors is None and not plan.secure
        return None if alone else first_phase(plan, self.prices)


@dataclass(frozen=True, eq=False)
class RosterTotals:
    """What all later phases need: the totals of the roster, and the phase they came from."""

    mass: Floats
    positives: Floats
    sites: int
    before: TotalsPhase  # whose replies they are
    today: Floats  # what is accepted where nothing is required, (groups, rates of today)

    @property
    def counts(self) -> GroupCounts:
        """The rows of the roster."""
        return GroupCounts(self.mass, self.positives, self.sites)

    def required(self, plan: Plan) -> GlobalRequirements:
        """What is required over all sites."""
        return GlobalRequirements(plan, self.mass, self.positives, self.today)


class AfterTotals(Phase):
    """A phase that knows the totals of its roster: the answers of sites are void without one of them."""

    totals: RosterTotals

    def telling(self, plan: Plan) -> Floats | None:
        """The prices worth sending to a new roster at once."""
        return None

    def without(self, plan: Plan) -> Phase | None:
        """Begin again: calibrators and totals were those of other rows."""
        return first_phase(plan, self.telling(plan))

    def corrected(self, totals: replies.Totals, plan: Plan, sites: int) -> Phase:
        """Where a new roster goes on whose totals are known already; calibrators and priors stay as they are."""
        return replace(self.totals.before, prices=self.telling(plan)).take(totals, plan, sites)


@dataclass(frozen=True, eq=False)
class PricingPhase(AfterTotals):
    """One round of the decomposition: a batch of prices out, summed answers back."""

    totals: RosterTotals
    tried: TriedPrices
    prices: Floats  # those of this round
    round: int
    name = "answers"

    @classmethod
    def start(cls, totals: RosterTotals, plan: Plan) -> PricingPhase:
        """Begin with what the last roster found worth asking, or with the usual batch."""
        none = TriedPrices.none(len(plan.groups), len(plan.global_rates))
        again = totals.before.prices
        state = totals.required(plan).decomposition(none)
        if again is None:
            return cls(totals, none, _next_prices(plan, totals, state), 1)
        # Prices prove a bound only if they sum to 0 over the groups that count, and a lost site may change which do.
        prices = totals.required(plan).marks.within(state.repaired(again))
        return cls(totals, none, np.unique(prices, axis=0), 1)

    @property
    def request(self) -> Request:
        """Ask for the best answer to every price vector of the batch."""
        return requests.AnswersRequest(self.totals.mass, self.totals.positives, self.prices)

    def take(self, total: replies.Answers, plan: Plan, sites: int) -> Phase:
        """Add the answers; go on to the final step where the certificate is good enough, else ask for more.

        Raises
        ------
        InfeasibleError
            Where some prices prove that no rule meets all requirements.
        """
        required = self.totals.required(plan)
        rates = required.columns(total.shares, total.selected)
        tried = self.tried.and_also(TriedPrices(self.prices, total.gain, rates, total.bound))
        state = required.decomposition(tried)
        if required.impossible(state):
            raise required.conflict(state)
        if state.incumbent.optimality_gap > plan.optimality_gap and self.round < plan.rounds:
            prices = _next_prices(plan, self.totals, state)
            if len(prices):  # none: everything near the optimum was tried, and rounding is all that is left
                return PricingPhase(self.totals, tried, prices, self.round + 1)
        if not np.isfinite(state.incumbent.value):
            raise RunError(
                f"run {plan.run}: after {self.round} rounds no rule that meets all requirements was found, nor a proof "
                "that there is none; allow more rounds, or require slightly less."
            )
        return FinalPhase.mixture(self.totals, tried, state.incumbent, self.round)

    def telling(self, plan: Plan) -> Floats | None:
        """What the best mixture so far is made of, where its bound was found, and what was under way."""
        if not self.tried.gains.size:
            return self.prices
        found = self.totals.required(plan).decomposition(self.tried).incumbent
        telling = np.concatenate([self.tried.prices[found.weights[1:] > 0], found.centre[None], self.prices])
        _, first = np.unique(telling, axis=0, return_index=True)
        return np.asarray(telling[np.sort(first)][: max(1, len(self.prices))])


def _next_prices(plan: Plan, totals: RosterTotals, state: Decomposition) -> Floats:
    """The next batch; a single zero price where nothing global is constrained."""
    if not state.counts.any():
        return np.zeros((1, *state.tolerance.shape))
    size = plan.trials_at_most(_SEALED * totals.sites if plan.secure else 0)
    return trial_prices(state, size, totals.required(plan).marks)


@dataclass(frozen=True, eq=False)
class SmoothnessPhase(AfterTotals):
    """Algorithm 1 takes one common step, from the largest smoothness constants."""

    totals: RosterTotals
    name = "steps"

    @property
    def request(self) -> Request:
        """Ask for smoothness constants."""
        return requests.SmoothnessRequest(self.totals.mass, self.totals.positives)

    def take(self, total: replies.Smoothness, plan: Plan, sites: int) -> Phase:
        """``total`` holds the largest constants, not their sums."""
        assert plan.solver is not None
        step = plan.solver.length(total.constant, len(plan.groups))
        return StepsPhase.start(self.totals, plan, step)


@dataclass(frozen=True, eq=False)
class StepsPhase(AfterTotals):
    """One round of Algorithm 1; the server takes the mean of the sites' changes and projects it."""

    totals: RosterTotals
    multipliers: Floats  # (pairs, rates)
    step: float
    round: int
    name = "steps"

    @classmethod
    def start(cls, totals: RosterTotals, plan: Plan, step: float) -> StepsPhase:
        """All multipliers are 0 at first."""
        groups = len(plan.groups)
        return cls(totals, np.zeros((groups * (groups - 1), len(plan.global_rates))), step, 1)

    @property
    def request(self) -> Request:
        """Ask for local steps."""
        t = self.totals
        return requests.StepsRequest(t.mass, t.positives, self.multipliers, self.step, self.round, t.sites)

    def take(self, total: replies.Steps, plan: Plan, sites: int) -> Phase:
        """Average, project, and after the last round stop at the multipliers reached."""
        assert plan.solver is not None
        after = np.maximum(self.multipliers + total.change / sites, 0.0)
        if self.round < plan.solver.rounds:
            return replace(self, multipliers=after, round=self.round + 1)
        prices = signed(after, len(plan.groups))
        return BoundPhase(self.totals, prices[None], self.round)


@dataclass(frozen=True, eq=False)
class BoundPhase(AfterTotals):
    """The end of Algorithm 1: every client's exact answer to the final multipliers, and the bound they prove."""

    totals: RosterTotals
    prices: Floats
    round: int
    name = "answers"

    @property
    def request(self) -> Request:
        """Ask for the answer to the final multipliers."""
        return requests.AnswersRequest(self.totals.mass, self.totals.positives, self.prices)

    def take(self, total: replies.Answers, plan: Plan, sites: int) -> Phase:
        """That one answer is the rule, whether it is within the tolerances or not."""
        tried = TriedPrices(self.prices, total.gain, total.shares, total.bound)
        bound = float(self.totals.required(plan).decomposition(tried).bounds[0])
        return FinalPhase(self.totals, self.prices, np.ones(1), bound, self.prices[0], self.round)


@dataclass(frozen=True, eq=False)
class FinalPhase(AfterTotals):
    """The weights of the mixture go out; every client stores its policy and measures it."""

    totals: RosterTotals
    prices: Floats  # (answers mixed, groups, rates)
    weights: Floats
    bound: float  # above rejecting everybody
    bound_prices: Floats  # (groups, rates): the prices that prove the bound
    rounds: int
    name = "final"

    @classmethod
    def mixture(cls, totals: RosterTotals, tried: TriedPrices, found: Incumbent, rounds: int) -> FinalPhase:
        """Keep the answers that count; the weight of the first column is that of rejecting everybody."""
        used = np.flatnonzero(found.weights[1:] > 0)
        prices, weights = tried.prices[used], found.weights[1:][used]
        if not used.size:  # everybody is rejected: any answer with weight 0 says so
            prices, weights = tried.prices[:1], np.zeros(1)
        return cls(totals, prices, weights, found.bound, found.centre, rounds)

    @property
    def request(self) -> Request:
        """Ask every client to store its policy and to measure it."""
        return requests.FinalRequest(self.prices, self.weights)

    def take(self, total: replies.FinalFigures, plan: Plan, sites: int) -> Phase:
        """What was measured is the result."""
        required = self.totals.required(plan)
        rates = required.columns(total.shares, total.selected)
        return Finished(self, total, required.gaps(rates), required.excess(rates))

    def telling(self, plan: Plan) -> Floats | None:
        """The prices that mattered."""
        return np.unique(np.concatenate([self.prices, self.bound_prices[None]]), axis=0)


@dataclass(frozen=True, eq=False)
class Finished(Phase):
    """All is measured; the server, which knows the roster, publishes the result, and nothing follows."""

    final: FinalPhase
    figures: replies.FinalFigures
    global_gaps: Floats  # in the user's units, (rates,)
    violation: float
    name = "publication"
