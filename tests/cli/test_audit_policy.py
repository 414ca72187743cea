"""``logofair audit --policy``: a stored policy on other rows, paired with another rule; reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import logofair
from logofair.auditing import compare
from logofair.auditing.files import _rows_in_fit
from logofair.files.inputs import ColumnNames, find_files
from logofair.files.rows import read_rows
from logofair.policy.info import ColumnsInfo
from logofair.policy.policy import Policy
from support import commandline

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
        columns = {"sensitive_features": rows.groups, "sites": rows.sites}
        policy = logofair.fit(rows.scores, rows.labels, **columns, calibration="platt", **settings).policy
        info = replace(policy.info, columns=ColumnsInfo("p", ("sex",), "site", "percent"), data=rows.source)
        replace(policy, info=info).save(path)
    return found


def chances(policy: Path, rows: pl.DataFrame, **more: Any) -> Any:
    rules, sites = Policy.load(policy), rows["site"].to_list()
    return rules.probabilities(rows["p"] / 100, sensitive_features=rows["sex"].to_list(), sites=sites, **more)


@pytest.mark.parametrize("against", ["base", "threshold", "other"])
@pytest.mark.parametrize("more", [{}, {"sample_weight": "w"}, {"ids": "who"}], ids=["plain", "weights", "ids"])
def test_a_policy_is_measured_and_compared_as_by_the_library(
    stored: Stored, against: str, more: dict[str, str]
) -> None:
    words = {
        "base": ("--against", "base"),
        "threshold": ("--against", "base", "--threshold", 0.4),
        "other": ("--against", stored.other),
    }[against]
    options = [word for role, name in more.items() for word in ({"ids": "--id"}.get(role, "--weight"), name)]
    test = ("--where", "part=test", "--notion", "equalized_odds", "--costs", "1,3")
    found = audited(stored.data, "--policy", stored.policy, "--label", "y", *words, *options, *test)
    rows = stored.rows("test")
    base = chances(stored.other, rows) if against == "other" else rows["p"] / 100 >= (0.5 if against == "base" else 0.4)
    columns = {"sensitive_features": rows["sex"].to_list(), "sites": rows["site"].to_list(), "notion": "equalized_odds"}
    columns |= {"costs": (1, 3)} | {role: rows[name].to_list() for role, name in more.items()}
    expected = compare(base, chances(stored.policy, rows), rows["y"].to_list(), **columns, chances=True)
    for name, difference in expected.as_dict().items():
        assert found["compared"]["differences"]["equalized_odds"][name] == pytest.approx(difference)
    assert found["accuracy"] == pytest.approx(expected.second.accuracy.as_dict())
    assert found["cost"] == pytest.approx(expected.second.cost.as_dict())
    assert found["compared"]["other"]["cost"] == pytest.approx(expected.first.cost.as_dict())
    assert found["notions"]["equalized_odds"]["global"] == expected.second.headline_global.as_dict()
    assert found["compared"]["other"]["accuracy"] == pytest.approx(expected.first.accuracy.as_dict())
    assert found["rates"].keys() == expected.second.rates.keys()


def test_by_default_before_is_the_policys_own_rule_without_requirements_everywhere(stored: Stored) -> None:
    found = audited(stored.data, "--policy", stored.policy, "--label", "y", "--where", "part=test")
    rows, policy = stored.rows("test"), Policy.load(stored.policy)
    before = policy.unconstrained(
        rows["p"] / 100, sensitive_features=rows["sex"].to_list(), sites=rows["site"].to_list()
    )
    columns = {"sensitive_features": rows["sex"].to_list(), "sites": rows["site"].to_list()}
    expected = logofair.audit(before, rows["y"].to_list(), **columns, chances=True)
    assert found["compared"]["other"]["accuracy"] == pytest.approx(expected.accuracy.as_dict())
    (over_all,) = [each for each in found["outcomes"] if each["site"] is None and "gap" in each["requirement"]]
    assert over_all["before"] == pytest.approx(expected.global_gap)


def test_which_rows_took_part_in_the_fit_is_told(stored: Stored, tmp_path: Path) -> None:
    stored.people.with_columns(pl.col("p") * 0.99).write_csv(tmp_path / "new.csv")
    words = ("--policy", stored.policy, "--label", "y")
    for data, where, known, sentence in (
        (stored.data, ("--where", "part=test"), "none", "Optimistic"),
        (stored.data, ("--where", "part=calibration"), "all", "Optimistic: these people chose the policy."),
        (stored.data, (), "some", "Optimistic: some of these people chose the policy."),
        (stored.data, ("--where", "site=1"), "some", "Optimistic: some of these people chose the policy."),
        (tmp_path / "new.csv", ("--where", "part=calibration"), "another file", "Optimistic"),
    ):
        found = audited(data, *words, *where)
        assert (found["compared"]["rows_in_fit"], found["fitted_rows"]) == (known, known in ("all", "some"))
        assert (sentence in " ".join(run(data, *words, *where)[1].split())) == (known in ("all", "some"))


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
    assert _rows_in_fit(policy, here) == known
    assert _rows_in_fit(policy, replace(here, fingerprint="another")) == "another file"


def test_a_policy_that_does_not_tell_its_rows_is_said_to_be_so(stored: Stored, tmp_path: Path) -> None:
    policy = Policy.load(stored.policy)
    replace(policy, info=replace(policy.info, data=None)).save(tmp_path / "policy.json")
    found = audited(stored.data, "--policy", tmp_path / "policy.json")
    assert found["compared"]["rows_in_fit"] == "unknown"


def test_sites_are_judged_by_what_the_policy_requires(stored: Stored, tmp_path: Path) -> None:
    words = (stored.data, "--label", "y", "--where", "part=test")
    found = audited(*words, "--policy", stored.policy)["outcomes"]
    assert {each["limit"] for each in found if each["site"] is not None} == {0.02}
    assert {each["requirement"].partition(" <=")[0] for each in found} == {"selection rate gap"}
    own = audited(*words, "--policy", stored.other)["outcomes"]
    assert {(each["requirement"].partition(" <=")[0], each["limit"]) for each in own if each["site"]} == {
        ("equalized odds gap", 0.1)
    }


def test_a_bound_in_people_is_their_share_of_the_people_by_weight(stored: Stored) -> None:
    words = (stored.data, "--where", "part=test", "--label", "y", "--weight", "w", "--notion", "demographic_parity")
    required = ("--require", "accepted <= 150 people overall", "--local", "0")
    people = stored.rows("test")["w"].sum()
    for more in (
        ("--policy", stored.policy),
        ("--score", "p", "--scale", "percent", "--group", "sex", "--site", "site"),
    ):
        found = audited(*words, *more, *required)["outcomes"]
        assert {each["limit"] for each in found if each["site"]} == {0.0}
        (capacity,) = [each["limit"] for each in found if each["site"] is None]
        assert capacity == pytest.approx(150 / people)


def test_unknown_sites_take_the_merged_rule_and_are_counted(stored: Stored, tmp_path: Path) -> None:
    moved = stored.rows("test").with_columns(site=pl.when(site=3).then(7).otherwise("site"))
    moved.write_csv(tmp_path / "new.csv")
    words = (tmp_path / "new.csv", "--policy", stored.policy, "--label", "y")
    found, unknown = audited(*words), moved.filter(site=7).height
    assert found["compared"]["unknown_site_rows"] == unknown > 0
    expected = chances(stored.policy, moved, on_unknown="merged")
    assert found["accepted"]["value"] == pytest.approx(expected.mean())
    assert f"{unknown} people of sites that the policy does not know" in " ".join(run(*words)[1].split())
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
        calibrator=logofair.fit(
            [0.9, 0.1, 0.8, 0.2], None, sensitive_features=list("FMFM"), calibration="none"
        ).policy.calibrator,
        merged_rules=None,
        info=replace(policy.info, site="2", data=None),
    )
    site.save(tmp_path / "policy.json")
    words = ("--policy", tmp_path / "policy.json", "--label", "y")
    found = audited(tmp_path / "two.csv", *words)
    expected = site.probabilities(own["p"] / 100, sensitive_features=own["sex"].to_list())
    assert found["accepted"]["value"] == pytest.approx(expected.mean())
    sentence = refused(tmp_path / "all.csv", *words, "--site", "site")
    assert "policy.json is of site '2' alone, but there are rows of 1, 3; leave them out." in sentence


def test_a_policy_without_sites_is_audited_inside_those_of_the_data(stored: Stored, tmp_path: Path) -> None:
    rows = stored.rows("calibration")
    policy = logofair.fit(
        rows["p"] / 100, rows["y"], sensitive_features=rows["sex"].to_list(), calibration="platt"
    ).policy
    policy.save(tmp_path / "policy.json")
    names = ("--score", "p", "--scale", "percent", "--group", "sex", "--site", "site")
    found = audited(stored.data, "--policy", tmp_path / "policy.json", *names)
    assert [row["site"] for row in found["sites"]] == [1, 2, 3]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--against", "base", "--score", "p", "--group", "sex"],
            "--against: there is no policy to compare with; name one",
        ),
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
