"""Cross-fitting: eta of every row from a calibrator that has not seen its label, and the calibrator of all rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.calibration.fits import NO_FOLD, FoldRuns, LogisticFits
from logofair.calibration.maps import FAMILIES, Calibrator, IsotonicMaps, LogisticMaps, Units, isotonic_fits
from logofair.columns.checks import Binary, Floats, Integers
from logofair.columns.rows import Rows
from logofair.columns.segments import (
    Indices,
    RowOrder,
    both_in_threads,
    gather,
    group_by,
    narrowest,
    pieces_of_runs,
    pool_starts,
    run_means,
    run_starts,
    run_sums,
)

# Default strength of a prior, in rows. Among 3, 10, ..., 3000 the held-out log-loss of beta calibration was
# lowest at 100 and 300 on census income by state and sex or race, for 2,000 to 250,000 calibration rows alike.
STRENGTH = 200.0
# Prior strengths are compared on as few folds as hold this many rows: the held-out loss is precise enough then.
_ENOUGH_ROWS = 20_000
# Two strengths are equally good if their held-out log-losses, summed over all rows, differ by less than this many nats
# (the likelihood-ratio test of one parameter at 5 %): the larger, which shrinks more, is taken. Without it, where sites
# are alike, cells of 20 rows lost .003 to .005 nats a row more than under their group's map.
_INDIFFERENCE = 2.0
# Chances are moved this far from 0 and 1 before a logarithm is taken, or one row could outweigh all others.
_LEAST_CHANCE = 1e-12


def _columns_at(rows: Rows, places: npt.NDArray[Any]) -> tuple[Floats, Binary, Floats | None]:
    """Scores, labels and weights of the rows at some places."""
    assert rows.labels is not None
    weights = None if rows.weights is None else gather(rows.weights, places)
    return gather(rows.scores, places), gather(rows.labels, places), weights


def _arranged_fits(
    method: str,
    sample: Rows,
    order: RowOrder,
    fold: npt.NDArray[np.int16],
    without: Indices,
    strengths: tuple[float, float],
) -> Callable[..., list[Calibrator]]:
    """Calibrators to fit on the same rows; each leaves out one fold or none (``NO_FOLD``), as ``without`` says.

    Rows are arranged by cell and fold, given their ``order`` by cell and score and the ``fold`` of each in it; those
    of weight 0 are dropped. ``strengths`` are, in rows, that of the groups' prior, and that of the cells' prior for
    their starting point. Calibrators are asked for with the strength of the cells' prior and the numbers of the fits;
    those that serve ``to_compare`` strengths alone are fitted less precisely.
    """
    folds = 1 + int(max(fold.max(initial=0), without.max()))
    units, rows = Units.in_rows(sample), order.rows
    narrow = narrowest(max(rows.size, units.n_cells * folds))
    cells: npt.NDArray[Any] = np.repeat(np.arange(units.n_cells, dtype=narrow), np.diff(order.starts))
    if sample.weights is not None and not sample.weights.all():
        counted = sample.weights[rows] > 0.0
        rows, cells, fold = rows[counted], cells[counted], fold[counted]
    if method == "isotonic":
        curves = isotonic_fits(*_columns_at(sample, rows), cells, fold, units)
    else:
        by_fold, starts = group_by(cells * folds + fold, units.n_cells * folds, rows)
        counts = np.diff(starts).reshape(units.n_cells, folds)
        columns = _columns_at(sample, by_fold)
        del cells, by_fold  # before there is more
        logistic = LogisticFits.of(FoldRuns.of(FAMILIES[method], units, *columns, counts), strengths, without)

    def calibrators(strength: float, fits: Indices, *, to_compare: bool = False) -> list[Calibrator]:
        maps: Sequence[LogisticMaps | IsotonicMaps]
        if method == "isotonic":
            maps = [curves((strengths[0], strength), int(number)) for number in without[fits]]
        else:
            maps = logistic.maps(method, strength, fits, to_compare=to_compare)
        return [Calibrator(method, units.n_groups, units.n_sites, each) for each in maps]

    return calibrators


def fit_calibrator(sample: Rows, method: str, strength: float = STRENGTH) -> Calibrator:
    """Fit a calibrator to labelled rows; small cells borrow strength from their group, and groups from all rows.

    A row of weight 2 counts as two rows. ``strength`` is that of the priors, in rows: a cell of as many rows ends about
    halfway between its group's map and the one its own rows would give. Where all rows are of one site, each cell has
    the map of its group.
    """
    order = sample.order()
    fold = np.zeros(order.rows.size, dtype=np.int16)
    calibrators = _arranged_fits(method, sample, order, fold, np.array([NO_FOLD]), (strength, strength))
    return calibrators(strength, np.array([0]))[0]


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Out-of-fold chances: of each row by the calibrator fitted without its fold. Computed when asked for."""

    scores: Floats  # in input order
    order: RowOrder  # of the rows by cell and score
    fold: npt.NDArray[np.int16]  # of each row, in that order
    without: tuple[Calibrator, ...]  # the calibrator without each fold

    def chances(self) -> Floats:
        """Chance of each row by its cell's map, in that order; computed at every call to save memory."""
        scores = gather(self.scores, self.order.rows)
        return held_out_chances(scores, self.order.cells + (1 + self.without[0].n_groups), self.fold, self.without)

    def merged(self, scores: Floats, groups: Indices, rows: npt.NDArray[Any]) -> Floats:
        """Chances of some rows by their groups' maps, for rules that ignore the site; ``rows`` are their places."""
        return held_out_chances(scores, groups + 1, self.order.in_input_order(self.fold)[rows], self.without)


