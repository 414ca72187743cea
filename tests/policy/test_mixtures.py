"""Mixtures: any point of every cell's polygon becomes at most three thresholds, and comes back from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import logofair.policy.mixtures as mixtures_module
from logofair import fit
from logofair.columns.cells import Cells, build_cells
from logofair.columns.segments import pieces
from logofair.datasets import dirichlet_sites, load_adult
from logofair.policy.mixtures import Mixtures, coin_shares, evaluate, reduce
from support.examples import examples

modest = examples(80)

# Three weights may each be dropped as negligible (1e-12); the rest is rounding.
CLOSE = 5e-12

unit = st.floats(0.0, 1.0)
scores_of_a_cell = st.one_of(
    st.lists(unit, max_size=8),
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), max_size=8),  # ties
    st.lists(st.integers(0, 9).map(lambda k: 0.5 + k * 2.0**-52), max_size=8),  # neighbouring doubles
    st.lists(st.integers(0, 9).map(lambda k: 0.3 + k * 1e-9), max_size=8),  # a nearly flat calibrator
    st.lists(st.integers(0, 9).map(lambda k: k * 1e-13), max_size=8),  # hardly any positives
    st.lists(st.integers(0, 9).map(lambda k: 1.0 - k * 1e-13), max_size=8),  # hardly any negatives
)


@dataclass(frozen=True)
class Rows:
    """Rows of some cells, and the cells made of them."""

    scores: np.ndarray
    cell: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    cells: Cells

    def share_out(self, chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(u, v) of every cell when each row is accepted with a chance, row by row."""
        n_cells = self.cells.n_groups
        mass = np.bincount(self.cell, self.weights, n_cells)
        safe = np.where(mass > 0, mass, 1.0)
        u = np.bincount(self.cell, self.weights * chance, n_cells) / safe
        return u, np.bincount(self.cell, self.weights * self.values * chance, n_cells) / safe


def make_rows(per_cell, values=None, weights=None) -> Rows:
    scores = np.concatenate([np.asarray(cell, dtype=np.float64) for cell in per_cell])
    cell = np.repeat(np.arange(len(per_cell), dtype=np.int32), [len(scores) for scores in per_cell])
    cells = build_cells(
        scores, cell, np.zeros_like(cell), n_groups=len(per_cell), n_sites=1, values=values, weights=weights
    )
    ones = np.ones(scores.size)
    return Rows(scores, cell, scores if values is None else values, ones if weights is None else weights, cells)


@st.composite
def rows(draw, plain: bool = False, heaviest: float = 10.0) -> Rows:
    # Heavy cells beside light ones would test the running sums' rounding, not the rules.
    per_cell = draw(st.lists(scores_of_a_cell, min_size=1, max_size=4 if heaviest <= 10.0 else 1))
    per_cell[0] = per_cell[0] or [0.5]  # somebody there is
    n = sum(map(len, per_cell))
    values = weights = None
    if not plain and draw(st.booleans()):
        values = np.array(draw(st.lists(st.one_of(st.sampled_from([0.0, 1.0]), unit), min_size=n, max_size=n)))
    if not plain and draw(st.booleans()):
        each = st.one_of(st.just(0.0), st.floats(1.0 / heaviest, heaviest))
        weights = np.array(draw(st.lists(each, min_size=n, max_size=n)))
        weights[0] = weights[0] or 1.0
    return make_rows(per_cell, values, weights)


