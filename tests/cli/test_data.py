"""The data door: which files are meant, how their columns are read, and one sentence for whatever cannot be used."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from logofair.cli.console import showing_progress
from logofair.errors import InputError
from logofair.files.inputs import ColumnNames, find_files
from logofair.files.rows import DataRows, read_rows
from logofair.files.tables import column_names, open_table
from logofair.files.values import as_chances, check_scores, combine_columns, join_groups
from logofair.files.writing import LIST, check_output, replacing
from support import commandline
from support.examples import examples

modest = examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
PLAIN = ColumnNames(score="p", label="y", group=("sex",))


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(*data: Path | str, columns: ColumnNames = PLAIN) -> DataRows:
    with showing_progress(quiet=True) as progress:
        return read_rows(find_files([str(each) for each in data], site=columns.site), columns, progress)


def refused(*data: Path | str, columns: ColumnNames = PLAIN) -> str:
    with pytest.raises(InputError) as error:
        rows_of(*data, columns=columns)
    sentence = str(error.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


# ---------------------------------------------------------------- which files


def test_a_folder_means_its_tables_in_order_and_each_is_a_site(tmp_path: Path) -> None:
    for name in ("south.csv", "north.parquet", "notes.md", "east.ARROW"):
        written(tmp_path / name, "x")
    (tmp_path / "deeper.csv").mkdir()
    found = find_files([str(tmp_path)])
    assert [path.name for path in found.paths] == ["east.ARROW", "north.parquet", "south.csv"]
    assert found.by_file
    assert not find_files([str(tmp_path)], site="site").by_file


def test_a_pattern_and_several_names_mean_sites_but_one_file_does_not(tmp_path: Path) -> None:
    paths = [written(tmp_path / f"{name}.csv", "x") for name in ("a", "b")]
    assert find_files([str(tmp_path / "*.csv")]).paths == tuple(paths)
    assert find_files([str(tmp_path / "*.csv")]).by_file
    assert find_files([str(path) for path in paths]).by_file
    assert not find_files([str(paths[0])]).by_file
    odd = written(tmp_path / "a[1].csv", "x")
    assert find_files([str(odd)]).paths == (odd,)


def test_files_of_the_same_name_would_be_one_site_and_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", "x")
    written(tmp_path / "a.parquet", "x")
    with pytest.raises(InputError, match=r"a\.parquet: would be the same site as .*a\.csv; rename one of them\.$"):
        find_files([str(tmp_path)])
    assert len(find_files([str(tmp_path)], site="site").paths) == 2


def test_nothing_found_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the folder holds no table; known endings are \.csv"):
        find_files([str(tmp_path)])
    with pytest.raises(InputError, match="no file matches the pattern"):
        find_files([str(tmp_path / "*.csv")])


# ---------------------------------------------------------------- reading in pieces


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n  \n", "\n "])
def test_separator_encoding_and_blank_ends_are_found(separator: str, encoding: str, end: str, tmp_path: Path) -> None:
    rows = [["größe", "Stadt"], ["0.5", "Köln"], ["0.25", " Zürich "], ["", "Bonn"]]
    content = ("\n".join(separator.join(row) for row in rows) + end).encode(encoding)
    file = written(tmp_path / "site.csv", content)
    wanted = {"score": "größe", "group": "Stadt"}
    with open_table(file, wanted, block=5) as table:  # so that blocks end within characters
        assert table.collect().rows() == [("0.5", "Köln"), ("0.25", "Zürich"), (None, "Bonn")]
    assert column_names(file) == ["größe", "Stadt"]


# ---------------------------------------------------------------- columns


def test_a_missing_column_names_the_file_its_columns_and_the_nearest(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", "p,y,sex\n0.5,1,F\n0.25,0,M\n")
    written(tmp_path / "b.csv", "p,y,sexe\n0.5,1,F\n")
    assert refused(tmp_path) == (
        f"{tmp_path / 'b.csv'}: no column 'sex' (did you mean 'sexe'?); its columns are 'p', 'y', 'sexe'."
    )


def test_a_column_not_named_at_all_is_answered_with_the_columns_there_are(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "p,y,sex\n0.5,1,F\n")
    with pytest.raises(
        InputError, match=r"--group: not given; name the column of the groups: .*a\.csv has 'p', 'y', 'sex'\.$"
    ):
        ColumnNames(score="p").require(find_files([str(file)]), score="scores", group="the groups")


@pytest.mark.parametrize(
    ("low", "high", "scale", "sentence"),
    [
        (0.0, 1.0, "chance", None),
        (0.2, 97.5, "chance", "looks like percentages; add --scale percent."),
        (-4.0, 3.0, "chance", "looks like logits; add --scale logit."),
        (300, 850, "chance", "bring them to 0 to 1 first."),
        (-900, 3, "chance", "bring them to 0 to 1 first."),
        (0.0, 100.0, "percent", None),
        (-1.0, 50.0, "percent", "percentages lie between 0 and 100; correct --scale."),
        (-3.0, 2.0, "logit", None),
        (0.1, 0.9, "logit", "which are chances already and no logits; leave --scale out."),
        (0.1, float("inf"), "logit", "every score must be a finite number"),
    ],
)
def test_scores_on_another_scale_are_recognised_and_the_fix_is_named(
    low: float, high: float, scale: str, sentence: str | None
) -> None:
    if sentence is None:
        check_scores(low, high, scale, "a.csv: column 'p'")
        return
    with pytest.raises(InputError) as error:
        check_scores(low, high, scale, "a.csv: column 'p'")
    assert sentence in str(error.value)


def test_percentages_and_logits_become_the_chances_they_mean() -> None:
    chances = np.array([0.01, 0.25, 0.5, 0.99])
    np.testing.assert_allclose(as_chances(pl.Series(100 * chances), "percent").to_numpy(), chances, rtol=1e-15)
    logits = np.log(chances / (1 - chances))
    np.testing.assert_allclose(as_chances(pl.Series(logits), "logit").to_numpy(), chances, rtol=1e-14)
    assert as_chances(pl.Series([-800.0, 800.0]), "logit").to_list() == [0.0, 1.0]


@given(st.lists(st.tuples(st.text(', "ab', max_size=5), st.text(', "ab', max_size=5)), min_size=1, max_size=12))
@modest
def test_different_intersections_never_get_the_same_name(pairs: list[tuple[str, str]]) -> None:
    names = join_groups([pl.Series([a for a, _ in pairs]), pl.Series([b for _, b in pairs])]).to_list()
    assert len(set(names)) == len(set(pairs))


def test_intersections_read_as_people_write_them() -> None:
    columns = [pl.Series(["Female", "Male"]), pl.Series(["Black", "a, b"]), pl.Series([1, 2])]
    assert join_groups(columns).to_list() == ["Female, Black, 1", 'Male, "a, b", 2']


@pytest.mark.parametrize(
    ("parts", "csv_files", "values"),
    [
        ([["1", "2"], ["3"]], [True, True], [1, 2, 3]),
        ([["1", "2"], ["x"]], [True, True], ["1", "2", "x"]),
        ([["1", "007"], [3]], [True, False], ["1", "007", "3"]),
        ([["1"], [3]], [True, False], [1, 3]),
        ([["1"], ["b"]], [True, False], ["1", "b"]),
        ([[1], [2.5]], [False, False], [1.0, 2.5]),
        ([[True], [False]], [False, False], [True, False]),
        ([[None], ["a"]], [False, False], [None, "a"]),
    ],
    ids=repr,
)
def test_labels_of_several_files_agree_on_a_kind(
    parts: list[list[Any]], csv_files: list[bool], values: list[Any]
) -> None:
    got = combine_columns([pl.Series(part) for part in parts], ["one", "two"], csv_files)
    assert got.to_list() == values


def test_stored_numbers_beside_stored_text_are_refused_with_both_files() -> None:
    with pytest.raises(
        InputError, match=r"^two: holds text, but one holds numbers; store the column alike in all files\.$"
    ):
        combine_columns([pl.Series([1]), pl.Series(["a"])], ["one", "two"], [False, False])


def test_labels_are_read_over_all_files_so_that_a_site_may_have_one_label_only(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", "p,y,sex\n0.5,good,F\n0.25,bad,M\n")
    written(tmp_path / "b.csv", "p,y,sex\n0.5,bad,F\n0.25,bad,M\n")
    got = rows_of(tmp_path, columns=ColumnNames(score="p", label="y", group=("sex",), positive="good"))
    assert got.labels is not None
    assert got.labels.tolist() == [1, 0, 0, 0]
    assert "say with --positive which one counts as 1" in refused(tmp_path)


def test_three_labels_and_other_numbers_are_refused(tmp_path: Path) -> None:
    assert "more than two values" in refused(written(tmp_path / "a.csv", "p,y,sex\n0.5,a,F\n0.5,b,F\n0.5,c,M\n"))
    sentence = refused(written(tmp_path / "a.csv", "p,y,sex\n0.5,1,F\n0.5,2,F\n"))
    assert sentence.endswith("column 'y': holds 1 and 2, expected 0 and 1; say with --positive which one counts as 1.")


def test_missing_values_are_counted_or_their_rows_left_out(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "p,y,sex\n0.5,1,F\n,0,M\n0.5,1,\nNaN,1,M\n0.75,0,M\n")
    assert refused(file) == (f"{file}: column 'p': 2 of 5 rows have no value; fill them or add --drop-missing.")
    got = rows_of(file, columns=ColumnNames(score="p", label="y", group=("sex",), drop_missing=True))
    assert got.dropped == 3
    assert got.groups.labels.tolist() == ["F", "M"]
    assert got.source.rows == 2
    nothing = written(tmp_path / "b.csv", "p,y,sex\n,1,F\n")
    assert "nothing is left to work on" in refused(
        nothing, columns=ColumnNames(score="p", label="y", group=("sex",), drop_missing=True)
    )


def test_a_site_for_every_row_is_taken_for_a_mistake(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "id,p,y,sex\n1,0.5,1,F\n2,0.5,0,M\n")
    sentence = refused(file, columns=ColumnNames(score="p", label="y", group=("sex",), site="id"))
    assert sentence == (
        "--site: every site has one row (column 'id' has another value in each row); "
        "name a column of sites, not of ids."
    )


def test_the_source_tells_name_files_columns_and_fingerprint(tmp_path: Path) -> None:
    one = written(tmp_path / "a.csv", "p,y,sex\n0.5,1,F\n0.25,0,M\n")
    assert rows_of(one).source.fingerprint == hashlib.sha256(one.read_bytes()).hexdigest()
    two = written(tmp_path / "b.csv", "p,y,sex\n0.5,0,F\n0.25,1,M\n")
    both = rows_of(tmp_path).source
    assert both.files == ("a.csv", "b.csv")
    assert both.columns == {"score": "p", "label": "y", "group": "sex"}
    assert rows_of(two, one).source.fingerprint == both.fingerprint
    written(two, "p,y,sex\n0.5,0,F\n0.25,1,F\n")
    assert rows_of(tmp_path).source.fingerprint != both.fingerprint


# ---------------------------------------------------------------- writing


def test_an_output_that_exists_or_has_no_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    there = written(tmp_path / "out.csv", "old")
    with pytest.raises(InputError, match=r"exists already; choose another name or add --force\.$"):
        check_output(there, force=False, endings=LIST)
    check_output(there, force=True, endings=LIST)
    with pytest.raises(InputError, match="make the folder first"):
        check_output(tmp_path / "none" / "out.csv", force=True, endings=LIST)
    with pytest.raises(InputError, match="no regular file"):
        check_output(tmp_path, force=True, endings=LIST)


@pytest.mark.parametrize(
    "words",
    [
        ("frontier", "{rows}", "--out", "{rows}"),
        ("frontier", "{folder}", "--out", "{rows}"),
        ("frontier", "{other}", "--test", "{rows}", "--out", "{rows}"),
        ("fit", "{rows}", "--out", "{link}.json"),
        ("fit", "{other}", "--test", "{rows}", "--out", "{link}.json"),
        ("audit", "{rows}", "--report", "{link}.html"),
        ("apply", "{rows}", "{other}", "--out", "{link}.csv"),  # here the policy
    ],
)
def test_force_never_writes_over_what_is_read(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "data").mkdir()
    rows, other = (written(tmp_path / name, "p,y,sex\n0.5,0,F\n0.25,1,M\n") for name in ("data/a.csv", "b.csv"))
    for ending in ("json", "html", "csv"):
        (tmp_path / f"link.{ending}").symlink_to(rows)
    before = rows.read_bytes()
    named = {"rows": rows, "other": other, "folder": tmp_path / "data", "link": tmp_path / "link"}
    columns = ("--score", "p", "--group", "sex", *(() if words[0] == "apply" else ("--label", "y")))
    said = commandline.refused(*(word.format(**named) for word in words), *columns, "--force")
    assert "is one of the files that are read" in said
    assert rows.read_bytes() == before


def test_a_name_too_long_for_the_system_is_refused_in_a_sentence(tmp_path: Path) -> None:
    long = tmp_path / f"{'n' * 300}.csv"
    with pytest.raises(InputError, match="cannot be written"):
        check_output(long, force=False, endings=LIST)
    assert "cannot be read" in commandline.refused("audit", long, "--group", "sex", "--score", "p")


def fail_within(target: Path, failure: type[BaseException]) -> None:
    with replacing(target) as neighbour:
        neighbour.write_text("half")
        raise failure


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = written(tmp_path / "out.csv", "old")
    for failure in (KeyboardInterrupt, ValueError):
        with pytest.raises(failure):
            fail_within(target, failure)
        assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
        assert target.read_text() == "old"
    with replacing(target) as neighbour:
        neighbour.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.csv"]


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match=r"out\.csv: cannot be written \(No space left on device\)"),
        replacing(tmp_path / "out.csv"),
    ):
        raise OSError(28, "No space left on device")
