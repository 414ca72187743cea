"""Faults of a deployment on loopback, each with real processes, and what every screen said."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from contextlib import contextmanager, suppress

from support.processes import GROUPS, LABELLED, SITES, make_keys, wait_until

PLAN = ("--sites", ",".join(SITES), "--groups", ",".join(GROUPS), "--local", "0.05", "--global", "0.01")
PLAN += (
    "--pooling",
    "none",
    "--calibration",
    "platt",
    "--run",
    "spring",
)  # nine exchanges: enough to be in their midst
TO_THE_END = 400.0  # seconds; a site is missed after 60 and left after 30 more

_SLOW_CLOCK = """
import datetime, email.utils, http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response_only(403)
        then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=12)
        self.send_header("Date", email.utils.format_datetime(then, usegmt=True))
        self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/server.crt", sys.argv[1] + "/server.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


def begun(made, *options):
    """A server and its sites in the midst of a run."""
    server = made.server(*PLAN, *options)
    sites = made.clients(columns=LABELLED)
    file = made.state / "state.json"
    wait_until(lambda: (file.exists() and made.state_now().number >= 3) or made.ended(), TO_THE_END, made.last_outputs)
    return server, sites


def site_killed(made):
    """``kill -9`` of a site in the midst of a run, started again at once."""
    server, sites = begun(made)
    sites["south"].kill_all()
    again = made.client("south", columns=LABELLED, name="south again")
    again.wait(TO_THE_END)
    for command in (server, sites["east"], sites["north"]):
        command.wait(TO_THE_END)
    return {"server": server, "south, started again": again}


def server_killed(made):
    """``kill -9`` of the server in the midst of a run, started again at once."""
    server, sites = begun(made)
    server.kill_all()
    again = made.server(*PLAN, name="server again")
    again.wait(TO_THE_END)
    for client in sites.values():
        client.wait(60.0)
    return {"server, started again": again}


def site_without_room(made, folder):
    """The disk with a site's state is full from the second exchange on."""
    server = made.server(*PLAN)
    sites = {site: made.client(site, columns=LABELLED) for site in ("east", "north")}
    south = made.client("south", "--folder", folder / "south", columns=LABELLED)
    wait_until(lambda: (folder / "south" / "spring.client.json").exists(), TO_THE_END, made.last_outputs)
    with suppress(OSError), (folder / "filled").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    for command in (server, *sites.values()):
        command.wait(TO_THE_END)
    return _ended({"server": server, "south": south})


def other_authority(made):
    """A site has the ca.crt of another federation."""
    server = made.server(*PLAN)
    make_keys(made.folder / "others", ["north"])
    access = ("--authority", made.folder / "others" / "ca.crt", "--key", made.keys / "sites" / "north")
    north = made.client("north", access=access)
    north.wait(TO_THE_END)
    return _ended({"server": server, "north": north})


def other_name(made):
    """A site calls the server by a name that its certificate does not have."""
    server = made.server(*PLAN, "--host", "0.0.0.0")
    north = made.client("north", "--server", f"127.0.0.2:{made.port}", columns=LABELLED)
    north.wait(TO_THE_END)
    return _ended({"server": server, "north": north})


def no_encryption(made):
    """A site connects with ``--insecure`` to a server that encrypts."""
    server = made.server(*PLAN)
    north = made.client("north", access=("--insecure",))
    north.wait(TO_THE_END)
    return _ended({"server": server, "north": north})


def unknown_key(made):
    """The server does not have a site's public key."""
    (made.keys / "sites" / "west.pub").unlink()
    server = made.server(*PLAN)
    west = made.client("west", columns=LABELLED)
    west.wait(TO_THE_END)
    return _ended({"server": server, "west": west})


def nobody_there(made):
    """No server listens at the address."""
    north = made.client("north", columns=LABELLED)
    north.wait(TO_THE_END)
    return {"north": north}


