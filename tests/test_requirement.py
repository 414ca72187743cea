"""Requirements as sentences: what is typed is what is meant, and what cannot be meant is refused at its word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair.notions import EQUALIZED_ODDS, KNOWN_RATES, Rate
from logofair.requirement import _KEYWORDS, TODAY, People, Requirement, Scope, read_requirements
from support.examples import examples

BENEFIT = Rate("benefit", -1.0, 2.0, base=(1.0, 0.0))
ODD = Rate('a "b", of = gap', 0.5, 0.5)
OWN = (BENEFIT, ODD)

names = st.one_of(st.text(min_size=0, max_size=8), st.sampled_from(sorted(_KEYWORDS)), st.sampled_from(["-", "=", "1"]))
scopes = st.one_of(
    st.just(Scope("overall")),
    st.builds(Scope, st.just("per site"), st.lists(names, max_size=4).map(tuple)),
    st.builds(Scope, st.just("at"), st.lists(names, min_size=1, max_size=4).map(tuple)),
)
shares = st.floats(0, 1)
rates = st.sampled_from([*KNOWN_RATES.values(), *OWN])
share_rates = st.sampled_from([*KNOWN_RATES.values(), ODD])
populations = st.one_of(st.just(()), names.map(lambda name: (name,)))


def built(measure, rates, who, relations, bounds, *, today=True):
    return st.builds(
        lambda *given: Requirement(
            measure=measure, rates=given[0], who=given[1], relation=given[2], bound=given[3], scope=given[4]
        ),
        rates,
        who,
        st.sampled_from(relations),
        st.one_of(bounds, st.just(TODAY)) if today else bounds,
        scopes,
    )


one = rates.map(lambda rate: (rate,))
one_share = share_rates.map(lambda rate: (rate,))
many = st.one_of(one_share, st.just(EQUALIZED_ODDS.rates))
requirements = st.one_of(
    built("gap", many, st.just(()), ["<="], st.floats(0, 1, exclude_max=True)),
    built("ratio", many, st.just(()), [">="], st.floats(0, 1, exclude_min=True)),
    built("rate", one_share, populations.map(lambda who: (who,)) | st.just(()), ["<=", ">="], shares),
    built("rate", st.just((BENEFIT,)), st.just(()), ["<=", ">="], st.floats(-1e100, 1e100)),
    built("difference", st.tuples(rates, share_rates), st.tuples(populations, populations), ["<=", ">="], shares),
    built("accepted", st.just(()), st.just(()), ["<=", ">=", "="], shares | st.integers(1, 10**9).map(People)),
    built("precision", st.just(()), populations.map(lambda who: (who,)), ["<=", ">="], shares, today=False),
    *(
        built(f"{name} loss{against}", st.just(()), st.just(()), ["<="], shares, today=False)
        for name in ("accuracy", "cost")
        for against in ("", " from unconstrained")
    ),
)


@given(requirements)
@examples(600)
def test_a_requirement_is_what_its_sentence_says(requirement):
    assert Requirement.parse(str(requirement), rates=OWN) == requirement


@given(requirements, st.data())
@examples(200)
def test_blanks_do_not_matter_around_words(requirement, data):
    words = str(requirement).split(" ")
    blanks = data.draw(st.lists(st.sampled_from([" ", "  ", "\t", "\n "]), min_size=len(words), max_size=len(words)))
    if '"' not in str(requirement):
        spaced = "".join(blank + word for blank, word in zip(blanks, words, strict=True)) + " "
        assert Requirement.parse(spaced, rates=OWN) == requirement


@given(st.text(max_size=60))
@examples(300)
def test_any_text_is_understood_or_refused(text):
    try:
        requirement = Requirement.parse(text, rates=OWN)
    except InputError:
        return
    assert Requirement.parse(str(requirement), rates=OWN) == requirement


words = st.one_of(
    st.sampled_from([*sorted(_KEYWORDS), "<=", ">=", "=", "-", ",", "0.02", "150", '"', '"New York"', "benefit", "F"])
)


@given(requirements, st.data())
@examples(400)
def test_a_sentence_with_other_words_in_it_is_understood_or_refused(requirement, data):
    found = str(requirement).split(" ")
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(found)))
        found[place : place + data.draw(st.integers(0, 1))] = data.draw(st.lists(words, max_size=2))
    try:
        understood = Requirement.parse(" ".join(found), rates=OWN)
    except InputError:
        return
    assert Requirement.parse(str(understood), rates=OWN) == understood


@given(requirements, st.data())
@examples(200)
def test_a_sentence_that_breaks_off_is_told_with_what_it_may_go_on(requirement, data):
    text = str(requirement)
    if '"' in text or '"' in str(requirement.scope.sites):
        return
    words = text.replace(",", " ,").split(" ")
    length = data.draw(st.integers(0, len(words) - 1))
    try:
        Requirement.parse(" ".join(words[:length]), rates=OWN)
    except InputError as error:
        allowed = str(error).split("stands where ")[-1]
        kinds = ("a name", "a number", "a whole number")
        assert f"'{words[length]}" in allowed or words[length] in allowed or any(kind in allowed for kind in kinds)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("", "the end stands where 'equalized odds', 'selection rate'.*'accepted', 'precision of', 'accuracy loss'"),
        ("accuracy loss >= 0.1 overall", "'>=' stands where '<=' or 'from unconstrained' may"),
        ("accuracy loss <= today overall", "'today' stands where a number may"),
        ("accuracy loss <= 2 overall", "a bound of 2; a loss of accuracy lies between 0 and 1"),
        ("cost loss <= -1 overall", "a cost loss of -1; it is 0 or more"),
        ("selecton rate gap <= 0.02 overall", r"'selecton' stands where .*did you mean 'selection rate'"),
        ("selection rate gap < 0.02 overall", r"'<' stands where '<=', 'by all' or 'by' may \(did you mean '<='\?\)"),
        ("selection rate gap >= 0.02 overall", "'>=' stands where '<=', 'by all' or 'by' may"),
        ("selection rate ratio <= 0.8 overall", "'<=' stands where '>=', 'by all' or 'by' may"),
        ("selection rate = 0.8 overall", "'=' stands where 'gap', 'ratio', 'of', '<=', '>=', 'by all' or 'by' may"),
        ("selection rate gap<=0.02 overall", "'gap<=0.02' stands where 'gap', 'ratio'"),
        ("selection rate gap <= 0.02", "the end stands where 'overall', 'per site except', 'per site' or 'at' may"),
        ("selection rate gap <= 0.02 at", "the end stands where a name may"),
        ("selection rate gap <= 0.02 at Oslo Bergen", "'Bergen' stands where ',' or the end may"),
        ("selection rate gap <= 0.02 at Oslo,", "the end stands where a name may"),
        ("selection rate of gap >= 0.1 overall", "'gap' stands where 'everyone' or a name may"),
        ('selection rate of "F >= 0.1 overall', "stands where 'everyone' or a name may"),
        ("equalized odds of F >= 0.2 overall", "'of' stands where 'gap' or 'ratio' may"),
        ("selection rate gap by <= 0.1 overall", "'<=' stands where 'all' or a name may"),
        ("selection rate gap by sex, race <= 0.1 overall", "',' stands where 'and' or '<=' may"),
        ("selection rate of a and <= 0.1 overall", "'<=' stands where a name may"),
        ("selection rate of a by sex >= 0.1 overall", "'by' stands where 'and', '-', '<=' or '>=' may"),
        ("accepted by sex <= 0.1 overall", "'by' stands where '<=', '>=' or '=' may"),
        ("precision gap <= 0.1 overall", "a gap in precision is not linear in who is accepted"),
        ("precision >= 0.1 overall", "'>=' stands where 'of' may"),
        ("precision of F >= today overall", "'today' stands where a number may"),
        ("precision of F >= 60 overall", "a bound of 60; precision lies between 0 and 1"),
        ("selection rate gap <= 150 people overall", "'people' stands where 'overall'"),
        *(
            (f"accepted = {n} people overall", "a number of people is a whole number above 0")
            for n in (1.5, -1, 10**30)
        ),
        ("accepted = 0 people overall", "got 0 people; a number of people is a whole number above 0"),
        ("selection rate gap <= nan overall", "'nan' stands where a number or 'today' may"),
        ("selection rate gap <= 1e999 overall", "got the bound inf"),
        ("selection rate gap <= 2 overall", "a gap of 2; .*write 0.02 for 2 points"),
        ("selection rate gap <= -0.1 overall", "a gap of -0.1; it is at least 0"),
        ("selection rate ratio >= 1.2 overall", "a ratio of 1.2; it is above 0 and at most 1"),
        ("selection rate >= 60 overall", "a bound of 60; rates lie between 0 and 1"),
        ("benefit ratio >= 0.5 overall", "a ratio compares shares of people"),
        ("cost gap <= 0.5 overall", "'gap' stands where 'loss'.* may"),
    ],
)
def test_what_cannot_be_meant_is_refused_at_its_word(text, pattern):
    with pytest.raises(InputError, match=f"^require: .*{pattern}"):
        Requirement.parse(text, rates=OWN)


@pytest.mark.parametrize(
    ("text", "by", "who"),
    [
        ("selection rate gap by sex <= 0.02 per site", ("sex",), ()),
        ("true positive rate ratio by sex and race >= 0.8 overall", ("sex", "race"), ()),
        ("equalized odds gap by all <= 0.1 overall", "all", ()),
        ('selection rate gap by "all" and "age group" <= 0.1 at A, B', ("all", "age group"), ()),
        ("true positive rate by race >= 0.7 overall", ("race",), ()),
        ("selection rate of women and Black >= 0.3 overall", (), (("women", "Black"),)),
        ('precision of sex=women and "age group"="over ""60""" >= 0.3 overall', (), None),
        ("selection rate of race=x - selection rate of everyone >= -0.1 overall", (), ((("race", "x"),), ())),
    ],
)
def test_a_requirement_says_by_which_columns_and_of_whom(text, by, who):
    found = Requirement.parse(text)
    assert found.by == by
    assert found.who == ((("sex", "women"), ("age group", 'over "60"')),) if who is None else found.who == who
    assert str(found) == text
    assert Requirement.parse(str(found)) == found


