"""Replies that no rows can give, bytes that are no replies, sites that fail inside: excluded, said, and silent."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

import logofair.federation.client
from logofair.engines.inprocess import LocalTransport, run
from logofair.errors import InputError, QuorumLostError, RefusedError, RunError
from logofair.federation import Client, ClientBatch, Server, SiteColumns
from logofair.federation.exchange import Refusal
from logofair.federation.exchanges.final import FinalRequest
from logofair.federation.exchanges.rounds import AnswersRequest, Totals, TotalsRequest
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.records import decode, encode
from logofair.solvers.algorithm1 import Algorithm1
from support.sites import Tampered, central, clients, federation, go, instead, plan_of, rows

pytestmark = pytest.mark.federation

MARK = "MARKER-of-row-17"


def small():
    return federation((40, 30, 35))


def when(plan, sites, known={}):  # remembered on purpose  # noqa: B006
    """The number of the first exchange that asks for each type of reply."""
    if plan not in known:
        probe, known[plan] = Tampered(clients(sites)), {}
        go(plan, probe)
        for reply in (decode(data, ReplyMessage) for site, data in probe.sent if site == "b"):
            known[plan].setdefault(type(reply.body).__name__, reply.number)
    return known[plan]


def without_b(plan, sites, known={}):  # remembered on purpose  # noqa: B006
    """The result of the others alone."""
    if plan not in known:
        known[plan] = run(plan, {s: c for s, c in sites.items() if s != "b"}).result
    return known[plan]


def excluded(plan, change, number=None, sites=None, kind=None):
    """Run with replies of site b changed; return what was said of it after checking the result of the others."""
    sites = sites or (small() if plan.calibration == "none" else federation((400, 300, 350)))
    number = number or when(plan, sites)[kind]
    result, _ = go(plan, Tampered(clients(sites), instead("b", number, change)))
    assert result.sites == ("a", "c"), result.excluded
    (excluded,) = result.excluded
    assert (excluded.site, excluded.number) == ("b", number)
    fresh = without_b(plan, sites)
    if plan.calibration == "none" or excluded.purpose == "calibration":
        assert result.accuracy == pytest.approx(fresh.accuracy, abs=2 * plan.optimality_gap)
    assert result.certificate.meets_requirements == fresh.certificate.meets_requirements
    return excluded.reason


def with_body(**change):
    def act(reply):
        made = {name: f(getattr(reply.body, name)) for name, f in change.items()}
        return replace(reply, body=replace(reply.body, **made))

    return act


def entry(value, place=0):
    def act(array):
        array = np.array(array)
        array.flat[place] = value
        return array

    return act


EXACT = {"notion": "equal_opportunity", "optimality_gap": 1e-3}
CALIBRATED = {"notion": "equal_opportunity", "calibration": "platt", "optimality_gap": 1e-3}
PAPER = {"solver": Algorithm1(rounds=2, local_steps=2)}


@pytest.mark.parametrize(
    ("options", "kind", "field", "value"),
    [
        (EXACT, "Totals", "mass", np.nan),
        (EXACT, "Totals", "positives", np.inf),
        (EXACT, "Answers", "gain", np.nan),
        (EXACT, "Answers", "gain", -np.inf),
        (EXACT, "Answers", "shares", np.nan),
        (EXACT, "Answers", "bound", np.inf),
        (EXACT, "FinalFigures", "gain", np.nan),
        (EXACT, "FinalFigures", "shares", -np.inf),
        (EXACT, "FinalFigures", "exceeding", np.nan),
        (CALIBRATED, "FoldCounts", "counts", np.inf),
        (CALIBRATED, "FoldCounts", "sums", np.nan),
        (CALIBRATED, "Curvature", "sums", np.inf),
        (PAPER, "Smoothness", "constant", np.nan),
        (PAPER, "Steps", "change", -np.inf),
    ],
)
def test_a_value_that_is_no_finite_number_excludes_its_site(options, kind, field, value):
    reason = excluded(plan_of(**options), with_body(**{field: entry(value)}), kind=kind)
    assert reason == f"sent {field} with a value that is no finite number"


@pytest.mark.parametrize(
    ("options", "kind", "change", "said"),
    [
        (EXACT, "Totals", {"mass": entry(-1.0)}, "impossible number of rows"),
        (EXACT, "Totals", {"mass": entry(1e15)}, "impossible number of rows"),
        (EXACT, "Totals", {"mass": lambda a: 0 * a, "positives": lambda a: 0 * a}, "impossible number of rows"),
        (EXACT, "Totals", {"positives": lambda a: a + 1000.0}, "more expected positives than rows"),
        (EXACT, "Totals", {"positives": entry(-5.0)}, "fewer than none"),
        (EXACT, "Answers", {"gain": entry(0.9)}, "more accuracy than its rows allow"),
        (EXACT, "Answers", {"gain": entry(-0.9)}, "less accuracy than its rows allow"),
        (EXACT, "Answers", {"gain": entry(1e300)}, "more accuracy than its rows allow"),
        (EXACT, "Answers", {"shares": entry(0.9)}, "larger share of a group's rate than its rows allow"),
        (EXACT, "Answers", {"shares": entry(-0.01)}, "larger share of a group's rate than its rows allow"),
        (EXACT, "Answers", {"bound": lambda a: a - 0.01}, "dual value that its own answer contradicts"),
        (EXACT, "Answers", {"bound": lambda a: a + 3.0}, "dual value that its own answer contradicts"),
        (EXACT, "FinalFigures", {"gain": entry(0.9)}, "more accuracy than its rows allow"),
        (EXACT, "FinalFigures", {"shares": entry(0.9)}, "larger share"),
        (EXACT, "FinalFigures", {"exceeding": entry(2.0)}, "neither 0 nor 1"),
        (EXACT, "FinalFigures", {"exceeding": entry(0.5)}, "neither 0 nor 1"),
        (CALIBRATED, "GroupRows", {"rows": entry(-1.0)}, "impossible number of rows"),
        (CALIBRATED, "GroupRows", {"mass": lambda a: a + 1.0, "rows": lambda a: 0 * a}, "impossible number of rows"),
        (CALIBRATED, "FoldCounts", {"counts": lambda a: 0.5 * a}, "another number of rows than before"),
        (CALIBRATED, "FoldCounts", {"counts": entry(-3.0, -1)}, "impossible number of rows"),
        (CALIBRATED, "FoldCounts", {"counts": entry(1e14, -1)}, "impossible number of rows"),
        (CALIBRATED, "FoldCounts", {"counts": entry(1e9)}, "calibration sums that no rows can have"),
        (CALIBRATED, "FoldCounts", {"sums": entry(1e9)}, "calibration sums that no rows can have"),
        (CALIBRATED, "FoldCounts", {"sums": entry(-1.0)}, "calibration sums that no rows can have"),
        (CALIBRATED, "Curvature", {"sums": lambda a: a + 1e6}, "calibration sums that no rows can have"),
        (CALIBRATED, "Curvature", {"sums": lambda a: -a}, "calibration sums that no rows can have"),
        (CALIBRATED, "Totals", {"mass": lambda a: 3 * a}, "another number of rows than before"),
        (PAPER, "Smoothness", {"constant": entry(-1.0)}, "smoothness constants that no rows can have"),
        (PAPER, "Smoothness", {"constant": entry(1e300)}, "smoothness constants that no rows can have"),
        (PAPER, "Steps", {"change": entry(1e5)}, "larger change of the multipliers"),
    ],
)
def test_numbers_that_no_rows_can_give_exclude_their_site(options, kind, change, said):
    assert said in excluded(plan_of(**options), with_body(**change), kind=kind)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: replace(r, body=replace(r.body, mass=r.body.mass[:1])), "of shape (1,) where (2,) was requested"),
        (lambda r: replace(r, body=replace(r.body, mass=r.body.mass[None])), "of shape (1, 2)"),
        (lambda r: replace(r, body=replace(r.body, mass=r.body.mass.astype(np.int64))), "no message"),
        (lambda r: replace(r, body=replace(r.body, mass=3.5)), "no message"),
        (lambda r: replace(r, body=replace(r.body, mass=None)), "no message"),
        (lambda r: replace(r, body=None), "sent a NoneType where a Totals was requested"),
        (lambda r: replace(r, body="rows"), "no message"),
        (lambda r: replace(r, body=FinalRequest(np.zeros(1), np.zeros(1))), "no message"),
        (lambda r: replace(r, site="a"), "in another's name"),
        (lambda r: replace(r, run="other"), "another request"),
        (lambda r: replace(r, roster=2), "another request"),
        (lambda r: replace(r, number=9), "another request"),
        (lambda r: replace(r, refusal="BAD_DATA"), Refusal.BAD_DATA.value),
        (lambda r: replace(r, refusal=MARK), "a reason this version does not know"),
        (lambda r: replace(r, refusal=3), "no message"),
        (lambda r: Totals(np.ones(2), np.ones(2), np.zeros((2, 0)), np.zeros(0)), "no message"),
        (lambda r: b"", "no message"),
        (lambda r: b"\x00\x00\x00\x02{}", "no message"),
        (lambda r: encode(r)[:-5], "no message"),
        (lambda r: encode(r) + b"more", "no message"),
        (lambda r: np.random.default_rng(0).bytes(400), "no message"),
        (lambda r: MARK.encode(), "no message"),
    ],
)
def test_replies_of_another_form_place_or_name_exclude_their_site_and_are_never_repeated(change, said):
    reason = excluded(plan_of(**EXACT), change, number=1)
    assert said in reason
    assert MARK not in reason


@pytest.mark.parametrize("refusal", list(Refusal))
def test_every_refusal_is_reported_in_words(refusal):
    def refused(reply):
        return replace(reply, body=None, refusal=refusal.name)

    assert excluded(plan_of(**EXACT), refused, number=2) == refusal.value


def test_a_lie_in_the_final_figures_that_breaks_the_promise_stops_the_run():
    """Within what its rows allow, but not what was agreed: nothing is published."""
    sites, plan = small(), plan_of(**EXACT)
    number = when(plan, sites)["FinalFigures"]

    def lie(shares):
        moved = np.array(shares)
        moved[0] = 0.0
        return moved

    with pytest.raises(RunError, match=r"miss a requirement by .* so nothing is published"):
        go(plan, Tampered(clients(sites), instead("b", number, with_body(shares=lie))))
    with pytest.raises(RunError, match="1 sites locally"):
        go(plan, Tampered(clients(sites), instead("b", number, with_body(exceeding=entry(1.0)))))


class Failing(Client):
    """A client whose computation fails with data in the error's text."""

    def sums(self, message):
        if message.number == 2:
            raise ZeroDivisionError(f"cannot divide {MARK}")
        return super().sums(message)


