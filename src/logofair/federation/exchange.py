"""What an exchange is: a request to all sites, their replies, and what both sides do with them.

Each exchange is declared in one place (:mod:`logofair.federation.exchanges`): the fields of its reply, each with its
meaning, shape, range and fixed-point step; the fields of its request, and what a site answers to it; and what the
server does with the total. The reply type is the privacy statement: a reply holds sums over the site's rows, or their
masked form under secure sums, and no text of an error and no value of the data leaves a site.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, Field, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from logofair.calibration.federated import GroupMaps
from logofair.calibration.fits import PARTS
from logofair.calibration.maps import FAMILIES
from logofair.columns.checks import Floats
from logofair.federation.global_side import GlobalRequirements
from logofair.federation.plan import Plan
from logofair.fitting.pooling import BINS, KAPPAS, KINDS, STRENGTHS, GroupPriors
from logofair.notions import Rate
from logofair.records import Family
from logofair.requirements import Combination
from logofair.solvers.problem import GroupTotals

if TYPE_CHECKING:
    from logofair.federation.batch import ClientBatch

# Fixed-point steps under secure sums: counts of rows need range, shares of all rows need precision.
OF_ROWS = 2.0**-20
OF_CHANCES = 2.0**-32  # expected positives: whole rows are exact anyway, chances are not
OF_SHARES = 2.0**-44
OF_SHIFTS = 2.0**-40  # shares times squares of log-odds
# More rows than any federation has.
MOST_ROWS = 1e12
# Rounding of solvers and of fixed-point sums, far below any tolerance; and of sums over rows.
ROUNDING = 1e-6
SLACK = 1e-3


class Body(Family):
    """What leaves a site, or is passed on of it: sums over its rows, or a message of secure sums."""


class Disclosure(NamedTuple):
    """A field of a reply: what it tells about the site, its shape, its fixed-point step and its range.

    The shape names lengths that :meth:`Sums.shapes` has, or the request: "fits groups".
    """

    meaning: str
    shape: str
    step: float
    low: float
    high: float


def disclosed(meaning: str, shape: str, step: float, low: float = -math.inf, high: float = math.inf) -> Any:
    """Declare a field of a reply."""
    return field(metadata={"disclosure": Disclosure(meaning, shape, step, low, high)})


@dataclass(frozen=True, eq=False)
class GroupCounts(GroupTotals):
    """The rows and expected positives per group behind a reply: one site's, or those of the roster."""

    sites: int = 1


@dataclass(frozen=True, eq=False)
class Context:
    """What a reply is held against: its request, the plan, and the rows behind it and of all sites as far as known."""

    request: Any
    plan: Plan
    counts: GroupCounts | None
    roster: GroupCounts | None


class Request(Family):
    """What a server asks of every site in one exchange, and what a site answers."""

    reply: ClassVar[type[Sums]]

    def answer(self, batch: ClientBatch) -> tuple[ClientBatch, Sums]:
        """The sites' answer: their next state, and sums whose first axis counts the sites."""
        raise NotImplementedError

    @property
    def lengths(self) -> dict[str, int]:
        """Lengths in the shape of the reply that depend on the request."""
        return {}

    @property
    def coarser(self) -> dict[str, Floats]:
        """Fields of the reply whose numbers grow with what is asked, and by which power of two their steps do."""
        return {}

    @property
    def replayed(self) -> Request:
        """What of it follows from the plan and the totals, which sites under secure sums recompute: all, mostly."""
        return self


