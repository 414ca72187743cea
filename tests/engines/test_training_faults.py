"""Replies of one site that end everybody's run, or are believed though they cannot be true."""

from __future__ import annotations

import io

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from flwr.supercore.task_identity import TaskIdentity

import engines.test_training_strategies as usual
from engines.test_training_strategies import NETWORK, FakeGrid, other, strategy, told, trained, without_south
from logofair.errors import InputError
from logofair.notions import EQUALIZED_ODDS
from logofair.training import FCFL, FedAvg, FedFB
from logofair.training.messages import Gradients, LabelCounts

pytestmark = pytest.mark.training
GROUPS = ("F", "M")


@pytest.fixture(autouse=True)
def a_run(monkeypatch):
    """Messages can be made only inside a run."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def an_archive(message):
    """Bytes that numpy reads, though as no array."""
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros(3, np.float32))
    array = Array("float32", (NETWORK.size,), "numpy.ndarray", buffer.getvalue())
    ours = ConfigRecord({"site": "south", "groups": '["F", "M"]'})
    return other(RecordDict({"logofair": ours, "arrays": ArrayRecord({"parameters": array})}))(message)


@pytest.mark.parametrize(
    "fault", [an_archive, trained(np.full(NETWORK.size, 1e300))], ids=["an archive", "too large for the network"]
)
def test_a_reply_that_is_no_model_of_the_network_leaves_only_its_site_out(fault):
    made = strategy(FedFB())
    made.start(FakeGrid(faults={"south": fault}), num_rounds=2)
    np.testing.assert_array_equal(made.state.parameters, without_south(FedFB(), 2))


@pytest.mark.parametrize("rows", [7.0, 1e15, 1e308])
@pytest.mark.parametrize("method", [FedAvg(), FedFB(EQUALIZED_ODDS)], ids=["fedavg", "fedfb"])
def test_a_site_that_says_other_numbers_of_rows_than_at_first_is_not_believed(method, rows):
    counts = LabelCounts(np.full((2, 2), rows), np.full((2, 2), rows), np.ones((2, 2)))
    made = strategy(method)
    grid = FakeGrid(faults={"south": other(told("south", counts, GROUPS))}, kinds=("evaluate",))
    made.start(grid, num_rounds=3)
    expected = usual.rows()[1].counts
    np.testing.assert_array_equal(made.state.measured.rows[1], expected)


@pytest.mark.parametrize("values", [[-5.0, 0.1], [0.7, -7.0], [0.7, 1.5]])
def test_a_loss_or_disparity_that_cannot_be_true_is_not_taken(values):
    slopes = Gradients(np.array(values), np.zeros((2, NETWORK.size)))
    grid = FakeGrid(faults={"south": other(told("south", slopes, GROUPS))})
    with pytest.raises(InputError, match="quorum"):
        strategy(FCFL(), quorum=3).start(grid, num_rounds=1)


def test_one_sites_huge_gradients_do_not_end_the_run_of_the_others():
    slopes = Gradients(np.array([0.7, 0.5]), np.full((2, NETWORK.size), 1e200))
    made = strategy(FCFL())
    made.start(FakeGrid(faults={"south": other(told("south", slopes, GROUPS))}), num_rounds=2)
    assert np.isfinite(made.state.parameters).all()
