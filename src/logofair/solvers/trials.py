"""Which prices to try next when one exchange carries a batch of them, so that few exchanges suffice.

The bound H that prices prove is convex in them and, with many rows, nearly smooth. A quadratic is fitted to the slopes
known so far, the nearest counting most; its minimiser is the next centre, and the batch lies around it on ellipsoids of
equal loss. Those wider than the centre's error surround the optimum, and the smallest of these decides the next gap.

Kinks remain: at certain prices every row of a group is worth nothing. Under equalized odds the optimum usually lies
there; the totals tell where that is (:class:`PriceMarks`), and the first batch surrounds these points.

Bounds and mixture never depend on the fit: a bad trial costs a round, not the certificate. The prices are the same on
every machine (:mod:`logofair.arithmetic`), so that a site can tell whether a server asks what it has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import TypeAlias

import numpy as np

from logofair.arithmetic import principal_axes, solve
from logofair.arithmetic import product as matrix_product
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.notions import Rate
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.decomposition import Decomposition
from logofair.solvers.problem import zero_sum

_FEWEST = 8  # trials of a round, whatever the size of its messages
_MESSAGE, _HEADER, _NUMBER = 4096, 300, 8  # bytes: of a message at most, of what surrounds the numbers, of a number
_NEAR = 1e-6  # of its size: how close to a kink the trials around it lie
_FLATTEST, _STEEPEST = 0.02, 1e3  # curvatures a fit may have, where 1 is usual
_ROW_WORTH = np.array([-1.0, 2.0])  # of a row that is accepted, as a line in its chance
_LITTLE = 1e-6  # curvature lent to what has none, so that a least distance exists
_WORTHLESS = 1e-12  # a least distance is found when no force against it is worth more


@dataclass(frozen=True)
class PriceMarks:
    """What the totals tell about prices, each (groups, rates) unless said otherwise.

    ``base`` is the mass that each rate is a share of: a price of that size moves a row's worth by about 1. At the
    price ``idle`` all rows of a group are worth nothing (NaN: there is no such price). No rule gains more accuracy
    over rejecting everybody than ``gain``.
    """

    base: Floats
    idle: Floats
    gain: float

    def largest(self, tolerance: Floats) -> Floats:
        """What a unit of each tolerance can be worth: half the sum of a rate's prices by size, at most, (rates,).

        At prices p the bound is ``H(p) = V(p) + sum_k tolerance_k s_k(p)`` with that half sum ``s_k`` and the clients'
        best value ``V``. Rejecting everybody keeps all local tolerances, gains nothing and has rates 0, so
        ``V(p) >= 0``. So at an optimum, and at any p with a bound as good as that of no prices,
        ``tolerance_k s_k(p) <= H(p) <= H(0) = V(0) <= gain``.

        At tolerance 0 totals set no limit (where local tolerances are 0, global rates differ by who lives where alone,
        and closing a gap of a millionth may cost a hundredth of accuracy), but a rule needs none: under prices up to a
        limit the best rule is the one that is best if excess costs the limit. It is worth no less than rejecting
        everybody, so it exceeds a tolerance by no more than gain over limit. The limit is where that counts as nothing.

        Prices up to the sum of the bases are always worth a try: with selection rates and no local tolerances an
        optimum lies there.
        """
        least = np.maximum(np.min(tolerance, axis=0), LARGEST_VIOLATION)
        return np.asarray(np.maximum(self.base.sum(axis=0), self.gain / least))

    def within(self, prices: Floats, tolerance: Floats) -> Floats:
        """Prices (t, groups, rates), those of a rate made smaller where together they exceed the largest."""
        size, largest = 0.5 * np.abs(prices).sum(axis=1, keepdims=True), self.largest(tolerance)
        return np.where(size > largest, prices * (largest / np.maximum(size, largest)), prices)


def price_marks(mass: Floats, positives: Floats, rates: Sequence[Rate]) -> PriceMarks:
    """Read the marks off the groups' shares in all rows and in all rows that are positive.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.notions import EQUALIZED_ODDS
    >>> price_marks(np.array([0.6, 0.4]), np.array([0.3, 0.1]), EQUALIZED_ODDS.rates).idle.round(3).tolist()
    [[0.3, -0.3], [0.1, -0.3]]
    """
    base = np.array([rate.denominator(mass, positives) for rate in rates], dtype=float).reshape(-1, mass.size).T
    lines = np.array([[rate.constant for rate in rates], [rate.slope for rate in rates]])
    idle = np.full(base.shape, np.nan)
    for group in np.flatnonzero((base > 0).all(axis=1)) if rates else ():
        per_price = lines / base[group]
        price = _least_prices(per_price)
        if np.abs((per_price * price).sum(axis=1) - _ROW_WORTH).max() < 1e-9:
            idle[group] = price
    return PriceMarks(base, idle, float(positives.sum()))


def _least_prices(per_price: Floats) -> Floats:
    """The least prices that take a row's worth away, as far as prices can; lines (2, rates) to prices (rates,)."""
    constant, slope = per_price
    of_constant, of_slope, of_both = ((one * other).sum() for one, other in ((constant,) * 2, (slope,) * 2, per_price))
    volume = of_constant * of_slope - of_both * of_both
    if volume <= 1e-12 * of_constant * of_slope:  # all rates are one, up to their size
        return np.asarray((per_price * _ROW_WORTH[:, None]).sum(axis=0) / (of_constant + of_slope))
    first, second = _ROW_WORTH
    by_constant, by_slope = of_slope * first - of_both * second, of_constant * second - of_both * first
    return np.asarray((constant * by_constant + slope * by_slope) / volume)


