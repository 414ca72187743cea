"""The rows of some data in memory: the named columns of one or more files, checked and ready to fit."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.columns.attributes import read_groups
from logofair.columns.checks import Floats, nearest_name, shown
from logofair.columns.labels import Codes, encode
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles, DataSource, find_files, site_name
from logofair.files.tables import Table, TableFile, estimated_rows, fingerprint, open_table, regular_file
from logofair.files.values import (
    as_chances,
    binary_labels,
    check_scores,
    check_sites,
    combine_columns,
    is_number,
    label_text,
    plain_values,
)
from logofair.progress import Progress, Stages, no_progress

if TYPE_CHECKING:
    import polars

_LISTED = 10
_TWINS = 0.1  # at most this share of the rows to fit on may be alike for copies to tell something
_COPIES = 0.25  # above this share of the rows, copies are no accident


@dataclass(frozen=True, eq=False)
class DataRows:
    """Checked columns, as :func:`logofair.fit` takes them; None where there is no such column.

    ``dropped``: how many rows were left out because they lack a value.
    """

    scores: Floats | None
    labels: npt.NDArray[np.int64] | None
    groups: Codes | None
    sites: npt.NDArray[Any] | None
    weights: Floats | None
    ids: npt.NDArray[Any] | None
    dropped: int
    source: DataSource
    probabilities: Mapping[str, Floats]  # of every group, where such columns were named

    @property
    def arguments(self) -> dict[str, Any]:
        """The columns as the library's functions name them."""
        return {
            "scores": self.scores,
            "labels": self.labels,
            "sensitive_features": self.groups,
            "sites": self.sites,
            "sample_weight": self.weights,
            "ids": self.ids,
        } | ({"group_probabilities": self.probabilities} if self.probabilities else {})


def read_rows(
    files: DataFiles,
    columns: ColumnNames,
    progress: Progress = no_progress,
    *,
    option: str = "--where",
) -> DataRows:
    """Read the named columns of all files; ``option`` asked for these rows."""
    wanted = columns.by_role()
    with Stages(progress, "Reading", sum(map(estimated_rows, files.paths))) as stages:
        read = [_part(path, files, columns, wanted, stages.done) for path in files.paths]
    parts = [part for part, _ in read]
    if not any(part.height for part in parts):
        raise no_rows_error(files, columns, option)
    combined = {role: whole_column([part[role] for part in parts], role, files, columns) for role in parts[0].columns}
    count = sum(part.height for part in parts)
    if "site" in combined:
        check_sites(combined["site"].n_unique(), count, columns.site)
    arrays = {role: _array(column) for role, column in combined.items()}
    groups = {name: arrays[f"group {place}"] for place, name in enumerate(columns.group)}
    return DataRows(
        scores=arrays.get("score"),
        labels=arrays.get("label"),
        groups=read_groups(groups) if groups else None,
        sites=arrays.get("site"),
        weights=arrays.get("weight"),
        ids=arrays.get("id"),
        dropped=sum(left_out for _, left_out in read),
        source=source_of(files, columns, count),
        probabilities={name: arrays[f"probability {name}"] for name, _ in columns.group_probability},
    )


def source_of(files: DataFiles, columns: ColumnNames, rows: int) -> DataSource:
    """Where so many rows came from."""
    names = tuple(path.name for path in files.paths)
    marks = {path: fingerprint(path) for path in files.paths}
    mark = marks[files.paths[0]]
    if len(marks) > 1:  # that of the list of them
        lines = (f"{marks[path]}  {path.name}" for path in sorted(marks, key=lambda path: path.name))
        mark = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return DataSource(files.name, names, mark, rows, columns.described())


def no_rows_error(files: DataFiles, columns: ColumnNames, option: str = "--where") -> InputError:
    """Say why no row is left: none has the values ``option`` asked for, or all lack a value."""
    if columns.unless and any(_has_rows(path, (*columns.where, *columns.unless)) for path in files.paths):
        return InputError(f"--test-where: takes every row of {files.name}; none is left to fit on.")
    if not columns.where or any(_has_rows(path, columns.where) for path in files.paths):
        return InputError(f"{files.name}: every row lacks a value in some column named; nothing is left to work on.")
    for condition in columns.where:
        if not any(_has_rows(path, [condition]) for path in files.paths):
            name, value = condition
            seen = _values(files, name)
            hint = nearest_name(value, [text for text in seen if text != value])
            *others, last = [*map(shown, seen[:_LISTED]), *(["more"] if len(seen) > _LISTED else [])] or [
                "no value at all"
            ]
            listed = f"{', '.join(others)} and {last}" if others else last
            return InputError(f"{option}: no row has {name}={value}{hint}; {name} holds {listed}.")
    return InputError(f"{option}: no row has {columns.conditions}, though some have each of them; ask for less.")


