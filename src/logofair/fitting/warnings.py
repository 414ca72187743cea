"""Warnings of a fit: the cells on which a requirement rests on little or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from logofair.auditing.measure import FEW_ROWS, plain
from logofair.columns.checks import NAMED, Label, listed
from logofair.columns.segments import Booleans, Indices
from logofair.fitting.prepare import CalibrationRows
from logofair.solvers.problem import Problem

__all__ = ["FitWarning", "cell_warnings"]


@dataclass(frozen=True)
class FitWarning:
    """What people should know about some cells; ``str()`` gives the sentence.

    Parameters
    ----------
    kind : str
        "no rows", "no weight", "one row", "one label", "few rows", "unmeasured gap" or "group left out".
    subject, finding : str
        The two halves of the sentence: what it is about, and what was found.
    cells : tuple of (client, group)
        The first cells concerned. Client None: the only one, or all together; group None: all groups of the client.
    count : int
        How many cells are concerned.

    Examples
    --------
    >>> print(FitWarning("one row", "group 'F'", "one row only", ((None, "F"),), 1))
    group 'F': one row only.
    """

    kind: str
    subject: str
    finding: str
    cells: tuple[tuple[Label | None, Label | None], ...]
    count: int

    def __str__(self) -> str:
        return f"{self.subject}: {self.finding}."

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        cells = [{"client": plain(client), "group": plain(group)} for client, group in self.cells]
        return {"kind": self.kind, "cells": cells, "count": self.count, "sentence": str(self)}


def cell_warnings(problem: Problem, rows: CalibrationRows, *, merged: bool) -> Iterator[FitWarning]:
    """Warn of the cells on which a requirement rests on little or nothing, once per kind.

    ``merged`` says whether the merged federation's rule was there for cells without rows.
    """
    count, one_label = _counted(problem, rows)
    every = problem.cells.rows.reshape(problem.shape)
    empty = "so nothing can be required of it and it takes " + ("its group's merged rule" if merged else "score >= 1/2")
    few = f"fewer than {FEW_ROWS} rows, so its rates are mostly noise"
    kinds = (
        ("no rows", every == 0, f"no rows, {empty}"),
        ("no weight", (every > 0) & (count == 0), f"only rows of weight 0, {empty}"),
        ("one row", count == 1, "one row only"),
        ("one label", (count > 1) & one_label, "rows of one label only"),
        ("few rows", (count > 1) & (count < FEW_ROWS) & ~one_label, few),
    )
    for kind, which, finding in kinds:
        yield from _about_cells(kind, which, rows, finding)
    yield from _unmeasured_local(problem, rows)
    yield from _unmeasured_global(problem, rows)


def _counted(problem: Problem, rows: CalibrationRows) -> tuple[Indices, Booleans]:
    """Rows of positive weight in every cell, and whether all of them have the same label."""
    shape, count = problem.shape, problem.cells.rows
    if rows.labels is None and rows.weights is None:  # nothing to count: millions of rows need not be touched
        return count.reshape(shape), np.zeros(shape, dtype=bool)
    weighty = slice(None) if rows.weights is None else rows.weights > 0
    cell = rows.cells[weighty]
    if rows.weights is not None:
        count = np.bincount(cell, minlength=count.size)
    if rows.labels is None:
        return count.reshape(shape), np.zeros(shape, dtype=bool)
    positive = np.bincount(cell, rows.labels[weighty], minlength=count.size)
    return count.reshape(shape), ((positive == 0) | (positive == count)).reshape(shape)


def _unmeasured_local(problem: Problem, rows: CalibrationRows) -> Iterator[FitWarning]:
    """Say where a local gap is not measured, or leaves a group out, because nobody counts in its rate."""
    for k, rate in enumerate(problem.local_rates):
        counts = problem.local_counts[..., k]
        required = np.isfinite(problem.local_tolerance[:, k])
        blind = np.flatnonzero(required & ~counts.any(axis=1))
        if blind.size:
            clients = [rows.clients.names[c] for c in blind[:NAMED]]
            where = f" inside {listed(map(repr, clients), blind.size)}" if rows.has_clients else ""
            yield _unmeasured(f"{rate.name} cannot be measured{where}", clients, blind.size)
        left_out = counts.any(axis=1, keepdims=True) & ~counts & (problem.mass > 0)
        finding = f"nobody counts in its {rate.name}, so the gap inside the client leaves it out"
        yield from _about_cells("group left out", left_out, rows, finding)


def _unmeasured_global(problem: Problem, rows: CalibrationRows) -> Iterator[FitWarning]:
    """Say where a global gap is not measured, or leaves a group out, because nobody counts in its rate."""
    for k, rate in enumerate(problem.global_rates):
        counts = problem.global_counts[:, k]
        if not counts.any():
            yield _unmeasured(f"{rate.name} over all clients cannot be measured", [None], 1)
        elif not counts.all():
            missing = np.flatnonzero(~counts)
            groups = [rows.groups.names[a] for a in missing[:NAMED]]
            subject = listed((f"group {name!r}" for name in groups), missing.size)
            finding = f"nobody counts in its {rate.name}, so the gap over all clients leaves it out"
            yield FitWarning("group left out", subject, finding, tuple((None, g) for g in groups), missing.size)


def _unmeasured(what: str, clients: list[Label | None], count: int) -> FitWarning:
    finding = "fewer than two groups have such a rate"
    return FitWarning("unmeasured gap", f"the gap of the {what}", finding, tuple((c, None) for c in clients), count)


def _about_cells(kind: str, which: Booleans, rows: CalibrationRows, finding: str) -> Iterator[FitWarning]:
    """A warning about the cells marked, if there are any."""
    count = int(which.sum())
    if count:
        cells = [(rows.clients.names[c], rows.groups.names[a]) for c, a in np.argwhere(which)[:NAMED]]
        names = (f"group {g!r}" + ("" if c is None else f" at client {c!r}") for c, g in cells)
        yield FitWarning(kind, listed(names, count), finding, tuple(cells), count)
