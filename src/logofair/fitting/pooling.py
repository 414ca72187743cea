"""Pooling: what the score distribution of a small cell borrows from its group at the other sites.

The rates of a cell of twenty rows have a standard error of a tenth: a rule that equalises them is fair to these twenty
people and nobody else. So each cell's measure shrinks to a prior, in accuracy and in every rate: it becomes
``W own + (1 - W) prior`` with ``W = n / (n + kappa)``. The prior is the group's distribution of raw scores over all
sites, moved by a shift in log-odds where sites differ, and read through the cell's own calibrator: what is borrowed are
scores, never chances. A cell's mass stays as it is, and a cell gives the prior as much mass as it takes from it, so
that without shifts the group's distribution over all sites stays as it is, too.

Prior and kappa are chosen by cross-validation of held-out rates, in four steps and a last one that builds the prior.
All that sites contribute to a step are sums over sites, so that a federation and one process do the same: each step is
a function from rows to sums (:func:`score_moments`, :func:`shift_moments`, :func:`fold_histograms`,
:func:`candidate_errors`, :func:`prior_sums`), and one from the total of these to what all sites go on with
(:class:`Reference`, :func:`shift_variance`, :func:`least_error`, :class:`GroupPriors`). In one process the rows are
those of all sites.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from logofair.calibration.crossfit import STRENGTH, assign_folds, assign_folds_by_person
from logofair.calibration.maps import IDENTITY_ROWS
from logofair.columns.checks import Floats, Integers
from logofair.columns.segments import PIECE, Indices, RowOrder, in_threads

POOLING = ("auto", "none", "full")
# Strengths of the prior of the cells' calibration maps, in rows. With "full" a cell has its group's map. With "none"
# the prior is worth one row: enough to keep the map of a cell of one label finite, and to give one to a cell without
# rows. "auto" searches its list for the least held-out loss, from the middle on.
STRENGTHS = {
    "none": (IDENTITY_ROWS,),
    "auto": (IDENTITY_ROWS, 10.0, 50.0, STRENGTH, 800.0, 3200.0, 1e9),
    "full": (1e9,),
}

# Log-odds lie in [-14, 14] (scores are moved EDGE = 1e-6 away from 0 and 1) and are counted in bins this narrow.
_LIMIT, _BINS_PER_UNIT = 14, 32
BINS = 2 * _LIMIT * _BINS_PER_UNIT
# Scores in one bin cannot be told apart: the variance of a uniform distribution over a bin is the least of a group's.
_LEAST_VARIANCE = 1.0 / (12 * _BINS_PER_UNIT**2)
# Held-out rates are compared at this many thresholds, which are quantiles of the scores; at fewer where cells are many.
_THRESHOLDS, _FEWEST_THRESHOLDS, _MOST_ENTRIES = 31, 7, 1 << 23
# For priors there are so many bins between two thresholds; they are counted in at most so many pieces of the rows.
_BINS_BETWEEN, _MOST_PIECES = 4, 256
KINDS = ("group", "site", "cell")
KAPPAS = (0.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, None)  # None: infinite, no row of a cell's own
# While candidates are compared, all have the prior to which cells give as if kappa were this.
_KAPPA_WHILE_CHOOSING = 100.0
# Borrowing too much where sites differ costs more than borrowing too little where they are alike. So, as in the rule of
# one standard error, the least kappa is taken whose held-out error is within this many standard errors of the best.
_MARGIN = 0.5
# The standard error of a rate over this many rows is 0.004: a cell that has them need not borrow.
_ENOUGH_ROWS = 20_000
# Cells that would borrow less than this share of their measure borrow nothing.
_LEAST_SHARE = 1e-3
# A cell's prior has at most this many rows; fewer where cells are many.
_MOST_PRIOR_ROWS, _FEWEST_PRIOR_ROWS, _MOST_ROWS_IN_ALL = 256, 32, 1 << 20


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Raw scores in log-odds, the cells and the weights of rows, each (n,), of one site or of several.

    Rows that are in folds take part in ``folds + 1`` fits: fit f leaves out fold f, the last one nothing. Without folds
    there is that last fit alone.
    """

    odds: Floats
    cells: Integers
    weights: Floats | None
    n_groups: int
    n_sites: int
    fold: Indices | None = None
    folds: int = 0
    people: Integers | None = None  # the person of each row, where somebody has several rows

    def in_folds(self, folds: int, rng: np.random.Generator, order: RowOrder | None = None) -> ScoredRows:
        """The rows in random folds, stratified by cell, those of one person together.

        ``order`` is that of the rows by cell and score, where it is known.
        """
        n_cells = self.n_groups * self.n_sites
        if self.people is not None:
            fold = assign_folds_by_person(self.people, self.cells, n_cells, folds, rng)
        else:
            order = RowOrder.of(self.odds, self.cells, n_cells) if order is None else order
            fold = order.in_input_order(assign_folds(order, folds, rng))
        return replace(self, fold=fold.astype(np.int64), folds=folds)

    def sums(self, values: Floats | None) -> Floats:
        """Weighted sum of a column (None: of 1) over each cell in every fit, (fits, sites, groups)."""
        if values is not None and self.weights is not None:
            values = values * self.weights
        column, size = self.weights if values is None else values, self.n_groups * self.n_sites
        keys = self.cells if self.fold is None else self.fold * size + self.cells
        parts = max(self.folds, 1)
        table = _histogram(keys, column, parts * size).reshape(parts, -1, self.n_groups)
        # Added up rather than subtracted: a cell without rows outside a fold has mass 0 there, not its rounding.
        return np.tensordot(np.vstack([1.0 - np.eye(parts), np.ones(parts)]), table, 1) if self.folds else table

    @cached_property
    def mass(self) -> Floats:
        """Weight of each cell, (fits, sites, groups)."""
        return self.sums(None)

    @cached_property
    def counts(self) -> Floats:
        """Effective number of rows of each cell, (fits, sites, groups)."""
        return self.mass if self.weights is None else _ratio(self.mass**2, self.sums(self.weights))

    @cached_property
    def means(self) -> Floats:
        """Mean log-odds of each cell, (fits, sites, groups)."""
        return _ratio(self.sums(self.odds), self.mass)


