"""How soon the studio answers: ``python -m benchmarks.studio``, 50 random settings of a million rows.

The time is that from a wish to the bytes of its answer, as the server has them: solve, certify, measure, say. With
``--browser`` it is that from a moved slider to painted figures, in Chromium. Wall-clock time and that of the processor
stand beside one another: on a machine that does other work they differ.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import click
import msgspec
import numpy as np
from rich.console import Console

from benchmarks.measurements import Size, drawn_labels, federation, lined
from logofair.columns.checks import Floats
from logofair.studio.answers import Wish, answers
from logofair.studio.session import Session, Setting

SIZES = (Size(50, 20_000), Size(1_000, 1_000))
# At the median, and what 95 of 100 stay below, in milliseconds to painted figures, by the number of sites.
GOALS = {50: (60.0, 200.0), 1_000: (120.0, 400.0)}
_SETTINGS = 50


def session_of(size: Size) -> tuple[Session, float]:
    """A session of generated rows, and the seconds until its first answer."""
    scores, groups, sites = federation(size)
    rows = {"scores": scores, "labels": drawn_labels(scores), "sensitive_features": groups, "sites": sites}
    began = time.perf_counter()
    session = Session(rows, {}, Setting(local=0.05, overall=0.02), 0)
    list(answers(session, Wish(what="solve")))
    return session, time.perf_counter() - began


def settings(seed: int = 0) -> Iterator[Setting]:
    """What somebody who moves sliders at random asks for."""
    random = np.random.default_rng(seed)
    notions = ("demographic_parity", "equal_opportunity", "equalized_odds")
    for _ in range(_SETTINGS):
        local, overall = float(random.integers(10, 101)) / 1000, float(random.integers(0, 61)) / 1000
        costs = (1.0, 3.0) if random.random() < 0.3 else None
        yield Setting(notion=str(random.choice(notions)), local=local, overall=overall, costs=costs)


def answer_times(session: Session) -> Floats:
    """Milliseconds of every setting's answer: on the clock, and of the processor; (settings, 2)."""
    site, found = str(session.sites[0]), []
    for setting in settings():
        clock, processor = time.perf_counter(), time.process_time()
        for answer in answers(session, Wish(what="solve", setting=setting, site=site)):
            msgspec.json.encode(answer)
        found.append((time.perf_counter() - clock, time.process_time() - processor))
    return 1000.0 * np.array(found)


def painted_times(session: Session) -> Floats:
    """Milliseconds from a moved slider to painted figures, of sliders at random in Chromium, (settings, 1)."""
    import uvicorn
    from playwright.sync_api import sync_playwright

    from logofair.studio.server import make_app

    config = uvicorn.Config(make_app(session, "token"), port=0, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    random, found = np.random.default_rng(0), []
    with sync_playwright() as playwright:
        path = os.environ.get("LOGOFAIR_CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1280, "height": 800})
        shown.goto(f"http://127.0.0.1:{port}/?token=token")
        shown.locator("main:not(.recomputing) .pill:not(:empty)").wait_for()
        for _ in range(_SETTINGS):
            shown.wait_for_timeout(1500)  # the frontier of the last setting is drawn
            label, most = (("Gap overall", 6.0), ("Gap at each site", 10.0))[int(random.integers(0, 2))]
            found.append([shown.evaluate(_MOVED, [label, round(float(random.uniform(0.0, most)), 1)])])
        browser.close()
    server.should_exit = True
    thread.join()
    return np.array(found)


# Moves a slider and waits until figures are painted: a frame after the page is no longer being recomputed.
_MOVED = """async ([label, value]) => {
  const sliders = [...document.querySelectorAll("input[type=range]")];
  const input = sliders.find((each) => each.labels[0]?.textContent === label);
  const frame = () => new Promise((done) => requestAnimationFrame(done)), began = performance.now();
  input.value = value;
  input.dispatchEvent(new Event("input"));
  const main = document.querySelector("main");
  while (main.classList.contains("recomputing")) await new Promise((done) => setTimeout(done, 1));
  await frame();
  return performance.now() - began;
}"""


@click.command()
@click.option("--browser", is_flag=True, help="To painted figures, in Chromium.")
def measure(browser: bool) -> None:
    """Measure how soon 50 random settings are answered, at 50 sites and at 1,000."""
    rows = [["sites x rows", "first answer, s", "ms at the median", "95 % below", "goals"]]
    for size in SIZES:
        session, first = session_of(size)
        times = painted_times(session) if browser else answer_times(session)
        columns = zip(np.median(times, axis=0), np.quantile(times, 0.95, axis=0), strict=True)
        middle, most = zip(*columns, strict=True)
        shown = [" / ".join(f"{value:.0f}" for value in values) for values in (middle, most)]
        goal = " and ".join(f"{value:.0f}" for value in GOALS[size.sites])
        rows.append([str(size), f"{first:.1f}", *shown, goal])
    Console().print(lined(rows))
    print("To painted figures, in Chromium." if browser else "To the bytes of the answer: clock / processor.")


if __name__ == "__main__":
    measure()
