"""The page of a run: what it says, that data stay text, and that it can be read in a browser on a desk and a phone."""

from __future__ import annotations

import re
from html import unescape

import pytest

from logofair_reproduction.experiments.claims import Verdict
from logofair_reproduction.experiments.experiment import trials
from logofair_reproduction.experiments.figures import by_experiment, figures_of
from logofair_reproduction.experiments.page import RunAbout, page_html
from logofair_reproduction.experiments.tables import tables_of
from made.made_records import made_lines
from support.browser import running_browser

HOSTILE = "<script>document.title='taken'</script>"
ABOUT = RunAbout(
    "logofair reproduce all --quick",
    made="16 May 2026",
    data={"adult": "48,842 rows, all there are"},
    versions={"logofair": "0.1.0"},
)
FAIRER = ("Ours is fairer.", "paper")
DP, EO = (("Adult, DP", "Fairer", ("Adult DP",)), ("Adult, EO", "Fairer", ("Adult EO",)))
VERDICTS = (
    Verdict(*FAIRER, "confirmed", "2 of 2 comparisons for it.", ("0.01 below 0.02",), *DP),
    Verdict(*FAIRER, "not confirmed", f"Reason {HOSTILE}.", ("0.03 above 0.02",), *EO),
    Verdict("Nobody knows.", "paper", "not testable", "1 open.", ("open: 0.1",), "Adult, DP", "Unknown", ("Adult DP",)),
    Verdict("Few rounds do.", "logofair", "not testable", "No results for ENEM.", (), "ENEM, DP", "Few rounds"),
)


@pytest.fixture(scope="module")
def lines():
    return made_lines("comparison_dp", "clients_dp", "rounds_dp", "sensitivity_dp", alphas=[0.5])


@pytest.fixture(scope="module")
def page(lines):
    parts = by_experiment(lines)
    return page_html(
        lines,
        about=ABOUT,
        verdicts=VERDICTS,
        tables={name: tables_of(part) for name, part in parts.items()},
        figures={name: figures_of(part) for name, part in parts.items()},
    )


def section(page: str, name: str) -> str:
    return re.search(rf'<section id="{name}".*?(?=<section id="(?!{name})|</main>)', page, re.DOTALL)[0]


def words(markup: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup)))


def test_sections_follow_one_another_from_verdicts_to_commands(page):
    order = re.findall(r'<a href="#([\w-]+)">', page.split("</nav>")[0])
    assert order == [
        "glance",
        "claims",
        "comparison_dp",
        "clients_dp",
        "rounds_dp",
        "sensitivity_dp",
        "settings",
        "again",
    ]


def test_the_heading_says_what_was_run_on_which_rows(page):
    heading = words(page.split("</header>")[0])
    for said in ("Adult (UCI)", "48,842 rows, all there are.", "3 for each figure", "16 May 2026", "logofair 0.1.0"):
        assert said in heading
    assert ABOUT.command in heading


def test_verdicts_are_in_words_by_claim_and_data_stay_text(page):
    paper = words(section(page, "claims-paper"))
    assert "✓ 1 confirmed" in paper
    assert "✗ 1 not confirmed" in paper
    assert paper.count("Ours is fairer.") == 1
    assert "Adult, DP. 2 of 2 comparisons for it." in paper
    assert "0.03 above 0.02" in paper
    assert HOSTILE not in page
    assert "1 verdict without results in this run" in words(section(page, "claims-logofair"))


def test_the_matrix_has_a_sign_and_a_word_for_every_verdict_and_leads_to_its_claim(page):
    shown = section(page, "glance")
    found = re.findall(r'<td class="(\w+)"[^>]*><a href="#([\w-]+)"><span aria-hidden="true">(.)</span>', shown)
    assert found == [
        ("met", "claim-fairer", "✓"),
        ("missed", "claim-fairer", "✗"),
        ("untested", "claim-unknown", "○"),
    ]
    assert re.findall(r'<span class="unseen">([^<]+)</span>', shown) == ["confirmed", "not confirmed", "not testable"]
    assert all(page.count(f' id="{name}"') == 1 for name in ("claim-fairer", "claim-unknown"))
    assert "Few rounds" not in shown  # nothing was run for it


