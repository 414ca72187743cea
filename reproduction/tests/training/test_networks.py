"""Networks as flat vectors: their gradients, sizes and starts; and the rules of steps beside PyTorch's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from logofair.errors import InputError
from logofair_reproduction.training import Network, Schedule, build_network, make_rows
from made.problems import sigmoid

pytestmark = pytest.mark.training

DOUBLE = torch.float64


def a_batch(n: int = 17, d: int = 4, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    features, labels, weights = rng.normal(size=(n, d)), rng.integers(2, size=n), rng.random(n) * 3
    return torch.tensor(features), torch.tensor(labels, dtype=DOUBLE), torch.tensor(weights)


def a_point(network: Network, seed: int = 1) -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).normal(size=network.size))


def perceptron_logits(vector: np.ndarray, features: np.ndarray, hidden: int) -> np.ndarray:
    """The MLP by its definition, cut from the flat vector by hand."""
    d = features.shape[1]
    inner, rest = vector[: d * hidden].reshape(hidden, d), vector[d * hidden :]
    active = np.maximum(features @ inner.T + rest[:hidden], 0.0)
    return np.asarray(active @ rest[hidden : 2 * hidden] + rest[-1])


def weighted_loss(
    name: str, vector: np.ndarray, features: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> float:
    logits = features @ vector[:-1] + vector[-1] if name == "logistic" else perceptron_logits(vector, features, 5)
    p = sigmoid(logits)
    return float(np.mean(weights * -np.where(labels == 1, np.log(p), np.log(1 - p))))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_written_out_gradients_equal_autograd(name: str, weighted: bool) -> None:
    network = build_network(name, (4,), hidden=5, dtype=DOUBLE)
    features, labels, all_weights = a_batch()
    vector, weights = a_point(network), all_weights if weighted else None
    by_torch = Network.gradient(network, vector, features, labels, weights)
    np.testing.assert_allclose(network.gradient(vector, features, labels, weights), by_torch, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_written_out_gradients_equal_finite_differences_of_the_loss_by_its_definition(
    name: str, weighted: bool
) -> None:
    network = build_network(name, (4,), hidden=5, dtype=DOUBLE)
    features, labels, all_weights = a_batch()
    weights = all_weights if weighted else torch.ones_like(labels)
    vector, h = a_point(network), 1e-6

    def loss(at: np.ndarray) -> float:
        return weighted_loss(name, at, features.numpy(), labels.numpy(), weights.numpy())

    point = vector.numpy()
    differences = [(loss(point + h * e) - loss(point - h * e)) / (2 * h) for e in np.eye(network.size)]
    found = network.gradient(vector, features, labels, weights if weighted else None)
    np.testing.assert_allclose(found, differences, atol=1e-8)


@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_the_gradient_of_one_row_and_of_a_certain_row_is_finite(name: str) -> None:
    network = build_network(name, (4,), hidden=5, dtype=DOUBLE)
    features, labels, _ = a_batch(n=1)
    for stretch in (1.0, 1e4):
        assert torch.isfinite(network.gradient(a_point(network), stretch * features, labels, None)).all()


@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_the_flat_vector_is_read_in_the_order_of_pytorchs_parameters(name: str) -> None:
    network = build_network(name, (4,), hidden=5, dtype=DOUBLE)
    module, features = network.module().double(), a_batch()[0]
    flat = nn.utils.parameters_to_vector(module.parameters()).detach()
    np.testing.assert_allclose(network.logits(flat, features), module(features).squeeze(-1).detach(), rtol=1e-12)
    again = torch.cat([part.reshape(-1) for part in network.parts(flat)])
    assert torch.equal(again, flat)


def test_resnet18_has_torchvisions_number_of_parameters_with_one_output() -> None:
    # torchvision 0.x: 11,689,512 with 1,000 outputs, so 11,689,512 - 1000 * 513 + 513 with one.
    assert build_network("resnet18", (3, 32, 32)).size == 11_689_512 - 1000 * 513 + 513 == 11_177_025


def test_resnet18_equals_its_layers_put_together_by_hand() -> None:
    network = build_network("resnet18", (3, 32, 32), dtype=DOUBLE)
    vector = torch.tensor(network.start(random_state=3)) + 0.01 * torch.randn(
        network.size, generator=torch.Generator().manual_seed(0)
    )
    images = torch.tensor(np.random.default_rng(0).integers(256, size=(2, 3, 32, 32)), dtype=torch.uint8)
    pieces = iter(network.parts(vector))

    def norm(x: torch.Tensor) -> torch.Tensor:
        scale, shift = next(pieces), next(pieces)
        grouped = x.view(len(x), 32, -1)
        centred = grouped - grouped.mean(2, keepdim=True)
        standard = (centred / (centred.square().mean(2, keepdim=True) + 1e-5).sqrt()).view_as(x)
        return standard * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)

    mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = (images.double() / 255.0 - mean.view(3, 1, 1)) / deviation.view(3, 1, 1)
    x = functional.max_pool2d(norm(functional.conv2d(x, next(pieces), stride=2, padding=3)).relu(), 3, 2, 1)
    for block in range(8):
        stride = 2 if block in (2, 4, 6) else 1
        inner = norm(functional.conv2d(x, next(pieces), stride=stride, padding=1)).relu()
        inner = norm(functional.conv2d(inner, next(pieces), padding=1))
        x = (inner + (norm(functional.conv2d(x, next(pieces), stride=stride)) if stride == 2 else x)).relu()
    by_hand = x.mean((2, 3)) @ next(pieces)[0] + next(pieces)
    assert next(pieces, None) is None
    np.testing.assert_allclose(network.all_logits(vector, images), by_hand, rtol=1e-9)


@pytest.mark.parametrize(("name", "shape"), [("logistic", (4,)), ("mlp", (4,)), ("resnet18", (3, 32, 32))])
def test_the_same_seed_gives_the_same_start_and_leaves_pytorchs_generator_alone(
    name: str, shape: tuple[int, ...]
) -> None:
    network, before = build_network(name, shape), torch.get_rng_state()
    first, again, other = (network.start(seed) for seed in (5, 5, 6))
    rows = torch.zeros((1, *shape), dtype=torch.uint8 if name == "resnet18" else torch.float32)
    network.all_logits(torch.tensor(first), rows)
    assert first.tobytes() == again.tobytes()
    assert (name == "logistic") == bool((first == other).all())  # a logistic regression starts from zeros
    assert torch.equal(torch.get_rng_state(), before)


def test_logits_of_many_rows_are_those_of_their_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    network = build_network("mlp", (4,), dtype=DOUBLE)
    features, vector = a_batch(n=40)[0], torch.tensor(network.start(0))
    at_once = network.all_logits(vector, features)
    monkeypatch.setattr(type(network), "at_once", 7)
    np.testing.assert_allclose(network.all_logits(vector, features), at_once, rtol=1e-12)


def test_scores_are_the_sigmoid_in_doubles() -> None:
    rows = make_rows([[0.0, 1.0], [2.0, -1.0]], [0, 1], groups=["a", "b"])[0]
    scores = build_network("logistic", (2,)).scores(np.array([0.5, -0.25, 1.0]), rows)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, sigmoid(np.array([0.75, 2.25])), rtol=1e-15)


@pytest.mark.parametrize("parameters", [np.zeros(4), np.zeros((1, 3)), np.zeros(0)])
def test_parameters_of_another_size_are_refused_in_one_sentence(parameters: np.ndarray) -> None:
    rows = make_rows([[0.0, 1.0], [2.0, 0.0]], [0, 1], groups=["a", "b"])[0]
    with pytest.raises(InputError, match=r"^parameters: got an array of shape .*, but logistic has 3 of them\.$"):
        build_network("logistic", (2,)).scores(parameters, rows)


def test_unknown_networks_and_shapes_that_do_not_fit_are_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match=r"^network: got 'mpl' \(did you mean 'mlp'\?\); use one of logistic, mlp, "):
        build_network("mpl", (3,))
    with pytest.raises(InputError, match=r"^network: mlp takes rows of shape \(features,\), got \(3, 32, 32\); use "):
        build_network("mlp", (3, 32, 32))
    with pytest.raises(InputError, match=r"^network: resnet18 takes rows of shape \(3, height, width\), got \(3,\); "):
        build_network("resnet18", (3,))
    with pytest.raises(InputError, match=r"^hidden: got 0; pass a whole number of at least 1\.$"):
        build_network("mlp", (3,), hidden=0)


@pytest.mark.parametrize(("name", "theirs"), [("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)])
def test_steps_equal_pytorchs_optimiser_over_many_steps(name: str, theirs: type[torch.optim.Optimizer]) -> None:
    random = torch.Generator().manual_seed(0)
    ours = torch.randn(6, dtype=DOUBLE, generator=random)
    peer = ours.clone().requires_grad_(True)
    step, optimiser = Schedule(learning_rate=0.03, optimiser=name).optimiser_step(), theirs([peer], lr=0.03)  # type: ignore[call-arg]
    for number in range(300):
        # The gradient of a bowl and some noise; sometimes tiny, sometimes 0, once huge.
        noise = torch.randn(6, dtype=DOUBLE, generator=random) * (0.0, 1e-9, 1.0, 100.0)[number % 4]
        step(ours, ours * (number % 4 > 0) + noise)
        peer.grad = peer.detach() * (number % 4 > 0) + noise
        optimiser.step()
    np.testing.assert_allclose(ours, peer.detach(), rtol=1e-12, atol=1e-12)


def test_two_optimisers_share_no_moments() -> None:
    used, fresh = Schedule(learning_rate=0.1).optimiser_step(), Schedule(learning_rate=0.1).optimiser_step()
    for _ in range(5):
        used(torch.zeros(2, dtype=DOUBLE), torch.ones(2, dtype=DOUBLE))
    vector = torch.ones(2, dtype=DOUBLE)
    fresh(vector, torch.tensor([3.0, -0.5], dtype=DOUBLE))
    np.testing.assert_allclose(vector, [0.9, 1.1], atol=1e-7)  # Adam's first step has the length of its learning rate
