"""Advice before a person signs: what may be promised to which client, and what it takes to promise more.

Everything follows from numbers of rows and the policy's rates, by the formulas that make promises, but for two figures:
the accuracy without some requirements is found by solving again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from logofair.auditing.certification import POWER
from logofair.auditing.measure import FEW_ROWS, counting_labels, counts_rows, plain
from logofair.columns.checks import Floats, Label, listed
from logofair.columns.segments import Booleans, Indices
from logofair.fitting.confidence import (
    CountedRates,
    counted_rates,
    local_method,
    local_rates,
    needs_of,
    promises_together,
    rows_counted,
)
from logofair.fitting.promises import BY_RANK, CANNOT, CERTIFIED, HELD_OUT, RATES, USEFUL, Needs, with_confidence
from logofair.notions import Rate
from logofair.policy.info import PoolingInfo, added_to_rows
from logofair.requirements import Requirements
from logofair.solvers.decomposition import solve_exact
from logofair.solvers.joint import solve_joint
from logofair.solvers.problem import Problem

if TYPE_CHECKING:
    from logofair.fitting.solution import Solution

__all__ = [
    "CARRIES",
    "LARGER",
    "NOTHING",
    "Advice",
    "ClientAdvice",
    "FewRows",
    "LeavingOut",
    "Merging",
    "advise",
]

CARRIES, LARGER, NOTHING = "carries it", "a larger tolerance", "nothing useful"
_MUCH = 0.005  # of accuracy, or of the dearest error: what a requirement that rests on few rows may cost unmentioned
_SOLVED = 3  # cells of few rows whose cost is found one by one
_NAMED = 5  # clients told one by one; of more, the range


@dataclass(frozen=True)
class ClientAdvice:
    """What one client's rows can carry.

    Attributes
    ----------
    client : label or None
        None: there are no clients, all rows are one.
    rows : int
        Calibration rows; ``group``, ``label``, ``group_rows``: the group with the fewest rows that count in a rate,
        which label these have (None: any), and how many they are (of equal weight).
    required : float or None
        The smallest local tolerance required here; None: nothing is.
    smallest : float or None
        The smallest tolerance that could be certified, all clients together; None where a group has no rows.
    status : str
        ``"carries it"``, ``"a larger tolerance"`` (below 0.2) or ``"nothing useful"``.
    rows_needed : int or None
        Rows of every group that the required tolerance takes, 0.2 where none is required; None: no number would do.
    certified : bool or None
        Whether the fit has certified what is required, with this confidence; None: it was not promised.
    """

    client: Label | None
    rows: int
    group: Label
    label: int | None
    group_rows: int
    required: float | None
    smallest: float | None
    status: str
    rows_needed: int | None
    certified: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self) | {"client": plain(self.client), "group": plain(self.group)}


@dataclass(frozen=True)
class Merging:
    """Clients that cannot carry their tolerance, merged into ``bundles`` of few, ``carried`` of which could.

    ``tolerance`` is the largest of the smallest tolerances of the merged clients; None: a group has no rows at all.
    """

    bundles: tuple[tuple[Label | None, ...], ...]
    carried: int
    tolerance: float | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self) | {"bundles": [[plain(name) for name in bundle] for bundle in self.bundles]}


@dataclass(frozen=True)
class LeavingOut:
    """Clients that cannot carry their tolerance, left without one: ``client_tolerances={client: None}``.

    ``more`` are those of them that need not be left out, since they can carry it once the others leave them their part
    of the error. ``accuracy`` is what could then be expected on the calibration rows (None: not found),
    ``accuracy_now`` what can with all that is required; with costs, the cost per person.
    """

    clients: tuple[Label | None, ...]
    rows: int
    more: tuple[Label | None, ...]
    accuracy: float | None
    accuracy_now: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self) | {"clients": [plain(c) for c in self.clients], "more": [plain(c) for c in self.more]}


@dataclass(frozen=True)
class FewRows:
    """Requirements that rest on few rows and cost much accuracy.

    Attributes
    ----------
    cells : int
        How many groups at clients have fewer than 30 rows that count; ``rows``: how many rows these are.
    accuracy, accuracy_now : float
        Expected accuracy on the calibration rows if these cells were compared with no others, and as it is; with costs,
        the cost per person.
    dearest : tuple of (client, group, rows, accuracy)
        Those that cost most, each with the accuracy without it alone; client None: the group at all clients.
    """

    cells: int
    rows: int
    accuracy: float
    accuracy_now: float
    dearest: tuple[tuple[Label | None, Label, int, float], ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        names = ("client", "group", "rows", "accuracy")
        dearest = [dict(zip(names, (plain(c), plain(g), n, a), strict=True)) for c, g, n, a in self.dearest]
        return asdict(self) | {"dearest": dearest}


@dataclass(frozen=True, repr=False)
class Advice:
    """What may be promised for new rows to which client, and what it takes to promise more.

    Attributes
    ----------
    confidence : float
        Of all promises together.
    method : str
        How promises would be made: ``"by rank"`` or ``"on rows held out"``.
    clients : tuple of ClientAdvice
        Per client the smallest tolerance that could be certified, in the order of the policy's clients.
    global_ : ClientAdvice or None
        The same over all clients; None where there is one, or nothing is required over all.
    counted : str
        What expected accuracies count besides the calibration rows, as :attr:`Certificate.pooling` says.
    weighted : bool
        Whether rows are weighted, so that numbers of rows in a group are of equal weight.
    measure : str
        ``"accuracy"``, or ``"cost"`` where errors have costs: what ``leaving_out`` and ``few_rows`` count.
    reason : str
        Why nothing can be promised to anybody; empty where something can.
    pooling : PoolingInfo
        What the fit borrows. It narrows true gaps of small clients; promises rest on their own rows alone.
    merging : Merging or None
        What merging those that cannot carry their tolerance would do.
    leaving_out : LeavingOut or None
        What leaving them without a local tolerance would do.
    few_rows : FewRows or None
        Requirements on few rows that cost much accuracy.

    Examples
    --------
    >>> import logofair
    >>> scores, groups, clients = [0.1, 0.4, 0.6, 0.9] * 500, ["a", "b"] * 1000, ["n", "n", "s", "s"] * 500
    >>> solution = logofair.fit(
    ...     scores, None, groups=groups, clients=clients, local_tolerance=0.1, calibration="none", pooling="none"
    ... )
    >>> print(solution.advice().summary().split(";")[0])
    Both clients can carry a local tolerance of 0.1 for new rows, with 95% confidence together (by rank)
    """

    confidence: float
    method: str
    clients: tuple[ClientAdvice, ...]
    reason: str = ""
    pooling: PoolingInfo = field(default_factory=PoolingInfo)
    merging: Merging | None = None
    leaving_out: LeavingOut | None = None
    few_rows: FewRows | None = None
    global_: ClientAdvice | None = None
    counted: str = "none"
    weighted: bool = False
    measure: str = "accuracy"

    @property
    def tolerance(self) -> float | None:
        """The local tolerance that most clients are required to keep; None where none is."""
        found = [each.required for each in self.clients if each.required is not None]
        return max(dict.fromkeys(found), key=found.count) if found else None

    def with_status(self, status: str) -> tuple[ClientAdvice, ...]:
        """The clients of one status of which something is required, or all where nothing is."""
        nothing = self.tolerance is None
        return tuple(c for c in self.clients if c.status == status and (nothing or c.required is not None))

    def summary(self) -> str:
        """Return the advice as one paragraph for people."""
        return " ".join(_sentences(self))

    __repr__ = __str__ = summary

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        parts = {
            "global": self.global_,
            "merging": self.merging,
            "leaving_out": self.leaving_out,
            "few_rows": self.few_rows,
        }
        return {
            "confidence": self.confidence,
            "method": self.method,
            "tolerance": self.tolerance,
            "summary": self.summary(),
            "reason": self.reason,
            "clients": [client.as_dict() for client in self.clients],
            "counted": self.counted,
            "weighted": self.weighted,
            "measure": self.measure,
            "pooling": asdict(self.pooling),
        } | {name: None if part is None else part.as_dict() for name, part in parts.items()}


def advise(solution: Solution, confidence: float) -> Advice:
    """What may be promised of a solution's requirements with this confidence."""
    few_rows, counted, measure = _few_rows(solution), solution.certificate.pooling, solution.problem.measure
    if reason := next(_why_nothing(solution), ""):
        return Advice(confidence, "", (), reason, solution.pooling, few_rows=few_rows, counted=counted, measure=measure)
    case = _Case.of(solution, 1.0 - confidence)
    unable = len(case.carries) > 1 and bool(case.missing.any())
    return Advice(
        confidence,
        case.method,
        tuple(_about(case, solution, solution.rows.clients.names)),
        pooling=solution.pooling,
        merging=_merging(case, solution) if unable else None,
        leaving_out=_leaving_out(case, solution) if unable else None,
        few_rows=few_rows,
        global_=_over_all(case, solution),
        counted=counted,
        weighted=solution.rows.weights is not None,
        measure=measure,
    )


