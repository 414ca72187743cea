"""Each fault of a deployment is named on the screens that it concerns, with what to do; real processes on loopback.

With ``LOGOFAIR_FAULTS`` set to a file, that file becomes the page of all faults and what was said (docs/FAULTS.md); of
faults that were not made this time, or not said, it keeps what it had.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("flwr")
pytest.importorskip("polars")

from support import faults
from support.processes import NEEDS_PROC, deployment, tables

pytestmark = [pytest.mark.federation, pytest.mark.slow, NEEDS_PROC]

HEAD = """# What each screen says when something goes wrong

Three of the four that deal with a fault say so on a screen:

* **Our commands, before anything runs.** They check file, keys, certificates, name, dates, clock, plan and port. One
  sentence says what is wrong; mend it and start the same command again.
* **The server, during a run.** A site that is not connected (Flower notices within a minute) has 30 seconds to come
  back; one that does not answer has `--timeout` seconds. Then the run goes on without it, or stops: below the quorum,
  and under secure sums. State is stored after every exchange; the same command goes on from there.
* **A site, at every message.** Another plan than was agreed to, a changed file, a full disk, a forged result: its
  screen says it, the server gets one fixed word. A repeated message gets the same reply.
* **Flower says nothing.** Its node looks for a lost server for ten minutes. After a `kill -9` it counts as connected
  for a minute; the site's command tries for 90 seconds to be let in. That a run went on without a site stands on the
  server's screen and in its result: use `logofair federate join`. Logs are in `FOLDER/flower/*.log`.

Each fault was made with real processes on one machine: a server and the sites east, north and south. The lines are
what they printed (times as `N s`). `make test-slow` checks the decisive words; this writes the table again:

    LOGOFAIR_FAULTS=docs/FAULTS.md pytest -m slow tests/engines/test_fault_screens.py

| fault | screen | says |
|---|---|---|
"""

# By fault: on which screen which words must stand.
SAID = {
    faults.site_killed: {
        "server": ("south is not connected; it has 30 s to come back", "publication): east, north, south answered"),
        "south, started again": ("The server does not let this site in", "It is tried again for N s"),
    },
    faults.server_killed: {"server, started again": ("Run spring goes on",)},
    faults.other_plan: {
        "server": ("without north (the site's people have not agreed to this plan",),
        "north": ("Problem: run 'spring': the plan is refused, since its digest is",),
    },
    faults.other_authority: {"north": ("Your certificate authority is not the server's: ", "SHA-256 ")},
    faults.other_name: {"north": ("is not for the name '127.0.0.2'", "keys server --host 127.0.0.2")},
    faults.certificate_expired: {"server": ("has expired, on ",), "north": ("has expired, on ",)},
    faults.key_readable: {"server": ("chmod 600",), "north": ("chmod 600",)},
    faults.no_encryption: {"north": ("wants encryption", "pass --keys")},
    faults.unknown_key: {"west": ("The server does not let this site in: its key is not registered", "check NAME.pub")},
    faults.nobody_there: {"north": ("No server at 127.0.0.1:9300 (Connection refused)",)},
    faults.other_time: {"north": ("Your clock is 12 s ahead of the server's: Flower refuses more than 5",)},
    faults.port_taken: {"second server": ("127.0.0.1:9300 is taken",)},
}


@pytest.fixture(scope="module")
def page():
    """The rows of the page's table by fault, written at the end where that was asked for."""
    made = {}
    yield made
    if os.environ.get("LOGOFAIR_FAULTS"):
        file = Path(os.environ["LOGOFAIR_FAULTS"])
        known = faults.rows_by_fault(file.read_text(encoding="utf-8")) if file.exists() else {}
        every = [(known | made).get(faults.title(fault), []) for fault in (*SAID, faults.site_without_room)]
        file.write_text(HEAD + "".join(f"{row}\n" for rows in every for row in rows), encoding="utf-8")


def check(made, fault, screens, said, page):
    screens = {name: faults.lines_of(screen, made) for name, screen in screens.items()}
    for name, sentences in said.items():
        for words in sentences:
            assert words in " ".join(screens[name]), screens
    assert not any("Traceback" in line or "Ctrl-C" in line for lines in screens.values() for line in lines)
    page[faults.title(fault)] = list(faults.table_rows(faults.title(fault), screens, said))


@pytest.mark.parametrize("fault", SAID, ids=lambda fault: fault.__name__)
def test_a_fault_is_said_where_it_concerns_somebody(fault, tmp_path, page):
    sites = tables() | (tables(["west"], seed=1) if fault is faults.unknown_key else {})
    with deployment(tmp_path, sites) as made:
        check(made, fault, fault(made), SAID[fault], page)


def test_a_full_disk_is_said_at_the_site_and_to_the_server(tmp_path, page):
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    said = {
        "server": ("without south (the site's disk is full: make room there",),
        "south": ("make room on its disk",),
    }
    try:
        with deployment(tmp_path / "made", tables()) as made:
            screens = faults.site_without_room(made, folder)
            check(made, faults.site_without_room, screens, said, page)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