@st.composite
def rows_and_points(draw, heaviest: float = 10.0) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Rows, and a convex combination of corners in every cell."""
    drawn = draw(rows(heaviest=heaviest))
    sizes = np.diff(drawn.cells.starts)
    u, v = np.zeros(sizes.size), np.zeros(sizes.size)
    for cell, size in enumerate(sizes.tolist()):
        shares = draw(st.lists(st.integers(0, 10), min_size=1, max_size=4).filter(any))
        for share in shares:
            cut, upper = draw(st.integers(0, size)), draw(st.booleans())
            corner = drawn.cells.corner(np.array([cell]), np.array([cut]), np.array([upper]))
            u[cell] += share / sum(shares) * corner[0][0]
            v[cell] += share / sum(shares) * corner[1][0]
    return drawn, u, v


any_rows_and_points = st.one_of(rows_and_points(), rows_and_points(heaviest=1e6))


def chances(drawn: Rows, mixtures: Mixtures) -> np.ndarray:
    """Every row's chance, from its thresholds alone."""
    chance = np.zeros(drawn.scores.size)
    for row, (score, cell) in enumerate(zip(drawn.scores, drawn.cell, strict=True)):
        for weight, threshold, above in zip(
            mixtures.weight[cell], mixtures.threshold[cell], mixtures.above[cell], strict=True
        ):
            chance[row] += weight * (score >= threshold if above else score <= threshold)
    return chance


def polygon(drawn: Rows, cell: int) -> tuple[np.ndarray, np.ndarray]:
    """All corners of a cell."""
    cuts = np.arange(np.diff(drawn.cells.starts)[cell] + 1)
    cells = np.full(cuts.size, cell)
    upper, lower = (drawn.cells.corner(cells, cuts, np.full(cuts.size, side)) for side in (True, False))
    return np.concatenate([upper[0], lower[0]]), np.concatenate([upper[1], lower[1]])


# ---------------------------------------------------------------- to rules and back


@given(any_rows_and_points)
@example((make_rows([[0.5, np.nextafter(0.5, 1)]]), np.array([0.9]), np.array([0.45])))
@modest
def test_the_rules_of_a_point_have_its_selection_rate_and_its_positives(case):
    drawn, u, v = case
    found_u, found_v = evaluate(drawn.cells, reduce(drawn.cells, u, v, selection_only=False))
    np.testing.assert_allclose(found_u, u, rtol=0, atol=CLOSE)
    # Rates divide v by the cell's share of positives: v must be right at that scale, however small it is.
    share = drawn.cells.positives * drawn.cells.scale
    # The running sums of neighbouring cells may carry the rounding of all their positives.
    known_to = 1e-15 * (drawn.cells.positives.sum() - drawn.cells.positives) * drawn.cells.scale
    np.testing.assert_array_less(np.abs(found_v - v), CLOSE * share + known_to + 1e-300)


@given(any_rows_and_points)
@modest
def test_where_only_selection_counts_the_rate_is_met_with_no_fewer_positives(case):
    drawn, u, v = case
    found_u, found_v = evaluate(drawn.cells, reduce(drawn.cells, u, v, selection_only=True))
    np.testing.assert_allclose(found_u, u, rtol=0, atol=CLOSE)
    assert np.all(found_v >= v - CLOSE)
    for cell, (top, best) in enumerate(zip(found_u, found_v, strict=True)):
        corner_u, corner_v = polygon(drawn, cell)
        order = np.argsort(corner_u, kind="stable")
        # No corner lies above the line from the rule's point: it is on the upper edge.
        assert best >= np.interp(top, corner_u[order], corner_v[order]) - CLOSE


@given(rows_and_points(), st.booleans())
@modest
def test_what_is_evaluated_is_what_the_thresholds_do_to_every_row(case, selection_only):
    drawn, u, v = case
    mixtures = reduce(drawn.cells, u, v, selection_only=selection_only)
    for found, counted in zip(evaluate(drawn.cells, mixtures), drawn.share_out(chances(drawn, mixtures)), strict=True):
        np.testing.assert_allclose(found, counted, rtol=0, atol=1e-12)
    single = (drawn.scores >= mixtures.single[drawn.cell]).astype(float)
    for found, counted in zip(evaluate(drawn.cells, mixtures.deterministic), drawn.share_out(single), strict=True):
        np.testing.assert_allclose(found, counted, rtol=0, atol=1e-12)


