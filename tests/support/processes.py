"""Deployments on loopback: servers and sites as processes of the command line, all of which end with their test.

Every process started here has a tag in its environment, which its descendants inherit, whatever sessions they are in.
By it they are all found: to be killed at once, as in a power failure, to be suspended, and at the end to see that none
is left.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path

import numpy as np
import polars
import pytest

from logofair.cli.commands.federate.setup import fingerprints
from logofair.engines.flower.keys import make_authority, make_site_key
from logofair.engines.flower.processes import free_port
from logofair.engines.folder import _PLAN, RESULT, STATE, read_plan, read_result, read_state
from logofair.engines.inprocess import run
from logofair.engines.site import _CLIENT, _SETTINGS
from logofair.federation import SiteColumns
from logofair.policy.policy import Policy

TAG = "LOGOFAIR_TEST"
GROUPS = ("F", "M")
LABELLED = ("--score", "score", "--label", "label")
SITES = ("east", "north", "south")
NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

_DOCUMENTS = {
    "plan.json": _PLAN,
    "state.json": STATE,
    "result.json": RESULT,
    ".site.json": _SETTINGS,
    ".client.json": _CLIENT,
}


class Command:
    """A running ``logofair federate ...`` with all its descendants."""

    def __init__(self, name, arguments, folder, tag):
        self.name, self.tag = name, f"{TAG}={tag}/{name}/{secrets.token_hex(4)}"
        self.output = folder / f"{name}.out"
        key, _, value = self.tag.partition("=")
        one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS"), "1")
        with self.output.open("ab") as file:
            self.start = file.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "logofair", "federate", *map(str, arguments)],
                env={**os.environ, **one_thread, key: value},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def text(self):
        """What it has printed so far."""
        return self.output.read_bytes()[self.start :].decode(errors="replace")

    def wait_for_output(self, words, timeout):
        """Wait until it has printed some words."""
        wait_until(lambda: words in self.text() or self.process.poll() is not None, timeout, lambda: self._about(words))
        assert words in self.text(), self._about(words)

    def wait(self, timeout):
        """Wait for its end, and return its exit code; no descendant may be left then."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout)
        assert self.process.poll() is not None, self._about("its end")
        self.wait_for_descendants()
        return self.process.returncode

    def kill_all(self):
        """Kill it and all its descendants at once, as in a power failure."""
        send_signal(self.tag, signal.SIGSTOP)  # so that none of them sees another's end
        send_signal(self.tag, signal.SIGKILL)
        self.process.wait(10.0)

    def kill(self):
        """Kill the command alone; its descendants must end by themselves."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10.0)

    def suspend(self):
        """Suspend it and all its descendants."""
        send_signal(self.tag, signal.SIGSTOP)

    def resume(self):
        """Let it continue."""
        send_signal(self.tag, signal.SIGCONT)

    def wait_for_descendants(self):
        """Wait until no descendant is left."""
        wait_until(lambda: not tagged(self.tag), 20.0, lambda: f"{self.name} left processes: {tagged(self.tag)}")

    def interrupt(self):
        """Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def _about(self, words):
        return f"{self.name}: waited for {words!r}; code {self.process.poll()}; it printed:\n{self.text()[-3000:]}"


