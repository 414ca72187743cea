"""The solution: what it says about itself, and about cells on which a requirement rests on little or nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import logofair
import support.sentences as asked
from logofair.notions import NOTIONS
from logofair.records import plain
from logofair.words.proof import proof_sentences
from support.examples import examples
from support.oracles import EVERY_NOTION, random_request, spelled_out

modest = examples(25)
seeds = st.integers(0, 10**9)


def rows(*cells):
    """Columns from (site, group, scores[, labels]) entries."""
    sites, groups, scores, labels = [], [], [], []
    for site, group, chosen, *answer in cells:
        sites += [site] * len(chosen)
        groups += [group] * len(chosen)
        scores += chosen
        labels += answer[0] if answer else [int(i % 2) for i in range(len(chosen))]
    return np.array(scores), np.array(labels), {"sensitive_features": np.array(groups), "sites": np.array(sites)}


def many(n=40, seed=0):
    return np.round(np.random.default_rng(seed).random(n), 3).tolist()


def fit(table, **options):
    scores, labels, columns = table
    return asked.fit(scores, labels, **{"calibration": "none", "pooling": "none", **columns, **options})


def about(solution, kind, *cells, **figures):
    """The warnings of a kind that name all the cells, and hold these figures."""
    of_kind = [w for w in solution.warnings if w.kind == kind and set(cells) <= set(w.cells)]
    return [w for w in of_kind if all(getattr(w, name) == value for name, value in figures.items())]


FULL = [
    ("north", "F", many(seed=1)),
    ("north", "M", many(seed=2)),
    ("south", "F", many(seed=3)),
    ("south", "M", many(seed=4)),
]


def test_large_cells_with_both_labels_are_not_warned_about():
    assert fit(rows(*FULL)).warnings == ()


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("calibration", ["none", "beta"])
def test_an_empty_cell_is_named_and_takes_the_merged_rule(notion, calibration):
    table = rows(*FULL[:3])
    solution = fit(table, notion=notion, calibration=calibration)
    (empty,) = about(solution, "no rows", ("south", "M"), thresholds=())
    assert str(empty) == "Nobody is there: M at south; the group's rule over all sites applies."
    assert about(solution, "unmeasured gap", ("south", None))
    assert solution.certificate.holds
    grid = np.linspace(0, 1, 21)
    known = {"sensitive_features": ["M"] * 21}
    here = solution.policy.probabilities(grid, **known, sites=["south"] * 21)
    merged = solution.policy.probabilities(grid, **known, sites=["west"] * 21, on_unknown="merged")
    np.testing.assert_allclose(here, merged)


@pytest.fixture
def no_merged_rule(monkeypatch):
    monkeypatch.setattr("logofair.fitting.solving.merged_rules", lambda *_: None)


@pytest.mark.usefixtures("no_merged_rule")
def test_an_empty_cell_takes_the_base_rule_where_there_is_no_merged_rule():
    solution = fit(rows(*FULL[:3]))
    (empty,) = about(solution, "no rows", ("south", "M"), thresholds=(0.5,))
    assert str(empty) == "Nobody is there: M at south; a score of 0.5 accepts."
    decided = solution.policy.probabilities([0.49, 0.5], sensitive_features=["M", "M"], sites=["south", "south"])
    assert decided.tolist() == [0, 1]


@pytest.mark.usefixtures("no_merged_rule")
@pytest.mark.parametrize(
    ("costs", "threshold", "thresholds", "said"),
    [
        ((1, 3), 0.25, (0.25,), "a score of 0.25 accepts"),
        (
            {"north": (1, 3), "south": (2, 0.5)},
            0.8,
            (0.25, 0.8),
            "each site accepts from the score at which its costs break even",
        ),
    ],
)
def test_an_empty_cell_is_decided_at_its_sites_costs_where_there_is_no_merged_rule(costs, threshold, thresholds, said):
    table = rows(*FULL[:3])
    for more in ({}, {"confidence": 0.9}):
        solution = fit(table, costs=costs, **more)
        (empty,) = about(solution, "no rows", ("south", "M"), thresholds=thresholds)
        assert str(empty) == f"Nobody is there: M at south; {said}."
        near = [threshold - 0.01, threshold]
        decided = solution.policy.probabilities(near, sensitive_features=["M", "M"], sites=["south", "south"])
        assert decided.tolist() == [0, 1]


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("calibration", ["none", "beta", "isotonic"])
def test_a_cell_of_one_row_is_named(notion, calibration):
    solution = fit(rows(*FULL[:3], ("south", "M", [0.7], [1])), notion=notion, calibration=calibration)
    assert about(solution, "one row", ("south", "M"))
    assert solution.certificate.holds


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("basis", ["eta", "labels"])
@pytest.mark.parametrize("notion", NOTIONS)
def test_a_cell_of_one_label_is_named(label, basis, notion):
    table = rows(*FULL[:3], ("south", "M", many(seed=9), [label] * 40))
    solution = fit(table, notion=notion, basis=basis)
    assert about(solution, "one label", ("south", "M"))
    assert solution.certificate.holds


def test_with_labels_a_rate_of_nobody_is_said_to_be_unmeasured():
    table = rows(*FULL[:3], ("south", "M", many(seed=9), [0] * 40))
    solution = fit(table, notion="equalized_odds", basis="labels")
    assert about(solution, "unmeasured gap", ("south", None), rate="true positive rate")
    assert not about(solution, "unmeasured gap", rate="false positive rate")


def test_a_third_group_whose_rate_nobody_counts_in_is_said_to_be_left_out():
    extra = [("north", "X", many(seed=7)), ("south", "X", many(seed=8), [0] * 40)]
    solution = fit(rows(*FULL, *extra), notion="equal_opportunity", basis="labels")
    assert about(solution, "group left out", ("south", "X"), rate="true positive rate")
    assert not about(solution, "unmeasured gap")


def test_a_group_without_a_global_rate_is_said_to_be_left_out_or_unmeasured():
    zero = [0.0] * 40
    three = rows(*FULL, ("north", "X", zero, [0] * 40), ("south", "X", zero, [0] * 40))
    solution = fit(three, notion="equal_opportunity", global_tolerance=0.02)
    assert about(solution, "group left out", (None, "X"), rate="true positive rate")
    two = rows(("north", "F", many()), ("south", "F", many()), ("north", "M", zero, [0] * 40))
    solution = fit(two, notion="equal_opportunity", global_tolerance=0.02)
    (blind,) = about(solution, "unmeasured gap", (None, None))
    assert str(blind) == (
        "Fewer than two groups to compare, so that the gap in true positive rate is not measured: over all."
    )


def test_one_site_that_cannot_be_measured_is_never_silently_fair():
    scores, _, columns = rows(("all", "F", many()), ("all", "M", [0.0] * 40))
    solution = asked.fit(
        scores, None, sensitive_features=columns["sensitive_features"], notion="equal_opportunity", calibration="none"
    )
    assert about(solution, "unmeasured gap", rate="true positive rate")


def test_few_rows_are_named():
    solution = fit(rows(*FULL[:3], ("south", "M", many(29))))
    assert about(solution, "few rows", ("south", "M"))
    assert not fit(rows(*FULL[:3], ("south", "M", many(30)))).warnings


def test_rows_of_weight_zero_do_not_count_as_rows():
    scores, labels, columns = rows(*FULL)
    inside = (columns["sensitive_features"] == "M") & (columns["sites"] == "south")
    for kept, kind in ((0, "no weight"), (1, "one row"), (5, "few rows")):
        weight = np.where(inside & (np.cumsum(inside) > kept), 0.0, 1.0)
        solution = fit((scores, labels, columns), sample_weight=weight)
        assert about(solution, kind, ("south", "M")), solution.warnings
        case = spelled_out(scores, {**columns, "sample_weight": weight})
        assert solution.certificate.primal == pytest.approx(case.best_rows()[0], abs=1e-6)


def test_a_group_all_of_whose_rows_weigh_nothing_is_never_silently_fair():
    scores, labels, columns = rows(*FULL)
    solution = fit((scores, labels, columns), sample_weight=np.where(columns["sensitive_features"] == "F", 1.0, 0.0))
    assert about(solution, "no weight", ("north", "M"))
    assert about(solution, "unmeasured gap", (None, None), rate="selection rate")
    assert about(solution, "unmeasured gap", ("north", None), ("south", None), rate="selection rate")


def test_a_site_set_free_is_not_warned_about():
    solution = fit(rows(*FULL[:3]), site_tolerances={"south": None})
    assert not about(solution, "unmeasured gap")


def test_long_lists_are_cut_and_counted():
    cells = [(site, group, many(40, site)) for site in range(25) for group in "FM"][:-25]
    cells += [(site, group, [0.3]) for site in range(30, 55) for group in "F"]
    solution = fit(rows(*cells))
    (one_row,) = about(solution, "one row", count=25)
    assert str(one_row) == "One person only: F at 30, F at 31, F at 32 and 22 more."
    assert len(one_row.cells) == 20


@modest
@given(seeds)
def test_every_empty_or_single_cell_is_counted_in_the_warnings(seed):
    rng = np.random.default_rng(seed)
    request = random_request(rng, rows=int(rng.integers(3, 25)))
    solution = asked.fit(request.scores, None, **request.arguments)
    weights = request.arguments["sample_weight"]
    counted = np.ones(request.scores.size, dtype=bool) if weights is None else weights > 0
    size = np.zeros((request.case.n_sites, request.case.n_groups), dtype=int)
    np.add.at(size, (request.case.sites[counted], request.case.groups[counted]), 1)
    for kinds, expected in ((("no rows", "no weight"), size == 0), (("one row",), size == 1)):
        assert sum(w.count for w in solution.warnings if w.kind in kinds) == expected.sum()


# --- what it says


@pytest.mark.parametrize("notion", EVERY_NOTION)
def test_what_is_told_of_the_calibration_rows_is_what_the_certificate_counts(notion):
    table = scores, labels, columns = rows(*FULL)
    solution = fit(table, notion=EVERY_NOTION[notion], basis="labels")
    chance = solution.policy.probabilities(scores, **columns)
    tight = {**columns, "notion": EVERY_NOTION[notion], "local_tolerance": 0, "global_tolerance": 0}
    case = replace(spelled_out(scores, tight), labels=labels.astype(float))
    gaps, found = case.gaps(chance), solution.compared.second
    assert found.accuracy == pytest.approx(case.accuracy(chance), abs=1e-9)
    assert found.accuracy == pytest.approx(solution.certificate.primal, abs=1e-9)
    assert found.global_gap == pytest.approx(max(g.value for g in gaps if g.site is None), abs=1e-9)
    assert found.local_gap == pytest.approx(max(g.value for g in gaps if g.site is not None), abs=1e-9)
    assert found.fitted_rows


def test_without_labels_rates_are_expected_ones():
    scores, _, columns = rows(*FULL)
    solution = fit((scores, None, columns), notion="equal_opportunity")
    assert solution.compared.second.accuracy == pytest.approx(solution.certificate.primal, abs=1e-9)
    (over_all,) = solution.proved.where(site=None)
    chance = solution.policy.probabilities(scores, **columns)
    case = spelled_out(scores, {**columns, "notion": "equal_opportunity", "local_tolerance": 0, "global_tolerance": 0})
    assert over_all.after == pytest.approx(max(g.value for g in case.gaps(chance) if g.site is None), abs=1e-9)


@modest
@given(seeds)
def test_the_deterministic_figures_are_those_of_deterministic_decisions(seed):
    request = random_request(np.random.default_rng(seed))
    solution = asked.fit(request.scores, None, **request.arguments)
    columns = {name: request.arguments[name] for name in ("sensitive_features", "sites")}
    decided = solution.policy.decide(request.scores, **columns, deterministic=True).astype(float)
    accuracy, violation = solution.deterministic
    assert accuracy == pytest.approx(request.case.accuracy(decided), abs=1e-9)
    assert violation == pytest.approx(request.case.violation(decided), abs=1e-9)


def test_without_coins_nothing_is_said_of_whom_they_decide_on():
    free = fit(rows(*FULL), local_tolerance=None, global_tolerance=None)
    assert not free.policy.mixtures.mixed.any()
    exact = replace(free.certificate.info, optimality_gap=0.0)
    assert "(optimality gap 0)" in " ".join(proof_sentences(exact, rows="these rows"))


def test_a_solution_says_how_many_are_decided_by_a_coin_and_how_many_rules_ignore_the_score():
    # Half of the rows of "b" are wanted, of which there are two of one score; "c" is below every threshold.
    scores, groups = [0.9, 0.1, 0.6, 0.6, 0.2, 0.2], ["a", "a", "b", "b", "c", "c"]
    solution = asked.fit(
        scores,
        None,
        sensitive_features=groups,
        local_tolerance=0,
        global_tolerance=0,
        calibration="none",
        sample_weight=[1.0] * 6,
    )
    chance = solution.policy.probabilities(scores, sensitive_features=groups)
    assert chance.tolist() == pytest.approx([1, 0, 0.5, 0.5, 0.5, 0.5])
    info = solution.policy.info
    assert info.coin_share == pytest.approx(4 / 6)
    assert info.score_blind_rules == 2
    assert solution.as_dict()["coin_share"] == info.coin_share
    assert solution.as_dict()["score_blind_rules"] == 2


@pytest.mark.parametrize("tolerances", [(0.05, None), (None, 0.05), (0.05, 0.1), (0.2, 0.05)])
def test_without_sites_there_is_one_requirement_and_no_site_is_spoken_of(tolerances):
    rng = np.random.default_rng(0)
    scores, groups = rng.random(200), rng.choice(["F", "M"], 200)
    local, global_ = tolerances
    solution = logofair.fit(
        scores, rng.random(200) < scores, sensitive_features=groups, local_tolerance=local, global_tolerance=global_
    )
    assert list(map(str, solution.policy.info.requirements.require)) == ["selection rate gap <= 0.05 overall"]


def test_rows_that_took_no_part_come_first_or_it_is_said_that_there_are_none():
    scores, labels, columns = rows(*FULL)
    solution = fit((scores, labels, columns), pooling="none")
    tested = solution.test(scores[::2], labels[::2], **{name: column[::2] for name, column in columns.items()})
    assert tested.compared == solution.compared or tested.compared.accuracy == solution.compared.accuracy


def test_what_is_proved_names_the_rules_that_are_meant():
    def said(**options):
        solution = fit(rows(*FULL), **options)
        return " ".join(proof_sentences(solution.certificate.info, rows="these rows", solver=solution.solver))

    assert "counted by predicted probabilities: every limit holds" in said(calibration="beta")
    assert "No rule of score, group and site that keeps the limits is more accurate" in said(calibration="beta")
    labels = said(basis="labels")
    assert "counted by labels" in labels
    assert "No rule of weighted thresholds of the score that keeps the limits" in labels
    assert "No rule of score, group and site" not in labels
    paper = said(solver="algorithm1", local_tolerance=0.001)
    assert "Algorithm 1 proves nothing" in paper
    assert "optimality gap" not in paper
    assert (
        "No rule of weighted thresholds of the score that keeps"
        in fit(rows(*FULL), basis="labels").certificate.summary()
    )


def test_the_check_of_sites_judges_each_by_its_own_tolerance():
    rng = np.random.default_rng(0)
    n = 6000
    scores, site = rng.random(n), rng.choice(["east", "north", "south"], n)
    labels, groups = (rng.random(n) < scores).astype(int), rng.choice(["F", "M"], n)
    half = np.arange(n) < n // 2
    options = {"local_tolerance": 0.3, "global_tolerance": None, "site_tolerances": {"north": None, "south": 0.2}}
    solution = asked.fit(scores[half], labels[half], sensitive_features=groups[half], sites=site[half], **options)
    other = {"sensitive_features": groups[~half], "sites": np.where(site[~half] == "east", "west", site[~half])}
    tested = solution.test(scores[~half], labels[~half], **other)
    inside = [each.site for each in tested.tested.outcomes]
    assert sorted(inside) == ["east", "south"] if "east" in other["sites"] else inside == ["south"]
    assert tested.as_dict()["tested"]["unknown"]["sites"] == ["west"]
    free = asked.fit(
        scores[half], labels[half], sensitive_features=groups[half], sites=site[half], local_tolerance=None
    )
    found = free.test(scores[~half], labels[~half], sensitive_features=groups[~half], sites=site[~half])
    assert not found.tested.outcomes


def test_with_one_site_nothing_is_said_of_sites():
    scores, labels, columns = rows(*FULL)
    solution = asked.fit(scores, labels, sensitive_features=columns["sensitive_features"])
    solution = solution.test(scores[::2], labels[::2], sensitive_features=columns["sensitive_features"][::2])
    assert solution.as_dict()["tested"]["by_site"] == []
    assert {each.site for each in solution.outcomes} == {None}


def test_the_very_rows_that_were_fitted_on_are_no_test_in_whatever_order():
    scores, labels, columns = rows(*FULL)
    solution = fit((scores, labels, columns))
    order = np.random.default_rng(0).permutation(scores.size)
    for at in (np.arange(scores.size), order):
        there = {name: column[at] for name, column in columns.items()}
        with pytest.raises(logofair.InputError, match=r"^scores: the 160 rows are those that the policy was"):
            solution.test(scores[at], labels[at], **there)
    again = solution.test(scores, 1 - labels, **columns)
    assert again.tested.second.accuracy.rows == 160


def test_a_policy_knows_its_test_and_an_old_one_that_it_had_none(tmp_path):
    scores, labels, columns = rows(*FULL)
    solution = fit((scores, labels, columns))
    tested = solution.test(scores[::2], labels[::2], **{name: column[::2] for name, column in columns.items()})
    assert solution.policy.info.tested is None
    tested.policy.save(tmp_path / "policy.json")
    info, after = logofair.Policy.load(tmp_path / "policy.json").info.tested, tested.tested.second
    assert info == tested.policy.info.tested
    assert info.rows == 80 == after.accuracy.rows


def test_a_test_counts_whatever_was_looked_at_before_it():
    scores, labels, columns = rows(*FULL)
    solution = fit((scores, labels, columns))
    assert not solution.outcomes.where(basis="test rows")
    tested = solution.test(scores[::2], labels[::2], **{name: column[::2] for name, column in columns.items()})
    assert tested.outcomes.where(basis="test rows") == tested.tested.outcomes


def test_of_many_cells_three_are_named_and_the_others_counted():
    cells = [(site, group, [0.3, 0.6]) for site in range(30) for group in "FM"]
    (few, *_) = (w for w in fit(rows(*cells)).warnings if w.kind == "few rows")
    said = "Fewer than 30 people, so that rates are mostly chance: F at 0, M at 0, F at 1 and 57 more."
    assert str(few) == said
    assert said in fit(rows(*cells)).policy.info.warnings


def test_its_repr_is_one_line_with_the_figures():
    solution = fit(rows(*FULL))
    assert repr(solution).startswith(f"Solution(accuracy={solution.certificate.primal:.4f}, optimality_gap=")
    assert "solver='exact'" in repr(solution)


def test_a_warning_says_its_kind_and_the_cells_concerned():
    found = {warning.kind: warning for warning in fit(rows(*FULL[:3], ("south", "M", [0.7], [1]))).warnings}
    assert set(found) == {"one row"}
    assert (found["one row"].cells, found["one row"].count) == ((("south", "M"),), 1)
    assert str(found["one row"]) == "One person only: M at south."
    empty = {warning.kind: warning for warning in fit(rows(*FULL[:3])).warnings}
    assert empty["unmeasured gap"].cells == (("south", None),)
    assert empty["no rows"].cells == (("south", "M"),)


def test_without_sites_a_warning_names_none():
    scores, labels, columns = rows(*FULL[:1], ("north", "M", [0.7, 0.2], [1, 0]))
    (warning,) = asked.fit(
        scores, labels, sensitive_features=columns["sensitive_features"], calibration="none"
    ).warnings
    assert (warning.kind, warning.cells) == ("few rows", ((None, "M"),))


def test_its_plain_values_are_ready_for_json():
    solution = fit(rows(*FULL[:3], ("south", "M", [0.7], [1])), calibration="beta")
    found = json.loads(json.dumps(solution.as_dict(), allow_nan=False))
    assert found["certificate"]["primal"] == solution.certificate.primal
    assert found["certificate"]["holds"] is True
    assert found["rows"] == 121
    assert found["tested"] is None
    assert found["calibration"]["accuracy"]["after"]["value"] == solution.compared.second.accuracy
    assert found["calibration"]["fitted_rows"] is True
    assert found["calibration"]["rates"]["selection rate"]["F"]["before"].keys() == {"value", "low", "high", "rows"}
    assert list(found["calibration"]).index("rates") < list(found["calibration"]).index("accuracy")
    assert found["requirements"] == plain(solution.requirements.info)
    assert [warning["sentence"] for warning in found["warnings"]] == list(map(str, solution.warnings))


def test_counted_with_labels_it_measures_itself_as_an_audit_of_its_decisions_would():
    for columns in ({}, {"sites": None}):
        scores, labels, given = rows(*FULL)
        given |= columns
        solution = fit((scores, labels, given), notion="equalized_odds", basis="labels")
        chance = solution.policy.probabilities(scores, **given)
        found = asked.audit(chance, labels, **given, notion="equalized_odds", chances=True)
        second = solution.compared.second
        assert second.rates == {rate: pytest.approx(row) for rate, row in found.rates.items()}
        assert [gap.value for gap in second.local_gaps] == pytest.approx([gap.value for gap in found.local_gaps])
        assert [gap.value.high for gap in second.local_gaps] == pytest.approx([g.value.high for g in found.local_gaps])


def test_a_rate_that_next_to_nobody_counts_in_is_undefined_for_the_certificate_and_for_the_outcomes():
    scores = [0.9, 0.8, 0.3, 0.2, 0.0, 1e-6, 0.0, 0.0]
    rows = {"sensitive_features": list("aaaabbbb"), "calibration": "none"}
    solution = logofair.fit(scores, None, **rows, require="true positive rate gap <= 0.05 overall")
    assert solution.certificate.holds
    (found,) = solution.outcomes
    assert (found.state, found.after) == ("not measured", None)
