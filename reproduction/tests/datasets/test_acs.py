"""ACSIncome: person records as published, tables of the income task, and what a model sees of them."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("polars")

import polars as pl

from logofair.datasets import Dataset
from logofair.errors import InputError
from logofair_reproduction.datasets.acs import OCCUPATIONS, REGIONS, load_acs, prepare_acs
from logofair_reproduction.datasets.dealing import natural_sites
from support import data

DATA = data.DATA / "acs"
SAMPLE = DATA / "acs_income_2018_35_states.parquet"
sample = pytest.mark.skipif(not SAMPLE.is_file(), reason="the ACS sample is not here; set LOGOFAIR_DATA")

# Some of the 286 columns of psam_pXX.csv, in their order.
HEADER = "RT SERIALNO PUMA ST PWGTP AGEP COW MAR RELP SCHL SEX WKHP OCCP PINCP POBP RAC1P PWGTP1"
PUMS = HEADER.split()
WORKER = {"RT": "P", "ST": "06", "PWGTP": "20", "AGEP": "40", "COW": "1", "MAR": "1", "RELP": "00", "SCHL": "21"}
WORKER |= {"SEX": "1", "WKHP": "40", "OCCP": "0010", "PINCP": "60000", "POBP": "006", "RAC1P": "1"}


def person(**values: object) -> dict[str, str]:
    return WORKER | {name: str(value) for name, value in values.items()}


def text(people: list[dict[str, str]], header: list[str] = PUMS) -> str:
    return "\n".join([",".join(header), *(",".join(each.get(name, "") for name in header) for each in people)]) + "\n"


def written(path: Path, people: list[dict[str, str]], header: list[str] = PUMS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text(people, header))
    return path


def seen(data: Dataset, row: int) -> dict[str, float]:
    """The features of a row that are not 0."""
    return {name: value for name, value in zip(data.feature_names, data.features[row].tolist(), strict=True) if value}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not SAMPLE.is_file():
        pytest.skip("the ACS sample is not here; set LOGOFAIR_DATA")
    folder = tmp_path_factory.mktemp("cache") / "acs"
    counts = prepare_acs(DATA, folder)
    assert dict(counts) == {"rows read": 898_610, "dropped: a value missing": 0, "rows kept": 898_610}
    return folder


@sample
def test_the_sample_has_35_states_and_37_per_cent_positive_and_its_own_groups(prepared: Path) -> None:
    original = pl.read_parquet(SAMPLE)
    data = load_acs(prepared)
    assert data.features.shape == (898_610, 75)
    assert data.labels.mean() == pytest.approx(0.370, abs=5e-4)
    assert data.labels.tolist() == original["PINCP"].to_list()
    assert data.sites is not None
    assert data.sites.tolist() == original["STATE"].cast(pl.String).to_list()
    assert len(set(data.sites.tolist())) == 35
    assert (data.sensitive == "Male").tolist() == (original["SEX"] == 1).to_list()
    assert float(data.features.min()) == 0.0
    assert float(data.features.max()) == 1.0


@sample
def test_merged_codes_of_the_sample_are_taken_as_they_are(prepared: Path) -> None:
    vermont = pl.read_parquet(SAMPLE).filter(pl.col("STATE").cast(pl.String) == "VT")
    everybody = load_acs(prepared, sensitive="race")
    data = everybody.take(everybody.sites == "VT")
    names = {1: "White", 2: "Black", 3: "Asian", 4: "Native", 5: "Other"}
    assert data.sensitive.tolist() == [names[code] for code in vermont["RAC1P"].to_list()]
    assert data.sites is not None
    assert set(data.sites.tolist()) == {"VT"}
    assert len(data.notes) == 2
    married = data.features[:, data.feature_names.index("MAR=married")]
    assert married.tolist() == (vermont["MAR"] == 1).to_list()
    assert "MAR=not married" in data.feature_names
    assert "MAR=divorced" not in data.feature_names
    notes = json.loads((prepared / "about.json").read_text())["prepared data set"]["notes"]
    assert len(notes) == 2


def test_published_records_are_filtered_labelled_and_coded(tmp_path: Path) -> None:
    california = [
        person(),
        person(AGEP=16),
        person(PINCP=100),
        person(PINCP=""),
        person(WKHP=""),
        person(PWGTP=0),
        person(COW=""),
        person(PINCP=50_000, SEX=2, AGEP=17, SCHL="01", WKHP="01", COW=7, MAR=5, RELP=17, RAC1P=9, POBP=303, OCCP=9830),
    ]
    written(tmp_path / "2018" / "1-Year" / "psam_p06.csv", california)
    written(tmp_path / "2018" / "1-Year" / "psam_p11.csv", [person(ST=11, PINCP=50_001, RAC1P=6)])
    (tmp_path / "2018" / "1-Year" / "psam_h06.csv").write_text("RT,SERIALNO,HINCP\nH,1,3\n")
    counts = prepare_acs(tmp_path, tmp_path / "cache" / "acs")
    assert dict(counts) == {
        "rows read": 9,
        "dropped: aged 16 or younger": 1,
        "dropped: income of 100 USD or less": 2,
        "dropped: no hours of work": 1,
        "dropped: survey weight below 1": 1,
        "dropped: a value missing": 1,
        "rows kept": 3,
    }
    data = load_acs(tmp_path / "cache" / "acs", sensitive="race")
    assert data.labels.tolist() == [1, 0, 1]
    assert data.sensitive.tolist() == ["White", "Other", "Asian"]
    assert data.sites is not None
    assert data.sites.tolist() == ["CA", "CA", "DC"]
    first = seen(data, 0)
    assert first.pop("AGEP") == pytest.approx((40 - 17) / 82)
    assert first.pop("SCHL") == pytest.approx(20 / 23)
    assert first.pop("WKHP") == pytest.approx(39 / 98)
    hot = ("COW=private company", "MAR=married", "RELP=0", "SEX=Male", "RAC1P=White", "OCCP=management")
    assert first == dict.fromkeys((*hot, "POBP=United States"), 1.0)
    hot = ("COW=own company", "MAR=never married", "RELP=17", "SEX=Female", "RAC1P=Other", "OCCP=military")
    assert seen(data, 1) == dict.fromkeys((*hot, "POBP=Mexico and Central America"), 1.0)
    assert data.features.shape[1] == 78
    two = load_acs(tmp_path / "cache" / "acs", sensitive="race2")
    assert two.sensitive.tolist() == ["White", "Other", "Other"]


def test_small_batches_and_packed_files_give_the_same_cache_as_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    people = [
        person(
            PINCP=rng.integers(0, 99_999), AGEP=rng.integers(10, 90), RAC1P=rng.integers(1, 10), MAR=rng.integers(1, 6)
        )
        for _ in range(200)
    ]
    plain = written(tmp_path / "psam_p06.csv", people)
    with zipfile.ZipFile(tmp_path / "csv_pca.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("psam_p06.csv", text(people))
        archive.writestr("ACS2018_PUMS_README.pdf", b"%PDF")
    table = tmp_path / "people.parquet"
    numbers: Any = pl.read_csv(plain, infer_schema_length=None)
    numbers.write_parquet(table)
    found = [prepare_acs(source, tmp_path / source.stem) for source in (plain, tmp_path / "csv_pca.zip", table)]
    assert dict(prepare_acs(plain, tmp_path / "batches", batch=7)) == dict(found[0])
    assert dict(found[0]) == dict(found[1]) == dict(found[2])
    assert found[0]["dropped: aged 16 or younger"] == sum(int(each["AGEP"]) <= 16 for each in people) > 0
    want = pl.read_parquet(tmp_path / "psam_p06" / "rows.parquet")
    for name in ("csv_pca", "people", "batches"):
        assert pl.read_parquet(tmp_path / name / "rows.parquet").equals(want)


def test_later_files_with_other_names_of_relation_and_state_are_read(tmp_path: Path) -> None:
    header = [{"RELP": "RELSHIPP", "ST": "STATE"}.get(name, name) for name in PUMS]
    people = [person(STATE="48", RELSHIPP=20), person(STATE="48", RELSHIPP=38, PINCP=900)]
    prepare_acs(written(tmp_path / "psam_p48.csv", people, header), tmp_path / "acs")
    data = load_acs(tmp_path / "acs")
    assert seen(data, 0)["RELSHIPP=20"] == seen(data, 1)["RELSHIPP=38"] == 1.0
    assert data.sites is not None
    assert data.sites.tolist() == ["TX", "TX"]
    with pytest.raises(
        InputError, match=r"^partition: acs has one natural site alone, 'TX'; take in more of them, or use"
    ):
        natural_sites(data)


def test_labels_of_folktables_are_taken_and_its_race_codes_merged(tmp_path: Path) -> None:
    columns = {name: [int(WORKER[name])] * 9 for name in ("AGEP", "COW", "SCHL", "OCCP", "POBP", "RELP", "WKHP", "SEX")}
    columns |= {
        "MAR": [5] * 9,
        "RAC1P": list(range(1, 10)),
        "PINCP": [True] + [False] * 8,
        "STATE": ["ca"] * 8 + ["TX"],
    }
    pl.DataFrame(columns).write_parquet(tmp_path / "income.parquet")
    prepare_acs(tmp_path / "income.parquet", tmp_path / "acs")
    data = load_acs(tmp_path / "acs", sensitive="race")
    native = ["Native"] * 3
    assert data.sensitive.tolist() == ["White", "Black", *native, "Asian", "Other", "Other", "Other"]
    assert data.labels.tolist() == [1] + [0] * 8
    assert data.sites is not None
    assert data.sites.tolist() == ["CA"] * 8 + ["TX"]


# The first and the last code of every group in the census' lists of 2018.
OCCUPATION_ENDS = {
    **{"management": (10, 440), "business": (500, 750), "finance": (800, 960), "computing": (1005, 1240)},
    **{"engineering": (1305, 1560), "science": (1600, 1980), "social service": (2001, 2060), "law": (2100, 2180)},
    **{"education": (2205, 2555), "arts": (2600, 2920), "medicine": (3000, 3550), "health support": (3600, 3655)},
    **{"protection": (3700, 3960), "food": (4000, 4160), "cleaning": (4200, 4255), "personal care": (4330, 4655)},
    **{"sales": (4700, 4965), "office": (5000, 5940), "farming": (6005, 6130), "construction": (6200, 6765)},
    **{"extraction": (6800, 6950), "repair": (7000, 7640), "production": (7700, 8990), "transport": (9005, 9760)},
    **{"military": (9800, 9830), "no work": (9920, 9920)},
}
BIRTH_ENDS = {
    **{"United States": (1, 56), "US territories": (60, 78), "Europe": (100, 168), "Asia": (200, 254)},
    **{"Northern America": (300, 301), "Mexico and Central America": (303, 316), "Caribbean": (321, 344)},
    **{"South America": (360, 374), "Africa": (400, 469), "Oceania": (501, 554)},
}


@pytest.mark.parametrize(
    ("column", "ends", "groups"), [("OCCP", OCCUPATION_ENDS, OCCUPATIONS), ("POBP", BIRTH_ENDS, REGIONS)]
)
def test_codes_fall_into_the_groups_of_the_census(
    tmp_path: Path, column: str, ends: dict[str, tuple[int, int]], groups: dict[int, str]
) -> None:
    assert list(ends) == list(groups.values())
    coded = [(code, 200 + 80_000 * place) for pair in ends.values() for place, code in enumerate(pair)]
    people = [person(**{column: code, "PINCP": income}) for code, income in coded]
    prepare_acs(written(tmp_path / "psam_p06.csv", people), tmp_path / "acs")
    data = load_acs(tmp_path / "acs")
    found = [next(name for name in seen(data, row) if name.startswith(column)) for row in range(len(people))]
    assert found == [f"{column}={name}" for name in ends for _ in range(2)]


def refused(source: Path, into: Path) -> str:
    with pytest.raises(InputError) as caught:
        prepare_acs(source, into)
    assert not into.exists()
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(f"{source.parent}{os.sep}", "")


def test_what_cannot_be_the_income_task_is_refused_in_one_sentence(tmp_path: Path) -> None:
    into, source = tmp_path / "acs", tmp_path / "psam_p06.csv"
    header = [name for name in PUMS if name not in ("PWGTP", "OCCP")]
    sentence = "pass person records of the ACS (psam_pXX.csv), or the income task of folktables with a state column."
    written(source, [person()], header)
    assert refused(source, into) == f"psam_p06.csv: lacks the columns PWGTP, OCCP; {sentence}"
    written(source, [person()], [name for name in PUMS if name not in ("RELP", "ST")])
    assert refused(source, into).startswith("psam_p06.csv: lacks the columns RELP, ST;")
    written(source, [person(AGEP=3), person(WKHP="")])
    assert refused(source, into) == (
        "psam_p06.csv: none of its rows is left (rows read 2, dropped: aged 16 or younger 1, dropped: no hours of "
        "work 1); pass records of adults who work."
    )
    written(source, [person(), person()])
    assert "every income is on one side of 50,000 USD, so there is one label only" in refused(source, into)
    written(source, [])
    assert refused(source, into) == "psam_p06.csv: has no rows below its header; download it again."
    written(source, [person(PINCP=1)], [name for name in PUMS if name not in ("PWGTP", "RAC1P", "ST")])
    assert "lacks the columns RAC1P, ST; pass" in refused(source, into)  # no weight needed beside labels
    source.write_text("name,age\nann,3\n")
    assert refused(source, into) == (
        "psam_p06.csv: holds no ACS person records (no CSV, ZIP or Parquet file with a column 'PINCP'); "
        "pass the official files."
    )
    (tmp_path / "people.parquet").write_bytes(b"PAR1")
    assert "cannot be read as Parquet" in refused(tmp_path / "people.parquet", into)


def test_files_of_two_kinds_are_refused(tmp_path: Path) -> None:
    files = tmp_path / "files"
    written(files / "psam_p06.csv", [person()])
    header = [name.replace("RELP", "RELSHIPP") for name in PUMS]
    written(files / "psam_p48.csv", [person(ST=48, RELSHIPP=20)], header)
    with pytest.raises(InputError, match=r"is of another kind or year than .* prepare files of one at a time\.$"):
        prepare_acs(files, tmp_path / "acs")


NUMBERED = [*PUMS, "SPORDER"]
HOUSEHOLD = [person(SERIALNO="0000123", SPORDER=place, PINCP=income) for place, income in (("01", 200), ("02", 60_000))]


def test_people_who_are_there_twice_are_refused(tmp_path: Path) -> None:
    files, into = tmp_path / "files", tmp_path / "acs"
    source = written(files / "psam_p06.csv", [*HOUSEHOLD, person(SERIALNO="124", SPORDER="01")], NUMBERED)
    assert prepare_acs(files, into)["rows kept"] == 3
    pl.read_csv(source).write_parquet(files / "california.parquet")  # whose codes are numbers
    with pytest.raises(InputError, match=r"files: 6 rows are of people who are there twice; leave out a file, or th"):
        prepare_acs(files, tmp_path / "other")
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["acs", "files"]


def test_stored_rows_that_lack_some_are_refused(tmp_path: Path) -> None:
    prepare_acs(written(tmp_path / "a.csv", [person(), person(PINCP=200)]), tmp_path / "acs")
    file = tmp_path / "acs" / "rows.parquet"
    assert {path.name for path in file.parent.iterdir()} == {"about.json", "rows.parquet"}
    rows, again = pl.read_parquet(file), f"--from PATH --cache {tmp_path} --force."
    for changed in (rows.drop("SEX"), rows.head(1)):
        changed.write_parquet(file)
        with pytest.raises(InputError, match=f"{file}: is missing or damaged; prepare it again: .* acs {again}"):
            load_acs(tmp_path / "acs")


def test_what_was_prepared_before_is_no_source(tmp_path: Path) -> None:
    written(tmp_path / "psam_p06.csv", [person(), person(PINCP=200)])
    assert prepare_acs(tmp_path, tmp_path / "acs") == prepare_acs(tmp_path, tmp_path / "acs")


def test_unknown_columns_are_refused(tmp_path: Path) -> None:
    prepare_acs(written(tmp_path / "a.csv", [person(), person(ST=48, PINCP=200)]), tmp_path / "acs")
    with pytest.raises(InputError, match=r"^sensitive: got 'gender'; use one of sex, race, race2\.$"):
        load_acs(tmp_path / "acs", sensitive="gender")
