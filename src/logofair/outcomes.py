"""What was found about requirements: one row for each requirement and site, and what a table of them says together.

The same rows on three bases. On *calibration rows* the state is what is proved of the rows that chose the rule, in
expectation; on *test rows* it is measured, with an interval; for *new rows* it is what is certified at a confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, Label
from logofair.columns.labels import plain
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.records import InBrief, Result
from logofair.requirement import Requirement

if TYPE_CHECKING:
    import polars

_Figure = TypeVar("_Figure", float, Floats)

MET, EXCEEDED, UNCLEAR, NOT_MEASURED = "met", "exceeded", "unclear", "not measured"
CALIBRATION_ROWS, TEST_ROWS, NEW_ROWS = "calibration rows", "test rows", "new rows"
_BASES = (CALIBRATION_ROWS, TEST_ROWS, NEW_ROWS)
FEW_ROWS = 30  # rates on fewer rows make no headline; a large cell has as many or more
ROUNDING = 1e-9  # an excess up to here is none
_GRAVEST = (EXCEEDED, UNCLEAR, NOT_MEASURED, MET)  # first
FAIL_ON = (EXCEEDED, UNCLEAR)  # the mildest verdict that fails a build
TRUE_GAP = 0.2  # the gap that a rule is taken to have in truth, as a share of its limit, where numbers are planned


@dataclass(frozen=True)
class Outcome(Result):
    """What was found about one requirement at one site, or over all of them.

    Attributes
    ----------
    requirement : Requirement
        What must hold; ``site``: where (None: over all sites, or there is only one).
    limit : float or None
        The number it must keep: as typed, or what "today" comes to on these rows; None where that is not known.
    before, after : float or None
        The rate, gap or ratio under the unconstrained rule and under the one that is judged, on the same rows: of
        several rates or groups the one with the least room. None where undefined; ``before`` also where there is
        nothing to compare with.
    low, high : float or None
        The 95% interval of ``after``. The end that would show that the limit is kept is that of this figure alone; the
        end that would show that it is exceeded is corrected over all that was looked at. For new rows the end that
        is known, at the confidence asked for. None on calibration rows, where ``after`` is exact.
    rows : int or None
        The rows (people, where ids repeat) behind the smallest rate that counts here.
    state : str
        ``"met"``: the interval is within the limit; ``"exceeded"``: it is beyond; ``"unclear"``: neither; or ``"not
        measured"``. For new rows ``"met"`` says that all that are met hold together at the confidence asked for.
    basis : str
        ``"calibration rows"``, ``"test rows"`` or ``"new rows"``.
    price : float or None
        The dual price: what a limit looser by one unit would win at most, in accuracy or cost per person.
    rows_needed : int or None
        How many rows of every group it would take to certify the limit; None: not known, or no number would do.
    rate : str or None
        The rate that ``after`` is of; ``groups``: whose (of a gap or a ratio the largest first; empty: everyone's).

    Examples
    --------
    >>> import logofair
    >>> rows = {"sensitive_features": ["women"] * 200 + ["men"] * 200, "global_tolerance": 0.1}
    >>> (found,) = logofair.audit([1] * 60 + [0] * 140 + [1] * 120 + [0] * 80, None, **rows).outcomes
    >>> print(found.requirement, found.state, round(found.after, 4), round(found.low, 2), round(found.high, 2))
    selection rate gap <= 0.1 overall exceeded 0.3 0.19 0.39
    """

    requirement: InBrief[Requirement]
    site: Label | None
    limit: float | None
    before: float | None
    after: float | None
    low: float | None
    high: float | None
    rows: int | None
    state: str
    basis: str
    price: float | None = None
    rows_needed: int | None = None
    rate: str | None = None
    groups: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        """Refuse words that no page knows: outcomes also come from files."""
        if self.state not in _GRAVEST or self.basis not in _BASES:
            raise ValueError("state or basis")

    @property
    def room(self) -> float | None:
        """What is left before the limit; negative: by how much it is exceeded. None where undefined."""
        if self.after is None or self.limit is None:
            return None
        return room(self.requirement.relation, self.limit, self.after)

    @property
    def too_small(self) -> bool:
        """Whether it rests on a handful of people, so that it makes no verdict unclear and no headline."""
        return self.rows is not None and self.rows < FEW_ROWS

    @property
    def is_small_site(self) -> bool:
        """Whether it is of a single site with a handful of people, or with none, and says nothing of its limit."""
        return self.site is not None and self.too_small and self.state in (UNCLEAR, NOT_MEASURED)

    @property
    def rows_to_check(self) -> int | None:
        """How many people the smallest group would probably take to show that the limit is met, all growing alike.

        Of a gap that in truth is a fifth of its limit, or a ratio as much nearer to 1.
        """
        margin, limit = self._margin, self.limit
        if margin is None or limit is None or self.rows is None:
            return None
        ideal = {"gap": 0.0, "ratio": 1.0}.get(self.requirement.measure)
        room = (self.room or 0.0) if ideal is None else (1.0 - TRUE_GAP) * abs(limit - ideal)
        return math.ceil(self.rows * (margin / room) ** 2) if room > 0 else None

    @property
    def _margin(self) -> float | None:
        """How far the truth must lie within a limit to be shown so with a chance of 80%: the interval's end, and room.

        The ends of 95% intervals lie 1.96 standard errors away, of which 0.84 more are that chance.
        """
        end = self.low if self.requirement.relation == ">=" else self.high
        if end is None or self.after is None or self.basis != TEST_ROWS:
            return None
        return abs(end - self.after) * (1.96 + 0.84) / 1.96 or None

    @property
    def stored(self) -> Outcome:
        """The same as a policy's file has it: labels of a type that JSON lacks as text."""
        return replace(self, site=plain(self.site), groups=tuple(map(plain, self.groups)))

    def in_json(self) -> dict[str, Any]:
        """Return its fields, the requirement as it is typed."""
        return vars(self) | {"requirement": str(self.requirement)}


@dataclass(frozen=True, repr=False)
class Outcomes(Sequence[Outcome], Result):
    """A table of outcomes, in the order of the requirements as typed and, for each, of the sites.

    Examples
    --------
    >>> import logofair
    >>> rows = {"sensitive_features": ["women", "men"] * 200, "sites": ["Oslo"] * 360 + ["Lyon"] * 40}
    >>> outcomes = logofair.audit([1, 1, 0, 1] * 100, None, **rows, local_tolerance=0.1).outcomes
    >>> [(each.site, each.state, each.rows) for each in outcomes]
    [('Lyon', 'exceeded', 20), ('Oslo', 'exceeded', 180)]
    >>> outcomes.verdict, outcomes.worst.site, len(outcomes.where(state="met"))
    ('exceeded', 'Lyon', 0)
    """

    entries: tuple[Outcome, ...] = ()

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.entries)

    @overload
    def __getitem__(self, index: int) -> Outcome: ...
    @overload
    def __getitem__(self, index: slice) -> Outcomes: ...
    def __getitem__(self, index: int | slice) -> Outcome | Outcomes:
        return Outcomes(self.entries[index]) if isinstance(index, slice) else self.entries[index]

    def __add__(self, other: Outcomes) -> Outcomes:
        return Outcomes((*self, *other))

    def __repr__(self) -> str:
        lines = [f"{each.requirement}: {each.state}" for each in self.entries]
        return f"Outcomes([{', '.join(lines)}])"

    def where(self, **wanted: object) -> Outcomes:
        """Those that have these values, such as ``where(basis="test rows", site="Oslo")``; site None: over all."""
        kept: Sequence[Outcome] = self.entries
        for name, value in wanted.items():
            kept = [each for each in kept if getattr(each, name) == value]
        return Outcomes(tuple(kept))

    @cached_property
    def requirements(self) -> tuple[Requirement, ...]:
        """What was required, each once."""
        return tuple(dict.fromkeys(each.requirement for each in self.entries))

    @cached_property
    def evidence(self) -> Outcomes:
        """Those that the verdict rests on: measured on test rows, else certified for new rows, else none.

        What is proved of the calibration rows never speaks for other people.
        """
        for basis in (TEST_ROWS, NEW_ROWS):
            found = self.where(basis=basis)
            if any(each.state != NOT_MEASURED for each in found):
                return found
        return Outcomes()

    @cached_property
    def judged(self) -> Outcomes:
        """Those of the evidence that the verdict counts: sites too small to say anything are set aside.

        An exceedance counts however few rows it was seen on, since it is corrected over all that was looked at. A
        requirement that could be measured nowhere for another reason leaves the verdict open.
        """
        kept: list[Outcome] = []
        for requirement in self.evidence.requirements:
            own = self.evidence.where(requirement=requirement)
            large = [each for each in own if not each.is_small_site]
            measured = any(each.state != NOT_MEASURED for each in own)
            kept += [each for each in large if each.state != NOT_MEASURED or not measured]
        return Outcomes(tuple(kept))

    @cached_property
    def verdict(self) -> str:
        """One state for all: exceeded anywhere, else unclear anywhere, else met."""
        unclear = any(each.state == UNCLEAR for each in self.evidence)  # though at small sites alone
        states = [each.state for each in self.judged]
        return min(states, key=_GRAVEST.index, default=UNCLEAR if unclear else NOT_MEASURED)

    def failing(self, fail_on: str) -> Outcomes | None:
        """Return those that fail a build, worst first; None where the verdict passes.

        Parameters
        ----------
        fail_on : str
            ``"exceeded"``: only what chance does not explain fails. ``"unclear"``: whatever is not shown to be met
            does, so that a verdict "not measured" fails too, even where no single outcome is to blame. Sites too small
            to judge never fail by themselves.

        Examples
        --------
        >>> import logofair
        >>> rows = {"sensitive_features": ["women", "men"] * 200, "global_tolerance": 0.1}
        >>> outcomes = logofair.audit([1, 1, 0, 1] * 100, None, **rows).outcomes
        >>> len(outcomes.failing("exceeded")), outcomes.where(state="met").failing("exceeded")
        (1, None)
        """
        if fail_on not in FAIL_ON:
            raise InputError(f"fail_on: got {fail_on!r}; use one of {', '.join(FAIL_ON)}.")
        bad = _GRAVEST[: _GRAVEST.index(NOT_MEASURED if fail_on == UNCLEAR else EXCEEDED) + 1]
        if self.verdict not in bad:
            return None
        found = [each for each in self.judged if each.state in bad]
        return Outcomes(tuple(sorted(found, key=lambda each: _GRAVEST.index(each.state))))

    @cached_property
    def worst(self) -> Outcome | None:
        """The one to show first: exceeded, else not on a handful of people, and of these that with the least room."""
        known = [each for each in self.entries if each.room is not None]
        shown = [each for each in known if each.state == EXCEEDED] or [e for e in known if not e.too_small] or known
        return min(shown, key=lambda each: each.room or 0.0, default=None)

    def brief(self, most: int) -> Outcomes:
        """Of each requirement on each basis no more than this, those that tell most: the verdict stays what it is."""
        kept: list[Outcome] = []
        for basis in dict.fromkeys(each.basis for each in self.entries):
            for requirement in self.requirements:
                own = self.where(basis=basis, requirement=requirement)
                left = np.array([np.nan if each.room is None else each.room for each in own])
                states, rows = np.array([each.state for each in own]), np.array([each.rows or 0 for each in own])
                kept += [own[place] for place in sorted(by_urgency(states, left, rows)[:most].tolist())]
        return Outcomes(tuple(kept))

    def in_json(self) -> tuple[Outcome, ...]:
        """Return the list of outcomes."""
        return self.entries

    def to_frame(self) -> polars.DataFrame:
        """Return a polars frame with a line per outcome; needs the extra ``data``."""
        columns = {each.name: [getattr(line, each.name) for line in self] for each in fields(Outcome)}
        columns["requirement"] = list(map(str, columns["requirement"]))
        columns["site"] = [None if site is None else str(site) for site in columns["site"]]
        columns["groups"] = [", ".join(map(str, groups)) for groups in columns["groups"]]
        frame: polars.DataFrame = polars_module().DataFrame(columns, infer_schema_length=None)
        return frame


