"""The solution: a policy, the proof of how good it is, and warnings of cells on which a requirement rests on little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, product
from typing import Any

import numpy as np

from logofair.auditing import Audit, Comparison
from logofair.auditing.judging import CountedRules, judge
from logofair.auditing.measure import Tally, as_one_site, tally_of
from logofair.auditing.rows import AuditedRows, checked_columns, compared_audits, policy_chances, policy_costs
from logofair.columns.attributes import Attributes, columns_like
from logofair.columns.checks import NAMED, Floats, Integers, Label
from logofair.columns.segments import Booleans, Indices, cell_numbers, pieces
from logofair.costs import Costs
from logofair.errors import InputError
from logofair.fitting.least_gap import LeastGap
from logofair.fitting.solving import CalibrationRows, FitSettings, check_other_people, own_problem, shares_of
from logofair.notions import Notion, Rate
from logofair.outcomes import CALIBRATION_ROWS, FEW_ROWS, TEST_ROWS, Outcomes
from logofair.policy.info import PolicyInfo, PoolingInfo, PromisesInfo, TestedInfo
from logofair.policy.linear import read_probabilities
from logofair.policy.mixtures import Mixtures, Rules
from logofair.policy.policy import Policy
from logofair.records import Result
from logofair.reportable import Reportable
from logofair.requirement import ALL
from logofair.requirements import Requirements
from logofair.solvers.certificate import Certificate
from logofair.solvers.decomposition import solve_exact
from logofair.solvers.limits import summed_cells
from logofair.solvers.problem import LEAST_COUNTED, Problem, make_problem, unconstrained

STORED_OUTCOMES = 50  # of each requirement on each basis, in a policy
_ROWS_AT_ONCE = 1 << 20  # counted at once, so that counting takes little memory


@dataclass(frozen=True, eq=False)
class Away:
    """What a fit of rules that may not look at groups knows besides.

    ``shares`` are u and v of every cell under the rules, ``before`` under the unconstrained one, ``best`` under those
    that meet what sites require of themselves, where losses are against these; ``groups_known``: whether the groups of
    the calibration rows were. ``by_probability`` says by how much, at most, a group's rate is off where it is counted
    by probability, on which rows. ``bound()`` is the accuracy, or the cost, that no rule beats which keeps limits on
    selection rates counted by probability; found when it is asked for.
    """

    shares: tuple[Floats, Floats]
    before: tuple[Floats, Floats]
    best: tuple[Floats, Floats]
    groups_known: bool
    by_probability: Mapping[str, float]
    bound: Callable[[], float | None]


@dataclass(frozen=True)
class Solution(Reportable):
    """What :func:`logofair.fit` returns.

    Attributes
    ----------
    policy : Policy
        The rules, ready to decide on new rows.
    certificate : Certificate
        How accurate and how fair they are on the calibration rows, and how much better any rule could be.
    requirements : Requirements
        What the policy was made for.
    problem : Problem
        The cells and constraints, for those who want to look inside.
    warnings : tuple of FitWarning
        Groups at sites with no rows, one row, one label or few rows, on which a requirement rests on little.
    solver : str
        Which solver found the policy; ``rounds``: in how many rounds.
    pooling : PoolingInfo
        What small groups borrow from other sites; the certificate is then about rows and what they borrow.
    certified : Outcomes
        What is certified for new rows; nothing where ``confidence`` was not given.
    promises : PromisesInfo or None
        With which confidence, how, and at what price.
    best : Rules or None
        The best rules that meet what each site requires of itself, where what a site may lose against them is limited.
    least_gap : LeastGap or None
        The factor on all limits on gaps, and the proof that none is smaller, where ``objective="gap"`` was asked for.
    tested : Comparison or None
        The unconstrained rule and the policy on rows that took no part in the fit, once :meth:`test` was given some.
    by_score : Outcomes
        The gaps over all of these rows if everybody were accepted from a score of 0.5 on, whatever the group and site.
    away : Away or None
        What is known besides of rules that may not look at groups; None: they do.
    settings : FitSettings or None
        How it was fitted.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=["a", "b", "a", "b"], calibration="none")
    >>> print(*solution.requirements.items)
    selection rate gap <= 0.02 overall
    >>> solution.policy.decide([0.7, 0.3], sensitive_features=["a", "b"]).tolist()
    [1, 0]
    """

    policy: Policy
    certificate: Certificate
    requirements: Requirements
    problem: Problem
    warnings: tuple[FitWarning, ...]
    solver: str
    rounds: int
    rows: CalibrationRows
    pooling: PoolingInfo = field(default_factory=PoolingInfo)
    certified: Outcomes = field(default_factory=Outcomes)
    promises: PromisesInfo | None = None
    best: Rules | None = None
    least_gap: LeastGap | None = None
    tested: Comparison | None = None
    by_score: Outcomes = field(default_factory=Outcomes)
    away: Away | None = None
    settings: FitSettings | None = None

    def __repr__(self) -> str:
        c = self.certificate
        gap = "" if c.optimality_gap is None else f"optimality_gap={c.optimality_gap:.1e}, "
        figures = f"{c.objective}={c.primal:.4f}, {gap}violation={c.violation:.1e}"
        return f"Solution({figures}, solver={self.solver!r})"

    @cached_property
    def deterministic(self) -> tuple[float, float] | None:
        """Expected accuracy and violation of ``decide(..., deterministic=True)`` on the calibration rows, if any."""
        if not isinstance(self.policy.mixtures, Mixtures):
            return None
        u, v = shares_of(self.problem, self.policy.mixtures.deterministic)
        return self.problem.reported(self.problem.accuracy(u, v)), self.problem.violation(u, v)

    @cached_property
    def _own_problem(self) -> Problem:
        """The problem on the sites' own rows alone."""
        return own_problem(self.problem, self.certificate, self.rows)

    @cached_property
    def own_accuracy(self) -> float:
        """Expected accuracy, or cost, on the sites' own rows alone, where cells borrow from other sites."""
        problem = self._own_problem
        return problem.reported(problem.accuracy(*self._shares(problem)))

    def prices_with(self, notion: Notion) -> tuple[float, float] | None:
        """What its gaps cost in accuracy, and what the same limits would with another notion, both against no limits.

        In expectation on the rows of the fit; None: more than gaps of one notion is required.
        """
        items, cells = self.requirements.items, self.problem.cells
        tolerances = self.requirements.only_gaps and self.requirements.costs is None
        if not tolerances or self.away is not None or len({item.rates for item in items}) != 1:
            return None
        asked = tuple(replace(item, rates=notion.rates) for item in items)
        problem = make_problem(replace(self.requirements, items=asked), cells)
        other = solve_exact(problem)
        best = self.problem.accuracy(*unconstrained(cells, self.problem.row_gain))
        return None if other is None else (best - self.certificate.primal, best - problem.accuracy(other.u, other.v))

    @cached_property
    def compared(self) -> Comparison:
        """The unconstrained rule and the policy on the calibration rows, in expectation, as the certificate counts."""
        rules, (local, global_) = self.counted(self.problem), self.rates
        assert rules.before is not None
        costs = policy_costs(self.policy, self.policy.sites)
        first, second = (
            Audit.of(tally, rules.groups, rules.sites, local, global_, costs=costs, fitted_rows=True)
            for tally in (rules.before, rules.after)
        )
        return Comparison.of(first, replace(second, outcomes=self.proved))

    def counted(self, problem: Problem) -> CountedRules:
        """What the policy and the unconstrained rule do on the rows of a problem, in expectation."""
        rules = self._shares(problem), unconstrained(problem.cells, problem.row_gain)
        rules = rules if self.away is None else (self.away.shares, self.away.before)
        after, before = (expected_tally(problem, *shares) for shares in rules)
        names = self.policy.groups, self.policy.sites
        best = None
        if self.best is not None:
            shares = None if self.away is None else self.away.best
            shares = shares_of(problem, self.best) if isinstance(self.best, Mixtures) else shares
            assert shares is not None
            best = CountedRules(after, *names, expected_tally(problem, *shares))
        return CountedRules(after, *names, before, costs=self.requirements.costs, best=best)

    def _shares(self, problem: Problem) -> tuple[Floats, Floats]:
        """How much the rules accept of every cell: u and v."""
        rules = self.policy.mixtures
        if isinstance(rules, Mixtures):
            return shares_of(problem, rules)
        assert self.away is not None
        return self.away.shares

    @property
    def outcomes(self) -> Outcomes:
        """What was found about every requirement: on test rows, for new rows, and on the calibration rows."""
        tested = Outcomes() if self.tested is None else self.tested.outcomes
        return tested + self.certified + self.proved

    @cached_property
    def proved(self) -> Outcomes:
        """Those on the calibration rows, with the dual price of every requirement."""
        return self.proved_of(None)

    def proved_of(self, most: int | None) -> Outcomes:
        """The same; at most so many of each requirement, those that tell most."""
        prices = {item: price for (item, _), price in self.certificate.prices.of.items()}
        return self._judged(self.problem, prices=prices, precision=self.certificate.precision, most=most)

    def _judged(self, problem: Problem, **more: Any) -> Outcomes:
        """The requirements judged on the rows of a problem."""
        items, rules = self.requirements.items, self.counted(problem)
        return judge(items, rules, CALIBRATION_ROWS, shares=self.requirements.shares, **more)

    @cached_property
    def on_own_rows(self) -> Outcomes:
        """Those on the sites' own rows alone, where cells borrow from other sites."""
        return self._judged(self._own_problem)

    def test(
        self,
        scores: object,
        labels: object,
        *,
        sensitive_features: object,
        sites: object = None,
        group_probabilities: object = None,
        sample_weight: object = None,
        ids: object = None,
    ) -> Solution:
        """Measure the policy on rows that took no part in the fit; arguments as for :func:`logofair.audit`.

        Sites the policy does not know take its merged rule. The rows that were fitted on are refused, in whatever
        order they come.

        Returns
        -------
        Solution
            The same with ``tested``: the unconstrained rule and the policy on these rows, which every page then tells
            first; its policy stores that it was tested.

        Examples
        --------
        >>> import numpy as np
        >>> import logofair
        >>> rng = np.random.default_rng(0)
        >>> sex, score = rng.integers(0, 2, 2000), rng.random(2000)
        >>> label = rng.random(2000) < score
        >>> half = slice(0, 1000), slice(1000, 2000)
        >>> solution = logofair.fit(score[half[0]], label[half[0]], sensitive_features=sex[half[0]])
        >>> tested = solution.test(score[half[1]], label[half[1]], sensitive_features=sex[half[1]]).tested
        >>> tested.second.accuracy.rows
        1000
        """
        if sensitive_features is None:
            raise InputError("sensitive_features: missing; a test counts true groups, whatever the policy sees.")
        sensitive_features = columns_like(sensitive_features, self.policy.groups)
        first, chance = policy_chances(self.policy, scores, sensitive_features, sites, group_probabilities)
        notion = {side: Notion(side, given=rates) for side, rates in zip(("local", "global"), self.rates, strict=True)}
        rows = checked_columns(chance, labels, sensitive_features, sites, notion, scores, sample_weight, ids)
        assert rows.score is not None
        _check_others(self.rows, rows)
        costs = policy_costs(self.policy, rows.site.names)
        # Without sites what is required holds over all of them.
        known_sites = rows.site.names if self.policy.sites == (None,) else self.policy.sites
        items, shares = self.requirements.items, self.requirements.shares
        best = None
        if self.best is not None:
            alone = replace(self.policy, mixtures=self.best)
            best = policy_chances(alone, scores, sensitive_features, sites, group_probabilities)[1]
        tested = compared_audits(first, chance, rows.columns, *self.rates, costs, items, known_sites, shares, best)
        outcomes = (each.stored for each in tested.outcomes.brief(STORED_OUTCOMES))
        before = self.policy.info
        info = replace(before, tested=TestedInfo(tested.rows), found=(*outcomes, *before.found))
        away = self.away
        if away is not None:
            names, seen = read_probabilities(group_probabilities, self.policy.groups)
            place = {str(name): a for a, name in enumerate(names)}
            groups = np.array([place.get(str(name), -1) for name in rows.group.names])[rows.group.codes]
            mass = np.ones(chance.size) if rows.weight is None else rows.weight
            rates, labels_ = dict.fromkeys(chain(*self.rates)), rows.positive
            positives = None if labels_ is None else np.asarray(labels_, dtype=np.float64)
            off = {TEST_ROWS: difference_by_probability(rates, chance, seen, groups, mass, positives)}
            away = replace(away, by_probability={**away.by_probability, **off})
        half = tally_of((rows.score >= 0.5).astype(np.float64), *as_one_site(rows.columns))
        gaps = [each for each in items if each.measure == "gap" and each.scope.is_global] if costs is None else []
        by_score = judge(gaps, CountedRules(half, rows.group.names, (None,)), TEST_ROWS)
        return self.with_info(info, tested=tested, by_score=by_score, away=away)

    def explore(self, *, test_rows: Mapping[str, object] | None = None) -> Any:
        """Show a live page of these rows in a notebook, beginning with what was required (:func:`logofair.explore`).

        Examples
        --------
        >>> import logofair
        >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=[*"abab"], calibration="none")
        >>> solution.explore().session.start.overall
        0.02
        """
        from logofair.studio.notebook import explore_solution

        return explore_solution(self, test_rows)

    def with_info(self, info: PolicyInfo, **changes: Any) -> Solution:
        """Return the same rules with another account of themselves; ``changes`` are other attributes.

        Examples
        --------
        >>> from dataclasses import replace
        >>> import logofair
        >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=[*"abab"], calibration="none")
        >>> solution.with_info(replace(solution.policy.info, note="Of the pilot.")).policy.info.note
        'Of the pilot.'
        """
        return replace(self, policy=replace(self.policy, info=info), **changes)

    @property
    def rates(self) -> tuple[tuple[Rate, ...], tuple[Rate, ...]]:
        """The rates compared inside sites and over all; where one side requires nothing, those of the other."""
        local, global_ = (self.requirements.rates_of(side) for side in ("local", "global"))
        return local or global_, global_ or local

    def in_json(self) -> dict[str, Any]:
        """Return everything there is to say."""
        accuracy, violation = self.deterministic or (None, None)
        tested = None
        if self.tested is not None:
            names, rows = self.tested.unknown_sites(self.policy.sites)
            tested = self.tested.figures() | {"unknown": {"sites": names, "rows": rows}}
        prices: dict[str, list[dict[str, Any]]] = {"local": [], "global": []}  # inside a site those above 0
        for (item, side), found in self.certificate.prices.of.items():
            for site, price in zip(self.policy.sites if side == "local" else (None,), found.tolist(), strict=True):
                if side == "global":
                    prices[side].append({"require": str(item), "price": price})
                elif price > 0:
                    prices[side].append({"site": site, "require": str(item), "price": price})
        return {
            "groups": self.policy.groups,
            "sites": self.policy.sites if self.rows.has_sites else None,
            "rows": int(self.rows.scores.size),
            "requirements": self.requirements.info,
            "verdict": self.outcomes.verdict,
            "outcomes": self.outcomes,
            "tested": tested,
            "calibration": self.compared.figures(),
            "certificate": self.certificate,
            "calibration_method": self.policy.calibrator.method,
            "pooling": self.pooling,
            "own_rows": {self.certificate.objective: self.own_accuracy, "outcomes": self.on_own_rows},
            "solver": self.solver,
            "rounds": self.rounds,
            "prices": prices,
            "least_gap": self.least_gap,
            "cells_with_coins": int(self.policy.mixtures.mixed.sum()),
            "coin_share": self.policy.info.coin_share,
            "score_blind_rules": self.policy.info.score_blind_rules,
            "without_coins": {self.certificate.objective: accuracy, "violation": violation},
            "bound_by_probability": None if self.away is None else self.away.bound(),
            "off_by_probability": {} if self.away is None else self.away.by_probability,
            "promises": self.promises,
            "warnings": self.warnings,
        }


