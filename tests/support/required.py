"""Random requirements of every kind, and their optimum as one linear program with a variable for every row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linprog

from logofair import Exactly, Ratio
from logofair.notions import NOTIONS
from logofair.requirements import called

NOTION = {"selection": "demographic_parity", "positives": "equal_opportunity", "negatives": "predictive_equality"}
RATE = {name: NOTIONS[notion].rates for name, notion in NOTION.items()}
_HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class Limit:
    """A floor or a ceiling: side, rate, group (None: all), number or "today"."""

    kind: str
    side: str
    rate: str
    group: int | None
    value: Any


@dataclass(frozen=True)
class Required:
    """Rows with known chances, and what is required of a rule for them."""

    chances: np.ndarray
    groups: np.ndarray
    clients: np.ndarray
    rate: str
    local: Any
    global_: Any
    costs: Any = None  # a pair, or a mapping of every client to its own
    limits: tuple[Limit, ...] = ()
    capacity: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def drawn(cls, seed: int) -> Required:
        """A small random problem; about one in ten cannot be met."""
        rng = np.random.default_rng(seed)
        n_groups, n_clients, n = int(rng.integers(2, 4)), int(rng.integers(1, 4)), int(rng.integers(20, 60))
        groups, clients = rng.permutation(n) % n_groups, rng.permutation(n) % n_clients
        tolerances = [None, 0.0, 0.05, 0.2, Ratio(0.8), Ratio(0.5), Ratio(1.0)]
        local, global_ = (tolerances[int(i)] for i in rng.integers(0, len(tolerances), 2))
        limits = []
        for kind, side in (("floor", "local"), ("floor", "global"), ("ceiling", "local"), ("ceiling", "global")):
            if rng.random() < 0.25:
                group = int(rng.integers(n_groups)) if rng.random() < 0.5 else None
                low = rng.random() * 0.6 if kind == "floor" else 0.2 + rng.random() * 0.8
                value = "today" if rng.random() < 0.4 else round(float(low), 2)
                limits.append(Limit(kind, side, str(rng.choice(list(NOTION))), group, value))
        shares = {
            side: round(float(0.1 + 0.8 * rng.random()), 2) for side in ("local", "global") if rng.random() < 0.25
        }
        return cls(
            np.round(rng.random(n), int(rng.integers(1, 4))),
            groups,
            clients,
            str(rng.choice(list(NOTION))),
            local,
            global_,
            (float(rng.choice([0.5, 1, 2])), float(rng.choice([0.3, 1, 3]))) if rng.random() < 0.5 else None,
            tuple(limits),
            {side: Exactly(share) if rng.random() < 0.3 else share for side, share in shares.items()},
        )

    def arguments(self) -> dict[str, Any]:
        """What :func:`logofair.fit` takes for it."""
        given: dict[str, Any] = {"notion": NOTION[self.rate], "costs": self.costs, "capacity": self.capacity or None}
        for kind in ("floor", "ceiling"):
            sides: dict[str, Any] = {}
            for limit in self.limits:
                if limit.kind == kind:
                    own = limit.value if limit.group is None else {limit.group: limit.value}
                    sides[limit.side] = {NOTION[limit.rate]: own}
            given[f"{kind}s"] = sides or None
        one = np.unique(self.clients).size == 1
        return given | {
            "groups": self.groups,
            "clients": None if one else self.clients,
            "local_tolerance": self.local,
            "global_tolerance": self.global_,
            "calibration": "none",
            "pooling": "none",
            "random_state": 0,
        }

    def least_cost(self) -> float | None:
        """The cost per row of the best rule, by a program over rows; None where there is no rule."""
        accepted, rejected = self._row_costs()
        n = self.chances.size
        worth = (accepted * (1 - self.chances) - rejected * self.chances) / n
        found = self._solved(worth, list(self._rows({})))
        return None if found is None else found + float((rejected * self.chances).mean())

    def _row_costs(self) -> np.ndarray:
        pairs = self.costs if isinstance(self.costs, dict) else dict.fromkeys(self.clients, self.costs or (1.0, 1.0))
        return np.array([pairs[client] for client in self.clients]).T

    def possible(self, only: Collection[str], giving: Mapping[str, float] | None = None) -> bool:
        """Whether the requirements of these names can be met together, some giving way by an amount."""
        rows = [row for row in self._rows(giving or {}) if row[2] in only]
        return self._solved(np.zeros(self.chances.size), rows) is not None

    def names(self) -> set[str]:
        """What the requirements are called."""
        return {name for _, _, name in self._rows({})}

    def _solved(self, worth: np.ndarray, rows: list[tuple[np.ndarray, float, str]]) -> float | None:
        matrix, limits = (np.array([row for row, _, _ in rows]), [end for _, end, _ in rows]) if rows else (None, None)
        found = linprog(worth, matrix, limits, bounds=(0, 1), method="highs", options=_HIGHS)
        assert found.status in (0, 2), found.message
        return None if found.status == 2 else float(found.fun)

    def _rows(self, giving: Mapping[str, float]) -> Iterator[tuple[np.ndarray, float, str]]:
        """Each as ``row @ chances of acceptance <= end``, with the name of the requirement it is of."""
        for client in [*np.unique(self.clients).tolist(), None]:
            where = "over all" if client is None else "inside clients"
            inside = np.ones(self.groups.size, bool) if client is None else self.clients == client
            yield from self._compared(inside, self.global_ if client is None else self.local, where, giving)
            for limit in self.limits:
                if limit.side == ("global" if client is None else "local"):
                    yield from self._limited(inside, limit, where, giving)
            share = self.capacity.get("global" if client is None else "local")
            if share is not None:
                selected, exact = inside / inside.sum(), isinstance(share, Exactly)
                share = share.share if exact else share
                most, least = (called(kind, where) for kind in ("most selected", "least selected"))
                yield selected, share + giving.get(most, 0.0), most
                if exact:
                    yield -selected, -share + giving.get(least, 0.0), least

    def _compared(self, inside: np.ndarray, tolerance: Any, where: str, giving: Mapping[str, float]) -> Any:
        rates = [rate for group in np.unique(self.groups) if (rate := self._rate(self.rate, inside, group)) is not None]
        kind = "ratio" if isinstance(tolerance, Ratio) else "tolerance"
        name = called(kind, where, RATE[self.rate])
        for one in rates if tolerance is not None else ():
            for other in rates:
                if one is not other and isinstance(tolerance, Ratio):
                    yield (tolerance.least - giving.get(name, 0.0)) * one - other, 0.0, name
                elif one is not other:
                    yield one - other, tolerance + giving.get(name, 0.0), name

    def _limited(self, inside: np.ndarray, limit: Limit, where: str, giving: Mapping[str, float]) -> Any:
        accepted, rejected = self._row_costs()
        today = ((accepted + rejected) * self.chances >= accepted).astype(float)
        name = called(limit.kind, where, RATE[limit.rate], limit.group)
        for group in np.unique(self.groups) if limit.group is None else [limit.group]:
            rate = self._rate(limit.rate, inside, group)
            if rate is not None:
                value = float(rate @ today) if limit.value == "today" else limit.value
                more = giving.get(name, 0.0)
                yield (-rate, -value + more, name) if limit.kind == "floor" else (rate, value + more, name)

    def _rate(self, rate: str, inside: np.ndarray, group: Any) -> np.ndarray | None:
        each = {"selection": np.ones(self.chances.size), "positives": self.chances, "negatives": 1 - self.chances}[rate]
        each = each * (inside & (self.groups == group))
        return each / each.sum() if each.sum() > 0 else None
