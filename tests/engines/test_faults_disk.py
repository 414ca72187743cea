"""Sites and servers as files: killed and resumed at any moment, data that change, full disks, runs side by side."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import logofair.engines.folder as server_folder
import logofair.engines.site as on_disk
from logofair import Policy
from logofair.engines.conductor import NoReply
from logofair.engines.events import read_events
from logofair.engines.folder import RunOptions, conduct_from_disk, read_result, resume_without, write_plan
from logofair.engines.inprocess import run
from logofair.engines.site import SiteSettings, answer_on_disk
from logofair.errors import InputError, QuorumLostError, RunError
from logofair.federation import Privacy, Server, SiteLimits, late_policy
from logofair.federation.exchange import Refusal
from logofair.federation.messages import ReplyMessage
from logofair.federation.secure import key_fingerprint
from logofair.files.inputs import ColumnNames
from logofair.files.writing import locked
from logofair.records import decode, encode
from support.sites import Tampered, clients, federation, go, plan_of, private_key, public_key, same_policy

pytestmark = pytest.mark.federation

MARK = "MARKER-of-row-17"


class Killed(BaseException):
    """The plug of the server's machine."""


class Disk:
    """Sites on disk, one process per message; ``kill`` names exchanges (counted over all servers) that end a server."""

    def __init__(self, homes, kill=(), after=False, gone=()):
        self.homes, self.kill, self.after, self.gone, self.count = homes, set(kill), after, set(gone), 0
        self.replies = []

    def present(self):
        return tuple(sorted(set(self.homes) - self.gone))

    def exchange(self, messages, timeout):
        self.count += 1
        if self.count in self.kill and not self.after:
            raise Killed
        replies = {
            site: NoReply("off") if site in self.gone else answer_on_disk(str(self.homes[site]), message)
            for site, message in messages.items()
        }
        self.replies += [data for data in replies.values() if isinstance(data, bytes)]
        if self.count in self.kill:
            raise Killed
        return replies


def set_up_sites(root, sites, **more):
    """Write the files of some sites; the settings' paths by site."""
    homes = {}
    for site, columns in sites.items():
        home = root / site
        home.mkdir(parents=True)
        table = zip(columns.sensitive_features, columns.scores, columns.labels, strict=True)
        lines = [f"{g},{float(s)!r},{y}" for g, s, y in table]
        (home / "rows.csv").write_text("sex,p,y\n" + "\n".join(lines) + "\n", encoding="utf-8")
        names = ColumnNames(score="p", label="y", group=("sex",))
        settings = SiteSettings(
            site, str(home / "rows.csv"), names, folder=str(home / "private"), policy=str(home / "policy.json"), **more
        )
        settings.write(home / "site.json")
        homes[site] = home / "site.json"
    return homes


def with_keys(root, homes):
    """Give every site its key and its peers' public keys."""
    peers = root / "peers"
    peers.mkdir()
    for site in homes:
        (peers / f"{site}.pub").write_text(public_key(site), encoding="utf-8")
    for site, path in homes.items():
        key = path.parent / "key"
        key.write_text(private_key(site), encoding="utf-8")
        trusted = {other: key_fingerprint(public_key(other).encode()) for other in homes}
        replace(SiteSettings.read(path), key=str(key), peers=str(peers), trusted=trusted).write(path)


def change(path, **settings):
    replace(SiteSettings.read(path), **settings).write(path)


def said(path):
    """What a site's own screen was told."""
    return (path.parent / "private" / "events.jsonl").read_text()


SITES = federation((30, 25, 28))
FOUR = SITES | {"d": federation((20,))["a"]}


@pytest.fixture
def homes(tmp_path):
    """The settings' paths of three sites on disk."""
    return set_up_sites(tmp_path, SITES)


def start(root, plan, sites=SITES, name="plan.json"):
    path = root / name
    write_plan(path, plan, RunOptions(sites=tuple(sites), wait=0.0, timeout=5.0))
    return path


def killed(file, folder, homes, exchange=2):
    """Leave the state of a server that was killed in an exchange."""
    with pytest.raises(Killed):
        conduct_from_disk(file, folder, Disk(homes, kill={exchange}))


def first_ask(plan):
    return encode(Server.start(plan, list(SITES)).message())


def first_reply(home, plan):
    return decode(answer_on_disk(str(home), first_ask(plan)), ReplyMessage)


