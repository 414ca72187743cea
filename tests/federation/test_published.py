"""A forged result is neither stored nor explained, and only the site's own people learn of it."""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import numpy as np
import pytest

import logofair.engines.site as on_disk
from logofair.engines.inprocess import run
from logofair.errors import InputError, RefusedError
from logofair.federation import Client, Server, late_policy
from logofair.federation.exchanges.final import FinalRequest
from logofair.federation.exchanges.publication import PublishRequest, Received, wrong_in
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.federation.plan import Members
from logofair.federation.policies import SitePolicies
from logofair.federation.result import ExcludedSite
from logofair.policy.mixtures import evaluate
from logofair.records import FAULTS, decode, encode, plain, read
from support.sites import clients, federation, plan_of

pytestmark = pytest.mark.federation

SITES = federation((120, 40, 30))


def at_publication(plan, change=lambda request: request):
    """The sites of a run whose server is about to publish; ``change`` is what it makes of its final request."""
    server, every = Server.start(plan, SITES), clients(SITES)
    while True:
        message = server.message()
        if isinstance(message.request, PublishRequest):
            return server, every
        if isinstance(message.request, FinalRequest):
            message = replace(message, request=change(message.request))
        bodies = []
        for site in SITES:
            every[site], reply = every[site].handle(decode(encode(message), RequestMessage))
            assert reply.refusal is None, every[site].trouble
            bodies.append(reply.body)
        server = server.take(type(bodies[0]).stacked(bodies).total())


def publish(server, client, forge):
    """Hand a client the result as a forger would, in bytes."""
    sent = plain(server.request)
    forge(sent)
    return client.handle(decode(encode(replace(server.message(), request=read(sent, PublishRequest))), RequestMessage))


def gained(more, bound=0.0):
    """Forged figures: so much more is gained by all policies together, and could be at most."""

    def forge(sent):
        sent["figures"]["gain"][0] += more
        sent["bound"] += bound

    return forge


def shared(group, more):
    """A forged rate of one group over all sites."""

    def forge(sent):
        sent["figures"]["shares"][group][0] += more

    return forge


def taking_part(sites, *, named=False):
    """A forged roster."""
    return lambda sent: sent.update(members=plain(Members.of(sites, named=named)))


FORGED = [
    (gained(0.4, 0.4), "more accuracy than its rows allow"),
    (gained(-0.8, -0.8), "less accuracy than its rows allow"),
    (gained(0.0, -0.01), "beat their own bound"),
    (gained(0.01), "beat their own bound: by all"),
    (shared(0, 0.6), "larger share of a group's rate than its rows allow: of one that is smaller"),
    (shared(0, -0.6), "larger share of a group's rate than its rows allow: the other way round"),
    (shared(0, 0.05), "miss a requirement by"),
    (lambda sent: sent["figures"].update(exceeding=[1.0]), "miss a requirement by: at another site"),
    (lambda sent: sent["figures"].update(gain=[0.1, 0.1]), "sent gain of shape"),
    (lambda sent: sent.update(today=[[0.0], [0.0]]), "malformed"),
    (lambda sent: sent.update(bound_prices=[[0.0]]), "malformed: prices"),
    (lambda sent: sent.update(bound_prices=[[0.5], [-0.5]]), "other prices than were sent"),
    (taking_part("bc", named=True), "leaves this site out"),
    (taking_part("abd"), "not in the roster: as many"),
    (taking_part("abcd"), "not in the roster: more"),
    (lambda sent: sent["members"].update(number=2), "not in the roster: fewer, by another number of the same names"),
    (taking_part("ab"), "not in the roster: fewer"),
    (taking_part("abc", named=True), "not in the roster: named, though nobody was sent names"),
    (
        lambda sent: sent.update(excluded=[vars(ExcludedSite("a", "x", 1, "x"))]),
        "leaves this site out: excluded",
    ),
]


def leaves(value, path=()):
    """Every part of a result, with where it stands."""
    yield path, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, part in inside:
        yield from leaves(part, (*path, place))


def changed(result, path, new):
    """A copy of a result in which one part is another; ``new`` makes it of the old one."""
    made = copy.deepcopy(result)
    holder = made
    for place in path[:-1]:
        holder = holder[place]
    if new is None:
        del holder[path[-1]]
    else:
        holder[path[-1]] = new(holder[path[-1]])
    return made


