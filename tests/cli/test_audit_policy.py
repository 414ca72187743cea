"""``logofair audit --policy``: a stored policy on other rows, paired with another rule; reports."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
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
from logofair.auditing import compare
from logofair.auditing.against import rows_in_fit
from logofair.auditing.result import FITTED_ROWS, RuleAudit
from logofair.files.inputs import ColumnNames, find_files
from logofair.files.rows import read_rows
from logofair.policy.info import ColumnsInfo
from logofair.policy.policy import Policy
from logofair.report import ReportHeading

pytestmark = pytest.mark.tool

run = partial(commandline.run, "audit")
audited = partial(commandline.json_of, "audit")
refused = partial(commandline.refused, "audit")

OTHER_ROWS = "these rows of the file took no part in the fit."
OTHER_FILE = "this is another file than that of the fit; whether people are the same is not checked."


@dataclass(frozen=True)
class Stored:
    """A file of people, and two policies fitted on its part "calibration"."""

    people: pl.DataFrame
    data: Path
    policy: Path
    other: Path

    def rows(self, part: str) -> pl.DataFrame:
        return self.people.filter(part=part)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    folder, rng, n = tmp_path_factory.mktemp("stored"), np.random.default_rng(0), 4000
    sex, site = rng.choice(["F", "M"], n), rng.choice([1, 2, 3], n, p=[0.6, 0.3, 0.1])
    score = rng.beta(1 + (sex == "M"), 2, n)
    part = np.where(rng.random(n) < 0.5, "calibration", "test")
    columns = {"p": 100 * score, "y": (rng.random(n) < score).astype(int), "sex": sex, "site": site, "part": part}
    people = pl.DataFrame(columns | {"w": rng.integers(1, 4, n), "who": rng.integers(0, n, n)})
    people.write_csv(folder / "people.csv")
    found = Stored(people, folder / "people.csv", folder / "policy.json", folder / "other.json")
    named = ColumnNames(score="p", label="y", group=("sex",), site="site", scale="percent")
    rows = read_rows(find_files([str(found.data)], site="site"), replace(named, where=(("part", "calibration"),)))
    for path, settings in ((found.policy, {}), (found.other, {"notion": "equalized_odds", "local_tolerance": 0.1})):
        columns = {"groups": rows.groups, "sites": rows.sites}
        policy = logofair.fit(rows.scores, rows.labels, **columns, calibration="platt", **settings).policy
        info = replace(policy.info, columns=ColumnsInfo("p", ("sex",), "site", "percent"), data=rows.source)
        replace(policy, info=info).save(path)
    return found


def chances(policy: Path, rows: pl.DataFrame, **more: Any) -> Any:
    rules, sites = Policy.load(policy), rows["site"].to_list()
    return rules.probabilities(rows["p"] / 100, groups=rows["sex"].to_list(), sites=sites, **more)


@pytest.mark.parametrize("against", ["base", "threshold", "other"])
@pytest.mark.parametrize("more", [{}, {"sample_weight": "w"}, {"ids": "who"}], ids=["plain", "weights", "ids"])
def test_a_policy_is_measured_and_compared_as_by_the_library(
    stored: Stored, against: str, more: dict[str, str]
) -> None:
    words = {"base": (), "threshold": ("--threshold", 0.4), "other": ("--against", stored.other)}[against]
    options = [word for role, name in more.items() for word in ({"ids": "--id"}.get(role, "--weight"), name)]
    test = ("--where", "part=test", "--notion", "equalized_odds", "--costs", "1,3")
    found = audited(stored.data, "--policy", stored.policy, "--label", "y", *words, *options, *test)
    rows = stored.rows("test")
    base = chances(stored.other, rows) if against == "other" else rows["p"] / 100 >= (0.5 if against == "base" else 0.4)
    columns = {"groups": rows["sex"].to_list(), "sites": rows["site"].to_list(), "notion": "equalized_odds"}
    columns |= {"costs": (1, 3)} | {role: rows[name].to_list() for role, name in more.items()}
    expected = compare(base, chances(stored.policy, rows), rows["y"].to_list(), **columns, chances=True)
    for name, difference in expected.as_dict().items():
        assert found["compared"]["differences"]["equalized_odds"][name] == pytest.approx(difference)
    assert found["accuracy"] == pytest.approx(expected.second.accuracy.as_dict())
    assert found["cost"] == pytest.approx(expected.second.cost.as_dict())
    assert found["compared"]["other"]["cost"] == pytest.approx(expected.first.cost.as_dict())
    assert found["notions"]["equalized_odds"]["global"] == expected.second.worst_global.as_dict()
    assert found["compared"]["other"]["accuracy"] == pytest.approx(expected.first.accuracy.as_dict())
    assert found["rates"].keys() == expected.second.rates.keys()


def test_which_rows_took_part_in_the_fit_is_told(stored: Stored, tmp_path: Path) -> None:
    stored.people.with_columns(pl.col("p") * 0.99).write_csv(tmp_path / "new.csv")
    words = ("--policy", stored.policy, "--label", "y")
    for data, where, known, sentence in (
        (stored.data, ("--where", "part=test"), "none", OTHER_ROWS),
        (stored.data, ("--where", "part=calibration"), "all", FITTED_ROWS),
        (stored.data, (), "some", "some of these rows chose the rule"),
        (stored.data, ("--where", "site=1"), "some", "some of these rows chose the rule"),
        (tmp_path / "new.csv", ("--where", "part=calibration"), "another file", OTHER_FILE),
    ):
        found = audited(data, *words, *where)
        assert (found["compared"]["rows_in_fit"], found["fitted_rows"]) == (known, known in ("all", "some"))
        assert sentence in " ".join(run(data, *words, *where)[1].split())


@pytest.mark.parametrize(
    ("fitted", "audited_where", "known"),
    [
        ("", "", "all"),
        ("part=a", "part=a", "all"),
        ("part=a", "part=b", "none"),
        ("part=a and site=1", "site=2 and part=a", "none"),
        ("part=a", "site=1", "some"),
        ("", "part=a", "some"),
        ("not part=b", "part=b", "none"),
        ("not part=b", "part=b and site=1", "none"),
        ("not part=b", "", "some"),
        ("site=1 and not part=b and sex=F", "part=b and site=1", "some"),
        ("site=1 and not part=b and sex=F", "sex=F and part=b", "none"),
    ],
)
def test_conditions_tell_rows_of_the_fit_from_others(
    stored: Stored, fitted: str, audited_where: str, known: str
) -> None:
    policy = Policy.load(stored.policy)
    source = policy.info.data
    assert source is not None
    there, here = (replace(source, columns={"where": text} if text else {}) for text in (fitted, audited_where))
    policy = replace(policy, info=replace(policy.info, data=there))
    assert rows_in_fit(policy, here) == known
    assert rows_in_fit(policy, replace(here, fingerprint="another")) == "another file"


def test_a_policy_that_does_not_tell_its_rows_is_said_to_be_so(stored: Stored, tmp_path: Path) -> None:
    policy = Policy.load(stored.policy)
    replace(policy, info=replace(policy.info, data=None)).save(tmp_path / "policy.json")
    found = audited(stored.data, "--policy", tmp_path / "policy.json")
    assert found["compared"]["rows_in_fit"] == "unknown"
    assert "may be of the fit" in found["compared"]["sentence"]


def test_the_page_pairs_both_rules(stored: Stored) -> None:
    words = (stored.data, "--policy", stored.policy, "--label", "y", "--where", "part=test", "--costs", "1,3")
    output, found = run(*words)[1], audited(*words)
    assert max(map(len, output.splitlines())) <= 80
    page, difference = " ".join(output.split()), found["compared"]["differences"]["demographic_parity"]
    assert "score >= 0.5 -> policy.json on the same rows" in page
    change = difference["accuracy"]
    ends = f"(95%: {change['low']:+.4f} to {change['high']:+.4f})"
    before, after = found["compared"]["other"]["accuracy"]["value"], found["accuracy"]["value"]
    assert f"accuracy {before:.4f} -> {after:.4f}, difference {change['value']:+.4f} {ends}" in page
    cost = found["cost"]
    assert f"Cost {cost['value']:.4f} per person (95%: {cost['low']:.4f} to {cost['high']:.4f};" in page
    assert "A wrongly accepted row costs 1, a wrongly rejected one 3." in page
    assert f"cost per person {found['compared']['other']['cost']['value']:.4f} -> {cost['value']:.4f}, diff" in page
    against = run(*words, "--against", stored.other)[1]
    assert "other.json -> policy.json on the same rows" in against


def test_sites_are_judged_by_what_the_policy_requires(stored: Stored, tmp_path: Path) -> None:
    words = (stored.data, "--label", "y", "--where", "part=test")
    found = audited(*words, "--policy", stored.policy)
    checks = {name: each["check"] for name, each in found["notions"].items()}
    assert found["tolerance"] is None
    assert {name: check and check["tolerance"] for name, check in checks.items()} == {
        "demographic_parity": 0.02, "equal_opportunity": None, "predictive_equality": None, "equalized_odds": None
    }  # fmt: skip
    page = " ".join(run(*words, "--policy", stored.policy)[1].split())
    assert page.count("each site") == page.count("A gap above 0.02 is shown at") == 1
    own = audited(*words, "--policy", stored.other)["notions"]
    assert (own["demographic_parity"]["check"], own["equalized_odds"]["check"]["tolerance"]) == (None, 0.1)
    given = audited(*words, "--policy", stored.policy, "--local", 0.3)
    assert {each["check"]["tolerance"] for each in given["notions"].values()} == {0.3}


def test_tolerances_of_single_sites_are_theirs(stored: Stored, tmp_path: Path) -> None:
    rows = stored.rows("calibration")
    columns = {"groups": rows["sex"].to_list(), "sites": rows["site"].to_list()}
    fit = partial(logofair.fit, rows["p"] / 100, rows["y"], **columns, calibration="none")
    names = ("--score", "p", "--scale", "percent", "--group", "sex", "--site", "site", "--where", "part=test")
    for local, single, tolerance, sites in ((0.02, {3: None}, 0.02, 2), (None, {1: 0.1}, 0.1, 1)):
        fit(local_tolerance=local, site_tolerances=single).policy.save(tmp_path / "policy.json")
        check = audited(stored.data, "--policy", tmp_path / "policy.json", *names)["notions"]["demographic_parity"]
        assert (check["check"]["tolerance"], check["check"]["sites"]) == (tolerance, sites)
    fit(local_tolerance=None).policy.save(tmp_path / "policy.json")
    found = audited(stored.data, "--policy", tmp_path / "policy.json", *names)
    assert found["notions"]["demographic_parity"]["check"] is None


def test_pairs_say_where_small_groups_are_in_the_gap(stored: Stored, tmp_path: Path) -> None:
    rows = stored.rows("calibration").with_columns(
        sex=pl.when(pl.int_range(pl.len()) < 6).then(pl.lit("X")).otherwise("sex")
    )
    few = rows.with_columns(p=pl.when(sex="X").then(99.0).otherwise("p"))
    few.write_csv(tmp_path / "few.csv")
    columns = {"groups": few["sex"].to_list(), "sites": few["site"].to_list()}
    fit = logofair.fit(few["p"] / 100, few["y"], **columns, local_tolerance=None, calibration="none")
    fit.policy.save(tmp_path / "policy.json")
    words = (tmp_path / "few.csv", "--policy", tmp_path / "policy.json", "--score", "p", "--scale", "percent")
    named = ("--group", "sex", "--site", "site", "--notion", "demographic_parity")
    found, page = audited(*words, *named), " ".join(run(*words, *named)[1].split())
    chance = fit.policy.probabilities(few["p"] / 100, **columns)
    both = compare(few["p"] >= 50, chance, few["y"].to_list(), **columns, chances=True)
    assert found["compared"]["differences"]["demographic_parity"]["global_gap"]["value"] == pytest.approx(
        both.global_gap
    )
    before, after = (audit.headline_global.value for audit in (both.first, both.second))
    assert float(before) != float(both.first.global_gap)
    pair = f"demographic parity gap {before:.4f} -> {after:.4f}"
    assert f"{pair}; with groups of fewer than 30 rows {both.first.global_gap:.4f} -> " in page


def test_with_ids_figures_rest_on_people(stored: Stored) -> None:
    words = (stored.data, "--policy", stored.policy, "--where", "part=test")
    heads = [run(*words, *more)[1].count(" people\n") for more in ((), ("--id", "who"))]
    assert heads == [0, 1]


def test_unknown_sites_take_the_merged_rule_and_are_counted(stored: Stored, tmp_path: Path) -> None:
    moved = stored.rows("test").with_columns(site=pl.when(site=3).then(7).otherwise("site"))
    moved.write_csv(tmp_path / "new.csv")
    words = (tmp_path / "new.csv", "--policy", stored.policy, "--label", "y")
    found, unknown = audited(*words), moved.filter(site=7).height
    assert found["compared"]["unknown_site_rows"] == unknown > 0
    expected = chances(stored.policy, moved, on_unknown="merged")
    assert found["accepted"]["value"] == pytest.approx(expected.mean())
    assert f"{unknown} rows are of sites that the policy does not know" in " ".join(run(*words)[1].split())
    policy = replace(Policy.load(stored.policy), merged_rules=None)
    policy.save(tmp_path / "policy.json")
    sentence = refused(tmp_path / "new.csv", "--policy", tmp_path / "policy.json")
    assert f"--site: {unknown} rows are of sites that policy.json does not know, such as 7" in sentence


def test_a_policy_of_one_site_takes_all_rows_as_its_own(stored: Stored, tmp_path: Path) -> None:
    own = stored.rows("test").filter(site=2)
    own.drop("site").write_csv(tmp_path / "two.csv")
    stored.rows("test").write_csv(tmp_path / "all.csv")
    policy = Policy.load(stored.policy)
    place = policy.sites.index(2)
    cells = slice(place * 2, place * 2 + 2)
    mixtures = policy.mixtures
    site = replace(
        policy,
        sites=("2",),
        mixtures=replace(
            mixtures, **{name: value[cells] for name, value in vars(mixtures).items() if value is not None}
        ),
        calibrator=logofair.fit([0.9, 0.1, 0.8, 0.2], None, groups=list("FMFM"), calibration="none").policy.calibrator,
        merged_rules=None,
        info=replace(policy.info, site="2", data=None),
    )
    site.save(tmp_path / "policy.json")
    words = ("--policy", tmp_path / "policy.json", "--label", "y")
    found = audited(tmp_path / "two.csv", *words)
    expected = site.probabilities(own["p"] / 100, groups=own["sex"].to_list())
    assert found["accepted"]["value"] == pytest.approx(expected.mean())
    assert found["notions"]["demographic_parity"]["check"] is None
    sentence = refused(tmp_path / "all.csv", *words, "--site", "site")
    assert "policy.json is of site '2' alone, but there are rows of 1, 3; leave them out." in sentence


def test_a_policy_without_sites_is_audited_inside_those_of_the_data(stored: Stored, tmp_path: Path) -> None:
    rows = stored.rows("calibration")
    policy = logofair.fit(rows["p"] / 100, rows["y"], groups=rows["sex"].to_list(), calibration="platt").policy
    policy.save(tmp_path / "policy.json")
    names = ("--score", "p", "--scale", "percent", "--group", "sex", "--site", "site")
    found = audited(stored.data, "--policy", tmp_path / "policy.json", *names)
    assert [row["site"] for row in found["sites"]] == [1, 2, 3]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--against", "base", "--score", "p", "--group", "sex"], "--against: is compared with a policy; name it with"),
        (["--policy", "{policy}", "--decision", "y"], "--decision: given together with --policy"),
        (["--policy", "{policy}", "--group", "part"], "rows are of groups that policy.json does not know, such as '"),
        (["--policy", "{policy}", "--scale", "chance"], "add --scale percent"),
        (["--policy", "{policy}", "--notion", "equal_opportunity"], "--label: not given"),
        (["--policy", "nothing.json"], "nothing.json: "),
        (["--policy", "{policy}", "--report", "no/a.html"], "cannot be written (no folder 'no')"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_sentence_and_exit_code_2(stored: Stored, words: list[str], sentence: str) -> None:
    assert sentence in refused(stored.data, *(word.format(policy=stored.policy) for word in words))


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What is handed over to be written as a report."""
    written: list[dict[str, Any]] = []

    def write(path: Path, audits: RuleAudit, **more: Any) -> None:
        written.append({"path": path, "audits": audits, **more})
        path.write_text("<html>")

    monkeypatch.setattr("logofair.report.write_audit_report", write, raising=False)
    return written


