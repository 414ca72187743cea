"""What a report shows, measured once: the audits before and after, and the gaps that are required."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from logofair.auditing import FEW_ROWS, Audit
from logofair.auditing.measure import Side, Tally, tally_of
from logofair.columns.checks import Floats, Label, binary, probabilities, same_length, weights
from logofair.columns.labels import Codes, encode, one_client
from logofair.columns.segments import Booleans
from logofair.errors import InputError
from logofair.fitting.prepare import CalibrationRows
from logofair.fitting.solution import Solution
from logofair.notions import Rate
from logofair.policy.mixtures import evaluate
from logofair.policy.policy import Policy
from logofair.requirements import Requirement, Requirements, compared_rates

__all__ = [
    "BeforeAfter",
    "MeasuredRows",
    "NewRows",
    "RequiredGaps",
    "measure_calibration",
    "measure_new",
    "required_gaps",
]


@dataclass(frozen=True)
class NewRows:
    """Rows the policy was not made from, to measure it on: columns as for :func:`logofair.fit`.

    Parameters
    ----------
    scores, labels, groups, clients, sample_weight : array-like of shape (n,)
        ``clients`` is left out exactly where the policy has none. Clients the policy does not know take its merged
        rule.

    Examples
    --------
    >>> NewRows([0.9, 0.2], [1, 0], groups=["a", "b"]).clients is None
    True
    """

    scores: object
    labels: object
    groups: object
    clients: object = None
    sample_weight: object = None


@dataclass(frozen=True, eq=False)
class BeforeAfter:
    """One side of the same rows before (score at least 1/2) and after (the policy), as an audit measured it.

    ``tolerance[rate, place]`` is infinite where nothing was required.
    """

    before: Side
    after: Side
    tolerance: Floats

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The rates compared."""
        return self.after.rates

    @property
    def few(self) -> Booleans:
        """Where some group has fewer rows than it takes to tell a gap from noise, (rates, places)."""
        return np.asarray(self.after.smallest_rows < FEW_ROWS)

    @cached_property
    def large(self) -> BeforeAfter:
        """The same between rates that rest on :data:`~logofair.auditing.FEW_ROWS` rows or more."""
        return BeforeAfter(self.before.large, self.after.large, self.tolerance)

    @cached_property
    def accuracies(self) -> tuple[Floats, Floats]:
        """Share of right decisions at each place, before and after."""
        return self.before.tally.accuracy(), self.after.tally.accuracy()

    @cached_property
    def interval(self) -> tuple[Floats, Floats]:
        """Where chance leaves each gap after, by itself at 95%: each end (rates, places)."""
        return self.after.interval()


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """One set of rows audited before and after, beside the tolerances inside each client and over all of them.

    ``with_labels`` is False where there are no labels, and chances count in their place.
    """

    title: str
    size: int
    with_labels: bool
    local: BeforeAfter
    global_: BeforeAfter

    @property
    def clients(self) -> tuple[Label, ...]:
        """The clients, in the order of the local places."""
        return self.local.after.clients

    @property
    def accuracy(self) -> tuple[float, float]:
        """Share of right decisions before and after."""
        before, after = self.global_.accuracies
        return float(before[0]), float(after[0])


def measure_calibration(solution: Solution) -> MeasuredRows:
    """Measure the calibration rows of a solution: with labels, or with chances where there are none."""
    return _measured("Calibration rows", solution, solution.rows)


def measure_new(solution: Solution, new_rows: NewRows) -> MeasuredRows:
    """Measure rows the policy was not made from."""
    scores, labels = probabilities(new_rows.scores), binary(new_rows.labels)
    weight = weights(new_rows.sample_weight, scores.size)
    groups, clients = encode(new_rows.groups, "groups"), _clients(solution.policy, new_rows.clients, scores.size)
    same_length(scores.size, labels=labels, groups=groups, clients=clients)
    return _measured("Test rows", solution, CalibrationRows(scores, labels, groups, clients, weight))


def _clients(policy: Policy, clients: object, n: int) -> Codes:
    """The clients' column, or one client for all rows, exactly where the policy has none."""
    if (clients is None) == policy.has_clients:
        advice = "pass one per row" if policy.has_clients else "leave them out"
        raise InputError(f"new_rows: the policy has {'' if policy.has_clients else 'no '}clients; {advice}.")
    return one_client(n) if clients is None else encode(clients, "clients")


def _measured(title: str, solution: Solution, rows: CalibrationRows) -> MeasuredRows:
    """The audits before and after."""
    requirements, policy = solution.requirements, solution.policy
    names = rows.clients.labels if policy.has_clients else None
    chances = policy.probabilities(rows.scores, groups=rows.groups.labels, clients=names, on_unknown="merged")
    local = compared_rates(requirements.local or requirements.global_)
    global_ = compared_rates(requirements.global_ or requirements.local)
    before, after = (
        Audit.of(_tally(chance, rows), rows.groups.names, rows.clients.names, local, global_)
        for chance in ((rows.scores >= 0.5).astype(np.float64), chances)
    )
    local_tolerance = _local_tolerances(requirements, local, policy.clients, rows.clients.names)
    global_tolerance = np.array([_smallest(requirements.global_, rate) for rate in global_])[:, None]
    return MeasuredRows(
        title,
        rows.scores.size,
        rows.labels is not None,
        BeforeAfter(before.local, after.local, local_tolerance),
        BeforeAfter(before.global_, after.global_, global_tolerance),
    )


