"""Records over their seeds: means with intervals, and methods compared on the same splits.

The splits of a data set overlap, so figures of different seeds vary less than those of fresh data would. The variance
of a mean is therefore enlarged by the share of rows tested to rows trained on (Nadeau and Bengio, 2003), in intervals
and in paired tests alike. Rows that calibrate a rule or choose a setting count as trained on, so the share is the same
for all methods: 30 to 70.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from scipy.stats import t as student

from logofair_reproduction.experiments.experiment import METHODS, load_experiment

__all__ = ["Line", "Summary", "claimed_figures", "difference", "doubtful_figures", "lines"]

_TESTED = 0.3 / 0.7  # rows tested on, for every row trained or calibrated on
_CONFIDENCE = 0.95
# What one line of a table is about; its records differ in their seeds alone.
_PLACE = (
    "experiment",
    "data",
    "sensitive",
    "limit",
    "clients",
    "alpha",
    "scheme",
    "notion",
    "method",
    "local_tolerance",
    "global_tolerance",
    "level",
    "budget",
    "solver_budget",
)


@dataclass(frozen=True)
class Summary:
    """A figure over the seeds: its mean, the 95 % interval of the mean, and in how many of the runs it is defined.

    ``low`` and ``high`` are None with fewer than two runs; ``p`` is the chance of a mean so far from 0 by chance alone;
    ``alike`` in how many of the runs the figure has the sign of the mean.
    """

    mean: float
    low: float | None
    high: float | None
    runs: int
    of: int
    p: float | None = None
    alike: int = 0

    @classmethod
    def of_values(cls, values: Sequence[float | None]) -> Summary | None:
        """Summarise one figure of every seed; None where it is defined in none.

        Examples
        --------
        >>> found = Summary.of_values([0.80, 0.82, None])
        >>> round(found.mean, 3), round(found.low, 3), found.runs, found.of
        (0.81, 0.637, 2, 3)
        """
        known = np.array([value for value in values if value is not None], dtype=np.float64)
        if not known.size:
            return None
        mean = float(known.mean())
        alike = int(np.sum(np.sign(known) == np.sign(mean)))
        if known.size < 2:
            return cls(mean, None, None, 1, len(values), alike=alike)
        error = float(known.std(ddof=1) * np.sqrt(1.0 / known.size + _TESTED))
        reach = error * _errors_reached(known.size - 1)
        p = 1.0 if error == 0.0 and mean == 0.0 else 0.0 if error == 0.0 else _two_sided(mean / error, known.size - 1)
        return cls(mean, mean - reach, mean + reach, known.size, len(values), p, alike)

    def among(self, comparisons: int) -> Summary:
        """The same with a wider interval, so that those of all comparisons hold at once at 95 % (Bonferroni).

        Examples
        --------
        >>> found = Summary.of_values([0.01, 0.02, 0.03]).among(10)
        >>> round(found.low, 3), round(found.high, 3)
        (-0.103, 0.143)
        """
        if self.high is None:
            return self
        reach = (self.high - self.mean) * _errors_reached(self.runs - 1, comparisons) / _errors_reached(self.runs - 1)
        return replace(self, low=self.mean - reach, high=self.mean + reach)

    @property
    def undefined(self) -> str:
        """In how many seeds it is defined, in words; empty where it is in all."""
        return f"defined in {self.runs} of {self.of} seeds" if self.runs < self.of else ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"value": self.mean, "low": self.low, "high": self.high, "runs": self.runs, "of": self.of}


def _errors_reached(freedom: int, comparisons: int = 1) -> float:
    """How many standard errors an interval reaches to each side of its mean."""
    return float(student.isf((1.0 - _CONFIDENCE) / 2.0 / comparisons, freedom))


def _two_sided(statistic: float, freedom: int) -> float:
    return float(2.0 * student.sf(abs(statistic), freedom))


@dataclass(frozen=True, eq=False)
class Line:
    """One line of a table: a method at one place of an experiment, over all its seeds.

    ``values`` are the figures of every seed, by figure and seed; ``figures`` their summaries. ``settings`` counts how
    often each setting was chosen.
    """

    place: Mapping[str, Any]
    values: Mapping[str, Mapping[int, float | None]]
    settings: Mapping[str, int]

    @property
    def title(self) -> str:
        """What tables call the method."""
        return METHODS[self.place["method"]].title

    def figure(self, name: str) -> Summary | None:
        """A figure over the seeds; None where it is nowhere defined. A gap is nowhere below 0, nor is its interval."""
        found = Summary.of_values(list(self.values.get(name, {}).values()))
        if found is None or found.low is None or "gap" not in name:
            return found
        return replace(found, low=max(found.low, 0.0))

    @property
    def claimed(self) -> Mapping[str, float] | None:
        """The paper's figures for this line: accuracy, local_gap and global_gap."""
        return claimed_figures(self.place)

    @property
    def doubtful(self) -> Mapping[str, str]:
        """Those of the paper's figures that are no targets, each with the reason."""
        return doubtful_figures(self.place)


