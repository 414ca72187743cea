"""Cells: running sums and corners against sums over rows and all thresholds tried."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from logofair.columns.cells import build_cells
from support.examples import examples
from support.oracles import Case, cases

modest = examples(50)
lines = st.tuples(st.integers(-4, 4).map(lambda k: k / 2), st.integers(-4, 4).map(lambda k: k / 4))
any_cases = st.booleans().flatmap(lambda labelled: cases(labelled=labelled))


def cells_of(case, **changes):
    columns = {"scores": case.scores, "values": case.labels, "weights": case.weights} | changes
    return build_cells(
        columns["scores"],
        case.groups.astype(np.int32),
        case.sites.astype(np.int32),
        n_groups=case.n_groups,
        n_sites=case.n_sites,
        values=columns["values"],
        weights=columns["weights"],
    )


def one_cell(scores):
    """Rows of one group at one site, with nothing required of them."""
    code, none = np.zeros(len(scores), dtype=np.int32), np.zeros((1, 0))
    return Case(np.array(scores), code, code, 1, 1, (), (), none, none[0])


def rows_of(case, cell):
    """Rows of a cell: (score, value, weight), none of weight 0."""
    weights = np.ones(case.scores.size) if case.weights is None else case.weights
    inside = case.sites * case.n_groups + case.groups == cell
    rows = zip(case.scores[inside], case.values[inside], weights[inside], strict=True)
    return [(float(s), float(v), float(w)) for s, v, w in rows if w > 0]


def measured(rows, accepted):
    """(u, v) of accepting some of a cell's rows."""
    total = math.fsum(w for _, _, w in rows) or 1.0
    u = math.fsum(w for s, v, w in rows if accepted(s)) / total
    return u, math.fsum(w * v for s, v, w in rows if accepted(s)) / total


def rising(threshold):
    """The rule that accepts a score and all above it."""
    return lambda score: score >= threshold


def falling(threshold):
    """The rule that accepts a score and all below it."""
    return lambda score: score <= threshold


def every_cut(cells, cell):
    cuts = np.arange(cells.starts[cell + 1] - cells.starts[cell] + 1)
    return np.full(cuts.size, cell), cuts


@modest
@given(any_cases)
def test_mass_and_positives_are_the_sums_of_the_rows(case):
    cells = cells_of(case)
    for cell in range(case.n_groups * case.n_sites):
        rows = rows_of(case, cell)
        assert cells.mass[cell] == pytest.approx(math.fsum(w for _, _, w in rows), abs=1e-12)
        assert cells.positives[cell] == pytest.approx(math.fsum(w * v for _, v, w in rows), abs=1e-12)


@modest
@given(any_cases, st.booleans())
def test_a_corner_accepts_exactly_the_rows_beyond_its_thresholds(case, upper):
    cells = cells_of(case)
    for cell in range(case.n_groups * case.n_sites):
        rows = rows_of(case, cell)
        numbers, cuts = every_cut(cells, cell)
        u, v = cells.corner(numbers, cuts, np.full(cuts.size, upper))
        levels, above = cells.rules(numbers, cuts, np.full(cuts.size, upper))
        under, over = cells.levels.thresholds(numbers, levels)
        for i in range(cuts.size):
            if under[i] == over[i]:  # equal scores kept apart: no threshold realises this cut
                continue
            expected = measured(rows, rising(over[i]) if above[i] else falling(under[i]))
            assert (u[i], v[i]) == pytest.approx(expected, abs=1e-12)


@modest
@given(any_cases)
def test_cuts_go_from_nobody_below_to_everybody_below(case):
    cells = cells_of(case)
    for cell in range(case.n_groups * case.n_sites):
        rows = rows_of(case, cell)
        numbers, cuts = every_cut(cells, cell)
        mass, positives = cells.below(numbers, cuts)
        assert (mass[0], positives[0]) == (0, 0)
        assert (mass[-1], positives[-1]) == pytest.approx(measured(rows, lambda s: True), abs=1e-12)
        assert np.all(np.diff(mass) > 0)
        slopes = np.diff(positives) / np.diff(mass)
        assert np.all(np.diff(slopes) >= -1e-9), "blocks of rising value"
        under, over = cells.thresholds(numbers, cuts)
        assert (under[0], over[-1]) == (-np.inf, np.inf)
        assert np.all(under <= over)


@modest
@given(cases(), lines)
def test_the_best_corner_accepts_every_row_that_gains_and_no_other(case, line):
    slope, constant = line
    cells = cells_of(case)
    every = np.arange(case.n_groups * case.n_sites)
    value, u, v = cells.best_corner(every, np.full(every.size, slope), np.full(every.size, constant))
    np.testing.assert_allclose(value, slope * v + constant * u, rtol=0, atol=1e-12)
    for cell in every:
        rows = rows_of(case, cell)
        total = math.fsum(w for _, _, w in rows) or 1.0
        best = math.fsum(w * max(slope * x + constant, 0.0) for _, x, w in rows) / total
        assert value[cell] == pytest.approx(best, abs=1e-12)
        assert value[cell] >= -1e-15