def expected_tally(problem: Problem, u: Floats, v: Floats) -> Tally:
    """What rules do in expectation that accept these shares of every cell, and of its positives."""
    positives = problem.positives
    mass = np.stack([np.maximum(problem.mass - positives, 0.0), positives], axis=-1)
    accepted = np.stack([(u - v) * problem.mass, v * problem.mass], axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(mass.sum(-1, keepdims=True) > 0.0, mass / mass.sum(-1, keepdims=True), 0.0)
    rows = np.rint(share * problem.cells.rows.reshape(problem.shape)[..., None]).astype(np.intp)
    tally = Tally.counted(rows, mass, np.minimum(np.maximum(accepted, 0.0), mass))
    return replace(tally, least_share=LEAST_COUNTED)  # what the certificate takes for undefined is nowhere measured


def difference_by_probability(
    rates: Iterable[Rate], chance: Floats, seen: Floats, groups: Integers, mass: Floats, positives: Floats | None
) -> float:
    """The most that a group's rate, counted by probability, is off that of the true group."""
    found, counted = [], np.zeros(chance.size) if positives is None else positives
    for rate, a in product(rates, range(seen.shape[1])):
        pair = []
        for people in (mass * seen[:, a], mass * (groups == a)):
            base = rate.denominator(people.sum(), people @ counted)
            if base > 0.0 and not (positives is None and rate.needs_labels):
                pair.append(float(rate.numerator(people @ chance, (people * counted) @ chance) / base))
        found += [abs(pair[0] - pair[1])] if len(pair) == 2 else []
    return max(found, default=0.0)


def _check_others(fitted: CalibrationRows, rows: AuditedRows) -> None:
    """Raise where the rows to test on are those fitted on, in any order, or are of people who were."""
    assert rows.score is not None
    if rows.ids is not None and fitted.ids is not None:
        check_other_people(fitted.ids, rows.ids)
        return
    if rows.score.size != fitted.scores.size:
        return
    pairs: list[tuple[Any, Any]] = [(rows.score, fitted.scores)]
    if rows.positive is not None and fitted.labels is not None:
        pairs.append((rows.positive, fitted.labels))
    for found, known in ((rows.group, fitted.groups), (rows.site, fitted.sites)):
        place = {str(name): i for i, name in enumerate(known.names)}
        pairs.append((np.array([place.get(str(name), -1) for name in found.names])[found.codes], known.codes))
    here, there = (np.lexsort(columns) for columns in zip(*pairs, strict=True))
    if all(np.array_equal(one[here], other[there]) for one, other in pairs):
        raise InputError(
            f"scores: the {rows.score.size:,} rows are those that the policy was fitted on; a test needs other people."
        )


@dataclass(frozen=True)
class FitWarning(Result):
    """What people should know about some cells, on which a requirement rests on little; ``str()`` gives the sentence.

    Kinds are "no rows", "too small", "no weight", "one row", "one label", "few rows", "few noised rows", "unmeasured
    gap", "group left out", "empty ratio", "empty precision" and "no merged rule".
    """

    kind: str
    cells: tuple[tuple[Label | None, Label | None], ...] = ()  # the first (site, group) concerned; None: all of them
    count: int = 0  # of the cells concerned
    rate: str = ""  # whose gap or ratio it is about
    fewest: int = 1  # rows that a cell needs to count
    thresholds: tuple[float, ...] = ()  # the scores that accept there, at the sites' costs; none: the merged rule does

    def __str__(self) -> str:
        from logofair.words.proof import warning_sentence

        return warning_sentence(self)

    def in_json(self) -> dict[str, Any]:
        """Return the cells, and the sentence."""
        cells = [{"site": site, "group": group} for site, group in self.cells]
        return {"kind": self.kind, "cells": cells, "count": self.count, "sentence": str(self)}


def cell_warnings(
    problem: Problem, rows: CalibrationRows, *, merged: bool, smallest_cell: int = 1
) -> Iterator[FitWarning]:
    """Warn of the cells on which a requirement rests on little or nothing, once per kind.

    ``merged`` says whether the merged federation's rule was there for cells without rows; ``smallest_cell`` with how
    few rows a cell was left out.
    """
    count, one_label = _counted(problem, rows)
    every = problem.cells.rows.reshape(problem.shape)
    thresholds: tuple[float, ...] = ()
    if not merged:
        even = [0.5] if problem.costs is None else np.unique(Costs.of(problem.costs).break_even).tolist()
        thresholds = tuple(even)
    absent = {"thresholds": thresholds, "fewest": smallest_cell}
    kinds: tuple[tuple[str, Booleans, dict[str, Any]], ...] = (
        ("no rows" if smallest_cell == 1 else "too small", every == 0, absent),
        ("no weight", (every > 0) & (count == 0), absent),
        ("one row", count == 1, {}),
        ("one label", (count > 1) & one_label, {}),
        ("few rows", (count > 1) & (count < FEW_ROWS) & ~one_label, {}),
    )
    for kind, which, more in kinds:
        yield from _about_cells(kind, which, rows.groups.names, rows.sites.names, **more)
    for side in ("local", "global"):
        yield from _unmeasured(side, problem, rows)


def _counted(problem: Problem, rows: CalibrationRows) -> tuple[Indices, Booleans]:
    """Rows of positive weight in every cell, and whether all of them have the same label."""
    shape, n_cells = problem.shape, problem.cells.rows.size
    if rows.labels is None and rows.weights is None:  # nothing to count: millions of rows need not be touched
        return problem.cells.rows.reshape(shape), np.zeros(shape, dtype=bool)
    count, positive = np.zeros(n_cells, dtype=np.int64), np.zeros(n_cells)
    for some in pieces(rows.scores.size, _ROWS_AT_ONCE):
        cells = cell_numbers(rows.groups.codes[some], rows.sites.codes[some], shape[1])
        weighty = slice(None) if rows.weights is None else rows.weights[some] > 0
        count += np.bincount(cells[weighty], minlength=n_cells)
        if rows.labels is not None:
            positive += np.bincount(cells[weighty], rows.labels[some][weighty], minlength=n_cells)
    one_label = (positive == 0) | (positive == count) if rows.labels is not None else np.zeros(n_cells, dtype=bool)
    return count.reshape(shape), one_label.reshape(shape)


def _unmeasured(side: str, problem: Problem, rows: CalibrationRows) -> Iterator[FitWarning]:
    """Say where a gap is not measured, or leaves a group out, because nobody counts in its rate."""
    local = side == "local"
    regions, holding = (problem.inside, problem.local_holding) if local else (problem.over_all, problem.global_holding)
    for k, rate in enumerate(problem.local_rates if local else problem.global_rates):
        if regions.limits.on_groups[..., k].any():
            continue
        counts = regions.compared[..., k]
        by = ALL if regions.parted is None else holding[k][0].requirement.by
        groups, place = Attributes(rows.groups.names).parted(by)
        there = np.arange(counts.shape[1]) < np.full((1, 1), len(groups))
        if local:
            there = summed_cells(problem.mass[..., None], place[:, None])[..., 0] > 0
        required = np.isfinite(regions.limits.tolerance[:, k]) | (regions.limits.ratio[:, k] > 0).any() | (not local)
        places = rows.sites.names if local else (None,)
        blind = np.flatnonzero(required & ~counts.any(axis=1))
        if blind.size:
            cells = tuple((places[c], None) for c in blind[:NAMED])
            yield FitWarning("unmeasured gap", cells, blind.size, rate.name)
        left_out = counts.any(axis=1, keepdims=True) & ~counts & there
        yield from _about_cells("group left out", left_out, groups, places, rate=rate.name)


def empty_ratios(outcomes: Outcomes) -> Iterator[FitWarning]:
    """A warning about every ratio and precision where nobody is selected: it is met there, and says nothing."""
    for requirement in outcomes.requirements:
        ratio = requirement.measure == "ratio"
        if ratio or requirement.measure == "precision":
            known = outcomes.where(requirement=requirement)
            at = [each.site for each in known if each.after is None and (each.rows or not ratio)]
            if at:
                cells = tuple((site, None) for site in at[:NAMED])
                rate = (
                    requirement.rates[0].name if ratio else str(requirement).partition(f" {requirement.relation} ")[0]
                )
                yield FitWarning("empty ratio" if ratio else "empty precision", cells, len(at), rate)


def _about_cells(
    kind: str, which: Booleans, groups: Sequence[Label], places: Sequence[Label | None], **more: Any
) -> Iterator[FitWarning]:
    """A warning about the cells marked, (places, groups), if there are any."""
    count = int(which.sum())
    if count:
        cells = [(places[c], groups[a]) for c, a in np.argwhere(which)[:NAMED]]
        yield FitWarning(kind, tuple(cells), count, **more)
