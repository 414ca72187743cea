"""ENEM, Brazil's national exam at the end of secondary school: whose mark in human sciences lies above the median.

Read from the official microdata of INEP, which everyone downloads for themselves, and kept as Parquet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from logofair.columns.checks import RandomSource
from logofair.datasets.table import Dataset, Feature, chosen, feature_table
from logofair.errors import InputError
from logofair.files import polars_module
from logofair.files.values import number
from logofair.progress import Progress, no_progress
from logofair_reproduction.datasets import preparing
from logofair_reproduction.datasets.facts import terms_of
from logofair_reproduction.datasets.preparing import BATCH, OfficialTable, named, within

if TYPE_CHECKING:
    import polars

__all__ = ["load_enem", "prepare_enem"]

RACES = {1: "White", 2: "Black", 3: "Brown", 4: "Asian", 5: "Indigenous"}
SEXES = {1: "F", 2: "M"}
AGE_RANGES = 20
# The questionnaire of 2019 and 2020: how many answers (A, B, ...) each question has; Q005 is a number of persons.
QUESTIONS = {"Q001": 8, "Q002": 8, "Q003": 6, "Q004": 6, "Q005": 20, "Q006": 17, "Q007": 4}
QUESTIONS |= {f"Q{number:03d}": 5 for number in range(8, 18)}
QUESTIONS |= {"Q018": 2, "Q019": 5, "Q020": 2, "Q021": 2, "Q022": 5, "Q023": 2, "Q024": 5}
# By the code of the national statistics office, with which the codes of municipalities begin.
STATES = {
    **{11: "RO", 12: "AC", 13: "AM", 14: "RR", 15: "PA", 16: "AP", 17: "TO", 21: "MA", 22: "PI", 23: "CE", 24: "RN"},
    **{25: "PB", 26: "PE", 27: "AL", 28: "SE", 29: "BA", 31: "MG", 32: "ES", 33: "RJ", 35: "SP", 41: "PR", 42: "SC"},
    **{43: "RS", 50: "MS", 51: "MT", 52: "GO", 53: "DF"},
}
_EXAMS = tuple(f"TP_PRESENCA_{exam}" for exam in ("CN", "CH", "LC", "MT"))
_NEEDED = (*_EXAMS, "NU_ANO", "IN_TREINEIRO", "TP_ST_CONCLUSAO", "TP_COR_RACA", "NU_NOTA_CH", "TP_SEXO", "SG_UF_PROVA")


class _Layout(NamedTuple):
    """The columns that differ from year to year: the age, and the municipality's code and (where it is there) name."""

    age: str
    municipality: str
    municipality_name: str | None

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns to read."""
        return (*_NEEDED, *QUESTIONS, *(name for name in self if name is not None))


def _layout_of(table: OfficialTable) -> _Layout:
    """Find out a table's layout; raise one sentence with its year where needed columns are missing."""
    header = set(table.header)
    ages = [name for name in ("TP_FAIXA_ETARIA", "NU_IDADE") if name in header]
    places = [place for place in ("RESIDENCIA", "PROVA") if f"CO_MUNICIPIO_{place}" in header]
    missing = [name for name in (*_NEEDED, *QUESTIONS) if name not in header]
    missing += [] if ages else ["TP_FAIXA_ETARIA (or NU_IDADE)"]
    missing += [] if places else ["CO_MUNICIPIO_PROVA"]
    if missing:
        raise InputError(
            f"{table}: ENEM of {_year(table)} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            "pass microdata in the layout of 2019 or 2020."
        )
    named = f"NO_MUNICIPIO_{places[0]}"
    return _Layout(ages[0], f"CO_MUNICIPIO_{places[0]}", named if named in header else None)


def _year(table: OfficialTable) -> str:
    """The year of a table's first row, for people."""
    if "NU_ANO" not in table.header:
        return "an unknown year"
    with closing(table.batches(["NU_ANO"], 1)) as batches:
        first = next(batches, None)
    return "an unknown year" if first is None else str(first["NU_ANO"][0])


def _filters() -> dict[str, polars.Expr]:
    """Whom to keep, by the reason why the others are dropped.

    Kept are those present at all four exams, no trainees, who have finished school (TP_ST_CONCLUSAO 1) and told their
    race, with a value in every column used.
    """
    pl = polars_module()
    return {
        "absent from an exam": pl.all_horizontal(*(number(exam) == 1 for exam in _EXAMS)),
        "trainee": number("IN_TREINEIRO") == 0,
        "school not finished": number("TP_ST_CONCLUSAO") == 1,
        "race unknown": number("TP_COR_RACA").is_in([float(code) for code in RACES]),
    }


