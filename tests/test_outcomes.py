"""The table of outcomes: states by intervals, the verdict of many, and what is shown first."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import logofair
from logofair.outcomes import (
    CALIBRATION_ROWS,
    EXCEEDED,
    MET,
    NEW_ROWS,
    NOT_MEASURED,
    TEST_ROWS,
    TRUE_GAP,
    UNCLEAR,
    Outcome,
    Outcomes,
    states_of,
)
from logofair.requirement import Requirement

GAP = Requirement.parse("selection rate gap <= 0.05 per site")
FLOOR = Requirement.parse("selection rate of women >= 0.3 overall")


def outcome(state, *, requirement=GAP, site=None, after=0.04, rows=400, basis=TEST_ROWS, before=0.2, limit=0.05):
    return Outcome(requirement, site, limit, before, after, 0.0, 0.2, rows, state, basis)


def table(*outcomes):
    return Outcomes(outcomes)


numbers = st.floats(0.0, 1.0)


@given(numbers, numbers, numbers, st.sampled_from(["<=", ">="]))
def test_the_state_follows_from_the_interval_and_the_limit(limit, one, other, relation):
    low, high = sorted((one, other))
    (state,) = states_of(relation, np.array([limit]), np.array([low]), np.array([high])).tolist()
    ends = (low, high) if relation == "<=" else (-high, -low)
    limit = limit if relation == "<=" else -limit
    assert (state == MET) == (ends[1] <= limit + 1e-9)
    assert (state == EXCEEDED) == (ends[0] > limit + 1e-9)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([MET, EXCEEDED, UNCLEAR, NOT_MEASURED]),
            st.sampled_from([GAP, FLOOR]),
            st.sampled_from([None, "a", "b"]),
            st.sampled_from([None, 5, 400]),
            st.sampled_from([CALIBRATION_ROWS, TEST_ROWS]),
        ),
        max_size=6,
    )
)
def test_a_build_fails_exactly_where_the_verdict_is_that_bad_and_no_line_is_of_a_site_too_small(rows):
    found = table(
        *(
            outcome(state, requirement=requirement, site=site, rows=count, basis=basis)
            for state, requirement, site, count, basis in rows
        )
    )
    for fail_on, bad in {EXCEEDED: {EXCEEDED}, UNCLEAR: {EXCEEDED, UNCLEAR, NOT_MEASURED}}.items():
        failing = found.failing(fail_on)
        assert (failing is not None) == (found.verdict in bad)
        for each in failing or ():
            assert each.state in bad
            assert each.basis == TEST_ROWS
            assert each.state == EXCEEDED or not each.is_small_site
        if found.verdict == EXCEEDED:
            assert set(found.where(state=EXCEEDED, basis=TEST_ROWS)) <= set(failing)


def test_an_exact_share_is_exceeded_on_either_side_and_met_by_itself_alone():
    low, high = np.array([0.2, 0.1, 0.1, 0.3]), np.array([0.2, 0.15, 0.3, 0.4])
    assert states_of("=", np.full(4, 0.2), low, high).tolist() == [MET, EXCEEDED, UNCLEAR, EXCEEDED]


def test_the_verdict_comes_from_test_rows_else_from_what_is_certified_else_nothing_is_measured():
    proved, certified, tested = (
        Outcomes((outcome(state, basis=basis),))
        for state, basis in ((MET, CALIBRATION_ROWS), (UNCLEAR, NEW_ROWS), (EXCEEDED, TEST_ROWS))
    )
    assert Outcomes().verdict == proved.verdict == NOT_MEASURED
    assert (proved + certified).verdict == UNCLEAR
    assert (proved + certified + tested).verdict == EXCEEDED
    unmeasured = Outcomes((outcome(NOT_MEASURED, after=None),))
    assert (certified + unmeasured).verdict == UNCLEAR


def test_a_handful_of_people_makes_no_verdict_unclear_by_itself():
    small = outcome(UNCLEAR, site="Zürich", rows=3, after=0.4)
    assert table(small, outcome(MET, site="Lyon")).verdict == MET
    assert table(small).verdict == UNCLEAR
    assert table(small, outcome(MET, requirement=FLOOR)).verdict == MET  # of all that could be measured
    assert table(small, outcome(UNCLEAR, site="Lyon")).verdict == UNCLEAR


def test_an_exceedance_always_counts():
    small = outcome(EXCEEDED, site="Zürich", rows=3, after=1.0)
    assert table(small, outcome(MET, site="Lyon"), outcome(UNCLEAR, site="Oslo")).verdict == EXCEEDED


def test_what_was_measured_nowhere_leaves_the_verdict_open():
    missing = outcome(NOT_MEASURED, requirement=FLOOR, after=None, rows=None)
    assert table(outcome(MET), missing).verdict == NOT_MEASURED
    assert table(outcome(MET, site="a"), outcome(NOT_MEASURED, site="b", after=None)).verdict == MET


def test_what_is_shown_first_is_exceeded_or_rests_on_enough_people_and_keeps_its_own_before():
    few = outcome(UNCLEAR, site="Zürich", rows=3, after=0.9, before=0.8)
    first = outcome(UNCLEAR, site="Oslo", after=0.11, before=0.3)
    found = table(outcome(MET, site="Lyon"), few, first)
    assert found.worst == first
    assert table(few).worst == few
    exceeded = outcome(EXCEEDED, site="Rom", rows=4, after=0.6)
    assert table(*found, exceeded).worst == exceeded
    assert first.room == pytest.approx(-0.06)


def test_a_table_is_a_sequence_and_plain_values():
    found = table(outcome(MET, site=("a", 1)), outcome(UNCLEAR, requirement=FLOOR))
    assert [each.state for each in found] == [MET, UNCLEAR]
    assert found[:1] == found.where(state=MET) == found.where(requirement=GAP) == found.where(site=("a", 1))
    assert found.requirements == (GAP, FLOOR)
    lines = json.loads(json.dumps(found.as_dict()))
    assert lines[0]["requirement"] == str(GAP)
    assert lines[0]["site"] == ["a", 1]
    frame = found.to_frame()
    assert frame["state"].to_list() == [MET, UNCLEAR]
    assert frame["after"].to_list() == [0.04, 0.04]
    assert frame["site"].to_list() == ["('a', 1)", None]


@given(st.lists(st.tuples(st.sampled_from([MET, EXCEEDED, UNCLEAR, NOT_MEASURED]), st.integers(0, 60), numbers)))
def test_a_brief_table_has_the_verdict_of_the_whole(found):
    afters = (None if state == NOT_MEASURED else after for state, _, after in found)
    every = (outcome(state, rows=rows, after=next(afters), site=str(i)) for i, (state, rows, _) in enumerate(found))
    whole = table(*every)
    for most in (1, 3):
        assert whole.brief(most).verdict == whole.verdict
        assert len(whole.brief(most)) == min(most, len(whole))
    assert whole.brief(100) == whole


def test_with_as_many_people_as_it_takes_a_limit_is_shown_to_hold_four_times_of_five():
    rng = np.random.default_rng(0)
    limit, gap = 0.05, TRUE_GAP * 0.05

    def found(people: int) -> Outcome:
        yes = rng.binomial(people, [0.4, 0.4 + gap])
        decisions = np.concatenate([np.arange(people) < each for each in yes]).astype(int)
        groups = np.repeat(["women", "men"], people)
        (one,) = logofair.audit(decisions, None, sensitive_features=groups, global_tolerance=limit).outcomes
        return one

    first = next(each for each in (found(400) for _ in range(100)) if each.state == UNCLEAR)
    assert first.rows_to_check > 400
    states = [found(first.rows_to_check).state for _ in range(200)]
    assert 0.7 < states.count(MET) / len(states) < 0.9


@pytest.mark.parametrize(
    ("sentence", "limit", "found"),
    [("ratio >= 0.8 overall", 0.8, (0.9, 0.7, 1.0)), ("gap <= 0.02 overall", 0.02, (0.0, 0.0, 0.1))],
)
def test_a_limit_that_is_not_shown_to_be_met_takes_more_people(sentence, limit, found):
    after, low, high = found
    one = Outcome(
        Requirement.parse(f"selection rate {sentence}"), None, limit, None, after, low, high, 100, UNCLEAR, TEST_ROWS
    )
    assert one.rows_to_check > 100
