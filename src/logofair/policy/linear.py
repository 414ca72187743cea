"""Rules that do not look at the group: at each site some weighted linear forms of chance and group probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from logofair.columns.checks import Floats, Integers, Label, listed_names, matrix, probabilities
from logofair.columns.segments import Indices
from logofair.errors import InputError
from logofair.policy.mixtures import NEGLIGIBLE, Mixtures, Rules
from logofair.records import checked

_SUM = 1e-6  # what probabilities may miss 1 by


def margin(rules: Floats, site: Integers | Indices, chances: Floats, probabilities: Floats) -> Floats:
    """The linear form F of every row, whose sign decides: (n,) of rules (sites, 2 + 2 groups).

    A rule is a constant, a slope in the chance, then a constant and a slope for each group. Each row is computed by
    itself and in one order, so that a row is decided alike whoever is decided with it.
    """
    own = [np.ascontiguousarray(column)[site] for column in rules.T]
    found = own[0] + own[1] * chances
    for a in range(probabilities.shape[1]):
        found += probabilities[:, a] * (own[2 + 2 * a] + own[3 + 2 * a] * chances)
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class LinearRules(Rules):
    """Per site up to a few rules, each with a weight: a row is accepted with the weight of all whose form is >= 0."""

    weight: Floats  # (sites, rules); sums to 1 for every site
    form: Floats  # (sites, rules, 2 + 2 groups): see :func:`margin`

    @property
    def shown(self) -> Mixtures:
        """The rules as they are for people who surely are of a group, by site and group; others are in between."""
        constant = np.moveaxis(self.form[:, :, :1] + self.form[:, :, 2::2], 2, 1)
        slope = np.moveaxis(self.form[:, :, 1:2] + self.form[:, :, 3::2], 2, 1)
        flat = np.where(constant >= 0.0, 0.0, 2.0)  # whatever the score, everybody is accepted, or nobody
        threshold = np.divide(-constant, slope, out=flat, where=slope != 0.0)
        weight = np.broadcast_to(self.weight[:, None], threshold.shape)
        cells, rules = threshold.shape[0] * threshold.shape[1], threshold.shape[2]
        weight, threshold = weight.reshape(cells, rules), threshold.reshape(cells, rules)
        return Mixtures(weight, threshold, (slope >= 0.0).reshape(cells, rules), np.zeros(cells))

    def chances(self, scores: Floats, cells: Integers | Indices, seen: Floats | None = None) -> Floats:
        """Chance of acceptance of rows, by the numbers of their sites."""
        assert seen is not None
        found = np.zeros(scores.size)
        for k in np.flatnonzero(self.weight.any(axis=0)):
            accepts = margin(self.form[:, k], cells, scores, seen) >= 0.0
            found += np.ascontiguousarray(self.weight[:, k])[cells] * accepts
        found[found > 1.0 - NEGLIGIBLE] = 1.0  # what weights lack to 1 is rounding
        return found

    def joined_with(self, *more: LinearRules) -> LinearRules:
        """These sites' rules, then others."""
        every = (self, *more)
        wide = max(each.weight.shape[1] for each in every)
        lacking = [((0, 0), (0, wide - each.weight.shape[1])) for each in every]
        return LinearRules(
            np.concatenate([np.pad(each.weight, ends) for each, ends in zip(every, lacking, strict=True)]),
            np.concatenate([np.pad(each.form, (*ends, (0, 0))) for each, ends in zip(every, lacking, strict=True)]),
        )

    def base(self, groups: int) -> LinearRules:
        """The rule that accepts from a score of 1/2."""
        return LinearRules(np.ones((1, 1)), np.array([[[-0.5, 1.0, *[0.0] * (2 * groups)]]]))

    def check(self, sites: int, groups: int) -> None:
        """Raise `ValueError` where these are not rules of so many sites and groups."""
        checked(self.weight, (sites, None), low=0, high=1)
        checked(self.form, (*self.weight.shape, 2 + 2 * groups))
        if np.abs(self.weight.sum(axis=1) - 1.0).max(initial=0.0) > 1e-9:
            raise ValueError("weights")


def read_probabilities(table: object, groups: Sequence[Label] = ()) -> tuple[tuple[Label, ...], Floats]:
    """Names and probabilities, (n, groups), of a mapping or frame named by group, or an array in the groups' order.

    Columns are matched with ``groups`` by their text, where these are given.
    """
    where = "group_probabilities"
    if table is None:
        raise InputError(f"{where}: missing, but the rule decides by them; pass a table with a column for every group.")
    columns = table if isinstance(table, Mapping) else getattr(table, "columns", None)
    if columns is None:
        values, names = matrix(table, where), tuple(groups)
        if len(names) != values.shape[1]:
            raise InputError(
                f"{where}: got {values.shape[1]} columns for {len(names)} groups; pass a frame or mapping whose "
                "columns are named by the groups."
            )
    else:
        found = {str(name): name for name in columns}
        for name in columns:
            if isinstance(table[name], Mapping) or len(getattr(table[name], "shape", ())) > 1:  # type: ignore[index]
                raise InputError(
                    f"{where}: {name!r} holds a table, as if of one attribute of several; pass the probabilities of "
                    f"one attribute's groups alone, here those under {name!r}."
                )
        names = tuple(groups) or tuple(found.values())
        if set(found) != set(map(str, names)):
            its = f"its columns are {listed_names(found)}" if found else "it has no columns"
            raise InputError(
                f"{where}: {its}, but the groups are {listed_names(names)}; name a column for every group."
            )
        each = [probabilities(table[found[str(name)]], f"{where}: column {name!r}") for name in names]  # type: ignore[index]
        values = np.stack(each, axis=1) if each else np.zeros((0, 0))
    if len(names) < 2:
        raise InputError(f"{where}: got {len(names)} columns; pass one for each of two groups or more.")
    off = np.flatnonzero((np.abs(values.sum(axis=1) - 1.0) > _SUM) | (values < 0.0).any(axis=1))
    if off.size:
        own = values[off[0]]
        got = f"has {own.min():.6g}" if own.min() < 0.0 else f"sums to {own.sum():.6g}"
        raise InputError(f"{where}: row {off[0]} {got}; probabilities are from 0 to 1 and sum to 1 over the groups.")
    return names, np.asfortranarray(values)
