"""ENEM: the official microdata of two layouts, whom the filters keep, and what a model sees of them."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import re
import statistics
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("polars")

import polars as pl

from logofair.datasets import Dataset
from logofair.errors import InputError
from logofair_reproduction.datasets.enem import load_enem, prepare_enem
from support import data

DATA = data.DATA / "enem"
sample = pytest.mark.skipif(not DATA.is_dir(), reason="the ENEM sample is not here; set LOGOFAIR_DATA")

# The header of MICRODADOS_ENEM_2020.csv.
HEADER_2020 = (
    "NU_INSCRICAO NU_ANO TP_FAIXA_ETARIA TP_SEXO TP_ESTADO_CIVIL TP_COR_RACA TP_NACIONALIDADE TP_ST_CONCLUSAO "
    "TP_ANO_CONCLUIU TP_ESCOLA TP_ENSINO IN_TREINEIRO CO_MUNICIPIO_ESC NO_MUNICIPIO_ESC CO_UF_ESC SG_UF_ESC "
    "TP_DEPENDENCIA_ADM_ESC TP_LOCALIZACAO_ESC TP_SIT_FUNC_ESC CO_MUNICIPIO_PROVA NO_MUNICIPIO_PROVA CO_UF_PROVA "
    "SG_UF_PROVA TP_PRESENCA_CN TP_PRESENCA_CH TP_PRESENCA_LC TP_PRESENCA_MT CO_PROVA_CN CO_PROVA_CH CO_PROVA_LC "
    "CO_PROVA_MT NU_NOTA_CN NU_NOTA_CH NU_NOTA_LC NU_NOTA_MT TX_RESPOSTAS_CN TX_RESPOSTAS_CH TX_RESPOSTAS_LC "
    "TX_RESPOSTAS_MT TP_LINGUA TX_GABARITO_CN TX_GABARITO_CH TX_GABARITO_LC TX_GABARITO_MT TP_STATUS_REDACAO "
    "NU_NOTA_COMP1 NU_NOTA_COMP2 NU_NOTA_COMP3 NU_NOTA_COMP4 NU_NOTA_COMP5 NU_NOTA_REDACAO"
)
LAYOUT_2020 = HEADER_2020.split() + [f"Q{number:03d}" for number in range(1, 26)]
PLACES = {"Brasília": (5300108, "DF"), "São Paulo": (3550308, "SP"), "Campinas": (3509502, "SP")}
KEPT = {name: "1" for name in LAYOUT_2020 if name.startswith("TP_PRESENCA")} | {
    "NU_ANO": "2020",
    "TP_FAIXA_ETARIA": "3",
    "TP_SEXO": "F",
    "TP_COR_RACA": "3",
    "TP_ST_CONCLUSAO": "1",
    "IN_TREINEIRO": "0",
    "NU_NOTA_CH": "500.0",
    **{name: "A" for name in LAYOUT_2020 if name.startswith("Q")},
    "Q005": "4",
}


NUMBERS = itertools.count()  # no two people have the same


def person(place: str = "Brasília", **values: object) -> dict[str, str]:
    code, state = PLACES[place]
    where = {"CO_MUNICIPIO_PROVA": str(code), "NO_MUNICIPIO_PROVA": place, "SG_UF_PROVA": state}
    return KEPT | where | {name: str(value) for name, value in values.items()}


def text(people: list[dict[str, str]], header: list[str] = LAYOUT_2020) -> str:
    numbered = ({"NU_INSCRICAO": str(200_000 + next(NUMBERS))} | each for each in people)
    lines = [";".join(header), *(";".join(each.get(name, "") for name in header) for each in numbered)]
    return "\r\n".join(lines) + "\r\n"


def written(
    path: Path, people: list[dict[str, str]], header: list[str] = LAYOUT_2020, encoding: str = "latin-1"
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text(people, header).encode(encoding))
    return path


def many(rows: int) -> list[dict[str, str]]:
    """People of all kinds, some of whom are dropped."""
    rng = np.random.default_rng(0)
    return [
        person(
            str(rng.choice(list(PLACES))),
            TP_PRESENCA_MT=rng.integers(0, 2),
            TP_COR_RACA=rng.integers(0, 6),
            TP_SEXO=rng.choice(["F", "M", ""], p=[0.5, 0.4, 0.1]),
            NU_NOTA_CH=f"{rng.uniform(300, 800):.1f}",
            Q006=chr(65 + rng.integers(0, 17)),
        )
        for _ in range(rows)
    ]


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Path]:
    """A file of both labels, and where to prepare it."""
    people = [person("Brasília", NU_NOTA_CH=400), person("São Paulo", NU_NOTA_CH=600, TP_COR_RACA=1)]
    return written(tmp_path / "MICRODADOS_ENEM_2020.csv", people), tmp_path / "cache" / "enem"


def seen(data: Dataset, row: int) -> dict[str, float]:
    """The features of a row that are not 0."""
    return {name: value for name, value in zip(data.feature_names, data.features[row].tolist(), strict=True) if value}


# The sample of 2019.


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, int], Path]:
    if not DATA.is_dir():
        pytest.skip("the ENEM sample is not here; set LOGOFAIR_DATA")
    folder = tmp_path_factory.mktemp("cache") / "enem"
    return dict(prepare_enem(DATA, folder)), folder


@pytest.fixture(scope="module")
def kept_2019() -> list[dict[str, str]]:
    """The rows of the sample that count, read in the plainest way."""
    kept = []
    for file in sorted(DATA.glob("*.zip")):
        with zipfile.ZipFile(file) as archive:
            content = archive.read(archive.namelist()[0]).decode()
        lines = csv.reader(io.StringIO(content), delimiter=";")
        header = [name.strip() for name in next(lines)]
        for line in lines:
            row = dict(zip(header, (cell.strip() for cell in line), strict=True))
            present = all(row[f"TP_PRESENCA_{exam}"] == "1" for exam in ("CN", "CH", "LC", "MT"))
            if present and (row["IN_TREINEIRO"], row["TP_ST_CONCLUSAO"]) == ("0", "1") and row["TP_COR_RACA"] != "0":
                kept.append(row)
    return kept


@sample
def test_the_sample_keeps_as_many_rows_as_its_description_says(prepared: tuple[dict[str, int], Path]) -> None:
    assert prepared[0] == {
        "rows read": 38_229 + 12_947,
        "dropped: absent from an exam": 15_244,
        "dropped: trainee": 3_301,
        "dropped: school not finished": 8_448,
        "dropped: race unknown": 400,
        "dropped: a value missing": 0,
        "rows kept": 23_783,
    }


@sample
def test_labels_groups_and_sites_of_the_sample_are_those_of_a_plain_reading(
    prepared: tuple[dict[str, int], Path], kept_2019: list[dict[str, str]]
) -> None:
    marks = [float(row["NU_NOTA_CH"]) for row in kept_2019]
    median = statistics.median(marks)
    data = load_enem(prepared[1])
    assert data.labels.tolist() == [mark > median for mark in marks]
    white = [row["TP_COR_RACA"] in ("1", "4") for row in kept_2019]
    assert (data.sensitive == "White or Asian").tolist() == white
    assert data.sites is not None
    of_code = {row["CO_MUNICIPIO_RESIDENCIA"]: name for row, name in zip(kept_2019, data.sites, strict=True)}
    assert data.sites.tolist() == [of_code[row["CO_MUNICIPIO_RESIDENCIA"]] for row in kept_2019]
    assert len(set(data.sites.tolist())) == len(of_code) == 37
    assert of_code["1200252"] == "Epitaciolândia, AC"


@sample
def test_features_of_the_sample_are_those_of_a_plain_reading(
    prepared: tuple[dict[str, int], Path], kept_2019: list[dict[str, str]]
) -> None:
    data = load_enem(prepared[1])
    assert data.features.shape == (23_783, 153)
    assert data.features.min() == 0.0
    assert data.features.max() == 1.0
    for number in range(0, 23_783, 500):
        row = kept_2019[number]
        letters = {f"Q{q:03d}={row[f'Q{q:03d}']}": 1.0 for q in range(1, 25) if q != 5}
        want = letters | {f"SG_UF_PROVA={row['SG_UF_PROVA']}": 1.0, f"TP_SEXO={row['TP_SEXO']}": 1.0}
        found = seen(data, number)
        age, persons = found.pop("TP_FAIXA_ETARIA", 0.0), found.pop("Q005", 0.0)
        assert found == want
        assert persons == pytest.approx((int(row["Q005"]) - 1) / 19)
        assert age == pytest.approx((_age_range(int(row["NU_IDADE"])) - 1) / 19)


def _age_range(age: int) -> int:
    """TP_FAIXA_ETARIA by the table of INEP's dictionary."""
    ends = [16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70]
    return 1 + sum(age > end for end in ends)


