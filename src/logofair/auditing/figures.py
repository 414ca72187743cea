"""The figures of an audit: per notion the gaps over all and at the worst clients, and the rows each rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.auditing.measure import FEW_ROWS, Side, Tally, side_of
from logofair.columns.checks import Label
from logofair.notions import Notion

__all__ = ["FEW_ROWS", "Figure", "NotionFigures", "figures_of"]


Counts = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Figure:
    """A gap and what it rests on: the rate, the two groups, the client (None: all) and the fewer of their rows.

    ``value`` is None where fewer than two groups have such a rate.
    """

    value: float | None
    rate: str | None = None
    highest: Label | None = None
    lowest: Label | None = None
    client: Label | None = None
    rows: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        names = ("highest", "lowest", "client")
        return vars(self) | {name: plain(getattr(self, name)) for name in names}


@dataclass(frozen=True, eq=False)
class NotionFigures:
    """One notion: gaps by client, and the largest of them.

    ``local`` counts every rate there is, ``solid`` only rates that rest on 30 rows or more; both have one Figure per
    client, with value None where there is nothing to compare.
    """

    notion: Notion
    whole: Figure
    local: tuple[Figure, ...]
    solid: tuple[Figure, ...]

    @cached_property
    def worst(self) -> Figure:
        """The largest local gap."""
        return _largest(self.local)

    @cached_property
    def worst_solid(self) -> Figure:
        """The largest local gap between rates that rest on 30 rows or more."""
        return _largest(self.solid)

    def unlike(self, tolerance: float) -> tuple[str | None, list[Figure]]:
        """Where local and global disagree: ``"unfair"`` or ``"fair"`` and the clients that are so inside the contrary.

        Judged by gaps that rest on 30 rows or more alone.
        """
        if self.whole.value is None:
            return None, []
        fair = self.whole.value <= tolerance
        known = [figure for figure in self.solid if figure.value is not None]
        others = [figure for figure in known if (figure.value > tolerance) == fair]  # type: ignore[operator]
        others.sort(key=lambda figure: figure.value or 0.0, reverse=fair)
        return ("unfair" if fair else "fair"), others

    def as_dict(self, tolerance: float) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        kind, others = self.unlike(tolerance)
        return {
            "global": self.whole.as_dict(),
            "largest_local": self.worst.as_dict(),
            "largest_local_30_rows": self.worst_solid.as_dict(),
            "unfair_clients_inside_a_fair_whole": [plain(f.client) for f in others] if kind == "unfair" else [],
            "fair_clients_inside_an_unfair_whole": [plain(f.client) for f in others] if kind == "fair" else [],
            "clients_too_small_to_say": sum(figure.value is None for figure in self.solid),
        }


def figures_of(
    tally: Tally, notion: Notion, groups: tuple[Label, ...], clients: tuple[Label | None, ...]
) -> NotionFigures:
    """Measure one notion on the tallied rows.

    Examples
    --------
    >>> import numpy as np
    >>> from logofair.notions import NOTIONS
    >>> rows = np.array([[[40, 0], [50, 0]]])
    >>> tally = Tally(rows, rows * 1.0, np.array([[[10.0, 0.0], [25.0, 0.0]]]), False)
    >>> figures_of(tally, NOTIONS["demographic_parity"], ("F", "M"), ("north",)).worst_solid
    Figure(value=0.25, rate='selection rate', highest='M', lowest='F', client='north', rows=40)
    """
    whole = tally.merged()
    local, global_ = side_of(notion.rates, groups, clients, tally), side_of(notion.rates, groups, (None,), whole)
    return NotionFigures(
        notion,
        _figures(global_, _rows_behind(whole, notion), fewest=1)[0],
        _figures(local, _rows_behind(tally, notion), fewest=1),
        _figures(local, _rows_behind(tally, notion), fewest=FEW_ROWS),
    )


def _rows_behind(tally: Tally, notion: Notion) -> Counts:
    """Rows each rate rests on, (rates, clients, groups)."""
    every, positives = tally.rows.sum(2).astype(np.float64), tally.rows[..., 1].astype(np.float64)
    return np.stack([rate.denominator(every, positives) for rate in notion.rates]).astype(np.intp)


def _figures(side: Side, rows: Counts, fewest: int) -> tuple[Figure, ...]:
    """The gap at every client between rates that rest on enough rows: of all rates the one whose gap is largest."""
    counts = ~np.isnan(side.values) & (rows >= fewest)
    high, low = np.where(counts, side.values, -np.inf), np.where(counts, side.values, np.inf)
    gaps = np.where(counts.sum(2) >= 2, high.max(2) - low.min(2), -1.0)
    rate = gaps.argmax(0)
    clients = np.arange(gaps.shape[1])
    top, bottom = high.argmax(2)[rate, clients], low.argmin(2)[rate, clients]
    behind = np.minimum(rows[rate, clients, top], rows[rate, clients, bottom])
    return tuple(
        Figure(float(gap), side.rates[r].name, side.groups[t], side.groups[b], client, int(n))
        if gap >= 0
        else Figure(None, client=client)
        for gap, r, t, b, client, n in zip(
            gaps[rate, clients].tolist(), rate.tolist(), top.tolist(), bottom.tolist(), side.clients, behind.tolist(),
            strict=True,
        )
    )  # fmt: skip


def _largest(figures: Sequence[Figure]) -> Figure:
    """The largest gap there is."""
    found = max(figures, key=lambda figure: -1.0 if figure.value is None else figure.value)
    return found if found.value is not None else Figure(None)


def plain(label: Label | None) -> Any:
    """A label as JSON has it."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if label is None or isinstance(label, str | int | float) else str(label)
