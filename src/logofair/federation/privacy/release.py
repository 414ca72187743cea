"""Differential privacy: a client releases one noised histogram per group, and works on that alone ever after.

An answer of the protocol is taken at an optimum that moves with the data, so noise on answers would have to cover far
more than one row's share. The counts of a histogram change by one row alone: noise is added there, once, and all that
follows (totals, answers of any number of rounds, the published prices, the client's own policy) is computed from the
noised counts. That is post-processing and spends nothing. What is covered and what is not: ``docs/PRIVACY.md``.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

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
from logofair.federation.privacy.bins import Counts, histogram, midpoints, without_negatives
from logofair.federation.privacy.mechanism import add_noise, add_seeded_noise, smallest_scale

__all__ = ["Privacy", "Release", "release"]


# How far one person moves the counts (L2): one count by 1, or one down and another up.
_SENSITIVITY = {"add-remove": 1.0, "replace": math.sqrt(2.0)}  # the double nearest to sqrt 2 lies above it
_PRIVATE, _REHEARSAL = "discrete Gaussian", "discrete Gaussian from a seed (a rehearsal, not private)"
_LEAST_EPSILON, _MOST_EPSILON, _LEAST_DELTA, _MOST_DELTA, _MOST_BINS = 1e-4, 100.0, 1e-30, 1e-2, 1024


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
        epsilon = _number(self.epsilon, "epsilon", _LEAST_EPSILON, _MOST_EPSILON)
        delta = _number(self.delta, "delta", _LEAST_DELTA, _MOST_DELTA)
        if not isinstance(self.neighbours, str) or self.neighbours not in _SENSITIVITY:
            hint = nearest_name(self.neighbours, _SENSITIVITY)
            raise InputError(f"neighbours: got {self.neighbours!r}{hint}; use 'replace' or 'add-remove'.")
        bins = whole_number(self.bins, "bins", least=2)
        if bins > _MOST_BINS or bins & (bins - 1):
            raise InputError(f"bins: got {bins}; pass a power of two from 2 to {_MOST_BINS}, such as 32.")
        for name, value in (("epsilon", epsilon), ("delta", delta), ("bins", bins)):
            object.__setattr__(self, name, value)

    @property
    def sensitivity(self) -> float:
        """Largest distance (L2) between the exact counts of two neighbouring data sets."""
        return _SENSITIVITY[self.neighbours]


@dataclass(frozen=True, eq=False)
class Release:
    """Noised counts of one client, and what they cost; nothing in it needs hiding unless it is a rehearsal.

    Attributes
    ----------
    counts : array of shape (groups, bins)
        Rows per group and bin with noise, some of them negative.
    privacy : Privacy
        What was allowed.
    epsilon, delta : float
        What was spent, by the accountant.
    scale : float
        Standard deviation of the noise on every count.
    mechanism : str
        How the noise was made.

    Examples
    --------
    >>> made = release([0.1, 0.8, 0.6], [0, 0, 1], n_groups=2, privacy=Privacy(1.0, 1e-6, bins=4))
    >>> made.counts.shape, made.mechanism, made.private
    ((2, 4), 'discrete Gaussian', True)
    """

    counts: Counts
    privacy: Privacy
    epsilon: float
    delta: float
    scale: float
    mechanism: str

    @property
    def private(self) -> bool:
        """Whether the noise is secret; that of a rehearsal follows from its seed."""
        return self.mechanism == _PRIVATE

    def rows(self) -> tuple[Floats, Integers, Floats]:
        """Chances (midpoints), group codes and weights (whole numbers from 0) that stand for the client's rows.

        Examples
        --------
        >>> privacy = Privacy(1.0, 1e-6, bins=2)
        >>> Release(np.array([[5, -1], [0, 3]]), privacy, 1.0, 1e-6, 6.4, "discrete Gaussian").rows()
        (array([0.25, 0.75, 0.25, 0.75]), array([0, 0, 1, 1], dtype=int32), array([4., 0., 0., 3.]))
        """
        n_groups, bins = self.counts.shape
        codes = np.repeat(np.arange(n_groups, dtype=np.int32), bins)
        return np.tile(midpoints(bins), n_groups), codes, without_negatives(self.counts).ravel().astype(np.float64)

    def as_json(self) -> dict[str, Any]:
        """Return plain values, from which :meth:`from_json` makes the same release."""
        plain = {name: getattr(self, name) for name in ("epsilon", "delta", "scale", "mechanism")}
        return {"counts": self.counts.tolist(), "privacy": asdict(self.privacy), **plain}

    @classmethod
    def from_json(cls, data: object) -> Release:
        """Rebuild a release from :meth:`as_json`; raise InputError where the content is damaged."""
        try:
            return _read_release(data)
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            reason = f" ({error})" if isinstance(error, InputError) else ""
            raise InputError(f"stored release: its parts are missing or malformed{reason}; restore the file.") from None


def release(
    eta: object, groups: object, *, n_groups: int, privacy: Privacy, weights: object = None, seed: int | None = None
) -> Release:
    """Count rows per group and bin, and add noise. Every call spends again: sites call ``noise_kept.release_once``.

    Parameters
    ----------
    eta : array-like of shape (n,)
        Chances of label 1 by a model and a calibrator that were fitted on other rows, or privately.
    groups : array-like of shape (n,)
        Codes from 0 to ``n_groups - 1``.
    n_groups : int
        Number of groups, agreed on beforehand and not counted in the data.
    privacy : Privacy
        What may be spent.
    weights : None
        Row weights are refused: one row of weight w would move a count by w.
    seed : int, optional
        For rehearsals and tests only: noise that can be repeated protects nobody. By default the noise comes from
        the operating system's entropy.

    Returns
    -------
    Release

    Examples
    --------
    >>> rehearsal = release([0.1, 0.8], [0, 1], n_groups=2, privacy=Privacy(10.0, 1e-6, bins=2), seed=0)
    >>> rehearsal.private, round(rehearsal.scale, 2)
    (False, 0.81)
    """
    chances, codes = checked_rows(eta, groups, n_groups, weights)
    spending = smallest_scale(privacy.epsilon, privacy.delta, privacy.sensitivity)
    counts = histogram(chances, codes, n_groups, privacy.bins)
    if seed is None:
        noised, mechanism = add_noise(counts, spending.scale), _PRIVATE
    else:
        noised, mechanism = add_seeded_noise(counts, spending.scale, random_number(seed)), _REHEARSAL
    return Release(noised, privacy, spending.epsilon, spending.delta, spending.scale, mechanism)


def checked_rows(eta: object, groups: object, n_groups: int, weights: object) -> tuple[Floats, Integers]:
    """Chances and group codes of the rows, checked at the door."""
    if weights is not None:
        raise InputError("weights: rows cannot be weighted under privacy, since one row would count for many; drop it.")
    chances, codes = probabilities(eta, "eta"), column(groups, "groups")
    same_length(chances.size, groups=codes)
    n_groups = whole_number(n_groups, "n_groups")
    if codes.size and codes.dtype.kind not in "iu":
        raise InputError(f"groups: expected codes from 0 to {n_groups - 1}, got values of type {codes.dtype}.")
    if codes.size and not 0 <= int(codes.min()) <= int(codes.max()) < n_groups:
        row = int(np.flatnonzero((codes < 0) | (codes >= n_groups))[0])
        raise InputError(f"groups: row {row} is {codes[row]}; pass codes from 0 to {n_groups - 1}, as agreed on.")
    return chances, codes.astype(np.int32)


def _read_release(data: Any) -> Release:
    """A release from plain values; any of the usual exceptions where they are not those of a release."""
    privacy = Privacy(**data["privacy"])
    counts = np.array(data["counts"])
    spent = {name: float(data[name]) for name in ("epsilon", "delta", "scale")}
    if counts.ndim != 2 or counts.dtype.kind != "i" or counts.shape[1] != privacy.bins:
        raise ValueError("counts")
    if not all(math.isfinite(number) and number > 0 for number in spent.values()):
        raise ValueError("numbers")
    if data["mechanism"] not in (_PRIVATE, _REHEARSAL):
        raise ValueError("mechanism")
    return Release(counts.astype(np.int64), privacy, mechanism=data["mechanism"], **spent)


def _number(value: Any, where: str, least: float, most: float) -> float:
    """A number from ``least`` to ``most``."""
    number = float(value) if isinstance(value, int | float | np.number) and not isinstance(value, bool) else math.nan
    if not least <= number <= most:
        raise InputError(f"{where}: got {value!r}; pass a number from {least:g} to {most:g}.")
    return number
