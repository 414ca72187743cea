"""Brute force: what the library promises, recomputed row by row without its cells and solvers.

A :class:`Case` is a small problem as plain rows. Its rates, gaps and accuracy are summed in plain loops with
``math.fsum``; its optimum is one linear program with a variable for every row (or for every threshold of every cell).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog

from logofair.columns.cells import build_cells
from logofair.notions import NOTIONS, Notion, Rate
from logofair.solvers.limits import Limits, Regions
from logofair.solvers.problem import Problem
from support.sentences import asking

BENEFIT = Rate("benefit", -1.0, 2.0, base=(1.0, 0.0))
TILTED = Rate("leaning", 0.5, 1.0, base=(1.0, 1.0))
USERS = {"benefit": Notion("benefit", given=(BENEFIT,)), "leaning": Notion("leaning", given=(TILTED, None))}
EVERY_NOTION = {**NOTIONS, **USERS}
TOLERANCES = (0.0, 1e-6, 0.01, 0.05, 0.2, math.inf)

# A rate whose denominator is this small a share of its rows' mass is a rate of nobody.
NOBODY = 1e-5
HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


def regions(tolerance: np.ndarray, limits: Limits | None = None) -> Regions:
    """What has to hold over all sites, of tolerances by group and rate: inf where a group does not count."""
    within = Limits.within(tolerance.min(axis=0)[None], len(tolerance))
    limits = within if limits is None else replace(limits, tolerance=within.tolerance)
    return Regions(limits, np.isfinite(tolerance)[None])


@dataclass(frozen=True)
class Gap:
    """One gap: its value under some rule, the tolerance, and the site (None: all of them)."""

    value: float
    tolerance: float
    rate: Rate
    site: int | None


@dataclass(frozen=True)
class Case:
    """A problem as rows; tolerances as in ``Problem``: (sites, local rates) and (global rates,), inf for free."""

    scores: np.ndarray
    groups: np.ndarray
    sites: np.ndarray
    n_groups: int
    n_sites: int
    local_rates: tuple[Rate, ...]
    global_rates: tuple[Rate, ...]
    local_tolerance: np.ndarray
    global_tolerance: np.ndarray
    labels: np.ndarray | None = None  # values of the rows where these are not their scores
    weights: np.ndarray | None = None

    @property
    def values(self) -> np.ndarray:
        return self.scores if self.labels is None else self.labels

    @property
    def mass(self) -> np.ndarray:
        weights = np.ones(self.scores.size) if self.weights is None else self.weights
        return weights / math.fsum(weights)

    def problem(self) -> Problem:
        """The library's form of the same problem."""
        cells = build_cells(
            self.scores,
            self.groups.astype(np.int32),
            self.sites.astype(np.int32),
            n_groups=self.n_groups,
            n_sites=self.n_sites,
            values=self.labels,
            weights=self.weights,
        )
        tolerances = self.local_tolerance, self.global_tolerance[None]
        limits = (Limits.within(np.asarray(each, dtype=float), self.n_groups) for each in tolerances)
        return Problem(cells, self.local_rates, self.global_rates, *limits)

    def constraints(self) -> Iterator[tuple[Rate, float, int | None, list[np.ndarray]]]:
        """Every gap that is not free: rate, tolerance, site, and each group's rate as coefficients of the rows."""
        sides = [
            (r, c, self.local_tolerance[c, k]) for c in range(self.n_sites) for k, r in enumerate(self.local_rates)
        ]
        sides += [(r, None, self.global_tolerance[k]) for k, r in enumerate(self.global_rates)]
        for rate, site, tolerance in sides:
            rates = [r for r in (self.coefficients(rate, site, a) for a in range(self.n_groups)) if r is not None]
            if math.isfinite(tolerance) and len(rates) > 1:
                yield rate, float(tolerance), site, rates

    def coefficients(self, rate: Rate, site: int | None, group: int) -> np.ndarray | None:
        """A group's rate as a sum over rows of coefficient times chance; None where nobody counts in it."""
        base = (rate.constant, rate.slope) if rate.base is None else rate.base
        members = [i for i in range(self.scores.size) if self.groups[i] == group and site in (None, int(self.sites[i]))]
        mass, value = self.mass, self.values
        total = math.fsum(mass[i] * (base[0] + base[1] * value[i]) for i in members)
        if total <= NOBODY * math.fsum(mass[i] for i in members):
            return None
        coefficients = np.zeros(self.scores.size)
        for i in members:
            coefficients[i] = mass[i] * (rate.constant + rate.slope * value[i]) / total
        return coefficients

    def accuracy(self, chance: np.ndarray) -> float:
        """Expected accuracy of accepting every row with its chance."""
        each = zip(self.mass, self.values, chance, strict=True)
        return math.fsum(m * (v * h + (1.0 - v) * (1.0 - h)) for m, v, h in each)

    def gaps(self, chance: np.ndarray) -> list[Gap]:
        """Every gap that is not free, under a rule."""
        found = []
        for rate, tolerance, site, rates in self.constraints():
            values = [math.fsum(r * chance) for r in rates]
            found.append(Gap(max(values) - min(values), tolerance, rate, site))
        return found

    def violation(self, chance: np.ndarray) -> float:
        """Largest excess of a gap over its tolerance."""
        return max([0.0, *(gap.value - gap.tolerance for gap in self.gaps(chance))])

    def best_rows(self, objective: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """Accuracy and chances of the best rule of all, a variable per row (``objective``: another aim)."""
        return self._best(np.eye(self.scores.size), None, objective)

    def best_thresholds(self) -> float:
        """Accuracy of the best mixture of threshold rules, upwards and downwards, a variable per rule and cell."""
        rules, owner = [], []
        for number, (site, group) in enumerate(np.ndindex(self.n_sites, self.n_groups)):
            inside = (self.sites == site) & (self.groups == group)
            for score in sorted(set(self.scores[inside].tolist())):
                rules += [inside & (self.scores >= score), inside & (self.scores <= score)]
                owner += [number, number]
        return self._best(np.array(rules, dtype=float).T, np.array(owner), None)[0]

    def _best(
        self, rules: np.ndarray, owner: np.ndarray | None, objective: np.ndarray | None
    ) -> tuple[float, np.ndarray]:
        """Best mixture of rules (columns of chances), each of weight at most 1, and in all at most 1 for an owner."""
        gain = self.mass * (2.0 * self.values - 1.0) if objective is None else objective
        demands = list(self.constraints())
        n, width = rules.shape[1], rules.shape[1] + len(demands)
        rows, limits = [], []
        for number, (_, tolerance, _, rates) in enumerate(demands):
            for rate in rates:  # floor <= rate <= floor + tolerance
                row = np.zeros(width)
                row[:n], row[n + number] = rate @ rules, -1.0
                rows += [row, -row]
                limits += [tolerance, 0.0]
        for cell in [] if owner is None else np.unique(owner):
            rows.append(np.concatenate([owner == cell, np.zeros(len(demands))]).astype(float))
            limits.append(1.0)
        aim = np.concatenate([-(gain @ rules), np.zeros(len(demands))])
        bounds = [(0.0, 1.0)] * n + [(None, None)] * len(demands)
        matrix = (np.array(rows), np.array(limits)) if rows else (None, None)
        for method, presolve in (("highs", True), ("highs-ds", False), ("highs-ipm", True)):
            solved = linprog(aim, *matrix, bounds=bounds, method=method, options={**HIGHS, "presolve": presolve})
            if solved.status == 0:
                break
        assert solved.status == 0, solved.message
        chance = rules @ solved.x[:n]
        return self.accuracy(chance), chance

    def dual(self, local: np.ndarray, global_: np.ndarray) -> float:
        """The bound that prices prove: (sites, groups, rates) per site's mass, and global (groups, rates)."""
        mass, value = self.mass, self.values
        line = mass * (2.0 * value - 1.0)
        penalty = []
        share = [math.fsum(mass[self.sites == c]) for c in range(self.n_sites)]
        for c, a, k in np.ndindex(local.shape):
            rate = self.coefficients(self.local_rates[k], c, a)
            if rate is not None and math.isfinite(self.local_tolerance[c, k]):
                line = line - share[c] * local[c, a, k] * rate
                penalty.append(0.5 * share[c] * self.local_tolerance[c, k] * abs(local[c, a, k]))
        for a, k in np.ndindex(global_.shape):
            rate = self.coefficients(self.global_rates[k], None, a)
            if rate is not None and math.isfinite(self.global_tolerance[k]):
                line = line - global_[a, k] * rate
                penalty.append(0.5 * self.global_tolerance[k] * abs(global_[a, k]))
        return math.fsum(mass * (1.0 - value)) + math.fsum(np.maximum(line, 0.0)) + math.fsum(penalty)


def rates_of(notions: Sequence[str]) -> tuple[Rate, ...]:
    """The rates of some notions, each once."""
    return tuple(dict.fromkeys(rate for name in notions for rate in EVERY_NOTION[name].rates))


def random_case(
    rng: np.random.Generator,
    *,
    groups: int | None = None,
    sites: int | None = None,
    rows: int | None = None,
    local: Sequence[str] | None = None,
    global_: Sequence[str] | None = None,
    tolerances: Sequence[float] = TOLERANCES,
    weighted: bool | None = None,
    labelled: bool = False,
) -> Case:
    """A random problem; whatever is not given is drawn."""
    names = list(EVERY_NOTION)
    n_groups = int(rng.integers(2, 6)) if groups is None else groups
    n_sites = int(rng.integers(1, 9)) if sites is None else sites
    n = int(rng.integers(3, 120)) if rows is None else rows
    local_rates = rates_of([names[rng.integers(len(names))]] if local is None else local)
    global_rates = rates_of([names[rng.integers(len(names))]] if global_ is None else global_)
    group, site = rng.integers(0, n_groups, n), rng.integers(0, n_sites, n)
    lift = rng.normal(size=(n_sites, n_groups))[site, group]
    scores = 1.0 / (1.0 + np.exp(-lift - 1.5 * rng.normal(size=n)))
    if rng.random() < 0.4:
        scores = np.round(scores, 1)
    if weighted is None:
        weighted = rng.random() < 0.4
    return Case(
        scores,
        group,
        site,
        n_groups,
        n_sites,
        local_rates,
        global_rates,
        np.repeat(rng.choice(tolerances, (n_sites, 1)), len(local_rates), axis=1),
        np.repeat(rng.choice(tolerances, 1), len(global_rates)),
        labels=(rng.random(n) < scores).astype(float) if labelled else None,
        weights=rng.choice([0.0, 0.3, 1.0, 7.0], n) + (np.arange(n) == 0) if weighted else None,
    )


@st.composite
def cases(draw: st.DrawFn, *, labelled: bool = False, most_rows: int = 14) -> Case:
    """Problems small enough to shrink: scores on a coarse grid or anywhere, any notions, any tolerances."""
    n_groups, n_sites = draw(st.integers(2, 4)), draw(st.integers(1, 4))
    score = draw(
        st.sampled_from([st.integers(0, 10).map(lambda k: k / 10), st.floats(0, 1).map(lambda x: round(x, 6))])
    )
    row = st.tuples(score, st.integers(0, n_groups - 1), st.integers(0, n_sites - 1), st.integers(0, 1))
    scores, groups, sites, labels = zip(*draw(st.lists(row, min_size=1, max_size=most_rows)), strict=True)
    sides = st.lists(st.sampled_from(list(EVERY_NOTION)), min_size=1, max_size=2, unique=True).map(rates_of)
    local_rates, global_rates = draw(sides), draw(sides)
    tolerance = st.sampled_from(TOLERANCES)
    local = draw(st.lists(tolerance, min_size=n_sites * len(local_rates), max_size=n_sites * len(local_rates)))
    global_ = draw(st.lists(tolerance, min_size=len(global_rates), max_size=len(global_rates)))
    weights = draw(
        st.none() | st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=len(scores), max_size=len(scores))
    )
    if weights is not None and not any(weights):
        weights = None
    return Case(
        np.array(scores),
        np.array(groups),
        np.array(sites),
        n_groups,
        n_sites,
        local_rates,
        global_rates,
        np.array(local).reshape(n_sites, len(local_rates)),
        np.array(global_),
        labels=np.array(labels, dtype=float) if labelled else None,
        weights=None if weights is None else np.array(weights),
    )


