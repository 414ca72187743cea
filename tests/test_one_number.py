"""One number for one thing: whatever a door says of a requirement stands in the table of outcomes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import polars
import pytest

import logofair
from logofair.outcomes import CALIBRATION_ROWS, TEST_ROWS
from logofair.words import form_text
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
    tested = solution.outcomes.where(basis=TEST_ROWS)
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
    proved = solution.outcomes.where(basis=CALIBRATION_ROWS)
    assert max(each.before for each in proved if each.site) == pytest.approx(free.local_gap, abs=1e-9)
    assert proved.where(site=None)[0].before == pytest.approx(free.global_gap, abs=1e-9)


def test_what_is_proved_is_within_its_limit_by_as_much_as_the_certificate_says(case):
    solution, *_ = case
    proved = solution.outcomes.where(basis=CALIBRATION_ROWS)
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
        "audit": solution.outcomes.where(basis=TEST_ROWS),
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
            (outcome,) = solution.outcomes.where(basis=basis, site=each["site"])
            assert each["gap"]["value"] == pytest.approx(outcome.after, abs=1e-6)
            assert max(gap["value"] for gap in each["gaps"] if gap["value"] is not None) == each["gap"]["value"]
    proved = solution.outcomes.where(basis=CALIBRATION_ROWS)
    prices = values["fit"]["prices"]
    shown = {(each["require"], each.get("site")): each["price"] for side in prices.values() for each in side}
    assert shown == {(str(each.requirement), each.site): each.price for each in proved if each.price or not each.site}
    (notion,) = values["audit"]["notions"].values()
    over_all = solution.outcomes.where(basis=TEST_ROWS, site=None)[0]
    worst = solution.outcomes.where(basis=TEST_ROWS, site=notion["local"]["site"])[0]
    for shown, known in ((notion["global"], over_all), (notion["local"], worst)):
        assert shown["rows"] == known.rows
        assert [shown[name] for name in ("value", "low", "high")] == pytest.approx([known.after, known.low, known.high])


def test_the_rates_in_json_make_the_figures_of_the_outcomes(doors):
    solution, values, *_ = doors
    audit, fit = values["audit"], values["fit"]
    for basis, found in ((TEST_ROWS, fit["tested"]), (CALIBRATION_ROWS, fit["calibration"])):
        table = solution.outcomes.where(basis=basis)
        for when in ("before", "after"):
            rates = {rate: {group: each[when] for group, each in row.items()} for rate, row in found["rates"].items()}
            assert getattr(table.where(site=None)[0], when) == pytest.approx(max(map(gap_of, rates.values())), abs=1e-9)
        for each in found["by_site"]:
            assert table.where(site=each["site"])[0].after == pytest.approx(
                max(map(gap_of, each["rates"].values())), abs=1e-9
            )
    tested = solution.outcomes.where(basis=TEST_ROWS)
    assert tested.where(site=None)[0].after == pytest.approx(max(map(gap_of, audit["rates"].values())))
    assert tested.where(site=None)[0].before == pytest.approx(
        max(map(gap_of, audit["compared"]["other"]["rates"].values()))
    )
    for each in audit["sites"]:
        (outcome,) = tested.where(site=each["site"])
        row = each["rates"][outcome.rate]
        first, last = (row[group] for group in outcome.groups)
        assert first["value"] - last["value"] == pytest.approx(outcome.after) == pytest.approx(gap_of(row))
        assert min(first["rows"], last["rows"]) == outcome.rows


def gap_of(row):
    """The largest rate of a group less the smallest."""
    rates = [each["value"] for each in row.values() if each is not None]
    return max(rates) - min(rates) if len(rates) > 1 else 0.0


def test_every_gap_in_json_is_that_of_an_outcome_or_of_a_rate_with_a_smaller_one(doors):
    solution, values, *_ = doors
    seen = 0
    for door in ("fit", "audit"):
        for path, gap in gaps_of(values[door]):
            if gap["value"] is None:
                continue
            place = None if gap["site"] in (None, "all") else gap["site"]
            basis = CALIBRATION_ROWS if "calibration" in path else TEST_ROWS
            (outcome,) = solution.outcomes.where(basis=basis, site=place)
            figure, seen = outcome.before if "other" in path else outcome.after, seen + 1
            assert gap["value"] <= figure + 1e-6, path
            if "other" not in path and gap["rate"] == outcome.rate:
                assert gap["value"] == pytest.approx(figure, abs=1e-6)
                assert gap["rows"] == outcome.rows
            if basis == TEST_ROWS and "other" not in path:
                assert gap["low"] <= outcome.low + 1e-9
                assert gap["high"] <= outcome.high + 1e-9
    assert seen >= 15


def gaps_of(values, path=()):
    """Every gap in plain values, with the names that lead to it."""
    if isinstance(values, dict) and "highest" in values:
        yield path, values
    elif isinstance(values, dict | list):
        for name, part in values.items() if isinstance(values, dict) else enumerate(values):
            yield from gaps_of(part, (*path, name))


def test_accuracy_is_one_number_at_every_door(doors):
    solution, values, texts, reports = doors
    tested, audit = values["fit"]["tested"]["accuracy"], values["audit"]
    before, after = tested["before"], tested["after"]
    assert audit["accuracy"] == pytest.approx(after)
    assert audit["compared"]["other"]["accuracy"] == pytest.approx(before)
    (difference,) = audit["compared"]["differences"].values()
    assert difference["accuracy"] == pytest.approx(tested["difference"])
    assert tested["difference"]["value"] == pytest.approx(after["value"] - before["value"])
    assert solution.tested.second.accuracy.as_dict() == pytest.approx(after)
    words = f"{100 * before['value']:.1f} -> {100 * after['value']:.1f} % accuracy"
    assert all(words in texts[door] for door in ("fit", "audit"))
    for door, name in (("fit", "after"), ("audit", "now")):
        lines = [
            dict(zip(head, row, strict=True))
            for caption, head, rows in reports[door].tables
            for row in rows
            if row[0] == "accuracy" and "people of the fit" not in caption
        ]
        assert [(line["before"], line[name]) for line in lines] == [
            (f"{100 * before['value']:.1f}", f"{100 * after['value']:.1f}")
        ]
    expected = values["fit"]["calibration"]["accuracy"]["after"]["value"]
    assert expected == pytest.approx(solution.certificate.primal, abs=1e-9)
    assert f"Accuracy   {100 * expected:.1f} %" in texts["explain"]


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
        (outcome,) = known.where(requirement=requirement, site=place, basis=CALIBRATION_ROWS if proved else TEST_ROWS)
        assert line["before"] == f"{100 * outcome.before:.1f}"
        assert line["after"] == f"{100 * outcome.after:.1f}"
        assert line["limit"] == f"{100 * outcome.limit:g}"
        assert (int(line["people"]), line["state"]) == (outcome.rows, outcome.state)
        assert is_interval(next(line[name] for name in line if name.startswith("could be")), outcome)


@pytest.mark.parametrize("door", ["fit", "audit", "explain"])
def test_every_line_of_a_screen_about_a_requirement_is_an_outcome(doors, door):
    solution, _, texts, _ = doors
    assert re.search(rf"^{solution.outcomes.verdict.upper()} ", texts[door], re.MULTILINE)
    shown = lines_about_outcomes(texts[door], solution.outcomes.where(basis=TEST_ROWS))
    assert shown >= (2 if door == "explain" else 3)


def test_what_python_shows_of_a_requirement_is_an_outcome(case, tmp_path):
    solution, rows, _, given = case
    tested = solution.outcomes.where(basis=TEST_ROWS)
    audit = logofair.audit(None, **rows, policy=solution.policy, notion=given["notion"])
    for result in (solution, solution.tested, audit, solution.policy):
        assert lines_about_outcomes(result.page().text(), tested) >= (2 if result is solution.policy else 3)
    assert solution.as_dict()["outcomes"] == solution.outcomes.as_dict()
    assert audit.as_dict()["outcomes"] == tested.as_dict()
    frame = solution.outcomes.to_frame()
    for name in ("limit", "before", "after", "low", "high", "rows", "state", "basis", "price"):
        assert frame[name].to_list() == [getattr(each, name) for each in solution.outcomes]
    solution.report(tmp_path / "report.html")
    lines = [
        (caption, row)
        for caption, _, table in Tables(tmp_path / "report.html").tables
        for row in table
        if caption.partition(":")[0] in map(str, solution.outcomes.requirements)
    ]
    assert len(lines) == len(solution.outcomes)
    for (caption, row), each in zip(sorted(lines), sorted(solution.outcomes, key=caption_of), strict=True):
        assert caption.startswith(f"{each.requirement}: {'proved' if each.basis == CALIBRATION_ROWS else 'measured'}")
        shown = (f"{100 * each.before:.1f}", f"{100 * each.after:.1f}", str(each.rows), each.state)
        assert (row[0], row[1], row[2], row[5], row[6]) == (each.site or "all sites", *shown)


def caption_of(outcome):
    """What the lines of a report's tables are sorted by, for an outcome."""
    proved = "proved" if outcome.basis == CALIBRATION_ROWS else "measured"
    return f"{outcome.requirement}: {proved}", outcome.site or "all sites"