def test_a_report_gets_the_figures_the_words_and_the_command(
    stored: Stored, reports: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--policy", stored.policy, "--label", "y", "--where", "part=test", "--local", 0.1, "--costs", "1,3"]
    heading = ["--title", "Loans", "--purpose", "To lend.", "--author", "Us", "--decision-word", "flagged"]
    code, page, error = run(stored.data, *words, *heading, "--report", "a.html")
    assert code == 0, error
    assert "Flagged (by policy.json" in page
    assert "Wrote" in page
    (found,) = reports
    assert found["heading"].made
    assert found["heading"] == ReportHeading("Loans", "To lend.", "Us", found["heading"].made, "flagged")
    assert (found["tolerance"], found["data"].rows) == (0.1, stored.rows("test").height)
    assert found["policy"].groups == ("F", "M")
    assert found["audits"].accuracy == found["comparison"].second.accuracy
    assert found["audits"].cost == found["comparison"].second.cost
    assert "exists already" in refused(stored.data, *words, "--report", "a.html")
    again = run(*shlex.split(found["command"])[2:], "--force")
    assert again[0] == 0, again[2]
    assert (reports[1]["command"], reports[1]["heading"].title) == (found["command"], "Loans")
    assert reports[1]["audits"].as_dict() == found["audits"].as_dict()


def test_a_report_of_counted_rows_has_their_source(
    stored: Stored, reports: list[dict[str, Any]], tmp_path: Path
) -> None:
    words = ("--score", "p", "--scale", "percent", "--group", "sex", "--threshold", 0.4)
    assert audited(stored.data, *words, "--report", tmp_path / "a.html")["report"] == str(tmp_path / "a.html")
    (found,) = reports
    read = read_rows(find_files([str(stored.data)]), ColumnNames(score="p", scale="percent", group=("sex",)))
    assert (found["data"], found["policy"], found["comparison"]) == (read.source, None, None)
    assert "--threshold 0.4" in found["command"]