def lines(records: Iterable[Mapping[str, Any]]) -> list[Line]:
    """Records by what they are about, in their order; every line holds the figures of all its seeds.

    Where settings were changed between two runs (``plan``), the seeds of the later one alone: no mean mixes the two.

    Examples
    --------
    >>> place = dict.fromkeys(_PLACE) | {"experiment": "comparison_dp", "data": "adult", "method": "fedavg"}
    >>> records = [place | {"random_state": s, "figures": {"accuracy": 0.8 + s / 100}, "setting": {}} for s in range(3)]
    >>> [line.figure("accuracy").mean for line in lines(records)]
    [0.81]
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault(json.dumps([record.get(name) for name in _PLACE]), []).append(record)
    return [_line(part) for part in found.values()]


def _line(every: Sequence[Mapping[str, Any]]) -> Line:
    same = [record for record in every if record.get("plan") == every[-1].get("plan")]
    records = sorted(same, key=lambda record: record["random_state"])
    names = dict.fromkeys(name for record in records for name in record["figures"])
    values = {name: {record["random_state"]: record["figures"].get(name) for record in records} for name in names}
    settings = Counter(json.dumps(record.get("setting", {})) for record in records)
    return Line({name: records[0].get(name) for name in _PLACE}, values, dict(settings.most_common()))


def difference(line: Line, other: Line, figure: str, minus: str | None = None) -> Summary | None:
    """A figure of one line less that of another (or another figure of it), split by split; None without common splits.

    Examples
    --------
    >>> place = dict.fromkeys(_PLACE)
    >>> one, two = (Line(place, {"accuracy": {0: a, 1: a + 0.01}}, {}) for a in (0.83, 0.81))
    >>> round(difference(one, two, "accuracy").mean, 3)
    0.02
    """
    mine, theirs = line.values.get(figure, {}), other.values.get(minus or figure, {})
    both = [(mine[split], theirs[split]) for split in mine if split in theirs]
    return Summary.of_values([None if a is None or b is None else a - b for a, b in both])


@cache
def _paper() -> Mapping[str, Any]:
    text = files("logofair_reproduction.experiments").joinpath("paper.json").read_text("utf-8")
    found: Mapping[str, Any] = json.loads(text)
    return found


@cache
def _table(experiment: str) -> str:
    """The paper's table that has figures of an experiment; empty without one."""
    return load_experiment(experiment)[0].paper


def claimed_figures(place: Mapping[str, Any]) -> Mapping[str, float] | None:
    """What the paper reports at a place of a table; None where it reports nothing.

    Examples
    --------
    >>> place = {"experiment": "comparison_dp", "data": "adult", "alpha": 0.5, "method": "fedavg"}
    >>> claimed_figures(place)
    {'accuracy': 0.8381, 'local_gap': 0.1922, 'global_gap': 0.1759}
    """
    row = _paper_row(place)
    return None if row is None else {ours: row[theirs] for ours, theirs in _FIGURES.items()}


