"""The report's figures, sentences and file, against audits, hand-made cases and refits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import logofair
from logofair.auditing.chance import TAIL, pair_limits
from logofair.auditing.measure import tally_of
from logofair.auditing.result import RuleAudit
from logofair.columns.labels import encode
from logofair.costs import read_costs
from logofair.errors import InputError
from logofair.files.inputs import DataSource
from logofair.notions import NOTIONS
from logofair.report import (
    ReportHeading,
    in_memory,
    write_audit_report,
    write_report,
)
from logofair.report.charts import GapPoint, gap_dumbbells, shows_nothing
from logofair.report.markup import render, tag
from logofair.report.measured import calibration_rows, other_rows
from logofair.report.rules import calibration_errors
from logofair.report.verdict import Verdict, judge
from logofair.solvers.algorithm1 import Algorithm1
from logofair.tradeoff import frontier

pytestmark = pytest.mark.tool


def _data(n: int = 3000, *, sites: int = 4, groups: int = 2, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    site, group = random.integers(0, sites, n), random.integers(0, groups, n)
    scores = random.beta(1.5 + group, 2.0 + site % 3)
    names = np.array([f"site {i}" for i in range(sites)], dtype=object)
    return {
        "scores": scores,
        "labels": (random.random(n) < scores).astype(int),
        "groups": np.array(list("abcdefgh"), dtype=object)[group],
        "sites": names[site],
    }


def _fit(data: dict[str, np.ndarray], **options: object) -> logofair.fitting.fit.Solution:
    return logofair.fit(data["scores"], data["labels"], groups=data["groups"], sites=data["sites"], **options)


def _html(solution: logofair.fitting.fit.Solution, **more: object) -> str:
    given = {"data": in_memory("data", solution), "command": "logofair fit data.csv"} | more
    return _written(write_report, solution, **given)


def _written(write: Callable[..., None], *arguments: object, **more: object) -> str:
    with TemporaryDirectory() as folder:
        write(Path(folder, "page.html"), *arguments, **more)
        return Path(folder, "page.html").read_text("utf-8")


class _Text(HTMLParser):
    """Elements with their attributes, and the text a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def _tested(solution, data):
    return solution.test(data["scores"], data["labels"], groups=data["groups"], sites=data["sites"])


def _verdict(solution):
    return judge(solution, other_rows(solution))


def _said(verdict: Verdict) -> dict[str, str]:
    return dict(verdict.lines)


def test_tolerances_on_other_rows_are_matched_to_sites_by_name():
    solution, fresh = _fit(_data(), local_tolerance=0.05, site_tolerances={"site 3": 0.2}), _data(seed=5)
    fresh["sites"] = np.where(fresh["sites"] == "site 0", "elsewhere", fresh["sites"])
    kept = np.isin(fresh["sites"], ["site 3", "site 1", "elsewhere"])
    measured = other_rows(_tested(solution, {name: column[kept] for name, column in fresh.items()}))
    assert measured.after.sites == ("elsewhere", "site 1", "site 3")
    assert measured.local_tolerance.tolist() == [[np.inf, 0.05, 0.2]]
    assert measured.unknown_sites == 1


def test_what_small_cells_borrow_is_part_of_what_is_proved_and_own_rows_stand_beside_it():
    solution = _fit(_data(n=400), local_tolerance=0.03, global_tolerance=0.01, pooling="full")
    said = _said(_verdict(solution))["Calibration rows"]
    assert said.startswith("On the 400 calibration rows and what small cells borrow, in calibrated chances")
    assert said.endswith(solution.own_rows.summary())
    assert f"largest local gap {solution.own_rows.local_gap:.4f}" in said


def _cells(page: str, caption: str) -> list[list[str]]:
    """The texts of the cells of the first table with such a caption, line by line."""
    table = re.search(rf"<caption>{caption}.*?</table>", page, re.DOTALL)[0]
    lines = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line, re.DOTALL) for line in lines]
    return [[_Text(cell).text.strip() for cell in line] for line in cells]


def _interval(value) -> str:
    return f"{value:.4f} {value.low:.4f} to {value.high:.4f}"


@pytest.mark.parametrize("sites", [True, False])
def test_rates_per_group_come_first_with_interval_and_rows(sites):
    data, fresh = _data(), _data(seed=3)
    columns = [{"groups": d["groups"]} | ({"sites": d["sites"]} if sites else {}) for d in (data, fresh)]
    solution = logofair.fit(data["scores"], data["labels"], **columns[0], local_tolerance=0.1)
    page = _html(solution.test(fresh["scores"], fresh["labels"], **columns[1]))
    before = solution.policy.unconstrained(fresh["scores"], **columns[1])
    found = logofair.audit(before, fresh["labels"], **columns[1]).rates["selection rate"]
    head, *lines = _cells(page, "")
    assert head == ["group", "rows", "before", "after"]
    for line, group in zip(lines, "ab", strict=True):
        assert line[:3] == [group, f"{found[group].rows:,}", _interval(found[group])]


