"""The kept problem: what it answers is what ``fit`` finds, cold, whatever was asked before."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import logofair
from logofair.errors import InputError
from logofair.requirement import Requirement
from logofair.studio.session import Session, Setting, Threshold
from support.studio import START, columns, session

SETTINGS = [
    Setting(local=0.05, overall=0.02),
    Setting(local=0.02, overall=0.0),
    Setting(notion="equalized_odds", local=0.1, overall=0.05),
    Setting(notion="equal_opportunity", local=None, overall=0.01),
    Setting(local=0.05, overall=None, costs=(1.0, 3.0)),
    Setting(require=("selection rate ratio >= 0.8 per site", "accepted <= 1000 people overall")),
    Setting(overall=0.05, require=("selection rate of women >= today overall", "precision of everyone >= 0.4 overall")),
    Setting(
        require=(
            'selection rate gap <= 0.1 per site except "branch 0002"',
            'selection rate gap <= 0.01 at "branch 0002"',
        )
    ),
    Setting(overall=0.02, require=("accuracy loss <= 0.02 overall",)),
]


def assert_same(live, cold):
    assert live.certificate.primal == pytest.approx(cold.certificate.primal, abs=1e-6)
    assert live.certificate.holds
    for one, other in zip(live.outcomes, cold.outcomes, strict=True):
        assert (one.requirement, one.site, one.basis, one.rows) == (
            other.requirement,
            other.site,
            other.basis,
            other.rows,
        )
        assert one.limit == pytest.approx(other.limit, abs=1e-9)
        assert one.before == pytest.approx(other.before, abs=1e-9)


def test_live_figures_are_those_of_fit_whatever_was_asked_before():
    live = session()
    for setting in (*SETTINGS, *reversed(SETTINGS)):
        asked = live.arguments(setting)
        cold = logofair.fit(**columns(), **asked, random_state=0).test(**columns(seed=1))
        assert_same(live.solved(setting).solution, cold)
    assert_same(live.solved(START).solution, live.fitted(START).solution)


def test_where_the_optimum_is_unique_test_rows_are_measured_as_fit_measures_them():
    live = session()
    hot, cold = live.solved(START).solution, live.fitted(START).solution
    for one, other in zip(hot.outcomes.where(basis="test rows"), cold.outcomes.where(basis="test rows"), strict=True):
        for name in ("after", "low", "high"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-6)
    found, tested = live.solved(START).compared, cold.tested
    assert float(found.accuracy) == pytest.approx(float(tested.accuracy), abs=1e-6)
    assert found.accuracy.low == pytest.approx(tested.accuracy.low, abs=1e-6)


@pytest.mark.parametrize("tested", [True, False])
@pytest.mark.parametrize("setting", [START, SETTINGS[2], SETTINGS[4]])
def test_who_changes_side_is_counted_as_row_by_row(tested, setting):
    live = session(tested=tested)
    found = live.solved(setting)
    policy, rows = found.solution.policy, columns(seed=1 if tested else 0)
    at = {"sensitive_features": rows["sensitive_features"], "sites": rows["sites"]}
    if tested:
        change = np.abs(policy.probabilities(rows["scores"], **at) - policy.unconstrained(rows["scores"], **at))
        number = (found.changed * found.compared.second.local.tally.rows.sum(axis=-1)).sum()
        assert number == pytest.approx(change.sum(), abs=1e-6)
        assert number == pytest.approx(found.compared.changed * rows["scores"].size, abs=1e-6)
    else:  # on cells that borrow: no fewer than the net change of every cell, and no more than everybody
        before, after = (each.local.tally for each in (found.compared.first, found.compared.second))
        net = np.abs((after.accepted - before.accepted).sum(axis=-1)) / after.mass.sum(axis=-1)
        assert (found.changed >= net - 1e-9).all()
        assert (found.changed <= 1.0).all()


def test_a_rule_made_by_hand_is_measured_and_never_better_than_the_optimum_within_the_limits():
    live = session(tested=False)
    best = live.solved(START)
    own = tuple(
        Threshold(site=site, group=group, score=score)
        for site in live.sites
        for group, score in (("women", 0.45), ("men", 0.55))
    )
    made = live.by_hand(best, own)
    rows, policy = columns(), made.solution.policy
    at = {"sensitive_features": rows["sensitive_features"], "sites": rows["sites"]}
    accepted = policy.probabilities(rows["scores"], **at)
    wanted = rows["scores"] >= np.where(rows["sensitive_features"] == "women", 0.45, 0.55)
    assert np.array_equal(accepted, wanted.astype(float))
    assert (
        made.solution.certificate.violation > 0.0
        or made.solution.certificate.primal <= best.solution.certificate.primal
    )
    assert live.by_hand(best, ()).solution.certificate.primal == pytest.approx(
        best.solution.certificate.primal, abs=1e-12
    )


def test_the_frontier_falls_with_the_limit_and_ends_where_nothing_is_required():
    live = session(tested=False)
    points = [(limit, found.solution.certificate.primal) for limit, found in live.frontier(START, "overall")]
    limits, values = map(list, zip(*points, strict=True))
    assert limits == sorted(limits, reverse=True)
    assert all(one >= other - 1e-9 for one, other in pairwise(values))
    free = live.solved(replace(START, overall=None)).solution.certificate.primal
    assert values[0] == pytest.approx(free, abs=1e-9)


def test_sites_unknown_to_the_fit_take_the_merged_rule_on_test_rows():
    rows, test = columns(), columns(seed=1)
    test["sites"] = np.where(test["sites"] == "branch 0000", "elsewhere", test["sites"])
    live = session()
    live = type(live)(rows, {}, START, 0, test)
    cold = logofair.fit(**rows, **live.arguments(START), random_state=0).test(**test)
    assert_same(live.solved(START).solution, cold)
    assert float(live.solved(START).compared.accuracy) == pytest.approx(float(cold.tested.accuracy), abs=1e-6)


def test_a_solver_is_kept_while_the_limits_inside_sites_stay():
    live = session()
    for overall in (0.05, 0.02, 0.01):
        live.solved(replace(START, overall=overall))
    (solver,) = live._solvers.values()
    assert len(solver.answers) > 0
    live.solved(replace(START, local=0.04))
    assert len(live._solvers) == 2


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (Setting(notion="parity"), "notion: got 'parity'"),
        (Setting(require=("selection rate of children >= 0.2 overall",)), "'children'"),
        (Setting(overall=2.0), "global_tolerance: got 2"),
        (Setting(costs=(0.0, 0.0)), "both errors cost 0"),
    ],
)
def test_what_cannot_be_required_is_one_sentence(setting, words):
    with pytest.raises(InputError, match=words):
        session().solved(setting)


def test_of_one_site_the_smaller_tolerance_holds_and_is_the_one_there_is():
    rows = columns()
    del rows["sites"]
    live = Session(rows, {}, Setting(local=0.05, overall=0.1), 0)
    assert (live.start.local, live.start.overall) == (None, 0.05)
    for overall in (0.05, 0.08):
        cold = logofair.fit(**rows, global_tolerance=overall, random_state=0)
        found = live.solved(replace(live.start, overall=overall)).solution
        assert found.certificate.primal == pytest.approx(cold.certificate.primal, abs=1e-6)


def test_without_a_random_state_one_is_drawn_and_stated():
    made = [type(session())(columns(), {}, START).random_state for _ in range(2)]
    assert made[0] != made[1]


def test_the_notion_compares_the_groups_of_one_of_several_attributes_by_a_sentence():
    try:
        Requirement.parse("selection rate gap by sex <= 0.02 overall")
    except InputError:
        pytest.skip("fit takes one sensitive attribute")
    rows = columns()
    race = np.random.default_rng(5).choice(["left", "right"], rows["scores"].size)
    rows["sensitive_features"] = {"sex": rows["sensitive_features"], "race": race}
    live = Session(rows, {}, START, 0)
    setting = Setting(local=None, overall=0.02, by="sex")
    sentence = "selection rate gap by sex <= 0.02 overall"
    assert [str(item) for item in live.arguments(setting)["require"]] == [sentence]
    cold = logofair.fit(**rows, require=[sentence], random_state=0)
    assert live.solved(setting).solution.certificate.primal == pytest.approx(cold.certificate.primal, abs=1e-6)