def test_everybody_a_group_and_each_group_are_three_things():
    texts = [f"selection rate {who}>= 0.2 overall" for who in ("of everyone ", "of F ", "")]
    assert [Requirement.parse(text).who for text in texts] == [((),), (("F",),), ()]
    assert Requirement.parse('selection rate of "everyone" >= 0.2 overall').who == (("everyone",),)


def test_equalized_odds_are_both_its_rates():
    assert Requirement.parse("equalized odds gap <= 0.05 at Oslo").rates == EQUALIZED_ODDS.rates


def test_a_scope_says_which_sites_it_covers():
    per_site, but, at = (
        Requirement.parse(f"selection rate gap <= 0.1 {where}").scope
        for where in ("per site", "per site except 1", "at 1, north")
    )
    assert [[scope.covers(site) for site in (1, "north", 2)] for scope in (per_site, but, at)] == [
        [True, True, True],
        [False, True, True],
        [True, True, False],
    ]
    assert [scope.is_global for scope in (per_site, Scope("overall"))] == [False, True]


def test_names_of_own_rates_that_have_a_meaning_already_are_refused():
    for name in ("selection rate", "gap", "equalized odds", "cost"):
        with pytest.raises(InputError, match=f"Rate '{name}': the name has a meaning of its own"):
            Requirement.parse("accepted <= 0.2 overall", rates=[Rate(name, 0.5, 0.0)])
    with pytest.raises(InputError, match="two rates have this name"):
        Requirement.parse("accepted <= 0.2 overall", rates=[BENEFIT, Rate("benefit", 1.0, 0.0)])
    assert Requirement.parse("selection rate gap <= 0 overall", rates=KNOWN_RATES.values()).bound == 0.0


