"""``logofair frontier``: its table, its files, and what happens on bad input."""

from __future__ import annotations

import csv
import json
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest

from support import commandline

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("polars")


import logofair
from logofair.tradeoff import figure as frontier_figure
from logofair.tradeoff import frontier

pytestmark = pytest.mark.tool

run = partial(commandline.run, "frontier")

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
    return frontier(score, label, groups=sex, sites=site, random_state=0, **grid)


def test_without_sites_there_is_one_gap_and_one_tolerance(parts):
    named = ("--score", "p", "--label", "y", "--group", "sex", "--global", "0.01,0.1,none")
    code, out, _ = run(parts / "fit.csv", *named, "--test", parts / "test.csv")
    assert code == 0
    assert not any(word in out for word in ("local", "global gap", "sites", "side.", "30+"))


def test_the_basis_is_passed_on(data):
    score, label, sex, site = rows()
    grid = {"local_tolerances": [None], "global_tolerances": [0.01]}
    options = {"notion": "equal_opportunity", "basis": "labels", "random_state": 0}
    want = frontier(score, label, groups=sex, sites=site, **options, **grid)
    words = ("--local", "none", "--global", "0.01", "--notion", "equal_opportunity", "--basis", "labels")
    code, out, _ = run(data, *COLUMNS, *words, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["basis"] == "labels"
    assert found["points"][0]["accuracy"] == want.points[0].value
    assert "counted in labels" in " ".join(run(data, *COLUMNS, *words)[1].split())


def test_the_table_shows_accuracy_and_loss_of_every_point_and_the_knee(data, expected):
    code, out, _ = run(data, *COLUMNS, *SMALL)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "people.csv: 800 rows at 2 sites, groups F, M"
    assert f"{100 * expected.unconstrained.value:.2f} % expected accuracy without any requirement" in lines[1]
    top = next(i for i, line in enumerate(lines) if line.split() == ["local", "0", "0.05", "none"])
    for i, local in enumerate(["0.01", "none"]):
        name, *accuracies = lines[top + 2 + 2 * i].split()
        assert name == local
        assert [a.lstrip("*") for a in accuracies] == [f"{100 * a:.2f}" for a in expected.values[i]]
        losses = [abs(float(loss)) for loss in lines[top + 3 + 2 * i].split()]
        assert losses == pytest.approx(100 * expected.losses[i], abs=0.0051)
    assert " ".join(expected.knee.sentence.split()[:8]) in " ".join(out.split())
    assert max(map(len, lines)) <= 80


def test_the_default_grid_fits_on_a_page(parts):
    named = ("--score", "p", "--label", "y", "--group", "sex", "--site", "site", "--test", parts / "test.csv")
    code, out, _ = run(parts / "fit.csv", *named)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "measured on 267 rows that took no part in the fit" in " ".join(out.split())
    assert out.index("95 % interval") < out.index("Tolerances: local down")  # other rows come first
    assert "Every point is within chance of the others" in out
    assert "*" not in out
    for words in ("selection rate, F", "selection rate, M", "accuracy", "local gap", "global gap"):
        assert f"\n{words} " in out
    assert "could not be seen here" in " ".join(out.split())


def measured_lines(out, name):
    """Figure, interval and rows of one line of the table."""
    lines = out.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(f"{name} "))
    return [" ".join(line.split()) for line in lines[at : at + 3]]