@sample
def test_the_sample_has_two_states_and_five_races(prepared: tuple[dict[str, int], Path]) -> None:
    data = load_enem(prepared[1], sensitive="race5")
    assert data.sites is not None
    assert {place[-4:] for place in data.sites.tolist()} == {", AC", ", RR"}
    assert sorted(set(data.sensitive.tolist())) == ["Asian", "Black", "Brown", "Indigenous", "White"]


UNREADABLE = "a.zip: is damaged, or packed by a method that cannot be read here; download it again, or unpack it."

# The layout of 2020, on rows made here.


def test_each_filter_of_the_2020_layout_drops_its_rows_and_the_rest_is_coded(tmp_path: Path) -> None:
    people = [
        person("São Paulo", TP_COR_RACA=4, TP_SEXO="M", TP_FAIXA_ETARIA=20, NU_NOTA_CH=600.5, Q001="H", Q005=20),
        person(TP_PRESENCA_LC=2),
        person(TP_PRESENCA_CN=""),
        person(IN_TREINEIRO=1),
        person(TP_ST_CONCLUSAO=2),
        person(TP_COR_RACA=0),
        person(TP_COR_RACA=6),
        person(Q024=""),
        person(Q018="Z"),
        person(NU_NOTA_CH=""),
        person("Campinas", TP_COR_RACA=2, NU_NOTA_CH=499.5, Q001="C", Q005=1, TP_FAIXA_ETARIA=1),
    ]
    counts = prepare_enem(written(tmp_path / "MICRODADOS_ENEM_2020.csv", people), tmp_path / "enem")
    assert dict(counts) == {
        "rows read": 11,
        "dropped: absent from an exam": 2,
        "dropped: trainee": 1,
        "dropped: school not finished": 1,
        "dropped: race unknown": 2,
        "dropped: a value missing": 3,
        "rows kept": 2,
    }
    data = load_enem(tmp_path / "enem")
    assert data.labels.tolist() == [1, 0]  # the median is 550
    assert data.sensitive.tolist() == ["White or Asian", "Other"]
    assert data.sites is not None
    assert data.sites.tolist() == ["São Paulo, SP", "Campinas, SP"]
    same = {f"Q{q:03d}=A": 1.0 for q in range(2, 25) if q != 5} | {"SG_UF_PROVA=SP": 1.0}
    assert seen(data, 0) == same | {"Q001=H": 1.0, "TP_SEXO=M": 1.0, "TP_FAIXA_ETARIA": 1.0, "Q005": 1.0}
    assert seen(data, 1) == same | {"Q001=C": 1.0, "TP_SEXO=F": 1.0}


