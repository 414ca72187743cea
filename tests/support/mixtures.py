"""Answers for masters to mix, and the best mixture by HiGHS."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linprog

from support.oracles import HIGHS


def best_value(gains, rates, tolerance, widened=0.0) -> float:
    """The optimum of answers of bunches by HiGHS, with one row for every ordered pair of groups that count.

    Gains are (answers, bunches), or (answers,) of one bunch; every tolerance may be exceeded by as much as is widened.
    """
    answers, bunches = gains.shape if gains.ndim == 2 else (gains.size, 1)
    rates, rows, limits = rates.reshape(answers * bunches, *tolerance.shape), [], []
    for k in range(tolerance.shape[1]):
        for a, b in permutations(np.flatnonzero(np.isfinite(tolerance[:, k])), 2):
            rows.append(rates[:, a, k] - rates[:, b, k])
            limits.append(tolerance[a, k] + widened)
    for bunch in range(bunches):
        rows.append(np.tile(np.arange(bunches) == bunch, answers).astype(float))
        limits.append(1.0)
    program = {"c": -gains.ravel(), "A_ub": np.array(rows), "b_ub": limits, "method": "highs"}
    found = linprog(**program, options=HIGHS)
    if found.status != 0:  # its presolve fails at times on limits of 1e-11
        found = linprog(**program, options=HIGHS | {"presolve": False})
    return -found.fun


@st.composite
def masters(draw, sizes=(1, 3, 12), bunches=(1, 2, 7)):
    """Answers of bunches, which add up to rates in [0, 1]; some answers twice, some groups that do not count."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    groups, kinds, size = draw(st.integers(2, 5)), draw(st.integers(1, 3)), draw(st.sampled_from(sizes))
    number = draw(st.sampled_from(bunches))
    rates = rng.random((size, number, groups, kinds))
    if draw(st.booleans()):
        rates = np.round(rates, 1)  # many ties
    gains = rng.normal(0.05, 0.1, (size, number))
    if draw(st.booleans()):
        again = rng.integers(0, size, size // 2)
        rates[: again.size], gains[: again.size] = rates[again], gains[again]
    if draw(st.booleans()):
        rates[0] = rates[0, :, :1]  # one answer without a gap
    chosen = draw(st.lists(st.sampled_from([0.0, 1e-6, 0.01, 0.3, np.inf]), min_size=kinds, max_size=kinds))
    tolerance = np.tile(chosen, (groups, 1))
    if groups > 2 and draw(st.booleans()):
        tolerance[draw(st.integers(0, groups - 1))] = np.inf
    return gains / number, rates / number, tolerance