@dataclass(frozen=True)
class Request:
    """Arguments of ``logofair.fit`` (scores are calibrated already), and the same problem as a case."""

    scores: np.ndarray
    arguments: dict[str, Any]
    case: Case

    def chances(self, solution: Any) -> np.ndarray:
        """Chance with which the stored policy accepts each of the rows it was fitted on."""
        columns = {name: self.arguments[name] for name in ("sensitive_features", "sites")}
        return solution.policy.probabilities(self.scores, **columns)


def spelled_out(scores: Sequence[float], arguments: dict[str, Any]) -> Case:
    """The problem that some arguments of ``logofair.fit`` describe."""
    notion, option = arguments.get("notion", "demographic_parity"), arguments.get
    by_side = isinstance(notion, dict) and "local" in notion
    local, global_ = (notion["local"], notion["global"]) if by_side else (notion, notion)
    inside = _requirements(local, option("local_tolerance", 0.02))
    global_ = _requirements(global_, option("global_tolerance", 0.02))
    _, groups = np.unique(arguments["sensitive_features"], return_inverse=True)
    sites = np.zeros_like(groups)
    names: list[Any] = [None]
    if option("sites") is not None:
        found, sites = np.unique(arguments["sites"], return_inverse=True)
        names = found.tolist()
    tolerance = np.tile([bound for _, bound in inside], (len(names), 1)).astype(float)
    for name, bound in (option("site_tolerances") or {}).items():
        tolerance[names.index(name)] = _bound(bound)
    return Case(
        np.asarray(scores, dtype=float),
        groups,
        sites,
        int(groups.max()) + 1,
        len(names),
        tuple(rate for rate, _ in inside),
        tuple(rate for rate, _ in global_),
        tolerance,
        np.array([bound for _, bound in global_]),
        weights=None if option("sample_weight") is None else np.asarray(arguments["sample_weight"], dtype=float),
    )


