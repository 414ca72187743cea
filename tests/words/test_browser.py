"""The report in a real browser: embedded Adult at five sites, and 200 generated sites with awkward names."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import logofair
from logofair.datasets import dirichlet_sites, load_adult, split
from logofair.tradeoff import frontier
from logofair.words import About, in_memory
from logofair.words.fitted import fit_page
from support.browser import running_browser

pytestmark = pytest.mark.tool

SECTIONS = ["first", "fair", "cost", "rely", "rules", "proof", "sources"]
HOSTILE = "<script>document.title='taken'</script>"
LONG = "The-united-municipalities-of-the-upper-and-lower-valley-" * 3
A4 = {"width": 688, "height": 1000}  # A4 less the margins of the page's own style, in CSS pixels


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reports")
    _write_adult(place / "adult.html")
    _write_many(place / "many.html")
    return place


def _write_adult(path: Path) -> None:
    adult = load_adult()
    site = np.array([f"site {i}" for i in range(5)])[dirichlet_sites(adult.sensitive, n_sites=5, alpha=0.5, rng=0)]
    part = split(len(adult), {"train": 0.4, "calibrate": 0.3, "test": 0.3}, rng=0)
    train, rows, test = part["train"], part["calibrate"], part["test"]
    model = LogisticRegression(solver="newton-cholesky").fit(adult.features[train], adult.labels[train])
    score = model.predict_proba(adult.features)[:, 1]
    columns = {"sensitive_features": adult.sensitive[rows], "sites": site[rows]}
    solution = logofair.fit(
        score[rows], adult.labels[rows], **columns, notion="equalized_odds", local_tolerance=0.05, global_tolerance=0.02
    )
    surface = frontier(
        score[rows],
        adult.labels[rows],
        **columns,
        notion="equalized_odds",
        local_tolerances=[0.02, 0.05],
        global_tolerances=[0.02, None],
        chosen=(0.05, 0.02),
    )
    tested = solution.test(score[test], adult.labels[test], sensitive_features=adult.sensitive[test], sites=site[test])
    source = in_memory("Adult", solution)
    about = About(source, "logofair fit adult.csv", "Income", "Who is invited", "A. Person", "1 May 2024", "invited")
    fit_page(tested, about, frontier=surface).save(path)
    decided = (score[test] >= 0.5).astype(int)
    audit = logofair.audit(decided, adult.labels[test], sensitive_features=adult.sensitive[test], sites=site[test])
    audit.report(path.with_name("audit.html"), About(command="logofair audit adult.csv"))


def _write_many(path: Path) -> None:
    random = np.random.default_rng(0)
    site, group = random.integers(0, 200, 50_000), random.integers(0, 3, 50_000)
    site[:20] = 199  # and a few more: one site is small
    score = random.beta(2 + group, 3 + site % 5)
    names = np.array([f"site {i:03d}" for i in range(198)] + [HOSTILE, LONG], dtype=object)
    groups = np.array(["left", "<b>right</b>", LONG], dtype=object)[group]
    label, site = random.random(50_000) < score, names[site]
    rows, test = slice(0, 20_000), slice(20_000, None)
    solution = logofair.fit(
        score[rows],
        label[rows],
        sensitive_features=groups[rows],
        sites=site[rows],
        require=[
            "selection rate gap <= 0.02 overall",
            'selection rate gap <= 0.05 per site except "site 000", "site 001"',
            'selection rate gap <= 0.2 at "site 001"',
        ],
    )
    tested = solution.test(score[test], label[test], sensitive_features=groups[test], sites=site[test])
    tested.report(path, About(in_memory("200 sites", solution), "logofair fit sites.parquet"))


@pytest.fixture(scope="module")
def browser():
    with running_browser() as running:
        yield running


@pytest.fixture(params=["adult", "many"])
def address(request: pytest.FixtureRequest, folder: Path) -> str:
    return (folder / f"{request.param}.html").as_uri()


@pytest.fixture
def open_page(browser):
    """Open an address with given settings; whatever goes wrong in the page fails the test."""
    contexts = []

    def opened(address: str, **settings):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        context.set_default_timeout(15_000)
        page, troubles = context.new_page(), []
        page.on("console", lambda message: troubles.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda request: request.url == address or troubles.append(f"request: {request.url}"))
        page.on("dialog", lambda dialog: troubles.append(f"dialog: {dialog.message}"))
        page.goto(address)
        contexts.append((context, troubles))
        return page

    yield opened
    for context, troubles in contexts:
        context.close()
        assert troubles == []


def test_the_page_opens_without_errors_or_requests_and_shows_every_section(open_page, address):
    page = open_page(address)
    assert page.evaluate("Array.from(document.querySelectorAll('main > section'), s => s.id)") == SECTIONS
    for name in SECTIONS:
        section = page.locator(f"#{name}")
        assert section.is_visible(), name
        assert len(section.inner_text()) > 10, name


def test_the_first_screen_is_seen_without_scrolling(open_page, folder):
    page = open_page((folder / "adult.html").as_uri(), viewport={"width": 1280, "height": 720})
    box = page.locator("#first").bounding_box()
    assert box["y"] + box["height"] <= 720
    assert page.locator("#first .tile").count() == 3
    assert page.locator("#first svg[role=img]:visible").count() == 1
    shown, hidden = page.locator("#first svg:visible g").count(), page.locator("#first .unseen tbody tr").count()
    assert shown == hidden  # every line drawn is a row of a table for those who do not see the picture
    assert page.locator("#first p").all_inner_texts() != []


def test_the_report_of_an_audit_opens_and_fits_a_phone(open_page, folder):
    page = open_page((folder / "audit.html").as_uri(), viewport={"width": 390, "height": 844})
    names = page.evaluate("Array.from(document.querySelectorAll('main > section'), s => s.id)")
    assert names == ["first", "fair", "groups", "sources"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(_HIDDEN_SIDEWAYS) == []


def test_without_javascript_all_sections_can_be_read(open_page, address):
    page = open_page(address, java_script_enabled=False)
    for name in SECTIONS:
        assert page.locator(f"#{name}").is_visible(), name
    assert page.locator("#theme").is_hidden()


def test_on_a_desk_no_table_hides_its_last_column(open_page, address):
    page = open_page(address)
    _unfold(page)
    assert page.evaluate(_HIDDEN_SIDEWAYS) == []


def test_landmarks_are_there_and_headings_skip_no_level(open_page, folder):
    page = open_page((folder / "adult.html").as_uri())
    assert page.evaluate("['header', 'nav', 'main', 'footer'].map(n => document.querySelectorAll(n).length)") == [1] * 4
    levels = page.evaluate("Array.from(document.querySelectorAll('h1,h2,h3,h4,h5'), h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    unnamed = "Array.from(document.querySelectorAll('svg[role=img]')).filter(s => !s.getAttribute('aria-label')"
    assert page.evaluate(f"{unnamed} && !s.getAttribute('aria-labelledby')).length") == 0


def _unfold(page) -> None:
    """Open whatever is folded away, as a reader would."""
    for summary in page.locator("details:not([open]) > summary").all()[::-1]:
        summary.click()
    assert page.locator("details:not([open])").count() == 0


def test_a_table_sorts_by_number_and_by_name_from_mouse_and_keyboard(open_page, address):
    page = open_page(address)
    _unfold(page)
    table = page.locator("#fair table[data-search]").first

    def column(number: int) -> list[str]:
        return table.evaluate(f"t => Array.from(t.tBodies[0].rows, r => r.cells[{number}].textContent)")

    def sizes() -> list[int]:
        return [int(re.sub(r"[^0-9]", "", text) or "0") for text in column(5)]

    heading = table.locator("thead th").nth(5)
    heading.locator(".sort").click()
    assert heading.get_attribute("aria-sort") == "descending"
    assert sizes() == sorted(sizes(), reverse=True)
    heading.locator(".sort").press("Enter")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert sizes() == sorted(sizes())
    table.locator("thead th").nth(0).locator(".sort").press("Space")
    names = [name for name in column(0) if name.startswith("site")]
    assert names == sorted(names)
    assert heading.get_attribute("aria-sort") is None


@pytest.mark.parametrize("width", [1280, 390])
def test_searching_shows_the_matching_rows_alone(open_page, folder, width):
    page = open_page((folder / "many.html").as_uri(), viewport={"width": width, "height": 844})
    _unfold(page)
    page.get_by_label("Find a site or a group").fill("SITE 01")
    rows = page.locator("#rules table").first.locator("tbody tr:visible")
    assert rows.count() == 30  # ten sites, three groups
    assert all("site 01" in text for text in rows.all_inner_texts())
    assert page.locator("#rules output").first.inner_text() == "30 of 600 rows"


_BRIGHTNESS = "getComputedStyle(document.body).backgroundColor.match(/[0-9.]+/g).slice(0, 3).map(Number)"


def test_colours_follow_the_system_and_the_button_turns_them_round(open_page, folder):
    light, dark = (open_page((folder / "adult.html").as_uri(), color_scheme=scheme) for scheme in ("light", "dark"))
    assert min(light.evaluate(_BRIGHTNESS)) > 200
    assert max(dark.evaluate(_BRIGHTNESS)) < 60
    for page in (light, dark):
        page.focus("#theme")
        page.keyboard.press("Enter")
    assert max(light.evaluate(_BRIGHTNESS)) < 60
    assert min(dark.evaluate(_BRIGHTNESS)) > 200


# Contrast of every text with what lies behind it, colours read back from a canvas in whatever form they are written.
_FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (colour, on) => {
    canvas.fillStyle = `rgb(${on.join(",")})`; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return Array.from(canvas.getImageData(0, 0, 1, 1).data.slice(0, 3));
  };
  const light = (rgb) => rgb.map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const white = [255, 255, 255];
  const behind = (node) => node ? read(getComputedStyle(node).backgroundColor, behind(node.parentElement)) : white;
  const faint = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.getClientRects().length || node.closest("script")) continue;
    if (node.closest("title, option")) continue;
    const style = getComputedStyle(node), paper = behind(node);
    const ink = read(node.closest("svg") ? style.fill : style.color, paper);
    const [low, high] = [light(ink), light(paper)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) faint.push(`${ratio.toFixed(2)} ${node.tagName}.${node.className}: ${text.data.slice(0, 30)}`);
  }
  return [...new Set(faint)];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_a_contrast_of_at_least_four_and_a_half(open_page, folder, scheme):
    page = open_page((folder / "adult.html").as_uri(), color_scheme=scheme)
    assert page.evaluate(_FAINT) == []


def test_what_has_the_focus_is_framed(open_page, folder):
    page = open_page((folder / "adult.html").as_uri())
    seen = set()
    for _ in range(14):
        page.keyboard.press("Tab")
        frame = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert frame != "none", page.evaluate("document.activeElement.outerHTML.slice(0, 100)")
        seen.add(page.evaluate("document.activeElement.outerHTML.slice(0, 100)"))
    assert len(seen) > 8


# What sticks out of the page, or is hidden in a frame that would scroll: on paper nothing scrolls.
_CUT_OFF = """() => {
  const wide = document.documentElement.clientWidth + 1, found = [];
  for (const node of document.body.querySelectorAll("*")) {
    if (!node.getClientRects().length || node.closest(".skip")) continue;
    const box = node.getBoundingClientRect(), style = getComputedStyle(node);
    const hides = style.overflowX !== "visible" && !node.closest("svg");
    const clips = hides && (node.scrollWidth > node.clientWidth + 1 || node.scrollHeight > node.clientHeight + 1);
    if (box.right > wide || clips) found.push(`${node.tagName}.${node.className} ${Math.round(box.right)}`);
  }
  return found;
}"""


# Tables that hide something at their side.
_HIDDEN_SIDEWAYS = """() => Array.from(document.querySelectorAll(".scroll"))
  .filter((frame) => frame.scrollWidth > frame.clientWidth + 1)
  .map((frame) => `${frame.getAttribute("aria-label")}: ${frame.scrollWidth} in ${frame.clientWidth}`)"""
_OUTSIDE_ITS_PICTURE = """() => Array.from(document.querySelectorAll("svg text")).filter((text) => {
  const box = text.getBoundingClientRect(), frame = text.closest("svg").getBoundingClientRect();
  const beyond = [box.right - frame.right, frame.left - box.left, box.bottom - frame.bottom, frame.top - box.top];
  return box.width > 0 && Math.max(...beyond) > 1;
}).map((text) => text.textContent)"""


def test_on_paper_nothing_is_cut_off(open_page, address):
    page = open_page(address, viewport=A4)
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(_CUT_OFF) == []
    assert page.evaluate(_OUTSIDE_ITS_PICTURE) == []
    assert page.locator("nav").is_hidden()
    assert page.evaluate("Array.from(document.querySelectorAll('details')).every(d => d.open)")
    assert page.pdf(format="A4", prefer_css_page_size=True)[:4] == b"%PDF"


def test_paper_is_light_even_where_the_screen_is_dark(open_page, folder):
    page = open_page((folder / "adult.html").as_uri(), color_scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "light"


def test_on_a_phone_the_page_does_not_scroll_sideways(open_page, address):
    page = open_page(address, viewport={"width": 390, "height": 844})
    _unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(_HIDDEN_SIDEWAYS) == []
    assert page.evaluate(_OUTSIDE_ITS_PICTURE) == []


def test_hostile_names_stay_text(open_page, folder):
    page = open_page((folder / "many.html").as_uri())
    _unfold(page)
    assert page.title().startswith("Fairness report: 200 sites: 20,000 people at 200 sites")
    assert page.locator("main b, main script").count() == 0
    assert page.get_by_role("rowheader", name=HOSTILE).count() > 0
    assert "<b>right</b>" in page.locator("#rules tbody").first.inner_text()


def test_a_script_smuggled_into_the_page_is_not_run(folder, browser):
    text = (folder / "many.html").read_text("utf-8").replace("</main>", "<script>window.taken = 1</script></main>")
    changed = folder / "changed.htm"
    changed.write_text(text, "utf-8")
    page = browser.new_page()
    page.goto(changed.as_uri())
    assert page.evaluate("window.taken === undefined")
    page.context.close()