@modest
@given(cases(labelled=True), lines)
def test_with_labels_no_threshold_beats_the_best_corner_and_some_mixture_attains_it(case, line):
    slope, constant = line
    cells = cells_of(case)
    every = np.arange(case.n_groups * case.n_sites)
    value, u, v = cells.best_corner(every, np.full(every.size, slope), np.full(every.size, constant))
    for cell in every:
        rows = rows_of(case, cell)
        corners = [(0.0, 0.0), *(measured(rows, edge(t)) for t, _, _ in rows for edge in (rising, falling))]
        best = max(slope * y + constant * x for x, y in corners)
        assert value[cell] == pytest.approx(best, abs=1e-12)
        assert value[cell] == pytest.approx(slope * v[cell] + constant * u[cell], abs=1e-12)


@modest
@given(any_cases, st.data())
def test_the_order_of_the_rows_does_not_matter(case, data):
    order = np.array(data.draw(st.permutations(range(case.scores.size))))
    one = cells_of(case)
    labels, weights = (None if c is None else c[order] for c in (case.labels, case.weights))
    other = build_cells(
        case.scores[order],
        case.groups[order].astype(np.int32),
        case.sites[order].astype(np.int32),
        n_groups=case.n_groups,
        n_sites=case.n_sites,
        values=labels,
        weights=weights,
    )
    assert one.starts.tolist() == other.starts.tolist()
    np.testing.assert_allclose(one.values, other.values, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(one.lowest, other.lowest)


@modest
@given(any_cases)
def test_a_row_of_weight_two_is_two_rows(case):
    twice = np.concatenate([np.arange(case.scores.size)] * 2)
    weights = np.ones(case.scores.size) if case.weights is None else case.weights
    heavy = cells_of(case, weights=2.0 * weights)
    double = build_cells(
        case.scores[twice],
        case.groups[twice].astype(np.int32),
        case.sites[twice].astype(np.int32),
        n_groups=case.n_groups,
        n_sites=case.n_sites,
        values=None if case.labels is None else case.labels[twice],
        weights=weights[twice],
    )
    np.testing.assert_allclose(heavy.mass, double.mass, rtol=1e-14)
    for slope, constant in ((2.0, -1.0), (-2.0, 1.0), (1.0, -0.3)):
        every = np.arange(heavy.mass.size)
        line = np.full(every.size, slope), np.full(every.size, constant)
        np.testing.assert_allclose(heavy.best_corner(every, *line)[0], double.best_corner(every, *line)[0], atol=1e-13)


@modest
@example(one_cell([1.0, 0.238368]), (1.0, -1.0))  # the higher row gains nothing: both corners are the best
@given(cases(), lines)
def test_scores_given_as_values_change_nothing(case, line):
    plain, explicit = cells_of(case, weights=None), cells_of(case, values=case.scores, weights=None)
    every = np.arange(plain.mass.size)
    slope, constant = (np.full(every.size, number) for number in line)
    value, *corner = plain.best_corner(every, slope, constant)
    other_value, *other_corner = explicit.best_corner(every, slope, constant)
    np.testing.assert_allclose(value, other_value, rtol=0, atol=1e-12)
    if not np.any(np.abs(slope[0] * case.scores + constant[0]) < 1e-9):  # no row on the line, which rounding may part
        np.testing.assert_allclose(corner, other_corner, rtol=0, atol=1e-12)


def test_a_row_of_weight_zero_is_no_corner():
    code = np.zeros(3, dtype=np.int32)
    scores, weights = np.array([0.2, 0.5, 0.9]), np.array([1.0, 0.0, 1.0])
    cells = build_cells(scores, code, code, n_groups=1, n_sites=1, weights=weights)
    under, over = cells.thresholds(np.zeros(3, dtype=np.int64), np.arange(3))
    assert under.tolist() == [-np.inf, 0.2, 0.9]
    assert over.tolist() == [0.2, 0.9, np.inf]


@pytest.mark.parametrize("labels", [None, np.array([0.0, 1.0, 0.0])])
def test_cells_of_rows_that_all_weigh_0_are_empty(labels):
    code, weights = np.zeros(3, dtype=np.int32), np.zeros(3)
    cells = build_cells(np.array([0.1, 0.2, 0.3]), code, code, n_groups=2, n_sites=1, values=labels, weights=weights)
    assert cells.mass.tolist() == cells.positives.tolist() == [0, 0]
    assert cells.levels.rows.tolist() == [3, 0]
    value, u, v = cells.best_corner(np.arange(2), np.ones(2), np.full(2, 0.5))
    assert value.tolist() == u.tolist() == v.tolist() == [0, 0]


def test_empty_cells_have_no_mass_and_nothing_to_gain():
    code = np.zeros(1, dtype=np.int32)
    cells = build_cells(np.array([0.7]), code, code, n_groups=3, n_sites=2)
    every = np.arange(6)
    assert cells.mass.tolist() == [1, 0, 0, 0, 0, 0]
    value, u, v = cells.best_corner(every, np.full(6, -2.0), np.full(6, 3.0))
    assert value[1:].tolist() == u[1:].tolist() == v[1:].tolist() == [0] * 5
    u, v = cells.corner(every, np.zeros(6, dtype=np.int64), np.ones(6, dtype=bool))
    assert u.tolist() == [1, 0, 0, 0, 0, 0]


@modest
@given(any_cases, st.data())
def test_the_cells_of_some_sites_are_those_of_their_rows_alone(case, data):
    some = np.array(data.draw(st.lists(st.integers(0, case.n_sites - 1), min_size=1, unique=True)))
    number = np.full(case.n_sites, -1)
    number[some] = np.arange(some.size)
    inside = number[case.sites] >= 0
    assume(inside.any())
    columns = {
        name: None if (column := getattr(case, name)) is None else column[inside]
        for name in ("scores", "groups", "labels", "weights")
    }
    alone = replace(case, sites=number[case.sites[inside]], n_sites=some.size, **columns)
    found, expected = cells_of(case).of_sites(some), cells_of(alone)
    assert (found.hull_of is None) == (expected.hull_of is None)
    for one, other in ((found, expected), (found.levels, expected.levels)):
        for field in fields(one):
            if field.name != "hull_of":
                np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), field.name)


