"""Cells: the rows of each (group, site) pair, ordered by score, with running sums.

A decision rule h affects accuracy and every rate through two numbers per cell alone::

    selected  u = E[h | cell]          positives  v = E[value * h | cell]

which range over a convex polygon. Its corners are "accept the rows from some score up" (upper boundary) and "accept
the rows up to some score" (lower boundary, the upper one's mirror image). Rows are ordered by a *score* and count with
a separate *value*: the calibrated chance of label 1, or the label itself. Where values do not rise with the score, as
labels need not, the upper boundary is a concave hull of these corners, as in an ROC convex hull (pool adjacent
violators); and since accepting the lowest scores of a cell may be better than accepting the highest, it is the hull of
both families of thresholds. Its edges are then the blocks, which remember the thresholds at their corners. So every
cell has blocks of rising value, and the best corner for given prices is found by one binary search.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from logofair.columns.checks import Binary, Floats, Integers
from logofair.columns.segments import (
    Booleans,
    Indices,
    RowOrder,
    cell_numbers,
    cumulative,
    level_changes,
    pool_starts,
    run_starts,
    run_sums,
    search_runs,
    sorted_by_cell,
)


@dataclass(frozen=True)
class Cells:
    """Blocks of rows per cell, those accepted or rejected together, lowest score first; see :func:`cell_numbers`.

    ``lowest`` and ``highest`` are a block's extreme scores, ``values`` its mean value (rising within a cell).
    The running sums have one entry more than blocks in each cell: cell i's begin at ``starts[i] + i``.
    ``mass_below`` is None when every block is one row of weight 1; ``rows`` counts the rows of each cell. Where
    blocks are edges of a hull, ``hull_of`` has the rows by score, and ``cut_of`` and ``reversed``, laid out like the
    sums, the threshold rule of each upper corner.
    """

    n_groups: int
    n_sites: int
    starts: Indices
    lowest: Floats
    highest: Floats
    values: Floats
    positives_below: Floats
    mass_below: Floats | None
    rows: Indices
    hull_of: Cells | None = None
    cut_of: Indices | None = None
    reversed: Booleans | None = None

    @property
    def levels(self) -> Cells:
        """The same rows with one block per score, on which thresholds are counted."""
        return self.hull_of or self

    def of_sites(self, sites: Indices) -> Cells:
        """The cells of some sites."""
        cells = (sites[:, None] * self.n_groups + np.arange(self.n_groups)).ravel()
        blocks, starts = _runs_at(self.starts[cells], self.starts[cells + 1])
        sums, _ = _runs_at(self.starts[cells] + cells, self.starts[cells + 1] + cells + 1)
        return Cells(
            self.n_groups,
            sites.size,
            starts,
            self.lowest[blocks],
            self.highest[blocks],
            self.values[blocks],
            self.positives_below[sums],
            None if self.mass_below is None else self.mass_below[sums],
            self.rows[cells],
            None if self.hull_of is None else self.hull_of.of_sites(sites),
            None if self.cut_of is None else self.cut_of[sums],
            None if self.reversed is None else self.reversed[sums],
        )

    def joined(self, begins: Booleans) -> Cells:
        """The same rows, every block joined to the one below it in its cell unless it ``begins`` one, (blocks,)."""
        sizes = np.diff(self.starts)
        begins = begins.copy()
        begins[self.starts[:-1][sizes > 0]] = True
        first = np.flatnonzero(begins)
        starts = np.searchsorted(first, self.starts).astype(np.int64)
        # A cell's sums are kept below each block that is left, and above the last one.
        kept = np.sort(np.concatenate([first + np.repeat(np.arange(sizes.size), np.diff(starts)), self._ends]))
        positives = self.positives_below[kept]
        if self.mass_below is not None:
            mass = self.mass_below[kept]
        else:  # how many blocks of its cell lie below each
            begins_at = np.repeat(self.starts[:-1] + np.arange(sizes.size), sizes + 1)
            mass = (np.arange(begins_at.size) - begins_at)[kept].astype(np.float64)
        inner = np.delete(np.arange(kept.size - 1), (starts[1:] + np.arange(sizes.size))[:-1])
        last = np.append(first[1:], begins.size) - 1
        mean = (positives[inner + 1] - positives[inner]) / (mass[inner + 1] - mass[inner])
        values = np.where(first == last, self.values[first], mean)
        lowest, highest = self.lowest[first], self.highest[last]
        return Cells(self.n_groups, self.n_sites, starts, lowest, highest, values, positives, mass, self.rows)

    def rules(self, cells: Indices, cuts: Indices, upper: Booleans) -> tuple[Indices, Booleans]:
        """The threshold rule behind a corner: a cut of the score levels, and whether scores above it are accepted.

        A lower corner accepts what the upper corner at the same cut rejects.
        """
        if self.cut_of is None or self.reversed is None:
            return cuts, upper
        place = self.starts[cells] + cells + cuts
        return self.cut_of[place], upper ^ self.reversed[place]

    @cached_property
    def mass(self) -> Floats:
        """Weight of each cell, (cells,)."""
        if self.mass_below is None:
            return np.diff(self.starts).astype(np.float64)
        return np.asarray(self.mass_below[self._ends])

    @cached_property
    def positives(self) -> Floats:
        """Weight of the positives of each cell, (cells,)."""
        return np.asarray(self.positives_below[self._ends])

    @property
    def _ends(self) -> Indices:
        """Where the sums of whole cells stand, (cells,)."""
        return self.starts[1:] + np.arange(self.starts.size - 1)

    @cached_property
    def scale(self) -> Floats:
        """One over the mass of each cell; 0 for an empty one, whose sums are all 0."""
        return np.divide(1.0, self.mass, out=np.zeros_like(self.mass), where=self.mass > 0)

    def sizes(self, cells: Indices) -> Indices:
        """How many blocks the given cells have."""
        return self.starts[cells + 1] - self.starts[cells]

    def positive_shares(self, cells: Indices) -> Floats:
        """The positives of the given cells as shares of their mass."""
        return np.asarray(self.positives[cells] * self.scale[cells])

    def below(self, cells: Indices, cuts: Indices) -> tuple[Floats, Floats]:
        """Mass and positives of the lowest ``cuts`` blocks of the given cells, as shares of the cell's mass."""
        place = self.starts[cells] + cells + cuts
        mass = cuts.astype(np.float64) if self.mass_below is None else self.mass_below[place]
        return mass * self.scale[cells], self.positives_below[place] * self.scale[cells]

    def corner(self, cells: Indices, cuts: Indices, upper: Booleans) -> tuple[Floats, Floats]:
        """(u, v) of the rule that accepts the blocks from the cut up, or (not ``upper``) those below it."""
        u, v = self.below(cells, cuts)
        total = np.where(self.mass[cells] > 0, 1.0, 0.0)
        share = self.positive_shares(cells)
        return np.where(upper, total - u, u), np.where(upper, share - v, v)

    def best_corner(self, cells: Indices, slope: Floats, constant: Floats) -> tuple[Floats, Floats, Floats]:
        """Corner that maximises ``slope * v + constant * u``: its value (at least 0), u and v.

        A row of value x adds ``slope * x + constant``; with a positive slope those above the zero of that line
        are accepted, with a negative one those below. Rows on the line are accepted, except where all are.
        """
        upper = slope >= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            zero = -constant / slope
        flat = slope == 0
        zero = np.where(flat, np.where(constant > 0, -np.inf, np.inf), zero)
        first, last = self.starts[cells], self.starts[cells + 1]
        cuts = search_runs(self.values, first, last, zero, right=~upper)
        u, v = self.corner(cells, cuts, upper)
        return slope * v + constant * u, u, v

    def thresholds(self, cells: Indices, cuts: Indices) -> tuple[Floats, Floats]:
        """Scores on both sides of a cut: the highest below it (-inf: none) and the lowest above it (inf: none)."""
        first, last = self.starts[cells], self.starts[cells + 1]
        place, end = first + cuts, max(self.lowest.size - 1, 0)
        if self.lowest.size == 0:
            return np.full(cells.size, -np.inf), np.full(cells.size, np.inf)
        under = np.where(cuts > 0, self.highest[np.maximum(place - 1, 0)], -np.inf)
        over = np.where(place < last, self.lowest[np.minimum(place, end)], np.inf)
        return under, over


