"""What is said between server and clients: asks, replies and refusals, as frozen types.

A client's reply carries one of the types of :mod:`logofair.federation.sums` (or its masked form) or a refusal, which is
a word from a fixed list: no text of an error and no value of the data leaves a client.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass
from typing import Any, TypeAlias

from logofair.calibration.levels import GroupMaps
from logofair.federation.plan import Plan
from logofair.federation.wire import carried, encode
from logofair.inputs import Floats
from logofair.segments import Booleans

__all__ = [
    "Ask",
    "AskAnswers",
    "AskCounts",
    "AskCurvature",
    "AskMoments",
    "AskSettled",
    "AskSteepness",
    "AskSteps",
    "AskTotals",
    "AskUpdate",
    "Model",
    "Opening",
    "Publish",
    "Refusal",
    "Reply",
    "Request",
    "first_link",
    "next_link",
]


carried(GroupMaps)


class Refusal(enum.Enum):
    """Why a client does not answer, with what the server's people should do."""

    BAD_MESSAGE = "the message is damaged or of another version: use the same version of logofair everywhere"
    UNKNOWN_RUN = "the client does not know this run: its state folder was lost or is another's"
    OUT_OF_TURN = "the message belongs to another round or roster than the client is in"
    BAD_REQUEST = "what was asked cannot be meant: totals below the client's own, or numbers out of all range"
    OTHER_REQUEST = "something else was asked under a number that was already answered"
    UNKNOWN_GROUP = "the client has rows of a group that the plan does not name"
    NO_LABELS = "the plan needs labels, and the client has none"
    BAD_DATA = "the client's file cannot be used: its own screen says why"
    DATA_CHANGED = "the client's file is not the one it had when the run began"
    NO_SOLUTION = "the client's own problem could not be solved exactly"
    IMPLAUSIBLE = "the client's own check found its answer implausible, so it was not sent"
    NOT_AGREED = "the client has not agreed to go on without sites that were in the roster"
    NO_KEYS = "the client lacks the keys for secure sums"
    UNSAFE_SUM = "the client's rules for secure sums forbid this step"
    INTERNAL = "an error inside the client: its own screen says which"


@carried
@dataclass(frozen=True, eq=False)
class AskMoments:
    """Before training: the sums of your features, please."""


@carried
@dataclass(frozen=True, eq=False)
class Model:
    """A logistic regression on features from which ``mean`` is taken and which are divided by ``spread``."""

    mean: Floats
    spread: Floats
    parameters: Floats  # weights, then the intercept


@carried
@dataclass(frozen=True, eq=False)
class AskUpdate:
    """Training: take local steps from this model."""

    model: Model
    round: int


@carried
@dataclass(frozen=True, eq=False)
class AskCounts:
    """Calibration begins: your counts, and your sums at these parameters."""

    at: Floats  # (parameters, fits, 1 + groups)
    live: Booleans  # (fits, 1 + groups): which are asked
    model: Model | None = None  # where one was trained: score your rows with it


@carried
@dataclass(frozen=True, eq=False)
class AskCurvature:
    """Calibration: your sums at these parameters."""

    at: Floats
    live: Booleans


@carried
@dataclass(frozen=True, eq=False)
class AskTotals:
    """Your rows of each group, and the positives you expect among them."""

    maps: GroupMaps | None = None
    model: Model | None = None


@carried
@dataclass(frozen=True, eq=False)
class AskAnswers:
    """These are the totals of the roster: your best answer to each of these prices of the global rates."""

    mass: Floats
    positives: Floats
    prices: Floats  # (multipliers, groups, global rates)


@carried
@dataclass(frozen=True, eq=False)
class AskSteepness:
    """Algorithm 1: the smoothness constants of your dual."""

    mass: Floats
    positives: Floats


@carried
@dataclass(frozen=True, eq=False)
class AskSteps:
    """Algorithm 1: take local steps from these global multipliers."""

    mass: Floats
    positives: Floats
    multipliers: Floats  # (pairs, rates)
    step: float
    round: int
    clients: int


@carried
@dataclass(frozen=True, eq=False)
class AskSettled:
    """Mix your answers to these prices with these weights, store the policy, and measure it."""

    prices: Floats
    weights: Floats


@carried
@dataclass(frozen=True, eq=False)
class Publish:
    """The result, as plain values: write your policy with it."""

    result: dict[str, Any]


Request: TypeAlias = (
    AskMoments
    | AskUpdate
    | AskCounts
    | AskCurvature
    | AskTotals
    | AskAnswers
    | AskSteepness
    | AskSteps
    | AskSettled
    | Publish
)


@carried
@dataclass(frozen=True)
class Opening:
    """What a client is told when a roster begins: the plan and who takes part."""

    plan: Plan
    sites: tuple[str, ...]


def first_link(opening: Opening, roster: int) -> bytes:
    """Fingerprint of how a roster begins: the plan, its sites and its number."""
    return hashlib.sha256(encode((opening.plan, opening.sites, roster))).digest()


def next_link(chain: bytes, request: Request | None) -> bytes:
    """Fingerprint of a question together with all that was asked of the roster before.

    The masks of a secure sum depend on it: sites that were told different plans, or anything different on the way, are
    not in one sum, since what they answer would not be numbers of the same thing.
    """
    return hashlib.sha256(chain + encode(request)).digest()


@carried
@dataclass(frozen=True, eq=False)
class Ask:
    """One question to one client.

    ``number`` counts the questions of a run; ``roster`` the rosters. The same number is always the same question.
    ``step`` is empty, or names the step of a secure sum, for which ``sealed`` is the material.
    """

    run: str
    roster: int
    number: int
    request: Request | None
    opening: Opening | None = None
    step: str = ""
    sealed: Any = None

    def __post_init__(self) -> None:
        _check_place(self.run, self.roster, self.number, self.step)


@carried
@dataclass(frozen=True, eq=False)
class Reply:
    """All that leaves a client: sums over its rows (or their masked form), or a refusal from a fixed list."""

    run: str
    roster: int
    number: int
    site: str
    body: Any = None
    refusal: str | None = None

    def __post_init__(self) -> None:
        _check_place(self.run, self.roster, self.number, self.site)


def _check_place(run: object, roster: object, number: object, name: object) -> None:
    """Only the codec can get this wrong: what else is in a message is checked by who reads it."""
    if not (type(run) is type(name) is str and type(roster) is type(number) is int):
        raise TypeError("place")