@given(any_rows_and_points, st.booleans())
@modest
def test_rules_are_at_most_three_weights_that_sum_to_at_most_one_on_thresholds_between_0_and_1(case, selection_only):
    drawn, u, v = case
    mixtures = reduce(drawn.cells, u, v, selection_only=selection_only)
    assert mixtures.weight.shape == mixtures.threshold.shape == mixtures.above.shape == (u.size, 3)
    assert mixtures.weight.min() >= 0.0
    assert mixtures.weight.sum(axis=1).max() <= 1.0 + 1e-15
    assert np.all(np.diff(mixtures.weight, axis=1) <= 0.0)
    assert np.all((mixtures.threshold >= 0.0) & (mixtures.threshold <= 1.0))
    used = (mixtures.weight > 0).sum(axis=1)
    assert np.all(used[~mixtures.mixed] <= 1)
    np.testing.assert_array_equal(mixtures.mixed, ((mixtures.weight > 0) & (mixtures.weight < 1)).any(axis=1))
    if selection_only and drawn.cells.hull_of is None:
        assert np.all(mixtures.above)


@given(rows_and_points())
@modest
def test_the_deterministic_threshold_has_the_nearest_selection_rate_any_threshold_has(case):
    drawn, u, v = case
    mixtures = reduce(drawn.cells, u, v, selection_only=False)
    single, _ = evaluate(drawn.cells, mixtures.deterministic)
    assert np.all((mixtures.single >= 0.0) & ((mixtures.single <= 1.0) | np.isposinf(mixtures.single)))
    for cell in range(u.size):
        # Rows of equal score cannot be parted, so the thresholds to try are the scores themselves (and none).
        reachable = [
            drawn.share_out((drawn.scores >= t).astype(float))[0][cell]
            for t in [*drawn.cells.lowest[drawn.cells.starts[cell] : drawn.cells.starts[cell + 1]], np.inf]
        ]
        assert abs(single[cell] - u[cell]) <= np.min(np.abs(np.array(reachable) - u[cell])) + 1e-12


@given(rows_and_points())
@modest
def test_demographic_parity_leaves_at_most_one_score_value_of_a_cell_to_chance(case):
    drawn, u, v = case
    drawn = make_rows([drawn.scores[drawn.cell == cell] for cell in range(u.size)])
    chance = chances(drawn, reduce(drawn.cells, u, v, selection_only=True))
    open_ = (chance > 1e-11) & (chance < 1 - 1e-11)
    for cell in range(u.size):
        assert np.unique(drawn.scores[open_ & (drawn.cell == cell)]).size <= 1


# ---------------------------------------------------------------- few coins


def shortest_chord(corner_u: np.ndarray, corner_v: np.ndarray, u: float, v: float) -> float:
    """Length of the shortest chord of the upper edge through (u, v) with both ends free, by trying many slopes."""
    order = np.argsort(corner_u, kind="stable")
    x, y = corner_u[order], corner_v[order]
    left, right = x < u, x > u
    edges = (np.append(x[left], u), np.append(y[left], np.interp(u, x, y)))
    edges += (np.append(x[right][::-1], u), np.append(y[right][::-1], np.interp(u, x, y)))
    through = np.array([(b - v) / (a - u) for a, b in zip(x, y, strict=True) if a != u])
    lengths = []
    for slope in np.concatenate([through, np.linspace(through.min(), through.max(), 500)]):
        ends = [
            np.interp(0.0, height, side)
            for side, height in ((a, b - v - slope * (a - u)) for a, b in (edges[:2], edges[2:]))
            if height[0] <= 1e-13
        ]
        lengths += [ends[1] - ends[0]] if len(ends) == 2 else []
    return min(lengths)


