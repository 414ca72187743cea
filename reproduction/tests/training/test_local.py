"""A client's work: local steps by hand and beside numpy's, weights, counts by brute force, slopes by differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from logofair.errors import InputError
from logofair_reproduction.training import ClientRows, Network, Schedule, build_network, make_rows
from logofair_reproduction.training.balance import updated_ratios
from logofair_reproduction.training.local import batch_gradients, label_counts, take_steps
from logofair_reproduction.training.messages import GradientsRequest, LocalStepsRequest
from made.problems import awkward, biased, sigmoid
from reproduction.bench.new_rows import local_steps

pytestmark = pytest.mark.training

DOUBLE = torch.float64
ONE_STEP = Schedule(local_epochs=1, learning_rate=1.0, batch_size=100, optimiser="sgd")


def tiny() -> tuple[ClientRows, Network]:
    """Five rows of one feature; cells (group, label): a0 x 1, a1 x 2, b0 x 1, b1 x 1."""
    features, labels = [[1.0], [2.0], [-1.0], [0.5], [3.0]], [0, 1, 1, 0, 1]
    rows = make_rows(features, labels, groups=["a", "a", "a", "b", "b"], dtype=DOUBLE)[0]
    return rows, build_network("logistic", (1,), dtype=DOUBLE)


def stepped(request: LocalStepsRequest, schedule: Schedule = ONE_STEP, state: np.ndarray | None = None) -> np.ndarray:
    rows, network = tiny()
    reply, _ = take_steps(network, rows, np.zeros(2), request, schedule, np.random.default_rng(0), state)
    return reply.parameters


def one_step_by_hand(weights: list[float]) -> np.ndarray:
    """Gradient descent from 0 with step 1 on the five rows of ``tiny``: every p is 1/2."""
    x, y, w = np.array([1.0, 2.0, -1.0, 0.5, 3.0]), np.array([0, 1, 1, 0, 1]), np.array(weights)
    return -np.array([(w * (0.5 - y) * x).mean(), (w * (0.5 - y)).mean()])


def test_one_plain_step_by_hand() -> None:
    # Residuals 1/2 - y: .5, -.5, -.5, .5, -.5; times x: .5, -1, .5, .25, -1.5: the mean is -0.25; of residuals -0.1.
    np.testing.assert_allclose(stepped(LocalStepsRequest()), [0.25, 0.1], rtol=1e-15)
    np.testing.assert_allclose(one_step_by_hand([1.0] * 5), [0.25, 0.1], rtol=1e-15)


def test_two_steps_by_hand() -> None:
    rows, network = tiny()
    schedule = Schedule(local_epochs=2, learning_rate=0.5, batch_size=5, optimiser="sgd")
    reply, _ = take_steps(network, rows, np.zeros(2), LocalStepsRequest(), schedule, np.random.default_rng(0))
    x, y = np.array([1.0, 2.0, -1.0, 0.5, 3.0]), np.array([0, 1, 1, 0, 1])
    w, b = 0.125, 0.05
    left = sigmoid(w * x + b) - y
    np.testing.assert_allclose(reply.parameters, [w - 0.5 * (left * x).mean(), b - 0.5 * left.mean()], rtol=1e-14)


def test_given_weights_count_over_the_clients_mean_weight() -> None:
    table = np.array([[3.0, 0.5], [0.0, 2.0]])
    mean = (3.0 + 2 * 0.5 + 0.0 + 2.0) / 5
    by_hand = one_step_by_hand([3.0 / mean, 0.5 / mean, 0.5 / mean, 0.0, 2.0 / mean])
    np.testing.assert_allclose(stepped(LocalStepsRequest(weights=table)), by_hand, rtol=1e-14)
    np.testing.assert_allclose(stepped(LocalStepsRequest(weights=1e6 * table)), by_hand, rtol=1e-14)


def test_reweighing_by_hand() -> None:
    # P(a) = 3/5, P(y=1) = 3/5: W(a,0) = 3*2/5/1, W(a,1) = 3*3/5/2, W(b,0) = 2*2/5/1, W(b,1) = 2*3/5/1; mean 1.
    by_hand = one_step_by_hand([1.2, 0.9, 0.9, 0.8, 1.2])
    np.testing.assert_allclose(stepped(LocalStepsRequest(debias="reweighing")), by_hand, rtol=1e-14)


def test_fairbatch_starts_plain_and_moves_after_every_epoch_by_the_clients_own_losses() -> None:
    rows, network = tiny()
    request = LocalStepsRequest(debias="fairbatch", debias_step=0.05, given=(1, 0))
    first, kept = take_steps(network, rows, np.zeros(2), request, ONE_STEP, np.random.default_rng(0))
    np.testing.assert_array_equal(first.parameters, stepped(LocalStepsRequest()))
    now = label_counts(network, rows, first.parameters)
    np.testing.assert_array_equal(kept, updated_ratios((1, 0), np.ones((2, 2)), now.rows, now.loss, 0.05))
    assert kept is not None
    assert not (kept == 1.0).all()
    # What was kept weighs the next round's rows, and two epochs of one round are two rounds of one epoch.
    cells = [(0, 0), (0, 1), (0, 1), (1, 0), (1, 1)]
    np.testing.assert_allclose(
        stepped(request, state=kept), one_step_by_hand([float(kept[cell]) for cell in cells]), rtol=1e-13
    )
    second, kept_again = take_steps(network, rows, first.parameters, request, ONE_STEP, np.random.default_rng(0), kept)
    at_once = Schedule(local_epochs=2, learning_rate=1.0, batch_size=100, optimiser="sgd")
    both, kept_both = take_steps(network, rows, np.zeros(2), request, at_once, np.random.default_rng(0))
    np.testing.assert_allclose(both.parameters, second.parameters, rtol=1e-12)
    np.testing.assert_allclose(kept_both, kept_again, rtol=1e-12)


def test_weights_and_debiasing_multiply() -> None:
    table = np.array([[2.0, 1.0], [1.0, 3.0]])
    weights = np.array([2.0 * 1.2, 0.9, 0.9, 0.8, 3.0 * 1.2])
    request = LocalStepsRequest(weights=table, debias="reweighing")
    np.testing.assert_allclose(stepped(request), one_step_by_hand(list(weights / weights.mean())), rtol=1e-14)


def test_a_step_of_the_perceptron_is_along_pytorchs_own_gradient() -> None:
    rows = biased(60, 1, dtype=DOUBLE)[0]
    network = build_network("mlp", (3,), hidden=4, dtype=DOUBLE)
    start = network.start(1)
    reply, _ = take_steps(network, rows, start, LocalStepsRequest(), ONE_STEP, np.random.default_rng(0))
    gradient = Network.gradient(network, torch.tensor(start), rows.features, rows.labels, None)
    np.testing.assert_allclose(reply.parameters, start - gradient.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
@pytest.mark.parametrize("batch_size", [7, 1000])
def test_local_steps_in_doubles_are_those_of_the_numpy_regression(optimiser: str, batch_size: int) -> None:
    rows = biased(90, 1, dtype=DOUBLE)[0]
    network = build_network("logistic", (3,), dtype=DOUBLE)
    start = np.array([0.3, -0.2, 0.1, 0.5])
    schedule = Schedule(local_epochs=4, learning_rate=0.05, batch_size=batch_size, optimiser=optimiser)
    ours, _ = take_steps(network, rows, start, LocalStepsRequest(), schedule, np.random.default_rng(8))
    design = np.column_stack([rows.features.numpy(), np.ones(len(rows))])
    theirs = local_steps(design, rows.labels.numpy(), start, schedule, 8)
    np.testing.assert_allclose(ours.parameters, theirs, rtol=1e-12, atol=1e-12)


def test_the_broadcast_parameters_are_left_as_they_were() -> None:
    rows, network = tiny()
    start = np.array([0.1, 0.2])
    take_steps(network, rows, start, LocalStepsRequest(), Schedule(), np.random.default_rng(0))
    batch_gradients(network, rows, start, GradientsRequest((None,), 3), np.random.default_rng(0))
    assert start.tolist() == [0.1, 0.2]


def test_where_every_row_counts_nothing_the_model_is_unchanged() -> None:
    rows = make_rows([[1.0], [2.0], [0.0]], [1, 1, 0], groups=["a", "a", "b"], sites=[0, 0, 1], dtype=DOUBLE)[0]
    start = np.array([0.7, -0.3])
    request = LocalStepsRequest(
        weights=np.array([[1.0, 0.0], [1.0, 1.0]])
    )  # this client's rows are all of group a and label 1
    network = build_network("logistic", (1,), dtype=DOUBLE)
    reply, _ = take_steps(network, rows, start, request, Schedule(), np.random.default_rng(0))
    assert reply.parameters.tolist() == start.tolist()


@pytest.mark.parametrize("debias", ["none", "reweighing", "fairbatch"])
@pytest.mark.parametrize("given", [(None,), (1,), (1, 0)])
def test_awkward_clients_train_to_finite_numbers(debias: str, given: tuple[int | None, ...]) -> None:
    network = build_network("mlp", (2,), hidden=4)
    for rows in awkward():
        request = LocalStepsRequest(debias=debias, debias_step=0.3, given=given)
        reply, kept = take_steps(network, rows, network.start(0), request, Schedule(), np.random.default_rng(0))
        assert np.isfinite(reply.parameters).all()
        assert not (reply.parameters == network.start(0)).all()
        assert (kept is not None) == (debias == "fairbatch")
        assert kept is None or np.isfinite(kept).all()


def test_a_client_with_one_label_learns_that_label() -> None:
    rows = next(rows for rows in awkward(dtype=DOUBLE) if rows.client == "one label")
    network = build_network("logistic", (2,), dtype=DOUBLE)
    schedule = Schedule(local_epochs=50, learning_rate=0.1, optimiser="sgd")
    reply, _ = take_steps(network, rows, network.start(0), LocalStepsRequest(), schedule, np.random.default_rng(0))
    found = label_counts(network, rows, reply.parameters)
    assert found.accepted.sum() == len(rows)
    assert found.rows[:, 0].sum() == 0.0


@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_counts_are_those_of_a_loop_over_the_rows(name: str) -> None:
    network = build_network(name, (2,), hidden=3, dtype=DOUBLE)
    for rows in awkward(dtype=DOUBLE):
        parameters = 0.3 * np.random.default_rng(3).normal(size=network.size)
        scores = network.scores(parameters, rows)
        expected = np.zeros((3, 3, 2))
        for score, label, cell in zip(scores, rows.labels.tolist(), rows.cells.tolist(), strict=True):
            group = cell // 2
            assert cell % 2 == label
            loss = -np.log(score if label == 1 else 1 - score)
            expected[:, group, int(label)] += (1.0, score >= 0.5, loss)
        found = label_counts(network, rows, parameters)
        np.testing.assert_array_equal(found.rows, expected[0])
        np.testing.assert_array_equal(found.accepted, expected[1])
        np.testing.assert_allclose(found.loss, expected[2], rtol=1e-10)


def gaps_by_hand(logits: np.ndarray, labels: np.ndarray, groups: np.ndarray, given: tuple) -> list[float]:
    """For each condition and each group but the first: |mean sigmoid(10 z) - that of the first group|."""
    found = []
    for condition in given:
        keep = np.full(labels.size, True) if condition is None else labels == condition
        rates = [sigmoid(10 * logits[keep & (groups == a)]) for a in range(3)]
        found += [abs(r.mean() - rates[0].mean()) if r.size and rates[0].size else np.nan for r in rates[1:]]
    return found


@pytest.mark.parametrize("given", [(None,), (1,), (0,), (1, 0)])
@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_slopes_are_the_disparities_by_their_definition_and_finite_differences(
    name: str, given: tuple[int | None, ...]
) -> None:
    rows = next(rows for rows in awkward(dtype=DOUBLE) if rows.client == "plain")
    network = build_network(name, (2,), hidden=3, dtype=DOUBLE)
    at, request = 0.3 * np.random.default_rng(2).normal(size=network.size), GradientsRequest(given, batch_size=1000)
    labels, groups = rows.labels.numpy(), rows.cells.numpy() // 2

    def by_hand(parameters: np.ndarray) -> np.ndarray:
        scores = network.scores(parameters, rows)
        loss = -np.where(labels == 1, np.log(scores), np.log(1 - scores)).mean()
        return np.array([loss, *gaps_by_hand(np.log(scores / (1 - scores)), labels, groups, given)])

    found, h = batch_gradients(network, rows, at, request, np.random.default_rng(0)), 1e-6
    assert found.values.size == 1 + 2 * len(given)
    np.testing.assert_allclose(found.values, by_hand(at), rtol=1e-8)
    differences = np.stack([(by_hand(at + h * e) - by_hand(at - h * e)) / (2 * h) for e in np.eye(network.size)], 1)
    np.testing.assert_allclose(found.gradients, differences, atol=1e-6)


def test_a_disparity_by_hand() -> None:
    rows, network = tiny()
    # Logits 0.1 x: group a 0.1, 0.2, -0.1; group b 0.05, 0.3; on label 1 a has 0.2, -0.1 and b has 0.3.
    found = batch_gradients(
        network, rows, np.array([0.1, 0.0]), GradientsRequest((None, 1, 0), 5), np.random.default_rng(0)
    )
    s = {z: 1 / (1 + np.exp(-z)) for z in (1.0, 2.0, -1.0, 0.5, 3.0)}
    parity = (s[0.5] + s[3.0]) / 2 - (s[1.0] + s[2.0] + s[-1.0]) / 3
    np.testing.assert_allclose(
        found.values[1:], [parity, s[3.0] - (s[2.0] + s[-1.0]) / 2, abs(s[0.5] - s[1.0])], rtol=1e-12
    )


def test_an_empty_group_gives_nan_and_no_gradient_and_leaves_the_loss_alone() -> None:
    network = build_network("logistic", (2,), dtype=DOUBLE)
    for rows in awkward(dtype=DOUBLE):
        found = batch_gradients(
            network, rows, np.full(3, 0.2), GradientsRequest((None, 0), 1000), np.random.default_rng(0)
        )
        present = [rows.counts.sum(1), rows.counts[:, 0]]
        empty = [counts[0] == 0 or counts[a] == 0 for counts in present for a in (1, 2)]
        assert np.isnan(found.values[1:]).tolist() == empty
        assert (found.gradients[1:][empty] == 0.0).all()
        assert np.isfinite(found.values[0])
        assert np.abs(found.gradients[0]).max() > 0


def test_slopes_are_of_as_many_rows_as_asked_for_drawn_without_return() -> None:
    rows = make_rows(np.eye(6), [0, 1, 0, 1, 0, 1], groups=[0, 0, 0, 1, 1, 1], dtype=DOUBLE)[0]
    network = build_network("logistic", (6,), dtype=DOUBLE)
    found = batch_gradients(network, rows, np.zeros(7), GradientsRequest((None,), 4), np.random.default_rng(5))
    # Every row has its own feature, so that the loss's gradient, -+1/2 over the batch's size, names the rows drawn.
    assert sorted(np.abs(found.gradients[0][:6])) == pytest.approx([0.0, 0.0, 0.125, 0.125, 0.125, 0.125])
    drawn = [
        tuple(
            batch_gradients(
                network, rows, np.zeros(7), GradientsRequest((None,), 4), np.random.default_rng(s)
            ).gradients[0]
            != 0
        )
        for s in range(8)
    ]
    assert len(set(drawn)) > 1


def test_bad_schedules_and_tasks_are_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"^local_epochs: got 0; pass a whole number of at least 1\.$"):
        Schedule(local_epochs=0)
    with pytest.raises(InputError, match=r"^batch_size: expected a whole number, got 1\.5; .*\.$"):
        Schedule(batch_size=1.5)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^learning_rate: got nan; pass a number above 0 .*\.$"):
        Schedule(learning_rate=float("nan"))
    with pytest.raises(
        InputError, match=r"^debias: got 'fairbach' \(did you mean 'fairbatch'\?\); use one of none, .*"
    ):
        LocalStepsRequest(debias="fairbach")
    with pytest.raises(InputError, match=r"^debias_step: got -0\.1; pass a number of at least 0\.$"):
        LocalStepsRequest(debias_step=-0.1)


def test_without_the_first_group_the_next_one_with_rows_is_compared_with() -> None:
    features, labels, groups = [[0.0], [0.1], [0.3]], [0, 1, 1], ["b", "b", "c"]
    rows = make_rows(features, labels, groups=groups, known_groups=("a", "b", "c"), dtype=DOUBLE)[0]
    network = build_network("logistic", (1,), dtype=DOUBLE)
    found = batch_gradients(network, rows, np.array([1.0, 0.0]), GradientsRequest((None,), 3), np.random.default_rng(0))
    accepted = 1 / (1 + np.exp(-10 * np.array([0.0, 0.1, 0.3])))
    np.testing.assert_allclose(found.values[1:], [np.nan, accepted[2] - accepted[:2].mean()])
    assert (found.gradients[1] == 0.0).all()
