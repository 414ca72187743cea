"""FedFB's server: weights and averages by hand, with alpha 0 FedAvg, and its target lowered on a biased problem."""

from __future__ import annotations

import numpy as np
import pytest

from logofair.errors import InputError
from logofair.notions import DEMOGRAPHIC_PARITY, EQUAL_OPPORTUNITY, EQUALIZED_ODDS, NOTIONS, Notion
from logofair_reproduction.training import FedAvg, FedFB, Schedule, build_network, train
from logofair_reproduction.training.messages import ClientMeasures, TrainedParameters
from made.problems import awkward, biased, last

pytestmark = pytest.mark.training

# Two clients; over all: group 0 has 4 rows of label 0 and 6 of label 1, group 1 has 2 and 8; n = 20.
ROWS = np.array([[[3.0, 2.0], [1.0, 6.0]], [[1.0, 4.0], [1.0, 2.0]]])
LOSS = np.array([[[1.0, 0.5], [0.5, 2.0]], [[0.5, 1.5], [1.0, 2.0]]])


def measured(loss: np.ndarray = LOSS) -> ClientMeasures:
    return ClientMeasures((0, 1), (0, 1), ROWS, np.zeros_like(ROWS), loss)


def test_weights_for_demographic_parity_by_hand_over_three_rounds() -> None:
    method = FedFB(DEMOGRAPHIC_PARITY, alpha=0.1)
    state = method.initial_state(measured())
    # Losses over the clients together: group 0 (3, 4) of 10 rows, group 1 (3, 8) of 10 rows; the constant of F_1,
    # 4/10 - 2/10, enters once and not once per client.
    f = -0.3 + 0.4 + 0.3 - 0.8 + 4 / 10 - 2 / 10
    lam = np.array([0.5, 0.5])
    for t in range(3):
        state = method.learn(state, measured(2 * LOSS))
        lam = lam + 0.1 / np.sqrt(t + 1) * np.array([-f, f])
        expected = np.stack([lam * 20 / 10, (2 * 10 / 20 - lam) * 20 / 10], 1)
        np.testing.assert_allclose(state["ratios"], expected, rtol=1e-13)


def test_weights_for_equal_opportunity_by_hand_over_two_rounds() -> None:
    method = FedFB(EQUAL_OPPORTUNITY, alpha=0.05)
    # Means on label 1: 2/6 in group 0, 4/8 in group 1, so lambda_1 rises by alpha, from 8/20, in each round.
    state = method.learn(method.initial_state(measured()), measured())
    for lam in (8 / 20 + 0.05, 8 / 20 + 0.1):
        expected = [[1.0, (14 / 20 - lam) * 20 / 6], [1.0, lam * 20 / 8]]
        np.testing.assert_allclose(state["ratios"], expected, rtol=1e-13)
        state = method.learn(state, measured())


def test_weights_for_equalized_odds_by_hand() -> None:
    method = FedFB(EQUALIZED_ODDS, alpha=0.05)
    d = np.array([1.5 / 2 - 1.5 / 4, 4 / 8 - 2 / 6])
    lam = np.array([2, 8]) / 20 + 0.05 * d / np.hypot(*d)
    state = method.learn(method.initial_state(measured()), measured())
    np.testing.assert_allclose(state["ratios"][1], lam * 20 / [2, 8], rtol=1e-13)
    np.testing.assert_allclose(state["ratios"][0], (np.array([6, 14]) / 20 - lam) * 20 / [4, 6], rtol=1e-13)


def test_models_are_averaged_by_the_sum_of_their_clients_row_weights() -> None:
    method = FedFB(EQUAL_OPPORTUNITY, alpha=0.1)
    state = method.learn(method.initial_state(measured()), measured())
    assert method.request(state).weights is state["ratios"]
    lam = 0.5
    row = {(0, 0): 1 / 20, (0, 1): (0.7 - lam) / 6, (1, 0): 1 / 20, (1, 1): lam / 8}
    weight = [sum(ROWS[k, a, y] * row[a, y] for a in (0, 1) for y in (0, 1)) for k in (0, 1)]
    assert sum(weight) == pytest.approx(1.0)
    after, kept = method.step(
        state, np.zeros(1), measured(), {0: TrainedParameters(np.ones(1)), 1: TrainedParameters(np.full(1, 5.0))}
    )
    np.testing.assert_allclose(after, weight[0] + 5 * weight[1], rtol=1e-13)
    assert kept is state
    alone, _ = method.step(state, np.zeros(1), measured(), {1: TrainedParameters(np.full(1, 5.0))})
    np.testing.assert_allclose(alone, 5.0)


def test_a_client_whose_rows_all_weigh_nothing_counts_nothing_in_the_average() -> None:
    rows = np.array([[[0.0, 0.0], [0.0, 4.0]], [[3.0, 5.0], [4.0, 1.0]]])
    method = FedFB(EQUAL_OPPORTUNITY, alpha=9.0)
    model = ClientMeasures(
        (0, 1), (0, 1), rows, np.zeros_like(rows), np.array([[[0, 0], [0, 0]], [[1, 5], [1, 0]]]) * 1.0
    )
    state = method.learn(method.initial_state(model), model)
    assert state["ratios"][1, 1] == 0.0
    replies = {0: TrainedParameters(np.array([100.0])), 1: TrainedParameters(np.array([3.0]))}
    after, _ = method.step(state, np.zeros(1), model, replies)
    assert after.tolist() == [3.0]


@pytest.mark.parametrize("notion", list(NOTIONS.values()), ids=list(NOTIONS))
@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_alpha_0_is_fedavg_to_the_bit(name: str, notion: Notion) -> None:
    for rows in (biased(60), awkward()):
        network = build_network(name, rows[0].features.shape[1:], hidden=8)
        plan = Schedule(local_epochs=2, batch_size=32)
        methods = (FedAvg(), FedFB(notion, alpha=0.0))
        plain, fair = (list(train(m, network, rows, rounds=3, schedule=plan, random_state=3)) for m in methods)
        assert [state.parameters.tobytes() for state in plain] == [state.parameters.tobytes() for state in fair]


def test_the_first_round_is_fedavg_to_the_bit_whatever_alpha() -> None:
    rows, network = biased(200), build_network("mlp", (3,))
    first = [next(iter(train(method, network, rows, rounds=1))).parameters for method in (FedAvg(), FedFB(alpha=0.3))]
    assert first[0].tobytes() == first[1].tobytes()


@pytest.mark.parametrize("notion", list(NOTIONS.values()), ids=list(NOTIONS))
def test_each_notion_lowers_its_own_gap_on_a_biased_problem(notion: Notion) -> None:
    rows, network = biased(600), build_network("logistic", (3,))
    plan = Schedule(local_epochs=4, learning_rate=0.05, batch_size=64)
    alpha = 0.3 if notion == DEMOGRAPHIC_PARITY else 0.02
    before, after = (
        last(train(method, network, rows, rounds=25, schedule=plan)).measured.gaps(notion)[1]
        for method in (FedAvg(), FedFB(notion, alpha=alpha))
    )
    assert after < 0.7 * before


@pytest.mark.parametrize("alpha", [-1, float("nan"), "0.3"])
def test_a_bad_alpha_is_refused_in_one_sentence(alpha: object) -> None:
    with pytest.raises(InputError, match=r"^alpha: got .*; pass a number of at least 0\.$"):
        FedFB(alpha=alpha)  # type: ignore[arg-type]
