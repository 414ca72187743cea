"""FairFed's server: its weights by hand and beside the formulas, with beta 0 FedAvg, and what clients may lack."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair.notions import DEMOGRAPHIC_PARITY, EQUAL_OPPORTUNITY, EQUALIZED_ODDS, NOTIONS, Notion
from logofair_reproduction.training import FairFed, FedAvg, Schedule, build_network, train
from logofair_reproduction.training.messages import ClientMeasures, Gradients, TrainedParameters
from logofair_reproduction.training.methods import distances
from made.problems import awkward, biased

pytestmark = pytest.mark.training


def measured_of(rows: object, accepted: object) -> ClientMeasures:
    counts = np.asarray(rows, float)
    names = tuple(range(len(counts)))
    return ClientMeasures(names, tuple(range(counts.shape[1])), counts, np.asarray(accepted, float), counts)


# Three clients, (group, label) each. True positives of group 0: 1/2, 3/4, none; of group 1: 2/2, 1/4, 3/3.
ROWS = [[[2, 2], [2, 2]], [[1, 4], [1, 4]], [[5, 0], [1, 3]]]
ACCEPTED = [[[1, 1], [0, 2]], [[0, 3], [1, 1]], [[2, 0], [0, 3]]]


def test_distances_for_equal_opportunity_by_hand() -> None:
    whole = 4 / 6 - 6 / 9  # sum over clients of TP_k0 / 6 - TP_k1 / 9
    own = [1 / 2 - 2 / 2, 3 / 4 - 1 / 4]
    # The third client has no positives of group 0: its accuracy (3 + 0 + 1 + 3 of 9) beside all (6 + 6 + 7 of 27).
    right = np.array([1 + 1 + 2 + 2, 1 + 3 + 0 + 1, 3 + 0 + 1 + 3])
    expected = [abs(own[0] - whole), abs(own[1] - whole), abs(right[2] / 9 - right.sum() / 27)]
    np.testing.assert_allclose(distances(measured_of(ROWS, ACCEPTED), EQUAL_OPPORTUNITY), expected, rtol=1e-12)


def test_distances_for_demographic_parity_by_hand() -> None:
    # Group 0 accepted: 2/4, 3/5, 2/5, together 7/14; group 1: 2/4, 2/5, 3/4, together 7/13.
    whole = 7 / 14 - 7 / 13
    expected = [abs(2 / 4 - 2 / 4 - whole), abs(3 / 5 - 2 / 5 - whole), abs(2 / 5 - 3 / 4 - whole)]
    np.testing.assert_allclose(distances(measured_of(ROWS, ACCEPTED), DEMOGRAPHIC_PARITY), expected, rtol=1e-12)


def test_distances_for_equalized_odds_follow_the_rate_that_is_further_apart_over_all() -> None:
    # True positive rates agree over all (4/6, 6/9); false positive rates do not: 3/8 and 1/4.
    whole = 3 / 8 - 1 / 4
    expected = [abs(1 / 2 - 0 / 2 - whole), abs(0 / 1 - 1 / 1 - whole), abs(2 / 5 - 0 / 1 - whole)]
    np.testing.assert_allclose(distances(measured_of(ROWS, ACCEPTED), EQUALIZED_ODDS), expected, rtol=1e-12)


def test_gaps_are_signed() -> None:
    # The two clients favour different groups by as much: each is far from the whole, which favours none.
    rows, accepted = np.full((2, 2, 2), 2.0), [[[2, 2], [0, 0]], [[0, 0], [2, 2]]]
    np.testing.assert_allclose(distances(measured_of(rows, accepted), DEMOGRAPHIC_PARITY), [1.0, 1.0])


def by_the_formulas(measured: ClientMeasures, notion: Notion) -> np.ndarray:
    """Delta_k for two groups: F_k, Acc_k and m_k with global denominators, as the specification has them."""
    n_k = measured.rows.sum((1, 2))
    right = measured.accepted[..., 1].sum(1) + (measured.rows - measured.accepted)[..., 0].sum(1)
    accuracy = right / n_k
    global_accuracy = (n_k / n_k.sum() * accuracy).sum()
    signed = []
    for condition in notion.given:
        labels = [0, 1] if condition is None else [condition]
        base, taken = measured.rows[..., labels].sum(2), measured.accepted[..., labels].sum(2)
        totals = base.sum(0)
        m = [t[0] / totals[0] - t[1] / totals[1] if totals.all() else np.nan for t in taken]
        own = [t[0] / b[0] - t[1] / b[1] if b.all() else np.nan for t, b in zip(taken, base, strict=True)]
        signed.append((np.sum(m), np.array(own)))
    known = [pair for pair in signed if np.isfinite(pair[0])]
    if not known:
        return np.abs(accuracy - global_accuracy)
    whole, own_gaps = max(known, key=lambda pair: abs(pair[0]))
    return np.where(np.isnan(own_gaps), np.abs(accuracy - global_accuracy), np.abs(whole - own_gaps))


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.integers(1, 6), name=st.sampled_from(sorted(NOTIONS)))
def test_distances_are_those_of_the_sum_of_the_clients_shares_of_the_global_gap(
    seed: int, clients: int, name: str
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 9, size=(clients, 2, 2)) * (rng.random((clients, 2, 2)) < 0.8)
    rows[:, 0, 1] += rows.sum((1, 2)) == 0  # every client has a row
    measured = measured_of(rows, rng.integers(0, rows + 1))
    gaps = measured.sides(NOTIONS[name])[1].gaps[:, 0]
    assume(gaps.size == 1 or not np.ptp(gaps) < 1e-9)  # where two rates are as far apart, either may be followed
    found = distances(measured, NOTIONS[name])
    np.testing.assert_allclose(found, by_the_formulas(measured, NOTIONS[name]), atol=1e-12)


def test_with_more_than_two_groups_the_pair_furthest_apart_over_all_is_followed() -> None:
    rows = np.full((2, 3, 2), 5.0)
    accepted = np.array([[[1, 1], [2, 2], [4, 4]], [[0, 0], [2, 2], [2, 2]]], float)
    # Over all: 2/20, 8/20, 12/20; the pair is the third and the first: 0.6 and 0.4 at the clients, 0.5 over all.
    np.testing.assert_allclose(distances(measured_of(rows, accepted), DEMOGRAPHIC_PARITY), [0.1, 0.1], atol=1e-12)


def test_a_server_step_by_hand() -> None:
    method = FairFed(DEMOGRAPHIC_PARITY, beta=1.0, debias="none")
    rows = np.array([[[1, 1], [1, 1]], [[2, 2], [2, 2]], [[1, 1], [3, 3]]], float)
    accepted = np.array([[[1, 1], [0, 0]], [[2, 2], [2, 2]], [[0, 0], [3, 3]]], float)
    measured = measured_of(rows, accepted)
    # n = 20; shares 0.2, 0.4, 0.4. Over all: group 0 accepted 6/8, group 1 10/12: F = -1/12. F_k: 1, 0, -1.
    delta = np.array([13, 1, 11]) / 12
    bar = np.array([0.2, 0.4, 0.4]) - 1.0 * (delta - delta.mean())
    assert bar.min() < 0  # the first client's weight falls below 0 and is kept at 0, the others make up 1
    weights = np.maximum(bar, 0.0) / np.maximum(bar, 0.0).sum()
    models = {place: TrainedParameters(np.array([1.0, 10.0, 100.0]) * (place + 1)) for place in range(3)}
    start = method.initial_state(measured)
    np.testing.assert_allclose(start["weights"], [0.2, 0.4, 0.4])
    after, state = method.step(start, np.zeros(3), measured, models)
    np.testing.assert_allclose(state["weights"], weights, rtol=1e-12)
    mean = (weights * [1, 2, 3]).sum() / weights.sum()
    np.testing.assert_allclose(after, [mean, 10 * mean, 100 * mean], rtol=1e-12)


def test_weights_go_on_from_the_rounds_before() -> None:
    method = FairFed(DEMOGRAPHIC_PARITY, beta=0.01, debias="none")
    measured = measured_of(ROWS, ACCEPTED)
    delta = distances(measured, DEMOGRAPHIC_PARITY)
    state = method.initial_state(measured)
    for _ in range(3):
        _, state = method.step(state, np.zeros(1), measured, {0: TrainedParameters(np.zeros(1))})
    np.testing.assert_allclose(state["weights"], measured.shares - 0.03 * (delta - delta.mean()), rtol=1e-12)
    assert state["weights"].sum() == pytest.approx(1.0)


def test_clients_that_did_not_answer_are_left_out_of_the_average_alone() -> None:
    method, measured = FairFed(DEMOGRAPHIC_PARITY, beta=0.01, debias="none"), measured_of(ROWS, ACCEPTED)
    state = method.initial_state(measured)
    everyone = {place: TrainedParameters(np.array([float(place)])) for place in range(3)}
    _, full = method.step(state, np.zeros(1), measured, everyone)
    after, kept = method.step(state, np.zeros(1), measured, {0: everyone[0], 2: everyone[2]})
    np.testing.assert_array_equal(kept["weights"], full["weights"])
    np.testing.assert_allclose(after, 2 * kept["weights"][2] / (kept["weights"][0] + kept["weights"][2]))
    stays, _ = method.step(state, np.array([7.0]), measured, {})
    assert stays.tolist() == [7.0]
    stays, _ = method.step(state, np.array([7.0]), measured, {1: Gradients(np.zeros(2), np.zeros((2, 1)))})
    assert stays.tolist() == [7.0]


def test_where_no_gap_is_defined_accuracy_alone_counts() -> None:
    rows = [[[0, 0], [2, 2]], [[0, 0], [1, 3]]]
    measured = measured_of(rows, [[[0, 0], [0, 2]], [[0, 0], [1, 0]]])
    np.testing.assert_allclose(distances(measured, EQUALIZED_ODDS), [1 - 4 / 8, 4 / 8], rtol=1e-12)


@pytest.mark.parametrize("notion", list(NOTIONS.values()), ids=list(NOTIONS))
@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_beta_0_is_fedavg_to_the_bit(name: str, notion: Notion) -> None:
    for rows in (biased(60), awkward()):
        network = build_network(name, rows[0].features.shape[1:], hidden=8)
        plan = Schedule(local_epochs=2, batch_size=32)
        runs = [
            train(method, network, rows, rounds=3, schedule=plan, random_state=3)
            for method in (FedAvg(), FairFed(notion, beta=0.0, debias="none"))
        ]
        for plain, fair in zip(*runs, strict=True):
            assert plain.parameters.tobytes() == fair.parameters.tobytes()
        assert plain.round == 3


def test_beta_0_with_debiasing_is_not_fedavg() -> None:
    rows = biased(200)
    network = build_network("logistic", (3,))
    finals = []
    for debias in ("none", "reweighing", "fairbatch"):
        *_, final = train(FairFed(beta=0.0, debias=debias, debias_step=0.1), network, rows, rounds=2)
        finals.append(final.parameters.tobytes())
    assert len(set(finals)) == 3


@pytest.mark.parametrize("notion", [DEMOGRAPHIC_PARITY, EQUALIZED_ODDS], ids=["parity", "odds"])
@pytest.mark.parametrize("debias", ["reweighing", pytest.param("fairbatch", marks=pytest.mark.slow)])
def test_local_debiasing_lowers_the_global_gap_on_a_biased_problem(notion: Notion, debias: str) -> None:
    rows, network = biased(600), build_network("logistic", (3,))
    plan = Schedule(local_epochs=4, learning_rate=0.05, batch_size=64)
    gaps = []
    for method in (FedAvg(), FairFed(notion, beta=0.05, debias=debias, debias_step=0.1)):
        *_, final = train(method, network, rows, rounds=10, schedule=plan)
        gaps.append(final.measured.gaps(notion)[1])
    assert gaps[1] < 0.7 * gaps[0]


@pytest.mark.parametrize("beta", [-0.1, float("nan"), float("inf"), "much", True, None])
def test_a_bad_beta_is_refused_in_one_sentence(beta: object) -> None:
    with pytest.raises(InputError, match=r"^beta: got .*; pass a number of at least 0\.$"):
        FairFed(beta=beta)  # type: ignore[arg-type]


def test_bad_debiasing_is_refused_when_the_method_is_made() -> None:
    with pytest.raises(InputError, match=r"^debias: got 'reweighting' \(did you mean 'reweighing'\?\); use one of .*"):
        FairFed(debias="reweighting")
    with pytest.raises(InputError, match=r"^debias_step: got nan; pass a number of at least 0\.$"):
        FairFed(debias_step=float("nan"))