def test_ages_in_years_become_the_ranges_of_later_layouts(tmp_path: Path) -> None:
    ages = [10, 16, 17, 18, 25, 26, 30, 31, 45, 46, 66, 70, 71, 95]
    header = [name.replace("TP_FAIXA_ETARIA", "NU_IDADE") for name in LAYOUT_2020]
    people = [person(NU_IDADE=age, NU_NOTA_CH=400 + age) for age in ages]
    prepare_enem(written(tmp_path / "a.csv", people, header), tmp_path / "enem")
    data = load_enem(tmp_path / "enem")
    found = data.features[:, data.feature_names.index("TP_FAIXA_ETARIA")]
    assert (1 + 19 * found).round().astype(int).tolist() == [_age_range(age) for age in ages]


def test_small_batches_give_the_same_cache_as_one(tmp_path: Path) -> None:
    source = written(tmp_path / "MICRODADOS_ENEM_2020.csv", many(300))
    assert source.stat().st_size > 30_000
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert prepare_enem(source, whole) == prepare_enem(source, parts, batch=7)
    assert (whole / "about.json").read_text() == (parts / "about.json").read_text()
    assert pl.read_parquet(whole / "rows.parquet").equals(pl.read_parquet(parts / "rows.parquet"))
    assert sorted(path.name for path in parts.iterdir()) == ["about.json", "rows.parquet"]


