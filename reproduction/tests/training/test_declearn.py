"""Server updates of FairFed and FedFB beside declearn's, where declearn follows the papers.

declearn wants another pandas than this project, so it has an environment of its own: ``make test-declearn``. Where it
departs from the papers its inputs are put right first; docs/DECLEARN.md says where and why.
"""

from __future__ import annotations

import numpy as np
import pytest

from logofair.notions import NOTIONS
from logofair_reproduction.training.balance import direction, updated_ratios
from logofair_reproduction.training.messages import ClientMeasures
from logofair_reproduction.training.methods import FairFed

pytest.importorskip("declearn", reason="declearn is not installed; make test-declearn makes an environment with it")

import declearn.fairness.core  # noqa: F401  # registers the fairness functions
from declearn.fairness.api import instantiate_fairness_function
from declearn.fairness.fairbatch import setup_fedfb_controller
from declearn.fairness.fairfed import FairfedAggregator, FairfedValueComputer

pytestmark = pytest.mark.training

CELLS = [(label, group) for label in (0, 1) for group in (0, 1)]  # declearn needs them sorted
THEIR_NAME = {"demographic_parity": "demographic_parity", "equal_opportunity": "equality_of_opportunity"}


def by_cell(table):
    """(groups, 2) as declearn has it: by (label, group)."""
    return {(label, group): float(table[group, label]) for label, group in CELLS}


def their_fairfed_weights(measured, weights, name, beta):
    computer = FairfedValueComputer(f_type=name, strict=True, target=1)
    computer.initialize(groups=CELLS)

    def gap(rows, accepted):
        right = np.stack([rows[:, 0] - accepted[:, 0], accepted[:, 1]], axis=1)
        counts = {cell: int(number) for cell, number in by_cell(rows).items()}
        function = instantiate_fairness_function(name, counts=counts)
        return computer.compute_synthetic_fairness_value(function.compute_from_federated_group_accuracy(by_cell(right)))

    whole = gap(measured.rows.sum(0), measured.accepted.sum(0))
    distances = [
        abs(gap(rows, accepted) - whole) for rows, accepted in zip(measured.rows, measured.accepted, strict=True)
    ]
    found = []
    for weight, distance in zip(weights, distances, strict=True):
        aggregator = FairfedAggregator(beta=beta)
        aggregator.initialize_local_weight(n_samples=weight)  # from n_k / n, where declearn itself passes n_k
        aggregator.update_local_weight(delta_loc=distance, delta_avg=float(np.mean(distances)))
        found.append(aggregator._weight)
    return np.array(found)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
def test_fairfeds_weights_are_declearns_when_it_starts_from_shares(notion, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(3, 40, (4, 2, 2)).astype(float)
    measured = ClientMeasures(tuple("abcd"), (0, 1), rows, rng.integers(0, rows + 1).astype(float), rows)
    method = FairFed(NOTIONS[notion], beta=0.02, debias="none")
    _, state = method.step(method.initial_state(measured), np.zeros(1), measured, {})
    theirs = their_fairfed_weights(measured, measured.shares, THEIR_NAME[notion], 0.02)
    assert theirs.min() > 0  # declearn keeps negative weights, we do not
    np.testing.assert_allclose(state["weights"], theirs, rtol=1e-9)


def their_ratios(rows, means, name, alpha):
    """Row weights after an update, as ratios to a plain row's, (groups, 2)."""
    counts = {cell: int(number) for cell, number in by_cell(rows).items()}
    controller = setup_fedfb_controller(f_type=name, counts=counts, target=1, alpha=alpha)
    if name == "equality_of_opportunity":
        controller.states["lambda"] = counts[1, 1] / rows.sum()  # it starts with the groups swapped
    # It multiplies mean losses by rows and compares sums: divided by rows first, these sums are the means.
    controller.update_from_losses({cell: mean / counts[cell] for cell, mean in by_cell(means).items()})
    share = controller.get_sampling_probas()
    return np.array([[share[label, group] * rows.sum() / counts[label, group] for label in (0, 1)] for group in (0, 1)])


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("given", "name"), [((1, 0), "equalized_odds"), ((1,), "equality_of_opportunity")], ids=["EO", "EOpp"]
)
def test_fedfbs_weights_are_declearns_when_it_compares_means(given, name, seed):
    rng = np.random.default_rng(seed)
    rows, means = rng.integers(20, 60, (2, 2)).astype(float), rng.uniform(0.1, 1.0, (2, 2))
    ours = updated_ratios(given, np.ones_like(rows), rows, means * rows, step=0.02)
    np.testing.assert_allclose(ours, their_ratios(rows, means, name, 0.02), rtol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_for_demographic_parity_declearn_moves_the_first_groups_weight_in_our_direction(seed):
    rng = np.random.default_rng(seed)
    rows, means = rng.integers(20, 60, (2, 2)).astype(float), rng.uniform(0.1, 1.0, (2, 2))
    controller = setup_fedfb_controller(
        f_type="demographic_parity", counts={c: int(n) for c, n in by_cell(rows).items()}, target=1, alpha=0.02
    )
    before = dict(controller.states)
    controller.update_from_losses(by_cell(means))
    ours = direction((None,), rows, means * rows)[0, 0]
    first = sorted(before)[0]
    assert np.sign(controller.states[first] - before[first]) == np.sign(ours)
