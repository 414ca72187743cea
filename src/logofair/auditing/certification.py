"""What holds for new rows, and how many rows it takes to say so.

Two ways, neither of which looks at the rows that chose a rule:

By rank. Let a rule accept whatever scores no lower than the k-th highest of n rows that had no part in choosing k.
Then the share of new rows that it accepts follows the law Beta(k, n + 1 - k), whatever the law of the scores. So the
chance that a gap of such shares exceeds a tolerance is known before anybody looks, and several promises are made as
long as the chances that they fail add up to what is allowed. (Holm's correction would be wrong here: it is about errors
of tests on fixed gaps, while here the gaps are random; two promises that fail with chances of 2.5% and 5%, which Holm
would make, fail with 7.4% together.)

On rows held out. The gaps of a rule that is given are tested one by one on other rows, with Holm's correction.

Both are about new rows drawn like these at the same sites; rows that drift are another matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.outcomes import TRUE_GAP

_POWER = 0.8  # the chance to certify with as many rows as are called needed, where rows are held out
_STEP, _LAST = 0.1, 6.0  # nodes of the integrals over a law, in standard errors of a normal one
_NODES = np.linspace(-_LAST, _LAST, 2 * round(_LAST / _STEP) + 1)
_AT, _MASS = ndtr(_NODES), np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()
_PAIRS = 4000  # of groups whose integrals are taken at once, so that they stay in memory
_HALVINGS = 17  # of [0, 1]: bounds are found to 1e-5, and rounded up


@dataclass(frozen=True, eq=False)
class RateLaws:
    """Laws of the true rates of rules placed by rank, each Beta(yes, no) and independent: (units, groups).

    A unit is whatever has a gap: a site, or all of them together. ``yes == 0`` stands for a rate of exactly 0 (nobody
    is accepted) and ``no == 0`` for 1.

    Examples
    --------
    >>> laws = RateLaws.by_rank(np.array([[20, 40]]), np.array([[99, 199]]))
    >>> laws.means.tolist(), np.round(laws.bounds(0.05), 2).tolist()
    ([[0.2, 0.2]], [0.1])
    """

    yes: Floats
    no: Floats

    @classmethod
    def by_rank(cls, ranks: Indices | Floats, rows: Indices | Floats) -> RateLaws:
        """Thresholds at the ``ranks``-th highest of so many rows; rank 0: nobody, ``rows + 1``: everybody."""
        ranks = np.asarray(ranks, dtype=np.float64)
        return cls(ranks, np.asarray(rows, dtype=np.float64) + 1.0 - ranks)

    @property
    def means(self) -> Floats:
        """The expected rates."""
        return np.asarray(self.yes / (self.yes + self.no))

    @property
    def variances(self) -> Floats:
        """How much the rates vary around that."""
        return np.asarray(self.means * (1.0 - self.means) / (self.yes + self.no + 1.0))

    def at(self, units: Booleans | slice) -> RateLaws:
        """The laws of some units."""
        return RateLaws(self.yes[units], self.no[units])

    def risks(self, tolerance: Floats | float) -> Floats:
        """The chance that the gap of each unit exceeds its tolerance, (units,)."""
        tolerance = np.broadcast_to(np.asarray(tolerance, dtype=np.float64), self.yes.shape[:1])
        found = [part.exceeding(tolerance[units]) for units, part in self._parts()]
        return np.concatenate(found) if found else np.zeros(0)

    def bounds(self, tail: Floats | float) -> Floats:
        """What the gap of each unit stays below but for a chance of ``tail``, (units,)."""
        tail = np.broadcast_to(np.asarray(tail, dtype=np.float64), self.yes.shape[:1])
        found = [_bisected(part.exceeding, tail[units]) for units, part in self._parts()]
        return np.concatenate(found) if found else np.zeros(0)

    def largest_bound(self, tail: float) -> float:
        """What the largest gap of all units stays below but for a chance of ``tail``."""
        parts = [part for _, part in self._parts()]

        def exceeding(tolerance: Floats) -> Floats:
            kept = [np.log1p(-np.minimum(part.exceeding(tolerance), 1.0 - 1e-16)).sum() for part in parts]
            return np.array([-np.expm1(sum(kept))])

        return float(_bisected(exceeding, np.array([tail]))[0])

    def merged(self, counts: Floats) -> RateLaws:
        """The groups' rates over all units, weighed by rows counted there: one unit, nearly.

        A weighed sum of independent Betas is taken for the Beta of the same mean and variance. The weights were counted
        on a sample too, which adds the variance that drawing them again would.
        """
        total = counts.sum(axis=0)
        share = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
        means, variances = np.where(counts > 0, self.means, 0.0), np.where(counts > 0, self.variances, 0.0)
        mean = (share * means).sum(axis=0)
        drawn = np.maximum((share * means**2).sum(axis=0) - mean**2, 0.0) / (total + 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            size = mean * (1.0 - mean) / ((share**2 * variances).sum(axis=0) + drawn) - 1.0
        size = np.clip(np.nan_to_num(size, nan=0.0), 1e-6, 1e9)
        size = np.where((mean <= 0.0) | (mean >= 1.0), 1.0, size)  # which is certain
        return RateLaws((mean * size)[None], ((1.0 - mean) * size)[None])

    def _parts(self) -> Iterator[tuple[slice, _Nodes]]:
        step = max(1, _PAIRS // self.yes.shape[1] ** 2)
        for first in range(0, len(self.yes), step):
            units = slice(first, first + step)
            yield units, _Nodes.of(self.yes[units], self.no[units])


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The laws of some units with the rates at the nodes of each: ``rates`` is (units, groups, nodes)."""

    yes: Floats
    no: Floats
    rates: Floats
    reached: Floats  # (groups, groups, units, nodes): the chance that the second's rate lies below the first's node

    @classmethod
    def of(cls, yes: Floats, no: Floats) -> _Nodes:
        """Find the nodes; a unit with a rate of exactly 1 is mirrored, which leaves its gap alone."""
        mirrored = (no == 0).any(axis=1)[:, None]
        yes, no = _widened(np.where(mirrored, no, yes), np.where(mirrored, yes, no))
        inside = (yes > 0) & (no > 0)
        found = betaincinv(np.where(inside, yes, 1.0)[..., None], np.where(inside, no, 1.0)[..., None], _AT)
        rates = np.where(inside[..., None], found.astype(np.float64), np.where(yes > 0, 1.0, 0.0)[..., None])
        groups = range(yes.shape[1])
        # Of equal rates, which only those of exactly 0 are, the first group's counts as the lowest.
        below = [[_below(yes[:, b], no[:, b], rates[:, a], ties=b < a) for b in groups] for a in groups]
        return cls(yes, no, rates, np.array(below))

    def exceeding(self, tolerance: Floats) -> Floats:
        """The chance that each unit's gap exceeds a tolerance: one less that all others lie just above the lowest."""
        within = np.zeros(len(self.yes))
        groups = self.yes.shape[1]
        for a in range(groups):
            end, mass = self.rates[:, a] + tolerance[:, None], np.broadcast_to(_MASS, self.rates[:, a].shape)
            for b in range(groups):
                if b != a:
                    mass = mass * (_below(self.yes[:, b], self.no[:, b], end, ties=True) - self.reached[a, b])
            within += mass.sum(axis=-1)
        return np.clip(1.0 - within, 0.0, 1.0)


