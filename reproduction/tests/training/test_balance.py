"""Row weights of FedFB, FairBatch and reweighing beside their formulas, written out here in the papers' own symbols."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from logofair.errors import InputError
from logofair.notions import (
    DEMOGRAPHIC_PARITY,
    EQUAL_OPPORTUNITY,
    EQUALIZED_ODDS,
    PREDICTIVE_EQUALITY,
    Notion,
    Rate,
)
from logofair_reproduction.training.balance import conditions, direction, reweighing, updated_ratios
from logofair_reproduction.training.messages import Given

pytestmark = pytest.mark.training

DP, EOPP, PE, EO = (None,), (1,), (0,), (1, 0)


def cells(draw: st.DrawFn, groups: int, least: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Rows of every (group, label), and the sum of their losses."""
    rows = draw(npst.arrays(float, (groups, 2), elements=st.integers(least, 60).map(float)))
    means = draw(npst.arrays(float, (groups, 2), elements=st.floats(0.0, 5.0)))
    return rows, rows * means


two_groups = st.composite(lambda draw: cells(draw, 2))()
many_groups = st.composite(lambda draw: cells(draw, draw(st.integers(2, 5))))()
with_empty_cells = st.composite(lambda draw: cells(draw, draw(st.integers(2, 4)), least=0))()
steps = st.lists(st.floats(0.0, 0.6), min_size=1, max_size=5)


def selection_weights(rows: np.ndarray, losses: list[np.ndarray], alphas: list[float]) -> np.ndarray:
    """FedFB for demographic parity: the weight of a row of each (group, label), by lambda."""
    n, groups = rows.sum(), range(len(rows))
    lam = [rows[a].sum() / n for a in groups]
    for loss, alpha in zip(losses, alphas, strict=True):
        mean = {(y, a): loss[a, y] / rows[a].sum() for a in groups for y in (0, 1)}
        f = {
            a: -mean[0, 0]
            + mean[1, 0]
            + mean[0, a]
            - mean[1, a]
            + rows[0, 0] / rows[0].sum()
            - rows[a, 0] / rows[a].sum()
            for a in groups
            if a > 0
        }
        moves = [-alpha * sum(f.values())] + [alpha * f[a] for a in groups if a > 0]
        lam = [min(max(lam[a] + moves[a], 0.0), 2 * rows[a].sum() / n) for a in groups]
    return np.array([[lam[a] / rows[a].sum(), (2 * rows[a].sum() / n - lam[a]) / rows[a].sum()] for a in groups])


def label_weights(given: Given, rows: np.ndarray, losses: list[np.ndarray], alpha: float) -> np.ndarray:
    """FedFB for conditions on labels, two groups: EOpp by the sign of the difference, EO by d / |d|."""
    n = rows.sum()
    pi, lam = rows.sum(0) / n, rows[1] / n
    for loss in losses:
        d = {y: loss[1, y] / rows[1, y] - loss[0, y] / rows[0, y] for y in given}
        if len(given) == 1:
            (y,) = given
            move = {y: alpha * np.sign(d[y])}
        else:
            norm = np.hypot(*d.values())
            move = {y: alpha * d[y] / norm if norm > 0 else 0.0 for y in given}
        lam = np.array([np.clip(lam[y] + move[y], 0.0, pi[y]) if y in given else lam[y] for y in (0, 1)])
    weights = np.full((2, 2), 1 / n)
    for y in given:
        weights[:, y] = (pi[y] - lam[y]) / rows[0, y], lam[y] / rows[1, y]
    return weights


def ratios_after(given: Given, rows: np.ndarray, losses: list[np.ndarray], alphas: list[float]) -> np.ndarray:
    ratios = np.ones_like(rows)
    for loss, alpha in zip(losses, alphas, strict=True):
        ratios = updated_ratios(given, ratios, rows, loss, alpha)
    return ratios


@settings(deadline=None)
@given(cells=many_groups, alphas=steps, seed=st.integers(0, 99))
def test_weights_for_demographic_parity_are_those_of_the_lambda_formulas(
    cells: tuple[np.ndarray, np.ndarray], alphas: list[float], seed: int
) -> None:
    rows, loss = cells
    losses = [loss * f for f in np.random.default_rng(seed).uniform(0.2, 2.0, size=(len(alphas), 1, 1))]
    expected = selection_weights(rows, losses, alphas)
    np.testing.assert_allclose(ratios_after(DP, rows, losses, alphas) / rows.sum(), expected, rtol=1e-9, atol=1e-13)


@settings(deadline=None)
@given(cells=two_groups, alpha=st.floats(0.001, 0.6), notion=st.sampled_from([EOPP, PE, EO]), seed=st.integers(0, 99))
def test_weights_for_conditions_on_labels_are_those_of_the_lambda_formulas(
    cells: tuple[np.ndarray, np.ndarray], alpha: float, notion: Given, seed: int
) -> None:
    rows, loss = cells
    losses = [loss * f for f in np.random.default_rng(seed).uniform(0.2, 2.0, size=(4, 2, 2))]
    # Where two means agree but for rounding, the sign of their difference is rounding too.
    for step in losses:
        apart = step[1] / rows[1] - step[0] / rows[0]
        assume((np.abs(apart) > 1e-9).all())
    expected = label_weights(notion, rows, losses, alpha)
    found = ratios_after(notion, rows, losses, [alpha] * 4) / rows.sum()
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)


