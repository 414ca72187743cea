"""Methods as Flower strategies: over a grid that is a dictionary of client apps.

A reply of one site that is missing, of another shape or not finite ends nobody else's run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("flwr")

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.task_identity import TaskIdentity

from logofair.errors import InputError
from logofair.notions import EQUALIZED_ODDS
from logofair_reproduction.flower import client as training_client
from logofair_reproduction.flower.client import training_client_app
from logofair_reproduction.flower.records import model_record, pack_reply, pack_request, read_model, unpack_request
from logofair_reproduction.flower.strategy import MethodStrategy
from logofair_reproduction.training import FCFL, FairFed, FedAvg, FedFB, Schedule, build_network, make_rows, train
from logofair_reproduction.training.messages import (
    Gradients,
    GradientsRequest,
    LabelCounts,
    LocalStepsRequest,
    TrainedParameters,
)
from logofair_reproduction.training.rounds import initial_state, measure, reply_to

pytestmark = pytest.mark.training

SITES = ("north", "south", "west")
GROUPS = ("F", "M")
NETWORK = build_network("mlp", (3,), hidden=4)
SCHEDULE = Schedule(local_epochs=2, batch_size=32)
METHODS = {
    "fedavg": FedAvg(),
    "fairfed": FairFed(beta=1.0, debias="fairbatch"),
    "fedfb": FedFB(notion=EQUALIZED_ODDS),
    "fcfl": FCFL(first_stage=1, measure_every=2, batch_size=40),
}
Fault = Callable[[Message], Message | None]


def rows(n=240):
    random = np.random.default_rng(7)
    features, groups = random.normal(size=(n, 3)), np.where(random.random(n) < 0.4, "F", "M")
    labels = features[:, 0] + (groups == "M") * features[:, 1] + random.normal(size=n) > 0
    return make_rows(features, labels, groups=groups, sites=np.asarray(SITES)[random.integers(3, size=n)])


@pytest.fixture(autouse=True)
def a_run(monkeypatch):
    """Messages can be made only inside a run."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def log(caplog):
    """What Flower's logger gets; it passes nothing on to the root."""
    logging.getLogger("flwr").addHandler(caplog.handler)
    yield caplog
    logging.getLogger("flwr").removeHandler(caplog.handler)


def a_context(site, node=7):
    return Context(run_id=1, node_id=node, node_config={"site": site}, state=RecordDict(), run_config={})


@dataclass
class FakeGrid:
    """Every site a client app in this process; ``faults`` stand in for a site's reply from some round on."""

    names: Iterable[str] = SITES
    faults: dict[str, Fault] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("train",)
    since: int = 1
    sent: list[Message] = field(default_factory=list)

    def __post_init__(self):
        kept = {site.client: site for site in rows()}
        self.nodes = dict(enumerate(self.names, start=100))
        self.contexts = {node: a_context(site, node) for node, site in self.nodes.items()}
        self.app = training_client_app(lambda context: kept[context.node_config["site"]], NETWORK, SCHEDULE)

    def get_node_ids(self):
        return list(self.nodes)

    def get_nodes(self):
        return [NodeInfo(node_id=node) for node in self.nodes]

    def send_and_receive(self, messages, *, timeout=None):
        self.sent += (messages := list(messages))
        replies = [self._reply(message) for message in reversed(messages)]
        return [reply for reply in replies if reply is not None]

    def _reply(self, message):
        node, kind = message.metadata.dst_node_id, message.metadata.message_type
        message.metadata.__dict__["_message_id"] = f"message-{len(self.sent)}"
        fault = self.faults.get(self.nodes[node])
        number = message.content.config_records.get("logofair", ConfigRecord()).get("round", -1)
        if fault is not None and kind in self.kinds and number >= self.since:
            reply = fault(message)
        else:
            reply = self.app(message, self.contexts[node])
        if reply is not None:
            reply.metadata.__dict__["_src_node_id"] = node
        return reply


def strategy(method, **more):
    return MethodStrategy(method, NETWORK, SITES, groups=GROUPS, **more)


