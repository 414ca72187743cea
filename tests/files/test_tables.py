"""A site's file: the wanted columns with nothing guessed, or one sentence that says what is wrong with the file."""

from __future__ import annotations

import codecs
import contextlib
import csv
import datetime
import decimal
import gzip
import hashlib
import io
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair.files import tables
from logofair.files.inputs import ColumnNames, DataSource, one_file, site_name
from logofair.files.rows import read_rows
from logofair.files.tables import fingerprint, open_table
from logofair.files.writing import _escaped_formulas, sink, unescaped_formula
from logofair.records import plain, read
from support.examples import examples

modest = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
BINARY = {".parquet": pl.DataFrame.write_parquet, ".pq": pl.DataFrame.write_parquet, ".arrow": pl.DataFrame.write_ipc}
BINARY |= {".feather": pl.DataFrame.write_ipc, ".ipc": pl.DataFrame.write_ipc}


def written(path: Path, content: str | bytes, encoding: str = "utf-8") -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def stored(path: Path, **columns: object) -> Path:
    BINARY[path.suffix](pl.DataFrame(columns), path)
    return path


def read_columns(path: object, wanted: dict[str, str], **options: object) -> dict[str, np.ndarray]:
    """Columns of a file by role; each is read alone, roles without a meaning of their own as ids."""
    found = {}
    for role, name in wanted.items():
        known = {role: name} if role in ("score", "weight", "label") else {}
        rows = read_rows(one_file(path), ColumnNames(**(known or {"id": name}), **options))
        found[role] = getattr(rows, f"{role}s" if known else "ids")
    return found


def refused(path: object, wanted: dict[str, str], **options: object) -> str:
    """The one sentence with which a file is refused."""
    with pytest.raises(InputError) as error:
        read_columns(path, wanted, **options)
    sentence = str(error.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert "polars" not in sentence
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None  # no traceback of polars beneath
    return sentence


# ---------------------------------------------------------------- CSV: separators, encodings, quotes


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("tail", ["", "\n", "\n\n  \n"])
def test_separator_encoding_and_line_ends_of_a_csv_are_found(separator, encoding, end, tail, tmp_path):
    rows = [["größe", "Geschlecht", "Wert, Nr; 1"], ["0.5", "männlich", "1"], ["0.25", "weiblich", "2"]]
    quoted = [[f'"{cell}"' if "," in cell else cell for cell in row] for row in rows]
    text = end.join(separator.join(row) for row in quoted) + tail.replace("\n", end)
    got = read_columns(
        written(tmp_path / "site.csv", text, encoding), {"score": "größe", "group": "Geschlecht", "id": "Wert, Nr; 1"}
    )
    assert {role: column.tolist() for role, column in got.items()} == {
        "score": [0.5, 0.25],
        "group": ["männlich", "weiblich"],
        "id": [1, 2],
    }
    assert {role: column.dtype.char for role, column in got.items()} == {"score": "d", "group": "O", "id": "l"}


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE], ids=["little", "big"])
def test_utf_16_with_its_mark_is_read_as_excel_saves_unicode_text(mark, tmp_path):
    encoding = "utf-16-le" if mark == codecs.BOM_UTF16_LE else "utf-16-be"
    file = written(tmp_path / "site.txt", mark + "größe\tstadt\r\n0.5\tKöln\r\n".encode(encoding))
    got = read_columns(file, {"score": "größe", "group": "stadt"})
    assert (got["score"].tolist(), got["group"].tolist()) == ([0.5], ["Köln"])


IDS = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "'=quoted",
    "''=twice",
    "'plain",
    "-",
    "x=1",
    "7",
]
NUMBERS = ["-5", "+3.5", "-.5e-3", "7."]


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_what_a_spreadsheet_would_run_is_written_as_text_and_read_back_unchanged(ending, tmp_path):
    table = pl.DataFrame({"id": IDS, "score": [0.5] * len(IDS), "change": [-1.0] * len(IDS)})
    sink(table.lazy(), tmp_path / f"out.{ending}")
    text = (tmp_path / f"out.{ending}").read_bytes()
    cells = pl.read_csv(tmp_path / f"out.{ending}", separator="," if ending == "csv" else "\t", infer_schema=False)
    for cell in cells["id"]:
        assert len(cell) == 1 or not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert cells["change"].to_list() == ["-1.0"] * len(IDS)
    assert b"'=cmd" in text
    with open_table(tmp_path / f"out.{ending}", {"id": "id"}) as found:
        assert pl.concat(found.batches(5))["id"].to_list() == IDS