def test_a_step_for_demographic_parity_by_hand() -> None:
    # n = 10; group 0 has 4 rows (3 of label 0), group 1 has 6 (2 of label 0). L_ya over the group's rows:
    # L_00 = 1.2/4, L_10 = 0.8/4, L_01 = 1.5/6, L_11 = 3/6.
    rows, loss = np.array([[3.0, 1.0], [2.0, 4.0]]), np.array([[1.2, 0.8], [1.5, 3.0]])
    f = -0.3 + 0.2 + 0.25 - 0.5 + 3 / 4 - 2 / 6
    np.testing.assert_allclose(direction(DP, rows, loss), [[-f, 0.0], [f, 0.0]], atol=1e-15)
    # lambda_0 = 0.4 - 0.1 f, lambda_1 = 0.6 + 0.1 f; a row's ratio is lambda_a n / n_a, and 2 minus that.
    first, second = (0.4 - 0.1 * f) * 10 / 4, (0.6 + 0.1 * f) * 10 / 6
    expected = [[first, 2 - first], [second, 2 - second]]
    np.testing.assert_allclose(updated_ratios(DP, np.ones_like(rows), rows, loss, 0.1), expected, rtol=1e-14)


def test_a_step_for_equalized_odds_by_hand() -> None:
    # Mean losses: (y=0) 0.2 and 0.6, (y=1) 0.9 and 0.6: d = (0.4, -0.3), of length 0.5.
    rows, loss = np.full((2, 2), 10.0), np.array([[2.0, 9.0], [6.0, 6.0]])
    np.testing.assert_allclose(direction(EO, rows, loss), [[0.0, 0.0], [0.8, -0.6]], atol=1e-15)
    # lambda_0 = 0.25 + 0.05 * 0.8, lambda_1 = 0.25 - 0.05 * 0.6; times 40 rows over 10 of the cell.
    expected = [[0.84, 1.12], [1.16, 0.88]]
    np.testing.assert_allclose(updated_ratios(EO, np.ones_like(rows), rows, loss, 0.05), expected, rtol=1e-14)


@settings(deadline=None)
@given(cells=with_empty_cells, notion=st.sampled_from([DP, EOPP, PE, EO]))
def test_without_a_step_the_weights_are_exactly_plain(cells: tuple[np.ndarray, np.ndarray], notion: Given) -> None:
    rows, loss = cells
    assert (updated_ratios(notion, np.ones_like(rows), rows, loss, 0.0) == 1.0).all()


@settings(deadline=None)
@given(cells=with_empty_cells, notion=st.sampled_from([DP, EOPP, PE, EO]), alphas=st.lists(st.floats(0, 9), max_size=4))
def test_weights_stay_within_their_bounds_also_where_cells_are_empty(
    cells: tuple[np.ndarray, np.ndarray], notion: Given, alphas: list[float]
) -> None:
    rows, loss = cells
    ratios = ratios_after(notion, rows, [loss] * len(alphas), alphas)
    assert np.isfinite(ratios).all()
    assert (ratios >= 0.0).all()
    if notion == DP:
        assert (ratios <= 2.0).all()
        np.testing.assert_allclose(ratios.sum(1), 2.0, rtol=1e-15)
    else:
        per_label = (ratios * rows).sum(0)
        np.testing.assert_allclose(per_label, rows.sum(0), rtol=1e-12)  # each label keeps the weight it had
        untouched = [y for y in (0, 1) if y not in notion]
        assert (ratios[:, untouched] == 1.0).all()


def test_huge_steps_stop_at_the_bounds_of_each_groups_own_size() -> None:
    rows = np.array([[1.0, 1.0], [5.0, 3.0], [20.0, 10.0]])
    loss = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 99.0]])
    np.testing.assert_array_equal(
        updated_ratios(DP, np.ones_like(rows), rows, loss, 1e6), [[0.0, 2.0], [2.0, 0.0], [0.0, 2.0]]
    )


def test_more_than_two_groups_cannot_ask_for_more_weight_than_a_label_has() -> None:
    rows, loss = np.array([[9.0, 4.0], [9.0, 2.0], [9.0, 2.0]]), np.array([[0.0, 0.0], [0.0, 4.0], [0.0, 4.0]])
    ratios = updated_ratios(EOPP, np.ones_like(rows), rows, loss, 100.0)
    np.testing.assert_allclose(ratios[:, 1], [0.0, 2.0, 2.0])  # the two share all 8 rows' weight


