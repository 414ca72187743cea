"""All that leaves a client, field by field: this module is the privacy statement.

Every reply of a client is one of the types below and holds totals over its own rows, never a row, a threshold, a score
or one of its own (local) multipliers. The server uses only what the replies of all clients add up to, so each of them
can travel masked (:mod:`logofair.federation.secure`); then the server sees the totals alone.

========================  ==========================================================================================
:class:`Moments`          before training: sums and sums of squares of the features
:class:`Update`           training: the model after local steps, times the number of rows
:class:`Counts`           calibration, once: rows of each label per fold and group, and a first :class:`Curvature`
:class:`Curvature`        calibration: log loss, its gradient and Hessian per fold, over all rows and per group
:class:`Totals`           once: rows and expected positives per group
:class:`Answers`          per multiplier: accuracy gained, shares of the groups' global rates, dual value
:class:`Steepness`        Algorithm 1, once: the client's smoothness constant
:class:`Steps`            Algorithm 1: the change of the global multipliers
:class:`Settled`          at the end: accuracy gained and shares of the rates of the stored policy
:class:`Noted`            the result was received; no number
========================  ==========================================================================================

What such totals reveal: ``Totals`` tells how many rows of each group a client has and how many positives it expects; a
client's ``Answers`` tell its part of the global disparity at the prices asked. A ``Steps`` reply is the client's own
disparity contribution up to a constant (the paper says that it reveals nothing, which is not so).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, NamedTuple, Self, get_type_hints

import numpy as np

from logofair.federation.wire import carried
from logofair.inputs import Floats

__all__ = [
    "Answers",
    "Counts",
    "Curvature",
    "Moments",
    "Noted",
    "Settled",
    "Steepness",
    "Steps",
    "Sums",
    "Totals",
    "Update",
]

# Fixed-point steps under secure sums: counts of rows need range, shares of the whole need precision.
_OF_ROWS = 2.0**-20
_OF_CHANCES = 2.0**-32  # expected positives: whole rows are exact anyway, chances are not
_OF_SQUARES = 2.0**-8
_OF_SHARES = 2.0**-44


class Told(NamedTuple):
    """What a field tells about the client, and its fixed-point step under secure sums."""

    meaning: str
    step: float


def _kinds(kind: type) -> dict[str, Told]:
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

    mass: Annotated[Floats, Told("number of training rows, (1,)", _OF_ROWS)]
    first: Annotated[Floats, Told("sum of each feature over the training rows, (features,)", _OF_ROWS)]
    second: Annotated[Floats, Told("sum of squares of each feature, (features,)", _OF_SQUARES)]


@carried
@dataclass(frozen=True, eq=False)
class Update(Sums):
    """One round of federated averaging."""

    mass: Annotated[Floats, Told("number of training rows, (1,)", _OF_ROWS)]
    parameters: Annotated[Floats, Told("model after the local steps times the number of rows, (parameters,)", _OF_ROWS)]


@carried
@dataclass(frozen=True, eq=False)
class Counts(Sums):
    """The first step of the group-level calibrators; a fit leaves one fold out, the last one none.

    ``counts`` is for label 0, then for label 1; only for Platt's method the sum of logit(score) stands before the mass.
    """

    counts: Annotated[Floats, Told("weight of the rows by label, (2, 1 or 2, fits, groups)", _OF_ROWS)]
    sums: Annotated[
        Floats, Told("log loss, gradient and Hessian at the point asked, (entries, fits, 1 + groups)", _OF_ROWS)
    ]


@carried
@dataclass(frozen=True, eq=False)
class Curvature(Sums):
    """Every further step of the group-level calibrators."""

    sums: Annotated[
        Floats, Told("log loss, gradient and Hessian at the point asked, (entries, fits, 1 + groups)", _OF_ROWS)
    ]


@carried
@dataclass(frozen=True, eq=False)
class Totals(Sums):
    """Asked once per roster: from these the server knows the groups' shares and base rates."""

    mass: Annotated[Floats, Told("weight of the rows of each group, (groups,)", _OF_ROWS)]
    positives: Annotated[Floats, Told("sum of eta over the rows of each group, (groups,)", _OF_CHANCES)]


@carried
@dataclass(frozen=True, eq=False)
class Answers(Sums):
    """The client's best answer to each multiplier asked."""

    gain: Annotated[
        Floats, Told("accuracy above rejecting everybody, as a share of all rows, (multipliers,)", _OF_SHARES)
    ]
    shares: Annotated[Floats, Told("its share of each group's global rates, (multipliers, groups, rates)", _OF_SHARES)]
    bound: Annotated[Floats, Told("dual value: no rule of the client is worth more, (multipliers,)", _OF_SHARES)]


@carried
@dataclass(frozen=True, eq=False)
class Steepness(Sums):
    """Algorithm 1 takes one common step for all: the server needs the largest of these, not their sum."""

    constant: Annotated[Floats, Told("smoothness constants of the client's dual, global and local, (2,)", _OF_SHARES)]

    def together(self) -> Self:
        """The largest of any client."""
        return type(self)(constant=np.max(self.constant, axis=0))


@carried
@dataclass(frozen=True, eq=False)
class Steps(Sums):
    """One round of Algorithm 1."""

    change: Annotated[Floats, Told("change of the global multipliers by the local steps, (pairs, rates)", _OF_SHARES)]


@carried
@dataclass(frozen=True, eq=False)
class Settled(Sums):
    """Measured on the policy the client has stored: the certificate rests on this, not on a solver's word."""

    gain: Annotated[Floats, Told("accuracy above rejecting everybody, as a share of all rows, (1,)", _OF_SHARES)]
    shares: Annotated[Floats, Told("its share of each group's global rates, (groups, rates)", _OF_SHARES)]
    broken: Annotated[Floats, Told("1 where the client could not keep its local tolerances, else 0, (1,)", _OF_SHARES)]


@carried
@dataclass(frozen=True, eq=False)
class Noted(Sums):
    """The result was received."""
