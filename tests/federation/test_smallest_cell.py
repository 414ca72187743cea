"""A group with few people at a site: nothing of it leaves the site, and it takes the merged rule there."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from logofair.engines.inprocess import run, run_apart
from logofair.errors import InputError, RunError
from logofair.federation import ClientBatch, Privacy, Server, SiteColumns, late_policy, make_plan
from support import commandline
from support.sites import central, federation, identities, measured, plan_of, rows, same_policy

pytestmark = pytest.mark.federation

OPTIONS = [
    {},
    {"notion": "equalized_odds"},
    {"calibration": "beta"},
    {"calibration": "platt", "pooling": "auto", "notion": "equal_opportunity"},
    {"pooling": "full", "groups": [0, 1, 2]},
    {"secure": True, "calibration": "temperature"},
]


def with_few(columns, group, few):
    """The site with so many rows of one group, the first ones."""
    own = np.asarray(columns.sensitive_features) == group
    return at(columns, ~own | (np.cumsum(own) <= few))


def at(columns, which):
    parts = (getattr(columns, field.name) for field in fields(SiteColumns))
    return SiteColumns(*(None if part is None else np.asarray(part)[which] for part in parts))


def without(columns, group):
    return at(columns, np.asarray(columns.sensitive_features) != group)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_leaves_a_site_is_what_would_leave_it_without_the_small_group(options):
    """To the bit, message by message: so nothing, a number of rows neither, tells how many people were left out."""
    groups = len(options.get("groups", (0, 1)))
    every = federation((60, 50, 40, 45), groups=groups)
    sites, others = dict(every), dict(every)
    sites["b"], others["b"] = with_few(every["b"], 0, 4), without(every["b"], 0)
    plan = plan_of(smallest_cell=5, **options)
    batch, bare, server = ClientBatch.of(sites, plan), ClientBatch.of(others, plan), Server.start(plan, list(sites))
    while not server.done:
        batch, sums = batch.answer(server.request)
        bare, same = bare.answer(server.request)
        for field in fields(sums):
            assert np.array_equal(getattr(sums, field.name), getattr(same, field.name))
        server = server.take(sums.total())
    counted = sum((np.asarray(each.sensitive_features) == 0).sum() for each in others.values())
    assert server.result.totals.mass[0] == pytest.approx(counted)


@pytest.mark.parametrize(("notion", "groups"), [("demographic_parity", 3), ("equal_opportunity", 2)])
def test_the_policies_are_those_of_a_fit_that_leaves_out_the_same_cells(notion, groups):
    every = federation((80, 60, 70), groups=groups)
    sites = {**every, "b": with_few(every["b"], 1, 4), "c": with_few(with_few(every["c"], 0, 2), 2, 5)}
    kept = {**sites, "b": without(sites["b"], 1), "c": without(sites["c"], 0)}
    settings = {"notion": notion, "groups": list(range(groups)), "optimality_gap": 1e-6, "trials": 0}
    plan = plan_of(smallest_cell=5, **settings)
    done = run_apart(plan, sites)
    best = central(kept, {"notion": notion})
    assert done.result.accuracy == pytest.approx(best.certificate.primal, abs=2e-6)
    assert (
        done.result.totals.mass.sum()
        == best.problem.cells.mass.sum()
        == sum(len(each.scores) for each in kept.values())
    )
    accuracy, global_excess, local_excess = measured(kept, done.policies, plan)
    assert accuracy == pytest.approx(done.result.accuracy, abs=1e-9)
    assert max(global_excess, local_excess) <= 1e-8


def best_by_trying(plan, mass, positives, prices, weights, group, chances):
    """Whether a row of each chance is accepted at some prices, from what one more accepted row is worth: the oracle."""
    chance = np.zeros(chances.size)
    for price, weight in zip(prices, weights, strict=True):
        worth = 2 * chances - 1
        for k, rate in enumerate(plan.over_all.rates):
            base = rate.denominator(mass, positives)[group] / mass.sum()
            worth = worth - price[group, k] * (rate.constant + rate.slope * chances) / base
        chance += weight * (worth > 0)
    return chance


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
def test_a_small_group_takes_the_rule_that_is_best_at_the_prices_of_the_global_requirements(notion):
    every = federation((200, 150, 180))
    sites = {**every, "b": with_few(every["b"], 0, 3)}
    plan = plan_of(smallest_cell=5, notion=notion)
    done = run(plan, sites)
    result, chances = done.result, np.linspace(0.0005, 0.9995, 1000)
    assert np.abs(result.final.request.prices).max() > 0
    totals, mixture = result.totals, result.final.request
    expected = best_by_trying(plan, totals.mass, totals.positives, mixture.prices, mixture.weights, 0, chances)
    got = done.policies["b"].probabilities(chances, sensitive_features=[0] * chances.size)
    assert np.abs(got - expected).max() <= 1e-9
    assert 0 < expected.mean() < 1


def rate_at(policy, columns, group, given=None):
    """The selection rate of a group's rows, in expectation; ``given``: among those of this label, by their chances."""
    own = np.asarray(columns.sensitive_features) == group
    score = np.asarray(columns.scores)[own]
    weight = {None: np.ones_like(score), 1: score, 0: 1 - score}[given]
    return np.average(policy.probabilities(score, sensitive_features=[group] * score.size), weights=weight)


