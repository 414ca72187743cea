"""The cost of a rule: the mean over its rows, with an interval; 1 and 1 is accuracy read the other way round."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multinomial

from logofair.auditing import audit, compare
from logofair.auditing.measure import Tally
from logofair.columns.labels import one_site
from logofair.costs import read_costs
from logofair.errors import InputError
from support.examples import examples

modest = examples(40)
amounts = st.floats(0, 50).map(lambda cost: round(cost, 3))
pairs = st.tuples(amounts, amounts).filter(any)
rows_of_people = st.lists(
    st.tuples(
        st.sampled_from("ab"),  # site
        st.sampled_from("FM"),  # group
        st.integers(0, 1),  # label
        st.sampled_from([0.0, 0.25, 1.0]),  # chance of acceptance
        st.sampled_from([1.0, 2.5, 4.0]),  # weight
        st.integers(0, 9),  # id
    ),
    min_size=2,
    max_size=25,
).filter(lambda rows: {row[0] for row in rows} == set("ab") and {row[1] for row in rows} == set("FM"))


def audited(rows, **options):
    site, group, label, chance, weight, _ = zip(*rows, strict=True)
    columns = {"sensitive_features": group, "sites": site, "sample_weight": weight}
    return audit(chance, label, chances=True, **columns, **options)


def by_loops(rows, costs):
    spent = mass = 0.0
    for site, _, label, chance, weight, _ in rows:
        accepted, rejected = costs[site]
        spent += weight * ((1 - label) * chance * accepted + label * (1 - chance) * rejected)
        mass += weight
    return spent / mass


@given(rows_of_people, pairs, pairs)
@modest
def test_the_cost_agrees_with_plain_loops_over_all_and_at_every_site(rows, first, second):
    costs = {"a": first, "b": second}
    found = audited(rows, costs=costs)
    assert found.cost == pytest.approx(by_loops(rows, costs), rel=1e-12, abs=1e-12)
    for site in found.by_site:
        own = [row for row in rows if row[0] == site.site]
        assert site.cost == pytest.approx(by_loops(own, costs), rel=1e-12, abs=1e-12)
    for each in (found.cost, *(site.cost for site in found.by_site)):
        assert 0.0 <= each.low <= each <= each.high <= max(*first, *second) * (1 + 1e-12)


@given(rows_of_people, st.booleans())
@modest
def test_at_equal_costs_it_is_what_accuracy_lacks_interval_and_rows_too(rows, with_ids):
    ids = {"ids": [row[5] for row in rows]} if with_ids else {}
    found = audited(rows, costs=(2, 2), **ids)
    assert found.cost / 2 == pytest.approx(1 - found.accuracy, abs=1e-12)
    assert found.cost.low / 2 == pytest.approx(1 - found.accuracy.high, abs=1e-9)
    assert found.cost.high / 2 == pytest.approx(1 - found.accuracy.low, abs=1e-9)
    assert found.cost.rows == found.accuracy.rows


@given(rows_of_people, pairs, st.sampled_from([1e-9, 3.0, 1e9]))
@modest
def test_another_unit_of_money_changes_nothing_else(rows, pair, unit):
    one, other = (audited(rows, costs=[cost * times for cost in pair]).cost for times in (1.0, unit))
    for name in ("real", "low", "high"):
        assert getattr(other, name) == pytest.approx(getattr(one, name) * unit, rel=1e-9)


@given(rows_of_people, pairs, pairs)
@modest
def test_ids_that_never_repeat_change_nothing(rows, first, second):
    plain, named = (audited(rows, costs={"a": first, "b": second}, **more) for more in ({}, {"ids": range(len(rows))}))
    for one, other in ((plain.by_site[0].cost, named.by_site[0].cost), (plain.cost, named.cost)):
        assert float(one) == float(other)
        assert one.rows == other.rows


@pytest.mark.parametrize("pair", [(1, 3), (5, 0.2), (0, 1)])
def test_the_interval_holds_the_true_cost_in_19_of_20_draws_counted_over_all_that_can_happen(pair):
    n, chances = 25, (0.12, 0.04)  # of a row to be wrongly accepted, wrongly rejected
    costs, true, held = read_costs(pair, one_site(n)), float(np.dot(pair, chances)), 0.0
    for accepted in range(n + 1):
        for rejected in range(n + 1 - accepted):
            rows = np.array([[[n - rejected, rejected]]])
            tally = Tally.counted(rows, rows.astype(float), np.array([[[float(accepted), 0.0]]]))
            cost = tally.measured_cost(costs)
            counts = [accepted, rejected, n - accepted - rejected]
            held += multinomial.pmf(counts, n, [*chances, 1 - sum(chances)]) * (cost.low <= true <= cost.high)
    assert held >= 0.95


def test_a_person_at_several_sites_widens_the_interval():
    n = 60
    columns = {
        "sensitive_features": ["F", "M"] * n,
        "sites": ["a"] * n + ["b"] * n,
        "costs": {"a": (1, 1), "b": (1, 3)},
    }
    label, decided = [1, 0, 1] * 40, [1, 1, 0] * 40
    alone = audit(decided, label, **columns).cost
    again = audit(decided, label, **columns, ids=[*range(n), *range(n)]).cost
    assert float(alone) == float(again)
    assert again.high - again.low > 1.2 * (alone.high - alone.low)


@given(rows_of_people, pairs, pairs, st.randoms())
@modest
def test_two_rules_are_compared_in_cost_row_by_row(rows, first, second, random):
    site, group, label, chance, weight, _ = zip(*rows, strict=True)
    others, costs = [random.random() for _ in rows], {"a": first, "b": second}
    columns = {"sensitive_features": group, "sites": site, "sample_weight": weight, "costs": costs}
    found = compare(chance, others, label, **columns, chances=True)
    assert found.cost == pytest.approx(found.second.cost - found.first.cost, abs=1e-9)
    assert found.cost.low <= found.cost <= found.cost.high
    dearer = compare(chance, others, label, **columns | {"costs": (1, 1)}, chances=True)
    assert dearer.cost == pytest.approx(-dearer.accuracy, abs=1e-12)
    assert (dearer.cost.low, dearer.cost.high) == pytest.approx((-dearer.accuracy.high, -dearer.accuracy.low))


def test_the_cost_is_told_where_accuracy_is():
    columns = {"sensitive_features": ["M", "M", "F", "F"], "sites": ["a", "b", "a", "b"]}
    found = audit([1, 1, 0, 0], [1, 0, 0, 1], **columns, costs=(1, 3))
    stored = json.loads(json.dumps(found.as_dict()))
    assert stored["cost"]["value"] == 1.0
    assert stored["costs"] == {"wrongly_accepted": 1.0, "wrongly_rejected": 3.0}
    assert [site["cost"]["value"] for site in stored["by_site"]] == [0.0, 2.0]
    compare([1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1], **columns, costs=(1, 3))


def test_without_costs_there_is_none_and_without_labels_it_is_undefined():
    plain = audit([1, 0, 0], [1, 0, 1], sensitive_features=["M", "F", "F"])
    assert (plain.cost, plain.costs, plain.as_dict()["cost"], plain.by_site[0].cost) == (None,) * 4
    assert "cost" not in plain.summary()
    unlabelled = audit([1, 0, 0], None, sensitive_features=["M", "F", "F"], costs=(1, 3))
    assert unlabelled.cost is None
    assert "cost is undefined: there are no labels" in map(str, unlabelled.undefined)


def test_bad_costs_are_answered_by_one_sentence():
    with pytest.raises(InputError, match=r"^costs: a wrongly accepted row costs -1"):
        audit([1, 0, 0], [1, 0, 1], sensitive_features=["M", "F", "F"], costs=(-1, 1))
