"""``solution.advice()``: what it says of tolerances, merging and leaving out comes true in real fits."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import binom

import logofair
from logofair.auditing.certification import POWER
from logofair.errors import InputError
from logofair.fitting.advice import CARRIES, LARGER, NOTHING, USEFUL
from logofair.fitting.promises import CERTIFIED


def table(sizes, seed=0, groups=2):
    """Scores, labels and columns of clients of these sizes; groups and clients differ."""
    rng = np.random.default_rng(seed)
    client = np.repeat(np.arange(len(sizes)), sizes)
    group = rng.integers(0, groups, client.size)
    scores = rng.beta(1.0 + 0.5 * group, 1.5 + 0.3 * (client % 3))
    labels = (rng.random(client.size) < scores).astype(int)
    return scores, labels, {"groups": np.array(list("FMXYZ"))[group], "clients": client}


def fit(rows, **options):
    scores, labels, columns = rows
    given = {"local_tolerance": 0.1, "global_tolerance": None, "pooling": "none", "merged": False, "random_state": 0}
    return logofair.fit(scores, labels, **(given | columns | options))


def without(rows, gone):
    """The same rows but those marked."""
    scores, labels, columns = rows
    return scores[~gone], labels[~gone], {name: column[~gone] for name, column in columns.items()}


def certified(solution):
    return {p.client for p in solution.promises if p.side == "local" and p.status == CERTIFIED}


def clients_of(entries):
    return {each.client for each in entries}


MIXED = (4000, 2500, 900, 350, 160, 90)  # some carry 0.1, some a larger tolerance, some nothing
HUNDREDS = tuple(np.random.default_rng(5).geometric(1 / 120, 250) + 2)


# --- which tolerance


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
@pytest.mark.parametrize("seed", [0, 1])
def test_by_rank_every_client_is_certified_for_what_the_advice_says_it_can_carry(notion, seed):
    rows = table(MIXED, seed=seed)
    advice = fit(rows, notion=notion).advice()
    assert advice.method == "by rank"
    assert {each.status for each in advice.clients} == {CARRIES, LARGER, NOTHING}
    plan = {each.client: 1.1 * each.smallest for each in advice.clients if each.status == LARGER}
    free = {each.client: None for each in advice.with_status(NOTHING)}
    promises = certified(fit(rows, notion=notion, client_tolerances=plan | free, confidence=0.95))
    assert promises == clients_of(advice.with_status(CARRIES)) | set(plan)


def test_by_rank_a_client_that_falls_clearly_short_is_not_certified():
    rows = table(MIXED)
    short = [e for e in fit(rows).advice().clients if e.smallest > 1.3 * e.required]
    assert len(short) >= 3
    assert not clients_of(short) & certified(fit(rows, confidence=0.95))


def test_on_rows_held_out_most_are_certified_for_what_the_advice_says():
    made = 0
    for seed in range(5):
        rows = table((9000, 5000, 4000), seed=seed)
        advice = fit(rows, notion="equalized_odds", local_tolerance=0.02).advice()
        assert advice.method == "on rows held out"
        plan = {each.client: each.smallest for each in advice.clients}
        solution = fit(rows, notion="equalized_odds", client_tolerances=plan, confidence=0.95)
        made += sum(p.status == CERTIFIED for p in solution.promises)
    assert made >= binom.ppf(0.01, 5 * 6, POWER)


def test_the_rows_that_are_called_needed_suffice():
    rows = table(MIXED)
    short = [e for e in fit(rows).advice().clients if e.status != CARRIES]
    needed = {e.client: 2 * e.rows_needed for e in short}
    more = table([needed.get(c, size) + 60 for c, size in enumerate(MIXED)], seed=3)
    assert {e.status for e in fit(more).advice().clients} == {CARRIES}
    fewer = table([needed[c] // 2 if c in needed else size for c, size in enumerate(MIXED)], seed=3)
    assert {e.status for e in fit(fewer).advice().clients if e.client in needed}.isdisjoint({CARRIES})


def test_every_client_is_told_once_and_its_smallest_tolerance_is_that_of_supported_tolerances():
    solution = fit(table(HUNDREDS))
    advice = solution.advice(0.9)
    assert [each.client for each in advice.clients] == list(solution.policy.clients)
    assert sum(len(advice.with_status(s)) for s in (CARRIES, LARGER, NOTHING)) == len(HUNDREDS)
    supported = solution.supported_tolerances(0.9).by_rank
    assert [np.nan if e.smallest is None else e.smallest for e in advice.clients] == pytest.approx(
        supported, nan_ok=True
    )
    assert all(e.smallest < USEFUL for e in advice.with_status(LARGER))
    assert all(e.smallest is None or e.smallest >= USEFUL for e in advice.with_status(NOTHING))
    assert sum(e.rows for e in advice.clients) == sum(HUNDREDS)


def test_clients_without_rows_of_a_group_can_carry_nothing():
    rows = table((2000, 2000, 2000))
    rows = without(rows, (rows[2]["clients"] == 1) & (rows[2]["groups"] == "F"))
    advice = fit(rows).advice()
    assert [each.status for each in advice.clients] == [CARRIES, NOTHING, CARRIES]
    nobody = advice.clients[1]
    assert (nobody.smallest, nobody.group, nobody.group_rows) == (None, "F", 0)
    assert "1 of 3 clients (20% of the rows) has too few rows" in advice.summary()
    assert "1 of these has no row of some group" in advice.summary()


def test_free_clients_take_no_part():
    rows = table(MIXED)
    all_, free = fit(rows).advice(), fit(rows, client_tolerances={5: None, 4: None}).advice()
    assert free.clients[0].smallest < all_.clients[0].smallest  # fewer promises share the error
    assert [each.required for each in free.clients] == [0.1] * 4 + [None] * 2
    assert "Nothing is required inside 2 of 6 clients (3% of the rows)." in free.summary()
    assert clients_of(free.with_status(NOTHING)).isdisjoint({4, 5})


def test_without_a_local_tolerance_it_says_what_could_be_promised():
    advice = fit(table(MIXED), local_tolerance=None, global_tolerance=0.05).advice()
    assert (advice.tolerance, advice.merging, advice.leaving_out) == (None, None, None)
    assert advice.summary().startswith("No gap inside clients has a tolerance")
    assert "could carry one below 0.2" in advice.summary()


def test_one_client_is_told_in_its_own_words():
    scores, labels, columns = table((3000,))
    for clients in (None, columns["clients"]):
        rows = scores, labels, columns | {"clients": clients}
        able, short = fit(rows).advice(), fit(rows, local_tolerance=0.01).advice()
        assert able.summary().startswith("The calibration rows can carry the tolerance of 0.1 for new rows, with 95%")
        assert "cannot carry the tolerance of 0.01" in short.summary()
        assert f"takes about {short.clients[0].rows_needed:,} rows of every group" in short.summary()
        assert short.merging is short.leaving_out is None


def test_weights_count_as_rows_of_equal_weight_and_promises_are_on_rows_held_out():
    rows = table((4000, 4000))
    even, uneven = np.ones(8000), np.random.default_rng(0).gamma(0.3, size=8000)
    first, second = (fit(rows, sample_weight=weight).advice() for weight in (even, uneven))
    assert first.method == second.method == "on rows held out"
    assert second.clients[0].group_rows < 0.5 * first.clients[0].group_rows
    assert second.clients[0].smallest > 1.3 * first.clients[0].smallest


def test_of_different_tolerances_each_client_and_rate_has_its_own():
    rows = table((5000, 5000))
    tight = fit(rows, notion={"demographic_parity": 0.3, "equal_opportunity": 0.001}).advice()
    loose = fit(rows, notion={"demographic_parity": 0.3, "equal_opportunity": 0.3}).advice()
    assert [e.status for e in tight.clients] == [LARGER, LARGER]
    assert [e.status for e in loose.clients] == [CARRIES, CARRIES]
    single = fit(rows, client_tolerances={1: 0.001}).advice()
    assert [e.status for e in single.clients] == [CARRIES, LARGER]


# --- merging and leaving out


@pytest.mark.parametrize("sizes", [MIXED, HUNDREDS])
def test_clients_really_merged_as_advised_carry_their_tolerance(sizes):
    rows = table(sizes)
    advice = fit(rows).advice()
    assert advice.merging.carried == len(advice.merging.bundles)
    merged = {name: f"bundle {i}" for i, bundle in enumerate(advice.merging.bundles) for name in bundle}
    assert clients_of(e for e in advice.clients if e.status != CARRIES) <= set(merged)
    clients = np.array([merged.get(name, str(name)) for name in rows[2]["clients"].tolist()])
    together = rows[0], rows[1], rows[2] | {"clients": clients}
    assert {e.status for e in fit(together).advice().clients} == {CARRIES}
    assert certified(fit(together, confidence=0.95)) == set(clients.tolist())


def test_clients_too_small_even_together_are_said_to_be():
    advice = fit(table((60, 50, 40))).advice()
    assert advice.merging.carried == 0
    assert f"could carry no tolerance below {advice.merging.tolerance:.4f}" in advice.summary()
    one = fit((*table((60, 50, 40))[:2], {"groups": table((60, 50, 40))[2]["groups"], "clients": None})).advice()
    assert advice.merging.tolerance == pytest.approx(one.clients[0].smallest, rel=0.02)


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
def test_leaving_clients_out_does_what_the_advice_says(notion):
    rows = table((30_000, 4000, 3000, 2000, *[300] * 30), seed=2)
    tolerance = {"demographic_parity": 0.05, "equalized_odds": 0.165}[notion]
    found = fit(rows, notion=notion, local_tolerance=tolerance).advice()
    left = found.leaving_out
    assert left.more
    free = fit(rows, notion=notion, local_tolerance=tolerance, client_tolerances=dict.fromkeys(left.clients))
    assert free.certificate.primal == pytest.approx(left.accuracy, abs=1e-5)
    assert (
        left.accuracy
        > left.accuracy_now
        == pytest.approx(fit(rows, notion=notion, local_tolerance=tolerance).certificate.primal)
    )
    after = free.advice()
    required = [each for each in after.clients if each.required is not None]
    assert {each.status for each in required} == {CARRIES}
    assert clients_of(required) == clients_of(found.with_status(CARRIES)) | set(left.more)
    assert left.rows == np.isin(rows[2]["clients"], left.clients).sum()


# --- over all clients, and beside promises that were made


@pytest.mark.parametrize("notion", ["demographic_parity", "equal_opportunity"])
@pytest.mark.parametrize("sizes", [MIXED, (40,) * 120])
def test_by_rank_what_the_advice_says_of_all_clients_comes_true(sizes, notion):
    rows = table(sizes)
    found = fit(rows, notion=notion, global_tolerance=0.05).advice().global_

    def made(tolerance):
        promises = fit(rows, notion=notion, global_tolerance=tolerance, confidence=0.95).promises
        return [p.status for p in promises if p.side == "global"] == [CERTIFIED]

    assert made(1.25 * found.smallest)
    assert not made(0.6 * found.smallest)


def test_what_can_be_promised_over_all_clients_is_told_beside_the_local_promises():
    rows = table((40,) * 120)
    able, short = (fit(rows, global_tolerance=t).advice() for t in (0.1, 0.001))
    assert able.global_.status == CARRIES
    assert f"Over all clients 0.1 can be promised; smallest possible: {able.global_.smallest:.4f}." in able.summary()
    assert "Over all clients 0.001 cannot be promised: the smallest possible is 0.0" in short.summary()
    assert f"For 0.001 it takes about {short.global_.rows_needed:,} rows of every group; there are" in short.summary()
    assert able.global_.group_rows == min(np.unique(rows[2]["groups"], return_counts=True)[1])
    assert fit(rows).advice().global_ is None


@pytest.mark.parametrize("seed", range(4))
def test_what_the_fit_has_certified_the_advice_says_can_be_carried(seed):
    solution = fit(table(MIXED, seed=seed), local_tolerance=0.12, global_tolerance=0.05, confidence=0.95)
    advice = solution.advice()
    assert certified(solution) <= clients_of(advice.with_status(CARRIES))
    assert all(each.smallest <= each.required for each in advice.with_status(CARRIES))
    assert certified(solution).isdisjoint(advice.leaving_out.clients)
    stricter = clients_of(solution.advice(0.9999).with_status(CARRIES))
    assert stricter < clients_of(advice.with_status(CARRIES))  # nothing was certified with that confidence


def test_numbers_of_rows_are_those_that_the_promises_tell():
    solution = fit(table((40,) * 30), confidence=0.95)
    rows = {p.client: p.rows for p in solution.promises if p.side == "local"}
    assert {each.client: each.group_rows for each in solution.advice().clients} == rows


def test_of_weighted_rows_the_numbers_are_said_to_be_of_equal_weight():
    rows = table((800, 800))
    weighted = fit(rows, sample_weight=np.random.default_rng(0).gamma(1.0, size=1600) + 0.1, local_tolerance=0.01)
    assert "rows of equal weight of every group" in weighted.advice().summary()
    assert "of equal weight" not in fit(rows, local_tolerance=0.01).advice().summary()


def test_accuracy_is_said_to_count_what_is_borrowed_where_it_does():
    for pooling, added in (("none", "rows ("), ("full", "rows and what small cells borrow (")):
        words = fit(table((60,) * 20), pooling=pooling, local_tolerance=0.15).advice().summary()
        accuracy = words.partition("expected accuracy on the calibration ")[2]
        assert accuracy.startswith((added, added.replace(" (", " from")))


def test_where_nobody_can_carry_it_leaving_all_out_lets_nobody_more():
    words = fit(table((60, 50, 40))).advice().summary()
    assert "Leaving them (100% of the rows) without a local tolerance would" in words
    assert "no more carry it" not in words


def test_what_the_fit_could_not_certify_though_the_rows_are_enough_is_said():
    def fits(seed):
        weight = np.random.default_rng(seed).gamma(1.0, size=1800) + 0.1
        options = {"sample_weight": weight, "local_tolerance": 0.24, "global_tolerance": 0.24}
        return tuple(fit(table((900, 900), seed=seed), **options, confidence=c) for c in (None, 0.95))

    # in some draws a client with enough rows is refused
    drawn = map(fits, range(60))
    able = (pair for pair in drawn if all(each.status == CARRIES for each in pair[0].advice().clients))
    plain, judged = next(pair for pair in able if len(certified(pair[1])) == 1)
    assert "in about 80 of 100 such fits" in plain.advice().summary()
    assert [each.certified for each in plain.advice().clients] == [None, None]
    advice = judged.advice()
    found = [(each.status, each.certified) for each in advice.clients]
    assert found == [(CARRIES, promise.status == CERTIFIED) for promise in judged.promises[:2]]
    assert "This fit could not certify 1 of these." in advice.summary()


# --- requirements that rest on few rows


def tiny(seed, n=3000, n_few=3):
    """Of n people three are of a group of their own."""
    rng = np.random.default_rng(seed)
    group = np.where(np.arange(n) < n_few, "X", np.where(rng.random(n) < 0.5, "F", "M"))
    scores = rng.beta(0.6, 0.9, n)
    scores[:n_few] = 0.4, 0.41, 0.42  # hardly to be told apart: whoever is to have equal odds with them is not either
    labels = (rng.random(n) < scores).astype(int)
    return scores, labels, {"groups": group}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_tiny_group_that_ruins_a_policy_is_named_with_what_leaving_it_out_gives(seed):
    rows = tiny(seed)
    options = {"notion": "equalized_odds", "local_tolerance": 0.02, "calibration": "none"}
    solution = fit(rows, **options)
    found = solution.advice().few_rows
    assert (found.cells, found.rows) == (1, 3)
    ((client, group, count, accuracy),) = found.dearest
    assert (client, group, count) == (None, "X", 3)
    assert found.accuracy_now == pytest.approx(solution.certificate.primal)
    assert accuracy - found.accuracy_now > 0.05
    # In a fit without them the others fare so; the three then take the base rule.
    again = fit(without(rows, rows[2]["groups"] == "X"), **options)
    own = np.maximum(rows[0][:3], 1 - rows[0][:3]).sum()
    assert accuracy == pytest.approx((2997 * again.certificate.primal + own) / 3000, abs=1e-6)
    assert "Group 'X' (3 rows): fewer than 30 rows that count" in solution.advice().summary()


def test_a_tiny_group_at_one_client_is_named_with_its_client():
    scores, labels, columns = tiny(1, n=4000)
    clients = np.where(np.arange(4000) < 1500, "south", "north")
    columns["groups"][1500:1700] = "X"  # many at the other client
    options = {"notion": "equalized_odds", "local_tolerance": 0.02, "calibration": "none"}
    solution = fit((scores, labels, columns | {"clients": clients}), **options)
    ((client, group, count, accuracy),) = solution.advice().few_rows.dearest
    assert (client, group, count) == ("south", "X", 3)
    free = fit((scores, labels, columns | {"clients": clients}), **options, client_tolerances={"south": None})
    assert solution.certificate.primal < accuracy <= free.certificate.primal
    assert "group 'X' at client 'south' (3 rows)" in solution.advice().summary().replace("Group", "group")


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e4])
def test_with_costs_what_a_tiny_group_costs_is_cost_per_person(unit):
    rows, options = tiny(0), {"notion": "equalized_odds", "local_tolerance": 0.02, "calibration": "none"}
    solution = fit(rows, costs=(unit, 3 * unit), **options)
    found = solution.advice().few_rows
    assert found.accuracy_now == pytest.approx(solution.certificate.primal)
    again = fit(without(rows, rows[2]["groups"] == "X"), costs=(unit, 3 * unit), **options)
    own = np.minimum(3 * rows[0][:3], 1 - rows[0][:3]).sum() * unit
    assert found.accuracy == pytest.approx((2997 * again.certificate.primal + own) / 3000, abs=1e-5 * unit)
    assert found.dearest == ((None, "X", 3, found.accuracy),)
    said = f"expected cost per person on the calibration rows from {found.accuracy:.4f} to {found.accuracy_now:.4f}"
    assert said in solution.advice().summary()


def test_with_costs_leaving_clients_out_saves_cost_per_person():
    rows = table((3000, 400, 300), seed=2)
    options = {"local_tolerance": 0.05, "costs": {0: (1, 3), 1: (2, 1), 2: (1, 1)}}
    solution = fit(rows, **options)
    found = solution.advice()
    free = fit(rows, **options, client_tolerances=dict.fromkeys(found.leaving_out.clients)).certificate.primal
    assert found.leaving_out.accuracy_now == pytest.approx(solution.certificate.primal)
    assert found.leaving_out.accuracy == pytest.approx(free, abs=1e-5)
    assert found.as_dict()["measure"] == "cost"
    assert f"expected cost per person on the calibration rows from {solution.certificate.primal:.4f}" in found.summary()


def test_groups_of_few_rows_that_cost_little_are_not_named():
    assert fit(tiny(0), local_tolerance=0.5).advice().few_rows is None
    assert fit(table(MIXED)).advice().few_rows is None


def test_with_promises_the_cost_is_not_that_of_the_promises():
    options = {"notion": "equalized_odds", "local_tolerance": 0.02, "calibration": "none"}
    plain, promising = (fit(tiny(0), confidence=c, **options).advice().few_rows for c in (None, 0.95))
    assert promising.accuracy_now == pytest.approx(plain.accuracy_now, abs=1e-5)
    assert promising.accuracy == pytest.approx(plain.accuracy, abs=1e-5)


# --- what is said


def test_an_officer_with_hundreds_of_clients_reads_one_paragraph():
    advice = fit(table((9000, 5000, *HUNDREDS[2:])), local_tolerance=0.15).advice()
    words = advice.summary()
    assert "\n" not in words
    assert len(words) < 1400
    able = advice.with_status(CARRIES)
    share = sum(e.rows for e in able) / sum(e.rows for e in advice.clients)
    assert able
    assert words.startswith(f"{len(able)} of 250 clients ({share:.0%} of the rows) can carry a local tolerance of 0.15")
    for part in (
        "with 95% confidence",
        "too few rows",
        "rows of every group",
        "Pooling (not in use)",
        "erged into",
        "Leaving",
    ):
        assert part in words


def test_pooling_in_use_is_said_to_certify_nothing():
    words = fit(table(HUNDREDS), pooling="full").advice().summary()
    assert (
        "Pooling (in use) can narrow the true gaps of small clients, but promises rest on a client's own rows" in words
    )


def test_where_all_can_carry_it_nothing_more_is_advised():
    advice = fit(table((20_000, 20_000))).advice()
    assert advice.summary().startswith("Both clients can carry a local tolerance of 0.1 for new rows")
    assert "Merged" not in advice.summary()


def test_advice_is_plain_values():
    for solution in (fit(table(MIXED)), fit(tiny(0), notion="equalized_odds", local_tolerance=0.02)):
        advice = solution.advice()
        plain = json.loads(json.dumps(advice.as_dict(), allow_nan=False))
        assert plain["summary"] == str(advice)
        assert [each["smallest"] for each in plain["clients"]] == [each.smallest for each in advice.clients]


def test_what_no_rows_can_show_is_said_with_its_reason():
    scores, _, columns = table((500, 500))
    advice = fit((scores, None, columns), notion="equal_opportunity", calibration="none").advice()
    assert "a promise about the true positive rate needs labels" in advice.summary()
    benefit = logofair.Notion("benefit", given=(logofair.Rate("benefit", -1, 2, base=(1, 0)),))
    assert "the benefit is no share of rows" in fit(table((500, 500)), notion=benefit).advice().summary()


@pytest.mark.parametrize("confidence", [None, 0, 1.5, "high"])
def test_a_confidence_that_is_none_is_refused(confidence):
    with pytest.raises(InputError, match="confidence: got"):
        fit(table((100, 100))).advice(confidence)