def _requirements(side: Any, default: float | None) -> list[tuple[Rate, float]]:
    """Every rate of a side with its tolerance; a mapping brings its own, unless the side is switched off."""
    bounds = side if isinstance(side, dict) else {side: default}
    named = [(EVERY_NOTION[n] if isinstance(n, str) else n, b) for n, b in bounds.items()]
    return [(rate, _bound(None if default is None else bound)) for notion, bound in named for rate in notion.rates]


def _bound(tolerance: float | None) -> float:
    return math.inf if tolerance is None else 0.0 if tolerance < 1e-9 else tolerance


def random_request(rng: np.random.Generator, *, rows: int | None = None) -> Request:
    """Random arguments of ``logofair.fit``: any notions in any form, any tolerances, some sites tiny or free."""

    def tolerance() -> float | None:
        return [0.0, 1e-10, 1e-6, 1e-3, 0.01, 0.05, 0.2, None][rng.integers(8)]

    def one() -> str | Notion:
        name = list(EVERY_NOTION)[rng.integers(len(EVERY_NOTION))]
        return name if name in NOTIONS and rng.random() < 0.5 else EVERY_NOTION[name]

    def side() -> Any:
        return one() if rng.random() < 0.7 else {one(): tolerance() for _ in range(rng.integers(1, 4))}

    n_groups, n_sites = int(rng.integers(2, 6)), int(rng.integers(1, 9))
    case = random_case(rng, groups=n_groups, sites=n_sites, rows=rows, weighted=False)
    groups, sites = case.groups.copy(), case.sites
    groups[:2] = 0, 1
    weights = None
    if (kind := rng.random()) < 0.2:
        weights = rng.choice([0.0, 0.3, 1.0, 7.0], groups.size) + (np.arange(groups.size) == 0)
    elif kind < 0.4:  # every other site holds a millionth
        weights = np.where(sites == sites[0], 1e6, 1.0)
    names = np.array([f"site {i}" for i in range(n_sites)])
    arguments: dict[str, Any] = {
        "sensitive_features": np.array(list("abcde"))[groups],
        "sites": None if n_sites == 1 and rng.random() < 0.5 else names[sites],
        "notion": side() if rng.random() < 0.5 else {"local": side(), "global": side()},
        "local_tolerance": tolerance(),
        "global_tolerance": tolerance(),
        "sample_weight": weights,
        "calibration": "none",
        "pooling": "none",  # the case is about the rows alone
    }
    if arguments["sites"] is not None and rng.random() < 0.3:
        known = sorted(set(arguments["sites"].tolist()))
        arguments["site_tolerances"] = {name: tolerance() for name in known if rng.random() < 0.5}
    return Request(case.scores, asking(**arguments), spelled_out(case.scores, arguments))
