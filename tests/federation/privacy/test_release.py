"""One release: what it may spend, what it contains, and how it is stored."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair.federation.plan import make_plan
from logofair.federation.privacy import Privacy, Release, histogram, release
from logofair.federation.rows import SiteColumns, site_rows
from logofair.fitting.fit import fit
from logofair.records import FAULTS, plain, read
from support.examples import examples

ROWS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2)), min_size=1, max_size=6)
POINTS = [(score, group) for score in (0.0, 0.3, 0.5, 1.0) for group in (0, 1, 2)]


def counted(rows, bins=4):
    eta, groups = np.array([score for score, _ in rows]), np.array([group for _, group in rows], dtype=np.int32)
    return histogram(eta, groups, 3, bins)


@examples(30)
@given(rows=ROWS)
def test_neighbouring_data_sets_differ_by_at_most_the_stated_sensitivity(rows):
    here = counted(rows)
    replaced, added = [], []
    for point in POINTS:
        added.append(np.linalg.norm(counted([*rows, point]) - here))
        replaced += [np.linalg.norm(counted([*rows[:i], point, *rows[i + 1 :]]) - here) for i in range(len(rows))]
    assert max(added) <= Privacy(1, 1e-6, "add-remove").sensitivity == 1.0
    assert max(replaced) <= Privacy(1, 1e-6, "replace").sensitivity
    assert max(replaced) == pytest.approx(math.sqrt(2))  # the bound is reached


def test_the_double_that_stands_for_the_square_root_of_two_is_not_too_small():
    numerator, denominator = Privacy(1, 1e-6).sensitivity.as_integer_ratio()
    assert numerator**2 >= 2 * denominator**2


def test_a_release_states_what_was_spent_and_stays_within_what_was_allowed():
    made = release([0.2, 0.7, 0.7], [0, 1, 1], n_groups=3, privacy=Privacy(0.7, 1e-7, bins=8))
    assert made.counts.shape == (3, 8)
    assert made.counts.dtype == np.int64
    assert made.mechanism == "discrete Gaussian"
    assert 0.69 < made.epsilon <= 0.7
    assert made.delta <= 1e-7


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_larger_epsilon_means_less_noise(neighbours):
    scales = [
        release([], [], n_groups=1, privacy=Privacy(epsilon, 1e-6, neighbours)).scale
        for epsilon in (0.1, 0.3, 1, 3, 10)
    ]
    assert all(np.diff(scales) < 0)


def test_replacing_a_row_needs_more_noise_than_adding_one():
    replace, add = (
        release([], [], n_groups=1, privacy=Privacy(1, 1e-6, how)).scale for how in ("replace", "add-remove")
    )
    assert replace == pytest.approx(math.sqrt(2) * add, rel=1e-6)


def test_noise_differs_from_call_to_call_unless_a_seed_makes_it_a_rehearsal():
    rows = {"n_groups": 4, "privacy": Privacy(0.1, 1e-6)}
    first, second = release([0.5], [0], **rows), release([0.5], [0], **rows)
    assert np.any(first.counts != second.counts)  # equal by chance once in 10**200
    one, other = release([0.5], [0], **rows, random_state=3), release([0.5], [0], **rows, random_state=3)
    np.testing.assert_array_equal(one.counts, other.counts)
    assert "seed" in one.mechanism


def test_groups_without_rows_and_sites_without_rows_are_noised_like_all_others():
    nobody = release([], [], n_groups=2, privacy=Privacy(0.1, 1e-6, bins=64))
    assert nobody.counts.shape == (2, 64)
    assert (nobody.counts != 0).mean() > 0.8
    one_group = release([0.5] * 1000, [1] * 1000, n_groups=2, privacy=Privacy(0.1, 1e-6, bins=64))
    assert (one_group.counts[0] != 0).mean() > 0.8


def test_the_counts_are_the_histogram_where_the_noise_is_negligible():
    eta, groups = [0.1, 0.1, 0.6, 1.0], [0, 0, 0, 1]
    made = release(eta, groups, n_groups=2, privacy=Privacy(100, 1e-2, "add-remove", bins=2))
    np.testing.assert_array_equal(made.counts, [[2, 1], [0, 1]])  # noise of width 0.1: not 0 once in 10**21


def test_rows_are_midpoints_with_whole_weights_that_fit_accepts():
    random = np.random.default_rng(0)
    eta, groups = random.random(4000), random.integers(0, 2, 4000)
    made = release(eta, groups, n_groups=2, privacy=Privacy(1, 1e-6), random_state=0)
    scores, codes, weights = made.rows()
    assert scores.shape == codes.shape == weights.shape == (64,)
    assert weights.min() >= 0
    np.testing.assert_array_equal(weights, np.rint(weights))
    assert weights.sum() == made.counts.sum()
    solution = fit(scores, None, sensitive_features=codes, calibration="none", sample_weight=weights)
    assert solution.certificate.holds


@examples(15)
@given(rows=ROWS, seed=st.none() | st.integers(0, 9), bins=st.sampled_from([2, 32]))
def test_a_stored_release_comes_back_the_same(rows, seed, bins):
    eta, groups = zip(*rows, strict=True)
    made = release(eta, groups, n_groups=3, privacy=Privacy(1, 1e-6, bins=bins), random_state=seed)
    again = read(json.loads(json.dumps(plain(made))), Release)
    np.testing.assert_array_equal(again.counts, made.counts)
    assert plain(again) == plain(made)
    assert ("seed" in again.mechanism) == (seed is not None)
    assert again.privacy == made.privacy


DAMAGE = [
    ("counts", [[1, 2]]),
    ("counts", [[1.5, 2, 3, 4]]),
    ("counts", None),
    ("privacy", {"epsilon": 1}),
    ("privacy", {"epsilon": -1, "delta": 1e-6}),
    ("epsilon", math.nan),
    ("scale", 0),
    ("delta", "much"),
    ("mechanism", "none"),
]


@pytest.mark.parametrize(("field", "value"), DAMAGE)
def test_a_damaged_release_is_refused(field, value):
    stored = plain(release([0.5], [0], n_groups=1, privacy=Privacy(1, 1e-6, bins=4)))
    with pytest.raises(FAULTS):
        read(stored | {field: value}, Release)


@pytest.mark.parametrize("stored", [None, [], "text", {}])
def test_what_is_no_release_is_refused(stored):
    with pytest.raises(FAULTS):
        read(stored, Release)


BAD_SETTINGS = [
    ({"epsilon": 0}, "epsilon: got 0; pass a number from 0.0001 to 100."),
    ({"epsilon": math.inf}, "epsilon: got inf; pass"),
    ({"epsilon": "1"}, "epsilon: got '1'; pass"),
    ({"epsilon": True}, "epsilon: got True; pass"),
    ({"delta": 0.0}, "delta: got 0.0; pass a number from 1e-30 to 0.01."),
    ({"delta": 0.5}, "delta: got 0.5; pass"),
    ({"delta": math.nan}, "delta: got nan; pass"),
    (
        {"neighbours": "replaced"},
        "neighbours: got 'replaced' (did you mean 'replace'?); use 'replace' or 'add-remove'.",
    ),
    ({"neighbours": None}, "neighbours: got None; use"),
    ({"bins": 100}, "bins: got 100; pass a power of two from 2 to 1024, such as 32."),
    ({"bins": 1}, "bins: got 1; pass a whole number of at least 2."),
    ({"bins": 2048}, "bins: got 2048; pass a power of two"),
    ({"bins": 32.0}, "bins: expected a whole number, got 32.0;"),
]


@pytest.mark.parametrize(("wrong", "sentence"), BAD_SETTINGS)
def test_settings_that_cannot_be_used_are_refused_in_one_sentence(wrong, sentence):
    with pytest.raises(InputError) as caught:
        Privacy(**({"epsilon": 1.0, "delta": 1e-6} | wrong))
    assert str(caught.value).startswith(sentence)


BAD_ROWS = [
    ({"eta": [0.5, 1.5]}, "eta: row 1 is 1.5, outside [0, 1]"),
    ({"eta": [0.5]}, "groups: has 2 rows, but the first column has 1"),
    ({"groups": [0, 2]}, "groups: row 1 is 2; pass codes from 0 to 1, as agreed on."),
    ({"groups": [-1, 0]}, "groups: row 0 is -1; pass codes"),
    ({"groups": ["F", "M"]}, "groups: expected codes from 0 to 1, got values of type <U1."),
    ({"n_groups": 0}, "n_groups: got 0; pass a whole number of at least 1."),
    ({"random_state": -1}, "random_state: got -1;"),
]


@pytest.mark.parametrize(("wrong", "sentence"), BAD_ROWS)
def test_rows_that_cannot_be_used_are_refused_in_one_sentence(wrong, sentence):
    usual = {"eta": [0.5, 0.6], "groups": [0, 1], "n_groups": 2, "privacy": Privacy(1, 1e-6)}
    with pytest.raises(InputError) as caught:
        release(**(usual | wrong))
    assert str(caught.value).startswith(sentence)


def test_without_the_library_the_extra_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(InputError, match=r"opendp is not installed; pip install 'logofair\[privacy\]'"):
        release([0.5], [0], n_groups=1, privacy=Privacy(1.25, 1e-6))


def test_weighted_rows_are_refused_under_privacy():
    plan = make_plan(groups=["F", "M"], calibration="none", privacy=Privacy(1, 1e-6))
    columns = SiteColumns(sensitive_features=["F", "M"], scores=[0.5, 0.6], sample_weight=[1.0, 2.0])
    with pytest.raises(InputError, match=r"^sample_weight: .*differential privacy"):
        site_rows(columns, plan)