def test_one_thing_has_one_number_in_card_table_and_audit():
    tested = _tested(_fit(_data(), local_tolerance=0.05, global_tolerance=0.02), _data(seed=7))
    page, audit = _html(tested), tested.tested.second
    tiles = re.findall(r'aria-label="([^":]+): [0-9.]+ before, ([0-9.]+) after"', page)
    assert dict(tiles[:3]) == {
        "Accuracy by labels": f"{audit.accuracy:.4f}",
        "Gap over all sites": f"{audit.headline_global.value:.4f}",
        "Largest gap inside a site": f"{audit.headline_local.value:.4f}",
    }
    global_, local = _cells(page, "Gaps, rows that took no part in the fit")[1:]
    for line, gap in ((global_, audit.headline_global), (local, audit.headline_local)):
        assert line[2] == _interval(gap.value)
        assert line[3] == f"{gap.value.rows:,}"
        assert line[4] == f"{gap.value.floor:.4f}"
        assert gap.finding[1:] in line[6]
    change = tested.tested.accuracy
    assert f"{change:+.4f}".replace("-", "−") in _cells(page, "Accuracy and share accepted")[1][3]
    by_name = {line[0]: line for line in _cells(page, "Gaps of every site")[1:]}
    worst = by_name[audit.headline_local.site]
    assert worst[2].startswith(f"{audit.headline_local.value:.4f} ")
    assert worst[3].startswith(f"{audit.headline_local.value.rows:,} of ")


def test_a_few_people_make_no_headline():
    data, fresh = _data(3000, sites=2), _data(3000, sites=2, seed=1)
    for each in (data, fresh):
        each["groups"] = np.where(np.arange(3000) < 8, "c", each["groups"]).astype(object)
    tested = _tested(_fit(data, local_tolerance=0.05), fresh)
    line = other_rows(tested).gap_lines[0]
    assert {line.after.highest, line.after.lowest} == {"a", "b"}
    worst = tested.tested.second.worst_global
    assert "c" in (worst.highest, worst.lowest)
    text = _Text(_html(tested)).text
    assert f"With groups of fewer than 30 rows {worst.value:.4f}, on {worst.value.rows} rows." in text


def _with_a_tiny_group(seed: int) -> dict[str, np.ndarray]:
    """Two groups that hardly differ, and 24 people of a third."""
    data = _data(20_000, sites=2, seed=seed)
    data["groups"] = np.random.default_rng(seed).permutation(data["groups"])
    data["groups"][:24] = "c"
    return data


def _with_a_tiny_group_rejected() -> logofair.fitting.fit.Solution:
    """A solution tested on rows whose 24 people of the third group are all rejected."""
    solution = _fit(_with_a_tiny_group(3), local_tolerance=0.1, global_tolerance=0.1, calibration="none")
    fresh = _with_a_tiny_group(4)
    fresh["scores"][:24] = 0.0
    return _tested(solution, fresh)


def test_a_verdict_quotes_the_gap_that_it_judges():
    tested = _with_a_tiny_group_rejected()
    verdict, audit = _verdict(tested), tested.tested.second
    assert audit.headline_global == audit.worst_global  # a shown gap is told first, however small the group
    assert audit.worst_global.value.low > 0.1
    words = _said(verdict)["Other rows"]
    assert f"The gap over all sites is {audit.headline_global}, tolerance 0.1: above tolerance beyond chance" in words
    assert verdict.state == "missed"


def test_a_gap_that_is_shown_of_a_small_group_is_told():
    tested = _with_a_tiny_group_rejected()
    worst = tested.tested.second.worst_global
    text = _Text(_html(tested)).text
    assert text.lower().count(f"a gap of at least {worst.value.low:.4f} is shown") >= 2  # card, table


def test_of_several_tolerances_the_verdict_quotes_the_gap_that_exceeds_its_own():
    wanted = {"demographic_parity": 0.5, "equal_opportunity": 0.02}
    fresh = _data(20_000, seed=9)
    fresh["scores"] = np.where(fresh["groups"] == "a", 0.8 * fresh["scores"], fresh["scores"])
    tested = _tested(_fit(_data(), notion=wanted), fresh)
    words = _said(_verdict(tested))["Other rows"]
    assert "(true positive rate, 'b' over 'a'" in words
    assert "tolerance 0.02: above tolerance beyond chance" in words


def test_the_largest_gaps_before_and_after_each_name_their_site_and_rows():
    tested = _tested(_fit(_data(), local_tolerance=0.0, global_tolerance=None), _data(seed=1))
    before, after = (audit.headline_local for audit in (tested.tested.first, tested.tested.second))
    assert before.site != after.site
    page = _html(tested)
    named = (
        f"efore: selection rate, {before.highest} over {before.lowest}, at {before.site} ({before.value.rows:,} rows)"
        f"; after: selection rate, {after.highest} over {after.lowest}, at {after.site}"
    )
    assert _Text(page).text.count(named) >= 2  # card and table
    line = _cells(page, "Gaps, rows that took no part in the fit")[2]
    assert named in line[0]
    assert line[1] == _interval(before.value)


