"""The benchmark measures what it says, on sizes too small to be of interest."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import frontiers, goals, measurements, memory, peers, scaling, stages, studio
from logofair.progress import no_progress

pytestmark = pytest.mark.tool

SMALL = measurements.Size(4, 100)


def test_the_generated_federation_has_the_size_asked_for():
    scores, groups, sites = measurements.federation(measurements.Size(7, 30, 3))
    assert scores.shape == groups.shape == sites.shape == (210,)
    assert 0 < scores.min() < scores.max() < 1
    assert set(groups) == {0, 1, 2}


def test_a_timing_is_a_multiple_of_the_unit_and_carries_its_certificate():
    timing = measurements.time_fit(SMALL, "equalized_odds", unit=0.5, goal=4.0, repeat=1)
    assert timing.multiple == pytest.approx(timing.seconds / 0.5)
    assert timing.gap <= 1e-6
    assert timing.violation <= 1e-9


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", [name for name in peers.CASES if name != "calibration alone"])
def test_no_peer_is_more_accurate_on_its_labels_within_the_tolerance(case):
    contenders, rows = peers.CASES[case].contenders, peers.made(3000)
    found = {
        name: peers.CASES[case].judged(contender.fit(rows)(rows), rows)
        for name, contender in contenders.items()
        if contender.is_ours or name in frontiers.installed()
    }
    best = found["ours, on labels"]
    assert best["gap"] <= peers.TOLERANCE + 1e-9
    for each in found.values():
        assert each["accuracy"] <= best["accuracy"] + 1e-9 or each["gap"] > peers.TOLERANCE


@pytest.mark.parametrize("name", peers.CASES["calibration alone"].contenders)
def test_every_calibration_of_the_comparison_is_better_than_none(name):
    case, rows = peers.CASES["calibration alone"], peers.made(3000)
    off = replace(rows, scores=np.sqrt(rows.scores))
    assert case.judged(case.contenders[name].fit(off)(off), off)["log-loss"] < case.judged(off.scores, off)["log-loss"]


def test_a_peer_that_takes_too_long_is_given_fewer_rows_and_ours_at_these_too(monkeypatch):
    def measured(case, name, rows):
        return None if name == "Fairlearn" and rows > 100 else {"seconds": 1.0, "accuracy": 0.7, "gap": 0.0}

    monkeypatch.setattr(peers, "measured", measured)
    monkeypatch.setattr(peers, "find_spec", lambda module: None if module == "oxonfair" else module)
    found = peers.beside(1000, no_progress)["demographic parity to 0.02"]
    rows = [(line["name"], line.get("rows")) for line in found]
    assert rows[:3] == [("Fairlearn", 100), ("error-parity", 1000), ("OxonFair", None)]
    assert [size for name, size in rows if name == "ours, default call"] == [1000, 100]
    assert found[2]["does"] == "not installed"


@pytest.mark.parametrize(
    ("call", "idle"), [("pooling none, then merged rule", {"pooling"}), ("default call", {"merged rule"})]
)
def test_every_stage_of_a_fit_is_seen_and_nothing_stays_timed(call, idle):
    before = [place for names in stages.STAGES.values() for name in names for place in stages._places(name)]
    found = stages.stages(call, SMALL, "equalized_odds", 1)
    assert {stage for stage, ms in found.items() if ms <= 0.0} == idle
    assert all(vars(owner)[name] is work for owner, name, work in before)


def results():
    timing = measurements.Timing("default call", "4 x 100", "equalized_odds", 0.1, 3.0, 4.0, 1e-8, 0.0, 5)
    return {
        "machine": {"processor": "x", "cores": 2},
        "sort_seconds": {400: {"default": 0.01}},
        "fit": measurements.as_plain([timing]),
        "many_groups": [measurements.as_plain([timing])[0] | {"tolerance": 0.0}],
        "frame": 0.7,
        "stages": {"equalized_odds": {"default 4": dict.fromkeys((*stages.STAGES, stages.REST), 1.0)}},
        "decide": {"plain thresholds": 30.0},
        "peers": {"calibration alone": [{"name": "scikit-learn, sigmoid", "does": "not installed"}]},
        "processes": {
            "import": 0.01,
            "first": {"load": 0.2, "first": 1.0, "warm": 0.5},
            "help": 0.2,
            "largest": {"rows": 100_000_000, "seconds": 30.0, "peak_gb": 7.0},
        },
        "memory": {"default call": {"rows": 400, "peak_bytes_a_row": 80.0, "multiple": 3.2, "bytes_a_row": 25.0}},
        "federated": [
            {"size": "4 x 100", "notion": "equalized_odds", "multiple": 2.0, "goal": 3.0, "rounds": 4}
            | {"optimality_gap": 1e-6}
        ],
        "rounds": [],
        "secure": None,
        "tool": None,
    }


def test_the_page_shows_multiples_beside_goals(capsys):
    command.show(results(), Console())
    shown = capsys.readouterr().out
    assert "4 met" in shown
    assert "scikit-learn, sigmoid" in shown
    assert "merged rule" in shown
    assert "times its columns of 25 bytes (goal 3 " in " ".join(shown.split())
    assert "5 sites: 0.70 s (goal 0.5 missed)" in " ".join(shown.split())
    assert "2.00 times a warm one, 2.40 times with the 200 ms of loading" in " ".join(shown.split())
    assert "import logofair: 0.010 s (goal 0.03 met)" in " ".join(shown.split())
    assert "7.00 GB with the rows (goal 8 met)" in " ".join(shown.split())
    assert "2.0 times the central fit (goal 3 met)" in " ".join(shown.split())
    assert "no secure sums" in shown


def test_goals_alone_are_those_of_the_whole_page(capsys):
    goals.show_goals(results(), Console())
    alone = capsys.readouterr().out
    command.show(results(), Console())
    assert capsys.readouterr().out.startswith(alone)


def test_every_goal_is_of_a_call_that_can_be_timed_at_a_size_of_its_own():
    cases = [*goals.FITS, *goals.MORE_FITS]
    assert {call for call, _, _ in cases} <= measurements.CALLS.keys()
    assert len({(call, size) for call, size, _ in cases}) == len(cases)
    assert all(any(goals_of) for _, _, goals_of in goals.FITS)
    assert not any(any(goals_of) for _, _, goals_of in goals.MORE_FITS)


def test_fewer_rows_have_no_goals_and_the_sort_of_as_many_scores():
    cases = [("calibration none", measurements.Size(5, 2_000), (8.0, 12.0))]
    found = goals.measured_fits(cases, 1, 10, no_progress)
    assert list(found["sort_seconds"]) == [1_000]
    assert [(t["size"], t["goal"]) for t in found["fit"]] == [("5 x 200", None)] * 2


def test_memory_is_measured_in_a_process_of_its_own():
    found = memory.peak_memory(SMALL, "default call")
    assert found is None or found["multiple"] == pytest.approx(found["peak_bytes_a_row"] / found["bytes_a_row"])


def test_the_figure_of_cost_against_rows_is_drawn_on_logarithmic_axes():
    lines = {"default call": [{"rows": 10**power, "seconds": 10.0 ** (power - 6)} for power in range(4, 9)]}
    figure = ElementTree.fromstring(scaling.drawn(lines))
    paths = [line.attrib["points"] for line in figure.iter("{http://www.w3.org/2000/svg}polyline")]
    measured, straight = ([tuple(map(float, point.split(","))) for point in path.split()] for path in paths)
    steps = np.diff(measured, axis=0)
    assert np.ptp(steps, axis=0).max() < 0.2  # equal factors are equal steps
    assert measured[0] == straight[0]
    assert measured[-1] == straight[-1]
    texts = [text.text for text in figure.iter("{http://www.w3.org/2000/svg}text")]
    assert {"10,000", "100,000,000", "0.01 s", "100 s", "default call"} <= set(texts)


def test_sizes_without_room_in_memory_are_left_out(monkeypatch):
    monkeypatch.setattr(scaling, "available", lambda: 0.0)
    assert list(scaling.measured([10_000, 30_000], "default call")) == [None, None]


def test_json_is_what_was_measured(monkeypatch):
    monkeypatch.setattr(command, "measure", lambda repeat, shrink, progress: results())
    done = CliRunner().invoke(command.bench, ["--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["fit"][0]["multiple"] == 3.0


def test_the_studio_is_asked_settings_that_differ_and_every_answer_is_timed():
    session, first = studio.session_of(SMALL)
    assert first > 0
    assert len({str(setting) for setting in studio.settings()}) > 40
    times = studio.answer_times(session)
    assert times.shape == (50, 2)
    assert (times > 0).all()