def _paper_row(place: Mapping[str, Any]) -> Mapping[str, Any] | None:
    named = METHODS[place["method"]].paper
    for row in _paper().get(_table(place["experiment"]), ()) if named else ():
        at = (("data", "dataset"), ("alpha", "alpha")) if "method" in row else _TOLERANCES
        same = all(place.get(ours) == row[theirs] for ours, theirs in at)
        if same and row.get("method", "LoGoFair_l&g") == named:
            return row  # type: ignore[no-any-return]
    return None


def doubtful_figures(place: Mapping[str, Any]) -> Mapping[str, str]:
    """Which of the paper's figures at a place cannot be measurements, and why: they repeat where data or notion differ.

    Two rules: the columns of two data sets differ by the very same amount in a third of a table's rows or more; or a
    method's figures on a data set are the same for both notions in two cells or more. Accuracy without any requirement
    is the same for both notions, and no sign of anything.

    Examples
    --------
    >>> place = {"experiment": "sensitivity_dp", "data": "celeba", "method": "algorithm1_lg"}
    >>> doubtful_figures(place | {"local_tolerance": 0.0, "global_tolerance": 0.04})
    {'accuracy': "differs from enem's by 0.1600 in 6 of 9 rows"}
    """
    row = _paper_row(place)
    if row is None:
        return {}
    table = _table(place["experiment"])
    reasons = {name: _repeated(table, row, name) or _same_for_both(table, row, name) for name in _FIGURES.values()}
    return {ours: reason for ours, theirs in _FIGURES.items() if (reason := reasons[theirs])}


def _where(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which row of a table it is, whatever the data set."""
    return tuple(row.get(name) for name in ("method", "alpha", "delta_local", "delta_global"))


def _repeated(table: str, row: Mapping[str, Any], figure: str) -> str | None:
    """Whether another data set's column differs by the same amount as here in a third of the rows."""
    columns: dict[str, dict[tuple[Any, ...], float]] = {}
    for each in _paper()[table]:
        columns.setdefault(each["dataset"], {})[_where(each)] = each[figure]
    mine = columns.pop(row["dataset"])
    for other, theirs in columns.items():
        apart = {at: round(mine[at] - theirs[at], 4) for at in mine}
        same = sum(value == apart[_where(row)] for value in apart.values())
        if 3 * same >= len(apart):
            amount = abs(apart[_where(row)])
            how = f"differs from {other}'s by {amount:.4f}" if amount else f"equals {other}'s"
            return f"{how} in {same} of {len(apart)} rows"
    return None


def _same_for_both(table: str, row: Mapping[str, Any], figure: str) -> str | None:
    """Whether the figure is the same for the other notion, and others of this method and data set are too."""
    other = table.replace("_dp", "_eo") if table.endswith("_dp") else table.replace("_eo", "_dp")
    theirs = {(_where(each), each["dataset"]): each for each in _paper()[other]}
    repeated = [
        (_where(each), name)
        for each in _paper()[table]
        if each["dataset"] == row["dataset"] and each.get("method") == row.get("method")
        for name in _FIGURES.values()
        if each[name] == theirs[_where(each), row["dataset"]][name]
        and not (each.get("method") == "FedAvg" and name == "accuracy")
    ]
    if len(repeated) < 2 or (_where(row), figure) not in repeated:
        return None
    return f"is the same for both notions, as are {len(repeated) - 1} more of these figures"


_FIGURES = {"accuracy": "accuracy", "local_gap": "local", "global_gap": "global"}
_TOLERANCES = (("data", "dataset"), ("local_tolerance", "delta_local"), ("global_tolerance", "delta_global"))
