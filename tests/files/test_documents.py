"""Documents on disk: what was written comes back to the bit, and any other file says what is wrong with it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from logofair.columns.checks import Floats
from logofair.columns.segments import Booleans, Indices
from logofair.errors import InputError
from logofair.files.documents import Document
from logofair.records import FAULTS, checked, listed, plain
from logofair.records import read as read_record
from support.examples import examples

modest = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
posix = pytest.mark.skipif(os.name != "posix", reason="permissions and folders as on POSIX")
FORMAT, WHAT = "logofair server checkpoint", "server checkpoint"


def document(**options: object) -> Document[dict]:
    return Document(dict, FORMAT, 2, WHAT, **options)


def write(path: Path, body: dict, **options: object) -> Path:
    document(**options).write(path, body)
    return path


def read(path: Path, **options: object) -> dict:
    return document(**options).read(path)


def refused(path: Path, **options: object) -> str:
    """The one sentence with which a file is refused, without the file's name."""
    with pytest.raises(InputError) as error:
        read(path, **options)
    sentence = str(error.value)
    assert sentence.startswith(f"{path}: ")
    assert sentence.endswith(".")
    return sentence.removeprefix(f"{path}: ")


# ---------------------------------------------------------------- round trips

finite = st.floats(allow_nan=False, allow_infinity=False)
text = st.text(st.characters(codec="utf-8"), max_size=8)
bodies = st.dictionaries(
    text,
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), finite, text),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=4,
)


@given(bodies)
@modest
def test_any_body_comes_back_with_its_types_and_to_the_last_bit(tmp_path, body):
    # repr tells 1 from 1.0 and True, and -0.0 from 0.0
    assert repr(read(write(tmp_path / "run.json", body))) == repr(body)


@given(arrays.arrays(np.float64, arrays.array_shapes(max_dims=3, max_side=4), elements=finite))
@modest
def test_arrays_come_back_to_the_last_bit(tmp_path, array):
    body = read(write(tmp_path / "run.json", {"x": array}))
    got = read_record(body["x"], Floats).reshape(array.shape)
    assert (got.dtype, got.shape) == (array.dtype, array.shape)
    assert got.tobytes() == array.tobytes()


def test_keys_that_are_no_text_come_back_as_text_in_a_file_that_can_be_read(tmp_path):
    body = {"rows": {10: "a", 9: "b", 2: "c"}}  # sorted as numbers and as text they stand in different order
    assert read(write(tmp_path / "run.json", body)) == {"rows": {"10": "a", "9": "b", "2": "c"}}


def test_the_body_stands_under_its_own_name(tmp_path):
    document = json.loads(write(tmp_path / "run.json", {"round": 3}).read_text(encoding="utf-8"))
    assert list(document) == ["format", "version", "checksum", WHAT]
    assert (document["format"], document["version"], document[WHAT]) == (FORMAT, 2, {"round": 3})
    # printf '{"round":3}' | sha256sum
    assert document["checksum"] == "2fb5efd3a3ae7ad619f7f4f2ebca7405e89454529d6e2ab5d0751826a9ea1156"


def test_what_json_cannot_hold_is_refused_and_leaves_the_old_file(tmp_path):
    path = write(tmp_path / "run.json", {"round": 1})
    for value in (object(), float("nan"), float("inf"), "\ud800", {1: 2, "a": 3, (): 4}, {1}, 1j):
        with pytest.raises(InputError, match=r"^save: the server checkpoint holds a label or value that JSON cannot"):
            write(path, {"round": value})
    assert read(path) == {"round": 1}
    assert list(tmp_path.iterdir()) == [path]


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0\1\2\xff\xfe",
        b"\xef\xbb\xbf",
        bytes(range(256)) * 20,
        b"PK\3\4 not a zip",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{",
        b"nonsense",
        b"1" * 10_000,
    ],
    ids=range(10),
)
def test_what_is_no_json_is_refused(data, tmp_path):
    (tmp_path / "run.json").write_bytes(data)
    assert refused(tmp_path / "run.json").endswith("cut short: it is no valid JSON; save the server checkpoint again.")


