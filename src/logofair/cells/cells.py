"""Cells: the rows of each (group, client) pair, ordered by score, with running sums.

All that a decision rule does to accuracy and to any rate it does through two numbers per cell::

    selected  u = E[h | cell]          positives  v = E[value * h | cell]

which range over a convex polygon. Its corners are "accept the rows from some score up" (upper edge) and "accept
the rows up to some score" (lower edge, the upper one's mirror image). Rows are ordered by a *score* and count with a
separate *value*: the calibrated chance of label 1, or the label itself. Where values do not rise with the score, the
blocks are the edges of the convex hull (:mod:`logofair.cells.hulls`) and remember the thresholds behind their corners; so
every cell has blocks of rising value, and a corner is found by one binary search.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from logofair.cells.acceleration import accelerated
from logofair.cells.hulls import upper_hull
from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import (
    Booleans,
    Indices,
    cumulative,
    group_by,
    run_starts,
    run_sums,
    search_runs,
    sorted_by_cell,
)


@dataclass(frozen=True)
class Cells:
    """Blocks of rows per cell, lowest score first; cell number = client * n_groups + group.

    ``lowest`` and ``highest`` are a block's extreme scores, ``values`` its mean value (rising within a cell).
    The running sums have one entry more than blocks in each cell: cell i's begin at ``starts[i] + i``.
    ``mass_below`` is None when every block is one row of weight 1. Where blocks are edges of a hull, ``ladder`` has the
    rows by score, and ``cut_of`` and ``turned``, laid out like the sums, the threshold rule of each upper corner.
    """

    n_groups: int
    n_clients: int
    starts: Indices
    lowest: Floats
    highest: Floats
    values: Floats
    positives_below: Floats
    mass_below: Floats | None
    rows: Indices
    ladder: Cells | None = None
    cut_of: Indices | None = None
    turned: Booleans | None = None

    @property
    def rungs(self) -> Cells:
        """The same rows with one block per score, on which thresholds are counted."""
        return self.ladder or self

    def rules(self, cells: Indices, cuts: Indices, upper: Booleans) -> tuple[Indices, Booleans]:
        """The threshold rule behind a corner: a cut of the rungs, and whether scores above it are accepted.

        A lower corner accepts what the upper corner at the same cut rejects.
        """
        if self.cut_of is None or self.turned is None:
            return cuts, upper
        place = self.starts[cells] + cells + cuts
        return self.cut_of[place], upper ^ self.turned[place]

    @cached_property
    def mass(self) -> Floats:
        """Weight of each cell, (cells,)."""
        sizes = np.diff(self.starts)
        if self.mass_below is None:
            return sizes.astype(np.float64)
        ends = self.starts[1:] + np.arange(sizes.size)
        return np.asarray(self.mass_below[ends])

    @cached_property
    def positives(self) -> Floats:
        """Weight of the positives of each cell, (cells,)."""
        return np.asarray(self.positives_below[self.starts[1:] + np.arange(self.starts.size - 1)])

    @cached_property
    def scale(self) -> Floats:
        """One over the mass of each cell; 0 for an empty one, whose sums are all 0."""
        return np.divide(1.0, self.mass, out=np.zeros_like(self.mass), where=self.mass > 0)

    def below(self, cells: Indices, cuts: Indices) -> tuple[Floats, Floats]:
        """Mass and positives of the lowest ``cuts`` blocks of the given cells, as shares of the cell's mass."""
        place = self.starts[cells] + cells + cuts
        mass = cuts.astype(np.float64) if self.mass_below is None else self.mass_below[place]
        return mass * self.scale[cells], self.positives_below[place] * self.scale[cells]

    def corner(self, cells: Indices, cuts: Indices, upper: Booleans) -> tuple[Floats, Floats]:
        """(u, v) of the rule that accepts the blocks from the cut up, or (not ``upper``) those below it."""
        u, v = self.below(cells, cuts)
        total = np.where(self.mass[cells] > 0, 1.0, 0.0)
        share = self.positives[cells] * self.scale[cells]
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
    clients: Integers,
    *,
    n_groups: int,
    n_clients: int,
    values: Floats | None = None,
    weights: Floats | None = None,
    rising: bool = False,
) -> Cells:
    """Order rows into cells; ``values`` default to the scores, ``weights`` to 1.

    ``rising`` says that the values rise with the scores in every cell, so that no hull is needed.

    Examples
    --------
    >>> import numpy as np
    >>> code = np.zeros(3, dtype=np.int32)
    >>> cells = build_cells(np.array([0.2, 0.9, 0.6]), code, code, n_groups=1, n_clients=1)
    >>> cells.values.tolist(), cells.mass.tolist()
    ([0.2, 0.6, 0.9], [3.0])
    """
    if values is None and weights is None:
        ordered, starts, sums = _ordered(scores, groups, clients, n_groups, n_clients)
        return Cells(n_groups, n_clients, starts, ordered, ordered, ordered, sums, None, np.diff(starts))
    cell = clients * np.int32(n_groups) + groups
    ladder, mass = _ladder(scores, cell, n_groups, n_clients, values, weights)
    return ladder if values is None or rising else _hulled(ladder, mass)


