"""What the page is answered: exports that a command makes again, conflicts with a way out, and no row of anybody."""

from __future__ import annotations

import base64
import json
import shlex
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import logofair
from logofair import records
from logofair.cli.commands import studio as command
from logofair.errors import InputError
from logofair.studio import server
from logofair.studio.answers import FEWEST, Wish
from logofair.studio.session import Session, Setting, Threshold
from support import commandline
from support.studio import START, answer, columns, session, write_files


@pytest.fixture
def from_files(tmp_path, monkeypatch):
    """A session as the command makes it of files."""

    def made(*words):
        found = []
        monkeypatch.setattr(server, "serve", lambda own, port, ready: found.append(own))
        code, _, error = commandline.run("studio", *write_files(tmp_path), "--no-browser", *words)
        assert code == 0, error
        return found[0]

    return made


@pytest.mark.parametrize(
    "setting",
    [
        START,
        Setting(notion="equalized_odds", local=None, overall=0.05, costs=(1.0, 3.0)),
        Setting(
            overall=0.05, require=('selection rate of women >= 0.3 at "branch 0001"', "accepted <= 1200 people overall")
        ),
        Setting(local=0.2, overall=0.1, confidence=0.9),
    ],
)
def test_the_exported_command_makes_the_exported_policy_byte_for_byte(from_files, setting, tmp_path, monkeypatch):
    live = from_files()
    exported = answer(live, "export", setting=setting)
    assert exported["answer"]["value"] == pytest.approx(answer(live, setting=setting)["value"], abs=0.05)
    monkeypatch.chdir(tmp_path)
    program, *words = shlex.split(exported["answer"]["command"])
    assert program == "logofair"
    code, _, error = commandline.run(*words)
    assert code == 0, error
    assert (tmp_path / "policy.json").read_bytes() == base64.b64decode(exported["data"])
    if setting.confidence is None:
        shown = answer(live, setting=setting)
        assert shown["value"] == pytest.approx(exported["answer"]["value"], abs=1e-6)


def test_the_exported_call_makes_the_same_rules(from_files, tmp_path):
    live = from_files("--seed", "7")
    setting = Setting(local=0.05, overall=0.02, require=("accepted <= 0.5 overall",))
    exported = base64.b64decode(answer(live, "export", setting=setting)["data"])
    (tmp_path / "exported.json").write_bytes(exported)
    data = pl.read_csv(tmp_path / "rows.csv")
    made = eval(answer(live, setting=setting)["call"], {"logofair": logofair, "data": data}).policy
    known = logofair.Policy.load(tmp_path / "exported.json")
    assert made.key == known.key == 7
    for name in ("weight", "threshold", "above", "single"):
        assert np.array_equal(getattr(made.mixtures, name), getattr(known.mixtures, name))


def test_report_and_figure_are_whole_files(from_files):
    live = from_files("--title", "Loans of the spring")
    report = base64.b64decode(answer(live, "export", setting=START, export="report")["data"]).decode()
    assert report.startswith("<!DOCTYPE html>")
    assert "Loans of the spring" in report
    figure = base64.b64decode(answer(live, "export", setting=START, export="figure")["data"]).decode()
    assert figure.startswith("<svg")


def test_the_command_begins_with_what_was_required(from_files):
    live = from_files(
        "--notion", "equal_opportunity", "--local", "0.1", "--costs", "1,2", "--require", "accepted <= 0.6 overall"
    )
    assert live.start == Setting(
        notion="equal_opportunity", local=0.1, require=("accepted <= 0.6 overall",), costs=(1.0, 2.0)
    )
    assert from_files().start == Setting(local=0.02, overall=0.02)
    assert from_files("--require", "accepted <= 0.6 overall").start == Setting(require=("accepted <= 0.6 overall",))


def test_without_data_the_example_is_shown_and_its_command_works_on_its_files(monkeypatch, tmp_path):
    found = []
    monkeypatch.setattr(server, "serve", lambda own, port, ready: found.append(own))
    assert commandline.run("studio", "--no-browser")[0] == 0
    setting = Setting(local=0.02, overall=0.02)
    exported = answer(found[0], "export", setting=setting)
    monkeypatch.chdir(tmp_path)
    assert commandline.run("federate", "example")[0] == 0
    assert commandline.run(*shlex.split(exported["answer"]["command"])[1:])[0] == 0
    assert (tmp_path / "policy.json").read_bytes() == base64.b64decode(exported["data"])
    assert "studio: options that name columns" in commandline.refused("studio", "--score", "p")


