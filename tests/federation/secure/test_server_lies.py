"""A hostile server against the client: whatever it tells the sites, their own numbers stay in the total."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import logofair.federation.client
from logofair.engines.conductor import NoReply, ServerState, conduct
from logofair.engines.inprocess import LocalTransport, run
from logofair.errors import GarbledTotalError, InputError, RunError
from logofair.federation import Client, ClientBatch, Server, SiteColumns, make_plan
from logofair.federation.client import SecureIdentity
from logofair.federation.exchange import reply_form
from logofair.federation.exchanges.final import FinalRequest
from logofair.federation.exchanges.pooling import ScoreMomentsRequest
from logofair.federation.exchanges.publication import PublishRequest
from logofair.federation.exchanges.rounds import Answers, AnswersRequest, StepsRequest, TotalsRequest
from logofair.federation.messages import Opening, RequestMessage, agrees, next_history
from logofair.federation.plan import Members
from logofair.federation.secure import SecureServer, new_signing_key, public_line
from logofair.federation.secure.primitives import private_text
from logofair.notions import Notion, Rate
from logofair.records import decode, encode
from logofair.requirement import Requirement
from support.sentences import asking

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
    return SiteColumns(sensitive_features=rng.choice(["F", "M"], n).tolist(), scores=scores, labels=labels)


class RefusedMessageError(AssertionError):
    """A client did not answer."""


class HostileServer:
    """Speaks to real sites, each of which it may tell something else; its own state follows the plan of site a."""

    def __init__(self, plans, columns=None):
        keys = identities()
        columns = columns or {site: some_rows(100 * (i + 1), i) for i, site in enumerate(SITES)}
        self.sites = {site: Client(site, columns[site], identity=keys[site]) for site in SITES}
        self.server, self.relay = Server.start(plans["a"], SITES), None
        self.masks = SecureServer.start("r", SITES)
        openings = {site: Opening(plans[site], Members.of(SITES, named=True)) for site in SITES}
        heard = {site: self.say(site, "keys", opening=openings[site]) for site in SITES}
        self.masks = self.masks.collect_keys(heard)
        dealt = {site: self.say(site, "shares", keys=dict(self.masks.keys)) for site in SITES}
        self.masks = self.masks.collect_shares(dealt)

    def say(self, site, step, request=None, **more):
        message = RequestMessage("r", 1, self.server.number, request, step=step, **more)
        self.sites[site], reply = self.sites[site].handle(decode(encode(message), RequestMessage))
        if reply.refusal is not None:
            raise RefusedMessageError(reply.refusal)
        return reply.body

    def ask(self, request, sites=SITES, **more):
        """The masked replies of some sites to any request at all."""
        kind, shapes = reply_form(request, self.server.plan)
        history = next_history(self.server.history, request)
        masks = self.masks.begin_sum(history, kind.steps_of(shapes, request))
        more = {"relay": self.relay, **more}
        return masks, {s: self.say(s, "masked", request, sealed=masks.deliveries[s], **more) for s in sites}

    def reveal(self, masks, replies):
        masks = masks.collect_masked(replies)
        masks = masks.collect_confirmed({s: self.say(s, "confirm", sealed=masks.fingerprints) for s in SITES})
        return masks.collect_unmasked({s: self.say(s, "unmask", sealed=masks.confirmed) for s in SITES})

    def honest(self, sums=1):
        """Go on as the plan says."""
        for _ in range(sums):
            self.masks = self.reveal(*self.ask(self.server.request))
            self.server, self.relay = self.server.take_sum(self.masks.total), self.masks.relay
        return self

    def refusals(self, step, request, sites=SITES, **more):
        """The word with which each site refuses."""
        words = {}
        for site in sites:
            said = (step, request) if step != "masked" else ()
            with pytest.raises(RefusedMessageError) as refused:
                self.say(site, *said, relay=self.relay) if said else self.ask(request, [site], **more)
            words[site] = str(refused.value)
        return words


REPLAY = dict.fromkeys(SITES, "OTHER_THAN_REPLAY")


def honest_plan(**options):
    usual = {"groups": ["F", "M"], "secure": True, "run": "r", "calibration": "none", "pooling": "none", "trials": 2}
    usual |= {"local_tolerance": 0.02, "global_tolerance": 0.02}
    return make_plan(**asking(**(usual | options)))


def hostile(columns=None, **options):
    return HostileServer(dict.fromkeys(SITES, honest_plan(**options)), columns)


def test_an_honest_server_gets_the_totals_and_every_site_its_policy():
    server = hostile()
    assert server.honest(2).server.roster_counts.mass.sum() == pytest.approx(600)
    while not isinstance(server.server.request, PublishRequest):
        server.honest()
    for site in SITES:
        server.say(site, "", server.server.request, relay=server.relay)
        assert server.sites[site].finished
        assert encode(server.sites[site].stored.replica) == encode(server.server)


def test_a_server_whose_numbers_are_rounded_otherwise_is_followed_to_the_end():
    """Then replicas go on from what was sent, and all sites still know one history."""
    server, nudged = hostile(calibration="platt"), 0
    while not isinstance(server.server.request, PublishRequest):
        request = server.server.request
        name = next((name for name in ("at", "prices") if hasattr(request, name)), None)
        if name is not None:
            other = replace(request, **{name: getattr(request, name) * (1 + 1e-12)})
            server.server = replace(server.server, phase=replace(server.server.phase, request=other))
            nudged += encode(server.server.request) != encode(request)
        server.honest()
    assert nudged > 3
    for site in SITES:
        server.say(site, "", server.server.request, relay=server.relay)
        assert server.sites[site].finished


def isolating(thresholds):
    """Prices that reject all of group F, and so everybody where rates must be equal; M is cut at each threshold."""
    mass = np.array([300.0, 400.0])
    worth = (2 * np.asarray(thresholds) - 1) * mass[1] / mass.sum()
    prices = np.stack([np.full(len(thresholds), 1e3), worth], axis=1)[:, :, None]
    return AnswersRequest(mass, mass / 2, prices)


def of_one_group():
    """Site a has rows of one group alone, so that no tolerance inside it binds."""
    rng = np.random.default_rng(5)
    return {"a": SiteColumns(["M"] * 30, rng.random(30)), "b": some_rows(200, 1), "c": some_rows(300, 2)}


def test_prices_can_isolate_a_site_but_no_site_answers_what_its_replica_does_not_ask():
    columns, plan = of_one_group(), honest_plan(local_tolerance=0.0)
    thresholds = np.sort(columns["a"].scores)[::-1] - 1e-9
    batch = ClientBatch.of(columns, plan).answer(TotalsRequest())[0]
    shares = batch.answer(isolating(thresholds))[1].shares[:, :, 1, 0]
    counts = shares.sum(axis=0) * 400.0
    assert np.allclose(counts, np.arange(1, 31))  # the attack is a real one: the total is site a's, score by score
    with pytest.raises(RunError, match="F: NOT MEASURED, since 2 of 3 sites"):
        hostile(columns, local_tolerance=0.0).honest()  # nor is there a total of a group at two sites
    server = hostile(local_tolerance=0.0).honest(2)
    assert server.refusals("masked", isolating(thresholds)) == REPLAY
    server.honest()  # and the run goes on as planned
    assert server.refusals("masked", isolating(thresholds[:1])) == REPLAY


def test_a_secure_plan_sets_no_tolerance_for_single_sites():
    with pytest.raises(InputError, match="with secure sums no requirement names a site"):
        honest_plan(require=["selection rate gap <= 0 at b, c"])


PER_POSITIVE = Notion("both", given=(None, Rate("accepted per positive", 1.0, 0.0, base=(0.0, 1.0))))


@pytest.mark.parametrize("local", [{"demographic_parity": 0.0, "equalized_odds": 0.0}, PER_POSITIVE], ids=str)
def test_no_secure_plan_requires_so_much_inside_sites_that_only_one_with_one_group_has_an_answer(local):
    """The same plan for all, and the server's own prices: yet every total would be that of site a."""
    rng, columns = np.random.default_rng(5), of_one_group()
    columns |= {"b": two_groups(200, rng), "c": two_groups(300, rng)}
    plan = {"notion": {"local": local, "global": "demographic_parity"}, "local_tolerance": 0.0}
    batch = ClientBatch.of(columns, honest_plan(**plan, secure=False))
    server = Server.start(batch.state.plan, SITES)
    for _ in range(3):
        batch, sums = batch.answer(server.request)
        server = server.take(sums.total())
        if isinstance(sums, Answers):
            assert np.all(np.abs(sums.shares[1:]) < 1e-12)  # the attack is a real one
            assert np.any(sums.shares[0] > 0.0)
    with pytest.raises(InputError, match="local: with secure sums one rate, or two that are shares"):
        honest_plan(**plan)
    for fine in ("demographic_parity", "equalized_odds", {"demographic_parity": 0.1, "equal_opportunity": 0.1}):
        assert honest_plan(notion={"local": fine, "global": local}).secure


