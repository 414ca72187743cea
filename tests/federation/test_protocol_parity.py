"""However sites stand or travel the numbers are the same: crowds, bytes, masks, Algorithm 1, late sites."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import logofair
from logofair.engines.inprocess import run, run_apart
from logofair.federation import ClientBatch, Server, SiteColumns, late_policy
from logofair.federation.exchanges.publication import Received
from logofair.federation.result import RunResult
from logofair.records import decode, encode
from logofair.solvers.algorithm1 import Algorithm1, finish, rounds
from support.examples import examples
from support.sites import BENEFIT, central, federation, identities, measured, plan_of, problems, rows, same_policy

pytestmark = pytest.mark.federation

SETTINGS = [
    {},
    {"notion": "equalized_odds"},
    {"notion": "equalized_odds", "calibration": "beta"},
    {"notion": "equalized_odds", "calibration": "beta", "pooling": "auto"},
    {"calibration": "platt", "notion": BENEFIT},
    {"solver": Algorithm1(rounds=5, local_steps=4)},
    {"local_tolerance": None},
    {"global_tolerance": None},
]


@examples(12)
@given(problems(), st.sampled_from(["none", "beta", "platt", "temperature"]), st.booleans())
def test_a_site_in_a_crowd_says_to_the_bit_what_it_says_alone(problem, calibration, paper):
    sites, n_groups, options = problem
    solver = Algorithm1(rounds=3, local_steps=2) if paper else "exact"
    plan = plan_of(groups=list(range(n_groups)), quorum=1, calibration=calibration, solver=solver, **options)
    batch, server = ClientBatch.of(sites, plan), Server.start(plan, list(sites))
    alone = {site: ClientBatch.of({site: columns}, plan) for site, columns in sites.items()}
    while not server.done:
        batch, together = batch.answer(server.request)
        for i, site in enumerate(sorted(sites)):
            alone[site], sums = alone[site].answer(server.request)
            for field in fields(sums):
                assert np.array_equal(getattr(sums, field.name)[0], getattr(together, field.name)[i])
        total = together.total()
        if type(together).__name__ == "Smoothness":
            assert np.array_equal(total.constant, together.constant.max(axis=0))
        server = server.take(total)


def small():
    return federation((40, 30, 35))


def done(engine, plan, known={}):  # remembered on purpose  # noqa: B006
    """What an engine makes of a plan at small sites."""
    if (engine, plan) not in known:
        known[engine, plan] = engine(plan, small())
    return known[engine, plan]


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_sites_apart_behind_bytes_give_to_the_bit_what_one_process_gives(options):
    sites, plan = small(), plan_of(**options)
    one, other = done(run, plan), done(run_apart, plan)
    assert one.result.accuracy == other.result.accuracy
    assert one.result.bound == other.result.bound
    assert one.result.exchanges == other.result.exchanges
    assert np.array_equal(one.result.final.bound_prices, other.result.final.bound_prices)
    assert all(same_policy(one.policies[site], other.policies[site]) for site in sites)


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_the_order_in_which_sites_are_named_does_not_matter(options):
    sites, plan = small(), plan_of(**options)
    backwards = dict(reversed(list(sites.items())))
    for engine in (run, run_apart):
        one, other = done(engine, plan), engine(plan, backwards)
        assert one.result.accuracy == other.result.accuracy
        assert all(same_policy(one.policies[site], other.policies[site]) for site in sites)


@pytest.mark.parametrize("options", [s for s in SETTINGS if "calibration" not in s], ids=str)
def test_without_calibration_the_names_of_sites_and_the_order_of_rows_do_not_matter(options):
    """With calibration a site's folds depend on its name, so that no two sites deal alike."""
    sites, plan = small(), plan_of(**options)
    rng, renamed = np.random.default_rng(1), {}
    for name, columns in zip(("zeta", "beta", "alpha"), sites.values(), strict=True):
        order = rng.permutation(len(columns.scores))
        renamed[name] = SiteColumns(columns.sensitive_features[order], columns.scores[order])
    one, other = done(run, plan), run(plan, renamed)
    assert one.result.accuracy == pytest.approx(other.result.accuracy, abs=1e-12)
    for old, new in zip(sites, renamed, strict=True):
        score = np.linspace(0, 1, 50)
        for group in (0, 1):
            ours = one.policies[old].probabilities(score, sensitive_features=[group] * 50)
            assert ours == pytest.approx(
                other.policies[new].probabilities(score, sensitive_features=[group] * 50), abs=1e-9
            )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"notion": "equalized_odds", "calibration": "beta"},
        {"notion": "equalized_odds", "groups": [0, 1, 2], "optimality_gap": 1e-3},
        {"solver": Algorithm1(rounds=4, local_steps=3, step=0.01)},
    ],
    ids=str,
)
def test_secure_sums_give_the_same_result_within_their_stated_precision(options):
    sites = federation((40, 30, 25, 35), groups=len(options.get("groups", (0, 1))))
    plan = plan_of(secure=True, **options)
    plain, masked = run(plan, sites).result, run_apart(plan, sites, identities(sites)).result
    assert masked.totals.mass == pytest.approx(plain.totals.mass, abs=4 * 2.0**-21)
    precision = 1e-3 if "calibration" in options else 4 * 2.0**-21
    assert masked.totals.positives == pytest.approx(plain.totals.positives, abs=precision)
    assert masked.accuracy == pytest.approx(plain.accuracy, abs=plan.optimality_gap)
    assert masked.certificate.meets_requirements == plain.certificate.meets_requirements
    assert masked.certificate.optimality_gap <= max(plan.optimality_gap, plain.certificate.optimality_gap + 1e-6)
    every = masked.exchanges
    sums = sum(n for name, n in every.items() if name in plain.exchanges and name != "publication")
    assert every["keys"] == 2
    assert every["masked sums"] == every["lists confirmed"] == sums


