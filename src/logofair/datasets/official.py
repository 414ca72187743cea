"""Official tables, however they come: CSV files, CSV files inside ZIP files, Parquet files, or a folder of these.

How such files are written is known to `logofair.files`; here they are found, and read batch by batch.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from logofair.datasets.cache import is_prepared
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.csv_files import TableFile, zip_errors
from logofair.files.tables import column_names, estimated_rows, open_table, regular_file
from logofair.progress import Progress

if TYPE_CHECKING:
    import polars

__all__ = ["BATCH", "OfficialTable", "batches", "check_people", "find_tables", "one_layout", "persons_of"]

BATCH = 100_000  # rows read at a time
_TEXT, _ARCHIVE, _PARQUET = (".csv", ".txt"), ".zip", ".parquet"
Layout = TypeVar("Layout")


@dataclass(frozen=True)
class OfficialTable:
    """A table and the names of its columns."""

    file: TableFile
    header: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.file)

    def batches(self, names: Sequence[str], size: int = BATCH) -> Iterator[polars.DataFrame]:
        """Read the named columns; cells of a CSV are text, null where empty."""
        with open_table(self.file, {name: name for name in names}) as table:
            yield from table.batches(size)


def batches(
    tables: Sequence[OfficialTable], names: Sequence[str], progress: Progress, size: int
) -> Iterable[tuple[OfficialTable, polars.DataFrame]]:
    """Read the columns of all tables batch by batch, each with the table it is from, and show how far it is."""
    read = ((table, batch) for table in tables for batch in table.batches(names, size))
    total = sum(estimated_rows(table.file) // size + 1 for table in tables)
    return progress(read, "Reading the rows", total=total)


def find_tables(source: Path, mark: str, what: str) -> list[OfficialTable]:
    """Find the tables with a column ``mark`` in a file, a ZIP file, or a folder and the folders below it.

    Raise one sentence where there is none (``what`` says what was looked for) or where one is there twice.
    """
    source = Path(source)
    if not source.exists():
        raise InputError(f"{source}: not there; check the path.")
    paths = _inside(source) if source.is_dir() else [regular_file(source)]
    tables = (OfficialTable(file, tuple(column_names(file))) for path in paths for file in _tables(path))
    found = [table for table in tables if mark in table.header]
    if not found:
        raise InputError(
            f"{source}: holds no {what} (no CSV, ZIP or Parquet file with a column {mark!r}); pass the official files."
        )
    known: dict[str, OfficialTable] = {}
    for table in found:  # packed and unpacked, its people would count twice
        if table.file.name in known:
            raise InputError(f"{table}: the same table as {known[table.file.name]}; leave one of them.")
        known[table.file.name] = table
    return found


def one_layout(
    tables: Sequence[OfficialTable], layout_of: Callable[[OfficialTable], Layout], differing: str, kind: str
) -> Layout:
    """Return the layout of all tables, or raise; ``differing`` and ``kind`` are words for the sentence."""
    first = layout_of(tables[0])
    for table in tables[1:]:
        if layout_of(table) != first:
            raise InputError(f"{table}: has other {differing} than {tables[0]}; prepare files of one {kind} at a time.")
    return first


def persons_of(table: OfficialTable, rows: polars.DataFrame, columns: Sequence[str]) -> polars.DataFrame:
    """Who the rows are, by the columns that tell it, and the table they are from; for `check_people`."""
    pl = polars_module()
    # "06", 6 and 6.0 are one number, whatever kind of file it stands in.
    cells = [pl.col(name).cast(pl.String).str.strip_suffix(".0").str.strip_chars_start("0") for name in columns]
    person = pl.concat_str(cells, separator=" ").hash()
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in columns)
    found: polars.DataFrame = rows.filter(known).select(person=person, table=pl.lit(str(table)).cast(pl.Categorical))
    return found


def check_people(people: Sequence[polars.DataFrame], columns: Sequence[str]) -> None:
    """Raise one sentence where a person is there twice."""
    pl = polars_module()
    every = pl.concat(people)
    repeats = every.filter(~pl.col("person").is_first_distinct())
    if repeats.is_empty():
        return
    table, person = repeats["table"][0], repeats["person"][0]
    there = every.filter(pl.col("person") == person)["table"][0]
    count, rows = repeats.filter(pl.col("table") == table).height, every.filter(pl.col("table") == table).height
    what, where = " and ".join(columns), "itself" if there == table else there
    raise InputError(
        f"{table}: {count:,} of its {rows:,} rows repeat the {what} of rows in {where}; leave out the file or these "
        "rows."
    )


def _inside(folder: Path) -> list[Path]:
    """The files of a folder and those below that may hold tables, but for what was prepared before."""
    endings = (*_TEXT, _ARCHIVE, _PARQUET)
    found = (path for path in folder.rglob("*") if path.suffix.lower() in endings and path.is_file())
    return sorted(path for path in found if not is_prepared(path.parent))


def _tables(path: Path) -> list[TableFile]:
    """The tables of one file."""
    if path.suffix.lower() != _ARCHIVE:
        return [TableFile(path)]
    with zip_errors(path), zipfile.ZipFile(path) as archive:
        members = archive.namelist()
    # macOS packs a hidden twin of every file.
    wanted = [name for name in members if Path(name).suffix.lower() in _TEXT and not name.startswith("__MACOSX")]
    return [TableFile(path, name) for name in wanted]
