"""Models that are no numbers, weights below nothing, figures that look fair where none is."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from logofair.errors import InputError
from logofair_reproduction.bounds import aglfop, label_table
from logofair_reproduction.training import FairFed, FedAvg, FedFB, Schedule, TrainingState, build_network, train
from logofair_reproduction.training.balance import updated_ratios
from logofair_reproduction.training.methods import Method
from made.problems import biased

pytestmark = pytest.mark.training


@pytest.mark.parametrize("method", [FedAvg(), FedFB(), FairFed(debias="fairbatch")], ids=lambda method: method.name)
def test_a_model_that_is_no_number_is_said_and_never_shown_as_fair(method: Method) -> None:
    network = build_network("mlp", (3,), hidden=4)
    plan = Schedule(learning_rate=1e6, optimiser="sgd", batch_size=8)
    states = train(method, network, biased(200), rounds=15, schedule=plan)
    with pytest.raises(InputError, match=r"diverged.*\.$"):
        seen(states)


def seen(states: Iterable[TrainingState]) -> None:
    """Look at every state that is handed out; none may be a model that is no number."""
    for state in states:
        assert np.isfinite(state.parameters).all()
        assert np.isfinite(state.measured.mean_loss)


def test_weights_of_more_than_two_groups_do_not_fall_below_0_by_rounding() -> None:
    found = np.random.default_rng(0)
    for _ in range(4000):
        rows = found.integers(1, 60, size=(4, 2)).astype(float)
        loss, ratios = rows * found.uniform(0.0, 5.0, size=(4, 2)), np.ones_like(rows)
        for step in found.uniform(0.0, 9.0, size=3):
            ratios = updated_ratios((1, 0), ratios, rows, loss, step)
            assert ratios.min() >= 0.0, (rows.tolist(), loss.tolist())


def test_where_everybody_is_accepted_the_decision_tells_nothing_of_the_group() -> None:
    pytest.importorskip("cvxpy")
    counts = [[39, 54], [30, 36], [58, 44]]
    cells = [(client, group, n) for client, of_client in enumerate(counts) for group, n in enumerate(of_client)]
    clients, groups = ([cell[place] for cell in cells for _ in range(cell[2])] for place in (0, 1))
    table = label_table([1] * len(groups), sensitive_features=groups, sites=clients)
    bound = aglfop(table, global_information=0, local_information=0.01)
    assert bound.accuracy == 1.0
    assert bound.global_information == pytest.approx(0.0, abs=1e-12)
    assert bound.local_information == pytest.approx(0.0, abs=1e-12)
