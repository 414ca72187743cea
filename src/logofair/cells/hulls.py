"""Convex hulls of cells whose values do not rise with the score: labels counted as they are.

"Accept from some score up" and "accept up to some score" are two families of points (u, v) in each cell. With
calibrated chances the first family is the polygon's upper edge. With labels it need not be: where a cell's labels
happen to fall with the score, accepting the lowest scores is better than accepting the highest. The upper edge is then
the hull of both.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices, pool_starts

# Corners of the second family count only where they lie above the first by more than rounding.
_ABOVE = 1e-10


@dataclass(frozen=True)
class HullCorners:
    """Corners of cells' edges, one entry each, sorted by cell and rising u.

    ``cut`` counts the score levels below the corner's threshold; ``reversed`` corners accept those.
    """

    cell: Indices
    cut: Indices
    reversed: Booleans
    u: Floats
    v: Floats

    def take(self, which: Indices | Booleans) -> HullCorners:
        """Some of them."""
        return HullCorners(*(getattr(self, part.name)[which] for part in fields(self)))

    def and_also(self, more: HullCorners) -> HullCorners:
        """Both together."""
        return HullCorners(*(np.concatenate([getattr(self, f.name), getattr(more, f.name)]) for f in fields(self)))


def upper_hull(
    starts: Indices, mass: Floats, values: Floats, mass_below: Floats, positives_below: Floats
) -> HullCorners:
    """Upper hull of every cell from its score levels and their running sums, laid out as in ``Cells``.

    Its corners come by falling u, from "accept all" down to "accept nobody".
    """
    sizes = np.diff(starts)
    cell = np.repeat(np.arange(sizes.size), sizes)
    families = []
    for low_scores in (False, True):
        blocks = pool_starts(values, mass, cell, rising=not low_scores)
        families.append(_corners(blocks, cell, starts, mass_below, positives_below, low_scores))
    top, bottom = families
    if top.u.size:  # without any rows there is no edge to be above
        # Both have corners at 0 and 1 in every cell.
        height = np.interp(2.0 * bottom.cell + bottom.u, 2.0 * top.cell + top.u, top.v)
        bottom = bottom.take(bottom.v > height + _ABOVE)
    if bottom.u.size:
        joined = top.and_also(bottom)
        top = _concave(_distinct(joined.take(np.lexsort((joined.v, joined.u, joined.cell)))))
    top = _distinct(top)
    return top.take(np.lexsort((-top.u, top.cell)))


def _corners(
    blocks: Indices, cell: Indices, starts: Indices, mass_below: Floats, positives_below: Floats, low_scores: bool
) -> HullCorners:
    """One family's corners: a cut before every pool, and one after the last of each cell that has rows."""
    sizes = np.diff(starts)
    filled = np.flatnonzero(sizes)
    owner = np.concatenate([cell[blocks], filled])
    cut = np.concatenate([blocks - starts[cell[blocks]], sizes[filled]])
    place, end = starts[owner] + owner + cut, starts[owner + 1] + owner
    mass, positives = mass_below[end], positives_below[end]
    u, v = mass_below[place] / mass, positives_below[place] / mass
    if not low_scores:
        u, v = 1.0 - u, positives / mass - v
    order = np.lexsort((u, owner))
    return HullCorners(owner, cut, np.full(owner.size, low_scores), u, v).take(order)


def _distinct(points: HullCorners) -> HullCorners:
    """Of points with the same u the last, which is the highest: a level may be too light to move u at all."""
    return points.take(np.append((np.diff(points.u) > 0) | (np.diff(points.cell) > 0), True)[: points.u.size])


def _concave(points: HullCorners) -> HullCorners:
    """Those of the points, sorted by cell and rising u, that lie on the upper hull."""
    inner = np.flatnonzero(np.diff(points.cell) == 0)
    width = points.u[inner + 1] - points.u[inner]
    slope = (points.v[inner + 1] - points.v[inner]) / width
    begins = inner[pool_starts(slope, width, points.cell[inner], rising=False)]
    ends = np.flatnonzero(np.append(np.diff(points.cell) > 0, True))
    return points.take(np.union1d(begins, ends))
