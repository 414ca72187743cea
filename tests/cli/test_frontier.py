"""``logofair frontier``: its table, its files, and what happens on bad input."""

from __future__ import annotations

import csv
import json
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest

from logofair.errors import SolverError
from logofair.tradeoff import frontier
from logofair.words import tradeoffs
from support import commandline

run = partial(commandline.run, "frontier")
printed = partial(commandline.printed, "frontier")
json_of = partial(commandline.json_of, "frontier")
refused = partial(commandline.refused, "frontier")

COLUMNS = ("--score", "p", "--label", "income", "--positive", ">50K", "--group", "sex", "--site", "site")
SMALL = ("--local", "0.01,none", "--global", "0,0.05,none")


def rows():
    rng = np.random.default_rng(0)
    site, sex = rng.choice(["north", "south"], 800), rng.choice(["F", "M"], 800)
    score = np.round(rng.beta(1.0 + (sex == "M"), 2.0), 4)
    return score, (rng.random(800) < score).astype(int), sex, site


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    score, label, sex, site = rows()
    path = tmp_path_factory.mktemp("data") / "people.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["p", "income", "sex", "site"])
        writer.writerows(zip(score, np.where(label == 1, ">50K", "<=50K"), sex, site, strict=True))
    return path


@pytest.fixture(scope="module")
def expected():
    score, label, sex, site = rows()
    grid = {"local_tolerances": [0.01, None], "global_tolerances": [0, 0.05, None]}
    return frontier(score, label, sensitive_features=sex, sites=site, random_state=0, **grid)


def test_without_sites_there_is_one_gap_and_one_tolerance(parts):
    named = ("--score", "p", "--label", "y", "--group", "sex", "--global", "0.01,0.1,none")
    out = printed(parts / "fit.csv", *named, "--test", parts / "test.csv")
    assert not any(word in out for word in ("local", "global gap", "sites", "side.", "30+"))


def test_the_basis_is_passed_on(data):
    score, label, sex, site = rows()
    grid = {"local_tolerances": [None], "global_tolerances": [0.01]}
    options = {"notion": "equal_opportunity", "basis": "labels", "random_state": 0}
    want = frontier(score, label, sensitive_features=sex, sites=site, **options, **grid)
    words = ("--local", "none", "--global", "0.01", "--notion", "equal_opportunity", "--basis", "labels")
    found = json_of(data, *COLUMNS, *words)
    assert found["basis"] == "labels"
    assert found["points"][0]["accuracy"] == want.points[0].value


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    """The same people in one file with their part, and in one file per part."""
    score, label, sex, site = rows()
    part = np.where(np.arange(800) % 3 == 0, "test", "fit")
    folder = tmp_path_factory.mktemp("parts")
    for name, kept in (("all", part != ""), ("fit", part == "fit"), ("test", part == "test")):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["p", "y", "sex", "site", "part", "id"])
            columns = (score, label, sex, site, part, np.arange(800))
            writer.writerows(zip(*(column[kept] for column in columns), strict=True))
    return folder


def test_test_rows_of_a_file_or_by_a_value_are_the_same_rows_and_take_no_part_in_the_fit(parts):
    score, label, sex, site = rows()
    test = np.arange(800) % 3 == 0
    grid = {"local_tolerances": [0.01, None], "global_tolerances": [0, 0.05, None]}
    other = {"scores": score[test], "labels": label[test], "sensitive_features": sex[test], "sites": site[test]}
    fit = {"sensitive_features": sex[~test], "sites": site[~test], "random_state": 0}
    want = frontier(score[~test], label[~test], test_rows=other, **fit, **grid)
    named = ("--score", "p", "--label", "y", "--group", "sex", "--site", "site", *SMALL)
    for words in (
        (parts / "fit.csv", "--test", parts / "test.csv", "--id", "id"),
        (parts / "all.csv", "--test-where", "part=test"),
        (parts / "all.csv", "--where", "part=fit", "--test-where", "part=test"),
        (parts / "all.csv", "--where", "part=fit", "--test", parts / "all.csv", "--test-where", "part=test"),
        (parts / "fit.csv", "--test", parts / "all.csv", "--test-where", "part=test"),
    ):
        found = json_of(*words, *named)
        assert (found["rows"], found["test_rows"]) == (533, 267)
        assert [p["measured"] for p in found["points"]] == [p.as_dict()["measured"] for p in want.points]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("fit.csv", "--test", "fit.csv"), "--test: fit.csv is fitted on too"),
        (("fit.csv", "--test", "all.csv", "--id", "id"), "--id: 533 ids of the test rows are among the rows to fit"),
        (("test.csv", "--test-where", "part=test"), "--test-where: takes every row of test.csv; none is left"),
        (("all.csv", "--test-where", "part=tset"), "no row has part=tset"),
    ],
)
def test_test_rows_that_are_no_test_are_refused(parts, words, sentence):
    words = [parts / word if word.endswith(".csv") else word for word in words]
    assert sentence in refused(*words, "--score", "p", "--label", "y", "--group", "sex", "--site", "site", *SMALL)


