"""ENEM, Brazil's national exam at the end of secondary school: whose mark in human sciences lies above the median.

Read from the official microdata of INEP, which everyone downloads for themselves, and kept as Parquet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from logofair.datasets.table import Dataset, Feature, chosen, feature_table
from logofair.errors import InputError
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

_CODES = code_tables("enem")
RACES, SEXES, QUESTIONS, STATES = (_CODES[name] for name in ("race", "sex", "answers", "state"))
AGE_RANGES = 20
_EXAMS = tuple(f"TP_PRESENCA_{exam}" for exam in ("CN", "CH", "LC", "MT"))
_KNOWN_YEARS = ("2019", "2020")
_FEATURES: dict[str, Feature] = {
    **{question: {code: chr(64 + code) for code in range(1, known + 1)} for question, known in QUESTIONS.items()},
    **{"Q005": (1, QUESTIONS["Q005"]), "TP_FAIXA_ETARIA": (1, AGE_RANGES), "SG_UF_PROVA": STATES, "TP_SEXO": SEXES},
}
_WHITE_OR_ASIAN = {code: "White or Asian" if race in ("White", "Asian") else "Other" for code, race in RACES.items()}
_GROUPS = {
    "race": ("TP_COR_RACA", _WHITE_OR_ASIAN),
    "race5": ("TP_COR_RACA", RACES),
    "sex": ("TP_SEXO", {1: "Female", 2: "Male"}),
}


def _recipe(header: Collection[str]) -> Recipe:
    """Whom to keep, and the columns to store, of a table with these columns.

    Kept are those present at all four exams, no trainees, who have finished school (TP_ST_CONCLUSAO 1) and told their
    race, with a value in every column used. Years differ in how they tell the age and the municipality.
    """
    place = "RESIDENCIA" if "CO_MUNICIPIO_RESIDENCIA" in header else "PROVA"
    code, letters = number(f"CO_MUNICIPIO_{place}"), [(chr(64 + code), code) for code in range(1, 27)]
    in_a_state = (code / 100_000).floor().is_in([float(state) for state in STATES])
    age = within("TP_FAIXA_ETARIA", 1, AGE_RANGES)
    if "TP_FAIXA_ETARIA" not in header and "NU_IDADE" in header:
        age = among(number("NU_IDADE"), {years: _age_range(years) for years in range(150)})
    codes = {question: among(pl.col(question), dict(letters[:known])) for question, known in QUESTIONS.items()}
    notes = {"year": pl.col("NU_ANO").cast(pl.String), "person": pl.col("NU_INSCRICAO").cast(pl.String).hash()}
    if f"NO_MUNICIPIO_{place}" in header:
        notes["municipality"] = pl.col(f"NO_MUNICIPIO_{place}")
    return Recipe(
        filters={
            "absent from an exam": pl.all_horizontal(*(number(exam) == 1 for exam in _EXAMS)),
            "trainee": number("IN_TREINEIRO") == 0,
            "school not finished": number("TP_ST_CONCLUSAO") == 1,
            "race unknown": number("TP_COR_RACA").is_in([float(code) for code in RACES]),
        },
        codes=codes
        | {
            "Q005": within("Q005", 1, QUESTIONS["Q005"]),
            "TP_FAIXA_ETARIA": age,
            "TP_SEXO": among(pl.col("TP_SEXO"), {name: code for code, name in SEXES.items()}),
            "TP_COR_RACA": number("TP_COR_RACA").cast(pl.UInt8),
            "SG_UF_PROVA": among(pl.col("SG_UF_PROVA"), {name: code for code, name in STATES.items()}),
            "CO_MUNICIPIO": pl.when(in_a_state).then(code).cast(pl.UInt32),
            "NU_NOTA_CH": number("NU_NOTA_CH"),
        },
        notes=notes,
        facts={"place": place, "named": "municipality" in notes},
    )


def _age_range(age: int) -> int:
    """TP_FAIXA_ETARIA of an age in years: 1 below 17, one range a year to 25, then five years each, 20 above 70."""
    return max(1, age - 15) if age <= 25 else min(AGE_RANGES, 11 + (age - 26) // 5)


def prepare_enem(
    source: Path, into: Path, *, progress: Progress = no_progress, batch: int = BATCH
) -> Mapping[str, int]:
    """Read official microdata of one year, keep who counts, and store them in a folder.

    ``source`` is MICRODADOS_ENEM_2020.csv, a ZIP file that holds it, or a folder with any number of such files of one
    year; the rest as of `logofair_reproduction.datasets.catalogue.DatasetInfo`.
    """
    tables = find_tables(source, "NU_INSCRICAO", "ENEM microdata")
    advice = "pass microdata in the layout of 2019 or 2020"
    recipes = {file: check_columns(file, header, _recipe(header), advice) for file, header in tables.items()}

    def about(rows: pl.DataFrame) -> dict[str, Any]:
        marks, years = rows["NU_NOTA_CH"].to_numpy(), sorted(rows["year"].drop_nulls().unique())
        if len(years) > 1:
            raise InputError(f"{source}: there are rows of {years[0]} and of {years[1]}; prepare one year at a time.")
        median = float(np.median(marks))
        if not (marks > median).any():
            fault = f"no mark lies above the median {median:g}, so there is one label only"
            raise InputError(f"{source}: {fault}; pass microdata of more people.")
        year, notes = years[0] if years else "unknown", []
        if year not in _KNOWN_YEARS:
            notes.append(f"The year is {year}; only 2019 and 2020 were checked, but all columns needed are there.")
        if "CO_MUNICIPIO_PROVA" in next(iter(recipes.values())).columns():
            notes.append("The municipality is that of the exam: these files do not tell where people live.")
        names: dict[str, str] = {}
        if "municipality" in rows.columns:
            pairs = (
                rows.select("CO_MUNICIPIO", "municipality").unique().drop_nulls().sort("CO_MUNICIPIO", "municipality")
            )
            for code, name in pairs.rows():
                names.setdefault(str(code), name)
        return {"year": year, "municipalities": names, "notes": notes, "median": median}

    advice = "pass microdata of all participants"
    return prepare_table("enem", source, into, recipes, about, advice=advice, progress=progress, batch=batch)


def load_enem(folder: Path, *, sensitive: str = "race") -> Dataset:
    """Load what `prepare_enem` stored. Label 1 means a mark in human sciences above the median of all rows stored.

    Features, all in [0, 1]: the answers Q001 to Q024 one-hot, Q005 (persons at home) and the age range as numbers,
    sex, and the state of the exam one-hot; 153 whatever the rows, 1.2 KB for each. Race is not among them, as in the
    paper's protocol.

    ``sensitive`` is "race" (White or Asian against all others, as in the paper), "race5" (all five) or "sex". The
    natural sites are the municipalities where people live, or (from 2020 on) sat the exam.
    """
    column, groups = _GROUPS[chosen(sensitive, _GROUPS, "sensitive")]
    table, about = load_rows(folder, "enem")
    features, names = feature_table(lambda name: table[name].to_numpy(), _FEATURES)
    return Dataset(
        **terms_of("enem"),
        features=features,
        feature_names=names,
        labels=(table["NU_NOTA_CH"].to_numpy() > about["median"]).astype(np.int64),
        sensitive=named(table[column].to_numpy(), groups),
        sites=_municipalities(table["CO_MUNICIPIO"].to_numpy(), about["municipalities"]),
        notes=tuple(about["notes"]),
    )


def _municipalities(codes: npt.NDArray[Any], names: Mapping[str, str]) -> npt.NDArray[np.str_]:
    """The municipality of each row by name; no two become one because they are called the same."""
    places, inverse = np.unique(codes, return_inverse=True)
    labels = [f"{names.get(str(place), place)}, {STATES[place // 100_000]}" for place in places.tolist()]
    times = Counter(labels)
    pairs = zip(labels, places.tolist(), strict=True)
    found: npt.NDArray[np.str_] = np.array([f"{name} {place}" if times[name] > 1 else name for name, place in pairs])
    return found[inverse]
