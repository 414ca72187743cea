"""What travels: a request to one client, and a reply or refusal from it; and what stands for a roster's history."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.federation.exchange import Body, Request
from logofair.federation.plan import Members, Plan
from logofair.records import encode, plain


@dataclass(frozen=True)
class Opening:
    """What the first message of a roster carries beside its request: the plan and who takes part."""

    plan: Plan
    members: Members


@dataclass(frozen=True, eq=False)
class RequestMessage:
    """One message to one client.

    ``number`` counts the messages of a run, ``roster`` its rosters; the same number always carries the same request.
    ``step`` is empty, or names the step of a secure sum, for which ``keys`` or ``sealed`` are the material; ``relay``
    is then what the last total is recomputed from.

    Examples
    --------
    >>> from logofair.federation import Server, make_plan
    >>> plan = make_plan(groups=["F", "M"], calibration="none", run="demo")
    >>> message = Server.start(plan, ["north", "south"]).message()
    >>> message.run, message.roster, message.number
    ('demo', 1, 1)
    """

    run: str
    roster: int
    number: int
    request: Request | None
    opening: Opening | None = None
    step: str = ""
    keys: Mapping[str, Body] | None = None
    sealed: Mapping[str, bytes] | None = None
    relay: Body | None = None


@dataclass(frozen=True, eq=False)
class ReplyMessage:
    """All that leaves a client: sums over its rows (or their masked form), or a refusal from a fixed list.

    Examples
    --------
    >>> from logofair.federation import Client, Server, SiteColumns, make_plan
    >>> plan = make_plan(groups=["F", "M"], calibration="none", pooling="none", smallest_cell=1, run="demo")
    >>> client = Client("north", SiteColumns(sensitive_features=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1]))
    >>> client, reply = client.handle(Server.start(plan, ["north", "south"]).message())
    >>> reply.site, reply.refusal, type(reply.body).__name__
    ('north', None, 'Totals')
    """

    run: str
    roster: int
    number: int
    site: str
    body: Body | None = None
    refusal: str | None = None


def next_history(history: bytes, part: object) -> bytes:
    """Fingerprint of a request, or of the total of its replies, together with all earlier ones of the roster.

    The masks of a secure sum depend on it: sites that were sent different plans, any different request on the way, or
    different totals, are not in one sum, since their replies would not be numbers of the same thing.
    """
    return hashlib.sha256(history + encode(part)).digest()


# How far a number may be off, as a share of itself, or of 1: solvers round on every machine alike to far less, and no
# threshold moves by more. Not of the largest beside it: one large price would leave the others to the server.
_ROUNDING = 1e-9


def agrees(own: Request, got: Request | None) -> bool:
    """Whether a request is the one that a replica of the server would send: same type and shapes, equal numbers.

    Examples
    --------
    >>> from logofair.federation.exchanges.rounds import AnswersRequest
    >>> request = AnswersRequest(np.ones(2), np.zeros(2), np.zeros((1, 2, 1)))
    >>> agrees(request, AnswersRequest(np.ones(2), np.zeros(2), np.full((1, 2, 1), 1e-12)))
    True
    >>> agrees(request, AnswersRequest(np.ones(2), np.zeros(2), np.full((1, 2, 1), 1e-3)))
    False
    """
    return got is not None and _nearly_equal(*(plain(each.replayed, lambda part: part) for each in (own, got)))


def _nearly_equal(own: Any, got: Any) -> bool:
    if isinstance(own, np.ndarray):
        if not isinstance(got, np.ndarray) or own.shape != got.shape or own.dtype != got.dtype:
            return False
        if own.dtype.kind != "f":
            return np.array_equal(own, got)
        return bool(np.all(np.abs(own - got) <= _ROUNDING * np.maximum(1.0, np.abs(own))))
    if isinstance(own, float):
        return isinstance(got, float) and abs(own - got) <= _ROUNDING * max(1.0, abs(own))
    if isinstance(own, list):
        return isinstance(got, list) and len(own) == len(got) and all(map(_nearly_equal, own, got))
    if isinstance(own, dict):
        named = isinstance(got, dict) and own.keys() == got.keys()
        return named and all(_nearly_equal(part, got[name]) for name, part in own.items())
    return bool(type(own) is type(got) and own == got)
