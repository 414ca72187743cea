"""``logofair recommend``: one screen, whose command certifies what its lines say."""

from __future__ import annotations

import csv
import shlex
from functools import partial

import numpy as np
import pytest

from support import commandline

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("polars")

pytestmark = pytest.mark.tool

printed, json_of = partial(commandline.printed, "recommend"), partial(commandline.json_of, "recommend")

COLUMNS = ("--score", "p", "--label", "y", "--positive", ">50K", "--group", "sex", "--site", "the site")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    site, sex = rng.choice(["north", "Sør Trøndelag"], 4000), rng.choice(["F", "M"], 4000)
    score = np.round(rng.beta(1.0 + (sex == "M"), 2.0), 4)
    path = tmp_path_factory.mktemp("data") / "some people.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["p", "y", "sex", "the site"])
        writer.writerows(zip(score, np.where(rng.random(4000) < score, ">50K", "<=50K"), sex, site, strict=True))
    return path


def test_the_command_it_prints_certifies_what_it_says(data, tmp_path, monkeypatch):
    found = json_of(data, *COLUMNS)
    monkeypatch.chdir(tmp_path)
    for line, command in zip(found["lines"], found["commands"], strict=True):
        assert bool(command) == bool(line["certified"])
        if command:
            assert shlex.split(command)[:2] == ["logofair", "fit"]
            fitted = commandline.json_of(*shlex.split(command)[1:], "--force")
            met = {
                (o["requirement"], o["site"])
                for o in fitted["outcomes"]
                if (o["basis"], o["state"]) == ("new rows", "met")
            }
            assert {(each["requirement"], each["site"]) for each in line["certified"]} <= met


def test_it_is_one_screen_with_a_line_for_each_notion(data):
    page = printed(data, *COLUMNS)
    lines = page.splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80
    for name in ("selection rate", "true positive rate", "false positive rate", "equalized odds"):
        assert sum(line.startswith(name) for line in lines) == 1
    assert "Rely on it" in page
    assert "Next:" in page


def test_one_notion_takes_all_of_the_error(data):
    (line,) = json_of(data, *COLUMNS, "--notion", "equal_opportunity", "--confidence", "0.9")["lines"]
    assert line["confidence"] == 0.9


def test_too_few_people_are_told_how_many_it_takes(tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("p,y,sex\n" + "0.3,0,F\n0.8,1,M\n" * 6)
    page = printed(path, "--score", "p", "--label", "y", "--group", "sex")
    assert "Nothing yet" in page
    assert "people of every group" in page
    assert "Next:" not in page


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--confidence", "1"), "pass a number above 0 and below 1"),
        (("--notion", "parity"), "equal_opportunity"),
        (("--seed", "-1"), "pass a whole number from 0"),
        (("--basis", "labels", "--label", "z"), "z"),
    ],
)
def test_bad_input_gets_one_sentence(data, words, sentence):
    assert sentence in commandline.refused("recommend", data, *COLUMNS, *words)