def _has_rows(path: Path, where: Sequence[tuple[str, str]]) -> bool:
    """Whether a file has rows with these values."""
    with open_table(path, {}, where) as table:
        return table.collect(table.numbered.head(1)).height > 0


def _values(files: DataFiles, name: str) -> list[str]:
    """The values of a column, as they are typed; one more than are listed."""
    pl, seen = polars_module(), dict[str, None]()
    for path in files.paths:
        with open_table(path, {"value": name}) as table:
            texts = pl.col("value").cast(pl.String).drop_nulls().unique().sort().head(_LISTED + 1)
            seen |= dict.fromkeys(table.collect(table.rows.select(texts)).to_series().to_list())
        if len(seen) > _LISTED:
            break
    return sorted(seen)[: _LISTED + 1]


def _part(
    path: Path, files: DataFiles, columns: ColumnNames, wanted: dict[str, str], seen: Callable[[int], None]
) -> tuple[polars.DataFrame, int]:
    """One file's complete rows, with the file's name as their site where each is one; and how many were left out."""
    others, missing, scale = columns.unless, columns.na, columns.scale
    with open_table(path, wanted, columns.where, unless=others, missing=missing, scale=scale, seen=seen) as table:
        rows = table.collect()
        if not rows.height and not columns.conditions:
            raise InputError(f"{path}: has columns but no rows; pass a file with at least one.")
        complete = complete_rows(table, rows, wanted, drop_missing=columns.drop_missing)
    if files.by_file:
        complete = complete.with_columns(site=polars_module().lit(site_name(path)))
    return complete, rows.height - complete.height


def complete_rows(
    table: Table, rows: polars.DataFrame, roles: Collection[str], *, drop_missing: bool
) -> polars.DataFrame:
    """Those of a table's rows that have a value in every column of these roles.

    Numbers are then such, scores are chances, and labels of a kind that labels may have; raise on what cannot be used,
    and on rows that lack a value unless these are to be dropped.
    """
    checked = []
    for role in roles:
        cells = rows[role]
        values = plain_values(cells, table.where(role), "numbers" if is_number(role) else "text or numbers")
        if is_number(role):
            values = table.numbers(role, values)
            if values.null_count() > cells.null_count():  # what cannot be read is not missing
                table.check_numbers(role)  # which names the row by its number in the file
        checked.append(values.fill_nan(None) if values.dtype.is_float() else values)
    rows = rows.with_columns(checked)
    if "weight" in roles and (rows["weight"] < 0).any():
        table.check_numbers("weight")
    for role in roles if not drop_missing else ():
        if rows[role].null_count():
            table.check_missing(role)
    complete = rows.drop_nulls(list(roles))
    if "score" in roles and complete.height:
        scores = complete["score"]
        check_scores(float(scores.min()), float(scores.max()), table.scale, table.where("score"))  # type: ignore[arg-type]
        complete = complete.with_columns(as_chances(scores, table.scale))
    return complete


def whole_column(parts: Sequence[polars.Series], role: str, files: DataFiles, columns: ColumnNames) -> polars.Series:
    """A column of all files, with labels and decisions as 0 and 1."""
    named = columns.by_role().get(role)
    if named is None or is_number(role):
        column: polars.Series = polars_module().concat(list(parts))
        return column
    places = [f"{path}: column {named!r}" for path in files.paths]
    column = combine_columns(parts, places, [TableFile(path).kind == "CSV" for path in files.paths])
    if role not in ("label", "decision"):
        return column
    positive = columns.positive
    if role == "decision" and positive not in column.cast(polars_module().String).to_list():
        positive = None  # the decisions have other names than the labels
    return binary_labels(column, f"{files.name}: column {named!r}", positive, "--positive")


def _array(column: polars.Series) -> npt.NDArray[Any]:
    """A column as an array; rows of the same text share it."""
    pl = polars_module()
    if column.dtype != pl.String:
        return np.array(column.to_numpy())
    names = column.unique(maintain_order=True)
    places = column.cast(pl.Enum(names)).to_physical().to_numpy()
    texts: npt.NDArray[Any] = np.array(names.to_list(), dtype=object)[places]
    return texts


# ---------------------------------------------------------------- rows to fit on, and rows to measure on


