"""What a reply must look like: its type and shapes follow from the request, its range from rows and rates.

The server checks every reply it can see, and the totals it cannot see behind; a client checks its own reply before it
is masked. A number no set of rows can give is refused, with one sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from logofair.calibration.fits import PARTS
from logofair.calibration.logistic import FAMILIES
from logofair.calibration.sums import placed
from logofair.columns.checks import Floats
from logofair.federation import replies, requests
from logofair.federation.plan import Plan
from logofair.fitting.pooling import BINS, KAPPAS, KINDS, STRENGTHS
from logofair.notions import Rate

# More rows than any federation has.
_MOST_ROWS = 1e12
# Coefficients of rates are at most 1e5, since a rate of fewer than 1 in 100,000 counts as undefined.
_MOST_SMOOTHNESS = 1e14
# Rounding of solvers and of fixed-point sums, far below any tolerance; and of sums over rows.
_ROUNDING = 1e-6
_SLACK = 1e-3
# Features of a calibration are logarithms of scores kept within [1e-6, 1 - 1e-6].
_LARGEST_FEATURE = 14.0
# A shift, and a score moved by it, lies within a few times that.
_LARGEST_SHIFT = 100.0
# A row's log loss is at most that of a chance of 1e-12.
_LARGEST_LOSS = 28.0


# Replies that say how many rows a client has.
OF_ROWS = (replies.GroupRows, replies.ScoreMoments, replies.Totals)


@dataclass(frozen=True, eq=False)
class GroupCounts:
    """The rows and expected positives per group behind a reply: one client's, or those of the roster."""

    mass: Floats
    positives: Floats
    sites: int = 1

    @classmethod
    def from_reply(cls, reply: Any) -> GroupCounts:
        """What an earlier reply (one of :data:`OF_ROWS`) says of the rows behind the later ones."""
        if isinstance(reply, replies.GroupRows):
            return cls(reply.mass, np.zeros_like(reply.mass))
        if isinstance(reply, replies.ScoreMoments):
            return cls(reply.mass[-1], np.zeros_like(reply.mass[-1]))
        return cls(reply.mass, reply.positives)

    @classmethod
    def from_folds(cls, counts: Floats) -> GroupCounts:
        """The rows that a calibration sums; its last fit leaves none of them out."""
        by_label = counts[:, -1, -1]
        return cls(by_label.sum(axis=0), by_label[1])


