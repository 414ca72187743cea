"""The last exchange of a run: every site mixes its best responses into a policy, stores it and measures it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import linprog

from logofair.columns.cells import Cells, build_cells
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans
from logofair.errors import RefusedError
from logofair.federation.batch import (
    LARGEST_PRICE,
    ClientBatch,
    best_answer,
    broadcast_prices,
    split_combinations,
)
from logofair.federation.exchange import (
    OF_CHANCES,
    OF_SHARES,
    SLACK,
    AfterTotals,
    Context,
    Exchange,
    Refusal,
    Request,
    RosterTotals,
    Sums,
    beyond_rows,
    disclosed,
)
from logofair.federation.plan import Plan
from logofair.policy.mixtures import NEGLIGIBLE, Mixtures, base_rule, evaluate, filled, reduce
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.problem import Problem

# Penalty on exceeding a limit in a cell without rows, against gains of at most 1 per row: it is exceeded only where
# no rule meets it, and then as little as can be.
_EXCESS = 1e3


@dataclass(frozen=True, eq=False)
class FinalFigures(Sums):
    """What a site measures of its stored policy: the certificate rests on this, not on what a solver reported."""

    gain: Floats = disclosed(
        "accuracy above rejecting everybody, or cost saved, as a share of all rows", "1", OF_SHARES
    )
    shares: Floats = disclosed("its share of each group's global rates", "groups rates", OF_SHARES)
    exceeding: Floats = disclosed(
        "1 where the stored policy misses a requirement inside the site, else 0", "1", OF_SHARES
    )
    combinations: Floats = disclosed(
        "its part of each rate of everyone, or difference of rates, that is limited over all", "combinations", OF_SHARES
    )
    own: Floats = disclosed(
        "with pooling, on its own rows alone: weight accepted, positives expected among them and in all",
        "own 3",
        OF_CHANCES,
    )

    def wrong(self, context: Context) -> str | None:
        """What the rows behind the figures cannot give; None where nothing is wrong."""
        counts, roster = context.counts, context.roster
        if counts is None or roster is None:
            return None
        beyond = beyond_rows(self.gain, self.shares, self.combinations, context.plan, counts, roster)
        if beyond is not None:
            return beyond
        exceeding = float(self.exceeding[0])
        if not 0 <= exceeding <= counts.sites or abs(exceeding - round(exceeding)) >= 1e-3:
            return "sent a mark that is neither 0 nor 1"
        accepted, positives, of_all = self.own.T
        slack = SLACK * (1.0 + 1e-3 * counts.mass)
        below = [(np.zeros(1), positives), (positives, accepted), (positives, of_all)]
        below += [(accepted, counts.mass), (of_all, counts.mass)]
        wrong = self.own.size and any(np.any(a > b + slack) for a, b in below)
        return "claims more on its own rows than it has" if wrong else None


@dataclass(frozen=True, eq=False)
class FinalRequest(Request):
    """Mix the answers to these prices with these weights, store the policy, and measure it."""

    reply = FinalFigures
    prices: Floats  # (answers mixed, groups, rates)
    weights: Floats

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, FinalFigures]:
        """Mix the best responses into threshold rules, store these, and measure what is stored.

        A response that was sent before is mixed as it was then, so that the figures are those that the server expects.
        """
        weights, plan, state = self.weights, batch.state.plan, batch.state
        if state.result is not None:
            raise RefusedError(Refusal.OUT_OF_TURN)
        valid = np.all(weights >= 0) and weights.sum() <= 1 + 1e-9 and len(weights) == len(self.prices) > 0
        if not (valid and np.all(np.abs(self.prices) <= LARGEST_PRICE)):
            raise RefusedError(Refusal.BAD_REQUEST)
        problem, rates = batch.problem, {rate for item in plan.require for rate in item.rates}
        if state.local_tolerance is not None:
            rates |= set(plan.inside.rates)
        selection_only = all(rate.slope == 0 for rate in rates) and all(
            item.measure != "precision" for item in plan.require
        )
        prices, answers = broadcast_prices(self.prices, plan), []
        for asked, of_groups in zip(self.prices, prices, strict=True):
            if state.prices is not None and state.u is not None and state.v is not None:
                same = np.flatnonzero((state.prices == asked).reshape(len(state.prices), -1).all(axis=1))
                if same.size:
                    answers.append((state.u[same[0]], state.v[same[0]]))
                    continue
            answer = best_answer(problem, of_groups)
            answers.append((answer.u, answer.v))
        u, v = (np.stack(each) for each in zip(*answers, strict=True))
        # Term by term: a matrix product sums in an order that depends on how many sites are in the batch.
        mixed_u, mixed_v = (sum(w * a for w, a in zip(weights, each, strict=True)).ravel() for each in (u, v))
        mixed = reduce(problem.cells, mixed_u, mixed_v, selection_only=selection_only)
        rules = filled(problem.cells, mixed, _merged_rules(problem, prices, weights))
        if state.priors is not None and not batch.cells.mass.all():
            # Pooling tells what rows to expect in cells without any: their group's scores at all sites.
            expected, _ = batch.preparation.borrowing(batch.chances, state.priors, fill=True)
            rules = _within_local_limits(problem, expected, rules, prices, weights, selection_only=selection_only)
        figures = measured(batch, rules)
        return batch.updated(rules=rules, mixture=self, exceeding=bool(figures.exceeding.any())), figures


@dataclass(frozen=True, eq=False)
class FinalExchange(AfterTotals):
    """The weights of the mixture go out; every site stores its policy and measures it."""

    request: FinalRequest
    totals: RosterTotals
    bound: float  # above rejecting everybody
    bound_prices: Floats  # (groups, rates): the prices that prove the bound
    rounds: int
    name = "final"

    def take(self, total: FinalFigures, plan: Plan, sites: int) -> Exchange:
        """What was measured is the result."""
        from logofair.federation.exchanges.publication import PublishExchange  # which builds on this

        return PublishExchange(self, total)

    def warm_start(self, plan: Plan) -> Floats | None:
        """The prices that mattered."""
        return np.unique(np.concatenate([self.request.prices, self.bound_prices[None]]), axis=0)


def measured(batch: ClientBatch, rules: Mixtures) -> FinalFigures:
    """What stored rules do at every site, on its rows with what pooling adds to small cells, and on its own alone."""
    problem, plan = batch.problem, batch.state.plan
    u, v = (each.reshape(problem.shape) for each in evaluate(problem.cells, rules))
    excess = np.max(problem.local_excess(u, v) / problem.local_limits.unit, axis=1, initial=0.0)
    rounding = LARGEST_VIOLATION / float(np.min(problem.local_limits.unit, initial=1.0))
    shares, combinations = split_combinations(problem.site_shares(u, v), plan)
    own = np.zeros((problem.shape[0], 0, 3))
    if plan.pooling != "none":
        own_u, own_v = evaluate(batch.own_cells, rules)
        mass, positives = batch.own_cells.mass, batch.own_cells.positives
        parts = mass * own_u, mass * own_v, positives
        own = np.stack([each.reshape(problem.shape) for each in parts], axis=2)
    return FinalFigures(
        gain=(problem.site_gains(u, v) + batch.cost_offset)[:, None],
        shares=shares,
        exceeding=(~(excess <= rounding)).astype(float)[:, None],  # NaN counts as exceeded
        combinations=combinations,
        own=own,
    )


# Rules for cells without rows. A cell has none where nobody of the group was there, or fewer people than the plan's
# smallest cell: nothing can be measured there, but people to be decided about may still come.


def _merged_rules(problem: Problem, prices: Floats, weights: Floats) -> Mixtures:
    """The merged rules, for cells without rows: one for each group, or, where costs differ by site, for each cell.

    Each is the best response to the mixed prices without local requirements: a mixture of thresholds on the chance, one
    for each of the prices. Where they are more than a stored rule has room for, those of the largest weights stand for
    all.
    """
    if problem.costs is None:
        return _group_rules(problem, prices, weights)
    pairs, which = np.unique(problem.costs, axis=0, return_inverse=True)
    first, *others = (_group_rules(replace(problem, costs=pair[None]), prices, weights) for pair in pairs)
    groups = problem.shape[1]
    return first.joined_with(*others).at((which.reshape(-1, 1) * groups + np.arange(groups)).ravel())


def _group_rules(problem: Problem, prices: Floats, weights: Floats) -> Mixtures:
    """The merged rule of each group, where errors cost the same at all sites."""
    groups = np.arange(problem.shape[1], dtype=np.int32)
    # A row's priced gain is linear in its chance, with the same zero in all rows of a group: one of each will do.
    row = build_cells(np.full(groups.size, 0.5), groups, 0 * groups, n_groups=groups.size, n_sites=1)
    gains = [replace(problem, cells=row).priced_gain(each) for each in prices]
    rules = base_rule(groups.size)
    for a in groups:
        weight_of: dict[tuple[float, bool], float] = {}  # by threshold, and whether chances from it on are accepted
        for (u, v), weight in zip(gains, weights, strict=True):
            constant, slope = float(u[0, a]), float(v[0, a])
            if slope == 0.0:
                gains_somewhere, threshold = constant > 0, 0.0
            else:
                threshold = -constant / slope
                gains_somewhere = threshold <= 1.0 if slope > 0 else threshold >= 0.0
            if gains_somewhere:
                rule = (min(max(threshold, 0.0), 1.0), slope >= 0)
                weight_of[rule] = weight_of.get(rule, 0.0) + float(weight)
        # The heaviest of them share the weight of all; the rest of 1 rejects.
        heaviest = sorted(weight_of, key=weight_of.__getitem__, reverse=True)[: rules.weight.shape[1]]
        total, kept = min(sum(weight_of.values()), 1.0), sum(weight_of[rule] for rule in heaviest)
        rules.weight[a], rules.threshold[a], rules.above[a] = 0.0, 0.0, True
        for place, (threshold, above) in enumerate(heaviest if kept > 0 else ()):
            share = total * weight_of[threshold, above] / kept
            rules.weight[a, place] = 1.0 if share > 1.0 - NEGLIGIBLE else share
            rules.threshold[a, place], rules.above[a, place] = threshold, above
        accepts = kept > 0 and total >= 0.5
        rules.single[a] = rules.threshold[a, 0] if accepts and rules.above[a, 0] else np.inf
    return rules


def _within_local_limits(
    problem: Problem, expected: Cells, rules: Mixtures, prices: Floats, weights: Floats, *, selection_only: bool
) -> Mixtures:
    """The rules, changed in cells without rows so that they meet the local requirements on the rows expected there.

    ``expected`` are the cells with their group's scores at all sites where there are no rows. The rules of the other
    cells stay as they are, and their rates, those of the site's other groups, set the limits.
    """
    full = replace(problem, cells=expected)
    u, v = (each.reshape(problem.shape) for each in evaluate(expected, rules))
    empty = problem.mass == 0
    rates, counts = full.local_values(u, v), full.inside.limited
    known = full.inside.compared & ~empty[..., None]
    low, high = _rate_limits(problem, rates, known)
    outside = (rates < low) | (rates > high)
    moved = np.argwhere(np.any(outside & counts, axis=2) & empty & (~empty).any(axis=1)[:, None])
    if not moved.size:
        return rules
    gains = [weight * np.stack(full.priced_gain(each)) for each, weight in zip(prices, weights, strict=True)]
    for site, group in moved:
        held = counts[site, group] & (np.isfinite(low[site, group]) | np.isfinite(high[site, group]))
        rate = np.stack([each[site, group, held] for each in full.local])
        limits = low[site, group, held], high[site, group, held]
        cell = site * problem.shape[1] + group
        u[site, group], v[site, group] = _best_within(expected, cell, sum(gains)[:, site, group], rate, *limits)
    found = reduce(expected, u.ravel(), v.ravel(), selection_only=selection_only)
    which = np.arange(empty.size)
    which[moved @ [problem.shape[1], 1]] += empty.size
    return rules.joined_with(found).at(which)


def _rate_limits(problem: Problem, rates: Floats, known: Booleans) -> tuple[Floats, Floats]:
    """Lowest and highest local rates that every group may have, given those of the groups with rows.

    Limits on everyone's rate, such as a capacity, are left to the groups with rows: how many others come is not known.
    """
    most = np.max(np.where(known, rates, -np.inf), axis=1, keepdims=True)
    least = np.min(np.where(known, rates, np.inf), axis=1, keepdims=True)
    limits, shape = problem.local_limits, rates.shape
    low, high = most - limits.tolerance[:, None], least + limits.tolerance[:, None]
    ratio = limits.ratio[:, None]
    within = (ratio > 0) & np.isfinite(most)
    low = np.where(within, np.maximum(low, ratio * np.where(within, most, 0.0)), low)
    high = np.where(within, np.minimum(high, np.where(within, least, 0.0) / np.where(within, ratio, 1.0)), high)
    low, high = np.maximum(low, limits.least), np.minimum(high, limits.most)
    return np.broadcast_to(low, shape), np.broadcast_to(high, shape)


def _best_within(cells: Cells, cell: int, gain: Floats, rate: Floats, low: Floats, high: Floats) -> tuple[float, float]:
    """(u, v) of the rule of a cell that gains most with its rates within limits, or as near to them as can be.

    ``gain`` and ``rate`` hold the coefficients of u and v, (2,) and (2, rates).
    """
    cuts = np.tile(np.arange(cells.starts[cell + 1] - cells.starts[cell] + 1), 2)
    upper = np.arange(cuts.size) < cuts.size // 2
    corners = np.stack(cells.corner(np.full(cuts.size, cell), cuts, upper))
    reached, excess = rate.T @ corners, np.eye(low.size)
    far = 1e6  # in place of an infinite limit
    found = linprog(
        np.concatenate([-gain @ corners, np.full(low.size, _EXCESS)]),
        A_ub=np.block([[reached, -excess], [-reached, -excess]]),
        b_ub=np.concatenate([np.minimum(high, far), -np.maximum(low, -far)]),
        A_eq=np.concatenate([np.ones(cuts.size), np.zeros(low.size)])[None],
        b_eq=[1.0],
    )
    assert found.x is not None  # some rule is always nearest
    u, v = corners @ found.x[: cuts.size]
    return float(u), float(v)