def neither_starts(made):
    """The server and a site, both of which end before they listen or call."""
    server = made.server(*PLAN, listens=False)
    server.wait(TO_THE_END)
    north = made.client("north", columns=LABELLED)
    north.wait(TO_THE_END)
    return {"server": server, "north": north}


def certificate_expired(made):
    """The certificates have expired."""
    shutil.rmtree(made.keys)
    make_keys(made.keys, made.sites, days=0)
    return neither_starts(made)


def key_readable(made):
    """Others may read the private key of the server, and of a site."""
    for key in (made.keys / "server.key", made.keys / "sites" / "north"):
        key.chmod(0o644)
    return neither_starts(made)


def other_plan(made):
    """The people of a site have agreed to another plan."""
    server = made.server(*PLAN)
    agreed = {"north": ("--accept-plan", "0123-4567-89ab-cdef-0123-4567-89ab-cdef")}
    sites = {site: made.client(site, *agreed.get(site, ()), columns=LABELLED) for site in made.sites}
    for command in (server, sites["east"], sites["south"]):
        command.wait(TO_THE_END)
    return _ended({"server": server, "north": sites["north"]})


def other_time(made):
    """A site's clock is 12 seconds ahead."""
    with slow_clock(made):
        north = made.client("north", columns=LABELLED)
        north.wait(TO_THE_END)
    return {"north": north}


def port_taken(made):
    """A second server is started at the port of the first."""
    first = made.server(*PLAN)
    folder = made.folder / "second"
    second = made.command(
        "second server", "server", "--folder", folder, "--port", made.port, "--keys", made.keys, *PLAN
    )
    second.wait(TO_THE_END)
    assert not (folder / "plan.json").exists()
    return _ended({"first server": first, "second server": second})


@contextmanager
def slow_clock(made):
    """Something that answers as a server does whose clock is 12 seconds behind."""
    process = subprocess.Popen([sys.executable, "-c", _SLOW_CLOCK, str(made.keys), str(made.port)], stderr=-3)
    try:
        yield
    finally:
        process.kill()
        process.wait(10.0)


def _ended(screens):
    """End what is still waiting, and return what it said before."""
    texts = {name: command.text() for name, command in screens.items()}
    for command in screens.values():
        if command.process.poll() is None:
            command.interrupt()
            command.wait(60.0)
    return texts


def lines_of(screen, made):
    """What a screen said, without what differs from run to run."""
    text = screen if isinstance(screen, str) else screen.text()
    for folder in (made.folder, made.folder.parent):
        text = text.replace(str(folder), "")
    text = text.replace(str(made.port), "9300")
    for pattern, word in (
        (r"(?<=SHA-256 )[0-9A-F:]+", "AB:CD:..."),
        (r"\d{4}-\d\d-\d\d", "YYYY-MM-DD"),
        (r"([0-9a-f]{4}-){7}[0-9a-f]{4}", "0123-..."),
        (r"\d+(\.\d+)? s\b(?! to come| ahead)", "N s"),
    ):
        text = re.sub(pattern, word, text)
    lines = [line for line in text.splitlines() if line.strip()]
    page = next((place for place, line in enumerate(lines) if line.startswith("Run spring: ")), len(lines))
    return list(dict.fromkeys(lines[:page]))


def title(fault):
    """What a fault is called in the page's table."""
    return " ".join(fault.__doc__.split()).rstrip(".").replace("``", "`")


def rows_by_fault(page):
    """The rows of a page's table by the fault that they are about."""
    found, fault = {}, ""
    for row in page.partition("|---|---|---|\n")[2].splitlines():
        fault = row.split("|")[1].strip() or fault
        found.setdefault(fault, []).append(row)
    return found


def table_rows(fault, screens, said):
    """A fault as rows of the page's table: which screen says what, in the lines that hold the decisive words."""
    for name, sentences in said.items():
        lines = [line for line in screens[name] if any(words in line for words in sentences)]
        yield f"| {fault} | {name} | {'<br>'.join(line.replace('|', '/') for line in lines)} |"
        fault = ""
