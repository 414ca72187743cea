"""A tolerance that a site sets itself counts at the site alone: the others and the server need not know of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from logofair.engines.inprocess import LocalTransport, run
from logofair.errors import RefusedError
from logofair.federation import Server, SiteLimits, late_policy
from logofair.requirement import Requirement, Scope
from support.sites import (
    BENEFIT,
    central,
    clients,
    federation,
    go,
    identities,
    measured,
    plan_of,
    policies_of,
    said_of_run,
    same_policy,
)

pytestmark = pytest.mark.federation

SITES = federation((120, 90, 100))


def own(tolerances, keys=None):
    """Sites of the sites, some with a tolerance of their own."""
    every = clients(SITES, keys)
    return every | {
        site: replace(every[site], limits=SiteLimits(local_tolerance=tolerance))
        for site, tolerance in tolerances.items()
    }


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
    transport = LocalTransport(own(tolerances, identities(SITES)))
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
def test_it_does_to_the_bit_what_the_same_tolerance_in_the_plan_does_and_only_the_site_knows(settings):
    transport = LocalTransport(own({"b": 0.01}))
    result, _ = go(plan_of(**settings), transport)
    policies, planned = (
        policies_of(transport, SITES),
        run(plan_of(require=["selection rate gap <= 0.01 at b"], **settings), SITES),
    )
    assert result.accuracy == planned.result.accuracy
    assert all(same_policy(policies[site], planned.policies[site]) for site in SITES)
    assert policies["b"].info.requirements == planned.policies["b"].info.requirements
    assert policies["a"].info.requirements.require == plan_of(**settings).require
    assert " at b" not in said_of_run(result)


def test_a_site_that_comes_later_may_have_one_and_gets_the_rule_it_had():
    transport = LocalTransport(own({"b": 0.01}))
    result, _ = go(plan_of(), transport)
    held = policies_of(transport, "b")["b"]
    assert same_policy(late_policy(result, SITES["b"], "b", local_tolerance=0.01), held)
    assert not same_policy(late_policy(result, SITES["b"], "b"), held)
    with pytest.raises(RefusedError, match="is larger"):
        late_policy(result, SITES["b"], "b", local_tolerance=0.1)


@pytest.mark.parametrize("later", [None, 0.02])
def test_within_a_run_it_stays_as_it_was(later):
    """Answers were given within it; without it the rule that is mixed from them would seem to exceed it."""
    client, server = own({"b": 0.01})["b"], Server.start(plan_of(), SITES)
    client, reply = client.handle(server.message())
    assert reply.refusal is None
    following = replace(server.message(), number=2, opening=None)
    changed, refused = replace(client, limits=SiteLimits(local_tolerance=later)).handle(following)
    assert refused.refusal == "PLAN_REFUSED"
    assert "it began with 0.01 as this site's own tolerance" in changed.problem
