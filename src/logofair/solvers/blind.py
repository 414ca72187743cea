"""The best rule that may not look at anybody's group: of the score, the probabilities of the groups, and the site.

A row's acceptance is worth ``gain``, and moves the rates of a group by how far the row counts in it. At prices of what
is required, inside its site and over all of them, the best rule accepts where::

    F = gain + sum_a q_a (alpha_a + beta_a eta) >= 0

``q`` being the probabilities of the groups, ``eta`` the chance of label 1, and ``alpha``, ``beta`` one pair for every
group and site: both kinds of prices fold into them. One pass over the rows prices all sites; every site adds its own
answer as a column, and a linear program mixes the columns (Dantzig-Wolfe, with one convexity row per site).

Where rates count the very probabilities that the rule sees, prices prove a bound on every such rule. Where they count
the true groups, which the rule does not see, answers are the best for groups drawn from the probabilities: the mixture
meets what is required on these rows, and no optimality is proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import block_diag, coo_array, csc_array, hstack, vstack

from logofair.columns.checks import Floats
from logofair.columns.segments import Indices
from logofair.costs import ACCURACY
from logofair.errors import InfeasibleError, SolverError
from logofair.notions import Rate
from logofair.policy.linear import LinearRules, margin
from logofair.requirement import TODAY, Requirement
from logofair.requirements import Combination, Holding, Requirements, conflict_sentence

_TARGET = 1e-6  # of the optimality gap
_PASSES = 200
_STAY = 0.6  # how far the next prices stay with those that proved most so far (in-out stabilisation)
_PATIENCE, _LEAST_GAIN = 8, 1e-6  # without a bound: passes that together win less end the search
HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
_SHORT = 1e-8  # requirements that give way by less are met but for rounding
_HELD = 1e3  # what others may not give way by costs, where one does at 1
_STEP = 1e-4  # to which the least relaxation of a ratio or a precision is found
_NOBODY = 1e-12  # a share of a site's rows: a rate of fewer is not defined
_UNUSED = 1e-12  # a weight in a mixture
_WORTHLESS, _YOUNG = 1e-5, 4  # columns with a larger reduced cost are forgotten unless they are of the last passes

# What every site selects of every group and of its positives, (sites, groups, 2), as shares of all rows.
Selected: TypeAlias = Floats


@dataclass(frozen=True, eq=False)
class BlindRows:
    """Rows in the order of their sites: what a rule sees of each, and what rates count of it."""

    chances: Floats  # (n,): eta
    seen: Floats  # (n, groups): the probabilities of the groups
    counted: Floats  # (n, groups): how far each counts in a group: the same, or 1 in its true one
    values: Floats  # (n,): what counts as positive: eta, or the label
    mass: Floats  # (n,): weights, which sum to 1
    site: Indices  # (n,): in ascending order; every site has rows
    costs: Floats  # (sites, 2): of a wrongly accepted and a wrongly rejected row, 1 and 1 for accuracy

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of sites and groups."""
        return len(self.costs), self.seen.shape[1]

    @property
    def sees_all(self) -> bool:
        """Whether rates count what the rule sees, so that prices prove a bound."""
        return self.counted is self.seen and self.values is self.chances

    @property
    def unconstrained(self) -> Floats:
        """The rules that gain most where nothing is required, (sites, 2 + 2 groups)."""
        found = np.zeros((self.shape[0], 2 + 2 * self.shape[1]))
        found[:, 0], found[:, 1] = -self.costs[:, 0], self.costs.sum(axis=1)
        return found

    def sums(self, each: Floats) -> Floats:
        """Sums over the rows of every site."""
        starts = np.searchsorted(self.site, np.arange(len(self.costs)))
        return np.asarray(np.add.reduceat(each, starts))

    def selected(self, accepted: Floats) -> tuple[Selected, Floats]:
        """What a rule selects, (sites, groups, 2), and what it gains over rejecting everybody, (sites,)."""
        mass = self.mass * accepted
        positive = mass * self.values
        groups = range(self.shape[1])
        found = [[self.sums(part * self.counted[:, a]) for part in (mass, positive)] for a in groups]
        gain = self.costs.sum(axis=1) * self.sums(positive) - self.costs[:, 0] * self.sums(mass)
        return np.moveaxis(np.array(found), 2, 0), gain

    def accepted(self, rules: Floats) -> Floats:
        """Whom one rule of every site accepts, (n,); rules are (sites, 2 + 2 groups), see :func:`margin`."""
        return (margin(rules, self.site, self.chances, self.seen) >= 0.0).astype(float)


