"""Rules by rank: target rates chosen on some rows, thresholds placed at ranks among the others.

The chance that a gap of new rows exceeds its tolerance then depends on ranks and numbers of rows alone, and on no score
(:mod:`logofair.auditing.certification`). So the targets may be tightened until promises can be made, and nothing is
spent by trying.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from logofair.auditing.certification import RateLaws, added_up, errors_allowed
from logofair.columns.cells import Cells
from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import Booleans, Indices, RowOrder, search_runs
from logofair.notions import Rate
from logofair.outcomes import FEW_ROWS
from logofair.policy.mixtures import Mixtures, evaluate
from logofair.solvers.problem import Problem

_STEPS = 4  # from the tolerance required down to 0, as long as a promise cannot be made
_ATTEMPTS = 6  # a target that moves moves others through the global requirement, so it might never be the last
_NEVER = 2.0  # the risk of a promise that is not required or has no rows: it is never made
# Beta(1e9, 1e9) is taken for a rate that no row was left to place; how far it may be from 1/2 is added.
_UNPLACED = 1e9


@dataclass(frozen=True, eq=False)
class Ranks:
    """The rank of every cell's threshold among the rows left to place it, both (sites, groups), and what follows.

    ``tolerances`` are the sites' and, last, the global one; infinity: free.
    """

    ranks: Indices
    rows: Indices
    counts: Indices  # all rows that count in the rate, those that chose the targets among them
    tolerances: Floats

    @cached_property
    def laws(self) -> RateLaws:
        """The laws of the true rates at every site."""
        found = RateLaws.by_rank(self.ranks, self.rows)
        unknown = self.rows == 0
        return RateLaws(np.where(unknown, _UNPLACED, found.yes), np.where(unknown, _UNPLACED, found.no))

    @cached_property
    def merged(self) -> RateLaws:
        """The laws of the groups' rates over all sites."""
        return self.laws.merged(self.counts.astype(np.float64))

    @cached_property
    def unplaced(self) -> float:
        """How far the gap over all sites may be from that of ``merged``: cells that nothing places have any rate."""
        share = np.where(self.rows == 0, self.counts, 0).sum(axis=0) / np.maximum(self.counts.sum(axis=0), 1)
        return float(np.sort(share)[-2:].sum() / 2.0)

    @property
    def known(self) -> Booleans:
        """At which sites, and last whether over all of them, every group has rows left to place a threshold."""
        return np.append((self.rows > 0).all(axis=1), (self.rows.sum(axis=0) > 0).all())

    @cached_property
    def risks(self) -> Floats:
        """The chances that a gap of new rows exceeds its tolerance; above 1 where no promise can be made or is due."""
        due = self.known & np.isfinite(self.tolerances)
        found = np.full(due.size, _NEVER)
        found[:-1][due[:-1]] = self.laws.at(due[:-1]).risks(self.tolerances[:-1][due[:-1]])
        if due[-1]:
            room = self.tolerances[-1] - self.unplaced
            found[-1:] = self.merged.risks(room) if room >= 0.0 else 1.0
        return found

    def bounds(self, tail: float) -> tuple[Floats, Floats]:
        """What the gaps of the sites and of all together, (1,), stay below but for a chance; NaN where not known."""
        known = self.known
        local = np.full(known.size - 1, np.nan)
        local[known[:-1]] = self.laws.at(known[:-1]).bounds(tail)
        merged = np.minimum(self.merged.bounds(tail) + self.unplaced, 1.0)
        return local, merged if known[-1] else np.full(1, np.nan)

    def largest_local_bound(self, tail: float) -> float | None:
        """What the largest local gap stays below where one is required; None where one of them is not known."""
        due = np.isfinite(self.tolerances[:-1])
        return self.laws.at(due).largest_bound(tail) if due.any() and self.known[:-1][due].all() else None