def test_what_the_page_shows_is_the_table_of_outcomes():
    live = session()
    shown, solution = answer(live, setting=START), live.solved(START).solution
    found = {each.site: each for each in solution.outcomes.where(basis="test rows")}
    (series,) = shown["series"]
    assert len(series["rows"]) == len(found)
    for line in series["rows"]:
        own = found[line["site"]]
        assert [line[name] for name in ("before", "after", "low", "high", "limit", "state", "rows")] == [
            getattr(own, name) for name in ("before", "after", "low", "high", "limit", "state", "rows")
        ]
    assert shown["value"] == solution.certificate.primal
    assert shown["verdict"]["state"] == solution.outcomes.verdict
    json.dumps(shown, allow_nan=False)


def test_a_conflict_names_what_conflicts_and_each_change_it_offers_resolves_it():
    live = session()
    setting = Setting(overall=0.01, require=("selection rate >= 0.5 overall", "accepted <= 0.2 overall"))
    found = answer(live, setting=setting)
    assert found["conflict"].startswith("No rule meets")
    assert len(found["changes"]) == 2
    for change in found["changes"]:
        own = records.read(change["setting"], Setting)
        assert own != setting
        assert "verdict" in answer(live, setting=own)


def test_where_loosening_one_is_not_enough_a_conflict_offers_to_leave_one_out():
    live = session()
    require = ("selection rate >= 0.6 overall", "accepted <= 0.2 overall", "accepted <= 800 people overall")
    setting = Setting(overall=0.01, require=require)
    found = answer(live, setting=setting)
    (left_out,) = [each for each in found["changes"] if each["words"] == "Leave out: accepted <= 0.2 overall"][:1] or [
        None
    ]
    own = records.read(left_out["setting"], Setting)
    assert own.require == (require[0], require[2])
    assert "conflict" in answer(live, setting=own)  # the other capacity is still in the way, and is named next
    alone = records.read(answer(live, setting=own)["changes"][0]["setting"], Setting)
    assert "verdict" in answer(live, setting=alone)


def test_a_change_that_is_said_to_resolve_a_conflict_resolves_it():
    live = session()
    require = ("accepted >= 0.8 overall", "accuracy loss from unconstrained <= 0.002 overall")
    changes = answer(live, setting=Setting(overall=0.05, require=require))["changes"]
    solved = ["verdict" in answer(live, setting=records.read(change["setting"], Setting)) for change in changes]
    assert solved == [change["enough"] for change in changes]
    assert any(solved)


def test_the_limit_that_the_verdict_tells_is_drawn_first():
    live = session()
    found = answer(
        live, setting=Setting(overall=0.4, require=("accepted <= 0.9 overall", "selection rate >= 0.2 overall"))
    )
    subject = found["tiles"][0]["detail"].partition(",")[0]
    assert len(found["series"]) == 3
    assert found["series"][0]["subject"].lower() == subject.lower()


def test_of_a_limit_on_every_group_no_sentence_names_one_of_them_for_both_figures():
    found = answer(session(), setting=Setting(require=("selection rate >= 0.5 overall",)))
    assert "lowest selection rate rose" in found["verdict"]["words"].lower()
    before, now = ([line[when] for line in found["compared"][:2]] for when in ("before", "now"))
    (line,) = [line for line in found["compared"] if line["name"] == "lowest selection rate"]
    assert (line["before"], line["now"]) == (
        min(before, key=lambda x: float(x[:-2])),
        min(now, key=lambda x: float(x[:-2])),
    )


def test_a_conflict_with_a_tolerance_moves_its_slider():
    live = session()
    setting = Setting(
        overall=0.0, require=("selection rate of men >= 0.6 overall", "selection rate of women <= 0.5 overall")
    )
    changes = [records.read(each["setting"], Setting) for each in answer(live, setting=setting)["changes"]]
    assert any(each.overall >= 0.1 and each.require == setting.require for each in changes)
    assert all("verdict" in answer(live, setting=each) for each in changes)


