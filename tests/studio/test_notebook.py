"""The widget's Python side, without a browser: messages in, answers out."""

from __future__ import annotations

import sys
from dataclasses import asdict
from threading import Event

import pytest

import logofair
from logofair.errors import InputError
from logofair.studio import notebook
from logofair.studio.session import Setting
from support.studio import columns

anywidget = pytest.importorskip("anywidget")


def asked(page, tree):
    """What the page is sent for a message."""
    sent, done = [], Event()

    def send(content, buffers=None):
        sent.append(content)
        done.set()

    page.send = send
    page._handle_custom_msg(tree, [])
    assert done.wait(60)
    return sent[0]


def test_a_notebook_page_answers_messages_as_the_server_does():
    page = logofair.explore(**columns(), local_tolerance=0.05, global_tolerance=0.02, random_state=0)
    begun = asked(page, {"what": "start", "turn": 1})
    assert begun["turn"] == 1
    assert begun["answer"]["people"] == "3,000 people, 4 sites"
    solved = asked(page, {"what": "solve", "turn": 2, "setting": begun["answer"]["setting"]})["answer"]
    cold = logofair.fit(**columns(), local_tolerance=0.05, global_tolerance=0.02, random_state=0)
    assert solved["value"] == pytest.approx(cold.certificate.primal, abs=1e-6)
    assert solved["command"] == ""
    assert solved["call"].startswith("logofair.fit(scores, labels, sensitive_features=sensitive_features, sites=sites,")
    assert "export default" in page._esm
    assert ".logofair-studio" in page._css


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"notion": "equal_opportunity"},
        {"notion": "equal_opportunity", "require": "accepted <= 0.4 overall"},
        {"require": "accepted <= 0.4 overall"},
        {"global_tolerance": 0.05},
    ],
)
def test_a_page_begins_with_what_fit_requires_where_little_is_given(given):
    page = logofair.explore(**columns(), **given, random_state=0)
    required = page.session.requirements(page.session.start).items
    assert set(required) == set(logofair.fit(**columns(), **given, random_state=0).requirements.items)


def test_a_bad_message_gets_a_sentence():
    page = logofair.explore(**columns(), random_state=0)
    assert asked(page, {"what": "rows", "turn": 3}) == {
        "turn": 3,
        "answer": {"trouble": "studio: got 'rows'; ask for one of start, solve, frontier, recommend, export."},
    }


def test_a_newer_wish_makes_an_older_one_void():
    page = logofair.explore(**columns(), random_state=0)
    setting = asdict(page.session.start)
    asked(page, {"what": "solve", "turn": 9, "setting": setting})
    sent = []
    page.send = lambda content, buffers=None: sent.append(content)
    page._answer({"what": "solve", "turn": 5, "setting": setting})
    page._answer({"what": "frontier", "turn": 8, "setting": setting})
    assert sent == []


@pytest.mark.parametrize(
    ("how", "start"),
    [
        ({}, Setting(local=0.02, overall=0.02)),
        ({"notion": "equalized_odds", "global_tolerance": 0.1}, Setting(notion="equalized_odds", overall=0.1)),
        (
            {"require": ["accepted <= 0.4 overall", "selection rate gap <= 0.1 per site"], "costs": (1, 2)},
            Setting(local=0.1, require=("accepted <= 0.4 overall",), costs=(1.0, 2.0)),
        ),
    ],
)
def test_a_solution_explores_from_what_it_was_made_for(how, start):
    solution = logofair.fit(**columns(), **how, random_state=3)
    session = solution.explore(test_rows=columns(seed=1)).session
    assert session.start == start
    assert session.random_state == 3
    found = session.solved(start).solution
    assert found.certificate.primal == pytest.approx(solution.certificate.primal, abs=1e-6)
    assert found.tested is not None


def test_without_anywidget_the_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)
    notebook._widget.cache_clear()
    with pytest.raises(InputError, match=r"logofair\[notebook\]"):
        logofair.explore(**columns(), random_state=0)
    notebook._widget.cache_clear()