def _local_tolerances(
    requirements: Requirements, rates: tuple[Rate, ...], known: tuple[Label, ...], clients: tuple[Label, ...]
) -> Floats:
    """Tolerance of every local rate at each of some clients, (rates, clients); infinite for clients not known."""
    place = {name: i for i, name in enumerate(known)}
    at = np.array([place.get(name, len(known)) for name in clients])
    lines = [[k for k, r in enumerate(requirements.local) if r.rate == rate] for rate in rates]
    by_rate = [requirements.tolerances[:, k].min(axis=1, initial=np.inf) for k in lines]
    return np.array([np.append(column, np.inf)[at] for column in by_rate])


def _smallest(requirements: tuple[Requirement, ...], rate: Rate) -> float:
    tolerances = [r.tolerance for r in requirements if r.rate == rate and r.tolerance is not None]
    return min(tolerances, default=np.inf)


def _tally(chance: Floats, rows: CalibrationRows) -> Tally:
    """Count by label; without labels, a row with chance p of label 1 counts p times there and 1 - p times under 0."""
    if rows.labels is not None:
        return tally_of(chance, rows.labels, rows.weights, rows.groups, rows.clients)
    shape = (len(rows.clients.names), len(rows.groups.names))
    split, one = (1.0 - rows.eta, rows.eta), np.ones_like(chance)

    def sums(values: Floats) -> Floats:
        return np.bincount(rows.cells, values, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)

    weight = one if rows.weights is None else rows.weights
    mass, accepted = (np.stack([sums(weight * by * part) for part in split], -1) for by in (one, chance))
    return Tally.counted(np.stack([sums(part) for part in split], -1).round().astype(np.intp), mass, accepted)


@dataclass(frozen=True, eq=False)
class RequiredGaps:
    """What is required on one side, for each of its rates at each place, and what the policy does in that basis.

    ``tolerance`` is infinite where free; ``gap`` NaN where nothing is required or fewer than two groups have the rate;
    ``price`` is what one more unit of tolerance wins at most. All are (rates, places).
    """

    rates: tuple[Rate, ...]
    tolerance: Floats
    gap: Floats
    price: Floats

    def line(self, rate: Rate) -> int | None:
        """Where a rate stands, if anything is required of it."""
        return self.rates.index(rate) if rate in self.rates else None

    @property
    def required(self) -> Booleans:
        """Where something is required."""
        return np.isfinite(self.tolerance)

    @property
    def measured(self) -> Booleans:
        """Where something is required and can be measured."""
        return self.required & ~np.isnan(self.gap)


def required_gaps(solution: Solution) -> tuple[RequiredGaps, RequiredGaps]:
    """Return what is required and done inside each client and over all."""
    problem, requirements, prices = solution.problem, solution.requirements, solution.certificate.prices
    u, v = (part.reshape(problem.shape) for part in evaluate(problem.cells, solution.policy.mixtures))
    local = [r for k, r in enumerate(requirements.local) if np.isfinite(requirements.tolerances[:, k]).any()]
    global_ = [r for r in requirements.global_ if r.tolerance is not None]
    local_gaps = problem.local_gaps(u, v) / problem.local_units
    global_gaps = problem.global_gaps(u, v) / problem.global_units
    local_gaps = np.where(problem.local_counts.any(axis=1), local_gaps, np.nan)
    global_gaps = np.where(problem.global_counts.any(axis=0), global_gaps, np.nan)
    local_tolerance = problem.local_tolerance / problem.local_units
    global_tolerance = problem.global_tolerance / problem.global_units
    return (
        _tightest(local, local_tolerance.T, local_gaps.T, prices.local.T),
        _tightest(global_, global_tolerance[:, None], global_gaps[:, None], prices.global_[:, None]),
    )


def _tightest(requirements: list[Requirement], tolerance: Floats, gap: Floats, price: Floats) -> RequiredGaps:
    """One line per rate: where several notions have the same rate, the smaller tolerance and the sum of prices."""
    rates = compared_rates(requirements)
    lines = [[k for k, r in enumerate(requirements) if r.rate == rate] for rate in rates]
    shape = (len(rates), tolerance.shape[1])
    return RequiredGaps(
        rates,
        np.array([tolerance[k].min(axis=0) for k in lines]).reshape(shape),
        np.array([gap[k[0]] for k in lines]).reshape(shape),
        np.array([price[k].sum(axis=0) for k in lines]).reshape(shape),
    )