def test_a_csv_a_zip_with_other_files_and_a_folder_are_read_alike(tmp_path: Path) -> None:
    people = many(60)
    plain = written(tmp_path / "a" / "MICRODADOS_ENEM_2020.csv", people)
    packed = tmp_path / "b" / "microdados_enem_2020.zip"
    packed.parent.mkdir()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("DADOS/ITENS_PROVA_2020.csv", "CO_POSICAO;SG_AREA\r\n1;CN\r\n")
        archive.writestr("DADOS/MICRODADOS_ENEM_2020.csv", text(people).encode("latin-1"))
        archive.writestr("LEIA-ME E DOCUMENTOS TÉCNICOS/leia-me.pdf", b"%PDF")
    written(tmp_path / "c" / "first.csv", people[:25])
    written(tmp_path / "c" / "below" / "second.csv", people[25:], encoding="utf-8")
    found = [prepare_enem(source, tmp_path / "enem") for source in (plain, packed, packed.parent)]
    apart = dict(prepare_enem(tmp_path / "c", tmp_path / "apart"))
    assert found == [found[0]] * 3
    assert apart == dict(found[0])
    one, other = load_enem(tmp_path / "enem"), load_enem(tmp_path / "apart")
    assert one.sites is not None
    assert set(one.sites.tolist()) == {"Brasília, DF", "Campinas, SP", "São Paulo, SP"}
    assert sorted(map(tuple, one.features.tolist())) == sorted(map(tuple, other.features.tolist()))
    assert one.labels.sum() == other.labels.sum()  # one median over all files


@pytest.mark.parametrize("sensitive", ["race", "race5", "sex"])
def test_sex_is_seen_and_race_is_not_as_in_the_paper(made: tuple[Path, Path], sensitive: str) -> None:
    prepare_enem(*made)
    data = load_enem(made[1], sensitive=sensitive)
    assert data.features.shape == (2, 153)
    assert {"TP_SEXO=F", "TP_SEXO=M"} <= set(data.feature_names)
    assert not any("RACA" in name for name in data.feature_names)


def test_a_year_nobody_checked_is_read_where_all_columns_are_there_and_that_is_said(tmp_path: Path) -> None:
    people = [person(NU_ANO=2021, NU_NOTA_CH=mark) for mark in (400, 500)]
    prepare_enem(written(tmp_path / "MICRODADOS_ENEM_2021.csv", people), tmp_path / "enem")
    body = json.loads((tmp_path / "enem" / "about.json").read_text())["prepared data set"]
    assert body["year"] == "2021"
    assert load_enem(tmp_path / "enem").notes == tuple(body["notes"])
    assert body["notes"][0] == "The year is 2021; only 2019 and 2020 were checked, but all columns needed are there."


# What is refused.


def refused(source: Path, into: Path) -> str:
    """The sentence with which files are refused, and that nothing is left behind."""
    with pytest.raises(InputError) as caught:
        prepare_enem(source, into)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    assert not into.parent.exists() or list(into.parent.iterdir()) == []
    return sentence.replace(f"{source.parent}{os.sep}", "")


def test_missing_columns_are_named(tmp_path: Path) -> None:
    header = [name for name in LAYOUT_2020 if name not in ("NU_NOTA_CH", "Q024", "TP_FAIXA_ETARIA")]
    source = written(tmp_path / "PARTICIPANTES_2024.csv", [person(NU_ANO=2024)], header)
    assert refused(source, tmp_path / "cache" / "enem") == (
        "PARTICIPANTES_2024.csv: lacks the columns Q024, TP_FAIXA_ETARIA, NU_NOTA_CH; "
        "pass microdata in the layout of 2019 or 2020."
    )


def test_files_of_two_years_are_refused_and_two_ways_to_tell_the_age_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    written(folder / "a.csv", [person(), person(NU_NOTA_CH=1)])
    written(folder / "b.csv", [person(NU_ANO=2019)])
    assert "there are rows of 2019 and of 2020; prepare one year at a time." in refused(folder, tmp_path / "c" / "enem")
    header = [name.replace("TP_FAIXA_ETARIA", "NU_IDADE") for name in LAYOUT_2020]
    written(folder / "b.csv", [person(NU_IDADE=20, NU_NOTA_CH=900)], header)
    assert prepare_enem(folder, tmp_path / "c" / "enem")["rows kept"] == 3


def test_the_same_table_packed_and_unpacked_is_not_counted_twice(tmp_path: Path) -> None:
    source = written(tmp_path / "files" / "MICRODADOS_ENEM_2020.csv", many(9))
    with zipfile.ZipFile(tmp_path / "files" / "microdados.zip", "w") as archive:
        archive.write(source, "DADOS/MICRODADOS_ENEM_2020.csv")
    assert "the same table as" in refused(tmp_path / "files", tmp_path / "c" / "enem")


def test_people_who_are_there_twice_are_refused(tmp_path: Path) -> None:
    files, into = tmp_path / "files", tmp_path / "c" / "enem"
    content = text(many(9)).encode("latin-1")
    files.mkdir()
    (files / "rr.csv").write_bytes(content)
    with zipfile.ZipFile(files / "rr.csv.zip", "w") as archive:
        archive.writestr("RORAIMA.csv", content)
    assert re.search("files: [0-9]+ rows are of people who are there twice; leave out a file, or", refused(files, into))


