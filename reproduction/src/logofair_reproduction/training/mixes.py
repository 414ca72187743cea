"""Convex mixes of gradients, from their inner products alone: the programs inside FCFL."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy.optimize import linprog, nnls

from logofair.columns.checks import Floats

__all__ = ["best_mix", "shortest_mix"]


def best_mix(products: Floats, gain: Floats, at_least_zero: Iterable[int]) -> Floats:
    """Weights a >= 0 with sum 1 that maximise ``a @ gain`` while ``a @ products[:, j] >= 0`` for the j named.

    ``products`` are the inner products of the vectors mixed. Where the program has no answer: :func:`shortest_mix`.
    """
    products, lengths = np.asarray(products, dtype=np.float64), np.sqrt(np.clip(np.diag(products), 0.0, None))
    if not np.isfinite(products).all() or not lengths.any():
        return shortest_mix(products)
    # In unit vectors: the solver's tolerance is absolute, and a short gradient would count nothing beside a long one.
    least = lengths[lengths > 0].min()
    lengths = np.where(lengths > 0, lengths, least)
    kept = (products / lengths / lengths[:, None])[list(at_least_zero)]
    gains = np.asarray(gain, dtype=np.float64) / lengths
    found = linprog(
        -gains / (np.abs(gains).max() or 1.0),
        A_ub=-kept,
        b_ub=np.zeros(len(kept)),
        A_eq=[least / lengths],
        b_eq=[1.0],
        method="highs",
    )
    if found.status != 0 or found.x is None:
        return shortest_mix(products)
    weights = np.clip(found.x, 0.0, None) / lengths
    shares: Floats = weights / weights.sum()
    return shares


def shortest_mix(products: Floats) -> Floats:
    """Weights a >= 0 with sum 1 of the shortest mix: minimise ``a @ products @ a``."""
    products = np.nan_to_num(np.asarray(products, dtype=np.float64))
    scale = max(float(np.abs(products).max()), 1e-300)
    values, vectors = np.linalg.eigh(products / scale)
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))).T  # root.T @ root = products
    # The nearest point to 0 of a convex hull, as non-negative least squares (Lawson and Hanson, ch. 23).
    system = np.vstack([root, np.ones(len(products))])
    try:
        weights, _ = nnls(system, np.append(np.zeros(len(products)), 1.0))
    except RuntimeError:  # too many iterations; a run does not stop for that
        weights = np.ones(len(products))
    shares: Floats = weights / weights.sum()
    return shares
