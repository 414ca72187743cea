"""The smallest gaps at a given cost: a common factor on their limits, searched by certified solves.

Looser limits on gaps allow every rule that tighter ones do, so the factors at which some rule meets all requirements
are those from one on. It is searched in steps of 1e-4, and the step below it is proved to be too small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from logofair.columns.checks import nearest_name, shown
from logofair.errors import InfeasibleError, InputError
from logofair.fitting.solving import FitSettings, Prepared, certified
from logofair.requirement import TODAY, Requirement
from logofair.requirements import Requirements
from logofair.solvers.joint import conflict_of
from logofair.solvers.problem import make_problem

OBJECTIVES = ("accuracy", "gap")
_STEPS = 10_000  # of a factor of 1
_LOOSEST = 0.99  # to which a limit on the gap of shares is loosened at most: at 1 it would require nothing


@dataclass(frozen=True)
class LeastGap:
    """By how much the limits on gaps were tightened or loosened together, and the proof that less is not possible.

    Attributes
    ----------
    factor : float
        What every limit on a gap was multiplied by.
    below : float or None
        The factor a step of 0.0001 below, at which no rule meets all requirements; None: the factor is 0.
    proof : str
        Which requirements conflict there.
    """

    factor: float
    below: float | None
    proof: str


def check_objective(objective: object, requirements: Requirements) -> bool:
    """Whether gaps are to be as small as possible; raise where that cannot be meant."""
    if not isinstance(objective, str) or objective not in OBJECTIVES:
        hint = nearest_name(objective, OBJECTIVES)
        raise InputError(f"objective: got {shown(objective)}{hint}; use one of {', '.join(OBJECTIVES)}.")
    if objective != "gap":
        return False
    if not any(item.is_loss for item in requirements.items):
        loss = "accuracy loss" if requirements.costs is None else "cost loss"
        raise InputError(f"objective: 'gap' needs to know what it may cost; require '{loss} <= 0.01 overall', say.")
    if any(item.is_loss_inside for item in requirements.items):
        raise InputError(
            "objective: 'gap' changes the limits that a site's loss is counted from, so the loss says nothing; "
            "require the loss overall, or 'from unconstrained'."
        )
    if not any(map(_is_scaled, requirements.items)):
        raise InputError(
            "objective: 'gap' needs limits on gaps to multiply; pass notion= or a tolerance, or require some."
        )
    if all(item.bound == 0.0 for item in requirements.items if _is_scaled(item)):
        raise InputError("objective: 'gap' multiplies the limits on gaps, which are all 0; pass limits above 0.")
    return True


def least_gap(prepared: Prepared, requirements: Requirements, settings: FitSettings) -> tuple[Requirements, LeastGap]:
    """The requirements with the tightest limits on gaps that some rule meets, all multiplied by one factor.

    All others stay as they are.

    Raises
    ------
    InfeasibleError
        Where no factor would do.
    """
    given, cells = requirements, prepared.cells

    def possible(steps: int) -> bool:
        try:
            certified(make_problem(scaled(given, steps / _STEPS), cells), settings.basis)
        except InfeasibleError:
            return False
        return True

    most = max(int(_LOOSEST / bound * _STEPS) for bound in _bounds(given))
    found = _first(possible, most)
    if found is None:
        raise conflict_of(scaled(given, most / _STEPS), cells)
    if found == 0:
        return scaled(given, 0.0), LeastGap(0.0, None, "")
    below = (found - 1) / _STEPS
    proof = str(conflict_of(scaled(given, below), cells))
    return scaled(given, found / _STEPS), LeastGap(found / _STEPS, below, proof)


def scaled(requirements: Requirements, factor: float) -> Requirements:
    """Requirements with all limits on gaps multiplied."""

    def one(item: Requirement) -> Requirement:
        if not _is_scaled(item):
            return item
        bound = float(item.bound) * factor  # type: ignore[arg-type]
        shares = all(rate.is_share for rate in item.rates)
        return replace(item, bound=float(f"{min(bound, _LOOSEST) if shares else bound:.9g}"))

    return replace(requirements, items=tuple(dict.fromkeys(map(one, requirements.items))))


def _first(possible: Callable[[int], bool], most: int) -> int | None:
    """The first number of steps that is possible, all beyond being possible as well; None: none up to the most."""
    low, high = -1, min(_STEPS, most)
    while not possible(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    if low < 0 and possible(0):
        return 0
    low = max(low, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if possible(middle) else (middle, high)
    return high


def _is_scaled(item: Requirement) -> bool:
    """Whether a requirement is a limit on a gap, in a number."""
    return item.measure == "gap" and item.bound != TODAY


def _bounds(requirements: Requirements) -> list[float]:
    """The limits on gaps that are above 0."""
    return [float(item.bound) for item in requirements.items if _is_scaled(item) and item.bound]  # type: ignore[arg-type]