@given(st.lists(st.integers(0, 40), min_size=2, max_size=9), st.integers(0, 2**32 - 1), st.booleans())
@modest
def test_the_coins_of_a_point_are_at_most_one_score_value_more_than_on_the_shortest_chord(levels, seed, flipped):
    drawn = make_rows([np.array(levels) / 40.0])
    corner_u, corner_v = (each[: len(levels) + 1] for each in polygon(drawn, 0))
    mix = np.random.default_rng(seed).dirichlet(np.full(corner_u.size, 0.5))
    u, v, share = mix @ corner_u, mix @ corner_v, np.mean(levels) / 40.0
    order = np.argsort(corner_u)
    assume(v < np.interp(u, corner_u[order], corner_v[order]) - 1e-6)
    best = shortest_chord(corner_u, corner_v, u, v)
    # The reflected point lies below the diagonal: its rules accept low scores, with as many coins.
    point = (1.0 - u, share - v) if flipped else (u, v)
    mixtures = reduce(drawn.cells, np.array(point[:1]), np.array(point[1:]), selection_only=False)
    used = mixtures.weight[0] > 0
    if v > share * u + 1e-9:
        assert np.all(mixtures.above[0, used] != flipped)
    # From one end, a corner, to the other, between the two corners that are left.
    rate = np.array(
        [np.mean(drawn.scores >= t if up else drawn.scores <= t) for t, up in zip(*rule(mixtures), strict=True)]
    )
    rate, weight = np.append(rate[used], 0.0), np.append(mixtures.weight[0, used], 1.0 - mixtures.weight[0].sum())
    rate, weight = rate[weight > 1e-9], weight[weight > 1e-9]
    start = rate.max() if flipped else rate.min()
    end = np.average(rate[rate != start], weights=weight[rate != start])
    commonest = np.unique(levels, return_counts=True)[1].max() / len(levels)
    assert best - 1e-6 <= abs(end - start) <= best + commonest + 1e-9


def rule(mixtures: Mixtures) -> tuple[np.ndarray, np.ndarray]:
    return mixtures.threshold[0], mixtures.above[0]


@given(any_rows_and_points)
@modest
def test_the_share_left_to_a_coin_is_that_of_the_rows_with_a_chance_between_0_and_1(case):
    drawn, u, v = case
    mixtures = reduce(drawn.cells, u, v, selection_only=False)
    chance = mixtures.chances(drawn.scores, drawn.cell)
    np.testing.assert_allclose(chance, chances(drawn, mixtures), rtol=0, atol=2e-12)
    counted, _ = drawn.share_out(((chance > 0.0) & (chance < 1.0)).astype(float))
    np.testing.assert_allclose(coin_shares(drawn.cells, mixtures), counted, rtol=0, atol=1e-12)


def test_a_rule_is_blind_to_the_score_where_every_score_has_the_same_chance():
    on, off = [True] * 3, [False] * 3
    weight = np.array(
        [[1.0, 0, 0], [0, 0, 0], [0.3, 0, 0], [1, 0, 0], [1, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0], [1, 0, 0]]
    )
    threshold = np.array(
        [
            [0.0, 0, 0],
            [0, 0, 0],
            [0, 0, 0],
            [1, 0, 0],
            [0.5, 0, 0],
            [0.5, 0.4, 0],
            [0.5, np.nextafter(0.5, 0), 0],
            [1, 0, 0],
        ]
    )
    above = np.array([on, on, on, off, on, [True, False, True], [True, False, True], on])
    rules = Mixtures(weight, threshold, above, np.full(8, 0.5))
    # All, nobody, 30 % of all, all by a reversed rule; a threshold; two halves with a hole, and without; only score 1.
    assert rules.score_blind.tolist() == [True, True, True, True, False, False, True, False]


@pytest.fixture(scope="module")
def adult():
    data = load_adult()
    train, rows = np.arange(0, len(data), 3), np.arange(1, len(data), 3)
    model = LogisticRegression(solver="newton-cholesky").fit(data.features[train], data.labels[train])
    groups = data.sensitive[rows]
    sites = dirichlet_sites((groups == "Male").astype(int), n_sites=5, alpha=0.5, rng=1)
    return model.predict_proba(data.features[rows])[:, 1], data.labels[rows], groups, sites