@pytest.mark.parametrize("door", ["fit", "audit"])
def test_sentences_tiles_and_pictures_of_a_report_say_figures_of_outcomes(doors, door):
    solution, _, _, reports = doors
    measured, page = solution.outcomes.where(basis=TEST_ROWS), reports[door]
    assert page.word == solution.outcomes.verdict.upper()
    shown = next(each for each in measured if f"{100 * each.before:.1f} → {100 * each.after:.1f}" in page.tile)
    assert f"from {100 * shown.before:.1f} to {100 * shown.after:.1f} points" in page.verdict
    assert f"limit is {100 * shown.limit:g}" in page.verdict
    assert f"{shown.rows:,} people" in page.verdict
    assert is_interval(COULD.search(page.verdict)[1], shown)
    assert page.notes
    for note in page.notes:
        where, change = note.split(": ")
        (outcome,) = measured.where(site=None if where == "all sites" else where)
        assert change.startswith(f"{100 * outcome.before:.1f} to {100 * outcome.after:.1f} points")
        assert change.endswith(outcome.state)


def test_an_auditors_form_states_the_figures_of_the_outcomes(case):
    solution, *_ = case
    tested = solution.outcomes.where(basis=TEST_ROWS)
    text = form_text("model-card", solution).split("### On 1,500 people of the fit")[0]
    lines = FORM_LINE.findall(text)
    assert len(lines) == 2 * len(solution.tested.second.local.rates)
    for where, rate, site, value, _, _, rows in lines:
        assert (where == "at a site") == bool(site)
        (outcome,) = tested.where(site=site or None)
        if rate == outcome.rate:
            assert (float(value), int(rows)) == (pytest.approx(outcome.after, abs=5e-5), outcome.rows)
    sides = {"over all": tested.where(site=None), "at a site": [each for each in tested if each.site is not None]}
    for where, found in sides.items():  # a largest gap has the largest of all ends
        low, high = (max(float(line[k]) for line in lines if line[0] == where) for k in (4, 5))
        ends = max(each.low for each in found), max(each.high for each in found)
        assert (low, high) == pytest.approx(ends, abs=5e-5)


