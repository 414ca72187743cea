"""Pages: the verdict first, on one screen whatever the data, and every figure that of the outcome table."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import logofair
from logofair.auditing import compare
from logofair.notions import NOTIONS
from logofair.outcomes import (
    CALIBRATION_ROWS,
    EXCEEDED,
    MET,
    NEW_ROWS,
    NOT_MEASURED,
    TEST_ROWS,
    UNCLEAR,
    Outcome,
    Outcomes,
)
from logofair.requirement import Requirement
from logofair.words import About, Page, in_memory, page_of
from logofair.words.answers import rely_answer
from logofair.words.charts import Svg
from logofair.words.fitted import fit_page
from logofair.words.limits import Places, certified_places, conflict_lines, limits_table, verdict
from logofair.words.phrases import cut, names_of, width

LINES, COLUMNS = 20, 80
HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e"
LONG = "The united municipalities of the upper and the lower valley, east"


def people(rows: int, sites: int, groups: int = 2, names: tuple[object, ...] = (), seed: int = 0):
    """Scores, labels, groups and sites of as many people."""
    rng = np.random.default_rng(seed)
    named = np.array([*names, *(f"group {i}" for i in range(len(names), groups))], dtype=object)
    group, site = rng.integers(0, groups, rows), np.arange(rows) % sites
    score = rng.beta(2 + group % 3, 3, rows)
    return score, (rng.random(rows) < score).astype(int), named[group], np.array([f"site {i}" for i in site])


def solved(rows: int = 3000, sites: int = 3, *, test: bool = True, **options):
    """A solution, tested on a half of the people."""
    made = {name: options.pop(name) for name in ("groups", "names", "seed") if name in options}
    score, label, group, site = people(2 * rows, sites, **made)
    part, other = slice(0, rows), slice(rows, None)
    solution = logofair.fit(score[part], label[part], sensitive_features=group[part], sites=site[part], **options)
    return (
        solution.test(score[other], label[other], sensitive_features=group[other], sites=site[other])
        if test
        else solution
    )


@pytest.fixture(scope="module")
def tested():
    return solved(local_tolerance=0.05, global_tolerance=0.02)


USUAL = [f"selection rate gap <= 0.02 {where}" for where in ("per site", "overall")]
CASES = {
    "three sites": {},
    "one site": {"sites": 1},
    "one person per site": {"rows": 40, "sites": 40},
    "a thousand sites": {"rows": 8000, "sites": 1000},
    "twelve groups": {"groups": 12},
    "names that are long, hostile, or read from the right": {
        "groups": 4,
        "names": (LONG, HOSTILE, "נשים", "👩‍🔬 women"),
    },
    "nothing required": {"local_tolerance": None, "global_tolerance": None},
    "not tested": {"test": False},
    "certified": {"test": False, "confidence": 0.95, "local_tolerance": 0.2, "global_tolerance": 0.2},
    "floors and a capacity": {"require": [*USUAL, "true positive rate >= 0.2 per site", "accepted <= 0.6 overall"]},
    "costs": {"costs": (1, 3)},
    "equalized odds": {"notion": "equalized_odds"},
    "the paper's algorithm": {"solver": "algorithm1"},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_page_is_one_screen_of_80_columns_whatever_the_data(case):
    solution = solved(**case)
    about = About(in_memory("people.csv", solution), "logofair fit people.csv", written=("policy.json",))
    text = page_of(solution, about).text()
    assert len(text.splitlines()) <= LINES, text
    assert max(map(width, text.splitlines())) <= COLUMNS, text
    assert "\x1b" not in text
    for result in (solution.policy, solution.compared, solution.compared.second):
        if result is not None:
            own = result.summary()
            assert len(own.splitlines()) <= LINES, own
            assert max(map(width, own.splitlines())) <= COLUMNS, own


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_report_is_complete_small_and_holds_no_markup_of_names(case, tmp_path):
    solution = solved(**case)
    solution.report(tmp_path / "a.html", About(in_memory("people", solution), "logofair fit people"))
    page = (tmp_path / "a.html").read_text("utf-8")
    assert (tmp_path / "a.html").stat().st_size < 1_500_000
    assert not re.search(r"(?:src|href)=\"?(?:https?:)?//", page)
    assert "default-src 'none'" in page or "default-src &#39;none&#39;" in page
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert "\u202e" not in page
    tags = Tags()
    tags.feed(page)
    assert not tags.open, tags.open
    assert page.count("<table") == page.count("<caption")


class Tags(HTMLParser):
    """The elements that were opened and not closed in their turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_of_five_sites_has_at_most_1200_words():
    page = page_of(solved(sites=5), About(command="logofair fit people.csv")).html()
    body = re.sub(r"<(style|script|title)[^>]*>.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    assert len(body.split()) <= 1200


def test_every_figure_of_the_first_screen_is_that_of_the_outcome_table(tested):
    page = page_of(tested)
    found = tested.outcomes.where(basis=TEST_ROWS)
    wanted = {f"{100 * value:.1f}" for each in found for value in (each.before, each.after) if value is not None}
    shown = {cell.text if hasattr(cell, "text") else cell for line in page.table.rows for cell in line[1:3]}
    assert shown <= wanted
    first = page.table.rows[0]
    over_all = next(each for each in found if each.site is None)
    assert page.verdict.state == tested.outcomes.verdict
    if first[0] == "all sites":
        assert first[2] == f"{100 * over_all.after:.1f}"
    tile = page.answers[0]
    assert f"{100 * over_all.before:.1f} -> {100 * over_all.after:.1f}" == tile.figure or over_all.state != MET
    comparison = tested.tested
    accuracy = f"{100 * comparison.first.accuracy:.1f} -> {100 * comparison.second.accuracy:.1f}"
    assert next(answer for answer in page.answers if answer.name == "Cost").figure == accuracy


def test_what_changes_side_adds_up_to_the_rows_and_the_share_that_changes(tested):
    comparison = tested.tested
    moved = np.abs(comparison.second.accepted - comparison.first.accepted)
    assert moved <= comparison.changed <= 1
    (table,) = page_of(tested).beside
    of_all = [int(line[1].split(" of ")[1].replace(",", "")) for line in table.rows]
    assert sum(of_all) == comparison.second.global_.tally.rows.sum()


def test_decisions_that_change_are_counted_by_row():
    found = compare([1, 1, 0, 0, 1], [1, 0, 1, 0, 1], [1, 0, 1, 0, 1], sensitive_features=list("aabba"))
    assert found.changed == pytest.approx(2 / 5)


def outcome(
    sentence: str, site=None, *, state: str, basis: str = TEST_ROWS, after=0.05, rows: int = 200, **more
) -> Outcome:
    """An outcome of a gap that was found to be 5 points."""
    ends = {"low": 0.0, "high": 0.1} if basis == TEST_ROWS else {"low": None, "high": None}
    given = {"limit": 0.02, "before": 0.2, "price": None, "rows_needed": None} | ends | more
    return Outcome(Requirement.parse(sentence), site, after=after, rows=rows, state=state, basis=basis, **given)


GLOBAL, LOCAL = "selection rate gap <= 0.02 overall", "selection rate gap <= 0.02 per site"


@pytest.mark.parametrize(
    ("found", "state", "said"),
    [
        (
            [outcome(GLOBAL, state=MET, after=0.01, high=0.015)],
            MET,
            "fell from 20.0 to 1.0 points, within your limit (2",
        ),
        (
            [outcome(GLOBAL, state=UNCLEAR)],
            UNCLEAR,
            "Your limit is 2; with 200 people in the smallest group it could be 0 to 10",
        ),
        ([outcome(GLOBAL, state=EXCEEDED, low=0.03)], EXCEEDED, "beyond your limit (2): chance does not explain it"),
        ([outcome(GLOBAL, state=MET, basis=CALIBRATION_ROWS)], NOT_MEASURED, "Not tested on other people: add --test"),
        ([outcome(GLOBAL, state=MET, basis=NEW_ROWS, after=None)], MET, "Certified for new people: your limit holds"),
        (
            [outcome(LOCAL, "Oslo", state=MET, after=0.01), outcome(LOCAL, "Zürich", state=UNCLEAR, rows=3)],
            MET,
            "Of 2 sites: 1 met, 1 too small to judge.",
        ),
        (
            [
                outcome(GLOBAL, state=MET, after=0.01),
                outcome(LOCAL, "Oslo", state=EXCEEDED, rows=3, after=0.9, low=0.4),
            ],
            EXCEEDED,
            "The gap in selection rate at Oslo rose from 20.0 to 90.0 points, beyond your limit",
        ),
    ],
)
def test_the_verdict_is_one_state_and_says_the_figure_the_limit_and_what_it_could_be(found, state, said):
    shown = verdict(Outcomes(tuple(found)), Places(), "add --test FILE")
    assert shown.state == state
    assert said in shown.words


def test_small_sites_are_named_and_never_the_headline():
    small = [outcome(LOCAL, f"site {i}", state=UNCLEAR, rows=i, after=0.6) for i in range(1, 9)]
    table = limits_table(Outcomes((outcome(GLOBAL, state=MET, after=0.01), *small)), Places())
    assert [line[0] for line in table.rows] == ["all sites"]
    assert table.after == "Too few people to judge: site 1 (1), site 2 (2), site 3 (3) and 5 more."


def test_an_unclear_verdict_says_what_these_people_can_check_what_it_takes_and_what_to_do():
    solution = solved(600, 3, local_tolerance=0.05, global_tolerance=0.02)
    assert solution.outcomes.verdict == UNCLEAR
    page = page_of(solution, About(command="logofair fit people.csv"))
    (over_all,) = solution.outcomes.evidence.where(site=None)
    (rely,) = (each for each in page.answers if each.name == "Rely on it")
    assert rely.figure == "Not yet"
    assert f"({over_all.rows:,}), enough to show {np.ceil(100 * over_all.high):.0f} points" in rely.detail
    assert page.table.rows[0][3].endswith(f" to {np.ceil(100 * over_all.high):.0f}")  # the number of the table
    rows = solution.tested.second.global_.tally.people[0, :, -1]
    smallest = solution.tested.second.groups[int(np.argmin(rows))]
    assert rely.detail.startswith(f"the smallest group tested is {smallest} ({min(rows):,})")
    assert f"2 points would take about {float(f'{over_all.rows_to_check:.2g}'):,.0f}" in rely.detail
    assert "No site has enough tested for 5 points" in rely.detail
    assert page.next == "logofair.recommend(scores, labels, sensitive_features=..., sites=...)"


def test_all_that_could_be_measured_is_met_at_so_many_sites():
    found = [outcome(LOCAL, f"site {i}", state=MET, after=0.01) for i in range(3)]
    few = [
        outcome(LOCAL, "small", state=UNCLEAR, rows=3),
        outcome(LOCAL, "none", state=NOT_MEASURED, rows=0, after=None),
    ]
    answer = rely_answer(Outcomes((*found, *few)), Places(), "")
    assert (answer.figure, answer.detail) == ("Yes", "at 3 of 5 sites; 2 too small to judge")


def test_a_site_with_two_limits_that_it_has_too_few_people_for_is_one_site():
    loss = "accuracy loss <= 0.02 per site"
    found = [outcome(sentence, f"site {i}", state=UNCLEAR, after=0.01) for sentence in (LOCAL, loss) for i in range(2)]
    answer = rely_answer(Outcomes((*found, outcome(LOCAL, "large", state=MET, after=0.01))), Places(), "")
    assert "2 sites have too few tested for 2 points" in answer.detail


def test_a_loss_is_of_all_people_and_no_group_is_named_for_it():
    lost = outcome("accuracy loss <= 0.04 overall", state=UNCLEAR, limit=0.04, rows=1000)
    assert rely_answer(Outcomes((lost,)), Places(), "").detail.startswith("1,000 people were measured, and chance")


def test_what_cannot_be_relied_on_yet_is_not_applied_next_and_a_report_says_next_before_its_command():
    score, label, group, site = people(12000, 3, seed=3)
    half, few = slice(0, 11000), slice(11000, None)
    solution = logofair.fit(
        score[half],
        label[half],
        sensitive_features=group[half],
        sites=site[half],
        local_tolerance=0.15,
        global_tolerance=0.15,
        confidence=0.95,
    ).test(score[few], label[few], sensitive_features=group[few], sites=site[few])
    page = fit_page(solution, next_="logofair apply", test="logofair audit")
    assert solution.outcomes.verdict == UNCLEAR
    assert page.next == "logofair audit"
    assert page.next_tells.startswith("test it on more people at site ")
    (rely,) = (each for each in page.answers if each.name == "Rely on it")
    assert rely.detail.endswith("; certified for new people")
    box = page.html().split('<div class="next">')[1]
    assert box.split("<code>")[0].strip().startswith("<p>Next, test it on more people")


def test_people_are_counted_with_the_label_that_a_rate_counts():
    sentence = "true positive rate gap <= 0.02"
    small = outcome(f"{sentence} per site", "Oslo", state=UNCLEAR, rows=4)
    found = Outcomes((outcome(f"{sentence} overall", state=UNCLEAR, rows=542), small))
    places = Places(label="hired")
    assert (
        "the smallest group tested has 542 with hired 1, enough to show 10 points"
        in rely_answer(found, places, "").detail
    )
    assert "with 542 people (hired 1) in the smallest group" in verdict(found, places, "").words
    assert limits_table(found, places).after == "Too few people with hired 1 to judge: Oslo (4)."


@pytest.mark.parametrize(
    ("open_", "said"),
    [
        ((), "certified for new people"),
        (("east",), "certified for new people everywhere but east"),
        ((None,), "certified for new people at every site"),
        (("east", "west", None), "certified for new people at north"),
        (("north", "east", "west", None), ""),
    ],
)
def test_what_is_certified_is_named_by_its_places(open_, said):
    found = [
        outcome(LOCAL if site else GLOBAL, site, state=UNCLEAR if site in open_ else MET, basis=NEW_ROWS)
        for site in (None, "north", "east", "west")
    ]
    assert certified_places(Outcomes(tuple(found)), Places()) == said


def test_limits_of_another_kind_than_those_shown_are_counted_as_limits_not_as_sites():
    lost = [
        outcome("accuracy loss <= 0.1 per site", f"site {i}", state=NOT_MEASURED, after=None, low=None, high=None)
        for i in range(3)
    ]
    table = limits_table(Outcomes((outcome(GLOBAL, state=MET, after=0.01), *lost)), Places())
    assert table.after == "3 more limits: all not measured."


def test_another_notion_is_named_with_its_price_where_it_is_cheaper_and_labels_differ():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 4000)
    score = rng.beta(1 + 2 * group, 3 - 2 * group)
    label = (rng.random(4000) < score).astype(int)
    solution = logofair.fit(score, label, sensitive_features=group, global_tolerance=0.0)
    own, other = solution.prices_with(NOTIONS["equal_opportunity"])
    again = logofair.fit(score, label, sensitive_features=group, global_tolerance=0.0, notion="equal_opportunity")
    free = logofair.fit(score, label, sensitive_features=group, global_tolerance=None, local_tolerance=None)
    assert own == pytest.approx(free.certificate.primal - solution.certificate.primal, abs=1e-6)
    assert other == pytest.approx(free.certificate.primal - again.certificate.primal, abs=1e-6)
    (warning,) = page_of(solution).warnings
    assert own - other > 0.005
    assert f"would cost about {100 * other:.1f} points." in warning


