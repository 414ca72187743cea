"""Which tolerances to try: the user's, or a grid from parity to where each side stops binding."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from logofair.errors import InputError
from logofair.requirements import Ratio, Tolerance, check_tolerance

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
    def of(cls, local: object, global_: object, chosen: object, *, alone: bool) -> Grid:
        """Check the lists and the pair."""
        pair = _pair(chosen)
        lists = tuple(
            None if each is None else read_grid(each, where)
            for each, where in ((local, "local_tolerances"), (global_, "global_tolerances"))
        )
        if pair is not None and alone and lists[0] is None:
            pair = (None, min((each for each in pair if each is not None), key=slack, default=None))
        if alone and len({has_ratios(each) for each in lists if each is not None and each != (None,)}) > 1:
            raise InputError(
                "local_tolerances: for one site both sides are the same; pass gaps or ratios, not one on each side."
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
        return _with(local, self.chosen[0], given=self.local is not None), _with(
            global_, self.chosen[1], given=self.global_ is not None
        )


def _with(tolerances: Tolerances, chosen: Tolerance, *, given: bool) -> Tolerances:
    """One side with the chosen tolerance; where that is a ratio and no grid was asked for, a grid of ratios."""
    if isinstance(chosen, Ratio) and not given and not has_ratios(tolerances):
        tolerances = (*map(Ratio, _RATIOS), None) if tolerances != (None,) else tolerances
    return read_grid([*tolerances, chosen], "chosen")


def _pair(chosen: object) -> Pair | None:
    """Check a pair of tolerances."""
    if chosen is None:
        return None
    if not isinstance(chosen, tuple | list) or len(chosen) != 2:
        raise InputError(f"chosen: got {chosen!r}; pass a pair (local tolerance, global tolerance).")
    first, second = (
        _tolerance(each, f"chosen: {side}") for each, side in zip(chosen, ("local", "global"), strict=True)
    )
    return first, second


def _tolerance(given: object, where: str) -> Tolerance:
    return given if isinstance(given, Ratio) else check_tolerance(given, where)


def read_grid(tolerances: object, where: str) -> Tolerances:
    """Check a list of tolerances; return the strictest first without repetition, None (not constrained) last.

    Gaps or ratios: one cannot be said to be stricter than the other.

    Examples
    --------
    >>> read_grid([None, 0.1, 0, 0.1], "local_tolerances")
    (0.0, 0.1, None)
    >>> read_grid([Ratio(0.8), Ratio(0.9)], "local_tolerances")
    (Ratio(least=0.9), Ratio(least=0.8))
    """
    if isinstance(tolerances, str | bytes) or not isinstance(tolerances, Iterable):
        raise InputError(f"{where}: got {tolerances!r}; pass a list of tolerances such as [0, 0.01, 0.05, None].")
    checked = {_tolerance(each, where) for each in tolerances}
    if not checked:
        raise InputError(f"{where}: the list is empty; pass at least one tolerance, or leave it out.")
    bound = [each for each in checked if each is not None]
    if len({isinstance(each, Ratio) for each in bound}) > 1:
        raise InputError(f"{where}: has gaps and ratios, of which none is the stricter; pass one kind on a side.")
    return (*sorted(bound, key=slack), *([None] if None in checked else []))


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
    last = _rounded_up(gap, power - 1)
    steps = [float(f"{digit}e{power - k}") for k in range(_BETWEEN) for digit in (5, 2, 1)]
    between = [step for step in steps if step < 0.95 * gap][:_BETWEEN]
    return 0.0, *sorted(between), *([] if last == 1.0 else [last]), None


def _rounded_up(value: float, power: int) -> float:
    """The next multiple of a power of ten that is not below the value."""
    multiple = math.ceil(value / 10.0**power)
    rounded = float(f"{multiple}e{power}")
    return rounded if rounded >= value else float(f"{multiple + 1}e{power}")