@pytest.mark.parametrize("data", [b"null", b"[]", b"3", b'"x"', b"{}", b'{"format": "other"}', b'{"format": null}'])
def test_other_json_is_refused(data, tmp_path):
    (tmp_path / "run.json").write_bytes(data)
    assert refused(tmp_path / "run.json") == f"not a server checkpoint file: it lacks the format mark {FORMAT!r}."


@pytest.mark.parametrize("version", [3, 10, 10**30])
def test_a_newer_file_asks_for_an_upgrade_whatever_else_it_holds(version, tmp_path):
    newer = {"format": FORMAT, "version": version, "rounds": "in some new form"}
    (tmp_path / "run.json").write_text(json.dumps(newer))
    sentence = f"written by a newer version (file {version}, known 2); upgrade logofair."
    assert refused(tmp_path / "run.json") == sentence


@pytest.mark.parametrize(
    ("name", "mark", "sentence"),
    [
        *(("version", mark, "its version mark") for mark in (0, -1, "2", None, 2.0, True, [2], {})),
        *(("checksum", mark, "its contents do not match its checksum") for mark in (None, "", 5, "0" * 64, [])),
        ("version", 1, "written by an older version (file 1, known 2); make the server checkpoint again."),
        (WHAT, [], "its version mark 2 or its contents are damaged; save the server checkpoint again."),
    ],
    ids=repr,
)
def test_strange_marks_are_refused(name, mark, sentence, tmp_path):
    path = write(tmp_path / "run.json", {"round": 3})
    path.write_text(json.dumps({**json.loads(path.read_text()), name: mark}))
    assert refused(path).startswith(sentence)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(number, tmp_path):
    path = write(tmp_path / "run.json", {"share": 0.25})
    path.write_text(path.read_text().replace("0.25", number))
    assert "no valid JSON" in refused(path)


def test_a_changed_number_is_told_from_damage(tmp_path):
    path = write(tmp_path / "run.json", {"share": 0.25})
    path.write_text(path.read_text().replace("0.25", "0.26"))
    assert refused(path) == "its contents do not match its checksum; it was damaged or edited: save it again."


def test_a_remedy_replaces_the_advice_to_save_again(tmp_path):
    path = write(tmp_path / "run.json", {"share": 0.25})
    data = path.read_text(encoding="utf-8")
    for changed in (data[:-2], data.replace('n": 2', 'n": 1'), data.replace('n": 2', 'n": null')):
        path.write_text(changed, encoding="utf-8")
        assert refused(path, remedy="start the run again").endswith("; start the run again.")
    path.write_text(data.replace("0.25", "0.26"), encoding="utf-8")
    assert refused(path, remedy="start the run again").endswith("damaged or edited: start the run again.")
    path.write_text(data.replace("0.25", "Infinity"), encoding="utf-8")
    assert refused(path, remedy="start the run again").endswith("no valid JSON; start the run again.")


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    path = write(tmp_path / "run.json", {"round": 3, "name": "Köln"})
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        refused(path)


@dataclass(frozen=True)
class Round:
    number: int
    share: float = 0.5

    def __post_init__(self) -> None:
        if self.number == 13:
            raise InputError("its number is 13.")


def test_a_record_that_is_not_as_declared_is_refused_with_one_sentence(tmp_path):
    kind, path = Document(Round, FORMAT, 2, WHAT, "ask for it"), tmp_path / "a.json"
    for body in ({"number": "3"}, {}, {"number": 3, "more": 1}, {"number": True}, {"number": 3, "share": None}):
        write(path, body)
        with pytest.raises(InputError, match="parts of the server checkpoint are missing or malformed; ask for it"):
            kind.read(path)
    write(path, {"number": 13})
    with pytest.raises(InputError, match=r"a\.json: its number is 13\.$"):
        kind.read(path)
    kind.write(path, Round(3))
    assert kind.read(path) == Round(3)


