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

from logofair.columns.checks import RandomSource
from logofair.datasets import acs as layouts
from logofair.datasets.cache import advice_again, new_folder, read_about, write_about
from logofair.datasets.prepared import (
    CategoryFeature,
    NumberFeature,
    chosen,
    feature_table,
    kept_rows,
    number,
    random_rows,
    read_rows,
    refuse_nothing_left,
    write_rows,
)
from logofair.datasets.streams import PIECE, DuplicateFinder, Table, find_tables, one_layout, pieces, refuse_shared
from logofair.datasets.table import Dataset
from logofair.errors import InputError
from logofair.files.documents import or_damaged
from logofair.files.tables import polars_module
from logofair.progress import Progress, no_progress

if TYPE_CHECKING:
    import polars

__all__ = [
    "CITATION",
    "KNOWN_HARMS",
    "LICENCE",
    "OCCUPATIONS",
    "RACES",
    "REGIONS",
    "RELATIONS",
    "SENSITIVE",
    "STATES",
    "VERSION",
    "WHERE",
    "AcsLayout",
    "coded_rows",
    "layout_of",
    "load_acs",
    "prepare_acs",
]


RACES = {1: "White", 2: "Black", 3: "Asian", 4: "Native", 5: "Other"}
# RAC1P as published to the five above: 3 to 5 are American Indians and Alaska Natives, 7 to 9 Pacific Islanders,
# some other race, and several races.
_RACE_OF = {1: 1, 2: 2, 3: 4, 4: 4, 5: 4, 6: 3, 7: 5, 8: 5, 9: 5}
RELATIONS = {"RELP": range(18), "RELSHIPP": range(20, 39)}
# Occupation codes by the census' major groups: where each begins; the same in the code lists of 2010, 2012 and 2018.
OCCUPATIONS = {
    **{10: "management", 500: "business", 800: "finance", 1000: "computing", 1300: "engineering", 1600: "science"},
    **{2000: "social service", 2100: "law", 2200: "education", 2600: "arts", 3000: "medicine", 3600: "health support"},
    **{3700: "protection", 4000: "food", 4200: "cleaning", 4300: "personal care", 4700: "sales", 5000: "office"},
    **{6000: "farming", 6200: "construction", 6800: "extraction", 7000: "repair", 7700: "production"},
    **{9000: "transport", 9800: "military", 9900: "no work"},
}
# Places of birth by region: where each begins.
REGIONS = {
    **{1: "United States", 60: "US territories", 100: "Europe", 200: "Asia", 300: "Northern America"},
    **{303: "Mexico and Central America", 320: "Caribbean", 360: "South America", 400: "Africa", 500: "Oceania"},
}
STATES = {
    **{1: "AL", 2: "AK", 4: "AZ", 5: "AR", 6: "CA", 8: "CO", 9: "CT", 10: "DE", 11: "DC", 12: "FL", 13: "GA"},
    **{15: "HI", 16: "ID", 17: "IL", 18: "IN", 19: "IA", 20: "KS", 21: "KY", 22: "LA", 23: "ME", 24: "MD", 25: "MA"},
    **{26: "MI", 27: "MN", 28: "MS", 29: "MO", 30: "MT", 31: "NE", 32: "NV", 33: "NH", 34: "NJ", 35: "NM", 36: "NY"},
    **{37: "NC", 38: "ND", 39: "OH", 40: "OK", 41: "OR", 42: "PA", 44: "RI", 45: "SC", 46: "SD", 47: "TN", 48: "TX"},
    **{49: "UT", 50: "VT", 51: "VA", 53: "WA", 54: "WV", 55: "WI", 56: "WY", 72: "PR"},
}

_NEEDED = ("AGEP", "COW", "SCHL", "MAR", "OCCP", "POBP", "WKHP", "SEX", "RAC1P", "PINCP")
_LIMITS = {"COW": (1, 9), "SCHL": (1, 24), "MAR": (1, 5), "SEX": (1, 2), "WKHP": (1, 99), "AGEP": (0, 120)}
_INCOME = 50_000


