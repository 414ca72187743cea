"""Measured figures on a page: rates per group first, then gaps with what they show beyond chance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.table import Table

from logofair.auditing import Audit, Gap, Measured
from logofair.auditing.measure import text
from logofair.cli.pages.console import grid, spoken
from logofair.columns.checks import Floats, Label

_GROUPS = 12


def interval_text(figure: Measured | None) -> str:
    """Both ends of a figure's interval."""
    return "" if figure is None else figure.interval


def text_or_undefined(figure: Measured | None) -> str:
    """A figure with its interval and rows, 0 too; or that there is none."""
    return "undefined" if figure is None else str(figure)


def rates_table(rates: Mapping[str, Mapping[Label, Measured | None]], counts: str = "rows") -> Table:
    """Every rate of every group with its interval and rows; of many groups the largest, in their own order.

    ``counts`` is what rates rest on: rows, or people where ids tell them apart.
    """
    table = grid("rate", "group", "", "95%", counts, left=2)
    for name, row in rates.items():
        largest = sorted(row, key=lambda group: -_rows(row[group]))[:_GROUPS]
        title = name
        for group, figure in row.items():
            if group in largest:
                rows = "" if figure is None else f"{figure.rows:,}"
                table.add_row(title, str(group), text(figure), interval_text(figure), rows)
                title = ""
        if len(row) > _GROUPS:
            table.add_row("", f"and {len(row) - _GROUPS:,} smaller")
    return table


def _rows(figure: Measured | None) -> int:
    return 0 if figure is None else figure.rows or 0


def gap_lines(name: str, audit: Audit, tolerance: Floats | float | None = None) -> Iterator[tuple[str, str]]:
    """A notion's gap over all sites and the largest inside one, each with what it shows, as notes.

    With a tolerance also how many sites are shown to be above it, or within.
    """
    yield spoken(name).capitalize(), ""
    yield "  over all", _shown(audit.headline_global, audit.with_few_rows(local=False))
    if len(audit.sites) > 1:
        small = audit.with_few_rows(local=True)
        yield "  inside sites", f"largest {_shown(audit.headline_local, small, floor=True)}"
        if tolerance is not None:
            yield "  each site", str(audit.check_sites(tolerance))


def _shown(gap: Gap, small: str, *, floor: bool = False) -> str:
    """A gap, what it shows beyond chance and, where it leaves small groups out, the gap with them."""
    found = f": {gap.finding}" if gap.finding else ""
    chance = f" ({gap.chance})" if floor and gap.chance else ""
    return f"{gap}{found}{chance}. {small}".rstrip()


def findings(audit: Audit, *, has_sites: bool) -> str:
    """What the gaps told first show beyond chance, without a full stop; empty where that cannot be said."""
    if not has_sites:
        return audit.headline_global.finding
    sides = {"inside sites": audit.headline_local, "over all": audit.headline_global}
    return "; ".join(f"{side} {gap.finding}" for side, gap in sides.items() if gap.finding)
