"""The solution: a policy, the proof of how good it is, and warnings of cells on which a requirement rests on little."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from logofair.auditing import Audit, Comparison
from logofair.auditing.comparison import compared_audits
from logofair.auditing.measure import FEW_ROWS, plain
from logofair.auditing.rows import checked_columns
from logofair.calibration import CalibrationErrors
from logofair.columns.checks import NAMED, Floats, Label, listed
from logofair.columns.segments import Booleans, Indices
from logofair.errors import InputError
from logofair.fitting.confidence import check_confidence, supported_tolerances
from logofair.fitting.prepare import CalibrationRows
from logofair.fitting.promises import Promises, SupportedTolerances
from logofair.notions import Notion, Rate
from logofair.policy.info import price_sentence
from logofair.policy.mixtures import evaluate_single
from logofair.policy.policy import Policy
from logofair.requirements import Requirements, compared_rates
from logofair.solvers.certificate import Certificate
from logofair.solvers.problem import Problem

__all__ = ["FitWarning", "Solution", "cell_warnings"]


@dataclass(frozen=True)
class Solution:
    """What :func:`logofair.fit` returns.

    Attributes
    ----------
    policy : Policy
        The rules, ready to decide on new rows.
    certificate : Certificate
        How accurate and how fair they are on the calibration rows, and how much better any rule could be.
    requirements : Requirements
        What the policy was made for.
    problem : Problem
        The cells and constraints, for those who want to look inside.
    warnings : tuple of FitWarning
        Cells on which a requirement rests on little or nothing: empty, one row, one label, few rows.
    solver : str
        Which solver found the policy; ``rounds``: in how many rounds.
    calibration_errors : CalibrationErrors or None
        Calibration error per cell before and after calibration.
    promises : Promises
        What is certified for new rows; nothing where ``confidence`` was not given.
    tested : Comparison or None
        Score >= 1/2 and the policy on rows that took no part in the fit, once :meth:`test` was given some.

    Examples
    --------
    >>> import logofair
    >>> solution = logofair.fit([0.9, 0.6, 0.4, 0.2], None, groups=["a", "b", "a", "b"], calibration="none")
    >>> print(solution.requirements.summary())
    Inside each client, the selection rate of any two groups differs by at most 0.02 (demographic parity).
    >>> solution.policy.decide([0.7, 0.3], groups=["a", "b"]).tolist()
    [1, 0]
    """

    policy: Policy
    certificate: Certificate
    requirements: Requirements
    problem: Problem
    warnings: tuple[FitWarning, ...]
    solver: str
    rounds: int
    calibration_errors: CalibrationErrors | None
    rows: CalibrationRows
    promises: Promises
    tested: Comparison | None = None

    def __repr__(self) -> str:
        c = self.certificate
        figures = f"accuracy={c.primal:.4f}, optimality_gap={c.optimality_gap:.1e}, violation={c.violation:.1e}"
        return f"Solution({figures}, solver={self.solver!r})"

    @cached_property
    def deterministic(self) -> tuple[float, float]:
        """Expected accuracy and violation of ``decide(..., deterministic=True)`` on the calibration rows."""
        u, v = (a.reshape(self.problem.shape) for a in evaluate_single(self.problem.cells, self.policy.mixtures))
        return self.problem.accuracy(u, v), self.problem.violation(u, v)

    @cached_property
    def compared(self) -> Comparison | None:
        """Score >= 1/2 and the policy on the calibration rows; None where a rate needs labels and there are none.

        Counted with labels: parity in calibrated chances is not parity in labels on the same rows.
        """
        rows = self.rows
        if rows.labels is None and any(rate.needs_labels for side in self._rates for rate in side):
            return None
        chance = self.policy.chances(rows.calibrated, rows.cells)
        found = self._compared(chance, rows.scores, (rows.labels, rows.weights, rows.groups, rows.clients, None))
        return replace(found, second=replace(found.second, fitted_rows=True))

    @property
    def measured(self) -> Audit | None:
        """The policy on the calibration rows, counted with labels; None where there are none."""
        return None if self.rows.labels is None or self.compared is None else self.compared.second

    def test(
        self,
        scores: object,
        labels: object,
        *,
        groups: object,
        clients: object = None,
        sample_weight: object = None,
        ids: object = None,
    ) -> Solution:
        """Measure the policy on rows that took no part in the fit; arguments as for :func:`logofair.audit`.

        Clients the policy does not know take its merged rule.

        Returns
        -------
        Solution
            The same with ``tested``: score >= 1/2 and the policy on these rows, which every page then tells first.

        Examples
        --------
        >>> import numpy as np
        >>> import logofair
        >>> rng = np.random.default_rng(0)
        >>> sex, score = rng.integers(0, 2, 2000), rng.random(2000)
        >>> label = rng.random(2000) < score
        >>> half = slice(0, 1000), slice(1000, 2000)
        >>> solution = logofair.fit(score[half[0]], label[half[0]], groups=sex[half[0]])
        >>> tested = solution.test(score[half[1]], label[half[1]], groups=sex[half[1]]).tested
        >>> tested.second.accuracy.rows
        1000
        """
        known = "raise" if self.policy.merged is None else "merged"
        chance = self.policy.probabilities(scores, groups=groups, clients=clients, on_unknown=known)
        notion = {side: Notion(side, given=rates) for side, rates in zip(("local", "global"), self._rates, strict=True)}
        rows = checked_columns(chance, labels, groups, clients, notion, scores, sample_weight, ids)
        assert rows.score is not None
        columns = (rows.positive, rows.weight, rows.group, rows.client, rows.ids)
        return replace(self, tested=self._compared(chance, rows.score, columns))

    @property
    def _rates(self) -> tuple[tuple[Rate, ...], tuple[Rate, ...]]:
        """The rates compared inside clients and over all; where one side requires nothing, those of the other."""
        local, global_ = self.requirements.local, self.requirements.global_
        return compared_rates(local or global_), compared_rates(global_ or local)

    def _compared(self, chance: Floats, scores: Floats, rows: tuple[Any, ...]) -> Comparison:
        base = (scores >= 0.5).astype(np.float64)
        return compared_audits(base, chance, rows, *self._rates)

    def supported_tolerances(self, confidence: float = 0.95) -> SupportedTolerances:
        """Return the smallest local tolerance that could be certified at each client with the rows it has.

        For rates as this policy's are: a rate near 0 or 1 takes fewer rows. All clients are judged together.

        Examples
        --------
        >>> import logofair
        >>> scores, groups, clients = [0.1, 0.4, 0.6, 0.9] * 500, ["a", "b"] * 1000, ["n", "n", "s", "s"] * 500
        >>> solution = logofair.fit(scores, None, groups=groups, clients=clients, calibration="none")
        >>> [round(tolerance, 2) for tolerance in solution.supported_tolerances()["n"]]
        [0.04, 0.07]
        """
        level = check_confidence(confidence)
        if level is None:
            raise InputError("confidence: got None; pass a number above 0 and below 1, such as 0.95.")
        chance = self.policy.chances(self.rows.calibrated, self.rows.cells)
        return supported_tolerances(self.rows, self.requirements, chance, level)

    def summary(self) -> str:
        """Return the solution in a few lines for people."""
        c = self.certificate
        lines = [
            f"Required: {self.requirements.summary()}",
            f"Expected accuracy {c.primal:.4f} on {self.rows.scores.size:,} calibration rows; "
            f"no rule within the tolerances exceeds {c.dual:.4f} (optimality gap {c.optimality_gap:.1e}, "
            f"violation {c.violation:.1e}, counted in {c.basis}, {self.solver} solver, {self.rounds} rounds).",
            self.coins_summary(),
        ]
        if self.measured is not None:
            m = self.measured
            lines.append(
                f"Counted with labels on the same rows: accuracy {m.accuracy:.4f}, global gap {_number(m.global_gap)}, "
                f"largest local gap {_number(m.local_gap)} (both include chance; see the cells' sizes)."
            )
        if self.promises.confidence is not None:
            lines = [self.promises.headline, *lines, *self.promises.details()]
        lines += [f"Price: {sentence}" for sentence in self.price_sentences()]
        return "\n".join([*lines, *(f"Warning: {warning}" for warning in self.warnings)])

    def coins_summary(self) -> str:
        """How many cells need a coin, and what doing without would cost, in a sentence."""
        mixed, (accuracy, violation) = self.policy.mixtures.mixed, self.deterministic
        return (
            f"{int(mixed.sum()):,} of {mixed.size:,} cells need a coin; "
            f"without coins accuracy is {accuracy:.4f} and the largest violation {violation:.4f}."
        )

    def price_sentences(self, most: int = 3) -> list[str]:
        """What 0.01 more tolerance would win at most, dearest first, as sentences."""
        entries = []
        for k, price in enumerate(self.certificate.prices.global_):
            entries.append((float(price), self.problem.global_rates[k].name, " over all clients"))
        for c, k in _largest(self.certificate.prices.local, most):
            name = self.policy.clients[c]
            where = "" if name is None else f" inside client {name!r}"
            entries.append((float(self.certificate.prices.local[c, k]), self.problem.local_rates[k].name, where))
        entries = sorted((entry for entry in entries if entry[0] > 1e-9), reverse=True)[:most]
        return [price_sentence(*entry) for entry in entries]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        accuracy, violation = self.deterministic
        return {
            "groups": [plain(name) for name in self.policy.groups],
            "clients": [plain(name) for name in self.policy.clients] if self.rows.has_clients else None,
            "rows": int(self.rows.scores.size),
            "requirements": self.requirements.as_dict(),
            "certificate": self.certificate.as_dict(),
            "calibration": self.policy.calibrator.method,
            "solver": self.solver,
            "rounds": self.rounds,
            "prices": self._prices(),
            "cells_with_coins": int(self.policy.mixtures.mixed.sum()),
            "without_coins": {"accuracy": accuracy, "violation": violation},
            "measured": None if self.measured is None else self.measured.as_dict(),
            "promises": self.promises.as_dict(),
            "warnings": [warning.as_dict() for warning in self.warnings],
        }

    def _prices(self) -> dict[str, Any]:
        """Every price above 0 inside a client, and those over all clients."""
        prices, problem = self.certificate.prices, self.problem
        local = [
            {"client": plain(self.policy.clients[c]), "rate": problem.local_rates[k].name, "price": price}
            for (c, k), price in np.ndenumerate(prices.local)
            if price > 0
        ]
        names = [rate.name for rate in problem.global_rates]
        global_ = [{"rate": name, "price": float(p)} for name, p in zip(names, prices.global_, strict=True)]
        return {"local": local, "global": global_}


def _largest(prices: Floats, most: int) -> list[tuple[int, int]]:
    """Where the largest prices stand, dearest first; only those are sorted, since there may be 100,000 clients."""
    flat = prices.ravel()
    least = np.partition(flat, -most)[-most] if flat.size > most else -np.inf
    places = np.flatnonzero(flat >= least)
    order = places[np.argsort(-flat[places], kind="stable")[:most]]
    return [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, prices.shape), strict=True)]


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


@dataclass(frozen=True)
class FitWarning:
    """What people should know about some cells; ``str()`` gives the sentence."""

    kind: str  # "no rows", "no weight", "one row", "one label", "few rows", "unmeasured gap" or "group left out"
    subject: str  # the two halves of the sentence: what it is about,
    finding: str  # and what was found
    cells: tuple[tuple[Label | None, Label | None], ...]  # the first (client, group) concerned
    count: int  # of the cells concerned

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
