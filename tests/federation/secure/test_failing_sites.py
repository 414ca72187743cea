"""A site that cannot answer leaves no total to the server: neither that of the others, nor one without it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import logofair.federation.client
from logofair.engines.conductor import ServerState, conduct
from logofair.engines.inprocess import LocalTransport, run_apart
from logofair.errors import GarbledTotalError, InputError, QuorumLostError, RunError
from logofair.federation.exchange import Refusal
from logofair.federation.messages import ReplyMessage
from logofair.federation.secure.primitives import random_words
from logofair.records import decode, encode
from logofair.solvers.algorithm1 import Algorithm1
from support.secure_sites import STEP, Federation, seeded
from support.sites import Tampered, clients, federation, go, identities, plan_of

pytestmark = pytest.mark.federation

SIZES = (400, 500, 450, 300)


def failing(monkeypatch, sites, kind):
    """Three large sites whose own check fails from some reply on, so that only the site of 300 rows could answer."""
    honest = logofair.federation.client.fault

    def suspicious(own, request, plan, counts, roster):
        of_kind = type(own).__name__ == kind and (counts is None or counts.mass.sum() > 300)
        large = of_kind and (counts is not None or own.mass.sum() > 300)
        return "claims nonsense" if large else honest(own, request, plan, counts, roster)

    monkeypatch.setattr(logofair.federation.client, "fault", suspicious)
    return Tampered(clients(sites, identities(sites)))


@pytest.mark.parametrize("kind", ["Totals", "Answers", "FinalFigures"])
def test_where_only_one_site_could_answer_the_server_forms_no_total(monkeypatch, kind):
    sites, saved = federation(SIZES), []
    transport = failing(monkeypatch, sites, kind)
    with pytest.raises(RunError, match="masks did not cancel; a site could not answer"):
        go(plan_of(secure=True), transport, save=lambda state: saved.append(encode(state)))
    for _ in range(2):  # nor later: the same words come again, and no list leaves a site out
        with pytest.raises(RunError, match="masks did not cancel"):
            list(conduct(decode(saved[-1], ServerState), transport, save=lambda state: saved.append(encode(state))))
    assert [bool(client.stored.failed) for client in transport.sites.values()] == [True, True, True, False]
    assert not any(decode(data, ReplyMessage).refusal for _, data in transport.sent)
    counts = decode(saved[-1], ServerState).server.roster_counts
    assert counts is None or counts.mass.sum() == pytest.approx(sum(SIZES))


def test_a_site_that_failed_once_contributes_random_words_for_the_rest_of_the_run(monkeypatch):
    sites, plan, saved = federation(SIZES), plan_of(secure=True), []
    transport = failing(monkeypatch, sites, "Totals")
    with pytest.raises(RunError, match="masks did not cancel"):
        go(plan, transport, save=saved.append)
    monkeypatch.undo()  # it could answer now
    left = tuple("abc")
    for site in left:
        client = transport.sites[site]
        agreed = replace(client.identity, agreed_without=("d",))
        transport.sites[site] = replace(client, identity=agreed)
    state = ServerState(saved[-1].server.reopened({"d": "is gone"}), relay=saved[-1].relay)
    with pytest.raises(RunError, match="masks did not cancel"):
        list(conduct(state, transport))


@pytest.mark.parametrize("answering", [0, 1, 3])
def test_one_site_without_an_answer_hides_all_others_in_the_total(answering):
    """However few do answer: one vector of random words is enough, and another one every time."""
    seen = []
    for seed in range(2):
        run = Federation(4, seed=seed).set_up()
        run.begin_sum([STEP] * 2)
        run.contribute({site: [1.0, 2.0] if i < answering else None for i, site in enumerate(run.sites)})
        with pytest.raises(GarbledTotalError, match="a site could not answer"):
            run.unmask()
        seen.append(run.server.contributions)
    assert seen[0] != seen[1]
    words = random_words(10_000, seeded(0)).view(np.uint8)
    assert abs(np.unpackbits(words).mean() - 0.5) < 0.005


def test_rows_that_weigh_more_than_a_total_holds_are_refused_before_anything_is_sent():
    sites = federation(SIZES)
    heavy = {site: replace(each, sample_weight=np.full(len(each.scores), 1e7)) for site, each in sites.items()}
    sites = {**heavy, "d": sites["d"]}
    transport = LocalTransport(clients(sites, identities(sites)))
    with pytest.raises((RunError, QuorumLostError), match=Refusal.BAD_DATA.value.split(":")[0]):
        go(plan_of(secure=True), transport)
    assert "divide the weights" in transport.sites["a"].trouble
    assert transport.sites["a"].stored.reply is None


def test_steps_whose_changes_no_sum_holds_are_refused_with_the_plan():
    with pytest.raises(InputError, match="solver: the steps of Algorithm 1 in one round are too long for secure sums"):
        plan_of(secure=True, solver=Algorithm1(step=26.0, local_steps=20))
    assert plan_of(solver=Algorithm1(step=26.0, local_steps=20)).solver.step == 26.0
    sites, plan = federation((60, 50, 40)), plan_of(secure=True, solver=Algorithm1(step=25.0, local_steps=20, rounds=2))
    assert not run_apart(plan, sites, identities(sites)).result.holds