def _codes(layout: _Layout) -> dict[str, polars.Expr]:
    """The columns to store; null where a value is missing or not one of those known."""
    pl = polars_module()
    letters = {chr(64 + code): code for code in range(1, 27)}
    answers = {
        question: _among(question, {letter: code for letter, code in letters.items() if code <= known})
        for question, known in QUESTIONS.items()
    }
    ages = {age: _age_range(age) for age in range(150)}
    in_years = number("NU_IDADE").replace_strict(ages, default=None, return_dtype=pl.UInt8)
    return answers | {
        "Q005": within("Q005", 1, QUESTIONS["Q005"]),
        "TP_FAIXA_ETARIA": in_years if layout.age == "NU_IDADE" else within(layout.age, 1, AGE_RANGES),
        "TP_SEXO": _among("TP_SEXO", {name: code for code, name in SEXES.items()}),
        "TP_COR_RACA": number("TP_COR_RACA").cast(pl.UInt8),
        "SG_UF_PROVA": _among("SG_UF_PROVA", {name: code for code, name in STATES.items()}),
        "CO_MUNICIPIO": _municipality(layout).cast(pl.UInt32),
        "NU_NOTA_CH": number("NU_NOTA_CH"),
    }


def _among(name: str, codes: dict[str, int]) -> polars.Expr:
    pl = polars_module()
    coded: polars.Expr = pl.col(name).replace_strict(codes, default=None, return_dtype=pl.UInt8)
    return coded


