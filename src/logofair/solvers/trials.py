"""Which prices to try next when one exchange carries a batch of them, so that few exchanges suffice.

The bound H that prices prove is convex in them and, with many rows, nearly smooth. A quadratic is fitted to the slopes
known so far, the nearest counting most; its minimiser is the next centre, and the batch lies around it on ellipsoids of
equal loss. Those wider than the centre's error surround the optimum, and the smallest of these decides the next gap.

Kinks remain: at certain prices every row of a group is worth nothing. Under equalized odds the optimum usually lies
there; the totals tell where that is (:class:`PriceMarks`), and the first batch surrounds these points.

Where the requirements are more than tolerances, prices need not sum to 0, and what the requirements are worth at them
is a cone in the place of sizes: the most of prices times rates inside the limits (:mod:`logofair.solvers.limits`), of
which the rates that prices preferred so far are known. As long as no mixture of the answers is within all limits, the
prices follow the direction in which one would be (phase one), further and further.

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
from logofair.requirements import SELECTED
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.decomposition import Decomposition

_FEWEST = 8  # trials of a round, whatever the size of its messages
_MESSAGE, _HEADER, _NUMBER = 4096, 300, 8  # bytes: of a message at most, of what surrounds the numbers, of a number
_NEAR = 1e-6  # of its size: how close to a kink the trials around it lie
_FLATTEST, _STEEPEST = 0.02, 1e3  # curvatures a fit may have, where 1 is usual
ACCURACY_WORTH = (-1.0, 2.0)  # of a row that is accepted, as a line in its chance
_LITTLE = 1e-6  # curvature lent to what has none, so that a least distance exists
_SAME = 1e-10  # squared distance below which a column is a mixture of others, as far as 40 bits tell
_WORTHLESS = 1e-12  # a least distance is found when no force against it is worth more


@dataclass(frozen=True)
class PriceMarks:
    """What the totals tell about prices, each (groups, rates) unless said otherwise.

    ``base`` is the mass that each rate is a share of: a price of that size moves a row's worth by about 1. At the
    price ``idle`` all rows of a group are worth nothing (NaN: there is no such price). No rule gains more
    over rejecting everybody than ``gain``, and none loses more than ``loss``.
    """

    base: Floats
    idle: Floats
    gain: float
    loss: float = 0.0

    def largest(self, state: Decomposition) -> Floats:
        """What a unit of each tolerance can be worth: half the sum of a rate's prices by size, at most, (rates,).

        At prices p the bound is ``H(p) = V(p) + sum_k tolerance_k s_k(p)`` with that half sum ``s_k`` and the sites'
        best value ``V``. Rejecting everybody keeps all local tolerances, gains nothing and has rates 0, so
        ``V(p) >= 0``. So at an optimum, and at any p with a bound as good as that of no prices,
        ``tolerance_k s_k(p) <= H(p) <= H(0) = V(0) <= gain``.

        At tolerance 0 totals set no limit (where local tolerances are 0, global rates differ by who lives where alone,
        and closing a gap of a millionth may cost a hundredth of accuracy), but a rule needs none: under prices up to a
        limit the best rule is the one that is best if excess costs the limit. It is worth no less than rejecting
        everybody, so it exceeds a tolerance by no more than gain over limit. The limit is where that counts as nothing.

        The same argument limits the prices of everything else. Let each row of the requirements give way at a price
        of ``limit`` per unit: the bound is then that of prices up to the limit, whatever the rows are. A rule within
        all requirements, if there is one, loses ``loss`` at most, so the best rule of that program, which gains
        ``gain`` at most, exceeds them by no more than (gain + loss) over limit in all. Where there is none, prices
        of that size prove it unless they are missed by less: some bound is then below -loss. A ratio compares a rate
        times the ratio, and a rate may have a gap, a ratio and a floor at once: its prices sum to three limits at most.
        Where rejecting everybody is within all limits, so that nothing is worth less than 0, tolerances keep theirs.

        Prices up to the sum of the bases are always worth a try: with selection rates and no local tolerances an
        optimum lies there.
        """
        least = np.maximum(np.min(state.tolerance, axis=0, initial=np.inf), LARGEST_VIOLATION)
        found = np.maximum(self.base.sum(axis=0), self.gain / least)
        if state.limits is None:
            return np.asarray(found)
        most = 3.0 * (self.gain + self.loss) / LARGEST_VIOLATION
        tame = state.rejecting and not np.any(state.limits.least > 0)
        return np.where(state.limited, most, found if tame else most)

    def within(self, prices: Floats, state: Decomposition) -> Floats:
        """Prices (t, groups, rates), those of a rate made smaller where together they exceed the largest."""
        size, largest = 0.5 * np.abs(prices).sum(axis=1, keepdims=True), self.largest(state)
        return np.where(size > largest, prices * (largest / np.maximum(size, largest)), prices)


def price_marks(
    mass: Floats, positives: Floats, rates: Sequence[Rate], row_worth: tuple[float, float] = ACCURACY_WORTH
) -> PriceMarks:
    """Read the marks off the groups' shares in all rows and in all rows that are positive.

    ``row_worth`` is what accepting a row adds, as a line in its chance: constant and slope. The share of everybody that
    is selected is a rate of the first group's place.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.notions import EQUALIZED_ODDS
    >>> price_marks(np.array([0.6, 0.4]), np.array([0.3, 0.1]), EQUALIZED_ODDS.rates).idle.round(3).tolist()
    [[0.3, -0.3], [0.1, -0.3]]
    """
    base = np.array([rate.denominator(mass, positives) for rate in rates], dtype=float).reshape(-1, mass.size).T
    everybody = np.array([rate == SELECTED for rate in rates], dtype=bool)
    base[:, everybody] = np.eye(mass.size, 1)
    lines = np.array([[rate.constant for rate in rates], [rate.slope for rate in rates]])
    idle, own = np.full(base.shape, np.nan), np.flatnonzero(~everybody)
    for group in np.flatnonzero((base[:, own] > 0).all(axis=1)) if own.size else ():
        per_price = lines[:, own] / base[group, own]
        price = _least_prices(per_price, np.array(row_worth))
        if np.abs((per_price * price).sum(axis=1) - np.array(row_worth)).max() < 1e-9:
            idle[group] = 0.0
            idle[group, own] = price
    constant, slope = row_worth
    gain, loss = (constant + slope) * float(positives.sum()), -constant * float((mass - positives).sum())
    return PriceMarks(base, idle, gain, loss)


def _least_prices(per_price: Floats, row_worth: Floats) -> Floats:
    """The least prices that take a row's worth away, as far as prices can; lines (2, rates) to prices (rates,)."""
    constant, slope = per_price
    of_constant, of_slope, of_both = ((one * other).sum() for one, other in ((constant,) * 2, (slope,) * 2, per_price))
    volume = of_constant * of_slope - of_both * of_both
    if volume <= 1e-12 * of_constant * of_slope:  # all rates are one, up to their size
        return np.asarray((per_price * row_worth[:, None]).sum(axis=0) / (of_constant + of_slope))
    first, second = row_worth
    by_constant, by_slope = of_slope * first - of_both * second, of_constant * second - of_both * first
    return np.asarray((constant * by_constant + slope * by_slope) / volume)


