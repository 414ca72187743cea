"""From official files to prepared data: found, read batch by batch, and stored in a folder of their own.

Official tables come as CSV files, CSV files inside ZIP files, Parquet files, or a folder of these. A prepared folder
holds the data, tables as Parquet in small integers, and ``about.json``: the data set's name, what loading needs,
counts, the files' sizes and checksums.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import RandomSource, generator, whole_number
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.documents import read_document, write_document
from logofair.files.tables import (
    TableFile,
    column_names,
    estimated_rows,
    fingerprint,
    open_table,
    regular_file,
)
from logofair.files.values import number
from logofair.files.writing import reason_of
from logofair.progress import Progress
from logofair_reproduction.datasets.archives import ZipMember, open_zip

if TYPE_CHECKING:
    import polars

__all__ = [
    "BATCH",
    "OfficialTable",
    "cache_folder",
    "cache_option",
    "check_about",
    "digest_of",
    "find_tables",
    "is_prepared",
    "load_rows",
    "named",
    "new_folder",
    "one_layout",
    "prepare_command",
    "prepare_table",
    "random_rows",
    "rows_wanted",
    "select_rows",
    "within",
    "write_about",
]

BATCH = 100_000  # rows read at a time
Layout = TypeVar("Layout")

_TEXT, _ARCHIVE, _PARQUET = (".csv", ".txt"), ".zip", ".parquet"
_ABOUT, _ROWS, _WHAT = "about.json", "rows.parquet", "prepared data set"
_VERSION = 3  # of what is stored, whatever the data set


def cache_folder(name: str, base: Path | None = None) -> Path:
    """Where the data set of this name lies once it is prepared; the folder is not made.

    Below ``base``; without it below the environment's ``LOGOFAIR_CACHE``; without that below ``logofair`` in the
    user's folder of caches (``XDG_CACHE_HOME``, else ``~/.cache``).
    """
    if base is not None:
        return Path(base) / name
    if chosen := os.environ.get("LOGOFAIR_CACHE"):
        return Path(chosen).expanduser() / name
    caches = os.environ.get("XDG_CACHE_HOME")
    # The XDG rules say that a relative path is to be ignored.
    folder = Path(caches) if caches and Path(caches).is_absolute() else Path("~/.cache").expanduser()
    return folder / "logofair" / name


def cache_option(name: str, folder: Path) -> str:
    """The option that a command needs to find a folder; nothing where it looks there anyway."""
    if folder == cache_folder(name) or folder.name != name:
        return ""
    return f" --cache {shlex.quote(str(folder.parent))}"


def is_prepared(folder: Path) -> bool:
    """Whether a folder holds a prepared data set, of whatever version."""
    return (folder / _ABOUT).is_file()


@contextmanager
def new_folder(into: Path) -> Iterator[Path]:
    """Hand out a temporary neighbour to fill, which takes the folder's name if all goes well and else vanishes.

    A prepared folder that is there is replaced; any other that holds something stays, and is an error.
    """
    target = Path(os.path.realpath(into))
    neighbour = target.with_name(f".logofair-{target.name}-{secrets.token_hex(8)}.part")
    try:
        if target.exists() and not is_prepared(target) and any(target.iterdir()):
            raise InputError(f"{into}: holds other files; choose an empty folder for the prepared data.")
        neighbour.mkdir(parents=True)
        yield neighbour
        if target.exists():
            shutil.rmtree(target)
        neighbour.rename(target)
    except OSError as error:
        raise InputError(
            f"{into}: cannot be written ({reason_of(error)}); make room or choose another folder."
        ) from None
    finally:
        shutil.rmtree(neighbour, ignore_errors=True)


def write_about(folder: Path, name: str, body: Mapping[str, Any]) -> None:
    """Write down what a folder holds: the data set's name, what loading needs, and its files."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": fingerprint(path)}
        for path in sorted(folder.iterdir())
        if path.name != _ABOUT
    }
    write_document(folder / _ABOUT, f"logofair data: {name}", _VERSION, {**body, "files": files}, what=_WHAT)