@dataclass(frozen=True, eq=False)
class _Row:
    """One row of the program, ``coefficients * selected + slope * centre <= upper``, of a site or (None) of all."""

    requirement: Requirement
    site: int | None
    coefficients: Floats  # (groups, 2)
    upper: float
    centre: int | None = None  # a free variable: what the rates of a gap or ratio are compared with
    slope: float = 0.0


@dataclass(frozen=True, eq=False)
class BlindOptimum:
    """The rules of every site, each with its weight, and what is proved of them.

    ``bound`` and ``gain`` are over rejecting everybody; the bound is None where rates count what no rule sees.
    """

    rules: LinearRules
    gain: float
    bound: float | None
    violation: float
    rounds: int
    best: LinearRules | None = None  # of sites that meet their own requirements alone, where losses are against it
    requirements: Requirements | None = None  # with what these gain
    solver: str = "columns"


def solve_blind(requirements: Requirements, rows: BlindRows) -> BlindOptimum:
    """Find the best rule that meets all requirements and sees no group.

    Raises
    ------
    InfeasibleError
        If no rule meets all requirements; it names those that conflict.
    """
    requirements, best = _with_best(requirements, rows)
    program = _Program(rows, _rows_of(requirements, rows))
    if not program.feasible():
        few = _conflict(requirements, rows)
        amounts = {item: _least_relaxation(requirements, rows, item) for item in few}
        raise InfeasibleError(amounts, conflict_sentence(amounts))
    return replace(program.optimum(), best=best, requirements=requirements)


def _with_best(requirements: Requirements, rows: BlindRows) -> tuple[Requirements, LinearRules | None]:
    """Where losses inside sites are limited, what each site's best rules that meet its own requirements gain there."""
    if not any(item.is_loss_inside for item in requirements.items):
        return requirements, None
    rules = solve_blind(requirements.of_sites_alone, rows).rules
    selected, _ = rows.selected(rules.chances(rows.chances, rows.site, rows.seen))
    costs, (accepted, positive) = requirements.costs or ACCURACY, selected.sum(axis=1).T
    gain = (costs.wrongly_accepted + costs.wrongly_rejected) * positive - costs.wrongly_accepted * accepted
    return replace(requirements, best=tuple((gain / rows.sums(rows.mass)).tolist())), rules


def _conflict(requirements: Requirements, rows: BlindRows) -> tuple[Requirement, ...]:
    """The requirements that cannot be met together, none of which could be left out."""
    few = list(requirements.items)
    for item in requirements.items:
        without = [each for each in few if each != item]
        if not _Program(rows, _rows_of(requirements.only(without), rows)).feasible():
            few = without
    return tuple(few)


def _least_relaxation(requirements: Requirements, rows: BlindRows, item: Requirement) -> float | None:
    """By how much one requirement would have to give way with all others held; None: that alone is not enough."""
    every = list(_rows_of(requirements, rows))
    if item.measure not in ("ratio", "precision"):
        return _Program(rows, every).least_slack(item)
    sign, bound = (1.0 if item.relation == "<=" else -1.0), item.bound

    def possible(amount: float) -> bool:
        if item.measure == "ratio":
            own = (row.slope > 0.0 and row.requirement == item for row in every)
            less = (
                replace(row, slope=max(row.slope - amount, 0.0)) if o else row
                for row, o in zip(every, own, strict=True)
            )
            return _Program(rows, less).feasible()
        given = replace(item, bound=min(max(float(bound) + sign * amount, 0.0), 1.0))  # type: ignore[arg-type]
        several = (given if each == item else each for each in requirements.items)
        return _Program(rows, _rows_of(requirements.only(several), rows)).feasible()

    low, high = 0.0, 1.0
    if not possible(high):
        return None
    while high - low > _STEP:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if possible(middle) else (middle, high)
    return high


