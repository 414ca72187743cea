"""Training through the protocol: the average of local models, scores for rows it has not seen, policies at the end."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy.special import expit

from logofair.engines.inprocess import LocalTransport, run, run_apart
from logofair.errors import InputError
from logofair.federation import ClientBatch, SiteColumns, Training, late_policy
from logofair.federation.batch import ClientState
from logofair.federation.local_training import train_locally
from logofair.federation.rows import site_rows
from logofair.federation.wire import decode
from support.sites import Tampered, clients, go, measured, plan_of, policies_of, same_policy

pytestmark = pytest.mark.federation

TRAINING = Training(features=("age", "hours"), rounds=3, local_epochs=2, learning_rate=0.05, batch_size=16, share=0.4)


def people(sizes=(60, 45, 50)):
    rng, sites = np.random.default_rng(0), {}
    for name, n in zip("abc", sizes, strict=False):
        group = rng.integers(0, 2, n)
        features = np.column_stack([rng.normal(40, 10, n) + 5 * group, rng.normal(0, 0.1, n)])
        label = (rng.random(n) < expit(0.1 * (features[:, 0] - 40))).astype(int)
        sites[name] = SiteColumns(groups=group, labels=label, features=features)
    return sites


def own_random(site, purpose, seed=0):
    digest = hashlib.sha256(f"{seed}|{site}|{purpose}".encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def by_hand(sites, training):
    """Mean, deviation and parameters of federated averaging, and which rows were trained on, written out."""
    chosen = {}
    for site, columns in sites.items():
        n = len(columns.groups)
        chosen[site] = own_random(site, "training rows").permutation(n) < round(training.share * n)
    table = np.concatenate([np.asarray(c.features)[chosen[s]] for s, c in sites.items()])
    mean, deviation = table.mean(axis=0), table.std(axis=0)
    parameters = np.zeros(3)
    schedule = {name: getattr(training, name) for name in ("local_epochs", "learning_rate", "batch_size")}
    for number in range(1, training.rounds + 1):
        after, sizes = [], []
        for site, columns in sites.items():
            scaled = (np.asarray(columns.features)[chosen[site]] - mean) / deviation
            design = np.column_stack([scaled, np.ones(len(scaled))])
            labels = np.asarray(columns.labels, dtype=float)[chosen[site]]
            after.append(
                train_locally(design, labels, parameters, own_random(site, f"training round {number}"), **schedule)
            )
            sizes.append(len(labels))
        parameters = np.average(after, axis=0, weights=sizes)
    return mean, deviation, parameters, chosen


@pytest.mark.parametrize("engine", [run, run_apart])
def test_training_is_federated_averaging_of_local_models(engine):
    sites = people()
    model = engine(plan_of(training=TRAINING), sites).result.model
    mean, deviation, parameters, _ = by_hand(sites, TRAINING)
    assert model.mean == pytest.approx(mean, rel=1e-10)
    assert model.deviation == pytest.approx(deviation, rel=1e-7)
    assert model.parameters == pytest.approx(parameters, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("calibration", ["none", "beta"])
def test_training_ends_in_policies_made_from_the_rows_it_has_not_seen(calibration):
    sites, plan = people(), plan_of(training=TRAINING, calibration=calibration, local_tolerance=0.1)
    transport = LocalTransport(clients(sites))
    result, steps = go(plan, transport)
    _, _, _, chosen = by_hand(sites, TRAINING)
    assert result.exchanges["training"] == 1 + TRAINING.rounds
    assert result.mass.sum() == sum((~rows).sum() for rows in chosen.values())
    held_out, chances = {}, {}
    for site, columns in sites.items():
        left = ~chosen[site]
        scaled = (np.asarray(columns.features)[left] - result.model.mean) / result.model.deviation
        score = expit(np.column_stack([scaled, np.ones(left.sum())]) @ result.model.parameters)
        held_out[site] = SiteColumns(np.asarray(columns.groups)[left], score, np.asarray(columns.labels)[left])
        chances[site] = transport.clients[site].batch.chances.rows.eta
    policies = policies_of(transport, sites)
    accuracy, global_excess, local_excess = measured(held_out, policies, plan, chances)
    assert accuracy == pytest.approx(result.accuracy, abs=1e-10)
    assert max(global_excess, local_excess) <= 2e-9
    assert result.holds
    assert steps[0].purpose == "training"


def test_before_the_model_arrives_there_are_no_scores():
    sites, plan = people(), plan_of(training=TRAINING)
    batch = ClientBatch.resumed([site_rows(sites["a"], plan)], ClientState(plan, ("a",)))
    with pytest.raises(RuntimeError, match="another round"):
        batch.preparation.scored(batch.state.model)


def test_a_site_that_joins_a_trained_run_later_scores_its_own_rows_with_the_published_model():
    sites, plan = people(), plan_of(training=TRAINING, calibration="platt")
    done = run(plan, {s: sites[s] for s in "ab"})
    assert "without it" in late_policy(done.result, sites["c"], "c").info.note
    assert same_policy(late_policy(done.result, sites["a"], "a"), done.policies["a"])


def test_a_model_is_told_once_and_no_reply_holds_a_row():
    sites = people()
    transport = Tampered(clients(sites))
    go(plan_of(training=TRAINING, calibration="platt"), transport)
    messages = [decode(m) for s, m in transport.heard if s == "a"]
    carrying = [
        type(message.request).__name__ for message in messages if getattr(message.request, "model", None) is not None
    ]
    assert carrying == ["UpdateRequest"] * TRAINING.rounds + ["FoldCountsRequest"]
    row = np.asarray(sites["a"].features)[:20].ravel()
    assert not any(np.float64(value).tobytes() in data for value in row for s, data in transport.sent if s == "a")


def test_training_refuses_what_it_cannot_use():
    good = people()
    for columns, said in (
        (SiteColumns([0, 1], None, [0, 1], None, [[1.0], [2.0]]), "the plan names 2"),
        (SiteColumns([0, 1], None, [0, 1], None, [[1.0, np.nan], [2.0, 1.0]]), "features"),
        (SiteColumns([0, 1], None, [0, 1], None, None), "features"),
        (SiteColumns([0, 1], None, None, None, [[1.0, 1.0], [2.0, 1.0]]), "labels"),
        (SiteColumns([0, 1], None, [0, 1], [1.0, 2.0], [[1.0, 1.0], [2.0, 1.0]]), "sample_weight"),
    ):
        with pytest.raises((InputError, RuntimeError), match=said):
            run(plan_of(training=TRAINING), good | {"d": columns})


def test_a_site_of_one_row_trains_on_it_and_brings_no_row_to_the_policy_or_is_left_out_in_words():
    """One row cannot serve both: what happens must at least be said."""
    sites = people() | {"d": SiteColumns([1], None, [1], None, [[50.0, 0.0]])}
    transport = LocalTransport(clients(sites))
    result, _ = go(plan_of(training=TRAINING), transport)
    assert result.sites == tuple("abc")
    assert result.excluded[0].site == "d"
