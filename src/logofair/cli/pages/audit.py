"""An audit as a page for people, and as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.auditing import FEW_ROWS, Audit, Gap
from logofair.auditing.measure import plain
from logofair.auditing.result import value_of
from logofair.cli.pages.console import grid, notes, print_page, spoken

if TYPE_CHECKING:
    from logofair.cli.commands.audit import FileAudit

__all__ = ["as_dict", "show"]


_SHORT = {
    "demographic_parity": "demographic\nparity",
    "equal_opportunity": "equal\nopportunity",
    "predictive_equality": "predictive\nequality",
    "equalized_odds": "equalized\nodds",
}
_NAMED = 5
_GROUPS = 8


def show(found: FileAudit, worst: int, console: Console) -> None:
    """Print an audit."""
    several = len(found.counted.clients) > 1
    parts: list[Any] = [_heading(found), "", _gaps(found, several)]
    if several and worst:
        parts += ["", *_worst(found, worst)]
    parts += ["", notes([*_reading(found, several), *(_unlike(found) if several else ())])]
    print_page(parts, console)


def _heading(found: FileAudit) -> Text:
    counted, columns, accuracy = found.counted, found.columns, found.measured.accuracy
    sizes = counted.tally.rows.sum((0, 2))
    groups = [f"{name} {size:,}" for name, size in zip(counted.groups, sizes.tolist(), strict=True)]
    more = f" and {len(groups) - _GROUPS} more" if len(groups) > _GROUPS else ""
    separator = ", " if len(columns.group) == 1 else "; "
    clients = "" if counted.clients == (None,) else f" at {len(counted.clients):,} clients"
    dropped = f" ({counted.dropped:,} left out for lack of a value)" if counted.dropped else ""
    where = f" where {columns.conditions}" if columns.where else ""
    rule = (
        f"decisions {columns.decision!r}"
        if columns.decision
        else f"score {columns.score!r} from {found.threshold:g} on"
    )
    lines = [
        f"{found.data}: {counted.rows:,} rows{where}{dropped}{clients}; {separator.join(groups[:_GROUPS])}{more}",
        f"Accepted ({rule}): {_share(counted.accepted)}" + ("" if accuracy is None else f"; accuracy {accuracy:.4f}"),
    ]
    return Text("\n".join(lines))


def _gaps(found: FileAudit, several: bool) -> Table:
    """Per notion the gap over all and the largest at a client, each with what it rests on."""
    table = grid("notion", "where", "gap", "rows", "rate", "groups", left=2)
    table.columns[4].justify = table.columns[5].justify = "left"
    table.columns[5].no_wrap = False
    for name, audit in found.measured.by_notion.items():
        lines = [("over all", audit.worst_global)]
        if several:
            lines.append((_at(audit.worst_local), audit.worst_local))
            if audit.worst_large != audit.worst_local:
                lines.append((f"{_at(audit.worst_large)} ({FEW_ROWS}+)", audit.worst_large))
        for place, (where, gap) in enumerate(lines):
            table.add_row("" if place else spoken(name), where, *_row(gap, found.tolerance))
    return table


def _row(gap: Gap, tolerance: float) -> tuple[Text | str, ...]:
    if gap.value is None:
        return "undefined", "", "", "fewer than two to compare"
    rate = {"selection rate": "accepted", "true positive rate": "TPR", "false positive rate": "FPR"}[gap.rate]
    pair = f"{gap.highest} over {gap.lowest}" if gap.value else ""
    return Text(f"{gap.value:.4f}", style="bold" if gap.value > tolerance else ""), f"{gap.rows:,}", rate, pair


def _at(gap: Gap) -> str:
    return "at any client" if gap.value is None else f"at {gap.client}"


def _worst(found: FileAudit, most: int) -> Iterator[Any]:
    """The clients with the largest gap of any notion; gaps on few rows in brackets and ranked last."""
    counted, audits = found.counted, _columns(found.measured.by_notion)
    large, every = (
        np.array([[-1.0 if gap.value is None else gap.value for gap in gaps] for gaps in by_notion]).max(0)
        for by_notion in ([a.large_client_gaps for a in audits.values()], [a.client_gaps for a in audits.values()])
    )
    order = np.lexsort((-every, -large))[:most]
    accuracy, sizes = counted.tally.accuracy(), counted.tally.rows.sum(2)
    yield Text(f"Worst clients, {order.size} of {len(counted.clients):,}, by their largest gap", style="bold")
    table = grid("\nclient", "\nrows", "smallest\ngroup", "\naccuracy", *(_SHORT.get(name, name) for name in audits))
    for place in order.tolist():
        exact = value_of(accuracy[place])
        gaps = [_gap_text(a.client_gaps[place], a.large_client_gaps[place]) for a in audits.values()]
        known = "-" if exact is None else f"{exact:.4f}"
        table.add_row(str(counted.clients[place]), f"{sizes[place].sum():,}", f"{sizes[place].min():,}", known, *gaps)
    yield table


def _columns(audits: Mapping[str, Audit]) -> Mapping[str, Audit]:
    """The notions worth a column: equalized odds is the larger of two that have one."""
    both = {"equal_opportunity", "predictive_equality"} <= set(audits)
    return {name: audit for name, audit in audits.items() if not (both and name == "equalized_odds")}


def _gap_text(every: Gap, large: Gap) -> str:
    """A client's gap; in brackets where it rests on few rows."""
    if large.value is not None:
        return f"{large.value:.4f}"
    return "-" if every.value is None else f"({every.value:.4f})"