def test_claims_that_a_run_leaves_open_are_folded_together(page):
    shown = section(page, "claims-paper")
    assert shown.index("1 claim that this run leaves open") < shown.index("Nobody knows.")
    assert shown.index("Ours is fairer.") < shown.index("1 claim that this run leaves open")


def test_figures_of_the_first_comparison_stand_beside_the_papers_at_a_glance(page):
    shown = words(section(page, "glance"))
    assert "On Adult: 1 confirmed, 1 not confirmed, 1 not testable." in shown
    assert "chance alone, at the tolerance" in shown
    assert re.search(r"alpha 0\.5 0\.8\d+ ±0\.\d+ paper 0\.8214 0\.\d+ ±0\.\d+ paper 0\.0489 0\.0320 ", shown)
    assert "Algorithm 1, corrected" in shown
    assert "as published" not in words(page.split("claims-")[0] + section(page, "comparison_dp"))
    assert re.search(r"Solved exactly alpha 0\.5 0\.8\d+ ±0\.\d+ paper 0\.8214", shown)


def test_every_table_has_the_papers_figures_and_the_floor_beside_ours(page):
    shown = section(page, "comparison_dp")
    assert "paper 0.8381" in shown
    assert 'data-title="floor">0.0300' in shown
    assert re.search(r'colspan="8" scope="colgroup">alpha 0.5</th>', shown)


def test_figures_stand_in_their_sections_with_a_name(page):
    assert len(re.findall(r'<div class="plot" role="img" aria-label="[^"]+"><svg', page)) == 5
    assert "#0072b2" not in page.split("</style>")[1]  # lighter where the page is dark


def test_settings_say_what_was_chosen_how_often_what_was_tried_and_by_which_rule(page):
    shown = words(section(page, "settings"))
    assert "3 of 3" in shown
    assert "at most 0.02 accuracy" in shown
    assert "FedFB: the 20 settings there are Its paper's own: alpha 0.3" in shown
    listed = section(page, "settings").split("FedFB: the 20 settings")[1].split("</ol>")[0]
    assert listed.count("<li>") == sum(len(trial.rounds) for trial in trials("adult", "fedfb")) == 20


def test_settings_that_were_not_chosen_are_not_listed(lines):
    only = [line for line in lines if line.place["method"] == "fedavg" and line.place["budget"] == 1]
    assert "settings" not in re.findall(r'<section id="(\w+)"', page_html(only, about=ABOUT))


@pytest.mark.tool
@pytest.mark.parametrize("narrowed", [{}, {"budget": 3}])
def test_the_command_of_every_table_measures_that_cell_again(narrowed):
    lines = [
        *made_lines("comparison_dp", "clients_dp", splits=2, **narrowed),
        *made_lines("natural", data="enem", splits=2, **narrowed),
    ]
    shown = section(page_html(lines, about=ABOUT), "again")
    commands = [words(each).strip() for each in re.findall(r'<td class="code" data-title="Command">(.*?)</td>', shown)]
    assert len(commands) == 3
    places = [line.place for line in lines]
    for command in commands:
        for case in cases_of(command):
            values = case.as_dict()
            assert any(all(values.get(name) == place[name] for name in place) for place in places)


def test_the_alphas_of_a_table_are_in_order():
    lines = made_lines("comparison_dp", methods=["fedavg"], splits=2)
    shown = section(page_html(lines[::-1], about=ABOUT), "again")
    assert words(re.search(r'<td class="code" data-title="alpha">(.*?)</td>', shown)[1]) == "0.5, 5, 100"


