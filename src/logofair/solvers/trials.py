"""Which prices to try next when one exchange carries a batch of them, so that few exchanges suffice.

The bound H that prices prove is convex in them and, with many rows, nearly smooth. A quadratic is fitted to the slopes
known so far, the nearest counting most; its minimiser is the next centre, and the batch lies around it on ellipsoids of
equal loss. Those wider than the centre's error surround the optimum, and the smallest of these decides the next gap.

Kinks remain: at certain prices every row of a group is worth nothing. Under equalized odds the optimum usually lies
there; the totals tell where that is (:class:`PriceMarks`), and the first batch surrounds these points.

Bounds and mixture never depend on the fit: a bad trial costs a round, not the certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd

import numpy as np
from scipy.optimize import nnls

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.notions import Rate
from logofair.solvers.decomposition import Decomposition
from logofair.solvers.problem import zero_sum

_FEWEST = 8  # trials of a round, whatever the size of its messages
_MESSAGE, _HEADER, _NUMBER = 4096, 300, 8  # bytes: of a message at most, of what surrounds the numbers, of a number
_NEAR = 1e-6  # of its size: how close to a kink the trials around it lie
_FLATTEST, _STEEPEST = 0.02, 1e3  # curvatures a fit may have, where 1 is usual
_LITTLE = 1e-6  # curvature lent to what has none, so that a least distance exists


@dataclass(frozen=True)
class PriceMarks:
    """What the totals tell about prices, each (groups, rates).

    ``base`` is the mass that each rate is a share of: a price of that size moves a row's worth by about 1. At the
    price ``idle`` all rows of a group are worth nothing (NaN: there is no such price).
    """

    base: Floats
    idle: Floats


def price_marks(mass: Floats, positives: Floats, rates: Sequence[Rate]) -> PriceMarks:
    """Read the marks off the groups' shares in all rows and in all rows that are positive.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.notions import EQUALIZED_ODDS
    >>> price_marks(np.array([0.6, 0.4]), np.array([0.3, 0.1]), EQUALIZED_ODDS.rates).idle.round(3).tolist()
    [[0.3, -0.3], [0.1, -0.3]]
    """
    base = np.stack([np.asarray(rate.denominator(mass, positives), dtype=float) for rate in rates], axis=-1)
    lines = np.array([[rate.constant for rate in rates], [rate.slope for rate in rates]])
    worth = np.array([-1.0, 2.0])  # of a row, as a line in its chance
    idle = np.full(base.shape, np.nan)
    for group in np.flatnonzero(base.min(axis=1) > 0):
        per_price = lines / base[group]
        price = np.linalg.lstsq(per_price, worth, rcond=None)[0]
        if np.abs(per_price @ price - worth).max() < 1e-9:
            idle[group] = price
    return PriceMarks(base, idle)


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
        marks = PriceMarks(np.full(shape, 1.0 / shape[0]), np.full(shape, np.nan))
    counts = np.isfinite(state.tolerance)
    wanted = _around(state, size, marks) if tried.gains.size else _first(counts, size, marks)
    chosen = np.zeros((0, *shape))
    for prices in zero_sum(wanted, counts[None], 1):
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
    ratio = np.clip(1e-3 ** (1.0 / levels), 0.4, 0.7)
    return np.asarray(largest * ratio ** np.arange(min(levels, 20)))


def _around(state: Decomposition, size: int, marks: PriceMarks) -> Floats:
    """The fit's minimiser, the master's prices, points between these and the best, and ellipsoids of equal loss."""
    axes = _axes(np.isfinite(state.tolerance), marks.base)
    if axes.shape[1] == 0:
        return np.zeros((0, *state.tolerance.shape))
    found = state.incumbent
    gap = max(found.optimality_gap, 1e-9)
    to = np.linalg.pinv(axes)
    master, best = to @ found.near_prices.ravel(), to @ found.centre.ravel()
    centre, curvature = _fitted(state, axes, best, gap)
    loss, main = np.linalg.eigh(curvature)
    steps = np.concatenate([main / np.sqrt(loss), -main / np.sqrt(loss)], axis=1).T
    between = 0.5 * (master + best)
    points = [np.array([centre, master, between, 0.5 * (centre + best)])]
    if size == 1 and state.tried.gains.size % 2 == 0:  # the master's prices get their turn too
        points[0] = points[0][[1, 0, 2, 3]]
    # Near a kink the fit is poor and the master's prices are good: look around both.
    for radius in _radii((size - 4) // 2, len(steps), np.sqrt(gap)):
        points += [centre + radius * steps, between + radius * steps]
    return np.asarray((np.concatenate(points) @ axes.T).reshape(-1, *state.tolerance.shape))


def _axes(counts: Booleans, base: Floats) -> Floats:
    """Axes of the prices that sum to 0, (entries, axes), along which curvatures are of order 1."""
    columns = []
    for k in range(counts.shape[1]):
        members = np.flatnonzero(counts[:, k] & (base[:, k] > 0))
        unit = np.sqrt(base[members, k])
        directions = np.linalg.qr(np.column_stack([unit, np.eye(members.size)[:, :-1]]))[0][:, 1:]
        for direction in directions.T:
            column = np.zeros(counts.shape)
            column[members, k] = unit * direction
            columns.append(column.ravel())
    return np.array(columns).reshape(len(columns), counts.size).T


def _fitted(state: Decomposition, axes: Floats, start: Floats, gap: float) -> tuple[Floats, Floats]:
    """Minimiser and curvature of a quadratic near it, where the known cuts allow the minimum of H to be."""
    tried, tolerance = state.tried, state.tolerance
    points = tried.prices.reshape(tried.gains.size, -1) @ np.linalg.pinv(axes).T
    slopes = tried.rates.reshape(tried.gains.size, -1) @ axes
    worth = np.where(np.isfinite(tolerance), tolerance, 0.0).ravel()
    rows, limits = _localisation(tried.gains, slopes, axes, worth, state.incumbent.bound + 0.1 * gap)
    d, metric, near = start.size, np.eye(start.size), 1e-2
    centre, curvature = start, metric
    aim = np.concatenate([np.zeros(d), 0.5 * worth[worth > 0]])
    square = _LITTLE * np.eye(aim.size)
    for _ in range(4):
        slope, curvature = _regress(points - centre, slopes, curvature, metric, near)
        metric, near = curvature, 0.1 * gap
        square[:d, :d], aim[:d] = curvature, -slope - curvature @ centre
        found = _minimise(square, aim, rows, limits)
        centre = centre if found is None else found[:d]
    return centre, curvature


def _localisation(gains: Floats, slopes: Floats, axes: Floats, worth: Floats, bound: float) -> tuple[Floats, Floats]:
    """Where the minimum is, as rows and limits on a point and the sizes of its prices: no cut is above the bound."""
    priced = np.flatnonzero(worth > 0)
    t, size = gains.size, np.eye(priced.size)
    cuts = np.column_stack([-slopes, np.tile(0.5 * worth[priced], (t, 1))])
    rows = [cuts, np.column_stack([axes[priced], -size]), np.column_stack([-axes[priced], -size])]
    return np.concatenate(rows), np.concatenate([bound - gains, np.zeros(2 * priced.size)])


def _regress(away: Floats, slopes: Floats, prior: Floats, metric: Floats, near: float) -> tuple[Floats, Floats]:
    """Fit ``slope - curvature @ away`` to slopes, points within a loss of ``near`` counting most."""
    d = away.shape[1]
    i, j = np.triu_indices(d)
    weight = 1.0 / (near + np.einsum("ti,ij,tj->t", away, metric, away))
    terms = np.zeros((len(away), d, d + i.size))
    terms[:, np.arange(d), np.arange(d)] = 1.0
    terms[:, i, d + np.arange(i.size)] -= away[:, j]
    terms[:, j, d + np.arange(i.size)] -= np.where(i != j, away[:, i], 0.0)
    white = np.linalg.cholesky(np.linalg.inv(metric)).T
    matrix = (np.einsum("kj,tjq->tkq", white, terms) * weight[:, None, None]).reshape(-1, d + i.size)
    target = ((slopes @ white.T) * weight[:, None]).ravel()
    pull = 1e-3 * np.sqrt(np.mean(np.sum(matrix[:, d:] ** 2, axis=0)))
    matrix = np.concatenate([matrix, pull * np.eye(i.size, d + i.size, d)])
    fitted = np.linalg.lstsq(matrix, np.append(target, pull * prior[i, j]), rcond=None)[0]
    curvature = np.zeros((d, d))
    curvature[i, j] = curvature[j, i] = fitted[d:]
    size, main = np.linalg.eigh(curvature)
    return fitted[:d], (main * np.clip(size, _FLATTEST, _STEEPEST)) @ main.T


def _minimise(square: Floats, aim: Floats, rows: Floats, limits: Floats) -> Floats | None:
    """Minimise ``z square z / 2 + aim z`` where ``rows z <= limits``, as a least distance (Lawson and Hanson, 23.4)."""
    shape = np.linalg.inv(np.linalg.cholesky(square)).T
    free = -shape.T @ aim
    known = np.vstack([-(rows @ shape).T, rows @ shape @ free - limits])
    scale = np.linalg.norm(known, axis=0)
    try:
        known /= np.where(scale > 0, scale, 1.0)
        forces, _ = nnls(known, np.eye(1, len(known), len(known) - 1)[0])
    except RuntimeError:  # it gave up
        return None
    left = known @ forces
    left[-1] -= 1.0
    return shape @ (free - left[:-1] / left[-1]) if left[-1] < -1e-12 else None