@pytest.mark.parametrize(
    "options",
    [{"calibration": "platt", "optimality_gap": 1e-3}, {"secure": True, "optimality_gap": 1e-3}],
    ids=str,
)
@pytest.mark.parametrize("after", [False, True])
def test_a_server_killed_at_every_exchange_ends_with_the_result_of_an_undisturbed_one(tmp_path, options, after):
    plan = plan_of(**options)
    calm = set_up_sites(tmp_path / "calm", SITES)
    rough = set_up_sites(tmp_path / "rough", SITES)
    for root, homes in ((tmp_path / "calm", calm), (tmp_path / "rough", rough)):
        if plan.secure:
            with_keys(root, homes)
    file = start(tmp_path, plan)
    expected = conduct_from_disk(file, tmp_path / "s1", Disk(calm))
    transport = Disk(rough, kill=range(1, 1000, 2), after=after)  # every second exchange, so that each is killed once
    for _ in range(100):
        try:
            result = conduct_from_disk(file, tmp_path / "s2", transport)
            break
        except Killed:
            continue
    assert (
        transport.count >= 2 * sum(n for name, n in result.exchanges.items() if name not in ("keys", "masked sums")) - 1
    )
    assert result.accuracy == pytest.approx(expected.accuracy, abs=1e-9 if plan.secure else 0.0)
    assert dict(result.exchanges) == dict(expected.exchanges)
    assert result.excluded == ()
    for site in SITES:
        one, other = (Policy.load(homes[site].parent / "policy.json") for homes in (calm, rough))
        assert plan.secure or same_policy(one, other)
        assert other.info.certificate.holds


def test_files_give_to_the_bit_what_arrays_give_and_the_result_serves_late_sites(tmp_path):
    plan = plan_of(notion="equalized_odds", optimality_gap=1e-3)
    homes, said = set_up_sites(tmp_path, SITES), []
    result = conduct_from_disk(start(tmp_path, plan), tmp_path / "s", Disk(homes), tell=said.append)
    expected = run(plan, SITES)
    assert result.accuracy == expected.result.accuracy
    for site, columns in SITES.items():
        policy = Policy.load(homes[site].parent / "policy.json")
        assert same_policy(policy, expected.policies[site])
        assert same_policy(late_policy(read_result(tmp_path / "s" / "result.json"), columns, site), policy)
    assert said[0].sentence == "3 of 3 sites are here: a, b, c"
    assert [event.kind for event in said[1:3]] == ["request", "exchange"]
    assert said[2].sentence.startswith("exchange 1 (totals): a, b, c answered in ")
    assert said[2].values["answered"] == ("a", "b", "c")
    own = read_events(homes["a"].parent / "private")[0]
    replies = [event for event in own if event.kind == "reply"]
    assert len(replies) == sum(dict(result.exchanges).values())
    assert replies[0].sentence.startswith("exchange 1 (")
    others = [event.kind for event in own if event.kind != "reply"]
    assert others == ["plan"] * (len(others) - 1) + ["policy"]
    # Once there is a result, it is handed out again, whoever is there.
    again = conduct_from_disk(tmp_path / "plan.json", tmp_path / "s", Disk({}))
    assert encode(again) == encode(result)


def test_a_folder_belongs_to_one_plan_and_one_server_at_a_time(tmp_path, homes, monkeypatch):
    file = start(tmp_path, plan_of())
    killed(file, tmp_path / "s", homes)
    other = start(tmp_path, plan_of(global_tolerance=0.2, run="other"), name="other.json")
    with pytest.raises(InputError, match="state of another plan"):
        conduct_from_disk(other, tmp_path / "s", Disk(homes))
    with monkeypatch.context() as patch, locked(tmp_path / "s" / "server.lock"):
        patch.setattr(server_folder, "_LOCK_PATIENCE", 0.0)
        with pytest.raises(InputError, match="another process"):
            conduct_from_disk(file, tmp_path / "s", Disk(homes))
    conduct_from_disk(file, tmp_path / "s", Disk(homes))
    with pytest.raises(InputError, match="holds the result of run test"):
        conduct_from_disk(other, tmp_path / "s", Disk(homes))


