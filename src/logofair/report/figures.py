"""What a report shows, measured once: rates and gaps before and after, and on how many rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from logofair.auditing.measure import FEW_ROWS, Side, Tally, side_of, tally_of
from logofair.columns.checks import Floats, Label, binary, probabilities, same_length, weights
from logofair.columns.labels import Codes, encode
from logofair.columns.segments import Booleans, Indices
from logofair.errors import InputError
from logofair.fitting.prepare import CalibrationRows
from logofair.fitting.solution import Solution
from logofair.notions import Rate
from logofair.policy.policy import Policy
from logofair.requirements import Requirement, Requirements

__all__ = ["BeforeAfter", "NewRows", "RowsMeasured", "compared_rates", "measure_calibration", "measure_new"]

# Half the width of a 95% interval, in standard errors.
_NORMAL = 1.96


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
    """Rates and gaps of the same rows before (score at least 1/2) and after (the policy).

    ``before`` and ``after`` hold ``values[rate, place, group]`` and ``gaps[rate, place]``, NaN where undefined;
    ``tolerance[rate, place]`` is infinite where nothing was promised.
    """

    before: Side
    after: Side
    tolerance: Floats

    @cached_property
    def rows(self) -> Indices:
        """Rows each rate rests on, (rates, places, groups)."""
        tally = self.after.tally.rows
        counts = [
            sum(tally[..., label] * bool(rate.weight(float(label)) > 0) for label in (0, 1)) for rate in self.rates
        ]
        return np.asarray(counts, dtype=np.int64)

    @cached_property
    def fewest(self) -> Indices:
        """Rows of the smallest group, of those that have any at a place, whether they count or not, (rates, places)."""
        present = self.after.tally.rows.sum(axis=2) > 0
        least = np.where(present, self.rows, np.iinfo(np.int64).max).min(axis=2)
        return np.where(present.any(axis=1), least, 0)

    @property
    def few(self) -> Booleans:
        """Where a gap rests on fewer rows than it takes to tell it from noise, (rates, places)."""
        return np.asarray(self.fewest < FEW_ROWS)

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The rates compared."""
        return self.after.rates

    @cached_property
    def accuracies(self) -> tuple[Floats, Floats]:
        """Share of right decisions at each place, before and after."""
        return self.before.tally.accuracy(), self.after.tally.accuracy()

    @cached_property
    def interval(self) -> tuple[Floats, Floats]:
        """Where chance leaves each gap after, by itself: a 95% interval, each end (rates, places)."""
        return self.bounds(_NORMAL)

    def bounds(self, errors: float) -> tuple[Floats, Floats]:
        """Each gap after, less and plus so many standard errors between its two extreme groups, (rates, places).

        By Agresti and Caffo (2000), so that it stands with few rows too; NaN where a rate is no share of rows. The
        largest of many groups' gaps errs upwards as well, which no such interval covers.
        """
        side, rows = self.after, self.rows.astype(np.float64)
        centre = (side.values * rows + 1.0) / (rows + 2.0)
        parts = np.stack([centre, centre * (1.0 - centre) / (rows + 2.0)])
        high, low = (np.take_along_axis(parts, at[None, ..., None], 3)[..., 0] for at in (side.highest, side.lowest))
        usable = np.array([_is_share(rate) for rate in self.rates])[:, None] & ~np.isnan(side.gaps)
        middle, half = high[0] - low[0], errors * np.sqrt(np.where(usable, high[1] + low[1], 0.0))
        return (
            np.where(usable, np.clip(middle - half, 0.0, side.gaps), np.nan),
            np.where(usable, np.clip(middle + half, side.gaps, 1.0), np.nan),
        )


def _is_share(rate: Rate) -> bool:
    """Whether a rate is the share of some rows that is accepted."""
    lines = [(float(rate.moment(x)), float(rate.weight(x))) for x in (0.0, 1.0)]
    return all(top == bottom and top in (0.0, 1.0) for top, bottom in lines)


