"""Documents on disk: what was written comes back to the bit, and any other file says what is wrong with it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from logofair.errors import InputError
from logofair.files.documents import (
    label_in,
    label_out,
    labels_in,
    numbers_in,
    numbers_out,
    of_type,
    or_damaged,
    read_document,
    write_document,
)
from support.examples import examples

modest = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
posix = pytest.mark.skipif(os.name != "posix", reason="permissions and folders as on POSIX")
FORMAT, WHAT = "logofair server checkpoint", "server checkpoint"


def write(path: Path, body: dict, **options: object) -> Path:
    write_document(path, FORMAT, 2, body, what=WHAT, **options)
    return path


def read(path: Path, **options: object) -> dict:
    return read_document(path, FORMAT, 2, what=WHAT, **options)


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
    body = read(write(tmp_path / "run.json", {"x": numbers_out(array)}))
    got = numbers_in(body["x"], array.shape)
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
    for value in (object(), float("nan"), float("inf"), "\ud800", {1: 2, "a": 3, (): 4}, b"x", np.float32(1)):
        with pytest.raises(InputError, match=r"^save: the server checkpoint holds a label or value that JSON cannot"):
            write(path, {"round": value})
    assert read(path) == {"round": 1}
    assert list(tmp_path.iterdir()) == [path]


# ---------------------------------------------------------------- damage


def test_each_kind_of_wrong_file_has_its_own_sentence(tmp_path):
    path = write(tmp_path / "run.json", {"round": 3, "share": 0.25})
    data = path.read_text(encoding="utf-8")
    again = "save the server checkpoint again."
    for changed, sentence in (
        (data[:-2], f"not a server checkpoint file, or cut short: it is no valid JSON; {again}"),
        ("", f"not a server checkpoint file, or cut short: it is no valid JSON; {again}"),
        (data.replace(FORMAT, "logofair plan"), f"not a server checkpoint file: it lacks the format mark {FORMAT!r}."),
        (data.replace('n": 2', 'n": 3'), "written by a newer version (file 3, known 2); upgrade logofair."),
        (
            data.replace('n": 2', 'n": 1'),
            "written by an older version (file 1, known 2); make the server checkpoint again.",
        ),
        (data.replace('n": 2', 'n": 0'), f"its version mark 0 or its contents are damaged; {again}"),
        (data.replace('n": 2', 'n": true'), f"its version mark True or its contents are damaged; {again}"),
        (data.replace(f'"{WHAT}":', '"plan":'), f"its version mark 2 or its contents are damaged; {again}"),
        (
            data.replace("0.25", "0.26"),
            "its contents do not match its checksum; it was damaged or edited: save it again.",
        ),
        (data.replace("0.25", "NaN"), f"parts of the server checkpoint are missing or malformed; {again}"),
    ):
        assert changed != data
        path.write_text(changed, encoding="utf-8")
        assert refused(path) == sentence


def test_a_remedy_replaces_the_advice_to_save_again(tmp_path):
    path = write(tmp_path / "run.json", {"share": 0.25})
    data = path.read_text(encoding="utf-8")
    for changed in (data[:-2], data.replace('n": 2', 'n": 1'), data.replace('n": 2', 'n": null')):
        path.write_text(changed, encoding="utf-8")
        assert refused(path, remedy="start the run again").endswith("; start the run again.")
    path.write_text(data.replace("0.25", "0.26"), encoding="utf-8")
    assert refused(path, remedy="start the run again").endswith("damaged or edited: start the run again.")
    path.write_text(data.replace("0.25", "Infinity"), encoding="utf-8")
    assert refused(path, remedy="start the run again").endswith("malformed; start the run again.")


def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    path = write(tmp_path / "run.json", {"round": 3, "name": "Köln"})
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        refused(path)


def test_taking_a_body_apart_fails_with_one_sentence():
    for wrong in (KeyError("x"), TypeError("x"), ValueError("x"), AttributeError(), OverflowError(), RecursionError()):

        def fail(wrong: Exception = wrong) -> None:
            raise wrong

        with pytest.raises(InputError, match=r"^a\.json: parts of the plan are missing or malformed; ask for it\.$"):
            or_damaged(fail, "a.json", what="plan", remedy="ask for it")

    def refuse() -> None:
        raise InputError("its groups are others.")

    with pytest.raises(InputError, match=r"^a\.json: its groups are others\.$"):
        or_damaged(refuse, "a.json", what="plan")
    assert or_damaged(lambda: 3, "a.json", what="plan") == 3


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
        from logofair.files.documents import write_document
        os.{step} = lambda *args: os._exit(9)
        write_document(sys.argv[1], {FORMAT!r}, 2, {{"round": 2}}, what={WHAT!r})
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


# ---------------------------------------------------------------- labels, numbers, types


labels = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), finite, text),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(labels)
@modest
def test_any_label_comes_back_through_json_with_its_type(label):
    assert repr(label_in(json.loads(json.dumps(label_out(label, "group"))))) == repr(label)


def test_labels_of_other_types_are_refused_by_name():
    with pytest.raises(InputError, match=r"^save: site b'x' is of type bytes; only text, numbers and tuples can be"):
        label_out(("a", b"x"), "site")


@pytest.mark.parametrize("values", [[], ["a", "a"], [1, True], "ab", None, {"a": 1}, [["a"]], [{"list": []}]], ids=repr)
def test_stored_labels_must_be_a_list_of_different_labels(values):
    with pytest.raises((TypeError, ValueError, LookupError)):
        labels_in(values)


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
        ([float("nan")], (1,)),
        ([float("inf")], (1,)),
        ([2**70], (1,)),
        ([], (1,)),
        ([], (2, 3)),
        ({}, (None,)),
        (None, (None,)),
        ("1", (None,)),
    ],
    ids=repr,
)
def test_numbers_of_another_shape_or_kind_are_refused(values, shape):
    with pytest.raises(ValueError):
        numbers_in(values, shape)


def test_numbers_come_in_any_length_where_none_is_given():
    assert numbers_in([[1, 2.5]], (None, 2)).tolist() == [[1.0, 2.5]]
    assert numbers_in([], (None, 3)).shape == (0, 3)
    assert numbers_in(numbers_out(np.zeros((0, 4))), (0, 4)).shape == (0, 4)
    assert numbers_in([[], []], (2, None)).shape == (2, 0)


def test_numbers_outside_their_range_are_refused():
    assert numbers_in([0, 1], (2,), low=0, high=1).tolist() == [0.0, 1.0]
    for values in ([-1e-300, 1], [0, np.nextafter(1, 2)]):
        with pytest.raises(ValueError):
            numbers_in(values, (2,), low=0, high=1)


def test_a_type_is_exactly_that_type():
    assert of_type(True, bool) is True
    for value, kind in ((True, int), (1, float), ((), list), (None, dict)):
        with pytest.raises(TypeError):
            of_type(value, kind)


@posix
def test_a_pipe_in_place_of_a_document_is_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "policy.json")
    with pytest.raises(InputError, match="is no regular file; pass one"):
        read_document(tmp_path / "policy.json", FORMAT, 2, what=WHAT)


def test_a_name_that_stands_twice_is_refused_wherever_it_stands(tmp_path):
    path = write(tmp_path / "a.json", {"deep": {"tolerance": 0.1}})
    text = path.read_text()
    for name, value in (("version", "2"), ("tolerance", "0.1")):
        path.write_text(text.replace(f'"{name}": {value}', f'"{name}": 7, "{name}": {value}'))
        assert path.read_text() != text
        with pytest.raises(InputError, match="no valid JSON"):
            read_document(path, FORMAT, 2, what=WHAT)