def _why_nothing(solution: Solution) -> Iterator[str]:
    """Why no promise can be made at all."""
    for rate in local_rates(solution.requirements):
        if solution.rows.labels is None and rate.needs_labels:
            yield f"a promise about the {rate.name} needs labels, and the calibration rows have none"
        if not counts_rows(rate):
            yield f"the {rate.name} is no share of rows, so no bound of its gap for new rows is known"


# --- what each client can carry


@dataclass(frozen=True, eq=False)
class _Case:
    """Clients with what promises inside them would rest on, and the tolerances required, (clients, rates)."""

    counted: CountedRates
    tolerances: Floats
    requirements: Requirements
    method: str
    error: float
    certified: Booleans  # what the fit has certified with this confidence, (clients, rates)
    promises: int | None = None  # that are made together, where the number is known

    @classmethod
    def of(cls, solution: Solution, error: float) -> _Case:
        """The requirements of a solution; of two tolerances for one rate the smaller holds."""
        rows, required = solution.rows, solution.requirements
        rates, chance = local_rates(required), solution.policy.chances(rows.calibrated, rows.cells)
        counted = counted_rates(rows, rates, chance)
        tolerances = np.full(counted.common.shape, np.inf)
        for k, requirement in enumerate(required.local):
            if requirement.rate in counted.rates:
                place = counted.rates.index(requirement.rate)
                tolerances[:, place] = np.minimum(tolerances[:, place], required.tolerances[:, k])
        certified = _certified(solution, error, "local", rates, rows.clients.names)
        return cls(counted, tolerances, required, local_method(rows, required), error, certified)

    @property
    def required(self) -> Booleans:
        """Of which clients something is required, (clients,)."""
        return np.asarray(np.isfinite(self.tolerances).any(axis=1))

    @property
    def missing(self) -> Booleans:
        """Which clients cannot carry what is required of them."""
        return np.asarray(self.required & ~self.carries)

    @property
    def judged(self) -> Booleans:
        """Which clients make promises that are judged together: all that can where nothing is required of any."""
        return self.counted.known & (self.required if self.required.any() else True)

    def together(self, clients: int) -> int:
        """How many promises there are if so many clients make theirs."""
        if self.promises is not None:
            return self.promises
        return promises_together(clients, self.counted, self.requirements)

    @cached_property
    def smallest(self) -> Floats:
        """The smallest tolerance of each client and rate; NaN where a group has no rows.

        An even part of the error is reckoned with. A fit divides it better, so what it has certified may be smaller.
        """
        found = self.counted.smallest(self.method, self.error / self.together(int(self.judged.sum())))
        return np.where(self.certified, np.fmin(found, self.tolerances), found)

    @cached_property
    def carries(self) -> Booleans:
        """Which clients can carry what is required of them, (clients,)."""
        return _carried(self.smallest, self.tolerances)

    def needs(self, clients: int) -> Needs:
        """What each promise takes if so many clients make theirs."""
        return needs_of(self.method, self.error, self.together(clients), self.counted.rows.shape[2])


