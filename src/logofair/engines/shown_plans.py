"""A plan on a site's disk: shown to its people when it comes, and their answer, for which the site waits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from logofair.errors import RefusedError
from logofair.federation.plan import Members, Plan
from logofair.federation.replies import Refusal
from logofair.files.documents import or_damaged, read_document, write_document

_SHOWN, _ANSWER = ".shown.json", ".agreed.json"
_POLL = 0.2


@dataclass(frozen=True)
class ShownPlan:
    """A plan as a site's people see it: what they agree to by answering, as (label, sentence)."""

    run: str
    fingerprint: str
    sentences: tuple[tuple[str, str], ...]


def show_plan(folder: Path, plan: Plan, members: Members) -> None:
    """Leave a plan where the site's own command finds it; nothing is done where it is there already.

    A roster of others than were shown before is shown again.
    """
    path = folder / f"{plan.run}{_SHOWN}"
    shown = ShownPlan(plan.run, plan.fingerprint, tuple(plan.sentences(members)))
    if path.exists() and _read_shown(path) == shown:
        return
    folder.mkdir(parents=True, exist_ok=True)
    body = {"run": shown.run, "digest": shown.fingerprint, "sentences": [list(each) for each in shown.sentences]}
    write_document(path, "logofair shown plan", 1, body, what="plan shown", private=True)


def shown_plans(folder: Path) -> list[ShownPlan]:
    """The plans that have come to a site."""
    return [_read_shown(path) for path in sorted(folder.glob(f"*{_SHOWN}"))]


def _read_shown(path: Path) -> ShownPlan:
    body = read_document(path, "logofair shown plan", 1, what="plan shown", remedy="remove it")

    def parts() -> ShownPlan:
        return ShownPlan(str(body["run"]), str(body["digest"]), tuple((str(a), str(b)) for a, b in body["sentences"]))

    return or_damaged(parts, path, what="plan shown", remedy="remove it")


def answer_plan(folder: Path, shown: ShownPlan, agreed: bool) -> None:
    """Store what the site's people say to a plan."""
    body = {"digest": shown.fingerprint, "agreed": bool(agreed)}
    write_document(folder / f"{shown.run}{_ANSWER}", "logofair answer", 1, body, what="answer", private=True)


def answer_to(folder: Path, run: str, fingerprint: str) -> bool | None:
    """What they said to this very plan; None: nothing yet."""
    path = folder / f"{run}{_ANSWER}"
    if not path.exists():
        return None
    body = read_document(path, "logofair answer", 1, what="answer", remedy="remove it to be asked again")
    return bool(body.get("agreed")) if body.get("digest") == fingerprint else None


def wait_for_answer(folder: Path, plan: Plan, patience: float) -> None:
    """Return once the site's people agree to a plan; refuse it where they do not, or nobody answers."""
    end = time.monotonic() + patience
    while (agreed := answer_to(folder, plan.run, plan.fingerprint)) is None and time.monotonic() < end:
        time.sleep(_POLL)
    if not agreed:
        why = "nobody here has agreed to it in time" if agreed is None else "the people here have not agreed to it"
        raise RefusedError(
            Refusal.PLAN_REFUSED, f"run {plan.run!r}: the plan is refused, since {why}; nothing was sent."
        )
