"""States go through bytes after every message, and the result is the same to the bit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logofair.engines.conductor import NoReply, ServerState, conduct
from logofair.engines.inprocess import LocalTransport
from logofair.federation import Client
from logofair.federation.client import StoredClient
from logofair.federation.messages import RequestMessage
from logofair.records import decode, encode
from logofair.solvers.algorithm1 import Algorithm1
from support.sites import Tampered, clients, federation, go, identities, plan_of, policies_of, same_policy

pytestmark = pytest.mark.federation

SETTINGS = [
    {"notion": "equalized_odds"},
    {"notion": "equalized_odds", "calibration": "platt"},
    {"solver": Algorithm1(rounds=3, local_steps=2)},
    {"calibration": "platt", "pooling": "auto"},
    {"notion": "equalized_odds", "calibration": "beta", "secure": True, "optimality_gap": 1e-3},
]


def small():
    return federation((40, 30, 35))


def heard_by(site):
    """A client of a run, as it was before, and the messages that it was sent, by number."""
    transport = Tampered(clients(small()))
    go(plan_of(notion="equalized_odds"), transport)
    messages = (decode(message, RequestMessage) for name, message in transport.heard if name == site)
    return clients(small())[site], {message.number: message for message in messages}


def same_result(one, other):
    assert encode(replace(one, exchanges={})) == encode(replace(other, exchanges={}))
    assert dict(one.exchanges) == dict(other.exchanges)


class Forgetful(LocalTransport):
    """Sites that are built anew from their encoded state for every message, as in a process per message."""

    def deliver(self, site, message):
        known = self.sites[site]
        self.sites[site] = Client(site, known.columns, decode(encode(known.stored), StoredClient), known.identity)
        return super().deliver(site, message)


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_a_server_whose_state_went_through_bytes_after_every_exchange_ends_the_same(options):
    sites, plan = small(), plan_of(**options)
    keys = identities(sites) if plan.secure else None
    undisturbed = LocalTransport(clients(sites, keys))
    expected, steps = go(plan, undisturbed)
    stored = [LocalTransport(clients(sites, keys))]
    saved = []
    result = go(plan, stored[0], save=lambda state: saved.append(encode(state)))[0]
    if not plan.secure:
        same_result(result, expected)
    assert len(saved) == len(steps) + 1
    # Where a process ends is arbitrary: every stored state is taken up, with the sites as they are at the end of
    # that exchange.
    data, transport = saved[0], LocalTransport(clients(sites, keys))
    for _ in steps:
        state, _ = next(conduct(decode(data, ServerState), transport))
        data = encode(state)
        assert encode(decode(data, ServerState)) == data
    ended = state.server.result
    assert state.server.done
    if plan.secure:
        assert ended.accuracy == pytest.approx(expected.accuracy, abs=1e-9)
        assert ended.exchanges == expected.exchanges
    else:
        same_result(ended, expected)
        for site in sites:
            assert same_policy(policies_of(transport, sites)[site], policies_of(undisturbed, sites)[site])


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_a_server_killed_before_it_could_store_an_exchange_asks_again_and_ends_the_same(options):
    """At each exchange in turn: all replies arrive, the state is lost, and the stored one before it goes on."""
    sites, plan = small(), plan_of(**options)
    keys = identities(sites) if plan.secure else None
    expected, steps = go(plan, LocalTransport(clients(sites, keys)))
    states, transport = [], LocalTransport(clients(sites, keys))
    go(plan, transport, save=states.append)
    data, transport = encode(states[0]), LocalTransport(clients(sites, keys))
    for _ in range(len(steps)):
        next(conduct(decode(data, ServerState), transport))  # killed here: nothing stored
        state, _ = next(conduct(decode(data, ServerState), transport))
        data = encode(state)
    assert state.server.done
    assert state.server.result.accuracy == pytest.approx(expected.accuracy, abs=1e-9 if plan.secure else 0.0)
    assert dict(state.server.result.exchanges) == dict(expected.exchanges)


@pytest.mark.parametrize("options", [*SETTINGS, {"calibration": "temperature", "trials": 0}], ids=str)
def test_sites_that_find_again_nothing_but_their_stored_state_answer_the_same(options):
    sites, plan = small(), plan_of(**options)
    keys = identities(sites) if plan.secure else None
    one, other = LocalTransport(clients(sites, keys)), Forgetful(clients(sites, keys))
    (expected, _), (found, _) = go(plan, one), go(plan, other)
    if plan.secure:
        assert found.accuracy == pytest.approx(expected.accuracy, abs=1e-9)
        return
    same_result(found, expected)
    for site in sites:
        assert same_policy(policies_of(one, sites)[site], policies_of(other, sites)[site])


def test_the_same_request_gets_the_same_reply_and_another_one_under_its_number_is_refused():
    client, messages = heard_by("a")
    for message in messages.values():
        client, first = client.handle(message)
        same, again = client.handle(message)
        assert encode(again) == encode(first)
        assert same.stored is client.stored
        _, refused = client.handle(replace(message, request=type(message)("test", 1, 1, None)))
        assert refused.refusal == "OTHER_REQUEST"
        assert refused.body is None
    assert len(messages) > 3


def test_requests_out_of_turn_of_another_roster_or_run_are_refused_and_change_nothing():
    client, messages = heard_by("a")
    client, _ = client.handle(messages[1])
    client, _ = client.handle(messages[2])
    for message, refusal in (
        (messages[4], "OUT_OF_TURN"),
        (replace(messages[1], opening=None), "OUT_OF_TURN"),
        (messages[1], "OUT_OF_TURN"),
        (replace(messages[3], roster=2), "OUT_OF_TURN"),
        (replace(messages[3], run="other"), "UNKNOWN_RUN"),
        (replace(messages[3], step="nonsense"), "BAD_MESSAGE"),
        (replace(messages[3], step="masked", sealed={}), "NO_KEYS"),
        (replace(messages[3], request=None), "BAD_MESSAGE"),
        (
            replace(messages[3], request=replace(messages[3].request, mass=messages[3].request.mass + 1.0)),
            "OTHER_REQUEST",
        ),
    ):
        after, reply = client.handle(message)
        assert reply.refusal == refusal
        assert after.stored is client.stored
    assert client.handle(messages[3])[1].refusal is None


def test_the_totals_of_a_roster_never_change_even_for_a_site_that_was_started_again():
    client, messages = heard_by("a")
    for number in (1, 2):
        client, _ = client.handle(messages[number])
    fresh = Client("a", client.columns, decode(encode(client.stored), StoredClient))
    other = replace(messages[3], request=replace(messages[3].request, mass=messages[3].request.mass * 2))
    assert fresh.handle(other)[1].refusal == "OTHER_REQUEST"
    assert fresh.handle(messages[3])[1].refusal is None


def test_a_transport_that_returns_nothing_for_a_site_counts_as_its_absence():
    class Silent(LocalTransport):
        def exchange(self, messages, timeout):
            replies = dict(super().exchange(messages, timeout))
            replies.pop("b", None)
            return replies | {"stranger": NoReply("?")}

    sites = small()
    result, _ = go(plan_of(), Silent(clients(sites)))
    assert result.sites == ("a", "c")
    assert result.excluded[0].reason == "no reply"
    secure = Silent(clients(federation((30, 30, 30, 30)), identities("abcd")))
    result, _ = go(plan_of(secure=True), secure)
    assert result.sites == ("a", "c", "d")
    assert result.excluded[0].reason == "no reply"
