"""``logofair audit``: the figures of the library's audit, counted in pieces, with the rows each rests on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import commandline

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("polars")

import polars as pl

import logofair
from logofair.cli.options import NOTIONS

pytestmark = pytest.mark.tool

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


COLUMNS = ("--score", "p", "--label", "y", "--positive", ">50K", "--client", "site")


def close(found: Any, expected: float | None) -> bool:
    return found is None if expected is None else found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_figures_are_those_of_the_library(people: pl.DataFrame, ending: str, weighted: bool, tmp_path: Path) -> None:
    file = tmp_path / f"people.{ending}"
    {"csv": people.write_csv, "parquet": people.write_parquet, "arrow": people.write_ipc}[ending](file)
    found = audited(file, *COLUMNS, "--group", "race", *(["--weight", "w"] if weighted else []), "--threshold", "0.4")
    for notion in NOTIONS:
        measured = logofair.audit(
            people["p"].to_numpy() >= 0.4,
            (people["y"] == ">50K").to_numpy(),
            groups=people["race"].to_list(),
            clients=people["site"].to_list(),
            notion=notion,
            sample_weight=people["w"].to_numpy() if weighted else None,
        )
        figures = found["notions"][notion]
        assert close(found["accuracy"], measured.accuracy)
        assert close(figures["global"]["value"], measured.global_gap)
        assert close(figures["largest_local"]["value"], measured.local_gap)
        by_client = {row["client"]: row for row in found["clients"]}
        for row in measured.by_client:
            assert by_client[row.client]["rows"] == row.rows
            assert close(by_client[row.client]["accuracy"], row.accuracy)
            assert close(by_client[row.client]["gaps"][notion]["value"], row.gap)


def test_gaps_on_30_rows_count_only_rates_that_have_them(people: pl.DataFrame, tmp_path: Path) -> None:
    people.write_parquet(tmp_path / "people.parquet")
    found = audited(tmp_path / "people.parquet", *COLUMNS, "--group", "race", "--notion", "equal_opportunity")
    for row in found["clients"]:
        mine = people.filter(pl.col("site") == row["client"], pl.col("y") == ">50K")
        rates = {
            race: ((part["p"] >= 0.5).mean(), part.height)
            for (race,), part in mine.group_by("race")
            if part.height >= 30
        }
        gap = row["gaps_30_rows"]["equal_opportunity"]
        if len(rates) < 2:
            assert gap["value"] is None
        else:
            high, low = max(rates, key=lambda r: rates[r][0]), min(rates, key=lambda r: rates[r][0])
            assert gap["value"] == pytest.approx(rates[high][0] - rates[low][0], abs=1e-12)
            assert (gap["highest"], gap["lowest"]) == (high, low)
            assert gap["rows"] == min(rates[high][1], rates[low][1])


def test_a_folder_with_a_file_per_client_is_audited_like_one_file_with_a_client_column(
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
    assert one["groups"][0] == "Female, A"


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
    words = ("--label", "y", "--positive", ">50K", "--group", "sex", "--client", "site")
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


def test_clients_unfair_inside_a_fair_whole_are_named(tmp_path: Path) -> None:
    # Women are ahead in one half and behind in the other: the whole is fair.
    file = written(
        tmp_path / "a.csv",
        ("north", "F", 60, 40), ("north", "M", 40, 60), ("south", "F", 40, 60), ("south", "M", 60, 40),
        ("small", "F", 5, 0), ("small", "M", 0, 5), ("even", "F", 50, 50), ("even", "M", 50, 50),
    )  # fmt: skip
    words = ("--score", "p", "--group", "sex", "--client", "site")
    parity = audited(file, *words)["notions"]["demographic_parity"]
    assert parity["global"]["value"] < 0.05
    assert parity["unfair_clients_though_globally_fair"] == ["north", "south"]
    assert parity["fair_clients_though_globally_unfair"] == []
    assert parity["clients_too_small_to_say"] == 1
    assert parity["largest_local"]["client"] == "small"
    assert parity["largest_local_30_rows"]["client"] in ("north", "south")
    page = run(file, *words)[1]
    assert "fair over all (0.0" in page
    assert "unfair inside 2 of 3 clients" in " ".join(page.split())
    assert (
        audited(file, *words, "--tolerance", "0.5")["notions"]["demographic_parity"][
            "unfair_clients_though_globally_fair"
        ]
        == []
    )


def test_fair_clients_inside_an_unfair_whole_are_named(tmp_path: Path) -> None:
    # Inside each site rates agree, but women live where few are accepted.
    file = written(
        tmp_path / "a.csv",
        ("rich", "F", 24, 6), ("rich", "M", 160, 40), ("poor", "F", 40, 160), ("poor", "M", 6, 24),
    )  # fmt: skip
    words = ("--score", "p", "--group", "sex", "--client", "site")
    parity = audited(file, *words)["notions"]["demographic_parity"]
    assert parity["global"]["value"] > 0.3
    assert parity["fair_clients_though_globally_unfair"] == ["poor", "rich"]
    assert "fair inside 2 of 2 clients" in " ".join(run(file, *words)[1].split())


def test_every_gap_on_the_page_stands_beside_its_rows(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", ("x", "F", 33, 4), ("x", "M", 4, 40), ("y", "F", 1, 1), ("y", "M", 50, 1))
    page = run(file, "--score", "p", "--group", "sex", "--client", "site")[1]
    assert "over all" in page
    lines = {line.split()[0]: line for line in page.splitlines() if line.startswith(("x ", "y "))}
    assert lines["x"].split() == ["x", "81", "37", "-", "0.8010"]
    assert lines["y"].split()[-1].startswith("(")  # two rows of one group: in brackets
    assert all(len(line) <= 80 for line in page.splitlines())


def test_without_labels_only_what_needs_none_is_measured(people: pl.DataFrame, tmp_path: Path) -> None:
    people.write_csv(tmp_path / "a.csv")
    found = audited(tmp_path / "a.csv", "--score", "p", "--group", "sex")
    assert list(found["notions"]) == ["demographic_parity"]
    assert found["accuracy"] is None
    sentence = refused(tmp_path / "a.csv", "--score", "p", "--group", "sex", "--notion", "equalized_odds")
    assert "--label: not given" in sentence


def test_rows_without_a_value_are_refused_or_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("p,sex,site\n0.5,F,a\n,F,a\n0.25,M,\n0.5,M,a\n0.75,F,b\n")
    words = (tmp_path / "a.csv", "--score", "p", "--group", "sex", "--client", "site")
    assert "column 'site': 1 of 5 rows has no value; fill them or add --drop-missing." in refused(*words)
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
        (["--score", "p", "--group", "sex", "--client", "id"], "every client has one row"),
        (["--score", "p", "--group", "sex", "--decision", "race"], "given together with --score"),
        (["--score", "p", "--group", "sex", "--notion", "parity"], "use one of demographic_parity"),
        (["--score", "p", "--group", "sex", "--label", "race"], "say with --positive which one counts as 1"),
        (["--score", "p", "--group", "sex", "--weight", "minus"], "row 1 is -1; weights must not be negative"),
        (["--score", "p", "--group", "sex", "--threshold", "50"], "pass a number from 0 to 1"),
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