def _below(yes: Floats, no: Floats, rate: Floats, *, ties: bool) -> Floats:
    """The chance that a rate lies below another, (units, nodes), or equals it."""
    yes, no = yes[:, None], no[:, None]
    inside = (yes > 0) & (no > 0)
    found = betainc(np.where(inside, yes, 1.0), np.where(inside, no, 1.0), np.clip(rate, 0.0, 1.0))
    value = np.where(yes > 0, 1.0, 0.0)
    return np.where(inside, found, rate >= value if ties else rate > value)


def _widened(yes: Floats, no: Floats) -> tuple[Floats, Floats]:
    """Laws none of which is more than ten times narrower than the widest of its unit.

    A narrower one would be a step between two nodes. It makes the gap vary by half a percent more at most.
    """
    laws = RateLaws(yes, no)
    least = laws.variances.max(axis=1, keepdims=True) / 100.0
    size = yes + no
    with np.errstate(divide="ignore", invalid="ignore"):
        wider = np.maximum(laws.means * (1.0 - laws.means) / least - 1.0, 1.0)
        factor = np.where((yes > 0) & (no > 0) & (wider < size), wider / size, 1.0)
    return yes * factor, no * factor


def _bisected(exceeding: Callable[[Floats], Floats], tail: Floats) -> Floats:
    """The smallest tolerance that is exceeded with a chance of at most ``tail``, to 1e-5."""
    low, high = np.zeros_like(tail), np.ones_like(tail)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        kept = exceeding(middle) <= tail
        low, high = np.where(kept, low, middle), np.where(kept, middle, high)
    return high


def added_up(risks: Floats, error: float) -> Booleans:
    """Which promises to make, safest first, as long as the chances that they fail add up to ``error`` at most.

    Examples
    --------
    >>> added_up(np.array([0.03, 0.001, 0.2, 0.01]), 0.05).tolist()
    [True, True, False, True]
    """
    order = np.argsort(risks, kind="stable")
    made = np.zeros(risks.size, dtype=bool)
    made[order] = np.cumsum(risks[order]) <= error
    return made


