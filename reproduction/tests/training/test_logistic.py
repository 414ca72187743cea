"""FedAvg of a logistic regression: gradients, averages, reproducibility, and its accuracy on Adult."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.datasets import dirichlet_clients, load_adult, split
from logofair.errors import InputError
from logofair_reproduction.training import FedAvgRound, LogisticModel, fedavg
from support.examples import examples

pytestmark = pytest.mark.training

WHOLE = {"optimiser": "sgd", "batch_size": None, "local_epochs": 1}


def rows(seed: int, n: int = 60, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, d))
    labels = (features @ rng.normal(size=d) + rng.normal(size=n) > 0).astype(int)
    return features, labels


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-z))


def log_loss(vector: np.ndarray, features: np.ndarray, labels: np.ndarray) -> float:
    """Mean log loss as its definition says; ``vector`` is the weights, then the intercept."""
    p = sigmoid(features @ vector[:-1] + vector[-1])
    return float(-np.mean(np.where(labels == 1, np.log(p), np.log(1 - p))))


def as_vector(model: LogisticModel) -> np.ndarray:
    return np.append(model.weights, model.intercept)


def last(states: object) -> FedAvgRound:
    *_, final = states  # type: ignore[misc]
    return final


@examples(30)
@given(seed=st.integers(0, 10**6))
def test_a_whole_batch_step_is_the_gradient_of_the_log_loss_by_finite_differences(seed: int) -> None:
    features, labels = rows(seed)
    point = np.random.default_rng(seed + 1).normal(size=4)
    start = LogisticModel(point[:-1], float(point[-1]))
    stepped = next(fedavg(features, labels, random_state=0, rounds=1, learning_rate=1.0, start=start, **WHOLE))
    h = 1e-5
    differences = [
        (log_loss(point + h * e, features, labels) - log_loss(point - h * e, features, labels)) / (2 * h)
        for e in np.eye(4)
    ]
    np.testing.assert_allclose(point - as_vector(stepped.model), differences, atol=1e-8)
    np.testing.assert_allclose(stepped.loss, log_loss(as_vector(stepped.model), features, labels), rtol=1e-12)


def test_one_client_with_whole_batches_is_plain_gradient_descent() -> None:
    features, labels = rows(0)
    vector = np.zeros(4)
    design = np.column_stack([features, np.ones(60)])
    for state in fedavg(features, labels, random_state=0, rounds=15, learning_rate=0.5, **WHOLE):
        vector = vector - 0.5 * design.T @ (sigmoid(design @ vector) - labels) / 60
        np.testing.assert_allclose(as_vector(state.model), vector, rtol=1e-12)


def test_one_local_step_per_round_is_gradient_descent_on_all_rows_however_they_are_dealt() -> None:
    features, labels = rows(1)
    clients = dirichlet_clients(labels, n_clients=4, alpha=0.5, rng=1)
    dealt = last(fedavg(features, labels, clients, random_state=0, rounds=10, learning_rate=0.5, **WHOLE))
    whole = last(fedavg(features, labels, random_state=0, rounds=10, learning_rate=0.5, **WHOLE))
    np.testing.assert_allclose(as_vector(dealt.model), as_vector(whole.model), rtol=1e-10)
    assert dealt.loss == pytest.approx(whole.loss, rel=1e-10)


def test_a_round_averages_the_clients_own_models_by_their_number_of_rows() -> None:
    features, labels = rows(2)
    clients = np.repeat(["small", "large"], [15, 45])
    settings_ = {"random_state": 5, "rounds": 1, "local_epochs": 3, "batch_size": 8, "learning_rate": 0.05}
    alone = {
        name: as_vector(next(fedavg(features[clients == name], labels[clients == name], **settings_)).model)
        for name in ("small", "large")
    }
    together = next(fedavg(features, labels, clients, **settings_))
    np.testing.assert_allclose(as_vector(together.model), 0.25 * alone["small"] + 0.75 * alone["large"], rtol=1e-12)


@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_identical_clients_train_the_model_of_one_of_them(optimiser: str) -> None:
    features, labels = rows(3, n=40)
    settings_ = {"random_state": 9, "rounds": 4, "batch_size": 16, "optimiser": optimiser}
    single = last(fedavg(features, labels, **settings_))
    triple = last(fedavg(np.tile(features, (3, 1)), np.tile(labels, 3), np.repeat([0, 1, 2], 40), **settings_))
    np.testing.assert_allclose(as_vector(triple.model), as_vector(single.model), rtol=1e-12)


@examples(20)
@given(seed=st.integers(0, 10**6), names=st.permutations(["a", "b", "c", "d"]))
def test_the_names_and_the_order_of_clients_do_not_matter(seed: int, names: list[str]) -> None:
    features, labels = rows(seed)
    clients = np.random.default_rng(seed).integers(4, size=60)
    settings_ = {"random_state": 2, "rounds": 2, "batch_size": 8}
    by_number = last(fedavg(features, labels, clients, **settings_))
    # Clients as contiguous blocks in the order of their new names; within a client the rows keep their order.
    renamed = np.array(names)[clients]
    order = np.argsort(renamed, kind="stable")
    by_name = last(fedavg(features[order], labels[order], renamed[order], **settings_))
    np.testing.assert_allclose(as_vector(by_name.model), as_vector(by_number.model), rtol=1e-9, atol=1e-12)
    assert by_name.accuracy == {names[number]: share for number, share in by_number.accuracy.items()}


def test_adam_takes_the_steps_of_its_definition() -> None:
    features, labels = rows(4, n=20, d=1)
    design = np.column_stack([features, np.ones(20)])
    vector, mean, square = np.zeros(2), np.zeros(2), np.zeros(2)
    for t in (1, 2, 3):
        slope = design.T @ (sigmoid(design @ vector) - labels) / 20
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        vector = vector - 0.05 * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
    state = next(fedavg(features, labels, random_state=0, local_epochs=3, batch_size=None, learning_rate=0.05))
    np.testing.assert_allclose(as_vector(state.model), vector, rtol=1e-9)


def test_every_round_yields_its_number_loss_and_accuracy_by_client() -> None:
    features, labels = rows(5)
    clients = np.repeat(["x", "y"], 30)
    states = list(fedavg(features, labels, clients, random_state=0, rounds=6))
    assert [state.number for state in states] == [1, 2, 3, 4, 5, 6]
    for state in states:
        right = (state.model.scores(features) >= 0.5) == labels
        assert state.accuracy == {"x": right[:30].mean(), "y": right[30:].mean()}
        assert state.loss == pytest.approx(log_loss(as_vector(state.model), features, labels), rel=1e-12)
    assert states[-1].loss < states[0].loss < np.log(2)


def test_the_same_seed_trains_the_same_model_and_another_seed_another() -> None:
    features, labels = rows(6)
    first, again, other = (
        as_vector(last(fedavg(features, labels, random_state=rng, rounds=2, batch_size=8)).model)
        for rng in (3, np.random.default_rng(3), 4)
    )
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_training_continues_from_a_model_as_if_it_had_not_stopped() -> None:
    features, labels = rows(7)
    through = last(fedavg(features, labels, random_state=1, rounds=5, batch_size=16))
    rng = np.random.default_rng(1)
    halfway = last(fedavg(features, labels, random_state=rng, rounds=2, batch_size=16))
    resumed = last(fedavg(features, labels, random_state=rng, rounds=3, batch_size=16, start=halfway.model))
    np.testing.assert_array_equal(as_vector(resumed.model), as_vector(through.model))


def test_earlier_states_are_not_changed_by_later_rounds() -> None:
    features, labels = rows(8)
    start = LogisticModel(np.ones(3), 1.0)
    states = fedavg(features, labels, random_state=0, rounds=3, start=start)
    first = next(states)
    kept = as_vector(first.model)
    list(states)
    np.testing.assert_array_equal(as_vector(first.model), kept)
    np.testing.assert_array_equal(start.weights, np.ones(3))


def test_clients_with_one_row_or_one_label_take_part() -> None:
    features, labels = rows(9)
    clients = np.where(labels == 1, "only ones", "only zeros").astype(object)
    clients[0] = "one row"
    state = last(fedavg(features, labels, clients, random_state=0, rounds=5))
    assert set(state.accuracy) == {"only ones", "only zeros", "one row"}
    assert np.all(np.isfinite(as_vector(state.model)))
    assert state.loss < np.log(2)


def test_scores_are_the_sigmoid_and_stay_finite_far_out() -> None:
    model = LogisticModel(np.array([1.0, -2.0]), 0.5)
    z = np.array([1.0, -0.5])
    np.testing.assert_allclose(model.scores([[0.5, 0.0], [1.0, 1.0]]), sigmoid(z), rtol=1e-15)
    np.testing.assert_array_equal(LogisticModel(np.array([1.0]), 0.0).scores([[1e4], [-1e4]]), [1.0, 0.0])


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_on_adult_with_five_clients_the_defaults_reach_the_papers_accuracy(seed: int) -> None:
    adult = load_adult()
    parts = split(len(adult), {"train": 0.35, "calibration": 0.35, "test": 0.3}, rng=seed)
    train, test = adult.take(parts["train"]), adult.take(parts["test"])
    clients = dirichlet_clients(train.sensitive, n_clients=5, alpha=0.5, rng=seed)
    state = last(fedavg(train.features, train.labels, clients, random_state=seed))
    accuracy = np.mean((state.model.scores(test.features) >= 0.5) == test.labels)
    assert 0.838 < accuracy < 0.860  # the paper's FedAvg has 0.838; above 0.86 labels would be leaking


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": [0, 1]}, "labels: has 2 rows, but the first column has 4"),
        ({"labels": [0, 1, 2, 1]}, "labels: row 2 is 2"),
        ({"clients": [1]}, "clients: has 1 rows"),
        ({"features": [[1.0], [2.0], [np.nan], [0.0]]}, "features: row 2 holds a missing or infinite value"),
        ({"features": np.empty((0, 2)), "labels": []}, "features: no rows"),
        ({"rounds": 0}, "rounds: got 0; pass a whole number of at least 1"),
        ({"local_epochs": 1.5}, "local_epochs: expected a whole number, got 1.5"),
        ({"batch_size": 0}, "batch_size: got 0"),
        ({"learning_rate": 0}, "learning_rate: got 0; pass a number above 0"),
        ({"optimiser": "adams"}, r"optimiser: got 'adams' \(did you mean 'adam'\?\); use one of adam, sgd"),
        ({"random_state": None}, "random_state: got None"),
        ({"start": LogisticModel(np.ones(2), 0.0)}, "start: the model has 2 weights, but features has 1 columns"),
    ],
)
def test_bad_input_is_refused_at_the_call_not_at_the_first_round(changes: dict[str, object], message: str) -> None:
    fields = {"features": [[0.0], [1.0], [2.0], [3.0]], "labels": [0, 1, 0, 1], "random_state": 0} | changes
    with pytest.raises(InputError, match=message):
        fedavg(**fields)  # type: ignore[arg-type]


def test_a_model_refuses_features_of_another_width() -> None:
    with pytest.raises(InputError, match="features: got 2 columns, but the model has 1 weights"):
        LogisticModel(np.array([1.0]), 0.0).scores([[1.0, 2.0]])
