"""The page of a run: what it says, that data stay text, and that it can be read in a browser on a desk and a phone."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest

from logofair_reproduction.experiments import page as pages
from logofair_reproduction.experiments.claims import judge
from logofair_reproduction.experiments.page import render
from logofair_reproduction.experiments.records import FILE
from logofair_reproduction.experiments.summaries import measured
from made.made_records import made_records
from support.browser import running_browser

HOSTILE = "<script>document.title='taken'</script>"
ABOUT = {
    "rows": {"train": 17_000, "calibration": 17_000, "test": 14_842},
    "sample": {"of": 48_842},
    "date": "2026-05-16",
    "versions": {"logofair": "0.1.0", "torch": "2+cpu"},
    "trained_with": {"device": HOSTILE, "torch": "2+cu"},
}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    names = ("comparison_dp", "clients_dp", "rounds_dp", "sensitivity_dp")
    found = [record for name in names for record in made_records(name, alphas=[0.5])]
    (folder / FILE).write_text("".join(f"{json.dumps(record | ABOUT)}\n" for record in found))
    return folder, found, render(folder)


@pytest.fixture(scope="module")
def page(rendered):
    return (rendered[0] / "page.html").read_text("utf-8")


def section(page: str, name: str) -> str:
    return re.search(rf'<section id="{name}">.*?</section>', page, re.DOTALL)[0]


def words(markup: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", markup)))


def test_sections_follow_one_another_from_verdicts_to_experiments(page):
    order = ["verdicts", "claims", "comparison_dp", "clients_dp", "rounds_dp", "sensitivity_dp"]
    assert re.findall(r'<a href="#([\w-]+)">', page) == order
    assert re.findall(r'<section id="([\w-]+)">', page) == order


def test_the_heading_says_what_was_run_on_which_rows_and_data_stay_text(page):
    heading = words(page.split("</header>")[0])
    for said in (
        "Adult (UCI)",
        "48,842 rows (the paper: more than 45,000)",
        " 3 for each figure",
        "2026-05-16",
        "logofair 0.1.0, torch 2+cpu and 2+cu",
        "logofair reproduce comparison_dp clients_dp rounds_dp sensitivity_dp",
        HOSTILE,
    ):
        assert said in heading
    assert HOSTILE not in page


def test_every_verdict_has_its_sign_and_what_it_rests_on(page, rendered):
    signs = words(section(page, "verdicts"))
    claims = words(section(page, "claims"))
    _, records, (*_, matrix) = rendered
    for row in matrix.rows.iter_rows(named=True):
        assert f"{row['claim']} {row['Adult DP']}" in signs
        assert row["claim"] in claims
    for claim, verdict in judge(measured(records))[0].select("claim", "verdict").rows():
        assert f"{claim} " in claims
        assert f"Adult DP {verdict}" in claims
    assert "No results: logofair reproduce introduction" in claims


def test_an_experiment_has_its_figure_and_its_tables_with_the_papers_figures(page):
    shown = section(page, "comparison_dp")
    assert shown.count('<img src="data:image/png;base64,') == 1
    assert "(0.8381)" in shown
    assert "Compared on the same splits" in words(shown)


def test_the_tables_are_markdown_of_the_same(page, rendered):
    markdown = (rendered[0] / "tables.md").read_text("utf-8")
    assert markdown.count("### ") == len(rendered[2])
    for cell in re.findall(r"<td>(\d\.\d{3} ±[^<]*)</td>", page):
        assert cell in markdown


def test_the_page_loads_nothing_and_is_small(page):
    assert len(page.encode()) < 1_000_000
    assert not re.search(r'(src|href)="(?!#|data:)', page)


def test_the_same_results_make_the_same_page(page, rendered):
    render(rendered[0])
    assert (rendered[0] / "page.html").read_text("utf-8") == page


def record(data, rows=23_783, limit=None, **more):
    return {"data": data, "rows": {"train": rows - 7_783, "test": 7_783}, "limit": limit, **more}


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            record("enem", sample={"of": 23_783, "year": "2019", "natural": 37}),
            "a sample: 23,783 rows of 2019, 37 natural clients (municipality) (the paper: about 1.4 million)",
        ),
        (
            record("acs", limit=23_783, sample={"of": 898_610, "year": "2018", "natural": 51}),
            "a sample: 23,783 of 898,610 rows of 2018, drawn at random, 51 natural clients (state)",
        ),
        (record("acs", sample={"of": 23_783}), "23,783 rows"),
        (record("adult", 48_842, sample={"of": 48_842}), "48,842 rows (the paper: more than 45,000)"),
        (record("celeba"), "a sample: 23,783 rows (the paper: about 200,000 images)"),  # made before samples were told
    ],
)
def test_the_rows_are_said_to_be_what_they_are(found, said):
    assert pages._rows_of(found["data"], [found]) == said


def test_runs_on_some_rows_and_on_all_are_told_apart():
    found = [record("acs", sample={"of": 23_783}), record("acs", 9_000, 9_000, sample={"of": 23_783})]
    assert pages._rows_of("acs", found) == "23,783 rows; a sample: 9,000 of 23,783 rows, drawn at random"


@pytest.fixture(scope="module")
def browser():
    with running_browser() as running:
        yield running


@pytest.mark.tool
@pytest.mark.parametrize("width", [1200, 390])
def test_the_page_fits_desk_and_phone(browser, page, rendered, width):
    opened = browser.new_page(viewport={"width": width, "height": 900})
    troubles = []
    opened.on("console", lambda message: troubles.append(message.text))
    opened.goto((rendered[0] / "page.html").as_uri())
    opened.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    sizes = opened.evaluate("Array.from(document.images, (image) => [image.complete, image.naturalWidth, image.width])")
    assert len(sizes) == 4
    assert all(complete and natural > 0 and shown <= width for complete, natural, shown in sizes)
    assert opened.title() == "LoGoFair: claimed and obtained"
    assert troubles == []
    opened.close()
