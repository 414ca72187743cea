"""Costs, ratios, floors, ceilings and a capacity on the command line: the lender's sentence, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

import logofair
from support.commandline import json_of, printed, run

COLUMNS = ("--score", "score", "--label", "label", "--group", "sex", "--site", "site")
SHARED = ("selection rate ratio >= 0.8 per site", "true positive rate >= today per site")
LENDER = ("--costs", "1,3", "--require", SHARED[0], "--require", SHARED[1])
ENOUGH, TOO_LITTLE = ("--require", "accepted <= 0.8 overall"), ("--require", "accepted <= 0.1 overall")


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
    columns = {"sensitive_features": rows["sex"], "sites": rows["site"]}
    return logofair.fit(rows["score"], rows["label"], **columns, **required, random_state=0)


def test_the_lender_gets_the_optimum_with_its_proof_in_one_call_and_in_one_command(rows, file):
    certificate = fitted(rows, costs=(1, 3), require=[*SHARED, ENOUGH[1]]).certificate
    assert certificate.holds
    assert certificate.objective == "cost"
    found = json_of("fit", file, *COLUMNS, *LENDER, *ENOUGH, "--out", "p.json")
    assert found["certificate"]["primal"] == pytest.approx(certificate.primal, abs=1e-9)
    assert found["certificate"]["objective"] == "cost"
    sentences = {each["requirement"].partition(" per")[0].partition(" overall")[0] for each in found["outcomes"]}
    assert any("ratio >=" in each for each in sentences)
    assert any(each.startswith("accepted <= 0.8") for each in sentences)
    assert all(each["state"] == "met" for each in found["outcomes"])


def test_the_lender_gets_the_proof_that_it_cannot_be_had(rows, file):
    with pytest.raises(logofair.InfeasibleError) as caught:
        fitted(rows, costs=(1, 3), require=[*SHARED, TOO_LITTLE[1]])
    assert TOO_LITTLE[1] in map(str, caught.value.conflict)
    code, _, error = run("fit", file, *COLUMNS, *LENDER, *TOO_LITTLE, "--out", "p.json")
    assert code == 2
    assert " ".join(str(caught.value).split()) in " ".join(error.split())


def test_a_number_of_people_is_divided_by_the_calibration_rows(file):
    found = []
    for bound in ("120 people", "0.1"):
        words = ("--require", f"accepted <= {bound} overall", "--seed", "0", "--out", "p.json", "--force", "--json")
        found.append(json.loads(run("fit", file, *COLUMNS, *words)[1]))
    assert found[0]["certificate"]["primal"] == pytest.approx(found[1]["certificate"]["primal"], abs=1e-12)
    assert found[0]["requirements"]["require"] == ["accepted <= 120 people overall"]
    assert sum(found[0]["requirements"]["people"]) == 1200


def test_a_file_of_requirements_is_read_line_by_line(file, tmp_path):
    (tmp_path / "agreed.txt").write_text("# agreed in May\n" + "\n".join(SHARED), encoding="utf-8")
    output = printed("fit", file, *COLUMNS, "--require", "@agreed.txt", "--out", "p.json", "--json")
    assert json.loads(output)["requirements"]["require"] == list(SHARED)


def test_costs_of_single_sites_are_those_of_the_library(rows, file):
    words = ("--costs", "1,3", "--costs", "south=2,1", "--local", "none", "--global", "none", "--seed", "0")
    output = printed("fit", file, *COLUMNS, *words, "--out", "p.json", "--json")
    free = {"local_tolerance": None, "global_tolerance": None}
    want = fitted(rows, costs={"north": (1, 3), "south": (2, 1)}, **free).certificate.primal
    assert json.loads(output)["certificate"]["primal"] == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--local", "ratio:0.8"), "pass a number from 0 to below 1"),
        (("--require", "selection rate ratio >= 1.2 overall"), "a ratio of 1.2; it is above 0 and at most 1"),
        (("--require", "selection rate >= 60 overall"), "a bound of 60; rates lie between 0 and 1"),
        (("--require", "selecton rate gap <= 0.1 overall"), "did you mean 'selection rate'"),
        (("--require", "selection rate of X >= 0.2 overall"), "names group 'X', which has no rows"),
        (("--require", "selection rate gap <= 0.1 at east"), "names site 'east', which has no rows"),
        (("--require", "accepted <= 100000 people overall"), "more people than there are"),
        (("--require", "@missing.txt"), "fit --require: missing.txt: cannot be read"),
        (("--require", "@rows.csv"), "rows.csv: 'score,label,sex,site': 'score' stands where"),
        (("--costs", "-1,1"), "a wrongly accepted row costs -1"),
        (("--costs", "0,0"), "both errors cost 0"),
        (("--costs", "1"), "pass two numbers with a comma between"),
        (("--costs", "east=1,3"), "--costs: no 'east'"),
        (("--costs", "north=1,3"), "costs: has no pair for site 'south'"),
        (("--costs", "1,3", "--costs", "1,4"), "were given already"),
    ],
)
def test_what_cannot_be_required_is_refused_in_one_sentence(file, words, said):
    code, _, error = run("fit", file, *COLUMNS, *words, "--out", "p.json")
    assert code == 2
    assert said in " ".join(error.split())
    assert "Traceback" not in error


def test_an_audit_judges_decisions_and_a_policy_by_requirements(file):
    require = (SHARED[0], "true positive rate >= 0.2 overall", "accepted <= 0.9 overall")
    words = (*(word for text in require for word in ("--require", text)), "--json")
    output = printed("audit", file, *COLUMNS, *words)
    found = {(each["requirement"], each["site"]): each["state"] for each in json.loads(output)["outcomes"]}
    assert {found[text, site] for text, site in found if "ratio >= 0.8 per site" in text} >= {"exceeded"}
    assert found["true positive rate >= 0.2 overall", None] == "met"
    assert found["accepted <= 0.9 overall", None] == "met"
    assert run("fit", file, *COLUMNS, *LENDER, *ENOUGH, "--seed", "0", "--out", "p.json")[0] == 0
    output = printed("audit", file, "--policy", "p.json", "--label", "label", "--report", "audit.html", "--verbose")
    assert "selection rate ratio >= " in " ".join(output.split())
    with open("audit.html", encoding="utf-8") as page:
        assert "today per site" in page.read()


def test_today_without_a_policy_is_refused(file):
    code, _, error = run("audit", file, *COLUMNS, "--require", SHARED[1])
    assert code == 2
    assert "add --policy" in " ".join(error.split())


def test_a_frontier_says_which_points_cannot_be_had(file):
    words = ("--measure", "ratio", "--local", "1,0.6,none", "--global", "none", "--costs", "1,3")
    held = ("--require", "accepted <= 0.3 overall", "--require", "selection rate of M >= 0.4 per site")
    output = printed("frontier", file, *COLUMNS, *words, *held)
    said = " ".join(output.split())
    assert "no rule" in said
    assert "No rule meets 2 of the pairs" in said
    assert "per person" in said


def test_the_report_lists_requirements_and_speaks_of_cost(file):
    words = (*ENOUGH, "--seed", "0", "--out", "p.json", "--report", "r.html")
    printed("fit", file, *COLUMNS, *LENDER, *words)
    with open("r.html", encoding="utf-8") as file_:
        page = file_.read()
    assert "accepted &lt;= 0.8 overall" in page
    assert "costs less than" in page
    assert "per person" in page
    assert "% accuracy" not in page


def test_without_labels_an_audit_lists_what_needs_them_as_not_measured(file):
    free = (*ENOUGH, "--require", SHARED[1])
    assert run("fit", file, *COLUMNS, *free, "--seed", "0", "--out", "p.json")[0] == 0
    unlabelled = (*COLUMNS[:2], *COLUMNS[4:])
    audits = (("--policy", "p.json"), (*unlabelled, *ENOUGH, "--require", "true positive rate >= 0.6 per site"))
    for words, must in zip(audits, ("today", "0.6"), strict=True):
        printed("audit", file, *words, "--report", "a.html", "--force")
        listed = json.loads(run("audit", file, *words, "--json")[1])["outcomes"]
        floors = [each for each in listed if each["requirement"].startswith("true positive rate")]
        assert floors
        assert all(each["state"] == "not measured" and f">= {must}" in each["requirement"] for each in floors)
        with open("a.html", encoding="utf-8") as page:
            assert "not measured" in page.read()