def test_without_other_rows_the_page_says_so_and_that_intervals_are_too_narrow(data, expected):
    code, out, _ = run(data, *COLUMNS, *SMALL)
    assert code == 0
    text = " ".join(out.split())
    assert "Not yet tested on other rows: add --test FILE" in text
    assert "measured on the rows that chose the rule: these intervals are too narrow for new rows" in text
    found = expected.points[0].measured.accuracy
    figure, interval, rows = measured_lines(out, "accuracy")
    assert figure.split()[1] == f"{found:.4f}"
    assert interval.startswith(f"{found.low:.4f} to {found.high:.4f}")
    assert rows.startswith("800 rows")


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
    other = {"scores": score[test], "labels": label[test], "groups": sex[test], "sites": site[test]}
    fit = {"groups": sex[~test], "sites": site[~test], "random_state": 0}
    want = frontier(score[~test], label[~test], test_rows=other, **fit, **grid)
    named = ("--score", "p", "--label", "y", "--group", "sex", "--site", "site", *SMALL, "--json")
    for words in (
        (parts / "fit.csv", "--test", parts / "test.csv", "--id", "id"),
        (parts / "all.csv", "--test-where", "part=test"),
        (parts / "all.csv", "--where", "part=fit", "--test-where", "part=test"),
        (parts / "all.csv", "--where", "part=fit", "--test", parts / "all.csv", "--test-where", "part=test"),
        (parts / "fit.csv", "--test", parts / "all.csv", "--test-where", "part=test"),
    ):
        code, out, err = run(*words, *named)
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert (found["rows"], found["test_rows"]) == (533, 267)
        assert [p["measured"] for p in found["points"]] == [p.as_dict()["measured"] for p in want.points]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("fit.csv", "--test", "fit.csv"), "--test: fit.csv is fitted on too"),
        (("fit.csv", "--test", "all.csv", "--id", "id"), "--id: 533 ids of the test rows are among the rows to fit"),
        (("test.csv", "--test-where", "part=test"), "--test-where: takes every row of test.csv; none is left"),
        (("all.csv", "--test-where", "part=tset"), "no row has part=tset"),
        (("all.csv", "--id", "id"), "--id: tells people of test rows apart"),
    ],
)
def test_test_rows_that_are_no_test_are_refused(parts, words, sentence):
    words = [parts / word if word.endswith(".csv") else word for word in words]
    code, out, err = run(*words, "--score", "p", "--label", "y", "--group", "sex", "--site", "site", *SMALL)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


def test_more_tolerances_than_a_page_is_wide_come_in_blocks(data):
    _, out, _ = run(data, *COLUMNS, "--local", "none", "--global", ",".join(f"0.{k:02}" for k in range(1, 13)))
    assert out.count("local   ") == 2
    assert "0.12" in out


def test_without_sites_there_is_one_tolerance(data):
    code, out, _ = run(data, *COLUMNS[:-2], "--global", "0,0.1")
    assert code == 0
    assert "sites" not in out.splitlines()[0]
    assert "local" not in out.split("Knee")[0]


def test_the_files_hold_the_table_and_the_picture(data, expected, tmp_path):
    out, plot = tmp_path / "frontier.csv", tmp_path / "frontier.svg"
    code, page, _ = run(data, *COLUMNS, *SMALL, "--out", out, "--plot", plot)
    assert code == 0
    assert page.count("Written") == 2
    assert out.read_text() == expected.as_csv()
    assert plot.read_text() == frontier_figure.frontier_figure(expected) + "\n"
    assert ElementTree.fromstring(plot.read_text()).get("role") == "img"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["frontier.csv", "frontier.svg"]