@pytest.mark.parametrize(
    ("notion", "given"), [("demographic_parity", (None,)), ("equal_opportunity", (1,)), ("equalized_odds", (1, 0))]
)
def test_with_pooling_a_small_group_keeps_to_the_local_tolerance_on_its_scores_at_all_sites(notion, given):
    """Where only local tolerances bind, the global prices are 0: decided by them alone, the group stays behind."""
    every = federation((900, 700, 800))
    sites = {**every, "b": with_few(every["b"], 0, 3)}
    settings = {"smallest_cell": 5, "notion": notion, "local_tolerance": 0.02, "global_tolerance": 0.02}
    alone, held = (run(plan_of(pooling=how, **settings), sites).policies["b"] for how in ("none", "full"))
    everywhere = SiteColumns(
        *(np.concatenate([getattr(sites[s], n) for s in "ac"]) for n in ("sensitive_features", "scores"))
    )
    for each in given:
        gaps = [abs(rate_at(p, everywhere, 0, each) - rate_at(p, everywhere, 1, each)) for p in (alone, held)]
        assert gaps[0] > 0.03
        assert gaps[1] <= 0.02 + 0.01  # the group's scores are thinned out to 256 values


def test_a_small_group_is_held_to_the_local_tolerance_at_the_least_cost():
    every = federation((900, 700, 800))
    sites = {**every, "b": with_few(every["b"], 0, 3)}
    plan = plan_of(pooling="full", smallest_cell=5, local_tolerance=0.02, global_tolerance=None)
    policy = run(plan, sites).policies["b"]
    score = np.sort(
        np.concatenate([np.asarray(sites[s].scores)[np.asarray(sites[s].sensitive_features) == 0] for s in "ac"])
    )
    other = np.concatenate([np.asarray(c.scores)[np.asarray(c.sensitive_features) == 1] for c in sites.values()])
    least = policy.probabilities(other, sensitive_features=[1] * other.size).mean() - 0.02
    best = score[-round(least * score.size) :]  # of all rules with so many accepted
    accepted = policy.probabilities(score, sensitive_features=[0] * score.size)
    assert accepted.mean() == pytest.approx(least, abs=0.01)
    assert np.sum(accepted * (2 * score - 1)) == pytest.approx(np.sum(2 * best - 1), abs=0.01 * score.size)


def test_where_nothing_is_required_inside_the_merged_rule_is_that_of_every_site():
    """Every cell is then decided at the prices of the global requirements alone, up to the rows around a threshold."""
    every = federation((400, 350, 300))
    sites = {**every, "b": with_few(every["b"], 0, 3)}
    done = run(plan_of(smallest_cell=5, local_tolerance=None), sites)
    chances = np.linspace(0.0005, 0.9995, 1000)
    rule, others = (done.policies[site].probabilities(chances, sensitive_features=[0] * 1000) for site in "ba")
    assert np.mean(np.abs(rule - others) > 1e-9) < 0.05


def test_the_group_is_marked_in_rules_warnings_and_file(tmp_path):
    every = federation((100, 90, 80), names=["F", "M"])
    sites = {**every, "b": with_few(every["b"], "F", 3)}
    plan = plan_of(smallest_cell=5, groups=["F", "M"])
    policy = run_apart(plan, sites).policies["b"]
    policy.save(tmp_path / "b.json")
    loaded = type(policy).load(tmp_path / "b.json")
    for each in (policy, loaded):
        assert each.too_small == ("F",)
        assert [(row.group, row.too_small) for row in each.rules] == [("F", True), ("M", False)]
        assert "(too few people to say: the merged rule)" in str(each.rules).splitlines()[1]
        assert "too few" not in str(each.rules).splitlines()[2]
        assert any("Fewer than 5 people, too few to count: F at b" in sentence for sentence in each.info.warnings)
        assert each.info.site_figures.smallest_cell == 5
        assert list(each.info.site_figures.accepted) == ["M"]
    page = commandline.run("explain", tmp_path / "b.json")[1]
    assert "Too few F: fewer than 5 people here" in " ".join(page.split())
    plain = commandline.json_of("explain", tmp_path / "b.json")
    assert [rule["too_small"] for rule in plain["rules"]] == [True, False]
    people = {"sensitive_features": ["F"] * 9, "ids": np.arange(9)}
    assert set(policy.decide(np.linspace(0, 1, 9), **people).tolist()) == {0, 1}
    assert policy.merged is None  # of other sites it still knows nothing


