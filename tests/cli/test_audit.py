"""``logofair audit``: the figures of the library's audit, counted in pieces, with the rows each rests on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import logofair
from logofair.auditing.files import _count_rows
from logofair.auditing.measure import tally_of
from logofair.cli.options import NOTIONS
from logofair.columns.labels import encode
from logofair.files.inputs import ColumnNames, DataFiles, find_files
from logofair.progress import no_progress
from logofair.records import for_json
from support import commandline

run = partial(commandline.run, "audit")
audited = partial(commandline.json_of, "audit")
refused = partial(commandline.refused, "audit")


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    n = 3000
    site = rng.choice(["north", "south", "east", "tiny"], n, p=[0.5, 0.3, 0.19, 0.01])
    sex, race = rng.choice(["Female", "Male"], n), rng.choice(["A", "B", "C"], n, p=[0.6, 0.38, 0.02])
    score = rng.beta(1 + (sex == "Male"), 2, n)
    label = np.where(rng.random(n) < score, ">50K", "<=50K")
    weight = rng.integers(0, 4, n) / 2
    return pl.DataFrame({"p": score, "y": label, "sex": sex, "race": race, "site": site, "w": weight})


COLUMNS = ("--score", "p", "--label", "y", "--positive", ">50K", "--site", "site")


def alike(found: Any, expected: Any) -> bool:
    """Whether plain values are the same, numbers but for rounding."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(alike(found[name], expected[name]) for name in expected)
    return found == (pytest.approx(expected, abs=1e-9) if isinstance(expected, float) else expected)


def own(gap: dict[str, Any]) -> dict[str, Any]:
    """What is of a gap alone: its lower end is corrected over all notions that are looked at."""
    return {name: value for name, value in gap.items() if name != "low"}


