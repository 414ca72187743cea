"""The promise: which gaps must stay within which tolerances, for every client and across all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.cells import Cells
from logofair.inputs import Codes, Floats, InputError, Label, nearest_name
from logofair.notions import Rate, Requirement, check_tolerance, requirements, sides
from logofair.solvers.problem import Problem


@dataclass(frozen=True)
class Promise:
    """Requirements inside each client and across all; ``tolerances`` is (clients, local requirements), inf: free."""

    local: tuple[Requirement, ...]
    shared: tuple[Requirement, ...]
    tolerances: Floats

    def problem(self, cells: Cells) -> Problem:
        """The optimisation problem on given cells; sides that are nowhere constrained are left out."""
        local = [k for k in range(len(self.local)) if np.isfinite(self.tolerances[:, k]).any()]
        shared = [r for r in self.shared if r.tolerance is not None]
        return Problem(
            cells=cells,
            local_rates=tuple(self.local[k].rate for k in local),
            global_rates=tuple(r.rate for r in shared),
            local_tolerance=self.tolerances[:, local],
            global_tolerance=np.array([r.tolerance for r in shared], dtype=np.float64),
        )

    def merged(self) -> Promise:
        """The same promise for one client that holds all rows: local is global, and the smaller tolerance holds."""
        smallest: dict[Rate, Requirement] = {}
        for requirement in (*self.local, *self.shared):
            known = smallest.get(requirement.rate)
            if known is None or _bound(requirement) < _bound(known):
                smallest[requirement.rate] = requirement
        local = tuple(smallest.values())
        return Promise(local, (), np.array([[_bound(r) for r in local]]))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for files and reports."""
        return {
            side: [{"notion": r.notion, "rate": r.rate.name, "tolerance": r.tolerance} for r in items]
            for side, items in (("local", self.local), ("global", self.shared))
        }


def make_promise(
    notion: object,
    local_tolerance: object,
    global_tolerance: object,
    client_tolerances: Mapping[Label, float | None] | None,
    clients: Codes,
    has_clients: bool,
) -> Promise:
    """Read the user's notion and tolerances."""
    local_notion, global_notion = sides(notion)
    local = requirements(local_notion, local_tolerance, "local")
    shared = requirements(global_notion, global_tolerance, "global")
    tolerances = np.tile([_bound(r) for r in local], (len(clients.names), 1))
    for name, place, tolerance in _overrides(client_tolerances, clients, has_clients):
        tolerances[place] = np.inf if tolerance is None else tolerance
        del name
    promise = Promise(local, shared, tolerances)
    if len(clients.names) == 1:
        # One client makes local and global the same; a single program is solved faster than two sides.
        single = tuple(Requirement(r.notion, r.rate, _finite(t)) for r, t in zip(local, tolerances[0], strict=True))
        return Promise(single, shared, tolerances).merged()
    return promise


def _overrides(client_tolerances: object, clients: Codes, has_clients: bool) -> list[tuple[Label, int, float | None]]:
    """Check the tolerances of single clients; the place of each."""
    if client_tolerances is None:
        return []
    if not isinstance(client_tolerances, Mapping):
        raise InputError(f"client_tolerances: got {client_tolerances!r}; pass a mapping from client to tolerance.")
    if client_tolerances and not has_clients:
        raise InputError("client_tolerances: names clients, but clients= is missing; pass the client of each row.")
    place = {name: i for i, name in enumerate(clients.names)}
    found = []
    for name, tolerance in client_tolerances.items():
        if name not in place:
            raise InputError(
                f"client_tolerances: names client {name!r}, which has no rows{nearest_name(name, place)}; "
                f"there are {len(place)} clients, the first is {clients.names[0]!r}."
            )
        found.append((name, place[name], check_tolerance(tolerance, f"client_tolerances: client {name!r}")))
    return found


def _bound(requirement: Requirement) -> float:
    return np.inf if requirement.tolerance is None else requirement.tolerance


def _finite(tolerance: float) -> float | None:
    return float(tolerance) if np.isfinite(tolerance) else None
