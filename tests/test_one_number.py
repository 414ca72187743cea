"""One number for one thing: whatever a door says of a requirement stands in the table of outcomes."""

from __future__ import annotations

import numpy as np
import pytest

import logofair
from logofair.outcomes import CALIBRATION_ROWS, TEST_ROWS

NOTIONS = ("demographic_parity", "equalized_odds")


@pytest.fixture(scope="module", params=NOTIONS)
def case(request):
    """A solution that was tested on other rows, these rows, and the arguments of its fit."""
    rng = np.random.default_rng(11)
    n = 3000
    sex = np.array(["women", "men"])[rng.integers(0, 2, n)]
    site = np.array(["Oslo", "Lyon", "Bern", "Zürich"])[rng.choice(4, n, p=[0.45, 0.35, 0.19, 0.01])]
    score = rng.beta(1 + (sex == "men"), 2)
    label = rng.random(n) < score
    half = n // 2
    first, second = ({"groups": sex[part], "sites": site[part]} for part in (slice(half), slice(half, n)))
    given = {"notion": request.param, "local_tolerance": 0.05, "global_tolerance": 0.02, "random_state": 0}
    solution = logofair.fit(score[:half], label[:half], **first, **given)
    rows = {"scores": score[half:], "labels": label[half:], **second}
    return solution.test(**rows), rows, {"scores": score[:half], "labels": label[:half], **first}, given


def test_an_audit_of_the_policy_finds_what_the_test_found(case):
    solution, rows, _, given = case
    found = logofair.audit(None, **rows, policy=solution.policy, notion=given["notion"]).outcomes
    tested = solution.outcomes.on(TEST_ROWS)
    assert found == tested


def test_the_gaps_of_an_audit_are_those_of_its_outcomes(case):
    solution, *_ = case
    audit = solution.tested.second
    for side, outcomes in ((audit.local, [e for e in audit.outcomes if e.site]), (audit.global_, audit.outcomes[-1:])):
        for each in outcomes:
            place = side.sites.index(each.site)
            own = [side.gap(k, place) for k in range(len(side.rates))]
            own = [gap for gap in own if gap.value is not None]
            worst = max(own, key=lambda gap: gap.value)
            assert (worst.value, worst.rate) == (each.after, each.rate)
            assert max(gap.value.low for gap in own) == each.low
            assert max(gap.value.high for gap in own) == each.high


def test_a_policy_tells_what_its_solution_knows_and_so_does_its_file(case, tmp_path):
    solution, *_ = case
    stored = solution.policy.info.outcomes
    assert stored == solution.outcomes
    assert stored.verdict == solution.outcomes.verdict
    solution.policy.save(tmp_path / "policy.json")
    assert logofair.Policy.load(tmp_path / "policy.json").info.outcomes == stored


def test_before_is_the_unconstrained_rule_and_the_frontier_starts_there(case):
    solution, _, columns, given = case
    grid = {"local_tolerances": [0.05], "global_tolerances": [0.02, None]}
    named = {name: given[name] for name in ("notion", "random_state")}
    surface = logofair.frontier(**columns, **grid, **named)
    point, free, compared = surface.at(0.05, 0.02), surface.unconstrained, solution.compared
    assert compared.first.accuracy == pytest.approx(free.value, abs=1e-9)
    assert compared.second.accuracy == pytest.approx(solution.certificate.primal, abs=1e-9)
    assert point.value == pytest.approx(solution.certificate.primal, abs=2e-6)
    proved = solution.outcomes.on(CALIBRATION_ROWS)
    assert max(each.before for each in proved if each.site) == pytest.approx(free.local_gap, abs=1e-9)
    assert proved.at(None)[0].before == pytest.approx(free.global_gap, abs=1e-9)


def test_what_is_proved_is_within_its_limit_by_as_much_as_the_certificate_says(case):
    solution, *_ = case
    proved = solution.outcomes.on(CALIBRATION_ROWS)
    assert min(each.room for each in proved) == pytest.approx(-solution.certificate.violation, abs=1e-9)
    assert {each.state for each in proved} == {"met"}


def test_a_notion_of_two_rates_is_never_better_than_one_of_these():
    rng = np.random.default_rng(3)
    n = 2500
    decided, label = rng.integers(0, 2, n), rng.random(n) < 0.06  # few have label 1, so that some sites have hardly any
    sex, site = rng.choice(["a", "b"], n), rng.integers(0, 12, n)
    both, one = (
        logofair.audit(decided, label, groups=sex, sites=site, notion=notion)
        for notion in ("equalized_odds", "equal_opportunity")
    )
    assert both.headline_local.value >= one.headline_local.value
    assert both.headline_global.value >= one.headline_global.value
