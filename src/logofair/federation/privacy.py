"""Differential privacy: a site releases one noised histogram per group, and works on that alone from then on.

An answer of the protocol is taken at an optimum that moves with the data, so noise on answers would have to cover far
more than one row's share. The counts of a histogram change by one row alone: noise is added there, once, and all that
follows (totals, answers of any number of rounds, the published prices, the site's own policy) is computed from the
noised counts. That is post-processing and spends nothing. A site stores its release, so that the same rows are never
noised a second time. What is covered and what is not: ``docs/PRIVACY.md``.

Bin j of B holds the chances in ``[j/B, (j+1)/B)``; the last one holds 1 as well. B is a power of two, so that every
edge and every midpoint is an exact double and no row can fall on the wrong side of an edge by rounding.

The noise is the discrete Gaussian of OpenDP (``pip install 'logofair[privacy]'``), which samples whole numbers exactly
(no floating-point noise, whose last bits are known to betray data) from the operating system's entropy; its accountant
belongs to that very sampler: zero-concentrated privacy of ``sensitivity**2 / (2 scale**2)`` (Canonne, Kamath and
Steinke, 2020), turned into (epsilon, delta).
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import (
    Floats,
    Integers,
    column,
    nearest_name,
    probabilities,
    random_number,
    same_length,
    whole_number,
)
from logofair.errors import InputError
from logofair.policy.mixtures import Mixtures

_Counts: TypeAlias = npt.NDArray[np.int64]

# How far one person moves the counts (L2): one count by 1, or one down and another up.
_SENSITIVITY = {"add-remove": 1.0, "replace": math.sqrt(2.0)}  # the double nearest to sqrt 2 lies above it
_PRIVATE, _REHEARSAL = "discrete Gaussian", "discrete Gaussian from a seed"  # a rehearsal, not private
_LEAST_EPSILON, _MOST_EPSILON, _LEAST_DELTA, _MOST_DELTA, _MOST_BINS = 1e-4, 100.0, 1e-30, 1e-2, 1024
# Widths beyond which a rehearsal's table of the distribution stops: what lies outside has mass 1e-32.
_TAILS = 12


@dataclass(frozen=True)
class Privacy:
    """What one release may spend, and between which data sets it must not distinguish.

    Parameters
    ----------
    epsilon : float
        From 0.0001 to 100; 1 is a common choice, above 10 the guarantee is nominal.
    delta : float
        Chance that the guarantee fails, at most 0.01; well below one over the number of rows, such as 1e-6.
    neighbours : {"replace", "add-remove"}
        Two data sets are neighbours if one row is replaced by any other, or if one row is added or removed.
    bins : int
        Bins of the score, a power of two from 2 to 1024. Fewer bins carry less noise; 32 lose next to nothing.

    Examples
    --------
    >>> Privacy(epsilon=1.0, delta=1e-6).neighbours
    'replace'
    """

    epsilon: float
    delta: float
    neighbours: str = "replace"
    bins: int = 32

    def __post_init__(self) -> None:
        ranges = {"epsilon": (_LEAST_EPSILON, _MOST_EPSILON), "delta": (_LEAST_DELTA, _MOST_DELTA)}
        for name, (least, most) in ranges.items():
            value: Any = getattr(self, name)
            real = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not (real and least <= value <= most):
                raise InputError(f"{name}: got {value!r}; pass a number from {least:g} to {most:g}.")
            object.__setattr__(self, name, float(value))
        check_neighbours(self.neighbours)
        bins = whole_number(self.bins, "bins", least=2)
        if bins > _MOST_BINS or bins & (bins - 1):
            raise InputError(f"bins: got {bins}; pass a power of two from 2 to {_MOST_BINS}, such as 32.")
        object.__setattr__(self, "bins", bins)

    @property
    def sensitivity(self) -> float:
        """Largest distance (L2) between the exact counts of two neighbouring data sets."""
        return _SENSITIVITY[self.neighbours]


def check_neighbours(name: object) -> None:
    """Raise unless it says which data sets are neighbours."""
    if not isinstance(name, str) or name not in _SENSITIVITY:
        hint = nearest_name(name, _SENSITIVITY)
        raise InputError(f"neighbours: got {name!r}{hint}; use 'replace' or 'add-remove'.")


@dataclass(frozen=True, eq=False)
class Release:
    """Noised counts of one site, and what they cost; nothing in it needs hiding unless it is a rehearsal."""

    counts: _Counts  # (groups, bins), some of them negative
    privacy: Privacy  # what was allowed
    epsilon: float  # what was spent, by the accountant
    delta: float
    scale: float  # standard deviation of the noise on every count
    mechanism: str  # how the noise was made: secretly, or for a rehearsal, which can be repeated

    def rows(self) -> tuple[Floats, Integers, Floats]:
        """Chances (midpoints), group codes and weights (whole numbers from 0) that stand for the site's rows."""
        n_groups, bins = self.counts.shape
        codes = np.repeat(np.arange(n_groups, dtype=np.int32), bins)
        return np.tile(midpoints(bins), n_groups), codes, without_negatives(self.counts).ravel().astype(np.float64)

    def __post_init__(self) -> None:
        spent = np.array([self.epsilon, self.delta, self.scale])
        if self.counts.ndim != 2 or self.counts.shape[1] != self.privacy.bins:
            raise InputError("release: its counts are not those of its bins; restore the file.")
        if not np.all(np.isfinite(spent) & (spent > 0)) or self.mechanism not in (_PRIVATE, _REHEARSAL):
            raise InputError("release: what it has spent, or how its noise was made, is malformed; restore the file.")