# ---------------------------------------------------------------- what is required


def _rows_of(requirements: Requirements, rows: BlindRows) -> Iterator[_Row]:
    """The rows of the program; a rate of nobody has none."""
    everybody, _ = rows.selected(np.ones(rows.mass.size))
    today, _ = rows.selected(rows.accepted(rows.unconstrained))
    centres = 0
    for side in ("local", "global"):
        for holding in requirements.holding[side]:
            for place in np.flatnonzero(holding.at).tolist():
                site = place if side == "local" else None
                people, before = (part.sum(axis=0) if site is None else part[site] for part in (everybody, today))
                found = tuple(_rows_at(holding, site, float(holding.bounds[place]), people, before, centres))
                centres += any(row.centre is not None for row in found)
                yield from found


def _rows_at(
    holding: Holding, site: int | None, bound: float, everybody: Floats, today: Floats, centre: int
) -> Iterator[_Row]:
    """The rows of one requirement at one place: what is selected of everybody there, and by the unconstrained rule."""
    item, of = holding.requirement, holding.of
    parts: list[Floats]
    if isinstance(of, Combination):
        terms = [(number, _as_coefficients(rate, groups, everybody)) for number, rate, groups in of.terms]
        parts = [np.sum([number * part for number, part in terms], axis=0)]
        parts = parts if all(part.any() for _, part in terms) else []
    else:
        every = (_as_coefficients(of, (a,), everybody) for a in range(len(everybody)) if holding.group in (None, a))
        parts = [part for part in every if part.any()]
    values = [float((part * today).sum()) for part in parts]
    if item.measure in ("gap", "ratio") and len(parts) > 1:
        low, high = min(values), max(values)
        if item.bound == TODAY:
            bound = high - low if item.measure == "gap" else low / high if high > 0 else 1.0
        bound = 1.0 if np.isnan(bound) else bound
        upper, least = (bound, 1.0) if item.measure == "gap" else (0.0, bound)  # above the centre, and of it
        for part in parts:
            yield _Row(item, site, part, upper, centre, -1.0)
            yield _Row(item, site, -part, 0.0, centre, least)
    elif item.measure not in ("gap", "ratio"):
        for part, value in zip(parts, values, strict=True):
            end = value if np.isnan(bound) else bound
            end -= float(item.bound) if item.is_loss and np.isnan(bound) else 0.0  # type: ignore[arg-type]
            if holding.relation != ">=":
                yield _Row(item, site, part, end)
            if holding.relation != "<=":
                yield _Row(item, site, -part, -end)


def _as_coefficients(rate: Rate, groups: tuple[int, ...] | None, everybody: Floats) -> Floats:
    """The rate of some groups, or (None) everyone's, in what is selected; all 0 where there is nobody to speak of."""
    part, which = np.zeros_like(everybody), slice(None) if groups is None else list(groups)
    people, positives = everybody[which].sum(axis=0)
    total = float(rate.denominator(people, positives))
    if total > _NOBODY * max(people, _NOBODY):
        part[which] = np.array([rate.constant, rate.slope]) / total
    return part


# ---------------------------------------------------------------- the program


@dataclass(frozen=True, eq=False)
class _Columns:
    """Rules of single sites, in the order of the sites, with what each selects there and gains."""

    site: Indices
    rules: Floats
    selected: Floats  # (columns, 2 groups)
    gain: Floats
    born: Indices  # the pass that added it

    def at(self, which: Indices) -> _Columns:
        """Some of them."""
        return _Columns(*(getattr(self, each.name)[which] for each in fields(self)))

    def beside(self, more: _Columns) -> _Columns:
        """These and more of them."""
        both = _Columns(*(np.concatenate([getattr(each, f.name) for each in (self, more)]) for f in fields(self)))
        return both.at(np.argsort(both.site, kind="stable"))