@dataclass(frozen=True, eq=False)
class CrossFit:
    """The calibrator of all rows, and the out-of-fold chances of those rows."""

    calibrator: Calibrator  # fitted on all rows: for new ones
    held_out: HeldOut | None = None  # None for method "none"
    strength: float = STRENGTH  # of the cells' prior, in rows

    @property
    def eta(self) -> Floats:
        """Chance of every row, by the calibrator fitted without the row's fold."""
        assert self.held_out is not None
        return self.held_out.order.in_input_order(self.held_out.chances())


def cross_fit(
    sample: Rows,
    method: str,
    *,
    folds: int = 5,
    rng: np.random.Generator,
    strengths: tuple[float, ...] = (STRENGTH,),
) -> CrossFit:
    """Calibrate every row by a fit to the other folds, and fit once more on all rows; a person's rows share a fold.

    ``strengths`` of the cells' prior are in rising order; of several, a local search from the middle one takes that of
    the least held-out log-loss.
    """
    rows, units = sample.scores.size, Units.in_rows(sample)
    n_cells, people = units.n_cells, sample.people
    if people is not None:
        order = sample.order()
        fold = assign_folds_by_person(people.codes, sample.cells, n_cells, folds, rng)[order.rows]
    else:
        order, drawn = both_in_threads(
            sample.order, lambda: _draw_folds(np.array([0, rows]), n_cells, folds, rng), rows
        )
        fold = drawn(order)
        del drawn  # six bytes a row, before columns of eight are made
    # One fit without each fold, and the last one on all rows.
    every = np.arange(folds + 1)
    without = np.append(every[:folds], NO_FOLD)
    calibrators = _arranged_fits(method, sample, order, fold, without, (STRENGTH, strengths[len(strengths) // 2]))
    enough = folds_compared(folds, fold.size)

    if len(strengths) > 1:
        places = np.flatnonzero(fold < enough)
        compared, fold_compared = sample.at(order.rows[places]), fold[places]
        unit = units.of(compared.groups.codes, compared.sites.codes)

    @cache
    def loss(strength: float) -> float:
        rough = calibrators(strength, every[:enough], to_compare=True)
        return float(log_losses(compared, held_out_chances(compared.scores, unit, fold_compared, rough)).sum())

    strength = local_search(strengths, loss)
    *without_fold, calibrator = calibrators(strength, every)
    return CrossFit(calibrator, HeldOut(sample.scores, order, fold, tuple(without_fold)), strength)


def folds_compared(folds: int, rows: int) -> int:
    """On how many folds strengths are compared: the first ones."""
    return -(-folds * min(_ENOUGH_ROWS, rows) // max(rows, 1))


def local_search(points: tuple[float, ...], loss: Callable[[float], float]) -> float:
    """Local search from the middle point, up or else down, for a point that neither neighbour improves on.

    Losses that differ by no more than is expected by chance are equal, and of two equal points the larger is preferred.
    """
    middle = at = len(points) // 2
    while at + 1 < len(points) and loss(points[at + 1]) < loss(points[at]) + _INDIFFERENCE:
        at += 1
    if at == middle:
        while at > 0 and loss(points[at - 1]) < loss(points[at]) - _INDIFFERENCE:
            at -= 1
    return points[at]


def log_losses(sample: Rows, chances: Floats) -> Floats:
    """Negative log-likelihood of each row's label, times its weight."""
    assert sample.labels is not None
    right = np.where(sample.labels > 0.5, chances, 1.0 - chances)
    losses = -np.log(np.maximum(right, _LEAST_CHANCE))
    return losses if sample.weights is None else losses * sample.weights


def assign_folds(order: RowOrder, folds: int, *rngs: np.random.Generator) -> npt.NDArray[np.int16]:
    """The fold of each row, in the given order by cell and score: random, stratified by cell and nothing else.

    Every cell has each fold the same number of times to within one. Stratifying by label too would let the rows outside
    a fold predict those inside it (with coin-flip labels and 100 rows in a cell, eta predicted 54 of 100). Each of the
    ``rngs`` draws for an equal part of the cells, those of one site, say: their folds do not depend on the others.
    """
    cells = order.starts.size - 1
    begins = order.starts[:: max(cells // len(rngs), 1)]
    return _draw_folds(begins, cells, folds, *rngs)(order)


def assign_folds_by_person(
    people: Integers, cells: Integers, n_cells: int, folds: int, rng: np.random.Generator
) -> npt.NDArray[np.int16]:
    """The fold of each row, in input order: a person's rows share one, and people are stratified by cell.

    A person counts in the cell of the first of these rows, whatever cells the others are in.
    """
    _, first, own = np.unique(people, return_index=True, return_inverse=True)
    homes = cells[first]
    order = RowOrder.of(homes.astype(np.float64), homes, n_cells)
    fold = np.empty(first.size, dtype=np.int16)
    fold[order.rows] = assign_folds(order, folds, rng)
    return fold[own]


def _draw_folds(
    begins: Indices, cells: int, folds: int, *rngs: np.random.Generator
) -> Callable[[RowOrder], npt.NDArray[np.int16]]:
    """The random part of :func:`assign_folds`: from an order by cell and score to the fold of each row.

    Each rng draws for the rows from one of the ``begins`` to the next. That needs the numbers of rows and cells alone:
    draw while rows are sorted.
    """
    rows, share = int(begins[-1]), cells // len(rngs)
    narrow = narrowest(max(rows, cells))
    drawn, place = np.arange(rows, dtype=narrow), np.arange(cells, dtype=narrow)
    assigned = np.empty(rows, dtype=np.int16)
    for part, rng in enumerate(rngs):
        first, last = begins[part], begins[part + 1]
        rng.shuffle(drawn[first:last])
        # Cells in random order: otherwise sites of five rows each would put all of a group into one fold.
        rng.shuffle(place[part * share : (part + 1) * share])
        # Folds in random order, or all rows of small sites would be in the first folds.
        numbers = np.tile(rng.permutation(folds).astype(np.int16), 1 + (last - first) // folds)
        assigned[first:last] = numbers[: last - first]

    def assigned_to(order: RowOrder) -> npt.NDArray[np.int16]:
        # Rows are assigned cell after cell, in the random order of these, inside a cell as they are drawn.
        of_row = np.repeat(place, np.diff(order.starts))
        by_cell, _ = group_by(of_row[drawn], place.size, drawn)
        fold = np.empty_like(assigned)
        fold[by_cell] = assigned
        return fold

    return assigned_to


def held_out_chances(
    scores: Floats, unit: Indices, fold: npt.NDArray[np.int16], without: Sequence[Calibrator]
) -> Floats:
    """Chance of every row, by its unit's map in the calibrator without the row's fold."""
    maps = [calibrator.maps for calibrator in without]
    tables = [each.parameters for each in maps if isinstance(each, LogisticMaps)]
    if len(tables) == len(maps):  # all folds in one pass, as units of one table
        together = replace(without[0], maps=LogisticMaps(without[0].method, np.vstack(tables)))
        return together.at(scores, unit + fold * np.int64(len(tables[0])))
    chances = np.empty_like(scores)
    for number, calibrator in enumerate(without):
        here = fold == number
        chances[here] = calibrator.at(scores[here], unit[here])
    return chances


def isotonic_chances(order: RowOrder, levels: Floats, chances: Floats, weights: Floats | None = None) -> Floats:
    """Isotonic regression of ``chances`` on ``levels`` inside each cell; rows of equal level get the same chance.

    All columns are in the ``order`` of the rows by cell and level. Pooling adjacent violators keeps the mean of each
    pool, and so the expected accuracy of every rule that treats the rows of a pool alike. A pooled chance is an average
    with neighbours whose fits have seen the row's label: it is no longer out of fold, so compare the ``chances`` given
    with labels, not these.
    """
    if levels.size == 0:
        return chances
    changes, mass, starts, lengths = order.changes(levels), weights, order.starts, None
    if mass is not None and not mass.min() >= 1e-12 * mass.max() > 0.0:
        # Isotonic regression needs weights of at least 1e-12 of the cell's largest.
        rows = np.diff(starts)
        largest = np.maximum.reduceat(mass, starts[:-1][rows > 0])
        floor = np.where(largest > 0.0, 1e-12 * largest, 1.0)
        mass = np.maximum(mass, np.repeat(floor, rows[rows > 0]))
    if not changes.all():  # the mean of the rows of each level
        level_starts = run_starts(changes)
        lengths = np.diff(level_starts)
        level_mass = lengths.astype(np.float64) if mass is None else run_sums(mass, level_starts)
        chances = run_sums(chances if mass is None else mass * chances, level_starts) / level_mass
        mass, starts = level_mass, np.searchsorted(level_starts, starts)
    rising = np.empty_like(chances)
    for part in pieces_of_runs(starts):
        some, runs = slice(starts[part.start], starts[part.stop]), np.diff(starts[part.start : part.stop + 1])
        own = np.ones_like(chances[some]) if mass is None else mass[some]
        begins = np.append(pool_starts(chances[some], own, np.repeat(np.arange(runs.size), runs)), own.size)
        rising[some] = np.repeat(run_means(chances[some], own, begins), np.diff(begins))
    np.clip(rising, 0.0, 1.0, out=rising)
    return rising if lengths is None else np.repeat(rising, lengths)
