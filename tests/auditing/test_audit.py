"""The audit, held against hand-computed tables and an oracle of plain loops."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from logofair.auditing import Audit, Gap, Measured, audit, compare, impact_ratios
from logofair.auditing.result import Undefined
from logofair.errors import InputError
from logofair.notions import DEMOGRAPHIC_PARITY, NOTIONS, Notion, Rate
from support.examples import examples

modest = examples(30)

# site, group, label, decision. Across sites F and M have equal odds; inside each site they do not.
TWO_GROUPS = [
    *[("a", "F", 1, 1), ("a", "F", 1, 0), ("a", "F", 0, 0)],
    *[("a", "M", 1, 1), ("a", "M", 0, 1), ("a", "M", 0, 0)],
    *[("b", "F", 1, 1), ("b", "F", 0, 1)],
    *[("b", "M", 1, 0), ("b", "M", 0, 0), ("b", "M", 1, 1), ("b", "M", 0, 1)],
]
THREE_GROUPS = [
    *TWO_GROUPS,
    *[("a", "X", 1, 0), ("a", "X", 0, 0)],
    *[("b", "X", 1, 1), ("b", "X", 0, 0), ("b", "X", 0, 0), ("b", "X", 0, 0)],
]
BENEFIT = Notion("equal_benefit", given=(Rate("benefit", -1.0, 2.0, base=(1.0, 0.0)),))

# What an accepted row of a label counts, and what any row of it counts: written without Rate.
COUNTED = {
    "selection rate": (lambda label: 1, lambda label: 1),
    "true positive rate": (lambda label: label, lambda label: label),
    "false positive rate": (lambda label: 1 - label, lambda label: 1 - label),
    "benefit": (lambda label: 2 * label - 1, lambda label: 1),
}


def audit_of(rows, **options) -> Audit:
    sites, groups, labels, decisions = zip(*rows, strict=True)
    return audit(decisions, labels, sensitive_features=groups, sites=sites, **options)


def approximately(value):
    return pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize(
    ("rows", "notion", "global_gap", "local_gap"),
    [
        (TWO_GROUPS, "demographic_parity", 1 / 35, 1 / 2),
        (TWO_GROUPS, "equal_opportunity", 0, 1 / 2),
        (TWO_GROUPS, "predictive_equality", 0, 1 / 2),
        (TWO_GROUPS, "equalized_odds", 0, 1 / 2),
        (THREE_GROUPS, "demographic_parity", 13 / 30, 3 / 4),
        (THREE_GROUPS, "equal_opportunity", 1 / 6, 1),
        (THREE_GROUPS, "predictive_equality", 1 / 2, 1),
        (THREE_GROUPS, "equalized_odds", 1 / 2, 1),
    ],
)
def test_gaps_agree_with_hand_computation(rows, notion, global_gap, local_gap):
    found = audit_of(rows, notion=notion)
    assert found.global_gap == approximately(global_gap)
    assert found.local_gap == approximately(local_gap)
    assert found.undefined == ()
    assert int(np.isnan(found.local.gaps).any(axis=0).sum()) == 0


def test_accuracy_rates_and_counts_agree_with_hand_computation():
    found = audit_of(TWO_GROUPS, notion="equalized_odds")
    assert found.accuracy == approximately(7 / 12)
    assert found.groups == ("F", "M")
    assert found.sites == ("a", "b")
    assert found.rates["true positive rate"] == approximately({"F": 2 / 3, "M": 2 / 3})
    assert found.rates["false positive rate"] == approximately({"F": 1 / 2, "M": 1 / 2})
    assert [rate.name for rate in found.local.rates] == ["true positive rate", "false positive rate"]
    np.testing.assert_allclose(found.local.values, [[[1 / 2, 1], [1, 1 / 2]], [[0, 1 / 2], [1, 1 / 2]]])
    assert found.as_dict()["counts"] == {"rows": [[3, 3], [2, 4]], "positives": [[2, 1], [1, 2]]}


def test_a_gap_names_its_groups_and_its_site():
    found = audit_of(THREE_GROUPS, notion="equalized_odds")
    assert named(found.global_gaps[1]) == Gap(Measured(1 / 2), "false positive rate", highest="F", lowest="X")
    assert tuple(map(named, found.local_gaps)) == (
        Gap(Measured(1), "true positive rate", highest="M", lowest="X", site="a"),
        Gap(Measured(1), "false positive rate", highest="F", lowest="X", site="b"),
    )


def named(gap: Gap) -> Gap:
    """A gap without what it rests on."""
    return dataclasses.replace(gap, value=None if gap.value is None else approximately(float(gap.value)))


def test_the_table_by_site_holds_each_site_in_order():
    first, second = audit_of(TWO_GROUPS, notion="equalized_odds").by_site
    assert (first.site, first.rows, second.site, second.rows) == ("a", 6, "b", 6)
    assert (first.accuracy, second.accuracy) == approximately((4 / 6, 3 / 6))
    assert [gap.value for gap in second.gaps] == approximately([1 / 2, 1 / 2])
    assert second.gap == approximately(1 / 2)
    assert second.undefined == ()


def test_probabilities_of_acceptance_are_audited_as_expectations():
    columns = {"sensitive_features": ["F", "F", "M", "M"], "notion": list(NOTIONS)}
    found = audit([0.25, 0.75, 0.5, 0.5], [1, 1, 0, 1], **columns, chances=True)
    assert found.rates["selection rate"] == {"F": 0.5, "M": 0.5}
    assert found.rates["true positive rate"] == {"F": 0.5, "M": 0.5}
    assert found.rates["false positive rate"] == {"F": None, "M": 0.5}
    assert found.accuracy == (0.25 + 0.75 + 0.5 + 0.5) / 4


def test_scores_are_no_decisions_and_are_not_taken_for_chances():
    columns = {"sensitive_features": ["F", "F", "M", "M"]}
    sentence = r"^decisions: row 1 is 0\.75, which is no decision; pass scores >= 0\.5, or chances=True if these are "
    with pytest.raises(InputError, match=sentence):
        audit([1.0, 0.75, 0.5, 0.5], [1, 1, 0, 1], **columns)
    with pytest.raises(InputError, match=sentence):
        compare([1, 0, 1, 0], [0.0, 0.75, 0.5, 0.5], [1, 1, 0, 1], **columns)
    with pytest.raises(InputError, match=sentence):
        impact_ratios([0.0, 0.75, 0.5, 0.5], categories={"sex": columns["sensitive_features"]})


# ---------------------------------------------------------------- what a gap rests on


row_strategy = st.tuples(
    st.sampled_from(["north", "south", "west"]),
    st.sampled_from(["F", "M", "X"]),
    st.integers(0, 1),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    st.sampled_from([0, 1, 2, 3]),
)


@st.composite
def tables(draw):
    """Rows of at least two groups, of which at least one weighs something."""
    rows = draw(st.lists(row_strategy, min_size=2, max_size=25))
    assume(len({row[1] for row in rows}) > 1 and any(row[4] for row in rows))
    return rows


def weighted_audit(rows, **options):
    sites, groups, labels, decisions, weights = zip(*rows, strict=True)
    options |= {"sensitive_features": groups, "sites": sites, "sample_weight": weights}
    return audit(decisions, labels, chances=True, **options)


def same(found, expected):
    return found is None if expected is None else found == approximately(float(expected))


def test_a_row_counts_in_a_rate_where_its_label_has_weight_in_the_denominator():
    # Weights of 0.25 and 3 in the denominator make neither fewer nor more rows; a label of weight 0 makes none.
    halves = Rate("quarter", 0.25, 0.0)
    uneven = Rate("uneven", 1.0, 2.0)
    benefit = Rate("benefit", -1.0, 2.0, base=(1.0, 0.0))
    positives = Rate("per positive", 1.0, 0.0, base=(0.0, 3.0))
    found = audit_of(TWO_GROUPS, notion=Notion("own", given=(halves, uneven, benefit, positives)))
    every, positive = [[3, 3], [2, 4]], [[2, 1], [1, 2]]
    assert found.local.rows.tolist() == [every, every, every, positive]
    assert [gap.value.rows for gap in found.by_site[0].gaps] == [3, 3, 3, 1]


@pytest.mark.parametrize("notion", [*NOTIONS.values(), BENEFIT], ids=lambda notion: notion.name)
@given(rows=tables())
@modest
def test_a_gap_rests_on_the_fewer_rows_of_its_two_groups(notion, rows):
    found = weighted_audit(rows, notion=notion)
    gaps = [gap for row in found.by_site for gap in row.gaps] + list(found.global_gaps)
    for gap in gaps:
        count = COUNTED[gap.rate][1]
        mine = [row for row in rows if gap.site in (None, row[0]) and count(row[2]) and row[4] > 0]
        fewer = min(sum(row[1] == group for row in mine) for group in (gap.highest, gap.lowest))
        assert gap.value is None or gap.value.rows == fewer


def test_a_rate_that_is_no_share_of_rows_has_no_interval():
    (gap,) = audit_of(TWO_GROUPS, notion=BENEFIT).global_gaps
    assert gap.value is not None
    assert gap.value.low is gap.value.high is gap.value.floor is None
    assert not gap.shown


def test_large_gaps_compare_only_groups_with_thirty_rows_behind_their_rate():
    cells = [("a", "F", 29, 29), ("a", "M", 30, 0), ("a", "X", 40, 10), ("b", "F", 30, 3), ("b", "M", 30, 0)]
    rows = [(site, group, 0, int(i < accepted)) for site, group, n, accepted in cells for i in range(n)]
    found = audit_of(rows)
    assert found.local.gap().value == 1.0
    assert found.local.large.gap().value == approximately(0.25)
    headline = found.headline_local
    assert (headline.highest, headline.lowest, headline.value.rows) == ("X", "M", 30)
    assert headline.value == found.local.large.gap().value
    assert [row.large_gap for row in found.by_site] == approximately([0.25, 0.1])
    small = found.as_dict()["small"]
    assert (small["cells"], small["sites"], found.small_sites) == (2, 2, 2)  # no X at b: no rows at all
    assert small["smallest"] == {"rate": "selection rate", "site": "b", "group": "X", "rows": 0}


def test_six_people_do_not_make_the_headline():
    cells = [("F", 300, 90), ("M", 300, 150), ("X", 6, 6)]
    rows = [("a", group, 0, int(i < accepted)) for group, n, accepted in cells for i in range(n)]
    found = audit_of(rows)
    assert (found.global_.gap().highest, found.global_.gap().lowest) == ("X", "F")
    assert (found.headline_global.highest, found.headline_global.lowest) == ("M", "F")
    assert found.headline_global.value == approximately(0.2)
    assert found.headline_global.value.low == pytest.approx(0.0927, abs=5e-5)


def test_where_no_group_is_large_the_headline_is_of_all():
    found = audit_of(TWO_GROUPS)
    assert found.headline_local == found.local.gap()


# ---------------------------------------------------------------- the oracle


def oracle_rate(name, rows):
    accepted, counted = COUNTED[name]
    top = sum(Fraction(weight) * Fraction(decision) * accepted(label) for _, _, label, decision, weight in rows)
    bottom = sum(Fraction(weight) * counted(label) for _, _, label, _, weight in rows)
    return top / bottom if bottom else None


def oracle_gap(name, rows, groups):
    rates = [oracle_rate(name, [row for row in rows if row[1] == group]) for group in groups]
    rates = [rate for rate in rates if rate is not None]
    return max(rates) - min(rates) if len(rates) > 1 else None


def largest(gaps):
    return max((gap for gap in gaps if gap is not None), default=None)


@pytest.mark.parametrize("notion", [*NOTIONS.values(), BENEFIT], ids=lambda notion: notion.name)
@given(rows=tables())
@modest
def test_every_figure_agrees_with_plain_loops(notion, rows):
    found = weighted_audit(rows, notion=notion)
    names = [rate.name for rate in notion.rates]
    assert found.groups == tuple(sorted({row[1] for row in rows}))
    assert found.sites == tuple(sorted({row[0] for row in rows}))
    right = sum(weight * (decision if label else 1 - decision) for _, _, label, decision, weight in rows)
    assert found.accuracy == approximately(right / sum(row[4] for row in rows))

    for name in names:
        for group in found.groups:
            of_group = [row for row in rows if row[1] == group]
            assert same(found.rates[name][group], oracle_rate(name, of_group))
            for k, site in enumerate(found.sites):
                local = found.local.values[names.index(name), k, found.groups.index(group)]
                of_cell = [row for row in of_group if row[0] == site]
                assert same(None if math.isnan(local) else local, oracle_rate(name, of_cell))

    by_site = [[oracle_gap(n, [r for r in rows if r[0] == c], found.groups) for n in names] for c in found.sites]
    assert same(found.global_gap, largest(oracle_gap(name, rows, found.groups) for name in names))
    assert same(found.local_gap, largest(map(largest, by_site)))
    assert int(np.isnan(found.local.gaps).any(axis=0).sum()) == sum(None in gaps for gaps in by_site)
    for row, gaps in zip(found.by_site, by_site, strict=True):
        assert same(row.gap, largest(gaps))
        assert all(same(gap.value, expected) for gap, expected in zip(row.gaps, gaps, strict=True))


@given(rows=tables())
@modest
def test_every_undefined_rate_has_its_sentence_and_no_other(rows):
    found = weighted_audit(rows, notion="equalized_odds")
    empty = sum(value is None for row in found.rates.values() for value in row.values())
    empty += int(np.isnan(found.local.values).sum())
    assert len(found.undefined) == empty
    assert [each for row in found.by_site for each in row.undefined] == [
        e for e in found.undefined if e.site is not None
    ]


@given(rows=tables())
@modest
def test_weights_count_like_repeated_rows(rows):
    repeated = [row[:4] for row in rows for _ in range(row[4])]
    assume(len({row[1] for row in repeated}) > 1)
    # A row of weight 0 keeps its group and site in the table, so only such tables are comparable.
    assume({row[0] for row in repeated} == {row[0] for row in rows})
    assume({row[1] for row in repeated} == {row[1] for row in rows})
    weighted, counted = (
        weighted_audit(rows, notion=list(NOTIONS)),
        audit_of(repeated, notion=list(NOTIONS), chances=True),
    )
    assert weighted.accuracy == counted.accuracy
    for side in ("global_gaps", "local_gaps"):  # rows are counted once, whatever they weigh
        assert [*map(named, getattr(weighted, side))] == [*map(named, getattr(counted, side))]


@given(rows=tables(), random=st.randoms(use_true_random=False))
@modest
def test_the_order_of_rows_does_not_matter(rows, random):
    shuffled = random.sample(rows, len(rows))
    assert (
        weighted_audit(rows, notion=list(NOTIONS)).as_dict() == weighted_audit(shuffled, notion=list(NOTIONS)).as_dict()
    )


@given(rows=tables())
@modest
def test_the_names_of_groups_and_sites_do_not_matter(rows):
    # New names in the same order; one column becomes tuples, the other integers.
    group_name, site_name = {"F": (0, "f"), "M": (1, "m"), "X": (2, "x")}, {"north": -5, "south": 0, "west": 300}
    renamed = [(site_name[site], group_name[group], *rest) for site, group, *rest in rows]
    before, after = (weighted_audit(table, notion="equalized_odds") for table in (rows, renamed))
    assert after.groups == tuple(group_name[group] for group in before.groups)
    assert after.sites == tuple(site_name[site] for site in before.sites)
    assert (after.accuracy, after.global_gap, after.local_gap) == (before.accuracy, before.global_gap, before.local_gap)
    np.testing.assert_array_equal(after.local.values, before.local.values)


@given(rows=tables(), given_sites=st.booleans())
@modest
def test_one_site_makes_the_local_gap_the_global_gap(rows, given_sites):
    _, groups, labels, decisions, weights = zip(*rows, strict=True)
    sites = ["only"] * len(rows) if given_sites else None
    options = {"sensitive_features": groups, "sites": sites, "sample_weight": weights, "notion": list(NOTIONS)}
    found = audit(decisions, labels, chances=True, **options)
    assert found.local_gap == found.global_gap
    assert [gap.value for gap in found.local_gaps] == [gap.value for gap in found.global_gaps]
    assert found.accuracy == found.by_site[0].accuracy


@given(rows=tables(), scale=st.sampled_from([1e-300, 1e-9, 0.5, 1e9, 1e300]))
@modest
def test_only_the_proportions_of_weights_matter(rows, scale):
    scaled = [(*row[:4], row[4] * scale) for row in rows]
    before, after = weighted_audit(rows, notion="equalized_odds"), weighted_audit(scaled, notion="equalized_odds")
    assert same(after.global_gap, before.global_gap)
    assert same(after.local_gap, before.local_gap)
    assert after.accuracy == approximately(before.accuracy)


def test_a_light_label_is_not_lost_beside_a_heavy_one():
    weights = [1e18, 3.0, 1.0, 1e18, 1.0, 1.0]
    found = audit(
        [1, 1, 0, 1, 1, 0],
        [1, 0, 0, 1, 0, 0],
        sensitive_features=list("FFFMMM"),
        sample_weight=weights,
        notion="predictive_equality",
    )
    assert found.rates["false positive rate"] == {"F": 0.75, "M": 0.5}


# ---------------------------------------------------------------- undefined figures


def test_an_undefined_rate_is_named_with_its_reason():
    rows = [("A", "F", 1, 1), ("A", "M", 1, 0), ("B", "F", 0, 1), ("B", "M", 1, 1), ("B", "M", 0, 0)]
    found = audit_of(rows, notion="equal_opportunity")
    (undefined,) = found.undefined
    assert str(undefined) == "true positive rate of F at B is undefined: nobody with label 1 is there"
    assert np.isnan(found.local.values[0, 1, 0])


def test_a_gap_over_fewer_than_two_defined_rates_is_none_and_not_zero():
    rows = [("A", "F", 1, 1), ("A", "M", 1, 1), ("B", "F", 0, 1), ("B", "M", 1, 1)]
    found = audit_of(rows, notion="equal_opportunity")
    assert found.by_site[1].gap is None
    assert found.by_site[1].gaps[0].as_dict()["reason"] == "fewer than two rates"
    assert found.local_gap == 0.0
    assert int(np.isnan(found.local.gaps).any(axis=0).sum()) == 1


def test_a_gap_leaves_out_groups_whose_rate_is_undefined():
    rows = [("A", "F", 1, 1), ("A", "M", 1, 0), ("A", "X", 0, 1)]
    found = audit_of(rows, notion="equal_opportunity")
    assert found.global_gap == 1.0
    assert found.rates["true positive rate"]["X"] is None


def test_gaps_that_are_undefined_everywhere_are_none():
    found = audit(
        [1, 0, 1], [0, 0, 0], sensitive_features=["F", "M", "M"], sites=["A", "A", "B"], notion="equal_opportunity"
    )
    assert found.global_gap is None
    assert found.local_gap is None
    assert found.local_gaps == found.global_gaps
    assert int(np.isnan(found.local.gaps).any(axis=0).sum()) == 2


def test_a_group_missing_at_a_site_has_no_rate_there():
    found = audit([1, 0, 1], [0, 0, 0], sensitive_features=["F", "M", "M"], sites=["A", "A", "B"])
    assert found.undefined == (Undefined("selection rate", "no rows", "F", "B"),)
    assert found.by_site[1].gap is None


def test_rows_of_weight_zero_define_no_rate():
    found = audit(
        [1, 0, 1], [1, 1, 0], sensitive_features=["F", "M", "M"], sample_weight=[0, 1, 1], notion=list(NOTIONS)
    )
    assert [str(each) for each in found.undefined] == [
        "selection rate of F is undefined: all have weight 0",
        "true positive rate of F is undefined: all with label 1 have weight 0",
        "false positive rate of F is undefined: nobody with label 0 is there",
    ]
    assert found.global_gap is None


def test_a_site_whose_rows_weigh_nothing_has_no_accuracy():
    found = audit(
        [1, 0, 1], [1, 1, 0], sensitive_features=["F", "M", "M"], sites=["A", "A", "B"], sample_weight=[1, 1, 0]
    )
    assert found.by_site[1].accuracy is None
    assert found.accuracy == 0.5


def test_a_rate_too_large_for_a_double_is_undefined():
    huge = Notion("huge", given=(Rate("stake", 1e308, 0.0, base=(1e-10, 0.0)),))
    found = audit([1, 1], [0, 1], sensitive_features=["F", "M"], notion=huge)
    assert str(found.undefined[0]) == "stake of F is undefined: its value is not finite"
    assert found.global_gap is None
    heavy = Notion("heavy", given=(Rate("share", 1.0, 0.0, base=(1e308, 0.0)),))
    assert audit([1, 1] * 9, [0, 1] * 9, sensitive_features=["F", "M"] * 9, notion=heavy).global_gap is None


# ---------------------------------------------------------------- labels, scores, notions


def test_demographic_parity_needs_no_labels():
    found = audit([1, 0, 1], None, sensitive_features=["F", "M", "M"], scores=[0.9, 0.1, 0.8])
    assert found.global_gap == 0.5
    assert found.accuracy is None
    assert found.by_site[0].accuracy is None
    assert "positives" not in found.as_dict()["counts"]
    assert [str(each) for each in found.undefined] == ["accuracy is undefined: there are no labels"]


@pytest.mark.parametrize(
    "notion",
    [
        ["equal_opportunity", "predictive_equality"],
        ("equal_opportunity", NOTIONS["predictive_equality"]),
        ["equalized_odds", "equal_opportunity"],
        {"local": "equalized_odds", "global": ["equal_opportunity", "predictive_equality"]},
        Notion("mine", given=[1, 0]),
    ],
    ids=str,
)
def test_a_notion_may_be_named_in_many_ways(notion):
    expected = audit_of(THREE_GROUPS, notion="equalized_odds")
    found = audit_of(THREE_GROUPS, notion=notion)
    assert found.as_dict() == expected.as_dict()


def test_the_two_sides_may_have_notions_of_their_own():
    found = audit_of(THREE_GROUPS, notion={"local": "demographic_parity", "global": "equal_opportunity"})
    assert list(found.rates) == ["true positive rate"]
    assert [rate.name for rate in found.local.rates] == ["selection rate"]
    assert found.global_gap == approximately(1 / 6)
    assert found.local_gap == approximately(3 / 4)


# ---------------------------------------------------------------- forms of input and output


COLUMN_FORMS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "objects": lambda values: np.array(values, dtype=object),
    "one column": lambda values: np.array(values).reshape(-1, 1),
}


@pytest.mark.parametrize("form", COLUMN_FORMS.values(), ids=COLUMN_FORMS)
def test_columns_of_any_form_give_the_same_audit(form):
    columns = [form(list(values)) for values in zip(*THREE_GROUPS, strict=True)]
    sites, groups, labels, decisions = columns
    found = audit(decisions, labels, sensitive_features=groups, sites=sites, notion="equalized_odds")
    assert found.as_dict() == audit_of(THREE_GROUPS, notion="equalized_odds").as_dict()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frame_columns_give_the_same_audit(library):
    frames = pytest.importorskip(library)
    names = ("site", "group", "label", "decision")
    table = frames.DataFrame(dict(zip(names, map(list, zip(*THREE_GROUPS, strict=True)), strict=True)))
    found = audit(
        table["decision"],
        table["label"],
        sensitive_features=table["group"],
        sites=table["site"],
        notion="equalized_odds",
    )
    assert found.as_dict() == audit_of(THREE_GROUPS, notion="equalized_odds").as_dict()


def test_pandas_categoricals_and_nullable_columns_are_read():
    pandas = pytest.importorskip("pandas")
    sites, groups, labels, decisions = zip(*TWO_GROUPS, strict=True)
    found = audit(
        pandas.Series(decisions, dtype="boolean"),
        pandas.Series(labels, dtype="Int64"),
        sensitive_features=pandas.Series(groups, dtype="category", index=range(50, 62)),
        sites=pandas.Series(sites, dtype="string"),
    )
    assert found.as_dict() == audit_of(TWO_GROUPS).as_dict()


def test_labels_that_look_alike_stay_apart_and_those_written_alike_are_refused():
    assert audit([1, 0, 1], [1, 1, 1], sensitive_features=[1, 2, 2], sites=["", "-", ""]).sites == ("", "-")
    with pytest.raises(InputError, match=r"^sensitive_features: 1 and '1' are both written 1; rename one of them\."):
        audit([1, 0, 1], [1, 1, 1], sensitive_features=[1, "1", "1"])


@given(rows=tables(), notion=st.sampled_from([*NOTIONS, list(NOTIONS)]))
@modest
def test_the_dictionary_survives_json(rows, notion):
    plain = weighted_audit(rows, notion=notion).as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


def test_labels_without_a_place_in_json_become_text():
    found = audit([1, 0], [1, 0], sensitive_features=[b"x", 1 + 2j], sites=[(1, "a"), math.inf])
    assert found.as_dict()["groups"] == ["b'x'", "(1+2j)"]
    assert sorted(found.as_dict()["sites"], key=str) == [[1, "a"], "inf"]
    assert json.dumps(found.as_dict(), allow_nan=False)


def test_the_dictionary_holds_the_figures():
    plain = audit_of(TWO_GROUPS).as_dict()
    assert plain["local_gap"]["value"] == 0.5
    assert (plain["local_gap"]["low"], plain["local_gap"]["rows"]) == (0.0, 2)
    assert plain["global_gaps"][0]["highest"] == "F"
    rates = plain["rates"]["selection rate"]
    assert {group: rates[group]["value"] for group in rates} == approximately({"F": 3 / 5, "M": 4 / 7})
    assert rates["F"]["rows"] == 5
    assert plain["counts"] == {"rows": [[3, 3], [2, 4]], "positives": [[2, 1], [1, 2]]}
    assert [row["site"] for row in plain["by_site"]] == ["a", "b"]


def test_long_lists_are_cut_for_people_only():
    rows = [(site, "FM"[site % 2], 1, 1) for site in range(50)]
    found = audit_of(rows)
    assert len(found.undefined) == 50


def test_an_audit_cannot_be_changed():
    found = audit_of(TWO_GROUPS)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.accuracy = 1.0


# ---------------------------------------------------------------- bad input


GOOD = {
    "decisions": [1, 0, 1, 0],
    "labels": [1, 0, 0, 1],
    "sensitive_features": ["F", "M", "F", "M"],
    "sites": ["a", "a", "b", "b"],
    "notion": "equalized_odds",
    "scores": [0.9, 0.1, 0.8, 0.2],
    "sample_weight": [1, 1, 1, 1],
}
TWINS = [Notion("one", given=(Rate("mine", 1.0, 0.0),)), Notion("two", given=(Rate("mine", 0.0, 1.0),))]


def audited(**columns):
    columns = {**GOOD, **columns}
    return audit(columns.pop("decisions"), columns.pop("labels"), **columns)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"decisions": [1, 0, 1]}, r"sample_weight: has 4 rows, but the first column has 3"),
        ({"labels": [1, 0, 1]}, r"labels: has 3 rows, but the first column has 4; pass one value per row\."),
        ({"sensitive_features": ["F", "M"]}, r"sensitive_features: has 2 rows, but the first column has 4"),
        ({"sites": ["a"] * 5}, r"sites: has 5 rows, but the first column has 4"),
        ({"scores": [0.5]}, r"scores: has 1 rows, but the first column has 4"),
        ({"decisions": [1, 0, math.nan, 0]}, r"decisions: row 2 is nan; every value must be a finite number"),
        ({"decisions": [1, 0, 2, 0]}, r"decisions: row 2 is 2; pass 0 and 1, or probabilities of acceptance\."),
        ({"decisions": [1, -0.1, 1, 0]}, r"decisions: row 1 is -0\.1; pass 0 and 1"),
        ({"decisions": ["yes", "no", "yes", "no"]}, r"decisions: row 0 is 'yes'; expected numbers"),
        ({"decisions": []}, r"decisions: no rows; pass at least one\."),
        ({"decisions": None}, r"decisions: got None; pass one value per row\."),
        ({"decisions": 1}, r"decisions: expected one value per row, got an array of shape \(\)\."),
        ({"decisions": [[1, 0], [1, 0]]}, r"decisions: expected one value per row, got an array of shape \(2, 2\)\."),
        ({"decisions": [[1], [1, 0]]}, r"decisions: rows of differing length"),
        ({"labels": [1, 0, 2, 1]}, r"labels: row 2 is 2; expected 0 and 1: map the positive label to 1"),
        ({"labels": [1, 0, math.nan, 1]}, r"labels: row 2 is nan; expected 0 and 1"),
        ({"labels": ["good", "bad", "bad", "good"]}, r"labels: row 0 is 'good'; expected 0 and 1"),
        ({"labels": None}, r"labels: got None, but a rate of the notion counts by label; pass 0 or 1 for every row\."),
        (
            {"sensitive_features": ["F"] * 4},
            r"sensitive_features: every row is of group 'F'; a gap needs at least two groups\.",
        ),
        ({"sensitive_features": None}, r"sensitive_features: got None"),
        (
            {"sensitive_features": ["F", None, "M", "M"]},
            r"sensitive_features: row 1 is missing; drop such rows, or give them a label",
        ),
        ({"sensitive_features": ["F", "M", math.nan, "M"]}, r"sensitive_features: row 2 is missing"),
        (
            {"sensitive_features": [["F"], ["M"], ["F"], ["M"]]},
            r"sensitive_features: labels must be hashable .* got \['F'\]\.",
        ),
        ({"sites": ["a", "a", "b", None]}, r"sites: row 3 is missing"),
        ({"notion": "equalised_odds"}, r"notion: unknown notion 'equalised_odds' \(did you mean 'equalized_odds'\?\)"),
        ({"notion": ["equalized_odds", 3]}, r"notion: unknown notion 3; use one of demographic_parity, "),
        ({"notion": 3}, r"notion: got 3; use one of demographic_parity, "),
        ({"notion": None}, r"notion: got None; use one of"),
        ({"notion": []}, r"notion: got an empty collection; name at least one notion\."),
        ({"notion": {}}, r"notion: got {}; use one of"),
        ({"notion": {"local": "equalized_odds"}}, r"notion: a mapping by side needs both 'local' and 'global'"),
        ({"notion": TWINS}, r"notion: two different rates are called 'mine'; give each a name of its own\."),
        ({"scores": [0.5, 0.5, 55, 0.5]}, r"scores: row 2 is 55, outside \[0, 1\]"),
        ({"sample_weight": [1, 1, -2, 1]}, r"sample_weight: row 2 is -2; weights must not be negative\."),
        ({"sample_weight": [0, 0, 0, 0]}, r"sample_weight: all weights are zero; at least one row must count\."),
        ({"sample_weight": [1, math.inf, 1, 1]}, r"sample_weight: row 1 is inf"),
        ({"sample_weight": [1e308] * 4}, r"sample_weight: their sum is infinite; divide all weights by the largest\."),
        ({"sample_weight": [1, 1]}, r"sample_weight: has 2 rows, but the first column has 4"),
    ],
)
def test_bad_input_is_answered_by_one_sentence(columns, sentence):
    with pytest.raises(InputError, match=f"^{sentence}"):
        audited(**columns)


def test_ids_in_place_of_groups_are_refused_before_memory_runs_out():
    ids = np.arange(15_000)
    with pytest.raises(
        InputError, match=r"^sensitive_features: 15,000 groups among 15,000 rows; name a column of groups to"
    ):
        audit(ids % 2, ids % 2, sensitive_features=ids)
    with pytest.raises(
        InputError, match=r"^sensitive_features: 5000 groups at 5000 sites are too many to audit; pass names"
    ):
        audit(ids % 2, ids % 2, sensitive_features=ids % 5000, sites=ids % 5000)


def test_the_default_notion_is_demographic_parity():
    assert audit_of(TWO_GROUPS).as_dict() == audit_of(TWO_GROUPS, notion=DEMOGRAPHIC_PARITY).as_dict()


class Opaque:
    """Something that is no column, no number and no label."""

    __hash__ = None


class Grumpy:
    """A column whose conversion fails."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("not on this device")


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.dates(),
    st.decimals(),
    st.fractions(),
    st.builds(Opaque),
    st.builds(object),
    st.sampled_from([np.float32(0.5), np.int8(-1), np.str_("x"), np.datetime64("NaT"), Rate("mine", 1.0, 0.0)]),
)
nested = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=6,
)
junk = st.one_of(
    nested,
    st.lists(scalars, min_size=4, max_size=4),
    st.lists(nested, min_size=4, max_size=4),
    st.lists(st.floats(), min_size=4, max_size=4).map(np.array),
    st.lists(scalars, min_size=4, max_size=4).map(lambda values: np.array([*values, None], dtype=object)[:4]),
    st.sampled_from([len, Opaque, Grumpy(), {1, 2}, iter([1, 0, 1, 0]), range(4), np.zeros((2, 2)), np.zeros(0)]),
    st.sampled_from([np.ma.array([1, 0, 1, 0], mask=[0, 0, 0, 1]), np.zeros(4, dtype="M8[D]"), np.zeros(4, "V2")]),
    st.sampled_from([*NOTIONS, {"local": "equalized_odds", "global": None}, {"local": 1}]),
)


def refusal_of(**columns) -> str | None:
    """The sentence a bad audit is refused with; None where it is accepted and can be shown."""
    try:
        found = audited(**columns)
    except InputError as refusal:
        return str(refusal)
    json.dumps(found.as_dict(), allow_nan=False)
    found.summary()
    return None


@pytest.mark.parametrize("name", GOOD)
@given(value=junk)
@examples(80)
def test_junk_in_one_argument_is_audited_or_refused_by_its_name(name, value):
    sentence = refusal_of(**{name: value})
    # Decisions set the number of rows, so another column may be blamed for not having as many.
    assert sentence is None or sentence.startswith(f"{name}: ") or (name == "decisions" and "rows, but" in sentence)


@given(columns=st.fixed_dictionaries(dict.fromkeys(GOOD, junk)))
@examples(80)
def test_junk_in_every_argument_is_audited_or_refused_in_a_sentence(columns):
    sentence = refusal_of(**columns)
    assert sentence is None or sentence.endswith(".")