@dataclass(frozen=True)
class AcsLayout:
    """What differs between tables.

    ``relation`` and ``state`` name columns. ``labelled``: PINCP is 0 or 1, and the rows are already those of the task.
    ``merged``: RAC1P is already one of five codes and MAR 1 (married) or 2 (not), as FeDa4Fair writes them.

    Examples
    --------
    >>> AcsLayout("RELP", "ST", labelled=False, merged=False).columns[-3:]
    ('RELP', 'ST', 'PWGTP')
    """

    relation: str
    state: str
    labelled: bool
    merged: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns to read."""
        return (*_NEEDED, self.relation, self.state, *(() if self.labelled else ("PWGTP",)))


def layout_of(table: Table) -> AcsLayout:
    """Find out what kind of table it is; raise one sentence where needed columns are missing."""
    header = set(table.header)
    relations = [name for name in RELATIONS if name in header]
    states = [name for name in ("ST", "STATE") if name in header]
    missing = [name for name in _NEEDED if name not in header]
    missing += [] if relations else ["RELP (or RELSHIPP)"]
    missing += [] if states else ["ST (or STATE)"]
    labelled, merged = _kind(table)
    missing += [] if labelled or "PWGTP" in header else ["PWGTP"]
    if missing:
        raise InputError(
            f"{table.where}: lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; pass person records of "
            "the ACS (psam_pXX.csv), or the income task of folktables with a state column."
        )
    return AcsLayout(relations[0], states[0], labelled, merged)


def _kind(table: Table) -> tuple[bool, bool]:
    """Whether PINCP is a label, and whether race and marriage are merged: told by the largest codes of all rows."""
    largest = {name: 0.0 for name in ("PINCP", "RAC1P", "MAR") if name in table.header}
    for piece in table.pieces(list(largest)):
        for name in largest:
            largest[name] = max(largest[name], piece.select(number(name).max()).item() or 0.0)
        if largest["PINCP"] > 1:
            return False, False
    return True, largest.get("RAC1P", 0.0) <= 5 and largest.get("MAR", 0.0) <= 2


def coded_rows(piece: polars.DataFrame, layout: AcsLayout, counts: Counter[str]) -> polars.DataFrame:
    """Keep who counts, code the answers as small integers, and add to ``counts`` how many were dropped and why."""
    return kept_rows(piece, {} if layout.labelled else _filters(), _codes(layout), counts)


def _filters() -> dict[str, polars.Expr]:
    """Whom to keep, by the reason why the others are dropped: the adult filter of folktables."""
    return {
        "aged 16 or younger": number("AGEP") > 16,
        "income of 100 USD or less": number("PINCP") > 100,
        "no hours of work": number("WKHP") > 0,
        "survey weight below 1": number("PWGTP") >= 1,
    }


def _codes(layout: AcsLayout) -> dict[str, polars.Expr]:
    """The columns to store; null where a value is missing or not one of those known."""
    pl = polars_module()
    races = {code: code for code in RACES} if layout.merged else _RACE_OF
    relations = RELATIONS[layout.relation]
    within = {name: _within(name, *limits) for name, limits in _LIMITS.items()}
    return {name: code.cast(pl.UInt8) for name, code in within.items()} | {
        "RAC1P": number("RAC1P").replace_strict(races, default=None, return_dtype=pl.UInt8),
        layout.relation: _within(layout.relation, relations[0], relations[-1]).cast(pl.UInt8),
        "OCCP": _grouped("OCCP", OCCUPATIONS, 9999),
        "POBP": _grouped("POBP", REGIONS, 599),
        "ST": _state(layout.state),
        "PINCP": (number("PINCP") > (0 if layout.labelled else _INCOME)).cast(pl.UInt8),
    }


def _within(name: str, low: int, high: int) -> polars.Expr:
    found: polars.Expr = polars_module().when(number(name).is_between(low, high)).then(number(name))
    return found


def _grouped(name: str, starts: Mapping[int, str], most: int) -> polars.Expr:
    """The first code of the group that a code falls in."""
    pl = polars_module()
    found: polars.Expr = pl.lit(None)
    for start in sorted(starts):
        found = pl.when(number(name) >= start).then(start).otherwise(found)
    within: polars.Expr = pl.when(number(name) <= most).then(found).cast(pl.UInt16)
    return within


def _state(name: str) -> polars.Expr:
    """The code of a state, from the code or from its two letters."""
    pl = polars_module()
    codes = {name: code for code, name in STATES.items()} | {str(code): code for code in STATES}
    # "06" and 6 and "6.0" are one code.
    text = pl.col(name).cast(pl.String).str.to_uppercase().str.strip_chars_start("0").str.strip_suffix(".0")
    state: polars.Expr = text.replace_strict(codes, default=None, return_dtype=pl.UInt8)
    return state


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


def prepare_acs(source: Path, into: Path, *, progress: Progress = no_progress, piece: int = PIECE) -> Mapping[str, int]:
    """Read person records of one year, keep those of the income task, and store them in a folder.

    Parameters
    ----------
    source : Path
        A folder with psam_pXX.csv or csv_pXX.zip (as folktables downloads them, in folders below it too), one such
        file, or a Parquet file of folktables' income task with a column STATE.
    into : Path
        The folder to make; a prepared one that is there is replaced.
    progress : Progress
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
    logofair.errors.InputError: psam_p06.csv: not there; check the path.
    """
    tables = find_tables(source, "PINCP", "ACS person records")
    layout = one_layout(tables, layouts.layout_of, "columns or codes", "kind")
    reading = _Reading(layout, DuplicateFinder((layout.state, *_PERSON)) if _have_persons(tables) else None)
    counts = reading.counts
    with new_folder(into) as folder:
        columns = (*layout.columns, *(_PERSON if reading.people else ()))
        kept = write_rows(folder, reading.coded(pieces(tables, lambda table: columns, progress, size=piece)))
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

    layout: layouts.AcsLayout
    people: DuplicateFinder | None
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


def _notes(layout: layouts.AcsLayout) -> list[str]:
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
    logofair.errors.InputError: acs: nothing prepared in nowhere; run: logofair data prepare acs --from PATH.
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


def _stored(about: Mapping[str, Any]) -> tuple[int, list[NumberFeature | CategoryFeature]]:
    """The number of rows, and what a model sees of them."""
    relation = str(about["relation"])
    married = {1: "married", 2: "not married"} if about["merged"] else _MARRIED
    features: list[NumberFeature | CategoryFeature] = [
        NumberFeature("AGEP", 17, 99),
        NumberFeature("SCHL", 1, 24),
        NumberFeature("WKHP", 1, 99),
        CategoryFeature("COW", _WORK),
        CategoryFeature("MAR", married),
        CategoryFeature(relation, {code: str(code) for code in layouts.RELATIONS[relation]}),
        CategoryFeature("SEX", _SEXES),
        CategoryFeature("RAC1P", layouts.RACES),
        CategoryFeature("OCCP", layouts.OCCUPATIONS),
        CategoryFeature("POBP", layouts.REGIONS),
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
