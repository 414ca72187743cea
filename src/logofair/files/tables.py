"""A user's file as a table: CSV, Parquet or Arrow, of any size; nothing but the wanted columns is read.

Nothing is guessed about values: nulls stay nulls, texts become nulls only where they are named, and the cells of a CSV
file stay text (`logofair.files.values` makes numbers and labels of them). Blanks around the cells of a CSV file belong
to its layout and are dropped, and so is the apostrophe by which we escape formulas against CSV injection. Quotes and
fields are left to polars, which reads a clean copy where a CSV file is compressed or is not UTF-8 without blank lines
at its end. Decompression stops at more than any table would hold, against zip bombs (:func:`check_unpacked`).
"""

from __future__ import annotations

import codecs
import csv
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from logofair.columns.checks import listed_names, nearest_name, shown
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.inputs import ending_of
from logofair.files.values import as_numbers, has_value, is_number
from logofair.files.writing import TABLE, FileName, readable, reason_of, unescaped_formula

if TYPE_CHECKING:
    import polars

_PACKED = ".gz"
_TEXTS = (".csv", ".tsv", ".txt")
KINDS = dict.fromkeys((*_TEXTS, *(f"{text}{_PACKED}" for text in _TEXTS)), "CSV") | TABLE
_BLOCK = 1 << 22
_MOST_BYTES, _MOST_RATIO, _ALWAYS_ALLOWED = 1 << 37, 200, 1 << 26  # bytes once decompressed
_SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
_LONGEST_LINE = 1 << 24
_EDGE = 1 << 20  # bytes at the head and the tail of a file that hold its first and its last line
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # byte-order marks, as Excel saves "Unicode text"


@dataclass(frozen=True)
class TableFile:
    """A table on disk; one inside an archive may have a name, a size and a way to be opened of its own."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        """The table's own name, without folders."""
        return self.path.name

    @property
    def kind(self) -> str:
        """What kind of table it is, by the ending of its name."""
        ending = ending_of(Path(self.name))
        if ending in _SPREADSHEETS:
            raise InputError(
                f"{self.name}: is a spreadsheet, which is not read here; save the sheet as CSV and pass that file."
            )
        if ending not in KINDS:
            raise InputError(f"{self.name}: its name ends in {ending!r}; known endings are {', '.join(KINDS)}.")
        return KINDS[ending]

    @property
    def is_packed(self) -> bool:
        """Whether it is compressed, here with GZIP."""
        return self.path.suffix.lower() == _PACKED

    @property
    def size(self) -> int:
        """Its bytes, unpacked; of a GZIP file about so many."""
        return self.path.stat().st_size * (4 if self.is_packed else 1)  # text shrinks to about a quarter

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it for reading bytes."""
        if self.is_packed:
            try:
                with gzip.open(self.path) as text:
                    yield io.BufferedReader(_Unpacked(text, self.path))
            except (gzip.BadGzipFile, zlib.error, EOFError):
                raise InputError(f"{self.path}: is damaged or cut short, or no GZIP file; write it again.") from None
            return
        with self.path.open("rb") as file:
            yield file

    @contextmanager
    def failures_as_input_errors(self) -> Iterator[None]:
        """Raise one sentence where polars fails; its own reasons may quote rows, so they are not passed on."""
        pl = polars_module()
        try:
            yield
        # PanicException is no Exception.
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeError, csv.Error):
            csv_fault = "a line with too many fields, or an open quote, or no text"
            fault = csv_fault if self.kind == "CSV" else "damaged, or of another kind"
            raise InputError(f"{self}: cannot be read as {self.kind} ({fault}); write the file again.") from None


class _Unpacked(io.RawIOBase):
    """A GZIP file's text as a stream that checks its size as it goes, which is not known before."""

    def __init__(self, text: IO[bytes] | gzip.GzipFile, path: Path) -> None:
        self.text, self.path, self.size = text, path, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self.text.read(len(buffer))
        self.size += len(part)
        check_unpacked(self.path, self.size)
        buffer[: len(part)] = part
        return len(part)


