"""``logofair data``: what there is, what to know about it, and preparing it from official files."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from functools import partial
from pathlib import Path

import pytest

from support import commandline

pytest.importorskip("click")
pytest.importorskip("rich")
pytest.importorskip("polars")


from logofair_reproduction.commands.data import NAMES
from logofair_reproduction.datasets import CATALOGUE

pytestmark = pytest.mark.tool

run = partial(commandline.run, "data")
plain = partial(commandline.json_of, "data")
refused = partial(commandline.refused, "data")

HEADER = "RT,ST,PWGTP,AGEP,COW,MAR,RELP,SCHL,SEX,WKHP,OCCP,PINCP,POBP,RAC1P"
PEOPLE = ("P,06,9,40,1,1,0,21,1,40,10,60000,6,1", "P,48,9,30,1,5,2,16,2,20,4000,9000,48,2", "P,48,9,3,,5,2,2,2,,,,48,2")


@pytest.fixture
def official(tmp_path: Path) -> Path:
    """Person records of the ACS: two that count, and a child."""
    source = tmp_path / "psam_p06.csv"
    source.write_text("\n".join((HEADER, *PEOPLE)) + "\n")
    return source


def words_of(*words: object) -> str:
    code, output, error = run(*words)
    assert code == 0, error
    assert all(len(line) <= 80 or "/" in line for line in output.splitlines())  # a path is never cut
    return " ".join(output.split())


def test_the_help_knows_every_data_set_and_imports_none() -> None:
    assert tuple(CATALOGUE) == NAMES
    code = (
        "import sys\nfrom logofair.cli.group import cli\n"
        "for words in ([], ['list'], ['describe'], ['prepare']):\n"
        "    try:\n        cli(['data', *words, '--help'])\n    except SystemExit:\n        pass\n"
        "print(sorted({'numpy', 'polars', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stdout.count("\n  Examples") == 4


def test_list_tells_which_data_sets_are_prepared(tmp_path: Path, official: Path) -> None:
    before = {line["name"]: line for line in plain("list", "--cache", tmp_path)}
    assert [name for name, line in before.items() if line["ready"]] == ["adult", "generated"]
    assert "CelebA no" in words_of("list", "--cache", tmp_path)
    words_of("prepare", "acs", "--from", official, "--cache", tmp_path)
    after = {line["name"]: line for line in plain("list", "--cache", tmp_path)}
    assert (after["acs"]["ready"], after["acs"]["rows"], after["acs"]["folder"]) == (True, 2, str(tmp_path / "acs"))
    assert {name: line for name, line in after.items() if name != "acs"} == {
        name: line for name, line in before.items() if name != "acs"
    }


def test_prepare_says_what_was_kept_and_dropped_and_where_it_lies(tmp_path: Path, official: Path) -> None:
    output = words_of("prepare", "acs", "--from", official, "--cache", tmp_path / "caches")
    assert "3 rows read 1 dropped: aged 16 or younger" in output
    assert "2 rows kept" in output
    assert f"logofair data describe acs --cache {tmp_path / 'caches'}".replace(" ", "") in output.replace(" ", "")
    assert (tmp_path / "caches" / "acs" / "rows.parquet").is_file()


def test_describe_of_a_prepared_data_set_no_longer_says_how_to_get_it(tmp_path: Path, official: Path) -> None:
    assert "Get it" in words_of("describe", "acs", "--cache", tmp_path)
    words_of("prepare", "acs", "--from", official, "--cache", tmp_path)
    assert plain("describe", "acs", "--cache", tmp_path)["rows"] == 2
    assert "Get it" not in words_of("describe", "acs", "--cache", tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_describe_tells_terms_harms_and_how_to_get_the_files(name: str, tmp_path: Path) -> None:
    entry, output = CATALOGUE[name], words_of("describe", name, "--cache", tmp_path).replace(" ", "")
    for sentence in (entry.title, entry.licence, entry.citation, *entry.known_harms, *entry.where):
        assert sentence.replace(" ", "") in output
    assert (f"--cache{tmp_path}" in output) is entry.needs_files
    found = plain("describe", name, "--cache", tmp_path)
    assert found["ready"] is not entry.needs_files
    assert found["known_harms"] == list(entry.known_harms)


def test_a_prepared_data_set_is_replaced_only_by_force(tmp_path: Path, official: Path) -> None:
    arguments = ("prepare", "acs", "--from", official, "--cache", tmp_path)
    words_of(*arguments)
    assert refused(*arguments) == f"logofair: {tmp_path / 'acs'}: acs is prepared already; add --force to replace it."
    assert "2 rows kept" in words_of(*arguments, "--force")


@pytest.mark.parametrize("damage", ["about", "rows"])
def test_list_and_describe_say_what_is_wrong_with_prepared_data(tmp_path: Path, official: Path, damage: str) -> None:
    words_of("prepare", "acs", "--from", official, "--cache", tmp_path)
    if damage == "about":
        (tmp_path / "acs" / "about.json").write_text("{")
    else:
        (tmp_path / "acs" / "rows.parquet").unlink()
    (line,) = (line for line in plain("list", "--cache", tmp_path) if line["name"] == "acs")
    assert not line["ready"]
    assert line["rows"] is None
    assert line["fault"].endswith(f"logofair data prepare acs --from PATH --cache {tmp_path} --force.")
    assert line["fault"].replace(" ", "") in words_of("list", "--cache", tmp_path).replace(" ", "")
    assert refused("describe", "acs", "--cache", tmp_path) == f"logofair: {line['fault']}"


def test_describe_tells_notes(tmp_path: Path, official: Path) -> None:
    official.write_text("\n".join((HEADER, PEOPLE[0].replace("60000", "1"), PEOPLE[0].replace("60000", "0"))) + "\n")
    words_of("prepare", "acs", "--from", official, "--cache", tmp_path)
    (note, _) = plain("describe", "acs", "--cache", tmp_path)["notes"]
    assert note.startswith("PINCP holds labels")
    assert note in words_of("describe", "acs", "--cache", tmp_path)


def test_what_cannot_be_prepared_is_refused_in_one_sentence(tmp_path: Path, official: Path) -> None:
    to = ("--cache", tmp_path / "caches")
    assert refused("prepare", "acs", "--from", tmp_path / "none", *to) == (
        f"logofair: {tmp_path / 'none'}: not there; check the path."
    )
    assert "holds no ENEM microdata" in refused("prepare", "enem", "--from", official, *to)
    with zipfile.ZipFile(tmp_path / "csv_pca.zip", "w") as archive:
        archive.write(official, "psam_p06.csv")
    cut = (tmp_path / "csv_pca.zip").read_bytes()[:-30]
    (tmp_path / "csv_pca.zip").write_bytes(cut)
    assert "is damaged, or packed by a method" in refused("prepare", "acs", "--from", tmp_path / "csv_pca.zip", *to)
    official.write_text(f"{HEADER}\n{PEOPLE[2]}\n")
    assert "none of its rows is left" in refused("prepare", "acs", "--from", official, *to)
    official.write_text(f"{HEADER}\n{PEOPLE[0]}\n")
    assert "one label only" in refused("prepare", "acs", "--from", official, *to)
    assert "needs no files and is ready" in refused("prepare", "adult", "--from", official, *to)
    assert "--size: of images, for celeba alone; leave it out for acs" in refused(
        "prepare", "acs", "--from", official, *to, "--size", 64
    )
    assert not (tmp_path / "caches").exists() or list((tmp_path / "caches").iterdir()) == []


def test_wrong_words_are_refused_with_the_nearest(tmp_path: Path) -> None:
    assert "did you mean 'describe'?" in refused("discribe", "acs")
    assert "got 'celebs' (did you mean 'celeba'?)" in refused("describe", "celebs")
    assert "missing option '--from'" in refused("prepare", "acs", "--cache", tmp_path)
    assert "got 0; pass a whole number from 1." in refused("prepare", "celeba", "--from", tmp_path, "--limit", 0)
