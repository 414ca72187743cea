"""Several attributes at once on the command line: each command's page, and what is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from logofair import Policy
from support.commandline import json_of, printed, refused

ROWS = 1500
COLUMNS = ("--score", "score", "--label", "label", "--site", "site", "--group", "sex", "--group", "race")
OF_WOMEN = "selection rate of women <= 0.9 overall"
BY_SEX = "selection rate gap by sex <= 0.05 overall"


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    sex, race = rng.choice(["women", "men"], 2 * ROWS), rng.choice(["Black", "white"], 2 * ROWS, p=[0.3, 0.7])
    site = rng.choice(["Bergen", "Oslo"], 2 * ROWS)
    score = np.clip(rng.beta(2, 2, 2 * ROWS) + 0.15 * (sex == "men") - 0.1 * (race == "Black"), 0, 1).round(4)
    label = (rng.random(2 * ROWS) < score).astype(int)
    return pl.DataFrame({"id": range(2 * ROWS), "score": score, "label": label, "sex": sex, "race": race, "site": site})


@pytest.fixture(autouse=True)
def files(people, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people[:ROWS].write_csv("first.csv")
    people[ROWS:].write_csv("second.csv")


def fit(*words):
    return printed("fit", "first.csv", *COLUMNS, "--test", "second.csv", "--out", "p.json", "--pooling", "none", *words)


def one_line(page):
    return " ".join(page.split())


def test_every_command_takes_several_groups_and_speaks_of_each_attribute(people):
    page = one_line(fit("--require", BY_SEX, "--report", "fit.html"))
    printed("apply", "p.json", "second.csv", "--id", "id", "--out", "decided.csv")
    others, decided = people[ROWS:], pl.read_csv("decided.csv")
    assert others["id"].to_list() == decided["id"].to_list()
    audited = one_line(printed("audit", "second.csv", "--policy", "p.json", "--label", "label"))
    explained = one_line(printed("explain", "p.json"))
    for each in (page, audited, explained):
        assert "sex (men and women) and race (Black and white)" in each
        assert "gap in selection rate by sex" in each
    chance = Policy.load("p.json").probabilities(
        others["score"], sensitive_features=others[["sex", "race"]], sites=others["site"]
    )
    for each in (page, audited):
        line = each.partition("Accepted ")[2].partition("Rely on it")[0]
        assert " and " not in line
        for column in ("sex", "race"):
            for value in others[column].unique():
                its = line[line.index(f"{value} ") :].partition("%")[0]
                assert its.endswith(f" -> {100 * chance[others[column].to_numpy() == value].mean():.0f} ")
    table = Path("fit.html").read_text(encoding="utf-8").partition("How many are accepted")[2].partition("</table>")[0]
    assert [name in table for name in ("women", "Black", "women and Black")] == [True, True, False]


def test_gaps_of_the_certified_rules_are_those_of_the_people_of_the_fit(people):
    fit("--require", BY_SEX, "--local", "none", "--global", "none")
    decided = json_of("audit", "first.csv", "--policy", "p.json", "--label", "label")
    (found,) = decided["outcomes"]
    rates = decided["rates"]["selection rate by sex"]
    assert found["after"] <= 0.05 + 1e-9
    assert rates["men"]["value"] - rates["women"]["value"] == pytest.approx(found["after"], abs=1e-9)


def test_where_all_intersections_are_compared_the_page_is_about_them():
    page = one_line(fit("--require", "selection rate gap by all <= 0.1 overall"))
    assert "women and " in page.partition("Accepted ")[2].partition("Rely on it")[0]


def without_some(people):
    return people.with_columns(race=pl.when(pl.col("id") == 5).then(None).otherwise("race"))


def of_one_race(people):
    return people.with_columns(race=pl.lit("white"))


def with_a_value_twice(people):
    return people.with_columns(race=pl.col("race").replace("Black", "women"))


@pytest.mark.parametrize(
    ("change", "require", "said"),
    [
        (without_some, BY_SEX, ("'race': 1 of 3,000 rows has no value", "add --drop-missing; filled with a name such")),
        (of_one_race, BY_SEX, ("race has only one value, 'white'", "leave the column out, or add rows of others")),
        (with_a_value_twice, OF_WOMEN, ("'women' occurs in sex and race", "write sex=women or race=women")),
        (pl.DataFrame.clone, "selection rate gap by age <= 0.05 overall", ("column 'age'", "use one of sex, race")),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence_and_nothing_is_written(people, tmp_path, change, require, said):
    change(people).write_csv("bad.csv")
    sentence = one_line(refused("fit", "bad.csv", *COLUMNS, "--require", require, "--out", "never.json"))
    assert all(words in sentence for words in said)
    assert not (tmp_path / "never.json").exists()
