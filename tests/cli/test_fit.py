"""``logofair fit``: the library's policy from files, with promise, proof and prices, written whole or not at all."""

from __future__ import annotations

import shlex
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
from logofair.cli.pages import fit as fit_solve
from logofair.files.tables import fingerprint
from logofair.policy.info import ColumnsInfo

pytestmark = pytest.mark.tool

run = partial(commandline.run, "fit")
fitted = partial(commandline.json_of, "fit")
refused = partial(commandline.refused, "fit")


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


COLUMNS = ("--score", "p", "--label", "y", "--positive", "good", "--group", "sex", "--client", "site")


def expected(people: pl.DataFrame, **options: Any) -> logofair.Solution:
    usual: dict[str, Any] = {"groups": people["sex"].to_list(), "clients": people["site"].to_list()}
    return logofair.fit(people["p"].to_numpy(), (people["y"] == "good").to_numpy(), **(usual | options))


def chances(policy: logofair.Policy, people: pl.DataFrame) -> Any:
    return policy.probabilities(
        people["p"].to_numpy(), groups=people["sex"].to_list(), clients=people["site"].to_list()
    )


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([], {}),
        (["--local", "0.05", "--global", "none"], {"local_tolerance": 0.05, "global_tolerance": None}),
        (
            ["--notion", "equalized_odds", "--calibration", "platt"],
            {"notion": "equalized_odds", "calibration": "platt"},
        ),
        (["--local-for", "north=0", "--local-for", "east=none"], {"client_tolerances": {"north": 0.0, "east": None}}),
        (["--weight", "w", "--seed", "3"], {"sample_weight": "w", "random_state": 3}),
        (["--solver", "algorithm1"], {"solver": "algorithm1"}),
        (["--notion", "equal_opportunity", "--basis", "labels"], {"notion": "equal_opportunity", "basis": "labels"}),
        (
            ["--notion", "demographic_parity", "--notion", "equal_opportunity=0.1", "--local", "0.04"],
            {
                "notion": {
                    "local": {"demographic_parity": 0.04, "equal_opportunity": 0.1},
                    "global": {"demographic_parity": 0.02, "equal_opportunity": 0.1},
                }
            },
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_policy_is_that_of_the_library(
    people: pl.DataFrame, file: Path, tmp_path: Path, words: list[str], options: dict[str, Any]
) -> None:
    out = tmp_path / "policy.json"
    found = fitted(file, *COLUMNS, *words, "--out", out)
    if "sample_weight" in options:
        options = options | {"sample_weight": people["w"].to_numpy()}
    solution = expected(people, **options)
    np.testing.assert_array_equal(chances(logofair.Policy.load(out), people), chances(solution.policy, people))
    assert found["certificate"]["primal"] == solution.certificate.primal
    assert found["certificate"]["holds"] == solution.certificate.holds
    assert found["warnings"] == list(map(str, solution.warnings))


def test_the_basis_is_told_in_the_page_the_json_and_the_command_of_the_report(file: Path, tmp_path: Path) -> None:
    words = (file, *COLUMNS, "--notion", "equal_opportunity", "--basis", "labels")
    found = fitted(*words, "--out", tmp_path / "a.json", "--report", tmp_path / "a.html")
    assert found["certificate"]["basis"] == "labels"
    assert "--basis labels" in (tmp_path / "a.html").read_text()
    page = " ".join(run(*words, "--out", tmp_path / "b.json")[1].split())
    assert "counted in labels" in page
    assert "chances" not in page
    unlabelled = ("--score", "p", "--group", "sex", "--basis", "labels", "--out", tmp_path / "c.json")
    assert "--label: not given" in refused(file, *unlabelled)


def test_figures_before_and_after_are_those_of_the_library_audit(
    people: pl.DataFrame, file: Path, tmp_path: Path
) -> None:
    found = fitted(file, *COLUMNS, "--notion", "equal_opportunity", "--out", tmp_path / "policy.json")
    fair = chances(logofair.Policy.load(tmp_path / "policy.json"), people)
    for stage, decided in (("before", people["p"].to_numpy() >= 0.5), ("after", fair)):
        measured = logofair.audit(
            decided,
            (people["y"] == "good").to_numpy(),
            groups=people["sex"].to_list(),
            clients=people["site"].to_list(),
            notion="equal_opportunity",
        )
        gaps = found[stage]["gaps"]["equal_opportunity"]
        assert found[stage]["accuracy"] == pytest.approx(measured.accuracy, abs=1e-12)
        assert gaps["global"]["value"] == pytest.approx(measured.global_gap, abs=1e-12)
        assert gaps["largest_local"]["value"] == pytest.approx(measured.local_gap, abs=1e-12)
        assert gaps["global"]["rows"] >= gaps["largest_local"]["rows"] > 0


def test_a_folder_of_clients_and_one_file_with_a_client_column_give_the_same_rules(
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
    assert found["groups"] == ["Female, A", "Female, B", "Male, A", "Male, B"]


def test_without_labels_the_scores_are_taken_as_chances(people: pl.DataFrame, file: Path, tmp_path: Path) -> None:
    found = fitted(file, "--score", "p", "--group", "sex", "--out", tmp_path / "policy.json")
    assert found["calibration"] == "none"
    assert found["before"]["accuracy"] is None
    assert found["clients"] is None
    sentence = refused(file, "--score", "p", "--group", "sex", "--calibration", "beta", "--out", tmp_path / "b.json")
    assert "labels: missing" in sentence
    assert not (tmp_path / "b.json").exists()


def test_without_clients_no_page_says_inside_each_client(file: Path, tmp_path: Path) -> None:
    words = ("--score", "p", "--label", "y", "--positive", "good", "--group", "sex", "--local", "none")
    out, report = tmp_path / "policy.json", tmp_path / "report.html"
    page = run(file, *words, "--global", "0.05", "--out", out, "--report", report)[1]
    explained = commandline.run("explain", out)[1]
    said = "The selection rate of any two groups differs by at most 0.05 (demographic parity)."
    for text in (page, explained, report.read_text()):
        assert said in " ".join(text.split())
        assert "inside each" not in text.lower()


def test_the_policy_file_tells_columns_data_prices_and_warnings(file: Path, tmp_path: Path) -> None:
    fitted(file, *COLUMNS, "--out", tmp_path / "policy.json")
    info = logofair.Policy.load(tmp_path / "policy.json").info
    assert info.columns == ColumnsInfo("p", ("sex",), "site", "chance", client_is_file_name=False)
    assert info.data.name == "people.csv"
    assert info.data.fingerprint == fingerprint(file)
    assert any("0.01 more tolerance" in sentence for sentence in info.price_sentences)
    assert info.warnings == ()
    text = (tmp_path / "policy.json").read_text()
    assert str(tmp_path) not in text


def test_the_page_tells_promise_proof_prices_and_what_to_do_next(file: Path, tmp_path: Path) -> None:
    code, output, _ = run(file, *COLUMNS, "--out", tmp_path / "policy.json")
    page = " ".join(output.split())
    assert code == 0
    assert "Inside each client, the selection rate of any two groups differs by at most 0.02" in page
    assert "in calibrated chances, all are met" in page
    assert "0.01 more tolerance for the selection rate" in page
    assert "logofair explain" in page
    assert "1,500" in page
    for line in output.splitlines():
        assert len(line) <= 80


def test_small_cells_are_warned_of(people: pl.DataFrame, tmp_path: Path) -> None:
    tiny = pl.DataFrame({"p": [0.5, 0.25], "y": ["good", "bad"], "sex": ["Female", "Male"], "site": ["west", "west"]})
    pl.concat([people.drop("race", "w"), tiny]).write_parquet(tmp_path / "a.parquet")
    output = run(tmp_path / "a.parquet", *COLUMNS, "--out", tmp_path / "policy.json")[1]
    assert "group 'Female' at client 'west', group 'Male' at client 'west': one row only." in " ".join(output.split())


def test_the_command_told_makes_the_same_policy_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    json_of: list[str] = []
    monkeypatch.setattr(
        fit_solve, "write_report_page", lambda path, solution, rows, wanted, command: json_of.append(command)
    )
    words = ("--notion", "demographic_parity=0.05", "--local", "none", "--local-for", "north=0.01", "--seed", "5")
    fitted(file, *COLUMNS, *words, "--drop-missing", "--out", tmp_path / "a.json", "--report", tmp_path / "a.html")
    again = shlex.split(json_of[0])
    assert again[:2] == ["logofair", "fit"]
    fitted(*again[2:], "--force")
    assert json_of[1] == json_of[0]
    first = (tmp_path / "a.json").read_text()
    fitted(*again[2:], "--force")
    assert (tmp_path / "a.json").read_text() == first


def test_the_report_is_written_beside_the_policy(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("logofair.report")
    code, _, error = run(file, *COLUMNS, "--out", tmp_path / "a.json", "--report", tmp_path / "a.html")
    assert code == 0, error
    page = (tmp_path / "a.html").read_text()
    assert fingerprint(file) in page
    assert "people.csv" in page


def test_existing_files_are_refused_without_force_and_kept(file: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text("old")
    assert "exists already; choose another name or add --force." in refused(
        file, *COLUMNS, "--out", tmp_path / "policy.json"
    )
    assert (tmp_path / "policy.json").read_text() == "old"
    refused(file, *COLUMNS, "--out", tmp_path / "new.json", "--report", tmp_path / "policy.json")
    assert not (tmp_path / "new.json").exists()
    assert run(file, *COLUMNS, "--out", tmp_path / "policy.json", "--force")[0] == 0
    assert logofair.Policy.load(tmp_path / "policy.json").has_clients


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--local", "abc"], "logofair fit --local: got 'abc'; pass a number from 0"),
        (["--global", "-1"], "logofair fit --global: got '-1'; pass a number from 0"),
        (["--local-for", "north"], "got 'north'; pass NAME=TOLERANCE once per name"),
        (["--local-for", "nort=0.1"], "--local-for: no 'nort' (did you mean 'north'?); there are"),
        (["--notion", "parity"], "got 'parity'; use one of demographic_parity"),
        (["--notion", "equalized_odds=x"], "got 'x'; pass a number"),
        (["--calibration", "betta"], "did you mean 'beta'?"),
        (["--solver", "simplex"], "use one of exact, algorithm1"),
        (["--label", "race"], "not 'good'; correct --positive."),
        (["--seed", "-1"], "pass a whole number from 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_writes_nothing(
    file: Path, tmp_path: Path, words: list[str], sentence: str
) -> None:
    assert sentence in refused(file, *COLUMNS, *words, "--out", tmp_path / "policy.json")
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]
