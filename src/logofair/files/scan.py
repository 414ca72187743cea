"""A file of any size as a lazy table: only the wanted columns, read in pieces when somebody asks for them."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from logofair.columns.checks import shown
from logofair.errors import InputError
from logofair.files.tables import (
    csv_places,
    header_of,
    kind_of,
    places_of,
    polars_module,
    readable,
    regular_file,
    whole_last_line,
)
from logofair.files.values import has_value

if TYPE_CHECKING:
    import polars

__all__ = ["Scan", "column_names", "refuse_text", "scanned"]


_BLOCK = 1 << 22
_ENDS = 1 << 20  # bytes at either end of a CSV file that hold its first and last line


@dataclass(frozen=True)
class Scan:
    """A file's wanted columns, named by their roles; ``names`` tells how the file calls them.

    The columns of a CSV file are text without outer blanks, null where empty; those of others have their own kind.
    ``numbered`` is the table with the rows' numbers in the file, from 0, as its first column "row".
    """

    source: Path
    kind: str
    names: Mapping[str, str]
    table: polars.LazyFrame
    numbered: polars.LazyFrame

    def where(self, role: str) -> str:
        """How sentences name a column."""
        return f"{self.source}: column {self.names[role]!r}"

    def collect(self, table: polars.LazyFrame) -> polars.DataFrame:
        """Run a query on the table, in pieces."""
        with readable(self.source, self.kind):
            return table.collect(engine="streaming")


@contextmanager
def scanned(path: Path, wanted: Mapping[str, str], where: Sequence[tuple[str, str]] = ()) -> Iterator[Scan]:
    """Open a file for reading ``wanted``, columns by role; the roles may be any names.

    ``where`` are columns and values: only rows that have all of these values are read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("risk;sex", "0.25; f", "0.5;m", sep=chr(10), file=file, flush=True)
    ...     with scanned(Path(file.name), {"group": "sex"}) as scan:
    ...         scan.collect(scan.table).rows()
    [('f',), ('m',)]
    """
    source = regular_file(path)
    kind, pl = kind_of(source), polars_module()
    named = dict(wanted) | {f"where {place}": name for place, (name, _) in enumerate(where)}
    with TemporaryDirectory() as folder:
        with readable(source, kind):
            if kind == "CSV":
                table, places = _csv(source, list(named.values()), Path(folder))
            else:
                scan = pl.scan_parquet if kind == "Parquet" else pl.scan_ipc
                table = scan(source, glob=False, hive_partitioning=False)
                places = places_of(table.collect_schema().names(), list(named.values()), source)
        columns = [pl.nth(place).alias(role) for role, place in zip(named, places, strict=True)]
        table = table.select(columns) if kind != "CSV" else table.select(map(_bare, columns))
        kinds = table.collect_schema() if where else {}
        kept = [
            has_value(f"where {place}", kinds[f"where {place}"], value, f"{source}: column {name!r}")
            for place, (name, value) in enumerate(where)
        ]
        numbered = table.with_row_index("row").filter(*kept).select("row", *wanted)
        yield Scan(source, kind, dict(wanted), table.filter(*kept).select(*wanted) if where else table, numbered)


def refuse_text(scan: Scan, role: str) -> None:
    """Raise where a cell of a column of numbers holds something else, and name the first.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("risk;part", "0.25;a", "0,5;b", sep=chr(10), file=file, flush=True)
    ...     with scanned(Path(file.name), {"score": "risk"}, [("part", "b")]) as scan:
    ...         refuse_text(scan, "score")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    logofair.errors.InputError: ...: column 'risk': row 1 is '0,5', expected numbers; write decimals with a point.
    """
    pl = polars_module()
    wrong = pl.col(role).is_not_null() & pl.col(role).cast(pl.Float64, strict=False).is_null()
    found = scan.collect(scan.numbered.select("row", role).filter(wrong).head(1))
    if found.height:
        row, value = found.row(0)
        hint = "write decimals with a point" if "," in value else "drop or repair such rows"
        raise InputError(f"{scan.where(role)}: row {row} is {shown(value)}, expected numbers; {hint}.")


def column_names(path: Path) -> list[str]:
    """The names of all columns of a file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("risk;sex", "0.25; f", sep=chr(10), file=file, flush=True)
    ...     column_names(Path(file.name))
    ['risk', 'sex']
    """
    source = regular_file(path)
    kind, pl = kind_of(source), polars_module()
    with readable(source, kind), TemporaryDirectory() as folder:
        if kind == "CSV":
            return header_of(_head(_clean(source, Path(folder))), [])[1]
        scan = pl.scan_parquet if kind == "Parquet" else pl.scan_ipc
        return list(scan(source, glob=False, hive_partitioning=False).collect_schema().names())


def _head(clean: Path) -> bytes:
    """The first lines of a CSV file."""
    with clean.open("rb") as file:  # the piece read may end within a character
        return file.read(_ENDS).removeprefix(codecs.BOM_UTF8).decode(errors="ignore").encode()


def _bare(cell: Any) -> Any:
    """A CSV cell without outer blanks; null where nothing is left."""
    pl, text = polars_module(), cell.str.strip_chars()
    return pl.when(text != "").then(text)


def _csv(source: Path, names: list[str], folder: Path) -> tuple[Any, list[int]]:
    """The lazy table of a CSV file, and the places of the named columns."""
    clean = _clean(source, folder)
    with clean.open("rb") as file:
        file.seek(max(0, clean.stat().st_size - _ENDS))
        end = file.read().rstrip(b"\r\n")
    separator, header = header_of(_head(clean), names)
    places = csv_places(header, names, source)
    whole_last_line(end, separator, header, source)
    table = polars_module().scan_csv(clean, separator=separator, infer_schema=False, glob=False)
    return table, places


def _clean(source: Path, folder: Path) -> Path:
    """The file itself where it is UTF-8 without blank lines at its end, else a copy that is."""
    with source.open("rb") as file:
        wide = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as Excel saves "Unicode text"
    encoding = "utf-16" if wide else _encoding(source)
    spare = _blank_end(source)
    if encoding == "utf-8" and not spare:
        return source
    copy = folder / "clean.csv"
    with source.open(encoding=encoding, newline="") as text, copy.open("w", encoding="utf-8", newline="") as target:
        while piece := text.read(_BLOCK):
            target.write(piece)
    os.truncate(copy, copy.stat().st_size - _blank_end(copy))
    return copy


def _encoding(source: Path) -> str:
    """UTF-8, or else Windows' Latin-1; raise on what is no text or ends within a character."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with source.open("rb") as file:
            while block := file.read(_BLOCK):
                if b"\0" in block:
                    raise InputError(f"{source}: is no CSV text (it holds zero bytes); save it as CSV in UTF-8.")
                decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise InputError(f"{source}: cut short: it ends within a character; write it again, in UTF-8.") from None
        return "cp1252"
    return "utf-8"


def _blank_end(source: Path) -> int:
    """How many bytes of blank lines a file ends in, which polars would take for rows; one line end is none."""
    with source.open("rb") as file:
        file.seek(max(0, source.stat().st_size - _ENDS))
        end = file.read()
    blank = end[len(end.rstrip(b" \r\n")) :]
    return 0 if blank in (b"\n", b"\r\n") else len(blank)