def test_recommended_limits_are_settings_whose_export_certifies_them():
    live = session(12000, 2, tested=False)
    lines = answer(live, "recommend", setting=START)["lines"]
    setting = records.read(lines[0]["setting"], Setting)
    assert setting.confidence > 0.9
    exported = answer(live, "export", setting=setting)["answer"]
    assert exported["verdict"]["state"] == "met"
    assert "certified" in exported["verdict"]["words"].lower()


def test_nothing_is_told_of_fewer_than_ten_people():
    rows = columns(400, 2)
    few = {"scores": [0.123456] * 4 + [0.654321] * 20, "labels": [0, 1] * 12}
    few |= {"sensitive_features": ["women"] * 4 + ["men"] * 20, "sites": ["tiny"] * 24}
    rows = {name: np.concatenate([rows[name], np.array(few[name], dtype=rows[name].dtype)]) for name in rows}
    live = Session(rows, {}, START, 0)
    hand = (Threshold(site="tiny", group="women", score=0.9),)
    shown = answer(live, setting=START, site="tiny", hand=hand)
    women = next(each for each in shown["site"]["groups"] if each["group"] == "women")
    assert women["bins"] is None
    assert women["people"] is None
    assert "before" not in women
    (line,) = [line for line in shown["series"][0]["rows"] if line["site"] == "tiny"]
    assert "after" not in line
    assert "before" not in line
    assert not [words for words in shown["hand"]["who"] if "women at tiny" in words]
    for group in answer(live, setting=START, site="branch 0000")["site"]["groups"]:
        assert all(people >= FEWEST for _, _, people in group["bins"])
        assert sum(people for _, _, people in group["bins"]) == group["people"]
    assert "0.1234" not in json.dumps(shown)


def test_a_rule_made_by_hand_is_told_with_its_distance_and_who_pays():
    live = session()
    hand = (Threshold(site="branch 0001", group="women", score=0.9),)
    made = answer(live, setting=START, hand=hand)["hand"]
    assert "below the optimum and exceeds" in made["sentence"]
    assert any(words.endswith("fewer women at branch 0001 are accepted.") for words in made["who"])
    same = answer(live, setting=replace(START, local=None, overall=None), hand=())
    assert same["hand"] is None


@pytest.mark.parametrize(
    "tree",
    [
        {},
        [],
        {"what": "all rows"},
        {"what": "solve", "setting": {"local": "x"}},
        {"what": "solve", "setting": {"rows": 1}},
        {"what": "solve", "turn": "one"},
    ],
)
def test_a_bad_wish_is_refused_in_one_sentence(tree):
    with pytest.raises(InputError, match=r"^studio: "):
        Wish.read(tree)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"site": "nowhere"}, "site: there is none called 'nowhere'"),
        ({"hand": (Threshold(site="branch 0001", group="cats", score=0.5),)}, "group: there is none called 'cats'"),
        ({"what": "frontier", "side": "both"}, "side: got 'both'"),
        ({"what": "export", "export": "rows"}, "export: got 'rows'"),
        ({"setting": Setting(require=("be fair",))}, "require:"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(wish, words):
    assert words in answer(session(), **wish)["trouble"]


def test_percentages_and_log_odds_are_shown_as_the_files_have_them(tmp_path, monkeypatch):
    made = columns()
    frame = pl.DataFrame(
        {"p": 100 * made["scores"], "paid": made["labels"], "sex": made["sensitive_features"].tolist()}
    )
    frame.write_csv(tmp_path / "rows.csv")
    found = []
    monkeypatch.setattr(server, "serve", lambda own, port, ready: found.append(own))
    words = ["--score", "p", "--label", "paid", "--group", "sex", "--scale", "percent", "--no-browser"]
    assert commandline.run("studio", tmp_path / "rows.csv", *words)[0] == 0
    shown = answer(found[0], setting=START, site="None")["site"]
    assert shown["high"] == 100.0
    edges = [low for group in shown["groups"] for low, _, _ in group["bands"][1:]]
    assert all(10 < edge < 90 for edge in edges)
    assert command.studio.name == "studio"