def check_about(folder: Path, name: str) -> dict[str, Any]:
    """Read what `write_about` wrote; raise one sentence where it or a file beside it is missing, cut or outdated."""
    folder = Path(folder)
    if not is_prepared(folder):
        raise InputError(f"{name}: nothing prepared in {folder}; run: {prepare_command(name, folder)}.")
    remedy = _remedy(name, folder)
    body = read_document(folder / _ABOUT, f"logofair data: {name}", _VERSION, what=_WHAT, remedy=remedy)
    for file, known in body.pop("files").items():
        path = folder / file
        if not path.is_file() or path.stat().st_size != known["bytes"]:
            raise InputError(f"{path}: is missing or damaged; {remedy}.")
    return body


def digest_of(folder: Path) -> str:
    """What identifies the data prepared in a folder: `write_about` notes the checksums of all its files."""
    return fingerprint(folder / _ABOUT)


def _remedy(name: str, folder: Path) -> str:
    return f"prepare it again: {prepare_command(name, folder)} --force"


def prepare_command(name: str, folder: Path) -> str:
    """What to type so that a folder holds a data set."""
    return f"logofair data prepare {name} --from PATH{cache_option(name, folder)}"


def load_rows(folder: Path, name: str) -> polars.DataFrame:
    """Read the rows that `prepare_table` wrote."""
    pl = polars_module()
    try:
        rows: polars.DataFrame = pl.read_parquet(folder / _ROWS, glob=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        raise InputError(f"{folder / _ROWS}: is missing or damaged; {_remedy(name, folder)}.") from None
    return rows


def random_rows(n_rows: int, wanted: int | None, rng: RandomSource) -> npt.NDArray[np.intp]:
    """Return the numbers of ``wanted`` rows drawn at random, in increasing order; of all rows where it is None."""
    if wanted is None:
        return np.arange(n_rows)
    return np.sort(generator(rng).choice(n_rows, rows_wanted(wanted, n_rows), replace=False))


def rows_wanted(wanted: int | None, available: int) -> int:
    """How many rows to load; all where it is None."""
    rows = available if wanted is None else whole_number(wanted, "rows")
    if rows > available:
        raise InputError(f"rows: got {rows:,}, but there are {available:,} rows; ask for at most as many.")
    return rows


@dataclass(frozen=True)
class OfficialTable:
    """A table and the names of its columns."""

    file: TableFile
    header: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.file)

    def batches(self, names: Sequence[str], size: int) -> Generator[polars.DataFrame, None, None]:
        """Read the named columns; cells of a CSV are text, null where empty."""
        with open_table(self.file, {name: name for name in names}) as table:
            yield from table.batches(size)


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


def _inside(folder: Path) -> list[Path]:
    """The files of a folder and those below that may hold tables, but for what was prepared before."""
    endings = (*_TEXT, _ARCHIVE, _PARQUET)
    found = (path for path in folder.rglob("*") if path.suffix.lower() in endings and path.is_file())
    return sorted(path for path in found if not is_prepared(path.parent))


def _tables(path: Path) -> Sequence[TableFile]:
    """The tables of one file."""
    if path.suffix.lower() != _ARCHIVE:
        return [TableFile(path)]
    with open_zip(path) as archive:
        members = archive.namelist()
    # macOS packs a hidden twin of every file.
    wanted = [name for name in members if Path(name).suffix.lower() in _TEXT and not name.startswith("__MACOSX")]
    return [ZipMember(path, name) for name in wanted]


def one_layout(
    tables: Sequence[OfficialTable], layout_of: Callable[[OfficialTable], Layout], differing: str, kind: str
) -> Layout:
    """Return the layout of all tables, or raise; ``differing`` and ``kind`` are words for the sentence."""
    first = layout_of(tables[0])
    for table in tables[1:]:
        if layout_of(table) != first:
            raise InputError(f"{table}: has other {differing} than {tables[0]}; prepare files of one {kind} at a time.")
    return first