def test_a_server_waits_for_the_last_process_of_one_that_was_killed(tmp_path, homes):
    """The server app outlives its SuperLink by some seconds, and holds the lock until it has noticed."""
    pytest.importorskip("fcntl")
    file = start(tmp_path, plan_of())
    held = tmp_path / "held"
    outlives = "import sys, time, pathlib\nfrom logofair.files.writing import locked\n"
    outlives += "with locked(pathlib.Path(sys.argv[1])):\n    pathlib.Path(sys.argv[2]).touch()\n    time.sleep(1)\n"
    earlier = subprocess.Popen([sys.executable, "-c", outlives, str(tmp_path / "s" / "server.lock"), str(held)])
    while not held.exists():
        assert earlier.poll() is None
    assert conduct_from_disk(file, tmp_path / "s", Disk(homes)).certificate.meets_requirements
    assert earlier.wait(10.0) == 0


@pytest.mark.parametrize("damage", [b"", b"{}", b"half", None])
def test_a_damaged_state_is_named_and_never_guessed_at(tmp_path, homes, damage):
    file = start(tmp_path, plan_of())
    killed(file, tmp_path / "s", homes)
    state = tmp_path / "s" / "state.json"
    text = state.read_bytes()
    state.write_bytes(text.replace(b'"number": 2', b'"number": 1') if damage is None else damage)
    with pytest.raises(InputError, match=r"state\.json.*(backup|format mark)"):
        conduct_from_disk(file, tmp_path / "s", Disk(homes))


def test_sites_that_do_not_come_are_left_out_and_named_or_the_run_does_not_begin(tmp_path, homes):
    file = start(tmp_path, plan_of())
    result = conduct_from_disk(file, tmp_path / "s", Disk(homes, gone="c"))
    assert [(each.site, each.reason) for each in result.excluded] == [("c", "did not come")]
    with pytest.raises(RunError, match=r"1 of at least 2 sites came"):
        conduct_from_disk(file, tmp_path / "t", Disk(homes, gone="bc"))


def test_two_runs_at_once_on_the_same_sites_do_not_disturb_each_other(tmp_path, homes):
    plans = [plan_of(run="one", notion="equal_opportunity"), plan_of(run="two")]
    files = [start(tmp_path, plan, name=f"{plan.run}.json") for plan in plans]
    done, transport = {}, Disk(homes, kill=range(1, 1000, 2))
    for _ in range(100):
        for plan, file in zip(plans, files, strict=True):
            if plan.run not in done:
                try:
                    done[plan.run] = conduct_from_disk(file, tmp_path / f"s-{plan.run}", transport)
                except Killed:
                    transport.kill = set(range(transport.count + 2, 1000, 2))  # one exchange at a time, turn by turn
    for plan in plans:
        assert done[plan.run].accuracy == run(plan, SITES).result.accuracy
        assert done[plan.run].excluded == ()


def test_a_site_whose_file_changes_during_a_run_is_excluded(tmp_path):
    plan = plan_of(notion="equal_opportunity")
    homes, file = set_up_sites(tmp_path, FOUR), start(tmp_path, plan, FOUR)
    killed(file, tmp_path / "s", homes)
    data = homes["d"].parent / "rows.csv"
    before = data.read_bytes()
    data.write_bytes(before + b"1,0.5,1\n")
    result = conduct_from_disk(file, tmp_path / "s", Disk(homes))
    assert result.excluded[0].reason == Refusal.DATA_CHANGED.value
    fresh = run(plan, SITES).result
    assert result.accuracy == pytest.approx(fresh.accuracy, abs=2 * plan.optimality_gap)
    assert "is not the file this run began with" in (homes["d"].parent / "private" / "events.jsonl").read_text()


def test_nothing_of_a_file_leaves_a_site_that_cannot_read_it(tmp_path, homes):
    plan = plan_of()
    path, data = homes["a"], homes["a"].parent / "rows.csv"
    for text in (
        f"sex,p,y\n{MARK},0.5,1\n",
        f"sex,p,y\n0,{MARK},1\n",
        "sex,p,y\n0,17.17,1\n",
        f"{MARK}\n",
        f"sex,{MARK},y\n0,0.5,1\n",
        "",
    ):
        data.write_text(text, encoding="utf-8")
        reply = answer_on_disk(str(path), first_ask(plan))
        assert decode(reply, ReplyMessage).refusal in ("BAD_DATA", "UNKNOWN_GROUP")
        assert MARK.encode() not in reply
        assert b"17.17" not in reply
        assert str(tmp_path).encode() not in reply
    data.unlink()
    reply = answer_on_disk(str(path), first_ask(plan))
    assert decode(reply, ReplyMessage).refusal == "BAD_DATA"
    assert str(tmp_path).encode() not in reply
    assert sum(event.kind == "problem" for event in read_events(path.parent / "private")[0]) >= 7