@settings(deadline=None)
@given(
    groups=st.integers(2, 4),
    seed=st.integers(0, 10**6),
    n=st.integers(8, 60),
)
def test_with_the_0_1_loss_the_direction_is_exactly_the_difference_of_selection_rates(
    groups: int, seed: int, n: int
) -> None:
    rng = np.random.default_rng(seed)
    group = np.concatenate([np.arange(groups), rng.integers(groups, size=n)])
    label, decision = rng.integers(2, size=group.size), rng.integers(2, size=group.size)
    rows, wrong = np.zeros((groups, 2)), np.zeros((groups, 2))
    np.add.at(rows, (group, label), 1.0)
    np.add.at(wrong, (group, label), label != decision)
    rates = [decision[group == a].mean() for a in range(groups)]
    found = direction(DP, rows, wrong)
    np.testing.assert_allclose(found[1:, 0], np.array(rates[1:]) - rates[0], atol=1e-14)
    np.testing.assert_allclose(found[0, 0], -found[1:, 0].sum(), atol=1e-14)
    assert (found[:, 1] == 0.0).all()


def test_an_empty_cell_moves_nothing_and_the_first_group_with_rows_is_compared_with() -> None:
    loss = np.array([[3.0, 5.0], [2.0, 0.0], [1.0, 1.0]])
    no_positives_in_one = np.array([[4.0, 5.0], [4.0, 0.0], [4.0, 5.0]])
    assert direction(EOPP, no_positives_in_one, loss)[:, 1].tolist() == [0.0, 0.0, -1.0]
    no_reference = np.array([[4.0, 0.0], [4.0, 2.0], [4.0, 5.0]])
    assert direction(EOPP, no_reference, loss)[:, 1].tolist() == [0.0, 0.0, 1.0]  # mean losses 0/2 and 1/5
    # 0.1 of 19 rows' weight goes from the 2 rows of the second group to the 5 of the third.
    np.testing.assert_allclose(
        updated_ratios(EOPP, np.ones_like(loss), no_reference, loss, 0.1)[:, 1], [1.0, 0.05, 1.38]
    )
    only_one = np.array([[4.0, 0.0], [4.0, 0.0], [4.0, 5.0]])
    assert (updated_ratios(EOPP, np.ones_like(loss), only_one, loss, 0.5) == 1.0).all()
    absent_first_group = np.array([[0.0, 0.0], [4.0, 2.0], [4.0, 5.0]])
    # F = (1 - 1 - 4)/9 - (2 - 0 - 4)/6 = -1/9; lambda moves by 0.01 F, a ratio by n/n_a = 15/9 and 15/6 of that.
    found = updated_ratios(DP, np.ones_like(loss), absent_first_group, loss, 0.01)[:, 0]
    np.testing.assert_allclose(found, [1.0, 1.0 + 0.01 / 9 * 15 / 6, 1.0 - 0.01 / 9 * 15 / 9])
    absent_second_group = np.array([[2.0, 2.0], [0.0, 0.0], [4.0, 5.0]])
    assert updated_ratios(DP, np.ones_like(loss), absent_second_group, loss, 0.01)[1].tolist() == [1.0, 1.0]


def test_equal_losses_take_no_step() -> None:
    rows = np.array([[4.0, 2.0], [8.0, 4.0]])
    for notion in (EOPP, PE, EO):
        assert (updated_ratios(notion, np.ones_like(rows), rows, 0.7 * rows, 0.3) == 1.0).all()


@settings(deadline=None)
@given(cells=many_groups)
def test_reweighing_makes_label_and_group_independent(cells: tuple[np.ndarray, np.ndarray]) -> None:
    rows, _ = cells
    share = reweighing(rows) * rows / rows.sum()
    np.testing.assert_allclose(share, np.outer(share.sum(1), share.sum(0)), rtol=1e-12)
    np.testing.assert_allclose(share.sum(0), rows.sum(0) / rows.sum(), rtol=1e-12)
    np.testing.assert_allclose(share.sum(1), rows.sum(1) / rows.sum(), rtol=1e-12)


def test_reweighing_of_empty_cells_is_1() -> None:
    assert reweighing(np.array([[3.0, 0.0], [0.0, 0.0]])).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert (reweighing(np.zeros((2, 2))) == 1.0).all()


def test_conditions_are_those_of_the_notion_as_labels() -> None:
    named = (DEMOGRAPHIC_PARITY, EQUAL_OPPORTUNITY, PREDICTIVE_EQUALITY, EQUALIZED_ODDS)
    assert [conditions(notion) for notion in named] == [DP, EOPP, PE, EO]
    assert [type(label) for label in conditions(Notion("by floats", given=(1.0, 0.0)))] == [int, int]


@pytest.mark.parametrize("given_", [(None, 1), (Rate("benefit", -1.0, 2.0, base=(1.0, 0.0)),)])
def test_notions_that_cannot_be_trained_for_are_refused_in_one_sentence(given_: tuple[object, ...]) -> None:
    with pytest.raises(InputError, match=r"^notion: 'own' cannot be trained for; use selection rates alone .*\.$"):
        conditions(Notion("own", given=given_))  # type: ignore[arg-type]