@dataclass(frozen=True, eq=False)
class RowsMeasured:
    """One set of rows before and after: inside each client (``local``) and over all of them (``overall``).

    ``with_labels`` is False where there are no labels, and chances count in their place.
    """

    title: str
    size: int
    with_labels: bool
    local: BeforeAfter
    overall: BeforeAfter

    @property
    def clients(self) -> tuple[Label, ...]:
        """The clients, in the order of the local places."""
        return self.local.after.clients

    @property
    def accuracy(self) -> tuple[float, float]:
        """Share of right decisions before and after."""
        before, after = self.overall.accuracies
        return float(before[0]), float(after[0])


def measure_calibration(solution: Solution) -> RowsMeasured:
    """Measure the calibration rows of a solution: with labels, or with chances where there are none.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], [1, 1, 0, 0], groups=["a", "a", "b", "b"], calibration="none")
    >>> found = measure_calibration(solution)
    >>> found.overall.before.gaps.tolist(), found.overall.after.gaps.round(2).tolist()
    ([[1.0]], [[0.02]])
    """
    return _measured("Calibration rows", solution, solution.rows)


def measure_new(solution: Solution, new_rows: NewRows) -> RowsMeasured:
    """Measure rows the policy was not made from.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], [1, 1, 0, 0], groups=["a", "a", "b", "b"], calibration="none")
    >>> measure_new(solution, NewRows([0.95, 0.1], [1, 1], groups=["a", "b"])).accuracy
    (0.5, 0.5)
    """
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
    return Codes((None,), np.zeros(n, dtype=np.int32)) if clients is None else encode(clients, "clients")


def _measured(title: str, solution: Solution, rows: CalibrationRows) -> RowsMeasured:
    """Both sides before and after."""
    requirements, policy = solution.requirements, solution.policy
    names = rows.clients.labels if policy.has_clients else None
    after = policy.probabilities(rows.scores, groups=rows.groups.labels, clients=names, on_unknown="merged")
    tallies = [_tally(chance, rows) for chance in ((rows.scores >= 0.5).astype(np.float64), after)]
    local, global_ = requirements.local or requirements.global_, requirements.global_ or requirements.local
    inside = [side_of(compared_rates(local), rows.groups.names, rows.clients.names, tally) for tally in tallies]
    across = [side_of(compared_rates(global_), rows.groups.names, (None,), tally.merged()) for tally in tallies]
    limits = _local_limits(requirements, policy.clients, rows.clients.names)
    overall = np.array([_smallest(requirements.global_, rate) for rate in compared_rates(global_)])[:, None]
    pairs = BeforeAfter(inside[0], inside[1], limits), BeforeAfter(across[0], across[1], overall)
    return RowsMeasured(title, rows.scores.size, rows.labels is not None, *pairs)


def _local_limits(requirements: Requirements, known: tuple[Label, ...], clients: tuple[Label, ...]) -> Floats:
    """Tolerance of every local rate at each of some clients, (rates, clients); infinite for clients not known."""
    place = {name: i for i, name in enumerate(known)}
    at = np.array([place.get(name, len(known)) for name in clients])
    rates = compared_rates(requirements.local or requirements.global_)
    lines = [[k for k, r in enumerate(requirements.local) if r.rate == rate] for rate in rates]
    by_rate = [requirements.tolerances[:, k].min(axis=1, initial=np.inf) for k in lines]
    return np.array([np.append(column, np.inf)[at] for column in by_rate])


def _smallest(requirements: tuple[Requirement, ...], rate: Rate) -> float:
    bounds = [r.tolerance for r in requirements if r.rate == rate and r.tolerance is not None]
    return min(bounds, default=np.inf)


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
    return Tally(np.stack([sums(part) for part in split], -1).round().astype(np.intp), mass, accepted, labelled=True)


def compared_rates(requirements: tuple[Requirement, ...]) -> tuple[Rate, ...]:
    """Return the rates of some requirements, each once.

    Examples
    --------
    >>> from logofair.requirements import side_requirements
    >>> [rate.name for rate in compared_rates(side_requirements("equalized_odds", 0.02, "local"))]
    ['true positive rate', 'false positive rate']
    """
    return tuple(dict.fromkeys(requirement.rate for requirement in requirements))