def _carried(smallest: Floats, tolerances: Floats) -> Booleans:
    """Which clients' smallest tolerances are small enough, (clients,)."""
    with np.errstate(invalid="ignore"):
        return np.asarray((smallest <= tolerances).all(axis=1))


def _with_promises(solution: Solution, error: float) -> bool:
    """Whether the fit was asked to certify with no more error."""
    confidence = solution.promises.confidence
    return confidence is not None and 1.0 - confidence <= error


def _certified(
    solution: Solution, error: float, side: str, rates: Sequence[Rate], clients: Sequence[Label | None]
) -> Booleans:
    """Which gaps the fit has certified with no more error, (clients, rates)."""
    if not _with_promises(solution, error):
        return np.zeros((len(clients), len(rates)), dtype=bool)
    made, refused = (
        {(p.client, p.rate) for p in solution.promises.with_status(status) if p.side == side}
        for status in (CERTIFIED, CANNOT)
    )
    found = made - refused  # of two tolerances for one rate the smaller counts
    return np.array([[(client, rate.name) in found for rate in rates] for client in clients])


def _over_all(case: _Case, solution: Solution) -> ClientAdvice | None:
    """What all clients together can carry over all of them; None where there is one, or nothing is required so.

    By rank, promises that cannot be made take nothing of the error; on rows held out Holm's correction counts them.
    """
    rows, required = solution.rows, solution.requirements
    wanted = [(r.rate, r.tolerance) for r in required.global_ if r.tolerance is not None and counts_rows(r.rate)]
    rates = tuple(dict.fromkeys(rate for rate, _ in wanted))
    if not rates or len(rows.clients.names) == 1 or (rows.labels is None and any(r.needs_labels for r in rates)):
        return None
    counted = counted_rates(rows, rates, solution.policy.chances(rows.calibrated, rows.cells), merged=True)
    tolerances = np.array([[min(tolerance for other, tolerance in wanted if other == rate) for rate in rates]])
    others = case.carries & case.required if case.method == BY_RANK else case.judged & case.required
    together = case.together(int(others.sum()))
    merged = _Case(
        counted,
        tolerances,
        required,
        case.method,
        case.error,
        _certified(solution, case.error, "global", rates, [None]),
        together,
    )
    return next(_about(merged, solution, (None,)))


