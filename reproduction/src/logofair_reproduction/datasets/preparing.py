"""From official files to prepared data: found, read batch by batch, and stored in a folder of their own.

Official tables come as CSV files, CSV files inside ZIP files, Parquet files, or a folder of these. How a data set's
rows become what is stored is a `Recipe`. A prepared folder holds the data, tables as Parquet in small integers, and
``about.json``: the data set's name, what loading needs, counts, the files' sizes and checksums.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import tomllib
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from logofair.datasets.table import known_terms
from logofair.errors import InputError
from logofair.files.documents import Document
from logofair.files.tables import (
    TableFile,
    check_unpacked,
    column_names,
    estimated_rows,
    fingerprint,
    open_table,
    regular_file,
)
from logofair.files.writing import reason_of
from logofair.progress import Progress

BATCH = 100_000  # rows read at a time
_TEXT, _ARCHIVE, _PARQUET = (".csv", ".txt"), ".zip", ".parquet"
_ABOUT, _ROWS = "about.json", "rows.parquet"
_MOST_MEMBERS = 500_000  # of a ZIP file
_VERSION = 3  # of what is stored, whatever the data set


@cache
def known_facts() -> Mapping[str, Mapping[str, Any]]:
    """What ``data/catalogue.toml`` says of every data set; the terms of those that come with the library are its."""
    text = (files("logofair_reproduction.datasets") / "data" / "catalogue.toml").read_text(encoding="utf-8")
    return {
        name: {
            **{fact: tuple(value) if isinstance(value, list) else value for fact, value in facts.items()},
            **known_terms().get(name, {}),
        }
        for name, facts in tomllib.loads(text).items()
    }


def code_tables(name: str) -> dict[str, dict[Any, Any]]:
    """What ``data/NAME.toml`` says the codes of official files mean, by column; codes that are numbers as numbers."""
    text = (files("logofair_reproduction.datasets") / "data" / f"{name}.toml").read_text(encoding="utf-8")
    return {
        column: {int(code) if code.isdecimal() else code: meaning for code, meaning in codes.items()}
        for column, codes in tomllib.loads(text).items()
    }


def terms_of(name: str) -> dict[str, Any]:
    """The name and terms of a data set, as `logofair.datasets.Dataset` takes them."""
    return {"name": name} | {fact: known_facts()[name][fact] for fact in ("licence", "citation", "known_harms")}


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


def prepare_command(name: str, folder: Path) -> str:
    """What to type so that a folder holds a data set."""
    return f"logofair data prepare {name} --from PATH{cache_option(name, folder)}"


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
    stored = {
        path.name: {"bytes": path.stat().st_size, "sha256": fingerprint(path)}
        for path in sorted(folder.iterdir())
        if path.name != _ABOUT
    }
    _about(folder, name).write(folder / _ABOUT, {**body, "files": stored})


def _about(folder: Path, name: str) -> Document[dict[str, Any]]:
    """The kind of file that says what a folder holds of a data set."""
    remedy = f"prepare it again: {prepare_command(name, folder)} --force"
    return Document(dict[str, Any], f"logofair data: {name}", _VERSION, "prepared data set", remedy)


def check_about(folder: Path, name: str) -> dict[str, Any]:
    """Read what `write_about` wrote; raise one sentence where it or a file beside it is missing, cut or outdated."""
    folder = Path(folder)
    if not is_prepared(folder):
        raise InputError(f"{name}: nothing prepared in {folder}; run: {prepare_command(name, folder)}.")
    remedy = f"prepare it again: {prepare_command(name, folder)} --force"
    body = _about(folder, name).read(folder / _ABOUT)
    for file, known in body.pop("files").items():
        path = folder / file
        if not path.is_file() or path.stat().st_size != known["bytes"]:
            raise InputError(f"{path}: is missing or damaged; {remedy}.")
    return body


def load_rows(folder: Path, name: str) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Read the rows that `prepare_table` wrote, and what it says about them."""
    about = check_about(folder, name)
    try:
        return pl.read_parquet(folder / _ROWS, glob=False), about
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        again = f"{prepare_command(name, folder)} --force"
        raise InputError(f"{folder / _ROWS}: is missing or damaged; prepare it again: {again}.") from None