def single_changes(result):
    """Results that differ in one part from an honest one, each with what was done where."""
    for path, value in leaves(result):
        kind = type(value)
        if path:
            yield path, "left out", changed(result, path, None)
        if kind is dict:
            more = {**value, "strange": 1}
            yield path, "another", changed(result, path, lambda _, more=more: more) if path else more
        elif kind is list:
            yield path, "another", changed(result, path, lambda old: [*old, copy.deepcopy(old[0]) if old else "x"])
        elif kind is bool:
            yield path, "not", changed(result, path, lambda old: not old)
        elif kind is str:
            yield path, "text", changed(result, path, lambda old: old[:-1] + ("x" if old[-1:] != "x" else "y"))
        elif value is None:
            yield path, "none", changed(result, path, lambda _: 1)
        else:
            for add in (1, 0.01, -1 - 2 * value, -0.01):
                yield path, f"{add:+}", changed(result, path, lambda old, add=add: old + add)
            yield path, "a little more", changed(result, path, lambda old: old + 1e-5)
            yield path, "huge", changed(result, path, lambda old: 1e308)


# What others alone know, within what their rows can give: nothing that a site was sent, or has measured, contradicts
# it. A higher bound only claims less; and Algorithm 1, which may exceed its tolerances, may exceed its bound.
LITTLE = r"([+-]0\.01|a little more)"
OTHERS = (
    rf"bound (\+1|\+0\.01|a little more|huge)|figures (gain 0 -0\.01|shares \d 0 {LITTLE}|exceeding 0 a little more)"
)
BELIEVED = {
    "plain": OTHERS,
    "costs": OTHERS,
    "ratio": OTHERS,
    "capacity": rf"{OTHERS}|figures combinations 0 -0\.01",
    "pooling": rf"{OTHERS}|exchanges (calibration|pooling) \+1|figures own \d \d (\+1|{LITTLE})",
    "algorithm1": rf"{OTHERS}|bound -.*|figures (gain 0 {LITTLE}|exceeding 0 \+1)",
    "today": rf"{OTHERS}|today \d 0 (\+1|{LITTLE})",
}
PLANS = {
    "plain": {},
    "costs": {"costs": (1, 3)},
    "capacity": {"capacity": 0.4},
    "pooling": {"calibration": "beta", "pooling": "full"},
    "ratio": {"global_tolerance": ("ratio", 0.8)},
    "algorithm1": {"solver": "algorithm1", "rounds": 5},
    "today": {
        "require": ["true positive rate of 0 >= today overall", "selection rate gap <= 0.05 per site"],
        "local_tolerance": None,
        "global_tolerance": None,
    },
}


@pytest.mark.parametrize("name", PLANS)
def test_no_single_change_of_a_published_result_is_believed_but_of_what_others_alone_know(name):
    server, every = at_publication(plan_of(**PLANS[name]))
    client, believed = every["a"], set()
    assert wrong_in(client.batch, server.request.result(client.batch.state)) is None
    for path, how, values in single_changes(plain(server.request)):
        try:
            request = read(values, PublishRequest)
        except (*FAULTS, InputError):
            continue  # such a message cannot be read
        if encode(request) != encode(server.request):
            stored, reply = client.handle(replace(server.message(), request=request))
            if reply.refusal is None and stored.finished:
                believed.add(" ".join([*map(str, path), how]))
    assert [each for each in sorted(believed) if not re.fullmatch(BELIEVED[name], each)] == []


@pytest.fixture(scope="module")
def honest():
    return at_publication(plan_of())


@pytest.mark.parametrize(("forge", "words"), FORGED, ids=[words for _, words in FORGED])
def test_a_forged_result_is_not_stored_and_the_server_learns_nothing(honest, forge, words):
    server, every = honest
    client, reply = publish(server, every["a"], forge)
    assert (type(reply.body), reply.refusal) == (Received, None)
    assert words.split(":")[0] in client.trouble
    assert not client.finished
    assert client.stored.state.result is None
    with pytest.raises(RefusedError, match="refused"):
        SitePolicies(client.batch)["a"]


def test_the_honest_result_is_stored_at_every_site_even_after_a_forged_one(honest):
    server, every = honest
    for client in every.values():
        stored, reply = publish(server, client, lambda sent: None)
        assert (type(reply.body), stored.trouble) == (Received, "")
        assert SitePolicies(stored.batch)[client.site].info.certificate.holds
    forged, _ = publish(server, every["a"], gained(0.1))
    again, reply = publish(replace(server, number=server.number + 1), forged, lambda sent: None)
    assert reply.refusal is None
    assert again.finished
    assert again.trouble == ""


