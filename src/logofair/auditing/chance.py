"""What chance alone does to shares of few people and to their gaps: limits, and the noise floor.

A gap is a maximum, so the percentile bootstrap fails for it (at equal rates it hardly ever covers 0). Limits of a
largest gap are made from those of single pairs of groups. From above no correction is needed: the pair that is worst
in truth is one fixed pair, and the largest of all limits is at least its own. From below every pair could be the one
that looks worst by chance, so the error is divided among all of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices

TAIL = 0.025  # chance of an error at either end of an interval: both together 5%
_DRAWS, _DRAWN = 600, 5_000_000  # draws of the noise floor, fewer where there are very many cells
_FEWEST_DRAWS = 40
_CHUNK = 2_000_000


def share_limits(share: Floats, people: Floats, tail: Floats | float = TAIL) -> tuple[Floats, Floats]:
    """Both limits of a share that was counted among so many people, each wrong with chance ``tail`` at most.

    Exact (Clopper and Pearson 1934) for whole numbers; for weighted people, ``people`` is their effective number. NaN
    where the share is. Chances of acceptance vary less than decisions, for which the limits are made.

    Examples
    --------
    >>> low, high = share_limits(np.array([0.0, 0.5]), np.array([30.0, 40.0]))
    >>> np.round(low, 3).tolist(), np.round(high, 3).tolist()
    ([0.0, 0.338], [0.116, 0.662])
    """
    with np.errstate(invalid="ignore"):
        yes = np.clip(share, 0.0, 1.0) * people
        no = people - yes
        low = np.where(yes > 0, betaincinv(yes, no + 1.0, tail), 0.0)
        high = np.where(no > 0, 1.0 - betaincinv(no, yes + 1.0, tail), 1.0)
    unknown = np.isnan(share) | ~(people > 0)
    return np.where(unknown, np.nan, np.minimum(low, share)), np.where(unknown, np.nan, np.maximum(high, share))


def pair_limits(shares: Floats, people: Floats, tail: Floats | float, *, upper: bool) -> Floats:
    """The largest limit of any group's share less another's; the last axis are the groups.

    ``upper`` says which end: the limit that the difference stays below, or above. Each pair's limit combines those of
    its two shares as squares (Newcombe 1998, with exact limits of the shares). NaN where fewer than two shares are
    known.
    """
    low, high = share_limits(shares, people, np.asarray(tail)[..., None])
    best = np.full(shares.shape[:-1], -np.inf)
    for first in range(shares.shape[-1]):  # over one group against all others: pairs of all would fill the memory
        limit = limits_against(first, shares, low, high, upper=upper)
        best = np.fmax(best, np.max(limit, axis=-1, where=~np.isnan(limit), initial=-np.inf))
    return np.where(np.isinf(best), np.nan, np.clip(best, 0.0, 1.0))


def limits_against(first: int, shares: Floats, low: Floats, high: Floats, *, upper: bool) -> Floats:
    """One end of the interval of one group's share less each other's, from the limits of the shares; NaN for itself."""
    one = slice(first, first + 1)
    if upper:
        limit = shares[..., one] - shares + np.hypot(high[..., one] - shares[..., one], shares - low)
    else:
        limit = shares[..., one] - shares - np.hypot(shares[..., one] - low[..., one], high - shares)
    limit[..., first] = np.nan
    return np.asarray(limit)


def ratio_limits(shares: Floats, people: Floats) -> tuple[Floats, Floats]:
    """Both ends of the 95% interval of each share divided by the largest, for one row of groups.

    The limits of a quotient combine those of its two shares (Donner and Zou 2012, with exact limits of the shares). In
    truth the largest share is that of one fixed group, so the least of all lower limits is low enough; each quotient is
    at least the one to the largest, so the least upper limit serves where the error is divided among them. NaN where
    a share is, or where fewer than two are known.

    Examples
    --------
    >>> low, high = ratio_limits(np.array([0.5, 0.4]), np.array([400.0, 400.0]))
    >>> np.round(low, 3).tolist(), np.round(high, 3).tolist()
    ([1.0, 0.682], [1.0, 0.937])
    """
    known = ~np.isnan(shares) & (people > 0)
    others = max(int(known.sum()) - 1, 1)
    low, high = (_quotient_limits(shares, people, tail, upper=upper) for tail, upper in ((TAIL, 0), (TAIL / others, 1)))
    compared = known & (known.sum() >= 2)
    return np.where(compared, np.minimum(low, 1.0), np.nan), np.where(compared, np.minimum(high, 1.0), np.nan)


def least_ratio_limits(shares: Floats, people: Floats, tail: Floats | float = TAIL) -> tuple[Floats, Floats]:
    """Both ends of the interval of the smallest share divided by the largest; the last axis are the groups.

    In truth these two are one fixed pair of groups, so the least of all pairs' lower limits is low enough; no pair's
    quotient is below it, so the least upper limit serves where the error is divided among the pairs. NaN where fewer
    than two shares are known.

    Examples
    --------
    >>> low, high = least_ratio_limits(np.array([[0.5, 0.4], [0.5, np.nan]]), np.full((2, 2), 400.0))
    >>> np.round(low, 3).tolist(), np.round(high, 3).tolist()
    ([0.682, nan], [0.958, nan])
    """
    known = (~np.isnan(shares) & (people > 0)).sum(axis=-1)
    pairs = np.maximum(known * (known - 1), 1)
    tail = np.broadcast_to(tail, known.shape)
    low, high = (
        _quotient_limits(shares, people, each, upper=upper).min(axis=-1)
        for each, upper in ((tail, 0), (tail / pairs, 1))
    )
    return (
        np.where(known >= 2, np.minimum(low, 1.0), np.nan),
        np.where(known >= 2, np.minimum(high, 1.0), np.nan),
    )


def _quotient_limits(shares: Floats, people: Floats, tail: Floats | float, *, upper: int) -> Floats:
    """The least limit of each share divided by any other's; infinite where there is no other."""
    low, high = share_limits(shares, people, np.asarray(tail)[..., None])
    near, far = (high, low) if upper else (low, high)  # the ends of the numerator and of the denominator that count
    product = shares[..., :, None] * shares[..., None, :]
    top, bottom = (near * (2.0 * shares - near))[..., :, None], (far * (2.0 * shares - far))[..., None, :]
    root = np.sqrt(np.maximum(product * product - top * bottom, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = (product + root) / bottom if upper else np.where(top > 0, top / (product + root), 0.0)
    same = np.eye(shares.shape[-1], dtype=bool)
    limit = np.where(np.isnan(product) | same | np.isnan(limit), np.inf, limit)
    return np.asarray(limit.min(axis=-1))


class Floor(NamedTuple):
    """Gaps that rules without any gap show by chance.

    ``mean`` and ``detectable`` are of the largest gap of all, ``by_rate`` of each rate's largest (columns: both), and
    ``by_site`` the mean of each site's largest.
    """

    mean: float
    detectable: float
    by_rate: Floats
    by_site: Floats


def noise_floor(shares: Floats, people: Floats, names: Sequence[str], gap: float = 0.0) -> Floor:
    """What a rule would show that treats all groups of a site alike, on as many people: (rates, sites, groups).

    A parametric bootstrap with equal rates: in every draw each group's share is drawn again around the site's common
    share (with one person of either kind added: nobody accepted does not mean that nobody will be). A gap up to the 95%
    quantile of the largest, ``detectable``, cannot be told from chance. A rate of the same name has the same draws,
    whichever others stand beside it. With a ``gap`` the groups that a site has differ by so much in truth, at
    equal steps about the common share, or as near to it as shares can be.
    """
    drawn = _drawn_rates(shares, people, gap)
    counts, compared = drawn.counts, drawn.compared
    draws = int(np.clip(_DRAWN // max(counts.size, 1), _FEWEST_DRAWS, _DRAWS))
    streams = _streams(names)
    by_site, largest = np.zeros(shares.shape[1]), np.empty((draws, shares.shape[0]))
    step = max(1, _CHUNK // max(counts.size, 1))
    for first in range(0, draws, step):
        size = min(step, draws - first)
        low, high = drawn.ends(streams, size)
        gaps = np.where(compared, high - low, 0.0)
        by_site += gaps.max(axis=1).sum(axis=0)
        largest[first : first + size] = gaps.max(axis=2)
    by_site = np.where(compared.any(axis=0), by_site / draws, np.nan)
    by_rate = np.column_stack([largest.mean(axis=0), np.quantile(largest, 0.95, axis=0)])
    by_rate[~compared.any(axis=1)] = np.nan
    if not compared.any():
        return Floor(np.nan, np.nan, by_rate, by_site)
    of_all = largest.max(axis=1)
    return Floor(float(of_all.mean()), float(np.quantile(of_all, 0.95)), by_rate, by_site)


def common_shares(shares: Floats, people: Floats) -> Floats:
    """The share of all groups of a site together, by rate and site, with one place for all groups; 0 of nobody."""
    mass = np.where(np.isnan(shares), 0.0, people)
    common = (mass * np.where(np.isnan(shares), 0.0, shares)).sum(-1) / np.maximum(mass.sum(-1), 1e-300)
    return np.asarray(np.clip(common, 0.0, 1.0)[..., None])


def ratio_floor(shares: Floats, people: Floats, name: str) -> tuple[float, float]:
    """The least share divided by the largest that a rule with equal rates shows on as many people, by chance.

    Its mean, and the 5% quantile: 19 of 20 draws show more. Draws in which nobody is accepted show nothing and are left
    out; NaN where fewer than two shares are known, or nobody is accepted in any draw.
    """
    drawn = _drawn_rates(shares[None, None], people[None, None])
    low, high = drawn.ends(_streams([name]), _DRAWS)
    ratios = low[high > 0] / high[high > 0]
    if not drawn.compared.any() or not ratios.size:
        return np.nan, np.nan
    return float(ratios.mean()), float(np.quantile(ratios, 0.05))


class _DrawnRates(NamedTuple):
    """How shares are drawn again: on how many people, by which chance; which are known, and where some are compared."""

    counts: Indices
    chance: Floats
    known: Booleans
    compared: Booleans

    def ends(self, streams: Sequence[np.random.Generator], size: int) -> tuple[Floats, Floats]:
        """The least and the largest share of so many draws, (draws, rates, sites)."""
        every = zip(streams, self.counts, self.chance, strict=True)
        drawn = np.stack([rng.binomial(n, p, size=(size, *n.shape)) / n for rng, n, p in every], axis=1)
        low = np.min(drawn, axis=-1, where=self.known, initial=1.0)
        return low, np.max(drawn, axis=-1, where=self.known, initial=0.0)


def _drawn_rates(shares: Floats, people: Floats, gap: float = 0.0) -> _DrawnRates:
    """Equal rates about every site's common share, or rates that differ by ``gap`` in equal steps."""
    known = ~np.isnan(shares) & (people > 0)
    counts = np.maximum(np.rint(np.where(known, people, 1.0)), 1.0).astype(np.int64)
    everybody = np.where(known, people, 0.0).sum(-1, keepdims=True)
    common = (common_shares(shares, people) * everybody + 1.0) / (everybody + 2.0)
    among = (known.cumsum(axis=-1) - 1) / np.maximum(known.sum(axis=-1, keepdims=True) - 1, 1)  # 0 to 1: first to last
    apart = gap * (among - 0.5)
    chance = np.clip(np.clip(common, gap / 2, 1.0 - gap / 2) + apart, 0.0, 1.0)
    return _DrawnRates(counts, chance, known, known.sum(axis=-1) >= 2)


def _streams(names: Sequence[str]) -> list[np.random.Generator]:
    """Fixed streams, one for each name: the same rows have the same floor."""
    return [np.random.default_rng(zlib.crc32(name.encode("utf-8", "replace"))) for name in names]