@pytest.mark.parametrize(
    "given",
    [
        {"measure": "gaps"},
        {"relation": "<"},
        {"rates": ()},
        {"rates": (BENEFIT, ODD)},
        {"who": (("F",),)},
        {"bound": "tomorrow"},
        {"bound": None},
        {"bound": People(3)},
        {"measure": None},
    ],
)
def test_an_object_that_no_sentence_says_is_refused(given):
    sound = {"measure": "gap", "rates": (ODD,), "relation": "<=", "bound": 0.1, "scope": Scope("overall")}
    Requirement(**sound)
    with pytest.raises(InputError, match=r"^require: "):
        Requirement(**(sound | given))


@pytest.mark.parametrize(("where", "sites"), [("overall", ("Oslo",)), ("at", ()), ("everywhere", ())])
def test_a_scope_that_no_sentence_says_is_refused(where, sites):
    with pytest.raises(InputError, match=r"^require: "):
        Scope(where, sites)


def test_a_list_may_hold_sentences_and_requirements_and_counts_each_once():
    text = "selection rate gap <= 0.02 overall"
    assert read_requirements([text, Requirement.parse(text), text]) == (Requirement.parse(text),)
    assert read_requirements(text) == read_requirements([text])
    for wrong in (3, [3], None):
        with pytest.raises(InputError, match=r"^require: got "):
            read_requirements(wrong)
