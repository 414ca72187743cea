"""Where the knee is: the tolerances after which a further one buys less accuracy than it did on average.

Every point has regained some share of the accuracy that parity costs, and has given away some share of the tolerance
(its mean over both sides, each counted from the strictest of the grid to where it stops binding). The knee is the point
whose first share leads the second by most. Along one side that is the largest distance above the chord, and, the value
being concave, the place where the price of tolerance falls below its average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.frontier.grid import Tolerances
from logofair.frontier.point import Point, named
from logofair.inputs import Floats

__all__ = ["Knee", "find_knee", "given_away"]

# Less than this between the strictest and the loosest point (0.1 percentage points) is nothing to trade.
_FLAT = 1e-3
# A lead below this is a straight line for all practical purposes.
_STRAIGHT = 0.05


@dataclass(frozen=True)
class Knee:
    """The suggested point, how far it leads (0: not at all, 1: everything for nothing), and a sentence.

    ``point`` is None where accuracy rises evenly with tolerance, so that no point stands out.

    Examples
    --------
    >>> from logofair.frontier import frontier
    >>> surface = frontier([0.9, 0.6, 0.4, 0.2], None, groups=["a", "b", "a", "b"], calibration="none")
    >>> print(surface.knee.sentence)
    Even the strictest point (global 0) costs nothing: there is nothing to trade.
    """

    point: Point | None
    lead: float
    sentence: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        at = self.point
        return {
            "local_tolerance": None if at is None else at.local_tolerance,
            "global_tolerance": None if at is None else at.global_tolerance,
            "found": at is not None,
            "lead": self.lead,
            "sentence": self.sentence,
        }


def given_away(local: Tolerances, shared: Tolerances, gaps: tuple[float | None, float | None]) -> Floats:
    """Share of the tolerance that each point gives away, (local, global); 0: the strictest, 1: nothing binds.

    ``gaps`` are the unconstrained rule's; a side with a single tolerance does not count.
    """
    sides = [_shares(each, gap) for each, gap in zip((local, shared), gaps, strict=True)]
    moving = [len(local) > 1, len(shared) > 1]
    total = moving[0] * sides[0][:, None] + moving[1] * sides[1][None, :]
    return np.asarray(total / max(sum(moving), 1))


def _shares(tolerances: Tolerances, gap: float | None) -> Floats:
    """How far each tolerance is from the first to where its side stops binding."""
    first = tolerances[0] if tolerances[0] is not None else np.inf
    stop = max([gap or 0.0, *(t for t in tolerances[:1] if t is not None)])
    if stop <= first:
        return np.array([0.0 if i == 0 else 1.0 for i in range(len(tolerances))])
    return np.array([1.0 if t is None else min((t - first) / (stop - first), 1.0) for t in tolerances])


def find_knee(points: Sequence[Point], given: Floats) -> Knee:
    """The point that leads most; the strictest where nothing is lost, none where accuracy rises evenly."""
    accuracy = np.array([point.accuracy for point in points])
    given, strictest = given.ravel(), points[0]
    rise, one_side = float(accuracy.max() - accuracy[0]), all(point.local_tolerance is None for point in points)
    if rise < _FLAT:
        cost = "nothing" if rise < 5e-6 else f"only {100 * rise:.3f} percentage points of accuracy"
        where = _tolerances(strictest, one_side)
        return Knee(strictest, 0.0, f"Even the strictest point ({where}) costs {cost}: there is nothing to trade.")
    lead = (accuracy - accuracy[0]) / rise - given
    best = int(np.argmax(lead))
    if lead[best] < _STRAIGHT:
        sentence = "Accuracy rises evenly with tolerance: no point of the grid stands out."
        return Knee(None, max(float(lead[best]), 0.0), sentence)
    regained = float((accuracy[best] - accuracy[0]) / rise)
    return Knee(points[best], float(lead[best]), _sentence(points[best], regained, one_side))


def _sentence(point: Point, regained: float, one_side: bool) -> str:
    return (
        f"The knee is at {_tolerances(point, one_side)}: accuracy {100 * point.accuracy:.2f} %, "
        f"{100 * max(point.loss, 0.0):.2f} points below the unconstrained rule; it has regained "
        f"{100 * regained:.0f} % of what the strictest point loses, and more tolerance wins less than it did so far."
    )


def _tolerances(point: Point, one_side: bool) -> str:
    local = "" if one_side else f"local {named(point.local_tolerance)}, "
    return f"{local}global {named(point.global_tolerance)}"
