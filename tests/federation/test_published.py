"""A forged result is neither stored nor explained, and only the site's own people learn of it."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

import logofair.engines.site as on_disk
from logofair.engines.inprocess import run
from logofair.errors import InputError, RefusedError
from logofair.federation import Client, Server, late_policy
from logofair.federation.exchanges.final import FinalRequest, PublishRequest, Received, wrong_in
from logofair.federation.messages import ReplyMessage, RequestMessage
from logofair.federation.plan import Members
from logofair.federation.policies import SitePolicies
from logofair.policy.info import PublishedInfo
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
    result = plain(server.request.result)
    forge(result)
    request = PublishRequest(read(result, PublishedInfo))
    return client.handle(decode(encode(replace(server.message(), request=request)), RequestMessage))


def proved(accuracy, bound=None):
    """A forged proof: so accurate, no rule is better, nothing is exceeded."""

    def forge(result):
        bound_ = accuracy if bound is None else bound
        gap = bound_ - accuracy
        result["certificate"] |= {
            "primal": accuracy,
            "dual": bound_,
            "optimality_gap": gap,
            "violation": 0.0,
            "holds": True,
        }

    return forge


def stricter(result):
    result["requirements"]["require"][0] = "selection rate gap <= 0.005 per site"


def taking_part(sites, *, named=False):
    """A forged roster."""
    who = Members.of(sites, named=named)
    return lambda result: result["run"].update(sites=who.number, roster=who.digest, names=list(who.names))


FORGED = [
    (proved(0.96), "accuracy of 96.00%"),
    (proved(0.005), "accuracy of 0.50%"),
    (proved(0.7, 0.6), "contradict each other"),
    (proved(0.7, 0.75), "claims to hold"),
    (stricter, "other requirements than the plan"),
    (lambda r: r["run"].update(run="winter"), "another run"),
    (lambda r: r["run"].update(secure_sums=True), "another run"),
    (taking_part("bc", named=True), "leaves this site out"),
    (taking_part("abd"), "not in the roster: as many"),
    (taking_part("abcd"), "not in the roster: more"),
    (lambda r: r["run"].update(sites=2), "not in the roster: fewer, by another number of the same names"),
    (taking_part("ab"), "not in the roster: fewer, and nobody was excluded"),
    (
        lambda r: r["run"].update(excluded=[{"site": "a", "reason": "x", "during": "x"}]),
        "leaves this site out: excluded",
    ),
    (lambda r: r["run"].update(names=["a", "b"]), "malformed: others are named"),
    (
        lambda r: r["requirements"]["require"].append("selection rate gap <= 0.5 at a"),
        "other requirements: single",
    ),
    (lambda r: r["run"]["groups"].update({"0": 5.0}), "other numbers of rows"),
    (lambda r: r["run"]["groups"].pop("0"), "other numbers of rows"),
    (lambda r: r["run"]["global_gaps"].update({"selection rate": 0.3}), "claims a violation of 0.00000"),
    (
        lambda r: (r["run"]["global_gaps"].update({"selection rate": 0.3}), r["certificate"].update(violation=0.29)),
        "misses a requirement",
    ),
    (lambda r: r["run"].update(global_gaps={}), "other rates"),
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


# What others alone know: nothing that a site was sent, or has measured, contradicts it.
BELIEVED = {
    "plain": {"logofair text"},
    "costs": {"logofair text"},
    "capacity": {"logofair text", "run global_rates share selected all groups -0.01"},
    "ratio": {"logofair text"},
    "algorithm1": {"logofair text"},
    "today": {
        "logofair text",
        *(f"run today true positive rate 0 {how}" for how in ("-0.01", "a little more")),
        *(f"run global_rates true positive rate {a} {how}" for a in (0, 1) for how in ("+0.01", "a little more")),
        *(f"run today true positive rate 1 {how}" for how in ("+0.01", "-0.01", "a little more")),
    },
    "pooling": {
        "logofair text",
        "run exchanges calibration +1",
        "run exchanges pooling +1",
        "own_rows accuracy +0.01",
        "own_rows accuracy -0.01",
        "own_rows global_gaps selection rate +0.01",
        "own_rows accuracy a little more",
        "own_rows global_gaps selection rate -0.01",
        "own_rows global_gaps selection rate a little more",
        "run global_gaps selection rate -0.01",
    },
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
    assert wrong_in(client.batch, server.request.result) is None
    for path, how, values in single_changes(plain(server.request.result)):
        try:
            result = read(values, PublishedInfo)
        except FAULTS:
            continue  # such a message cannot be read
        if result != server.request.result and wrong_in(client.batch, result) is None:
            believed.add(" ".join([*map(str, path), how]))
    assert believed <= BELIEVED[name]


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
        stored, reply = publish(server, client, lambda result: None)
        assert (type(reply.body), stored.trouble) == (Received, "")
        assert SitePolicies(stored.batch)[client.site].info.certificate.holds
    forged, _ = publish(server, every["a"], stricter)
    again, reply = publish(replace(server, number=server.number + 1), forged, lambda result: None)
    assert reply.refusal is None
    assert again.finished
    assert again.trouble == ""


def test_a_site_that_was_made_to_accept_nearly_all_of_one_group_does_not_believe_that_all_is_fair():
    """96 % against 0.5 %, "proved": its own part of the rates leaves no room for the gap that was published."""
    plan = plan_of(local_tolerance=None)
    server, _ = at_publication(plan)
    honest_result = server.request.result

    def one_sided(request):
        price = 5.0 * np.array([[1.0], [-1.0]])
        return FinalRequest(price[None], np.ones(1))

    tricked, every = at_publication(plan, one_sided)
    batch = every["a"].batch
    few, most = evaluate(batch.problem.cells, batch.state.rules)[0]
    assert few < 0.01
    assert most > 0.95

    def forge(result):
        result.update(plain(honest_result))
        proved(0.6)(result)  # which the others could make up for

    client, reply = publish(tricked, every["a"], forge)
    assert reply.refusal is None
    assert "gap of 0.0100 in the selection rate over all sites" in client.trouble
    assert not client.finished


def test_a_site_on_disk_writes_no_policy_and_says_so_to_its_own_people(tmp_path, honest):
    server, every = honest
    folder = tmp_path / "private"
    result = plain(server.request.result)
    proved(0.96)(result)
    result = read(result, PublishedInfo)
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
    message, events = encode(replace(server.message(), request=PublishRequest(result))), []
    reply = decode(on_disk.answer_on_disk(str(file), message, tell=events.append), ReplyMessage)
    assert (type(reply.body), reply.refusal) == (Received, None)
    assert not policy.exists()
    assert [event.kind for event in events] == ["forged", "reply"]
    assert "96.00%" in events[0].sentence


def test_a_result_file_that_contradicts_itself_makes_no_late_policy():
    result = run(plan_of(), SITES).result
    assert late_policy(result, SITES["a"], "a").info.certificate.holds
    for forged in (replace(result, accuracy=0.96, bound=0.96), replace(result, accuracy=result.bound + 0.1)):
        with pytest.raises(InputError, match="get the file again"):
            late_policy(forged, SITES["a"], "a")
    with pytest.raises(InputError, match="get the file again"):
        late_policy(replace(result, accuracy=result.bound + 0.1), SITES["b"], "late")


def test_a_site_that_was_never_asked_takes_no_result():
    server = Server.start(plan_of(), SITES)
    client = Client("a", SITES["a"])
    client, _ = client.handle(server.message())
    message = replace(
        server.message(), number=2, opening=None, request=PublishRequest(run(plan_of(), SITES).result.published())
    )
    assert client.handle(message)[1].refusal == "OUT_OF_TURN"


@pytest.mark.parametrize("odd", [np.zeros(2), b"bytes", [["a", "b"]], {"deep": {"deeper": {}}}], ids=str)
def test_a_result_that_holds_something_else_cannot_be_read(honest, odd):
    server, _ = honest
    result = plain(server.request.result)
    for path, _ in leaves(result):
        if path and len(path) <= 2:
            with pytest.raises(FAULTS):
                read(changed(result, path, lambda _: odd), PublishedInfo)
