"""Measured figures on pages: what gaps show beyond chance, and what groups of few rows would say."""

from __future__ import annotations

from collections.abc import Iterator

from logofair.auditing import FEW_ROWS, Audit

__all__ = ["findings", "of_few_rows"]


def findings(audit: Audit, *, has_clients: bool) -> str:
    """What the gaps told first show beyond chance, without a full stop; empty where that cannot be said."""
    if not has_clients:
        return audit.headline_global.finding
    sides = {"inside clients": audit.headline_local, "over all": audit.headline_global}
    return "; ".join(f"{side} {gap.finding}" for side, gap in sides.items() if gap.finding)


def of_few_rows(audit: Audit, *, has_clients: bool) -> Iterator[str]:
    """Gaps that groups of few rows would put in the place of those told first, as sentences."""
    local = [(audit.headline_local, audit.worst_local)] if has_clients else []
    for headline, worst in (*local, (audit.headline_global, audit.worst_global)):
        if worst.value is not None and worst != headline:
            yield f"with groups of fewer than {FEW_ROWS} rows {worst}."