def choices(columns, **settings):
    """How many of group M every site accepts at all prices of a run, (sites, prices)."""
    batch = ClientBatch.of(columns, honest_plan(**settings))
    server, accepted = Server.start(batch.state.plan, tuple(columns)), []
    while not isinstance(server.request, PublishRequest):
        request = server.request
        batch, sums = batch.answer(request)
        if isinstance(sums, Answers):
            accepted.append(sums.shares[:, :, 1, 0] * request.mass[1])
        server = server.take(sums.total())
    return np.concatenate(accepted, axis=1)


SURE = Rate("surplus", -0.9, 1.0, base=(1.0, 0.0))  # of chances above 90%


@pytest.mark.parametrize(
    "require", [Requirement.parse("surplus >= 0 per site", rates=(SURE,)), "false positive rate <= 0.000001 per site"]
)
def test_no_secure_plan_limits_a_rate_inside_sites_so_that_only_one_with_high_scores_has_an_answer(require):
    """All sites have both groups, and the plan is the same for all: yet every total would be that of site a."""
    columns = {site: two_groups(n, np.random.default_rng(n)) for site, n in zip(SITES, (200, 250, 300), strict=True)}
    columns = {site: replace(each, scores=0.8 * each.scores) for site, each in columns.items()}
    columns["a"] = replace(columns["a"], scores=np.where(columns["a"].scores > 0.7, 1.0, columns["a"].scores))
    accepted = choices(columns, require=[require], local_tolerance=None, secure=False)
    assert np.all(accepted[0] > 1.0)
    assert np.all(accepted[1:] < 1e-3)  # the attack is a real one
    with pytest.raises(InputError, match="require: with secure sums floors and ceilings inside sites are of selection"):
        honest_plan(require=[require], local_tolerance=None)
    over_all = Requirement.parse(str(require).replace("per site", "overall"), rates=(SURE,))
    assert honest_plan(require=[over_all], local_tolerance=None).secure
    assert honest_plan(require=["accepted <= 0.5 per site", "selection rate >= 0.1 per site"]).secure


