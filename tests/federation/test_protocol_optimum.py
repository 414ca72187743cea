"""The federated optimum is the central one, and its certificate is what the sites' policies really do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from logofair.engines.inprocess import run
from logofair.federation import ClientBatch, Server, SiteColumns
from support.examples import examples
from support.sites import NOTIONS, central, federation, measured, plan_of, problems, rows

pytestmark = pytest.mark.federation


def checked(sites, plan, chances=None, *, may_creep=False):
    """A run whose certificate was recomputed row by row."""
    done = run(plan, sites)
    result, unit = done.result, max([1.0, *(1 / rate.normalised()[1] for item in plan.require for rate in item.rates)])
    accuracy, global_excess, local_excess = measured(sites, done.policies, plan, chances)
    assert result.accuracy == pytest.approx(accuracy, abs=1e-10)
    assert result.violation == pytest.approx(global_excess, abs=1e-10 * unit)
    assert max(global_excess, local_excess) <= 2e-9 * unit
    assert result.exceeding == 0
    # With two prices a message a run at tolerances near 0 may use up its rounds; it then says that nothing holds.
    assert result.holds or (may_creep and result.rounds == plan.rounds)
    return done


@examples(30)
@given(problems())
def test_the_federated_optimum_is_the_central_one_for_any_promise_and_any_sites(problem):
    sites, n_groups, options = problem
    plan = plan_of(groups=list(range(n_groups)), quorum=1, optimality_gap=1e-6, **options)
    result = checked(sites, plan, may_creep=True).result
    best = central(sites, options).certificate
    assert result.accuracy <= best.dual + 1e-9
    assert result.bound >= best.primal - 1e-9
    if result.holds:
        assert result.accuracy >= best.primal - plan.optimality_gap - 1e-9


@pytest.mark.parametrize("notion", NOTIONS, ids=str)
def test_every_notion_reaches_its_optimum_where_both_sides_bind(notion):
    sites, options = federation(), {"notion": notion, "local_tolerance": 0.03, "global_tolerance": 0.005}
    result = checked(sites, plan_of(optimality_gap=1e-6, **options)).result
    assert result.accuracy == pytest.approx(central(sites, options).certificate.primal, abs=2e-6)


def test_with_demographic_parity_the_policies_are_the_central_ones():
    """Scores without ties and tolerances that bind: there is one optimum, and reduction gives one form to it."""
    sites, options = federation((400, 300, 350, 200)), {"local_tolerance": 0.05, "global_tolerance": 0.01}
    done, best = run(plan_of(optimality_gap=1e-10, **options), sites), central(sites, options)
    for site, columns in sites.items():
        ours = done.policies[site].probabilities(columns.scores, sensitive_features=columns.sensitive_features)
        theirs = best.policy.probabilities(
            columns.scores, sensitive_features=columns.sensitive_features, sites=[site] * ours.size
        )
        for group in (0, 1):
            own = np.asarray(columns.sensitive_features) == group
            # The decomposition stops within 1e-7, a fraction of one row.
            assert ours[own].sum() == pytest.approx(theirs[own].sum(), abs=0.5)
            assert np.abs(ours[own] - theirs[own]).sum() <= 0.5


def test_a_site_with_a_hundred_thousandth_of_the_rows_neither_breaks_nor_is_forgotten():
    sites = {
        "large": rows(200_000, seed=1),
        "small": SiteColumns([0, 1], [0.7, 0.2], [1, 0]),
        "third": rows(5000, seed=2),
    }
    for notion in ("demographic_parity", "equalized_odds"):
        options = {"notion": notion, "local_tolerance": 0.01, "global_tolerance": 0.01}
        done = run(plan_of(optimality_gap=1e-6, **options), sites)
        best = central(sites, options).certificate
        assert done.result.holds
        assert done.result.accuracy == pytest.approx(best.primal, abs=2e-6)
        small = done.policies["small"].probabilities([0.7, 0.2], sensitive_features=[0, 1])
        if notion == "demographic_parity":
            assert abs(small[0] - small[1]) <= 0.01 + 1e-9


def test_without_any_tolerance_every_site_keeps_the_base_rule():
    sites = federation()
    done = checked(sites, plan_of(local_tolerance=None, global_tolerance=None))
    assert done.result.exchanges == {"totals": 1, "answers": 1, "final": 1, "publication": 1}
    for site, columns in sites.items():
        accepted = done.policies[site].probabilities(columns.scores, sensitive_features=columns.sensitive_features)
        assert np.array_equal(accepted, np.asarray(columns.scores) >= 0.5)


def test_tolerance_zero_gives_equal_rates_inside_and_across():
    for notion in ("demographic_parity", "equalized_odds"):
        checked(federation(), plan_of(notion=notion, local_tolerance=0, global_tolerance=0))


def test_a_group_that_no_site_has_changes_nothing():
    sites = federation()
    known = run(plan_of(optimality_gap=1e-8), sites).result
    padded = run(plan_of(optimality_gap=1e-8, groups=[0, 1, 2]), sites).result
    assert padded.accuracy == pytest.approx(known.accuracy, abs=1e-8)
    assert padded.certificate.meets_requirements


def test_groups_may_be_named_by_anything_that_can_travel():
    for names in (["F", "M"], [("F", 1), ("M", 2)], [True, False], [0.5, 1.5], list(np.array([7, 9]))):
        plain = names if not isinstance(names[0], np.integer) else [7, 9]
        columns = rows(60, seed=3)
        sites = {s: SiteColumns([plain[g] for g in columns.sensitive_features], columns.scores) for s in "ab"}
        done = run(plan_of(groups=names), sites)
        assert done.policies["a"].groups == tuple(plain)
        assert done.result.holds


def test_weights_of_rows_count_as_often_as_the_row_would():
    columns = rows(120, seed=5)
    weight = np.random.default_rng(0).integers(0, 3, 120)
    weight[:2] = 1
    repeated = SiteColumns(np.repeat(columns.sensitive_features, weight), np.repeat(columns.scores, weight))
    weighted = SiteColumns(columns.sensitive_features, columns.scores, sample_weight=weight.astype(float))
    for notion in ("demographic_parity", "equalized_odds"):
        plan = plan_of(notion=notion, optimality_gap=1e-7)
        one = checked({"a": weighted, "b": rows(80, seed=6)}, plan).result
        other = run(plan, {"a": repeated, "b": rows(80, seed=6)}).result
        assert one.accuracy == pytest.approx(other.accuracy, abs=2e-7)


@pytest.mark.parametrize("method", ["beta", "platt", "temperature"])
@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_with_calibration_the_certificate_is_what_the_policies_do_on_the_rows_the_sites_hold(method, notion):
    sites = federation((150, 90, 120))
    sites["d"] = SiteColumns([1], [0.4], [1])
    plan = plan_of(calibration=method, notion=notion, global_tolerance=0.005)
    checked(sites, plan, chances=eta_of(sites, plan))


@examples(6)
@given(problems())
def test_with_calibration_every_promise_holds_for_any_sites(problem):
    sites, n_groups, options = problem
    plan = plan_of(groups=list(range(n_groups)), quorum=1, calibration="beta", **options)
    checked(sites, plan, chances=eta_of(sites, plan), may_creep=True)


def eta_of(sites, plan):
    """The out-of-fold chances the sites' rows count with."""
    batch, server = ClientBatch.of(sites, plan), Server.start(plan, list(sites))
    while server.phase.name != "answers":
        batch, sums = batch.answer(server.request)
        server = server.take(sums.total())
    rows = batch.chances.rows
    return {site: rows.eta[rows.sites.codes == number] for number, site in enumerate(sorted(sites))}