def test_a_conflict_is_two_lines_and_the_least_change_resolves_it():
    rows = {"scores": [0.9, 0.6, 0.4, 0.2] * 25, "labels": None, "sensitive_features": [*"abab"] * 25}
    require = ["accepted <= 0.1 overall", "selection rate of a >= 0.63 overall"]
    with pytest.raises(logofair.InfeasibleError) as caught:
        logofair.fit(**rows, calibration="none", require=require)
    first, last = conflict_lines(caught.value.least_relaxation).splitlines()
    assert all(f"'{each}'" in first for each in require)
    for changed, held in zip(re.findall("'([^']*)'", last), reversed(require), strict=True):
        logofair.fit(**rows, calibration="none", require=[changed, held])


def test_nothing_measured_is_said_and_what_would_help():
    solution = solved(test=False)
    page = page_of(solution, About(command="logofair fit people.csv"))
    assert page.verdict.state == NOT_MEASURED
    assert page.text().startswith("These decisions: 3,000 people at 3 sites")
    assert "NOT MEASURED" in page.text()
    assert "add --test FILE, or --confidence 0.95" in " ".join(page.text().split())


def test_verbose_says_everything_and_the_report_and_the_notebook_show_the_same(tested):
    text, page = tested.summary(verbose=True), tested.page()
    for section in page.sections:
        assert f"\n{section.title}\n" in text
        assert section.title in page.html()
    assert page.verdict.words in page.html()
    notebook = tested._repr_html_()
    assert page.verdict.word in notebook
    assert all(answer.figure.split(" -> ")[-1] in notebook for answer in page.answers if answer.question)
    assert "<html" not in notebook