def test_a_site_that_was_made_to_accept_nearly_all_of_one_group_does_not_believe_that_all_is_fair():
    """96 % against 0.5 %, "proved": its own part of the rates leaves no room for the gap that was published."""
    plan = plan_of(local_tolerance=None)
    server, _ = at_publication(plan)
    honest_request = plain(server.request)

    def one_sided(request):
        price = 5.0 * np.array([[1.0], [-1.0]])
        return FinalRequest(price[None], np.ones(1))

    tricked, every = at_publication(plan, one_sided)
    batch = every["a"].batch
    few, most = evaluate(batch.problem.cells, batch.state.rules)[0]
    assert few < 0.01
    assert most > 0.95

    def forge(sent):
        sent.update(copy.deepcopy(honest_request))
        reached = 0.6 - tricked.result.required.reported(0.0)  # which the others could make up for
        sent.update(bound=reached)
        sent["figures"].update(gain=[reached])

    client, reply = publish(tricked, every["a"], forge)
    assert reply.refusal is None
    assert "claims a larger share of a group's rate than its rows allow" in client.trouble
    assert not client.finished


def test_a_site_on_disk_writes_no_policy_and_says_so_to_its_own_people(tmp_path, honest):
    server, every = honest
    folder = tmp_path / "private"
    sent = plain(server.request)
    gained(0.4, 0.4)(sent)
    request = read(sent, PublishRequest)
    names = on_disk.ColumnNames(score="p", label="y", group=("sex",))
    columns = SITES["a"]
    lines = [
        f"{g},{float(s)!r},{y}"
        for g, s, y in zip(columns.sensitive_features, columns.scores, columns.labels, strict=True)
    ]
    (tmp_path / "rows.csv").write_text("sex,p,y\n" + "\n".join(lines) + "\n", encoding="utf-8")
    file, policy = tmp_path / "site.json", tmp_path / "policy.json"
    on_disk.SiteSettings("a", str(tmp_path / "rows.csv"), names, str(folder), str(policy)).write(file)
    folder.mkdir()
    known = on_disk.StoredSite(every["a"].stored, on_disk.fingerprint(str(tmp_path / "rows.csv")))
    on_disk._CLIENT.write(folder / "test.client.json", known)
    message, events = encode(replace(server.message(), request=request)), []
    reply = decode(on_disk.answer_on_disk(str(file), message, tell=events.append), ReplyMessage)
    assert (type(reply.body), reply.refusal) == (Received, None)
    assert not policy.exists()
    assert [event.kind for event in events] == ["forged", "reply"]
    assert "claims more accuracy than its rows allow" in events[0].sentence


def test_a_result_file_that_contradicts_itself_makes_no_late_policy():
    result = run(plan_of(), SITES).result
    assert late_policy(result, SITES["a"], "a").info.certificate.holds
    more = 0.96 - result.accuracy
    perfect = replace(
        result,
        figures=replace(result.figures, gain=result.figures.gain + more),
        final=replace(result.final, bound=float(result.figures.gain[0]) + more),
    )
    above_bound = replace(result, figures=replace(result.figures, gain=np.array([result.final.bound + 0.1])))
    for forged, site, name in ((perfect, "a", "a"), (above_bound, "a", "a"), (above_bound, "b", "late")):
        with pytest.raises(InputError, match="get the file again"):
            late_policy(forged, SITES[site], name)


def test_a_site_that_was_never_asked_takes_no_result():
    server = Server.start(plan_of(), SITES)
    client = Client("a", SITES["a"])
    client, _ = client.handle(server.message())
    message = replace(server.message(), number=2, opening=None, request=PublishRequest.of(run(plan_of(), SITES).result))
    assert client.handle(message)[1].refusal == "OUT_OF_TURN"


@pytest.mark.parametrize("odd", [np.zeros(2), b"bytes", [["a", "b"]], {"deep": {"deeper": {}}}], ids=str)
def test_a_result_that_holds_something_else_cannot_be_read_or_is_not_stored(honest, odd):
    server, every = honest
    sent = plain(server.request)
    for path, _ in leaves(sent):
        if path and len(path) <= 2:
            try:
                request = read(changed(sent, path, lambda _: odd), PublishRequest)
            except (*FAULTS, InputError):
                continue
            assert not every["a"].handle(replace(server.message(), request=request))[0].finished