def _parts_of(
    files: DataFiles, columns: ColumnNames, test: Sequence[str], test_where: tuple[tuple[str, str], ...]
) -> tuple[ColumnNames, tuple[DataFiles, ColumnNames] | None]:
    """Which rows of DATA to fit on, and the files and rows to measure on; None where none were named.

    ``test`` are files of their own, of which ``test_where`` takes some rows. Without ``test`` these are rows of DATA,
    which are then not fitted on.
    """
    if not test and not test_where:
        return columns, None
    columns.require(files, label="labels, which test rows are measured with", group="groups, which tests compare")
    others = replace(find_files(test, site=columns.site), by_file=files.by_file) if test else files
    sizes: dict[int, list[Path]] = {}
    for path in files.paths:
        sizes.setdefault(regular_file(path).stat().st_size, []).append(path)
    alike = ((path, each) for path in others.paths for each in sizes.get(regular_file(path).stat().st_size, ()))
    # The first that is fitted on too, under whatever name.
    same = next((path for path, each in alike if path.samefile(each) or fingerprint(path) == fingerprint(each)), None)
    if same is not None and not test_where:
        raise InputError(
            f"--test: {same.name} is fitted on too; name other files, or say which rows with --test-where."
        )
    # Rows of DATA that --where leaves out are left out here too, unless --test-where asks for another value.
    tested = {name for name, _ in test_where}
    kept = () if test else tuple(pair for pair in columns.where if pair[0] not in tested)
    fitted = columns if same is None else replace(columns, unless=test_where)
    return fitted, (others, replace(columns, where=(*kept, *test_where)))


def read_parts(
    files: DataFiles,
    columns: ColumnNames,
    test: Sequence[str],
    test_where: tuple[tuple[str, str], ...],
    progress: Progress = no_progress,
) -> tuple[DataRows, DataRows | None]:
    """Read the rows to fit on and, where some were named, those to measure on; nobody may be among both."""
    fitted, other = _parts_of(files, columns, test, test_where)
    rows = read_rows(files, fitted, progress)
    if other is None:
        return rows, None
    found = read_rows(*other, progress, option="--test-where")
    if rows.ids is not None and found.ids is not None:  # at whatever site: the same people are no test
        fitted_on, tested = (
            {label_text(each) for each in dict.fromkeys(ids.tolist())} for ids in (rows.ids, found.ids)
        )
        if both := fitted_on & tested:
            are = "id of the test rows is" if len(both) == 1 else "ids of the test rows are"
            raise InputError(
                f"--id: {len(both):,} {are} among the rows to fit on too, such as {shown(min(both))} in column "
                f"{columns.id!r}; a test needs other people: leave these out of one of the two."
            )
    if found.sites is not None and rows.sites is not None:
        found = replace(found, sites=_as_known(encode(found.sites, "--test"), encode(rows.sites, "--site")).labels)
    assert found.groups is not None
    assert rows.groups is not None  # --test needs them
    groups = _as_known(found.groups, rows.groups)
    found = replace(found, groups=groups)
    if unknown := set(groups.names) - set(rows.groups.names):
        name = min(map(label_text, unknown))
        raise InputError(f"--test: has rows of group {name!r}, which no row to fit on is of; leave them out.")
    if rows.ids is None:
        _check_copies(rows, found)
    return rows, found


def _check_copies(known: DataRows, found: DataRows) -> None:
    """Raise where many test rows are also among those to fit on, though few of these are alike.

    A new row is like a known one about as often as a known one is like another: where scores are so coarse that this
    is common, nothing is said.
    """
    names = [name for name in ("scores", "labels", "groups", "sites") if getattr(found, name) is not None]
    there, here = _lines(known, names), _lines(found, names)
    twins, copies = int(there.is_duplicated().sum()), here.join(there, on=here.columns, how="semi").height
    if twins <= _TWINS * there.height and copies > _COPIES * here.height:
        *first, last = (name.removesuffix("s") for name in names)
        are = f"{copies:,} of {here.height:,} rows are" if here.height > 1 else "its only row is"
        raise InputError(
            f"--test: {are} also among the rows to fit on (same {', '.join(first)} and {last}); a test needs other "
            "people, or --id to tell them apart."
        )


def _lines(rows: DataRows, names: Sequence[str]) -> polars.DataFrame:
    """These columns, which tell rows apart where there are no ids; groups and sites as text."""
    pl = polars_module()
    numbers = {name: getattr(rows, name) for name in names if name in ("scores", "labels")}
    lines: polars.DataFrame = pl.DataFrame(
        {name: np.asarray(column, dtype=np.float64) for name, column in numbers.items()}
    )
    for name in names:
        if name not in numbers:
            labels = encode(getattr(rows, name), name)
            texts = pl.Series(name, [label_text(label) for label in labels.names])
            lines = lines.with_columns(texts.gather(labels.codes))
    return lines


def _as_known(labels: Codes, known: Codes) -> Codes:
    """Labels as other rows have them: files, or some rows of one, may hold as text what others hold as numbers."""
    texts = {label_text(name): name for name in known.names}
    return replace(labels, names=tuple(texts.get(label_text(name), name) for name in labels.names))
