"""Calibrators: what they recover, how they borrow strength from one another, how they are stored."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from logofair.calibration import METHODS, Calibrator, fit_calibrator
from logofair.calibration.maps import FAMILIES, IsotonicMaps
from logofair.errors import InputError
from logofair.records import FAULTS, plain, read
from support.examples import examples
from support.rows import rows_of

Array = NDArray[np.float64]

FITTED = tuple(method for method in METHODS if method != "none")
fitted = pytest.mark.parametrize("method", FITTED)
parametric = pytest.mark.parametrize("method", FAMILIES)


@dataclass(frozen=True)
class Data:
    """Rows for a fit."""

    scores: Array
    labels: Array
    groups: NDArray[np.int32]
    sites: NDArray[np.int32]
    n_groups: int = 2
    n_sites: int = 3

    def fit(self, method: str, weights: Array | None = None, strength: float = 20.0) -> Calibrator:
        sample = rows_of(
            self.scores, self.labels, self.groups, self.sites, weights, shape=(self.n_sites, self.n_groups)
        )
        return fit_calibrator(sample, method, strength)

    def at(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Data:
        columns = (column[rows] for column in (self.scores, self.labels, self.groups, self.sites))
        return Data(*columns, self.n_groups, self.n_sites)


def drawn(n: int = 600, *, seed: int = 0, n_groups: int = 2, n_sites: int = 3, width: float = 0.7) -> Data:
    """Rows whose log-odds are those of the score, steeper, and shifted cell by cell."""
    rng = np.random.default_rng(seed)
    groups, sites = rng.integers(0, n_groups, n), rng.integers(0, n_sites, n)
    scores = rng.beta(1.5, 1.5, n)
    shift = rng.normal(0.0, width, (n_groups, n_sites))
    labels = rng.random(n) < expit(1.5 * logit(scores) + shift[groups, sites])
    return Data(scores, labels.astype(float), groups.astype(np.int32), sites.astype(np.int32), n_groups, n_sites)


def single_cell(scores: Array, labels: Array) -> Data:
    codes = np.zeros(scores.size, dtype=np.int32)
    return Data(scores, labels, codes, codes, 1, 1)


def maps(calibrator: Calibrator, grid: Array) -> Array:
    """Eta on the grid for every group (rows), at an unknown site and at every site (columns)."""
    return np.array(
        [
            [
                calibrator(grid, np.full(grid.size, group, np.int32), np.full(grid.size, site, np.int32))
                for site in range(-1, calibrator.n_sites)
            ]
            for group in range(calibrator.n_groups)
        ]
    )


def cell_parameters(calibrator: Calibrator) -> Array:
    """Parameters of the cells, (n_sites, n_groups, k)."""
    cells = calibrator.maps.parameters[1 + calibrator.n_groups :]
    return cells.reshape(calibrator.n_sites, calibrator.n_groups, -1)


GRID = np.linspace(0.0, 1.0, 41)


# What is recovered


def test_beta_recovers_the_truth_behind_beta_distorted_scores() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(100_000)
    truth = expit(0.6 * np.log(scores) - 1.4 * np.log1p(-scores) + 0.3)
    data = single_cell(scores, (rng.random(scores.size) < truth).astype(float))
    calibrator = data.fit("beta")
    np.testing.assert_allclose(calibrator.maps.parameters[-1], (0.6, 1.4, 0.3), atol=0.05)
    assert np.abs(calibrator(scores, data.groups, data.sites) - truth).max() < 0.01


@pytest.mark.parametrize(("method", "tolerance"), [("beta", 1e-3), ("platt", 0.02), ("temperature", 1e-3)])
def test_a_cell_that_does_not_lean_has_the_coefficients_of_scikit_learn(method: str, tolerance: float) -> None:
    data, family = single_cell(drawn(5000).scores, drawn(5000).labels), FAMILIES[method]
    model = LogisticRegression(C=1e8, tol=1e-10, max_iter=1000, fit_intercept=family.intercept)
    model.fit(np.column_stack(family.features(data.scores)), data.labels)
    expected = [*model.coef_[0], *model.intercept_[: int(family.intercept)]]
    # Platt's targets lie a little inside 0 and 1, hence his wider tolerance.
    np.testing.assert_allclose(data.fit(method, strength=0.0).maps.parameters[-1], expected, atol=tolerance)


def test_a_negative_coefficient_is_dropped_and_the_rest_refitted() -> None:
    rng = np.random.default_rng(5)
    scores = rng.random(4000)
    labels = rng.random(4000) < expit(-0.8 * np.log(scores) - 1.5 * np.log1p(-scores) - 1.0)
    data = single_cell(scores, labels.astype(float))
    feature = -np.log1p(-scores)[:, None]
    refitted = LogisticRegression(C=1e8, tol=1e-10, max_iter=1000).fit(feature, data.labels)
    first, second, constant = data.fit("beta", strength=0.0).maps.parameters[-1]
    assert first == 0.0
    assert (second, constant) == pytest.approx((refitted.coef_[0, 0], refitted.intercept_[0]), abs=2e-3)


@fitted
def test_scores_that_run_against_the_labels_give_a_flat_map_not_a_falling_one(method: str) -> None:
    rng = np.random.default_rng(2)
    scores = rng.random(3000)
    eta = maps(single_cell(scores, (rng.random(3000) > scores).astype(float)).fit(method, strength=0.0), GRID)
    # Isotonic leans on the identity by one row in three thousand.
    assert np.ptp(eta) < 2e-3 if method in FAMILIES else np.ptp(eta[..., 2:-2]) < 0.1
    assert np.all(np.diff(eta, axis=-1) >= -1e-15)


def test_temperature_solves_the_equation_of_a_single_score() -> None:
    # Three in four positive at score 0.8: sigmoid(ln 4 / T) = 3/4, so 1/T = ln 3 / ln 4.
    data = single_cell(np.full(4, 0.8), np.array([1.0, 1.0, 1.0, 0.0]))
    parameters = data.fit("temperature", weights=np.full(4, 1e6)).maps.parameters
    np.testing.assert_allclose(parameters, np.log(3.0) / np.log(4.0), rtol=1e-5)


@pytest.mark.parametrize("method", ["beta", "platt", "isotonic"])
def test_a_constant_score_gets_the_share_of_positives(method: str) -> None:
    data = single_cell(np.full(4, 0.3), np.array([1.0, 1.0, 1.0, 0.0]))
    eta = data.fit(method, weights=np.full(4, 1e6))(data.scores, data.groups, data.sites)
    np.testing.assert_allclose(eta, 0.75, atol=1e-5)


# Order


@st.composite
def nasty(draw: st.DrawFn) -> tuple[Data, Array | None]:
    """Few rows with scores at the edges, ties, one label only, empty cells, weights of 0."""
    n = draw(st.integers(0, 12))
    scores = st.one_of(st.sampled_from([0.0, 1e-300, 1e-7, 0.5, 1.0 - 1e-7, 1.0]), st.floats(0.0, 1.0))
    column = lambda values: draw(st.lists(values, min_size=n, max_size=n))  # noqa: E731
    labels = st.sampled_from(draw(st.sampled_from([(0.0,), (1.0,), (0.0, 1.0)])))
    weights = draw(st.sampled_from([None, (0.0,), (0.0, 1.0, 3.5)]))
    data = Data(
        np.array(column(scores), dtype=float),
        np.array(column(labels), dtype=float),
        np.array(column(st.integers(0, 1)), dtype=np.int32),
        np.array(column(st.integers(0, 2)), dtype=np.int32),
    )
    return data, None if weights is None else np.array(column(st.sampled_from(weights)), dtype=float)


@fitted
@examples(40)
@given(rows=nasty(), strength=st.sampled_from([0.0, 1.0, 200.0]), grid=st.lists(st.floats(0.0, 1.0), max_size=8))
def test_every_map_is_a_chance_that_does_not_fall_with_the_score(
    method: str, rows: tuple[Data, Array | None], strength: float, grid: list[float]
) -> None:
    data, weights = rows
    eta = maps(data.fit(method, weights, strength), np.sort(np.concatenate((GRID, data.scores, grid))))
    assert np.all((eta >= 0.0) & (eta <= 1.0))
    assert np.all(np.diff(eta, axis=-1) >= -1e-15)


@parametric
def test_one_label_everywhere_keeps_chances_off_0_and_1(method: str) -> None:
    for label in (0.0, 1.0):
        data = drawn(300)
        calibrator = Data(data.scores, np.full(300, label), data.groups, data.sites).fit(method)
        eta = calibrator(np.linspace(0.05, 0.95, 50), np.zeros(50, np.int32), np.zeros(50, np.int32))
        assert np.all((eta > 0.0) & (eta < 1.0))


@fitted
def test_no_rows_at_all_leave_scores_as_they_are(method: str) -> None:
    calibrator = drawn(0).fit(method)
    inside = np.linspace(0.01, 0.99, 50)
    np.testing.assert_allclose(maps(calibrator, inside), np.broadcast_to(inside, (2, 4, 50)), rtol=1e-12)


@fitted
def test_a_row_has_the_same_eta_in_any_company(method: str) -> None:
    data = drawn(300)
    calibrator = data.fit(method)
    together = calibrator(data.scores, data.groups, data.sites)
    alone = [calibrator(*(c[i : i + 1] for c in (data.scores, data.groups, data.sites)))[0] for i in range(300)]
    assert np.array_equal(together, alone)
    backwards = calibrator(data.scores[::-1], data.groups[::-1], data.sites[::-1])
    assert np.array_equal(together[::-1], backwards)


# Leaning


@fitted
def test_an_empty_cell_and_an_unknown_site_have_the_map_of_their_group_exactly(method: str) -> None:
    data = drawn(600)
    eta = maps(data.at(~((data.groups == 1) & (data.sites == 2))).fit(method), GRID)
    assert np.array_equal(eta[1, 3], eta[1, 0])
    assert not np.array_equal(eta[1, 2], eta[1, 0])


@fitted
def test_where_all_rows_are_one_sites_they_count_once_and_its_cells_have_the_maps_of_their_groups(
    method: str,
) -> None:
    data = drawn(300, n_sites=1)
    eta = maps(data.fit(method), GRID)
    assert np.array_equal(eta[:, 1], eta[:, 0])
    # Of several sites, too, where the others have no rows; not where one of them has.
    elsewhere = maps(replace(data, sites=data.sites + np.int32(1), n_sites=3).fit(method), GRID)
    assert np.array_equal(elsewhere[:, 1:], np.repeat(elsewhere[:, :1], 3, axis=1))
    np.testing.assert_allclose(elsewhere[:, 0], eta[:, 0], atol=1e-7)
    sites = np.zeros(300, np.int32)
    sites[:100] = 1
    apart = maps(replace(data, sites=sites, n_sites=2).fit(method), GRID)
    np.testing.assert_allclose(apart[:, 0], eta[:, 0], atol=1e-7)
    assert not np.allclose(apart[:, 1], eta[:, 0])


@fitted
def test_an_empty_group_has_the_map_of_all_rows_exactly(method: str) -> None:
    data = drawn(600, n_groups=3)
    with_it = data.at(data.groups != 1).fit(method)
    merged = np.minimum(data.groups, 0)[data.groups != 1]
    rest = data.at(data.groups != 1)
    alone = Data(rest.scores, rest.labels, merged, merged, 2, 1).fit(method)
    np.testing.assert_allclose(maps(with_it, GRID)[1], np.tile(maps(alone, GRID)[1, 0], (4, 1)), atol=1e-12)


@fitted
def test_a_cell_moves_from_its_groups_map_to_its_own_as_its_rows_grow(method: str) -> None:
    group, cell = drawn(4000, n_groups=1, n_sites=1, seed=1), drawn(60, n_groups=1, n_sites=1, seed=2)
    cell_scores, cell_labels = cell.scores, np.minimum(cell.labels, cell.scores > 0.6)
    data = Data(
        np.concatenate((group.scores, cell_scores)),
        np.concatenate((group.labels, cell_labels)),
        np.zeros(4060, np.int32),
        np.repeat(np.array([0, 1], np.int32), (4000, 60)),
        1,
        2,
    )
    own = maps(single_cell(cell_scores, cell_labels).fit(method, weights=np.full(60, 1e5)), GRID)[0, 1]
    # The rest of the group counts a million times as much, so that its map stays where it is.
    weights = [np.repeat((1e6, share), (4000, 60)) for share in (0.01, 0.1, 1.0, 10.0, 100.0, 1e4)]
    etas = [maps(data.fit(method, w), GRID)[0] for w in weights]
    to_own = [np.abs(eta[2] - own).mean() for eta in etas]
    to_group = [np.abs(eta[2] - eta[0]).mean() for eta in etas]
    assert np.all(np.diff(to_own) < 0.0)
    assert np.all(np.diff(to_group) > 0.0)
    assert to_group[0] < 0.05 * to_group[-1]
    assert to_own[-1] < 0.05 * to_own[0]


def test_a_cell_of_as_many_rows_as_the_strength_lies_halfway() -> None:
    # One score, log-odds L: the group's rows put sigmoid(x L) at 0.6, the cell's at 0.62.
    data = Data(
        np.full(4, 0.8), np.array([1.0, 0.0, 1.0, 0.0]), np.zeros(4, np.int32), np.array([0, 0, 1, 1], np.int32), 1, 2
    )
    weights = np.array([0.6e9, 0.4e9, 0.62 * 500, 0.38 * 500])
    parameters = data.fit("temperature", weights=weights, strength=500.0).maps.parameters[:, 0]
    group, own = logit(0.6) / logit(0.8), logit(0.62) / logit(0.8)
    assert parameters[1] == pytest.approx(group, abs=1e-6)
    assert parameters[-1] == pytest.approx((group + own) / 2, rel=2e-3)


@parametric
def test_all_rows_groups_and_cells_are_most_probable_around_their_parents(method: str) -> None:
    data, family, strength = drawn(120, n_sites=2), FAMILIES[method], 20.0
    features = np.column_stack([*family.features(data.scores), *[np.ones(120)] * family.intercept])
    targets, positives, reference = data.labels, data.labels.sum(), family.reference_information()
    if method == "platt":
        targets = np.where(data.labels == 1, (positives + 1) / (positives + 2), 1 / (120 - positives + 2))

    def fit(rows: NDArray[np.bool_], centre: Array, information: Array, worth: float) -> tuple[Array, Array]:
        """Parameters of some rows around a parent, and their information per row."""
        x, t, precision = features[rows], targets[rows], worth * information + 1e-6 * reference

        def objective(point: Array) -> tuple[float, Array]:
            margin, away = x @ point, point - centre
            value = (np.logaddexp(0.0, margin) - t * margin).sum() + 0.5 * away @ precision @ away
            return float(value), (expit(margin) - t) @ x + precision @ away

        bounds = [(0.0 if j in family.slopes else None, None) for j in range(len(centre))]
        exact = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}
        best = minimize(objective, centre, jac=True, bounds=bounds, method="L-BFGS-B", options=exact).x
        chance = expit(x @ best)
        return best, ((x.T * (chance * (1 - chance))) @ x + precision) / (rows.sum() + worth)

    everyone = fit(np.ones(120, dtype=bool), np.array(family.identity), reference, 1.0)
    calibrator = data.fit(method, strength=strength)
    np.testing.assert_allclose(calibrator.maps.parameters[0], everyone[0], atol=1e-5)
    for group in (0, 1):
        parent = fit(data.groups == group, *everyone, strength)
        np.testing.assert_allclose(calibrator.maps.parameters[1 + group], parent[0], atol=1e-5)
        for site in (0, 1):
            cell, _ = fit((data.groups == group) & (data.sites == site), *parent, strength)
            np.testing.assert_allclose(cell_parameters(calibrator)[site, group], cell, atol=1e-5)


# What must not matter


@fitted
def test_a_weight_counts_as_repeated_rows(method: str) -> None:
    data, times = drawn(300), np.random.default_rng(3).integers(0, 4, 300)
    repeated = data.at(np.repeat(np.arange(300), times))
    weighted = data.fit(method, weights=times.astype(float))
    np.testing.assert_allclose(maps(weighted, GRID), maps(repeated.fit(method), GRID), atol=1e-9)


@parametric
def test_renaming_sites_permutes_the_parameters(method: str) -> None:
    data, renamed = drawn(500), np.array([2, 0, 1], dtype=np.int32)
    other = Data(data.scores, data.labels, data.groups, renamed[data.sites])
    expected = cell_parameters(data.fit(method))
    np.testing.assert_allclose(cell_parameters(other.fit(method))[renamed], expected, atol=1e-9)


@fitted
def test_the_order_of_the_rows_does_not_matter(method: str) -> None:
    data, order = drawn(500), np.random.default_rng(4).permutation(500)
    np.testing.assert_allclose(maps(data.at(order).fit(method), GRID), maps(data.fit(method), GRID), atol=1e-9)


@parametric
def test_many_cells_are_fitted_as_they_would_be_one_by_one(method: str) -> None:
    # A group's map hardly moves with one of its cells, if the rest of the group counts a billion times as much.
    data = drawn(4000, n_sites=40)
    together = maps(data.fit(method, np.where(data.sites == 0, 1e9, 1.0)), GRID)
    for site in (1, 17, 39):
        alone = data.at((data.sites == 0) | (data.sites == site))
        apart = maps(alone.fit(method, np.where(alone.sites == 0, 1e9, 1.0)), GRID)
        np.testing.assert_allclose(apart[:, 1 + site], together[:, 1 + site], atol=1e-5)


# Storing


def stored(values: object) -> Calibrator:
    """A calibrator from values that a file holds."""
    calibrator = read(json.loads(json.dumps(values)), Calibrator)
    calibrator.check()
    return calibrator


@fitted
def test_a_stored_calibrator_comes_back_bit_for_bit(method: str) -> None:
    data = drawn(400)
    calibrator = data.fit(method)
    again = stored(plain(calibrator))
    assert plain(again) == plain(calibrator)
    assert np.array_equal(maps(again, GRID), maps(calibrator, GRID))


def test_a_calibrator_without_knots_comes_back() -> None:
    again = stored(plain(drawn(0).fit("isotonic")))
    assert np.array_equal(maps(again, GRID)[0, 0], GRID)


@pytest.mark.parametrize(
    ("method", "change", "sentence"),
    [
        ("beta", {"method": "magic"}, "'method' must be one of beta, .* got 'magic'"),
        ("beta", {"n_groups": 0}, "n_groups: got 0; pass a whole number"),
        ("beta", {"n_sites": True}, "Expected `int`, got `bool`"),
        ("beta", {"n_sites": 4}, None),
        ("beta", {"parameters": None}, None),
        ("beta", {"parameters": [[1.0, 2.0], [3.0]]}, None),
        ("beta", {"parameters": [["1", "1", "0"]] * 9}, None),
        ("beta", {"parameters": [[1.0, 1.0, float("nan")]] * 9}, None),
        ("beta", {"parameters": [[-1.0, 1.0, 0.0]] * 9}, "negative slope"),
        ("isotonic", {"shares": [2.0] * 9}, None),
        ("isotonic", {"starts": [0] * 9 + [7]}, "'starts' must rise from 0 to the number of knots"),
        ("isotonic", {"starts": [0] * 10, "scores": [], "values": []}, "'shares' must be 0 for a unit without"),
        ("isotonic", {"values": [0.5]}, None),
        ("isotonic", {"starts": [0, *[2] * 9], "scores": [0.2, 0.1], "values": [0, 1]}, "'shares' must be 0"),
    ],
)
def test_damaged_content_is_refused_in_one_sentence(method: str, change: dict[str, object], sentence: str) -> None:
    values = plain(drawn(200).fit(method))
    values |= {name: value for name, value in change.items() if name in values}
    values["maps"] |= {name: value for name, value in change.items() if name != "n_groups" and name in values["maps"]}
    with pytest.raises(FAULTS, match=sentence):
        stored(values)


@pytest.mark.parametrize(
    ("scores", "values", "accepted"),
    [([0.1, 0.2], [0.0, 1.0], True), ([0.2, 0.1], [0.0, 1.0], False), ([0.1, 0.2], [1.0, 0.0], False)],
)
def test_stored_knots_must_rise(scores: list[float], values: list[float], accepted: bool) -> None:
    # Two knots each for all rows, the group and the cell: between units they may fall.
    maps = IsotonicMaps(np.full(3, 0.5), np.array([0, 2, 4, 6]), np.array(scores * 3), np.array(values * 3))
    if accepted:
        assert stored(plain(Calibrator("isotonic", 1, 1, maps))).n_sites == 1
    else:
        with pytest.raises(InputError, match="'scores' must rise and 'values' must not fall"):
            stored(plain(Calibrator("isotonic", 1, 1, maps)))


def test_content_that_is_no_object_is_refused() -> None:
    with pytest.raises(FAULTS):
        stored([1, 2])


# Method "none", and asking for what is not there


def test_none_gives_the_same_array_back_and_needs_no_labels() -> None:
    data = drawn(50)
    calibrator = Calibrator("none", 2, 3, None)
    assert calibrator(data.scores, data.groups, data.sites) is data.scores
    assert stored(plain(calibrator))(data.scores, data.groups, data.sites) is data.scores