def release(
    eta: object,
    groups: object,
    *,
    n_groups: int,
    privacy: Privacy,
    random_state: int | None = None,
) -> Release:
    """Count rows per group and bin, and add noise. Every call spends again: sites call :func:`release_once`.

    Rows have no weights here: a row of weight w would move a count by w. ``eta`` comes from a model and a calibrator
    that were fitted on other rows, or privately; ``groups`` are codes from 0 to ``n_groups - 1``, a number agreed on
    beforehand and not counted in the data. ``random_state`` is for rehearsals and tests only: noise that can be
    repeated protects nobody.
    """
    chances, codes = _checked_rows(eta, groups, n_groups)
    scale, epsilon, delta = smallest_scale(privacy)
    counts = histogram(chances, codes, n_groups, privacy.bins)
    noised = add_noise(counts, scale, random_state)
    mechanism = _PRIVATE if random_state is None else _REHEARSAL
    return Release(noised, privacy, epsilon, delta, scale, mechanism)


@dataclass(frozen=True)
class StoredRelease:
    """What a site keeps on its own disk and never sends: its release, and a fingerprint of the rows behind it."""

    release: Release
    fingerprint: str


def release_once(
    stored: StoredRelease | None,
    eta: object,
    groups: object,
    *,
    n_groups: int,
    privacy: Privacy,
    random_state: int | None = None,
) -> StoredRelease:
    """Release where nothing was released yet; afterwards return what was stored, or refuse.

    Store the result before anything computed from it leaves the site. In any later run on the same
    rows it is free; other rows, another budget, other bins or groups would need fresh noise, which spends again, and
    are refused.
    """
    chances, codes = _checked_rows(eta, groups, n_groups)
    order = np.lexsort((chances, codes))
    digest = hashlib.sha256(chances[order].astype("<f8").tobytes())
    digest.update(codes[order].astype("<i4").tobytes())
    fingerprint = digest.hexdigest()  # of the rows, whatever their order
    if stored is None:
        made = release(chances, codes, n_groups=n_groups, privacy=privacy, random_state=random_state)
        return StoredRelease(made, fingerprint)
    before = stored.release
    same = {
        "rows are": stored.fingerprint == fingerprint,
        "privacy settings are": before.privacy == privacy,
        "groups are": before.counts.shape[0] == n_groups,
        "kind of noise is": (before.mechanism == _PRIVATE) == (random_state is None),
    }
    changed = next((what for what, holds in same.items() if not holds), None)
    if changed is not None:
        raise InputError(
            f"release: the {changed} not those released before (epsilon {before.epsilon:g}, delta "
            f"{before.delta:g}) and a second release would spend again; use the stored release as it was made, or "
            "remove it knowing that both costs add up for everyone in both."
        )
    return stored


def _checked_rows(eta: object, groups: object, n_groups: int) -> tuple[Floats, Integers]:
    """Chances and group codes of the rows, checked."""
    chances, codes = probabilities(eta, "eta"), column(groups, "groups")
    same_length(chances.size, groups=codes)
    n_groups = whole_number(n_groups, "n_groups")
    if codes.size and codes.dtype.kind not in "iu":
        raise InputError(f"groups: expected codes from 0 to {n_groups - 1}, got values of type {codes.dtype}.")
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < n_groups:
        row = int(np.flatnonzero((codes < 0) | (codes >= n_groups))[0])
        raise InputError(f"groups: row {row} is {codes[row]}; pass codes from 0 to {n_groups - 1}, as agreed on.")
    return chances, codes.astype(np.int32)


def histogram(eta: Floats, groups: Integers, n_groups: int, bins: int) -> _Counts:
    """Rows of every group (down) in every bin (across)."""
    place = np.minimum((eta * bins).astype(np.int64), bins - 1)
    return np.bincount(groups.astype(np.int64) * bins + place, minlength=n_groups * bins).reshape(n_groups, bins)


def midpoints(bins: int) -> Floats:
    """The chance that stands for each bin."""
    return (np.arange(bins) + 0.5) / bins