# ---------------------------------------------------------------- replacing


def test_bytes_are_on_disk_before_the_file_gets_its_name(tmp_path, monkeypatch):
    steps: list[tuple[str, bytes | None]] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        parts = [entry for entry in tmp_path.iterdir() if ".part" in entry.name]
        steps.append(("folder", None) if folder else ("file", parts[0].read_bytes()))
        fsync(handle)

    def renamed(source: Path, target: Path) -> None:
        steps.append(("rename", None))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    path = write(tmp_path / "run.json", {"round": 3})
    assert [name for name, _ in steps] == ["file", "rename", "folder"][: 3 if os.name == "posix" else 2]
    assert steps[0][1] == path.read_bytes()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_step_leaves_the_old_file_and_nothing_else(step, tmp_path, monkeypatch):
    path = write(tmp_path / "run.json", {"round": 1})

    def fail(*args: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(InputError, match=r"run\.json: cannot be written \(Input/output error\); choose a folder"):
            write(path, {"round": 2})
    assert read(path) == {"round": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_synced_is_no_failure(tmp_path, monkeypatch):
    fsync = os.fsync

    def refuses_folders(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(22, "Invalid argument")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refuses_folders)
    assert read(write(tmp_path / "run.json", {"round": 1})) == {"round": 1}


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_process_killed_while_writing_leaves_the_old_document(step, tmp_path):
    path = write(tmp_path / "run.json", {"round": 1})
    code = f"""
        import os, sys
        from logofair.files.documents import Document
        os.{step} = lambda *args: os._exit(9)
        Document(dict, {FORMAT!r}, 2, {WHAT!r}).write(sys.argv[1], {{"round": 2}})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(path)], timeout=60, check=False)
    assert done.returncode == 9
    assert read(path) == {"round": 1}
    assert read(write(path, {"round": 3})) == {"round": 3}


@posix
def test_a_private_document_is_its_owners_from_the_first_byte_on(tmp_path, monkeypatch):
    modes: list[int] = []
    fsync = os.fsync

    def synced(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            modes.append(stat.S_IMODE(os.fstat(handle).st_mode))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    before = os.umask(0)
    try:
        path = write(tmp_path / "key.json", {"key": "secret"}, private=True)
        open_to_all = write(tmp_path / "run.json", {"round": 1})
    finally:
        os.umask(before)
    assert modes == [0o600, 0o666]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(open_to_all.stat().st_mode) == 0o666


@posix
def test_a_private_document_does_not_inherit_open_permissions(tmp_path):
    path = write(tmp_path / "key.json", {"key": 1})
    path.chmod(0o644)
    write(path, {"key": 2}, private=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read(path) == {"key": 2}


# ---------------------------------------------------------------- paths


@pytest.mark.parametrize("path", [5, None, b"run.json", ["run.json"]], ids=repr)
def test_what_is_no_path_is_refused(path):
    for use in (read, lambda path: write(path, {})):
        with pytest.raises(InputError, match=r"^path: got .*; pass a file name\.$"):
            use(path)


@pytest.mark.parametrize("as_path", [str, lambda path: path, lambda path: os.path.relpath(path)])
def test_a_path_may_be_text_or_a_path(as_path, tmp_path):
    assert read(write(as_path(tmp_path / "run.json"), {"round": 1})) == {"round": 1}


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    assert refused(tmp_path) == "is a folder or no regular file; pass a file name."
    assert refused(tmp_path / "none.json") == "cannot be read (No such file or directory); check the path."
    assert "cannot be read" in refused("a\0b")


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "run.json", tmp_path / "file" / "run.json"):
        with pytest.raises(InputError, match=r"cannot be written \(.*\); choose a folder that exists") as error:
            write(path, {})
        assert str(error.value).startswith(str(path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", ["a\0b", "x" * 300])
def test_a_name_no_file_can_have_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / name, {})
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_a_file_can_have_will_do(tmp_path):
    assert read(write(tmp_path / ("x" * 250), {"round": 1})) == {"round": 1}


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InputError, match=r"cannot be written \(Permission denied\)"):
            write(tmp_path / "run.json", {})
    finally:
        tmp_path.chmod(0o700)


@posix
def test_only_regular_files_are_read_and_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe", ""):
        for use in (read, lambda path: write(path, {})):  # to read a pipe would wait for ever
            with pytest.raises(InputError, match=r"is a folder or no regular file; pass a file name\.$"):
                use(tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["folder", "pipe"]


@posix
@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)], ids=oct)
def test_a_new_file_has_the_permissions_of_any_other_and_keeps_its_own(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        path = write(tmp_path / "run.json", {"round": 1})
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == mode
    path.chmod(0o640)
    assert read(write(path, {"round": 2})) == {"round": 2}
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix
def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "current.json").symlink_to(tmp_path / "folder" / "run.json")
    write(tmp_path / "current.json", {"round": 1})
    assert (tmp_path / "current.json").is_symlink()
    assert read(tmp_path / "folder" / "run.json") == {"round": 1}


# ---------------------------------------------------------------- labels, numbers


labels = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), finite, text),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(labels)
@modest
def test_any_label_comes_back_through_json_with_its_type(label):
    assert repr(read_record(json.loads(json.dumps(plain(label))), Hashable)) == repr(label)


@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ([1.0, 2.0], (3,)),
        ([1.0, 2.0], (2, 1)),
        ([1.0, 2.0], ()),
        ([[1.0], [2.0, 3.0]], (2, None)),
        ([1.0, "2"], (2,)),
        ([1.0, None], (2,)),
        ([True, False], (2,)),
        (["NaN"], (1,)),
        (["Infinity"], (1,)),
        ([2**70], (1,)),
        ([10**400], (1,)),
        ([], (1,)),
        ([], (2, 3)),
        ({}, (None,)),
        (None, (None,)),
        ("1", (None,)),
    ],
    ids=repr,
)
def test_numbers_of_another_shape_or_kind_are_refused(values, shape):
    with pytest.raises(FAULTS):
        checked(read_record(values, Floats), shape)


@pytest.mark.parametrize(("kind", "value"), [(Floats, True), (Indices, 0.5), (Indices, True), (Booleans, 1)], ids=repr)
def test_numbers_of_another_type_are_refused(kind, value):
    with pytest.raises(FAULTS):
        read_record([value], kind)


def test_infinite_numbers_of_an_array_stand_by_name():
    array = np.array([[np.inf, 1.0], [-np.inf, np.nan]])
    assert listed(array) == [["Infinity", 1.0], ["-Infinity", "NaN"]]
    assert read_record(json.loads(json.dumps(listed(array))), Floats).tobytes() == array.tobytes()


def test_numbers_outside_their_range_are_refused():
    checked(np.array([0.0, 1.0]), (2,), low=0, high=1)
    checked(np.zeros((2, 0)), (2, None))
    for values in ([-1e-300, 1], [0, np.nextafter(1, 2)]):
        with pytest.raises(ValueError, match="numbers"):
            checked(np.array(values), (2,), low=0, high=1)


def test_a_name_that_stands_twice_is_refused_wherever_it_stands(tmp_path):
    path = write(tmp_path / "a.json", {"deep": {"tolerance": 0.1}})
    text = path.read_text()
    for name, value in (("version", "2"), ("tolerance", "0.1")):
        path.write_text(text.replace(f'"{name}": {value}', f'"{name}": 7, "{name}": {value}'))
        assert path.read_text() != text
        with pytest.raises(InputError, match="no valid JSON"):
            read(path)
