"""ACSIncome: who earns more than 50,000 USD a year, from the American Community Survey; states are natural sites.

Read from person records as folktables downloads them, or from a table of folktables' income task, and kept as Parquet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from logofair.datasets.table import Dataset, Feature, chosen, feature_table
from logofair.errors import InputError
from logofair.files.tables import TableFile, open_table
from logofair.progress import Progress, no_progress
from logofair_reproduction.datasets.preparing import (
    BATCH,
    Recipe,
    among,
    check_columns,
    code_tables,
    find_tables,
    load_rows,
    named,
    number,
    prepare_table,
    terms_of,
    within,
)

_CODES = code_tables("acs")
RACES, STATES, REGIONS, OCCUPATIONS = (_CODES[name] for name in ("race", "state", "region", "occupation"))
RELATIONS = {"RELP": range(18), "RELSHIPP": range(20, 39)}
_LIMITS = {"COW": (1, 9), "SCHL": (1, 24), "MAR": (1, 5), "SEX": (1, 2), "WKHP": (1, 99), "AGEP": (0, 120)}
_INCOME = 50_000
_GROUPS = {
    "sex": ("SEX", _CODES["sex"]),
    "race": ("RAC1P", RACES),
    "race2": ("RAC1P", {code: race if race == "White" else "Other" for code, race in RACES.items()}),
}
_LABELS = "PINCP holds labels, so the rows were taken as those of the income task, without filters."
_MERGED = "RAC1P has five codes and MAR two: read as White, Black, Asian, Native, Other; married or not."


def _recipe(file: TableFile, header: Collection[str]) -> Recipe:
    """Whom to keep, and the columns to store: the adult filter of folktables, unless PINCP is already its label.

    Files differ in the names of two columns. Where PINCP is a label, RAC1P may be already one of five codes and MAR 1
    (married) or 2 (not), as FeDa4Fair writes them: told by the largest codes of all rows.
    """
    relation = next((name for name in RELATIONS if name in header), "RELP")
    state = "ST" if "ST" in header or "STATE" not in header else "STATE"
    names = [name for name in ("PINCP", "RAC1P", "MAR") if name in header]
    with open_table(file, {name: name for name in names}) as table:
        largest = table.collect(table.rows.select(number(name).max() for name in names)).row(0, named=True)
    income, race, marriage = (largest.get(name) or 0.0 for name in ("PINCP", "RAC1P", "MAR"))
    labelled = income <= 1
    merged = labelled and race <= 5 and marriage <= 2
    filters = {
        "aged 16 or younger": number("AGEP") > 16,
        "income of 100 USD or less": number("PINCP") > 100,
        "no hours of work": number("WKHP") > 0,
        "survey weight below 1": number("PWGTP") >= 1,
    }
    states = {name: code for code, name in STATES.items()} | {str(code): code for code in STATES}

    def text(name: str) -> pl.Expr:
        """A column's cells, in which "06", 6 and "6.0" are one code."""
        cells = pl.col(name).cast(pl.String).str.to_uppercase()
        return cells.str.strip_chars_start("0").str.strip_suffix(".0")

    codes = {name: within(name, *limits) for name, limits in _LIMITS.items()} | {
        "RAC1P": among(number("RAC1P"), {code: code for code in RACES} if merged else _CODES["race_of"]),
        relation: within(relation, RELATIONS[relation][0], RELATIONS[relation][-1]),
        "OCCP": _grouped("OCCP", OCCUPATIONS, 9999),
        "POBP": _grouped("POBP", REGIONS, 599),
        "ST": among(text(state), states),
        "PINCP": (number("PINCP") > (0 if labelled else _INCOME)).cast(pl.UInt8),
    }
    people = (state, "SERIALNO", "SPORDER")
    person = pl.concat_str([text(name) for name in people], separator=" ").hash()
    notes = [note for note, holds in ((_LABELS, labelled), (_MERGED, merged)) if holds]
    return Recipe(
        filters={} if labelled else filters,
        codes=codes,
        notes={"person": person} if {*people} <= {*header} else {},
        facts={"relation": relation, "merged": merged, "notes": notes},
    )


def _grouped(name: str, starts: Mapping[int, str], most: int) -> pl.Expr:
    """The first code of the group that a code falls in."""
    found: pl.Expr = pl.lit(None)
    for start in sorted(starts):
        found = pl.when(number(name) >= start).then(start).otherwise(found)
    return pl.when(number(name) <= most).then(found).cast(pl.UInt16)


def prepare_acs(source: Path, into: Path, *, progress: Progress = no_progress, batch: int = BATCH) -> Mapping[str, int]:
    """Read person records of one year, keep those of the income task, and store them in a folder.

    ``source`` is a folder with psam_pXX.csv or csv_pXX.zip (as folktables downloads them, in folders below it too), one
    such file, or a Parquet file of folktables' income task with a column STATE; the rest as of
    `logofair_reproduction.datasets.catalogue.DatasetInfo`.
    """
    tables = find_tables(source, "PINCP", "ACS person records")
    advice = "pass person records of the ACS (psam_pXX.csv), or the income task of folktables with a state column"
    recipes = {file: check_columns(file, header, _recipe(file, header), advice) for file, header in tables.items()}

    def about(rows: pl.DataFrame) -> dict[str, Any]:
        if rows["PINCP"].n_unique() == 1:
            fault = "every income is on one side of 50,000 USD, so there is one label only"
            raise InputError(f"{source}: {fault}; pass records of more people.")
        return {}

    advice = "pass records of adults who work"
    return prepare_table("acs", source, into, recipes, about, advice=advice, progress=progress, batch=batch)


def load_acs(folder: Path, *, sensitive: str = "sex") -> Dataset:
    """Load what `prepare_acs` stored. Label 1 means an income above 50,000 USD; the state is the natural site.

    Features, all in [0, 1]: age, schooling and hours of work as numbers; kind of employer, marriage, relation to the
    householder, sex, race, occupation and place of birth one-hot. The 530 occupations are the census' 26 major groups
    and the 220 places of birth ten regions: one-hot each, 900,000 rows would take 6 GB and not 0.6.

    ``sensitive`` is "sex", "race" (White, Black, Asian, Native, that is American Indian or Alaska Native, and Other) or
    "race2" (White and Other); it is among the features too, as in folktables.
    """
    column, groups = _GROUPS[chosen(sensitive, _GROUPS, "sensitive")]
    table, about = load_rows(folder, "acs")
    values, names = feature_table(lambda name: table[name].to_numpy(), _features(about))
    return Dataset(
        **terms_of("acs"),
        features=values,
        feature_names=names,
        labels=table["PINCP"].to_numpy().astype(np.int64),
        sensitive=named(table[column].to_numpy(), groups),
        sites=named(table["ST"].to_numpy(), STATES),
        notes=tuple(about["notes"]),
    )


def _features(about: Mapping[str, Any]) -> dict[str, Feature]:
    """What a model sees of the rows."""
    relation = str(about["relation"])
    return {
        "AGEP": (17, 99),
        "SCHL": (1, 24),
        "WKHP": (1, 99),
        "COW": _CODES["work"],
        "MAR": {1: "married", 2: "not married"} if about["merged"] else _CODES["marriage"],
        relation: {code: str(code) for code in RELATIONS[relation]},
        "SEX": _CODES["sex"],
        "RAC1P": RACES,
        "OCCP": OCCUPATIONS,
        "POBP": REGIONS,
    }
