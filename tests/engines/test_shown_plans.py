"""A site on disk shows the plan, and waits for its people before a number leaves."""

from __future__ import annotations

import threading
from unittest import mock

import pytest

import logofair.engines.site as on_disk
from logofair.cli.commands.federate.agreement import PlanViewer
from logofair.engines.shown_plans import answer_plan, answer_to, show_plan, shown_plans
from logofair.engines.site import SiteSettings, answer_on_disk
from logofair.federation import Privacy, Server, SiteLimits
from logofair.federation.plan import Members
from logofair.federation.wire import decode, encode
from logofair.files.inputs import ColumnNames
from support.sites import federation, plan_of

pytestmark = pytest.mark.federation


def one_site(root, **settings):
    """A site's settings on disk, and its folder."""
    columns = federation((30, 25))["a"]
    lines = [f"{g},{float(s)!r}" for g, s in zip(columns.groups, columns.scores, strict=True)]
    (root / "rows.csv").write_text("sex,p\n" + "\n".join(lines) + "\n", encoding="utf-8")
    names = ColumnNames(score="p", group=("sex",))
    folder, path = root / "private", root / "site.json"
    SiteSettings("a", str(root / "rows.csv"), names, str(folder), str(root / "policy.json"), **settings).write(path)
    return path, folder


def first_message(plan):
    return encode(Server.start(plan, "ab").message())


@pytest.mark.parametrize("agreed", [True, False])
def test_the_reply_waits_for_a_persons_answer(tmp_path, agreed):
    path, folder = one_site(tmp_path, asks=True)
    plan, replies = plan_of(), []
    answering = threading.Thread(target=lambda: replies.append(decode(answer_on_disk(str(path), first_message(plan)))))
    answering.start()
    while not folder.exists() or not shown_plans(folder):
        answering.join(0.05)
    (shown,) = shown_plans(folder)
    assert (shown.run, shown.fingerprint) == ("test", plan.fingerprint)
    assert shown.sentences == tuple(plan.sentences(Members.of("ab", named=False)))
    assert answering.is_alive()
    answer_plan(folder, shown, agreed)
    answering.join(30.0)
    (reply,) = replies
    assert (reply.refusal is None) == agreed
    assert (reply.refusal or "PLAN_REFUSED") == "PLAN_REFUSED"
    # Asked again, it remembers.
    assert decode(answer_on_disk(str(path), first_message(plan))).refusal == reply.refusal
    assert answer_to(folder, "test", plan.fingerprint) is agreed
    assert answer_to(folder, "test", plan_of(rounds=9).fingerprint) is None


def test_where_nobody_answers_the_plan_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(on_disk, "_PATIENCE", 0.0)
    path, folder = one_site(tmp_path, asks=True)
    assert decode(answer_on_disk(str(path), first_message(plan_of()))).refusal == "PLAN_REFUSED"
    assert "nobody here has agreed" in (folder / "events.jsonl").read_text()
    assert not list(folder.glob("*.client.json"))


def test_limits_are_checked_before_the_rows_are_read_or_noised(tmp_path):
    path, folder = one_site(tmp_path, limits=SiteLimits(most_epsilon=1.0, most_delta=1e-6))
    (tmp_path / "rows.csv").write_text("nothing that can be read")
    for privacy in (Privacy(2.0, 1e-6), Privacy(1.0, 1e-5), None):
        assert decode(answer_on_disk(str(path), first_message(plan_of(privacy=privacy)))).refusal == "PLAN_REFUSED"
    assert not (folder / "release.json").exists()
    assert len(shown_plans(folder)) == 1


def test_other_sites_than_were_shown_are_shown_again_without_a_second_question(tmp_path):
    folder, plan, shown = tmp_path, plan_of(), []
    show_plan(folder, plan, Members.of("abc", named=True))
    viewer = PlanViewer(folder, shown.append, asks=True)
    with mock.patch("click.confirm", return_value=True) as question:
        viewer.look()
        show_plan(folder, plan, Members.of("abc", named=True))
        viewer.look()
        assert [event.values["part"] for event in shown].count("Sites") == 1
        show_plan(folder, plan, Members.of("ab", named=True))
        viewer.look()
    assert [event.sentence[:10] for event in shown if event.values["part"] == "Sites"] == ["Sites: 3: ", "Sites: 2: "]
    question.assert_called_once()
    shown.clear()
    PlanViewer(folder, shown.append, asks=True).look()  # another process need not say it again
    assert shown == []


def test_settings_keep_their_limits(tmp_path):
    limits = SiteLimits(plan=plan_of().fingerprint, only_secure=True, most_delta=1e-6)
    path, _ = one_site(tmp_path, limits=limits, asks=True)
    assert SiteSettings.read(path).limits == limits
    assert SiteSettings.read(path).asks
