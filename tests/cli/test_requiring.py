"""Costs, ratios, floors, ceilings and a capacity on the command line: the lender's sentence, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from support.commandline import run

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("polars")

import polars as pl

import logofair
from logofair import Ratio

pytestmark = pytest.mark.tool
COLUMNS = ("--score", "score", "--label", "label", "--group", "sex", "--site", "site")
LENDER = ("--costs", "1,3", "--local", "ratio:0.8", "--global", "none", "--floor", "equal_opportunity=today")
REQUIRED = {
    "costs": (1, 3),
    "local_tolerance": Ratio(0.8),
    "global_tolerance": None,
    "floors": {"equal_opportunity": "today"},
}


@pytest.fixture(scope="module")
def rows():
    rng, n = np.random.default_rng(7), 1200
    sex, site = rng.choice(["F", "M"], n), rng.choice(["north", "south"], n)
    score = rng.beta(1 + (sex == "M"), 2)
    return {"score": score, "label": (rng.random(n) < score).astype(int), "sex": sex, "site": site}


@pytest.fixture
def file(rows, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(rows).write_csv("rows.csv")
    return "rows.csv"


def fitted(rows, **required):
    columns = {"groups": rows["sex"], "sites": rows["site"]}
    return logofair.fit(rows["score"], rows["label"], **columns, **required, random_state=0)


def test_the_lender_gets_the_optimum_with_its_proof_in_one_call_and_in_one_command(rows, file):
    certificate = fitted(rows, **REQUIRED, capacity=0.8).certificate
    assert certificate.holds
    assert certificate.objective == "cost"
    code, output, error = run("fit", file, *COLUMNS, *LENDER, "--capacity", "0.8", "--out", "p.json", "--json")
    assert code == 0, error
    found = json.loads(output)
    assert found["certificate"]["primal"] == pytest.approx(certificate.primal, abs=1e-9)
    assert found["certificate"]["objective"] == "cost"
    assert {check["kind"] for check in found["requirement_checks"]} == {"ratio", "floor", "most selected"}
    assert all(check["state"] == "kept" for check in found["requirement_checks"])


def test_the_lender_gets_the_proof_that_it_cannot_be_had(rows, file):
    with pytest.raises(logofair.InfeasibleError) as caught:
        fitted(rows, **REQUIRED, capacity=0.1)
    assert any("capacity" in name for name in caught.value.conflict)
    code, _, error = run("fit", file, *COLUMNS, *LENDER, "--capacity", "0.1", "--out", "p.json")
    assert code == 2
    assert " ".join(str(caught.value).split()) in " ".join(error.split())


def test_a_number_of_people_is_divided_by_the_calibration_rows(file):
    found = []
    for capacity in ("120", "0.1"):
        words = ("--capacity", capacity, "--seed", "0", "--out", "p.json", "--force", "--json")
        found.append(json.loads(run("fit", file, *COLUMNS, *words)[1])["requirements"]["capacities"])
    assert found[0] == found[1] == [{"side": "global", "most": 0.1, "least": 0.0}]


def test_costs_of_single_sites_are_those_of_the_library(rows, file):
    words = ("--costs", "1,3", "--costs", "south=2,1", "--local", "none", "--global", "none", "--seed", "0")
    code, output, error = run("fit", file, *COLUMNS, *words, "--out", "p.json", "--json")
    assert code == 0, error
    free = {"local_tolerance": None, "global_tolerance": None}
    want = fitted(rows, costs={"north": (1, 3), "south": (2, 1)}, **free).certificate.primal
    assert json.loads(output)["certificate"]["primal"] == pytest.approx(want, abs=1e-9)


def test_a_floor_for_all_groups_and_another_for_one(file):
    words = ("--floor", "demographic_parity=0.2", "--floor", "demographic_parity:F=0.5", "--local", "none")
    code, output, error = run("fit", file, *COLUMNS, *words, "--seed", "0", "--out", "p.json", "--json")
    assert code == 0, error
    values = {limit["group"]: limit["value"] for limit in json.loads(output)["requirements"]["limits"]}
    assert values == {"F": 0.5, "M": 0.2}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--local", "ratio:1.2"), "a ratio of rates is above 0 and at most 1"),
        (("--local", "ratio:0"), "a ratio of rates is above 0 and at most 1"),
        (("--floor", "equal_opportunity=1.2"), "got 'equal_opportunity=1.2'; a rate lies between 0 and 1"),
        (("--floor", "equal_opportunity=high"), "pass [global:]NOTION[:GROUP]=RATE"),
        (("--floor", "equal_oportunity=0.2"), "did you mean 'equal_opportunity'"),
        (("--floor", "demographic_parity:X=0.2"), "--floor: no 'X'"),
        (("--floor", "demographic_parity=0.2", "--floor", "demographic_parity=0.3"), "has one already"),
        (("--costs", "-1,1"), "a wrongly accepted row costs -1"),
        (("--costs", "0,0"), "both errors cost 0"),
        (("--costs", "1"), "pass two numbers with a comma between"),
        (("--costs", "east=1,3"), "--costs: no 'east'"),
        (("--costs", "north=1,3"), "costs: has no pair for site 'south'"),
        (("--costs", "1,3", "--costs", "1,4"), "were given already"),
        (("--capacity", "0"), "pass a share such as 0.1"),
        (("--capacity", "1.5"), "pass a share such as 0.1"),
        (("--capacity", "local:20"), "a number of people is over all"),
        (("--capacity", "global:local:0.2"), "pass a share such as 0.1"),
        (("--capacity", "0.1", "--capacity", "0.2"), "give one for each side"),
        (("--capacity", "100000"), "more than the"),
        (("--local-for", "east=ratio:0.8"), "--local-for: no 'east'"),
    ],
)
def test_what_cannot_be_required_is_refused_in_one_sentence(file, words, said):
    code, _, error = run("fit", file, *COLUMNS, *words, "--out", "p.json")
    assert code == 2
    assert said in " ".join(error.split())
    assert "Traceback" not in error


def test_an_audit_judges_decisions_and_a_policy_by_requirements(file):
    words = ("--local", "ratio:0.8", "--floor", "global:equal_opportunity=0.2", "--capacity", "0.9", "--json")
    code, output, error = run("audit", file, *COLUMNS, *words)
    assert code == 0, error
    found = {(each["requirement"], each["site"]): each["state"] for each in json.loads(output)["outcomes"]}
    assert {found[text, site] for text, site in found if "ratio >= 0.8 per site" in text} >= {"exceeded"}
    assert found["true positive rate of F >= 0.2 overall", None] == "met"
    assert found["true positive rate of M >= 0.2 overall", None] == "met"
    assert found["accepted <= 0.9 overall", None] == "met"
    assert run("fit", file, *COLUMNS, *LENDER, "--capacity", "0.8", "--seed", "0", "--out", "p.json")[0] == 0
    code, output, error = run(
        "audit", file, "--policy", "p.json", "--label", "label", "--report", "audit.html", "--verbose"
    )
    assert code == 0, error
    assert "selection rate ratio >= " in " ".join(output.split())
    with open("audit.html", encoding="utf-8") as page:
        assert "today per site" in page.read()


def test_today_without_a_policy_is_refused(file):
    code, _, error = run("audit", file, *COLUMNS, "--floor", "equal_opportunity=today")
    assert code == 2
    assert "add --policy" in " ".join(error.split())


def test_a_frontier_says_which_points_cannot_be_had(file):
    words = ("--local", "ratio:1,ratio:0.6,none", "--global", "none", "--costs", "1,3", "--capacity", "0.3")
    code, output, error = run("frontier", file, *COLUMNS, *words, "--floor", "demographic_parity:M=0.4")
    assert code == 0, error
    said = " ".join(output.split())
    assert "no rule" in said
    assert "No rule meets 2 of the pairs" in said
    assert "per person" in said


def test_the_report_lists_requirements_and_speaks_of_cost(file):
    words = ("--capacity", "0.8", "--seed", "0", "--out", "p.json", "--report", "r.html")
    code, _, error = run("fit", file, *COLUMNS, *LENDER, *words)
    assert code == 0, error
    with open("r.html", encoding="utf-8") as file_:
        page = file_.read()
    assert "accepted &lt;= 0.8 overall" in page
    assert "costs less than" in page
    assert "per person" in page
    assert "% accuracy" not in page


def test_without_labels_an_audit_lists_what_needs_them_as_not_measured(file):
    free = ("--local", "none", "--global", "none", "--capacity", "0.8", "--floor", "equal_opportunity=today")
    assert run("fit", file, *COLUMNS, *free, "--seed", "0", "--out", "p.json")[0] == 0
    unlabelled = (*COLUMNS[:2], *COLUMNS[4:])
    audits = (("--policy", "p.json"), (*unlabelled, "--floor", "equal_opportunity=0.6", "--capacity", "0.8"))
    for words, must in zip(audits, ("today", "0.6"), strict=True):
        code, _, error = run("audit", file, *words, "--report", "a.html", "--force")
        assert code == 0, error
        listed = json.loads(run("audit", file, *words, "--json")[1])["outcomes"]
        floors = [each for each in listed if each["requirement"].startswith("true positive rate")]
        assert floors
        assert all(each["state"] == "not measured" and f">= {must}" in each["requirement"] for each in floors)
        with open("a.html", encoding="utf-8") as page:
            assert "not measured" in page.read()