def test_captions_say_whether_an_interval_is_of_one_site_or_of_the_largest_of_all():
    page = _html(_tested(_fit(_data()), _data(seed=1)))
    assert "is that of the largest of all sites" in _cells(page, "Gaps, rows that took no part in the fit")[2][0]
    for caption in ("Gaps here", "Gaps of every site"):
        assert re.search(rf"<caption>{caption}, each interval that of this site by itself", page)


def test_untested_calibration_rows_make_no_pass():
    solution = _fit(_data(), local_tolerance=0.03, global_tolerance=0.01, pooling="none")
    verdict = _verdict(solution)
    assert verdict.state == "untested"
    assert verdict.title == (
        "Nothing is known of new rows: what is proved is about the 3,000 calibration rows alone; not yet tested on "
        "other rows"
    )
    assert _said(verdict)["Required"] == (
        "Inside each of the 4 sites, the selection rate of any two groups differs by at most 0.03 (demographic "
        "parity). Over all sites, the selection rate of any two groups differs by at most 0.01 (demographic parity)."
    )
    assert _said(verdict)["Calibration rows"] == solution.proof_sentence()
    page = _html(solution)
    assert "✓" not in page
    assert 'class="badge' not in page
    assert "shown to be within" not in page


def test_the_bound_on_labels_is_of_weighted_thresholds():
    solution = _fit(_data(), local_tolerance=0.1, basis="labels", calibration="none")
    assert "no weighted thresholds of the score that meet them" in _said(_verdict(solution))["Calibration rows"]


def test_single_sites_and_several_notions_are_named_in_the_requirements():
    wanted = {"demographic_parity": 0.05, "equal_opportunity": 0.1}
    solution = _fit(_data(), notion=wanted, site_tolerances={"site 1": 0.2, "site 3": None})
    required = _said(_verdict(solution))["Required"]
    assert "the true positive rate of any two groups differs by at most 0.1 (equal opportunity)" in required
    assert required.endswith("the gap at single sites: site 1 at most 0.2, site 3 free.")


def test_without_a_tolerance_nothing_is_called_met():
    verdict = _verdict(_tested(_fit(_data(), local_tolerance=None, global_tolerance=None), _data(seed=1)))
    assert verdict.state == "nothing"
    assert _said(verdict)["Required"].startswith("Nothing")


def test_where_no_required_gap_can_be_measured_nothing_is_shown():
    data = _data(400, sites=2)
    data["groups"] = np.where(data["sites"] == "site 0", "a", "b")
    half = {name: column[::2] for name, column in data.items()}
    verdict = _verdict(_tested(_fit(data, global_tolerance=None), half))
    assert verdict.state == "unclear"
    assert "nothing is shown" in _said(verdict)["Calibration rows"]


def test_requirements_that_are_missed_on_the_calibration_rows_are_called_missed():
    solution = _fit(_data(), local_tolerance=0.0, global_tolerance=0.0, solver=Algorithm1(rounds=1))
    assert solution.certificate.violation > 1e-4
    assert _verdict(solution).state == "missed"


def test_gaps_shown_within_tolerance_on_other_rows_are_a_pass():
    data, fresh = _data(20_000), _data(60_000, seed=2)
    for each in (data, fresh):  # groups that have nothing to do with the scores: the rule is 1/2 for all
        each["groups"] = np.random.default_rng(0).permutation(each["groups"])
    verdict = _verdict(_tested(_fit(data, local_tolerance=0.1, global_tolerance=0.1), fresh))
    assert verdict.state == "met"
    assert verdict.title == "Tested on 60,000 other rows: within tolerance, shown"
    assert "60,000 rows that took no part in the fit" in _said(verdict)["Other rows"]


def test_a_tolerance_exceeded_on_other_rows_beyond_chance_is_no_pass():
    solution, fresh = _fit(_data()), _data(6000, seed=9)
    fresh["scores"] = np.where(fresh["groups"] == "a", fresh["scores"] ** 2, fresh["scores"] ** 0.5)
    verdict = _verdict(_tested(solution, fresh))
    assert verdict.state == "missed"
    assert verdict.title == "Tested on 6,000 other rows: above tolerance beyond chance"


def test_on_few_other_rows_nothing_can_be_told():
    verdict = _verdict(_tested(_fit(_data(), local_tolerance=0.05), _data(200, seed=1)))
    assert (verdict.state, verdict.title) == (
        "unclear",
        "Tested on 200 other rows: cannot be told, rows too few",
    )
    assert "0 of 4 sites can be checked at this tolerance" in _said(verdict)["Other rows"]