def build_cells(
    scores: Floats,
    groups: Integers,
    sites: Integers,
    *,
    n_groups: int,
    n_sites: int,
    values: Floats | Binary | None = None,
    weights: Floats | None = None,
    rising: bool = False,
) -> Cells:
    """Order rows into cells; ``values`` default to the scores, ``weights`` to 1.

    ``rising`` says that the values rise with the scores in every cell, so that no hull is needed.
    """
    cells = groups, sites, n_groups, n_sites
    if values is None and weights is None:  # sorting bare numbers is faster
        ordered, starts = sorted_by_cell(*cells, scores)
        sums = cumulative(ordered, starts)
        return Cells(n_groups, n_sites, starts, ordered, ordered, ordered, sums, None, np.diff(starts))
    if weights is None and values is not None and np.all((values == 0.0) | (values == 1.0)):
        # One block per score: the same as `_levels` finds, by a faster sort. A score in [0, 1] leaves the two highest
        # bits of a double unused: shifted by one bit it is a finite double still, in the same order, with room for the
        # label at its end, so that bare numbers are sorted instead of rows.
        bits = (scores + 0.0).view(np.int64) << 1  # + 0.0: -0.0 has its bit set
        bits |= values.astype(np.int64)
        ordered, starts = sorted_by_cell(*cells, scores, bits.view(np.float64))
        levels, mass = _label_levels(ordered.view(np.int64), starts, n_groups)
        return levels if rising else _hulled(levels, mass)
    order = RowOrder.of(scores, cell_numbers(groups, sites, n_groups), n_groups * n_sites)
    scores = scores[order.rows]
    own = scores if values is None else values[order.rows].astype(np.float64, copy=False)
    weights = None if weights is None else weights[order.rows]
    return cells_in_order(scores, own, weights, order.starts, n_groups=n_groups, rising=rising or values is None)