FORM_LINE = re.compile(
    r"^\| largest gap (over all|at a site), ([a-z ]+) \(\w+ over \w+(?:, at (\w+))?\) "
    r"\| ([\d.]+) \| ([\d.]+) to ([\d.]+) \| (\d+) ",
    re.MULTILINE,
)
COULD = re.compile(r"could be ([\d.]+ to [\d.]+)")
LINE = re.compile(
    r"^(?:[A-Z ]+  +|  +)(\S.*?)  +([\d.]+)  +([\d.]+)  +([\d.]+ to [\d.]+|[\d.]+)  +([\d.]+)  +([a-z ]+)$",
    re.MULTILINE,
)


def lines_about_outcomes(text, outcomes):
    """How many lines of a screen are about an outcome; each says its figures."""
    found = LINE.findall(text)
    for where, before, after, could, limit, state in found:
        place = where.rpartition(", ")[2].strip()
        (outcome,) = outcomes.where(site=None if place == "all sites" else place)
        figures = f"{100 * outcome.before:.1f}", f"{100 * outcome.after:.1f}", f"{100 * outcome.limit:g}"
        assert (before, after, limit, state) == (*figures, outcome.state)
        assert is_interval(could, outcome)
    return len(found)


def is_interval(text, outcome):
    """Whether a page shows the interval of an outcome: in points, each end rounded outward by less than one."""
    known = [100 * end for end in (outcome.low, outcome.high) if end is not None]
    if text == "–":
        return not known
    low, high = [float(end) for end in text.split(" to ")] * (1 if " to " in text else 2)
    return known[0] - 1 < low <= known[0] + 1e-6 and known[-1] - 1e-6 <= high < known[-1] + 1


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
