"""``--where``: only the rows asked for count, as if the others were not in the file; and it is put on record."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from logofair.cli.console import showing_progress
from logofair.files.inputs import ColumnNames, find_files
from logofair.files.rows import read_rows
from support.commandline import json_of, refused, run
from support.examples import examples

modest = examples(30, suppress_health_check=[HealthCheck.function_scoped_fixture])
COLUMNS = ("--score", "p", "--label", "y", "--group", "sex", "--site", "site")
WRITERS: dict[str, Callable[[pl.DataFrame, Path], Any]] = {
    "csv": lambda table, path: table.write_csv(path),
    "parquet": lambda table, path: table.write_parquet(path),
    "arrow": lambda table, path: table.write_ipc(path),
}


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    n = 900
    sex, score = rng.choice(["Female", "Male"], n), rng.random(n)
    return pl.DataFrame(
        {
            "p": score,
            "y": (rng.random(n) < score).astype(int),
            "sex": sex,
            "site": rng.choice(["north", "south"], n),
            "part": rng.choice(["calibration", "test"], n),
            "year": rng.choice([2019, 2020], n),
        }
    )


@pytest.fixture(params=list(WRITERS))
def files(request: pytest.FixtureRequest, people: pl.DataFrame, tmp_path: Path) -> tuple[Path, Path]:
    """A file, and one with the test rows of 2020 alone."""
    whole, some = tmp_path / f"whole.{request.param}", tmp_path / f"some.{request.param}"
    WRITERS[request.param](people, whole)
    WRITERS[request.param](people.filter(part="test", year=2020), some)
    return whole, some


def test_an_audit_of_some_rows_is_that_of_a_file_with_these_rows_alone(files: tuple[Path, Path]) -> None:
    found = json_of("audit", files[0], *COLUMNS, "--where", "part=test", "--where", "year=2020")
    alone = json_of("audit", files[1], *COLUMNS)
    assert found["columns"].pop("where") == "part=test and year=2020"
    assert found | {"data": ""} == alone | {"data": ""}


def test_a_fit_and_a_frontier_of_some_rows_are_those_of_a_file_with_these_rows_alone(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    where = ("--where", "part=test", "--where", "year=2020")
    found = json_of("fit", files[0], *COLUMNS, *where, "--out", tmp_path / "found.json")
    alone = json_of("fit", files[1], *COLUMNS, "--out", tmp_path / "alone.json")
    assert found["data"]["columns"].pop("where") == "part=test and year=2020"
    for record in (found, alone):
        for name in ("name", "files", "fingerprint"):
            record["data"].pop(name)
        record.pop("policy")
    assert found == alone
    stored = json.loads((tmp_path / "found.json").read_text())
    assert '"where": "part=test and year=2020"' in json.dumps(stored)
    grid = ("--local", "0.02,none", "--global", "0.02")
    surfaces = [json_of("frontier", *words, *grid) for words in ((files[0], *COLUMNS, *where), (files[1], *COLUMNS))]
    assert surfaces[0]["data"].endswith(" where part=test and year=2020")
    assert surfaces[0] | {"data": ""} == surfaces[1] | {"data": ""}


def test_the_pages_say_which_rows_count(people: pl.DataFrame, tmp_path: Path) -> None:
    people.write_csv(tmp_path / "people.csv")
    rows = f"people.csv where part=test: {people.filter(part='test').height} people at 2 sites"
    assert run("audit", tmp_path / "people.csv", *COLUMNS, "--where", "part=test")[1].startswith(rows)
    words = ("fit", tmp_path / "people.csv", *COLUMNS, "--where", "part=test", "--out", tmp_path / "policy.json")
    assert run(*words)[1].startswith(rows)


def test_the_report_repeats_the_condition_and_its_command_makes_the_same_policy(
    people: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    people.rename({"part": "the part"}).write_csv(tmp_path / "people.csv")
    monkeypatch.chdir(tmp_path)
    words = ["fit", "people.csv", *COLUMNS, "--where", "the part=test", "--seed", "3", "--out", "policy.json"]
    assert run(*words, "--report", "report.html")[0] == 0
    page, first = Path("report.html").read_text(), Path("policy.json").read_bytes()
    command = shlex.join(["logofair", *words, "--report", "report.html"])
    assert "--where 'the part=test'" in command
    assert command in unescape(re.sub("<[^>]+>", "", page))
    assert run(*shlex.split(command)[1:], "--force")[0] == 0
    assert Path("policy.json").read_bytes() == first


@pytest.mark.parametrize(
    ("values", "typed", "kept"),
    [
        ([1, 2, None], "2", [1]),
        ([1.0, 2.0, 2.5], "2", [1]),
        ([1.0, 2.0, 2.5], "2.5", [2]),
        ([True, False, None], "False", [1]),
        (["a", " a", "A"], "a", [0]),
        (["a=b", "a", "b"], "a=b", [0]),
    ],
)
def test_a_value_is_compared_as_it_is_typed(values: list[Any], typed: str, kept: list[int], tmp_path: Path) -> None:
    table = pl.DataFrame({"p": [0.0, 0.1, 0.2], "g": ["x", "y", "x"], "w": values})
    table.write_parquet(tmp_path / "a.parquet")
    with showing_progress(quiet=True) as progress:
        columns = ColumnNames(score="p", group=("g",), where=(("w", typed),))
        rows = read_rows(find_files([str(tmp_path / "a.parquet")]), columns, progress)
    assert rows.scores is not None
    assert rows.scores.tolist() == [table["p"][place] for place in kept]


@given(st.lists(st.sampled_from(["a", "b", "1", "true", "", "ä b"]), min_size=1, max_size=8), st.data())
@modest
def test_rows_are_kept_as_a_filter_of_the_text_says(tmp_path: Path, cells: list[str], data: st.DataObject) -> None:
    wanted = data.draw(st.sampled_from([cell for cell in [*cells, "a"] if cell]))
    table = pl.DataFrame({"p": np.arange(len(cells)) / 10, "g": ["x"] * len(cells), "w": cells})
    table.write_csv(tmp_path / "a.csv")
    expected = table.filter(w=wanted)["p"].to_list()
    with showing_progress(quiet=True) as progress:
        columns = ColumnNames(score="p", group=("g",), where=(("w", wanted),))
        if not expected:
            with pytest.raises(ValueError, match="no row has w="):
                read_rows(find_files([str(tmp_path / "a.csv")]), columns, progress)
            return
        found = read_rows(find_files([str(tmp_path / "a.csv")]), columns, progress)
    assert found.scores is not None
    assert found.scores.tolist() == expected


@pytest.mark.parametrize("command", ["audit", "fit"])
def test_what_cannot_be_kept_is_said_in_one_sentence(people: pl.DataFrame, tmp_path: Path, command: str) -> None:
    people.with_columns(number=pl.int_range(pl.len())).write_csv(tmp_path / "people.csv")
    words = [command, tmp_path / "people.csv", *COLUMNS]
    words += ["--out", tmp_path / "policy.json"] if command == "fit" else []
    assert refused(*words, "--where", "prat=test").endswith(
        "people.csv: no column 'prat' (did you mean 'part'?); its columns are 'p', 'y', 'sex', 'site', 'part', 'year', "
        "'number'."
    )
    assert refused(*words, "--where", "part=tets") == (
        "logofair: --where: no row has part=tets (did you mean 'test'?); part holds 'calibration' and 'test'."
    )
    sentence = refused(*words, "--where", "number=x")
    assert sentence.startswith("logofair: --where: no row has number=x; number holds '0', '1', '10', '100', '101', ")
    assert sentence.endswith(" and more.")
    assert sentence.count("'") == 20
    first = people.row(0, named=True)
    other = "calibration" if first["part"] == "test" else "test"
    assert refused(*words, "--where", "number=0", "--where", f"part={other}") == (
        f"logofair: --where: no row has number=0 and part={other}, though some have each of them; ask for less."
    )
    for wrong in ("part", "=test", "part="):
        assert refused(*words, "--where", wrong).startswith(
            f"logofair {command} --where: got '{wrong}'; pass COLUMN=VALUE, such as part=test."
        )
    assert not (tmp_path / "policy.json").exists()


@pytest.mark.parametrize("command", ["audit", "fit"])
def test_a_wrong_cell_is_named_by_its_row_in_the_file_and_does_not_matter_elsewhere(
    tmp_path: Path, command: str
) -> None:
    lines = ["p,y,sex,site,part"]
    lines += [f"0.{i % 10}5,{i % 2},{'FM'[i // 2 % 2]},{'ns'[i % 2]},{'ab'[i // 4 % 2]}" for i in range(60)]
    lines[7] = lines[7].replace("0.65", "0;65")  # row 7, of part b
    (tmp_path / "a.csv").write_text("\n".join(lines))
    words = [command, tmp_path / "a.csv", *COLUMNS]
    words += ["--out", tmp_path / "policy.json"] if command == "fit" else []
    assert "column 'p': row 7 is '0;65', expected numbers" in refused(*words, "--where", "part=b")
    assert run(*words, "--where", "part=a")[0] == 0


def test_a_site_without_such_rows_is_left_out_unless_all_are(people: pl.DataFrame, tmp_path: Path) -> None:
    people.write_csv(tmp_path / "north.csv")
    people.write_parquet(tmp_path / "south.parquet")
    people.filter(part="calibration").write_parquet(tmp_path / "west.parquet")
    words = (tmp_path, "--score", "p", "--label", "y", "--group", "sex")
    found = json_of("audit", *words, "--where", "part=test")
    assert [site["site"] for site in found["sites"]] == ["north", "south"]
    assert found["rows"] == 2 * people.filter(part="test").height
    policy = json_of("fit", *words, "--where", "part=test", "--out", tmp_path / "policy.json")
    assert policy["sites"] == ["north", "south"]
    assert "part holds 'calibration' and 'test'" in refused("audit", *words, "--where", "part=train")


def test_rows_that_lack_the_value_are_no_missing_values(people: pl.DataFrame, tmp_path: Path) -> None:
    holes = people.with_columns(
        part=pl.when(pl.int_range(pl.len()) < 5).then(None).otherwise("part"),
        sex=pl.when(pl.col("part") == "calibration").then(None).otherwise("sex"),
    )
    holes.write_csv(tmp_path / "a.csv")
    rows = holes.filter(part="test").height
    assert json_of("audit", tmp_path / "a.csv", *COLUMNS, "--where", "part=test")["rows"] == rows
    assert "have no value; fill them or add --drop-missing" in refused(
        "audit", tmp_path / "a.csv", *COLUMNS, "--where", "year=2020"
    )
