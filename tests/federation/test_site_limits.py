"""What a site's people have agreed to: a plan that keeps within it is answered, any other with one fixed word."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from logofair.engines.inprocess import LocalTransport
from logofair.errors import InputError, RunError
from logofair.federation import Client, Privacy, Server, SiteLimits
from logofair.federation.plan import Members
from logofair.notions import Notion, Rate
from logofair.records import plain, read
from logofair.solvers.algorithm1 import Algorithm1
from logofair.words.federated import plan_sentences
from support.sites import BENEFIT, clients, federation, go, identities, plan_of

pytestmark = pytest.mark.federation

PRIVACY = Privacy(1.0, 1e-6, neighbours="replace")
PRIVATE = {"privacy": PRIVACY}
# What is limited, a plan that keeps within it, one that does not, and the decisive words.
CASES = [
    ({"only_secure": True}, {"secure": True}, {}, "no secure sums"),
    ({"most_epsilon": 1.0}, PRIVATE, {"privacy": replace(PRIVACY, epsilon=1.1)}, "epsilon 1.1"),
    ({"most_epsilon": 1.0}, PRIVATE, {}, "no differential privacy"),
    ({"most_delta": 1e-6}, PRIVATE, {"privacy": replace(PRIVACY, delta=1e-5)}, "delta 1e-05"),
    ({"most_epsilon": 1.0}, PRIVATE, {"privacy": replace(PRIVACY, delta=0.01)}, "delta 0.01; this site spends 1e-06"),
    ({"most_delta": 1e-6}, PRIVATE, {}, "no differential privacy"),
    ({"neighbours": "replace"}, PRIVATE, {"privacy": replace(PRIVACY, neighbours="add-remove")}, "'add-remove'"),
    ({"smallest_cell": 5}, {"smallest_cell": 5}, {"smallest_cell": 4}, "groups of 4 rows"),
    ({"smallest_cell": 5}, PRIVATE, {"smallest_cell": 1}, "groups of 1 rows"),
    ({"most_local_tolerance": 0.05}, {}, {"local_tolerance": 0.06}, "inside this site is 0.06"),
    ({"most_local_tolerance": 0.05}, {}, {"local_tolerance": None}, "inside this site free"),
    ({"most_local_tolerance": 0.05}, {"site_tolerances": {"b": 0.5}}, {"site_tolerances": {"a": 0.5}}, "is 0.5"),
    ({"most_local_tolerance": 0.05}, {}, {"site_tolerances": {"a": None}}, "inside this site free"),
    ({"most_global_tolerance": 0.01}, {}, {"global_tolerance": 0.02}, "over all sites is 0.02"),
    ({"most_global_tolerance": 0.01}, {}, {"global_tolerance": None}, "over all sites free"),
    ({"local_tolerance": 0.05}, {}, {"local_tolerance": 0.04}, "this site's own, 0.05, is larger"),
    ({"local_tolerance": 0.05}, {"local_tolerance": None}, {"site_tolerances": {"a": 0.01}}, "is larger"),
    (
        {"local_tolerance": 0.01, "most_local_tolerance": 0.02},
        {"local_tolerance": 0.5},
        {"local_tolerance": 0.0},
        "own",
    ),
    ({"most_rounds": 200}, {}, {"rounds": 201}, "201 rounds"),
    ({"most_rounds": 4}, {"solver": Algorithm1(rounds=4)}, {"solver": Algorithm1(rounds=5)}, "5 rounds"),
    ({"most_prices": 405}, {}, {"trials": 3}, "605 prices"),
    ({"most_prices": 5}, {"solver": Algorithm1(rounds=4)}, {"solver": Algorithm1(rounds=5)}, "6 prices"),
    ({"pooling": False}, {}, {"pooling": "auto"}, "histograms of scores"),
    ({"calibration": False}, {}, {"calibration": "beta"}, "sums over labels"),
    ({"most_folds": 5}, {"calibration": "beta"}, {"calibration": "beta", "folds": 6}, "6 folds"),
    ({"most_smallest_cell": 20}, {"smallest_cell": 20}, {"smallest_cell": 21}, "below 21 rows"),
]


@pytest.mark.parametrize(("limits", "good", "bad", "words"), CASES, ids=str)
def test_every_limit_lets_a_plan_within_it_pass_and_says_why_another_does_not(limits, good, bad, words):
    made = SiteLimits(**limits)
    assert made.objection(plan_of(**good), "a", 3) is None
    assert words in made.objection(plan_of(**bad), "a", 3)
    assert read(json.loads(json.dumps(plain(made))), SiteLimits) == made


def test_without_limits_any_plan_is_agreed_to():
    for _, good, bad, _ in CASES:
        assert SiteLimits().objection(plan_of(**good), "a", 1) is None
        assert SiteLimits().objection(plan_of(**bad), "a", 1) is None


def test_a_roster_may_be_too_small():
    limits = SiteLimits(least_sites=3)
    assert limits.objection(plan_of(), "a", 3) is None
    assert limits.objection(plan_of(), "a") is None  # not known yet
    assert "2 sites" in limits.objection(plan_of(), "a", 2)


def test_a_digest_pins_the_plan_to_the_last_number():
    plan = plan_of()
    limits = SiteLimits(plan=plan.fingerprint.upper().replace("-", " "))
    assert limits.objection(plan, "a") is None
    for other in (plan_of(run="tess"), plan_of(local_tolerance=0.05000001), plan_of(secure=True), plan_of(rounds=201)):
        assert plan.fingerprint in limits.objection(other, "a")
        assert other.fingerprint in limits.objection(other, "a")


@pytest.mark.parametrize("wrong", ["", "12ab", "x" * 32, "0" * 31, "0" * 64, 7])
def test_a_digest_that_is_none_is_refused(wrong):
    with pytest.raises(InputError, match="digest that the server prints"):
        SiteLimits(plan=wrong)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("most_epsilonn = 1", "most_epsilonn: no such limit.*did you mean 'most_epsilon'"),
        ("only_secure = 1", "only_secure: got 1"),
        ("smallest_cell = 2.5", "smallest_cell"),
        ("least_sites = 0", "least_sites"),
        ("most_epsilon = -1", "most_epsilon"),
        ("most_delta = 'little'", "most_delta"),
        ("neighbours = 'replac'", "neighbours.*did you mean 'replace'"),
        ("most_local_tolerance = -0.1", "most_local_tolerance"),
        ("only_secure", "no TOML file"),
        pytest.param("most_rounds = " + "[" * 50_000, "no TOML file", id="deep"),
        ("[limits]\nonly_secure = true", "limits: no such limit"),
    ],
)
def test_a_file_of_limits_is_read_or_refused_by_name(tmp_path, text, words):
    file = tmp_path / "site-policy.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"site-policy.toml: .*{words}"):
        SiteLimits.read(file)


def test_a_file_of_limits_means_what_it_says(tmp_path):
    file = tmp_path / "site-policy.toml"
    file.write_text("# as agreed in spring\nonly_secure = true\nmost_epsilon = 1\nleast_sites = 4\npooling = false\n")
    assert SiteLimits.read(file) == SiteLimits(only_secure=True, most_epsilon=1, least_sites=4, pooling=False)
    with pytest.raises(InputError, match="cannot be read"):
        SiteLimits.read(tmp_path / "none.toml")
    with pytest.raises(InputError, match="path: got None"):
        SiteLimits.read(None)


@pytest.mark.parametrize("secure", [False, True])
def test_a_plan_beyond_the_limits_gets_one_word_and_no_number(secure):
    sites = federation((40, 30, 35))
    plan = plan_of(secure=secure)
    limited = {
        site: replace(client, limits=SiteLimits(most_global_tolerance=0.005))
        for site, client in clients(sites, identities(sites) if secure else None).items()
    }
    transport = LocalTransport(limited)
    with pytest.raises(RunError, match="have not agreed to this plan"):
        go(plan, transport)
    for client in transport.sites.values():
        assert client.stored.reply is None
        assert "0.005 at most" in client.trouble


def test_another_plan_under_the_same_name_is_refused_once_one_was_answered():
    sites, plan = federation((40, 30, 35)), plan_of()
    client = Client("a", sites["a"], limits=SiteLimits(plan=plan.fingerprint))
    client, reply = client.handle(Server.start(plan, sites).message())
    assert reply.refusal is None
    other = plan_of(local_tolerance=0.5)
    later = Server.start(other, sites).begun(2, 2)
    client, reply = client.handle(later.message())
    assert reply.refusal == "OTHER_REQUEST"
    fresh = Client("a", sites["a"], limits=SiteLimits(plan=plan.fingerprint))
    assert fresh.handle(later.message())[1].refusal == "PLAN_REFUSED"


def test_limits_that_were_tightened_meanwhile_hold_for_the_next_message():
    sites, plan = federation((40, 30, 35)), plan_of(calibration="beta")
    server = Server.start(plan, sites)
    every = clients(sites)
    replies = {}
    for site in sites:
        every[site], replies[site] = every[site].handle(server.message())
    bodies = [reply.body for reply in replies.values()]
    server = server.take(type(bodies[0]).stacked(bodies).total())
    tight = replace(every["a"], limits=SiteLimits(most_global_tolerance=0.001))
    assert tight.handle(server.message())[1].refusal == "PLAN_REFUSED"
    assert every["a"].handle(server.message())[1].refusal is None


def test_a_plan_says_all_that_is_agreed_to():
    plan = plan_of(secure=True, smallest_cell=5, calibration="beta", pooling="auto", rounds=7)
    lines = dict(plan_sentences(plan, Members.of("abc", named=True)))
    assert plan_of(run="x").fingerprint in dict(plan_sentences(plan_of(run="x")))["Plan"]
    assert lines["Sites"].startswith("3: a, b, c;")
    assert dict(plan_sentences(plan, Members.of("abc", named=False)))["Sites"].startswith("3;")
    assert "names of the sites" in lines["Published"]
    assert "number of the sites" in dict(plan_sentences(plan_of()))["Published"]
    assert "0.05" in lines["Required"]
    assert "0.01" in lines["Required"]
    assert "fewer than 5 rows" in lines["Small groups"]
    assert lines["Sums"].startswith("Secure")
    assert "At most 7 rounds" in lines["Rounds"]
    assert "2 prices" in lines["Rounds"]
    assert "beta: sums over scores and labels are sent, for 5 folds" in lines["Calibration"]
    assert "Pooling" not in lines
    assert "Histograms" in dict(plan_sentences(plan_of(pooling="auto")))["Pooling"]
    assert "however few rows" in dict(plan_sentences(plan_of(smallest_cell=1)))["Small groups"]
    private = dict(plan_sentences(plan_of(privacy=PRIVACY)))
    assert "Small groups" not in private
    assert all(word in private["Privacy"] for word in ("epsilon 1,", "delta 1e-06", "replace"))
    assert "Not secure" in private["Sums"]


def test_a_plan_calls_no_rate_by_anothers_name_and_says_what_its_own_rates_count():
    disguised = Notion("demographic_parity", given=(Rate("selection rate", 0.0, 1.0),))
    with pytest.raises(InputError, match="Rate 'selection rate': the name has a meaning of its own"):
        plan_of(notion=disguised)
    assert "Rates" not in dict(plan_sentences(plan_of(notion="equalized_odds")))
    said = dict(plan_sentences(plan_of(notion=BENEFIT)))["Rates"]
    assert "benefit counts an accepted row of chance p as -1 + 2 p, and any row as 1 + 0 p" in said


def test_a_plan_of_absurdly_many_groups_is_refused():
    with pytest.raises(InputError, match="1,001 of them; list 1,000 at most"):
        plan_of(groups=list(range(1001)))


def test_an_epsilon_alone_limits_delta_too_unless_another_is_named():
    assert SiteLimits(most_epsilon=1.0).most_delta == 1e-6
    assert SiteLimits(most_epsilon=1.0, most_delta=1e-4).most_delta == 1e-4
    assert SiteLimits().most_delta is None
    limits = SiteLimits(most_epsilon=1.0)
    assert read(plain(limits), SiteLimits) == limits


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_in_place_of_limits_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "site-policy.toml")
    with pytest.raises(InputError, match=r"site-policy\.toml: is a folder or no regular file; pass a file name"):
        SiteLimits.read(tmp_path / "site-policy.toml")
