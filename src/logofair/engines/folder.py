"""A server's folder: the plan, the state after every exchange, and the result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from logofair.engines.conductor import ServerState, Transport, conduct
from logofair.engines.events import Tell, happened, ignore
from logofair.errors import InputError, RunError
from logofair.federation.plan import Plan
from logofair.federation.result import RunResult
from logofair.federation.server import Server
from logofair.files.documents import Document
from logofair.files.writing import locked

_STATE = "state.json"
_RESULT = "result.json"
_POLL = 0.5  # seconds between two looks for sites
_LOCK_PATIENCE = 30.0  # seconds: a killed server's app may still work in its folder for so long
_REMIND = 60.0  # seconds after which the sites awaited are named again


@dataclass(frozen=True)
class RunOptions:
    """How a server runs a plan."""

    sites: tuple[str, ...] = ()  # to wait for; none: any ``count`` sites
    count: int = 2
    wait: float = 600.0  # seconds to wait for them; then the run begins with those present, if they are a quorum
    timeout: float = 600.0  # seconds after which a site that does not answer is absent


@dataclass(frozen=True, eq=False)
class _StoredPlan:
    """A plan with the options of its server."""

    plan: Plan
    options: RunOptions


_PLAN = Document(_StoredPlan, "logofair plan", 4, "plan")
STATE = Document(
    ServerState, "logofair state", 5, "state", "restore it from a backup, or start a new run", private=True
)
RESULT = Document(RunResult, "logofair result", 5, "result", "get the file again from the server")


def write_plan(path: str | Path, plan: Plan, options: RunOptions) -> None:
    """Store a plan with the options of its server."""
    _PLAN.write(path, _StoredPlan(plan, options))


def read_plan(path: str | Path) -> tuple[Plan, RunOptions]:
    """Read a stored plan and its options."""
    stored = _PLAN.read(path)
    return stored.plan, stored.options


def write_result(path: str | Path, result: RunResult) -> None:
    """Store a result, for sites that join later too."""
    RESULT.write(path, result)


def read_result(path: str | Path) -> RunResult:
    """Read a stored result."""
    return RESULT.read(path)


def conduct_from_disk(
    plan_path: str | Path, folder: str | Path, transport: Transport, *, tell: Tell = ignore
) -> RunResult:
    """Run a stored plan over a transport, or go on where an earlier process stopped.

    The folder holds the state after every exchange, and at the end the result. ``tell`` gets an event when an exchange
    begins, when it is done, and when sites come.
    """
    home = Path(folder)
    plan, options = read_plan(plan_path)
    with locked(home / "server.lock", patience=_LOCK_PATIENCE):
        if (home / _RESULT).exists():
            result = read_result(home / _RESULT)
            if result.plan.digest != plan.digest:
                raise InputError(f"{home}: holds the result of run {result.plan.run}; use another folder.")
            return result
        if (home / _STATE).exists():
            state = read_state(home / _STATE)
            other = state.server.plan
            if other.digest != plan.digest:
                raise InputError(f"{home}: holds the state of another plan (run {other.run}); use another folder.")
            # After a server's absence its sites come back one by one.
            _wait_for_sites(transport, replace(options, sites=state.server.sites), tell)
        else:
            present = _wait_for_sites(transport, options, tell)
            if len(present) < min(plan.quorum, len(options.sites) or options.count):
                raise RunError(
                    f"run {plan.run}: {len(present)} of at least {plan.quorum} sites came within {options.wait:g} s; "
                    "start the missing sites and try again."
                )
            state = ServerState(Server.start(plan, present, [site for site in options.sites if site not in present]))
        save = partial(STATE.write, home / _STATE)
        for after, _ in conduct(state, transport, timeout=options.timeout, save=save, tell=tell):
            state = after
        write_result(home / _RESULT, state.server.result)
        return state.server.result


def read_state(path: Path) -> ServerState:
    """Read the state of a run."""
    return STATE.read(path)


def resume_without(folder: str | Path, sites: Sequence[str]) -> None:
    """Take sites out of the roster of a stopped run; under secure sums every other site must have agreed by name."""
    path = Path(folder) / _STATE
    with locked(Path(folder) / "server.lock", patience=_LOCK_PATIENCE):
        state = read_state(path)
        unknown = [site for site in sites if site not in state.server.sites]
        if unknown:
            raise InputError(f"without: {unknown[0]!r} is not in the roster; it has {', '.join(state.server.sites)}.")
        server = state.server.reopened(dict.fromkeys(sites, "taken out by the server's people"))
        STATE.write(path, ServerState(server, relay=state.relay))


def _wait_for_sites(transport: Transport, options: RunOptions, tell: Tell) -> tuple[str, ...]:
    """The sites wanted that are present: as soon as all are, at the latest after ``options.wait`` seconds."""
    start, announced, announced_at, wanted = time.monotonic(), None, 0.0, len(options.sites) or options.count
    while True:
        present = tuple(site for site in transport.present() if not options.sites or site in options.sites)
        seconds = time.monotonic() - start
        enough = len(present) >= wanted
        if present != announced or (seconds >= announced_at + _REMIND and not enough):
            announced, announced_at = present, seconds
            awaited = [site for site in options.sites if site not in present]
            values = {"present": list(present), "awaited": awaited, "wanted": wanted, "seconds": round(seconds)}
            tell(happened("sites", **values, wait=options.wait))
        if enough or seconds > options.wait:
            return present
        time.sleep(_POLL)
