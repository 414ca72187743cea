"""Rounds of training: bits that repeat, resuming, awkward clients under every method, and bad input in one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from logofair.errors import InputError
from logofair.notions import DEMOGRAPHIC_PARITY, EQUALIZED_ODDS, NOTIONS, Notion
from logofair_reproduction.training import (
    FCFL,
    METHODS,
    ClientRows,
    FairFed,
    FedAvg,
    FedFB,
    Schedule,
    build_network,
    make_rows,
    train,
)
from logofair_reproduction.training.local import take_steps
from logofair_reproduction.training.methods import Method
from logofair_reproduction.training.rounds import measure
from logofair_reproduction.training.rows import device_named
from made.problems import awkward, biased, last, same_bits

pytestmark = pytest.mark.training

PLAN = Schedule(local_epochs=2, batch_size=32, learning_rate=0.02)


def every_method(notion: Notion = DEMOGRAPHIC_PARITY) -> list[Method]:
    """One of each, FairFed with each local debiasing; FCFL reaches its second stage within three rounds."""
    debiased = [FairFed(notion, debias=debias, beta=0.5) for debias in ("none", "reweighing", "fairbatch")]
    return [FedAvg(), *debiased, FedFB(notion), FCFL(notion, tolerance=0.01, first_stage=2, measure_every=2)]


methods = pytest.mark.parametrize(
    "method", every_method(), ids=lambda method: f"{method.name}-{getattr(method, 'debias', '')}".rstrip("-")
)


def test_every_method_has_its_name() -> None:
    assert list(METHODS) == ["fedavg", "fairfed", "fedfb", "fcfl"]
    assert {method.name for method in every_method()} == set(METHODS)


@methods
@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(method: Method, name: str) -> None:
    rows, network = biased(60), build_network(name, (3,), hidden=8)
    first, again = (list(train(method, network, rows, rounds=3, schedule=PLAN, random_state=7)) for _ in range(2))
    assert all(same_bits(a, b) for a, b in zip(first, again, strict=True))
    other = last(train(method, network, rows, rounds=3, schedule=PLAN, random_state=8))
    assert first[-1].parameters.tobytes() != other.parameters.tobytes()


@methods
def test_training_neither_reads_nor_moves_pytorchs_own_generator(method: Method) -> None:
    rows, network = biased(100), build_network("mlp", (3,), hidden=4)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = last(train(method, network, rows, rounds=2, schedule=PLAN))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert same_bits(first, last(train(method, network, rows, rounds=2, schedule=PLAN)))


@methods
def test_the_order_of_clients_does_not_matter_but_for_rounding(method: Method) -> None:
    rows, network = biased(60, dtype=torch.float64), build_network("mlp", (3,), hidden=8, dtype=torch.float64)
    order = [2, 0, 1]
    straight = last(train(method, network, rows, rounds=4, schedule=PLAN))
    backwards = last(train(method, network, [rows[place] for place in order], rounds=4, schedule=PLAN))
    np.testing.assert_allclose(backwards.parameters, straight.parameters, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(backwards.measured.loss, straight.measured.loss[order], rtol=1e-7)


def test_fairbatch_clients_keep_their_own_weights_and_others_nothing() -> None:
    rows, network = biased(200), build_network("logistic", (3,))
    kept = last(
        train(FairFed(debias="fairbatch", debias_step=0.05), network, rows, rounds=2, schedule=PLAN)
    ).client_states
    assert all(weights is not None and not (weights == 1.0).all() for weights in kept)
    assert len({weights.tobytes() for weights in kept if weights is not None}) == len(rows)
    assert last(train(FedFB(), network, rows, rounds=2, schedule=PLAN)).client_states == (None,) * 3


def test_a_round_is_the_clients_work_with_its_own_shuffle_and_what_the_client_keeps() -> None:
    rows, network = biased(80, n_clients=1), build_network("mlp", (3,), hidden=4)
    method = FairFed(beta=0.0, debias="fairbatch", debias_step=0.3)
    first, second = train(method, network, rows, rounds=2, schedule=PLAN, random_state=7)
    start, kept = network.start(7), None
    for state in (first, second):
        rng = np.random.default_rng((7, state.round))
        reply, kept = take_steps(network, rows[0], start, method.request({}), PLAN, rng, kept)
        np.testing.assert_array_equal(state.parameters, reply.parameters)
        np.testing.assert_array_equal(state.client_states[0], kept)
        start = reply.parameters


@pytest.mark.parametrize("every", [1, 2, 3])
def test_counts_are_made_every_so_many_rounds_and_say_of_which(every: int) -> None:
    rows, network = biased(100), build_network("logistic", (3,))
    states = list(train(FCFL(measure_every=every), network, rows, rounds=7))
    assert [state.measured_at for state in states] == [number - number % every for number in range(1, 8)]
    parameters = {0: network.start(0), **{state.round: state.parameters for state in states}}
    for state in states:
        again = measure(network, rows, parameters[state.measured_at])
        np.testing.assert_array_equal(state.measured.loss, again.loss)


def test_fedfb_that_counts_less_often_moves_its_weights_less_often() -> None:
    rows, network = biased(100), build_network("logistic", (3,))
    states = list(train(replace(FedFB(), measure_every=2), network, rows, rounds=4))
    assert [state.method_state["moves"][0] for state in states] == [0.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("notion", list(NOTIONS.values()), ids=list(NOTIONS))
@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_every_method_runs_with_clients_that_lack_a_group_or_a_label_or_have_one_row(name: str, notion: Notion) -> None:
    rows, network = awkward(), build_network(name, (2,), hidden=4)
    for method in every_method(notion):
        state = last(train(method, network, rows, rounds=3, schedule=PLAN))
        assert state.round == 3
        assert np.isfinite(state.parameters).all()
        assert np.isfinite(state.measured.loss).all()
        assert not (state.parameters == network.start(0)).all()


@methods
def test_a_single_client_is_a_federation_too(method: Method) -> None:
    rows, network = biased(80, n_clients=1), build_network("logistic", (3,))
    assert np.isfinite(last(train(method, network, rows, rounds=3, schedule=PLAN)).parameters).all()


def test_fedavg_of_one_client_is_its_local_training_and_of_twins_too() -> None:
    rows, network = biased(80, n_clients=1), build_network("mlp", (3,), hidden=4)
    twin = replace(rows[0], client="twin")
    alone = last(train(FedAvg(), network, rows, rounds=3, schedule=PLAN))
    both = last(train(FedAvg(), network, [rows[0], twin], rounds=3, schedule=PLAN))
    assert alone.parameters.tobytes() == both.parameters.tobytes()


def test_fedavg_weighs_clients_by_their_rows() -> None:
    rows, network = biased(150), build_network("logistic", (3,), dtype=torch.float32)
    parts = [last(train(FedAvg(), network, [client], rounds=1, schedule=PLAN)).parameters for client in rows]
    sizes = np.array([len(client) for client in rows])
    together = last(train(FedAvg(), network, rows, rounds=1, schedule=PLAN)).parameters
    np.testing.assert_allclose(together, np.average(parts, axis=0, weights=sizes), rtol=1e-6)


def test_each_state_measures_its_own_model_by_brute_force() -> None:
    rows, network = biased(150), build_network("mlp", (3,), hidden=8)
    for state in train(FedAvg(), network, rows, rounds=2, schedule=PLAN):
        scores = np.concatenate([network.scores(state.parameters, client) for client in rows])
        labels = np.concatenate([client.labels.numpy() for client in rows])
        groups = np.concatenate([client.cells.numpy() // 2 for client in rows])
        taken = scores >= 0.5
        assert state.measured.accuracy == pytest.approx((taken == labels).mean(), abs=1e-12)
        rates = [[taken[(groups == a) & (labels == y)].mean() for a in (0, 1)] for y in (0, 1)]
        gap = max(abs(pair[1] - pair[0]) for pair in rates)
        assert state.measured.gaps(EQUALIZED_ODDS)[1] == pytest.approx(gap, abs=1e-12)
        losses = -np.where(labels == 1, np.log(scores), np.log(1 - scores))
        assert state.measured.mean_loss == pytest.approx(losses.mean(), rel=1e-5)


@pytest.mark.slow
def test_images_train_by_local_steps_and_by_slopes() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(6, 3, 32, 32), dtype=np.uint8)
    rows = make_rows(images, [0, 1, 1, 0, 0, 1], groups=[0, 1, 0, 1, 0, 1], sites=[0, 0, 1, 1, 1, 1])
    network = build_network("resnet18", (3, 32, 32))
    plan, start = Schedule(local_epochs=1, optimiser="sgd"), network.start(0)
    first, again, sloped = (
        last(train(method, network, rows, rounds=1, schedule=plan)) for method in (FedAvg(), FedAvg(), FCFL())
    )
    assert same_bits(first, again)
    for state in (first, sloped):
        assert np.isfinite(state.parameters).all()
        assert not (state.parameters == start).all()


# --- bad input ---


def test_clients_that_do_not_fit_one_another_and_the_network_are_refused_in_one_sentence() -> None:
    def of(names: list[str], client: str) -> ClientRows:
        return make_rows(np.eye(3), [0, 1, 1], groups=names, sites=[client] * 3)[0]

    sentence = r"^clients: pass the rows of one call of make_rows, with features of shape \(3,\) and in torch.float32, "
    for clients in (
        [],
        [of(["a", "b", "b"], "n"), of(["a", "b", "c"], "s")],
        [of(["a", "b", "b"], "n"), of(["a", "x", "x"], "s")],
        make_rows(np.eye(4), [0, 1, 1, 0], groups=list("abab")),
        biased(60, dtype=torch.float64),
    ):
        with pytest.raises(InputError, match=sentence):
            train(FedAvg(), build_network("mlp", (3,)), clients, rounds=1)


def test_bad_numbers_are_refused_before_the_first_round() -> None:
    rows, network = biased(60), build_network("logistic", (3,))
    with pytest.raises(InputError, match=r"^rounds: got 0; pass a whole number of at least 1\.$"):
        train(FedAvg(), network, rows, rounds=0)
    with pytest.raises(InputError, match=r"^random_state: got -1; pass a whole number of at least 0\.$"):
        train(FedAvg(), network, rows, rounds=1, random_state=-1)
    with pytest.raises(InputError, match=r"^measure_every: got 0; pass a whole number of at least 1\.$"):
        train(FedAvg(measure_every=0), network, rows, rounds=1)


def test_rows_that_cannot_be_used_are_refused_in_one_sentence() -> None:
    table, labels, groups = np.eye(4), [0, 1, 0, 1], ["a", "a", "b", "b"]
    with pytest.raises(InputError, match=r"^labels: all 4 rows have label 1; training needs both labels\.$"):
        make_rows(table, [1, 1, 1, 1], groups=groups)
    with pytest.raises(InputError, match=r"^groups: all rows are of group 'a'; fairness compares two or more\.$"):
        make_rows(table, labels, groups=["a"] * 4)
    with pytest.raises(InputError, match=r"^features: row 2 holds a missing or infinite value; drop or repair such r"):
        make_rows([*table[:2], np.full(4, np.nan), table[3]], labels, groups=groups)
    with pytest.raises(InputError, match=r"^features: a value of size 1e\+39 is too large for torch\.float32; scale "):
        make_rows(-1e39 * table, labels, groups=groups)
    with pytest.raises(InputError, match=r"^labels: row 1 is 2; expected 0 and 1: .*"):
        make_rows(table, [0, 2, 0, 1], groups=groups)
    with pytest.raises(InputError, match=r"^groups: .*\.$"):
        make_rows(table, labels, groups=groups[:3])
    with pytest.raises(InputError, match=r"^groups: row 3 is of a group that is not known \('a', 'b'\); drop "):
        make_rows(table, labels, groups=["a", "a", "b", "c"], known_groups=("a", "b"))
    with pytest.raises(InputError, match=r"^features: .*\.$"):
        make_rows(np.zeros((0, 2)), [], groups=[])


@pytest.mark.parametrize("shape", [(4, 1, 8, 8), (4, 8, 8, 3)])
def test_images_of_another_kind_are_refused_in_one_sentence(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"^features: got images of type uint8 and shape .*; pass uint8 of shape \(ro"):
        make_rows(np.zeros(shape, np.uint8), [0, 1, 0, 1], groups=[0, 0, 1, 1])
    with pytest.raises(InputError, match=r"^features: got images of type float64 and shape .*; pass uint8 of shape"):
        make_rows(np.zeros((4, 3, 8, 8)), [0, 1, 0, 1], groups=[0, 0, 1, 1])


def test_known_groups_keep_their_order_where_rows_lack_some() -> None:
    (rows,) = make_rows(np.eye(3), [1, 1, 1], groups=["b", "a", "b"], known_groups=("c", "b", "a"))
    assert rows.groups == ("c", "b", "a")
    assert rows.counts.tolist() == [[0.0, 0.0], [0.0, 2.0], [0.0, 1.0]]


def test_a_missing_gpu_and_other_devices_are_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=r"^device: got 'cuda', but PyTorch finds no GPU here; use cpu or auto\.$"):
        make_rows(np.eye(2), [0, 1], groups=[0, 1], device="cuda")
    with pytest.raises(InputError, match=r"^device: got 'tpu'; use auto, cpu or cuda\.$"):
        device_named("tpu")
    assert device_named("auto").type == "cpu"
