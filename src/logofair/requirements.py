"""The promise: which gaps must stay within which tolerances, for every client and across all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.cells.cells import Cells
from logofair.columns.checks import Floats, InputError, Label, nearest_name
from logofair.columns.labels import Codes
from logofair.notions import Rate, Requirement, check_tolerance, requirements, sides
from logofair.solvers.problem import Problem, Whole


@dataclass(frozen=True)
class Promise:
    """Requirements inside each client and across all.

    ``tolerances`` is (clients, local requirements), infinity meaning free; ``overrides`` are the single clients whose
    tolerance replaces that of the local requirements.
    """

    local: tuple[Requirement, ...]
    shared: tuple[Requirement, ...]
    tolerances: Floats
    overrides: tuple[tuple[Label, float | None], ...] = ()

    def problem(self, cells: Cells, whole: Whole | None = None) -> Problem:
        """The optimisation problem on given cells; global requirements that are free are left out.

        So are local ones that are free at all of these clients. ``whole``: the totals, where the cells are a part.
        """
        local = [k for k in range(len(self.local)) if np.isfinite(self.tolerances[:, k]).any()]
        shared = [r for r in self.shared if r.tolerance is not None]
        inside = [self.local[k].rate.normalised() for k in local]
        across = [r.rate.normalised() for r in shared]
        return Problem(
            cells=cells,
            local_rates=tuple(rate for rate, _ in inside),
            global_rates=tuple(rate for rate, _ in across),
            local_tolerance=self.tolerances[:, local] * np.array([unit for _, unit in inside]),
            global_tolerance=np.array([_bound(r) * unit for r, (_, unit) in zip(shared, across, strict=True)]),
            local_units=np.array([unit for _, unit in inside]),
            global_units=np.array([unit for _, unit in across]),
            whole=whole,
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
        sides = {
            side: [{"notion": r.notion, "rate": r.rate.name, "tolerance": r.tolerance} for r in items]
            for side, items in (("local", self.local), ("global", self.shared))
        }
        return sides | {"single clients": [{"client": str(name), "tolerance": t} for name, t in self.overrides]}


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
    single = _overrides(client_tolerances, clients, has_clients)
    place = {name: i for i, name in enumerate(clients.names)} if single else {}
    for name, tolerance in single.items():
        tolerances[place[name]] = np.inf if tolerance is None else tolerance
    promise = Promise(local, shared, tolerances, tuple(single.items()))
    if len(clients.names) == 1:
        # One client makes local and global the same; a single program is solved faster than two sides.
        alone = tuple(Requirement(r.notion, r.rate, _finite(t)) for r, t in zip(local, tolerances[0], strict=True))
        return Promise(alone, shared, tolerances).merged()
    return promise


def _overrides(client_tolerances: object, clients: Codes, has_clients: bool) -> dict[Label, float | None]:
    """Check the tolerances of single clients."""
    if client_tolerances is None:
        return {}
    if not isinstance(client_tolerances, Mapping):
        raise InputError(f"client_tolerances: got {client_tolerances!r}; pass a mapping from client to tolerance.")
    if client_tolerances and not has_clients:
        raise InputError("client_tolerances: names clients, but clients= is missing; pass the client of each row.")
    known = set(clients.names)
    for name in client_tolerances:
        if name not in known:
            raise InputError(
                f"client_tolerances: names client {name!r}, which has no rows{nearest_name(name, known)}; "
                f"there are {len(known)} clients, the first is {clients.names[0]!r}."
            )
    return {
        name: check_tolerance(tolerance, f"client_tolerances: client {name!r}")
        for name, tolerance in client_tolerances.items()
    }


def _bound(requirement: Requirement) -> float:
    return np.inf if requirement.tolerance is None else requirement.tolerance


def _finite(tolerance: float) -> float | None:
    return float(tolerance) if np.isfinite(tolerance) else None