class Refusal(enum.Enum):
    """Why a site does not answer, with what the server's people should do.

    Examples
    --------
    >>> Refusal.INTERNAL.value
    "an error inside the site's program: its own screen says which"
    """

    BAD_MESSAGE = "the message is damaged or of another version: use the same version of logofair everywhere"
    UNKNOWN_RUN = "the site does not know this run: its state folder was lost or is another's"
    OUT_OF_TURN = "the message belongs to another round or roster than the site is in"
    BAD_REQUEST = "the request makes no sense: totals below the site's own, or numbers out of range"
    OTHER_REQUEST = "another request came under a number that was already answered"
    UNKNOWN_GROUP = "the site has rows of a group that the plan does not name"
    NO_LABELS = "the plan needs labels, and the site has none"
    BAD_DATA = "the site's file cannot be used: its own screen says why"
    DISK_FULL = "the site's disk is full: make room there, and start its command again"
    DATA_CHANGED = "the site's file is not the one it had when the run began"
    NO_SOLUTION = "the site's own problem could not be solved exactly"
    IMPLAUSIBLE = "the site's own check found its answer implausible, so it was not sent"
    PLAN_REFUSED = "the site's people have not agreed to this plan: its own screen says what they want"
    NOT_AGREED = (
        "the site has not agreed to go on without sites that were in the roster, or to another run on the same rows: "
        "its own screen says which"
    )
    NO_KEYS = "the site lacks the keys for secure sums"
    OTHER_THAN_REPLAY = (
        "what was sent does not follow from the plan and the totals, which the site recomputed: use the same version "
        "of logofair everywhere, and ask nothing but what the plan says"
    )
    UNSAFE_SUM = "the site's rules for secure sums forbid this step"
    INTERNAL = "an error inside the site's program: its own screen says which"


