"""A tolerance, or costs, that a site sets itself count at the site alone: nobody else needs to know of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logofair.engines.inprocess import LocalTransport, run
from logofair.errors import RefusedError
from logofair.federation import Client, Server, SiteLimits, late_policy
from logofair.requirement import Requirement, Scope
from support.sites import (
    BENEFIT,
    central,
    federation,
    go,
    identities,
    measured,
    own,
    plan_of,
    policies_of,
    said_of_run,
    same_policy,
)

pytestmark = pytest.mark.federation

SITES = federation((120, 90, 100))
# What a site sets itself in a plan, as limits and as the plan might say it.
OWN = [
    ({}, {"local_tolerance": 0.01}, {"require": ["selection rate gap <= 0.01 at b"]}),
    ({"costs": (1, 3)}, {"costs": (1.0, 0.5)}, {"site_costs": {"b": (1, 0.5)}}),
]


@pytest.mark.parametrize(
    ("settings", "tolerances"),
    [
        ({}, {"b": 0.0, "c": 0.02}),
        ({"notion": "equalized_odds"}, {"b": 0.0, "c": 0.0}),
        ({"local_tolerance": None, "notion": {"local": BENEFIT, "global": "demographic_parity"}}, {"b": 0.01}),
    ],
    ids=str,
)
def test_secure_sums_reach_the_optimum_of_a_fit_with_the_same_tolerances_of_single_sites(settings, tolerances):
    """Every site replays the server and refuses what does not follow; so no replica depends on another's tolerance."""
    plan = plan_of(secure=True, optimality_gap=1e-6, trials=0, **settings)
    transport = LocalTransport(
        own(SITES, {site: {"local_tolerance": each} for site, each in tolerances.items()}, identities(SITES))
    )
    result, _ = go(plan, transport)
    policies = policies_of(transport, SITES)
    rates = plan.inside.rates
    single = [
        Requirement(measure="gap", rates=(rate,), relation="<=", bound=own_, scope=Scope("at", (site,)))
        for site, own_ in tolerances.items()
        for rate in rates
    ]
    best = central(SITES, {"require": [*plan.require, *single], "local_tolerance": None, "global_tolerance": None})
    assert result.holds
    assert result.accuracy == pytest.approx(best.certificate.primal, abs=2e-6)
    assert abs(result.accuracy - central(SITES, settings).certificate.primal) > 1e-4  # they cost something
    named = replace(plan, secure=False, require=(*plan.require, *single))
    accuracy, global_excess, local_excess = measured(SITES, policies, named)
    assert accuracy == pytest.approx(result.accuracy, abs=1e-6)
    assert max(global_excess, local_excess) <= 1e-7


@pytest.mark.parametrize("settings", [{}, {"calibration": "beta", "pooling": "auto", "smallest_cell": 5}], ids=str)
@pytest.mark.parametrize(("given", "mine", "planned"), OWN)
def test_it_does_to_the_bit_what_the_same_in_the_plan_does_and_only_the_site_knows(given, mine, planned, settings):
    plan, transport = plan_of(**given, **settings), LocalTransport(own(SITES, {"b": mine}))
    result, _ = go(plan, transport)
    policies, there = policies_of(transport, SITES), run(plan_of(**given, **planned, **settings), SITES)
    assert result.accuracy == there.result.accuracy
    assert all(same_policy(policies[site], there.policies[site]) for site in SITES)
    assert policies["b"].info.requirements == there.policies["b"].info.requirements
    assert policies["a"].info.requirements == result.published().requirements
    assert result.published().requirements == plan.published_requirements().info
    assert " at b" not in said_of_run(result)
    costs = "costs" in given and bool(settings)  # of several pairs no cost of the rows alone is known
    assert ("at the plan's costs" in said_of_run(result)) == costs
    assert (there.result.own_rows.accuracy is None) == costs
    assert not costs or "own rows alone: gaps" in said_of_run(there.result)


@pytest.mark.parametrize(("given", "mine", "planned"), OWN)
def test_a_site_that_comes_later_may_have_its_own_and_gets_the_rule_it_had(given, mine, planned):
    del planned
    transport = LocalTransport(own(SITES, {"b": mine}))
    result, _ = go(plan_of(**given), transport)
    held = policies_of(transport, "b")["b"]
    assert same_policy(late_policy(result, SITES["b"], "b", **mine), held)
    assert not same_policy(late_policy(result, SITES["b"], "b"), held)


def test_an_own_tolerance_is_never_larger_than_the_plans():
    with pytest.raises(RefusedError, match="is larger"):
        late_policy(run(plan_of(), SITES).result, SITES["b"], "b", local_tolerance=0.1)


@pytest.mark.parametrize(
    ("given", "mine", "later", "said"),
    [
        ({}, {"local_tolerance": 0.01}, {}, "0.01 as this site's own tolerance"),
        ({}, {"local_tolerance": 0.01}, {"local_tolerance": 0.02}, "0.01 as this site's own tolerance"),
        ({"costs": (1, 3)}, {"costs": (1, 1)}, {}, "(1.0, 1.0) as this site's own costs"),
    ],
)
def test_within_a_run_it_stays_as_it_was(given, mine, later, said):
    """Answers were given within it; without it the rule that is mixed from them would seem to exceed it."""
    client, server = own(SITES, {"b": mine})["b"], Server.start(plan_of(**given), SITES)
    client, reply = client.handle(server.message())
    assert reply.refusal is None
    following = replace(server.message(), number=2, opening=None)
    changed, refused = replace(client, limits=SiteLimits(**later)).handle(following)
    assert refused.refusal == "PLAN_REFUSED"
    assert f"it began with {said}" in changed.trouble


@pytest.mark.parametrize("tolerance", [1.0, 2.0])
def test_a_tolerance_of_its_own_that_allows_any_gap_is_refused_with_the_plan_before_a_number_leaves(tolerance):
    server = Server.start(plan_of(local_tolerance=None), tuple(SITES))
    limits = SiteLimits(local_tolerance=tolerance)
    client, reply = Client("a", SITES["a"], limits=limits).handle(server.message())
    assert (reply.refusal, reply.body) == ("PLAN_REFUSED", None)
    assert f"own tolerance, {tolerance:g}, allows any gap in the selection rate" in client.trouble
