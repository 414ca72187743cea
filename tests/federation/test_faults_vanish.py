"""Sites that vanish, stall or come too late: the right result for those who remain, or a clear failure."""

from __future__ import annotations

import numpy as np
import pytest

from logofair.engines.conductor import NoReply, ServerState, conduct
from logofair.engines.inprocess import LocalTransport, run
from logofair.errors import QuorumLostError, RunError
from logofair.federation import ClientBatch, Server
from logofair.federation.messages import RequestMessage
from logofair.federation.plan import Members
from logofair.records import decode, encode
from logofair.solvers.algorithm1 import Algorithm1
from support.sites import (
    Tampered,
    central,
    clients,
    federation,
    go,
    gone_from,
    identities,
    instead,
    measured,
    plan_of,
    policies_of,
    said_of_run,
)

pytestmark = pytest.mark.federation

SETTINGS = [
    {"notion": "equalized_odds", "optimality_gap": 1e-3},
    {"notion": "predictive_equality", "calibration": "beta", "optimality_gap": 1e-3},
    {"solver": Algorithm1(rounds=3, local_steps=2)},
    {"local_tolerance": None, "notion": "equal_opportunity"},
    {"global_tolerance": None},
]


def small():
    return federation((40, 30, 35, 25))


def exchanges_of(plan, sites):
    return len(go(plan, LocalTransport(clients(sites)))[1])


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_a_site_that_vanishes_at_any_exchange_leaves_the_result_of_the_others(options):
    """Whoever is excluded after the calibration has left its mark on the groups' calibrators, and on nothing else."""
    sites, plan = small(), plan_of(**options)
    left = {site: rows for site, rows in sites.items() if site != "b"}
    fresh = run(plan, left)
    for number in range(1, exchanges_of(plan, sites) + 1):
        transport = Tampered(clients(sites), deaf=gone_from("b", number))
        result, steps = go(plan, transport)
        assert [(each.site, each.reason, each.number) for each in result.excluded] == [
            ("b", "the plug was pulled", number)
        ]
        assert [list(step.excluded) for step in steps if step.excluded] == [["b"]]
        assert result.exceeding == 0
        if result.sites == tuple("abcd"):  # only who does not hear the result is still counted
            assert steps[-1].purpose == "publication"
            assert "b" in steps[-1].excluded
            continue
        assert result.sites == tuple("acd")
        assert result.totals.mass == pytest.approx(fresh.result.totals.mass, abs=1e-9)
        if plan.calibration == "none" or result.excluded[0].purpose == "calibration":
            assert result.accuracy == pytest.approx(fresh.result.accuracy, abs=2 * plan.optimality_gap)
        assert result.certificate.meets_requirements == fresh.result.certificate.meets_requirements
        if plan.calibration == "none" and plan.solver is None:
            accuracy, global_excess, local_excess = measured(left, policies_of(transport, left), plan)
            assert accuracy == pytest.approx(result.accuracy, abs=1e-10)
            assert max(global_excess, local_excess) <= 2e-9
            assert accuracy == pytest.approx(central(left, options).certificate.primal, abs=2 * plan.optimality_gap)
        if plan.solver is not None:
            assert result.accuracy == pytest.approx(fresh.result.accuracy, abs=1e-12)


def test_every_lost_exchange_is_counted_and_the_others_go_on_from_the_totals_without_it():
    plan = plan_of(notion="equalized_odds")
    transport = Tampered(clients(small()), deaf=gone_from("b", 3))
    result, steps = go(plan, transport)
    assert sum(result.exchanges.values()) == len(steps)
    assert result.exchanges["totals"] == 1
    purposes = [step.purpose for step in steps]
    assert purposes[:4] == ["totals", "answers", "answers", "answers"]
    messages = [decode(message, RequestMessage) for site, message in transport.heard if site == "a"]
    assert [message.roster for message in messages][:4] == [1, 1, 1, 2]
    assert messages[3].opening.members == Members.of("acd", named=False)
    left = run(plan, {site: rows for site, rows in small().items() if site != "b"}).result
    assert np.array_equal(result.totals.mass, left.totals.mass)  # added up anew, not subtracted: to the last digit
    assert np.array_equal(messages[3].request.mass, left.totals.mass)
    assert result.bound >= left.accuracy - 1e-9  # no rule of those who are left is better than what is proved
    assert left.bound >= result.accuracy - 1e-9


