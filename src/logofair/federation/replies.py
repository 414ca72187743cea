"""What a client answers: replies as frozen types whose fields are all that leaves it, and refusals.

The reply type is the privacy statement. A reply holds sums over the client's rows, each field with its meaning
(:meth:`Sums.statement`), or their masked form under secure sums; a refusal is a word from a fixed list. No text of an
error and no value of the data leaves a client.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import Field, dataclass, fields
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeAlias, get_type_hints

import numpy as np

from logofair.columns.checks import Floats
from logofair.federation.requests import Body

# Fixed-point steps under secure sums: counts of rows need range, shares of all rows need precision.
_OF_ROWS = 2.0**-20
_OF_CHANCES = 2.0**-32  # expected positives: whole rows are exact anyway, chances are not
_OF_SHARES = 2.0**-44
_OF_SHIFTS = 2.0**-40  # shares times squares of log-odds


class Disclosure(NamedTuple):
    """What a field tells about the client, and its fixed-point step under secure sums."""

    meaning: str
    step: float


def _disclosures(kind: type) -> dict[str, Disclosure]:
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: hints[f.name].__metadata__[0] for f in fields(kind)}


class Sums(Body):
    """Numbers of one client, or of several along a first axis."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # of those that descend from it

    @classmethod
    def statement(cls) -> list[tuple[str, str]]:
        """Name and meaning of every field: what a reply of this type tells about a client."""
        return [(name, disclosure.meaning) for name, disclosure in _disclosures(cls).items()]

    def total(self) -> Self:
        """The sites' total over the first axis, rounded once: their order does not matter."""
        return type(self)(**{f.name: _exact_sum(getattr(self, f.name)) for f in fields(self)})

    def combined(self) -> Self:
        """What the server works with of the sites along the first axis: their total, unless a type says otherwise."""
        return self.total()

    @classmethod
    def stacked(cls, parts: Sequence[Self]) -> Self:
        """The numbers of several sites along a first axis."""
        return cls(**{f.name: np.stack([getattr(part, f.name) for part in parts]) for f in fields(cls)})

    def client(self, number: int) -> Self:
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
        steps = [disclosure.step for disclosure in _disclosures(cls).values()]
        parts = [np.full(math.prod(shape), step) for step, shape in zip(steps, shapes, strict=True)]
        return np.concatenate([np.zeros(0), *parts])

    @classmethod
    def from_vector(cls, vector: Floats, shapes: Sequence[tuple[int, ...]]) -> Self:
        """The inverse of :meth:`vector` for fields of given shapes."""
        cuts = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        parts = np.split(np.asarray(vector, dtype=np.float64), cuts) if shapes else []
        return cls(**{f.name: part.reshape(s) for f, part, s in zip(fields(cls), parts, shapes, strict=True)})


def _exact_sum(stacked: Floats) -> Floats:
    """Entry by entry the correctly rounded sum over the first axis."""
    flat = stacked.reshape(stacked.shape[0], -1)
    if flat.shape[0] == 1:
        return np.array(stacked[0])
    if not np.isfinite(flat).all():  # fsum refuses infinities of both signs; the checks of replies name them
        return np.asarray(stacked.sum(axis=0))
    # Column by column: numbers of a hundred thousand sites would fill the memory as Python's.
    return np.array([math.fsum(column.tolist()) for column in flat.T]).reshape(stacked.shape[1:])


@dataclass(frozen=True, eq=False)
class Contributors(Sums):
    """The first of secure sums: which site contributes to what is summed later.

    Every site has a row of its own, so that each sees that nobody has said anything in its name: an ally of the server
    that added to a mere number of contributors could let a total of two sites, or of one, through.
    """

    groups: Annotated[
        Floats, Disclosure("in its own row 1 where it counts rows of the group, else 0, (sites, groups)", _OF_ROWS)
    ]
    rates: Annotated[
        Floats,
        Disclosure(
            "in its own row 1 where it has somebody, or expects one person, among those of whom a global rate is a "
            "share, else 0, (sites, groups, rates)",
            _OF_ROWS,
        ),
    ]
    folds: Annotated[
        Floats,
        Disclosure(
            "with calibration, in its own row 1 where each fold of the group holds both labels and the group has 125 "
            "rows or more, 50 or more, 10 or more, else 0, (sites, groups, 3)",
            _OF_ROWS,
        ),
    ]


@dataclass(frozen=True, eq=False)
class GroupRows(Sums):
    """Before calibration: which groups have rows enough that sums over a fold of them are far from a single row's."""

    rows: Annotated[Floats, Disclosure("number of rows of each group, or 250 where it has more, (groups,)", _OF_ROWS)]
    everybody: Annotated[Floats, Disclosure("number of rows, or 250 where it has more, (1,)", _OF_ROWS)]
    mass: Annotated[Floats, Disclosure("weight of the rows of each group, (groups,)", _OF_ROWS)]