def largest_size(groups: int, rates: int, spare: int = 0) -> int:
    """Number of trials whose answers fit into one message of 4 KB beside ``spare`` other bytes; at least one."""
    return max(1, (_MESSAGE - _HEADER - spare) // (_NUMBER * (2 + groups * rates)))


def trial_size(groups: int, rates: int, spare: int = 0, axes: int | None = None) -> int:
    """Number of trials per round that keeps rounds few: more of them hardly help, fewer cost rounds.

    ``axes`` is how many prices may be chosen freely: where all of a rate sum to 0, one fewer than groups.
    """
    free = (groups - 1) * rates if axes is None else axes
    return min(max(_FEWEST, largest_size(groups, rates, spare)), 19 + 32 * (free - 1))


def trial_prices(state: Decomposition, size: int, marks: PriceMarks | None = None) -> Floats:
    """Prices to try in the next round: at most ``size`` new ones, each summing to 0 where tolerances are all there is.

    Those of the first round contain the zero price. Without marks scales are guessed and kinks have to be found.
    """
    shape, tried = state.tolerance.shape, state.tried
    if marks is None:
        marks = PriceMarks(np.full(shape, 1.0 / shape[0]), np.full(shape, np.nan), 1.0, 1.0)
    if not tried.gains.size:
        wanted = _first(state, size, marks)
    else:
        found = np.isfinite(state.incumbent.value)
        wanted = _around(state, size, marks) if found else _towards(state, size, marks)
    chosen = np.zeros((0, *shape))
    for prices in marks.within(state.repaired(wanted), state):
        known = np.concatenate([tried.prices, chosen])
        close = np.abs(known - prices).max(axis=(1, 2), initial=0.0) <= 1e-13 * (1.0 + np.abs(prices).max())
        if len(chosen) < size and not close.any():
            chosen = np.concatenate([chosen, prices[None]])
    return chosen


def _first(state: Decomposition, size: int, marks: PriceMarks) -> Floats:
    """No price at all; prices at the kinks; then one group against all others, up to what its rows are worth.

    Of rates that are limited by more than tolerances also every group alone, and all together.
    """
    counts = np.isfinite(state.tolerance)
    found = [np.zeros((1, *counts.shape)), *_kinks(counts, marks)]
    rays = _alone(state, marks)
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


def _alone(state: Decomposition, marks: PriceMarks) -> list[Floats]:
    """What has floors, ceilings or a total, both ways: every group of a rate together, then each by itself."""
    if state.limits is None:
        return []
    found = []
    for k in np.flatnonzero(state.limits.on_groups[0].any(axis=0)):
        members = np.flatnonzero(state.limits.on_groups[0, :, k] & (marks.base[:, k] > 0))
        for some in [members, *(members[i : i + 1] for i in range(members.size if members.size > 1 else 0))]:
            ray = np.zeros(state.tolerance.shape)
            ray[some, k] = marks.base[some, k]
            found += [ray, -ray]
    return found


def _towards(state: Decomposition, size: int, marks: PriceMarks) -> Floats:
    """Phase one: prices along the direction that leads inside all limits, by themselves and from the best bound's.

    They grow up to the largest there are, which prove that nothing is inside; most of them are of moderate size.
    """
    found, counts = state.incumbent, state.counts & (marks.base > 0)
    base = np.where(counts, marks.base, 1.0)
    direction = found.prices / max(float(np.max(np.abs(found.prices) / base)), 1e-300)
    levels = max(2, (size - 1) // 3)
    far = 2.0 * float(np.max(marks.largest(state)) / np.min(base[counts], initial=1.0))
    scales = np.append(np.cumprod(np.full(levels - 1, 2.0 if levels > 8 else 4.0)) / 2.0, far)
    points = np.concatenate([scales[:, None, None] * direction, found.centre + scales[:, None, None] * direction])
    axes = np.flatnonzero(counts)
    steps = np.zeros((2 * axes.size, counts.size))
    steps[np.arange(2 * axes.size), np.repeat(axes, 2)] = 0.5 * np.repeat(base.ravel()[axes], 2)
    steps[1::2] *= -1.0
    return np.concatenate([points, 4.0 * (direction + steps.reshape(-1, *counts.shape))])


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
    axes = _Axes.of(state.counts, marks.base, state.limited)
    if not axes.size:
        return np.zeros((0, *state.tolerance.shape))
    found = state.incumbent
    gap = max(found.optimality_gap, 1e-9)
    master, best = axes.points(np.stack([found.near_prices, found.centre]))
    centre, (loss, main) = _fitted(state, axes, best, gap)
    steps = np.concatenate([main / np.sqrt(loss), -main / np.sqrt(loss)], axis=1).T
    between = 0.5 * (master + best)
    points = [np.array([centre, master, between, 0.5 * (centre + best)])]
    in_vain = not found.weights[1:][-size:].any()  # of the last round's answers the mixture has none
    if (state.limits is not None or in_vain) and np.any(found.near_prices != found.prices):
        # The master's own prices bring in an answer that helps, however far they lie.
        (far,) = axes.points(found.prices[None])
        points.append(best + np.array([1.0, 0.5, 0.25, 0.125])[:, None] * (far - best))
    if size == 1 and state.tried.gains.size % 2 == 0:  # the master's prices get their turn too
        points[0] = points[0][[1, 0, 2, 3]]
    # Near a kink the fit is poor and the master's prices are good: look around both.
    for radius in _radii((size - 4) // 2, len(steps), np.sqrt(gap)):
        points += [centre + radius * steps, between + radius * steps]
    prices = matrix_product(np.concatenate(points), axes.along.T)
    return prices.reshape(-1, *state.tolerance.shape)


@dataclass(frozen=True)
class _Axes:
    """Axes of the prices that sum to 0, or need not, along which curvatures are of order 1."""

    along: Floats  # the prices one unit along each, (entries, axes)
    onto: Floats  # (entries, axes): the coordinates of prices are their products with these

    @classmethod
    def of(cls, counts: Booleans, base: Floats, limited: Booleans) -> _Axes:
        """For each rate a basis of what is orthogonal to the roots of the base: a reflection's columns but one.

        Where a rate is limited by more than tolerances, one axis for each group.
        """
        along: list[Floats] = []
        onto: list[Floats] = []
        for k in range(counts.shape[1]):
            members = np.flatnonzero(counts[:, k] & (base[:, k] > 0))
            unit = np.sqrt(base[members, k])
            mirror = unit + np.sqrt((unit * unit).sum()) * np.eye(1, members.size)[0]
            square = (mirror * mirror).sum()
            for axis in range(0 if limited[k] else 1, members.size):
                direction = np.eye(1, members.size, axis)[0]
                if not limited[k]:
                    direction = direction - mirror * (2.0 * mirror[axis] / square)
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
    worth = np.where(np.isfinite(tolerance) & ~state.limited, tolerance, 0.0).ravel()
    rows, limits = _localisation(tried.gains, slopes, axes.along, worth, state.incumbent.bound + 0.1 * gap)
    sizes, limited = 0.5 * worth[worth > 0], np.flatnonzero(state.limited)
    if limited.size:  # what they are worth is one more size each, which no preferred rates exceed
        cut = np.arange(len(rows)) < tried.gains.size
        rows, sizes = (
            np.column_stack([rows, np.tile(cut[:, None], limited.size)]),
            np.append(sizes, np.ones(limited.size)),
        )
    centre, near = start, 1e-2
    curvature = np.ones(start.size), np.eye(start.size)
    for turn in range(4):
        slope, curvature = _regress(points - centre, slopes, curvature, near)
        near = 0.1 * gap
        if limited.size:
            here = matrix_product(centre[None], axes.along.T).reshape(-1, *tolerance.shape)
            cones = _cones(state, axes, here if turn else np.concatenate([tried.prices, here]), sizes.size)
            rows, limits = np.concatenate([rows, cones]), np.append(limits, np.zeros(len(cones)))
        found = _minimise(curvature, -slope, centre, sizes, rows, limits)
        centre = centre if found is None else found
    return centre, curvature


def _cones(state: Decomposition, axes: _Axes, prices: Floats, sizes: int) -> Floats:
    """Rows that say: what a limited rate is worth is no less than prices times the rates that some prices prefer."""
    preferred, limited, found = state.support(prices), np.flatnonzero(state.limited), []
    for place, k in enumerate(limited):
        only = np.zeros((len(prices), *state.tolerance.shape))
        only[..., k] = preferred[..., k]
        worth = np.zeros((len(prices), sizes))
        worth[:, sizes - limited.size + place] = -1.0
        found.append(np.unique(np.column_stack([axes.slopes(only), worth]), axis=0))
    return np.concatenate(found)


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


def _apart(square: Floats, active: Indices, column: int) -> float:
    """The squared distance of a unit column from those that others span, given the products of all."""
    along = square[active, column]
    return 1.0 - float((along * solve(square[np.ix_(active, active)], along)).sum())


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
        if active.size and _apart(square, active, best) < _SAME:
            barred[best] = True
            continue
        active = np.append(active, best)
        while active.size and (wanted := solve(square[np.ix_(active, active)], worth[active])).min() <= 0:
            now = forces[active]
            share = np.where(wanted <= 0, now / np.where(now > wanted, now - wanted, 1.0), 2.0)
            forces[active] = np.where(share > share.min(), now + share.min() * (wanted - now), 0.0)
            active = active[share > share.min()]
        if active.size:
            forces[active] = wanted
        barred = (np.arange(worth.size) == best) & (forces[best] == 0) | (barred & (forces[best] == 0))
    return None