def same(state, expected):
    """Two states agree to the bit, but for what only clients keep."""
    assert (state.round, state.measured_at) == (expected.round, expected.measured_at)
    assert state.parameters.dtype == expected.parameters.dtype
    np.testing.assert_array_equal(state.parameters, expected.parameters)
    assert (state.measured.clients, state.measured.groups) == (expected.measured.clients, expected.measured.groups)
    for name in ("rows", "accepted", "loss"):
        np.testing.assert_array_equal(getattr(state.measured, name), getattr(expected.measured, name))
    assert state.method_state.keys() == expected.method_state.keys()
    for name, array in expected.method_state.items():
        np.testing.assert_array_equal(state.method_state[name], array)


def last(method, rounds, clients, network=NETWORK, seed=0):
    *_, state = train(method, network, clients, rounds=rounds, schedule=SCHEDULE, random_state=seed)
    return state


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_strategy_gives_the_states_of_in_process_training_to_the_bit(method):
    made, grid = strategy(method, random_state=3), FakeGrid(names=reversed(SITES))  # the order of nodes does not matter
    result = made.start(grid, num_rounds=5)
    expected = last(method, 5, rows(), seed=3)
    same(made.state, expected)
    np.testing.assert_array_equal(result.arrays["parameters"].numpy(), expected.parameters)
    for node, site in grid.nodes.items():
        found, kept = grid.contexts[node].state.array_records, expected.client_states[SITES.index(site)]
        assert bool(found) == (kept is not None)
        if kept is not None:
            np.testing.assert_array_equal(found["logofair state"]["parameters"].numpy(), kept)


def test_a_second_training_over_the_same_nodes_keeps_nothing_of_the_first():
    grid, method = FakeGrid(), METHODS["fairfed"]
    strategy(method).start(grid, num_rounds=3)
    again = strategy(method, random_state=5)
    again.start(grid, num_rounds=2)
    same(again.state, last(method, 2, rows(), seed=5))


def test_every_round_can_be_seen_through_flowers_own_hook():
    seen, made = [], strategy(FedAvg())
    made.start(FakeGrid(), num_rounds=2, evaluate_fn=lambda number, arrays: seen.append((number, made.state)))
    assert [number for number, _ in seen] == [0, 1, 2]
    same(seen[0][1], initial_state(FedAvg(), NETWORK, rows()))
    same(seen[1][1], last(FedAvg(), 1, rows()))


def test_training_starts_from_given_parameters():
    made, start = strategy(FedAvg(), random_state=3), NETWORK.start(9)
    made.start(FakeGrid(), model_record(start), num_rounds=1)
    request = LocalStepsRequest()
    replies = [reply_to(NETWORK, site, start, request, SCHEDULE, (3, 1))[0].parameters for site in rows()]
    expected = np.average(replies, axis=0, weights=[len(site) for site in rows()])
    np.testing.assert_allclose(made.state.parameters, expected, rtol=1e-6)


def nothing(message):
    return None


def from_flower(message):
    return Message(Error(5, "patient 4711"), reply_to=message)


def trained(values):
    return lambda message: Message(pack_reply("south", TrainedParameters(values), GROUPS), reply_to=message)


def other(content):
    return lambda message: Message(content, reply_to=message)


BAD = np.full(NETWORK.size, np.nan, np.float32)
FAULTS = {
    "no reply in time": nothing,
    "Flower reports error code 5": from_flower,
    "parameters: not all numbers are finite": trained(BAD),
    "not those requested: parameters": trained(np.zeros(NETWORK.size + 1, np.float32)),
    "answers for another site ": other(RecordDict()),
    "could not answer": other(pack_reply("south", None, GROUPS)),
    "answers for another site": other(pack_reply("west", TrainedParameters(np.zeros(NETWORK.size)), GROUPS)),
    "its groups, or their order": other(pack_reply("south", TrainedParameters(np.zeros(NETWORK.size)), ("M", "F"))),
}


