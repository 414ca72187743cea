"""Bounds for every model: AGLFOP and its linear variant, against hand, grid, SLSQP and row-level programs."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

import logofair
from logofair.errors import InputError, SolverError
from logofair_reproduction.bounds import LabelTable, aglfop, gap_bound, information, label_table, oracle
from support.examples import examples
from support.oracles import EVERY_NOTION, Case

module = sys.modules["logofair_reproduction.bounds.aglfop"]
modest = examples(15)
seeds = st.integers(0, 10**9)


def probability_table(mass, groups=None, sites=None):
    """Shares of sites, groups and labels, by number unless they have names."""
    mass = np.asarray(mass, dtype=float)
    sites, groups = sites or range(mass.shape[0]), groups or range(mass.shape[1])
    return LabelTable(mass / mass.sum(), tuple(groups), tuple(sites))


APART = probability_table([[[0.5, 0.0], [0.0, 0.5]]])  # the label is the group


def random_table(seed, sites=2, groups=2, concentration=1.0):
    mass = np.random.default_rng(seed).dirichlet(np.full(sites * groups * 2, concentration))
    return probability_table((mass / mass.sum()).reshape(sites, groups, 2))


def entropy(shares):
    return -math.fsum(p * math.log(p) for p in shares if p > 0)


def informations(joint):
    """I(Z; Yhat) and I(Z; Yhat | S) in nats by their entropies, H(Z) + H(Yhat) - H(Z, Yhat)."""

    def one(table):  # (groups, decisions), sums to 1
        return entropy(table.sum(1)) + entropy(table.sum(0)) - entropy(table.ravel())

    by_site = joint.sum(2)
    local = math.fsum(c.sum() * one(c / c.sum()) for c in by_site if c.sum() > 0)
    return one(by_site.sum(0)), local


def distribution(table, shares):
    """Q(s, z, y, yhat): the joint distribution with the decision, whose marginals are those of the table."""
    accepted = table.mass * shares
    return np.stack([table.mass - accepted, accepted], axis=-1)


def right(joint):
    return math.fsum(joint[..., 0, 0].ravel()) + math.fsum(joint[..., 1, 1].ravel())


def check(found, table, global_limit, local_limit):
    """What every result must satisfy, recomputed from its distribution."""
    joint = distribution(table, found.shares)
    global_, local = informations(joint)
    np.testing.assert_allclose(joint.sum(-1), table.mass, atol=1e-15)
    assert joint.min() >= 0
    assert found.accuracy == pytest.approx(right(joint), abs=1e-12)
    assert found.global_information == pytest.approx(global_, abs=1e-12)
    assert found.local_information == pytest.approx(local, abs=1e-12)
    assert global_limit is None or global_ <= global_limit + 1e-12
    assert local_limit is None or local <= local_limit + 1e-12
    assert 0 <= found.bound - found.accuracy <= 1e-6


# --- solved by hand


@pytest.mark.parametrize("sites", [1, 3])
def test_a_label_that_is_independent_of_the_group_is_allowed_with_no_information_at_all(sites):
    rng = np.random.default_rng(sites)
    cells = rng.dirichlet(np.ones(sites * 3)).reshape(sites, 3, 1)
    table = probability_table(cells * np.array([0.3, 0.7]))
    found = aglfop(table, global_information=0, local_information=0)
    assert found.bound == pytest.approx(1.0, abs=1e-9)
    check(found, table, 0, 0)


def test_a_label_that_is_the_group_leaves_the_best_constant_where_no_information_is_allowed():
    table = probability_table([[[0.3, 0.0], [0.0, 0.7]]])
    found = aglfop(table, global_information=0, local_information=None)
    assert found.bound == pytest.approx(0.7, abs=1e-9)
    check(found, table, 0, None)


def test_clients_that_cancel_out_cost_nothing_globally_and_everything_locally():
    table = probability_table([[[0.25, 0.0], [0.0, 0.25]], [[0.0, 0.25], [0.25, 0.0]]])
    assert aglfop(table, global_information=0, local_information=None).bound == pytest.approx(1.0)
    assert aglfop(table, global_information=None, local_information=0).bound == pytest.approx(0.5)
    assert aglfop(table, global_information=None, local_information=None).bound == 1.0


@pytest.mark.parametrize("bits", [0.001, 0.01, 0.1, 0.5, 0.99])
def test_a_label_that_is_the_group_obeys_fano(bits):
    def missing(accuracy):
        return 1 - entropy([accuracy, 1 - accuracy]) / math.log(2) - bits

    expected, nats = brentq(missing, 0.5, 1.0, xtol=1e-14), bits * math.log(2)
    found = aglfop(APART, global_information=nats)
    assert found.bound == pytest.approx(expected, abs=1e-6)
    check(found, APART, nats, None)


# --- against other ways to solve it


@pytest.mark.parametrize("seed", [1, 6, 14])
def test_no_point_of_a_fine_grid_is_better_and_one_is_nearly_as_good(seed):
    table, limit = random_table(seed, sites=1), 0.01
    found = aglfop(table, global_information=limit, local_information=None)
    assert found.bound < 0.999
    mass, positive = table.mass[0].sum(1), table.mass[0, :, 1]
    first, second = np.meshgrid(np.linspace(0, 1, 401), np.linspace(0, 1, 401))
    rate = np.stack([first, second], axis=-1)
    mean = (rate * mass).sum(-1, keepdims=True)
    with np.errstate(all="ignore"):
        part = np.nan_to_num(rate * np.log(rate / mean)) + np.nan_to_num((1 - rate) * np.log((1 - rate) / (1 - mean)))
    # The positives of a group are accepted first, so its errors are how far it is from its base rate.
    accuracy = 1 - np.abs(rate * mass - positive).sum(-1)
    best = accuracy[(part * mass).sum(-1) <= limit].max()
    assert best <= found.bound + 1e-12
    assert best >= found.accuracy - 0.005


@pytest.mark.parametrize(("global_limit", "local_limit"), [(0.02, 0.01), (None, 0.01), (0.005, None)])
@pytest.mark.parametrize("seed", [0, 1, 5, 6])
def test_slsqp_reaches_the_bound_and_never_passes_it(seed, global_limit, local_limit):
    table = random_table(seed)
    found = aglfop(table, global_information=global_limit, local_information=local_limit)
    check(found, table, global_limit, local_limit)
    assert found.bound < 0.999

    def joint(shares):
        return distribution(table, np.clip(shares, 0, 1).reshape(table.mass.shape))

    limits = [(0, global_limit), (1, local_limit)]
    rules = [{"type": "ineq", "fun": lambda x, i=i, e=e: 100 * (e - informations(joint(x))[i])} for i, e in limits if e]
    reached = []
    for start in (0.5, 0.9):
        first = np.tile([1 - start, start], 4)
        solved = minimize(
            lambda x: -right(joint(x)), first, method="SLSQP", bounds=[(0, 1)] * 8, constraints=rules,
            options={"maxiter": 500, "ftol": 1e-12},
        )  # fmt: skip
        over = max(informations(joint(solved.x))[i] - e for i, e in limits if e)
        reached.append(right(joint(solved.x)) if over <= 1e-9 else 0.0)
    assert max(reached) <= found.bound + 1e-6
    assert max(reached) >= found.accuracy - 1e-3


@modest
@given(seeds)
def test_no_information_is_parity_of_selection_rates(seed):
    table = random_table(seed, sites=3)
    found = aglfop(table, global_information=0, local_information=0)
    site, group, label = np.indices(table.mass.shape).reshape(3, -1)
    case = rows_case(label, group, site, "demographic_parity", 0.0, 0.0, table.mass.ravel())
    assert found.bound == pytest.approx(case.best_rows()[0], abs=1e-6)


@pytest.mark.parametrize(("global_limit", "local_limit"), [(0, 0.01), (0.01, 0)])
def test_one_side_may_be_independent_and_the_other_limited(global_limit, local_limit):
    table = random_table(11, sites=3)
    found = aglfop(table, global_information=global_limit, local_information=local_limit)
    check(found, table, global_limit, local_limit)
    strict = aglfop(table, global_information=0, local_information=0)
    loose = aglfop(table, global_information=0.01, local_information=0.01)
    assert strict.accuracy - 1e-9 <= found.bound <= loose.bound + 1e-9


@modest
@given(seeds)
def test_no_policy_is_more_accurate_than_the_bound_at_its_own_informations(seed):
    rng = np.random.default_rng(seed)
    group, site = rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    score = rng.beta(1 + group, 1.5)
    label = (rng.random(300) < score).astype(int)
    policy = logofair.fit(score, label, sensitive_features=group, sites=site, calibration="none").policy
    chance = policy.probabilities(score, sensitive_features=group, sites=site)
    joint = np.zeros((2, 2, 2, 2))
    np.add.at(joint, (site, group, label, 1), chance / 300)
    np.add.at(joint, (site, group, label, 0), (1 - chance) / 300)
    global_, local = informations(joint)
    limits = {"global_information": max(global_, 1e-4), "local_information": max(local, 1e-4)}
    assert aglfop(label_table(label, sensitive_features=group, sites=site), **limits).bound >= right(joint) - 1e-9


# --- what does not matter, and what does


def test_more_information_is_never_worse():
    table = random_table(3, sites=3, groups=3)
    for side in ("global_information", "local_information"):
        other = {"global_information": 0.02, "local_information": 0.02}
        found = [aglfop(table, **{**other, side: limit}) for limit in (0, 1e-4, 0.003, 0.02, 0.2, 3, None)]
        accuracies, bounds = [f.accuracy for f in found], [f.bound for f in found]
        assert all(low <= high + 1e-9 for low, high in zip(accuracies, bounds[1:], strict=False))
        assert bounds[-1] > bounds[0] + 1e-3


@modest
@given(seeds)
def test_order_and_names_of_clients_and_groups_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    table = random_table(seed, sites=3, groups=3)
    permuted = table.mass[rng.permutation(3)][:, rng.permutation(3)]
    named = probability_table(permuted, groups=["x", "y", "z"], sites=[("a", 1), ("b", 2), ("c", 3)])
    first, second = (aglfop(t, global_information=0.01, local_information=0.02) for t in (table, named))
    assert first.bound == pytest.approx(second.bound, abs=1e-6)


def test_a_client_split_into_two_halves_changes_nothing():
    table = random_table(5)
    halves = probability_table(np.concatenate([table.mass / 2, table.mass / 2]))
    first, second = (aglfop(t, global_information=0.01, local_information=0.01) for t in (table, halves))
    assert first.bound == pytest.approx(second.bound, abs=1e-6)


def test_rows_with_weights_are_their_table():
    labels, groups, sites = [1, 0, 1, 0, 1], ["F", "F", "M", "M", "M"], ["a", "a", "a", "b", "b"]
    table = label_table(labels, sensitive_features=groups, sites=sites, sample_weight=[2, 1, 1, 3, 1])
    assert table.mass.tolist() == [[[1 / 8, 2 / 8], [0, 1 / 8]], [[0, 0], [3 / 8, 1 / 8]]]
    assert table.sites == ("a", "b")


def test_cells_without_rows_are_left_out():
    mass = random_table(9, sites=4, groups=3).mass.copy()
    mass[0, 1], mass[1, :, 1], mass[2, 1:] = 0.0, 0.0, 0.0  # no such group, no positives, one group only
    table = probability_table(mass / mass.sum())
    for limit in (0, 0.01):
        found = aglfop(table, global_information=limit, local_information=limit)
        check(found, table, limit, limit)
    alone = probability_table([[[0.2, 0.3], [0.0, 0.0]], [[0.0, 0.0], [0.1, 0.4]]])
    assert aglfop(alone, global_information=None, local_information=0.01).bound == 1.0


# --- what is not believed, and what is refused


def test_where_the_first_solver_fails_the_second_is_asked(monkeypatch):
    honest = module._candidate
    monkeypatch.setattr(
        module, "_candidate", lambda t, e, s: (None, "infeasible") if s == "CLARABEL" else honest(t, e, s)
    )
    table = random_table(0)
    found = aglfop(table, global_information=0.01)
    assert found.solver == "SCS"
    monkeypatch.setattr(module, "_candidate", honest)
    assert found.bound == pytest.approx(aglfop(table, global_information=0.01).bound, abs=1e-6)


def test_a_solver_that_calls_a_poor_answer_optimal_is_not_believed(monkeypatch):
    monkeypatch.setattr(module, "_candidate", lambda t, e, s: (np.zeros(t.mass.size), "optimal"))
    monkeypatch.setattr(module, "_ROUNDS", 1)
    with pytest.raises(SolverError, match=r"CLARABEL: optimal, SCS: optimal\), so none is returned"):
        aglfop(random_table(0), global_information=0.01)


def test_an_answer_outside_the_limits_is_moved_inside_before_it_counts(monkeypatch):
    monkeypatch.setattr(module, "_candidate", lambda t, e, s: (np.tile([0.0, 1.0], 4), "optimal"))
    found = aglfop(random_table(0), global_information=0.01, local_information=0.02)
    check(found, random_table(0), 0.01, 0.02)
    assert found.accuracy < 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"global_information": -0.1}, "global_information: got -0.1; pass a number of at least 0"),
        ({"local_information": math.nan}, "local_information: got nan"),
        ({"local_information": True}, "local_information: got True"),
        ({"global_information": "0.1"}, "global_information: got '0.1'"),
    ],
)
def test_a_limit_that_is_none_is_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        aglfop(APART, **arguments)


def test_rows_that_make_no_table_are_refused_in_one_sentence():
    with pytest.raises(InputError, match="labels: row 1 is 2"):
        label_table([1, 2], sensitive_features=["F", "M"])
    with pytest.raises(InputError, match="sensitive_features: has 1 rows, but the first column has 2"):
        label_table([1, 0], sensitive_features=["F"])
    with pytest.raises(InputError, match="labels: no rows"):
        label_table([], sensitive_features=[])
    with pytest.raises(InputError, match="only one group"):
        label_table([1, 0], sensitive_features=["F", "F"])


# --- gaps in place of information


def rows_case(labels, groups, sites, notion, local, global_, weights=None):
    """The same rows as a program with a variable each."""
    rates, n_sites = EVERY_NOTION[notion].rates, int(sites.max()) + 1
    bounds = np.full((n_sites, len(rates)), local), np.full(len(rates), global_)
    values = labels.astype(float)
    sizes = int(groups.max()) + 1, n_sites
    return Case(values, groups, sites, *sizes, rates, rates, *bounds, labels=values, weights=weights)


@pytest.mark.parametrize(("local", "global_"), [(0.0, 0.0), (0.05, 0.01), (0.3, 0.02)])
@pytest.mark.parametrize("notion", EVERY_NOTION)
def test_the_bound_with_gaps_is_that_of_a_program_with_a_variable_for_every_row(notion, local, global_):
    rng = np.random.default_rng(4)
    group, site = rng.integers(0, 3, 150), rng.integers(0, 3, 150)
    label = (rng.random(150) < (0.2 + 0.2 * group + 0.1 * site)).astype(int)
    table = label_table(label, sensitive_features=group, sites=site)
    found = gap_bound(table, notion=EVERY_NOTION[notion], local_tolerance=local, global_tolerance=global_)
    case = rows_case(label, group, site, notion, local, global_)
    assert found.bound == pytest.approx(case.best_rows()[0], abs=1e-6)
    assert found.accuracy == pytest.approx(right(distribution(table, found.shares)), abs=1e-12)
    assert case.violation(found.shares[site, group, label]) <= 1e-9
    np.testing.assert_allclose(distribution(table, found.shares).sum(-1), table.mass, atol=1e-15)


def test_gaps_within_a_label_do_not_restrict_a_decision_that_may_see_it():
    table = random_table(8, sites=3)
    assert gap_bound(table, notion="equalized_odds", local_tolerance=0, global_tolerance=0).bound == 1.0


def test_the_bound_with_gaps_is_above_the_oracle_of_any_scores():
    rng = np.random.default_rng(3)
    group, site = rng.integers(0, 2, 200), rng.integers(0, 3, 200)
    score = rng.beta(1 + group, 1.5)
    label = rng.random(200) < score
    columns = {"sensitive_features": group, "sites": site}
    tolerances = {"local_tolerance": 0.03, "global_tolerance": 0.01}
    best = oracle(score, label, **columns, **tolerances)
    assert gap_bound(label_table(label, **columns), **tolerances).bound >= best.accuracy + 0.05


@modest
@given(seeds)
def test_information_is_that_of_counted_decisions(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 200))
    labels, groups, sites = rng.integers(0, 2, n), rng.integers(0, 3, n), rng.integers(0, 4, n)
    groups[:2], labels[:2] = [0, 1], [0, 1]
    decided = rng.integers(0, 2, n)
    table = label_table(labels, sensitive_features=groups, sites=sites)
    shares = table.shares(decided, labels, sensitive_features=groups, sites=sites)

    def mutual(rows):  # from the counts of pairs
        pairs = np.histogram2d(groups[rows], decided[rows], bins=[range(4), range(3)])[0] / rows.sum()
        expected = np.outer(pairs.sum(1), pairs.sum(0))
        return sum(p * math.log(p / e) for p, e in zip(pairs.ravel(), expected.ravel(), strict=True) if p > 0)

    inside = sum(np.mean(sites == c) * mutual(sites == c) for c in np.unique(sites))
    assert information(table, shares) == pytest.approx((mutual(np.full(n, True)), inside), abs=1e-9)