def test_an_error_inside_a_site_is_written_to_its_own_folder_and_is_one_word_outside(tmp_path, homes, monkeypatch):
    plan = plan_of()

    def broken(*_):
        raise ZeroDivisionError(MARK)

    for place in ("read_site", "StoredSite", "fingerprint"):
        with monkeypatch.context() as patch:
            patch.setattr(on_disk, place, broken)
            reply = answer_on_disk(str(homes["a"]), first_ask(plan))
        assert decode(reply, ReplyMessage).refusal == "INTERNAL"
        assert MARK.encode() not in reply
    assert (homes["a"].parent / "private" / "events.jsonl").read_text().count(MARK) >= 3
    assert first_reply(homes["a"], plan).refusal is None


def test_the_states_of_a_run_can_be_read_by_their_owner_alone(tmp_path, homes):
    plan = plan_of()
    killed(start(tmp_path, plan), tmp_path / "s", homes)
    private = homes["a"].parent / "private"
    states = [tmp_path / "s" / "state.json", *private.glob("*.json"), private / "events.jsonl"]
    assert len(states) >= 3
    assert {file.stat().st_mode & 0o077 for file in states} == {0}


@pytest.mark.parametrize("message", [b"", b"rubbish", encode(("not", "a", "request")), encode(7)])
def test_a_message_that_is_none_is_refused(tmp_path, homes, message):
    assert decode(answer_on_disk(str(homes["a"]), message), ReplyMessage).refusal == "BAD_MESSAGE"
    assert decode(answer_on_disk(str(tmp_path / "nowhere.json"), message), ReplyMessage).refusal == "BAD_MESSAGE"


