"""``logofair fit``: the library's policy from files, with promise, proof and prices, written whole or not at all."""

from __future__ import annotations

import re
import shlex
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import logofair
import logofair.cli.commands.fit as fit_module
from logofair.cli.options import _typed_command
from logofair.files.tables import fingerprint
from logofair.policy.info import ColumnsInfo
from logofair.words import Page
from support import commandline

run = partial(commandline.run, "fit")
fitted = partial(commandline.json_of, "fit")
refused = partial(commandline.refused, "fit")
printed = partial(commandline.printed, "fit")


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    n = 1500
    sex, race = rng.choice(["Female", "Male"], n), rng.choice(["A", "B"], n)
    site, score = rng.choice(["north", "south", "east"], n), rng.beta(1 + (sex == "Male"), 2, n)
    label = np.where(rng.random(n) < score, "good", "bad")
    return pl.DataFrame({"p": score, "y": label, "sex": sex, "race": race, "site": site, "w": rng.integers(1, 4, n)})


@pytest.fixture
def file(people: pl.DataFrame, tmp_path: Path) -> Path:
    people.write_csv(tmp_path / "people.csv")
    return tmp_path / "people.csv"


COLUMNS = ("--score", "p", "--label", "y", "--positive", "good", "--group", "sex", "--site", "site")


def both_ways(
    people: pl.DataFrame, file: Path, out: Path, words: list[str], options: dict[str, Any]
) -> tuple[dict[str, Any], Any]:
    """What the command finds and what the library does, with policies that decide alike."""
    found = fitted(file, *COLUMNS, *words, "--out", out)
    if "sample_weight" in options:
        options = options | {"sample_weight": people["w"].to_numpy()}
    solution = expected(people, **options)
    np.testing.assert_array_equal(chances(logofair.Policy.load(out), people), chances(solution.policy, people))
    return found, solution


def expected(people: pl.DataFrame, **options: Any) -> logofair.Solution:
    usual: dict[str, Any] = {"sensitive_features": people["sex"].to_list(), "sites": people["site"].to_list()}
    return logofair.fit(people["p"].to_numpy(), (people["y"] == "good").to_numpy(), **(usual | options))


