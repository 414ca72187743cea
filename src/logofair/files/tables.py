"""A user's file as checked columns: CSV, Parquet or Arrow; nothing but the wanted columns is kept.

Nothing is guessed about values: nulls stay nulls, for the doors further in to name; text stays text, unless every cell
of a CSV column is how an integer is written (not "007"); two texts become 0 and 1 only when told which is 1. Blanks
around the cells of a CSV file belong to its layout and are dropped.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, nearest_name, shown
from logofair.errors import InputError

if TYPE_CHECKING:
    import polars

__all__ = ["ROLES", "DataSource", "feature_matrix", "fingerprint", "read_columns"]


FileName: TypeAlias = str | os.PathLike[str]
ROLES = ("score", "weight", "label", "group", "client", "site", "id")
KINDS = dict.fromkeys((".csv", ".tsv", ".txt"), "CSV") | dict.fromkeys((".parquet", ".pq"), "Parquet")
KINDS |= dict.fromkeys((".arrow", ".feather", ".ipc"), "Arrow")
_BINARY = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}


@dataclass(frozen=True)
class DataSource:
    """Where rows came from, so that a result can be traced back and made again; no rows and no folders.

    ``columns`` maps roles to names; several group columns are joined by ", ". ``fingerprint`` is the SHA-256 of the
    file, or of the list of the files' own fingerprints.

    Examples
    --------
    >>> DataSource("sites", ("north.csv", "south.csv"), "5d41", 1200, {"score": "p", "group": "sex"}).files
    ('north.csv', 'south.csv')
    """

    name: str
    files: tuple[str, ...]
    fingerprint: str
    rows: int
    columns: Mapping[str, str]


def read_columns(path: FileName, wanted: Mapping[str, str], *, positive: object = None) -> dict[str, npt.NDArray[Any]]:
    """Read the wanted columns of a file, by their roles (`ROLES`): ``{"score": "risk", "group": "sex"}``.

    Scores and weights come back as float64, labels as 0 and 1, all others as int64, float64, bool, or text (objects);
    missing values as NaN or None. ``positive`` is the value of the label column that counts as 1.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("risk;sex;income", "0.25;f;>50K", "0.5;m;<=50K", sep=chr(10), file=file, flush=True)
    ...     columns = read_columns(file.name, {"score": "risk", "group": "sex", "label": "income"}, positive=">50K")
    >>> {role: values.tolist() for role, values in columns.items()}
    {'score': [0.25, 0.5], 'group': ['f', 'm'], 'label': [1, 0]}
    """
    for role in wanted:
        if role not in ROLES:
            raise InputError(f"wanted: got the role {role!r}{nearest_name(role, ROLES)}; known are {', '.join(ROLES)}.")
    table = _columns(path, list(wanted.values()))
    return {role: _column(table[name], role, f"{path}: column {name!r}", positive) for role, name in wanted.items()}


def feature_matrix(path: FileName, names: Sequence[str]) -> Floats:
    """Read numeric feature columns as float64, (n, k) in the order of the names; missing values as NaN.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     print("age,name,hours", "39,ann,40", "50,bob,12.5", sep=chr(10), file=file, flush=True)
    ...     feature_matrix(file.name, ["hours", "age"]).tolist()
    [[40.0, 39.0], [12.5, 50.0]]
    """
    table = _columns(path, list(names))
    return np.column_stack([number_values(table[name], f"{path}: column {name!r}") for name in names])


def fingerprint(path: FileName) -> str:
    """Return the SHA-256 of a file's bytes: equal exactly when the file was not changed.

    Examples
    --------
    >>> len(fingerprint(__file__))
    64
    """
    with regular_file(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def regular_file(path: FileName) -> Path:
    """A regular file that can be read and holds something."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path: got {path!r}; pass a file name.")
    source = Path(path)
    if source.exists() and not source.is_file():
        raise InputError(f"{source}: is a folder or no regular file; pass a file.")
    try:
        with source.open("rb") as file:
            first = file.read(1)
    except (OSError, ValueError) as error:
        raise InputError(f"{source}: cannot be read ({getattr(error, 'strerror', error)}); check the path.") from None
    if not first:
        raise InputError(f"{source}: is empty; write the file again.")
    return source