def test_calibrators_and_priors_outlast_a_site_that_vanishes_and_are_made_anew_without_one_that_misbehaves():
    sites, plan = small(), plan_of(calibration="beta", pooling="full", notion="demographic_parity")
    names = [step.purpose for step in go(plan, LocalTransport(clients(sites)))[1]]
    number = 1 + names.index("answers")
    vanished, steps = go(plan, Tampered(clients(sites), deaf=gone_from("b", number)))
    assert [step.purpose for step in steps][number:].count("calibration") == 0
    assert vanished.sites == tuple("acd")
    assert vanished.holds
    assert "whose calibrators and priors were made together with it" in said_of_run(vanished)

    refused, steps = go(plan, Tampered(clients(sites), instead("b", number, lambda reply: b"something else")))
    assert [step.purpose for step in steps][number:].count("calibration") > 0
    assert "made together with it" not in said_of_run(refused)
    fresh = run(plan, {site: rows for site, rows in sites.items() if site != "b"})
    assert refused.accuracy == pytest.approx(fresh.result.accuracy, abs=2 * plan.optimality_gap)


def test_without_secure_sums_no_message_grows_with_the_roster():
    def sizes(n_sites):
        sites = dict.fromkeys((f"site {100 + i}" for i in range(n_sites)), small()["a"])
        plan = plan_of(calibration="beta", notion="demographic_parity", pooling="full", rounds=1)
        batch, server, found = ClientBatch.of(sites, plan), Server.start(plan, list(sites)), {}
        while not server.done:
            found.setdefault(server.phase.name, len(encode(server.message())))
            batch, sums = batch.answer(server.request)
            server = server.take(sums.total())
        return found

    few, many = sizes(5), sizes(500)
    assert many.keys() == few.keys()
    assert all(abs(many[purpose] - few[purpose]) < 64 for purpose in few)  # figures have more or fewer digits


def test_several_sites_may_vanish_at_once_or_one_after_another():
    sites, plan = small(), plan_of(notion="equalized_odds")
    best = central({s: sites[s] for s in "ad"}, {"notion": "equalized_odds"}).certificate.primal
    at_once = gone_from("bc", 4)
    for deaf in (at_once, lambda site, message: gone_from("b", 3)(site, message) or gone_from("c", 6)(site, message)):
        result, _ = go(plan, Tampered(clients(sites), deaf=deaf))
        assert result.sites == ("a", "d")
        assert sorted(each.site for each in result.excluded) == ["b", "c"]
        assert result.accuracy == pytest.approx(best, abs=2e-4)
        assert result.holds


@pytest.mark.parametrize("number", [1, 3, 5])
def test_below_the_quorum_the_run_stops_with_a_sentence_and_can_be_resumed_to_the_bit(number):
    sites, plan = small(), plan_of(quorum=3)
    expected, _ = go(plan, LocalTransport(clients(sites)))
    saved, transport = [], Tampered(clients(sites), deaf=gone_from("bc", number))
    with pytest.raises(QuorumLostError, match=r"2 of at least 3 sites are left \(b: the plug was pulled; c: .*resume"):
        go(plan, transport, save=lambda state: saved.append(encode(state)))
    transport.deaf = lambda site, message: None
    *_, (state, _) = conduct(decode(saved[-1], ServerState), transport)
    assert state.server.result.accuracy == expected.accuracy
    assert state.server.result.excluded == ()


def test_when_nobody_answers_nothing_is_concluded():
    sites, plan = small(), plan_of(quorum=1)
    with pytest.raises(QuorumLostError, match="0 of at least 1"):
        go(plan, Tampered(clients(sites), deaf=gone_from("abcd", 2)))
    last = exchanges_of(plan, sites)
    result, _ = go(plan, Tampered(clients(sites), deaf=gone_from("abcd", last)))
    assert [each.purpose for each in result.excluded] == 4 * [
        "publication"
    ]  # every policy is final: they can join later


def test_too_few_sites_at_the_beginning_are_refused():
    with pytest.raises(QuorumLostError, match="1 of at least 2"):
        Server.start(plan_of(), ["a"])