# What two replies have.
_LossSums: TypeAlias = Annotated[
    Floats, Disclosure("log loss, gradient and Hessian at the parameters sent, (entries, fits, 1 + groups)", _OF_ROWS)
]


@dataclass(frozen=True, eq=False)
class FoldCounts(Sums):
    """The first step of the group-level calibrators; a fit leaves one fold out, the last one none.

    Groups of few rows are not among them, or are added up as one, here and in what follows.
    ``counts`` is for label 0, then for label 1; only for Platt's method the sum of logit(score) stands before the mass.
    """

    counts: Annotated[Floats, Disclosure("weight of the rows by label, (2, 1 or 2, fits, groups)", _OF_ROWS)]
    sums: _LossSums


@dataclass(frozen=True, eq=False)
class Curvature(Sums):
    """Every further step of the group-level calibrators."""

    sums: _LossSums


@dataclass(frozen=True, eq=False)
class ScoreMoments(Sums):
    """The first step of pooling; fits as in calibration, with folds of their own."""

    mass: Annotated[Floats, Disclosure("weight of the rows of each group, (fits, groups)", _OF_ROWS)]
    counts: Annotated[Floats, Disclosure("how many rows of equal weight that is worth, (fits, groups)", _OF_ROWS)]
    odds: Annotated[Floats, Disclosure("sum of the scores' log-odds in each group, (fits, groups)", _OF_ROWS)]
    squares: Annotated[
        Floats,
        Disclosure("squared distances of these from the client's mean of the group, (fits, groups)", _OF_ROWS),
    ]
    freedom: Annotated[Floats, Disclosure("weight of each group less that of one row, (fits, groups)", _OF_ROWS)]
    small_cells: Annotated[Floats, Disclosure("how many of its groups have fewer than 20,000 rows, (1,)", _OF_ROWS)]
    histogram: Annotated[
        Floats, Disclosure("weight of the rows, all groups together, in bins of 1/32 in log-odds, (bins,)", _OF_ROWS)
    ]
    losses: Annotated[
        Floats, Disclosure("log loss of held-out labels for each strength of calibration, (strengths, folds)", _OF_ROWS)
    ]
    rows: Annotated[Floats, Disclosure("number of rows, (1,)", _OF_ROWS)]


@dataclass(frozen=True, eq=False)
class ShiftMoments(Sums):
    """The second step of pooling: how far the client lies from the others, and its groups from there."""

    sums: Annotated[
        Floats,
        Disclosure(
            "precision of each shift in log-odds as a share of all sites', that times the shift, times its square, "
            "the share squared, and 1 where there is a shift, (5, fits, 1 + groups)",
            _OF_SHIFTS,
        ),
    ]


@dataclass(frozen=True, eq=False)
class FoldHistograms(Sums):
    """The third step of pooling: what the client would give to each kind of prior without one fold."""

    mass: Annotated[
        Floats,
        Disclosure(
            "weight of the scores of each group, unmoved or moved back by the client's shifts, in about 128 bins that "
            "hold about as many rows of all sites each, (kinds, folds, groups, bins)",
            _OF_CHANCES,
        ),
    ]


@dataclass(frozen=True, eq=False)
class CandidateErrors(Sums):
    """The fourth step of pooling: how badly each candidate foretells the client's held-out rates."""

    excess: Annotated[
        Floats, Disclosure("squared error beyond the first candidate's, as a share of all, (kinds, kappas)", _OF_SHARES)
    ]
    products: Annotated[
        Floats, Disclosure("products of these errors, summed over its groups, (kinds, kappas, kappas)", _OF_SHARES)
    ]


@dataclass(frozen=True, eq=False)
class PriorSums(Sums):
    """The last step of pooling: what the client gives to the prior of each group."""

    mass: Annotated[
        Floats,
        Disclosure(
            "share of the weight of its scores, moved back by its shift, in bins of 1/32 in log-odds, (groups, bins); "
            "a bin with a single row tells that row's score",
            _OF_CHANCES,
        ),
    ]
    odds: Annotated[Floats, Disclosure("sum of the log-odds in each of these bins, (groups, bins)", _OF_CHANCES)]
    cells: Annotated[Floats, Disclosure("how many of its groups borrow, (1,)", _OF_ROWS)]


@dataclass(frozen=True, eq=False)
class Totals(Sums):
    """Once per roster: from these the server knows the groups' shares and base rates."""

    mass: Annotated[Floats, Disclosure("weight of the rows of each group, (groups,)", _OF_ROWS)]
    positives: Annotated[Floats, Disclosure("sum of eta over the rows of each group, (groups,)", _OF_CHANCES)]
    today: Annotated[
        Floats,
        Disclosure(
            "where a rate over all has to be what it is without any requirement: what the rows that are then accepted "
            "count in it, (groups, such rates)",
            _OF_CHANCES,
        ),
    ]
    slack: Annotated[
        Floats,
        Disclosure(
            "where floors, ceilings or capacities hold inside sites: the least sum by which requirements there would "
            "have to give way, 0 where some rule meets them, (1,)",
            _OF_SHARES,
        ),
    ]