def errors_allowed(risks: Floats, error: float) -> Floats:
    """The error each promise may take at most, given the least it can take; 0 for those that cannot be made.

    What the promises that can be made together leave of the error, they get in equal parts.

    Examples
    --------
    >>> errors_allowed(np.array([0.01, 0.5, 0.0]), 0.05).tolist()
    [0.03, 0.0, 0.02]
    """
    made = added_up(risks, error)
    left = (error - risks[made].sum()) / max(int(made.sum()), 1)
    return np.where(made, risks + left, 0.0)


def holm(holds: Callable[[Floats], Booleans], number: int, error: float) -> Booleans:
    """Which of so many statements are shown, all judged together (Holm 1979).

    ``holds`` says which are shown if each may be wrong with the chance that it is given, (number,). One that is shown
    leaves its part of the error to the others.

    Examples
    --------
    >>> risks = np.array([0.01, 0.04, 0.3])
    >>> holm(lambda tail: risks <= tail, 3, 0.05).tolist()
    [True, False, False]
    """
    shown = np.zeros(number, dtype=bool)
    while not shown.all():
        found = holds(np.full(number, error / (~shown).sum()))
        if not (found & ~shown).any():
            break
        shown |= found
    return shown


def rows_needed(rate: Floats | float, tolerance: Floats | float, gap: Floats | float, errors: float) -> Floats:
    """Rows of each group that a promise takes, to the nearest: infinity where none suffice.

    The normal approximation for two shares ``rate`` whose true difference is ``gap``; ``errors`` is how many standard
    errors the tolerance must lie above that.

    Examples
    --------
    >>> rows_needed(0.2, 0.10, 0.02, 1.645).tolist(), rows_needed(0.2, 0.05, 0.01, 1.645).tolist()
    (135.0, 541.0)
    """
    rate = np.asarray(rate, dtype=np.float64)
    room = np.maximum(np.asarray(tolerance, dtype=np.float64) - gap, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.rint(2.0 * errors**2 * rate * (1.0 - rate) / room**2))


def single_rows_needed(variance: Floats | float, room: Floats | float, errors: float) -> Floats:
    """Rows that a promise about one figure takes, whose distance from its floor or ceiling is ``room``.

    ``variance`` is that of a row: of a share its product with one less it.

    Examples
    --------
    >>> single_rows_needed(0.25, 0.1, 2.0).tolist()
    100.0
    """
    return np.asarray(np.rint(errors**2 * np.asarray(variance) / np.asarray(room) ** 2))


def rank_errors(error: float, promises: int, groups: int = 2) -> float:
    """Standard errors that a tolerance must lie above equal targets for a promise by rank: any group may be ahead.

    Whether that suffices is known before anybody looks, so there is no power to speak of.
    """
    return float(-ndtri(error / (groups * (groups - 1) * max(promises, 1))))


def held_out_errors(error: float, promises: int) -> float:
    """Standard errors for a promise on rows held out: Holm's first step, and a chance of :data:`_POWER` to succeed."""
    return float(ndtri(_POWER) - ndtri(error / max(promises, 1)))


def targets_on_held_out_rows(rows: Floats, rate: Floats, bound: Floats, error: float, *, ratio: bool = False) -> Floats:
    """The gap each unit's rule may have for its tolerance to be certified with a chance of :data:`_POWER`.

    Or the ``ratio`` it should have. ``rows`` are those held out, (units, groups), ``rate`` the units' common rates,
    ``error`` what each promise may take. Where that is less than :data:`TRUE_GAP` of the tolerance, or of the way from
    the ratio to 1, the bound itself: a rule that is so much stricter would be certified by luck alone.

    Examples
    --------
    >>> rows, bound = np.array([[2000.0, 2000.0], [50.0, 50.0]]), np.array([0.1, 0.1])
    >>> np.round(targets_on_held_out_rows(rows, np.array([0.2, 0.2]), bound, 0.025), 3).tolist()
    [0.065, 0.1]
    >>> np.round(targets_on_held_out_rows(rows, np.array([0.5, 0.5]), 8 * bound, 0.025, ratio=True), 3).tolist()
    [0.871, 0.8]
    """
    smallest = np.sort(rows, axis=1)[:, :2]
    with np.errstate(divide="ignore"):
        error_of_gap = np.sqrt(rate * (1.0 - rate) * (1.0 / smallest).sum(axis=1))
    room = np.where((rows > 0).all(axis=1), np.minimum(held_out_errors(error, 1) * error_of_gap, 1.0), np.nan)
    with np.errstate(invalid="ignore"):
        if ratio:
            room = bound * room / rate
            return np.where(1.0 - bound - room >= TRUE_GAP * (1.0 - bound), bound + room, bound)
        return np.where(bound - room >= TRUE_GAP * bound, bound - room, bound)