def prepare_table(
    name: str,
    source: Path,
    into: Path,
    tables: Sequence[OfficialTable],
    columns: Sequence[str],
    select: Callable[[OfficialTable, polars.DataFrame, Counter[str]], polars.DataFrame],
    about: Callable[[polars.DataFrame], Mapping[str, Any]],
    *,
    person: Sequence[str],
    advice: str,
    progress: Progress,
    batch: int,
) -> Counter[str]:
    """Store the rows of official tables that ``select`` keeps of each batch; return what it counted.

    ``about`` says of the rows kept what loading needs. ``person`` are the columns that tell who a row is, where there
    are any: nobody may be there twice. ``advice`` says what to pass where all rows were dropped.
    """
    counts, parts, people = Counter[str](), [], []
    read = ((table, rows) for table in tables for rows in table.batches([*columns, *person], batch))
    total = sum(estimated_rows(table.file) // batch + 1 for table in tables)
    with new_folder(into) as folder, closing(read):
        for table, rows in progress(read, "Reading the rows", total=total):
            if person:
                people.append(_persons_of(table, rows, person))
            parts.append(select(table, rows, counts))
        kept = _some_rows(parts, counts, source, advice)
        if people:
            _check_people(people, person)
        body = about(kept)
        kept.rechunk().write_parquet(folder / _ROWS)  # the same file whatever the batches were
        write_about(folder, name, {**body, "counts": dict(counts)})
    return counts


def _some_rows(parts: Sequence[polars.DataFrame], counts: Counter[str], source: Path, advice: str) -> polars.DataFrame:
    """All rows kept, counted; raise where there are none."""
    if not parts:
        raise InputError(f"{source}: has no rows below its header; download it again.")
    kept: polars.DataFrame = polars_module().concat(parts)
    if kept.is_empty():
        dropped = ", ".join(f"{reason} {count:,}" for reason, count in counts.items() if count)
        raise InputError(f"{source}: none of its rows is left ({dropped}); {advice}.")
    counts["rows kept"] = kept.height
    return kept


def within(name: str, low: int, high: int) -> polars.Expr:
    """A column as small integers, null where one is missing or not from ``low`` to ``high``."""
    pl = polars_module()
    found: polars.Expr = pl.when(number(name).is_between(low, high)).then(number(name)).cast(pl.UInt8)
    return found


def select_rows(
    rows: polars.DataFrame,
    filters: Mapping[str, polars.Expr],
    codes: Mapping[str, polars.Expr],
    counts: Counter[str],
) -> polars.DataFrame:
    """Keep rows by one filter after the other, code them, and drop those that lack a value; count what is dropped.

    ``filters`` are named by the reason why the other rows are dropped.
    """
    counts["rows read"] += rows.height
    for reason, keep in filters.items():
        left = rows.filter(keep)
        counts[f"dropped: {reason}"] += rows.height - left.height
        rows = left
    coded = rows.select(**codes)
    complete = coded.drop_nulls()
    counts["dropped: a value missing"] += coded.height - complete.height
    return complete


def _persons_of(table: OfficialTable, rows: polars.DataFrame, columns: Sequence[str]) -> polars.DataFrame:
    """Who the rows are, by the columns that tell it, and the table they are from."""
    pl = polars_module()
    # "06", 6 and 6.0 are one number, whatever kind of file it stands in.
    cells = [pl.col(name).cast(pl.String).str.strip_suffix(".0").str.strip_chars_start("0") for name in columns]
    person = pl.concat_str(cells, separator=" ").hash()
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in columns)
    found: polars.DataFrame = rows.filter(known).select(person=person, table=pl.lit(str(table)).cast(pl.Categorical))
    return found


def _check_people(people: Sequence[polars.DataFrame], columns: Sequence[str]) -> None:
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


def named(codes: npt.NDArray[Any], names: Mapping[int, str]) -> npt.NDArray[np.str_]:
    """The names of codes."""
    table = np.full(max(names) + 1, "", dtype=f"<U{max(map(len, names.values()))}")
    table[list(names)] = list(names.values())
    labels: npt.NDArray[np.str_] = table[codes]
    return labels
