"""The report's figures, sentences and file, against audits, hand-made cases and refits."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import logofair
from logofair.errors import InputError
from logofair.files.inputs import DataSource
from logofair.report import NewRows, in_memory, report_html, write_report
from logofair.report.charts import GapPoint, gap_dumbbells, gap_strip, reliability_by_group
from logofair.report.markup import render, tag
from logofair.report.measured import measure_calibration, measure_new, required_gaps
from logofair.report.verdict import judge
from logofair.solvers.algorithm1 import Algorithm1

pytestmark = pytest.mark.tool


def _data(n: int = 3000, *, clients: int = 4, groups: int = 2, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    site, group = random.integers(0, clients, n), random.integers(0, groups, n)
    scores = random.beta(1.5 + group, 2.0 + site % 3)
    names = np.array([f"site {i}" for i in range(clients)], dtype=object)
    return {
        "scores": scores,
        "labels": (random.random(n) < scores).astype(int),
        "groups": np.array(list("abcdefgh"), dtype=object)[group],
        "clients": names[site],
    }


def _fit(data: dict[str, np.ndarray], **options: object) -> logofair.fitting.fit.Solution:
    return logofair.fit(data["scores"], data["labels"], groups=data["groups"], clients=data["clients"], **options)


def _html(solution: logofair.fitting.fit.Solution, **more: object) -> str:
    return report_html(solution, data=in_memory("data", solution), command="logofair fit data.csv", **more)


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


@pytest.mark.parametrize("notion", ["demographic_parity", "equalized_odds"])
@pytest.mark.parametrize("weighted", [False, True])
def test_figures_before_and_after_are_those_of_an_audit(notion, weighted):
    data = _data()
    weight = np.random.default_rng(1).integers(0, 4, 3000).astype(float) if weighted else None
    solution = _fit(data, notion=notion, local_tolerance=0.05, sample_weight=weight)
    measured = measure_calibration(solution)
    columns = {"groups": data["groups"], "clients": data["clients"]}
    after = solution.policy.probabilities(data["scores"], **columns)
    for decisions, side in ((data["scores"] >= 0.5, "before"), (after, "after")):
        audited = logofair.audit(decisions, data["labels"], **columns, notion=notion, sample_weight=weight)
        local, global_ = getattr(measured.local, side), getattr(measured.global_, side)
        by_client = [[gap.value for gap in row.gaps] for row in audited.by_client]
        np.testing.assert_allclose(local.gaps.T, by_client, atol=1e-12)
        np.testing.assert_allclose(global_.gaps[:, 0], [gap.value for gap in audited.global_gaps], atol=1e-12)
        assert measured.accuracy[side == "after"] == pytest.approx(audited.accuracy, abs=1e-12)


def test_figures_on_new_rows_are_matched_to_clients_by_name():
    data, solution = _data(), _fit(_data(), local_tolerance=0.05, client_tolerances={"site 3": 0.2})
    fresh = _data(seed=5)
    kept = np.isin(fresh["clients"], ["site 3", "site 1"])
    fresh = {name: column[kept] for name, column in fresh.items()}
    new = NewRows(fresh["scores"], fresh["labels"], groups=fresh["groups"], clients=fresh["clients"])
    measured = measure_new(solution, new)
    assert measured.clients == ("site 1", "site 3")
    assert measured.local.tolerance.tolist() == [[0.05, 0.2]]
    audited = logofair.audit(fresh["scores"] >= 0.5, fresh["labels"], groups=fresh["groups"], clients=fresh["clients"])
    np.testing.assert_allclose(measured.local.before.gaps[0], [row.gap for row in audited.by_client])
    assert len(data["scores"]) == 3000


def test_without_labels_rates_are_counted_in_chances():
    data = _data()
    solution = logofair.fit(
        data["scores"],
        None,
        groups=data["groups"],
        clients=data["clients"],
        notion="equal_opportunity",
        calibration="none",
    )
    measured = measure_calibration(solution)
    chosen = (data["clients"] == "site 2") & (data["groups"] == "b")
    score = data["scores"][chosen]
    assert not measured.with_labels
    assert measured.local.before.values[0, 2, 1] == pytest.approx(score[score >= 0.5].sum() / score.sum())
    assert measured.accuracy[0] == pytest.approx(np.maximum(data["scores"], 1 - data["scores"]).mean())
    assert "There are no labels to compare the scores with." in _Text(_html(solution)).text


def test_the_gap_held_equals_the_gap_of_the_stored_policy():
    data = _data()
    solution = _fit(data, local_tolerance=0.03, global_tolerance=0.01)
    local, global_ = required_gaps(solution)
    measured = measure_calibration(solution)
    np.testing.assert_allclose(local.gap, measured.local.after.gaps, atol=1e-9)
    np.testing.assert_allclose(global_.gap, measured.global_.after.gaps, atol=1e-9)
    assert local.tolerance.tolist() == [[0.03] * 4]


def test_the_page_shows_the_interval_and_the_rows_of_the_audit():
    solution = _fit(_data(), local_tolerance=0.05, global_tolerance=0.02)
    (gap,) = solution.measured.global_gaps
    text = _Text(_html(solution)).text
    assert f"{gap.value:.4f}0.02{gap.low:.3f}–{gap.high:.3f}{gap.rows:,}" in text  # the cells of one line of a table


def test_a_gap_rests_on_the_rows_of_its_smallest_group_with_the_right_label():
    data = _data(400, clients=2)
    solution = _fit(data, notion="equal_opportunity")
    pair = measure_calibration(solution).local
    for client in range(2):
        mine = (data["clients"] == f"site {client}") & (data["labels"] == 1)
        assert pair.after.smallest_rows[0, client] == min((mine & (data["groups"] == g)).sum() for g in "ab")


def test_a_group_without_a_positive_row_makes_the_gap_rest_on_none():
    data = _data(400, clients=2)
    lost = (data["clients"] == "site 0") & (data["groups"] == "b")
    data["labels"][lost] = 0
    solution = _fit(data, notion="equal_opportunity")
    measured = measure_calibration(solution)
    assert measured.local.after.smallest_rows[0, 0] == 0
    found = judge(solution, *required_gaps(solution), measured).found
    assert "1 gap of these rests on fewer than 30 rows of some group." in found


def _verdict(solution, new=None):
    fresh = None if new is None else measure_new(solution, new)
    return judge(solution, *required_gaps(solution), measure_calibration(solution), fresh)


def test_requirements_that_are_met_are_called_met():
    verdict = _verdict(_fit(_data(), local_tolerance=0.03, global_tolerance=0.01))
    assert verdict.state == "met"
    assert verdict.required == (
        "Inside each of the 4 clients, the selection rate of any two groups differs by at most 0.03 (demographic "
        "parity). Over all clients, the selection rate of any two groups differs by at most 0.01 (demographic parity)."
    )
    assert verdict.found.startswith("On the 3,000 calibration rows all 5 required gaps stay within tolerance")


def test_single_clients_and_several_notions_are_named_in_the_requirements():
    wanted = {"demographic_parity": 0.05, "equal_opportunity": 0.1}
    solution = _fit(_data(), notion=wanted, client_tolerances={"site 1": 0.2, "site 3": None})
    required = _verdict(solution).required
    assert "the true positive rate of any two groups differs by at most 0.1 (equal opportunity)" in required
    assert required.endswith("the gap at single clients: site 1 at most 0.2, site 3 free.")


def test_without_a_tolerance_nothing_is_called_met():
    verdict = _verdict(_fit(_data(), local_tolerance=None, global_tolerance=None))
    assert verdict.state == "nothing"
    assert verdict.required.startswith("Nothing")


def test_where_no_required_gap_can_be_measured_nothing_is_called_met():
    data = _data(400, clients=2)
    data["groups"] = np.where(data["clients"] == "site 0", "a", "b")
    verdict = _verdict(_fit(data, global_tolerance=None))
    assert verdict.state == "unmeasured"
    assert "nothing is shown" in verdict.found
    assert 'class="verdict met"' not in _html(_fit(data, global_tolerance=None))


def test_where_some_required_gaps_cannot_be_measured_they_are_met_in_part():
    data = _data(1200, clients=3)
    data["groups"][data["clients"] == "site 0"] = "a"
    solution = _fit(data, global_tolerance=None)
    verdict = _verdict(solution)
    assert verdict.state == "partly"
    assert verdict.title == "Requirements met where they can be measured: 2 of 3 gaps"
    assert "Cannot be measured here" in _Text(_html(solution)).text


def test_requirements_that_rest_mostly_on_few_rows_are_no_plain_pass():
    verdict = _verdict(_fit(_data(100, clients=4)))
    assert verdict.state == "partly"
    assert verdict.title == "Requirements met on the calibration rows, mostly on few rows"
    assert "4 gaps of these rest on fewer than 30 rows of some group." in verdict.found


def test_requirements_that_are_missed_are_called_missed():
    solution = _fit(_data(), local_tolerance=0.0, global_tolerance=0.0, solver=Algorithm1(rounds=1))
    assert solution.certificate.violation > 0.001
    assert _verdict(solution).state == "missed"


def test_a_tolerance_exceeded_on_new_rows_beyond_chance_is_no_pass():
    solution, fresh = _fit(_data()), _data(6000, seed=9)
    shifted = np.where(fresh["groups"] == "a", fresh["scores"] ** 2, fresh["scores"] ** 0.5)
    new = NewRows(shifted, fresh["labels"], groups=fresh["groups"], clients=fresh["clients"])
    verdict = _verdict(solution, new)
    assert verdict.state == "partly"
    assert verdict.title == "Requirements met on the calibration rows, exceeded on new rows"
    assert "by more than chance explains" in verdict.on_new_rows


def test_among_many_clients_chance_alone_does_not_turn_a_pass_down():
    # The same scores in both groups: the rule is 1/2 for all. On random rows every gap is then chance, and of 300
    # some lie two standard errors above their tolerance.
    random, n = np.random.default_rng(4), 60_000
    place = np.arange(n)
    clients, groups = np.array([f"site {i % 300}" for i in place]), np.array(["a", "b"])[place // 300 % 2]
    level = (place // 600 + 0.5) / 100
    solution = logofair.fit(level, level >= 0.5, groups=groups, clients=clients, calibration="none", merged=False)
    scores = random.random(n)
    new = NewRows(scores, random.random(n) < scores, groups=groups, clients=clients)
    measured = measure_new(solution, new)
    assert (measured.local.interval[0] > measured.local.tolerance).sum() >= 3
    verdict = _verdict(solution, new)
    assert verdict.state == "met"
    assert "never by more than chance explains" in verdict.on_new_rows


def test_new_rows_of_a_policy_without_clients_are_not_said_to_have_any():
    data, fresh = _data(), _data(seed=3)
    solution = logofair.fit(data["scores"], data["labels"], groups=data["groups"], local_tolerance=0.1)
    new = NewRows(fresh["scores"], fresh["labels"], groups=fresh["groups"])
    assert re.match(r"On 3,000 test rows the gap is 0\.[0-9]{4}, ", _verdict(solution, new).on_new_rows)
    with pytest.raises(InputError, match="new_rows: the policy has no clients; leave them out"):
        measure_new(solution, replace(new, clients=fresh["clients"]))
    with pytest.raises(InputError, match="new_rows: the policy has clients; pass one per row"):
        measure_new(_fit(data), new)


def test_prices_bound_what_a_refit_with_more_tolerance_wins():
    data = _data()
    solution = _fit(data, local_tolerance=0.02, global_tolerance=0.005)
    text = _Text(_html(solution)).text
    price = float(re.search(r"0\.01 more global tolerance would win at most ([0-9.]+) accuracy", text)[1])
    looser = _fit(data, local_tolerance=0.02, global_tolerance=0.015)
    won = looser.certificate.primal - solution.certificate.primal
    assert 0 < won <= price * 1.05 + 1e-6  # the sentence has two digits
    at_all = float(re.search(r"at all clients at once would win at most ([0-9.]+) accuracy", text)[1])
    looser = _fit(data, local_tolerance=0.03, global_tolerance=0.005)
    assert looser.certificate.primal - solution.certificate.primal <= at_all * 1.05 + 1e-6


def test_reliability_bins_agree_with_a_plain_loop():
    data = _data(1000)
    solution = _fit(data)
    found = reliability_by_group(solution.rows)
    assert [one.group for one in found] == ["a", "b"]
    for one in found:
        mine = np.flatnonzero(data["groups"] == one.group)
        mine = mine[np.argsort(data["scores"][mine])]
        parts = np.array_split(mine, 10)
        assert one.rows.sum() == mine.size
        assert max(abs(len(part) - rows) for part, rows in zip(parts, one.rows, strict=True)) <= 1
        first = mine[: one.rows[0]]
        assert one.score[0] == pytest.approx(data["scores"][first].mean())
        assert one.share[0] == pytest.approx(data["labels"][first].mean())
        errors = np.abs(one.share - one.score) @ one.rows / mine.size
        assert one.before == pytest.approx(errors)
        assert one.chance[0] == pytest.approx(solution.rows.out_of_fold[first].mean())  # no chance that knew the label
        assert (one.low <= one.share).all()
        assert (one.share <= one.high).all()


def test_the_page_holds_no_rows():
    data = _data()
    solution = _fit(data)
    page = _html(
        solution, new_rows=NewRows(data["scores"], data["labels"], groups=data["groups"], clients=data["clients"])
    )
    digits = {f"{score:.6f}"[2:] for score in (*data["scores"], *solution.rows.eta)}
    thresholds = {f"{t:.6f}"[2:] for t in solution.policy.mixtures.threshold.ravel()}
    assert len(digits) > 2900
    assert not [piece for piece in re.findall(r"0\.([0-9]{6,})", page) if piece[:6] in digits - thresholds]


def test_the_same_solution_gives_the_same_page_to_the_last_byte():
    assert _html(_fit(_data())) == _html(_fit(_data()))


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
    data = _data(600, clients=2)
    hostile = "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>'\"&"
    data["clients"] = np.where(data["clients"] == "site 0", hostile, "plain").astype(object)
    data["groups"] = np.where(data["groups"] == "a", "<svg onload=alert(1)>", "b").astype(object)
    solution = _fit(data)
    source = DataSource("<b>data</b>", ("<i>.csv",), "<u>", 600, {"score": "<s>"})
    text = report_html(solution, data=source, command="logofair fit '<i>.csv'", made="<em>today</em>")
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
    data = _data(1000, clients=2)
    site, group = data["clients"] == "site 1", data["groups"] == "b"
    kept = ~(site & group) | (np.cumsum(site & group) <= 7)
    data = {name: column[kept] for name, column in data.items()}
    text = _Text(_html(_fit(data))).text
    assert "▲ 7" in text
    assert "1 cell of 4 has fewer than 30 rows" in text
    assert "few rows" in text


def test_thousands_of_clients_stay_within_the_size_and_it_says_what_is_left_out():
    data = _data(12_000)
    data["clients"] = np.array([f"{i % 3000} {'of the upper and lower valley ' * 5}" for i in range(12_000)])
    solution = _fit(data, calibration="none", notion="equalized_odds", merged=False)
    page = _html(solution)
    assert len(page.encode()) < 6_000_000
    text = _Text(page).text
    assert "The 600 clients with the largest gaps before are listed; 2,400 are not." in text
    assert "Every 5th client is drawn." in text


def test_many_groups_and_tuples_as_groups_fit_the_page():
    data = _data(2000, groups=8)
    pairs = np.empty(2000, dtype=object)
    pairs[:] = [(group, "young" if i % 2 else "old") for i, group in enumerate(data["groups"])]
    page = _Text(_html(logofair.fit(data["scores"], data["labels"], groups=pairs, clients=data["clients"])))
    assert "a × young" in page.text
    assert sum(attributes.get("aria-label") == "Rows by client and group" for _, attributes in page.elements) == 3


def test_without_clients_the_page_speaks_of_none():
    data = _data()
    solution = logofair.fit(data["scores"], data["labels"], groups=data["groups"])
    page = _Text(_html(solution))
    assert "The selection rate of any two groups differs by at most 0.02 (demographic parity)." in page.text
    assert "0.01 more tolerance would win at most" in page.text
    assert not [name for _, attributes in page.elements if (name := attributes.get("id")) == "pick"]


def test_every_picture_draws_each_client_once_and_never_beyond_its_frame():
    random = np.random.default_rng(0)
    points = [
        GapPoint(f"site {i}", f"#client-{i}", gap, gap / 3, 0.02, (0.0, gap), few=i % 5 == 0, note="")
        for i, gap in enumerate(random.random(60))
    ]
    points.append(GapPoint("empty", None, None, None, None, None, few=True, note="nothing"))
    for draw in (gap_dumbbells, gap_strip):
        for width in (350.0, 860.0):
            drawn = _Text(str(draw(points, width=width, label="gaps")))
            clients = [attributes["data-client"] for _, attributes in drawn.elements if "data-client" in attributes]
            assert clients == [f"client-{i}" for i in range(60)]
            places = [
                float(attributes[key])
                for _, attributes in drawn.elements
                for key in ("cx", "x1", "x2", "x")
                if key in attributes
            ]
            assert min(places) >= 0
            assert max(places) <= width


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
    assert path.read_text("utf-8") == report_html(solution, data=in_memory("data", solution), command="logofair fit")
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
