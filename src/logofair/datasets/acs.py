"""ACSIncome: who earns more than 50,000 USD a year, from the American Community Survey; states are natural clients.

Read from person records as folktables downloads them, or from a table of folktables' income task, and kept as Parquet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from logofair.arguments import RandomSource
from logofair.datasets import acs_rows as layouts
from logofair.datasets.cache import Watch, advice_again, read_about, unwatched, write_about
from logofair.datasets.folders import new_folder
from logofair.datasets.prepared import (
    Categories,
    Scaled,
    chosen,
    feature_table,
    random_rows,
    read_rows,
    refuse_nothing_left,
    write_rows,
)
from logofair.datasets.repeats import Repeats, refuse_shared
from logofair.datasets.streams import PIECE, Table, find_tables, one_layout, pieces
from logofair.datasets.table import Dataset
from logofair.documents import or_damaged
from logofair.inputs import InputError

if TYPE_CHECKING:
    import polars

__all__ = ["CITATION", "KNOWN_HARMS", "LICENCE", "SENSITIVE", "VERSION", "WHERE", "load_acs", "prepare_acs"]

LICENCE = "US Census Bureau, public domain"
CITATION = (
    "Ding, F., Hardt, M., Miller, J. and Schmidt, L. (2021). Retiring Adult: New Datasets for Fair Machine Learning. "
    "NeurIPS 34. Data: US Census Bureau, American Community Survey, Public Use Microdata Sample."
)
KNOWN_HARMS = (
    "Sex is recorded as Female or Male only, and race is merged into five coarse groups, of which Other joins people "
    "who have little in common.",
    "The threshold of 50,000 USD cuts at different places of each state's incomes, and findings change with it.",
    "Only people of 17 and older with work and an income above 100 USD are kept: who finds no work is not seen.",
    "The survey's weights are ignored, so rates are those of the rows, not of the population.",
    "Income is what people answered, rounded and cut off at the top by the Census Bureau.",
)
WHERE = (
    "Either pip install folktables and run: ACSDataSource(survey_year='2018', horizon='1-Year', survey='person')"
    ".get_data(states=['CA', 'TX'], download=True); pass the folder data it writes.",
    "Or download csv_pca.zip and others (two letters of a state) from "
    "https://www2.census.gov/programs-surveys/acs/data/pums/2018/1-Year/ and pass the folder they are in.",
    "Run: logofair data prepare acs --from PATH",
)
SENSITIVE = ("sex", "race", "race2")
VERSION = 2

_NAME = "acs"
_KEPT = "rows kept"
_PERSON = ("SERIALNO", "SPORDER")
_SEXES = {1: "Male", 2: "Female"}
_WORK = dict(enumerate(("private company", "not-for-profit", "local government", "state government"), 1))
_WORK |= dict(enumerate(("federal government", "self-employed", "own company", "unpaid in family", "unemployed"), 5))
_MARRIED = dict(enumerate(("married", "widowed", "divorced", "separated", "never married"), 1))
_GROUPS = {
    "sex": ("SEX", _SEXES),
    "race": ("RAC1P", layouts.RACES),
    "race2": ("RAC1P", {code: race if race == "White" else "Other" for code, race in layouts.RACES.items()}),
}


def prepare_acs(source: Path, into: Path, *, watch: Watch = unwatched, piece: int = PIECE) -> Mapping[str, int]:
    """Read person records of one year, keep those of the income task, and store them in a folder.

    Parameters
    ----------
    source : Path
        A folder with psam_pXX.csv or csv_pXX.zip (as folktables downloads them, in folders below it too), one such
        file, or a Parquet file of folktables' income task with a column STATE.
    into : Path
        The folder to make; a prepared one that is there is replaced.
    watch : Watch
        Shows how far the reading is.
    piece : int
        Bytes read at a time; memory grows with it and not with the file.

    Returns
    -------
    mapping of str to int
        How many rows were read, were dropped by each filter in turn, and are kept.

    Examples
    --------
    >>> prepare_acs(Path("psam_p06.csv"), Path("acs"))
    Traceback (most recent call last):
    logofair.inputs.InputError: psam_p06.csv: not there; check the path.
    """
    tables = find_tables(source, "PINCP", "ACS person records")
    layout = one_layout(tables, layouts.layout_of, "columns or codes", "kind")
    reading = _Reading(layout, Repeats((layout.state, *_PERSON)) if _have_persons(tables) else None)
    counts = reading.counts
    with new_folder(into) as folder:
        columns = (*layout.columns, *(_PERSON if reading.people else ()))
        kept = write_rows(folder, reading.coded(pieces(tables, lambda table: columns, watch, size=piece)))
        if kept == 0:
            refuse_nothing_left(source, counts, "pass records of adults who work")
        reading.refuse_repeats()
        labels = read_rows(folder, _NAME, kept, ["PINCP"])["PINCP"]
        if labels.n_unique() == 1:
            side = "above" if labels[0] else "at or below"
            raise InputError(
                f"{source}: every income is {side} 50,000 USD, so there is one label only; pass records of more people."
            )
        counts[_KEPT] = kept
        about = {"relation": layout.relation, "merged": layout.merged, "counts": counts, "notes": _notes(layout)}
        write_about(folder, _NAME, VERSION, about)
    return counts


def _have_persons(tables: Sequence[Table]) -> bool:
    """Whether all tables tell which person a row is."""
    return all(set(_PERSON) <= set(table.header) for table in tables)


@dataclass
class _Reading:
    """What is learnt while rows go by: counts, and who they are; where that is unknown, the states of each table."""

    layout: layouts.Layout
    people: Repeats | None
    counts: Counter[str] = field(default_factory=Counter)
    states: dict[str, set[str]] = field(default_factory=dict)

    def coded(self, read: Iterable[tuple[Table, polars.DataFrame]]) -> Iterator[polars.DataFrame]:
        """Hand on the rows that are kept, as codes."""
        for table, rows in read:
            if self.people is not None:
                self.people.add(table, rows)
            kept = layouts.coded_rows(rows, self.layout, self.counts)
            names = (layouts.STATES[code] for code in kept["ST"].unique())
            self.states.setdefault(table.where, set()).update(names)
            yield kept

    def refuse_repeats(self) -> None:
        """Raise where rows would count twice."""
        if self.people is None:
            refuse_shared(self.states, "the state")
        else:
            self.people.refuse()


def _notes(layout: layouts.Layout) -> list[str]:
    notes = []
    if layout.labelled:
        notes.append("PINCP holds labels, so the rows were taken as those of the income task, without filters.")
    if layout.merged:
        notes.append("RAC1P has five codes and MAR two: read as White, Black, Asian, Native, Other; married or not.")
    return notes


def load_acs(
    folder: Path,
    *,
    sensitive: str = "sex",
    states: Sequence[str] | None = None,
    keep_sensitive: bool = True,
    rows: int | None = None,
    rng: RandomSource = 0,
) -> Dataset:
    """Load what `prepare_acs` stored. Label 1 means an income above 50,000 USD; the state is the natural client.

    Features, all in [0, 1]: age, schooling and hours of work as numbers; kind of employer, marriage, relation to the
    householder, sex, race, occupation and place of birth one-hot. The 530 occupations are the census' 26 major groups
    and the 220 places of birth ten regions: one-hot each, 900,000 rows would take 6 GB and not 0.6.

    Parameters
    ----------
    folder : Path
        Where the prepared data lie.
    sensitive : {"sex", "race", "race2"}
        "race": White, Black, Asian, Native (American Indian or Alaska Native) and Other; "race2": White and Other.
    states : sequence of str, optional
        Load only these states, such as ``["CA", "TX"]``.
    keep_sensitive : bool
        Whether that column is among the features too, as in folktables.
    rows : int, optional
        Load only so many rows, drawn at random.
    rng : np.random.Generator or int
        Source of randomness for ``rows``, or a seed.

    Examples
    --------
    >>> load_acs(Path("nowhere"))
    Traceback (most recent call last):
    logofair.inputs.InputError: acs: nothing prepared in nowhere; run: logofair data prepare acs --from PATH.
    """
    column, groups = _GROUPS[chosen(sensitive, SENSITIVE, "sensitive")]
    about = read_about(folder, _NAME, VERSION)
    n_rows, features = or_damaged(lambda: _stored(about), folder, what=_NAME, remedy=advice_again(_NAME, folder))
    table = read_rows(folder, _NAME, n_rows)
    numbers = _of_states(table["ST"], states)
    numbers = numbers[random_rows(numbers.size, rows, rng)]
    table = table[numbers]
    shown = [feature for feature in features if keep_sensitive or feature.name != column]
    values, names = feature_table(table, shown)
    return Dataset(
        name=_NAME,
        features=values,
        feature_names=names,
        labels=table["PINCP"].to_numpy().astype(np.int64),
        sensitive=_named(table[column], groups),
        clients=_named(table["ST"], layouts.STATES),
        licence=LICENCE,
        citation=CITATION,
        known_harms=KNOWN_HARMS,
        notes=tuple(about["notes"]),
        numbers=numbers,
    )


def _stored(about: Mapping[str, Any]) -> tuple[int, list[Scaled | Categories]]:
    """The number of rows, and what a model sees of them."""
    relation = str(about["relation"])
    married = {1: "married", 2: "not married"} if about["merged"] else _MARRIED
    features: list[Scaled | Categories] = [
        Scaled("AGEP", 17, 99),
        Scaled("SCHL", 1, 24),
        Scaled("WKHP", 1, 99),
        Categories("COW", _WORK),
        Categories("MAR", married),
        Categories(relation, {code: str(code) for code in layouts.RELATIONS[relation]}),
        Categories("SEX", _SEXES),
        Categories("RAC1P", layouts.RACES),
        Categories("OCCP", layouts.OCCUPATIONS),
        Categories("POBP", layouts.REGIONS),
    ]
    return int(about["counts"][_KEPT]), features


def _of_states(rows: polars.Series, states: Sequence[str] | None) -> npt.NDArray[np.intp]:
    """The numbers of the rows of some states."""
    if states is None:
        return np.arange(rows.len())
    codes = {layouts.STATES[code]: code for code in rows.unique().sort()}
    wanted = [codes[chosen(state, codes, "states")] for state in ([states] if isinstance(states, str) else states)]
    if not wanted:
        raise InputError("states: got an empty list; name at least one, or None for all.")
    return np.flatnonzero(np.isin(rows.to_numpy(), wanted))


def _named(codes: polars.Series, names: Mapping[int, str]) -> npt.NDArray[np.str_]:
    """The names of codes."""
    table = np.full(max(names) + 1, "", dtype=f"<U{max(map(len, names.values()))}")
    table[list(names)] = list(names.values())
    labels: npt.NDArray[np.str_] = table[codes.to_numpy()]
    return labels