def test_what_changes_in_the_totals_is_that_of_the_only_site_which_a_capacity_leaves_a_choice():
    """A limit, which docs/THREATS.md names: sites of one group accept so many, whatever the prices."""
    rng = np.random.default_rng(0)
    columns = {site: SiteColumns(["FM"[i % 2]] * 100, rng.random(100)) for i, site in enumerate("bcdefg")}
    plan = {"require": ["accepted = 0.3 per site"], "local_tolerance": None, "global_tolerance": 0.01, "trials": 0}
    accepted = choices({"a": two_groups(60, rng), **columns}, **plan)
    assert np.ptp(accepted[0]) > 5.0
    assert np.allclose(np.ptp(accepted[1:], axis=1), 0.0)


def two_groups(n, rng):
    groups = rng.choice(["F", "M"], n)
    return SiteColumns(groups.tolist(), rng.random(n) ** np.where(groups == "F", 1.5, 2.0))


def test_what_changes_in_the_totals_is_mostly_that_of_a_site_with_one_group():
    """A limit, which docs/THREATS.md names: nothing inside it binds such a site."""
    columns = of_one_group()
    columns |= {
        site: two_groups(n, np.random.default_rng(i))
        for i, (site, n) in enumerate(zip("bcd", (200, 300, 250), strict=True))
    }
    alone, *others = choices(columns, global_tolerance=0.01, trials=0)
    print(np.ptp(alone), np.ptp(np.sum(others, axis=0)))
    assert np.ptp(alone) > 1.5 * np.ptp(np.sum(others, axis=0))


