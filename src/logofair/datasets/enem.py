"""ENEM, Brazil's national exam at the end of secondary school: whose mark in human sciences lies above the median.

Read from the official microdata of INEP, which everyone downloads for themselves (`WHERE`), and kept as Parquet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from logofair.arguments import RandomSource
from logofair.datasets import enem_rows as layouts
from logofair.datasets.cache import Watch, advice_again, read_about, unwatched, write_about
from logofair.datasets.enem_columns import clients_of, features_of, groups_of
from logofair.datasets.folders import new_folder
from logofair.datasets.prepared import (
    chosen,
    feature_table,
    random_rows,
    read_rows,
    refuse_nothing_left,
    write_rows,
)
from logofair.datasets.repeats import Repeats
from logofair.datasets.streams import PIECE, Table, find_tables, one_layout, pieces
from logofair.datasets.table import Dataset
from logofair.documents import or_damaged
from logofair.inputs import InputError

if TYPE_CHECKING:
    import polars

__all__ = ["CITATION", "KNOWN_HARMS", "LICENCE", "SENSITIVE", "VERSION", "WHERE", "load_enem", "prepare_enem"]

LICENCE = "INEP open data"
CITATION = (
    "Instituto Nacional de Estudos e Pesquisas Educacionais Anísio Teixeira (INEP). Microdados do Enem. "
    "https://www.gov.br/inep/pt-br/acesso-a-informacao/dados-abertos/microdados/enem"
)
KNOWN_HARMS = (
    "Race is what people said of themselves in five categories of the Brazilian census; joining White with Asian "
    "against all others hides differences inside both groups.",
    "Sex is recorded as F or M only.",
    "Only those who came to all four exams and have finished school are kept: who stayed away, often for want of "
    "money or time, is not seen.",
    "The questionnaire asks for income, parents' schooling and goods at home, so that a model learns wealth more than "
    "ability.",
    "A mark above the median is no measure of merit, and the threshold moves with the rows that are prepared.",
    "Rows of single persons are public: do not try to find out who they are.",
)
WHERE = (
    "Open https://www.gov.br/inep/pt-br/acesso-a-informacao/dados-abertos/microdados/enem in a browser.",
    "Download the microdata of 2019 or 2020 (microdados_enem_2020.zip, some 600 MB).",
    "Pass the ZIP file as it is, the CSV file inside it, or the folder you unpacked it to.",
    "Run: logofair data prepare enem --from PATH",
)
SENSITIVE = ("race", "race5", "sex")
VERSION = 2

_NAME = "enem"
_PERSON, _KEPT = "NU_INSCRICAO", "rows kept"
_KNOWN_YEARS = ("2019", "2020")
_PLACES = ("municipality", "state")


def prepare_enem(source: Path, into: Path, *, watch: Watch = unwatched, piece: int = PIECE) -> Mapping[str, int]:
    """Read official microdata of one year, keep who counts, and store them in a folder.

    Parameters
    ----------
    source : Path
        MICRODADOS_ENEM_2020.csv, a ZIP file that holds it, or a folder with any number of such files of one year.
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
    >>> prepare_enem(Path("MICRODADOS_ENEM_2020.csv"), Path("enem"))
    Traceback (most recent call last):
    logofair.inputs.InputError: MICRODADOS_ENEM_2020.csv: not there; check the path.
    """
    tables = find_tables(source, _PERSON, "ENEM microdata")
    reading = _Reading(one_layout(tables, layouts.layout_of, "columns", "year"))
    with new_folder(into) as folder:
        columns = (*reading.layout.columns, _PERSON)
        read = pieces(tables, lambda table: columns, watch, size=piece)
        kept = write_rows(folder, reading.coded(read))
        if kept == 0:
            refuse_nothing_left(source, reading.counts, "pass microdata of all participants")
        reading.people.refuse()
        marks = read_rows(folder, _NAME, kept, ["NU_NOTA_CH"])["NU_NOTA_CH"].to_numpy()
        median = float(np.median(marks))
        if not (marks > median).any():
            raise InputError(
                f"{source}: no mark lies above the median {median:g}, so there is one label only; "
                "pass microdata of more people."
            )
        counts = {**reading.counts, _KEPT: kept}
        write_about(folder, _NAME, VERSION, reading.about() | {"median": median, "counts": counts})
    return counts


@dataclass
class _Reading:
    """What is learnt while rows go by."""

    layout: layouts.Layout
    counts: Counter[str] = field(default_factory=Counter)
    years: dict[str, str] = field(default_factory=dict)
    municipalities: dict[int, str] = field(default_factory=dict)
    people: Repeats = field(default_factory=lambda: Repeats((_PERSON,)))

    def coded(self, read: Iterable[tuple[Table, polars.DataFrame]]) -> Iterator[polars.DataFrame]:
        """Hand on the rows that are kept, as codes."""
        for table, piece in read:
            self._same_year(table, piece)
            self.people.add(table, piece)
            kept = layouts.coded_rows(piece, self.layout, self.counts)
            if self.layout.named:
                self._name(piece, set(kept["CO_MUNICIPIO"].unique()))
            yield kept

    def _same_year(self, table: Table, piece: polars.DataFrame) -> None:
        for year in piece["NU_ANO"].drop_nulls().unique():
            self.years.setdefault(year, table.where)
        if len(self.years) > 1:
            (one, other), where = sorted(self.years)[:2], table.where
            raise InputError(f"{where}: there are rows of {one} and of {other}; prepare one year at a time.")

    def _name(self, piece: polars.DataFrame, codes: set[int]) -> None:
        """Note the names of municipalities that have rows."""
        columns = [self.layout.municipality, self.layout.municipality_name]
        for code, name in piece.select(columns).unique().drop_nulls().sort(columns).rows():
            if code.isdigit() and int(code) in codes:
                self.municipalities.setdefault(int(code), name)

    def about(self) -> dict[str, Any]:
        """What loading and readers need to know."""
        year = next(iter(self.years), "unknown")
        notes = []
        if year not in _KNOWN_YEARS:
            notes.append(f"The year is {year}; only 2019 and 2020 were checked, but all columns needed are there.")
        if self.layout.place == "PROVA":
            notes.append("The municipality is that of the exam: these files do not tell where people live.")
        names = {str(code): name for code, name in sorted(self.municipalities.items())}
        return {"year": year, "layout": asdict(self.layout), "municipalities": names, "notes": notes}


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

    Parameters
    ----------
    folder : Path
        Where the prepared data lie.
    sensitive : {"race", "race5", "sex"}
        "race": White or Asian against all others, as in the paper; "race5": all five.
    clients : {"municipality", "state"}
        The natural clients: where people live, or (from 2020 on) sat the exam.
    keep_sensitive : bool, optional
        Whether the features tell the sensitive group. By default as in the paper's protocol: sex is among the
        features, race is not.
    rows : int, optional
        Load only so many rows, drawn at random.
    rng : np.random.Generator or int
        Source of randomness for ``rows``, or a seed.

    Examples
    --------
    >>> load_enem(Path("nowhere"))
    Traceback (most recent call last):
    logofair.inputs.InputError: enem: nothing prepared in nowhere; run: logofair data prepare enem --from PATH.
    """
    chosen(sensitive, SENSITIVE, "sensitive")
    chosen(clients, _PLACES, "clients")
    about = read_about(folder, _NAME, VERSION)
    remedy = advice_again(_NAME, folder)
    n_rows, median, named = or_damaged(lambda: _stored(about), folder, what=_NAME, remedy=remedy)
    numbers = random_rows(n_rows, rows, rng)
    table = read_rows(folder, _NAME, n_rows)[numbers]
    features, names = feature_table(table, features_of(sensitive, keep_sensitive))
    return Dataset(
        name=_NAME,
        features=features,
        feature_names=names,
        labels=(table["NU_NOTA_CH"].to_numpy() > median).astype(np.int64),
        sensitive=groups_of(table, sensitive),
        clients=clients_of(table["CO_MUNICIPIO"].to_numpy(), clients, named),
        licence=LICENCE,
        citation=CITATION,
        known_harms=KNOWN_HARMS,
        notes=tuple(about["notes"]),
        numbers=numbers,
    )


def _stored(about: Mapping[str, Any]) -> tuple[int, float, dict[str, str]]:
    return int(about["counts"][_KEPT]), float(about["median"]), dict(about["municipalities"])