def test_every_figure_drawn_of_an_audit_is_one_of_its_gaps():
    score, label, group, site = people(4000, 9)
    for sites in (site, None):
        found = logofair.audit(score >= 0.5, label, sensitive_features=group, sites=sites, notion="equalized_odds")
        (picture,) = page_of(found).beside
        gaps = {f"{100 * gap:.1f}" for gap in (*found.local.large.gaps.ravel(), *found.global_.headline.gaps.ravel())}
        drawn = {line[1] for line in picture.table.rows}
        assert drawn <= gaps
        assert len(drawn) > 1
        assert all(figure in picture.svg.label for figure in drawn)


def test_a_recommendation_draws_what_its_lines_cost_and_limits_of_two_points_would():
    score, label, group, site = people(6000, 3)
    found = logofair.recommend(score, label, sensitive_features=group, sites=site)
    label = found.plot().label
    for line in found.lines:
        usual = f"{100 * abs(line.unlimited - line.usual):.1f}"
        assert not line.found or f"{100 * line.price:.1f} points of accuracy; limits of 2 points: {usual}" in label


def test_names_read_from_the_right_stay_apart_from_figures_and_commands_are_as_typed():
    name = "\u05e0\u05e9\u05d9\u05dd"
    page = Page("Report", "People", warnings=(f"Labels differ ({name} 57 %)",), next=f"logofair apply {name}.json")
    text = page.html()
    assert f"(\u2068{name}\u2069 57 %)" in text
    assert f"<code>logofair apply {name}.json</code>" in re.sub("</?span>", "", text)


