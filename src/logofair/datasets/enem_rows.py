"""Rows of the ENEM microdata: which columns a year's layout has, who is kept, and how the answers are coded.

Two layouts are known. That of 2019 has 136 columns, among them NU_IDADE (age in years) and where a person lives.
That of 2020 (and of 2019 as it was published again) has 76: the age is a range, TP_FAIXA_ETARIA, and of all places
only those of the school and of the exam are left.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from logofair.datasets.prepared import kept_rows, number
from logofair.datasets.streams import Table
from logofair.inputs import InputError
from logofair.tables import polars_module

if TYPE_CHECKING:
    import polars

__all__ = ["AGE_RANGES", "QUESTIONS", "RACES", "SEXES", "STATES", "Layout", "coded_rows", "layout_of"]

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


@dataclass(frozen=True)
class Layout:
    """What differs from year to year: the column of the age, and of which place the municipality is known.

    Examples
    --------
    >>> Layout("TP_FAIXA_ETARIA", "PROVA", named=True).municipality
    'CO_MUNICIPIO_PROVA'
    """

    age: str
    place: str
    named: bool

    @property
    def municipality(self) -> str:
        """The column of the municipality's code."""
        return f"CO_MUNICIPIO_{self.place}"

    @property
    def municipality_name(self) -> str:
        """The column of the municipality's name."""
        return f"NO_MUNICIPIO_{self.place}"

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns to read."""
        names = (self.municipality_name,) if self.named else ()
        return (*_NEEDED, *QUESTIONS, self.age, self.municipality, *names)


def layout_of(table: Table) -> Layout:
    """Find out a table's layout; raise one sentence with its year where needed columns are missing."""
    header = set(table.header)
    ages = [name for name in ("TP_FAIXA_ETARIA", "NU_IDADE") if name in header]
    places = [place for place in ("RESIDENCIA", "PROVA") if f"CO_MUNICIPIO_{place}" in header]
    missing = [name for name in (*_NEEDED, *QUESTIONS) if name not in header]
    missing += [] if ages else ["TP_FAIXA_ETARIA (or NU_IDADE)"]
    missing += [] if places else ["CO_MUNICIPIO_PROVA"]
    if missing:
        raise InputError(
            f"{table.where}: ENEM of {_year(table)} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            "pass microdata in the layout of 2019 or 2020."
        )
    return Layout(ages[0], places[0], f"NO_MUNICIPIO_{places[0]}" in header)


def _year(table: Table) -> str:
    """The year of a table's first row, for people."""
    first = next(table.pieces(["NU_ANO"], 1 << 16), None) if "NU_ANO" in table.header else None
    return "an unknown year" if first is None else str(first["NU_ANO"][0])


def coded_rows(piece: polars.DataFrame, layout: Layout, counts: Counter[str]) -> polars.DataFrame:
    """Keep who counts, code their answers as small integers, and add to ``counts`` how many were dropped and why.

    Kept are those present at all four exams, no trainees, who have finished school (TP_ST_CONCLUSAO 1) and told their
    race, with a value in every column used. Ages in years become the ranges of TP_FAIXA_ETARIA.
    """
    return kept_rows(piece, _filters(), _codes(layout), counts)


def _filters() -> dict[str, polars.Expr]:
    """Whom to keep, by the reason why the others are dropped."""
    pl = polars_module()
    return {
        "absent from an exam": pl.all_horizontal(*(number(exam) == 1 for exam in _EXAMS)),
        "trainee": number("IN_TREINEIRO") == 0,
        "school not finished": number("TP_ST_CONCLUSAO") == 1,
        "race unknown": number("TP_COR_RACA").is_in([float(code) for code in RACES]),
    }


def _codes(layout: Layout) -> dict[str, polars.Expr]:
    """The columns to store; null where a value is missing or not one of those known."""
    pl = polars_module()
    letters = {chr(64 + code): code for code in range(1, 27)}
    answers = {
        question: _among(question, {letter: code for letter, code in letters.items() if code <= known})
        for question, known in QUESTIONS.items()
    }
    persons, age = number("Q005"), number(layout.age)
    return answers | {
        "Q005": pl.when(persons.is_between(1, QUESTIONS["Q005"])).then(persons).cast(pl.UInt8),
        "TP_FAIXA_ETARIA": (_age_range(age) if layout.age == "NU_IDADE" else _in_range(age)).cast(pl.UInt8),
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


def _in_range(age: polars.Expr) -> polars.Expr:
    found: polars.Expr = polars_module().when(age.is_between(1, AGE_RANGES)).then(age)
    return found


def _age_range(age: polars.Expr) -> polars.Expr:
    """TP_FAIXA_ETARIA of an age in years: 1 below 17, one range a year to 25, then five years each, 20 above 70."""
    pl = polars_module()
    found: polars.Expr = (
        pl.when(age <= 16)
        .then(1)
        .when(age <= 25)
        .then(age - 15)
        .when(age <= 70)
        .then(11 + ((age - 26) / 5).floor())
        .when(age > 70)
        .then(AGE_RANGES)
    )
    return found


def _municipality(layout: Layout) -> polars.Expr:
    """The code of a municipality, null where it does not begin with that of a state."""
    code, known = number(layout.municipality), [float(state) for state in STATES]
    found: polars.Expr = polars_module().when((code / 100_000).floor().is_in(known)).then(code)
    return found