def _age_range(age: int) -> int:
    """TP_FAIXA_ETARIA of an age in years: 1 below 17, one range a year to 25, then five years each, 20 above 70."""
    return max(1, age - 15) if age <= 25 else min(AGE_RANGES, 11 + (age - 26) // 5)


def _municipality(layout: _Layout) -> polars.Expr:
    """The code of a municipality, null where it does not begin with that of a state."""
    code, known = number(layout.municipality), [float(state) for state in STATES]
    found: polars.Expr = polars_module().when((code / 100_000).floor().is_in(known)).then(code)
    return found


_WHITE_OR_ASIAN = {code: "White or Asian" if race in ("White", "Asian") else "Other" for code, race in RACES.items()}
_GROUPS = {
    "race": ("TP_COR_RACA", _WHITE_OR_ASIAN),
    "race5": ("TP_COR_RACA", RACES),
    "sex": ("TP_SEXO", {1: "Female", 2: "Male"}),
}


def _features_of(sensitive: str, keep_sensitive: bool | None) -> dict[str, Feature]:
    """What a model sees: by default sex and not race, as in the paper; else whether it sees the sensitive column."""
    letters = [(code, chr(64 + code)) for code in range(1, 27)]
    features: dict[str, Feature] = {question: dict(letters[:known]) for question, known in QUESTIONS.items()}
    features |= {"Q005": (1, QUESTIONS["Q005"]), "TP_FAIXA_ETARIA": (1, AGE_RANGES), "SG_UF_PROVA": STATES}
    if sensitive != "sex" or keep_sensitive is not False:
        features["TP_SEXO"] = SEXES
    if sensitive != "sex" and keep_sensitive:
        features["TP_COR_RACA"] = RACES
    return features


def _clients_of(codes: npt.NDArray[Any], kind: str, names: Mapping[str, str]) -> npt.NDArray[np.str_]:
    """The municipality or state of each row by name."""
    found, inverse = np.unique(codes if kind == "municipality" else codes // 100_000, return_inverse=True)
    places = found.tolist()
    if kind == "state":
        labels = [STATES[place] for place in places]
    else:
        labels = [f"{names.get(str(place), place)}, {STATES[place // 100_000]}" for place in places]
        times = Counter(labels)  # no two clients may become one because they are called the same
        pairs = zip(labels, places, strict=True)
        labels = [f"{label} {place}" if times[label] > 1 else label for label, place in pairs]
    clients: npt.NDArray[np.str_] = np.array(labels)[inverse]
    return clients


_NAME, _PERSON = "enem", "NU_INSCRICAO"
_KNOWN_YEARS = ("2019", "2020")
_PLACES = ("municipality", "state")


def prepare_enem(
    source: Path, into: Path, *, progress: Progress = no_progress, batch: int = BATCH
) -> Mapping[str, int]:
    """Read official microdata of one year, keep who counts, and store them in a folder.

    ``source`` is MICRODADOS_ENEM_2020.csv, a ZIP file that holds it, or a folder with any number of such files of one
    year; the rest as of `logofair_reproduction.datasets.catalogue.DatasetInfo`.
    """
    tables = preparing.find_tables(source, _PERSON, "ENEM microdata")
    reading = _Reading(preparing.one_layout(tables, _layout_of, "columns", "year"))

    def about(rows: polars.DataFrame) -> dict[str, Any]:
        marks = rows["NU_NOTA_CH"].to_numpy()
        median = float(np.median(marks))
        if not (marks > median).any():
            fault = f"no mark lies above the median {median:g}, so there is one label only"
            raise InputError(f"{source}: {fault}; pass microdata of more people.")
        return reading.about() | {"median": median}

    return preparing.prepare_table(
        _NAME,
        source,
        into,
        tables,
        reading.layout.columns,
        reading.select,
        about,
        person=(_PERSON,),
        advice="pass microdata of all participants",
        progress=progress,
        batch=batch,
    )


@dataclass
class _Reading:
    """What is learnt while rows go by."""

    layout: _Layout
    years: set[str] = field(default_factory=set)
    municipalities: dict[int, str] = field(default_factory=dict)

    def select(self, table: OfficialTable, rows: polars.DataFrame, counts: Counter[str]) -> polars.DataFrame:
        """The rows that are kept, as codes."""
        self.years |= set(rows["NU_ANO"].drop_nulls().unique())
        if len(self.years) > 1:
            one, other = sorted(self.years)[:2]
            raise InputError(f"{table}: there are rows of {one} and of {other}; prepare one year at a time.")
        kept = preparing.select_rows(rows, _filters(), _codes(self.layout), counts)
        if self.layout.municipality_name is not None:
            columns, codes = [*self.layout[1:]], set(kept["CO_MUNICIPIO"].unique())
            for code, name in rows.select(columns).unique().drop_nulls().sort(columns).rows():
                if code.isdigit() and int(code) in codes:
                    self.municipalities.setdefault(int(code), name)
        return kept

    def about(self) -> dict[str, Any]:
        """What loading and readers need to know."""
        year = next(iter(self.years), "unknown")
        notes = []
        if year not in _KNOWN_YEARS:
            notes.append(f"The year is {year}; only 2019 and 2020 were checked, but all columns needed are there.")
        if self.layout.municipality.endswith("PROVA"):
            notes.append("The municipality is that of the exam: these files do not tell where people live.")
        names = {str(code): name for code, name in sorted(self.municipalities.items())}
        return {"year": year, "municipalities": names, "notes": notes}


def load_enem(
    folder: Path,
    *,
    sensitive: str = "race",
    clients: str = "municipality",
    keep_sensitive: bool | None = None,
    rows: int | None = None,
    rng: RandomSource = 0,
) -> Dataset:
    """Load what `prepare_enem` stored. Label 1 means a mark in human sciences above the median of all rows stored.

    Features, all in [0, 1]: the answers Q001 to Q024 one-hot, Q005 (persons at home) and the age range as numbers,
    sex, and the state of the exam one-hot; 153 whatever the rows, 1.2 KB for each.

    ``sensitive`` is "race" (White or Asian against all others, as in the paper), "race5" (all five) or "sex".
    ``clients``, the natural ones, are "municipality" or "state": where people live, or (from 2020 on) sat the exam.
    ``keep_sensitive``: whether the features tell the sensitive group; by default as in the paper's protocol, sex is
    among them and race is not. ``rows``: only so many, drawn at random with ``rng``.
    """
    column, groups = _GROUPS[chosen(sensitive, _GROUPS, "sensitive")]
    chosen(clients, _PLACES, "clients")
    about = preparing.check_about(folder, _NAME)
    table = preparing.load_rows(folder, _NAME)
    numbers = preparing.random_rows(table.height, rows, rng)
    table = table[numbers]
    features, names = feature_table(lambda name: table[name].to_numpy(), _features_of(sensitive, keep_sensitive))
    return Dataset(
        **terms_of(_NAME),
        features=features,
        feature_names=names,
        labels=(table["NU_NOTA_CH"].to_numpy() > about["median"]).astype(np.int64),
        sensitive=named(table[column].to_numpy(), groups),
        clients=_clients_of(table["CO_MUNICIPIO"].to_numpy(), clients, about["municipalities"]),
        notes=tuple(about["notes"]),
        numbers=numbers,
    )