def test_runs_with_names_that_are_no_file_names_are_refused(tmp_path):
    homes, message = set_up_sites(tmp_path, SITES), Server.start(plan_of(), list(SITES)).message()
    for name in ("../../up", "a/b", "", "..", "x" * 65, "x" * 5000):
        reply = decode(answer_on_disk(str(homes["a"]), encode(replace(message, run=name))), ReplyMessage)
        assert reply.refusal == "BAD_MESSAGE"
    assert all(len(event.sentence) < 200 for event in read_events(homes["a"].parent / "private")[0])
    assert not list(tmp_path.glob("*.lock"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_a_refusal_and_the_same_request_is_answered_once_there_is_room(tmp_path, monkeypatch, code):
    plan = plan_of()
    homes = set_up_sites(tmp_path, FOUR)

    def full(*_, **__):
        raise OSError(code, "No space left on device", f"/data/{MARK}")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.mkdir", full)  # already where its folder is locked
        locking = answer_on_disk(str(homes["a"]), first_ask(plan))
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        reply = answer_on_disk(str(homes["a"]), first_ask(plan))
    assert decode(locking, ReplyMessage).refusal == decode(reply, ReplyMessage).refusal == Refusal.DISK_FULL.name
    assert "disk is full" in Refusal.DISK_FULL.value
    (problem,) = (event for event in read_events(homes["a"].parent / "private")[0] if event.kind == "problem")
    assert "make room on its disk" in problem.sentence
    assert MARK.encode() not in reply
    assert not list((homes["a"].parent / "private").glob("*.client.json"))
    assert first_reply(homes["a"], plan).refusal is None


def test_a_notes_folder_that_cannot_be_is_a_refusal(tmp_path, homes):
    (homes["a"].parent / "private").write_text("a file in its place")
    reply = first_reply(homes["a"], plan_of())
    assert reply.refusal in ("INTERNAL", "BAD_DATA")
    assert reply.site == "a"


def test_a_policy_that_cannot_be_written_loses_the_site_at_the_publication_only(tmp_path, homes):
    plan = plan_of()
    file = start(tmp_path, plan)
    (homes["b"].parent / "policy.json").mkdir()
    result = conduct_from_disk(file, tmp_path / "s", Disk(homes))
    assert result.sites == tuple("abc")
    assert (result.excluded[0].site, result.excluded[0].purpose) == ("b", "publication")
    (homes["b"].parent / "policy.json").rmdir()
    late_policy(result, SITES["b"], "b").save(homes["b"].parent / "policy.json")


def test_damaged_notes_are_a_refusal_and_never_a_second_answer(tmp_path):
    homes, file = set_up_sites(tmp_path, FOUR), start(tmp_path, plan_of(), FOUR)
    killed(file, tmp_path / "s", homes)
    stored = homes["d"].parent / "private" / "test.client.json"
    stored.write_text(stored.read_text().replace('"data": "', '"data": "0'))
    result = conduct_from_disk(file, tmp_path / "s", Disk(homes))
    assert result.excluded[0].reason == Refusal.BAD_DATA.value
    assert result.sites == tuple("abc")


def test_notes_that_were_lost_exclude_the_site(tmp_path):
    homes, file = set_up_sites(tmp_path, FOUR), start(tmp_path, plan_of(), FOUR)
    killed(file, tmp_path / "s", homes)
    (homes["d"].parent / "private" / "test.client.json").unlink()
    result = conduct_from_disk(file, tmp_path / "s", Disk(homes))
    assert result.excluded[0].reason == Refusal.UNKNOWN_RUN.value


def test_a_sites_notes_can_be_read_by_it_alone(tmp_path, homes):
    answer_on_disk(str(homes["a"]), first_ask(plan_of()))
    stored = homes["a"].parent / "private" / "test.client.json"
    assert stored.stat().st_mode & 0o077 == 0
    free = plan_of(local_tolerance=None, global_tolerance=None, run="other")
    conduct_from_disk(start(tmp_path, free), tmp_path / "s", Disk(homes))
    kept = [path for path in stored.parent.iterdir() if path.suffix != ".lock"]
    assert {path.name for path in kept} >= {"test.client.json", "other.client.json", "events.jsonl"}
    assert [path.name for path in kept if path.stat().st_mode & 0o077] == []
    assert json.loads(stored.read_text())["format"] == "logofair client"


def test_another_run_beside_a_secure_one_on_the_same_rows_takes_consent_by_its_name(tmp_path, homes):
    with_keys(tmp_path, homes)
    files = {
        name: start(tmp_path, plan_of(secure=name != "plain", run=name), name=f"{name}.json")
        for name in ("one", "two", "three", "plain")
    }
    conduct_from_disk(files["one"], tmp_path / "one", Disk(homes))
    refused = pytest.raises((QuorumLostError, RunError), match="has not agreed")
    for name in ("two", "plain"):  # without secure sums a site's numbers would come off the totals of the first run
        with refused:
            conduct_from_disk(files[name], tmp_path / name, Disk(homes))
    for path in homes.values():
        change(path, again="two")
    with refused:  # the consent is to one run
        conduct_from_disk(files["three"], tmp_path / "three", Disk(homes))
    assert conduct_from_disk(files["two"], tmp_path / "two", Disk(homes)).certificate.meets_requirements
    for path in homes.values():
        change(path, again="plain")
    assert conduct_from_disk(files["plain"], tmp_path / "plain", Disk(homes)).certificate.meets_requirements


@pytest.mark.parametrize("secure", [False, True])
def test_no_consent_allows_a_further_run_with_another_smallest_cell(tmp_path, homes, secure):
    """The difference of the totals is the group of the one site that is counted in one of them alone."""
    with_keys(tmp_path, homes)
    plans = {"one": plan_of(secure=True, run="one", smallest_cell=1)}
    plans["two"] = plan_of(secure=secure, run="two", smallest_cell=6)
    files = {name: start(tmp_path, plan, name=f"{name}.json") for name, plan in plans.items()}
    conduct_from_disk(files["one"], tmp_path / "one", Disk(homes))
    for path in homes.values():
        change(path, again="two")
    with pytest.raises((QuorumLostError, RunError), match="has not agreed"):
        conduct_from_disk(files["two"], tmp_path / "two", Disk(homes))
    assert "agree on --smallest-cell" in said(homes["a"])


def test_a_peers_key_that_nobody_has_compared_is_not_believed(tmp_path, homes):
    with_keys(tmp_path, homes)
    for path in homes.values():  # another key under the name of b, as a server's folder might hold it
        whose = {"a": "a", "b": "stranger", "c": "c"}
        change(path, trusted={site: key_fingerprint(public_key(key).encode()) for site, key in whose.items()})
    file = start(tmp_path, plan_of(secure=True))
    with pytest.raises((QuorumLostError, RunError), match="lacks the keys"):
        conduct_from_disk(file, tmp_path / "s", Disk(homes))
    assert "the key of b is genuine" in said(homes["a"])
    assert "--trust NAME=FINGERPRINT" in said(homes["a"])


def test_a_site_that_helps_the_server_stands_under_no_other_name(tmp_path, homes):
    """The folder of keys may come from the server: it could hold one ally's key, which everybody trusts, many times."""
    with_keys(tmp_path, homes)
    (tmp_path / "peers" / "b.pub").write_text(public_key("c"), encoding="utf-8")
    assert sorted(SiteSettings.read(homes["a"]).identity().peers) == ["a", "c"]
    same = dict.fromkeys("bc", key_fingerprint(public_key("c").encode()))
    with pytest.raises(InputError, match="'b' and 'c' have the same fingerprint"):
        change(homes["a"], trusted=same)


def test_a_run_whose_name_the_disk_takes_for_anothers_is_another_run(tmp_path, homes):
    """Where files differ in more than case alone, run TEST would find the state of run test and need no consent."""
    answer_on_disk(str(homes["a"]), first_ask(plan_of()))
    stored = homes["a"].parent / "private" / "test.client.json"
    before = stored.read_bytes()
    (stored.parent / "TEST.client.json").write_bytes(before)  # as such a disk shows it
    reply = first_reply(homes["a"], plan_of(run="TEST", local_tolerance=0.5))
    assert (reply.refusal, reply.body) == ("NOT_AGREED", None)
    assert "does not tell from those of run 'TEST'" in said(homes["a"])
    assert stored.read_bytes() == before


def test_exact_counts_after_a_noised_histogram_take_consent_by_the_runs_name(tmp_path, homes):
    (homes["a"].parent / "private").mkdir()
    (homes["a"].parent / "private" / "release.json").touch()
    for name, agreed in (("plain", None), ("plain", "another"), ("plain", "plain"), ("other", "plain")):
        change(homes["a"], again=agreed)
        reply = first_reply(homes["a"], plan_of(run=name))
        assert reply.refusal == (None if name == agreed else "NOT_AGREED"), (name, agreed)
        assert "--again plain" in said(homes["a"])


@pytest.mark.parametrize("pinned", [False, True])
def test_one_plan_that_does_not_fit_the_rows_is_the_last_until_the_site_is_started_again(tmp_path, homes, pinned):
    """Each refusal tells which groups and columns there are: a server must not go on asking."""
    first, *others = (plan_of(groups=groups, run=f"r{i}") for i, groups in enumerate([[0, 2], [1, 2], [0, 1]]))
    for _ in range(2):  # the same plan gets the same word
        assert first_reply(homes["a"], first).refusal == "UNKNOWN_GROUP"
    for plan, unpinned in zip(others, ("UNKNOWN_GROUP", None), strict=True):
        assert first_reply(homes["a"], plan).refusal == "PLAN_REFUSED"
        if pinned:  # a plan that people have named is looked at
            change(homes["a"], limits=SiteLimits(plan=plan.fingerprint))
            assert first_reply(homes["a"], plan).refusal == unpinned
            change(homes["a"], limits=SiteLimits())
    if not pinned:
        on_disk.forget_unfit_plan(homes["a"].parent / "private")
        assert first_reply(homes["a"], others[1]).refusal is None


def test_a_site_that_wants_secure_sums_refuses_plans_without_them(tmp_path):
    homes = set_up_sites(tmp_path, SITES, limits=SiteLimits(only_secure=True))
    transport = Disk(homes)
    with pytest.raises(QuorumLostError, match="not agreed to this plan"):
        conduct_from_disk(start(tmp_path, plan_of(), SITES), tmp_path / "s", transport)
    assert all(decode(data, ReplyMessage).body is None for data in transport.replies)
    with_keys(tmp_path, homes)
    assert conduct_from_disk(
        start(tmp_path, plan_of(secure=True, run="safe"), SITES, name="safe.json"), tmp_path / "t", Disk(homes)
    ).certificate.meets_requirements


def test_going_on_without_a_site_under_secure_sums_takes_everybodys_agreement_by_name(tmp_path):
    sites = federation((30, 25, 28, 22))
    plan = plan_of(secure=True, notion="equal_opportunity")
    homes = set_up_sites(tmp_path, sites)
    with_keys(tmp_path, homes)
    file, folder = start(tmp_path, plan, sites), tmp_path / "s"
    killed(file, folder, homes, 6)  # after the first total
    with pytest.raises(RunError, match=r"d \(off\).*agreed by name"):
        conduct_from_disk(file, folder, Disk(homes, gone="d"))
    with pytest.raises(InputError, match="'x' is not in the roster"):
        resume_without(folder, ["x"])
    resume_without(folder, ["d"])
    with pytest.raises((RunError, QuorumLostError), match="has not agreed to go on"):
        conduct_from_disk(file, folder, Disk(homes, gone="d"))
    for site in "ab":
        change(homes[site], agreed_without=("d",))
    with pytest.raises((RunError, QuorumLostError), match="has not agreed to go on"):
        conduct_from_disk(file, folder, Disk(homes, gone="d"))
    change(homes["c"], agreed_without=("d",))
    result = conduct_from_disk(file, folder, Disk(homes, gone="d"))
    assert result.sites == tuple("abc")
    assert result.excluded[0].reason == "taken out by the server's people"
    left = {s: sites[s] for s in "abc"}
    assert result.accuracy == pytest.approx(run(plan, left).result.accuracy, abs=2 * plan.optimality_gap)
    assert result.certificate.meets_requirements


def test_going_on_without_a_site_in_a_plain_run(tmp_path):
    sites, plan = federation((30, 25, 28, 22)), plan_of(quorum=4, notion="equal_opportunity")
    homes, file, folder = set_up_sites(tmp_path, sites), start(tmp_path, plan, sites), tmp_path / "s"
    killed(file, folder, homes, 3)
    with pytest.raises(QuorumLostError, match="3 of at least 4"):
        conduct_from_disk(file, folder, Disk(homes, gone="d"))
    with pytest.raises(QuorumLostError):  # the quorum was agreed on: taking out more than it allows is refused too
        resume_without(folder, ["d"])
    assert conduct_from_disk(file, folder, Disk(homes)).sites == tuple("abcd")
    with pytest.raises(InputError, match="every policy is final"):
        resume_without(folder, ["d"])


def test_a_noised_histogram_is_made_once_and_serves_every_later_run_and_resumption(tmp_path, homes):
    privacy = Privacy(epsilon=8.0, delta=1e-6, bins=8)
    files = [start(tmp_path, plan_of(privacy=privacy, run=name), name=f"{name}.json") for name in ("one", "two")]
    killed(files[0], tmp_path / "s-one", homes)
    kept = [(homes[s].parent / "private" / "release.json").read_bytes() for s in SITES]
    outcomes = [conduct_from_disk(file, tmp_path / f"s-{file.stem}", Disk(homes)) for file in files]
    assert kept == [(homes[s].parent / "private" / "release.json").read_bytes() for s in SITES]
    assert outcomes[0].accuracy == outcomes[1].accuracy
    assert outcomes[0].certificate.meets_requirements
    data = homes["a"].parent / "rows.csv"
    data.write_bytes(data.read_bytes() + b"1,0.5,1\n")  # other rows would need fresh noise, which spends again
    again = start(tmp_path, plan_of(privacy=privacy, run="three"), name="three.json")
    excluded = conduct_from_disk(again, tmp_path / "s-three", Disk(homes)).excluded
    assert [(each.site, each.reason) for each in excluded] == [("a", Refusal.BAD_DATA.value)]


def test_states_saved_on_disk_hold_no_rows(tmp_path):
    """Of a site's file nothing but sums is in the server's folder."""
    sites = SITES
    homes, file = set_up_sites(tmp_path, sites), start(tmp_path, plan_of(calibration="beta"), sites)
    conduct_from_disk(file, tmp_path / "s", Disk(homes))
    everything = b"".join(path.read_bytes() for path in Path(tmp_path / "s").iterdir())
    assert repr(float(np.asarray(sites["a"].scores)[3])).encode() not in everything
    transport = Tampered(clients(sites))
    go(plan_of(calibration="beta"), transport)
    for _, data in transport.sent:
        for score in np.asarray(sites["a"].scores)[:10]:
            assert np.float64(score).tobytes() not in data
