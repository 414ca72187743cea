"""A site on disk tells its people the plan before a number leaves, and answers what they have agreed to alone."""

from __future__ import annotations

import pytest

from logofair.engines.events import read_events
from logofair.engines.site import SiteSettings, answer_on_disk
from logofair.federation import Privacy, Server, SiteLimits
from logofair.federation.messages import ReplyMessage
from logofair.federation.plan import Members
from logofair.files.inputs import ColumnNames
from logofair.records import decode, encode
from logofair.words.federated import plan_sentences
from support.sites import federation, plan_of

pytestmark = pytest.mark.federation


def one_site(root, **settings):
    """A site's settings on disk, and its folder."""
    columns = federation((30, 25))["a"]
    lines = [f"{g},{float(s)!r}" for g, s in zip(columns.sensitive_features, columns.scores, strict=True)]
    (root / "rows.csv").write_text("sex,p\n" + "\n".join(lines) + "\n", encoding="utf-8")
    names = ColumnNames(score="p", group=("sex",))
    folder, path = root / "private", root / "site.json"
    SiteSettings("a", str(root / "rows.csv"), names, str(folder), str(root / "policy.json"), **settings).write(path)
    return path, folder


def first_message(plan):
    return encode(Server.start(plan, "ab").message())


def test_the_plan_is_told_before_anything_is_answered(tmp_path):
    path, folder = one_site(tmp_path)
    plan, events = plan_of(), []
    assert decode(answer_on_disk(str(path), first_message(plan), tell=events.append), ReplyMessage).refusal is None
    of_plan, last = events[:-1], events[-1]
    assert [event.kind for event in of_plan] == ["plan"] * len(of_plan)
    expected = [f"{label}: {sentence}" for label, sentence in plan_sentences(plan, Members.of("ab", named=False))]
    assert [event.sentence for event in of_plan] == expected
    assert f"digest {plan.fingerprint}" in of_plan[0].sentence
    assert last.kind == "reply"
    assert read_events(folder)[0] == []  # its people were told on their screen
    answer_on_disk(str(path), first_message(plan))
    assert [event.kind for event in read_events(folder)[0]] == [event.kind for event in events]


@pytest.mark.parametrize("agreed", [True, False])
def test_a_site_answers_the_plan_whose_digest_was_agreed_to_and_no_other(tmp_path, agreed):
    path, folder = one_site(tmp_path, limits=SiteLimits(plan=plan_of().fingerprint))
    plan, events = plan_of() if agreed else plan_of(rounds=9), []
    reply = decode(answer_on_disk(str(path), first_message(plan), tell=events.append), ReplyMessage)
    assert (reply.refusal is None) == agreed
    if not agreed:
        assert (reply.refusal, reply.body) == ("PLAN_REFUSED", None)
        assert events[-1].kind == "problem"
        assert (
            f"its digest is {plan.fingerprint}; this site has agreed to {plan_of().fingerprint}" in events[-1].sentence
        )
        assert not list(folder.glob("*.client.json"))


def test_limits_are_checked_before_the_rows_are_read_or_noised(tmp_path):
    path, folder = one_site(tmp_path, limits=SiteLimits(most_epsilon=1.0, most_delta=1e-6))
    (tmp_path / "rows.csv").write_text("nothing that can be read")
    for privacy in (Privacy(2.0, 1e-6), Privacy(1.0, 1e-5), None):
        assert (
            decode(answer_on_disk(str(path), first_message(plan_of(privacy=privacy))), ReplyMessage).refusal
            == "PLAN_REFUSED"
        )
    assert not (folder / "release.json").exists()
    assert not (folder / "unfit.json").exists()


def test_settings_keep_their_limits(tmp_path):
    limits = SiteLimits(plan=plan_of().fingerprint, only_secure=True, most_delta=1e-6)
    path, _ = one_site(tmp_path, limits=limits)
    assert SiteSettings.read(path).limits == limits
