"""Requirements: which gaps must stay within which tolerances, inside every client and over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.columns.checks import Floats, Label, listed
from logofair.columns.labels import Codes, check_clients
from logofair.errors import InputError
from logofair.notions import NOTIONS, NotionLike, Rate, as_number, named_notion, sides

# Below this a tolerance is noise to a solver working in doubles, and is treated as 0.
SMALLEST_TOLERANCE = 1e-9
# Above this a tolerance for rates of the user's own, in whatever unit, overflows sooner than it binds.
LARGEST_TOLERANCE = 1e100


@dataclass(frozen=True)
class Requirement:
    """One rate whose gap must stay within a tolerance (``None``: free where not overridden)."""

    notion: str
    rate: Rate
    tolerance: float | None


@dataclass(frozen=True)
class Requirements:
    """Requirements inside each client and over all of them.

    ``tolerances`` is (clients, local requirements), infinity meaning free; ``client_tolerances`` are the single
    clients whose tolerance replaces that of the local requirements.
    """

    local: tuple[Requirement, ...]
    global_: tuple[Requirement, ...]
    tolerances: Floats
    client_tolerances: tuple[tuple[Label, float | None], ...] = ()

    def merged(self) -> Requirements:
        """The same for one client that holds all rows: local is global, and the smaller tolerance holds."""
        smallest: dict[Rate, Requirement] = {}
        for requirement in (*self.local, *self.global_):
            known = smallest.get(requirement.rate)
            if known is None or tolerance_of(requirement) < tolerance_of(known):
                smallest[requirement.rate] = requirement
        local = tuple(smallest.values())
        return Requirements(local, (), np.array([[tolerance_of(r) for r in local]]))

    def summary(self) -> str:
        """What must hold, in words."""
        return " ".join(requirement_sentences(self.as_dict()))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for files and reports."""
        sides = {
            side: [{"notion": r.notion, "rate": r.rate.name, "tolerance": r.tolerance} for r in items]
            for side, items in (("local", self.local), ("global", self.global_))
        }
        return sides | {"single clients": [{"client": str(name), "tolerance": t} for name, t in self.client_tolerances]}


def requirement_sentences(required: Mapping[str, Any], local: str = "", *, place: str = "client") -> Iterator[str]:
    """Say what must hold, given what ``as_dict`` returns; ``local`` is where the local requirements hold.

    One client has no global side (:meth:`Requirements.merged`), so there is no place to name. ``place`` is what
    participants are called.
    """
    tolerances: dict[tuple[str, str, float], list[str]] = {}
    inside = f"{local or f'Inside each {place}'}, the" if required["global"] else "The"
    for where, items in ((inside, required["local"]), (f"Over all {place}s, the", required["global"])):
        for item in items:
            if item["tolerance"] is not None:
                tolerances.setdefault((where, item["notion"], item["tolerance"]), []).append(item["rate"])
    for (where, notion, tolerance), rates in tolerances.items():
        differ = "differs" if len(rates) == 1 else "differ"
        named = notion.replace("_", " ") if notion in NOTIONS else notion
        the_rates = " and the ".join(rates)
        yield f"{where} {the_rates} of any two groups {differ} by at most {tolerance:g} ({named})."
    own = [(item["client"], item["tolerance"]) for item in required["single clients"]]
    single = [f"{client} {'free' if tolerance is None else f'at most {tolerance:g}'}" for client, tolerance in own]
    if single:
        start = "In place of that, the" if tolerances else "The"
        yield f"{start} gap at single {place}s: {listed(single, len(single))}."
    elif not tolerances:
        yield "Nothing: every gap is free."


def compared_rates(requirements: Iterable[Requirement]) -> tuple[Rate, ...]:
    """The rates of some requirements, each once."""
    return tuple(dict.fromkeys(requirement.rate for requirement in requirements))


