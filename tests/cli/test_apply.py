"""``logofair apply``: the policy's own decisions, whatever the size of the pieces, written whole or not at all."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

import logofair
from logofair.cli.console import showing_progress
from logofair.files import writing
from logofair.files.inputs import ColumnNames, find_files
from logofair.files.values import label_text
from logofair.policy import deciding as apply_write
from logofair.policy.deciding import Decider
from logofair.policy.info import ColumnsInfo, PolicyInfo
from support import commandline

run = partial(commandline.run, "apply")
applied = partial(commandline.json_of, "apply")
refused = partial(commandline.refused, "apply")
NAMED = ("--score", "p", "--group", "sex", "--site", "site")
SEEDED = (*NAMED, "--seed", "0")


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    n = 2000
    sex, site = rng.choice(["F", "M"], n), rng.choice(["north", "south"], n)
    score = rng.beta(1 + (sex == "M"), 2, n).round(2)  # ties, so that coins are needed
    return pl.DataFrame({"person": np.arange(n) + 10_000, "p": score, "sex": sex, "site": site})


@pytest.fixture(scope="module")
def policy(people: pl.DataFrame) -> logofair.Policy:
    made = logofair.fit(
        people["p"].to_numpy(),
        None,
        sensitive_features=people["sex"].to_list(),
        sites=people["site"].to_list(),
        calibration="none",
        local_tolerance=0.01,
        random_state=7,
    ).policy
    assert made.mixtures.mixed.any()
    return made


@pytest.fixture
def folder(people: pl.DataFrame, policy: logofair.Policy, tmp_path: Path) -> Path:
    policy.save(tmp_path / "policy.json")
    people.write_csv(tmp_path / "new.csv")
    people.write_parquet(tmp_path / "new.parquet", row_group_size=300)
    return tmp_path


def decided(policy: logofair.Policy, people: pl.DataFrame, **options: Any) -> npt.NDArray[np.int64]:
    return policy.decide(
        people["p"].to_numpy(), sensitive_features=people["sex"].to_list(), sites=people["site"].to_list(), **options
    )


READ = {".csv": pl.read_csv, ".tsv": lambda path: pl.read_csv(path, separator="\t"), ".parquet": pl.read_parquet}
READ |= {".arrow": pl.read_ipc}


@pytest.mark.parametrize("new", ["new.csv", "new.parquet"])
@pytest.mark.parametrize("out", READ)
def test_with_ids_every_decision_is_that_of_the_library(
    folder: Path, people: pl.DataFrame, policy: logofair.Policy, new: str, out: str
) -> None:
    target = folder / f"out{out}"
    found = applied(folder / "policy.json", folder / new, *NAMED, "--id", "person", "--keep", "sex", "--out", target)
    table = READ[out](target)
    want = decided(policy, people, ids=people["person"].to_numpy())
    assert table.columns == ["person", "decision", "sex"]
    assert table["decision"].to_list() == want.tolist()
    assert table["sex"].to_list() == people["sex"].to_list()
    assert table["person"].cast(pl.Int64).to_list() == people["person"].to_list()
    assert (found["rows"], found["accepted"]) == (2000, int(want.sum()))
    assert {g["group"]: g["rows"] for g in found["groups"]} == dict(people["sex"].value_counts().rows())


@pytest.mark.parametrize("batch", [1, 7, 333, 5000])
@pytest.mark.parametrize("new", ["new.csv", "new.parquet"])
def test_without_ids_coins_hang_on_the_row_alone_and_not_on_the_pieces(
    folder: Path, people: pl.DataFrame, policy: logofair.Policy, batch: int, new: str
) -> None:
    some = people.head(200) if batch == 1 else people
    some.write_csv(folder / "new.csv")
    some.write_parquet(folder / "new.parquet", row_group_size=50)
    columns = ColumnNames(score="p", group=("sex",), site="site")
    decider = Decider(policy, columns, key=5)
    with showing_progress(quiet=True) as progress:
        totals = apply_write.decide_files(
            decider, find_files([str(folder / new)], site="site"), folder / "out.parquet", progress, batch=batch
        )
    table = pl.read_parquet(folder / "out.parquet")
    assert table["row"].to_list() == list(range(1, some.height + 1))
    assert table["decision"].to_list() == decided(policy, some, random_state=5).tolist()
    assert totals.rows == some.height


@pytest.mark.parametrize("how", [{"ids": True}, {"random_state": 5}], ids=["ids", "seed"])
@pytest.mark.parametrize("batch", [37, 5000])
def test_exact_counts_are_those_of_all_files_together_whatever_the_pieces(
    folder: Path, people: pl.DataFrame, policy: logofair.Policy, batch: int, how: dict[str, Any]
) -> None:
    some = people.head(900)
    some.head(500).write_csv(folder / "first.csv")
    some.tail(400).write_csv(folder / "second.csv")
    by_id = "ids" in how
    columns = ColumnNames(score="p", group=("sex",), site="site", id="person" if by_id else None)
    decider = Decider(policy, columns, key=None if by_id else 5, exact_counts=True)
    files = find_files([str(folder / "first.csv"), str(folder / "second.csv")], site="site")
    with showing_progress(quiet=True) as progress:
        totals = apply_write.decide_files(decider, files, folder / "out.parquet", progress, batch=batch)
    options = {"ids": some["person"].to_numpy()} if by_id else how
    found = pl.read_parquet(folder / "out.parquet")["decision"].to_numpy()
    assert found.tolist() == decided(policy, some, exact_counts=True, **options).tolist()
    chance = policy.probabilities(
        some["p"].to_numpy(), sensitive_features=some["sex"].to_list(), sites=some["site"].to_list()
    )
    assert totals.summed_chances == pytest.approx(chance.sum())
    assert abs(totals.accepted - chance.sum()) < 1
    for _, cell in some.with_row_index().group_by("site", "sex"):
        rows = cell["index"].to_numpy()
        assert abs(found[rows].sum() - chance[rows].sum()) < 1


def test_a_file_that_changes_between_the_two_readings_is_refused(
    folder: Path, people: pl.DataFrame, policy: logofair.Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = apply_write.exact_counts

    def changing(*read: Any) -> Any:
        people.tail(1500).write_csv(folder / "new.csv")
        return counted(*read)

    monkeypatch.setattr(apply_write, "exact_counts", changing)
    words = (folder / "policy.json", folder / "new.csv", *SEEDED, "--exact-counts", "--out", folder / "out.csv")
    assert "was changed while it was read" in refused(*words)
    assert not (folder / "out.csv").exists()


def test_exact_counts_say_what_they_cost_and_are_not_for_rules_without_coins(folder: Path) -> None:
    words = (folder / "policy.json", folder / "new.csv", *SEEDED, "--out", folder / "out.csv", "--exact-counts")
    code, page, _ = run(*words)
    said = " ".join(page.split())
    assert code == 0
    for part in ("where chances sum to", "depends on who else is in these files", "a limit on how many"):
        assert part in said
    both = refused(*words, "--force", "--deterministic")
    assert "--exact-counts: given together with --deterministic" in both
    plain = applied(folder / "policy.json", folder / "new.csv", *SEEDED, "--out", folder / "other.csv")
    assert (plain["exact_counts"], plain["summed_chances"]) == (False, None)


def test_the_seed_changes_coins_without_ids_and_deterministic_needs_none(
    folder: Path, people: pl.DataFrame, policy: logofair.Policy
) -> None:
    found = []
    for seed in ("0", "1"):
        out = folder / f"{seed}.parquet"
        assert applied(folder / "policy.json", folder / "new.csv", *NAMED, "--seed", seed, "--out", out)[
            "coins_by_position"
        ]
        found.append(pl.read_parquet(out)["decision"].to_list())
    assert found[0] != found[1]
    out = folder / "one.parquet"
    assert not applied(folder / "policy.json", folder / "new.csv", *NAMED, "--deterministic", "--out", out)[
        "coins_by_position"
    ]
    assert pl.read_parquet(out)["decision"].to_list() == decided(policy, people, deterministic=True).tolist()


def test_a_folder_with_a_file_per_site_needs_no_site_column(
    folder: Path, people: pl.DataFrame, policy: logofair.Policy
) -> None:
    (folder / "sites").mkdir()
    for site in ("north", "south"):
        people.filter(pl.col("site") == site).drop("site").write_csv(folder / "sites" / f"{site}.csv")
    words = ("--score", "p", "--group", "sex", "--id", "person")
    applied(folder / "policy.json", folder / "sites", *words, "--out", folder / "out.csv")
    table = pl.read_csv(folder / "out.csv").sort("person")
    assert table.columns == ["file", "person", "decision"]
    want = decided(policy, people, ids=people["person"].to_numpy())
    assert table["decision"].to_list() == want.tolist()
    assert set(table["file"]) == {"north.csv", "south.csv"}
    alone = ("--out", folder / "alone.csv")
    applied(folder / "policy.json", folder / "sites" / "north.csv", *words, *alone)
    people.head(3).drop("site").write_csv(folder / "west.csv")
    assert "the policy does not know 'west' (it knows 'north', 'south')" in refused(
        folder / "policy.json", folder / "west.csv", *words, "--out", folder / "west.parquet"
    )


def test_columns_and_scale_come_from_the_policy_unless_named(
    folder: Path, people: pl.DataFrame, policy: logofair.Policy
) -> None:
    columns = ColumnsInfo("percent", ("sex",), "site", "percent")
    replace(policy, info=PolicyInfo(columns=columns)).save(folder / "told.json")
    people.with_columns(percent=(100 * pl.col("p")).round(0)).write_csv(folder / "percent.csv")
    applied(folder / "told.json", folder / "percent.csv", "--id", "person", "--out", folder / "a.csv")
    want = decided(policy, people, ids=people["person"].to_numpy())
    assert pl.read_csv(folder / "a.csv")["decision"].to_list() == want.tolist()
    named = ("--score", "p", "--scale", "chance", "--id", "person")
    applied(folder / "told.json", folder / "percent.csv", *named, "--out", folder / "b.csv")
    assert (folder / "a.csv").read_text() == (folder / "b.csv").read_text()
    sentence = refused(folder / "policy.json", folder / "new.csv", "--out", folder / "c.csv")
    assert "--score: not given" in sentence


def test_the_coin_of_an_id_in_a_csv_does_not_hang_on_its_neighbours(
    folder: Path, people: pl.DataFrame, policy: logofair.Policy
) -> None:
    numbers = people.head(300)
    texts = people.slice(300, 300).with_columns(pl.format("x{}", "person").alias("person"))
    mixed = pl.concat([numbers.cast({"person": pl.String}), texts]).sample(600, shuffle=True, seed=0)
    mixed.write_csv(folder / "mixed.csv")
    applied(folder / "policy.json", folder / "mixed.csv", *NAMED, "--id", "person", "--out", folder / "out.parquet")
    found = dict(pl.read_parquet(folder / "out.parquet").select("person", "decision").rows())
    for part, ids in ((numbers, numbers["person"].to_numpy()), (texts, texts["person"].to_list())):
        want = decided(policy, part, ids=ids)
        assert [found[str(name)] for name in part["person"].to_list()] == want.tolist()


def test_unknown_sites_and_groups_are_refused_or_decided_as_the_library_does(
    folder: Path, people: pl.DataFrame, policy: logofair.Policy
) -> None:
    strange = people.with_columns(site=pl.when(pl.col("person") % 3 == 0).then(pl.lit("west")).otherwise("site"))
    strange.write_parquet(folder / "strange.parquet")
    words = (folder / "policy.json", folder / "strange.parquet", *NAMED, "--id", "person")
    first = strange["site"].to_list().index("west")
    assert f"column 'site': row {first + 1} is 'west', a site the policy does not know" in refused(
        *words, "--out", folder / "out.parquet"
    )
    assert not (folder / "out.parquet").exists()
    for choice in ("merged", "base"):
        found = applied(*words, "--on-unknown", choice, "--out", folder / f"{choice}.parquet")
        want = decided(policy, strange, ids=strange["person"].to_numpy(), on_unknown=choice)
        assert pl.read_parquet(folder / f"{choice}.parquet")["decision"].to_list() == want.tolist()
        assert found["unknown_rows"] == (strange["site"] == "west").sum()
    other = people.with_columns(sex=pl.lit("X"))
    other.write_csv(folder / "other.csv")
    words = (folder / "policy.json", folder / "other.csv", *SEEDED)
    assert "row 1 is 'X', a group the policy does not know" in refused(
        *words, "--on-unknown", "merged", "--out", folder / "x.csv"
    )
    found = applied(*words, "--on-unknown", "base", "--out", folder / "x.csv")
    assert found["accepted"] == (people["p"] >= 0.5).sum()


@pytest.mark.parametrize(
    ("label", "text"),
    [("a", "a"), (1, "1"), (1.0, "1"), (1.5, "1.5"), (True, "true"), (("a", "b, c"), 'a, "b, c"'), (-3, "-3")],
)
def test_labels_are_found_by_how_a_file_spells_them(label: Any, text: str) -> None:
    assert label_text(label) == text


@pytest.mark.parametrize("kind", [pl.Int16, pl.Float64, pl.String])
def test_numbered_groups_are_found_whatever_kind_the_file_stores(kind: Any, tmp_path: Path) -> None:
    policy = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=[1, 1, 2, 2], calibration="none").policy
    policy.save(tmp_path / "policy.json")
    table = pl.DataFrame({"p": [0.95, 0.1, 0.3], "g": [1, 2, 2]}).with_columns(pl.col("g").cast(kind))
    for name, write in (("a.parquet", table.write_parquet), ("a.csv", table.write_csv)):
        if (kind, name) == (pl.Float64, "a.csv"):
            continue  # "1.0" is text in a CSV file, and another label
        write(tmp_path / name)
        out = tmp_path / f"{name}.out.csv"
        words = (tmp_path / "policy.json", tmp_path / name, "--score", "p", "--group", "g", "--seed", "0")
        applied(*words, "--out", out)
        want = policy.decide([0.95, 0.1, 0.3], sensitive_features=[1, 2, 2], random_state=0)
        assert pl.read_csv(out)["decision"].to_list() == want.tolist()


def test_intersections_are_joined_as_in_the_fit(tmp_path: Path) -> None:
    groups = ["F, A", "F, B", "M, A", "M, B"]
    policy = logofair.fit([0.9, 0.6, 0.4, 0.2], None, sensitive_features=groups, calibration="none").policy
    policy.save(tmp_path / "policy.json")
    pl.DataFrame({"p": [0.9, 0.2], "sex": ["F", "M"], "race": ["B", "A"]}).write_csv(tmp_path / "a.csv")
    words = (tmp_path / "policy.json", tmp_path / "a.csv", "--score", "p", "--group", "sex", "--group", "race")
    applied(*words, "--seed", "0", "--out", tmp_path / "out.csv")
    want = policy.decide([0.9, 0.2], sensitive_features=["F, B", "M, A"], random_state=0)
    assert pl.read_csv(tmp_path / "out.csv")["decision"].to_list() == want.tolist()


@pytest.mark.parametrize(
    ("row", "words", "sentence"),
    [
        ("1,,F,north", [], "column 'p': 1 of 5 rows has no value; fill it or add"),
        ("1,high,F,north", [], "column 'p': row 4 is 'high', expected numbers; drop or repair such rows."),
        ("1,high,F,north", ["--drop-missing"], "row 4 is 'high', expected numbers"),
        ("1,5%,F,north", [], "column 'p': row 4 is '5%', expected numbers; add --scale percent."),
        ("1,55,F,north", [], "which looks like percentages; add --scale percent."),
        ("1,0.5,,north", [], "column 'sex': 1 of 5 rows has no value; fill it or add"),
        (
            "1,0.5,NA,north",
            [],
            "1 of 5 rows has no value ('NA' counts as missing; if it is a value, add --na none)",
        ),
        ("1,0.5,NA,north", ["--na", "none"], "column 'sex': row 4 is 'NA', a group the policy does not know"),
        (
            "1,0.5,F,",
            ["--on-unknown", "base"],
            "column 'site': 1 of 5 rows has no value; fill it or add",
        ),
        (
            ",0.5,F,north",
            ["--id", "person"],
            "column 'person': 1 of 5 rows has no value; fill it or add",
        ),
        ("1,0.5,F,north", ["--id", "persn"], "no column 'persn' (did you mean 'person'?)"),
        ("1,0.5,F,north", ["--keep", "age"], "no column 'age'"),
    ],
    ids=range(12),
)
def test_rows_that_cannot_be_decided_are_named_and_nothing_is_written(
    folder: Path, row: str, words: list[str], sentence: str
) -> None:
    good = "person,p,sex,site\n" + "1,0.5,F,north\n" * 3
    (folder / "bad.csv").write_text(f"{good}{row}\n1,0.5,M,north\n")
    before = sorted(folder.iterdir())
    assert sentence in refused(folder / "policy.json", folder / "bad.csv", *SEEDED, *words, "--out", folder / "out.csv")
    assert sorted(folder.iterdir()) == before


LACKING = pl.DataFrame(
    {
        "person": [1, 2, 3, None, 5, 6, 1],
        "p": [0.9, 0.6, None, 0.9, 0.4, 0.7, 0.9],
        "sex": ["F", None, "F", "M", "NA", "M", "F"],
        "site": ["north", "north", "north", "south", "south", None, "north"],
    }
)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("batch", [1, 3, 100])
def test_rows_without_a_value_are_left_out_and_counted(
    folder: Path, policy: logofair.Policy, ending: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_write.decide_files, "__kwdefaults__", {"batch": batch})
    new = folder / f"lacking{ending}"
    (LACKING.write_csv if ending == ".csv" else LACKING.write_parquet)(new)
    words = (folder / "policy.json", new, *NAMED, "--keep", "sex", "--drop-missing")
    found = applied(*words, "--id", "person", "--out", folder / "out.parquet")
    table = pl.read_parquet(folder / "out.parquet")
    complete = LACKING[[0, 6]]
    assert table["person"].cast(pl.Int64).to_list() == [1, 1]
    assert table["decision"].to_list() == decided(policy, complete, ids=complete["person"].to_numpy()).tolist()
    assert (found["rows"], found["rows_left_out"], found["repeated_ids"]) == (2, 5, 1)
    applied(*words, "--seed", "3", "--out", folder / "rows.parquet")
    assert pl.read_parquet(folder / "rows.parquet")["row"].to_list() == [1, 4, 7]  # as they are numbered in the file
    code, output, _ = run(*words, "--id", "person", "--out", folder / "page.parquet")
    page = " ".join(output.split())
    assert code == 0
    assert "2 people (5 rows left out for lack of a value), " in page
    assert "1 row with an id that was met before: one coin per person, site and group." in page


def test_where_every_row_lacks_a_value_nothing_is_written(folder: Path) -> None:
    LACKING[[1, 2]].write_csv(folder / "lacking.csv")
    words = (folder / "policy.json", folder / "lacking.csv", *NAMED, "--seed", "3", "--drop-missing")
    assert "every row lacks a value in some column named; nothing is left to decide on." in refused(
        *words, "--out", folder / "out.csv"
    )
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize("kind", [pl.Int64, pl.String, pl.Categorical])
def test_an_id_is_met_again_in_another_file(folder: Path, people: pl.DataFrame, kind: Any) -> None:
    (folder / "sites").mkdir()
    some = people.with_columns(pl.col("person").cast(pl.String).cast(kind))
    some.head(5).write_parquet(folder / "sites" / "a.parquet")
    some[[6, 4, 3, 7]].write_parquet(folder / "sites" / "b.parquet")
    words = (folder / "policy.json", folder / "sites" / "a.parquet", *NAMED, "--id", "person")
    assert applied(*words, "--out", folder / "a.csv")["repeated_ids"] == 0
    words = (folder / "policy.json", folder / "sites", *NAMED, "--id", "person")
    assert applied(*words, "--out", folder / "b.csv")["repeated_ids"] == 2


def test_every_batch_is_a_step_of_the_progress_shown(folder: Path, policy: logofair.Policy) -> None:
    shown = []

    def progress(steps: Any, what: str, total: int) -> Any:
        shown.append((what, total))
        for step in steps:
            shown.append(step.height)
            yield step

    decider = Decider(policy, ColumnNames(score="p", group=("sex",), site="site"), key=5)
    files = find_files([str(folder / "new.parquet")], site="site")
    apply_write.decide_files(decider, files, folder / "out.parquet", progress, batch=500)
    assert shown[0] == ("Deciding", 4)
    assert sum(shown[1:]) == 2000


def test_in_a_terminal_something_is_shown_before_the_first_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with showing_progress() as progress:
        pass
    assert "Starting" in capsys.readouterr().err
    with showing_progress() as progress:
        assert list(progress([1, 2], "Counting", 2)) == [1, 2]
    assert "Counting" in capsys.readouterr().err


def test_groups_are_listed_in_the_order_of_the_policy(folder: Path, people: pl.DataFrame) -> None:
    few, many = people.filter(pl.col("sex") == "F").head(3), people.filter(pl.col("sex") == "M")
    pl.concat([many, few]).write_csv(folder / "order.csv")
    found = applied(folder / "policy.json", folder / "order.csv", *NAMED, "--id", "person", "--out", folder / "o.csv")
    assert [entry["group"] for entry in found["groups"]] == ["F", "M"]


def test_what_counts_as_missing_is_as_in_the_fit_unless_named(
    folder: Path, people: pl.DataFrame, policy: logofair.Policy
) -> None:
    named = replace(policy, groups=("M", "NA"), info=PolicyInfo(columns=ColumnsInfo("p", ("sex",), "site", na=())))
    named.save(folder / "namibia.json")
    people.with_columns(pl.col("sex").replace("F", "NA")).write_csv(folder / "namibia.csv")
    words = (folder / "namibia.json", folder / "namibia.csv", "--id", "person")
    found = applied(*words, "--out", folder / "out.csv")
    assert [entry["group"] for entry in found["groups"]] == ["M", "NA"]
    assert "'NA' counts as missing" in refused(*words, "--na", "NA", "--out", folder / "b.csv")


def test_outputs_are_checked_before_any_work(folder: Path) -> None:
    words = (folder / "policy.json", folder / "new.csv", *SEEDED, "--out")
    assert "is written as Parquet or CSV or Arrow; give it a name that ends in .parquet or .csv or .arrow." in refused(
        *words, folder / "out.xlsx"
    )
    (folder / "out.csv").write_text("old")
    assert "exists already" in refused(*words, folder / "out.csv")
    assert "make the folder first" in refused(*words, folder / "none" / "out.csv")
    assert "is one of the files that are read" in refused(*words, folder / "new.csv", "--force")
    applied(*words, folder / "out.csv", "--force")
    assert (folder / "out.csv").read_text().startswith("row,decision\n1,")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_interrupt_leaves_the_old_output_and_nothing_else(
    folder: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    usual = Decider.decide

    def interrupted(self: Decider, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return usual(self, *arguments)

    monkeypatch.setattr(Decider, "decide", interrupted)
    monkeypatch.setattr(apply_write.decide_files, "__kwdefaults__", {"batch": 100})
    (folder / f"out.{ending}").write_text("old")
    before = sorted(folder.iterdir())
    words = (folder / "policy.json", folder / "new.parquet", *SEEDED, "--out", folder / f"out.{ending}", "--force")
    code, output, error = run(*words)
    assert (code, output) == (130, "")
    assert "interrupted" in error
    assert len(calls) == 3
    assert sorted(folder.iterdir()) == before
    assert (folder / f"out.{ending}").read_text() == "old"


def test_a_disk_that_fails_while_writing_is_one_sentence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(table: pl.LazyFrame, path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "sink", full)
    monkeypatch.setattr(apply_write.decide_files, "__kwdefaults__", {"batch": 100})
    before = sorted(folder.iterdir())
    sentence = refused(folder / "policy.json", folder / "new.parquet", *SEEDED, "--out", folder / "out.parquet")
    assert "out.parquet: cannot be written" in sentence
    assert "No space left" in sentence
    assert sorted(folder.iterdir()) == before


def test_files_whose_kept_columns_differ_in_kind_are_refused_by_name(folder: Path, people: pl.DataFrame) -> None:
    (folder / "sites").mkdir()
    people.with_columns(extra=1).write_parquet(folder / "sites" / "north.parquet")
    people.with_columns(extra=pl.lit("x")).write_parquet(folder / "sites" / "south.parquet")
    words = (folder / "policy.json", folder / "sites", *SEEDED, "--keep", "extra", "--out", folder / "out.parquet")
    assert "south.parquet: its columns have other types than those of" in refused(*words)
    assert not (folder / "out.parquet").exists()


def test_coins_need_ids_or_a_seed(folder: Path) -> None:
    words = (folder / "policy.json", folder / "new.csv", *NAMED, "--out", folder / "out.csv")
    before = sorted(folder.iterdir())
    assert "--id: missing, but the policy tosses coins; name the column of ids" in refused(*words)
    assert sorted(folder.iterdir()) == before
    for enough in (["--id", "person"], ["--seed", "0"], ["--deterministic"]):
        applied(*words, *enough, "--force")


def test_a_policy_without_coins_needs_neither(tmp_path: Path) -> None:
    free = {"local_tolerance": None, "global_tolerance": None, "calibration": "none"}
    logofair.fit([0.9, 0.2], None, sensitive_features=["F", "M"], **free).policy.save(tmp_path / "policy.json")
    (tmp_path / "new.csv").write_text("p,sex\n0.4,F\n0.6,M\n")
    words = (tmp_path / "policy.json", tmp_path / "new.csv", "--score", "p", "--group", "sex")
    assert not applied(*words, "--out", tmp_path / "out.csv")["coins_by_position"]
    assert pl.read_csv(tmp_path / "out.csv")["decision"].to_list() == [0, 1]