def reply_form(request: requests.Request, plan: Plan) -> tuple[type[replies.Sums], list[tuple[int, ...]]]:
    """The type of the reply to a request, and the shapes of its fields."""
    groups, rates, capacity = len(plan.groups), len(plan.group_rates), int(plan.has_capacity)
    fits, family = plan.folds + 1, FAMILIES.get(plan.calibration)
    k = 0 if family is None else len(family.identity)
    curvature = (1 + k + k * (k + 1) // 2, fits, 1 + groups)
    counted = 2 if family is not None and family.smoothed else 1
    t = len(request.prices) if isinstance(request, requests.AnswersRequest) else 0
    bins = 1 + request.reference.edges.size if isinstance(request, requests.FoldHistogramsRequest) else 0
    strengths, kappas = 0 if family is None else len(STRENGTHS["auto"]), (len(KINDS), len(KAPPAS))
    own = 0 if plan.pooling == "none" else groups
    sites = len(request.sites) if isinstance(request, requests.ContributorsRequest) else 0
    forms: dict[type, tuple[type[replies.Sums], list[tuple[int, ...]]]] = {
        requests.ContributorsRequest: (
            replies.Contributors,
            [(sites, groups), (sites, groups, rates), (sites, groups, len(PARTS))],
        ),
        requests.GroupRowsRequest: (replies.GroupRows, [(groups,), (1,), (groups,)]),
        requests.FoldCountsRequest: (replies.FoldCounts, [(2, counted, fits, groups), curvature]),
        requests.CurvatureRequest: (replies.Curvature, [curvature]),
        requests.ScoreMomentsRequest: (
            replies.ScoreMoments,
            [*[(fits, groups)] * 5, (1,), (BINS,), (strengths, plan.folds), (1,)],
        ),
        requests.ShiftMomentsRequest: (replies.ShiftMoments, [(5, fits, 1 + groups)]),
        requests.FoldHistogramsRequest: (replies.FoldHistograms, [(len(KINDS), plan.folds, groups, bins)]),
        requests.CandidateErrorsRequest: (replies.CandidateErrors, [kappas, (*kappas, len(KAPPAS))]),
        requests.PriorRequest: (replies.PriorSums, [(groups, BINS), (groups, BINS), (1,)]),
        requests.TotalsRequest: (
            replies.Totals,
            [(groups,), (groups,), (groups, len(plan.today_rates)), (int(plan.limited_inside),)],
        ),
        requests.AnswersRequest: (replies.Answers, [(t,), (t, groups, rates), (t,), (t, capacity)]),
        requests.SmoothnessRequest: (replies.Smoothness, [(2,)]),
        requests.StepsRequest: (replies.Steps, [(groups * (groups - 1), rates)]),
        requests.FinalRequest: (replies.FinalFigures, [(1,), (groups, rates), (1,), (capacity,), (own, 3)]),
        requests.PublishRequest: (replies.Received, []),
    }
    return forms[type(request)]


def fault(
    reply: object, request: requests.Request, plan: Plan, counts: GroupCounts | None, roster: GroupCounts | None
) -> str | None:
    """What is wrong with a reply, or None; ``counts`` are of the rows behind it, ``roster`` of all sites' rows."""
    kind, shapes = reply_form(request, plan)
    if type(reply) is not kind:
        return f"sent a {type(reply).__name__} where a {kind.__name__} was requested"
    for field, shape in zip(fields(kind), shapes, strict=True):
        value: Any = getattr(reply, field.name)
        if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.shape != shape:
            got = getattr(value, "shape", type(value).__name__)
            return f"sent {field.name} of shape {got} where {shape} was requested"
        if not np.isfinite(value).all():
            return f"sent {field.name} with a value that is no finite number"
    if plan.smallest_cell == 1 and isinstance(reply, OF_ROWS) and not GroupCounts.from_reply(reply).mass.sum() > 0:
        return "sent a number of rows that cannot be"  # where small cells are left out, none may be left
    return _out_of_range(reply, request, plan, counts, roster)


def _out_of_range(
    reply: Any, request: Any, plan: Plan, counts: GroupCounts | None, roster: GroupCounts | None
) -> str | None:
    """What no rows could give."""
    if isinstance(reply, replies.Contributors):
        return _of_contributors(reply)
    if isinstance(reply, replies.Totals):
        before = counts if plan.calibration != "none" or plan.pooling == "auto" else None
        return _of_totals(reply, plan.today_rates, before)
    if isinstance(reply, replies.GroupRows):
        numbers = np.concatenate([reply.rows, reply.everybody, reply.mass])
        wrong = numbers.min() < 0 or numbers.max() > _MOST_ROWS or np.any((reply.mass > 0) & (reply.rows == 0))
        return "sent a number of rows that cannot be" if wrong else None
    if isinstance(reply, replies.FoldCounts | replies.Curvature):
        return _of_calibration(reply, request, counts)
    if type(reply) in _OF_POOLING:
        found: str | None = _OF_POOLING[type(reply)](reply, counts)
        return found
    if isinstance(reply, replies.Smoothness):
        wrong = reply.constant.min() < 0 or reply.constant.max() > _MOST_SMOOTHNESS
        return "sent smoothness constants that no rows can have" if wrong else None
    if counts is None or roster is None:
        return None
    if isinstance(reply, replies.Steps):
        return _of_steps(reply, request, plan, counts, roster)
    if isinstance(reply, replies.Answers | replies.FinalFigures):
        return _of_answers(reply, request, plan.group_rates, counts, roster)
    return None


def _of_contributors(reply: replies.Contributors) -> str | None:
    """Ones and zeros, and nobody of a group that is not counted."""
    marks = np.concatenate([reply.groups[:, :, None], reply.rates, reply.folds], axis=2)
    wrong = not np.isin(marks, (0.0, 1.0)).all() or np.any(marks > reply.groups[:, :, None])
    return "claimed to contribute more than a site can" if wrong else None


def _of_totals(reply: replies.Totals, today: Sequence[Rate], counts: GroupCounts | None) -> str | None:
    slack = _ROUNDING * (1.0 + reply.mass)
    if counts is not None and np.any(np.abs(reply.mass - counts.mass) > slack):
        return "claims another number of rows than before"
    if reply.mass.min() < 0 or reply.mass.max() > _MOST_ROWS:
        return "sent a number of rows that cannot be"
    if np.any(reply.positives < -slack) or np.any(reply.positives > reply.mass + slack):
        return "sent more expected positives than rows, or fewer than none"
    for rate, accepted in zip(today, reply.today.T, strict=True):
        if np.any(accepted < -slack) or np.any(accepted > rate.denominator(reply.mass, reply.positives) + slack):
            return "claims that more is accepted today than there is"
    return "sent a slack below 0" if reply.slack.min(initial=0.0) < 0 else None


def _of_calibration(
    reply: replies.FoldCounts | replies.Curvature, request: Any, counts: GroupCounts | None
) -> str | None:
    """Losses and derivatives within what so many rows allow."""
    known = None if counts is None else placed(counts.mass, request.places)
    if isinstance(reply, replies.FoldCounts):
        *sums, mass = np.moveaxis(reply.counts, 1, 0)
        if mass.min() < 0 or mass.max() > _MOST_ROWS:
            return "sent a number of rows that cannot be"
        if any(np.any(np.abs(each) > _LARGEST_FEATURE * mass + _SLACK) for each in sums):
            return "sent calibration sums that no rows can have"
        own = GroupCounts.from_folds(reply.counts).mass
        if known is not None and np.any(np.abs(own - known) > _ROUNDING * (1.0 + known)):
            return "claims another number of rows than before"
        known = own
    rows = _MOST_ROWS if known is None else (1 + _ROUNDING) * np.append(known.sum(), known)
    loss = rows * (1.0 + _LARGEST_FEATURE * np.abs(request.at).sum(axis=0))  # of a row: ln(1 + exp(sum |at| * 14))
    others = rows * _LARGEST_FEATURE**2
    inside = np.all(reply.sums[0] <= loss + _SLACK) and np.all(np.abs(reply.sums[1:]) <= others + _SLACK)
    return None if inside and reply.sums[0].min() >= 0 else "sent calibration sums that no rows can have"


def _of_score_moments(reply: replies.ScoreMoments, counts: GroupCounts | None) -> str | None:
    """Moments that rows with log-odds in [-14, 14] can have; folds that add up."""
    mass, slack = reply.mass, _SLACK * (1.0 + 1e-3 * reply.mass[-1].sum())
    if mass.min() < 0 or mass.max() > _MOST_ROWS or not 0 <= reply.rows[0] <= _MOST_ROWS:
        return "sent a number of rows that cannot be"
    if counts is not None and counts.mass.shape == mass[-1].shape and np.any(np.abs(mass[-1] - counts.mass) > slack):
        return "claims another number of rows than before"
    if np.any(np.abs((mass[-1] - mass[:-1]).sum(axis=0) - mass[-1]) > slack):
        return "sent folds that do not make up its rows"
    limits = ((reply.freedom, 1.0), (reply.squares, 4 * _LARGEST_FEATURE**2))
    fits = all(each.min() >= 0 and np.all(each <= limit * mass + slack) for each, limit in limits)
    fits &= bool(reply.counts.min() >= 0 and np.all(reply.counts <= reply.rows[0] * (1 + _ROUNDING) + _SLACK))
    fits &= bool(np.all(np.abs(reply.odds) <= _LARGEST_FEATURE * mass + slack))
    fits &= bool(reply.histogram.min() >= 0 and abs(reply.histogram.sum() - mass[-1].sum()) <= slack)
    fits &= bool(0 <= reply.small_cells[0] <= _cells(counts, mass.shape[1]))
    if not fits:
        return "sent moments of scores that no rows can have"
    losses = reply.losses.sum(axis=1)
    wrong = reply.losses.min(initial=0.0) < 0 or losses.max(initial=0.0) > _LARGEST_LOSS * mass[-1].sum() + slack
    return "sent log losses that no rows can have" if wrong else None


def _cells(counts: GroupCounts | None, groups: int) -> float:
    """The most cells that can stand behind a reply."""
    return _MOST_ROWS if counts is None else counts.sites * groups


def _of_shift_moments(reply: replies.ShiftMoments, counts: GroupCounts | None) -> str | None:
    """Shares of all precision, at most 1, and moments of shifts that they can have."""
    weight, first, second, square, number = reply.sums
    slack = _ROUNDING * (1.0 if counts is None else counts.sites)
    fits = min(weight.min(), second.min(), square.min(), number.min()) >= 0 and weight.max() <= 1.0 + slack
    fits &= bool(np.all(second <= _LARGEST_SHIFT**2 * weight + slack) and np.all(square <= weight + slack))
    fits &= bool(np.all(first**2 <= weight * second + slack) and number.max() <= _cells(counts, 1) + _ROUNDING)
    return None if fits else "sent shifts that no rows can have"


def _of_histograms(reply: replies.FoldHistograms, counts: GroupCounts | None) -> str | None:
    """No more than the rows there are, and as much for every kind of prior."""
    given = reply.mass.sum(axis=-1)
    slack = _SLACK * (1.0 + 1e-3 * given)
    fits = reply.mass.min() >= 0 and np.all(np.abs(given - given[:1]) <= slack)
    fits &= counts is None or bool(np.all(given <= counts.mass + slack))
    return None if fits else "sent histograms that its rows cannot have"


def _of_errors(reply: replies.CandidateErrors, counts: GroupCounts | None) -> str | None:
    """Errors of shares differ by at most 1, and products of differences are those of some cells."""
    squares = np.diagonal(reply.products, axis1=1, axis2=2)
    slack = _ROUNDING
    fits = np.abs(reply.excess).max() <= 1.0 + slack and np.abs(reply.excess[0, 0]) <= slack
    fits &= bool(squares.min() >= -slack and squares.max() <= 1.0 + slack)
    fits &= bool(np.all(reply.products**2 <= squares[:, :, None] * squares[:, None, :] + slack))
    fits &= bool(np.all(np.abs(reply.products - reply.products.swapaxes(1, 2)) <= slack))
    fits &= counts is None or bool(np.all(reply.excess**2 <= _cells(counts, counts.mass.size) * squares + slack))
    return None if fits else "sent errors of held-out rates that no rows can have"


def _of_prior(reply: replies.PriorSums, counts: GroupCounts | None) -> str | None:
    """No more than the rows there are, with log-odds in range."""
    given = reply.mass.sum(axis=1)
    slack = _SLACK * (1.0 + 1e-3 * given)
    fits = reply.mass.min() >= 0 and bool(np.all(np.abs(reply.odds) <= _LARGEST_SHIFT * reply.mass + _SLACK))
    fits &= bool(given.max() <= _MOST_ROWS) if counts is None else bool(np.all(given <= counts.mass + slack))
    fits &= bool(0 <= reply.cells[0] <= _cells(counts, len(given)) + _ROUNDING)
    return None if fits else "sent a prior that its rows cannot have"


_OF_POOLING: dict[type, Any] = {
    replies.ScoreMoments: _of_score_moments,
    replies.ShiftMoments: _of_shift_moments,
    replies.FoldHistograms: _of_histograms,
    replies.CandidateErrors: _of_errors,
    replies.PriorSums: _of_prior,
}


def _of_steps(reply: replies.Steps, request: Any, plan: Plan, counts: GroupCounts, roster: GroupCounts) -> str | None:
    """Changes no longer than the steps taken times the steepest slope that the rows behind them allow."""
    low, high = share_limits(plan.group_rates, counts, roster)
    tolerance = plan.global_tolerances[0].max(initial=0.0)
    slope = tolerance + 2.0 * max(high.max(initial=0.0), -low.min(initial=0.0))
    longest = 1 if plan.solver is None else plan.solver.local_steps * request.step * slope
    wrong = np.abs(reply.change).max(initial=0.0) > longest * (1 + _ROUNDING) + _ROUNDING
    return "sent a larger change of the multipliers than its rows allow" if wrong else None


def _of_answers(
    reply: Any, request: Any, rates: Sequence[Rate], counts: GroupCounts, roster: GroupCounts
) -> str | None:
    """Gains and shares within what the rows behind them allow; dual values not below what their answers are worth."""
    total = roster.mass.sum()
    if np.abs(reply.gain).max(initial=0.0) > counts.mass.sum() / total + _ROUNDING:
        return "claims more accuracy than its rows allow"
    share = counts.mass.sum() / total + _ROUNDING
    if reply.selected.min(initial=0.0) < -_ROUNDING or reply.selected.max(initial=0.0) > share:
        return "claims to select more people than it has"
    low, high = share_limits(rates, counts, roster)
    if np.any(reply.shares < low) or np.any(reply.shares > high):
        return "claims a larger share of a group's rate than its rows allow"
    if isinstance(reply, replies.FinalFigures):
        whole_numbers = (
            0 <= reply.exceeding[0] <= counts.sites and abs(reply.exceeding[0] - round(reply.exceeding[0])) < 1e-3
        )
        if not whole_numbers:
            return "sent a mark that is neither 0 nor 1"
        accepted, positives, of_all = reply.own.T
        slack = _SLACK * (1.0 + 1e-3 * counts.mass)
        below = ((positives, accepted), (positives, of_all), (accepted, counts.mass), (of_all, counts.mass))
        wrong = reply.own.size and (reply.own.min() < 0 or any(np.any(a > b + slack) for a, b in below))
        return "claims more on its own rows than it has" if wrong else None
    prices, of_capacity = request.prices[..., : len(rates)], request.prices[:, 0, len(rates) :]
    value = reply.gain - np.sum(prices * reply.shares, axis=(1, 2)) - np.sum(of_capacity * reply.selected, axis=1)
    allowed = _ROUNDING * (1.0 + np.abs(request.prices).sum(axis=(1, 2)))
    # A site whose solver fails rejects everybody, and its valid bound lies above that: too high costs a round only.
    largest = np.sum(np.abs(prices) * np.maximum(high, -low), axis=(1, 2)) + share * (1.0 + np.abs(of_capacity).sum(1))
    if np.any(reply.bound < value - allowed) or np.any(reply.bound > largest + allowed):
        return "sent a dual value that its own answer contradicts"
    return None


def share_limits(rates: Sequence[Rate], counts: GroupCounts, roster: GroupCounts) -> tuple[Floats, Floats]:
    """Smallest and largest share of each group's rate that so many rows can have, (groups, rates) each."""
    m, p = counts.mass, np.minimum(counts.positives, counts.mass)
    # Corners of all that can be selected: nobody, the positives, everybody, the negatives.
    corners = ((0 * m, 0 * m), (p, p), (m, p), (m - p, 0 * m))
    low, high = np.zeros((m.size, len(rates))), np.zeros((m.size, len(rates)))
    for k, rate in enumerate(rates):
        base = rate.denominator(roster.mass, roster.positives)
        defined = base > 0
        value = np.stack([rate.numerator(u, v) for u, v in corners])
        value = np.divide(value, base, out=np.zeros_like(value), where=defined)
        # Under secure sums every client's share of a total is rounded, which shows where a group is next to empty.
        slack = _ROUNDING * (1.0 + (counts.sites - 1) / np.maximum(base, _ROUNDING))
        low[:, k], high[:, k] = value.min(axis=0) - slack, value.max(axis=0) + slack
    return low, high