def _about(case: _Case, solution: Solution, names: Sequence[Label | None]) -> Iterator[ClientAdvice]:
    """One client after the other, or all as one."""
    rows, counted = solution.rows, case.counted
    codes = rows.clients.codes if len(names) == len(rows.clients.names) else np.zeros_like(rows.clients.codes)
    sizes = np.bincount(codes, minlength=len(names))
    clients, (n_rates, n_groups) = range(sizes.size), counted.rows.shape[1:]
    fewest = counted.rows.reshape(sizes.size, n_rates * n_groups).argmin(axis=1)
    smallest, required = case.smallest.max(axis=1), case.tolerances.min(axis=1)
    needed, wanted, judged = _rows_needed(case), np.isfinite(case.tolerances), _with_promises(solution, case.error)
    for c in clients:
        rate, group = divmod(int(fewest[c]), n_groups)
        labels = counting_labels(counted.rates[rate])
        yield ClientAdvice(
            client=names[c],
            rows=int(sizes[c]),
            group=rows.groups.names[group],
            label=labels[0] if len(labels) == 1 else None,
            group_rows=round(float(counted.rows[c, rate, group])),
            required=_finite(required[c]),
            smallest=_finite(smallest[c]),
            status=_status(bool(case.carries[c] and case.required[c]), float(smallest[c])),
            rows_needed=int(needed[c]) if np.isfinite(needed[c]) else None,
            certified=bool(case.certified[c][wanted[c]].all()) if judged and wanted[c].any() else None,
        )


def _rows_needed(case: _Case) -> Floats:
    """Rows of every group that each client's tolerance takes, a useful one where none is required, (clients,)."""
    tolerances = np.where(case.required[:, None], case.tolerances, USEFUL)
    rate, judged = np.clip(case.counted.common, *RATES), int(case.judged.sum())
    needed = [case.needs(number).at(rate, tolerances) for number in (judged, judged + 1)]  # with one more that has rows
    found = np.where(case.judged[:, None], *needed)
    return np.asarray(np.where(np.isfinite(tolerances), found, 0.0).max(axis=1))


def _status(carries: bool, smallest: float) -> str:
    if carries:
        return CARRIES
    return LARGER if smallest < USEFUL else NOTHING


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


# --- what merging and leaving out would do


def _merging(case: _Case, solution: Solution) -> Merging:
    """Bundle the clients that cannot carry their tolerance, least able first, each bundle just large enough."""
    names, able = solution.rows.clients.names, np.flatnonzero(case.carries & case.required)
    worst = np.nan_to_num(case.smallest.max(axis=1), nan=np.inf)
    order = np.flatnonzero(case.missing)
    order = order[np.argsort(-worst[order], kind="stable")].tolist()
    helpers = able[np.argsort(-worst[able], kind="stable")].tolist()
    # Fewer bundles leave each more of the error; the most there can be are those that suffice with the largest part.
    bundles = _bundles(case, order, helpers, able.size + 1)
    bundles = _bundles(case, order, helpers, able.size + len(bundles))
    number = np.full(len(names), -1)
    for place, bundle in enumerate(bundles):
        number[bundle] = place
    within = number >= 0
    others = int((case.judged & ~within).sum())
    merged = case.counted.at(within).merged(number[within], len(bundles))
    smallest = merged.smallest(case.method, case.error / case.together(others + len(bundles)))
    tolerances = np.full_like(smallest, np.inf)
    np.minimum.at(tolerances, number[within], case.tolerances[within])
    return Merging(
        tuple(tuple(names[c] for c in bundle) for bundle in bundles),
        int(_carried(smallest, tolerances).sum()),
        _finite(smallest.max()),
    )


