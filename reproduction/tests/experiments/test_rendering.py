"""What a page says of the rows, the days and the versions of its results, as the records tell them."""

from __future__ import annotations

import os

import pytest

from logofair_reproduction.experiments import rendering

ROWS = {"train": 8_000, "calibration": 8_000, "test": 7_783}


def record(data, rows=ROWS, limit=None, **more):
    return {"data": data, "rows": rows, "limit": limit, **more}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            record("enem", sample={"of": 23_783, "year": "2019", "natural": 37}),
            "a sample: 23,783 rows of 2019, 37 natural clients (municipality) (the paper: about 1.4 million)",
        ),
        (
            record("acs", limit=23_783, sample={"of": 898_610, "year": "2018", "natural": 51}),
            "a sample: 23,783 of 898,610 rows of 2018, drawn at random, 51 natural clients (state)",
        ),
        (record("acs", sample={"of": 23_783}), "23,783 rows"),
        (
            record("adult", {"train": 48_842}, sample={"of": 48_842}),
            "48,842 rows (the paper: more than 45,000)",
        ),
        (record("celeba"), "a sample: 23,783 rows (the paper: about 200,000 images)"),  # made before samples were told
    ],
)
def test_the_rows_are_said_to_be_what_they_are(found, words, tmp_path):
    assert rendering._rows_of(found["data"], [found], tmp_path) == words


def test_prepared_data_tell_the_year_of_records_that_do_not_and_of_no_others(monkeypatch):
    monkeypatch.setattr(rendering, "origin_of", lambda name, cache: {"of": 23_783, "year": "2020"})
    assert "23,783 rows of 2020" in rendering._rows_of("enem", [record("enem")], None)
    assert "23,783 rows of 2019" in rendering._rows_of("enem", [record("enem", sample={"year": "2019"})], None)


def test_runs_on_some_rows_and_on_all_are_told_apart():
    found = [record("acs", sample={"of": 23_783}), record("acs", {"train": 900}, 900, sample={"of": 23_783})]
    assert rendering._rows_of("acs", found, None) == "23,783 rows; a sample: 900 of 23,783 rows, drawn at random"


def test_versions_and_devices_that_differ_are_all_listed():
    found = [
        {"versions": {"torch": "2+cpu"}},
        {"versions": {"torch": "2+cpu"}, "trained_with": {"device": "cuda", "torch": "2+cu"}},
    ]
    assert rendering._versions(found) == {"torch": "2+cpu and 2+cu", "device": "cuda"}


def test_the_days_are_those_of_the_results_and_of_their_file_where_they_tell_none(tmp_path):
    path = tmp_path / "results.jsonl"
    path.touch()
    os.utime(path, (0, 86_400 * 366 + 43_200))  # 2 January 1971
    dated = [{"date": "2026-05-02"}, {"date": "2026-05-01"}]
    assert rendering._dates(dated, tmp_path) == "2026-05-01 to 2026-05-02"
    assert rendering._dates(dated[:1], tmp_path) == "2026-05-02"
    assert rendering._dates([*dated, {}], tmp_path) == "1971-01-02 to 2026-05-02"