def check_unpacked(path: Path, size: int) -> None:
    """Raise where a compressed table, or an archive of tables, unpacks to more bytes than any holds: a zip bomb."""
    times = f"{_MOST_RATIO} times its size" if size > max(_MOST_RATIO * path.stat().st_size, _ALWAYS_ALLOWED) else ""
    if times or size > _MOST_BYTES:
        raise InputError(
            f"{path}: unpacks to more than {times or f'{_MOST_BYTES >> 30} GiB'}, as no table does; check where it "
            "comes from, and unpack it yourself."
        )


@dataclass(frozen=True)
class Table:
    """A file's wanted columns as a lazy table, named by their roles; ``names`` tells how the file calls them.

    The columns of a CSV file are text without outer blanks, null where empty; those of others have their own kind.
    ``numbered`` is the table with the rows' numbers in the file, from 1, as its first column "row". ``missing`` are the
    texts that were read as missing values, ``texts`` is the table before they were. ``scale`` is that of the scores.
    """

    file: TableFile
    names: Mapping[str, str]
    rows: polars.LazyFrame
    numbered: polars.LazyFrame
    texts: polars.LazyFrame
    missing: tuple[str, ...] = ()
    scale: str = "chance"

    def where(self, role: str) -> str:
        """The file and the name of a column, as an error's sentence begins."""
        return f"{self.file}: column {self.names[role]!r}"

    def numbers(self, role: str, cells: Any = None) -> Any:
        """A column of numbers as such, null where a cell holds something else; by default as an expression."""
        pl = polars_module()
        kind = self.rows.collect_schema()[role] if cells is None else cells.dtype
        scale = self.scale if role == "score" else "chance"
        return as_numbers(pl.col(role) if cells is None else cells, kind, scale)

    def collect(self, query: polars.LazyFrame | None = None) -> polars.DataFrame:
        """Run a query on the table, by default for all rows, in batches."""
        with self.file.failures_as_input_errors():
            return (self.rows if query is None else query).collect(engine="streaming")

    def batches(self, size: int, query: polars.LazyFrame | None = None) -> Iterator[polars.DataFrame]:
        """Run a query and hand its rows out in order, about ``size`` at a time; only a few batches are in memory."""
        query = self.rows if query is None else query
        with self.file.failures_as_input_errors():
            parts = query.collect_batches(chunk_size=size, maintain_order=True)
        while True:
            with self.file.failures_as_input_errors():
                part = next(parts, None)
            if part is None:
                return
            if part.height:
                yield part

    def check_numbers(self, role: str) -> None:
        """Raise where a column of numbers holds something else, or a weight is negative, and name the first."""
        pl, number = polars_module(), self.numbers(role)
        wrong = pl.col(role).is_not_null() & number.is_null()
        if role == "weight":
            wrong |= number < 0
        found = self.collect(self.numbered.filter(wrong).select("row", role, number.alias("number")).head(1))
        for row, value, read in found.rows():
            if read is not None:
                raise InputError(f"{self.where(role)}: row {row} is {value}; weights must not be negative.")
            hint = "write decimals with a point" if "," in value else "drop or repair such rows"
            if value.endswith("%") and (role != "score" or self.scale != "percent"):
                hint = "add --scale percent" if role == "score" else "write numbers without %"
            raise InputError(f"{self.where(role)}: row {row} is {shown(value)}, expected numbers; {hint}.")

    def check_missing(self, role: str) -> None:
        """Raise if rows have no value in a column, or NaN."""
        pl = polars_module()
        cells = self.numbers(role) if is_number(role) else pl.col(role)
        if is_number(role) or self.rows.collect_schema()[role].is_float():
            cells = cells.fill_nan(None)
        missing, rows = self.collect(self.rows.select(cells.null_count().alias("missing"), pl.len())).row(0)
        if missing:
            have, them = ("has", "it") if missing == 1 else ("have", "them")
            others = {
                "label": "; if only people who were accepted have a label, leave --label out",
                "group": "; filled with a name such as unknown they are a group of their own",
            }
            raise InputError(
                f"{self.where(role)}: {missing:,} of {rows:,} rows {have} no value{self._marker_hint(role)}; fill "
                f"{them} or add --drop-missing{others.get(role.partition(' ')[0], '')}."
            )

    def _marker_hint(self, role: str) -> str:
        """A hint for a column of text in which a marker of missing values, such as NA, occurs; else empty."""
        pl, kind = polars_module(), self.texts.collect_schema()[role]
        if not self.missing or not is_text(kind) or is_number(role):
            return ""
        cell = pl.col(role).cast(pl.String)
        found = self.collect(self.texts.select(cell).filter(cell.is_in(list(self.missing))).head(1))
        return f" ({shown(found.item())} counts as missing; if it is a value, add --na none)" if found.height else ""


