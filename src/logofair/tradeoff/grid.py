"""Which tolerances to try: the user's, or a grid from parity to where each side stops binding."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from logofair.errors import InputError
from logofair.notions import as_number
from logofair.requirements import check_tolerance

MEASURES = ("gap", "ratio")


@dataclass(frozen=True)
class Ratio:
    """A tolerance as a ratio: the smallest rate is at least this share of the largest."""

    least: float

    def __str__(self) -> str:
        return f"ratio {self.least:g}"


Tolerance: TypeAlias = float | Ratio | None
Tolerances: TypeAlias = tuple[Tolerance, ...]

_BETWEEN = 6  # default tolerances between parity and the unconstrained rule's gap
_NOTHING = 1e-6  # a gap below this leaves nothing to trade
_MOST_POINTS = 10_000
_RATIOS = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)  # the default beside a chosen ratio

Pair: TypeAlias = tuple[Tolerance, Tolerance]


def slack(tolerance: float | Ratio) -> float:
    """How far a tolerance is from parity: a gap as it is, of a ratio what it lacks to 1."""
    return 1.0 - tolerance.least if isinstance(tolerance, Ratio) else tolerance


def has_ratios(tolerances: Tolerances) -> bool:
    """Whether a side's tolerances are ratios; a grid has these or gaps."""
    return any(isinstance(each, Ratio) for each in tolerances)


@dataclass(frozen=True)
class Grid:
    """The tolerances asked for on each side (None: the default), and the pair to have among them, if any.

    ``alone``: a single site, for which local and global are the same; the default is then the global side alone.
    """

    local: Tolerances | None
    global_: Tolerances | None
    chosen: Pair | None
    alone: bool

    @classmethod
    def of(cls, local: object, global_: object, chosen: object, measure: str, *, alone: bool) -> Grid:
        """Check the lists and the pair."""
        if measure not in MEASURES:
            raise InputError(f"measure: got {measure!r}; use one of {', '.join(MEASURES)}.")
        pair: Pair | None = None
        if chosen is not None:
            if not isinstance(chosen, tuple | list) or len(chosen) != 2:
                raise InputError(f"chosen: got {chosen!r}; pass a pair (local tolerance, global tolerance).")
            pair = _tolerance(chosen[0], "chosen: local", measure), _tolerance(chosen[1], "chosen: global", measure)
        lists = tuple(
            None if each is None else read_grid(each, where, measure)
            for each, where in ((local, "local_tolerances"), (global_, "global_tolerances"))
        )
        if pair is not None and alone and lists[0] is None:
            pair = (None, min((each for each in pair if each is not None), key=slack, default=None))
        if measure == "ratio":
            nothing = pair is None and lists == (None, None)
            wanted = [
                not alone and pair is not None and pair[0] is not None,
                nothing or (pair is not None and pair[1] is not None),
            ]
            usual = (*map(Ratio, _RATIOS), None)
            lists = tuple(
                each if each is not None else usual if asked else (None,)
                for each, asked in zip(lists, wanted, strict=True)
            )
        grid = cls(lists[0], lists[1], pair, alone)
        size = math.prod(len(each or ()) for each in lists)
        if size > _MOST_POINTS:
            raise InputError(f"local_tolerances: the grid has {size:,} points; pass at most {_MOST_POINTS:,}.")
        return grid

    def filled(self, local_gap: float | None, global_gap: float | None) -> tuple[Tolerances, Tolerances]:
        """The tolerances of both sides, given the gaps of the unconstrained rule."""
        local, global_ = self.local, self.global_
        if local is None:
            local = (None,) if self.alone else default_grid(local_gap)
        if global_ is None:
            global_ = default_grid(global_gap)
        if self.chosen is None:
            return local, global_
        return _sorted({*local, self.chosen[0]}), _sorted({*global_, self.chosen[1]})


def _tolerance(given: object, where: str, measure: str) -> Tolerance:
    if measure == "gap" or given is None:
        return check_tolerance(given, where, of_shares=False)
    if not 0.0 < as_number(given) <= 1.0:
        raise InputError(f"{where}: got {given!r}; a ratio of rates is above 0 and at most 1, such as 0.8.")
    return Ratio(as_number(given))


def read_grid(tolerances: object, where: str, measure: str = "gap") -> Tolerances:
    """Check a list of tolerances; return the strictest first without repetition, None (not constrained) last.

    Examples
    --------
    >>> read_grid([None, 0.1, 0, 0.1], "local_tolerances")
    (0.0, 0.1, None)
    >>> read_grid([0.8, 0.9], "local_tolerances", "ratio")
    (Ratio(least=0.9), Ratio(least=0.8))
    """
    if isinstance(tolerances, str | bytes) or not isinstance(tolerances, Iterable):
        raise InputError(f"{where}: got {tolerances!r}; pass a list of tolerances such as [0, 0.01, 0.05, None].")
    checked = {_tolerance(each, where, measure) for each in tolerances}
    if not checked:
        raise InputError(f"{where}: the list is empty; pass at least one tolerance, or leave it out.")
    return _sorted(checked)


def _sorted(tolerances: set[Tolerance]) -> Tolerances:
    """The strictest first, None last."""
    bound = [each for each in tolerances if each is not None]
    return (*sorted(bound, key=slack), *([None] if None in tolerances else []))


def default_grid(gap: float | None) -> Tolerances:
    """Tolerances from parity to the unconstrained rule's gap, where a side stops binding, and None.

    In between stand the six largest of 1, 2, 5, 10, ... (in units of any power of ten), so that neighbours
    differ by a factor of about two. The gap itself is rounded up to two digits; where that is all that shares can
    differ by, 1, None says the same.

    Examples
    --------
    >>> default_grid(0.1774)
    (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.18, None)
    >>> default_grid(1.0)
    (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, None)
    >>> default_grid(0.0)
    (0.0, None)
    """
    if gap is None or gap < _NOTHING:
        return 0.0, None
    power = math.floor(math.log10(gap))
    multiple = math.ceil(gap / 10.0 ** (power - 1))
    last = float(f"{multiple}e{power - 1}")
    last = last if last >= gap else float(f"{multiple + 1}e{power - 1}")
    steps = [float(f"{digit}e{power - k}") for k in range(_BETWEEN) for digit in (5, 2, 1)]
    between = [step for step in steps if step < 0.95 * gap][:_BETWEEN]
    return 0.0, *sorted(between), *([] if last == 1.0 else [last]), None
