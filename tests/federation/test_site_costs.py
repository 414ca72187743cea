"""What errors cost may differ by site: by the plan, or where a site sets lower costs of its own."""

from __future__ import annotations

import math

import pytest

import logofair
from logofair.costs import Costs
from logofair.engines.inprocess import LocalTransport, run, run_apart
from logofair.errors import InputError, RefusedError
from logofair.federation import ClientBatch, Server, SiteColumns, SiteLimits, late_policy
from logofair.federation.exchange import reply_form
from logofair.words.federated import _required_sentence, plan_sentences
from support.sites import central, federation, go, identities, own, plan_of, policies_of, same_policy

pytestmark = pytest.mark.federation

SITES = federation((120, 90, 100))
COSTS = {"a": (1.0, 3.0), "b": (2.0, 0.5), "c": (0.0, 4.0)}


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


@pytest.mark.parametrize("settings", [{}, {"global_tolerance": ("ratio", 0.9)}], ids=str)
def test_secure_sums_reach_the_optimum_of_a_fit_with_the_costs_that_sites_set_themselves(settings):
    """Every site replays the server, and knows nothing of the others' costs but that the plan's are the largest."""
    plan = plan_of(secure=True, optimality_gap=1e-6, trials=0, costs=(2, 4), **settings)
    transport = LocalTransport(own(SITES, {site: {"costs": pair} for site, pair in COSTS.items()}, identities(SITES)))
    result, _ = go(plan, transport)
    best = central(SITES, settings, costs=COSTS)
    assert result.holds
    assert result.accuracy == pytest.approx(best.certificate.primal, abs=1e-5)
    assert spent(policies_of(transport, SITES)) == pytest.approx(result.accuracy, abs=1e-5)
    assert abs(result.accuracy - central(SITES, settings, costs=(2, 4)).certificate.primal) > 0.05


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
        request = server.take(sums.total()).request
        kind, shapes = reply_form(request, plan)
        return sums.vector().size, kind.steps_of(shapes, request).size

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
        ({"costs": COSTS, "site_costs": COSTS}, "site_costs: given though costs name sites"),
        ({"costs": COSTS, "secure": True}, "costs: those of single sites cannot be combined with secure sums"),
        ({"costs": COSTS, "solver": "algorithm1"}, "solver: 'algorithm1' limits gaps alone"),
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


def test_a_site_that_comes_later_has_costs_or_is_refused():
    result = run(plan_of(costs=COSTS), SITES).result
    with pytest.raises(RefusedError, match="not at this one"):
        late_policy(result, SITES["a"], "east")
    late = late_policy(result, SITES["a"], "east", costs=(1, 1))
    assert late.info.requirements.costs == Costs.of([(1.0, 1.0)])


def test_people_are_told_what_errors_cost_where():
    several = plan_of(costs=(1, 3), site_costs={"b": (2, 0.5)})
    assert _required_sentence(several).endswith(
        "A wrongly accepted row costs 1, a wrongly rejected one 3; 2 and 0.5 at b."
    )
    named = plan_of(costs={"b": (2, 0.5), "a": (1, 3)})
    assert _required_sentence(named).endswith(
        "A wrongly accepted row and a wrongly rejected one cost 1 and 3 at a, 2 and 0.5 at b."
    )
    assert _required_sentence(plan_of(costs=(1, 3))).endswith("3; a site may count less.")
    assert "expected cost" in dict(plan_sentences(named))["Published"]
