"""What is said between server and clients: asks, replies and refusals, as frozen types.

A client's reply carries one of the types of :mod:`logofair.federation.messages` (or its masked form) or a refusal, which is
a word from a fixed list: no text of an error and no value of the data leaves a client.
"""

from __future__ import annotations

import enum
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, NamedTuple, Self, TypeAlias, get_type_hints

import numpy as np

from logofair.calibration.levels import GroupMaps
from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans
from logofair.federation.plan import Plan
from logofair.federation.wire import carried, encode

__all__ = [
    "Answers",
    "AnswersRequest",
    "CountsRequest",
    "Curvature",
    "CurvatureRequest",
    "FinalFigures",
    "FinalRequest",
    "FoldCounts",
    "Model",
    "Moments",
    "MomentsRequest",
    "Opening",
    "Publish",
    "Question",
    "Received",
    "Refusal",
    "Reply",
    "Request",
    "Smoothness",
    "SmoothnessRequest",
    "Steps",
    "StepsRequest",
    "Sums",
    "Totals",
    "TotalsRequest",
    "Update",
    "UpdateRequest",
    "first_link",
    "next_link",
]


# Fixed-point steps under secure sums: counts of rows need range, shares of the whole need precision.
_OF_ROWS = 2.0**-20
_OF_CHANCES = 2.0**-32  # expected positives: whole rows are exact anyway, chances are not
_OF_SQUARES = 2.0**-8
_OF_SHARES = 2.0**-44


class Disclosure(NamedTuple):
    """What a field tells about the client, and its fixed-point step under secure sums."""

    meaning: str
    step: float


def _kinds(kind: type) -> dict[str, Disclosure]:
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: hints[f.name].__metadata__[0] for f in fields(kind)}


@dataclass(frozen=True, eq=False)
class Sums:
    """Numbers of one client, or of several side by side where the first axis counts clients.

    Examples
    --------
    >>> one = Totals(mass=np.array([3.0, 1.0]), positives=np.array([1.5, 0.25]))
    >>> Totals.add([one, one]).positives.tolist()
    [3.0, 0.5]
    >>> [f"{name}: {meaning}" for name, meaning in Totals.statement()][0]
    'mass: weight of the rows of each group, (groups,)'
    """

    @classmethod
    def statement(cls) -> list[tuple[str, str]]:
        """Name and meaning of every field: what a reply of this type tells about a client."""
        return [(name, told.meaning) for name, told in _kinds(cls).items()]

    @classmethod
    def add(cls, parts: Sequence[Self]) -> Self:
        """The clients' total, rounded once: the order of the clients does not matter."""
        return cls(**{f.name: _exact_sum([getattr(part, f.name) for part in parts]) for f in fields(cls)})

    def total(self) -> Self:
        """The total over the first axis."""
        return type(self)(**{f.name: _exact_sum(list(getattr(self, f.name))) for f in fields(self)})

    def together(self) -> Self:
        """What the server works with of clients side by side: their total, unless a type says otherwise."""
        return self.total()

    @classmethod
    def side_by_side(cls, parts: Sequence[Self]) -> Self:
        """The numbers of several clients along a first axis."""
        return cls(**{f.name: np.stack([getattr(part, f.name) for part in parts]) for f in fields(cls)})

    def member(self, number: int) -> Self:
        """The numbers of one client out of several."""
        return type(self)(**{f.name: np.array(getattr(self, f.name)[number]) for f in fields(self)})

    def vector(self) -> Floats:
        """All numbers in one row, as secure sums take them."""
        return np.concatenate([np.zeros(0), *(np.ravel(getattr(self, f.name)) for f in fields(self))])

    def steps(self) -> Floats:
        """The fixed-point step of each number of :meth:`vector`."""
        return self.steps_of([np.shape(getattr(self, f.name)) for f in fields(self)])

    @classmethod
    def steps_of(cls, shapes: Sequence[tuple[int, ...]]) -> Floats:
        """The fixed-point steps for fields of given shapes."""
        parts = [np.full(math.prod(s), told.step) for told, s in zip(_kinds(cls).values(), shapes, strict=True)]
        return np.concatenate([np.zeros(0), *parts])

    @classmethod
    def of_vector(cls, vector: Floats, shapes: Sequence[tuple[int, ...]]) -> Self:
        """The inverse of :meth:`vector` for fields of given shapes."""
        cuts = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        parts = np.split(np.asarray(vector, dtype=np.float64), cuts) if shapes else []
        return cls(**{f.name: part.reshape(s) for f, part, s in zip(fields(cls), parts, shapes, strict=True)})


def _exact_sum(parts: list[Floats]) -> Floats:
    """Entry by entry the correctly rounded sum."""
    stacked = np.stack([np.asarray(part, dtype=np.float64) for part in parts])
    flat = stacked.reshape(stacked.shape[0], -1)
    if flat.shape[0] == 1:
        return np.array(stacked[0])
    if not np.isfinite(flat).all():  # fsum refuses infinities of both signs; the checks of replies name them
        return np.asarray(stacked.sum(axis=0))
    return np.array([math.fsum(column) for column in flat.T.tolist()]).reshape(stacked.shape[1:])


@carried
@dataclass(frozen=True, eq=False)
class Moments(Sums):
    """Asked once before training, so that all sites scale features alike."""

    mass: Annotated[Floats, Disclosure("number of training rows, (1,)", _OF_ROWS)]
    first: Annotated[Floats, Disclosure("sum of each feature over the training rows, (features,)", _OF_ROWS)]
    second: Annotated[Floats, Disclosure("sum of squares of each feature, (features,)", _OF_SQUARES)]


