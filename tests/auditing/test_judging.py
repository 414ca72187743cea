"""Requirements judged on rows: against counts by hand, and how often a state is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from logofair.auditing.chance import TAIL
from logofair.auditing.judging import CountedRules, judge
from logofair.auditing.measure import Tally
from logofair.columns.labels import encode
from logofair.outcomes import CALIBRATION_ROWS, EXCEEDED, MET, NOT_MEASURED, TEST_ROWS, UNCLEAR
from logofair.requirement import Requirement

N = 4000


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(0)
    group = np.array(["women", "men"])[rng.integers(0, 2, N)]
    site = np.array(["Oslo", "Lyon"])[rng.integers(0, 2, N)]
    after = (rng.random(N) < np.where(group == "men", 0.5, 0.4)).astype(float)
    before = (rng.random(N) < np.where(group == "men", 0.6, 0.3)).astype(float)
    return {"group": group, "site": site, "label": rng.integers(0, 2, N) > 0, "after": after, "before": before}


def counted(columns, *, labels=True):
    group, site = encode(columns["group"], "groups"), encode(columns["site"], "sites")
    rows = (columns["label"] if labels else None, None, group, site, None)
    return CountedRules.of(columns["before"], columns["after"], rows)


def judged(rules, *sentences, basis=TEST_ROWS, **more):
    return judge([Requirement.parse(each) for each in sentences], rules, basis, **more)


def rate(columns, rule, which):
    return columns[rule][which].mean()


def test_every_measure_is_what_is_counted_by_hand(columns):
    women, oslo, positive = columns["group"] == "women", columns["site"] == "Oslo", columns["label"]
    sentences = {
        "selection rate gap <= 0.05 at Oslo": lambda r: abs(
            rate(columns, r, women & oslo) - rate(columns, r, ~women & oslo)
        ),
        "equalized odds gap <= 0.05 overall": lambda r: max(
            abs(rate(columns, r, women & own) - rate(columns, r, ~women & own)) for own in (positive, ~positive)
        ),
        "true positive rate ratio >= 0.8 overall": lambda r: (
            rate(columns, r, women & positive) / rate(columns, r, ~women & positive)
        ),
        "selection rate of women >= 0.3 at Oslo": lambda r: rate(columns, r, women & oslo),
        "true positive rate >= 0.3 overall": lambda r: rate(columns, r, women & positive),
        "false positive rate <= 0.6 overall": lambda r: rate(columns, r, ~women & ~positive),
        "selection rate of everyone <= 0.6 at Oslo": lambda r: rate(columns, r, oslo),
        "accepted <= 0.45 overall": lambda r: columns[r].mean(),
        "selection rate of men - selection rate of everyone <= 0.02 overall": lambda r: (
            rate(columns, r, ~women) - columns[r].mean()
        ),
        "true positive rate of men - false positive rate of women <= 0.1 at Oslo": lambda r: (
            rate(columns, r, ~women & positive & oslo) - rate(columns, r, women & ~positive & oslo)
        ),
    }
    for basis in (TEST_ROWS, CALIBRATION_ROWS):
        found = judged(counted(columns), *sentences, basis=basis)
        assert len(found) == len(sentences)
        for each, by_hand in zip(found, sentences.values(), strict=True):
            assert each.before == pytest.approx(by_hand("before")), each.requirement
            assert each.after == pytest.approx(by_hand("after")), each.requirement
            assert each.basis == basis
            if basis == TEST_ROWS:
                assert each.low <= each.after <= each.high
            else:
                assert (each.low, each.high) == (None, None)
                assert each.state in (MET, EXCEEDED)


def test_where_a_requirement_holds_is_where_it_is_judged(columns):
    rules = counted(columns)
    sites = {
        text: [each.site for each in judged(rules, f"selection rate gap <= 0.05 {text}")]
        for text in ("overall", "per site", "per site except Lyon", "at Lyon", "at Rome")
    }
    assert sites == {
        "overall": [None],
        "per site": ["Lyon", "Oslo"],
        "per site except Lyon": ["Oslo"],
        "at Lyon": ["Lyon"],
        "at Rome": [],
    }
    assert [each.site for each in judged(rules, "accepted <= 0.5 per site", known=["Oslo"])] == ["Oslo"]


def test_a_limit_of_today_is_the_figure_of_the_unconstrained_rule_and_has_the_interval_of_the_change(columns):
    rules = counted(columns)
    (floor,) = judged(rules, "true positive rate of women >= today overall")
    assert floor.limit == floor.before
    which = (columns["group"] == "women") & columns["label"]
    change = (columns["after"] - columns["before"])[which]
    half = 1.96 * change.std() / np.sqrt(which.sum())
    assert [floor.low, floor.high] == pytest.approx([floor.after - half, floor.after + half], abs=1e-3)
    assert floor.state == MET  # 0.4 against 0.3 of about 1,000 people
    (unknown,) = judged(CountedRules(rules.after, rules.groups, rules.sites), "accepted <= today overall")
    assert (unknown.limit, unknown.state) == (None, NOT_MEASURED)


def test_without_labels_what_counts_by_label_is_not_measured(columns):
    rules = counted(columns, labels=False)
    found = judged(rules, "true positive rate gap <= 0.1 overall", "false positive rate >= 0.1 overall")
    assert [(each.after, each.state) for each in found] == [(None, NOT_MEASURED)] * 2


def test_a_ratio_of_nobody_says_nothing():
    (found,) = judged(of_cells(("a", "F", 50, 0), ("a", "M", 50, 0)), "selection rate ratio >= 0.8 overall")
    assert (found.after, found.state) == (None, NOT_MEASURED)


def test_a_bound_in_people_is_the_share_that_it_comes_to(columns):
    requirement = Requirement.parse("accepted = 150 people overall")
    (found,) = judge([requirement], counted(columns), TEST_ROWS, shares={requirement: 0.3})
    assert (found.limit, found.state) == (0.3, EXCEEDED)


def of_cells(*cells):
    """Rows by (site, group, how many, how many accepted)."""
    sites, groups = (tuple(dict.fromkeys(cell[k] for cell in cells)) for k in (0, 1))
    rows = np.zeros((len(sites), len(groups), 2), dtype=np.intp)
    accepted = np.zeros(rows.shape)
    for site, group, n, of_these in cells:
        at = sites.index(site), groups.index(group), 0
        rows[at], accepted[at] = n, of_these
    return CountedRules(Tally.counted(rows, rows.astype(float), accepted), groups, sites)


def test_a_handful_of_people_is_left_out_unless_it_shows_an_exceedance():
    cells = ("a", "F", 400, 120), ("a", "M", 400, 121)
    (without,) = judged(of_cells(*cells, ("a", "X", 4, 3)), "selection rate gap <= 0.15 overall")
    assert (without.groups, without.rows, without.state) == (("M", "F"), 400, MET)
    (shown,) = judged(of_cells(*cells, ("a", "X", 12, 12)), "selection rate gap <= 0.15 overall")
    assert (shown.groups, shown.rows, shown.state) == (("X", "F"), 12, EXCEEDED)
    (alone,) = judged(of_cells(("a", "F", 3, 3), ("a", "M", 9, 5)), "selection rate gap <= 0.15 overall")
    assert (alone.rows, alone.too_small, alone.state) == (3, True, UNCLEAR)


@pytest.mark.parametrize("sentence", [
    "selection rate gap <= 0 per site",
    "selection rate ratio >= 1 per site",
    "selection rate <= 0.3 per site",
    "selection rate >= 0.3 per site",
    "selection rate of a - selection rate of b <= 0 per site",
    "selection rate of a - selection rate of everyone <= 0 per site",
])  # fmt: skip
def test_where_every_limit_is_just_kept_hardly_any_table_shows_an_exceedance(sentence):
    rng, draws, alarms = np.random.default_rng(7), 150, 0
    for _ in range(draws):
        cells = [(c, g, 60, int(rng.binomial(60, 0.3))) for c in range(20) for g in "ab"]
        alarms += bool(judged(of_cells(*cells), sentence).where(state=EXCEEDED))
    assert alarms <= binom.ppf(0.999, draws, TAIL)


@pytest.mark.parametrize(("sentence", "rates"), [
    ("selection rate gap <= 0.1 overall", (0.35, 0.25, 0.3)),
    ("selection rate ratio >= 0.8 overall", (0.5, 0.4, 0.45)),
    ("selection rate <= 0.4 overall", (0.4, 0.4, 0.4)),
    ("selection rate of a - selection rate of everyone <= 0.1 overall", (0.45, 0.3, 0.3)),
])  # fmt: skip
def test_what_is_just_exceeded_is_hardly_ever_called_met(sentence, rates):
    rng, draws, wrong = np.random.default_rng(3), 400, 0
    for _ in range(draws):
        cells = [("x", g, 300, int(rng.binomial(300, p))) for g, p in zip("abc", rates, strict=True)]
        wrong += judged(of_cells(*cells), sentence)[0].state == MET
    assert wrong <= binom.ppf(0.999, draws, TAIL)


@pytest.mark.parametrize("sentence", [
    "selection rate of everyone - selection rate of a <= 0.3 per site",
    "selection rate of a - selection rate of everyone >= -0.3 per site",
    "selection rate of b - selection rate of everyone <= 0.3 per site",
])  # fmt: skip
def test_how_many_are_of_each_group_is_chance_too_where_everyone_is_compared(sentence):
    # Rates of 0.2 and 0.8, half of all people each: every limit is just kept, and so hardly ever called exceeded or,
    # were it a trifle stricter, met.
    rng, sites = np.random.default_rng(5), 1000
    rows = rng.binomial(300, 0.5, sites)
    cells = [
        (c, g, n, int(rng.binomial(n, p)))
        for c, first in enumerate(rows)
        for g, n, p in (("a", int(first), 0.2), ("b", 300 - int(first), 0.8))
    ]
    found = judged(of_cells(*cells), sentence)
    assert len(found.where(state=MET)) <= binom.ppf(0.999, sites, TAIL) + 0.01 * sites
    assert not found.where(state=EXCEEDED)


def test_of_several_rates_the_worst_is_told_and_no_rate_alone_is_worse(columns):
    found = judged(
        counted(columns),
        *(f"{name} gap <= 0.05 per site" for name in ("equalized odds", "true positive rate", "false positive rate")),
    )
    both, *single = (found.where(requirement=each) for each in found.requirements)
    for c, each in enumerate(both):
        assert each.after == max(one[c].after for one in single)
        assert each.high == max(one[c].high for one in single)
        assert each.low == max(one[c].low for one in single)


def test_of_several_ratios_the_smallest_is_told(columns):
    names = ("equalized odds", "true positive rate", "false positive rate")
    both, *single = (judged(counted(columns), f"{name} ratio >= 0.8 overall")[0] for name in names)
    assert both.after == min(one.after for one in single)
    assert both.low == min(one.low for one in single)
