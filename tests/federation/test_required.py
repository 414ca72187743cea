"""Ratios, floors, ceilings, capacities and costs through sums alone: against a program over rows, and in messages."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from logofair import InfeasibleError, InputError, Notion
from logofair.engines.inprocess import run, run_apart
from logofair.federation import Client, ClientBatch, Server, SiteColumns, late_policy, make_plan
from logofair.federation.exchange import GroupCounts, reply_form
from logofair.federation.exchanges.publication import wrong_in
from logofair.federation.exchanges.rounds import AnswersRequest
from logofair.federation.limits import SiteLimits
from logofair.requirement import Scope
from logofair.words.federated import _run_sentences, plan_sentences
from support.examples import examples
from support.required import Required
from support.sites import central, federation, identities, plan_of, same_policy

pytestmark = pytest.mark.federation

# What a lender may require, of data on which it can be had.
LENDER = {
    "local_tolerance": ("ratio", 0.8),
    "global_tolerance": ("ratio", 0.9),
    "costs": (1, 3),
    "floors": {"local": {"equal_opportunity": 0.3}, "global": {"equal_opportunity": "today"}},
    "capacity": {"local": 0.95, "global": 0.85},
}
SECURE = {"local_tolerance": None, "global_tolerance": None, "secure": True}
PAIRS = [(1.0, 1.0), (1.0, 3.0), (2.0, 0.3), (0.0, 1.0), (5.0, 0.0)]  # costs of errors


def dealt(required: Required) -> dict[str, SiteColumns]:
    """The sites of a random problem."""
    columns = required.groups, required.chances, None if required.weights is None else required.weights
    sites = {}
    for c in np.unique(required.sites):
        own = required.sites == c
        groups, chances, weights = (None if each is None else each[own] for each in columns)
        sites[f"site {c}"] = SiteColumns(groups, chances, sample_weight=weights)
    return sites


def plan_for(required: Required, **more):
    """The plan of a random problem."""
    known = ("local_tolerance", "global_tolerance", "costs")
    given = {name: value for name, value in required.arguments().items() if name in known}
    if isinstance(given["costs"], dict):
        given["costs"] = {f"site {client}": each for client, each in given["costs"].items()}
    given["require"] = [
        replace(item, scope=Scope(item.scope.where, tuple(f"site {site}" for site in item.scope.sites)))
        for item in required.items
    ]
    groups = np.unique(required.groups).tolist()
    return plan_of(**given, groups=groups, quorum=1, trials=16, **more)


def check(required: Required) -> bool:
    """Run a random problem and compare with its program; whether it can be met."""
    best, largest, sites = required.least_cost(), required.dearest, dealt(required)
    try:
        done = run(plan_for(required), sites)
    except InfeasibleError:
        assert best is None
        return False
    result = done.result
    cost = 1.0 - result.accuracy if required.costs is None else result.accuracy
    assert result.holds
    assert result.violation <= 1e-9
    accepted = np.zeros(required.chances.size)
    for site, columns in sites.items():
        own = required.sites == int(site.removeprefix("site "))
        accepted[own] = done.policies[site].probabilities(columns.scores, sensitive_features=columns.sensitive_features)
    assert required.cost(accepted) == pytest.approx(cost, abs=1e-8 * largest)
    assert required.violation(accepted) <= 1.1e-9
    assert cost >= required.loosened_cost() - 1e-8 * largest
    assert best is None or cost <= best + 1.1e-5 * largest
    return True


def known_there(required):
    """A problem without what a federation cannot require."""
    items = [item for item in required.items if item.bound != "today" or item.measure not in ("gap", "ratio")]
    return replace(required, items=items)


def in_a_federation(seed, forms=7, about=None):
    """A random problem of sentences, of those that a federation knows."""
    return known_there(Required.spoken(seed, forms, about))


def with_precision(seed):
    """One that also has precision in it, now and then."""
    return in_a_federation(seed, forms=8)


def with_losses(seed):
    """One in which sites, or all together, may lose no more than so much."""
    return in_a_federation(seed, forms=9, about=8)


def with_costs_of_sites(seed):
    """A random problem whose sites have costs of their own."""
    required, rng = Required.drawn(seed), np.random.default_rng(seed)
    return replace(
        required, costs={site: PAIRS[rng.integers(len(PAIRS))] for site in np.unique(required.sites).tolist()}
    )


@pytest.mark.parametrize(
    ("drawn", "seeds", "fewest"),
    [
        *((Required.drawn, range(first, first + 5), 4) for first in (11, 16, 21)),
        # 24: a difference that may be below 0; 111: a ceiling of today
        *((in_a_federation, range(first, first + 6), 3) for first in (0, 6, 20, 107)),
        (with_precision, range(8), 5),
        *((with_losses, range(first, first + 6), 3) for first in (0, 6)),
        # Nothing but shares accepted and ceilings of precision.
        (partial(in_a_federation, forms=9), (2600090, 2600097), 2),
        *((with_costs_of_sites, range(first, first + 4), 2) for first in (40, 44)),
    ],
)
def test_the_optimum_is_that_of_a_program_over_rows(drawn, seeds, fewest):
    assert sum(check(drawn(seed)) for seed in seeds) >= fewest


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drawn", "first"),
    [
        *((Required.drawn, first) for first in range(1000, 1400, 50)),
        *((in_a_federation, first) for first in range(1000, 1300, 50)),
        *((with_costs_of_sites, first) for first in range(2000, 2200, 50)),
    ],
)
def test_the_optimum_is_that_of_a_program_over_rows_in_many_problems(drawn, first):
    assert 20 < sum(check(drawn(seed)) for seed in range(first, first + 50)) < 50


@examples(200, few=5)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_optimum_is_that_of_a_program_over_rows_whatever_is_mixed(seed):
    required = Required.mixed(seed)
    assume(all(required.mass[required.sites == client].any() for client in np.unique(required.sites)))
    check(required)


@examples(200, few=3)
@given(seed=st.integers(0, 2**32 - 1))
def test_it_is_where_differences_precision_and_losses_are_mixed_in(seed):
    required = known_there(Required.everything(seed))
    assume(all(required.mass[required.sites == client].any() for client in np.unique(required.sites)))
    check(required)


def for_secure_sums(seed):
    """A random problem in which every group is at three sites or more, of requirements that secure sums allow."""
    rng, source = np.random.default_rng([seed, 11]), Required.everything(seed)
    n_groups, n_sites = int(rng.integers(2, 4)), int(rng.integers(3, 6))
    each = np.repeat(np.arange(n_groups * n_sites), 3)  # rows that make a person of either label in every cell
    cell = np.concatenate([each, rng.integers(0, n_groups * n_sites, int(rng.integers(30, 100)))])
    chances = np.concatenate([0.4 + 0.2 * rng.random(each.size), rng.random(cell.size - each.size)])
    items = []
    for item in source.items:
        try:
            plan_of(**SECURE, groups=list(range(n_groups)), require=[*items, item])
            items.append(item)
        except InputError:
            continue
    costs = source.costs[0] if isinstance(source.costs, dict) else source.costs
    return Required(chances, cell % n_groups, cell // n_groups, items, costs)


def check_secure(required):
    """Run a random problem with secure sums and compare with its program; whether it can be met."""
    best, sites, largest = required.least_cost(), dealt(required), required.dearest
    groups = np.unique(required.groups).tolist()
    plan = plan_of(**SECURE, groups=groups, require=list(required.items), costs=required.costs, trials=16, rounds=60)
    try:
        result = run_apart(plan, sites, identities(sites)).result
    except InfeasibleError:
        assert best is None
        return False
    cost = 1.0 - result.accuracy if required.costs is None else result.accuracy
    assert result.holds
    assert required.loosened_cost() - 1e-4 * largest <= cost
    assert best is None or cost <= best + 1e-4 * largest
    return True


def test_the_optimum_by_secure_sums_is_that_of_a_program_over_rows():
    assert sum(check_secure(for_secure_sums(seed)) for seed in range(3)) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1120, 30))
def test_the_optimum_by_secure_sums_is_that_of_a_program_over_rows_in_many_problems(first):
    assert 15 < sum(check_secure(for_secure_sums(seed)) for seed in range(first, first + 30)) <= 30


def test_today_may_be_that_everybody_is_accepted_but_for_rounding():
    assert check(Required.drawn(1166))


@pytest.mark.parametrize("seed", [820037, 820046, 820049])
def test_a_ceiling_of_today_which_sites_do_not_know_leaves_their_rows_apart(seed):
    assert check(Required.mixed(seed))


def test_requirements_that_depend_on_each_other_do_not_drive_prices_out_of_range():
    assert check(Required.drawn(351))


@pytest.mark.parametrize(("seed", "met"), [(40672, False), (50082, True), (820107, False), (820071, True)])
def test_rates_of_rows_whose_chances_are_next_to_0_end_in_a_rule_or_a_proof(seed, met):
    # A ratio of 1 beside a ceiling of 0 and a floor missed by 1e-9; a gap of 0 that a chance of 1e-12 decides; one row
    # with weight, whose acceptance costs nothing and gains nothing; requirements that miss each other by 3e-10.
    assert check(Required.mixed(seed)) == met


@pytest.mark.parametrize("seed", [820018, 820086, 940144])
def test_what_a_miss_by_rounding_wins_at_prices_of_1e8_is_in_the_bound(seed):
    assert check(Required.mixed(seed))


@pytest.mark.parametrize("seed", [820219, pytest.param(820090, marks=pytest.mark.slow)])
def test_a_site_whose_program_is_singular_or_cannot_be_solved_is_not_taken_for_a_liar(seed):
    # A floor of 1 over all ties rows that a ceiling inside a site tells apart; two rows alike but for 1e-18.
    assert not check(Required.mixed(seed))


def test_what_is_not_proved_to_the_gap_agreed_on_is_not_said_to_hold():
    sites, plan = federation((60, 40, 50)), plan_of(rounds=1, optimality_gap=1e-9, capacity=0.4, costs=(10, 30))
    result = run(plan, sites).result
    said = dict(_run_sentences(result))
    assert not result.holds
    assert "Holds" not in said
    assert "cost" in said["Found"]
    assert "above 3e-08, the one agreed on, after 1 round: a better rule may exist" in said["WARNING"]


def test_the_policy_is_that_of_a_fit_on_all_rows():
    sites = federation((120, 90, 100))
    given = {**LENDER, "floors": {"local": {"demographic_parity": 0.2}, "global": {"demographic_parity": "today"}}}
    done = run(plan_of(trials=16, optimality_gap=1e-9, **given), sites)
    whole = central(sites, {}, **given)
    assert done.result.accuracy == pytest.approx(whole.certificate.primal, abs=1e-8)
    for site, columns in sites.items():
        ours = done.policies[site].probabilities(columns.scores, sensitive_features=columns.sensitive_features)
        theirs = whole.policy.probabilities(
            columns.scores, sensitive_features=columns.sensitive_features, sites=[site] * len(columns.scores)
        )
        assert ours == pytest.approx(theirs, abs=1e-7)


def test_sites_apart_behind_bytes_give_to_the_bit_what_one_process_gives():
    sites, plan = federation((60, 40, 50)), plan_of(trials=16, **LENDER)
    one, other = run(plan, sites), run_apart(plan, sites)
    assert one.result.holds
    assert one.result.accuracy == other.result.accuracy
    assert np.array_equal(one.result.rates, other.result.rates)
    for site, columns in sites.items():
        assert same_policy(one.policies[site], other.policies[site])
        assert same_policy(late_policy(one.result, columns, site), one.policies[site])


def test_secure_sums_give_the_same_result_within_their_stated_precision():
    given = {**LENDER, "floors": {"global": {"equal_opportunity": "today"}}, "capacity": ("exactly", 0.85)}
    sites, plan = federation((60, 50, 40, 45)), plan_of(trials=16, secure=True, **given)
    plain, masked = run(plan, sites).result, run_apart(plan, sites, identities(sites)).result
    assert masked.holds
    assert masked.accuracy == pytest.approx(plain.accuracy, abs=1e-4)
    assert masked.rates[0, -1] == pytest.approx(0.85, abs=1e-9)


@pytest.mark.parametrize(
    "asked",
    [
        "selection rate >= 0.5 overall",
        "true positive rate >= 0.9 overall",
        "accepted = 0.4 overall",
        "accepted >= 0.3 per site",
    ],
)
def test_secure_sums_hold_the_prices_that_look_for_a_first_rule_within_what_is_required(asked):
    """Where rejecting everybody is not allowed they are of 1e9, and so are the dual values of the answers."""
    sites, found = federation((300, 310, 280, 305)), []
    for secure in (False, True):
        settings = {"secure": secure, "require": [asked], "optimality_gap": 1e-6}
        found.append(run_apart(plan_of(**settings), sites, identities(sites) if secure else None).result)
    plain, masked = found
    assert masked.holds
    assert masked.accuracy == pytest.approx(plain.accuracy, abs=2e-6)


def test_secure_sums_prove_a_conflict():
    sites, proofs = federation((300, 310, 280, 305)), []
    for secure in (False, True):
        plan = plan_of(secure=secure, require=["accepted <= 0.3 per site", "accepted >= 0.5 overall"])
        with pytest.raises(InfeasibleError, match=r"'accepted >= 0\.5 overall' cannot be met") as conflict:
            run_apart(plan, sites, identities(sites) if secure else None)
        proofs.append([float(amount) for amount in conflict.value.least_relaxation.values()])
    assert proofs[1] == pytest.approx(proofs[0], abs=1e-6)


@pytest.mark.parametrize("largest", [1e-3, 1.0, 63.0, 1e5, 1e10])
def test_a_dual_value_at_any_prices_fits_a_sum_of_a_hundred_sites_and_is_never_rounded_down(largest):
    sites = federation((60, 50, 40))
    answers = []
    for secure in (False, True):
        plan = plan_of(secure=secure, optimality_gap=1e-6)
        batch, server = ClientBatch.of(sites, plan), Server.start(plan, list(sites))
        while not isinstance(server.request, AnswersRequest):
            batch, sums = batch.answer(server.request)
            server = server.take(sums.total())
        prices = np.array([[[largest], [-largest]], [[0.0], [0.0]]])
        request = replace(server.request, prices=prices)
        answers.append(batch.answer(request)[1].bound)
        kind, shapes = reply_form(request, plan)
        steps = kind.steps_of(shapes, request)
        of_bounds = steps[-2:]  # there are no combinations
        assert np.all(np.full(2, 80 * largest) * [1.0, 0.0] <= 2.0**62 * of_bounds / 100)
        assert np.all(of_bounds <= 2.0**-44 * np.maximum(1.0, 2 * 2 * largest / 2**6))
    plain, masked = answers
    assert np.all(masked >= plain)
    assert np.all(masked <= plain + of_bounds)


def test_secure_sums_know_precision_over_all_sites_and_refuse_it_inside_them():
    asked = ["precision of 0 >= 0.8 overall", "selection rate gap <= 0.1 per site"]
    sites, settings = federation((60, 50, 40, 45)), {"groups": [0, 1], "calibration": "none", "trials": 16}
    settings |= {"run": "a", "pooling": "none", "smallest_cell": 1}
    plain = run(make_plan(require=asked, **settings), sites).result
    masked = run_apart(make_plan(require=asked, secure=True, **settings), sites, identities(sites)).result
    assert masked.holds
    assert masked.accuracy == pytest.approx(plain.accuracy, abs=1e-4)
    with pytest.raises(InputError, match="require: with secure sums precision is required over all sites"):
        make_plan(require="precision of everyone >= 0.8 per site", secure=True, **settings)


def test_a_loss_over_all_sites_is_limited_with_secure_sums_as_well():
    asked = ["selection rate gap <= 0.3 per site", "accuracy loss <= 0.02 overall", "selection rate gap <= 0.1 overall"]
    sites, settings = federation((60, 50, 40, 45)), {"groups": [0, 1], "calibration": "none", "trials": 16}
    settings |= {"run": "a", "pooling": "none", "smallest_cell": 1}
    done = run(make_plan(require=asked, **settings), sites)
    together = central(sites, {"require": asked, "local_tolerance": None, "global_tolerance": None})
    (lost,) = (each.after for each in together.proved if each.requirement.is_loss)
    assert done.result.accuracy == pytest.approx(together.certificate.primal, abs=1e-5)
    free = central(sites, {"local_tolerance": None, "global_tolerance": None}).certificate.primal
    assert free - done.result.accuracy == pytest.approx(lost, abs=1e-5)
    assert lost <= 0.02 + 1e-9
    masked = run_apart(make_plan(require=asked, secure=True, **settings), sites, identities(sites)).result
    assert masked.holds
    assert masked.accuracy == pytest.approx(done.result.accuracy, abs=1e-4)
    with pytest.raises(InfeasibleError, match=r"conflict.*'accuracy loss <= 0 overall' would have to be at least"):
        run(make_plan(require=["accuracy loss <= 0 overall", asked[2]], **settings), sites)


def test_a_federation_limits_losses_inside_sites_and_says_where_it_cannot():
    settings = {"groups": [0, 1], "calibration": "none", "run": "a"}
    with pytest.raises(InputError, match="with secure sums no loss is limited inside sites"):
        make_plan(require="accuracy loss <= 0.1 per site", secure=True, **settings)
    with pytest.raises(InputError, match="costs differ between sites; limit the cost loss per site"):
        make_plan(require="cost loss <= 0.1 overall", costs=(1, 3), site_costs={"north": (2, 5)}, **settings)
    with pytest.raises(InputError, match="without costs= rules are judged by accuracy"):
        make_plan(require="cost loss <= 0.1 per site", **settings)
    priced = make_plan(require="cost loss <= 0.1 overall", costs=(1, 3), **settings)
    assert "a site's own cannot take their place" in SiteLimits(costs=(1, 2)).objection(priced, "north")
    asked = ["selection rate gap <= 0.1 per site", "accuracy loss from unconstrained <= 0 per site"]
    with pytest.raises(InfeasibleError, match="what is required inside sites cannot be met at some site"):
        run(make_plan(require=asked, pooling="none", **settings), federation((60, 50, 40)))


@pytest.mark.parametrize("side", ["local", "global"])
@pytest.mark.parametrize("notion", ["equal_opportunity", "equalized_odds"])
def test_a_floor_of_1_where_chances_are_tiny_is_met_and_no_site_seems_to_contradict_itself(notion, side):
    rng = np.random.default_rng(0)
    scores, low, sites = rng.random(200), rng.random(200) < 0.3, rng.integers(0, 3, 200)
    scores[low] = 10.0 ** rng.uniform(-12, -5, low.sum())
    groups = np.arange(200) % 2
    sites = {f"site {c}": SiteColumns(groups[sites == c], scores[sites == c]) for c in range(3)}
    plan = plan_of(notion=notion, floors={side: {notion: 1.0}}, trials=16)
    done = run(plan, sites)
    assert done.result.holds
    for site, columns in sites.items():
        own = done.policies[site].probabilities(columns.scores, sensitive_features=columns.sensitive_features)
        assert side == "global" or np.all(own == 1)


@pytest.mark.parametrize("engine", [run, run_apart])
@pytest.mark.parametrize("settings", [{"capacity": {"local": ("exactly", 0.4)}}, {"calibration": "beta"}])
def test_a_site_that_is_too_small_to_be_counted_takes_part_and_changes_nothing(settings, engine):
    sites = federation((60, 50, 4))
    plan = plan_of(trials=16, notion="equalized_odds", smallest_cell=5, **settings)
    found, without = (engine(plan, {name: sites[name] for name in names}) for names in ("abc", "ab"))
    assert found.result.holds
    assert found.result.accuracy == pytest.approx(without.result.accuracy, abs=1e-5)
    assert np.all(np.isfinite(found.policies["c"].probabilities([0.9, 0.1], sensitive_features=[0, 1])))


MINE = Notion("mine", given=(None,))
COMMON = [
    {"equalized_odds": 0.1, "equal_opportunity": 0.05},
    {"demographic_parity": 0.1, MINE: ("ratio", 0.8)},
    {"equal_opportunity": ("ratio", 0.95), "equalized_odds": 0.2, "demographic_parity": None},
]


@pytest.mark.parametrize("notions", COMMON)
@pytest.mark.parametrize("engine", [run, run_apart])
def test_of_global_requirements_that_share_a_rate_the_stricter_holds(notions, engine):
    sites = federation((120, 90, 100))
    given = {"notion": {"local": "demographic_parity", "global": notions}, "local_tolerance": None}
    done, whole = engine(plan_of(trials=16, optimality_gap=1e-8, **given), sites), central(sites, given)
    assert done.result.holds
    assert done.result.accuracy == pytest.approx(whole.certificate.primal, abs=1e-7)
    stated = [each.policies["a"].info.requirements.require for each in (done,)]
    assert set(stated[0]) == set(whole.policy.info.requirements.require)
    rates = {each.rate for each in done.result.plan.over_all.compared}
    assert sorted(done.result.as_dict()["global_gaps"]) == sorted(rate.name for rate in rates)
    assert max(done.result.prices_by_name.values()) > 1e-3


def test_a_conflict_tells_requirements_that_share_a_rate_apart():
    sites, notions = federation((60, 50)), {"equalized_odds": 0.3, "equal_opportunity": 0.05}
    floors, ceilings = ({"global": {"equal_opportunity": each}} for each in ({0: 0.9}, {1: 0.5}))
    plan = plan_of(
        notion={"local": "demographic_parity", "global": notions},
        local_tolerance=None,
        floors=floors,
        ceilings=ceilings,
        trials=16,
    )
    with pytest.raises(InfeasibleError) as caught:
        run(plan, sites)
    found = caught.value.least_relaxation
    assert {str(item): least for item, least in found.items()} == {
        "true positive rate of 0 >= 0.9 overall": pytest.approx(0.35, abs=1e-6),
        "true positive rate of 1 <= 0.5 overall": pytest.approx(0.35, abs=1e-6),
        "true positive rate gap <= 0.05 overall": None,
    }


@pytest.mark.parametrize("single", [{"a": ("ratio", 0.8)}, {"a": ("ratio", 0.8), "b": 0.05}])
def test_a_ratio_for_one_site_beside_a_gap_for_the_others_is_published_to_all(single):
    sites = federation((60, 40, 50))
    plan = plan_of(local_tolerance=0.1, global_tolerance=None, site_tolerances=single)
    one, other = run(plan, sites), run_apart(plan, sites)
    assert other.result.holds
    for site, columns in sites.items():
        assert same_policy(one.policies[site], other.policies[site])
        assert same_policy(late_policy(other.result, columns, site), one.policies[site])


def sizes(**given) -> int:
    """How many numbers a site sends in answer to one price."""
    plan = plan_of(**given)
    sites = federation((40, 40))
    server, batch = Server.start(plan, list(sites)), ClientBatch.of(sites, plan)
    _, sums = batch.answer(server.request)
    request = server.take(sums.total()).request
    request = replace(request, prices=request.prices[:1])
    kind, shapes = reply_form(request, plan)
    return kind.steps_of(shapes, request).size


def test_a_capacity_is_one_more_number_in_a_reply_and_ratios_floors_and_costs_are_none():
    plain = sizes()
    assert sizes(global_tolerance=("ratio", 0.8), costs=(1, 3), floors={"global": {"demographic_parity": 0.1}}) == plain
    assert sizes(capacity=0.5) == plain + 1
    assert sizes(capacity={"local": 0.5}, floors={"demographic_parity": 0.1}) == plain


@pytest.mark.parametrize("floor", [{0: 0.8}, 0.8])
def test_a_conflict_over_all_sites_is_proved_by_sums_and_says_what_must_give_at_least(floor):
    sites = federation((60, 40, 50))
    given = {"local_tolerance": None, "global_tolerance": 0.05, "floors": {"global": {"demographic_parity": floor}}}
    given["capacity"] = 0.4
    with pytest.raises(InfeasibleError) as caught:
        run(plan_of(trials=16, **given), sites)
    with pytest.raises(InfeasibleError) as whole:
        central(sites, {}, **given)
    ours, theirs = caught.value, whole.value
    assert "accepted <= 0.4 overall" in map(str, ours.conflict)
    assert set(ours.conflict) == set(theirs.conflict)
    for item, amount in ours.least_relaxation.items():
        exact = theirs.least_relaxation[item]
        if amount is None:
            assert exact is None  # that it is not enough is proved
        else:
            assert exact is None or 0 < amount <= exact + 1e-6
    assert "would have to be at least" in str(ours)


def test_a_site_that_cannot_meet_its_own_part_answers_with_its_slack_and_refuses_nothing():
    sites = federation((60, 40, 50))
    plan = plan_of(floors={"demographic_parity": 0.6}, capacity={"local": 0.5})
    _, totals = ClientBatch.of(sites, plan).answer(Server.start(plan, list(sites)).request)
    assert np.all(totals.slack > 0.09)
    for engine in (run, run_apart):
        with pytest.raises(InfeasibleError, match="what is required inside sites cannot be met at some site"):
            engine(plan, sites)


def test_a_site_that_cannot_meet_its_own_part_says_on_its_own_screen_what_conflicts_and_the_others_say_nothing():
    sites = federation((60, 40, 50))
    name = next(iter(sites))
    asked = [f"selection rate of 0 >= 0.9 at {name}", f"accuracy loss from unconstrained <= 0.01 at {name}"]
    plan = make_plan(groups=[0, 1], require=asked, calibration="none", pooling="none", run="a", smallest_cell=1)
    server = Server.start(plan, list(sites))
    asked_of = {site: Client(site, columns).handle(server.message()) for site, columns in sites.items()}
    assert all(not reply.refusal for _, reply in asked_of.values())
    said = [client.trouble for client, _ in asked_of.values()]
    assert said[0].startswith("at this site no rule meets all of them: 'selection rate of 0 >= 0.9 at ")
    assert "'accuracy loss from unconstrained <= 0.01" in said[0]
    assert said[1:] == ["", ""]


def test_a_published_rate_that_this_site_contradicts_is_refused():
    sites, plan = federation((60, 40, 50)), plan_of(trials=16, **LENDER)
    done = run(plan, sites)
    batch = ClientBatch.of({"a": sites["a"]}, plan)
    state = replace(batch.state, totals=GroupCounts(done.result.totals.mass, done.result.totals.positives))
    batch, _ = replace(batch, state=state).answer(done.result.final.request)
    assert wrong_in(batch, done.result) is None
    figures = done.result.figures
    for name in ("shares", "combinations"):
        for place in np.ndindex(getattr(figures, name).shape):
            more = getattr(figures, name).copy()
            more[place] += 0.2
            assert wrong_in(batch, replace(done.result, figures=replace(figures, **{name: more}))) is not None
    none = replace(figures, combinations=np.zeros(0))
    assert "sent combinations of shape (0,)" in wrong_in(batch, replace(done.result, figures=none))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"costs": (0, 0)}, "costs: both errors cost 0"),
        ({"require": "selection rate of x >= 0.1 per site"}, "names group 'x'"),
        ({"solver": "algorithm1", "capacity": 0.5}, "solver: 'algorithm1' limits gaps alone"),
        ({"require": "accepted <= 2 overall"}, "got a bound of 2"),
        (
            {"secure": True, "floors": {"demographic_parity": {0: 0.1}}},
            "with secure sums what holds inside sites holds for every group",
        ),
    ],
)
def test_what_cannot_be_required_is_refused_in_one_sentence(given, said):
    with pytest.raises(InputError, match=said):
        plan_of(**given)


def test_a_site_is_shown_all_that_is_required():
    shown = dict(plan_sentences(plan_of(**LENDER)))
    for part in ("ratio >= 0.8 per site", ">= 0.3 per site", ">= today overall", "accepted <= 0.85 overall", "costs 1"):
        assert part in shown["Required"]
    assert "looser" in shown["Feasible"]
    assert "cost" in shown["Published"]


def test_a_ratio_is_as_wide_as_the_gap_it_allows():
    plan = plan_of(local_tolerance=("ratio", 0.8), global_tolerance=("ratio", 0.9))
    assert SiteLimits(most_local_tolerance=0.2, most_global_tolerance=0.1).objection(plan, "a") is None
    assert "gaps are up to 0.2" in SiteLimits(most_local_tolerance=0.1).objection(plan, "a")
