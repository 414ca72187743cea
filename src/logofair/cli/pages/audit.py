"""An audit of files: their rows counted, the notions measured, a page for people, and plain values.

No file needs to fit into memory: each becomes a small table with a line per client, group, label and decision, and its
columns are checked on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from logofair.auditing import FEW_ROWS, Audit, Gap
from logofair.auditing.measure import Tally, plain, value_of
from logofair.auditing.result import RuleAudit
from logofair.cli.pages.console import grid, notes, print_page, share, spoken
from logofair.columns.checks import Floats, Label
from logofair.columns.labels import encode
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles, client_name, find_files
from logofair.files.rows import no_rows_error, whole_column
from logofair.files.tables import Table, open_table
from logofair.files.values import (
    as_chances,
    as_numbers,
    check_clients,
    check_scores,
    join_groups,
    plain_values,
)
from logofair.notions import NOTIONS

if TYPE_CHECKING:
    import polars

    from logofair.progress import Progress

__all__ = ["FileAudit", "FileTally", "as_dict", "count_rows", "examine", "show"]


_SHORT = {
    "demographic_parity": "demographic\nparity",
    "equal_opportunity": "equal\nopportunity",
    "predictive_equality": "predictive\nequality",
    "equalized_odds": "equalized\nodds",
}
_NAMED = 5
_GROUPS = 8
_COUNTS = ("rows", "mass", "accepted")
_MOST_CELLS = 2_000_000  # more combinations of client, group and label than this are ids passed by mistake


@dataclass(frozen=True, eq=False)
class FileTally:
    """What was counted, with the names of the clients and groups; ``clients`` is (None,) where there are none."""

    tally: Tally
    groups: tuple[Label, ...]
    clients: tuple[Label | None, ...]
    rows: int
    dropped: int


@dataclass(frozen=True, eq=False)
class FileAudit:
    """What an audit of files found."""

    data: str
    files: int
    columns: ColumnNames
    threshold: float
    tolerance: float
    counted: FileTally
    measured: RuleAudit


def examine(
    data: Sequence[str],
    columns: ColumnNames,
    threshold: float,
    tolerance: float,
    notion: Sequence[str],
    progress: Progress,
) -> FileAudit:
    """Count the rows of the files and measure the notions asked for; without labels those that need none."""
    files = find_files(data, client=columns.client)
    columns.require(files, group="the groups to compare, such as sex")
    if columns.decision is None:
        columns.require(files, score="scores (or --decision that of decisions)")
    elif columns.score is not None:
        raise InputError("--decision: given together with --score; audit either the scores or the decisions.")
    wanted = list(dict.fromkeys(notion or NOTIONS))
    if any(NOTIONS[name].needs_labels for name in notion):
        columns.require(files, label="labels, which these notions count by")
    counted = count_rows(files, columns, threshold, progress)
    measured = RuleAudit.of(counted.tally, counted.groups, counted.clients, [NOTIONS[name] for name in wanted])
    return FileAudit(files.name, len(files.paths), columns, threshold, tolerance, counted, measured)


def count_rows(files: DataFiles, columns: ColumnNames, threshold: float, progress: Progress) -> FileTally:
    """Count the rows of every client, group and label, and how many of them are accepted."""
    read = [_part(path, columns, threshold) for path in progress(files.paths, "Counting", len(files.paths))]
    parts, pl = [part for part, _ in read], polars_module()
    if files.by_file:
        parts = [
            part.with_columns(client=pl.lit(client_name(path))) for part, path in zip(parts, files.paths, strict=True)
        ]
    used = [role for role in parts[0].columns if role in _COUNTS or role in columns.by_role() or role == "client"]
    counted = [role for role in used if role not in ("score", "weight")]
    complete = {role: whole_column([part[role] for part in parts], role, files, columns) for role in counted}
    group = join_groups([complete.pop(role) for role in used if role.startswith("group ")])
    rows = int(complete["rows"].sum())
    if not rows:
        raise no_rows_error(files, columns)
    if "client" in complete:
        check_clients(complete["client"].n_unique(), rows, columns.client)
    tally, groups, clients = _tallied(complete, group, columns)
    if len(groups) < 2:
        where = " and ".join(map(repr, columns.group))
        raise InputError(f"--group: every row of {where} is of group {groups[0]!r}; a gap needs at least two groups.")
    return FileTally(tally, groups, clients, rows, sum(left_out for _, left_out in read))


def _tallied(
    complete: dict[str, polars.Series], group: polars.Series, columns: ColumnNames
) -> tuple[Tally, tuple[Label, ...], tuple[Label | None, ...]]:
    """The lines of the table as arrays by (client, group, label), and the names of groups and clients."""
    groups = encode(group.to_list(), "groups")
    clients = encode(complete["client"].to_list(), "clients") if "client" in complete else None
    names: tuple[Label | None, ...] = (None,) if clients is None else clients.names
    shape = (len(names), len(groups.names), 2)
    cell = groups.codes.astype(np.intp) * 2
    cell += 0 if clients is None else clients.codes.astype(np.intp) * 2 * shape[1]
    cell += complete["label"].to_numpy() if columns.label else 0

    def summed(column: polars.Series) -> Floats:
        sums = np.bincount(cell, column.cast(polars_module().Float64).to_numpy(), minlength=int(np.prod(shape)))
        return np.asarray(sums, dtype=np.float64).reshape(shape)

    mass = complete.get("mass", complete["rows"])
    accepted = mass * complete["decision"] if columns.decision else complete["accepted"]
    rows = summed(complete["rows"]).round().astype(np.intp)
    return Tally(rows, summed(mass), summed(accepted), columns.label is not None), groups.names, names


def _part(path: Path, columns: ColumnNames, threshold: float) -> tuple[polars.DataFrame, int]:
    """One file's table, checked; and how many rows were left out."""
    pl = polars_module()
    with open_table(path, columns.by_role(), columns.where, missing=columns.na) as table:
        numbers = [role for role in ("score", "weight") if role in table.names]
        schema = table.rows.collect_schema()
        for role, kind in schema.items():  # refuses dates, lists and whatever else no column may hold
            expected = "numbers" if role in numbers else "text or numbers"
            plain_values(pl.Series([], dtype=kind), table.where(role), expected)
        keys = [role for role in table.names if role not in numbers]
        rows = table.rows.with_columns(
            *(each for role in numbers for each in _number(role, schema[role], columns.scale))
        )
        counted = table.collect(rows.group_by(keys).agg(*_sums(numbers, columns, threshold)))
        _check(table, counted, keys, columns)
        complete = counted.drop_nulls(keys)
        left_out = int(counted["lines"].sum()) - int(complete["rows"].sum())
        return complete.filter(pl.col("rows") > 0), left_out


