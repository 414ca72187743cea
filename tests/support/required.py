"""Random requirements of every kind, and their optimum as one linear program with a variable for every row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from scipy.optimize import linprog

from logofair.notions import Rate
from logofair.requirement import TODAY, People, Requirement
from support.oracles import NOBODY
from support.sentences import sentences

# Whether rows count in a rate: all, by their chance, or by what is left to 1.
COUNTS = {"selection rate": (1.0, 0.0), "true positive rate": (0.0, 1.0), "false positive rate": (1.0, -1.0)}
NOTIONS = ("demographic_parity", "equal_opportunity", "predictive_equality", "equalized_odds")
NOTION = {"selection": "demographic_parity", "positives": "equal_opportunity", "negatives": "predictive_equality"}
TOLERANCES = (None, 0.0, 0.05, 0.2, ("ratio", 0.8), ("ratio", 0.5), ("ratio", 1.0))
_SMALL = 1e-9  # a coefficient that HiGHS leaves out
_MISSED = 1e-9  # by which a rule of the program may miss what is required
_FIXED = 1e-7  # a rate that cannot be further than this from 0 or 1 has to be 0 or 1: see ``Required.fixed``

# A row of the program: ``row @ chances of acceptance <= end``, and the requirement that it is of.
Rows: TypeAlias = Iterator[tuple[np.ndarray, float, Requirement]]


@dataclass(frozen=True)
class Required:
    """Rows with known chances, and what is required of a rule for them.

    Of several ``attributes`` ``groups`` are the numbers of their intersections.
    """

    chances: np.ndarray
    groups: np.ndarray
    sites: np.ndarray
    items: Sequence[Requirement]
    costs: Any = None  # a pair, or a mapping of every site to its own
    weights: np.ndarray | None = None
    attributes: Mapping[str, np.ndarray] | None = None

    @classmethod
    def drawn(cls, seed: int) -> Required:
        """A small random problem about one notion; about one in ten cannot be met."""
        rng = np.random.default_rng(seed)
        n_groups, n_sites, n = int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(20, 60))
        groups, sites = rng.permutation(n) % n_groups, rng.permutation(n) % n_sites
        local, global_ = (TOLERANCES[int(i)] for i in rng.integers(0, len(TOLERANCES), 2))
        limits: dict[str, Any] = {"floor": {}, "ceiling": {}}
        for kind, side in (("floor", "local"), ("floor", "global"), ("ceiling", "local"), ("ceiling", "global")):
            if rng.random() < 0.25:
                group = int(rng.integers(n_groups)) if rng.random() < 0.5 else None
                low = rng.random() * 0.6 if kind == "floor" else 0.2 + rng.random() * 0.8
                value = "today" if rng.random() < 0.4 else round(float(low), 2)
                own = value if group is None else {group: value}
                limits[kind][side] = {NOTION[str(rng.choice(list(NOTION)))]: own}
        shares = {
            side: round(float(0.1 + 0.8 * rng.random()), 2) for side in ("local", "global") if rng.random() < 0.25
        }
        chances, notion = np.round(rng.random(n), int(rng.integers(1, 4))), NOTION[str(rng.choice(list(NOTION)))]
        costs = (float(rng.choice([0.5, 1, 2])), float(rng.choice([0.3, 1, 3]))) if rng.random() < 0.5 else None
        capacity = {side: ("exactly", share) if rng.random() < 0.3 else share for side, share in shares.items()}
        items = sentences(
            notion, local, global_, floors=limits["floor"], ceilings=limits["ceiling"], capacity=capacity or None
        )
        return cls(chances, groups, sites, items, costs)

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
        notions = list(NOTIONS)

        def side() -> dict[str, Any]:
            some = rng.choice(notions, 1 if often(0.6) else int(rng.integers(2, 4)), replace=False).tolist()
            return {notion: TOLERANCES[int(rng.integers(len(TOLERANCES)))] for notion in some}

        limits: dict[str, Any] = {"floor": {}, "ceiling": {}}
        for kind in ("floor", "ceiling"):
            for _ in range(int(rng.choice([0, 0, 1, 2]))):
                where, notion = str(rng.choice(["local", "global"])), str(rng.choice(notions))
                group = int(rng.integers(n_groups)) if often(0.5) else None
                certain = (0.0, 1.0)[int(often(0.8) == (kind == "floor"))]
                value: Any = share(0.0, 0.6) if kind == "floor" else share(0.2, 1.0)
                value = "today" if often(0.3) else certain if often(0.25) else value
                limits[kind].setdefault(where, {})[notion] = value if group is None else {group: value}
        capacity = {where: share(0.1, 0.9) for where in ("local", "global") if often(0.15)}
        pairs = [(float(rng.choice([0.5, 1, 2, 0])), float(rng.choice([0.3, 1, 3]))) for _ in range(n_sites)]
        chances, local, global_ = _extreme(rng, n), side(), side()
        costs: Any = None if often(0.5) else dict(enumerate(pairs)) if n_sites > 1 and often(0.3) else pairs[0]
        exactly = {where: ("exactly", each) if often(0.4) else each for where, each in capacity.items()}
        single = (
            {site: TOLERANCES[int(rng.integers(len(TOLERANCES)))] for site in range(n_sites) if often(0.06)}
            if n_sites > 1
            else {}
        )
        items = sentences(
            {"local": local, "global": global_},
            single=single,
            floors=limits["floor"],
            ceilings=limits["ceiling"],
            capacity=exactly or None,
        )
        weights = _uneven(rng, groups, sites) if often(0.4) else None
        return cls(chances, groups, sites, items, costs, weights)

    @classmethod
    def spoken(cls, seed: int, forms: int = 7, about: int | None = None) -> Required:
        """A small random problem of sentences of some forms, at any sites: about one in five cannot be met.

        Seven forms are of rates alone; with eight there is precision as well, with nine losses. The first sentence is
        of the form that the problem is ``about``, and may then be the only one.
        """
        rng = np.random.default_rng(seed)
        n_groups, n_sites, n = int(rng.integers(2, 5)), int(rng.integers(2, 5)), int(rng.integers(20, 80))
        groups, sites = rng.permutation(n) % n_groups, rng.permutation(n) % n_sites

        def one(names: Sequence[str]) -> str:
            return str(rng.choice(names))

        def where() -> str:
            site = one([str(each) for each in range(n_sites)])
            return one(["overall", "overall", "per site", f"per site except {site}", f"at {site}"])

        def who() -> str:
            return one(["everyone", *map(str, range(n_groups))])

        def number(low: float, high: float) -> str:
            return "today" if rng.random() < 0.2 else f"{low + (high - low) * rng.random():.2f}"

        rates, texts = list(COUNTS), []
        for i in range(int(rng.integers(2 if about is None else 1, 6))):
            rate, form = one(rates), int(rng.integers(forms))
            form = about if about is not None and i == 0 else form
            if form == 0:
                texts.append(f"{one([*rates, 'equalized odds'])} gap <= {number(0.0, 0.2)} {where()}")
            elif form == 1:
                texts.append(f"{rate} ratio >= {number(0.4, 1.0)} {where()}")
            elif form == 2:
                texts.append(f"{rate} of {who()} >= {number(0.0, 0.6)} {where()}")
            elif form == 3:
                texts.append(f"{rate} of {who()} <= {number(0.3, 1.0)} {where()}")
            elif form == 4:
                relation, low, high = ("<=", 0.0, 0.3) if rng.random() < 0.5 else (">=", -0.3, 0.0)
                other = rate if rng.random() < 0.8 else one(rates)
                texts.append(f"{rate} of {who()} - {other} of {who()} {relation} {number(low, high)} {where()}")
            elif form == 5:
                texts.append(f"accepted <= {number(0.2, 0.9)} {where()}")
            elif form == 8:
                against = one(["", " from unconstrained"])
                texts.append(f"LOSS loss{against} <= {0.15 * rng.random():.3f} {where()}")
            elif form == 7:
                relation, low, high = (">=", 0.3, 0.95) if rng.random() < 0.7 else ("<=", 0.4, 0.9)
                bound = f"{low + (high - low) * rng.random():.2f}"
                texts.append(f"precision of {who()} {relation} {bound} {where()}")
            else:
                texts.append(f"accepted = {int(rng.integers(1, n // (2 * n_sites)))} people {where()}")
        chances = np.round(rng.random(n), int(rng.integers(1, 4)))
        costs = (float(rng.choice([0.5, 1, 2])), float(rng.choice([0.3, 1, 3]))) if rng.random() < 0.3 else None
        texts = [text.replace("LOSS", "accuracy" if costs is None else "cost") for text in texts]
        return cls(chances, groups, sites, list(dict.fromkeys(map(Requirement.parse, texts))), costs)

    @classmethod
    def everything(cls, seed: int) -> Required:
        """A mixed problem with differences of rates, precision and losses besides: half of them cannot be met."""
        found, rng = cls.mixed(seed), np.random.default_rng([seed, 7])
        groups, sites = np.unique(found.groups).tolist(), np.unique(found.sites).tolist()
        loss, texts = "accuracy" if found.costs is None else "cost", []

        def where() -> str:
            if len(sites) == 1:
                return str(rng.choice(["overall", "per site"]))
            site = rng.choice(sites)
            return str(rng.choice(["overall", "overall", "per site", f"per site except {site}", f"at {site}"]))

        def who() -> str:
            return str(rng.choice(["everyone", *map(str, groups)]))

        for _ in range(int(rng.integers(1, 4))):
            form, little, more = int(rng.integers(3)), rng.random() < 0.1, rng.random() < 0.7
            if form == 0:
                low, high = (0.3, 0.95) if more else (0.4, 0.9)
                bound = float(rng.choice([0.0, 1.0])) if little else round(low + (high - low) * float(rng.random()), 2)
                texts.append(f"precision of {who()} {'>=' if more else '<='} {bound} {where()}")
            elif form == 1:
                place = "per site" if isinstance(found.costs, dict) else where()
                bound = 0.0 if little else round(0.15 * float(rng.random()), 3)
                texts.append(f"{loss} loss{rng.choice(['', ' from unconstrained'])} <= {bound} {place}")
            else:
                rate, size = rng.choice(list(COUNTS)), 0.0 if little else round(0.3 * float(rng.random()), 2)
                relation = f"<= {size}" if more else f">= {-size}"
                texts.append(f"{rate} of {who()} - {rate} of {who()} {relation} {where()}")
        return replace(found, items=list(dict.fromkeys([*found.items, *map(Requirement.parse, texts)])))

    @classmethod
    def crossed(cls, seed: int) -> Required:
        """A small random problem of sentences about two or three attributes: about one in four cannot be met."""
        rng = np.random.default_rng(seed)
        n_sites, n = int(rng.integers(1, 5)), int(rng.integers(20, 90))
        names = ["sex", "race", "age"][: int(rng.integers(2, 4))]
        attributes = {name: rng.permutation(n) % int(rng.integers(2, 4)) for name in names}
        if rng.random() < 0.3:  # some intersections are empty
            attributes["race"] = np.where(attributes["sex"] == 0, 0, attributes["race"])
            attributes["race"][:2] = [0, 1]
        attributes = {name: np.array([f"{name[0]}{v}" for v in each]) for name, each in attributes.items()}
        if rng.random() < 0.3:  # a value that occurs in two columns has to be told apart
            attributes = {name: np.where(np.char.endswith(v, "0"), "other", v) for name, v in attributes.items()}
        groups = np.unique(np.array(list(attributes.values())), axis=1, return_inverse=True)[1].ravel()
        sites = rng.permutation(n) % n_sites

        def one(options: Sequence[str]) -> str:
            return str(rng.choice(options))

        def by() -> str:
            if rng.random() < 0.2:
                return ""
            some = rng.permutation(names)[: int(rng.integers(1, len(names) + 1))]
            return "by all " if rng.random() < 0.15 else f"by {' and '.join(some)} "

        def who() -> str:
            if rng.random() < 0.2:
                return "everyone"
            row, some = int(rng.integers(n)), rng.permutation(names)[: int(rng.integers(1, 3))]
            values = ((name, attributes[name][row]) for name in some)
            return " and ".join(f"{k}={v}" if v == "other" or rng.random() < 0.2 else v for k, v in values)

        def where() -> str:
            site = one([str(each) for each in range(n_sites)])
            several = ["overall", "per site", f"per site except {site}", f"at {site}"]
            return one(several) if n_sites > 1 else "overall"

        def number(low: float, high: float) -> str:
            return "today" if rng.random() < 0.15 else f"{low + (high - low) * rng.random():.2f}"

        rates, texts = list(COUNTS), []
        for _ in range(int(rng.integers(2, 6))):
            rate, form = one(rates), int(rng.choice(10, p=[0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05]))
            other = rate if rng.random() < 0.8 else one(rates)
            texts.append(
                (
                    f"{one([*rates, 'equalized odds'])} gap {by()}<= {number(0.0, 0.2)}",
                    f"{rate} ratio {by()}>= {number(0.4, 1.0)}",
                    f"{rate} of {who()} >= {number(0.0, 0.6)}",
                    f"{rate} of {who()} <= {number(0.3, 1.0)}",
                    f"{rate} {by()}>= {number(0.0, 0.5)}",
                    f"{rate} of {who()} - {other} of {who()} <= {number(0.0, 0.3)}",
                    f"accepted <= {number(0.2, 0.9)}",
                    f"precision of {who()} >= {0.3 + 0.6 * rng.random():.2f}",
                    f"LOSS loss from unconstrained <= {0.15 * rng.random():.3f}",
                    f"LOSS loss <= {0.15 * rng.random():.3f}",
                )[form]
                + f" {where()}"
            )
        costs = (float(rng.choice([0.5, 1, 2])), float(rng.choice([0.3, 1, 3]))) if rng.random() < 0.3 else None
        texts = [text.replace("LOSS", "accuracy" if costs is None else "cost") for text in texts]
        weights = rng.choice([0.3, 1.0, 7.0], n) if rng.random() < 0.3 else None
        chances, items = np.round(rng.random(n), int(rng.integers(1, 4))), []
        for item in map(Requirement.parse, texts):  # by none is by each
            apart = not item.by and (item.measure in ("gap", "ratio") or (item.measure == "rate" and not item.who))
            items += [replace(item, by=(name,)) for name in names] if apart else [item]
        return cls(chances, groups, sites, list(dict.fromkeys(items)), costs, weights, attributes)

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
        one = np.unique(self.sites).size == 1
        return {
            "require": list(self.items),
            "local_tolerance": None,
            "global_tolerance": None,
            "costs": self.costs,
            "sensitive_features": self.groups if self.attributes is None else dict(self.attributes),
            "sites": None if one else self.sites,
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
        rows = list(self._rows(dict.fromkeys(self.items, giving)))
        found = self._solved(worth, rows, self.fixed() if giving == 0.0 else (0, 1))
        # Of coefficients below 1e-9 HiGHS may make a rule that misses what is required by as much.
        if found is None or (giving == 0.0 and self.violation(found.x) > _MISSED):
            return None
        return float(found.fun) + float((rejected * self.chances * share).sum())

    def loosened_cost(self) -> float:
        """The least cost where every requirement gives way by rounding, which is worth much where prices are large."""
        found = (cost for giving in (2e-9, 1e-8, 1e-7) if (cost := self.least_cost(giving)) is not None)
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

    def possible(self, only: Collection[Requirement], giving: Mapping[Requirement, float] | None = None) -> bool:
        """Whether these requirements can be met together, some giving way by an amount."""
        rows = [row for row in self._rows(giving or {}) if row[2] in only]
        return self._solved(np.zeros(self.chances.size), rows) is not None

    def binding(self) -> set[Requirement]:
        """The requirements that any row of the program is of."""
        return {item for _, _, item in self._rows({})}

    def fixed(self) -> list[tuple[float, float]]:
        """What is left to choose of every row's chance of acceptance.

        Where a true positive rate has to be 1, all are accepted that count in it; of a chance of 1e-12 a program that
        is solved to 1e-10 does not know that.
        """
        ends = np.tile([0.0, 1.0], (self.chances.size, 1))
        if not (self.extreme and any(item.measure == "rate" for item in self.items)):
            return [(0.0, 1.0)] * self.chances.size
        rows = list(self._rows({}))
        for _ in range(2):
            for inside in (*(self.sites == site for site in np.unique(self.sites)), self.sites >= 0):
                for counts in ("true positive rate", "false positive rate"):
                    for members in self._parts():
                        rate = self._rate(counts, inside, members)
                        if rate is None:
                            continue
                        most, least = (self._solved(sign * rate, rows, ends) for sign in (-1.0, 1.0))
                        if most is not None and -most.fun < _FIXED:
                            ends[rate > 0, 1] = 0.0
                        elif least is not None and least.fun > 1.0 - _FIXED:
                            ends[rate > 0, 0] = 1.0
        return [(low, high) for low, high in ends.tolist()]

    def _solved(
        self, worth: np.ndarray, rows: list[tuple[np.ndarray, float, Requirement]], bounds: Any = (0, 1)
    ) -> Any:
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
        return None if found.status == 2 else found

    def _rows(self, giving: Mapping[Requirement, float]) -> Rows:
        several = np.unique(self.sites).size > 1
        for item in self.items:
            more = giving.get(item, 0.0)
            for site in [*np.unique(self.sites).tolist(), None]:
                inside = np.ones(self.groups.size, bool) if site is None else self.sites == site
                there = item.scope.is_global if site is None else item.scope.covers(site)
                there = there or (not several and site is None and item.scope.where == "per site")
                if there and self.mass[inside].any():
                    yield from ((row, end, item) for row, end in self._of(item, inside, more))

    def _of(self, item: Requirement, inside: np.ndarray, more: float) -> Iterator[tuple[np.ndarray, float]]:
        """The rows of a requirement among some rows of the data, where it gives way by ``more``."""
        accepted, rejected = self._row_costs()
        today = ((accepted + rejected) * self.chances >= accepted).astype(float)
        if item.measure in ("gap", "ratio"):
            for counts in (rate.name for rate in item.rates):
                found = (self._rate(counts, inside, members) for members in self._parts(item))
                rates = [rate for rate in found if rate is not None]
                values = [float(rate @ today) for rate in rates] or [0.0]
                for one, other in product(rates, rates):
                    if one is other:
                        continue
                    if item.measure == "gap":
                        bound = max(values) - min(values) if item.bound == TODAY else item.bound
                        yield one - other, float(bound) + more  # type: ignore[arg-type]
                    else:
                        least = min(values) / (max(values) or 1.0) if item.bound == TODAY else item.bound
                        least = 1.0 if item.bound == TODAY and not max(values) else least
                        yield (float(least) - more) * one - other, 0.0  # type: ignore[arg-type]
            return
        if item.measure == "precision":  # giving way by rounding also where next to nobody is accepted
            people = self._rate("selection rate", inside, self._people(item.who[0]))
            if people is not None:
                sign = 1.0 if item.relation == "<=" else -1.0
                looser = float(item.bound) + sign * more  # type: ignore[arg-type]
                yield sign * people * (self.chances - looser), more if more <= 1e-8 else 0.0
            return
        if item.is_loss:
            lost = (accepted * (1 - self.chances) - rejected * self.chances) * self.mass * inside
            lost = lost / (self.mass * inside).sum()
            least = float(lost @ today) if not item.is_loss_inside else self._best_inside(lost, inside)
            yield lost, least + float(item.bound) + more  # type: ignore[arg-type]
            return
        for value in self._values(item, inside):
            bound = item.bound
            if isinstance(bound, People):
                bound = bound.number / self.mass[inside].sum()
            bound = float(value @ today) if bound == TODAY else float(bound)  # type: ignore[arg-type]
            if item.relation in ("<=", "="):
                yield value, bound + more
            if item.relation in (">=", "="):
                yield -value, more - bound

    def _best_inside(self, lost: np.ndarray, inside: np.ndarray) -> float:
        """The least that the best rule loses which meets what a site requires of itself."""
        own = [item for item in self.items if not (item.is_loss or item.scope.is_global)]
        alone = replace(self, items=own)
        rows = [row for row in alone._rows({}) if not row[0][~inside].any()]
        found = self._solved(lost, rows)
        return 0.0 if found is None else float(found.fun)

    def _values(self, item: Requirement, inside: np.ndarray) -> Iterator[np.ndarray]:
        """What is measured, as weights of the rows' chances of acceptance."""
        if item.measure == "rate" and not item.who:
            found = (self._rate(item.rates[0].name, inside, members) for members in self._parts(item))
            yield from (rate for rate in found if rate is not None)
            return
        rates = item.rates or (Rate("selection rate", 1.0, 0.0),)
        terms = [
            self._rate(rate.name, inside, self._people(who)) for rate, who in zip(rates, item.who or ((),), strict=True)
        ]
        if all(term is not None for term in terms):
            yield terms[0] if len(terms) == 1 else terms[0] - terms[1]  # type: ignore[operator,misc]

    def _parts(self, item: Requirement | None = None) -> list[np.ndarray]:
        """The people of every group that a requirement compares; without one of every intersection."""
        if item is None or item.by in ((), "all") or self.attributes is None:
            return [self.groups == group for group in np.unique(self.groups)]
        keys = list(zip(*(self.attributes[name] for name in item.by), strict=True))
        return [np.array([key == each for each in keys]) for key in sorted(set(keys))]

    def _people(self, population: Sequence[Any]) -> np.ndarray:
        """Who belongs to all of some groups."""
        found = np.ones(self.groups.size, dtype=bool)
        for member in population:
            if self.attributes is None:
                found &= self.groups == int(member)
            elif isinstance(member, tuple):
                found &= self.attributes[member[0]] == member[1]
            else:
                found &= np.any([each == member for each in self.attributes.values()], axis=0)
        return found

    def _rate(self, counts: str, inside: np.ndarray, people: np.ndarray) -> np.ndarray | None:
        """A rate of some people; None where there is nobody to speak of."""
        constant, slope = COUNTS[counts]
        members = self.mass * (inside & people)
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
