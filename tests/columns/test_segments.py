"""Many short runs in one array: each function against the same thing done run by run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from logofair.columns.segments import cumulative, pool_starts, run_sums, search_runs, sorted_by_cell
from support.examples import examples

modest = examples(60)
lengths = st.lists(st.integers(0, 6), min_size=1, max_size=12)
# Many runs take one path, few another; long runs a third.
shapes = st.one_of(lengths, st.lists(st.integers(0, 3), min_size=60, max_size=90), st.just([300, 0, 700, 1]))


eighths = st.integers(0, 8).map(lambda k: k / 8)


@st.composite
def runs(draw):
    """Runs of values as lists."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    sizes = draw(shapes)
    if sum(sizes) > 100 or draw(st.booleans()):
        return [rng.choice([0.0, 0.25, 0.5, 1.0, *rng.random(40)], size) for size in sizes]
    return [np.array(draw(st.lists(eighths, min_size=size, max_size=size)), dtype=float) for size in sizes]


def joined(parts):
    return np.concatenate(parts), np.concatenate([[0], np.cumsum([part.size for part in parts])]).astype(np.int64)


def by_cell(cell, n_cells, scores):
    """Sort by cells numbered site by site, two groups each (a group too many where the number is odd)."""
    sites, groups = np.divmod(cell.astype(np.int32), np.int32(2))
    ordered, starts = sorted_by_cell(groups, sites, 2, (n_cells + 1) // 2, scores)
    return ordered, starts[: n_cells + 1]


@modest
@given(runs(), st.integers(0, 2**32 - 1))
def test_rows_are_sorted_inside_their_cell_whatever_their_order(parts, seed):
    cell = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    order = np.random.default_rng(seed).permutation(cell.size)
    ordered, starts = by_cell(cell[order], len(parts), np.concatenate(parts)[order])
    assert starts.tolist() == joined(parts)[1].tolist()
    np.testing.assert_array_equal(ordered, np.concatenate([np.sort(part) for part in parts]))


@pytest.mark.parametrize("cells", [1, 3, 500])
@pytest.mark.parametrize("kind", ["spread", "heaped", "ends"])
def test_many_rows_are_sorted_as_by_lexsort(cells, kind):
    rng = np.random.default_rng(7)
    scores = rng.random(40_000)
    if kind == "heaped":  # nearly all scores fall into one narrow range
        scores = 0.5 + 1e-9 * scores
    if kind == "ends":
        scores = np.where(scores < 0.3, 0.0, np.where(scores < 0.6, 1.0, scores))
    cell = rng.integers(0, cells, scores.size)
    kept = scores.copy()
    ordered, starts = by_cell(cell, cells, scores)
    np.testing.assert_array_equal(ordered, scores[np.lexsort((scores, cell))])
    np.testing.assert_array_equal(starts, np.searchsorted(np.sort(cell), np.arange(cells + 1)))
    np.testing.assert_array_equal(scores, kept)


@modest
@given(runs())
def test_running_sums_start_at_zero_in_every_run(parts):
    data, starts = joined(parts)
    expected = np.concatenate([np.concatenate([[0.0], np.cumsum(part)]) for part in parts])
    np.testing.assert_allclose(cumulative(data, starts), expected, rtol=0, atol=1e-12 * max(1, data.size))


def test_the_sums_of_a_short_run_do_not_suffer_from_a_million_rows_before_it():
    rng = np.random.default_rng(0)
    big, small = rng.random(1_000_000), rng.random(3) * 1e-6
    for parts in ([big, small], [small, big], [big, small, big]):
        sums = cumulative(*joined(parts))
        at = 0
        for part in parts:
            exact = [math.fsum(part[:k]) for k in (0, 1, 2, 3)]
            np.testing.assert_allclose(sums[at : at + 4], exact, rtol=1e-13, atol=0)
            at += part.size + 1


@pytest.mark.parametrize("light", [1.0, 1e-6, 1e-30])
def test_the_sums_of_a_light_run_do_not_suffer_from_a_heavy_one_before_it(light):
    rng = np.random.default_rng(1)
    heavy, thin = 1e6 * rng.random(40), light * rng.random(3)
    sums = cumulative(*joined([heavy, thin, heavy, thin]))
    for at in (41, 41 + 4 + 41):
        np.testing.assert_allclose(sums[at : at + 4], [math.fsum(thin[:k]) for k in range(4)], rtol=1e-13, atol=0)


@modest
@given(runs(), st.lists(st.integers(-1, 9).map(lambda k: k / 8), min_size=1, max_size=5), st.booleans())
def test_a_search_in_each_run_is_numpys_search_in_that_run(parts, targets, right):
    parts = [np.sort(part) for part in parts]
    data, starts = joined(parts)
    first, last = starts[:-1], starts[1:]
    target = np.resize([*targets, -np.inf, np.inf], first.size)
    side = np.resize([right, not right, right], first.size)
    found = search_runs(data, first, last, target, right=side)
    expected = [np.searchsorted(p, t, "right" if r else "left") for p, t, r in zip(parts, target, side, strict=True)]
    assert found.tolist() == expected


@pytest.mark.parametrize("runs_in_all", [49, 70_000])
def test_a_search_in_many_runs_counts_what_is_below(runs_in_all):
    rng = np.random.default_rng(3)
    data = np.sort(rng.integers(0, 4, (runs_in_all, 3)) / 4.0, axis=1)
    first, target, right = (
        3 * np.arange(runs_in_all),
        rng.integers(0, 4, runs_in_all) / 4.0,
        rng.random(runs_in_all) < 0.5,
    )
    found = search_runs(data.ravel(), first, first + 3, target, right=right)
    below = np.where(right[:, None], data <= target[:, None], data < target[:, None])
    np.testing.assert_array_equal(found, below.sum(axis=1))


@modest
@given(runs())
def test_run_sums_are_the_sums_of_the_runs(parts):
    data, starts = joined(parts)
    np.testing.assert_allclose(run_sums(data, starts), [math.fsum(part) for part in parts], rtol=1e-12, atol=1e-12)


def test_no_rows_at_all_are_fine():
    none, starts = np.zeros(0), np.zeros(4, dtype=np.int64)
    assert run_sums(none, starts).tolist() == [0, 0, 0]
    assert cumulative(none, starts).tolist() == [0, 0, 0]
    ordered, found = by_cell(np.zeros(0, dtype=int), 3, none)
    assert ordered.size == 0
    assert found.tolist() == [0, 0, 0, 0]
    assert search_runs(none, starts[:-1], starts[1:], np.ones(3), right=np.zeros(3, dtype=bool)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("rising", [True, False])
def test_pools_are_those_of_an_isotonic_regression_of_each_run(rising):
    rng = np.random.default_rng(5)
    parts = [rng.random(size) for size in (1, 2, 7, 200, 0, 30)] + [np.arange(90) / 90, np.arange(80)[::-1] / 80]
    values, weights = np.concatenate(parts), rng.integers(1, 4, sum(map(len, parts))).astype(float)
    run = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    begins = np.append(pool_starts(values, weights, run, rising=rising), values.size)
    means = run_sums(weights * values, begins) / run_sums(weights, begins)
    found = np.repeat(means, np.diff(begins))
    for number, part in enumerate(parts):
        if part.size:
            weight = weights[run == number]
            expected = isotonic_regression(part, weights=weight, increasing=rising).x
            np.testing.assert_allclose(found[run == number], expected, rtol=0, atol=1e-12)