def test_the_report_of_a_thousand_sites_has_the_rule_of_each_and_is_small(tmp_path):
    solution = solved(rows=8000, sites=1000)
    solution.report(tmp_path / "a.html")
    rules = (tmp_path / "a.html").read_text("utf-8").split('<section id="rules"')[1]
    assert all(f"<bdi>site {at}</bdi>" in rules for at in range(1000))
    assert (tmp_path / "a.html").stat().st_size < 1_200_000


def test_a_picture_can_be_saved_and_says_what_it_shows(tested, tmp_path):
    picture = tested.plot()
    picture.save(tmp_path / "gaps.svg")
    assert (tmp_path / "gaps.svg").read_text("utf-8") == f"{picture}\n"
    assert "Gap in selection rate" in picture.label
    assert picture._repr_html_() == str(picture)
    nothing = solved(local_tolerance=None, global_tolerance=None).plot()
    assert isinstance(nothing, Svg)
    assert "Nothing to draw" in str(nothing)


@pytest.mark.parametrize("most", [1, 5, 12, 40])
@pytest.mark.parametrize("name", ["plain", LONG, "👩‍🔬 women in the laboratory", "漢字" * 20, ""])
def test_a_name_is_cut_in_its_middle_to_so_many_columns(name, most):
    short = cut(name, most)
    assert width(short) <= max(most, width(name) if width(name) <= most else most)
    assert short == name or "…" in short