class Slow:
    """A transport with a clock of its own: sites take their time, late replies lie about until the next exchange."""

    def __init__(self, every, seconds):
        self.inner, self.seconds, self.clock, self.late = LocalTransport(every), seconds, 0.0, {}

    def present(self):
        return self.inner.present()

    def exchange(self, messages, timeout):
        replies, longest = {}, 0.0
        for site, message in messages.items():
            if site in self.late:  # the reply to an earlier request comes in first
                replies[site] = self.late.pop(site)
                continue
            took = self.seconds(site, decode(message, RequestMessage))
            data = self.inner.deliver(site, message)
            longest = max(longest, min(took, timeout))
            if took > timeout:
                self.late[site] = data
                replies[site] = NoReply(f"no reply within {timeout:g} seconds", late=True)
            else:
                replies[site] = data
        self.clock += longest
        return replies


def test_a_straggler_past_the_timeout_is_excluded_and_its_late_reply_is_never_used():
    sites, plan = small(), plan_of(notion="equalized_odds")
    best = central({s: sites[s] for s in "abd"}, {"notion": "equalized_odds"}).certificate.primal
    transport = Slow(clients(sites), lambda site, message: 90.0 if (site, message.number) == ("c", 4) else 1.0)
    result, steps = go(plan, transport, timeout=60.0)
    assert result.excluded[0].reason == "no reply within 60 seconds"
    assert result.sites == tuple("abd")
    assert result.accuracy == pytest.approx(best, abs=2 * plan.optimality_gap)
    assert transport.clock == pytest.approx(60.0 + len(steps) - 1)
    assert transport.late  # it lies there still


def test_with_secure_sums_a_straggler_has_the_timeout_once_before_the_run_stops():
    sites, plan = small(), plan_of(secure=True)
    stalled = []

    def seconds(site, message):
        stalled.extend([site] if (late := site == "c" and message.number > 1) else [])
        return 700.0 if late else 0.0

    transport = Slow(clients(sites, identities(sites)), seconds)
    with pytest.raises(RunError, match=r"c \(no reply within 600 seconds\)"):
        go(plan, transport)
    assert stalled == ["c"]
    assert transport.clock == 600.0


def test_a_late_reply_handed_over_under_the_next_request_excludes_the_site():
    sites, plan = small(), plan_of(notion="equalized_odds")
    old = {}

    def act(site, message, data):
        if site == "c":
            old[message.number] = data
            return old[message.number - 1] if message.number == 4 else data
        return data

    result, _ = go(plan, Tampered(clients(sites), act))
    assert result.excluded[0].reason == "answered another request than was sent"
    assert result.sites == tuple("abd")


def test_sites_that_did_not_come_at_all_are_reported():
    sites, plan = small(), plan_of()
    transport = LocalTransport(clients(sites))
    state = ServerState(Server.start(plan, transport.present(), absent=["x"]))
    *_, (state, _) = conduct(state, transport)
    assert [(each.site, each.reason) for each in state.server.result.excluded] == [("x", "did not come")]


def test_two_runs_at_once_on_sites_of_their_own_do_not_disturb_each_other():
    sites, notions = small(), ("equal_opportunity", "demographic_parity")
    plans = [plan_of(notion=notion, run=notion) for notion in notions]
    alone = [run(plan, sites).result for plan in plans]
    runs = [conduct(ServerState(Server.start(plan, list(sites))), LocalTransport(clients(sites))) for plan in plans]
    ended = [None, None]
    while any(end is None for end in ended):
        for i, steps in enumerate(runs):
            if ended[i] is None:
                state, _ = next(steps)
                ended[i] = state.server.result if state.server.done else None
    assert [end.accuracy for end in ended] == [end.accuracy for end in alone]


def test_a_site_in_memory_that_another_run_has_taken_says_that_it_lost_the_first():
    sites = small()
    transport = LocalTransport(clients(sites))
    first = conduct(ServerState(Server.start(plan_of(notion="equalized_odds", run="one"), list(sites))), transport)
    next(first)
    go(plan_of(run="two"), transport)
    with pytest.raises(QuorumLostError, match="does not know this run"):
        list(first)


def test_where_only_the_lost_site_had_groups_large_enough_the_run_says_that_nothing_is_left():
    sites = federation((4, 60, 4))
    with pytest.raises(RunError, match="no group has 5 rows or more at any site"):
        go(plan_of(smallest_cell=5), Tampered(clients(sites), deaf=gone_from("b", 2)))