def may_borrow(pooling: str, sites: int, small_cells: int) -> bool:
    """Whether there is another site to borrow from, and for "auto" a cell with too few rows of its own."""
    return pooling != "none" and sites >= 2 and (pooling == "full" or small_cells > 0)


def cells_may_borrow(pooling: str, cells: Integers, weights: Floats | None, shape: tuple[int, int]) -> bool:
    """:func:`may_borrow`, counted from the rows of all sites; ``shape`` are the numbers of sites and groups."""
    if pooling == "none":
        return False
    mass = counts = _histogram(cells, weights, shape[0] * shape[1])
    if weights is not None:
        counts = _ratio(mass**2, _histogram(cells, weights**2, mass.size))
    sites = int(np.count_nonzero(mass.reshape(shape).sum(axis=1)))
    return may_borrow(pooling, sites, int(((counts > 0) & (counts < _ENOUGH_ROWS)).sum()))


def _ratio(above: Floats, below: Floats) -> Floats:
    """A quotient, and 0 where the denominator is 0."""
    return np.divide(above, below, out=np.zeros(np.broadcast(above, below).shape), where=below > 0)


def _histogram(places: Integers | Indices, weights: Floats | None, size: int) -> Floats:
    """Weight at every place."""
    return np.asarray(np.bincount(places, weights, size), dtype=np.float64)


def _bins(odds: Floats) -> Indices:
    return np.clip(((odds + _LIMIT) * _BINS_PER_UNIT).astype(np.int64), 0, BINS - 1)


def _own_shares(counts: Floats, kappa: float | None) -> Floats:
    """W: the weight of a cell's own rows in its measure."""
    return np.zeros_like(counts) if kappa is None else _ratio(counts, counts + kappa)