@pytest.mark.parametrize("kind", ["plain", "weighted", "ids"])
@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_figures_are_those_of_the_library(people: pl.DataFrame, ending: str, kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"people.{ending}"
    people = people.with_columns(person=(pl.int_range(pl.len()) * 7919) % 1700)
    {"csv": people.write_csv, "parquet": people.write_parquet, "arrow": people.write_ipc}[ending](file)
    more = {"plain": (), "weighted": ("--weight", "w"), "ids": ("--id", "person")}[kind]
    more = (*more, "--threshold", "0.4", "--local", "0.1", "--costs", "1,3")
    found = audited(file, *COLUMNS, "--group", "race", *more)
    for notion in NOTIONS:
        measured = logofair.audit(
            people["p"].to_numpy() >= 0.4,
            (people["y"] == ">50K").to_numpy(),
            sensitive_features=people["race"].to_list(),
            sites=people["site"].to_list(),
            notion=notion,
            sample_weight=people["w"].to_numpy() if kind == "weighted" else None,
            ids=people["person"].to_list() if kind == "ids" else None,
            costs=(1, 3),
        )
        expected = measured.as_dict()
        assert alike(found["accuracy"], expected["accuracy"])
        assert alike(found["accepted"], expected["accepted"])
        assert alike(found["cost"], expected["cost"])
        assert found["costs"] == expected["costs"] == {"wrongly_accepted": 1.0, "wrongly_rejected": 3.0}
        assert all(alike(found["rates"][rate], row) for rate, row in expected["rates"].items())
        for name, gaps in for_json(measured.headline).items():
            assert alike(own(found["notions"][notion][name]), own(gaps))
        by_site = {row["site"]: row for row in found["sites"]}
        for row, gap, plain in zip(measured.by_site, measured.site_gaps, expected["by_site"], strict=True):
            assert by_site[row.site]["rows"] == row.rows
            assert alike(by_site[row.site]["accuracy"], row.accuracy)
            assert alike(by_site[row.site]["cost"], row.cost)
            assert alike(own(by_site[row.site]["gaps"][notion]), own(gap.as_dict()))
            assert all(alike(by_site[row.site]["rates"][rate], each) for rate, each in plain["rates"].items())


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labelled", [False, True])
def test_people_and_their_squared_weights_are_counted_as_in_rows(
    people: pl.DataFrame, labelled: bool, weighted: bool, ids: bool, tmp_path: Path
) -> None:
    people = people.with_columns(person=(pl.int_range(pl.len()) * 7919) % 400)
    files = []
    for place, part in enumerate((people[:1000], people[1000:1100], people[1100:])):  # people are in several files
        files.append(tmp_path / f"{place}.csv")
        part.write_csv(files[-1])
    columns = ColumnNames(
        score="p",
        group=("race",),
        site="site",
        label="y" if labelled else None,
        positive=">50K",
        weight="w" if weighted else None,
        id="person" if ids else None,
    )
    found = _count_rows(DataFiles("people", tuple(files), by_file=False), columns, 0.4, no_progress)[0].after
    expected = tally_of(
        (people["p"] >= 0.4).cast(float).to_numpy(),
        (people["y"] == ">50K").cast(float).to_numpy() if labelled else None,
        people["w"].to_numpy() if weighted else None,
        encode(people["race"].to_list(), "groups"),
        encode(people["site"].to_list(), "sites"),
        encode(people["person"].to_list(), "ids") if ids else None,
    )
    scale = expected.mass.sum() / found.mass.sum()  # of weights only the proportions matter
    for name, unit in {"rows": 1, "mass": scale, "accepted": scale, "people": 1, "squares": scale**2}.items():
        assert np.allclose(unit * getattr(found, name), getattr(expected, name), rtol=1e-12), name
    assert found.labelled == labelled


def test_an_id_under_both_labels_is_one_person(tmp_path: Path) -> None:
    # At north, group F: id 1 has weights 2 (label 1) and 1 (label 0), id 2 has 3 (label 1), id 3 weighs nothing.
    rows = ["0.9,1,F,north,1,2", "0.1,0,F,north,1,1", "0.9,1,F,north,2,3", "0.9,1,F,north,3,0", "0.2,0,M,north,1,4"]
    (tmp_path / "a.csv").write_text("\n".join(["p,y,sex,site,who,w", *rows, "0.9,1,F,south,1,5"]))
    columns = ColumnNames(score="p", label="y", group=("sex",), site="site", weight="w", id="who")
    tally = _count_rows(find_files([str(tmp_path / "a.csv")], site="site"), columns, 0.5, no_progress)[0].after
    assert tally.people.tolist() == [[[1, 2, 2], [1, 0, 1]], [[0, 1, 1], [0, 0, 0]]]
    assert tally.squares.tolist() == [[[1, 4 + 9, 9 + 9], [16, 0, 16]], [[0, 25, 25], [0, 0, 0]]]


def test_the_gap_told_first_is_between_rates_on_30_rows(people: pl.DataFrame, tmp_path: Path) -> None:
    people.write_parquet(tmp_path / "people.parquet")
    words = (tmp_path / "people.parquet", *COLUMNS, "--group", "race", "--notion", "equal_opportunity")
    found, gaps = audited(*words)["notions"]["equal_opportunity"], {}
    for (site,), mine in people.filter(y=">50K").group_by("site"):
        rates = {
            race: ((part["p"] >= 0.5).mean(), part.height)
            for (race,), part in mine.group_by("race")
            if part.height >= 30
        }
        if len(rates) > 1:
            high, low = max(rates, key=lambda r: rates[r][0]), min(rates, key=lambda r: rates[r][0])
            gaps[site] = rates[high][0] - rates[low][0], high, low, min(rates[high][1], rates[low][1])
    worst = max(gaps, key=lambda site: gaps[site][0])
    gap = found["local"]
    assert (gap["site"], gap["highest"], gap["lowest"], gap["rows"]) == (worst, *gaps[worst][1:])
    assert gap["value"] == pytest.approx(gaps[worst][0], abs=1e-12)
    assert f"{worst} {100 * gap['value']:.1f}" in run(*words)[1]


def test_a_folder_with_a_file_per_site_is_audited_like_one_file_with_a_site_column(
    people: pl.DataFrame, tmp_path: Path
) -> None:
    people.write_csv(tmp_path / "all.csv")
    (tmp_path / "sites").mkdir()
    for (site,), part in people.group_by("site"):
        part.drop("site").write_csv(tmp_path / "sites" / f"{site}.csv", separator=";")
    one = audited(tmp_path / "all.csv", *COLUMNS, "--group", "sex", "--group", "race")
    parts = audited(tmp_path / "sites", *COLUMNS[:-2], "--group", "sex", "--group", "race")
    for found in (one, parts):
        for key in ("data", "files", "columns"):
            del found[key]
    assert one == parts
    assert one["groups"][0] == "Female and A"


def test_percentages_and_logits_give_the_figures_of_chances(people: pl.DataFrame, tmp_path: Path) -> None:
    logit = (pl.col("p") / (1 - pl.col("p"))).log()
    people.with_columns(percent=100 * pl.col("p"), logit=logit).write_parquet(tmp_path / "a.parquet")
    words = ("--group", "sex", "--threshold", "0.3")
    plain = audited(tmp_path / "a.parquet", "--score", "p", *words)
    for scale in ("percent", "logit"):
        other = audited(tmp_path / "a.parquet", "--score", scale, "--scale", scale, *words)
        assert other["notions"] == plain["notions"]
        assert f"add --scale {scale}." in refused(tmp_path / "a.parquet", "--score", scale, *words)


def test_existing_decisions_are_audited_as_they_are(people: pl.DataFrame, tmp_path: Path) -> None:
    decided = pl.when(pl.col("p") > 0.6).then(pl.lit(">50K")).otherwise(pl.lit("<=50K"))
    people.with_columns(words=decided, flag=pl.col("p") > 0.6).write_csv(tmp_path / "a.csv")
    words = ("--label", "y", "--positive", ">50K", "--group", "sex", "--site", "site")
    by_score = audited(tmp_path / "a.csv", "--score", "p", "--threshold", "0.6", *words)
    for column in ("words", "flag"):
        found = audited(tmp_path / "a.csv", "--decision", column, *words)
        assert found["notions"] == by_score["notions"]
        assert found["accuracy"] == by_score["accuracy"]


def written(path: Path, *cells: tuple[str, str, int, int]) -> Path:
    """Rows of (site, sex), so many accepted and so many not."""
    lines = [f"{site},{sex},{score}" for site, sex, yes, no in cells for score in [0.9] * yes + [0.1] * no]
    path.write_text("\n".join(["site,sex,p", *lines]))
    return path


WORDS = ("--score", "p", "--group", "sex", "--site", "site")


def test_without_sites_nothing_is_said_of_them(people: pl.DataFrame, tmp_path: Path) -> None:
    people.write_parquet(tmp_path / "a.parquet")
    words = (tmp_path / "a.parquet", *COLUMNS[:-2], "--group", "sex")
    page = run(*words)[1].replace(str(tmp_path), "")
    assert not any(word in page for word in ("site", "Worst"))


def test_without_labels_only_what_needs_none_is_measured(people: pl.DataFrame, tmp_path: Path) -> None:
    people.write_csv(tmp_path / "a.csv")
    found = audited(tmp_path / "a.csv", "--score", "p", "--group", "sex")
    assert list(found["notions"]) == ["demographic_parity"]
    assert found["accuracy"] is None
    sentence = refused(tmp_path / "a.csv", "--score", "p", "--group", "sex", "--notion", "equalized_odds")
    assert "--label: not given" in sentence


def test_rows_without_a_value_are_refused_or_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p,sex,site\n0.5,F,a\n,F,a\n0.25,M,\n0.5,M,a\n0.75,F,b\n")
    words = (tmp_path / "a.csv", "--score", "p", "--group", "sex", "--site", "site")
    assert "column 'site': 1 of 5 rows has no value; fill it or add --drop-missing." in refused(*words)
    found = audited(*words, "--drop-missing")
    assert (found["rows"], found["rows_left_out"]) == (3, 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--group", "sex"], "--score: not given"),
        (["--score", "p"], "--group: not given"),
        (["--score", "p", "--group", "sexx"], "no column 'sexx' (did you mean 'sex'?)"),
        (["--score", "race", "--group", "sex"], "row 1 is 'A', expected numbers"),
        (["--score", "p", "--group", "one"], "every row of 'one' is of group 1; a gap needs at least two groups"),
        (["--score", "p", "--group", "sex", "--site", "id"], "every site has one row"),
        (["--score", "p", "--group", "sex", "--decision", "race"], "given together with --score"),
        (["--score", "p", "--group", "sex", "--notion", "parity"], "use one of demographic_parity"),
        (["--score", "p", "--group", "sex", "--label", "race"], "say with --positive which one counts as 1"),
        (["--score", "p", "--group", "sex", "--weight", "minus"], "row 1 is -1; weights must not be negative"),
        (["--score", "p", "--group", "sex", "--threshold", "50"], "pass a number from 0 to 1"),
        (["--score", "p", "--group", "sex", "--costs", "1,3"], "--label: not given"),
        (["--score", "p", "--group", "sex", "--costs", "1"], "'1'; pass two numbers with a comma between, such as 1,3"),
        (["--score", "p", "--group", "sex", "--label", "one", "--costs", "1,a"], "pass two numbers"),
        (["--score", "p", "--group", "sex", "--label", "one", "--costs", "1,nan"], "a wrongly rejected row costs nan"),
        (
            ["--score", "p", "--group", "sex", "--label", "one", "--costs=-1,3"],
            "--costs: a wrongly accepted row costs -1",
        ),
        (["--score", "p", "--group", "sex", "--label", "one", "--costs", "0,0"], "--costs: both errors cost 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_exit_code_2(words: list[str], sentence: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,p,sex,race,one,minus\n1,0.5,F,A,1,-1\n2,0.25,M,B,1,2\n3,0.75,F,B,1,1\n")
    assert sentence in refused(tmp_path / "a.csv", *words)


def test_dates_are_no_groups(tmp_path: Path) -> None:
    table = pl.DataFrame({"p": [0.5, 0.25], "day": ["2020-01-01", "2020-01-02"]})
    table.with_columns(pl.col("day").str.to_date()).write_parquet(tmp_path / "a.parquet")
    assert "column 'day': holds Date" in refused(tmp_path / "a.parquet", "--score", "p", "--group", "day")


def test_labels_that_only_accepted_people_have_are_said_to_tell_of_nobody_else(
    people: pl.DataFrame, tmp_path: Path
) -> None:
    accepted = pl.col("p") >= 0.5
    people.with_columns(y=pl.when(accepted).then(pl.col("y")), granted=accepted.cast(int)).write_csv(tmp_path / "a.csv")
    words = (tmp_path / "a.csv", "--decision", "granted", "--group", "sex")
    refused = run(*words, "--label", "y", "--positive", ">50K")[2]
    assert "if only people who were accepted have a label, leave --label out" in refused
    page = " ".join(run(*words, "--label", "y", "--positive", ">50K", "--drop-missing")[1].split())
    assert "Gap Not measured: everybody left was accepted" in page
    assert "leave --label out, and selection rates can be judged" in page
    assert "so only selection rates can be judged" in " ".join(run(*words)[1].split())