def make_requirements(
    notion: object,
    local_tolerance: object,
    global_tolerance: object,
    client_tolerances: Mapping[Label, float | None] | None,
    clients: Codes,
) -> Requirements:
    """Read the user's notion and tolerances; ``clients`` is that of :func:`one_client` where there are none."""
    local_notion, global_notion = sides(notion)
    local = side_requirements(local_notion, local_tolerance, "local")
    global_ = side_requirements(global_notion, global_tolerance, "global")
    tolerances = np.tile([tolerance_of(r) for r in local], (len(clients.names), 1))
    single = _overrides(client_tolerances, clients, of_shares=all(r.rate.is_share for r in local))
    place = {name: i for i, name in enumerate(clients.names)} if single else {}
    for name, tolerance in single.items():
        tolerances[place[name]] = np.inf if tolerance is None else tolerance
    requirements = Requirements(local, global_, tolerances, tuple(single.items()))
    if len(clients.names) == 1:
        # One client makes local and global the same; a single program is solved faster than two sides.
        alone = tuple(Requirement(r.notion, r.rate, _finite(t)) for r, t in zip(local, tolerances[0], strict=True))
        return Requirements(alone, global_, tolerances).merged()
    return requirements


def _overrides(client_tolerances: object, clients: Codes, *, of_shares: bool) -> dict[Label, float | None]:
    """Check the tolerances of single clients."""
    if client_tolerances is None:
        return {}
    if not isinstance(client_tolerances, Mapping):
        raise InputError(f"client_tolerances: got {client_tolerances!r}; pass a mapping from client to tolerance.")
    if client_tolerances and clients.names == (None,):
        raise InputError("client_tolerances: names clients, but clients= is missing; pass the client of each row.")
    check_clients(client_tolerances, clients, "client_tolerances")
    return {
        name: check_tolerance(tolerance, f"client_tolerances: client {name!r}", of_shares=of_shares)
        for name, tolerance in client_tolerances.items()
    }


def tolerance_of(requirement: Requirement) -> float:
    """The tolerance as a number: infinity where the rate is free."""
    return np.inf if requirement.tolerance is None else requirement.tolerance


def _finite(tolerance: float) -> float | None:
    return float(tolerance) if np.isfinite(tolerance) else None


def check_tolerance(tolerance: object, where: str, *, of_shares: bool = False) -> float | None:
    """Return a tolerance as a float of at least 0, or None; raise otherwise.

    ``of_shares`` says that the rates lie between 0 and 1, so that a tolerance of 1 would require nothing; rates of the
    user's own may be counted in anything, up to numbers with which nothing can be computed.
    """
    if tolerance is None:
        return None
    value = as_number(tolerance)
    if np.isnan(value):
        raise InputError(f"{where}: a tolerance is a number from 0 to 1, or None for no constraint; got {tolerance!r}.")
    if not np.isfinite(value) or value < 0:
        raise InputError(
            f"{where}: a tolerance must be finite and at least 0, got {value!r}; use None for no constraint."
        )
    if of_shares and value >= 1.0:
        raise InputError(
            f"{where}: got {value:g}; rates lie between 0 and 1, so a tolerance is below 1: write 0.02 for 2 percent, "
            "or None for no constraint."
        )
    if value > LARGEST_TOLERANCE:
        raise InputError(f"{where}: got {value:g}, which no gap exceeds; use None for no constraint.")
    return 0.0 if value < SMALLEST_TOLERANCE else value


def side_requirements(notion: NotionLike, tolerance: object, where: str) -> tuple[Requirement, ...]:
    """Spell one side's notion and tolerance out as requirements on single rates.

    A mapping carries its own tolerances, one per notion; ``tolerance`` then only says whether the side
    is constrained at all (``None``: it is not).
    """
    if isinstance(notion, Mapping):
        if not notion:
            raise InputError(f"notion: the mapping for the {where} side is empty; name at least one notion.")
        default = check_tolerance(tolerance, f"{where}_tolerance")
        named = [(named_notion(key, "notion"), t, f"notion: {where} tolerance of {key!r}") for key, t in notion.items()]
        pairs = [(item, check_tolerance(t, what, of_shares=item.of_shares)) for item, t, what in named]
    else:
        item = named_notion(notion, "notion")
        default = check_tolerance(tolerance, f"{where}_tolerance", of_shares=item.of_shares)
        pairs = [(item, default)]
    return tuple(
        Requirement(item.name, rate, None if default is None else own) for item, own in pairs for rate in item.rates
    )