@dataclass(frozen=True)
class ZipMember(TableFile):
    """A table in a ZIP file, by its name there."""

    member: str

    def __str__(self) -> str:
        return f"{self.path} ({self.member})"

    @property
    def name(self) -> str:
        """The table's own name, without folders."""
        return Path(self.member).name

    @property
    def is_packed(self) -> bool:
        """Whether its bytes are not those of the table itself."""
        return True

    @property
    def size(self) -> int:
        """Its bytes, unpacked."""
        with open_zip(self.path) as archive:
            return archive.getinfo(self.member).file_size

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it for reading bytes."""
        with open_zip(self.path) as archive, archive.open(self.member) as packed:
            yield packed


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a ZIP file that unpacks to no more than official files do; what is wrong with it becomes one sentence."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > _MOST_MEMBERS:
                raise InputError(f"{path}: holds {len(members):,} files, more than {_MOST_MEMBERS:,}; unpack it first.")
            check_unpacked(path, sum(member.file_size for member in members))  # zipfile unpacks no more of a member
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):  # some official files are packed so
        raise InputError(
            f"{path}: is damaged, or packed by a method that cannot be read here; download it again, or unpack it."
        ) from None
    except RuntimeError as error:
        if "password" not in str(error):
            raise
        raise InputError(f"{path}: is encrypted; unpack it and pass the CSV file.") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({reason_of(error)}); check the file.") from None


def find_tables(source: Path, mark: str, what: str) -> dict[TableFile, tuple[str, ...]]:
    """The tables with a column ``mark`` in a file, a ZIP file, or a folder and those below it, each with its header.

    Raise one sentence where there is none (``what`` says what was looked for) or where one is there twice.
    """
    source = Path(source)
    if not source.exists():
        raise InputError(f"{source}: not there; check the path.")
    if not source.is_dir():
        paths = [regular_file(source)]
    else:
        endings = (*_TEXT, _ARCHIVE, _PARQUET)
        inside = (path for path in source.rglob("*") if path.suffix.lower() in endings and path.is_file())
        paths = sorted(path for path in inside if not is_prepared(path.parent))
    headers = {file: tuple(column_names(file)) for path in paths for file in _tables(path)}
    found = {file: header for file, header in headers.items() if mark in header}
    if not found:
        raise InputError(
            f"{source}: holds no {what} (no CSV, ZIP or Parquet file with a column {mark!r}); pass the official files."
        )
    known: dict[str, TableFile] = {}
    for file in found:  # packed and unpacked, its people would count twice
        if (other := known.setdefault(file.name, file)) != file:
            raise InputError(f"{file}: the same table as {other}; leave one of them.")
    return found


def _tables(path: Path) -> list[TableFile]:
    if path.suffix.lower() != _ARCHIVE:
        return [TableFile(path)]
    with open_zip(path) as archive:
        members = archive.namelist()
    # macOS packs a hidden twin of every file.
    wanted = [name for name in members if Path(name).suffix.lower() in _TEXT and not name.startswith("__MACOSX")]
    return [ZipMember(path, name) for name in wanted]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a table's rows become what is stored; the columns read are those that its expressions name.

    ``filters`` say whom to keep, one after the other, by the reason why the others are dropped. ``codes`` are the
    columns to store, null where a value is missing or not one of those known: such rows are dropped. ``notes`` are
    columns that are read along and not stored; by one called "person" nobody may be there twice. ``facts`` is what
    loading must know, the same for all tables.
    """

    filters: Mapping[str, pl.Expr]
    codes: Mapping[str, pl.Expr]
    notes: Mapping[str, pl.Expr] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def columns(self) -> list[str]:
        """All columns to read."""
        every = (*self.filters.values(), *self.codes.values(), *self.notes.values())
        return list(dict.fromkeys(name for expression in every for name in expression.meta.root_names()))

    def select(self, rows: pl.DataFrame, counts: Counter[str]) -> pl.DataFrame:
        """Filter and code some rows; count those dropped."""
        counts["rows read"] += rows.height
        for reason, keep in self.filters.items():
            left = rows.filter(keep)
            counts[f"dropped: {reason}"] += rows.height - left.height
            rows = left
        coded = rows.select(**self.codes, **self.notes)
        complete = coded.drop_nulls(list(self.codes))
        counts["dropped: a value missing"] += coded.height - complete.height
        return complete


