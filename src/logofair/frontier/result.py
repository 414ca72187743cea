"""The frontier: every point of a grid of tolerances, as a table, CSV and plain values."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from logofair.frontier.grid import Tolerances
from logofair.frontier.knee import Knee, find_knee, given_away
from logofair.frontier.point import Point, named
from logofair.inputs import Floats, InputError, Label
from logofair.notions import check_tolerance

__all__ = ["Base", "Frontier"]


@dataclass(frozen=True)
class Base:
    """The unconstrained rule: its expected accuracy and its gaps, None where no two groups can be compared.

    ``local_gap`` is that of ``local_gap_client``, whose smallest group that is compared has ``local_gap_rows`` rows;
    ``global_gap_rows`` are those of the smallest group over all clients.

    Examples
    --------
    >>> Base(0.85, 0.21, "north", 12, 0.18, 4000).local_gap_client
    'north'
    """

    accuracy: float
    local_gap: float | None
    local_gap_client: Label
    local_gap_rows: int | None
    global_gap: float | None
    global_gap_rows: int | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        client = None if self.local_gap_client is None else str(self.local_gap_client)
        return vars(self) | {"local_gap_client": client}


@dataclass(frozen=True, eq=False)
class Frontier:
    """What :func:`logofair.frontier.frontier` returns.

    Attributes
    ----------
    local_tolerances, global_tolerances : tuple of float or None
        The grid, strictest first; None: not constrained.
    points : tuple of Point
        One for every pair, the global tolerance running fastest.
    base : Base
        The unconstrained rule, against which losses are counted.
    notions : (str, str)
        What is fair inside each client, and across all.
    groups, clients : tuple
        Their labels; the one client is None where there are none.
    rows, held_out_rows : int
        Rows the rules were fitted on, and rows kept back to measure on.
    basis, calibration : str
        How rows count as positives, and how scores became chances.
    chosen : (float or None, float or None) or None
        The tolerances the user has chosen, to be marked in figures.
    warnings : tuple of str
        Cells on which a promise rests on little or nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.frontier import frontier
    >>> rng = np.random.default_rng(0)
    >>> site, sex = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    >>> score = rng.beta(1 + sex, 2, 3000)
    >>> surface = frontier(score, None, groups=sex, clients=site, calibration="none",
    ...                    local_tolerances=[0.05, None], global_tolerances=[0, 0.05, None])
    >>> surface.losses.round(3).tolist()
    [[0.014, 0.01, 0.01], [0.014, 0.01, 0.0]]
    >>> surface.at(0.05, None).certificate.holds
    True
    >>> print(surface.as_csv().splitlines()[1][:12])
    0.05,0.0,0.7
    """

    local_tolerances: Tolerances
    global_tolerances: Tolerances
    points: tuple[Point, ...]
    base: Base
    notions: tuple[str, str]
    groups: tuple[Label, ...]
    clients: tuple[Label, ...]
    rows: int
    held_out_rows: int
    basis: str
    calibration: str
    chosen: tuple[float | None, float | None] | None
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        sizes = f"{len(self.local_tolerances)} x {len(self.global_tolerances)} points"
        return f"Frontier({sizes}, unconstrained accuracy={self.base.accuracy:.4f}, {self.rows:,} rows)"

    @property
    def has_clients(self) -> bool:
        """Whether there are clients, so that local and global differ."""
        return len(self.clients) > 1

    @property
    def table(self) -> list[dict[str, Any]]:
        """Every point as a record of plain values."""
        return [point.record() for point in self.points]

    @cached_property
    def accuracies(self) -> Floats:
        """Expected accuracy of every point, (local tolerances, global tolerances)."""
        return np.array([point.accuracy for point in self.points]).reshape(self._shape)

    @property
    def losses(self) -> Floats:
        """Accuracy lost against the unconstrained rule, (local tolerances, global tolerances)."""
        return np.array([point.loss for point in self.points]).reshape(self._shape)

    @cached_property
    def given_away(self) -> Floats:
        """Share of the tolerance given away at every point (see :mod:`logofair.frontier.knee`), likewise."""
        gaps = (self.base.local_gap, self.base.global_gap)
        return given_away(self.local_tolerances, self.global_tolerances, gaps)

    @cached_property
    def knee(self) -> Knee:
        """A hint at which point to look first."""
        return find_knee(self.points, self.given_away)

    def at(self, local_tolerance: float | None, global_tolerance: float | None) -> Point:
        """Return the point of the grid at two tolerances."""
        place = []
        for side, wanted, known in (
            ("local", local_tolerance, self.local_tolerances),
            ("global", global_tolerance, self.global_tolerances),
        ):
            if wanted not in known:
                listed = ", ".join(map(named, known))
                raise InputError(f"{side}_tolerance: got {wanted!r}, which is not on the grid; it has {listed}.")
            place.append(known.index(wanted))
        return self.points[place[0] * len(self.global_tolerances) + place[1]]

    def best(self, accuracy_cost: float) -> Point | None:
        """Return the strictest point that loses at most this much accuracy against the unconstrained rule.

        Strictest: the one that gives away the smallest share of the tolerance (its mean over both sides), and among
        equals the most accurate. None where every point of the grid loses more.
        """
        most = check_tolerance(accuracy_cost, "accuracy_cost")
        if most is None:
            raise InputError("accuracy_cost: got None; pass the accuracy that may be lost, such as 0.01.")
        # A certificate proves accuracy to 1e-6: a loss of less is none.
        affordable = [i for i, point in enumerate(self.points) if point.loss <= most + 1e-6]
        given = self.given_away.ravel()
        found = min(affordable, key=lambda i: (given[i], self.points[i].loss), default=None)
        return None if found is None else self.points[found]

    def as_csv(self) -> str:
        """Return the table as CSV; a tolerance that is not constrained is "none", an undefined figure empty."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.table[0]), lineterminator="\n")
        writer.writeheader()
        for record in self.table:
            sides = {side: record[side] for side in ("local_tolerance", "global_tolerance")}
            free = {side: "none" for side, tolerance in sides.items() if tolerance is None}
            writer.writerow(record | free)
        return text.getvalue()

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        chosen = None if self.chosen is None else dict(zip(("local", "global"), self.chosen, strict=True))
        return {
            "notion": dict(zip(("local", "global"), self.notions, strict=True)),
            "rows": self.rows,
            "held_out_rows": self.held_out_rows,
            "groups": list(map(str, self.groups)),
            "clients": len(self.clients),
            "basis": self.basis,
            "calibration": self.calibration,
            "unconstrained": self.base.as_dict(),
            "local_tolerances": list(self.local_tolerances),
            "global_tolerances": list(self.global_tolerances),
            "chosen": chosen,
            "knee": self.knee.as_dict(),
            "points": self.table,
            "warnings": list(self.warnings),
        }

    @property
    def _shape(self) -> tuple[int, int]:
        return len(self.local_tolerances), len(self.global_tolerances)