@given(st.lists(st.text(alphabet="=+-@'\t\rx1. ", min_size=1, max_size=5), min_size=1))
def test_no_two_cells_become_one_by_the_apostrophe(cells):
    table = pl.DataFrame({"id": cells})
    safe = _escaped_formulas(table)
    assert safe.with_columns(unescaped_formula(pl.col("id")))["id"].to_list() == cells


def test_numbers_in_a_column_of_text_stay_as_they_are():
    table = pl.DataFrame({"id": NUMBERS})
    assert _escaped_formulas(table)["id"].to_list() == NUMBERS


def test_a_source_tells_files_and_columns_but_holds_no_rows():
    source = DataSource("sites", ("a.csv",), "5d41", 3, {"score": "p"})
    assert vars(source) == {
        "name": "sites",
        "files": ("a.csv",),
        "fingerprint": "5d41",
        "rows": 3,
        "columns": {"score": "p"},
    }


def test_quoted_separators_quotes_and_line_ends_stay_in_their_cell(tmp_path):
    text = 'group,score\n"a,b",0.5\n"c ""d""",0.25\n"e\nf",1\n'
    got = read_columns(written(tmp_path / "site.csv", text), {"group": "group", "score": "score"})
    assert got["group"].tolist() == ["a,b", 'c "d"', "e\nf"]
    assert got["score"].tolist() == [0.5, 0.25, 1.0]


def test_the_wanted_names_decide_between_separators(tmp_path):
    file = written(tmp_path / "site.csv", "a,b,c;score\nx,y,z;0.5\n")
    assert read_columns(file, {"score": "score"})["score"].tolist() == [0.5]
    assert read_columns(file, {"group": "a"})["group"].tolist() == ["x"]


def test_blanks_around_the_cells_of_a_csv_are_layout(tmp_path):
    got = read_columns(
        written(tmp_path / "adult.data.csv", "age, income ,id\n 39 , >50K, 1\n40,<=50K ,2\n"),
        {"label": "income", "weight": "age", "id": "id"},
        positive=">50K",
    )
    assert [got[role].tolist() for role in ("label", "weight", "id")] == [[1, 0], [39.0, 40.0], [1, 2]]


def test_windows_quotes_and_the_euro_sign_are_read_as_windows_wrote_them(tmp_path):
    file = written(tmp_path / "site.csv", "group\nM’s\n€ 5\n", "cp1252")
    assert read_columns(file, {"group": "group"})["group"].tolist() == ["M’s", "€ 5"]


def test_a_last_cell_with_an_umlaut_is_latin_1_and_not_a_cut_character(tmp_path):
    file = written(tmp_path / "site.csv", "group\na\nStraßenbahnö\n", "latin-1")
    assert read_columns(file, {"group": "group"})["group"].tolist() == ["a", "Straßenbahnö"]


def test_other_columns_are_not_looked_at(tmp_path):
    file = written(tmp_path / "site.csv", "x,score,x,\n?,0.5,,\nabc,1,2020-01-01,\n")
    assert read_columns(file, {"score": "score"})["score"].tolist() == [0.5, 1.0]


# Cells of blanks alone count as missing.
text_cells = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=8).filter(str.strip)


@given(st.lists(text_cells, min_size=1, max_size=6), st.sampled_from(",;\t"))
@modest
def test_any_text_comes_back_from_a_csv_but_for_outer_blanks(tmp_path, cells, separator):
    lines = [f'{index}{separator}"' + cell.replace('"', '""') + '"' for index, cell in enumerate(cells)]
    file = written(tmp_path / "site.csv", f"id{separator}group\n" + "\n".join(lines))
    got = read_columns(file, {"group": "group", "id": "id"}, na=())
    assert got["id"].tolist() == list(range(len(cells)))
    assert [str(group) for group in got["group"].tolist()] == [cell.strip() for cell in cells]


# ---------------------------------------------------------------- types


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "2", "-30"], [1, 2, -30]),
        (["007", "12"], ["007", "12"]),
        (["1", "2", "x"], ["1", "2", "x"]),
        (["+1", "2"], ["+1", "2"]),
        (["-0", "0"], ["-0", "0"]),
        (["1.10", "1.1"], ["1.10", "1.1"]),
        (["1e5", "2"], ["1e5", "2"]),
        (["9223372036854775807", "1"], [2**63 - 1, 1]),
        (["9223372036854775808", "1"], ["9223372036854775808", "1"]),
        (["True", "False"], ["True", "False"]),
    ],
    ids=repr,
)
def test_a_csv_column_is_integers_only_if_each_cell_is_how_an_integer_is_written(cells, values, tmp_path):
    file = written(tmp_path / "site.csv", "\n".join(["id,other", *(f"{cell},x" for cell in cells)]))
    got = read_columns(file, {"id": "id"})["id"]
    assert got.tolist() == values
    assert got.dtype == (np.int64 if isinstance(values[0], int) else object)