def test_before_is_told_apart_from_the_score_alone_where_that_has_a_much_smaller_gap():
    rng = np.random.default_rng(5)
    group, score = rng.integers(0, 2, 6000), rng.random(6000)
    label = (rng.random(6000) < score - 0.2 * group).astype(int)  # the same score means less for one group
    half, other = slice(0, 3000), slice(3000, None)
    solution = logofair.fit(score[half], label[half], sensitive_features=group[half])
    solution = solution.test(score[other], label[other], sensitive_features=group[other])
    audit = logofair.audit((score[other] >= 0.5).astype(int), label[other], sensitive_features=group[other])
    alone = float(audit.global_gap)
    assert solution.outcomes.where(basis=TEST_ROWS)[0].before > alone + 0.05
    assert solution.by_score[0].after == pytest.approx(alone, abs=1e-12)
    assert f"One cut-off at 0.5 has a gap of {100 * alone:.1f} points." in solution.summary()


@pytest.mark.parametrize("most", [12, 24])
def test_long_names_that_begin_and_end_alike_stay_apart(most):
    names = [f"people who were born in a municipality of the {where}ern region" for where in ("north", "south", "west")]
    short = names_of([*names, "others"], most)
    assert len(set(short)) == 4
    assert max(map(len, short)) <= most
    assert short[3] == "others"


