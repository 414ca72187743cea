"""The discrete Gaussian mechanism, drawn and accounted for by OpenDP (``pip install 'logofair[privacy]'``).

OpenDP samples whole-number noise exactly (no floating-point noise, whose last bits are known to betray data) from the
operating system's entropy, and its accountant belongs to that very sampler: zero-concentrated privacy of
``sensitivity**2 / (2 scale**2)`` (Canonne, Kamath and Steinke, 2020), turned into (epsilon, delta).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from logofair.errors import InputError
from logofair.federation.privacy.bins import Counts

# Widths beyond which a rehearsal's table of the distribution stops: what lies outside has mass 1e-32.
_TAILS = 12


@dataclass(frozen=True)
class NoiseCost:
    """Standard deviation of the noise, and what one release with it costs.

    Examples
    --------
    >>> NoiseCost(scale=6.5, epsilon=1.0, delta=1e-6).scale
    6.5
    """

    scale: float
    epsilon: float
    delta: float


@lru_cache(maxsize=64)
def smallest_scale(epsilon: float, delta: float, sensitivity: float) -> NoiseCost:
    """The least noise whose release costs at most (epsilon, delta).

    Parameters
    ----------
    epsilon, delta : float
        What may be spent.
    sensitivity : float
        The largest distance (L2) between the counts of two neighbouring data sets.

    Examples
    --------
    >>> spending = smallest_scale(1.0, 1e-6, 1.0)
    >>> round(spending.scale, 2), spending.epsilon <= 1.0
    (4.53, True)
    """
    library = _library()

    def accounted(scale: float) -> Any:
        gaussian = _gaussian(library, scale)
        return library.c.make_fix_delta(library.c.make_zCDP_to_approxDP(gaussian), delta)

    # T says that a real number is sought: the default search stops at whole numbers.
    scale = float(library.binary_search_param(accounted, d_in=sensitivity, d_out=(epsilon, delta), T=float))
    spent, at = accounted(scale).map(sensitivity)
    return NoiseCost(scale, float(spent), float(at))


def add_noise(counts: Counts, scale: float) -> Counts:
    """Counts with fresh noise from the operating system's entropy: no two calls agree, and none can be repeated.

    Examples
    --------
    >>> add_noise(np.array([[3, 0]]), scale=2.0).shape
    (1, 2)
    """
    noised = _gaussian(_library(), scale)(counts.ravel().tolist())
    return np.asarray(noised, dtype=np.int64).reshape(counts.shape)


def add_seeded_noise(counts: Counts, scale: float, random_state: int) -> Counts:
    """Counts with noise of the same distribution from a seed, for rehearsals: whoever knows the seed undoes it.

    Examples
    --------
    >>> one, other = (add_seeded_noise(np.array([3, 0]), 2.0, random_state=1) for _ in range(2))
    >>> bool((one == other).all())
    True
    """
    most = int(np.ceil(_TAILS * scale)) + 1
    values = np.arange(-most, most + 1)
    density = np.exp(-0.5 * (values / scale) ** 2)
    noise = np.random.default_rng(random_state).choice(values, size=counts.shape, p=density / density.sum())
    noised: Counts = counts + noise
    return noised


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
