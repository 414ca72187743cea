"""Policies that may not look at groups: what they bring to true gaps, what is proved of them, and what is refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import logofair
from logofair import InfeasibleError, InputError, Policy
from logofair.datasets import dirichlet_sites, load_adult, split


@dataclass(frozen=True)
class People:
    """Rows of two groups at three sites; ``probability`` is that of group "m"."""

    scores: Any
    labels: Any
    sex: Any
    site: Any
    probability: Any

    @classmethod
    def drawn(cls, n: int = 1500) -> People:
        rng = np.random.default_rng(0)
        sex, site = rng.choice(["f", "m"], n), rng.choice(["north", "south", "west"], n)
        score = 1.0 / (1.0 + np.exp(-rng.normal(size=n) - 0.8 * (sex == "m")))
        seen = 1.0 / (1.0 + np.exp(2.0 - 2.0 * (rng.normal(size=n) + 2.0 * (sex == "m"))))
        return cls(score, (rng.random(n) < score).astype(int), sex, site, seen)

    @property
    def table(self) -> dict[str, Any]:
        return {"m": self.probability, "f": 1.0 - self.probability}

    def fit(self, **given: Any) -> logofair.Solution:
        columns = {"sensitive_features": self.sex, "sites": self.site, "group_probabilities": self.table}
        asked = {"local_tolerance": 0.05, "global_tolerance": 0.02, "random_state": 0}
        if "require" in given:
            asked = {"random_state": 0}
        return logofair.fit(self.scores, self.labels, **(columns | asked | given))


@pytest.fixture(scope="module")
def people() -> People:
    return People.drawn()


@pytest.fixture(scope="module")
def known(people):
    return people.fit()


@pytest.fixture(scope="module")
def unknown(people):
    return people.fit(sensitive_features=None)


def test_true_groups_count_where_they_are_known_and_then_nothing_is_proved_of_other_rules(people, known):
    proof = known.certificate
    assert (proof.holds, proof.dual, proof.optimality_gap) == (None, None, None)
    assert proof.meets_requirements
    assert proof.basis == "labels"
    chance = known.policy.probabilities(people.scores, sites=people.site, group_probabilities=people.table)
    accepted = [chance[people.sex == group].mean() for group in ("f", "m")]
    assert abs(accepted[0] - accepted[1]) <= 0.02 + 1e-9
    right = np.where(people.labels == 1, chance, 1.0 - chance).mean()
    assert proof.primal == pytest.approx(right, abs=1e-12)
    assert {row.site: row.after for row in known.proved.where(state="met")}[None] <= 0.02 + 1e-9
    assert "not proved: rates count true groups" in known.certificate.summary()


def test_a_bound_on_rules_that_see_the_same_is_proved_where_rates_count_by_probability(people, unknown):
    proof = unknown.certificate
    assert proof.holds
    assert "No rule of score, group probabilities and site" in proof.summary()
    chance = unknown.policy.probabilities(people.scores, sites=people.site, group_probabilities=people.table)
    rates = [np.average(chance, weights=each) for each in people.table.values()]
    assert abs(rates[0] - rates[1]) <= 0.02 + 1e-9
    assert unknown.compared.second.global_gap == pytest.approx(abs(rates[0] - rates[1]), abs=1e-9)
    assert "Nobody's group was known" in unknown.summary()


def test_beside_what_is_not_proved_stands_the_bound_of_rules_whose_groups_are_counted_by_probability(
    people, known, unknown
):
    bound = known.as_dict()["bound_by_probability"]
    assert bound == pytest.approx(unknown.certificate.dual, abs=2e-6)
    assert f"is more accurate than {100 * bound:.2f} %" in " ".join(known.summary(verbose=True).split())
    assert people.fit(notion="equalized_odds").as_dict()["bound_by_probability"] is None
    assert unknown.as_dict()["bound_by_probability"] is None


@pytest.mark.parametrize("sees", ["known", "unknown"])
def test_a_stored_policy_decides_every_row_alike(sees, people, request, tmp_path):
    policy = request.getfixturevalue(sees).policy
    policy.save(tmp_path / "policy.json")
    again = Policy.load(tmp_path / "policy.json")
    rows = {"sites": people.site, "group_probabilities": people.table, "ids": np.arange(len(people.sex))}
    decided = policy.decide(people.scores, **rows)
    assert np.array_equal(again.decide(people.scores, **rows), decided)
    alone = [
        again.decide(
            people.scores[[i]],
            sites=people.site[[i]],
            group_probabilities={name: each[[i]] for name, each in people.table.items()},
            ids=[i],
        )[0]
        for i in range(100)
    ]
    assert np.array_equal(alone, decided[:100])
    assert again.merged is not None
    assert repr(again) == repr(policy)


def test_unknown_sites_take_the_merged_rule_or_the_base_rule(people, known):
    rows = {"sites": ["elsewhere"] * len(people.sex), "group_probabilities": people.table}
    merged = known.policy.probabilities(people.scores, on_unknown="merged", **rows)
    gap = merged[people.sex == "f"].mean() - merged[people.sex == "m"].mean()
    assert abs(gap) <= 0.02 + 1e-9
    base = known.policy.probabilities(people.scores, on_unknown="base", **rows)
    assert np.array_equal(base, people.scores >= 0.5)


def test_exact_counts_hold_at_every_site(people, known):
    rows = {"sites": people.site, "group_probabilities": people.table}
    chance = known.policy.probabilities(people.scores, **rows)
    decided = known.policy.decide(people.scores, **rows, random_state=1, exact_counts=True)
    for site in np.unique(people.site):
        here = people.site == site
        assert abs(decided[here].sum() - chance[here].sum()) < 1.0


def test_tables_of_every_kind_are_read_alike(people, known):
    chances = [
        known.policy.probabilities(people.scores, sites=people.site, group_probabilities=table)
        for table in (
            people.table,
            pd.DataFrame(people.table),
            pl.DataFrame(people.table),
            np.column_stack([people.table["f"], people.table["m"]]),
        )
    ]
    assert all(np.array_equal(chances[0], each) for each in chances[1:])


def test_rules_are_told_for_people_surely_of_a_group(people, known):
    row = next(iter(known.policy.rules))
    (edge,) = {band.raw_low for band in row.bands if band.chance == 1.0}
    at = {"sites": [row.site] * 2, "group_probabilities": {"f": [1.0, 1.0], "m": [0.0, 0.0]}}
    above, below = known.policy.probabilities([edge + 1e-9, row.bands[0].raw_high - 1e-6], **at)
    assert (above, below) == (1.0, 0.0)
    assert "No rule sees a group" in known.policy.summary()


def test_a_test_counts_true_groups_and_tells_how_far_probabilities_are_off(people, known):
    half = slice(0, 700)
    rows = {"sensitive_features": people.sex[half], "sites": people.site[half]}
    seen = {name: each[half] for name, each in people.table.items()}
    tested = known.test(people.scores[half], people.labels[half], **rows, group_probabilities=seen)
    chance = known.policy.probabilities(people.scores[half], sites=people.site[half], group_probabilities=seen)
    off = max(abs(np.average(chance, weights=seen[group]) - chance[people.sex[half] == group].mean()) for group in "fm")
    assert tested.as_dict()["off_by_probability"]["test rows"] == pytest.approx(off, abs=1e-12)
    assert "points on other people" in " ".join(tested.summary(verbose=True).split())
    audited = logofair.audit(
        None, people.labels[half], scores=people.scores[half], policy=known.policy, group_probabilities=seen, **rows
    )
    assert audited.global_gap == pytest.approx(tested.tested.second.global_gap)
    json.dumps(tested.as_dict())


def test_error_rates_counted_by_probability_are_compared_with_true_ones(people):
    solution = people.fit(notion="equal_opportunity")
    chance = solution.policy.probabilities(people.scores, sites=people.site, group_probabilities=people.table)
    true = {group: chance[(people.sex == group) & (people.labels == 1)].mean() for group in people.table}
    off = max(abs(np.average(chance, weights=seen * people.labels) - true[a]) for a, seen in people.table.items())
    assert solution.as_dict()["off_by_probability"] == {"calibration rows": pytest.approx(off, abs=1e-9)}


def test_costs_weights_and_requirements_of_other_forms_hold(people):
    weight = np.random.default_rng(1).integers(1, 4, len(people.sex)).astype(float)
    require = ["selection rate ratio >= 0.9 overall", "accepted <= 0.4 overall", "selection rate >= 0.3 at west"]
    solution = people.fit(require=require, costs=(1, 2), sample_weight=weight)
    assert solution.certificate.meets_requirements
    assert solution.certificate.objective == "cost"
    chance = solution.policy.probabilities(people.scores, sites=people.site, group_probabilities=people.table)
    cost = np.where(people.labels == 1, 2.0 * (1.0 - chance), chance)
    assert solution.certificate.primal == pytest.approx(np.average(cost, weights=weight))
    assert np.average(chance, weights=weight) <= 0.4 + 1e-8


def test_precision_and_losses_are_limited_in_true_groups_and_labels_and_measured_on_other_people(people):
    require = ["selection rate gap <= 0.1 per site", "selection rate gap <= 0.05 overall"]
    require += ["precision of f >= 0.68 overall", "accuracy loss <= 0.03 per site", "accuracy loss <= 0.08 overall"]
    solution, seen = people.fit(require=require), {"sites": people.site, "group_probabilities": people.table}
    assert solution.certificate.meets_requirements
    chance = solution.policy.probabilities(people.scores, **seen)
    women = people.sex == "f"
    precision = chance[women] @ people.labels[women] / chance[women].sum()
    (found,) = (each for each in solution.proved if each.requirement.measure == "precision")
    assert found.after == pytest.approx(precision)
    assert precision >= 0.68 - 1e-8
    inside = [each for each in solution.proved if each.requirement.is_loss_inside]
    alone = people.fit(require=require[0]).policy.probabilities(people.scores, **seen)
    lost = np.where(people.labels == 1, alone - chance, chance - alone)
    for each in inside:
        assert each.after == pytest.approx(lost[people.site == each.site].mean(), abs=1e-6)
        assert each.after <= 0.03 + 1e-8
    half = slice(0, 700)
    rows = {"sensitive_features": people.sex[half], "sites": people.site[half]}
    some = {name: each[half] for name, each in people.table.items()}
    tested = solution.test(people.scores[half], people.labels[half], **rows, group_probabilities=some).tested
    assert [each.after is None for each in tested.outcomes if each.requirement.is_loss_inside] == [False] * 3


def test_requirements_that_conflict_are_named(people):
    require = ["accepted <= 0.2 overall", "selection rate >= 0.3 overall", "selection rate gap <= 0.1 overall"]
    with pytest.raises(InfeasibleError) as error:
        people.fit(require=require)
    assert {str(item) for item in error.value.conflict} == set(require[:2])


REFUSED = [
    ({"group_probabilities": {"f": np.full(1500, 0.4), "m": np.full(1500, 0.6)}}, "all rows have the same"),
    ({"group_probabilities": {"f": np.full(1500, 0.4), "m": np.linspace(0, 1, 1500)}}, "row 0 sums to 0.4"),
    ({"group_probabilities": {"f": [np.nan] * 1500, "m": np.ones(1500)}}, "group_probabilities: column 'f'"),
    ({"group_probabilities": {"f": np.ones(1500), "x": np.zeros(1500)}}, "columns are 'f', 'x', but the groups are"),
    ({"group_probabilities": {"f": np.ones(1500)}}, "columns are 'f', but the groups are 'f', 'm'"),
    ({"group_probabilities": np.tile([-0.25, 1.25], (1500, 1))}, "row 0 has -0.25; probabilities are from 0 to 1"),
    ({"group_probabilities": {"sex": {"f": np.ones(1500)}, "race": {}}}, "'sex' holds a table, as if of one attribute"),
    ({"group_probabilities": {}}, "it has no columns, but the groups are 'f', 'm'"),
    ({"group_probabilities": np.ones((1500, 3)) / 3.0}, "got 3 columns for 2 groups"),
    ({"group_probabilities": {"f": [0.2, 0.3], "m": [0.8, 0.7]}}, "has 2 rows, but the first column has 1500"),
    ({"sensitive_features": ["f"] * 1500}, "but the groups are 'f'"),
    ({"confidence": 0.9}, "only thresholds of groups"),
    ({"pooling": "full"}, "no group can borrow"),
    ({"solver": "algorithm1"}, "thresholds are one for each group"),
    ({"sensitive_features": None, "notion": "equalized_odds"}, "counts by label"),
    ({"sensitive_features": None, "require": ["precision of f >= 0.6 overall"]}, "counts by label"),
    (
        {"require": ["selection rate gap <= 0.1 overall", "accuracy loss <= 0.01 overall"], "objective": "gap"},
        "its search needs a proof",
    ),
    ({"group_probabilities": None, "sensitive_features": None}, "sensitive_features: got None"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(given, sentence, people):
    with pytest.raises(InputError, match=sentence) as error:
        people.fit(**given)
    assert str(error.value).endswith(".")


def test_a_policy_takes_what_it_may_see_and_nothing_else(people, known):
    rows = {"sites": people.site}
    with pytest.raises(InputError, match="may not look at them"):
        known.policy.probabilities(people.scores, sensitive_features=people.sex, **rows)
    with pytest.raises(InputError, match="group_probabilities: missing"):
        known.policy.probabilities(people.scores, **rows)
    with pytest.raises(InputError, match="deterministic"):
        known.policy.decide(people.scores, group_probabilities=people.table, deterministic=True, **rows)
    with pytest.raises(InputError, match="a test counts true groups"):
        known.test(people.scores, people.labels, group_probabilities=people.table, sensitive_features=None, **rows)
    looking = logofair.fit(people.scores, people.labels, sensitive_features=people.sex)
    with pytest.raises(InputError, match="decides by the groups themselves"):
        looking.policy.probabilities(people.scores, sensitive_features=people.sex, group_probabilities=people.table)


def test_adult_becomes_fair_to_groups_that_no_rule_sees():
    adult, after = load_adult(), {"demographic_parity": [], "equalized_odds": []}
    unseen = [not name.startswith("sex=") for name in adult.feature_names]
    features = StandardScaler().fit_transform(adult.features[:, unseen])
    for seed in range(3):
        part = split(len(adult), {"train": 0.35, "calibration": 0.35, "test": 0.3}, rng=seed)
        train, site = part["train"], dirichlet_sites(adult.sensitive, n_sites=5, alpha=5, rng=seed)
        label, group = (
            LogisticRegression(max_iter=300).fit(features[train], wanted[train])
            for wanted in (adult.labels, adult.sensitive)
        )
        rows = {
            name: {
                "scores": label.predict_proba(features[at])[:, 1],
                "labels": adult.labels[at],
                "sensitive_features": adult.sensitive[at],
                "sites": site[at],
                "group_probabilities": dict(
                    zip(group.classes_.tolist(), group.predict_proba(features[at]).T, strict=True)
                ),
            }
            for name, at in part.items()
        }
        for notion, gaps in after.items():
            limits = {"notion": notion, "local_tolerance": None, "global_tolerance": 0.02}
            tested = logofair.fit(**rows["calibration"], **limits).test(**rows["test"]).tested
            gaps.append(tested.second.global_gap)
            if notion == "demographic_parity":
                assert tested.first.global_gap > 0.15
                assert tested.second.global_gap.low <= 0.02
    assert np.mean(after["demographic_parity"]) < 0.02
    assert np.mean(after["equalized_odds"]) < 0.05