def _bundles(case: _Case, order: list[int], helpers: list[int], clients: int) -> list[list[int]]:
    """Clients one after the other into bundles that have the rows needed, where so many make promises together.

    Those left over join the last bundle. Where all together are too few, clients that can carry theirs join, least able
    first.
    """
    needs, bundles = case.needs(clients), []
    while order and (enough := _enough(case, needs, order)):
        bundles.append(order[:enough])
        order = order[enough:]
    if order and bundles:
        bundles[-1] += order
    elif order:
        order = [*order, *helpers]
        bundles.append(order[: _enough(case, needs, order)])
    return bundles


def _enough(case: _Case, needs: Needs, order: list[int]) -> int | None:
    """How many clients, two at least, have the rows needed together; None: not even all."""
    size = 1
    while size < len(order):
        size = min(4 * size, len(order))
        some = np.array(order[:size])
        rows, tolerances = case.counted.rows[some], np.minimum.accumulate(case.tolerances[some])
        accepted = np.cumsum(rows.sum(axis=2) * case.counted.common[some], axis=0)
        rows = np.cumsum(rows, axis=0)
        needed = needs.at(np.clip(accepted / np.maximum(rows.sum(axis=2), 1e-9), *RATES), tolerances)
        enough = ((rows.min(axis=2) >= needed) | np.isinf(tolerances)).all(axis=1)
        if enough[1:].any():
            return int(enough[1:].argmax()) + 2
    return None


def _leaving_out(case: _Case, solution: Solution) -> LeavingOut:
    """Leave clients without a local tolerance, least able first, until the others can carry theirs."""
    rows, problem = solution.rows, solution.problem
    more = _carried_then(case)
    gone = np.flatnonzero(case.missing & ~more)
    tolerance = problem.local_tolerance.copy()
    tolerance[gone] = np.inf
    names = rows.clients.names
    return LeavingOut(
        tuple(names[c] for c in gone.tolist()),
        int(np.isin(rows.clients.codes, gone).sum()),
        tuple(names[c] for c in np.flatnonzero(more).tolist()),
        _best(replace(problem, local_tolerance=tolerance)),
        _best_now(solution),
    )