@contextmanager
def open_table(
    file: FileName | TableFile,
    wanted: Mapping[str, str],
    where: Sequence[tuple[str, str]] = (),
    *,
    unless: Sequence[tuple[str, str]] = (),
    missing: Sequence[str] = (),
    scale: str = "chance",
    verbatim: Sequence[str] = (),
    seen: Callable[[int], None] | None = None,
    block: int = _BLOCK,
) -> Iterator[Table]:
    """Open a file for reading ``wanted``, columns by role; the roles may be any names.

    ``where`` are columns and values: only rows that have all of these values are read, and of those none that have all
    values of ``unless``. ``missing`` are texts that stand for a missing value, but in the columns of the ``verbatim``
    roles. ``scale`` is that of the scores. ``seen`` is told, from any thread, of how many more rows were read.
    ``block``: characters of a CSV file that are decoded at a time.
    """
    source, pl, pairs = _table_file(file), polars_module(), (*where, *unless)
    conditions = {f"where {place}": name for place, (name, _) in enumerate(pairs)}
    named = dict(wanted) | conditions
    if not named:
        raise InputError(f"{source}: no columns were named; name at least one.")
    with TemporaryDirectory() as folder:
        with source.failures_as_input_errors():
            if source.kind == "CSV":
                table, places = _csv(source, list(named.values()), Path(folder), block)
            else:
                table = _scan(source)
                places = _places(table.collect_schema().names(), list(named.values()), source)
        # Selected by place and renamed to its role: polars takes column names such as "^a.*$" and "*" for patterns.
        columns = [pl.nth(place).alias(role) for role, place in zip(named, places, strict=True)]
        if source.kind == "CSV":  # without outer blanks, and without the apostrophe before a formula
            bare = [unescaped_formula(column.str.strip_chars()) for column in columns]
            columns = [pl.when(column != "").then(column) for column in bare]
        table = table.select(columns)
        kinds = table.collect_schema() if pairs or missing else {}
        holds = [
            has_value(role, kinds[role], value, f"{source}: column {name!r}")
            for role, (name, value) in zip(conditions, pairs, strict=True)
        ]
        kept = holds[: len(where)]
        if unless:  # a row without the value, or without any, is kept
            kept.append(~pl.all_horizontal(holds[len(where) :]).fill_null(value=False))
        # The only place that counts rows: on the command line the first is row 1.
        numbered = table.with_row_index("row", offset=1).filter(*kept).select("row", *wanted)
        texts = table.filter(*kept).select(*wanted) if pairs else table
        marked = [pl.col(role) for role in wanted if missing and role not in verbatim and is_text(kinds[role])]
        read = [pl.when(~cell.cast(pl.String).is_in(list(missing))).then(cell) for cell in marked]
        rows = texts.with_columns(read)
        if seen is not None:

            def counted(part: polars.DataFrame) -> polars.DataFrame:
                seen(part.height)
                return part

            rows = rows.map_batches(counted, streamable=True)
        yield Table(source, dict(wanted), rows, numbered.with_columns(read), texts, tuple(missing), scale)


