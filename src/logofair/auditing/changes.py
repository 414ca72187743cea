"""What changes between two decision rules on the same rows: sums by cell, and the rates' changes with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.auditing.measure import Tally, comparable, counting_labels, tally_of
from logofair.columns.checks import Floats
from logofair.columns.labels import one_site
from logofair.notions import Rate


def one_place(rows: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same rows, all sites as one: the same id is the same person at all of them."""
    return (*rows[:3], one_site(len(rows[2])), rows[4])


@dataclass(frozen=True, eq=False)
class Changes:
    """Per (site, group, label): what the change of chances sums to, and the sums that its variance takes.

    ``up`` and ``down`` tally the rises and the falls, each a chance between 0 and 1; ``squared`` sums the squared
    changes, each with its squared weight.
    """

    up: Tally
    down: Tally
    squared: Floats

    @classmethod
    def of(cls, change: Floats, rows: tuple[Any, ...]) -> Changes:
        """Tally the changes of rows."""
        up, down = tally_of(np.maximum(change, 0.0), *rows), tally_of(np.maximum(-change, 0.0), *rows)
        weight = comparable(rows[1])
        # Rows of one person may all change together: by (sum w d)^2 <= (sum w) (sum w d^2) this bounds their square.
        own = _weight_of_person(weight, rows)
        places = (*up.mass.shape[:2], 2)
        cell = rows[3].codes.astype(np.intp) * places[1] + rows[2].codes
        place = 2 * cell + (0 if rows[0] is None else rows[0].astype(np.intp))
        squares = change * change * own * (1.0 if weight is None else weight)
        return cls(up, down, np.bincount(place, squares, minlength=up.mass.size).reshape(places))

    def gathered(self, place: Sequence[int], count: int) -> Changes:
        """Groups summed to ``count`` others, each to the one at its place; those with place -1 are left out."""
        squared = np.zeros((self.squared.shape[0], count, 2))
        for group, at in enumerate(place):
            if at >= 0:
                squared[:, at] += self.squared[:, group]
        return Changes(self.up.gathered(place, count), self.down.gathered(place, count), squared)

    def rates(self, rate: Rate) -> tuple[Floats, Floats]:
        """Change of a rate by (site, group), and its squared standard error; NaN where undefined."""
        counting = counting_labels(rate)
        mass = self.up.mass[..., counting].sum(-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = (self.up.accepted - self.down.accepted)[..., counting].sum(-1) / mass
            people = self.up.effective_rows(rate)
            # One change more than was seen, either way: without it nothing seen would mean nothing possible.
            variance = (self.squared[..., counting].sum(-1) / mass**2) * people + 1.0 / people
            return mean, np.maximum(variance - mean * mean, 0.0) / people


def _weight_of_person(weight: Floats | None, rows: tuple[Any, ...]) -> Floats:
    """Weight of all rows of each row's person, an id at one site in one group; without ids that of the row."""
    if rows[4] is None:
        return np.ones(len(rows[2])) if weight is None else weight
    cell = (rows[3].codes.astype(np.int64) * len(rows[2].names) + rows[2].codes) * len(rows[4].names) + rows[4].codes
    person = np.unique(cell, return_inverse=True)[1]
    return np.asarray(np.bincount(person, weight)[person])