def polars_module() -> Any:
    try:
        import polars
    except ImportError:
        raise InputError("files: reading tables needs polars; install it with pip install 'logofair[data]'.") from None
    return polars


def kind_of(source: Path) -> str:
    """What kind of table a file is, by the ending of its name."""
    kind = KINDS.get(source.suffix.lower())
    if kind is None:
        raise InputError(f"{source}: its name ends in {source.suffix!r}; known endings are {', '.join(KINDS)}.")
    return kind


def _columns(path: FileName, names: list[str]) -> dict[str, polars.Series]:
    """The named columns, at least one row of them."""
    source = regular_file(path)
    kind = kind_of(source)
    names = list(dict.fromkeys(names))
    if not names:
        raise InputError(f"{source}: no columns were named; name at least one.")
    with readable(source, kind):
        columns = _csv(source, names) if kind == "CSV" else _scan(source, names, kind)
    if len(columns[0]) == 0:
        raise InputError(f"{source}: has columns but no rows; pass a file with at least one.")
    return dict(zip(names, columns, strict=True))


@contextmanager
def readable(source: Path, kind: str) -> Iterator[None]:
    """Turn the reader's failures into one sentence; its own reasons may quote rows, so they are not passed on."""
    pl = polars_module()
    try:
        yield
    # PanicException is no Exception.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeError, csv.Error):
        csv_fault = "a line with too many fields, or an open quote, or no text"
        fault = csv_fault if kind == "CSV" else "damaged, or of another kind"
        raise InputError(f"{source}: cannot be read as {kind} ({fault}); write the file again.") from None


def _scan(source: Path, names: list[str], kind: str) -> list[polars.Series]:
    pl = polars_module()
    scan = pl.scan_parquet if kind == "Parquet" else pl.scan_ipc
    table = scan(source, glob=False, hive_partitioning=False)  # brackets in a file's name are no pattern
    places = places_of(table.collect_schema().names(), names, source)
    # Neither by name nor under it: polars takes "^a.*$" and "*" for patterns.
    return [column.alias("") for column in table.select(pl.nth(places)).collect().get_columns()]


def _csv(source: Path, names: list[str]) -> list[polars.Series]:
    data = _utf8(source)
    separator, header = header_of(data, names)
    places = csv_places(header, names, source)
    whole_last_line(data, separator, header, source)
    cells = polars_module().read_csv(data, columns=places, separator=separator, infer_schema=False)
    return [whole_numbers(column.alias("")) for column in cells.get_columns()]


def csv_places(header: list[str], names: list[str], source: Path) -> list[int]:
    """Where the named columns stand in a CSV file; raise also if its first line looks like a row."""
    if not set(names) & set(header) and any(name.replace(".", "").isdigit() for name in header):  # not for showing
        raise InputError(f"{source}: its first line holds numbers; the first line must name the columns.")
    return places_of(header, names, source)


def whole_last_line(end: bytes, separator: str, header: list[str], source: Path) -> None:
    """Raise if the last line has too few fields: polars would fill it up with nulls."""
    last = end[end.rfind(b"\n") + 1 :]
    if b'"' not in last and last.count(separator.encode()) + 1 < len(header):
        raise InputError(f"{source}: cut short: its last line has too few fields; write the file again.")


def _utf8(source: Path) -> bytes:
    """A text file as UTF-8 without its mark and without blank lines at the end, which polars would take for rows."""
    data = source.read_bytes().removeprefix(codecs.BOM_UTF8)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # as Excel saves "Unicode text"
        data = data.decode("utf-16").encode()
    if b"\0" in data:
        raise InputError(f"{source}: is no CSV text (it holds zero bytes); save it as CSV in UTF-8.")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            raise InputError(f"{source}: cut short: it ends within a character; write it again, in UTF-8.") from None
        data = data.decode("cp1252").encode()  # Latin-1, with the quotes and dashes that Excel writes
    return data.rstrip(b" \r\n")


def header_of(data: bytes, names: list[str]) -> tuple[str, list[str]]:
    """The separator under which most wanted names are found (then: most names), and the column names."""
    found: list[tuple[str, list[str]]] = []
    for separator in ",;\t|":
        rows = csv.reader(io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""), delimiter=separator)
        found.append((separator, [name.strip() for name in next(filter(None, rows), [])]))
    return max(found, key=lambda pair: (len(set(names) & set(pair[1])), len(pair[1])))