def test_an_exception_inside_a_site_is_a_word_outside():
    sites, plan = small(), plan_of(**EXACT)
    every = clients(sites)
    every["b"] = Failing("b", sites["b"])
    transport = Tampered(every)
    result, _ = go(plan, transport)
    assert result.excluded[0].reason == Refusal.INTERNAL.value
    assert result.sites == ("a", "c")
    assert MARK in transport.sites["b"].trouble
    assert not any(MARK.encode() in data for _, data in transport.sent + transport.heard)


@pytest.mark.parametrize(
    ("columns", "refusal"),
    [
        (SiteColumns([0, MARK, 1], [0.1, 0.2, 0.3]), Refusal.UNKNOWN_GROUP),
        (SiteColumns([0, 1], [0.1, MARK]), Refusal.BAD_DATA),
        (SiteColumns([0, 1], [0.1, 17.17]), Refusal.BAD_DATA),
        (SiteColumns([0, 1], [0.1, np.nan]), Refusal.BAD_DATA),
        (SiteColumns([0, 1], [0.1]), Refusal.BAD_DATA),
        (SiteColumns([], []), Refusal.BAD_DATA),
        (SiteColumns(None, None), Refusal.BAD_DATA),
        (SiteColumns([0, None], [0.1, 0.2]), Refusal.BAD_DATA),
        (SiteColumns([0, 1], [0.1, 0.2], sample_weight=[0.0, 0.0]), Refusal.BAD_DATA),
        (SiteColumns([0, 1], [0.1, 0.2], sample_weight=[1.0, -1.0]), Refusal.BAD_DATA),
    ],
)
def test_a_site_with_unusable_rows_says_only_that(columns, refusal):
    sites = small() | {"d": columns}
    transport = Tampered(clients(sites))
    result, _ = go(plan_of(**EXACT), transport)
    assert result.excluded[0].site == "d"
    assert result.excluded[0].reason == refusal.value
    replies = [data for site, data in transport.sent if site == "d"]
    assert not any(MARK.encode() in data or b"17.17" in data for data in replies)
    assert decode(replies[0], ReplyMessage).body is None
    with pytest.raises((InputError, RefusedError), match="site 'd'"):
        run(plan_of(**EXACT), sites)


