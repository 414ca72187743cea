"""The rows of a prepared table, stored as Parquet in small integers, and the features made of them when loading.

Stored one-hot the rows would take fifty times the room; made at loading, the widths are fixed by the lists of
categories and not by the rows, so that every part of the data has the same features.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import Floats, RandomSource, generator, nearest_name, whole_number
from logofair.datasets.cache import advice_again
from logofair.datasets.official import OfficialTable, batches, check_people, persons_of
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.progress import Progress

if TYPE_CHECKING:
    import polars

__all__ = [
    "CategoryFeature",
    "NumberFeature",
    "chosen",
    "feature_table",
    "load_rows",
    "random_rows",
    "read_official",
    "rows_wanted",
    "select_rows",
    "store_rows",
]

_ROWS = "rows.parquet"


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


def store_rows(folder: Path, rows: polars.DataFrame) -> None:
    """Write the rows of a prepared table."""
    pl = polars_module()
    try:
        rows.rechunk().write_parquet(folder / _ROWS)  # the same file whatever the batches were
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(f"{folder.parent}: cannot be written ({reason}); make room or choose another.") from None


def load_rows(folder: Path, name: str, n_rows: int) -> polars.DataFrame:
    """Read what `store_rows` wrote; raise one sentence where it is damaged or does not have ``n_rows`` rows."""
    pl = polars_module()
    with contextlib.suppress(pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        rows: polars.DataFrame = pl.read_parquet(folder / _ROWS, glob=False)
        if rows.height == n_rows:
            return rows
    raise InputError(f"{folder / _ROWS}: is damaged; {advice_again(name, folder)}.")


def read_official(
    source: Path,
    tables: Sequence[OfficialTable],
    columns: Sequence[str],
    select: Callable[[OfficialTable, polars.DataFrame, Counter[str]], polars.DataFrame],
    *,
    person: Sequence[str],
    advice: str,
    progress: Progress,
    batch: int,
) -> tuple[polars.DataFrame, Counter[str]]:
    """The rows of official tables that ``select`` keeps of each batch, and what it counted; nobody may be there twice.

    ``person`` are the columns that tell who a row is, where there are any; ``advice`` says what to pass where all rows
    were dropped.
    """
    counts, parts, people = Counter[str](), [], []
    for table, rows in batches(tables, [*columns, *person], progress, batch):
        if person:
            people.append(persons_of(table, rows, person))
        parts.append(select(table, rows, counts))
    if not parts:
        raise InputError(f"{source}: has no rows below its header; download it again.")
    kept: polars.DataFrame = polars_module().concat(parts)
    if kept.is_empty():
        dropped = ", ".join(f"{reason} {count:,}" for reason, count in counts.items() if count)
        raise InputError(f"{source}: none of its rows is left ({dropped}); {advice}.")
    if people:
        check_people(people, person)
    counts["rows kept"] = kept.height
    return kept, counts


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


def chosen(value: str, known: Iterable[str], where: str) -> str:
    """Return one of some known names; raise on any other, with the nearest."""
    names = list(known)
    if value not in names:
        raise InputError(f"{where}: got {value!r}{nearest_name(value, names)}; use one of {', '.join(names)}.")
    return value


@dataclass(frozen=True)
class NumberFeature:
    """A number, scaled to [0, 1] by a range that does not depend on the rows; what lies outside is cut off."""

    name: str
    low: float
    high: float

    @property
    def names(self) -> tuple[str, ...]:
        """The name of the one feature."""
        return (self.name,)

    def values(self, column: npt.NDArray[Any]) -> Floats:
        """The feature of some rows, (n, 1)."""
        return np.clip((column[:, None] - self.low) / (self.high - self.low), 0.0, 1.0)


@dataclass(frozen=True)
class CategoryFeature:
    """A code, made into one feature of 0 or 1 for each of its categories: code to name."""

    name: str
    categories: Mapping[int, str]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features."""
        return tuple(f"{self.name}={category}" for category in self.categories.values())

    def values(self, column: npt.NDArray[Any]) -> Floats:
        """The features of some rows, (n, k)."""
        hot: Floats = np.equal(column[:, None], np.array(list(self.categories))).astype(np.float64)
        return hot


def feature_table(
    column: Callable[[str], npt.NDArray[Any]], features: Sequence[NumberFeature | CategoryFeature]
) -> tuple[Floats, tuple[str, ...]]:
    """Features of some rows side by side, and their names; ``column`` finds the column of a name."""
    names = [name for feature in features for name in feature.names]
    table: Floats = np.empty((column(features[0].name).size, len(names)))  # filled in parts: never twice in memory
    place = 0
    for feature in features:
        width = len(feature.names)
        table[:, place : place + width] = feature.values(column(feature.name))
        place += width
    return table, tuple(names)