def choose_ranks(
    problem: Problem, rate: Rate, rows: Indices, counts: Indices, error: float, solve: Callable[[Problem], Mixtures]
) -> Ranks:
    """Choose targets on the rows of ``problem``, with tolerances as large as the promises that can be made allow.

    Tolerances of 0 show what each promise takes at least, and so which can be made together. Those begin at the
    tolerance required and tighten until they can be made. Of the others, those whose gaps will more likely than not be
    within tolerance keep the targets of 0. The rest has the tolerance required: on so few rows a tighter target hardly
    narrows the gap of new rows, but costs accuracy.
    """

    def at(scale: Floats) -> Ranks:
        with np.errstate(invalid="ignore"):  # infinity times 0: what is free stays free
            both = zip(problem.limits, (scale[:-1, None], scale[-1]), strict=True)
            tolerances = [limits.tolerance * each for limits, each in both]
        local, over_all = (
            replace(limits, tolerance=np.where(np.isnan(own), np.inf, own))
            for limits, own in zip(problem.limits, tolerances, strict=True)
        )
        scaled = replace(problem, local_limits=local, global_limits=over_all)
        targets = _targets(problem.cells, solve(scaled), rate).reshape(problem.shape)
        # The ranks whose expected rates are nearest. Nobody or everybody is accepted only where that was the target on
        # many rows: on few it would be an accident, and a promise kept by it an empty one.
        ranks = np.clip(np.rint(targets * (rows + 1)), np.minimum(rows, 1), rows).astype(np.int64)
        many = counts - rows >= FEW_ROWS
        ranks = np.where(many & (targets <= 0.0), 0, np.where(many & (targets >= 1.0), rows + 1, ranks))
        return Ranks(ranks, rows, counts, required)

    required = np.concatenate([limits.tolerance.min(axis=1, initial=np.inf) for limits in problem.limits])
    found, due = at(np.ones(required.size)), np.isfinite(required)
    if added_up(found.risks, error)[due].all():
        return found
    least = at(np.zeros(required.size)).risks
    allowed = errors_allowed(least, error)
    steps = np.where((allowed == 0) & (least <= 0.5), 0, _STEPS)
    for attempt in range(_ATTEMPTS):
        found = at(steps / _STEPS)
        if added_up(found.risks, error)[allowed > 0].all():
            break
        late = (allowed > 0) & (found.risks > allowed)
        steps[late] = np.maximum(steps[late] - 1, 0) if attempt < _STEPS - 1 else 0
    return found


def _targets(cells: Cells, mixtures: Mixtures, rate: Rate) -> Floats:
    """The rate of every cell under its rule; of a cell where nobody counts, that of its site or else its group."""
    u, v = evaluate(cells, mixtures)
    base = rate.denominator((cells.mass > 0).astype(np.float64), cells.positives * cells.scale)
    mass = (cells.mass * base).reshape(cells.n_sites, cells.n_groups)
    top = (cells.mass * np.clip(rate.numerator(u, v), 0.0, base)).reshape(mass.shape)
    found = np.full(mass.shape, top.sum() / max(mass.sum(), 1e-300))
    for sums in ((top.sum(0, keepdims=True), mass.sum(0, keepdims=True)), (top.sum(1), mass.sum(1)), (top, mass)):
        parts, totals = (each[:, None] if each.ndim == 1 else each for each in sums)
        known = np.broadcast_to(totals > 0, mass.shape)
        found = np.where(known, parts / np.where(totals > 0, totals, 1.0), found)
    return np.asarray(np.clip(found, 0.0, 1.0).ravel())


def place_thresholds(
    ranks: Ranks, scores: Floats, cells: Integers, otherwise: Mixtures, rng: np.random.Generator
) -> Mixtures:
    """Rules that accept whatever scores no lower than the row of each cell's rank; cells without rows keep theirs.

    ``scores`` and ``cells`` are of the rows left to place thresholds. Rows of equal score stand in an order drawn at
    random, and new rows of that score toss a coin to stand before or behind: so the law of the rank is exact with ties
    too. Where the scores of every cell all differ no coin is needed, since new rows will not have the very same score;
    a few rows of a cell may differ by chance, though others of the federation are tied.
    """
    n, rank = ranks.rows.ravel(), ranks.ranks.ravel()
    order = RowOrder.of(scores, cells, n.size)
    ordered, first, last = scores[order.rows], order.starts[:-1], order.starts[1:]
    placed = (rank > 0) & (rank <= n)
    limit = np.where(placed, ordered[np.where(placed, last - rank, 0)] if ordered.size else 0.0, 0.0)
    weight = np.where(placed, 1.0, (rank > n).astype(np.float64))
    ties = bool(ordered.size) and not order.changes(ordered).all()  # some score occurs twice in a cell
    tied = np.flatnonzero(placed & ties)
    ends = [
        search_runs(ordered, first[tied], last[tied], limit[tied], right=np.full(tied.size, after))
        for after in (False, True)
    ]
    ahead = rank[tied] - (n[tied] - ends[1])  # tied rows that stand before the threshold
    weight[tied] = rng.beta(ahead, ends[1] - ends[0] + 1 - ahead)
    # Scores from the limit up are accepted with some weight, and those above it with the rest.
    beyond = np.nextafter(limit, np.inf)
    rest = np.where(placed & (beyond <= 1.0), 1.0 - weight, 0.0)  # nothing scores above 1
    none = np.zeros_like(weight)
    weights, limits = np.column_stack([weight, rest, none]), np.column_stack([limit, np.minimum(beyond, 1.0), none])
    single = np.where(weight >= 0.5, limit, np.where(rest > 0, beyond, np.inf))
    known = n > 0
    keep = known[:, None]
    return Mixtures(
        np.where(keep, weights, otherwise.weight),
        np.where(keep & (weights > 0), limits, np.where(keep, 0.0, otherwise.threshold)),
        np.where(keep, True, otherwise.above),
        np.where(known, single, otherwise.single),
    )
