"""Rows held out from the fit, on which every point is measured with labels: in sample, small cells look too good.

The rows are ordered into cells once; a rule's accepted rows and accepted positives per cell are then two look-ups in
running sums, so that measuring a point costs the same for a thousand rows as for a million.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from logofair.auditing import Audit
from logofair.auditing.measure import Tally, tally_of
from logofair.calibration import Calibrator
from logofair.cells.cells import Cells, build_cells
from logofair.columns.checks import Label
from logofair.columns.segments import Booleans
from logofair.errors import InputError
from logofair.fitting.prepare import CalibrationRows
from logofair.notions import Rate
from logofair.policy.mixtures import Mixtures, evaluate
from logofair.tradeoff.result import HeldOut

__all__ = ["HeldOutRows", "hold_out"]


def hold_out(rows: CalibrationRows, share: float, rng: np.random.Generator) -> tuple[CalibrationRows, CalibrationRows]:
    """Part rows at random into those to fit on and those to measure on, the same share of every cell.

    At least one row of every cell stays with the fit, so that no client or group is unknown later.
    """
    order = rng.permutation(rows.scores.size)
    order = order[np.argsort(rows.cells[order], kind="stable")]
    sizes = np.bincount(rows.cells)
    place = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    out = np.zeros(order.size, dtype=bool)
    out[order] = place < np.minimum(np.rint(share * sizes), sizes - 1)[rows.cells[order]]
    if not out.any():
        raise InputError(
            f"test_share: {share:g} of every group at every client is no row to measure on; pass more rows or a larger "
            "share."
        )
    fitting, testing = _part(rows, ~out), _part(rows, out)
    for name, part in (("fit on", fitting), ("measure on", testing)):
        if part.weights is not None and not part.weights.any():
            raise InputError(f"sample_weight: no row to {name} has a positive weight; pass another random_state.")
    return fitting, testing


def _part(rows: CalibrationRows, kept: Booleans) -> CalibrationRows:
    """Some of the rows; groups and clients keep their numbers."""
    return CalibrationRows(
        rows.scores[kept],
        None if rows.labels is None else rows.labels[kept],
        replace(rows.groups, codes=rows.groups.codes[kept]),
        replace(rows.clients, codes=rows.clients.codes[kept]),
        None if rows.weights is None else rows.weights[kept],
    )


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Held-out rows in cells, ready to measure any rule on them."""

    cells: Cells
    tally: Tally  # with nobody accepted
    groups: tuple[Label, ...]
    clients: tuple[Label, ...]
    local_rates: tuple[Rate, ...]
    global_rates: tuple[Rate, ...]

    @classmethod
    def of(
        cls, rows: CalibrationRows, calibrator: Calibrator, local: tuple[Rate, ...], global_: tuple[Rate, ...]
    ) -> HeldOutRows:
        """Order labelled rows by what a policy compares with its thresholds."""
        assert rows.labels is not None
        groups, clients = rows.groups, rows.clients
        cells = build_cells(
            calibrator(rows.scores, groups.codes, clients.codes),
            groups.codes,
            clients.codes,
            n_groups=len(groups.names),
            n_clients=len(clients.names),
            values=rows.labels,
            weights=rows.weights,
            rising=True,  # labels do not rise with the score, but no corner is looked for: no hull is needed
        )
        tally = tally_of(np.zeros_like(rows.scores), rows.labels, rows.weights, groups, clients)
        return cls(cells, tally, groups.names, clients.names, local, global_)

    def measured(self, mixtures: Mixtures) -> HeldOut:
        """Accuracy and gaps of a rule, in expectation over its coins."""
        u, v = (share.reshape(self.tally.mass.shape[:2]) for share in evaluate(self.cells, mixtures))
        mass = self.cells.mass.reshape(u.shape)
        tally = replace(self.tally, accepted=np.stack([(u - v) * mass, v * mass], axis=-1))
        found = Audit.of(tally, self.groups, self.clients, self.local_rates, self.global_rates)
        local, large, global_ = found.worst_local, found.worst_large, found.worst_global
        return HeldOut(
            rows=int(self.tally.rows.sum()),
            accuracy=found.accuracy,
            local_gap=local.value,
            local_gap_client=local.client,
            local_gap_rows=local.rows,
            large_local_gap=large.value,
            large_local_gap_rows=large.rows,
            global_gap=global_.value,
            global_gap_rows=global_.rows,
        )