class Sums(Body):
    """What a site replies: numbers of one site, or of several along a first axis."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # of those that descend from it
    impossible: ClassVar[str] = "sent numbers that no rows can have"  # of a number out of its range

    @classmethod
    def disclosures(cls) -> dict[str, Disclosure]:
        """Every field, and what it tells."""
        return {each.name: each.metadata["disclosure"] for each in fields(cls)}

    @classmethod
    def shapes(cls, request: Request, plan: Plan) -> list[tuple[int, ...]]:
        """The shapes of the fields in the reply to a request: lengths that follow from the plan, or the request."""
        groups, family = len(plan.groups), FAMILIES.get(plan.calibration)
        k = 0 if family is None else len(family.identity)
        known = {
            "groups": groups,
            "1+groups": 1 + groups,
            "rates": len(plan.over_all.group_rates),
            "counted": len(plan.over_all.counted),
            "today": len(plan.over_all.today),
            "combinations": len(plan.over_all.combinations),
            "inside": int(plan.inside.limited),
            "pairs": groups * (groups - 1),
            "fits": plan.folds + 1,
            "folds": plan.folds,
            "entries": 1 + k + k * (k + 1) // 2,
            "label-sums": 2 if family is not None and family.smoothed else 1,
            "strengths": 0 if family is None else len(STRENGTHS["auto"]),
            "kinds": len(KINDS),
            "kappas": len(KAPPAS),
            "all-bins": BINS,
            "parts": len(PARTS),
            "own": 0 if plan.pooling == "none" else groups,
            **{str(number): number for number in range(1, 10)},
            **request.lengths,
        }
        return [tuple(known[name] for name in each.shape.split()) for each in cls.disclosures().values()]

    @property
    def row_counts(self) -> GroupCounts | None:
        """The rows behind this reply, if it says how many there are: later replies of the site rest on them."""
        return None

    def wrong(self, context: Context) -> str | None:
        """What no such rows could give, each number being in its range; None where nothing is wrong."""
        return None

    def total(self) -> Self:
        """What the server works with of the sites along the first axis, unless a type says otherwise their sum.

        Entry by entry that is rounded once, so that the order of the sites does not matter.
        """
        summed = {}
        for each in fields(self):
            stacked = getattr(self, each.name)
            flat = stacked.reshape(stacked.shape[0], -1)
            if flat.shape[0] == 1:
                summed[each.name] = np.array(stacked[0])
            elif not np.isfinite(flat).all():  # fsum refuses infinities of both signs; the checks of replies name them
                summed[each.name] = np.asarray(stacked.sum(axis=0))
            else:  # column by column: numbers of a hundred thousand sites would fill the memory as Python's
                sums = [math.fsum(column.tolist()) for column in flat.T]
                summed[each.name] = np.array(sums).reshape(stacked.shape[1:])
        return type(self)(**summed)

    @classmethod
    def stacked(cls, parts: Sequence[Self]) -> Self:
        """The numbers of several sites along a first axis."""
        return cls(**{f.name: np.stack([getattr(part, f.name) for part in parts]) for f in fields(cls)})

    def vector(self) -> Floats:
        """All numbers in one row, as secure sums take them."""
        return np.concatenate([np.zeros(0), *(np.ravel(getattr(self, f.name)) for f in fields(self))])

    @classmethod
    def steps_of(cls, shapes: Sequence[tuple[int, ...]], request: Request) -> Floats:
        """The fixed-point step of each number of :meth:`vector` in answer to a request, for fields of given shapes."""
        coarser = request.coarser
        parts = [
            np.ravel(np.full(shape, disclosure.step) * coarser.get(name, 1.0))
            for (name, disclosure), shape in zip(cls.disclosures().items(), shapes, strict=True)
        ]
        return np.concatenate([np.zeros(0), *parts])

    @classmethod
    def from_vector(cls, vector: Floats, shapes: Sequence[tuple[int, ...]]) -> Self:
        """The inverse of :meth:`vector` for fields of given shapes."""
        cuts = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        parts = np.split(np.asarray(vector, dtype=np.float64), cuts) if shapes else []
        return cls(**{f.name: part.reshape(s) for f, part, s in zip(fields(cls), parts, shapes, strict=True)})


class Exchange(Family):
    """One exchange as the server knows it: the request under way, and what it will need with the sum of the replies.

    It is a frozen value that can be stored.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]  # of those that descend from it
    name: ClassVar[str]  # what the exchange is counted as
    request: Request  # what is sent to every site

    def take(self, total: Any, plan: Plan, sites: int) -> Exchange:
        """The next exchange, given the total of the replies of so many sites."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class RosterTotals(GroupCounts):
    """The totals of a roster, and what its sites counted with."""

    _: KW_ONLY
    today: Floats  # what is accepted where nothing is required, (groups, rates of today)
    maps: GroupMaps | None = None
    priors: GroupPriors | None = None  # where small cells borrow

    def required(self, plan: Plan) -> GlobalRequirements:
        """What is required over all sites."""
        return GlobalRequirements(plan, self.mass, self.positives, self.today)


class AfterTotals(Exchange):
    """An exchange that knows the totals of its roster: the answers of sites are void without one of them."""

    totals: RosterTotals

    def warm_start(self, plan: Plan) -> Floats | None:
        """The prices worth sending to a new roster once its totals are known."""
        return None


def reply_form(request: Request, plan: Plan) -> tuple[type[Sums], list[tuple[int, ...]]]:
    """The type of the reply to a request, and the shapes of its fields."""
    return request.reply, request.reply.shapes(request, plan)


def fault(
    reply: object, request: Request, plan: Plan, counts: GroupCounts | None, roster: GroupCounts | None
) -> str | None:
    """What is wrong with a reply, or None; ``counts`` are of the rows behind it, ``roster`` of all sites' rows.

    The server checks every reply it can see, and the totals it cannot see behind; a client checks its own reply before
    it is masked. A number no set of rows can give is refused, with one sentence.
    """
    kind, shapes = reply_form(request, plan)
    if type(reply) is not kind:
        return f"sent a {type(reply).__name__} where a {kind.__name__} was requested"
    for (name, disclosed), shape in zip(kind.disclosures().items(), shapes, strict=True):
        value: Any = getattr(reply, name)
        if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.shape != shape:
            got = getattr(value, "shape", type(value).__name__)
            return f"sent {name} of shape {got} where {shape} was requested"
        if not np.isfinite(value).all():
            return f"sent {name} with a value that is no finite number"
        if value.min(initial=disclosed.high) < disclosed.low or value.max(initial=disclosed.low) > disclosed.high:
            return kind.impossible
    rows = reply.row_counts
    if plan.smallest_cell == 1 and rows is not None and not rows.mass.sum() > 0:
        return "sent an impossible number of rows"  # where small cells are left out, none may be left
    return reply.wrong(Context(request, plan, counts, roster))


def beyond_rows(
    gain: Floats, shares: Floats, combinations: Floats, plan: Plan, counts: GroupCounts, roster: GroupCounts
) -> str | None:
    """What so many rows cannot reach: gains, parts of combinations of rates, and shares of groups' rates."""
    # At most all positives are accepted and nobody else, at least the other way round.
    constant, slope = plan.cost_scale.row_gain
    worst, best = constant * (counts.mass - counts.positives).sum(), (constant + slope) * counts.positives.sum()
    least, most = np.array([worst, best]) / roster.mass.sum() + [-ROUNDING, ROUNDING]
    if np.any(gain < least) or np.any(gain > most):
        return f"claims {'more' if np.any(gain > most) else 'less'} accuracy than its rows allow"
    least, most = combination_limits(plan.over_all.combinations, counts, roster)
    if np.any(combinations < least) or np.any(combinations > most):
        return "claims a part of a limited rate that its rows do not allow"
    low, high = share_limits(plan.over_all.group_rates, counts, roster)
    if np.any(shares < low) or np.any(shares > high):
        return "claims a larger share of a group's rate than its rows allow"
    return None