@pytest.mark.parametrize("sums", [0, 1, 2, 3])
def test_whatever_else_is_asked_is_refused_alike_by_sites_with_any_rows(sums):
    server = hostile().honest(sums)
    prices, counts = np.zeros((1, 2, 1)), np.full(2, 1.0)
    own = server.server.request
    others = [
        TotalsRequest(),
        AnswersRequest(counts, counts / 2, prices),  # totals below a site's own: a refusal told which is larger
        AnswersRequest(1e3 * counts, 1e3 * counts / 2, prices),
        FinalRequest(prices, np.ones(1)),
        ScoreMomentsRequest(),
        StepsRequest(counts, counts, np.zeros((2, 1)), 0.1, 1, 3),
    ]
    if isinstance(own, AnswersRequest):
        others += [replace(own, prices=own.prices + 1e-6), replace(own, prices=own.prices[:1])]
        others += [replace(own, mass=own.mass + 1e-3)]
    for request in others:
        if type(request) is type(own) and agrees(own, request):
            continue
        assert server.refusals("masked", request) == REPLAY, request
        assert set(server.refusals("", request).values()) == {"UNSAFE_SUM" if sums else "OUT_OF_TURN"}
    server.honest()


def test_a_large_price_leaves_the_small_ones_beside_it_no_room():
    mass, prices = np.full(2, 50.0), np.array([[[1e7], [-1e7]], [[0.1], [-0.1]]])
    own = AnswersRequest(mass, mass / 2, prices)
    assert agrees(own, replace(own, prices=prices * (1 + 1e-12)))
    for off in (1e-3, 1e-8):
        assert not agrees(own, replace(own, prices=prices + np.array([0.0, off])[:, None, None]))


def test_no_site_goes_on_without_the_last_total_or_with_another():
    server = hostile().honest()
    relay, request = server.relay, server.server.request
    for false in (None, replace(relay, seeds={}), replace(relay, seeds={**relay.seeds, "b": bytes(32)})):
        assert server.refusals("masked", request, relay=false) == REPLAY
    server.honest()


def test_a_result_that_the_replica_did_not_reach_is_not_taken():
    server = hostile().honest(2)
    while not isinstance(server.server.request, PublishRequest):
        server.honest()
    true = server.server.request
    better = replace(true, figures=replace(true.figures, gain=true.figures.gain + 1e-3))
    for request in (better, replace(true, members=Members.of("ab", named=True))):
        assert server.refusals("", request) == REPLAY
    server.say("a", "", replace(true, exchanges={}), relay=server.relay)  # on which no number depends
    assert server.sites["a"].finished


def test_sites_that_were_sent_different_plans_are_in_no_total():
    padding = ["x1", "x2"]
    plans = {site: honest_plan(groups=[*padding[:i], "F", "M", *padding[i:]]) for i, site in enumerate(SITES)}
    server = HostileServer(plans)
    with pytest.raises(RefusedMessageError, match="UNSAFE_SUM"):
        server.honest()


def test_a_site_that_cannot_answer_does_not_refuse_and_no_total_is_formed(monkeypatch):
    """A refusal in the middle of a run would be a function of the site's rows."""
    honest = logofair.federation.client.fault

    def suspicious(own, request, *rest):
        mine = isinstance(own, Answers) and rest[1].mass.sum() == 100  # site a
        return "claims nonsense" if mine else honest(own, request, *rest)

    monkeypatch.setattr(logofair.federation.client, "fault", suspicious)
    server = hostile(rounds=2).honest(2)
    with pytest.raises(GarbledTotalError, match="a site could not answer"):
        server.honest()
    assert "claims nonsense" in server.sites["a"].stored.failed


def test_two_hundred_sites_are_too_many_for_secure_sums():
    with pytest.raises(InputError, match="200 with secure sums, which take at most 100"):
        Server.start(honest_plan(), [f"s{i}" for i in range(200)])


class Dropping(LocalTransport):
    """Site c is gone from some exchange on."""

    def __init__(self, sites, at):
        super().__init__(sites)
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
        return SiteColumns(
            sensitive_features=groups, scores=np.concatenate([rng.beta(*shape, 200) for shape in shapes.values()])
        )

    sites = {"a": site(F=(1, 2), M=(2, 1)), "b": site(F=(1, 2), M=(2, 1)), "c": site(X=(4, 1))}
    plan = make_plan(
        groups=["F", "M", "X"], notion=notion, calibration="none", local_tolerance=None, global_tolerance=0.01, run="d"
    )
    truth = run(plan, {name: sites[name] for name in "ab"}).result
    transport = Dropping({name: Client(name, rows) for name, rows in sites.items()}, at)
    *_, (state, _) = conduct(ServerState(Server.start(plan, ("a", "b", "c"))), transport)
    result = state.server.result
    assert result.sites == ("a", "b")
    assert result.bound >= truth.accuracy - 1e-9
    assert result.accuracy == pytest.approx(truth.accuracy, abs=2e-5)
