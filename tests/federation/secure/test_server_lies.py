"""A hostile server against the client: whatever it tells the sites, their own numbers stay in the total."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from logofair.calibration.levels import GroupMaps
from logofair.engines.conductor import NoReply, ServerState, conduct, result_of
from logofair.engines.inprocess import LocalTransport, run
from logofair.errors import GarbledTotalError
from logofair.federation import Client, Server, SiteColumns, make_plan
from logofair.federation.client import SecureIdentity
from logofair.federation.reply_checks import reply_form
from logofair.federation.requests import (
    AnswersRequest,
    Opening,
    RequestMessage,
    TotalsRequest,
    next_history,
    opening_history,
)
from logofair.federation.secure import SecureServer, new_signing_key, public_line
from logofair.federation.secure.primitives import private_text

pytestmark = pytest.mark.federation

SITES = ("a", "b", "c")


def identities():
    keys = {site: new_signing_key() for site in SITES}
    peers = {site: public_line(key) for site, key in keys.items()}
    return {site: SecureIdentity(private_text(key), peers) for site, key in keys.items()}


def some_rows(n, seed):
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    labels = (rng.random(n) < scores).astype(float)
    return SiteColumns(groups=rng.choice(["F", "M"], n).tolist(), scores=scores, labels=labels)


class RefusedMessageError(AssertionError):
    """A client did not answer."""


class HostileServer:
    """Speaks to real clients, each of which it may tell something else; its sums follow what it tells site a."""

    def __init__(self, plans):
        keys = identities()
        self.clients = {
            site: Client(site, some_rows(100 * (i + 1), i), identity=keys[site]) for i, site in enumerate(SITES)
        }
        self.plan, self.number = plans["a"], 1
        self.history = opening_history(Opening.of(self.plan, SITES), 1)
        self.masks = SecureServer.start("r", SITES)
        openings = {site: Opening.of(plans[site], SITES) for site in SITES}
        heard = {site: self.say(site, RequestMessage("r", 1, 1, None, openings[site], "keys")) for site in SITES}
        self.masks = self.masks.collect_keys(heard)
        dealt = {
            site: self.say(site, RequestMessage("r", 1, 1, None, None, "shares", dict(self.masks.keys)))
            for site in SITES
        }
        self.masks = self.masks.collect_shares(dealt)

    def say(self, site, message):
        self.clients[site], reply = self.clients[site].handle(message)
        if reply.refusal is not None:
            raise RefusedMessageError(reply.refusal)
        return reply.body

    def begin(self, requests):
        kind, shapes = reply_form(requests["a"], self.plan)
        self.history = next_history(self.history, requests["a"])
        self.masks = self.masks.begin_sum(self.history, kind.steps_of(shapes))
        sealed = self.masks.deliveries
        messages = {
            site: RequestMessage("r", 1, self.number, requests[site], None, "masked", sealed[site]) for site in SITES
        }
        self.masks = self.masks.collect_masked({site: self.say(site, message) for site, message in messages.items()})
        return kind, shapes

    def total(self, requests):
        kind, shapes = self.begin(requests)
        message = RequestMessage("r", 1, self.number, None, None, "unmask", self.masks.contributors)
        self.masks = self.masks.collect_unmasked({site: self.say(site, message) for site in SITES})
        self.number += 1
        return kind.from_vector(self.masks.total, shapes)

    def go_on_without_unmasking(self, requests):
        self.begin(requests)
        self.number += 1
        self.masks = replace(self.masks, stage="ready", materials=self.masks.upcoming, upcoming={}, masked=b"")


def honest_plan(**options):
    return make_plan(**({"groups": ["F", "M"], "secure": True, "run": "r", "calibration": "none"} | options))


def test_an_honest_server_gets_the_total():
    server = HostileServer(dict.fromkeys(SITES, honest_plan()))
    assert server.total(dict.fromkeys(SITES, TotalsRequest())).mass.sum() == pytest.approx(600)


def test_sites_that_were_told_different_plans_are_in_no_total():
    padding = ["x1", "x2", "x3", "x4"]
    plans = {site: honest_plan(groups=[*padding[: 2 * i], "F", "M", *padding[2 * i :]]) for i, site in enumerate(SITES)}
    server = HostileServer(plans)
    with pytest.raises(GarbledTotalError):
        server.total(dict.fromkeys(SITES, TotalsRequest()))


def test_sites_that_were_told_different_things_before_are_in_no_later_total():
    server = HostileServer(dict.fromkeys(SITES, honest_plan(calibration="beta", local_tolerance=None)))

    def maps(intercept):
        parameters = np.zeros((3, 6, 2))
        parameters[:2], parameters[2] = 1.0, intercept
        information = np.zeros((6, 6, 2))
        information[[0, 3, 5]] = 1e12
        return GroupMaps("beta", parameters[:, :, 0].copy(), parameters, information, np.ones((2, 6)))

    server.go_on_without_unmasking(
        {"a": TotalsRequest(maps(0.0)), "b": TotalsRequest(maps(-60.0)), "c": TotalsRequest(maps(-60.0))}
    )
    same = AnswersRequest(np.full(2, 450.0), np.full(2, 225.0), np.zeros((1, 2, 1)))
    with pytest.raises(GarbledTotalError):
        server.total(dict.fromkeys(SITES, same))


def test_a_refused_request_cannot_be_rephrased_under_secure_sums():
    server = HostileServer(dict.fromkeys(SITES, honest_plan(local_tolerance=None)))
    server.total(dict.fromkeys(SITES, TotalsRequest()))

    def request(rows):
        return AnswersRequest(np.full(2, rows), np.full(2, rows / 2), np.zeros((1, 2, 1)))

    kind, shapes = reply_form(request(1.0), server.plan)
    server.masks = server.masks.begin_sum(b"any", kind.steps_of(shapes))
    sealed = server.masks.deliveries["a"]
    with pytest.raises(RefusedMessageError, match="BAD_REQUEST"):
        server.say("a", RequestMessage("r", 1, 2, request(1.0), None, "masked", sealed))
    with pytest.raises(RefusedMessageError, match="OTHER_REQUEST"):
        server.say("a", RequestMessage("r", 1, 2, request(300.0), None, "masked", sealed))
    with pytest.raises(RefusedMessageError, match="BAD_REQUEST"):
        server.say("a", RequestMessage("r", 1, 2, request(1.0), None, "masked", sealed))


class Dropping(LocalTransport):
    """Site c is gone from some exchange on."""

    def __init__(self, clients, at):
        super().__init__(clients)
        self.at, self.done = at, 0

    def present(self):
        return tuple(site for site in super().present() if site != "c" or self.done < self.at)

    def exchange(self, messages, timeout):
        self.done += 1
        replies = dict(super().exchange(messages, timeout))
        return replies | ({"c": NoReply("gone")} if self.done >= self.at and "c" in replies else {})


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity", "equalized_odds"])
@pytest.mark.parametrize("at", [2, 3, 4])
def test_the_bound_stays_true_when_the_only_site_with_a_group_is_lost(notion, at):
    rng = np.random.default_rng(0)

    def site(**shapes):
        groups = [group for group in shapes for _ in range(200)]
        return SiteColumns(groups=groups, scores=np.concatenate([rng.beta(*shape, 200) for shape in shapes.values()]))

    sites = {"a": site(F=(1, 2), M=(2, 1)), "b": site(F=(1, 2), M=(2, 1)), "c": site(X=(4, 1))}
    plan = make_plan(
        groups=["F", "M", "X"], notion=notion, calibration="none", local_tolerance=None, global_tolerance=0.01, run="d"
    )
    truth = run(plan, {name: sites[name] for name in "ab"}).result
    transport = Dropping({name: Client(name, rows) for name, rows in sites.items()}, at)
    result = result_of(conduct(ServerState(Server.start(plan, ("a", "b", "c"))), transport))
    assert result.sites == ("a", "b")
    assert result.bound >= truth.accuracy - 1e-9
    assert result.accuracy == pytest.approx(truth.accuracy, abs=2e-5)