def test_nobody_and_too_few_look_the_same_even_in_the_sites_own_file():
    every = federation((100, 90, 80))
    plan = plan_of(smallest_cell=5)
    few, none = (
        run_apart(plan, {**every, "b": changed}).policies["b"]
        for changed in (with_few(every["b"], 0, 4), without(every["b"], 0))
    )
    assert same_policy(few, none)
    assert few.info == none.info


@pytest.mark.parametrize("options", [*OPTIONS, {"solver": "algorithm1"}], ids=str)
def test_a_site_whose_every_group_is_too_small_takes_part_with_nothing(options):
    if options.get("solver"):
        from logofair.solvers.algorithm1 import Algorithm1

        options = {**options, "solver": Algorithm1(rounds=3, local_steps=2)}
    groups = len(options.get("groups", (0, 1)))
    sites = federation((50, 40, 45), groups=groups) | {"tiny": rows(4, seed=1, groups=groups)}
    plan = plan_of(smallest_cell=5, **options)
    done = run_apart(plan, sites, identities(sites) if plan.secure else None)
    assert done.result.sites == ("a", "b", "c", "tiny")
    assert done.result.totals.mass.sum() == pytest.approx(135)
    policy = done.policies["tiny"]
    assert policy.too_small == tuple(map(str, plan.groups))
    assert policy.info.site_figures.accuracy is None
    assert policy.info.rows == 0
    assert policy.probabilities([0.001, 0.999], sensitive_features=[0, 0]).shape == (2,)
    if plan.pooling == "none" and plan.solver is None and not plan.secure:
        alone = run(plan, {site: sites[site] for site in "abc"})
        assert done.result.accuracy == pytest.approx(alone.result.accuracy, abs=1e-4)


def test_a_group_that_is_too_small_everywhere_is_compared_with_nothing():
    every = federation((50, 40, 45), groups=3)
    sites = {name: with_few(columns, 2, 3) for name, columns in every.items()}
    kept = {name: without(columns, 2) for name, columns in sites.items()}
    done = run_apart(plan_of(smallest_cell=5, groups=[0, 1, 2], optimality_gap=1e-6, trials=0), sites)
    assert done.result.totals.mass[2] == 0
    assert done.result.holds
    assert done.result.accuracy == pytest.approx(central(kept, {}).certificate.primal, abs=2e-6)
    assert all(policy.too_small == ("2",) for policy in done.policies.values())
    assert done.policies["a"].probabilities([0.4, 0.6], sensitive_features=[2, 2]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("options", [{}, {"calibration": "beta"}, {"pooling": "auto"}, {"pooling": "full"}], ids=str)
def test_a_run_in_which_every_group_is_too_small_stops_with_one_sentence(options):
    sites = {name: rows(4, seed=i) for i, name in enumerate("abc")}
    with pytest.raises(RunError, match="no group has 5 rows or more at any site"):
        run_apart(plan_of(smallest_cell=5, **options), sites)


def test_rows_of_weight_0_are_nobody():
    every = federation((100, 90, 80))
    weights = np.where((np.asarray(every["b"].sensitive_features) == 0) & (np.arange(90) > 12), 0.0, 2.0)
    assert 0 < np.sum(weights[np.asarray(every["b"].sensitive_features) == 0] > 0) < 9
    sites = {name: replace(columns, sample_weight=np.ones(len(columns.scores))) for name, columns in every.items()}
    sites["b"] = replace(every["b"], sample_weight=weights)
    assert run(plan_of(smallest_cell=9), sites).policies["b"].too_small == ("0",)


def test_a_site_that_joins_later_leaves_out_its_small_groups_too():
    result = run(plan_of(smallest_cell=5), federation()).result
    late = with_few(rows(60, seed=9), 1, 2)
    policy = late_policy(result, late, "late")
    assert policy.too_small == ("1",)
    assert same_policy(policy, late_policy(result, without(late, 1), "late"))


@pytest.mark.parametrize("wrong", [-1, 2.5, "5", True, 10**7])
def test_a_smallest_cell_that_is_no_number_of_rows_is_refused(wrong):
    with pytest.raises(InputError, match="smallest_cell"):
        plan_of(smallest_cell=wrong)


def test_the_smallest_cell_is_five_unless_noise_covers_small_cells():
    assert make_plan(groups=["F", "M"]).smallest_cell == 5
    assert make_plan(groups=["F", "M"], smallest_cell=0).smallest_cell == 1
    private = {"groups": ["F", "M"], "calibration": "none", "privacy": Privacy(1, 1e-6)}
    assert make_plan(**private).smallest_cell == 1
    with pytest.raises(InputError, match="true count"):
        make_plan(**private, smallest_cell=5)
