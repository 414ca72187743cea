"""The door of the frontier: check, calibrate and sort once, then solve every pair of tolerances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

import numpy as np

from logofair.frontier.grid import Grid
from logofair.frontier.held_out import keep_back
from logofair.frontier.result import Frontier
from logofair.frontier.surface import Question, Surface
from logofair.inputs import InputError, Label, seed_number
from logofair.notions import Notion
from logofair.preparing import checked_rows, prepare
from logofair.solution import Rows, small_cells

__all__ = ["Watch", "frontier"]

T = TypeVar("T")


class Watch(Protocol):
    """Hands the steps of some work on, and shows how many are done."""

    def __call__(self, steps: Iterable[T], what: str, total: int) -> Iterable[T]:
        """Pass ``steps`` through."""


def _unwatched(steps: Iterable[T], what: str, total: int) -> Iterable[T]:
    """Pass steps through and show nothing."""
    return steps


def frontier(
    scores: object,
    labels: object,
    *,
    groups: object,
    clients: object = None,
    notion: str | Notion | Mapping[str, str | Notion] = "demographic_parity",
    local_tolerances: Iterable[float | None] | None = None,
    global_tolerances: Iterable[float | None] | None = None,
    client_tolerances: Mapping[Label, float | None] | None = None,
    chosen: tuple[float | None, float | None] | None = None,
    calibration: str = "beta",
    rates: str = "eta",
    sample_weight: object = None,
    random_state: int | None = None,
    folds: int = 5,
    test_share: float | None = None,
    watch: Watch = _unwatched,
) -> Frontier:
    """Find the best rule for every pair of a grid of local and global tolerances, from one calibration and one sort.

    Parameters
    ----------
    scores, labels, groups, clients, calibration, rates, sample_weight, random_state, folds
        As in :func:`logofair.fit`: every point is what ``fit`` would find at its tolerances.
    notion : str, Notion, or {"local": ..., "global": ...} of these
        What is fair. Not a mapping with tolerances, since these are what the grid varies.
    local_tolerances, global_tolerances : iterable of float or None, optional
        The grid; None inside it: not constrained. By default from 0 to the gap of the unconstrained rule, where a side
        stops binding, and None; without clients the global side alone.
    client_tolerances : mapping, optional
        Tolerances of single clients, which hold at every point.
    chosen : (float or None, float or None), optional
        A pair of tolerances to add to the grid and to mark in figures.
    test_share : float, optional
        Share of every cell's rows to keep back, on which accuracy and gaps are then measured with labels. What a small
        cell promises on its own rows says little about others.
    watch : callable, optional
        ``watch(steps, what, total)`` passes steps through and shows how many are done.

    Returns
    -------
    Frontier
        The points with their certificates, ``table``, ``knee``, ``best(accuracy_cost)``, ``as_csv()``, ``as_dict()``.

    Raises
    ------
    InputError
        If some argument cannot be used.
    SolverError
        If no rule with a valid certificate was found at some point.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.frontier import frontier
    >>> rng = np.random.default_rng(0)
    >>> site, sex = rng.integers(0, 3, 3000), rng.integers(0, 2, 3000)
    >>> score = rng.beta(1 + sex, 2, 3000)
    >>> label = rng.random(3000) < score
    >>> surface = frontier(score, label, groups=sex, clients=site)
    >>> max(point.certificate.gap for point in surface.points) < 1e-6
    True
    >>> surface.best(accuracy_cost=0.01).loss <= 0.01
    True
    """
    rows = checked_rows(scores, labels, groups, clients, sample_weight, calibration, rates)
    seed = 0 if random_state is None else seed_number(random_state)
    question = Question.of(notion, client_tolerances, rows.clients, has_clients=clients is not None)
    grid = Grid.of(local_tolerances, global_tolerances, chosen, alone=question.alone)
    held = None
    if test_share is not None:
        rows, held = keep_back(rows, _share(test_share, rows), np.random.default_rng([seed, 1]))
    (prepared,) = watch((prepare(rows, calibration, rates, folds, seed) for _ in range(1)), "Calibrating", 1)
    surface = Surface.of(question, prepared, rates, held)
    local, shared = grid.filled(surface.base.local_gap, surface.base.global_gap)
    points = sorted(
        watch(surface.points(local, shared), "Solving", len(local) * len(shared)),
        key=lambda point: (local.index(point.local_tolerance), shared.index(point.global_tolerance)),
    )
    strictest = question.promise(local[0], shared[0]).problem(prepared.cells)
    return Frontier(
        local_tolerances=local,
        global_tolerances=shared,
        points=tuple(points),
        base=surface.base,
        notions=(question.local.name, question.shared.name),
        groups=rows.groups.names,
        clients=rows.clients.names,
        rows=rows.scores.size,
        held_out_rows=0 if held is None else held.scores.size,
        basis=rates,
        calibration=calibration,
        chosen=grid.chosen,
        warnings=tuple(small_cells(strictest, prepared.rows, merged=False)),
    )


def _share(test_share: object, rows: Rows) -> float:
    """Check the share of rows to keep back."""
    if rows.labels is None:
        raise InputError("test_share: needs labels to measure with, but labels= is None; pass labels or leave it out.")
    number = isinstance(test_share, int | float | np.number) and not isinstance(test_share, bool)
    if not number or not 0.0 < float(test_share) < 1.0:  # type: ignore[arg-type]  # a number, as was just checked
        raise InputError(f"test_share: got {test_share!r}; pass a number between 0 and 1, such as 0.3.")
    return float(test_share)  # type: ignore[arg-type]