@dataclass(frozen=True)
class Choice:
    """Which prior cells shrink to, and its strength in rows (``kappa``; None: infinite).

    ``kind``: "none"; "group", the group's rows at all sites; "site", these moved in log-odds by the site's shift;
    "cell", moved by a shift of the cell's own.
    """

    kind: str = "none"
    kappa: float | None = 0.0


# --- First: where the groups lie, and how far their scores vary inside cells.


@dataclass(frozen=True, eq=False)
class ScoreMoments:
    """Sums over sites of what their cells hold, (fits, groups) unless said otherwise."""

    mass: Floats
    counts: Floats  # effective rows
    odds: Floats  # summed log-odds
    squares: Floats  # squared distances from the cells' means
    freedom: Floats  # what squares are divided by for an unbiased variance, as mass
    small_cells: Floats  # (1,)
    histogram: Floats  # mass by bin, all groups together, (bins,)


def score_moments(rows: ScoredRows) -> ScoreMoments:
    """Moments of the log-odds, and their histogram."""
    last, squares = rows.counts[-1], np.maximum(rows.sums(rows.odds**2) - rows.mass * rows.means**2, 0.0)
    freedom = rows.mass * (1.0 - 1.0 / np.maximum(rows.counts, 1.0))
    return ScoreMoments(
        mass=rows.mass.sum(axis=1),
        counts=rows.counts.sum(axis=1),
        odds=(rows.mass * rows.means).sum(axis=1),
        squares=squares.sum(axis=1),
        freedom=freedom.sum(axis=1),
        small_cells=np.array([np.count_nonzero((last > 0) & (last < _ENOUGH_ROWS))], dtype=np.float64),
        histogram=_histogram(_bins(rows.odds), rows.weights, BINS),
    )