@given(st.lists(st.floats(0.0, allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
@modest
def test_floats_come_back_from_a_csv_to_the_last_bit(tmp_path, numbers):
    file = written(tmp_path / "site.csv", "\n".join(["weight", *map(repr, numbers)]))
    got = read_columns(file, {"weight": "weight"})["weight"]
    np.testing.assert_array_equal(np.ascontiguousarray(got).view(np.int64), np.array(numbers).view(np.int64))


def test_missing_values_are_counted_or_their_rows_left_out_whatever_the_kind_of_file(tmp_path):
    for file in (
        written(tmp_path / "site.csv", "s,g,i,l\n0.5,a,1,0\n,,,\n1,b,2,1\n"),
        stored(tmp_path / "site.parquet", s=[0.5, None, 1.0], g=["a", None, "b"], i=[1, None, 2], l=[0, None, 1]),
        stored(tmp_path / "site.arrow", s=[0.5, np.nan, 1], g=["a", None, "b"], i=[1.0, np.nan, 2], l=[0.0, np.nan, 1]),
    ):
        wanted = {"score": "s", "group": "g", "id": "i", "label": "l"}
        got = read_columns(file, wanted, drop_missing=True)
        assert {role: values.tolist() for role, values in got.items()} == {
            "score": [0.5, 1.0],
            "group": ["a", "b"],
            "id": [1, 2],
            "label": [0, 1],
        }
        for role, name in wanted.items():
            assert f"column {name!r}: 1 of 3 rows has no value" in refused(file, {role: name})


def test_blank_lines_and_short_lines_within_a_csv_are_missing_values(tmp_path):
    file = written(tmp_path / "site.csv", "s,g\n0.5,a\n\n0.25\n1,b\n")
    assert "column 'g': 2 of 4 rows have no value" in refused(file, {"group": "g"})
    assert read_columns(file, {"group": "g"}, drop_missing=True)["group"].tolist() == ["a", "b"]


@pytest.mark.parametrize("ending", BINARY)
def test_ten_thousand_rows_come_back_as_they_were_stored(ending, tmp_path):
    rng = np.random.default_rng(0)
    columns = {
        "score": rng.random(10_000),
        "group": np.array(["f", "m", "näher"], dtype=object)[rng.integers(0, 3, 10_000)],
        "id": rng.integers(-(2**63), 2**63 - 1, 10_000),
        "label": rng.integers(0, 2, 10_000),
        "site": rng.random(10_000) < 0.5,
    }
    file = stored(tmp_path / f"site{ending}", unread=[[1]] * 10_000, **columns)
    got = read_columns(file, {role: role for role in columns})
    for role, column in columns.items():
        assert got[role].dtype == column.dtype
        np.testing.assert_array_equal(got[role], column)


@pytest.mark.parametrize(
    ("values", "got", "kind"),
    [
        (pl.Series([1, 2], dtype=pl.Int8), [1, 2], np.int64),
        (pl.Series([1, 2], dtype=pl.UInt64), [1, 2], np.int64),
        (pl.Series([1, 2**64 - 1], dtype=pl.UInt64), [1, 2**64 - 1], np.uint64),
        (pl.Series([1, 2], dtype=pl.Int128), [1, 2], np.int64),
        (pl.Series([0.5, 2], dtype=pl.Float32), [0.5, 2.0], np.float64),
        (pl.Series([decimal.Decimal("1.5"), decimal.Decimal(2)]), [1.5, 2.0], np.float64),
        (pl.Series(["a", "b"], dtype=pl.Categorical), ["a", "b"], object),
        (pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"])), ["a", "b"], object),
        (pl.Series(["007", "8"]), ["007", "8"], object),
        (pl.Series(["7", " 8 "]), ["7", " 8 "], object),
        (pl.Series([True, False]), [True, False], np.bool_),
    ],
    ids=lambda value: str(value.dtype) if isinstance(value, pl.Series) else "",
)
def test_stored_kinds_become_text_bool_int64_or_float64(values, got, kind, tmp_path):
    column = read_columns(stored(tmp_path / "site.arrow", x=values), {"group": "x"})["group"]
    assert column.tolist() == got
    assert column.dtype == kind
    column[0] = column[1]  # the arrays are the caller's own


@pytest.mark.parametrize(
    "values",
    [
        [datetime.date(2020, 1, 1)],
        [datetime.datetime(2020, 1, 1)],
        [[1, 2]],
        [{"a": 1}],
        [b"x"],
        [datetime.timedelta(1)],
    ],
    ids=repr,
)
def test_dates_lists_and_bytes_are_refused_by_kind(values, tmp_path):
    file = stored(tmp_path / "site.parquet", x=values)
    assert "column 'x': holds " in refused(file, {"group": "x"})
    assert "expected numbers; convert the column first." in refused(file, {"score": "x"})


def test_integers_of_more_than_64_bits_are_refused(tmp_path):
    file = stored(tmp_path / "site.parquet", x=pl.Series([2**100], dtype=pl.Int128))
    assert "more than 64 bits; store them as text" in refused(file, {"id": "x"})


def test_text_among_numbers_is_named_with_its_row(tmp_path):
    file = written(tmp_path / "site.csv", "score;w\n0.5;1\nabc;1,5\n")
    assert refused(file, {"score": "score"}).endswith(
        "column 'score': row 2 is 'abc', expected numbers; drop or repair such rows."
    )
    assert refused(file, {"weight": "w"}).endswith("row 2 is '1,5', expected numbers; write decimals with a point.")
    file = stored(tmp_path / "site.parquet", x=["0.5", "x" * 1000])
    assert "row 2 is 'xxx" in refused(file, {"score": "x"})
    assert len(refused(file, {"score": "x"})) < 300


def test_a_negative_weight_is_named_with_its_row(tmp_path):
    file = written(tmp_path / "site.csv", "w,g\n1,a\n0,b\n-2,a\n")
    assert refused(file, {"weight": "w"}).endswith("column 'w': row 3 is -2; weights must not be negative.")


def test_percent_signs_are_read_on_the_scale_of_percentages_and_refused_with_the_remedy_elsewhere(tmp_path):
    file = written(tmp_path / "site.csv", "p,w\n90.9%,1%\n5 %,2\n50,3\n")
    got = read_columns(file, {"score": "p"}, scale="percent")
    np.testing.assert_allclose(got["score"], [0.909, 0.05, 0.5])
    assert refused(file, {"score": "p"}).endswith("row 1 is '90.9%', expected numbers; add --scale percent.")
    sentence = refused(file, {"weight": "w"}, scale="percent")
    assert sentence.endswith("row 1 is '1%', expected numbers; write numbers without %.")


# ---------------------------------------------------------------- texts that stand for a missing value

COUNTRIES = ["NA", "N/A", "NaN", "nan", "NULL", "null", "", "DE", "na"]


def countries(tmp_path, ending):
    file = tmp_path / f"site{ending}"
    return (
        written(file, "\n".join(["c,k", *(f"{name},x" for name in COUNTRIES)]))
        if ending == ".csv"
        else stored(file, c=[name or None for name in COUNTRIES])
    )


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
def test_text_that_stands_for_a_missing_value_is_one_unless_other_texts_are_named(ending, tmp_path):
    file = countries(tmp_path, ending)

    def kept(**options):
        return read_columns(file, {"group": "c"}, drop_missing=True, **options)["group"].tolist()

    assert kept() == ["DE", "na"]
    assert kept(na=()) == [name for name in COUNTRIES if name]
    assert kept(na=("DE", "null")) == [name for name in COUNTRIES if name not in ("", "DE", "null")]


def test_a_missing_value_that_was_text_is_refused_with_the_option_that_makes_it_a_value(tmp_path):
    file = countries(tmp_path, ".csv")
    assert refused(file, {"group": "c"}).endswith(
        "7 of 9 rows have no value ('NA' counts as missing; if it is a value, add --na none); fill them or add "
        "--drop-missing."
    )
    assert refused(file, {"group": "c"}, na=()).endswith("1 of 9 rows has no value; fill it or add --drop-missing.")
    numbers = written(tmp_path / "numbers.csv", "p\n0.5\nNA\n")
    assert refused(numbers, {"score": "p"}).endswith("1 of 2 rows has no value; fill it or add --drop-missing.")


def test_categories_may_stand_for_missing_values_too(tmp_path):
    file = stored(tmp_path / "site.parquet", c=pl.Series(["a", "NA"], dtype=pl.Categorical))
    assert read_columns(file, {"group": "c"}, drop_missing=True)["group"].tolist() == ["a"]


def test_a_condition_compares_texts_as_they_are_written(tmp_path):
    file = written(tmp_path / "site.csv", "c,g\nNA,1\nDE,2\nNA,3\n")
    rows = read_rows(one_file(file), ColumnNames(group=("g",), where=(("c", "NA"),)))
    assert rows.groups.labels.tolist() == [1, 3]


def test_names_of_columns_come_back_from_plain_values():
    names = ColumnNames(score="p", group=("sex", "race"), where=(("part", "test"),), na=("?",))
    assert read(json.loads(json.dumps(plain(names))), ColumnNames) == names
    assert names.described()["na"] == "?"
    assert "na" not in ColumnNames(group=("sex",)).described()


# ---------------------------------------------------------------- labels


@pytest.mark.parametrize(
    ("cells", "options", "labels"),
    [
        ("0 1 1", {}, [0, 1, 1]),
        ("True False TRUE", {}, [1, 0, 1]),
        ("1.0 0.0", {}, [1, 0]),
        (">50K <=50K >50K", {"positive": ">50K"}, [1, 0, 1]),
        (">50K <=50K", {"positive": "<=50K"}, [0, 1]),
        (">50K >50K", {"positive": ">50K"}, [1, 1]),
        ("1 2 2", {"positive": "2"}, [0, 1, 1]),
        ("1 2 2", {"positive": 1}, [1, 0, 0]),
        ("0 1", {"positive": 0}, [1, 0]),
        ("true false", {"positive": False}, [0, 1]),
    ],
    ids=repr,
)
def test_labels_become_0_and_1_where_that_is_no_guess(cells, options, labels, tmp_path):
    file = written(tmp_path / "site.csv", "y,x\n" + "".join(f"{cell},0\n" for cell in cells.split()))
    got = read_columns(file, {"label": "y"}, **options)["label"]
    assert got.tolist() == labels
    assert got.dtype == np.int64


@pytest.mark.parametrize(
    ("values", "positive", "labels"),
    [
        ([True, False], None, [1, 0]),
        ([True, False], "false", [0, 1]),
        ([1.0, 2.0], "2", [0, 1]),
        (["yes", None, "no"], "yes", [1, 0]),
        ([2.0, float("nan"), None], 2, [1]),
        ([True, None], None, [1]),
    ],
    ids=repr,
)
def test_stored_labels_become_0_and_1_too(values, positive, labels, tmp_path):
    file = stored(tmp_path / "site.parquet", y=values)
    got = read_columns(file, {"label": "y"}, positive=positive, drop_missing=True)
    np.testing.assert_array_equal(got["label"], labels)


@pytest.mark.parametrize(
    ("values", "positive", "sentence"),
    [
        (["b", "a", "b"], None, "holds 'b' and 'a', expected 0 and 1; say with --positive which one counts as 1."),
        (["b", "b"], None, "holds 'b', expected 0 and 1; say with --positive which one counts as 1."),
        (["b", "a", "c"], None, "holds more than two values (such as 'b' and 'a'); a label has two: merge some first."),
        (["b", "a", "c"], "b", "holds more than two values (such as 'b' and 'a'); a label has two: merge some first."),
        (["0", "1", "?"], None, "holds more than two values (such as '0' and '1'); a label has two: merge some first."),
        (["true", "True", "1", "0", "yes"], None, "holds more than two values (such as 'true' and 'True')"),
        ([">50K", "<=50K"], ">50", "holds '>50K' and '<=50K', not '>50'; correct --positive."),
        (["<=50K", "<=50K"], ">50K", "holds '<=50K', not '>50K'; correct --positive."),
        (["a", "A"], "a", "holds 'a' and 'A', not 'a'; correct --positive."),
        ([2, 3], None, "holds 2 and 3, expected 0 and 1; say with --positive which one counts as 1."),
        ([1, 2], "3", "holds 1 and 2, not '3'; correct --positive."),
    ],
    ids=repr,
)
def test_labels_that_would_have_to_be_guessed_are_refused(values, positive, sentence, tmp_path):
    file = stored(tmp_path / "site.parquet", y=values)
    assert f"{file}: column 'y': {sentence}" in refused(file, {"label": "y"}, positive=positive)


# ---------------------------------------------------------------- what is wrong with a file


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow"])
def test_a_missing_column_is_answered_with_those_there_are_and_the_nearest(ending, tmp_path):
    names = ["score", *(f"x{i}" for i in range(24))]
    path = tmp_path / f"site{ending}"
    if ending == ".csv":
        written(path, ",".join(names) + "\n" + ",".join("1" for _ in names))
    else:
        stored(path, **{name: [1] for name in names})
    sentence = refused(path, {"group": "x0", "score": "scroe"})
    assert sentence.startswith(f"{path}: no column 'scroe' (did you mean 'score'?); its columns are 'score', 'x0', ")
    assert sentence.endswith("'x18' and 5 more.")


def test_a_csv_without_a_header_is_said_to_lack_one_and_its_row_is_not_shown(tmp_path):
    sentence = refused(written(tmp_path / "site.csv", "0.5,ann,1\n0.7,bob,0\n"), {"score": "score"})
    assert sentence.endswith("its first line holds numbers; the first line must name the columns.")
    assert "ann" not in sentence


def test_a_wanted_name_that_stands_twice_is_refused(tmp_path):
    file = written(tmp_path / "site.csv", "a,score, a \n1,0.5,2\n")
    assert refused(file, {"group": "a"}) == f"{file}: has 2 columns 'a'; rename all but one."


def test_names_are_names_and_no_patterns(tmp_path):
    odd = {"^s.*$": [1.0], "*": [2.0], "s": [3.0]}
    for path in (tmp_path / "site[1].parquet", tmp_path / "*.arrow", tmp_path / "year=2020.ipc"):
        file = stored(path, **odd)
        assert [read_columns(file, {"weight": name})["weight"].tolist() for name in odd] == list(odd.values())
        assert "no column" in refused(file, {"score": "^t.*$"})
    file = written(tmp_path / "s[1]*.csv", "^s.*$,*,s\n1,2,3\n")
    assert [read_columns(file, {"weight": name})["weight"].tolist() for name in odd] == list(odd.values())


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    for path, reason in (
        (tmp_path / "none.csv", "cannot be read (No such file or directory); check the path."),
        (tmp_path / "folder.csv", "is a folder or no regular file; pass a file name."),
        (str(tmp_path / "a\0.csv"), "cannot be read (embedded null byte); check the path."),
        (written(tmp_path / "empty.csv", ""), "is empty; write the file again."),
        (written(tmp_path / "empty.parquet", ""), "is empty; write the file again."),
    ):
        assert refused(path, {"score": "score"}) == f"{path}: {reason}"
        with pytest.raises(InputError):
            fingerprint(path)
    for path in (None, 5, b"x.csv"):
        assert refused(path, {"score": "score"}) == f"path: got {path!r}; pass a file name."


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes as on POSIX")
def test_a_pipe_is_refused_without_waiting_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    assert "no regular file" in refused(tmp_path / "pipe.csv", {"score": "score"})


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read anything")
def test_a_file_without_permission_is_named(tmp_path):
    file = written(tmp_path / "site.csv", "score\n1\n")
    file.chmod(0)
    assert "cannot be read (Permission denied)" in refused(file, {"score": "score"})


@pytest.mark.parametrize("name", ["site.dat", "site", "site.parquet.gz", ".csv"])
def test_other_endings_are_refused_with_those_known(name, tmp_path):
    sentence = refused(written(tmp_path / name, "score\n1\n"), {"score": "score"})
    texts = ".csv, .tsv, .txt, .csv.gz, .tsv.gz, .txt.gz"
    assert sentence.endswith(f"known endings are {texts}, .parquet, .pq, .arrow, .feather, .ipc.")


@pytest.mark.parametrize("name", ["site.xlsx", "SITE.XLS", "site.ods"])
def test_a_spreadsheet_is_refused_with_what_to_save_it_as(name, tmp_path):
    sentence = refused(written(tmp_path / name, "PK"), {"score": "score"})
    assert sentence.endswith("is a spreadsheet, which is not read here; save the sheet as CSV and pass that file.")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize("name", ["site.csv.gz", "site.v2.TSV.GZ"])
def test_a_packed_csv_is_read_like_the_csv(name, encoding, tmp_path):
    text = "größe\tstadt\n0.5\tKöln\n0.25\tUlm\n\n"
    file = written(tmp_path / name, gzip.compress(text.encode(encoding), mtime=0))
    plain = written(tmp_path / "site.csv", text, encoding)
    for path in (file, plain):
        got = read_columns(path, {"score": "größe", "group": "stadt"})
        assert (got["score"].tolist(), got["group"].tolist()) == ([0.5, 0.25], ["Köln", "Ulm"])
    assert site_name(file) == name.lower().removesuffix(".gz").removesuffix(".csv").removesuffix(".tsv")


@pytest.mark.parametrize(
    "content", [b"score,group\n0.5,a\n", gzip.compress(b"score,group\n0.5,a\n" * 9, mtime=0)[:-12]]
)
def test_a_file_that_is_not_packed_as_its_name_says_is_refused(content, tmp_path):
    file = written(tmp_path / "site.csv.gz", content)
    assert refused(file, {"score": "score"}) == f"{file}: is damaged or cut short, or no GZIP file; write it again."


@pytest.mark.parametrize("name", ["_MOST_BYTES", "_ALWAYS_ALLOWED"])
def test_a_gzip_file_that_would_unpack_to_too_much_is_refused_before_all_of_it_is_unpacked(name, tmp_path, monkeypatch):
    file = written(tmp_path / "site.csv.gz", gzip.compress(b"score\n" + b"0\n" * (1 << 22), mtime=0))
    assert read_columns(file, {"score": "score"})["score"].size == 1 << 22
    unpacked = []
    real = tables.check_unpacked
    monkeypatch.setattr(tables, "check_unpacked", lambda path, size: (unpacked.append(size), real(path, size)))
    monkeypatch.setattr(tables, name, 1 << 21)
    assert "unpacks to more than" in refused(file, {"score": "score"})
    assert unpacked[-1] <= tables._BLOCK


def test_the_ending_may_be_in_capitals(tmp_path):
    assert read_columns(written(tmp_path / "SITE.CSV", "score\n1\n"), {"score": "score"})["score"].tolist() == [1.0]


def test_a_file_without_rows_is_refused(tmp_path):
    for file in (
        written(tmp_path / "site.csv", "score,group\n\n"),
        written(tmp_path / "quoted.csv", '"score","group"'),
        stored(tmp_path / "site.parquet", score=pl.Series([], dtype=pl.Float64)),
        stored(tmp_path / "site.arrow", score=pl.Series([], dtype=pl.Float64)),
    ):
        assert refused(file, {"score": "score"}).endswith(": has columns but no rows; pass a file with at least one.")


def test_asking_for_no_column_is_refused(tmp_path):
    file = written(tmp_path / "site.csv", "score\n1\n")
    with pytest.raises(InputError, match="no columns were named"), open_table(file, {}):
        pass


@pytest.mark.parametrize(
    "content",
    [
        b"a,score\nx,1\ny,2,3\n",
        b'a,score\nx,1\n"y,2\n',
        b'a,score\nx"y,1\nz,2\n',
        b"a,score\nx,1\n\xe4\x81,2\n",  # no UTF-8, and 0x81 is nothing in Windows-1252
        b"\n\n",
        b'"' + b"x" * 200_000,
    ],
    ids=range(6),
)
def test_a_malformed_csv_is_refused(content, tmp_path):
    refused(written(tmp_path / "site.csv", content), {"score": "score", "group": "a"})


def test_utf_16_without_its_mark_and_other_binary_content_is_no_csv(tmp_path):
    for content in ("score\n1\n".encode("utf-16-le"), b"score\n1\0\n"):
        assert "is no CSV text (it holds zero bytes)" in refused(
            written(tmp_path / "site.csv", content), {"score": "score"}
        )


def test_a_csv_cut_short_is_refused_where_it_can_be_told(tmp_path):
    whole = "score,group,city\n0.5,a,Köln\n0.25,b,Zürich\n".encode()
    wanted = {"score": "score", "group": "group"}
    middle = whole.index("ü".encode()) + 1
    assert "cut short: it ends within a character" in refused(written(tmp_path / "a.csv", whole[:middle]), wanted)
    for length in range(whole.rindex(b"0.25") + 1, whole.rindex(b",") + 1):
        sentence = refused(written(tmp_path / "a.csv", whole[:length]), wanted)
        assert sentence.endswith("cut short: its last line has too few fields; write the file again.")


def test_a_binary_file_cut_short_anywhere_is_refused(tmp_path):
    for ending, kind in ((".parquet", "Parquet"), (".arrow", "Arrow")):
        file = stored(tmp_path / f"whole{ending}", score=[0.5] * 50, group=["a"] * 50)
        data = file.read_bytes()
        for length in {*range(1, len(data), max(1, len(data) // 40)), len(data) - 1}:
            sentence = refused(written(tmp_path / f"cut{ending}", data[:length]), {"score": "score"})
            assert f"cannot be read as {kind} (damaged, or of another kind); write the file again." in sentence
        for other in (b"score\n1\n", bytes(range(256)) * 8, b"PAR1" + bytes(100) + b"PAR1", b"ARROW1" + bytes(90)):
            refused(written(tmp_path / f"other{ending}", other), {"score": "score"})


def test_a_binary_file_with_a_changed_byte_is_read_or_refused_but_never_crashes(tmp_path):
    chance = random.Random(0)
    for ending in (".parquet", ".arrow"):
        data = stored(tmp_path / f"whole{ending}", score=[0.5] * 50, group=["a", "b"] * 25).read_bytes()
        for _ in range(60):
            damaged = bytearray(data)
            damaged[chance.randrange(len(data))] ^= chance.randrange(1, 256)
            with contextlib.suppress(InputError):
                read_columns(written(tmp_path / f"bad{ending}", bytes(damaged)), {"score": "score", "group": "group"})


def test_a_panic_of_the_library_is_one_sentence_too(tmp_path, monkeypatch):
    def panics(*args: object, **options: object) -> None:
        raise pl.exceptions.PanicException("index out of bounds: row of Ann Smith")

    monkeypatch.setattr(pl, "scan_parquet", panics)
    sentence = refused(stored(tmp_path / "site.parquet", score=[1.0]), {"score": "score"})
    assert "cannot be read as Parquet" in sentence
    assert "Ann" not in sentence


# ---------------------------------------------------------------- fingerprints, polars


@pytest.mark.parametrize("size", [1, 262_143, 262_144, 1_000_003])
def test_a_fingerprint_is_the_sha_256_of_the_content_alone(size, tmp_path):
    data = np.random.default_rng(size).bytes(size)
    one, other = written(tmp_path / "one.csv", data), written(tmp_path / "other", data)
    assert fingerprint(one) == fingerprint(str(other)) == hashlib.sha256(data).hexdigest()
    written(one, data[:-1] + bytes([data[-1] ^ 1]))
    assert fingerprint(one) != fingerprint(other)


def test_without_polars_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)  # importing it fails
    for path in ("site.csv", "site.parquet"):
        with pytest.raises(InputError, match=r"needs polars; install it with pip install 'logofair\[data\]'\.$"):
            read_columns(written(tmp_path / path, "score\n1\n"), {"score": "score"})
    assert len(fingerprint(tmp_path / "site.csv")) == 64


def test_importing_the_module_does_not_import_polars():
    code = "import sys, logofair.files.tables; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_a_line_longer_than_any_table_has_is_refused_in_one_sentence(tmp_path, monkeypatch):
    """A field of 200 MB was taken for a group, and would have stood on every page."""
    monkeypatch.setattr(tables, "_LONGEST_LINE", 1000)
    path = tmp_path / "a.csv"
    for long, block in ((900, 64), (900, 1 << 20), (2000, 64), (5000, 1 << 20)):
        path.write_text("sex,score\nF,0.5\n" * 100 + '"' + "x" * long + '",0.5\n')
        if long < 1000 or block > long:  # a block's own lines are in memory already
            with tables.open_table(path, {"group": "sex"}, block=block) as table:
                assert table.collect().height == 200
        else:
            said = pytest.raises(InputError, match=r"a\.csv: has a line of more than .* a quote that was left open")
            with said, tables.open_table(path, {"group": "sex"}, block=block):
                pytest.fail("it was opened")


def test_a_line_with_more_fields_than_the_header_is_named_whichever_columns_are_read(tmp_path):
    lines = [f"0.{i % 10},{i % 2},{'ab'[i % 2]}" for i in range(50)]
    for extra in ("0,5,1,a", "0.5,1,a,more", '0.5,1,"a,b",more'):
        path = written(tmp_path / "rows.csv", "\n".join(["s,y,g", *lines, extra, *lines, ""]))
        for wanted in ({"score": "s"}, {"group": "g"}, {"score": "s", "label": "y"}):
            sentence = refused(path, wanted)
            assert "row 51 has 4 fields, but the first line names 3 columns; put fields that hold a ','" in sentence
    path = written(tmp_path / "quoted.csv", "\n".join(["s,y,g", *lines, '0.5,1,"a,\n""b"', *lines, ""]))
    assert len(read_columns(path, {"group": "g"})["group"]) == 101


@modest
@given(
    rows=st.lists(
        st.lists(st.text(st.sampled_from('a,"\n'), max_size=3), min_size=3, max_size=4), min_size=1, max_size=9
    ),
    block=st.integers(1, 12),
)
def test_long_lines_are_found_wherever_blocks_of_the_file_end(tmp_path, rows, block):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["s", "y", "g"], *rows])
    path = written(tmp_path / "rows.csv", text.getvalue())
    sizes = [len(row) for row in rows]
    long = (
        pytest.raises(InputError, match=f"row {sizes.index(4) + 1} has 4 fields")
        if 4 in sizes
        else contextlib.nullcontext()
    )
    with long, tables.open_table(path, {"group": "g"}, block=block):
        pass
