"""Fits of several attributes at once: rules for intersections, what is found by each attribute, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import logofair
from logofair import InfeasibleError, InputError
from logofair.federation import SiteColumns, make_plan
from logofair.federation.rows import site_rows
from logofair.outcomes import CALIBRATION_ROWS, MET, NEW_ROWS


def people(seed, n=3000):
    """Scores, labels, two attributes and sites of people whose scores differ by both attributes."""
    rng = np.random.default_rng(seed)
    sex, site = rng.choice(["women", "men"], n), rng.choice(["Bern", "Oslo"], n)
    race = rng.choice(["Black", "white", "Asian"], n, p=[0.2, 0.6, 0.2])
    score = np.clip(rng.beta(2, 2, n) + 0.15 * (sex == "men") - 0.1 * (race == "Black"), 0.0, 1.0)
    return score, (rng.random(n) < score).astype(int), pd.DataFrame({"sex": sex, "race": race}), site


@pytest.fixture(scope="module")
def fitted():
    score, label, groups, site = people(0)
    require = ["selection rate of women and Black >= 0.3 overall", "selection rate gap by all <= 0.2 overall"]
    return logofair.fit(
        score, label, sensitive_features=groups, sites=site, local_tolerance=0.05, global_tolerance=0.02,
        pooling="none", require=require, random_state=0,
    )  # fmt: skip


def gap(accepted, column):
    rates = [float(np.mean(accepted[column == value])) for value in np.unique(column)]
    return max(rates) - min(rates)


def test_gaps_by_each_attribute_are_within_their_limits_on_the_rows_themselves(fitted):
    score, _, groups, site = people(0)
    accepted = fitted.policy.probabilities(score, sensitive_features=groups, sites=site)
    assert fitted.certificate.holds
    for name in groups:
        column = groups[name].to_numpy()
        assert gap(accepted, column) <= 0.02 + 1e-9
        for where in np.unique(site):
            assert gap(accepted[site == where], column[site == where]) <= 0.05 + 1e-9
        asked = logofair.Requirement.parse(f"selection rate gap by {name} <= 0.02 overall")
        found = fitted.proved.where(requirement=asked)
        assert [each.after for each in found] == pytest.approx([gap(accepted, column)], abs=1e-9)
    assert gap(accepted, (groups.sex + groups.race).to_numpy()) <= 0.2 + 1e-9


def test_without_by_a_requirement_holds_for_each_attribute_by_itself(fitted):
    typed = [str(each) for each in fitted.requirements.items]
    assert typed == [
        "selection rate gap by sex <= 0.05 per site",
        "selection rate gap by race <= 0.05 per site",
        "selection rate gap by sex <= 0.02 overall",
        "selection rate gap by race <= 0.02 overall",
        "selection rate of women and Black >= 0.3 overall",
        "selection rate gap by all <= 0.2 overall",
    ]
    assert all(each.state == MET for each in fitted.outcomes.where(basis=CALIBRATION_ROWS))


def test_the_policy_finds_its_columns_by_name_and_comes_back_from_its_file(fitted, tmp_path):
    score, label, groups, site = people(1)
    fitted.policy.save(tmp_path / "policy.json")
    policy = logofair.Policy.load(tmp_path / "policy.json")
    assert policy.groups == fitted.policy.groups
    assert policy.groups[0].columns == ("sex", "race")
    asked = {"sites": site, "random_state": 3}
    first = fitted.policy.decide(score, sensitive_features=groups, **asked)
    turned = policy.decide(score, sensitive_features=groups[["race", "sex"]], **asked)
    assert np.array_equal(first, turned)
    tested = fitted.test(score, label, sensitive_features=groups[["race", "sex"]], sites=site).tested
    audited = logofair.audit(None, label, scores=score, policy=policy, sensitive_features=groups, sites=site)
    assert [each.after for each in audited.outcomes] == [each.after for each in tested.outcomes]
    chances = policy.probabilities(score, sensitive_features=groups, sites=site)
    by_race = logofair.Requirement.parse("selection rate gap by race <= 0.02 overall")
    (found,) = audited.outcomes.where(requirement=by_race)
    assert found.after == pytest.approx(gap(chances, groups.race.to_numpy()), abs=1e-12)
    assert set(found.groups) <= {"Black", "white", "Asian"}


def test_an_audit_compares_the_groups_of_each_attribute_with_each_other_alone():
    score, label, groups, site = people(2)
    found = logofair.audit(score >= 0.5, label, sensitive_features=groups, sites=site)
    assert [each.rate for each in found.global_gaps] == ["selection rate by sex", "selection rate by race"]
    for each, name in zip(found.global_gaps, groups, strict=True):
        assert float(each.value) == pytest.approx(gap(score >= 0.5, groups[name].to_numpy()))
    alone = logofair.audit(score >= 0.5, label, sensitive_features=groups.sex, sites=site)
    assert float(found.global_gaps[0].value) == float(alone.global_gap)
    assert found.accuracy.rows == alone.accuracy.rows
    compared = logofair.compare(score >= 0.6, score >= 0.5, label, sensitive_features=groups, sites=site)
    assert compared.second.global_gap == found.global_gap
    assert compared.global_gap.low <= float(compared.global_gap) <= compared.global_gap.high


def test_an_intersection_that_no_row_was_of_is_refused_or_takes_the_base_rule(fitted):
    row = {"sensitive_features": {"sex": ["women"], "race": ["Martian"]}, "sites": ["Oslo"]}
    with pytest.raises(InputError, match="'women and Martian', a group the policy does not know"):
        fitted.policy.decide([0.9], **row)
    assert fitted.policy.decide([0.9], on_unknown="base", **row).tolist() == [1]


def test_an_intersection_that_is_absent_from_a_site_takes_the_merged_rule_there():
    score, label, groups, site = people(3)
    kept = ~((groups.sex == "women") & (groups.race == "Asian") & (site == "Oslo")).to_numpy()
    found = logofair.fit(
        score[kept],
        label[kept],
        sensitive_features=groups[kept],
        sites=site[kept],
        global_tolerance=0.05,
        random_state=0,
    )
    row = {"sensitive_features": {"sex": ["women"] * 2, "race": ["Asian"] * 2}, "random_state": 1}
    known, strange = (
        found.policy.probabilities([0.3, 0.8], sensitive_features=row["sensitive_features"], sites=[where] * 2, **more)
        for where, more in (("Oslo", {}), ("Rome", {"on_unknown": "merged"}))
    )
    assert known.tolist() == pytest.approx(strange.tolist(), abs=0.2)
    assert any(each.kind == "no rows" for each in found.warnings)


def test_promises_of_unions_are_made_on_held_out_rows_and_those_of_intersections_by_rank():
    score, label, groups, site = people(4)
    columns = {"sensitive_features": groups, "sites": site, "confidence": 0.9, "random_state": 0}
    unions = logofair.fit(score, label, local_tolerance=None, global_tolerance=0.2, **columns)
    cells = logofair.fit(score, label, require="selection rate gap by all <= 0.3 overall", **columns)
    assert (unions.promises.method, cells.promises.method) == ("on rows held out", "by rank")
    assert {str(each.requirement) for each in unions.outcomes.where(basis=NEW_ROWS)} == {
        "selection rate gap by sex <= 0.2 overall",
        "selection rate gap by race <= 0.2 overall",
    }


def test_what_conflicts_is_named_by_attribute():
    score, label, groups, _ = people(5)
    require = ["selection rate gap by sex <= 0.05 overall", "selection rate of women >= 0.9 overall"]
    require += ["selection rate of men <= 0.5 overall"]
    with pytest.raises(InfeasibleError) as error:
        logofair.fit(score, label, sensitive_features=groups, require=require)
    assert {str(each) for each in error.value.conflict} == set(require)


def test_two_hundred_intersections_of_which_most_are_empty_simply_work():
    rng = np.random.default_rng(6)
    n = 2000
    first = rng.integers(0, 20, n)
    groups = {"one": first, "other": np.where(rng.random(n) < 0.5, first % 10, (first + 1) % 10)}
    score = rng.random(n)
    found = logofair.fit(score, None, sensitive_features=groups, calibration="none", pooling="none")
    assert len(found.policy.groups) == 40
    assert found.certificate.holds
    accepted = found.policy.probabilities(score, sensitive_features=groups)
    assert max(gap(accepted, column) for column in groups.values()) <= 0.02 + 1e-9


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"require": "selection rate gap by age <= 0.1 overall"},
            "names column 'age', which is not among .*use one of",
        ),
        ({"require": "selection rate of femal >= 0.1 overall"}, "names group 'femal', which has no rows; use one of"),
        ({"require": "selection rate of sex=white >= 0.1 overall"}, "'white', which has no rows in column 'sex'"),
        ({"require": "selection rate of women and men >= 0.1 overall"}, "nobody is 'women' and 'men'"),
        ({"solver": "algorithm1"}, "'algorithm1' compares the groups of one column"),
    ],
)
def test_what_cannot_be_meant_of_these_columns_is_refused_in_one_sentence(given, sentence):
    score, label, groups, _ = people(7, 300)
    with pytest.raises(InputError, match=sentence):
        logofair.fit(score, label, sensitive_features=groups, **given)


def test_a_federation_takes_the_groups_of_one_column():
    with pytest.raises(InputError, match="names a column, but a plan compares the groups of one"):
        make_plan(groups=["men", "women"], require="selection rate gap by sex <= 0.1 overall")
    plan = make_plan(groups=["men", "women"], calibration="none")
    columns = {"sex": ["women", "men"], "race": ["Black", "white"]}
    with pytest.raises(InputError, match="got 2 columns, but the groups known here are of one"):
        site_rows(SiteColumns(sensitive_features=columns, scores=[0.2, 0.8]), plan)


def test_a_value_of_two_columns_needs_its_column():
    score, label, groups, _ = people(8, 600)
    both = {"sex": groups.sex.replace("men", "unknown"), "race": groups.race.replace("Asian", "unknown")}
    with pytest.raises(InputError, match="'unknown' occurs in sex and race; write sex=unknown or race=unknown"):
        logofair.fit(score, label, sensitive_features=both, require="selection rate of unknown >= 0.1 overall")
    found = logofair.fit(score, label, sensitive_features=both, require="selection rate of sex=unknown >= 0.1 overall")
    assert found.certificate.holds


def test_a_single_column_may_be_named_in_requirements_and_need_not():
    score, label, groups, _ = people(9, 600)
    asked = "selection rate gap by sex <= 0.1 overall", "selection rate of sex=women >= 0.2 overall"
    named = logofair.fit(score, label, sensitive_features=groups.sex, require=asked, random_state=0)
    plain = logofair.fit(
        score, label, sensitive_features=groups.sex.to_numpy(), random_state=0,
        require=("selection rate gap <= 0.1 overall", "selection rate of women >= 0.2 overall"),
    )  # fmt: skip
    assert named.requirements.items == plain.requirements.items
    assert named.policy.checksum == plain.policy.checksum
    with pytest.raises(InputError, match=r"leave it out, or pass \{name: column\}"):
        logofair.fit(score, label, sensitive_features=groups.sex.to_numpy(), require=asked[0])


@pytest.mark.parametrize("kind", [pd.DataFrame, lambda frame: {name: frame[name] for name in frame}])
def test_the_estimator_takes_several_attributes(kind):
    score, label, groups, _ = people(10, 600)
    model = logofair.LoGoFairClassifier(LogisticRegression()).fit(
        score[:, None], label, sensitive_features=kind(groups)
    )
    assert [each.by for each in model.solution_.requirements.items] == [("sex",), ("race",)]
    decided = model.predict(score[:9, None], sensitive_features=groups[:9], ids=range(9))
    assert set(decided.tolist()) <= {0, 1}
