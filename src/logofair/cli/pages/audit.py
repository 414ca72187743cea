"""An audit as a page for people, and as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from logofair.auditing.figures import FEW_ROWS, Figure, NotionFigures, plain
from logofair.auditing.result import value_of
from logofair.cli.commands.audit import FileAudit

__all__ = ["as_dict", "gap_text", "grid", "print_page", "show"]


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


def print_page(parts: Sequence[Any], console: Console) -> None:
    """Print parts one after another, without the spaces that would fill lines up to the page's width."""
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    console.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def notes(lines: Sequence[tuple[str, str]]) -> Table:
    """Sentences, each beside the word it explains."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for line in lines:
        table.add_row(*line)
    return table


def grid(*headers: str, left: int = 1) -> Table:
    """An empty table whose first columns are text and the others figures."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for place, header in enumerate(headers):
        text = place < left
        table.add_column(header, justify="left" if text else "right", overflow="fold", no_wrap=not text)
    return table


def _heading(found: FileAudit) -> Text:
    counted, columns = found.counted, found.columns
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
        f"Accepted ({rule}): {_share(counted.accepted)}"
        + ("" if found.accuracy is None else f"; accuracy {found.accuracy:.4f}"),
    ]
    return Text("\n".join(lines))


def _gaps(found: FileAudit, several: bool) -> Table:
    """Per notion the gap over all and the largest at a client, each with what it rests on."""
    table = grid("notion", "where", "gap", "rows", "rate", "groups", left=2)
    table.columns[4].justify = table.columns[5].justify = "left"
    table.columns[5].no_wrap = False
    for figures in found.notions:
        lines = [("over all", figures.whole)]
        if several:
            lines.append((_at(figures.worst), figures.worst))
            if figures.worst_solid != figures.worst:
                lines.append((f"{_at(figures.worst_solid)} ({FEW_ROWS}+)", figures.worst_solid))
        for place, (where, figure) in enumerate(lines):
            table.add_row("" if place else words(figures), where, *_row(figure, found.tolerance))
    return table


def _row(figure: Figure, tolerance: float) -> tuple[Text | str, ...]:
    if figure.value is None:
        return "undefined", "", "", "fewer than two to compare"
    rate = {"selection rate": "accepted", "true positive rate": "TPR", "false positive rate": "FPR"}[figure.rate or ""]
    pair = f"{figure.highest} over {figure.lowest}" if figure.value else ""
    return Text(f"{figure.value:.4f}", style="bold" if figure.value > tolerance else ""), f"{figure.rows:,}", rate, pair


def words(figures: NotionFigures) -> str:
    """A notion's name as people write it."""
    return figures.notion.name.replace("_", " ")


def _at(figure: Figure) -> str:
    return "at any client" if figure.value is None else f"at {figure.client}"


def _worst(found: FileAudit, most: int) -> Iterator[Any]:
    """The clients with the largest gap of any notion; gaps on few rows in brackets and ranked last."""
    counted, every = found.counted, _columns(found.notions)
    solid = np.array([[-1.0 if f.value is None else f.value for f in n.solid] for n in every]).max(0)
    rough = np.array([[-1.0 if f.value is None else f.value for f in n.local] for n in every]).max(0)
    order = np.lexsort((-rough, -solid))[:most]
    accuracy, sizes = counted.tally.accuracy(), counted.tally.rows.sum(2)
    yield Text(f"Worst clients, {order.size} of {len(counted.clients):,}, by their largest gap", style="bold")
    table = grid(
        "\nclient",
        "\nrows",
        "smallest\ngroup",
        "\naccuracy",
        *(_SHORT.get(n.notion.name, n.notion.name) for n in every),
    )
    for place in order.tolist():
        exact = value_of(accuracy[place])
        figures = [gap_text(n.local[place], n.solid[place]) for n in every]
        known = "-" if exact is None else f"{exact:.4f}"
        table.add_row(
            str(counted.clients[place]), f"{sizes[place].sum():,}", f"{sizes[place].min():,}", known, *figures
        )
    yield table


def _columns(every: Sequence[NotionFigures]) -> Sequence[NotionFigures]:
    """The notions worth a column: equalized odds is the larger of two that have one."""
    names = {figures.notion.name for figures in every}
    both = {"equal_opportunity", "predictive_equality"} <= names
    return [figures for figures in every if not (both and figures.notion.name == "equalized_odds")]


def gap_text(rough: Figure, solid: Figure) -> str:
    """A client's gap; in brackets where it rests on few rows."""
    if solid.value is not None:
        return f"{solid.value:.4f}"
    return "-" if rough.value is None else f"({rough.value:.4f})"


def _reading(found: FileAudit, several: bool) -> Iterator[tuple[str, str]]:
    """How to read the figures."""
    yield "Gap", "The largest rate of a group minus the smallest. Rows: each of these two rates has at least so many."
    if several and any(figures.worst != figures.worst_solid for figures in found.notions):
        brackets = " and stands in brackets" if any(f.value is None for n in found.notions for f in n.solid) else ""
        text = f"Only rates that rest on {FEW_ROWS} rows or more: a gap on fewer is mostly chance{brackets}."
        yield f"{FEW_ROWS}+", text
    if found.columns.label is None:
        yield "Labels", "None were named (--label), so accuracy and the notions that count by label are left out."


def _unlike(found: FileAudit) -> Iterator[tuple[str, str]]:
    """Where local and global disagree, judged by clients whose gap rests on enough rows; then where they agree."""
    alike: dict[str, list[str]] = {}
    title = "Disagree"
    for figures in found.notions:
        kind, others = figures.unlike(found.tolerance)
        known = sum(figure.value is not None for figure in figures.solid)
        if kind is None or not known:
            continue
        whole = "fair" if kind == "unfair" else "unfair"
        if not others:
            alike.setdefault(whole, []).append(f"{words(figures)} ({known:,})")
            continue
        listed = ", ".join(f"{figure.client} {figure.value:.4f}" for figure in others[:_NAMED])
        more = f" and {len(others) - _NAMED:,} more" if len(others) > _NAMED else ""
        yield (
            title,
            f"{words(figures).capitalize()} is {whole} over all ({figures.whole.value:.4f}), but {kind} inside "
            f"{len(others):,} of {known:,} clients: {listed}{more}.",
        )
        title = ""
    for whole, names in alike.items():
        yield "Agree", f"{whole.capitalize()} over all and inside every client: {', '.join(names)}."
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
    sizes = counted.tally.rows.sum(2)
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
        "accuracy": found.accuracy,
        "notions": {n.notion.name: n.as_dict(found.tolerance) for n in found.notions},
        "clients": [
            {
                "client": plain(name),
                "rows": int(sizes[place].sum()),
                "rows_by_group": sizes[place].tolist(),
                "accuracy": value_of(accuracy[place]),
                "gaps": {n.notion.name: n.local[place].as_dict() for n in found.notions},
                "gaps_30_rows": {n.notion.name: n.solid[place].as_dict() for n in found.notions},
            }
            for place, name in enumerate(counted.clients)
        ],
    }