def test_among_many_sites_chance_alone_is_no_miss():
    # The same scores in both groups: the rule is 1/2 for all. On random rows every gap is then chance, and of 300
    # some lie two standard errors above their tolerance.
    random, n = np.random.default_rng(4), 60_000
    place = np.arange(n)
    sites, groups = np.array([f"site {i % 300}" for i in place]), np.array(["a", "b"])[place // 300 % 2]
    level = (place // 600 + 0.5) / 100
    solution = logofair.fit(level, level >= 0.5, groups=groups, sites=sites, calibration="none")
    scores = random.random(n)
    tested = solution.test(scores, random.random(n) < scores, groups=groups, sites=sites)
    measured = other_rows(tested)
    side = measured.after.local
    alone = pair_limits(side.values, side.effective, np.full(side.gaps.shape, TAIL), upper=False)
    assert (alone > measured.local_tolerance).sum() >= 3
    assert _verdict(tested).state == "unclear"


def test_other_rows_of_a_policy_without_sites_are_not_said_to_have_any():
    data, fresh = _data(), _data(seed=3)
    solution = logofair.fit(data["scores"], data["labels"], groups=data["groups"], local_tolerance=0.1)
    tested = solution.test(fresh["scores"], fresh["labels"], groups=fresh["groups"])
    page = _html(tested)
    assert "The gap between groups is" in _said(_verdict(tested))["Other rows"]
    text = _Text(page).text
    assert "inside a site" not in text
    assert "alf of the sites" not in text
    assert 'id="sites"' not in page


def test_what_is_proved_is_one_sentence():
    tested = _tested(_fit(_data(), local_tolerance=0.05), _data(seed=1))
    proof = re.search(r'<section id="proof".*?</section>', _html(tested), re.DOTALL)[0]
    assert _Text(proof).text.startswith(f"What is proved{tested.proof_sentence()} This is about these rows")


def test_the_heading_is_shown_and_its_word_used():
    words = ReportHeading("Loans <2024>", "Who gets a call", "A. Person", "1 May 2024", "flagged")
    page = _html(_tested(_fit(_data()), _data(seed=1)), heading=words)
    text = _Text(page).text
    for part in ("Loans <2024>", "Who gets a call", "1 May 2024, by A. Person", "Flagged", "share flagged"):
        assert part in text
    assert "accepted" not in text
    assert "<title>Fairness report: Loans &lt;2024&gt;</title>" in page


def test_hundreds_of_tiny_sites_are_counted_not_listed():
    data, fresh = _data(3000, sites=300), _data(3000, sites=300, seed=1)
    page = _html(_tested(_fit(data, local_tolerance=0.05), fresh))
    assert "0 of 300 sites can be checked at this tolerance" in page
    assert page.count("<article") == 50
    gaps = re.search(r'<section id="sites".*?<section id="site-table"', page, re.DOTALL)[0]
    assert "<figure>" not in gaps  # no site has two groups of 30 rows
    table = re.search(r'<section id="site-table".*?</section>', page, re.DOTALL)[0]
    assert "<details><summary>The table of 300 sites</summary>" in table


def _audit_page(data, **more):
    source = DataSource("rows.csv", ("rows.csv",), "f" * 64, 3000, {"group": "sex"})
    group, site = encode(data["groups"], "groups"), encode(data["sites"], "sites")
    decided = (data["scores"] >= 0.5).astype(float)
    tally = tally_of(decided, data["labels"].astype(float), None, group, site)
    notions = more.pop("notions", NOTIONS.values())
    audits = RuleAudit.of(tally, group.names, site.names, notions, read_costs((1, 3), site))
    given = {"data": source, "command": "logofair audit rows.csv", "tolerance": 0.05} | more
    page = _written(write_audit_report, audits, **given)
    return page, audits


def test_an_audit_has_a_report_of_its_own_with_the_figures_of_every_notion():
    page, audits = _audit_page(_data(), heading=ReportHeading("Loans"))
    text = _Text(page).text
    assert "logofair audit rows.csv" in text
    assert "f" * 64 in text
    lines = {line[0].partition("  ")[0]: line for line in _cells(page, "Gaps, audited rows")[1:]}
    for name, audit in audits.by_notion.items():
        spoken = name.replace("_", " ")
        (over_all,) = (line for what, line in lines.items() if what.startswith(f"{spoken}: gap over all sites"))
        assert over_all[1] == _interval(audit.headline_global.value)
        assert f"{spoken[:1].upper()}{spoken[1:]}: {audit.check_sites(0.05)}" in text
    assert "Before:" not in text


def test_a_report_tells_the_cost_where_it_tells_accuracy():
    data = _data()
    columns = {"groups": data["groups"], "sites": data["sites"], "costs": (1, 3)}
    compared = logofair.auditing.compare(data["scores"] < 0.3, data["scores"] >= 0.5, data["labels"], **columns)
    for comparison in (None, compared):
        page, audits = _audit_page(data, comparison=comparison, notions=[NOTIONS["demographic_parity"]])
        text, after = _Text(page).text, 2 if comparison else 1
        (line,) = (line for line in _cells(page, "Accuracy and share") if line[0] == "cost per person by labels")
        assert line[after] == _interval(audits.cost)
        assert "A wrongly accepted row costs 1, a wrongly rejected one 3." in text
        assert "Cost per person by labels" in text
        own = next(iter(audits.by_notion.values())).by_site[0].cost
        assert f"{own:.4f} (95%: {own.low:.4f} to {own.high:.4f})" in text
    assert f"{compared.cost:+.4f}".replace("-", "−") in text


def test_an_audit_of_a_policy_shows_what_was_before_and_what_it_was_made_for():
    data = _data()
    solution, columns = _fit(data, local_tolerance=0.1), {"groups": data["groups"], "sites": data["sites"]}
    compared = logofair.auditing.compare(
        data["scores"] < 0.3, data["scores"] >= 0.5, data["labels"], **columns, notion=list(NOTIONS)
    )
    page, _ = _audit_page(data, comparison=compared, policy=solution.policy)
    head, first, *_ = _cells(page, "Selection rate")
    assert head[3:] == ["before", "after"]
    assert first[3] == _interval(compared.first.rates["selection rate"]["a"])
    text = _Text(page).text
    assert "the policy was made for" in text
    assert "on 3,000 calibration rows." in text


def test_an_audit_report_is_written_whole(tmp_path: Path):
    _, audits = _audit_page(_data())
    source = DataSource("rows.csv", ("rows.csv",), "f" * 64, 3000, {})
    write_audit_report(tmp_path / "audit.html", audits, data=source, command="logofair audit", tolerance=0.1)
    assert (tmp_path / "audit.html").read_text("utf-8").startswith("<!DOCTYPE html>")


def test_prices_bound_what_a_refit_with_more_tolerance_wins():
    data = _data()
    solution = _fit(data, local_tolerance=0.02, global_tolerance=0.005)
    local, global_ = (line for line in _cells(_html(solution), "Every requirement")[1:])
    for line, more in ((global_, {"global_tolerance": 0.015}), (local, {"local_tolerance": 0.03})):
        price = float(re.match(r"([0-9.]+) accuracy by 0\.01 more tolerance", line[3])[1])
        looser = _fit(data, **{"local_tolerance": 0.02, "global_tolerance": 0.005} | more)
        won = looser.certificate.primal - solution.certificate.primal
        assert 0 < won <= price * 1.05 + 1e-6  # the cell has two digits


def test_calibration_errors_agree_with_a_plain_loop():
    data = _data(1000)
    solution = _fit(data)
    found = calibration_errors(solution.rows)
    assert [group for group, *_ in found] == ["a", "b"]
    for group, rows, before, after in found:
        mine = np.flatnonzero(data["groups"] == group)
        mine = mine[np.argsort(data["scores"][mine])]
        assert rows == mine.size
        # No chance that knew the label.
        for error, predicted in ((before, data["scores"]), (after, solution.rows.out_of_fold)):
            parts = [mine[np.arange(rows) * 10 // rows == part] for part in range(10)]
            shares = [abs(data["labels"][part].mean() - predicted[part].mean()) * part.size for part in parts]
            assert error == pytest.approx(sum(shares) / rows)


def test_the_page_holds_no_rows():
    data = _data()
    solution = _fit(data)
    page = _html(_tested(solution, {name: column[:2999] for name, column in data.items()}))
    digits = {f"{score:.6f}"[2:] for score in (*data["scores"], *solution.rows.eta)}
    thresholds = {f"{t:.6f}"[2:] for t in solution.policy.mixtures.threshold.ravel()}
    assert len(digits) > 2900
    assert not [piece for piece in re.findall(r"0\.([0-9]{6,})", page) if piece[:6] in digits - thresholds]


def test_the_same_solution_gives_the_same_page_to_the_last_byte():
    first, second = (_html(_fit(_data(), random_state=0)) for _ in range(2))  # with the same key of coins
    assert first == second


def test_the_page_leads_nowhere_outside_itself():
    page = _Text(_html(_fit(_data())))
    links = {attributes.get(name) for _, attributes in page.elements for name in ("href", "src", "action", "srcset")}
    anchors = {f"#{attributes['id']}" for _, attributes in page.elements if attributes.get("id")}
    assert {link for link in links if link} <= anchors | {"data:,"}


def test_ids_are_unique_and_labels_point_to_them():
    page = _Text(_html(_fit(_data())))
    ids = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    named = [
        attributes[key] for _, attributes in page.elements for key in ("for", "aria-labelledby") if key in attributes
    ]
    assert set(named) <= set(ids)


def test_names_from_the_data_never_become_markup():
    data = _data(600, sites=2)
    hostile = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>'\"&"
    data["sites"] = np.where(data["sites"] == "site 0", hostile, "plain").astype(object)
    data["groups"] = np.where(data["groups"] == "a", "<svg onload=alert(1)>", "b").astype(object)
    solution = _fit(data)
    source = DataSource("<b>data</b>", ("<i>.csv",), "<u>", 600, {"score": "<s>"})
    heading = ReportHeading(made="<em>today</em>", accepted="<b>taken</b>")
    text = _html(solution, data=source, command="logofair fit '<i>.csv'", heading=heading)
    page = _Text(text)
    tags = [name for name, _ in page.elements]
    assert tags.count("script") == tags.count("style") == tags.count("title") - text.count("<title>") + 1 == 1
    assert not {"b", "i", "u", "s", "em", "img"} & set(tags)
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert hostile in page.text


@given(st.text(), st.text())
def test_any_text_comes_back_from_markup_as_it_was(words, value):
    read = _Text(render(tag("p", words, title=value)))
    kept = [
        re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]", "\ufffd", t)
        for t in (words, value)
    ]
    assert read.text.replace("\r", "\n") == kept[0].replace("\r", "\n")
    assert read.elements[0][1]["title"].replace("\r", "\n") == kept[1].replace("\r", "\n")


def test_cells_with_few_rows_are_marked_and_counted():
    data = _data(1000, sites=2)
    site, group = data["sites"] == "site 1", data["groups"] == "b"
    kept = ~(site & group) | (np.cumsum(site & group) <= 7)
    data = {name: column[kept] for name, column in data.items()}
    text = _Text(_html(_fit(data))).text
    assert "7 few rows" in text


@pytest.mark.slow
def test_thousands_of_sites_stay_within_the_size_and_it_says_what_is_left_out():
    data = _data(12_000)
    data["sites"] = np.array([f"{i % 3000} {'of the upper and lower valley ' * 5}" for i in range(12_000)])
    solution = _fit(data, calibration="none", notion="equalized_odds")
    page = _html(solution)
    assert len(page.encode()) < 6_000_000
    text = _Text(page).text
    assert "The 600 sites with the most rows are listed; 2,400 are not." in text
    assert "The first 300 sites are listed; 2,700 are not." in text


def test_many_groups_and_tuples_as_groups_fit_the_page():
    data = _data(2000, groups=8)
    pairs = np.empty(2000, dtype=object)
    pairs[:] = [(group, "young" if i % 2 else "old") for i, group in enumerate(data["groups"])]
    how = {"calibration": "none", "pooling": "none"}
    solution = logofair.fit(data["scores"], data["labels"], groups=pairs, sites=data["sites"], **how)
    page = _Text(_html(solution))
    assert "a × young" in page.text


def test_without_sites_the_page_speaks_of_none():
    data = _data()
    solution = logofair.fit(data["scores"], data["labels"], groups=data["groups"])
    page = _Text(_html(solution))
    assert "The selection rate of any two groups differs by at most 0.02 (demographic parity)." in page.text
    assert "0.01 more tolerance" in page.text
    assert not [name for _, attributes in page.elements if (name := attributes.get("id")) == "pick"]


@pytest.mark.parametrize("named", [False, True])
def test_a_page_without_sites_to_compare_has_one_tolerance_and_no_rule_of_a_site(named):
    data, fresh = _data(), _data(seed=3)
    columns = [{"groups": each["groups"]} | ({"sites": ["here"] * 3000} if named else {}) for each in (data, fresh)]
    solution = logofair.fit(data["scores"], data["labels"], **columns[0], local_tolerance=0.1)
    tested = solution.test(fresh["scores"], fresh["labels"], **columns[1])
    chosen = {"global_tolerances": [0.02, 0.1], "chosen": (0.1, 0.02)}
    surface = frontier(data["scores"], data["labels"], **columns[0], **chosen)
    for page in (_html(tested, frontier=surface), _html(tested)):
        text = _Text(re.sub(r"<(style|script)[ >].*?</\1>", "", page, flags=re.DOTALL)).text
        assert "no rule of score and group that meets them" in text
        assert "pair of tolerances" not in text
        assert "pairs of tolerances" not in text
        assert not re.search("local|global", text)
        assert not re.search(r"(?<!inside every) site(?! 'here'|s the policy does not know|s, stored)", text)
    text = _Text(_html(tested, frontier=surface)).text
    assert "Over 2 tolerances the loss is" in text
    assert f"(largest gap: {surface.unconstrained.global_gap:.4f})" in text
    assert "tolerance 0.1: expected accuracy" in text


def test_the_trade_off_of_a_tested_policy_speaks_of_its_own_points():
    data = _data()
    columns = {"groups": data["groups"], "sites": data["sites"]}
    surface = frontier(
        data["scores"], data["labels"], **columns, local_tolerances=[0.0, 0.1], global_tolerances=[0.0, None]
    )
    solution = _fit(data)
    assert "not yet tested on other rows" in _html(solution, frontier=surface)
    tested = _html(_tested(solution, _data(seed=1)), frontier=surface)
    assert "ot yet tested on other rows" not in tested
    assert "These points were measured on the rows that chose the rule" in tested


def test_the_legend_names_only_marks_that_are_drawn():
    few = "after, on fewer than 30 rows"
    assert few not in _html(_fit(_data()))
    assert few in _html(_fit(_data(200)))


def test_coins_and_warnings_are_said_in_words_where_they_are_nothing():
    solution = _fit(_data(), local_tolerance=0.9, global_tolerance=0.9)
    text = _Text(_html(solution)).text
    assert "No rule tosses a coin." in text
    assert "A coin decides" not in text
    assert "None: no cell is empty or has fewer than 30 rows." in text


def test_the_picture_draws_each_site_once_and_never_beyond_its_frame():
    random = np.random.default_rng(0)
    points = [
        GapPoint(f"site {i}", f"#site-{i}", gap, gap / 3, 0.02, (0.0, gap), few=i % 5 == 0, note="")
        for i, gap in enumerate(random.random(60))
    ]
    points.append(GapPoint("audited", None, None, 0.1, None, None, few=True, note="nothing"))
    for width in (350.0, 860.0):
        drawn = _Text(str(gap_dumbbells(points, width=width, label="gaps")))
        sites = [attributes["data-site"] for _, attributes in drawn.elements if "data-site" in attributes]
        assert sites == [f"site-{i}" for i in range(60)]
        places = [
            float(attributes[key])
            for _, attributes in drawn.elements
            for key in ("cx", "x1", "x2", "x")
            if key in attributes
        ]
        assert min(places) >= 0
        assert max(places) <= width


def test_a_picture_that_would_show_nothing_is_not_drawn():
    one, other, far = (GapPoint("a", None, gap, gap, 0.05, None, few=False, note="") for gap in (0.0, 1e-5, 0.03))
    assert shows_nothing([far], 860.0)
    assert shows_nothing([], 860.0)
    assert shows_nothing([one, other], 860.0)
    assert not shows_nothing([one, far], 860.0)


def test_marks_stand_where_their_numbers_are():
    points = [GapPoint("a", None, 0.2, 0.1, None, None, few=False, note="")]
    drawn = _Text(str(gap_dumbbells(points, width=700, label="gaps"))).elements
    before, after = (float(a["cx"]) for name, a in drawn if name == "circle")
    ticks = {float(text): x for text, x in _ticks(gap_dumbbells(points, width=700, label="gaps"))}
    assert before == pytest.approx(ticks[0.2], abs=0.02)
    assert after == pytest.approx(ticks[0.1], abs=0.02)


def _ticks(picture) -> list[tuple[str, float]]:
    return [
        (text, float(x))
        for x, text in re.findall(r'<text x="([0-9.]+)" y="[0-9.]+" class="tick"[^>]*>([0-9.]+)<', str(picture))
    ]


def test_a_report_replaces_a_file_whole(tmp_path: Path):
    solution, path = _fit(_data(400)), tmp_path / "report.html"
    path.write_text("old")
    write_report(path, solution, data=in_memory("data", solution), command="logofair fit")
    assert path.read_text("utf-8") == _html(solution, command="logofair fit")
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.parametrize(("name", "sentence"), [("", "no regular file"), ("none/report.html", "No such file")])
def test_a_report_that_cannot_be_written_says_so_in_one_sentence(tmp_path: Path, name, sentence):
    solution = _fit(_data(400))
    with pytest.raises(InputError, match=sentence) as error:
        write_report(tmp_path / name, solution, data=in_memory("data", solution), command="logofair fit")
    assert str(tmp_path) in str(error.value)
    assert os.listdir(tmp_path) == []


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch):
    solution = _fit(_data(400))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_report(tmp_path / "report.html", solution, data=in_memory("data", solution), command="logofair fit")
    assert os.listdir(tmp_path) == []


def test_a_fingerprint_follows_the_rows():
    solution = _fit(_data(400))
    same, other = _fit(_data(400)), _fit(_data(400, seed=1))
    rows = replace(solution.rows, weights=np.ones(400))
    prints = [in_memory("x", s).fingerprint for s in (solution, same, other, replace(solution, rows=rows))]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_a_site_of_whom_nothing_is_required_is_not_judged():
    solution = _fit(_data(), local_tolerance=0.05, site_tolerances={"site 0": None})
    rows, untested = other_rows(_tested(solution, _data(seed=1))), calibration_rows(solution)
    assert rows.state(0) == ""
    assert all(rows.state(place) in ("within", "above", "cannot be told") for place in (1, 2, 3))
    assert [untested.state(place) for place in range(4)] == [""] * 4


def test_a_certified_policy_is_a_pass_and_its_promises_are_a_table():
    solution = _fit(_data(8000), local_tolerance=0.2, global_tolerance=0.1, confidence=0.95)
    verdict = _verdict(solution)
    assert verdict.state == "met"
    words = "Certified for new rows: all 5 required gaps together, with 95% confidence, by rank"
    price = f"for {solution.promises.price:.4f} of expected accuracy"
    assert verdict.title == f"{words}, {price}; not yet tested on other rows"
    assert _said(verdict)["New rows"] == solution.promises.price_sentence()
    page = _html(solution)
    lines = _cells(page, "What is promised of each gap")
    assert lines[0] == ["where", "rate", "status", "tolerance", "bound", "rows", "rows needed"]
    found = {line[0]: line[2:5] for line in lines[1:]}
    for promise in solution.promises:
        place = "over all sites" if promise.side == "global" else promise.site
        assert found[place] == ["certified", f"{promise.tolerance:g}", f"{promise.bound:.4f}"]
    text = _Text(page).text
    assert "Made by rank: 3 of 10 rows choose the targets" in text
    assert "The bound is that of rules that promise nothing for new rows, too." in text
    assert "Promises and certificate rest on the rows of each site alone." in text
    assert "What is promised" not in _html(_fit(_data()))


def test_promises_of_ratios_and_floors_are_no_promises_of_gaps():
    given = {"local_tolerance": logofair.Ratio(0.7), "global_tolerance": None, "floors": {"demographic_parity": 0.05}}
    page = _html(_fit(_data(3000, sites=8), confidence=0.95, **given))
    text = _Text(page[page.index('id="promises"') : page.index("</section>", page.index('id="promises"'))]).text
    assert (
        "A bound is of one requirement by itself; all certified requirements hold together, which takes more." in text
    )
    assert "How many requirements are certified" in page
    assert "tolerances" not in text


@pytest.mark.slow
def test_promises_of_hundreds_of_sites_are_counted_and_the_trade_off_says_it_makes_none():
    data = _data(6000, sites=150)
    solution = _fit(data, local_tolerance=0.1, global_tolerance=0.1, confidence=0.95)
    assert _verdict(solution).state == "unclear"
    surface = frontier(
        data["scores"], data["labels"], groups=data["groups"], local_tolerances=[None], global_tolerances=[0.1]
    )
    page = _html(solution, frontier=surface)
    counts = _cells(page, "How many gaps are certified, and the rows that the others have and need")
    assert counts[1][:4] == ["selection rate, inside sites", "0", "150", "0"]
    assert "<details><summary>All 151 gaps</summary>" in page
    assert len(_cells(page, "What is promised of each gap")) == 152
    text = _Text(page).text
    assert "Of the 150 that cannot be certified, the median has" in text
    assert "These points promise nothing for new rows; the policy, which does" in text


def test_the_report_tells_what_cells_borrow_beside_their_own_rows():
    solution = _fit(_data(2000, sites=20), pooling="full", local_tolerance=0.05)
    text = _Text(_html(solution)).text
    assert solution.pooling.summary() in text
    assert solution.own_rows.summary() in text
    assert solution.own_rows.local_gap > 0.05 >= solution.counted_rows.local_gap
    proof = _said(_verdict(solution))["Calibration rows"]  # what is within tolerance there is not on the rows alone
    assert proof.startswith("On the 2,000 calibration rows and what small cells borrow, in calibrated chances")
    assert proof.endswith(solution.own_rows.summary())
    assert solution.evidence.headline.startswith("Nothing is known of new rows: ")


@pytest.fixture(scope="module")
def required():
    data, other = _data(), _data(seed=1)
    columns = {"groups": data["groups"], "sites": data["sites"]}
    held = {"costs": (1, 3), "capacity": 0.8, "floors": {"equal_opportunity": "today"}}
    solution = logofair.fit(
        data["scores"],
        data["labels"],
        **columns,
        local_tolerance=logofair.Ratio(0.8),
        global_tolerance=None,
        **held,
        random_state=0,
    )
    return _tested(solution, other)


def test_every_requirement_is_listed_with_what_is_reached_its_price_and_what_other_rows_show(required):
    page = _html(required)
    head, *lines = _cells(page, "Every requirement")
    assert head == ["requirement", "must be", "calibration rows", "what giving way wins", "other rows"]
    assert len(lines) == len(required.requirement_checks) == 4
    assert lines[0][0] == "smallest selection rate against the largest inside each site"
    assert lines[0][1] == "at least 0.8"
    assert lines[0][2].startswith("0.8")
    assert "per person" in " ".join(line[3] for line in lines)
    states = [check.state for check in required.tested.second.requirements]
    assert all(state in line[4] for state, line in zip(states, lines, strict=True))


def test_with_costs_the_page_proves_a_cost_per_person(required):
    text = _Text(_html(required)).text
    certificate = required.certificate
    said = re.search(
        r"expected cost is (\d\.\d+) per person; no rule of score, group and site that meets them is below (\d\.\d+)",
        text,
    )
    assert float(said[1]) == pytest.approx(certificate.primal, abs=5e-5)
    assert float(said[2]) == pytest.approx(certificate.dual, abs=5e-5)
    assert "Cost per person by labels" in text
    assert re.search(r"[0-9.]+ less per person by a ratio lower by 0\.01", text)
    assert "within the tolerances" not in text.partition("The trade-off")[0]


def test_a_ratio_where_nobody_is_selected_is_never_shown_as_met():
    solution = logofair.fit(
        [0.1, 0.2, 0.3, 0.4] * 20,
        None,
        groups=list("aabb") * 20,
        local_tolerance=logofair.Ratio(0.8),
        global_tolerance=None,
        calibration="none",
        random_state=0,
    )
    text = _Text(_html(solution)).text
    assert "nobody selected" in text
    assert "says nothing where nobody is selected" in text
    assert "a ratio says nothing: nobody is selected there" in text