class Deployment:
    """Keys, the files of some sites and a server's folder, and the commands that work with them."""

    def __init__(self, folder, sites, port=None):
        self.folder, self.sites = folder, dict(sites)
        self.tag, self.port = secrets.token_hex(8), port or free_port()
        self.keys, self.state = folder / "keys", folder / "state"
        self.commands = []
        folder.mkdir(parents=True, exist_ok=True)
        make_keys(self.keys, self.sites)
        for site, table in self.sites.items():
            write_table(table, self.data(site))

    def data(self, site):
        return self.folder / f"{site}.csv"

    def notes(self, site):
        return self.folder / f"{site}-notes"

    def policy(self, site):
        return self.folder / f"{site}-policy.json"

    def command(self, name, *arguments):
        """Start any federate command."""
        self.commands.append(Command(name, arguments, self.folder, self.tag))
        return self.commands[-1]

    def server(self, *options, access=None, name="server", listens=True):
        """Start the server, and wait until sites may come; ``access`` in place of its keys."""
        access = ("--keys", self.keys) if access is None else access
        server = self.command(name, "server", "--folder", self.state, "--port", self.port, *access, *options)
        if listens:
            server.wait_for_output("The server listens", 120.0)
        return server

    def client(self, site, *options, access=None, columns=("--score", "score"), name=None):
        """Start a site's client; ``access`` in place of its keys. A later option replaces an earlier one."""
        trusted = [f"--trust={name}={shown}" for name, shown in fingerprints(self.keys / "sites").items()]
        access = ("--keys", self.keys, *trusted) if access is None else access
        where = ("--server", f"127.0.0.1:{self.port}", "--folder", self.notes(site), "--out", self.policy(site))
        anything = self.folder / "site-policy.toml"  # limits of which none is set
        anything.touch()
        what = ("--name", site, "--data", self.data(site), "--group", "sex", *columns, "--site-policy", anything)
        return self.command(name or site, "client", *what, *where, *access, *options)

    def client_again(self, site, timeout, **settings):
        """Start the client of a site that was killed until it is let in, and return it at its end.

        Flower counts the former node as connected for a minute, and lets no other in under the same key.
        """
        deadline = time.monotonic() + timeout
        while True:
            client = self.client(site, **settings)
            code = client.wait(timeout)
            if code == 0 or "does not let this site in" not in client.text() or time.monotonic() > deadline:
                return client
            time.sleep(2.0)

    def clients_again(self, timeout, **settings):
        """Start the clients of all sites, which were killed, until they are let in, and return them at their end."""
        with ThreadPoolExecutor(len(self.sites)) as pool:
            ends = {site: pool.submit(self.client_again, site, timeout, **settings) for site in self.sites}
        return {site: end.result() for site, end in ends.items()}

    def clients(self, *options, **settings):
        """Start the clients of all sites."""
        return {site: self.client(site, *options, **settings) for site in self.sites}

    def result(self):
        return read_result(self.state / "result.json")

    def state_now(self):
        """The server's state on disk."""
        return read_state(self.state / "state.json").server

    def policies(self, sites=None):
        return {site: Policy.load(self.policy(site)) for site in sites or self.sites}

    def kill_all(self):
        """Kill all processes of all commands at once."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            send_signal(f"{TAG}={self.tag}/", number, exact=False)
        for command in self.commands:
            command.process.wait(10.0)

    def ended(self):
        """Names of the commands that have ended."""
        return [command.name for command in self.commands if command.process.poll() is not None]

    def last_outputs(self):
        """The end of what every command has printed."""
        return "\n".join(f"{command.name}: {command.text()[-1000:]}" for command in self.commands)

    def check_files(self):
        """Every document is complete; temporary files are left only where processes were killed."""
        killed = any(command.process.returncode == -signal.SIGKILL for command in self.commands)
        for file in self.folder.rglob("*"):
            if file.parent.name != "flower" and file.is_file():
                assert killed or (not file.name.endswith(".new") and ".part" not in file.name), file
                for end, document in _DOCUMENTS.items():
                    if file.name.endswith(end):
                        document.read(file)

    def end(self):
        """Kill whatever still runs."""
        for _ in range(5):
            if not send_signal(f"{TAG}={self.tag}/", signal.SIGKILL, exact=False):
                break
            time.sleep(0.1)
        for command in self.commands:
            with suppress(subprocess.TimeoutExpired):
                command.process.wait(5.0)


@contextmanager
def deployment(folder, sites, **settings):
    """Yield a deployment; when the block ends well, no process may be left running and no file half-written."""
    made = Deployment(folder, sites, **settings)
    try:
        yield made
        wait_until(
            lambda: not tagged(f"{TAG}={made.tag}/", exact=False),
            10.0,
            lambda: f"left running: {[command_line(pid) for pid in tagged(f'{TAG}={made.tag}/', exact=False)]}",
        )
        made.check_files()
    finally:
        made.end()


def make_keys(folder, sites, days=365):
    """Certificates of a server, and a key for each site."""
    make_authority(folder, days=days)
    for site in sites:
        make_site_key(folder / "sites", site)


def tables(names=SITES, rows=200, seed=0):
    """Columns of small sites that differ from each other; each score is the chance of its label."""
    rng, made = np.random.default_rng(seed), {}
    for place, site in enumerate(names):
        group = rng.integers(0, 2, rows + 30 * place)
        score = np.round(rng.beta(1.0 + 0.8 * group + 0.2 * place, 2.0), 6)
        label = (rng.random(group.size) < score).astype(int)
        made[site] = {"sex": [GROUPS[g] for g in group], "score": score, "label": label}
    return made


def wait_until(condition, timeout, about=lambda: "it did not happen"):
    """Wait for a condition, and fail with what ``about`` says where it does not come true in time."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, about()
        time.sleep(0.05)


def tagged(tag, *, exact=True):
    """Running processes with a tag in their environment; not ``exact``: with one that begins with it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            variables = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            if tag in variables or (not exact and any(each.startswith(tag) for each in variables)):
                found.append(int(entry.name))
    return sorted(found)


def send_signal(tag, number, *, exact=True):
    """Send a signal to every process with a tag, and return them."""
    pids = tagged(tag, exact=exact)
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return pids


def command_line(pid):
    """What a process was started as."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return "(ended)"


def write_table(table, file):
    """A site's file."""
    polars.DataFrame(table).write_csv(file)


def columns(table):
    """A site's table as the columns of a client."""
    return SiteColumns(table["sex"], table["score"], table["label"])


def expected_of(made, sites=None):
    """The plan in one process, with all sites or some."""
    plan, _ = read_plan(made.state / "plan.json")
    return run(plan, {site: columns(made.sites[site]) for site in sites or made.sites})


def check_result(made, sites=SITES, *, exactly=True):
    """The numbers and policies of the sites are those of a run of them alone in one process; return both results."""
    outcome, expected = made.result(), expected_of(made, sites)
    assert outcome.holds
    assert outcome.sites == tuple(sites)
    names = ("accuracy", "bound", "global_gaps", "final.bound_prices", "final.request.prices", "final.request.weights")
    for name in names:
        found, right = (attrgetter(name)(each) for each in (outcome, expected.result))
        np.testing.assert_allclose(found, right, rtol=0, atol=0.0 if exactly else 1e-8, err_msg=name)
    for name in ("mass", "positives"):  # masked sums of rows are in steps of 2**-20, and every site rounds its own
        found, right = getattr(outcome.totals, name), getattr(expected.result.totals, name)
        np.testing.assert_allclose(found, right, rtol=0, atol=0.0 if exactly else len(sites) * 2.0**-20, err_msg=name)
    for site, policy in made.policies(sites).items():
        rows = columns(made.sites[site])
        found, right = (
            each.probabilities(rows.scores, sensitive_features=rows.sensitive_features)
            for each in (policy, expected.policies[site])
        )
        np.testing.assert_allclose(found, right, rtol=0, atol=0.0 if exactly else 1e-8)
    return outcome, expected.result


def run_command(*arguments, timeout=60.0):
    """Run a federate command to its end: exit code, standard output and standard error."""
    command = [sys.executable, "-m", "logofair", "federate", *map(str, arguments)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False, text=True
    )
    return done.returncode, done.stdout, done.stderr