def chances(policy: logofair.Policy, people: pl.DataFrame) -> Any:
    return policy.probabilities(
        people["p"].to_numpy(), sensitive_features=people["sex"].to_list(), sites=people["site"].to_list()
    )


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], {}),
        (["--local", "0.05"], {"local_tolerance": 0.05}),
        (["--local", "0.05", "--global", "none"], {"local_tolerance": 0.05, "global_tolerance": None}),
        (
            ["--notion", "equalized_odds", "--calibration", "platt"],
            {"notion": "equalized_odds", "calibration": "platt"},
        ),
        (["--require", "selection rate gap <= 0 at north"], {"require": "selection rate gap <= 0 at north"}),
        (
            ["--local", "0.1", "--require", "accepted <= 0.3 overall"],
            {"local_tolerance": 0.1, "require": ["accepted <= 0.3 overall"]},
        ),
        (["--weight", "w", "--seed", "3"], {"sample_weight": "w", "random_state": 3}),
        (["--solver", "algorithm1"], {"solver": "algorithm1"}),
        (["--notion", "equal_opportunity", "--basis", "labels"], {"notion": "equal_opportunity", "basis": "labels"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_policy_is_that_of_the_library(
    people: pl.DataFrame, file: Path, tmp_path: Path, words: list[str], options: dict[str, Any]
) -> None:
    found, solution = both_ways(people, file, tmp_path / "policy.json", words, options)
    assert found["certificate"]["primal"] == solution.certificate.primal
    assert found["certificate"]["holds"] == solution.certificate.holds
    assert found["warnings"] == list(map(str, solution.warnings))


def test_the_basis_is_told_in_the_page_the_json_and_the_command_of_the_report(file: Path, tmp_path: Path) -> None:
    words = (file, *COLUMNS, "--notion", "equal_opportunity", "--basis", "labels")
    found = fitted(*words, "--out", tmp_path / "a.json", "--report", tmp_path / "a.html")
    assert found["certificate"]["basis"] == "labels"
    assert "--basis labels" in re.sub("<[^>]+>", "", (tmp_path / "a.html").read_text())
    page = " ".join(run(*words, "--out", tmp_path / "b.json", "--verbose")[1].split())
    assert "counted by labels" in page
    assert "probabilities" not in page
    unlabelled = ("--score", "p", "--group", "sex", "--basis", "labels", "--out", tmp_path / "c.json")
    assert "--label: not given" in refused(file, *unlabelled)


def test_what_python_says_of_sensitive_features_is_said_of_the_option(
    file: Path, people: pl.DataFrame, tmp_path: Path
) -> None:
    people.with_columns(sex=pl.lit("F")).write_csv(file)
    sentence = refused(file, *COLUMNS, "--out", tmp_path / "policy.json")
    assert sentence == "logofair: --group: only one group, 'F'; fairness compares two or more."


def test_figures_of_the_calibration_rows_counted_with_labels_are_those_of_the_library_audit(
    people: pl.DataFrame, file: Path, tmp_path: Path
) -> None:
    options = ("--notion", "equal_opportunity", "--basis", "labels", "--out", tmp_path / "policy.json")
    found = fitted(file, *COLUMNS, *options)
    measured = logofair.audit(
        chances(logofair.Policy.load(tmp_path / "policy.json"), people),
        (people["y"] == "good").to_numpy(),
        sensitive_features=people["sex"].to_list(),
        sites=people["site"].to_list(),
        notion="equal_opportunity",
        chances=True,
    )
    rows = found["calibration"]
    for name, figure in measured.rates["true positive rate"].items():
        assert rows["rates"]["true positive rate"][name]["after"] == pytest.approx(figure.as_dict(), abs=1e-9)
    assert rows["accuracy"]["after"] == pytest.approx(measured.accuracy.as_dict(), abs=1e-9)
    assert rows["accuracy"]["after"]["value"] == pytest.approx(found["certificate"]["primal"], abs=1e-9)
    gaps = {each["site"]: each["after"] for each in found["outcomes"]}
    assert gaps.pop(None) == pytest.approx(measured.global_.gap().value, abs=1e-9)
    assert max(gaps.values()) == pytest.approx(measured.local.gap().value, abs=1e-9)


def test_a_folder_of_sites_and_one_file_with_a_site_column_give_the_same_rules(
    people: pl.DataFrame, file: Path, tmp_path: Path
) -> None:
    (tmp_path / "sites").mkdir()
    for (site,), part in people.group_by("site"):
        part.drop("site").write_parquet(tmp_path / "sites" / f"{site}.parquet")
    ordered = people.sort("site", maintain_order=True)
    ordered.write_csv(tmp_path / "ordered.csv")
    fitted(tmp_path / "ordered.csv", *COLUMNS, "--out", tmp_path / "one.json")
    fitted(tmp_path / "sites", *COLUMNS[:-2], "--out", tmp_path / "many.json")
    one, many = (logofair.Policy.load(tmp_path / f"{name}.json") for name in ("one", "many"))
    np.testing.assert_allclose(chances(one, people), chances(many, people), atol=1e-12)


def test_intersections_are_groups_of_their_own(file: Path, tmp_path: Path) -> None:
    found = fitted(file, *COLUMNS, "--group", "race", "--out", tmp_path / "policy.json")
    assert found["groups"] == ["Female and A", "Female and B", "Male and A", "Male and B"]


def test_without_labels_the_scores_are_taken_as_chances(people: pl.DataFrame, file: Path, tmp_path: Path) -> None:
    found = fitted(file, "--score", "p", "--group", "sex", "--out", tmp_path / "policy.json")
    assert found["calibration_method"] == "none"
    assert found["calibration"]["accuracy"]["after"]["value"] == pytest.approx(found["certificate"]["primal"], abs=1e-9)
    assert found["sites"] is None
    sentence = refused(file, "--score", "p", "--group", "sex", "--calibration", "beta", "--out", tmp_path / "b.json")
    assert "labels: missing" in sentence
    assert not (tmp_path / "b.json").exists()


def test_without_sites_no_page_says_inside_each_site(file: Path, tmp_path: Path) -> None:
    words = ("--score", "p", "--label", "y", "--positive", "good", "--group", "sex", "--local", "none")
    out, report = tmp_path / "policy.json", tmp_path / "report.html"
    page = run(file, *words, "--global", "0.05", "--out", out, "--report", report)[1]
    explained = commandline.run("explain", out)[1]
    for text in (page, explained):
        assert "gap in selection rate" in text
        assert not re.search(r"\bsites?\b", text.lower())
    assert "all sites" not in report.read_text()


def test_the_policy_file_tells_columns_data_prices_and_warnings(file: Path, tmp_path: Path) -> None:
    fitted(file, *COLUMNS, "--out", tmp_path / "policy.json")
    info = logofair.Policy.load(tmp_path / "policy.json").info
    assert info.columns == ColumnsInfo("p", ("sex",), "site", "chance")
    assert info.data.name == "people.csv"
    assert info.data.fingerprint == fingerprint(file)
    assert info.warnings == ()
    text = (tmp_path / "policy.json").read_text()
    assert str(tmp_path) not in text


def test_small_cells_are_warned_of(people: pl.DataFrame, tmp_path: Path) -> None:
    tiny = pl.DataFrame({"p": [0.5, 0.25], "y": ["good", "bad"], "sex": ["Female", "Male"], "site": ["west", "west"]})
    pl.concat([people.drop("race", "w"), tiny]).write_parquet(tmp_path / "a.parquet")
    output = run(tmp_path / "a.parquet", *COLUMNS, "--out", tmp_path / "policy.json", "--verbose")[1]
    said = " ".join(output.split())
    assert "Too few people to judge: west (1)." in said or "west" not in said.partition("Is it fair now?")[0]
    assert "One person only: Female at west and Male at west." in said


def test_the_command_told_makes_the_same_policy_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_of: list[str] = []
    monkeypatch.setattr(Page, "save", lambda *_: json_of.append(_typed_command()))
    monkeypatch.setattr(fit_module, "_trade_off", lambda *_: None)
    words = ("--global", "0.05", "--require", "selection rate gap <= 0.01 at north", "--seed", "5")
    fitted(file, *COLUMNS, *words, "--drop-missing", "--out", tmp_path / "a.json", "--report", tmp_path / "a.html")
    again = shlex.split(json_of[0])
    assert (again[:2], again[-1]) == (["logofair", "fit"], "--json")
    fitted(*again[2:-1], "--force")
    assert json_of[1] == json_of[0]
    first = (tmp_path / "a.json").read_text()
    fitted(*again[2:-1], "--force")
    assert (tmp_path / "a.json").read_text() == first


def test_the_report_is_written_beside_the_policy(file: Path, tmp_path: Path) -> None:
    printed(file, *COLUMNS, "--out", tmp_path / "a.json", "--report", tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text()
    assert fingerprint(file) in page
    assert "people.csv" in page


@pytest.mark.parametrize(("option", "kind"), [("--out", "json"), ("--report", "html")])
def test_a_name_that_promises_another_kind_of_file_is_refused(
    file: Path, tmp_path: Path, option: str, kind: str
) -> None:
    words = [*COLUMNS, *(() if option == "--out" else ("--out", tmp_path / "policy.json"))]
    sentence = refused(file, *words, option, tmp_path / "policy.xlsx")
    assert f"policy.xlsx: is written as {kind.upper()}; give it a name that ends in .{kind}." in sentence
    assert not list(tmp_path.glob("policy.*"))


def test_existing_files_are_refused_without_force_and_kept(file: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text("old")
    assert "exists already; choose another name or add --force." in refused(
        file, *COLUMNS, "--out", tmp_path / "policy.json"
    )
    assert (tmp_path / "policy.json").read_text() == "old"
    refused(file, *COLUMNS, "--out", tmp_path / "new.json", "--report", tmp_path / "policy.json")
    assert not (tmp_path / "new.json").exists()
    assert run(file, *COLUMNS, "--out", tmp_path / "policy.json", "--force")[0] == 0
    assert logofair.Policy.load(tmp_path / "policy.json").has_sites


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--local", "abc"], "logofair fit --local: got 'abc'; pass a number from 0"),
        (["--global", "-1"], "logofair fit --global: got '-1'; pass a number from 0"),
        (["--require", "north"], "'north' stands where 'equalized odds', 'selection rate'"),
        (["--require", "selection rate gap <= 0.1 at nort"], "which has no rows (did you mean 'north'?); there are"),
        (["--notion", "parity"], "got 'parity'; use one of demographic_parity"),
        (["--calibration", "betta"], "did you mean 'beta'?"),
        (["--solver", "simplex"], "use one of exact, algorithm1"),
        (["--label", "race"], "not 'good'; correct --positive."),
        (["--seed", "-1"], "pass a whole number from 0"),
        (["--confidence", "1"], "logofair fit --confidence: got 1.0; pass a number above 0 and below 1, such as 0.95."),
        (["--confidence", "95"], "logofair fit --confidence: got 95.0; pass a number above 0 and below 1"),
        (["--confidence", "nan"], "logofair fit --confidence: got nan; pass a number above 0 and below 1"),
        (["--confidence", "high"], "--confidence"),
        (["--pooling", "ful"], "got 'ful' (did you mean 'full'?); use one of auto, none, full."),
        (["--pooling", "full", "--basis", "labels"], "'full' needs basis='eta'"),
        (["--pooling", "full", "--confidence", "0.9"], "--pooling full: given together with --confidence"),
        (["--extra", "others.csv"], "no option '--extra'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    file: Path, tmp_path: Path, words: list[str], sentence: str
) -> None:
    assert sentence in refused(file, *COLUMNS, *words, "--out", tmp_path / "policy.json")
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]


# --- rows that took no part in the fit


@pytest.fixture
def parts(people: pl.DataFrame, tmp_path: Path) -> dict[str, Path]:
    """The same rows in one file with their parts and ids, and in two files."""
    rng = np.random.default_rng(5)
    marked = people.with_columns(part=rng.choice(["fit", "test"], people.height), person=pl.int_range(pl.len()))
    files = {"all": tmp_path / "all.csv", "fit": tmp_path / "fit.csv", "test": tmp_path / "test.parquet"}
    marked.write_csv(files["all"])
    marked.filter(part="fit").write_csv(files["fit"])
    marked.filter(part="test").write_parquet(files["test"])
    return files


def rounded(values: Any) -> Any:
    """Plain values, with numbers to nine digits."""
    if isinstance(values, dict):
        return {name: rounded(value) for name, value in values.items()}
    if isinstance(values, list):
        return [rounded(value) for value in values]
    return round(values, 9) + 0.0 if isinstance(values, float) else values


def test_the_test_is_that_of_the_library_on_the_same_rows(parts: dict[str, Path], tmp_path: Path) -> None:
    table = pl.read_csv(parts["all"])
    fit_rows, test_rows = table.filter(part="fit"), table.filter(part="test")
    solution = expected(fit_rows).test(
        test_rows["p"].to_numpy(),
        (test_rows["y"] == "good").to_numpy(),
        sensitive_features=test_rows["sex"].to_list(),
        sites=test_rows["site"].to_list(),
        ids=test_rows["person"].to_list(),
    )
    wanted = solution.as_dict()["tested"]
    ways = (
        (parts["all"], *COLUMNS, "--test-where", "part=test"),
        (parts["all"], *COLUMNS, "--where", "part=fit", "--test-where", "part=test", "--id", "person"),
        (parts["all"], *COLUMNS, "--where", "part=fit", "--test", parts["all"], "--test-where", "part=test"),
        (parts["fit"], *COLUMNS, "--test", parts["test"], "--id", "person"),
    )
    for place, words in enumerate(ways):
        out = tmp_path / f"{place}.json"
        found = fitted(*words, "--out", out)
        data = found["tested"].pop("data")
        assert data["rows"] == test_rows.height
        assert rounded(found["tested"]) == rounded(wanted)  # by person, sums are taken in another order
        assert found["rows"] == fit_rows.height
        assert found["certificate"]["primal"] == solution.certificate.primal
        info = logofair.Policy.load(out).info.tested
        assert asdict(info.data) | {"files": data["files"]} == data


def test_people_of_the_calibration_rows_are_not_tested_on(parts: dict[str, Path], tmp_path: Path) -> None:
    table = pl.read_csv(parts["all"])
    twice = pl.concat([pl.read_csv(parts["fit"]).head(2), table.filter(part="test")])
    twice.with_columns(person=pl.col("person").cast(pl.String)).write_parquet(tmp_path / "twice.parquet")
    words = (parts["fit"], *COLUMNS, "--test", tmp_path / "twice.parquet", "--out", tmp_path / "policy.json")
    sentence = refused(*words, "--id", "person")
    example = min(map(str, twice["person"].head(2).to_list()))
    assert "--id: 2 ids of the test rows are among the rows to fit on too, such as" in sentence
    assert f"'{example}' in column 'person'; a test needs other people" in sentence
    assert not (tmp_path / "policy.json").exists()
    assert run(*words)[0] == 0  # without ids nobody can know


def test_rows_of_the_fit_are_not_tested_on_under_another_name_either(parts: dict[str, Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    copy.write_bytes(parts["all"].read_bytes())
    words = (parts["all"], *COLUMNS, "--out", tmp_path / "policy.json", "--test", copy)
    for where in ((), ("--where", "part=fit")):
        assert "--test: copy.csv is fitted on too; name other files, or say which rows with --test-where." in refused(
            *words, *where
        )
    rows = pl.read_csv(copy)
    found = fitted(*words, "--where", "part=fit", "--test-where", "race=A")
    assert found["rows"] == rows.filter(part="fit", race="B").height
    assert found["tested"]["rows"] == rows.filter(race="A").height


def test_the_rows_of_the_fit_in_another_file_are_no_test_however_coarse_their_scores(
    parts: dict[str, Path], tmp_path: Path
) -> None:
    coarse = pl.read_csv(parts["fit"]).with_columns(pl.col("p").round(1))
    coarse.write_csv(tmp_path / "coarse.csv")
    coarse.reverse().write_parquet(tmp_path / "other.parquet")
    words = (tmp_path / "coarse.csv", *COLUMNS, "--test", tmp_path / "other.parquet", "--out", tmp_path / "policy.json")
    sentence = refused(*words)
    assert f"--test: scores: the {coarse.height:,} rows are those that the policy was fitted on; " in sentence
    assert not (tmp_path / "policy.json").exists()


def test_a_person_counts_once_in_the_intervals_of_the_test(parts: dict[str, Path], tmp_path: Path) -> None:
    test = pl.read_parquet(parts["test"])
    pl.concat([test, test]).write_parquet(tmp_path / "twice.parquet")
    words = (parts["fit"], *COLUMNS, "--test", tmp_path / "twice.parquet", "--force", "--out", tmp_path / "p.json")
    found = fitted(*words, "--id", "person")["tested"]
    once = fitted(parts["fit"], *COLUMNS, "--test", parts["test"], "--force", "--out", tmp_path / "p.json")["tested"]
    assert found["accuracy"]["after"] == pytest.approx(once["accuracy"]["after"], abs=1e-12)
    page = " ".join(run(*words, "--id", "person")[1].split())
    assert f"Tested on {test.height:,} others." in page


def test_sites_nobody_knew_take_the_merged_rule_and_are_counted(people: pl.DataFrame, tmp_path: Path) -> None:
    codes = {"north": "1", "south": "2", "east": "3"}
    numbered = people.with_columns(pl.col("site").replace(codes))
    numbered.head(1000).write_csv(tmp_path / "fit.csv")  # sites read as numbers
    west = pl.col("site").replace({"3": "west"})
    numbered.tail(500).with_columns(west).write_csv(tmp_path / "test.csv")  # sites read as text
    words = (tmp_path / "fit.csv", *COLUMNS, "--test", tmp_path / "test.csv", "--out", tmp_path / "policy.json")
    page = " ".join(run(*words)[1].split())
    unknown = people.tail(500).filter(site="east").height
    assert f"{unknown} rows of sites the policy does not know (west): its merged rule decided." in page


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--test-where", "part=tets"], "--test-where: no row has part=tets (did you mean 'test'?); part holds"),
        (["--test-where", "part"], "logofair fit --test-where: got 'part'; pass COLUMN=VALUE"),
        (["--where", "part=fit", "--test-where", "part=fit"], "--test-where: takes every row of all.csv"),
        (["--test", "nowhere.csv"], "nowhere.csv: cannot be read"),
        (["--id", "persn", "--test-where", "part=test"], "no column 'persn' (did you mean 'person'?)"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_test_rows_that_cannot_be_had_are_one_sentence(
    parts: dict[str, Path], tmp_path: Path, words: list[str], sentence: str
) -> None:
    assert sentence in refused(parts["all"], *COLUMNS, *words, "--out", tmp_path / "policy.json")
    assert not (tmp_path / "policy.json").exists()


def test_a_group_without_a_rule_is_named(parts: dict[str, Path], tmp_path: Path) -> None:
    other = pl.read_parquet(parts["test"]).with_columns(sex=pl.lit("X"))
    other.write_parquet(tmp_path / "other.parquet")
    words = (parts["fit"], *COLUMNS, "--test", tmp_path / "other.parquet", "--out", tmp_path / "policy.json")
    assert "--test: has rows of group 'X', which no row to fit on is of; leave them out." in refused(*words)


def test_a_folder_is_tested_on_a_folder(people: pl.DataFrame, tmp_path: Path) -> None:
    for name, rows in (("fit", people.head(1000)), ("test", people.tail(500))):
        (tmp_path / name).mkdir()
        for (site,), part in rows.group_by("site"):
            part.drop("site").write_csv(tmp_path / name / f"{site}.csv")
    words = (tmp_path / "fit", *COLUMNS[:-2], "--test", tmp_path / "test", "--out", tmp_path / "policy.json")
    found = fitted(*words)
    assert found["tested"]["rows"] == 500
    assert found["tested"]["unknown"] == {"sites": [], "rows": 0}
    assert len(found["tested"]["by_site"]) == 3


# --- pooling and promises


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--pooling", "auto"], {"pooling": "auto"}),
        (["--pooling", "full"], {"pooling": "full"}),
        (["--confidence", "0.9", "--local", "0.15"], {"confidence": 0.9, "local_tolerance": 0.15}),
        (["--confidence", "0.95", "--weight", "w"], {"confidence": 0.95, "sample_weight": "w"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_pooling_and_promises_are_those_of_the_library(
    people: pl.DataFrame, file: Path, tmp_path: Path, words: list[str], options: dict[str, Any]
) -> None:
    found, solution = both_ways(people, file, tmp_path / "policy.json", words, options)
    for name in ("promises", "pooling", "verdict", "outcomes", "own_rows"):
        assert found[name] == solution.as_dict()[name]
    assert (found["promises"] or {}).get("confidence") == options.get("confidence")


def test_the_usual_pooling_is_that_of_the_library(people: pl.DataFrame, file: Path, tmp_path: Path) -> None:
    found = fitted(file, *COLUMNS, "--out", tmp_path / "policy.json")
    assert found["pooling"] == expected(people).as_dict()["pooling"]


def test_a_promise_about_labels_needs_a_label_column(file: Path, tmp_path: Path) -> None:
    words = ("--score", "p", "--group", "sex", "--notion", "equal_opportunity", "--confidence", "0.95")
    sentence = refused(file, *words, "--out", tmp_path / "policy.json")
    assert "confidence: a promise about the true positive rate of new rows needs labels" in sentence


def test_two_outputs_in_one_file_are_refused_and_nothing_is_written(file: Path, tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    for other in (tmp_path / "z.json", tmp_path / "inside" / ".." / "z.json"):
        line = (file, *COLUMNS, "--out", tmp_path / "z.json", "--report", other)
        for force in ((), ("--force",)):
            assert "is the file of --out too; choose another name" in refused(*line, *force)
    assert not (tmp_path / "z.json").exists()


def test_rows_of_one_person_are_told_apart_in_the_fit_too(people: pl.DataFrame, tmp_path: Path) -> None:
    several = people.with_columns(person=pl.int_range(pl.len()) // 3)
    several.write_csv(tmp_path / "people.csv")
    words = (tmp_path / "people.csv", *COLUMNS, "--id", "person", "--confidence", "0.95", "--local", "0.5")
    output = printed(*words, "--seed", "1", "--out", tmp_path / "policy.json")
    persons = several["person"].n_unique()
    assert output.startswith(f"people.csv: {persons:,} people at 3 sites")
    options: dict[str, Any] = {"ids": several["person"].to_list(), "confidence": 0.95, "random_state": 1}
    same = expected(people, local_tolerance=0.5, **options)
    np.testing.assert_array_equal(
        chances(logofair.Policy.load(tmp_path / "policy.json"), people), chances(same.policy, people)
    )