def _number(role: str, kind: Any, scale: str) -> list[Any]:
    """A column of numbers, null where one is missing; and, of text, whether a cell holds something else."""
    pl = polars_module()
    read = as_numbers(pl.col(role), kind, scale if role == "score" else "chance")
    unread = pl.col(role).is_not_null() & read.is_null()  # NaN can be read
    return [read.fill_nan(None), *([unread.alias(f"unread {role}")] if kind == pl.String else [])]


def _sums(numbers: Sequence[str], columns: ColumnNames, threshold: float) -> list[Any]:
    """What is counted in each line: all rows, complete rows and their mass, accepted mass, and what checks need."""
    pl = polars_module()
    if not numbers:
        return [pl.len().alias("lines"), pl.len().alias("rows")]
    complete, weighted = pl.all_horizontal([pl.col(role).is_not_null() for role in numbers]), "weight" in numbers
    found = [pl.len().alias("lines"), complete.sum().alias("rows")]
    found += [pl.col(f"^unread {role}$").any() for role in numbers]
    if weighted:
        found += [pl.col("weight").filter(complete).sum().alias("mass"), pl.col("weight").min().alias("lightest")]
    if "score" in numbers:
        accepts = as_chances(pl.col("score"), columns.scale) >= threshold
        accepted = pl.col("weight").filter(complete & accepts).sum() if weighted else accepts.sum().cast(pl.Float64)
        found += [accepted.alias("accepted"), pl.col("score").min().alias("low"), pl.col("score").max().alias("high")]
    return found


def _check(table: Table, counted: polars.DataFrame, keys: Sequence[str], columns: ColumnNames) -> None:
    """Raise where a column of the file cannot be used."""
    pl, rows = polars_module(), int(counted["lines"].sum())
    if not rows and not columns.where:
        raise InputError(f"{table.file}: has columns but no rows; pass a file with at least one.")
    if counted.height > _MOST_CELLS:
        raise InputError(f"{table.file}: has too many clients and groups to audit; name columns of sites, not of ids.")
    for role in ("score", "weight"):
        if f"unread {role}" in counted.columns and counted[f"unread {role}"].any():
            table.check_numbers(role, columns.scale if role == "score" else "chance")
    if not columns.drop_missing:
        for role in keys:
            table.check_missing(role, int(counted.filter(pl.col(role).is_null())["lines"].sum()), rows)
        for role in ("score", "weight"):
            if role in table.names and counted["rows"].sum() < rows:
                table.check_missing(role, _missing(table, role, columns.scale), rows)
    if "low" in counted.columns and counted["low"].count():
        low, high = counted.select(pl.col("low").min(), pl.col("high").max()).row(0)
        check_scores(low, high, columns.scale, table.where("score"))
    if "lightest" in counted.columns and (counted["lightest"].min() or 0) < 0:  # type: ignore[operator]
        table.check_weights()


def _missing(table: Table, role: str, scale: str) -> int:
    """How many rows lack a number."""
    read = _number(role, table.rows.collect_schema()[role], scale)[0]
    return int(table.collect(table.rows.select(read.is_null().sum())).item())


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
    known = "" if accuracy is None else f"; accuracy {accuracy:.4f}"
    lines = [
        f"{found.data}: {counted.rows:,} rows{where}{dropped}{clients}; {separator.join(groups[:_GROUPS])}{more}",
        f"Accepted ({rule}): {share(found.measured.accepted)}{known}",
    ]
    return Text("\n".join(lines))


def _gaps(found: FileAudit, several: bool) -> Grid:
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
    """The notions worth a column: not those whose rates each have a column of their own."""
    alone = {audit.local.rates[0] for audit in audits.values() if len(audit.local.rates) == 1}
    return {
        name: audit
        for name, audit in audits.items()
        if len(audit.local.rates) == 1 or not set(audit.local.rates) <= alone
    }


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
        "accepted": found.measured.accepted,
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
    """One notion's gaps, and the clients that are otherwise than all together."""
    others = [plain(gap.client) for gap in audit.contrary_clients(tolerance)]
    fair = audit.global_gap is not None and audit.global_gap <= tolerance
    return audit.largest_as_dict() | {
        "unfair_clients_though_globally_fair": others if fair else [],
        "fair_clients_though_globally_unfair": [] if fair else others,
        "clients_too_small_to_say": sum(gap.value is None for gap in audit.large_client_gaps),
    }