HARD = {
    "twelve groups with long names": {
        "groups": 12,
        "names": tuple(f"people who were born in the {at}. municipality of the northern region" for at in range(12)),
        "local_tolerance": 0.1,
    },
    "many sites and four groups": {
        "rows": 9000,
        "sites": 30,
        "groups": 4,
        "names": (LONG, f"{LONG} too", "נשים", "男"),
    },
    "limits of four kinds": {
        "rows": 6000,
        "sites": 12,
        "names": (LONG, "others"),
        "require": [
            *USUAL,
            "true positive rate ratio >= 0.6 per site",
            "selection rate of others >= 0.1 overall",
            "accepted <= 0.6 overall",
        ],
    },
}


@pytest.mark.parametrize("case", HARD.values(), ids=HARD.keys())
def test_every_kind_of_page_is_one_screen_and_cuts_no_rate(case):
    score, label, group, site = people(
        case.get("rows", 3000), case.get("sites", 3), case.get("groups", 2), case.get("names", ())
    )
    rows = {"sensitive_features": group, "sites": site}
    solution = solved(**case)
    pages = [
        *(each.page() for each in (solution, solution.tested, solution.policy)),
        logofair.audit((score > 0.5).astype(int), label, **rows).page(),
        logofair.recommend(score, label, **rows, notion="demographic_parity").page(),
        logofair.frontier(score, label, **rows, local_tolerances=[0.05, None], global_tolerances=[0.02, None]).page(),
    ]
    for page in pages:
        lines = page.text().splitlines()
        assert len(lines) <= LINES, page.text()
        assert max(map(width, lines)) <= COLUMNS, page.text()
        assert not re.search(r"rat…|r…te|…ate|positiv…|selec…", page.text()), page.text()