@pytest.mark.parametrize("tolerance", [0.0, 0.02])
def test_equalized_odds_on_adult_tosses_coins_for_few_people_near_the_thresholds(adult, tolerance):
    scores, labels, groups, sites = adult
    solution = fit(
        scores,
        labels,
        sensitive_features=groups,
        sites=sites,
        notion="equalized_odds",
        local_tolerance=tolerance,
        global_tolerance=tolerance,
    )
    assert solution.certificate.holds
    chance = solution.policy.probabilities(scores, sensitive_features=groups, sites=sites)
    tossed = (chance > 0) & (chance < 1)
    share = solution.policy.info.coin_share
    assert share == pytest.approx(tossed.mean(), abs=1e-12)
    assert 0.0 < share < 0.08
    # Nobody far below the thresholds is accepted, not even by chance, unless low scores are what the rule accepts.
    plain = solution.policy.mixtures.above.all(axis=1)[solution.rows.cells]
    eta = solution.rows.calibrated
    assert not np.any(chance[plain & (eta < 0.02)])


# ---------------------------------------------------------------- no coin without need


@given(rows(plain=True), st.booleans())
@modest
def test_a_loose_point_is_the_base_rule_everywhere(drawn, selection_only):
    low = np.bincount(drawn.cell[drawn.scores < 0.5], minlength=drawn.cells.n_groups)
    u, v = drawn.cells.corner(np.arange(low.size), low, np.full(low.size, True))
    mixtures = reduce(drawn.cells, u, v, selection_only=selection_only)
    np.testing.assert_array_equal(mixtures.weight, np.tile([1.0, 0.0, 0.0], (u.size, 1)))
    np.testing.assert_array_equal(mixtures.threshold[:, 0], 0.5)
    np.testing.assert_array_equal(mixtures.single, 0.5)
    assert np.all(mixtures.above)