def cells_in_order(
    scores: Floats, values: Floats, weights: Floats | None, starts: Indices, *, n_groups: int, rising: bool = False
) -> Cells:
    """As :func:`build_cells`, of rows that stand by cell and score already, those of cell i from ``starts[i]``."""
    levels, mass = _levels(scores, values, weights, starts, n_groups)
    return levels if rising else _hulled(levels, mass)


def _label_levels(bits: Indices, starts: Indices, n_groups: int) -> tuple[Cells, Floats]:
    """One block per score, and its mass, of scores in order that have their labels as last bit."""
    level = bits >> 1
    positives = np.concatenate([[0], np.cumsum(bits & 1)])
    new = np.ones(level.size, dtype=bool)
    np.not_equal(level[1:], level[:-1], out=new[1:])
    new[starts[:-1][np.diff(starts) > 0]] = True
    first = np.flatnonzero(new)
    last = np.append(first[1:], bits.size)[: first.size]
    level_starts = np.searchsorted(first, starts).astype(np.int64)
    cell = np.repeat(np.arange(starts.size - 1), np.diff(level_starts))
    mass_below, positives_below = np.zeros((2, first.size + starts.size - 1))
    after = np.arange(first.size) + cell + 1
    mass_below[after] = last - starts[cell]  # whole numbers: exact in any order of summing
    positives_below[after] = positives[last] - positives[starts[cell]]
    mass, lowest = (last - first).astype(np.float64), level[first].view(np.float64)
    levels = Cells(
        n_groups,
        (starts.size - 1) // n_groups,
        level_starts,
        lowest=lowest,
        highest=lowest,
        values=(positives[last] - positives[first]) / mass,
        positives_below=positives_below,
        mass_below=mass_below,
        rows=np.diff(starts),
    )
    return levels, mass


def _levels(
    scores: Floats, values: Floats, weights: Floats | None, row_starts: Indices, n_groups: int
) -> tuple[Cells, Floats | None]:
    """One block per score, and its mass (None: each is one row of weight 1)."""
    starts, n_sites = row_starts, (row_starts.size - 1) // n_groups
    if weights is not None and not weights.all():
        kept = weights > 0  # a row of weight 0 must not become a corner of its own
        scores, values, weights = scores[kept], values[kept], weights[kept]
        starts = np.concatenate([[0], np.cumsum(kept)])[starts]
    changes = level_changes(scores, starts)
    mass, sums = weights, values if weights is None else weights * values
    if not changes.all():
        blocks = run_starts(changes)
        mass = np.diff(blocks).astype(np.float64) if weights is None else run_sums(weights, blocks)
        sums, scores = run_sums(sums, blocks), scores[blocks[:-1]]
        starts = np.searchsorted(blocks, starts)
    levels = Cells(
        n_groups,
        n_sites,
        starts,
        lowest=scores,
        highest=scores,
        values=sums if mass is None else sums / mass,
        positives_below=cumulative(sums, starts),
        mass_below=None if mass is None else cumulative(mass, starts),
        rows=np.diff(row_starts),
    )
    return levels, mass


