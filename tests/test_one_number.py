"""One number for one thing: whatever a door says of a requirement stands in the table of outcomes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import polars
import pytest

import logofair
from logofair.outcomes import CALIBRATION_ROWS, TEST_ROWS
from support.commandline import json_of, run

NOTIONS = ("demographic_parity", "equalized_odds")


@pytest.fixture(scope="module", params=NOTIONS)
def case(request):
    """A solution that was tested on other rows, these rows, and the arguments of its fit."""
    rng = np.random.default_rng(11)
    n = 3000
    sex = np.array(["women", "men"])[rng.integers(0, 2, n)]
    site = np.array(["Oslo", "Lyon", "Bern", "Zürich"])[rng.choice(4, n, p=[0.45, 0.35, 0.19, 0.01])]
    score = rng.beta(1 + (sex == "men"), 2)
    label = rng.random(n) < score
    half = n // 2
    first, second = ({"sensitive_features": sex[part], "sites": site[part]} for part in (slice(half), slice(half, n)))
    given = {"notion": request.param, "local_tolerance": 0.05, "global_tolerance": 0.02, "random_state": 0}
    solution = logofair.fit(score[:half], label[:half], **first, **given)
    rows = {"scores": score[half:], "labels": label[half:], **second}
    return solution.test(**rows), rows, {"scores": score[:half], "labels": label[:half], **first}, given


def test_an_audit_of_the_policy_finds_what_the_test_found(case):
    solution, rows, _, given = case
    found = logofair.audit(None, **rows, policy=solution.policy, notion=given["notion"]).outcomes
    tested = solution.outcomes.on(TEST_ROWS)
    assert found == tested


def test_the_gaps_of_an_audit_are_those_of_its_outcomes(case):
    solution, *_ = case
    audit = solution.tested.second
    for side, outcomes in ((audit.local, [e for e in audit.outcomes if e.site]), (audit.global_, audit.outcomes[-1:])):
        for each in outcomes:
            place = side.sites.index(each.site)
            own = [side.gap(k, place) for k in range(len(side.rates))]
            own = [gap for gap in own if gap.value is not None]
            worst = max(own, key=lambda gap: gap.value)
            assert (worst.value, worst.rate) == (each.after, each.rate)
            assert max(gap.value.low for gap in own) == each.low
            assert max(gap.value.high for gap in own) == each.high


def test_a_policy_tells_what_its_solution_knows_and_so_does_its_file(case, tmp_path):
    solution, *_ = case
    stored = solution.policy.info.outcomes
    assert stored == solution.outcomes
    assert stored.verdict == solution.outcomes.verdict
    solution.policy.save(tmp_path / "policy.json")
    assert logofair.Policy.load(tmp_path / "policy.json").info.outcomes == stored


def test_before_is_the_unconstrained_rule_and_the_frontier_starts_there(case):
    solution, _, columns, given = case
    grid = {"local_tolerances": [0.05], "global_tolerances": [0.02, None]}
    named = {name: given[name] for name in ("notion", "random_state")}
    surface = logofair.frontier(**columns, **grid, **named)
    point, free, compared = surface.at(0.05, 0.02), surface.unconstrained, solution.compared
    assert compared.first.accuracy == pytest.approx(free.value, abs=1e-9)
    assert compared.second.accuracy == pytest.approx(solution.certificate.primal, abs=1e-9)
    assert point.value == pytest.approx(solution.certificate.primal, abs=2e-6)
    proved = solution.outcomes.on(CALIBRATION_ROWS)
    assert max(each.before for each in proved if each.site) == pytest.approx(free.local_gap, abs=1e-9)
    assert proved.at(None)[0].before == pytest.approx(free.global_gap, abs=1e-9)


def test_what_is_proved_is_within_its_limit_by_as_much_as_the_certificate_says(case):
    solution, *_ = case
    proved = solution.outcomes.on(CALIBRATION_ROWS)
    assert min(each.room for each in proved) == pytest.approx(-solution.certificate.violation, abs=1e-9)
    assert {each.state for each in proved} == {"met"}


def test_a_notion_of_two_rates_is_never_better_than_one_of_these():
    rng = np.random.default_rng(3)
    n = 2500
    decided, label = rng.integers(0, 2, n), rng.random(n) < 0.06  # few have label 1, so that some sites have hardly any
    sex, site = rng.choice(["a", "b"], n), rng.integers(0, 12, n)
    both, one = (
        logofair.audit(decided, label, sensitive_features=sex, sites=site, notion=notion)
        for notion in ("equalized_odds", "equal_opportunity")
    )
    assert both.headline_local.value >= one.headline_local.value
    assert both.headline_global.value >= one.headline_global.value


# The doors of the command line


@pytest.fixture(scope="module")
def doors(case, tmp_path_factory):
    """What the commands say of the same rows: as JSON, as text, and the reports."""
    solution, rows, columns, given = case
    folder = tmp_path_factory.mktemp(given["notion"])
    for name, part in (("fitted", columns), ("others", rows)):
        named = {"score": part["scores"], "label": part["labels"].astype(int), "sex": part["sensitive_features"]}
        polars.DataFrame(named | {"site": part["sites"]}).write_csv(folder / f"{name}.csv")
    policy, named = folder / "policy.json", ("--score", "score", "--label", "label", "--group", "sex", "--site", "site")
    fit = ["fit", folder / "fitted.csv", *named, "--seed", 0]
    fit += ["--notion", given["notion"], "--local", 0.05, "--global", 0.02, "--test", folder / "others.csv"]
    fit += ["--out", policy, "--force"]
    audit = ["audit", folder / "others.csv", "--policy", policy, "--label", "label", "--notion", given["notion"]]
    audit += ["--force"]
    commands = {"fit": fit, "audit": audit, "explain": ["explain", policy]}
    values = {name: json_of(*words) for name, words in commands.items()}
    texts = {name: run(*words)[1] for name, words in commands.items()}
    reports = {}
    for name in ("fit", "audit"):
        assert run(*commands[name], "--report", folder / f"{name}.html")[0] == 0
        reports[name] = Tables(folder / f"{name}.html")
    return solution, values, texts, reports


def table_of(solution, door):
    """The outcomes that a door speaks of."""
    return {
        "fit": solution.outcomes,
        "audit": solution.outcomes.on(TEST_ROWS),
        "explain": solution.policy.info.outcomes,
    }[door]


@pytest.mark.parametrize("door", ["fit", "audit", "explain"])
def test_json_holds_the_table_of_outcomes(doors, door):
    solution, values, *_ = doors
    for shown, known in zip(values[door]["outcomes"], table_of(solution, door).as_dict(), strict=True):
        figures = {name: value for name, value in known.items() if isinstance(value, float)}
        assert {name: shown[name] for name in figures} == pytest.approx(figures, abs=1e-12)  # sums in another order
        assert shown | figures == known


def test_gaps_and_prices_beside_the_table_are_those_of_the_table(doors):
    solution, values, *_ = doors
    for basis, found in ((TEST_ROWS, values["fit"]["tested"]), (CALIBRATION_ROWS, values["fit"]["calibration"])):
        for each in found["by_site"]:
            (outcome,) = solution.outcomes.on(basis).at(each["site"])
            assert each["gap"]["value"] == pytest.approx(outcome.after, abs=1e-6)
            assert max(gap["value"] for gap in each["gaps"] if gap["value"] is not None) == each["gap"]["value"]
    proved = solution.outcomes.on(CALIBRATION_ROWS)
    prices = values["fit"]["prices"]
    shown = {(each["require"], each.get("site")): each["price"] for side in prices.values() for each in side}
    assert shown == {(str(each.requirement), each.site): each.price for each in proved if each.price or not each.site}
    (notion,) = values["audit"]["notions"].values()
    over_all = solution.outcomes.on(TEST_ROWS).at(None)[0]
    worst = solution.outcomes.on(TEST_ROWS).at(notion["local"]["site"])[0]
    for shown, known in ((notion["global"], over_all), (notion["local"], worst)):
        assert shown["rows"] == known.rows
        assert [shown[name] for name in ("value", "low", "high")] == pytest.approx([known.after, known.low, known.high])


@pytest.mark.parametrize("door", ["fit", "audit"])
def test_every_line_of_a_report_about_a_requirement_is_an_outcome(doors, door):
    solution, _, _, reports = doors
    lines = []
    for requirement in solution.outcomes.requirements:
        for caption, head, rows in reports[door].tables:
            if caption.partition(":")[0] == str(requirement):
                lines += [(requirement, "proved" in caption, dict(zip(head, row, strict=True))) for row in rows]
    known = table_of(solution, door)
    assert len(lines) == len(known)
    for requirement, proved, line in lines:
        place = None if line["site"] == "all sites" else line["site"]
        (outcome,) = known.of(requirement).at(place).on(CALIBRATION_ROWS if proved else TEST_ROWS)
        assert line["before"] == f"{100 * outcome.before:.1f}"
        assert line["now"] == f"{100 * outcome.after:.1f}"
        assert line["limit"] == f"{100 * outcome.limit:g}"
        assert (int(line["people"]), line["state"]) == (outcome.rows, outcome.state)
        assert ends(line["could be"]) == pytest.approx(interval(outcome), abs=0.5)


@pytest.mark.parametrize("door", ["fit", "audit", "explain"])
def test_every_line_of_a_screen_about_a_requirement_is_an_outcome(doors, door):
    solution, _, texts, _ = doors
    assert texts[door].split("\n\n")[1].startswith(solution.outcomes.verdict.upper())
    found = LINE.findall(texts[door])
    assert len(found) >= 3
    for where, before, after, could, limit in found:
        place = where.rpartition(", ")[2].strip()
        (outcome,) = solution.outcomes.on(TEST_ROWS).at(None if place == "all sites" else place)
        assert (before, after, limit) == (
            f"{100 * outcome.before:.1f}",
            f"{100 * outcome.after:.1f}",
            f"{100 * outcome.limit:g}",
        )
        assert ends(could) == pytest.approx(interval(outcome), abs=0.5)


@pytest.mark.parametrize("door", ["fit", "audit"])
def test_sentences_tiles_and_pictures_of_a_report_say_figures_of_outcomes(doors, door):
    solution, _, _, reports = doors
    measured, page = solution.outcomes.on(TEST_ROWS), reports[door]
    assert page.word == solution.outcomes.verdict.upper()
    shown = next(each for each in measured if f"{100 * each.before:.1f} → {100 * each.after:.1f}" in page.tile)
    low, high = ends(COULD.search(page.verdict)[1])
    assert f"from {100 * shown.before:.1f} to {100 * shown.after:.1f} points" in page.verdict
    assert f"limit is {100 * shown.limit:g}" in page.verdict
    assert f"{shown.rows:,} people" in page.verdict
    assert (low, high) == pytest.approx(interval(shown), abs=0.5)
    assert page.notes
    for note in page.notes:
        where, change = note.split(": ")
        (outcome,) = measured.at(None if where == "all sites" else where)
        assert change.startswith(f"{100 * outcome.before:.1f} to {100 * outcome.after:.1f} points")
        assert change.endswith(outcome.state)


COULD = re.compile(r"could be ([\d.]+ to [\d.]+)")
LINE = re.compile(
    r"^(?:[A-Z ]+  +|  +)(\S.*?)  +([\d.]+)  +([\d.]+)  +([\d.]+ to [\d.]+|[\d.]+)  +([\d.]+)$", re.MULTILINE
)


def ends(text):
    """The ends of an interval as a page shows it, in points."""
    return [] if text == "–" else [float(end) for end in text.split(" to ")] * (1 if " to " in text else 2)


def interval(outcome):
    """The ends of an outcome's interval, in points."""
    return [100 * end for end in (outcome.low, outcome.high) if end is not None]


class Tables(HTMLParser):
    """What a report says of requirements: its tables, and the verdict, first tile and picture of its first screen."""

    def __init__(self, path):
        super().__init__()
        self.tables, self.notes, self.word, self.verdict, self.tile = [], [], "", "", ""
        self.words = []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        self.words = [] if tag in ("caption", "th", "td", "title", "p") else self.words
        if tag == "table":
            self.caption, self.rows = "", []
        elif tag == "tr":
            self.rows.append([])
        elif dict(attributes).get("class") in ("pill", "big"):
            self.words = []

    def handle_data(self, text):
        self.words.append(text)

    def handle_endtag(self, tag):
        text = "".join(self.words).strip()
        if tag == "caption":
            self.caption = text
        elif tag in ("th", "td"):
            self.rows[-1].append(text)
        elif tag == "table":
            self.tables.append((self.caption, self.rows[0], self.rows[1:]))
        elif tag == "p":
            self.verdict = self.verdict or text
        elif tag == "title" and "could be" in text:
            self.notes.append(text)
        elif tag == "span":
            self.word = self.word or (text.split()[-1] if text.isupper() else "")
        elif tag == "div":
            self.tile = self.tile or (text if "→" in text else "")
