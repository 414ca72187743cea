"""The rule of a group without rows at a client: nothing can be measured there, and some row may come one day.

A cell has no rows where nobody of the group was there, or fewer people than the plan's smallest cell.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import linprog

from logofair.cells.cells import Cells, build_cells
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans
from logofair.policy.mixtures import NEGLIGIBLE, Mixtures, base_rule, evaluate, reduce
from logofair.solvers.problem import Problem

# What leaving a tolerance costs, against a gain of at most 1 per row: as little of it as there must be.
_EXCESS = 1e3


def merged_rules(problem: Problem, prices: Floats, weights: Floats) -> Mixtures:
    """The rules of cells without rows, where nothing can be required: one for each group.

    Where errors do not cost the same at all sites, one for each cell. A rule is what a client that requires nothing
    inside answers to the prices that are mixed: at each of them a threshold on the chance. Where they are more than a
    stored rule has room for, the heaviest stand for all.
    """
    if problem.costs is None:
        return _group_rules(problem, prices, weights)
    pairs, which = np.unique(problem.costs, axis=0, return_inverse=True)
    first, *others = (_group_rules(replace(problem, costs=pair[None]), prices, weights) for pair in pairs)
    if not others:
        return first
    groups = problem.shape[1]
    return first.and_also(*others).at((which.reshape(-1, 1) * groups + np.arange(groups)).ravel())


def _group_rules(problem: Problem, prices: Floats, weights: Floats) -> Mixtures:
    """The rule of each group where errors cost the same."""
    groups = np.arange(problem.shape[1], dtype=np.int32)
    # What accepting a row gains is linear in its chance, so that one row tells the whole line.
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
        _write_rule(rules, int(a), weight_of)
    return rules


def _write_rule(rules: Mixtures, cell: int, weight_of: dict[tuple[float, bool], float]) -> None:
    """Write the heaviest of some thresholds, which share the weight of all, in place; the rest of 1 rejects."""
    heaviest = sorted(weight_of, key=lambda rule: -weight_of[rule])[: rules.weight.shape[1]]
    total, kept = min(sum(weight_of.values()), 1.0), sum(weight_of[rule] for rule in heaviest)
    rules.weight[cell], rules.threshold[cell], rules.above[cell] = 0.0, 0.0, True
    for place, (threshold, above) in enumerate(heaviest if kept > 0 else ()):
        weight = total * weight_of[threshold, above] / kept
        rules.weight[cell, place] = 1.0 if weight > 1.0 - NEGLIGIBLE else weight
        rules.threshold[cell, place], rules.above[cell, place] = threshold, above
    accepts = kept > 0 and total >= 0.5
    rules.single[cell] = rules.threshold[cell, 0] if accepts and rules.above[cell, 0] else np.inf


def held_rules(
    problem: Problem, expected: Cells, rules: Mixtures, prices: Floats, weights: Floats, *, selection_only: bool
) -> Mixtures:
    """The rules, with those of cells without rows held to the local requirements as far as their rows are expected.

    ``expected`` are the cells with their group's scores at all sites where there are no rows. The rules of the other
    cells stay as they are, and those of the client's other groups say between which limits a rate has to lie.
    """
    full = replace(problem, cells=expected)
    u, v = (each.reshape(problem.shape) for each in evaluate(expected, rules))
    empty = problem.mass == 0
    rates, counts = full.local_values(u, v), full.local_limited
    known = full.local_counts & ~empty[..., None]
    low, high = _allowed(problem, rates, known)
    outside = (rates < low) | (rates > high)
    moved = np.argwhere(np.any(outside & counts, axis=2) & empty & (~empty).any(axis=1)[:, None])
    if not moved.size:
        return rules
    gains = [weight * np.stack(full.priced_gain(each)) for each, weight in zip(prices, weights, strict=True)]
    for client, group in moved:
        held = counts[client, group] & (np.isfinite(low[client, group]) | np.isfinite(high[client, group]))
        rate = np.stack([each[client, group, held] for each in full.local])
        limits = low[client, group, held], high[client, group, held]
        cell = client * problem.shape[1] + group
        u[client, group], v[client, group] = _best_within(expected, cell, sum(gains)[:, client, group], rate, *limits)
    found = reduce(expected, u.ravel(), v.ravel(), selection_only=selection_only)
    which = np.arange(empty.size)
    which[moved @ [problem.shape[1], 1]] += empty.size
    return rules.and_also(found).at(which)


def _allowed(problem: Problem, rates: Floats, known: Booleans) -> tuple[Floats, Floats]:
    """Between which limits every group's local rates have to lie, given those of the groups with rows.

    A capacity is met by these alone: nobody knows how many others will come.
    """
    most = np.max(np.where(known, rates, -np.inf), axis=1, keepdims=True)
    least = np.min(np.where(known, rates, np.inf), axis=1, keepdims=True)
    low, high = most - problem.local_tolerance[:, None], least + problem.local_tolerance[:, None]
    limits, shape = problem.local_limits, rates.shape
    if limits is not None:
        ratio = limits.ratio[:, None]
        within = (ratio > 0) & np.isfinite(most)
        low = np.where(within, np.maximum(low, ratio * np.where(within, most, 0.0)), low)
        high = np.where(within, np.minimum(high, np.where(within, least, 0.0) / np.where(within, ratio, 1.0)), high)
        low, high = np.maximum(low, limits.least), np.minimum(high, limits.most)
    return np.broadcast_to(low, shape), np.broadcast_to(high, shape)


def _best_within(cells: Cells, cell: int, gain: Floats, rate: Floats, low: Floats, high: Floats) -> tuple[float, float]:
    """(u, v) of the rule of a cell that gains most with its rates between limits, or as near to them as can be.

    ``gain`` and ``rate`` hold the coefficients of u and v, (2,) and (2, rates).
    """
    cuts = np.tile(np.arange(cells.starts[cell + 1] - cells.starts[cell] + 1), 2)
    upper = np.arange(cuts.size) < cuts.size // 2
    corners = np.stack(cells.corner(np.full(cuts.size, cell), cuts, upper))
    reached, excess = rate.T @ corners, np.eye(low.size)
    far = 1e6  # of a limit that there is not
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