def largest_size(groups: int, rates: int, spare: int = 0) -> int:
    """Number of trials whose answers fit into one message of 4 KB beside ``spare`` other bytes; at least one."""
    return max(1, (_MESSAGE - _HEADER - spare) // (_NUMBER * (2 + groups * rates)))


def trial_size(groups: int, rates: int, spare: int = 0) -> int:
    """Number of trials per round that keeps rounds few: more of them hardly help, fewer cost rounds."""
    return min(max(_FEWEST, largest_size(groups, rates, spare)), 19 + 32 * ((groups - 1) * rates - 1))


def trial_prices(state: Decomposition, size: int, marks: PriceMarks | None = None) -> Floats:
    """Prices to try in the next round: at most ``size`` new ones, each summing to 0 over the groups that count.

    Those of the first round contain the zero price. Without marks scales are guessed and kinks have to be found.
    """
    shape, tried = state.tolerance.shape, state.tried
    if marks is None:
        marks = PriceMarks(np.full(shape, 1.0 / shape[0]), np.full(shape, np.nan), 1.0)
    counts = np.isfinite(state.tolerance)
    wanted = _around(state, size, marks) if tried.gains.size else _first(counts, size, marks)
    chosen = np.zeros((0, *shape))
    for prices in marks.within(zero_sum(wanted, counts[None], 1), state.tolerance):
        known = np.concatenate([tried.prices, chosen])
        close = np.abs(known - prices).max(axis=(1, 2), initial=0.0) <= 1e-13 * (1.0 + np.abs(prices).max())
        if len(chosen) < size and not close.any():
            chosen = np.concatenate([chosen, prices[None]])
    return chosen


def _first(counts: Booleans, size: int, marks: PriceMarks) -> Floats:
    """No price at all; prices at the kinks; then one group against all others, up to what its rows are worth."""
    found = [np.zeros((1, *counts.shape)), *_kinks(counts, marks)]
    rays = []
    for k, group in product(range(counts.shape[1]), range(counts.shape[0])):
        others = counts[:, k] & (np.arange(counts.shape[0]) != group)
        weight = np.where(others, marks.base[:, k], 0.0)
        if counts[group, k] and weight.sum() > 0:
            ray = np.zeros(counts.shape)
            ray[:, k] = -weight / weight.sum()
            ray[group, k] = 1.0
            rays += [sign * min(marks.base[group, k], weight.sum()) * ray for sign in (1.0, -1.0)]
    if rays:
        left = size - sum(map(len, found))
        found += [radius * np.array(rays) for radius in _radii(left, len(rays), 1.0)]
    return np.concatenate(found)


def _kinks(counts: Booleans, marks: PriceMarks) -> list[Floats]:
    """Every group but one idle, and that one paying for all; with two groups, also what surrounds these points."""
    members = np.flatnonzero(counts.all(axis=1) & np.isfinite(marks.idle).all(axis=1))
    if members.size < max(2, int(counts.any(axis=1).sum())):
        return []
    payers = members.tolist()
    found = [np.array([_paid(marks.idle, members, payer) for payer in payers])]
    if len(payers) == 2:
        for step in _directions(counts.shape[1]):
            around = marks.idle * (1.0 + _NEAR * step * np.sign(marks.idle))
            found.append(np.array([_paid(around, members, payer) for payer in payers]))
    return found


def _paid(idle: Floats, members: Indices, payer: int) -> Floats:
    """All groups but one at their idle prices, and that one paying for them."""
    prices = np.zeros(idle.shape)
    prices[members] = idle[members]
    prices[payer] -= prices.sum(axis=0)
    return prices


def _directions(rates: int) -> Floats:
    """Directions all around, in small whole numbers."""
    reach = 2 if rates <= 2 else 1
    steps = [step for step in product(range(-reach, reach + 1), repeat=rates) if gcd(*step) == 1]
    return np.array(steps, dtype=float)


def _radii(points: int, per_radius: int, largest: float) -> Floats:
    """Falling radii that use up a number of points, over three orders of magnitude where it allows that."""
    levels = max(1, -(-points // per_radius))
    ratio = np.rint(1024.0 * np.clip(1e-3 ** (1.0 / levels), 0.4, 0.7)) / 1024.0  # no two machines round powers alike
    return np.cumprod(np.append(largest, np.full(min(levels, 20) - 1, ratio)))


def _around(state: Decomposition, size: int, marks: PriceMarks) -> Floats:
    """The fit's minimiser, the master's prices, points between these and the best, and ellipsoids of equal loss."""
    axes = _Axes.of(np.isfinite(state.tolerance), marks.base)
    if not axes.size:
        return np.zeros((0, *state.tolerance.shape))
    found = state.incumbent
    gap = max(found.optimality_gap, 1e-9)
    master, best = axes.points(np.stack([found.near_prices, found.centre]))
    centre, (loss, main) = _fitted(state, axes, best, gap)
    steps = np.concatenate([main / np.sqrt(loss), -main / np.sqrt(loss)], axis=1).T
    between = 0.5 * (master + best)
    points = [np.array([centre, master, between, 0.5 * (centre + best)])]
    if size == 1 and state.tried.gains.size % 2 == 0:  # the master's prices get their turn too
        points[0] = points[0][[1, 0, 2, 3]]
    # Near a kink the fit is poor and the master's prices are good: look around both.
    for radius in _radii((size - 4) // 2, len(steps), np.sqrt(gap)):
        points += [centre + radius * steps, between + radius * steps]
    prices = matrix_product(np.concatenate(points), axes.along.T)
    return prices.reshape(-1, *state.tolerance.shape)


@dataclass(frozen=True)
class _Axes:
    """Axes of the prices that sum to 0, along which curvatures are of order 1."""

    along: Floats  # the prices one unit along each, (entries, axes)
    onto: Floats  # (entries, axes): the coordinates of prices are their products with these

    @classmethod
    def of(cls, counts: Booleans, base: Floats) -> _Axes:
        """For each rate a basis of what is orthogonal to the roots of the base: a reflection's columns but one."""
        along: list[Floats] = []
        onto: list[Floats] = []
        for k in range(counts.shape[1]):
            members = np.flatnonzero(counts[:, k] & (base[:, k] > 0))
            unit = np.sqrt(base[members, k])
            mirror = unit + np.sqrt((unit * unit).sum()) * np.eye(1, members.size)[0]
            square = (mirror * mirror).sum()
            for axis in range(1, members.size):
                direction = np.eye(1, members.size, axis)[0] - mirror * (2.0 * mirror[axis] / square)
                for columns, column in ((along, unit * direction), (onto, direction / unit)):
                    columns.append(np.zeros(counts.shape))
                    columns[-1][members, k] = column
        return cls(*(np.array(columns).reshape(len(columns), counts.size).T for columns in (along, onto)))

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.along.shape[1])

    def points(self, prices: Floats) -> Floats:
        """The coordinates of prices, (t, groups, rates) to (t, axes)."""
        return matrix_product(prices.reshape(len(prices), -1), self.onto)

    def slopes(self, rates: Floats) -> Floats:
        """What rates, (t, groups, rates), are along the axes, (t, axes)."""
        return matrix_product(rates.reshape(len(rates), -1), self.along)


# Eigenvalues and eigenvectors of a curvature.
_Curvature: TypeAlias = tuple[Floats, Floats]


def _fitted(state: Decomposition, axes: _Axes, start: Floats, gap: float) -> tuple[Floats, _Curvature]:
    """Minimiser and curvature of a quadratic near it, where the known cuts allow the minimum of H to be."""
    tried, tolerance = state.tried, state.tolerance
    points, slopes = axes.points(tried.prices), axes.slopes(tried.rates)
    worth = np.where(np.isfinite(tolerance), tolerance, 0.0).ravel()
    rows, limits = _localisation(tried.gains, slopes, axes.along, worth, state.incumbent.bound + 0.1 * gap)
    sizes = 0.5 * worth[worth > 0]
    centre, near = start, 1e-2
    curvature = np.ones(start.size), np.eye(start.size)
    for _ in range(4):
        slope, curvature = _regress(points - centre, slopes, curvature, near)
        near = 0.1 * gap
        found = _minimise(curvature, -slope, centre, sizes, rows, limits)
        centre = centre if found is None else found
    return centre, curvature


def _localisation(gains: Floats, slopes: Floats, axes: Floats, worth: Floats, bound: float) -> tuple[Floats, Floats]:
    """Where the minimum is, as rows and limits on a point and the sizes of its prices: no cut is above the bound."""
    priced = np.flatnonzero(worth > 0)
    t, size = gains.size, np.eye(priced.size)
    cuts = np.column_stack([-slopes, np.tile(0.5 * worth[priced], (t, 1))])
    rows = [cuts, np.column_stack([axes[priced], -size]), np.column_stack([-axes[priced], -size])]
    return np.concatenate(rows), np.concatenate([bound - gains, np.zeros(2 * priced.size)])


def _regress(away: Floats, slopes: Floats, known: _Curvature, near: float) -> tuple[Floats, _Curvature]:
    """Fit ``slope - curvature @ away`` to slopes, points within a loss of ``near`` counting most.

    The curvature known before measures losses, and is what the fit keeps to where points say nothing.
    """
    (t, d), (loss, main) = away.shape, known
    i, j = np.triu_indices(d)
    # Along the main axes and in their units, losses are squared distances.
    weight = 1.0 / (near + ((matrix_product(away, main) * np.sqrt(loss)) ** 2).sum(axis=1))
    white = main / np.sqrt(loss)
    terms = np.zeros((d, t, d + i.size))
    terms[np.arange(d), :, np.arange(d)] = 1.0
    terms[i, :, d + np.arange(i.size)] -= away.T[j]
    terms[j, :, d + np.arange(i.size)] -= np.where(i != j, away[:, i], 0.0).T
    matrix = matrix_product(white.T, terms.reshape(d, -1)).reshape(d, t, -1) * weight[:, None]
    matrix, target = matrix.reshape(d * t, -1), (matrix_product(slopes, white) * weight[:, None]).T.ravel()
    pull = 1e-6 * (matrix[:, d:] ** 2).sum(axis=0).mean() or 1.0
    square, aim = matrix_product(matrix.T, matrix), matrix_product(matrix.T, target[:, None])[:, 0]
    square[np.arange(d, aim.size), np.arange(d, aim.size)] += pull
    aim[d:] += pull * matrix_product(main * loss, main.T)[i, j]
    fitted = solve(square, aim)
    curvature = np.zeros((d, d))
    curvature[i, j] = curvature[j, i] = fitted[d:]
    sizes, main = principal_axes(curvature)
    return fitted[:d], (np.clip(sizes, _FLATTEST, _STEEPEST), main)


def _minimise(
    curvature: _Curvature, slope: Floats, start: Floats, sizes: Floats, rows: Floats, limits: Floats
) -> Floats | None:
    """Minimise a quadratic, given by its slope and curvature at a start, where ``rows z <= limits``.

    z is a point and the sizes of its prices, which cost ``sizes`` each. It is found as a least distance (Lawson and
    Hanson, 23.4).
    """
    loss, main = curvature
    d = start.size
    shape = np.zeros((d + sizes.size, d + sizes.size))  # in its units the quadratic is a squared distance
    shape[:d, :d] = main / np.sqrt(loss)
    shape[np.arange(d, len(shape)), np.arange(d, len(shape))] = 1.0 / np.sqrt(_LITTLE)
    downhill = -np.append(slope - matrix_product(main * loss, matrix_product(main.T, start[:, None]))[:, 0], sizes)
    free = matrix_product(shape.T, downhill[:, None])
    shaped = matrix_product(rows, shape)
    known = np.vstack([-shaped.T, matrix_product(shaped, free)[:, 0] - limits])
    scale = np.sqrt((known * known).sum(axis=0))
    known /= np.where(scale > 0, scale, 1.0)
    forces = _forces(known)
    if forces is None:
        return None
    left = matrix_product(known, forces[:, None])[:, 0]
    left[-1] -= 1.0
    if left[-1] >= -1e-12:
        return None
    return matrix_product(shape, free - (left[:-1] / left[-1])[:, None])[:d, 0]


def _forces(known: Floats) -> Floats | None:
    """Forces >= 0 along unit columns that come nearest to the last axis (Lawson and Hanson, 23.3); None: no end."""
    worth, square = known[-1].copy(), matrix_product(known.T, known)
    forces, active = np.zeros(worth.size), np.zeros(0, dtype=np.int64)
    barred = np.zeros(worth.size, dtype=bool)  # what rounding alone has made look worth something
    for _ in range(3 * worth.size):
        gain = worth - matrix_product(square[:, active], forces[active, None])[:, 0]
        gain[active], gain[barred] = 0.0, 0.0
        best = int(np.argmax(gain))
        if gain[best] <= _WORTHLESS:
            return forces
        active = np.append(active, best)
        while active.size and (wanted := solve(square[np.ix_(active, active)], worth[active])).min() <= 0:
            now = forces[active]
            share = np.where(wanted <= 0, now / np.where(wanted <= 0, now - wanted, 1.0), 2.0)
            forces[active] = np.where(share > share.min(), now + share.min() * (wanted - now), 0.0)
            active = active[share > share.min()]
        if active.size:
            forces[active] = wanted
        barred = (np.arange(worth.size) == best) & (forces[best] == 0) | (barred & (forces[best] == 0))
    return None
