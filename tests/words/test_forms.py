"""Auditors' forms: figures beside their intervals, what is undefined or unknown said, names that stay text."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

import logofair
from logofair.auditing import impact_ratios
from logofair.words import About, form_text, in_memory
from logofair.words.audited import NO_RATIO
from logofair.words.forms import _code, _escaped, _one_line, _yaml_lines
from support.examples import examples

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
AWKWARD = '*a* | "b": <i>\n---\n- \x1b[2Jx\u202e `c` [d](e) #'


@pytest.fixture(scope="module")
def solution():
    rng = np.random.default_rng(0)
    score, sex = rng.random(900), rng.choice([AWKWARD, "M"], 900)
    label = (rng.random(900) < score).astype(int)
    first, second = slice(0, 500), slice(500, 900)
    fitted = logofair.fit(score[first], label[first], sensitive_features=sex[first], random_state=0)
    return fitted.test(score[second], label[second], sensitive_features=sex[second])


def front_matter(card):
    yaml = pytest.importorskip("yaml")
    _, front, _ = card.split("---\n", 2) if card.startswith("---\n") else ("", "", "")
    return yaml.safe_load(front)


# Markdown and YAML


@given(text=st.text(max_size=40))
@examples(60)
def test_any_text_comes_back_from_markdown_as_it_was(text):
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    shown = _one_line(f"x{text}y")
    for written, kind in ((_escaped(f"x{text}y"), "text"), (_code(f"x{text}y"), "code_inline")):
        (inline,) = [token for token in markdown.parse(f"# {written}") if token.type == "inline"]
        assert {child.type for child in inline.children} == {kind}
        assert "".join(child.content for child in inline.children) == shown


@given(text=st.text(max_size=40))
@examples(60)
def test_any_text_comes_back_from_yaml_as_it_was(text):
    yaml = pytest.importorskip("yaml")
    text = text.encode("utf-8", "replace").decode()
    plain = {"name": text, "list": [text, {"a": text, "b": 0.5, "inner": {"c": None}}]}
    assert yaml.safe_load("\n".join(_yaml_lines(plain))) == plain


# Local Law 144


def test_ll144_states_rates_ratios_unknown_people_and_small_categories():
    sex = ["M"] * 100 + ["F"] * 99 + ["X"] + [None] * 3
    decisions = [1] * 50 + [0] * 50 + [1] * 33 + [0] * 66 + [1] + [1] * 3
    text = form_text("ll144", impact_ratios(decisions, categories={"sex": sex}), About(left_out=2))
    (line,) = re.findall(r"^\| F .*$", text, re.MULTILINE)
    exact = binomtest(33, 99).proportion_ci(method="exact")
    assert line.startswith(f"| F | 99 | 48.8 % | 0.3333 ({exact.low:.4f} to {exact.high:.4f}) | 0.3333 (")
    assert "| 0.6667 (" in line  # without X
    assert re.search(r"^\| X † \| 1 \| 0.5 % \| 1.0000 \(.*\) \| 1.0000 \(.*\) \| left out \|$", text, re.MULTILINE)
    assert "3 people of unknown sex, in no category of this table." in text
    assert "2 people who lack a value" in text
    assert "chance alone would make the smallest impact ratio" in text


def test_ll144_has_a_table_by_each_column_and_by_all_of_them():
    found = impact_ratios([1, 0, 1, 1], categories={"sex": list("FFMM"), "race": list("ABAB")})
    assert re.findall("^## By .*$", form_text("ll144", found), re.MULTILINE) == [
        "## By sex",
        "## By race",
        "## By sex and race",
    ]


@pytest.mark.parametrize(("decisions", "sex"), [([0, 0, 0], ["F", "F", "M"]), ([1, 0, 1], ["F", "F", "F"])])
def test_ll144_says_that_a_ratio_is_undefined_and_why(decisions, sex):
    found = impact_ratios(decisions, categories={"sex": sex})
    text = form_text("ll144", found)
    assert f"Impact ratios are undefined: {NO_RATIO[found.tables[0].why_no_ratio]}." in text
    assert "| undefined |" in text


def test_ll144_calls_nothing_a_pass_and_names_no_threshold():
    found = impact_ratios([1, 0, 1, 1] * 50, categories={"sex": list("FFMM") * 50})
    text = form_text("ll144", found)
    assert "No figure here is a pass or a fail" in text
    assert not re.search(r"\b0\.80?\b|four.fifths|80 ?%|complian|lawful", text)


# Model card, Annex IV


def test_a_model_card_has_the_front_matter_that_hugging_face_requires(solution):
    front = front_matter(form_text("model-card", solution, About(in_memory(AWKWARD, solution))))
    (model,) = front["model-index"]
    (result,) = model["results"]
    assert model["name"] == AWKWARD
    assert result["task"]["type"] == "tabular-classification"
    assert result["dataset"].keys() >= {"type", "name"}
    assert result["dataset"]["split"] == "test"
    assert all(metric.keys() >= {"type", "value"} for metric in result["metrics"])
    tested = solution.tested.second
    figures = {metric["name"]: metric for metric in result["metrics"]}
    assert figures["accuracy"]["value"] == pytest.approx(tested.accuracy, abs=1e-6)
    assert figures["accuracy"]["args"]["low"] == pytest.approx(tested.accuracy.low, abs=1e-6)
    rate = figures[f"selection rate, {AWKWARD}"]
    assert rate["value"] == pytest.approx(tested.rates["selection rate"][AWKWARD], abs=1e-6)
    gap = figures["largest gap over all, selection rate"]
    assert (gap["value"], gap["args"]["noise_floor"]) == pytest.approx(
        (tested.global_gap, tested.global_gap.floor), abs=1e-6
    )


@pytest.mark.parametrize("form", ["model-card", "annex-iv"])
def test_figures_stand_beside_intervals_and_chance_and_what_is_proved_names_its_rows(form, solution):
    text = form_text(form, solution)
    gap = solution.tested.second.global_gap
    assert (
        f"| {gap:.4f} | {gap.low:.4f} to {gap.high:.4f} | {gap.rows} | {gap.floor:.4f}, up to {gap.detectable:.4f} |"
        in text
    )
    assert "On the 500 rows of the fit" in text
    assert "these intervals are too narrow for others" in text
    assert text.index("On 400 people who took no part") < text.index("On 500 people of the fit")
    assert solution.policy.checksum in text


def test_an_audit_alone_states_less_and_what_is_undefined():
    audit = logofair.audit([1, 0, 1], [1, 0, 1], sensitive_features=["a", "a", "b"], notion="equalized_odds")
    card = form_text("model-card", audit, rule="score >= 0.5")
    assert "| false positive rate, b | undefined |" in card
    names = [metric["name"] for metric in front_matter(card)["model-index"][0]["results"][0]["metrics"]]
    assert "false positive rate, a" in names
    assert "false positive rate, b" not in names
    assert "Who is accepted: score \\>= 0.5." in card
    assert "rows of the fit" not in form_text("annex-iv", audit)


def test_annex_iv_has_all_points_and_marks_those_of_the_provider(solution):
    text = form_text("annex-iv", solution, About(purpose="who is invited"))
    points = re.findall(r"^## (\d)\. ", text, re.MULTILINE)
    assert points == [str(point) for point in range(1, 10)]
    for point in "56789":
        part = text.split(f"\n## {point}. ")[1].split("\n## ")[0]
        assert part.splitlines()[2].startswith("**To be filled in:**")
    assert "(a) Purpose: Who is invited." in text
    assert "(a) **To be filled in:** the intended purpose." in form_text("annex-iv", solution)


@pytest.mark.parametrize("form", ["model-card", "annex-iv"])
def test_names_from_the_data_never_become_markup(form, solution):
    about = About(in_memory(AWKWARD, solution), AWKWARD, AWKWARD, AWKWARD, AWKWARD)
    text = form_text(form, solution, about)
    body = text.split("\n---\n", 1)[1] if text.startswith("---\n") else text
    assert not CONTROL.search(text)
    assert "\n---\n" not in body
    assert "<i>" not in re.sub(r"(`+).*?\1", "", body)


def test_names_of_categories_never_become_markup_either():
    text = form_text("ll144", impact_ratios([1, 0], categories={AWKWARD: [AWKWARD, "M"]}), rule=AWKWARD)
    assert not CONTROL.search(text)
    assert "\n---\n" not in text
    assert "\\*a\\* \\| " in text