def test_a_group_with_few_positives_survives_the_rounding_of_secure_sums():
    """Every site's expected positives are rounded; the total may then be a little less than what the sites have."""
    positive = 2.0**-33 * 0.999  # of a row: what a site sends is off by it
    sites = {}
    for i, name in enumerate("abcdefgh"):
        score = np.concatenate([rows(20, seed=i).scores, np.full(20, 0.06 + positive)])
        sites[name] = SiteColumns([0] * 20 + [1] * 20, score)
    plan = plan_of(secure=True, notion="equal_opportunity", local_tolerance=None)
    assert run_apart(plan, sites, identities(sites)).result.certificate.meets_requirements


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("groups", [2, 3])
def test_algorithm_1_over_messages_is_algorithm_1_in_one_process(notion, groups):
    sites = federation((120, 80, 100), groups=groups)
    settings_ = Algorithm1(rounds=6, local_steps=3)
    options = {"notion": notion, "solver": settings_}
    result = run_apart(plan_of(groups=list(range(groups)), **options), sites).result
    problem = central(sites, options).problem
    *_, last = rounds(problem, settings_)
    ending = finish(problem, last)
    assert result.final.bound_prices == pytest.approx(ending.global_prices, abs=1e-12)
    assert result.rounds == last.number
    assert result.accuracy == pytest.approx(problem.accuracy(ending.u, ending.v), abs=1e-10)
    assert result.violation == pytest.approx(problem.violation(ending.u, ending.v), abs=1e-10)
    assert result.exchanges["steps"] == 7


@pytest.mark.parametrize("options", [*SETTINGS, {"site_tolerances": {"b": 0.001}}], ids=str)
def test_a_member_that_asks_later_gets_back_its_own_policy_to_the_bit(options):
    plan = plan_of(**options)
    ended = done(run_apart, plan)
    for site, columns in small().items():
        again = late_policy(ended.result, columns, site)
        assert same_policy(again, ended.policies[site])
        assert again.info.note is None


@examples(10)
@given(problems(), st.integers(0, 1000))
def test_a_site_that_joins_later_is_locally_fair_and_told_that_the_global_promise_was_made_without_it(problem, seed):
    sites, n_groups, options = problem
    plan = plan_of(groups=list(range(n_groups)), quorum=1, **options)
    result = run(plan, sites).result
    late = {"late": rows(25, seed=seed, groups=n_groups, digits=2)}
    policy = late_policy(result, late["late"], "late")
    _, _, local_excess = measured(late, {"late": policy}, plan)
    assert local_excess <= 2e-9 * max(
        [1.0, *(1 / rate.normalised()[1] for item in plan.inside.required for rate in item.rates)]
    )
    assert "without it" in policy.info.note
    assert policy.info.federation.sites == len(sites)


def test_a_late_site_with_calibration_needs_the_published_result_and_its_own_rows_alone():
    plan = plan_of(calibration="beta", notion="equalized_odds")
    result = run(plan, federation()).result
    again = decode(encode(result), RunResult)
    assert again.accuracy == result.accuracy
    policy = late_policy(again, rows(80, seed=9), "late")
    assert policy.calibrator.method == "beta"
    with pytest.raises(logofair.InputError, match="scores"):
        late_policy(result, SiteColumns([0, 1], [0.5, 2.0], [0, 1]), "late")


def test_the_last_message_tells_nothing_of_a_site():
    assert Received.disclosures() == {}