def test_a_site_without_the_labels_a_plan_needs_is_excluded_by_name():
    sites = small() | {"d": SiteColumns([0, 1], [0.2, 0.7])}
    result, _ = go(plan_of(**CALIBRATED), LocalTransport(clients(sites)))
    assert result.excluded[0].reason == Refusal.NO_LABELS.value


def test_a_site_whose_own_check_fails_sends_nothing(monkeypatch):
    """Every client checks its reply as the server would, before it leaves."""
    sites, plan = small(), plan_of(**EXACT)
    honest = logofair.federation.client.fault

    def suspicious(own, request, *rest):
        return f"claims {MARK}" if type(own).__name__ == "Answers" else honest(own, request, *rest)

    client = clients(sites)["a"]
    server = Server.start(plan, list(sites))
    client, _ = client.handle(server.message())
    server = server.take(Totals(np.array([50.0, 55.0]), np.array([20.0, 25.0]), np.zeros((2, 0)), np.zeros(0)))
    monkeypatch.setattr(logofair.federation.client, "fault", suspicious)
    after, reply = client.handle(server.message())
    assert reply.refusal == "IMPLAUSIBLE"
    assert reply.body is None
    assert MARK.encode() not in encode(reply)
    assert MARK in after.trouble
    assert after.stored is client.stored