def without_negatives(counts: _Counts) -> _Counts:
    """The nearest counts from 0 up with the same total in every row (all 0 where the total is not positive).

    Clipping alone would turn the noise of every empty bin into people: with the noise's width s it adds 0.4 s of them
    to each, all over the scores. Here what clipping adds is taken back evenly from the bins that remain, which is the
    least-squares projection onto counts of this total (Norm-Sub; Wang et al., 2020), rounded to whole rows by largest
    remainder. Whole-number arithmetic: the same on every machine.

    Examples
    --------
    >>> without_negatives(np.array([[10, -3, 2, 1], [-5, 1, 1, 1]]))
    array([[9, 0, 1, 0],
           [0, 0, 0, 0]])
    """
    made = np.zeros_like(counts)
    for row, rounded in zip(counts, made, strict=True):
        total = int(row.sum())
        if total <= 0:
            continue
        falling = -np.sort(-row)
        excess = np.cumsum(falling) - total
        # The largest k counts stay positive after each gives up excess / k.
        kept = int(np.flatnonzero(falling * np.arange(1, row.size + 1) > excess)[-1]) + 1
        share = np.maximum(row * kept - excess[kept - 1], 0)  # kept times the projection, still whole
        rounded[:] = share // kept
        most = np.argsort(rounded * kept - share, kind="stable")[: total - int(rounded.sum())]
        rounded[most] += 1
    return made


def at_edges(rules: Mixtures, bins: int) -> Mixtures:
    """The same rules on real scores: every threshold is moved to the edge of the bins it accepts.

    A rule found on midpoints accepts or rejects a bin as a whole, but its threshold lies anywhere between two
    midpoints, inside an empty bin for example, and would there part rows that were counted as one. At the edge every
    row of a bin is treated as its midpoint was, by "score >= edge" or by "score <= the last double below the edge".
    A bin that was mixed keeps its chance: each of its rows is accepted with it, by its own coin.
    """
    first = np.ceil(rules.threshold * bins - 0.5)  # lowest bin that "score >= threshold" accepts
    last = np.floor(rules.threshold * bins - 0.5)  # highest bin that "score <= threshold" accepts
    lower = np.where(last == bins - 1, 1.0, np.nextafter((last + 1.0) / bins, 0.0))
    nobody = np.where(rules.above, first == bins, last < 0)
    used = (rules.weight > 0) & ~nobody
    threshold = np.where(used, np.where(rules.above, first / bins, lower), 0.0)
    single = np.ceil(rules.single * bins - 0.5)
    return Mixtures(
        weight=np.where(used, rules.weight, 0.0),
        threshold=threshold,
        above=rules.above | ~used,
        single=np.where(single >= bins, np.inf, single / bins),
    )


@lru_cache(maxsize=64)
def smallest_scale(privacy: Privacy) -> tuple[float, float, float]:
    """The standard deviation of the least noise that is private enough, and the epsilon and delta that it costs."""
    library = _library()

    def accounted(scale: float) -> Any:
        gaussian = _gaussian(library, scale)
        return library.c.make_fix_delta(library.c.make_zCDP_to_approxDP(gaussian), privacy.delta)

    # T says that a real number is sought: the default search stops at whole numbers.
    budget = privacy.epsilon, privacy.delta
    scale = float(library.binary_search_param(accounted, d_in=privacy.sensitivity, d_out=budget, T=float))
    spent, at = accounted(scale).map(privacy.sensitivity)
    return scale, float(spent), float(at)


def add_noise(counts: _Counts, scale: float, random_state: int | None = None) -> _Counts:
    """Counts with fresh noise from the operating system's entropy: no two calls agree, and none can be repeated.

    With a ``random_state`` noise of the same distribution comes from that seed: whoever knows the seed undoes it.
    """
    if random_state is None:
        noised = _gaussian(_library(), scale)(counts.ravel().tolist())
        return np.asarray(noised, dtype=np.int64).reshape(counts.shape)
    most = int(np.ceil(_TAILS * scale)) + 1
    values = np.arange(-most, most + 1)
    density = np.exp(-0.5 * (values / scale) ** 2)
    rng = np.random.default_rng(random_number(random_state))
    return np.asarray(counts + rng.choice(values, size=counts.shape, p=density / density.sum()), dtype=np.int64)


def _gaussian(library: Any, scale: float) -> Any:
    """OpenDP's measurement: whole numbers in, whole numbers with noise out."""
    space = library.vector_domain(library.atom_domain(T="i64")), library.l2_distance(T=float)
    return library.m.make_gaussian(*space, scale)


def _library() -> ModuleType:
    """OpenDP, with the part of it named "contrib" allowed: its proofs are written but not all vetted from outside."""
    try:
        import opendp.prelude as opendp
    except ImportError:
        raise InputError("privacy: the package opendp is not installed; pip install 'logofair[privacy]'.") from None
    opendp.enable_features("contrib")
    return opendp