def test_without_sites_there_is_one_tolerance(data):
    out = printed(data, *COLUMNS[:-2], "--global", "0,0.1")
    assert "sites" not in out.splitlines()[0]
    assert "local" not in out.split("Knee")[0]


def test_the_files_hold_the_table_and_the_picture(data, expected, tmp_path):
    out, plot = tmp_path / "frontier.csv", tmp_path / "frontier.svg"
    page = printed(data, *COLUMNS, *SMALL, "--out", out, "--plot", plot)
    assert page.count("Wrote") == 1
    assert out.read_text() == expected.as_csv()
    assert plot.read_text() == f"{tradeoffs.frontier_plot(expected)}\n"
    assert ElementTree.fromstring(plot.read_text()).get("role") == "img"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["frontier.csv", "frontier.svg"]


def test_json_is_everything_and_nothing_else(data, expected):
    code, out, err = run(data, *COLUMNS, *SMALL, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["data"] == "people.csv"
    assert [p["accuracy"] for p in found["points"]] == expected.values.ravel().tolist()
    assert found["knee"] == expected.knee.as_dict()
    assert found["table"] is None


def test_scores_without_labels_are_taken_as_they_are(data):
    assert json_of(data, "--score", "p", "--group", "sex", "--site", "site", *SMALL)["calibration"] == "none"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--score", "q"), "no column 'q'"),
        (("--local", "0.1,x"), "--local: got 'x'; pass a number from 0"),
        (("--global", "-1"), "--global: got '-1'; pass a number"),
        (("--global", ""), "--global: got ''; pass a number"),
        (("--notion", "parity"), "--notion: got 'parity'"),
        (("--plot", "frontier.png"), "frontier.png: is written as SVG; give it a name that ends in .svg."),
        (("--out", "frontier.json"), "frontier.json: is written as CSV; give it a name that ends in .csv."),
        (("--seed", "-1"), "--seed: got -1"),
        (("--calibration", "bets"), "did you mean 'beta'"),
        (("--tset", "others.csv"), "did you mean '--test'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(data, arguments, sentence):
    assert sentence in refused(data, *COLUMNS, *SMALL, *arguments)


def test_a_missing_file_a_missing_option_and_missing_labels_are_named(data, tmp_path):
    for arguments, sentence in (
        ((tmp_path / "none.csv", *COLUMNS), "none.csv: cannot be read"),
        ((data, "--group", "sex"), "--score: not given; name the column of the model's scores"),
        ((data, "--score", "p"), "--group: not given"),
    ):
        assert sentence in refused(*arguments)


def test_existing_files_are_kept_unless_forced(data, tmp_path):
    out = tmp_path / "frontier.csv"
    out.write_text("mine")
    assert "exists already" in refused(data, *COLUMNS, *SMALL, "--out", out)
    assert out.read_text() == "mine"
    printed(data, *COLUMNS, *SMALL, "--out", out, "--force")
    assert out.read_text().startswith("measure,local_tolerance,")


def test_an_interrupt_leaves_nothing_half_written(data, tmp_path, monkeypatch):
    def interrupted(surface):
        raise KeyboardInterrupt

    monkeypatch.setattr(tradeoffs, "frontier_plot", interrupted)
    code, out, err = run(data, *COLUMNS, *SMALL, "--plot", tmp_path / "frontier.svg")
    assert (code, out) == (130, "")
    assert "interrupted" in err
    assert list(tmp_path.iterdir()) == []


def test_a_solver_that_fails_is_a_sentence_and_exit_code_1(data, monkeypatch):
    def failing(*arguments, **options):
        raise SolverError("exact: no policy with a valid certificate was found.")

    monkeypatch.setattr("logofair.tradeoff.sweep.certified", failing)
    code, out, err = run(data, *COLUMNS, *SMALL)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "no policy with a valid certificate" in err


@pytest.mark.parametrize("pooling", ["none", "full"])
def test_pooling_is_that_of_the_library_and_is_said(data, pooling):
    score, label, sex, site = rows()
    grid = {"local_tolerances": [0.01, None], "global_tolerances": [0, 0.05, None]}
    want = frontier(score, label, sensitive_features=sex, sites=site, random_state=0, pooling=pooling, **grid)
    found = json_of(data, *COLUMNS, *SMALL, "--pooling", pooling)
    assert found["pooling"] == want.as_dict()["pooling"]
    assert [point["accuracy"] for point in found["points"]] == [point.value for point in want.points]
    assert {point.certificate.pooling for point in want.points} == {"none" if pooling == "none" else "group"}
    page = " ".join(run(data, *COLUMNS, *SMALL, "--pooling", pooling, "--verbose")[1].split())
    assert ("No group borrows from other sites." in page) == (pooling == "none")
    assert "use one of auto, none, full." in refused(data, *COLUMNS, "--pooling", "some")