def _carried_then(case: _Case) -> Booleans:
    """Which clients can carry their tolerance only once those less able promise nothing, (clients,)."""
    able = int((case.carries & case.required).sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        lack = np.max(case.smallest / case.tolerances, axis=1)  # NaN comes last
    near = np.flatnonzero(case.missing & case.counted.known)
    near = near[np.argsort(lack[near], kind="stable")]

    def can(clients: Indices, together: int) -> Booleans:
        smallest = case.counted.at(clients).smallest(case.method, case.error / case.together(able + together))
        return _carried(smallest, case.tolerances[clients])

    few, most = 0, near.size
    while few < most:  # the last of them is the least able
        middle = (few + most + 1) // 2
        few, most = (middle, most) if can(near[middle - 1 : middle], middle)[0] else (few, middle - 1)
    found = np.zeros(case.missing.size, dtype=bool)
    found[near[:few][can(near[:few], few)]] = True
    return found


def _best(problem: Problem) -> float | None:
    """The best expected accuracy on the calibration rows, or the least cost; None where no solver finds it."""
    for solve in (solve_exact, solve_joint):
        if (found := solve(problem)) is not None:
            return problem.reported(problem.accuracy(found.u, found.v))
    return None


def _best_now(solution: Solution) -> float:
    """The same within all that is required: that of the policy, unless it gives some for promises."""
    certificate = solution.certificate
    best = None if certificate.holds else _best(solution.problem)
    return certificate.primal if best is None else best


def _much(problem: Problem, now: float, without: float) -> bool:
    """Whether a requirement costs much, given what is best with it and without."""
    lost = without - now if problem.costs is None else now - without
    return lost >= _MUCH * problem.cost_unit


# --- requirements that rest on few rows


def _few_rows(solution: Solution) -> FewRows | None:
    """Cells of few rows whose comparison costs much; None where there are none."""
    problem, prices = solution.problem, solution.certificate.prices
    count = rows_counted(solution.rows, solution.requirements)
    gone = (count.sum(axis=0) > 0) & (count.sum(axis=0) < FEW_ROWS)  # groups of few rows over all clients
    here = (count > 0) & (count < FEW_ROWS) & (prices.local.sum(axis=1) > 0)[:, None]
    few = here | (gone & (prices.global_.sum() > 0) & (count > 0))
    if not few.any():
        return None
    now, without = _best_now(solution), _best(_leaving_cells(problem, few | gone))
    if without is None or not _much(problem, now, without):
        return None
    rows = problem.cells.rows.reshape(problem.shape)
    dearest = sorted(_dearest(solution, few, gone, rows), key=lambda cell: -abs(cell[3] - now))
    kept = tuple(cell for cell in dearest if _much(problem, now, cell[3]))
    return FewRows(int(few.sum()), int(rows[few].sum()), without, now, kept)


def _dearest(
    solution: Solution, few: Booleans, gone: Booleans, rows: Indices
) -> Iterator[tuple[Label | None, Label, int, float]]:
    """The cells of the highest prices, a group of few rows as one, with what is best without each."""
    problem, clients, groups = solution.problem, solution.policy.clients, solution.policy.groups
    price = solution.certificate.prices.local.sum(axis=1)
    units: list[tuple[Label | None, int, Booleans]] = []
    for a in np.flatnonzero(gone & few.any(axis=0)).tolist():
        units.append((None, a, np.broadcast_to(np.arange(len(groups)) == a, problem.shape)))
    cells = np.argwhere(few & ~gone)
    for c, a in cells[np.argsort(-price[cells[:, 0]], kind="stable")].tolist():
        if len(units) < _SOLVED:
            one = np.zeros(problem.shape, dtype=bool)
            one[c, a] = True
            units.append((clients[c], a, one))
    for client, a, which in units[:_SOLVED]:
        if (best := _best(_leaving_cells(problem, which))) is not None:
            yield client, groups[a], int(rows[which].sum()), best


def _leaving_cells(problem: Problem, cells: Booleans) -> Problem:
    return replace(problem, left_out=cells)


# --- in words


def _sentences(advice: Advice) -> Iterator[str]:
    if advice.reason:
        yield f"Nothing can be promised for new rows: {advice.reason}."
    elif len(advice.clients) == 1:
        yield from _of_one(advice, advice.clients[0])
    elif advice.tolerance is None:
        yield from _of_none_required(advice)
    else:
        yield from _of_many(advice)
    if advice.few_rows is not None:
        yield from _of_few_rows(advice.few_rows, advice)


def _way(advice: Advice) -> str:
    """How promises would be made, and how often that succeeds where it is left to chance."""
    return f"{advice.method}{f', in about {100 * POWER:g} of 100 such fits' if advice.method == HELD_OUT else ''}"


def _expected(advice: Advice) -> str:
    what = "cost per person" if advice.measure == "cost" else "accuracy"
    return f"expected {what} on the calibration rows{added_to_rows(advice.counted)}"


def _of_global(advice: Advice) -> Iterator[str]:
    """What can be promised over all clients."""
    found = advice.global_
    if found is None or found.required is None:
        return
    if found.smallest is None:
        yield f"Over all clients nothing can be promised: there are no rows of {_group_words(found)}."
    elif found.status == CARRIES:
        lack = ", though this fit could not" if found.certified is False else ""
        yield f"Over all clients {found.required:g} can be promised{lack}; smallest possible: {found.smallest:.4f}."
    else:
        smallest = f"the smallest possible is {found.smallest:.4f}" if found.smallest < 1.0 else "nor any below 1"
        yield f"Over all clients {found.required:g} cannot be promised: {smallest}."
        yield _takes(f"{found.required:g}", found, advice)


def _sure(advice: Advice) -> str:
    return f"for new rows, {with_confidence(advice.confidence)}"


def _of_one(advice: Advice, only: ClientAdvice) -> Iterator[str]:
    """All rows are one client."""
    sure = f"{_sure(advice)} ({_way(advice)})"
    if only.smallest is None:
        yield f"The calibration rows can carry no tolerance {sure}: there are no rows of {_group_words(only)}."
    elif only.status == CARRIES:
        smallest = f"the smallest possible is {only.smallest:.4f}"
        yield f"The calibration rows can carry the tolerance of {only.required:g} {sure}; {smallest}."
    elif only.required is None:
        yield f"No gap has a tolerance; the smallest possible {sure} is {only.smallest:.4f}."
    else:
        smallest = f"the smallest possible is {only.smallest:.4f}" if only.smallest < 1.0 else "nor any below 1"
        yield f"The calibration rows cannot carry the tolerance of {only.required:g} {sure}: {smallest}."
        yield _takes(f"{only.required:g}", only, advice)


def _takes(tolerance: str, one: ClientAdvice, advice: Advice) -> str:
    if one.rows_needed is None:
        return f"No number of rows would suffice for {tolerance}."
    has = f"there {'is' if one.group_rows == 1 else 'are'} {one.group_rows:,} of {_group_words(one)}"
    return f"For {tolerance} it takes about {one.rows_needed:,} rows{_of_weight(advice)} of every group; {has}."


def _of_weight(advice: Advice) -> str:
    return " of equal weight" if advice.weighted else ""


def _group_words(client: ClientAdvice) -> str:
    return f"group {client.group!r}" + ("" if client.label is None else f" with label {client.label}")


def _of_none_required(advice: Advice) -> Iterator[str]:
    """No local tolerance is required: what could be."""
    able = advice.with_status(LARGER)
    could = f"could carry one below {USEFUL:g} {_sure(advice)} together ({_way(advice)})"
    yield "No gap inside clients has a tolerance, so nothing is promised of gaps there."
    yield f"{_how_many(able, advice)} {could}{f': {_tolerances(able)}' if able else ''}."
    yield from _too_few(advice, USEFUL)
    yield from _of_global(advice)


def _of_many(advice: Advice) -> Iterator[str]:
    """Who can carry what is required, who a larger tolerance, who none, and what would help."""
    assert advice.tolerance is not None
    able, larger = advice.with_status(CARRIES), advice.with_status(LARGER)
    free = [each for each in advice.clients if each.required is None]
    several = len({each.required for each in advice.clients} - {None}) > 1
    their = (
        f"their local tolerances (most {advice.tolerance:g})"
        if several
        else f"a local tolerance of {advice.tolerance:g}"
    )
    each_could = f"; smallest possible: {_tolerances(able)}" if able else ""
    yield f"{_how_many(able, advice)} can carry {their} {_sure(advice)} together ({_way(advice)}){each_could}."
    if larger:
        yield f"{_how_many(larger, advice)} can carry a larger one: {_tolerances(larger)}."
    if refused := sum(each.certified is False for each in able):
        yield f"This fit could not certify {refused:,} of these."
    yield from _too_few(advice, advice.tolerance)
    yield from _of_global(advice)
    if free:
        yield f"Nothing is required inside {_count(free, len(advice.clients))} ({_share(free, advice)} of the rows)."
    if len(able) + len(free) < len(advice.clients):
        yield from _what_would_help(advice)


def _too_few(advice: Advice, tolerance: float) -> Iterator[str]:
    """Those of too few rows, and how many rows it takes."""
    unable, larger = advice.with_status(NOTHING), advice.with_status(LARGER)
    if unable:
        missing = [each for each in unable if each.smallest is None]
        why = f"too few rows of some group for any tolerance below {USEFUL:g}"
        none = f"; {len(missing):,} of these {_have(missing)} no row of some group" if missing else ""
        yield f"{_how_many(unable, advice)} {_have(unable)} {why}{_names(unable)}{none}."
    short = unable if advice.tolerance is None else (*larger, *unable)
    needed = [each.rows_needed for each in short if each.rows_needed is not None]
    if needed:
        has = _between([each.group_rows for each in short])
        of_labels = " of the label concerned" if any(each.label is not None for each in short) else ""
        takes = (
            f"For {tolerance:g} it takes about {_between(needed)} rows{_of_weight(advice)} of every group{of_labels}"
        )
        yield f"{takes}; their smallest groups have {has}."


def _what_would_help(advice: Advice) -> Iterator[str]:
    """What pooling, merging and leaving out would do."""
    used = "in use" if advice.pooling.counted != "none" else "not in use"
    yield f"Pooling ({used}) can narrow the true gaps of small clients, but promises rest on a client's own rows alone."
    if advice.merging is not None:
        yield _of_merging(advice.merging, len(advice.with_status(LARGER)) + len(advice.with_status(NOTHING)))
    if advice.leaving_out is not None:
        yield _of_leaving_out(advice.leaving_out, advice)


def _of_merging(found: Merging, unable: int) -> str:
    sizes = [len(bundle) for bundle in found.bundles]
    those, helpers = "it" if unable == 1 else "they", sum(sizes) - unable
    into = "one client" if len(sizes) == 1 else f"{len(sizes):,} clients of {min(sizes)} to {max(sizes)} each"
    merged = f"erged into {into}" + (f" with {helpers:,} that can" if helpers > 0 else "")
    if found.carried == len(sizes):
        return f"M{merged}, {those} could carry it, but then nothing is promised inside each of the clients merged."
    if found.tolerance is None:
        return f"Even m{merged}, {those} would have no rows of some group."
    return f"Even m{merged}, {those} could carry no tolerance below {found.tolerance:.4f}."


def _of_leaving_out(found: LeavingOut, advice: Advice) -> str:
    share = f"{found.rows / max(sum(each.rows for each in advice.clients), 1):.0%} of the rows"
    those = "it" if len(found.clients) == 1 else "them"
    out = f"{len(found.clients):,} of them ({share})" if found.more else f"{those} ({share})"
    then = [f"let {len(found.more) or 'no'} more carry it"] if found.more or advice.with_status(CARRIES) else []
    if found.accuracy is not None and f"{found.accuracy:.4f}" == f"{found.accuracy_now:.4f}":
        then.append(f"hardly change {_expected(advice)} ({found.accuracy_now:.4f})")
    elif found.accuracy is not None:
        then.append(f"take {_expected(advice)} from {found.accuracy_now:.4f} to {found.accuracy:.4f}")
    return f"Leaving {out} without a local tolerance would {' and '.join(then) or 'let no more carry it'}."


def _of_few_rows(found: FewRows, advice: Advice) -> Iterator[str]:
    where = " at clients" if len(advice.clients) > 1 else ""
    cost = f"{_expected(advice)} from {found.accuracy:.4f} to {found.accuracy_now:.4f}"
    if found.cells == len(found.dearest):
        named = listed([_cell_words(*cell) for cell in found.dearest], len(found.dearest))
        its, them = ("its", "it") if found.cells == 1 else ("their", "them")
        subject = named[:1].upper() + named[1:]
    else:
        subject, its, them = f"{found.cells:,} groups{where} ({found.rows:,} rows in all)", "their", "them"
    noise = f"fewer than {FEW_ROWS} rows that count, so {its} rates are mostly noise"
    helps = f"leave {them} out of the fit, or join {them} with other groups"
    yield f"{subject}: {noise}, yet comparing {them} takes {cost}; {helps}."
    if found.dearest and found.cells > len(found.dearest):
        named = "; ".join(f"{_cell_words(*cell)} {cell[3]:.4f}" for cell in found.dearest)
        yield f"Without one of them alone it could be: {named}."


def _cell_words(client: Label | None, group: Label, rows: int, _best: float) -> str:
    return (
        f"group {group!r}{'' if client is None else f' at client {client!r}'} ({rows:,} row{'' if rows == 1 else 's'})"
    )


def _how_many(some: Sequence[ClientAdvice], advice: Advice) -> str:
    """How many of the clients of which something is required, and their share of all rows."""
    free = 0 if advice.tolerance is None else sum(each.required is None for each in advice.clients)
    total = len(advice.clients) - free
    if len(some) == total:
        return "Both clients" if total == 2 else f"All {total:,} clients" if total > 1 else "The one client"
    share = f" ({_share(some, advice)} of the rows)" if some else ""
    return f"{_count(some, total)}{share}"


def _share(some: Sequence[ClientAdvice], advice: Advice) -> str:
    return f"{sum(each.rows for each in some) / max(sum(each.rows for each in advice.clients), 1):.0%}"


def _count(some: Sequence[ClientAdvice], total: int) -> str:
    return f"{len(some) or 'None'} of {total:,} clients" if total else ""


def _have(some: Sequence[ClientAdvice]) -> str:
    return "has" if len(some) == 1 else "have"


def _names(some: Sequence[ClientAdvice]) -> str:
    """Their names, where they are few."""
    return f" (client {', '.join(repr(each.client) for each in some)})" if len(some) <= _NAMED else ""


def _tolerances(some: Sequence[ClientAdvice]) -> str:
    """The smallest tolerances of some clients: by name where they are few, else from where to where."""
    found = sorted(((each.smallest or 0.0, each.client) for each in some), key=lambda pair: pair[0])
    if len(found) <= _NAMED:
        return ", ".join(f"{smallest:.4f} at client {client!r}" for smallest, client in found)
    numbers = [smallest for smallest, _ in found]
    return f"{numbers[0]:.4f} to {numbers[-1]:.4f}, half of them up to {float(np.median(numbers)):.4f}"


def _between(numbers: Sequence[int]) -> str:
    """From the smallest to the largest, and the middle one where there are many."""
    low, high = min(numbers), max(numbers)
    if low == high:
        return f"{low:,}"
    half = f" (half of them up to {np.median(numbers):,.0f})" if len(numbers) > _NAMED else ""
    return f"{low:,} to {high:,}{half}"