@modest
@given(cases(), st.data())
def test_joined_blocks_have_the_rows_of_both_and_every_cut_between_others_stays(case, data):
    cells = cells_of(case)
    begins = np.array(data.draw(st.lists(st.booleans(), min_size=cells.values.size, max_size=cells.values.size)), bool)
    joined = cells.joined(begins)
    np.testing.assert_array_equal(joined.mass, cells.mass)
    np.testing.assert_array_equal(joined.positives, cells.positives)
    np.testing.assert_array_equal(joined.rows, cells.rows)
    for cell in range(case.n_groups * case.n_sites):
        first, last = cells.starts[cell : cell + 2]
        left = [0, *(i for i in range(1, last - first) if begins[first + i]), *([last - first] if last > first else [])]
        numbers, cuts = every_cut(joined, cell)
        assert cuts.size == len(left)
        for one, other in zip(joined.below(numbers, cuts), cells.below(numbers, np.array(left)), strict=True):
            np.testing.assert_array_equal(one, other)
        inside = slice(*joined.starts[cell : cell + 2])
        np.testing.assert_array_equal(joined.lowest[inside], cells.lowest[first + np.array(left[:-1], dtype=int)])
        np.testing.assert_array_equal(joined.highest[inside], cells.highest[first - 1 + np.array(left[1:], dtype=int)])
        mass, positives = joined.below(numbers, cuts)
        np.testing.assert_allclose(joined.values[inside] * np.diff(mass), np.diff(positives), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(cells.joined(np.ones(begins.size, dtype=bool)).values, cells.values)


def test_labels_against_the_order_of_the_scores_are_pooled_by_hand():
    code = np.zeros(4, dtype=np.int32)
    labels = np.array([0.0, 1.0, 0.0, 1.0])
    cells = build_cells(np.array([0.1, 0.2, 0.3, 0.4]), code, code, n_groups=1, n_sites=1, values=labels)
    assert cells.mass.tolist() == [4]
    # From the top: 1, 0, 1, 0. The second row from the top is never the best place to stop.
    for constant, expected in ((-0.9, 0.1 / 4), (-0.4, (2 - 3 * 0.4) / 4), (-0.6, 0.4 / 4)):
        value, _, _ = cells.best_corner(np.array([0]), np.array([1.0]), np.array([constant]))
        assert value[0] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("rows", "sites", "digits"), [(1, 1, 1), (400, 30, 1), (30_000, 2, 3)])
def test_labels_sorted_with_their_scores_give_the_cells_of_rows_in_order(rows, sites, digits):
    rng = np.random.default_rng(rows)
    scores = np.round(rng.random(rows), digits)
    scores[::7], scores[1::9] = -0.0, 1.0
    labels, codes = (rng.random(rows) < scores).astype(float), rng.integers(0, 2 * sites + 1, rows).astype(np.int32)
    sizes = {"n_groups": 2, "n_sites": sites + 1}
    found = build_cells(scores, codes % 2, codes // 2, values=labels, **sizes)
    expected = build_cells(scores, codes % 2, codes // 2, values=labels, weights=np.ones(rows), **sizes)
    for one, other in ((found, expected), (found.levels, expected.levels)):
        for name in ("starts", "lowest", "highest", "values", "positives_below", "mass_below", "rows"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
