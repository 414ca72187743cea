"""What errors cost may differ by site: by the plan, or where a site sets lower costs of its own."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import logofair
from logofair import InfeasibleError
from logofair.costs import Costs
from logofair.engines.inprocess import LocalTransport, run, run_apart
from logofair.errors import InputError, RefusedError
from logofair.federation import ClientBatch, Server, SiteColumns, SiteLimits, late_policy
from logofair.federation.exchange import reply_form
from logofair.words.plans import plan_sentences, required_sentence
from support.required import Required
from support.sites import central, clients, federation, go, identities, plan_of, policies_of, said_of_run, same_policy

pytestmark = pytest.mark.federation

SITES = federation((120, 90, 100))
COSTS = {"a": (1.0, 3.0), "b": (2.0, 0.5), "c": (0.0, 4.0)}
PAIRS = [(1.0, 1.0), (1.0, 3.0), (2.0, 0.3), (0.0, 1.0), (5.0, 0.0)]


def drawn(seed: int) -> Required:
    """A random problem whose sites have costs of their own, and texts as names."""
    required, rng = Required.drawn(seed), np.random.default_rng(seed)
    names = np.array([f"site {client}" for client in required.sites])
    pairs = {str(name): PAIRS[int(rng.integers(len(PAIRS)))] for name in np.unique(names)}
    return replace(required, sites=names, costs=pairs)


def plan_for(required: Required):
    """The plan of a random problem."""
    known = ("require", "local_tolerance", "global_tolerance", "costs")
    given = {name: value for name, value in required.arguments().items() if name in known}
    return plan_of(**given, groups=np.unique(required.groups).tolist(), quorum=1, trials=16)


def check(seed: int) -> bool:
    """A random problem, federated and on all rows, against its program over rows; whether it can be met."""
    required = drawn(seed)
    best, largest = required.least_cost(), max(max(pair) for pair in required.costs.values())
    sites = {
        site: SiteColumns(required.groups[required.sites == site], required.chances[required.sites == site])
        for site in required.costs
    }
    try:
        result = run(plan_for(required), sites).result
    except InfeasibleError:
        assert best is None
        return False
    assert best is not None
    assert result.holds
    assert result.violation <= 1e-9
    assert best - 1e-8 * largest <= result.accuracy <= best + 1e-5 * largest
    if len(sites) > 1:
        whole = logofair.fit(required.chances, None, **required.arguments()).certificate
        assert whole.primal == pytest.approx(best, abs=1e-6 * largest)
    return True


@pytest.mark.parametrize("first", [40, 44])
def test_the_optimum_is_that_of_a_program_over_rows(first):
    assert sum(check(seed) for seed in range(first, first + 4)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2000, 2200, 50))
def test_the_optimum_is_that_of_a_program_over_rows_in_many_problems(first):
    assert 20 < sum(check(seed) for seed in range(first, first + 50)) < 50


def test_the_policy_is_that_of_a_fit_on_all_rows():
    given = {"costs": COSTS, "floors": {"global": {"demographic_parity": "today"}}, "local_tolerance": ("ratio", 0.8)}
    done = run(plan_of(trials=16, optimality_gap=1e-9, **given), SITES)
    whole = central(SITES, {}, **given)
    assert done.result.accuracy == pytest.approx(whole.certificate.primal, abs=1e-8)
    for site, columns in SITES.items():
        ours = done.policies[site].probabilities(columns.scores, sensitive_features=columns.sensitive_features)
        theirs = whole.policy.probabilities(
            columns.scores, sensitive_features=columns.sensitive_features, sites=[site] * len(columns.scores)
        )
        assert ours == pytest.approx(theirs, abs=1e-7)


def spent(policies) -> float:
    """The cost per row, counted row by row."""
    total = []
    for site, columns in SITES.items():
        accepted, rejected = COSTS[site]
        h = policies[site].probabilities(columns.scores, sensitive_features=columns.sensitive_features)
        total += (accepted * (1 - columns.scores) * h + rejected * columns.scores * (1 - h)).tolist()
    return math.fsum(total) / len(total)


def test_sites_apart_give_to_the_bit_what_one_process_gives_and_each_knows_its_own_costs():
    plan = plan_of(trials=16, costs=(1, 3), site_costs={site: COSTS[site] for site in "bc"})
    one, other = run(plan, SITES), run_apart(plan, SITES)
    assert one.result.accuracy == other.result.accuracy == pytest.approx(spent(one.policies), abs=1e-9)
    for site, columns in SITES.items():
        policy = one.policies[site]
        assert same_policy(policy, other.policies[site])
        assert same_policy(late_policy(one.result, columns, site), policy)
        accepted, rejected = COSTS[site]
        assert policy.info.requirements.costs == Costs.of([(accepted, rejected)])
        audit = logofair.audit(
            None, columns.labels, sensitive_features=columns.sensitive_features, scores=columns.scores, policy=policy
        )
        assert float(audit.costs.wrongly_rejected[0]) == rejected
    assert one.result.as_dict()["requirements"]["costs"]["wrongly_rejected"] == [3.0, 0.5, 4.0]


def own(costs, keys=None):
    """Sites of the sites, some with costs of their own."""
    every = clients(SITES, keys)
    return every | {site: replace(every[site], limits=SiteLimits(costs=pair)) for site, pair in costs.items()}


@pytest.mark.parametrize("settings", [{}, {"global_tolerance": ("ratio", 0.9)}], ids=str)
def test_secure_sums_reach_the_optimum_of_a_fit_with_the_costs_that_sites_set_themselves(settings):
    """Every site replays the server, and knows nothing of the others' costs but that the plan's are the largest."""
    plan = plan_of(secure=True, optimality_gap=1e-6, trials=0, costs=(2, 4), **settings)
    transport = LocalTransport(own(COSTS, identities(SITES)))
    result, _ = go(plan, transport)
    best = central(SITES, settings, costs=COSTS)
    assert result.holds
    assert result.accuracy == pytest.approx(best.certificate.primal, abs=1e-5)
    assert spent(policies_of(transport, SITES)) == pytest.approx(result.accuracy, abs=1e-5)
    assert abs(result.accuracy - central(SITES, settings, costs=(2, 4)).certificate.primal) > 0.05


@pytest.mark.parametrize("settings", [{}, {"calibration": "beta", "pooling": "auto", "smallest_cell": 5}], ids=str)
def test_a_sites_own_do_to_the_bit_what_the_same_in_the_plan_do_and_only_the_site_knows(settings):
    transport = LocalTransport(own({"b": (1, 0.5)}))
    result, _ = go(plan_of(costs=(1, 3), **settings), transport)
    planned = run(plan_of(costs=(1, 3), site_costs={"b": (1, 0.5)}, **settings), SITES)
    policies = policies_of(transport, SITES)
    assert result.accuracy == planned.result.accuracy
    assert all(same_policy(policies[site], planned.policies[site]) for site in SITES)
    assert policies["b"].info.requirements.costs == planned.policies["b"].info.requirements.costs
    assert result.as_dict()["requirements"]["costs"] == {"wrongly_accepted": 1.0, "wrongly_rejected": 3.0}
    assert same_policy(late_policy(result, SITES["b"], "b", costs=(1, 0.5)), policies["b"])
    assert "at the plan's costs" in said_of_run(result) or not settings
    assert planned.result.own_rows.accuracy is None or not settings
    assert not settings or "own rows alone: gaps" in said_of_run(planned.result)


def test_a_group_without_rows_is_decided_at_the_costs_of_its_site():
    """Two of three sites lack a group; where nothing is required their rule for it is the threshold of their costs."""
    only = SITES["a"].sensitive_features == 0
    lacking = SiteColumns(SITES["a"].sensitive_features[only], SITES["a"].scores[only], SITES["a"].labels[only])
    plan = plan_of(local_tolerance=None, global_tolerance=None, costs=COSTS)
    policies = run(plan, {"a": lacking, "b": lacking, "c": SITES["c"]}).policies
    for site, threshold in (("a", 0.25), ("b", 0.8)):
        assert policies[site].mixtures.threshold[1, 0] == pytest.approx(threshold)


def test_no_reply_has_a_further_number():
    def size(**given):
        plan = plan_of(**given)
        server, batch = Server.start(plan, list(SITES)), ClientBatch.of(SITES, plan)
        sums = batch.answer(server.request)[1]
        kind, shapes = reply_form(server.take(sums.total()).request, plan)
        return sums.vector().size, kind.steps_of(shapes).size

    assert size(costs=COSTS) == size()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"costs": {"a": (0, 0)}}, "costs: site 'a': both errors cost 0"),
        ({"costs": {}}, "costs: got {}, which names no site; pass a pair such as"),
        ({"costs": {"a": {"b": (1, 2)}}}, "costs: site 'a': got {'b': .*; pass the cost of a wrongly accepted row"),
        ({"costs": (1, 2), "site_costs": []}, r"site_costs: got \[\]; pass a mapping from site name to a pair"),
        ({"costs": {1: (1, 2)}}, "site_costs: got {1: .*pass a mapping from site name to a pair"),
        ({"site_costs": {"a": (1, -2)}}, "costs: site 'a': a wrongly rejected row costs -2"),
        ({"costs": COSTS, "site_costs": COSTS}, "site_costs: beside costs that name sites"),
        ({"costs": COSTS, "secure": True}, "costs: those of single sites cannot be combined with secure sums"),
        ({"costs": COSTS, "solver": "algorithm1"}, "solver: 'algorithm1' knows gaps and accuracy alone"),
    ],
)
def test_what_cannot_be_costs_of_sites_is_refused_in_one_sentence(given, said):
    with pytest.raises(InputError, match=said):
        plan_of(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"costs": {"a": (1, 2), "b": (1, 3)}}, "costs: has no pair for site 'c'; pass one for every site"),
        ({"costs": COSTS | {"north": (1, 2)}}, "costs: names site 'north', which is not here; sites are a, b, c"),
    ],
)
def test_every_site_has_costs_and_every_site_named_is_there(given, said):
    with pytest.raises(InputError, match=said):
        run(plan_of(**given), SITES)


@pytest.mark.parametrize(
    ("given", "limits", "said"),
    [
        ({}, {"costs": (1, 1)}, "it counts accuracy"),
        (
            {"costs": (1, 3)},
            {"costs": (2, 1)},
            "its costs are 1 and 3 at most, and this site's own, 2 and 1, are larger",
        ),
        ({"costs": COSTS}, {}, "it says what errors cost at other sites, and not at this one"),
        ({"costs": COSTS}, {"costs": (2, 4)}, None),
    ],
)
def test_a_site_objects_to_costs_that_its_own_cannot_take_the_place_of(given, limits, said):
    objection = SiteLimits(**limits).objection(plan_of(**given), "east")
    assert objection == said or said in objection


def test_within_a_run_its_own_costs_stay_as_they_were():
    client, server = own({"b": (1, 1)})["b"], Server.start(plan_of(costs=(1, 3)), SITES)
    client, reply = client.handle(server.message())
    assert reply.refusal is None
    following = replace(server.message(), number=2, opening=None)
    changed, refused = replace(client, limits=SiteLimits()).handle(following)
    assert refused.refusal == "PLAN_REFUSED"
    assert "it began with (1.0, 1.0) as this site's own costs" in changed.problem


def test_a_site_that_comes_later_has_costs_or_is_refused():
    result = run(plan_of(costs=COSTS), SITES).result
    with pytest.raises(RefusedError, match="not at this one"):
        late_policy(result, SITES["a"], "east")
    late = late_policy(result, SITES["a"], "east", costs=(1, 1))
    assert late.info.requirements.costs == Costs.of([(1.0, 1.0)])


def test_people_are_told_what_errors_cost_where():
    several = plan_of(costs=(1, 3), site_costs={"b": (2, 0.5)})
    assert required_sentence(several).endswith(
        "A wrongly accepted row costs 1, a wrongly rejected one 3; 2 and 0.5 at b."
    )
    named = plan_of(costs={"b": (2, 0.5), "a": (1, 3)})
    assert required_sentence(named).endswith(
        "A wrongly accepted row and a wrongly rejected one cost 1 and 3 at a, 2 and 0.5 at b."
    )
    assert required_sentence(plan_of(costs=(1, 3))).endswith("3; a site may count less.")
    assert "expected cost" in dict(plan_sentences(named))["Published"]
