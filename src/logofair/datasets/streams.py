"""Big official tables in pieces: CSV files, CSV files inside ZIP files, Parquet files, or a folder of these.

Only the wanted columns of one piece at a time are in memory, however long the file is.
"""

from __future__ import annotations

import codecs
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from logofair.datasets.cache import is_prepared
from logofair.errors import InputError
from logofair.files.tables import header_of, places_of, polars_module, readable, regular_file, whole_last_line
from logofair.progress import Progress

if TYPE_CHECKING:
    import polars

__all__ = ["DuplicateFinder", "Table", "find_tables", "one_layout", "pieces", "refuse_shared"]


_TEXT, _ARCHIVE, _PARQUET = (".csv", ".txt"), ".zip", ".parquet"
Layout = TypeVar("Layout")
PIECE = 1 << 24  # bytes of text read at a time
_BYTES_PER_ROW = 128  # of a piece of a Parquet file, whose rows have no length
_HEAD = 1 << 16  # bytes in which the header must end; csv takes no longer fields


@dataclass(frozen=True)
class Table:
    """One table on disk; ``member`` is its name inside a ZIP file, ``header`` its column names without blanks.

    Examples
    --------
    >>> Table(Path("ac.csv.zip"), "ac.csv", ("NU_ANO", "Q001"), ";", 1000).where
    'ac.csv.zip (ac.csv)'
    """

    path: Path
    member: str | None
    header: tuple[str, ...]
    separator: str
    size: int

    @property
    def where(self) -> str:
        """How sentences name the table."""
        return str(self.path) if self.member is None else f"{self.path} ({self.member})"

    @property
    def name(self) -> str:
        """The table's own name, without folders: the same whether it is packed or not."""
        return Path(self.member or self.path.name).name

    def pieces(self, names: Sequence[str], size: int = PIECE) -> Iterator[polars.DataFrame]:
        """Read the named columns, about ``size`` bytes at a time; cells of a CSV are text, null where empty."""
        places_of(list(self.header), list(names), Path(self.where))
        if self.path.suffix.lower() == _PARQUET:
            yield from self._slices(names, max(1, size // _BYTES_PER_ROW))
            return
        # Each piece is read behind the same header, by place: names in the file may have blanks around them.
        heading = self.separator.join(f"c{place}" for place in range(len(self.header))).encode() + b"\n"
        pl, places = polars_module(), [self.header.index(name) for name in names]
        plain = [pl.col(f"c{place}").str.strip_chars().replace("", None) for place in places]
        for lines in self._lines(size):
            with readable(Path(self.where), "CSV"):
                cells = pl.read_csv(heading + lines, columns=places, separator=self.separator, infer_schema=False)
            yield cells.select(plain).rename({f"c{place}": name for place, name in zip(places, names, strict=True)})

    def _slices(self, names: Sequence[str], rows: int) -> Iterator[polars.DataFrame]:
        with readable(self.path, "Parquet"):
            table = polars_module().scan_parquet(self.path, glob=False, hive_partitioning=False).select(names)
            for start in range(0, self.size // _BYTES_PER_ROW, rows):
                yield table.slice(start, rows).collect()

    def _lines(self, size: int) -> Iterator[bytes]:
        """The lines below the header, whole ones only, as UTF-8."""
        with _opened(self.path, self.member) as file:
            rest, header_seen = b"", False
            while block := file.read(size):
                whole, newline, tail = (rest + block).rpartition(b"\n")
                if newline and not header_seen:
                    header_seen, whole = True, whole.partition(b"\n")[2]
                if whole.strip():
                    yield _utf8(whole, self.where)
                rest = tail
        if header_seen and rest.strip():
            whole_last_line(rest, self.separator, list(self.header), Path(self.where))
            yield _utf8(rest, self.where)


def pieces(
    tables: Sequence[Table], names: Callable[[Table], Sequence[str]], progress: Progress, *, size: int = PIECE
) -> Iterable[tuple[Table, polars.DataFrame]]:
    """Read the columns of all tables piece by piece, each with the table it is from, and show how far it is.

    Examples
    --------
    >>> import tempfile
    >>> from logofair.progress import no_progress
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "people.csv").write_text("id; age; sex" + chr(10) + "1;30; f" + chr(10) + "2; ;m")
    ...     tables = find_tables(Path(folder), "age", "table of people")
    ...     [piece.rows() for _, piece in pieces(tables, lambda table: ["sex", "age"], no_progress)]
    [[('f', '30')], [('m', None)]]
    """
    read = ((table, piece) for table in tables for piece in table.pieces(names(table), size))
    return progress(read, "Reading the rows", total=sum(math.ceil(table.size / size) for table in tables))


def find_tables(source: Path, mark: str, what: str) -> list[Table]:
    """Find the tables with a column ``mark`` in a file, a ZIP file, or a folder and the folders below it.

    Raise one sentence where there is none (``what`` says what was looked for) or where one is there twice.

    Examples
    --------
    >>> find_tables(Path("nowhere"), "NU_ANO", "ENEM table")
    Traceback (most recent call last):
    logofair.errors.InputError: nowhere: not there; check the path.
    """
    source = Path(source)
    if not source.exists():
        raise InputError(f"{source}: not there; check the path.")
    paths = _inside(source) if source.is_dir() else [regular_file(source)]
    found = [table for path in paths for table in _tables(path) if mark in table.header]
    if not found:
        raise InputError(
            f"{source}: holds no {what} (no CSV, ZIP or Parquet file with a column {mark!r}); pass the official files."
        )
    _refuse_twins(found)
    return found


def one_layout(tables: Sequence[Table], layout_of: Callable[[Table], Layout], differing: str, kind: str) -> Layout:
    """Return the layout of all tables, or raise; ``differing`` and ``kind`` are words for the sentence.

    Examples
    --------
    >>> tables = [Table(Path(f"{name}.csv"), None, header, ",", 9) for name, header in (("a", ("x",)), ("b", ("y",)))]
    >>> one_layout(tables, lambda table: table.header, "columns", "year")
    Traceback (most recent call last):
    logofair.errors.InputError: b.csv: has other columns than a.csv; prepare files of one year at a time.
    """
    found = {table.where: layout_of(table) for table in tables}
    first = tables[0].where
    for where, layout in found.items():
        if layout != found[first]:
            raise InputError(f"{where}: has other {differing} than {first}; prepare files of one {kind} at a time.")
    return found[first]


def _inside(folder: Path) -> list[Path]:
    """The files of a folder and those below that may hold tables, but for what was prepared before."""
    endings = (*_TEXT, _ARCHIVE, _PARQUET)
    found = (path for path in folder.rglob("*") if path.suffix.lower() in endings and path.is_file())
    return sorted(path for path in found if not is_prepared(path.parent))


def _refuse_twins(tables: Iterable[Table]) -> None:
    """Raise where one table is there packed and unpacked, or for two years: its people would count twice."""
    known: dict[str, Table] = {}
    for table in tables:
        if table.name in known:
            raise InputError(f"{table.where}: the same table as {known[table.name].where}; leave one of them.")
        known[table.name] = table


def _tables(path: Path) -> Iterator[Table]:
    """The tables of one file."""
    ending = path.suffix.lower()
    if ending == _PARQUET:
        with readable(path, "Parquet"):
            table = polars_module().scan_parquet(path, glob=False, hive_partitioning=False)
            rows = int(table.select(polars_module().len()).collect().item())
            yield Table(path, None, tuple(table.collect_schema().names()), "", rows * _BYTES_PER_ROW)
    elif ending == _ARCHIVE:
        with _reading(path), zipfile.ZipFile(path) as archive:
            members = [(info.filename, info.file_size) for info in archive.infolist()]
        # macOS packs a hidden twin of every file.
        wanted = [m for m in members if Path(m[0]).suffix.lower() in _TEXT and not m[0].startswith("__MACOSX")]
        for member, size in wanted:
            yield _text_table(path, member, size)
    else:
        yield _text_table(path, None, path.stat().st_size)


def _text_table(path: Path, member: str | None, size: int) -> Table:
    with _opened(path, member) as file:
        first = file.readline(_HEAD)
    line = first.removeprefix(codecs.BOM_UTF8).decode("latin-1").encode()
    separator, header = header_of(line, [])
    return Table(path, member, tuple(header), separator, size)


@contextmanager
def _opened(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    """A file, or one inside a ZIP file, for reading bytes."""
    with _reading(path):
        if member is None:
            with path.open("rb") as file:
                yield file
        else:
            with zipfile.ZipFile(path) as archive, archive.open(member) as packed:
                yield packed


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what may be wrong with a ZIP file into one sentence."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise InputError(f"{path}: is damaged, or no ZIP file; download it again.") from None
    except NotImplementedError:  # some official files are so
        raise InputError(
            f"{path}: is packed by a method that cannot be read here; unpack it and pass the CSV."
        ) from None
    except RuntimeError as error:
        if "password" not in str(error):
            raise
        raise InputError(f"{path}: is encrypted; unpack it and pass the CSV file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the file.") from None


def _utf8(lines: bytes, where: str) -> bytes:
    if b"\0" in lines:
        raise InputError(f"{where}: is no CSV text (it holds zero bytes); download it again.")
    try:
        lines.decode()
    except UnicodeDecodeError:
        return lines.decode("latin-1").encode()  # as the official files are
    return lines


class DuplicateFinder:
    """Remembers who was read, 8 bytes a row, and finds out who was read before; ``columns`` say who a row is.

    Examples
    --------
    >>> import polars
    >>> from pathlib import Path
    >>> people = DuplicateFinder(("ID",))
    >>> for name in ("a.csv", "b.csv"):
    ...     people.add(Table(Path(name), None, ("ID",), ",", 9), polars.DataFrame({"ID": ["07", "8"]}))
    >>> people.refuse()
    Traceback (most recent call last):
    logofair.errors.InputError: b.csv: 2 of its 2 rows are in a.csv too (the same ID); leave one of the files.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._of: dict[str, list[npt.NDArray[np.uint64]]] = {}

    def add(self, table: Table, rows: polars.DataFrame) -> None:
        """Note the rows of a piece of a table; those that do not tell who they are go unseen."""
        pl = polars_module()
        # "06", 6 and 6.0 are one number, whatever kind of file it stands in.
        cells = [
            pl.col(name).cast(pl.String).str.strip_suffix(".0").str.strip_chars_start("0") for name in self._columns
        ]
        marks = rows.select(mark=pl.concat_str(cells, separator=" "))["mark"].drop_nulls()
        self._of.setdefault(table.where, []).append(marks.hash().to_numpy())

    def refuse(self) -> None:
        """Raise one sentence where a row is there twice."""
        found = {where: np.concatenate(parts) for where, parts in self._of.items()}
        if not found or _repeated(np.concatenate(list(found.values()))) == 0:
            return
        what, before = " and ".join(self._columns), dict[str, npt.NDArray[np.uint64]]()
        for where, own in found.items():
            if inside := _repeated(own):
                raise InputError(
                    f"{where}: {inside:,} of its {own.size:,} rows repeat the {what} of another row in it; "
                    "download it again, or take them out."
                )
            for other, theirs in before.items():
                if common := np.intersect1d(own, theirs).size:
                    both = f"{common:,} of its {own.size:,} rows are in {other} too (the same {what})"
                    raise InputError(f"{where}: {both}; leave one of the files.")
            before[where] = own


def _repeated(marks: npt.NDArray[np.uint64]) -> int:
    return int(marks.size - np.unique(marks).size)


def refuse_shared(places: Mapping[str, set[str]], what: str) -> None:
    """Raise one sentence where two tables have rows of one place: they do not tell whether these are the same people.

    Examples
    --------
    >>> refuse_shared({"a.csv": {"CA", "TX"}, "b.parquet": {"CA"}}, "the state")
    Traceback (most recent call last):
    logofair.errors.InputError: b.parquet: has rows of the state CA, as a.csv has, and may repeat it; leave one of them.
    """
    first: dict[str, str] = {}
    for where, own in places.items():
        for place in sorted(own):
            if place in first:
                both = f"has rows of {what} {place}, as {first[place]} has, and may repeat it"
                raise InputError(f"{where}: {both}; leave one of them.")
            first[place] = where
