"""What chance alone does to shares of few people and to their gaps: limits, and the noise floor.

A gap is a maximum, so the percentile bootstrap fails for it (at equal rates it hardly ever covers 0). Limits of a
largest gap are made from those of single pairs of groups. From above no correction is needed: the pair that is worst
in truth is one fixed pair, and the largest of all limits is at least its own. From below every pair could be the one
that looks worst by chance, so the error is divided among all of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from logofair.columns.checks import Floats

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


def pair_figure(shares: Floats, *, ratio: bool = False) -> tuple[Floats, npt.NDArray[np.intp]]:
    """The largest share less the smallest, or the smallest divided by it; the last axis are the groups.

    NaN where fewer than two shares are known, and where all are 0 of a ratio. With the places of the largest share and
    of the smallest, (..., 2).

    Examples
    --------
    >>> gaps, at = pair_figure(np.array([[0.5, 0.25, np.nan], [0.5, np.nan, np.nan]]))
    >>> gaps.tolist(), at[0].tolist()
    ([0.25, nan], [0, 1])
    """
    known = ~np.isnan(shares)
    high, low = np.where(known, shares, -np.inf), np.where(known, shares, np.inf)
    at = np.stack([high.argmax(axis=-1), low.argmin(axis=-1)], axis=-1)
    ends = np.take_along_axis(shares, at, axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = ends[..., 1] / ends[..., 0] if ratio else ends[..., 0] - ends[..., 1]
    return np.where(known.sum(axis=-1) >= 2, found, np.nan), at


def count_pairs(shares: Floats) -> int:
    """How many pairs of one group and another are compared, of shares by (..., group), NaN where there is none."""
    known = (~np.isnan(shares)).sum(axis=-1)
    return int((known * (known - 1)).sum())


def limits_against(first: int, shares: Floats, low: Floats, high: Floats, *, upper: bool) -> Floats:
    """One end of the interval of one group's share less each other's, from the limits of the shares; NaN for itself."""
    one = slice(first, first + 1)
    if upper:
        limit = shares[..., one] - shares + np.hypot(high[..., one] - shares[..., one], shares - low)
    else:
        limit = shares[..., one] - shares - np.hypot(shares[..., one] - low[..., one], high - shares)
    limit[..., first] = np.nan
    return np.asarray(limit)


def ratio_limits(shares: Floats, people: Floats, tail: Floats | float, *, upper: bool) -> Floats:
    """One end of the interval of the smallest ratio of two groups' shares; the last axis are the groups.

    Which pair is the smallest in truth is not known, but it is one fixed pair: the least of all lower limits is a lower
    limit of its ratio. It is at most the ratio of any pair, so the least of all upper limits is an upper limit, where
    the error is divided among the pairs. NaN where fewer than two shares are known.

    Examples
    --------
    >>> shares, people = np.array([[0.5, 0.4], [0.5, np.nan]]), np.full((2, 2), 400.0)
    >>> np.round([ratio_limits(shares, people, TAIL, upper=upper) for upper in (False, True)], 3).tolist()
    [[0.682, nan], [0.937, nan]]
    """
    known = (~np.isnan(shares) & (people > 0)).sum(axis=-1) >= 2
    limit = quotient_limits(shares, people, tail, upper=upper).min(axis=-1)
    return np.where(known, np.minimum(limit, 1.0), np.nan)


def quotient_limits(shares: Floats, people: Floats, tail: Floats | float, *, upper: bool) -> Floats:
    """The least of the limits of each group's share divided by another's; infinite where there is no other.

    The limits of a quotient follow from those of its two shares (Donner and Zou 2012, with exact limits of the shares).

    Examples
    --------
    >>> np.round(quotient_limits(np.array([0.5, 0.4]), np.array([400.0, 400.0]), TAIL, upper=True), 3).tolist()
    [1.467, 0.937]
    """
    low, high = share_limits(shares, people, np.asarray(tail)[..., None])
    near, far = (high, low) if upper else (low, high)  # the limits of the numerator, and of the denominator
    product = shares[..., :, None] * shares[..., None, :]
    top, bottom = (near * (2.0 * shares - near))[..., :, None], (far * (2.0 * shares - far))[..., None, :]
    root = np.sqrt(np.maximum(product * product - top * bottom, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        limit = (product + root) / bottom if upper else np.where(top > 0, top / (product + root), 0.0)
    same = np.eye(shares.shape[-1], dtype=bool)
    limit = np.where(np.isnan(product) | same | np.isnan(limit), np.inf, limit)
    return np.asarray(limit.min(axis=-1))


class Floor(NamedTuple):
    """The noise floor: gaps that rules without any true gap show by chance.

    ``mean`` and ``detectable`` are of the largest gap of all, ``by_rate`` of each rate's largest (columns: both), and
    ``by_site`` the mean of each site's largest.
    """

    mean: float
    detectable: float
    by_rate: Floats
    by_site: Floats


def noise_floor(shares: Floats, people: Floats, names: Sequence[str], gap: float = 0.0) -> Floor:
    """Gaps that a rule with equal rates at every site would show on as many people; arrays (rates, sites, groups).

    A parametric bootstrap: in every draw each group's share is binomial around the site's common share (to which one
    hit and one miss are added, since no acceptance among few does not make it impossible). A gap up to the 95% quantile
    of the largest, ``detectable``, cannot be told from chance. A rate of the same name has the same draws, whichever
    others are measured with it. With ``gap`` the true rates of a site's groups differ by so much, at equal steps around
    the common share, or by as much as shares in [0, 1] can.
    """
    compared = (~np.isnan(shares) & (people > 0)).sum(axis=-1) >= 2
    by_site, largest = np.zeros(shares.shape[1]), []
    for low, high in _drawn_ends(shares, people, names, gap):
        gaps = np.where(compared, high - low, 0.0)
        by_site += gaps.max(axis=1).sum(axis=0)
        largest.append(gaps.max(axis=2))
    of_rates = np.concatenate(largest)
    by_site = np.where(compared.any(axis=0), by_site / len(of_rates), np.nan)
    by_rate = np.column_stack([of_rates.mean(axis=0), np.quantile(of_rates, 0.95, axis=0)])
    by_rate[~compared.any(axis=1)] = np.nan
    if not compared.any():
        return Floor(np.nan, np.nan, by_rate, by_site)
    of_all = of_rates.max(axis=1)
    return Floor(float(of_all.mean()), float(np.quantile(of_all, 0.95)), by_rate, by_site)


def ratio_floor(shares: Floats, people: Floats, name: str) -> tuple[float, float]:
    """The smallest ratio of two shares that a rule with equal rates shows on as many people, by chance.

    Its mean and 5% quantile over draws. Draws in which nobody is accepted have no ratio and are left out; NaN where
    fewer than two shares are known, or nobody is accepted in any draw.
    """
    every = list(_drawn_ends(shares[None, None], people[None, None], [name]))
    low, high = (np.concatenate(ends).ravel() for ends in zip(*every, strict=True))
    ratios = low[high > 0] / high[high > 0]
    if np.sum(~np.isnan(shares) & (people > 0)) < 2 or not ratios.size:
        return np.nan, np.nan
    return float(ratios.mean()), float(np.quantile(ratios, 0.05))


def _drawn_ends(
    shares: Floats, people: Floats, names: Sequence[str], gap: float = 0.0
) -> Iterator[tuple[Floats, Floats]]:
    """The least and the largest share of every draw, each (draws, rates, sites), some draws at a time.

    Equal rates about every site's common share, or rates that differ by ``gap`` in equal steps. Every name has a fixed
    stream of random numbers: the same rows have the same floor.
    """
    known = ~np.isnan(shares) & (people > 0)
    counts = np.maximum(np.rint(np.where(known, people, 1.0)), 1.0).astype(np.int64)
    everybody = np.where(known, people, 0.0)
    accepted = (everybody * np.where(known, shares, 0.0)).sum(-1, keepdims=True)
    everybody = everybody.sum(-1, keepdims=True)
    common = (np.minimum(accepted, everybody) + 1.0) / (everybody + 2.0)
    among = (known.cumsum(axis=-1) - 1) / np.maximum(known.sum(axis=-1, keepdims=True) - 1, 1)  # 0 to 1: first to last
    chance = np.clip(np.clip(common, gap / 2, 1.0 - gap / 2) + gap * (among - 0.5), 0.0, 1.0)
    streams = [np.random.default_rng(zlib.crc32(name.encode("utf-8", "replace"))) for name in names]
    left = int(np.clip(_DRAWN // max(counts.size, 1), _FEWEST_DRAWS, _DRAWS))
    while left:
        size = min(max(1, _CHUNK // max(counts.size, 1)), left)
        every = zip(streams, counts, chance, strict=True)
        drawn = np.stack([rng.binomial(n, p, size=(size, *n.shape)) / n for rng, n, p in every], axis=1)
        low = np.min(drawn, axis=-1, where=known, initial=1.0)
        yield low, np.max(drawn, axis=-1, where=known, initial=0.0)
        left -= size