class _Program:
    """The rows of what is required, the columns found so far, and the linear program that mixes them."""

    def __init__(self, rows: BlindRows, required: Iterable[_Row]) -> None:
        self.rows, self.passes = rows, 0
        # The rows of single sites come first, in the order of the sites.
        self.required = sorted(required, key=lambda row: len(rows.costs) if row.site is None else row.site)
        self.site = np.array([row.site for row in self.required if row.site is not None], dtype=np.intp)
        self.upper = np.array([row.upper for row in self.required])
        shape = len(self.required), 2 * rows.shape[1]
        self.coefficients = np.array([row.coefficients for row in self.required]).reshape(shape)
        centres = 1 + max((row.centre for row in self.required if row.centre is not None), default=-1)
        everybody = rows.selected(np.ones(rows.mass.size))[0]
        self.slopes, self.reach = np.zeros((shape[0], centres)), np.zeros(centres)  # how far from 0 a centre may lie
        for r, row in enumerate(self.required):
            if row.centre is not None:
                there = everybody.sum(axis=0) if row.site is None else everybody[row.site]
                self.slopes[r, row.centre] = row.slope
                self.reach[row.centre] = max(self.reach[row.centre], float((np.abs(row.coefficients) * there).sum()))
        nobody = np.zeros_like(rows.unconstrained)
        first = nobody - np.eye(1, nobody.shape[1]), nobody + np.eye(1, nobody.shape[1]), rows.unconstrained
        self.columns = reduce(_Columns.beside, map(self._answers, first))

    def feasible(self) -> bool:
        """Whether some rule meets all that is required; looks for columns until one does or none can."""
        every = np.eye(self.upper.size), np.ones(self.upper.size)
        for _ in range(_PASSES if self.required else 0):
            _, prices, short, _ = self._mixed(every)
            if short <= _SHORT:
                return True
            if -self._priced(prices, 0.0) > max(_SHORT, short - _TARGET) and self.rows.sees_all:
                return False
        return not self.required

    def least_slack(self, item: Requirement) -> float | None:
        """By how much the rows of a requirement would have to give way, all others being held; None: in vain."""
        gives = np.array([float(row.requirement == item and row.slope <= 0.0) for row in self.required])
        slack = np.column_stack([np.eye(gives.size), gives]), np.append(np.full(gives.size, _HELD), 1.0)
        values: list[float] = []
        given, short = 0.0, np.inf
        for _ in range(_PASSES):
            _, prices, short, gave = self._mixed(slack)
            given = float(gave[-1])
            values.append(short)
            stalls = len(values) > _PATIENCE and values[-1 - _PATIENCE] - values[-1] < _LEAST_GAIN
            if short + self._priced(prices, 0.0) <= _TARGET or (stalls and not self.rows.sees_all):
                break
        return given if short - given <= _HELD * _TARGET else None

    def optimum(self) -> BlindOptimum:
        """Price and mix in turn, until the bound that prices prove is reached."""
        bound, centre = np.inf, np.zeros(self.upper.size)
        values: list[float] = []
        for _ in range(_PASSES):
            weights, prices, cost, _ = self._mixed()
            values.append(-cost)
            stalls = len(values) > _PATIENCE and values[-1] - values[-1 - _PATIENCE] < _LEAST_GAIN
            if bound + cost <= _TARGET or (stalls and not self.rows.sees_all):
                break
            tried = prices if not np.isfinite(bound) else _STAY * centre + (1.0 - _STAY) * prices
            proved = self._priced(tried, 1.0)
            if proved < bound:
                bound, centre = proved, tried
        else:
            weights = self._mixed()[0]
        return self._read(weights, bound if self.rows.sees_all else None)

    def _answers(self, rules: Floats) -> _Columns:
        """What one rule of every site comes to."""
        selected, gain = self.rows.selected(self.rows.accepted(rules))
        self.passes += 1
        every = np.arange(len(gain))
        return _Columns(every, rules, selected.reshape(len(gain), -1), gain, np.full(len(gain), self.passes))

    def _mixed(self, slack: tuple[Floats, Floats] | None = None) -> tuple[Floats, Floats, float, Floats]:
        """The best weights of the columns, the rows' prices, the loss of gain, and by how much rows give way.

        With ``slack``, how far each way of giving way helps each row and what it costs, only these costs count. Columns
        without a weight that prices have made worthless are forgotten.
        """
        own, sites = self.columns, self.rows.shape[0]
        starts = np.searchsorted(own.site, np.arange(sites + 1))
        by_site = np.searchsorted(self.site, np.arange(sites + 1))
        local = [
            self.coefficients[by_site[c] : by_site[c + 1]] @ own.selected[starts[c] : starts[c + 1]].T
            for c in range(sites)
        ]
        parts = [
            vstack([block_diag(local), csc_array(self.coefficients[self.site.size :] @ own.selected.T)]),
            csc_array(self.slopes),
        ]
        worth = [-own.gain if slack is None else np.zeros(own.gain.size), np.zeros(self.reach.size)]
        ends = [(0.0, np.inf)] * own.gain.size + [(-end, end) for end in self.reach.tolist()]
        if slack is not None:
            parts.append(csc_array(-slack[0]))
            worth.append(slack[1])
            ends += [(0.0, np.inf)] * slack[1].size
        cost = np.concatenate(worth)
        one_each = coo_array((np.ones(own.gain.size), (own.site, np.arange(own.gain.size))), shape=(sites, cost.size))
        program: dict[str, Any] = {  # any: the stubs know no sparse matrices
            "c": cost,
            "A_ub": hstack(parts, format="csc"),
            "b_ub": self.upper,
            "A_eq": one_each,
            "b_eq": np.ones(sites),
            "bounds": ends,
            "options": HIGHS,
        }
        found = linprog(**program)
        if found.status != 0:
            raise SolverError(f"a rule that may not look: the program of its columns failed ({found.message})")
        prices, weights = -np.minimum(found.ineqlin.marginals, 0.0), found.x[: own.gain.size]
        reduced = found.lower.marginals[: own.gain.size]
        kept = np.flatnonzero((weights > 0) | (reduced < _WORTHLESS) | (own.born > self.passes - _YOUNG))
        self.columns = own.at(kept)
        return weights[kept], prices, float(found.fun), found.x[own.gain.size + self.reach.size :]

    def _priced(self, prices: Floats, worth: float) -> float:
        """Add the best rule of every site at prices of the rows; the bound that they prove on what counts.

        ``worth`` is that of a unit of gain: 0 where only the rows count.
        """
        folded = np.tile(prices[self.site.size :] @ self.coefficients[self.site.size :], (self.rows.shape[0], 1))
        np.add.at(folded, self.site, prices[: self.site.size, None] * self.coefficients[: self.site.size])
        rules = worth * self.rows.unconstrained
        rules[:, 2:] -= folded
        answers = self._answers(rules)
        self.columns = self.columns.beside(answers)
        best = worth * float(answers.gain.sum()) - float((answers.selected * folded).sum())
        # What prices leave on a centre is rounding, of which no more counts than a centre may reach.
        return best + float(prices @ self.upper) + float(np.abs(prices @ self.slopes) @ self.reach)

    def _read(self, weights: Floats, bound: float | None) -> BlindOptimum:
        """The rules of every site that have a weight, and what they come to, counted again from these rules."""
        sites, used = self.rows.shape[0], np.flatnonzero(weights > _UNUSED)
        own = self.columns.at(used)
        place = np.arange(used.size) - np.searchsorted(own.site, own.site)
        shares = np.zeros((sites, int(place.max()) + 1))
        rules = np.zeros((*shares.shape, own.rules.shape[1]))
        shares[own.site, place], rules[own.site, place] = weights[used], own.rules
        found = LinearRules(shares / shares.sum(axis=1, keepdims=True), rules)
        selected, gain = self.rows.selected(found.chances(self.rows.chances, self.rows.site, self.rows.seen))
        return BlindOptimum(found, float(gain.sum()), bound, self._excess(selected), self.passes)

    def _excess(self, selected: Selected) -> float:
        """The largest excess over what is required, whatever the centres are."""
        flat = selected.reshape(len(selected), -1)
        there = np.concatenate([flat[self.site], np.tile(flat.sum(axis=0), (self.upper.size - self.site.size, 1))])
        over = (self.coefficients * there).sum(axis=1) - self.upper
        for slope in self.slopes.T:  # the lowest centre that its lower rows allow
            centre = float(np.max(over[slope < 0] / -slope[slope < 0]))
            over = np.where(slope < 0, -np.inf, over + slope * centre)
        return float(over.max(initial=0.0))
