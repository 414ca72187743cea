"""Rows to fit on and rows to measure on: every row is in one of the two at most, and people in one only."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("polars")

import polars as pl
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from logofair.errors import InputError
from logofair.files.inputs import ColumnNames, find_files
from logofair.files.rows import read_parts
from support.examples import examples

modest = examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
COLUMNS = ColumnNames(score="p", label="y", group=("g",))
TEST = (("part", "test"),)


def table(parts: list[str | None], years: list[int]) -> pl.DataFrame:
    n = len(parts)
    rows = {"p": np.arange(n) / (2 * n), "y": [i % 2 for i in range(n)], "g": [f"g{i % 2}" for i in range(n)]}
    return pl.DataFrame({**rows, "part": parts, "year": years}, schema_overrides={"part": pl.String})


@given(st.data())
@modest
def test_rows_of_data_are_fitted_on_or_measured_on_but_never_both(tmp_path: Path, data: st.DataObject) -> None:
    parts = ["fit", "fit", "test", "test", *data.draw(st.lists(st.sampled_from(["fit", "test", None]), max_size=8))]
    years = [2020] * 4 + data.draw(st.lists(st.sampled_from([2019, 2020]), min_size=8, max_size=8))[: len(parts) - 4]
    rows = table(parts, years)
    rows.write_parquet(tmp_path / "a.parquet")
    files = find_files([str(tmp_path / "a.parquet")])
    for named in ((), (str(tmp_path / "a.parquet"),)):
        fitted, measured = read_parts(files, COLUMNS, named, TEST)
        assert measured.scores.tolist() == rows.filter(part="test")["p"].to_list()
        # a row that does not say which part it is of is no test row
        assert fitted.scores.tolist() == rows.filter(pl.col("part").ne_missing("test"))["p"].to_list()
    recent = ColumnNames(score="p", label="y", group=("g",), where=(("year", "2020"),))
    fitted, measured = read_parts(files, recent, (), TEST)
    assert measured.scores.tolist() == rows.filter(part="test", year=2020)["p"].to_list()
    assert fitted.source.columns["where"] == "year=2020 and not part=test"


def test_a_condition_on_the_same_column_is_replaced_for_the_test_rows(tmp_path: Path) -> None:
    rows = table(["fit", "fit", "test", "test", "train"], [2020] * 5)
    rows.write_csv(tmp_path / "a.csv")
    columns = ColumnNames(score="p", label="y", group=("g",), where=(("part", "fit"),))
    fitted, measured = read_parts(find_files([str(tmp_path / "a.csv")]), columns, (), TEST)
    assert (fitted.source.rows, measured.source.rows) == (2, 2)


def test_without_test_rows_all_are_fitted_on_and_ids_are_those_of_the_fitted(tmp_path: Path) -> None:
    table(["fit", "test"], [2020, 2020]).write_csv(tmp_path / "a.csv")
    files = find_files([str(tmp_path / "a.csv")])
    rows, measured = read_parts(files, COLUMNS, (), ())
    assert (rows.source.rows, measured) == (2, None)
    rows, measured = read_parts(files, ColumnNames(score="p", label="y", group=("g",), id="p"), (), ())
    assert (rows.ids is not None, measured) == (True, None)


@pytest.mark.parametrize(("one", "other"), [([1, 2, 3, 4], ["7", "4", "8", "3"]), (["a", "b", "c", "d"], list("defc"))])
def test_ids_are_the_same_as_they_are_written(tmp_path: Path, one: list[object], other: list[object]) -> None:
    for name, ids in (("fit", one), ("test", other)):
        table(["x"] * 4, [1] * 4).with_columns(who=pl.Series(ids)).write_parquet(tmp_path / f"{name}.parquet")
    files = find_files([str(tmp_path / "fit.parquet")])
    columns = ColumnNames(score="p", label="y", group=("g",), id="who")
    with pytest.raises(InputError, match="--id: 2 ids of the test rows are among the rows to fit on too"):
        read_parts(files, columns, (str(tmp_path / "test.parquet"),), ())


def people(n: int, seed: int, digits: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = {"p": rng.random(n).round(digits), "y": rng.integers(0, 2, n), "g": rng.choice(["a", "b"], n)}
    return pl.DataFrame({**rows, "site": rng.integers(0, 3, n)})


def test_copies_of_fitted_rows_are_no_test(tmp_path: Path) -> None:
    rows, others = people(400, 0, 9), people(400, 1, 9)
    rows.write_csv(tmp_path / "fit.csv")
    columns = ColumnNames(score="p", label="y", group=("g",), site="site")
    files = find_files([str(tmp_path / "fit.csv")], site="site")
    sentence = "--test: 200 of 200 rows are also among the rows to fit on (same score, label, group and site); a test"
    # as text, in another order, and in another kind of file
    copies = rows.tail(200).reverse().with_columns(pl.col("site").cast(pl.String))
    copies.write_parquet(tmp_path / "copies.parquet")
    with pytest.raises(InputError, match=re.escape(sentence)):
        read_parts(files, columns, (str(tmp_path / "copies.parquet"),), ())
    changes = {"p": pl.col("p") * 0.999, "y": 1 - pl.col("y"), "site": (pl.col("site") + 1) % 3}
    changes["g"] = pl.when(g="a").then(pl.lit("b")).otherwise(pl.lit("a"))
    for name, change in changes.items():  # a row is another as soon as one of the four is
        rows.with_columns(change.alias(name)).write_csv(tmp_path / "test.csv")
        assert read_parts(files, columns, (str(tmp_path / "test.csv"),), ())[1].source.rows == 400
    pl.concat([others, rows.head(40)]).write_csv(tmp_path / "test.csv")
    assert read_parts(files, columns, (str(tmp_path / "test.csv"),), ())[1].source.rows == 440


def test_coarse_scores_and_ids_do_not_make_copies(tmp_path: Path) -> None:
    for name, seed in (("fit", 0), ("test", 1)):
        people(400, seed, 1).with_columns(who=pl.Series(range(400)) + 400 * seed).write_csv(tmp_path / f"{name}.csv")
    columns = ColumnNames(score="p", label="y", group=("g",))
    files, test = find_files([str(tmp_path / "fit.csv")]), (str(tmp_path / "test.csv"),)
    assert read_parts(files, columns, test, ())[1].source.rows == 400
    rows = people(400, 0, 9)
    for name, seed in (("fit", 0), ("test", 1)):
        rows.with_columns(who=pl.Series(range(400)) + 400 * seed).write_csv(tmp_path / f"{name}.csv")
    assert read_parts(files, replace(columns, id="who"), test, ())[1].source.rows == 400