def column_names(file: FileName | TableFile) -> list[str]:
    """The names of all columns of a file."""
    source = _table_file(file)
    with source.failures_as_input_errors():
        return _csv_header(source, [])[1] if source.kind == "CSV" else list(_scan(source).collect_schema().names())


def estimated_rows(file: FileName | TableFile) -> int:
    """About how many rows a file has, for progress: of CSV by the length of its first lines."""
    source = _table_file(file)
    with source.failures_as_input_errors():
        if source.kind != "CSV":
            return int(_scan(source).select(polars_module().len()).collect().item())
        with source.open() as raw:
            head = raw.read(1 << 16)
    return source.size * head.count(b"\n") // max(1, len(head))


def fingerprint(path: FileName) -> str:
    """Return the SHA-256 of a file's bytes: equal exactly when the file was not changed."""
    with regular_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def regular_file(path: FileName) -> Path:
    """A regular file that can be read and holds something."""
    with readable(path) as source, source.open("rb") as file:
        if not file.read(1):
            raise InputError(f"{source}: is empty; write the file again.")
    return source


def _table_file(file: FileName | TableFile) -> TableFile:
    return file if isinstance(file, TableFile) else TableFile(regular_file(file))


def _scan(file: TableFile) -> Any:
    """The lazy table of a Parquet or Arrow file."""
    pl = polars_module()  # glob=False: brackets in a file's name are no pattern
    return (pl.scan_parquet if file.kind == "Parquet" else pl.scan_ipc)(file.path, glob=False, hive_partitioning=False)


def _csv(file: TableFile, names: list[str], folder: Path, block: int) -> tuple[Any, list[int]]:
    """The lazy table of a CSV file, and the places of the named columns."""
    separator, header = _csv_header(file, names)
    if not set(names) & set(header) and any(name.replace(".", "").isdigit() for name in header):
        raise InputError(f"{file}: its first line holds numbers; the first line must name the columns.")
    clean = _clean_csv(file, _encoding(file, block), folder, block)
    places = _places(header, names, file)
    _check_fields(clean, file, separator, len(header), block)
    return polars_module().scan_csv(clean, separator=separator, infer_schema=False, glob=False), places


def is_text(kind: Any) -> bool:
    """Whether a kind of column holds text."""
    pl = polars_module()
    return kind in (pl.String, pl.Categorical, pl.Enum)


def _places(header: list[str], names: list[str], file: TableFile) -> list[int]:
    """Where the named columns stand; raise if one is missing or stands twice."""
    for name in names:
        if header.count(name) > 1:
            raise InputError(f"{file}: has {header.count(name)} columns {name!r}; rename all but one.")
        if name not in header:
            hint = nearest_name(name, header)
            raise InputError(f"{file}: no column {name!r}{hint}; its columns are {listed_names(header)}.")
    return [header.index(name) for name in names]


def _csv_header(file: TableFile, names: Sequence[str]) -> tuple[str, list[str]]:
    """The separator under which most wanted names are found (then: most names), and the column names."""
    with file.open() as raw:
        head = raw.read(_EDGE)
    if head.startswith(_UTF16_MARKS):
        text = head.decode("utf-16", errors="ignore")
    else:
        _check_text(head, file)
        try:
            text = codecs.getincrementaldecoder("utf-8")().decode(head)  # which leaves out a cut character
        except UnicodeDecodeError:
            text = head.decode("cp1252", errors="replace")
    found: list[tuple[str, list[str]]] = []
    for separator in ",;\t|":
        rows = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), delimiter=separator)
        found.append((separator, [name.strip() for name in next(filter(None, rows), [])]))
    return max(found, key=lambda pair: (len(set(names) & set(pair[1])), len(pair[1])))


