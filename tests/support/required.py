"""Random requirements of every kind, and their optimum as one linear program with a variable for every row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linprog

from logofair import Exactly, Ratio
from logofair.notions import NOTIONS
from logofair.requirements import called
from support.oracles import NOBODY

# Whether rows count in the rates of a notion: all, by their chance, or by what is left to 1.
COUNTS = {"selection": (1.0, 0.0), "positives": (0.0, 1.0), "negatives": (1.0, -1.0)}
RATES = {
    "demographic_parity": ("selection",),
    "equal_opportunity": ("positives",),
    "predictive_equality": ("negatives",),
    "equalized_odds": ("positives", "negatives"),
}
NOTION = {"selection": "demographic_parity", "positives": "equal_opportunity", "negatives": "predictive_equality"}
TOLERANCES = (None, 0.0, 0.05, 0.2, Ratio(0.8), Ratio(0.5), Ratio(1.0))
_SMALL = 1e-9  # a coefficient that HiGHS leaves out
_FIXED = 1e-7  # a rate that cannot be further than this from 0 or 1 has to be 0 or 1: see ``Required.fixed``

# A row of the program: ``row @ chances of acceptance <= end``, and the name of the requirement that it is of.
Rows: TypeAlias = Iterator[tuple[np.ndarray, float, str]]


@dataclass(frozen=True)
class Limit:
    """A floor or a ceiling: side, notion, group (None: all), number or "today"."""

    kind: str
    side: str
    notion: str
    group: int | None
    value: Any


@dataclass(frozen=True)
class Required:
    """Rows with known chances, and what is required of a rule for them."""

    chances: np.ndarray
    groups: np.ndarray
    sites: np.ndarray
    local: Mapping[str, Any]  # a tolerance or a ratio for each of some notions
    global_: Mapping[str, Any]
    costs: Any = None  # a pair, or a mapping of every site to its own
    limits: tuple[Limit, ...] = ()
    capacity: dict[str, Any] = field(default_factory=dict)
    single: dict[int, Any] = field(default_factory=dict)  # of single sites, in place of all that is local
    weights: np.ndarray | None = None

    @classmethod
    def drawn(cls, seed: int) -> Required:
        """A small random problem about one notion; about one in ten cannot be met."""
        rng = np.random.default_rng(seed)
        n_groups, n_sites, n = int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(20, 60))
        groups, sites = rng.permutation(n) % n_groups, rng.permutation(n) % n_sites
        local, global_ = (TOLERANCES[int(i)] for i in rng.integers(0, len(TOLERANCES), 2))
        limits = []
        for kind, side in (("floor", "local"), ("floor", "global"), ("ceiling", "local"), ("ceiling", "global")):
            if rng.random() < 0.25:
                group = int(rng.integers(n_groups)) if rng.random() < 0.5 else None
                low = rng.random() * 0.6 if kind == "floor" else 0.2 + rng.random() * 0.8
                value = "today" if rng.random() < 0.4 else round(float(low), 2)
                limits.append(Limit(kind, side, NOTION[str(rng.choice(list(NOTION)))], group, value))
        shares = {
            side: round(float(0.1 + 0.8 * rng.random()), 2) for side in ("local", "global") if rng.random() < 0.25
        }
        chances, notion = np.round(rng.random(n), int(rng.integers(1, 4))), NOTION[str(rng.choice(list(NOTION)))]
        return cls(
            chances,
            groups,
            sites,
            {notion: local},
            {notion: global_},
            (float(rng.choice([0.5, 1, 2])), float(rng.choice([0.3, 1, 3]))) if rng.random() < 0.5 else None,
            tuple(limits),
            {side: Exactly(share) if rng.random() < 0.3 else share for side, share in shares.items()},
        )

    @classmethod
    def mixed(cls, seed: int) -> Required:
        """A small random problem with everything at once: about one in three cannot be met."""
        rng = np.random.default_rng(seed)

        def often(chance: float) -> bool:
            return bool(rng.random() < chance)

        def share(low: float, high: float) -> float:
            return round(float(low + (high - low) * rng.random()), 2)

        n_groups, n_sites, n = int(rng.integers(2, 5)), int(rng.integers(1, 6)), int(rng.integers(8, 60))
        groups, sites = rng.integers(0, n_groups, n), rng.integers(0, n_sites, n)
        groups[:n_groups], sites[:n_sites] = np.arange(n_groups), np.arange(n_sites)
        notions = list(RATES)

        def side() -> dict[str, Any]:
            some = rng.choice(notions, 1 if often(0.6) else int(rng.integers(2, 4)), replace=False).tolist()
            return {notion: TOLERANCES[int(rng.integers(len(TOLERANCES)))] for notion in some}

        limits: dict[tuple[Any, ...], Limit] = {}
        for kind in ("floor", "ceiling"):
            for _ in range(int(rng.choice([0, 0, 1, 2]))):
                where, notion = str(rng.choice(["local", "global"])), str(rng.choice(notions))
                group = int(rng.integers(n_groups)) if often(0.5) else None
                certain = (0.0, 1.0)[int(often(0.8) == (kind == "floor"))]
                value: Any = share(0.0, 0.6) if kind == "floor" else share(0.2, 1.0)
                value = "today" if often(0.3) else certain if often(0.25) else value
                limits[kind, where, notion] = Limit(kind, where, notion, group, value)
        capacity = {where: share(0.1, 0.9) for where in ("local", "global") if often(0.15)}
        pairs = [(float(rng.choice([0.5, 1, 2, 0])), float(rng.choice([0.3, 1, 3]))) for _ in range(n_sites)]
        return cls(
            _extreme(rng, n),
            groups,
            sites,
            side(),
            side(),
            None if often(0.5) else dict(enumerate(pairs)) if n_sites > 1 and often(0.3) else pairs[0],
            tuple(limits.values()),
            {where: Exactly(each) if often(0.4) else each for where, each in capacity.items()},
            {site: TOLERANCES[int(rng.integers(len(TOLERANCES)))] for site in range(n_sites) if often(0.06)}
            if n_sites > 1
            else {},
            _uneven(rng, groups, sites) if often(0.4) else None,
        )

    @property
    def extreme(self) -> bool:
        """Whether some chances are so near to 0 or 1 that a program solved in floating point can miss them."""
        tiny = np.minimum(self.chances, 1 - self.chances)
        return bool(np.any((tiny > 0) & (tiny < 1e-3)))

    @property
    def mass(self) -> np.ndarray:
        return np.ones(self.chances.size) if self.weights is None else self.weights

    def arguments(self) -> dict[str, Any]:
        """What :func:`logofair.fit` takes for it."""
        given: dict[str, Any] = {"costs": self.costs, "capacity": self.capacity or None}
        for kind in ("floor", "ceiling"):
            sides: dict[str, Any] = {}
            for limit in self.limits:
                if limit.kind == kind:
                    own = limit.value if limit.group is None else {limit.group: limit.value}
                    sides.setdefault(limit.side, {})[limit.notion] = own
            given[f"{kind}s"] = sides or None
        one = np.unique(self.sites).size == 1
        return given | {
            "notion": {"local": dict(self.local), "global": dict(self.global_)},
            "groups": self.groups,
            "sites": None if one else self.sites,
            "site_tolerances": self.single or None,
            "sample_weight": self.weights,
            "calibration": "none",
            "pooling": "none",
            "random_state": 0,
        }

    def least_cost(self, giving: float = 0.0) -> float | None:
        """The cost per row of the best rule, by a program over rows; None where there is no rule.

        Every requirement may give way by as much as is ``giving``.
        """
        accepted, rejected = self._row_costs()
        share = self.mass / self.mass.sum()
        worth = (accepted * (1 - self.chances) - rejected * self.chances) * share
        rows = list(self._rows(dict.fromkeys(self.names(), giving)))
        found = self._solved(worth, rows, self.fixed() if giving == 0.0 else (0, 1))
        return None if found is None else found + float((rejected * self.chances * share).sum())

    def loosened_cost(self) -> float:
        """The least cost where every requirement gives way by rounding, which is worth much where prices are large."""
        found = (cost for giving in (2e-9, 1e-8) if (cost := self.least_cost(giving)) is not None)
        return next(found)  # where chances are extreme HiGHS may take the first for infeasible

    def cost(self, accepted: np.ndarray) -> float:
        """The cost per row of accepting every row with its chance."""
        of_accepted, of_rejected = self._row_costs()
        each = of_accepted * (1 - self.chances) * accepted + of_rejected * self.chances * (1 - accepted)
        return float(each @ self.mass / self.mass.sum())

    def violation(self, accepted: np.ndarray) -> float:
        """The largest excess over a requirement."""
        return max((float(row @ accepted - end) for row, end, _ in self._rows({})), default=0.0)

    def _row_costs(self) -> np.ndarray:
        pairs = self.costs if isinstance(self.costs, dict) else dict.fromkeys(self.sites, self.costs or (1.0, 1.0))
        return np.array([pairs[site] for site in self.sites]).T

    @property
    def dearest(self) -> float:
        """What the dearest error costs."""
        return float(self._row_costs().max())

    def possible(self, only: Collection[str], giving: Mapping[str, float] | None = None) -> bool:
        """Whether the requirements of these names can be met together, some giving way by an amount."""
        rows = [row for row in self._rows(giving or {}) if row[2] in only]
        return self._solved(np.zeros(self.chances.size), rows) is not None

    def names(self) -> set[str]:
        """What the requirements are called."""
        return {name for _, _, name in self._rows({})}

    def fixed(self) -> list[tuple[float, float]]:
        """What is left to choose of every row's chance of acceptance.

        Where a true positive rate has to be 1, all are accepted that count in it; of a chance of 1e-12 a program that
        is solved to 1e-10 does not know that.
        """
        ends = np.tile([0.0, 1.0], (self.chances.size, 1))
        if not (self.limits and self.extreme):
            return [(0.0, 1.0)] * self.chances.size
        rows = list(self._rows({}))
        for _ in range(2):
            for inside in (*(self.sites == site for site in np.unique(self.sites)), self.sites >= 0):
                for counts in ("positives", "negatives"):
                    for group in np.unique(self.groups):
                        rate = self._rate(counts, inside, group)
                        if rate is None:
                            continue
                        most, least = (self._solved(sign * rate, rows, ends) for sign in (-1.0, 1.0))
                        if most is not None and -most < _FIXED:
                            ends[rate > 0, 1] = 0.0
                        elif least is not None and least > 1.0 - _FIXED:
                            ends[rate > 0, 0] = 1.0
        return [(low, high) for low, high in ends.tolist()]

    def _solved(self, worth: np.ndarray, rows: list[tuple[np.ndarray, float, str]], bounds: Any = (0, 1)) -> Any:
        matrix, limits = None, None
        if rows:  # HiGHS takes coefficients below 1e-9 for 0: what is best of them is said in their place
            matrix, limits = np.array([row for row, _, _ in rows]), np.array([end for _, end, _ in rows])
            small = np.where(np.abs(matrix) <= _SMALL, matrix, 0.0)
            matrix, limits = matrix - small, limits + np.maximum(-small, 0.0).sum(axis=1)
        for exact, (method, presolve) in product(
            (1e-10, 1e-8), (("highs", True), ("highs-ds", False), ("highs-ipm", True))
        ):
            options = {"primal_feasibility_tolerance": exact, "dual_feasibility_tolerance": exact, "presolve": presolve}
            found = linprog(worth, matrix, limits, bounds=bounds, method=method, options=options)
            if found.status in (0, 2):
                break
        assert found.status in (0, 2), found.message
        return None if found.status == 2 else float(found.fun)

    def _rows(self, giving: Mapping[str, float]) -> Rows:
        for site in [*np.unique(self.sites).tolist(), None]:
            side, where = ("global", "over all") if site is None else ("local", "inside sites")
            inside = np.ones(self.groups.size, bool) if site is None else self.sites == site
            if not self.mass[inside].any():
                continue
            for notion, usual in (self.global_ if site is None else self.local).items():
                own = usual if site is None else self.single.get(site, usual)
                others = site in self.single and any(own != each for each in self.local.values())
                yield from self._compared(inside, notion, own, "at single sites" if others else where, giving)
            for limit in self.limits:
                if limit.side == side:
                    yield from self._limited(inside, limit, where, giving)
            if side in self.capacity:
                share, selected = self.capacity[side], inside * self.mass / self.mass[inside].sum()
                exact = isinstance(share, Exactly)
                share = share.share if exact else share
                most, least = (called(kind, where) for kind in ("most selected", "least selected"))
                yield selected, share + giving.get(most, 0.0), most
                if exact:
                    yield -selected, -share + giving.get(least, 0.0), least

    def _compared(
        self, inside: np.ndarray, notion: str, tolerance: Any, where: str, giving: Mapping[str, float]
    ) -> Rows:
        kind = "ratio" if isinstance(tolerance, Ratio) else "tolerance"
        name = called(kind, where, NOTIONS[notion].rates)
        for counts in RATES[notion] if tolerance is not None else ():
            rates = [rate for a in np.unique(self.groups) if (rate := self._rate(counts, inside, a)) is not None]
            for one in rates:
                for other in rates:
                    if one is not other and isinstance(tolerance, Ratio):
                        yield (tolerance.least - giving.get(name, 0.0)) * one - other, 0.0, name
                    elif one is not other:
                        yield one - other, tolerance + giving.get(name, 0.0), name

    def _limited(self, inside: np.ndarray, limit: Limit, where: str, giving: Mapping[str, float]) -> Rows:
        accepted, rejected = self._row_costs()
        today = ((accepted + rejected) * self.chances >= accepted).astype(float)
        name = called(limit.kind, where, NOTIONS[limit.notion].rates, limit.group)
        for counts in RATES[limit.notion]:
            for group in np.unique(self.groups) if limit.group is None else [limit.group]:
                rate = self._rate(counts, inside, group)
                if rate is not None:
                    value = float(rate @ today) if limit.value == "today" else limit.value
                    more = giving.get(name, 0.0)
                    yield (-rate, -value + more, name) if limit.kind == "floor" else (rate, value + more, name)

    def _rate(self, counts: str, inside: np.ndarray, group: Any) -> np.ndarray | None:
        constant, slope = COUNTS[counts]
        members = self.mass * (inside & (self.groups == group))
        each = members * (constant + slope * self.chances)
        return each / each.sum() if each.sum() > NOBODY * members.sum() else None


def _extreme(rng: np.random.Generator, n: int) -> np.ndarray:
    """Chances anywhere, on a grid with ties, or with many at 0, at 1 and next to these."""
    chances = rng.random(n)
    kind = rng.random()
    if kind < 0.6:
        chances = np.round(chances, int(rng.integers(1, 4)))
    if kind > 0.4:
        ends = np.array([0.0, 1.0, 1e-9, 1.0 - 1e-9, 1e-12, 1e-4])
        chances = np.where(rng.random(n) < rng.choice([0.1, 0.3, 0.7]), rng.choice(ends, n), chances)
    return chances


def _uneven(rng: np.random.Generator, groups: np.ndarray, sites: np.ndarray) -> np.ndarray:
    """Weights of which some are 0: at times those of all rows of a site, or of a group at a site."""
    weights = rng.choice([0.0, 0.3, 1.0, 7.0], groups.size)
    if rng.random() < 0.3:
        weights[sites == rng.integers(sites.max() + 1)] = 0.0
    if rng.random() < 0.3:
        weights[(sites == rng.integers(sites.max() + 1)) & (groups == rng.integers(groups.max() + 1))] = 0.0
    weights[0] = 1.0 if not weights.any() else weights[0]
    return weights