def _runs_at(first: Indices, last: Indices) -> tuple[Indices, Indices]:
    """Places of the entries of some runs, one run after the other, and where each starts among them."""
    starts = np.concatenate(([0], np.cumsum(last - first)))
    return np.repeat(first - starts[:-1], last - first) + np.arange(starts[-1]), starts


def _hulled(levels: Cells, mass_of: Floats | None) -> Cells:
    """Cells whose blocks are the edges of the upper hulls, lowest slope first."""
    below, positives_below = levels.mass_below, levels.positives_below
    if below is None or mass_of is None:
        mass_of = np.ones_like(levels.values)
        below = cumulative(mass_of, levels.starts)
    hull = upper_hull(levels.starts, mass_of, levels.values, below, positives_below)
    empty = np.flatnonzero(np.diff(levels.starts) == 0)
    order = np.argsort(np.concatenate([hull.cell, empty]), kind="stable")
    nobody = np.zeros(empty.size, dtype=np.int64)  # the one corner of an empty cell
    cell, cut = np.concatenate([hull.cell, empty])[order], np.concatenate([hull.cut, nobody])[order]
    reversed_ = np.concatenate([hull.reversed, nobody.astype(bool)])[order]
    place = levels.starts[cell] + cell + cut
    mass = np.where(reversed_, levels.mass[cell] - below[place], below[place])
    positives = np.where(reversed_, levels.positives[cell] - positives_below[place], positives_below[place])
    edge = np.flatnonzero(np.diff(cell) == 0)
    values = np.diff(positives)[edge] / np.diff(mass)[edge]
    starts = np.searchsorted(cell[edge], np.arange(levels.starts.size)).astype(np.int64)
    return Cells(
        levels.n_groups,
        levels.n_sites,
        starts,
        lowest=values,
        highest=values,
        values=values,
        positives_below=positives,
        mass_below=mass,
        rows=levels.rows,
        hull_of=levels,
        cut_of=cut,
        reversed=reversed_,
    )


# Corners of the rules "accept up to a score" count only where they lie above the others' hull by more than rounding.
_ABOVE = 1e-10


@dataclass(frozen=True)
class _HullCorners:
    """Corners of cells' upper boundaries, one entry each, sorted by cell and rising u.

    ``cut`` counts the score levels below the corner's threshold; ``reversed`` corners accept those.
    """

    cell: Indices
    cut: Indices
    reversed: Booleans
    u: Floats
    v: Floats

    def take(self, which: Indices | Booleans) -> _HullCorners:
        """Some of them."""
        return _HullCorners(*(getattr(self, part.name)[which] for part in fields(self)))


def upper_hull(
    starts: Indices, mass: Floats, values: Floats, mass_below: Floats, positives_below: Floats
) -> _HullCorners:
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
    if top.u.size:  # without any rows there is no boundary to be above
        # One interpolation for all cells, each on a stretch of its own: both have corners at 0 and 1 in every cell.
        height = np.interp(2.0 * bottom.cell + bottom.u, 2.0 * top.cell + top.u, top.v)
        bottom = bottom.take(bottom.v > height + _ABOVE)
    if bottom.u.size:
        joined = _HullCorners(*(np.concatenate([getattr(top, f.name), getattr(bottom, f.name)]) for f in fields(top)))
        top = _concave(_distinct(joined.take(np.lexsort((joined.v, joined.u, joined.cell)))))
    top = _distinct(top)
    return top.take(np.lexsort((-top.u, top.cell)))


def _corners(
    blocks: Indices, cell: Indices, starts: Indices, mass_below: Floats, positives_below: Floats, low_scores: bool
) -> _HullCorners:
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
    return _HullCorners(owner, cut, np.full(owner.size, low_scores), u, v).take(order)


def _distinct(points: _HullCorners) -> _HullCorners:
    """Of points with the same u the last, which is the highest: a level may be too light to move u at all."""
    return points.take(np.append((np.diff(points.u) > 0) | (np.diff(points.cell) > 0), True)[: points.u.size])


def _concave(points: _HullCorners) -> _HullCorners:
    """Those of the points, sorted by cell and rising u, that lie on the upper hull."""
    inner = np.flatnonzero(np.diff(points.cell) == 0)
    width = points.u[inner + 1] - points.u[inner]
    slope = (points.v[inner + 1] - points.v[inner]) / width
    begins = inner[pool_starts(slope, width, points.cell[inner], rising=False)]
    ends = np.flatnonzero(np.append(np.diff(points.cell) > 0, True))
    return points.take(np.union1d(begins, ends))
