"""Policies that may not look at groups, at the command line: fit, explain, apply, audit and what they refuse."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from logofair import Policy
from support.commandline import json_of, printed, refused

SEEN = ("--group-probability", "f=p_f", "--group-probability", "m=p_m")
FIT = ("--score", "score", "--label", "label", "--site", "site", *SEEN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("away")
    rng, n = np.random.default_rng(0), 3000
    sex, site = rng.choice(["f", "m"], n), rng.choice(["north", "south"], n)
    score = 1.0 / (1.0 + np.exp(-rng.normal(size=n) - 0.8 * (sex == "m")))
    seen = 1.0 / (1.0 + np.exp(2.0 - 2.0 * (rng.normal(size=n) + 2.0 * (sex == "m"))))
    label = (rng.random(n) < score).astype(int)
    columns = {"id": np.arange(n), "sex": sex, "site": site, "score": score, "label": label}
    rows = pl.DataFrame(columns | {"p_f": 1.0 - seen, "p_m": seen})
    rows[:2000].write_csv(found / "fit.csv")
    rows[2000:].write_csv(found / "new.csv")
    broken = rows[:200].with_row_index("row")
    last = pl.col("row") == 150
    broken.with_columns(pl.when(last).then(None).otherwise("p_m").alias("p_m")).write_csv(found / "missing.csv")
    broken.with_columns(pl.when(last).then(pl.lit("many")).otherwise("p_m").alias("p_m")).write_csv(found / "text.csv")
    with chdir(found):
        yield found


@pytest.fixture(scope="module")
def page(folder):
    words = ("fit", "fit.csv", *FIT, "--group", "sex", "--test", "new.csv", "--out", "policy.json")
    return printed(*words, "--report", "report.html")


def test_a_fit_tells_before_and_after_in_true_groups(page):
    assert "gap in selection rate" in page
    assert "logofair audit OTHERS.csv --policy policy.json" in page
    assert "recommend" not in page
    assert "only the probability of every group" in Path("report.html").read_text(encoding="utf-8")


def test_the_rule_is_told_in_words_with_the_columns_it_goes_by(page):
    assert "No rule sees a group, only the probability of every group (p_f, p_m)" in printed("explain", "policy.json")
    assert json_of("explain", "policy.json")["info"]["certificate"]["holds"] is None


def test_apply_needs_no_group_and_decides_as_the_policy_does(page, tmp_path):
    out = tmp_path / "decisions.csv"
    assert "everybody" in printed("apply", "policy.json", "new.csv", "--id", "id", "--out", out)
    rows, policy = pl.read_csv("new.csv"), Policy.load("policy.json")
    seen = {"f": rows["p_f"].to_numpy(), "m": rows["p_m"].to_numpy()}
    found = policy.decide(rows["score"], sites=rows["site"], group_probabilities=seen, ids=rows["id"])
    assert np.array_equal(pl.read_csv(out)["decision"], found)


def test_an_audit_counts_true_groups_of_the_policys_decisions(page):
    words = ("fit", "fit.csv", *FIT, "--out", "unknown.json")
    assert "Nobody's group was known" in printed(*words)
    known, unknown = (
        json_of("audit", "new.csv", "--policy", name, "--label", "label", "--group", "sex")
        for name in ("policy.json", "unknown.json")
    )
    assert known["groups"] == unknown["groups"] == ["f", "m"]
    assert json.dumps(known["rates"]) != json.dumps(unknown["rates"])
    assert "logofair recommend" not in printed("audit", "new.csv", "--policy", "policy.json", "--label", "label")


@pytest.mark.parametrize("form", ["model-card", "annex-iv"])
def test_forms_for_auditors_are_written(form, page):
    assert "may not look" in printed(
        "fit", "fit.csv", *FIT, "--group", "sex", "--out", f"{form}.json", "--format", form
    )


REFUSED = [
    (("fit", "fit.csv", *FIT[:-2], "--out", "none.json"), "pass one for each of two groups"),
    (("fit", "fit.csv", *FIT[:-1], "m=score", "--out", "none.json"), "sums to"),
    (("fit", "fit.csv", *FIT[:-1], "m=id", "--out", "none.json"), "--group-probability: column 'm': row 2 is 2"),
    (("fit", "fit.csv", *FIT[:-1], "p_m", "--out", "none.json"), "pass NAME=COLUMN"),
    (("fit", "fit.csv", *FIT[:-1], "m=nothing", "--out", "none.json"), "nothing"),
    (("fit", "fit.csv", *FIT[:-1], "x=p_m", "--group", "sex", "--out", "none.json"), "columns are 'f', 'x'"),
    (("fit", "missing.csv", *FIT, "--out", "none.json"), "p_m"),
    (("fit", "text.csv", *FIT, "--out", "none.json"), "'many'"),
    (("fit", "fit.csv", *FIT, "--out", "none.json", "--notion", "equalized_odds"), "counts by label"),
    (("fit", "fit.csv", *FIT, "--out", "none.json", "--test", "new.csv"), "--group: not given"),
    (
        ("fit", "fit.csv", *FIT, "--out", "none.json", "--confidence", "0.9"),
        "only thresholds of groups can be certified",
    ),
    (("frontier", "fit.csv", *FIT, "--group", "sex"), "--group-probability'; policies that may not look at groups are"),
    (("federate", "simulate", "fit.csv", *SEEN), "are fitted by logofair fit, on one machine."),
    (("federate", "simulate", "fit.csv", "--objective", "gap"), "is searched by logofair fit"),
    (("apply", "policy.json", "new.csv", "--group", "sex", "--id", "id", "--out", "none.csv"), "may not look"),
    (
        ("apply", "policy.json", "missing.csv", "--id", "id", "--out", "none.csv"),
        "'p_m': 1 of 200 rows has no value",
    ),
    (("apply", "policy.json", "text.csv", "--id", "id", "--out", "none.csv"), "'many'"),
    (("apply", "policy.json", "new.csv", "--deterministic", "--out", "none.csv"), "no rule without coins"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
def test_bad_input_is_refused_in_a_sentence_and_nothing_is_written(words, sentence, page):
    assert sentence in refused(*words)
    assert not list(Path().glob("none.*"))
