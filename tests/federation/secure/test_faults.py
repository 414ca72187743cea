"""Faults under secure sums: who may vanish when, what a site refuses to mask, and what the totals give away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import logofair.federation.client
from logofair.engines.conductor import NoReply, ServerState, conduct
from logofair.engines.inprocess import LocalTransport, run, run_apart
from logofair.errors import InputError, QuorumLostError, RunError
from logofair.federation import Server
from logofair.federation.exchange import Refusal
from logofair.federation.exchanges.rounds import TotalsRequest
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.records import decode, encode
from support.sites import (
    Tampered,
    clients,
    federation,
    go,
    gone_from,
    identities,
    instead,
    measured,
    plan_of,
    policies_of,
    private_key,
)

pytestmark = pytest.mark.federation

STAGES = ("keys", "shares", "masked", "confirm", "unmask")


def four():
    return federation((30, 25, 28, 22))


def secure_plan(**more):
    return plan_of(**{"secure": True, "notion": "equal_opportunity", **more})


def secured(sites, agreed_without=(), **how):
    return Tampered(clients(sites, identities(sites, agreed_without)), **how)


@pytest.mark.parametrize("stage", STAGES[:3])
def test_a_site_that_vanishes_before_it_has_contributed_to_the_first_sum_is_left_out(stage):
    sites, plan = four(), secure_plan()

    def deaf(site, message):
        late = message.number > 1 or STAGES.index(message.step) >= STAGES.index(stage)
        return NoReply("the plug was pulled") if site == "b" and late else None

    transport = secured(sites, deaf=deaf)
    result, steps = go(plan, transport)
    left = {s: c for s, c in sites.items() if s != "b"}
    assert result.sites == tuple("acd")
    assert result.excluded[0].site == "b"
    assert [list(step.excluded) for step in steps if step.excluded] == [["b"]]
    assert result.accuracy == pytest.approx(run(plan, left).result.accuracy, abs=1e-6)
    accuracy, global_excess, local_excess = measured(left, policies_of(transport, left), plan)
    assert accuracy == pytest.approx(result.accuracy, abs=1e-6)
    assert global_excess <= 1e-5  # totals are rounded to 2^-20 of a row
    assert local_excess <= 2e-9


def test_a_site_that_vanishes_after_contributing_to_the_first_sum_is_counted_and_missed_in_the_second():
    sites, plan = four(), secure_plan()
    saved, transport = [], secured(sites, deaf=gone_from("b", 1, step="unmask"))
    with pytest.raises(RunError, match=r"missing in exchange 2: b \(the plug was pulled\)"):
        go(plan, transport, save=lambda state: saved.append(encode(state)))
    assert decode(saved[-1], ServerState).server.number == 2
    assert decode(saved[-1], ServerState).server.sites == tuple("abcd")


@pytest.mark.parametrize(("number", "stage"), [(2, "masked"), (2, "unmask"), (3, "masked")])
def test_a_site_that_vanishes_later_stops_the_run_which_is_resumed_when_it_is_back(stage, number):
    sites, plan = four(), secure_plan()
    expected, _ = go(plan, secured(sites))
    saved, transport = [], secured(sites, deaf=gone_from("b", number, step=stage))
    with pytest.raises(RunError, match=r"b \(the plug was pulled\).*bring them back and resume"):
        go(plan, transport, save=lambda state: saved.append(encode(state)))
    with pytest.raises(RunError, match="the plug was pulled"):  # still gone: still no result
        list(conduct(decode(saved[-1], ServerState), transport))
    transport.deaf = lambda site, message: None
    *_, (state, _) = conduct(decode(saved[-1], ServerState), transport)
    assert state.server.result.accuracy == pytest.approx(expected.accuracy, abs=1e-9)
    assert state.server.result.excluded == ()
    assert state.server.result.sites == tuple("abcd")


@pytest.mark.parametrize("then", ["agrees", "is taken out too"])
@pytest.mark.parametrize("stage", ["keys", "shares"])
def test_a_site_that_does_not_answer_when_another_was_taken_out_is_waited_for(stage, then):
    """It may not have agreed yet. Were it left out, the others would not go on, and the run could not be saved."""
    sites, plan = federation((30, 25, 28, 22, 26, 24)), secure_plan()
    saved, transport = [], secured(sites, agreed_without=("f",), deaf=gone_from("f", 3, step="masked"))
    with pytest.raises(RunError, match="missing in exchange 3: f"):
        go(plan, transport, save=saved.append)
    reopened = replace(ServerState(saved[-1].server.reopened({"f": "is gone"})), relay=saved[-1].relay)
    transport.deaf = gone_from("af", 4, step=stage)
    with pytest.raises(RunError, match=r"missing in exchange 4: a .*bring them back and resume"):
        list(conduct(reopened, transport, save=saved.append))
    transport.deaf, last = gone_from("f", 1), saved[-1]
    if then != "agrees":
        transport.deaf = gone_from("af", 1)
        for site in "bcde":
            both = replace(transport.sites[site].identity, agreed_without=("a", "f"))
            transport.sites[site] = replace(transport.sites[site], identity=both)
        last = replace(ServerState(last.server.reopened({"a": "is gone"})), relay=last.relay)
    *_, (state, _) = conduct(last, transport)
    assert state.server.result.sites == tuple("abcde" if then == "agrees" else "bcde")
    assert state.server.result.certificate.meets_requirements


def test_whoever_vanishes_once_its_policy_is_measured_is_counted_and_can_ask_for_the_result():
    sites, plan = four(), secure_plan()
    expected, steps = go(plan, secured(sites))
    last = steps[-2].exchange
    result, _ = go(plan, secured(sites, deaf=gone_from("b", last, step="unmask")))
    assert result.sites == tuple("abcd")
    assert result.excluded[0].purpose == "publication"
    assert result.accuracy == pytest.approx(expected.accuracy, abs=1e-9)


def test_an_absence_shorter_than_the_patience_goes_unnoticed():
    sites, plan = four(), secure_plan()
    times = {"left": 2}

    def dozing(site, message):
        if site == "b" and message.number == 3 and message.step == "masked" and times["left"]:
            times["left"] -= 1
            return NoReply("asleep")
        return None

    result, _ = go(plan, secured(sites, deaf=dozing))
    assert times["left"] == 0
    assert result.excluded == ()


def test_several_sites_may_vanish_in_the_first_sum_down_to_two_thirds_and_three():
    sites, plan = federation((20, 21, 22, 23, 24, 25)), secure_plan()
    result, _ = go(plan, secured(sites, deaf=gone_from("be", 1, step="masked")))
    assert result.sites == tuple("acdf")
    with pytest.raises((RunError, QuorumLostError), match=r"needed|at least"):
        go(plan, secured(sites, deaf=gone_from("bef", 1, step="masked")))
    few = {s: sites[s] for s in "abc"}
    with pytest.raises((RunError, QuorumLostError), match=r"needed|at least 3"):
        go(plan, secured(few, deaf=gone_from("c", 1)))
    with pytest.raises(QuorumLostError, match="2 of at least 3"):
        Server.start(plan, ["a", "b"])


def test_too_few_answers_in_the_first_sum_can_be_made_up_for_by_asking_again():
    sites, plan = four(), secure_plan()
    for stage in STAGES:
        saved, transport = [], secured(sites, deaf=gone_from("bcd", 1, step=stage))
        with pytest.raises((RunError, QuorumLostError)):
            go(plan, transport, save=lambda state, saved=saved: saved.append(encode(state)))
        transport.deaf = lambda site, message: None
        *_, (state, _) = conduct(decode(saved[-1], ServerState), transport)
        assert state.server.result.sites == tuple("abcd")
        assert state.server.result.certificate.meets_requirements


def test_a_site_whose_own_check_fails_garbles_the_total_and_the_run_stops_at_once(monkeypatch):
    honest = logofair.federation.client.fault
    sites, plan = four(), secure_plan()
    transport = secured(sites)

    def suspicious(own, request, *rest):
        mine = type(own).__name__ == "Totals" and abs(own.mass.sum() - 25.0) < 1e-9  # site b
        return "claims nonsense" if mine else honest(own, request, *rest)

    monkeypatch.setattr(logofair.federation.client, "fault", suspicious)
    with pytest.raises(RunError, match=r"sum 2: the masks did not cancel; a site could not answer"):
        go(plan, transport)
    assert not any(decode(data, ReplyMessage).refusal for _, data in transport.sent)  # nothing shows which site it was
    assert "claims nonsense" in transport.sites["b"].stored.failed
    assert not any(client.finished for client in transport.sites.values())


def lying(number, change):
    """A site that masks other numbers than its own, and skips its own check."""

    def sums(self, message):
        batch, stacked = self.batch.answer(message.request)
        own = stacked.total()
        own = change(own) if message.number == number else own
        return replace(self, cached=batch, stored=replace(self.stored, state=batch.state)), own

    return type("Lying", (logofair.federation.client.Client,), {"sums": sums})


@pytest.mark.parametrize(
    ("number", "change", "said"),
    [
        (1, lambda own: replace(own, groups=own.groups + 7.5), "the sites together .*contribute more than a site can"),
        (2, lambda own: replace(own, mass=own.mass - 1000.0), "the sites together .*number of rows"),
        (2, lambda own: replace(own, positives=own.positives + 1000.0), "the sites together .*expected positives"),
        (3, lambda own: replace(own, gain=own.gain + 3.0), "the sites together .*more accuracy"),
        (3, lambda own: replace(own, shares=own.shares - 3.0), "the sites together .*larger share"),
        (3, lambda own: replace(own, bound=own.bound - 0.5), "the sites together .*dual value"),
    ],
)
def test_a_lie_behind_masks_shows_in_the_totals(number, change, said):
    sites, plan = four(), secure_plan()
    every = clients(sites, identities(sites))
    every["b"] = lying(number, change)("b", sites["b"], identity=every["b"].identity)
    with pytest.raises(RunError, match=said + ".*masks hide which"):
        go(plan, LocalTransport(every))


def test_a_value_beyond_what_can_be_summed_stays_at_its_site():
    sites, plan = four(), secure_plan()
    every = clients(sites, identities(sites))
    absurd = lying(2, lambda own: replace(own, mass=own.mass * 1e300))
    every["b"] = absurd("b", sites["b"], identity=every["b"].identity)
    transport = LocalTransport(every)
    with pytest.raises(RunError, match="a site could not answer"):
        go(plan, transport)
    assert "too large to be summed" in transport.sites["b"].stored.failed


def test_rubbish_in_place_of_a_masked_vector_is_noticed():
    sites, plan = four(), secure_plan()

    def act(site, message, data):
        if site == "b" and message.number == 2 and message.step == "masked":
            reply = decode(data, ReplyMessage)
            body = replace(reply.body, vector=np.random.default_rng(0).bytes(len(reply.body.vector)))
            return encode(replace(reply, body=body))
        return data

    with pytest.raises(RunError, match=r"masks did not cancel|sites together|beyond its limit"):
        go(plan, secured(sites, act=act))


@pytest.mark.parametrize("number", [1, 2])
def test_a_reply_of_another_form_counts_as_none(number):
    sites, plan = four(), secure_plan()
    act = instead("b", number, lambda reply: replace(reply, body=None))
    if number == 1:
        result, _ = go(plan, secured(sites, act=act))
        assert result.excluded[0].reason == "sent something unusable"
        assert result.sites == tuple("acd")
    else:
        with pytest.raises(RunError, match=r"b \(sent something unusable\)"):
            go(plan, secured(sites, act=act))


def test_a_server_that_asks_plain_requests_of_a_secure_plan_is_refused():
    sites, plan = four(), secure_plan()
    client = clients(sites, identities(sites))["a"]
    after, reply = client.handle(Server.start(plan, list(sites)).message())
    assert reply.refusal == "UNSAFE_SUM"
    assert after.stored is client.stored
    transport = secured(sites)
    go(plan, transport)
    client = transport.sites["a"]
    _, reply = client.handle(RequestMessage(plan.run, 1, client.stored.number + 1, TotalsRequest()))
    assert reply.refusal == "UNSAFE_SUM"


def test_under_one_number_only_one_request_is_masked():
    """After its total is revealed, the number is used up: asking something else under it is refused."""
    sites, plan = four(), secure_plan()
    transport = secured(sites)
    state = next(
        iter_states(plan, transport, lambda state: state.server.number == 2 and b"ready" in state.secure_state)
    )
    messages = [decode(m, RequestMessage) for site, m in transport.heard if site == "a"]
    first = next(message for message in messages if message.step == "masked")
    client = transport.sites["a"]
    for other in (
        replace(first, request=TotalsRequest()),
        replace(first, step="keys", sealed=None, opening=messages[0].opening),
    ):
        _, reply = client.handle(other)
        assert reply.refusal in ("OUT_OF_TURN", "OTHER_REQUEST")
        assert reply.body is None
    assert state.server.number == 2


def iter_states(plan, transport, wanted):
    for state, _ in conduct(ServerState(Server.start(plan, transport.present())), transport):
        if wanted(state):
            yield state


def test_sites_without_keys_are_excluded_and_engines_ask_for_them():
    sites, plan = four(), secure_plan()
    every = clients(sites, identities(sites))
    every["b"] = replace(every["b"], identity=None)
    result, _ = go(plan, LocalTransport(every))
    assert result.excluded[0].reason == Refusal.NO_KEYS.value
    with pytest.raises(InputError, match="identities: secure sums need the keys of every site"):
        run_apart(plan, sites)


def test_a_site_with_a_key_its_peers_do_not_know_is_not_believed():
    sites, plan = four(), secure_plan()
    every = clients(sites, identities(sites))
    stranger = replace(every["b"].identity, private_key=private_key("stranger"))
    every["b"] = replace(every["b"], identity=stranger)
    with pytest.raises((RunError, QuorumLostError), match=r"secure sums forbid|needed|at least"):
        go(plan, LocalTransport(every))


def test_no_reply_under_secure_sums_carries_a_sites_own_numbers():
    sites, plan = four(), secure_plan(calibration="beta", optimality_gap=1e-3)
    transport = secured(sites)
    go(plan, transport)
    for _, data in transport.sent:
        kind = type(decode(data, ReplyMessage).body).__name__
        assert kind in ("Keys", "Material", "Masked", "Confirmed", "Unmasked", "Received")