@carried
@dataclass(frozen=True, eq=False)
class Update(Sums):
    """One round of federated averaging."""

    mass: Annotated[Floats, Disclosure("number of training rows, (1,)", _OF_ROWS)]
    parameters: Annotated[
        Floats, Disclosure("model after the local steps times the number of rows, (parameters,)", _OF_ROWS)
    ]


@carried
@dataclass(frozen=True, eq=False)
class FoldCounts(Sums):
    """The first step of the group-level calibrators; a fit leaves one fold out, the last one none.

    ``counts`` is for label 0, then for label 1; only for Platt's method the sum of logit(score) stands before the mass.
    """

    counts: Annotated[Floats, Disclosure("weight of the rows by label, (2, 1 or 2, fits, groups)", _OF_ROWS)]
    sums: Annotated[
        Floats, Disclosure("log loss, gradient and Hessian at the point asked, (entries, fits, 1 + groups)", _OF_ROWS)
    ]


@carried
@dataclass(frozen=True, eq=False)
class Curvature(Sums):
    """Every further step of the group-level calibrators."""

    sums: Annotated[
        Floats, Disclosure("log loss, gradient and Hessian at the point asked, (entries, fits, 1 + groups)", _OF_ROWS)
    ]


@carried
@dataclass(frozen=True, eq=False)
class Totals(Sums):
    """Asked once per roster: from these the server knows the groups' shares and base rates."""

    mass: Annotated[Floats, Disclosure("weight of the rows of each group, (groups,)", _OF_ROWS)]
    positives: Annotated[Floats, Disclosure("sum of eta over the rows of each group, (groups,)", _OF_CHANCES)]


@carried
@dataclass(frozen=True, eq=False)
class Answers(Sums):
    """The client's best answer to each multiplier asked."""

    gain: Annotated[
        Floats, Disclosure("accuracy above rejecting everybody, as a share of all rows, (multipliers,)", _OF_SHARES)
    ]
    shares: Annotated[
        Floats, Disclosure("its share of each group's global rates, (multipliers, groups, rates)", _OF_SHARES)
    ]
    bound: Annotated[Floats, Disclosure("dual value: no rule of the client is worth more, (multipliers,)", _OF_SHARES)]


@carried
@dataclass(frozen=True, eq=False)
class Smoothness(Sums):
    """Algorithm 1 takes one common step for all: the server needs the largest of these, not their sum."""

    constant: Annotated[
        Floats, Disclosure("smoothness constants of the client's dual, global and local, (2,)", _OF_SHARES)
    ]

    def together(self) -> Self:
        """The largest of any client."""
        return type(self)(constant=np.max(self.constant, axis=0))


@carried
@dataclass(frozen=True, eq=False)
class Steps(Sums):
    """One round of Algorithm 1."""

    change: Annotated[
        Floats, Disclosure("change of the global multipliers by the local steps, (pairs, rates)", _OF_SHARES)
    ]


@carried
@dataclass(frozen=True, eq=False)
class FinalFigures(Sums):
    """Measured on the policy the client has stored: the certificate rests on this, not on a solver's word."""

    gain: Annotated[Floats, Disclosure("accuracy above rejecting everybody, as a share of all rows, (1,)", _OF_SHARES)]
    shares: Annotated[Floats, Disclosure("its share of each group's global rates, (groups, rates)", _OF_SHARES)]
    broken: Annotated[
        Floats, Disclosure("1 where the client could not keep its local tolerances, else 0, (1,)", _OF_SHARES)
    ]


@carried
@dataclass(frozen=True, eq=False)
class Received(Sums):
    """The result was received."""


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
class MomentsRequest:
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
class UpdateRequest:
    """Training: take local steps from this model."""

    model: Model
    round: int


@carried
@dataclass(frozen=True, eq=False)
class CountsRequest:
    """Calibration begins: your counts, and your sums at these parameters."""

    at: Floats  # (parameters, fits, 1 + groups)
    live: Booleans  # (fits, 1 + groups): which are asked
    model: Model | None = None  # where one was trained: score your rows with it


@carried
@dataclass(frozen=True, eq=False)
class CurvatureRequest:
    """Calibration: your sums at these parameters."""

    at: Floats
    live: Booleans


@carried
@dataclass(frozen=True, eq=False)
class TotalsRequest:
    """Your rows of each group, and the positives you expect among them."""

    maps: GroupMaps | None = None
    model: Model | None = None


@carried
@dataclass(frozen=True, eq=False)
class AnswersRequest:
    """These are the totals of the roster: your best answer to each of these prices of the global rates."""

    mass: Floats
    positives: Floats
    prices: Floats  # (multipliers, groups, global rates)


@carried
@dataclass(frozen=True, eq=False)
class SmoothnessRequest:
    """Algorithm 1: the smoothness constants of your dual."""

    mass: Floats
    positives: Floats


@carried
@dataclass(frozen=True, eq=False)
class StepsRequest:
    """Algorithm 1: take local steps from these global multipliers."""

    mass: Floats
    positives: Floats
    multipliers: Floats  # (pairs, rates)
    step: float
    round: int
    clients: int


@carried
@dataclass(frozen=True, eq=False)
class FinalRequest:
    """Mix your answers to these prices with these weights, store the policy, and measure it."""

    prices: Floats
    weights: Floats


@carried
@dataclass(frozen=True, eq=False)
class Publish:
    """The result, as plain values: write your policy with it."""

    result: dict[str, Any]


Request: TypeAlias = (
    MomentsRequest
    | UpdateRequest
    | CountsRequest
    | CurvatureRequest
    | TotalsRequest
    | AnswersRequest
    | SmoothnessRequest
    | StepsRequest
    | FinalRequest
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
class Question:
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