def test_json_is_everything_and_nothing_else(data, expected):
    code, out, err = run(data, *COLUMNS, *SMALL, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["data"] == "people.csv"
    assert [p["accuracy"] for p in found["points"]] == expected.values.ravel().tolist()
    assert found["knee"]["sentence"] == expected.knee.sentence
    assert found["table"] is None


def test_scores_without_labels_are_taken_as_they_are(data):
    code, out, _ = run(data, "--score", "p", "--group", "sex", "--site", "site", *SMALL, "--json")
    assert code == 0
    assert json.loads(out)["calibration"] == "none"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--score", "q"), "no column 'q'"),
        (("--local", "0.1,x"), "--local: got 'x'; pass a number from 0"),
        (("--global", "-1"), "--global: got '-1'; pass a number"),
        (("--global", ""), "--global: got ''; pass a number"),
        (("--notion", "parity"), "--notion: got 'parity'"),
        (("--plot", "frontier.png"), "--plot: got frontier.png; the picture is an SVG"),
        (("--out", "frontier.json"), "--out: got frontier.json; the table is written as CSV"),
        (("--seed", "-1"), "--seed: got -1"),
        (("--calibration", "bets"), "did you mean 'beta'"),
        (("--tset", "others.csv"), "did you mean '--test'"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(data, arguments, sentence):
    code, out, err = run(data, *COLUMNS, *SMALL, *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_missing_file_a_missing_option_and_missing_labels_are_named(data, tmp_path):
    for arguments, sentence in (
        ((tmp_path / "none.csv", *COLUMNS), "none.csv: cannot be read"),
        ((data, "--group", "sex"), "--score: not given; name the column of the model's scores"),
        ((data, "--score", "p"), "--group: not given"),
    ):
        code, out, err = run(*arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert sentence in err


def test_existing_files_are_kept_unless_forced(data, tmp_path):
    out = tmp_path / "frontier.csv"
    out.write_text("mine")
    code, _, err = run(data, *COLUMNS, *SMALL, "--out", out)
    assert code == 2
    assert "exists already" in err
    assert out.read_text() == "mine"
    assert run(data, *COLUMNS, *SMALL, "--out", out, "--force")[0] == 0
    assert out.read_text().startswith("local_tolerance,")


def test_an_interrupt_leaves_nothing_half_written(data, tmp_path, monkeypatch):
    def interrupted(surface):
        raise KeyboardInterrupt

    monkeypatch.setattr(frontier_figure, "frontier_figure", interrupted)
    code, out, err = run(data, *COLUMNS, *SMALL, "--plot", tmp_path / "frontier.svg")
    assert (code, out) == (130, "")
    assert "interrupted" in err
    assert list(tmp_path.iterdir()) == []


def test_a_solver_that_fails_is_a_sentence_and_exit_code_1(data, monkeypatch):
    def failing(*arguments, **options):
        raise logofair.SolverError("exact: no policy with a valid certificate was found.")

    monkeypatch.setattr("logofair.tradeoff.sweep.certified", failing)
    code, out, err = run(data, *COLUMNS, *SMALL)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "no policy with a valid certificate" in err


def test_hundreds_of_small_sites_are_counted_in_a_few_lines(tmp_path):
    rng = np.random.default_rng(0)
    site, sex = rng.integers(0, 300, 3000), rng.choice(["F", "M"], 3000)
    score = np.round(rng.beta(1.0 + (sex == "M"), 2.0), 4)
    with (tmp_path / "sites.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["p", "y", "sex", "site"])
        writer.writerows(zip(score, rng.random(3000) < score, sex, site, strict=True))
    named = ("--score", "p", "--label", "y", "--group", "sex", "--site", "site", "--positive", "True")
    code, out, _ = run(tmp_path / "sites.csv", *named, "--local", "0.1,none", "--global", "0,none")
    assert code == 0
    assert len(out.splitlines()) < 75
    assert " groups at sites: fewer than 30 rows" in " ".join(out.split())
    assert "group 'F' at site" not in out


@pytest.mark.parametrize("pooling", ["none", "full"])
def test_pooling_is_that_of_the_library_and_is_said(data, pooling):
    score, label, sex, site = rows()
    grid = {"local_tolerances": [0.01, None], "global_tolerances": [0, 0.05, None]}
    want = frontier(score, label, groups=sex, sites=site, random_state=0, pooling=pooling, **grid)
    found = commandline.json_of("frontier", data, *COLUMNS, *SMALL, "--pooling", pooling)
    assert found["pooling"] == want.as_dict()["pooling"]
    assert [point["accuracy"] for point in found["points"]] == [point.value for point in want.points]
    assert {point.certificate.pooling for point in want.points} == {"none" if pooling == "none" else "group"}
    page = " ".join(run(data, *COLUMNS, *SMALL, "--pooling", pooling)[1].split())
    assert f"Pooling {want.pooling.summary()}" in page
    assert ("on the calibration rows and what small cells borrow, counted" in page) == (pooling == "full")
    assert "use one of auto, none, full." in commandline.refused("frontier", data, *COLUMNS, "--pooling", "some")
