"""Make the pictures of docs/images: python tools/pictures.py [promise] [frontier] [report] [studio].

``promise.png`` is drawn from the run of ``logofair demo``; ``frontier.png`` and ``report.png`` are what Chromium shows
of the files that the commands of docs/start/own-file.md write. ``studio.png`` and its like are the live page's.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from matplotlib import style
from matplotlib.figure import Figure

from logofair.auditing import Audit, Measured
from logofair.cli.group import cli
from logofair.datasets import load_adult
from logofair.datasets.demonstration import BASE, Settings, compare

DOCS = Path(__file__).parents[1] / "docs"
IMAGES = DOCS / "images"
_INK = "#1b2230"
_COLUMNS = "data/together.csv --score score --label label --group sex --site site"
_LOOKS = {"Female": ("#D55E00", "o"), "Male": ("#0072B2", "s")}


def promise() -> None:
    """Selection rates at every site and over all, with a score of 1/2 and with LoGoFair, on the demo's test rows."""
    found = compare(load_adult(), Settings())
    before, after = (next(o.audit for o in found.outcomes if o.name == name) for name in (BASE, "LoGoFair_l&g"))
    rows = sum(int(row.rows) for row in before.by_site)
    places = {"left": 0.13, "right": 0.985, "bottom": 0.15, "top": 0.85, "wspace": 0.06}
    with style.context(DOCS / "look.mplstyle"):
        figure = Figure(figsize=(8.2, 3.3))
        left, right = figure.subplots(1, 2, gridspec_kw=places)
        _rates(left, before, f"Score of 1/2: accuracy {before.accuracy:.3f}, gap over all {before.global_gap:.3f}")
        _rates(right, after, f"LoGoFair: accuracy {after.accuracy:.3f}, gap over all {after.global_gap:.3f}")
        right.set_yticklabels([])
        title = f"Share accepted of women (circles) and men (squares), {rows:,} test rows, 95 % intervals"
        figure.text(0.5, 0.03, title, ha="center")
        figure.text(0.5, 0.945, "Adult at five sites, demographic parity, tolerances 0.01", ha="center", weight="bold")
        figure.savefig(IMAGES / "promise.png", dpi=150, facecolor="white", metadata={"Software": None})


def _rates(axes: Any, audit: Audit, title: str) -> None:
    """One panel: a line for each site and one for all, a mark with its interval for each group."""
    at = [(f"site {row.site}", row.rates["selection rate"]) for row in audit.by_site]
    at.append(("all sites", audit.rates["selection rate"]))
    for height, (_, rates) in enumerate(reversed(at)):
        values = [rate for rate in rates.values() if rate is not None]
        axes.plot([min(values), max(values)], [height] * 2, color=_INK, lw=1.4, alpha=0.35, zorder=1)
        for shift, (group, rate) in zip((0.14, -0.14), rates.items(), strict=True):
            _mark(axes, rate, height + shift, *_LOOKS[str(group)])
    axes.axhline(0.5, color=_INK, lw=0.6)
    axes.set_yticks(range(len(at)), [name for name, _ in reversed(at)])
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, 0.62), ylim=(-0.5, len(at) - 0.5))
    axes.set_title(title, fontweight="normal", fontsize=8.5)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")


def _mark(axes: Any, rate: Measured | None, height: float, colour: str, mark: str) -> None:
    if rate is not None and rate.low is not None and rate.high is not None:
        axes.plot([rate.low, rate.high], [height] * 2, color=colour, lw=1.6, solid_capstyle="butt")
        axes.plot([rate], [height], mark, color=colour, markersize=5)


def frontier() -> None:
    """The picture that ``logofair frontier --plot`` draws."""
    _shown(f"frontier {_COLUMNS} --test data/others.csv --plot frontier.svg", "frontier.svg", "svg")


def report() -> None:
    """The first screen of the report that ``logofair fit --report`` writes."""
    words = "--test data/others.csv --local 0.02 --global 0.01 --out policy.json --report report.html"
    _shown(f"fit {_COLUMNS} {words}", "report.html", None)


def _shown(command: str, file: str, part: str | None) -> None:
    """Run a command on the example files and photograph a file that it writes: a part of it, or its beginning."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, chdir(folder), sync_playwright() as playwright:
        for each in ("federate example --out data", command):
            done = CliRunner().invoke(cli, each.split(), prog_name="logofair")
            if done.exit_code:
                raise SystemExit(f"{each}: {done.stderr}")
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.set_content(Path(file).read_text("utf-8"))
        picture = IMAGES / f"{Path(file).stem}.png"
        (page.locator(part) if part else page).screenshot(path=str(picture), timeout=300_000)
        browser.close()


def studio() -> None:
    """The live page of its example: as it opens, with requirements that conflict, and with a threshold set by hand."""
    from playwright.sync_api import sync_playwright

    words = [sys.executable, "-m", "logofair", "studio", "--no-browser", "--seed", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as playwright:
        assert server.stdout is not None
        (address,) = re.findall(r"http\S+", server.stdout.readline())
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.goto(address)

        def photograph(name: str, **where: Any) -> None:
            page.wait_for_timeout(4000)  # the frontier follows the figures
            page.screenshot(path=str(IMAGES / f"{name}.png"), timeout=300_000, **where)

        photograph("studio")
        slider = page.get_by_label("Male: accepted from", exact=True)
        slider.evaluate("input => { input.value = 0.4; input.dispatchEvent(new Event('input')); }")
        page.locator(".told p").wait_for()
        page.locator("section.site").scroll_into_view_if_needed()
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        photograph("studio-hand")
        box = page.get_by_label("Or type a sentence")
        for sentence in ("selection rate >= 0.3 overall", "accepted <= 0.2 overall"):
            box.fill(sentence)
            box.press("Enter")
            page.wait_for_timeout(3000)
        page.evaluate("scrollTo(0, 0)")
        photograph("studio-conflict", clip={"x": 0, "y": 0, "width": 1280, "height": 400})
        browser.close()
        server.send_signal(signal.SIGINT)


PICTURES = {"promise": promise, "frontier": frontier, "report": report, "studio": studio}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
        print(f"docs/images/{name}.png")
