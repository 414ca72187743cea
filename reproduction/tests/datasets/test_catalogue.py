"""The catalogue of data sets, where prepared ones lie, and how folders of them come about."""

from __future__ import annotations

import hashlib
import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

from logofair.datasets import load_adult
from logofair.errors import InputError
from logofair.files.documents import Document
from logofair_reproduction.datasets import CATALOGUE, load
from logofair_reproduction.datasets.preparing import (
    cache_folder,
    check_about,
    is_prepared,
    new_folder,
    write_about,
)

WHAT = "prepared data set"


def test_the_catalogue_holds_the_five_data_sets_under_their_own_names() -> None:
    assert list(CATALOGUE) == ["adult", "enem", "celeba", "acs", "generated"]
    assert all(entry.name == name for name, entry in CATALOGUE.items())


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_entry_says_what_a_reader_must_know(name: str) -> None:
    entry = CATALOGUE[name]
    assert entry.model in ("logistic", "mlp", "resnet18")
    assert entry.licence
    assert entry.known_harms
    assert all(harm.endswith(".") for harm in entry.known_harms)
    assert "\n" not in entry.summary
    assert entry.needs_files == bool(entry.where) == (entry.prepare is not None)
    assert entry.citation or name == "generated"
    if entry.needs_files:
        assert f"logofair data prepare {name} --from" in entry.where[-1]


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_first_sensitive_name_is_the_default_of_the_loader(name: str) -> None:
    entry = CATALOGUE[name]
    default = inspect.signature(entry.load).parameters["sensitive"].default
    assert default == (entry.sensitive[0] if entry.sensitive else "Pale_Skin")


def test_an_embedded_data_set_is_loaded_by_name_as_by_its_own_loader() -> None:
    by_name, own = load("adult", sensitive="race"), load_adult("race")
    assert by_name.features.tolist() == own.features.tolist()
    assert by_name.sensitive.tolist() == own.sensitive.tolist()
    assert CATALOGUE["adult"].licence == own.licence


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"^name: got 'adul' \(did you mean 'adult'\?\); use one of adult, enem, "):
        load("adul")


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.needs_files])
def test_what_is_not_prepared_says_how_to_prepare_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(name, cache=tmp_path)
    command = f"logofair data prepare {name} --from PATH --cache {tmp_path}"
    want = f"{name}: nothing prepared in {tmp_path / name}; run: {command}."
    assert str(caught.value) == want


def test_prepared_data_lie_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LOGOFAIR_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder("acs") == tmp_path / ".cache" / "logofair" / "acs"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder("acs") == tmp_path / ".cache" / "logofair" / "acs"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder("acs") == tmp_path / "xdg" / "logofair" / "acs"
    monkeypatch.setenv("LOGOFAIR_CACHE", "~/mine")
    assert cache_folder("acs") == tmp_path / "mine" / "acs"
    assert cache_folder("acs", tmp_path / "base") == tmp_path / "base" / "acs"
    assert not (tmp_path / "base").exists()


def filled(into: Path, number: int) -> None:
    with new_folder(into) as folder:
        write_about(folder, "toy", {"number": number})


def test_a_prepared_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    into = tmp_path / "caches" / "toy"
    filled(into, 1)
    with pytest.raises(ZeroDivisionError), new_folder(into) as folder:
        (folder / "rows").write_text(str(1 / 0))
    assert check_about(into, "toy") == {"number": 1}
    filled(into, 2)
    assert check_about(into, "toy") == {"number": 2}
    assert [path.name for path in into.parent.iterdir()] == ["toy"]


def test_an_empty_folder_is_filled_and_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    filled(tmp_path / "toy", 1)
    assert is_prepared(tmp_path / "toy")
    (tmp_path / "file").write_text("1")
    with pytest.raises(InputError, match=r"file: cannot be written"):
        filled(tmp_path / "file", 1)
    with pytest.raises(InputError, match=r"cannot be written"):
        filled(tmp_path / "file" / "below", 1)


def test_a_folder_of_another_data_set_or_version_is_refused(tmp_path: Path) -> None:
    filled(tmp_path / "toy", 1)
    with pytest.raises(InputError, match="not a prepared data set file"):
        check_about(tmp_path / "toy", "enem")
    older = Document(dict, "logofair data: toy", 1, WHAT)
    older.write(tmp_path / "toy" / "about.json", {"number": 1, "files": {}})
    with pytest.raises(InputError, match=r"older version \(file 1, known 3\); prepare it again: .* --force\.$"):
        check_about(tmp_path / "toy", "toy")


def test_files_of_another_size_than_prepared_are_refused(tmp_path: Path) -> None:
    with new_folder(tmp_path / "0" / "toy") as made:
        (made / "rows.parquet").write_bytes(b"1")
        write_about(made, "toy", {})
    folder = tmp_path / "0" / "toy"
    assert check_about(folder, "toy") == {}
    stored = json.loads((folder / "about.json").read_text())[WHAT]["files"]["rows.parquet"]
    assert stored == {"bytes": 1, "sha256": hashlib.sha256(b"1").hexdigest()}
    again = f"prepare it again: logofair data prepare toy --from PATH --cache {tmp_path / '0'} --force."
    (folder / "rows.parquet").write_bytes(b"12")
    with pytest.raises(InputError) as caught:
        check_about(folder, "toy")
    assert str(caught.value) == f"{folder / 'rows.parquet'}: is missing or damaged; {again}"
    (folder / "rows.parquet").unlink()
    with pytest.raises(InputError) as caught:
        check_about(folder, "toy")
    assert str(caught.value) == f"{folder / 'rows.parquet'}: is missing or damaged; {again}"


def test_the_room_is_imported_without_polars_pillow_and_torch() -> None:
    code = "import logofair.datasets, sys; print(sorted({'polars', 'PIL', 'torch', 'click'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