def without_south(method, rounds):
    """What in-process training gives when one client answers no request: the method's own step on the others."""
    clients, state = rows(), initial_state(method, NETWORK, rows())
    parameters, kept, measured = state.parameters, state.method_state, state.measured
    for number in range(1, rounds + 1):
        request = method.request(kept)
        replies = {
            place: reply_to(NETWORK, clients[place], parameters, request, SCHEDULE, (0, number))[0] for place in (0, 2)
        }
        parameters, kept = method.step(kept, parameters, measured, replies)
        measured = measure(NETWORK, clients, parameters)
        kept = method.learn(kept, measured)
    return parameters


@pytest.mark.parametrize(("words", "fault"), FAULTS.items(), ids=[words.strip() for words in FAULTS])
def test_a_bad_or_missing_reply_leaves_the_site_out_of_that_round_and_is_said(words, fault, log):
    made = strategy(FedFB())
    made.start(FakeGrid(faults={"south": fault}), num_rounds=2)
    np.testing.assert_array_equal(made.state.parameters, without_south(FedFB(), 2))
    assert "round 1: site south is left out" in log.text
    assert words.strip() in log.text
    assert "4711" not in log.text


def test_a_site_missing_when_counts_are_asked_counts_with_those_it_sent_last():
    made = strategy(FedAvg())
    made.start(FakeGrid(faults={"south": nothing}, kinds=("evaluate",), since=2), num_rounds=3)
    first, third = last(FedAvg(), 1, rows()), last(FedAvg(), 3, rows())
    np.testing.assert_array_equal(made.state.parameters, third.parameters)
    np.testing.assert_array_equal(made.state.measured.loss[1], first.measured.loss[1])
    np.testing.assert_array_equal(made.state.measured.loss[[0, 2]], third.measured.loss[[0, 2]])


def test_a_site_that_misses_the_beginning_takes_no_part():
    made, grid = strategy(FairFed(), connect_timeout=0.0), FakeGrid(names=("north", "west"))
    made.start(grid, num_rounds=2)
    clients = [site for site in rows() if site.client != "south"]
    same(made.state, last(FairFed(), 2, clients))


@pytest.mark.parametrize(("quorum", "lost"), [(3, ("south",)), (None, ("south", "west"))])
def test_below_the_quorum_the_run_fails_in_one_sentence(quorum, lost):
    grid = FakeGrid(faults=dict.fromkeys(lost, trained(BAD)), since=2)
    made = strategy(FedAvg(), quorum=quorum)
    with pytest.raises(InputError, match=r"round 2: \d of 3 sites gave a sound reply, and \d are needed \(south: "):
        made.start(grid, num_rounds=3)
    same(made.state, last(FedAvg(), 1, rows()))  # what was reached is still there


def test_two_nodes_of_one_name_are_an_error():
    with pytest.raises(InputError, match="2 connected nodes are called 'north'"):
        strategy(FedAvg()).start(FakeGrid(names=(*SITES, "north")), num_rounds=1)


def test_a_node_that_is_no_site_of_the_run_gets_no_model():
    grid = FakeGrid(names=(*SITES, "stranger"))
    strategy(FedAvg()).start(grid, num_rounds=1)
    models = [message for message in grid.sent if "arrays" in message.content]
    assert {message.metadata.dst_node_id for message in models} == {100, 101, 102}


@pytest.mark.parametrize(
    ("values", "gradients", "sound"),
    [
        ([0.7, 0.1], 0.0, True),
        ([0.7, np.nan], 0.0, True),
        ([np.nan, 0.1], 0.0, False),
        ([0.7, 0.1], np.inf, False),
        ([0.7], 0.0, False),
    ],
)
def test_gradients_count_unless_a_number_is_wrong(values, gradients, sound):
    gradients_reply = Gradients(np.array(values), np.full((len(values), NETWORK.size), gradients))
    made = strategy(FCFL(), quorum=3)
    grid = FakeGrid(faults={"south": other(pack_reply("south", gradients_reply, GROUPS))})
    if sound:
        made.start(grid, num_rounds=1)
        assert np.isfinite(made.state.parameters).all()
    else:
        with pytest.raises(InputError, match="quorum"):
            made.start(grid, num_rounds=1)