def by_urgency(states: npt.NDArray[Any], left: Floats, rows: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """The order in which outcomes of one requirement tell most.

    Exceeded, unclear though on many rows, met, unclear on a handful, not measured; of each those with the least room.
    """
    unclear = np.where(rows < FEW_ROWS, 3, 1)
    rank = np.select([states == EXCEEDED, states == UNCLEAR, states == MET], [0, unclear, 2], 4)
    return np.lexsort((np.where(np.isnan(left), np.inf, left), rank))


def room(relation: str, limit: _Figure, found: _Figure) -> _Figure:
    """What is left before a limit; negative: by how much it is exceeded."""
    if relation == "=":
        return -abs(found - limit)
    return limit - found if relation == "<=" else found - limit


def states_of(relation: str, limit: Floats, low: Floats, high: Floats) -> npt.NDArray[np.object_]:
    """The state of each figure by its limit and both ends of its interval; NaN where one of them is not known.

    Examples
    --------
    >>> states_of("<=", np.array(0.05), np.array([0.06, 0.0, 0.0, np.nan]), np.array([0.2, 0.2, 0.04, 0.1])).tolist()
    ['exceeded', 'unclear', 'met', 'not measured']
    """
    if relation == "=":
        met = np.maximum(np.abs(low - limit), np.abs(high - limit)) <= ROUNDING
        exceeded = np.maximum(low - limit, limit - high) > ROUNDING
    else:
        worst, best = (high, low) if relation == "<=" else (low, high)
        met, exceeded = room(relation, limit, worst) >= -ROUNDING, room(relation, limit, best) < -ROUNDING
    unknown = np.isnan(limit + low + high)
    return np.select([unknown, met, exceeded], [NOT_MEASURED, MET, EXCEEDED], UNCLEAR).astype(object)