@pytest.mark.parametrize("selection_only", [True, False])
@pytest.mark.parametrize("size", [3, 1000, 100_000])
def test_a_corner_needs_no_coin_however_large_its_cell_is(size, selection_only):
    drawn = make_rows([np.random.default_rng(size).random(size)] * 3)
    cuts = np.array([size // 3, size // 2, size - 1])
    u, v = drawn.cells.corner(np.arange(3), cuts, np.full(3, True))
    assert not reduce(drawn.cells, u, v, selection_only=selection_only).mixed.any()


@pytest.mark.parametrize("size", [3, 1000, 100_000])
def test_a_point_on_the_edge_of_a_large_cell_leaves_one_row_to_chance(size):
    drawn = make_rows([np.random.default_rng(size).random(size)] * 2)
    (u1, v1), (u2, v2) = (
        drawn.cells.corner(np.arange(2), np.full(2, size // 3 + step), np.array([True, False])) for step in (0, 1)
    )
    mixtures = reduce(drawn.cells, 0.25 * u1 + 0.75 * u2, 0.25 * v1 + 0.75 * v2, selection_only=False)
    np.testing.assert_allclose(mixtures.weight, [[0.75, 0.25, 0.0]] * 2, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(mixtures.above[:, :2], [[True, True], [False, False]])


@pytest.mark.parametrize("size", [120, 7])
def test_many_cells_are_reduced_like_each_one_alone(size, monkeypatch):
    monkeypatch.setattr(mixtures_module, "pieces", lambda cells: pieces(cells, size))
    rng = np.random.default_rng(5)
    per_cell = [rng.random(rng.integers(0, 12)).round(1).tolist() for _ in range(120)]
    u, together = np.empty(120), make_rows(per_cell)
    v = np.empty(120)
    for cell in range(120):
        corner_u, corner_v = polygon(together, cell)
        share = rng.dirichlet(np.ones(corner_u.size))
        u[cell], v[cell] = share @ corner_u, share @ corner_v
    mixtures = reduce(together.cells, u, v, selection_only=False)
    for cell in range(120):
        alone = reduce(make_rows([per_cell[cell]]).cells, u[[cell]], v[[cell]], selection_only=False)
        np.testing.assert_allclose(mixtures.weight[cell], alone.weight[0], rtol=0, atol=1e-9)
        np.testing.assert_array_equal(mixtures.single[cell], alone.single[0])


# ---------------------------------------------------------------- by hand


def test_three_rows_by_hand():
    drawn = make_rows([[0.9, 0.2, 0.6]])
    mixtures = reduce(drawn.cells, np.array([0.5]), np.array([0.4]), selection_only=True)
    # The best half of three rows: 0.9 surely, 0.6 with chance one half.
    assert mixtures.weight[0].tolist() == pytest.approx([0.5, 0.5, 0.0])
    assert sorted(mixtures.threshold[0, :2].tolist()) == pytest.approx([0.5, 0.75])
    assert mixtures.mixed.tolist() == [True]
    # Without a coin: one third or two thirds, both as near.
    assert mixtures.single[0] in (0.5, 0.75)


def test_the_middle_of_the_diagonal_is_a_coin_for_the_whole_cell():
    drawn = make_rows([[0.1, 0.3, 0.8]])
    mixtures = reduce(drawn.cells, np.array([0.5]), np.array([0.2]), selection_only=False)
    assert chances(drawn, mixtures) == pytest.approx([0.5, 0.5, 0.5])


def test_a_point_below_the_diagonal_accepts_low_scores():
    drawn = make_rows([[0.1, 0.8]])
    mixtures = reduce(drawn.cells, np.array([0.5]), np.array([0.05]), selection_only=False)
    assert mixtures.weight.tolist() == [[1.0, 0.0, 0.0]]
    assert mixtures.above[0, 0].item() is False
    assert 0.1 <= mixtures.threshold[0, 0] < 0.8
    # The deterministic rule is an upper threshold all the same.
    assert 0.1 < mixtures.single[0] <= 0.8


def test_rejecting_all_of_a_cell_above_one_half_has_no_rule_and_no_threshold():
    drawn = make_rows([[0.7, 0.8]])
    mixtures = reduce(drawn.cells, np.zeros(1), np.zeros(1), selection_only=True)
    assert mixtures.weight.tolist() == [[0.0, 0.0, 0.0]]
    assert mixtures.single.tolist() == [np.inf]


def test_accepting_all_of_a_cell_below_one_half_accepts_every_score():
    drawn = make_rows([[0.1, 0.2]])
    mixtures = reduce(drawn.cells, np.ones(1), np.array([0.15]), selection_only=False)
    assert mixtures.weight.tolist() == [[1.0, 0.0, 0.0]]
    assert mixtures.threshold[0, 0] == mixtures.single[0] == 0.0


def test_a_cell_without_rows_takes_the_base_rule():
    drawn = make_rows([[], [0.3]])
    mixtures = reduce(drawn.cells, np.array([0.7, 0.0]), np.array([0.1, 0.0]), selection_only=False)
    assert mixtures.weight[0].tolist() == [1.0, 0.0, 0.0]
    assert mixtures.threshold[0, 0] == mixtures.single[0] == 0.5


def test_labels_as_values_part_no_block_of_pooled_rows():
    labels = np.array([1.0, 0.0, 0.0, 1.0])
    drawn = make_rows([[0.1, 0.2, 0.3, 0.9]], values=labels)
    # The first three rows are one edge of the hull: its corners are none, the best row, all.
    mixtures = reduce(drawn.cells, np.array([0.5]), np.array([1.25 / 3]), selection_only=True)
    found = chances(drawn, mixtures)
    assert found == pytest.approx([1 / 3, 1 / 3, 1 / 3, 1.0])
    assert mixtures.single.tolist() == [0.25]
