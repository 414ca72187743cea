"""Rows to fit on and rows to measure on, from the same files or from others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import shown
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames, DataFiles, find_files
from logofair.files.rows import DataRows, read_rows
from logofair.files.tables import fingerprint, regular_file
from logofair.files.values import label_text
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
        if columns.id is not None:
            raise InputError("--id: tells people of test rows apart; name these with --test or --test-where.")
        return columns, None
    columns.require(files, label="labels, which test rows are measured with")
    others = replace(find_files(test, client=columns.client), by_file=files.by_file) if test else files
    same = _same_file(others.paths, files.paths)
    if same is not None and not test_where:
        raise InputError(
            f"--test: {same.name} is fitted on too; name other files, or say which rows with --test-where."
        )
    # Rows of DATA that --where leaves out are left out here too, unless --test-where asks for another value.
    tested = {name for name, _ in test_where}
    kept = () if test else tuple(pair for pair in columns.where if pair[0] not in tested)
    fitted = columns if same is None else replace(columns, unless=test_where)
    return fitted, (others, replace(columns, where=(*kept, *test_where)))


def _same_file(paths: Sequence[Path], others: Sequence[Path]) -> Path | None:
    """The first of some files that is among others, under whatever name."""
    sizes: dict[int, list[Path]] = {}
    for other in others:
        sizes.setdefault(regular_file(other).stat().st_size, []).append(other)
    for path in paths:
        for other in sizes.get(regular_file(path).stat().st_size, ()):
            if path.samefile(other) or fingerprint(path) == fingerprint(other):
                return path
    return None


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
    found = read_rows(*other, progress, option="--test-where")
    if rows.ids is not None and found.ids is not None:
        _check_people(rows.ids, found.ids, columns.id)
    groups = _as_known(found.groups, rows.groups)
    if unknown := set(groups.tolist()) - set(rows.groups.tolist()):
        name = min(map(label_text, unknown))
        raise InputError(f"--test: has rows of group {name!r}, which no row to fit on is of; leave them out.")
    clients = None if found.clients is None or rows.clients is None else _as_known(found.clients, rows.clients)
    return rows, replace(found, groups=groups, clients=clients)


def _check_people(fitted: npt.NDArray[Any], measured: npt.NDArray[Any], column: str | None) -> None:
    """Raise where an id is among both, whatever client it is at: the same people are no test."""
    known, others = ({label_text(name) for name in dict.fromkeys(ids.tolist())} for ids in (fitted, measured))
    if both := known & others:
        are = "id of the test rows is" if len(both) == 1 else "ids of the test rows are"
        raise InputError(
            f"--id: {len(both):,} {are} among the rows to fit on too, such as {shown(min(both))} in column {column!r}; "
            "a test needs other people: leave these out of one of the two."
        )


def _as_known(labels: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels as other rows have them: files, or some rows of one, may hold as text what others hold as numbers."""
    texts = {label_text(name): name for name in dict.fromkeys(known.tolist())}
    names = {name: texts.get(label_text(name), name) for name in dict.fromkeys(labels.tolist())}
    if all(type(old) is type(new) for old, new in names.items()):
        return labels
    found = np.empty(labels.size, dtype=object)
    found[:] = [names[name] for name in labels.tolist()]
    return found
