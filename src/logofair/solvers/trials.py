"""Which prices to try next when one exchange carries a batch of them, so that few exchanges suffice.

The bound H that prices prove is convex in them and, with many rows, nearly smooth. Were it quadratic, its minimiser
would be the mean of the prices whose answers are mixed, weighted as they are: there the slopes of H, which are linear
in the prices then, add up to 0. So the batch lies around that mean, and on the way from the best prices so far to the
master's own, which bring in an answer that helps. The steps halve: whatever the distance of the optimum, some of them
surround it, and the smallest of these decides the next gap.

Kinks remain: at certain prices the gain of every row of a group is 0. Under equalized odds the optimum usually lies
there; the totals tell where that is (:class:`PriceMarks`), and the first batch surrounds these points.

As long as no mixture of the answers is within all requirements, the prices follow the direction in which one would be
(phase one), further and further.

Bounds and mixture never depend on the choice: a bad trial costs a round, not the certificate. The prices are sums and
products in a fixed order, the same on every machine, so that a site can tell whether a server asks what it has to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from logofair.columns.checks import Floats
from logofair.notions import Rate
from logofair.requirements import Combination
from logofair.solvers.certificate import LARGEST_VIOLATION
from logofair.solvers.decomposition import Decomposition

_FEWEST = 8  # trials of a round, whatever the size of its messages
_MESSAGE, _HEADER, _NUMBER = 4096, 300, 8  # bytes: of a message at most, of what surrounds the numbers, of a number
_NEAR = 1e-6  # of its size: how close to a kink the trials around it lie
_HALVINGS = 40  # of steps, after which they are rounding
_ACCURACY_GAIN = (-1.0, 2.0)  # of a row that is accepted, as a line in its chance


@dataclass(frozen=True)
class PriceMarks:
    """What the totals tell about prices, each (groups, rates) unless said otherwise.

    ``base`` is the mass that each rate is a share of: a price of that size moves a row's gain by about 1. At its
    ``indifference`` price accepting a row of a group gains nothing, whatever its score (NaN: there is no such price).
    No rule gains more over rejecting everybody than ``gain``, and none loses more than ``loss``.
    """

    base: Floats
    indifference: Floats
    gain: float
    loss: float = 0.0

    @property
    def largest(self) -> float:
        """No prices of a rate need to be larger than this, by size and together.

        Let each row of the requirements give way at a price of ``limit`` per unit: the bound is then that of prices up
        to the limit. A rule within all requirements, if there is one, loses ``loss`` at most, so the best rule of that
        program, which gains ``gain`` at most, exceeds them by no more than (gain + loss) over limit in all; the limit
        is where that counts as nothing. Where there is no rule, prices of that size prove it unless the requirements
        are missed by less. A rate may have a gap, a ratio and a floor at once: its prices sum to three limits at most.
        Where all rules gain the same, the limit is still 1.
        """
        return 3.0 * max(self.gain + self.loss, LARGEST_VIOLATION) / LARGEST_VIOLATION

    def within(self, prices: Floats) -> Floats:
        """Prices (t, groups, rates), those of a rate made smaller where together they exceed the largest."""
        size = np.abs(prices).sum(axis=1, keepdims=True)
        return np.asarray(prices * (self.largest / np.maximum(size, self.largest)))


def price_marks(
    mass: Floats,
    positives: Floats,
    rates: Sequence[Rate | Combination],
    row_gain: tuple[float, float] = _ACCURACY_GAIN,
) -> PriceMarks:
    """Read the marks off the groups' shares in all rows and in all rows that are positive.

    ``row_gain`` is what accepting a row adds to the objective, as a line in its chance: constant and slope. A
    combination of rates stands in the first group's place.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.notions import EQUALIZED_ODDS
    >>> price_marks(np.array([0.6, 0.4]), np.array([0.3, 0.1]), EQUALIZED_ODDS.rates).indifference.round(3).tolist()
    [[0.3, -0.3], [0.1, -0.3]]
    """
    of_groups = {k: rate for k, rate in enumerate(rates) if isinstance(rate, Rate)}
    base, own = np.tile(np.eye(mass.size, 1), (1, len(rates))), np.array(list(of_groups), dtype=np.int64)
    for k, rate in of_groups.items():
        base[:, k] = rate.denominator(mass, positives)
    constant, slope = row_gain
    indifference = np.full(base.shape, np.nan)
    lines = np.array([[rate.constant, rate.slope] for rate in of_groups.values()]).reshape(-1, 2).T
    for group in np.flatnonzero((base[:, own] > 0).all(axis=1)):
        # The least prices whose lines in the chance add up to the row's gain: normal equations of two unknowns.
        constants, slopes = lines / base[group, own]
        one, other, both = (constants * constants).sum(), (slopes * slopes).sum(), (constants * slopes).sum()
        volume = one * other - both * both
        if volume > 1e-12 * one * other:  # else the rates are one, up to their size, and no price does it
            indifference[group] = 0.0
            indifference[group, own] = (
                constants * (other * constant - both * slope) + slopes * (one * slope - both * constant)
            ) / volume
    gain, loss = (constant + slope) * float(positives.sum()), -constant * float((mass - positives).sum())
    return PriceMarks(base, indifference, gain, loss)


def trial_size(groups: int, rates: int, spare: int = 0, axes: int | None = None) -> int:
    """Number of trials per round that keeps rounds few: more of them hardly help, fewer cost rounds.

    Their answers fit into one message of 4 KB beside ``spare`` other bytes, unless that is too few of them. ``axes`` is
    how many prices may be chosen freely: where all of a rate sum to 0, one fewer than groups.
    """
    free = (groups - 1) * rates if axes is None else axes
    fitting = (_MESSAGE - _HEADER - spare) // (_NUMBER * (2 + groups * rates))
    return min(max(_FEWEST, fitting), 19 + 32 * (free - 1))


def trial_prices(state: Decomposition, size: int, marks: PriceMarks) -> Floats:
    """Prices to try in the next round: at most ``size`` new ones, each summing to 0 where tolerances are all there is.

    Those of the first round contain the zero price.
    """
    known = state.tried.prices
    if not len(known):
        wanted = _first(state, marks)
    elif np.isfinite(state.incumbent.value):
        wanted = _around(state, size, marks)
    else:
        wanted = _towards(state, marks)
    tried = len(known)
    for batch in wanted:
        for prices in marks.within(state.repaired(batch)):
            close = np.abs(known - prices).max(axis=(1, 2), initial=0.0) <= 1e-13 * (1.0 + np.abs(prices).max())
            if not close.any():
                known = np.concatenate([known, prices[None]])
            if len(known) == tried + size:
                return known[tried:]
    return known[tried:]


def _first(state: Decomposition, marks: PriceMarks) -> Iterator[Floats]:
    """No price at all; prices at and around the kinks; then along the rays, up to the gain of a group's rows."""
    kinks, rays = _kinks(state, marks), _rays(state, marks)
    yield np.zeros((1, *state.counts.shape))
    yield kinks
    for kink in kinks if len(kinks) == 2 else ():
        yield kink + _NEAR * rays
    for step in _steps(1.0, 0.6):
        yield step * rays