@dataclass(frozen=True, eq=False)
class Reference:
    """Moments of the groups over all sites, and thresholds: known to every site; (fits, groups) if not said."""

    centre: Floats  # mean log-odds
    variance: Floats  # of log-odds inside cells; 0 where unknown
    counts: Floats  # effective rows of all sites
    mass: Floats  # of all sites, (groups,)
    cuts: Indices  # bins up to which held-out rows are counted, (thresholds,)
    edges: Indices  # finer ones for priors, which are interpolated after a shift, (edges,)

    @classmethod
    def of(cls, sums: ScoreMoments, sites: int) -> Reference:
        """From the total over so many sites."""
        fits, groups = sums.mass.shape
        unknown = sums.freedom <= 1e-9 * sums.mass
        variance = np.where(unknown, 0.0, np.maximum(_ratio(sums.squares, sums.freedom), _LEAST_VARIANCE))
        number = int(np.clip(_MOST_ENTRIES // max((fits - 1) * sites * groups, 1), _FEWEST_THRESHOLDS, _THRESHOLDS))
        # Quantiles: the bins in which parts of equal mass end, all but the last.
        below = np.cumsum(sums.histogram)
        cuts, edges = (
            np.unique(np.searchsorted(below, below[-1] * np.arange(1, parts) / parts))
            for parts in (number + 1, _BINS_BETWEEN * (number + 1))
        )
        return cls(_ratio(sums.odds, sums.mass), variance, sums.counts, sums.mass[-1], cuts, edges)

    @property
    def scale(self) -> Floats:
        """Upper bounds of the summed weights of the shifts of sites, and of each group's cells, (fits, 1 + groups).

        The weight of a shift is its inverse variance: at most its rows over the least variance of a row. Messages hold
        sums in these units, so that all are of order 1.
        """
        least = np.min(np.where(self.variance > 0, self.variance, np.inf), axis=1, initial=np.inf)
        of_sites = _ratio(self.counts.sum(axis=1), np.where(np.isinf(least), 0.0, least))
        return np.column_stack([of_sites, _ratio(self.counts, self.variance)])


# --- Second: how far sites, and cells inside them, differ beyond chance.


@dataclass(frozen=True, eq=False)
class ShiftRule:
    """Empirical Bayes estimates of cells' shifts, from the groups' moments and the variance of true shifts."""

    centre: Floats  # (fits, groups), as in the reference
    variance: Floats
    between: Floats  # variance of the true shifts of sites, and of each group's cells inside them, (fits, 1 + groups)

    @classmethod
    def none(cls, groups: int) -> ShiftRule:
        """The rule of no shifts."""
        return cls(np.zeros((1, groups)), np.zeros((1, groups)), np.zeros((1, 1 + groups)))

    @classmethod
    def of(cls, reference: Reference, between: Floats) -> ShiftRule:
        """The rule of every fit."""
        return cls(reference.centre, reference.variance, between)

    @property
    def plausible(self) -> bool:
        """Whether rows with log-odds in range can have such moments."""
        variances = np.concatenate([self.variance.ravel(), self.between.ravel()])
        return bool(np.all(np.abs(self.centre) <= _LIMIT) and np.all((variances >= 0) & (variances <= 4 * _LIMIT**2)))

    @property
    def last(self) -> ShiftRule:
        """The rule of the fit that leaves nothing out."""
        return ShiftRule(self.centre[-1:], self.variance[-1:], self.between[-1:])

    def shifts(self, rows: ScoredRows, kind: str) -> Floats:
        """How far each cell's prior is moved in log-odds, (fits, sites, groups).

        For the kind "group" by nothing, for "site" by one shift for all groups of a site, for "cell" by one for each
        group beside that. Estimated shifts shrink to 0 by their share of sampling variance.
        """
        if kind in ("none", "group"):
            return np.zeros_like(rows.mass)
        effects, noise = _effects(rows, self.centre, self.variance)
        between = self.between[:, None, :]
        shrunken = np.where(noise > 0, effects * _ratio(between, between + noise), 0.0)
        return shrunken[:, :, :1] + (shrunken[:, :, 1:] if kind == "cell" else np.zeros_like(rows.mass))


def _effects(rows: ScoredRows, centre: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Estimated shifts and their sampling variances, each (fits, sites, 1 + groups).

    First that of the site, from the means of its groups; then those of its cells from the site. A variance of 0 means
    that it is unknown.
    """
    mass, centre = rows.mass, centre[:, None, :]
    noise = _ratio(variance[:, None, :] * (mass > 0), rows.counts)
    of_site = mass.sum(axis=2)
    of_sites = _ratio((mass * (rows.means - centre)).sum(axis=2), of_site)
    known = ~np.any((mass > 0) & (noise == 0), axis=2)
    site_noise = np.where(known, _ratio((mass**2 * noise).sum(axis=2), of_site**2), 0.0)
    of_cells = np.where(mass > 0, rows.means - centre - of_sites[:, :, None], 0.0)
    return np.dstack([of_sites, of_cells]), np.dstack([site_noise, noise])


def shift_moments(rows: ScoredRows, reference: Reference) -> Floats:
    """What DerSimonian and Laird's estimate of the variance of true shifts needs, (5, fits, 1 + groups).

    Sums over sites of weights w (inverse variances, in units of the reference's scale), w x and w x^2 of the shifts x,
    w^2, and the number of shifts.
    """
    effects, noise = _effects(rows, reference.centre, reference.variance)
    weight = _ratio(np.ones_like(noise), noise * reference.scale[:, None, :])
    sums = (weight, weight * effects, weight * effects**2, weight**2, (noise > 0).astype(np.float64))
    return np.stack([each.sum(axis=1) for each in sums])


def shift_variance(sums: Floats, reference: Reference) -> Floats:
    """DerSimonian and Laird's estimate of the variance of true shifts, (fits, 1 + groups)."""
    weight, first, second, square, number = sums
    excess = reference.scale * (second - _ratio(first**2, weight)) - (number - 1.0)
    divisor = weight - _ratio(square, weight)
    found = _ratio(excess, reference.scale * divisor)
    return np.where(divisor > 1e-9 * weight, np.clip(found, 0.0, _LIMIT**2), 0.0)


# --- Third and fourth: candidates, and the held-out error of each.


def fold_histograms(rows: ScoredRows, reference: Reference, between: Floats) -> Floats:
    """Histograms of every kind of prior, each from the rows outside a fold, (kinds, folds, groups, edges + 1)."""
    rule, fold, size = ShiftRule.of(reference, between), rows.fold, reference.edges.size + 1
    assert fold is not None
    finer = np.searchsorted(reference.edges, np.arange(BINS)).astype(np.int32)
    share = 1.0 - _own_shares(rows.counts, _KAPPA_WHILE_CHOOSING)
    # In units of bins, so that one subtraction moves a row. Without any shift rows keep their bins.
    shifts = [_BINS_PER_UNIT * rule.shifts(rows, kind).reshape(len(share), -1) for kind in KINDS]
    moved = [shift.any() for shift in shifts]
    pieces = range(0, max(fold.size, 1), max(PIECE, fold.size // _MOST_PIECES))
    found = np.zeros((len(pieces), len(KINDS), rows.folds, rows.n_groups * size))

    def count(piece: int) -> None:
        some = slice(pieces[piece], pieces[piece] + pieces.step)
        cells, weights = rows.cells[some], None if rows.weights is None else rows.weights[some]
        in_bins = (rows.odds[some] + _LIMIT) * _BINS_PER_UNIT
        first = (cells % rows.n_groups * size).astype(np.int32)
        unmoved = first + finer.take(in_bins.astype(np.int32), mode="clip")
        for number in range(rows.folds):
            weight = share[number].ravel().take(cells)
            weight *= fold[some] != number
            if weights is not None:
                weight *= weights
            for k, shift in enumerate(shifts):
                place = unmoved
                if moved[k]:
                    place = finer.take((in_bins - shift[number].take(cells)).astype(np.int32), mode="clip")
                    place += first
                found[piece, k, number] = _histogram(place, weight, rows.n_groups * size)

    in_threads(count, range(len(pieces)), fold.size)
    return np.asarray(found.sum(axis=0).reshape(len(KINDS), rows.folds, rows.n_groups, size))


@dataclass(frozen=True, eq=False)
class CandidateErrors:
    """Sums over cells of each candidate's held-out error beyond the first one's, and of products of these.

    Errors are mean squared ones of a share below a threshold, times the cell's share of all mass.
    """

    excess: Floats  # (kinds, kappas)
    products: Floats  # (kinds, kappas, kappas)


def candidate_errors(rows: ScoredRows, reference: Reference, between: Floats, priors: Floats) -> CandidateErrors:
    """Held-out error of every kind and kappa less that of the first candidate, summed over cells."""
    errors = held_out_errors(rows, reference, between, priors)
    errors = (errors - errors[:1, :1]) / (reference.mass.sum() * max(reference.cuts.size, 1))
    return CandidateErrors(errors.sum(axis=2), np.einsum("kic,kjc->kij", errors, errors))


def held_out_errors(rows: ScoredRows, reference: Reference, between: Floats, priors: Floats) -> Floats:
    """Cross-validated error of every kind, kappa and cell, (kinds, kappas, cells).

    A candidate predicts a held-out fold's share of rows below each of some thresholds from the other folds alone. The
    squared errors are summed over thresholds and held-out rows, less what is the same for all candidates.
    """
    shape, cuts, folds = rows.mass.shape[1:], reference.cuts, rows.folds
    assert rows.fold is not None
    coarse = np.searchsorted(cuts, np.arange(BINS))[_bins(rows.odds)]
    size = shape[0] * shape[1]
    place = (rows.fold * size + rows.cells) * (cuts.size + 1) + coarse
    table = _histogram(place, rows.weights, folds * size * (cuts.size + 1))
    below = np.cumsum(table.reshape(folds, *shape, -1), axis=-1)
    total, errors = below.sum(axis=0), np.zeros((len(KINDS), len(KAPPAS), *shape))
    rule = ShiftRule.of(reference, between)
    shifts = [rule.shifts(rows, kind) for kind in KINDS]
    for number, held_out in enumerate(below):
        own, seen = (_ratio(part[..., :-1], part[..., -1:]) for part in (total - held_out, held_out))
        mass, shares = held_out[..., -1], [_own_shares(rows.counts[number], kappa) for kappa in KAPPAS]
        for k, shift in enumerate(shifts):
            prior = _prior_below(priors[k, number], shift[number], reference)
            apart, ahead = own - prior, prior - seen
            # The error of prior + W (own - prior) is quadratic in W.
            constant = mass * np.einsum("cgt,cgt->cg", prior, ahead - seen)
            linear = 2.0 * mass * np.einsum("cgt,cgt->cg", apart, ahead)
            square = mass * np.einsum("cgt,cgt->cg", apart, apart)
            for j, share in enumerate(shares):
                errors[k, j] += constant + share * (linear + share * square)
    return errors.reshape(len(KINDS), len(KAPPAS), -1)


def _prior_below(mass: Floats, shifts: Floats, reference: Reference) -> Floats:
    """Share of each cell's moved prior up to each cut, (sites, groups, cuts), from its mass by edges."""
    ends = np.concatenate([[0], reference.edges + 1, [BINS]]).astype(np.float64)
    below = np.concatenate([np.zeros((len(mass), 1)), np.cumsum(mass, axis=1)], axis=1)
    below = _ratio(below, below[:, -1:])
    at = reference.cuts + 1.0 - _BINS_PER_UNIT * shifts[..., None]
    if not shifts.any():  # the same for all sites
        at = at[:1]
    return np.stack([np.interp(at[:, a], ends, below[a]) for a in range(len(mass))], axis=1)


def least_error(sums: CandidateErrors, cells: int) -> Choice:
    """The choice from the errors in so many cells: the best kind, and the least kappa that is nearly as good as any."""
    kind, best = np.unravel_index(np.argmin(sums.excess), sums.excess.shape)
    excess, products = sums.excess[kind] - sums.excess[kind, best], sums.products[kind]
    squares = np.diag(products) - 2.0 * products[:, best] + products[best, best]
    error = np.sqrt(np.maximum(squares - excess**2 / cells, 0.0))
    kappa = KAPPAS[int(np.argmax(excess <= _MARGIN * error))]
    return Choice() if kappa == 0 else Choice(KINDS[kind], kappa)


def choose(
    rows: ScoredRows, pooling: str, folds: int, rng: np.random.Generator, order: RowOrder | None = None
) -> Choice:
    """For "full" the group and no row of one's own; for "auto" the candidate with the least error on held-out rows.

    ``rows`` are those of all sites; ``order`` is theirs by cell and score, where it is known.
    """
    if pooling == "full":
        return Choice("group", None)
    rows = rows.in_folds(folds, rng, order)
    reference = Reference.of(score_moments(rows), rows.n_sites)
    between = shift_variance(shift_moments(rows, reference), reference)
    priors = fold_histograms(rows, reference, between)
    return least_error(candidate_errors(rows, reference, between, priors), rows.n_sites * rows.n_groups)


# --- Last: the prior, and what each cell borrows of it.


@dataclass(frozen=True, eq=False)
class PriorSums:
    """Sums over sites of what their cells give to the prior, and how many borrow from it."""

    mass: Floats  # (groups, bins)
    odds: Floats  # summed log-odds less the cell's shift, (groups, bins)
    cells: Floats  # how many borrow, (1,)


def prior_sums(rows: ScoredRows, choice: Choice, rule: ShiftRule) -> PriorSums:
    """What cells give to the prior, which is as much mass as they take from it."""
    share, shifts = 1.0 - _own_shares(rows.counts[-1], choice.kappa), rule.last.shifts(rows, choice.kind)[-1]
    weight = share.ravel()[rows.cells] * (1.0 if rows.weights is None else rows.weights)
    residual = rows.odds - shifts.ravel()[rows.cells]
    place = rows.cells % rows.n_groups * BINS + _bins(residual)
    mass, odds = (_histogram(place, w, rows.n_groups * BINS) for w in (weight, weight * residual))
    shape, borrows = (rows.n_groups, BINS), _own(rows, choice.kappa, rows.mass[-1]) < 1.0
    return PriorSums(mass.reshape(shape), odds.reshape(shape), np.array([float(borrows.sum())]))


def _own(rows: ScoredRows, kappa: float | None, cell_mass: Floats) -> Floats:
    """W of every cell, (sites, groups); 1 where the cell borrows too little to count."""
    own = _own_shares(rows.counts[-1], kappa)
    return np.where((cell_mass == 0) | (1.0 - own < _LEAST_SHARE), 1.0, own)


@dataclass(frozen=True, eq=False)
class GroupPriors:
    """Every group's prior as a few scores with their shares, and how it is moved and weighted in a cell."""

    kind: str
    kappa: float | None  # None: infinite
    rule: ShiftRule
    odds: Floats  # (groups, scores)
    share: Floats  # of each of them in its group's prior; 0: none, (groups, scores)
    cells: int  # how many borrow

    @classmethod
    def of(cls, choice: Choice, rule: ShiftRule, sums: PriorSums) -> GroupPriors:
        """From the sums of all sites: neighbouring bins of about equal mass become one score."""
        cells = round(float(sums.cells[0]))
        most = int(np.clip(_MOST_ROWS_IN_ALL // max(cells, 1), _FEWEST_PRIOR_ROWS, _MOST_PRIOR_ROWS))
        odds, share = np.zeros((2, len(sums.mass), most))
        for a, (mass, total) in enumerate(zip(sums.mass, sums.odds, strict=True)):
            occupied = mass > 0
            part = _ratio(mass, mass.sum())[occupied]
            _, slot = np.unique(np.floor((np.cumsum(part) - 0.5 * part) * most), return_inverse=True)
            weight, summed = np.bincount(slot, mass[occupied]), np.bincount(slot, total[occupied])
            odds[a, : weight.size], share[a, : weight.size] = summed / weight, weight / mass.sum()
        return cls(choice.kind, choice.kappa, rule.last, odds, share, cells)


def group_priors(rows: ScoredRows, choice: Choice) -> GroupPriors:
    """The priors of all groups, from the rows of all sites in one process."""
    rule = ShiftRule.none(rows.n_groups)
    if choice.kind not in ("none", "group"):
        reference = Reference.of(score_moments(rows), rows.n_sites)
        rule = ShiftRule.of(reference, shift_variance(shift_moments(rows, reference), reference))
    return GroupPriors.of(choice, rule, prior_sums(rows, choice, rule))


@dataclass(frozen=True, eq=False)
class Borrowed:
    """What cells borrow: the share that stays their own rows', (sites, groups), and the rows of their priors.

    A prior row has a raw score, the codes of its cell and a weight, each (rows,).
    """

    own: Floats
    counts: Floats  # factor on the weights of each cell's own rows, (sites, groups)
    scores: Floats
    groups: npt.NDArray[np.int32]
    sites: npt.NDArray[np.int32]
    weights: Floats

    @property
    def cells(self) -> int:
        """How many cells borrow."""
        return int((self.own < 1.0).sum())

    @property
    def largest_share(self) -> float:
        """The largest share of a cell that is borrowed."""
        return float(1.0 - self.own.min())


def borrow(rows: ScoredRows, priors: GroupPriors, cell_mass: Floats | None = None) -> Borrowed:
    """What the cells of some rows borrow, so that each has the mass ``cell_mass`` (by default that of its own rows)."""
    cell_mass = rows.mass[-1] if cell_mass is None else cell_mass
    own, shifts = _own(rows, priors.kappa, cell_mass), priors.rule.shifts(rows, priors.kind)[-1]
    parts = []
    for a, borrowing in enumerate(own.T < 1.0):
        here, used = np.flatnonzero(borrowing), priors.share[a] > 0
        borrowed = ((1.0 - own) * cell_mass)[here, a][:, None]
        odds, weight = priors.odds[a, used] + shifts[here, a][:, None], priors.share[a, used] * borrowed
        parts.append((expit(odds).ravel(), np.full(odds.size, a), np.repeat(here, int(used.sum())), weight.ravel()))
    scores, groups, sites, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
    counts = own * _ratio(cell_mass, rows.mass[-1])
    return Borrowed(own, counts, scores, groups.astype(np.int32), sites.astype(np.int32), weights)
