"""What a server asks: requests as frozen types, and the message that carries one to a client.

Every request has one reply type (:mod:`logofair.federation.replies`); which one, and in which shape, is written in
:func:`logofair.federation.reply_checks.reply_form`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from logofair.calibration.levels import GroupMaps
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.federation.plan import Members, Plan
from logofair.fitting.pooling import GroupPriors, Reference, ShiftRule
from logofair.policy.info import PublishedInfo
from logofair.records import Family, decode, encode


class Body(Family):
    """What leaves a client, or is passed on of it: sums over its rows, or a message of secure sums."""


class Request(Family):
    """One of the requests below."""


@dataclass(frozen=True, eq=False)
class ContributorsRequest(Request):
    """The first of secure sums: to which of the numbers to come the client contributes."""

    sites: tuple[str, ...]  # of the roster, in the order in which replies have them


@dataclass(frozen=True, eq=False)
class GroupRowsRequest(Request):
    """Before calibration: how many rows each group has."""


@dataclass(frozen=True, eq=False)
class FoldCountsRequest(Request):
    """The first step of calibration: counts, and sums at these parameters."""

    at: Floats  # (parameters, fits, 1 + groups)
    places: Indices  # as which group each group is summed, -1: not at all, (groups,)
    live: Booleans  # (fits, 1 + groups): which are wanted


@dataclass(frozen=True, eq=False)
class CurvatureRequest(Request):
    """A further step of calibration: sums at these parameters."""

    at: Floats
    places: Indices
    live: Booleans


@dataclass(frozen=True, eq=False)
class ScoreMomentsRequest(Request):
    """The first step of pooling: moments of raw scores, and what each strength of these calibrators loses."""

    maps: GroupMaps | None = None


@dataclass(frozen=True, eq=False)
class ShiftMomentsRequest(Request):
    """Pooling: how far the client and its cells lie from this reference."""

    reference: Reference


@dataclass(frozen=True, eq=False)
class FoldHistogramsRequest(Request):
    """Pooling: what the client gives to each candidate prior, its shifts drawn in by these variances."""

    reference: Reference
    between: Floats  # (fits, 1 + groups)


@dataclass(frozen=True, eq=False)
class CandidateErrorsRequest(Request):
    """Pooling: how badly these candidate priors foretell the client's held-out rates."""

    reference: Reference
    between: Floats
    priors: Floats  # (kinds, folds, groups, edges + 1)


@dataclass(frozen=True, eq=False)
class PriorRequest(Request):
    """The last step of pooling: what the client gives to the prior that was chosen."""

    kind: str
    kappa: float | None  # None: infinite
    rule: ShiftRule


@dataclass(frozen=True, eq=False)
class TotalsRequest(Request):
    """Rows of each group, and the positives expected among them; ``priors`` where small cells borrow."""

    maps: GroupMaps | None = None
    priors: GroupPriors | None = None


@dataclass(frozen=True, eq=False)
class AnswersRequest(Request):
    """The totals of the roster, and prices of the global rates: the best answer to each of them.

    Where there is a capacity its price is that of a last rate, in the place of the first group.
    """

    mass: Floats
    positives: Floats
    prices: Floats  # (answers, groups, global rates)


@dataclass(frozen=True, eq=False)
class SmoothnessRequest(Request):
    """Algorithm 1: the smoothness constants of the client's dual."""

    mass: Floats
    positives: Floats


@dataclass(frozen=True, eq=False)
class StepsRequest(Request):
    """Algorithm 1: local steps from these global multipliers."""

    mass: Floats
    positives: Floats
    multipliers: Floats  # (pairs, rates)
    step: float
    round: int
    sites: int


@dataclass(frozen=True, eq=False)
class FinalRequest(Request):
    """Mix the answers to these prices with these weights, store the policy, and measure it."""

    prices: Floats
    weights: Floats


@dataclass(frozen=True, eq=False)
class PublishRequest(Request):
    """The result: the policy is written with it."""

    result: PublishedInfo


@dataclass(frozen=True)
class Opening:
    """What the first message of a roster carries beside its request: the plan and who takes part."""

    plan: Plan
    members: Members

    @classmethod
    def of(cls, plan: Plan, sites: Sequence[str]) -> Opening:
        """The opening of a roster of these sites."""
        return cls(plan, Members.of(sites, named=plan.secure))


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


def opening_history(opening: Opening, roster: int) -> bytes:
    """Fingerprint of how a roster begins: the plan, its sites and its number."""
    return hashlib.sha256(encode((opening.plan, opening.members.digest, roster))).digest()


def next_history(history: bytes, part: object) -> bytes:
    """Fingerprint of a request, or of the total of its replies, together with all earlier ones of the roster.

    The masks of a secure sum depend on it: sites that were sent different plans, any different request on the way, or
    different totals, are not in one sum, since their replies would not be numbers of the same thing.
    """
    return hashlib.sha256(history + encode(part)).digest()


# How far a number may be off, as a share of itself, or of 1: solvers round on every machine alike to far less, and no
# threshold moves by more. Not of the largest beside it: one large price would leave the others to the server.
_ROUNDING = 1e-9


def agrees(own: object, got: object) -> bool:
    """Whether a request is the one that a replica of the server would send: same type and shapes, equal numbers.

    Examples
    --------
    >>> request = AnswersRequest(np.ones(2), np.zeros(2), np.zeros((1, 2, 1)))
    >>> agrees(request, AnswersRequest(np.ones(2), np.zeros(2), np.full((1, 2, 1), 1e-12)))
    True
    >>> agrees(request, AnswersRequest(np.ones(2), np.zeros(2), np.full((1, 2, 1), 1e-3)))
    False
    """
    return _alike(decode(encode(own), Request), got)


def _alike(own: Any, got: Any) -> bool:
    if isinstance(own, np.ndarray):
        if not isinstance(got, np.ndarray) or own.shape != got.shape or own.dtype != got.dtype:
            return False
        if own.dtype.kind != "f":
            return np.array_equal(own, got)
        return bool(np.all(np.abs(own - got) <= _ROUNDING * np.maximum(1.0, np.abs(own))))
    if isinstance(own, float):
        return isinstance(got, float) and abs(own - got) <= _ROUNDING * max(1.0, abs(own))
    if isinstance(own, tuple | list):
        return isinstance(got, tuple | list) and len(own) == len(got) and all(map(_alike, own, got))
    if isinstance(own, PublishRequest):
        return isinstance(got, PublishRequest) and _alike(_replayed(own.result), _replayed(got.result))
    if isinstance(own, Mapping):
        named = isinstance(got, Mapping) and own.keys() == got.keys()
        return named and all(_alike(part, got[name]) for name, part in own.items())
    if is_dataclass(own):
        same = type(own) is type(got)
        return same and all(_alike(getattr(own, f.name), getattr(got, f.name)) for f in fields(own))
    return bool(type(own) is type(got) and own == got)


def _replayed(result: PublishedInfo) -> PublishedInfo:
    """A result without what no number depends on and only the server knows: who dropped out why, how often it asked."""
    return replace(result, run=replace(result.run, excluded=(), exchanges={}))