@cache
def requests_of_a():
    """The requests of a whole run to site a."""
    transport = Tampered(clients(small()))
    go(plan_of(**EXACT), transport)
    return [decode(message, RequestMessage) for site, message in transport.heard if site == "a"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: replace(r, prices=np.full_like(r.prices, np.nan)),
        lambda r: replace(r, prices=r.prices[:, :1]),
        lambda r: replace(r, prices=r.prices[..., :0]),
        lambda r: replace(r, prices=None),
        lambda r: replace(r, mass=r.mass[:1]),
        lambda r: replace(r, mass=0 * r.mass),
        lambda r: replace(r, mass="many"),
        lambda r: replace(r, positives=np.full_like(r.positives, np.inf)),
        lambda r: FinalRequest(r.prices[:0], np.zeros(0)),
        lambda r: FinalRequest(r.prices, np.zeros(7)),
        lambda r: FinalRequest(None, None),
    ],
)
def test_whatever_a_server_asks_a_site_answers_or_refuses_but_never_fails(damage):
    sites, messages = small(), requests_of_a()
    client, _ = clients(sites)["a"].handle(messages[0])
    with np.errstate(all="ignore"):
        after, reply = client.handle(replace(messages[1], request=damage(messages[1].request)))
    assert isinstance(reply, ReplyMessage)
    if reply.refusal is None:
        assert all(np.isfinite(getattr(reply.body, f.name)).all() for f in fields(reply.body))
    else:
        assert after.stored is client.stored
        assert after.handle(messages[1])[1].refusal is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("options", "kind", "field"), [(EXACT, "Final", "prices"), (PAPER, "Steps", "multipliers")])
def test_prices_that_are_no_finite_numbers_are_refused_whatever_asks_them(options, kind, field, value):
    transport = Tampered(clients(small()))
    go(plan_of(**options), transport)
    messages = [decode(message, RequestMessage) for site, message in transport.heard if site == "a"]
    at = next(number for number, each in enumerate(messages) if type(each.request).__name__ == f"{kind}Request")
    client = clients(small())["a"]
    for message in messages[:at]:
        client, _ = client.handle(message)
    odd = getattr(messages[at].request, field).copy()
    odd.flat[0] = value
    after, reply = client.handle(replace(messages[at], request=replace(messages[at].request, **{field: odd})))
    assert reply.refusal == "BAD_REQUEST"
    assert after.stored is client.stored
    assert client.handle(messages[at])[1].refusal is None


def test_a_site_with_an_empty_cell_takes_part_and_is_told():
    sites = small() | {"d": SiteColumns([1] * 20, rows(20, seed=4).scores), "e": SiteColumns([0], [0.9])}
    for options in (EXACT, {}, PAPER):
        plan = plan_of(**options)
        done = run(plan, sites)
        assert "d" in done.result.sites
        assert any("Nobody is there: 0 at d" in line for line in done.policies["d"].info.warnings)
        assert done.policies["d"].decide([0.7, 0.2], sensitive_features=[0, 0], ids=[1, 2]).tolist() == [1, 0]
        if plan.solver is None:
            best = central({s: replace(c, labels=np.zeros(len(c.scores))) for s, c in sites.items()}, options)
            assert done.result.accuracy == pytest.approx(best.certificate.primal, abs=2 * plan.optimality_gap)
            assert done.result.holds


def test_a_run_in_one_process_says_which_site_cannot_be_used():
    with pytest.raises(InputError, match="site 'd': scores: row 1 is 2"):
        run(plan_of(), small() | {"d": SiteColumns([0, 1], [0.5, 2.0])})
    with pytest.raises(QuorumLostError):
        run(plan_of(), {"a": rows(10)})


def test_a_site_answers_no_more_prices_than_the_plan_allows():
    plan = plan_of(rounds=2, trials=3)
    assert plan.most_prices == 2 * 3 + 2 * 2 + 1
    batch, totals = ClientBatch.of({"a": rows(30)}, plan).answer(TotalsRequest())
    prices = np.linspace(0, 1e-3, plan.most_prices)[:, None, None] * np.ones((1, 2, 1))
    batch, _ = batch.answer(AnswersRequest(totals.mass[0], totals.positives[0], prices))
    with pytest.raises(RefusedError, match="more prices were sent than the plan allows"):
        batch.answer(AnswersRequest(totals.mass[0], totals.positives[0], prices[:1]))
