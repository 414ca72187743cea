"""Rows to fit on and rows to measure on, from the same files or from others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from logofair.columns.checks import Label, listed
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames, DataFiles, find_files
from logofair.files.rows import DataRows, read_rows
from logofair.progress import Progress, no_progress

__all__ = ["parts_of", "read_parts"]


def parts_of(
    files: DataFiles, columns: ColumnNames, test: Sequence[str], test_where: tuple[tuple[str, str], ...]
) -> tuple[ColumnNames, tuple[DataFiles, ColumnNames] | None]:
    """Which rows of DATA to fit on, and the files and rows to measure on; None where none were named.

    ``test`` are files of their own, of which ``test_where`` takes some rows. Without ``test`` these are rows of DATA,
    which are then not fitted on.
    """
    if not test and not test_where:
        return columns, None
    columns.require(files, label="labels, which test rows are measured with")
    others = find_files(test, client=columns.client) if test else files
    same = {path.resolve() for path in files.paths} & {path.resolve() for path in others.paths}
    if same and not test_where:
        name = min(path.name for path in same)
        raise InputError(f"--test: {name} is fitted on too; name other files, or say which rows with --test-where.")
    # Rows of DATA that --where leaves out are left out here too, unless --test-where asks for another value.
    named = {name for name, _ in test_where}
    kept = () if test else tuple(pair for pair in columns.where if pair[0] not in named)
    fitted = replace(columns, unless=test_where) if same else columns
    return fitted, (others, replace(columns, where=(*kept, *test_where)))


def read_parts(
    files: DataFiles,
    columns: ColumnNames,
    test: Sequence[str],
    test_where: tuple[tuple[str, str], ...],
    progress: Progress = no_progress,
) -> tuple[DataRows, DataRows | None]:
    """Read the rows to fit on and, where some were named, those to measure on; nobody may be among both."""
    fitted, other = parts_of(files, columns, test, test_where)
    rows = read_rows(files, fitted, progress)
    if other is None:
        return rows, None
    found = read_rows(*other, progress)
    both = set(_people(rows)) & set(_people(found))
    if both:
        names = listed(map(repr, sorted((person[-1] for person in both), key=str)), len(both))
        raise InputError(
            f"--test: {len(both):,} people by column {columns.id!r} are among the rows to fit on too ({names}); "
            "a test needs other people."
        )
    return rows, found


def _people(rows: DataRows) -> Iterator[tuple[Label, ...]]:
    """The people of some rows: ids at a client."""
    if rows.ids is None:
        return iter(())
    columns = [rows.ids] if rows.clients is None else [rows.clients, rows.ids]
    return zip(*(column.tolist() for column in columns), strict=True)