def _encoding(file: TableFile, block: int) -> str:
    """A file's encoding: UTF-16 by its mark, UTF-8, or else Windows' Latin-1; raise on what is no text, or is cut."""
    decoder, encoding, line = codecs.getincrementaldecoder("utf-8")(), "utf-8", 0
    with file.open() as raw:
        part = raw.read(2)
        if part in _UTF16_MARKS:
            return "utf-16"
        while part:
            _check_text(part, file)
            line = len(part) - 1 - part.rfind(b"\n") + (0 if b"\n" in part else line)
            if line > _LONGEST_LINE:
                raise InputError(
                    f"{file}: has a line of more than {_LONGEST_LINE >> 20} MiB, as no table does; look for a quote "
                    "that was left open."
                )
            if encoding == "utf-8":
                try:
                    decoder.decode(part)
                except UnicodeDecodeError:
                    encoding = "cp1252"  # Latin-1, with the quotes and dashes that Excel writes
            part = raw.read(block)
    try:
        decoder.decode(b"", final=encoding == "utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{file}: cut short: it ends within a character; write it again, in UTF-8.") from None
    return encoding


def _check_text(part: bytes, file: TableFile) -> None:
    if b"\0" in part:
        raise InputError(f"{file}: is no CSV text (it holds zero bytes); save it as CSV in UTF-8.")


def _check_fields(clean: Path, file: TableFile, separator: str, fields: int, block: int) -> None:
    """Raise where a line has more fields than the header, which polars may drop, or the last fewer, which it fills up.

    Separators are counted outside quotes; a quote inside a field puts that out of step. So where a line may have too
    many, the reader of CSV, which is slower than counting, has the last word.
    """
    last = _tail(clean).rstrip(b"\r\n").rpartition(b"\n")[2]
    if b'"' not in last and last.count(separator.encode()) + 1 < fields:
        raise InputError(f"{file}: cut short: its last line has too few fields; write the file again.")
    before, quoted, overfull = 0, False, False
    with clean.open("rb") as raw:
        while not overfull and (part := raw.read(block)):
            data = np.frombuffer(part, dtype=np.uint8)
            marks = data[(data == ord(separator)) | (data == ord("\n")) | (data == ord('"'))]
            quotes = marks == ord('"')
            inside = (np.cumsum(quotes) + quoted) % 2 == 1
            quoted = bool((quotes.sum() + quoted) % 2)
            marks = marks[~inside & ~quotes]  # separators and line ends
            ends = np.flatnonzero(marks == ord("\n"))
            # Separators of each line: what lies between line ends, the first with what the last block left over.
            counts = np.diff(ends, prepend=-1 - before, append=marks.size) - 1
            overfull, before = bool((counts >= fields).any()), int(counts[-1])
    if not overfull:
        return
    with clean.open(encoding="utf-8", newline="") as lines:
        for row, cells in enumerate(filter(None, csv.reader(lines, delimiter=separator))):
            if len(cells) > fields:
                raise InputError(
                    f"{file}: row {row} has {len(cells)} fields, but the first line names {fields} columns; "
                    f"put fields that hold a {shown(separator)} in quotes."
                )


def _clean_csv(file: TableFile, encoding: str, folder: Path, block: int) -> Path:
    """The file itself where it is UTF-8 without blank lines at its end, else a copy in the folder that is."""
    if not file.is_packed and encoding == "utf-8" and not _blank_end(file.path):
        return file.path
    copy = folder / "clean.csv"
    with file.open() as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
        try:
            with copy.open("w", encoding="utf-8", newline="") as target:
                while part := text.read(block):
                    target.write(part)
        except OSError as error:
            reason = reason_of(error)
            raise InputError(f"{file}: no copy in {folder} ({reason}); set TMPDIR to a folder with room.") from None
    os.truncate(copy, copy.stat().st_size - _blank_end(copy))
    return copy


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _EDGE))
        return file.read()


def _blank_end(path: Path) -> int:
    """How many bytes of blank lines a file ends in, which polars would take for rows; one line end is none."""
    end = _tail(path)
    blank = end[len(end.rstrip(b" \r\n")) :]
    return 0 if blank in (b"\n", b"\r\n") else len(blank)