def places_of(header: list[str], names: list[str], source: Path) -> list[int]:
    """Where the named columns stand; raise if one is missing or stands twice."""
    for name in names:
        if header.count(name) > 1:
            raise InputError(f"{source}: has {header.count(name)} columns {name!r}; rename all but one.")
        if name not in header:
            listed = ", ".join(map(shown, header[:20])) + (f" and {len(header) - 20} more" if len(header) > 20 else "")
            raise InputError(f"{source}: no column {name!r}{nearest_name(name, header)}; its columns are {listed}.")
    return [header.index(name) for name in names]


def whole_numbers(cells: polars.Series) -> polars.Series:
    """Cells of a CSV as integers where each is how an integer is written, else as text; empty ones are missing."""
    cells = cells.str.strip_chars().replace("", None)
    whole = cells.cast(polars_module().Int64, strict=False)
    fits = whole.null_count() == cells.null_count() < cells.len()
    return whole if fits and cells.str.contains("^(0|-?[1-9][0-9]*)$").all() else cells


def plain_values(values: polars.Series, where: str, expected: str) -> polars.Series:
    """A column as text, bool, int64 (uint64 where too large for that) or float64; raise on any other kind."""
    pl, kind = polars_module(), values.dtype
    if kind in (pl.String, pl.Boolean):
        return values
    if kind in (pl.Categorical, pl.Enum, pl.Null):
        return values.cast(pl.String)
    if not kind.is_numeric():
        raise InputError(f"{where}: holds {kind}, expected {expected}; convert the column first.")
    for target in (pl.Int64, pl.UInt64) if kind.is_integer() else (pl.Float64,):
        same = values.cast(target, strict=False)
        if same.null_count() == values.null_count():
            return same
    raise InputError(f"{where}: holds integers of more than 64 bits; store them as text.")


def _column(values: polars.Series, role: str, where: str, positive: object) -> npt.NDArray[Any]:
    """A column in the form its role asks for, NaN or None where a value is missing."""
    if role in ("score", "weight"):
        return number_values(values, where)
    plain = plain_values(values, where, "text or numbers")
    return np.array((zero_or_one(plain, where, positive) if role == "label" else plain).to_numpy())


def number_values(values: polars.Series, where: str) -> Floats:
    """A column of numbers as float64, NaN where one is missing."""
    values = plain_values(values, where, "numbers")
    floats = values.cast(polars_module().Float64, strict=False)
    wrong = floats.is_null() & values.is_not_null()
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        hint = "write decimals with a point" if "," in values[row] else "drop or repair such rows"
        raise InputError(f"{where}: row {row} is {shown(values[row])}, expected numbers; {hint}.")
    return np.array(floats.to_numpy(), dtype=np.float64)


def zero_or_one(values: polars.Series, where: str, positive: object, option: str = "positive") -> polars.Series:
    """A column of labels as 0 and 1; other numbers are left to the doors further in."""
    pl = polars_module()
    if positive is None and values.dtype != pl.String:
        return values.cast(pl.Int64) if values.dtype == pl.Boolean else values
    if positive is None and values.str.to_lowercase().is_in(list(_BINARY)).all():
        return values.str.to_lowercase().replace_strict(_BINARY, return_dtype=pl.Int64)
    values = values.fill_nan(None) if values.dtype.is_float() else values
    found = values.drop_nulls().unique(maintain_order=True).head(3).to_list()
    listed = " and ".join(map(shown, found[:2]))
    if len(found) > 2:
        raise InputError(f"{where}: holds more than two values (such as {listed}); a label has two: merge some first.")
    if positive is None:
        raise InputError(f"{where}: holds {listed}, expected 0 and 1; say with {option} which one counts as 1.")
    one = _spelling(positive)
    if [_spelling(value) for value in found].count(one) != 1:
        raise InputError(f"{where}: holds {listed or 'nothing'}, not {shown(positive)}; correct {option}.")
    return values.replace_strict({value: int(_spelling(value) == one) for value in found}, return_dtype=pl.Int64)


def _spelling(value: object) -> str:
    """A value of a label column as people type it: 2.0 as 2, True as true."""
    return str(value).strip().lower().removesuffix(".0")