def test_rows_that_are_all_dropped_or_of_one_label_are_refused(tmp_path: Path) -> None:
    source = written(tmp_path / "a.csv", [person(IN_TREINEIRO=1), person(TP_COR_RACA=0)])
    assert refused(source, tmp_path / "c" / "enem") == (
        "a.csv: none of its rows is left (rows read 2, dropped: trainee 1, dropped: race unknown 1); "
        "pass microdata of all participants."
    )
    written(source, [])
    assert refused(source, tmp_path / "c" / "enem") == "a.csv: has no rows below its header; download it again."
    written(source, [person(), person()])
    assert refused(source, tmp_path / "c" / "enem") == (
        "a.csv: no mark lies above the median 500, so there is one label only; pass microdata of more people."
    )


def packed(path: Path, content: bytes) -> bytes:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", content)
    return path.read_bytes()


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    into, source = tmp_path / "c" / "enem", tmp_path / "a.zip"
    whole = packed(source, text(many(400)).encode("latin-1"))
    middle = len(whole) // 2
    source.write_bytes(whole[:middle])
    assert refused(source, into) == UNREADABLE
    source.write_bytes(whole[:middle] + bytes(64) + whole[middle + 64 :])
    assert refused(source, into) == UNREADABLE
    method = bytearray(whole)
    method[8] = method[whole.rindex(b"PK\x01\x02") + 10] = 9  # Deflate64, as Windows packs large files
    source.write_bytes(method)
    assert refused(source, into) == UNREADABLE
    packed(source, b"name;age\nann;3\n")
    assert refused(source, into) == (
        "a.zip: holds no ENEM microdata (no CSV, ZIP or Parquet file with a column 'NU_INSCRICAO'); "
        "pass the official files."
    )


def test_text_that_is_cut_short_or_no_text_is_refused(tmp_path: Path) -> None:
    into, source = tmp_path / "c" / "enem", tmp_path / "a.csv"
    whole = text(many(5)).encode("latin-1")
    source.write_bytes(whole[:-60])
    assert refused(source, into) == "a.csv: cut short: its last line has too few fields; write the file again."
    source.write_bytes(whole[:900] + bytes(9) + whole[900:])
    assert refused(source, into) == "a.csv: is no CSV text (it holds zero bytes); save it as CSV in UTF-8."
    assert refused(tmp_path / "none.csv", into) == "none.csv: not there; check the path."


def test_a_damaged_or_older_cache_says_to_prepare_again(made: tuple[Path, Path]) -> None:
    source, folder = made
    prepare_enem(source, folder)
    again = rf"prepare it again: logofair data prepare enem --from PATH --cache {folder.parent} --force\.$"
    about = json.loads((folder / "about.json").read_text())
    (folder / "about.json").write_text(json.dumps(about | {"version": 0}))
    with pytest.raises(InputError, match=again):
        load_enem(folder)
    (folder / "about.json").write_text("{")
    with pytest.raises(InputError, match=again):
        load_enem(folder)
    prepare_enem(source, folder)
    rows: Any = (folder / "rows.parquet").read_bytes()
    (folder / "rows.parquet").write_bytes(rows[: len(rows) // 2])
    with pytest.raises(InputError, match=rf"rows\.parquet: is missing or damaged; {again}"):
        load_enem(folder)
    (folder / "rows.parquet").unlink()
    with pytest.raises(InputError, match=rf"rows\.parquet: is missing or damaged; {again}"):
        load_enem(folder)


def test_a_failed_preparation_leaves_the_older_one_and_foreign_folders_alone(made: tuple[Path, Path]) -> None:
    source, folder = made
    prepare_enem(source, folder)
    written(source, [person(), person()])
    with pytest.raises(InputError, match="one label only"):
        prepare_enem(source, folder)
    assert load_enem(folder).labels.tolist() == [0, 1]
    assert [path.name for path in folder.parent.iterdir()] == ["enem"]
    other = folder.parent / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("1")
    with pytest.raises(InputError, match="holds other files; choose an empty folder"):
        prepare_enem(source, other)
    assert (other / "chapter.txt").read_text() == "1"


def test_unknown_groups_are_refused(made: tuple[Path, Path]) -> None:
    prepare_enem(*made)
    said = r"^sensitive: got 'rase' \(did you mean 'race'\?\); use one of race, race5, sex\.$"
    with pytest.raises(InputError, match=said):
        load_enem(made[1], sensitive="rase")
