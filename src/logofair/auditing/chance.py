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

__all__ = ["TAIL", "Floor", "common_shares", "limits_against", "noise_floor", "pair_limits", "share_limits"]

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


class Floor(NamedTuple):
    """Gaps that rules without any gap show by chance.

    ``mean`` and ``detectable`` are of the largest gap of all, ``by_rate`` of each rate's largest (columns: both), and
    ``by_client`` the mean of each client's largest.
    """

    mean: float
    detectable: float
    by_rate: Floats
    by_client: Floats


def noise_floor(shares: Floats, people: Floats, names: Sequence[str], gap: float = 0.0) -> Floor:
    """What a rule would show that treats all groups of a client alike, on as many people: (rates, clients, groups).

    A parametric bootstrap with equal rates: in every draw each group's share is drawn again around the client's common
    share (with one person of either kind added: nobody accepted does not mean that nobody will be). A gap up to the 95%
    quantile of the largest, ``detectable``, cannot be told from chance. A rate of the same name has the same draws,
    whichever others stand beside it. With a ``gap`` the groups that a client has differ by so much in truth, at
    equal steps about the common share, or as near to it as shares can be.
    """
    known = ~np.isnan(shares) & (people > 0)
    compared = known.sum(axis=-1) >= 2
    counts = np.maximum(np.rint(np.where(known, people, 1.0)), 1.0).astype(np.int64)
    everybody = np.where(known, people, 0.0).sum(-1, keepdims=True)
    common = (common_shares(shares, people) * everybody + 1.0) / (everybody + 2.0)
    among = (known.cumsum(axis=-1) - 1) / np.maximum(known.sum(axis=-1, keepdims=True) - 1, 1)  # 0 to 1: first to last
    apart = gap * (among - 0.5)
    chance = np.clip(np.clip(common, gap / 2, 1.0 - gap / 2) + apart, 0.0, 1.0)
    draws = int(np.clip(_DRAWN // max(counts.size, 1), _FEWEST_DRAWS, _DRAWS))
    # fixed streams: the same rows have the same floor
    streams = [np.random.default_rng(zlib.crc32(name.encode("utf-8", "replace"))) for name in names]
    by_client, largest = np.zeros(shares.shape[1]), np.empty((draws, shares.shape[0]))
    step = max(1, _CHUNK // max(counts.size, 1))
    for first in range(0, draws, step):
        size = min(step, draws - first)
        gaps = _drawn_gaps(streams, size, counts, chance, known, compared)
        by_client += gaps.max(axis=1).sum(axis=0)
        largest[first : first + size] = gaps.max(axis=2)
    by_client = np.where(compared.any(axis=0), by_client / draws, np.nan)
    by_rate = np.column_stack([largest.mean(axis=0), np.quantile(largest, 0.95, axis=0)])
    by_rate[~compared.any(axis=1)] = np.nan
    if not compared.any():
        return Floor(np.nan, np.nan, by_rate, by_client)
    of_all = largest.max(axis=1)
    return Floor(float(of_all.mean()), float(np.quantile(of_all, 0.95)), by_rate, by_client)


def common_shares(shares: Floats, people: Floats) -> Floats:
    """The share of all groups of a client together, by rate and client, with one place for all groups; 0 of nobody."""
    mass = np.where(np.isnan(shares), 0.0, people)
    common = (mass * np.where(np.isnan(shares), 0.0, shares)).sum(-1) / np.maximum(mass.sum(-1), 1e-300)
    return np.asarray(np.clip(common, 0.0, 1.0)[..., None])


def _drawn_gaps(
    streams: Sequence[np.random.Generator],
    size: int,
    counts: Indices,
    chance: Floats,
    known: Booleans,
    compared: Booleans,
) -> Floats:
    """Gaps of so many draws, (draws, rates, clients); 0 where nothing is compared."""
    every = zip(streams, counts, chance, strict=True)
    drawn = np.stack([rng.binomial(n, p, size=(size, *n.shape)) / n for rng, n, p in every], axis=1)
    high = np.max(drawn, axis=-1, where=known, initial=0.0)
    low = np.min(drawn, axis=-1, where=known, initial=1.0)
    return np.where(compared, high - low, 0.0)