def _ordered(
    scores: Floats, groups: Integers, clients: Integers, n_groups: int, n_clients: int
) -> tuple[Floats, Indices, Floats]:
    """Scores by cell and ascending, where cells start, and their running sums."""
    if accelerated(scores.size):
        from logofair.cells.compiled import sorted_cells

        return sorted_cells(groups, clients, n_groups, n_clients, scores)
    ordered, starts = sorted_by_cell(groups, clients, n_groups, n_clients, scores)
    return ordered, starts, cumulative(ordered, starts)


def _ladder(
    scores: Floats, cell: Integers, n_groups: int, n_clients: int, values: Floats | None, weights: Floats | None
) -> tuple[Cells, Floats]:
    """One block per score, and its mass, for rows with weights or with values other than their scores."""
    n_cells = n_groups * n_clients
    by_score = np.argsort(scores, kind="stable")
    _, place, starts = group_by(cell[by_score], n_cells, scores)
    order = by_score[place]
    rows = np.diff(starts)
    weight = np.ones(scores.size) if weights is None else weights[order]
    value = (scores if values is None else values)[order]
    score, cell = scores[order], cell[order]
    kept = weight > 0  # a row of weight 0 must not become a corner of its own
    score, value, weight, cell = score[kept], value[kept], weight[kept], cell[kept]
    blocks = run_starts((np.diff(score) != 0) | (np.diff(cell) != 0))
    mass, sums = run_sums(weight, blocks), run_sums(weight * value, blocks)
    first = blocks[:-1]
    starts = np.searchsorted(cell[first], np.arange(n_cells + 1)).astype(np.int64)
    level = score[first]
    ladder = Cells(
        n_groups,
        n_clients,
        starts,
        lowest=level,
        highest=level,
        values=sums / mass,
        positives_below=cumulative(sums, starts),
        mass_below=cumulative(mass, starts),
        rows=rows,
    )
    return ladder, mass


def _hulled(ladder: Cells, mass_of: Floats) -> Cells:
    """Cells whose blocks are the edges of the convex hulls, lowest slope first."""
    below, positives_below = ladder.mass_below, ladder.positives_below
    assert below is not None
    hull = upper_hull(ladder.starts, mass_of, ladder.values, below, positives_below)
    empty = np.flatnonzero(np.diff(ladder.starts) == 0)
    order = np.argsort(np.concatenate([hull.cell, empty]), kind="stable")
    none = np.zeros(empty.size, dtype=np.int64)
    cell, cut = np.concatenate([hull.cell, empty])[order], np.concatenate([hull.cut, none])[order]
    turned = np.concatenate([hull.turned, none > 0])[order]
    place = ladder.starts[cell] + cell + cut
    mass = np.where(turned, ladder.mass[cell] - below[place], below[place])
    positives = np.where(turned, ladder.positives[cell] - positives_below[place], positives_below[place])
    edge = np.flatnonzero(np.diff(cell) == 0)
    values = np.diff(positives)[edge] / np.diff(mass)[edge]
    starts = np.searchsorted(cell[edge], np.arange(ladder.starts.size)).astype(np.int64)
    return Cells(
        ladder.n_groups,
        ladder.n_clients,
        starts,
        lowest=values,
        highest=values,
        values=values,
        positives_below=positives,
        mass_below=mass,
        rows=ladder.rows,
        ladder=ladder,
        cut_of=cut,
        turned=turned,
    )
