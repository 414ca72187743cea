"""Random requirements of every kind, and their optimum as one linear program with a variable for every row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linprog

from logofair import Exactly, Ratio

NOTION = {"selection": "demographic_parity", "positives": "equal_opportunity", "negatives": "predictive_equality"}
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
    costs: tuple[float, float] | None = None
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
            "merged": False,
            "random_state": 0,
        }

    def least_cost(self) -> float | None:
        """The cost per row of the best rule, by a program over rows; None where there is no rule."""
        accepted, rejected = self.costs or (1.0, 1.0)
        n = self.chances.size
        worth = (accepted * (1 - self.chances) - rejected * self.chances) / n
        rows = list(self._rows())
        matrix, limits = (np.array([row for row, _ in rows]), [end for _, end in rows]) if rows else (None, None)
        found = linprog(worth, matrix, limits, bounds=(0, 1), method="highs", options=_HIGHS)
        assert found.status in (0, 2), found.message
        return None if found.status == 2 else float(found.fun + rejected * self.chances.mean())

    def _rows(self) -> Any:
        for client in [*np.unique(self.clients).tolist(), None]:
            side = "global" if client is None else "local"
            inside = np.ones(self.groups.size, bool) if client is None else self.clients == client
            yield from self._compared(inside, self.global_ if client is None else self.local)
            for limit in self.limits:
                if limit.side == side:
                    yield from self._limited(inside, limit)
            share = self.capacity.get(side)
            if share is not None:
                selected = inside / inside.sum()
                yield selected, share.share if isinstance(share, Exactly) else share
                if isinstance(share, Exactly):
                    yield -selected, -share.share

    def _compared(self, inside: np.ndarray, tolerance: Any) -> Any:
        rates = [rate for group in np.unique(self.groups) if (rate := self._rate(self.rate, inside, group)) is not None]
        for one in rates if tolerance is not None else ():
            for other in rates:
                if one is not other and isinstance(tolerance, Ratio):
                    yield tolerance.least * one - other, 0.0
                elif one is not other:
                    yield one - other, tolerance

    def _limited(self, inside: np.ndarray, limit: Limit) -> Any:
        accepted, rejected = self.costs or (1.0, 1.0)
        today = ((accepted + rejected) * self.chances >= accepted).astype(float)
        for group in np.unique(self.groups) if limit.group is None else [limit.group]:
            rate = self._rate(limit.rate, inside, group)
            if rate is not None:
                value = float(rate @ today) if limit.value == "today" else limit.value
                yield (-rate, -value) if limit.kind == "floor" else (rate, value)

    def _rate(self, rate: str, inside: np.ndarray, group: Any) -> np.ndarray | None:
        each = {"selection": np.ones(self.chances.size), "positives": self.chances, "negatives": 1 - self.chances}[rate]
        each = each * (inside & (self.groups == group))
        return each / each.sum() if each.sum() > 0 else None