def _around(state: Decomposition, size: int, marks: PriceMarks) -> Iterator[Floats]:
    """From the best prices and from the mean of those mixed towards the master's; then around these, ever nearer."""
    found, tried = state.incumbent, state.tried.prices
    weights, best, master = found.weights[1:], found.centre, found.near_prices
    mixed = np.flatnonzero(weights > 0)
    mean = (weights[:, None, None] * tried).sum(axis=0) / weights.sum() if mixed.size else best
    ways = np.concatenate([tried[mixed] - mean, mean - tried[mixed]])
    # Losses are about quadratic in the prices, in units of the base.
    rays = np.sqrt(max(found.optimality_gap, LARGEST_VIOLATION)) * _rays(state, marks)
    if not weights[-size:].any():  # the last round was in vain: the master's own prices help, however far they lie
        yield np.stack([best + step * (found.prices - best) for step in _steps(1.0, 0.125, 12)])
    yield np.stack([found.half_way, master, found.prices])
    yield np.stack([start + step * (master - start) for start in (best, mean) for step in (0.0, 0.25, 0.5, 0.75)])
    for step in _steps(0.5, 0.5):
        for centre in (found.half_way, mean):
            yield centre + step * ways
        yield found.half_way + step * rays


def _towards(state: Decomposition, marks: PriceMarks) -> Iterator[Floats]:
    """Phase one: prices along the direction that leads inside all limits, by themselves and from the best bound's.

    They grow up to the largest there are, which prove that nothing is inside.
    """
    found, rays = state.incumbent, _rays(state, marks)
    base = np.where(state.counts & (marks.base > 0), marks.base, np.inf)
    direction = found.prices / max(float(np.max(np.abs(found.prices) / base)), 1e-300)
    yield np.stack([marks.largest * direction, found.centre + marks.largest * direction])
    for step in _steps(1.0, 0.5):
        for scale in (4.0 * step, 1.0 / step):
            yield np.stack([scale * direction, found.centre + scale * direction])
        yield 4.0 * (direction + step * rays)


def _steps(first: float, ratio: float, number: int = _HALVINGS) -> Iterator[float]:
    """Falling steps: products alone, since no two machines round powers alike."""
    for _ in range(number):
        yield first
        first *= ratio


def _rays(state: Decomposition, marks: PriceMarks) -> Floats:
    """The price of each group and rate by itself, of either sign; repaired where prices have to sum to 0."""
    rays = np.diag(np.where(state.counts, marks.base, 0.0).ravel())
    rays = rays[rays.any(axis=1)].reshape(-1, *marks.base.shape)
    return np.concatenate([rays, -rays])


def _kinks(state: Decomposition, marks: PriceMarks) -> Floats:
    """Indifference prices of all groups but one, whose price makes them sum to 0; where all groups are compared."""
    counts = state.required.compared[0]
    members = np.flatnonzero(counts.all(axis=1) & np.isfinite(marks.indifference).all(axis=1))
    if members.size < max(2, int(counts.any(axis=1).sum())):
        return np.zeros((0, *counts.shape))
    prices = np.zeros((members.size, *counts.shape))
    prices[:, members] = marks.indifference[members]
    prices[np.arange(members.size), members] -= marks.indifference[members].sum(axis=0)
    return prices
