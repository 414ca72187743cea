r"""Row weights that even out losses between groups: FairBatch (Roh et al., 2021), and FedFB (Zeng et al., 2021).

Both change weights of (group, label) cells along the differences of the cells' losses: FairBatch with the losses of one
client, FedFB with those of all clients together. What changes is, in the paper's symbols,

* demographic parity: :math:`\lambda_a \in [0, 2 n_a/n]`, the weight of the rows of group a with label 0; those with
  label 1 have the rest, :math:`2 n_a/n - \lambda_a`;
* conditions on labels y: :math:`\lambda_{ya} \in [0, n_y/n]`, the weight of the rows (y, a) of every group but the
  first, which has the rest of :math:`n_y/n`.

The first group is the first that has rows: a client may lack some.

A row's weight is its cell's weight over the cell's rows. Here all are kept as *ratios* to a plain row's weight 1/n, so
that at the start every ratio is exactly 1 and training is exactly plain. More than two groups are ours for conditions
on labels: the papers have two.
"""

from __future__ import annotations

import numpy as np

from logofair.columns.checks import Floats
from logofair.errors import InputError
from logofair.notions import Notion, Rate
from logofair_reproduction.training.messages import Given


def conditions(notion: Notion) -> Given:
    """What a notion's rates are conditioned on; raise where it is no plain condition."""
    given = tuple(g if g is None else int(g) for g in notion.given if g is None or not isinstance(g, Rate))
    if len(given) != len(notion.given) or (None in given and len(given) > 1):
        raise InputError(
            f"notion: {notion.name!r} cannot be trained for; use selection rates alone (demographic_parity) or rates "
            "conditioned on labels (equal_opportunity, predictive_equality, equalized_odds)."
        )
    return given


def reweighing(rows: Floats) -> Floats:
    """Weights that make label and group independent, W(a, y) = P(a) P(y) / P(a, y) (Kamiran and Calders, 2012)."""
    expected = rows.sum(1, keepdims=True) * rows.sum(0) / max(rows.sum(), 1.0)
    weights: Floats = np.divide(expected, rows, out=np.ones_like(rows), where=rows > 0)
    return weights


def direction(given: Given, rows: Floats, loss: Floats) -> Floats:
    """The direction in which ratios move, in units of cell weight; (groups, 2), 0 where a mean loss is undefined.

    For selection rates this is F_a of FedFB in column 0, which with the 0/1 loss is exactly P(1|a) - P(1|0); the first
    group's entry is minus the sum of the others'. For conditions on labels it is the difference d_ya of the mean losses
    of (y, a) and (y, 0), over the Euclidean norm of all these.
    """
    found = np.zeros_like(rows)
    if given == (None,):
        sizes = rows.sum(1)
        known, first = sizes > 0, _first(sizes)
        per_group = np.divide(loss[:, 0] - loss[:, 1] - rows[:, 0], sizes, out=np.zeros_like(sizes), where=known)
        found[:, 0] = np.where(known, per_group - per_group[first], 0.0)
        found[first, 0] = -found[:, 0].sum()
        return found
    means = np.divide(loss, rows, out=np.zeros_like(loss), where=rows > 0)
    for label in given:
        first = _first(rows[:, label])
        found[:, label] = np.where(rows[:, label] > 0, means[:, label] - means[first, label], 0.0)
    length = float(np.linalg.norm(found))
    return found / length if length > 0 else found


def updated_ratios(given: Given, ratios: Floats, rows: Floats, loss: Floats, step: float) -> Floats:
    """The ratios after a step along :func:`direction`, kept where all weights are at least 0."""
    # A weight of the cell, lambda, is ratio * rows / n (a group's for selection rates: ratio * n_a / n).
    n = rows.sum()
    along = direction(given, rows, loss)
    if given == (None,):
        sizes = rows.sum(1)
        change = np.divide(step * along[:, 0] * n, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        negative = np.clip(ratios[:, 0] + change, 0.0, 2.0)
        return np.stack([negative, 2.0 - negative], axis=1)
    found = ratios.copy()
    for label in given:
        found[:, label] = _label_ratios(ratios[:, label], rows[:, label], step * along[:, label] * n)
    return found


def _label_ratios(ratios: Floats, rows: Floats, change: Floats) -> Floats:
    """One label's ratios: every group but the first moves by ``change`` rows of weight, the first takes the rest."""
    total, first = rows.sum(), _first(rows)
    if total == 0:
        return ratios
    others = np.where(np.arange(rows.size) == first, 0.0, rows)
    weight = np.clip(ratios * others + np.where(others > 0, change, 0.0), 0.0, total)
    weight *= min(1.0, total / max(weight.sum(), total))  # more than two groups may need more than there is
    found = np.divide(weight, others, out=np.ones_like(weight), where=others > 0)
    found[first] = max(total - weight.sum(), 0.0) / rows[first]  # by rounding the rest may be below 0
    return found


def _first(sizes: Floats) -> int:
    """The group that others are compared with: the first that has any rows."""
    return int(np.argmax(sizes > 0))
