"""Rows to fit on and rows to measure on, from the same files or from others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import shown
from logofair.columns.labels import Codes, encode
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ColumnNames, DataFiles, find_files
from logofair.files.rows import DataRows, read_rows
from logofair.files.tables import fingerprint, regular_file
from logofair.files.values import label_text
from logofair.progress import Progress, no_progress

if TYPE_CHECKING:
    import polars

_TWINS = 0.1  # at most this share of the rows to fit on may be alike for copies to tell something
_COPIES = 0.25  # above this share of the rows, copies are no accident


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
    others = replace(find_files(test, site=columns.site), by_file=files.by_file) if test else files
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
    sites = None if found.sites is None or rows.sites is None else _as_known(found.sites, rows.sites)
    found = replace(found, groups=_as_known(found.groups, rows.groups), sites=sites)
    if unknown := set(encode(found.groups, "--test").names) - set(encode(rows.groups, "--test").names):
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


def _as_known(labels: npt.NDArray[Any], known: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels as other rows have them: files, or some rows of one, may hold as text what others hold as numbers."""
    texts = {label_text(name): name for name in encode(known, "labels").names}
    own = encode(labels, "labels")
    names = tuple(texts.get(label_text(name), name) for name in own.names)
    return labels if list(map(type, names)) == list(map(type, own.names)) else Codes(names, own.codes).labels