def test_counts_that_are_not_finite_are_not_taken():
    counts = LabelCounts(np.full((2, 2), 2.0), np.ones((2, 2)), np.full((2, 2), np.nan))
    grid = FakeGrid(faults={"south": other(pack_reply("south", counts, GROUPS))}, kinds=("evaluate",), since=0)
    with pytest.raises(InputError, match="south: its loss: not all numbers are finite"):
        strategy(FedAvg(), quorum=3).start(grid, num_rounds=1)


def a_request(site, request, number=1):
    return pack_request(site, number, 0, request, model_record(NETWORK.start(0)))


def leaking(context):
    raise ValueError("patient 4711 has HIV")


@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_no_text_of_a_clients_exception_leaves_it(kind, log):
    reply = training_client_app(leaking, NETWORK)(
        Message(a_request("north", LocalStepsRequest()), 7, kind), a_context("north")
    )
    assert not reply.has_error()
    assert dict(reply.content.config_records["logofair"]) == {"site": "north", "groups": "[]"}
    assert list(reply.content) == ["logofair"]
    assert "ValueError" in log.text
    assert "4711" not in log.text


@pytest.mark.parametrize(
    "content",
    [
        a_request("south", LocalStepsRequest()),
        RecordDict(),
        a_request("north", None),
        a_request("north", LocalStepsRequest(weights=np.ones((3, 2)))),
        RecordDict(
            {**a_request("north", LocalStepsRequest()), "arrays": ArrayRecord({"parameters": Array(np.zeros(2))})}
        ),
    ],
    ids=["another site's", "empty", "no task", "other groups", "another model"],
)
def test_a_client_answers_no_request_that_is_not_sound_and_its_own(content):
    app = training_client_app(lambda context: rows()[0], NETWORK)
    assert list(app(Message(content, 7, "train"), a_context("north")).content) == ["logofair"]


@pytest.mark.parametrize(
    "request_",
    [
        LocalStepsRequest(
            weights=np.array([[0.1, 1 / 3], [2.0, 1e-17]]), debias="fairbatch", debias_step=0.05, given=(1, 0)
        ),
        LocalStepsRequest(),
        GradientsRequest(given=(None,), batch_size=100),
        None,
    ],
)
def test_a_request_arrives_as_it_was_sent(request_):
    network = build_network("logistic", (5,), dtype=torch.float64)
    start = np.random.default_rng(0).normal(size=6)
    content = pack_request("north", 4, 11, request_, model_record(start))
    key, found = unpack_request(content)
    np.testing.assert_array_equal(read_model(content, network), start)
    assert key == (11, 4)
    assert type(found) is type(request_)
    if request_ is not None:
        assert found.given == request_.given
    if isinstance(request_, LocalStepsRequest):
        assert (found.debias, found.debias_step) == (request_.debias, request_.debias_step)
        np.testing.assert_array_equal(found.weights, request_.weights)


def test_a_client_uses_one_thread_and_gives_the_others_back(monkeypatch):
    used, before = [], torch.get_num_threads()
    monkeypatch.setattr(training_client, "label_counts", lambda *_: used.append(torch.get_num_threads()))
    app = training_client_app(lambda context: rows()[0], NETWORK)
    app(Message(a_request("north", None), 7, "evaluate"), a_context("north"))
    assert (used, torch.get_num_threads()) == ([1], before)


@pytest.mark.parametrize(
    ("sites", "quorum", "words"),
    [
        ((), None, "sites: got"),
        (("a", "a"), None, "sites: got"),
        ((0, 1), None, "sites: got"),
        (("a",), 2, "quorum: got 2 of 1"),
    ],
)
def test_sites_and_quorum_are_checked(sites, quorum, words):
    with pytest.raises(InputError, match=words):
        MethodStrategy(FedAvg(), NETWORK, sites, groups=GROUPS, quorum=quorum)


def test_the_state_before_the_start_is_asked_for_in_vain():
    with pytest.raises(InputError, match="has not begun"):
        _ = strategy(FedAvg()).state