def combination_limits(
    combinations: Sequence[Combination], counts: GroupCounts, roster: GroupCounts
) -> tuple[Floats, Floats]:
    """Smallest and largest part of each combination of rates that so many rows can have, (combinations,) each."""
    low, high = np.zeros(len(combinations)), np.zeros(len(combinations))
    for k, each in enumerate(combinations):
        for number, rate, groups in each.terms:
            base = rate.denominator(roster.mass, roster.positives)
            ends = np.array(share_limits((rate,), counts, roster))[..., 0]  # of each group in its own rate
            ends = (
                (ends * base).sum(axis=1) / base.sum()
                if groups is None and base.sum() > 0
                else ends[:, (groups or (0,))[0]]
            )
            some = number * ends
            low[k], high[k] = low[k] + some.min(), high[k] + some.max()
    return low, high


def share_limits(rates: Sequence[Rate], counts: GroupCounts, roster: GroupCounts) -> tuple[Floats, Floats]:
    """Smallest and largest share of each group's rate that so many rows can have, (groups, rates) each."""
    m, p = counts.mass, np.minimum(counts.positives, counts.mass)
    # Corners of all that can be selected: nobody, the positives, everybody, the negatives.
    corners = ((0 * m, 0 * m), (p, p), (m, p), (m - p, 0 * m))
    low, high = np.zeros((m.size, len(rates))), np.zeros((m.size, len(rates)))
    for k, rate in enumerate(rates):
        base = rate.denominator(roster.mass, roster.positives)
        defined = base > 0
        value = np.stack([rate.numerator(u, v) for u, v in corners])
        value = np.divide(value, base, out=np.zeros_like(value), where=defined)
        # Under secure sums every site's share of a total is rounded, which shows where a group is next to empty.
        slack = ROUNDING * (1.0 + (counts.sites - 1) / np.maximum(base, ROUNDING))
        low[:, k], high[:, k] = value.min(axis=0) - slack, value.max(axis=0) + slack
    return low, high


def all_finite(value: object) -> bool:
    """Whether all numbers of a request are finite; the arrays of a message can hold anything."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind != "f" or bool(np.isfinite(value).all())
    return not is_dataclass(value) or all(all_finite(getattr(value, each.name)) for each in fields(value))