def _reading(found: FileAudit, several: bool) -> Iterator[tuple[str, str]]:
    """How to read the figures."""
    audits = found.measured.by_notion.values()
    yield "Gap", "The largest rate of a group minus the smallest. Rows: each of these two rates has at least so many."
    if several and any(audit.worst_local != audit.worst_large for audit in audits):
        small = any(gap.value is None for audit in audits for gap in audit.large_client_gaps)
        brackets = " and stands in brackets" if small else ""
        text = f"Only rates that rest on {FEW_ROWS} rows or more: a gap on fewer is mostly chance{brackets}."
        yield f"{FEW_ROWS}+", text
    if found.columns.label is None:
        yield "Labels", "None were named (--label), so accuracy and the notions that count by label are left out."


def _unlike(found: FileAudit) -> Iterator[tuple[str, str]]:
    """Where local and global disagree, judged by clients whose gap rests on enough rows; then where they agree."""
    alike: dict[str, list[str]] = {}
    title = "Disagree"
    for name, audit in found.measured.by_notion.items():
        global_gap, known = audit.global_gap, sum(gap.value is not None for gap in audit.large_client_gaps)
        if global_gap is None or not known:
            continue
        kind, contrary = ("fair", "unfair") if global_gap <= found.tolerance else ("unfair", "fair")
        others = audit.contrary_clients(found.tolerance)
        if not others:
            alike.setdefault(kind, []).append(f"{spoken(name)} ({known:,})")
            continue
        listed = ", ".join(f"{gap.client} {gap.value:.4f}" for gap in others[:_NAMED])
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        yield (
            title,
            f"{spoken(name).capitalize()} is {kind} over all ({global_gap:.4f}), but {contrary} inside "
            f"{len(others):,} of {known:,} clients: {listed}{more}.",
        )
        title = ""
    for kind, names in alike.items():
        yield "Agree", f"{kind.capitalize()} over all and inside every client: {', '.join(names)}."
    yield (
        "",
        f"Fair means a gap of at most {found.tolerance:g} (--tolerance). Only clients count that have two groups of "
        f"{FEW_ROWS}+ rows; their number stands in brackets.",
    )


def _share(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.1%}"


def as_dict(found: FileAudit) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    counted, accuracy = found.counted, found.counted.tally.accuracy()
    sizes, audits = counted.tally.rows.sum(2), found.measured.by_notion
    return {
        "data": found.data,
        "files": found.files,
        "columns": found.columns.described(),
        "threshold": None if found.columns.decision else found.threshold,
        "tolerance": found.tolerance,
        "rows": counted.rows,
        "rows_left_out": counted.dropped,
        "groups": [plain(name) for name in counted.groups],
        "accepted": counted.accepted,
        "accuracy": found.measured.accuracy,
        "notions": {name: _notion_dict(audit, found.tolerance) for name, audit in audits.items()},
        "clients": [
            {
                "client": plain(name),
                "rows": int(sizes[place].sum()),
                "rows_by_group": sizes[place].tolist(),
                "accuracy": value_of(accuracy[place]),
                "gaps": {name: audit.client_gaps[place].as_dict() for name, audit in audits.items()},
                "gaps_30_rows": {name: audit.large_client_gaps[place].as_dict() for name, audit in audits.items()},
            }
            for place, name in enumerate(counted.clients)
        ],
    }


def _notion_dict(audit: Audit, tolerance: float) -> dict[str, Any]:
    """One notion's gaps, and the clients that are otherwise than the whole."""
    others = [plain(gap.client) for gap in audit.contrary_clients(tolerance)]
    fair = audit.global_gap is not None and audit.global_gap <= tolerance
    return audit.largest_as_dict() | {
        "unfair_clients_inside_a_fair_whole": others if fair else [],
        "fair_clients_inside_an_unfair_whole": [] if fair else others,
        "clients_too_small_to_say": sum(gap.value is None for gap in audit.large_client_gaps),
    }