def prepare_table(
    name: str,
    source: Path,
    into: Path,
    recipes: Mapping[TableFile, Recipe],
    about: Callable[[pl.DataFrame], Mapping[str, Any]],
    *,
    advice: str,
    progress: Progress,
    batch: int,
) -> Counter[str]:
    """Store the rows of official tables, each by its recipe; return what was kept and what was dropped, and why.

    ``about`` says of the rows kept what loading needs beside the recipes' facts. ``advice`` says what to pass where
    all rows were dropped.
    """
    counts, parts = Counter[str](), []
    (first_file, first), *others = recipes.items()
    for file, recipe in others:
        if recipe.facts != first.facts or list(recipe.codes) != list(first.codes):
            raise InputError(f"{file}: is of another kind or year than {first_file}; prepare files of one at a time.")
    total = sum(estimated_rows(file) // batch + 1 for file in recipes)
    with new_folder(into) as folder:
        for recipe, rows in progress(_batches(recipes, batch), "Reading the rows", total=total):
            parts.append(recipe.select(rows, counts))
        if not parts:
            raise InputError(f"{source}: has no rows below its header; download it again.")
        kept = pl.concat(parts)
        if kept.is_empty():
            dropped = ", ".join(f"{reason} {count:,}" for reason, count in counts.items() if count)
            raise InputError(f"{source}: none of its rows is left ({dropped}); {advice}.")
        if "person" in kept.columns and (twice := int(kept["person"].drop_nulls().is_duplicated().sum())):
            raise InputError(f"{source}: {twice:,} rows are of people who are there twice; leave out a file, or these.")
        counts["rows kept"] = kept.height
        body = {**first.facts, **about(kept), "counts": dict(counts)}
        kept.select(list(first.codes)).rechunk().write_parquet(folder / _ROWS)  # the same file whatever the batches
        write_about(folder, name, body)
    return counts


def _batches(recipes: Mapping[TableFile, Recipe], size: int) -> Iterator[tuple[Recipe, pl.DataFrame]]:
    """The rows of the tables, some at a time; cells of a CSV are text, null where empty."""
    for file, recipe in recipes.items():
        with open_table(file, {name: name for name in recipe.columns()}) as table:
            for rows in table.batches(size):
                yield recipe, rows


def check_columns(file: TableFile, header: Iterable[str], recipe: Recipe, advice: str) -> Recipe:
    """The recipe, if the table has all its columns."""
    missing = [name for name in recipe.columns() if name not in set(header)]
    if missing:
        raise InputError(f"{file}: lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; {advice}.")
    return recipe


def number(name: str) -> pl.Expr:
    """A column as numbers, null where one is missing or a cell holds something else."""
    return pl.col(name).cast(pl.Float64, strict=False).fill_nan(None)


def within(name: str, low: int, high: int) -> pl.Expr:
    """A column as small integers, null where one is missing or not from ``low`` to ``high``."""
    return pl.when(number(name).is_between(low, high)).then(number(name)).cast(pl.UInt8)


def among(values: pl.Expr, codes: Mapping[Any, int]) -> pl.Expr:
    """The small integers that some values stand for, null for any other."""
    return values.replace_strict(codes, default=None, return_dtype=pl.UInt8)


def named(codes: npt.NDArray[Any], names: Mapping[int, str]) -> npt.NDArray[np.str_]:
    """The names of codes."""
    table = np.full(max(names) + 1, "", dtype=f"<U{max(map(len, names.values()))}")
    table[list(names)] = list(names.values())
    labels: npt.NDArray[np.str_] = table[codes]
    return labels