_Gain: TypeAlias = Annotated[
    Floats,
    Disclosure(
        "accuracy above rejecting everybody, or cost saved, as a share of all rows, (answers,) or (1,)", _OF_SHARES
    ),
]
_Selected: TypeAlias = Annotated[
    Floats,
    Disclosure(
        "where there is a capacity over all: its share of all people selected, (answers, 1) or (1,)", _OF_SHARES
    ),
]


@dataclass(frozen=True, eq=False)
class Answers(Sums):
    """The client's best answer to each price vector it was sent."""

    gain: _Gain
    shares: Annotated[
        Floats, Disclosure("its share of each group's global rates, (answers, groups, rates)", _OF_SHARES)
    ]
    bound: Annotated[Floats, Disclosure("dual value: no rule of the client is worth more, (answers,)", _OF_SHARES)]
    selected: _Selected


@dataclass(frozen=True, eq=False)
class Smoothness(Sums):
    """Algorithm 1 takes one common step for all: the server needs the largest of these, not their sum."""

    constant: Annotated[
        Floats, Disclosure("smoothness constants of the client's dual, global and local, (2,)", _OF_SHARES)
    ]

    def combined(self) -> Self:
        """The largest of any client."""
        return type(self)(constant=np.max(self.constant, axis=0))


@dataclass(frozen=True, eq=False)
class Steps(Sums):
    """One round of Algorithm 1."""

    change: Annotated[
        Floats, Disclosure("change of the global multipliers by the local steps, (pairs, rates)", _OF_SHARES)
    ]


@dataclass(frozen=True, eq=False)
class FinalFigures(Sums):
    """Measured on the policy the client has stored: the certificate rests on this, not on a solver's word."""

    gain: _Gain
    shares: Annotated[Floats, Disclosure("its share of each group's global rates, (groups, rates)", _OF_SHARES)]
    exceeding: Annotated[
        Floats, Disclosure("1 where the stored policy misses a requirement inside the client, else 0, (1,)", _OF_SHARES)
    ]
    selected: _Selected
    own: Annotated[
        Floats,
        Disclosure(
            "with pooling, on its own rows alone: weight accepted, positives expected among them and in all, "
            "(groups, 3)",
            _OF_CHANCES,
        ),
    ]


@dataclass(frozen=True, eq=False)
class Received(Sums):
    """The result was received."""


class Refusal(enum.Enum):
    """Why a client does not answer, with what the server's people should do.

    Examples
    --------
    >>> Refusal.INTERNAL.value
    'an error inside the client: its own screen says which'
    """

    BAD_MESSAGE = "the message is damaged or of another version: use the same version of logofair everywhere"
    UNKNOWN_RUN = "the client does not know this run: its state folder was lost or is another's"
    OUT_OF_TURN = "the message belongs to another round or roster than the client is in"
    BAD_REQUEST = "the request cannot be meant: totals below the client's own, or numbers out of all range"
    OTHER_REQUEST = "another request came under a number that was already answered"
    UNKNOWN_GROUP = "the client has rows of a group that the plan does not name"
    NO_LABELS = "the plan needs labels, and the client has none"
    BAD_DATA = "the client's file cannot be used: its own screen says why"
    DISK_FULL = "the client's disk is full: make room there, and start its command again"
    DATA_CHANGED = "the client's file is not the one it had when the run began"
    NO_SOLUTION = "the client's own problem could not be solved exactly"
    IMPLAUSIBLE = "the client's own check found its answer implausible, so it was not sent"
    PLAN_REFUSED = "the client's people have not agreed to this plan: its own screen says what they want"
    NOT_AGREED = (
        "the client has not agreed to go on without sites that were in the roster, or to another run on the same rows: "
        "its own screen says which"
    )
    NO_KEYS = "the client lacks the keys for secure sums"
    OTHER_THAN_REPLAY = (
        "what was sent does not follow from the plan and the totals, which the client recomputed: use the same version "
        "of logofair everywhere, and ask nothing but what the plan says"
    )
    UNSAFE_SUM = "the client's rules for secure sums forbid this step"
    INTERNAL = "an error inside the client: its own screen says which"


@dataclass(frozen=True, eq=False)
class ReplyMessage:
    """All that leaves a client: sums over its rows (or their masked form), or a refusal from a fixed list.

    Examples
    --------
    >>> from logofair.federation import Client, Server, SiteColumns, make_plan
    >>> plan = make_plan(groups=["F", "M"], calibration="none", pooling="none", smallest_cell=1, run="demo")
    >>> client = Client("north", SiteColumns(groups=["F", "F", "M", "M"], scores=[0.9, 0.3, 0.6, 0.1]))
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