def cases_of(command: str):
    """What the command line would measure."""
    from logofair_reproduction.commands.pages.reproduce import Selection
    from logofair_reproduction.commands.reproduce import reproduce

    given = reproduce.make_context("reproduce", command.split()[2:]).params
    wanted = {name: given[name] for name in ("names", "quick", "data", "method", "alpha", "seeds", "settings")}
    found = [case for part in Selection(**wanted).parts() for case in part.cases()]
    assert {case.split.random_state for case in found} == {0, 1}
    return found


@pytest.mark.tool
def test_a_sign_leads_to_its_claim_even_where_that_is_folded(browser, page, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page, "utf-8")
    opened = browser.new_page(viewport={"width": 390, "height": 900})
    opened.goto(path.as_uri())
    opened.click(".matrix td.untested a")
    opened.wait_for_function("document.querySelector('#claim-unknown').closest('details').open")
    assert opened.locator("#claim-unknown").is_visible()
    opened.close()


def test_runs_with_few_settings_and_with_all_are_counted_apart_and_rerun_as_they_were():
    narrowed = {"alphas": [0.5], "methods": ["fedfb"]}
    both = [each for budget in (3, 20) for each in made_lines("comparison_dp", budget=budget, **narrowed)]
    shown = page_html(both, about=ABOUT)
    counts = words(section(shown, "settings"))
    assert ("3 of 3" in counts, "6 of 6" in counts) == (True, False)
    assert "--method fedfb --seeds 3 --settings 3 " in words(section(shown, "again"))


def test_an_identifier_names_one_thing(page):
    names = re.findall(r' id="([^"]+)"', page)
    assert len(names) == len(set(names))


def test_the_page_loads_nothing_and_is_small(page):
    assert len(page.encode()) < 1_000_000
    assert not re.search(r'(src|href)="(?!#|data:,)', re.sub(r"xlink:", "", page))


# Letters of pictures that lie on others or leave their picture.
_HIDDEN_LETTERS = """() => Array.from(document.querySelectorAll(".plot svg")).flatMap((svg) => {
  const frame = svg.getBoundingClientRect(), found = [];
  const texts = Array.from(svg.querySelectorAll("text"), (t) => [t.textContent.trim(), t.getBoundingClientRect()]);
  texts.forEach(([name, box], i) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1) found.push(name);
    for (const [other, its] of texts.slice(i + 1)) {
      const wide = Math.min(box.right, its.right) - Math.max(box.left, its.left);
      const high = Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top);
      if (wide > 2 && high > 4) found.push(`${name} on ${other}`);
    }
  });
  return found;
})"""
_INK = """() => [getComputedStyle(document.body).color,
  ...new Set(Array.from(document.querySelectorAll(".plot text"), (t) => getComputedStyle(t).fill))]"""
_SIDEWAYS = """() => Array.from(document.querySelectorAll(".scroll"))
  .filter((frame) => !frame.closest("#glance") && frame.scrollWidth > frame.clientWidth + 1)
  .map((frame) => frame.getAttribute("aria-label"))"""


@pytest.fixture(scope="module")
def browser():
    with running_browser() as running:
        yield running


@pytest.mark.tool
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (1200, "dark"), (390, "light"), (390, "dark")])
def test_the_page_fits_desk_and_phone_and_its_letters_follow_the_colours(browser, page, tmp_path, width, scheme):
    path = tmp_path / "page.html"
    path.write_text(page, "utf-8")
    opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    troubles = []
    opened.on("console", lambda message: troubles.append(message.text))
    opened.goto(path.as_uri())
    opened.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    assert opened.evaluate(_SIDEWAYS) == []
    assert opened.evaluate(_HIDDEN_LETTERS) == []
    ink, *drawn = opened.evaluate(_INK)
    assert drawn == [ink]
    assert opened.title() == "LoGoFair: claimed and obtained"
    assert troubles == []
    opened.close()
